//! The receiving threads of one session: one socket each, counted by number.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use socket2::SockRef;
use weir_observe::nic::softnet::SoftnetReader;
use weir_observe::thread::{ThreadClock, ThreadTimes, current_tid};

use super::batch::{Receiving, drops, set_buffer, set_joining};
use super::control::Counted;
use super::frame::{LARGEST_PAYLOAD, Mark};
use super::ledger::Ledger;
use super::sender::share;
use super::{Busy, PpsError};

/// How often a thread that hears nothing looks whether it is still wanted.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// While packets come the thread sleeps beside its socket, not at it: a packet that wakes a sleeper costs
/// whoever delivers it (on loopback the sender) more than the packet itself. So long a nap holds 200 packets
/// at a million a second, which any buffer has room for, as an interface's interrupt moderation does.
const NAP: Duration = Duration::from_micros(150);

/// After so many naps without a packet the thread waits at the socket again.
const NAPS: u32 = 100;

/// After the last packet: how long silence must last before the rest counts as lost, and for how long it is
/// waited at all (RFC 2544 section 23 gives stragglers two seconds).
const QUIET: Duration = Duration::from_millis(200);
const STRAGGLERS: Duration = Duration::from_secs(2);

/// One socket and what came through it.
pub struct Stream {
    socket: UdpSocket,
    joined: bool,
    state: Mutex<ReceiverState>,
    clock: OnceLock<Option<ThreadClock>>,
}

#[derive(Debug, Default)]
struct ReceiverState {
    trial: Option<u16>,
    ledger: Ledger,
    messages: u64,
    foreign: u64,
    first: Option<Instant>,
    last: Option<Instant>,
}

/// The readings at a trial's start.
#[derive(Debug)]
pub struct Before {
    at: Instant,
    drops: u64,
    backlog: Option<u64>,
    times: Vec<Option<ThreadTimes>>,
}

impl Stream {
    /// A socket on a free port of `address`. `joined` is wanted, but not every kernel does it: see
    /// [`Stream::is_joined`].
    pub fn open(address: IpAddr, joined: bool, buffer: usize) -> Result<Stream, PpsError> {
        let what = PpsError::socket("cannot open a UDP socket");
        let socket = UdpSocket::bind(SocketAddr::new(address, 0)).map_err(&what)?;
        if buffer > 0 {
            set_buffer(&socket, buffer);
        }
        socket.set_read_timeout(Some(POLL_INTERVAL)).map_err(&what)?;
        let joined = joined && set_joining(&socket).is_ok();
        Ok(Stream { socket, joined, state: Mutex::default(), clock: OnceLock::new() })
    }

    /// The kernel joins packets here.
    pub(crate) fn is_joined(&self) -> bool {
        self.joined
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.socket.local_addr().map_or(0, |address| address.port())
    }

    /// The receive buffer, as the kernel counts it.
    pub fn buffer(&self) -> u64 {
        SockRef::from(&self.socket).recv_buffer_size().unwrap_or_default() as u64
    }

    /// Takes packets until `over`.
    pub fn run(&self, token: u32, over: &AtomicBool) {
        let _ = self.clock.set(ThreadClock::open(current_tid()).ok());
        let mut batch = Receiving::new(LARGEST_PAYLOAD, self.joined);
        let mut naps = NAPS;
        while !over.load(Relaxed) {
            // Nothing for a while, or an ICMP error that some packet's sender caused: neither is of interest
            // here.
            let Ok(messages) = batch.receive(&self.socket, naps >= NAPS) else {
                if naps < NAPS {
                    std::thread::sleep(NAP);
                }
                naps = naps.saturating_add(1);
                continue;
            };
            naps = 0;
            let now = Instant::now();
            let mut state = self.state();
            state.messages += messages as u64;
            for packet in batch.packets(messages) {
                match (Mark::parse(packet), state.trial) {
                    (Some(mark), Some(trial)) if mark.token == token && mark.trial == trial => {
                        state.ledger.book(mark.number);
                    }
                    _ => state.foreign += 1,
                }
            }
            state.first.get_or_insert(now);
            state.last = Some(now);
        }
    }

    fn state(&self) -> MutexGuard<'_, ReceiverState> {
        self.state.lock()
    }

    fn times(&self) -> Option<ThreadTimes> {
        // The thread sets it first of all.
        self.clock.wait().as_ref()?.read().ok()
    }
}

/// All streams begin at nothing.
pub fn start(streams: &[Stream], trial: u16) -> Before {
    for stream in streams {
        *stream.state() = ReceiverState { trial: Some(trial), ..ReceiverState::default() };
    }
    Before {
        at: Instant::now(),
        drops: all_drops(streams),
        backlog: backlog(),
        times: streams.iter().map(Stream::times).collect(),
    }
}

/// Waits until all that were sent are there or nothing comes any more, and counts.
pub fn count(streams: &[Stream], before: &Before, sent: u64, stop: &AtomicBool) -> Counted {
    // The threads' times are those of the trial alone, without the wait.
    let span = before.at.elapsed();
    let shares = streams
        .iter()
        .zip(&before.times)
        .filter_map(|(stream, then)| Some(share((*then)?, stream.times()?, span)));
    let busy = shares.max_by(|a, b| a.run.total_cmp(&b.run)).unwrap_or(Busy::default());
    let start = Instant::now();
    let mut seen = (total(streams), start);
    while seen.0 < sent && start.elapsed() < STRAGGLERS && !stop.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(5));
        let now = total(streams);
        if now != seen.0 {
            seen = (now, Instant::now());
        } else if seen.1.elapsed() > QUIET {
            break;
        }
    }
    let mut counted = Counted { busy, ..Counted::default() };
    let (mut first, mut last): (Option<Instant>, Option<Instant>) = (None, None);
    let mut messages = 0;
    for stream in streams {
        let state = stream.state();
        messages += state.messages;
        counted.counts = counted.counts.and(state.ledger.counts());
        counted.foreign += state.foreign;
        first = first.into_iter().chain(state.first).min();
        last = last.max(state.last);
    }
    counted.span = first.zip(last).map(|(first, last)| last - first).unwrap_or_default();
    // The kernel counts joined packets that it drops as one: so many times what a message held.
    let dropped = all_drops(streams).saturating_sub(before.drops);
    let packets = counted.counts.received + counted.counts.duplicates + counted.foreign;
    counted.buffer_drops =
        (dropped as f64 * (packets as f64 / messages.max(1) as f64).max(1.0)).round() as u64;
    counted.backlog_drops = backlog().zip(before.backlog).map_or(0, |(now, then)| now.saturating_sub(then));
    counted
}

fn total(streams: &[Stream]) -> u64 {
    streams.iter().map(|stream| stream.state().ledger.counts().received).sum()
}

fn all_drops(streams: &[Stream]) -> u64 {
    streams.iter().filter_map(|stream| drops(stream.socket.as_fd()).ok()).sum()
}

fn backlog() -> Option<u64> {
    SoftnetReader::open().ok()?.read().ok().map(|softnet| softnet.dropped)
}
