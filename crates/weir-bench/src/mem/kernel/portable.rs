//! Other architectures: volatile accesses of 8 bytes, which the compiler may neither join nor leave out.

use std::hint::black_box;

use super::Width;
use crate::mem::random::{FACTOR, INCREMENT, mixed};

/// Accesses of one turn of [`read_strided`].
pub(super) const UNROLLED: usize = 8;

/// # Safety
///
/// `bytes`, a multiple of 64, lie behind `base`, which is aligned to 8.
pub(super) unsafe fn read(_: Width, base: *const u8, bytes: usize, reps: usize) {
    // SAFETY: as the caller vouches.
    unsafe { read_strided(base, 8, bytes / 8, reps) }
}

/// # Safety
///
/// As for [`read`], and the memory is the caller's to write.
pub(super) unsafe fn write(_: Width, base: *mut u8, bytes: usize, reps: usize) {
    for _ in 0..reps {
        for turn in 0..bytes / 64 {
            let at = base.wrapping_add(turn * 64).cast::<u64>();
            for word in 0..8 {
                // SAFETY: within `bytes`, as the caller vouches.
                unsafe { at.wrapping_add(word).write_volatile(0) }
            }
        }
    }
}

/// Always false: no portable way to write past the caches.
///
/// # Safety
///
/// None needed.
pub(super) unsafe fn stream(_: Width, _: *mut u8, _: usize, _: usize) -> bool {
    false
}

/// # Safety
///
/// As for [`read`] of `from` and for [`write`] of `to`; the two do not overlap.
pub(super) unsafe fn copy(_: Width, to: *mut u8, from: *const u8, bytes: usize, reps: usize) {
    for _ in 0..reps {
        // SAFETY: as the caller vouches.
        unsafe { std::ptr::copy_nonoverlapping(black_box(from), black_box(to), bytes) }
    }
}

/// # Safety
///
/// `words` (a multiple of [`UNROLLED`]) loads of 8 bytes at every `stride` bytes lie behind `base`.
pub(super) unsafe fn read_strided(base: *const u8, stride: usize, words: usize, reps: usize) {
    for _ in 0..reps {
        for turn in 0..words / UNROLLED {
            for word in 0..UNROLLED {
                let at = base.wrapping_add((turn * UNROLLED + word) * stride).cast::<u64>();
                // SAFETY: within the memory that the caller vouches for.
                black_box(unsafe { at.read_volatile() });
            }
        }
    }
}

/// # Safety
///
/// `lines` lines of 64 zero bytes lie behind `base`.
pub(super) unsafe fn chase(base: *const u8, lines: usize, turns: usize, seed: u64) {
    let mut streams = [0, 1, 2, 3].map(|stream| mixed(seed.wrapping_mul(4).wrapping_add(stream)));
    let mut came = 0_u64;
    for _ in 0..turns {
        for x in &mut streams {
            *x = x.wrapping_mul(FACTOR).wrapping_add(INCREMENT);
            let offset = ((*x >> 32) * lines as u64 >> 26) & !63;
            let at = base.wrapping_add((offset + came) as usize).cast::<u64>();
            // SAFETY: an offset below `lines` x 64, since zeros came.
            came = unsafe { at.read_volatile() };
        }
    }
    black_box(came);
}

/// The same without its loads.
pub(super) fn make_addresses(turns: usize) {
    let mut streams = [1_u64, 2, 3, 4];
    let mut sum = 0_u64;
    for _ in 0..turns {
        for x in &mut streams {
            *x = x.wrapping_mul(FACTOR).wrapping_add(INCREMENT);
            sum = sum.wrapping_add(((*x >> 32) * 4096 >> 26) & !63);
        }
    }
    black_box(sum);
}

/// Unknown: no instruction here whose time in cycles weir is sure of.
pub(super) fn add_chain(_: usize) -> bool {
    false
}

/// As [`add_chain`].
pub(super) fn mul_chain(_: usize) -> bool {
    false
}
