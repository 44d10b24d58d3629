//! What a target could not keep, counted: a word at the end of a copy, not a failure of each file.

use parking_lot::Mutex;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::entry::Name;

/// An attribute that the target did not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LostAttribute {
    /// Extended attributes: the file system has none, or not such, or they are not allowed.
    Xattrs,
    /// Owner or group.
    Owner,
    /// Mode.
    Mode,
    /// Times.
    Times,
    /// That two names are of one file: the second one has a copy.
    HardLinks,
}

/// Said once a [`LostAttribute`]: how often, and the first entry it happened to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeLoss {
    /// What.
    pub attribute: LostAttribute,
    /// How often.
    pub count: u64,
    /// The first one.
    pub first: Name,
    /// The system's error number for that one.
    pub errno: i32,
}

#[derive(Debug, Default)]
pub(super) struct AttributeLosses(Mutex<Vec<AttributeLoss>>);

impl AttributeLosses {
    /// Notes what failed, if it did.
    pub fn note(&self, attribute: LostAttribute, name: &Name, outcome: Result<(), Errno>) {
        let Err(errno) = outcome else { return };
        tracing::debug!(%name, ?attribute, %errno, "attribute not kept");
        let mut words = self.0.lock();
        match words.iter_mut().find(|word| word.attribute == attribute) {
            Some(word) => word.count += 1,
            None => words.push(AttributeLoss {
                attribute,
                count: 1,
                first: name.clone(),
                errno: errno.raw_os_error(),
            }),
        }
    }

    pub fn all(&self) -> Vec<AttributeLoss> {
        self.0.lock().clone()
    }
}
