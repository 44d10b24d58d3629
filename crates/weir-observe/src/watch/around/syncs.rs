//! Does a thread wait for a file to be on its disk: fsync and its kin?

use std::path::Path;
use std::time::Duration;

use weir_model::around::Sync;

use crate::disk::{self, DiskCounters, DiskReader, FileSystem};
use crate::process::Pid;
use crate::waiting::Doing;
use crate::watch::threads::Threads;

/// The calls that return when what was written is on the disk.
const CALLS: [i64; 6] = [
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_msync,
    libc::SYS_sync,
    libc::SYS_syncfs,
];

/// Threads in such calls, over one interval.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    samples: u32,
    who: String,
    file: Option<File>,
    /// The file now synced, so that its device is looked up once.
    of: Option<(Pid, u32)>,
}

#[derive(Debug)]
struct File {
    path: String,
    disk: Option<(DiskReader, DiskCounters)>,
}

impl Syncs {
    pub(super) fn look(&mut self, threads: &Threads) {
        let in_sync = threads.looks().find(|(_, _, look)| {
            look.doing != Doing::Running && look.call.is_some_and(|call| CALLS.contains(&call))
        });
        let Some((pid, name, look)) = in_sync else { return };
        self.samples += 1;
        name.clone_into(&mut self.who);
        let of = look.descriptor.map(|fd| (pid, fd));
        if self.file.is_none() || self.of != of {
            self.of = of;
            self.file = of.and_then(|(pid, fd)| File::open(pid, fd));
        }
    }

    /// What was seen since the last call; nothing where no thread was found so.
    pub(super) fn interval(&mut self, span: Duration) -> Option<Sync> {
        let busy = self.file.as_mut().and_then(|file| file.busy(span));
        let samples = std::mem::take(&mut self.samples);
        (samples > 0).then(|| Sync {
            samples,
            who: self.who.clone(),
            path: self.file.as_ref().map(|file| file.path.clone()),
            device: self.file.as_ref().and_then(|file| Some(file.disk.as_ref()?.1.name.clone())),
            busy,
        })
    }
}

impl File {
    fn open(pid: Pid, fd: u32) -> Option<File> {
        let path = std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?;
        let path = path.to_string_lossy().trim_end_matches(" (deleted)").to_owned();
        let on = FileSystem::of_descriptor(pid, fd);
        let device = on.and_then(|on| on.block_device(Path::new(&path)));
        let disk = device.and_then(DiskReader::open).ok().and_then(|mut reader| {
            let now = reader.read().ok()?;
            Some((reader, now))
        });
        path.starts_with('/').then_some(File { path, disk })
    }

    /// The share of the interval in which its device had a request in flight.
    fn busy(&mut self, span: Duration) -> Option<f64> {
        let (reader, before) = self.disk.as_mut()?;
        let now = reader.read().ok()?;
        let interval = disk::interval(before, &now, span);
        *before = now;
        Some(interval.busy)
    }
}
