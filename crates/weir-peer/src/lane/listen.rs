//! Accepting lanes: from whoever proves to be of this session, within a time, and of few at once.

use std::collections::HashSet;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Lane, read_by};
use crate::error::LaneError;
use crate::secure::Keyring;
use crate::threads;
use crate::wire::message::{Ports, Role};
use crate::wire::record::parse_greeting;

/// How long a connection may take to prove what it is.
const PROOF: Duration = Duration::from_secs(5);

/// Connections that have not: more than a tuner ever opens at once, few enough to cost nothing.
const HALF_OPEN: usize = 16;

/// After a failed accept, before the next.
const RELIEF: Duration = Duration::from_millis(50);

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
    half_open: AtomicUsize,
    over: AtomicBool,
}

impl Listener {
    /// Listens on a port of `ports`, on all addresses; hands each lane to `accepted`.
    pub fn start(
        ports: Ports,
        keyring: Keyring,
        role: Role,
        accepted: impl Fn(Lane) + Send + Sync + 'static,
    ) -> io::Result<Listener> {
        let socket = bind(ports)?;
        let port = socket.local_addr()?.port();
        let gate = Arc::new(Gate {
            keyring,
            role,
            used: Mutex::default(),
            half_open: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        });
        let (keeper, accepted) = (Arc::clone(&gate), Arc::new(accepted));
        std::thread::Builder::new().name("accept".into()).spawn(move || {
            loop {
                let connection = socket.accept();
                if keeper.over.load(Relaxed) {
                    return;
                }
                let (stream, from) = match connection {
                    Ok(connection) => connection,
                    Err(error) => {
                        // Out of descriptors, or a connection that was over before it was taken (accept(2)): neither lasts.
                        tracing::debug!("accept: {error}");
                        std::thread::sleep(RELIEF);
                        continue;
                    }
                };
                if keeper.half_open.fetch_add(1, Relaxed) >= HALF_OPEN {
                    keeper.half_open.fetch_sub(1, Relaxed);
                    tracing::debug!("{from}: too many that have not proved anything");
                    continue;
                }
                let (gate, accepted) = (Arc::clone(&keeper), Arc::clone(&accepted));
                let started = threads::start("admit", move || {
                    let admitted = gate.admit(stream);
                    gate.half_open.fetch_sub(1, Relaxed);
                    match admitted {
                        Ok(lane) => accepted(lane),
                        Err(error) => tracing::debug!("{from}: {error}"),
                    }
                });
                if let Err(why) = started {
                    keeper.half_open.fetch_sub(1, Relaxed);
                    tracing::debug!("{from}: no thread for it: {why}");
                }
            }
        })?;
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
        // Wakes the thread in accept, which then ends and closes the port.
        for address in
            [SocketAddr::from((Ipv6Addr::LOCALHOST, self.port)), (Ipv4Addr::LOCALHOST, self.port).into()]
        {
            if TcpStream::connect_timeout(&address, Duration::from_millis(100)).is_ok() {
                return;
            }
        }
    }
}

impl Gate {
    fn admit(&self, mut stream: TcpStream) -> Result<Lane, LaneError> {
        let until = Instant::now() + PROOF;
        stream.set_write_timeout(Some(PROOF))?;
        let mut greeting = [0; 16];
        read_by(&mut stream, &mut greeting, until)?;
        let id = parse_greeting(&greeting)?;
        let mut lane = Lane::new(id, stream, &self.keyring, self.role)?;
        lane.before = greeting.len() as u64;
        lane.hear_hello(until)?;
        // Only one who has the keys gets here, so that a stranger cannot use numbers up.
        if !self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(id) {
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
                Ok(listener) => return Ok(listener),
                Err(error) => last = error,
            }
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::super::dial::dial;
    use super::*;
    use crate::secure::Secret;
    use crate::wire::message::Listening;

    #[test]
    fn without_a_cipher_too_only_who_has_the_secret_gets_a_lane() {
        let [own, strange] = [(); 2].map(|()| Keyring::new(&Secret::draw().unwrap(), None));
        let (accepted, lanes) = channel();
        let any = Ports { first: 0, last: 0 };
        let accept = move |lane: Lane| accepted.send(lane.id).unwrap();
        let listener = Listener::start(any, own.clone(), Role::Receiver, accept).unwrap();
        let at = Listening { port: listener.port(), addresses: vec![Ipv4Addr::LOCALHOST.into()] };
        assert!(dial(&at, 7, &strange, Role::Sender, PROOF).is_err());
        // A number that a stranger named is not used up.
        assert_eq!(dial(&at, 7, &own, Role::Sender, PROOF).unwrap().id, 7);
        assert_eq!(lanes.recv(), Ok(7));
        drop(listener);
        assert_eq!(lanes.iter().count(), 0);
    }
}
