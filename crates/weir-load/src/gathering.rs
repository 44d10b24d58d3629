//! Whether a loop should let answers gather for a moment before it asks for events: pure.
//!
//! A loop that is quicker than its server sleeps between two answers, and each answer then has to wake it: that costs the
//! sender of the answer, the server, a few microseconds of its processor (an interrupt to another core, dear on virtual
//! machines), and the figure falls because the client is good. Sleeping for a moment by its own clock instead lets several answers
//! come under one waking. Where the server is full this costs nothing, since requests only wait here instead of there; where
//! it is not, it would cost latency. So it is never assumed but tried: half a second without it and half a second with it, of
//! which the last three tenths each are compared (how a full server takes its requests, one by one or in bursts, outlasts
//! a change for a while), and kept for five seconds only if it brought more answers.

use std::time::Duration;

/// Ticks of a trial, half of them without and then half with.
const TRIAL: u32 = 10;

/// Ticks at the begin of each half that do not count.
const SETTLING: u32 = 2;

/// Ticks until the next one.
const HOLD: u32 = 50;

/// What it has to bring: more than the scatter of tenths of a second.
const GAIN: f64 = 1.01;

/// Share of the connections whose answers may gather: the others' requests keep the server busy meanwhile.
const SHARE: usize = 8;

/// A shorter moment is over before its timer is set.
const SHORTEST: Duration = Duration::from_micros(30);

/// A longer one would be seen in latencies.
const LONGEST: Duration = Duration::from_micros(250);

/// The trial's state.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    ticks: u32,
    with: u64,
    without: u64,
    kept: bool,
    moment: Option<Duration>,
}

impl Gathering {
    /// A tick of `elapsed` is over, in which so many answers came over so many connections.
    pub(crate) fn tick(&mut self, answers: u64, elapsed: Duration, connections: usize) {
        // Tick 0 is mostly connecting.
        match self.ticks.checked_sub(1) {
            Some(tick) if (SETTLING..TRIAL / 2).contains(&tick) => self.without += answers,
            Some(tick) if (TRIAL / 2 + SETTLING..TRIAL).contains(&tick) => self.with += answers,
            _ => {}
        }
        if self.ticks == TRIAL {
            self.kept = self.with as f64 >= GAIN * self.without as f64;
        }
        self.ticks += 1;
        if self.ticks == TRIAL + HOLD {
            (self.ticks, self.with, self.without) = (1, 0, 0);
        }
        let between = elapsed.as_secs_f64() / answers.max(1) as f64;
        let moment = Duration::from_secs_f64((connections / SHARE) as f64 * between).min(LONGEST);
        self.moment = (moment >= SHORTEST && answers > 0).then_some(moment);
    }

    /// How long to let answers gather now, if at all.
    pub(crate) fn moment(&self) -> Option<Duration> {
        let on = if (1..=TRIAL).contains(&self.ticks) { self.ticks > TRIAL / 2 } else { self.kept };
        self.moment.filter(|_| on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(100);

    /// Ticks of a server that gives `with` answers where answers gather, else `without`; the ticks in which they did.
    fn played(ticks: u32, with: u64, without: u64, connections: usize) -> u32 {
        let mut gathering = Gathering::default();
        let mut on = 0;
        for _ in 0..ticks {
            let gathers = gathering.moment().is_some();
            on += u32::from(gathers);
            gathering.tick(if gathers { with } else { without }, TICK, connections);
        }
        on
    }

    #[test]
    fn it_is_kept_only_where_it_brings_more() {
        // A first tick, five without, five with; then fifty with or without it.
        assert_eq!(played(11 + 49, 6000, 5500, 50), 5 + 49);
        assert_eq!(played(11 + 49, 5500, 5500, 50), 5);
        assert_eq!(played(11 + 49, 4000, 5500, 50), 5);
    }

    #[test]
    fn few_connections_never_gather() {
        assert_eq!(played(200, 6000, 5500, 7), 0);
        assert_eq!(played(200, 6000, 5500, 8), 0);
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
