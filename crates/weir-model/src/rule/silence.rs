//! Time in which an end of a copy told nothing, or the watch itself stood still. Nothing is known of that end
//! then: neither that it went on as before, nor that it was not in the way. What the other end shows by
//! itself still counts.
//!
//! Where intervals were joined it may be a part of one: what was read is of the rest, and stands for the rest
//! alone.

use super::{Rule, Side};
use crate::evidence::{Interval, Silent};
use crate::limit::Limit;
use crate::vantage::{Vantage, vantage};
use crate::words::{percent, seconds};
use std::time::Duration;

/// Those that told nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Unseen {
    sender: bool,
    receiver: bool,
    watch: bool,
}

impl Unseen {
    /// Of all of an interval. Seconds that were written down and read again are short of it by their
    /// rounding.
    pub(crate) fn of(interval: &Interval) -> Unseen {
        let is_whole = |silent: Duration| {
            !silent.is_zero() && silent.as_secs_f64() >= 0.999 * interval.span.as_secs_f64()
        };
        let Silent { sender, receiver, watch } = interval.silent;
        Unseen { sender: is_whole(sender), receiver: is_whole(receiver), watch: is_whole(watch) }
    }

    /// All was told.
    pub(crate) fn is_none(self) -> bool {
        self == Unseen::default()
    }

    /// Whether what is left to be seen is enough for a rule: neither of an end that told nothing, nor
    /// inferred of it.
    pub(crate) fn shows(self, rule: &Rule) -> bool {
        let of_a_silent_end = match rule.side {
            Side::Sender => self.sender,
            Side::Receiver => self.receiver,
        };
        !of_a_silent_end && self.tells(rule.limit)
    }

    fn tells(self, limit: Limit) -> bool {
        let own_program = matches!(limit, Limit::CpuCore | Limit::Memory);
        match self {
            Unseen { watch: true, .. } | Unseen { sender: true, receiver: true, .. } => false,
            Unseen { sender: false, receiver: false, .. } => true,
            // A receiver infers all else from how bytes come: where none come it cannot tell a sender that
            // stands still from a path.
            Unseen { sender: true, .. } => vantage(limit) == Vantage::Receiver || own_program,
            // The peer's window fills where its program stands still, whatever would have held that: neither
            // its reader nor the window itself is told from it.
            Unseen { receiver: true, .. } => {
                vantage(limit) != Vantage::Receiver && limit != Limit::ReceiveWindow
            }
        }
    }

    /// What an interval says that nothing else can be told of.
    pub(crate) fn words(self) -> String {
        let who = match self {
            Unseen { watch: true, .. } => return "weir itself stood still".to_owned(),
            Unseen { sender: true, receiver: true, .. } => "both ends were",
            Unseen { sender: true, .. } => "the sender was",
            _ => "the receiver was",
        };
        format!("{who} not seen")
    }
}

/// Share of an interval, 0 to 1, for which the word of a rule does not stand: an end that it needs told
/// nothing then, though it did for the rest. Without a rule, where nothing else explains the interval, that
/// is either.
pub(crate) fn hidden(interval: &Interval, rule: Option<&Rule>) -> f64 {
    let span = interval.span.as_secs_f64();
    if interval.silent.is_none() || span <= 0.0 {
        return 0.0;
    }
    let whole = Unseen::of(interval);
    let Silent { sender, receiver, watch } = interval.silent;
    let parts = [
        (sender, Unseen { sender: !whole.sender, ..Unseen::default() }),
        (receiver, Unseen { receiver: !whole.receiver, ..Unseen::default() }),
        (watch, Unseen { watch: !whole.watch, ..Unseen::default() }),
    ];
    let needed = |unseen: &Unseen| !unseen.is_none() && rule.is_none_or(|rule| !unseen.shows(rule));
    let silent = parts.iter().filter(|(_, unseen)| needed(unseen)).map(|(silent, _)| silent.as_secs_f64());
    (silent.sum::<f64>() / span).min(1.0)
}

/// A line for each end that was not seen for a part of these intervals, which took `total` seconds, and for
/// the watch.
pub(crate) fn lines<'a>(intervals: impl Iterator<Item = &'a Interval> + Clone, total: f64) -> Vec<String> {
    let of = |who: &str, why: &str, silent: fn(Silent) -> Duration| {
        let times = intervals.clone().map(|interval| silent(interval.silent.within(interval.span)));
        let unseen: f64 = times.map(|time| time.as_secs_f64()).sum();
        (unseen > 0.0).then(|| {
            format!("{who} not seen for {}, {} of the time: {why}", seconds(unseen), percent(unseen / total))
        })
    };
    let told_nothing = "its program stood still, or its words did not come through";
    let ends = [
        of("the sender was", told_nothing, |silent| silent.sender),
        of("the receiver was", told_nothing, |silent| silent.receiver),
        of("the transfer was", "weir itself stood still", |silent| silent.watch),
    ];
    ends.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
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
            let time = |silent| if silent { Duration::from_secs(1) } else { Duration::ZERO };
            let silent = Silent { sender: time(sender), receiver: time(receiver), ..Silent::default() };
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
    fn older_records_say_that_it_was_all_of_an_interval() {
        let read = |text: &str| serde_json::from_str::<Interval>(text).unwrap();
        let whole = read(r#"{"span": 1.5, "silent": {"sender": true, "receiver": false}}"#);
        assert_eq!(Unseen::of(&whole), Unseen { sender: true, ..Unseen::default() });
        let told = lines([&whole, &read(r#"{"span": 2, "silent": {"watch": 1}}"#)].into_iter(), 3.5);
        assert!(told[0].starts_with("the sender was not seen for 1.5 s"), "{told:?}");
        assert!(told[1].starts_with("the transfer was not seen for 1.0 s"), "{told:?}");
        let again = read(&serde_json::to_string(&whole).unwrap());
        assert_eq!(again.silent, whole.silent);
    }

    #[test]
    fn what_the_other_end_does_by_itself_still_counts() {
        // A receiver whose output nobody takes while its sender is silent.
        let waits = LaneInterval { output_wait: Duration::from_secs(1), ..LaneInterval::default() };
        let silent = Silent { sender: Duration::from_secs(1), ..Silent::default() };
        let verdict = run(Interval { silent, lanes: vec![waits], received: 1, ..Interval::default() });
        assert_eq!(verdict.limit, Some(MainLimit::One(Limit::Reader)), "{verdict:?}");
        assert!(
            verdict.missing.iter().any(|line| line.starts_with("the sender was not seen")),
            "{verdict:?}"
        );
    }
}
