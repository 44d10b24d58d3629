//! What follows from a failure, or from the end: the lane does what [`crate::download`] decided.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

use super::carrying::range_of;
use super::{Lane, Rest, refuse_unfit};
use crate::download::{Action, BulkSeen, Download, Remains, Standing};
use crate::engine::Run;
use crate::error::GetError;
use crate::http::exchange::Answer;
use crate::http::waiting::TARGET;
use crate::job::{FileReport, Job, JobOutcome};
use crate::object::{self, Part};
use crate::pool::Waiting;
use crate::transfer::Transfer;
use weir_http::validator::Agreement;
use weir_model::decision::Restart;
use weir_observe::stage_clock::Stage;

impl Lane<'_> {
    /// Opening a job failed.
    pub(super) fn open_failed(&mut self, mut waiting: Waiting, job: &Job, error: GetError) {
        let standing = Standing { began: self.began, done: 0, others: 0, bringing: 0, is_resumable: false };
        let was_lent = waiting.download.was_lent();
        match waiting.download.on_error(error, &standing, &self.run.moment()) {
            Action::AskAgain => self.run.pool.requeue(waiting, Duration::ZERO),
            Action::AwaitName(name) => {
                self.rest = Some(Rest::Name(name.clone()));
                self.run.pool.put_aside(waiting, name);
            }
            Action::AskLater { error: error @ GetError::Locked { .. }, pause } => {
                if !was_lent {
                    let path = job.target().unwrap_or_default();
                    let path = path.display();
                    tracing::warn!(target: TARGET, "{path}: another weir is writing it; waiting for its end");
                }
                self.put_off(job, &error, pause);
                self.run.pool.requeue(waiting, pause);
            }
            Action::AskLater { error, pause } => {
                self.say_pause(&job.url, &error, pause);
                self.put_off(job, &error, pause);
                self.run.pool.requeue(waiting, pause);
            }
            Action::ComeBack { error, used } => self.fail(waiting, job, self.for_later(error, used)),
            Action::GiveUp(error) => self.fail(waiting, job, error),
            // It is in a transfer already, which ends with the run; the others are said of what lanes share.
            Action::Leave
            | Action::Rest { .. }
            | Action::BackOff { .. }
            | Action::Look(_)
            | Action::Carry(_)
            | Action::AskPlainly(_)
            | Action::BeginAnew { .. }
            | Action::Verify => {}
        }
    }

    fn fail(&self, mut waiting: Waiting, job: &Job, error: GetError) {
        let report = failed_before_opening(self.run, job, &mut waiting.download, error);
        self.run.report(waiting.job, report);
    }

    /// The word that it is too long to wait for the end of `error`, when so much is `used` up.
    fn for_later(&self, error: GetError, used: Duration) -> GetError {
        error.within(self.run.options.max_wait, used, SystemTime::now())
    }

    /// Does what the result of a part means for the transfer, until nothing more follows from it.
    pub(super) fn after_part(&mut self, transfer: &Arc<Transfer>, result: Result<(), GetError>) {
        let mut next = Some(result);
        while let Some(result) = next {
            let action = self.part_ended(transfer, result);
            next = self.act(transfer, action);
        }
        self.run.pool.end_bulk();
    }

    /// Lets go of the claim. What the result means for the transfer.
    fn part_ended(&mut self, transfer: &Transfer, result: Result<(), GetError>) -> Action {
        self.state.bulk.store(false, Relaxed);
        self.state.started.store(false, Relaxed);
        transfer.ledger().release(self.state.id);
        let kicked = self.state.kick.swap(false, Relaxed);
        if result.is_err() {
            self.client.close();
        }
        // What goes on behind its end is another object, though all the bytes of this one seem to be here.
        let is_another = matches!(result, Err(GetError::NotPinned { .. }));
        let is_complete = !is_another && transfer.ledger().is_complete();
        match result {
            _ if is_complete => transfer.download().on_complete(),
            Err(error) if is_another || !kicked => {
                let (standing, moment) = (self.standing(transfer), self.run.moment());
                transfer.download().on_error(error, &standing, &moment)
            }
            _ => Action::Leave,
        }
    }

    /// How the other lanes of `transfer` stand.
    fn standing(&self, transfer: &Transfer) -> Standing {
        let is_resumable = transfer.is_resumable();
        let ledger = transfer.ledger();
        Standing {
            began: self.began,
            done: ledger.done().len(),
            others: ledger.carrying(),
            bringing: ledger.bringing(),
            is_resumable,
        }
    }

    /// Does what is to be done, and what follows from that. The result of a part, where it has led to one.
    fn act(&mut self, transfer: &Arc<Transfer>, action: Action) -> Option<Result<(), GetError>> {
        match action {
            Action::Look(error) => return self.look(transfer, error),
            Action::AskPlainly(error) => {
                let is_whole = self.sends_whole(transfer);
                let (standing, moment) = (self.standing(transfer), self.run.moment());
                let next = transfer.download().on_plain(error, is_whole, &standing, &moment);
                return self.act(transfer, next);
            }
            Action::Rest { pause, refused } => {
                if let Some(error) = refused {
                    self.state.refused.store(true, Relaxed);
                    tracing::info!("a further connection was refused: {error:#}");
                }
                self.sleep(pause, Stage::Idle);
            }
            Action::BackOff { error, pause, stays, others } => {
                if others {
                    self.state.refused.store(true, Relaxed);
                }
                self.back_off(transfer, &error, pause, stays);
            }
            Action::BeginAnew { error, pause, next } => self.begin_anew(transfer, &error, pause, *next),
            Action::Verify => self.finish(transfer),
            Action::ComeBack { error, used } => self.end(transfer, self.for_later(error, used)),
            Action::GiveUp(error) => self.end(transfer, error),
            // Said of a look, and of a job that waits for its object, which this does no more.
            Action::Leave
            | Action::Carry(_)
            | Action::AskAgain
            | Action::AwaitName(_)
            | Action::AskLater { .. } => {}
        }
        None
    }

    fn back_off(&mut self, transfer: &Transfer, error: &GetError, pause: Duration, stays: bool) {
        self.say_pause(&transfer.url, error, pause);
        if stays {
            self.sleep(pause, error.pause_stage());
            return;
        }
        // Its place among those that carry is free for another file meanwhile.
        self.run.pool.rest(transfer.job, Instant::now() + pause);
        self.put_off(&transfer.task, error, pause);
    }

    /// Once more from its URL and byte 0.
    fn begin_anew(&mut self, transfer: &Transfer, error: &GetError, pause: Duration, next: Download) {
        let name = object::shown(&transfer.url);
        tracing::warn!("{}", Restart::Object { name, why: format!("{error:#}") });
        self.run.cut_lanes_of(transfer, self.state.id);
        self.run.pool.deactivate(transfer.job);
        transfer.discard();
        self.put_off(&transfer.task, error, pause);
        self.run.pool.requeue(Waiting::new(transfer.job, Arc::clone(&transfer.task), next), pause);
    }

    /// Whether a plain request brings the whole object.
    fn sends_whole(&mut self, transfer: &Transfer) -> bool {
        self.client.close();
        let home = transfer.task.home();
        let answer = self.client.get(home, &transfer.url, None, None, false);
        self.client.close();
        answer.is_ok_and(|mut answer| {
            let judged = answer.judge(None);
            transfer.download().brings_all(&judged, &object::host_of(&answer.url))
        })
    }

    /// Looks what the URL gives now. Where that is the version that is here, the answer is carried: of two
    /// servers that take turns the next request would come to the other one again.
    fn look(&mut self, transfer: &Arc<Transfer>, error: GetError) -> Option<Result<(), GetError>> {
        let (seen, answer) = self.seen(transfer);
        let (standing, moment) = (self.standing(transfer), self.run.moment());
        let next = transfer.download().on_look(error, seen, &standing, &moment);
        if let (Action::Carry(holds_to), Some(answer)) = (&next, answer) {
            self.began = Instant::now();
            return Some(self.follow(transfer, answer, *holds_to));
        }
        self.client.close();
        transfer.ledger().release(self.state.id);
        self.act(transfer, next)
    }

    /// What the URL gives on a new connection: asked for the next bytes that no lane has, if they are of this
    /// version, and from byte 0 on where there are none, or where that says nothing of the version. The
    /// answer too, where it may be of those bytes.
    fn seen(&mut self, transfer: &Transfer) -> (BulkSeen, Option<Answer>) {
        let lanes = self.run.pool.wanted_bulk();
        let gap = transfer.claim_gap(&mut transfer.ledger(), self.state.id, lanes);
        let mut rest = gap.as_ref().map(range_of);
        loop {
            self.client.close();
            let range = rest.unwrap_or((0, None));
            let version = transfer.version.if_range().filter(|_| rest.is_some());
            let answer = self.client.get(transfer.task.home(), &transfer.url, Some(range), version, false);
            let mut answer = match answer {
                Ok(answer) => answer,
                // A store that was asked for this version alone says no in place of sending another.
                Err(GetError::Changed { .. }) if rest.take().is_some() => continue,
                Err(error) => return (BulkSeen::Failed(error), None),
            };
            let judged = answer.judge(Some(range.0));
            let says_nothing = match &judged {
                Ok(Part::Asked(object)) => transfer.version.agree(&object.version) == Agreement::Unproven,
                Ok(Part::Whole(_)) => false,
                _ => true,
            };
            if says_nothing && rest.take().is_some() {
                continue;
            }
            let is_unfit = refuse_unfit(&transfer.file_name(), &answer, self.run.options.any_type).is_err();
            let host = object::host_of(&answer.url);
            let seen = transfer.download().seen(&judged, rest.is_some(), is_unfit, &host);
            return (seen, Some(answer));
        }
    }

    /// The transfer ends with `error`.
    fn end(&mut self, transfer: &Arc<Transfer>, error: GetError) {
        self.run.cut_lanes_of(transfer, self.state.id);
        let stopped = matches!(error, GetError::OutputClosed { .. });
        let _ = transfer.journal_at_end();
        let outcome = transfer.give_up(error);
        self.run.report(transfer.job, transfer.report(outcome, &[]));
        if stopped {
            self.run.pool.stop();
        }
    }

    /// All bytes are here.
    fn finish(&mut self, transfer: &Arc<Transfer>) {
        // What no later run could go on with is brought to its end.
        let go_on = || !self.run.is_stopped() || !transfer.is_resumable();
        let (found, result) = match transfer.finish(self.run.options, &go_on, &self.state.clock) {
            Ok(found) => (found, Ok(())),
            Err(error) => match self.stays_after_all(&transfer.task, error) {
                Ok(report) => {
                    transfer.download().on_kept();
                    let FileReport { notes, connections, .. } = transfer.report(JobOutcome::Skipped, &[]);
                    return self.ended(transfer.job, FileReport { notes, connections, ..report });
                }
                Err(error) => (Vec::new(), Err(error)),
            },
        };
        let moment = self.run.moment();
        let action = transfer.download().on_verified(result, &moment);
        let outcome = match action {
            Action::GiveUp(error) => {
                if !error.is_verification() {
                    let _ = transfer.journal_at_end();
                }
                transfer.give_up(error)
            }
            Action::BeginAnew { error, pause, next } => {
                return self.begin_anew(transfer, &error, pause, *next);
            }
            _ => JobOutcome::Complete,
        };
        self.ended(transfer.job, transfer.report(outcome, &found));
    }

    /// A bulk object is dealt with.
    fn ended(&self, job: usize, report: FileReport) {
        self.state.clock.enter(Stage::Other);
        self.state.objects.fetch_add(1, Relaxed);
        self.run.report(job, report);
    }
}

/// The report of a job that failed before its object was at work; what an earlier run kept is still there.
fn failed_before_opening(run: &Run<'_>, job: &Job, download: &mut Download, error: GetError) -> FileReport {
    let target = job.target();
    let place = target.as_deref().and_then(|target| run.target(target).ok());
    let bytes = place.and_then(|place| run.home_of(&place).ok()).map_or(0, |home| home.kept());
    let outcome = download.on_given_up(error, Remains::Earlier(bytes)).outcome;
    FileReport { path: target, bytes, resumed_from: bytes, outcome, ..job.blank_report() }
}

/// The report of a job whose object no lane has brought when the run ends with `error`.
pub fn never_opened(run: &Run<'_>, job: &Job, error: GetError) -> FileReport {
    let mut download = Download::default();
    download.on_stop();
    failed_before_opening(run, job, &mut download, error)
}
