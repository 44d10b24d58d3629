//! A file that is sent in blocks: its bytes, its digest as it grows, and whether it stays what it was.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use weir_tree::delta::{self, Reads, Recipe, Signature};
use weir_tree::entry::Time;
use weir_tree::{Entry, Kind, Source, TreeError, source};

use super::offers::Waiting;
use crate::feed::Growing;
use crate::holes::{self, Survey};
use crate::subtrees::{Digest, Subtrees, blocks, digest_of, digest_of_run, extent, extent_of_run, values_of};
use crate::wire::message::{Failure, FailureKind};
use crate::wire::patch::{self, Step};

/// How often a file that changes under the reader is begun again.
const ATTEMPTS: u8 = 3;

/// What became of a file while it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing.
    Same,
    /// It was written on behind its end.
    Longer,
}

/// A file to be sent.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// The offer's number.
    pub(crate) id: u64,
    /// Its place in the order of the walk.
    pub(crate) number: u64,
    /// What it is, as the other end was told.
    pub(crate) entry: Entry,
    attempt: u8,
    source: Source,
    /// Where its blocks come to this host while they are sent.
    growing: Option<Arc<Growing>>,
    /// What it has to be, where it was compared here.
    due: Option<Digest>,
    file: OnceLock<File>,
    subtrees: Mutex<Subtrees>,
    /// What the other end had of it when it answered, and which of these blocks it wants all the same.
    had: OnceLock<Subtrees>,
    given_back: Mutex<BTreeSet<u64>>,
    /// What the other end has in its place, until the recipe is made of it; and the bytes that it came in, up
    /// to 16 MiB.
    old: Mutex<Option<(Signature, usize)>>,
    /// How the file comes from that; found out when the first block is wanted.
    recipe: OnceLock<Option<Recipe>>,
    /// Whether each block goes by itself: one that comes from what the other end has is no block like others.
    single: bool,
    /// Nothing more of it is to be sent: `End` was.
    ended: AtomicBool,
}

impl SourceFile {
    /// As it was offered.
    pub(crate) fn new(id: u64, offered: Waiting, old: Option<(Signature, usize)>) -> SourceFile {
        let subtrees = Mutex::new(Subtrees::new(offered.entry.size()));
        let single = old.is_some();
        SourceFile {
            id,
            number: offered.number,
            entry: offered.entry,
            attempt: offered.attempt,
            source: offered.source,
            growing: offered.growing,
            due: offered.due,
            file: OnceLock::new(),
            subtrees,
            had: OnceLock::new(),
            given_back: Mutex::default(),
            old: Mutex::new(old),
            recipe: OnceLock::new(),
            single,
            ended: AtomicBool::new(false),
        }
    }

    /// The same file as it is now, to be offered anew; `None` where it has changed too often.
    pub(crate) fn again(&self) -> Option<Waiting> {
        let mut entry = self.entry.clone();
        // What comes to this host anew is offered anew.
        let may = self.attempt < ATTEMPTS && self.growing.is_none();
        let file = self.source.open(&entry).ok().filter(|_| may)?;
        refresh(&mut entry, &file).ok()?;
        let (number, source, attempt) = (self.number, self.source.clone(), self.attempt + 1);
        Some(Waiting { number, entry, source, attempt, growing: None, due: None })
    }

    /// Why it is not there, where it is gone since the walk saw it in a listing.
    pub(crate) fn vanished(&self) -> Option<Failure> {
        let error = self.source.open(&self.entry).err()?;
        matches!(error, TreeError::Vanished { .. }).then(|| Failure::of_source(&error))
    }

    /// Whether this can be its digest: of one that was compared here no other.
    pub(crate) fn may_be(&self, root: &Digest) -> bool {
        self.due.is_none_or(|due| due == *root)
    }

    /// Where its blocks come from, if they still do.
    pub(crate) fn growing(&self) -> Option<&Arc<Growing>> {
        self.growing.as_ref()
    }

    /// What is sent of it goes by what the other end has in its place: it has to be whole first.
    pub(crate) fn goes_whole(&self) -> bool {
        self.single
    }

    /// Whether the other end wants a block: it had it not, or not as it should be.
    pub(crate) fn is_wanted(&self, index: u64) -> bool {
        !self.had.get().is_some_and(|had| had.contains(index)) || self.given_back.lock().contains(&index)
    }

    /// Where its content is.
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// Where blocks in a row lie.
    pub(crate) fn extent(&self, blocks: &Range<u64>) -> Range<u64> {
        extent_of_run(blocks, self.entry.size())
    }

    /// How many blocks one record may carry, where it is at most `most`.
    pub(crate) fn run(&self, most: u64) -> u64 {
        if self.single { 1 } else { most }
    }

    /// Takes over what the other end has; false where that cannot be of this file. Of one that comes to this
    /// host it counts as read: all of it is held against what came in the end. Of any other it counts once it
    /// was read here too ([`SourceFile::reread`]).
    pub(crate) fn adopt(&self, nodes: &[(u8, u64, Digest)]) -> bool {
        let mut had = Subtrees::new(self.entry.size());
        let can_be = nodes.iter().all(|(level, first, digest)| had.insert_node(*level, *first, *digest));
        if self.growing.is_some() {
            self.subtrees().clone_from(&had);
        }
        // Nothing is sent or hashed before this.
        let _ = self.had.set(had);
        can_be
    }

    /// Whether there is something to [`SourceFile::reread`].
    pub(crate) fn is_unread(&self) -> bool {
        self.growing.is_none() && self.had.get().is_some_and(|had| had.nodes().next().is_some())
    }

    /// Bytes that the other end had when it answered and has not asked for since.
    pub(crate) fn kept(&self) -> u64 {
        let length = |blocks: &Range<u64>| self.extent(blocks).end - self.extent(blocks).start;
        let missing: u64 = self.missing().iter().map(length).sum();
        let given_back: u64 = self.given_back.lock().iter().map(|index| length(&(*index..*index + 1))).sum();
        self.entry.size().saturating_sub(missing + given_back)
    }

    /// Reads what the other end has of an earlier run: the file may be another since then, of the same size
    /// and time, and no mixture of two versions may get the name. The digest, where with this all is read;
    /// `None` also where it is `over` before. `reads` hears of bytes as they are read.
    pub(crate) fn reread(&self, over: &AtomicBool, reads: Reads<'_>) -> Result<Option<Digest>, Failure> {
        let Some(had) = self.had.get() else { return Ok(None) };
        let is_over = || over.load(Relaxed) || self.has_ended();
        for (level, first, digest) in had.nodes() {
            let run = first..(first + (1 << level)).min(blocks(self.entry.size()));
            let Some(here) = self.values_of_run(run, &is_over, reads)? else { return Ok(None) };
            if !here.nodes().eq(std::iter::once((level, first, digest))) {
                return Err(self.changed("is not what it was when its copy was begun"));
            }
            self.subtrees().insert_node(level, first, digest);
        }
        Ok(self.root())
    }

    /// Reads blocks in a row; holes are not read. `None` where `is_over` says so before their end.
    fn values_of_run(
        &self,
        run: Range<u64>,
        is_over: &dyn Fn() -> bool,
        reads: Reads<'_>,
    ) -> Result<Option<Subtrees>, Failure> {
        let (size, mut raw) = (self.entry.size(), Vec::new());
        let mut values = Subtrees::new(size);
        let Survey { holes, data } = self.survey(vec![run]);
        holes.into_iter().for_each(|run| values.insert_zeros(run));
        for index in data.into_iter().flatten() {
            if is_over() {
                return Ok(None);
            }
            self.read(&(index..index + 1), &mut raw)?;
            values.insert(index, digest_of(&raw, index, size));
            reads(raw.len() as u64);
        }
        Ok(Some(values))
    }

    /// The other end wants blocks that it had; false where it had them not, or was given them back before.
    pub(crate) fn give_back(&self, blocks: &[u64]) -> bool {
        let Some(had) = self.had.get() else { return false };
        let mut given_back = self.given_back.lock();
        blocks.iter().all(|block| {
            let extent = self.extent(&(*block..block.saturating_add(1)));
            !extent.is_empty() && had.contains(*block) && given_back.insert(*block)
        })
    }

    /// The blocks that the other end does not have.
    pub(crate) fn missing(&self) -> Vec<Range<u64>> {
        self.had.get().map(Subtrees::missing).unwrap_or_default()
    }

    /// Reads blocks into `raw`.
    pub(crate) fn read(&self, blocks: &Range<u64>, raw: &mut Vec<u8>) -> Result<(), Failure> {
        let Range { start, end } = self.extent(blocks);
        raw.resize((end - start) as usize, 0);
        let file = self.file()?;
        file.read_exact_at(raw, start).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.changed("became shorter while it was read"),
            _ => Failure::local(format_args!("cannot read {}: {error}", self.entry.name)),
        })
    }

    /// Whether it may have holes: it takes less room than its length needs.
    pub(crate) fn has_holes(&self) -> bool {
        matches!(self.entry.kind, Kind::File { sparse: true, .. })
    }

    /// Which blocks of these runs lie in holes. Looked for with a descriptor of its own, since finding them
    /// moves the position.
    pub(crate) fn survey(&self, runs: Vec<Range<u64>>) -> Survey {
        match self.has_holes().then(|| self.source.open(&self.entry)) {
            Some(Ok(file)) => holes::survey(&file, self.entry.size(), &runs),
            // One that cannot be opened is told of when it is read.
            _ => Survey { holes: Vec::new(), data: runs },
        }
    }

    /// Bytes of a signature that is held.
    pub(crate) fn signature_held(&self) -> usize {
        self.old.lock().as_ref().map_or(0, |(_, bytes)| *bytes)
    }

    /// How a block comes from what the other end has, if that saves a tenth or more.
    /// `reads` hears of bytes as they are read for that.
    pub(crate) fn instructions(&self, index: u64, reads: Reads<'_>) -> Option<Vec<Step>> {
        let recipe = self.recipe.get_or_init(|| {
            let (old, _) = self.old.lock().take()?;
            let file = self.source.open(&self.entry).ok()?;
            delta::missing(&file, &self.entry.name, &old, reads).ok()
        });
        let Range { start, end } = extent(index, self.entry.size());
        let steps = patch::steps(recipe.as_ref()?.ops(), start..end);
        let literal: u64 =
            steps.iter().map(|step| if let Step::Literal { len } = step { (*len).into() } else { 16 }).sum();
        (literal * 10 <= (end - start) * 9).then_some(steps)
    }

    /// Hashes blocks, as they were read. What their record says of them; and the file's digest, once all are
    /// hashed.
    pub(crate) fn hash(&self, blocks: &Range<u64>, raw: &[u8]) -> (Digest, Option<Digest>) {
        let values = values_of(raw, blocks.start, self.entry.size());
        let mut subtrees = self.subtrees();
        // What the other end had counts once it was read as a whole.
        let had = self.had.get();
        for (index, value) in blocks.clone().zip(&values) {
            if !had.is_some_and(|had| had.contains(index)) {
                subtrees.insert(index, *value);
            }
        }
        (digest_of_run(&values), subtrees.root())
    }

    /// The same of blocks in a hole, which nobody reads.
    pub(crate) fn hash_hole(&self, blocks: &Range<u64>) -> Option<Digest> {
        let mut subtrees = self.subtrees();
        let gaps = self.had.get().map_or_else(|| vec![blocks.clone()], |had| had.missing_in(blocks.clone()));
        gaps.into_iter().for_each(|gap| subtrees.insert_zeros(gap));
        subtrees.root()
    }

    /// The digest, where all is hashed.
    pub(crate) fn root(&self) -> Option<Digest> {
        self.subtrees().root()
    }

    /// Marks it as ended; true where it was.
    pub(crate) fn end(&self) -> bool {
        self.ended.swap(true, Relaxed)
    }

    /// Nothing more is to be sent of it.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// After the last byte was read: is it still the file that was offered? One that has become longer is, if
    /// a second reading of what it was at the start gives the same digest: it was only written behind that,
    /// as logs are.
    pub(crate) fn check(&self, root: &Digest, over: &AtomicBool) -> Result<Rest, Failure> {
        let file = self.file()?;
        match source::unchanged(file, &self.entry) {
            Ok(true) => return Ok(Rest::Same),
            Ok(false) => {}
            Err(error) => return Err(Failure::local(error)),
        }
        let is_longer = file.metadata().is_ok_and(|now| now.size() > self.entry.size());
        match is_longer && self.read_twice(over)? == Some(*root) {
            true => Ok(Rest::Longer),
            false => Err(self.changed("changed while it was read")),
        }
    }

    /// The digest of what is there now, of the size that was offered; `None` where it is over before.
    fn read_twice(&self, over: &AtomicBool) -> Result<Option<Digest>, Failure> {
        let all = self.values_of_run(0..blocks(self.entry.size()), &|| over.load(Relaxed), &|_| ())?;
        Ok(all.and_then(|all| all.root()))
    }

    /// It is another than was offered.
    pub(crate) fn changed(&self, how: &str) -> Failure {
        let words = format!("{} {how}; copy it when it rests", self.entry.name);
        Failure::new(FailureKind::Changed, words)
    }

    fn file(&self) -> Result<&File, Failure> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let growing = self.growing.as_ref().and_then(|growing| growing.open());
        let file = growing
            .map_or_else(|| self.source.open(&self.entry), Ok)
            .map_err(|error| Failure::of_source(&error))?;
        // Only advice: a file system that knows none reads on as it does.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Sequential);
        Ok(self.file.get_or_init(|| file))
    }

    fn subtrees(&self) -> parking_lot::MutexGuard<'_, Subtrees> {
        self.subtrees.lock()
    }
}

/// Size and time as they are now.
pub(crate) fn refresh(entry: &mut Entry, file: &File) -> io::Result<()> {
    let now = file.metadata()?;
    let size = now.size();
    entry.kind = Kind::File { size, sparse: now.blocks().saturating_mul(512) < size };
    let nanos = u32::try_from(now.mtime_nsec()).unwrap_or(0);
    entry.mtime = Time::new(now.mtime(), nanos).unwrap_or(entry.mtime);
    Ok(())
}
