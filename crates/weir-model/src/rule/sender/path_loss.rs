//! Does loss keep the congestion window small, as its sender sees it?
//!
//! Convicts when all of these hold:
//! 1. the network holds the connection (see [`super::network::holds`]) and the link is not full
//!    (see [`super::path_bandwidth`]);
//! 2. it retransmits, more than the peer reported as not needed; or it has retransmitted before and the
//!    congestion window is still filled, however long ago that was: Reno regains a segment a round trip, so
//!    half of a window of 1000 segments takes 50 s over 100 ms.
//!
//! What such loss allows (RFC 9438) is said, but does not decide: it counts losses one by one, and those of
//! one overflow (slow start's, thousands of segments) cost one halving. Where the connection carries half as
//! much again, or its rate stays near its ceiling, as that of a link with a managed queue does (CoDel), it
//! convicts with [`DOUBTFUL`] strength.
//!
//! Acquits: any of these refuted.
//!
//! Can be wrong: at a link whose queue is so short that a sender's own loss keeps it below the rate, loss is
//! the mechanism and the short queue the cause: the advice is the same.

use std::time::Duration;

use super::flow::{Flow, by_flow};
use super::network::{self, loss, usage};
use super::path_bandwidth::full;
use crate::evidence::Interval;
use crate::path::loss_bound;
use crate::rule::path_loss::BEYOND;
use crate::rule::{Context, Judgement};
use crate::words::{bytes, percent};

/// Where a full link would show the same.
const DOUBTFUL: f64 = 0.45;

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    by_flow(interval, context, judge_flow)
}

/// Of what was retransmitted over the last round trips half or more had arrived: the path reorders, which
/// looks like loss until the peer says so (DSACK), and costs the congestion window the same.
fn reordering(flow: &Flow<'_>) -> Option<String> {
    let mut sum = crate::sender::SenderInterval::default();
    flow.around(flow.horizon()).for_each(|(seen, _)| sum.join(seen));
    let spurious = sum.duplicates.saturating_mul(flow.segment());
    let most = sum.reordered > 0 && sum.retransmitted > 0 && spurious >= sum.retransmitted / 2;
    most.then(|| {
        format!(
            "the path reorders ({} times seen) and {} of {} sent again had arrived: that is no loss",
            sum.reordered,
            bytes(spurious.min(sum.retransmitted) as f64),
            bytes(sum.retransmitted as f64)
        )
    })
}

fn judge_flow(flow: &Flow<'_>) -> Judgement {
    let lost = loss(flow);
    let before = || flow.context.before.iter().flat_map(|interval| &interval.lanes);
    let ever = || {
        let same = before().filter(|lane| lane.lane == flow.lane.lane);
        same.filter_map(|lane| lane.sender.value()).any(|seen| seen.retransmitted > 0)
    };
    let counted = if lost.seen {
        format!("{} retransmitted", percent(lost.share))
    } else {
        "nothing retransmitted of late".to_owned()
    };
    let counted = reordering(flow).map_or(counted.clone(), |words| format!("{counted}; {words}"));
    let struck = lost.seen || (flow.cwnd_pinned() && ever());
    if !struck {
        return Judgement::acquit(counted);
    }
    if let Err(why) = network::holds(flow) {
        return Judgement::acquit(format!("{counted}; {why}"));
    }
    let used = usage(flow);
    if let Ok((_, why)) = full(flow, &used) {
        return Judgement::acquit(format!("the link is full: {why}"));
    }
    // A capture has no congestion window.
    let window = match flow.seen.cwnd {
        0 => String::new(),
        cwnd => format!("congestion window {}, ", bytes(cwnd as f64)),
    };
    let numbers = format!("{counted}, {window}{}, {}", flow.in_words(), flow.round_trip_in_words());
    let round_trip = flow.min_rtt().and_then(|rtt| Duration::try_from_secs_f64(rtt).ok());
    let round_trip = round_trip.filter(|_| lost.seen && !flow.ignores_loss());
    let (strength, told) = match round_trip.and_then(|rtt| loss_bound(flow.segment(), rtt, lost.share)) {
        Some(bound) if used.mean > BEYOND * bound.0 => {
            let words = "where it comes evenly, and more was carried";
            (DOUBTFUL, format!("{numbers}: such loss allows about {bound} {words}"))
        }
        Some(bound) => (0.85, format!("{numbers}: such loss allows about {bound}")),
        None => (0.75, numbers),
    };
    if used.is_near_ceiling() {
        let words = format!("{told}; the rate stays near its best, as at a full link with a managed queue");
        // A moment in which something was lost says more than one between losses.
        let doubt = if lost.seen { 1.0 } else { 0.9 };
        return Judgement::convict(doubt * DOUBTFUL, words);
    }
    Judgement::convict(strength, told)
}
