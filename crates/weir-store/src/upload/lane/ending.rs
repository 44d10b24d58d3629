//! How an upload of parts ends: as an object, kept for another run, or taken away.

use std::sync::atomic::Ordering::Relaxed;

use super::Lane;
use super::opening::whole_or_why;
use crate::caller::Caller;
use crate::condition::Condition;
use crate::error::StoreError;
use crate::upload::job::{JobReport, PutOutcome};
use crate::upload::journal::Journal;
use crate::upload::proof::check_all;
use crate::upload::transfer::{Transfer, Whole};
use crate::upload::{Finish, Part, Stored, Upload};

/// Codes after which no other attempt makes an object of the parts.
const HOPELESS: [&str; 4] = ["EntityTooSmall", "EntityTooLarge", "InvalidPart", "InvalidPartOrder"];

impl Lane<'_> {
    /// Ends an upload whose parts are all at the store, or one of which failed.
    pub(super) fn end(&mut self, transfer: &Transfer) {
        let (parts, bytes) = transfer.parts();
        if transfer.share.is_some() {
            return self.end_share(transfer, parts, bytes);
        }
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
                if let Whole::File(source) = &transfer.content {
                    self.finishes(transfer.job, source.identity(), &stored);
                }
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

    /// A share has ended. The upload is not this run's to end.
    fn end_share(&mut self, transfer: &Transfer, parts: Vec<Part>, bytes: u64) {
        let checked = match (transfer.take_error(), &transfer.content) {
            (Some(error), _) => Err(error),
            (None, Whole::File(source)) => source.check(),
            (None, _) => Ok(()),
        };
        let report = JobReport {
            bytes,
            resumed: 0,
            connections: transfer.most_lanes.load(Relaxed),
            sum: None,
            outcome: checked.map_or_else(PutOutcome::Failed, |()| PutOutcome::Sent(parts)),
            notes: transfer.take_notes(),
        };
        self.run.queue.report(transfer.job, report);
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
        let upload = Upload { object: self.run.object(transfer.job), id: &transfer.id };
        // A stream has as many as came of it.
        let count = transfer.size().map_or(parts.len() as u32, |size| transfer.plan.parts(size));
        check_all(parts, count, upload.object.key)?;
        let uploads = self.run.uploads;
        let whole = transfer.whole();
        let told = whole.as_ref().filter(|whole| uploads.checks_whole(whole.algorithm));
        let finish = Finish { parts, size, whole: told };
        let done = uploads.complete(&mut self.caller, &upload, &finish);
        self.count();
        match done {
            Ok(stored) => Ok(stored),
            // The answer to an earlier attempt may have been lost, and the upload be the object now.
            Err(error) if self.caller.attempts() > 1 && (error.is_of_no_upload() || error.is_condition()) => {
                self.stored(transfer.job, size, whole.as_ref(), parts).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    /// What becomes of a failed upload; `None`: its job begins again.
    fn give_up(&mut self, transfer: &Transfer, error: StoreError) -> Option<PutOutcome> {
        // What is there to be read once more.
        let is_file = !matches!(transfer.content, Whole::Stream(..));
        let is_gone = error.is_of_no_upload();
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
        let is_false = matches!(&error, StoreError::Http(error) if error.is_verification());
        let is_hopeless = is_gone
            || is_false
            || matches!(error, StoreError::Changed(_))
            || error.is_condition()
            || error.code().is_some_and(|code| HOPELESS.contains(&code));
        if is_file && transfer.is_journaled() && !is_hopeless && self.run.options.keeps {
            return Some(PutOutcome::Kept(error));
        }
        let is_cleared = is_gone || self.abort(transfer.job, &transfer.id);
        if !is_cleared {
            let clears = self.run.options.clears;
            transfer.note(format!("its unfinished upload is still at the store; {clears} removes it"));
        }
        transfer.take_journal().into_iter().for_each(Journal::remove);
        Some(PutOutcome::Failed(self.refused(transfer.job, error)))
    }

    /// Takes an upload away, also after a stop. Whether that was done.
    pub(super) fn abort(&mut self, job: usize, id: &str) -> bool {
        let upload = Upload { object: self.run.object(job), id };
        let aborted = self.run.uploads.abort(&mut Caller::new(self.setup.clearing()), &upload);
        if let Err(error) = &aborted {
            tracing::info!("{error}");
        }
        aborted.is_ok()
    }

    /// What a refusal means where the user has set a condition.
    pub(super) fn refused(&self, job: usize, error: StoreError) -> StoreError {
        match error.is_condition() && self.run.options.condition != Condition::None {
            true => self.fails_condition(job, None),
            false => error,
        }
    }

    /// The condition does not hold, of what is `there` by now, as far as that is known.
    pub(super) fn fails_condition(&self, job: usize, there: Option<&Stored>) -> StoreError {
        let why = match &self.run.options.condition {
            Condition::Matches(tag) => {
                let names = there.map_or_else(String::new, |there| {
                    let version = there.version.iter().map(|version| format!("the version {version}"));
                    let names = there.tag.iter().map(|tag| format!("the tag {tag}")).chain(version);
                    names.collect::<Vec<_>>().join(", ")
                });
                let names = if names.is_empty() { names } else { format!("; it has {names}") };
                format!("what is there has not the tag {tag} (--if-match){names}")
            }
            _ => "it exists already (--if-absent)".to_owned(),
        };
        StoreError::Usage(format!("cannot put {}: {why}", (self.run.shown)(&self.run.jobs[job].key)))
    }
}
