//! A relay between client and server whose first connection falls silent: what a network that forgets a connection does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Listens on a free port for as long as the test's process lives.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Relay {
    /// Relays to `server`; of its first connection's answers only `first` bytes, then nothing more, and no end either.
    pub(crate) fn mute_after(first: usize, server: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let allowed = if counter.fetch_add(1, Relaxed) == 0 { first } else { usize::MAX };
                let Ok(server) = TcpStream::connect(server) else { return };
                let (to_server, to_client) = (server.try_clone(), client.try_clone());
                let (Ok(to_server), Ok(to_client)) = (to_server, to_client) else { return };
                std::thread::spawn(move || carry(client, to_server, usize::MAX));
                std::thread::spawn(move || carry(server, to_client, allowed));
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
