//! Whose is a UDP hello? It carries no cookie: the address that it comes from is all that tells.
//!
//! One socket takes the hellos of all tests that wait at one address of this host. Clients of different
//! addresses do not wait for each other. Those of one address open their streams test after test, and one
//! that is silent gives way to the next within [`TURN`].

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::control::is_pause;
use crate::datagram::is_hello;
use crate::error::NetError;

/// A client that says no hello for so long, while another of its address waits, has lost its turn: it says
/// one as soon as it was told to, so that a round trip by satellite passes twice.
pub(super) const TURN: Duration = Duration::from_secs(1);

/// A look at the socket takes at most this, and a test that looks not itself hears of its hello after as
/// long.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// What is heard at each address.
#[derive(Debug, Default)]
pub(super) struct Hellos(Mutex<HashMap<SocketAddr, Door>>);

#[derive(Debug)]
struct Door {
    socket: UdpSocket,
    /// In the order in which they came.
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    test: u64,
    client: IpAddr,
    connected: Sender<UdpSocket>,
}

/// A test's place among those that wait; given up when it is dropped.
#[derive(Debug)]
pub(super) struct HelloTurn<'a> {
    hellos: &'a Hellos,
    local: SocketAddr,
    client: IpAddr,
    test: u64,
    connected: Receiver<UdpSocket>,
}

impl Hellos {
    /// Takes a place behind those that wait at `local`. `open` makes a socket there; no two tests have the
    /// same number.
    pub(super) fn wait(
        &self,
        local: SocketAddr,
        client: IpAddr,
        test: u64,
        open: impl Fn() -> Result<UdpSocket, NetError>,
    ) -> Result<HelloTurn<'_>, NetError> {
        let (sender, connected) = channel();
        let client = client.to_canonical();
        let waiting = Waiting { test, client, connected: sender };
        let mut doors = self.doors();
        match doors.get_mut(&local) {
            Some(door) => door.waiting.push(waiting),
            None => {
                let lost = |source| NetError::Listen { at: local, source };
                let socket = open()?;
                socket.set_read_timeout(Some(POLL_INTERVAL)).map_err(lost)?;
                doors.insert(local, Door { socket, waiting: vec![waiting] });
            }
        }
        Ok(HelloTurn { hellos: self, local, client, test, connected })
    }

    fn doors(&self) -> MutexGuard<'_, HashMap<SocketAddr, Door>> {
        self.0.lock()
    }
}

impl HelloTurn<'_> {
    /// Whether it is this test's turn, and whether another of the same client waits behind it.
    pub(super) fn turn(&self) -> (bool, bool) {
        let doors = self.hellos.doors();
        let waiting = doors.get(&self.local).map_or(&[][..], |door| &door.waiting);
        let mut same = waiting.iter().filter(|waiting| waiting.client == self.client);
        let is_first = same.next().is_some_and(|first| first.test == self.test);
        (is_first, is_first && same.next().is_some())
    }

    /// The socket of this test's next stream, if its hello comes within a look. `open` makes the one for the
    /// hellos after it.
    pub(super) fn next(
        &self,
        open: impl Fn() -> Result<UdpSocket, NetError>,
    ) -> Result<Option<UdpSocket>, NetError> {
        // Others look too, and hand on what they find; meanwhile they may have the lock.
        if let Ok(socket) = self.connected.recv_timeout(POLL_INTERVAL) {
            return Ok(Some(socket));
        }
        if let Some(door) = self.hellos.doors().get_mut(&self.local) {
            door.look(self.local, open)?;
        }
        Ok(self.connected.try_recv().ok())
    }
}

impl Drop for HelloTurn<'_> {
    fn drop(&mut self) {
        let mut doors = self.hellos.doors();
        let Some(door) = doors.get_mut(&self.local) else { return };
        door.waiting.retain(|waiting| waiting.test != self.test);
        if door.waiting.is_empty() {
            doors.remove(&self.local);
        }
    }
}

impl Door {
    /// Takes in a hello if one comes, and connects the socket to whoever said it.
    fn look(
        &mut self,
        local: SocketAddr,
        open: impl Fn() -> Result<UdpSocket, NetError>,
    ) -> Result<(), NetError> {
        let lost = |source| NetError::Listen { at: local, source };
        let mut heard = hello(&self.socket).into_iter().collect::<Vec<_>>();
        while let Some(from) = heard.pop() {
            let client = from.ip().to_canonical();
            let Some(whose) = self.waiting.iter().find(|waiting| waiting.client == client) else { continue };
            // The next one is there before this one hears its client alone.
            let next = open()?;
            next.set_read_timeout(Some(POLL_INTERVAL)).map_err(lost)?;
            let socket = std::mem::replace(&mut self.socket, next);
            socket.connect(from).map_err(lost)?;
            // What others said to it before: none of them says it again, if it is iperf3's.
            socket.set_nonblocking(true).map_err(lost)?;
            while let Some(other) = hello(&socket) {
                if other != from && !heard.contains(&other) {
                    heard.push(other);
                }
            }
            socket.set_nonblocking(false).map_err(lost)?;
            // A test that is over takes no more.
            let _ = whose.connected.send(socket);
        }
        Ok(())
    }
}

/// Who says hello now.
fn hello(socket: &UdpSocket) -> Option<SocketAddr> {
    let mut room = [0; 64];
    loop {
        match socket.recv_from(&mut room) {
            Ok((count, from)) if is_hello(&room[..count]) => return Some(from),
            // Something else: what is behind it may be one, but strangers do not keep this test from looking
            // at its client.
            Ok(_) => return None,
            Err(cause) if cause.kind() == std::io::ErrorKind::Interrupted => {}
            Err(cause) => {
                if !is_pause(&cause) {
                    tracing::debug!("waiting for UDP: {cause}");
                }
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram::HELLO;
    use crate::socket::{Wiring, bind_udp};
    use std::time::Instant;

    fn client(address: &str, to: SocketAddr) -> UdpSocket {
        let socket = UdpSocket::bind((address, 0)).unwrap();
        socket.connect(to).unwrap();
        socket
    }

    fn got(place: &HelloTurn<'_>, open: impl Fn() -> Result<UdpSocket, NetError>) -> UdpSocket {
        let begun = Instant::now();
        loop {
            if let Some(socket) = place.next(&open).unwrap() {
                return socket;
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "no hello came");
        }
    }

    /// Whoever looks, each client's hello reaches its own test, and a silent one holds up no other address.
    #[test]
    fn hellos_find_their_tests_by_address() {
        let first = bind_udp(SocketAddr::from(([127, 0, 0, 1], 0)), &Wiring::default()).unwrap();
        let local = first.local_addr().unwrap();
        drop(first);
        let open = || bind_udp(local, &Wiring::default());
        let hellos = Hellos::default();
        let silent = hellos.wait(local, [127, 0, 0, 2].into(), 1, open).unwrap();
        let one = hellos.wait(local, [127, 0, 0, 3].into(), 2, open).unwrap();
        let other = hellos.wait(local, [127, 0, 0, 1].into(), 3, open).unwrap();
        let (far, near) = (client("127.0.0.3", local), client("127.0.0.1", local));
        far.send(&HELLO).unwrap();
        near.send(&HELLO).unwrap();
        assert_eq!(got(&other, open).peer_addr().unwrap(), near.local_addr().unwrap());
        assert_eq!(got(&one, open).peer_addr().unwrap(), far.local_addr().unwrap());
        assert!(silent.next(open).unwrap().is_none());
        drop((silent, one, other));
        assert!(hellos.doors().is_empty());
    }

    #[test]
    fn tests_of_one_address_take_turns() {
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let open = || bind_udp(local, &Wiring::default());
        let hellos = Hellos::default();
        let client = IpAddr::from([127, 0, 0, 1]);
        let first = hellos.wait(local, client, 1, open).unwrap();
        assert_eq!(first.turn(), (true, false));
        let second = hellos.wait(local, client, 2, open).unwrap();
        let elsewhere = hellos.wait(local, [127, 0, 0, 9].into(), 3, open).unwrap();
        assert_eq!(
            (first.turn(), second.turn(), elsewhere.turn()),
            ((true, true), (false, false), (true, false))
        );
        drop(first);
        assert_eq!(second.turn(), (true, false));
    }
}
