//! Which threads, children, sockets and files does a process have?
//!
//! What may be read depends on who asks: a process's descriptors, its system calls and the place where it
//! sleeps are shown to its owner and to root (ptrace_may_access); names, parents and CPU times to everyone.

mod descriptors;

use std::io;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags, statx};

pub(crate) use descriptors::of_pipe;
pub use descriptors::{Descriptors, descriptors, sockets};

use crate::error::{Malformed, ObserveError};
use crate::proc_file::{ProcFile, number, read_once};

/// A process, by the kernel's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pid(pub u32);

impl std::fmt::Display for Pid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What `/proc/PID/stat` says, as far as weir asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// The program's name, 15 bytes at most.
    pub name: String,
    /// `R`, `S`, `D`, `Z`...
    pub state: char,
    /// The parent's number.
    pub parent: Pid,
    /// CPU time of all its threads, in steps of a clock tick.
    pub cpu: Duration,
    /// CPU time of its children that ended and were waited for.
    pub children_cpu: Duration,
    /// When it started, in clock ticks after boot: tells a process from a later one with its number.
    pub started: u64,
    /// It is a thread of the kernel's own.
    pub kernel: bool,
}

impl Stat {
    /// Whether it began later than so long after the machine started.
    pub(crate) fn started_after(&self, time: Duration) -> bool {
        // The tick that is under way counts: what is not known is taken for new.
        let tick = TICK.as_millis() as u64;
        Duration::from_millis(self.started.saturating_add(1).saturating_mul(tick)) > time
    }
}

/// Among a process's flags: a thread of the kernel's own (include/linux/sched.h).
const PF_KTHREAD: u64 = 0x0020_0000;

/// USER_HZ, 100 on every common machine.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Reads `/proc/PID/stat` (proc_pid_stat.5): the name stands in brackets and may itself hold brackets.
pub fn parse(text: &str) -> Result<Stat, Malformed> {
    let malformed = || Malformed("no name in brackets".to_owned());
    let (head, tail) = text.rsplit_once(") ").ok_or_else(malformed)?;
    let (_, name) = head.split_once('(').ok_or_else(malformed)?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    // Field n of the manual page, of which the third is the first here.
    let field = |n: usize, what: &str| number(what, fields.get(n - 3).copied());
    let ticks = |count: u64| TICK.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
    Ok(Stat {
        name: name.to_owned(),
        state: fields.first().and_then(|state| state.chars().next()).unwrap_or('?'),
        parent: Pid(u32::try_from(field(4, "parent")?).unwrap_or_default()),
        cpu: ticks(field(14, "user time")?.saturating_add(field(15, "system time")?)),
        children_cpu: ticks(
            field(16, "children's user time")?.saturating_add(field(17, "children's system time")?),
        ),
        started: field(22, "start time")?,
        kernel: field(9, "flags")? & PF_KTHREAD != 0,
    })
}

/// The process's state now; [`ObserveError::Absent`] when it has ended.
pub fn stat(pid: Pid) -> Result<Stat, ObserveError> {
    read_once(&format!("/proc/{pid}/stat"), parse).map_err(|error| ended_or(pid, error))
}

/// Whether a process of which [`stat`] finds nothing is there all the same: another user's, which `/proc`
/// does not show to the caller (`hidepid`, proc(5)).
pub fn is_hidden(pid: Pid) -> bool {
    let raw = i32::try_from(pid.0).ok().and_then(rustix::process::Pid::from_raw);
    raw.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::PERM))
}

/// The numbers of a process's threads.
pub fn threads(pid: Pid) -> Result<Vec<u32>, ObserveError> {
    let path = format!("/proc/{pid}/task");
    let entries =
        std::fs::read_dir(&path).map_err(|cause| ended_or(pid, ObserveError::unreadable(path, cause)))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Every process there is, as far as this one is shown them.
pub fn all() -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid).collect()
}

/// The process and all that descend from it, itself first. A process whose parent has ended is no longer
/// found below it.
pub fn tree(root: Pid) -> Vec<Pid> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        next += 1;
        for child in children(pid) {
            if !found.contains(&child) {
                found.push(child);
            }
        }
    }
    found
}

/// The children of all its threads.
pub fn children(pid: Pid) -> Vec<Pid> {
    let Ok(threads) = threads(pid) else { return Vec::new() };
    let mut found = Vec::new();
    for tid in threads {
        let path = format!("/proc/{pid}/task/{tid}/children");
        let listed: Result<Vec<Pid>, ObserveError> = read_once(&path, |text| {
            Ok(text.split_ascii_whitespace().flat_map(str::parse).map(Pid).collect())
        });
        match listed {
            Ok(listed) => found.extend(listed),
            // Not every kernel lists them (CONFIG_PROC_CHILDREN).
            Err(_) if !lists_children() => return children_by_parent(pid),
            Err(_) => {}
        }
    }
    found
}

/// Whether the kernel lists the children of threads, as the caller's own shows.
fn lists_children() -> bool {
    std::path::Path::new("/proc/thread-self/children").exists()
}

fn children_by_parent(pid: Pid) -> Vec<Pid> {
    all().into_iter().filter(|child| stat(*child).is_ok_and(|stat| stat.parent == pid)).collect()
}

/// The owner's number (the effective one).
pub fn owner(pid: Pid) -> Result<u32, ObserveError> {
    use std::os::unix::fs::MetadataExt;
    let path = format!("/proc/{pid}");
    let found =
        std::fs::metadata(&path).map_err(|cause| ended_or(pid, ObserveError::unreadable(path, cause)))?;
    Ok(found.uid())
}

/// `wget (pid 4711)`, or `pid 4711` when it has ended.
pub fn described(pid: Pid) -> String {
    stat(pid).map_or_else(|_| format!("pid {pid}"), |stat| format!("{} (pid {pid})", stat.name))
}

/// Whether this descriptor may be written to; `None` when it is closed or may not be looked at.
pub fn is_writable(pid: Pid, fd: u32) -> Option<bool> {
    descriptor(pid, fd).map(|(_, writable)| writable)
}

/// What the kernel itself knows of a file that a process has open: its type and its device. No NFS or FUSE
/// server is asked: one that is away would never answer.
pub(crate) fn open_file(pid: Pid, fd: u32) -> Result<Statx, ObserveError> {
    let link = format!("/proc/{pid}/fd/{fd}");
    statx(CWD, &link, AtFlags::STATX_DONT_SYNC, StatxFlags::empty())
        .map_err(|cause| ObserveError::unreadable(link, cause))
}

/// It leads to a socket.
pub(crate) fn is_socket(pid: Pid, fd: u32) -> bool {
    open_file(pid, fd).is_ok_and(|found| FileType::from_raw_mode(found.stx_mode.into()).is_socket())
}

/// A regular file opened for writing.
fn is_output(pid: Pid, fd: u32) -> bool {
    let is_regular = |found: Statx| FileType::from_raw_mode(found.stx_mode.into()).is_file();
    open_file(pid, fd).is_ok_and(is_regular) && descriptor(pid, fd).is_some_and(|(_, writable)| writable)
}

/// Where a descriptor stands in its file; kept open, since it is asked for often.
#[derive(Debug)]
pub struct Position(ProcFile);

impl Position {
    /// Fails when the descriptor is closed or may not be looked at.
    pub fn open(pid: Pid, fd: u32) -> Result<Position, ObserveError> {
        ProcFile::open(format!("/proc/{pid}/fdinfo/{fd}")).map(Position)
    }

    /// The position now; `None` when the descriptor is closed.
    pub fn read(&mut self) -> Option<u64> {
        self.0.read(parse_descriptor).ok().map(|(position, _)| position)
    }
}

fn descriptor(pid: Pid, fd: u32) -> Option<(u64, bool)> {
    read_once(&format!("/proc/{pid}/fdinfo/{fd}"), parse_descriptor).ok()
}

/// `pos:` in decimal and `flags:` in octal; whether it may be written to.
pub fn parse_descriptor(text: &str) -> Result<(u64, bool), Malformed> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let position = number("position", field("pos:"))?;
    let flags = field("flags:").and_then(|flags| u32::from_str_radix(flags, 8).ok());
    let flags = flags.ok_or_else(|| Malformed("no flags".to_owned()))?;
    // O_ACCMODE, O_WRONLY and O_RDWR.
    Ok((position, matches!(flags & 3, 1 | 2)))
}

/// Bytes that a process, and the children it waited for, made dirty or wrote directly (`write_bytes` of
/// `/proc/PID/io`): counted when they go into the page cache, not when they reach the disk. To be read until
/// someone has waited for it.
#[derive(Debug)]
pub struct WrittenBytes(ProcFile);

impl WrittenBytes {
    /// Fails when the process has ended or belongs to someone else.
    pub fn open(pid: Pid) -> Result<WrittenBytes, ObserveError> {
        ProcFile::open(format!("/proc/{pid}/io")).map(WrittenBytes).map_err(|error| ended_or(pid, error))
    }

    /// The count now.
    pub fn read(&mut self) -> Result<u64, ObserveError> {
        self.0.read(parse_written)
    }
}

/// The line `write_bytes` of `/proc/PID/io`.
pub fn parse_written(text: &str) -> Result<u64, Malformed> {
    number("write_bytes", text.lines().find_map(|line| line.strip_prefix("write_bytes:")))
}

/// The network namespace in which a process lives, as `net:[4026531840]`; `None` when that may not be read.
pub fn network(pid: Pid) -> Option<String> {
    let name = std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()?;
    Some(name.to_string_lossy().into_owned())
}

/// That of the calling thread.
pub(crate) fn own_network() -> Option<String> {
    let name = std::fs::read_link("/proc/thread-self/ns/net").ok()?;
    Some(name.to_string_lossy().into_owned())
}

/// Whether the process lives in the network namespace of the caller; `None` when that may not be read.
pub fn shares_network(pid: Pid) -> Option<bool> {
    Some(network(pid)? == own_network()?)
}

/// One process of each network namespace but the caller's, as far as that may be read.
pub(crate) fn other_networks() -> Vec<Pid> {
    let Some(own) = own_network() else { return Vec::new() };
    let mut others = std::collections::BTreeMap::new();
    for pid in all() {
        if let Some(name) = network(pid).filter(|name| *name != own) {
            others.entry(name).or_insert(pid);
        }
    }
    others.into_values().collect()
}

/// Whether every process of the machine is shown: the caller lives in its first PID namespace, and `/proc`
/// hides nothing from it (`hidepid`, proc(5)), as process 1 shows.
pub(crate) fn sees_all() -> bool {
    use std::os::unix::fs::MetadataExt;
    let pids = std::fs::metadata("/proc/self/ns/pid");
    let first = pids.is_ok_and(|pids| pids.ino() == FIRST_PIDS);
    first && stat(Pid(1)).is_ok() && threads(Pid(1)).is_ok()
}

/// The number of the machine's first PID namespace (PROC_PID_INIT_INO, include/linux/proc_ns.h).
const FIRST_PIDS: u64 = 0xefff_fffc;

/// Whether no thread of a process that `is_known` does not name lives in this network namespace. `false` also
/// where a process may not be asked, or is not even shown: it could.
pub(crate) fn lives_alone(network: &str, is_known: impl Fn(Pid) -> bool) -> bool {
    let place = |pid: Pid, tid: u32| std::fs::read_link(format!("/proc/{pid}/task/{tid}/ns/net"));
    let lives_there = |pid: Pid, tid: u32| match place(pid, tid) {
        Ok(name) => name.to_string_lossy() == network,
        // A thread that has ended lives nowhere.
        Err(cause) => cause.kind() != io::ErrorKind::NotFound && cause.raw_os_error() != Some(libc::ESRCH),
    };
    let is_there = |pid: Pid| match threads(pid) {
        Ok(threads) => threads.into_iter().any(|tid| lives_there(pid, tid)),
        Err(error) => !matches!(error, ObserveError::Absent(_)),
    };
    sees_all() && !all().into_iter().any(|pid| !is_known(pid) && is_there(pid))
}

/// Moves the calling thread, for good, into the process's network namespace; for root.
pub(crate) fn enter_network(pid: Pid) -> Result<(), ObserveError> {
    let path = format!("/proc/{pid}/ns/net");
    let refused = |cause: io::Error| {
        ObserveError::Absent(format!(
            "process {pid} lives in another network namespace ({}): run weir why as root, or inside it (nsenter -t {pid} -n)",
            weir_units::plain(&cause)
        ))
    };
    let namespace = std::fs::File::open(path).map_err(refused)?;
    let kind = Some(rustix::thread::LinkNameSpaceType::Network);
    rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&namespace), kind)
        .map_err(|cause| refused(cause.into()))
}

/// Why a process's own matters are hidden, and the way out.
pub fn not_mine(pid: Pid) -> ObserveError {
    ObserveError::Absent(format!(
        "process {pid} belongs to another user: run weir why as that user or as root to see its threads and files"
    ))
}

fn ended_or(pid: Pid, error: ObserveError) -> ObserveError {
    match &error {
        ObserveError::Unreadable { cause, .. }
            if cause.kind() == io::ErrorKind::NotFound || cause.raw_os_error() == Some(libc::ESRCH) =>
        {
            ObserveError::Absent(format!("process {pid} has ended"))
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_brackets_and_spaces() {
        let text = "7 (a) R (b) S 3 7 7 0 -1 4194304 1 2 3 4 150 50 20 10 20 0 1 0 98765 1 2 3";
        let stat = parse(text).unwrap();
        assert_eq!((stat.name.as_str(), stat.state, stat.parent), ("a) R (b", 'S', Pid(3)));
        assert_eq!((stat.cpu, stat.children_cpu), (Duration::from_secs(2), Duration::from_millis(300)));
        assert_eq!((stat.started, stat.kernel), (98765, false));
        let thread = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 1 0 0 20 0 1 0 3 0 0";
        assert!(parse(thread).unwrap().kernel);
        for cut in 0..text.len() - 12 {
            assert!(parse(&text[..cut]).is_err(), "{}", &text[..cut]);
        }
    }

    #[test]
    fn this_process_has_what_it_opened() {
        let own = Pid(std::process::id());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut file = std::fs::File::create(&path).unwrap();
        std::io::Write::write_all(&mut file, b"12345").unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let found = descriptors(own).unwrap();
        let (fd, _) = *found.outputs.iter().find(|(_, other)| *other == path).as_ref().unwrap();
        assert_eq!(Position::open(own, *fd).unwrap().read(), Some(5));
        let fd = std::os::fd::AsRawFd::as_raw_fd(&socket) as u32;
        assert!(found.sockets[&fd] > 0);
        assert_eq!(shares_network(own), Some(true));
        assert!(sockets(own).unwrap().contains(&found.sockets[&fd]));
        assert!(all().contains(&own));
        // The machine's own network has others in it.
        assert!(!lives_alone(&own_network().unwrap(), |pid| pid == own));
        // Who is shown only some of the processes cannot know it.
        assert_eq!(lives_alone("net:[1]", |_| true), sees_all());
        assert!(threads(own).unwrap().contains(&own.0));
        assert!(WrittenBytes::open(own).unwrap().read().is_ok());
    }

    #[test]
    fn children_are_found_and_the_dead_are_absent() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid(child.id());
        let own = Pid(std::process::id());
        assert!(tree(own).contains(&pid));
        assert!(children_by_parent(own).contains(&pid), "where the kernel lists no children");
        assert_eq!(stat(pid).unwrap().parent, Pid(std::process::id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(stat(pid).unwrap_err().to_string(), format!("process {pid} has ended"));
        assert_eq!(threads(pid).unwrap_err().to_string(), format!("process {pid} has ended"));
        assert_eq!(tree(pid), [pid]);
    }

    #[test]
    fn written_bytes_are_those_that_reach_the_disk() {
        let text = "rchar: 9\nwchar: 8\nsyscr: 7\nsyscw: 6\nread_bytes: 5\nwrite_bytes: 4096\n";
        assert_eq!(parse_written(&format!("{text}cancelled_write_bytes: 2\n")), Ok(4096));
        assert!(parse_written("cancelled_write_bytes: 2\n").is_err());
    }

    #[test]
    fn descriptors_say_whether_they_write() {
        assert_eq!(parse_descriptor("pos:\t42\nflags:\t0100001\nmnt_id:\t1\n"), Ok((42, true)));
        assert_eq!(parse_descriptor("pos:\t0\nflags:\t0100000\n"), Ok((0, false)));
        assert!(parse_descriptor("pos:\t0\n").is_err());
    }
}
