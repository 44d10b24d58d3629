//! What a run saw, interval by interval, as `--evidence FILE` keeps it for a bug report.

use std::path::Path;

use weir_model::evidence::Evidence;

use crate::output;
use crate::voice::Usage;

/// Says before a run what would keep it from being written after it. A file that is there is not touched yet.
pub fn check(path: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    if path.as_os_str() == "-" {
        let why = "--evidence needs a file; stdout takes the record alone (--json)";
        return Err(Usage(why.to_owned()).into());
    }
    output::check(path)
}

/// Writes it, where it is asked for.
pub fn keep(path: Option<&Path>, evidence: &Evidence) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_vec(evidence)?;
    output::write(path, &text)
}
