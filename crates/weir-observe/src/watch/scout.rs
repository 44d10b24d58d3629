//! Which sockets are the subject's, and whose processes are they?
//!
//! A scan dumps the sockets of each network namespace that the subject lives in and matches their inodes with the
//! processes' descriptors. Its cost grows with the machine's sockets, so the caller scans seldom and reads the sockets
//! that it knows one by one.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::notes::Notes;
use crate::Error;
use crate::process::{self, Descriptors, Pid};
use crate::sock_diag::{Destroyed, Filter, Glance, SockDiag, SocketId, TcpSocket};
use crate::thread::thread_cpu_now;

/// Who is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A process and all that descend from it.
    Tree(Pid),
    /// Whoever has sockets that the filter admits.
    Sockets,
}

/// A socket, by its network namespace's place in the scout's list and its cookie.
pub(super) type Key = (usize, u64);

/// One of the subject's sockets.
#[derive(Debug)]
pub(super) struct Sighting {
    pub(super) key: Key,
    pub(super) socket: Glance,
    pub(super) owner: Option<Pid>,
    /// The other end, where it lives in the same network namespace.
    pub(super) mate: Option<SocketId>,
}

/// What a scan found, and what it cost of a processor.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) sightings: Vec<Sighting>,
    pub(super) cost: Duration,
}

/// Finds sockets and processes.
#[derive(Debug)]
pub struct Scout {
    subject: Subject,
    filter: Filter,
    nets: Vec<Net>,
    /// The subject's processes, as of the last scan.
    pub(super) pids: Vec<Pid>,
    /// Their descriptors, where they may be read.
    pub(super) descriptors: HashMap<Pid, Descriptors>,
    owners: HashMap<u32, Option<Pid>>,
    owners_read: Option<Instant>,
    /// What reading all descriptors cost of a processor, at most.
    owners_cost: Duration,
    /// Sockets once found to be the subject's: an orphan has no inode any more.
    mine: HashSet<Key>,
    peers: HashSet<SocketAddr>,
    listening: HashSet<u16>,
    /// Processes whose descriptors are hidden: all sockets of their owner are taken instead.
    hidden_owners: HashSet<u32>,
}

#[derive(Debug)]
struct Net {
    /// `net:[4026531840]`; empty for the caller's own.
    name: String,
    diag: SockDiag,
    destroyed: Option<Destroyed>,
}

/// Descriptors are read anew after this even if no unknown socket turned up: one may have been handed to a child.
const OWNERS_AGE: Duration = Duration::from_secs(1);

/// But not before a hundred times what that costs: of ten thousand descriptors, each a symbolic link to be followed, some
/// 40 ms.
const OWNERS_PART: u32 = 100;

/// Reading descriptors is dear from here on: some thousand of them.
const DEAR: Duration = Duration::from_millis(5);

impl Scout {
    /// Opens the sockets' diagnostics in the caller's network namespace.
    pub fn new(subject: Subject, filter: Filter, notes: &mut Notes) -> Result<Scout, Error> {
        let own =
            Net { name: own_network(), diag: SockDiag::open()?, destroyed: notes.or_note(Destroyed::open()) };
        Ok(Scout {
            subject,
            filter,
            nets: vec![own],
            pids: Vec::new(),
            descriptors: HashMap::new(),
            owners: HashMap::new(),
            owners_read: None,
            owners_cost: Duration::ZERO,
            mine: HashSet::new(),
            peers: HashSet::new(),
            listening: HashSet::new(),
            hidden_owners: HashSet::new(),
        })
    }

    /// The same for another subject, which lives in the same network namespace.
    pub fn of(self, subject: Subject) -> Scout {
        Scout { subject, ..self }
    }

    /// Finds the subject's processes and sockets as of now.
    pub(super) fn scan(&mut self, notes: &mut Notes) -> Scan {
        let start = thread_cpu_now();
        if let Subject::Tree(root) = self.subject {
            self.pids = process::tree(root);
            for pid in self.pids.clone() {
                self.visit_network(pid, notes);
            }
            // Before the dump too: a process may end between it and the next reading of descriptors.
            let unread =
                self.pids.iter().filter(|pid| !self.descriptors.contains_key(pid)).copied().collect();
            self.read_owners(unread, notes);
        }
        let mut sightings = Vec::new();
        for net in 0..self.nets.len() {
            match self.nets[net].diag.glance(&self.filter) {
                Ok(sockets) => sightings.extend(self.pick(net, sockets, notes)),
                Err(error) => notes.add(error.to_string()),
            }
        }
        Scan { sightings, cost: thread_cpu_now().saturating_sub(start) }
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
            // A question that cannot be asked is asked again at the next look; until then nothing is known to be gone.
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
            // One that never came to a connection has no peer's port any more (tcp_v4_connect, tcp_disconnect).
            ended.retain(|socket| socket.id.remote.port() != 0);
            all.extend(ended.into_iter().map(|socket| ((net, socket.id.cookie), socket)));
        }
        all
    }

    /// Whether a socket that was never seen alive is the subject's: it went to a peer, or to a port, of a known one. The
    /// notice of a socket's end says nothing of its process.
    pub(super) fn claims(&self, socket: &TcpSocket) -> bool {
        let known =
            self.peers.contains(&socket.id.remote) || self.listening.contains(&socket.id.local.port());
        self.filter.admits(&socket.id) && (self.subject == Subject::Sockets || known)
    }

    /// The server to which most of these ended connections went, and how many; from now on they are claimed. On this
    /// machine a server is who listens: the other end's address is a client's.
    pub(super) fn guess_peer(
        &mut self,
        ended: impl Iterator<Item = SocketId>,
    ) -> Option<(SocketAddr, usize)> {
        let listening = Filter { listening: true, ..Filter::default() };
        let sockets = self.nets.iter_mut().flat_map(|net| net.diag.glance(&listening).unwrap_or_default());
        let ports: HashSet<u16> = sockets.map(|socket| socket.id.local.port()).collect();
        let mut counts: HashMap<SocketAddr, usize> = HashMap::new();
        for id in ended.filter(|id| self.filter.admits(id) && !ports.contains(&id.local.port())) {
            let local = id.remote.ip().is_loopback() || id.remote.ip() == id.local.ip();
            if !local || ports.contains(&id.remote.port()) {
                *counts.entry(id.remote).or_default() += 1;
            }
        }
        let (peer, count) = counts.into_iter().max_by_key(|(peer, count)| (*count, *peer))?;
        self.peers.insert(peer);
        Some((peer, count))
    }

    fn pick(&mut self, net: usize, sockets: Vec<Glance>, notes: &mut Notes) -> Vec<Sighting> {
        self.learn_owners(&sockets, notes);
        let ends: HashMap<(SocketAddr, SocketAddr), SocketId> =
            sockets.iter().map(|socket| ((socket.id.local, socket.id.remote), socket.id)).collect();
        let mut found = Vec::new();
        for socket in sockets {
            let key = (net, socket.id.cookie);
            let owner = self.owners.get(&socket.inode).copied().flatten();
            let mine = self.subject == Subject::Sockets
                || owner.is_some()
                || self.mine.contains(&key)
                || self.hidden_owners.contains(&socket.uid);
            if mine {
                self.mine.insert(key);
                // Of a server the peers are clients, whose ports others use as well.
                if !self.listening.contains(&socket.id.local.port()) {
                    self.peers.insert(socket.id.remote);
                }
                let mate = ends.get(&(socket.id.remote, socket.id.local)).copied();
                found.push(Sighting { key, socket, owner, mate });
            }
        }
        found
    }

    /// Reads descriptors when a socket's owner is not known.
    fn learn_owners(&mut self, sockets: &[Glance], notes: &mut Notes) {
        let unknown =
            sockets.iter().any(|socket| socket.inode != 0 && !self.owners.contains_key(&socket.inode));
        let age = OWNERS_AGE.max(self.owners_cost * OWNERS_PART);
        let old = self.owners_read.is_none_or(|read| read.elapsed() >= age);
        if !unknown && !old {
            return;
        }
        if self.subject == Subject::Sockets {
            // Every process of the machine is asked, so only for sockets that are new.
            if !unknown {
                return;
            }
            self.pids = every_process();
        }
        // What took long just before the dump is not read once more: what is missing is found when it is old.
        if self.owners_cost < DEAR || self.owners_read.is_some() {
            self.descriptors.clear();
            // Those of processes that have ended meanwhile stay known; what was nobody's may have found its owner.
            self.owners.retain(|_, owner| owner.is_some());
            self.read_owners(self.pids.clone(), notes);
        }
        let first = self.owners_read.replace(Instant::now()).is_none();
        for socket in sockets {
            self.owners.entry(socket.inode).or_insert(None);
        }
        if self.subject == Subject::Sockets {
            self.pids = self.keep_owners_of(sockets, notes);
        } else if first {
            self.learn_ports();
        }
    }

    fn read_owners(&mut self, pids: Vec<Pid>, notes: &mut Notes) {
        let start = thread_cpu_now();
        for pid in pids {
            match process::descriptors(pid) {
                Ok(found) => {
                    self.owners.extend(found.sockets.values().map(|inode| (*inode, Some(pid))));
                    self.descriptors.insert(pid, found);
                }
                Err(error) if self.subject != Subject::Sockets && process::stat(pid).is_ok() => {
                    notes.add(format!("{error}; its user's sockets are judged instead of its own"));
                    self.hidden_owners.extend(process::owner(pid));
                }
                Err(_) => {}
            }
        }
        self.owners_cost = self.owners_cost.max(thread_cpu_now().saturating_sub(start));
    }

    /// Of all processes, those that hold one of these sockets.
    fn keep_owners_of(&mut self, sockets: &[Glance], notes: &mut Notes) -> Vec<Pid> {
        let owners = &self.owners;
        let owner = |socket: &Glance| owners.get(&socket.inode).copied().flatten();
        let held: HashSet<Pid> = sockets.iter().filter_map(owner).collect();
        self.descriptors.retain(|pid, _| held.contains(pid));
        if let Some(socket) = sockets.iter().find(|socket| socket.inode != 0 && owner(socket).is_none()) {
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

    /// The ports on which the subject waits for connections.
    fn learn_ports(&mut self) {
        let listening = Filter { listening: true, ..Filter::default() };
        for net in &mut self.nets {
            for socket in net.diag.glance(&listening).unwrap_or_default() {
                if self.owners.get(&socket.inode).is_some_and(Option::is_some) {
                    self.listening.insert(socket.id.local.port());
                }
            }
        }
    }

    /// Opens the diagnostics of a network namespace in which a process of the subject lives.
    fn visit_network(&mut self, pid: Pid, notes: &mut Notes) {
        let Ok(name) = std::fs::read_link(format!("/proc/{pid}/ns/net")) else { return };
        let name = name.to_string_lossy().into_owned();
        if self.nets.iter().any(|net| net.name == name) {
            return;
        }
        // A thread of its own, which may go there and never come back.
        let opened = std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                process::enter_network(pid)?;
                Ok::<_, crate::Error>((SockDiag::open()?, Destroyed::open().ok()))
            });
            there.join()
        });
        match opened {
            Ok(Ok((diag, destroyed))) => self.nets.push(Net { name, diag, destroyed }),
            Ok(Err(error)) => notes.add(error.to_string()),
            Err(_) => notes.add(format!("cannot look into the network namespace of process {pid}")),
        }
    }
}

fn own_network() -> String {
    std::fs::read_link("/proc/self/ns/net")
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn every_process() -> Vec<Pid> {
    let own = std::process::id();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid != own).map(Pid).collect()
}
