//! One connection of a loop: where it stands, and the times of the request it carries.

use std::time::Duration;

use weir_model::load::PlaceTime;
use weir_units::backoff::doubled;

use crate::answer::{Answer, Kept};
use crate::reason::Reason;
use crate::wire::Wire;

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No socket; opens again at `wake_at`.
    Closed,
    /// TCP's or TLS's handshake is under way.
    Connecting,
    /// Connected, and nothing to ask yet (`--rate`).
    Ready,
    /// Connected; asks at `wake_at` (a script's `delay()`).
    Delayed,
    /// A part of the request is with the kernel.
    Sending,
    /// The answer is due.
    Waiting,
    /// Nothing left to ask for: closed for good.
    Retired,
}

/// One connection. Times are nanoseconds since the run's start.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) phase: Phase,
    /// Until when its time has been told what it was spent on.
    pub(crate) settled: u64,
    pub(crate) wire: Option<Wire>,
    /// A request was granted to it (`-n`) that it has not begun.
    pub(crate) granted: bool,
    /// A script's request; a fixed one lies with the loop.
    pub(crate) request: Vec<u8>,
    /// Of each of its requests, whether it is a HEAD.
    pub(crate) heads: Vec<bool>,
    /// Bytes of the request that are with the kernel.
    pub(crate) sent: usize,
    /// All of them are.
    pub(crate) sent_all: bool,
    /// Answers due: more than one where requests are pipelined.
    pub(crate) due: usize,
    pub(crate) answer: Answer,
    /// Its pieces are acknowledged at once.
    pub(crate) hastened: bool,
    pub(crate) kept: Kept,
    /// It was not read to its end and has a place in the loop's queue; whether the peer has closed.
    pub(crate) unread: Option<bool>,
    /// When the request should have been sent.
    pub(crate) planned: u64,
    /// When it was.
    pub(crate) begun: u64,
    /// When it was written whole; only where rows are kept.
    pub(crate) written: u64,
    /// When the answer's first bytes came, if they were not its last ones too.
    pub(crate) first_byte: Option<u64>,
    /// When the connection was asked for; `None` once a request was answered over it.
    pub(crate) connect_begun: Option<u64>,
    pub(crate) connected: u64,
    pub(crate) wake_at: u64,
    /// Failures since the last answer.
    pub(crate) failures: u32,
}

impl Connection {
    pub(crate) fn new() -> Connection {
        Connection {
            phase: Phase::Closed,
            settled: 0,
            wire: None,
            granted: false,
            request: Vec::new(),
            heads: Vec::new(),
            sent: 0,
            sent_all: false,
            due: 0,
            answer: Answer::default(),
            hastened: false,
            kept: Kept::default(),
            unread: None,
            planned: 0,
            begun: 0,
            written: 0,
            first_byte: None,
            connect_begun: None,
            connected: 0,
            wake_at: 0,
            failures: 0,
        }
    }

    /// What its time is being spent on, if that is a matter of the load's. A connection that is closed pauses
    /// after a failure, or waits for its first turn.
    pub(crate) fn spends(&self) -> Option<fn(&mut PlaceTime) -> &mut Duration> {
        match self.phase {
            Phase::Closed if self.failures > 0 => Some(|time| &mut time.resting),
            Phase::Closed | Phase::Retired => None,
            Phase::Connecting => Some(|time| &mut time.connecting),
            Phase::Ready => Some(|time| &mut time.idle),
            Phase::Delayed => Some(|time| &mut time.delayed),
            Phase::Sending | Phase::Waiting if self.due == 0 => Some(|time| &mut time.answered),
            Phase::Sending | Phase::Waiting => Some(|time| &mut time.failed),
        }
    }

    /// Answers are due on it.
    pub(crate) fn is_asking(&self) -> bool {
        matches!(self.phase, Phase::Sending | Phase::Waiting) && self.due > 0
    }

    /// Since when someone waits for it, if anyone does.
    pub(crate) fn waits_since(&self) -> Option<u64> {
        match self.phase {
            Phase::Connecting => self.connect_begun,
            Phase::Sending | Phase::Waiting => Some(self.begun),
            _ => None,
        }
    }

    /// What whoever waits for it waits for.
    pub(crate) fn lacks(&self) -> Reason {
        match self.phase {
            Phase::Connecting => Reason::ConnectTimeout,
            Phase::Sending => Reason::SlowToTake,
            _ if self.first_byte.is_none() && self.answer.is_fresh() => Reason::Silent,
            _ => Reason::Slow,
        }
    }
}

/// How long to wait before the next attempt after so many failures in a row: not at all after the first, then
/// from 2 ms doubling to 256 ms, so that a dead server costs a few attempts a second and connection.
pub(crate) fn backoff(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        more => doubled(Duration::from_millis(2), more - 2, Duration::from_millis(256)),
    }
}
