//! How the threads of one end of a copy spent an interval: the stages of the pipeline by their own clocks.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::reading::seconds;

/// One end's threads together: times add up to threads times the interval's span.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stages {
    /// Threads that work on records.
    pub threads: u32,
    /// Nothing to do.
    #[serde(with = "seconds")]
    pub idle: Duration,
    /// Reading the source.
    #[serde(with = "seconds")]
    pub read: Duration,
    /// Waiting for the program that writes the source, where that is a pipe.
    #[serde(with = "seconds", skip_serializing_if = "Duration::is_zero")]
    pub input: Duration,
    /// Digests.
    #[serde(with = "seconds")]
    pub verify: Duration,
    /// Compressing.
    #[serde(with = "seconds")]
    pub compress: Duration,
    /// Encrypting or decrypting.
    #[serde(with = "seconds")]
    pub encrypt: Duration,
    /// With a record ready, waiting for a lane.
    #[serde(with = "seconds")]
    pub turn: Duration,
    /// In send.
    #[serde(with = "seconds")]
    pub send: Duration,
    /// Waiting for a record, or taking it in.
    #[serde(with = "seconds")]
    pub receive: Duration,
    /// Decompressing.
    #[serde(with = "seconds")]
    pub decompress: Duration,
    /// Writing.
    #[serde(with = "seconds")]
    pub write: Duration,
    /// Asleep for a limit that the user set.
    #[serde(with = "seconds")]
    pub limited: Duration,
    /// The CPU quota of its control group held this end back, as long as it would one thread.
    #[serde(with = "seconds", skip_serializing_if = "Duration::is_zero")]
    pub throttled: Duration,
    /// Processors of this machine that were busy on average, by whatever program; `None` where that was not
    /// read.
    pub busy: Option<f64>,
    /// Of these, what this end's own process used; `None` where that was not read.
    pub own: Option<f64>,
    /// Processors that this end may use.
    pub cpus: u32,
    /// Of an end that sends: what went through each codec, by name and level (`zstd:3`).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub codecs: BTreeMap<String, Shrunk>,
}

/// What went through a codec.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shrunk {
    /// Bytes before.
    pub raw: u64,
    /// Bytes after.
    pub packed: u64,
}

impl Stages {
    /// Seconds in which the threads had something to do.
    pub fn working(&self, span: Duration) -> f64 {
        (span.as_secs_f64() * f64::from(self.threads) - self.idle.as_secs_f64()).max(0.0)
    }

    /// A stage's share of the working time, 0 to 1.
    pub fn share(&self, stage: Duration, span: Duration) -> f64 {
        let working = self.working(span);
        if working > 0.0 { (stage.as_secs_f64() / working).min(1.0) } else { 0.0 }
    }

    /// Takes in the interval that follows.
    pub fn join(&mut self, next: &Stages, before: Duration, after: Duration) {
        for (sum, next) in [
            (&mut self.idle, next.idle),
            (&mut self.read, next.read),
            (&mut self.input, next.input),
            (&mut self.verify, next.verify),
            (&mut self.compress, next.compress),
            (&mut self.encrypt, next.encrypt),
            (&mut self.turn, next.turn),
            (&mut self.send, next.send),
            (&mut self.receive, next.receive),
            (&mut self.decompress, next.decompress),
            (&mut self.write, next.write),
            (&mut self.limited, next.limited),
            (&mut self.throttled, next.throttled),
        ] {
            *sum = sum.saturating_add(next);
        }
        // Threads that were there for a part only were idle for the rest.
        let (few, span) = if self.threads < next.threads {
            (next.threads - self.threads, before)
        } else {
            (self.threads - next.threads, after)
        };
        self.idle = self.idle.saturating_add(span.saturating_mul(few));
        self.threads = self.threads.max(next.threads);
        let weights = (before.as_secs_f64(), after.as_secs_f64());
        let mean = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) if weights.0 + weights.1 > 0.0 => {
                Some((a * weights.0 + b * weights.1) / (weights.0 + weights.1))
            }
            (a, b) => a.or(b),
        };
        self.busy = mean(self.busy, next.busy);
        self.own = mean(self.own, next.own);
        self.cpus = self.cpus.max(next.cpus);
        for (codec, shrunk) in &next.codecs {
            let sum = self.codecs.entry(codec.clone()).or_default();
            sum.raw = sum.raw.saturating_add(shrunk.raw);
            sum.packed = sum.packed.saturating_add(shrunk.packed);
        }
    }
}
