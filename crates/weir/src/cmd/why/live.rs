//! `--watch`: the limit of each second, redrawn in place on a terminal, a line a second elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use weir_model::evidence::{Evidence, Interval};
use weir_model::merge::merged;
use weir_model::rule::Context;
use weir_model::verdict::judge_interval;
use weir_observe::watch::Watch;
use weir_report::progress::Progress;
use weir_report::why::{Moment, moment_lines};
use weir_units::Rate;

use super::record;
use crate::tui::Screen;

/// Draws while the watch runs.
pub(super) struct Live {
    shown: bool,
    /// On stdout, where that is free; a command's stdout is its own.
    on_stdout: bool,
    last: Option<Instant>,
    /// How many columns each line of the block takes.
    drawn: Vec<usize>,
    /// The live view in place of all that.
    view: crate::live::Live,
    /// How long is looked, if that is known.
    span: Option<Duration>,
}

impl Live {
    pub(super) fn new(shown: bool, on_stdout: bool) -> Live {
        let view = crate::live::Live::new(false, 0);
        Live { shown, on_stdout, last: None, drawn: Vec::new(), view, span: None }
    }

    /// The live view from now on, if it can be had.
    pub(super) fn open(&mut self, scope: &str, keys: &str, span: Option<Duration>) {
        self.view.on(Screen::open(&format!("why {scope}"), keys));
        self.span = span;
    }

    /// What the live view is told of each interval.
    fn tell(&mut self, watch: &Watch) {
        let intervals = &watch.evidence.intervals;
        self.view.newest(&watch.evidence, None);
        self.view.tell(|news| {
            for lane in watch.all_lanes().filter(|lane| !lane.is_gone()) {
                let way = if lane.total.acked > lane.total.received { "to" } else { "from" };
                news.name(lane.number, format!("{} {way} {}", lane.id.local, lane.id.remote));
            }
        });
        let last = merged(&intervals[first_of_last(intervals, 1.0)..]);
        self.view.draw(&Progress {
            done: watch.totals.received.max(watch.totals.acked),
            rate: Rate::of(last.received, last.span).0,
            lanes: last.lanes.len() as u32,
            due: self.span.map(|span| span.saturating_sub(watch.elapsed())),
            ..Progress::default()
        });
    }

    /// Shows the last second, once a second.
    pub(super) fn show(&mut self, watch: &Watch) {
        if self.view.is_view() {
            return self.tell(watch);
        }
        if !self.shown || self.last.is_some_and(|last| last.elapsed() < Duration::from_secs(1)) {
            return;
        }
        self.last = Some(Instant::now());
        let moment = moment(watch);
        let terminal = self.is_terminal();
        let (columns, rows) = if terminal { self.size() } else { (201, 2) };
        // The last column stays free, where a cursor would wrap; the last row is the cursor's.
        let mut lines = moment_lines(&moment, columns - 1);
        lines.truncate(rows - 1);
        let mut text = String::new();
        if terminal {
            text.push_str(&self.back(columns));
            self.drawn = lines.iter().map(|line| line.chars().count()).collect();
        }
        for line in lines {
            text.push_str(&line);
            text.push('\n');
        }
        self.write(&text);
    }

    /// Takes the block away; lines of a log stay.
    pub(super) fn clear(&mut self) {
        self.view.clear();
        if !self.drawn.is_empty() {
            let (columns, _) = self.size();
            self.write(&self.back(columns));
            self.drawn.clear();
        }
    }

    /// Up to the first line of what was drawn, and all below it cleared. A terminal that became narrower has
    /// wrapped it.
    fn back(&self, columns: usize) -> String {
        let rows: usize = self.drawn.iter().map(|length| length.div_ceil(columns).max(1)).sum();
        if rows == 0 { String::new() } else { format!("\x1b[{rows}A\r\x1b[J") }
    }

    /// Whether it draws on a terminal.
    pub(super) fn is_terminal(&self) -> bool {
        self.shown
            && if self.on_stdout { std::io::stdout().is_terminal() } else { std::io::stderr().is_terminal() }
    }

    /// Columns and rows of the terminal that is drawn on.
    fn size(&self) -> (usize, usize) {
        let size = match self.on_stdout {
            true => rustix::termios::tcgetwinsize(std::io::stdout()),
            false => rustix::termios::tcgetwinsize(std::io::stderr()),
        };
        match size {
            Ok(size) if size.ws_col > 1 && size.ws_row > 1 => (size.ws_col.into(), size.ws_row.into()),
            _ => (80, 24),
        }
    }

    /// A terminal that went away is of no concern.
    fn write(&self, text: &str) {
        let _ = match self.on_stdout {
            true => std::io::stdout().write_all(text.as_bytes()),
            false => std::io::stderr().write_all(text.as_bytes()),
        };
    }
}

/// The first of the intervals that cover the last seconds.
fn first_of_last(intervals: &[Interval], seconds: f64) -> usize {
    let mut first = intervals.len();
    let mut covered = 0.0;
    while first > 0 && covered < seconds {
        first -= 1;
        covered += intervals[first].span.as_secs_f64();
    }
    first
}

/// The last second as one interval, judged in the light of what came before it.
fn moment(watch: &Watch) -> Moment {
    let intervals = &watch.evidence.intervals;
    let first = first_of_last(intervals, 1.0);
    let last = merged(&intervals[first..]);
    let before = Evidence {
        intervals: intervals[..first].to_vec(),
        facts: watch.evidence.facts.clone(),
        trials: Vec::new(),
    };
    let verdict = judge_interval(&last, &Context::live(&before));
    let seconds = last.span.as_secs_f64().max(1e-3);
    let moved = last.received > 0;
    Moment {
        at: watch.elapsed().as_secs_f64(),
        rate: last.received as f64 / seconds,
        bytes: watch.totals.received.max(watch.totals.acked),
        limit: moved.then(|| verdict.limit.name().to_owned()),
        evidence: moved.then_some(verdict.evidence),
        written: (last.written > 0).then(|| {
            let disk = last.disk.value().map(|disk| disk.written as f64 / seconds);
            (last.written as f64 / seconds, disk)
        }),
        flows: record::flows(watch, false),
    }
}
