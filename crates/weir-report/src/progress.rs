//! The line while a transfer runs: ` 42 %  904 MB of 2.15 GB  1.99 GB/s  1 s left  4 connections  cpu-core`.
//!
//! Pure text that fits a width. Who draws it, how often, and whether there is a terminal at all, is the
//! caller's.

use std::time::Duration;

use weir_model::limit::Limit;
use weir_units::{Bytes, Rate, human_duration};

use crate::escape::escape;
use crate::figures::percent_done;

/// What is known while it runs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Progress {
    /// Bytes that are there.
    pub done: u64,
    /// Bytes in all; `None` when the server did not say.
    pub total: Option<u64>,
    /// There may be more, of bytes and files: not all has been found.
    pub at_least: bool,
    /// Files that are there and files in all; `None` for a single one.
    pub files: Option<(u64, u64)>,
    /// The rate of late, bytes per second.
    pub rate: f64,
    /// Connections at work.
    pub lanes: u32,
    /// What holds it now.
    pub limit: Option<Limit>,
    /// How long it still takes, where that does not hang on the rate: a measurement of ten seconds.
    pub due: Option<Duration>,
}

impl Progress {
    /// How long the rest takes: what is known of it, or at the rate of late.
    pub fn left(&self) -> Option<Duration> {
        if self.due.is_some() {
            return self.due;
        }
        Rate(self.rate).time_for(self.total?.saturating_sub(self.done))
    }
}

/// The line, at most `width` characters, without an end of line. When it is too long, the least needed part
/// goes first.
pub fn line(progress: &Progress, width: usize) -> String {
    let least = if progress.at_least { "at least " } else { "" };
    // Each part with its need: the smallest goes first.
    let mut parts = vec![
        (6, percent(progress)),
        (4, amount(progress)),
        (1, progress.files.map(|(done, all)| format!("{done} of {least}{all} files"))),
        (5, Some(Rate(progress.rate.max(0.0)).to_string())),
        (3, progress.left().map(|left| format!("{least}{} left", rounded(left)))),
        (0, connections(progress.lanes)),
        (2, progress.limit.map(|limit| limit.name().to_owned())),
    ];
    parts.retain(|(_, text)| text.is_some());
    loop {
        let texts: Vec<&str> = parts.iter().filter_map(|(_, text)| text.as_deref()).collect();
        let line = texts.join("  ");
        if line.chars().count() <= width {
            return line;
        }
        if parts.len() <= 1 {
            return line.chars().take(width).collect();
        }
        let least = parts.iter().map(|(need, _)| *need).min();
        parts.retain(|(need, _)| Some(*need) != least);
    }
}

/// The line of work in steps: `measuring zstd:3 (3 of 20), about 12 s left`. The rest is taken to go as fast
/// as the steps before.
pub fn steps(what: &str, index: usize, count: usize, elapsed: Duration) -> String {
    let left = elapsed.as_secs_f64() / index.max(1) as f64 * count.saturating_sub(index) as f64;
    // Of the first step nothing is known, and less than two seconds is no time.
    let left =
        Duration::try_from_secs_f64(left).ok().filter(|left| index > 0 && *left >= Duration::from_secs(2));
    let left = left.map(|left| format!(", about {} left", rounded(left))).unwrap_or_default();
    format!("{} ({} of {count}){left}", escape(what), index + 1)
}

pub(crate) fn percent(progress: &Progress) -> Option<String> {
    let total = progress.total.filter(|total| *total > 0 && !progress.at_least)?;
    Some(format!("{:3} %", percent_done(progress.done, total)))
}

pub(crate) fn amount(progress: &Progress) -> Option<String> {
    let done = Bytes(progress.done);
    Some(match progress.total {
        Some(total) if progress.at_least => format!("{done} of at least {}", Bytes(total)),
        Some(total) => format!("{done} of {}", Bytes(total)),
        None => done.to_string(),
    })
}

pub(crate) fn connections(lanes: u32) -> Option<String> {
    match lanes {
        0 => None,
        1 => Some("1 connection".to_owned()),
        lanes => Some(format!("{lanes} connections")),
    }
}

/// Whole seconds: what is left is a guess, and digits that flicker say no more.
pub(crate) fn rounded(left: Duration) -> String {
    if left < Duration::from_secs(120) {
        format!("{} s", left.as_secs_f64().ceil())
    } else {
        human_duration(Duration::from_secs(left.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: Progress = Progress {
        done: 904_000_000,
        total: Some(2_150_000_000),
        at_least: false,
        files: None,
        rate: 1.99e9,
        lanes: 4,
        limit: Some(Limit::CpuCore),
        due: None,
    };

    #[test]
    fn the_least_needed_part_goes_first() {
        for (width, text) in [
            (80, " 42 %  904 MB of 2.15 GB  1.99 GB/s  1 s left  4 connections  cpu-core"),
            (60, " 42 %  904 MB of 2.15 GB  1.99 GB/s  1 s left  cpu-core"),
            (50, " 42 %  904 MB of 2.15 GB  1.99 GB/s  1 s left"),
            (40, " 42 %  904 MB of 2.15 GB  1.99 GB/s"),
            (20, " 42 %  1.99 GB/s"),
            (10, " 42 %"),
            (3, " 42"),
            (0, ""),
        ] {
            assert_eq!(line(&HALF, width), text);
        }
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let unknown = Progress { total: None, limit: None, rate: 0.0, ..HALF };
        assert_eq!(line(&unknown, 80), "904 MB  0 B/s  4 connections");
        let files = Progress { files: Some((3, 100)), ..unknown };
        assert_eq!(line(&files, 80), "904 MB  3 of 100 files  0 B/s  4 connections");
    }

    #[test]
    fn what_may_become_more_is_no_share_of_all() {
        let growing = Progress { at_least: true, files: Some((3, 100)), limit: None, ..HALF };
        assert_eq!(
            line(&growing, 110),
            "904 MB of at least 2.15 GB  3 of at least 100 files  1.99 GB/s  at least 1 s left  4 connections"
        );
    }

    #[test]
    fn steps_tell_how_long_the_rest_takes() {
        let second = Duration::from_secs(1);
        assert_eq!(steps("measuring lz4", 0, 20, Duration::ZERO), "measuring lz4 (1 of 20)");
        assert_eq!(steps("measuring lz4", 4, 20, 4 * second), "measuring lz4 (5 of 20), about 16 s left");
        assert_eq!(steps("measuring lz4", 19, 20, 19 * second), "measuring lz4 (20 of 20)");
        assert_eq!(steps("x", 5, 0, Duration::MAX), "x (6 of 0)");
    }

    #[test]
    fn what_is_due_does_not_hang_on_the_rate() {
        let test = Progress { total: None, due: Some(Duration::from_millis(7200)), ..HALF };
        assert_eq!(line(&test, 80), "904 MB  1.99 GB/s  8 s left  4 connections  cpu-core");
    }

    #[test]
    fn a_hundred_percent_means_all() {
        let almost = Progress { done: 2_149_999_999, ..HALF };
        assert!(line(&almost, 80).starts_with(" 99 %"));
        assert!(line(&Progress { done: u64::MAX, total: Some(u64::MAX), ..HALF }, 80).starts_with("100 %"));
        assert!(line(&Progress { total: Some(0), done: 0, ..HALF }, 80).starts_with("0 B of 0 B"));
    }
}
