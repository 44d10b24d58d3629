//! What a fleet's ledger holds, as a record's member `fleet_history`: `weir report` draws a page of it.
//!
//! A page has as many hosts, spans and rows as a person can look at, whatever the ledger holds; what was left
//! out is counted.

use serde::{Deserialize, Serialize};

/// A fleet from its first worker on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetHistoryRecord {
    /// From where.
    pub source: String,
    /// To where.
    pub target: String,
    /// In words: `under way`.
    pub state: String,
    /// Objects of the plan.
    pub planned: u64,
    /// Bytes of the plan, as far as sizes are known.
    pub planned_bytes: u64,
    /// Objects brought to their targets.
    pub moved: u64,
    /// Objects found there.
    pub same: u64,
    /// Objects given up.
    pub failed: u64,
    /// Objects that are neither.
    pub left: u64,
    /// Batches of the plan.
    pub batches: u64,
    /// Leases that ended without a word.
    pub lost_leases: u64,
    /// When the first worker joined, milliseconds since 1970.
    pub begin: i64,
    /// From there to the last batch that was done, or until now, seconds.
    pub seconds: f64,
    /// What held the fleet over time, and its rate: all hosts together.
    pub spans: Vec<FleetSpan>,
    /// Hosts, those that differ first.
    pub hosts: Vec<FleetHostRecord>,
    /// Hosts that are not among them.
    pub hosts_left_out: u64,
    /// Objects done, as they rose.
    pub progress: Vec<FleetProgressStep>,
    /// By class.
    pub failures: Vec<FleetFailure>,
    /// Some of each class.
    pub failed_objects: Vec<FleetFailedObject>,
    /// The batches that took longest, the longest first.
    pub slowest: Vec<FleetSlowBatch>,
}

/// A time under one limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetSpan {
    /// Seconds since the beginning.
    pub from: f64,
    /// The same.
    pub to: f64,
    /// The limit that held most of it.
    pub limit: String,
    /// Of that time.
    pub share: f64,
    /// Bytes a second.
    pub rate: f64,
}

/// A host over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetHostRecord {
    /// Its name.
    pub host: String,
    /// Workers that it has had.
    pub workers: u64,
    /// Objects that they moved.
    pub objects: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Bytes a second while it had work.
    pub rate: f64,
    /// The limit that held it longest, and its share of the time that it had work.
    pub limit: String,
    /// See `limit`.
    pub share: f64,
    /// How it differs from the others.
    pub differs: Option<String>,
    /// What held it when.
    pub spans: Vec<FleetSpan>,
}

/// How far it was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetProgressStep {
    /// Seconds since the beginning.
    pub t: f64,
    /// Objects done so far.
    pub objects: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Objects given up so far.
    pub failed: u64,
}

/// What failed by one class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetFailure {
    /// The class.
    pub class: String,
    /// How many.
    pub objects: u64,
    /// One of the reasons.
    pub example: String,
}

/// An object that was given up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetFailedObject {
    /// Its name below the source.
    pub source: String,
    /// The class.
    pub class: String,
    /// Object, cause, way out.
    pub reason: String,
    /// How often it was tried.
    pub attempts: u64,
    /// Where it was tried last.
    pub host: String,
}

/// A batch that took long.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetSlowBatch {
    /// Its number.
    pub batch: i64,
    /// The name of its object, or of the first of them.
    pub name: String,
    /// Its objects.
    pub objects: u64,
    /// Their bytes by the plan, as far as sizes are known.
    pub bytes: u64,
    /// From its last lease to its end, or until now.
    pub seconds: f64,
    /// `done` or `leased`.
    pub state: String,
    /// Who has it, or had it last.
    pub host: String,
    /// How often it was given out.
    pub leases: u64,
}
