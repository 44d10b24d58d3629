//! The last windows under one lane count: what they brought, and what they show of the path.

use std::time::Duration;

use crate::limit::Limit;

use super::Observation;

/// Windows that make a rate which can be compared with others later: bursts behind a lost segment even out.
pub(super) const STRETCH: usize = 8;

/// See [`Recent::has_faded`]: half of what the first loss takes of a lane (RFC 9438, section 4.6).
const FADED: f64 = 0.85;

/// See [`Recent::has_collapsed`]: 0.7 of 0.7.
const COLLAPSED: f64 = 0.49;

/// What the tuner keeps of a window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    span: Duration,
    bytes: u64,
    limit: Limit,
    is_local: bool,
    queue: bool,
    disorder: bool,
}

/// The last [`STRETCH`] windows, oldest first.
#[derive(Debug, Default)]
pub(super) struct Recent {
    windows: Vec<Window>,
}

impl Recent {
    /// Takes a window in.
    pub(super) fn push(&mut self, seen: &Observation, uploads: bool) {
        if self.is_full() {
            self.windows.remove(0);
        }
        let Observation { span, bytes, limit, queue, disorder, .. } = *seen;
        // What does not read what is uploaded is the far end.
        let is_local = is_local(limit) && !(uploads && limit == Limit::Reader);
        self.windows.push(Window { span, bytes, limit, is_local, queue, disorder });
    }

    /// Other lanes, another rate.
    pub(super) fn clear(&mut self) {
        self.windows.clear();
    }

    /// There are as many as make a rate to compare with.
    pub(super) fn is_full(&self) -> bool {
        self.windows.len() == STRETCH
    }

    /// What they carried all the while, once there are [`STRETCH`] of them: the rate of the slowest two in a
    /// row. Slow start, a burst and a dip do not count.
    pub(super) fn held(&self) -> Option<f64> {
        self.is_full().then(|| self.windows.chunks(2).map(rate).fold(f64::INFINITY, f64::min))
    }

    /// The last `count`, if there are so many.
    pub(super) fn last(&self, count: usize) -> Option<&[Window]> {
        self.windows.len().checked_sub(count).map(|from| &self.windows[from..])
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Window] {
        &self.windows
    }

    /// The path loses segments while no queue stands before its link, so more lanes carry more.
    pub(super) fn is_lossy(&self) -> bool {
        self.windows.iter().any(|window| window.disorder && !window.queue)
    }

    /// Segments were lost.
    pub(super) fn loses(&self) -> bool {
        self.windows.iter().any(|window| window.disorder)
    }

    /// In more windows than an overflow of the queue at the end of slow start takes, which are two: it is the
    /// path that loses segments.
    pub(super) fn loses_often(&self) -> bool {
        self.windows.iter().filter(|window| window.disorder && !window.queue).count() > 2
    }

    /// A queue stands before the link and overflows: it is full, and more lanes would only divide it anew.
    pub(super) fn is_link_full(&self) -> bool {
        self.windows.last().is_some_and(|window| window.queue)
            && self.windows.iter().any(|window| window.disorder)
    }

    /// The lanes' slow start is over and their losses show: a sixth less than at its best. Or so much time
    /// has passed that what they bring now is what they hold.
    pub(super) fn has_faded(&self) -> bool {
        let best = self.windows.windows(2).map(rate).fold(0.0, f64::max);
        self.is_full() || self.last(1).is_some_and(|last| rate(last) < FADED * best)
    }

    /// The newest window brought less than the end of slow start leaves, where the queue overflows in two
    /// round trips.
    pub(super) fn has_collapsed(&self) -> bool {
        let best = self.windows.windows(2).map(rate).fold(0.0, f64::max);
        self.last(1).is_some_and(|last| rate(last) < COLLAPSED * best)
    }

    /// Most of the windows were held by this side.
    pub(super) fn is_local(&self) -> bool {
        self.windows.iter().filter(|window| window.is_local).count() * 2 > self.windows.len()
    }
}

/// Each of `windows` was held by what this side does with the bytes after they have come.
pub(super) fn are_local(windows: &[Window]) -> bool {
    windows.iter().all(|window| window.is_local)
}

fn is_local(limit: Limit) -> bool {
    matches!(limit, Limit::DirtyThrottle | Limit::Disk | Limit::Reader | Limit::Verify)
}

/// No queue in any of them, bytes in each.
pub(super) fn flow_freely(windows: &[Window]) -> bool {
    windows.iter().all(|window| window.bytes > 0 && !window.queue)
}

/// The share of `windows` whose limit `is` such.
pub(super) fn share(windows: &[Window], is: impl Fn(Limit) -> bool) -> f64 {
    windows.iter().filter(|window| is(window.limit)).count() as f64 / windows.len().max(1) as f64
}

/// Bytes per second.
pub(super) fn rate(windows: &[Window]) -> f64 {
    let span: Duration = windows.iter().map(|window| window.span).sum();
    windows.iter().map(|window| window.bytes).sum::<u64>() as f64 / span.as_secs_f64().max(1e-3)
}

/// The newest window is a quarter above the mean of those before it: slow start is not over.
pub(super) fn still_growing(windows: &[Window]) -> bool {
    let (before, newest) = windows.split_at(windows.len().saturating_sub(1));
    !before.is_empty() && rate(newest) > rate(before) * 1.25
}
