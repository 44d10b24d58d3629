//! Snappy's raw format: no frame, the length in front.

use std::cell::RefCell;

use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

use super::{Refused, Row, write_into};

pub(super) const ROW: Row = Row {
    name: "snappy",
    id: 4,
    levels: &[],
    default_level: 0,
    about: "light, packs a little less than lz4",
    compress,
    decompress,
};

thread_local! {
    static PACKING: RefCell<Encoder> = RefCell::new(Encoder::new());
}

fn compress(_: i32, input: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
    PACKING.with_borrow_mut(|encoder| {
        write_into(out, max_compress_len(input.len()), |out| {
            encoder.compress(input, out).map_err(|_| Refused)
        })
    })
}

fn decompress(input: &[u8], out: &mut [u8]) -> Result<usize, Refused> {
    match decompress_len(input) {
        Ok(len) if len == out.len() => Decoder::new().decompress(input, out).map_err(|_| Refused),
        _ => Err(Refused),
    }
}
