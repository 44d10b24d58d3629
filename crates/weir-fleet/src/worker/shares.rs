//! What held the worker: each interval's limit, gathered to spans of ten seconds for the ledger.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_get::job::{ClosedInterval, Observer, Progress};
use weir_model::fleet::NO_WORK;
use weir_model::limit::Limit;

use super::desk::Desk;
use crate::ledger::VerdictSpan;

/// Long enough that a day of a hundred workers takes a million short rows at most, short enough that a page
/// shows when something changed.
const SPAN: Duration = Duration::from_secs(10);

/// A worker that has just joined tells more closely: whether it added bytes, and what is slow from the start,
/// is to be known in seconds.
const FIRST_SPAN: Duration = Duration::from_secs(1);

/// For so long, so that there are thirty such spans.
const FIRST: Duration = Duration::from_secs(30);

/// They are told so many at a time: a ledger of thousands of workers that start has better to do.
const TOGETHER: Duration = Duration::from_secs(3);

/// Spans that are kept while the ledger is away: those of some minutes.
const KEPT: usize = 200;

/// The gathered intervals.
pub struct LimitShares {
    joined: Instant,
    state: Mutex<SharesState>,
}

struct SharesState {
    start: Instant,
    /// Of each limit, how long it held and what was moved meanwhile.
    limits: BTreeMap<&'static str, (Duration, u64)>,
    closed: Vec<VerdictSpan>,
    told: Instant,
}

impl LimitShares {
    /// Of a worker that joins now.
    pub fn new(now: Instant) -> LimitShares {
        let state = SharesState { start: now, limits: BTreeMap::new(), closed: Vec::new(), told: now };
        LimitShares { joined: now, state: Mutex::new(state) }
    }

    /// `limit` held for `span`, in which so many bytes were moved.
    pub fn add(&self, limit: &'static str, span: Duration, bytes: u64) {
        let mut state = self.state.lock();
        let (held, moved) = state.limits.entry(limit).or_default();
        *held += span;
        *moved += bytes;
    }

    /// The spans that are over at `now` and due to be told; `all`: all, and the one that is not over, too.
    pub(super) fn take(&self, now: Instant, all: bool) -> Vec<VerdictSpan> {
        let mut state = self.state.lock();
        let is_new = state.start - self.joined < FIRST;
        let (span, together) = if is_new { (FIRST_SPAN, TOGETHER) } else { (SPAN, SPAN) };
        if now - state.start >= span || all {
            let (start, length) = (millis(state.start - self.joined), millis(now - state.start));
            let limits = std::mem::take(&mut state.limits);
            let whole: f64 = limits.values().map(|(held, _)| held.as_secs_f64()).sum();
            let span = |(limit, (held, bytes)): (&str, (Duration, u64))| VerdictSpan {
                start,
                length,
                limit: limit.to_owned(),
                share: held.as_secs_f64() / whole.max(f64::MIN_POSITIVE),
                bytes,
            };
            state.closed.extend(limits.into_iter().map(span));
            state.start = now;
        }
        if now - state.told < together && !all {
            return Vec::new();
        }
        state.told = now;
        std::mem::take(&mut state.closed)
    }

    /// The ledger could not be told of them.
    pub(super) fn give_back(&self, mut spans: Vec<VerdictSpan>) {
        let mut state = self.state.lock();
        spans.append(&mut state.closed);
        let over = spans.len().saturating_sub(KEPT);
        state.closed = spans.split_off(over);
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Tells the desk and the ledger what an engine sees, and whoever looks on.
pub(super) struct Watcher<'a> {
    pub(super) desk: &'a Desk,
    pub(super) shares: &'a LimitShares,
    pub(super) looks_on: &'a mut dyn Observer,
}

impl Observer for Watcher<'_> {
    fn progress(&mut self, now: &Progress) {
        self.looks_on.progress(now);
    }

    fn interval(&mut self, seen: &ClosedInterval<'_>) {
        let under_way: u64 = (seen.under_way)().iter().map(|one| one.done).sum();
        self.desk.set_under_way(under_way, 0);
        let limit = if self.desk.is_idle() { NO_WORK } else { Limit::name(seen.limit) };
        self.shares.add(limit, seen.interval.span, seen.interval.received);
        self.looks_on.interval(seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_span_add_up() {
        let joined = Instant::now();
        let shares = LimitShares::new(joined);
        shares.add("disk", Duration::from_secs(6), 600);
        shares.add("path-loss", Duration::from_secs(2), 10);
        assert!(shares.take(joined + FIRST_SPAN / 2, false).is_empty());
        assert!(shares.take(joined + FIRST_SPAN, false).is_empty(), "it is over, and told with others");
        let spans = shares.take(joined + TOGETHER, false);
        let told: Vec<(&str, f64, u64)> =
            spans.iter().map(|span| (span.limit.as_str(), span.share, span.bytes)).collect();
        assert_eq!(told, [("disk", 0.75, 600), ("path-loss", 0.25, 10)]);
        assert!(spans.iter().all(|span| (span.start, span.length) == (0, 1000)), "{spans:?}");
        shares.give_back(spans);
        shares.add(NO_WORK, Duration::from_secs(1), 0);
        let spans = shares.take(joined + 2 * TOGETHER, true);
        assert_eq!((spans.len(), spans[2].start, spans[2].length), (3, 3000, 3000));
    }

    #[test]
    fn spans_of_a_worker_that_is_here_for_long_are_longer() {
        let joined = Instant::now();
        let shares = LimitShares::new(joined);
        shares.take(joined + FIRST, true);
        shares.add("disk", Duration::from_secs(6), 600);
        assert!(shares.take(joined + FIRST + SPAN / 2, false).is_empty());
        let spans = shares.take(joined + FIRST + SPAN, false);
        assert_eq!((spans.len(), spans[0].start, spans[0].length), (1, 30_000, 10_000));
    }
}
