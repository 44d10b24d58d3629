//! What unpacking costs, measured here: where both ends share their processors, a codec has to pay for both.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_codec::codec::Codec;
use weir_observe::thread::thread_cpu_now;

/// A block is unpacked for the measurement once in so many, at most.
const SELDOM: u32 = 32;

/// By codec and level.
#[derive(Debug, Default)]
pub(super) struct Unpacking {
    known: BTreeMap<(u8, i32), Known>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// Seconds per byte.
    cost: f64,
    blocks: u32,
}

impl Unpacking {
    /// About the processor time that this block takes to be unpacked to `raw` bytes. Unpacks the first block
    /// of a codec, and later one in [`SELDOM`].
    pub(super) fn cost(&mut self, codec: Codec, level: i32, packed: &[u8], raw: usize) -> Duration {
        let known = self.known.entry((codec.id(), level)).or_default();
        if known.blocks.is_multiple_of(SELDOM) && raw > 0 {
            let mut out = Vec::new();
            let before = thread_cpu_now();
            // The buffer's first touch costs too, so the second time counts.
            let _ = codec.decompress(packed, raw, &mut out);
            let between = thread_cpu_now();
            let _ = codec.decompress(packed, raw, &mut out);
            let spent = thread_cpu_now().saturating_sub(between).min(between.saturating_sub(before));
            known.cost = spent.as_secs_f64() / raw as f64;
        }
        known.blocks = known.blocks.wrapping_add(1);
        Duration::from_secs_f64(known.cost * raw as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacking_costs_something_and_more_for_more_bytes() {
        let raw: Vec<u8> = (0..1u32 << 18).flat_map(|at| (at / 7).to_le_bytes()).collect();
        let codec = Codec::by_id(2).unwrap();
        let mut packed = Vec::new();
        codec.compress(1, &raw, &mut packed).unwrap();
        let mut unpacking = Unpacking::default();
        let whole = unpacking.cost(codec, 1, &packed, raw.len());
        assert!(whole > Duration::ZERO);
        let half = unpacking.cost(codec, 1, &packed, raw.len() / 2);
        assert!(half > whole / 3 && half < whole * 2 / 3, "{half:?} of {whole:?}");
    }
}
