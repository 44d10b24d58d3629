//! Whether a loop should let answers gather for a moment before it asks for events: pure.
//!
//! A loop that is quicker than its server sleeps between two answers, and each answer then has to wake it: that costs the
//! sender of the answer, the server, a few microseconds of its processor (an interrupt to another core, dear on virtual
//! machines), and the figure falls because the client is good. Sleeping for a moment by its own clock instead lets several answers
//! come under one waking. Where the server is full this costs nothing, since requests only wait here instead of there; where
//! it is not, it would cost latency. So it is never assumed but tried, a tick with it beside a tick without it, and kept for some
//! seconds only if it brought more answers. What a host gives to its machines drifts by a tenth and more within a second (seen
//! as such: 94, 75, 82 thousand answers a second, of an effect of 8 %), so only neighbouring ticks are compared, either one of
//! them first as often, and of these pairs the median counts.

use std::collections::VecDeque;
use std::time::Duration;

/// Ticks in pairs, and what comes of them.
#[derive(Debug)]
struct Trial {
    /// Whether answers gather in each.
    with: &'static [bool],
    /// Ticks after it for which its word holds.
    hold: usize,
}

/// The first. Thue and Morse's sequence, in which neither a drift nor its change favours a side; four pairs may err, so its word
/// holds for a shorter time.
const FIRST: Trial = Trial { with: &[false, true, true, false, true, false, false, true], hold: 20 };

/// Each later one.
const AGAIN: Trial = Trial { with: &[false, true, true, false], hold: 50 };

/// Pairs that are remembered: three trials.
const PAIRS: usize = FIRST.with.len() / 2 + AGAIN.with.len();

/// What it has to bring: more than nothing, by the scatter of a median of pairs.
const GAIN: f64 = 1.01;

/// Share of the connections whose answers may gather: the others' requests keep the server busy meanwhile.
const SHARE: usize = 8;

/// A shorter moment is over before its timer is set.
const SHORTEST: Duration = Duration::from_micros(30);

/// A longer one would be seen in latencies.
const LONGEST: Duration = Duration::from_micros(250);

/// The trial's state.
#[derive(Debug)]
pub(crate) struct Gathering {
    trial: &'static Trial,
    /// Ticks since the trial began; none before its first.
    ticks: Option<usize>,
    /// The rate of a pair's first tick.
    first: f64,
    /// The rate with it over the rate without it, of each pair, the latest last.
    gains: VecDeque<f64>,
    kept: bool,
    moment: Option<Duration>,
}

impl Default for Gathering {
    fn default() -> Gathering {
        Gathering {
            trial: &FIRST,
            ticks: None,
            first: 0.0,
            gains: VecDeque::new(),
            kept: false,
            moment: None,
        }
    }
}

impl Gathering {
    /// A tick of `elapsed` is over, in which so many answers came over so many connections.
    pub(crate) fn tick(&mut self, answers: u64, elapsed: Duration, connections: usize) {
        // The tick before the first trial is mostly connecting.
        self.ticks = Some(self.ticks.map_or(0, |tick| {
            self.compare(tick, answers as f64 / elapsed.as_secs_f64());
            tick + 1
        }));
        if self.ticks == Some(self.trial.with.len() + self.trial.hold) {
            (self.trial, self.ticks) = (&AGAIN, Some(0));
        }
        let between = elapsed.as_secs_f64() / answers.max(1) as f64;
        let moment = Duration::from_secs_f64((connections / SHARE) as f64 * between).min(LONGEST);
        self.moment = (moment >= SHORTEST && answers > 0).then_some(moment);
    }

    /// Takes the rate of a trial's tick; at the trial's end, the decision.
    fn compare(&mut self, tick: usize, rate: f64) {
        let Some(with) = self.trial.with.get(tick) else { return };
        if tick.is_multiple_of(2) {
            return self.first = rate;
        }
        let (with, without) = if *with { (rate, self.first) } else { (self.first, rate) };
        if self.gains.len() == PAIRS {
            self.gains.pop_front();
        }
        self.gains.push_back(if without > 0.0 { with / without } else { 1.0 });
        if tick + 1 == self.trial.with.len() {
            self.kept = self.median() >= GAIN;
        }
    }

    fn median(&self) -> f64 {
        let mut gains: Vec<f64> = self.gains.iter().copied().collect();
        gains.sort_by(f64::total_cmp);
        let middle = gains.len() / 2;
        f64::midpoint(gains[middle], gains[(gains.len() - 1) / 2])
    }

    /// How long to let answers gather now, if at all.
    pub(crate) fn moment(&self) -> Option<Duration> {
        let tried = self.ticks.map_or(Some(&false), |tick| self.trial.with.get(tick));
        self.moment.filter(|_| *tried.unwrap_or(&self.kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(100);

    /// Ticks, each with the server's answers where answers gather and where they do not; the ticks in which they did.
    fn played(ticks: impl Iterator<Item = (u64, u64)>, connections: usize) -> usize {
        let mut gathering = Gathering::default();
        let mut on = 0;
        for (with, without) in ticks {
            let gathers = gathering.moment().is_some();
            on += usize::from(gathers);
            gathering.tick(if gathers { with } else { without }, TICK, connections);
        }
        on
    }

    /// A tick that connects, the first trial and what it brings, the second and what that brings.
    const TICKS: usize = 1 + FIRST.with.len() + FIRST.hold + AGAIN.with.len() + AGAIN.hold;

    /// Those in which it is tried.
    const TRIED: usize = FIRST.with.len() / 2 + AGAIN.with.len() / 2;

    #[test]
    fn it_is_kept_only_where_it_brings_more() {
        let of = |with, without| played(std::iter::repeat_n((with, without), TICKS), 50);
        assert_eq!(of(6000, 5500), TRIED + FIRST.hold + AGAIN.hold);
        assert_eq!(of(5500, 5500), TRIED);
        assert_eq!(of(4000, 5500), TRIED);
    }

    #[test]
    fn a_drift_and_a_bad_tick_do_not_decide() {
        // Ever faster, by a sixth over the first trial; and one tick in which the machine stood still.
        let drifting = |gain: u64| {
            (0..TICKS as u64).map(move |tick| {
                let base = if tick == 3 { 1000 } else { 5000 + 100 * tick };
                (base * gain / 100, base)
            })
        };
        assert_eq!(played(drifting(108), 50), TRIED + FIRST.hold + AGAIN.hold);
        assert_eq!(played(drifting(95), 50), TRIED);
    }

    #[test]
    fn few_connections_never_gather() {
        assert_eq!(played(std::iter::repeat_n((6000, 5500), 200), 7), 0);
        assert_eq!(played(std::iter::repeat_n((6000, 5500), 200), 8), 0);
    }

    #[test]
    fn the_moment_has_bounds() {
        let mut gathering = Gathering::default();
        (0..3).for_each(|_| gathering.tick(10, TICK, 1000));
        assert_eq!(gathering.moment.unwrap(), LONGEST);
        gathering.tick(0, TICK, 1000);
        assert_eq!(gathering.moment, None);
    }
}
