//! What a job is refused before bytes of it are stored: places that are none, names that are taken, answers
//! that say too little of what is here.

use std::path::Path;

use super::Lane;
use super::here::report_of_kept;
use super::opening::{is_another, target_after};
use crate::error::GetError;
use crate::http::exchange::Answer;
use crate::job::{FileReport, Job, JobOutcome};
use crate::journal::Journal;
use crate::object::{self, Object};
use crate::sink::{self, Existing};

impl Lane<'_> {
    /// Errors, and the report of a job that is already done, before anything is asked.
    pub(super) fn check_target(&self, job: &Job, target: &Path) -> Result<Option<FileReport>, GetError> {
        if self.run.is_fresh_folder(target) {
            return Ok(None);
        }
        if let Some(unfit) = sink::unfit(&self.run.target(target)?) {
            return Err(GetError::Refused(format!("cannot write {}: it is {unfit}", target.display())));
        }
        match std::fs::metadata(target) {
            Ok(metadata) if metadata.is_dir() && !target.is_symlink() => {
                Err(GetError::IsDirectory { path: target.to_owned() })
            }
            Ok(_) if self.run.options.existing == Existing::Stays => self.skipped(job, target).map(Some),
            _ => Ok(None),
        }
    }

    /// The report of a file that stays (`--no-clobber`), if it has what the user expects of it.
    fn skipped(&self, job: &Job, target: &Path) -> Result<FileReport, GetError> {
        let found = self.check_here(job, target)?;
        let bytes = std::fs::metadata(target).map_or(0, |there| there.len());
        Ok(report_of_kept(job, target, bytes, &found, JobOutcome::Skipped))
    }

    /// The same of a file that came while its object was fetched; any other error as it is.
    pub(super) fn stays_after_all(&self, job: &Job, error: GetError) -> Result<FileReport, GetError> {
        match error {
            // A link that leads nowhere is no file that could stay.
            GetError::Differs { path } if self.run.options.existing == Existing::Stays && path.exists() => {
                self.skipped(job, &path)
            }
            error => Err(error),
        }
    }

    /// A file that is here gives way to one whose name the user wrote, or that its URL has; not to any that a
    /// server chooses, unless the user has the two compared (`-N`) and this URL brought that one too.
    pub(super) fn refuse_a_name_taken(
        &self,
        job: &Job,
        target: Option<&Path>,
        answer: &Answer,
    ) -> Result<(), GetError> {
        let Some(target) = target.filter(|target| self.is_taken(target)) else { return Ok(()) };
        if self.run.options.newer && self.stamp(target).is_some_and(|here| here.is_from(&job.url)) {
            return Ok(());
        }
        let shown = |path: &Path| path.strip_prefix(".").unwrap_or(path).display().to_string();
        let here = shown(target);
        let who = match target_after(job, answer) {
            // A number made it another.
            Some(wanted) if wanted != target => {
                format!("'{}' is another file's of this run, and '{here}'", shown(&wanted))
            }
            _ => {
                format!("{} names {} '{here}', which", object::host_of(&answer.url), job.file_name())
            }
        };
        Err(GetError::Refused(format!("{who} already exists; pass -o '{here}' or --force to overwrite it")))
    }

    /// Nobody wrote the name that a URL without one gets (`index.html`): a file that is here gives way to it
    /// only where the user has the two compared (`-N`), or a part of this URL is to replace it.
    pub(super) fn refuse_a_default_name(&self, job: &Job, target: &Path) -> Result<(), GetError> {
        let may_be = self.run.options.newer || job.is_named() || !self.is_taken(target);
        if may_be || self.resumable(job, target).is_some() {
            return Ok(());
        }
        let here = target.strip_prefix(".").unwrap_or(target).display();
        Err(GetError::Refused(format!(
            "the URL names no file, and '{here}' already exists; pass -o '{here}' or --force to overwrite it"
        )))
    }

    /// Something is here that the user has not given up by `--force`.
    fn is_taken(&self, target: &Path) -> bool {
        !self.run.options.fresh && !self.run.is_fresh_folder(target) && target.exists()
    }

    /// A part that an earlier run left under a validator does not give way to an answer without one and of
    /// another size.
    pub(super) fn refuse_silence(
        &self,
        job: &Job,
        target: &Path,
        answer: &Answer,
        object: &Object,
    ) -> Result<(), GetError> {
        if self.run.options.fresh || !object.version.is_silent() {
            return Ok(());
        }
        self.resumable(job, target).map_or(Ok(()), |left| {
            object.refuse_silence(&left.version(), Some(left.size), &object::host_of(&answer.url))
        })
    }

    /// The journal of a part of this job's object at `target` that an earlier run left.
    pub(super) fn resumable(&self, job: &Job, target: &Path) -> Option<Journal> {
        if self.run.is_fresh_folder(target) {
            return None;
        }
        let home = self.run.target(target).and_then(|place| self.run.home_of(&place)).ok()?;
        home.resumable(&object::identity(&job.url)).filter(|left| !is_another(job, left))
    }

    /// What may not be replaced and cannot be `object` is said before its bytes are fetched. A file of its
    /// size is compared with them when they are here.
    pub(super) fn check_free(&self, target: &Path, object: &Object) -> Result<(), GetError> {
        if self.run.options.existing == Existing::Replaced {
            return Ok(());
        }
        let there = match std::fs::symlink_metadata(target) {
            Ok(there) => there,
            Err(_) => return Ok(()),
        };
        let may_be = there.is_file() && object.size.is_none_or(|size| size == there.len());
        if may_be { Ok(()) } else { Err(GetError::Differs { path: target.to_owned() }) }
    }
}
