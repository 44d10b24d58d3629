//! A file of this machine that another program may still be writing, sent while it grows: how far it is says
//! whoever knows that program, and a feed is filled with it as by a receiver. Its end is told once the file
//! has its name, with the digest of what the file then is: what was sent before has to give the same.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use weir_tree::entry::Time;
use weir_tree::source::Identity;
use weir_tree::{Entry, Kind, Name, Target, destination};
use weir_units::instant;

use crate::feed::{Feed, FeedOutcome, Growing};
use crate::roots;
use crate::sender::Sender;
use crate::subtrees::{BLOCK, Digest, Subtrees, blocks, digest_of, extent};
use crate::wire::message::{Failure, FailureKind, Options, Root};

/// Between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long a file that is being written is waited for: its writer said that it has begun.
const BEGINS: Duration = Duration::from_secs(5);

/// How long the attributes of a file may take that has its name.
const SETTLES: Duration = Duration::from_secs(2);

/// What a program writes.
pub trait GrowingFile: fmt::Debug + Send {
    /// Where it will be.
    fn path(&self) -> &Path;
    /// Its bytes, of which some are there.
    fn file(&self) -> &File;
    /// The time that it will have.
    fn modified(&self) -> Option<SystemTime>;
    /// Its permissions as they will be.
    fn mode(&self) -> u32;
    /// How far it is.
    ///
    /// # Errors
    /// What the system says.
    fn look(&self) -> io::Result<Growth>;
}

/// How far a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Growth {
    /// These runs of bytes are there.
    Has(Vec<Range<u64>>),
    /// All are, and it has its name.
    Named,
    /// It is not that file any more.
    Gone,
}

/// What a program that writes the source has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It has begun, and the file grows.
    Some,
    /// The file is complete.
    All,
}

/// Finds what is written at a path: a file that grows, `None` where there is none yet; or the complete file
/// where the second is true.
pub type FindGrowing = fn(&Path, bool) -> io::Result<Option<Box<dyn GrowingFile>>>;

/// A source that may still grow.
#[derive(Debug)]
pub(crate) struct GrowingSource {
    file: Box<dyn GrowingFile>,
    entry: Entry,
    pub(crate) feed: Arc<Feed>,
    growing: Arc<Growing>,
    pub(crate) root: Root,
}

impl GrowingSource {
    /// Finds it; waits for one that is just being begun.
    pub(crate) fn find(
        find: FindGrowing,
        path: &[u8],
        is_whole: bool,
        options: &Options,
    ) -> Result<GrowingSource, Failure> {
        let (path, start) = (roots::expand(path), Instant::now());
        let cannot = |why: &str| Failure::local(format_args!("cannot read {}: {why}", path.display()));
        let file = loop {
            match find(&path, is_whole).map_err(|error| cannot(&weir_units::plain(&error)))? {
                Some(file) => break file,
                None if is_whole || start.elapsed() > BEGINS => {
                    return Err(cannot("nothing is written there"));
                }
                None => std::thread::sleep(POLL_INTERVAL),
            }
        };
        let entry =
            entry_of(&*file).ok_or_else(|| cannot("its time or size is not known before it is there"))?;
        if !options.in_blocks(&entry) && !is_whole {
            return Err(cannot("it is too small to be sent while it comes"));
        }
        let folder = roots::around_of(file.path());
        let of_target = destination::Options { create: false, ..destination::Options::default() };
        let target = Target::open(&folder, of_target).map_err(Failure::local)?;
        let feed = Arc::new(Feed::of_source());
        feed.begin(&Arc::new(target), vec![entry.name.clone()]);
        let growing = feed.grows(entry.clone(), None, file.file());
        let growing = growing.ok_or_else(|| cannot("it cannot be opened again"))?;
        let there = file.file().metadata().map_err(|error| cannot(&weir_units::plain(&error)))?;
        let root =
            Root { name: entry.name.clone(), directory: false, identity: Identity::of_metadata(&there) };
        Ok(GrowingSource { file, entry, feed, growing, root })
    }

    /// Tells the feed how far it is, until it is known what became of it, or nobody sends it any more.
    pub(crate) fn follow(self, sender: &Sender) {
        let size = self.entry.size();
        while !sender.is_over() {
            match self.file.look() {
                Ok(Growth::Has(runs)) => {
                    let whole = runs.into_iter().map(|run| blocks_in(&run, size));
                    whole.filter(|run| !run.is_empty()).for_each(|run| self.feed.arrived(&self.growing, run));
                }
                Ok(Growth::Named) => {
                    self.feed.arrived(&self.growing, 0..blocks(size));
                    return self.end(sender);
                }
                Ok(Growth::Gone) => return self.is_gone(),
                Err(error) => return self.cannot_be_read(&error),
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// It has its name.
    fn end(&self, sender: &Sender) {
        match self.digest(sender) {
            Ok(Some(digest)) if self.is_as_announced() => {
                self.feed.ended(&self.growing, FeedOutcome::Stored(digest));
                self.feed.finish(false);
            }
            Ok(Some(_)) => {
                let words = format!("{} got other attributes than it was to have", self.entry.name);
                self.feed.lacks(&Failure::new(FailureKind::Session, words));
            }
            Ok(None) => {}
            Err(error) => self.cannot_be_read(&error),
        }
    }

    /// What was sent of it is of no use.
    fn is_gone(&self) {
        self.feed.ended(&self.growing, FeedOutcome::Gone);
        self.feed.finish(true);
    }

    fn cannot_be_read(&self, error: &io::Error) {
        let why = weir_units::plain(error);
        let words = format!("cannot read {}: {why}", self.entry.name);
        self.feed.lacks(&Failure::new(FailureKind::Local, words));
    }

    /// The digest of what the file is; `None` where nobody sends it any more.
    fn digest(&self, sender: &Sender) -> io::Result<Option<Digest>> {
        let (size, mut block) = (self.entry.size(), Vec::with_capacity(BLOCK as usize));
        let mut subtrees = Subtrees::new(size);
        for index in 0..blocks(size) {
            if sender.is_over() {
                return Ok(None);
            }
            let Range { start, end } = extent(index, size);
            block.resize((end - start) as usize, 0);
            self.file.file().read_exact_at(&mut block, start)?;
            subtrees.insert(index, digest_of(&block, index, size));
        }
        Ok(subtrees.root())
    }

    /// Whether it is what receivers were told: its writer may give it its time only after its name.
    fn is_as_announced(&self) -> bool {
        let start = Instant::now();
        loop {
            let is_same = entry_of(&*self.file).is_some_and(|now| is_same(&now, &self.entry))
                && self.file.file().metadata().is_ok_and(|there| {
                    let time = Time::new(there.mtime(), u32::try_from(there.mtime_nsec()).unwrap_or(0));
                    there.mode() & 0o777 == self.entry.mode && time == Some(self.entry.mtime)
                });
            if is_same || start.elapsed() > SETTLES {
                return is_same;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

fn is_same(one: &Entry, other: &Entry) -> bool {
    (one.size(), one.mtime) == (other.size(), other.mtime)
}

/// What it will be; `None` where that is not known.
fn entry_of(file: &dyn GrowingFile) -> Option<Entry> {
    let there = file.file().metadata().ok()?;
    let (seconds, nanoseconds) = instant::since_epoch(file.modified()?);
    Some(Entry {
        name: Name::new(file.path().file_name()?.as_bytes()).ok()?,
        kind: Kind::File { size: there.size(), sparse: false },
        mode: file.mode(),
        mtime: Time::new(seconds, nanoseconds)?,
        uid: there.uid(),
        gid: there.gid(),
        xattrs: Vec::new(),
    })
}

/// The blocks that are whole in a run of bytes of a file of this size.
fn blocks_in(run: &Range<u64>, size: u64) -> Range<u64> {
    let end = if run.end >= size { blocks(size) } else { run.end / BLOCK };
    run.start.div_ceil(BLOCK)..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_blocks_count() {
        let size = 3 * BLOCK + 5;
        for (run, whole) in [
            (0..BLOCK, 0..1),
            (1..2 * BLOCK, 1..2),
            (BLOCK + 1..2 * BLOCK + 1, 2..2),
            (0..size, 0..4),
            (3 * BLOCK..size, 3..4),
            (3 * BLOCK + 1..size, 4..4),
            (BLOCK - 1..BLOCK, 1..1),
        ] {
            assert_eq!(blocks_in(&run, size), whole, "{run:?}");
        }
    }
}
