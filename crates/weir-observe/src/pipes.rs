//! Who has the other end of a pipe?
//!
//! Both ends of a pipe show the same inode in `/proc/PID/fd`. Whoever has the other one is found by reading
//! every process's descriptors that the caller may read, which is dear: some milliseconds for hundreds of
//! processes, so it is asked once a pipe.

use crate::process::{self, Pid, parse_pipe};

/// One end of a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PipeEnd {
    /// The pipe's inode.
    pub inode: u32,
    /// This is the end that is written to.
    pub writes: bool,
}

/// Processes looked through, those that came last first: who shares a pipe with a program is most often as
/// young as that.
const MOST: usize = 4096;

/// The processes, other than `these`, that hold the opposite of this end. Several may: a pipe is inherited.
pub fn holders_of_other_end(end: PipeEnd, these: &[Pid]) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable_by(|a, b| b.cmp(a));
    let others = pids.into_iter().take(MOST).map(Pid).filter(|pid| !these.contains(pid));
    others.filter(|pid| holds(*pid, PipeEnd { writes: !end.writes, ..end })).collect()
}

/// Whether the process has this end open. One that has both ends (a shell between fork and exec) holds
/// neither for us.
pub fn holds(pid: Pid, end: PipeEnd) -> bool {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let (mut this, mut other) = (false, false);
    for entry in entries.flatten() {
        let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        if parse_pipe(&target.to_string_lossy()) == Some(end.inode) {
            match process::is_writable(pid, fd) {
                Some(writes) if writes == end.writes => this = true,
                Some(_) => other = true,
                None => {}
            }
        }
    }
    this && !other
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_reader_of_our_pipe_is_found() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let own = Pid(std::process::id());
        let fd = std::os::fd::AsRawFd::as_raw_fd(child.stdin.as_ref().unwrap()) as u32;
        let inode = process::descriptors(own).unwrap().pipes[&fd];
        let end = PipeEnd { inode, writes: true };
        assert!(holds(own, end) && !holds(own, PipeEnd { writes: false, ..end }));
        let reader = Pid(child.id());
        // Other tests of this process may have spawned a child that has not let go of what it inherited.
        assert!(holders_of_other_end(end, &[own]).contains(&reader));
        assert!(holders_of_other_end(end, &[own, reader]).iter().all(|pid| *pid != reader));
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
