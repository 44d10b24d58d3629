//! The kinds of pictures, one file each: pure functions from a record's figures to a figure on the page.

pub mod bars;
pub mod codecs;
pub mod curves;
pub mod fleet;
pub mod gains;
pub mod heat;
pub mod lanes;
pub mod mountain;
pub mod pipeline;
pub mod rate;
pub mod shares;
pub mod spectrum;
