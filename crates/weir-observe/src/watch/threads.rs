//! What the subject's threads were found doing, and which of them serves a connection.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use weir_model::evidence::{Found, Program, Reading, ThreadInterval};
use weir_model::limit::Limit;

use super::discovery::Discovery;
use super::tables::Tables;
use crate::process::{self, Pid};
use crate::program;
use crate::thread_probe::{ThreadLook, ThreadProbe};

/// A look costs two reads of `/proc` a thread; of more threads than these, others are looked at each time.
const AT_ONCE: usize = 32;

/// Threads watched at all.
const MOST: usize = 512;

/// The subject's threads.
#[derive(Debug, Default)]
pub struct Threads {
    watched: BTreeMap<(Pid, u32), Watched>,
    next: usize,
    totals: BTreeMap<(Pid, u32), ThreadTotal>,
}

#[derive(Debug)]
struct Watched {
    probe: ThreadProbe,
    /// What its program does all the time, where its name tells.
    stage: Option<Limit>,
    /// How often it was found asleep in a call on the socket with this inode, in this interval.
    at_socket: HashMap<u32, u32>,
    /// What the last look found.
    last: Option<ThreadLook>,
    interval: Reading<ThreadInterval>,
}

/// One thread over the whole run.
#[derive(Debug, Clone, Default)]
pub struct ThreadTotal {
    /// `wget (pid 4711)`.
    pub name: String,
    /// Time on a processor.
    pub cpu: Duration,
    /// Ready to run, but waiting for a processor.
    pub runqueue: Duration,
    /// Held back by a CPU quota.
    pub throttled: Duration,
    /// How often it was looked at.
    pub looks: u32,
    /// How often it was held by the page cache's throttle.
    pub in_dirty_throttle: u32,
    /// Where it was found.
    pub found: Found,
}

impl Threads {
    /// Takes in threads that came; `false` when there are more than are watched.
    pub(super) fn refresh(&mut self, discovery: &Discovery) -> bool {
        for &pid in &discovery.pids {
            let stage = stage(pid);
            for tid in discovery.threads(pid) {
                if self.watched.contains_key(&(pid, tid)) {
                    continue;
                }
                if self.watched.len() >= MOST {
                    return false;
                }
                if let Ok(probe) = ThreadProbe::open(pid, tid, name(pid, tid)) {
                    let interval = Reading::default();
                    let watched = Watched { probe, stage, at_socket: HashMap::new(), last: None, interval };
                    self.watched.insert((pid, tid), watched);
                }
            }
        }
        true
    }

    /// Sees what each of them does, or each of as many as fit one look.
    pub(super) fn look(&mut self, tables: &Tables) {
        let (count, first) = (self.watched.len(), self.next);
        self.next = if count > AT_ONCE { (first + AT_ONCE) % count } else { 0 };
        let mut gone = Vec::new();
        for (index, (&(pid, tid), watched)) in self.watched.iter_mut().enumerate() {
            if count > AT_ONCE && (index + count - first) % count >= AT_ONCE {
                continue;
            }
            let Some(look) = watched.probe.look() else {
                gone.push((pid, tid));
                continue;
            };
            watched.last = Some(look);
            let inode = look.descriptor.and_then(|fd| tables.get(pid)?.sockets.get(&fd));
            if let Some(inode) = inode {
                *watched.at_socket.entry(*inode).or_default() += 1;
            }
        }
        for key in gone {
            self.watched.remove(&key);
        }
    }

    /// What the last look at each thread found, with its process and its name.
    pub(super) fn looks(&self) -> impl Iterator<Item = (Pid, &str, ThreadLook)> {
        self.watched
            .iter()
            .filter_map(|((pid, _), watched)| Some((*pid, watched.probe.name(), watched.last?)))
    }

    /// Closes the interval of all; returns the CPU time that they used. `throttled`: how long their quota
    /// held them back.
    pub(super) fn close(&mut self, throttled: &HashMap<Pid, Duration>) -> Duration {
        let mut cpu = Duration::ZERO;
        // The quota's time belongs to whoever used most of it.
        let mut busiest: HashMap<Pid, (u32, Duration)> = HashMap::new();
        for (&(pid, tid), watched) in &mut self.watched {
            watched.interval = watched.probe.interval(Duration::ZERO);
            if let Reading::Value(interval) = &watched.interval {
                cpu += interval.cpu;
                let most = busiest.entry(pid).or_insert((tid, interval.cpu));
                if interval.cpu > most.1 {
                    *most = (tid, interval.cpu);
                }
            }
        }
        for (pid, (tid, _)) in busiest {
            let time = throttled.get(&pid).copied().unwrap_or_default();
            if let Some(Watched { interval: Reading::Value(interval), .. }) =
                self.watched.get_mut(&(pid, tid))
            {
                interval.throttled = time;
            }
        }
        for (key, watched) in &self.watched {
            if let Reading::Value(interval) = &watched.interval {
                self.totals.entry(*key).or_default().add(interval);
            }
        }
        cpu
    }

    /// The thread that serves a connection of `pid` whose socket has this inode: of the process's threads the
    /// one that was most often found at work, held by its own disk or pipe, or in a call on that socket.
    pub(super) fn serving(&self, pid: Option<Pid>, inode: u32) -> Reading<ThreadInterval> {
        let Some(pid) = pid else { return Reading::Missing("the socket's process is not known".to_owned()) };
        let of_process = self.watched.range((pid, 0)..=(pid, u32::MAX));
        let best = of_process.max_by_key(|(_, watched)| watched.weight(inode));
        match best {
            Some((_, watched)) => watched.interval.clone(),
            None => Reading::Missing(format!("the threads of process {pid} were not seen")),
        }
    }

    /// Of the threads whose program does one stage of a copy, the busiest for each stage.
    pub(super) fn programs(&self) -> Vec<Program> {
        let mut programs: Vec<Program> = Vec::new();
        for watched in self.watched.values() {
            let (Some(stage), Reading::Value(thread)) = (watched.stage, &watched.interval) else { continue };
            match programs.iter_mut().find(|program| program.stage == stage) {
                Some(program) if program.thread.cpu < thread.cpu => program.thread = thread.clone(),
                Some(_) => {}
                None => programs.push(Program { stage, thread: thread.clone() }),
            }
        }
        programs
    }

    /// Forgets which sockets were waited at: a new interval begins.
    pub(super) fn begin(&mut self) {
        self.watched.values_mut().for_each(|watched| watched.at_socket.clear());
    }

    /// All threads seen, those that used most CPU time first.
    pub fn totals(&self) -> Vec<ThreadTotal> {
        let mut totals: Vec<ThreadTotal> = self.totals.values().cloned().collect();
        totals.sort_by_key(|total| std::cmp::Reverse((total.cpu, total.looks)));
        totals
    }

    /// A process that became another program (exec) takes its name.
    pub(super) fn rename(&mut self) {
        for (&(pid, tid), watched) in
            self.watched.iter_mut().take(AT_ONCE).filter(|((pid, tid), _)| pid.0 == *tid)
        {
            let Ok(now) = process::stat(pid).map(|stat| described(pid, &stat.name)) else { continue };
            if watched.probe.name() != now {
                if let Some(total) = self.totals.get_mut(&(pid, tid)) {
                    total.name.clone_from(&now);
                }
                watched.probe.rename(now);
                watched.stage = stage(pid);
            }
        }
    }

    /// Whether more threads are there than one look takes in.
    pub(super) fn are_many(&self) -> bool {
        self.watched.len() > AT_ONCE
    }
}

impl Watched {
    fn weight(&self, inode: u32) -> (u32, Duration) {
        let Reading::Value(interval) = &self.interval else { return (0, Duration::ZERO) };
        let found = &interval.found;
        let held = interval.in_dirty_throttle + found.writing_disk + found.reading_disk + found.pipe_full;
        let at_socket = self.at_socket.get(&inode).copied().unwrap_or_default();
        (found.running + held + at_socket, interval.cpu)
    }
}

impl ThreadTotal {
    fn add(&mut self, interval: &ThreadInterval) {
        if self.name.is_empty() {
            self.name = interval.name.clone().unwrap_or_default();
        }
        self.cpu += interval.cpu;
        self.runqueue += interval.runqueue;
        self.throttled += interval.throttled;
        self.looks += interval.looks;
        self.in_dirty_throttle += interval.in_dirty_throttle;
        let (sum, next) = (&mut self.found, &interval.found);
        for (sum, next) in [
            (&mut sum.running, next.running),
            (&mut sum.receiving, next.receiving),
            (&mut sum.sending, next.sending),
            (&mut sum.polling, next.polling),
            (&mut sum.reading_disk, next.reading_disk),
            (&mut sum.writing_disk, next.writing_disk),
            (&mut sum.pipe_full, next.pipe_full),
            (&mut sum.pipe_empty, next.pipe_empty),
            (&mut sum.sleeping, next.sleeping),
            (&mut sum.waiting_for_thread, next.waiting_for_thread),
            (&mut sum.elsewhere, next.elsewhere),
        ] {
            *sum = sum.saturating_add(next);
        }
    }
}

fn stage(pid: Pid) -> Option<Limit> {
    process::stat(pid).ok().and_then(|stat| program::stage_of(pid, &stat.name))
}

fn described(pid: Pid, program: &str) -> String {
    format!("{program} (pid {pid})")
}

/// `wget (pid 4711)`, or `worker (pid 4711, thread 4713)`.
fn name(pid: Pid, tid: u32) -> String {
    if pid.0 == tid {
        return process::stat(pid).map_or_else(|_| format!("pid {pid}"), |stat| described(pid, &stat.name));
    }
    match std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")) {
        Ok(comm) => format!("{} (pid {pid}, thread {tid})", comm.trim()),
        Err(_) => format!("pid {pid}, thread {tid}"),
    }
}
