//! What to change in a fleet: how many hosts, which host, which end.
//!
//! More hosts are advised only where a trial has shown, or the hosts' own words say, that each is limited by
//! itself. A prediction adds up what hosts were measured to carry.

use super::verdict::{IDLE, Known};
use super::{FleetHold, FleetVerdict, HeldBy, Outlier, SharedEnd, TrialChange, TrialOutcome};
use crate::advice::Advice;
use crate::limit::Limit;
use crate::verdict::MainLimit;
use weir_units::counted;

/// From here on a slow host is more trouble than help: it holds the last batches of a plan longest.
const OUT: f64 = 0.25;

/// Most useful first.
pub(super) fn advise(known: &Known<'_>, verdict: &FleetVerdict) -> Vec<Advice> {
    let mut advice = Vec::new();
    let idle = verdict.shares.get(&HeldBy::NoWork).copied().unwrap_or(0.0);
    if idle >= IDLE {
        let why = "give the hosts work, or take some out: they had none for most of the time \
                   (a pause, a window, a plan that is not whole, or fewer batches than hosts)";
        advice.push(Advice::new(why, None));
    }
    advice.extend(verdict.outliers.iter().filter(|odd| odd.is_slow()).flat_map(|odd| about(odd, verdict)));
    if known.evidence.rate_cap.is_some() && verdict.limit == Some(MainLimit::One(Limit::RateLimit)) {
        advice.push(Advice::new(
            "raise what each host may move (weir fleet set --limit-rate): it holds them",
            None,
        ));
    }
    match verdict.hold {
        FleetHold::Own if idle < IDLE => advice.extend(add_hosts(verdict)),
        FleetHold::Shared(end) => advice.extend(widen(end, verdict)),
        FleetHold::Unknown if verdict.trial.is_none() && known.last.is_some() && idle < IDLE => {
            advice.extend(try_it(known));
        }
        FleetHold::Own | FleetHold::Unknown => {}
    }
    advice
}

fn add_hosts(verdict: &FleetVerdict) -> Option<Advice> {
    let next = verdict.next?;
    let by = match verdict.limit {
        Some(MainLimit::One(limit)) => format!(" ({limit})"),
        _ => String::new(),
    };
    let action = format!(
        "add hosts: each is limited by itself{by}, and a {} adds what each carries",
        ordinal(next.hosts)
    );
    Some(Advice::new(action, Some(next.rate)))
}

/// `5th`.
fn ordinal(number: u32) -> String {
    let end = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{end}")
}

fn widen(end: SharedEnd, verdict: &FleetVerdict) -> Vec<Advice> {
    let Some(trial) = &verdict.trial else { return Vec::new() };
    let (fewer, more) = (trial.others, trial.others + trial.hosts.len() as u32);
    let (of_fewer, of_more) = match trial.change {
        TrialChange::Joined => (trial.before, trial.after),
        TrialChange::Left => (trial.after, trial.before),
    };
    // What each carried beside fewer others it would carry again, at the least where that was full as well.
    let wide = of_fewer / f64::from(fewer.max(1)) * f64::from(more);
    let mut advice = vec![Advice::new(format!("widen {}: all hosts wait for it", end.words()), Some(wide))];
    match trial.outcome {
        TrialOutcome::Nothing => {
            let action = format!("add no host: {} move as much as {more}", counted(fewer.into(), "host"));
            advice.push(Advice::new(action, Some(of_fewer.min(of_more))));
        }
        _ => advice.push(Advice::new(
            format!(
                "add no host: the last took from the others what {} now share",
                counted(more.into(), "host")
            ),
            None,
        )),
    }
    advice
}

/// What to do about a slow host: to mend it brings what it lacks, and to take it out costs what it carries.
fn about(odd: &Outlier, verdict: &FleetVerdict) -> Vec<Advice> {
    let by = match odd.limit {
        Some(limit) => format!("is held by {limit}"),
        None => "does not say what holds it".to_owned(),
    };
    let is_shared = matches!(verdict.hold, FleetHold::Shared(_));
    let mended = verdict.rate.filter(|_| !is_shared).map(|all| all + odd.peers_rate - odd.rate);
    let action = format!("mend {}: it is slower than its peers and {by}", odd.host);
    let mut advice = vec![Advice::new(action, mended)];
    if odd.rate < OUT * odd.peers_rate {
        let without = verdict.rate.map(|all| if is_shared { all } else { all - odd.rate });
        let action = format!("or take {} out: it would hold the last batches longest", odd.host);
        advice.push(Advice::new(action, without));
    }
    advice
}

/// How to find out what is not known.
fn try_it(known: &Known<'_>) -> Option<Advice> {
    let (_, who) = known.last.as_ref()?;
    let host = |place: &usize| &known.timeline.hosts[*place];
    // The setting counts workers.
    let here = |place: &usize| host(place).workers.iter().filter(|worker| worker.is_here).count();
    let is_one_each = who.iter().all(|place| here(place) <= 1);
    let action = match who.as_slice() {
        [] => return None,
        [one] => format!(
            "start a worker on a second host: whether {} is limited by itself shows when another works \
             beside it",
            host(one).name
        ),
        all if is_one_each => format!(
            "try it: weir fleet set --workers {} for half a minute, and then as before, shows whether the \
             rest carry more without the others",
            all.len().div_ceil(2)
        ),
        _ => "try it: stop the workers of some hosts for half a minute, and start them again: whether the \
              rest carry more without them tells"
            .to_owned(),
    };
    Some(Advice::new(action, None))
}
