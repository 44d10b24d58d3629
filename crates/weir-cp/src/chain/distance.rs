//! How far a host is: the round trip of short messages to the process that holds there. They travel inside
//! ssh, as all of its messages do, so a jump host on the way counts too.

use std::time::{Duration, Instant};

/// A host nearer than this is in the nearest zone, so one answer is enough.
const NEAR: Duration = Duration::from_millis(5);

/// Messages to one host, at most. A busy machine may delay one answer; the least of five is hardly delayed.
const MOST: usize = 5;

/// Between two messages. Answers are not waited for, so that a far host takes no longer to be placed.
pub(super) const SPACING: Duration = Duration::from_millis(10);

/// Messages that were sent, and their answers.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    said: Vec<Instant>,
    least: Option<Duration>,
    is_known: bool,
}

impl Echoes {
    /// The number of the message to send now; `None` if no more is needed.
    pub(super) fn say(&mut self, now: Instant) -> Option<u32> {
        if self.is_known || self.said.len() == MOST {
            return None;
        }
        self.said.push(now);
        Some(self.said.len() as u32 - 1)
    }

    /// An answer came. Returns the least round trip, once that is known.
    pub(super) fn hear(&mut self, number: u32, now: Instant) -> Option<Duration> {
        let said = *self.said.get(number as usize).filter(|_| !self.is_known)?;
        let taken = now.saturating_duration_since(said);
        let least = self.least.map_or(taken, |least| least.min(taken));
        self.least = Some(least);
        self.is_known = least < NEAR || number as usize + 1 == MOST;
        self.is_known.then_some(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least of answers that took so many milliseconds each, and how many of them were needed.
    fn known(answers: &[u64]) -> Option<(usize, u64)> {
        let mut echoes = Echoes::default();
        let start = Instant::now();
        answers.iter().enumerate().find_map(|(number, taken)| {
            assert_eq!(echoes.say(start), Some(number as u32));
            let least = echoes.hear(number as u32, start + Duration::from_millis(*taken))?;
            assert_eq!((echoes.say(start), echoes.hear(number as u32, start)), (None, None));
            Some((number + 1, least.as_millis() as u64))
        })
    }

    #[test]
    fn the_least_of_a_few_words_counts() {
        for (answers, least) in [
            (&[1, 1][..], Some((1, 1))),
            (&[90, 3], Some((2, 3))),
            (&[101, 100], None),
            (&[300, 180, 101, 110, 100], Some((5, 100))),
        ] {
            assert_eq!(known(answers), least, "{answers:?}");
        }
        assert_eq!(Echoes::default().hear(0, Instant::now()), None, "it was not said");
    }
}
