//! Sockets with a test's options.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use crate::code;
use crate::error::NetError;
use crate::parameters::{Parameters, Transport};
use crate::sys;

/// Connections that may wait for their accept: all streams of two tests at once.
const BACKLOG: i32 = 512;

/// Between two looks at whether the user said stop.
const GLANCE: Duration = Duration::from_millis(50);

/// What a receiver of datagrams asks for: 4 ms of 10 Gbit/s.
const UDP_BUFFER: usize = 4 << 20;

/// How this end's sockets are made, whatever the test.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wiring {
    /// The interface that all sockets are bound to (SO_BINDTODEVICE).
    pub device: Option<String>,
    /// A TCP connection whose data are not acknowledged for so long ends (TCP_USER_TIMEOUT).
    pub send_timeout: Option<Duration>,
    /// The control connection's keepalive; `None` for none.
    pub keep_alive: Option<KeepAlive>,
}

/// Probes of an idle connection (tcp(7)); the system's own values where none is given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeepAlive {
    /// Idle for so long before the first.
    pub idle: Option<Duration>,
    /// Between two.
    pub interval: Option<Duration>,
    /// Unanswered ones before the connection ends.
    pub count: Option<u32>,
}

impl Wiring {
    /// What holds for sockets of every kind.
    fn bind(&self, socket: &Socket) -> Result<(), NetError> {
        let Some(device) = &self.device else { return Ok(()) };
        let named = |source| option(format!("the interface {device}"), code::BIND_DEVICE, source);
        socket.bind_device(Some(device.as_bytes())).map_err(named)
    }

    /// What holds for connections of TCP.
    fn set_timeout(&self, socket: &SockRef<'_>) -> Result<(), NetError> {
        let named = |source| option("TCP_USER_TIMEOUT".to_owned(), code::SET_USER_TIMEOUT, source);
        match self.send_timeout {
            Some(_) => socket.set_tcp_user_timeout(self.send_timeout).map_err(named),
            None => Ok(()),
        }
    }

    /// What holds for a control connection.
    pub(crate) fn set_control(&self, socket: &SockRef<'_>) -> Result<(), NetError> {
        self.set_timeout(socket)?;
        let Some(keep_alive) = self.keep_alive else { return Ok(()) };
        let mut probes = TcpKeepalive::new();
        if let Some(idle) = keep_alive.idle {
            probes = probes.with_time(idle);
        }
        if let Some(interval) = keep_alive.interval {
            probes = probes.with_interval(interval);
        }
        if let Some(count) = keep_alive.count {
            probes = probes.with_retries(count);
        }
        let named = |source| option("the keepalive".to_owned(), code::SET_KEEP_ALIVE, source);
        socket.set_keepalive(true).and_then(|()| socket.set_tcp_keepalive(&probes)).map_err(named)
    }
}

/// Where a connection comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<'a> {
    /// This end's address; `None` for any.
    pub(crate) address: Option<IpAddr>,
    /// Its port; 0 for any.
    pub(crate) port: u16,
    pub(crate) wiring: &'a Wiring,
}

impl Origin<'_> {
    /// The address to bind to for this peer.
    fn local(&self, to: SocketAddr) -> SocketAddr {
        let any: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        SocketAddr::new(self.address.unwrap_or(any), self.port)
    }
}

/// Connects within `timeout`, or until `stop` is set, with the options of the test's streams if it is one,
/// else with those of a control connection.
pub(crate) fn connect(
    mut to: SocketAddr,
    from: Origin<'_>,
    timeout: Duration,
    test: Option<&Parameters>,
    stop: &AtomicBool,
) -> Result<TcpStream, NetError> {
    let fail = |source| NetError::Connect { to, source };
    let multipath = test.is_some_and(|test| test.mptcp);
    let protocol = if multipath { Protocol::MPTCP } else { Protocol::TCP };
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(protocol));
    let without =
        |source| option("multipath TCP (net.mptcp.enabled)".to_owned(), code::CONNECT_STREAM, source);
    let socket = socket.map_err(|source| if multipath { without(source) } else { fail(source) })?;
    from.wiring.bind(&socket)?;
    match test {
        Some(test) => {
            if let Some(segment) = test.segment {
                let named =
                    |source| option(format!("a segment of {segment} bytes"), code::SET_SEGMENT, source);
                socket.set_tcp_mss(segment).map_err(named)?;
            }
            set_options(SockRef::from(&socket), test)?;
            from.wiring.set_timeout(&SockRef::from(&socket))?;
            set_flow_label(&socket, &mut to, test)?;
        }
        None => from.wiring.set_control(&SockRef::from(&socket))?,
    }
    if from.address.is_some() || from.port > 0 {
        let local = from.local(to);
        let named = |source| option(format!("{local} as own address"), code::BIND, source);
        // A port that is asked for may still wait out the end of the test before.
        socket.set_reuse_address(from.port > 0).and_then(|()| socket.bind(&local.into())).map_err(named)?;
    }
    let fail = |source| NetError::Connect { to, source };
    socket.set_nonblocking(true).map_err(fail)?;
    match socket.connect(&to.into()) {
        Err(cause) if cause.raw_os_error() == Some(libc::EINPROGRESS) => {
            wait_connected(&socket, to, timeout, stop)?;
        }
        done => done.map_err(fail)?,
    }
    socket.set_nonblocking(false).map_err(fail)?;
    Ok(socket.into())
}

/// Waits for the end of a connect that is under way.
fn wait_connected(
    socket: &Socket,
    to: SocketAddr,
    timeout: Duration,
    stop: &AtomicBool,
) -> Result<(), NetError> {
    let fail = |source| NetError::Connect { to, source };
    let deadline = Instant::now() + timeout;
    loop {
        if stop.load(Relaxed) {
            return Err(NetError::Interrupted);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(fail(io::ErrorKind::TimedOut.into()));
        }
        let mut polled = [PollFd::new(socket, PollFlags::OUT)];
        match poll(&mut polled, Timespec::try_from(left.min(GLANCE)).ok().as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return socket.take_error().map_err(fail)?.map_or(Ok(()), |cause| Err(fail(cause))),
            Err(cause) => return Err(fail(cause.into())),
        }
    }
}

/// The test's flow label, on a socket of IPv6 that is not connected yet, and in the address that it is to be
/// connected to.
fn set_flow_label(socket: &Socket, to: &mut SocketAddr, test: &Parameters) -> Result<(), NetError> {
    let Some(label) = test.flow_label else { return Ok(()) };
    let named = |source| option(format!("flow label {label}"), code::SET_FLOW_LABEL, source);
    match to {
        SocketAddr::V6(to) => {
            let flow = sys::set_flow_label(socket.as_fd(), *to.ip(), label).map_err(named)?;
            to.set_flowinfo(flow);
            Ok(())
        }
        SocketAddr::V4(_) => {
            Err(named(io::Error::new(io::ErrorKind::Unsupported, "IPv4 has none; choose IPv6 by -6")))
        }
    }
}

/// What the parameters ask of a data socket, at either end.
pub(crate) fn set_options(socket: SockRef<'_>, test: &Parameters) -> Result<(), NetError> {
    if test.no_delay {
        let named = |source| option("TCP_NODELAY".to_owned(), code::SET_NO_DELAY, source);
        socket.set_tcp_nodelay(true).map_err(named)?;
    }
    if let Some(congestion) = &test.congestion {
        let named = |source| {
            let known = weir_observe::sysctl::available_congestion_controls();
            let known = known.map(|names| format!(" (there is {})", names.trim())).unwrap_or_default();
            option(format!("congestion control {congestion}{known}"), code::SET_CONGESTION, source)
        };
        socket.set_tcp_congestion(congestion.as_bytes()).map_err(named)?;
    }
    set_common_options(&socket, test)
}

fn set_common_options(socket: &SockRef<'_>, test: &Parameters) -> Result<(), NetError> {
    if let Some(window) = test.window {
        let size = window as usize;
        let named = |source| option(format!("buffers of {window} bytes"), code::SET_BUFFERS, source);
        socket.set_send_buffer_size(size).and_then(|()| socket.set_recv_buffer_size(size)).map_err(named)?;
    }
    if let Some(rate) = test.pacing {
        let named = |source| option("a pacing rate".to_owned(), code::SET_PACING, source);
        sys::set_pacing(socket.as_fd(), rate).map_err(named)?;
    }
    if test.service > 0 {
        let v6 = socket.domain().is_ok_and(|domain| domain == Domain::IPV6);
        let named = |source| option(format!("type of service {}", test.service), code::SET_SERVICE, source);
        sys::set_service(socket.as_fd(), v6, test.service).map_err(named)?;
    }
    if test.dont_fragment
        && test.transport == Transport::Udp
        && socket.domain().is_ok_and(|domain| domain == Domain::IPV4)
    {
        let named = |source: rustix::io::Errno| {
            option("IP_MTU_DISCOVER".to_owned(), code::SET_DONT_FRAGMENT, source.into())
        };
        sockopt::set_ip_mtu_discover(socket.as_fd(), Ipv4PathMtuDiscovery::DO).map_err(named)?;
    }
    Ok(())
}

/// Listens for clients, those of multipath TCP too where the kernel has it: to others it makes no difference
/// (RFC 8684, 3.7).
pub(crate) fn listen(at: SocketAddr, wiring: &Wiring) -> Result<TcpListener, NetError> {
    let open = |protocol: Protocol| Socket::new(Domain::for_address(at), Type::STREAM, Some(protocol));
    let socket = open(Protocol::MPTCP).or_else(|_| open(Protocol::TCP));
    let socket = socket.map_err(|source| NetError::Listen { at, source })?;
    wiring.bind(&socket)?;
    listen_on(socket, at)
}

/// The same for one test's connections of plain TCP.
pub(crate) fn listen_plain(at: SocketAddr) -> Result<TcpListener, NetError> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP));
    listen_on(socket.map_err(|source| NetError::Listen { at, source })?, at)
}

fn listen_on(socket: Socket, at: SocketAddr) -> Result<TcpListener, NetError> {
    let open = || -> io::Result<TcpListener> {
        socket.set_reuse_address(true)?;
        if at.is_ipv6() {
            // `::` is everyone, `::1` is not 127.0.0.1.
            socket.set_only_v6(at.ip() != IpAddr::from(Ipv6Addr::UNSPECIFIED))?;
        }
        socket.bind(&at.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    };
    open().map_err(|source| NetError::Listen { at, source })
}

/// A UDP socket at this address. Where the address names a port, others may be at it too, connected to their
/// peers; a port of the kernel's choice is for this socket alone (with SO_REUSEADDR it may choose one that
/// another such socket has).
pub(crate) fn bind_udp(at: SocketAddr, wiring: &Wiring) -> Result<UdpSocket, NetError> {
    let listen = |source| NetError::Listen { at, source };
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP)).map_err(listen)?;
    wiring.bind(&socket)?;
    socket.set_reuse_address(at.port() != 0).map_err(listen)?;
    socket.bind(&at.into()).map_err(listen)?;
    // As large as the system allows (net.core.rmem_max cuts it): datagrams that find no room are no loss of
    // the path's.
    let _ = socket.set_recv_buffer_size(UDP_BUFFER);
    Ok(socket.into())
}

/// What the parameters ask of a socket for datagrams.
pub(crate) fn set_udp_options(socket: &UdpSocket, test: &Parameters) -> Result<(), NetError> {
    set_common_options(&SockRef::from(socket), test)
}

/// A UDP socket that is connected to this peer, with the test's options.
pub(crate) fn connect_udp(
    to: SocketAddr,
    from: Origin<'_>,
    test: &Parameters,
) -> Result<UdpSocket, NetError> {
    let local = from.local(to);
    let socket = bind_udp(local, from.wiring)?;
    set_udp_options(&socket, test)?;
    let socket = Socket::from(socket);
    let mut to = to;
    set_flow_label(&socket, &mut to, test)?;
    socket.connect(&to.into()).map_err(|source| NetError::Connect { to, source })?;
    Ok(socket.into())
}

/// SO_SNDBUF and SO_RCVBUF as the kernel counts them.
pub(crate) fn buffers(socket: SockRef<'_>) -> (u64, u64) {
    let size = |read: io::Result<usize>| read.unwrap_or_default() as u64;
    (size(socket.send_buffer_size()), size(socket.recv_buffer_size()))
}

/// The segment of a connection, bytes.
pub(crate) fn segment(stream: &TcpStream) -> u32 {
    SockRef::from(stream).tcp_mss().unwrap_or_default()
}

fn option(option: String, code: i32, source: io::Error) -> NetError {
    NetError::Option { option, code, source }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_udp_socket_has_a_port_of_its_own() {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        // Of 28,232 ports: were they drawn one by one, two of 500 would be the same in 99 of 100 runs.
        let sockets: Vec<UdpSocket> =
            (0..500).map(|_| bind_udp(any, &Wiring::default()).expect("a socket")).collect();
        let ports: HashSet<u16> =
            sockets.iter().map(|socket| socket.local_addr().expect("its address").port()).collect();
        assert_eq!(ports.len(), sockets.len());
    }
}
