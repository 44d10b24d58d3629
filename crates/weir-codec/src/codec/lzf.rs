//! LZF, as liblzf writes it: [`bytewise`] without anything around it.

use std::cell::RefCell;

use super::bytewise::{self, LONGEST, NEAR};
use super::matching::{Limits, TABLE_BITS, Table, parse};
use super::{Refused, Row};

pub(super) const ROW: Row = Row {
    name: "lzf",
    id: 6,
    levels: &[],
    default_level: 0,
    about: "tiny and light, in many older tools; lz4 is quicker",
    compress,
    decompress: |input, out| bytewise::unpack(input, out).ok_or(Refused),
};

const LIMITS: Limits = Limits { shortest: 3, longest: LONGEST, near: NEAR, farthest: NEAR };

thread_local! {
    static TABLE: RefCell<Box<Table>> = RefCell::new(Box::new([0; 1 << TABLE_BITS]));
}

fn compress(_: i32, input: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
    out.reserve(bytewise::bound(input.len()));
    TABLE.with_borrow_mut(|table| {
        parse(input, table, LIMITS, |literals, distance, len| {
            bytewise::put_literals(out, literals);
            if len > 0 {
                bytewise::put_match(out, distance, len);
            }
        });
    });
    Ok(())
}
