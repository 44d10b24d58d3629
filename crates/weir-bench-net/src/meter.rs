//! Does a test keep within the bits per second that its server allows, whatever its client said?

use std::collections::VecDeque;
use std::time::Duration;

/// The average is taken over so long unless the server says otherwise, as iperf3's does.
pub const SPAN: Duration = Duration::from_secs(5);

/// No test is judged before it has run so long: the first bytes only fill buffers.
const LEAST: Duration = Duration::from_secs(1);

/// Between two marks. Fifty of them make a span.
const STEP: Duration = Duration::from_millis(100);

/// Clocks of two hosts and the grain of marks; a client that states the very bound keeps to it no better.
const SLACK: f64 = 1.05;

/// Bytes over the last seconds, against a bound.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Bits per second.
    most: u64,
    /// Bytes that may come at once in spite of it.
    gush: u64,
    /// The average is taken over so long.
    span: Duration,
    /// When, and how many bytes until then; the oldest is the last before the span.
    marks: VecDeque<(Duration, u64)>,
}

impl Meter {
    /// Of `most` bits per second over `span`, with `gush` bytes that even a client which keeps to it writes
    /// at once.
    pub(crate) fn new(most: u64, gush: u64, span: Duration) -> Meter {
        Meter { most, gush, span, marks: VecDeque::from([(Duration::ZERO, 0)]) }
    }

    /// In words, if the test that has moved `carried` bytes until `now` is faster than allowed.
    pub(crate) fn exceeded(&mut self, now: Duration, carried: u64) -> Option<String> {
        if self.marks.back().is_none_or(|(at, _)| now >= *at + STEP) {
            self.marks.push_back((now, carried));
        }
        while self.marks.get(1).is_some_and(|(at, _)| now >= *at + self.span) {
            self.marks.pop_front();
        }
        let (since, before) = *self.marks.front()?;
        let span = (now - since).as_secs_f64();
        let moved = carried.saturating_sub(before);
        let allowed = self.most as f64 / 8.0 * span * SLACK + self.gush as f64;
        let exceeds = now >= LEAST && moved as f64 > allowed;
        exceeds.then(|| {
            format!("{:.0} bit/s over {span:.1} s, more than {}", moved as f64 * 8.0 / span, self.most)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABYTE: u64 = 1_000_000;

    fn at(meter: &mut Meter, millis: u64, carried: u64) -> bool {
        meter.exceeded(Duration::from_millis(millis), carried).is_some()
    }

    #[test]
    fn who_keeps_to_the_bound_is_left_alone() {
        // 8 Mbit/s: a megabyte a second, in gushes of 128 KiB.
        let mut meter = Meter::new(8_000_000, 131_072, SPAN);
        for tick in 0..2000 {
            let carried = (tick * 20_000_u64).div_ceil(131_072) * 131_072;
            assert!(!at(&mut meter, tick * 20, carried), "at {tick}");
        }
    }

    #[test]
    fn who_does_not_is_found_within_a_second_or_the_span() {
        let mut meter = Meter::new(8_000_000, 0, SPAN);
        assert!(!at(&mut meter, 900, 500 * MEGABYTE), "not before a second");
        assert!(at(&mut meter, 1000, 500 * MEGABYTE));
        // Ten quiet minutes give no right to a flood.
        let mut meter = Meter::new(8_000_000, 0, SPAN);
        for second in 1..600 {
            assert!(!at(&mut meter, second * 1000, 0));
        }
        assert!(at(&mut meter, 600_000, 6 * MEGABYTE));
    }

    #[test]
    fn few_marks_are_kept() {
        let mut meter = Meter::new(1, 0, SPAN);
        for tick in 0..100_000 {
            let _ = at(&mut meter, tick * 20, 0);
        }
        assert!(meter.marks.len() <= 52, "{}", meter.marks.len());
    }
}
