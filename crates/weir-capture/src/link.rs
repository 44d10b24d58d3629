//! Which TCP segment is in a packet? Link layers, IP and TCP, however much of the packet was kept.
//!
//! Lengths come from the IP header, so a capture of the first 96 bytes of each packet counts the same bytes
//! as a whole one. `etherparse` reads IP, its extension headers and TCP; the few link layers are a table
//! here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use etherparse::{
    IpNumber, Ipv4HeaderSlice, Ipv6ExtensionsSlice, Ipv6HeaderSlice, TcpOptionElement, TcpOptionsIterator,
    ip_number,
};

use crate::source::Packet;

/// Both ends of a connection, in an order that does not depend on who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The lower and the higher one.
    pub ends: [SocketAddr; 2],
}

/// One TCP segment: what the judge needs of it.
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    /// Its connection.
    pub key: Key,
    /// Which of the two ends sent it.
    pub from: usize,
    /// Sequence number of the first payload byte (of SYN, without it).
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Window as it is in the header.
    pub window: u16,
    /// Flags.
    pub syn: bool,
    /// See `syn`.
    pub fin: bool,
    /// See `syn`.
    pub rst: bool,
    /// See `syn`: whether `ack` counts.
    pub acks: bool,
    /// Payload bytes on the wire.
    pub payload: u32,
    /// The IP header's identification, 0 where there is none: a packet that is captured twice has it twice.
    pub id: u16,
    /// The congestion mark (CE) of the IP header.
    pub marked: bool,
    /// The interface on which it was captured, where several were.
    pub interface: u32,
    /// Options, as far as they were kept.
    pub options: Options,
    /// The capture's snaplen cut them: what is not among them may have been there.
    pub options_cut: bool,
}

/// What a header's options say.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Largest segment that the end takes.
    pub mss: Option<u16>,
    /// Window scale.
    pub scale: Option<u8>,
    /// Timestamp and the one it echoes.
    pub stamps: Option<(u32, u32)>,
    /// The first block of a selective acknowledgment, and the bytes in all its blocks.
    pub sack: Option<((u32, u32), u32)>,
    /// The first block repeats what another covers or what was acknowledged (RFC 2883).
    pub duplicate: bool,
}

/// What a packet was.
#[derive(Debug)]
pub enum Found {
    /// TCP.
    Segment(Segment),
    /// Something else.
    Other(OtherPacket),
    /// Headers that are cut or contradict themselves.
    Malformed,
    /// A link layer that is not known here.
    UnknownLink,
}

/// What a packet without a TCP segment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherPacket {
    /// UDP at port 443: QUIC, most often.
    Quic,
    /// Other UDP.
    Udp,
    /// A packet inside another: VXLAN, GENEVE, GRE, IP in IP, IPsec.
    Tunnel,
    /// A fragment of a packet, not the first.
    Fragment,
    /// Anything else: ARP, ICMP.
    Else,
}

/// Looks into a packet.
pub fn look(packet: &Packet<'_>) -> Found {
    let Some(offset) = network(packet.link, packet.data) else {
        return if known(packet.link) { Found::Other(OtherPacket::Else) } else { Found::UnknownLink };
    };
    let Some(data) = packet.data.get(offset..) else { return Found::Malformed };
    let on_wire = (packet.length as usize).saturating_sub(offset);
    let found = match data.first().map(|byte| byte >> 4) {
        Some(4) => ipv4(data, on_wire),
        Some(6) => ipv6(data, on_wire),
        Some(_) => Found::Other(OtherPacket::Else),
        None => Found::Malformed,
    };
    match found {
        Found::Segment(segment) => Found::Segment(Segment { interface: interface(packet), ..segment }),
        found => found,
    }
}

/// The interface's number. Of a capture on `-i any` it stands in the cooked header.
fn interface(packet: &Packet<'_>) -> u32 {
    let cooked = (packet.link == SLL2).then(|| packet.data.get(4..8)).flatten();
    cooked.and_then(|bytes| bytes.try_into().ok()).map_or(packet.interface, u32::from_be_bytes)
}

// LINKTYPE_* (https://www.tcpdump.org/linktypes.html); some have several numbers.
const NULL: u16 = 0;
const ETHERNET: u16 = 1;
const RAW: [u16; 4] = [12, 14, 101, 228];
const PPP: [u16; 2] = [9, 50];
const LOOP: u16 = 108;
const SLL: u16 = 113;
const SLL2: u16 = 276;
const IPV6: u16 = 229;

fn known(link: u16) -> bool {
    RAW.contains(&link) || PPP.contains(&link) || matches!(link, NULL | ETHERNET | LOOP | SLL | SLL2 | IPV6)
}

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_PPPOE: u16 = 0x8864;

/// Where the IP header begins, where there is one.
fn network(link: u16, data: &[u8]) -> Option<usize> {
    match link {
        ETHERNET => tagged(data, 12),
        SLL => tagged(data, 14),
        // Protocol first, then 18 bytes of interface and address.
        SLL2 => match half(data, 0)? {
            ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => Some(20),
            // Tags follow the header.
            0x8100 | 0x88a8 | 0x9100 => tagged(data, 22),
            _ => None,
        },
        // An address family in the byte order of the machine; IPv6 has a number of its own on each BSD. The
        // IP version behind it says the same for certain.
        NULL | LOOP => Some(4),
        IPV6 => Some(0),
        _ if RAW.contains(&link) => Some(0),
        _ if PPP.contains(&link) => ppp(data),
        _ => None,
    }
}

/// Behind an EtherType at `at`, past VLAN tags (four at most: more are an attack) and PPPoE.
fn tagged(data: &[u8], mut at: usize) -> Option<usize> {
    for _ in 0..5 {
        match half(data, at)? {
            ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => return Some(at + 2),
            0x8100 | 0x88a8 | 0x9100 => at += 4,
            ETHERTYPE_PPPOE => return matches!(half(data, at + 8)?, 0x0021 | 0x0057).then_some(at + 10),
            _ => return None,
        }
    }
    None
}

/// Behind a PPP header: its address and control bytes may be left out, and so may the protocol's first.
fn ppp(data: &[u8]) -> Option<usize> {
    let at = if data.starts_with(&[0xff, 0x03]) { 2 } else { 0 };
    match (data.get(at)?, data.get(at + 1)?) {
        (0x00, 0x21 | 0x57) => Some(at + 2),
        (0x21 | 0x57, _) => Some(at + 1),
        _ => None,
    }
}

fn half(data: &[u8], at: usize) -> Option<u16> {
    data.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

fn ipv4(data: &[u8], on_wire: usize) -> Found {
    let Ok(ip) = Ipv4HeaderSlice::from_slice(data) else { return Found::Malformed };
    let head = ip.slice().len();
    if ip.fragments_offset().value() != 0 {
        return Found::Other(OtherPacket::Fragment);
    }
    if ip.protocol() != ip_number::TCP {
        return Found::Other(other(ip.protocol(), &data[head..]));
    }
    // 0 is what segments above 64 KiB have before the card cuts them. Else IP's own length counts, and not
    // the record's: some tools write into both lengths of a record what they kept.
    let total = match usize::from(ip.total_len()) {
        0 => on_wire,
        total => total,
    };
    let ends = (IpAddr::V4(Ipv4Addr::from(ip.source())), IpAddr::V4(Ipv4Addr::from(ip.destination())));
    let about = About { ends, id: ip.identification(), marked: ip.ecn().value() == 3 };
    tcp(&data[head..], total.saturating_sub(head), about)
}

fn ipv6(data: &[u8], on_wire: usize) -> Found {
    let Ok(ip) = Ipv6HeaderSlice::from_slice(data) else { return Found::Malformed };
    let rest = &data[ip.slice().len()..];
    let (extensions, next, rest, _) = Ipv6ExtensionsSlice::from_slice_lax(ip.next_header(), rest);
    if extensions.is_fragmenting_payload() {
        return Found::Other(OtherPacket::Fragment);
    }
    if next != ip_number::TCP {
        return Found::Other(other(next, rest));
    }
    let total = match usize::from(ip.payload_length()) {
        0 => on_wire.saturating_sub(40),
        total => total,
    };
    let ends = (IpAddr::V6(Ipv6Addr::from(ip.source())), IpAddr::V6(Ipv6Addr::from(ip.destination())));
    let about = About { ends, id: 0, marked: ip.ecn().value() == 3 };
    tcp(rest, total.saturating_sub(extensions.slice().len()), about)
}

/// Ports of UDP behind which lies another packet (IANA): VXLAN, as Linux had it first too, GENEVE, and IPsec
/// behind a translation of addresses.
const TUNNELS: [u16; 4] = [4789, 8472, 6081, 4500];

/// A packet of this protocol, by what follows IP's header.
fn other(protocol: IpNumber, rest: &[u8]) -> OtherPacket {
    let ports = [half(rest, 0), half(rest, 2)];
    match protocol {
        ip_number::UDP if ports.iter().flatten().any(|port| TUNNELS.contains(port)) => OtherPacket::Tunnel,
        ip_number::UDP if ports.contains(&Some(443)) => OtherPacket::Quic,
        ip_number::UDP => OtherPacket::Udp,
        ip_number::IPV4 | ip_number::IPV6 | ip_number::GRE => OtherPacket::Tunnel,
        IpNumber::ENCAPSULATING_SECURITY_PAYLOAD => OtherPacket::Tunnel,
        _ => OtherPacket::Else,
    }
}

/// What the IP header says of a segment.
struct About {
    ends: (IpAddr, IpAddr),
    id: u16,
    marked: bool,
}

fn tcp(data: &[u8], total: usize, about: About) -> Found {
    // Options may be cut by a short snaplen; the fixed part is what cannot be done without.
    let Some(fixed) = data.first_chunk::<20>() else { return Found::Malformed };
    let head = usize::from(fixed[12] >> 4) * 4;
    if head < 20 {
        return Found::Malformed;
    }
    let kept = data.get(20..head.min(data.len())).unwrap_or_default();
    let port = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
    let word = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    let (from, to) = (SocketAddr::new(about.ends.0, port(0)), SocketAddr::new(about.ends.1, port(2)));
    let higher = from > to;
    let (seq, ack, flags) = (word(4), word(8), fixed[13]);
    Found::Segment(Segment {
        key: Key { ends: if higher { [to, from] } else { [from, to] } },
        from: usize::from(higher),
        seq,
        ack,
        window: port(14),
        syn: flags & 0x02 != 0,
        fin: flags & 0x01 != 0,
        rst: flags & 0x04 != 0,
        acks: flags & 0x10 != 0,
        payload: u32::try_from(total.saturating_sub(head)).unwrap_or(u32::MAX),
        id: about.id,
        marked: about.marked,
        interface: 0,
        options: options(kept, ack),
        options_cut: kept.len() < head - 20,
    })
}

/// Takes the next option, kind and length before its value, from `raw`; `None` at their end, or where they
/// are cut. Those that are not known have a length as well.
fn next_option<'a>(raw: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut all = *raw;
    while let [1, rest @ ..] = all {
        all = rest;
    }
    let length = match all {
        [] | [0, ..] | [_] => return None,
        [_, length, ..] => usize::from(*length).max(2),
    };
    let (option, rest) = all.split_at_checked(length)?;
    *raw = rest;
    Some(option)
}

fn options(raw: &[u8], ack: u32) -> Options {
    let mut options = Options::default();
    // Nearly all segments have just this: two fillers and the timestamps.
    if let [1, 1, 8, 10, stamps @ ..] = raw
        && let Some(stamps) = stamps.first_chunk::<8>()
        && raw.len() == 12
    {
        let [a, b, c, d, e, f, g, h] = *stamps;
        options.stamps = Some((u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])));
        return options;
    }
    let mut raw = raw;
    while let Some(option) = next_option(&mut raw) {
        let Some(Ok(option)) = TcpOptionsIterator::from_slice(option).next() else { continue };
        match option {
            TcpOptionElement::MaximumSegmentSize(mss) => options.mss = Some(mss),
            // Above 14 it counts as 14 (RFC 7323, section 2.3).
            TcpOptionElement::WindowScale(scale) => options.scale = Some(scale.min(14)),
            TcpOptionElement::Timestamp(own, echo) => options.stamps = Some((own, echo)),
            TcpOptionElement::SelectiveAcknowledgement(first, more) => {
                let length = |(from, to): (u32, u32)| to.wrapping_sub(from).min(1 << 30);
                let below = (first.1.wrapping_sub(ack) as i32) <= 0;
                let within = more.iter().flatten().any(|(from, to)| {
                    (first.0.wrapping_sub(*from) as i32) >= 0 && (to.wrapping_sub(first.1) as i32) >= 0
                });
                options.duplicate = below || within;
                let all = more.iter().flatten().fold(0_u32, |sum, block| sum.saturating_add(length(*block)));
                let first_counts = if options.duplicate { 0 } else { length(first) };
                options.sack = Some((first, all.saturating_add(first_counts)));
            }
            TcpOptionElement::Noop | TcpOptionElement::SelectiveAcknowledgementPermitted => {}
        }
    }
    options
}
