//! What a target makes of a time. File systems keep times in steps (FAT 2 s, many network ones 1 s, NTFS 100
//! ns) and between years (ext4 with inodes of 128 bytes ends in 2038), and cut what they are given. Nobody
//! has to know these rules: a file without a name is given the time, and asked for it.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, futimens, openat, unlinkat};

use super::{pending, place};
use crate::entry::Time;
use crate::source::{self, Identity};

/// File systems below one target that are remembered: each holds a descriptor.
const MOST: usize = 16;

/// The file that is asked, one for each file system; none where none can be made.
#[derive(Debug, Default)]
pub(super) struct Clock(Mutex<HashMap<u64, Option<OwnedFd>>>);

impl Clock {
    /// The time that a file in `directory` has after it was given `time`; `None` where that cannot be found
    /// out. Where there are no files without names (FAT) one is made and removed, which changes the
    /// directory's time: only if `may_touch`.
    pub(super) fn keeps(&self, directory: &OwnedFd, time: Time, may_touch: bool) -> Option<Time> {
        let device = Identity::of(directory).ok()?.device;
        let mut asked = self.0.lock();
        if !asked.contains_key(&device) && asked.len() >= MOST {
            asked.clear();
        }
        let file = asked.entry(device).or_insert_with(|| nameless(directory, may_touch)).as_ref()?;
        let modified = Timespec { tv_sec: time.secs(), tv_nsec: time.nanos().into() };
        let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        futimens(file, &Timestamps { last_access, last_modification: modified }).ok()?;
        let kept = source::stat(file.as_fd(), b"").ok()?.stx_mtime;
        Time::new(kept.tv_sec, kept.tv_nsec)
    }
}

fn nameless(directory: &OwnedFd, may_touch: bool) -> Option<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(file) = openat(directory, ".", flags, Mode::RUSR | Mode::WUSR) {
        return Some(file);
    }
    if !may_touch {
        return None;
    }
    let passing = place::passing_name();
    let file = pending::create(directory, &passing).ok()?;
    unlinkat(directory, &passing[..], AtFlags::empty()).ok()?;
    Some(file)
}
