//! Which files the subject writes, and how much of them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use weir_observe::process::{self, Descriptors, Pid};

/// Files looked at in each window; a program with more open for writing is no downloader.
const MOST: usize = 64;

/// The subject's output files.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    files: HashMap<(Pid, u32), File>,
    dirtied: HashMap<Pid, u64>,
    all_dirtied: u64,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    position: u64,
    grown: u64,
}

impl Outputs {
    /// Takes in files that were opened since.
    pub(super) fn refresh(
        &mut self,
        pids: &[Pid],
        descriptors: &HashMap<Pid, Descriptors>,
        from_start: bool,
    ) {
        for (&pid, found) in descriptors {
            for (fd, path) in &found.outputs {
                let known = self.files.get(&(pid, *fd)).is_some_and(|file| file.path == *path);
                if known || self.files.len() >= MOST {
                    continue;
                }
                // What a file that was opened since holds was written since; appending to an old one starts further on.
                let position = if from_start { 0 } else { process::position(pid, *fd).unwrap_or_default() };
                self.files.insert((pid, *fd), File { path: path.clone(), position, grown: 0 });
            }
        }
        for &pid in pids {
            if !self.dirtied.contains_key(&pid)
                && let Ok(bytes) = process::written(pid)
            {
                self.dirtied.insert(pid, if from_start { 0 } else { bytes });
            }
        }
    }

    /// Bytes written since the last call. Positions miss what is written at given places (pwrite); the count of bytes made
    /// dirty misses file systems without a disk: the larger of the two is nearer.
    pub(super) fn window(&mut self) -> u64 {
        let mut moved: u64 = 0;
        for ((pid, fd), file) in &mut self.files {
            let Some(now) = process::position(*pid, *fd) else { continue };
            let grown = now.saturating_sub(file.position);
            file.position = now;
            file.grown = file.grown.saturating_add(grown);
            moved = moved.saturating_add(grown);
        }
        let mut dirtied: u64 = 0;
        for (pid, before) in &mut self.dirtied {
            let Ok(now) = process::written(*pid) else { continue };
            dirtied = dirtied.saturating_add(now.saturating_sub(*before));
            *before = now;
        }
        self.all_dirtied = self.all_dirtied.saturating_add(dirtied);
        moved.max(dirtied)
    }

    /// The file that grew most, by `least` or more. Where positions do not tell (pwrite), any file of a process that made
    /// as much dirty.
    pub(super) fn main(&self, least: u64) -> Option<&Path> {
        let most = self.files.values().max_by_key(|file| file.grown)?;
        (most.grown >= least || self.all_dirtied >= least).then_some(most.path.as_path())
    }
}
