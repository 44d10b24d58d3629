//! Request and answer in turn on one connection: what the counters of its socket tell of them, whichever end
//! is watched.
//!
//! A turn costs a round trip at least, in which nothing can be sent: N turns of a round trip R in a time T
//! take N x R / T of it. N is the number of segments with payload that go against the data. Where questions
//! overlap (pipelining, streams) more of them come than round trips fit in, so that the share is above one.
//! Where these segments are no questions but credits of a protocol above (HTTP/2's WINDOW_UPDATE, SSH's
//! window adjust), they have just the few sizes of [`are_credits`].

use super::Context;
use super::end::End;
use super::spent::active;
use crate::evidence::{Interval, LaneInterval, Reading};
use crate::path::{INITIAL_WINDOW, slow_start_rounds};
use crate::rule::waits;
use crate::waits::Waits;
use crate::words::{bytes, seconds};
use weir_units::{Bytes, counted};

/// The turns of one connection around an interval.
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
    /// Questions that came later than the handshakes of a connection that was made within that time.
    late: u64,
    /// Questions of intervals in which all had the sizes of credits.
    credits: u64,
    pub(crate) waits: Waits,
}

/// Credits for parts that wait for them come once a round trip, or nearly: a fifth is left to a receiver that
/// is slow to read.
const CREDIT_PACE: f64 = 0.8;

/// Seconds looked at on each side of an interval, so that a few turns of the longest paths are seen whole.
const AROUND: f64 = 1.5;

/// The same where that shows fewer than four turns.
const FAR_AROUND: f64 = 5.0;

/// Round trips that handshakes take at most: one of TCP, two of TLS, and that of a question behind them.
const HANDSHAKE: f64 = 4.0;

/// Below this scheduling decides how long a turn takes, as for windows (see [`super::receive_window`]).
const SHORTEST: f64 = 2e-4;

/// Fewer bytes than this in a segment may be a credit as well as a question: WINDOW_UPDATE has 13, in a TLS
/// record 35; SSH's window adjust 36 to 64. HTTP requests of programs that people use have 70 and more, those
/// of a script or a query 30.
pub(crate) const CREDIT: u64 = 66;

/// The bytes of one credit, and how many of them a segment holds at most. HTTP/2's WINDOW_UPDATE (RFC 9113,
/// section 6.9) has 13, of the stream and of the connection mostly together, of two such pairs seldom (more
/// are a short question); TLS 1.3 adds 22 to a record (RFC 8446, section 5.2), which holds one or two of
/// them. SSH's window adjust (RFC 4254, section 5.2) has 36 under either cipher that OpenSSH prefers.
const CREDITS: [(u64, u64); 4] = [(13, 4), (35, 2), (48, 2), (36, 2)];

/// Whether all of these segments have the size of credits.
pub(crate) fn are_credits(bytes: u64, segments: u64) -> bool {
    segments > 0
        && CREDITS.iter().any(|(size, most)| {
            let count = bytes / size;
            bytes.is_multiple_of(*size) && count >= segments && count <= segments.saturating_mul(*most)
        })
}

impl Turns {
    pub(crate) fn of(
        lane: &LaneInterval,
        interval: &Interval,
        context: &Context<'_>,
        rtt: f64,
    ) -> Option<Turns> {
        if rtt < SHORTEST { None } else { Turns::near(lane, interval, context, rtt) }
    }

    /// The same over any path: what the segments are does not depend on how long a turn takes.
    pub(crate) fn near(
        lane: &LaneInterval,
        interval: &Interval,
        context: &Context<'_>,
        rtt: f64,
    ) -> Option<Turns> {
        let end = End::of(lane);
        let near = Turns::within(lane, interval, context, rtt, AROUND, end)?;
        // None at all is one long answer, the case that comes most often.
        let turns = if (1..4).contains(&near.count) {
            Turns::within(lane, interval, context, rtt, FAR_AROUND, end)?
        } else {
            near
        };
        (turns.count >= 2 && turns.late >= 2 && turns.seconds > 0.0).then_some(turns)
    }

    fn within(
        lane: &LaneInterval,
        interval: &Interval,
        context: &Context<'_>,
        rtt: f64,
        reach: f64,
        end: End,
    ) -> Option<Turns> {
        let (waits, seconds) = waits::around(lane, interval, context, reach)?;
        let against = |waits: &Waits| match end {
            End::Sends => (waits.came_segments, waits.came),
            End::Receives => (waits.sent_segments, waits.sent),
        };
        let (count, asked) = against(&waits);
        let carried = match end {
            End::Sends => waits.sent.saturating_sub(waits.retransmitted),
            End::Receives => waits.came,
        };
        // Between two answers an end may look like the other one.
        if asked > carried {
            return None;
        }
        let around = || context.around(interval, reach);
        let same = || around().filter_map(|interval| Some((interval, waits::of(lane.lane, interval)?)));
        // A handshake of TLS takes two or three segments, which are no questions for data.
        let began = same().find(|(_, lane)| lane.connects > 0).map(|(interval, _)| interval);
        let handshakes = began.map(|interval| interval.at + interval.span.as_secs_f64() + HANDSHAKE * rtt);
        let (mut late, mut credits) = (0_u64, 0_u64);
        for (interval, lane) in same() {
            let Some((segments, bytes)) = lane.waits.value().map(against) else { continue };
            if handshakes.is_none_or(|over| interval.at > over) {
                late = late.saturating_add(segments);
            }
            if are_credits(bytes, segments) {
                credits = credits.saturating_add(segments);
            }
        }
        Some(Turns { count, asked, carried, seconds, rtt, late, credits, waits })
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

    /// The segments against the data are so large that they are questions, whatever came.
    pub(crate) fn are_questions(&self) -> bool {
        self.asked / self.count.max(1) >= CREDIT
    }

    /// They are no questions: four fifths have the sizes of credits (a connection begins with others), and a
    /// part of the data that goes with each has a few segments.
    pub(crate) fn are_credits(&self) -> bool {
        const PART: u64 = 3 * crate::path::SEGMENT;
        self.credits.saturating_mul(5) >= self.count.saturating_mul(4) && self.size() >= PART
    }

    /// Each releases the next part of an answer that is under way, which waits for it: four at least, that
    /// come at least about once a round trip, since a credit is given in the middle of a part and not after
    /// it.
    pub(crate) fn are_waited_for(&self) -> bool {
        self.are_credits() && self.count >= 4 && self.share() >= CREDIT_PACE
    }

    /// One turn after another takes the time: round trips fill `least` of it or more, and no more of them
    /// came than fit. A tenth is left to a round trip that is shorter now than when it was measured.
    pub(crate) fn alternate(&self, least: f64) -> bool {
        (least..=1.1).contains(&self.share())
    }

    /// The questions have two segments each, as a head and a body that are written apart.
    pub(crate) fn alternate_in_two(&self) -> bool {
        (1.1..=2.2).contains(&self.share()) && self.are_questions()
    }

    /// The round trips of a turn and of slow start explain all of its time, though a congestion window that
    /// was open already would need none of the latter: a quarter of the time and more is the turn's own.
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
                format!(
                    "; the congestion window began anew after a rest {}",
                    counted(u64::from(times), "time")
                )
            }
        };
        format!(
            "{} of {}, {} each over a round trip of {}: nothing can be sent for {} of each{restarts}",
            counted(self.count, "turn"),
            bytes(self.size() as f64),
            seconds(self.each()),
            seconds(self.rtt),
            seconds(self.rtt.min(self.each()))
        )
    }
}

/// The lanes whose own socket is at this end and was read, each with the bytes that it moved.
pub(crate) fn at_end(interval: &Interval, end: End) -> impl Iterator<Item = (&LaneInterval, &Waits, f64)> {
    interval.lanes.iter().filter(move |lane| End::of(lane) == end && active(lane, interval) > 0.0).filter_map(
        |lane| match &lane.waits {
            Reading::Value(waits) => Some((lane, waits, (waits.sent.max(waits.came)) as f64 + 1.0)),
            Reading::Missing(_) => None,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credits_are_known_by_their_sizes() {
        for (bytes, segments) in [(52, 2), (52, 1), (13, 1), (35 + 70, 2), (48, 1), (36 * 9, 9)] {
            assert!(are_credits(bytes, segments), "{bytes} B in {segments}");
        }
        for (bytes, segments) in
            [(31, 1), (124, 4), (83, 1), (41, 1), (105, 1), (0, 0), (13 * 60, 2), (13 * 5, 1)]
        {
            assert!(!are_credits(bytes, segments), "{bytes} B in {segments}");
        }
    }
}
