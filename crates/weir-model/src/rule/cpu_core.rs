//! Does a lane's thread fill a core?
//!
//! A lane is full when, of the time it is at work, one of these holds:
//! 1. its thread runs 90 % or more (10 % are left to the clocks' grain and to hand-overs);
//! 2. its thread runs, waits for a processor or is held back by its group's CPU quota 90 % or more, or a
//!    foreign thread was found running or ready in 90 % of ten looks or more: a core shared with others,
//!    which is said;
//! 3. it runs half of the time or more, and running, waiting for a processor and blocked writes fill 90 %,
//!    running being the larger part: it never waits for data, and the processor is its largest stage.
//!
//! Convicts when full lanes make up half of the lanes' time or more. Of a foreign program, whose threads are
//! not known to be at work for the lane, only where bytes lay unread, the thread was found reading a socket,
//! or the program owed an answer: else whoever reads keeps up with what comes. And where it ran less than
//! half of the time, only where it was found ready to run in half of the looks, or what came has stopped its
//! sender: a group's quota may have held back others of the group.
//!
//! Acquits: threads whose copies wait for memory ([`super::memory`]), that run less, or, without their own
//! clocks, that mostly wait for data.
//!
//! Can be wrong: the full thread may be spinning on memory that the sender, on the same machine, keeps busy.

use std::cell::LazyCell;
use std::time::Duration;

use super::spent::{active, spent, working};
use super::stall::stopped_sender;
use super::{Context, Judgement, waits};
use crate::evidence::{Clocks, Interval, LaneInterval, ThreadInterval};
use crate::path::SEGMENT;
use crate::words::percent;

/// The share of samples with an answer owed from which [`super::application`] would name that.
const OWES: f64 = 0.3;

/// Seconds over which looks are counted.
const REACH: f64 = 0.2;

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    if let Some(judged) = super::stage::processors(interval, context) {
        return judged;
    }
    if let Judgement::Convict { evidence, .. } = super::memory::judge(interval, context) {
        return Judgement::acquit(format!("the core waits for memory: {evidence}"));
    }
    let spent = spent(interval);
    // What another thread waits for is no part of this one's time.
    let blocked = spent.own_write_blocked;
    let lanes: Vec<Load> = working(interval).map(|lane| Load::of(lane, interval, context)).collect();
    let all: f64 = lanes.iter().map(|lane| lane.active).sum();
    let Some(busiest) = lanes.iter().rev().max_by(|a, b| a.cpu.total_cmp(&b.cpu)) else {
        return Judgement::acquit("no connection was active");
    };
    let sampled = context.facts.clocks == Clocks::Sampled;
    // An answer that is owed waits for its thread as well.
    let owes = interval.around.share(interval.around.owing) >= OWES;
    let stopped = LazyCell::new(|| stopped_sender(interval, context));
    let kept = |lane: &Load<'_>| {
        let itself = lane.lane.thread.value().is_none_or(|thread| was_ready(thread, lane.cpu));
        itself || *stopped
    };
    let holds = |lane: &&Load<'_>| lane.is_full(blocked) && (!sampled || owes || (lane.lags() && kept(lane)));
    let full: f64 = lanes.iter().filter(holds).map(|lane| lane.active).sum();
    if full < 0.5 * all || full <= 0.0 {
        // Stage clocks leave out what lies between the stages, so they can convict but not acquit.
        if lanes.iter().any(|lane| lane.lane.thread.value().is_none()) && !spent.waits_for_data() {
            return Judgement::unknown("the connections' threads: their processor time was not read");
        }
        let kept_up = if busiest.is_full(blocked) { ", but nothing lay unread" } else { "" };
        let ran = percent(busiest.cpu);
        return Judgement::acquit(format!("{} ran {ran} of the time{kept_up}", busiest.name()));
    }
    let strength = lanes
        .iter()
        .filter(holds)
        .map(|lane| (lane.cpu + lane.runqueue).max(lane.ready).min(1.0) * lane.active / all)
        .sum();
    // The busiest may be idle in run queues; the evidence names the fullest of the full.
    let named = lanes
        .iter()
        .rev() // of equals the first
        .filter(holds)
        .max_by(|a, b| (a.cpu + a.runqueue).total_cmp(&(b.cpu + b.runqueue)))
        .unwrap_or(busiest);
    Judgement::convict(strength, named.describe(interval))
}

/// The largest share of a core that one lane's thread took.
pub(crate) fn busiest_thread(interval: &Interval) -> Option<f64> {
    let shares = working(interval).map(|lane| thread_shares(lane, active(lane, interval)).0);
    shares.max_by(f64::total_cmp).filter(|cpu| *cpu > 0.0)
}

/// Whole processors without work: the sum of what each had left.
pub(crate) fn free_cores(interval: &Interval) -> Option<f64> {
    let cpu = interval.cpu.value()?;
    let free = cpu.busy.iter().filter(|busy| busy.is_finite()).map(|busy| 1.0 - busy.clamp(0.0, 1.0)).sum();
    (!cpu.busy.is_empty()).then_some(free)
}

/// One thread's use of a processor over `seconds`, as shares of them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ThreadLoad {
    /// Running.
    pub(crate) cpu: f64,
    /// Ready to run but waiting for a processor.
    pub(crate) runqueue: f64,
    /// Held back by its group's CPU quota.
    pub(crate) throttled: f64,
    /// Found running or ready to run, of ten looks or more; else 0. A thread under quota stays ready.
    pub(crate) ready: f64,
}

/// The load of a thread whose times were read.
pub(crate) fn thread_load(thread: &ThreadInterval, seconds: f64) -> ThreadLoad {
    let share = |time: std::time::Duration| {
        if seconds > 0.0 { (time.as_secs_f64() / seconds).min(1.0) } else { 0.0 }
    };
    ThreadLoad {
        cpu: share(thread.cpu),
        runqueue: share(thread.runqueue),
        throttled: share(thread.throttled),
        ready: ready(thread.found.running, thread.looks),
    }
}

fn ready(running: u32, looks: u32) -> f64 {
    if looks >= 10 { (f64::from(running) / f64::from(looks)).min(1.0) } else { 0.0 }
}

/// What a thread did not run of its time it was kept from, as far as looks tell: it ran half of it or more,
/// or was found ready in half of them. Its group's quota may have held back others.
pub(crate) fn was_ready(thread: &ThreadInterval, cpu: f64) -> bool {
    cpu >= 0.5 || thread.found.running >= thread.looks.div_ceil(2)
}

/// `; the hypervisor took 20 %`; empty where it took next to nothing or that is not known.
pub(crate) fn steal_in_words(interval: &Interval) -> String {
    match interval.cpu.value() {
        Some(cpu) if cpu.steal >= 0.05 => format!("; the hypervisor took {}", percent(cpu.steal)),
        _ => String::new(),
    }
}

impl ThreadLoad {
    /// It ran, or would have, nine tenths of the time.
    pub(crate) fn is_full(self) -> bool {
        self.cpu + self.runqueue + self.throttled >= 0.9 || self.ready >= 0.9
    }

    /// `, waited 40 % for a processor`; empty when it did not.
    pub(crate) fn waits_in_words(self) -> String {
        if self.throttled >= 0.05 {
            format!(", was held back {} by its group's CPU quota", percent(self.throttled))
        } else if self.runqueue >= 0.05 {
            // Others used it, or a quota that was not read held it back.
            format!(", waited {} for a processor", percent(self.runqueue))
        } else if self.ready >= 0.9 && self.cpu < 0.9 {
            format!(
                ", was ready to run in {} of samples: others or a CPU quota hold it back",
                percent(self.ready)
            )
        } else {
            String::new()
        }
    }
}

/// One lane's use of a processor, as fractions of its time at work.
struct Load<'a> {
    lane: &'a LaneInterval,
    active: f64,
    cpu: f64,
    /// Ready to run but waiting for a processor, or held back by a quota.
    runqueue: f64,
    /// As [`ThreadLoad::ready`].
    ready: f64,
}

/// The shares of `active` seconds that a lane's thread ran, and was kept from it.
fn thread_shares(lane: &LaneInterval, active: f64) -> (f64, f64) {
    // Without the thread's own clock the stage clocks are a lower bound of it.
    let stages = lane.receive_cpu.as_secs_f64() + lane.decrypt.as_secs_f64() + lane.write_cpu.as_secs_f64();
    let (cpu, runqueue) = match lane.thread.value() {
        Some(thread) => (thread.cpu, thread.runqueue.saturating_add(thread.throttled)),
        None => (Duration::try_from_secs_f64(stages).unwrap_or_default(), Duration::ZERO),
    };
    let share = |time: Duration| if active > 0.0 { (time.as_secs_f64() / active).min(1.0) } else { 0.0 };
    (share(cpu), share(runqueue))
}

impl<'a> Load<'a> {
    fn of(lane: &'a LaneInterval, interval: &Interval, context: &Context<'_>) -> Load<'a> {
        let active = active(lane, interval);
        let (cpu, runqueue) = thread_shares(lane, active);
        // An interval has five looks; over as long as a sender's are taken ([`super::sender`]) there are ten.
        // Of weir's own threads the clocks say more.
        let sampled = context.facts.clocks == Clocks::Sampled;
        let past = context.recent(REACH).filter(|_| sampled).filter_map(|past| waits::of(lane.lane, past));
        let own = std::iter::once(lane).filter(|_| sampled);
        let threads = own.chain(past).filter_map(|lane| lane.thread.value());
        let (running, looks) = threads.fold((0_u32, 0_u32), |(running, looks), thread| {
            (running.saturating_add(thread.found.running), looks.saturating_add(thread.looks))
        });
        Load { lane, active, cpu, runqueue, ready: ready(running, looks) }
    }

    fn is_full(&self, blocked: f64) -> bool {
        self.cpu + self.runqueue >= 0.9
            || self.ready >= 0.9
            || (self.cpu >= 0.5 && self.cpu > blocked && self.cpu + self.runqueue + blocked >= 0.9)
    }

    /// What came waits for it: a segment or more lay unread in the mean, or it was found waiting for more, so
    /// that it is the one that reads. Where this end does not receive, that says nothing.
    fn lags(&self) -> bool {
        let Some(tcp) = self.lane.tcp.value() else { return true };
        let reads = self.lane.thread.value().is_some_and(|thread| thread.found.receiving > 0);
        reads || tcp.receive_queue.is_none_or(|unread| unread >= SEGMENT)
    }

    fn name(&self) -> String {
        format!("lane {}'s thread", self.lane.lane)
    }

    fn describe(&self, interval: &Interval) -> String {
        let lane = self.lane;
        let part = |name: &str, seconds: f64| {
            let share = if self.active > 0.0 { seconds / self.active } else { 0.0 };
            (share >= 0.005).then(|| format!("{} {name}", percent(share)))
        };
        let parts: Vec<String> = [
            part("receive", lane.receive_cpu.as_secs_f64()),
            part("decrypt", lane.decrypt.as_secs_f64()),
            part("write", lane.write_cpu.as_secs_f64()),
        ]
        .into_iter()
        .flatten()
        .collect();
        let split = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
        let load = |thread| ThreadLoad { ready: self.ready, ..thread_load(thread, self.active) };
        let waits = lane.thread.value().map(|thread| load(thread).waits_in_words());
        let waited = waits
            .filter(|waits| !waits.is_empty())
            .map_or_else(String::new, |waits| format!("; it {}", waits.trim_start_matches(", ")));
        let steal = steal_in_words(interval);
        format!("{} used {} of one core{split}{waited}{steal}", self.name(), percent(self.cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::around::Around;
    use crate::evidence::{Evidence, Facts, Found, Reading, TcpInterval};

    /// A connection of a foreign program whose thread fills a core.
    fn judged(unread: u64, receiving: u32) -> Judgement {
        let span = Duration::from_millis(100);
        let found = Found { running: 5 - receiving, receiving, ..Found::default() };
        let thread = ThreadInterval { cpu: span, looks: 5, found, ..ThreadInterval::default() };
        let tcp = TcpInterval { receive_queue: Some(unread), ..TcpInterval::default() };
        let lane = LaneInterval {
            received: 1_000_000,
            thread: Reading::Value(thread),
            tcp: Reading::Value(tcp),
            ..LaneInterval::default()
        };
        let interval = Interval { span, received: 1_000_000, lanes: vec![lane], ..Interval::default() };
        let facts = Facts { clocks: Clocks::Sampled, ..Facts::default() };
        judge(&interval, &Context::alone(&Evidence { facts, ..Evidence::default() }))
    }

    #[test]
    fn a_full_thread_holds_what_it_is_seen_to_read() {
        assert!(judged(100_000, 0).convicts(), "what came waits for it");
        assert!(judged(0, 1).convicts(), "it was found reading");
        let Judgement::Acquit { evidence } = judged(0, 0) else { panic!("whoever reads keeps up") };
        assert!(evidence.ends_with("but nothing lay unread"), "{evidence}");
    }

    #[test]
    fn writes_of_another_thread_fill_no_core() {
        let span = Duration::from_millis(100);
        let thread = ThreadInterval { cpu: span.mul_f64(0.85), ..ThreadInterval::default() };
        let lane =
            LaneInterval { received: 1_000_000, thread: Reading::Value(thread), ..LaneInterval::default() };
        let found = Found { writing_disk: 4, ..Found::default() };
        let writer = Some(ThreadInterval { looks: 5, found, ..ThreadInterval::default() });
        let around = Around { samples: 5, busy: 5, writer, ..Around::default() };
        let interval =
            Interval { span, received: 1_000_000, lanes: vec![lane], around, ..Interval::default() };
        let judged = judge(&interval, &Context::alone(&Evidence::default()));
        assert!(!judged.convicts(), "{judged:?}");
    }

    /// Intervals of a foreign program whose thread hardly ran, five looks each.
    fn hardly_ran(throttled: f64, running: u32, unread: u64) -> Evidence {
        let span = Duration::from_millis(100);
        let found = Found { running, receiving: 5 - running, ..Found::default() };
        let (cpu, throttled) = (span.mul_f64(0.1), span.mul_f64(throttled));
        let thread = ThreadInterval { cpu, throttled, looks: 5, found, ..ThreadInterval::default() };
        let tcp = TcpInterval {
            receive_queue: Some(unread),
            receive_buffer: Some(100_000),
            ..TcpInterval::default()
        };
        let lane = LaneInterval {
            received: 10_000,
            thread: Reading::Value(thread),
            tcp: Reading::Value(tcp),
            ..LaneInterval::default()
        };
        let interval = Interval { span, received: 10_000, lanes: vec![lane], ..Interval::default() };
        let facts = Facts { clocks: Clocks::Sampled, ..Facts::default() };
        Evidence { intervals: vec![interval; 4], facts, ..Evidence::default() }
    }

    #[test]
    fn a_groups_quota_is_a_threads_only_where_that_was_ready_or_what_came_piled_up() {
        let judged =
            |evidence: &Evidence| judge(&evidence.intervals[3], &Context::at(evidence, 3)).convicts();
        assert!(
            !judged(&hardly_ran(0.9, 0, 0)),
            "it waited for data, and others of its group were held back"
        );
        assert!(judged(&hardly_ran(0.9, 4, 0)));
        assert!(judged(&hardly_ran(0.9, 0, 50_000)));
    }

    #[test]
    fn looks_of_two_intervals_tell_that_a_thread_is_ready() {
        let evidence = hardly_ran(0.0, 5, 50_000);
        assert!(judge(&evidence.intervals[3], &Context::at(&evidence, 3)).convicts());
        assert!(!judge(&evidence.intervals[0], &Context::at(&evidence, 0)).convicts(), "five looks are few");
    }
}
