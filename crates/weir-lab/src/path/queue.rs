//! What waits in front of the bottleneck: how much may, and which packet goes when it is too much.

use std::time::Duration;

use weir_units::{Bytes, Rate};

/// A queue; the packet being sent is not in it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Queue {
    /// Beyond it, an arriving packet is dropped.
    pub limit: QueueLimit,
    /// Whether packets go earlier than that.
    pub discipline: Discipline,
}

/// How much a queue holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QueueLimit {
    /// What the rate sends in one round trip (twice the one-way delay), at least in 20 ms, at least 64 KiB:
    /// enough for one connection of any congestion control to fill the link. Without a rate, 1000 packets, as
    /// netem has.
    #[default]
    Auto,
    /// Bytes of IP packets.
    Bytes(Bytes),
    /// Packets; in gso fidelity a super-frame counts as one.
    Packets(u32),
}

/// Which packets a queue drops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Discipline {
    /// Those that find it full.
    #[default]
    DropTail,
    /// Also those that RFC 8289 picks as they leave, to keep the time spent waiting near `target`.
    CoDel {
        /// Time in the queue that is acceptable when it lasts.
        target: Duration,
        /// How long it may be exceeded: about a round trip.
        interval: Duration,
    },
}

impl Discipline {
    /// The values that RFC 8289 recommends (sections 4.2 and 4.3).
    pub const CODEL: Discipline =
        Discipline::CoDel { target: Duration::from_millis(5), interval: Duration::from_millis(100) };
}

impl QueueLimit {
    /// With `Auto` made a number.
    pub(crate) fn resolve(self, rate: Option<Rate>, delay: Duration) -> QueueLimit {
        match (self, rate) {
            (QueueLimit::Auto, Some(rate)) => {
                let span = (2 * delay).max(Duration::from_millis(20));
                QueueLimit::Bytes(Bytes(((rate.0 * span.as_secs_f64()) as u64).max(64 << 10)))
            }
            (QueueLimit::Auto, None) => QueueLimit::Packets(1000),
            (fixed, _) => fixed,
        }
    }
}
