//! From a folder into a folder, both reached from this host (a shared file system): each file is copied by
//! the kernel, which can leave that to the file system or its server (`copy_file_range(2)`).
//!
//! A file counts as copied when it was read to its end, is as it was when it was opened, and the part has its
//! size, and its digest where the manifest names one. A copy that is cut off begins anew. Without a folder to
//! copy into the file is read to its end and counted.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use rustix::io::Errno;
use weir_codec::digest::{Digest, Expected};
use weir_get::GetError;
use weir_get::job::Observer;
use weir_get::sink::attributes::NewFile;
use weir_get::sink::folder::{Folders, Target};
use weir_get::sink::home::Home;
use weir_get::sink::{PartFile, small_file};
use weir_observe::stage_clock::Stage;
use weir_store::tree::content;
use weir_tree::compare::Keep;
use weir_tree::{Name, TreeError, destination, source};
use weir_units::Rate;

use super::crew::{self, Crew};
use super::desk::{Desk, FleetTask, TaskEnd, TaskShare};
use super::hand::{COPY, Hand};
use super::target::TargetTree;
use super::why::{class_of, class_of_io};
use super::{Mover, MoverRun};
use crate::class::FailureClass;
use crate::object::FleetObject;
use crate::reading::{self, Unread};

/// Files at once: copies wait for disks and servers, and eight keep most of them busy.
const HANDS: usize = 8;

/// Read and written whole up to here.
const SMALL: u64 = 64 << 10;

/// Copied with a call: some milliseconds of a fast disk, after which a signal is heard and the rate is kept.
const PIECE: usize = 8 << 20;

/// Read and written at a time where the kernel cannot copy between the two.
const BUFFER: usize = 1 << 20;

/// After each eighth call some bytes are read and written apart: 2 % of all.
const APART: u32 = 8;

/// Bytes a second that no memory carries: a file system that lets two files share their bytes is not made to
/// copy some of them after all.
const SHARING: f64 = 20e9;

/// How opening a file fails where something else has its name: a folder or a pipe, a link, a socket; or where
/// a file has that of a folder on the way.
const OF_OTHER_KINDS: [Errno; 4] = [Errno::INVAL, Errno::LOOP, Errno::NXIO, Errno::NOTDIR];

/// A mover between two folders.
pub struct LocalCopy {
    from: weir_tree::Target,
    /// The file that is planned alone, in that folder.
    only: Option<Name>,
    to: Option<TargetTree>,
    hands: usize,
    folders: Folders,
    moved: AtomicU64,
}

/// What a file is and was when it was opened.
#[derive(PartialEq, Eq)]
struct SeenFile {
    inode: (u64, u64),
    size: u64,
    modified: (i64, i64),
}

impl SeenFile {
    fn of(file: &File) -> io::Result<SeenFile> {
        let data = file.metadata()?;
        Ok(SeenFile {
            inode: (data.dev(), data.ino()),
            size: data.size(),
            modified: (data.mtime(), data.mtime_nsec()),
        })
    }

    /// What a copy of `file` has beside its bytes: not its set-user-id bit and its kin, which were given to
    /// another name.
    fn of_a_copy(&self, file: &File) -> NewFile {
        let new = NewFile { modified: Some(self.modified), ..NewFile::default() };
        file.metadata().map_or(new, |data| NewFile { mode: data.mode() & 0o777, ..new })
    }

    fn nanoseconds(&self) -> Option<i64> {
        self.modified.0.checked_mul(1_000_000_000)?.checked_add(self.modified.1)
    }
}

/// A file of the manifest that is to be copied, open, as it was then.
struct OpenedObject<'a> {
    object: &'a FleetObject,
    file: File,
    seen: SeenFile,
}

impl LocalCopy {
    /// From the folder, or the file, `from` into the folder `to`, which are there, or to nowhere; so many
    /// files at once.
    pub fn new(from: &Path, to: Option<&Path>, hands: Option<u32>) -> Result<LocalCopy, TreeError> {
        let keep = Keep { modes: false, times: false, users: false, groups: false, xattrs: false };
        let options = destination::Options { keep, create: false, ..destination::Options::default() };
        let (folder, only) = match (from.is_file(), from.parent(), from.file_name()) {
            (true, Some(folder), Some(name)) => (folder, Name::new(name.as_bytes()).ok()),
            _ => (from, None),
        };
        Ok(LocalCopy {
            from: weir_tree::Target::open(folder, options)?,
            only,
            to: to.map(TargetTree::open).transpose()?,
            hands: hands.map_or(HANDS, |hands| hands as usize),
            folders: Folders::default(),
            moved: AtomicU64::new(0),
        })
    }

    /// Copies; `Ok(None)`: the run was ended.
    fn one(&self, limits: Limits<'_>, task: &FleetTask) -> Result<Option<TaskEnd>, TaskEnd> {
        let object = &*task.object;
        if task.share != TaskShare::Whole {
            let reason = format!("cannot copy a part of {} alone; plan it whole", object.source_text());
            return Err(TaskEnd::Failed(FailureClass::Invalid, reason));
        }
        let Some(to) = &self.to else { return self.count(object, limits) };
        let path = to.place(object)?;
        let from = self.open(object)?;
        let cannot = |error: &io::Error| failed(&path, error);
        let target = self.folders.target(&path).map_err(|error| cannot(&error))?;
        if target.look().map_err(|error| cannot(&error))?.is_some() {
            return from.is_there(&target, limits);
        }
        if from.seen.size <= SMALL {
            let copied = from.small(&target, limits)?;
            return Ok(copied.then_some(TaskEnd::Moved(from.seen.size)));
        }
        let end = from.large(&target, limits)?;
        to.leftovers.is_placed(&path);
        Ok(end)
    }

    /// Reads it to its end and keeps nothing.
    fn count(&self, object: &FleetObject, limits: Limits<'_>) -> Result<Option<TaskEnd>, TaskEnd> {
        let from = self.open(object)?;
        let expected = expected(object)?;
        let mut found = expected.as_ref().map(|expected| expected.algorithm().start());
        let piece = u64::try_from(BUFFER.min(limits.piece())).unwrap_or(u64::MAX);
        let mut buffer = vec![0; usize::try_from(from.seen.size.min(piece)).unwrap_or_default()];
        let mut at = 0;
        while at < from.seen.size {
            let length = usize::try_from((from.seen.size - at).min(piece)).unwrap_or_default();
            limits.hand.clock.enter(Stage::Read);
            from.file.read_exact_at(&mut buffer[..length], at).map_err(|error| from.cannot_read(&error))?;
            limits.hand.clock.enter(Stage::Verify);
            found.iter_mut().for_each(|found| found.update(&buffer[..length]));
            at += length as u64;
            if !limits.pass(length as u64) {
                return Ok(None);
            }
        }
        from.is_as_it_was()?;
        is_meant(object, expected.as_ref(), found)?;
        Ok(Some(TaskEnd::Moved(from.seen.size)))
    }

    fn open<'a>(&self, object: &'a FleetObject) -> Result<OpenedObject<'a>, TaskEnd> {
        let shown = object.source_text();
        let bad = |class, why: String| TaskEnd::Failed(class, format!("cannot read '{shown}': {why}"));
        let name = Name::new(object.source.as_slice())
            .map_err(|invalid| bad(FailureClass::Invalid, invalid.to_string()))?;
        let name = self.only.as_ref().filter(|_| name.is_root()).unwrap_or(&name);
        let file = self.from.open_existing(name).map_err(|error| {
            let cause = std::error::Error::source(&error);
            let cause = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
            let errno = error.errno().map(Errno::from_raw_os_error);
            if errno.is_some_and(|errno| OF_OTHER_KINDS.contains(&errno)) {
                let why = "it is no file any more; make a new plan for it".to_owned();
                return bad(FailureClass::Changed, why);
            }
            let class = match cause {
                Some(cause) if cause.kind() == io::ErrorKind::NotFound => FailureClass::Missing,
                Some(cause) => class_of_io(cause),
                None => FailureClass::Invalid,
            };
            bad(class, error.to_string())
        })?;
        let seen =
            SeenFile::of(&file).map_err(|error| bad(class_of_io(&error), weir_units::plain(&error)))?;
        let is_other = object.size.is_some_and(|size| size != seen.size)
            || object.mtime.is_some_and(|mtime| seen.nanoseconds() != Some(mtime));
        if is_other {
            let why = "it is not the file of the manifest any more; make a new plan for it".to_owned();
            return Err(bad(FailureClass::Changed, why));
        }
        Ok(OpenedObject { object, file, seen })
    }
}

impl OpenedObject<'_> {
    /// Something has the name: is it a copy of this file, which is the one that is meant? `Ok(None)`: the run
    /// was ended.
    fn is_there(&self, target: &Target, limits: Limits<'_>) -> Result<Option<TaskEnd>, TaskEnd> {
        let expected = expected(self.object)?;
        let mut found = expected.as_ref().map(|expected| expected.algorithm().start());
        limits.hand.clock.enter(Stage::Read);
        let is_same = reading::has_content(target, &self.file, self.seen.size, &mut |bytes: &[u8]| {
            found.iter_mut().for_each(|found| found.update(bytes));
            // Others take a large file from a hand that tells of no byte.
            limits.hand.compares(bytes.len() as u64);
            !limits.run.stop.load(Relaxed)
        });
        match is_same {
            Ok(true) => {}
            Ok(false) => {
                let differs = GetError::Differs { path: target.path().to_owned() };
                return Err(TaskEnd::Failed(FailureClass::Name, differs.to_string()));
            }
            Err(Unread::Ended) => return Ok(None),
            Err(Unread::Own(error)) => return Err(self.cannot_read(&error)),
            Err(Unread::Other(error)) => {
                let (shown, why) = (target.path().display(), weir_units::plain(&error));
                return Err(TaskEnd::Failed(class_of_io(&error), format!("cannot read {shown}: {why}")));
            }
        }
        self.is_as_it_was()?;
        is_meant(self.object, expected.as_ref(), found)?;
        Ok(Some(TaskEnd::Same(self.seen.size)))
    }

    /// False: the run was ended.
    fn small(&self, target: &Target, limits: Limits<'_>) -> Result<bool, TaskEnd> {
        let mut bytes = vec![0; usize::try_from(self.seen.size).unwrap_or_default()];
        limits.hand.clock.enter(Stage::Read);
        self.file.read_exact_at(&mut bytes, 0).map_err(|error| self.cannot_read(&error))?;
        if !limits.pass(bytes.len() as u64) {
            return Ok(false);
        }
        if let Some(expected) = expected(self.object)?
            && expected.algorithm().of(&bytes) != expected.bytes()
        {
            return Err(wrong_digest(self.object, &expected));
        }
        self.is_as_it_was()?;
        limits.hand.clock.enter(Stage::Write);
        let new = self.seen.of_a_copy(&self.file);
        small_file::store_if_free(target, &bytes, false, &new).map_err(|error| of_get(&error))?;
        Ok(true)
    }

    /// `Ok(None)`: the run was ended.
    fn large(&self, target: &Target, limits: Limits<'_>) -> Result<Option<TaskEnd>, TaskEnd> {
        let part = PartFile::open(target, Home::shared(target)).map_err(|error| of_get(&error))?;
        let filled = self.fill(&part, limits);
        if !matches!(filled, Ok(true)) {
            part.discard();
            return filled.map(|_| None);
        }
        // Somebody was faster: it is compared here, where that is heard of.
        if target.look().is_ok_and(|there| there.is_some()) {
            part.discard();
            return self.is_there(target, limits);
        }
        limits.hand.clock.enter(Stage::Write);
        part.publish_as(false, &self.seen.of_a_copy(&self.file)).map_err(|error| {
            part.discard();
            of_get(&error)
        })?;
        Ok(Some(TaskEnd::Moved(self.seen.size)))
    }

    /// False: the run was ended.
    fn fill(&self, part: &PartFile, limits: Limits<'_>) -> Result<bool, TaskEnd> {
        let cannot = |error: &io::Error| failed(part.target(), error);
        part.restart().map_err(|error| of_get(&error))?;
        let blocks = self.file.metadata().map_err(|error| self.cannot_read(&error))?.blocks();
        if blocks * 512 < self.seen.size {
            part.file().set_len(self.seen.size).map_err(|error| cannot(&error))?;
        } else {
            part.reserve(self.seen.size).map_err(|error| of_get(&error))?;
        }
        let mut at = 0;
        while at < self.seen.size
            && let Some(data) = source::next_data(&self.file, at, self.seen.size)
                .map_err(|errno| self.cannot_read(&errno.into()))?
        {
            if !self.copy(part, data.clone(), limits)? {
                return Ok(false);
            }
            at = data.end;
        }
        self.is_as_it_was()?;
        let Some(expected) = expected(self.object)? else { return Ok(true) };
        limits.hand.clock.enter(Stage::Verify);
        let hears = &mut |_: &[u8]| limits.run.desk.goes_on(limits.run.stop);
        let found = content::digest(part.file(), expected.algorithm(), self.seen.size, hears);
        match found.map_err(|error| cannot(&error))? {
            None => Ok(false),
            Some(found) if expected.matches(&found) => Ok(true),
            Some(_) => Err(wrong_digest(self.object, &expected)),
        }
    }

    /// Copies these bytes to their place. False: the run was ended.
    fn copy(
        &self,
        part: &PartFile,
        range: std::ops::Range<u64>,
        limits: Limits<'_>,
    ) -> Result<bool, TaskEnd> {
        let (mut at, mut pieces) = (range.start, 0_u32);
        while at < range.end {
            let length = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(limits.piece());
            let (mut from, mut to) = (at, at);
            limits.hand.clock.enter(COPY);
            let called = Instant::now();
            let copied = match rustix::fs::copy_file_range(
                &self.file,
                Some(&mut from),
                part.file(),
                Some(&mut to),
                length,
            ) {
                Ok(copied) => copied,
                Err(Errno::INTR) => 0,
                // It cannot between these two, or one of them fails: two calls tell which.
                Err(_) => self.by_hand(part, at, length, limits.hand)?,
            };
            let is_real = Rate::of(copied as u64, called.elapsed()).0 < SHARING;
            let left = usize::try_from(range.end - at).unwrap_or(usize::MAX).saturating_sub(copied);
            let apart = match is_real && left > 0 && pieces % APART == 0 {
                true => self.by_hand(part, at + copied as u64, left.min(BUFFER), limits.hand)?,
                false => 0,
            };
            let copied = copied + apart;
            pieces += 1;
            // The file has become shorter.
            if copied == 0 && SeenFile::of(&self.file).is_ok_and(|seen| seen.size <= at) {
                return Err(self.cannot_read(&io::ErrorKind::UnexpectedEof.into()));
            }
            at += copied as u64;
            if !limits.pass(copied as u64) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// By a call that reads and one that writes, whose times are told apart.
    fn by_hand(&self, part: &PartFile, at: u64, length: usize, hand: &Hand) -> Result<usize, TaskEnd> {
        let mut buffer = vec![0; length.min(BUFFER)];
        hand.clock.enter(Stage::Read);
        let begun = Instant::now();
        let got = self.file.read_at(&mut buffer, at).map_err(|error| self.cannot_read(&error))?;
        let read = begun.elapsed();
        hand.clock.enter(Stage::Write);
        part.write_at(at, &mut [IoSlice::new(&buffer[..got])]).map_err(|error| of_get(&error))?;
        hand.times_apart(read, begun.elapsed().saturating_sub(read));
        Ok(got)
    }

    fn is_as_it_was(&self) -> Result<(), TaskEnd> {
        if SeenFile::of(&self.file).is_ok_and(|now| now == self.seen) {
            return Ok(());
        }
        let reason =
            format!("{} changed while it was copied; make a new plan for it", self.object.source_text());
        Err(TaskEnd::Failed(FailureClass::Changed, reason))
    }

    /// One that ends too soon is another one now.
    fn cannot_read(&self, error: &io::Error) -> TaskEnd {
        let (class, why) = match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                (FailureClass::Changed, "it was cut while it was read; make a new plan for it".to_owned())
            }
            _ => (class_of_io(error), weir_units::plain(error)),
        };
        TaskEnd::Failed(class, format!("cannot read '{}': {why}", self.object.source_text()))
    }
}

/// What a copy is held to.
#[derive(Clone, Copy)]
struct Limits<'a> {
    hand: &'a Hand,
    run: &'a MoverRun<'a>,
    moved: &'a AtomicU64,
}

impl Limits<'_> {
    /// Bytes were moved: waits where the rate wants it. False: the run was ended.
    fn pass(&self, bytes: u64) -> bool {
        self.moved.fetch_add(bytes, Relaxed);
        self.hand.carries(bytes);
        let goes_on = || !self.run.stop.load(Relaxed);
        let sleep = |span| {
            self.hand.clock.enter(Stage::Limited);
            std::thread::sleep(span);
            goes_on()
        };
        // A piece that came without a wait hears it, too.
        goes_on() && self.run.limiter.hold(bytes, sleep)
    }

    fn piece(&self) -> usize {
        self.run.limiter.piece(PIECE)
    }
}

fn expected(object: &FleetObject) -> Result<Option<Expected>, TaskEnd> {
    let parsed = object.digest.as_deref().map(str::parse::<Expected>).transpose();
    parsed.map_err(|error| TaskEnd::Failed(FailureClass::Invalid, error.to_string()))
}

/// What was read of it has the digest that the manifest names, if it names one.
fn is_meant(
    object: &FleetObject,
    expected: Option<&Expected>,
    found: Option<Box<dyn Digest>>,
) -> Result<(), TaskEnd> {
    let Some((expected, found)) = expected.zip(found) else { return Ok(()) };
    if expected.matches(&found.finish()) { Ok(()) } else { Err(wrong_digest(object, expected)) }
}

fn wrong_digest(object: &FleetObject, expected: &Expected) -> TaskEnd {
    let name = expected.algorithm().name();
    let reason = format!("{} of {} is not {}", name, object.source_text(), expected.hex());
    TaskEnd::Failed(FailureClass::Digest, reason)
}

fn failed(path: &Path, error: &io::Error) -> TaskEnd {
    let reason = format!("cannot write {}: {}", path.display(), weir_units::plain(error));
    TaskEnd::Failed(class_of_io(error), reason)
}

fn of_get(error: &GetError) -> TaskEnd {
    TaskEnd::Failed(class_of(error), error.to_string())
}

impl Mover for LocalCopy {
    fn at_once(&self) -> usize {
        2 * self.hands
    }

    fn hands(&self) -> usize {
        self.hands
    }

    fn run(&self, run: &MoverRun<'_>, observer: &mut dyn Observer) {
        let hands = Hand::crew(self.hands);
        let make = |number: usize| -> Box<crew::OneTask<'_>> {
            let limits = Limits { hand: &hands[number], run, moved: &self.moved };
            Box::new(move |task: &FleetTask| match self.one(limits, task) {
                Ok(end) => end,
                Err(end) => Some(end),
            })
        };
        let target = self.to.as_ref().map(TargetTree::root);
        let crew = Crew { hands: &hands, make: &make, moved: &self.moved, target };
        crew::work(run, &crew, observer);
    }

    fn leave(&self, desk: &Desk) {
        self.to.iter().for_each(|to| to.leftovers.leave(desk));
    }
}

#[cfg(test)]
mod tests;
