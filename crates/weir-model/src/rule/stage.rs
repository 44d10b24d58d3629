//! Does a stage of a copy's pipeline hold it: reading, digesting, compressing, encrypting, and their
//! inverses?
//!
//! Each end of a copy tells where its threads were by their own clocks. Threads that have a record ready and
//! wait for a lane (at the sender), or that wait for a record (at the receiver), have time to spare: then no
//! stage of theirs is the limit. A stage is convicted when all of these hold:
//! 1. its end does not mostly wait: less than half of its working time. Nor have all its lanes, at the
//!    sender, bytes that wait unsent: a record may take longer to make than an interval lasts, and what is in
//!    the sockets meanwhile keeps the lanes busy;
//! 2. the stage takes the largest part of the rest, and two fifths of the working time or more.
//!
//! The processors are convicted, rather than one stage, when nearly all that the end may use were busy (93 %:
//! the clock ticks of an interval of 100 ms tell no better), half of it or more was the copy's own work
//! (other programs may fill the processors beside a copy that has all it can use, which waits for its link),
//! and no stage has two fifths, or both ends share them: each stage of either end then takes from all others.
//!
//! Acquits otherwise. Of foreign programs see [`super::sender::program`].
//!
//! Can be wrong: where another program fills the processors, a stage's wall time grows by what it waits for
//! one.

use std::time::Duration;

use super::sender::flow::Flow;
use super::sender::program;
use super::{Context, Judgement};
use crate::evidence::Interval;
use crate::limit::Limit;
use crate::stages::Stages;
use crate::words::percent;
use weir_units::counted;

/// A stage's share from which it can be the limit.
const LARGE: f64 = 0.4;

/// Processors busy, as a share of all.
const FULL: f64 = 0.93;

/// The copy's own part of that, below which others fill them.
const OWN: f64 = 0.5;

/// Strength of full processors: below that of what is seen in the connection, since a codec chosen for a full
/// link fills the processors as well.
const FULL_STRENGTH: f64 = 0.8;

/// One end's stages with their names.
struct End<'a> {
    who: &'static str,
    stages: &'a Stages,
    span: Duration,
    waits: f64,
    /// Of a sender: what its lanes have to say.
    lanes: Option<(&'a Interval, &'a Context<'a>)>,
}

impl<'a> End<'a> {
    fn sender(interval: &'a Interval, context: &'a Context<'a>) -> Option<End<'a>> {
        let stages = interval.sending.value()?;
        let waits = stages.share(stages.turn.saturating_add(stages.send), interval.span)
            + stages.share(stages.limited, interval.span);
        Some(End { who: "the sender", stages, span: interval.span, waits, lanes: Some((interval, context)) })
    }

    fn receiver(interval: &'a Interval) -> Option<End<'a>> {
        let stages = interval.receiving.value()?;
        Some(End {
            who: "the receiver",
            stages,
            span: interval.span,
            waits: stages.share(stages.receive, interval.span),
            lanes: None,
        })
    }

    fn share(&self, stage: Duration) -> f64 {
        self.stages.share(stage, self.span)
    }

    fn largest(&self) -> f64 {
        let Stages { read, input, verify, compress, encrypt, decompress, write, .. } = *self.stages;
        let all = [read, input, verify, compress, encrypt, decompress, write];
        all.into_iter().map(|stage| self.share(stage)).fold(0.0, f64::max)
    }

    fn judge(&self, stage: Duration, name: &str) -> Judgement {
        let share = self.share(stage);
        let numbers = format!("{}'s threads spent {} of their time {name}", self.who, percent(share));
        let holds = self.waits < 0.5 && share >= LARGE && share >= self.largest();
        if !holds {
            return Judgement::acquit(numbers);
        }
        if self.is_fed() {
            return Judgement::acquit(format!("{numbers}, but bytes waited unsent on each connection"));
        }
        Judgement::convict(0.6 + 0.4 * share, format!("{numbers}, {} waiting", percent(self.waits)))
    }

    /// What its lanes still have to send is enough for them.
    fn is_fed(&self) -> bool {
        let Some((interval, context)) = self.lanes else { return false };
        let mut flows = interval.lanes.iter().filter_map(|lane| Flow::of(lane, interval, context)).peekable();
        flows.peek().is_some() && flows.all(|flow| flow.data_wait() && !flow.app_limited())
    }

    /// `beside` is what the other end uses of the same processors, where they are the same.
    fn judge_processors(&self, beside: Option<f64>) -> Option<Judgement> {
        let all = self.stages.busy?;
        let busy = all / f64::from(self.stages.cpus.max(1));
        let others = self.stages.own.is_some_and(|own| own + beside.unwrap_or(0.0) < OWN * all);
        let one = self.largest() >= LARGE && beside.is_none();
        if !busy.is_finite() || busy < FULL || others || one {
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
        let whose = if beside.is_some() {
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
pub(crate) fn compress(interval: &Interval, context: &Context<'_>) -> Judgement {
    let judged = End::sender(interval, context).map(|end| end.judge(end.stages.compress, "compressing"));
    judged.or_else(|| program::judge(interval, context, Limit::Compress)).unwrap_or_else(nothing_known)
}

/// `encrypt`: at whichever end it is worse.
pub(crate) fn encrypt(interval: &Interval, context: &Context<'_>) -> Judgement {
    let ends = [End::sender(interval, context), End::receiver(interval)].into_iter().flatten();
    let judged = ends.map(|end| end.judge(end.stages.encrypt, "with the cipher"));
    let judged = judged.reduce(worse);
    judged.or_else(|| program::judge(interval, context, Limit::Encrypt)).unwrap_or_else(nothing_known)
}

/// `decompress`.
pub(crate) fn decompress(interval: &Interval, _context: &Context<'_>) -> Judgement {
    let judged = End::receiver(interval).map(|end| end.judge(end.stages.decompress, "decompressing"));
    judged.unwrap_or_else(nothing_known)
}

/// `verify`, of a copy; `None` where none was watched.
pub(crate) fn verify(interval: &Interval, context: &Context<'_>) -> Option<Judgement> {
    let ends = [End::sender(interval, context), End::receiver(interval)].into_iter().flatten();
    ends.map(|end| end.judge(end.stages.verify, "on digests")).reduce(worse)
}

/// `source-disk`, of a copy; `None` where its sender was not watched.
pub(crate) fn source_disk(interval: &Interval, context: &Context<'_>) -> Option<Judgement> {
    End::sender(interval, context).map(|end| end.judge(end.stages.read, "reading the source"))
}

/// `upstream`, of an upload that is written by another program.
pub(crate) fn upstream(interval: &Interval, context: &Context<'_>) -> Judgement {
    let judged = End::sender(interval, context)
        .map(|end| end.judge(end.stages.input, "waiting for the program that writes standard input"));
    judged.unwrap_or_else(nothing_known)
}

/// Of a copy whose sender's threads had something to do at this time, how much: then what holds it is told
/// stage by stage, and a connection that rests says no more. From half of one thread's time, below which the
/// threads wait for files to be found.
pub(crate) fn at_work(interval: &Interval) -> Option<String> {
    let stages = interval.sending.value()?;
    let span = interval.span.as_secs_f64();
    let threads = stages.working(interval.span) / span;
    (threads.is_finite() && threads >= 0.5).then(|| {
        format!(
            "{threads:.1} of the sender's {} were at work: see its stages",
            counted(u64::from(stages.threads), "thread")
        )
    })
}

/// `cpu-core`, of a copy: `None` where its processors were not full or not watched.
pub(crate) fn processors(interval: &Interval, context: &Context<'_>) -> Option<Judgement> {
    let ends = [End::sender(interval, context), End::receiver(interval)];
    let own = |end: &Option<End<'_>>| end.as_ref().and_then(|end| end.stages.own).unwrap_or(0.0);
    let beside = [own(&ends[1]), own(&ends[0])].map(|own| context.facts.peer_is_local.then_some(own));
    ends.iter().zip(beside).find_map(|(end, beside)| end.as_ref()?.judge_processors(beside))
}

fn nothing_known() -> Judgement {
    Judgement::acquit("nothing that does it was seen at work")
}

fn worse(one: Judgement, other: Judgement) -> Judgement {
    if other.convicts() && !one.convicts() { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Evidence, LaneInterval, Reading};
    use crate::sender::SenderInterval;

    /// A sender that waits for its lanes on a machine without a free processor, of which it used so much.
    fn waiting(own: f64) -> Interval {
        let span = Duration::from_millis(100);
        let sending = Stages {
            threads: 3,
            send: Duration::from_millis(290),
            busy: Some(2.0),
            own: Some(own),
            cpus: 2,
            ..Stages::default()
        };
        Interval { span, sending: Reading::Value(sending), ..Interval::default() }
    }

    #[test]
    fn processors_that_others_fill_are_not_the_copys_limit() {
        let evidence = Evidence::default();
        let judged = |own| processors(&waiting(own), &Context::alone(&evidence));
        assert_eq!(judged(0.2), None);
        assert!(judged(1.6).is_some_and(|judged| judged.convicts()));
    }

    #[test]
    fn a_stage_that_keeps_the_lanes_fed_is_not_the_limit() {
        let evidence = Evidence::default();
        let mut interval = Interval { span: Duration::from_millis(100), ..Interval::default() };
        let compress = Duration::from_millis(200);
        interval.sending = Reading::Value(Stages { threads: 2, compress, ..Stages::default() });
        let judged = |nothing_unsent: [u32; 2], app_limited| {
            let lane = |(lane, nothing_unsent)| LaneInterval {
                lane,
                sender: Reading::Value(SenderInterval {
                    looks: 10,
                    nothing_unsent,
                    app_limited,
                    ..Default::default()
                }),
                ..Default::default()
            };
            let lanes = (1..).zip(nothing_unsent).map(lane).collect();
            super::compress(&Interval { lanes, ..interval.clone() }, &Context::alone(&evidence))
        };
        assert!(!judged([0, 4], 0).convicts());
        assert!(judged([0, 6], 0).convicts(), "one lane starves");
        assert!(judged([0, 4], 6).convicts(), "what waits is a pacer's");
        assert!(
            super::compress(&interval, &Context::alone(&evidence)).convicts(),
            "nothing is known of lanes"
        );
    }

    #[test]
    fn a_sender_that_works_is_not_an_application_without_data() {
        let mut interval = waiting(0.2);
        assert!(at_work(&interval).is_some_and(|words| words.contains("3.0 of the sender's 3 threads")));
        let idle = Stages { threads: 3, idle: Duration::from_millis(260), ..Stages::default() };
        interval.sending = Reading::Value(idle);
        assert_eq!(at_work(&interval), None);
    }

    #[test]
    fn ends_on_one_machine_are_counted_together() {
        let mut evidence = Evidence::default();
        evidence.facts.peer_is_local = true;
        let mut interval = waiting(0.7);
        interval.receiving = Reading::Value(Stages { own: Some(0.8), ..Stages::default() });
        assert!(processors(&interval, &Context::alone(&evidence)).is_some_and(|judged| judged.convicts()));
        evidence.facts.peer_is_local = false;
        assert_eq!(processors(&interval, &Context::alone(&evidence)), None);
    }
}
