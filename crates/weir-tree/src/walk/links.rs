//! Files with several names: the first one met stands for the file, the others are links to it.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use super::Identity;
use crate::entry::Name;

/// First names of files of which more are still to come.
#[derive(Debug, Default)]
pub(super) struct Links {
    first: HashMap<Identity, Seen>,
    /// The same name may come again, so that names that are met say nothing of how many are missing.
    repeats: bool,
}

#[derive(Debug)]
struct Seen {
    name: Name,
    /// Names not yet met. Those outside the tree never will be; the others let the memory go.
    missing: u32,
}

impl Links {
    /// Of a list, which may name a file more than once: nothing is forgotten before its end.
    pub fn of_list() -> Links {
        Links { repeats: true, ..Links::default() }
    }

    /// Notes one of the `count` names of a file; the first name, if this is another.
    pub fn meet(&mut self, identity: Identity, count: u32, name: &Name) -> Option<Name> {
        match self.first.entry(identity) {
            Slot::Vacant(slot) => {
                slot.insert(Seen { name: name.clone(), missing: count.saturating_sub(1) });
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

    #[test]
    fn what_has_been_met_in_full_is_forgotten() {
        let mut links = Links::default();
        let names: Vec<Name> = ["a", "b", "c"].iter().map(|name| name.parse().unwrap()).collect();
        let identity = Identity { device: 1, inode: 2 };
        assert_eq!(links.meet(identity, 3, &names[0]), None);
        assert_eq!(links.meet(identity, 3, &names[1]), Some(names[0].clone()));
        assert_eq!(links.meet(identity, 3, &names[2]), Some(names[0].clone()));
        assert!(links.first.is_empty());
    }

    #[test]
    fn a_name_that_a_list_has_twice_is_no_second_one() {
        let mut links = Links::of_list();
        let [a, b] = ["a", "b"].map(|name| name.parse::<Name>().unwrap());
        let identity = Identity { device: 1, inode: 2 };
        assert_eq!(links.meet(identity, 2, &a), None);
        assert_eq!(links.meet(identity, 2, &a), Some(a.clone()));
        assert_eq!(links.meet(identity, 2, &b), Some(a));
    }
}
