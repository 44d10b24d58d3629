//! Through which interface do a connection's packets go, how fast is its link, and what was lost at it?
//!
//! Asked of `NETLINK_ROUTE`, which answers for the network namespace of the socket; sysfs shows that of
//! whoever mounted it, so it is believed only where its interface has the same hardware address. What the
//! kernel dropped for want of time is [`softnet`]'s.

use std::net::IpAddr;

use weir_model::evidence::Reading;
use weir_units::Rate;

use crate::error::ObserveError;
use crate::netlink::{Message, Netlink, attributes, long, push_attribute, word};
use crate::proc_file::{number, read_once};

pub mod addresses;
pub mod links;
pub mod softnet;

/// Message types (include/uapi/linux/rtnetlink.h).
const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const NEW_NEIGHBOUR: u16 = 28;
const GET_NEIGHBOUR: u16 = 30;
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;
const NEW_QDISC: u16 = 36;
const GET_QDISC: u16 = 38;

/// Sizes of the fixed parts: `struct ndmsg`, `struct rtmsg`, `struct ifinfomsg`, `struct tcmsg`.
const NEIGHBOUR_FIXED: usize = 12;
const ROUTE_FIXED: usize = 12;
const LINK_FIXED: usize = 16;
const QDISC_FIXED: usize = 20;

/// `TC_H_ROOT`: the qdisc that packets meet first, whose counters hold those of the ones below.
const ROOT: u32 = u32::MAX;

/// An interface, and what passed it since it came up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// `eth0`.
    pub name: String,
    /// What makes it up where no hardware does: `veth`, `tun`, `bridge`.
    pub kind: Option<String>,
    /// It leads back to this machine.
    pub loopback: bool,
    /// The hardware address; empty where there is none.
    pub address: Vec<u8>,
    /// Its counters.
    pub counters: Counters,
}

/// What passed an interface, or was lost there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes in.
    pub received: u64,
    /// Bytes out.
    pub sent: u64,
    /// Packets broken on the way in or out.
    pub errors: u64,
    /// Packets in that found no room, in the device or above it.
    pub receive_drops: u64,
    /// Packets out that found no room.
    pub send_drops: u64,
}

/// The queue in front of an interface.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Queue {
    /// `fq_codel`.
    pub kind: String,
    /// Bytes waiting in it.
    pub backlog: u64,
    /// Packets dropped by it; wraps at 2^32.
    pub drops: u32,
    /// The rate to which a token bucket (`tbf`) shapes.
    pub rate: Option<Rate>,
}

/// Where packets to some host go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// The number of the interface.
    pub interface: u32,
    /// The router's address, or the host's own where none is between.
    pub address: IpAddr,
}

/// Asks the kernel's routing.
#[derive(Debug)]
pub struct Routing(Netlink);

impl Routing {
    /// Opens it in the calling thread's network namespace; needs no privilege.
    pub fn open() -> Result<Routing, ObserveError> {
        // NETLINK_ROUTE is protocol 0.
        Netlink::open(None, 0)
            .map(Routing)
            .map_err(|cause| ObserveError::unreadable("the routes (NETLINK_ROUTE)", cause))
    }

    /// The number of the interface through which packets to `peer` leave.
    pub(crate) fn interface_to(&mut self, peer: IpAddr) -> Result<u32, ObserveError> {
        self.route_to(peer, parse_route)
    }

    /// Where packets to `peer` go first.
    pub fn hop_to(&mut self, peer: IpAddr) -> Result<Hop, ObserveError> {
        self.route_to(peer, |route| parse_hop(route, peer))
    }

    fn route_to<T>(&mut self, peer: IpAddr, parse: impl Fn(&[u8]) -> Option<T>) -> Result<T, ObserveError> {
        let what = || format!("the route to {peer}");
        let mut found = None;
        self.0
            .ask(GET_ROUTE, false, &route_request(peer), |message| {
                found = payload(message, NEW_ROUTE).and_then(&parse);
            })
            .map_err(|cause| ObserveError::unreadable(what(), cause))?;
        found.ok_or_else(|| ObserveError::Absent(format!("{} names no interface", what())))
    }

    /// The hardware address of a neighbour, as far as the kernel has had to find it out.
    pub fn neighbour(&mut self, interface: u32, address: IpAddr) -> Result<Vec<u8>, ObserveError> {
        let what = || format!("the hardware address of {address}");
        let (family, bytes) = family_of(address);
        let mut request = vec![0; NEIGHBOUR_FIXED];
        request[0] = family;
        request[4..8].copy_from_slice(&interface.to_ne_bytes());
        // NDA_DST.
        push_attribute(&mut request, 1, &bytes);
        let mut found = None;
        self.0
            .ask(GET_NEIGHBOUR, false, &request, |message| {
                found = payload(message, NEW_NEIGHBOUR).and_then(parse_neighbour);
            })
            .map_err(|cause| ObserveError::unreadable(what(), cause))?;
        found.ok_or_else(|| ObserveError::Absent(format!("{} is not known", what())))
    }

    /// An interface as it is now.
    pub fn interface(&mut self, index: u32) -> Result<Interface, ObserveError> {
        let mut request = vec![0; LINK_FIXED];
        request[4..8].copy_from_slice(&index.to_ne_bytes());
        let mut found = None;
        self.0
            .ask(GET_LINK, false, &request, |message| {
                found = payload(message, NEW_LINK).and_then(parse_interface);
            })
            .map_err(|cause| ObserveError::unreadable(format!("interface {index}"), cause))?;
        found.ok_or_else(|| ObserveError::Absent(format!("interface {index} has no name")))
    }

    /// The root queue of an interface; `None` where packets go straight to it (`noqueue`).
    pub fn queue(&mut self, index: u32) -> Result<Option<Queue>, ObserveError> {
        let mut request = vec![0; QDISC_FIXED];
        request[4..8].copy_from_slice(&index.to_ne_bytes());
        let mut found = None;
        self.0
            .ask(GET_QDISC, true, &request, |message| {
                let queue = payload(message, NEW_QDISC).and_then(|bytes| parse_queue(bytes, index));
                found = found.take().or(queue);
            })
            .map_err(|cause| ObserveError::unreadable(format!("the queue of interface {index}"), cause))?;
        Ok(found)
    }
}

fn payload<'a>(message: Message<'a>, kind: u16) -> Option<&'a [u8]> {
    (message.kind == kind).then_some(message.payload)
}

/// `struct rtmsg` with `RTA_DST`, type 1.
fn route_request(peer: IpAddr) -> Vec<u8> {
    let (family, bytes) = family_of(peer);
    let mut request = vec![0; ROUTE_FIXED];
    (request[0], request[1]) = (family, 8 * bytes.len() as u8);
    push_attribute(&mut request, 1, &bytes);
    request
}

/// AF_INET or AF_INET6, and the address's bytes.
fn family_of(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (2, address.octets().to_vec()),
        IpAddr::V6(address) => (10, address.octets().to_vec()),
    }
}

/// `RTA_OIF` and `RTA_GATEWAY`, types 4 and 5; `None` where the router has an address of the other family
/// (`RTA_VIA`).
pub(crate) fn parse_hop(bytes: &[u8], peer: IpAddr) -> Option<Hop> {
    const GATEWAY: u16 = 5;
    const VIA: u16 = 18;
    let mut hop = Hop { interface: parse_route(bytes)?, address: peer };
    for (kind, value) in attributes(bytes.get(ROUTE_FIXED..)?) {
        hop.address = match (kind, peer) {
            (VIA, _) => return None,
            (GATEWAY, IpAddr::V4(_)) => <[u8; 4]>::try_from(value).ok()?.into(),
            (GATEWAY, IpAddr::V6(_)) => <[u8; 16]>::try_from(value).ok()?.into(),
            _ => hop.address,
        };
    }
    Some(hop)
}

/// `NDA_LLADDR` of a neighbour, type 2; `None` where it did not answer.
pub(crate) fn parse_neighbour(bytes: &[u8]) -> Option<Vec<u8>> {
    let (_, value) = attributes(bytes.get(NEIGHBOUR_FIXED..)?).find(|(kind, _)| *kind == 2)?;
    Some(value.to_vec())
}

/// `RTA_OIF` of a route, type 4; `None` without one, as on a route over several interfaces.
pub fn parse_route(bytes: &[u8]) -> Option<u32> {
    let (_, value) = attributes(bytes.get(ROUTE_FIXED..)?).find(|(kind, _)| *kind == 4)?;
    word(value, 0)
}

/// Reads `struct ifinfomsg` and its attributes; `None` without a name.
pub fn parse_interface(bytes: &[u8]) -> Option<Interface> {
    const LOOPBACK: u32 = 8;
    let mut found = Interface { loopback: word(bytes, 8)? & LOOPBACK != 0, ..Interface::default() };
    for (kind, value) in attributes(bytes.get(LINK_FIXED..)?) {
        match kind {
            // IFLA_ADDRESS, IFLA_IFNAME, IFLA_LINKINFO with IFLA_INFO_KIND, IFLA_STATS64.
            1 => found.address = value.to_vec(),
            3 => found.name = text(value)?,
            18 => {
                found.kind = attributes(value).find(|(kind, _)| *kind == 1).and_then(|(_, name)| text(name))
            }
            23 => found.counters = parse_counters(value),
            _ => {}
        }
    }
    (!found.name.is_empty()).then_some(found)
}

/// `struct rtnl_link_stats64`: packets in and out, bytes in and out, errors in and out, drops in and out, and
/// in the fifteenth place those that the device itself missed.
fn parse_counters(value: &[u8]) -> Counters {
    let field = |place: usize| long(value, 8 * place).unwrap_or_default();
    Counters {
        received: field(2),
        sent: field(3),
        errors: field(4).saturating_add(field(5)),
        receive_drops: field(6).saturating_add(field(14)),
        send_drops: field(7),
    }
}

/// Reads `struct tcmsg` and its attributes: the root qdisc of `interface`, or `None`.
pub fn parse_queue(bytes: &[u8], interface: u32) -> Option<Queue> {
    if (word(bytes, 4)?, word(bytes, 12)?) != (interface, ROOT) {
        return None;
    }
    let mut found = Queue::default();
    let mut options: &[u8] = &[];
    for (kind, value) in attributes(bytes.get(QDISC_FIXED..)?) {
        match kind {
            // TCA_KIND, TCA_OPTIONS, TCA_STATS2 with TCA_STATS_QUEUE: length, backlog, drops, requeues,
            // overlimits.
            1 => found.kind = text(value)?,
            2 => options = value,
            7 => {
                let Some((_, stats)) = attributes(value).find(|(kind, _)| *kind == 3) else { continue };
                found.backlog = word(stats, 4).unwrap_or_default().into();
                found.drops = word(stats, 8).unwrap_or_default();
            }
            _ => {}
        }
    }
    if found.kind == "tbf" {
        found.rate = parse_token_bucket(options);
    }
    (!found.kind.is_empty() && found.kind != "noqueue").then_some(found)
}

/// `TCA_TBF_RATE64`, else the rate at the end of the `struct tc_ratespec` with which `TCA_TBF_PARMS` begins.
fn parse_token_bucket(options: &[u8]) -> Option<Rate> {
    let of = |wanted: u16| attributes(options).find_map(|(kind, value)| (kind == wanted).then_some(value));
    let wide = of(4).and_then(|value| long(value, 0));
    let rate = wide.or_else(|| of(1).and_then(|value| word(value, 8)).map(u64::from))?;
    (rate > 0).then_some(Rate(rate as f64))
}

/// A text with its final zero; `None` where it would not be printable.
fn text(value: &[u8]) -> Option<String> {
    let bytes = value.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = std::str::from_utf8(bytes).ok()?;
    text.chars().all(|letter| !letter.is_control()).then(|| text.to_owned())
}

/// The rate of the interface's link, headers included; missing, with the reason, where nothing real stands
/// behind it.
pub fn link_rate(interface: &Interface) -> Reading<Rate> {
    let name = &interface.name;
    let why = |text: String| Reading::Missing(text);
    if interface.loopback {
        return why(format!("{name} leads back to this machine: it has no line rate"));
    }
    // A veth pair tells 10 Gbit/s, a TUN device 10 Mbit/s, whatever passes through.
    if let Some(kind) = &interface.kind {
        return why(format!("{name} is a {kind} device: the speed it reports is made up"));
    }
    let folder = format!("/sys/class/net/{name}");
    let hardware = std::fs::read_to_string(format!("{folder}/address")).unwrap_or_default();
    if hardware.trim() != colons(&interface.address)
        || !std::path::Path::new(&format!("{folder}/device")).exists()
    {
        return why(format!("{name} has no hardware that is to be seen from here"));
    }
    match speed(std::path::Path::new(&folder)) {
        Some(rate) => Reading::Value(rate),
        None => why(format!("the driver of {name} does not report the speed of its link")),
    }
}

/// What the driver says of the interface with this folder in `/sys/class/net`, in Mbit/s
/// (Documentation/ABI/testing/sysfs-class-net): -1 where it does not know, an error while the link is down.
fn speed(folder: &std::path::Path) -> Option<Rate> {
    let megabits =
        read_once(&folder.join("speed").to_string_lossy(), |text| number("speed", Some(text))).ok()?;
    (megabits > 0).then_some(Rate(megabits as f64 * 125_000.0))
}

fn colons(address: &[u8]) -> String {
    let parts: Vec<String> = address.iter().map(|byte| format!("{byte:02x}")).collect();
    parts.join(":")
}

impl Counters {
    /// What came between two readings; an interface that was made anew counts from nothing.
    pub fn since(&self, before: &Counters) -> Counters {
        Counters {
            received: self.received.saturating_sub(before.received),
            sent: self.sent.saturating_sub(before.sent),
            errors: self.errors.saturating_sub(before.errors),
            receive_drops: self.receive_drops.saturating_sub(before.receive_drops),
            send_drops: self.send_drops.saturating_sub(before.send_drops),
        }
    }
}

#[cfg(test)]
mod tests;
