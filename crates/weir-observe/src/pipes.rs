//! Who has the other end of a pipe?
//!
//! Both ends of a pipe show the same inode in `/proc/PID/fd`. Whoever has the other one is found by reading
//! every process's descriptors that the caller may read, which is dear: some milliseconds for hundreds of
//! processes, so it is asked once a pipe.

use crate::process::{self, Descriptors, Pid};

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
pub(crate) fn holders_of_other_end(end: PipeEnd, these: &[Pid]) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable_by(|a, b| b.cmp(a));
    let others = pids.into_iter().take(MOST).map(Pid).filter(|pid| !these.contains(pid));
    let other = PipeEnd { writes: !end.writes, ..end };
    others.filter(|pid| holds_among(*pid, process::of_pipe(*pid, end.inode).into_iter(), other)).collect()
}

/// Whether the process of these descriptors has this end open. One that has both ends (a shell between fork
/// and exec) holds neither for us.
pub fn holds(pid: Pid, table: &Descriptors, end: PipeEnd) -> bool {
    let these = table.pipes.iter().filter(|(_, inode)| **inode == end.inode);
    holds_among(pid, these.map(|(fd, _)| *fd), end)
}

fn holds_among(pid: Pid, descriptors: impl Iterator<Item = u32>, end: PipeEnd) -> bool {
    let mut ends = descriptors.filter_map(|fd| process::is_writable(pid, fd)).peekable();
    ends.peek().is_some() && ends.all(|writes| writes == end.writes)
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
        let table = process::descriptors(own).unwrap();
        let end = PipeEnd { inode: table.pipes[&fd], writes: true };
        assert!(holds(own, &table, end) && !holds(own, &table, PipeEnd { writes: false, ..end }));
        let reader = Pid(child.id());
        // Other tests of this process may have spawned a child that has not let go of what it inherited.
        assert!(holders_of_other_end(end, &[own]).contains(&reader));
        assert!(holders_of_other_end(end, &[own, reader]).iter().all(|pid| *pid != reader));
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
