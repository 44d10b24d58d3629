//! Does a foreign program that does one stage of a copy hold its sender: gzip before ssh, or ssh's cipher?
//!
//! A pipe of programs is known by what each does all the time ([`Interval::programs`]). A stage is convicted
//! when both hold:
//! 1. its program's thread runs, waits for a processor, or is held back by its group's CPU quota, 90 % of the
//!    time or more;
//! 2. the socket starves: nothing unsent in half of the looks or more, and the send buffer does not hold it.
//!
//! Acquits: a program that runs less, or data that wait unsent.
//!
//! Can be wrong: ssh's thread also copies between pipe and socket, so on a processor with a fast cipher the
//! copies may be the larger part of what is called encryption here.

use super::flow::{Flow, by_flow};
use crate::evidence::{Interval, Program};
use crate::limit::Limit;
use crate::rule::cpu_core::{ThreadLoad, thread_load};
use crate::rule::{Context, Judgement};
use crate::words::percent;

/// Above [`super::cpu_core`]'s: what fills the core has a name here.
const STRENGTH: f64 = 0.98;

/// The judgement of one interval: of `compress` or `encrypt`. `None` where no program of that stage was seen.
pub(crate) fn judge(interval: &Interval, context: &Context<'_>, stage: Limit) -> Option<Judgement> {
    let program = interval.programs.iter().find(|program| program.stage == stage)?;
    let load = thread_load(&program.thread, interval.span.as_secs_f64());
    Some(by_flow(interval, context, |flow| judge_flow(flow, program, load)))
}

fn judge_flow(flow: &Flow<'_>, program: &Program, load: ThreadLoad) -> Judgement {
    let name = program.thread.name.as_deref().unwrap_or("its program");
    let numbers = format!("{name} used {} of one core", percent(load.cpu));
    if !load.is_full() {
        return Judgement::acquit(numbers);
    }
    if flow.is_fed() {
        return Judgement::acquit(format!("{numbers}, but {}", flow.unsent_in_words()));
    }
    Judgement::convict(STRENGTH, format!("{numbers}{}, {}", load.waits_in_words(), flow.unsent_in_words()))
}

/// The stage that a lane's own thread does all the time.
pub(crate) fn stage_of(flow: &Flow<'_>) -> Option<Limit> {
    let name = flow.thread.as_ref().ok()?.name.as_deref()?;
    let same = |program: &&Program| program.thread.name.as_deref() == Some(name);
    flow.interval.programs.iter().find(same).map(|program| program.stage)
}
