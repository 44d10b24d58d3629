//! `weir lab list`: which scenarios come with weir?

use std::io::Write;

use anyhow::Context;
use weir_lab::scenario;

/// One line each: name and title.
pub fn run() -> anyhow::Result<u8> {
    let mut stdout = std::io::stdout().lock();
    for name in scenario::names() {
        let scenario = scenario::shipped(name)?;
        writeln!(stdout, "{name:<4} {}", scenario.title).context("cannot print")?;
    }
    Ok(0)
}
