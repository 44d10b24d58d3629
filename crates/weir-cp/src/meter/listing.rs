//! What a copy would take of its sources, file by file: found by the copy's own walk and choices, and less
//! what the target says it has.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_observe::thread::thread_cpu_now;
use weir_tree::source::Identity;
use weir_tree::walk::{Root, Wanted};
use weir_tree::{Entry, Kind, Source, Step, TreeError, source};

use crate::list::Names;
use crate::sender::{Twice, walk_of};
use crate::wire::measure::{MAX_LISTED, Want};
use crate::wire::message::{Failure, Options, Problem};

/// Bytes of entries that are remembered, some 200 000 of them.
const REMEMBERED: usize = 32 << 20;

/// Bytes of entries in one question to the target: with one more, whose attributes are 512 KiB at most, they
/// fit into a message.
const OFFERED: usize = 512 << 10;

/// Entries between two looks at the clock, which costs a tenth of what an entry does.
const CHECK_EVERY: u64 = 64;

/// A file that is to be moved.
#[derive(Debug)]
pub(super) struct File {
    /// Of which source.
    pub(super) root: usize,
    pub(super) entry: Entry,
    /// Bytes of it that move: not its holes; none where it is at the target.
    pub(super) data: u64,
}

/// What a walk found.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) roots: Vec<Root>,
    /// Those that are remembered.
    pub(super) files: Vec<File>,
    /// Bytes that move, of the remembered files and of others.
    pub(super) bytes: u64,
    /// Files that do.
    pub(super) count: u64,
    /// Files, folders and links that the walk met.
    pub(super) entries: u64,
    /// Bytes that move of the remembered files.
    pub(super) known: u64,
    /// Bytes in holes, which do not.
    pub(super) holes: u64,
    /// Files that stay as they are at the target.
    pub(super) unmoved: u64,
    /// Files of which the target has another version, so that only what differs moves.
    pub(super) differing: u64,
    /// All was met.
    pub(super) complete: bool,
    /// Time of the processor.
    pub(super) cpu: Duration,
    remembered: usize,
    /// The last ones that the target was asked about.
    offered: Range<usize>,
}

/// Walks through `roots`, or what a list names in the only one, but not into the target, for so long. What
/// cannot be read is told, as in a copy.
pub(super) fn list(
    (roots, names, avoid): (Vec<Root>, Option<Names>, Option<Identity>),
    options: &Options,
    tell: impl Fn(Problem),
    (time, over): (Duration, &AtomicBool),
) -> Listing {
    let (start, cpu) = (Instant::now(), thread_cpu_now());
    let is_over = || start.elapsed() > time || over.load(Relaxed);
    let twice = Twice::of(&roots);
    let mut wanted = Wanted { avoid, ..options.walks_for() };
    // They are compared only with those of earlier copies.
    wanted.xattrs &= !options.selection.link_dest.is_empty();
    let mut walk = walk_of(options, roots.clone(), names, wanted);
    let mut listing = Listing { complete: true, roots, ..Listing::default() };
    while let Some(step) = walk.next() {
        if listing.entries % CHECK_EVERY == CHECK_EVERY - 1 && is_over() {
            listing.complete = false;
            break;
        }
        let (entry, source) = match step {
            Step::Found(entry, source) => (entry, source),
            Step::Leave(_) => continue,
            Step::Failed(name, error) => {
                let harmless = matches!(error, TreeError::Vanished { .. });
                tell(Problem { name, failure: Failure::of_source(&error), harmless });
                continue;
            }
        };
        listing.entries += 1;
        if let Err(failure) = twice.check(&entry, walk.roots_left()) {
            tell(Problem { name: entry.name, failure, harmless: false });
        } else if entry.is_file() && !options.selection.passes_over(&entry) {
            let root = listing.roots.len().saturating_sub(walk.roots_left() + 1);
            listing.add(root, entry, &source, options, &is_over);
        }
    }
    listing.cpu = thread_cpu_now().saturating_sub(cpu);
    listing
}

impl Listing {
    fn add(
        &mut self,
        root: usize,
        entry: Entry,
        source: &Source,
        options: &Options,
        is_over: &dyn Fn() -> bool,
    ) {
        let has_holes = matches!(entry.kind, Kind::File { sparse: true, .. }) && options.in_blocks(&entry);
        let data = match has_holes {
            // Of a file that cannot be told in time all is taken for data.
            true => data_in(source, &entry, is_over).unwrap_or(entry.size()),
            false => entry.size(),
        };
        self.count += 1;
        // Sparse files may sum to more than any number holds.
        self.bytes = self.bytes.saturating_add(data);
        self.holes = self.holes.saturating_add(entry.size() - data);
        let packed = entry.packed_len();
        if self.remembered + packed <= REMEMBERED {
            self.remembered += packed;
            self.known = self.known.saturating_add(data);
            self.files.push(File { root, entry, data });
        }
    }

    /// The next files for the target to look at; none at their end.
    pub(super) fn offers(&mut self) -> Vec<Entry> {
        let start = self.offered.end;
        let mut bytes = 0;
        let fits = |file: &&File| {
            bytes += file.entry.packed_len();
            bytes <= OFFERED
        };
        let left = &self.files[start..];
        let count = left.iter().take(MAX_LISTED).take_while(fits).count().max(usize::from(!left.is_empty()));
        self.offered = start..start + count;
        self.files[self.offered.clone()].iter().map(|file| file.entry.clone()).collect()
    }

    /// What the target wants of these; false where that is no answer about them.
    pub(super) fn take_answer(&mut self, wants: &[Want]) -> bool {
        let files = &mut self.files[self.offered.clone()];
        if files.len() != wants.len() {
            return false;
        }
        for (file, want) in files.iter_mut().zip(wants) {
            match want {
                Want::All => {}
                Want::Difference => self.differing += 1,
                Want::Nothing => {
                    let data = std::mem::take(&mut file.data);
                    self.bytes = self.bytes.saturating_sub(data);
                    self.known = self.known.saturating_sub(data);
                    self.holes = self.holes.saturating_sub(file.entry.size() - data);
                    self.count -= 1;
                    self.unmoved += 1;
                }
            }
        }
        // Asked once: a second answer about the same is none.
        self.offered.start = self.offered.end;
        true
    }
}

/// Bytes of a file outside its holes, as a copy moves them; `None` where that cannot be told, or not in time.
fn data_in(from: &Source, entry: &Entry, is_over: &dyn Fn() -> bool) -> Option<u64> {
    let file = from.open(entry).ok()?;
    let mut bytes = 0;
    for range in source::data(&file, entry) {
        let range = range.ok()?;
        bytes += range.end - range.start;
        if is_over() {
            return None;
        }
    }
    Some(bytes.min(entry.size()))
}
