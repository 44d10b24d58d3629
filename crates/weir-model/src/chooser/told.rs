//! What is told of choices: the codec that most blocks get, once that lasts, and what trials showed.
//!
//! The law chooses anew ten times a second and mixes two codecs in any share; of that nobody could read every
//! step.

use std::time::Duration;

use super::Chooser;
use crate::decision::{CodecChange, Decision, Event};

/// Choices in a row by which a codec leads before that is told: about half a second, in which a queue that
/// ran empty for once is full again.
const LASTS: u32 = 5;

/// Events that wait for whoever takes them, at most.
const MOST: usize = 256;

/// See the module's page.
#[derive(Debug, Clone)]
pub(super) struct CodecLog {
    decided: Vec<Event>,
    /// The candidate that is told to have most blocks.
    leader: usize,
    /// Another one that has them now, and for how many choices.
    next: usize,
    led: u32,
}

impl CodecLog {
    /// Most blocks begin with this one.
    pub(super) fn new(leader: usize) -> CodecLog {
        CodecLog { decided: Vec::new(), leader, next: leader, led: 0 }
    }

    /// This was decided.
    pub(super) fn add(&mut self, at: Duration, change: CodecChange) {
        if self.decided.len() < MOST {
            self.decided.push(Event { at, decision: Decision::Codec(change) });
        }
    }
}

impl Chooser {
    /// What was decided since the last call, in order.
    pub fn take_decisions(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.told.decided)
    }

    /// The law has chosen.
    pub(super) fn tell(&mut self, now: Duration) {
        let leader = if self.mix.share > 0.5 { self.mix.second } else { self.mix.first };
        if leader != self.told.next {
            (self.told.next, self.told.led) = (leader, 0);
        }
        self.told.led += 1;
        if leader == self.told.leader || self.told.led < LASTS {
            return;
        }
        let change = CodecChange::To {
            from: self.estimates.candidate(self.told.leader),
            to: self.estimates.candidate(leader),
            ratio: self.estimates.points(self.dead)[leader].ratio,
            link: self.link.rate().unwrap_or_default(),
            cores: self.room,
        };
        self.told.leader = leader;
        self.told.add(now, change);
    }
}
