//! The server's processor time, where its processes run on this machine and may be looked at.

use std::collections::HashMap;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

use weir_model::evidence::Reading;
use weir_model::load::{ServerUse, Use};
use weir_observe::process::{self, Pid};
use weir_observe::sock_diag::{Filter, SockDiag};
use weir_observe::thread::{self, ThreadTimes};

use crate::target::Address;

/// The processes that listen where the connections go.
#[derive(Debug)]
pub(crate) struct Server {
    processes: Vec<Pid>,
}

/// How often is looked whether the server's processes run at all: as often as a loop looks whether anything
/// comes.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// What a process's times are counted in: USER_HZ, 100 on every common machine.
const TICK: Duration = Duration::from_millis(10);

/// Watches whether the server's processes are stopped, or gone.
#[derive(Debug)]
pub(crate) struct Halts {
    looked: Instant,
    halted: Duration,
}

impl Halts {
    pub(crate) fn new() -> Halts {
        Halts { looked: Instant::now(), halted: Duration::ZERO }
    }

    /// Looks, if it is time: each process that is stopped holds what it was asked, and all that are gone do.
    pub(crate) fn look(&mut self, server: &Reading<Server>) {
        let elapsed = self.looked.elapsed();
        let Some(server) = server.value().filter(|_| elapsed >= POLL_INTERVAL) else { return };
        self.looked = Instant::now();
        let states: Vec<Option<char>> =
            server.processes.iter().map(|pid| process::stat(*pid).ok().map(|stat| stat.state)).collect();
        let stopped = states.iter().any(|state| matches!(state, Some('T' | 't')));
        let gone = states.iter().all(|state| matches!(state, None | Some('Z' | 'X')));
        if stopped || gone {
            self.halted += elapsed;
        }
    }

    /// For how long they were.
    pub(crate) fn time(&self) -> Duration {
        self.halted
    }
}

/// All threads of a server at one moment.
#[derive(Debug)]
pub(crate) struct ServerTimes {
    at: Instant,
    threads: HashMap<(Pid, u32), ThreadTimes>,
    /// Of whole processes, threads that have ended included, in steps of a clock tick.
    processes: HashMap<Pid, Duration>,
}

impl Server {
    /// Looks for them; the reason where there are none to be seen.
    pub(crate) fn find(address: &Address) -> Reading<Server> {
        let Address::Tcp(address) = address else {
            return Reading::Missing("who listens on a Unix socket is not looked for".to_owned());
        };
        if !is_own(address.ip()) {
            return Reading::Missing("it is not on this machine".to_owned());
        }
        let filter = Filter { port: Some(address.port()), listening: true, ..Filter::default() };
        let listening = match SockDiag::open().and_then(|mut diag| diag.tcp(&filter)) {
            Ok(sockets) => sockets,
            Err(error) => return Reading::Missing(error.to_string()),
        };
        let inodes: Vec<u32> = listening
            .iter()
            .filter(|socket| socket.id.local.port() == address.port())
            .map(|socket| socket.inode)
            .collect();
        let holds = |pid: &Pid| {
            let found = process::descriptors(*pid).unwrap_or_default();
            found.sockets.values().any(|inode| inodes.contains(inode))
        };
        let own = Pid(std::process::id());
        let processes: Vec<Pid> = processes().into_iter().filter(|pid| *pid != own && holds(pid)).collect();
        if processes.is_empty() {
            return Reading::Missing(
                "who listens there cannot be seen: another user's process, or one in a container".to_owned(),
            );
        }
        Reading::Value(Server { processes })
    }

    /// Every thread's times now.
    pub(crate) fn times(&self) -> ServerTimes {
        let mut threads = HashMap::new();
        for pid in &self.processes {
            for tid in process::threads(*pid).unwrap_or_default() {
                let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat"));
                if let Some(times) = text.ok().and_then(|text| thread::parse(&text).ok()) {
                    threads.insert((*pid, tid), times);
                }
            }
        }
        let cpu = |pid: &Pid| Some((*pid, process::stat(*pid).ok()?.cpu));
        ServerTimes {
            at: Instant::now(),
            threads,
            processes: self.processes.iter().filter_map(cpu).collect(),
        }
    }
}

/// What the server used between two moments, for so much of which it was halted.
pub(crate) fn between(before: &ServerTimes, after: &ServerTimes, halted: Duration) -> Reading<ServerUse> {
    let over = after.at.saturating_duration_since(before.at);
    let mut busiest: Option<(Pid, Use)> = None;
    let (mut total, mut waited, mut threads) = (Duration::ZERO, Duration::ZERO, 0);
    for (id, now) in &after.threads {
        // A thread that came in between counts from its beginning.
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
    let since = |(pid, now): (&Pid, &Duration)| Some(now.saturating_sub(*before.processes.get(pid)?));
    // Threads that ended meanwhile, as those of a server that has one for each connection, are only in their
    // process's sum.
    let alive = total;
    let all: Duration = after.processes.iter().filter_map(since).sum();
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

/// Whether an address is one of this machine's: only those can be bound.
fn is_own(ip: IpAddr) -> bool {
    ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
}

fn processes() -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid)).collect()
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
    }

    #[test]
    fn loopback_is_here_and_documentation_is_elsewhere() {
        assert!(is_own([127, 0, 0, 9].into()));
        assert!(!is_own([192, 0, 2, 1].into()));
    }
}
