//! A recipe off the wire: its pieces follow each other without a gap, and none leaves an old version that it fits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_tree::delta::{Op, Recipe};

fuzz_target!(|input: (u64, &[u8])| {
    let (old_size, bytes) = input;
    let Ok(recipe) = postcard::from_bytes::<Recipe>(bytes) else { return };
    let fits = recipe.fits(old_size);
    let (mut end, mut literal) = (0, 0);
    for op in recipe.ops() {
        let (start, length) = match op {
            Op::Copy { at, from, length } => {
                assert!(!fits || from.checked_add(length).is_some_and(|end| end <= old_size));
                (at, length)
            }
            Op::Literal { at, length } => {
                literal += length;
                (at, length)
            }
        };
        assert!(start == end && length > 0);
        end += length;
    }
    assert_eq!((end, literal), (recipe.size(), recipe.literal()));
});
