//! What a receiver says that it has, and what a sender says is a hole: subtrees and runs of any place and
//! size.

use weir_cp::subtrees::{Subtrees, blocks};

use crate::Input;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let size = input.long() >> 1;
    let mut nodes = Vec::new();
    while !input.0.is_empty() && nodes.len() < 4096 {
        nodes.push((input.byte(), input.long()));
    }
    let mut understood = false;
    let mut there = Subtrees::new(size);
    for (level, first) in nodes.iter().copied() {
        let before = there.clone();
        match there.insert_node(level, first, [level; 32]) {
            true => understood = true,
            false => assert_eq!(there, before),
        }
    }
    if let Some((level, first)) = nodes.last() {
        there.insert_zeros(*first..first.saturating_add(1 << (level % 64)));
    }
    let missing: u64 = there.missing().iter().map(|run| run.end - run.start).sum();
    assert!(missing <= blocks(size) && there.root().is_some() == (missing == 0));
    understood
}
