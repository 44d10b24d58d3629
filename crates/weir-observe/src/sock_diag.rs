//! What do the TCP sockets of this network namespace, anyone's, know about their connections?
//!
//! `NETLINK_SOCK_DIAG` (include/uapi/linux/inet_diag.h) needs no privilege within the caller's network
//! namespace. A dump finds sockets, a query by addresses and cookie reads one again cheaply, and a multicast
//! group tells the last counters of each socket that is destroyed, so that connections shorter than the time
//! between two looks are not lost.
//!
//! Whose process a socket belongs to is not said here, only its owner's number and its inode: see
//! [`process`](crate::process).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;

use rustix::net::netlink::SOCK_DIAG;

use crate::error::ObserveError;
use crate::netlink::{Message, Netlink, attributes, long, push_attribute, word};
use crate::tcp_info::{self, Moved, TcpInfo};

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;

/// `TCPDIAG_GETSOCK`: the older question, which walks the kernel's table once for IPv4 and IPv6 together
/// (inet_diag_dump_compat). The walk, of a table made for the machine's memory, is most of a dump's cost.
const BOTH_FAMILIES: u16 = 18;

/// `struct inet_diag_msg` without attributes.
const FIXED: usize = 72;

const INFO: u16 = 2;
const CONGESTION: u16 = 4;
const MEMORY: u16 = 7;

/// `INET_DIAG_CGROUP_ID`, which comes unasked.
const CGROUP: u16 = 21;

/// Bit n-1 of `idiag_ext` asks for attribute n.
const WANTED: u8 = 1 << (INFO - 1) | 1 << (CONGESTION - 1) | 1 << (MEMORY - 1);

/// `SKNLGRP_INET_TCP_DESTROY` and `SKNLGRP_INET6_TCP_DESTROY`, groups 1 and 3, as a mask.
const DESTROY_GROUPS: u32 = 1 | 1 << 2;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;

/// The state of a TCP socket (include/net/tcp_states.h).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct TcpState(pub u8);

impl TcpState {
    /// Data flow both ways.
    pub const ESTABLISHED: TcpState = TcpState(1);
    /// The handshake of this end waits for its answer.
    pub(crate) const SYN_SENT: TcpState = TcpState(2);
    /// Waiting for connections.
    pub const LISTEN: TcpState = TcpState(10);

    /// Not connected, or not any more: nothing to judge.
    pub fn is_over(self) -> bool {
        matches!(self.0, 0 | 6 | 7 | 10)
    }
}

/// What tells one socket from all others. IPv4 addresses are shown as such on IPv6 sockets too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SocketId {
    /// This end.
    pub local: SocketAddr,
    /// The peer.
    pub remote: SocketAddr,
    /// The kernel's number for the socket, never used twice between two boots.
    pub cookie: u64,
    /// The interface that it is bound to (SO_BINDTODEVICE, a VRF, a link-local address), 0 where it is bound
    /// to none. A socket that is bound is found by no question for another.
    pub interface: u32,
}

impl SocketId {
    /// That of a socket of this process: whichever has its addresses at the time of the question
    /// (`INET_DIAG_NOCOOKIE`). `None` where it is not connected.
    pub fn of(stream: &TcpStream) -> Option<SocketId> {
        let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let (local, remote) = (stream.local_addr().ok()?, stream.peer_addr().ok()?);
        // Before Linux 5.0 only a link-local address tells.
        let scope = match local {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(address) => address.scope_id(),
        };
        let interface = tcp_info::interface(stream.as_fd()).unwrap_or(scope);
        Some(SocketId { local: plain(local), remote: plain(remote), cookie: u64::MAX, interface })
    }
}

/// One reading of one socket.
#[derive(Debug, Clone, PartialEq)]
pub struct TcpSocket {
    /// Which socket.
    pub id: SocketId,
    /// Its state.
    pub state: TcpState,
    /// The owner; 0 also on the reading at a socket's end, which does not say.
    pub uid: u32,
    /// The number in `/proc/PID/fd` (`socket:[INODE]`); 0 when no process holds it any more.
    pub inode: u32,
    /// Bytes received and not read by the application.
    pub receive_queue: u32,
    /// Bytes written by the application and not acknowledged by the peer.
    pub send_queue: u32,
    /// The connection's state, as far as this kernel tells; empty on a half-open request.
    pub info: TcpInfo,
    /// The socket's buffers; `None` when not told.
    pub memory: Option<SocketMemory>,
    /// `cubic`, `bbr`; `None` when not told.
    pub congestion_control: Option<String>,
}

impl TcpSocket {
    /// The application has closed it and all it wrote is acknowledged: what is left is the kernel's farewell,
    /// a round trip or a minute of it.
    pub(crate) fn is_farewell(&self) -> bool {
        // FIN_WAIT1, FIN_WAIT2, LAST_ACK, CLOSING; the FIN itself counts as one byte unacknowledged.
        matches!(self.state.0, 4 | 5 | 9 | 11) && self.inode == 0 && self.send_queue <= 1
    }

    /// At its end: its handshake came to none. It has no peer's port any more (tcp_v4_connect,
    /// tcp_disconnect), or its SYN, which counts as one byte, was never acknowledged.
    pub(crate) fn never_connected(&self) -> bool {
        self.id.remote.port() == 0 || self.info.bytes_acked == Some(0)
    }
}

/// A socket's buffers as the kernel accounts for them, overhead of its packets included
/// (`INET_DIAG_SKMEMINFO`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SocketMemory {
    /// Taken by what was received (sk_rmem_alloc).
    pub receive_allocated: u32,
    /// The receive buffer's size (sk_rcvbuf).
    pub receive_buffer: u32,
    /// Handed to the device and not yet sent by it (sk_wmem_alloc).
    pub send_allocated: u32,
    /// The send buffer's size (sk_sndbuf).
    pub send_buffer: u32,
    /// Written and not acknowledged (sk_wmem_queued).
    pub send_queued: u32,
    /// Waiting for the application to let go of the socket.
    pub backlog: u32,
    /// Packets dropped for want of room.
    pub drops: u32,
}

/// What a dump tells of one socket: who it is, and how much it moved. A tenth of a [`TcpSocket`]'s size, for
/// machines with ten thousand of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuickSocket {
    /// Which socket.
    pub id: SocketId,
    /// Its state.
    pub state: TcpState,
    /// The owner.
    pub uid: u32,
    /// The number in `/proc/PID/fd` (`socket:[INODE]`); 0 when no process holds it any more.
    pub inode: u32,
    /// The number of the control group (version 2) in which it was made, the inode of that group's folder;
    /// `None` where the kernel does not tell (Linux 5.9 and later do). It stays when no process holds the
    /// socket any more.
    pub cgroup: Option<u64>,
    /// Its bytes so far.
    pub moved: Moved,
}

/// Which sockets a dump is to find. The default is every connected one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// With this port at either end.
    pub port: Option<u16>,
    /// With one of these peers; with any where none is named.
    pub peers: Vec<IpAddr>,
    /// Listening sockets instead of connected ones.
    pub listening: bool,
}

impl Filter {
    /// Whether the filter lets this socket through.
    pub fn admits(&self, id: &SocketId) -> bool {
        self.port.is_none_or(|port| id.local.port() == port || id.remote.port() == port)
            && (self.peers.is_empty() || self.peers.iter().any(|peer| id.remote.ip() == peer.to_canonical()))
    }

    /// A mask of states: all but TIME_WAIT and CLOSE, which have no counters, LISTEN, and SYN_RECV. With the
    /// last come requests that are no sockets yet: the kernel may give their sockets another cookie
    /// (inet_diag_dump_icsk, inet_csk_clone_lock), so that one connection would be told as two.
    fn states(&self) -> u32 {
        if self.listening {
            1 << TcpState::LISTEN.0
        } else {
            0xfff & !(1 | 1 << 3 | 1 << 6 | 1 << 7 | 1 << 10)
        }
    }
}

/// A netlink socket that answers for the network namespace in which it was opened.
#[derive(Debug)]
pub struct SockDiag {
    netlink: Netlink,
    /// This kernel knows the comparison for equality (Linux 5.7).
    filters_ports: bool,
    /// It answers the older question for both families.
    walks_once: bool,
}

impl SockDiag {
    /// Opens it in the calling thread's network namespace. Fails on a kernel without `CONFIG_INET_DIAG`, on
    /// the first query at the latest.
    pub fn open() -> Result<SockDiag, ObserveError> {
        let netlink = Netlink::open(Some(SOCK_DIAG), 0).map_err(failed)?;
        Ok(SockDiag { netlink, filters_ports: true, walks_once: true })
    }

    /// Every socket that `filter` admits, IPv4 and IPv6. Not one instant: each is read at its own.
    pub fn tcp(&mut self, filter: &Filter) -> Result<Vec<TcpSocket>, ObserveError> {
        self.dump(filter, WANTED, |message| parse_message(message).filter(|socket| filter.admits(&socket.id)))
    }

    /// The same with less of each.
    pub fn quick(&mut self, filter: &Filter) -> Result<Vec<QuickSocket>, ObserveError> {
        let wanted = 1 << (INFO - 1);
        self.dump(filter, wanted, |message| {
            is_socket(message)
                .then(|| parse_quick(message.payload))
                .flatten()
                .filter(|it| filter.admits(&it.id))
        })
    }

    /// This one socket now; `None` when it is gone.
    pub fn one(&mut self, id: &SocketId) -> Result<Option<TcpSocket>, ObserveError> {
        let mut found = None;
        let asked = self.netlink.ask(BY_FAMILY, false, &exact_request(id), |message| {
            found = parse_message(message);
        });
        match asked {
            Err(cause) if is_gone(&cause) => Ok(None),
            Err(cause) => Err(failed(cause)),
            Ok(()) => Ok(found.filter(|socket| !socket.state.is_over())),
        }
    }

    /// These sockets now, each handed over with its place in `ids`; `None` when it is gone. Costs half of
    /// asking one by one. Fails where one cannot be asked for; the others are handed over all the same.
    pub fn each(
        &mut self,
        ids: &[SocketId],
        mut found: impl FnMut(usize, Option<TcpSocket>),
    ) -> Result<(), ObserveError> {
        let requests: Vec<[u8; REQUEST]> = ids.iter().map(exact_request).collect();
        let mut refused = None;
        let asked = self.netlink.ask_many(BY_FAMILY, &requests, |place, answer| match answer {
            Ok(message) => found(place, parse_message(message).filter(|socket| !socket.state.is_over())),
            Err(cause) if is_gone(&cause) => found(place, None),
            Err(cause) => refused = Some(cause),
        });
        asked.and(refused.map_or(Ok(()), Err)).map_err(failed)
    }

    fn dump<T>(
        &mut self,
        filter: &Filter,
        wanted: u8,
        mut parse: impl FnMut(Message<'_>) -> Option<T>,
    ) -> Result<Vec<T>, ObserveError> {
        let mut found = Vec::new();
        if self.walks_once {
            match self.walk(BOTH_FAMILIES, old_request(filter.states(), wanted), filter, &mut |message| {
                found.extend(parse(message));
            }) {
                Ok(()) => return Ok(found),
                // Refused before anything was told: asked in the other way.
                Err(_) => self.walks_once = false,
            }
            found.clear();
        }
        for family in [AF_INET, AF_INET6] {
            let mut request = request(family, filter.states(), wanted).to_vec();
            request.extend([0; 48]);
            match self.walk(BY_FAMILY, request, filter, &mut |message| found.extend(parse(message))) {
                // A machine without IPv6 has no such family.
                Err(cause) if family == AF_INET6 && cause.raw_os_error() == Some(libc::ENOENT) => {}
                other => other.map_err(failed)?,
            }
        }
        Ok(found)
    }

    fn walk(
        &mut self,
        kind: u16,
        request: Vec<u8>,
        filter: &Filter,
        each: &mut dyn FnMut(Message<'_>),
    ) -> io::Result<()> {
        if let Some(port) = filter.port.filter(|_| self.filters_ports) {
            let mut filtered = request.clone();
            push_attribute(&mut filtered, BYTECODE, &either_port(port));
            match self.netlink.ask(kind, true, &filtered, &mut *each) {
                // An older kernel refuses the filter.
                Err(cause) if cause.raw_os_error() == Some(libc::EINVAL) => self.filters_ports = false,
                other => return other,
            }
        }
        self.netlink.ask(kind, true, &request, each)
    }
}

/// Tells of each TCP socket of this network namespace at its end.
#[derive(Debug)]
pub struct Destroyed {
    netlink: Netlink,
}

impl Destroyed {
    /// Joins the groups in the calling thread's network namespace; needs no privilege (Linux 4.5).
    pub fn open() -> Result<Destroyed, ObserveError> {
        let netlink = Netlink::open(Some(SOCK_DIAG), DESTROY_GROUPS).map_err(failed)?;
        // A notice is about 400 bytes and costs about 1 KB of room: 4 MiB hold some 4000 between two looks.
        netlink.want_room(4 << 20);
        Ok(Destroyed { netlink })
    }

    /// What ended since the last call: each socket's last counters, without owner, inode and memory. `false`
    /// when so many ended at once that some were lost.
    pub fn read(&mut self, ended: &mut Vec<TcpSocket>) -> Result<bool, ObserveError> {
        let mut whole = true;
        loop {
            match self.netlink.drain(|message| ended.extend(parse_message(message))) {
                Ok(()) => return Ok(whole),
                Err(cause) if cause.raw_os_error() == Some(libc::ENOBUFS) => whole = false,
                Err(cause) => return Err(failed(cause)),
            }
        }
    }
}

/// Whether a refusal says that there is no such socket; ESTALE: its addresses are in use again, by another.
fn is_gone(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::ENOENT | libc::ESTALE))
}

fn failed(cause: io::Error) -> ObserveError {
    ObserveError::unreadable("the sockets of this network namespace (NETLINK_SOCK_DIAG)", cause)
}

/// The first 8 bytes of `struct inet_diag_req_v2`; its `inet_diag_sockid` follows.
fn request(family: u8, states: u32, wanted: u8) -> [u8; 8] {
    let [a, b, c, d] = states.to_ne_bytes();
    [family, IPPROTO_TCP, wanted, 0, a, b, c, d]
}

/// `struct inet_diag_req`: family and prefix lengths that say nothing in a dump, what is wanted, no socket,
/// states, no counters.
fn old_request(states: u32, wanted: u8) -> Vec<u8> {
    let mut request = vec![0, 0, 0, wanted];
    request.extend([0; 48]);
    request.extend(states.to_ne_bytes());
    request.extend([0; 4]);
    request
}

/// The size of `struct inet_diag_req_v2`.
const REQUEST: usize = 56;

/// `struct inet_diag_req_v2` for one socket. An IPv6 socket with IPv4 addresses is found by these.
fn exact_request(id: &SocketId) -> [u8; REQUEST] {
    let family = if id.local.is_ipv4() { AF_INET } else { AF_INET6 };
    let mut whole = [0; REQUEST];
    whole[..8].copy_from_slice(&request(family, u32::MAX, WANTED));
    whole[8..10].copy_from_slice(&id.local.port().to_be_bytes());
    whole[10..12].copy_from_slice(&id.remote.port().to_be_bytes());
    for (address, field) in [(id.local.ip(), 12..28), (id.remote.ip(), 28..44)] {
        match address {
            IpAddr::V4(address) => whole[field][..4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => whole[field].copy_from_slice(&address.octets()),
        }
    }
    whole[44..48].copy_from_slice(&id.interface.to_ne_bytes());
    whole[48..52].copy_from_slice(&(id.cookie as u32).to_ne_bytes());
    whole[52..].copy_from_slice(&((id.cookie >> 32) as u32).to_ne_bytes());
    whole
}

/// `INET_DIAG_REQ_BYTECODE`.
const BYTECODE: u16 = 1;

/// A program that accepts a socket with this port at either end (inet_diag_bc_run in net/ipv4/inet_diag.c).
/// Each operation has a code and two jumps, forward from its own start; a jump to the end accepts, four
/// beyond it refuses.
fn either_port(port: u16) -> Vec<u8> {
    const JUMP: u8 = 1;
    const LOCAL_EQUALS: u8 = 11;
    const REMOTE_EQUALS: u8 = 12;
    let operation = |code: u8, yes: u8, no: u16| {
        let [low, high] = no.to_ne_bytes();
        [code, yes, low, high]
    };
    [
        operation(LOCAL_EQUALS, 8, 12),
        operation(0, 0, port),
        operation(JUMP, 4, 12),
        operation(REMOTE_EQUALS, 8, 12),
        operation(0, 0, port),
    ]
    .concat()
}

fn is_socket(message: Message<'_>) -> bool {
    matches!(message.kind, BY_FAMILY | BOTH_FAMILIES)
}

fn parse_message(message: Message<'_>) -> Option<TcpSocket> {
    is_socket(message).then(|| parse(message.payload)).flatten()
}

/// Reads one `struct inet_diag_msg` and its attributes; `None` when it is cut or of no family known here.
pub fn parse(bytes: &[u8]) -> Option<TcpSocket> {
    let fixed: &[u8; FIXED] = bytes.first_chunk()?;
    let mut socket = TcpSocket {
        id: parse_id(fixed)?,
        state: TcpState(fixed[1]),
        receive_queue: word(fixed, 56)?,
        send_queue: word(fixed, 60)?,
        uid: word(fixed, 64)?,
        inode: word(fixed, 68)?,
        info: TcpInfo::default(),
        memory: None,
        congestion_control: None,
    };
    for (kind, value) in attributes(&bytes[FIXED..]) {
        match kind {
            INFO => socket.info = tcp_info::parse(value),
            MEMORY => socket.memory = parse_memory(value),
            CONGESTION => {
                let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
                // The kernel's names are letters; anything else would not be printable.
                let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty());
                socket.congestion_control = name.map(str::to_owned);
            }
            _ => {}
        }
    }
    Some(socket)
}

/// Reads of the same what a [`QuickSocket`] holds.
pub fn parse_quick(bytes: &[u8]) -> Option<QuickSocket> {
    let fixed: &[u8; FIXED] = bytes.first_chunk()?;
    let (mut info, mut cgroup) = (&[][..], None);
    for (kind, value) in attributes(&bytes[FIXED..]) {
        match kind {
            INFO => info = value,
            CGROUP => cgroup = long(value, 0),
            _ => {}
        }
    }
    Some(QuickSocket {
        id: parse_id(fixed)?,
        state: TcpState(fixed[1]),
        uid: word(fixed, 64)?,
        inode: word(fixed, 68)?,
        cgroup,
        moved: tcp_info::parse_moved(info),
    })
}

fn parse_id(fixed: &[u8; FIXED]) -> Option<SocketId> {
    let family = fixed[0];
    let port = |offset: usize| u16::from_be_bytes([fixed[offset], fixed[offset + 1]]);
    let interface = word(fixed, 40)?;
    let local = address(family, &fixed[8..24], port(4), interface)?;
    let remote = address(family, &fixed[24..40], port(6), interface)?;
    let cookie = u64::from(word(fixed, 44)?) | u64::from(word(fixed, 48)?) << 32;
    Some(SocketId { local, remote, cookie, interface })
}

fn address(family: u8, field: &[u8], port: u16, interface: u32) -> Option<SocketAddr> {
    let whole: [u8; 16] = field.try_into().ok()?;
    match family {
        AF_INET => Some(SocketAddr::from((Ipv4Addr::new(whole[0], whole[1], whole[2], whole[3]), port))),
        AF_INET6 => {
            let address = Ipv6Addr::from(whole);
            Some(match address.to_ipv4_mapped() {
                Some(address) => SocketAddr::from((address, port)),
                None => {
                    // Only there it is a part of the address.
                    let scope = if address.is_unicast_link_local() { interface } else { 0 };
                    std::net::SocketAddrV6::new(address, port, 0, scope).into()
                }
            })
        }
        _ => None,
    }
}

/// `SK_MEMINFO_*`: RMEM_ALLOC, RCVBUF, WMEM_ALLOC, SNDBUF, FWD_ALLOC, WMEM_QUEUED, OPTMEM, BACKLOG, DROPS, a
/// word each.
fn parse_memory(value: &[u8]) -> Option<SocketMemory> {
    let number = |index: usize| word(value, 4 * index);
    Some(SocketMemory {
        receive_allocated: number(0)?,
        receive_buffer: number(1)?,
        send_allocated: number(2)?,
        send_buffer: number(3)?,
        send_queued: number(5)?,
        // Older kernels end here.
        backlog: number(7).unwrap_or_default(),
        drops: number(8).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loopback receiver that was sent 1000 bytes and read 400.
    const CAPTURED: &[u8] = include_bytes!("../tests/data/6.18/inet_diag.bin");

    #[cfg(target_endian = "little")]
    #[test]
    fn captured_receiver() {
        let socket = parse(CAPTURED).unwrap();
        assert_eq!(socket.state, TcpState::ESTABLISHED);
        assert!(socket.id.local.ip().is_loopback() && socket.id.remote.ip().is_loopback());
        assert_ne!(socket.id.local.port(), socket.id.remote.port());
        assert_eq!((socket.receive_queue, socket.send_queue, socket.uid), (600, 0, 0));
        assert!(socket.inode > 0 && socket.id.cookie > 0);
        assert_eq!(socket.info.bytes_received, Some(1000));
        assert_eq!(socket.congestion_control.as_deref(), Some("bbr"));
        let memory = socket.memory.unwrap();
        assert_eq!((memory.receive_buffer, memory.send_buffer, memory.send_queued), (131_072, 4_194_304, 0));
        assert!(memory.receive_allocated > 600, "{memory:?}");
    }

    #[test]
    fn every_cut_is_read_as_far_as_it_goes() {
        for length in 0..CAPTURED.len() {
            let socket = parse(&CAPTURED[..length]);
            assert_eq!(socket.is_some(), length >= FIXED, "{length}");
            let quick = parse_quick(&CAPTURED[..length]);
            assert_eq!(quick.map(|it| it.id), socket.as_ref().map(|it| it.id));
            let bytes = socket.and_then(|it| it.info.bytes_received).unwrap_or_default();
            assert_eq!(quick.map_or(0, |it| it.moved.received), bytes, "{length}");
        }
        assert_eq!(parse(&CAPTURED[..FIXED]).unwrap().info, TcpInfo::default());
    }

    #[test]
    fn the_control_group_is_told_where_the_kernel_tells_it() {
        let mut bytes = CAPTURED[..FIXED].to_vec();
        assert_eq!(parse_quick(&bytes).unwrap().cgroup, None);
        push_attribute(&mut bytes, CGROUP, &4711_u64.to_ne_bytes());
        assert_eq!(parse_quick(&bytes).unwrap().cgroup, Some(4711));
        assert_eq!(parse_quick(&bytes[..bytes.len() - 1]).unwrap().cgroup, None, "cut");
    }

    #[test]
    fn no_byte_makes_it_fail() {
        for at in 0..CAPTURED.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = CAPTURED.to_vec();
                bytes[at] = value;
                let known = at != 0 || value == AF_INET;
                assert_eq!(parse(&bytes).is_some(), known, "byte {at} as {value}");
            }
        }
    }

    #[test]
    fn an_ipv6_socket_shows_ipv4_addresses_as_such() {
        let mut bytes = CAPTURED.to_vec();
        bytes[0] = AF_INET6;
        for start in [8, 24] {
            bytes[start..start + 16].copy_from_slice(&Ipv4Addr::new(10, 0, 0, 7).to_ipv6_mapped().octets());
        }
        let id = parse(&bytes).unwrap().id;
        assert_eq!(id.local.ip(), IpAddr::from([10, 0, 0, 7]));
        // And is asked for by them.
        let request = exact_request(&id);
        assert_eq!((request[0], request.len()), (AF_INET, 56));
    }

    #[test]
    fn a_socket_that_is_bound_to_an_interface_is_asked_for_with_it() {
        let mut bytes = CAPTURED.to_vec();
        bytes[40..44].copy_from_slice(&7_u32.to_ne_bytes());
        let id = parse(&bytes).unwrap().id;
        assert_eq!(id.interface, 7);
        assert_eq!(exact_request(&id)[44..48], 7_u32.to_ne_bytes());
    }

    #[test]
    fn a_filter_is_a_program_that_ends_where_the_kernel_wants_it() {
        let program = either_port(443);
        assert_eq!(program.len(), 20);
        assert_eq!(program[6..8], 443_u16.to_ne_bytes());
        let all = Filter::default();
        assert_eq!(all.states(), 0b1011_0011_0110, "no SYN_RECV, TIME_WAIT, CLOSE, LISTEN");
        let id = parse(CAPTURED).unwrap().id;
        assert!(Filter { port: Some(id.remote.port()), ..all.clone() }.admits(&id));
        let other = IpAddr::from([10, 0, 0, 1]);
        assert!(!Filter { peers: vec![other], ..all.clone() }.admits(&id));
        assert!(Filter { peers: vec![other, id.remote.ip()], ..all }.admits(&id), "one of two");
    }
}
