//! Brotli streams (RFC 7932).
//!
//! The encoder cannot be reset, so each block allocates its tables: some 10 MB from level 5 on. It pays on
//! links so slow that this does not count.

use brotli::enc::{BrotliCompressCustomAlloc, BrotliEncoderParams, StandardAlloc};
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};

use super::{Refused, Row};

pub(super) const ROW: Row = Row {
    name: "brotli",
    id: 9,
    levels: &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
    default_level: 5,
    about: "strong on text, slow; for links of a few Mbit/s",
    compress,
    decompress,
};

/// Brotli's smallest and largest windows, as powers of two (RFC 7932, section 9.1).
const WINDOWS: std::ops::RangeInclusive<u32> = 10..=24;

fn compress(level: i32, input: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
    // A window that just covers the block: the decoder allocates it.
    let window = input.len().next_power_of_two().trailing_zeros().clamp(*WINDOWS.start(), *WINDOWS.end());
    let params = BrotliEncoderParams {
        quality: level,
        lgwin: window as i32,
        size_hint: input.len(),
        ..BrotliEncoderParams::default()
    };
    // The encoder gathers its input in a ring of its own; pieces of 64 KiB keep its loop short and the stack
    // small.
    let (mut from, mut to) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    BrotliCompressCustomAlloc(&mut &*input, out, &mut from, &mut to, &params, StandardAlloc::default())
        .map(drop)
        .map_err(|_| Refused)
}

fn decompress(input: &[u8], out: &mut [u8]) -> Result<usize, Refused> {
    // Strict: without it a stream of a few bytes may ask for a window of 1 GiB (the "large window"
    // extension).
    let mut state =
        BrotliState::new_strict(StandardAlloc::default(), StandardAlloc::default(), StandardAlloc::default());
    let (mut left, mut read, mut room, mut filled, mut total) = (input.len(), 0, out.len(), 0, 0);
    let result = BrotliDecompressStream(
        &mut left,
        &mut read,
        input,
        &mut room,
        &mut filled,
        out,
        &mut total,
        &mut state,
    );
    match result {
        BrotliResult::ResultSuccess if left == 0 => Ok(filled),
        _ => Err(Refused),
    }
}
