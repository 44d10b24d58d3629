//! QuickLZ 1.5 blocks of levels 1 and 3, without its streaming mode. The library is GPL; encoder and decoder
//! here are written from a public description of the format, and share no code with it.
//!
//! A header of 3 or 9 bytes (flags, packed length with the header, length) is followed by groups: a control
//! word of 32 bits, lowest first, says for each of up to 31 items whether it is a literal (0) or a match (1);
//! its highest bit is set and ends it. No match begins in the last 10 bytes. Level 1 names a match by the
//! hash of its first three bytes, which the decoder keeps too; level 3 by its distance.

use std::cell::RefCell;

use super::matching::{common, repeat, word};
use super::{Refused, Row};

pub(super) const ROW: Row = Row {
    name: "quicklz",
    id: 7,
    levels: &[1, 3],
    default_level: 1,
    about: "qpress's codec; level 1 for text on fast links, level 3 unpacks quickly",
    compress,
    decompress: |input, out| unpack(input, out).ok_or(Refused),
};

const COMPRESSED: u8 = 1;
const LONG_HEADER: u8 = 2;
const LEVEL_SHIFT: u8 = 2;
const ALWAYS: u8 = 0x40;
/// Below this length the header has one byte for each length.
const SHORT_BLOCK: usize = 216;
/// In so many last bytes no match begins, and in the last 4 none reaches.
const TAIL: usize = 10;
const UNMATCHED: usize = 4;
const SLOTS: usize = 1 << 12;
/// Earlier positions that level 3 tries for each hash.
const WAYS: usize = 16;
/// 17 bits of distance.
const FARTHEST: usize = (1 << 17) - 1;
/// Level 3 copies three bytes at once, so nearer ones would overlap.
const NEAREST: usize = 3;
const END_OF_WORD: u32 = 1 << 31;

struct Tables {
    /// Level 1: position + 1 by hash, as encoder and decoder both know it.
    last: Box<[u32; SLOTS]>,
    /// Level 3: position + 1 by hash, the `WAYS` last ones in turn.
    ways: Box<[[u32; WAYS]; SLOTS]>,
    turn: Box<[u8; SLOTS]>,
}

thread_local! {
    static TABLES: RefCell<Tables> = RefCell::new(Tables {
        last: Box::new([0; SLOTS]),
        ways: Box::new([[0; WAYS]; SLOTS]),
        turn: Box::new([0; SLOTS]),
    });
}

/// The three bytes at a position.
#[inline]
fn three(bytes: &[u8], at: usize) -> u32 {
    word(bytes, at) & 0x00FF_FFFF
}

/// The format's own hash: level 1 writes it.
#[inline]
fn slot(value: u32) -> usize {
    ((value >> 12 ^ value) & 0xFFF) as usize
}

fn compress(level: i32, input: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
    let header = if input.len() < SHORT_BLOCK { 3 } else { 9 };
    out.reserve(header + input.len() + input.len() / 31 * 4 + 8);
    out.resize(header, 0);
    let mut items = Items::new(out);
    TABLES.with_borrow_mut(|tables| match level {
        1 => pack_1(input, &mut tables.last, &mut items),
        _ => pack_3(input, tables, &mut items),
    });
    items.finish();
    let mut flags = ALWAYS | (level as u8) << LEVEL_SHIFT | COMPRESSED;
    if out.len() >= header + input.len() {
        flags &= !COMPRESSED;
        out.truncate(header);
        out.extend_from_slice(input);
    }
    let (packed, len) = (out.len() as u32, input.len() as u32);
    if header == 3 {
        out[..3].copy_from_slice(&[flags, packed as u8, len as u8]);
    } else {
        out[0] = flags | LONG_HEADER;
        out[1..5].copy_from_slice(&packed.to_le_bytes());
        out[5..9].copy_from_slice(&len.to_le_bytes());
    }
    Ok(())
}

/// Items on their way out, with the control word that announces them.
struct Items<'a> {
    out: &'a mut Vec<u8>,
    /// Where the open control word lies.
    word_at: usize,
    control: u32,
    count: u32,
}

impl Items<'_> {
    fn new(out: &mut Vec<u8>) -> Items<'_> {
        let word_at = out.len();
        out.extend_from_slice(&[0; 4]);
        Items { out, word_at, control: 0, count: 0 }
    }

    #[inline]
    fn announce(&mut self, is_match: bool) {
        if self.count == 31 {
            self.close();
            self.word_at = self.out.len();
            self.out.extend_from_slice(&[0; 4]);
            (self.control, self.count) = (0, 0);
        }
        self.control |= u32::from(is_match) << self.count;
        self.count += 1;
    }

    fn close(&mut self) {
        let control = self.control | END_OF_WORD;
        self.out[self.word_at..self.word_at + 4].copy_from_slice(&control.to_le_bytes());
    }

    #[inline]
    fn literal(&mut self, byte: u8) {
        self.announce(false);
        self.out.push(byte);
    }

    #[inline]
    fn matched(&mut self, bytes: &[u8]) {
        self.announce(true);
        self.out.extend_from_slice(bytes);
    }

    fn finish(mut self) {
        self.close();
    }
}

/// Puts every position below `end` into the table, as the decoder does when it has their three bytes.
#[inline]
fn learn(bytes: &[u8], last: &mut [u32; SLOTS], learned: &mut usize, end: usize) {
    while *learned < end {
        last[slot(three(bytes, *learned))] = *learned as u32 + 1;
        *learned += 1;
    }
}

fn pack_1(input: &[u8], last: &mut [u32; SLOTS], items: &mut Items<'_>) {
    last.fill(0);
    let (mut at, mut learned) = (0, 0);
    let end = input.len().saturating_sub(TAIL);
    while at < end {
        // The table is the decoder's: of the positions before this one, it knows those whose three bytes it
        // has.
        learn(input, last, &mut learned, at.saturating_sub(2));
        let next = three(input, at);
        let hash = slot(next);
        let seen = last[hash] as usize;
        if seen == 0 || three(input, seen - 1) != next {
            items.literal(input[at]);
            at += 1;
            continue;
        }
        let most = (input.len() - UNMATCHED - at).min(255);
        let len = common(input, seen - 1, at, most);
        let code = (hash as u32) << 4;
        if len < 18 {
            items.matched(&((code | (len as u32 - 2)) as u16).to_le_bytes());
        } else {
            items.matched(&[code as u8, (code >> 8) as u8, len as u8]);
        }
        // Of a match's positions the decoder learns only the first.
        learn(input, last, &mut learned, at + 1);
        at += len;
        learned = at;
    }
    input[at..].iter().for_each(|&byte| items.literal(byte));
}

fn pack_3(input: &[u8], tables: &mut Tables, items: &mut Items<'_>) {
    tables.turn.fill(0);
    tables.ways.as_flattened_mut().fill(0);
    let mut at = 0;
    let end = input.len().saturating_sub(TAIL);
    while at < end {
        let most = (input.len() - UNMATCHED - at).min(255);
        let (distance, len) = farthest_match(input, tables, at, most);
        if len < 3 {
            keep(input, tables, at);
            items.literal(input[at]);
            at += 1;
            continue;
        }
        put_match_3(items, distance as u32, len as u32);
        (at..at + len).for_each(|passed| keep(input, tables, passed));
        at += len;
    }
    input[at..].iter().for_each(|&byte| items.literal(byte));
}

/// Remembers a position in level 3's table.
#[inline]
fn keep(input: &[u8], tables: &mut Tables, at: usize) {
    let slot = slot(three(input, at));
    let turn = tables.turn[slot];
    tables.ways[slot][usize::from(turn) % WAYS] = at as u32 + 1;
    tables.turn[slot] = turn.wrapping_add(1);
}

/// The longest match of the remembered ones, the nearest of equals: distance and length, 0 where there is
/// none.
#[inline]
fn farthest_match(input: &[u8], tables: &Tables, at: usize, most: usize) -> (usize, usize) {
    let next = three(input, at);
    let (mut distance, mut longest) = (0, 0);
    for &seen in &tables.ways[slot(next)] {
        let back = (at + 1).wrapping_sub(seen as usize);
        if seen == 0 || !(NEAREST..=FARTHEST).contains(&back) || three(input, at - back) != next {
            continue;
        }
        let len = common(input, at - back, at, most);
        if len > longest || len == longest && back < distance {
            (distance, longest) = (back, len);
        }
    }
    (distance, longest)
}

fn put_match_3(items: &mut Items<'_>, distance: u32, len: u32) {
    let (code, bytes) = match (len, distance) {
        (3, ..64) => (distance << 2, 1),
        (3, ..0x4000) => (distance << 2 | 1, 2),
        (..19, ..0x400) => (distance << 6 | (len - 3) << 2 | 2, 2),
        (..34, _) => (distance << 7 | (len - 2) << 2 | 3, 3),
        _ => (distance << 15 | (len - 3) << 7 | 3, 4),
    };
    items.matched(&code.to_le_bytes()[..bytes]);
}

fn unpack(input: &[u8], out: &mut [u8]) -> Option<usize> {
    let flags = *input.first()?;
    let (packed, len, body) = if flags & LONG_HEADER == 0 {
        (usize::from(*input.get(1)?), usize::from(*input.get(2)?), input.get(3..)?)
    } else {
        (word(input, 1) as usize, word(input, 5) as usize, input.get(9..)?)
    };
    if packed != input.len() || len != out.len() {
        return None;
    }
    if flags & COMPRESSED == 0 {
        out.copy_from_slice(body.get(..len).filter(|_| body.len() == len)?);
        return Some(len);
    }
    match flags >> LEVEL_SHIFT & 3 {
        1 => TABLES.with_borrow_mut(|tables| unpack_1(body, out, &mut tables.last)),
        3 => unpack_3(body, out),
        _ => None,
    }
}

/// Where the decoder reads: items and the control word that announces them.
struct Reader<'a> {
    body: &'a [u8],
    at: usize,
    control: u32,
}

impl Reader<'_> {
    #[inline]
    fn is_match(&mut self) -> Option<bool> {
        if self.control == 1 {
            self.control = u32::from_le_bytes(*self.body.get(self.at..)?.first_chunk()?);
            self.at += 4;
        }
        let is_match = self.control & 1 == 1;
        // A word of 0 would never end: the highest bit is set in every one.
        self.control = (self.control >> 1 != 0).then_some(self.control >> 1)?;
        Some(is_match)
    }

    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.body.get(self.at)?;
        self.at += 1;
        Some(byte)
    }
}

fn unpack_1(body: &[u8], out: &mut [u8], last: &mut [u32; SLOTS]) -> Option<usize> {
    last.fill(0);
    let mut reader = Reader { body, at: 0, control: 1 };
    let (mut filled, mut learned) = (0, 0);
    let end = out.len().saturating_sub(TAIL);
    while filled < out.len() {
        if !reader.is_match()? {
            out[filled] = reader.byte()?;
            filled += 1;
            if filled < end {
                learn(out, last, &mut learned, filled.saturating_sub(2));
            }
            continue;
        }
        let low = usize::from(reader.byte()?);
        let hash = low >> 4 | usize::from(reader.byte()?) << 4;
        let len = match low & 15 {
            0 => usize::from(reader.byte()?),
            short => short + 2,
        };
        let from = (last[hash] as usize).checked_sub(1)?;
        let start = filled;
        filled = repeat(out, start, start.checked_sub(from)?, len)?;
        learn(out, last, &mut learned, start + 1);
        learned = filled;
    }
    (reader.at == body.len()).then_some(filled)
}

fn unpack_3(body: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut reader = Reader { body, at: 0, control: 1 };
    let mut filled = 0;
    while filled < out.len() {
        if !reader.is_match()? {
            out[filled] = reader.byte()?;
            filled += 1;
            continue;
        }
        let code = word_or_less(body, reader.at);
        let (distance, len, bytes) = match code & 3 {
            0 => ((code & 0xFF) >> 2, 3, 1),
            1 => ((code & 0xFFFF) >> 2, 3, 2),
            2 => ((code & 0xFFFF) >> 6, (code >> 2 & 15) + 3, 2),
            _ if code & 0x7F != 3 => (code >> 7 & 0x1FFFF, (code >> 2 & 31) + 2, 3),
            _ => (code >> 15, (code >> 7 & 255) + 3, 4),
        };
        reader.at = reader.at.checked_add(bytes).filter(|at| *at <= body.len())?;
        filled = repeat(out, filled, distance as usize, len as usize)?;
    }
    (reader.at == body.len()).then_some(filled)
}

/// Four bytes, or at the end of the input those that are left.
#[inline]
fn word_or_less(body: &[u8], at: usize) -> u32 {
    let rest = body.get(at..).unwrap_or_default();
    rest.first_chunk().map_or_else(
        || rest.iter().rev().fold(0, |code, &byte| code << 8 | u32::from(byte)),
        |bytes| u32::from_le_bytes(*bytes),
    )
}
