//! How an upload of parts ends: as an object, kept for another run, or taken away.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use super::Lane;
use super::opening::whole_or_why;
use crate::caller::{Caller, CallerSetup};
use crate::error::StoreError;
use crate::upload::job::{JobReport, PutOutcome};
use crate::upload::journal::Journal;
use crate::upload::transfer::{Transfer, Whole};
use crate::upload::{Condition, Finish, Part, Stored, Upload};

/// What is taken away after a stop has this long: the user waits for it.
const CLEARING: Duration = Duration::from_secs(5);

/// Nobody stops what takes away what a stop has left.
static NEVER: AtomicBool = AtomicBool::new(false);

/// Codes after which no other attempt makes an object of the parts.
const HOPELESS: [&str; 5] =
    ["PreconditionFailed", "EntityTooSmall", "EntityTooLarge", "InvalidPart", "InvalidPartOrder"];

impl Lane<'_> {
    /// Ends an upload whose parts are all at the store, or one of which failed.
    pub(super) fn end(&mut self, transfer: &Transfer) {
        let (parts, bytes) = transfer.parts();
        let ended = match transfer.take_error() {
            Some(error) => Err(error),
            None => self.complete(transfer, &parts, bytes),
        };
        let report = |outcome, transfer: &Transfer| JobReport {
            bytes,
            resumed: transfer.resumed,
            connections: transfer.most_lanes.load(Relaxed),
            sum: transfer.whole(),
            outcome,
            notes: transfer.take_notes(),
        };
        match ended {
            Ok(stored) => {
                transfer.take_journal().into_iter().for_each(Journal::remove);
                self.state.objects.fetch_add(1, Relaxed);
                self.run.queue.report(transfer.job, report(PutOutcome::Stored(stored), transfer));
            }
            Err(error) => {
                if let Some(outcome) = self.give_up(transfer, error) {
                    self.run.queue.report(transfer.job, report(outcome, transfer));
                } else {
                    // It begins again: what was sent is not.
                    self.run.count_moved(
                        None,
                        -i64::try_from(transfer.bytes().saturating_sub(transfer.resumed)).unwrap_or(0),
                    );
                }
            }
        }
    }

    fn complete(&mut self, transfer: &Transfer, parts: &[Part], size: u64) -> Result<Stored, StoreError> {
        if let Whole::File(source) = &transfer.content {
            source.check()?;
        }
        if let Whole::Elsewhere(source) = &transfer.content
            && let Some(note) = whole_or_why(source)?
        {
            transfer.note(note);
        }
        let uploads = self.run.uploads;
        let whole = transfer.whole();
        let told = whole.as_ref().filter(|whole| uploads.checks_whole(whole.algorithm));
        let upload = Upload { object: self.run.object(transfer.job), id: &transfer.id };
        let finish = Finish { parts, size, whole: told };
        let done = uploads.complete(&mut self.caller, &upload, &finish);
        self.count();
        match done {
            Ok(stored) => Ok(stored),
            // The answer to an earlier attempt may have been lost, and the upload be the object now.
            Err(error)
                if self.caller.attempts() > 1
                    && matches!(error.code(), Some("NoSuchUpload" | "PreconditionFailed")) =>
            {
                self.stored(transfer.job, size, whole.as_ref(), parts).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    /// What becomes of a failed upload; `None`: its job begins again.
    fn give_up(&mut self, transfer: &Transfer, error: StoreError) -> Option<PutOutcome> {
        // What is there to be read once more.
        let is_file = !matches!(transfer.content, Whole::Stream(_));
        let is_gone = error.code() == Some("NoSuchUpload");
        if is_file
            && (is_gone || self.run.weakens(transfer.algorithm, &error))
            && self.run.queue.begin_again(transfer.job)
        {
            if !is_gone {
                self.abort(transfer.job, &transfer.id);
            }
            transfer.take_journal().into_iter().for_each(Journal::remove);
            tracing::info!("{error}; the upload begins again");
            return None;
        }
        let is_hopeless = is_gone
            || matches!(error, StoreError::Changed(_))
            || error.code().is_some_and(|code| HOPELESS.contains(&code));
        if is_file && transfer.is_journaled() && !is_hopeless {
            return Some(PutOutcome::Kept(error));
        }
        let is_cleared = is_gone || self.abort(transfer.job, &transfer.id);
        if !is_cleared {
            transfer.note("its unfinished upload is still at the store; --abort removes it".to_owned());
        }
        transfer.take_journal().into_iter().for_each(Journal::remove);
        Some(PutOutcome::Failed(self.refused(transfer.job, error)))
    }

    /// Takes an upload away, also after a stop. Whether that was done.
    pub(super) fn abort(&mut self, job: usize, id: &str) -> bool {
        let setup = CallerSetup {
            stop: &NEVER,
            timeout: self.setup.timeout.min(CLEARING),
            connect_timeout: self.setup.connect_timeout.min(CLEARING),
            retries: 1,
            ..self.setup
        };
        let upload = Upload { object: self.run.object(job), id };
        let aborted = self.run.uploads.abort(&mut Caller::new(setup), &upload);
        if let Err(error) = &aborted {
            tracing::info!("{error}");
        }
        aborted.is_ok()
    }

    /// What a refusal means where the user has set a condition.
    pub(super) fn refused(&self, job: usize, error: StoreError) -> StoreError {
        let is_condition = |code: &str| matches!(code, "PreconditionFailed" | "ConditionNotMet");
        let by_status = matches!(&error, StoreError::Http(weir_get::GetError::Status { status: 412, .. }));
        if !error.code().is_some_and(is_condition) && !by_status {
            return error;
        }
        let why = match &self.run.options.condition {
            Condition::Absent => "it exists already (--if-absent)".to_owned(),
            Condition::Matches(tag) => format!("what is there has not the tag {tag} (--if-match)"),
            Condition::None => return error,
        };
        StoreError::Usage(format!("cannot put {}: {why}", (self.run.name)(&self.run.jobs[job].key)))
    }
}
