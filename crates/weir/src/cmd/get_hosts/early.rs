//! The chain that brings a file to all other hosts while one still fetches it. What it does not come to its
//! end with is done by the one that follows the fetch: it goes on with what hosts have.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_cp::chain::{self, ChainJob, ChainProgress, ChainReport, HostProgress};
use weir_cp::wire::message::Found;

use crate::cmd::cp_hosts;

/// Between two looks.
const TICK: Duration = Duration::from_millis(50);

/// How long hosts may take to drop what came of a file that could not be fetched.
const FAREWELL: Duration = Duration::from_secs(2);

/// With nothing new for so long once the file is complete, a chain from the complete file is quicker.
const STALL: Duration = Duration::from_secs(5);

/// One that runs.
pub(super) struct EarlyChain {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<EarlyProgress>>,
    running: JoinHandle<ChainReport>,
}

/// How far it is.
#[derive(Debug, Default)]
struct EarlyProgress {
    elapsed: Duration,
    hosts: Vec<HostProgress>,
    found: Found,
}

impl EarlyProgress {
    /// Bytes that are at each host.
    fn bytes(&self) -> Vec<u64> {
        self.hosts.iter().map(|host| host.totals.there()).collect()
    }

    /// Every host has all, and waits to hear that it is what was fetched.
    fn is_all_there(&self) -> bool {
        self.bytes().into_iter().all(|bytes| bytes >= self.found.bytes)
    }
}

impl EarlyChain {
    /// Begins it; without a thread for it, or another host, there is none.
    pub(super) fn begin(job: ChainJob) -> Option<EarlyChain> {
        if job.hosts.is_empty() {
            return None;
        }
        let (stop, seen): (Arc<AtomicBool>, Arc<Mutex<EarlyProgress>>) = Default::default();
        let (stops, sees) = (Arc::clone(&stop), Arc::clone(&seen));
        let run = move || {
            chain::run(&job, &stops, &mut |now| {
                *sees.lock() =
                    EarlyProgress { elapsed: now.elapsed, hosts: now.hosts.to_vec(), found: now.found };
            })
        };
        let running = std::thread::Builder::new().name("chain".to_owned()).spawn(run);
        Some(EarlyChain { stop, seen, running: running.ok()? })
    }

    /// Ends it. What came stays, for the next one.
    pub(super) fn stop(self) {
        self.end();
    }

    /// The file could not be fetched: hosts are told so, if there is still somebody who does.
    pub(super) fn give_up(self) {
        let start = Instant::now();
        while !self.running.is_finished() && start.elapsed() < FAREWELL {
            std::thread::sleep(TICK);
        }
        self.end();
    }

    /// The file is complete. The report, if all hosts have it.
    pub(super) fn finish(
        self,
        stop: &AtomicBool,
        draw: &mut dyn FnMut(&ChainProgress<'_>),
    ) -> Option<ChainReport> {
        let (mut moved, mut before) = (Instant::now(), Vec::new());
        while !self.running.is_finished() && !stop.load(Relaxed) && moved.elapsed() < STALL {
            let seen = self.seen.lock();
            if seen.found.files == 0 {
                // It has not begun: the file was there first.
                break;
            }
            if seen.is_all_there() || seen.bytes() != before {
                (moved, before) = (Instant::now(), seen.bytes());
            }
            draw(&ChainProgress { elapsed: seen.elapsed, hosts: &seen.hosts, found: seen.found });
            drop(seen);
            std::thread::sleep(TICK);
        }
        let report = self.end()?;
        (!report.hosts.is_empty() && cp_hosts::exit_code(&report) == 0).then_some(report)
    }

    /// Ends it, where it has not ended.
    fn end(self) -> Option<ChainReport> {
        self.stop.store(true, Relaxed);
        self.running.join().ok()
    }
}
