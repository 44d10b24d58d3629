//! Does the disk take the bytes at its own ceiling?
//!
//! Convicts when one of these holds, and `dirty-throttle` does not:
//! 1. the lanes are held by blocked writes (see `Spent::held_by`) and the device is busy 80 % of the time or
//!    more;
//! 2. the same, but the device's use is not known or low (network and user-space file systems, a group's I/O
//!    limit): blocked half of the time or more, at 0.6 of the strength;
//! 3. the lanes are held by blocked writes, and in half of the samples or more a thread of the program waited
//!    for a file to be on its disk (fsync);
//! 4. nothing is left to receive, as far as that was told, and the device writes, busy 80 % or more: the
//!    final sync.
//!
//! Acquits: writes that return at once, however busy the device is: the page cache takes them.
//!
//! Can be wrong: on a stacked device another user's traffic keeps the disk busy while our writes wait for a
//! lock.

use super::spent::{spent, working};
use super::{Context, Judgement, cpu_core, dirty_throttle};
use crate::evidence::{DiskInterval, Interval};
use crate::words::{percent, rate};
use weir_units::Rate;

/// A device with a request in flight this share of the time has no room left on most disks; flash with many
/// queues may.
const BUSY: f64 = 0.8;

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
    match disk {
        Some(disk) if disk.busy >= BUSY => Judgement::convict(
            blocked,
            format!("blocked in write {} of the time, {}", percent(blocked), use_of(disk)),
        ),
        Some(disk) if blocked >= 0.5 => Judgement::convict(
            0.6 * blocked,
            format!("blocked in write {} of the time, though {}", percent(blocked), use_of(disk)),
        ),
        None if blocked >= 0.5 => Judgement::convict(
            0.6 * blocked,
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

/// The words for a thread that waited for a file to be on its disk in half of the samples or more.
pub(crate) fn syncs(interval: &Interval) -> Option<String> {
    let around = &interval.around;
    let sync = around.syncs.as_ref()?;
    let share = around.share(sync.samples);
    (share >= 0.5).then(|| sync.in_words(share))
}

/// Whether "not running in a write call" may be a wait for a processor: the threads' run-queue times were not
/// read, and no processor was seen to be free.
fn preemption_hides(interval: &Interval) -> bool {
    let unread = working(interval).any(|lane| lane.thread.value().is_none());
    unread && cpu_core::free_cores(interval).is_none_or(|free| free < 0.5)
}
