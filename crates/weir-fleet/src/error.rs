//! What went wrong with a ledger or a plan.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_units::human_duration;

use crate::shell;

/// Why something could not be done with the ledger. `place` is the ledger as a person names it, without its
/// password.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum FleetError {
    /// There is no ledger there yet.
    #[error("{place}: no ledger is there; make one with weir fleet plan SRC DST --ledger {}", shell::word(.place))]
    Absent {
        /// Which ledger.
        place: String,
    },
    /// It is something else, and was left as it is.
    #[error("{place} is {what}, not a ledger of weir, and was left as it is; name another place")]
    Foreign {
        /// Which ledger.
        place: String,
        /// What is there instead.
        what: String,
    },
    /// It was made by a later weir.
    #[error("the ledger {place} has version {found}, this weir knows up to {known}; use a newer weir")]
    Newer {
        /// Which ledger.
        place: String,
        /// Its version.
        found: i64,
        /// The newest that is known here.
        known: i64,
    },
    /// Its bytes make no sense.
    #[error("the ledger {place} is damaged: {what}; take it back from a copy, or plan into another one")]
    Damaged {
        /// Which ledger.
        place: String,
        /// What does not fit.
        what: String,
    },
    /// It answers, and refuses.
    #[error("the ledger {place} cannot be used: {why}")]
    Unusable {
        /// Which ledger.
        place: String,
        /// Its words, and the way out.
        why: String,
    },
    /// It did not answer within the time that was given to it.
    #[error("the ledger {place} did not answer for {}: {why}; try again when it is there", human_duration(*.waited))]
    Away {
        /// Which ledger.
        place: String,
        /// How long it was tried.
        waited: Duration,
        /// The last failure.
        why: String,
    },
    /// Whoever waited was told to end.
    #[error("interrupted while waiting for the ledger {place}")]
    Interrupted {
        /// Which ledger.
        place: String,
    },
    /// It holds a plan, or another one is being written.
    #[error("the ledger {place} {why}")]
    Taken {
        /// Which ledger.
        place: String,
        /// By what, and the way out.
        why: String,
    },
    /// A manifest that cannot be moved as it is.
    #[error("{0}")]
    Manifest(String),
    /// What was reported of a batch does not add up.
    #[error("the results of batch {batch} do not add up: {why}; please report this")]
    Results {
        /// Which batch.
        batch: i64,
        /// What does not.
        why: String,
    },
    /// There is no space for what was to be written.
    #[error(
        "cannot write to the ledger {place}: no space left on its device; free space there and run the same \
         command again"
    )]
    Full {
        /// Which ledger.
        place: String,
    },
    /// Whoever listed was told to end.
    #[error("interrupted")]
    Stopped,
}

impl FleetError {
    /// Whoever asked was told to end.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, FleetError::Interrupted { .. } | FleetError::Stopped)
    }

    /// The same may succeed later, without anybody's doing or when there is space again.
    pub fn is_passing(&self) -> bool {
        matches!(self, FleetError::Away { .. } | FleetError::Full { .. })
    }
}
