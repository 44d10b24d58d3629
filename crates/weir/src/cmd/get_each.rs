//! `--json-files`: a line of JSON for each file, as it ends.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use parking_lot::Mutex;
use serde::Serialize;
use weir_get::error::GetError;
use weir_get::job::Output;
use weir_get::sink::Stream;
use weir_report::schema::FileRecord;

use crate::voice;

/// Between two looks whether a pipe has a reader.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The lines, on their way.
pub struct EachFile {
    path: PathBuf,
    state: Mutex<EachFileState>,
}

struct EachFileState {
    to: To,
    /// Of a pipe: bytes so far.
    written: u64,
    /// The first error: nothing is written after it.
    failed: Option<anyhow::Error>,
}

enum To {
    File(std::fs::File),
    /// Stdout, a pipe, a device: nothing is waited for any more once the user wants to stop.
    Pipe(Box<Stream>),
}

#[derive(Serialize)]
struct Line<'a> {
    outcome: &'a str,
    #[serde(flatten)]
    file: &'a FileRecord,
}

fn cannot(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

impl EachFile {
    /// To the file at `path`, or to stdout (`-`). What `path` held before is gone.
    pub fn open(path: &Path, stop: &Arc<AtomicBool>) -> anyhow::Result<EachFile> {
        let to = match Output::to(path.to_owned()) {
            _ if path.as_os_str() == "-" => To::Pipe(Box::new(Stream::stdout(Vec::new(), Arc::clone(stop))?)),
            Output::Pipe(pipe) => {
                To::Pipe(Box::new(Stream::open(&pipe, Vec::new(), Arc::clone(stop), &|| {
                    std::thread::sleep(POLL_INTERVAL);
                    !stop.load(Relaxed)
                })?))
            }
            _ => To::File(std::fs::File::create(path).with_context(|| cannot(path))?),
        };
        let state = EachFileState { to, written: 0, failed: None };
        Ok(EachFile { path: path.to_owned(), state: Mutex::new(state) })
    }

    /// One file.
    pub fn tell(&self, file: &FileRecord, outcome: &str) {
        let mut line = serde_json::to_vec(&Line { outcome, file }).unwrap_or_default();
        line.push(b'\n');
        let mut state = self.state.lock();
        if state.failed.is_none()
            && let Err(error) = state.write(&self.path, &line)
        {
            // A run that is to stop says so itself.
            if !matches!(error.downcast_ref(), Some(GetError::Interrupted)) {
                tracing::warn!("{}; the files are fetched", voice::words(&error));
            }
            state.failed = Some(error);
        }
    }

    /// All have been told; the error if they could not be.
    pub fn end(self) -> anyhow::Result<()> {
        match self.state.into_inner().failed {
            Some(error) if !matches!(error.downcast_ref(), Some(GetError::Interrupted)) => Err(error),
            _ => Ok(()),
        }
    }
}

impl EachFileState {
    fn write(&mut self, path: &Path, line: &[u8]) -> anyhow::Result<()> {
        match &mut self.to {
            To::File(file) => io::Write::write_all(file, line).with_context(|| cannot(path))?,
            // Its errors name it.
            To::Pipe(pipe) => pipe.write_at(self.written, &[IoSlice::new(line)])?,
        }
        self.written += line.len() as u64;
        Ok(())
    }
}
