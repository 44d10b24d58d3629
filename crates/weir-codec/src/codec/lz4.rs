//! LZ4 blocks (no frame: length and digest travel beside them), by the C library.
//!
//! Why the C library and not a Rust one: docs/decisions/0006-lz4-in-c.md.

use lz4::block::{CompressionMode, compress_bound, compress_to_buffer, decompress_to_buffer};

use super::{Refused, Row, write_into};

pub(super) const ROW: Row = Row {
    name: "lz4",
    id: 1,
    // 1 is the quick way; from 3 on the library searches chains of matches, from 10 on for the cheapest
    // parse.
    levels: &[1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
    default_level: 1,
    about: "quick both ways, the light codec for links of some Gbit/s",
    compress,
    decompress,
};

fn compress(level: i32, input: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
    let mode = match level {
        1 => CompressionMode::DEFAULT,
        strong => CompressionMode::HIGHCOMPRESSION(strong),
    };
    let bound = compress_bound(input.len()).map_err(|_| Refused)?;
    write_into(out, bound, |out| compress_to_buffer(input, Some(mode), false, out).map_err(|_| Refused))
}

fn decompress(input: &[u8], out: &mut [u8]) -> Result<usize, Refused> {
    let len = i32::try_from(out.len()).map_err(|_| Refused)?;
    decompress_to_buffer(input, Some(len), out).map_err(|_| Refused)
}
