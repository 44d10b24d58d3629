//! Where a fleet stands: as text ([`text`]), live on a terminal ([`crate::tui::fleet`]), for Prometheus
//! ([`metrics`]). The page of what its ledger holds is of [`crate::fleet_history`].

pub mod metrics;
mod verdict;

use std::time::Duration;

use weir_units::{Bytes, Rate, counted, human_duration};

use crate::escape::escape;
use crate::figures::percent;
use crate::fleet_history::FleetFailure;
use crate::html::words::{count, short};
use crate::progress::rounded;

/// Objects and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FleetCount {
    /// How many.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Where a fleet stands at one moment.
#[derive(Debug, Clone, Default)]
pub struct FleetView {
    /// From where.
    pub source: String,
    /// To where.
    pub target: String,
    /// In words: `under way`.
    pub state: String,
    /// What is set, in words.
    pub settings: String,
    /// The plan is whole.
    pub sealed: bool,
    /// All of it is done.
    pub complete: bool,
    /// No batch is given out.
    pub paused: bool,
    /// Workers leave.
    pub draining: bool,
    /// All of the plan.
    pub planned: FleetCount,
    /// Brought to their targets.
    pub moved: FleetCount,
    /// All that workers have moved. A retry takes its objects out of `moved`, not out of this: they count
    /// again when they are moved again.
    pub carried: FleetCount,
    /// Found there.
    pub same: FleetCount,
    /// Neither done nor given up.
    pub left: FleetCount,
    /// Given up.
    pub failed: u64,
    /// Bytes moved of batches that are not done.
    pub under_way: u64,
    /// Batches that wait, are held, and are done.
    pub batches: [u64; 3],
    /// Leases that ended without a word, so far.
    pub lost_leases: u64,
    /// Of these, whose batches nobody has taken over yet.
    pub overdue: u64,
    /// The rate of late.
    pub rate: Option<FleetRateView>,
    /// When it will be done, and how that is known.
    pub end: FleetEndView,
    /// By class, the most first.
    pub failures: Vec<FleetFailure>,
    /// All hosts that work, those that differ first.
    pub hosts: Vec<FleetHostRow>,
    /// Workers that are heard of no more and have not left.
    pub gone: u64,
    /// What holds the fleet, and what to change: a sentence each.
    pub verdict: Vec<String>,
    /// The ledger's clock, milliseconds since 1970.
    pub now: i64,
}

/// What was moved of late.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FleetRateView {
    /// Bytes a second.
    pub bytes: f64,
    /// Objects a second; `None`: not known.
    pub objects: Option<f64>,
    /// Over so many seconds.
    pub seconds: f64,
}

/// When it will be done.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FleetEndView {
    /// From now; `None`: not known.
    pub seconds: Option<f64>,
    /// By what that is known, or why it is not.
    pub origin: String,
}

/// A host of a fleet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FleetHostRow {
    /// Its name.
    pub host: String,
    /// Its workers.
    pub workers: u64,
    /// Batches that they have.
    pub leased: u64,
    /// Objects that they moved.
    pub objects: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Bytes a second.
    pub rate: Option<f64>,
    /// What holds it, and the share of the time.
    pub limit: Option<(String, f64)>,
    /// Since it was heard of.
    pub silent: Duration,
    /// How it differs from the others.
    pub differs: Option<String>,
}

impl FleetView {
    /// How much of the plan is done, and of how much: in bytes or in objects, whichever share is smaller, so
    /// that it is not all while an object is left.
    pub fn done(&self) -> (u64, u64) {
        if self.planned.objects == 0 {
            return (u64::from(self.complete), 1);
        }
        let of = |all: u64, left: u64| (all.saturating_sub(left), all);
        let objects = of(self.planned.objects, self.left.objects);
        let bytes = of(self.planned.bytes, self.left.bytes);
        let times = |a: u64, b: u64| u128::from(a) * u128::from(b);
        let is_less = times(bytes.0, objects.1) < times(objects.0, bytes.1);
        if self.knows_bytes() && is_less { bytes } else { objects }
    }

    /// Whether the plan's bytes can be those of all its objects: one of unknown size has none there.
    pub fn knows_bytes(&self) -> bool {
        let moved = self.moved.bytes.saturating_add(self.same.bytes).saturating_add(self.under_way);
        moved <= self.planned.bytes
    }

    /// `850 MB/s, 1.20 k objects/s over 10 s`.
    pub fn rate_words(&self) -> String {
        let Some(FleetRateView { bytes, objects, seconds }) = self.rate else {
            return "rate not known yet".to_owned();
        };
        let objects = objects.filter(|objects| *objects >= 0.05);
        let objects = objects.map_or_else(String::new, |objects| format!(", {} objects/s", few(objects)));
        format!("{}{objects} over the last {}", Rate(bytes), seconds_words(seconds))
    }

    /// `about 12 min left (at the rate of the last 60 s)`.
    pub fn end_words(&self) -> String {
        match self.end.seconds {
            Some(seconds) => format!("about {} left ({})", seconds_words(seconds), self.end.origin),
            None if self.complete => String::new(),
            None => format!("its end is not known: {}", self.end.origin),
        }
    }

    /// `batches: 3 wait, 2 are held, 5 are done; 1 lease ended`.
    pub fn batch_words(&self) -> String {
        let [waiting, leased, done] = self.batches;
        let mut words = format!("batches: {waiting} wait, {leased} are held, {done} are done");
        if self.lost_leases > 0 {
            words.push_str(&format!("; {} ended without a word", counted(self.lost_leases, "lease")));
        }
        if self.overdue > 0 {
            words.push_str(&format!(", {} of them not taken over yet", self.overdue));
        }
        words
    }
}

fn few(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { count(value) }
}

/// `12 min 5 s`: whole seconds, since what is left is a guess.
pub fn seconds_words(seconds: f64) -> String {
    match Duration::try_from_secs_f64(seconds.ceil()) {
        Ok(span) if seconds < 3e9 => rounded(span),
        _ => "more than a lifetime".to_owned(),
    }
}

impl FleetHostRow {
    /// `disk 80 %`.
    pub fn limit_words(&self) -> String {
        let of = |(limit, share): &(String, f64)| format!("{} {}", short(limit, 20), percent(*share));
        self.limit.as_ref().map_or_else(|| "-".to_owned(), of)
    }

    /// `72.3 MB/s`.
    pub fn rate_words(&self) -> String {
        self.rate.map_or_else(|| "-".to_owned(), |rate| Rate(rate).to_string())
    }
}

/// Hosts that are named in text: those that differ first.
const NAMED: usize = 200;

/// Sentences of the verdict: what holds, and some of what supports it and could not be told.
const SENTENCES: usize = 16;

/// The whole of it, a fact a line.
pub fn text(view: &FleetView) -> String {
    let tally = |count: FleetCount| format!("{:>12} {:>10}", count.objects, Bytes(count.bytes).to_string());
    let mut text = format!(
        "{} to {}\n{}; {}\n\n{:<10} {:>12} {:>10}\n",
        escape(&view.source),
        escape(&view.target),
        view.state,
        view.settings,
        "",
        "objects",
        "bytes"
    );
    let counts =
        [("planned", view.planned), ("moved", view.moved), ("there", view.same), ("left", view.left)];
    for (name, count) in counts {
        text.push_str(&format!("{name:<10} {}\n", tally(count)));
    }
    if view.left.objects > 0 && !view.knows_bytes() {
        text.push_str("the plan lacks sizes: how many bytes are left is not known\n");
    }
    text.push_str(&format!("{:<10} {:>12}\n\n", "failed", view.failed));
    if !view.complete {
        text.push_str(&format!("{}; {}\n", view.rate_words(), view.end_words()));
    }
    text.push_str(&format!("{}\n", view.batch_words()));
    for row in &view.failures {
        let example = escape(&row.example);
        text.push_str(&format!("{} failed by class {}, as: {example}\n", row.objects, escape(&row.class)));
    }
    for line in view.verdict.iter().take(SENTENCES) {
        text.push_str(&format!("{}\n", escape(line)));
    }
    push_hosts(&mut text, view);
    text
}

fn push_hosts(text: &mut String, view: &FleetView) {
    if view.gone > 0 {
        text.push_str(&format!("{} without a word for two minutes or more\n", counted(view.gone, "worker")));
    }
    if view.hosts.is_empty() {
        text.push_str("no worker has joined or all have left\n");
        return;
    }
    text.push_str(&format!(
        "\n{:<24} {:>7} {:>6} {:>12} {:>10} {:>11}  {:<20} {}\n",
        "host", "workers", "holds", "objects", "bytes", "rate", "limit", "heard of"
    ));
    for host in view.hosts.iter().take(NAMED) {
        let differs = host.differs.as_ref().map(|how| format!("; {how}")).unwrap_or_default();
        text.push_str(&format!(
            "{:<24} {:>7} {:>6} {:>12} {:>10} {:>11}  {:<20} {} ago{}\n",
            escape(&host.host),
            host.workers,
            host.leased,
            host.objects,
            Bytes(host.bytes).to_string(),
            host.rate_words(),
            escape(&host.limit_words()),
            human_duration(host.silent),
            escape(&differs),
        ));
    }
    if view.hosts.len() > NAMED {
        text.push_str(&format!("{} more hosts\n", view.hosts.len() - NAMED));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A fleet of two hosts, one of them with a hostile name.
    pub(crate) fn view() -> FleetView {
        let host = |host: &str, rate: f64| FleetHostRow {
            host: host.to_owned(),
            workers: 2,
            leased: 2,
            objects: 1000,
            bytes: 5_000_000_000,
            rate: Some(rate),
            limit: Some(("disk".to_owned(), 0.8)),
            silent: Duration::from_secs(3),
            differs: (rate < 1e7).then(|| "10 % of the usual rate".to_owned()),
        };
        FleetView {
            source: "s3://b/".to_owned(),
            target: "/mnt/".to_owned(),
            state: "under way".to_owned(),
            settings: "giving out batches, to all workers".to_owned(),
            sealed: true,
            planned: FleetCount { objects: 10_000, bytes: 100_000_000_000 },
            moved: FleetCount { objects: 2000, bytes: 20_000_000_000 },
            carried: FleetCount { objects: 2001, bytes: 20_500_000_000 },
            left: FleetCount { objects: 7_990, bytes: 79_900_000_000 },
            failed: 10,
            batches: [70, 4, 26],
            lost_leases: 1,
            rate: Some(FleetRateView { bytes: 1.1e9, objects: Some(120.0), seconds: 10.0 }),
            end: FleetEndView {
                seconds: Some(72.0),
                origin: "by bytes, at the rate of the last 60 s".to_owned(),
            },
            failures: vec![FleetFailure {
                class: "denied".to_owned(),
                objects: 10,
                example: "a\x1b[2J: 403".to_owned(),
            }],
            hosts: vec![host("slow\"\n\\\x1b[31m", 1e6), host("fast", 1e9)],
            now: 1_780_000_000_123,
            ..FleetView::default()
        }
    }

    #[test]
    fn text_says_what_differs_and_no_name_moves_the_cursor() {
        let text = text(&view());
        for words in [
            "1.10 GB/s, 120 objects/s over the last 10 s; about 72 s left (by bytes, at the rate of the last 60 s)",
            "batches: 70 wait, 4 are held, 26 are done; 1 lease ended without a word",
            "10 failed by class denied, as: a\\u{1b}[2J: 403",
            "10 % of the usual rate",
        ] {
            assert!(text.contains(words), "{words} is not in:\n{text}");
        }
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn what_is_left_is_not_done() {
        let count = |objects, bytes| FleetCount { objects, bytes };
        let of = |planned, moved, left| FleetView { planned, moved, left, ..FleetView::default() };
        for (view, done, knows) in [
            // All bytes, and empty objects are left.
            (of(count(10, 100), count(5, 100), count(5, 0)), (5, 10), true),
            (of(count(10, 100), count(9, 50), count(1, 50)), (50, 100), true),
            // Objects without a size have brought more than was planned.
            (of(count(10, 100), count(9, 900), count(1, 0)), (9, 10), false),
            (of(count(10, 0), count(0, 0), count(10, 0)), (0, 10), true),
            (FleetView::default(), (0, 1), true),
            (FleetView { complete: true, ..FleetView::default() }, (1, 1), true),
        ] {
            assert_eq!((view.done(), view.knows_bytes()), (done, knows), "{view:?}");
            assert_eq!(text(&view).contains("the plan lacks sizes"), !knows);
        }
    }
}
