//! Are writes paced to the disk because too many pages are dirty?
//!
//! Convicts when the lanes are held by blocked writes (see `Spent::held_by`), or wait for data whose sender
//! such writes had stopped (see `stall`), and one of these holds, in the latter case in an interval around:
//! 1. the thread was found asleep in `balance_dirty_pages` in a quarter of the looks or more;
//! 2. dirty pages are at 90 % or more of where pacing begins: the middle between the background threshold and
//!    the threshold (`domain_dirty_limits` and `dirty_freerun_ceiling` in Linux mm/page-writeback.c), or the
//!    same middle of the device's own limit. 90 % because the counters are read at another instant than the
//!    writes.
//!
//! Acquits: writes that hardly block, or dirty pages far from there; on (2), a wait for a file to be on its
//! disk (fsync), which is [`super::disk`]'s: what is synced waits for the device however few pages are dirty.
//!
//! Can be wrong: another process on another disk may own the dirty pages of (2), while our writes block for a
//! lock.

use super::spent::{Spent, spent};
use super::{Context, Judgement, disk, stall};
use crate::evidence::{DirtyInterval, Interval};
use crate::words::{bytes, percent};

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    let spent = spent(interval);
    let asleep = asleep_in_throttle(interval);
    let share = asleep.unwrap_or(0.0).max(spent.write_blocked);
    if !spent.held_by(share) {
        return aftermath(interval, context).unwrap_or_else(|| Judgement::acquit(acquittal(interval, spent)));
    }
    let level = interval.dirty.value().map(|dirty| (dirty, starts_at(dirty)));
    let dirty = level.map(|(dirty, start)| match dirty.device_limit {
        // How much of the dirty memory is this device's is not known.
        Some(limit) => {
            let (limit, start) = (bytes(limit as f64), bytes(start));
            format!(", {limit} may wait for this device, pacing starts near {start}")
        }
        None => format!(", {} dirty, pacing starts near {}", bytes(dirty.dirty as f64), bytes(start)),
    });
    if let Some(asleep) = asleep.filter(|asleep| *asleep >= 0.25) {
        let evidence = format!(
            "the writer slept in balance_dirty_pages in {} of samples, blocked in write {} of the time{}",
            percent(asleep),
            percent(spent.write_blocked),
            dirty.unwrap_or_default()
        );
        return Judgement::convict(share, evidence);
    }
    if let Some(why) = disk::syncs(interval) {
        return Judgement::acquit(why);
    }
    match level {
        Some((dirty_now, start)) if start > 0.0 && dirty_now.dirty as f64 >= 0.9 * start => {
            Judgement::convict(
                // The pages may be another process's: less sure than the wait channel itself.
                0.9 * spent.write_blocked,
                format!(
                    "blocked in write {} of the time{}",
                    percent(spent.write_blocked),
                    dirty.unwrap_or_default()
                ),
            )
        }
        Some((dirty_now, start)) => Judgement::acquit(format!(
            "{} dirty, pacing starts near {}",
            bytes(dirty_now.dirty as f64),
            bytes(start)
        )),
        None => Judgement::unknown(format!(
            "dirty pages and the writer's wait channel: {}",
            interval.dirty.missing().unwrap_or("not read")
        )),
    }
}

/// The lanes wait for data, and writes that slept in the throttle take half of the time around this interval.
fn aftermath(interval: &Interval, context: &Context<'_>) -> Option<Judgement> {
    let slept = |interval: &Interval| asleep_in_throttle(interval).unwrap_or(0.0);
    let share = stall::takes(interval, context, slept)?;
    stall::stopped_sender(interval, context).then(|| {
        let evidence = format!(
            "the writer slept in balance_dirty_pages in {} of samples around, and the data waited for had been stopped by it",
            percent(share)
        );
        Judgement::convict(share, evidence)
    })
}

/// Dirty bytes from which writers are paced.
fn starts_at(dirty: &DirtyInterval) -> f64 {
    let (background, threshold) = (dirty.background as f64, dirty.threshold as f64);
    let global = (background + threshold) / 2.0;
    match dirty.device_limit {
        // A device's background share is in the proportion of the global ones.
        Some(limit) if threshold > 0.0 => {
            (limit as f64 * (1.0 + (background / threshold).min(1.0)) / 2.0).min(global)
        }
        Some(limit) => limit as f64,
        None => global,
    }
}

/// Share of samples that found a lane's thread asleep in the throttle; `None` without a look.
fn asleep_in_throttle(interval: &Interval) -> Option<f64> {
    let threads = interval.lanes.iter().filter_map(|lane| lane.thread.value());
    let (asleep, looks) = threads.fold((0u64, 0u64), |(asleep, looks), thread| {
        (asleep + u64::from(thread.in_dirty_throttle), looks + u64::from(thread.looks))
    });
    (looks > 0).then(|| (asleep as f64 / looks as f64).min(1.0))
}

fn acquittal(interval: &Interval, spent: Spent) -> String {
    let blocked = format!("blocked in write {} of the time", percent(spent.write_blocked));
    match interval.dirty.value() {
        Some(dirty) => format!(
            "{blocked}, {} dirty, pacing starts near {}",
            bytes(dirty.dirty as f64),
            bytes(starts_at(dirty))
        ),
        None => blocked,
    }
}
