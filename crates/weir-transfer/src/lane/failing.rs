//! What the end of an answer means: for this lane, for its transfer, for the job.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Lane, home_of, refuse_foreign_coding, say_pause};
use crate::error::Error;
use crate::job::Outcome;
use crate::object::{self, Part};
use crate::pool::Waiting;
use crate::stage_clock::Stage;
use crate::transfer::Transfer;

/// How often an object may change under us before we stop following it.
const MAX_RESTARTS: u32 = 3;

impl Lane<'_> {
    /// Lets go of the claim, and decides what the result means for the transfer.
    pub(super) fn after_part(&mut self, transfer: &Arc<Transfer>, result: Result<(), Error>) {
        self.state.bulk.store(false, Relaxed);
        self.state.started.store(false, Relaxed);
        transfer.ledger().release(self.state.id);
        let kicked = self.state.kick.swap(false, Relaxed);
        if result.is_err() {
            self.client.close();
        }
        if transfer.ledger().is_complete() {
            self.finish(transfer);
        } else if let Err(error) = result
            && !self.run.is_stopped()
            && !transfer.over.load(Relaxed)
            && !kicked
        {
            self.part_failed(transfer, error);
        }
        self.run.pool.end_bulk();
    }

    fn part_failed(&mut self, transfer: &Arc<Transfer>, error: Error) {
        match error {
            Error::Dropped | Error::Interrupted => return,
            Error::Changed { .. } => return self.begin_again(transfer, error),
            _ => {}
        }
        let done = transfer.ledger().done().len();
        let others = transfer.ledger().started() > 0;
        if others {
            self.state.refused.store(true, Relaxed);
        }
        if error.is_permanent() && others && error.is_remote() {
            // What the server says to one connection too many is no word on the one that brings the bytes.
            tracing::info!("a further connection was refused: {error:#}");
            return self.sleep(self.pause(1, &error), Stage::Idle);
        }
        if error.is_permanent() {
            return self.end(transfer, error);
        }
        if transfer.is_resumable() {
            transfer.ranged.store(true, Relaxed);
        }
        if done > transfer.at_failure.swap(done, Relaxed) {
            transfer.failures.store(0, Relaxed);
        }
        let failures = transfer.count_failure(self.round);
        let keeps = transfer.ranged.load(Relaxed) || transfer.sink.part().is_some();
        if failures > self.run.options.retries && !others || !keeps && done > 0 {
            return self.end(transfer, error);
        }
        if !transfer.ranged.load(Relaxed) && done > 0 {
            return self.begin_again(transfer, error);
        }
        let pause = self.pause(failures, &error);
        say_pause(&transfer.url, &error, pause);
        self.sleep(pause, if error.is_overload() { Stage::Backoff } else { Stage::Idle });
    }

    /// The object changed, or cannot be gone on with: once more from its URL and byte 0.
    fn begin_again(&mut self, transfer: &Arc<Transfer>, error: Error) {
        if transfer.over.swap(true, Relaxed) {
            return;
        }
        let restarts = self.run.restarts(transfer.job);
        if restarts > MAX_RESTARTS || transfer.sink.part().is_none() {
            transfer.over.store(false, Relaxed);
            return self.end(transfer, error);
        }
        if transfer.is_resumable() && !self.is_replaced(transfer) {
            // One odd answer, not a new version: what is here may still be right.
            transfer.over.store(false, Relaxed);
            return self.end(transfer, error);
        }
        tracing::warn!("{}: {error:#}; starting again", object::shown(&transfer.url));
        self.run.cut_lanes_of(transfer, self.state.id);
        self.run.pool.deactivate(transfer.job);
        if let Some(part) = transfer.sink.part() {
            part.discard();
        }
        let pause = self.pause(restarts, &error);
        self.run.pool.requeue(Waiting::again(transfer.job, restarts), pause);
    }

    /// The URL now gives another version that could be saved in the place of this one.
    fn is_replaced(&mut self, transfer: &Transfer) -> bool {
        self.client.close();
        let home = home_of(&self.run.jobs[transfer.job]);
        let Ok(answer) = self.client.get(home, &transfer.url, Some((0, None)), None, false) else {
            return false;
        };
        let judged = answer.judge(Some(0));
        self.client.close();
        let is_page = weir_http::content_type::html_instead_of(
            &transfer.file_name(),
            answer.head.header("content-type"),
        );
        let fits =
            refuse_foreign_coding(transfer, &answer).is_ok() && (self.run.options.any_type || !is_page);
        fits && matches!(judged, Ok(Part::Asked(_) | Part::Whole(_)))
    }

    /// The transfer ends with `error`.
    fn end(&mut self, transfer: &Arc<Transfer>, error: Error) {
        if transfer.over.swap(true, Relaxed) {
            return;
        }
        self.run.cut_lanes_of(transfer, self.state.id);
        let stopped = matches!(error, Error::OutputClosed { .. });
        let _ = transfer.journal_at_end();
        let outcome = transfer.give_up(error);
        self.run.pool.report(transfer.job, transfer.report(outcome, &[]));
        if stopped {
            self.run.pool.stop();
        }
    }

    /// All bytes are here.
    fn finish(&mut self, transfer: &Arc<Transfer>) {
        if transfer.over.swap(true, Relaxed) {
            return;
        }
        let report = match transfer.finish(self.run.options.sync, &self.state.clock) {
            Ok(found) => transfer.report(Outcome::Complete, &found),
            Err(error) => {
                if !error.is_verification() {
                    let _ = transfer.journal_at_end();
                }
                let outcome = transfer.give_up(error);
                transfer.report(outcome, &[])
            }
        };
        self.state.clock.enter(Stage::Other);
        self.state.objects.fetch_add(1, Relaxed);
        self.run.pool.report(transfer.job, report);
    }
}
