//! Scenarios of the lab: what each had to show, what it showed, and what the advice brought.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::chart::bars::{self, Bar};
use super::chart::shares;
use super::figure::Table;
use super::limits;
use super::markup::Markup;
use super::words::{rate, short};
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
    achieved: Option<f64>,
}

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
                checks(run).render(page, &format!("Checks of {}", short(&scenario.name, 40)));
            }
        });
        scenario.run.iter().for_each(|run| pictures(page, run));
    }
    Ok(())
}

fn checks(run: &Played) -> Table {
    let mut table = Table::new(&["check", "expected", "seen", ""]);
    let word = |ok: bool| if ok { "ok" } else { "wrong" }.to_owned();
    for check in run.figures.iter().take(50) {
        let amount = |value: f64| figure(&check.of, value);
        let expected =
            format!("{} ± {:.0} %", amount(check.expected), (check.within * 100.0).clamp(0.0, 1e4));
        table.row([
            check.of.replace('-', " "),
            expected,
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
    table
}

/// Figures are told by their names what they are.
fn figure(of: &str, value: f64) -> String {
    match of {
        "rate" | "written" | "on-disk" => rate(value),
        "seconds" | "round-trip" => super::words::time(value),
        "busy" => super::words::percent(value),
        _ => super::words::count(value),
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
