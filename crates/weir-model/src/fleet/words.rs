//! The verdict on a fleet in words.

use super::{FleetTrial, FleetVerdict, SharedEnd, TrialChange};
use crate::words::{count, rate};

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
    let mut lines: Vec<String> = Vec::new();
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
            count(odd.peers.into(), "peer"),
            rate(odd.peers_rate),
            count(odd.intervals.into(), "interval"),
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
        "when {} {did}, the {} beside them went from {} to {} and all together from {} to {} ({} and {} intervals)",
        named(&trial.hosts),
        count(trial.others.into(), "host"),
        rate(trial.others_before),
        rate(trial.others_after),
        rate(trial.before),
        rate(trial.after),
        trial.intervals.0,
        trial.intervals.1,
    )
}
