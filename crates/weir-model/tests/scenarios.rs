//! Each file under `scenarios/` holds a run's facts and intervals and what must be said of it. A bug report
//! becomes a file.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Deserialize;
use weir_model::evidence::{Evidence, Facts, Interval, Trial};
use weir_model::limit::Limit;
use weir_model::rule::{RULES, Side};
use weir_model::verdict::{MainLimit, Phase, Verdict, explain};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    #[allow(dead_code, reason = "for the reader of the file")]
    about: String,
    facts: Facts,
    #[serde(default)]
    trials: Vec<Trial>,
    /// Runs of equal intervals; their places in time follow from their spans.
    stretches: Vec<Stretch>,
    expect: Expect,
}

#[derive(Deserialize)]
struct Stretch {
    windows: usize,
    window: Interval,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    limit: Option<MainLimit>,
    /// The least share of that limit.
    #[serde(default)]
    share: f64,
    /// The least share of these limits.
    #[serde(default)]
    share_of: BTreeMap<Limit, f64>,
    /// Limits that must hold no interval.
    #[serde(default)]
    not: Vec<Limit>,
    /// Texts that must occur.
    #[serde(default)]
    says: Vec<String>,
    #[serde(default)]
    missing: Vec<String>,
    #[serde(default)]
    innocent: Vec<Limit>,
    /// The limits in order of time, where each holds a tenth of the run or more.
    #[serde(default)]
    phases: Vec<Limit>,
    advice: Option<Vec<String>>,
    /// Bounds of the first predicted rate.
    predicted: Option<(f64, f64)>,
    /// No advice has a rate.
    #[serde(default)]
    unpromised: bool,
    /// Limits that must not be ruled out.
    #[serde(default)]
    open: Vec<Limit>,
}

impl Scenario {
    fn evidence(&self) -> Evidence {
        let mut intervals = Vec::new();
        let mut at = 0.0;
        for stretch in &self.stretches {
            for _ in 0..stretch.windows {
                intervals.push(Interval { at, ..stretch.window.clone() });
                at += stretch.window.span.as_secs_f64();
            }
        }
        Evidence { intervals, trials: self.trials.clone(), facts: self.facts.clone() }
    }
}

fn check(expect: &Expect, verdict: &Verdict) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut demand = |holds: bool, what: String| {
        if !holds {
            wrong.push(what);
        }
    };
    let share = |limit: &Limit| verdict.shares.get(limit).copied().unwrap_or(0.0);
    demand(verdict.limit == expect.limit, format!("limit {:?}, not {:?}", expect.limit, verdict.limit));
    if let Some(MainLimit::One(limit)) = expect.limit {
        demand(share(&limit) >= expect.share - 1e-9, format!("{limit} for {} of the time", expect.share));
    }
    for (limit, least) in &expect.share_of {
        demand(share(limit) >= least - 1e-9, format!("{limit} for {least} of the time"));
    }
    for limit in &expect.not {
        demand(share(limit) == 0.0, format!("no window of {limit}"));
    }
    let contains = |texts: &[String], part: &str| texts.iter().any(|text| text.contains(part));
    for part in &expect.says {
        demand(contains(&verdict.evidence, part), format!("evidence '{part}'"));
    }
    for part in &expect.missing {
        demand(contains(&verdict.missing, part), format!("missing '{part}'"));
    }
    let ruled_out =
        |limit: &Limit| verdict.innocent.iter().any(|text| text.starts_with(&format!("{limit}: ")));
    for limit in &expect.innocent {
        demand(ruled_out(limit), format!("{limit} innocent"));
    }
    for limit in &expect.open {
        demand(!ruled_out(limit), format!("{limit} not ruled out"));
    }
    if !expect.phases.is_empty() {
        let long = |phase: &&Phase| share(&phase.limit) >= 0.1;
        let mut order: Vec<Limit> = verdict.phases.iter().filter(long).map(|phase| phase.limit).collect();
        order.dedup();
        demand(order == expect.phases, format!("phases {:?}, not {order:?}", expect.phases));
    }
    let actions: Vec<String> = verdict.advice.iter().map(|advice| advice.action.clone()).collect();
    match &expect.advice {
        Some(parts) if parts.is_empty() => demand(actions.is_empty(), "no advice".to_owned()),
        Some(parts) => {
            for part in parts {
                demand(contains(&actions, part), format!("advice '{part}'"));
            }
        }
        None => {}
    }
    let promised = verdict.advice.iter().any(|advice| advice.predicted_rate.is_some());
    demand(!(expect.unpromised && promised), "no rate promised".to_owned());
    if let Some((least, most)) = expect.predicted {
        let predicted = verdict.advice.iter().find_map(|advice| advice.predicted_rate);
        let within = predicted.is_some_and(|rate| (least..=most).contains(&rate));
        demand(within, format!("a prediction within {least} to {most}, not {predicted:?}"));
    }
    wrong
}

fn scenarios() -> Vec<(String, Scenario)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
        .into_iter()
        .map(|file| {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&file).unwrap();
            let scenario = serde_json::from_str(&text).unwrap_or_else(|err| panic!("{name}: {err}"));
            (name, scenario)
        })
        .collect()
}

#[test]
fn every_scenario_gets_its_verdict() {
    let mut failures = String::new();
    for (name, scenario) in scenarios() {
        let verdict = explain(&scenario.evidence());
        let wrong = check(&scenario.expect, &verdict);
        if !wrong.is_empty() {
            failures += &format!("\n{name}: expected {}\n{verdict:#?}\n", wrong.join("; "));
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn every_rule_has_a_guilty_and_an_innocent_file() {
    let names: Vec<String> = scenarios().into_iter().map(|(name, _)| name).collect();
    for rule in RULES {
        let sender = rule.side == Side::Sender;
        let of_rule = || {
            let own = names.iter().filter(|name| name.starts_with(&format!("{}.", rule.limit)));
            own.filter(|name| name.contains(".sender.") == sender)
        };
        let (limit, side) = (rule.limit, rule.side);
        assert!(of_rule().any(|name| name.contains("innocent")), "{limit}, {side:?}: no innocent file");
        assert!(of_rule().any(|name| !name.contains("innocent")), "{limit}, {side:?}: no guilty file");
    }
}

#[test]
fn evidence_and_verdicts_survive_json() {
    for (name, scenario) in scenarios() {
        let evidence = scenario.evidence();
        let text = serde_json::to_string(&evidence).unwrap();
        let again: Evidence = serde_json::from_str(&text).unwrap();
        assert_eq!(explain(&again).evidence, explain(&evidence).evidence, "{name}");
        let verdict = Verdict { intervals: Vec::new(), grounds: None, ..explain(&evidence) };
        let again: Verdict = serde_json::from_str(&serde_json::to_string(&verdict).unwrap()).unwrap();
        assert_eq!(again.limit, verdict.limit, "{name}");
    }
}

/// Everything that a verdict can say, by these scenarios: each form of a sentence once, with its first
/// numbers, below the scenario that has it first. A sentence that was reworded shows in the difference.
#[test]
fn the_sentences_of_verdicts() {
    let (mut told, mut text) = (BTreeSet::new(), String::new());
    for (name, scenario) in scenarios() {
        let verdict = explain(&scenario.evidence());
        let advice = verdict.advice.iter().map(|advice| &advice.action);
        let lists: [(&str, Vec<&String>); 5] = [
            ("evidence", verdict.evidence.iter().collect()),
            ("ruled out", verdict.innocent.iter().collect()),
            ("not visible", verdict.not_visible.iter().collect()),
            ("missing", verdict.missing.iter().collect()),
            ("advice", advice.collect()),
        ];
        let lines =
            lists.iter().flat_map(|(kind, list)| list.iter().map(move |said| format!("  {kind}: {said}\n")));
        let fresh: String = lines.filter(|line| told.insert(form(line))).collect();
        if !fresh.is_empty() {
            text += &format!("{name}\n{fresh}");
        }
    }
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(text) });
}

/// A sentence without its numbers and their units.
fn form(sentence: &str) -> String {
    let words = sentence.split_whitespace();
    let units = ["B", "KB", "MB", "GB", "B/s", "KB/s", "MB/s", "GB/s", "ns", "µs", "us", "ms", "s", "%"];
    let kept = words.map(|word| {
        let bare = word.trim_matches(|mark| "(),;:".contains(mark));
        if bare.starts_with(|first: char| first.is_ascii_digit()) { "#" } else { bare }
    });
    kept.filter(|word| !units.contains(word)).collect::<Vec<_>>().join(" ")
}
