//! Another tree that may have an entry already, an earlier copy: a file that is the same there gets a second
//! name here (`--link-dest`).

use std::os::fd::{AsFd, OwnedFd};

use super::{Keep, Target, place};
use crate::compare;
use crate::entry::{Entry, Name};
use crate::error::TreeError;
use crate::xattr;

impl Target {
    /// Whether the file is here just as `entry` is to be: by size and time, with times up to `window` seconds
    /// apart, and in all that is kept.
    pub fn has_same(&self, entry: &Entry, window: u32) -> bool {
        let keep = self.shared.keep;
        let there = self.existing(&entry.name).ok().flatten();
        let given = self.shared.ownership.given(entry, keep);
        let compared = Keep { xattrs: false, times: false, ..keep };
        let looks_same = there.is_some_and(|there| {
            compare::unchanged(entry, &there, window)
                && compare::same_attributes(entry, &there, compared, given)
        });
        let has_xattrs = || {
            let directory = self.directory_of(&entry.name).ok()??;
            Some(self.has_xattrs(&directory, entry))
        };
        looks_same && (!keep.xattrs || has_xattrs().unwrap_or(false))
    }

    /// Whether what has the entry's name in `directory` has its extended attributes, and no others that would
    /// go.
    pub(super) fn has_xattrs(&self, directory: &OwnedFd, entry: &Entry) -> bool {
        let read = xattr::read(xattr::At::name(directory.as_fd(), entry.name.last()));
        read.is_ok_and(|mut there| {
            let is_wanted = |name: &[u8]| entry.xattrs.iter().any(|xattr| xattr.name() == name);
            there.retain(|xattr| is_wanted(xattr.name()) || !self.shared.spares_xattr(xattr.name()));
            there == entry.xattrs
        })
    }

    /// Gives the file that `before` has under this name the same name here, too.
    pub fn link_from(&self, before: &Target, name: &Name) -> Result<(), TreeError> {
        let gone = || TreeError::of("find", name, rustix::io::Errno::NOENT);
        let from = before.directory_of(name)?.ok_or_else(gone)?;
        let (directory, last) = self.place_of(name)?;
        let keep = || self.shared.back_up(&directory, last, name);
        let make = || {
            self.shared.remember(&directory, last, name);
            place::hard_link((&from, last), (&directory, last), name, keep)
        };
        self.shared.case_folding.place(&directory, name, make)
    }
}
