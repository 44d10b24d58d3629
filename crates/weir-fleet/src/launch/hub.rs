//! The ledger of the one who started workers, as all of them ask it.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::far_ledger;
use super::wire::{self, Answer, Question};
use crate::error::FleetError;
use crate::ledger::{SqlLedger, WorkerId};

/// While a database is away each question waits for it, and the others behind that: so long all others are
/// told the same at once.
const SAID: Duration = Duration::from_secs(1);

/// A ledger that many ask, one at a time.
pub struct HubLedger {
    ledger: Mutex<SqlLedger>,
    away: Mutex<Option<(Instant, String)>>,
}

impl HubLedger {
    /// Of this one, which is to have less patience than the workers have with their connection.
    pub fn new(ledger: SqlLedger) -> HubLedger {
        HubLedger { ledger: Mutex::new(ledger), away: Mutex::new(None) }
    }

    /// What it says to a worker that has joined as `joined`.
    pub(super) fn answer(&self, question: Question, joined: &mut Option<WorkerId>) -> Answer {
        if let Some((since, why)) = &*self.away.lock()
            && since.elapsed() < SAID
        {
            let (place, why) = (wire::PLACE.to_owned(), why.clone());
            return Answer::Failed(FleetError::Away { place, waited: since.elapsed(), why });
        }
        let answer = far_ledger::answer(&mut *self.ledger.lock(), question, joined);
        if let Answer::Failed(FleetError::Away { why, .. }) = &answer {
            *self.away.lock() = Some((Instant::now(), why.clone()));
        }
        answer
    }

    /// Uses it alone; `None` while somebody else does.
    pub fn try_use<T>(&self, act: impl FnOnce(&mut SqlLedger) -> T) -> Option<T> {
        self.ledger.try_lock().map(|mut ledger| act(&mut ledger))
    }

    /// Uses it alone.
    pub fn alone<T>(&self, act: impl FnOnce(&mut SqlLedger) -> T) -> T {
        act(&mut self.ledger.lock())
    }
}
