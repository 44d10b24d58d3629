//! A trial of more lanes: from their connecting to the word on what they brought.

use std::time::Duration;

use crate::decision::LaneReason;
use crate::evidence::Trial;
use crate::limit::Limit;
use crate::rule::rate_limit::grew;

use super::recent::{Window, flow_freely, rate, share};
use super::{Attempt, Observation, Tuner, TunerState, few, is_believed, regrowth};
use super::{BELIEF, MOST_DOUBLINGS, PATIENT, RATE_WINDOWS, RECOVERY};

/// A lane that has no first byte after this long counts as not served.
const JOIN: Duration = Duration::from_millis(1500);

/// After this long a few that are missing are not waited for: a lost SYN comes again after one second (RFC
/// 6298).
const MOST_JOIN: Duration = Duration::from_millis(500);

/// A new lane's slow start after its first byte, at least: ten segments double to a window of 200 (280 KiB)
/// in five round trips (RFC 6928), which are 200 ms at 40 ms.
const SETTLE: Duration = Duration::from_millis(200);

const SETTLE_ROUND_TRIPS: u32 = 5;

/// Long enough for four windows, short against any transfer that is worth a trial.
const MEASURE: Duration = Duration::from_millis(400);

/// A trial must bring a quarter of what can be hoped for: above the noise of two 400 ms readings, below what
/// a shared bottleneck gives to a second flow by chance.
const WORTH: f64 = 0.25;

/// Where each lane carries its receive window a round trip, the gain counts the lanes that the path still
/// takes: a sixteenth of them is above the noise of such steady rates (1 to 3 %).
const WORTH_COUNTED: f64 = 0.06;

/// A lane that has just met a loss gets 1 / 0.7 of what it has back by itself (RFC 9438, section 4.6): on a
/// lossy path more lanes must bring more than that.
const WORTH_AFTER_LOSS: f64 = 0.43;

/// Lanes that are to bring back what was lost must bring half of it: the gap is small, and the noise is the
/// same.
const WORTH_AGAIN: f64 = 0.5;

/// From this share of the hope on nothing that the lanes share was full.
const PAID: f64 = 0.85;

/// Lanes that were to bring back the best rate and brought so much more show that it was not what the path
/// can carry.
const RAISED: f64 = 1.15;

/// Lanes that each carry less than this share of what each of fewer lanes has carried share what is full. A
/// trial that is judged at once has brought 0.89 of what as many lanes would bring, and the rest is noise.
const SHARED: f64 = 0.7;

/// Below it something was, and the next trial need not hurry.
const PAID_HALF: f64 = 0.5;

/// Growing half of a window again leaves a quarter of it unused on the average; six times as long is believed
/// what such a trial said, so it costs 4 %. CUBIC grows half of 1000 segments again in 11 s (RFC 9438,
/// section 4.2).
const MOST_PAUSE: Duration = Duration::from_secs(60);

impl Tuner {
    pub(super) fn joining(&mut self, seen: &Observation, attempt: Attempt, since: Duration) {
        let waited = seen.now.saturating_sub(since);
        let new = self.lanes - attempt.from;
        let joined = seen.started.saturating_sub(attempt.from);
        if joined >= new || waited >= MOST_JOIN && joined * 4 >= new * 3 {
            let settle = SETTLE.max(seen.round_trip.unwrap_or_default() * SETTLE_ROUND_TRIPS);
            self.recent.clear();
            self.state = TunerState::Measuring { attempt, settled: seen.now + settle.min(JOIN) };
            return;
        }
        if waited < JOIN {
            return;
        }
        let unserved = seen.lanes.saturating_sub(seen.started);
        match (joined, unserved) {
            (0, 0) => {
                self.wait(seen.now, 4);
                self.go_back(attempt.from, LaneReason::NothingToAsk);
            }
            (0, _) => self.unserved(seen, attempt),
            _ => {
                // Some were served: judge those.
                let why = if unserved > 0 {
                    self.ceiling = seen.started;
                    LaneReason::Served(seen.started)
                } else {
                    LaneReason::NothingToAsk
                };
                self.decide(seen.started, why);
                let hope = f64::from(self.lanes) / f64::from(attempt.from) - 1.0;
                let attempt = Attempt { hope: attempt.hope.min(hope), ..attempt };
                self.recent.clear();
                self.state = TunerState::Measuring { attempt, settled: seen.now };
            }
        }
    }

    /// None of the new lanes has had a byte of the answer it asked for, while the others went on.
    fn unserved(&mut self, seen: &Observation, attempt: Attempt) {
        let after = rate(self.recent.all()).min(attempt.before);
        self.conclude(seen, attempt, after);
        if let Some(last) = self.decided.last_mut() {
            last.why = LaneReason::Served(attempt.from);
        }
    }

    pub(super) fn measuring(&mut self, seen: &Observation, attempt: Attempt, settled: Duration) {
        // All that could be hoped for before slow start is over: there is no more to wait for.
        if let Some(last) = self.recent.last(few(seen)) {
            let share = if self.are_window_bound(seen) { PAID_HALF } else { PAID };
            let least = attempt.before * (1.0 + share * attempt.hope);
            let after = rate(last);
            if after.min(rate(&last[last.len() - 1..])) >= least {
                return self.conclude(seen, attempt, after);
            }
        }
        if let Some(last) = self.recent.last(RATE_WINDOWS).filter(|_| seen.now >= settled + MEASURE) {
            let after = rate(last);
            self.conclude(seen, attempt, after);
        }
    }

    fn conclude(&mut self, seen: &Observation, attempt: Attempt, after: f64) {
        let Attempt { from, before, hope, restores, .. } = attempt;
        let gained = after / before.max(1.0) - 1.0;
        let counted = attempt.limit == Limit::ReceiveWindow;
        let full = self.recent.is_link_full();
        if attempt.lossy && !full && gained < -WORTH_COUNTED {
            return self.without_verdict(seen, after);
        }
        // Of many lanes at once as many as pay are kept, so the first doubling is what they have to pay for.
        let worth = if counted {
            WORTH_COUNTED
        } else if restores {
            WORTH_AGAIN
        } else if attempt.lossy {
            WORTH.max(WORTH_AFTER_LOSS / f64::from(from))
        } else {
            WORTH
        };
        let kept = gained >= worth * hope.min(1.0);
        self.bold = !restores && (gained >= PAID * hope || kept && self.are_window_bound(seen));
        if self.recent.is_local() {
            // This side became the limit meanwhile: the two rates are of different limits and compare
            // nothing.
            self.wait(seen.now, 4);
            return self.go_back(from, LaneReason::OtherLimit(seen.limit));
        }
        self.judged = Some(seen.now);
        self.full_from = None;
        let at = seen.now.as_secs_f64();
        let (lanes_before, lanes_after) = (from, self.lanes);
        let trial = Trial { at, lanes_before, lanes_after, rate_before: before, rate_after: after, kept };
        // What grew out of a dip, as after a loss or where a file ended, says nothing of what a lane carries.
        if !(grew(&trial) && self.is_less_than_fewer_carried(after, seen.now)) {
            self.trials.push(trial);
        }
        if !kept {
            return self.failed(seen, &attempt, after);
        }
        self.spare_from = self.spare_from.max(seen.now + BELIEF * 2);
        self.failures = 0;
        // Slow starts filled the link: what it can carry is known, and more lanes are due when these fall
        // below it.
        let is_known = match restores {
            true => after < RAISED * self.best,
            false => attempt.lossy && gained < PAID_HALF * hope,
        };
        let patience = match (is_known, gained < PAID_HALF * hope) {
            (false, false) => 0,
            _ => BELIEF.as_secs(),
        };
        self.wait(seen.now, patience);
        self.state = TunerState::Steady;
        let keeps_all = self.bold || restores || attempt.lossy;
        let lanes = if keeps_all { self.lanes } else { self.paid(&attempt, gained) };
        self.decide(lanes, LaneReason::Paid { before, after });
        self.steady(seen);
    }

    /// Fewer lanes than these have each carried so much that those share something which is full.
    pub(super) fn is_less_than_fewer_carried(&self, after: f64, now: Duration) -> bool {
        let each = after / f64::from(self.lanes.max(1));
        let mut fewer = self.carried.range(..self.lanes);
        fewer.any(|(lanes, (carried, at))| {
            is_believed(*at, now) && each < SHARED * carried / f64::from((*lanes).max(1))
        })
    }

    /// Goes back, and believes what the trial said for as long as it was dear.
    fn failed(&mut self, seen: &Observation, attempt: &Attempt, after: f64) {
        self.failures += 1;
        self.best = attempt.before.max(after);
        // One lane whose window the trial has cut takes seconds to grow it again; two take half of them, if
        // they are served.
        let lost = self.recent.loses();
        let second = if lost { seen.started.min(2) } else { 1 };
        let back = attempt.from.max(second);
        let price = if lost { regrowth(after / f64::from(back), seen) * 6.0 } else { 0.0 };
        let pause = price.clamp(BELIEF.as_secs_f64(), MOST_PAUSE.as_secs_f64()) as u64;
        self.recovered = seen.now
            + match self.failures {
                PATIENT.. => BELIEF,
                _ if back < self.lanes => RECOVERY,
                _ => Duration::ZERO,
            };
        self.wait(seen.now, pause << (self.failures - 1).min(MOST_DOUBLINGS));
        self.go_back(back, LaneReason::NotPaid { before: attempt.before, after });
    }

    /// The old lanes lost more to the path than the new ones brought, though nothing they share is full: what
    /// was compared was the end of a slow start. Goes on with all of them, and judges the next trial by what
    /// they hold.
    fn without_verdict(&mut self, seen: &Observation, after: f64) {
        self.state = TunerState::Steady;
        self.judged = Some(seen.now);
        self.decide(self.lanes, LaneReason::Losses { after });
    }

    /// Each lane is still at the end of its receive window, and no queue stands: nothing they share is full.
    fn are_window_bound(&self, seen: &Observation) -> bool {
        let bound =
            |last: &[Window]| flow_freely(last) && share(last, |limit| limit == Limit::ReceiveWindow) >= 0.5;
        self.recent.last(few(seen)).is_some_and(bound)
    }

    /// As many lanes as a gain pays for. Twice as many where it may be loss that limits: new lanes have not
    /// met it yet.
    fn paid(&self, attempt: &Attempt, gained: f64) -> u32 {
        let reserve =
            if matches!(attempt.limit, Limit::ReceiveWindow | Limit::RateLimit) { 1.0 } else { 2.0 };
        let paid = f64::from(attempt.from) * (1.0 + gained) * reserve;
        (paid.round() as u32).clamp(attempt.from + 1, self.lanes)
    }
}
