//! The cells that `make test` runs: a fixed few of each cause, spread over congestion controls, round trips
//! and rates.

use crate::cell::{Cause, Cell, Congestion};
use crate::plan::Plan;

/// Of each cause.
const EACH: usize = 5;

/// Round trips and rates, the slow ones more often: they run several at a time.
const SPREAD: [(u64, u64); 9] =
    [(20, 40), (100, 5), (20, 400), (1, 40), (100, 40), (20, 5), (1, 5), (100, 400), (1, 400)];

/// For each cause, another start in the list, so that all of it is used; congestion controls take turns.
pub(crate) fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (number, cause) in Cause::ALL.into_iter().enumerate() {
        let mut apart = 0;
        let turns = (0..SPREAD.len()).map(|turn| {
            let (round_trip, mbit) = SPREAD[(turn + number) % SPREAD.len()];
            let congestion = Congestion::ALL[(turn + number / 3) % Congestion::ALL.len()];
            Cell { cause, congestion, round_trip, mbit }
        });
        // One that runs alone takes the machine to itself: one of each cause, two where all do.
        let most =
            if turns.clone().all(|cell| Plan::of(cell).is_ok_and(|plan| plan.alone())) { 2 } else { 1 };
        let fits = turns.filter(|cell| match Plan::of(*cell) {
            Ok(plan) if plan.alone() => {
                apart += 1;
                apart <= most
            }
            plan => plan.is_ok(),
        });
        cells.extend(fits.take(EACH));
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{RATES, ROUND_TRIPS};

    #[test]
    fn the_sample_is_wide_enough() {
        let cells = cells();
        assert!(cells.len() >= 60, "{}", cells.len());
        let least = |count: usize, what: &str| assert!(count >= 10, "{what}: {count}");
        for congestion in Congestion::ALL {
            least(cells.iter().filter(|cell| cell.congestion == congestion).count(), congestion.name());
        }
        for round_trip in ROUND_TRIPS {
            least(cells.iter().filter(|cell| cell.round_trip == round_trip).count(), "round trip");
        }
        for mbit in RATES {
            least(cells.iter().filter(|cell| cell.mbit == mbit).count(), "rate");
        }
    }
}
