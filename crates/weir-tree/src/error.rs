//! What can go wrong with a tree on this machine: which entry, what was attempted, why, and the way out.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use weir_units::plain;

use crate::bad_rule::BadRule;
use crate::name::{Invalid, Name};

/// What is done on the way to an entry.
pub(crate) const OPEN_WAY: &str = "open the directory of";
/// The same where it was not there.
pub(crate) const CREATE_WAY: &str = "create the directory of";

/// An operation on a tree failed.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// A system call on an entry failed.
    #[error("cannot {action} {name}: {}", reason(.source))]
    Entry {
        /// `create`, `rename`, `read`.
        action: &'static str,
        /// The entry.
        name: Name,
        /// Cause.
        source: io::Error,
    },
    /// A system call on a path of this machine failed: the root of a tree, a list of files.
    #[error("cannot {action} {}: {}", .path.display(), reason(.source))]
    Path {
        /// `open`, `create`.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// What is there is of another kind and is not replaced.
    #[error("cannot put {new} at {name}: what is there is {old}; remove it or choose another name")]
    Clash {
        /// The entry.
        name: Name,
        /// What is to be there.
        new: &'static str,
        /// What is there.
        old: &'static str,
    },
    /// The way to an entry leads over a symbolic link or out of the tree.
    #[error(
        "cannot reach {name}: the way there leads over a symbolic link or out of the tree, and weir does not follow"
    )]
    Escapes {
        /// The entry.
        name: Name,
    },
    /// The entry is not what it was when the walk saw it.
    #[error("{name} was replaced by something else while the tree was read; copy it again")]
    Replaced {
        /// The entry.
        name: Name,
    },
    /// The unfinished file of the entry lost its passing name before it got its own.
    #[error("the unfinished file of {name} at the target was {fate}; copy it again")]
    Unplaced {
        /// The entry.
        name: Name,
        /// `removed`, `replaced by another file`.
        fate: &'static str,
    },
    /// What has the name at the target is not what was there a moment before.
    #[error("{name} at the target was replaced by another program; copy it again")]
    ReplacedThere {
        /// The entry.
        name: Name,
    },
    /// The walk had the entry in a listing, and it was gone when the walk came to it, or when it was read.
    #[error("{name} vanished while the tree was read")]
    Vanished {
        /// The entry.
        name: Name,
    },
    /// A source that was to go after it was copied, and that was written to since.
    #[error("{name} was changed after it was copied, so it stays; copy it again")]
    Changed {
        /// The entry.
        name: Name,
    },
    /// A source that was to go after it was copied, and that is somewhere else.
    #[error("{name} was reached over a symbolic link, so it stays; remove it and the link by hand")]
    OverLink {
        /// The entry.
        name: Name,
    },
    /// Another name of this run is the same to the target's file system.
    #[error(
        "cannot put {name}: to this file system its name is that of {other}, which is there; rename one of them"
    )]
    Collides {
        /// The entry.
        name: Name,
        /// The one that is there.
        other: Name,
    },
    /// A name that weir uses itself.
    #[error(
        "cannot put {name}: names like .NAME.weir-part are those of weir's unfinished files; rename it or leave it out: --exclude '.*.weir-part'"
    )]
    Reserved {
        /// The entry.
        name: Name,
    },
    /// Another weir is at work on the same file.
    #[error("{name} is being written by another weir; wait for it")]
    Locked {
        /// The entry.
        name: Name,
    },
    /// The target of a copy lies in its source.
    #[error("{name} is the target of this copy itself; left out")]
    Itself {
        /// The entry.
        name: Name,
    },
    /// A link whose target is wanted and is not there.
    #[error("cannot read {name}: it is a dangling symbolic link")]
    LeadsNowhere {
        /// The link.
        name: Name,
    },
    /// A name of a list that leads through a symbolic link.
    #[error("cannot read {name}: {link} is a symbolic link; -L copies what links lead to")]
    BehindLink {
        /// The name.
        name: Name,
        /// The link.
        link: Name,
    },
    /// A link to a folder that it is in, whose content would never end.
    #[error("{name} leads to a folder that it is in itself; left out")]
    Around {
        /// The link.
        name: Name,
    },
    /// The rules of a folder: what is not to be copied, or not to be removed, cannot be told.
    #[error("cannot read the rules of {name}, so the folder is skipped: {error}")]
    Rules {
        /// The folder.
        name: Name,
        /// What is wrong with them.
        error: BadRule,
    },
    /// A name that is none.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The kernel is too old to be safe.
    #[error(
        "this kernel has no openat2, without which a tree cannot be written safely: Linux 5.6 or newer is needed (or a container that allows it)"
    )]
    NoOpenat2,
}

impl TreeError {
    /// A system call on `name` that failed.
    pub(crate) fn of(action: &'static str, name: &Name, errno: Errno) -> TreeError {
        TreeError::Entry { action, name: name.clone(), source: errno.into() }
    }

    /// The system does not permit it.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, TreeError::Entry { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }

    /// What is at the entry's name, or on the way there, is of another kind.
    pub fn is_barred(&self) -> bool {
        match self {
            TreeError::Clash { .. } | TreeError::Escapes { .. } => true,
            TreeError::Entry { source, .. } => source.raw_os_error() == Some(Errno::NOTDIR.raw_os_error()),
            _ => false,
        }
    }

    /// A directory that the entry is, or would be in, cannot be made or reached.
    pub fn is_on_the_way(&self) -> bool {
        match self {
            TreeError::Clash { new, .. } => *new == "a directory",
            TreeError::Escapes { .. } => true,
            TreeError::Entry { action, .. } => matches!(*action, CREATE_WAY | OPEN_WAY),
            _ => false,
        }
    }

    /// Opening the way to `name` failed. openat2(2): ELOOP is a symbolic link under RESOLVE_NO_SYMLINKS,
    /// EXDEV leaving under RESOLVE_BENEATH.
    pub(crate) fn on_the_way(name: &Name, errno: Errno) -> TreeError {
        match errno {
            Errno::LOOP | Errno::XDEV => TreeError::Escapes { name: name.clone() },
            Errno::NOSYS => TreeError::NoOpenat2,
            errno => TreeError::of(OPEN_WAY, name, errno),
        }
    }

    /// The system's error number, where there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            TreeError::Entry { source, .. } | TreeError::Path { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }

    /// The entry is not there, or no longer.
    pub fn is_gone(&self) -> bool {
        matches!(self, TreeError::Vanished { .. }) || self.errno() == Some(Errno::NOENT.raw_os_error())
    }
}

/// An error's text, and the way out where a name is at fault.
fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) if number == Errno::NAMETOOLONG.raw_os_error() => {
            "this file system does not take a name that long; shorten it".to_owned()
        }
        _ => plain(error),
    }
}
