//! The fallback: no rule convicts, so it is the sender or the path, which look the same from the receiver.
//!
//! Says what was seen that leans one way, and what would tell them apart. Not a row of the table: it always
//! "convicts", with a strength that says how little that is.
//!
//! Can be wrong: something on this side that no rule looks at.

use std::time::Duration;

use super::rate_limit::{flat, scaled};
use super::spent::{min_rtt, spent, working};
use super::{Context, Judgement, View, failing, sender};
use crate::evidence::{Interval, Trial};
use crate::words::{percent, rate, seconds};

/// The words for an interval that nothing else explains.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    let spent = spent(interval);
    if !interval.unlisted.is_zero() {
        return Judgement::convict(
            0.1,
            "no connection was active: the list of what to move was waited for, and whether the store gives it slowly or is \
             far is not told apart here"
                .to_owned(),
        );
    }
    if let Some((share, words)) = failing::broken(interval, context) {
        return Judgement::convict(share, words);
    }
    if spent.lanes == 0 {
        return Judgement::convict(0.1, "no connection was active, and no reading says why".to_owned());
    }
    if View::of(interval, context).sender_only() {
        let words = unexplained(interval, context);
        let core = servers_core(interval, context).map(|core| format!("; {core}")).unwrap_or_default();
        return Judgement::convict(0.3, words + &core);
    }
    // Where the last word was a client's, the wait may be for this program's own answer.
    let owing = interval.around.share(interval.around.owing);
    let mut clauses = vec![if owing >= 0.5 {
        format!(
            "what came last was a client's in {} of samples: whether it waited for an answer, or more was to come, does not show",
            percent(owing)
        )
    } else if spent.socket_wait >= 0.25 {
        format!(
            "the connections waited {} of the time for data that had not arrived",
            percent(spent.socket_wait)
        )
    } else {
        format!(
            "no stage of this side was full; the connections waited for data {} of the time",
            percent(spent.socket_wait)
        )
    }];
    clauses.extend(servers_core(interval, context));
    clauses.extend(queue_on_path(interval, context));
    clauses.extend(trials(context.trials));
    // The wait for data is what makes this more than ignorance.
    let waited = if owing < 0.5 { spent.socket_wait } else { 0.0 };
    Judgement::convict(0.2 + 0.4 * waited, clauses.join("; "))
}

/// What a sender saw that explains nothing, in the words of the rule that comes nearest.
fn unexplained(interval: &Interval, context: &Context<'_>) -> String {
    match sender::path_bandwidth::judge(interval, context) {
        Judgement::Acquit { evidence } => format!("nothing that the sender sees explains it: {evidence}"),
        Judgement::Unknown { missing } => format!("the sender does not see {missing}"),
        Judgement::Convict { evidence, .. } => evidence,
    }
}

/// Nothing came of what the connections waited for.
fn is_silent(interval: &Interval) -> bool {
    interval.received == 0 && spent(interval).waits_for_data()
}

/// Seconds of silence that are a pause: ten round trips, in which a lost segment is sent again several times
/// over, and more than the rest between two bursts of a metered flow.
fn least_pause(rtt: Option<f64>) -> f64 {
    rtt.map_or(1.0, |rtt| (10.0 * rtt).max(1.0))
}

fn lasted<'a>(intervals: impl IntoIterator<Item = &'a Interval>) -> Duration {
    intervals.into_iter().map(|interval| interval.span).fold(Duration::ZERO, Duration::saturating_add)
}

/// The interval is part of a pause in the middle of what was to come.
pub(crate) fn pauses(interval: &Interval, context: &Context<'_>) -> bool {
    if !is_silent(interval) {
        return false;
    }
    let least = least_pause(min_rtt(interval, context));
    let silent = |interval: &&Interval| is_silent(interval);
    let before = lasted(context.recent(least).take_while(silent));
    let after = lasted(context.following(least).take_while(silent));
    interval.span.saturating_add(before).saturating_add(after).as_secs_f64() >= least
}

/// The longest pause of a run: `nothing arrived for 5.0 s in a row (at 1.0 s)`.
pub(crate) fn longest_pause(intervals: &[Interval], rtt: Option<f64>) -> Option<String> {
    let rows = intervals.chunk_by(|one, next| is_silent(one) && is_silent(next));
    let silent = rows.filter_map(|row| {
        let first = row.first().filter(|first| is_silent(first))?;
        Some((first.at, lasted(row)))
    });
    let (at, lasted) = silent.max_by_key(|(_, lasted)| *lasted)?;
    let lasted = lasted.as_secs_f64();
    let words = || format!("nothing arrived for {} in a row (at {})", seconds(lasted), seconds(at));
    (lasted >= least_pause(rtt)).then(words)
}

/// A full processor that no lane fills, when the sender runs here.
pub(crate) fn servers_core(interval: &Interval, context: &Context<'_>) -> Option<String> {
    let cpu = interval.cpu.value().filter(|_| context.facts.peer_is_local)?;
    let (number, busy) = cpu.busy.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
    (*busy >= 0.95).then(|| {
        format!(
            "processor {number} was {} busy and no connection's thread fills one: possibly the sender's, which runs on this machine",
            percent(*busy)
        )
    })
}

fn queue_on_path(interval: &Interval, context: &Context<'_>) -> Option<String> {
    let shortest = min_rtt(interval, context)?;
    let now = working(interval).filter_map(|lane| lane.tcp.value()?.receiver_rtt).max()?.as_secs_f64();
    (now > 1.3 * shortest + 1e-3).then(|| {
        format!(
            "the round trip was {} over a minimum of {}: a queue on the path, or a sender that pauses",
            seconds(now),
            seconds(shortest)
        )
    })
}

fn trials(trials: &[Trial]) -> Option<String> {
    let tell = |trial: &Trial, meaning: &str| {
        format!(
            "{} connections carried {}, {} carried {}: {meaning}",
            trial.lanes_after,
            rate(trial.rate_after),
            trial.lanes_before,
            rate(trial.rate_before)
        )
    };
    match (trials.iter().rev().find(|trial| flat(trial)), scaled(trials)) {
        (Some(trial), _) => {
            Some(tell(trial, "what limits is shared by them, the path or the server as a whole"))
        }
        (None, Some(trial)) => Some(tell(
            trial,
            "each is held by itself, by a cap, the server's send buffer or its congestion window",
        )),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::around::Around;
    use crate::evidence::{Evidence, LaneInterval};
    use crate::verdict::{Verdict, explain};

    /// Of a connection that waits for data: so many tenths of a second, in each of which so much came.
    fn told(stretches: &[(usize, u64)]) -> Verdict {
        let span = Duration::from_millis(100);
        let mut intervals = Vec::new();
        for (count, received) in stretches.iter().copied() {
            let lane = LaneInterval { received, socket_wait: span, ..LaneInterval::default() };
            let interval = Interval { span, received, lanes: vec![lane], ..Interval::default() };
            intervals.extend(std::iter::repeat_n(interval, count));
        }
        for (tenths, interval) in intervals.iter_mut().enumerate() {
            interval.at = tenths as f64 / 10.0;
        }
        explain(&Evidence { intervals, ..Evidence::default() })
    }

    #[test]
    fn what_a_client_may_be_owed_is_not_said_to_be_late_itself() {
        let judged = |owing| {
            let span = Duration::from_millis(100);
            let lanes = vec![LaneInterval { socket_wait: span, ..LaneInterval::default() }];
            let around = Around { samples: 5, owing, busy: 5 - owing, ..Around::default() };
            let interval = Interval { span, lanes, around, ..Interval::default() };
            match judge(&interval, &Context::alone(&Evidence::default())) {
                Judgement::Convict { strength, evidence } => (strength, evidence),
                other => panic!("{other:?}"),
            }
        };
        let (strength, words) = judged(5);
        assert!(strength < 0.3 && !words.contains("had not arrived"), "{strength} {words}");
        let (strength, words) = judged(1);
        assert!(strength > 0.5 && words.contains("had not arrived"), "{strength} {words}");
    }

    #[test]
    fn a_pause_is_told_and_its_server_is_not_ruled_out() {
        let with = |pause| told(&[(10, 600_000), (pause, 0), (20, 600_000)]);
        let of_application = |lines: &[String]| lines.iter().any(|line| line.starts_with("application: "));
        let long = with(50);
        let pause = "nothing arrived for 5.0 s in a row (at 1.0 s)";
        assert!(long.evidence.iter().any(|line| line == pause), "{:?}", long.evidence);
        assert!(!of_application(&long.innocent) && of_application(&long.missing), "{long:?}");
        let short = with(5);
        assert!(!short.evidence.iter().any(|line| line.contains("in a row")), "{:?}", short.evidence);
        assert!(of_application(&short.innocent), "{:?}", short.innocent);
    }
}
