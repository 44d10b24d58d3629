//! A relay between client and server whose first connection falls silent: what a network that forgets a
//! connection does, or a box in the middle that hangs.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Listens on a free port for as long as the test's process lives.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Relay {
    /// Relays to `server`; of its first connection's answers only `first` bytes, then nothing more, and no
    /// end either.
    pub(crate) fn mute_after(first: usize, server: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Relay::start(listener, server, [usize::MAX, first])
    }

    /// Relays to `server`; of each connection's answers `first` bytes at once, and then one after the other,
    /// `gap` apart.
    pub(crate) fn drip_after(first: usize, gap: Duration, server: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                counter.fetch_add(1, Relaxed);
                let Ok(server) = TcpStream::connect(server) else { return };
                let (to_server, to_client) = (server.try_clone(), client.try_clone());
                let (Ok(to_server), Ok(to_client)) = (to_server, to_client) else { return };
                std::thread::spawn(move || carry(client, to_server, usize::MAX));
                std::thread::spawn(move || drip(server, to_client, first, gap));
            }
        });
        Relay { address, connections }
    }

    /// Relays to `server`; takes each connection at once, and carries its bytes only after `by`.
    pub(crate) fn late(by: Duration, server: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                counter.fetch_add(1, Relaxed);
                std::thread::spawn(move || {
                    std::thread::sleep(by);
                    let Ok(server) = TcpStream::connect(server) else { return };
                    let (to_server, to_client) = (server.try_clone(), client.try_clone());
                    let (Ok(to_server), Ok(to_client)) = (to_server, to_client) else { return };
                    std::thread::spawn(move || carry(client, to_server, usize::MAX));
                    carry(server, to_client, usize::MAX);
                });
            }
        });
        Relay { address, connections }
    }

    /// Relays to the same port of 127.0.0.1, listening at ::1, where a server that listens everywhere finds
    /// the port taken in IPv6 alone. Of the first connection only `first` bytes go either way, though both go
    /// on being read. `None` without IPv6.
    pub(crate) fn swallow_after(first: usize) -> Option<Relay> {
        let listener = TcpListener::bind("[::1]:0").ok()?;
        let port = listener.local_addr().expect("an address").port();
        Some(Relay::start(listener, (Ipv4Addr::LOCALHOST, port).into(), [first, first]))
    }

    /// `allowed` are the bytes of the first connection to the server and to the client.
    fn start(listener: TcpListener, server: SocketAddr, allowed: [usize; 2]) -> Relay {
        let address = listener.local_addr().expect("an address");
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let is_first = counter.fetch_add(1, Relaxed) == 0;
                let [out, back] = if is_first { allowed } else { [usize::MAX; 2] };
                let Ok(server) = TcpStream::connect(server) else { return };
                let (to_server, to_client) = (server.try_clone(), client.try_clone());
                let (Ok(to_server), Ok(to_client)) = (to_server, to_client) else { return };
                std::thread::spawn(move || carry(client, to_server, out));
                std::thread::spawn(move || carry(server, to_client, back));
            }
        });
        Relay { address, connections }
    }

    /// Connections taken so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }
}

/// Carries at most `allowed` bytes; goes on reading and drops the rest, as a path does that loses everything.
fn carry(mut from: TcpStream, mut to: TcpStream, mut allowed: usize) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let passed = count.min(allowed);
        allowed -= passed;
        if to.write_all(&buffer[..passed]).is_err() {
            return;
        }
    }
}

/// Carries `first` bytes as they come and each further one by itself.
fn drip(mut from: TcpStream, mut to: TcpStream, first: usize, gap: Duration) {
    let mut left = first;
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let at_once = count.min(left);
        left -= at_once;
        if to.write_all(&buffer[..at_once]).is_err() {
            return;
        }
        for byte in &buffer[at_once..count] {
            std::thread::sleep(gap);
            if to.write_all(&[*byte]).is_err() {
                return;
            }
        }
    }
}
