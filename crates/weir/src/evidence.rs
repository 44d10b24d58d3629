//! What a run saw, window by window, as `--evidence FILE` keeps it for a bug report.

use std::path::Path;

use weir_model::evidence::Evidence;

use crate::page;

/// Says before a run what would keep it from being written after it.
pub fn check(path: Option<&Path>) -> anyhow::Result<()> {
    path.map_or(Ok(()), page::check_path)
}

/// Writes it, where it is asked for.
pub fn keep(path: Option<&Path>, evidence: &Evidence) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    page::write(path, &serde_json::to_string(evidence)?)
}
