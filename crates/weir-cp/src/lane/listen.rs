//! Accepting lanes: from whoever proves to be of this session, within a time.
//!
//! The port is open to whoever reaches it, while a far control connection takes its time to tell the right
//! ones of it. So one thread waits at the door and hears all who come: the first bytes of a lane hold a
//! cookie that only this session's ends can make ([`Keyring::cookie`]), and come with the connection itself.
//! Who says something else is turned away at once, and of those who say nothing the one that has waited
//! longest gives way to the next: neither takes a place from a lane.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::{Lane, direction};
use crate::descriptors;
use crate::error::LaneError;
use crate::secure::Keyring;
use crate::threads;
use crate::wire::message::{Ports, Role};
use crate::wire::record::{GREETED, parse_greeting};

/// How long a connection may take to prove what it is.
const PROOF: Duration = Duration::from_secs(5);

/// Connections whose cookie is right and whose hello is not here yet: more than a tuner ever opens at once,
/// few enough to cost nothing where somebody repeats a cookie that was on the wire.
const AT_THE_DOOR: usize = 16;

/// Connections taken in one turn, before those that wait are heard.
const TURN: usize = 64;

/// What may wait for the thread to take it: a kernel's own limit (net.core.somaxconn, 4096 since Linux 5.4)
/// cuts it.
const BACKLOG: i32 = 4096;

/// After a failed accept, before the next.
const RELIEF: Duration = Duration::from_millis(50);

/// Between two words on strangers.
const TELL: Duration = Duration::from_secs(1);

/// Accepts lanes until it is dropped.
#[derive(Debug)]
pub struct Listener {
    port: u16,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct Gate {
    keyring: Keyring,
    role: Role,
    /// Numbers that were used: a second one would repeat nonces.
    used: Mutex<HashSet<u32>>,
    at_the_door: AtomicUsize,
    over: AtomicBool,
}

/// Who waits at the port, and who is to be told.
struct Door<A, S> {
    gate: Arc<Gate>,
    /// In the order in which they came.
    guests: VecDeque<Guest>,
    /// So many of them at most.
    room: usize,
    accepted: Arc<A>,
    /// Connections that were none of this session's.
    strangers: u64,
    tell: S,
    /// How many were told of, and when.
    told: (u64, Option<Instant>),
}

/// A connection that has not said who it is.
struct Guest {
    stream: TcpStream,
    from: SocketAddr,
    until: Instant,
    said: [u8; GREETED],
    heard: usize,
}

impl Listener {
    /// Listens on a port of `ports`, on all addresses; hands each lane to `accepted`, and now and then to
    /// `tell` how many connections of strangers have come so far.
    pub fn start(
        ports: Ports,
        keyring: Keyring,
        role: Role,
        accepted: impl Fn(Lane) + Send + Sync + 'static,
        tell: impl Fn(u64) + Send + 'static,
    ) -> io::Result<Listener> {
        let socket = bind(ports)?;
        socket.set_nonblocking(true)?;
        let port = socket.local_addr()?.port();
        let gate = Arc::new(Gate {
            keyring,
            role,
            used: Mutex::default(),
            at_the_door: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        });
        let door = Door {
            gate: Arc::clone(&gate),
            guests: VecDeque::new(),
            room: descriptors::for_guests(),
            accepted: Arc::new(accepted),
            strangers: 0,
            tell,
            told: (0, None),
        };
        threads::start("accept", move || door.keep(&socket))?;
        Ok(Listener { port, gate })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.gate.over.store(true, Relaxed);
        // Wakes the thread that waits for connections, which then ends and closes the port.
        for address in
            [SocketAddr::from((Ipv6Addr::LOCALHOST, self.port)), (Ipv4Addr::LOCALHOST, self.port).into()]
        {
            if TcpStream::connect_timeout(&address, Duration::from_millis(100)).is_ok() {
                return;
            }
        }
    }
}

impl<A: Fn(Lane) + Send + Sync + 'static, S: Fn(u64)> Door<A, S> {
    /// Until the listener is dropped.
    fn keep(mut self, socket: &TcpListener) {
        loop {
            self.wait(socket);
            if self.gate.over.load(Relaxed) {
                return;
            }
            self.take(socket);
            for guest in std::mem::take(&mut self.guests) {
                self.hear(guest);
            }
            self.say_strangers();
        }
    }

    /// Until somebody comes, one of those who are there speaks, or has been silent for too long.
    fn wait(&self, socket: &TcpListener) {
        let mut ready: Vec<PollFd<'_>> = vec![PollFd::new(socket, PollFlags::IN)];
        ready.extend(self.guests.iter().map(|guest| PollFd::new(&guest.stream, PollFlags::IN)));
        let silent = self.guests.front().map(|guest| guest.until);
        let due = self.told.1.filter(|_| self.told.0 < self.strangers).map(|told| told + TELL);
        let until = silent.into_iter().chain(due).min();
        let timeout = until.map(|until| until.saturating_duration_since(Instant::now()));
        // One that is interrupted, or has no memory for it, looks and waits again.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let _ = poll(&mut ready, timeout.as_ref());
    }

    /// Takes in those who have come; hears what they say with their first packet.
    fn take(&mut self, socket: &TcpListener) {
        for _ in 0..TURN {
            match socket.accept() {
                Ok((stream, from)) => {
                    let until = Instant::now() + PROOF;
                    self.hear(Guest { stream, from, until, said: [0; GREETED], heard: 0 });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Out of descriptors, or a connection that was over before it was taken (accept(2)):
                    // neither lasts.
                    tracing::debug!("accept: {error}");
                    self.let_oldest_go();
                    return std::thread::sleep(RELIEF);
                }
            }
        }
    }

    /// Lets in who has proven to be of this session, and keeps who may still do so.
    fn hear(&mut self, mut guest: Guest) {
        match guest.listen() {
            Ok(true) => match self.gate.knows(&guest.said) {
                Ok(id) => self.admit(guest, id),
                Err(why) => self.turn_away(&guest, &why.to_string()),
            },
            Ok(false) if Instant::now() < guest.until => {
                self.guests.push_back(guest);
                if self.guests.len() > self.room {
                    self.let_oldest_go();
                }
            }
            Ok(false) => self.turn_away(&guest, "it has said nothing"),
            Err(why) => self.turn_away(&guest, &weir_units::plain(&why)),
        }
    }

    fn let_oldest_go(&mut self) {
        if let Some(oldest) = self.guests.pop_front() {
            self.turn_away(&oldest, "too many that have proven nothing");
        }
    }

    fn turn_away(&mut self, guest: &Guest, why: &str) {
        self.strangers += 1;
        tracing::debug!("{}: {why}", guest.from);
    }

    /// Hears the hello of one whose cookie is right, on a thread of its own.
    fn admit(&mut self, guest: Guest, id: u32) {
        if self.gate.at_the_door.fetch_add(1, Relaxed) >= AT_THE_DOOR {
            self.gate.at_the_door.fetch_sub(1, Relaxed);
            return self.turn_away(&guest, "too many with a cookie and no hello");
        }
        let Guest { stream, from, until, .. } = guest;
        let (gate, accepted) = (Arc::clone(&self.gate), Arc::clone(&self.accepted));
        let started = threads::start("admit", move || {
            let admitted = gate.admit(stream, id, until);
            gate.at_the_door.fetch_sub(1, Relaxed);
            match admitted {
                Ok(lane) => accepted(lane),
                Err(error) => tracing::debug!("{from}: {error}"),
            }
        });
        if let Err(why) = started {
            self.gate.at_the_door.fetch_sub(1, Relaxed);
            tracing::debug!("{from}: no thread for it: {why}");
        }
    }

    /// Tells how many strangers there were, where there are more.
    fn say_strangers(&mut self) {
        let now = Instant::now();
        let may = self.told.1.is_none_or(|told| now.saturating_duration_since(told) >= TELL);
        if may && self.told.0 < self.strangers {
            self.told = (self.strangers, Some(now));
            (self.tell)(self.strangers);
        }
    }
}

impl Guest {
    /// Hears what it has said since; whether that is all of a greeting.
    fn listen(&mut self) -> io::Result<bool> {
        while self.heard < GREETED {
            match rustix::net::recv(&self.stream, &mut self.said[self.heard..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((_, more)) => self.heard += more,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(true)
    }
}

impl Gate {
    /// The number of the lane whose cookie this is.
    fn knows(&self, said: &[u8; GREETED]) -> Result<u32, LaneError> {
        let (id, cookie) = parse_greeting(said)?;
        let (_, back) = direction(self.role);
        let own = self.keyring.cookie(id, back);
        verify_slices_are_equal(&cookie, &own).map_err(|_| LaneError::Stranger)?;
        Ok(id)
    }

    fn admit(&self, stream: TcpStream, id: u32, until: Instant) -> Result<Lane, LaneError> {
        stream.set_write_timeout(Some(PROOF))?;
        let mut lane = Lane::new(id, stream, &self.keyring, self.role)?;
        lane.before = GREETED as u64;
        lane.hear_hello(until)?;
        // Only one who has the keys gets here, so that a stranger cannot use numbers up.
        if !self.used.lock().insert(id) {
            return Err(LaneError::Stranger);
        }
        lane.say_hello()?;
        lane.settle()?;
        Ok(lane)
    }
}

/// All of IPv6 with IPv4 where there is IPv6, else all of IPv4; the first free port.
fn bind(ports: Ports) -> io::Result<TcpListener> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for port in ports.first..=ports.last {
        for address in [SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)), (Ipv4Addr::UNSPECIFIED, port).into()]
        {
            match TcpListener::bind(address) {
                Ok(listener) => {
                    // The library's own backlog, 128, is full in a blink where somebody means it. Where this
                    // fails that has to do.
                    let _ = rustix::net::listen(&listener, BACKLOG);
                    return Ok(listener);
                }
                Err(error) => last = error,
            }
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::mpsc::{Receiver, channel};

    use super::super::dial::dial;
    use super::*;
    use crate::secret::Secret;
    use crate::wire::message::Listening;
    use crate::wire::record::greeting;

    /// A door that lets in who has the second keyring of the three; what it let in, and how many strangers it
    /// told of.
    fn door(own: &Keyring) -> (Listener, Listening, Receiver<u32>, Receiver<u64>) {
        let (accepted, lanes) = channel();
        let (told, strangers) = channel();
        let any = Ports { first: 0, last: 0 };
        let accept = move |lane: Lane| accepted.send(lane.id).unwrap();
        // A test that has heard enough hears no more.
        let tell = move |count| told.send(count).unwrap_or_default();
        let listener = Listener::start(any, own.clone(), Role::Receiver, accept, tell).unwrap();
        let at = Listening { port: listener.port(), addresses: vec![Ipv4Addr::LOCALHOST.into()] };
        (listener, at, lanes, strangers)
    }

    #[test]
    fn without_a_cipher_too_only_who_has_the_secret_gets_a_lane() {
        let [own, strange] = [(); 2].map(|()| Keyring::new(&Secret::draw().unwrap(), None));
        let (listener, at, lanes, strangers) = door(&own);
        assert!(dial(&at, 7, &strange, Role::Sender, PROOF).is_err());
        assert!(strangers.recv().unwrap() > 0);
        // A number that a stranger named is not used up.
        assert_eq!(dial(&at, 7, &own, Role::Sender, PROOF).unwrap().id, 7);
        assert_eq!(lanes.recv(), Ok(7));
        drop(listener);
        assert_eq!(lanes.iter().count(), 0);
    }

    #[test]
    fn strangers_that_hold_their_places_keep_no_lane_out() {
        let own = Keyring::new(&Secret::draw().unwrap(), None);
        let (listener, at, lanes, _strangers) = door(&own);
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, listener.port())).unwrap();
        let mut silent: Vec<TcpStream> = (0..3 * descriptors::for_guests()).map(|_| connect()).collect();
        for id in 1..4 {
            assert_eq!(dial(&at, id, &own, Role::Sender, PROOF).unwrap().id, id);
            assert_eq!(lanes.recv(), Ok(id));
        }
        // The oldest gave way; nothing was said to it.
        let mut oldest = silent.remove(0);
        oldest.set_read_timeout(Some(PROOF)).unwrap();
        assert!(matches!(oldest.read(&mut [0; 8]), Ok(0) | Err(_)));
    }

    #[test]
    fn a_cookie_is_known_however_it_comes_and_no_other_is() {
        let own = Keyring::new(&Secret::draw().unwrap(), None);
        let (listener, _, lanes, strangers) = door(&own);
        let (out, back) = direction(Role::Sender);
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, listener.port())).unwrap();
        // That of the other direction, as the door itself would say it, and of another lane.
        for (lane, cookie) in [(3, own.cookie(3, back)), (3, own.cookie(4, out)), (3, [0; 16])] {
            let mut stranger = connect();
            stranger.write_all(&greeting(lane, &cookie)).unwrap();
            assert!(matches!(stranger.read(&mut [0; 8]), Ok(0) | Err(_)));
        }
        assert!(strangers.recv().unwrap() > 0);
        let mut slow = Lane::new(3, connect(), &own, Role::Sender).unwrap();
        for byte in greeting(3, &own.cookie(3, out)) {
            slow.stream.write_all(&[byte]).unwrap();
        }
        slow.say_hello().unwrap();
        slow.hear_hello(Instant::now() + PROOF).unwrap();
        assert_eq!(lanes.recv(), Ok(3));
    }
}
