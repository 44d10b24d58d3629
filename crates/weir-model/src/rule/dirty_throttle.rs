//! Are writes paced to the disk because too many pages are dirty?
//!
//! Convicts when the lanes are held by blocked writes (see `Spent::held_by`), or wait for data whose sender
//! such writes had stopped (see `stall`), and one of these holds, in the latter case in an interval around:
//! 1. the thread was found asleep in `balance_dirty_pages` in a quarter of the looks or more; or that of
//!    another process which writes what they hand on ([`held_beside`]);
//! 2. dirty pages are at 90 % or more of where pacing begins: the middle between the background threshold and
//!    the threshold (`domain_dirty_limits` and `dirty_freerun_ceiling` in Linux mm/page-writeback.c), or the
//!    same middle of the device's own limit. 90 % because the counters are read at another instant than the
//!    writes.
//!
//! Acquits: writes that hardly block, or dirty pages far from there; on (2), a wait for a file to be on its
//! disk (fsync), which is [`super::disk`]'s: what is synced waits for the device however few pages are dirty;
//! or a thread that half of the looks found in a write, and hardly any in the throttle: direct writes, or an
//! I/O limit.
//!
//! Cannot tell where a thread that serves no connection may hold the lanes: see [`disk::doubt`].
//!
//! Can be wrong: another process on another disk may own the dirty pages of (2), while our writes block for a
//! lock; the thread beside the connections of (1) may write something else, a log.

use super::spent::{Spent, held_beside, share_of_looks, spent};
use super::{Context, Judgement, disk, stall};
use crate::evidence::{DirtyInterval, Interval};
use crate::words::{bytes, percent};

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    let spent = spent(interval);
    let asleep = asleep_in_throttle(interval);
    let share = asleep.unwrap_or(0.0).max(spent.write_blocked);
    if !spent.held_by(share) {
        return aftermath(interval, context)
            .or_else(|| disk::doubt(interval))
            .unwrap_or_else(|| Judgement::acquit(acquittal(interval, spent)));
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
        let beside = held_beside(interval).filter(|writer| writer.throttled >= asleep);
        let evidence = format!(
            "{} slept in balance_dirty_pages in {} of samples, blocked in write {} of the time{}",
            beside.and_then(|writer| writer.thread.name.as_deref()).unwrap_or("the writer"),
            percent(asleep),
            percent(spent.write_blocked),
            dirty.unwrap_or_default()
        );
        return Judgement::convict(share, evidence);
    }
    if let Some(why) = disk::syncs(interval).or_else(|| passes_throttle(interval)) {
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

/// Share of samples that found a lane's thread, or one that it hands on to, asleep in the throttle; `None`
/// without a look.
fn asleep_in_throttle(interval: &Interval) -> Option<f64> {
    let own = share_of_looks(interval, |thread| thread.in_dirty_throttle);
    let beside = held_beside(interval).map(|writer| writer.throttled);
    own.into_iter().chain(beside).max_by(f64::total_cmp)
}

/// The words for threads that half of the looks found in a write elsewhere than in the throttle.
fn passes_throttle(interval: &Interval) -> Option<String> {
    let beside = held_beside(interval).map_or(0.0, |writer| writer.writing - writer.throttled);
    let share = disk::found_writing(interval).max(beside);
    (share >= 0.5).then(|| {
        format!("writes waited elsewhere than in balance_dirty_pages in {} of samples", percent(share))
    })
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::around::Around;
    use crate::evidence::{Evidence, Found, LaneInterval, Reading, ThreadInterval};

    const SPAN: Duration = Duration::from_millis(100);

    fn judged(interval: &Interval) -> Judgement {
        judge(interval, &Context::alone(&Evidence::default()))
    }

    /// A program whose connection's thread polls, while another process was found asleep in the throttle and
    /// in other writes so often of five times.
    fn handed_on(in_dirty_throttle: u32, writing_disk: u32) -> Interval {
        let found = Found { polling: 5, ..Found::default() };
        let polls = ThreadInterval { looks: 5, found, ..ThreadInterval::default() };
        let lane = LaneInterval {
            received: 500_000,
            socket_wait: SPAN,
            thread: Reading::Value(polls),
            ..LaneInterval::default()
        };
        let writer = ThreadInterval {
            name: Some("rsync (pid 7)".to_owned()),
            looks: 5,
            in_dirty_throttle,
            found: Found { writing_disk, ..Found::default() },
            ..ThreadInterval::default()
        };
        let around = Around { samples: 5, busy: 5, writer: Some(writer), ..Around::default() };
        Interval { span: SPAN, received: 500_000, lanes: vec![lane], around, ..Interval::default() }
    }

    #[test]
    fn a_process_that_writes_what_comes_is_paced_for_all() {
        let judgement = judged(&handed_on(5, 0));
        let Judgement::Convict { strength, evidence } = judgement else { panic!("{judgement:?}") };
        assert!(strength > 0.9 && evidence.starts_with("rsync (pid 7) slept in"), "{strength} {evidence}");
        assert!(!judged(&handed_on(3, 0)).acquits(), "it may be what holds");
        let mut over = handed_on(5, 0);
        over.lanes.clear();
        assert!(!judged(&over).convicts(), "no connection waits for it any more");
        let mut unseen = handed_on(0, 0);
        unseen.around.writer = None;
        assert!(judged(&unseen).acquits(), "nobody writes");
        unseen.around.writes_unseen = 1;
        assert!(judged(&unseen).acquits(), "one sample of five");
        unseen.around.writes_unseen = 5;
        assert!(!judged(&unseen).acquits(), "what another user's process waits for may not be read");
    }

    #[test]
    fn writes_that_are_not_of_what_came_or_not_waited_for_hold_nothing() {
        let mut log = handed_on(5, 0);
        log.written = 50_000;
        assert!(judged(&log).acquits(), "a tenth of what came was written");
        let mut full = handed_on(5, 0);
        if let Reading::Value(thread) = &mut full.lanes[0].thread {
            thread.cpu = SPAN;
        }
        assert!(!judged(&full).convicts(), "the lane's thread hands on all that it can");
    }

    #[test]
    fn a_writer_that_is_found_past_the_throttle_is_not_held_by_it() {
        let mut interval = handed_on(0, 5);
        interval.dirty = Reading::Value(DirtyInterval {
            dirty: 50_000_000,
            threshold: 8_000_000_000,
            background: 4_000_000_000,
            device_limit: Some(1_000_000),
        });
        assert!(judged(&interval).acquits(), "the dirty pages are another disk's");
        // Whose place was not read may be in it.
        interval.around.writer = None;
        interval.lanes[0].thread = Reading::default();
        (interval.lanes[0].socket_wait, interval.lanes[0].write) = (Duration::ZERO, SPAN);
        assert!(judged(&interval).convicts());
    }
}
