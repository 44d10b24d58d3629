//! From which end of its connections an interval was watched.

use super::Context;
use crate::evidence::{Interval, LaneInterval};

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The one that receives the data.
    Receiver,
    /// The one that sends them.
    Sender,
}

/// The ends that were watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// The receiver of the data was.
    pub receiver: bool,
    /// The sender of the data was.
    pub sender: bool,
    /// It is a copy of weir's own, whose threads tell their stages.
    pub stages: bool,
    /// It waited for the program that writes its source.
    pub fed: bool,
    /// Foreign programs do stages of a copy.
    pub programs: bool,
    /// What a connection waits for was read.
    pub waits: bool,
    /// What stands around the connections was watched.
    pub around: bool,
    /// The lanes' own clocks tell the steps on the way to a connection apart.
    pub steps: bool,
}

impl View {
    /// What this interval shows. One without a lane (between connections, after the last) is seen as the
    /// nearest one that has some; a run without any is the receiver's, whose disk and digest may still be at
    /// work.
    pub fn of(interval: &Interval, context: &Context<'_>) -> View {
        let earlier = context.before.iter().rev();
        let near = std::iter::once(interval).chain(earlier).chain(context.after);
        let seen = near.into_iter().find(|interval| !interval.lanes.is_empty());
        let stages = interval.sending.value().is_some() || interval.receiving.value().is_some();
        let fed = interval.sending.value().is_some_and(|stages| !stages.input.is_zero());
        let programs = !interval.programs.is_empty();
        let around = interval.around.samples > 0;
        let Some(seen) = seen else {
            let (receiver, sender, waits, steps) = (true, false, false, false);
            return View { receiver, sender, stages, fed, programs, waits, around, steps };
        };
        View {
            // A lane of our own without a socket yet has neither reading, and is a receiver.
            receiver: (seen.lanes.iter())
                .any(|lane| lane.tcp.value().is_some() || lane.sender.value().is_none()),
            sender: seen
                .lanes
                .iter()
                .any(|lane| lane.sender.value().is_some() && sends(lane, interval, context)),
            stages,
            fed,
            programs,
            waits: seen.lanes.iter().any(|lane| lane.waits.value().is_some()),
            around,
            steps: super::connect::tells_steps(seen),
        }
    }

    /// Seen from the sender's end alone.
    pub(crate) fn sender_only(self) -> bool {
        self.sender && !self.receiver
    }
}

/// Below this a second's bytes do not tell which way the data flow: 64 KiB are more than requests and answers
/// to them.
const WORTH_SPEAKING: u64 = 64 << 10;

/// Whether what a lane's sending view shows are the data, and not the requests of a socket that receives
/// them: of two ends of one connection the sender's acknowledged bytes are those that its receiver got; of
/// one socket seen both ways they are a small part. Over a second each way, since between two answers there
/// are only requests. Where so little went that it was mere requests and answers, the larger of what the own
/// socket sent and what came are the data.
fn sends(lane: &LaneInterval, interval: &Interval, context: &Context<'_>) -> bool {
    if lane.tcp.value().is_none() {
        return true;
    }
    let moved = Moved::near(lane.lane, interval, context);
    let Moved { acked, received, own, came } = moved;
    if moved.is_of_own_socket() && own.saturating_add(came) < WORTH_SPEAKING && own < came {
        return false;
    }
    acked.saturating_mul(4) >= received
}

/// What a lane's sending view shows is the socket of its peer, on this machine: the own one receives, and the
/// lane's thread is the receiver's.
pub(crate) fn is_peers(lane: &LaneInterval, interval: &Interval, context: &Context<'_>) -> bool {
    if lane.tcp.is_missing() || lane.waits.is_missing() {
        return false;
    }
    let moved = Moved::near(lane.lane, interval, context);
    moved.came > moved.own && !moved.is_of_own_socket()
}

/// Bytes of a lane over some intervals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Moved {
    acked: u64,
    received: u64,
    /// Of its own socket: sent, and came.
    own: u64,
    came: u64,
}

impl Moved {
    /// Over a second each way; in a long silence what it was before, or will be, tells.
    fn near(number: u32, interval: &Interval, context: &Context<'_>) -> Moved {
        let near = Moved::of(number, context.around(interval, 1.0));
        if near != Moved::default() {
            return near;
        }
        Moved::of(number, context.before.iter().chain(context.after))
    }

    /// What was acknowledged is what the own socket sent, maybe a little before; the SYN counts as a byte.
    fn is_of_own_socket(&self) -> bool {
        self.own > 0 && self.acked <= self.own.saturating_mul(2).saturating_add(1)
    }

    fn of<'a>(number: u32, intervals: impl Iterator<Item = &'a Interval>) -> Moved {
        let same = intervals.flat_map(|interval| &interval.lanes).filter(|lane| lane.lane == number);
        same.fold(Moved::default(), |sum, lane| {
            let sent = lane.sender.value().map_or(0, |seen| seen.acked.max(seen.sent));
            let (own, came) = lane.waits.value().map_or((0, 0), |waits| (waits.sent, waits.came));
            Moved {
                acked: sum.acked.saturating_add(sent),
                received: sum.received.saturating_add(lane.received),
                own: sum.own.saturating_add(own),
                came: sum.came.saturating_add(came),
            }
        })
    }
}
