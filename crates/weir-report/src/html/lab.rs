//! Scenarios of the lab: what each had to show, what it showed, and what the advice brought.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::chart::bars::{self, Bar};
use super::chart::shares;
use super::figure::Table;
use super::limits;
use super::markup::Markup;
use super::scale::sane;
use super::words::{bytes, count, percent, rate, short, time};
use crate::foretold;
use crate::schema::VerdictRecord;

/// Scenarios on a page, at most.
const MOST: usize = 100;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Lab {
    scenarios: Vec<Scenario>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Scenario {
    name: String,
    title: String,
    published: Option<String>,
    law: Option<String>,
    outcome: String,
    why: Option<String>,
    run: Option<Played>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Played {
    figures: Vec<Check>,
    limits: Vec<Side>,
    /// By how much the emulated path was late on each round trip.
    late_seconds: Option<f64>,
    verdicts: BTreeMap<String, VerdictRecord>,
    then: Option<Then>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Check {
    of: String,
    expected: f64,
    within: f64,
    seen: Option<f64>,
    ok: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Side {
    side: String,
    expected: Vec<String>,
    seen: Option<String>,
    ok: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Then {
    what: String,
    predicted: Option<f64>,
    by: String,
    achieved: Option<f64>,
    within: Option<f64>,
    ok: Option<bool>,
    run: Option<Box<Played>>,
}

/// A column name for each cell of a check.
const HEAD: [&str; 4] = ["check", "expected", "seen", ""];

/// Writes each scenario.
pub fn render(page: &mut Markup, value: &Value) -> Result<(), serde_json::Error> {
    let lab = Lab::deserialize(value)?;
    for scenario in lab.scenarios.iter().take(MOST) {
        page.within("div", &[("class", "card")], |page| {
            page.leaf(
                "h3",
                &[],
                &format!(
                    "{}: {} ({})",
                    short(&scenario.name, 40),
                    scenario.title,
                    short(&scenario.outcome, 20)
                ),
            );
            scenario.published.iter().for_each(|words| page.leaf("p", &[], &format!("Published: {words}")));
            scenario.law.iter().for_each(|words| page.leaf("p", &[], &format!("The law: {words}")));
            scenario.why.iter().for_each(|words| page.leaf("p", &[], words));
            if let Some(run) = &scenario.run {
                checks(page, run, &short(&scenario.name, 40));
            }
        });
        scenario.run.iter().for_each(|run| pictures(page, run));
    }
    Ok(())
}

/// What the run had to show, and what the changed one behind it.
fn checks(page: &mut Markup, run: &Played, name: &str) {
    let mut table = Table::new(&HEAD);
    rows(&mut table, run);
    table.rows.extend(run.then.as_ref().map(then_row));
    table.render(page, &format!("Checks of {name}"));
    late(page, run);
    if let Some(after) = run.then.as_ref().and_then(|then| then.run.as_deref()) {
        let mut table = Table::new(&HEAD);
        rows(&mut table, after);
        table.render(page, &format!("Checks of {name}, changed"));
        late(page, after);
    }
}

fn late(page: &mut Markup, run: &Played) {
    if let Some(seconds) = run.late_seconds {
        let why = "for lack of a processor: run it again on an idle machine";
        let words = format!("The emulated path was {} late on each round trip, {why}.", time(seconds));
        page.leaf("p", &[("class", "notice")], &words);
    }
}

fn word(ok: bool) -> String {
    if ok { "ok" } else { "wrong" }.to_owned()
}

/// How far off a figure may be.
fn tolerance(within: f64) -> String {
    format!("± {:.0} %", (within * 100.0).clamp(0.0, 1e4))
}

fn rows(table: &mut Table, run: &Played) {
    for check in run.figures.iter().take(50) {
        let amount = |value: f64| figure(&check.of, value);
        table.row([
            check.of.replace('-', " "),
            format!("{} {}", amount(check.expected), tolerance(check.within)),
            check.seen.map_or("–".to_owned(), amount),
            word(check.ok),
        ]);
    }
    for side in run.limits.iter().take(20) {
        let expected: Vec<String> = side.expected.iter().take(10).map(|limit| limits::title(limit)).collect();
        let seen = side.seen.as_deref().map_or("–".to_owned(), limits::title);
        table.row([
            format!("limit at the {}", short(&side.side, 12)),
            expected.join(" or "),
            seen,
            word(side.ok),
        ]);
    }
}

/// What the change was predicted to bring beside what it brought.
fn then_row(then: &Then) -> Vec<String> {
    let mut predicted = then.predicted.map_or("no prediction".to_owned(), rate);
    if !then.by.is_empty() {
        predicted.push_str(&format!(" (by {})", short(&then.by, 20)));
    }
    if let Some(within) = then.within {
        predicted.push_str(&format!(" {}", tolerance(within)));
    }
    let mut achieved = then.achieved.map_or("–".to_owned(), rate);
    if let Some((predicted, reached)) = then.predicted.zip(then.achieved) {
        achieved.push_str(&format!("; {}", foretold::of_rate(predicted, reached)));
    }
    let ok = then.ok.map_or_else(String::new, word);
    vec![format!("then {}", short(&then.what, 80)), predicted, achieved, ok]
}

/// A figure as `weir lab` itself shows it: its name says what it is.
fn figure(of: &str, value: f64) -> String {
    match of {
        "rate" | "rate-before-knee" | "rate-after-knee" | "written" | "on-disk" => rate(value),
        "seconds" | "round-trip" => time(value),
        "knee-bytes" => bytes(sane(value) as u64),
        "busy" => percent(value),
        "gain" => format!("{:.2} ×", sane(value)),
        _ => count(value),
    }
}

fn pictures(page: &mut Markup, run: &Played) {
    if let Some(then) = &run.then {
        let before = run.figures.iter().find(|check| check.of == "rate").and_then(|check| check.seen);
        let known = [("before", before), ("predicted", then.predicted), ("achieved", then.achieved)];
        let known = known.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let bars: Vec<Bar> = known
            .map(|(name, value)| Bar { name: name.to_owned(), value, words: rate(value), fill: None })
            .collect();
        bars::render(page, "What the advice brought", &then.what, &bars, Table::default());
    }
    for (side, verdict) in run.verdicts.iter().take(4) {
        page.leaf("p", &[("class", "eyebrow")], &format!("As the {} saw it:", short(side, 12)));
        shares::render(page, verdict);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_their_units_and_their_decimals() {
        for (of, value, text) in [
            ("rate", 12.5e6, "12.5 MB/s"),
            ("rate-before-knee", 310e6, "310 MB/s"),
            ("rate-after-knee", 30e6, "30.0 MB/s"),
            ("written", 1e6, "1.00 MB/s"),
            ("on-disk", 0.0, "0 B/s"),
            ("seconds", 2.5, "2.50 s"),
            ("round-trip", 0.0204, "20.4 ms"),
            ("knee-bytes", 600e6, "600 MB"),
            ("busy", 0.97, "97 %"),
            ("gain", 1.46, "1.46 ×"),
            ("error-pages", 3.0, "3"),
            ("exit-code", 8.0, "8"),
        ] {
            assert_eq!(figure(of, value), text, "{of}");
        }
    }

    #[test]
    fn what_the_change_brought_is_checked_on_the_page() {
        let check = |of: &str, seen: f64| serde_json::json!({ "of": of, "expected": 1.5, "within": 0.1, "seen": seen, "ok": true });
        let after = serde_json::json!({ "figures": [check("gain", 1.46)], "late_seconds": 0.002 });
        let then = serde_json::json!({
            "what": "more streams", "predicted": 2e6, "by": "advice", "achieved": 1e6, "error": 1.0, "within": 0.25,
            "ok": false, "run": after,
        });
        let run =
            serde_json::json!({ "figures": [check("seconds", 1.5)], "late_seconds": 0.001, "then": then });
        let lab = serde_json::json!({ "scenarios": [{ "name": "b1", "outcome": "late", "run": run }] });
        let mut page = Markup::default();
        render(&mut page, &lab).unwrap();
        let text = page.into_text();
        for part in [
            "Checks of b1",
            "1.0 ms late on each round trip",
            "then more streams",
            "2.00 MB/s (by advice) ± 25 %",
            "1.00 MB/s; 50 % slower than predicted",
            "wrong",
            "Checks of b1, changed",
            "1.46 ×",
            "2.0 ms late",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
