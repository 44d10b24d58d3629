//! A path: what happens to packets in each direction between the near and the far end. Only values;
//! [`link`](crate::link) makes them happen, [`tc`] says them in the kernel's own words.

mod queue;
mod share;
mod tc;

use std::sync::Arc;
use std::time::Duration;

use weir_units::{Bytes, Rate};

use crate::error::LabError;
use crate::trace::Trace;

pub use queue::{Discipline, Queue, QueueLimit};
pub use share::{Share, ShareError};

/// Both directions between the two ends of a [`Bed`](crate::bed::Bed).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Path {
    /// From near to far: a client's requests and acknowledgements.
    pub up: Direction,
    /// From far to near: what a client downloads.
    pub down: Direction,
    /// Packets one by one, or as the kernel hands them over.
    pub fidelity: Fidelity,
    /// The same seed and the same packets at the same times give the same losses.
    pub seed: u64,
}

/// What one direction does to packets; the default lets them pass at once.
///
/// In this order: loss, duplication, policer, queue and rate (or trace), delay with jitter and reordering.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Direction {
    /// Bytes of IP packets per second, headers included: TCP's goodput at an MTU of 1500 is 1448/1500 of it.
    pub rate: Option<Rate>,
    /// One way.
    pub delay: Duration,
    /// Each packet's delay is drawn evenly from delay ± jitter, and raised where it would overtake the one
    /// before: on a busy link the delay therefore stays near delay + jitter.
    pub jitter: Duration,
    /// Packets lost on the way.
    pub loss: Loss,
    /// Packets that overtake others.
    pub reorder: Option<Reorder>,
    /// Packets that arrive twice.
    pub duplicate: Share,
    /// What waits for the rate, or for the trace's opportunities.
    pub queue: Queue,
    /// A token bucket that drops what exceeds it.
    pub policer: Option<Policer>,
    /// Delivery opportunities instead of a rate.
    pub trace: Option<Arc<Trace>>,
}

/// Which packets are lost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each with this probability, whatever happened to others.
    Random(Share),
    /// In bursts.
    Burst(GilbertElliott),
}

/// The two-state model of Gilbert and Elliott: each packet first may change the state, then may be lost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GilbertElliott {
    /// From good to bad, per packet.
    pub enter: Share,
    /// From bad to good, per packet; bad spells last 1/leave packets on average.
    pub leave: Share,
    /// Lost in the good state.
    pub good_loss: Share,
    /// Lost in the bad state.
    pub bad_loss: Share,
}

impl GilbertElliott {
    /// Losses that make up `share` of all packets, in runs of `length` packets on average.
    ///
    /// The chain spends enter / (enter + leave) of its packets in the bad state, where all are lost.
    pub fn bursts(share: Share, length: f64) -> GilbertElliott {
        let leave = 1.0 / length.max(1.0);
        let enter = leave * share.0 / (1.0 - share.0).max(f64::EPSILON);
        GilbertElliott {
            enter: Share(enter.min(1.0)),
            leave: Share(leave),
            good_loss: Share::NONE,
            bad_loss: Share::ALL,
        }
    }

    /// The share of packets lost in the long run.
    pub fn mean_loss(&self) -> Share {
        let moves = self.enter.0 + self.leave.0;
        let bad = if moves > 0.0 { self.enter.0 / moves } else { 0.0 };
        Share(bad * self.bad_loss.0 + (1.0 - bad) * self.good_loss.0)
    }
}

/// Some packets take less time than the others, so that they overtake.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reorder {
    /// How many.
    pub share: Share,
    /// By how much their delay is shorter; cannot exceed the delay, so without a delay nothing is reordered.
    pub early: Duration,
}

/// A token bucket without a queue: a packet that finds too few tokens is dropped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policer {
    /// At which tokens come in.
    pub rate: Rate,
    /// How many can lie there.
    pub burst: Bytes,
}

/// How true to single packets the emulation is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fidelity {
    /// Each packet of the MTU on its own: losses and queues are what a wire makes of them.
    #[default]
    Packet,
    /// The kernel's super-frames (up to 64 KiB) go through unsplit: several times faster, but losses take up
    /// to 45 packets at once and short queues hold only a few frames. For high rates alone.
    Gso,
}

impl Path {
    /// The same in both directions.
    pub fn symmetric(direction: Direction) -> Path {
        Path { up: direction.clone(), down: direction, ..Path::default() }
    }

    /// The time for one packet there and back on an idle path, without what its own bytes need at the rate.
    pub fn round_trip(&self) -> Duration {
        self.up.delay + self.down.delay
    }

    /// Refuses what no link can do.
    pub fn check(&self) -> Result<(), LabError> {
        self.up.check("up")?;
        self.down.check("down")
    }
}

impl Direction {
    fn check(&self, name: &str) -> Result<(), LabError> {
        let refuse = |why: &str| Err(LabError::Path(format!("{name}: {why}")));
        // The lower bound keeps a packet's time within minutes, the upper one a byte's time above the clock's
        // resolution.
        let fits = |rate: Rate| (100.0..=1e11).contains(&rate.0);
        if self.rate.is_some_and(|rate| !fits(rate)) {
            return refuse("a rate must lie between 800 bit/s and 800 Gbit/s");
        }
        if self.rate.is_some() && self.trace.is_some() {
            return refuse("a rate and a trace exclude each other");
        }
        if self.policer.is_some_and(|policer| !fits(policer.rate)) {
            return refuse("a policer's rate must lie between 800 bit/s and 800 Gbit/s");
        }
        if self.policer.is_some_and(|policer| policer.burst.0 < MTU as u64) {
            return refuse("a policer's burst below 1500 bytes lets no full packet pass");
        }
        if self.jitter > self.delay {
            return refuse("jitter cannot exceed the delay");
        }
        if self.delay > Duration::from_secs(3600) {
            return refuse("a delay above one hour");
        }
        if !self.shares().iter().all(|share| (0.0..=1.0).contains(&share.0)) {
            return refuse("a share must lie between 0 and 1");
        }
        Ok(())
    }

    fn shares(&self) -> Vec<Share> {
        let mut shares = vec![self.duplicate];
        match self.loss {
            Loss::None => {}
            Loss::Random(share) => shares.push(share),
            Loss::Burst(model) => {
                shares.extend([model.enter, model.leave, model.good_loss, model.bad_loss]);
            }
        }
        shares.extend(self.reorder.map(|reorder| reorder.share));
        shares
    }
}

/// Bytes of the largest IP packet on the emulated wire: Ethernet's.
pub const MTU: usize = 1500;
