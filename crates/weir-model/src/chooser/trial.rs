//! Whether a stronger codec was right: where the wire carries clearly less with it, the link was not the limit.
//!
//! A link carries the same bytes whatever they mean. Lanes that starve for a processor carry fewer when the compressor works
//! harder, and a receiver that takes only so much payload carries fewer when each wire byte means more payload. Both look like
//! a slow link, and a chooser that believes so goes on to stronger codecs, which makes it worse. The steps:
//!
//! 1. The choice becomes heavier while blocks wait: a trial begins, with the wire's rate before it.
//! 2. Three windows in a row carry less than four fifths of that, blocks still waiting: the lighter choice returns.
//! 3. With it the wire carries what it did: it was not the link, and the lighter choice stays for a while, longer each time.
//!    It does not: the link became slower meanwhile, and the law goes on.
//!
//! One way to be wrong: a link that becomes slower during a trial and faster right after it.

use std::time::Duration;

use super::link::Seen;

/// A choice that puts less than this share of bytes on the wire than before is a heavier one.
pub(super) const HEAVIER: f64 = 0.9;

/// The wire carries less if below this share of before...
const LESS: f64 = 0.8;

/// ...in so many windows in a row.
const WINDOWS: u32 = 3;

/// A trial that went well for so long is over.
const TRIAL: Duration = Duration::from_millis(1500);

/// The wire must be back at its old rate within this time, in which what is queued has to pass.
const PROOF: Duration = Duration::from_millis(1500);

/// How long the lighter choice stays the first time, and at most.
const STAY: Duration = Duration::from_secs(2);
const STAY_MOST: Duration = Duration::from_secs(32);

#[derive(Debug, Clone, Copy)]
enum State {
    Quiet,
    /// The wire's rate before, the link that the law was asked for before, and bad windows in a row.
    Trial {
        until: Duration,
        wire: f64,
        link: f64,
        bad: u32,
    },
    /// The lighter choice is back; was it right?
    Proof {
        until: Duration,
        wire: f64,
        link: f64,
    },
    /// It was.
    Barred {
        until: Duration,
        wire: f64,
        link: f64,
    },
}

/// See the module's page.
#[derive(Debug, Clone)]
pub(super) struct Trials {
    state: State,
    stay: Duration,
}

impl Default for Trials {
    fn default() -> Trials {
        Trials { state: State::Quiet, stay: STAY }
    }
}

impl Trials {
    /// A heavier choice was made; the law was asked for `link` before.
    pub(super) fn begin(&mut self, now: Duration, wire: f64, link: f64) {
        if matches!(self.state, State::Quiet) {
            self.state = State::Trial { until: now + TRIAL, wire, link, bad: 0 };
        }
    }

    /// The link's rate that the law is asked for: not below what was proven right.
    pub(super) fn floor(&self, link: f64) -> f64 {
        match self.state {
            State::Quiet | State::Trial { .. } => link,
            State::Proof { link: floor, .. } | State::Barred { link: floor, .. } => link.max(floor),
        }
    }

    /// A window is over.
    pub(super) fn see(&mut self, seen: &Seen) {
        self.state = match self.state {
            State::Quiet => State::Quiet,
            // Without backlog the compressor is the limit; the link's estimate deals with that.
            State::Trial { until, .. } if seen.now >= until || !seen.backlog => State::Quiet,
            State::Trial { until, wire, link, bad } => {
                let bad = if seen.rate < LESS * wire { bad + 1 } else { 0 };
                if bad < WINDOWS {
                    State::Trial { until, wire, link, bad }
                } else {
                    State::Proof { until: seen.now + PROOF, wire, link }
                }
            }
            State::Proof { wire, link, .. } if seen.rate >= 0.9 * wire => {
                let until = seen.now + self.stay;
                self.stay = (self.stay * 2).min(STAY_MOST);
                State::Barred { until, wire, link }
            }
            State::Proof { until, .. } if seen.now >= until => {
                self.stay = STAY;
                State::Quiet
            }
            State::Barred { until, wire, .. }
                if seen.now >= until || (seen.rate / wire - 1.0).abs() > 0.4 =>
            {
                State::Quiet
            }
            state => state,
        }
    }
}
