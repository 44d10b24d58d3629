//! Doing the work of a scenario over a bed: which program, with which arguments, in which namespace.

mod copy;
mod download;
mod iperf3;
mod socket;
mod weak_server;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use weir_model::evidence::Evidence;

use crate::bed::Bed;
use crate::scenario::{Scenario, Workload};
use crate::slow_core::SlowCore;
use crate::slow_disk::SlowDisk;
use crate::{LabError, SlowError};

/// The port that serves, so that watchers know it beforehand. Its namespace is the lab's own, so it is free.
pub(crate) const PORT: u16 = 8000;

/// Why the work could not be done.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The bed.
    #[error(transparent)]
    Bed(#[from] LabError),
    /// A slow host.
    #[error(transparent)]
    Slow(#[from] SlowError),
    /// The far end's server.
    #[error("the remote end cannot serve")]
    Serve(#[from] weir_serve::ServeError),
    /// A program that does not start.
    #[error("cannot run {program}")]
    Start {
        /// Its name.
        program: String,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// A program that is not waited for, or a system call of the lab's own programs that fails.
    #[error("{attempt}")]
    Program {
        /// What was attempted.
        attempt: String,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// A program that said no.
    #[error("{0}")]
    Failed(String),
    /// The user wants it to end.
    #[error("interrupted")]
    Interrupted,
}

impl WorkError {
    /// For `map_err`: what was attempted.
    fn program(attempt: impl Into<String>) -> impl FnOnce(io::Error) -> WorkError {
        let attempt = attempt.into();
        |cause| match cause.kind() {
            io::ErrorKind::Interrupted => WorkError::Interrupted,
            _ => WorkError::Program { attempt, cause },
        }
    }

    /// The same for the start of `program`.
    fn start(program: impl Into<String>) -> impl FnOnce(io::Error) -> WorkError {
        let program = program.into();
        |cause| WorkError::Start { program, cause }
    }

    /// Whether this machine, its user or its programs do not allow it, rather than something having gone
    /// wrong.
    pub fn is_refusal(&self) -> bool {
        match self {
            WorkError::Bed(error) => error.is_refusal(),
            WorkError::Slow(error) => error.is_refusal(),
            // It is not installed.
            WorkError::Start { cause, .. } => cause.kind() == io::ErrorKind::NotFound,
            WorkError::Serve(_)
            | WorkError::Program { .. }
            | WorkError::Failed(_)
            | WorkError::Interrupted => false,
        }
    }
}

/// Where the work is done and by what.
pub(crate) struct Stage<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) bed: &'a Bed,
    /// Where files are written: the slow disk, or the lab's own folder.
    pub(crate) output: PathBuf,
    /// For what is not part of the work.
    pub(crate) notes: PathBuf,
    pub(crate) disk: Option<&'a SlowDisk>,
    pub(crate) core: Option<&'a SlowCore>,
    /// The `weir` binary.
    pub(crate) weir: &'a Path,
    pub(crate) stop: &'a Arc<AtomicBool>,
    /// The near end's program once it runs, for its watcher.
    pub(crate) reader: &'a Subject,
    /// The far end's.
    pub(crate) sender: &'a Arc<Subject>,
}

/// A program at work, told to its watcher: a process, or one thread of this one.
#[derive(Debug, Default)]
pub(crate) struct Subject {
    process: AtomicU32,
    thread: AtomicU32,
}

/// What a [`Subject`] is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watched {
    pub(crate) process: u32,
    /// `None` for all of the process's.
    pub(crate) thread: Option<u32>,
}

impl Subject {
    /// It is this process.
    fn is_process(&self, pid: u32) {
        self.process.store(pid, SeqCst);
    }

    /// It is the calling thread.
    fn is_this_thread(&self) {
        self.thread.store(weir_observe::thread::current_tid().0, SeqCst);
        self.process.store(std::process::id(), SeqCst);
    }

    /// What to watch; `None` while nothing runs.
    pub(crate) fn now(&self) -> Option<Watched> {
        let process = Some(self.process.load(SeqCst)).filter(|process| *process > 0)?;
        let thread = Some(self.thread.load(SeqCst)).filter(|thread| *thread > 0);
        Some(Watched { process, thread })
    }
}

/// The work, done.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Payload that arrived.
    pub(crate) bytes: u64,
    /// From the first act to the last byte.
    pub(crate) wall: Duration,
    pub(crate) exit_code: Option<i32>,
    /// Files that hold the server's error page.
    pub(crate) error_pages: u64,
    /// That of `weir get`, `weir cp`, or the `weir why` that watched.
    pub(crate) evidence: Option<Evidence>,
}

impl Stage<'_> {
    /// Does it.
    pub(crate) fn play(&self) -> Result<Done, WorkError> {
        match &self.scenario.workload {
            Workload::Get(work) | Workload::Curl(work) | Workload::Wget(work) => download::play(self, work),
            Workload::Socket(work) => socket::play(self, work),
            Workload::Iperf3(work) => iperf3::play(self, work),
            Workload::Cp(work) | Workload::Scp(work) | Workload::Gzip(work) => copy::play(self, work),
        }
    }

    /// Puts a client's command where the scenario wants it: namespace, slow disk, slow core.
    fn at_near(&self, command: &mut Command) -> Result<(), WorkError> {
        self.bed.near().enter(command)?;
        if let Some(disk) = self.disk {
            disk.join(command)?;
        }
        if let Some(core) = self.core {
            core.join(command)?;
        }
        Ok(())
    }
}
