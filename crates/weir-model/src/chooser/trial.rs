//! Whether a stronger codec was right: where the wire carries clearly less with it, the link was not the
//! limit.
//!
//! A link carries the same bytes whatever they mean. Lanes that starve for a processor carry fewer when the
//! compressor works harder, and a receiver that takes only so much payload carries fewer when each wire byte
//! means more payload. Both look like a slow link, and a chooser that believes so goes on to stronger codecs,
//! which makes it worse. The steps:
//!
//! 1. What the wire carries under a choice is its reference.
//! 2. The choice becomes heavier while blocks wait: a trial begins. Once what was queued before has passed,
//!    the wire's mean must be nearer to the reference (the link limits) than to the reference times the
//!    ratio's change (the payload does).
//! 3. If it is not, the lighter choice returns. With it the wire carries what it did: it was not the link,
//!    and the lighter choice stays for a while, longer each time. It does not: the link became slower
//!    meanwhile, and the law goes on.
//!
//! One way to be wrong: a link that becomes slower during a trial and faster right after it.

use std::time::Duration;

use super::link::JoinedReports;
use crate::decision::CodecChange;

/// A choice that puts less than this share of bytes on the wire than the reference is a heavier one.
const HEAVIER: f64 = 0.9;

/// Windows until what was queued before has passed: a quarter of a second of blocks, and one at work.
const SETTLE: u32 = 4;

/// Windows whose mean is judged. Single ones are off by a tenth or more.
const JUDGED: u32 = 5;

/// A wire that is off by this much in the logarithm, a half, is another path.
const JUMP: f64 = 0.4;

/// The wire must be back at its old rate within this time, in which what is queued has to pass.
const PROOF: Duration = Duration::from_millis(1500);

/// How long the lighter choice stays the first time, and at most.
const STAY: Duration = Duration::from_secs(2);
const STAY_MOST: Duration = Duration::from_secs(32);

/// A choice and what the wire carried with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    /// Bytes per second.
    pub(super) wire: f64,
    /// Share of original bytes on the wire.
    pub(super) ratio: f64,
    /// The link that the law was asked for.
    pub(super) asked: f64,
}

#[derive(Debug, Clone, Copy)]
enum TrialState {
    /// The choice is its own reference.
    Quiet,
    /// A heavier choice: windows so far, and the sum of those that are judged.
    Trial { windows: u32, sum: f64, ratio: f64 },
    /// The lighter choice is back; was it right? And what the wire carried with the heavier one.
    Proof { until: Duration, carried: f64 },
    /// It was.
    Barred { until: Duration },
}

/// See the module's page.
#[derive(Debug, Clone)]
pub(super) struct Trials {
    state: TrialState,
    reference: Option<Held>,
    stay: Duration,
}

impl Default for Trials {
    fn default() -> Trials {
        Trials { state: TrialState::Quiet, reference: None, stay: STAY }
    }
}

impl Trials {
    /// The link's rate that the law is asked for: not below what was proven right.
    pub(super) fn floor(&self, link: f64) -> f64 {
        match (self.state, self.reference) {
            (TrialState::Proof { .. } | TrialState::Barred { .. }, Some(held)) => link.max(held.asked),
            _ => link,
        }
    }

    /// A window is over, in which the choice was `now`. Says what a trial has shown, if one has.
    pub(super) fn see(&mut self, seen: &JoinedReports, now: Held) -> Option<CodecChange> {
        let Some(reference) = self.reference else {
            self.reference = Some(now);
            return None;
        };
        let before = self.state;
        self.state = match self.state {
            TrialState::Quiet if seen.backlog && now.ratio < HEAVIER * reference.ratio => {
                TrialState::Trial { windows: 0, sum: 0.0, ratio: now.ratio }
            }
            TrialState::Quiet => {
                self.follow(reference, now);
                TrialState::Quiet
            }
            TrialState::Trial { windows, sum, ratio } => {
                self.try_on(reference, seen, now, (windows, sum, ratio))
            }
            TrialState::Proof { .. } if seen.rate >= 0.9 * reference.wire => {
                let until = seen.now + self.stay;
                self.stay = (self.stay * 2).min(STAY_MOST);
                TrialState::Barred { until }
            }
            TrialState::Proof { until, .. } if seen.now >= until => {
                (self.stay, self.reference) = (STAY, Some(now));
                TrialState::Quiet
            }
            // The path is another than the one that was tried.
            TrialState::Barred { until }
                if seen.now >= until || (seen.rate / reference.wire).ln().abs() > JUMP =>
            {
                self.reference = Some(now);
                TrialState::Quiet
            }
            TrialState::Barred { until } => {
                self.follow(reference, now);
                TrialState::Barred { until }
            }
            state => state,
        };
        match (before, self.state) {
            (TrialState::Trial { .. }, TrialState::Proof { carried, .. }) => {
                Some(CodecChange::TooStrong { before: reference.wire, after: carried })
            }
            (TrialState::Proof { .. }, TrialState::Barred { until }) => {
                Some(CodecChange::LighterStays(until.saturating_sub(seen.now)))
            }
            (TrialState::Proof { .. }, TrialState::Quiet) => {
                Some(CodecChange::LinkSlower { before: reference.wire, after: now.wire })
            }
            _ => None,
        }
    }

    /// The reference is a running mean of the wire under a choice that stays about the same; a lighter choice
    /// is its own. One that creeps towards heavier ones does not take it along, but a wire that changes under
    /// the same choice does.
    fn follow(&mut self, reference: Held, now: Held) {
        let jumped = (now.wire / reference.wire).ln().abs() > JUMP;
        let heavier = now.ratio < 0.95 * reference.ratio;
        let wire = if jumped { now.wire } else { reference.wire + 0.2 * (now.wire - reference.wire) };
        self.reference = Some(match (heavier, now.ratio > 1.05 * reference.ratio) {
            (true, _) => Held { wire: if jumped { now.wire } else { reference.wire }, ..reference },
            (_, true) => now,
            _ => Held { wire, ratio: reference.ratio.max(now.ratio), asked: reference.asked },
        });
    }

    fn try_on(
        &mut self,
        reference: Held,
        seen: &JoinedReports,
        now: Held,
        trial: (u32, f64, f64),
    ) -> TrialState {
        let (windows, sum, ratio) = trial;
        // Without backlog the compressor is the limit, which is the link's estimate's to deal with. Lighter
        // again: no trial.
        if !seen.backlog || now.ratio > 1.05 * ratio {
            self.reference = Some(now);
            return TrialState::Quiet;
        }
        if now.ratio < HEAVIER * ratio {
            return TrialState::Trial { windows: 0, sum: 0.0, ratio: now.ratio };
        }
        let sum = sum + if windows >= SETTLE { seen.rate } else { 0.0 };
        if windows + 1 < SETTLE + JUDGED {
            return TrialState::Trial { windows: windows + 1, sum, ratio };
        }
        let mean = sum / f64::from(JUDGED);
        if mean < reference.wire * (1.0 + ratio / reference.ratio) / 2.0 {
            return TrialState::Proof { until: seen.now + PROOF, carried: mean };
        }
        (self.stay, self.reference) = (STAY, Some(now));
        TrialState::Quiet
    }
}
