//! What do a process's descriptors lead to?
//!
//! Each is a symbolic link that the kernel makes up when it is followed, some 3 µs; of ten thousand
//! connections one reading takes 30 ms. So whoever asks again and again says what it knows
//! ([`Descriptors::reread`]): the list alone takes a quarter of that.

use std::borrow::Cow;
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags, RawDir};

use super::{Pid, ended_or, is_output, not_mine};
use crate::error::ObserveError;
use crate::maps::Map;

/// What a process's descriptors lead to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Descriptors {
    /// Sockets: descriptor and inode.
    pub sockets: Map<u32, u32>,
    /// Regular files open for writing: descriptor and path.
    pub outputs: Vec<(u32, PathBuf)>,
    /// Pipes: descriptor and inode, which both ends share.
    pub pipes: Map<u32, u32>,
    /// Terminals.
    pub terminals: Vec<u32>,
}

/// Room for a link's target: a path has 4096 bytes at most (PATH_MAX).
const TARGET: usize = 4096;

/// Room for a part of the list: about a thousand names in one system call.
const LIST: usize = 32 << 10;

/// A pipe is looked for among so many descriptors of a process, the lowest: it is there from before a service
/// takes its thousands of connections. Where it is not, whoever has it is said to be unknown.
const MOST_FOR_A_PIPE: usize = 1024;

/// Reads all of them. Fails with the way out when the process belongs to someone else.
pub fn descriptors(pid: Pid) -> Result<Descriptors, ObserveError> {
    Descriptors::default().reread(pid, |_| false)
}

impl Descriptors {
    /// Reads them anew, but for descriptors that led to a socket of which `is_alive` says that it is open
    /// still: they are taken to lead there. Wrong only where a descriptor was closed and given to another
    /// file while someone else keeps the socket open, so now and then all have to be read ([`descriptors`]).
    pub(crate) fn reread(
        &self,
        pid: Pid,
        is_alive: impl Fn(u32) -> bool,
    ) -> Result<Descriptors, ObserveError> {
        let mut found = Descriptors::default();
        found.sockets.reserve(self.sockets.len());
        let known = |fd| self.sockets.get(&fd).copied().filter(|inode| is_alive(*inode));
        each(pid, usize::MAX, |fd, target| {
            if let Some(inode) = known(fd) {
                found.sockets.insert(fd, inode);
            } else if let Some(target) = target.read() {
                found.add(pid, fd, &target);
            }
        })?;
        Ok(found)
    }

    fn add(&mut self, pid: Pid, fd: u32, target: &str) {
        if let Some(inode) = parse_socket(target) {
            self.sockets.insert(fd, inode);
        } else if let Some(inode) = parse_pipe(target) {
            self.pipes.insert(fd, inode);
        } else if target.starts_with("/dev/pts/")
            || target.starts_with("/dev/tty")
            || target == "/dev/console"
        {
            self.terminals.push(fd);
        } else if target.starts_with('/') && !target.starts_with("/dev/") && is_output(pid, fd) {
            self.outputs.push((fd, PathBuf::from(target.trim_end_matches(" (deleted)"))));
        }
    }
}

/// The inodes of its sockets alone, which is the cheaper question: a short process is asked many times in its
/// life.
pub fn sockets(pid: Pid) -> Result<Vec<u32>, ObserveError> {
    let mut found = Vec::new();
    each(pid, usize::MAX, |_, target| found.extend(target.read().and_then(|target| parse_socket(&target))))?;
    Ok(found)
}

/// Those of its descriptors that lead to a pipe, either end; none where they may not be read.
pub(crate) fn of_pipe(pid: Pid, inode: u32) -> Vec<u32> {
    let mut found = Vec::new();
    // Who may not be asked is nobody's neighbour here: the pipe's other end is said to be unknown.
    let _ = each(pid, MOST_FOR_A_PIPE, |fd, target| {
        if target.read().and_then(|target| parse_pipe(&target)) == Some(inode) {
            found.push(fd);
        }
    });
    found
}

/// A link that has not been followed yet.
struct Target<'a> {
    folder: &'a OwnedFd,
    name: &'a CStr,
    room: &'a mut [u8; TARGET],
}

impl<'a> Target<'a> {
    /// `None` when it was closed meanwhile.
    fn read(self) -> Option<Cow<'a, str>> {
        let Target { folder, name, room } = self;
        let length = rustix::fs::readlinkat_raw(folder, name, &mut room[..]).ok()?;
        Some(String::from_utf8_lossy(room.get(..length)?))
    }
}

/// Hands over each descriptor of a process, from the lowest on, `most` of them.
fn each(pid: Pid, most: usize, mut found: impl FnMut(u32, Target<'_>)) -> Result<(), ObserveError> {
    let path = format!("/proc/{pid}/fd");
    let unreadable = |cause: rustix::io::Errno| match io::Error::from(cause) {
        cause if cause.kind() == io::ErrorKind::PermissionDenied => not_mine(pid),
        cause => ended_or(pid, ObserveError::unreadable(path.clone(), cause)),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path.as_str(), flags, Mode::empty()).map_err(unreadable)?;
    let mut list = [MaybeUninit::uninit(); LIST];
    let mut room = [0; TARGET];
    let mut names = RawDir::new(&folder, &mut list);
    for _ in 0..most {
        let Some(entry) = names.next() else { break };
        // One that ends while it is read has no descriptors any more (ENOENT, proc_readfd_common).
        let Ok(entry) = entry else { break };
        let name = entry.file_name();
        let Some(fd) = name.to_str().ok().and_then(|name| name.parse().ok()) else { continue };
        found(fd, Target { folder: &folder, name, room: &mut room });
    }
    Ok(())
}

/// `socket:[4711]`.
fn parse_socket(target: &str) -> Option<u32> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// `pipe:[4711]`.
fn parse_pipe(target: &str) -> Option<u32> {
    target.strip_prefix("pipe:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn names_of_sockets_and_pipes() {
        assert_eq!(parse_socket("socket:[4711]"), Some(4711));
        assert_eq!(parse_socket("pipe:[4711]"), None);
        assert_eq!(parse_pipe("pipe:[4711]"), Some(4711));
        assert_eq!(parse_pipe("pipe:[x]"), None);
    }

    #[test]
    fn more_than_fit_one_part_of_the_list_are_all_found() {
        let own = Pid(std::process::id());
        let sockets: Vec<std::net::UdpSocket> =
            (0..400).map(|_| std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        // A second name of each: eight hundred descriptors with those of other tests.
        let twins: Vec<std::net::UdpSocket> = sockets.iter().map(|it| it.try_clone().unwrap()).collect();
        let found = descriptors(own).unwrap().sockets;
        for (socket, twin) in sockets.iter().zip(&twins) {
            let inode = |socket: &std::net::UdpSocket| found[&(socket.as_raw_fd() as u32)];
            assert_eq!(inode(socket), inode(twin));
        }
    }

    #[test]
    fn what_is_known_and_alive_is_not_read_again() {
        let own = Pid(std::process::id());
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let fd = socket.as_raw_fd() as u32;
        let inode = descriptors(own).unwrap().sockets[&fd];
        let told = Descriptors { sockets: Map::from_iter([(fd, 1)]), ..Descriptors::default() };
        assert_eq!(told.reread(own, |inode| inode == 1).unwrap().sockets[&fd], 1, "taken at its word");
        assert_eq!(told.reread(own, |_| false).unwrap().sockets[&fd], inode, "followed");
    }
}
