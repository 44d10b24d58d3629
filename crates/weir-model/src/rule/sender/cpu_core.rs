//! Does the sender's thread fill a core?
//!
//! Convicts when both hold:
//! 1. the thread runs, waits for a processor, or is held back by its group's CPU quota, 90 % of the time or
//!    more; or it was found running or ready to run in 90 % of ten looks or more (a thread under quota stays
//!    ready in its state);
//! 2. its socket starves: nothing unsent in half of the looks or more, and the send buffer does not hold it.
//!    With data waiting, a full thread only spins; so it does while a protocol above TCP waits for credit
//!    ([`super::protocol_window`]).
//!
//! Or, of an upload of weir's own, when its threads together fill the processors ([`stage::processors`]).
//!
//! Or when no lane at work has a connection yet and the busiest of their threads is full ([`by_itself`]).
//!
//! Acquits: a thread that runs less, or less than half of the time without being found ready in half of the
//! looks (its group's quota then held back others), data that wait unsent, or a program whose work has a name
//! of its own ([`super::program`]).
//!
//! Can be wrong: a thread that polls without sleeping fills a core whatever its socket does, and an idle one
//! then looks the same.

use super::flow::{Flow, by_flow};
use super::{program, protocol_window};
use crate::evidence::{Clocks, Interval};
use crate::rule::cpu_core::{ThreadLoad, steal_in_words, thread_load, was_ready};
use crate::rule::spent::{active, working};
use crate::rule::{Context, Judgement, View, stage};
use crate::words::percent;

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    // Where the receiver is seen too, its rule has asked for both ends together.
    let alone = View::of(interval, context).sender_only();
    if let Some(judged) = stage::processors(interval, context).filter(|_| alone) {
        return judged;
    }
    by_itself(interval).unwrap_or_else(|| by_flow(interval, context, judge_flow))
}

/// No lane at work has a connection yet, as while an upload digests what it will send first: the busiest of
/// their threads then has nobody to wait for.
fn by_itself(interval: &Interval) -> Option<Judgement> {
    let mut lanes = working(interval).peekable();
    lanes.peek()?;
    let loads: Option<Vec<(ThreadLoad, &str)>> = lanes
        .map(|lane| {
            let thread =
                lane.thread.value().filter(|_| lane.sender.value().is_some_and(|seen| seen.looks == 0))?;
            let load = thread_load(thread, active(lane, interval));
            Some((load, thread.name.as_deref().unwrap_or("the sender's thread")))
        })
        .collect();
    let (load, name) = loads?.into_iter().max_by(|(one, _), (other, _)| one.cpu.total_cmp(&other.cpu))?;
    let numbers = format!("{name} used {} of one core before it had a connection", percent(load.cpu));
    load.is_full().then(|| Judgement::convict(0.97, format!("{numbers}{}", load.waits_in_words())))
}

fn judge_flow(flow: &Flow<'_>) -> Judgement {
    let thread = match &flow.thread {
        Ok(thread) => thread,
        Err(why) => return Judgement::unknown(format!("the sender's thread: {why}")),
    };
    let load = thread_load(thread, flow.seconds);
    let name = thread.name.as_deref().unwrap_or("the sender's thread");
    let numbers = format!("{name} used {} of one core", percent(load.cpu));
    let sampled = flow.context.facts.clocks == Clocks::Sampled;
    if !load.is_full() || (sampled && !was_ready(thread, load.cpu)) {
        return Judgement::acquit(numbers);
    }
    if flow.is_fed() {
        return Judgement::acquit(format!("{numbers}, but {}", flow.unsent_in_words()));
    }
    if let Ok(why) = protocol_window::holds(flow) {
        return Judgement::acquit(format!("{numbers}, but it spins: {why}"));
    }
    if let Some(stage) = program::stage_of(flow) {
        return Judgement::acquit(format!("{numbers}: that is {}", stage.name()));
    }
    let steal = steal_in_words(flow.interval);
    let unsent = flow.unsent_in_words();
    Judgement::convict(0.97, format!("{numbers}{}, {unsent}{steal}", load.waits_in_words()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{CpuInterval, Evidence, Facts, Found, LaneInterval, Reading, ThreadInterval};
    use crate::sender::SenderInterval;
    use std::time::Duration;

    /// A connection that starves, of a program whose thread did so.
    fn judged(cpu: f64, throttled: f64, running: u32) -> Judgement {
        let span = Duration::from_millis(100);
        let found = Found { running, polling: 5 - running, ..Found::default() };
        let thread = ThreadInterval {
            cpu: span.mul_f64(cpu),
            throttled: span.mul_f64(throttled),
            looks: 5,
            found,
            ..ThreadInterval::default()
        };
        let seen = SenderInterval { looks: 5, nothing_unsent: 5, acked: 1, ..SenderInterval::default() };
        let lane = LaneInterval {
            received: 1,
            thread: Reading::Value(thread),
            sender: Reading::Value(seen),
            ..LaneInterval::default()
        };
        let cpu = Reading::Value(CpuInterval { steal: 0.3, ..CpuInterval::default() });
        let interval = Interval { span, received: 1, lanes: vec![lane], cpu, ..Interval::default() };
        let facts = Facts { clocks: Clocks::Sampled, ..Facts::default() };
        judge(&interval, &Context::alone(&Evidence { facts, ..Evidence::default() }))
    }

    #[test]
    fn a_groups_quota_is_not_the_limit_of_a_thread_that_waits() {
        assert!(judged(0.003, 0.95, 0).acquits());
        assert!(judged(0.2, 0.75, 5).convicts());
    }

    #[test]
    fn what_the_hypervisor_took_is_said() {
        let Judgement::Convict { evidence, .. } = judged(0.95, 0.0, 5) else { panic!("a full core") };
        assert!(evidence.ends_with("; the hypervisor took 30 %"), "{evidence}");
    }
}
