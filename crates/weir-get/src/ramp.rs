//! How many connections for many small objects? As TCP's slow start: double each round while that brings
//! more.
//!
//! The first round has six, what browsers open to a host without a thought. Small objects cost round trips,
//! not bytes, so their lanes mostly wait. Pure: time comes in as an argument.

use std::time::{Duration, Instant};

/// As many connections as browsers open to a host without a thought.
const FIRST: u32 = 6;

/// A round must finish this many objects per lane before it is judged.
const ROUND: u32 = 6;

/// New lanes begin with handshakes, TCP's and TLS's. So a round begins once each of them has finished an
/// object, or after this many objects per lane, since some may never finish one.
const STARTING: u32 = 3;

/// And take this long: shorter rounds are noise.
const SHORTEST: Duration = Duration::from_millis(8);

/// A lane that finishes this many a second (one in two thirds of a millisecond) does not wait for a path;
/// more lanes would only cost their handshakes and share the same processors.
const NEAR: f64 = 1500.0;

/// What doubling the lanes must bring.
const WORTH: f64 = 1.15;

/// The ramp's state.
#[derive(Debug)]
pub struct Ramp {
    max: u32,
    lanes: u32,
    /// New lanes that have finished nothing yet, and the objects finished since they were added.
    starting: (u32, u32),
    round: Option<(Instant, u32)>,
    last_rate: f64,
    settled: bool,
}

impl Ramp {
    /// The lanes wanted now.
    pub fn lanes(&self) -> u32 {
        self.lanes
    }

    /// A measured round has ended it, and not the most lanes that there may be: more might bring more.
    pub(crate) fn has_tried(&self) -> bool {
        self.settled && self.lanes < self.max
    }

    /// A ramp up to `max`.
    pub fn new(max: u32) -> Ramp {
        let lanes = FIRST.min(max);
        Ramp { max, lanes, starting: (0, 0), round: None, last_rate: 0.0, settled: max <= 1 }
    }

    /// A lane that had finished `brought` small objects has finished another one; `waiting` more are queued.
    /// Returns the number of lanes wanted, if that changed.
    pub(crate) fn on_object(&mut self, now: Instant, brought: u32, waiting: usize) -> Option<u32> {
        if self.settled || waiting as u64 <= u64::from(self.lanes) {
            return None;
        }
        let (starting, passed) = &mut self.starting;
        if *starting > 0 {
            *starting -= u32::from(brought == 0);
            *passed += 1;
            if *starting > 0 && *passed < STARTING * self.lanes {
                return None;
            }
            *starting = 0;
        }
        let Some((start, count)) = &mut self.round else {
            self.round = Some((now, 0));
            return None;
        };
        *count += 1;
        // Answers come in batches, one from each lane: a rate over part of a batch cannot be compared.
        if !count.is_multiple_of(self.lanes) {
            return None;
        }
        let span = now - *start;
        if *count < ROUND * self.lanes || span < SHORTEST {
            // A slow path's round would take long: one object a lane is proof enough that lanes wait.
            let is_slow = span > Duration::from_millis(20) && *count >= self.lanes;
            if !is_slow {
                return None;
            }
        }
        let rate = f64::from(*count) / span.as_secs_f64().max(1e-6);
        self.round = None;
        let before = self.lanes;
        if rate / f64::from(before) > NEAR {
            self.settled = true;
        } else if self.last_rate > 0.0 && rate < self.last_rate * WORTH {
            self.settled = true;
            self.lanes = (self.lanes / 2).max(1);
        } else {
            self.lanes = (self.lanes * 2).min(self.max);
            self.starting = (self.lanes - before, 0);
            self.settled = self.lanes == before;
        }
        tracing::debug!("small objects: {before} lanes finish {rate:.0} a second, now {} lanes", self.lanes);
        self.last_rate = rate;
        (self.lanes != before).then_some(self.lanes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finishes `objects` at `rate(lanes)` a second; returns the lanes it ends with.
    fn run(rate: fn(u32) -> f64, objects: usize) -> u32 {
        let (mut ramp, mut now, mut lanes) = (Ramp::new(64), Instant::now(), FIRST);
        for left in (0..objects).rev() {
            now += Duration::from_secs_f64(1.0 / rate(lanes));
            lanes = ramp.on_object(now, 1, left).unwrap_or(lanes);
        }
        lanes
    }

    /// Finishes `objects` over a path: a lane takes a round trip of `trip` for each, and `idle` more of them
    /// before its first. Returns the lanes it ends with.
    fn over_a_path(trip: Duration, idle: u32, objects: usize) -> u32 {
        let (mut ramp, start) = (Ramp::new(64), Instant::now());
        let mut lanes = vec![(trip * (idle + 1), 0); FIRST as usize];
        for left in (0..objects).rev() {
            let lane = lanes.iter_mut().min_by_key(|(due, _)| *due).expect("a lane");
            let (now, brought) = *lane;
            *lane = (now + trip, brought + 1);
            if let Some(wanted) = ramp.on_object(start + now, brought, left) {
                lanes.resize(wanted as usize, (now + trip * (idle + 1), 0));
            }
        }
        ramp.lanes()
    }

    #[test]
    fn handshakes_of_new_lanes_are_no_part_of_a_round() {
        for trip in [1, 15, 19, 21, 80, 300].map(Duration::from_millis) {
            for idle in 0..=3 {
                assert_eq!(over_a_path(trip, idle, 2000), 64, "{trip:?}, {idle} idle");
            }
        }
    }

    #[test]
    fn a_short_list_over_a_long_path_gets_more_lanes() {
        assert_eq!(over_a_path(Duration::from_millis(80), 1, 200), 48);
    }

    #[test]
    fn a_short_list_ends_without_more_having_been_tried() {
        let settled = |objects: usize| {
            let (mut ramp, mut now) = (Ramp::new(64), Instant::now());
            for left in (0..objects).rev() {
                now += Duration::from_millis(10);
                ramp.on_object(now, 1, left);
            }
            ramp.has_tried()
        };
        assert!(settled(2000) && !settled(20));
        assert!(!Ramp::new(1).has_tried(), "nothing was tried");
        let mut top = Ramp::new(FIRST);
        let begin = Instant::now();
        for at in 1..100 {
            let _ = top.on_object(begin + Duration::from_millis(10 * at), 1, 1000);
        }
        assert!(!top.has_tried(), "no more were allowed");
    }

    #[test]
    fn waiting_lanes_are_doubled_to_the_top() {
        assert_eq!(run(|lanes| 25.0 * f64::from(lanes), 2000), 64);
    }

    #[test]
    fn a_busy_server_ends_the_ramp() {
        let lanes = run(|lanes| 500.0 * f64::from(lanes.min(12)), 2000);
        assert_eq!(lanes, 12);
        // Slower with more at once; and one that serves no more than the first, however many connect.
        let lanes = run(|lanes| 500.0 * if lanes > 12 { 6.0 } else { f64::from(lanes) }, 2000);
        assert_eq!(lanes, 12);
        assert_eq!(run(|lanes| 25.0 * f64::from(lanes.min(FIRST)), 2000), FIRST);
    }

    #[test]
    fn a_near_server_needs_no_more_than_the_first() {
        assert_eq!(run(|lanes| 5000.0 * f64::from(lanes), 2000), FIRST);
    }
}
