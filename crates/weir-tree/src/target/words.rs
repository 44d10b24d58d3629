//! What a target could not keep, counted: a word at the end of a copy, not a failure of each file.

use parking_lot::Mutex;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::entry::Name;

/// An attribute that the target did not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lack {
    /// Extended attributes: the file system has none, or not such, or they are not allowed.
    Xattrs,
    /// Owner or group.
    Owner,
    /// Mode.
    Mode,
    /// Times.
    Times,
}

/// Said once a [`Lack`]: how often, and the first entry it happened to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    /// What.
    pub lack: Lack,
    /// How often.
    pub count: u64,
    /// The first one.
    pub first: Name,
    /// The system's error number for that one.
    pub errno: i32,
}

#[derive(Debug, Default)]
pub(super) struct Words(Mutex<Vec<Word>>);

impl Words {
    /// Notes what failed, if it did.
    pub fn note(&self, lack: Lack, name: &Name, outcome: Result<(), Errno>) {
        let Err(errno) = outcome else { return };
        tracing::debug!(%name, ?lack, %errno, "attribute not kept");
        let mut words = self.0.lock();
        match words.iter_mut().find(|word| word.lack == lack) {
            Some(word) => word.count += 1,
            None => words.push(Word { lack, count: 1, first: name.clone(), errno: errno.raw_os_error() }),
        }
    }

    pub fn all(&self) -> Vec<Word> {
        self.0.lock().clone()
    }
}
