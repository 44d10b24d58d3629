//! Which sockets are the subject's, and whose processes are they?
//!
//! A socket counts only where it is proven the subject's: a process of the subject was seen to hold it, or it
//! was made in a place that is the subject's alone ([`Proof`]). Another one to the same server is named,
//! never counted.
//!
//! A scan dumps the sockets of each network namespace that the subject lives in and matches their inodes with
//! the processes' descriptors. Its cost grows with the machine's sockets, so the caller scans seldom and
//! reads the sockets that it knows one by one.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::newcomers::Newcomers;
use super::notes::Notes;
use super::owners::Owners;
use super::proof::Proof;
use super::tables::{DEAR, Tables};
use crate::ObserveError;
use crate::maps::{Map, Remembered, Set};
use crate::process::{self, Pid};
use crate::sock_diag::{Destroyed, Filter, QuickSocket, SockDiag, SocketId, TcpSocket};
use crate::thread::thread_cpu_now;

/// Who is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A process and all that descend from it.
    Tree(Pid),
    /// Whoever has sockets that the filter admits.
    Sockets,
    /// Sockets that the filter admits, and who serves them says whoever watches: [`Discovery::set_worker`].
    Served,
}

/// Who serves sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worker {
    /// The process.
    pub pid: Pid,
    /// Its only thread that does; `None` for all of the process and those that descend from it.
    pub thread: Option<u32>,
}

/// A socket, by its network namespace's place in the discovery's list and its cookie.
pub(super) type Key = (usize, u64);

/// One of the subject's sockets.
#[derive(Debug)]
pub(super) struct Sighting {
    pub(super) key: Key,
    pub(super) socket: QuickSocket,
    /// The processes that hold it, as far as they are known; of a socket that was inherited several.
    pub(super) holders: Vec<Pid>,
    /// The other end, where it lives in the same network namespace.
    pub(super) mate: Option<SocketId>,
}

impl Sighting {
    /// Of those that hold it the one whose children the others are, or which was found first.
    pub(super) fn owner(&self) -> Option<Pid> {
        self.holders.first().copied()
    }
}

/// What a scan found, and what it cost of a processor.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) sightings: Vec<Sighting>,
    pub(super) cost: Duration,
    /// What is not among the sightings is gone, and may be forgotten now.
    pub(super) sweeps: bool,
}

/// Finds sockets and processes.
#[derive(Debug)]
pub struct Discovery {
    subject: Subject,
    filter: Filter,
    nets: Vec<Net>,
    /// The subject's processes, as of the last scan.
    pub(super) pids: Vec<Pid>,
    /// Their descriptors, where they may be read.
    pub(super) tables: Tables,
    owners: Owners,
    owners_read: Option<Instant>,
    /// Sockets once found to be the subject's: an orphan has no inode any more.
    mine: Remembered<Key>,
    /// Sockets that others hold, and how often that was seen: once may be a process that has only just begun.
    strangers: Map<Key, u8>,
    peers: HashSet<SocketAddr>,
    /// Ports at which the subject listens, alone or not.
    listening: HashSet<(usize, u16)>,
    /// Listening sockets of the subject by inode, and whether nobody else holds them.
    listeners: HashMap<u32, bool>,
    /// Processes whose descriptors are hidden.
    hidden: HashSet<Pid>,
    proof: Proof,
    proof_read: Option<Instant>,
    /// Of which processes.
    proof_of: Vec<Pid>,
    newcomers: Newcomers,
    /// The subject's own attempts to connect that failed and were not told yet.
    failed: u64,
    /// When what is gone was last forgotten.
    swept: Option<Instant>,
    /// When a connection last was over before it was seen.
    unseen: Option<Instant>,
    worker: Option<Worker>,
    /// The subject's first process, where it lives in another network namespace than the caller, and that
    /// namespace's place.
    away: Option<(Pid, usize)>,
}

#[derive(Debug)]
struct Net {
    /// `net:[4026531840]`; empty for the caller's own.
    name: String,
    diag: SockDiag,
    destroyed: Option<Destroyed>,
}

/// Descriptors are read anew after this even if no unknown socket turned up: one may have been handed to a
/// child.
const OWNERS_AGE: Duration = Duration::from_secs(1);

/// But not before three hundred times what that costs: the list alone of ten thousand descriptors takes some
/// 10 ms.
const OWNERS_PART: u32 = 300;

/// Who else is in the subject's places is asked once in this time at most.
const PROOF_AGE: Duration = Duration::from_secs(1);

/// After a connection that was over before it was seen others are looked for more often, for so long.
const LATELY: Duration = Duration::from_secs(1);

/// Strangers remembered, and peers: a word or two each.
const MOST_STRANGERS: usize = 1 << 17;

/// What is gone is forgotten so often. The kernel tells of a socket's end within a fraction of a second.
const SWEEP: Duration = Duration::from_secs(30);

impl Discovery {
    /// Opens the sockets' diagnostics in the caller's network namespace.
    pub fn new(subject: Subject, filter: Filter, notes: &mut Notes) -> Result<Discovery, ObserveError> {
        let own = Net {
            name: process::own_network().unwrap_or_default(),
            diag: SockDiag::open()?,
            destroyed: notes.or_note(Destroyed::open()),
        };
        Ok(Discovery {
            subject,
            filter,
            nets: vec![own],
            pids: Vec::new(),
            tables: Tables::default(),
            owners: Owners::default(),
            owners_read: None,
            mine: Remembered::default(),
            strangers: Map::default(),
            peers: HashSet::new(),
            listening: HashSet::new(),
            listeners: HashMap::new(),
            hidden: HashSet::new(),
            proof: Proof::default(),
            proof_read: None,
            proof_of: Vec::new(),
            newcomers: Newcomers::default(),
            failed: 0,
            swept: None,
            unseen: None,
            worker: None,
            away: None,
        })
    }

    /// The place of the network namespace in which the subject lives.
    pub(super) fn home(&self) -> usize {
        self.away.map_or(0, |(_, at)| at)
    }

    /// Does some work in that namespace; `None` where the subject ended before that could be.
    pub(super) fn at_home<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Option<T> {
        let Some((pid, _)) = self.away else { return Some(work()) };
        // A thread of its own, which may go there and never come back.
        std::thread::scope(|scope| {
            let there = scope.spawn(|| process::enter_network(pid).ok().map(|()| work()));
            there.join().ok().flatten()
        })
    }

    /// From now on this one serves the sockets of [`Subject::Served`].
    pub(super) fn set_worker(&mut self, worker: Option<Worker>) {
        self.worker = worker;
    }

    /// Whoever watches says who serves, and where the output goes.
    pub(super) fn is_told(&self) -> bool {
        self.subject == Subject::Served
    }

    /// The threads of a process that are watched.
    pub(super) fn threads(&self, pid: Pid) -> Vec<u32> {
        match self.worker {
            Some(Worker { thread: Some(thread), .. }) => vec![thread],
            _ => process::threads(pid).unwrap_or_default(),
        }
    }

    /// Every socket that the filter admits is meant, whoever has it.
    pub(super) fn takes_all(&self) -> bool {
        matches!(self.subject, Subject::Sockets | Subject::Served)
    }

    /// The same for a subject that began after it was opened, in the same network namespace.
    pub fn of(self, subject: Subject) -> Discovery {
        Discovery { subject, newcomers: Newcomers::from_the_start(), ..self }
    }

    /// Refuses a process whose connections cannot be told from others': it lives in a network namespace that
    /// may not be entered, or it is another user's and shares every place with others. Strangers are no
    /// substitute.
    pub fn check(&mut self, notes: &mut Notes) -> Result<(), ObserveError> {
        let Subject::Tree(root) = self.subject else { return Ok(()) };
        self.visit_network(root)?;
        self.away = self
            .nets
            .iter()
            .position(|net| Some(&net.name) == process::network(root).as_ref())
            .filter(|at| *at > 0)
            .map(|at| (root, at));
        self.list_processes(root, notes);
        match self.hidden.contains(&root) && !self.proof.tells(root) {
            true => Err(ObserveError::Absent(format!(
                "its connections cannot be told from others': {}, or name its port (--port) to judge its sockets",
                process::not_mine(root)
            ))),
            false => Ok(()),
        }
    }

    /// Finds the subject's processes and sockets as of now.
    pub(super) fn scan(&mut self, notes: &mut Notes) -> Scan {
        let start = thread_cpu_now();
        if let Subject::Tree(root) = self.subject {
            self.list_processes(root, notes);
        }
        if let (Subject::Served, Some(worker)) = (self.subject, self.worker) {
            self.pids = if worker.thread.is_some() { vec![worker.pid] } else { process::tree(worker.pid) };
        }
        let mut sightings = Vec::new();
        self.tables.begin_dump();
        let mut sweeps = self.swept.is_none_or(|swept| swept.elapsed() >= SWEEP);
        let (mut keys, mut inodes): (Set<Key>, Set<u32>) = (Set::default(), Set::default());
        for net in 0..self.nets.len() {
            match self.nets[net].diag.quick(&self.filter) {
                Ok(sockets) => {
                    if sweeps {
                        keys.extend(sockets.iter().map(|socket| (net, socket.id.cookie)));
                        inodes.extend(sockets.iter().map(|socket| socket.inode));
                    }
                    sightings.extend(self.pick(net, sockets, notes));
                }
                Err(error) => {
                    notes.add(error.to_string());
                    sweeps = false;
                }
            }
        }
        if sweeps {
            self.swept = Some(Instant::now());
            self.mine.sweep(|key| keys.contains(key));
            self.owners.retain(|inode| inodes.contains(&inode));
        }
        Scan { sightings, cost: thread_cpu_now().saturating_sub(start), sweeps }
    }

    fn list_processes(&mut self, root: Pid, notes: &mut Notes) {
        self.pids = process::tree(root);
        self.hidden.retain(|pid| self.pids.contains(pid));
        self.newcomers.list(&self.pids, Instant::now());
        for pid in self.pids.clone() {
            if let Err(error) = self.visit_network(pid) {
                notes.add(error.to_string());
            }
        }
        // Before the dump too: a process may end between it and the next reading of descriptors.
        let unread = self.pids.iter().filter(|pid| self.tables.get(**pid).is_none()).copied().collect();
        self.read_owners(unread, notes);
        self.learn_proof();
    }

    fn learn_proof(&mut self) {
        let old = self.proof_read.is_none_or(|read| read.elapsed() >= PROOF_AGE);
        if !old || self.proof_of == self.pids {
            return;
        }
        // The caller's own network namespace has others in it nearly always, and who they are is dear to ask:
        // once will do.
        let first = usize::from(self.proof_read.is_some() && !self.proof.has_network(0));
        self.proof_read = Some(Instant::now());
        self.proof_of.clone_from(&self.pids);
        let names = self.nets.iter().map(|net| net.name.as_str()).enumerate().skip(first);
        self.proof.learn(&self.pids, &self.hidden, names);
    }

    /// Reads what the newest processes have opened; `true` when a socket was found that was not known yet. A
    /// short command's connection lives for a millisecond or two, between two samples.
    pub(super) fn peek(&mut self) -> bool {
        let start = thread_cpu_now();
        let now = Instant::now();
        for parent in self.newcomers.asked(&self.pids) {
            for child in process::children(parent) {
                if !self.pids.contains(&child) {
                    self.pids.push(child);
                }
            }
        }
        self.newcomers.list(&self.pids, now);
        for pid in self.newcomers.opening(&self.pids, now) {
            for inode in process::sockets(pid).unwrap_or_default() {
                if self.owners.open(inode, pid) {
                    self.newcomers.await_socket(inode);
                }
            }
        }
        let mut found = false;
        if self.newcomers.awaits() {
            for net in 0..self.nets.len() {
                for socket in self.nets[net].diag.quick(&self.filter).unwrap_or_default() {
                    found |= self.recognise(net, &socket);
                }
            }
            self.newcomers.asked_once();
        }
        self.newcomers.cost = thread_cpu_now().saturating_sub(start);
        found
    }

    /// Remembers a socket whose holder is known; `true` when it was not known yet.
    fn recognise(&mut self, net: usize, socket: &QuickSocket) -> bool {
        if !self.owners.is_held(socket.inode) && !self.proof.of(net, socket) {
            return false;
        }
        self.newcomers.found(socket.inode);
        // Of a subject that takes all sockets nothing is told by its peers.
        let asks = !self.takes_all() && !self.listening.contains(&(net, socket.id.local.port()));
        if asks && self.peers.len() < MOST_STRANGERS {
            self.peers.insert(socket.id.remote);
        }
        let key = (net, socket.id.cookie);
        self.strangers.remove(&key);
        self.mine.insert(key)
    }

    /// How long to wait before the next peek; `None` where nobody opens anything unexpected.
    pub(super) fn nap(&self) -> Option<Duration> {
        matches!(self.subject, Subject::Tree(_)).then(|| self.newcomers.nap(Instant::now())).flatten()
    }

    /// These sockets now, each handed over with its place in the list; `None` when it is gone.
    pub(super) fn read(
        &mut self,
        sockets: &[(usize, SocketId)],
        mut found: impl FnMut(usize, Option<TcpSocket>),
    ) {
        for (net, entry) in self.nets.iter_mut().enumerate() {
            let (places, ids): (Vec<usize>, Vec<SocketId>) = sockets
                .iter()
                .enumerate()
                .filter_map(|(place, (of, id))| (*of == net).then_some((place, *id)))
                .unzip();
            // A question that cannot be asked is asked again at the next look; until then nothing is known to
            // be gone.
            if let Err(error) = entry.diag.each(&ids, |place, socket| found(places[place], socket)) {
                tracing::debug!("{error}");
            }
        }
    }

    /// The sockets that ended since the last call, all of the namespace, with the key each would have had.
    pub(super) fn ended(&mut self, notes: &mut Notes) -> Vec<(Key, TcpSocket)> {
        let mut all = Vec::new();
        for (net, entry) in self.nets.iter_mut().enumerate() {
            let Some(destroyed) = &mut entry.destroyed else { continue };
            let mut ended = Vec::new();
            match destroyed.read(&mut ended) {
                Ok(true) => {}
                Ok(false) => {
                    notes.add("so many connections ended at once that some of them were not counted")
                }
                Err(error) => notes.add(error.to_string()),
            }
            let own = |socket: &&TcpSocket| self.mine.contains(&(net, socket.id.cookie));
            self.failed += ended.iter().filter(own).filter(|it| it.never_connected()).count() as u64;
            ended.retain(|socket| socket.id.remote.port() != 0);
            all.extend(ended.into_iter().map(|socket| ((net, socket.id.cookie), socket)));
        }
        // What others were seen to hold was theirs to its end.
        all.retain(|(key, _)| self.strangers.remove(key).is_none_or(|times| times < 2));
        for (key, socket) in all.iter().filter(|(key, _)| !self.mine.contains(key)) {
            if self.proves(*key, socket) {
                self.unseen = Some(Instant::now());
            } else if self.resembles(*key, socket) {
                self.unseen = Some(Instant::now());
                self.newcomers.missed(Instant::now());
            }
        }
        all
    }

    /// How many attempts to connect are known to be the subject's own and to have failed, since the last
    /// call: `all` of the namespace's where nobody else is in it, or where they `are_taken` for the
    /// subject's, else those whose socket was seen before.
    pub(super) fn own_failed(&mut self, all: u64, are_taken: bool) -> u64 {
        let seen = std::mem::take(&mut self.failed);
        if are_taken || self.proof.has_network(self.home()) { all } else { seen }
    }

    /// Whether a socket that has ended is proven the subject's. The notice of its end says nothing of its
    /// process.
    pub(super) fn proves(&self, key: Key, socket: &TcpSocket) -> bool {
        let proven = || self.mine.contains(&key) || self.proof.of_ended(key, socket.id.local.port());
        self.filter.admits(&socket.id) && (self.takes_all() || proven())
    }

    /// Whether connections were over of late before they were seen: they are to be looked for more often.
    pub(super) fn misses(&self) -> bool {
        self.unseen.is_some_and(|unseen| unseen.elapsed() < LATELY)
    }

    /// Whether it went where the subject's go, as others' may: to a known server, or to a port at which the
    /// subject listens.
    pub(super) fn resembles(&self, (net, _): Key, socket: &TcpSocket) -> bool {
        let known =
            self.peers.contains(&socket.id.remote) || self.listening.contains(&(net, socket.id.local.port()));
        self.filter.admits(&socket.id) && known
    }

    /// The server to which most of these ended connections went. On this machine a server is who listens: the
    /// other end's address is a client's.
    pub(super) fn busiest_server<'a>(
        &mut self,
        ended: impl Iterator<Item = &'a TcpSocket>,
    ) -> Option<SocketAddr> {
        let listening = Filter { listening: true, ..Filter::default() };
        let sockets = self.nets.iter_mut().flat_map(|net| net.diag.quick(&listening).unwrap_or_default());
        let ports: HashSet<u16> = sockets.map(|socket| socket.id.local.port()).collect();
        let mut counts: HashMap<SocketAddr, usize> = HashMap::new();
        let ids = ended.map(|socket| socket.id);
        for id in ids.filter(|id| self.filter.admits(id) && !ports.contains(&id.local.port())) {
            let local = id.remote.ip().is_loopback() || id.remote.ip() == id.local.ip();
            if !local || ports.contains(&id.remote.port()) {
                *counts.entry(id.remote).or_default() += 1;
            }
        }
        counts.into_iter().max_by_key(|(peer, count)| (*count, *peer)).map(|(peer, _)| peer)
    }

    fn pick(&mut self, net: usize, sockets: Vec<QuickSocket>, notes: &mut Notes) -> Vec<Sighting> {
        self.tables.found(sockets.iter().map(|socket| socket.inode));
        self.learn_owners(&sockets, notes);
        let ends: Map<(SocketAddr, SocketAddr), SocketId> =
            sockets.iter().map(|socket| ((socket.id.local, socket.id.remote), socket.id)).collect();
        if self.strangers.len() > MOST_STRANGERS {
            self.strangers.clear();
        }
        let mut found = Vec::new();
        for socket in sockets {
            let key = (net, socket.id.cookie);
            let mine = self.recognise(net, &socket) || self.takes_all() || self.mine.contains(&key);
            if !mine && socket.inode != 0 && self.owners.knows(socket.inode) {
                let times = self.strangers.entry(key).or_default();
                *times = times.saturating_add(1);
            }
            if mine {
                self.mine.insert(key);
                let mate = ends.get(&(socket.id.remote, socket.id.local)).copied();
                let mut holders = self.owners.holders(socket.inode);
                if holders.is_empty() {
                    holders.extend(self.worker.map(|worker| worker.pid));
                }
                found.push(Sighting { key, socket, holders, mate });
            }
        }
        found
    }

    /// Reads descriptors when a socket's owner is not known.
    fn learn_owners(&mut self, sockets: &[QuickSocket], notes: &mut Notes) {
        let unknown = sockets.iter().any(|socket| socket.inode != 0 && !self.owners.knows(socket.inode));
        let age = OWNERS_AGE.max(self.tables.cost() * OWNERS_PART);
        let old = self.owners_read.is_none_or(|read| read.elapsed() >= age);
        if !unknown && !old {
            return;
        }
        if self.subject == Subject::Sockets {
            // Every process of the machine is asked, so only for sockets that are new.
            if !unknown {
                return;
            }
            let own = Pid(std::process::id());
            self.pids = process::all().into_iter().filter(|pid| *pid != own).collect();
        }
        // What took long just before the dump is not read once more: what is missing is found when it is old.
        if self.tables.cost() < DEAR || self.owners_read.is_some() {
            let pids: HashSet<Pid> = self.pids.iter().copied().collect();
            self.tables.retain(|pid| pids.contains(&pid));
            self.owners.begin();
            self.read_owners(self.pids.clone(), notes);
            self.owners.end();
        }
        self.owners_read = Some(Instant::now());
        for socket in sockets {
            self.owners.set_asked(socket.inode);
        }
        if self.subject == Subject::Sockets {
            self.pids = self.keep_owners_of(sockets, notes);
        } else if let Subject::Tree(_) = self.subject {
            self.learn_ports();
        }
    }

    fn read_owners(&mut self, pids: Vec<Pid>, notes: &mut Notes) {
        let now = Instant::now();
        for pid in pids {
            match self.tables.read(pid, now) {
                Ok(found) => self.owners.add(pid, found.sockets.values().copied()),
                Err(error) if self.subject != Subject::Sockets && process::stat(pid).is_ok() => {
                    notes.add(format!(
                        "{error}; of its connections only those count that can be told from others'"
                    ));
                    self.hidden.insert(pid);
                }
                Err(_) => {}
            }
        }
    }

    /// Of all processes, those that hold one of these sockets.
    fn keep_owners_of(&mut self, sockets: &[QuickSocket], notes: &mut Notes) -> Vec<Pid> {
        let held: HashSet<Pid> =
            sockets.iter().flat_map(|socket| self.owners.holders(socket.inode)).collect();
        self.tables.retain(|pid| held.contains(&pid));
        let is_hidden = |socket: &&QuickSocket| socket.inode != 0 && !self.owners.is_held(socket.inode);
        if let Some(socket) = sockets.iter().find(is_hidden) {
            notes.add(format!(
                "the process of {} belongs to user {}: run weir why as that user or as root to see its threads and files; \
                 its sockets are judged all the same",
                socket.id.local, socket.uid
            ));
        }
        held.into_iter().collect()
    }

    /// Every listening socket, anyone's, with its namespace's place in the list.
    pub(super) fn listeners(&mut self) -> Vec<(usize, TcpSocket)> {
        let listening = Filter { listening: true, ..Filter::default() };
        let each = self.nets.iter_mut().enumerate();
        each.flat_map(|(net, entry)| {
            let found = entry.diag.tcp(&listening).unwrap_or_default();
            found.into_iter().map(move |socket| (net, socket))
        })
        .collect()
    }

    /// The ports on which the subject waits for connections, and those of them on which nobody else does.
    fn learn_ports(&mut self) {
        let listening = Filter { listening: true, ..Filter::default() };
        self.listening.clear();
        for net in 0..self.nets.len() {
            let sockets = self.nets[net].diag.quick(&listening).unwrap_or_default();
            let (own, others): (Vec<QuickSocket>, Vec<QuickSocket>) =
                sockets.into_iter().partition(|socket| self.owners.is_held(socket.inode));
            self.learn_listeners(&own);
            let shared: HashSet<u16> = others.iter().map(|socket| socket.id.local.port()).collect();
            self.listening.extend(own.iter().map(|socket| (net, socket.id.local.port())));
            let alone = own.iter().filter(|socket| {
                self.listeners.get(&socket.inode) == Some(&true) && !shared.contains(&socket.id.local.port())
            });
            self.proof.set_ports(net, alone.map(|socket| socket.id.local.port()));
        }
    }

    /// A listening socket may be inherited, so that others take connections from it as well. Every process is
    /// asked, once for each that is new; another user's process, which may not be asked, can have it only if
    /// it was that user's to begin with.
    fn learn_listeners(&mut self, own: &[QuickSocket]) {
        let new: Vec<&QuickSocket> =
            own.iter().filter(|socket| !self.listeners.contains_key(&socket.inode)).collect();
        if new.is_empty() {
            return;
        }
        let (user, sees_all) = (rustix::process::geteuid(), process::sees_all());
        for socket in &new {
            let may_ask = user.is_root() || socket.uid == user.as_raw();
            self.listeners.insert(socket.inode, sees_all && may_ask);
        }
        for pid in process::all().into_iter().filter(|pid| !self.pids.contains(pid)) {
            for inode in process::sockets(pid).unwrap_or_default() {
                if let Some(alone) = self.listeners.get_mut(&inode) {
                    *alone = false;
                }
            }
        }
    }

    /// Opens the diagnostics of a network namespace in which a process of the subject lives.
    fn visit_network(&mut self, pid: Pid) -> Result<(), ObserveError> {
        // Where that may not be read, its descriptors may not either, and that is said.
        let Some(name) = process::network(pid) else { return Ok(()) };
        if self.nets.iter().any(|net| net.name == name) {
            return Ok(());
        }
        // A thread of its own, which may go there and never come back.
        let opened = std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                process::enter_network(pid)?;
                Ok::<_, crate::ObserveError>((SockDiag::open()?, Destroyed::open().ok()))
            });
            there.join()
        });
        let failed =
            || ObserveError::Absent(format!("cannot look into the network namespace of process {pid}"));
        let (diag, destroyed) = opened.map_err(|_| failed())??;
        self.nets.push(Net { name, diag, destroyed });
        Ok(())
    }
}
