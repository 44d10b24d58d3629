//! A recipe off the wire: its pieces follow each other without a gap, and none leaves an old version that it
//! fits.

use weir_tree::delta::{Op, Recipe};

use crate::Input;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let (old_size, bytes) = (input.long(), input.rest());
    let Ok(recipe) = postcard::from_bytes::<Recipe>(bytes) else { return false };
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
    true
}
