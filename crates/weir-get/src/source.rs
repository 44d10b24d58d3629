//! Where a run's jobs come from, and who hears of their ends.
//!
//! A run asks for jobs as its lanes come to need them and holds [`WINDOW`] of them at most, and it keeps no
//! report: so a list of ten million files, or a listing of as many keys, takes no more memory than one of ten
//! thousand.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;

use crate::error::GetError;
use crate::job::{FileReport, Job};

/// Jobs that a run holds at once, waiting ones included. A host that is silent must not hold up the others:
/// lanes find the work of another among so many. Each takes about 700 bytes, all of them 7 MB.
pub const WINDOW: usize = 10_000;

/// Where jobs come from.
///
/// Asked by one thread at a time, which holds no lock of the run: `next` may wait for a disk or a network.
/// No two jobs may have the same output and name: a run remembers the names of its first ten thousand files
/// exactly, and of the others only those that servers chose.
pub trait JobSource: Send {
    /// The next job. `over` is set when no more are needed: whoever waits must look at it and return within
    /// moments, with [`Next::NotYet`]. Not called again after [`Next::End`] or [`Next::Failed`].
    fn next(&mut self, over: &AtomicBool) -> Next;

    /// How many jobs there are in all, those that were given included; `None` while that is not known.
    fn count(&self) -> Option<usize>;

    /// `next` answers at once, from this machine: the first jobs are taken before a lane starts.
    fn is_at_hand(&self) -> bool {
        false
    }

    /// The folder that the files go to, where that is known before the first job is.
    fn folder(&self) -> Option<&Path> {
        None
    }

    /// A folder in which there was nothing when the source began: so nothing of an earlier run has to be
    /// looked for in it and below.
    fn new_folder(&self) -> Option<&Path> {
        None
    }
}

/// What a source has to give.
#[derive(Debug)]
pub enum Next {
    /// A job.
    Job(Box<Job>),
    /// A job that has ended already, with its report: its file is here, or it cannot be begun.
    Ended(Box<Job>, Box<FileReport>),
    /// An entry that names nothing to fetch. It costs that entry.
    Bad(Bad),
    /// Nothing for now: asked again after some milliseconds.
    NotYet,
    /// There are no more.
    End,
    /// The source broke; what was given so far is still fetched.
    Failed(GetError),
}

/// An entry that names nothing to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bad {
    /// `LIST, line 3`, or a key.
    pub place: String,
    /// What is wrong with it.
    pub error: String,
}

/// Hears of the jobs' ends. Called from the lanes, each job once, outside of all locks of the run; a lane
/// does nothing else meanwhile.
pub trait Results: Sync {
    /// Job `number` (from 0, in the order in which the source gave them) has ended.
    fn ended(&self, number: usize, job: &Job, report: FileReport);

    /// The source gave this job with the report of its end.
    fn ended_before(&self, number: usize, job: &Job, report: FileReport) {
        self.ended(number, job, report);
    }

    /// The source gave this.
    fn bad(&self, _bad: Bad) {}
}

/// Jobs that are known before the run.
#[derive(Debug)]
pub struct Given {
    jobs: VecDeque<Job>,
    count: usize,
}

impl Given {
    /// These jobs, in this order.
    pub fn new(jobs: Vec<Job>) -> Given {
        Given { count: jobs.len(), jobs: jobs.into() }
    }
}

impl JobSource for Given {
    fn next(&mut self, _: &AtomicBool) -> Next {
        self.jobs.pop_front().map_or(Next::End, |job| Next::Job(Box::new(job)))
    }

    fn count(&self) -> Option<usize> {
        Some(self.count)
    }

    fn is_at_hand(&self) -> bool {
        true
    }
}

/// Keeps all reports: for a few jobs.
#[derive(Debug, Default)]
pub struct Kept(Mutex<Vec<(usize, FileReport)>>);

impl Kept {
    /// The reports, in the order of the jobs.
    pub fn into_reports(self) -> Vec<FileReport> {
        let mut reports = self.0.into_inner();
        reports.sort_by_key(|(number, _)| *number);
        reports.into_iter().map(|(_, report)| report).collect()
    }
}

impl Results for Kept {
    fn ended(&self, number: usize, _: &Job, report: FileReport) {
        self.0.lock().push((number, report));
    }
}
