//! Files with several names: the first one met stands for the file, the others are links to it.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use super::Identity;
use crate::entry::{Entry, Name, Time};

/// First names of files of which more are still to come.
#[derive(Debug, Default)]
pub(super) struct Links {
    first: HashMap<Identity, LinkedFile>,
    /// The same name may come again, so that names that are met say nothing of how many are missing.
    repeats: bool,
}

#[derive(Debug)]
struct LinkedFile {
    name: Name,
    /// When its content changed last.
    mtime: Time,
    /// Names not yet met. Those outside the tree never will be; the others let the memory go.
    missing: u32,
}

impl Links {
    /// Of a list, which may name a file more than once: nothing is forgotten before its end.
    pub(crate) fn of_list() -> Links {
        Links { repeats: true, ..Links::default() }
    }

    /// Notes one of the `count` names of a file; the first name, if this is another. Of one that has a single
    /// name left others may have been met, and have gone since (`--remove-source-files`): it is theirs if its
    /// time is, too, for another file may have its number.
    pub fn meet(&mut self, identity: Identity, count: u32, entry: &Entry) -> Option<Name> {
        let Entry { name, mtime, .. } = entry;
        if count < 2 && self.first.get(&identity).is_none_or(|seen| seen.mtime != *mtime) {
            return None;
        }
        match self.first.entry(identity) {
            Slot::Vacant(slot) => {
                slot.insert(LinkedFile {
                    name: name.clone(),
                    mtime: *mtime,
                    missing: count.saturating_sub(1),
                });
                None
            }
            Slot::Occupied(mut slot) => {
                let seen = slot.get_mut();
                seen.missing = seen.missing.saturating_sub(1);
                Some(if seen.missing == 0 && !self.repeats { slot.remove().name } else { seen.name.clone() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Kind;

    #[test]
    fn what_has_been_met_in_full_is_forgotten() {
        let mut links = Links::default();
        let [a, b, c] = ["a", "b", "c"].map(entry);
        let identity = Identity { device: 1, inode: 2 };
        assert_eq!(links.meet(identity, 3, &a), None);
        assert_eq!(links.meet(identity, 3, &b), Some(a.name.clone()));
        assert_eq!(links.meet(identity, 3, &c), Some(a.name.clone()));
        assert!(links.first.is_empty());
    }

    #[test]
    fn the_last_name_of_a_file_whose_others_have_gone_is_still_one_of_them() {
        let mut links = Links::default();
        let [a, b, c] = ["a", "b", "c"].map(entry);
        let identity = Identity { device: 1, inode: 2 };
        assert_eq!(links.meet(identity, 1, &a), None, "a file of one name is none of several");
        assert_eq!(links.meet(identity, 3, &a), None);
        assert_eq!(links.meet(identity, 1, &Entry { mtime: Time::new(8, 0).unwrap(), ..b }), None, "another");
        assert_eq!(links.meet(identity, 1, &c), Some(a.name.clone()));
    }

    fn entry(name: &str) -> Entry {
        let (name, mtime) = (name.parse().unwrap(), Time::new(7, 0).unwrap());
        let kind = Kind::File { size: 1, sparse: false };
        Entry { name, kind, mode: 0o644, mtime, uid: 0, gid: 0, xattrs: Vec::new() }
    }

    #[test]
    fn a_name_that_a_list_has_twice_is_no_second_one() {
        let mut links = Links::of_list();
        let [a, b] = ["a", "b"].map(entry);
        let identity = Identity { device: 1, inode: 2 };
        assert_eq!(links.meet(identity, 2, &a), None);
        assert_eq!(links.meet(identity, 2, &a), Some(a.name.clone()));
        assert_eq!(links.meet(identity, 2, &b), Some(a.name));
    }
}
