//! What was seen of a load test.

use std::ops::AddAssign;
use std::time::Duration;

use crate::evidence::Reading;

/// What was seen of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadEvidence {
    /// The measured time.
    pub span: Duration,
    /// Beside it: how long the client's process stood still (Ctrl-Z, a control group that was frozen).
    pub away: Duration,
    /// Whole answers.
    pub requests: u64,
    /// Bytes received.
    pub received: u64,
    /// Connections held open.
    pub connections: u32,
    /// Requests under way at a time over each (HTTP/2); 0 is one.
    pub streams: u32,
    /// Requests a second that were asked for (`--rate`).
    pub rate: Option<f64>,
    /// Planned requests that found no free connection until the end.
    pub unsent: u64,
    /// Requests that were under way at the end.
    pub under_way: u64,
    /// Requests that came to no whole answer.
    pub failed: u64,
    /// The client's loops.
    pub loops: Vec<LoopUse>,
    /// The server's threads, where they run on this machine.
    pub server: Reading<ServerUse>,
    /// Busy share of each processor, 0 to 1.
    pub cores: Reading<Vec<f64>>,
    /// Share of a processor's time that the machine's own host gave to others, of the processor that lost
    /// most.
    pub stolen: f64,
    /// From a request's begin to its whole answer, mean.
    pub latency: Duration,
    /// Of it, from the answer's first bytes to its last, mean.
    pub inside: Duration,
    /// Where the connections' time went.
    pub time: PlaceTime,
    /// Answers that came in pieces, with and without an acknowledgement at once.
    pub acks: Acks,
    /// How connecting went.
    pub connects: Connects,
    /// The path, from the kernel.
    pub path: Reading<PathUse>,
    /// Bytes received in each tenth of a second.
    pub samples: Vec<u64>,
    /// The narrowest link's rate, bytes per second, where it is known.
    pub link_rate: Option<f64>,
}

/// A thread's use of its processor.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Use {
    /// Running.
    pub cpu: Duration,
    /// Ready, but waiting for a processor.
    pub waited: Duration,
    /// The time over which both were counted.
    pub over: Duration,
}

impl Use {
    /// Share of the time in which it ran.
    pub fn running(&self) -> f64 {
        self.share(self.cpu)
    }

    /// Share of the time in which it waited for a processor.
    pub fn waiting(&self) -> f64 {
        self.share(self.waited)
    }

    /// Share of the time in which it ran or wanted to.
    pub fn busy(&self) -> f64 {
        self.share(self.cpu + self.waited)
    }

    fn share(&self, part: Duration) -> f64 {
        part.as_secs_f64() / self.over.as_secs_f64().max(1e-9)
    }
}

/// One of the client's loops.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoopUse {
    /// Its thread.
    pub thread: Use,
    /// Time that passed inside the script's functions, whether they computed or slept.
    pub script: Duration,
}

impl LoopUse {
    /// Share of the time that passed inside the script's functions.
    pub fn in_script(&self) -> f64 {
        self.thread.share(self.script)
    }
}

/// The server's processes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerUse {
    /// `nginx (pid 4711)`: the process of the busiest thread.
    pub name: String,
    /// The busiest thread.
    pub busiest: Use,
    /// Processor time of all threads.
    pub total: Duration,
    /// Time in which its threads were ready but had no processor, added up over them.
    pub waited: Duration,
    /// Threads that ran at all.
    pub threads: u32,
    /// Time in which a process of it was stopped (SIGSTOP, a debugger) or all were gone.
    pub halted: Duration,
}

impl ServerUse {
    /// Running and wanting to, of all threads together: 2 is two of them all the time.
    pub(crate) fn all_busy(&self) -> f64 {
        (self.total + self.waited).as_secs_f64() / self.busiest.over.as_secs_f64().max(1e-9)
    }
}

/// The path, from the sockets at the end.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PathUse {
    /// Smallest round trip.
    pub min_rtt: Duration,
    /// Smoothed round trip, median of the sockets; a server's delayed acknowledgements are part of it.
    pub rtt: Duration,
    /// Segments sent again by this end.
    pub retransmits: u64,
    /// Share of the segments received that came out of order: after a hole that a queue's overflow tore.
    pub disordered: f64,
    /// Sockets that were asked.
    pub sockets: u32,
}

/// Where the time of all connections went, added up over them: ten connections have ten seconds in each. Over
/// HTTP/2 it is that of all streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlaceTime {
    /// In requests that were answered whole.
    pub answered: Duration,
    /// In requests that failed.
    pub failed: Duration,
    /// In requests that were under way at the end.
    pub unfinished: Duration,
    /// Making connections, TLS included, and failing to.
    pub connecting: Duration,
    /// A script's `delay()`.
    pub delayed: Duration,
    /// The pause after a failure.
    pub resting: Duration,
    /// Connected, with nothing due (`--rate`).
    pub idle: Duration,
    /// Of `failed`, `answered` and `unfinished`: while nothing came over any connection for far longer than
    /// an answer takes.
    pub still: Duration,
}

impl PlaceTime {
    /// All of it.
    pub fn total(&self) -> Duration {
        self.answered
            + self.failed
            + self.unfinished
            + self.connecting
            + self.delayed
            + self.resting
            + self.idle
    }

    /// A part's share of all, 0 to 1.
    pub fn share(&self, part: Duration) -> f64 {
        let total = self.total().as_secs_f64();
        if total > 0.0 { part.as_secs_f64() / total } else { 0.0 }
    }
}

impl AddAssign for PlaceTime {
    fn add_assign(&mut self, other: PlaceTime) {
        self.answered += other.answered;
        self.failed += other.failed;
        self.unfinished += other.unfinished;
        self.connecting += other.connecting;
        self.delayed += other.delayed;
        self.resting += other.resting;
        self.idle += other.idle;
        self.still += other.still;
    }
}

/// An experiment: does the rest of an answer come at once where this end acknowledges its first piece at
/// once?
///
/// A sender by Nagle's algorithm (RFC 896) keeps a small second piece until the first is acknowledged, and a
/// receiver keeps that acknowledgement for 40 ms and more (TCP_DELACK_MIN of include/net/tcp.h). A server
/// that thinks for as long between two pieces looks the same, but does not hurry for an acknowledgement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Acks {
    /// Answers in pieces that came as they came, late ones alone.
    pub plain: Pieces,
    /// Those whose first piece was acknowledged at once.
    pub hastened: Pieces,
}

/// Answers in pieces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pieces {
    /// How many.
    pub count: u32,
    /// From first to last piece, added up.
    pub time: Duration,
}

impl Pieces {
    /// Counts one.
    pub fn add(&mut self, time: Duration) {
        self.count = self.count.saturating_add(1);
        self.time += time;
    }

    /// Seconds from the first to the last piece.
    pub fn mean(&self) -> f64 {
        self.time.as_secs_f64() / f64::from(self.count.max(1))
    }
}

impl AddAssign for Pieces {
    fn add_assign(&mut self, other: Pieces) {
        self.count = self.count.saturating_add(other.count);
        self.time += other.time;
    }
}

impl AddAssign for Acks {
    fn add_assign(&mut self, other: Acks) {
        self.plain += other.plain;
        self.hastened += other.hastened;
    }
}

/// How connecting went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Connects {
    /// Connections that stood.
    pub made: u64,
    /// Attempts for which this machine had no port left (`EADDRNOTAVAIL`).
    pub no_port: u64,
    /// Attempts that the other end refused: nobody listens there.
    pub refused: u64,
}

impl AddAssign for Connects {
    fn add_assign(&mut self, other: Connects) {
        self.made += other.made;
        self.no_port += other.no_port;
        self.refused += other.refused;
    }
}
