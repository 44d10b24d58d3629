//! A slow processor core for one child process: a quota of processor time, or a busy neighbour on the same
//! core.
//!
//! They are told apart by what a victim can see of itself: under a quota its run-queue wait stays small and
//! its group's `cpu.stat` counts throttled periods; beside a neighbour it waits in the run queue for every
//! second slice.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::cgroup::{Cgroup, Version, tree};
use crate::folder::Folder;
use crate::slow_error::SlowError;

/// The quota's period: the shortest that the kernel takes is 1 ms and it accounts in slices of 5 ms, so 20 ms
/// keeps the pauses below an interval of evidence without losing much to the slices.
const PERIOD_US: u32 = 20_000;

/// The least that a quota can be (kernel/sched/core.c, min_cfs_quota_period).
const LEAST_QUOTA_US: u32 = 1_000;

/// How slow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SlowCoreConfig {
    /// At most this share of one core, 0 to 1.
    Quota(f64),
    /// Pinned to one core, which a busy thread shares.
    Neighbour,
}

/// Slow while it lives.
#[derive(Debug)]
pub enum SlowCore {
    /// A group with a quota.
    Quota(CpuQuota),
    /// A busy thread.
    Neighbour(Neighbour),
}

impl SlowCore {
    /// Makes it.
    ///
    /// # Errors
    /// A refusal says what this machine does not allow.
    pub fn make(folder: &Folder, config: SlowCoreConfig) -> Result<SlowCore, SlowError> {
        match config {
            SlowCoreConfig::Quota(share) => CpuQuota::make(folder, share).map(SlowCore::Quota),
            SlowCoreConfig::Neighbour => Neighbour::start().map(SlowCore::Neighbour),
        }
    }

    /// For how long a quota has been used up so far: the periods in which it ran out. `None` for a neighbour.
    pub fn used_up(&self) -> Option<Duration> {
        let SlowCore::Quota(quota) = self else { return None };
        let seen = weir_observe::cgroup::parse(&quota.0.read("cpu.stat").ok()?).ok()?;
        Some(Duration::from_micros(seen.periods.saturating_mul(u64::from(PERIOD_US))))
    }

    /// Lets `command` run on it.
    pub fn join(&self, command: &mut Command) -> Result<(), SlowError> {
        match self {
            SlowCore::Quota(quota) => quota.0.join(command),
            SlowCore::Neighbour(neighbour) => {
                neighbour.beside(command);
                Ok(())
            }
        }
    }
}

/// A group whose processes share a part of one core.
#[derive(Debug)]
pub struct CpuQuota(Cgroup);

impl CpuQuota {
    fn make(folder: &Folder, share: f64) -> Result<CpuQuota, SlowError> {
        if !rustix::process::geteuid().is_root() {
            return Err(SlowError::refused("a quota of processor time can only be set by root"));
        }
        let quota = ((f64::from(PERIOD_US) * share) as u32).max(LEAST_QUOTA_US);
        let (tree, version) = tree("cpu");
        let group = match version {
            Version::V1 => {
                let group = Cgroup::make(&tree, folder.name(), &[])?;
                group.set("cpu.cfs_period_us", &PERIOD_US.to_string())?;
                group.set("cpu.cfs_quota_us", &quota.to_string())?;
                group
            }
            Version::V2 => {
                let group = Cgroup::make(&tree, &group_name(folder.name()), &["cpu"])?;
                group.set("cpu.max", &format!("{quota} {PERIOD_US}"))?;
                group
            }
        };
        Ok(CpuQuota(group))
    }
}

/// Apart from the slow disk's group in version 2's only tree.
fn group_name(folder: &str) -> String {
    format!("{folder}-core")
}

/// A thread that uses all of one core, until it is dropped.
#[derive(Debug)]
pub struct Neighbour {
    core: usize,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Neighbour {
    fn start() -> Result<Neighbour, SlowError> {
        let allowed = sched_getaffinity(None)
            .map_err(|cause| SlowError::caused("cannot ask for the processors allowed", cause))?;
        // The last one: interrupts mostly go to the first.
        let core = (0..CpuSet::MAX_CPU)
            .rev()
            .find(|core| allowed.is_set(*core))
            .ok_or_else(|| SlowError::refused("no processor is allowed"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            if let Err(error) = sched_setaffinity(None, &only(core)) {
                tracing::warn!("cannot pin the busy neighbour to processor {core}: {error}");
            }
            while !stopped.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
        Ok(Neighbour { core, stop, thread: Some(thread) })
    }

    fn beside(&self, command: &mut Command) {
        let core = self.core;
        // SAFETY: the closure makes one system call, sched_setaffinity, which is allowed between fork and
        // exec.
        unsafe {
            command.pre_exec(move || sched_setaffinity(None, &only(core)).map_err(io::Error::from));
        }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // It cannot panic.
            let _ = thread.join();
        }
    }
}

fn only(core: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(core);
    set
}

/// Removes the groups of a killed run. Returns whether nothing is left; a neighbour ends with its process.
pub(crate) fn undo_leftovers(name: &str) -> bool {
    let (tree, version) = tree("cpu");
    match version {
        Version::V1 => Cgroup::remove_leftover(&tree, name),
        Version::V2 => Cgroup::remove_leftover(&tree, &group_name(name)),
    }
}
