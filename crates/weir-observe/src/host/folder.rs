//! What can the file system of the current folder do? Tried on files without a name, which are gone when they
//! are closed.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, SeekFrom, ioctl_ficlone, open, seek, statfs};
use rustix::io::{Errno, pwrite};
use weir_model::ability::Finding;

use super::listed;
use crate::disk::file_system;
use weir_units::plain;

/// Behind which bytes are written, so that a hole is in front of them: a multiple of every common block size.
const BEYOND: u64 = 1 << 20;

pub(super) fn current() -> Finding {
    let kind = match statfs(".") {
        Ok(stat) => name(stat.f_type as u64),
        Err(cause) => return unusable("there is no current folder", cause),
    };
    let file = match unnamed(OFlags::empty()) {
        Ok(file) => file,
        // As the writers of small files tell it.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            let reading = format!(
                "{kind}, without files that have no name yet (the rest was not tried: it would leave one)"
            );
            return Finding::limited(reading, "open(O_TMPFILE) in the current folder");
        }
        Err(cause) => return unusable(&format!("{kind}, where nothing can be written"), cause),
    };
    let able = [
        ("files without a name", true),
        ("holes", has_holes(&file).unwrap_or(false)),
        ("O_DIRECT", unnamed(OFlags::DIRECT).is_ok()),
    ];
    let (has, lacks): (Vec<_>, Vec<_>) = able.into_iter().partition(|(_, able)| *able);
    let names =
        |some: &[(&'static str, bool)]| listed(&some.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    // No command clones: said for whoever wonders, and no reason to call a folder limited.
    let clones = if clones(&file) { "; reflinks too" } else { "; no reflinks" };
    let origin = "a file of the current folder without a name";
    match lacks.is_empty() {
        true => Finding::ok(format!("{kind}, with {}{clones}", names(&has)), origin),
        false => Finding::limited(
            format!("{kind}, with {}, without {}{clones}", names(&has), names(&lacks)),
            origin,
        ),
    }
}

fn unusable(what: &str, cause: Errno) -> Finding {
    let reading = format!("{what}: {}", plain(&io::Error::from(cause)));
    Finding::limited(reading, "the current folder")
}

fn unnamed(flags: OFlags) -> rustix::io::Result<OwnedFd> {
    open(".", flags | OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)
}

/// Whether what was never written is known to be nothing: data begins behind it.
fn has_holes(file: &OwnedFd) -> rustix::io::Result<bool> {
    pwrite(file, b"weir", BEYOND)?;
    Ok(seek(file, SeekFrom::Data(0))? > 0)
}

fn clones(file: &OwnedFd) -> bool {
    unnamed(OFlags::empty()).is_ok_and(|copy| ioctl_ficlone(&copy, file).is_ok())
}

/// Those with a block device are known by their names too (include/uapi/linux/magic.h).
fn name(magic: u64) -> String {
    match magic & 0xffff_ffff {
        0xef53 => "ext4".to_owned(),
        0x5846_5342 => "xfs".to_owned(),
        0xf2f5_2010 => "f2fs".to_owned(),
        0x4d44 => "FAT".to_owned(),
        0x2011_bab0 => "exFAT".to_owned(),
        other => match file_system(other) {
            "a file system without one" => format!("a file system of type {other:#x}"),
            known => known.split(',').next().unwrap_or(known).to_owned(),
        },
    }
}
