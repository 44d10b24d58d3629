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

/// A neighbour may come later than the pipe: it is looked for so often, a second apart.
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
    inside: bool,
    probes: Vec<ThreadProbe>,
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
            if pipe.found.is_none() && pipe.tried < TRIES && due {
                (pipe.tried, pipe.last) = (pipe.tried + 1, Some(now));
                pipe.found = find(end, pids, survey);
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

    /// What they did since the last call: of each its busiest thread. One that hardly ran is told of only
    /// where the subject was found waiting at a pipe, which `waited` says.
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
            if let Some(thread) = busiest.filter(|thread| waited || thread.cpu >= span / 5) {
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
    (!probes.is_empty()).then_some(Found { inside: inside.is_some(), probes })
}

#[cfg(test)]
mod tests {
    use super::*;

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
