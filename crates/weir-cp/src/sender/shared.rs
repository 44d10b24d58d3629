//! What all parts of a sender share: what it was asked for, the queue, the choice of codecs, and what is
//! counted and told.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use weir_model::chooser::LONGEST_RUN;
use weir_tree::source::Identity;
use weir_tree::{Entry, Name};

use super::packer::Packer;
use super::queue::Queue;
use super::source::SourceFile;
use super::twice;
use crate::control::Outlet;
use crate::counts::Counts;
use crate::error::CopyError;
use crate::events::{Event, Events};
use crate::failed_names::FailedNames;
use crate::feed::Feed;
use crate::handed_in::HandedIn;
use crate::subtrees::Digest;
use crate::vouched::{self, Vouched};
use crate::wire::message::{Failure, Options, Problem};
use crate::wire::to_receiver::ToReceiver;

/// Shared by the walk, the offers, the workers and the lanes.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) receiver: Outlet<ToReceiver>,
    pub(super) events: Events,
    pub(super) options: Options,
    pub(super) queue: Queue,
    pub(super) packer: Packer,
    pub(super) counts: Counts,
    /// Files of which the other end kept something of an earlier run, which is read here too, while the rest
    /// is sent: between two runs a file may have become another one of the same size and time, as images that
    /// are built again have. The other end tells the values of what it has, so that this shows before the end
    /// is told; the file is then offered anew. There are as many as are under way at most.
    pub(super) reread: HandedIn<Arc<SourceFile>>,
    /// Bytes of the files that the walk has found, without those that are at the target.
    pub(super) found_bytes: AtomicU64,
    /// Files that it has found.
    pub(super) found_files: AtomicU64,
    pub(super) failed_names: FailedNames,
    /// Sources that are called otherwise where they go: the name there, and the path here.
    pub(super) renamed: OnceLock<Vec<(Name, PathBuf)>>,
    /// All was sent, as far as this end can know, and the other is asked to finish.
    pub(super) asked: AtomicBool,
    /// What comes to this host, where that is sent and nothing is walked.
    pub(super) feed: OnceLock<Arc<Feed>>,
    /// What the sources are called where they go.
    pub(super) placed: OnceLock<Vec<Name>>,
    /// The target, where it is in a source.
    pub(super) avoid: OnceLock<Identity>,
    /// Where digests are noted to which those who pass files on are held.
    pub(super) vouched: OnceLock<Arc<Vouched>>,
    /// It goes on to other hosts while it comes.
    pub(super) passed_on: AtomicBool,
    /// Something had failed before what came got here.
    pub(super) failed_before: AtomicBool,
    pub(super) over: AtomicBool,
}

impl Shared {
    pub(super) fn new(
        receiver: Outlet<ToReceiver>,
        events: Events,
        options: Options,
        packer: Packer,
    ) -> Shared {
        Shared {
            receiver,
            events,
            options,
            queue: Queue::new(),
            packer,
            counts: Counts::default(),
            reread: HandedIn::default(),
            found_bytes: AtomicU64::new(0),
            found_files: AtomicU64::new(0),
            failed_names: FailedNames::default(),
            renamed: OnceLock::new(),
            asked: AtomicBool::new(false),
            feed: OnceLock::new(),
            placed: OnceLock::new(),
            avoid: OnceLock::new(),
            vouched: OnceLock::new(),
            passed_on: AtomicBool::new(false),
            failed_before: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    /// All work is to end.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// An entry has got to the target.
    pub(super) fn count_file(&self, entry: &Entry) {
        let count = if entry.is_file() { &self.counts.files } else { &self.counts.others };
        count.fetch_add(1, Relaxed);
    }

    /// What has this entry's name at the target is not what is here: second names of it are not to be made.
    pub(super) fn lose(&self, entry: &Entry, number: u64) {
        if self.options.archive && entry.is_file() {
            self.failed_names.note(&entry.name, number);
        }
    }

    /// Blocks that a record may carry: of a chain one, since each host has to have all of a record before it
    /// sends the first byte on.
    pub(super) fn longest_run(&self) -> u32 {
        if self.passed_on.load(Relaxed) { 1 } else { LONGEST_RUN }
    }

    /// A file was sent to its end, and is this.
    pub(super) fn vouch(&self, name: &Name, digest: Digest) {
        if let (Some(vouched), Some(placed)) = (self.vouched.get(), self.placed.get())
            && let Some(name) = vouched::name_of(placed, name)
        {
            vouched.note(name, digest);
        }
    }

    /// A path that could not be read: by the name that its source has here.
    pub(super) fn unread(&self, name: Name, mut failure: Failure) {
        let of = |(root, path): &(Name, PathBuf)| {
            let rest = name.as_bytes().strip_prefix(root.as_bytes())?;
            let rest = rest.strip_prefix(b"/").unwrap_or(rest);
            (name.is_within(root)).then(|| twice::below(path, Path::new(OsStr::from_bytes(rest))))
        };
        if let Some(path) = self.renamed.get().and_then(|renamed| renamed.iter().find_map(of)) {
            failure.words += &format!("; its source is {}", path.display());
        }
        self.problem(name, failure);
    }

    /// A path that is gone since the walk saw it in a listing: as good as never there.
    pub(super) fn vanished(&self, name: Name, failure: Failure) {
        self.events.problem(Problem { name, failure, harmless: true });
    }

    /// A path that could not be sent.
    pub(super) fn problem(&self, name: Name, failure: Failure) {
        self.events.problem(Problem { name, failure, harmless: false });
    }

    /// Of a host that passes on what came to it: whoever is next has this from another, and the session is
    /// over.
    pub(super) fn cannot_pass_on(&self, failure: &Failure) {
        if let Some(feed) = self.feed.get() {
            feed.lacks(failure);
            self.events.send(Event::Failed(CopyError::Refused(failure.clone())));
        }
    }

    /// A path that the receiver could not take, in its words.
    pub(super) fn problem_there(&self, name: Name, failure: Failure) {
        self.events.send(Event::ProblemThere(Problem { name, failure, harmless: false }));
    }
}
