//! A block as instructions: what was understood builds a block of at most 1 MiB out of literals that are
//! there.

use weir_cp::wire::patch::{self, Step};

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let Ok((steps, literals)) = patch::parse(bytes) else { return false };
    let (mut size, mut literal) = (0u64, 0);
    for step in &steps {
        let (Step::Copy { len, .. } | Step::Literal { len }) = step;
        size += u64::from(*len);
        literal += if matches!(step, Step::Literal { .. }) { *len as usize } else { 0 };
    }
    assert!(size <= 1 << 20 && literal == literals.len());
    true
}
