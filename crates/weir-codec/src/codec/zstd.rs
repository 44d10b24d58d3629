//! Zstandard frames (RFC 8878), each with its content size and no checksum: the digest of the whole travels
//! elsewhere.

use std::cell::RefCell;

use zstd_safe::{CCtx, CParameter, DCtx, compress_bound};

use super::{Refused, Row};

pub(super) const ROW: Row = Row {
    name: "zstd",
    id: 2,
    // Below 1 the library trades ratio for speed by skipping positions; from -7 on it is no faster than lz4,
    // and packs less.
    levels: &[
        -7, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
        21, 22,
    ],
    default_level: 3,
    about: "from quick to strong in 29 levels, unpacks equally fast from each",
    compress,
    decompress,
};

thread_local! {
    static PACKING: RefCell<Option<CCtx<'static>>> = const { RefCell::new(None) };
    static UNPACKING: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// From this level on the library's tables for a block of 1 MiB take 5 to 17 MiB a thread.
const LARGE_TABLES: i32 = 7;

/// There they get this many entries, as a power of two: 3 MiB up to level 12 and 5 MiB beyond, so that with
/// blocks of 1 MiB on their way 17 threads take some 90 MiB, and 130 beyond. Of text, such a block becomes
/// 0.6 % larger at levels 7 to 12 and 1.9 % at 19, and is packed 1.1 times as fast at 9, 1.3 times at 12 and
/// 1.5 times at 19: what does not fit the processor's cache costs more than it finds.
const ENTRIES: u32 = 19;

/// For several blocks at once, which only few threads pack at a time, twice as many: 5.5 MiB. Four of text
/// become 1.7 % smaller at level 12, in 1.2 times the time.
const MORE_ENTRIES: u32 = ENTRIES + 1;

/// From more than this on: a block.
const SEVERAL: usize = 1 << 20;

fn compress(level: i32, input: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
    out.reserve(compress_bound(input.len()));
    PACKING.with_borrow_mut(|context| {
        let context = context.get_or_insert_with(CCtx::create);
        // 0: as the level has it.
        let entries = match level >= LARGE_TABLES {
            true if input.len() > SEVERAL => MORE_ENTRIES,
            true => ENTRIES,
            false => 0,
        };
        let wanted = [
            CParameter::CompressionLevel(level),
            CParameter::HashLog(entries),
            CParameter::ChainLog(entries),
        ];
        wanted
            .into_iter()
            .try_for_each(|parameter| context.set_parameter(parameter).map(drop))
            .map_err(|_| Refused)?;
        context.compress2(out, input).map(drop).map_err(|_| Refused)
    })
}

fn decompress(input: &[u8], out: &mut [u8]) -> Result<usize, Refused> {
    // In one piece: zstd then writes straight into `out` and allocates no window, whatever the frame asks
    // for.
    UNPACKING.with_borrow_mut(|context| {
        let context = context.get_or_insert_with(DCtx::create);
        context.decompress(out, input).map_err(|_| Refused)
    })
}
