//! What the link carries: exact while blocks wait for lanes, a lower bound that grows while lanes wait for
//! blocks.

use std::time::Duration;

use super::Link;

/// Reports are joined until they hold this many bytes...
const ENOUGH: f64 = (512 << 10) as f64;

/// ...or this much time: on 5 Mbit/s, 100 ms are 62 KB, a twentieth of a block.
const LONG: Duration = Duration::from_millis(400);

/// Readings within this of the estimate are noise to be averaged, those beyond it a change once a second one
/// agrees.
const NOISE: f64 = 0.2;

/// How the estimate grows from window to window while lanes wait for blocks: carefully at first, since a
/// queue may run empty for once; 20-fold within ten windows, two of which are for a look.
const GROWTH: [f64; 5] = [1.1, 1.15, 1.3, 1.6, 2.0];

/// The wire follows if it carries this much more than before. A full link does not, however light the codecs
/// get; a compressor that is the limit, or a slow source, puts more on the wire as soon as they do.
const FOLLOWS: f64 = 1.05;

/// The estimate stops here, as a multiple of what the wire carries, when codecs got lighter and the wire did
/// not follow: the first time, and from the first refusal on. That much the processors may be slower than the
/// law believes.
const AHEAD_OF_WIRE: [f64; 2] = [1.25, 1.5];

/// And as a multiple of what the link was last found to carry, while the wire does not carry more than that.
/// Where the processors are the limit codecs do not get lighter however much is asked for; were it asked for
/// without bound, the first stumble of the machine would have all blocks go as they are.
const AHEAD_OF_LINK: f64 = 1.5;

/// A step that makes codecs this much lighter is looked at before the next, where the link was known: it may
/// be full already.
const LIGHTER: f64 = 1.02;

/// Windows until such a step shows on the wire: what waited then goes first, a quarter of a second.
const SHOWS: u32 = 2;

/// Windows there before it counts as refused: blocks on their way were compressed for the link as it was.
const PATIENCE: u32 = 2;

/// Windows of rest after a refusal, the first time and at most: half a second, so that a link that becomes
/// faster is noticed within a second.
const REST: u32 = 2;
const REST_MOST: u32 = 5;

/// How long an exact reading is believed while the law itself leaves room on the link, the first time and at
/// most: to look costs a few windows of a choice that is too light.
const HOLD: Duration = Duration::from_millis(500);
const HOLD_MOST: Duration = Duration::from_secs(4);

/// Below this no codec differs from another.
const SLOWEST: f64 = 1e3;

/// Beyond this no codec pays, on any machine: 1 TB/s.
const FASTEST: f64 = 1e12;

/// Reports joined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct JoinedReports {
    pub(super) now: Duration,
    pub(super) rate: f64,
    pub(super) backlog: bool,
}

/// What the law has made of the estimate so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Offered {
    /// Share of original bytes that go on the wire.
    pub(super) ratio: f64,
    /// It expects the link to be full.
    pub(super) full: bool,
}

/// How the growth goes.
#[derive(Debug, Clone, Copy, Default)]
struct Hunger {
    /// Index into [`GROWTH`].
    step: usize,
    /// What the wire carried when it last followed, and what was offered then; 0 before the first time.
    base: f64,
    ratio: f64,
    /// Windows at the most that is asked for without following.
    waited: u32,
    /// What was offered before it began, 0 before that; and the windows for which its first step was looked
    /// at.
    before: f64,
    looked: u32,
    /// Windows of rest left, and how many the next rest has.
    rest: u32,
    next_rest: u32,
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
    /// Asking for more, while lanes wait for blocks.
    hunger: Hunger,
    /// The last exact reading, the estimate with it, and how long the next is believed.
    exact_at: Option<Duration>,
    full: f64,
    hold: Duration,
    /// The last window was this much off, and waits for a second one to agree.
    suspect: Option<f64>,
}

impl LinkView {
    /// The estimate.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// Takes a report; returns the window that it completes.
    pub(super) fn see(&mut self, link: &Link, offered: Offered) -> Option<JoinedReports> {
        let span = link.now.saturating_sub(self.at);
        self.at = self.at.max(link.now);
        let rate = if link.rate.is_finite() { link.rate.max(0.0) } else { 0.0 };
        self.bytes += rate * span.as_secs_f64();
        self.span += span;
        self.emptied |= !link.backlog;
        if self.span.is_zero() || self.bytes < ENOUGH && self.span < LONG {
            return None;
        }
        let seen = JoinedReports {
            now: link.now,
            rate: self.bytes / self.span.as_secs_f64(),
            backlog: !self.emptied,
        };
        (self.bytes, self.span, self.emptied) = (0.0, Duration::ZERO, false);
        self.learn(seen, offered);
        Some(seen)
    }

    fn learn(&mut self, seen: JoinedReports, offered: Offered) {
        let rate = seen.rate.clamp(SLOWEST, FASTEST);
        if seen.backlog {
            if self.hunger.base > 0.0 {
                // Found again what was known: the next look may wait. Found another: it may not.
                let same = self.rate.is_some_and(|known| rate < known);
                self.hold = if same { (self.hold * 2).clamp(HOLD, HOLD_MOST) } else { HOLD };
            }
            self.hunger = Hunger::default();
            self.exact_at = Some(seen.now);
            self.exact(rate);
            self.full = self.rate.unwrap_or_default();
            return;
        }
        self.suspect = None;
        let known = self.rate.unwrap_or(rate).max(rate);
        // Lanes wait because the law prefers so: no news of the link.
        let held = !offered.full && self.exact_at.is_some_and(|at| seen.now < at + self.hold.max(HOLD));
        let shown = self.exact_at.is_none() || self.hunger.has_shown(offered.ratio);
        let waits = held || !shown;
        self.rate = Some(if waits {
            known
        } else {
            self.hunger.ask(rate, known, self.full, offered.ratio).min(FASTEST)
        });
    }

    fn exact(&mut self, rate: f64) {
        let Some(known) = self.rate else {
            self.rate = Some(rate);
            return;
        };
        let off = rate / known - 1.0;
        if off.abs() <= NOISE {
            self.suspect = None;
            // Noise is mostly downwards: a queue that ran empty for a moment. So the estimate follows the
            // better readings.
            self.rate = Some(known + if rate > known { 0.5 } else { 0.1 } * (rate - known));
        } else if self.suspect.is_some_and(|before| before.signum() == off.signum()) {
            self.suspect = None;
            self.rate = Some(rate);
        } else {
            self.suspect = Some(off);
        }
    }
}

impl Hunger {
    /// Whether the first step that made codecs lighter, if there was one, has had the time to show on the
    /// wire.
    fn has_shown(&mut self, ratio: f64) -> bool {
        if self.before == 0.0 {
            self.before = ratio;
        }
        if ratio < LIGHTER * self.before || self.looked >= SHOWS {
            return true;
        }
        self.looked += 1;
        false
    }

    /// The estimate after a window without backlog in which the wire carried `rate`; it was `known` before,
    /// and `full` when blocks last waited, 0 if never.
    fn ask(&mut self, rate: f64, known: f64, full: f64, ratio: f64) -> f64 {
        if self.rest > 0 {
            self.rest -= 1;
            return known;
        }
        if rate > FOLLOWS * self.base {
            (self.base, self.ratio, self.waited) = (rate, ratio, 0);
        }
        let most = AHEAD_OF_WIRE[usize::from(self.next_rest > 0)] * self.base;
        if known < most || ratio < FOLLOWS * self.ratio {
            let growth = GROWTH[self.step.min(GROWTH.len() - 1)];
            self.step += 1;
            let bound = if self.base > FOLLOWS * full { FASTEST } else { AHEAD_OF_LINK * full };
            return (known * growth).min(bound.max(known));
        }
        self.waited += 1;
        if self.waited <= PATIENCE {
            return known;
        }
        let rest = self.next_rest.clamp(REST, REST_MOST);
        *self = Hunger { rest, next_rest: rest * 2, ..Hunger::default() };
        rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(view: &mut LinkView, from: u64, reports: &[(f64, bool)]) {
        for (index, (rate, backlog)) in reports.iter().enumerate() {
            let now = Duration::from_millis(from + 100 * (index as u64 + 1));
            let offered = Offered { ratio: view.rate().unwrap_or(1.0) / 1e9, full: true };
            view.see(&Link { now, rate: *rate, backlog: *backlog, busy: None, own: None }, offered);
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
        // The wire carries what is asked for.
        for window in 1..=10 {
            let rate = view.rate().unwrap();
            feed(&mut view, 100 * window, &[(rate, false)]);
        }
        assert!(view.rate().unwrap() > 120e6, "{:?}", view.rate());
    }

    #[test]
    fn a_full_link_does_not_follow_even_where_the_queue_runs_empty() {
        let mut view = LinkView::default();
        feed(&mut view, 0, &[(100e6, true)]);
        for window in 1..50 {
            feed(&mut view, 100 * window, &[(100e6, false)]);
            assert!(view.rate().unwrap() <= 180e6, "{:?}", view.rate());
        }
    }

    #[test]
    fn where_processors_are_the_limit_no_more_is_asked_for_than_the_link_may_carry() {
        let mut view = LinkView::default();
        let mut see = |window: u64, rate: f64, backlog: bool| {
            let now = Duration::from_millis(100 * (window + 1));
            let offered = Offered { ratio: 0.4, full: true };
            view.see(&Link { now, rate, backlog, busy: None, own: None }, offered);
            view.rate().unwrap()
        };
        see(0, 119e6, true);
        for window in 1..60 {
            let rate = [95e6, 118e6, 30e6, 101e6][window as usize % 4];
            assert!(see(window, rate, false) <= 1.5 * 119e6);
        }
        // A wire that carries more is another link.
        for window in 60..80 {
            see(window, 140e6, false);
        }
        assert!(see(80, 140e6, false) > 1e9);
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
