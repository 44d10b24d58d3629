//! What the messages of the control connection say, whatever their direction. `docs/protocol.md` says who
//! sends which when.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weir_tree::entry::Special;
use weir_tree::source::Identity;
use weir_tree::walk::Wanted;
use weir_tree::{Entry, Filter, Name, TreeError};

use super::batch::SMALL;
use super::change::Change;
use super::owners::{Mapping, Owners};
use super::selection::Selection;
use crate::ciphers::MAX_CIPHERS;
use crate::secret::Secret;
use crate::subtrees::Digest;

/// The protocol that this program speaks. Ends of different numbers do not talk.
pub const PROTOCOL: u16 = 8;

/// Sources on a command line.
pub const MAX_ROOTS: usize = 16384;

/// Bytes of their paths in all: a message with all of them, and 64 bytes for each, fits into a frame.
pub const MAX_PATHS: usize = 3 << 20;

/// Bytes of one path, with the zero at its end (PATH_MAX of linux/limits.h).
pub const MAX_PATH: usize = 4096;

/// Names in one piece of a list.
pub(crate) const MAX_NAMES: usize = 16384;

/// Addresses of a host.
pub const MAX_ADDRESSES: usize = 64;

/// Files that travel in blocks and are not stored yet: each costs the receiver up to two descriptors. At 1
/// Gbit/s and a round trip of 100 ms 48 of the smallest (256 KiB) are in flight. Half of that is what a
/// sender offers by itself; what changed under it comes on top.
pub const MAX_UNDER_WAY: usize = 512;

/// Bytes of a sample: sixteen lanes and as many threads take under 32 KiB.
pub(crate) const MAX_SAMPLE: usize = 64 << 10;

/// Who speaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u16,
    /// The program's version, for words.
    pub version: String,
    /// Ciphers by number, with the bytes per second that one core of this host seals.
    pub ciphers: Vec<(u8, u64)>,
    /// Processors that the program may use.
    pub cpus: u16,
    /// Which running kernel this is: two ends with the same one share their files.
    pub boot: String,
    /// Which network of that kernel (containers have their own): two ends in the same one meet over loopback.
    /// 0: not known.
    pub network: u64,
    /// Addresses at which this host may be reached, the likeliest first.
    pub addresses: Vec<IpAddr>,
}

/// What the session is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Start {
    /// Of all keys.
    pub secret: Secret,
    /// The lanes' cipher; 0 for none.
    pub cipher: u8,
    /// What the peer does.
    pub role: Role,
    /// The peer is to listen.
    pub listen: Option<Ports>,
    /// How it is to be done.
    pub options: Options,
    /// The sources, for a sender; the target alone, for a receiver.
    pub paths: Vec<Vec<u8>>,
}

/// What an end does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Reads and sends.
    Sender,
    /// Receives and writes.
    Receiver,
}

impl Options {
    /// Whether a node of this kind is to be made where that is allowed. Of sockets only a program that
    /// listens makes anything.
    pub(crate) fn asks_for(&self, special: Special) -> bool {
        match special {
            Special::Socket => false,
            Special::Fifo => self.archive || self.specials,
            Special::BlockDevice(_) | Special::CharacterDevice(_) => self.archive || self.devices,
        }
    }
}

impl Role {
    /// What the other end of the same copy does.
    pub fn other(self) -> Role {
        match self {
            Role::Sender => Role::Receiver,
            Role::Receiver => Role::Sender,
        }
    }
}

/// How records travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transport {
    /// On a TCP connection of their own.
    Tcp,
    /// As frames between the control messages, in ssh.
    Ssh,
}

/// Ports on which lanes may be accepted; 0 to 0 for any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

/// How a copy is to be done: what both ends know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Modes, times, owners, extended attributes, symbolic and hard links (`-a`).
    pub archive: bool,
    /// Folders are copied with all that is in them, also those that a list names.
    pub recursive: bool,
    /// Leave files that look the same, send of others what differs.
    pub update: bool,
    /// Seconds by which the times of files that are the same may differ.
    pub modify_window: u32,
    /// Files are the same by content alone.
    pub checksum: bool,
    /// Remove what the source does not have.
    pub delete: bool,
    /// Only say what would be done.
    pub dry_run: bool,
    /// What is left out.
    pub filter: Filter,
    /// Bytes per second at most on all lanes together, after compression.
    pub rate_cap: Option<u64>,
    /// The codec of all blocks: number and level; none for the one that the chooser takes.
    pub codec: Option<(u8, i32)>,
    /// Wait for the disk before a file gets its name.
    pub sync: bool,
    /// A file that grows while it is copied is none until it rests.
    pub whole_or_nothing: bool,
    /// Make devices (`--devices`): with `archive` too. Only root does, whoever else asks.
    pub devices: bool,
    /// Make named pipes (`--specials`): with `archive` where root receives.
    pub specials: bool,
    /// Only what a list names is copied, which the driver has (`--files-from`).
    pub listed: bool,
    /// What of it is copied, over what.
    pub selection: Selection,
    /// Of the hosts and sources, so that a folder which the same command had begun is known again
    /// ([`crate::roots::digest_of`]).
    pub command: Digest,
}

/// Where lanes are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    /// The port; 0 for none.
    pub port: u16,
    /// Addresses to try, the likeliest first. The unspecified one (0.0.0.0) stands for that from which ssh
    /// came.
    pub addresses: Vec<IpAddr>,
}

/// A source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// Its last component; the root for a folder whose content is meant.
    pub name: Name,
    /// It is a folder.
    pub directory: bool,
    /// Which it is; for a link that is copied as one, what it leads to.
    pub identity: Identity,
}

/// Something that would be done, or was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deed {
    /// Written, new or over what is there.
    Copy,
    /// Removed.
    Delete,
    /// The same in detail, where that was asked for; also of what was done.
    Change(Box<Change>),
}

/// Why something ended without being done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of failure, for exit codes.
    pub kind: FailureKind,
    /// In words: object, cause, way out.
    pub words: String,
}

/// Kinds of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FailureKind {
    /// A file of one end's could not be read or written.
    Local,
    /// The source changed or vanished while it was read.
    Changed,
    /// The digests differ.
    Verification,
    /// The other end, or the way to it.
    Session,
    /// Interrupted by the user.
    Interrupted,
}

/// A path that could not be read or written; the rest goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Which.
    pub name: Name,
    /// Why.
    pub failure: Failure,
    /// The run is complete all the same: something that is not copied, or an attribute that was not kept.
    pub harmless: bool,
}

/// What a run moved, as one end counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Files.
    pub files: u64,
    /// Of these, files that were there already.
    pub unchanged: u64,
    /// Other entries.
    pub others: u64,
    /// Entries removed, or to be removed in a dry run.
    pub deleted: u64,
    /// Bytes of content that came in this run.
    pub bytes: u64,
    /// Bytes that an earlier run had left.
    pub kept: u64,
    /// Bytes of payload after compression.
    pub packed: u64,
    /// Attributes that were asked for and that the target did not take.
    pub unkept: u64,
    /// Bytes that were read to compare what was there with what was offered, by the sender and the receiver
    /// as far as each knows.
    pub compared: u64,
}

impl Totals {
    /// Bytes of content that are there, of this run and of an earlier one.
    pub fn there(&self) -> u64 {
        self.bytes.saturating_add(self.kept)
    }
}

/// What a sender's walk has found so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Files.
    pub files: u64,
    /// Bytes of their content, without files that are at the target already.
    pub bytes: u64,
    /// The walk has ended: there are no more.
    pub all: bool,
}

impl Options {
    /// What a walk through the sources looks at.
    pub(crate) fn walks_for(&self) -> Wanted {
        Wanted {
            xattrs: self.archive,
            hard_links: self.archive,
            beneath: self.recursive,
            one_file_system: self.selection.one_file_system,
            referents: self.selection.copy_links,
            ..Wanted::default()
        }
    }

    /// Whether the receiver decides about each file before it is sent.
    pub(crate) fn asks_first(&self) -> bool {
        self.update || self.checksum || self.dry_run || self.selection.asks_first()
    }

    /// Whether entries get their source's owner: all that is kept, or whom a map gives them to.
    pub(crate) fn keeps_users(&self) -> bool {
        self.archive || !self.selection.owners.users.is_empty()
    }

    /// The same of groups.
    pub(crate) fn keeps_groups(&self) -> bool {
        self.archive || !self.selection.owners.groups.is_empty()
    }

    /// Whether a link that is named is copied as one, and not what it leads to.
    pub(crate) fn keeps_named_links(&self) -> bool {
        self.archive && !self.selection.copy_links
    }

    /// Whether folders that are at the target get the modes of their sources, as what is made does: where
    /// that was asked for by `-a`, by `--chmod`, or by `-p`, which comes as a change of modes that changes
    /// nothing.
    pub(crate) fn changes_folders(&self) -> bool {
        self.archive || !self.selection.modes.is_empty()
    }

    /// What the sender tells of owners' names before its sources, if that is of use.
    pub(crate) fn owners_here(&self) -> Option<Owners> {
        let Mapping { numeric, users, groups } = &self.selection.owners;
        let keeps = self.keeps_users() || self.keeps_groups();
        let by_name = keeps && !(*numeric && users.is_empty() && groups.is_empty());
        by_name.then(Owners::here)
    }

    /// Whether a file travels in blocks, with a word of the receiver when it is in its place; others do in
    /// batches. A file that is to be removed needs that word, however small it is.
    pub(crate) fn in_blocks(&self, entry: &Entry) -> bool {
        entry.size() > SMALL || self.selection.remove_source_files
    }
}

impl Hello {
    pub(super) fn is_sound(&self) -> bool {
        self.addresses.len() <= MAX_ADDRESSES
            && self.ciphers.len() <= MAX_CIPHERS
            && self.version.len() <= 200
            && self.boot.len() <= 200
    }
}

impl Start {
    pub(super) fn is_sound(&self) -> bool {
        self.paths.len() <= MAX_ROOTS && self.paths.iter().all(|path| path.len() < MAX_PATH)
    }
}

impl Failure {
    /// Of a kind, in words.
    pub fn new(kind: FailureKind, words: impl Into<String>) -> Failure {
        let mut words = words.into();
        // What a stranger may have written is shown, and stored, in part.
        words.truncate(words.floor_char_boundary(2000));
        Failure { kind, words }
    }

    /// Of something of the source that could not be read.
    pub(crate) fn of_source(error: &TreeError) -> Failure {
        let kind = if error.is_gone() { FailureKind::Changed } else { FailureKind::Local };
        Failure::new(kind, error.to_string())
    }

    /// Of this machine's files.
    pub fn local(error: impl std::fmt::Display) -> Failure {
        Failure::new(FailureKind::Local, error.to_string())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words)
    }
}
