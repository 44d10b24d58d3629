//! What there is to do for a worker: blocks of a file, many entries at once, or a look at where a file has
//! its holes.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};
use weir_tree::{Entry, Kind, Source};

use super::source::SourceFile;
use crate::subtrees::Digest;
use crate::wire::batch::Keep;

/// Something to be done, most of it by making one record.
#[derive(Debug, Clone)]
pub(crate) enum Job {
    /// Blocks of a file.
    Run {
        /// Which file.
        file: Arc<SourceFile>,
        /// Which blocks: in a row, and not empty.
        blocks: Range<u64>,
        /// What of them is sent.
        form: Form,
    },
    /// Nothing to be sent yet: which blocks of a file lie in its holes is to be found out.
    Survey {
        /// Which file.
        file: Arc<SourceFile>,
        /// Which of its blocks are to be sent.
        runs: Vec<Range<u64>>,
    },
    /// Many entries.
    Batch(Arc<Batch>),
}

/// What is sent of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Their bytes, or whatever takes less.
    Packed,
    /// Their bytes, not compressed: the other end could not use it otherwise.
    Plain,
    /// That they lie in a hole, any number of them.
    Hole,
}

impl Job {
    /// Not to be compressed.
    pub(crate) fn is_plain(&self) -> bool {
        match self {
            Job::Run { form, .. } => *form == Form::Plain,
            Job::Survey { .. } => false,
            Job::Batch(batch) => batch.plain.load(Relaxed),
        }
    }

    /// The file that it is of.
    pub(crate) fn file(&self) -> Option<&Arc<SourceFile>> {
        match self {
            Job::Run { file, .. } | Job::Survey { file, .. } => Some(file),
            Job::Batch(_) => None,
        }
    }
}

/// Entries that travel together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Their number as a batch.
    pub(crate) id: u64,
    /// What they are.
    pub(crate) items: Vec<Item>,
    /// Bytes of content, and about as many as the entries take.
    pub(super) size: usize,
    /// Not compressed: the other end could not use it otherwise.
    pub(super) plain: AtomicBool,
    /// The numbers of those that could not be read.
    failed: Mutex<Vec<u64>>,
}

impl Batch {
    /// The numbers of those that could not be read.
    pub(super) fn failed(&self) -> MutexGuard<'_, Vec<u64>> {
        self.failed.lock()
    }
}

/// An entry of a batch.
#[derive(Debug)]
pub(crate) struct Item {
    /// Its number in the walk.
    pub(crate) number: u64,
    /// What it is.
    pub(crate) entry: Entry,
    /// Where its content is.
    pub(crate) source: Option<Source>,
    /// A folder whose attributes are to be set.
    pub(crate) last: bool,
    /// What is in it, with `--delete`.
    pub(crate) keep: Option<Keep>,
    /// What the content has to be, where it came from elsewhere.
    pub(crate) due: Option<Digest>,
}

/// Of a member of a batch, what is not its entry: whether it is the last, how many names it keeps, and
/// whether more come.
const MEMBER: usize = 16;

impl Item {
    /// Bytes of a batch that it takes, at most.
    pub(super) fn size(&self) -> usize {
        let content = if self.source.is_some() { self.entry.size() } else { 0 };
        let names: usize = self.keep.iter().flat_map(|keep| &keep.names).map(|name| name.len() + 4).sum();
        content as usize + names + MEMBER + self.entry.packed_len()
    }

    pub(super) fn is_deferred(&self) -> bool {
        self.last || matches!(self.entry.kind, Kind::HardLink { .. })
    }
}
