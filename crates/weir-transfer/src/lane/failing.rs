//! What the end of an answer means: for this lane, for its transfer, for the job.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::{Lane, home_of, refuse_another, refuse_unfit};
use crate::error::Error;
use crate::http::waiting::LONG;
use crate::job::Outcome;
use crate::object::{self, Part};
use crate::pool::Waiting;
use crate::transfer::Transfer;
use weir_model::decision::Restart;
use weir_observe::stage_clock::Stage;

/// How often an object may change under us before we stop following it; the last time it comes over one connection.
const MAX_RESTARTS: u32 = 3;

/// Connections on which the version of a transfer is looked for before all of it is thrown away: of two servers that take turns the
/// second answers on the second.
pub(super) const LOOKS: u32 = 3;

/// What a URL gives now.
#[derive(Debug)]
enum Seen {
    /// The version that the transfer is of.
    Same,
    /// Another that could be saved in its place, or one that cannot be told from another.
    Another,
    /// Nothing that could.
    Unfit,
    /// No answer.
    Failed(Error),
}

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
        let (error, is_permanent) = match error {
            Error::Dropped | Error::Interrupted => return,
            Error::EmptyRange { .. } if transfer.sink.part().is_some() => {
                return self.begin_again(transfer, error, true);
            }
            // Nothing has been passed on, and the next request of a transfer without parts is a plain one.
            Error::EmptyRange { .. } => return,
            Error::Crumbs { .. } => {
                if transfer.sink.part().is_some() && self.sends_whole(transfer) {
                    self.begin_again(transfer, error, true);
                }
                // Else they are what there is.
                return;
            }
            Error::Changed { .. } | Error::Unproven { .. } => match self.settle_doubt(transfer, error) {
                Some(left) => left,
                None => return,
            },
            Error::Unclean { got, .. } => {
                let is_meant = self.run.is_unclean_again(transfer.job, got.0);
                return match is_meant || self.run.options.retries == 0 {
                    true => self.end(transfer, error),
                    false => self.begin_again(transfer, error, false),
                };
            }
            error if error.is_permanent() && self.is_refusal_of_parts(transfer, &error) => {
                return self.begin_again(transfer, error, true);
            }
            error => {
                let is_permanent = error.is_permanent();
                (error, is_permanent)
            }
        };
        let done = transfer.ledger().done().len();
        let others = transfer.ledger().started() > 0;
        if others {
            self.state.refused.store(true, Relaxed);
        }
        if is_permanent && others && error.is_remote() {
            // What the server says to one connection too many is no word on the one that brings the bytes.
            tracing::info!("a further connection was refused: {error:#}");
            return self.sleep(self.pause(1, &error), Stage::Idle);
        }
        if is_permanent {
            return self.end(transfer, error);
        }
        if transfer.is_resumable() {
            transfer.ranged.store(true, Relaxed);
        }
        // A drip is no progress: else a few bytes an attempt would keep a run for days.
        let enough = match error {
            Error::Stalled { is_slow: true, .. } => self.run.options.speed.quota().max(1),
            _ => 1,
        };
        if done >= transfer.at_failure.swap(done, Relaxed).saturating_add(enough) {
            transfer.failures.store(0, Relaxed);
            self.run.waits(transfer.job, None);
        }
        let error = if others { error } else { self.for_later(transfer.job, error) };
        if error.is_for_later() {
            return self.end(transfer, error);
        }
        let (failures, pause) =
            transfer.count_failure(self.began, Instant::now(), |failures| self.pause(failures, &error));
        let keeps = transfer.ranged.load(Relaxed) || transfer.sink.part().is_some();
        if failures > self.run.options.retries && !others || !keeps && done > 0 {
            return match error {
                // The whole is there, but its parts are never what was asked for, or never prove what they are of: the same would
                // happen to a later run.
                Error::Unproven { .. } | Error::WrongPart { .. } if transfer.sink.part().is_some() => {
                    self.begin_again(transfer, error, true);
                }
                error if self.is_refusal_of_parts(transfer, &error) => {
                    self.begin_again(transfer, error, true);
                }
                error => self.end(transfer, error),
            };
        }
        if !transfer.ranged.load(Relaxed) && done > 0 {
            return self.begin_again(transfer, error, false);
        }
        self.say_pause(transfer.job, &transfer.url, &error, pause);
        let is_overload = error.is_overload();
        if others || !is_overload && pause < LONG {
            return self.sleep(pause, if is_overload { Stage::Backoff } else { Stage::Idle });
        }
        // Its place among those that carry is free for another file meanwhile.
        self.run.pool.rest(transfer.job, Instant::now() + pause);
        if is_overload {
            self.avoid(transfer.job, pause);
        }
    }

    /// A part is refused of an object whose first ones came, by a server that still sends all of it to a plain request.
    /// A link that has expired, or a file that is gone, is no such refusal: what is here is kept for a later run.
    fn is_refusal_of_parts(&mut self, transfer: &Transfer, error: &Error) -> bool {
        let Error::Status { status, .. } = error else { return false };
        let is_alone = transfer.ledger().started() == 0;
        if !is_alone || !transfer.ranged.load(Relaxed) || transfer.sink.part().is_none() {
            return false;
        }
        if error.is_overload() || matches!(status, 401 | 407) {
            return false;
        }
        self.sends_whole(transfer)
    }

    /// Whether a plain request brings the whole object.
    fn sends_whole(&mut self, transfer: &Transfer) -> bool {
        self.client.close();
        let home = home_of(&self.run.jobs[transfer.job]);
        let answer = self.client.get(home, &transfer.url, None, None, false);
        self.client.close();
        answer.is_ok_and(|mut answer| matches!(answer.judge(None), Ok(Part::Whole(_))))
    }

    /// An answer is of another version, or may be: asks what the URL gives now. Returns the failure that is left, and whether it is
    /// permanent; `None` where the transfer begins again or another lane is asking.
    fn settle_doubt(&mut self, transfer: &Arc<Transfer>, error: Error) -> Option<(Error, bool)> {
        if transfer.doubted.swap(true, Relaxed) {
            self.sleep(self.pause(1, &error), Stage::Idle);
            return None;
        }
        let seen = if transfer.is_pinned() { self.look_again(transfer) } else { Seen::Another };
        transfer.doubted.store(false, Relaxed);
        match seen {
            Seen::Another => {
                self.begin_again(transfer, error, false);
                None
            }
            Seen::Same => Some((error, false)),
            Seen::Unfit => Some((error, true)),
            Seen::Failed(Error::Interrupted) => None,
            Seen::Failed(failure) => {
                let is_permanent = failure.is_permanent();
                Some((failure, is_permanent))
            }
        }
    }

    /// The object changed, or cannot be gone on with: once more from its URL and byte 0; `plain`: without a range.
    fn begin_again(&mut self, transfer: &Arc<Transfer>, error: Error, plain: bool) {
        if transfer.over.swap(true, Relaxed) {
            return;
        }
        let restarts = self.run.restarts(transfer.job);
        if restarts > MAX_RESTARTS || transfer.sink.part().is_none() {
            transfer.over.store(false, Relaxed);
            return self.end(transfer, error);
        }
        let name = object::shown(&transfer.url);
        tracing::warn!("{}", Restart::Object { name, why: format!("{error:#}") });
        self.run.cut_lanes_of(transfer, self.state.id);
        self.run.pool.deactivate(transfer.job);
        if let Some(part) = transfer.sink.part() {
            part.discard();
        }
        let pause = self.pause(restarts, &error);
        // The last time over one connection: one answer is of one version, whatever each further one would be of.
        let plain = plain || restarts == MAX_RESTARTS;
        self.run.pool.requeue(Waiting::again(transfer.job, restarts, plain), pause);
    }

    /// Asks the URL once more, and again where it gives another version: of several servers behind one name each may have an ETag of its
    /// own (Apache's was made of the inode), and the next connection may come to that of this transfer.
    fn look_again(&mut self, transfer: &Transfer) -> Seen {
        for _ in 0..LOOKS {
            match self.look(transfer) {
                Seen::Another => {}
                // Of the odd answers one is enough: it is no new version, and what is here may still be right.
                seen => return seen,
            }
        }
        Seen::Another
    }

    /// What the URL gives on a new connection.
    fn look(&mut self, transfer: &Transfer) -> Seen {
        self.client.close();
        let home = home_of(&self.run.jobs[transfer.job]);
        let mut answer = match self.client.get(home, &transfer.url, Some((0, None)), None, false) {
            Ok(answer) => answer,
            Err(error) => return Seen::Failed(error),
        };
        let judged = answer.judge(Some(0));
        self.client.close();
        if refuse_unfit(&transfer.file_name(), &answer, self.run.options.any_type).is_err() {
            return Seen::Unfit;
        }
        match judged {
            Ok(Part::Asked(object)) if refuse_another(transfer, &answer, &object).is_ok() => Seen::Same,
            Ok(Part::Asked(_) | Part::Whole(_)) => Seen::Another,
            _ => Seen::Unfit,
        }
    }

    /// The transfer ends with `error`.
    fn end(&mut self, transfer: &Arc<Transfer>, error: Error) {
        if transfer.over.swap(true, Relaxed) {
            return;
        }
        self.run.cut_lanes_of(transfer, self.state.id);
        let stopped = matches!(error, Error::OutputClosed { .. });
        let _ = transfer.journal_at_end();
        let outcome = match transfer.give_up(error) {
            Outcome::Failed(error) if error.is_for_later() => Outcome::Partial(error),
            outcome => outcome,
        };
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
        let options = self.run.options;
        let report = match transfer.finish(options.sync, options.stamping(), &self.state.clock) {
            Ok(found) => transfer.report(Outcome::Complete, &found),
            // Another program's beginning was not of this object.
            Err(error) if error.is_verification() && self.run.is_on_trust(transfer.job) => {
                transfer.over.store(false, Relaxed);
                return self.begin_again(transfer, error, false);
            }
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
