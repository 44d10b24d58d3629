//! A token bucket without a queue.
//!
//! Kept as the instant at which the bucket will be full again (the virtual scheduling form of the generic
//! cell rate algorithm, ITU-T I.371): no tokens to add up, so that nothing is rounded away over hours.

use crate::clock::Moment;
use crate::path::Policer;

use super::span::{ByteTime, Fine};

#[derive(Debug)]
pub(super) struct Bucket {
    byte: ByteTime,
    /// What the full bucket is worth in time.
    depth: Fine,
    full_at: Fine,
}

impl Bucket {
    pub(super) fn new(policer: Policer) -> Bucket {
        let byte = ByteTime::of(policer.rate);
        Bucket { byte, depth: byte.times(policer.burst.0), full_at: Fine::default() }
    }

    /// Takes the tokens for a packet, or none if there are too few.
    pub(super) fn admits(&mut self, bytes: u32, now: Moment) -> bool {
        let now = Fine::at(now);
        let full_at = self.full_at.max(now).after(self.byte.times(u64::from(bytes)));
        let conforms = full_at.minus(now) <= self.depth;
        if conforms {
            self.full_at = full_at;
        }
        conforms
    }
}
