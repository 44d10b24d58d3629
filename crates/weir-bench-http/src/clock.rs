//! The run's clock. It stands still while this process is stopped (Ctrl-Z, a frozen control group), so that
//! the time counts neither in latencies nor towards time-outs.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// If no thread of a run reads the clock for longer than this, the process was stopped: the thread that waits
/// for the others reads it fifty times a second, even while a script holds a loop, and each loop ten times.
const STOPPED: u64 = 1_000_000_000;

/// Looks are stored no more often than this: each request takes several, and a store makes all other cores
/// fetch the line again.
const KEPT: u64 = 10_000_000;

/// A run's clock, which all its threads read. Times are nanoseconds since its start.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    /// When the last stored look was taken, by the machine's clock.
    seen: AtomicU64,
    /// How long the process was stopped.
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

    /// Nanoseconds since the start, without those in which the process was stopped.
    pub(crate) fn now(&self) -> u64 {
        self.read(|| self.start.elapsed().as_nanos() as u64)
    }

    /// How long the process was stopped.
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

    /// Leaves out a stop that ended no later than `at`, unless another thread has done so. The clock resumes
    /// at the latest time that it can have returned before.
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
