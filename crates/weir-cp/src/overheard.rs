//! What ssh and the far program print for people (their stderr), where it does not go to the terminal as it
//! is: of many hosts each line is said with its host, and the last of them explains an end.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::process::ChildStderr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use parking_lot::Mutex;

use crate::threads;

/// Takes a line, without its end.
pub type Hears = Arc<dyn Fn(&str) + Send + Sync>;

/// Bytes kept of a line.
const MAX_LINE: u64 = 4 << 10;

/// How long the last words are waited for once the program has ended. What it left behind (ssh's master of
/// shared connections) may hold the pipe open for hours.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Somebody who listens.
pub(crate) struct Overheard {
    last: Arc<Mutex<Option<String>>>,
    ended: Mutex<Receiver<()>>,
}

impl fmt::Debug for Overheard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Overheard")
    }
}

impl Overheard {
    /// Reads `stderr` to its end.
    pub(crate) fn listen(stderr: ChildStderr, hears: Hears) -> Overheard {
        let last = Arc::new(Mutex::new(None));
        let (alive, ended) = channel::<()>();
        let noted = Arc::clone(&last);
        let started = threads::start("overheard", move || {
            let _alive = alive;
            let mut stderr = BufReader::new(stderr);
            let mut line = Vec::new();
            while matches!((&mut stderr).take(MAX_LINE).read_until(b'\n', &mut line), Ok(1..)) {
                let words = String::from_utf8_lossy(&line).trim().to_owned();
                line.clear();
                if !words.is_empty() {
                    hears(&words);
                    *noted.lock() = Some(words);
                }
            }
        });
        if let Err(error) = started {
            // The pipe closes here, so a program that writes to it gets SIGPIPE instead of waiting.
            tracing::debug!("nobody hears ssh's words: {error}");
        }
        Overheard { last, ended: Mutex::new(ended) }
    }

    /// The last line of a program that has ended.
    pub(crate) fn last_words(&self) -> Option<String> {
        // It comes to its end, or it does not in time: what was heard until then counts either way.
        let _ = self.ended.lock().recv_timeout(LAST_WORDS);
        self.last.lock().clone()
    }
}
