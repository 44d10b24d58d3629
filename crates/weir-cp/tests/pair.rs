//! Both ends in one process, with a hand between them: what lanes carry is bent, repeated, cut or held back,
//! and what arrives is still what was sent, or nothing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::sync::atomic::Ordering::Relaxed;

use support::{Bend, Pair, pattern, tree};

const MIB: usize = 1 << 20;

#[test]
fn a_file_arrives() {
    let pair = Pair::new();
    pair.write("a", &pattern(5 * MIB + 1));
    pair.copy(2, Bend::nothing()).expect("a copy");
    assert!(pair.arrived("a"));
}

/// Each lane is bent at one place, the next somewhere else; records are resent over the lanes that follow.
///
/// 120 flips; `WEIR_SOAK=10000` for more, from `WEIR_SEED` on.
#[test]
fn flipped_bytes_never_get_through() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let (wanted, first) = (number("WEIR_SOAK").unwrap_or(120) as usize, number("WEIR_SEED").unwrap_or(0));
    let (mut flips, mut seed) = (0, first);
    while flips < wanted {
        let pair = Pair::new();
        pair.write("a", &pattern(6 * MIB + 13));
        tree(&pair.source("tree"), 40);
        let bend = Bend::flips(seed, if wanted > 1000 { 40 } else { 6 });
        let outcome = pair.copy(1, bend.clone());
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}");
        let bent = bend.bent.load(Relaxed);
        assert!(bent > 0, "seed {seed}: nothing was bent");
        assert!(pair.arrived("a") && pair.arrived("tree"), "seed {seed}: a wrong byte got through");
        flips += bent;
        seed += 1;
    }
    println!("{flips} flips in {} copies (seeds {first} to {}), no byte wrong", seed - first, seed - 1);
}

#[test]
fn a_repeated_record_ends_its_lane_and_nothing_else() {
    let pair = Pair::new();
    pair.write("a", &pattern(6 * MIB));
    let bend = Bend::repeats();
    pair.copy(1, bend.clone()).expect("a copy");
    assert!(bend.bent.load(Relaxed) > 0);
    assert!(pair.arrived("a"));
}

#[test]
fn lanes_that_are_cut_are_replaced() {
    let pair = Pair::new();
    pair.write("a", &pattern(12 * MIB));
    let bend = Bend::cuts(4);
    pair.copy(2, bend.clone()).expect("a copy");
    assert!(bend.bent.load(Relaxed) > 0);
    assert!(pair.arrived("a"));
}
