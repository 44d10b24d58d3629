//! What is here already under the target's name: a complete file that may be the same on the server (`-N`),
//! or the beginning of one that another program left (`-C -`).
//!
//! A whole file is left alone only where something proves that it is the same; silence proves nothing. A
//! beginning is gone on with under these conditions, and else the object is fetched from byte 0, and it is
//! said why:
//!
//! 1. The server gives parts under a strong validator, by which the rest is known to be of one version
//!    (`If-Range`).
//! 2. The object was not changed after the last byte was written here (`Last-Modified`, where there is one).
//! 3. Its last, its first and its middle bytes are the same there and here. Of a server that sends the rest
//!    and no part before it nothing can be compared: then a `Last-Modified` has to show condition 2.
//!
//! What lies between the compared bytes is taken on trust, which is said, and a digest at the end proves it.
//! The other program's file stays as it is until the whole is verified.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use weir_http::validator::equal_weak;
use weir_units::{Bytes, instant};

use super::opening::Opened;
use super::{Lane, refuse_unfit};
use crate::error::{Fate, GetError};
use crate::http::exchange::Answer;
use crate::job::{FileReport, Job, JobOutcome};
use crate::journal::Journal;
use crate::object::{self, Object, Part};
use crate::pool::Waiting;
use crate::ranges::RangeSet;
use crate::sink::part_file::journal_of;
use crate::sink::stamp::{Stamp, Standing};
use crate::sink::{self, Existing, PartFile, in_place};
use crate::verify::{self, Found};
use crate::version::Version;
use weir_observe::stage_clock::Stage;

/// Bytes compared at each place: a request's worth, little beside any file that is worth going on with, and
/// far more than two files agree in by accident.
const SAMPLE: u64 = 64 << 10;

/// What became of a file that another program left.
enum Adopted {
    /// It is whole.
    Whole(Box<FileReport>),
    /// It is a beginning, copied into a part.
    Part(Box<PartFile>, Journal),
}

/// Why bytes here cannot be joined to those there.
enum Misfit {
    /// The server does not send the part that was asked for, so nothing could be compared.
    NotSent(&'static str),
    /// They are not of this object, or cannot be.
    Another(String),
}

/// A file that another program left.
struct Left {
    file: File,
    size: u64,
    modified: SystemTime,
}

/// The report of a file of this size that stays as it is; these digests of it were `found` right.
pub(super) fn report_of_kept(
    job: &Job,
    target: &Path,
    bytes: u64,
    found: &[Found],
    outcome: JobOutcome,
) -> FileReport {
    FileReport {
        path: Some(target.to_owned()),
        bytes,
        digest: verify::whole(found),
        verified: !found.is_empty(),
        outcome,
        ..job.blank_report()
    }
}

impl Lane<'_> {
    /// What is here of `target`.
    pub(super) fn stamp(&self, target: &Path) -> Option<Stamp> {
        let known_empty = self.run.is_fresh_folder(target);
        let stamp =
            self.run.target(target).ok().filter(|_| !known_empty).and_then(|place| Stamp::read(&place));
        // Where nothing may be replaced a file of the same size that is not older may still be another one.
        stamp.filter(|stamp| self.run.options.existing != Existing::Kept || stamp.is_whole())
    }

    /// The same, where the object could be left alone for it: coded bytes are not what `--compressed` brings.
    pub(super) fn comparable(&self, target: &Path) -> Option<Stamp> {
        self.stamp(target).filter(|here| !here.is_coded() || !self.run.http.is_compressed())
    }

    /// A file that stays as it is has what the user expects of it, or it is said.
    pub(super) fn check_here(&self, job: &Job, target: &Path) -> Result<Vec<Found>, GetError> {
        let methods = verify::methods(&job.expectations);
        if methods.is_empty() {
            return Ok(Vec::new());
        }
        self.state.clock.enter(Stage::Other);
        let digests = sink::open_to_read(target)
            .and_then(|file| verify::digests_of_file(file, &methods, &|| self.run.is_stopped()));
        let failed = |source| GetError::Local { action: "read", path: target.to_owned(), source, kept: None };
        let Some(found) = digests.map_err(failed)? else { return Err(GetError::Interrupted) };
        let name = target.display().to_string();
        let ignored = verify::check(&name, &job.expectations, &found, Fate::LeftAlone)?;
        // What does not match, and is not minded, proves nothing.
        Ok(if ignored.is_empty() { found } else { Vec::new() })
    }

    /// The report of a file that is called by its digest, where another weir has brought it meanwhile. While
    /// that still writes it, it is [`GetError::Locked`], and nothing is asked.
    pub(super) fn brought_by_another(
        &self,
        job: &Job,
        target: &Path,
    ) -> Result<Option<FileReport>, GetError> {
        let place = self.run.target(target)?;
        let home = self.run.home_of(&place)?;
        let part = home.has_part().then(|| PartFile::open(&place, home)).transpose()?;
        let found = self.check_here(job, target).unwrap_or_default();
        if let Some(part) = part
            && (!found.is_empty() || !part.keeps_journal() || !self.has_journal(target))
        {
            // It was made here, or nothing goes on with it, whatever journal lies there.
            part.discard();
        }
        let bytes = std::fs::metadata(target).map_or(0, |there| there.len());
        let is_whole = !found.is_empty();
        Ok(is_whole.then(|| report_of_kept(job, target, bytes, &found, JobOutcome::Unchanged)))
    }

    /// A server says that the object has not changed. The report of the file that stays; `None` where it
    /// cannot be whole.
    pub(super) fn not_modified(
        &mut self,
        job: &Job,
        target: &Path,
        here: &Stamp,
        answer: Answer,
    ) -> Result<Option<Box<FileReport>>, GetError> {
        let (tag, host) = (answer.head.header("etag").map(str::to_owned), object::host_of(&answer.url));
        self.client.keep(&answer.url, answer.body);
        if let (Some(own), Some(theirs)) = (here.tag(), &tag)
            && own != theirs
            && !equal_weak(own, theirs)
        {
            tracing::warn!("{}: {host} says 304, and names another ETag; fetching it", target.display());
            return Ok(None);
        }
        if here.is_whole() {
            return self.stays(job, target, here);
        }
        if self.run.http.is_compressed() {
            // It may hold the coded bytes, whose size would be the same.
            return Ok(None);
        }
        // Of a file that was not finished the same would be said: only its size tells.
        let last = here.size().checked_sub(1);
        let mut answer =
            self.client.get(job.home(), &job.url, last.map(|last| (last, None)), None, self.run.many)?;
        let judged = answer.judge(last);
        self.client.close();
        match judged {
            Ok(Part::Asked(object) | Part::Whole(object)) => {
                self.unchanged(job, Some(target), object.size, &object.version)
            }
            Ok(Part::Empty) if last.is_none() => self.stays(job, target, here),
            _ => {
                tracing::warn!(
                    "{}: it has not the size of the object on {host}; fetching it",
                    target.display()
                );
                Ok(None)
            }
        }
    }

    /// The report of a file that is here and is the object that the server has, of this `size`, where that is
    /// known, and `version`; `None` where that is not proven.
    pub(super) fn unchanged(
        &mut self,
        job: &Job,
        target: Option<&Path>,
        size: Option<u64>,
        version: &Version,
    ) -> Result<Option<Box<FileReport>>, GetError> {
        let Some((target, here)) = target.and_then(|target| Some((target, self.comparable(target)?))) else {
            return Ok(None);
        };
        match here.compare(size, version.validators()) {
            Standing::Same => self.stays(job, target, &here),
            Standing::Changed(why) => {
                tracing::info!("{}: {why} on the server; fetching it", target.display());
                Ok(None)
            }
            Standing::Unknown(why) => {
                tracing::warn!("{}: cannot tell whether it changed: {why}; fetching it", target.display());
                Ok(None)
            }
        }
    }

    /// The file stays, if it has the digests that the user expects.
    fn stays(&self, job: &Job, target: &Path, here: &Stamp) -> Result<Option<Box<FileReport>>, GetError> {
        let found = match self.check_here(job, target) {
            Err(error) if error.is_verification() => {
                tracing::warn!("{}: it is not what is expected of it; fetching it", target.display());
                return Ok(None);
            }
            found => found?,
        };
        if let Some(detail) =
            job.pinned.as_ref().and_then(|own| own.differs(Some(here.size()), here.tag(), None))
        {
            return Err(GetError::NotPinned { host: object::host_of(&job.url), detail });
        }
        self.clear_after_another(job, target)?;
        let report = report_of_kept(job, target, here.size(), &found, JobOutcome::Unchanged);
        Ok(Some(Box::new(report)))
    }

    /// A host of a shared tree that ended right after it had given the file its name left the journal.
    fn clear_after_another(&self, job: &Job, target: &Path) -> Result<(), GetError> {
        if self.run.options.existing == Existing::Kept && self.has_journal(target) {
            self.fresh_part(job, target)?.discard();
        }
        Ok(())
    }

    /// Goes on with what another program left at `target`. `None`: that cannot be, which was said.
    pub(super) fn go_on_after_another(
        &mut self,
        waiting: &mut Waiting,
        job: &Job,
        target: &Path,
    ) -> Result<Option<Opened>, GetError> {
        match self.adopt(waiting.job, job, target)? {
            Some(Adopted::Whole(report)) => Ok(Some(Opened::kept(&mut waiting.download, *report))),
            Some(Adopted::Part(part, journal)) => {
                waiting.download.on_adopted();
                self.resume(waiting, job, *part, &journal)
            }
            None => Ok(None),
        }
    }

    /// Takes over what another program left at `target`. `None`: there is nothing, or it is of no use, which
    /// is said.
    fn adopt(&mut self, index: usize, job: &Job, target: &Path) -> Result<Option<Adopted>, GetError> {
        let Some(left) = left_at(target) else { return Ok(None) };
        let control = target.with_added_extension("aria2");
        let adopted = if control.exists() {
            Err(format!("{} says that it was filled in several places at once", control.display()))
        } else {
            self.try_adopt(index, job, target, &left)?
        };
        match adopted {
            Ok(adopted) => Ok(Some(adopted)),
            Err(why) => {
                let kept = Bytes(left.size);
                tracing::warn!(
                    "{}: cannot resume after its {kept}: {why}; starting at byte 0",
                    target.display()
                );
                Ok(None)
            }
        }
    }

    fn try_adopt(
        &mut self,
        index: usize,
        job: &Job,
        target: &Path,
        left: &Left,
    ) -> Result<Result<Adopted, String>, GetError> {
        let length = left.size.min(SAMPLE);
        let last = match self.sample(job, target, left, left.size - length, length)? {
            Ok(object) => object,
            Err(Misfit::NotSent(why)) => return self.adopt_unseen(index, job, target, left, why),
            Err(Misfit::Another(why)) => return Ok(Err(why)),
        };
        let size = last.size.unwrap_or_default();
        if let Some(why) = refuse_to_join(left, &last) {
            return Ok(Err(why));
        }
        let mut compared = length;
        // The middle one of a short file lies between the two others.
        let middle = if left.size <= 3 * SAMPLE { SAMPLE } else { left.size / 2 };
        for at in [0, middle] {
            let length = left.size.saturating_sub(compared).min(SAMPLE);
            if length == 0 {
                continue;
            }
            match self.sample(job, target, left, at, length)? {
                Ok(object) => {
                    let host = object::host_of(&job.url);
                    if let Err(error) = last.version.refuse_another(&object.version, &host) {
                        return Ok(Err(error.to_string()));
                    }
                }
                Err(Misfit::NotSent(why)) => return Ok(Err(why.to_owned())),
                Err(Misfit::Another(why)) => return Ok(Err(why)),
            }
            compared += length;
        }
        let trust = trusted(left, &last, compared);
        if left.size == size {
            return self.is_whole(job, target, left, &last, &trust);
        }
        tracing::warn!("{}: resuming after its {}{trust}", target.display(), Bytes(left.size));
        self.take_over(index, job, target, left, &last, size).map(Ok)
    }

    /// The server sends no part to compare, for the reason `why`. The rest may be had all the same, and a
    /// date may show that the object has not changed since the bytes here were written.
    fn adopt_unseen(
        &mut self,
        index: usize,
        job: &Job,
        target: &Path,
        left: &Left,
        why: &'static str,
    ) -> Result<Result<Adopted, String>, GetError> {
        let rest = Some((left.size, None));
        let mut answer = self.client.get(job.home(), &job.url, rest, None, self.run.many)?;
        self.client.close();
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        if let Err(error) = refuse_unfit(&name, &answer, true) {
            return Ok(Err(error.to_string()));
        }
        let judged = answer.judge(Some(left.size));
        let Ok(Part::Asked(object)) = judged else { return Ok(Err(why.to_owned())) };
        let Some(size) = object.size.filter(|size| *size > left.size) else { return Ok(Err(why.to_owned())) };
        if let Some(other) = refuse_to_join(left, &object) {
            return Ok(Err(other));
        }
        if object.version.validators().modified().is_none() {
            return Ok(Err(format!("{why}, and nothing says when the object was changed")));
        }
        tracing::warn!(
            "{}: resuming after its {} without comparing them, since {why}; the object is unchanged since they were written, so they are taken on trust (--checksum proves the whole, --force starts at byte 0)",
            target.display(),
            Bytes(left.size)
        );
        self.take_over(index, job, target, left, &object, size).map(Ok)
    }

    /// The object as an answer with the bytes from `at` on shows it, if these bytes are the same here.
    fn sample(
        &mut self,
        job: &Job,
        target: &Path,
        left: &Left,
        at: u64,
        length: u64,
    ) -> Result<Result<Object, Misfit>, GetError> {
        let range = Some((at, Some(at + length)));
        let mut answer = self.client.get(job.home(), &job.url, range, None, self.run.many)?;
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        if let Err(error) = refuse_unfit(&name, &answer, true) {
            return Ok(Err(Misfit::Another(error.to_string())));
        }
        let object = match answer.judge(Some(at)) {
            Ok(Part::Asked(object)) if object.size.is_none_or(|size| size >= left.size) => object,
            Ok(Part::Asked(Object { size: Some(size), .. }) | Part::Beyond(Some(size)))
                if size < left.size =>
            {
                self.client.close();
                let why = format!("the object has only {size} bytes, and {} are here", left.size);
                return Ok(Err(Misfit::Another(why)));
            }
            Ok(_) | Err(GetError::WrongPart { .. }) => {
                self.client.close();
                return Ok(Err(Misfit::NotSent("the server gives no parts")));
            }
            Err(error) => {
                self.client.keep(&answer.url, answer.body);
                return Err(error);
            }
        };
        // One that knows only where a range begins sends more.
        if object.holds_to.is_none_or(|end| end < at + length) {
            self.client.close();
            return Ok(Err(Misfit::NotSent("the server gives other parts than those asked for")));
        }
        let there = self.read_first(answer, length as usize)?;
        let mut here = vec![0; length as usize];
        left.file.read_exact_at(&mut here, at).map_err(|source| cannot_read(target, source))?;
        match there == here {
            true => Ok(Ok(object)),
            false => Ok(Err(Misfit::Another(format!("the object has other bytes from byte {at} on")))),
        }
    }

    /// The first `length` bytes of the answer's body; the connection is kept where there are no more.
    fn read_first(&mut self, mut answer: Answer, length: usize) -> Result<Vec<u8>, GetError> {
        let mut first = Vec::with_capacity(length);
        while first.len() < length && !answer.body.is_end() {
            if self.client.dial().is_stopped() {
                return Err(GetError::Interrupted);
            }
            let wanted = self.piece().min(length - first.len());
            let got = answer.body.fill(wanted, &self.state.clock, self.client.dial())?;
            answer.body.pieces().for_each(|piece| first.extend_from_slice(piece));
            self.received(got as u64, answer.body.on_the_wire(got as u64));
        }
        first.truncate(length);
        self.client.keep(&answer.url, answer.body);
        Ok(first)
    }

    /// A file of the object's size stays, if it has its digests.
    fn is_whole(
        &self,
        job: &Job,
        target: &Path,
        left: &Left,
        object: &Object,
        trust: &str,
    ) -> Result<Result<Adopted, String>, GetError> {
        let mut expected = job.clone();
        expected.expectations.extend(self.declared(object));
        let found = match self.check_here(&expected, target) {
            Err(error) if error.is_verification() => {
                return Ok(Err("it has the object's size and not its digest".to_owned()));
            }
            found => found?,
        };
        if found.is_empty() {
            tracing::warn!("{}: it has the size of the object already{trust}", target.display());
        }
        let report = report_of_kept(job, target, left.size, &found, JobOutcome::Unchanged);
        Ok(Ok(Adopted::Whole(Box::new(report))))
    }

    /// Copies what is here into a part of its own, with a journal that vouches for it.
    fn take_over(
        &mut self,
        index: usize,
        job: &Job,
        target: &Path,
        left: &Left,
        object: &Object,
        size: u64,
    ) -> Result<Adopted, GetError> {
        self.run.take_name(target, index, job)?;
        let part = self.fresh_part(job, target)?;
        part.reserve(size).inspect_err(|_| part.discard())?;
        self.state.clock.enter(Stage::Write);
        let copied = in_place::copy_while(&left.file, part.file(), left.size, &|| !self.run.is_stopped());
        self.state.clock.enter(Stage::Other);
        copied.map_err(|(_, source)| {
            part.discard();
            match source.kind() {
                std::io::ErrorKind::Interrupted => GetError::Interrupted,
                _ => part.failed("copy", source, None),
            }
        })?;
        let done: RangeSet = std::iter::once(0..left.size).collect();
        let url = object::identity(&job.url);
        let journal = journal_of(&url, &object.version, size, &done, &RangeSet::default());
        if part.keeps_journal() {
            part.store(&journal, false)?;
        }
        Ok(Adopted::Part(Box::new(part), journal))
    }
}

/// A file that another program left at `target`, if it holds anything.
fn left_at(target: &Path) -> Option<Left> {
    let file = sink::open_to_read(target).ok()?;
    let metadata = file.metadata().ok()?;
    let (size, modified) = (metadata.len(), metadata.modified().ok()?);
    (size > 0).then_some(Left { file, size, modified })
}

/// Why `object` cannot be what was begun, or the rest of it not be known for that.
fn refuse_to_join(left: &Left, object: &Object) -> Option<String> {
    if object.version.if_range().is_none() {
        return Some(
            "the server gives no strong ETag and no Last-Modified that would prove what the rest is of"
                .to_owned(),
        );
    }
    let changed = object.version.validators().modified()?;
    // No field has more than seconds: what was changed in the second of the last byte may have been changed
    // after it. A time of whole seconds is the server's own.
    let is_before = changed == left.modified || changed + Duration::from_secs(1) <= left.modified;
    (!is_before).then(|| {
        format!(
            "the object was changed at {} UTC, after the last byte was written here ({} UTC)",
            instant::shown(changed),
            instant::shown(left.modified)
        )
    })
}

/// What was compared and what is believed, in words.
fn trusted(left: &Left, object: &Object, compared: u64) -> String {
    if compared == left.size {
        return ", all of which were compared".to_owned();
    }
    let unchanged = match object.version.validators().modified() {
        Some(_) => "the object is unchanged since they were written",
        None => "nothing says when the object was changed",
    };
    format!(
        ", {} of which were compared; {unchanged}, and the others are taken on trust (--checksum proves the whole, --force \
         starts at byte 0)",
        Bytes(compared)
    )
}

fn cannot_read(target: &Path, source: std::io::Error) -> GetError {
    GetError::Local { action: "read", path: target.to_owned(), source, kept: None }
}
