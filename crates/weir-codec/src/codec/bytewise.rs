//! The byte-oriented format that LZF and FastLZ share: runs of up to 32 literals, and matches of two or three
//! bytes.
//!
//! | first byte | then | means |
//! | --- | --- | --- |
//! | `000LLLLL` | L + 1 literals | these bytes |
//! | `MMMDDDDD`, M from 1 to 6 | low byte of D | M + 2 bytes from distance D + 1 |
//! | `111DDDDD` | length byte N, low byte of D | N + 9 bytes from distance D + 1 |

use super::matching::{literals, repeat};

/// The longest run of literals with one length byte.
pub(super) const RUN: usize = 32;
/// The farthest distance in 13 bits.
pub(super) const NEAR: usize = 1 << 13;
/// The longest match with one length byte.
pub(super) const LONGEST: usize = 9 + 255;

/// The worst case: one byte before each run.
pub(super) fn bound(len: usize) -> usize {
    len + len.div_ceil(RUN)
}

/// Writes literals as runs.
#[inline]
pub(super) fn put_literals(out: &mut Vec<u8>, bytes: &[u8]) {
    for run in bytes.chunks(RUN) {
        out.push(run.len() as u8 - 1);
        out.extend_from_slice(run);
    }
}

/// Writes a match of at least 3 bytes from at most [`NEAR`].
#[inline]
pub(super) fn put_match(out: &mut Vec<u8>, distance: usize, len: usize) {
    let back = distance - 1;
    let high = (back >> 8) as u8;
    match len - 2 {
        short @ 1..=6 => out.push((short as u8) << 5 | high),
        long => out.extend_from_slice(&[7 << 5 | high, (long - 7) as u8]),
    }
    out.push(back as u8);
}

/// Unpacks into `out`; says how much was filled. `None` where the bytes do not fit the format or `out`.
pub(super) fn unpack(input: &[u8], out: &mut [u8]) -> Option<usize> {
    let (mut at, mut filled) = (0, 0);
    while let Some(&first) = input.get(at) {
        at += 1;
        if first < RUN as u8 {
            (at, filled) = literals(input, at, out, filled, usize::from(first) + 1)?;
            continue;
        }
        let mut len = usize::from(first >> 5) + 2;
        if len == 9 {
            len += usize::from(*input.get(at)?);
            at += 1;
        }
        let distance = (usize::from(first & 31) << 8 | usize::from(*input.get(at)?)) + 1;
        at += 1;
        filled = repeat(out, filled, distance, len)?;
    }
    Some(filled)
}
