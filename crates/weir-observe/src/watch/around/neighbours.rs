//! Who is at the other ends of the subject's pipes, and what does he do?

use std::collections::HashMap;
use std::time::{Duration, Instant};

use weir_model::around::Neighbour;
use weir_model::evidence::{Reading, ThreadInterval};

use crate::pipes::{PipeEnd, holders_of_other_end};
use crate::process::{self, Pid};
use crate::thread_probe::ThreadProbe;

use super::survey::Survey;

/// Pipes whose neighbours are watched; a program has two, a daemon with more of them is no part of a
/// pipeline.
const PIPES: usize = 4;

/// Threads of one neighbour that are watched.
const THREADS: usize = 8;

/// A neighbour may come later than the pipe: it is looked for so often, a second apart.
const TRIES: u32 = 3;

/// Processes at the other ends of pipes.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    pipes: HashMap<PipeEnd, Pipe>,
}

#[derive(Debug, Default)]
struct Pipe {
    found: Option<Found>,
    tried: u32,
    last: Option<Instant>,
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

    /// What they did since the last call: of each its busiest thread. One that hardly ran is told of only
    /// where the subject was found waiting at a pipe, which `waited` says.
    pub(super) fn interval(&mut self, waited: bool, span: Duration) -> Vec<Neighbour> {
        let mut all: Vec<Neighbour> = Vec::new();
        for (end, pipe) in &mut self.pipes {
            let Some(found) = &mut pipe.found else { continue };
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
