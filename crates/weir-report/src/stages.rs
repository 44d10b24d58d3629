//! The stages of a pipeline with their loads: what the page of a run and the live view both draw.
//!
//! A load is the share of a stage's ceiling in use ([`weir_model::loads`]); what held is the verdict's. Here
//! both become one list in the order in which bytes pass the stages. How it is drawn is each picture's own.

use std::collections::BTreeMap;

use crate::figures::{percent, sane};
use crate::schema::{LoadRecord, VerdictRecord};

/// Stages in the order in which bytes pass them, each with the limits that it can be.
const STAGES: [(&str, &[&str]); 8] = [
    ("Source", &["application", "rate-limit", "source-disk", "upstream"]),
    ("Pack", &["compress", "encrypt"]),
    ("Send", &["send-buffer", "nagle"]),
    (
        "Path",
        &[
            "path-bandwidth",
            "path-loss",
            "latency",
            "request-response",
            "timeouts",
            "path-mtu",
            "connect",
            "dns",
            "sender-or-path",
        ],
    ),
    ("Receive", &["receive-window", "reader", "protocol-window", "think-time", "downstream"]),
    ("Core", &["cpu-core"]),
    ("Unpack", &["decompress", "verify"]),
    ("Store", &["dirty-throttle", "disk", "memory"]),
];

/// A share of the time below which a limit did not hold the run in any way worth a mark.
pub const HELD: f64 = 0.1;

/// A stage of the pipeline as pictures show it.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// `Path`.
    pub name: &'static str,
    /// Which of its limits is shown: the one that held longest, else the fullest.
    pub limit: String,
    /// Share of the time that its limits held.
    pub held: f64,
    /// The load of what is shown.
    pub load: Option<f64>,
    /// What it would carry.
    pub ceiling: Option<f64>,
    /// What the load is of; or why there is none.
    pub basis: String,
}

/// The stages that these loads and this verdict tell of, in the order in which bytes pass them.
pub fn stages(loads: &[LoadRecord], verdict: &VerdictRecord) -> Vec<Stage> {
    if verdict.held().is_none_or(BTreeMap::is_empty) && loads.is_empty() {
        return Vec::new();
    }
    STAGES.iter().filter_map(|(name, limits)| stage(name, limits, loads, verdict)).collect()
}

fn stage(
    name: &'static str,
    limits: &[&str],
    loads: &[LoadRecord],
    verdict: &VerdictRecord,
) -> Option<Stage> {
    let share = |limit: &str| {
        verdict.held().and_then(|shares| shares.get(limit)).map_or(0.0, |share| sane(*share).min(1.0))
    };
    let load = |limit: &str| loads.iter().find(|load| load.limit == limit);
    let held: f64 = limits.iter().map(|limit| share(limit)).sum::<f64>().min(1.0);
    let loaded = |limit: &str| load(limit).map_or(-1.0, |load| sane(load.load).min(1.0));
    let longest =
        limits.iter().filter(|limit| share(limit) > 0.0).max_by(|a, b| share(a).total_cmp(&share(b)));
    let fullest =
        limits.iter().filter(|limit| load(limit).is_some()).max_by(|a, b| loaded(a).total_cmp(&loaded(b)));
    let said = |lines: &[String], limit: &str| {
        lines.iter().find_map(|line| line.strip_prefix(limit)?.strip_prefix(": ").map(str::to_owned))
    };
    let told =
        |limit: &&&str| said(&verdict.innocent, limit).is_some() || said(&verdict.missing, limit).is_some();
    let limit = longest.or(fullest).or_else(|| limits.iter().find(told))?;
    let basis = load(limit).map(|load| load.basis.clone());
    let basis = basis.or_else(|| said(&verdict.innocent, limit)).or_else(|| said(&verdict.missing, limit));
    // A stage between two that were measured, whose limits are only known to be innocent, is no picture's
    // business.
    if held == 0.0 && load(limit).is_none() && matches!(name, "Pack" | "Unpack" | "Send") {
        return None;
    }
    Some(Stage {
        name,
        limit: (*limit).to_owned(),
        held,
        load: load(limit).map(|load| sane(load.load).min(1.0)),
        ceiling: load(limit).and_then(|load| load.ceiling).map(sane).filter(|rate| *rate > 0.0),
        basis: basis.unwrap_or_else(|| "not measured".to_owned()),
    })
}

impl Stage {
    /// How narrow it was: its load, or the share of the time that it held.
    pub(crate) fn narrowness(&self) -> Option<f64> {
        // Who waits for data waits for whatever held them: no stage's own load.
        if self.limit == "sender-or-path" {
            return Some(self.held);
        }
        let held = (self.held > 0.0).then_some(self.held);
        if self.held >= HELD { Some(self.load.unwrap_or(0.0).max(self.held)) } else { self.load.or(held) }
    }

    /// `held 82 %`, `30 % in use`.
    pub fn words(&self) -> String {
        match (self.held >= HELD, self.load) {
            (true, _) => format!("held {}", percent(self.held)),
            (false, None) if self.held > 0.0 => format!("held {}", percent(self.held)),
            (false, Some(load)) if self.limit == "sender-or-path" => format!("awaited {}", percent(load)),
            (false, Some(load)) => format!("{} in use", percent(load)),
            (false, None) => "not measured".to_owned(),
        }
    }
}

/// The stage that held longest, if one did.
pub(crate) fn narrowest(stages: &[Stage]) -> Option<usize> {
    let held = stages.iter().enumerate().filter(|(_, stage)| stage.held >= HELD);
    held.max_by(|a, b| a.1.held.total_cmp(&b.1.held)).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stage_that_held_is_the_narrowest() {
        let load = |limit: &str, load: f64, ceiling: Option<f64>| LoadRecord {
            limit: limit.into(),
            load,
            ceiling,
            basis: "b".into(),
        };
        let loads =
            [load("receive-window", 0.8, Some(1e6)), load("cpu-core", 0.05, None), load("disk", 0.3, None)];
        let verdict = VerdictRecord {
            limit: Some("receive-window".to_owned()),
            shares: [("receive-window".to_owned(), 0.74), ("latency".to_owned(), 0.26)].into(),
            innocent: vec!["application: first bytes came at once".into()],
            ..VerdictRecord::default()
        };
        let stages = stages(&loads, &verdict);
        let names: Vec<&str> = stages.iter().map(|stage| stage.name).collect();
        assert_eq!(names, ["Source", "Path", "Receive", "Core", "Store"]);
        assert_eq!(narrowest(&stages), Some(2));
        assert_eq!((stages[0].load, stages[0].basis.as_str()), (None, "first bytes came at once"));
        assert_eq!(stages[4].words(), "30 % in use");
        let brief = Stage { held: 0.05, load: None, ..stages[1].clone() };
        assert_eq!((brief.words().as_str(), brief.narrowness()), ("held 5 %", Some(0.05)));
        assert_eq!(Stage { held: 0.0, ..brief }.words(), "not measured");
        let unknown = super::stages(&loads, &VerdictRecord { limit: None, ..verdict });
        assert_eq!((narrowest(&unknown), unknown[1].words().as_str()), (None, "80 % in use"));
    }
}
