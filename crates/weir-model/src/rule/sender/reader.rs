//! Does the peer's application read too slowly, as its sender sees it?
//!
//! Convicts when the peer's window is what holds the connection, and it moves with its reader:
//! 1. in flight is pinned at the window in half of the looks or more, or the kernel's clock (`tcpi_rwnd_limited`) says so
//!    half of the time; and
//! 2. the window reached (nearly) nothing, less than two segments; or it shrank: within a second its smallest was a fifth
//!    below an earlier largest. A buffer's cap stands still and autotuning only grows, so only a queue of unread bytes
//!    takes window away.
//!
//! Acquits: a window with room, or one that stands still.
//!
//! Can be wrong: a receiver that runs out of memory shrinks windows too (tcp_mem). What holds the reader (disk, processor,
//! its own will) is only seen on its side.

use super::flow::{Flow, by_flow};
use crate::evidence::{LaneWindow, Window};
use crate::rule::{Context, Judgement};
use crate::words::{bytes, percent};

/// The judgement of one window.
pub fn judge(window: &Window, context: &Context<'_>) -> Judgement {
    by_flow(window, context, judge_flow)
}

fn judge_flow(flow: &Flow<'_>) -> Judgement {
    let Some((least, mean, most)) = ends(flow) else {
        return Judgement::unknown("the peer's window: this kernel does not report it (Linux 5.4 does)");
    };
    let held = flow.share(flow.seen.window_filled).max(flow.part(flow.seen.receive_window_limited));
    let size =
        format!("the peer's window of {} (mean) was filled {} of the time", bytes(mean), percent(held));
    if held < 0.5 {
        return Judgement::acquit(size);
    }
    if !shrinks(flow) {
        return Judgement::acquit(format!("{size} and did not shrink"));
    }
    Judgement::convict(
        0.6 + 0.35 * held,
        format!(
            "{size} and moved between {} and {}: unread bytes take it away; {}",
            bytes(least),
            bytes(most),
            flow.in_words()
        ),
    )
}

/// Whether unread bytes take window away: see (2) above.
pub(crate) fn shrinks(flow: &Flow<'_>) -> bool {
    if lie_unread(flow.lane) {
        return true;
    }
    let mut oldest_first: Vec<(u64, u64, u64)> =
        flow.past(reach(flow)).filter_map(|(seen, _)| seen.peer_window).collect();
    oldest_first.reverse();
    let following = flow.context.following(reach(flow));
    oldest_first.extend(following.filter_map(|window| {
        let same = window.lanes.iter().find(|other| other.lane == flow.lane.lane)?;
        same.sender.value()?.peer_window
    }));
    let segment = flow.segment();
    // A window of a few segments at most is a small cap, of which less than two are nothing unusual.
    let large = oldest_first.iter().any(|(_, _, most)| *most >= 8 * segment);
    if large && flow.seen.peer_window.is_some_and(|(least, ..)| least < 2 * segment) {
        return true;
    }
    let mut largest = 0;
    oldest_first.iter().any(|(least, _, most)| {
        let shrank = (*least as f64) < 0.8 * largest as f64;
        largest = largest.max(*most);
        shrank
    })
}

/// Where the receiver is seen as well: a quarter of its buffer is full of bytes that nobody reads.
fn lie_unread(lane: &LaneWindow) -> bool {
    let queue = lane.tcp.value().and_then(|tcp| Some((tcp.receive_queue?, tcp.receive_buffer?)));
    queue.is_some_and(|(queue, buffer)| queue > 0 && queue.saturating_mul(4) >= buffer)
}

/// A reader that reads once in a while shows within a second, or four round trips where those are longer.
fn reach(flow: &Flow<'_>) -> f64 {
    (4.0 * flow.rtt().unwrap_or(0.0)).max(1.0)
}

fn ends(flow: &Flow<'_>) -> Option<(f64, f64, f64)> {
    let mean = flow.seen.peer_window?.1 as f64;
    let around = || flow.past(reach(flow)).filter_map(|(seen, _)| seen.peer_window);
    let least = around().map(|(least, ..)| least).min()?;
    let most = around().map(|(_, _, most)| most).max()?;
    Some((least as f64, mean, most as f64))
}
