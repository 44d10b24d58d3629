//! What a connection waited for, over one interval: turns, timers and rests that no rate of a link explains.
//!
//! Both ends tell it alike, so it stands beside the views of sender and receiver. Counters are differences
//! over the interval; "looks at which" counts are out of [`Waits::looks`]. What a capture or an old kernel
//! does not show stays at its default.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::reading::seconds;

/// Stalls kept of one interval: a second of stalls of 20 ms, the shortest that looks can tell.
const MOST_STALLS: usize = 50;

/// What one socket waited for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waits {
    /// How often the socket was looked at.
    pub looks: u32,
    /// Payload bytes that this end sent, retransmissions included.
    pub sent: u64,
    /// Segments with payload that it sent.
    pub sent_segments: u64,
    /// Payload bytes that came.
    pub came: u64,
    /// Segments with payload that came.
    pub came_segments: u64,
    /// Looks at which less than a segment lay unsent, something was in flight, and neither congestion window
    /// nor peer's window was in its way: what Nagle's algorithm holds back.
    pub small_held: u32,
    /// The longest of these: since data was last sent.
    #[serde(with = "seconds")]
    pub small_held_longest: Duration,
    /// Payload bytes retransmitted.
    pub retransmitted: u64,
    /// Segments retransmitted (`tcpi_total_retrans`).
    pub retransmitted_segments: u64,
    /// Retransmission timers that fired (`tcpi_total_rto`; Linux 6.7).
    pub timeouts: u64,
    /// Time from a first retransmission timer to its recovery (`tcpi_total_rto_time`).
    #[serde(with = "seconds")]
    pub timeout: Duration,
    /// The most doublings of the retransmission timer that a look found (`tcpi_backoff`).
    pub backoff: u32,
    /// Segment payload, smallest and largest of the looks.
    pub segment: (u64, u64),
    /// Bytes that the peer acknowledged since the connection began.
    pub acked_ever: u64,
    /// Segments delivered since the connection began (`tcpi_delivered`; Linux 4.18).
    pub delivered_ever: u64,
    /// Looks at which data lay beyond a hole while none lay ready to be read.
    pub hole: u32,
    /// Looks at which the connection owed or was owed something and nothing had moved for longer than
    /// min(2 smoothed round trips, retransmission timeout).
    pub stalled: u32,
    /// Looks at which nothing had moved for a quarter of a round trip, and 8 ms at least (two ticks of the
    /// kernel's clock): data that flow leave no such gaps, turns do.
    pub silent: u32,
    /// The stalls that ended in this interval.
    pub stalls: Vec<Stall>,
    /// Both ends agreed on window scaling; without it no window is above 65,535 bytes (RFC 7323). `None`: not
    /// told.
    pub scaled: Option<bool>,
    /// The most bytes in flight at a look.
    pub in_flight_most: u64,
    /// Times that the congestion window began anew after a rest (RFC 2861), as looks saw it: smaller, with
    /// nothing lost.
    pub restarts: u32,
}

/// A stretch in which nothing moved, and what ended it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// How long it lasted, to the time between two looks.
    #[serde(with = "seconds")]
    pub lasted: Duration,
    /// What ended it.
    pub ended: Ended,
    /// Where this end is the one that asks: bytes that it had sent since the peer last spoke. Else 0.
    #[serde(default)]
    pub asked: u64,
}

/// What ends a stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// This end's retransmission timer fired.
    Timeout,
    /// It retransmitted for another reason.
    Retransmission,
    /// Data came from the peer.
    Peer,
    /// An acknowledgement came for what was in flight.
    Acknowledged,
    /// This end sent something new, though it had sent the last and nothing had come since: a timer of the
    /// program.
    Itself,
}

impl Waits {
    /// Takes the interval that follows into this one.
    pub fn join(&mut self, next: &Waits) {
        let count = u32::saturating_add;
        let bytes = u64::saturating_add;
        let least = match (self.segment.0, next.segment.0) {
            (0, other) | (other, 0) => other,
            (a, b) => a.min(b),
        };
        let mut stalls = std::mem::take(&mut self.stalls);
        stalls.extend(next.stalls.iter().take(MOST_STALLS.saturating_sub(stalls.len())));
        *self = Waits {
            looks: count(self.looks, next.looks),
            sent: bytes(self.sent, next.sent),
            sent_segments: bytes(self.sent_segments, next.sent_segments),
            came: bytes(self.came, next.came),
            came_segments: bytes(self.came_segments, next.came_segments),
            small_held: count(self.small_held, next.small_held),
            small_held_longest: self.small_held_longest.max(next.small_held_longest),
            retransmitted: bytes(self.retransmitted, next.retransmitted),
            retransmitted_segments: bytes(self.retransmitted_segments, next.retransmitted_segments),
            timeouts: bytes(self.timeouts, next.timeouts),
            timeout: self.timeout.saturating_add(next.timeout),
            backoff: self.backoff.max(next.backoff),
            segment: (least, self.segment.1.max(next.segment.1)),
            acked_ever: next.acked_ever.max(self.acked_ever),
            delivered_ever: next.delivered_ever.max(self.delivered_ever),
            hole: count(self.hole, next.hole),
            stalled: count(self.stalled, next.stalled),
            silent: count(self.silent, next.silent),
            stalls,
            scaled: next.scaled.or(self.scaled),
            in_flight_most: self.in_flight_most.max(next.in_flight_most),
            restarts: count(self.restarts, next.restarts),
        };
    }

    /// `looks` as a share of all looks, 0 to 1.
    pub(crate) fn share(&self, looks: u32) -> f64 {
        if self.looks == 0 { 0.0 } else { (f64::from(looks) / f64::from(self.looks)).min(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn joined_waits_add_up_and_keep_their_extremes() {
        let stall = |lasted, ended| Stall { lasted: ms(lasted), ended, asked: 0 };
        let mut sum = Waits {
            looks: 5,
            segment: (1024, 1024),
            backoff: 3,
            stalls: vec![stall(200, Ended::Timeout)],
            ..Waits::default()
        };
        sum.join(&Waits {
            looks: 5,
            segment: (1448, 1448),
            acked_ever: 9,
            stalls: vec![stall(40, Ended::Acknowledged)],
            ..Waits::default()
        });
        assert_eq!((sum.looks, sum.segment, sum.backoff, sum.acked_ever), (10, (1024, 1448), 3, 9));
        assert_eq!(sum.stalls.len(), 2);
    }
}
