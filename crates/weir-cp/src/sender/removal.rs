//! Sources that go once they have arrived (`--remove-source-files`): never before the receiver has said that
//! the file is in its place and on its disk, and never one that is no longer what was sent.

use std::io::Read;
use std::sync::Arc;

use weir_tree::{Entry, Name, Source};

use super::job::Batch;
use super::shared::Shared;
use crate::error::CopyError;
use crate::failed_names::FailedNames;
use crate::wire::message::Failure;

/// Removes sources.
#[derive(Debug)]
pub(super) struct Removal {
    shared: Arc<Shared>,
    /// What came in a batch and is not in its place, so that its source stays.
    unplaced: FailedNames,
}

impl Removal {
    pub(super) fn new(shared: &Arc<Shared>) -> Removal {
        Removal { shared: Arc::clone(shared), unplaced: FailedNames::default() }
    }

    /// Whether sources go at all.
    pub(super) fn removes(&self) -> bool {
        self.shared.options.selection.remove_source_files && !self.shared.options.dry_run
    }

    /// Entries of a batch that the receiver is about to tell as written, and that are not there.
    pub(super) fn not_placed(&self, names: &[Name]) -> Result<(), CopyError> {
        if !self.removes() {
            return Err(self.shared.events.out_of_turn("what is not in its place, which nobody asked for"));
        }
        names.iter().for_each(|name| self.unplaced.note(name, 0));
        Ok(())
    }

    /// The receiver has these: links and the like, which come without an offer, go here. Files were told one
    /// by one.
    pub(super) fn remove_members(&self, batch: &Batch) {
        if !self.removes() {
            return;
        }
        let failed = batch.failed().clone();
        for item in &batch.items {
            let source = item.source.as_ref().filter(|_| !item.entry.is_file());
            if let Some(source) = source
                && !failed.contains(&item.number)
                && !self.unplaced.has(&item.entry.name)
            {
                self.remove_source(&item.entry, source);
            }
        }
    }

    /// The receiver has this file: it goes here, where that was asked for.
    pub(super) fn remove_source(&self, entry: &Entry, source: &Source) {
        if !self.removes() {
            return;
        }
        if let Err(failure) = remove(entry, source) {
            self.shared.problem(entry.name.clone(), failure);
        }
    }
}

fn remove(entry: &Entry, source: &Source) -> Result<(), Failure> {
    // One that says it is empty may have something all the same, as those of /proc do: none of that was sent.
    let is_what_it_says = !entry.is_file() || entry.size() > 0 || {
        let mut file = source.open(entry).map_err(Failure::local)?;
        file.read(&mut [0]).is_ok_and(|read| read == 0)
    };
    match is_what_it_says {
        true => source.remove(entry).map_err(Failure::local),
        false => Err(Failure::local(format_args!(
            "{} reports a size of 0 and is not empty, so it stays; remove it by hand",
            entry.name
        ))),
    }
}
