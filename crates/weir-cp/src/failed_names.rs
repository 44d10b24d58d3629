//! Files that did not get to their place. A second name of one must not be linked to whatever has the first
//! name there: an older file, or that of another source.

use std::collections::HashMap;

use parking_lot::Mutex;
use weir_tree::Name;

use crate::wire::message::{Failure, FailureKind};

/// Their names, 16 bytes each, with their places in the order of the walk. Of a name the first eight bytes of
/// its BLAKE3 digest: two that share them take some 2^32 tries to find, and then a link is refused that could
/// have been made.
#[derive(Debug, Default)]
pub(crate) struct FailedNames {
    names: Mutex<HashMap<u64, u64>>,
}

impl FailedNames {
    /// What has this name is not what the source has; it was entry `number` of the walk.
    pub(crate) fn note(&self, name: &Name, number: u64) {
        let mut names = self.names.lock();
        names.entry(of(name)).or_insert(number);
    }

    /// Whether it was noted.
    pub(crate) fn has(&self, name: &Name) -> bool {
        self.names.lock().contains_key(&of(name))
    }

    /// Whether `link`, entry `number`, may become a second name of `first`, which came before it: several
    /// sources may have a file of one name.
    pub(crate) fn check(&self, link: &Name, first: &Name, number: u64) -> Result<(), Failure> {
        let names = self.names.lock();
        match names.get(&of(first)) {
            Some(lost) if *lost < number => {
                let words =
                    format!("{link} is a second name of {first}, which was not copied; copy both again");
                Err(Failure::new(FailureKind::Local, words))
            }
            _ => Ok(()),
        }
    }
}

fn of(name: &Name) -> u64 {
    let digest = blake3::hash(name.as_bytes());
    digest.as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}
