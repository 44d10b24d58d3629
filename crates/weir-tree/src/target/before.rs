//! Another tree that may have an entry already, an earlier copy: a file that is the same there gets a second name here (`--link-dest`).

use std::os::fd::AsFd;

use super::{Keep, Target, place};
use crate::compare;
use crate::entry::{Entry, Name};
use crate::error::Error;
use crate::xattr;

impl Target {
    /// Whether the file is here just as `entry` is to be: by size and time, with times up to `window` seconds apart, and in all that is kept.
    pub fn has_same(&self, entry: &Entry, window: u32) -> bool {
        let keep = self.shared.keep;
        let there = self.existing(&entry.name).ok().flatten();
        let looks_same = there.is_some_and(|there| {
            compare::unchanged(entry, &there, window)
                && compare::same_attributes(entry, &there, Keep { xattrs: false, times: false, ..keep })
        });
        let xattrs = || {
            let directory = self.directory_of(&entry.name).ok()??;
            xattr::read(xattr::At::name(directory.as_fd(), entry.name.last())).ok()
        };
        looks_same && (!keep.xattrs || xattrs().is_some_and(|xattrs| xattrs == entry.xattrs))
    }

    /// Gives the file that `before` has under this name the same name here, too.
    pub fn link_from(&self, before: &Target, name: &Name) -> Result<(), Error> {
        let gone = || Error::of("find", name, rustix::io::Errno::NOENT);
        let from = before.directory_of(name)?.ok_or_else(gone)?;
        let (directory, last) = self.place_of(name)?;
        let make = || {
            self.shared.before_replacing(&directory, last, name)?;
            place::hard_link((&from, last), (&directory, last), name)
        };
        self.shared.folds.place(&directory, name, make)
    }
}
