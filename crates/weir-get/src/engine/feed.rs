//! Brings jobs from their source to the pool: those at hand before the first lane starts, the rest on a
//! thread of its own, as there is room for them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::Scope;
use std::time::Duration;

use super::Run;
use crate::source::{JobSource, Next, WINDOW};

/// Between two questions to a source that has nothing yet, and between two looks at whether the run is over
/// while there is no room.
const PAUSE: Duration = Duration::from_millis(20);

/// The way from a source to the pool.
pub(super) struct Feed<'a> {
    source: &'a mut dyn JobSource,
    is_at_its_end: bool,
}

impl<'a> Feed<'a> {
    pub(super) fn new(source: &'a mut dyn JobSource) -> Feed<'a> {
        Feed { source, is_at_its_end: false }
    }

    /// Takes what the source has at hand, one window at most.
    pub(super) fn at_hand(&mut self, run: &Run<'_>) {
        if self.source.is_at_hand() {
            for _ in 0..WINDOW {
                if self.is_at_its_end || !run.pool.has_room() || !self.step(run, run.stop) {
                    break;
                }
            }
        }
    }

    /// Starts the thread that takes the rest, if there is any. It ends when `over` is set.
    pub(super) fn rest<'scope>(
        self,
        run: &'scope Run<'_>,
        scope: &'scope Scope<'scope, '_>,
        over: &'scope AtomicBool,
    ) where
        'a: 'scope,
    {
        if self.is_at_its_end {
            return;
        }
        let thread = std::thread::Builder::new().name("jobs".to_owned());
        let started = thread.spawn_scoped(scope, move || self.until_its_end(run, over));
        if started.is_err() {
            // What was given is fetched; that it is not all is seen by the count.
            run.pool.close();
        }
    }

    fn until_its_end(mut self, run: &Run<'_>, over: &AtomicBool) {
        // A source that fails by a fault of its own must not leave the lanes waiting for it.
        if catch_unwind(AssertUnwindSafe(|| self.bring(run, over))).is_err() {
            run.pool.stop();
        }
        run.pool.close();
    }

    fn bring(&mut self, run: &Run<'_>, over: &AtomicBool) {
        while !self.is_at_its_end && !over.load(Relaxed) && !run.is_stopped() {
            if !run.pool.has_room() {
                if !run.pool.wait_for_room(PAUSE) {
                    break;
                }
            } else if !self.step(run, over) {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Takes one thing from the source. False: it has nothing yet.
    fn step(&mut self, run: &Run<'_>, over: &AtomicBool) -> bool {
        match self.source.next(over) {
            Next::Job(job) => {
                if job.url.scheme() == "https" {
                    run.tls.store(true, Relaxed);
                }
                if job.output.is_stream() {
                    run.streams.store(true, Relaxed);
                }
                run.pool.set_count(self.source.count());
                run.pool.add(*job);
            }
            Next::Ended(job, report) => {
                run.pool.set_count(self.source.count());
                run.results.ended_before(run.pool.add_ended(report.bytes), &job, *report);
            }
            Next::Bad(bad) => run.results.bad(bad),
            Next::NotYet => return false,
            Next::End => {
                run.pool.set_whole();
                self.end(run);
            }
            Next::Failed(error) => {
                *run.broken.lock() = Some(error);
                self.end(run);
            }
        }
        true
    }

    fn end(&mut self, run: &Run<'_>) {
        self.is_at_its_end = true;
        run.pool.close();
    }
}
