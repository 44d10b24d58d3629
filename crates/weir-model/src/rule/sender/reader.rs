//! Does the peer's application read too slowly, as its sender sees it?
//!
//! Convicts when the peer's window shows unread bytes (1) and they hold the connection (2), or all was sent
//! and acknowledged and the peer still has to read it (3):
//! 1. the window was taken away: it reached (nearly) nothing, less than two segments; or it stands a fifth
//!    below the largest that this connection saw; or it shrank by a fifth within a second. A buffer's cap
//!    stands still and autotuning only grows, so only a queue of unread bytes takes window away. Unless
//!    segments were lost just then: what arrives beyond a hole fills the buffer too; or the judged interval
//!    itself stood still at its largest, filled, without a queue: then all was read here;
//! 2. in flight is pinned at the window in half of the looks or more, or the kernel's clock
//!    (`tcpi_rwnd_limited`) says so half of the time; or in flight takes 40 % of the window or more, which
//!    pacing (BBR) keeps from touching it, while the round trip has grown; or the round trip has grown while
//!    the rate is below three quarters of its best; or it has grown and, within a second, the window fell
//!    below what is in flight, so that it stopped the sender. A kernel acknowledges at once only if its
//!    window may advance, else within 40 ms (`__tcp_ack_snd_check`), so a full receive buffer stretches the
//!    round trip; a queue on the path would go with the full rate.
//!
//! 3. nothing is in flight or unsent, and the window stands below half of the largest that this connection
//!    saw, or grows later in the same rest: a kernel tells its sender when what was read doubles the window
//!    (tcp_cleanup_rbuf), so less than half is not read yet.
//!
//! Acquits: a window with room, or one that stands still.
//!
//! Can be wrong: a receiver that runs out of memory shrinks windows too (tcp_mem). What holds the reader
//! (disk, processor, its own will) is only seen on its side.

use super::flow::{Flow, by_flow};
use super::network::usage;
use crate::evidence::{Interval, LaneInterval};
use crate::rule::{Context, Judgement};
use crate::sender::SenderInterval;
use crate::words::{bytes, percent};

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    by_flow(interval, context, judge_flow)
}

fn judge_flow(flow: &Flow<'_>) -> Judgement {
    let Some((least, mean, most)) = ends(flow) else {
        return Judgement::unknown("the peer's window: this kernel does not report it (Linux 5.4 does)");
    };
    if let Some(evidence) = rests_on_unread(flow) {
        return Judgement::convict(0.8, evidence);
    }
    let held = filled(flow);
    let size =
        format!("the peer's window of {} (mean) was filled {} of the time", bytes(mean), percent(held));
    if !taken(flow) {
        return Judgement::acquit(format!("{size} and did not shrink"));
    }
    if !holds(flow) {
        return Judgement::acquit(size);
    }
    Judgement::convict(
        0.6 + 0.35 * held.max(0.5),
        format!(
            "{size} and moved between {} and {}: unread bytes take it away; {}, {}",
            bytes(least),
            bytes(most),
            flow.in_words(),
            flow.round_trip_in_words()
        ),
    )
}

/// The numbers of a rest in which the peer still reads: see (3) above.
fn rests_on_unread(flow: &Flow<'_>) -> Option<String> {
    let rests = |seen: &SenderInterval| seen.acked == 0 && seen.in_flight == 0 && seen.unsent == 0;
    let now = flow.lane.sender.value().filter(|seen| rests(seen) && seen.looks > 0)?;
    let (_, _, here) = now.peer_window?;
    let largest = |seen: &SenderInterval| seen.peer_window.map_or(0, |(_, _, most)| most);
    let ever = flow.before().map(|(seen, _)| largest(seen)).max().unwrap_or(0);
    let grows = || {
        let rest = flow.after(f64::INFINITY).take_while(|(seen, _)| rests(seen));
        rest.map(|(seen, _)| largest(seen)).any(|later| later > here.saturating_add(here / 4))
    };
    (here < ever && (here.saturating_mul(2) < ever || grows())).then(|| {
        format!(
            "all was sent and acknowledged while {} of the peer's window of {} was taken by unread bytes",
            bytes((ever - here) as f64),
            bytes(ever as f64)
        )
    })
}

/// Share of the time that the window was filled, by the looks or by the kernel's clock.
pub(crate) fn filled(flow: &Flow<'_>) -> f64 {
    flow.share(flow.seen.window_filled).max(flow.part(flow.seen.receive_window_limited))
}

/// Whether a window that unread bytes took away holds the connection: see (2) above.
fn holds(flow: &Flow<'_>) -> bool {
    let grown = flow.queue_stands() == Some(true);
    let slows = || (crowds(flow) && stands_below(flow)) || usage(flow).share() < 0.75 || stopped(flow);
    filled(flow) >= 0.5 || (grown && slows())
}

/// In flight takes 40 % of the peer's window or more. A receiver that reads all gives twice what came in a
/// round trip (tcp_rcv_space_adjust), so an open window stays below that.
pub(crate) fn crowds(flow: &Flow<'_>) -> bool {
    flow.seen.peer_window.is_some_and(|(_, mean, _)| flow.seen.in_flight as f64 >= 0.4 * mean as f64)
}

/// Whether it is the reader that holds this connection: (1) and (2) above.
pub(crate) fn holds_back(flow: &Flow<'_>) -> bool {
    taken(flow) && holds(flow)
}

/// Whether unread bytes take window away: see (1) above.
pub(crate) fn taken(flow: &Flow<'_>) -> bool {
    if lie_unread(flow.lane) {
        return true;
    }
    let around = around(flow);
    let windows = || around.iter().filter_map(|seen| seen.peer_window);
    let segment = flow.window_unit();
    // A window of a few segments at most is a small cap, of which less than two are nothing unusual.
    let large = windows().any(|(_, _, most)| most >= 8 * segment);
    if large && flow.seen.peer_window.is_some_and(|(least, ..)| least < 2 * segment) {
        return true;
    }
    if holes(flow) {
        return false;
    }
    if stands_below(flow) {
        return true;
    }
    if stands_at_its_cap(flow) {
        return false;
    }
    let mut largest = 0;
    let whole = around.iter().filter(|seen| seen.lost() == 0).filter_map(|seen| seen.peer_window);
    whole.into_iter().any(|(least, _, most)| {
        let shrank = shrank(largest, least, segment);
        largest = largest.max(most);
        shrank
    })
}

/// Within a second a window that was twice as large fell below what is in flight. A link that holds the
/// sender keeps the receiver's buffer empty, even if its reader reads only now and then: that takes no more
/// than comes in the meantime.
fn stopped(flow: &Flow<'_>) -> bool {
    let mut largest = 0;
    around(flow).into_iter().filter(|seen| seen.lost() == 0).filter_map(|seen| seen.peer_window).any(
        |(least, _, most)| {
            let fell = least < largest / 2 && least < flow.seen.in_flight;
            largest = largest.max(most);
            fell
        },
    )
}

/// This connection's intervals within [`reach`], oldest first.
fn around<'a>(flow: &Flow<'a>) -> Vec<&'a SenderInterval> {
    let mut around: Vec<&SenderInterval> = flow.past(reach(flow)).map(|(seen, _)| seen).collect();
    around.reverse();
    around.extend(flow.after(reach(flow)).map(|(seen, _)| seen));
    around
}

/// Segments were lost just now: what arrives beyond a hole lies in the receiver's buffer until the hole is
/// filled, two round trips later. A slow reader's full buffer stretches the round trip until the kernel sends
/// its last segment again as a probe (RFC 8985, section 7), which the peer reports as not needed: where four
/// fifths of what was retransmitted around here came back so, nothing was lost.
pub(crate) fn holes(flow: &Flow<'_>) -> bool {
    let near = 2.0 * flow.rtt().unwrap_or(0.0);
    if !flow.around(near).any(|(seen, _)| seen.lost() > 0) {
        return false;
    }
    let (retransmitted, needless) =
        flow.around(reach(flow)).fold((0_u64, 0_u64), |(all, needless), (seen, _)| {
            (all.saturating_add(seen.retransmitted), needless.saturating_add(seen.needless()))
        });
    retransmitted.saturating_sub(needless).saturating_mul(5) > retransmitted
}

/// The window stands a fifth below the largest that this connection saw.
fn stands_below(flow: &Flow<'_>) -> bool {
    let ever = flow.before().filter_map(|(seen, _)| Some(seen.peer_window?.2)).max().unwrap_or(0);
    flow.seen.peer_window.is_some_and(|(_, mean, _)| shrank(ever, mean, flow.window_unit()))
}

/// The window did not move at all, in flight filled it, and no queue stood: whatever the reader did before or
/// after, here it read all that came. One stall of the receiver's machine would else make a second of its
/// buffer's cap on either side the reader's doing.
fn stands_at_its_cap(flow: &Flow<'_>) -> bool {
    let still = flow.seen.peer_window.is_some_and(|(least, _, most)| least == most);
    still && flow.share(flow.seen.window_filled) >= 0.9 && flow.queue_stands() == Some(false)
}

/// By a fifth; of a window of a few segments one that comes or goes is already that.
fn shrank(from: u64, to: u64, segment: u64) -> bool {
    (to as f64) < 0.8 * from as f64 && from.saturating_sub(to) > 2 * segment
}

/// Where the receiver is seen as well: a quarter of its buffer is full of bytes that nobody reads.
fn lie_unread(lane: &LaneInterval) -> bool {
    let queue = lane.tcp.value().and_then(|tcp| Some((tcp.receive_queue?, tcp.receive_buffer?)));
    queue.is_some_and(|(queue, buffer)| queue > 0 && queue.saturating_mul(4) >= buffer)
}

/// A reader that reads once in a while shows within a second, or four round trips where those are longer.
pub(crate) fn reach(flow: &Flow<'_>) -> f64 {
    (4.0 * flow.rtt().unwrap_or(0.0)).max(1.0)
}

fn ends(flow: &Flow<'_>) -> Option<(f64, f64, f64)> {
    let mean = flow.seen.peer_window?.1 as f64;
    let around = || flow.past(reach(flow)).filter_map(|(seen, _)| seen.peer_window);
    let least = around().map(|(least, ..)| least).min()?;
    let most = around().map(|(_, _, most)| most).max()?;
    let ever = flow.before().filter_map(|(seen, _)| Some(seen.peer_window?.2)).max().unwrap_or(most);
    Some((least as f64, mean, most.max(ever) as f64))
}
