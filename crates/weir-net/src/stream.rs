//! One data connection and the thread that works on it: plain blocking calls in large pieces.

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rustix::thread::{CpuSet, sched_setaffinity};
use weir_observe::thread::{Tid, current_tid};

use crate::arrivals::Arrivals;
use crate::outcome::{Connected, Copies};
use crate::{tcp, udp};

/// A blocked call of a stream's thread returns after this long, to see whether the test is over.
const GLANCE: Duration = Duration::from_millis(20);

/// The largest frame of a stream's thread is 16 KiB (the vectors of 64 messages); 256 threads stay small.
const STACK: usize = 256 << 10;

/// What all threads of a test share.
#[derive(Debug)]
pub(crate) struct Orders {
    /// When data may flow; times of the streams count from here.
    pub(crate) start: Instant,
    /// Bytes of one write or datagram.
    pub(crate) block: u32,
    /// Bits per second and stream; 0 for no limit.
    pub(crate) rate: u64,
    /// Blocks that may go at once in spite of it.
    pub(crate) burst: u32,
    /// Bytes left to send by all streams together; `None` without end.
    pub(crate) budget: Option<AtomicU64>,
    /// Datagrams are counted in 64 bits.
    pub(crate) wide: bool,
    pub(crate) copies: Copies,
    /// What TCP streams send, again and again. A block long.
    pub(crate) payload: Vec<u8>,
    /// Datagrams hold digits instead of random bytes.
    pub(crate) repeating: bool,
    /// The processor that the threads are bound to.
    pub(crate) affinity: Option<u32>,
    /// Datagrams may be bundled (GSO, GRO).
    pub(crate) bundles: bool,
    /// The peer closes its data connections when it has sent all.
    pub(crate) peer_closes: bool,
    pub(crate) phase: AtomicU8,
    /// What is sent does not count yet, so that the budget stays whole.
    pub(crate) omitting: AtomicBool,
}

/// Where a test is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Data flow.
    Running,
    /// Nothing more is sent; what is on its way is taken in.
    Draining,
    /// Over.
    Over,
}

impl Orders {
    pub(crate) fn new(start: Instant, copies: Copies) -> Orders {
        Orders {
            start,
            block: 0,
            rate: 0,
            burst: 0,
            budget: None,
            wide: false,
            copies,
            payload: Vec::new(),
            repeating: false,
            affinity: None,
            bundles: true,
            peer_closes: false,
            phase: AtomicU8::new(Phase::Running as u8),
            omitting: AtomicBool::new(false),
        }
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Relaxed);
    }

    pub(crate) fn is_running(&self) -> bool {
        self.phase.load(Relaxed) == Phase::Running as u8
    }

    pub(crate) fn is_over(&self) -> bool {
        self.phase.load(Relaxed) == Phase::Over as u8
    }

    /// Takes up to `most` bytes out of what is left to send.
    pub(crate) fn take(&self, most: u64) -> u64 {
        let Some(budget) = self.budget.as_ref().filter(|_| !self.omitting.load(Relaxed)) else { return most };
        let left = budget.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(most)));
        left.unwrap_or_else(|left| left).min(most)
    }

    /// Puts back what was taken and not sent.
    pub(crate) fn give_back(&self, bytes: u64) {
        if let Some(budget) = self.budget.as_ref().filter(|_| !self.omitting.load(Relaxed)) {
            budget.fetch_add(bytes, Relaxed);
        }
    }
}

/// What a stream's thread tells while it works.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Payload sent or received.
    pub(crate) bytes: AtomicU64,
    /// Datagrams sent.
    pub(crate) packets: AtomicU64,
    /// Asleep for our own limit, nanoseconds.
    asleep: AtomicU64,
    /// When the last byte moved, nanoseconds from the start.
    last: AtomicU64,
    tid: AtomicU32,
    ended: AtomicBool,
    arrivals: Mutex<Arrivals>,
    failure: Mutex<Option<io::Error>>,
}

impl Counts {
    pub(crate) fn moved(&self, bytes: u64, start: Instant) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.last.store(start.elapsed().as_nanos() as u64, Relaxed);
    }

    pub(crate) fn slept(&self, span: Duration) {
        self.asleep.fetch_add(span.as_nanos() as u64, Relaxed);
    }

    pub(crate) fn asleep(&self) -> Duration {
        Duration::from_nanos(self.asleep.load(Relaxed))
    }

    pub(crate) fn last(&self) -> Duration {
        Duration::from_nanos(self.last.load(Relaxed))
    }

    pub(crate) fn arrivals(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals.lock()
    }

    pub(crate) fn tid(&self) -> Option<Tid> {
        Some(self.tid.load(Relaxed)).filter(|tid| *tid > 0).map(Tid)
    }

    /// Its thread has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// Why it ended early, once.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        self.failure.lock().take()
    }
}

/// What carries a stream.
#[derive(Debug)]
pub(crate) enum Carrier {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

/// One data connection.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) connection: Connected,
    pub(crate) carrier: Arc<Carrier>,
    pub(crate) counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

impl Stream {
    pub(crate) fn tcp(id: u32, sends: bool, stream: TcpStream) -> io::Result<Stream> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(GLANCE))?;
        stream.set_write_timeout(Some(GLANCE))?;
        let (local, remote) = (stream.local_addr()?, stream.peer_addr()?);
        Ok(Stream::new(id, sends, local, remote, Carrier::Tcp(stream)))
    }

    pub(crate) fn udp(id: u32, sends: bool, socket: UdpSocket) -> io::Result<Stream> {
        socket.set_read_timeout(Some(GLANCE))?;
        socket.set_write_timeout(Some(GLANCE))?;
        let (local, remote) = (socket.local_addr()?, socket.peer_addr()?);
        Ok(Stream::new(id, sends, local, remote, Carrier::Udp(socket)))
    }

    fn new(id: u32, sends: bool, local: SocketAddr, remote: SocketAddr, carrier: Carrier) -> Stream {
        Stream {
            connection: Connected { id, sends, local, remote },
            carrier: Arc::new(carrier),
            counts: Arc::default(),
            thread: None,
        }
    }

    /// Starts its thread.
    pub(crate) fn start(&mut self, orders: &Arc<Orders>) -> io::Result<()> {
        let (orders, carrier, counts) =
            (Arc::clone(orders), Arc::clone(&self.carrier), Arc::clone(&self.counts));
        let sends = self.connection.sends;
        let name = format!("net {} {}", if sends { "send" } else { "recv" }, self.connection.id);
        let thread = std::thread::Builder::new().name(name).stack_size(STACK).spawn(move || {
            counts.tid.store(current_tid().0, Relaxed);
            if let Some(processor) = orders.affinity {
                bind_to(processor);
            }
            let done = match (&*carrier, sends) {
                (Carrier::Tcp(stream), true) => tcp::send(stream, &orders, &counts),
                (Carrier::Tcp(stream), false) => tcp::receive(stream, &orders, &counts),
                (Carrier::Udp(socket), true) => udp::send(socket, &orders, &counts),
                (Carrier::Udp(socket), false) => udp::receive(socket, &orders, &counts),
            };
            if let Err(cause) = done {
                *counts.failure.lock() = Some(cause);
            }
            counts.ended.store(true, Relaxed);
        })?;
        self.thread = Some(thread);
        Ok(())
    }

    /// Says to the peer that nothing more will come.
    pub(crate) fn finish(&self) {
        if let (Carrier::Tcp(stream), true) = (&*self.carrier, self.connection.sends) {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
    }

    /// Waits for its thread, which ends by itself within a glance once it is told to.
    pub(crate) fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    pub(crate) fn is_udp(&self) -> bool {
        matches!(*self.carrier, Carrier::Udp(_))
    }
}

/// Binds this thread to one processor. Where that cannot be it works all the same.
fn bind_to(processor: u32) {
    let mut set = CpuSet::new();
    if (processor as usize) < CpuSet::MAX_CPU {
        set.set(processor as usize);
    }
    if let Err(cause) = sched_setaffinity(None, &set) {
        tracing::warn!("cannot bind a stream to processor {processor}, as its client asked: {cause}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_once() {
        let orders =
            Orders { budget: Some(AtomicU64::new(1000)), ..Orders::new(Instant::now(), Copies::default()) };
        assert_eq!((orders.take(600), orders.take(600), orders.take(600)), (600, 400, 0));
        orders.give_back(10);
        assert_eq!((orders.take(600), orders.take(1)), (10, 0));
        orders.omitting.store(true, Relaxed);
        assert_eq!(orders.take(600), 600);
        let endless = Orders::new(Instant::now(), Copies::default());
        assert_eq!(endless.take(7), 7);
    }
}
