//! What `weir self-check` adds: what a host allows, row by row.

use serde_json::Value;

use super::super::figure::Table;
use super::super::markup::Markup;
use super::super::words::short;
use super::{ROWS, card, read};
use crate::schema::Record;
use crate::self_check::SelfCheckRecord;

pub(super) fn abilities(
    page: &mut Markup,
    value: &Value,
    _: &Record,
    _: &'static str,
) -> Result<(), serde_json::Error> {
    let check: SelfCheckRecord = read(value)?;
    page.leaf("p", &[], &format!("{}, as user {}", short(&check.system, 80), check.user));
    if !check.stopped.is_empty() {
        page.leaf(
            "p",
            &[("class", "notice")],
            &format!("Cannot work here: {}", short(&check.stopped.join(", "), 80)),
        );
    }
    let mut lost = Table::of_words(&["what", "state", "costs", "way out"]);
    let mut all = Table::of_words(&["what", "state", "reading", "from"]);
    for row in check.rows.iter().take(ROWS) {
        let (name, state) = (short(&row.name, 40), short(&row.state, 20));
        if let Some(way_out) = &row.way_out {
            lost.row([name.clone(), state.clone(), short(&row.costs.join("; "), 300), short(way_out, 300)]);
        }
        all.row([name, state, short(&row.reading, 300), short(&row.origin, 200)]);
    }
    card(page, "What is lost", &lost);
    card(page, "All that was tried", &all);
    Ok(())
}
