//! What a run saw, window by window, as `--evidence FILE` keeps it for a bug report.

use std::fs::OpenOptions;
use std::path::Path;

use anyhow::Context;
use weir_model::evidence::Evidence;

/// Says before a run what would keep it from being written after it. A file that is there is not touched yet.
pub fn check(path: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes it, where it is asked for.
pub fn keep(path: Option<&Path>, evidence: &Evidence) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_vec(evidence)?;
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
