//! What the subject's threads were found doing, and which of them serves a connection.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use weir_model::evidence::{Found, LaneInterval, Program, Reading, ThreadInterval};
use weir_model::limit::Limit;

use super::discovery::Discovery;
use super::lanes::Lane;
use super::tables::Tables;
use crate::process::{self, Pid};
use crate::program;
use crate::thread_probe::{ThreadLook, ThreadProbe};
use crate::waiting::Doing;

/// A look costs two reads of `/proc` a thread; of more threads than these, others are looked at each time.
const AT_ONCE: usize = 32;

/// Threads watched at all.
const MOST: usize = 512;

/// Threads whose totals are kept for the report, some 200 bytes each: a service that begins a process for
/// each request has no end of them.
const MOST_TOTALS: usize = 1024;

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
    at_socket: HashMap<u32, AtSocket>,
    /// What the last look found.
    last: Option<ThreadLook>,
    interval: Reading<ThreadInterval>,
    /// As [`ThreadProbe::take_hidden`] says of that interval.
    hidden: u32,
}

/// Looks that found a thread asleep in a call on one socket.
#[derive(Debug, Clone, Copy, Default)]
struct AtSocket {
    calls: u32,
    /// Of these, in a read.
    reads: u32,
}

/// A connection, as far as it tells which thread serves it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServedSocket {
    pub(super) inode: u32,
    /// This end receives the data.
    pub(super) receives: bool,
    /// Nothing lay unread in most looks: whoever reads it keeps up with what comes.
    pub(super) dry: bool,
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
                    self.watched.insert((pid, tid), Watched::new(probe, stage));
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
                let at = watched.at_socket.entry(*inode).or_default();
                at.calls += 1;
                at.reads += u32::from(look.doing == Doing::Receiving);
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
    /// held them back, in this interval of `span`.
    pub(super) fn close(&mut self, throttled: &HashMap<Pid, Duration>, span: Duration) -> Duration {
        let mut cpu = Duration::ZERO;
        // The quota's time belongs to whoever used most of it.
        let mut busiest: HashMap<Pid, (u32, Duration)> = HashMap::new();
        for (&(pid, tid), watched) in &mut self.watched {
            watched.interval = watched.probe.interval(Duration::ZERO);
            watched.hidden = watched.probe.take_hidden();
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
                interval.throttled = held_back(interval, time, span);
            }
        }
        for (key, watched) in &self.watched {
            if let Reading::Value(interval) = &watched.interval {
                self.totals.entry(*key).or_default().add(interval);
            }
        }
        if self.totals.len() > 2 * MOST_TOTALS {
            self.drop_totals();
        }
        cpu
    }

    /// The report names those that used most.
    fn drop_totals(&mut self) {
        let mut used: Vec<Duration> = self.totals.values().map(|total| total.cpu).collect();
        used.sort_unstable_by(|a, b| b.cmp(a));
        let least = used.get(MOST_TOTALS).copied().unwrap_or_default();
        let watched = &self.watched;
        self.totals.retain(|key, total| total.cpu > least || watched.contains_key(key));
    }

    /// The thread that serves a connection, of all threads of the processes that hold its socket; and its
    /// process, where it was found in a call on that very socket.
    ///
    /// Where this end receives, a thread that was found reading the socket, or mostly held by its own disk or
    /// pipe, comes before all others; then, where nothing lay unread, one that waits for any of its
    /// descriptors, since whoever reads the socket must have waited. Else it is the one that was most often
    /// found at work, held so, or in a call on that socket.
    pub(super) fn serving(
        &self,
        holders: &[Pid],
        served: ServedSocket,
    ) -> (Option<Pid>, Reading<ThreadInterval>) {
        let Some(first) = holders.first() else {
            return (None, Reading::Missing("the socket's process is not known".to_owned()));
        };
        let threads = holders.iter().flat_map(|pid| self.watched.range((*pid, 0)..=(*pid, u32::MAX)));
        let best = threads.max_by_key(|(_, watched)| watched.weight(served));
        match best {
            Some(((pid, _), watched)) => {
                let at_it = watched.at_socket.contains_key(&served.inode);
                (at_it.then_some(*pid), watched.interval.clone())
            }
            None => (None, Reading::Missing(format!("the threads of process {first} were not seen"))),
        }
    }

    /// The thread that was found most often in writes to files, of those that serve none of these lanes.
    /// Where each is looked at every few samples only, a look at it stands for these, three at most: of a
    /// hundred threads one is always found at something, and that alone must not be most of an interval.
    pub(super) fn writer(&self, lanes: &[LaneInterval]) -> Option<ThreadInterval> {
        let serves = |thread: &ThreadInterval| {
            lanes.iter().filter_map(|lane| lane.thread.value()).any(|own| own.name == thread.name)
        };
        let threads = self.watched.values().filter_map(|watched| watched.interval.value());
        let others = threads.filter(|thread| thread.in_writes() > 0 && !serves(thread));
        let mut writer = others.max_by_key(|thread| thread.in_writes()).cloned()?;
        let every = self.every().min(3);
        for looks in [&mut writer.looks, &mut writer.in_dirty_throttle, &mut writer.found.writing_disk] {
            *looks = looks.saturating_mul(every);
        }
        Some(writer)
    }

    /// Samples at which a process that has none of these connections waited for a disk where this user may
    /// not see in which call.
    pub(super) fn hidden_writes(&self, lanes: &[Lane]) -> u32 {
        let has_one = |pid: Pid| lanes.iter().any(|lane| lane.owner == Some(pid));
        let waited = self.watched.iter().filter(|(_, watched)| watched.hidden > 0);
        let others = waited.filter(|((pid, _), _)| !has_one(*pid)).map(|(_, watched)| watched.hidden);
        others.max().unwrap_or(0).saturating_mul(self.every())
    }

    /// How many samples a look at one thread stands for.
    fn every(&self) -> u32 {
        u32::try_from(self.watched.len().div_ceil(AT_ONCE)).unwrap_or(u32::MAX).max(1)
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
    fn new(probe: ThreadProbe, stage: Option<Limit>) -> Watched {
        let (at_socket, interval) = (HashMap::new(), Reading::default());
        Watched { probe, stage, at_socket, last: None, interval, hidden: 0 }
    }

    fn weight(&self, served: ServedSocket) -> (u8, u32, Duration) {
        let Reading::Value(interval) = &self.interval else { return (0, 0, Duration::ZERO) };
        let found = &interval.found;
        let held = interval.in_writes() + found.reading_disk + found.pipe_full;
        let is_held = interval.looks > 0 && 2 * held >= interval.looks;
        let at = self.at_socket.get(&served.inode).copied().unwrap_or_default();
        let reads = match served {
            ServedSocket { receives: true, .. } if at.reads > 0 || is_held => 2,
            ServedSocket { receives: true, dry: true, .. } if found.polling > 0 => 1,
            _ => 0,
        };
        (reads, found.running + held + at.calls, interval.cpu)
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
            (&mut sum.paging_in, next.paging_in),
            (&mut sum.awaiting_kernel, next.awaiting_kernel),
        ] {
            *sum = sum.saturating_add(next);
        }
    }
}

/// How much of the time that its group was held back was this thread's: a thread under quota stays ready in
/// its state, so no more than it was found so without running. The rest held back others of the group.
fn held_back(interval: &ThreadInterval, group: Duration, span: Duration) -> Duration {
    let ready = match interval.looks {
        0 => span,
        looks => span.mul_f64(f64::from(interval.found.running.min(looks)) / f64::from(looks)),
    };
    group.min(ready.saturating_sub(interval.cpu))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// So many threads, each looked at once and found in a write then.
    fn writing(count: u32) -> Threads {
        let own = std::process::id();
        let mut threads = Threads::default();
        for tid in 0..count {
            let mut watched = Watched::new(ThreadProbe::open(Pid(own), own, "it").unwrap(), None);
            let found = Found { writing_disk: 1, ..Found::default() };
            watched.interval = Reading::Value(ThreadInterval { looks: 1, found, ..Default::default() });
            threads.watched.insert((Pid(own), tid), watched);
        }
        threads
    }

    #[test]
    fn a_look_stands_for_the_samples_that_were_of_other_threads() {
        for (count, expected) in [(1, 1), (32, 1), (33, 2), (70, 3), (130, 3)] {
            let writer = writing(count).writer(&[]).unwrap();
            assert_eq!((writer.looks, writer.found.writing_disk), (expected, expected), "{count} threads");
        }
    }

    #[test]
    fn a_disk_wait_that_may_not_be_read_is_told() {
        for (count, expected) in [(2, 1), (33, 2)] {
            let mut threads = writing(count);
            assert_eq!(threads.hidden_writes(&[]), 0);
            threads.watched.values_mut().for_each(|watched| watched.hidden = 1);
            assert_eq!(threads.hidden_writes(&[]), expected, "{count} threads");
        }
    }

    #[test]
    fn a_quota_that_holds_back_others_of_the_group_is_not_the_threads() {
        let ms = Duration::from_millis;
        let held = |running, cpu, group| {
            let found = Found { running, receiving: 5 - running, ..Found::default() };
            let thread = ThreadInterval { cpu: ms(cpu), looks: 5, found, ..ThreadInterval::default() };
            held_back(&thread, ms(group), ms(100))
        };
        assert_eq!(held(0, 0, 80), ms(0), "it waited for data");
        assert_eq!(held(5, 20, 80), ms(80), "ready all the time");
        assert_eq!(held(5, 20, 300), ms(80), "a group's time counts every processor");
        assert_eq!(held(2, 10, 80), ms(30));
        let unseen = ThreadInterval { cpu: ms(20), ..ThreadInterval::default() };
        assert_eq!(held_back(&unseen, ms(300), ms(100)), ms(80), "nobody looked");
    }
}
