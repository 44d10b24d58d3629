//! What a host that passes a copy on has of it, in the order in which it came: what its receiver puts in, and
//! its senders send on while the rest still comes.
//!
//! A feed outlives sessions: where the host before this one is lost, the next receiver goes on with what is
//! there, and whoever follows waits meanwhile. It is held in memory, some 200 bytes an entry.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use weir_tree::source::Identity;
use weir_tree::{Entry, Name, Target};

use crate::subtrees::{BLOCK, Digest};
use crate::wire::batch::Keep;
use crate::wire::message::Failure;

/// All that came of a copy so far.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    state: Mutex<FeedState>,
    changed: Condvar,
    /// Sessions that bring it: those after the first say again what is there.
    receivers: AtomicU32,
    /// It comes from no receiver: this host has the source.
    is_source: bool,
    /// Blocks as they came, compressed, the oldest first: the last of them.
    packed: Mutex<VecDeque<Arc<PackedBlock>>>,
    /// Folders that are complete here, and whose mark stays until all hosts have theirs: the same command
    /// goes on in them.
    marked: Mutex<Vec<(Arc<Target>, Name)>>,
}

/// A block as the host before this one has compressed it, which goes on as it is.
#[derive(Debug)]
pub(crate) struct PackedBlock {
    /// What it is once it is unpacked, and where in its file.
    pub(crate) digest: Digest,
    /// The number of its codec.
    pub(crate) codec: u8,
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
}

/// Bytes of compressed blocks that are kept for those who follow: what the next hop is usually behind by. One
/// that is not there any more is read and compressed anew.
const MOST_PACKED: usize = 16 << 20;

#[derive(Debug, Default)]
struct FeedState {
    /// Counts changes.
    version: u64,
    place: Option<FeedPlace>,
    items: Vec<Fed>,
    /// Files that have not come to their end, by name.
    growing: HashMap<Name, Arc<Growing>>,
    /// What is there, where a second receiver began and may say it again: its number among the items.
    known: HashMap<Name, usize>,
    /// All came; whether something had failed before this host.
    finished: Option<bool>,
    /// The first thing that this host failed to store; the hosts behind it would lack it too.
    lacks: Option<Failure>,
}

/// Where it is on this host.
#[derive(Debug, Clone)]
pub(crate) struct FeedPlace {
    /// The target.
    pub(crate) target: Arc<Target>,
    /// What the sources are called in it, in the order of the command line.
    pub(crate) roots: Vec<Name>,
}

/// One thing that came. Entries are as the source has them: owners are the source's, names those of this
/// host.
#[derive(Debug, Clone)]
pub(crate) enum Fed {
    /// It is in its place.
    There {
        /// What it is.
        entry: Entry,
        /// Of a file whose content came here, or was compared: what it was. Of one that was here by size and
        /// time nothing is known, and it goes to nobody.
        digest: Option<Digest>,
        /// With `--checksum`: the source's word on it.
        offered: Option<Digest>,
    },
    /// A file whose blocks come.
    Growing(Arc<Growing>),
    /// A folder, after all that is in it; with what is to stay in it.
    Leave(Entry, Option<Keep>),
}

/// A file that comes in blocks.
#[derive(Debug)]
pub(crate) struct Growing {
    /// The entry as it will be.
    pub(crate) entry: Entry,
    /// With `--checksum`: the source's word on it.
    pub(crate) offered: Option<Digest>,
    identity: Identity,
    state: Mutex<GrowingState>,
}

#[derive(Debug)]
struct GrowingState {
    /// Open while it grows; after that it is found by its name.
    file: Option<File>,
    /// Runs of blocks that are there, by the first: the end of each. A hole is one, however large it is.
    there: BTreeMap<u64, u64>,
    /// The same in the order of arrival.
    arrived: Vec<Range<u64>>,
    outcome: Option<FeedOutcome>,
}

/// The outcome of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeedOutcome {
    /// It has its name, and this digest, which is the source's.
    Stored(Digest),
    /// It is none: it changed at the source, or could not be taken.
    Gone,
}

impl Feed {
    /// The folder `name` in `target` is complete.
    pub(crate) fn keep_mark(&self, target: &Arc<Target>, name: &Name) {
        self.marked.lock().push((Arc::clone(target), name.clone()));
    }

    /// All hosts have all: the next copy to such a name goes into the folder.
    pub(crate) fn end_marks(&self) {
        for (target, name) in std::mem::take(&mut *self.marked.lock()) {
            end_mark(&target, &name);
        }
    }
}

/// Removes a folder's mark. One that stays means no more than it did.
pub(crate) fn end_mark(target: &Target, name: &Name) {
    if let Err(error) = target.end_folder(name) {
        tracing::debug!("{error}");
    }
}

impl Growing {
    /// A handle for reading the blocks that have arrived, while the file grows.
    pub(crate) fn open(&self) -> Option<File> {
        self.state.lock().file.as_ref()?.try_clone().ok()
    }

    /// Block `index` has arrived.
    pub(crate) fn has(&self, index: u64) -> bool {
        self.state.lock().has(index)
    }

    /// Bytes that have not arrived.
    pub(crate) fn outstanding(&self) -> u64 {
        let there: u64 = self.state.lock().there.iter().map(|(start, end)| end - start).sum();
        self.entry.size().saturating_sub(there.saturating_mul(BLOCK))
    }

    /// Runs of blocks that arrived after the first `seen`.
    pub(crate) fn arrived_since(&self, seen: usize) -> Vec<Range<u64>> {
        self.state.lock().arrived.get(seen..).unwrap_or_default().to_vec()
    }

    fn end(&self, outcome: FeedOutcome) {
        let mut state = self.state.lock();
        state.outcome.get_or_insert(outcome);
        state.file = None;
    }

    /// Its outcome, once that is known.
    pub(crate) fn outcome(&self) -> Option<FeedOutcome> {
        self.state.lock().outcome
    }
}

/// The same file, open for reading by itself: a duplicate would share the lock of a part, and hold it against
/// the next receiver.
fn opened_again(file: &File) -> Option<File> {
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

impl GrowingState {
    fn has(&self, index: u64) -> bool {
        self.there.range(..=index).next_back().is_some_and(|(_, end)| index < *end)
    }

    /// Blocks in a row are there; whether one of them was not before.
    fn add(&mut self, run: Range<u64>) -> bool {
        if run.is_empty() {
            return false;
        }
        // It becomes one with all that it overlaps or touches.
        let before = self.there.range(..=run.start).next_back().filter(|(_, end)| **end >= run.start);
        let mut whole = before.map_or(run.start, |(start, _)| *start)..run.end;
        let reached = self.there.range(whole.start..=run.end).map(|(start, end)| (*start, *end));
        let (mut at, known) = (run.start, self.arrived.len());
        for (start, end) in reached.collect::<Vec<_>>() {
            self.there.remove(&start);
            if at < start {
                self.arrived.push(at..start);
            }
            at = at.max(end);
            whole.end = whole.end.max(end);
        }
        if at < run.end {
            self.arrived.push(at..run.end);
        }
        self.there.insert(whole.start, whole.end);
        self.arrived.len() > known
    }
}

impl Feed {
    /// One that is filled from the source itself.
    pub(crate) fn of_source() -> Feed {
        Feed { is_source: true, ..Feed::default() }
    }

    /// Nobody could have it from another host.
    pub(crate) fn is_source(&self) -> bool {
        self.is_source
    }

    /// A receiver begins, or another goes on: its sources have their places.
    pub(crate) fn begin(&self, target: &Arc<Target>, roots: Vec<Name>) {
        let goes_on = self.receivers.fetch_add(1, Relaxed) > 0;
        let mut state = self.state.lock();
        state.place = Some(FeedPlace { target: Arc::clone(target), roots });
        if goes_on {
            state.learn();
        }
        self.told(state);
    }

    /// An entry is in its place.
    pub(crate) fn there(&self, entry: Entry, digest: Option<Digest>, offered: Option<Digest>) {
        let mut state = self.state.lock();
        if let Some(before) = state.growing.remove(&entry.name) {
            before.end(FeedOutcome::Gone);
        }
        if !state.is_known(&entry) {
            state.items.push(Fed::There { entry, digest, offered });
        }
        self.told(state);
    }

    /// All in a folder came.
    pub(crate) fn leave(&self, entry: Entry, keep: Option<Keep>) {
        let mut state = self.state.lock();
        state.items.push(Fed::Leave(entry, keep));
        self.told(state);
    }

    /// A file whose blocks are to come into `file`. `None` where nobody can read it while it grows: it is
    /// said to be there once it is.
    pub(crate) fn grows(&self, entry: Entry, offered: Option<Digest>, file: &File) -> Option<Arc<Growing>> {
        let mut state = self.state.lock();
        let target = Arc::clone(&state.place.as_ref()?.target);
        let identity = target.source_of(&entry.name, Some(file)).ok()?.identity();
        if let Some(before) = state.growing.get(&entry.name) {
            // The part that an earlier receiver left.
            if before.entry == entry && before.identity == identity {
                return Some(Arc::clone(before));
            }
            before.end(FeedOutcome::Gone);
        }
        let growing = Arc::new(Growing {
            entry,
            offered,
            identity,
            state: Mutex::new(GrowingState {
                file: Some(opened_again(file)?),
                there: BTreeMap::new(),
                arrived: Vec::new(),
                outcome: None,
            }),
        });
        state.growing.insert(growing.entry.name.clone(), Arc::clone(&growing));
        state.items.push(Fed::Growing(Arc::clone(&growing)));
        self.told(state);
        Some(growing)
    }

    /// Blocks of a file are written.
    pub(crate) fn arrived(&self, growing: &Growing, run: Range<u64>) {
        if growing.state.lock().add(run) {
            self.poke();
        }
    }

    /// A verified block came compressed; said before it has arrived.
    pub(crate) fn keep_packed(&self, block: PackedBlock) {
        let mut packed = self.packed.lock();
        let mut held: usize = packed.iter().map(|block| block.bytes.len()).sum();
        while held + block.bytes.len() > MOST_PACKED {
            let Some(oldest) = packed.pop_front() else { return };
            held -= oldest.bytes.len();
        }
        packed.push_back(Arc::new(block));
    }

    /// How a block came, where that is still known.
    pub(crate) fn packed(&self, digest: &Digest) -> Option<Arc<PackedBlock>> {
        self.packed.lock().iter().find(|block| block.digest == *digest).cloned()
    }

    /// A file has come to its end.
    pub(crate) fn ended(&self, growing: &Arc<Growing>, outcome: FeedOutcome) {
        let mut state = self.state.lock();
        growing.end(outcome);
        let name = &growing.entry.name;
        if state.growing.get(name).is_some_and(|now| Arc::ptr_eq(now, growing)) {
            state.growing.remove(name);
        }
        self.told(state);
    }

    /// This host could not take something.
    pub(crate) fn lacks(&self, failure: &Failure) {
        let mut state = self.state.lock();
        state.lacks.get_or_insert_with(|| failure.clone());
        self.told(state);
    }

    /// All came; `failed`: not all that was named, at the source.
    pub(crate) fn finish(&self, failed: bool) {
        let mut state = self.state.lock();
        state.finished = Some(failed);
        self.told(state);
    }

    /// Wakes whoever follows.
    pub(crate) fn poke(&self) {
        self.told(self.state.lock());
    }

    /// Bytes of files that grow here which are not there yet.
    pub(crate) fn outstanding(&self) -> u64 {
        self.state.lock().growing.values().map(|growing| growing.outstanding()).fold(0, u64::saturating_add)
    }

    /// Where it is, once a receiver has begun.
    pub(crate) fn place(&self) -> Option<FeedPlace> {
        self.state.lock().place.clone()
    }

    /// Items after the first `seen`, `most` of them.
    pub(crate) fn items_since(&self, seen: usize, most: usize) -> Vec<Fed> {
        let state = self.state.lock();
        let more = state.items.get(seen..).unwrap_or_default();
        more[..more.len().min(most)].to_vec()
    }

    /// Whether the first `seen` things are all that ever come, and if so whether something failed before.
    pub(crate) fn finished_after(&self, seen: usize) -> Option<bool> {
        let state = self.state.lock();
        state.finished.filter(|_| state.items.len() == seen)
    }

    /// The first thing that this host failed to store.
    pub(crate) fn lacking(&self) -> Option<Failure> {
        self.state.lock().lacks.clone()
    }

    /// Waits for a change after `version`, for a while at most. Returns the version then.
    pub(crate) fn wait(&self, version: u64, most: Duration) -> u64 {
        let mut state = self.state.lock();
        if state.version == version {
            self.changed.wait_for(&mut state, most);
        }
        state.version
    }

    fn told(&self, mut state: MutexGuard<'_, FeedState>) {
        state.version += 1;
        drop(state);
        self.changed.notify_all();
    }
}

impl FeedState {
    /// Remembers what is there by name: it is going to be said again.
    fn learn(&mut self) {
        for (number, item) in self.items.iter().enumerate() {
            match item {
                Fed::There { entry, .. } => self.known.insert(entry.name.clone(), number),
                Fed::Growing(growing) => self.known.insert(growing.entry.name.clone(), number),
                Fed::Leave(..) => None,
            };
        }
    }

    /// Whether just this is there already.
    fn is_known(&self, entry: &Entry) -> bool {
        let item = self.known.get(&entry.name).and_then(|number| self.items.get(*number));
        match item {
            Some(Fed::There { entry: known, .. }) => known == entry,
            Some(Fed::Growing(growing)) => {
                growing.entry == *entry && matches!(growing.outcome(), Some(FeedOutcome::Stored(_)))
            }
            Some(Fed::Leave(..)) | None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_compressed_blocks_are_kept() {
        let feed = Feed::default();
        let digest = |number: u8| [number; 32];
        let keep = |number: u8, size: usize| {
            feed.keep_packed(PackedBlock { digest: digest(number), codec: 3, bytes: vec![number; size] });
        };
        (0..20).for_each(|number| keep(number, 1 << 20));
        let there = |number| feed.packed(&digest(number)).map(|block| (block.codec, block.bytes[0]));
        assert_eq!((there(3), there(4), there(19)), (None, Some((3, 4)), Some((3, 19))));
        keep(20, MOST_PACKED + 1);
        assert_eq!((there(20), there(19)), (None, None), "one that has no room pushes out all others");
    }

    /// A file of `size` bytes that grows in a folder.
    fn growing(size: u64) -> (tempfile::TempDir, Feed, Arc<Growing>) {
        let folder = tempfile::tempdir().unwrap();
        let target = Arc::new(Target::open(folder.path(), Default::default()).unwrap());
        let feed = Feed::default();
        feed.begin(&target, vec![Name::root()]);
        let (name, mtime) = ("x".parse().unwrap(), weir_tree::entry::Time::new(0, 0).unwrap());
        let kind = weir_tree::Kind::File { size, sparse: true };
        let entry = Entry { name, kind, mode: 0o644, mtime, uid: 0, gid: 0, xattrs: Vec::new() };
        let file = File::create(folder.path().join("x")).unwrap();
        let growing = feed.grows(entry, None, &file).unwrap();
        (folder, feed, growing)
    }

    #[test]
    fn a_file_may_be_as_large_as_files_can_be() {
        let size = i64::MAX as u64;
        let (_folder, feed, growing) = growing(size);
        let all = crate::subtrees::blocks(size);
        assert_eq!(growing.outstanding(), size);
        feed.arrived(&growing, 7..8);
        feed.arrived(&growing, 0..all);
        assert_eq!(growing.arrived_since(0), [7..8, 0..7, 8..all]);
        assert_eq!([0, 7, all - 1, all].map(|index| growing.has(index)), [true, true, true, false]);
        assert_eq!(growing.outstanding(), 0);
    }

    #[test]
    fn a_block_arrives_once_in_whatever_runs() {
        let (_folder, feed, growing) = growing(20 * BLOCK);
        let mut seen = 0;
        for (run, new) in [
            (4..6, "[4..6]"),
            (4..6, "[]"),
            (6..8, "[6..8]"),
            (10..12, "[10..12]"),
            (5..11, "[8..10]"),
            (2..4, "[2..4]"),
            (0..20, "[0..2, 12..20]"),
            (3..3, "[]"),
        ] {
            feed.arrived(&growing, run);
            let arrived = growing.arrived_since(seen);
            assert_eq!(format!("{arrived:?}"), new);
            seen += arrived.len();
        }
        assert_eq!(growing.outstanding(), 0);
    }
}
