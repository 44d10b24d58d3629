//! zlib streams (RFC 1950 around deflate, RFC 1951), by libdeflate, which packs whole blocks at twice the
//! speed of zlib's streaming loop. What gzip and `scp -C` do, for comparison with them.

use std::cell::RefCell;

use libdeflater::{CompressionLvl, Compressor, Decompressor};

use super::{Refused, Row, write_into};

const STRONGEST: usize = 12;

pub(super) const ROW: Row = Row {
    name: "zlib",
    id: 3,
    levels: &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
    default_level: 6,
    about: "deflate, as gzip and ssh -C use it; zstd is quicker at the same ratio",
    compress,
    decompress,
};

thread_local! {
    // A compressor belongs to one level. Each is made when it is first used: the strongest take 9 MB.
    static PACKING: RefCell<[Option<Compressor>; STRONGEST + 1]> = const { RefCell::new([const { None }; STRONGEST + 1]) };
    static UNPACKING: RefCell<Option<Decompressor>> = const { RefCell::new(None) };
}

fn compress(level: i32, input: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
    let strength = CompressionLvl::new(level).map_err(|_| Refused)?;
    PACKING.with_borrow_mut(|contexts| {
        let slot = usize::try_from(level).ok().and_then(|level| contexts.get_mut(level)).ok_or(Refused)?;
        let context = slot.get_or_insert_with(|| Compressor::new(strength));
        let bound = context.zlib_compress_bound(input.len());
        write_into(out, bound, |out| context.zlib_compress(input, out).map_err(|_| Refused))
    })
}

fn decompress(input: &[u8], out: &mut [u8]) -> Result<usize, Refused> {
    UNPACKING.with_borrow_mut(|context| {
        let context = context.get_or_insert_with(Decompressor::new);
        context.zlib_decompress(input, out).map_err(|_| Refused)
    })
}
