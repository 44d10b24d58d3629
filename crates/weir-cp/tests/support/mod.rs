//! A sender and a receiver in this process: their control connection is two pipes, their lanes run over TCP
//! through a hand that can bend what they carry.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver as Mailbox, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_codec::cipher::Cipher;
use weir_cp::control::{Control, Outlet};
use weir_cp::end::{End, Post, listen_to};
use weir_cp::events::{Event, Events};
use weir_cp::lane::dial::dial;
use weir_cp::lane::listen::Listener;
use weir_cp::receiver::{Receiver, Wanted};
use weir_cp::roots;
use weir_cp::secret::Secret;
use weir_cp::secure::Keyring;
use weir_cp::sender::Sender;
use weir_cp::speeds::Speeds;
use weir_cp::wire::message::{Listening, Options, Ports, Role};
use weir_cp::wire::to_receiver::ToReceiver;

/// A test that waits this long has failed.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Two folders and the ends between them.
pub struct Pair {
    folder: tempfile::TempDir,
}

/// What the hand does to the bytes of a lane.
#[derive(Debug, Clone)]
pub struct Bend {
    how: How,
    /// How often it did so.
    pub bent: Arc<AtomicUsize>,
    /// How often it still may.
    left: Arc<AtomicUsize>,
    seed: Arc<Mutex<u64>>,
}

#[derive(Debug, Clone, Copy)]
enum How {
    Nothing,
    /// One bit somewhere in the next MiB.
    Flip,
    /// A record twice.
    Repeat,
    /// The end, somewhere in the next two MiB.
    Cut,
}

impl Bend {
    fn new(how: How, times: usize, seed: u64) -> Bend {
        let left = Arc::new(AtomicUsize::new(times));
        Bend { how, bent: Arc::default(), left, seed: Arc::new(Mutex::new(seed * 2 + 1)) }
    }

    pub fn nothing() -> Bend {
        Bend::new(How::Nothing, 0, 0)
    }

    pub fn flips(seed: u64, times: usize) -> Bend {
        Bend::new(How::Flip, times, seed)
    }

    pub fn repeats() -> Bend {
        Bend::new(How::Repeat, 1, 0)
    }

    pub fn cuts(times: usize) -> Bend {
        Bend::new(How::Cut, times, 1)
    }

    /// A number below `below` (a linear congruential generator is random enough to choose places).
    fn draw(&self, below: u64) -> u64 {
        let mut seed = self.seed.lock().unwrap();
        *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*seed >> 33) % below
    }

    fn takes_one(&self) -> bool {
        self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

/// Bytes that repeat nowhere near.
pub fn pattern(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..size.div_ceil(8)).flat_map(|_| next().to_le_bytes()).take(size).collect()
}

/// A folder of small files.
pub fn tree(root: &Path, files: usize) {
    std::fs::create_dir(root).unwrap();
    for index in 0..files {
        std::fs::write(root.join(format!("f{index}")), pattern(index * 1000)).unwrap();
    }
}

impl Pair {
    pub fn new() -> Pair {
        let folder = tempfile::tempdir().unwrap();
        for side in ["from", "to"] {
            std::fs::create_dir(folder.path().join(side)).unwrap();
        }
        Pair { folder }
    }

    pub fn source(&self, name: &str) -> PathBuf {
        self.folder.path().join("from").join(name)
    }

    pub fn target(&self, name: &str) -> PathBuf {
        self.folder.path().join("to").join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.source(name), bytes).unwrap();
    }

    /// Whether `name` is the same on both sides, with all in it.
    pub fn arrived(&self, name: &str) -> bool {
        same(&self.source(name), &self.target(name))
    }

    /// Copies everything over `lanes` lanes; a lane that breaks is followed by another.
    pub fn copy(&self, lanes: u32, bend: Bend) -> Result<(), String> {
        let ring = Keyring::new(&Secret::draw().unwrap(), Some(Cipher::AES_128_GCM));
        let (there, back) = (io::pipe().unwrap(), io::pipe().unwrap());
        let (tell_sender, heard_sender) = channel();
        let (tell_receiver, heard_receiver) = channel();
        let control = Arc::new(Control::new(there.1));
        let far_control = Arc::new(Control::new(back.1));
        let mut names: Vec<_> = std::fs::read_dir(self.source("")).unwrap().flatten().collect();
        names.sort_by_key(std::fs::DirEntry::file_name);
        let paths: Vec<Vec<u8>> =
            names.iter().map(|entry| entry.path().to_string_lossy().into_owned().into()).collect();
        let roots::Sources { walks, roots: found, .. } = roots::look(&paths, &Options::default()).unwrap();
        let events = Events::new("the receiver", tell_sender);
        let far_events = Events::new("the sender", tell_receiver);
        let sender = Sender::new(
            Outlet::new(&control),
            events.clone(),
            Options::default(),
            ring.clone(),
            (walks, &Speeds::default()),
        );
        let to = self.target("").to_string_lossy().into_owned() + "/";
        let wanted = Wanted { to: to.into(), names: None, same_machine: false };
        let receiver =
            Receiver::new(Outlet::new(&far_control), far_events.clone(), Options::default(), wanted);
        let (end, far_end) = (End::Sender(sender), End::Receiver(receiver));
        let (reader, far_reader) = (end.clone(), far_end.clone());
        std::thread::spawn(move || heard_receiver.iter().for_each(|event| say(&far_control, event)));
        std::thread::spawn(move || listen_to(there.0, &far_reader, Post::Peer, &far_events));
        let reader_events = events.clone();
        std::thread::spawn(move || listen_to(back.0, &reader, Post::Driver, &reader_events));
        let accept = far_end.clone();
        let ports = Ports { first: 0, last: 0 };
        let listener =
            Listener::start(ports, ring.clone(), Role::Receiver, move |lane| accept.add_lane(lane), |_| {})
                .unwrap();
        let hand = Hand::start(listener.port(), bend);
        Outlet::new(&control).send(&ToReceiver::Roots(found));
        let mut ids = 1..;
        let mut make = || {
            let at = Listening { port: hand.port, addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)] };
            // What greets may be bent too.
            for id in ids.by_ref() {
                if let Ok(lane) = dial(&at, id, &ring, Role::Sender, TIMEOUT) {
                    return end.add_lane(lane);
                }
            }
        };
        (0..lanes).for_each(|_| make());
        let outcome = wait(&heard_sender, &control, make);
        control.close();
        end.stop();
        far_end.stop();
        outcome
    }
}

/// What an end has for the other, of what it tells.
fn say(control: &Arc<Control>, event: Event) {
    match event {
        Event::ToReceiver(message) => Outlet::new(control).send(&message),
        Event::ToSender(message) => Outlet::new(control).send(&message),
        _ => {}
    }
}

fn wait(events: &Mailbox<Event>, control: &Arc<Control>, mut make: impl FnMut()) -> Result<(), String> {
    let start = Instant::now();
    loop {
        match events.recv_timeout(TIMEOUT.saturating_sub(start.elapsed())) {
            Ok(Event::Finished(_)) => return Ok(()),
            Ok(Event::LaneLost(..)) => make(),
            Ok(Event::Failed(error)) => return Err(error.to_string()),
            Ok(Event::Problem(problem) | Event::ProblemThere(problem)) => return Err(problem.failure.words),
            Ok(event) => say(control, event),
            Err(error) => return Err(format!("no end: {error}")),
        }
    }
}

/// What stands between the ends of lanes.
struct Hand {
    port: u16,
    over: Arc<AtomicBool>,
}

impl Hand {
    fn start(to: u16, bend: Bend) -> Hand {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        std::thread::spawn(move || {
            while let Ok((near, _)) = listener.accept() {
                if ends.load(Relaxed) {
                    return;
                }
                let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)) else { return };
                let (back_from, back_to) = (far.try_clone().unwrap(), near.try_clone().unwrap());
                std::thread::spawn(move || drop(pass(back_from, back_to, &Bend::nothing())));
                let bend = bend.clone();
                std::thread::spawn(move || drop(pass(near, far, &bend)));
            }
        });
        Hand { port, over }
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

/// Carries bytes one way; bends them at a place of its choice.
fn pass(mut from: TcpStream, mut to: TcpStream, bend: &Bend) -> io::Result<()> {
    let mut place = bend.draw(1 << 20) + 20;
    let mut buffer = vec![0; 1 << 16];
    let mut seen = 0u64;
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return to.shutdown(Shutdown::Write);
        }
        let bytes = &mut buffer[..read];
        let here = (seen..seen + read as u64).contains(&place);
        seen += read as u64;
        if here && !matches!(bend.how, How::Nothing) && bend.takes_one() {
            bend.bent.fetch_add(1, Relaxed);
            match bend.how {
                How::Flip => {
                    let at = (place + read as u64 - seen) as usize;
                    bytes[at] ^= 1 << bend.draw(8);
                    place = seen + bend.draw(1 << 20);
                }
                How::Cut => {
                    let _ = to.shutdown(Shutdown::Both);
                    return from.shutdown(Shutdown::Both);
                }
                How::Repeat => to.write_all(bytes)?,
                How::Nothing => {}
            }
        }
        to.write_all(bytes)?;
    }
}

fn same(one: &Path, other: &Path) -> bool {
    if !one.is_dir() {
        return matches!((std::fs::read(one), std::fs::read(other)), (Ok(a), Ok(b)) if a == b);
    }
    let names = |at: &Path| -> HashSet<_> {
        std::fs::read_dir(at).unwrap().flatten().map(|entry| entry.file_name()).collect()
    };
    names(one) == names(other) && names(one).iter().all(|name| same(&one.join(name), &other.join(name)))
}
