//! Pages on the disk: `--report` of every command that has a record.

use std::io::Read;
use std::path::Path;

use weir_get::sink::open_to_read;
use weir_report::html::{self, GENERATOR, Run};
use weir_report::schema::Record;

use crate::args::Voice;
use crate::output;
use crate::voice::Usage;

/// Bytes at a page's beginning in which it says what made it.
const HEAD: u64 = 1024;

/// Says before a run what would keep its page from being written after it.
pub fn check(voice: &Voice) -> anyhow::Result<()> {
    let Some(path) = &voice.report else { return Ok(()) };
    if path.as_os_str() == "-" {
        return Err(
            Usage("--report needs a file; for stdout: --json, and weir report - -o -".to_owned()).into()
        );
    }
    output::check(path)
}

/// Writes the page of a run that just ended, where one is asked for.
pub fn keep(voice: &Voice, record: &Record) -> anyhow::Result<()> {
    let Some(path) = &voice.report else { return Ok(()) };
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let text = html::render(&[Run { name, record: record.clone(), notes: Vec::new() }]);
    output::write(path, text.as_bytes())?;
    if !voice.quiet {
        tracing::info!("page: {}", path.display());
    }
    Ok(())
}

/// A page of weir's lies there, or nothing.
pub fn may_replace(path: &Path) -> bool {
    let Ok(file) = open_to_read(path) else { return !path.exists() };
    let mut head = Vec::new();
    let mark = format!("name=\"generator\" content=\"{GENERATOR}\"");
    file.take(HEAD).read_to_end(&mut head).is_ok() && String::from_utf8_lossy(&head).contains(&mark)
}
