//! LZO1X streams, which the LZO library's variants 1X-1 to 1X-999 write and all read. Encoder and decoder are
//! written from the stream's published description, because the library itself is GPL.
//!
//! | first byte | then | means |
//! | --- | --- | --- |
//! | `0000LLLL` after a match without literals | L + 3 literals (L = 0: a length follows, plus 15) | these bytes |
//! | `0000DDSS` after 1 to 3 literals | H | 2 bytes from distance 4H + D + 1 |
//! | `0000DDSS` after more literals | H | 3 bytes from distance 4H + D + 2049 |
//! | `0001HLLL` | 16 bits `D << 2 \| SS` | L + 2 bytes (L = 0: a length follows, plus 7) from 16384 + 16384H + D |
//! | `001LLLLL` | 16 bits `D << 2 \| SS` | L + 2 bytes (L = 0: a length follows, plus 31) from distance D + 1 |
//! | `LLLDDDSS`, L from 2 | H | L + 1 bytes from distance 8H + D + 1 |
//!
//! SS is the number of literals right after the match. A length is a sum: zero bytes of 255 each, and one
//! that ends it. The first byte of a stream may be 17 + the number of literals it begins with. Distance 16384
//! ends the stream.

use std::cell::RefCell;

use super::matching::{Limits, TABLE_BITS, Table, literals, parse, repeat};
use super::{Refused, Row};

pub(super) const ROW: Row = Row {
    name: "lzo",
    id: 5,
    levels: &[],
    default_level: 0,
    about: "LZO1X, light, in kernels and lzop; lz4 is quicker",
    compress,
    decompress: |input, out| unpack(input, out).ok_or(Refused),
};

const NEAR: usize = 1 << 11;
const MIDDLE: usize = 1 << 14;
/// One bit and 14 beyond the middle.
const FAR: usize = MIDDLE + (1 << 15) - 1;
const END: [u8; 3] = [0x11, 0, 0];

// Four bytes at least: a match beyond `NEAR` costs three.
const LIMITS: Limits = Limits { shortest: 4, longest: usize::MAX, near: MIDDLE, farthest: FAR };

thread_local! {
    static TABLE: RefCell<Box<Table>> = RefCell::new(Box::new([0; 1 << TABLE_BITS]));
}

fn compress(_: i32, input: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
    // One length byte for each 255 literals, and the end.
    out.reserve(input.len() + input.len() / 255 + 16);
    TABLE.with_borrow_mut(|table| {
        parse(input, table, LIMITS, |literals, distance, len| {
            put_literals(out, literals);
            if len > 0 {
                put_match(out, distance, len);
            }
        });
    });
    out.extend_from_slice(&END);
    Ok(())
}

fn put_literals(out: &mut Vec<u8>, bytes: &[u8]) {
    match (bytes.len(), out.len()) {
        (0, _) => {}
        (count @ 1..=238, 0) => out.push(17 + count as u8),
        // SS lies in the last byte but one of every kind of match.
        (count @ 1..=3, written) => out[written - 2] |= count as u8,
        (count @ 4..=18, _) => out.push(count as u8 - 3),
        (count, _) => {
            out.push(0);
            put_length(out, count - 18);
        }
    }
    out.extend_from_slice(bytes);
}

fn put_match(out: &mut Vec<u8>, distance: usize, len: usize) {
    if len <= 8 && distance <= NEAR {
        let back = distance - 1;
        out.push((len as u8 - 1) << 5 | (back as u8 & 7) << 2);
        out.push((back >> 3) as u8);
        return;
    }
    let (kind, most, back) = match distance {
        ..=MIDDLE => (0x20, 33, distance - 1),
        _ => (0x10 | ((distance - MIDDLE) >> 11) as u8 & 8, 9, distance - MIDDLE),
    };
    if len <= most {
        out.push(kind | (len as u8 - 2));
    } else {
        out.push(kind);
        put_length(out, len - most);
    }
    out.extend_from_slice(&[(back << 2) as u8, (back >> 6) as u8]);
}

fn put_length(out: &mut Vec<u8>, mut rest: usize) {
    while rest > 255 {
        out.push(0);
        rest -= 255;
    }
    out.push(rest as u8);
}

/// Bytes of a stream, front to back.
struct Source<'a> {
    input: &'a [u8],
    at: usize,
}

impl Source<'_> {
    #[inline]
    fn byte(&mut self) -> Option<usize> {
        let byte = *self.input.get(self.at)?;
        self.at += 1;
        Some(usize::from(byte))
    }

    /// `bits`, or where they are 0 the length that follows plus `base`.
    #[inline]
    fn length(&mut self, bits: usize, base: usize) -> Option<usize> {
        if bits != 0 {
            return Some(bits);
        }
        let mut sum = base;
        loop {
            match self.byte()? {
                0 => sum += 255,
                last => return Some(sum + last),
            }
        }
    }
}

fn unpack(input: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut source = Source { input, at: 0 };
    let mut filled = 0;
    // Literals since the last match, where 4 stands for all above 3.
    let mut since = 0;
    if let first @ 18.. = *input.first()? {
        let count = usize::from(first - 17);
        (source.at, filled) = literals(input, 1, out, 0, count)?;
        since = count.min(4);
    }
    loop {
        let op = source.byte()?;
        let (len, distance, tail) = match (op, since) {
            (..16, 0) => {
                let count = source.length(op, 15)? + 3;
                (source.at, filled) = literals(input, source.at, out, filled, count)?;
                since = 4;
                continue;
            }
            (..16, 4) => (3, (source.byte()? << 2) + (op >> 2) + NEAR + 1, op),
            (..16, _) => (2, (source.byte()? << 2) + (op >> 2) + 1, op),
            (..64, _) => {
                let far = op < 32;
                let len = if far { source.length(op & 7, 7)? } else { source.length(op & 31, 31)? } + 2;
                let pair = source.byte()? | source.byte()? << 8;
                let back = pair >> 2;
                let distance = if far { MIDDLE + ((op & 8) << 11) + back } else { back + 1 };
                if far && distance == MIDDLE {
                    return (len == 3 && source.at == input.len()).then_some(filled);
                }
                (len, distance, pair)
            }
            _ => ((op >> 5) + 1, (source.byte()? << 3) + (op >> 2 & 7) + 1, op),
        };
        filled = repeat(out, filled, distance, len)?;
        since = tail & 3;
        (source.at, filled) = literals(input, source.at, out, filled, since)?;
    }
}
