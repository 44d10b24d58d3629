//! The verdict on a fleet in words.

use super::{FleetHold, FleetTrial, FleetVerdict, SharedEnd, TrialChange};
use crate::verdict::MainLimit;
use crate::words::{percent, rate};
use weir_units::counted;

impl FleetVerdict {
    /// The verdict in sentences, most important first: what holds where that is known, all of the evidence,
    /// all advice, and all that could not be told.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.holds().into_iter().collect();
        lines.extend(self.evidence.iter().cloned());
        for advice in &self.advice {
            let brings = advice.predicted_rate.map(|predicted| format!(": about {}", rate(predicted)));
            lines.push(format!("advice: {}{}", advice.action, brings.unwrap_or_default()));
        }
        lines.extend(self.missing.iter().map(|why| format!("not known: {why}")));
        lines
    }

    /// What holds in one sentence; `None`: nothing can be told.
    fn holds(&self) -> Option<String> {
        let sure = percent(self.confidence);
        let by = self.limit.map(|limit| match limit {
            MainLimit::One(limit) => format!("hosts are held by {limit}, confidence {sure}"),
            MainLimit::Mixed => format!("several limits hold the hosts, confidence {sure}"),
        });
        let sure = percent(self.hold_confidence);
        let together = match self.hold {
            FleetHold::Own => Some(format!("each is limited by itself, confidence {sure}")),
            FleetHold::Shared(end) => Some(format!("{} holds all of them, confidence {sure}", end.words())),
            FleetHold::Unknown => None,
        };
        match (by, together) {
            (Some(by), Some(together)) => Some(format!("{by}; {together}")),
            (by, together) => by.or(together),
        }
    }
}

impl SharedEnd {
    /// As a noun.
    pub fn words(self) -> &'static str {
        match self {
            SharedEnd::Source => "the source",
            SharedEnd::Target => "the target",
            SharedEnd::Link => "the link that they share",
            SharedEnd::SourceOrLink => "the source or the path to it",
            SharedEnd::TargetOrLink => "the target or the path to it",
            SharedEnd::Machine => "the machine under them",
            SharedEnd::Unnamed => "something that they share",
        }
    }
}

/// Names of hosts: all of few, some of many.
pub(super) fn named(names: &[impl AsRef<str>]) -> String {
    const NAMED: usize = 5;
    let some: Vec<&str> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(NAMED) {
        0 => some.join(", "),
        more => format!("{} and {more} more", some.join(", ")),
    }
}

/// Numbers with units, most important first.
pub(super) fn evidence_lines(verdict: &FleetVerdict) -> Vec<String> {
    let mut lines = Vec::new();
    let mut shares: Vec<_> = verdict.shares.iter().filter(|(_, share)| **share >= 0.05).collect();
    shares.sort_by(|one, other| other.1.total_cmp(one.1));
    if !shares.is_empty() {
        let shares: Vec<String> =
            shares.iter().map(|(by, share)| format!("{by} {}", percent(**share))).collect();
        lines.push(format!("of the hosts' time: {}", shares.join(", ")));
    }
    if let Some(trial) = &verdict.trial {
        lines.push(trial_line(trial));
    }
    for odd in &verdict.outliers {
        let by = odd.limit.map_or("it does not say what holds it".to_owned(), |by| format!("held by {by}"));
        let peers = odd.peers_limit.map(|limit| format!(", which are held by {limit}")).unwrap_or_default();
        lines.push(format!(
            "{} moves {}, the median of its {} {}{peers}; {by}, over {}",
            odd.host,
            rate(odd.rate),
            counted(odd.peers.into(), "peer"),
            rate(odd.peers_rate),
            counted(odd.intervals.into(), "interval"),
        ));
    }
    lines
}

fn trial_line(trial: &FleetTrial) -> String {
    let did = match trial.change {
        TrialChange::Joined => "joined",
        TrialChange::Left => "left",
    };
    format!(
        "when {} {did}, the {} beside them went from {} to {} and all together from {} to {} \
         ({} and {} intervals)",
        named(&trial.hosts),
        counted(trial.others.into(), "host"),
        rate(trial.others_before),
        rate(trial.others_after),
        rate(trial.before),
        rate(trial.after),
        trial.intervals.0,
        trial.intervals.1,
    )
}
