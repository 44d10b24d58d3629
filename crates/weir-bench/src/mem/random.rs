//! Random numbers for the loops, which have to make them in a few instructions.

/// The multiplier of a linear congruential generator modulo 2^64 (Knuth, MMIX); its upper bits are good.
pub(crate) const FACTOR: u64 = 6_364_136_223_846_793_005;

/// What it adds.
pub(crate) const INCREMENT: u64 = 1_442_695_040_888_963_407;

/// Numbers that lie together come out far apart (the finaliser of SplitMix64).
pub fn mixed(seed: u64) -> u64 {
    let x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
