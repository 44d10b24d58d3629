//! The thread that carries one direction: reads packets from one TUN device, writes them to the other when
//! they are due.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use super::{DirectionCounters, Lateness};
use crate::clock::{Moment, nanos};
use crate::error::LabError;
use crate::link::{Link, Packet};
use crate::path::Direction;
use crate::tun::{Tun, wire_bytes};

/// Packets read before those that are due get their turn: 32 reads take about 50 us, well below what a delay
/// may be off.
const BATCH: usize = 32;

/// On a busy link packets leave in groups of this span: at 400 Mbit/s one is due every 30 us, and a wake-up
/// for each costs more than the packet. A packet is read late and leaves late by up to this.
const GRAIN: Duration = Duration::from_micros(60);

/// What a direction connects.
pub(super) struct Plan {
    pub name: &'static str,
    pub from: Arc<Tun>,
    pub to: Arc<Tun>,
}

/// A direction at work; ends when dropped.
#[derive(Debug)]
pub(super) struct Forwarder {
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread shares with its owner.
#[derive(Debug)]
struct Control {
    /// Written to wake the thread.
    wake: OwnedFd,
    stop: AtomicBool,
    change: Mutex<Option<Direction>>,
    counters: Mutex<DirectionCounters>,
}

impl Plan {
    pub(super) fn start(self, direction: &Direction, seed: u64) -> Result<Forwarder, LabError> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(LabError::system("cannot make an event descriptor"))?;
        let control = Arc::new(Control {
            wake,
            stop: AtomicBool::new(false),
            change: Mutex::default(),
            counters: Mutex::default(),
        });
        let worker = Worker {
            link: Link::new(direction, seed, Moment::now()),
            pool: Vec::new(),
            counters: DirectionCounters::default(),
            from: self.from,
            to: self.to,
            control: Arc::clone(&control),
        };
        let thread = thread::Builder::new()
            .name(self.name.to_owned())
            .spawn(move || worker.run())
            .map_err(LabError::system("cannot start the link's thread"))?;
        Ok(Forwarder { control, thread: Some(thread) })
    }
}

impl Forwarder {
    pub(super) fn configure(&self, direction: &Direction) {
        *self.control.change.lock() = Some(direction.clone());
        self.control.wake();
    }

    pub(super) fn counters(&self) -> DirectionCounters {
        *self.control.counters.lock()
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.control.stop.store(true, Relaxed);
        self.control.wake();
        if let Some(thread) = self.thread.take() {
            // Its panic was printed; there is nothing left to undo.
            let _ = thread.join();
        }
    }
}

impl Control {
    fn wake(&self) {
        // Fails only when 2^64 wake-ups are pending, and then the thread is awake.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// A packet with its virtio header, in a buffer that is used again.
#[derive(Debug)]
struct Frame {
    buffer: Box<[u8]>,
    used: usize,
    wire: u32,
}

impl Packet for Frame {
    fn wire_bytes(&self) -> u32 {
        self.wire
    }

    fn twin(&self) -> Frame {
        Frame { buffer: self.buffer.clone(), ..*self }
    }
}

struct Worker {
    link: Link<Frame>,
    pool: Vec<Box<[u8]>>,
    counters: DirectionCounters,
    from: Arc<Tun>,
    to: Arc<Tun>,
    control: Arc<Control>,
}

impl Worker {
    fn run(mut self) {
        // The default slack of 50 us would be added to every wait.
        if let Err(error) = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1)) {
            tracing::debug!(%error, "cannot make timers exact: delays are up to 50 us longer");
        }
        // The programs under test must not delay the wire they are tested on. Refused to ordinary users, who
        // get the same priority as their programs.
        let _ = rustix::process::setpriority_process(None, -20);
        while !self.control.stop.load(Relaxed) {
            if let Some(direction) = self.control.change.lock().take() {
                self.link.configure(&direction, Moment::now());
            }
            let more = match self.read() {
                Ok(more) => more,
                Err(error) => return tracing::warn!(%error, "the link's device is gone"),
            };
            self.write_due();
            *self.control.counters.lock() = DirectionCounters { link: self.link.counters(), ..self.counters };
            if !more {
                self.sleep();
            }
        }
    }

    /// Takes what the kernel has to send. Returns whether there may be more.
    fn read(&mut self) -> std::io::Result<bool> {
        for _ in 0..BATCH {
            let mut buffer =
                self.pool.pop().unwrap_or_else(|| vec![0; self.from.buffer_size()].into_boxed_slice());
            let Some(used) = self.from.read(&mut buffer)? else {
                self.pool.push(buffer);
                return Ok(false);
            };
            let wire = wire_bytes(&buffer[..used]);
            self.link.push(Frame { buffer, used, wire }, Moment::now());
        }
        Ok(true)
    }

    fn write_due(&mut self) {
        let now = Moment::now();
        while let Some((due, frame)) = self.link.pop(now) {
            match self.to.write(&frame.buffer[..frame.used]) {
                Ok(()) => self.counters.lateness.add(now.since(due)),
                Err(error) => {
                    self.counters.refused += 1;
                    tracing::debug!(%error, "the far kernel refused a packet");
                }
            }
            self.pool.push(frame.buffer);
        }
        while let Some(frame) = self.link.take_spent() {
            self.pool.push(frame.buffer);
        }
    }

    /// Until a packet is due, one comes, or the owner wants something.
    fn sleep(&self) {
        let wait = self.link.next_due().map(|due| due.since(Moment::now()));
        if wait.is_some_and(|wait| wait < GRAIN) {
            // Without an eye on what comes in: that can wait for so long too.
            return thread::sleep(GRAIN);
        }
        let timeout = wait
            .map(|wait| Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) });
        let mut polled = [
            PollFd::from_borrowed_fd(self.from.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.control.wake.as_fd(), PollFlags::IN),
        ];
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => tracing::warn!(%error, "cannot wait for packets"),
        }
        if !polled[1].revents().is_empty() {
            // What it says is in the control block; the count only has to go.
            let _ = rustix::io::read(&self.control.wake, &mut [0; 8]);
        }
    }
}

impl Lateness {
    fn add(&mut self, late: Duration) {
        self.total_nanos += nanos(late);
        self.worst_nanos = self.worst_nanos.max(nanos(late));
    }

    /// Of `packets` packets.
    pub fn mean(&self, packets: u64) -> Duration {
        Duration::from_nanos(self.total_nanos / packets.max(1))
    }
}
