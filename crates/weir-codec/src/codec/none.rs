//! No codec: for links faster than any codec, and for bytes that do not shrink.

use super::{Refused, Row};

pub(super) const ROW: Row = Row {
    name: "none",
    id: 0,
    levels: &[],
    default_level: 0,
    about: "bytes as they are, for fast links and for what does not shrink",
    compress: |_, input, out| {
        out.extend_from_slice(input);
        Ok(())
    },
    decompress: |input, out| {
        out.get_mut(..input.len()).ok_or(Refused)?.copy_from_slice(input);
        Ok(input.len())
    },
};
