//! Entries: what one thing in a tree is, as it goes over the wire. Reading one off the wire checks it.

use std::fmt;

use rustix::fs::{FileType, Statx};
use serde::{Deserialize, Serialize};

use crate::name::{Bytes, quoted};
pub use crate::name::{Invalid, MAX_COMPONENT, MAX_NAME, Name, stand_in};

/// Nanoseconds in a second.
const NANOS: u32 = 1_000_000_000;
/// Longest name of an attribute, Linux's XATTR_NAME_MAX.
pub(crate) const MAX_XATTR_NAME: usize = 255;
/// Largest value of one attribute, Linux's XATTR_SIZE_MAX.
pub(crate) const MAX_XATTR: usize = 64 << 10;
/// Most that an entry's attributes take together, so that an entry fits into a message of 1 MiB. XFS could
/// hold more.
pub(crate) const MAX_XATTRS: usize = 512 << 10;

/// One thing in a tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Entry {
    /// Where it is.
    pub name: Name,
    /// What it is.
    pub kind: Kind,
    /// Permission bits with set-user-id, set-group-id and sticky: 0o7777 at most.
    pub mode: u32,
    /// When its content was last modified.
    pub mtime: Time,
    /// Owner, by number.
    pub uid: u32,
    /// Group, by number.
    pub gid: u32,
    /// Extended attributes in the order of their names; empty where they were not asked for.
    pub xattrs: Vec<Xattr>,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// A regular file.
    File {
        /// Length in bytes.
        size: u64,
        /// It has holes: fewer blocks than its length needs.
        sparse: bool,
    },
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink {
        /// Where it points; weir itself never goes there.
        target: LinkTarget,
    },
    /// Another name of a file that came before in the same walk.
    HardLink {
        /// The first name.
        to: Name,
    },
    /// What is no data: made anew where that is asked for and allowed.
    Special(Special),
}

/// Things in a file system that are no data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Special {
    /// A named pipe.
    Fifo,
    /// A socket's name.
    Socket,
    /// A block device.
    BlockDevice(Device),
    /// A character device.
    CharacterDevice(Device),
}

/// Which device of its kind (makedev(3)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Device {
    /// Whose it is.
    pub major: u32,
    /// Which of them.
    pub minor: u32,
}

/// A symbolic link's target: 1 to 4095 bytes without NUL. Absolute and `..` are allowed: it is data, not a
/// way to go.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Bytes", into = "Bytes")]
pub struct LinkTarget(Box<[u8]>);

/// Seconds since 1970 (before it: negative) and nanoseconds after that second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "(i64, u32)", into = "(i64, u32)")]
pub struct Time {
    secs: i64,
    nanos: u32,
}

/// An extended attribute, such as `user.comment`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "(Bytes, Bytes)", into = "(Bytes, Bytes)")]
pub struct Xattr {
    name: Box<[u8]>,
    value: Box<[u8]>,
}

impl Entry {
    /// What statx(2) said of `name`. `target` reads the target of a symbolic link; no hard links, no
    /// attributes.
    pub(crate) fn from_statx(
        name: Name,
        stat: &Statx,
        target: impl FnOnce(&Name) -> Result<LinkTarget, crate::TreeError>,
    ) -> Result<Entry, crate::TreeError> {
        let kind = match file_type(stat) {
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Symlink { target: target(&name)? },
            // stx_blocks counts 512 bytes whatever the block size is (statx(2)).
            _ => Special::of(stat).map(Kind::Special).unwrap_or(Kind::File {
                size: stat.stx_size,
                sparse: stat.stx_blocks.saturating_mul(512) < stat.stx_size,
            }),
        };
        let mtime = Time { secs: stat.stx_mtime.tv_sec, nanos: stat.stx_mtime.tv_nsec.min(NANOS - 1) };
        let mode = u32::from(stat.stx_mode) & 0o7777;
        Ok(Entry { name, kind, mode, mtime, uid: stat.stx_uid, gid: stat.stx_gid, xattrs: Vec::new() })
    }

    /// Length of a file's content; 0 for everything else.
    pub fn size(&self) -> u64 {
        if let Kind::File { size, .. } = self.kind { size } else { 0 }
    }

    /// Bytes that it takes in a message, at most: names, targets and attributes with their lengths, and all
    /// numbers at their longest.
    pub fn packed_len(&self) -> usize {
        const NUMBERS: usize = 64;
        const LENGTHS: usize = 10;
        let way = match &self.kind {
            Kind::Symlink { target } => target.as_bytes().len(),
            Kind::HardLink { to } => to.as_bytes().len(),
            _ => 0,
        };
        let xattrs: usize = self.xattrs.iter().map(|xattr| xattr.weight() + LENGTHS).sum();
        NUMBERS + LENGTHS + self.name.as_bytes().len() + way + xattrs
    }

    /// Is it a directory?
    pub fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }

    /// Is it a regular file?
    pub fn is_file(&self) -> bool {
        matches!(self.kind, Kind::File { .. })
    }
}

pub(crate) fn file_type(stat: &Statx) -> FileType {
    FileType::from_raw_mode(stat.stx_mode.into())
}

impl Kind {
    /// What it is, in words with an article.
    pub fn words(&self) -> &'static str {
        match self {
            Kind::File { .. } | Kind::HardLink { .. } => "a file",
            Kind::Directory => "a directory",
            Kind::Symlink { .. } => "a symbolic link",
            Kind::Special(special) => special.words(),
        }
    }
}

impl Special {
    /// As statx(2) tells it; `None` of anything else.
    pub(crate) fn of(stat: &Statx) -> Option<Special> {
        let device = Device { major: stat.stx_rdev_major, minor: stat.stx_rdev_minor };
        Some(match file_type(stat) {
            FileType::Fifo => Special::Fifo,
            FileType::Socket => Special::Socket,
            FileType::BlockDevice => Special::BlockDevice(device),
            FileType::CharacterDevice => Special::CharacterDevice(device),
            _ => return None,
        })
    }

    /// What it is, in words with an article.
    pub fn words(self) -> &'static str {
        match self {
            Special::Fifo => "a named pipe",
            Special::Socket => "a socket",
            Special::BlockDevice(_) => "a block device",
            Special::CharacterDevice(_) => "a character device",
        }
    }
}

impl Time {
    /// Checks that `nanos` are less than a second.
    pub fn new(secs: i64, nanos: u32) -> Option<Time> {
        (nanos < NANOS).then_some(Time { secs, nanos })
    }

    /// Seconds since 1970.
    pub fn secs(self) -> i64 {
        self.secs
    }

    /// Nanoseconds after [`Time::secs`]: below 1 000 000 000.
    pub fn nanos(self) -> u32 {
        self.nanos
    }
}

impl LinkTarget {
    /// Checks `bytes`.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<LinkTarget, Invalid> {
        let bytes = bytes.into();
        if bytes.is_empty() || bytes.len() > MAX_NAME || bytes.contains(&0) {
            return Err(Invalid::Target(quoted(&bytes)));
        }
        Ok(LinkTarget(bytes))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for LinkTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", quoted(&self.0))
    }
}

impl Xattr {
    /// Checks the lengths; a name is not empty and has no NUL.
    pub fn new(name: impl Into<Box<[u8]>>, value: impl Into<Box<[u8]>>) -> Option<Xattr> {
        let (name, value) = (name.into(), value.into());
        let fits = (1..=MAX_XATTR_NAME).contains(&name.len()) && value.len() <= MAX_XATTR;
        (fits && !name.contains(&0)).then_some(Xattr { name, value })
    }

    /// With its namespace: `user.comment`.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Any bytes.
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// What it counts towards [`MAX_XATTRS`].
    pub(crate) fn weight(&self) -> usize {
        self.name.len() + self.value.len()
    }
}

impl fmt::Debug for Xattr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={:?}", quoted(&self.name), quoted(&self.value))
    }
}

/// An entry as it comes: each part has checked itself, not yet what they are together.
#[derive(Deserialize)]
struct Unchecked {
    name: Name,
    kind: Kind,
    mode: u32,
    mtime: Time,
    uid: u32,
    gid: u32,
    xattrs: Vec<Xattr>,
}

impl TryFrom<Unchecked> for Entry {
    type Error = Invalid;

    fn try_from(
        Unchecked { name, kind, mode, mtime, uid, gid, xattrs }: Unchecked,
    ) -> Result<Entry, Invalid> {
        // Offsets in files are signed 64-bit numbers (off_t).
        let why = if mode > 0o7777 {
            "its mode has other bits than permissions"
        } else if name.is_root() && kind != Kind::Directory {
            "the root of a tree is a directory"
        } else if matches!(&kind, Kind::HardLink { to } if to.is_root() || *to == name) {
            "it links to itself or to the root"
        } else if matches!(kind, Kind::File { size, .. } if i64::try_from(size).is_err()) {
            "no file is that large"
        } else if xattrs.iter().map(Xattr::weight).sum::<usize>() > MAX_XATTRS {
            "its extended attributes are too large"
        } else if !xattrs.is_sorted_by(|a, b| a.name < b.name) {
            "its extended attributes are out of order"
        } else {
            return Ok(Entry { name, kind, mode, mtime, uid, gid, xattrs });
        };
        Err(Invalid::Entry(name.to_string(), why))
    }
}

impl TryFrom<Bytes> for LinkTarget {
    type Error = Invalid;

    fn try_from(bytes: Bytes) -> Result<LinkTarget, Invalid> {
        LinkTarget::new(bytes.0)
    }
}

impl From<LinkTarget> for Bytes {
    fn from(target: LinkTarget) -> Bytes {
        Bytes(target.0)
    }
}

impl TryFrom<(i64, u32)> for Time {
    type Error = &'static str;

    fn try_from((secs, nanos): (i64, u32)) -> Result<Time, &'static str> {
        Time::new(secs, nanos).ok_or("a time with a second or more of nanoseconds")
    }
}

impl From<Time> for (i64, u32) {
    fn from(time: Time) -> (i64, u32) {
        (time.secs, time.nanos)
    }
}

impl TryFrom<(Bytes, Bytes)> for Xattr {
    type Error = &'static str;

    fn try_from((name, value): (Bytes, Bytes)) -> Result<Xattr, &'static str> {
        Xattr::new(name.0, value.0).ok_or("an extended attribute whose name or value is too long")
    }
}

impl From<Xattr> for (Bytes, Bytes) {
    fn from(xattr: Xattr) -> (Bytes, Bytes) {
        (Bytes(xattr.name), Bytes(xattr.value))
    }
}
