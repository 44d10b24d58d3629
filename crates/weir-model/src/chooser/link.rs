//! What the link carries: exact while blocks wait for lanes, a lower bound that grows while lanes wait for blocks.

use std::time::Duration;

use super::Link;

/// Reports are joined until they hold this many bytes...
const ENOUGH: f64 = (512 << 10) as f64;

/// ...or this much time: on 5 Mbit/s, 100 ms are 62 KB, a twentieth of a block.
const LONG: Duration = Duration::from_millis(400);

/// Readings within this of the estimate are noise to be averaged, those beyond it a change once a second one agrees.
const NOISE: f64 = 0.2;

/// How the estimate grows from one window without backlog to the next: carefully at first, since a queue may run empty for
/// once; 20-fold within eight windows.
const GROWTH: [f64; 5] = [1.1, 1.2, 1.4, 1.7, 2.0];

/// Below this no codec differs from another.
const SLOWEST: f64 = 1e3;

/// Beyond this no codec pays, on any machine: 1 TB/s.
const FASTEST: f64 = 1e12;

/// Reports joined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seen {
    pub(super) now: Duration,
    pub(super) rate: f64,
    pub(super) backlog: bool,
}

/// See the module's page.
#[derive(Debug, Clone, Default)]
pub(super) struct LinkView {
    rate: Option<f64>,
    /// Last report, and what was joined since the last window.
    at: Duration,
    bytes: f64,
    span: Duration,
    emptied: bool,
    /// Windows in a row without backlog.
    hungry: usize,
    /// The last window was this much off, and waits for a second one to agree.
    suspect: Option<f64>,
}

impl LinkView {
    /// The estimate.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// Takes a report; returns the window that it completes.
    pub(super) fn see(&mut self, link: &Link) -> Option<Seen> {
        let span = link.now.saturating_sub(self.at);
        self.at = self.at.max(link.now);
        let rate = if link.rate.is_finite() { link.rate.max(0.0) } else { 0.0 };
        self.bytes += rate * span.as_secs_f64();
        self.span += span;
        self.emptied |= !link.backlog;
        if self.span.is_zero() || self.bytes < ENOUGH && self.span < LONG {
            return None;
        }
        let seen =
            Seen { now: link.now, rate: self.bytes / self.span.as_secs_f64(), backlog: !self.emptied };
        (self.bytes, self.span, self.emptied) = (0.0, Duration::ZERO, false);
        self.learn(seen);
        Some(seen)
    }

    fn learn(&mut self, seen: Seen) {
        if seen.backlog {
            self.hungry = 0;
            self.exact(seen.rate.clamp(SLOWEST, FASTEST));
        } else {
            let growth = GROWTH[self.hungry.min(GROWTH.len() - 1)];
            self.hungry += 1;
            self.suspect = None;
            let known = self.rate.unwrap_or(0.0).max(seen.rate);
            self.rate = Some((known * growth).clamp(SLOWEST, FASTEST));
        }
    }

    fn exact(&mut self, rate: f64) {
        let Some(known) = self.rate else {
            self.rate = Some(rate);
            return;
        };
        let off = rate / known - 1.0;
        if off.abs() <= NOISE {
            self.suspect = None;
            self.rate = Some(known + 0.3 * (rate - known));
        } else if self.suspect.is_some_and(|before| before.signum() == off.signum()) {
            self.suspect = None;
            self.rate = Some(rate);
        } else {
            self.suspect = Some(off);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(view: &mut LinkView, from: u64, reports: &[(f64, bool)]) {
        for (index, (rate, backlog)) in reports.iter().enumerate() {
            let now = Duration::from_millis(from + 100 * (index as u64 + 1));
            view.see(&Link { now, rate: *rate, backlog: *backlog, busy: None });
        }
    }

    #[test]
    fn one_odd_reading_is_noise_and_two_are_a_change() {
        let mut view = LinkView::default();
        feed(&mut view, 0, &[(100e6, true), (10e6, true), (100e6, true)]);
        assert_eq!(view.rate(), Some(100e6));
        feed(&mut view, 300, &[(10e6, true), (6e6, true)]);
        assert_eq!(view.rate(), Some(6e6));
    }

    #[test]
    fn without_backlog_it_grows_twentyfold_within_a_second() {
        let mut view = LinkView::default();
        feed(&mut view, 0, &[(6e6, true)]);
        feed(&mut view, 100, &[(6e6, false); 8]);
        assert!(view.rate().unwrap() > 120e6, "{:?}", view.rate());
    }

    #[test]
    fn slow_links_are_seen_over_longer_windows() {
        let mut view = LinkView::default();
        feed(&mut view, 0, &[(0.0, true), (0.0, true), (2.4e6, true)]);
        assert_eq!(view.rate(), None);
        feed(&mut view, 300, &[(0.0, true)]);
        assert!((view.rate().unwrap() - 0.6e6).abs() < 1.0);
    }
}
