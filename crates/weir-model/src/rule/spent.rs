//! How the lanes spent an interval: the fractions that most rules start from.

use std::time::Duration;

use super::end::End;
use super::{Context, Judgement};
use crate::around::Writer;
use crate::evidence::{Interval, LaneInterval, TcpInterval, ThreadInterval};
use crate::words::percent;

/// Fractions of the lanes' working time (span less idle, summed over lanes), each 0 to 1. Lanes that were
/// idle throughout do not count; a lane weighs as much as it was at work.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    /// Lanes at work.
    pub(crate) lanes: u32,
    pub(crate) connecting: f64,
    /// Of that, waiting for names, where it is told apart.
    pub(crate) resolving: f64,
    /// Less what the lane's own thread needed in the meantime: see `kept_busy`.
    pub(crate) first_byte: f64,
    pub(crate) socket_wait: f64,
    pub(crate) limited: f64,
    pub(crate) output_wait: f64,
    /// In write calls, not running and not merely waiting for a processor; or a thread that they hand on to
    /// was held so, where that is more ([`held_beside`]).
    pub(crate) write_blocked: f64,
    /// The same of their own threads alone.
    pub(crate) own_write_blocked: f64,
    /// In the stages of this side together: writing, waiting for the reader of the output, asleep for a
    /// limit, running or kept from running.
    pub(crate) here: f64,
    /// Bytes waiting in the receive queues, as a share of the receive buffers.
    pub(crate) queue: f64,
}

/// A lane at work for less than this share of the interval is idle: 1 % is below what the clocks resolve.
const IDLE: f64 = 0.01;

pub(crate) fn spent(interval: &Interval) -> Spent {
    let mut spent = Spent::default();
    let mut all = 0.0;
    let (mut queued, mut room) = (0.0, 0.0);
    for lane in &interval.lanes {
        let active = active(lane, interval);
        if active <= IDLE * interval.span.as_secs_f64() {
            continue;
        }
        all += active;
        spent.lanes += 1;
        let part = |span: Duration| span.as_secs_f64().min(active);
        spent.connecting += part(lane.connecting);
        spent.resolving += part(lane.resolving.unwrap_or_default().min(lane.connecting));
        spent.first_byte += part(lane.first_byte).min(active - kept_busy(lane, active));
        spent.socket_wait += part(lane.socket_wait);
        spent.limited += part(lane.limited);
        spent.output_wait += part(lane.output_wait);
        spent.write_blocked += write_blocked(lane).min(active);
        spent.here += here(lane, active);
        if let Some(TcpInterval { receive_queue: Some(queue), receive_buffer: Some(buffer), .. }) =
            lane.tcp.value()
        {
            queued += *queue as f64;
            room += *buffer as f64;
        }
    }
    if all > 0.0 {
        for share in [
            &mut spent.connecting,
            &mut spent.resolving,
            &mut spent.first_byte,
            &mut spent.socket_wait,
            &mut spent.limited,
            &mut spent.output_wait,
            &mut spent.write_blocked,
            &mut spent.here,
        ] {
            *share = (*share / all).clamp(0.0, 1.0);
        }
    }
    spent.own_write_blocked = spent.write_blocked;
    if let Some(writer) = held_beside(interval) {
        spent.write_blocked = spent.write_blocked.max(writer.writing);
    }
    if room > 0.0 {
        spent.queue = (queued / room).clamp(0.0, 1.0);
    }
    spent
}

impl Spent {
    /// Whether a stage of this side that takes `share` of the lanes' time holds the transfer back.
    ///
    /// 1. It takes half of the time or more; or
    /// 2. it takes a quarter (the share from which a verdict counts a limit) and more than the lanes waited
    ///    for data, since a stage whose lane often waits for data has time to spare; or
    /// 3. it takes a quarter while the receive queues are more than a quarter full: the data were there.
    pub(crate) fn held_by(&self, share: f64) -> bool {
        share >= 0.5 || (share >= 0.25 && (share > self.socket_wait || self.queue > 0.25))
    }

    /// Whether the lanes mostly waited for data that had not arrived: the premise of all rules about the
    /// connection.
    pub(crate) fn waits_for_data(&self) -> bool {
        self.lanes > 0 && self.socket_wait >= 0.5
    }

    /// On the way to connections that have an address.
    pub(crate) fn handshakes(&self) -> f64 {
        (self.connecting - self.resolving).max(0.0)
    }

    /// Whether stages of this side took the time that was no wait for data: a quarter of all, from which a
    /// verdict counts a limit, and more than anything else but that wait.
    fn is_busy_here(&self) -> bool {
        self.here >= 0.25 && self.here >= 1.0 - self.socket_wait - self.here
    }
}

/// What all rules about the connection share where the lanes did not mostly wait for data. They are acquitted
/// where stages of this side took the time. Where a connection was made or an answer had not begun, or none
/// was at work, nothing came that would tell of it: a lost segment may have been the cause of that, too.
pub(crate) fn had_data(interval: &Interval, context: &Context<'_>) -> Option<Judgement> {
    let spent = spent(interval);
    if spent.waits_for_data() {
        return None;
    }
    if !spent.is_busy_here() {
        return Some(Judgement::unknown("a flow of data: there was none most of the time"));
    }
    let share = percent(spent.socket_wait);
    Some(Judgement::acquit(format!("{} waited for data only {share} of the time", context.who())))
}

/// Seconds that a lane was at work.
pub(crate) fn active(lane: &LaneInterval, interval: &Interval) -> f64 {
    interval.span.saturating_sub(lane.idle).as_secs_f64()
}

/// The lanes at work.
pub(crate) fn working(interval: &Interval) -> impl Iterator<Item = &LaneInterval> {
    let least = IDLE * interval.span.as_secs_f64();
    interval.lanes.iter().filter(move |lane| active(lane, interval) > least)
}

/// Seconds of `active` that a lane's thread ran or was kept from running: it did not wait for anybody then,
/// whatever its stage. A thread that a quota holds back while it prepares to receive looks as if the server
/// were slow. Nothing below a tenth, which is left to the clocks' grain, as in [`super::cpu_core`].
pub(crate) fn kept_busy(lane: &LaneInterval, active: f64) -> f64 {
    let Some(thread) = lane.thread.value() else { return 0.0 };
    let busy = thread.cpu.as_secs_f64() + kept_waiting(lane);
    if busy >= 0.1 * active { busy.min(active) } else { 0.0 }
}

/// Seconds that a lane's thread was ready to run and did not: it waited for a processor, or its group's quota
/// held it back.
fn kept_waiting(lane: &LaneInterval) -> f64 {
    let waited = |thread: &ThreadInterval| thread.runqueue.saturating_add(thread.throttled);
    lane.thread.value().map_or(0.0, |thread| waited(thread).as_secs_f64())
}

/// Whether the lanes' threads were ready to run and did not for half of their time or more: they were then
/// asleep in nothing for more than the other half.
pub(crate) fn starved(interval: &Interval) -> bool {
    let (waited, all) = working(interval).fold((0.0, 0.0), |(waited, all), lane| {
        let active = active(lane, interval);
        (waited + kept_waiting(lane).min(active), all + active)
    });
    all > 0.0 && waited >= 0.5 * all
}

/// The share of all looks at the lanes' threads that `found` counts; `None` without a look.
pub(crate) fn share_of_looks(interval: &Interval, found: fn(&ThreadInterval) -> u32) -> Option<f64> {
    let threads = interval.lanes.iter().filter_map(|lane| lane.thread.value());
    let (counted, looks) = threads.fold((0_u64, 0_u64), |(counted, looks), thread| {
        (counted + u64::from(found(thread)), looks + u64::from(thread.looks))
    });
    (looks > 0).then(|| (counted as f64 / looks as f64).min(1.0))
}

/// The thread beside the lanes' own whose writes hold what they hand on to it, as
/// [`crate::around::Around::held_writer`] has it. None where no lane is at work; where little of what came
/// was written, so that its writes are others (a log); where most was sent, which waits for no writer; or
/// where a lane's own thread is full, which hands on no more than it can.
pub(crate) fn held_beside(interval: &Interval) -> Option<Writer<'_>> {
    let writer = interval.around.held_writer()?;
    let is_full = |lane: &LaneInterval| {
        let active = active(lane, interval);
        kept_busy(lane, active) >= 0.9 * active
    };
    let at_work = working(interval).next().is_some() && !working(interval).any(is_full);
    (at_work && !writes_little(interval) && !mostly_sends(interval)).then_some(writer)
}

/// Little of what came was written: writes beside are others (a log).
pub(crate) fn writes_little(interval: &Interval) -> bool {
    interval.written > 0 && interval.written.saturating_mul(4) < interval.received
}

fn mostly_sends(interval: &Interval) -> bool {
    let sending = interval.lanes.iter().filter(|lane| End::of(lane) == End::Sends);
    let sent = sending.map(|lane| lane.received).fold(0, u64::saturating_add);
    sent.saturating_mul(2) > interval.received
}

/// Seconds of `active` in stages of this side: by the lane's clocks, or, where these do not tell when it ran,
/// by its thread.
fn here(lane: &LaneInterval, active: f64) -> f64 {
    let clocked = lane.write.saturating_add(lane.receive_cpu).saturating_add(lane.decrypt).as_secs_f64();
    let working = clocked.max(write_blocked(lane) + kept_busy(lane, active));
    (working + lane.limited.saturating_add(lane.output_wait).as_secs_f64()).min(active)
}

/// Seconds in write calls asleep. A thread that waits for a processor, or for its group's quota, is not
/// running either; that wait is taken off in the proportion in which its running time was write calls, since
/// it is running threads that are preempted. Of one that is seldom preempted it may lie in one call: see
/// [`starved`].
fn write_blocked(lane: &LaneInterval) -> f64 {
    let write_cpu = lane.write_cpu.as_secs_f64();
    let cpu = write_cpu + lane.receive_cpu.as_secs_f64() + lane.decrypt.as_secs_f64();
    let preempted = if cpu > 0.0 { kept_waiting(lane) * write_cpu / cpu } else { 0.0 };
    (lane.write.as_secs_f64() - write_cpu - preempted).max(0.0)
}

/// Smallest round trip known, in seconds: of this interval's lanes, else of the nearest interval that has
/// one.
pub(crate) fn min_rtt(interval: &Interval, context: &Context<'_>) -> Option<f64> {
    // A hundred intervals reach across any stretch without a reading that is still the same path.
    let near = context.before.iter().rev().take(100).chain(context.after.iter().take(100));
    std::iter::once(interval).chain(near).find_map(|interval| {
        let known = interval.lanes.iter().filter_map(|lane| lane.tcp.value()?.shortest_rtt());
        known.min().map(|rtt| rtt.as_secs_f64()).filter(|rtt| *rtt > 0.0)
    })
}

/// One lane's bytes per second of working time in this interval and those up to `seconds` before it, so that
/// data that arrive in bursts (one a round trip, one a pacing tick) are not mistaken for a changing rate.
pub(crate) fn lane_rate(lane: u32, interval: &Interval, context: &Context<'_>, seconds: f64) -> f64 {
    let (mut bytes, mut time) = (0.0, 0.0);
    for interval in std::iter::once(interval).chain(context.recent(seconds)) {
        for lane in interval.lanes.iter().filter(|other| other.lane == lane) {
            bytes += lane.received as f64;
            time += active(lane, interval);
        }
    }
    if time > 0.0 { bytes / time } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Evidence, Facts};
    use crate::verdict::explain;

    const SPAN: Duration = Duration::from_millis(100);

    fn interval(lane: LaneInterval) -> Interval {
        Interval { span: SPAN, received: lane.received, lanes: vec![lane], ..Interval::default() }
    }

    /// What is ruled out of the connection, of so many intervals and ten in which the limit that a user set
    /// held.
    fn ruled_out(first: &[Interval]) -> Vec<String> {
        let limited = LaneInterval { received: 100_000, limited: SPAN, ..LaneInterval::default() };
        let facts = Facts { rate_cap: Some(1e6), ..Facts::default() };
        let intervals = [first.to_vec(), vec![interval(limited); 10]].concat();
        let innocent = explain(&Evidence { intervals, facts, ..Evidence::default() }).innocent;
        let of_connection = ["receive-window: ", "path-loss: ", "path-bandwidth: "];
        innocent.into_iter().filter(|line| of_connection.iter().any(|name| line.starts_with(name))).collect()
    }

    #[test]
    fn only_what_this_side_did_rules_the_connection_out() {
        assert_eq!(ruled_out(&[]).len(), 3);
        let connecting = LaneInterval { connecting: SPAN, ..LaneInterval::default() };
        let unanswered = LaneInterval { first_byte: SPAN, ..LaneInterval::default() };
        let absent = LaneInterval { idle: SPAN, ..LaneInterval::default() };
        for lane in [connecting, unanswered, absent] {
            let told = ruled_out(&vec![interval(lane.clone()); 150]);
            assert!(told.is_empty(), "{lane:?}: {told:?}");
        }
    }
}
