//! A socket that never blocks, plain or with TLS over it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, sockopt};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::target::{self, Address};

/// TLS as a run uses it.
#[derive(Debug, Clone)]
pub struct Tls {
    /// Whom to trust.
    pub config: Arc<ClientConfig>,
    /// The server's name.
    pub name: ServerName<'static>,
}

/// A connection's transport.
#[derive(Debug)]
pub struct Wire {
    socket: OwnedFd,
    tls: Option<Box<ClientConnection>>,
}

/// How far a connection's making has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The socket has to become readable or writable first.
    Waiting,
    /// Done.
    Ready,
}

/// Sets both buffers of a socket, where that was asked for.
fn set_window(socket: impl AsFd, window: Option<u32>) -> io::Result<()> {
    if let Some(bytes) = window {
        sockopt::set_socket_recv_buffer_size(&socket, bytes as usize)?;
        sockopt::set_socket_send_buffer_size(&socket, bytes as usize)?;
    }
    Ok(())
}

impl Wire {
    /// Begins a connection, with so many bytes in its buffers; [`Wire::open`] says when it stands.
    pub fn connect(to: &Address, tls: Option<&Tls>, window: Option<u32>) -> io::Result<Wire> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (family, protocol) = match to {
            Address::Tcp(address) if address.is_ipv4() => (AddressFamily::INET, Some(ipproto::TCP)),
            Address::Tcp(_) => (AddressFamily::INET6, Some(ipproto::TCP)),
            Address::Unix(_) => (AddressFamily::UNIX, None),
        };
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, protocol)?;
        let begun = match to {
            Address::Tcp(address) => {
                // Each request is one write: waiting for more to fill a segment would only add latency.
                sockopt::set_tcp_nodelay(&socket, true)?;
                // Before the connection is made: what the other end is offered at its beginning follows from
                // it (tcp(7)).
                set_window(&socket, window)?;
                rustix::net::connect(&socket, address)
            }
            Address::Unix(path) => rustix::net::connect(&socket, &target::unix_address(path)?),
        };
        match begun {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        Wire::of(socket, tls)
    }

    /// Over a connection that stands; [`Wire::open`] goes on with TLS.
    pub fn over(stream: TcpStream, tls: Option<&Tls>, window: Option<u32>) -> io::Result<Wire> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        set_window(&stream, window)?;
        Wire::of(stream.into(), tls)
    }

    fn of(socket: OwnedFd, tls: Option<&Tls>) -> io::Result<Wire> {
        let session = tls.map(|tls| ClientConnection::new(Arc::clone(&tls.config), tls.name.clone()));
        let session = session.transpose().map_err(io::Error::other)?.map(|mut session| {
            // A request is handed over whole, whatever its length.
            session.set_buffer_limit(None);
            Box::new(session)
        });
        Ok(Wire { socket, tls: session })
    }

    /// Goes on with making the connection; to be called when the socket is writable or readable.
    pub fn open(&mut self) -> io::Result<Progress> {
        if let Err(error) = sockopt::socket_error(&self.socket)? {
            return Err(error.into());
        }
        let Some(tls) = &mut self.tls else { return Ok(Progress::Ready) };
        let mut raw = Raw(&self.socket);
        while tls.is_handshaking() {
            if tls.wants_write() {
                match tls.write_tls(&mut raw) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Progress::Waiting),
                    other => other?,
                };
                continue;
            }
            match tls.read_tls(&mut raw) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Progress::Waiting),
                other => other?,
            };
            if let Err(error) = tls.process_new_packets() {
                // The alert that says why.
                let _ = tls.write_tls(&mut raw);
                return Err(io::Error::other(error));
            }
        }
        match flush(tls, &mut raw)? {
            true => Ok(Progress::Ready),
            // What is left goes out with the first request.
            false => Ok(Progress::Ready),
        }
    }

    /// Writes what the socket takes of `bytes[*sent..]`; true when all is with the kernel.
    pub fn write(&mut self, bytes: &[u8], sent: &mut usize) -> io::Result<bool> {
        let mut raw = Raw(&self.socket);
        match &mut self.tls {
            None => {
                while *sent < bytes.len() {
                    match raw.write(&bytes[*sent..]) {
                        Ok(count) => *sent += count,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                        Err(error) => return Err(error),
                    }
                }
                Ok(true)
            }
            Some(tls) => {
                tls.writer().write_all(&bytes[*sent..])?;
                *sent = bytes.len();
                flush(tls, &mut raw)
            }
        }
    }

    /// Reads what is there; 0 at the end. `WouldBlock` when nothing is.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut raw = Raw(&self.socket);
        let Some(tls) = &mut self.tls else { return raw.read(into) };
        loop {
            match tls.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A peer that goes without a goodbye: the answer's own length tells whether something is
                // missing.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                other => return other,
            }
            if tls.read_tls(&mut raw)? == 0 {
                // Told to the session, so that its reader ends.
                tls.process_new_packets().map_err(io::Error::other)?;
                return match tls.reader().read(into) {
                    Err(_) => Ok(0),
                    read => read,
                };
            }
            tls.process_new_packets().map_err(io::Error::other)?;
            if tls.wants_write() {
                flush(tls, &mut raw)?;
            }
        }
    }

    /// Its socket alone.
    pub(crate) fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// Acknowledges what has come at once, where TCP would rather wait for more to say.
    pub fn acknowledge(&self) {
        // On a socket that is not TCP there is nothing to acknowledge.
        let _ = sockopt::set_tcp_quickack(&self.socket, true);
    }

    /// A read that fills less than was offered left nothing behind: the next byte makes a new event. Only
    /// true of a bare socket; a TLS session may hold more.
    pub(crate) fn short_read_means_empty(&self) -> bool {
        self.tls.is_none()
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn flush(tls: &mut ClientConnection, raw: &mut Raw<'_>) -> io::Result<bool> {
    while tls.wants_write() {
        match tls.write_tls(raw) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// The bare socket.
struct Raw<'a>(&'a OwnedFd);

impl Read for Raw<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match rustix::net::recv(self.0, &mut *into, RecvFlags::empty()) {
                Ok((count, _)) => return Ok(count),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            // A peer that has gone is an error to count, not a signal to die of.
            match rustix::net::send(self.0, bytes, SendFlags::NOSIGNAL) {
                Ok(count) => return Ok(count),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
