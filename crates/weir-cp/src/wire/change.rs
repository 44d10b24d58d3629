//! What became of one entry at the target, for people: rsync's itemized line (rsync(1), --itemize-changes).

use serde::{Deserialize, Serialize};
use weir_tree::compare::{self, Keep};
use weir_tree::{Entry, Kind};

use super::message::Role;

/// An entry that was changed, or is to be in a dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// What was done.
    pub act: Act,
    /// What it is.
    pub form: Form,
    /// It was not there.
    pub is_new: bool,
    /// Its content was compared and is another; of a link where it leads.
    pub content: bool,
    /// It has another size.
    pub size: bool,
    /// Another time.
    pub time: bool,
    /// Other permissions.
    pub mode: bool,
    /// Another owner.
    pub owner: bool,
    /// Another group.
    pub group: bool,
    /// Where a link leads, or the first name of a file that it is another of.
    pub to: Option<Vec<u8>>,
}

/// What was done to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// Its content came.
    Sent,
    /// It was made here.
    Made,
    /// It became another name of a file.
    Linked,
    /// Only its attributes were set.
    Attributes,
    /// It was removed.
    Deleted,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// A file.
    File,
    /// A folder.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, pipe or socket.
    Special,
}

/// The user and the group that a copy is given to, where it does not stay with who makes it.
type Given = (Option<u32>, Option<u32>);

impl Change {
    /// What putting `entry` changes, where `there` is at its name, for a user and a group if it is given
    /// away; `content` where that was compared.
    pub fn of(entry: &Entry, there: Option<&Entry>, (keep, given): (Keep, Given), content: bool) -> Change {
        let form = match &entry.kind {
            Kind::File { .. } | Kind::HardLink { .. } => Form::File,
            Kind::Directory => Form::Directory,
            Kind::Symlink { .. } => Form::Symlink,
            Kind::Special(_) => Form::Special,
        };
        let to = match &entry.kind {
            Kind::Symlink { target } => Some(target.as_bytes().to_vec()),
            Kind::HardLink { to } => Some(to.as_bytes().to_vec()),
            _ => None,
        };
        // What is of another kind goes, and a new one comes.
        let there = there.filter(|there| of_one_kind(entry, there));
        let differs = |is: fn(&Entry, &Entry) -> bool| there.is_some_and(|there| is(entry, there));
        let content = content || differs(|a, b| matches!(a.kind, Kind::Symlink { .. }) && a.kind != b.kind);
        let act = match (&entry.kind, there) {
            (Kind::HardLink { .. }, _) => Act::Linked,
            (Kind::Directory, Some(_)) => Act::Attributes,
            (Kind::Symlink { .. }, Some(_)) if !content => Act::Attributes,
            (Kind::File { .. }, _) => Act::Sent,
            _ => Act::Made,
        };
        let (user, group) = given;
        let mode = |a: &Entry, b: &Entry| {
            compare::kept_mode_of(a, keep, (user.unwrap_or(b.uid), group.unwrap_or(b.gid))) != b.mode
        };
        Change {
            act,
            form,
            is_new: there.is_none(),
            content,
            size: differs(|a, b| a.is_file() && a.size() != b.size()),
            time: keep.times && differs(|a, b| a.mtime != b.mtime),
            mode: keep.modes && form != Form::Symlink && there.is_some_and(|there| mode(entry, there)),
            owner: there.is_some_and(|there| user.is_some_and(|user| user != there.uid)),
            group: there.is_some_and(|there| group.is_some_and(|group| group != there.gid)),
            to,
        }
    }

    /// A removal.
    pub(crate) fn removal(is_directory: bool) -> Change {
        Change {
            act: Act::Deleted,
            form: if is_directory { Form::Directory } else { Form::File },
            is_new: false,
            content: false,
            size: false,
            time: false,
            mode: false,
            owner: false,
            group: false,
            to: None,
        }
    }

    /// Whether there is anything to tell: what is the same in all is not.
    pub(crate) fn is_any(&self) -> bool {
        let attributes = self.time || self.mode || self.owner || self.group;
        self.act != Act::Attributes || self.is_new || attributes
    }

    /// The eleven characters in front of the name; the end that `role` has says which way its content went.
    pub fn code(&self, role: Role) -> String {
        if self.act == Act::Deleted {
            return "*deleting  ".to_owned();
        }
        let act = match self.act {
            Act::Sent if role == Role::Sender => '<',
            Act::Sent => '>',
            Act::Made => 'c',
            Act::Linked => 'h',
            Act::Attributes | Act::Deleted => '.',
        };
        let form = match self.form {
            Form::File => 'f',
            Form::Directory => 'd',
            Form::Symlink => 'L',
            Form::Special => 'S',
        };
        if self.is_new {
            return format!("{act}{form}+++++++++");
        }
        let flags = [
            (self.content, 'c'),
            (self.size, 's'),
            (self.time, 't'),
            (self.mode, 'p'),
            (self.owner, 'o'),
            (self.group, 'g'),
        ];
        let flags: String = flags.iter().map(|(is, letter)| if *is { *letter } else { '.' }).collect();
        format!("{act}{form}{flags}...")
    }
}

fn of_one_kind(entry: &Entry, there: &Entry) -> bool {
    match &entry.kind {
        Kind::File { .. } | Kind::HardLink { .. } => there.is_file(),
        Kind::Directory => there.is_directory(),
        Kind::Symlink { .. } => matches!(there.kind, Kind::Symlink { .. }),
        Kind::Special(special) => there.kind == Kind::Special(*special),
    }
}
