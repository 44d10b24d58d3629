//! The ledger of a fleet: what a worker asks of it, and what it answers.
//!
//! [`FleetLedger`] is all that a worker needs, so that it may as well be spoken over a connection. It is
//! implemented once, by [`SqlLedger`], whose statements both databases understand; what differs between them
//! is in [`sqlite`] and [`postgres`] and is their way to a transaction. Every operation is one transaction,
//! and every one may be repeated: after a broken connection nobody knows whether it was done.
//!
//! Times are the database's: no clock of a worker decides about a lease.

pub mod database;
pub mod open;
pub mod postgres;
pub mod schema;
mod sql;
pub mod sqlite;
pub mod window;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::class::FailureClass;
use crate::error::FleetError;
use crate::object::{FleetObject, ObjectRange};

pub(crate) use open::is_to_end;
pub use open::{LedgerPlace, Patience};
pub use sql::{
    FailureRow, FleetStatus, GONE, ObjectRow, OfLate, PlanLease, PlanStep, PlannedBatch, PlannedLarge,
    SqlLedger, WorkerRow,
};

/// What is moved to where, as `weir fleet plan` was told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanEnds {
    /// The root of all sources.
    pub source: String,
    /// The root of all targets.
    pub target: String,
}

impl PlanEnds {
    /// The target that keeps nothing: objects are fetched and counted alone.
    pub const NOWHERE: &str = "/dev/null";

    /// Nothing is kept.
    pub fn keeps_nothing(&self) -> bool {
        self.target == PlanEnds::NOWHERE
    }
}

/// Who works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerIdentity {
    /// Its host, as the host calls itself.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// Of weir.
    pub version: String,
}

/// A worker that has joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WorkerId(pub i64);

/// The right to a batch: who holds it and has an older fence than the ledger changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BatchLease {
    /// Which batch.
    pub batch: i64,
    /// How often it has been given out.
    pub fence: i64,
}

/// What may be changed while a fleet works; handed out with every lease.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetSettings {
    /// No batch is given out.
    pub paused: bool,
    /// No batch is given out, and who has none leaves.
    pub draining: bool,
    /// So many workers at most have batches; `None`: all.
    pub workers: Option<u32>,
    /// Bytes a second of each host; `None`: as it comes. A worker is told its part: its host's workers share
    /// it.
    pub rate: Option<u64>,
    /// Batches are given out within these hours alone, as `HH:MM-HH:MM` in UTC.
    pub window: Option<String>,
}

/// What a batch is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BatchWork {
    /// These, in this order.
    Objects(Vec<FleetObject>),
    /// Bytes of a large one, which others move at the same time. They go into its part, not its final name.
    Range(FleetObject, ObjectRange),
    /// All ranges of a large one are there: it is verified and gets its name. What was noted of each range
    /// ([`BatchResults::note`]), in the order of the bytes.
    Join(FleetObject, ObjectRange, Vec<String>),
    /// A large object was given up, and this is what its workers had in common (an upload): it is taken away.
    Abort(FleetObject, String),
}

/// A batch that was given out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchClaim {
    /// The right to it.
    pub lease: BatchLease,
    /// What is to be done.
    pub work: BatchWork,
    /// How often it has been given out before: then a target may be there already, whole or as a part.
    pub given_before: u64,
    /// No attempt comes after this one: what fails of it now is given up.
    pub is_final: bool,
    /// It is final, and not the first attempt: then all that fails is told, whatever is to blame.
    pub is_last: bool,
    /// How long the lease is, from the moment on that it was asked for.
    pub length: Duration,
    /// As they are now.
    pub settings: FleetSettings,
}

/// An idle worker's question.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Helper {
    /// Bytes a second that it moved of late; `None`: it has moved too little to tell, as one that came when
    /// all was given out.
    pub pace: Option<u64>,
    /// The ledger's last answer, if the worker has been idle since.
    pub watched: Vec<WatchedBatch>,
}

/// How far a batch of another worker was, when somebody with nothing to do began to watch it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedBatch {
    /// Which, in whose hands.
    pub lease: BatchLease,
    /// By the ledger's clock, in milliseconds since 1970.
    pub since: i64,
    /// Bytes that had moved.
    pub bytes: u64,
}

/// The answer to an idle worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Helped {
    /// This.
    Batch(Box<BatchClaim>),
    /// Nothing for now: the others need no help, or are watched first.
    Watch(Vec<WatchedBatch>),
}

/// Why there is nothing to do for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitReason {
    /// [`FleetSettings::paused`].
    Paused,
    /// [`FleetSettings::window`].
    Window,
    /// [`FleetSettings::workers`].
    Workers,
    /// Others hold all that is left, or it waits for another attempt: see [`FleetLedger::help`].
    Held,
    /// The plan is not written to its end.
    Planning,
    /// The plan is incomplete, and nothing is heard from whoever was writing it.
    Abandoned,
}

/// What a worker gets that asks for work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Claimed {
    /// This.
    Batch(Box<BatchClaim>),
    /// Nothing now; to be asked again after so long.
    Wait(WaitReason, Duration),
    /// The fleet drains: the worker is to leave.
    Leave,
    /// All batches of a whole plan are done.
    Complete,
}

/// What a holder is told when it renews its lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Renewed {
    /// It holds it again for the length of the lease. `objects` belong to the batch now: others took the ones
    /// behind them.
    Held {
        /// So many, from the first.
        objects: u64,
        /// As they are now.
        settings: FleetSettings,
    },
    /// Somebody else has it. What is not at its final name must not get there.
    Lost,
}

/// Objects and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// How many.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// An object of a batch that was not moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectFailure {
    /// Its place in the batch, from 0.
    pub position: u64,
    /// Decides about another attempt.
    pub class: FailureClass,
    /// Object, cause, way out, without any secret.
    pub reason: String,
}

/// What became of a batch. Every object up to `covered` is in one of the three.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchResults {
    /// The objects that this is about, from the first.
    pub covered: u64,
    /// Brought to their targets.
    pub moved: Tally,
    /// Found there already.
    pub same: Tally,
    /// Neither.
    pub failures: Vec<ObjectFailure>,
    /// Of a range: what joining needs (an entity tag of a part).
    pub note: Option<String>,
}

/// What the ledger says to results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Finished {
    /// They are in the ledger.
    Done,
    /// Not one of them is: somebody else has the batch.
    Lost,
    /// Not one of them is: others took its last objects, and it has this many. To be asked again with results
    /// of those alone.
    Cut(u64),
}

/// A time of a worker in which one limit held it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerdictSpan {
    /// Since the worker joined, milliseconds.
    pub start: u64,
    /// How long, milliseconds.
    pub length: u64,
    /// The limit's name.
    pub limit: String,
    /// Of this time, from 0 to 1.
    pub share: f64,
    /// Moved in this time, by this worker.
    pub bytes: u64,
}

/// What a worker asks of a ledger. One worker, one of these: it may hold a connection.
///
/// # Errors
/// All operations fail with [`FleetError::Away`] where the ledger did not answer within the patience that it
/// was opened with, [`FleetError::Full`] where there is no space, [`FleetError::Interrupted`] where the asker
/// was told to end meanwhile, and [`FleetError::Damaged`] or [`FleetError::Unusable`] where it makes no sense
/// to go on.
pub trait FleetLedger: Send {
    /// What is moved to where.
    fn ends(&mut self) -> Result<PlanEnds, FleetError>;

    /// A worker comes.
    fn join(&mut self, who: &WorkerIdentity) -> Result<WorkerId, FleetError>;

    /// A worker goes; it holds no batch any more.
    fn leave(&mut self, worker: WorkerId) -> Result<(), FleetError>;

    /// Asks for a batch, for so long. The largest that waits is given out first; one whose lease has ended
    /// waits again.
    fn claim(&mut self, worker: WorkerId, length: Duration) -> Result<Claimed, FleetError>;

    /// Holds a batch for another `length`. `reached` objects have been begun, and `bytes` moved since it was
    /// claimed.
    fn renew(
        &mut self,
        lease: BatchLease,
        length: Duration,
        reached: u64,
        bytes: u64,
    ) -> Result<Renewed, FleetError>;

    /// The batch is done. What failed and is worth another attempt becomes a batch of its own, for later.
    fn finish(&mut self, lease: BatchLease, results: &BatchResults) -> Result<Finished, FleetError>;

    /// Gives a batch back, as it was. False: it was another's already, and nothing changes.
    fn release(&mut self, lease: BatchLease) -> Result<bool, FleetError>;

    /// Gives a batch back of which one object after another failed, by this host's fault or theirs: that was
    /// an attempt. It comes behind all others, and to another host first. False: as above.
    fn fail(&mut self, lease: BatchLease) -> Result<bool, FleetError>;

    /// For a worker that [`WaitReason::Held`] keeps waiting: it gets the last half of what the slowest holder
    /// has not begun, or all that such a holder has where the helper has watched it for a while and would be
    /// done with all of it in less than half the time.
    fn help(&mut self, worker: WorkerId, length: Duration, helper: &Helper) -> Result<Helped, FleetError>;

    /// What the workers on one large object have in common (a number of an upload): `token`, or what another
    /// said before. Empty: the object was given up, or is done.
    fn share_token(&mut self, large: i64, token: &str) -> Result<String, FleetError>;

    /// What held the worker. Told twice it counts once.
    fn tell(&mut self, worker: WorkerId, spans: &[VerdictSpan]) -> Result<(), FleetError>;
}
