//! The server's processor time, where its processes run on this machine and may be looked at.
//!
//! The server is whoever holds the other ends of this run's connections. Who listens need not be it: a
//! manager of services, a process that only forks others, one that has the same port on another address.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use weir_model::evidence::Reading;
use weir_model::load::{ServerUse, Use};
use weir_observe::ObserveError;
use weir_observe::process::{self, Pid};
use weir_observe::sock_diag::{Filter, SockDiag, SocketId};
use weir_observe::thread::{self, ThreadTimes};

use crate::clock::Clock;
use crate::target::Address;

/// Finds the processes at the other ends, and what they use.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    /// Every process that there was at the begin: what any other has used it used since then.
    there: HashSet<Pid>,
    /// Who listens where the connections go: most often the server.
    listening: Vec<Pid>,
    /// Who was seen at the other ends.
    serving: Vec<Pid>,
    /// What each of them had used at the begin, or when it was first seen.
    before: ServerTimes,
    next_look: Instant,
    pause: Duration,
}

/// How often is looked whether the server's processes run at all: as often as a loop looks whether anything
/// comes. The other ends are looked for as often until there are some, then at twice the time from one look
/// to the next: of ten thousand connections a look takes a twentieth of a second.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// What a process's times are counted in: USER_HZ, 100 on every common machine.
const TICK: Duration = Duration::from_millis(10);

/// The least processor time that an answer costs whoever gives it, seconds: some hundred instructions, since
/// in a pipeline or over HTTP/2 many answers share a read and a write of the socket.
const LEAST: f64 = 1e-7;

/// So many times what a look at the other ends took passes before the next one: they are no load beside the
/// load.
const REST: u32 = 20;

/// Watches whether the server's processes are stopped, or gone, and whether this one is.
#[derive(Debug)]
pub(crate) struct Halts<'a> {
    clock: &'a Clock,
    /// How long this process had stood still before.
    before: Duration,
    looked: u64,
    halted: Duration,
}

impl<'a> Halts<'a> {
    pub(crate) fn new(clock: &'a Clock) -> Halts<'a> {
        Halts { clock, before: clock.away(), looked: clock.now(), halted: Duration::ZERO }
    }

    /// Looks, if it is time: each process that is stopped holds what it was asked, and all that are gone do.
    pub(crate) fn look(&mut self, server: &Reading<Server>) {
        let now = self.clock.now();
        let elapsed = Duration::from_nanos(now.saturating_sub(self.looked));
        let Some(server) = server.value().filter(|_| elapsed >= POLL_INTERVAL) else { return };
        self.looked = now;
        if server.serving.is_empty() {
            return;
        }
        let state = |pid: &Pid| process::stat(*pid).ok().map(|stat| stat.state);
        let stopped = server.serving.iter().any(|pid| matches!(state(pid), Some('T' | 't')));
        // Of a server that forks for each connection those that answered end, and it is there all the same.
        let gone = server.known().iter().all(|pid| matches!(state(pid), None | Some('Z' | 'X')));
        if stopped || gone {
            self.halted += elapsed;
        }
    }

    /// For how long they were.
    pub(crate) fn time(&self) -> Duration {
        self.halted
    }

    /// For how long this process was, which is no part of the measured time.
    pub(crate) fn own(&self) -> Duration {
        self.clock.away().saturating_sub(self.before)
    }
}

/// All threads of some processes at one moment.
#[derive(Debug)]
pub(crate) struct ServerTimes {
    at: Instant,
    threads: HashMap<(Pid, u32), ThreadTimes>,
    /// Of whole processes, threads that have ended included, in steps of a clock tick.
    processes: HashMap<Pid, Duration>,
}

impl ServerTimes {
    /// Every thread's times now.
    fn read(pids: &[Pid]) -> ServerTimes {
        let mut times =
            ServerTimes { at: Instant::now(), threads: HashMap::new(), processes: HashMap::new() };
        times.add(pids);
        times
    }

    /// The same of further processes.
    fn add(&mut self, pids: &[Pid]) {
        for pid in pids {
            for tid in process::threads(*pid).unwrap_or_default() {
                let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat"));
                if let Some(times) = text.ok().and_then(|text| thread::parse(&text).ok()) {
                    self.threads.insert((*pid, tid), times);
                }
            }
            self.processes.extend(process::stat(*pid).ok().map(|stat| (*pid, stat.cpu)));
        }
    }

    /// Leaves only these processes.
    fn keep(&mut self, pids: &[Pid]) {
        self.threads.retain(|(pid, _), _| pids.contains(pid));
        self.processes.retain(|pid, _| pids.contains(pid));
    }
}

impl Server {
    /// Begins to look for it; the reason where that is in vain.
    pub(crate) fn find(address: &Address) -> Reading<Server> {
        let Address::Tcp(address) = address else {
            return Reading::Missing("who listens on a Unix socket is not looked for".to_owned());
        };
        if !is_own(address.ip()) {
            return Reading::Missing("it is not on this machine".to_owned());
        }
        let listening = match listeners(*address) {
            Ok(listening) => listening,
            Err(error) => return Reading::Missing(error.to_string()),
        };
        Reading::Value(Server {
            address: *address,
            there: HashSet::new(),
            listening,
            serving: Vec::new(),
            before: ServerTimes::read(&[]),
            next_look: Instant::now(),
            pause: POLL_INTERVAL,
        })
    }

    /// The measured time begins.
    pub(crate) fn begin(&mut self) {
        self.there = process::all().into_iter().collect();
        self.before = ServerTimes::read(&self.known());
    }

    /// Looks for the other ends, if it is time.
    pub(crate) fn look(&mut self) {
        let now = Instant::now();
        if now < self.next_look {
            return;
        }
        if self.meet() {
            self.pause *= 2;
        }
        // Where the other ends are on no socket of this namespace, every look is in vain.
        let took = now.elapsed();
        self.next_look = now + took + self.pause.max(took * REST);
    }

    /// What it used since the begin.
    pub(crate) fn used(&mut self, halts: &Halts<'_>) -> Reading<ServerUse> {
        let known = self.known();
        // Before the last look, which takes its time.
        let mut after = ServerTimes::read(&known);
        self.meet();
        if self.serving.is_empty() {
            return Reading::Missing(
                "who answers there cannot be seen: another user's process, or one in a container, or its \
                 connections ended too soon"
                    .to_owned(),
            );
        }
        // Of one that was there and is seen only now it is not known what it used.
        let is_new = |pid: &&Pid| !known.contains(pid) && !self.there.contains(*pid);
        let new: Vec<Pid> = self.serving.iter().filter(is_new).copied().collect();
        after.add(&new);
        after.keep(&self.serving);
        // Nothing was asked of it while this process stood still.
        after.at = after.at.checked_sub(halts.own()).unwrap_or(after.at);
        between(&self.before, &after, halts.time())
    }

    /// Processes whose times at the begin are known, or that began since.
    fn known(&self) -> Vec<Pid> {
        let more = self.listening.iter().filter(|pid| !self.serving.contains(pid));
        self.serving.iter().chain(more).copied().collect()
    }

    /// Finds who holds the other ends now. False where there are none.
    fn meet(&mut self) -> bool {
        let ends = other_ends(self.address.port());
        if ends.is_empty() {
            return false;
        }
        let known = self.known();
        let mut found = holders(&ends);
        found.retain(|pid| !self.serving.contains(pid));
        let unread: Vec<Pid> =
            found.iter().filter(|pid| self.there.contains(*pid) && !known.contains(pid)).copied().collect();
        self.before.add(&unread);
        self.serving.extend(found);
        true
    }
}

/// Who listens at this address, or at its port on all of them.
fn listeners(address: SocketAddr) -> Result<Vec<Pid>, ObserveError> {
    let filter = Filter { port: Some(address.port()), listening: true, ..Filter::default() };
    let ip = address.ip().to_canonical();
    let takes = |id: &SocketId| {
        id.local.port() == address.port() && (id.local.ip() == ip || id.local.ip().is_unspecified())
    };
    let found = SockDiag::open()?.tcp(&filter)?;
    Ok(holders(&found.iter().filter(|socket| takes(&socket.id)).map(|socket| socket.inode).collect()))
}

/// The sockets at the other ends of this process's connections to `port`, by inode: those whose addresses are
/// a connection's the other way round.
fn other_ends(port: u16) -> HashSet<u32> {
    let filter = Filter { port: Some(port), ..Filter::default() };
    let sockets = SockDiag::open().and_then(|mut diag| diag.quick(&filter)).unwrap_or_default();
    let own: HashSet<u32> =
        process::sockets(Pid(std::process::id())).unwrap_or_default().into_iter().collect();
    let bare = |address: SocketAddr| (address.ip(), address.port());
    let ours: HashSet<_> = sockets
        .iter()
        .filter(|socket| socket.id.remote.port() == port && own.contains(&socket.inode))
        .map(|socket| (bare(socket.id.remote), bare(socket.id.local)))
        .collect();
    let is_other = |id: &SocketId| ours.contains(&(bare(id.local), bare(id.remote)));
    // One that no process has taken from the listener's queue yet has no inode.
    let others = sockets.iter().filter(|socket| socket.inode != 0 && is_other(&socket.id));
    others.map(|socket| socket.inode).collect()
}

/// The processes, this one apart, that have one of these sockets, as far as they may be looked at.
fn holders(inodes: &HashSet<u32>) -> Vec<Pid> {
    let own = Pid(std::process::id());
    let holds = |pid: &Pid| {
        process::sockets(*pid).is_ok_and(|sockets| sockets.iter().any(|inode| inodes.contains(inode)))
    };
    process::all().into_iter().filter(|pid| *pid != own && holds(pid)).collect()
}

/// What the server used between two moments, for so much of which it was halted. What was not there before
/// counts from its beginning.
fn between(before: &ServerTimes, after: &ServerTimes, halted: Duration) -> Reading<ServerUse> {
    let over = after.at.saturating_duration_since(before.at);
    let mut busiest: Option<(Pid, Use)> = None;
    let (mut total, mut waited, mut threads) = (Duration::ZERO, Duration::ZERO, 0);
    for (id, now) in &after.threads {
        let then = before.threads.get(id).copied().unwrap_or_default();
        let cpu = now.run.saturating_sub(then.run);
        let used = Use { cpu, waited: now.wait.saturating_sub(then.wait), over };
        total += cpu;
        waited += used.waited;
        threads += u32::from(!cpu.is_zero());
        if busiest.as_ref().is_none_or(|(_, most)| used.busy() > most.busy()) {
            busiest = Some((id.0, used));
        }
    }
    let since = |(pid, now): (&Pid, &Duration)| {
        now.saturating_sub(before.processes.get(pid).copied().unwrap_or_default())
    };
    // Threads that ended meanwhile, as those of a server that has one for each connection, are only in their
    // process's sum.
    let alive = total;
    let all: Duration = after.processes.iter().map(since).sum();
    total = total.max(all);
    // What those waited is in no file: as much for what they ran as the others. That sum counts in ticks, of
    // which a process may have one too many at either end.
    let grain = 2 * TICK * u32::try_from(after.processes.len()).unwrap_or(u32::MAX);
    if all > alive + grain && !alive.is_zero() {
        waited = waited.mul_f64(all.as_secs_f64() / alive.as_secs_f64());
    }
    match busiest {
        Some((pid, busiest)) => {
            let name = process::described(pid);
            Reading::Value(ServerUse { name, busiest, total, waited, threads, halted })
        }
        None => Reading::Missing("the server's threads cannot be read".to_owned()),
    }
}

/// What was used for so many answers, unless it is too little to have given them: then others did.
pub(crate) fn believed(used: Reading<ServerUse>, answers: u64) -> Reading<ServerUse> {
    match used {
        Reading::Value(used) if used.total.as_secs_f64() < LEAST * answers as f64 => {
            let name = used.name;
            Reading::Missing(format!("{name} ran too little to have answered: another process did"))
        }
        used => used,
    }
}

/// Whether an address is one of this machine's: only those can be bound.
fn is_own(ip: IpAddr) -> bool {
    ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_thread_is_found() {
        let start = Instant::now();
        let times = |run: u64| ThreadTimes { run: Duration::from_millis(run), wait: Duration::ZERO };
        let own = Pid(std::process::id());
        let before = ServerTimes {
            at: start,
            threads: HashMap::from([((own, 1), times(100)), ((own, 2), times(5))]),
            processes: HashMap::new(),
        };
        let after = ServerTimes {
            at: start + Duration::from_secs(1),
            threads: HashMap::from([((own, 1), times(300)), ((own, 2), times(905)), ((own, 3), times(0))]),
            processes: HashMap::new(),
        };
        let Reading::Value(used) = between(&before, &after, Duration::ZERO) else {
            panic!("threads were there")
        };
        assert_eq!((used.total, used.threads), (Duration::from_millis(1100), 2));
        assert!((used.busiest.busy() - 0.9).abs() < 1e-9);
        // A process that began meanwhile counts from its start, with the threads that it had.
        let (forked, span) = (Pid(1), Duration::from_millis(1500));
        let after = ServerTimes {
            threads: HashMap::from([((forked, 1), times(700))]),
            processes: HashMap::from([(forked, span)]),
            ..after
        };
        let Reading::Value(used) = between(&before, &after, Duration::ZERO) else { panic!("it is there") };
        assert_eq!((used.total, used.busiest.cpu), (span, Duration::from_millis(700)));
    }

    #[test]
    fn who_ran_too_little_has_not_answered() {
        let used = |total| ServerUse { total, name: "init (pid 1)".to_owned(), ..ServerUse::default() };
        let of = |micros, answers| believed(Reading::Value(used(Duration::from_micros(micros))), answers);
        assert!(of(5_000, 1000).value().is_some());
        assert!(of(90, 1000).missing().is_some_and(|why| why.starts_with("init (pid 1) ran too little")));
        assert!(of(0, 1000).value().is_none());
    }

    #[test]
    fn loopback_is_here_and_documentation_is_elsewhere() {
        assert!(is_own([127, 0, 0, 9].into()));
        assert!(!is_own([192, 0, 2, 1].into()));
    }
}
