//! Delivery traces in mahimahi's format: each line is the millisecond of one opportunity to deliver 1500
//! bytes.

use std::path::Path;
use std::sync::Arc;

use crate::clock::Moment;
use weir_units::Bytes;

use crate::error::LabError;

/// What one opportunity carries.
pub(crate) const OPPORTUNITY: u32 = 1500;

/// A minute of 10 Gbit/s.
const LONGEST: Bytes = Bytes(400_000_000);

const MILLISECOND: u64 = 1_000_000;

/// When bytes can be delivered; starts over after its last line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Milliseconds, in order.
    times: Vec<u64>,
}

impl Trace {
    /// Reads and parses a file.
    pub fn read(path: &Path) -> Result<Trace, LabError> {
        let text = weir_units::read_text(path, LONGEST)
            .map_err(LabError::system(format!("cannot read {}", path.display())))?;
        Trace::parse(&text)
    }

    /// One number a line, none smaller than the one before, the last above zero. Empty lines are allowed.
    pub fn parse(text: &str) -> Result<Trace, LabError> {
        let mut times: Vec<u64> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let refuse = |why: &str| Err(LabError::Trace { line: index + 1, why: why.to_owned() });
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let Ok(time) = line.parse::<u64>() else {
                return refuse(&format!("'{line}' is not a number of milliseconds"));
            };
            if times.last().is_some_and(|&last| time < last) {
                return refuse("times must not go back");
            }
            // A year: no trace lasts so long, and the sums stay far from overflowing.
            if time > 366 * 86_400_000 {
                return refuse("more than a year");
            }
            times.push(time);
        }
        match times.last() {
            None => Err(LabError::Trace { line: 1, why: "the trace is empty".to_owned() }),
            Some(0) => {
                Err(LabError::Trace { line: times.len(), why: "the last time must be above 0".to_owned() })
            }
            Some(_) => Ok(Trace { times }),
        }
    }

    /// The opportunities after `start`.
    pub(crate) fn schedule(self: &Arc<Self>, start: Moment) -> Schedule {
        Schedule { trace: Arc::clone(self), start: start.0 }
    }

    fn period(&self) -> u64 {
        self.times[self.times.len() - 1] * MILLISECOND
    }
}

/// A trace that began at an instant.
#[derive(Debug)]
pub(crate) struct Schedule {
    trace: Arc<Trace>,
    start: u64,
}

impl Schedule {
    /// The instant of opportunity `index`, counted from 0 over all rounds.
    pub(crate) fn time(&self, index: u64) -> Moment {
        let count = self.trace.times.len() as u64;
        let round = (index / count) * self.trace.period();
        Moment(self.start + round + self.trace.times[(index % count) as usize] * MILLISECOND)
    }

    /// The first opportunity after `now`.
    pub(crate) fn first_after(&self, now: Moment) -> u64 {
        let Some(elapsed) = now.0.checked_sub(self.start) else { return 0 };
        let count = self.trace.times.len() as u64;
        let (rounds, within) = (elapsed / self.trace.period(), elapsed % self.trace.period());
        let passed = self.trace.times.partition_point(|&time| time * MILLISECOND <= within) as u64;
        // The last one of the round before falls together with this round's start: at within == 0 it has
        // passed.
        rounds * count + passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_over_after_the_last_line() {
        let trace = Arc::new(Trace::parse("0\n3\n3\n10\n").unwrap());
        let schedule = trace.schedule(Moment(0));
        let times: Vec<_> = (0..9).map(|index| schedule.time(index).0 / MILLISECOND).collect();
        assert_eq!(times, [0, 3, 3, 10, 10, 13, 13, 20, 20]);
    }

    #[test]
    fn finds_the_first_opportunity_after_an_instant() {
        let trace = Arc::new(Trace::parse("0\n3\n3\n10\n").unwrap());
        let schedule = trace.schedule(Moment(5 * MILLISECOND));
        for tick in 0..200 {
            let now = Moment(tick * MILLISECOND / 2);
            let expected = (0..).find(|&index| schedule.time(index) > now).unwrap();
            assert_eq!(schedule.first_after(now), expected, "at {now:?}");
        }
    }

    #[test]
    fn names_the_line_in_error() {
        for (text, line) in [("5\nx\n", 2), ("5\n4\n", 2), ("", 1), ("0\n0\n", 2), ("1\n-2\n", 2)] {
            assert!(
                matches!(Trace::parse(text), Err(LabError::Trace { line: at, .. }) if at == line),
                "{text:?}"
            );
        }
    }
}
