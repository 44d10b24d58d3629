//! Advice for a copy between two hosts, with weir at both ends: nobody runs a server who could be asked, and
//! each end tells of its own processors.

use super::{Advice, Held, Processors};
use crate::evidence::{Interval, Reading};
use crate::limit::Limit;
use crate::rule::spent::spent;
use crate::rule::{Context, stage};
use crate::words::{rate, seconds};

/// What to do about this limit of a copy; `None` where the advice for a download fits as well.
pub(super) fn advise(limit: Limit, held: &Held<'_>) -> Option<Vec<Advice>> {
    let one = |action: &str| vec![Advice::new(action, None)];
    Some(match limit {
        Limit::RateLimit if spent(held.together).limited <= 0.0 => for_rate_limit(held),
        Limit::Application => one(
            "find what the sender waits for: its threads had nothing to send (files that are found or opened slowly, as over a \
             network mount)",
        ),
        Limit::Reader => one(
            "find what keeps the receiver from taking the data in time: its processors, its memory, or the disk that it writes to",
        ),
        Limit::Latency | Limit::RequestResponse => for_latency(held),
        _ => return None,
    })
}

/// A cap on each connection, or our own where the time that it took was not told.
fn for_rate_limit(held: &Held<'_>) -> Vec<Advice> {
    match held.evidence.facts.rate_cap {
        Some(cap) => vec![Advice::new(format!("raise or drop --limit-rate of {}", rate(cap)), None)],
        None => held.more_connections(&format!("each carries {}", rate(held.each()))),
    }
}

/// Files share the connections of a run, so that more in one run wait less; how many connections help is
/// tried unless their number is fixed.
fn for_latency(held: &Held<'_>) -> Vec<Advice> {
    let mut advice = Vec::new();
    if held.evidence.facts.lanes_fixed.is_some() {
        advice.push(Advice::new("leave out -c: weir then tries how many connections bring more", None));
    }
    let rtt = held.rtt().map(|rtt| format!(" of {}", seconds(rtt))).unwrap_or_default();
    let action = format!(
        "copy all in one run, which makes its connections once, or from nearer: round trips{rtt} remain"
    );
    advice.push(Advice::new(action, None));
    advice
}

/// Of the end whose processors were convicted, none of which is free then; else of the end that has the
/// fewest free, since more connections need some at both. `None` where no end told of its processors.
pub(super) fn processors(held: &Held<'_>) -> Option<Processors> {
    let Interval { sending, receiving, .. } = held.together;
    let is_shared = held.evidence.facts.peer_is_local;
    let names = if is_shared { [" that both ends share"; 2] } else { [" at the sender", " at the receiver"] };
    let sender = Interval { receiving: Reading::default(), ..held.together.clone() };
    let receiver = Interval { sending: Reading::default(), ..held.together.clone() };
    // On one machine the work of both counts.
    let judged = if is_shared { [held.together; 2] } else { [&sender, &receiver] };
    let context = Context::alone(held.evidence);
    let known = [sending, receiving].into_iter().zip(judged).zip(names).filter_map(|((end, alone), at)| {
        let stages = end.value()?;
        let busy = stages.busy.filter(|busy| busy.is_finite())?;
        let is_full = stage::processors(alone, &context).is_some_and(|judged| judged.convicts());
        let free = (f64::from(stages.cpus) - busy).max(0.0).floor() as u32;
        Some(Processors { at, all: stages.cpus, free: Some(if is_full { 0 } else { free }) })
    });
    known.min_by_key(|end| end.free)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::evidence::{Command, Evidence, Facts, LaneInterval};
    use crate::stages::Stages;

    fn advised(limit: Limit, facts: Facts, sending: Stages, receiving: Stages) -> Vec<Advice> {
        let together = Interval {
            span: Duration::from_secs(1),
            received: 1_000_000,
            lanes: vec![LaneInterval { received: 1_000_000, ..LaneInterval::default() }],
            sending: Reading::Value(sending),
            receiving: Reading::Value(receiving),
            ..Interval::default()
        };
        let facts = Facts { command: Command::HostCopy, ..facts };
        let evidence = Evidence { facts, intervals: vec![together.clone()], ..Evidence::default() };
        let held = Held { evidence: &evidence, together: &together, knee: None, written: 0 };
        super::super::advise(limit, &held)
    }

    #[test]
    fn a_copy_gets_no_advice_for_another_command() {
        for limit in Limit::ALL {
            for lanes_fixed in [None, Some(1)] {
                let facts = Facts { lanes_fixed, objects: 9, cpus: 4, ..Facts::default() };
                let advice = advised(limit, facts, Stages::default(), Stages::default());
                for of_others in ["-j", "-o FILE", "who runs the", "server's owner", "--recv-buffer"] {
                    let told = advice.iter().any(|one| one.action.contains(of_others));
                    assert!(!told, "{limit}: {of_others} in {advice:?}");
                }
            }
        }
    }

    #[test]
    fn the_processors_are_those_of_the_end_that_is_full() {
        let idle = || Stages { cpus: 16, busy: Some(1.0), own: Some(0.5), ..Stages::default() };
        let full = || Stages { cpus: 32, busy: Some(29.9), own: Some(29.0), ..Stages::default() };
        for (sending, receiving, end) in [(full(), idle(), "sender"), (idle(), full(), "receiver")] {
            let facts = Facts { cpus: receiving.cpus, ..Facts::default() };
            let advice = advised(Limit::CpuCore, facts, sending, receiving);
            let free = format!("free a processor at the {end}: all 32 are busy");
            assert!(advice[0].action.starts_with(&free), "{advice:?}");
            assert_eq!(advice[0].predicted_rate, None);
        }
    }

    #[test]
    fn more_connections_need_processors_at_both_ends() {
        let of = |cpus: u32| Stages { cpus, busy: Some(1.0), own: Some(0.5), ..Stages::default() };
        let advice = advised(Limit::CpuCore, Facts { cpus: 16, ..Facts::default() }, of(2), of(16));
        let said = "use more connections (-c 2): 1 processor idle at the sender";
        assert_eq!((advice[0].action.as_str(), advice[0].predicted_rate), (said, Some(2e6)));
    }
}
