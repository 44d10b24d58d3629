//! A large object that several workers send into a store: each range is some parts of one upload, whose name
//! at the store all of them have by the ledger, and whoever finds all parts told of makes the object of them,
//! under the condition that nothing has its key.
//!
//! Parts have numbers, so a range that is sent twice is there once. A worker that begins an upload says so to
//! the ledger before it sends a byte; where another one was faster it takes its own away. What was begun for
//! an object that is given up is a batch of the ledger, which some worker takes away.

use weir_get::GetError;
use weir_store::StoreError;
use weir_store::caller::Caller;
use weir_store::condition::Condition;
use weir_store::listing::Looked;
use weir_store::store::Store;
use weir_store::upload::job::{CLEARS, Job, JobShare, Source};
use weir_store::upload::shared::{SharedPart, SharedUpload, part_within};
use weir_store::upload::{Object, Part, Sum};

use super::MoverRun;
use super::across::StoreEnd;
use super::desk::{Shared, TaskEnd};
use super::why::class_of_store;
use crate::class::FailureClass;
use crate::object::ObjectRange;

/// How a step failed: for the store's or the source's sake, or as told.
pub(super) enum PartsError {
    Store(StoreError),
    End(TaskEnd),
}

impl From<StoreError> for PartsError {
    fn from(error: StoreError) -> PartsError {
        PartsError::Store(error)
    }
}

fn ends(class: FailureClass, reason: String) -> PartsError {
    PartsError::End(TaskEnd::Failed(class, reason))
}

/// Whether an object that was joined has the digest that its source names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verified {
    Whole,
    Not(&'static str),
}

/// Whose key it is, and what is known of what has it.
pub(super) struct PartsTarget<'a> {
    pub(super) to: &'a StoreEnd,
    /// What has the key is the source's object, without reading that.
    pub(super) is_same: &'a dyn Fn(&Looked) -> bool,
    /// Bytes of a part that the source is best read in.
    pub(super) wish: u64,
}

impl PartsTarget<'_> {
    fn store(&self) -> &dyn Store {
        &*self.to.store
    }

    fn shown(&self, key: &str) -> String {
        format!("{}{key}", self.to.shown)
    }

    /// `Some`: something has the key; that is the object, or it stays.
    fn there(&self, caller: &mut Caller<'_>, key: &str) -> Result<Option<bool>, PartsError> {
        let there = self.store().lists().look(caller, key, None, None)?;
        Ok(there.map(|there| (self.is_same)(&there)))
    }

    fn is_kept(&self, key: &str) -> PartsError {
        ends(
            FailureClass::Name,
            format!(
                "{} exists and is not known to be what the source has; it is kept: move it away, or choose another \
                 target",
                self.shown(key)
            ),
        )
    }

    /// The job of a range: `whole` is that of all of the object.
    pub(super) fn range(
        &self,
        run: &MoverRun<'_>,
        caller: &mut Caller<'_>,
        range: &ObjectRange,
        whole: Job,
    ) -> Result<Job, PartsError> {
        let size = whole.size.unwrap_or_default();
        let known = range.token.as_deref().map(|token| parsed(token, &self.shown(&whole.key))).transpose()?;
        let upload = match known {
            Some(upload) => upload,
            None => match self.there(caller, &whole.key)? {
                Some(true) => {
                    return Err(PartsError::End(TaskEnd::Same(range.range.end - range.range.start)));
                }
                Some(false) => return Err(self.is_kept(&whole.key)),
                None => self.begin(run, caller, range, &whole)?,
            },
        };
        if upload.numbers(&range.range, size).is_none() {
            let why = format!("a range of {} is no whole parts of its upload", self.shown(&whole.key));
            return Err(ends(FailureClass::Invalid, why));
        }
        Ok(Job { share: Some(JobShare { upload, bytes: range.range.clone() }), ..whole })
    }

    /// Begins the upload, unless another worker was faster.
    fn begin(
        &self,
        run: &MoverRun<'_>,
        caller: &mut Caller<'_>,
        range: &ObjectRange,
        job: &Job,
    ) -> Result<SharedUpload, PartsError> {
        let requests = self.store().uploads();
        let size = job.size.unwrap_or_default();
        let of_a_range =
            range.range.start.checked_div(range.part).filter(|length| *length > 0).unwrap_or(range.range.end);
        let Some(part) = part_within(of_a_range, size, &requests.bounds(), self.wish) else {
            let why = format!(
                "{}: its ranges of {of_a_range} bytes are no parts that the store takes; plan it again",
                self.shown(&job.key)
            );
            return Err(ends(FailureClass::Invalid, why));
        };
        let object = Object { key: &job.key, attributes: &job.attributes, condition: &Condition::Absent };
        let own = SharedUpload::begin(requests, caller, &object, part)?;
        let shared = run.desk.share(range.large, &own.text());
        let is_free = match &shared {
            Shared::As(token) => *token != own.text(),
            Shared::Never => true,
            // Others may send into it.
            Shared::Unknown => {
                tracing::warn!(
                    "whether the ledger knows of the upload {} of {} is not known: {CLEARS} removes it if nobody \
                     fills it",
                    own.id,
                    self.shown(&job.key)
                );
                false
            }
        };
        if is_free && let Err(error) = own.abort(requests, caller, &object) {
            tracing::warn!("the upload {} of {} is left: {error}", own.id, self.shown(&job.key));
        }
        match shared {
            Shared::As(token) if token.is_empty() => {
                Err(ends(FailureClass::Other, "it was given up meanwhile".to_owned()))
            }
            Shared::As(token) if token == own.text() => Ok(own),
            Shared::As(token) => parsed(&token, &self.shown(&job.key)),
            Shared::Never | Shared::Unknown => Err(StoreError::Http(GetError::Interrupted).into()),
        }
    }

    /// Makes the object of what was told of its ranges. `kept`: the digest that it has to have, which `must`
    /// be verified.
    pub(super) fn join(
        &self,
        caller: &mut Caller<'_>,
        (range, notes): (&ObjectRange, &[String]),
        job: &Job,
        (kept, must): (Option<&Sum>, bool),
    ) -> Result<(TaskEnd, Verified), PartsError> {
        let shown = self.shown(&job.key);
        let size = job.size.unwrap_or_default();
        let Some(token) = &range.token else {
            // All ranges found it there.
            return match self.there(caller, &job.key)? {
                Some(true) => Ok((TaskEnd::Same(0), Verified::Whole)),
                Some(false) => Err(self.is_kept(&job.key)),
                None => {
                    Err(ends(FailureClass::Changed, format!("{shown} was there, and is gone; plan it again")))
                }
            };
        };
        let upload = parsed(token, &shown)?;
        let mut parts = Vec::new();
        for note in notes.iter().filter(|note| !note.is_empty()) {
            let told = SharedPart::parse(note);
            parts.extend(
                told.ok_or_else(|| ends(FailureClass::Other, format!("the parts of {shown} make no sense")))?,
            );
        }
        parts.sort_by_key(|part| part.number);
        let mut verified = Verified::Not("no digest of all of it is known");
        if let Some(kept) = kept {
            let by_parts = upload.whole(&parts, size).filter(|sum| sum.algorithm == kept.algorithm);
            let found = by_parts.or_else(|| upload.kept(kept.algorithm, &parts, size));
            let name = kept.algorithm.name();
            verified = match &found {
                Some(found) if found == kept => Verified::Whole,
                Some(_) => {
                    let why = format!("{name} of the parts of {shown} is not the one that it must have");
                    return Err(ends(FailureClass::Digest, why));
                }
                None if must => {
                    let why = format!("{name} of {shown} cannot be told from its parts; plan it again");
                    return Err(ends(FailureClass::Digest, why));
                }
                None => Verified::Not("the digest that is known does not add up from parts"),
            };
        }
        let object = Object { key: &job.key, attributes: &job.attributes, condition: &Condition::Absent };
        match upload.complete(self.store().uploads(), caller, &object, &parts, size) {
            Ok(_) => Ok((TaskEnd::Moved(0), verified)),
            Err(error) if error.is_condition() => Err(self.is_kept(&job.key)),
            // Somebody has completed it before, and could not say so.
            Err(error) if error.is_of_no_upload() && self.there(caller, &job.key)? == Some(true) => {
                Ok((TaskEnd::Same(0), verified))
            }
            Err(error) => Err(of_no_upload(&error, &shown).map_or(PartsError::Store(error), PartsError::End)),
        }
    }

    /// Takes an upload away.
    pub(super) fn abort(
        &self,
        caller: &mut Caller<'_>,
        token: &str,
        key: &str,
    ) -> Result<TaskEnd, PartsError> {
        let upload = parsed(token, &self.shown(key))?;
        let attributes = weir_store::upload::Attributes::default();
        let object = Object { key, attributes: &attributes, condition: &Condition::None };
        let ended = upload.abort(self.store().uploads(), caller, &object);
        if let Err(error) = &ended {
            tracing::warn!(
                "the upload {} of {} is left: {error}; weir put --abort removes it",
                upload.id,
                self.shown(key)
            );
        }
        ended?;
        Ok(TaskEnd::Same(0))
    }
}

/// Why an object of which a share was sent, or all were to be joined, has failed, if it is that somebody has
/// taken its upload away, and its parts with it.
pub(super) fn of_no_upload(error: &StoreError, shown: &str) -> Option<TaskEnd> {
    let why = || {
        format!(
            "the upload of {shown} is at the store no more, and its parts with it ({error}); weir fleet retry begins \
             again"
        )
    };
    error.is_of_no_upload().then(|| TaskEnd::Failed(FailureClass::Invalid, why()))
}

/// What is told of the parts of a range.
pub(super) fn note(source: &Source, parts: &[Part]) -> String {
    let kept = match source {
        Source::Elsewhere(source) => source.sums(),
        Source::File(_) | Source::Stdin => std::collections::BTreeMap::new(),
    };
    let of = |part: &Part| SharedPart::of(part, kept.get(&part.number).map(Vec::as_slice));
    SharedPart::text(&parts.iter().map(of).collect::<Vec<_>>())
}

fn parsed(token: &str, shown: &str) -> Result<SharedUpload, PartsError> {
    SharedUpload::parse(token).ok_or_else(|| {
        ends(FailureClass::Other, format!("what the ledger says of the upload of {shown} makes no sense"))
    })
}

impl PartsError {
    /// As the end of a task, with `shown` before a store's words.
    pub(super) fn end(self, shown: &str) -> TaskEnd {
        match self {
            PartsError::End(end) => end,
            PartsError::Store(error) => TaskEnd::Failed(class_of_store(&error), format!("{shown}: {error}")),
        }
    }
}
