//! Which sockets, pipes and terminals do the subject's descriptors lead to, and is one of them a resolver's?

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::pipes::{PipeEnd, holds};
use crate::process::{self, Descriptors, Pid};
use crate::thread::thread_cpu_now;
use crate::thread_probe::ThreadLook;
use crate::udp;
use crate::unix_sockets::UnixDiag;
use crate::waiting::Doing;
use crate::watch::discovery::Discovery;
use crate::watch::lanes::Lane;
use crate::watch::threads::Threads;

use super::activity::Leads;
use super::state::{RESOLVER_PORTS, Served};

/// The services of a machine that ask for names on behalf of its programs: systemd-resolved and nscd.
const SERVICES: [&str; 3] = ["/run/systemd/resolve/", "/run/nscd/", "/var/run/nscd/"];

/// While connections are busy only pipes may be new.
const SELDOM: Duration = Duration::from_secs(1);

/// A local socket is made before it is connected: asked so often before it counts as leading nowhere. So
/// often a pipe is looked for, too, at which a thread waits though none is known: it may be one of those that
/// only wake threads.
const ASKED: u32 = 5;

/// A question to a resolver is out for so long at most: glibc asks three servers twice, for five seconds each
/// (resolv.conf(5)). A socket that is older is kept from one question to the next (nginx, dnsmasq, c-ares),
/// and whether one is out does not show.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where sockets go to that the system's log comes through: nobody answers there.
const LOG: &str = "/run/systemd/journal/";

/// Of more sockets than these that are no lane's, none is looked up: a service has thousands of connections
/// beyond the lanes.
const MOST: usize = 64;

/// The subject's descriptors, as last read.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// When the watch began, since the machine started; `None` of a command that was watched from its start.
    began: Option<Duration>,
    tables: HashMap<Pid, Arc<Descriptors>>,
    /// Inodes of listeners of this machine.
    listening: HashSet<u32>,
    pipes: Vec<PipeEnd>,
    resolvers: Vec<String>,
    other_sockets: bool,
    local_peer: bool,
    listens: bool,
    missing: Option<String>,
    read: Option<Instant>,
    /// The processes whose descriptors these are.
    of: Vec<Pid>,
    /// How often a pipe was looked for in them.
    sought: u32,
    cost: Duration,
    unix: Option<UnixDiag>,
    /// Local sockets by inode: where each leads, and how often that was asked for.
    local: HashMap<u32, (Local, u32)>,
    /// Sockets that are none of TCP's, by inode: when each was opened, for those that were since the watch
    /// began.
    opened: HashMap<u32, Option<Instant>>,
    /// Processes whose descriptors were read before.
    known: HashSet<Pid>,
}

/// What the subject is at, which says how soon its descriptors are read anew.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    /// One of its connections is busy.
    pub(super) busy: bool,
    /// A thread was found waiting at a pipe.
    pub(super) at_pipe: bool,
}

/// Where a local socket leads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Local {
    /// To the service of a resolver.
    Resolver(String),
    /// To another descriptor of the subject, whose threads wake one another by it; or to the system's log.
    NoAnswer,
    /// By a connection with a name to another process. Those without are pairs, by which a process mostly
    /// talks to its own parts.
    Process,
    /// Anywhere else, or it is not known.
    #[default]
    Elsewhere,
}

impl Survey {
    /// The watch begins. `command`: the subject has only just begun.
    pub(super) fn new(command: bool) -> Survey {
        Survey { began: (!command).then(since_start), ..Survey::default() }
    }

    /// Reads them anew where that is due: at each sample while nothing is busy, unless that takes more than
    /// half a hundredth of a processor (a process of a few hundred descriptors takes less); else so that it
    /// takes a thousandth, since of ten thousand descriptors one reading takes 40 ms. Nor does it wait where
    /// a process came or went, or where a thread waits at a pipe (`at_pipe`) and none is known: a pipeline of
    /// a second would be over before it was seen.
    pub(super) fn refresh(
        &mut self,
        discovery: &mut Discovery,
        lanes: &[Lane],
        served: &Served,
        due: Due,
        now: Instant,
    ) {
        let mut these = discovery.pids.clone();
        these.sort();
        let others = self.of != these;
        let seek = due.at_pipe && self.pipes.is_empty() && self.sought < ASKED;
        let seldom = due.busy && !others && !seek;
        let (part, least) = if seldom { (1000, SELDOM) } else { (200, Duration::ZERO) };
        let pause = (self.cost * part).max(least);
        if self.read.is_some_and(|read| now.saturating_duration_since(read) < pause) {
            return;
        }
        self.read = Some(now);
        self.sought = if others { 0 } else { self.sought.saturating_add(u32::from(seek)) };
        self.of = these;
        let start = thread_cpu_now();
        self.tables.clear();
        self.missing = None;
        // One read for the discovery since then will do.
        let since = now.checked_sub(pause).unwrap_or(now);
        for pid in self.of.clone() {
            match discovery.tables.read(pid, since) {
                Ok(table) => {
                    self.tables.insert(pid, table);
                }
                Err(why) if process::stat(pid).is_ok_and(|stat| stat.state != 'Z') => {
                    self.missing = Some(why.to_string());
                }
                Err(_) => {}
            }
        }
        self.listening = served.inodes().collect();
        let mut sockets = self.tables.values().flat_map(|table| table.sockets.values());
        self.listens = sockets.any(|inode| self.listening.contains(inode));
        self.pipes = self.ends();
        self.sort_sockets(lanes, now);
        self.cost = thread_cpu_now().saturating_sub(start);
    }

    fn ends(&self) -> Vec<PipeEnd> {
        let mut found: Vec<PipeEnd> = Vec::new();
        for (pid, table) in &self.tables {
            // What is said on stderr is no data.
            let data = table.pipes.iter().filter(|(fd, _)| **fd != 2);
            let own: Vec<PipeEnd> = data
                .filter_map(|(fd, inode)| {
                    Some(PipeEnd { inode: *inode, writes: process::is_writable(*pid, *fd)? })
                })
                .collect();
            let both = |end: &PipeEnd| own.contains(&PipeEnd { writes: !end.writes, ..*end });
            found.extend(own.iter().filter(|end| !both(end)));
        }
        found.sort_by_key(|end| (end.inode, end.writes));
        found.dedup();
        found
    }

    /// Which of the subject's processes holds this end, and not the other one as well. Of several the
    /// youngest: the one before it, a shell or another wrapper, handed its end on.
    pub(super) fn holder(&self, end: PipeEnd) -> Option<Pid> {
        let all = self.tables.iter().filter(|(pid, table)| holds(**pid, table, end));
        all.map(|(pid, _)| *pid).max_by_key(|pid| (process::stat(*pid).map_or(0, |stat| stat.started), *pid))
    }

    /// Tells what is none of TCP's.
    fn sort_sockets(&mut self, lanes: &[Lane], now: Instant) {
        self.resolvers.clear();
        (self.other_sockets, self.local_peer) = (false, false);
        let tcp: HashSet<u32> = lanes.iter().map(Lane::inode).chain(self.listening.iter().copied()).collect();
        let mut others: HashMap<u32, Pid> = HashMap::new();
        for (pid, table) in &self.tables {
            let unknown = table.sockets.values().filter(|inode| !tcp.contains(inode));
            others.extend(unknown.map(|inode| (*inode, *pid)));
        }
        self.local.retain(|inode, _| others.contains_key(inode));
        self.date(&others, now);
        if others.len() > MOST {
            self.other_sockets = true;
            return;
        }
        let Some(pid) = others.values().next().copied() else { return };
        for socket in udp::read(pid).unwrap_or_default() {
            if others.remove(&socket.inode).is_none() {
                continue;
            }
            if RESOLVER_PORTS.contains(&socket.remote.port()) && self.is_young(socket.inode, now) {
                // What has come is read soon.
                if socket.receive_queue == 0 {
                    self.resolvers.push(format!("{} (UDP)", socket.remote));
                }
            } else {
                self.other_sockets = true;
            }
        }
        for inode in others.into_keys() {
            match self.leads_local(inode) {
                Local::Resolver(path) if self.is_young(inode, now) => self.resolvers.push(path),
                Local::NoAnswer => {}
                Local::Process => (self.other_sockets, self.local_peer) = (true, true),
                Local::Resolver(_) | Local::Elsewhere => self.other_sockets = true,
            }
        }
        self.resolvers.sort();
        self.resolvers.dedup();
    }

    /// Notes when these sockets were opened. Those that a process had when it was first looked at are old,
    /// unless it began after the watch did.
    fn date(&mut self, others: &HashMap<u32, Pid>, now: Instant) {
        self.opened.retain(|inode, _| others.contains_key(inode));
        // A service has thousands of sockets, and each process is looked at once.
        let mut began_since: HashMap<Pid, bool> = HashMap::new();
        for (inode, pid) in others {
            if self.opened.contains_key(inode) {
                continue;
            }
            let is_new = self.known.contains(pid)
                || self.began.is_none_or(|began| {
                    let look = || process::stat(*pid).is_ok_and(|stat| stat.started_after(began));
                    *began_since.entry(*pid).or_insert_with(look)
                });
            self.opened.insert(*inode, is_new.then_some(now));
        }
        self.known = self.tables.keys().copied().collect();
    }

    fn is_young(&self, inode: u32, now: Instant) -> bool {
        let opened = self.opened.get(&inode).copied().flatten();
        opened.is_some_and(|opened| now.saturating_duration_since(opened) < PATIENCE)
    }

    fn leads_local(&mut self, inode: u32) -> Local {
        if self.unix.is_none() {
            self.unix = UnixDiag::open().ok();
        }
        let own = |peer: u32| self.tables.values().any(|table| table.sockets.values().any(|it| *it == peer));
        let (found, asked) = self.local.entry(inode).or_default();
        if matches!(found, Local::Elsewhere | Local::Process) && *asked < ASKED {
            *asked += 1;
            let socket = self.unix.as_mut().and_then(|unix| unix.socket(inode)).unwrap_or_default();
            let mut service = |peer: u32| self.unix.as_mut()?.socket(peer)?.path;
            *found = match socket.peer {
                Some(peer) if own(peer) => Local::NoAnswer,
                Some(peer) => match service(peer) {
                    Some(path) if SERVICES.iter().any(|start| path.starts_with(start)) => {
                        Local::Resolver(path)
                    }
                    Some(path) if path.starts_with(LOG) => Local::NoAnswer,
                    path if socket.connects && (path.is_some() || socket.path.is_some()) => Local::Process,
                    _ => Local::Elsewhere,
                },
                None => Local::Elsewhere,
            };
        }
        found.clone()
    }

    /// Why some descriptors could not be read.
    pub(super) fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// The resolvers to which a socket without an answer is open.
    pub(super) fn resolvers(&self) -> &[String] {
        &self.resolvers
    }

    /// A socket is open on which an answer may be awaited unseen.
    pub(super) fn has_other_sockets(&self) -> bool {
        self.other_sockets
    }

    /// A local socket leads to another process, from which something may come unseen.
    pub(super) fn has_local_peer(&self) -> bool {
        self.local_peer
    }

    /// A socket is open at which clients may come.
    pub(super) fn listens(&self) -> bool {
        self.listens
    }

    /// The ends of pipes that the subject holds, other than those that only wake its own threads.
    pub(super) fn pipes(&self) -> &[PipeEnd] {
        &self.pipes
    }

    /// Whether a descriptor of the subject leads to that socket.
    pub(super) fn holds(&self, inode: u32) -> bool {
        self.tables.values().any(|table| table.sockets.values().any(|it| *it == inode))
    }

    /// Any process of the subject.
    pub(super) fn first(&self) -> Option<Pid> {
        self.tables.keys().min().copied()
    }

    /// The sockets from which a thread was found reading, asleep until something comes.
    pub(super) fn read_by(&self, threads: &Threads) -> HashSet<u32> {
        let reads = threads.looks().filter(|(_, _, look)| look.doing == Doing::Receiving);
        let inode = |(pid, _, look): (Pid, &str, ThreadLook)| {
            self.tables.get(&pid)?.sockets.get(&look.descriptor?).copied()
        };
        reads.filter_map(inode).collect()
    }

    /// The end of a pipe at which this look found a thread waiting; `None` where it is none of those known,
    /// as of a named pipe or a local socket.
    pub(super) fn end_at(&self, pid: Pid, look: ThreadLook) -> Option<PipeEnd> {
        let inode = *self.tables.get(&pid)?.pipes.get(&look.descriptor?)?;
        let end = PipeEnd { inode, writes: look.doing == Doing::PipeFull };
        self.pipes.contains(&end).then_some(end)
    }

    pub(super) fn leads(&self, pid: Pid, descriptor: Option<u32>) -> Leads {
        let (Some(fd), Some(table)) = (descriptor, self.tables.get(&pid)) else { return Leads::Elsewhere };
        match table.sockets.get(&fd) {
            Some(inode) if self.listening.contains(inode) => Leads::Listener,
            Some(_) => Leads::Socket,
            None if table.terminals.contains(&fd) => Leads::Terminal,
            None if table.pipes.contains_key(&fd) => Leads::Pipe,
            None => Leads::Elsewhere,
        }
    }
}

/// Since the machine started, time asleep included, as the start of a process is told.
fn since_start() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn of_a_wrapper_and_its_child_the_child_has_the_pipe() {
        let script = ["-c", "cat >/dev/null; :"];
        let mut shell = Command::new("sh").args(script).stdin(Stdio::piped()).spawn().unwrap();
        let own = Pid(std::process::id());
        let fd = std::os::fd::AsRawFd::as_raw_fd(shell.stdin.as_ref().unwrap()) as u32;
        let end = PipeEnd { inode: process::descriptors(own).unwrap().pipes[&fd], writes: false };
        let wrapper = Pid(shell.id());
        let start = Instant::now();
        let child = loop {
            assert!(start.elapsed() < Duration::from_secs(20), "the shell starts its command");
            let is_cat = |pid: &Pid| process::stat(*pid).is_ok_and(|stat| stat.name == "cat");
            if let Some(child) = process::children(wrapper).into_iter().find(is_cat) {
                break child;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        // Each table of hashes has an order of its own.
        for _ in 0..20 {
            let table = |pid| (pid, Arc::new(process::descriptors(pid).unwrap()));
            let tables = [wrapper, child].map(table).into_iter().collect();
            let survey = Survey { tables, ..Survey::default() };
            assert_eq!(survey.holder(end), Some(child));
        }
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }
}
