//! Who is at the other ends of the subject's pipes, and what does he do?

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use weir_model::around::Neighbour;
use weir_model::evidence::{Reading, ThreadInterval};

use crate::pipes::{PipeEnd, holders_of_other_end};
use crate::process::{self, Pid};
use crate::thread_probe::{ThreadLook, ThreadProbe};
use crate::waiting::Doing;
use crate::watch::threads::Threads;

use super::activity::Leads;
use super::survey::Survey;

/// Pipes whose neighbours are watched: a program has two, and a pipeline of four that is watched as a whole
/// has six ends inside. A daemon with more is no part of a pipeline; whoever is at the others is not seen.
const PIPES: usize = 8;

/// Threads of one neighbour that are watched.
const THREADS: usize = 8;

/// A neighbour may come later than the pipe, or than the wrapper that handed its end on to it: it is looked
/// for so often, a second apart.
const TRIES: u32 = 3;

/// Processes at the other ends of pipes.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    pipes: HashMap<PipeEnd, Pipe>,
    /// Samples that found the subject waiting at an end that is none of these: for its reader, for its
    /// writer.
    elsewhere: (u32, u32),
}

#[derive(Debug, Default)]
struct Pipe {
    found: Option<Found>,
    tried: u32,
    last: Option<Instant>,
    /// Samples of this interval that found the subject waiting at it.
    waited_at: u32,
}

#[derive(Debug)]
struct Found {
    pid: Pid,
    inside: bool,
    probes: Vec<ThreadProbe>,
}

impl Found {
    /// The last look found it at something. A wrapper only waits for its child.
    fn is_at_work(&self) -> bool {
        self.probes.iter().any(|probe| probe.doing() != Some(Doing::Elsewhere))
    }

    /// A process that became another program (exec) takes its name.
    fn rename(&mut self) {
        let name = process::described(self.pid);
        self.probes.iter_mut().for_each(|probe| probe.rename(name.clone()));
    }
}

impl Pipe {
    /// Looks for a neighbour, where none is known or the known one only waits.
    fn seek(&mut self, end: PipeEnd, pids: &[Pid], survey: &Survey) {
        if let Some(known) = &mut self.found {
            known.rename();
        }
        if self.tried >= TRIES || self.found.as_ref().is_some_and(Found::is_at_work) {
            return;
        }
        self.tried += 1;
        let found = find(end, pids, survey);
        let is_new = |found: &Found| self.found.as_ref().is_none_or(|known| known.pid != found.pid);
        if found.as_ref().is_some_and(is_new) {
            self.found = found;
        }
    }
}

impl Neighbours {
    /// Looks for new ones, and sees what those that are known do.
    pub(super) fn look(&mut self, pids: &[Pid], survey: &Survey, now: Instant) {
        let ends = survey.pipes();
        self.pipes.retain(|end, _| ends.contains(end));
        for end in ends.iter().copied().take(PIPES) {
            let pipe = self.pipes.entry(end).or_default();
            let due =
                pipe.last.is_none_or(|last| now.saturating_duration_since(last) >= Duration::from_secs(1));
            if due {
                pipe.last = Some(now);
                pipe.seek(end, pids, survey);
            }
            if let Some(found) = &mut pipe.found {
                found.probes.retain_mut(|probe| probe.look().is_some());
                if found.probes.is_empty() {
                    pipe.found = None;
                }
            }
        }
    }

    /// Counts at which ends the subject's threads wait now; each once, however many do.
    pub(super) fn count(&mut self, threads: &Threads, survey: &Survey) {
        let mut ends: HashSet<(bool, Option<PipeEnd>)> = HashSet::new();
        let polls = threads.looks().any(|(_, _, look)| look.doing == Doing::Polling);
        for (pid, _, look) in threads.looks() {
            let end = survey.end_at(pid, look);
            if is_at_end(look, end, survey.leads(pid, look.descriptor), polls) {
                ends.insert((look.doing == Doing::PipeFull, end));
            }
        }
        for (full, end) in ends {
            match end.and_then(|end| self.pipes.get_mut(&end)) {
                Some(pipe) => pipe.waited_at += 1,
                None if full => self.elsewhere.0 += 1,
                None => self.elsewhere.1 += 1,
            }
        }
    }

    /// What they did since the last call: of each its busiest thread. One that hardly ran, and waited for no
    /// disk either, is told of only where the subject was found waiting at a pipe, which `waited` says.
    pub(super) fn interval(&mut self, waited: bool, span: Duration) -> Vec<Neighbour> {
        let (full, empty) = std::mem::take(&mut self.elsewhere);
        let mut all: Vec<Neighbour> =
            [(true, full), (false, empty)].into_iter().filter_map(unknown).collect();
        for (end, pipe) in &mut self.pipes {
            let waited_at = std::mem::take(&mut pipe.waited_at);
            let Some(found) = &mut pipe.found else {
                all.extend(unknown((end.writes, waited_at)));
                continue;
            };
            let intervals = found.probes.iter_mut().map(|probe| probe.interval(Duration::ZERO));
            let threads = intervals.filter_map(|interval| match interval {
                Reading::Value(thread) => Some(thread),
                Reading::Missing(_) => None,
            });
            let busiest: Option<ThreadInterval> = threads.max_by_key(|thread| (thread.cpu, thread.looks));
            if let Some(thread) = busiest.filter(|thread| waited || is_at_work(thread, span)) {
                all.push(Neighbour {
                    reads: end.writes,
                    thread: Reading::Value(thread),
                    inside: found.inside,
                    waited_at: Some(waited_at),
                });
            }
        }
        // The order of a table of hashes is no order.
        all.sort_by_key(|neighbour| {
            (neighbour.reads, neighbour.thread.value().and_then(|it| it.name.clone()))
        });
        all
    }
}

/// It ran for a fifth of the time, or half of the looks found it in a read from a disk: the subject may wait
/// for that though it was not found at the pipe, as one that polls is not.
fn is_at_work(thread: &ThreadInterval, span: Duration) -> bool {
    let reads = thread.looks > 0 && thread.found.reading_disk >= thread.looks.div_ceil(2);
    reads || thread.cpu >= span / 5
}

/// Whether a thread that was found so waits for a neighbour. A local socket, or a pipe that only wakes
/// threads, is no source of data where another thread `polls`: that one does the program's work, and this one
/// idles. Where the call may not be read, it does not show at which end.
fn is_at_end(look: ThreadLook, end: Option<PipeEnd>, leads: Leads, polls: bool) -> bool {
    let idles = polls && end.is_none() && leads != Leads::Elsewhere;
    match look.doing {
        Doing::PipeFull => look.descriptor.is_some(),
        Doing::PipeEmpty => look.descriptor.is_some() && !idles,
        _ => false,
    }
}

/// Whoever reads from, or writes to, an end at which the subject was found waiting so often.
fn unknown((reads, waited_at): (bool, u32)) -> Option<Neighbour> {
    let thread =
        Reading::Missing("the other end was not found: a named pipe, a local socket, or not ours".to_owned());
    (waited_at > 0).then_some(Neighbour { reads, thread, inside: false, waited_at: Some(waited_at) })
}

fn find(end: PipeEnd, pids: &[Pid], survey: &Survey) -> Option<Found> {
    let opposite = PipeEnd { writes: !end.writes, ..end };
    let inside = survey.holder(opposite);
    let own = Pid(std::process::id());
    let these: Vec<Pid> = pids.iter().copied().chain([own]).collect();
    // Of several holders the youngest: the one before it, a shell, handed its end on.
    let pid = inside.or_else(|| holders_of_other_end(end, &these).into_iter().next())?;
    let name = process::described(pid);
    let threads = process::threads(pid).unwrap_or_default();
    let probes: Vec<ThreadProbe> = threads
        .into_iter()
        .take(THREADS)
        .filter_map(|tid| ThreadProbe::open(pid, tid, name.clone()).ok())
        .collect();
    (!probes.is_empty()).then_some(Found { pid, inside: inside.is_some(), probes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_that_reads_from_a_disk_is_at_work() {
        let of = |cpu, reading_disk| {
            let found = weir_model::evidence::Found { reading_disk, ..Default::default() };
            let cpu = Duration::from_millis(cpu);
            let thread = ThreadInterval { cpu, looks: 5, found, ..ThreadInterval::default() };
            is_at_work(&thread, Duration::from_millis(100))
        };
        assert!(of(2, 5) && of(20, 0));
        assert!(!of(2, 2) && !of(2, 0));
    }

    #[test]
    fn a_thread_that_idles_beside_one_that_polls_waits_for_no_neighbour() {
        let look = |doing| ThreadLook { doing, descriptor: Some(3), call: None };
        let data = Some(PipeEnd { inode: 7, writes: false });
        let empty = look(Doing::PipeEmpty);
        assert!(is_at_end(empty, data, Leads::Pipe, true));
        assert!(is_at_end(empty, None, Leads::Elsewhere, true), "a named pipe");
        assert!(!is_at_end(empty, None, Leads::Pipe, true), "a pipe that wakes it");
        assert!(!is_at_end(empty, None, Leads::Socket, true), "a local socket");
        assert!(is_at_end(empty, None, Leads::Socket, false), "nothing else is waited for");
        assert!(is_at_end(look(Doing::PipeFull), None, Leads::Socket, true), "its output is");
        assert!(!is_at_end(look(Doing::Polling), data, Leads::Pipe, true));
        assert!(!is_at_end(ThreadLook { descriptor: None, ..empty }, None, Leads::Elsewhere, false));
    }
}
