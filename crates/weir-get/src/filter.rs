//! Sets of names that may be of any size and take little memory: filters (Bloom, 1970) that never forget a
//! name and now and then take another for one of theirs.

use std::hash::{BuildHasher, Hash};

/// Keys of the first filter; each further one takes twice as many.
const FIRST_FILTER: usize = 1 << 20;

/// Filters at most: 15 million names, in 15 MB at 8 bits a name. What comes beyond them makes wrong guesses
/// likelier.
const MOST_FILTERS: usize = 4;

/// Bits set by each key: with 16 bits a key one in two thousand of other names is taken for one, with 8 one
/// in forty.
const BITS_SET: u64 = 8;

/// Filters of so many bits a name, which grow by one when the last is full.
///
/// With hashes of keys that nobody can foresee (`RandomState`) no server can choose names that look taken;
/// with fixed ones the same names look taken in each run.
#[derive(Debug, Default)]
pub(crate) struct Filters<S, const BITS: usize> {
    filters: Vec<Filter>,
    hashes: (S, S),
}

#[derive(Debug)]
struct Filter {
    bits: Vec<u64>,
    room: usize,
}

impl<S: BuildHasher, const BITS: usize> Filters<S, BITS> {
    /// From now on `name` is had.
    pub(crate) fn add(&mut self, name: &impl Hash) {
        if self.filters.last().is_none_or(|last| last.room == 0) && self.filters.len() < MOST_FILTERS {
            let room = FIRST_FILTER << self.filters.len();
            self.filters.push(Filter { bits: vec![0; room * BITS / 64], room });
        }
        let pair = self.pair(name);
        if let Some(last) = self.filters.last_mut() {
            last.room = last.room.saturating_sub(1);
            for (word, bit) in places(pair, last.bits.len()) {
                last.bits[word] |= bit;
            }
        }
    }

    /// Whether `name` was added; of others some seem so, too.
    pub(crate) fn may_have(&self, name: &impl Hash) -> bool {
        if self.filters.is_empty() {
            return false;
        }
        let pair = self.pair(name);
        let has =
            |filter: &Filter| places(pair, filter.bits.len()).all(|(word, bit)| filter.bits[word] & bit != 0);
        self.filters.iter().any(has)
    }

    fn pair(&self, name: &impl Hash) -> (u64, u64) {
        // With one hasher twice: the second is of more than the name.
        (self.hashes.0.hash_one(name), self.hashes.1.hash_one((name, 1)) | 1)
    }
}

/// Where the bits of a key are, in so many words (a power of two): two hashes stand for all that are needed
/// (Kirsch and Mitzenmacher, 2006).
fn places((first, step): (u64, u64), words: usize) -> impl Iterator<Item = (usize, u64)> {
    (0..BITS_SET).map(move |index| {
        let hash = first.wrapping_add(step.wrapping_mul(index));
        ((hash >> 6) as usize & (words - 1), 1 << (hash & 63))
    })
}

#[cfg(test)]
mod tests {
    use std::hash::RandomState;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_filter_forgets_nothing_and_seldom_guesses_wrong() {
        let mut filters = Filters::<RandomState, 16>::default();
        let name = |number: usize| PathBuf::from(format!("in/{number}.bin"));
        (0..FIRST_FILTER / 8).for_each(|number| filters.add(&name(number)));
        assert!((0..FIRST_FILTER / 8).all(|number| filters.may_have(&name(number))));
        let wrong = (FIRST_FILTER..FIRST_FILTER + 10_000).filter(|number| filters.may_have(&name(*number)));
        assert!(wrong.count() < 20);
    }
}
