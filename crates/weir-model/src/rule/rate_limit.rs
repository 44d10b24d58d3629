//! Does a limit that someone set hold the transfer?
//!
//! Convicts when one of these holds:
//! 1. our own limiter (`--limit-rate`) kept the lanes asleep: a limiter sleeps only when the flow would
//!    exceed it;
//! 2. the server said wait (`Retry-After`, 429, 503) for a quarter of the interval or more;
//! 3. both ends agreed on a rate, and what comes reaches it;
//! 4. each connection is held at one rate: see [`per_connection_cap`].
//!
//! Acquits: stages of this side took the time, or the user's own limit was set and did not hold.
//!
//! Cannot tell: a limit on all connections of a client together, which is as flat as a full path.
//!
//! Can be wrong: a server that spends one slow thread on each connection gives equal rates too (4); of
//! several lanes one alone may be told to wait (2).

use super::spent::{active, min_rtt, spent, working};
use super::{Context, Judgement, cpu_core, path_loss, receive_window};
use crate::evidence::{Interval, Trial};
use crate::path::INITIAL_WINDOW;
use crate::words::{percent, rate};

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    let told = own_limiter(interval, context)
        .or_else(|| server_said_wait(interval, context))
        .or_else(|| agreed(interval, context));
    told.unwrap_or_else(|| match per_connection_cap(interval, context) {
        Cap::Proven(cap) => Judgement::convict(
            0.9,
            format!(
                "each connection carries {} whatever their number, with receive window and loss ruled out",
                rate(cap)
            ),
        ),
        Cap::Refuted(why) => Judgement::acquit(why),
        Cap::Unproven(why) => Judgement::unknown(why),
    })
}

/// A rate that both ends agreed on, and that the sender keeps: what comes reaches it. Over the second on each
/// side, since a sender of large blocks at a small rate sends one now and then.
fn agreed(interval: &Interval, context: &Context<'_>) -> Option<Judgement> {
    let cap = context.facts.rate_cap.filter(|cap| context.facts.takes_in && *cap > 0.0)?;
    let (mut bytes, mut seconds) = (0.0, 0.0);
    for interval in context.around(interval, 1.0) {
        bytes += interval.received as f64;
        seconds += interval.span.as_secs_f64();
    }
    let got = if seconds > 0.0 { bytes / seconds } else { 0.0 };
    let evidence = format!("{} came of the {} that was asked for", rate(got), rate(cap));
    reaches(got, cap).then(|| Judgement::convict(0.9, evidence))
}

/// The share of an interval that a limiter near its cap sleeps at least.
const ASLEEP: f64 = 0.02;

/// Away from the cap (the bucket's burst, an interval cut in two) more is asked for: the share from which a
/// verdict counts a limit.
const LONG_ASLEEP: f64 = 0.25;

/// Whether a rate is that of a limit that its user set, both in bytes per second. A bucket is refilled in
/// steps and an interval ends between two of them: a tenth is left to that.
pub fn reaches(rate: f64, cap: f64) -> bool {
    rate >= 0.9 * cap
}

pub(super) fn own_limiter(interval: &Interval, context: &Context<'_>) -> Option<Judgement> {
    let spent = spent(interval);
    let seconds = interval.span.as_secs_f64();
    let got = if seconds > 0.0 { interval.received as f64 / seconds } else { 0.0 };
    let at_cap = context.facts.rate_cap.is_some_and(|cap| cap > 0.0 && reaches(got, cap));
    let asleep = spent.limited;
    if asleep < ASLEEP || (!at_cap && asleep < LONG_ASLEEP) {
        return None;
    }
    let cap = context.facts.rate_cap.map(|cap| format!(" of {}", rate(cap))).unwrap_or_default();
    let evidence = format!("our own limit{cap} kept the connections waiting {} of the time", percent(asleep));
    Some(Judgement::convict(if at_cap { 0.95 } else { asleep }, evidence))
}

/// Whether a transfer is at a limit that its user set, bytes per second: what lanes carry then says nothing
/// of what more would.
pub fn at_own_limit(interval: &Interval, cap: f64) -> bool {
    let seconds = interval.span.as_secs_f64();
    spent(interval).limited >= ASLEEP || reaches(interval.received as f64, cap * seconds)
}

pub(super) fn server_said_wait(interval: &Interval, context: &Context<'_>) -> Option<Judgement> {
    let seconds = interval.span.as_secs_f64();
    let share = if seconds > 0.0 { interval.server_backoff.as_secs_f64() / seconds } else { 0.0 };
    let words = context.facts.server_said.as_ref().map(|words| format!(": {words}")).unwrap_or_default();
    let evidence =
        format!("the server asked to wait (429, 503 or Retry-After) {} of the time{words}", percent(share));
    (share >= 0.25).then(|| Judgement::convict(share, evidence))
}

/// Whether connections are held one by one.
#[derive(Debug, Clone, PartialEq)]
pub enum Cap {
    /// Bytes per second that each connection gets.
    Proven(f64),
    /// It is not so, and why.
    Refuted(String),
    /// It may be so; what stands in the way of saying it.
    Unproven(String),
}

/// Whether each connection is held at one rate by the server.
///
/// 1. A trial's goodput grew with the lanes: at least 85 % of the proportional gain, so nothing shared was
///    full.
/// 2. The lanes carry equal rates (within 20 % of their mean), and the rate that one lane had on one side of
///    that trial (within 20 %). Rates are means over some seconds around the interval: servers meter in steps
///    of up to a second (nginx counts whole seconds, and lets the first one through at once), which a shorter
///    mean would take for change.
/// 3. The lanes wait for data, no thread is full, receive window and loss are acquitted.
/// 4. What is in flight (rate x round trip) is below the ten segments with which every sender starts: no
///    congestion window and no send buffer is that small. Above it a small send buffer of the server gives
///    the same picture (16 KiB per 20 ms are 800 KB/s on each connection), so the cap stays unproven.
pub(crate) fn per_connection_cap(interval: &Interval, context: &Context<'_>) -> Cap {
    if !context.trials.iter().any(grew) {
        return if spent(interval).limited > 0.0 || !spent(interval).waits_for_data() {
            Cap::Refuted("no limiter slept and no server said wait".to_owned())
        } else if context.trials.iter().any(flat) {
            Cap::Unproven("a cap on all connections together: from here it looks like a full path".to_owned())
        } else if context.facts.takes_in {
            Cap::Unproven("a cap per connection: only the sending end shows it".to_owned())
        } else {
            Cap::Unproven(
                "a cap per connection: only a trial with more connections (-c) would show it".to_owned(),
            )
        };
    }
    if !spent(interval).waits_for_data() {
        return Cap::Refuted("connections do not wait for data".to_owned());
    }
    let mean = match one_rate(interval, context) {
        Ok(mean) => mean,
        // A server may meter all together, or each in bursts.
        Err(why) => return Cap::Unproven(format!("whether a limit is set: {why}")),
    };
    if cpu_core::judge(interval, context).convicts() {
        return Cap::Refuted("a thread of ours is full".to_owned());
    }
    if !receive_window::judge(interval, context).acquits() || path_loss::judge(interval, context).convicts() {
        return Cap::Unproven("a cap per connection: receive window or loss are not ruled out".to_owned());
    }
    match min_rtt(interval, context) {
        Some(rtt) if mean * rtt < INITIAL_WINDOW as f64 => Cap::Proven(mean),
        _ => Cap::Unproven(
            "a cap per connection, a small send buffer of the server and a small congestion window look the same here"
                .to_owned(),
        ),
    }
}

/// The one rate that the lanes carry, as on one side of a trial that grew: (1) and (2) of
/// [`per_connection_cap`]. Else why there is none.
pub(crate) fn one_rate(interval: &Interval, context: &Context<'_>) -> Result<f64, String> {
    let rates: Vec<f64> = working(interval).map(|lane| long_rate(lane.lane, interval, context)).collect();
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let near = |value: f64, target: f64| (value - target).abs() <= 0.2 * target;
    if rates.is_empty() || !rates.iter().all(|value| near(*value, mean)) {
        return Err("connections carry unequal rates".to_owned());
    }
    if !context.trials.iter().filter(|trial| grew(trial)).flat_map(per_lane).any(|cap| near(mean, cap)) {
        return Err(format!("each connection carries {}, which no trial showed", rate(mean)));
    }
    Ok(mean)
}

/// One lane's rate before and after a trial.
fn per_lane(trial: &Trial) -> [f64; 2] {
    [
        trial.rate_before / f64::from(trial.lanes_before.max(1)),
        trial.rate_after / f64::from(trial.lanes_after.max(1)),
    ]
}

/// One lane's bytes per second over some seconds around the interval.
fn long_rate(lane: u32, interval: &Interval, context: &Context<'_>) -> f64 {
    const SECONDS: f64 = 5.0;
    let around = context.around(interval, SECONDS);
    let (mut bytes, mut time) = (0.0, 0.0);
    for interval in around {
        for lane in interval.lanes.iter().filter(|other| other.lane == lane) {
            bytes += lane.received as f64;
            time += active(lane, interval);
        }
    }
    if time > 0.0 { bytes / time } else { 0.0 }
}

/// The trial with the most lanes in which goodput grew with their number.
pub(crate) fn scaled(trials: &[Trial]) -> Option<&Trial> {
    trials.iter().filter(|trial| grew(trial)).max_by_key(|trial| trial.lanes_after)
}

/// Whether goodput grew with the number of lanes, see (1) of [`per_connection_cap`].
pub(crate) fn grew(trial: &Trial) -> bool {
    let lanes = f64::from(trial.lanes_after) / f64::from(trial.lanes_before.max(1));
    trial.lanes_after > trial.lanes_before.max(1)
        && trial.rate_before > 0.0
        && trial.rate_after.is_finite()
        && trial.rate_after >= 0.85 * lanes * trial.rate_before
}

/// Whether more lanes brought nothing: less than a tenth, which is about the noise between two measurements.
pub(crate) fn flat(trial: &Trial) -> bool {
    trial.lanes_after > trial.lanes_before
        && trial.rate_before > 0.0
        && trial.rate_after < 1.1 * trial.rate_before
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::evidence::{Evidence, LaneInterval};

    #[test]
    fn what_was_asked_for_and_came_is_a_limit_of_who_takes_it_in() {
        let second = |received| Interval {
            span: Duration::from_secs(1),
            received,
            lanes: vec![LaneInterval {
                received,
                socket_wait: Duration::from_secs(1),
                ..LaneInterval::default()
            }],
            ..Interval::default()
        };
        let mut evidence = Evidence::default();
        evidence.facts.rate_cap = Some(1e6);
        let told = |evidence: &Evidence, received| judge(&second(received), &Context::alone(evidence));
        // Of our own limit only its sleep tells.
        assert!(!told(&evidence, 1_000_000).convicts());
        evidence.facts.takes_in = true;
        assert!(told(&evidence, 1_000_000).convicts());
        assert!(
            matches!(told(&evidence, 500_000), Judgement::Unknown { missing } if !missing.contains("-c"))
        );
    }

    #[test]
    fn a_trial_rules_out_no_limit_on_all_together() {
        let second = Duration::from_secs(1);
        let lane =
            |lane, received| LaneInterval { lane, received, socket_wait: second, ..LaneInterval::default() };
        let interval = Interval {
            span: second,
            received: 4_000_000,
            lanes: vec![lane(0, 1_000_000), lane(1, 3_000_000)],
            ..Interval::default()
        };
        let told = |rate_after| {
            let trial =
                Trial { at: 1.0, lanes_before: 1, lanes_after: 2, rate_before: 4e6, rate_after, kept: false };
            let evidence = Evidence { trials: vec![trial], ..Evidence::default() };
            judge(&interval, &Context::alone(&evidence))
        };
        let doubts = |rate_after, words: &str| {
            let judged = told(rate_after);
            assert!(
                matches!(&judged, Judgement::Unknown { missing } if missing.contains(words)),
                "{judged:?}"
            );
        };
        doubts(4e6, "all connections together");
        doubts(8e6, "unequal rates");
    }
}
