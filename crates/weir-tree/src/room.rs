//! How much room is there, where a file did not find enough?

use std::io;
use std::os::fd::AsFd;

use rustix::fs::fstatvfs;
use weir_units::{Bytes, plain};

/// The error of a full disk with how much `file` needs, in bytes, and how much is free; any other error as it
/// is.
pub fn with_room(file: impl AsFd, error: io::Error, needed: u64) -> io::Error {
    let room = fstatvfs(file).ok().filter(|_| error.kind() == io::ErrorKind::StorageFull);
    let Some(room) = room else { return error };
    // What an ordinary user may take; the rest is root's reserve.
    let free = Bytes(room.f_bavail.saturating_mul(room.f_frsize));
    io::Error::new(error.kind(), format!("{}: {} needed, {free} free", plain(&error), Bytes(needed)))
}
