//! A network of its own with a name server that answers as a test wants, or not at all.
//!
//! The thread that asks for it moves into new network and mount namespaces; threads and programs that it
//! starts are born there.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::{Sandbox, skip};

/// What the name server does with a question.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// Nothing.
    Silence,
    /// These addresses, those of the family asked for; none of another: an answer without records.
    Addresses(Vec<IpAddr>),
    /// An error: 2 SERVFAIL, 3 NXDOMAIN, 5 REFUSED.
    Code(u8),
    /// "Ask by TCP": these are there, or nobody is.
    Truncated(Option<Vec<IpAddr>>),
    /// Bytes that are no answer.
    Garbage,
    /// That, after a while.
    After(Duration, Box<Reply>),
}

impl Reply {
    /// One address.
    pub(crate) fn at(address: impl Into<IpAddr>) -> Reply {
        Reply::Addresses(vec![address.into()])
    }

    fn resolved(self) -> Reply {
        match self {
            Reply::After(span, then) => {
                std::thread::sleep(span);
                then.resolved()
            }
            other => other,
        }
    }
}

type Answer = dyn Fn(&str) -> Reply + Send + Sync;

/// The network.
pub(crate) struct World {
    asked: Arc<Mutex<Vec<(String, u16)>>>,
}

const A: u16 = 1;
const AAAA: u16 = 28;

impl World {
    /// How often the IPv4 address of `name` was asked for: resolvers ask for both families at once.
    pub(crate) fn asked(&self, name: &str) -> usize {
        self.asked
            .lock()
            .expect("an unpoisoned log")
            .iter()
            .filter(|(asked, kind)| asked == name && *kind == A)
            .count()
    }
}

/// One port by UDP and by TCP. A port that is free for the one may be taken for the other by another test.
fn by_both(port: u16) -> io::Result<(UdpSocket, TcpListener)> {
    loop {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port))?;
        match TcpListener::bind(socket.local_addr()?) {
            Err(error) if port == 0 && error.kind() == io::ErrorKind::AddrInUse => {}
            tcp => return Ok((socket, tcp?)),
        }
    }
}

/// Runs `test` where names are answered by `answer`. Says so where no namespaces can be made.
pub(crate) fn where_names(
    answer: impl Fn(&str) -> Reply + Send + Sync + 'static,
    test: impl FnOnce(&World) + Send,
) {
    if !rustix::process::geteuid().is_root() {
        return skip("needs root for namespaces");
    }
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| match World::make(Arc::new(answer)) {
            Ok(world) => test(&world),
            Err(why) => skip(&why),
        });
        if let Err(panic) = inside.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

impl World {
    #[allow(unsafe_code, reason = "namespaces have no safe word")]
    fn make(answer: Arc<Answer>) -> Result<World, String> {
        // SAFETY: no file descriptors are unshared, and this thread has made no other use of what is.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET | UnshareFlags::NEWNS) }
            .map_err(|error| format!("no namespaces: {error}"))?;
        run("mount", &["--make-rprivate", "/"])?;
        run("ip", &["link", "set", "lo", "up"])?;
        let files = Sandbox::new();
        for (path, text) in [
            ("/etc/resolv.conf", "nameserver 127.0.0.1\n"),
            ("/etc/hosts", "127.0.0.1 localhost\n"),
            ("/etc/nsswitch.conf", "hosts: files dns\n"),
        ] {
            if Path::new(path).exists() {
                let own = files.write(path.trim_start_matches("/etc/"), text);
                run("mount", &["--bind", own.to_str().expect("a path in ASCII"), path])?;
            }
        }
        let world = World { asked: Arc::default() };
        world.serve(53, answer).map_err(|error| error.to_string())?;
        Ok(world)
    }

    /// A name server on a free port of the loopback, which only those ask who are told of it.
    pub(crate) fn aside(
        answer: impl Fn(&str) -> Reply + Send + Sync + 'static,
    ) -> io::Result<(World, SocketAddr)> {
        let world = World { asked: Arc::default() };
        let address = world.serve(0, Arc::new(answer))?;
        Ok((world, address))
    }

    /// Answers by UDP and TCP on this port of the loopback.
    fn serve(&self, port: u16, answer: Arc<Answer>) -> io::Result<SocketAddr> {
        let (socket, tcp) = by_both(port)?;
        let address = socket.local_addr()?;
        let seen = Arc::clone(&self.asked);
        let by_tcp = Arc::clone(&answer);
        std::thread::spawn(move || {
            let mut bytes = [0; 1500];
            while let Ok((length, from)) = socket.recv_from(&mut bytes) {
                let Some(question) = Question::parse(&bytes[..length]) else { continue };
                seen.lock().expect("an unpoisoned log").push((question.name.clone(), question.kind));
                let (answer, socket) = (Arc::clone(&answer), socket.try_clone().expect("a descriptor"));
                // Each on a thread of its own: a late answer holds up no other.
                std::thread::spawn(move || {
                    if let Some(reply) = question.answered(answer(&question.name).resolved(), false) {
                        let _ = socket.send_to(&reply, from);
                    }
                });
            }
        });
        std::thread::spawn(move || {
            for mut stream in tcp.incoming().flatten() {
                let answer = Arc::clone(&by_tcp);
                std::thread::spawn(move || {
                    // RFC 1035 section 4.2.2: each message after its length.
                    let mut length = [0; 2];
                    while stream.read_exact(&mut length).is_ok() {
                        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
                        let Ok(()) = stream.read_exact(&mut message) else { return };
                        let Some(question) = Question::parse(&message) else { return };
                        let Some(reply) = question.answered(answer(&question.name).resolved(), true) else {
                            return;
                        };
                        let framed = [&(reply.len() as u16).to_be_bytes()[..], &reply].concat();
                        let Ok(()) = stream.write_all(&framed) else { return };
                    }
                });
            }
        });
        Ok(address)
    }
}

/// A question of RFC 1035 section 4.1.2.
struct Question {
    id: [u8; 2],
    /// As it came, to be sent back.
    raw: Vec<u8>,
    name: String,
    kind: u16,
}

impl Question {
    fn parse(message: &[u8]) -> Option<Question> {
        let mut at = 12;
        let mut name = String::new();
        loop {
            let length = usize::from(*message.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            if !name.is_empty() {
                name.push('.');
            }
            name.push_str(&String::from_utf8_lossy(message.get(at..at + length)?));
            at += length;
        }
        let raw = message.get(12..at + 4)?.to_vec();
        let kind = u16::from_be_bytes([message[at], message[at + 1]]);
        Some(Question { id: [message[0], message[1]], raw, name: name.to_ascii_lowercase(), kind })
    }

    fn answered(&self, reply: Reply, by_tcp: bool) -> Option<Vec<u8>> {
        let (code, truncated, found) = match reply {
            Reply::Silence | Reply::After(..) => return None,
            Reply::Garbage => return Some(b"no answer at all".to_vec()),
            Reply::Code(code) => (code, false, Vec::new()),
            Reply::Addresses(found) => (0, false, found),
            Reply::Truncated(found) if by_tcp => (0, false, found?),
            Reply::Truncated(_) => (0, true, Vec::new()),
        };
        let records: Vec<Vec<u8>> = (found.into_iter())
            .filter_map(|address| match (address, self.kind) {
                (IpAddr::V4(address), A) => Some(address.octets().to_vec()),
                (IpAddr::V6(address), AAAA) => Some(address.octets().to_vec()),
                _ => None,
            })
            .collect();
        let mut message = self.id.to_vec();
        // An answer, recursion desired and available, perhaps truncated.
        message.extend([
            0x81 | u8::from(truncated) << 1,
            0x80 | code,
            0,
            1,
            0,
            records.len() as u8,
            0,
            0,
            0,
            0,
        ]);
        message.extend(&self.raw);
        for record in records {
            // The name by reference, the kind, class IN, a minute to live.
            message.extend([0xc0, 12]);
            message.extend(self.kind.to_be_bytes());
            message.extend([0, 1, 0, 0, 0, 60, 0, record.len() as u8]);
            message.extend(record);
        }
        Some(message)
    }
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    match Command::new(program).args(args).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("{program}: {error}")),
    }
}
