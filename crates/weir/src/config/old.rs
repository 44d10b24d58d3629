//! The form of earlier versions: TOML, commands as tables, `NAME = VALUE`. Its entries become those of the
//! new one.

use toml::de::{DeTable, DeValue};
use weir_report::escape::escape;

use super::Problem;
use super::text::{Entry, words};

/// Reads `text`.
pub fn parse(text: &str) -> Result<Vec<Entry>, Problem> {
    let line_at = |offset: usize| 1 + text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count();
    let table = DeTable::parse(text).map_err(|error| Problem {
        line: line_at(error.span().map_or(0, |span| span.start)),
        text: error.message().trim_end().replace('\n', "; "),
    })?;
    let mut entries = Vec::new();
    walk(table.get_ref(), &[], &line_at, &mut entries)?;
    Ok(entries)
}

fn walk(
    table: &DeTable<'_>,
    section: &[String],
    line_at: &dyn Fn(usize) -> usize,
    entries: &mut Vec<Entry>,
) -> Result<(), Problem> {
    for (key, value) in table.iter() {
        let (name, line) = (key.get_ref().to_string(), line_at(key.span().start));
        if let DeValue::Table(below) = value.get_ref() {
            let section = [section, &words(&name)].concat();
            entries.push(Entry { section: section.clone(), name: String::new(), value: None, line });
            walk(below, &section, line_at, entries)?;
            continue;
        }
        let wrong = || Problem {
            line,
            text: format!("'{}' is a text, a number, true, false or a list of texts", escape(&name)),
        };
        for value in values(value.get_ref()).ok_or_else(wrong)? {
            entries.push(Entry { section: section.to_vec(), name: name.clone(), value, line });
        }
    }
    Ok(())
}

/// As they would be typed: `true` is the flag alone, `false` nothing.
fn values(value: &DeValue<'_>) -> Option<Vec<Option<String>>> {
    match value {
        DeValue::Boolean(on) => Some(vec![None; usize::from(*on)]),
        DeValue::Array(items) => items.iter().map(|item| Some(Some(text(item.get_ref())?))).collect(),
        other => Some(vec![Some(text(other)?)]),
    }
}

fn text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        _ => None,
    }
}
