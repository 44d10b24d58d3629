//! Where an earlier run stopped: what its journal says, as far as the store, and the source, confirm it.

use std::path::Path;

use weir_codec::digest::Algorithm;
use weir_codec::hex;

use super::Lane;
use super::opening::stored_report;
use crate::error::StoreError;
use crate::upload::elsewhere::Elsewhere;
use crate::upload::finished::{Claim, manner};
use crate::upload::job::{JobReport, PutOutcome};
use crate::upload::journal::{Intent, Journal, JournalError, KeptPart, Said};
use crate::upload::plan::Plan;
use crate::upload::proof::same_tag;
use crate::upload::source::Identity;
use crate::upload::{Part, PartThere, Stored, Sum, Upload, unanswered};

/// Why an upload begins again.
const OTHERWISE: &str =
    "it is to be stored in another way than when its upload was interrupted; it begins again";
const CHANGED: &str = "the source has changed since its upload was interrupted; it begins again";

/// What an earlier run has left.
pub(super) enum Left {
    Nothing,
    /// An upload with these parts.
    Upload {
        id: String,
        plan: Plan,
        algorithm: Option<Algorithm>,
        parts: Vec<Part>,
    },
    /// The object itself: that run was cut off when all was done.
    Stored(Stored),
}

impl Lane<'_> {
    /// What the store has of a file that an earlier run has stored, if that is so.
    pub(super) fn was_finished(&mut self, job: usize, identity: Identity) -> Option<Stored> {
        let (run, key) = (self.run, &self.run.jobs[job].key);
        let finished = run.options.finished.as_ref()?;
        let stored = match finished.claim(key, identity, &self.manner(job)) {
            Claim::None => return None,
            Claim::There(stored) => stored,
            Claim::Was(tag) => {
                let there = run.uploads.stored(&mut self.caller, key);
                self.count();
                let is_it = |there: &Stored| {
                    there.tag.as_deref().is_some_and(|own| same_tag(own, &tag))
                        && there.size.is_none_or(|size| size == identity.size)
                };
                there.ok().flatten().filter(is_it)?
            }
        };
        finished.recognises();
        Some(stored)
    }

    /// A file has been stored.
    pub(super) fn finishes(&self, job: usize, identity: Identity, stored: &Stored) {
        if let Some(finished) = &self.run.options.finished {
            finished.stored(&self.run.jobs[job].key, identity, self.manner(job), stored);
        }
    }

    /// How the object of a job is to be stored.
    pub(super) fn manner(&self, job: usize) -> String {
        manner(&self.run.jobs[job].attributes, self.run.options.check)
    }

    /// The journal of a job, if one can be kept.
    pub(super) fn journal(
        &self,
        job: usize,
        source: &Path,
        notes: &mut Vec<String>,
    ) -> Result<(Option<Journal>, Option<Said>), StoreError> {
        let Some(folder) = &self.run.options.journals else { return Ok((None, None)) };
        match Journal::open(folder, source, &(self.run.name)(&self.run.jobs[job].key)) {
            Ok((journal, said)) => Ok((Some(journal), said)),
            Err(error @ JournalError::Busy) => {
                Err(StoreError::Source(format!("cannot send {}: {error}", source.display())))
            }
            Err(error) => {
                notes.push(format!("{error}; an interrupted upload would begin again"));
                Ok((None, None))
            }
        }
    }

    /// What is left of the upload that the journal speaks of, by the store's word.
    pub(super) fn left(
        &mut self,
        job: usize,
        identity: Identity,
        said: Said,
        notes: &mut Vec<String>,
    ) -> Result<Left, StoreError> {
        let is_same = said.intent.identity == identity;
        let is_so = said.intent.manner.as_ref().is_none_or(|manner| *manner == self.manner(job));
        let id = match &said.id {
            Some(id) if is_same && is_so && !self.run.options.fresh => id.clone(),
            _ => {
                if said.id.is_some() && !self.run.options.fresh {
                    notes.push(if is_same { OTHERWISE } else { CHANGED }.to_owned());
                }
                self.discard(job, &said);
                return Ok(Left::Nothing);
            }
        };
        let Intent { plan, algorithm, .. } = said.intent;
        let algorithm = algorithm.and_then(|name| name.parse::<Algorithm>().ok());
        let kept = kept_parts(said.parts, algorithm);
        let upload = Upload { object: self.run.object(job), id: &id };
        let listed = self.run.uploads.parts(&mut self.caller, &upload);
        self.count();
        match listed {
            Ok(Some(there)) => {
                let parts = still_there(kept, &there, plan, identity.size, notes);
                Ok(Left::Upload { id, plan, algorithm, parts })
            }
            Ok(None) => {
                let whole = whole_of(algorithm, &kept, plan, identity.size);
                let is_all = kept.len() == plan.parts(identity.size) as usize;
                let stored =
                    if is_all { self.stored(job, identity.size, whole.as_ref(), &kept) } else { None };
                if stored.is_none() && !kept.is_empty() {
                    notes.push(
                        "the upload of an earlier run is at the store no more; it begins again".to_owned(),
                    );
                }
                Ok(stored.map_or(Left::Nothing, Left::Stored))
            }
            // A right that is missing now is missing in the next run too: kept, the upload would never end.
            Err(error) if error.is_withheld() => {
                notes.push(
                    "the store does not list the parts of an upload, so that of an earlier run begins again"
                        .to_owned(),
                );
                self.abort(job, &id);
                Ok(Left::Nothing)
            }
            Err(StoreError::Answer { what, why }) => {
                let clears = self.run.options.clears;
                Err(StoreError::Answer {
                    what,
                    why: format!(
                        "{why}; {clears} removes what is there, and the same command sends all of it"
                    ),
                })
            }
            Err(error) => Err(error),
        }
    }

    /// The object, if it is what was sent.
    pub(super) fn stored(
        &mut self,
        job: usize,
        size: u64,
        whole: Option<&Sum>,
        parts: &[Part],
    ) -> Option<Stored> {
        let stored = self.run.uploads.stored(&mut self.caller, &self.run.jobs[job].key);
        self.count();
        stored.ok().flatten().filter(|stored| stored.is(size, whole, parts))
    }

    /// An upload of an earlier run is of no use any more.
    pub(super) fn discard(&mut self, job: usize, said: &Said) {
        if let Some(id) = &said.id {
            self.abort(job, id);
            return;
        }
        // It was cut off while the upload was begun: that one was not there before, and has no part.
        let Some(others) = &said.intent.others else { return };
        let object = self.run.object(job);
        unanswered::abort(self.run.uploads, &mut self.caller, &object, (others, None), 1);
    }

    /// What is left of a copy from another store: parts of the version that is still there.
    pub(super) fn left_of(
        &mut self,
        job: usize,
        source: &Elsewhere,
        said: Said,
        notes: &mut Vec<String>,
    ) -> Result<Left, StoreError> {
        let is_still = match (&said.intent.pin, &said.id) {
            (Some(pin), Some(_)) if !self.run.options.fresh => source.is_still(&mut self.source, pin)?,
            _ => false,
        };
        // One that is not there any more is of no size.
        let identity = if is_still { Identity::of_size(source.size) } else { Identity::default() };
        let is_kept = said.intent.kept.as_deref() == source.kept.as_ref().map(|kept| kept.algorithm.name());
        let parts = if is_kept { said.parts.clone() } else { Vec::new() };
        let left = self.left(job, identity, said, notes)?;
        Ok(match left {
            Left::Upload { id, plan, algorithm, parts: there } => {
                let parts = source.known(there, &parts, plan);
                Left::Upload { id, plan, algorithm, parts }
            }
            other => other,
        })
    }
}

/// What an earlier run has sent is there still.
pub(super) fn still_kept(error: StoreError) -> JobReport {
    JobReport { outcome: PutOutcome::Kept(error), ..JobReport::failed(StoreError::Usage(String::new())) }
}

/// It was all there.
pub(super) fn was_stored(
    stored: Stored,
    size: u64,
    journal: Option<Journal>,
    notes: &mut Vec<String>,
) -> JobReport {
    journal.into_iter().for_each(Journal::remove);
    notes.push("it was complete at the store already".to_owned());
    stored_report(stored, size, None)
}

/// What the journal says of the parts that were sent.
fn kept_parts(parts: Vec<KeptPart>, algorithm: Option<Algorithm>) -> Vec<Part> {
    let of = |part: KeptPart| {
        let value = part.sum.as_deref().and_then(|text| hex::decode(text).ok());
        let sum = algorithm.zip(value).map(|(algorithm, value)| Sum { algorithm, value });
        // Without its digest that of the whole is not known.
        let is_known = algorithm.is_none() || sum.is_some();
        is_known.then_some(Part { number: part.number, tag: part.tag, sum })
    };
    parts.into_iter().filter_map(of).collect()
}

/// Those of `kept` that are at the store as they were sent, by its list `there`.
fn still_there(
    kept: Vec<Part>,
    there: &[PartThere],
    plan: Plan,
    size: u64,
    notes: &mut Vec<String>,
) -> Vec<Part> {
    let is_there = |part: &Part| {
        let length = plan.range(part.number, size).1;
        let same = there.iter().find(|other| other.number == part.number);
        same.is_some_and(|other| same_tag(&other.tag, &part.tag) && other.size == length)
    };
    let sent = kept.len();
    let parts: Vec<Part> = kept.into_iter().filter(is_there).collect();
    let again = sent - parts.len();
    if again > 0 {
        notes.push(format!(
            "the store does not list {again} of the {sent} parts of an earlier run as they were sent; they are sent \
             again"
        ));
    }
    parts
}

/// The digest of all of a file from those of its parts.
fn whole_of(algorithm: Option<Algorithm>, parts: &[Part], plan: Plan, size: u64) -> Option<Sum> {
    let algorithm = algorithm?;
    let mut each = parts.iter();
    let first = each.next()?.sum.as_ref()?.value.clone();
    let value = each.try_fold(first, |sum, part| {
        algorithm.combined(&sum, &part.sum.as_ref()?.value, plan.range(part.number, size).1)
    })?;
    Some(Sum { algorithm, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list may write tags in another way than the answers to the parts did.
    #[test]
    fn parts_are_known_by_their_tags_however_they_are_written() {
        let tag = format!("\"{}\"", "0f".repeat(16));
        let kept = || (1..=3).map(|number| Part { number, tag: tag.clone(), sum: None }).collect::<Vec<_>>();
        let there = |number, tag: &str, size| PartThere { number, tag: tag.to_owned(), size };
        let large = tag.trim_matches('"').to_uppercase();
        let (plan, mut notes) = (Plan::of_part(10), Vec::new());
        let all = [there(1, &large, 10), there(2, &tag, 10), there(3, &large, 5)];
        let found = still_there(kept(), &all, plan, 25, &mut notes);
        assert!(notes.is_empty() && found.len() == 3, "{notes:?}");
        // What completes the upload has the tags that the parts were given.
        assert!(found.iter().all(|part| part.tag == tag));
        let some = [there(1, &large, 9), there(2, "other", 10), there(3, &large, 5)];
        let found = still_there(kept(), &some, plan, 25, &mut notes);
        assert_eq!(found.iter().map(|part| part.number).collect::<Vec<_>>(), [3]);
        assert!(notes.iter().any(|note| note.contains("2 of the 3 parts")), "{notes:?}");
    }
}
