//! The fallback: no rule convicts, so it is the sender or the path, which look the same from the receiver.
//!
//! Says what was seen that leans one way, and what would tell them apart. Not a row of the table: it always
//! "convicts", with a strength that says how little that is.
//!
//! Can be wrong: something on this side that no rule looks at.

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
    let mut clauses = vec![if spent.socket_wait >= 0.25 {
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
    Judgement::convict(0.2 + 0.4 * spent.socket_wait, clauses.join("; "))
}

/// What a sender saw that explains nothing, in the words of the rule that comes nearest.
fn unexplained(interval: &Interval, context: &Context<'_>) -> String {
    match sender::path_bandwidth::judge(interval, context) {
        Judgement::Acquit { evidence } => format!("nothing that the sender sees explains it: {evidence}"),
        Judgement::Unknown { missing } => format!("the sender does not see {missing}"),
        Judgement::Convict { evidence, .. } => evidence,
    }
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
