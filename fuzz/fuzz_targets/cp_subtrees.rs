//! What a receiver says that it has: subtrees of any place and size.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_peer::subtrees::{Subtrees, blocks};

fuzz_target!(|input: (u64, Vec<(u8, u64)>)| {
    let (size, nodes) = input;
    let size = size >> 1;
    let mut there = Subtrees::new(size);
    for (level, first) in nodes.into_iter().take(4096) {
        let before = there.clone();
        if !there.insert_node(level, first, [level; 32]) {
            assert_eq!(there, before);
        }
    }
    let missing: u64 = there.missing().iter().map(|run| run.end - run.start).sum();
    assert!(missing <= blocks(size) && there.root().is_some() == (missing == 0));
});
