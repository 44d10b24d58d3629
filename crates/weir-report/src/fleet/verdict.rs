//! A fleet's verdict in sentences, and as the member `verdict` of a record.

use weir_model::fleet::{FleetHold, FleetVerdict, HeldBy, NO_WORK, NOT_JUDGED};
use weir_units::Rate;

use crate::figures::percent;
use crate::schema::{AdviceRecord, VerdictRecord};

/// Limits of all that are named.
const NAMED: usize = 4;

/// Evidence and advice that a screen has room for.
const LINES: usize = 3;

/// What holds the fleet and what to change, a fact a line; empty where nothing was told yet.
pub fn lines(verdict: &FleetVerdict) -> Vec<String> {
    if verdict.hosts.is_empty() {
        return Vec::new();
    }
    if verdict.shares.is_empty() {
        return verdict.missing.iter().take(LINES).map(|why| format!("not known: {why}")).collect();
    }
    let mut shares: Vec<_> = verdict.shares.iter().filter(|(_, share)| **share >= 0.01).collect();
    shares.sort_by(|a, b| b.1.total_cmp(a.1));
    let shares: Vec<String> = shares
        .iter()
        .take(NAMED)
        .map(|(held, share)| format!("{} {}", words(**held), percent(**share)))
        .collect();
    let by = match (verdict.limit, verdict.hold) {
        (_, FleetHold::Shared(end)) => format!("; {} holds all of them", end.words()),
        (Some(_), FleetHold::Own) => "; each is limited by itself".to_owned(),
        _ => String::new(),
    };
    let mut lines = vec![format!("held by: {}, of the hosts' time{by}", shares.join(", "))];
    lines.extend(verdict.evidence.iter().take(LINES).cloned());
    for advice in verdict.advice.iter().take(LINES) {
        let rate = advice.predicted_rate.map(|rate| format!(": about {}", Rate(rate))).unwrap_or_default();
        lines.push(format!("advice: {}{rate}", advice.action));
    }
    lines.extend(verdict.missing.iter().take(LINES).map(|why| format!("not known: {why}")));
    lines
}

fn words(held: HeldBy) -> String {
    match held.name() {
        NO_WORK => "no work".to_owned(),
        NOT_JUDGED => "not judged".to_owned(),
        name => name.to_owned(),
    }
}

impl From<&FleetVerdict> for VerdictRecord {
    fn from(verdict: &FleetVerdict) -> VerdictRecord {
        let mut evidence = verdict.evidence.clone();
        if let FleetHold::Shared(end) = verdict.hold {
            evidence.insert(0, format!("{} holds all hosts", end.words()));
        }
        VerdictRecord {
            limit: verdict.limit.map(|limit| limit.name().to_owned()),
            confidence: verdict.confidence,
            shares: verdict.shares.iter().map(|(held, share)| (words(*held), *share)).collect(),
            evidence,
            missing: verdict.missing.clone(),
            advice: (verdict.advice.iter())
                .map(|advice| AdviceRecord {
                    action: advice.action.clone(),
                    predicted_rate: advice.predicted_rate,
                })
                .collect(),
            ..VerdictRecord::default()
        }
    }
}
