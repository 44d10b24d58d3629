//! What is seen while a command works: a line on a terminal, ten times a second at most, or the live view in
//! its place.

use std::io::Write;
use std::time::{Duration, Instant};

use weir_get::job::{ClosedInterval, Observer, Progress};
use weir_model::evidence::Evidence;
use weir_model::limit::Limit;
use weir_report::progress;
use weir_report::tui::File;
use weir_report::tui::state::News;

use crate::terminal::is_named;
use crate::tui::Screen;

/// Draws the line on stderr, or tells the live view.
pub struct Live {
    shown: bool,
    files: usize,
    last: Option<Instant>,
    screen: Option<Screen>,
    /// When the last interval began that the view was told of.
    told: f64,
}

/// Eyes do not follow faster.
const BETWEEN: Duration = Duration::from_millis(100);

impl Live {
    /// A line for `files` files; nothing at all unless `shown`.
    pub fn new(shown: bool, files: usize) -> Live {
        Live { shown, files, last: None, screen: None, told: f64::NEG_INFINITY }
    }

    /// The live view from now on, if there is one.
    pub fn on(&mut self, screen: Option<Screen>) {
        self.clear();
        self.screen = screen;
    }

    /// Whether there is a live view.
    pub fn is_view(&self) -> bool {
        self.screen.is_some()
    }

    /// Draws the line, if it is time to.
    pub fn draw(&mut self, now: &progress::Progress) {
        if let Some(screen) = &self.screen {
            screen.tell(|news| news.progress(*now));
        } else if self.shown && self.last.is_none_or(|last| last.elapsed() >= BETWEEN) {
            self.say(&progress::line(now, width()));
        }
    }

    /// Draws these words, now.
    pub fn say(&mut self, line: &str) {
        if self.shown && self.screen.is_none() {
            self.last = Some(Instant::now());
            let _ = write!(std::io::stderr(), "\r{}", erasing(cut(line)));
        }
    }

    /// Tells the live view, if there is one.
    pub fn tell(&self, tell: impl FnOnce(&mut News)) {
        if let Some(screen) = &self.screen {
            screen.tell(tell);
        }
    }

    /// Tells the live view of the last interval of `evidence`, if it has not heard of it.
    pub fn newest(&mut self, evidence: &Evidence, limit: Option<Limit>) {
        let (Some(screen), Some(interval)) = (&self.screen, evidence.intervals.last()) else { return };
        if interval.at > self.told {
            self.told = interval.at;
            screen.tell(|news| news.interval(interval, limit, evidence));
        }
    }

    /// Takes the line or the view away.
    pub fn clear(&mut self) {
        self.screen = None;
        if self.last.take().is_some() {
            // A terminal that went away is of no concern.
            let _ = write!(std::io::stderr(), "\r{}\r", erasing(""));
        }
    }
}

impl Observer for Live {
    fn progress(&mut self, now: &Progress) {
        self.draw(&progress::Progress {
            done: now.bytes,
            total: now.total,
            at_least: now.at_least,
            files: (self.files > 1).then_some((now.files.0 as u64, now.files.1 as u64)),
            rate: now.rate.0,
            lanes: now.lanes,
            limit: now.limit,
            due: None,
        });
    }

    fn interval(&mut self, seen: &ClosedInterval<'_>) {
        let Some(screen) = &self.screen else { return };
        let under_way = (seen.under_way)().into_iter();
        let files =
            under_way.map(|file| File { name: file.name, done: file.done, total: file.size }).collect();
        screen.tell(|news| {
            news.interval(seen.interval, Some(seen.limit), seen.evidence);
            news.files(files);
        });
    }
}

/// A line with what erases the rest of the one before it, which was no wider than the terminal.
fn erasing(line: &str) -> String {
    if is_named() { format!("{line}\x1b[K") } else { format!("{line:<width$}", width = width()) }
}

/// What fits into one row of the terminal: a line that wraps could not be taken away.
pub fn cut(line: &str) -> &str {
    line.char_indices().nth(width()).map_or(line, |(end, _)| &line[..end])
}

fn width() -> usize {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        Ok(size) if size.ws_col > 1 => usize::from(size.ws_col) - 1,
        _ => 79,
    }
}
