//! The judge of a fleet: what many hosts told of their time in, what holds all of them together out.
//!
//! A host knows what held it ([`crate::verdict`]) and nothing of the others. Three questions are asked:
//!
//! 1. [`peers`]: does a host differ from its peers, in its rate or in what holds it?
//! 2. [`trial`]: when hosts came or went, did the others' rates change? What more hosts only take from each
//!    other is something that all of them share; where nobody lost anything each is limited by itself.
//! 3. [`shared`]: of what they share, whose side do the hosts wait for: source, target, or the link?
//!
//! What a host did not tell counts for nothing: it is not ruled out and not convicted, and the verdict says
//! so in [`FleetVerdict::missing`].

mod advice;
mod peers;
mod shared;
mod shares;
#[cfg(test)]
mod tests;
mod timeline;
mod trial;
mod verdict;
mod words;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::advice::Advice;
use crate::limit::Limit;
use crate::verdict::MainLimit;

pub use verdict::explain;

/// What a worker without a batch is held by.
pub const NO_WORK: &str = "no-work";

/// What a worker is held by whose stages nobody watches.
pub const NOT_JUDGED: &str = "not-judged";

/// What held a worker for a time, as it said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HeldBy {
    /// A limit of its transfer.
    Limit(Limit),
    /// It had no batch.
    NoWork,
    /// It moved something, and did not say what held it, or a newer weir said it in a word that this one does
    /// not know.
    NotJudged,
}

impl HeldBy {
    /// What a worker means by `name`.
    pub fn parse(name: &str) -> HeldBy {
        match Limit::parse(name) {
            Some(limit) => HeldBy::Limit(limit),
            None if name == NO_WORK => HeldBy::NoWork,
            None => HeldBy::NotJudged,
        }
    }

    /// The limit's name, [`NO_WORK`] or [`NOT_JUDGED`].
    pub fn name(self) -> &'static str {
        match self {
            HeldBy::Limit(limit) => limit.name(),
            HeldBy::NoWork => NO_WORK,
            HeldBy::NotJudged => NOT_JUDGED,
        }
    }
}

impl fmt::Display for HeldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for HeldBy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for HeldBy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HeldBy, D::Error> {
        Ok(HeldBy::parse(&String::deserialize(deserializer)?))
    }
}

/// What a fleet told.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FleetEvidence {
    /// In any order. Several of one host are one host.
    pub workers: Vec<WorkerEvidence>,
    /// What stands at both ends.
    pub ends: FleetEnds,
    /// Seconds on the ledger's clock from which on shares, rates and peers are judged. What was told of the
    /// time before counts for the trial alone.
    pub since: f64,
    /// No batch is left: hosts that stopped last ran out of work.
    pub is_complete: bool,
    /// What the fleet was told to move at most on each host, bytes a second.
    pub rate_cap: Option<f64>,
}

/// A worker, and what it told.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WorkerEvidence {
    /// Its host's name.
    pub host: String,
    /// When it joined, seconds on the ledger's clock.
    pub joined: f64,
    /// When it left, or was heard of last by a fleet that waits for it no more; `None`: it is there.
    pub left: Option<f64>,
    /// In any order.
    pub spans: Vec<WorkerSpan>,
}

/// A time of a worker.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WorkerSpan {
    /// Seconds on the ledger's clock.
    pub from: f64,
    /// Seconds on the ledger's clock.
    pub to: f64,
    /// What held it and for which part of the time, from 0 to 1.
    pub held: Vec<(HeldBy, f64)>,
    /// Moved in this time.
    pub bytes: u64,
}

/// What stands at one end of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FleetEnd {
    /// Files that each host reaches by itself: a disk of its own, or a folder that all of them mount.
    #[default]
    Folder,
    /// A server or a store.
    Far,
}

/// Both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FleetEnds {
    /// Where objects come from.
    pub source: FleetEnd,
    /// Where they go.
    pub target: FleetEnd,
}

/// What holds a fleet, with what supports it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetVerdict {
    /// What held the hosts while they had work; `None`: it cannot be told, and `missing` says why.
    pub limit: Option<MainLimit>,
    /// 0 to 1: the share of such verdicts that is right.
    pub confidence: f64,
    /// Of the time of all hosts, the share that each held; adds up to 1, empty where nothing was told.
    pub shares: BTreeMap<HeldBy, f64>,
    /// Bytes a second of all hosts together, over the last time that all of them told of.
    pub rate: Option<f64>,
    /// In the order of their names.
    pub hosts: Vec<HostVerdict>,
    /// Hosts that differ from their peers, the slowest first.
    pub outliers: Vec<Outlier>,
    /// The last time that hosts came or went and enough was told before and after.
    pub trial: Option<FleetTrial>,
    /// Whether the hosts hold themselves, or something that they share holds all.
    pub hold: FleetHold,
    /// 0 to 1: the share of such words on what holds that is right; 0 where it is not known.
    pub hold_confidence: f64,
    /// What one more host would make of it.
    pub next: Option<FleetPrediction>,
    /// Numbers with units, most important first.
    pub evidence: Vec<String>,
    /// What could not be told, and why.
    pub missing: Vec<String>,
    /// What to change, most useful first.
    pub advice: Vec<Advice>,
}

/// What held one host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostVerdict {
    /// Its name.
    pub host: String,
    /// Workers of it.
    pub workers: u32,
    /// What held it while it had work; `None`: it cannot be told.
    pub limit: Option<MainLimit>,
    /// 0 to 1: the share of such verdicts that is right.
    pub confidence: f64,
    /// Of its time, the share that each held; adds up to 1, empty where it told nothing.
    pub shares: BTreeMap<HeldBy, f64>,
    /// Bytes a second while it had work.
    pub rate: Option<f64>,
    /// Spans that this rests on.
    pub intervals: u32,
    /// It is one of the fleet now.
    pub is_here: bool,
    /// Why there is no limit.
    pub missing: Option<String>,
}

/// A host that differs from its peers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outlier {
    /// Its name.
    pub host: String,
    /// Bytes a second, in the time that is compared.
    pub rate: f64,
    /// What its median peer moved in the same time.
    pub peers_rate: f64,
    /// Peers.
    pub peers: u32,
    /// Intervals in which both worked.
    pub intervals: u32,
    /// What holds it; `None`: it did not say.
    pub limit: Option<MainLimit>,
    /// What holds most of its peers, where one limit does.
    pub peers_limit: Option<Limit>,
    /// 0 to 1: the share of such verdicts that is right.
    pub confidence: f64,
}

impl Outlier {
    /// It moves less than its peers.
    pub fn is_slow(&self) -> bool {
        self.rate < self.peers_rate
    }
}

/// Hosts came or went while others worked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetTrial {
    /// Seconds on the ledger's clock.
    pub at: f64,
    /// What they did.
    pub change: TrialChange,
    /// Who came or went, in the order of their names.
    pub hosts: Vec<String>,
    /// How many worked before and after.
    pub others: u32,
    /// Bytes a second of all that worked before.
    pub before: f64,
    /// Of all that worked after.
    pub after: f64,
    /// Bytes a second of the others before.
    pub others_before: f64,
    /// And after.
    pub others_after: f64,
    /// Intervals before and after.
    pub intervals: (u32, u32),
    /// What that says.
    pub outcome: TrialOutcome,
}

/// What changed in a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialChange {
    /// Hosts came, or got work.
    Joined,
    /// Hosts left, or had work no more.
    Left,
}

/// What a trial says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialOutcome {
    /// Nobody lost anything to the others: each is limited by itself.
    Added,
    /// They added bytes, and took others from who was there: what they share has become full.
    InPart,
    /// What they moved was lost to the others: something that they share was full before.
    Nothing,
    /// The rates changed by something else, or are too unsteady.
    Unclear,
}

/// Whether hosts hold themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FleetHold {
    /// Each is limited by itself.
    Own,
    /// By this, which all of them share.
    Shared(SharedEnd),
    /// Not known: `missing` says why.
    Unknown,
}

/// What hosts share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SharedEnd {
    /// What they read from.
    Source,
    /// What they write to.
    Target,
    /// The path between them and the far end.
    Link,
    /// The source or the path to it, which look the same from here.
    SourceOrLink,
    /// The target or the path to it.
    TargetOrLink,
    /// The machine that the hosts run on, or something that their own limits do not show.
    Machine,
    /// The hosts did not say what they wait for.
    Unnamed,
}

/// What so many hosts would move.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FleetPrediction {
    /// Hosts.
    pub hosts: u32,
    /// Bytes a second of all.
    pub rate: f64,
}
