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

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use weir_codec::digest::{Digest, Expected};
use weir_get::GetError;
use weir_get::job::Observer;
use weir_get::sink::attributes::NewFile;
use weir_get::sink::folder::{Folders, Target};
use weir_get::sink::home::Home;
use weir_get::sink::{PartFile, small_file};
use weir_observe::stage_clock::Stage;
use weir_tree::compare::Keep;
use weir_tree::{Name, TreeError, destination};
use weir_units::Rate;
use weir_units::limiter::Limiter;

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
        let (file, seen) = self.open(object)?;
        let cannot = |error: &io::Error| failed(&path, error);
        let target = self.folders.target(&path).map_err(|error| cannot(&error))?;
        if target.look().map_err(|error| cannot(&error))?.is_some() {
            return is_there(&target, object, &file, &seen, limits);
        }
        if seen.size <= SMALL {
            let copied = small(&target, object, &file, &seen, limits)?;
            return Ok(copied.then_some(TaskEnd::Moved(seen.size)));
        }
        let end = large(&target, object, &file, &seen, limits)?;
        to.leftovers.is_placed(&path);
        Ok(end)
    }

    /// Reads it to its end and keeps nothing.
    fn count(&self, object: &FleetObject, limits: Limits<'_>) -> Result<Option<TaskEnd>, TaskEnd> {
        let (file, seen) = self.open(object)?;
        let expected = expected(object)?;
        let mut found = expected.as_ref().map(|expected| expected.algorithm().start());
        let piece = u64::try_from(BUFFER.min(limits.piece())).unwrap_or(u64::MAX);
        let mut buffer = vec![0; usize::try_from(seen.size.min(piece)).unwrap_or_default()];
        let mut at = 0;
        while at < seen.size {
            let length = usize::try_from((seen.size - at).min(piece)).unwrap_or_default();
            limits.hand.clock.enter(Stage::Read);
            file.read_exact_at(&mut buffer[..length], at).map_err(|error| cannot_read(object, &error))?;
            limits.hand.clock.enter(Stage::Verify);
            found.iter_mut().for_each(|found| found.update(&buffer[..length]));
            at += length as u64;
            if !limits.pass(length as u64) {
                return Ok(None);
            }
        }
        is_as_it_was(object, &file, &seen)?;
        is_meant(object, expected.as_ref(), found)?;
        Ok(Some(TaskEnd::Moved(seen.size)))
    }

    fn open(&self, object: &FleetObject) -> Result<(File, SeenFile), TaskEnd> {
        let shown = object.source_text();
        let bad = |class, why: String| TaskEnd::Failed(class, format!("cannot read '{shown}': {why}"));
        let name = Name::new(object.source.as_slice())
            .map_err(|invalid| bad(FailureClass::Invalid, invalid.to_string()))?;
        let name = self.only.as_ref().filter(|_| name.is_root()).unwrap_or(&name);
        let file = self.from.open_existing(name).map_err(|error| {
            let cause = std::error::Error::source(&error);
            let cause = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
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
        Ok((file, seen))
    }
}

/// Something has the name: is it a copy of this file, which is the one that is meant? `Ok(None)`: the run was
/// ended.
fn is_there(
    target: &Target,
    object: &FleetObject,
    file: &File,
    seen: &SeenFile,
    limits: Limits<'_>,
) -> Result<Option<TaskEnd>, TaskEnd> {
    let expected = expected(object)?;
    let mut found = expected.as_ref().map(|expected| expected.algorithm().start());
    limits.hand.clock.enter(Stage::Read);
    let is_same = reading::has_content(target, file, seen.size, &mut |bytes: &[u8]| {
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
        Err(Unread::Own(error)) => return Err(cannot_read(object, &error)),
        Err(Unread::Other(error)) => {
            let (shown, why) = (target.path().display(), weir_units::plain(&error));
            return Err(TaskEnd::Failed(class_of_io(&error), format!("cannot read {shown}: {why}")));
        }
    }
    is_as_it_was(object, file, seen)?;
    is_meant(object, expected.as_ref(), found)?;
    Ok(Some(TaskEnd::Same(seen.size)))
}

/// False: the run was ended.
fn small(
    target: &Target,
    object: &FleetObject,
    file: &File,
    seen: &SeenFile,
    limits: Limits<'_>,
) -> Result<bool, TaskEnd> {
    let mut bytes = vec![0; usize::try_from(seen.size).unwrap_or_default()];
    limits.hand.clock.enter(Stage::Read);
    file.read_exact_at(&mut bytes, 0).map_err(|error| cannot_read(object, &error))?;
    if !limits.pass(bytes.len() as u64) {
        return Ok(false);
    }
    if let Some(expected) = expected(object)?
        && expected.algorithm().of(&bytes) != expected.bytes()
    {
        return Err(wrong_digest(object, &expected));
    }
    is_as_it_was(object, file, seen)?;
    limits.hand.clock.enter(Stage::Write);
    let new = seen.of_a_copy(file);
    small_file::store_if_free(target, &bytes, false, &new).map_err(|error| of_get(&error))?;
    Ok(true)
}

/// `Ok(None)`: the run was ended.
fn large(
    target: &Target,
    object: &FleetObject,
    file: &File,
    seen: &SeenFile,
    limits: Limits<'_>,
) -> Result<Option<TaskEnd>, TaskEnd> {
    let part = PartFile::open(target, Home::shared(target)).map_err(|error| of_get(&error))?;
    let filled = fill(&part, object, file, seen, limits);
    if !matches!(filled, Ok(true)) {
        part.discard();
        return filled.map(|_| None);
    }
    // Somebody was faster: it is compared here, where that is heard of.
    if target.look().is_ok_and(|there| there.is_some()) {
        part.discard();
        return is_there(target, object, file, seen, limits);
    }
    limits.hand.clock.enter(Stage::Write);
    part.publish_as(false, &seen.of_a_copy(file)).map_err(|error| {
        part.discard();
        of_get(&error)
    })?;
    Ok(Some(TaskEnd::Moved(seen.size)))
}

/// False: the run was ended.
fn fill(
    part: &PartFile,
    object: &FleetObject,
    file: &File,
    seen: &SeenFile,
    limits: Limits<'_>,
) -> Result<bool, TaskEnd> {
    let cannot = |error: &io::Error| failed(part.target(), error);
    part.restart().map_err(|error| of_get(&error))?;
    let blocks = file.metadata().map_err(|error| cannot_read(object, &error))?.blocks();
    if blocks * 512 < seen.size {
        part.file().set_len(seen.size).map_err(|error| cannot(&error))?;
    } else {
        part.reserve(seen.size).map_err(|error| of_get(&error))?;
    }
    let mut at = 0;
    while let Some(data) = data_from(file, at, seen.size).map_err(|error| cannot_read(object, &error))? {
        if !copy(object, file, part, data.clone(), limits)? {
            return Ok(false);
        }
        at = data.end;
    }
    is_as_it_was(object, file, seen)?;
    let Some(expected) = expected(object)? else { return Ok(true) };
    limits.hand.clock.enter(Stage::Verify);
    let found = reading::digest(part.file(), expected.algorithm(), seen.size, &mut |_: &[u8]| {
        limits.run.desk.stir();
        !limits.run.stop.load(Relaxed)
    });
    match found.map_err(|error| cannot(&error))? {
        None => Ok(false),
        Some(found) if expected.matches(&found) => Ok(true),
        Some(_) => Err(wrong_digest(object, &expected)),
    }
}

/// What a copy is held to.
#[derive(Clone, Copy)]
struct Limits<'a> {
    hand: &'a Hand,
    run: &'a MoverRun<'a>,
    limiter: Option<&'a Limiter>,
    moved: &'a AtomicU64,
}

impl Limits<'_> {
    /// Bytes were moved: waits where the rate wants it. False: the run was ended.
    fn pass(&self, bytes: u64) -> bool {
        self.moved.fetch_add(bytes, Relaxed);
        self.hand.carries(bytes);
        let until = self.limiter.map(|limiter| Instant::now() + limiter.book(bytes, Instant::now()));
        loop {
            if self.run.stop.load(Relaxed) {
                return false;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now())).unwrap_or_default();
            if left.is_zero() {
                return true;
            }
            self.hand.clock.enter(Stage::Limited);
            std::thread::sleep(left.min(std::time::Duration::from_millis(50)));
        }
    }

    fn piece(&self) -> usize {
        self.limiter.map_or(PIECE, |limiter| limiter.piece().min(PIECE))
    }
}

/// The next stretch of `file` that is no hole.
fn data_from(file: &File, at: u64, size: u64) -> io::Result<Option<std::ops::Range<u64>>> {
    if at >= size {
        return Ok(None);
    }
    let start = match seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        // A file system that knows of no holes.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(at..size)),
        Err(errno) => return Err(errno.into()),
    };
    let end = seek(file, SeekFrom::Hole(start)).unwrap_or(size).min(size);
    Ok((start < end).then_some(start..end))
}

/// Copies these bytes to their place. False: the run was ended.
fn copy(
    object: &FleetObject,
    file: &File,
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
        let copied =
            match rustix::fs::copy_file_range(file, Some(&mut from), part.file(), Some(&mut to), length) {
                Ok(copied) => copied,
                Err(Errno::INTR) => 0,
                // It cannot between these two, or one of them fails: two calls tell which.
                Err(_) => by_hand(object, file, part, at, length, limits.hand)?,
            };
        let is_real = Rate::of(copied as u64, called.elapsed()).0 < SHARING;
        let left = usize::try_from(range.end - at).unwrap_or(usize::MAX).saturating_sub(copied);
        let apart = match is_real && left > 0 && pieces % APART == 0 {
            true => by_hand(object, file, part, at + copied as u64, left.min(BUFFER), limits.hand)?,
            false => 0,
        };
        let copied = copied + apart;
        pieces += 1;
        // The file has become shorter.
        if copied == 0 && SeenFile::of(file).is_ok_and(|seen| seen.size <= at) {
            return Err(cannot_read(object, &io::ErrorKind::UnexpectedEof.into()));
        }
        at += copied as u64;
        if !limits.pass(copied as u64) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// By a call that reads and one that writes, whose times are told apart.
fn by_hand(
    object: &FleetObject,
    file: &File,
    part: &PartFile,
    at: u64,
    length: usize,
    hand: &Hand,
) -> Result<usize, TaskEnd> {
    let mut buffer = vec![0; length.min(BUFFER)];
    hand.clock.enter(Stage::Read);
    let begun = Instant::now();
    let got = file.read_at(&mut buffer, at).map_err(|error| cannot_read(object, &error))?;
    let read = begun.elapsed();
    hand.clock.enter(Stage::Write);
    part.write_at(at, &mut [IoSlice::new(&buffer[..got])]).map_err(|error| of_get(&error))?;
    hand.times_apart(read, begun.elapsed().saturating_sub(read));
    Ok(got)
}

fn is_as_it_was(object: &FleetObject, file: &File, seen: &SeenFile) -> Result<(), TaskEnd> {
    if SeenFile::of(file).is_ok_and(|now| now == *seen) {
        return Ok(());
    }
    let reason = format!("{} changed while it was copied; make a new plan for it", object.source_text());
    Err(TaskEnd::Failed(FailureClass::Changed, reason))
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

/// One that ends too soon is another one now.
fn cannot_read(object: &FleetObject, error: &io::Error) -> TaskEnd {
    let (class, why) = match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            (FailureClass::Changed, "it was cut while it was read; make a new plan for it".to_owned())
        }
        _ => (class_of_io(error), weir_units::plain(error)),
    };
    TaskEnd::Failed(class, format!("cannot read '{}': {why}", object.source_text()))
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

    fn run(&self, run: &MoverRun<'_>, observer: &mut dyn Observer) {
        let limiter = run.rate.map(Limiter::new);
        let limiter = limiter.as_ref();
        let hands = Hand::crew(self.hands);
        let make = |number: usize| -> Box<crew::OneTask<'_>> {
            let limits = Limits { hand: &hands[number], run, limiter, moved: &self.moved };
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
