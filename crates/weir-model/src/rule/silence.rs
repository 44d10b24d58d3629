//! Time of a copy in which an end told nothing. Nothing is known of that end then: neither that it went on as
//! before, nor that it was not in the way. What the other end shows by itself still counts.

use super::{Rule, Side};
use crate::evidence::{Interval, Silent};
use crate::limit::Limit;
use crate::vantage::{Vantage, vantage};
use crate::words::{percent, seconds};

/// Whether what is left to be seen is enough for a rule: neither of an end that told nothing, nor inferred of
/// it.
pub(crate) fn shows(silent: Silent, rule: &Rule) -> bool {
    let of_a_silent_end = match rule.side {
        Side::Sender => silent.sender,
        Side::Receiver => silent.receiver,
    };
    !of_a_silent_end && tells(silent, rule.limit)
}

fn tells(silent: Silent, limit: Limit) -> bool {
    let own_program = matches!(limit, Limit::CpuCore | Limit::Memory);
    match silent {
        Silent { sender: false, receiver: false } => true,
        Silent { sender: true, receiver: true } => false,
        // A receiver infers all else from how bytes come: where none come it cannot tell a sender that stands
        // still from a path.
        Silent { sender: true, .. } => vantage(limit) == Vantage::Receiver || own_program,
        // The peer's window fills where its program stands still, whatever would have held that: neither its
        // reader nor the window itself is told from it.
        Silent { receiver: true, .. } => vantage(limit) != Vantage::Receiver && limit != Limit::ReceiveWindow,
    }
}

/// What an interval says that nothing else can be told of.
pub(crate) fn words(silent: Silent) -> String {
    let who = match silent {
        Silent { sender: true, receiver: true } => "both ends were",
        Silent { sender: true, .. } => "the sender was",
        _ => "the receiver was",
    };
    format!("{who} not seen")
}

/// A line for each end that was not seen for a part of these intervals, which took `total` seconds.
pub(crate) fn lines<'a>(intervals: impl Iterator<Item = &'a Interval> + Clone, total: f64) -> Vec<String> {
    let of = |who: &str, is_silent: fn(Silent) -> bool| {
        let silent = intervals.clone().filter(|interval| is_silent(interval.silent));
        let unseen: f64 = silent.map(|interval| interval.span.as_secs_f64()).sum();
        (unseen > 0.0).then(|| {
            format!(
                "{who} was not seen for {}, {} of the time: its program stood still, or its words did not come through",
                seconds(unseen),
                percent(unseen / total)
            )
        })
    };
    let ends = [of("the sender", |silent| silent.sender), of("the receiver", |silent| silent.receiver)];
    ends.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::evidence::{CpuInterval, Evidence, LaneInterval, Reading};
    use crate::limit::Limit;
    use crate::stages::Stages;
    use crate::verdict::{MainLimit, Verdict, explain};

    /// Two seconds held by a rate that the user set, then `after` of ten seconds.
    fn run(after: Interval) -> Verdict {
        let span = Duration::from_secs(1);
        let limited = Duration::from_millis(950);
        let lane = LaneInterval { received: 1_000_000, limited, ..LaneInterval::default() };
        let stages = Stages { threads: 1, limited, ..Stages::default() };
        let before = Interval {
            span,
            received: 1_000_000,
            lanes: vec![lane],
            sending: Reading::Value(stages),
            receiving: Reading::Value(Stages { threads: 1, receive: span, ..Stages::default() }),
            cpu: Reading::Value(CpuInterval::default()),
            ..Interval::default()
        };
        let mut evidence = Evidence::default();
        evidence.facts.rate_cap = Some(1e6);
        evidence.intervals = [vec![before; 2], vec![Interval { span, ..after }; 10]].concat();
        explain(&evidence)
    }

    #[test]
    fn time_in_which_an_end_told_nothing_is_not_seen() {
        let waits = LaneInterval { socket_wait: Duration::from_secs(1), ..LaneInterval::default() };
        for (sender, receiver) in [(true, false), (false, true), (true, true)] {
            let silent = Silent { sender, receiver };
            let verdict = run(Interval { silent, lanes: vec![waits.clone()], ..Interval::default() });
            // Most of it is not known, which no limit of the rest stands for.
            assert_eq!(verdict.limit, None, "{verdict:?}");
            let known: f64 = verdict.shares.values().sum();
            assert!((known - 1.0 / 6.0).abs() < 1e-6, "{verdict:?}");
            let told = |who: &str| {
                let line = format!("the {who} was not seen for 10.0 s, 83 % of the time");
                verdict.missing.iter().any(|missing| missing.starts_with(&line))
            };
            assert_eq!((told("sender"), told("receiver")), (sender, receiver), "{verdict:?}");
            let ruled_out = |name: &str| verdict.innocent.iter().any(|line| line.starts_with(name));
            // Of a receiver that was seen its own end is known.
            assert_eq!(ruled_out("reader") || ruled_out("disk"), !receiver, "{verdict:?}");
            assert_eq!(verdict.intervals[2..], [None; 10]);
        }
    }

    #[test]
    fn what_the_other_end_does_by_itself_still_counts() {
        // A receiver whose output nobody takes while its sender is silent.
        let waits = LaneInterval { output_wait: Duration::from_secs(1), ..LaneInterval::default() };
        let silent = Silent { sender: true, receiver: false };
        let verdict = run(Interval { silent, lanes: vec![waits], received: 1, ..Interval::default() });
        assert_eq!(verdict.limit, Some(MainLimit::One(Limit::Reader)), "{verdict:?}");
        assert!(
            verdict.missing.iter().any(|line| line.starts_with("the sender was not seen")),
            "{verdict:?}"
        );
    }
}
