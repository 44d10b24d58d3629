//! Sources that go once they have arrived (`--remove-source-files`): never before the receiver has said that the file is in its place
//! and on its disk, and never one that is no longer what was sent.

use std::io::Read;

use weir_tree::{Entry, Source};

use super::Sender;
use crate::wire::message::Failure;

impl Sender {
    /// The receiver has this file: it goes here, where that was asked for.
    pub(super) fn remove_source(&self, entry: &Entry, source: &Source) {
        if !self.options.selection.remove_source_files || self.options.dry_run {
            return;
        }
        if let Err(failure) = remove(entry, source) {
            self.problem(entry.name.clone(), failure);
        }
    }
}

fn remove(entry: &Entry, source: &Source) -> Result<(), Failure> {
    // One that says it is empty may have something all the same, as those of /proc do: none of that was sent.
    let is_what_it_says = entry.size() > 0 || {
        let mut file = source.open(entry).map_err(Failure::local)?;
        file.read(&mut [0]).is_ok_and(|read| read == 0)
    };
    match is_what_it_says {
        true => source.remove(entry).map_err(Failure::local),
        false => Err(Failure::local(format_args!(
            "{} says that it is empty and is not, so it stays; remove it by hand",
            entry.name
        ))),
    }
}
