//! Request and answer in turn on one connection: what the counters of its socket tell of them, whichever end is watched.
//!
//! A turn costs a round trip at least, in which nothing can be sent: N turns of a round trip R in a time T take N x R / T of it.
//! N is the number of segments with payload that go against the data. Where questions overlap (pipelining, streams), or where
//! these segments are no questions (HTTP/2's WINDOW_UPDATE, SSH's window adjust), more of them come than round trips fit in,
//! so that the share is above one.

use super::Context;
use super::spent::active;
use crate::evidence::{LaneWindow, Reading, Window};
use crate::path::{INITIAL_WINDOW, slow_start_rounds};
use crate::waits::{self, Waits};
use crate::words::{bytes, count, seconds};
use weir_units::Bytes;

/// The end of a connection that was watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It sends the data, and the peer asks.
    Sends,
    /// It receives them, and asks.
    Receives,
}

impl End {
    /// The end that this lane's own socket is.
    pub(crate) fn of(lane: &LaneWindow) -> End {
        if lane.tcp.value().is_none() && lane.sender.value().is_some() { End::Sends } else { End::Receives }
    }
}

/// The turns of one connection around a window.
#[derive(Debug, Clone)]
pub(crate) struct Turns {
    /// Questions.
    pub(crate) count: u64,
    /// Their payload, bytes.
    pub(crate) asked: u64,
    /// The data, bytes.
    pub(crate) carried: u64,
    /// Seconds in which the connection was there.
    pub(crate) seconds: f64,
    /// The path's round trip, seconds.
    pub(crate) rtt: f64,
    /// The connection was made within that time.
    fresh: bool,
    pub(crate) waits: Waits,
}

/// Seconds looked at on each side of a window, so that a few turns of the longest paths are seen whole.
const AROUND: f64 = 1.5;

/// The same where that shows fewer than four turns.
const FAR_AROUND: f64 = 5.0;

/// Below this scheduling decides how long a turn takes, as for windows (see [`super::receive_window`]).
const SHORTEST: f64 = 2e-4;

/// Fewer bytes than this in a segment are no question: WINDOW_UPDATE has 13, in a TLS record 35; SSH's window adjust 36 to 64.
/// The shortest HTTP request with its host has about 40, those of programs that people use 70 and more.
pub(crate) const CREDIT: u64 = 66;

impl Turns {
    pub(crate) fn of(lane: &LaneWindow, window: &Window, context: &Context<'_>, rtt: f64) -> Option<Turns> {
        let end = End::of(lane);
        if rtt < SHORTEST {
            return None;
        }
        let near = Turns::within(lane, window, context, rtt, AROUND, end)?;
        // None at all is one long answer, the case that comes most often.
        let turns = if (1..4).contains(&near.count) {
            Turns::within(lane, window, context, rtt, FAR_AROUND, end)?
        } else {
            near
        };
        // A handshake of TLS takes two or three segments, which are no questions for data.
        let least = if turns.fresh { 6 } else { 2 };
        (turns.count >= least && turns.seconds > 0.0).then_some(turns)
    }

    fn within(
        lane: &LaneWindow,
        window: &Window,
        context: &Context<'_>,
        rtt: f64,
        reach: f64,
        end: End,
    ) -> Option<Turns> {
        let (waits, seconds) = waits::around(lane, window, context, reach)?;
        let fresh = std::iter::once(window).chain(context.recent(reach)).chain(context.following(reach));
        let fresh = fresh.filter_map(|window| waits::of(lane.lane, window)).any(|lane| lane.connects > 0);
        let (count, asked, carried) = match end {
            End::Sends => (waits.came_segments, waits.came, waits.sent.saturating_sub(waits.retransmitted)),
            End::Receives => (waits.sent_segments, waits.sent, waits.came),
        };
        Some(Turns { count, asked, carried, seconds, rtt, fresh, waits })
    }

    /// Seconds that one turn takes.
    pub(crate) fn each(&self) -> f64 {
        self.seconds / self.count.max(1) as f64
    }

    /// Share of the time that the round trips between question and answer take; above one where they overlap.
    pub(crate) fn share(&self) -> f64 {
        self.rtt / self.each()
    }

    /// Bytes of data that a turn brings.
    pub(crate) fn size(&self) -> u64 {
        self.carried / self.count.max(1)
    }

    /// The segments against the data are questions, and not credits of a window above TCP.
    pub(crate) fn are_questions(&self) -> bool {
        self.asked / self.count.max(1) >= CREDIT
    }

    /// One turn after another takes the time: round trips fill half of it or more, and no more of them came than fit. A tenth is
    /// left to a round trip that is shorter now than when it was measured.
    pub(crate) fn alternate(&self) -> bool {
        (0.5..=1.1).contains(&self.share())
    }

    /// The questions have two segments each, as a head and a body that are written apart.
    pub(crate) fn alternate_in_two(&self) -> bool {
        (1.1..=2.2).contains(&self.share()) && self.are_questions()
    }

    /// The round trips of a turn and of slow start explain all of its time, though a congestion window that was open already would
    /// need none of the latter: a quarter of the time and more is the turn's own.
    pub(crate) fn ramp(&self) -> bool {
        let rounds = f64::from(slow_start_rounds(Bytes(self.size()))) + 2.0;
        let large = self.size() > INITIAL_WINDOW;
        large && self.share() >= 0.25 && self.share() <= 1.1 && self.each() <= 1.1 * rounds * self.rtt
    }

    /// `25 turns of 100 KB, 41.2 ms each over a round trip of 40.1 ms`.
    pub(crate) fn in_words(&self) -> String {
        let restarts = match self.waits.restarts {
            0 => String::new(),
            times => {
                format!("; the congestion window began anew after a rest {}", count(u64::from(times), "time"))
            }
        };
        format!(
            "{} of {}, {} each over a round trip of {}: nothing can be sent for {} of each{restarts}",
            count(self.count, "turn"),
            bytes(self.size() as f64),
            seconds(self.each()),
            seconds(self.rtt),
            seconds(self.rtt.min(self.each()))
        )
    }
}

/// The lanes whose own socket is at this end and was read, each with the bytes that it moved.
pub(crate) fn at_end(window: &Window, end: End) -> impl Iterator<Item = (&LaneWindow, &Waits, f64)> {
    window.lanes.iter().filter(move |lane| End::of(lane) == end && active(lane, window) > 0.0).filter_map(
        |lane| match &lane.waits {
            Reading::Value(waits) => Some((lane, waits, (waits.sent.max(waits.came)) as f64 + 1.0)),
            Reading::Missing(_) => None,
        },
    )
}
