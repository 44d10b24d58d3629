//! Pages on the disk: what `weir report` writes, and `--report` of every command that has a record.
//!
//! A page is whole or not there: it is written under another name in the same folder and then renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use weir_report::html::{self, GENERATOR, Run};
use weir_report::schema::Record;

use crate::args::Voice;
use crate::voice::Usage;

/// Bytes at a page's beginning in which it says what made it.
const HEAD: u64 = 1024;

/// Says before a run what would keep its page from being written after it.
pub fn check(voice: &Voice) -> anyhow::Result<()> {
    let Some(path) = &voice.report else { return Ok(()) };
    if path.as_os_str() == "-" {
        return Err(
            Usage("--report wants a file; for stdout: --json, and weir report - -o -".to_owned()).into()
        );
    }
    let place = Place::of(path)?;
    if place.straight {
        return Ok(());
    }
    let (temporary, file) = place.temporary()?;
    drop(file);
    fs::remove_file(&temporary).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes the page of a run that just ended, where one is asked for.
pub fn keep(voice: &Voice, record: &Record) -> anyhow::Result<()> {
    let Some(path) = &voice.report else { return Ok(()) };
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let text = html::render(&[Run { name, record: record.clone(), notes: Vec::new() }]);
    write(path, &text)?;
    if !voice.quiet {
        tracing::info!("page: {}", path.display());
    }
    Ok(())
}

/// Writes a page, in place of what is there.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let place = Place::of(path)?;
    let cannot = || format!("cannot write {}", path.display());
    if place.straight {
        let mut file = OpenOptions::new().write(true).open(&place.path).with_context(cannot)?;
        return file.write_all(text.as_bytes()).with_context(cannot);
    }
    let (temporary, mut file) = place.temporary()?;
    let written = file.write_all(text.as_bytes()).and_then(|()| fs::rename(&temporary, &place.path));
    if written.is_err() {
        // What cannot be taken away is at least not under the page's name.
        let _ = fs::remove_file(&temporary);
    }
    written.with_context(cannot)
}

/// A page of weir's lies there, or nothing.
pub fn may_replace(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return !path.exists() };
    let mut head = Vec::new();
    let mark = format!("name=\"generator\" content=\"{GENERATOR}\"");
    file.take(HEAD).read_to_end(&mut head).is_ok() && String::from_utf8_lossy(&head).contains(&mark)
}

/// Where a page goes.
struct Place {
    /// The file, links followed.
    path: PathBuf,
    /// It is no file (a pipe, a terminal): nothing to rename.
    straight: bool,
}

impl Place {
    fn of(path: &Path) -> anyhow::Result<Place> {
        let cannot = || format!("cannot write {}", path.display());
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                anyhow::bail!("cannot write {}: it is a folder; name a file in it", path.display())
            }
            Ok(found) if !found.is_file() => Ok(Place { path: path.to_owned(), straight: true }),
            // A link stays one; what it points to is replaced.
            Ok(_) => Ok(Place { path: path.canonicalize().with_context(cannot)?, straight: false }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Place { path: end_of_links(path), straight: false })
            }
            Err(error) => Err(error).with_context(cannot),
        }
    }

    /// A new file beside it.
    fn temporary(&self) -> anyhow::Result<(PathBuf, File)> {
        let cannot = || format!("cannot write {}", self.path.display());
        let mut name = std::ffi::OsString::from(".");
        let page = self.path.file_name().context("expected a file's name for the page")?;
        // Room for the number within the 255 bytes of a name.
        if page.len() > 230 {
            name.push("page");
        } else {
            name.push(page);
        }
        name.push(format!(".{}.tmp", std::process::id()));
        let temporary = self.path.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary).with_context(cannot)?;
        Ok((temporary, file))
    }
}

/// Where a link leads that leads to nothing yet; the path itself where it is none.
fn end_of_links(path: &Path) -> PathBuf {
    let mut end = path.to_owned();
    // As many as the kernel follows (MAXSYMLINKS, include/linux/namei.h).
    for _ in 0..40 {
        let Ok(to) = fs::read_link(&end) else { break };
        end = end.parent().unwrap_or(Path::new("")).join(to);
    }
    end
}
