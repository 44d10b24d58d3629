//! What the byte-oriented codecs share: finding earlier bytes that repeat, and copying them again.

/// The four bytes at `at`, first byte lowest; 0 past the end.
#[inline]
pub(super) fn word(input: &[u8], at: usize) -> u32 {
    input.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// A hash of `bits` bits. Knuth's multiplier, the golden ratio times 2^32: its high bits depend on every
/// byte.
#[inline]
pub(super) fn hash(value: u32, bits: u32) -> usize {
    (value.wrapping_mul(0x9E37_79B1) >> (32 - bits)) as usize
}

/// How many bytes from `a` and from `b` (a before b) are equal, at most `most` and not past the end.
#[inline]
pub(super) fn common(input: &[u8], a: usize, b: usize, most: usize) -> usize {
    let end = most.min(input.len() - b);
    let (left, right) = (&input[a..a + end], &input[b..b + end]);
    let mut len = 0;
    while let (Some(x), Some(y)) = (left[len..].first_chunk::<8>(), right[len..].first_chunk::<8>()) {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differ != 0 {
            return len + (differ.trailing_zeros() / 8) as usize;
        }
        len += 8;
    }
    while len < end && left[len] == right[len] {
        len += 1;
    }
    len
}

/// Repeats `len` bytes from `distance` before `at`, which may overlap what they write. `None` if they reach
/// before the first byte or past the last. May leave other bytes after the copy, inside `out`, which later
/// copies overwrite.
#[inline]
pub(super) fn repeat(out: &mut [u8], at: usize, distance: usize, len: usize) -> Option<usize> {
    let end = at.checked_add(len).filter(|end| *end <= out.len())?;
    let from = at.checked_sub(distance).filter(|_| distance > 0)?;
    // Most matches are short: one fixed copy of 16 bytes costs less than a call that asks for the length.
    if len <= 16 && distance >= 16 && at + 16 <= out.len() {
        let piece: [u8; 16] = *out[from..].first_chunk()?;
        *out[at..].first_chunk_mut()? = piece;
        return Some(end);
    }
    // Overlap: each round doubles what can be copied at once.
    let mut done = 0;
    while done < len {
        let piece = (distance + done).min(len - done);
        out.copy_within(from..from + piece, at + done);
        done += piece;
    }
    Some(end)
}

/// Copies `len` bytes of input as they are; the same bounds and the same freedom after the copy as
/// [`repeat`].
#[inline]
pub(super) fn literals(
    input: &[u8],
    from: usize,
    out: &mut [u8],
    at: usize,
    len: usize,
) -> Option<(usize, usize)> {
    let (read, end) = (from.checked_add(len)?, at.checked_add(len)?);
    if len <= 32 && from + 32 <= input.len() && at + 32 <= out.len() {
        let piece: [u8; 32] = *input[from..].first_chunk()?;
        *out[at..].first_chunk_mut()? = piece;
        return Some((read, end));
    }
    out.get_mut(at..end)?.copy_from_slice(input.get(from..read)?);
    Some((read, end))
}

/// What matches a format can express.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The shortest match that pays: 3 or 4.
    pub shortest: usize,
    /// The longest one.
    pub longest: usize,
    /// Beyond this distance a match costs more bytes, so it must be at least 5 long.
    pub near: usize,
    /// The farthest distance.
    pub farthest: usize,
}

/// Positions by the hash of what begins there: 2^14 of them, 64 KiB, half of a core's fast L1/L2 share; twice
/// as many pack 1 % better and run a tenth slower on text.
pub(super) const TABLE_BITS: u32 = 14;

/// One for each position plus one, 0 where there is none.
pub(super) type Table = [u32; 1 << TABLE_BITS];

/// Divides a block greedily into literals followed by a match: `emit(literals, distance, len)`. The last call
/// may have no match, which is length 0. The table holds nothing of earlier blocks, so equal blocks pack to
/// equal bytes.
#[inline]
pub(super) fn parse(
    input: &[u8],
    table: &mut Table,
    limits: Limits,
    mut emit: impl FnMut(&[u8], usize, usize),
) {
    table.fill(0);
    let mask = if limits.shortest == 3 { 0x00FF_FFFF } else { u32::MAX };
    let (mut anchor, mut at) = (0, 0);
    while at + 4 <= input.len() {
        let next = word(input, at) & mask;
        let slot = &mut table[hash(next, TABLE_BITS)];
        let seen = std::mem::replace(slot, at as u32 + 1) as usize;
        let distance = (at + 1).wrapping_sub(seen);
        if seen == 0 || distance > limits.farthest || word(input, at - distance) & mask != next {
            // Where nothing repeats for long, look less often: 64 misses make each step one byte longer.
            at += 1 + ((at - anchor) >> 6);
            continue;
        }
        let len = common(input, at - distance, at, limits.longest);
        if distance > limits.near && len < 5 {
            at += 1;
            continue;
        }
        emit(&input[anchor..at], distance, len);
        at += len;
        anchor = at;
        // The bytes before the next position are likely to be seen again together with it.
        if at + 2 <= input.len() {
            table[hash(word(input, at - 2) & mask, TABLE_BITS)] = at as u32 - 1;
        }
    }
    if anchor < input.len() {
        emit(&input[anchor..], 0, 0);
    }
}
