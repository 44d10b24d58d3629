//! Does a stage of a copy's pipeline hold it: reading, digesting, compressing, encrypting, and their inverses?
//!
//! Each end of a copy tells where its threads were by their own clocks. Threads that have a record ready and wait for a
//! lane (at the sender), or that wait for a record (at the receiver), have time to spare: then no stage of theirs is the
//! limit. A stage is convicted when all of these hold:
//! 1. its end does not mostly wait: less than half of its working time;
//! 2. the stage takes the largest part of the rest, and two fifths of the working time or more.
//!
//! The processors are convicted, rather than one stage, when nearly all that the end may use were busy (93 %: the clock
//! ticks of a window of 100 ms tell no better) and no stage has two fifths, or where both ends share them: each stage of
//! either end then takes from all others.
//!
//! Acquits otherwise; knows nothing where no copy was watched.
//!
//! Can be wrong: where another program fills the processors, a stage's wall time grows by what it waits for one.

use std::time::Duration;

use super::Judgement;
use crate::evidence::Window;
use crate::stages::Stages;
use crate::words::percent;

/// A stage's share from which it can be the limit.
const LARGE: f64 = 0.4;

/// Processors busy, as a share of all.
const FULL: f64 = 0.93;

/// Strength of full processors: below that of what is seen in the connection, since a codec chosen for a full link fills
/// the processors as well.
const FULL_STRENGTH: f64 = 0.8;

/// One end's stages with their names.
struct End<'a> {
    who: &'static str,
    stages: &'a Stages,
    span: Duration,
    waits: f64,
}

impl<'a> End<'a> {
    fn sender(window: &'a Window) -> Option<End<'a>> {
        let stages = window.sending.value()?;
        let waits = stages.share(stages.turn.saturating_add(stages.send), window.span)
            + stages.share(stages.limited, window.span);
        Some(End { who: "the sender", stages, span: window.span, waits })
    }

    fn receiver(window: &'a Window) -> Option<End<'a>> {
        let stages = window.receiving.value()?;
        Some(End {
            who: "the receiver",
            stages,
            span: window.span,
            waits: stages.share(stages.receive, window.span),
        })
    }

    fn share(&self, stage: Duration) -> f64 {
        self.stages.share(stage, self.span)
    }

    fn largest(&self) -> f64 {
        let Stages { read, verify, compress, encrypt, decompress, write, .. } = *self.stages;
        let all = [read, verify, compress, encrypt, decompress, write];
        all.into_iter().map(|stage| self.share(stage)).fold(0.0, f64::max)
    }

    fn judge(&self, stage: Duration, name: &str) -> Judgement {
        let share = self.share(stage);
        let numbers = format!("{}'s threads spent {} of their time {name}", self.who, percent(share));
        if self.waits < 0.5 && share >= LARGE && share >= self.largest() {
            Judgement::convict(0.6 + 0.4 * share, format!("{numbers}, {} waiting", percent(self.waits)))
        } else {
            Judgement::acquit(numbers)
        }
    }

    fn judge_processors(&self, shared: bool) -> Option<Judgement> {
        let busy = self.stages.busy? / f64::from(self.stages.cpus.max(1));
        if !busy.is_finite() || busy < FULL || (self.largest() >= LARGE && !shared) {
            return None;
        }
        let parts: Vec<String> = [
            ("reading", self.stages.read),
            ("digests", self.stages.verify),
            ("compressing", self.stages.compress),
            ("decompressing", self.stages.decompress),
            ("ciphers", self.stages.encrypt),
            ("writing", self.stages.write),
            ("sending", self.stages.send),
        ]
        .iter()
        .map(|(name, stage)| (name, self.share(*stage)))
        .filter(|(_, share)| *share >= 0.05)
        .map(|(name, share)| format!("{} {name}", percent(share)))
        .collect();
        let cores = self.stages.cpus;
        let whose = if shared {
            format!("{} of the {cores} processors that both ends share was used", percent(busy))
        } else {
            format!("{} of {}'s {cores} processors was used", percent(busy), self.who)
        };
        Some(Judgement::convict(
            FULL_STRENGTH,
            format!("{whose}: the time of {}'s threads was {}", self.who, parts.join(", ")),
        ))
    }
}

/// `compress`.
pub(crate) fn compress(window: &Window, _context: &super::Context<'_>) -> Judgement {
    let judged = End::sender(window).map(|end| end.judge(end.stages.compress, "compressing"));
    judged.unwrap_or_else(nothing_known)
}

/// `encrypt`: at whichever end it is worse.
pub(crate) fn encrypt(window: &Window, _context: &super::Context<'_>) -> Judgement {
    let ends = [End::sender(window), End::receiver(window)].into_iter().flatten();
    let judged = ends.map(|end| end.judge(end.stages.encrypt, "with the cipher"));
    judged.reduce(worse).unwrap_or_else(nothing_known)
}

/// `decompress`.
pub(crate) fn decompress(window: &Window, _context: &super::Context<'_>) -> Judgement {
    let judged = End::receiver(window).map(|end| end.judge(end.stages.decompress, "decompressing"));
    judged.unwrap_or_else(nothing_known)
}

/// `verify`, of a copy; `None` where none was watched.
pub(crate) fn verify(window: &Window) -> Option<Judgement> {
    let ends = [End::sender(window), End::receiver(window)].into_iter().flatten();
    ends.map(|end| end.judge(end.stages.verify, "on digests")).reduce(worse)
}

/// `source-disk`, of a copy; `None` where its sender was not watched.
pub(crate) fn source_disk(window: &Window) -> Option<Judgement> {
    End::sender(window).map(|end| end.judge(end.stages.read, "reading the source"))
}

/// `cpu-core`, of a copy: `None` where its processors were not full or not watched.
pub(crate) fn processors(window: &Window, context: &super::Context<'_>) -> Option<Judgement> {
    let ends = [End::sender(window), End::receiver(window)].into_iter().flatten();
    ends.filter_map(|end| end.judge_processors(context.facts.peer_is_local)).next()
}

fn nothing_known() -> Judgement {
    Judgement::acquit("no codec and no cipher of weir's own was at work")
}

fn worse(one: Judgement, other: Judgement) -> Judgement {
    if other.convicts() && !one.convicts() { other } else { one }
}
