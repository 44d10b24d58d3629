//! `weir completions` and `weir man`: from the same source as the parser.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use clap::CommandFactory;

use crate::args::Cli;
use crate::voice::Printed;

/// Prints completions for `shell`.
pub fn completions(shell: clap_complete::Shell) -> anyhow::Result<u8> {
    // To memory first: what writes it takes a closed pipe for a fault of its own.
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "weir", &mut text);
    std::io::stdout().lock().write_all(&text).printed("the completions")?;
    Ok(0)
}

/// Writes `weir.1`, `weir-get.1` and so on into `folder`.
pub fn pages(folder: &Path) -> anyhow::Result<u8> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    clap_mangen::generate_to(Cli::command(), folder)
        .with_context(|| format!("cannot write man pages into {}", folder.display()))?;
    Ok(0)
}
