//! The run's clock. It stands still while this process does (Ctrl-Z, a control group that was frozen): what
//! nobody waits for is charged to nobody, neither as an answer's time nor as a request that timed out.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Nothing but a stop keeps all threads of a run from the clock for so long: the one that waits for the
/// others looks fifty times a second, also while a script holds a loop, and each loop ten times.
const STOPPED: u64 = 1_000_000_000;

/// How much later than the last look that was kept the next one is: seldom beside several looks a request,
/// since what one thread writes all others have to fetch.
const KEPT: u64 = 10_000_000;

/// A run's clock, which all its threads look at. Times are nanoseconds since its start.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    /// The last look that was kept, by the machine's clock.
    seen: AtomicU64,
    /// How long the process stood still.
    away: AtomicU64,
    stop: Mutex<()>,
}

impl Clock {
    /// The run begins now.
    pub(crate) fn new() -> Clock {
        Clock {
            start: Instant::now(),
            seen: AtomicU64::new(0),
            away: AtomicU64::new(0),
            stop: Mutex::new(()),
        }
    }

    /// Nanoseconds since the start in which the process did not stand still.
    pub(crate) fn now(&self) -> u64 {
        self.read(|| self.start.elapsed().as_nanos() as u64)
    }

    /// How long it did.
    pub(crate) fn away(&self) -> Duration {
        Duration::from_nanos(self.away.load(Relaxed))
    }

    fn read(&self, machine: impl Fn() -> u64) -> u64 {
        loop {
            let away = self.away.load(Acquire);
            let at = machine();
            let since = at.saturating_sub(self.seen.load(Acquire));
            if since > STOPPED {
                self.went_on(at);
                continue;
            }
            if since > KEPT {
                self.seen.fetch_max(at, Release);
            }
            // A stop may have come between these lines.
            if self.away.load(Acquire) == away {
                return at.saturating_sub(away);
            }
        }
    }

    /// Takes a stop that ended at the latest `at` out of the time, unless another thread has. The clock goes
    /// on at the latest time that it can have told before.
    fn went_on(&self, at: u64) {
        let _one = self.stop.lock();
        let since = at.saturating_sub(self.seen.load(Acquire));
        if since > STOPPED {
            self.away.fetch_add(since - KEPT, Release);
            self.seen.fetch_max(at, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn it_stands_still_while_nobody_looks_and_never_goes_back() {
        let clock = Clock::new();
        let at = |ms: u64| clock.read(|| ms * MS) / MS;
        assert_eq!([20, 29, 900, 909].map(at), [20, 29, 900, 909]);
        assert_eq!([4909, 4920].map(at), [910, 921]);
        assert_eq!(clock.away(), Duration::from_millis(3999));
        // Again, and once for all threads.
        assert_eq!([9000, 9000, 9100].map(at), [931, 931, 1031]);
    }
}
