//! What a receiver says that it has, and what a sender says is a hole: subtrees and runs of any place and size.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_peer::subtrees::{Subtrees, blocks};

fuzz_target!(|input: (u64, Vec<(u8, u64)>)| {
    let (size, nodes) = input;
    let size = size >> 1;
    let mut there = Subtrees::new(size);
    for (level, first) in nodes.iter().copied().take(4096) {
        let before = there.clone();
        if !there.insert_node(level, first, [level; 32]) {
            assert_eq!(there, before);
        }
    }
    if let Some((level, first)) = nodes.last() {
        there.insert_zeros(*first..first.saturating_add(1 << (level % 64)));
    }
    let missing: u64 = there.missing().iter().map(|run| run.end - run.start).sum();
    assert!(missing <= blocks(size) && there.root().is_some() == (missing == 0));
});
