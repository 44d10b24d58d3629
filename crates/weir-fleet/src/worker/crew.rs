//! Movers that have no engine: threads that each move an object at a time, and a watch over them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use weir_get::job::{Observer, Progress};
use weir_model::fleet::NO_WORK;
use weir_observe::stage_clock::Stage;
use weir_observe::watch::SAMPLE_INTERVAL;
use weir_units::Rate;

use super::MoverRun;
use super::desk::{FleetTask, NextTask, TaskEnd};
use super::hand::{Hand, HandsWatch};

/// How long a thread waits for an object before it looks whether it is to end.
const POLL: Duration = Duration::from_millis(100);

/// Moves an object; `None`: the run was ended meanwhile.
pub(super) type OneTask<'a> = dyn FnMut(&FleetTask) -> Option<TaskEnd> + 'a;

/// Who works, and with what.
pub(super) struct Crew<'a, 'b> {
    /// A thread each.
    pub(super) hands: &'a [Hand],
    /// Makes the tool of the hand of this number, which it uses for one object after another.
    pub(super) make: &'a (dyn Fn(usize) -> Box<OneTask<'b>> + Sync),
    /// The bytes so far.
    pub(super) moved: &'a AtomicU64,
    /// The folder that is written to, where one is.
    pub(super) target: Option<&'a Path>,
}

/// Lets a crew do what the desk gives.
pub(super) fn work(run: &MoverRun<'_>, crew: &Crew<'_, '_>, observer: &mut dyn Observer) {
    let (alive, ended) = channel::<()>();
    std::thread::scope(|scope| {
        for (number, hand) in crew.hands.iter().enumerate() {
            let alive = alive.clone();
            let body = move || {
                let _alive = alive;
                // A fault of one hand is not to leave its object in flight for ever: the others go on, and
                // the lease of the batch ends.
                let _ = catch_unwind(AssertUnwindSafe(|| {
                    hand.begin();
                    serve(run, hand, &mut *(crew.make)(number));
                }));
                hand.lets_go();
                hand.set_socket(None);
            };
            let thread = std::thread::Builder::new().name("mover".to_owned()).stack_size(512 << 10);
            if let Err(error) = thread.spawn_scoped(scope, body) {
                tracing::warn!("cannot start a thread: {error}");
                break;
            }
        }
        drop(alive);
        watch(run, crew, &ended, observer);
    });
}

fn serve(run: &MoverRun<'_>, hand: &Hand, one: &mut OneTask<'_>) {
    while !run.stop.load(Relaxed) {
        hand.clock.enter(Stage::Idle);
        let task = match run.desk.next(POLL) {
            NextTask::Task(task) => task,
            NextTask::NotYet => continue,
            NextTask::End => return,
        };
        hand.takes();
        let end = one(&task);
        hand.lets_go();
        match end {
            Some(end) => run.desk.end(&task, end, None),
            None => run.desk.give_back(&task),
        }
    }
}

/// Until all hands have ended.
fn watch(
    run: &MoverRun<'_>,
    crew: &Crew<'_, '_>,
    ended: &std::sync::mpsc::Receiver<()>,
    observer: &mut dyn Observer,
) {
    let (start, mut before) = (Instant::now(), crew.moved.load(Relaxed));
    let mut watch = HandsWatch::new(crew.hands, crew.target, run.limiter);
    while ended.recv_timeout(SAMPLE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        watch.look();
        let now = Instant::now();
        if !watch.is_due(now) {
            continue;
        }
        let bytes = crew.moved.load(Relaxed);
        let fresh = bytes.saturating_sub(before);
        before = bytes;
        let (span, limit) = watch.close(now, fresh);
        run.shares.add(if run.desk.is_idle() { NO_WORK } else { limit }, span, fresh);
        if fresh > 0 || crew.hands.iter().any(Hand::is_waiting) {
            run.desk.stir();
        }
        // Without it others would take a large object from here as if nothing of it moved.
        let compared = crew.hands.iter().map(Hand::compared).sum();
        run.desk.set_under_way(crew.hands.iter().map(Hand::carried).sum(), compared);
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
