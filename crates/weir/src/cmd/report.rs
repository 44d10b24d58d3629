//! `weir report`: records to a page.

use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use anyhow::Context;
use weir_report::escape::escape;
use weir_report::html::{self, Run};
use weir_report::join::join;
use weir_report::records;

use super::fleet;
use crate::args::Report;
use crate::interrupt::{self, INTERRUPTED};
use crate::output;
use crate::page;
use crate::voice::{self, Printed, Usage};

/// Reads records, writes the page. Returns the exit code.
pub fn run(report: &Report) -> anyhow::Result<u8> {
    voice::start_log(report.quiet, 0);
    // Until the page is being written there is nothing to leave in order, and a pipe that nobody writes to is
    // read for ever.
    let reading = interrupt::at_once_while_set()?;
    let target = target(report)?;
    let mut runs = Vec::new();
    for record in &report.records {
        runs.extend(read(record)?);
    }
    if runs.len() > records::RUNS {
        anyhow::bail!(
            "{} runs are more than the {} that a page shows; give fewer records",
            runs.len(),
            records::RUNS
        );
    }
    for note in runs.iter().flat_map(|run| run.notes.iter().map(move |note| (&run.name, note))) {
        tracing::warn!("{}: {}", escape(note.0), note.1);
    }
    // Said where the page goes to a file as well as where it is printed: two ends must not contradict each
    // other silently.
    for joined in join(&runs.iter().map(|run| &run.record).collect::<Vec<_>>()) {
        if !report.quiet {
            writeln!(io::stderr(), "{}", joined.words.join("\n  "))?;
        }
    }
    let text = html::render(&runs);
    let stop = interrupt::stop()?;
    // What is written to a pipe leaves nothing that wants order either, and may be waited for.
    let stream = target.as_ref().is_none_or(|path| path.exists() && !path.is_file());
    reading.store(stream, Relaxed);
    match target {
        None => io::stdout().lock().write_all(text.as_bytes()).printed("the page")?,
        Some(path) => {
            output::write(&path, text.as_bytes())?;
            if !report.quiet {
                writeln!(io::stderr(), "page: {}", escape(&path.display().to_string()))?;
            }
        }
    }
    Ok(if stop.load(Relaxed) { INTERRUPTED } else { 0 })
}

/// Where the page goes; `None` for stdout.
fn target(report: &Report) -> anyhow::Result<Option<PathBuf>> {
    let (path, is_named_here) = match &report.output {
        Some(path) if path.as_os_str() == "-" => return Ok(None),
        Some(path) if path.is_dir() => (path.join(default_name(&report.records)?), true),
        Some(path) => (path.clone(), false),
        None => {
            let first = Path::new(&report.records[0]);
            (first.with_file_name(default_name(&report.records)?), true)
        }
    };
    // Of a pipe nothing is read before its time.
    let is_page = |record: &&PathBuf| record.is_file() && page::may_replace(record);
    if let Some(page) = report.records.iter().find(is_page) {
        return Err(Usage(format!("{} is a page already; open it in a browser", page.display())).into());
    }
    let same = |record: &PathBuf| matches!((record.canonicalize(), path.canonicalize()), (Ok(a), Ok(b)) if a == b && a.is_file());
    if report.records.iter().any(same) {
        return Err(Usage(format!("{} is a record; give the page another name (-o)", path.display())).into());
    }
    // A name that was chosen here must cost nobody a file.
    if is_named_here && !page::may_replace(&path) {
        let path = path.display();
        anyhow::bail!(
            "cannot write {path}: it exists and is not a page of weir; pass -o '{path}' to overwrite it"
        );
    }
    Ok(Some(path))
}

/// `run.html` of `run.json`, `before-and-after.html` of two.
fn default_name(records: &[PathBuf]) -> Result<PathBuf, Usage> {
    if records.iter().any(|record| record.as_os_str() == "-") {
        return Err(Usage(
            "a record from stdin gives the page no name: add -o PAGE.html, or -o -".to_owned(),
        ));
    }
    if records.iter().any(|record| record.to_str().is_some_and(|text| text.contains("://"))) {
        return Err(Usage("a database gives the page no name: add -o PAGE.html, or -o -".to_owned()));
    }
    let stem = |record: &PathBuf| {
        record.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let name = match records {
        [only] => stem(only),
        [first, second] => format!("{}-and-{}", stem(first), stem(second)),
        [first, more @ ..] => format!("{}-and-{}-more", stem(first), more.len()),
        [] => String::new(),
    };
    Ok(PathBuf::from(format!("{name}.html")))
}

/// What a file of SQLite begins with (its file format, 1.3.1).
const SQLITE: &[u8] = b"SQLite format 3\0";

/// Whether it is a fleet's ledger: a database by its address, or a file by its first bytes.
fn is_ledger(path: &Path) -> bool {
    let is_address = path.to_str().is_some_and(|text| {
        ["postgres://", "postgresql://", "sqlite://"].iter().any(|scheme| text.starts_with(scheme))
    });
    let begins = || {
        let mut head = [0; SQLITE.len()];
        // A pipe would lose what was read of it.
        let file = path.is_file().then(|| weir_units::open_file(path)).and_then(Result::ok);
        file.is_some_and(|mut file| file.read_exact(&mut head).is_ok()) && head == SQLITE
    };
    is_address || begins()
}

/// The runs of a file.
fn read(path: &Path) -> anyhow::Result<Vec<Run>> {
    if is_ledger(path) {
        return Ok(vec![fleet::page::run(&path.to_string_lossy())?]);
    }
    let cannot = || format!("cannot read {}", path.display());
    let (name, found) = if path.as_os_str() == "-" {
        ("stdin".to_owned(), records::read(io::stdin().lock()))
    } else {
        if path.is_dir() {
            anyhow::bail!("cannot read {}: it is a folder; name the records in it", path.display());
        }
        let file = weir_units::open_file(path).with_context(cannot)?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        (name, records::read(BufReader::new(file)))
    };
    let found = found.with_context(cannot)?;
    let mut notes = Some(found.notes);
    let count = found.records.len();
    let runs = found.records.into_iter().enumerate().map(|(index, record)| Run {
        name: if count > 1 { format!("{name}, run {}", index + 1) } else { name.clone() },
        record,
        notes: notes.take().unwrap_or_default(),
    });
    Ok(runs.collect())
}
