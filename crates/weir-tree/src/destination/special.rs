//! Devices and named pipes: nodes without content, made by mknod(2). A device needs root (CAP_MKNOD), and a
//! container may not have it.

use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, makedev, mknodat};
use rustix::io::Errno;

use super::{Target, attributes, place};
use crate::entry::{Device, Entry, Kind, Name, Special};
use crate::error::TreeError;
use crate::source;

/// Until it has its own mode only its owner uses it.
const MAKING: Mode = Mode::from_raw_mode(0o600);

impl Target {
    /// A device or a named pipe, in place of a file or a link. One that is there already only gets the
    /// attributes; another one in its place stays, and is an error.
    pub fn special(&self, entry: &Entry) -> Result<(), TreeError> {
        let Kind::Special(special) = entry.kind else { return Ok(()) };
        let (directory, last) = self.place_of(&entry.name)?;
        let keep = || self.shared.back_up(&directory, last, &entry.name);
        let make = || {
            self.shared.remember(&directory, last, &entry.name);
            make((&directory, last), special, &entry.name, self.shared.anew, keep)
        };
        let place = || self.lending(&entry.name, make);
        self.shared.case_folding.place(&directory, &entry.name, place)?;
        attributes::of_node(&self.shared, &directory, last, entry)
    }
}

/// Makes the node. One that is there already stays unless it is to be made `anew`; of what is replaced `keep`
/// keeps what is wanted.
pub(super) fn make(
    (directory, last): (&OwnedFd, &[u8]),
    special: Special,
    name: &Name,
    anew: bool,
    keep: impl FnOnce() -> Result<(), TreeError>,
) -> Result<(), TreeError> {
    let failed = |errno| TreeError::of("make the node", name, errno);
    let is_there = source::stat(directory, last).is_ok_and(|there| Special::of(&there) == Some(special));
    if is_there && !anew {
        return Ok(());
    }
    if !is_there {
        match node(directory, last, special) {
            Err(Errno::EXIST) => {}
            made => return made.map_err(failed),
        }
        place::check(directory, last, special.words(), name)?;
    }
    let passing = place::passing_name();
    node(directory, &passing, special).map_err(failed)?;
    place::replace(directory, &passing, last, name, keep)
}

fn node(directory: &OwnedFd, last: &[u8], special: Special) -> Result<(), Errno> {
    let (kind, device) = match special {
        Special::Fifo => (FileType::Fifo, 0),
        Special::Socket => (FileType::Socket, 0),
        Special::BlockDevice(Device { major, minor }) => (FileType::BlockDevice, makedev(major, minor)),
        Special::CharacterDevice(Device { major, minor }) => {
            (FileType::CharacterDevice, makedev(major, minor))
        }
    };
    mknodat(directory, last, kind, MAKING, device)
}
