//! Data that are waited for because a stage of this side had stopped their sender: the aftermath of a stall.
//!
//! A writer that the kernel paces sleeps in pauses of up to 0.2 s (MAX_PAUSE in Linux mm/page-writeback.c),
//! several of them for one write of a megabyte, and reads the next megabyte in between. The pauses fill the
//! receive buffer, so the sender stops; what it could not send then is waited for afterwards. Seen interval
//! by interval stage and path take turns, though the path runs at full speed whenever it is let: the stage is
//! what holds the transfer.

use super::Context;
use super::spent::spent;
use crate::evidence::{Interval, TcpInterval};
use crate::path::SEGMENT;

/// Seconds looked at on each side of an interval: a turn of both (a few pauses of 0.2 s, and the megabyte
/// read in between) fits into both together.
const TURN: f64 = 0.5;

/// The share of the time that a stage takes over such a turn, where it takes half or more, so that it is the
/// larger part, and some of that lies before: what comes ahead of the first stall is no aftermath. `share` is
/// what the stage takes of one interval.
pub(crate) fn takes(
    interval: &Interval,
    context: &Context<'_>,
    share: impl Fn(&Interval) -> f64,
) -> Option<f64> {
    if !context.recent(TURN).any(|interval| share(interval) > 0.0) {
        return None;
    }
    let (mut taken, mut time) = (0.0, 0.0);
    for interval in turn(interval, context) {
        taken += share(interval) * interval.span.as_secs_f64();
        time += interval.span.as_secs_f64();
    }
    let mean = if time > 0.0 { taken / time } else { 0.0 };
    (mean >= 0.5).then_some(mean)
}

/// Whether data lay unread in such a turn, so that the sender was stopped or soon would have been: a receive
/// queue takes a quarter of its buffer (the kernel gives about half of it to payload), or the window is shut.
/// Without that the buffer took the stall in, and the sender never knew of it.
pub(crate) fn stopped_sender(interval: &Interval, context: &Context<'_>) -> bool {
    let shut = |tcp: &TcpInterval| {
        let queue = tcp.receive_queue.unwrap_or(0);
        queue > 0 && tcp.receive_window.is_some_and(|window| window < 2 * SEGMENT)
    };
    turn(interval, context).any(|interval| {
        let mut sockets = interval.lanes.iter().filter_map(|lane| lane.tcp.value());
        spent(interval).queue > 0.25 || sockets.any(shut)
    })
}

fn turn<'a>(interval: &'a Interval, context: &Context<'a>) -> impl Iterator<Item = &'a Interval> {
    context.around(interval, TURN)
}
