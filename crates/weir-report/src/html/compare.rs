//! Several runs beside each other: their figures in one table, their rates in one picture, then each of them.

use super::axis::{self, Anchor};
use super::chart::bars::{self, Bar};
use super::chart::{gains, rate as over_time};
use super::figure::{Canvas, Figure, Table};
use super::markup::Markup;
use super::page::{eyebrow, heading, lead, notices, parts, section};
use super::scale::{Linear, top};
use super::words::{bytes, percent, rate, short, time};
use super::{Run, limits};
use crate::join::{Joined, join};
use weir_units::counted;

/// The lines' classes; more runs than classes have no line in the picture.
const CLASSES: [&str; 4] = ["line", "line second", "line third", "line fourth"];

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
            .map(|(index, run)| format!("{} {}", letter(index), rate(run.record.rate)))
            .collect();
        return format!("{}.", rates.join(", "));
    };
    let limit = |run: &Run| run.record.verdict.as_ref().and_then(|verdict| verdict.limit.clone());
    let (a, b) = (first.record.rate, second.record.rate);
    let mut words = format!("{} and {}: {} of the first.", rate(a), rate(b), gains::times(b, a));
    match (limit(first), limit(second)) {
        (Some(before), Some(after)) if before == after => {
            words.push_str(&format!(" Both were held by {}.", limits::title(&before)));
        }
        (Some(before), Some(after)) => {
            words.push_str(&format!(
                " The first was held by {}, the second by {}.",
                limits::title(&before),
                limits::title(&after)
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
        .map(|(index, run)| {
            let limit = run.record.verdict.as_ref().and_then(|verdict| verdict.limit.as_deref());
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

/// The rates over time in one picture.
fn together(page: &mut Markup, runs: &[Run]) {
    let of = |run: &Run| over_time::steps(&run.record.samples, run.record.seconds, 300);
    let all: Vec<Vec<over_time::Step>> = runs.iter().take(CLASSES.len()).map(of).collect();
    if all.iter().filter(|steps| !steps.is_empty()).count() < 2 {
        return;
    }
    let says = "The rates over time, each run from its own start.";
    let mut table = Table::new(&["run", "average", "time"]);
    for (index, run) in runs.iter().enumerate() {
        table.row([title(index, run, 60), rate(run.record.rate), time(run.record.seconds)]);
    }
    let figure = Figure { title: "Rates over time", says, heights: (280.0, 220.0), table };
    figure.render_with(page, |page, canvas| draw(page, canvas, &all), |page| legend(page, runs));
}

fn draw(page: &mut Markup, canvas: Canvas, all: &[Vec<over_time::Step>]) {
    let frame = canvas.frame(80.0, 12.0, 22.0, 28.0);
    let end = all.iter().filter_map(|steps| steps.last()).map(|step| step.to).fold(0.0, f64::max);
    let x = Linear::new((0.0, end), (frame.left, frame.right));
    let y = Linear::new((0.0, top(all.iter().flatten().map(|step| step.rate))), (frame.bottom, frame.top));
    let marks: Vec<(f64, String)> = y.ticks(4).into_iter().map(|value| (y.at(value), rate(value))).collect();
    axis::rows(page, frame, &marks);
    let marks: Vec<(f64, String)> = (x.ticks(if canvas.narrow { 4 } else { 10 }).into_iter())
        .map(|at| (x.at(at), format!("{} s", axis::seconds(at))))
        .collect();
    axis::columns(page, frame, canvas.width, &marks, false);
    for (index, (steps, class)) in all.iter().zip(CLASSES).enumerate() {
        let points: Vec<(f64, f64)> = steps
            .iter()
            .flat_map(|step| [(x.at(step.from), y.at(step.rate)), (x.at(step.to), y.at(step.rate))])
            .collect();
        axis::line(page, &points, class);
        if let Some((x, y)) = points.last() {
            axis::text(page, (x + 5.0, y + 4.0), Anchor::Start, "strong", &letter(index).to_string());
        }
    }
}

fn legend(page: &mut Markup, runs: &[Run]) {
    page.within("ul", &[("class", "legend")], |page| {
        for (index, (run, class)) in runs.iter().zip(CLASSES).enumerate() {
            over_time::entry(page, class, &title(index, run, 60));
        }
    });
}

/// A row for each figure, a column for each run.
fn table(runs: &[Run]) -> Table {
    let mut head = vec!["".to_owned()];
    head.extend((0..runs.len()).map(|index| letter(index).to_string()));
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: &str, cell: &dyn Fn(&Run) -> String| {
        let mut cells = vec![name.to_owned()];
        cells.extend(runs.iter().map(cell));
        rows.push(cells);
    };
    let verdict = |run: &Run| run.record.verdict.clone().unwrap_or_default();
    row("rate", &|run| rate(run.record.rate));
    row("time", &|run| time(run.record.seconds));
    row("moved", &|run| bytes(run.record.bytes));
    row("connections", &|run| run.record.connections.map_or("–".to_owned(), |count| count.to_string()));
    row("limit", &|run| verdict(run).limit.as_deref().map_or("–".to_owned(), limits::title));
    row("confidence", &|run| percent(verdict(run).confidence.min(1.0)));
    let mut names: Vec<String> = runs
        .iter()
        .filter_map(|run| run.record.verdict.as_ref())
        .flat_map(|verdict| verdict.shares.keys().cloned())
        .collect();
    names.sort();
    names.dedup();
    for name in names.iter().take(20) {
        let share =
            |run: &Run| verdict(run).shares.get(name).map_or("–".to_owned(), |share| percent(*share));
        row(&format!("held by {}", limits::title(name)), &share);
    }
    row("device took", &|run| run.record.disk_rate.map_or("–".to_owned(), rate));
    row("memory", &|run| run.record.peak_memory.map_or("–".to_owned(), bytes));
    Table { head, rows, words: false }
}
