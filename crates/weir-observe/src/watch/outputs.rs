//! Which files the subject writes, and how much of them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::tables::Tables;
use crate::disk::FileSystem;
use crate::process::{Pid, Position, WrittenBytes};

/// Files looked at in each interval; a program with more open for writing is no downloader.
const MOST: usize = 64;

/// The subject's output files.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    files: HashMap<(Pid, u32), File>,
    /// Of the files that were closed, the one that grew most.
    closed: Option<File>,
    dirtied: Dirtied,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    on: FileSystem,
    place: Position,
    position: u64,
    grown: u64,
}

impl Outputs {
    /// Takes in files that were opened since.
    pub(super) fn refresh(&mut self, pids: &[Pid], tables: &Tables, from_start: bool) {
        // A descriptor that was closed may lead to another file by now.
        self.close(|(pid, fd), file| {
            let outputs = tables.get(*pid).map(|table| table.outputs.as_slice()).unwrap_or_default();
            outputs.iter().any(|(open, path)| open == fd && *path == file.path)
        });
        for (pid, found) in tables.iter() {
            for (fd, path) in &found.outputs {
                if self.files.contains_key(&(pid, *fd)) || self.files.len() >= MOST {
                    continue;
                }
                let Ok(on) = FileSystem::of_descriptor(pid, *fd) else { continue };
                let Ok(mut place) = Position::open(pid, *fd) else { continue };
                // What a file that was opened since holds was written since; appending to an old one starts
                // further on.
                let position = if from_start { 0 } else { place.read().unwrap_or_default() };
                self.files.insert((pid, *fd), File { path: path.clone(), on, place, position, grown: 0 });
            }
        }
        for &pid in pids {
            self.dirtied.take_in(pid, from_start);
        }
    }

    /// Gives the places of those that are not open any more to others.
    fn close(&mut self, mut is_open: impl FnMut(&(Pid, u32), &mut File) -> bool) {
        for (_, file) in self.files.extract_if(|key, file| !is_open(key, file)) {
            if self.closed.as_ref().is_none_or(|largest| file.grown > largest.grown) {
                self.closed = Some(file);
            }
        }
    }

    /// Bytes written since the last call. Positions miss what is written at given places (pwrite); the count
    /// of bytes made dirty misses file systems without a disk: the larger of the two is nearer.
    pub(super) fn interval(&mut self) -> u64 {
        let mut moved: u64 = 0;
        self.close(|_, file| {
            let Some(now) = file.place.read() else { return false };
            let grown = now.saturating_sub(file.position);
            file.position = now;
            file.grown = file.grown.saturating_add(grown);
            moved = moved.saturating_add(grown);
            true
        });
        moved.max(self.dirtied.interval())
    }

    /// The file that grew most, by `least` or more, and where it lies. Where positions do not tell (pwrite),
    /// any file of a process that made as much dirty.
    pub(super) fn main(&self, least: u64) -> Option<(&Path, FileSystem)> {
        let file = self.files.values().chain(&self.closed).max_by_key(|file| file.grown)?;
        (file.grown >= least || self.dirtied.told >= least).then_some((file.path.as_path(), file.on))
    }
}

/// What a tree of processes made dirty. The kernel adds a process's count to its parent's when that waits for
/// it (wait_task_zombie, kernel/exit.c), so the sum over the tree holds also what processes wrote that were
/// never seen.
#[derive(Debug, Default)]
struct Dirtied {
    counts: HashMap<Pid, Count>,
    /// Told so far, which never shrinks.
    told: u64,
    /// Counts that left the tree with a process that nobody in it waited for.
    left: u64,
    /// The sum was below what was told at the last call too.
    short: bool,
}

#[derive(Debug)]
struct Count {
    source: WrittenBytes,
    /// What does not count: written before the watch.
    before: u64,
}

impl Dirtied {
    fn take_in(&mut self, pid: Pid, from_start: bool) {
        if self.counts.contains_key(&pid) {
            return;
        }
        let Ok(mut source) = WrittenBytes::open(pid) else { return };
        let before = if from_start { 0 } else { source.read().unwrap_or_default() };
        self.counts.insert(pid, Count { source, before });
    }

    /// Bytes made dirty since the last call.
    fn interval(&mut self) -> u64 {
        let mut sum = self.left;
        self.counts.retain(|_, count| match count.source.read() {
            Ok(now) => {
                sum = sum.saturating_add(now.saturating_sub(count.before));
                true
            }
            Err(_) => false,
        });
        self.take(sum)
    }

    /// A process that ended between the reading of its parent and its own is missing in one sum and back in
    /// the next; what is missing twice is gone for good.
    fn take(&mut self, sum: u64) -> u64 {
        let grown = sum.saturating_sub(self.told);
        let missing = self.told.saturating_sub(sum);
        if missing > 0 && self.short {
            self.left = self.left.saturating_add(missing);
        }
        self.short = missing > 0 && !self.short;
        self.told = self.told.max(sum);
        grown
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Instant;

    use super::*;

    /// Files that this process has open, as it writes one after the other.
    #[test]
    fn a_file_that_was_closed_gives_its_place_to_another() {
        let own = Pid(std::process::id());
        let folder = tempfile::tempdir().unwrap();
        let (mut outputs, mut tables) = (Outputs::default(), Tables::default());
        let mut seen = |outputs: &mut Outputs| {
            tables.read(own, Instant::now()).unwrap();
            outputs.refresh(&[], &tables, false);
        };
        let largest = folder.path().join("largest");
        for number in 0..2 * MOST {
            let path = if number == 1 { largest.clone() } else { folder.path().join(number.to_string()) };
            let mut file = std::fs::File::create(&path).unwrap();
            seen(&mut outputs);
            assert!(outputs.files.values().any(|file| file.path == path), "{number}");
            file.write_all(&vec![b'x'; if number == 1 { 2 << 20 } else { 1000 }]).unwrap();
            outputs.interval();
        }
        assert!(outputs.files.len() <= MOST);
        // What this process's own output goes to may be a file as well.
        let main = outputs.main(1 << 20).map(|(path, _)| path);
        assert_eq!(main, Some(largest.as_path()), "though it was closed long ago");
    }

    #[test]
    fn a_childs_bytes_count_once_whoever_holds_them() {
        let mut dirtied = Dirtied::default();
        assert_eq!(dirtied.take(100), 100);
        // The parent was read before it waited for the child, the child after: its 60 bytes are in neither.
        assert_eq!(dirtied.take(40), 0);
        assert_eq!(dirtied.take(130), 30);
        assert_eq!(dirtied.told, 130);
    }

    #[test]
    fn what_left_the_tree_does_not_hide_what_follows() {
        let mut dirtied = Dirtied::default();
        dirtied.take(100);
        assert_eq!((dirtied.take(20), dirtied.take(20)), (0, 0));
        let left = dirtied.left;
        assert_eq!(left, 80);
        assert_eq!(dirtied.take(left + 50), 30);
    }
}
