//! Sockets with a test's options.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::code;
use crate::error::Error;
use crate::parameters::Parameters;
use crate::sys;

/// Connections that may wait for their accept: all streams of two tests at once.
const BACKLOG: i32 = 512;

/// What a receiver of datagrams asks for: 4 ms of 10 Gbit/s.
const UDP_BUFFER: usize = 4 << 20;

/// Connects within `patience`, from `from` where that is given, with the options of the test's streams if it is one.
pub(crate) fn connect(
    to: SocketAddr,
    from: Option<IpAddr>,
    patience: Duration,
    test: Option<&Parameters>,
) -> Result<TcpStream, Error> {
    let fail = |source| Error::Connect { to, source };
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP)).map_err(fail)?;
    if let Some(test) = test {
        if let Some(segment) = test.segment {
            let named = |source| option(format!("a segment of {segment} bytes"), code::SET_SEGMENT, source);
            socket.set_tcp_mss(segment).map_err(named)?;
        }
        set_options(SockRef::from(&socket), test)?;
    }
    if let Some(from) = from {
        let named = |source| option(format!("{from} as own address"), code::BIND, source);
        socket.bind(&SocketAddr::new(from, 0).into()).map_err(named)?;
    }
    socket.connect_timeout(&to.into(), patience).map_err(fail)?;
    Ok(socket.into())
}

/// What the parameters ask of a data socket, at either end.
pub(crate) fn set_options(socket: SockRef<'_>, test: &Parameters) -> Result<(), Error> {
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

fn set_common_options(socket: &SockRef<'_>, test: &Parameters) -> Result<(), Error> {
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
    Ok(())
}

/// Listens for clients.
pub(crate) fn listen(at: SocketAddr) -> Result<TcpListener, Error> {
    let open = || -> io::Result<TcpListener> {
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        if at.is_ipv6() {
            // `::` is everyone, `::1` is not 127.0.0.1.
            socket.set_only_v6(at.ip() != IpAddr::from(std::net::Ipv6Addr::UNSPECIFIED))?;
        }
        socket.bind(&at.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    };
    open().map_err(|source| Error::Listen { at, source })
}

/// A UDP socket at this address. Where the address names a port, others may be at it too, connected to their peers; a port of
/// the kernel's choice is for this socket alone (with SO_REUSEADDR it may choose one that another such socket has).
pub(crate) fn bind_udp(at: SocketAddr, test: &Parameters) -> Result<UdpSocket, Error> {
    let listen = |source| Error::Listen { at, source };
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP)).map_err(listen)?;
    socket.set_reuse_address(at.port() != 0).map_err(listen)?;
    socket.bind(&at.into()).map_err(listen)?;
    // As large as the system allows (net.core.rmem_max cuts it): datagrams that find no room are no loss of the path's.
    let _ = socket.set_recv_buffer_size(UDP_BUFFER);
    set_common_options(&SockRef::from(&socket), test)?;
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

fn option(option: String, code: i32, source: io::Error) -> Error {
    Error::Option { option, code, source }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn each_udp_socket_has_a_port_of_its_own() {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        // Of 28,232 ports: were they drawn one by one, two of 500 would be the same in 99 of 100 runs.
        let sockets: Vec<UdpSocket> =
            (0..500).map(|_| bind_udp(any, &Parameters::default()).expect("a socket")).collect();
        let ports: HashSet<u16> =
            sockets.iter().map(|socket| socket.local_addr().expect("its address").port()).collect();
        assert_eq!(ports.len(), sockets.len());
    }
}
