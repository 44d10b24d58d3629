//! Does the consumer of the bytes take them too slowly?
//!
//! Convicts when one of these holds:
//! 1. the lanes are held by waiting for our stdout's reader (see `Spent::held_by`), in this interval or over
//!    half a second each way: a lane that finds the pipe full has filled it, and reads its next block while
//!    the consumer is still busy with what is in there;
//! 2. of a foreign process: its receive queues stay a quarter full or more (an eighth, if its thread is found
//!    asleep by its own will), or its window is shut below two segments: the bytes are here and it does not
//!    read them. What it does instead is said; where that is the disk or a full core, those rules are surer.
//!
//! Acquits: output goes to a file, or the reader kept up; or it does not read because its writes are held,
//! where that is half sure or more.
//!
//! Can be wrong: a consumer that starves for a processor which we occupy is slow because of us.

use super::spent::{spent, working};
use super::{Context, Judgement, dirty_throttle, disk, found, stall};
use crate::evidence::{Clocks, Interval, ThreadInterval};
use crate::path::SEGMENT;
use crate::words::{bytes, percent};

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    let spent = spent(interval);
    let around = stall::takes(interval, context, |interval| self::spent(interval).output_wait);
    if let Some(share) = spent.held_by(spent.output_wait).then_some(spent.output_wait).or(around) {
        let queue = if spent.queue > 0.25 {
            format!(", receive queue {} full", percent(spent.queue))
        } else {
            String::new()
        };
        let evidence = format!("waited {} of the time for the reader of our output{queue}", percent(share));
        return Judgement::convict(share, evidence);
    }
    if context.facts.clocks == Clocks::Sampled {
        return unread(interval, context);
    }
    if context.facts.to_stdout {
        Judgement::acquit(format!(
            "the reader of our output was waited for {} of the time",
            percent(spent.output_wait)
        ))
    } else {
        Judgement::acquit("output goes to a file")
    }
}

/// A foreign process's unread bytes.
fn unread(interval: &Interval, context: &Context<'_>) -> Judgement {
    let (mut all, mut shut) = (0u32, 0u32);
    let (mut queued, mut room) = (0u64, 0u64);
    let mut doing = None;
    for lane in working(interval) {
        let Some(tcp) = lane.tcp.value() else { continue };
        all += 1;
        let queue = tcp.receive_queue.unwrap_or(0);
        let closed = tcp.receive_window.is_some_and(|window| window < 2 * SEGMENT) && queue > 0;
        // The kernel gives about half of a buffer to payload (tcp_adv_win_scale), so a quarter of it is half
        // of that. Of a reader that sleeps by its own will half as much will do: nothing else keeps it from
        // reading.
        let buffer = tcp.receive_buffer.unwrap_or(u64::MAX);
        let sleeps =
            |thread: &ThreadInterval| thread.looks > 0 && thread.found.sleeping >= thread.looks.div_ceil(2);
        let part = if lane.thread.value().is_some_and(sleeps) { 8 } else { 4 };
        if closed || queue.saturating_mul(part) >= buffer.max(part) {
            shut += 1;
            doing = doing.or_else(|| lane.thread.value().and_then(found::doing));
        }
        queued = queued.saturating_add(queue);
        room = room.saturating_add(tcp.receive_buffer.unwrap_or(0));
    }
    if all == 0 {
        let why = interval.lanes.iter().find_map(|lane| lane.tcp.missing()).unwrap_or("no connection");
        return Judgement::unknown(format!("the receive queues: {why}"));
    }
    let numbers = format!("{} lay unread in receive buffers of {}", bytes(queued as f64), bytes(room as f64));
    if 2 * shut < all {
        return Judgement::acquit(numbers);
    }
    for way in [dirty_throttle::judge, disk::judge] {
        if let Judgement::Convict { evidence, strength } = way(interval, context)
            && strength >= 0.5
        {
            return Judgement::acquit(evidence);
        }
    }
    let doing = doing.map(|doing| format!(", {doing}")).unwrap_or_default();
    Judgement::convict(
        0.75,
        format!(
            "{numbers}: {} does not read them{doing}",
            context.facts.scope.as_deref().unwrap_or("the program")
        ),
    )
}
