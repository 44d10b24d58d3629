//! Which blocks of a file are there, and their digest: BLAKE3 subtrees that join as they complete.
//!
//! BLAKE3 hashes 1 KiB chunks as a binary tree, so 1024 chunks at a multiple of 1 MiB are a subtree with a
//! value of its own. Blocks arrive in any order; two neighbours that make a larger subtree become one value.
//! So the set stays small however large the file, says what is missing, and ends as the file's ordinary
//! BLAKE3 without a second read.
//!
//! Of a file with holes it ends otherwise: to BLAKE3 each chunk has its place, so that the same zeros have
//! another value everywhere, and a hole of a terabyte would have to be hashed. A whole block of zeros, one of
//! several, has the one value [`zeros`] instead, whether it lies in a hole or not, and runs of them are
//! joined by level without a look at their bytes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use blake3::hazmat::{HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use weir_tree::source::is_zero;

/// Bytes of a block: a subtree of 1024 chunks, and about what a system call must move for its cost to vanish.
pub const BLOCK: u64 = 1 << 20;

/// A subtree's value, or a digest.
pub type Digest = [u8; 32];

/// A block of zeros. Of the program's zeroed memory: takes none of its own until it is read.
pub(crate) static ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];

/// Levels of subtrees: more than files of 2^63 bytes have.
const LEVELS: usize = 48;

/// Of subtrees of nothing but whole blocks of zeros, by level. The first is the key that BLAKE3 derives from
/// these words and nothing else: nobody finds a block that has it too.
static VALUES_OF_ZEROS: LazyLock<[Digest; LEVELS]> = LazyLock::new(|| {
    let mut values = [blake3::derive_key("weir cp 1: a block of zeros", &[]); LEVELS];
    for level in 1..LEVELS {
        let below = values[level - 1];
        values[level] = merge_subtrees_non_root(&below, &below, Mode::Hash);
    }
    values
});

/// The value of a subtree of 2^`level` whole blocks of zeros, other than a whole file.
pub fn zeros(level: u8) -> Digest {
    VALUES_OF_ZEROS[usize::from(level).min(LEVELS - 1)]
}

/// The number of blocks of a file.
pub fn blocks(size: u64) -> u64 {
    size.div_ceil(BLOCK).max(1)
}

/// Where block `index` of a file lies.
pub fn extent(index: u64, size: u64) -> Range<u64> {
    let start = index.saturating_mul(BLOCK).min(size);
    start..start.saturating_add(BLOCK).min(size)
}

/// Where blocks in a row lie; none that is empty.
pub(crate) fn extent_of_run(blocks: &Range<u64>, size: u64) -> Range<u64> {
    extent(blocks.start, size).start..extent(blocks.end.saturating_sub(1), size).end
}

/// The value of a block: of a file that has no other, its digest.
pub fn digest_of(block: &[u8], index: u64, size: u64) -> Digest {
    if size <= BLOCK {
        return *blake3::hash(block).as_bytes();
    }
    // Of anything else the first page tells.
    if block.len() as u64 == BLOCK && is_zero(block) {
        return zeros(0);
    }
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(index * BLOCK);
    hasher.update(block);
    hasher.finalize_non_root()
}

/// The values of the blocks from the `first` on that are in `bytes`: at least one, since an empty file has
/// one too.
pub(crate) fn values_of(bytes: &[u8], first: u64, size: u64) -> Vec<Digest> {
    let (block, rest) = bytes.split_at(bytes.len().min(BLOCK as usize));
    let others = rest.chunks(BLOCK as usize);
    let all = std::iter::once(block).chain(others).zip(first..);
    all.map(|(block, index)| digest_of(block, index, size)).collect()
}

/// The value of block `index` of a file of `size` bytes, where that holds nothing but zeros.
pub(crate) fn zeros_at(index: u64, size: u64) -> Digest {
    let Range { start, end } = extent(index, size);
    digest_of(&ZEROS[..(end - start) as usize], index, size)
}

/// What says of the blocks of one record that they are the right ones: of a single one its value, of several
/// the digest of theirs.
pub fn digest_of_run(values: &[Digest]) -> Digest {
    match values {
        [only] => *only,
        several => *blake3::hash(several.as_flattened()).as_bytes(),
    }
}

/// The subtrees that are complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subtrees {
    size: u64,
    blocks: u64,
    /// By first block; each with its level: it spans `1 << level` blocks, cut off at the file's end.
    nodes: BTreeMap<u64, (u8, Digest)>,
}

impl Subtrees {
    /// Of a file of `size` bytes, none.
    pub fn new(size: u64) -> Subtrees {
        Subtrees { size, blocks: blocks(size), nodes: BTreeMap::new() }
    }

    /// Block `index` is there. False where it was already, or is none of this file's.
    pub fn insert(&mut self, index: u64, digest: Digest) -> bool {
        if index >= self.blocks || self.contains(index) {
            return false;
        }
        self.join(0, index, digest);
        true
    }

    /// Blocks in a row are there and hold nothing but zeros; those that were there before stay what they are.
    pub fn insert_zeros(&mut self, run: Range<u64>) {
        let whole = self.size / BLOCK;
        for gap in self.missing_in(run) {
            let mut at = gap.start;
            while at < gap.end {
                // The last block may be shorter, and the only one of a file is its root.
                if at >= whole || self.blocks == 1 {
                    self.join(0, at, zeros_at(at, self.size));
                    at += 1;
                    continue;
                }
                let fits = (gap.end.min(whole) - at).ilog2().min(at.trailing_zeros());
                let level = (fits as u8).min(self.top() - 1);
                self.join(level, at, zeros(level));
                at += 1 << level;
            }
        }
    }

    /// Takes in what [`Subtrees::nodes`] gave. False where it cannot be of this file or overlaps what is
    /// there.
    pub fn insert_node(&mut self, level: u8, first: u64, digest: Digest) -> bool {
        if level > self.top() || !first.is_multiple_of(1 << level) || first >= self.blocks {
            return false;
        }
        let end = (first + (1 << level)).min(self.blocks);
        let free = !self.contains(first) && self.nodes.range(first..end).next().is_none();
        if free {
            self.join(level, first, digest);
        }
        free
    }

    /// The subtrees as (level, first block, value).
    pub fn nodes(&self) -> impl Iterator<Item = (u8, u64, Digest)> + '_ {
        self.nodes.iter().map(|(first, (level, digest))| (*level, *first, *digest))
    }

    /// Block `index` is there.
    pub fn contains(&self, index: u64) -> bool {
        let before = self.nodes.range(..=index).next_back();
        before.is_some_and(|(first, (level, _))| index < first + (1 << level))
    }

    /// Runs of blocks that are not there.
    pub fn missing(&self) -> Vec<Range<u64>> {
        self.missing_in(0..self.blocks)
    }

    /// Those of a run of blocks that are not there.
    pub(crate) fn missing_in(&self, run: Range<u64>) -> Vec<Range<u64>> {
        let after = |(first, (level, _)): (&u64, &(u8, Digest))| first + (1 << level);
        let mut missing = Vec::new();
        // What begins before the run may reach into it.
        let before = self.nodes.range(..=run.start).next_back().map(after);
        let (mut at, end) = (run.start.max(before.unwrap_or(0)), run.end.min(self.blocks));
        if at >= end {
            return missing;
        }
        for node in self.nodes.range(at..end) {
            if at < *node.0 {
                missing.push(at..*node.0);
            }
            at = after(node);
        }
        if at < end {
            missing.push(at..end);
        }
        missing
    }

    /// The file's digest, once every block is there.
    pub fn root(&self) -> Option<Digest> {
        let (level, digest) = self.nodes.get(&0)?;
        (*level == self.top()).then_some(*digest)
    }

    /// The level at which one node spans all.
    fn top(&self) -> u8 {
        self.blocks.next_power_of_two().trailing_zeros() as u8
    }

    fn join(&mut self, mut level: u8, mut first: u64, mut digest: Digest) {
        while level < self.top() {
            let span = 1u64 << level;
            let is_left = first & span == 0;
            if is_left && first + span >= self.blocks {
                level += 1; // nothing to its right: it stands for its parent
                continue;
            }
            let other = if is_left { first + span } else { first - span };
            let Some((_, beside)) = self.nodes.get(&other).filter(|(at, _)| *at == level).copied() else {
                break;
            };
            self.nodes.remove(&other);
            let (left, right) = if is_left { (digest, beside) } else { (beside, digest) };
            digest = if level + 1 == self.top() {
                *merge_subtrees_root(&left, &right, Mode::Hash).as_bytes()
            } else {
                merge_subtrees_non_root(&left, &right, Mode::Hash)
            };
            first = first.min(other);
            level += 1;
        }
        self.nodes.insert(first, (level, digest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(size: usize) -> Vec<u8> {
        (0..size).map(|at| (at * 31 + at / 251) as u8).collect()
    }

    #[test]
    fn zeros_have_one_value_and_other_bytes_that_of_blake3() {
        let size = 3 * BLOCK + 5;
        let values = values_of(&vec![0; size as usize], 0, size);
        assert!(values[..3].iter().all(|value| *value == zeros(0)) && values[3] != zeros(0));
        assert_eq!(
            digest_of(&ZEROS, 0, BLOCK),
            *blake3::hash(&ZEROS).as_bytes(),
            "the only block is the file"
        );
        // A terabyte and more, and what cannot be a file.
        for blocks in [1u64 << 20, (1 << 43) - 1, 1 << 43] {
            let mut there = Subtrees::new(blocks * BLOCK - 1);
            there.insert_zeros(0..u64::MAX);
            assert!(there.root().is_some());
        }
    }

    fn digests(data: &[u8]) -> Vec<Digest> {
        let size = data.len() as u64;
        let of = |index| {
            let Range { start, end } = extent(index, size);
            digest_of(&data[start as usize..end as usize], index, size)
        };
        (0..blocks(size)).map(of).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn any_order_joins_to_the_ordinary_digest(
            size in prop_oneof![0usize..3, 1048575usize..1048578, 1usize..14_000_000],
            order in prop::collection::vec(any::<prop::sample::Index>(), 30),
            cut in 0usize..20,
        ) {
            let data = bytes(size);
            let digests = digests(&data);
            let mut left: Vec<usize> = (0..digests.len()).collect();
            let mut order = order.into_iter().cycle();
            let mut there = Subtrees::new(size as u64);
            while !left.is_empty() {
                prop_assert_eq!(there.root(), None);
                let next = left.swap_remove(order.next().unwrap().index(left.len()));
                prop_assert!(there.insert(next as u64, digests[next]));
                prop_assert!(!there.insert(next as u64, digests[next]));
                let missing: Vec<u64> = there.missing().into_iter().flatten().collect();
                left.sort_unstable();
                prop_assert_eq!(missing, left.iter().map(|index| *index as u64).collect::<Vec<_>>());
                if left.len() == cut {
                    // What a journal or the other end gets is as good.
                    let mut again = Subtrees::new(size as u64);
                    for (level, first, digest) in there.nodes().collect::<Vec<_>>() {
                        prop_assert!(again.insert_node(level, first, digest));
                        prop_assert!(!again.insert_node(level, first, digest));
                    }
                    prop_assert_eq!(&again, &there);
                }
            }
            prop_assert_eq!(there.root(), Some(*blake3::hash(&data).as_bytes()));
            prop_assert!(there.nodes().count() == 1 && !there.insert(digests.len() as u64, [0; 32]));
        }

        #[test]
        fn zeros_join_by_runs_as_they_do_block_by_block(
            size in 0u64..40 << 20, runs in prop::collection::vec((0u64..44, 0u64..44), 0..6), first in 0u64..44,
        ) {
            let (mut by_run, mut by_block) = (Subtrees::new(size), Subtrees::new(size));
            // One that has bytes in it.
            for there in [&mut by_run, &mut by_block] {
                there.insert(first, [7; 32]);
            }
            for (start, end) in runs {
                by_run.insert_zeros(start..end);
                for index in start..end.min(blocks(size)) {
                    by_block.insert(index, zeros_at(index, size));
                }
                prop_assert_eq!(&by_run, &by_block);
            }
            by_run.insert_zeros(0..u64::MAX);
            prop_assert!(by_run.root().is_some() && by_run.missing().is_empty());
        }

        #[test]
        fn strange_nodes_do_no_harm(size in 0u64..1 << 45, nodes in prop::collection::vec((0u8..70, any::<u64>(), 0u64..40), 0..40)) {
            let mut there = Subtrees::new(size);
            for (level, far, near) in nodes {
                there.insert_node(level, if level % 2 == 0 { near } else { far }, [level; 32]);
            }
            let missing: u64 = there.missing().iter().map(|run| run.end - run.start).sum();
            prop_assert!(missing <= blocks(size));
            prop_assert_eq!(there.root().is_some(), missing == 0);
        }
    }
}
