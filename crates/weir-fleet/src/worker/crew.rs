//! Movers that have no engine: threads that each move an object at a time, and a watch that counts.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use weir_get::job::{Observer, Progress};
use weir_model::fleet::{NO_WORK, NOT_JUDGED};
use weir_units::Rate;

use super::MoverRun;
use super::desk::{FleetTask, NextTask, TaskEnd};

/// Between two looks of the watch.
const INTERVAL: Duration = Duration::from_millis(100);

/// How long a thread waits for an object before it looks whether it is to end.
const POLL: Duration = Duration::from_millis(100);

/// Moves an object; `None`: the run was ended meanwhile.
pub(super) type OneTask<'a> = dyn FnMut(&FleetTask) -> Option<TaskEnd> + 'a;

/// Lets `hands` threads do what the desk gives: each makes a tool with `make` and uses it for one object
/// after another. `moved` are the bytes so far.
pub(super) fn work<'a>(
    run: &MoverRun<'_>,
    hands: usize,
    moved: &AtomicU64,
    make: &(dyn Fn() -> Box<OneTask<'a>> + Sync),
    observer: &mut dyn Observer,
) {
    let (alive, ended) = channel::<()>();
    std::thread::scope(|scope| {
        for _ in 0..hands {
            let alive = alive.clone();
            let body = move || {
                let _alive = alive;
                // A fault of one hand is not to leave its object in flight for ever: the others go on, and
                // the lease of the batch ends.
                let _ = catch_unwind(AssertUnwindSafe(|| serve(run, &mut *make())));
            };
            let thread = std::thread::Builder::new().name("mover".to_owned()).stack_size(512 << 10);
            if let Err(error) = thread.spawn_scoped(scope, body) {
                tracing::warn!("cannot start a thread: {error}");
                break;
            }
        }
        drop(alive);
        watch(run, moved, &ended, observer);
    });
}

fn serve(run: &MoverRun<'_>, one: &mut OneTask<'_>) {
    while !run.stop.load(Relaxed) {
        let task = match run.desk.next(POLL) {
            NextTask::Task(task) => task,
            NextTask::NotYet => continue,
            NextTask::End => return,
        };
        match one(&task) {
            Some(end) => run.desk.end(&task, end, None),
            None => {
                run.desk.give_back(&task);
            }
        }
    }
}

/// Until all hands have ended.
fn watch(
    run: &MoverRun<'_>,
    moved: &AtomicU64,
    ended: &std::sync::mpsc::Receiver<()>,
    observer: &mut dyn Observer,
) {
    let (start, mut before, mut at) = (Instant::now(), moved.load(Relaxed), Instant::now());
    while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let (now, span, bytes) = (Instant::now(), at.elapsed(), moved.load(Relaxed));
        let fresh = bytes.saturating_sub(before);
        (before, at) = (bytes, now);
        run.shares.add(if run.desk.is_idle() { NO_WORK } else { NOT_JUDGED }, span, fresh);
        if fresh > 0 {
            run.desk.stir();
        }
        let totals = run.desk.totals();
        let files = usize::try_from(totals.moved.0 + totals.same.0).unwrap_or(usize::MAX);
        observer.progress(&Progress {
            elapsed: start.elapsed(),
            bytes: totals.moved.1 + totals.same.1,
            total: None,
            rate: Rate::of(fresh, span),
            lanes: 0,
            limit: None,
            files: (files, files),
            at_least: true,
        });
    }
}
