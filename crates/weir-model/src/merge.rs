//! Several intervals seen as one: what did all of this time look like together?
//!
//! Times and counts add up; levels (a window, a queue) are taken from the last reading or averaged over time;
//! minima stay minima. What only a sequence shows (a window that grows) is lost, so trends are judged before
//! merging.

use std::time::Duration;

use crate::evidence::{
    CpuInterval, DiskInterval, Evidence, Interval, LaneInterval, Program, Reading, TcpInterval,
};
use crate::sender::SenderInterval;
use crate::thread::join_thread;
use crate::waits::Waits;

impl Evidence {
    /// Adds an interval and keeps at most `most` of them, by joining neighbours once that many are there: a
    /// transfer of a day then costs the memory of one of minutes, at a coarser grain.
    pub fn push(&mut self, interval: Interval, most: usize) {
        self.intervals.push(interval);
        if self.intervals.len() > most.max(2) {
            self.intervals = self.intervals.chunks(2).map(merged).collect();
        }
    }
}

/// One interval that stands for all of these; the empty interval for none.
pub fn merged<'a>(intervals: impl IntoIterator<Item = &'a Interval>) -> Interval {
    let mut intervals = intervals.into_iter();
    let Some(first) = intervals.next() else { return Interval::default() };
    intervals.fold(first.clone(), |mut sum, interval| {
        join_interval(&mut sum, interval);
        sum
    })
}

fn join_interval(sum: &mut Interval, next: &Interval) {
    let (before, after) = (sum.span, next.span);
    add(&mut sum.span, next.span);
    sum.received = sum.received.saturating_add(next.received);
    sum.written = sum.written.saturating_add(next.written);
    sum.objects = sum.objects.saturating_add(next.objects);
    add(&mut sum.server_backoff, next.server_backoff);
    add(&mut sum.server_failing, next.server_failing);
    add(&mut sum.unreached, next.unreached);
    add(&mut sum.broken, next.broken);
    add(&mut sum.unlisted, next.unlisted);
    sum.left = next.left.or(sum.left);
    add(&mut sum.verify_busy, next.verify_busy);
    sum.verify_backlog = next.verify_backlog;
    join_lanes(&mut sum.lanes, &next.lanes, before, after);
    join(&mut sum.cpu, &next.cpu, |sum, next| join_cpu(sum, next, before, after));
    join(&mut sum.dirty, &next.dirty, |sum, next| *sum = *next);
    join(&mut sum.sending, &next.sending, |sum, next| sum.join(next, before, after));
    join(&mut sum.receiving, &next.receiving, |sum, next| sum.join(next, before, after));
    sum.silent = sum.silent.within(before).and(next.silent.within(after));
    join_programs(&mut sum.programs, &next.programs);
    sum.around.join(&next.around, (before, after));
    join(&mut sum.disk, &next.disk, |sum, next| {
        *sum = DiskInterval {
            written: sum.written.saturating_add(next.written),
            read: sum.read.saturating_add(next.read),
            busy: mean(sum.busy, before, next.busy, after),
        }
    });
}

/// Of two programs of one stage the one that ran more stands for the stage.
fn join_programs(sum: &mut Vec<Program>, next: &[Program]) {
    for program in next {
        match sum.iter_mut().find(|other| other.stage == program.stage) {
            Some(other) if other.thread.name == program.thread.name => {
                join_thread(&mut other.thread, &program.thread)
            }
            Some(other) if other.thread.cpu < program.thread.cpu => *other = program.clone(),
            Some(_) => {}
            None => sum.push(program.clone()),
        }
    }
}

/// A lane that lives in only one of the two intervals was idle in the other, so that fractions of the joint
/// span hold.
fn join_lanes(sum: &mut Vec<LaneInterval>, next: &[LaneInterval], before: Duration, after: Duration) {
    for lane in sum.iter_mut() {
        match next.iter().find(|other| other.lane == lane.lane) {
            Some(other) => join_lane(lane, other),
            None => add(&mut lane.idle, after),
        }
    }
    for lane in next {
        if !sum.iter().any(|other| other.lane == lane.lane) {
            let mut lane = lane.clone();
            add(&mut lane.idle, before);
            sum.push(lane);
        }
    }
}

fn join_lane(sum: &mut LaneInterval, next: &LaneInterval) {
    sum.received = sum.received.saturating_add(next.received);
    add(&mut sum.connecting, next.connecting);
    sum.resolving = sum.resolving.into_iter().chain(next.resolving).reduce(Duration::saturating_add);
    add(&mut sum.first_byte, next.first_byte);
    add(&mut sum.socket_wait, next.socket_wait);
    add(&mut sum.receive_cpu, next.receive_cpu);
    add(&mut sum.decrypt, next.decrypt);
    add(&mut sum.write, next.write);
    add(&mut sum.write_cpu, next.write_cpu);
    add(&mut sum.limited, next.limited);
    add(&mut sum.output_wait, next.output_wait);
    add(&mut sum.idle, next.idle);
    sum.requests = sum.requests.saturating_add(next.requests);
    sum.objects = sum.objects.saturating_add(next.objects);
    sum.connects = sum.connects.saturating_add(next.connects);
    join(&mut sum.thread, &next.thread, join_thread);
    join(&mut sum.sender, &next.sender, SenderInterval::join);
    join(&mut sum.waits, &next.waits, Waits::join);
    join(&mut sum.tcp, &next.tcp, |sum, next| {
        let earlier = std::mem::replace(sum, next.clone());
        *sum = TcpInterval {
            receiver_rtt: next.receiver_rtt.or(earlier.receiver_rtt),
            min_rtt: earlier.min_rtt.into_iter().chain(next.min_rtt).min(),
            receive_window: next.receive_window.or(earlier.receive_window),
            window_clamp: next.window_clamp.or(earlier.window_clamp),
            receive_queue: next.receive_queue.or(earlier.receive_queue),
            receive_buffer: next.receive_buffer.or(earlier.receive_buffer),
            out_of_order: earlier.out_of_order.saturating_add(next.out_of_order),
            segments: earlier.segments.saturating_add(next.segments),
            resent: earlier.resent.into_iter().chain(next.resent).reduce(u64::saturating_add),
            congestion_control: next.congestion_control.clone().or(earlier.congestion_control),
        };
    });
}

fn join_cpu(sum: &mut CpuInterval, next: &CpuInterval, before: Duration, after: Duration) {
    if sum.busy.len() == next.busy.len() {
        for (busy, other) in sum.busy.iter_mut().zip(&next.busy) {
            *busy = mean(*busy, before, *other, after);
        }
    } else {
        sum.busy.clone_from(&next.busy); // a processor came or went: only the newer reading names them rightly
    }
    sum.niced = mean(sum.niced, before, next.niced, after);
    sum.softirq = mean(sum.softirq, before, next.softirq, after);
    sum.steal = mean(sum.steal, before, next.steal, after);
    add(&mut sum.process, next.process);
}

/// A value beats a missing reading; two values are joined.
fn join<T: Clone>(sum: &mut Reading<T>, next: &Reading<T>, both: impl FnOnce(&mut T, &T)) {
    match (&mut *sum, next) {
        (Reading::Value(sum), Reading::Value(next)) => both(sum, next),
        (Reading::Missing(_), Reading::Value(_)) => *sum = next.clone(),
        (_, Reading::Missing(_)) => {}
    }
}

fn add(sum: &mut Duration, next: Duration) {
    *sum = sum.saturating_add(next);
}

fn mean(a: f64, a_span: Duration, b: f64, b_span: Duration) -> f64 {
    let (a_span, b_span) = (a_span.as_secs_f64(), b_span.as_secs_f64());
    if a_span + b_span > 0.0 { (a * a_span + b * b_span) / (a_span + b_span) } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(at: f64, lane: u32) -> Interval {
        let busy = LaneInterval {
            lane,
            received: 10,
            socket_wait: Duration::from_secs(1),
            ..LaneInterval::default()
        };
        Interval { at, span: Duration::from_secs(1), received: 10, lanes: vec![busy], ..Interval::default() }
    }

    #[test]
    fn a_lane_absent_from_a_window_was_idle_in_it() {
        let both = merged(&[interval(0.0, 0), interval(1.0, 1)]);
        assert_eq!((both.received, both.span), (20, Duration::from_secs(2)));
        assert_eq!(both.lanes.len(), 2);
        assert!(both.lanes.iter().all(|lane| lane.idle == Duration::from_secs(1)));
    }

    #[test]
    fn pushing_keeps_the_bytes_and_bounds_the_windows() {
        let mut evidence = Evidence::default();
        for at in 0..1000 {
            evidence.push(interval(f64::from(at), 0), 64);
        }
        assert!(evidence.intervals.len() <= 64);
        assert_eq!(evidence.intervals.iter().map(|interval| interval.received).sum::<u64>(), 10_000);
    }
}
