//! Whether a loop should let answers gather for a moment before it asks for events: pure.
//!
//! A loop that is quicker than its server sleeps between two answers, and each answer then has to wake it:
//! that costs the sender of the answer, the server, a few microseconds of its processor (an interrupt to
//! another core, dear on virtual machines), and the figure falls because the client is good. Sleeping for a
//! moment by its own clock instead lets several answers come under one waking. Where the server is full this
//! costs nothing, since requests only wait here instead of there; where it is not, it would cost latency. So
//! it is never assumed but tried, a tick with it beside a tick without it, and kept for some seconds only if
//! it brought more answers. What a host gives to its machines drifts by a tenth and more within a second
//! (seen as such: 94, 75, 82 thousand answers a second, of an effect of 8 %), so only neighbouring ticks are
//! compared, either one of them first as often, and of these pairs the median counts. Many short ticks tell
//! more than a few long ones: the drift has less time, the median more pairs, and a run of a few seconds
//! spends less of itself on trying.

use std::collections::VecDeque;
use std::time::Duration;

use weir_units::stats::median;

/// Ticks in pairs, and what comes of them.
#[derive(Debug)]
struct Trial {
    ticks: usize,
    /// Ticks after it for which its word holds.
    hold: usize,
}

/// The first: a third of a second, whose word holds for one.
const FIRST: Trial = Trial { ticks: 32, hold: 100 };

/// Each later one; its word, with that of the ones before, holds for three seconds.
const AGAIN: Trial = Trial { ticks: 16, hold: 300 };

/// Pairs that are remembered: three trials.
const PAIRS: usize = FIRST.ticks / 2 + AGAIN.ticks;

/// A tick lasts for so long: what is under way when it begins, a millisecond's answers, is a tenth of it, and
/// within two of them a host drifts by less than what is looked for ...
const TICK: u64 = 10_000_000;

/// ... and until so many answers have come, since the scatter of fewer hides what is looked for ...
const ANSWERS: u64 = 250;

/// ... but no longer than this. The first one is, since it is mostly connecting.
const LONGEST_TICK: u64 = 100_000_000;

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
    /// When this tick began, nanoseconds, and how many answers had come by then.
    since: u64,
    before: u64,
    /// The rate of a pair's first tick.
    first: f64,
    /// The rate with it over the rate without it, of each pair, the latest last.
    gains: VecDeque<f64>,
    kept: bool,
    moment: Option<Duration>,
}

/// Whether answers gather in a trial's tick, by Thue and Morse's sequence: of each two ticks in one, and
/// neither a drift nor its change favours a side.
fn gathers_in(tick: usize) -> bool {
    tick.count_ones() % 2 == 1
}

impl Gathering {
    /// Of a loop that begins now.
    pub(crate) fn new(now: u64) -> Gathering {
        Gathering {
            trial: &FIRST,
            ticks: None,
            since: now,
            before: 0,
            first: 0.0,
            gains: VecDeque::new(),
            kept: false,
            moment: None,
        }
    }

    /// By `now` so many answers have come over so many connections.
    pub(crate) fn look(&mut self, now: u64, answers: u64, connections: usize) {
        let elapsed = now.saturating_sub(self.since);
        let shortest = if self.ticks.is_none() { LONGEST_TICK } else { TICK };
        if elapsed < shortest {
            return;
        }
        // Counted from nothing again after a warming up.
        let came = answers.checked_sub(self.before).unwrap_or(answers);
        if came >= ANSWERS || elapsed >= LONGEST_TICK {
            (self.since, self.before) = (now, answers);
            self.tick(came, Duration::from_nanos(elapsed), connections);
        }
    }

    /// A tick of `elapsed` is over, in which so many answers came.
    fn tick(&mut self, answers: u64, elapsed: Duration, connections: usize) {
        self.ticks = Some(self.ticks.map_or(0, |tick| {
            self.compare(tick, answers as f64 / elapsed.as_secs_f64());
            tick + 1
        }));
        if self.ticks == Some(self.trial.ticks + self.trial.hold) {
            (self.trial, self.ticks) = (&AGAIN, Some(0));
        }
        let between = elapsed.as_secs_f64() / answers.max(1) as f64;
        let moment = Duration::from_secs_f64((connections / SHARE) as f64 * between).min(LONGEST);
        self.moment = (moment >= SHORTEST && answers > 0).then_some(moment);
    }

    /// Takes the rate of a trial's tick; at the trial's end, the decision.
    fn compare(&mut self, tick: usize, rate: f64) {
        if tick >= self.trial.ticks {
            return;
        }
        if tick.is_multiple_of(2) {
            return self.first = rate;
        }
        let (with, without) = if gathers_in(tick) { (rate, self.first) } else { (self.first, rate) };
        if self.gains.len() == PAIRS {
            self.gains.pop_front();
        }
        self.gains.push_back(if without > 0.0 { with / without } else { 1.0 });
        if tick + 1 == self.trial.ticks {
            self.kept = median(self.gains.iter().copied()).is_some_and(|gain| gain >= GAIN);
        }
    }

    /// How long to let answers gather now, if at all.
    pub(crate) fn moment(&self) -> Option<Duration> {
        let tried =
            self.ticks.is_some_and(|tick| if tick < self.trial.ticks { gathers_in(tick) } else { self.kept });
        self.moment.filter(|_| tried)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LASTS: Duration = Duration::from_nanos(TICK);

    /// Ticks, each with the server's answers where answers gather and where they do not; the ticks in which
    /// they did.
    fn played(ticks: impl Iterator<Item = (u64, u64)>, connections: usize) -> usize {
        let mut gathering = Gathering::new(0);
        let mut on = 0;
        for (with, without) in ticks {
            let gathers = gathering.moment().is_some();
            on += usize::from(gathers);
            gathering.tick(if gathers { with } else { without }, LASTS, connections);
        }
        on
    }

    /// A tick that connects, the first trial and what it brings, the second and what that brings.
    const TICKS: usize = 1 + FIRST.ticks + FIRST.hold + AGAIN.ticks + AGAIN.hold;

    /// Those in which it is tried.
    const TRIED: usize = (FIRST.ticks + AGAIN.ticks) / 2;

    #[test]
    fn it_is_kept_only_where_it_brings_more() {
        let of = |with, without| played(std::iter::repeat_n((with, without), TICKS), 50);
        assert_eq!(of(600, 550), TRIED + FIRST.hold + AGAIN.hold);
        assert_eq!(of(550, 550), TRIED);
        assert_eq!(of(400, 550), TRIED);
    }

    #[test]
    fn a_drift_and_bad_ticks_do_not_decide() {
        // Ever faster, by a tenth over the first trial; and a few ticks in which the machine stood still.
        let drifting = |gain: u64| {
            (0..TICKS as u64).map(move |tick| {
                let base = if [3, 4, 8, 29].contains(&tick) { 100 } else { 500 + tick * 3 / 2 };
                (base * gain / 100, base)
            })
        };
        assert_eq!(played(drifting(108), 50), TRIED + FIRST.hold + AGAIN.hold);
        assert_eq!(played(drifting(95), 50), TRIED);
    }

    #[test]
    fn few_connections_never_gather() {
        assert_eq!(played(std::iter::repeat_n((600, 550), 200), 7), 0);
        assert_eq!(played(std::iter::repeat_n((6000, 5500), 200), 8), 0);
    }

    #[test]
    fn the_moment_has_bounds() {
        let mut gathering = Gathering::new(0);
        (0..3).for_each(|_| gathering.tick(10, LASTS, 1000));
        assert_eq!(gathering.moment.unwrap(), LONGEST);
        gathering.tick(0, LASTS, 1000);
        assert_eq!(gathering.moment, None);
    }

    #[test]
    fn a_tick_waits_for_answers_but_not_for_ever() {
        let mut gathering = Gathering::new(0);
        let mut after = |nanos, answers| {
            gathering.look(nanos, answers, 100);
            gathering.ticks
        };
        assert_eq!(after(LONGEST_TICK - 1, 100_000), None, "the first is mostly connecting");
        let mut now = LONGEST_TICK;
        assert_eq!(after(now, 100_000), Some(0));
        assert_eq!(after(now + TICK - 1, 100_500), Some(0));
        now += TICK;
        assert_eq!(after(now, 100_500), Some(1));
        assert_eq!(after(now + TICK, 100_501), Some(1), "too few");
        now += LONGEST_TICK;
        assert_eq!(after(now, 100_502), Some(2));
        // The warming up is over, all is counted from nothing.
        now += TICK;
        assert_eq!(after(now, ANSWERS), Some(3));
    }
}
