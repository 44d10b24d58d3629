//! `weir lab list`: which scenarios come with weir?

use std::io::Write;

use weir_lab::scenario;

use crate::voice::Printed;

/// One line each: name and title.
pub fn run() -> anyhow::Result<u8> {
    let mut stdout = std::io::stdout().lock();
    let width = scenario::names().map(str::len).max().unwrap_or_default();
    for name in scenario::names() {
        let scenario = scenario::shipped(name)?;
        writeln!(stdout, "{name:<width$} {}", scenario.title).printed("what it shows")?;
    }
    Ok(0)
}
