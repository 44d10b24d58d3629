//! From what a running transfer tells, interval by interval, to what is drawn. No clock here: intervals bring
//! their own times.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use weir_model::evidence::{Evidence, Facts, Interval, LaneInterval, Trial};
use weir_model::limit::Limit;
use weir_model::merge::merged;
use weir_model::verdict::explain;

use super::{Beat, File, Lane, Snapshot};
use crate::html::words::percent;
use crate::progress::Progress;
use crate::schema::{VerdictRecord, load_records};
use crate::stages::stages;

/// The verdict on the screen is on so many seconds: long enough to be read, short enough to follow a change.
const OF_LATE: Duration = Duration::from_secs(2);

/// It is made anew after this: words that change faster cannot be read.
const AGAIN: Duration = Duration::from_millis(500);

/// A column of the rate's history.
const BEAT: Duration = Duration::from_millis(500);

/// Columns kept: more than a terminal has.
const BEATS: usize = 1000;

/// Lines of the log kept.
const LINES: usize = 100;

/// Names of lanes that are kept: more than are looked at, and those of connections that are over go.
const NAMES: usize = 256;

/// Intervals kept between two pictures, and for the verdict: three seconds at the finest grain that there is.
const WINDOWS: usize = 64;

/// What was told since the last picture.
#[derive(Debug, Clone, Default)]
pub struct News {
    progress: Option<Progress>,
    intervals: VecDeque<(Interval, Option<Limit>)>,
    facts: Option<(Facts, Vec<Trial>)>,
    files: Option<Vec<File>>,
    names: BTreeMap<u32, String>,
    log: VecDeque<String>,
}

impl News {
    /// How far it is.
    pub fn progress(&mut self, progress: Progress) {
        self.progress = Some(progress);
    }

    /// An interval has closed, and what held it; `evidence` has what is known besides.
    pub fn interval(&mut self, interval: &Interval, limit: Option<Limit>, evidence: &Evidence) {
        push(&mut self.intervals, (interval.clone(), limit), WINDOWS);
        self.facts = Some((evidence.facts.clone(), evidence.trials.clone()));
    }

    /// The files under way.
    pub fn files(&mut self, files: Vec<File>) {
        self.files = Some(files);
    }

    /// What a lane is called.
    pub fn name(&mut self, lane: u32, name: String) {
        self.names.insert(lane, name);
    }

    /// A line of the log.
    pub fn log(&mut self, line: String) {
        push(&mut self.log, line, LINES);
    }
}

/// What the view knows.
#[derive(Debug, Clone, Default)]
pub struct LiveState {
    snapshot: Snapshot,
    recent: VecDeque<Interval>,
    evidence: Evidence,
    names: BTreeMap<u32, String>,
    /// The column of the history that is not full yet.
    beat: Growing,
    /// Time in intervals since the last verdict; `None` before the first.
    unjudged: Option<Duration>,
}

/// A column of the history as it grows.
#[derive(Debug, Clone, Default)]
struct Growing {
    bytes: u64,
    span: Duration,
    held: BTreeMap<Limit, Duration>,
}

impl LiveState {
    /// Nothing is known yet but what it is, and what keys do.
    pub fn new(title: &str, keys: &str) -> LiveState {
        let snapshot = Snapshot { title: title.to_owned(), keys: keys.to_owned(), ..Snapshot::default() };
        LiveState { snapshot, ..LiveState::default() }
    }

    /// Takes in what was told, and gives what is to be drawn, `elapsed` after the start.
    pub fn take(&mut self, news: News, elapsed: Duration) -> &Snapshot {
        let News { progress, intervals, facts, files, names, log } = news;
        self.snapshot.elapsed = elapsed;
        self.names.extend(names);
        if let Some((facts, trials)) = facts {
            self.evidence.facts = facts;
            self.evidence.trials = trials;
        }
        let moved = !intervals.is_empty();
        for (interval, limit) in intervals {
            self.interval(interval, limit);
        }
        if moved {
            self.lanes();
        }
        if self.unjudged.is_some_and(|span| span >= AGAIN) {
            self.judge();
        }
        self.snapshot.progress = progress.unwrap_or(self.snapshot.progress);
        if let Some(files) = files {
            self.snapshot.files = files;
        }
        self.snapshot.log.extend(log);
        let old = self.snapshot.log.len().saturating_sub(LINES);
        self.snapshot.log.drain(..old);
        &self.snapshot
    }

    /// What is to be drawn.
    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    fn interval(&mut self, interval: Interval, limit: Option<Limit>) {
        // The first one is judged at once.
        *self.unjudged.get_or_insert(AGAIN) += interval.span;
        self.beat(&interval, limit);
        push(&mut self.recent, interval, WINDOWS);
        let mut span: Duration = self.recent.iter().map(|interval| interval.span).sum();
        while self.recent.len() > 1 && span - self.recent[0].span >= OF_LATE {
            span -= self.recent.pop_front().map_or(Duration::ZERO, |interval| interval.span);
        }
    }

    fn beat(&mut self, interval: &Interval, limit: Option<Limit>) {
        let beat = &mut self.beat;
        beat.bytes = beat.bytes.saturating_add(interval.received);
        beat.span += interval.span;
        if let Some(limit) = limit {
            *beat.held.entry(limit).or_default() += interval.span;
        }
        if beat.span >= BEAT {
            let beat = std::mem::take(beat);
            let limit = beat.held.into_iter().max_by_key(|(_, span)| *span).map(|(limit, _)| limit);
            // Where nobody judged the intervals one by one: the verdict of late.
            let of_late = || self.snapshot.shares.first().and_then(|(name, _)| Limit::parse(name));
            let limit = limit.or_else(of_late);
            let rate = beat.bytes as f64 / beat.span.as_secs_f64();
            self.snapshot.history.push(Beat { rate, limit });
            let old = self.snapshot.history.len().saturating_sub(BEATS);
            self.snapshot.history.drain(..old);
        }
    }

    /// Of the last second at least, by number.
    fn lanes(&mut self) {
        let mut span = Duration::ZERO;
        let last = self.recent.iter().rev().take_while(|interval| {
            let taken = span < Duration::from_secs(1);
            span += interval.span;
            taken
        });
        let mut whole = merged(last.collect::<Vec<_>>().into_iter().rev());
        whole.lanes.sort_by_key(|lane| lane.lane);
        let newest: Vec<u32> = self
            .recent
            .back()
            .map(|interval| interval.lanes.iter().map(|lane| lane.lane).collect())
            .unwrap_or_default();
        whole.lanes.retain(|lane| newest.contains(&lane.lane));
        if self.names.len() > NAMES {
            self.names.retain(|lane, _| newest.contains(lane));
        }
        let seconds = whole.span.as_secs_f64().max(1e-3);
        let shown = |lane: &LaneInterval| Lane {
            name: self.names.get(&lane.lane).cloned().unwrap_or_else(|| format!("lane {}", lane.lane)),
            rate: lane.received as f64 / seconds,
            deed: deed(lane, whole.span),
        };
        self.snapshot.lanes = whole.lanes.iter().map(shown).collect();
    }

    /// What held the last seconds, by the judge of every run, and how full each stage was.
    fn judge(&mut self) {
        self.unjudged = Some(Duration::ZERO);
        self.evidence.intervals = self.recent.iter().cloned().collect();
        let verdict = explain(&self.evidence);
        let record = VerdictRecord::from(&verdict);
        let held = record.held().into_iter().flatten();
        let mut shares: Vec<(String, f64)> = held.map(|(name, share)| (name.clone(), *share)).collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        self.snapshot.stages = stages(&load_records(&self.evidence), &record);
        self.snapshot.shares = shares;
        let advice = record.advice.first().map(|advice| format!("advice: {}", advice.action));
        self.snapshot.reasons = record.evidence.into_iter().take(1).chain(advice).collect();
    }
}

/// What a lane spent most of its time with, and the round trip: `awaits data 80 %, round trip 20.3 ms`.
fn deed(lane: &LaneInterval, span: Duration) -> String {
    let times = [
        ("connects", lane.connecting),
        ("awaits the first byte", lane.first_byte),
        ("awaits data", lane.socket_wait),
        ("receives", lane.receive_cpu),
        ("decrypts", lane.decrypt),
        ("writes", lane.write),
        ("sleeps for a rate", lane.limited),
        ("awaits the reader", lane.output_wait),
        ("rests", lane.idle),
    ];
    let most = times.into_iter().max_by_key(|(_, time)| *time).filter(|(_, time)| !time.is_zero());
    let most = most
        .map(|(name, time)| format!("{name} {}", percent(time.as_secs_f64() / span.as_secs_f64().max(1e-3))));
    let rtt = lane.tcp.value().and_then(|tcp| tcp.receiver_rtt.or(tcp.min_rtt));
    let rtt = rtt.map(|rtt| format!("round trip {}", weir_units::human_duration(rtt)));
    most.into_iter().chain(rtt).collect::<Vec<_>>().join(", ")
}

/// Appends, and drops the oldest beyond `most`.
fn push<T>(list: &mut VecDeque<T>, item: T, most: usize) {
    list.push_back(item);
    if list.len() > most {
        list.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 MB/s, all of the time blocked in write but for one tenth.
    fn writing(at: f64) -> Interval {
        let lane = LaneInterval {
            lane: 3,
            received: 1_000_000,
            write: Duration::from_millis(90),
            ..LaneInterval::default()
        };
        Interval {
            at,
            span: Duration::from_millis(100),
            received: 1_000_000,
            written: 1_000_000,
            lanes: vec![lane],
            ..Interval::default()
        }
    }

    fn told(seconds: usize) -> LiveState {
        let mut state = LiveState::new("get x", "q");
        for index in 0..seconds * 10 {
            let mut news = News::default();
            news.interval(&writing(index as f64 / 10.0), Some(Limit::DirtyThrottle), &Evidence::default());
            state.take(news, Duration::from_millis(100 * index as u64));
        }
        state
    }

    #[test]
    fn windows_become_a_pipeline_lanes_and_a_history() {
        let mut state = told(3);
        let snapshot = state.take(News::default(), Duration::from_secs(3));
        assert_eq!(snapshot.history.len(), 6);
        assert_eq!(snapshot.history[5], Beat { rate: 10e6, limit: Some(Limit::DirtyThrottle) });
        assert_eq!(snapshot.lanes.len(), 1);
        assert_eq!((snapshot.lanes[0].name.as_str(), snapshot.lanes[0].rate.round()), ("lane 3", 10e6));
        assert_eq!(snapshot.lanes[0].deed, "writes 90 %");
        let store = snapshot.stages.iter().find(|stage| stage.name == "Store").unwrap();
        assert!((store.load.unwrap() - 0.9).abs() < 0.01, "{store:?}");
        assert!((snapshot.shares.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 0.01);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut state = told(60);
        for index in 0..1000 {
            let mut news = News::default();
            news.log(format!("line {index}"));
            state.take(news, Duration::ZERO);
        }
        let snapshot = state.take(News::default(), Duration::ZERO);
        assert_eq!(snapshot.log.len(), LINES);
        assert_eq!(snapshot.log.last().unwrap(), "line 999");
        assert!(state.recent.len() <= 21, "{}", state.recent.len());
        let mut news = News::default();
        (0..1000).for_each(|at| news.interval(&writing(f64::from(at)), None, &Evidence::default()));
        assert!(news.intervals.len() <= WINDOWS);
    }
}
