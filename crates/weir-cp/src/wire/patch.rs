//! A block as instructions: what to copy from the old version of its file, and which bytes are new.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use weir_tree::delta::Op;

use crate::subtrees::BLOCK;

/// A step that appends to the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Bytes of the old version.
    Copy {
        /// Where.
        from: u64,
        /// How many.
        len: u32,
    },
    /// Bytes that follow the steps, in order.
    Literal {
        /// How many.
        len: u32,
    },
}

/// Instructions that are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a patch of unknown form")]
pub struct Malformed;

/// The steps that make the bytes `block` of the new version. `ops` cover it from its start to its end.
pub fn steps(ops: impl Iterator<Item = Op>, block: Range<u64>) -> Vec<Step> {
    let mut steps = Vec::new();
    for op in ops {
        let (at, len) = match op {
            Op::Copy { at, length, .. } | Op::Literal { at, length } => (at, length),
        };
        let (start, end) = (at.max(block.start), (at + len).min(block.end));
        if start >= end {
            if at >= block.end {
                break;
            }
            continue;
        }
        // A block is 1 MiB: its parts fit 32 bits.
        let part = (end - start) as u32;
        steps.push(match op {
            Op::Copy { at, from, .. } => Step::Copy { from: from + (start - at), len: part },
            Op::Literal { .. } => Step::Literal { len: part },
        });
    }
    steps
}

/// Writes the steps, and the literals out of `block`, into `raw`.
pub fn write(steps: &[Step], block: &[u8], raw: &mut Vec<u8>) {
    raw.clear();
    raw.extend_from_slice(&[0; 4]);
    // Serialising into memory fails only for types without a length, of which there is none.
    *raw = postcard::to_extend(steps, std::mem::take(raw)).expect("steps can be serialised");
    let length = (raw.len() - 4) as u32;
    raw[..4].copy_from_slice(&length.to_le_bytes());
    let mut at = 0;
    for step in steps {
        match step {
            Step::Copy { len, .. } => at += *len as usize,
            Step::Literal { len } => {
                raw.extend_from_slice(&block[at..at + *len as usize]);
                at += *len as usize;
            }
        }
    }
}

/// Parts a patch into steps and literals. The steps make a block of at most 1 MiB, and use all literals.
pub fn parse(raw: &[u8]) -> Result<(Vec<Step>, &[u8]), Malformed> {
    let (length, rest) = raw.split_first_chunk::<4>().ok_or(Malformed)?;
    let length = u32::from_le_bytes(*length) as usize;
    let (steps, literals) = rest.split_at_checked(length).ok_or(Malformed)?;
    let (steps, left) = postcard::take_from_bytes::<Vec<Step>>(steps).map_err(|_| Malformed)?;
    let (mut size, mut literal) = (0u64, 0u64);
    for step in &steps {
        let (Step::Copy { len, .. } | Step::Literal { len }) = step;
        size += u64::from(*len);
        literal += if matches!(step, Step::Literal { .. }) { u64::from(*len) } else { 0 };
    }
    if left.is_empty() && size <= BLOCK && literal == literals.len() as u64 {
        Ok((steps, literals))
    } else {
        Err(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_block_is_built_as_it_was_taken_apart(
            parts in prop::collection::vec((any::<bool>(), 1u64..3000, 0u64..5000), 1..40), first in 0u64..3000, size in 1u64..5000,
        ) {
            let mut at = 0;
            let ops: Vec<Op> = parts.iter().map(|(copy, len, from)| {
                let op = if *copy { Op::Copy { at, from: *from, length: *len } } else { Op::Literal { at, length: *len } };
                at += len;
                op
            }).collect();
            let block = first.min(at - 1)..(first + size).min(at).max(first.min(at - 1) + 1);
            let old: Vec<u8> = (0..9000u32).map(|at| (at * 7) as u8).collect();
            let new: Vec<u8> = ops.iter().flat_map(|op| match *op {
                Op::Copy { from, length: len, .. } => old[from as usize..(from + len) as usize].to_vec(),
                Op::Literal { at, length: len } => (at..at + len).map(|at| (at * 11 + 3) as u8).collect(),
            }).collect();
            let bytes = &new[block.start as usize..block.end as usize];
            let mut raw = Vec::new();
            write(&steps(ops.into_iter(), block), bytes, &mut raw);
            let (steps, mut literals) = parse(&raw).unwrap();
            let mut built = Vec::new();
            for step in steps {
                match step {
                    Step::Copy { from, len } => built.extend_from_slice(&old[from as usize..from as usize + len as usize]),
                    Step::Literal { len } => {
                        let (now, rest) = literals.split_at(len as usize);
                        built.extend_from_slice(now);
                        literals = rest;
                    }
                }
            }
            prop_assert_eq!(&built[..], bytes);
        }

        #[test]
        fn any_bytes_are_a_patch_or_an_error(raw in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse(&raw);
        }
    }
}
