//! A word about each entry that is changed (`-v`, `--itemize-changes`), and about each in a dry run.

use weir_tree::compare::Keep;
use weir_tree::{Entry, Kind, Name};

use super::{CopyDestination, Receiver};
use crate::events::Event;
use crate::roots;
use crate::wire::change::{Act, Change};
use crate::wire::message::Deed;

impl Receiver {
    /// What putting an entry would change, where that is asked for. To be told once it is done.
    pub(super) fn change_of(&self, place: &CopyDestination, entry: &Entry) -> Option<Change> {
        if !self.options.selection.itemize {
            return None;
        }
        // A folder that something came into before its own word is new all the same.
        let is_new_root = || entry.name.is_root() && place.target.root_was_made();
        let is_made = entry.is_directory() && (place.target.was_made(&entry.name) || is_new_root());
        let there = if is_made { None } else { place.target.existing(&entry.name).ok().flatten() };
        let keep = match entry.is_directory() && place.target.spares_directories() {
            true => Keep { modes: false, ..self.kept() },
            false => self.kept(),
        };
        let kept = (keep, place.target.given(entry));
        Some(Change::of(entry, there.as_ref(), kept, self.options.checksum && there.is_some()))
    }

    /// Of a file that is there as it is to be, but for what is to be set of it.
    pub(super) fn tell_attributes(&self, place: &CopyDestination, entry: &Entry, there: &Entry) {
        if self.options.selection.itemize {
            let change = Change::of(entry, Some(there), (self.kept(), place.target.given(entry)), false);
            self.tell(Change { act: Act::Attributes, ..change }, &entry.name);
        }
    }

    /// Tells it; of a dry run in the words of one, where no more is asked for.
    pub(super) fn tell_copy(&self, entry: &Entry, change: Option<Change>) {
        match change {
            Some(change) => self.tell(change, &entry.name),
            // Folders and links go without a word.
            None if self.options.dry_run && matches!(entry.kind, Kind::File { .. }) => {
                self.events.send(Event::Would(Deed::Copy, entry.name.clone()));
            }
            None => {}
        }
    }

    /// Something goes at the target, or would.
    pub(super) fn tell_removal(&self, name: Name, is_directory: bool) {
        if self.options.selection.itemize {
            self.tell(Change::removal(is_directory), &name);
        } else if self.options.dry_run {
            self.events.send(Event::Would(Deed::Delete, name));
        }
    }

    fn tell(&self, change: Change, name: &Name) {
        if change.is_any() {
            self.events.send(Event::Would(Deed::Change(Box::new(change)), name.clone()));
        }
    }

    fn kept(&self) -> Keep {
        roots::kept(&self.options)
    }
}
