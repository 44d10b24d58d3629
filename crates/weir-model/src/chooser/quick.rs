//! A look at a block that costs microseconds: is it worth compressing at all?
//!
//! Finds archives, pictures, films and encrypted data, whose bytes are evenly distributed and do not repeat.
//! It looks at 16 KiB in sixteen places, so what is random nearby and repeats far away escapes it.

/// Estimates from here on mean that compressing would save nothing worth its time.
pub const DEAD: f64 = 0.96;

/// Places that are looked at.
const PLACES: usize = 16;

/// Bytes at each.
const PLACE: usize = 1024;

/// Slots of the table of repeats: two for each position looked at, so that few push each other out, and all
/// of it (64 KiB) in a stack's and a cache's easy reach. A slot keeps the bits of a word's hash that did not
/// choose it.
const SLOTS: usize = 1 << 15;

/// About what a quick codec would leave of the block, 0 to 1: the entropy of its bytes, less what repeats.
/// Not a prediction, only good enough to tell dead blocks.
pub fn quick_estimate(block: &[u8]) -> f64 {
    if block.is_empty() {
        return 1.0;
    }
    let mut counts = [0u32; 256];
    let mut seen = [0u16; SLOTS];
    let (mut looked, mut positions, mut repeats) = (0usize, 0usize, 0usize);
    for place in places(block) {
        looked += place.len();
        for byte in place {
            counts[usize::from(*byte)] += 1;
        }
        for four in place.windows(4) {
            let word = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
            // Multiplying by an odd number loses nothing: upper 15 bits and lower 16 tell all but two words
            // apart.
            let hash = word.wrapping_mul(0x9e37_79b1);
            let slot = &mut seen[(hash >> 17) as usize];
            // Words whose lower bits are zero look like an empty slot: one in 65536, and zeros, which repeat
            // anyway.
            repeats += usize::from(*slot == hash as u16);
            positions += 1;
            *slot = hash as u16;
        }
    }
    let repeated = repeats as f64 / positions.max(1) as f64;
    entropy(&counts, looked) * (1.0 - repeated)
}

/// Pieces spread evenly; all of it where it is small.
fn places(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let step = (block.len() / PLACES).max(PLACE);
    block.chunks(step).take(PLACES).map(|chunk| &chunk[..chunk.len().min(PLACE)])
}

/// Bits per byte over 8. What few bytes lack of all 256 values by chance is added: (values - 1) / (2 n ln 2)
/// bits (Miller).
fn entropy(counts: &[u32; 256], total: usize) -> f64 {
    let total = total as f64;
    let mut bits = 0.0;
    let mut values = 0;
    for count in counts.iter().filter(|count| **count > 0) {
        let share = f64::from(*count) / total;
        bits -= share * share.log2();
        values += 1;
    }
    let missing = f64::from(values - 1) / (2.0 * total * std::f64::consts::LN_2);
    ((bits + missing) / 8.0).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn noise_is_dead_at_any_length() {
        for length in [4096, 65_536, 1 << 20, (1 << 20) - 7] {
            let estimate = quick_estimate(&noise(length));
            assert!(estimate >= DEAD, "{length}: {estimate}");
        }
    }

    #[test]
    fn what_shrinks_is_not() {
        let text: Vec<u8> =
            (0..60_000u32).flat_map(|line| format!("line {} of a log\n", line * 7919).into_bytes()).collect();
        let letters: Vec<u8> = noise(1 << 20)
            .iter()
            .map(|byte| b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef"[usize::from(*byte & 31)])
            .collect();
        for (name, block) in
            [("text", &text[..1 << 20]), ("zeros", &[0; 1 << 20]), ("letters", &letters), ("a byte", &[7])]
        {
            assert!(quick_estimate(block) < 0.8, "{name}: {}", quick_estimate(block));
        }
        assert_eq!(quick_estimate(&[]), 1.0);
    }
}
