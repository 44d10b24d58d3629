//! What holds a fleet, by what its ledger was told. The judge is [`weir_model::fleet`].

use weir_model::fleet::{FleetVerdict, explain};

use crate::error::FleetError;
use crate::ledger::SqlLedger;

/// What holds the fleet of this ledger now, or held it in its last minutes.
///
/// # Errors
/// What the ledger says.
pub fn of_ledger(ledger: &mut SqlLedger) -> Result<FleetVerdict, FleetError> {
    Ok(explain(&ledger.evidence()?))
}
