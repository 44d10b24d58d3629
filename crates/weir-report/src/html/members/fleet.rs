//! What a fleet's ledger adds: hosts over time, progress, failures, what took longest.

use serde_json::Value;

use super::super::chart::{self, rate::Step};
use super::super::figure::Table;
use super::super::markup::Markup;
use super::super::scale::sane;
use super::super::words::{bytes, rate, short, time};
use super::{ROWS, card, read};
use crate::figures::percent_done;
use crate::fleet_history::FleetHistoryRecord;
use crate::schema::Record;

/// Letters of a name or a reason.
const LETTERS: usize = 300;

pub(super) fn history(
    page: &mut Markup,
    value: &Value,
    _: &Record,
    _: &'static str,
) -> Result<(), serde_json::Error> {
    let history: FleetHistoryRecord = read(value)?;
    plan(page, &history);
    chart::fleet::hosts(page, &history);
    let steps: Vec<Step> = history
        .spans
        .iter()
        .take(1000)
        .map(|span| Step {
            from: sane(span.from),
            to: sane(span.to).max(sane(span.from)),
            rate: sane(span.rate),
            limit: (!span.limit.is_empty()).then(|| short(&span.limit, 40)),
            ..Step::default()
        })
        .collect();
    chart::rate::render_steps(page, &steps, "Rate of all hosts", chart::rate::mean_of(&steps));
    chart::fleet::progress(page, &history);
    let mut failures = Table::of_words(&["class", "objects", "one of the reasons"]);
    for row in history.failures.iter().take(ROWS) {
        failures.row([short(&row.class, 40), row.objects.to_string(), short(&row.example, LETTERS)]);
    }
    card(page, "Failures by class", &failures);
    let mut failed = Table::of_words(&["object", "class", "reason", "attempts", "host"]);
    for row in history.failed_objects.iter().take(ROWS) {
        failed.row([
            short(&row.source, LETTERS),
            short(&row.class, 40),
            short(&row.reason, LETTERS),
            row.attempts.to_string(),
            short(&row.host, 60),
        ]);
    }
    card(page, "Objects that were given up", &failed);
    slowest(page, &history);
    card(page, "Hosts", &chart::fleet::table(&history, ROWS));
    Ok(())
}

fn plan(page: &mut Markup, history: &FleetHistoryRecord) {
    let done = history.moved.saturating_add(history.same);
    let share = percent_done(done, history.planned);
    let mut table = Table::of_words(&["", "the plan"]);
    let rows = [
        ("from", short(&history.source, LETTERS)),
        ("to", short(&history.target, LETTERS)),
        ("state", short(&history.state, 80)),
        (
            "planned",
            format!(
                "{} objects, {}, in {} batches",
                history.planned,
                bytes(history.planned_bytes),
                history.batches
            ),
        ),
        ("done", format!("{done} ({share} %): {} moved, {} were there", history.moved, history.same)),
        ("left", history.left.to_string()),
        ("given up", history.failed.to_string()),
        ("leases that ended without a word", history.lost_leases.to_string()),
    ];
    for (name, words) in rows {
        table.row([name.to_owned(), words]);
    }
    card(page, "The plan", &table);
}

fn slowest(page: &mut Markup, history: &FleetHistoryRecord) {
    let mut table = Table::of_words(&["what", "took", "bytes planned", "rate", "host", "given out", "state"]);
    for batch in history.slowest.iter().take(ROWS) {
        let name = short(&batch.name, LETTERS);
        let what = match batch.objects {
            0 | 1 => name,
            many => format!("batch {}: {name} and {} more", batch.batch, many - 1),
        };
        let seconds = sane(batch.seconds);
        // How much of a batch that is under way has come is not known.
        let is_done = batch.state == "done" && seconds > 0.0;
        let speed = is_done.then(|| rate(batch.bytes as f64 / seconds));
        table.row([
            what,
            time(seconds),
            bytes(batch.bytes),
            speed.unwrap_or_else(|| "–".to_owned()),
            short(&batch.host, 60),
            match batch.leases {
                0 | 1 => "once".to_owned(),
                times => format!("{times} times"),
            },
            short(&batch.state, 20),
        ]);
    }
    card(page, "What took longest", &table);
}
