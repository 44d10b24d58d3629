//! The live line: on a terminal only, ten times a second at most.

use std::io::Write;
use std::time::{Duration, Instant};

use weir_report::progress;
use weir_transfer::job::{Observer, Progress};

/// Draws the line on stderr.
pub struct Live {
    shown: bool,
    files: usize,
    last: Option<Instant>,
}

/// Eyes do not follow faster.
const BETWEEN: Duration = Duration::from_millis(100);

impl Live {
    /// A line for `files` files; nothing at all unless `shown`.
    pub fn new(shown: bool, files: usize) -> Live {
        Live { shown, files, last: None }
    }

    /// Draws the line, if it is time to.
    pub fn draw(&mut self, now: &progress::Progress) {
        if !self.shown || self.last.is_some_and(|last| last.elapsed() < BETWEEN) {
            return;
        }
        self.say(&progress::line(now, width()));
    }

    /// Draws these words, now.
    pub fn say(&mut self, line: &str) {
        if self.shown {
            self.last = Some(Instant::now());
            let _ = write!(std::io::stderr(), "\r{line}\x1b[K");
        }
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        if self.last.take().is_some() {
            // A terminal that went away is of no concern.
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Observer for Live {
    fn progress(&mut self, now: &Progress) {
        self.draw(&progress::Progress {
            done: now.bytes,
            total: now.total,
            at_least: false,
            files: (self.files > 1).then_some((now.files.0 as u64, now.files.1 as u64)),
            rate: now.rate.0,
            lanes: now.lanes,
            limit: now.limit,
        });
    }
}

fn width() -> usize {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        Ok(size) if size.ws_col > 1 => usize::from(size.ws_col) - 1,
        _ => 79,
    }
}
