//! What single commands add to a record, each as a part of the page. [`MEMBERS`] is the one place where a
//! member of a record gets its pictures: a row there, and a function that takes the member as its own type.
//! What has no row is shown as names and values ([`plain`]), so that nothing of a record is lost in silence.

mod check;
mod fleet;
mod machine;
mod measured;
mod moved;
mod plain;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::figure::Table;
use super::markup::Markup;
use super::page::section;
use super::scale::sane;
use super::words::{count, percent, rate, short, time};
use crate::load::LoadRecord;
use crate::net::NetRecord;
use crate::schema::Record;

/// How a member is drawn.
type Draw = fn(&mut Markup, &Value, &Record, &'static str) -> Result<(), serde_json::Error>;

/// The members that have pictures: name in the record, heading, drawing.
const MEMBERS: [(&str, &str, Draw); 26] = [
    ("calibration", "This host", machine::calibration),
    ("http", "Requests", measured::http),
    ("net", "The path", measured::net),
    ("transactions", "Requests and responses", measured::transactions),
    ("pps", "Packets", measured::packets),
    ("codecs", "Codecs", measured::codec_table),
    ("ciphers", "Ciphers", measured::cipher_table),
    ("host", "The host", measured::host),
    ("mem", "Caches and memory", machine::memory),
    ("disk", "The disk", machine::disk),
    ("store", "The store", measured::store),
    ("plan", "The plan", moved::plan),
    ("store_plan", "The plan", plain::plain),
    ("copy", "What was measured", moved::survey),
    ("fetch", "Who fetched it", moved::fetch),
    ("cp", "How it was copied", moved::copy),
    ("would", "What would be done", plain::plain),
    ("put", "What would be sent", plain::plain),
    ("lost_attributes", "Lost attributes", plain::plain),
    ("prediction", "Foretold and reached", moved::prediction),
    ("why", "Connections and threads", moved::why),
    ("capture", "The capture", moved::capture),
    ("lab", "Scenarios", moved::scenarios),
    ("fleet", "What the fleet did", plain::plain),
    ("fleet_history", "The fleet", fleet::history),
    ("self_check", "What this host allows", check::abilities),
];

/// Members that a page has no use for: the seconds of a copy's threads, of which the pipeline shows what
/// follows from them.
const UNSHOWN: [&str; 1] = ["stages"];

/// Members without a row that are shown, at most.
const OTHERS: usize = 10;

/// Rows of a table, at most.
const ROWS: usize = 200;

/// Writes the parts of a record's members.
pub fn render(page: &mut Markup, record: &Record, level: &'static str) {
    for (name, title, draw) in MEMBERS {
        let Some(value) = record.extra.get(name) else { continue };
        let mut content = page.nested();
        let drawn = draw(&mut content, value, record, level);
        section(page, level, title, |page| match drawn {
            Ok(()) => page.rejoin(content),
            Err(error) => {
                let words = format!("The record's member '{name}' cannot be shown: {error}");
                page.leaf("p", &[("class", "notice")], &words);
            }
        });
    }
    let has_row = |name: &str| UNSHOWN.contains(&name) || MEMBERS.iter().any(|(known, ..)| *known == name);
    for (name, value) in record.extra.iter().filter(|(name, _)| !has_row(name)).take(OTHERS) {
        section(page, level, &plain::title(name), |page| plain::render(page, value));
    }
}

/// Figures of members that belong to the first ones of a page.
pub fn facts(record: &Record) -> Vec<(&'static str, String, String)> {
    let mut facts = Vec::new();
    if let Some(Ok(http)) = record.extra.get("http").map(read::<LoadRecord>) {
        facts.push(("Requests a second", count(http.requests_rate), String::new()));
        facts.push(("Median", time(http.latency.p50), String::new()));
        facts.push(("99 %", time(http.latency.p99), "took at most".to_owned()));
        let errors = http.errors;
        let failed = [errors.connect, errors.read, errors.write, errors.timeout, errors.status];
        facts.push((
            "Failed",
            failed.iter().fold(0_u64, |sum, next| sum.saturating_add(*next)).to_string(),
            "requests".to_owned(),
        ));
    }
    if let Some(Ok(net)) = record.extra.get("net").map(read::<NetRecord>) {
        facts.push(("Goodput", crate::net::bits(sane(record.rate)), rate(record.rate)));
        facts.push((
            "Streams",
            net.streams.to_string(),
            format!("{}, {}", short(&net.transport, 8), short(&net.direction, 12)),
        ));
        if let Some(again) = net.sent.as_ref().and_then(|sum| sum.retransmits) {
            facts.push(("Sent again", again.to_string(), "segments".to_owned()));
        }
        facts.push(("Processor", percent(net.cpu), "of a core at this end".to_owned()));
    }
    if let Some(Ok(memory)) = record.extra.get("mem").map(read) {
        facts.extend(machine::memory_facts(&memory));
    }
    if let Some(Ok(disk)) = record.extra.get("disk").map(read) {
        facts.extend(machine::disk_facts(&disk));
    }
    facts
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, serde_json::Error> {
    T::deserialize(value)
}

/// A table that is seen without a click.
fn card(page: &mut Markup, title: &str, table: &Table) {
    if table.rows.is_empty() {
        return;
    }
    page.within("div", &[("class", "card")], |page| {
        page.leaf("h3", &[], title);
        table.render(page, title);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::RunOutcome;

    fn drawn(name: &str, value: Value) -> String {
        let mut record = Record::new("get", RunOutcome::Complete, 1, 1.0);
        record.extra.insert(name.to_owned(), value);
        let mut page = Markup::default();
        render(&mut page, &record, "h2");
        page.into_text()
    }

    #[test]
    fn every_member_can_be_shown() {
        for (name, ..) in MEMBERS {
            let text = drawn(name, serde_json::json!({}));
            assert!(!text.contains("cannot be shown"), "{name}: {text}");
        }
        let names: std::collections::BTreeSet<_> = MEMBERS.into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names.len(), MEMBERS.len(), "a row each");
    }

    /// Those of this version that have no type, and one of a later version.
    #[test]
    fn a_member_without_pictures_is_not_lost() {
        let own = || serde_json::json!({ "objects": 41, "moved": { "bytes": 7_000_000 } });
        for (name, title) in [
            ("store_plan", "The plan"),
            ("would", "What would be done"),
            ("put", "What would be sent"),
            ("fleet", "What the fleet did"),
            ("later_thing", "Later thing"),
        ] {
            let text = drawn(name, own());
            for part in [title, "objects", "41", "moved, bytes", "7.00 MB"] {
                assert!(text.contains(part), "{name}: {part}: {text}");
            }
        }
        assert!(drawn("lost_attributes", 3.into()).contains("Lost attributes"));
        assert_eq!(drawn("stages", own()), "", "its page has the pipeline");
        assert_eq!(drawn("later_thing", Value::Null), "");
    }
}
