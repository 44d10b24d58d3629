//! The loops whose time is measured: they touch memory in one way each and do nothing else.
//!
//! On x86-64 they are written as instructions, so that neither the optimiser nor the build's profile changes
//! what is measured; elsewhere as volatile accesses, which may not be left out either. They work on whole
//! chunks of [`CHUNK`] bytes.
#![allow(unsafe_code, reason = "loops that the compiler may not touch, with loads chosen at run time")]

use super::arena::Line;

#[cfg(target_arch = "x86_64")]
#[path = "kernel/x86_64.rs"]
mod native;
#[cfg(not(target_arch = "x86_64"))]
#[path = "kernel/portable.rs"]
mod native;

/// Bytes of one turn of the unrolled loops: sixteen of the widest vectors, so that counting and jumping are
/// below one instruction in five.
pub const CHUNK: usize = 1024;

/// Lines of a chunk.
const LINES: usize = CHUNK / size_of::<Line>();

/// The widest loads of this processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// 8 bytes: no vectors that weir uses on this architecture.
    Word,
    /// 16 bytes, which every x86-64 has.
    Sse2,
    /// 32 bytes.
    Avx2,
    /// 64 bytes.
    Avx512,
}

impl Width {
    /// Asks the processor.
    pub(crate) fn detect() -> Width {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") {
            Width::Avx512
        } else if is_x86_feature_detected!("avx2") {
            Width::Avx2
        } else {
            Width::Sse2
        }
        #[cfg(not(target_arch = "x86_64"))]
        Width::Word
    }

    /// Bytes of one load.
    pub fn bytes(self) -> usize {
        match self {
            Width::Word => 8,
            Width::Sse2 => 16,
            Width::Avx2 => 32,
            Width::Avx512 => 64,
        }
    }

    /// As the report names it.
    pub fn name(self) -> &'static str {
        match self {
            Width::Word => "64-bit",
            Width::Sse2 => "SSE2",
            Width::Avx2 => "AVX2",
            Width::Avx512 => "AVX-512",
        }
    }
}

/// Bytes that a loop over so many lines touches: whole chunks.
pub fn whole(lines: usize) -> usize {
    lines / LINES * CHUNK
}

/// Reads all of it, in order, `reps` times, with the widest loads.
pub fn read(lines: &[Line], reps: usize) {
    let bytes = whole(lines.len());
    if bytes > 0 && reps > 0 {
        // SAFETY: `bytes` lie in `lines` and the loop only reads; the width is what this processor was found
        // to have.
        unsafe { native::read(Width::detect(), lines.as_ptr().cast(), bytes, reps) }
    }
}

/// Writes all of it, in order, `reps` times.
pub fn write(lines: &mut [Line], reps: usize) {
    let bytes = whole(lines.len());
    if bytes > 0 && reps > 0 {
        // SAFETY: `bytes` lie in `lines`, which are borrowed to be written; any bytes are a valid line.
        unsafe { native::write(Width::detect(), lines.as_mut_ptr().cast(), bytes, reps) }
    }
}

/// Writes all of it past the caches, in order, `reps` times. False where this architecture has no such stores
/// here.
pub fn stream(lines: &mut [Line], reps: usize) -> bool {
    let bytes = whole(lines.len());
    if bytes > 0 && reps > 0 {
        // SAFETY: as for `write`.
        return unsafe { native::stream(Width::detect(), lines.as_mut_ptr().cast(), bytes, reps) };
    }
    true
}

/// Copies the first half of it to the second, in order, `reps` times. Returns the bytes copied each time.
pub fn copy(lines: &mut [Line], reps: usize) -> usize {
    let (from, to) = lines.split_at_mut(lines.len() / 2);
    let bytes = whole(from.len());
    if bytes > 0 && reps > 0 {
        // SAFETY: both halves have `bytes`, do not overlap, and the second is borrowed to be written.
        unsafe { native::copy(Width::detect(), to.as_mut_ptr().cast(), from.as_ptr().cast(), bytes, reps) }
    }
    bytes
}

/// Reads one word of 8 bytes in every `stride` words, `reps` times. Returns the words read each time.
pub(crate) fn read_strided(lines: &[Line], stride: usize, reps: usize) -> usize {
    let words = std::mem::size_of_val(lines) / 8 / stride.max(1);
    let words = words / native::UNROLLED * native::UNROLLED;
    if words > 0 && reps > 0 && stride > 0 {
        // SAFETY: `words` of this stride lie in `lines`, and the loop only reads.
        unsafe { native::read_strided(lines.as_ptr().cast(), stride * 8, words, reps) }
    }
    words
}

/// Loads from `steps` (a multiple of four) lines that are picked at random, each only after the one before
/// has come: what it brought is added to the next address. `lines` must hold zeros, so that nothing is added
/// in truth; no processor knows that beforehand. `seed` says which lines.
///
/// The numbers that pick the lines do not depend on the loads, so the processor makes them while it waits,
/// and a step takes as long as a load. Random picks with repetition find a line in a cache of C bytes with
/// the probability C / working set, whatever the cache throws out first: [`levels`](super::levels) builds on
/// that.
pub(crate) fn chase(lines: &[Line], steps: usize, seed: u64) {
    // The loop scales 32 random bits by the number of lines.
    let count = lines.len().min(u32::MAX as usize);
    if count > 0 && steps >= 4 {
        // SAFETY: the picked offsets are below `count` lines, and the loop only reads.
        unsafe { native::chase(lines.as_ptr().cast(), count, steps / 4, seed) }
    }
}

/// What [`chase`] does beside its loads, `steps` (a multiple of four) times: what the harness costs.
pub(crate) fn make_addresses(steps: usize) {
    if steps >= 4 {
        native::make_addresses(steps / 4);
    }
}

/// `steps` instructions of one cycle each, that wait for one another: none where weir knows no such
/// instruction.
pub(crate) fn count_cycles(steps: usize) -> bool {
    native::add_chain(steps)
}

/// `steps` times three cycles, by another instruction. To be compared with [`count_cycles`].
pub(crate) fn count_threes(steps: usize) -> bool {
    native::mul_chain(steps)
}

#[cfg(test)]
mod tests {
    use super::super::arena::{Arena, Pages};
    use super::*;

    /// Words of it, for a test to look at.
    fn words(lines: &[Line]) -> Vec<u64> {
        lines.iter().flat_map(|line| line.words()).collect()
    }

    #[test]
    fn loops_touch_what_they_say() {
        let mut arena = Arena::new(64 << 10, Pages::Small).unwrap();
        let lines = arena.len();
        arena.fill(7);
        // 5000 bytes are four chunks: the rest stays.
        write(&mut arena[..79], 2);
        let seen = words(&arena);
        assert!(seen[..512].iter().all(|word| *word == 0) && seen[512..].iter().all(|word| *word == 7));
        assert_eq!(copy(&mut arena, 1), 32 << 10);
        let seen = words(&arena);
        assert_eq!(seen[..4096], seen[4096..]);
        arena.fill(7);
        if stream(&mut arena, 1) {
            assert!(words(&arena).iter().all(|word| *word == 0));
        }
        read(&arena, 3);
        assert_eq!(read_strided(&arena, 1, 2), lines * 8);
        assert_eq!(read_strided(&arena, 32, 2), lines / 4);
        assert_eq!(read_strided(&arena, 3, 2), lines * 8 / 3 / 8 * 8);
        assert_eq!(read_strided(&arena[..1], 2, 2), 0);
    }

    #[test]
    fn nothing_to_touch_is_no_loop() {
        let mut arena = Arena::new(4096, Pages::Huge).unwrap();
        read(&arena[..3], 1);
        write(&mut arena[..0], 1);
        write(&mut arena, 0);
        assert_eq!(copy(&mut arena[..9], 1), 0);
        chase(&arena[..0], 100, 1);
        chase(&arena, 3, 1);
        make_addresses(0);
    }

    #[test]
    fn a_chase_stays_inside_and_comes_everywhere() {
        // The page behind the arena is not mapped: a step outside would end the test.
        let arena = Arena::new(1 << 20, Pages::Small).unwrap();
        for lines in [1, 2, 3, 1000, arena.len()] {
            chase(&arena[..lines], 100_000, lines as u64);
        }
    }

    #[test]
    fn widths_are_in_order() {
        assert!(Width::detect().bytes() >= 8);
        assert!(Width::Avx512 > Width::Avx2 && Width::Avx2.bytes() == 32);
        assert!(!Width::detect().name().is_empty());
    }
}
