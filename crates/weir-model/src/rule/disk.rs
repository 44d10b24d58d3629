//! Does the disk take the bytes at its own ceiling?
//!
//! Convicts when one of these holds, and `dirty-throttle` does not:
//! 1. the lanes are held by blocked writes (see `Spent::held_by`) and the device is busy 80 % of the time or
//!    more;
//! 2. the same, but the device's use is not known or low (network and user-space file systems, a group's I/O
//!    limit): blocked half of the time or more, at 0.6 of the strength where half of the looks at the
//!    threads do not find them in a write;
//! 3. the lanes are held by blocked writes, and in half of the samples or more a thread of the program waited
//!    for a file to be on its disk (fsync);
//! 4. nothing is left to receive, as far as that was told, and the device writes, busy 80 % or more: the
//!    final sync.
//!
//! Acquits: writes that return at once, however busy the device is: the page cache takes them.
//!
//! Cannot tell where a thread that serves no connection was found in writes for a quarter of the time or
//! more, and more than a little of what came was written; or where it waits as long for a disk in a call that
//! may not be read. Nor where the device has room and the lanes' threads waited for a processor half of the
//! time or more: all of that may lie within one write.
//!
//! Can be wrong: on a stacked device another user's traffic keeps the disk busy while our writes wait for a
//! lock.

use super::spent::{held_beside, share_of_looks, spent, starved, working, writes_little};
use super::{Context, Judgement, cpu_core, dirty_throttle};
use crate::evidence::{DiskInterval, Interval};
use crate::words::{percent, rate};
use weir_units::Rate;

/// A device with a request in flight this share of the time has no room left on most disks; flash with many
/// queues may.
pub(crate) const BUSY: f64 = 0.8;

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    let spent = spent(interval);
    let blocked = spent.write_blocked;
    let disk = interval.disk.value();
    let name = context.facts.disk.as_deref().unwrap_or("the device");
    let use_of = |disk: &DiskInterval| {
        format!(
            "{name} busy {} and taking {}",
            percent(disk.busy),
            rate(Rate::of(disk.written, interval.span).0)
        )
    };
    if spent.lanes == 0 {
        let is_tail = interval.received == 0 && interval.unlisted.is_zero() && interval.left != Some(true);
        return match disk.filter(|disk| is_tail && disk.busy >= BUSY && disk.written > 0) {
            Some(disk) => Judgement::convict(0.8, format!("nothing left to receive, {}", use_of(disk))),
            None => Judgement::acquit("no connection was writing"),
        };
    }
    if !spent.held_by(blocked) {
        if let Some(doubt) = doubt(interval) {
            return doubt;
        }
        let device = disk.map(|disk| format!(", {}", use_of(disk))).unwrap_or_default();
        return Judgement::acquit(format!("blocked in write {} of the time{device}", percent(blocked)));
    }
    if dirty_throttle::judge(interval, context).convicts() {
        return Judgement::acquit("writes are paced by dirty pages before they reach the disk");
    }
    if let Some(evidence) = syncs(interval) {
        return Judgement::convict(0.6 + 0.35 * blocked, evidence);
    }
    if preemption_hides(interval) {
        return Judgement::unknown(
            "run-queue times: the connections' threads were in write calls, or waiting for a busy processor",
        );
    }
    let beside = held_beside(interval).map_or(0.0, |writer| writer.writing);
    let has_room = disk.is_none_or(|disk| disk.busy < BUSY);
    if has_room && blocked >= 0.5 && beside < 0.5 && starved(interval) {
        return Judgement::unknown(STARVED);
    }
    let sure = if found_writing(interval).max(beside) >= 0.5 { 1.0 } else { 0.6 };
    match disk {
        Some(disk) if disk.busy >= BUSY => Judgement::convict(
            blocked,
            format!("blocked in write {} of the time, {}", percent(blocked), use_of(disk)),
        ),
        Some(disk) if blocked >= 0.5 => Judgement::convict(
            sure * blocked,
            format!("blocked in write {} of the time, though {}", percent(blocked), use_of(disk)),
        ),
        None if blocked >= 0.5 => Judgement::convict(
            sure * blocked,
            format!("blocked in write {} of the time (the device's use could not be read)", percent(blocked)),
        ),
        Some(disk) => {
            Judgement::acquit(format!("blocked in write {} of the time, {}", percent(blocked), use_of(disk)))
        }
        None => {
            Judgement::unknown(format!("the device's use: {}", interval.disk.missing().unwrap_or("not read")))
        }
    }
}

const STARVED: &str =
    "whether the connections' threads slept in write calls, or waited for a processor there";

/// The words for a thread that waited for a file to be on its disk in half of the samples or more.
pub(crate) fn syncs(interval: &Interval) -> Option<String> {
    let around = &interval.around;
    let sync = around.syncs.as_ref()?;
    let share = around.share(sync.samples);
    (share >= 0.5).then(|| sync.in_words(share))
}

/// Share of samples that found the lanes' threads in a write or a sync, other than in the dirty throttle.
pub(crate) fn found_writing(interval: &Interval) -> f64 {
    share_of_looks(interval, |thread| thread.found.writing_disk).unwrap_or(0.0)
}

/// A thread that serves no connection may hold what the lanes hand on to it: it was found in writes in a
/// quarter of the samples or more, but too seldom to be what holds them; or as often in a wait that may not
/// be read.
pub(crate) fn doubt(interval: &Interval) -> Option<Judgement> {
    if interval.around.share(interval.around.writes_unseen) >= 0.25 {
        return Some(Judgement::unknown("what the process that writes waits for may not be read"));
    }
    let beside = interval.around.writes_beside();
    let writer = beside.filter(|writer| writer.writing >= 0.25 && !writes_little(interval))?;
    let who = writer.thread.name.as_deref().unwrap_or("a thread beside the connections' own");
    Some(Judgement::unknown(format!(
        "whether {who} holds what it is handed: it was found in writes to files in {} of samples",
        percent(writer.writing)
    )))
}

/// Whether "not running in a write call" may be a wait for a processor: the threads' run-queue times were not
/// read, and no processor was seen to be free.
fn preemption_hides(interval: &Interval) -> bool {
    let unread = working(interval).any(|lane| lane.thread.value().is_none());
    unread && cpu_core::free_cores(interval).is_none_or(|free| free < 0.5)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::evidence::{
        Clocks, Evidence, Facts, Found, LaneInterval, Reading, TcpInterval, ThreadInterval,
    };
    use crate::limit::Limit;
    use crate::rule::judge::judge_interval;

    const SPAN: Duration = Duration::from_millis(100);

    #[test]
    fn writes_that_an_io_limit_holds_are_the_disks_though_bytes_lie_unread() {
        let found = |writing_disk| Found { writing_disk, receiving: 5 - writing_disk, ..Found::default() };
        let interval = |writing: u32, busy: f64| {
            let thread = ThreadInterval { looks: 5, found: found(writing), ..ThreadInterval::default() };
            let tcp = TcpInterval {
                receive_queue: Some(400_000),
                receive_buffer: Some(600_000),
                ..TcpInterval::default()
            };
            let lane = LaneInterval {
                received: 800_000,
                write: SPAN * writing / 5,
                thread: Reading::Value(thread),
                tcp: Reading::Value(tcp),
                ..LaneInterval::default()
            };
            let disk = DiskInterval { busy, written: 800_000, ..DiskInterval::default() };
            let (lanes, disk) = (vec![lane], Reading::Value(disk));
            Interval { span: SPAN, received: 800_000, lanes, disk, ..Interval::default() }
        };
        let facts = Facts { clocks: Clocks::Sampled, ..Facts::default() };
        let evidence = Evidence { facts, ..Evidence::default() };
        let judged_on = |writing, busy| judge_interval(&interval(writing, busy), &Context::alone(&evidence));
        let judged = |writing| judged_on(writing, 0.1);
        assert_eq!(judged(5).limit, Limit::Disk, "{:?}", judged(5));
        assert!(judged(5).strength > 0.9, "{:?}", judged(5));
        assert_eq!(judged(3).limit, Limit::Disk, "{:?}", judged(3));
        assert_eq!(judged(0).limit, Limit::Reader, "{:?}", judged(0));
        let little = judged_on(2, 0.9);
        assert_eq!(little.limit, Limit::Reader, "a weak word of the disk does not acquit it: {little:?}");
    }

    #[test]
    fn a_thread_that_waits_for_a_processor_is_not_blocked_by_an_idle_disk() {
        let ms = Duration::from_millis;
        let evidence = Evidence::default();
        let judged = |thread: ThreadInterval, receive_cpu, busy| {
            let lane = LaneInterval {
                received: 800_000,
                write: ms(92),
                write_cpu: ms(2),
                receive_cpu,
                thread: Reading::Value(thread),
                ..LaneInterval::default()
            };
            let disk = Reading::Value(DiskInterval { busy, written: 800_000, ..DiskInterval::default() });
            let interval =
                Interval { span: SPAN, received: 800_000, lanes: vec![lane], disk, ..Interval::default() };
            judge(&interval, &Context::alone(&evidence))
        };
        let kept = |runqueue, throttled| ThreadInterval { runqueue, throttled, ..ThreadInterval::default() };
        let none = Duration::ZERO;
        assert!(judged(kept(none, none), ms(6), 0.1).convicts(), "it slept in its writes");
        let quota = judged(kept(none, ms(86)), none, 0.1);
        assert!(quota.acquits(), "all of it is the quota's: {quota:?}");
        // By the share of running time a quarter of the wait lies in writes; it may all lie in one.
        for thread in [kept(ms(80), none), kept(none, ms(80))] {
            let starved = judged(thread.clone(), ms(6), 0.1);
            assert!(matches!(starved, Judgement::Unknown { .. }), "{starved:?}");
            assert!(judged(thread, ms(6), 0.95).convicts(), "a full disk is one all the same");
        }
    }
}
