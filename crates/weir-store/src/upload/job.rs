//! What there is to send, how, and what became of it.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_codec::digest::Algorithm;
use weir_model::evidence::Evidence;
use weir_units::Rate;
use weir_units::limiter::Limiter;

use super::elsewhere::Elsewhere;
use super::finished::Finished;
use super::shared::SharedUpload;
use super::{Attributes, Part, Stored, Sum};
use crate::condition::Condition;
use crate::error::StoreError;

/// An object to be stored.
#[derive(Debug, Clone)]
pub struct Job {
    /// What it is made of.
    pub source: Source,
    /// Its key.
    pub key: String,
    /// Bytes, as far as that is known; what is found when it is opened counts.
    pub size: Option<u64>,
    /// What is kept with it.
    pub attributes: Attributes,
    /// A part of it alone, into an upload that others fill as well and somebody else ends.
    pub share: Option<JobShare>,
}

/// What of an object is sent, and into which upload.
#[derive(Debug, Clone)]
pub struct JobShare {
    /// Which was begun.
    pub upload: SharedUpload,
    /// Of the object; whole parts.
    pub bytes: Range<u64>,
}

/// What is sent.
#[derive(Debug, Clone)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// This process's standard input.
    Stdin,
    /// An object of another store.
    Elsewhere(Arc<Elsewhere>),
}

/// How a run goes.
#[derive(Debug, Clone)]
pub struct Options {
    /// Connections that send parts; `None`: as many as help.
    pub lanes: Option<u32>,
    /// Files sent at once; `None`: [`MAX_SMALL`].
    pub files_at_once: Option<u32>,
    /// `--limit-rate`.
    pub rate_cap: Option<Rate>,
    /// In its place, what keeps a rate that may change while the run goes on.
    pub limiter: Option<Arc<Limiter>>,
    /// For each stretch without a byte.
    pub timeout: Duration,
    /// For a name, its connect and the handshakes.
    pub connect_timeout: Duration,
    /// The longest wait that a server may ask for, all waits of one request together.
    pub max_wait: Duration,
    /// Attempts after the first.
    pub retries: u32,
    /// The size of parts, bytes; `None`: weir's choice.
    pub part_size: Option<u64>,
    /// What contents are checked by.
    pub check: Check,
    /// When objects may be stored.
    pub condition: Condition,
    /// Where journals lie; `None`: an upload that is interrupted begins again.
    pub journals: Option<PathBuf>,
    /// What is cut off stays at the store for the next run of the same command. False where that may be
    /// another host's, which knows nothing of it: it is taken away, and the journal finds only what a kill
    /// has left.
    pub keeps: bool,
    /// Begin again whatever an earlier run left.
    pub fresh: bool,
    /// Which files an earlier run has stored, and this one stores; `None`: nobody asks.
    pub finished: Option<Arc<Finished>>,
    /// What a user does to have an unfinished upload removed: [`CLEARS`], or a flag of the same command.
    pub clears: &'static str,
}

impl Options {
    /// What keeps the rate of a run, if anything does.
    pub(super) fn limiter(&self) -> Option<Arc<Limiter>> {
        let own = || self.rate_cap.map(|rate| Arc::new(Limiter::new(rate)));
        self.limiter.clone().or_else(own)
    }
}

/// By which command unfinished uploads of an object are removed.
pub const CLEARS: &str = "weir put --abort - TARGET";

/// What contents are checked by at the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// What the store prefers, and what it takes where it refuses that.
    Preferred,
    /// This, or nothing is sent.
    Only(Algorithm),
    /// Nothing.
    Nothing,
}

/// Small files at once: with a round trip of 30 ms they fill 500 requests a second, a seventh of what S3
/// takes below one prefix.
pub const MAX_SMALL: u32 = 16;

/// What became of a job.
#[derive(Debug)]
pub enum PutOutcome {
    /// It is stored.
    Stored(Stored),
    /// Of a share: these parts are at the store.
    Sent(Vec<Part>),
    /// Parts of it are at the store, and the same command resumes.
    Kept(StoreError),
    /// Nothing of it is kept.
    Failed(StoreError),
}

/// A job's end.
#[derive(Debug)]
pub struct JobReport {
    /// Bytes of it at the store.
    pub bytes: u64,
    /// Of these, what an earlier run had sent.
    pub resumed: u64,
    /// The most connections that sent parts of it at one time.
    pub connections: u32,
    /// The digest of all of it, where one was computed.
    pub sum: Option<Sum>,
    /// How it ended.
    pub outcome: PutOutcome,
    /// What else there is to say.
    pub notes: Vec<String>,
}

impl JobReport {
    /// Of a job that came to nothing.
    pub fn failed(error: StoreError) -> JobReport {
        let outcome = PutOutcome::Failed(error);
        JobReport { bytes: 0, resumed: 0, connections: 0, sum: None, outcome, notes: Vec::new() }
    }
}

/// A run's end.
#[derive(Debug)]
pub struct RunReport {
    /// One for each job, in their order.
    pub jobs: Vec<JobReport>,
    /// Payload bytes sent in this run, those that had to be sent again once.
    pub sent: u64,
    /// From the first connect to the last answer.
    pub elapsed: Duration,
    /// What was seen, for the judge.
    pub evidence: Evidence,
    /// It was stopped from outside.
    pub interrupted: bool,
}
