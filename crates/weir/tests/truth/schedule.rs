//! In which order, and how many at once? Slow links cost little and run several at a time; fast ones, and
//! those whose cause is a full core, run alone, so that no run becomes another's bottleneck.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::scope;

use crate::archive::Archive;
use crate::case::{self, Programs, Run};
use crate::cell::Cell;
use crate::fetch;
use crate::lab::Lab;
use crate::plan::Plan;

/// So many slow links at a time. A link of 40 Mbit/s costs this machine's emulator about 4 % of a core, two
/// programs and their watcher as much again.
const TOGETHER: usize = 8;

/// What became of a set of cells.
#[derive(Debug, Default)]
pub(crate) struct ScheduleOutcome {
    /// Cells in which the cause cannot bind, and why.
    pub(crate) skipped: Vec<(Cell, String)>,
    /// Runs that failed, and why: a defect of the lab.
    pub(crate) failed: Vec<(Cell, Programs, String)>,
}

/// Runs the cells and keeps each run in the archive. One that `goes_on` leaves out what these programs have
/// recorded.
pub(crate) fn run(lab: &Lab, archive: &Archive, cells: &[Cell], goes_on: bool) -> ScheduleOutcome {
    let mut outcome = ScheduleOutcome::default();
    let (mut apart, mut together) = (Vec::new(), Vec::new());
    for cell in cells {
        match Plan::of(*cell) {
            Ok(plan) if plan.alone() => apart.push(plan),
            Ok(plan) => together.push(plan),
            Err(why) => outcome.skipped.push((*cell, why)),
        }
    }
    // The longest first, so that no late one keeps the others waiting.
    together.sort_by_key(|plan| std::cmp::Reverse(plan.span));
    let failed = Mutex::new(Vec::new());
    for (plans, threads) in [(&together, TOGETHER), (&apart, 1)] {
        let next = AtomicUsize::new(0);
        scope(|scope| {
            for _ in 0..threads.min(plans.len()) {
                scope.spawn(|| {
                    while let Some(plan) = plans.get(next.fetch_add(1, Relaxed)) {
                        both(lab, archive, plan, goes_on, &failed);
                    }
                });
            }
        });
    }
    outcome.failed = failed.into_inner().unwrap_or_default();
    outcome
}

fn both(
    lab: &Lab,
    archive: &Archive,
    plan: &Plan,
    goes_on: bool,
    failed: &Mutex<Vec<(Cell, Programs, String)>>,
) {
    let kept = |programs: Programs, run: anyhow::Result<Run>| {
        if let Err(error) = run.and_then(|run| archive.keep(&run))
            && let Ok(mut failed) = failed.lock()
        {
            failed.push((plan.cell, programs, format!("{error:#}")));
        }
    };
    let wanted = |programs| !(goes_on && archive.is_current(plan.cell, programs));
    if wanted(Programs::Plain) {
        kept(Programs::Plain, case::plain(lab, plan));
    }
    if fetch::skips(plan).is_none() && wanted(Programs::Get) {
        kept(Programs::Get, case::get(lab, plan));
    }
}
