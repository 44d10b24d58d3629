//! Several runs beside each other: their figures in one table, their rates in one picture, then each of them.

use std::collections::BTreeMap;

use super::axis::{self, Anchor};
use super::chart::bars::{self, Bar};
use super::chart::{gains, rate as over_time};
use super::figure::{Canvas, Figure, Table};
use super::markup::Markup;
use super::page::{eyebrow, heading, lead, notices, parts, section};
use super::scale::{Linear, top};
use super::words::{bytes, has_rate, is_of_bytes, percent, rate, short, time};
use super::{Run, limits, members};
use crate::join::{Joined, join};
use crate::schema::VerdictRecord;
use weir_units::counted;

/// The lines' classes; more runs than classes have no line in the picture.
const CLASSES: [&str; 4] = ["line", "line second", "line third", "line fourth"];

/// Of runs that measured, or brought nothing.
const NO_RATES: &str = "There are no two rates to compare: the figures of each run are below.";

/// Writes header and main part.
pub fn render(page: &mut Markup, runs: &[Run]) {
    page.within("header", &[("class", "top")], |page| {
        page.leaf("p", &[("class", "eyebrow")], "weir report");
        page.leaf("h1", &[], &format!("{} compared", counted(runs.len() as u64, "run")));
        page.leaf("p", &[("class", "lead")], &summary(runs));
    });
    page.within("main", &[], |page| {
        for joined in joined(runs) {
            section(page, "h2", "Both ends of one transfer", |page| both_ends(page, runs, &joined));
        }
        section(page, "h2", "Side by side", |page| {
            rates(page, runs);
            together(page, runs);
            page.within("div", &[("class", "card")], |page| {
                page.leaf("h3", &[], "Figures");
                table(runs).render(page, "Figures of the runs");
            });
        });
        page.within("div", &[("class", if runs.len() == 2 { "columns" } else { "rows" })], |page| {
            for (index, run) in runs.iter().enumerate() {
                page.within("article", &[], |page| {
                    page.leaf("h2", &[], &title(index, run, 60));
                    page.leaf(
                        "p",
                        &[("class", "eyebrow")],
                        &format!("{}: {}", eyebrow(&run.record), short(&heading(&run.record), 80)),
                    );
                    lead(page, &run.record);
                    notices(page, run);
                    parts(page, &run.record, "h3");
                });
            }
        });
    });
}

/// Pairs of these runs that are the two ends of one transfer.
fn joined(runs: &[Run]) -> Vec<Joined> {
    join(&runs.iter().map(|run| &run.record).collect::<Vec<_>>())
}

/// What both ends say together, and who says what.
fn both_ends(page: &mut Markup, runs: &[Run], joined: &Joined) {
    page.within("div", &[("class", "card")], |page| {
        page.leaf("p", &[], &joined.words[0]);
        page.within("ul", &[("class", "plain")], |page| {
            page.leaf("li", &[], &format!("sender: {}", title(joined.sender, &runs[joined.sender], 60)));
            page.leaf(
                "li",
                &[],
                &format!("receiver: {}", title(joined.receiver, &runs[joined.receiver], 60)),
            );
            for words in &joined.words[1..] {
                page.leaf("li", &[], words);
            }
        });
    });
}

/// `A: before.json`.
fn title(index: usize, run: &Run, most: usize) -> String {
    format!("{}: {}", letter(index), short(&run.name, most))
}

fn letter(index: usize) -> char {
    char::from(b'A' + (index % 26) as u8)
}

/// Of two: how the second did against the first, and against what the first one's advice had promised.
fn summary(runs: &[Run]) -> String {
    // Two ends are no before and after.
    if let Some(joined) = joined(runs).first().filter(|_| runs.len() == 2) {
        return format!("{}.", joined.words[0]);
    }
    let [first, second] = runs else {
        let rates: Vec<String> = runs
            .iter()
            .enumerate()
            .filter(|(_, run)| has_rate(&run.record))
            .map(|(index, run)| format!("{} {}", letter(index), rate(run.record.rate)))
            .collect();
        return if rates.len() > 1 { format!("{}.", rates.join(", ")) } else { NO_RATES.to_owned() };
    };
    let mut words = if has_rate(&first.record) && has_rate(&second.record) {
        let (a, b) = (first.record.rate, second.record.rate);
        format!("{} and {}: {} of the first.", rate(a), rate(b), gains::times(b, a))
    } else {
        NO_RATES.to_owned()
    };
    match (limit(first), limit(second)) {
        (Some(before), Some(after)) if before == after => {
            words.push_str(&format!(" Both were held by {}.", limits::title(before)));
        }
        (Some(before), Some(after)) => {
            words.push_str(&format!(
                " The first was held by {}, the second by {}.",
                limits::title(before),
                limits::title(after)
            ));
        }
        _ => {}
    }
    let advice = first
        .record
        .verdict
        .iter()
        .flat_map(|verdict| &verdict.advice)
        .find_map(|advice| advice.predicted_rate);
    if let Some(predicted) = advice {
        words.push_str(&format!(" The first one's advice had predicted {}.", rate(predicted)));
    }
    words
}

fn rates(page: &mut Markup, runs: &[Run]) {
    let bars: Vec<Bar> = (runs.iter().enumerate())
        .filter(|(_, run)| has_rate(&run.record))
        .map(|(index, run)| {
            let limit = limit(run);
            Bar {
                name: title(index, run, 40),
                value: run.record.rate,
                words: match limit {
                    Some(limit) => format!("{}, {}", rate(run.record.rate), limits::title(limit)),
                    None => rate(run.record.rate),
                },
                fill: limit.filter(|limit| *limit != "mixed").map(|limit| limits::look(limit).fill),
            }
        })
        .collect();
    let says = "The rate of each run, in the look of what held it.";
    bars::render(page, "Rates", says, &bars, Table::default());
}

/// A run's place among the others, and its rate over time.
type Line = (usize, Vec<over_time::Step>);

/// The rates over time in one picture.
fn together(page: &mut Markup, runs: &[Run]) {
    let of = |run: &Run| over_time::of(&run.record, 300);
    let all: Vec<Line> = (runs.iter().enumerate().take(CLASSES.len()))
        .filter(|(_, run)| has_rate(&run.record))
        .map(|(index, run)| (index, of(run)))
        .filter(|(_, steps)| !steps.is_empty())
        .collect();
    if all.len() < 2 {
        return;
    }
    let says = "The rates over time, each run from its own start.";
    let mut table = Table::new(&["run", "average", "time"]);
    for (index, run) in runs.iter().enumerate().filter(|(_, run)| has_rate(&run.record)) {
        table.row([title(index, run, 60), rate(run.record.rate), time(run.record.seconds)]);
    }
    let figure = Figure { title: "Rates over time", says, heights: (280.0, 220.0), table };
    figure.render_with(page, |page, canvas| draw(page, canvas, &all), |page| legend(page, runs, &all));
}

fn draw(page: &mut Markup, canvas: Canvas, all: &[Line]) {
    let frame = canvas.frame(80.0, 12.0, 22.0, 28.0);
    let steps = || all.iter().flat_map(|(_, steps)| steps);
    let end = steps().map(|step| step.to).fold(0.0, f64::max);
    let x = Linear::new((0.0, end), (frame.left, frame.right));
    let y = Linear::new((0.0, top(steps().map(|step| step.rate))), (frame.bottom, frame.top));
    let marks: Vec<(f64, String)> = y.ticks(4).into_iter().map(|value| (y.at(value), rate(value))).collect();
    axis::rows(page, frame, &marks);
    let marks: Vec<(f64, String)> = (x.ticks(if canvas.narrow { 4 } else { 10 }).into_iter())
        .map(|at| (x.at(at), format!("{} s", axis::seconds(at))))
        .collect();
    axis::columns(page, frame, canvas.width, &marks, false);
    for (index, steps) in all {
        let points: Vec<(f64, f64)> = steps
            .iter()
            .flat_map(|step| [(x.at(step.from), y.at(step.rate)), (x.at(step.to), y.at(step.rate))])
            .collect();
        axis::line(page, &points, CLASSES[*index]);
        if let Some((x, y)) = points.last() {
            axis::text(page, (x + 5.0, y + 4.0), Anchor::Start, "strong", &letter(*index).to_string());
        }
    }
}

fn legend(page: &mut Markup, runs: &[Run], all: &[Line]) {
    page.within("ul", &[("class", "legend")], |page| {
        for (index, _) in all {
            over_time::entry(page, CLASSES[*index], &title(*index, &runs[*index], 60));
        }
    });
}

fn verdict(run: &Run) -> Option<&VerdictRecord> {
    run.record.verdict.as_ref()
}

fn limit(run: &Run) -> Option<&str> {
    verdict(run)?.limit.as_deref()
}

/// A row for each figure that a run has, a column for each run.
fn table(runs: &[Run]) -> Table {
    let mut head = vec![String::new()];
    head.extend((0..runs.len()).map(|index| letter(index).to_string()));
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut add = |name: &str, cells: Vec<Option<String>>| {
        if cells.iter().any(Option::is_some) {
            let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| "–".to_owned()));
            rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
        }
    };
    let of = |cell: &dyn Fn(&Run) -> Option<String>| runs.iter().map(cell).collect::<Vec<_>>();
    add("rate", of(&|run| has_rate(&run.record).then(|| rate(run.record.rate))));
    add("time", of(&|run| Some(time(run.record.seconds))));
    add("moved", of(&|run| is_of_bytes(&run.record).then(|| bytes(run.record.bytes))));
    add("connections", of(&|run| run.record.connections.map(|count| count.to_string())));
    for (name, cells) in measured(runs) {
        add(name, cells);
    }
    add("limit", of(&|run| Some(limits::title(limit(run)?))));
    // How sure it is of no limit is no figure.
    let sure = |run: &Run| verdict(run).filter(|_| limit(run).is_some()).map(|verdict| verdict.confidence);
    add("confidence", of(&|run| Some(percent(sure(run)?.min(1.0)))));
    let mut names: Vec<&String> =
        runs.iter().filter_map(verdict).filter_map(VerdictRecord::held).flat_map(BTreeMap::keys).collect();
    names.sort();
    names.dedup();
    for name in names.into_iter().take(20) {
        let share = |run: &Run| verdict(run)?.held()?.get(name).map(|share| percent(*share));
        add(&format!("held by {}", limits::title(name)), of(&share));
    }
    add("device took", of(&|run| run.record.disk_rate.map(rate)));
    add("memory", of(&|run| run.record.peak_memory.map(bytes)));
    Table { head, rows, words: false }
}

/// What the commands themselves measured, as at the beginning of each one's own page.
fn measured(runs: &[Run]) -> Vec<(&'static str, Vec<Option<String>>)> {
    let all: Vec<_> = runs.iter().map(|run| members::facts(&run.record)).collect();
    let mut names: Vec<&'static str> = Vec::new();
    for (name, ..) in all.iter().flatten() {
        if !names.contains(name) {
            names.push(*name);
        }
    }
    let cell = |facts: &[(&str, String, String)], name: &str| {
        facts.iter().find(|(own, ..)| *own == name).map(|(_, value, _)| value.clone())
    };
    names.into_iter().map(|name| (name, all.iter().map(|facts| cell(facts, name)).collect())).collect()
}
