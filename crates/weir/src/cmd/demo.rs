//! `weir demo`.

use crate::args::Demo;

/// Shows the scenes.
pub fn run(_: &Demo) -> anyhow::Result<u8> {
    Ok(0)
}
