//! Is the socket's send buffer below the bandwidth-delay product?
//!
//! Convicts when all of these hold:
//! 1. the kernel's clock says so 30 % of the time (`tcpi_sndbuf_limited`, which under-counts), or in half of
//!    the looks the send queue has reached the buffer while nothing waits unsent: all that fits is in flight.
//!    Of a sender that paces (BBR) a part waits for its next tick; there the clock must say so 10 % of the
//!    time, and the kernel that its rate samples are application-limited. And the writer is not found asleep
//!    by its own will, running, or reading a file instead. By looks alone it convicts only a buffer that
//!    never grew on this connection, or stands where `tcp_wmem` ends: one that the kernel tunes follows the
//!    congestion window;
//! 2. congestion window and peer window have room: else they are the limit, whatever the buffer;
//! 3. what fills it is not one answer after another, and no credit of a protocol above is waited for: see
//!    [`super::request_response`] and [`super::protocol_window`];
//! 4. no queue stands on the path: the round trip is below 1.25 times its minimum, or 1.5 times where the
//!    clock of (1) is above half, since a writer woken for a third of its buffer sends bursts that queue for
//!    themselves (50 ms over 40 ms was measured). A buffer that fills a queue is large enough.
//!
//! Acquits: data wait unsent, so that there was room for them; or the buffer was not filled; or the writer
//! does not wait. SO_SNDBUF alone says nothing: it was seen not to bind.
//!
//! Can be wrong: an application that writes pieces of just its buffer's size and thinks in between fills it
//! as well.

use super::flow::{Flow, by_flow};
use super::network;
use crate::evidence::Interval;
use crate::rule::{Context, Judgement};
use crate::words::{bytes, percent};

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    by_flow(interval, context, judge_flow)
}

fn judge_flow(flow: &Flow<'_>) -> Judgement {
    let seen = &flow.seen;
    let clock = flow.part(seen.send_buffer_limited);
    let size = match (seen.queued, seen.send_buffer) {
        (Some(queued), Some(buffer)) => {
            format!("{} of {} of send buffer queued", bytes(queued as f64), bytes(buffer as f64))
        }
        _ => format!("held by the send buffer {} of the time", percent(clock)),
    };
    if !flow.buffer_holds() {
        let why = if flow.data_wait() { format!(", {}", flow.unsent_in_words()) } else { String::new() };
        return Judgement::acquit(size + &why);
    }
    if flow.data_wait() && network::loss(flow).seen {
        return Judgement::acquit(format!("{size}, but data waited and some was lost"));
    }
    // Looks at a writer that wakes as often as it is looked at all fall into the moment when what it wrote is
    // still queued.
    if flow.writer_is_elsewhere() {
        return Judgement::acquit(format!("{size}, but its writer did not wait for it"));
    }
    if flow.cwnd_pinned() || flow.window_pinned() {
        let which = if flow.cwnd_pinned() { "congestion window" } else { "peer's window" };
        return Judgement::acquit(format!("{size}, but the {which} is filled as well"));
    }
    if let Some(why) = network::waits_above(flow) {
        return Judgement::acquit(format!("{size}, but {why}"));
    }
    let times = if clock >= 0.5 { 1.5 } else { 1.25 };
    match flow.inflated(times) {
        Some(true) => {
            return Judgement::acquit(format!("{size}, enough for a queue: {}", flow.round_trip_in_words()));
        }
        None => return Judgement::unknown("the round trip: whether the buffer fills a queue depends on it"),
        Some(false) => {}
    }
    let share = clock.max(flow.share(seen.buffer_filled));
    Judgement::convict(
        0.95 * share.max(0.7),
        format!(
            "{size}, held by it {} of the time, {} with room for {} more in the congestion window; {}",
            percent(share),
            flow.in_words(),
            bytes(seen.cwnd.saturating_sub(seen.in_flight) as f64),
            flow.round_trip_in_words()
        ),
    )
}
