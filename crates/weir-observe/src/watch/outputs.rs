//! Which files the subject writes, and how much of them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::tables::Tables;
use crate::process::{Pid, Position, WrittenBytes};

/// Files looked at in each interval; a program with more open for writing is no downloader.
const MOST: usize = 64;

/// The subject's output files.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    files: HashMap<(Pid, u32), File>,
    dirtied: Dirtied,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    place: Position,
    position: u64,
    grown: u64,
}

impl Outputs {
    /// Takes in files that were opened since.
    pub(super) fn refresh(&mut self, pids: &[Pid], tables: &Tables, from_start: bool) {
        for (pid, found) in tables.iter() {
            for (fd, path) in &found.outputs {
                let known = self.files.get(&(pid, *fd)).is_some_and(|file| file.path == *path);
                if known || self.files.len() >= MOST {
                    continue;
                }
                let Ok(mut place) = Position::open(pid, *fd) else { continue };
                // What a file that was opened since holds was written since; appending to an old one starts
                // further on.
                let position = if from_start { 0 } else { place.read().unwrap_or_default() };
                self.files.insert((pid, *fd), File { path: path.clone(), place, position, grown: 0 });
            }
        }
        for &pid in pids {
            self.dirtied.take_in(pid, from_start);
        }
    }

    /// Bytes written since the last call. Positions miss what is written at given places (pwrite); the count
    /// of bytes made dirty misses file systems without a disk: the larger of the two is nearer.
    pub(super) fn interval(&mut self) -> u64 {
        let mut moved: u64 = 0;
        for file in self.files.values_mut() {
            let Some(now) = file.place.read() else { continue };
            let grown = now.saturating_sub(file.position);
            file.position = now;
            file.grown = file.grown.saturating_add(grown);
            moved = moved.saturating_add(grown);
        }
        moved.max(self.dirtied.interval())
    }

    /// The file that grew most, by `least` or more. Where positions do not tell (pwrite), any file of a
    /// process that made as much dirty.
    pub(super) fn main(&self, least: u64) -> Option<&Path> {
        let most = self.files.values().max_by_key(|file| file.grown)?;
        (most.grown >= least || self.dirtied.told >= least).then_some(most.path.as_path())
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
    use super::*;

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
