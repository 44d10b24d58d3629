//! FastLZ. Level 1 is [`bytewise`]; level 2 says so in the first byte, writes longer lengths as sums, and
//! reaches farther:
//!
//! | in place of | level 2 has |
//! | --- | --- |
//! | length byte N | bytes of 255 that add up, and one below 255 that ends them |
//! | distance bits all ones | 16 bits more, high byte first: D + 8192 |

use std::cell::RefCell;

use super::bytewise::{self, LONGEST, NEAR};
use super::matching::{Limits, TABLE_BITS, Table, literals, parse, repeat};
use super::{Refused, Row};

pub(super) const ROW: Row = Row {
    name: "fastlz",
    id: 8,
    levels: &[1, 2],
    default_level: 1,
    about: "tiny and light, as lzf; level 2 for blocks over 8 KiB",
    compress,
    decompress: |input, out| match input.first() {
        Some(first) if first >> 5 == 0 => bytewise::unpack(input, out).ok_or(Refused),
        Some(first) if first >> 5 == 1 => unpack_far(input, out).ok_or(Refused),
        _ => Err(Refused),
    },
};

const LIMITS: Limits = Limits { shortest: 3, longest: LONGEST, near: NEAR, farthest: NEAR };
/// In level 2 thirteen ones announce a far distance, so the near ones end one earlier.
const LAST_NEAR: usize = NEAR - 1;
const FAR_LIMITS: Limits =
    Limits { shortest: 3, longest: usize::MAX, near: LAST_NEAR, farthest: NEAR + u16::MAX as usize };

thread_local! {
    static TABLE: RefCell<Box<Table>> = RefCell::new(Box::new([0; 1 << TABLE_BITS]));
}

fn compress(level: i32, input: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
    out.reserve(bytewise::bound(input.len()));
    TABLE.with_borrow_mut(|table| match level {
        1 => parse(input, table, LIMITS, |literals, distance, len| {
            bytewise::put_literals(out, literals);
            if len > 0 {
                bytewise::put_match(out, distance, len);
            }
        }),
        _ => parse(input, table, FAR_LIMITS, |literals, distance, len| {
            bytewise::put_literals(out, literals);
            if len > 0 {
                put_far(out, distance, len);
            }
        }),
    });
    if level == 2
        && let Some(first) = out.first_mut()
    {
        *first |= 1 << 5;
    }
    Ok(())
}

fn put_far(out: &mut Vec<u8>, distance: usize, len: usize) {
    let back = if distance <= LAST_NEAR { distance - 1 } else { NEAR - 1 };
    let high = (back >> 8) as u8;
    match len - 2 {
        short @ 1..=6 => out.push((short as u8) << 5 | high),
        long => {
            out.push(7 << 5 | high);
            let mut rest = long - 7;
            while rest >= 255 {
                out.push(255);
                rest -= 255;
            }
            out.push(rest as u8);
        }
    }
    out.push(back as u8);
    if distance > LAST_NEAR {
        out.extend_from_slice(&((distance - NEAR) as u16).to_be_bytes());
    }
}

fn unpack_far(input: &[u8], out: &mut [u8]) -> Option<usize> {
    let (mut at, mut filled) = (0, 0);
    while let Some(&byte) = input.get(at) {
        // The first byte's high bits are the level; a block always begins with literals.
        let first = if at == 0 { byte & 31 } else { byte };
        at += 1;
        if first < 32 {
            (at, filled) = literals(input, at, out, filled, usize::from(first) + 1)?;
            continue;
        }
        let mut next = || {
            let byte = *input.get(at)?;
            at += 1;
            Some(usize::from(byte))
        };
        let mut len = usize::from(first >> 5) + 2;
        if len == 9 {
            loop {
                let more = next()?;
                len += more;
                if more != 255 {
                    break;
                }
            }
        }
        let mut distance = (usize::from(first & 31) << 8 | next()?) + 1;
        if distance == NEAR {
            distance += next()? << 8 | next()?;
        }
        filled = repeat(out, filled, distance, len)?;
    }
    Some(filled)
}
