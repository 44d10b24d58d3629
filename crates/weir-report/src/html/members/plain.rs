//! A member without pictures of its own, as names and values: a command's small figures, and whatever a
//! later version added. Units follow from the names, which mean the same
//! everywhere in a record.

use serde_json::Value;
use weir_units::counted;

use super::super::figure::Table;
use super::super::markup::Markup;
use super::super::scale::sane;
use super::super::words::{bytes, capital, rate, short, time};
use super::{ROWS, card};
use crate::figures::trimmed;
use crate::schema::Record;

/// How deep a member is followed: what is below is counted.
const DEPTH: usize = 4;

/// Lists of a member, and columns of each, at most.
const LISTS: (usize, usize) = (10, 12);

/// Letters of a name, and of a value.
const LETTERS: (usize, usize) = (40, 200);

/// What stands where there is no value.
const NONE: &str = "–";

/// As every member is drawn.
pub(super) fn plain(
    page: &mut Markup,
    value: &Value,
    _: &Record,
    _: &'static str,
) -> Result<(), serde_json::Error> {
    render(page, value);
    Ok(())
}

/// Writes the figures in one table, and each list of objects in one for itself.
pub(super) fn render(page: &mut Markup, value: &Value) {
    let mut shown = Shown { figures: Table::of_words(&["", "value"]), lists: Vec::new() };
    shown.add("", "", value, 0);
    card(page, "Figures", &shown.figures);
    for (name, table) in &shown.lists {
        card(page, name, table);
    }
    if shown.figures.rows.len() >= ROWS || shown.lists.len() >= LISTS.0 {
        page.leaf("p", &[("class", "notice")], "There may be more of it in the record.");
    }
}

/// A member's name as a heading: `Store plan`.
pub(super) fn title(name: &str) -> String {
    capital(&spoken(name))
}

/// What a member has, as tables.
struct Shown {
    figures: Table,
    lists: Vec<(String, Table)>,
}

impl Shown {
    /// Adds a value, whose own name is the last of those that lead to it.
    fn add(&mut self, names: &str, name: &str, value: &Value, depth: usize) {
        let is_list = |items: &[Value]| items.iter().any(Value::is_object);
        match value {
            Value::Null => {}
            Value::Object(members) if depth < DEPTH => {
                for (inner, value) in members.iter().take(ROWS) {
                    let own = spoken(inner);
                    let names = if names.is_empty() { own } else { format!("{names}, {own}") };
                    self.add(&names, inner, value, depth + 1);
                }
            }
            Value::Array(items) if is_list(items) && self.lists.len() < LISTS.0 => {
                self.lists.push((shown_name(names), list(items)));
            }
            value if self.figures.rows.len() < ROWS => {
                self.figures.row([shown_name(names), said(name, value)]);
            }
            _ => {}
        }
    }
}

fn shown_name(names: &str) -> String {
    if names.is_empty() { "value".to_owned() } else { short(names, 2 * LETTERS.0) }
}

/// A row for each item, a column for each name that an item has.
fn list(items: &[Value]) -> Table {
    let items = &items[..items.len().min(ROWS)];
    let mut names: Vec<&String> = Vec::new();
    for name in items.iter().filter_map(Value::as_object).flat_map(|members| members.keys()) {
        if names.len() < LISTS.1 && !names.contains(&name) {
            names.push(name);
        }
    }
    let mut table = Table::of_words(&[]);
    if names.is_empty() {
        return table;
    }
    table.head = names.iter().map(|name| spoken(name)).collect();
    let cell =
        |item: &Value, name: &String| item.get(name).map_or(NONE.to_owned(), |value| said(name, value));
    table.rows = items.iter().map(|item| names.iter().map(|name| cell(item, name)).collect()).collect();
    table
}

/// A name of a record as words.
fn spoken(name: &str) -> String {
    match name {
        "" => NONE.to_owned(),
        name => short(&name.replace(['_', '-'], " "), LETTERS.0),
    }
}

/// A value in words: bytes, seconds and bytes per second are known by their names.
fn said(name: &str, value: &Value) -> String {
    let is = |unit: &str| name == unit || name.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_'));
    match value {
        Value::Null => NONE.to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) if text.is_empty() => NONE.to_owned(),
        Value::String(text) => short(text, LETTERS.1),
        Value::Number(number) => match number.as_f64() {
            Some(seconds) if is("seconds") => time(seconds),
            Some(per_second) if is("rate") || is("link") => rate(per_second),
            Some(count) if is("bytes") || is("part") || is("send") => bytes(sane(count) as u64),
            Some(other) if number.is_f64() => decimals(other),
            _ => number.to_string(),
        },
        Value::Array(items) if items.iter().all(is_flat) => {
            joined(items.iter().map(|item| said(name, item)), items.len())
        }
        Value::Array(items) => counted(items.len() as u64, "value"),
        Value::Object(members) => {
            let flat = members.iter().filter(|(_, value)| is_flat(value));
            joined(flat.map(|(name, value)| format!("{} {}", spoken(name), said(name, value))), members.len())
        }
    }
}

fn is_flat(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

/// The first of these words; how many values there are where none of them can be said.
fn joined(words: impl Iterator<Item = String>, count: usize) -> String {
    let words: Vec<String> = words.take(20).collect();
    match words.is_empty() {
        true => counted(count as u64, "value"),
        false => short(&words.join(", "), LETTERS.1),
    }
}

/// Four digits of any number.
fn decimals(value: f64) -> String {
    let value = value.clamp(-1e18, 1e18);
    let digits = if value == 0.0 { 0.0 } else { 3.0 - value.abs().log10().floor() };
    let digits = digits.clamp(0.0, 12.0) as usize;
    let text = format!("{value:.digits$}");
    trimmed(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(value: &Value) -> String {
        let mut page = Markup::default();
        render(&mut page, value);
        page.into_text()
    }

    #[test]
    fn values_have_the_units_of_their_names() {
        for (name, value, text) in [
            ("bytes", serde_json::json!(5_000_000), "5.00 MB"),
            ("source_bytes", serde_json::json!(1000), "1.00 KB"),
            ("ledger_seconds", serde_json::json!(0.25), "250 ms"),
            ("rate", serde_json::json!(2e6), "2.00 MB/s"),
            ("usd", serde_json::json!(0.000_123_4), "0.0001234"),
            ("objects", serde_json::json!(7), "7"),
            ("corporate", serde_json::json!(7), "7"),
            ("ok", serde_json::json!(true), "yes"),
            ("names", serde_json::json!(["a", "b"]), "a, b"),
            ("tally", serde_json::json!({ "objects": 3, "bytes": 1000 }), "bytes 1.00 KB, objects 3"),
            ("huge", serde_json::json!(-1e300), "-1000000000000000000"),
        ] {
            assert_eq!(said(name, &value), text, "{name}");
        }
    }

    #[test]
    fn all_of_a_member_is_shown_and_none_of_it_without_end() {
        let text = drawn(&serde_json::json!({
            "moved": { "objects": 41 }, "workers": [{ "host": "h1", "starts": 2 }, { "host": "h2", "error": "gone" }],
        }));
        for part in ["moved, objects", "41", "workers", "host", "h1", "h2", "gone"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(drawn(&serde_json::json!(3)).contains("3"));
        let mut deep = serde_json::json!("bottom");
        for _ in 0..100 {
            deep = serde_json::json!({ "in": deep });
        }
        let one = |number: u32| serde_json::json!({ number.to_string(): number });
        let wide: Vec<Value> = (0..10_000).map(one).collect();
        let many: serde_json::Map<String, Value> =
            (0..10_000_u32).map(|number| (number.to_string(), "x".repeat(1000).into())).collect();
        for value in [deep, wide.into(), many.into()] {
            assert!(drawn(&value).len() < 1 << 20);
        }
    }
}
