//! A scenario's outcome, as lines for people and as a member of the record.

use std::time::Duration;

use serde_json::{Value, json};
use weir_lab::run::{FigureCheck, LimitCheck, RunFindings, ScenarioOutcome, ThenOutcome};
use weir_lab::scenario::{Scenario, Side};
use weir_model::verdict::MainLimit;
use weir_report::foretold;
use weir_report::schema::VerdictRecord;
use weir_units::Rate;

/// How one scenario ended.
pub enum Row {
    /// It ran.
    Ran(Box<ScenarioOutcome>),
    /// This machine or user does not allow it, and why.
    Skipped(String),
    /// It went wrong before it could be judged.
    Failed(String),
}

impl Row {
    /// In one word.
    pub fn word(&self) -> &'static str {
        match self {
            Row::Ran(outcome) if outcome.holds() => "ok",
            Row::Ran(outcome) if outcome.late().is_some() => "late",
            Row::Ran(_) => "wrong",
            Row::Skipped(_) => "skipped",
            Row::Failed(_) => "failed",
        }
    }
}

/// For people: a head, then one line for each thing that was expected.
pub fn lines(scenario: &Scenario, row: &Row) -> Vec<String> {
    let mut lines = vec![
        format!("{:<4} {}: {}", scenario.name, scenario.title, row.word()),
        format!("     published  {}", scenario.published),
    ];
    match row {
        Row::Ran(outcome) => lines.extend(outcome_lines(outcome)),
        Row::Skipped(why) | Row::Failed(why) => lines.push(format!("     {why}")),
    }
    lines
}

fn outcome_lines(outcome: &ScenarioOutcome) -> Vec<String> {
    let mut lines: Vec<String> = outcome.figures.iter().map(figure_line).collect();
    lines.extend(outcome.seen.late.map(late_line));
    lines.extend(outcome.limits.iter().map(|check| limit_line(check, &outcome.seen)));
    if let Some(then) = &outcome.then {
        lines.push(then_line(then));
        lines.extend(outcome_lines(&then.outcome).into_iter().map(|line| format!("  {line}")));
    }
    lines
}

/// Said of a run whatever came of it.
fn late_line(late: Duration) -> String {
    format!(
        "     the emulated path was {:.1} ms late on each round trip, for lack of a processor: run it again on an idle machine",
        1000.0 * late.as_secs_f64()
    )
}

fn figure_line(check: &FigureCheck) -> String {
    let of = check.figure.of;
    let expected = format!("{} ± {:.0} %", of.show(check.figure.expected), check.figure.within * 100.0);
    let seen = check.seen.map_or("not measured".to_owned(), |seen| of.show(seen));
    columns(of.name(), &expected, &seen, check.holds())
}

fn limit_line(check: &LimitCheck, seen: &RunFindings) -> String {
    let names: Vec<&str> = check.expected.iter().map(|limit| limit.name()).collect();
    let named = check.seen.map_or("no verdict", MainLimit::name);
    let mut words = named.to_owned();
    // What is wrong is told with its shares.
    if let Some(verdict) = seen.verdicts.get(&check.side).filter(|_| !check.holds()) {
        let shares = verdict.shares.iter().filter(|(_, share)| **share >= 0.1);
        let shares: Vec<String> =
            shares.map(|(limit, share)| format!("{limit} {:.0} %", share * 100.0)).collect();
        words = format!("{named} ({})", shares.join(", "));
    }
    columns(&format!("limit, {}", who(check.side)), &names.join(" or "), &words, check.holds())
}

fn who(side: Side) -> &'static str {
    match side {
        Side::Sender => "by the sender",
        Side::Receiver => "by the receiver",
        Side::Weir => "by weir",
    }
}

fn then_line(then: &ThenOutcome) -> String {
    let predicted = then.predicted.map_or("nothing".to_owned(), |rate| Rate(rate).to_string());
    let missed = |predicted| format!(", {}", foretold::of_rate(predicted, then.achieved));
    let missed = then.predicted.map(missed).unwrap_or_default();
    let verdict = word(then.holds());
    format!(
        "     then {}: predicted {predicted} (by {}), achieved {}{missed}  {verdict}",
        then.what,
        then.by,
        Rate(then.achieved)
    )
}

fn columns(what: &str, expected: &str, seen: &str, holds: bool) -> String {
    format!("     {what:<23} expected {expected:<27} seen {seen:<20} {}", word(holds))
}

fn word(holds: bool) -> &'static str {
    if holds { "ok" } else { "wrong" }
}

/// For `--json`.
pub fn member(scenario: &Scenario, row: &Row) -> Value {
    let mut member = json!({
        "name": scenario.name,
        "title": scenario.title,
        "published": scenario.published,
        "law": scenario.law,
        "outcome": row.word(),
    });
    let more = match row {
        Row::Ran(outcome) => json!({ "run": outcome_member(outcome) }),
        Row::Skipped(why) | Row::Failed(why) => json!({ "why": why }),
    };
    if let (Some(member), Value::Object(more)) = (member.as_object_mut(), more) {
        member.extend(more);
    }
    member
}

fn outcome_member(outcome: &ScenarioOutcome) -> Value {
    let figures = outcome.figures.iter().map(|check| {
        json!({
            "of": check.figure.of.name(),
            "expected": check.figure.expected,
            "within": check.figure.within,
            "seen": check.seen,
            "ok": check.holds(),
        })
    });
    let limits = outcome.limits.iter().map(|check| {
        json!({
            "side": check.side.name(),
            "expected": check.expected,
            "seen": check.seen.map(MainLimit::name),
            "ok": check.holds(),
        })
    });
    let verdicts = outcome.seen.verdicts.iter().map(|(side, verdict)| {
        (side.name().to_owned(), serde_json::to_value(VerdictRecord::from(verdict)).unwrap_or_default())
    });
    json!({
        "bytes": outcome.seen.bytes,
        "seconds": outcome.seen.seconds,
        "late_seconds": outcome.seen.late.map(|late| late.as_secs_f64()),
        "values": outcome.seen.values,
        "figures": figures.collect::<Vec<_>>(),
        "limits": limits.collect::<Vec<_>>(),
        "verdicts": verdicts.collect::<serde_json::Map<_, _>>(),
        "then": outcome.then.as_ref().map(|then| json!({
            "what": then.what,
            "predicted": then.predicted,
            "by": then.by,
            "achieved": then.achieved,
            "error": then.error(),
            "within": then.within,
            "ok": then.holds(),
            "run": outcome_member(&then.outcome),
        })),
    })
}
