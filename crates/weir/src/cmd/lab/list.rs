//! `weir lab list`: which scenarios come with weir?

use crate::voice::Printed;
use std::io::Write;

use weir_lab::scenario;

/// One line each: name and title.
pub fn run() -> anyhow::Result<u8> {
    let mut stdout = std::io::stdout().lock();
    for name in scenario::names() {
        let scenario = scenario::shipped(name)?;
        writeln!(stdout, "{name:<4} {}", scenario.title).printed("what it shows")?;
    }
    Ok(0)
}
