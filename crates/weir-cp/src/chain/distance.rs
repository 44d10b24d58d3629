//! How far a host is: the round trip of short words to the process that holds there, inside ssh as all of its
//! words are, so also through a host between.

use std::time::{Duration, Instant};

/// A host so near needs no second look: no other zone is nearer.
const NEAR: Duration = Duration::from_millis(5);

/// Words to one host. What a busy machine adds to one it hardly adds to all.
const MOST: usize = 5;

/// Between two of them: their answers are not waited for, so that a far host is not the longer in coming.
pub(super) const SPACING: Duration = Duration::from_millis(10);

/// Words that are said and answered.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    said: Vec<Instant>,
    least: Option<Duration>,
    is_known: bool,
}

impl Echoes {
    /// The number to be said now; `None` where nothing more has to be.
    pub(super) fn say(&mut self, now: Instant) -> Option<u32> {
        if self.is_known || self.said.len() == MOST {
            return None;
        }
        self.said.push(now);
        Some(self.said.len() as u32 - 1)
    }

    /// One is answered. The least that any took, once that is known.
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

    /// What is known after answers to words that took so many milliseconds, and how many were needed.
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
