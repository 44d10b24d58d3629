//! Figures in words, and what happened in a sentence.

use std::time::Duration;

use serde_json::Value;
use weir_units::{Bytes, Rate, counted};

use super::scale::sane;
pub use crate::figures::percent;
use crate::figures::{fine_duration, trimmed};
use crate::schema::{Record, RunOutcome};
use crate::terminal::{instead_of_rate, verb};

/// `72.3 MB/s`.
pub fn rate(rate: f64) -> String {
    Rate(sane(rate)).to_string()
}

/// `150 MB`.
pub fn bytes(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// `2.08 s`.
pub fn time(seconds: f64) -> String {
    match Duration::try_from_secs_f64(sane(seconds)) {
        Ok(span) if seconds < 1e9 => fine_duration(span),
        _ => "more than a lifetime".to_owned(),
    }
}

/// A length in a picture: one decimal, no exponent.
pub fn length(value: f64) -> String {
    let value = if value.is_finite() { value.clamp(-1e5, 1e5) } else { 0.0 };
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// `5.12 M`; below 10 with the decimals that it has: 0.4 a second is not none.
pub fn count(value: f64) -> String {
    let value = sane(value);
    if value < 9.995 {
        let digits = if value < 1.0 { 3 } else { 2 };
        return trimmed(&format!("{value:.digits$}")).to_owned();
    }
    let text = Bytes(value.round() as u64).to_string();
    text.trim_end_matches('B').trim_end().replace('K', "k")
}

/// At most so many characters, the middle left out: both ends of a URL or path say what it is.
pub fn short(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let keep = most.saturating_sub(1) / 2;
    let head: String = text.chars().take(most.saturating_sub(1) - keep).collect();
    let tail: String = text.chars().skip(length - keep).collect();
    format!("{head}…{tail}")
}

/// What the record is of, for a title: `image.iso`, `nginx (pid 7)`, `codecs`.
pub fn subject(record: &Record) -> String {
    let member = |name: &str, inner: &str| Some(record.extra.get(name)?.get(inner)?.as_str()?.to_owned());
    if let Some(counts) = record.counts.as_ref().filter(|counts| counts.files > 1) {
        return counted(counts.files, "file");
    }
    // Of a copy and of its plan the files are those that failed.
    if matches!(record.command.as_str(), "cp" | "plan")
        && let Some(sources) = sources(record)
    {
        return sources;
    }
    match record.files.as_slice() {
        [] => {}
        [only] => {
            let name = if only.path.is_empty() || only.path == "-" { &only.url } else { &only.path };
            return name.trim_end_matches('/').rsplit('/').next().unwrap_or(name).to_owned();
        }
        files if matches!(record.command.as_str(), "get" | "put") => {
            return counted(files.len() as u64, "file");
        }
        _ => {}
    }
    if let Some(sources) = sources(record) {
        return sources;
    }
    let named = [
        ("why", "subject"),
        ("net", "host"),
        ("http", "url"),
        ("store", "url"),
        ("store_plan", "target"),
        ("host", "target"),
        ("pps", "peer"),
        ("codecs", "data"),
        ("disk", "folder"),
        ("fleet_history", "source"),
    ];
    // Of the parts of a calibration none is its subject.
    if let Some(host) = member("calibration", "host") {
        return host;
    }
    named.iter().find_map(|(name, inner)| member(name, inner)).unwrap_or_default()
}

/// What a copy was of: `data`, `3 sources`.
fn sources(record: &Record) -> Option<String> {
    let of = |member: &str| record.extra.get(member)?.get("sources")?.as_array();
    let names = ["cp", "copy"].into_iter().find_map(of)?;
    match names.iter().filter_map(Value::as_str).collect::<Vec<_>>().as_slice() {
        [] => None,
        [only] => Some((*only).to_owned()),
        more => Some(counted(more.len() as u64, "source")),
    }
}

/// What kind of run it was: `get`, `bench codec`.
pub fn kind(record: &Record) -> String {
    let kinds = [
        ("calibration", "host --local"),
        ("net", "net"),
        ("transactions", "net, transactions"),
        ("http", "http"),
        ("host", "host"),
        ("pps", "pps"),
        ("codecs", "codec"),
        ("ciphers", "cipher"),
        ("mem", "mem"),
        ("disk", "disk"),
        ("store", "store"),
    ];
    match record.command.as_str() {
        "bench" => kinds
            .iter()
            .find(|(member, _)| record.extra.contains_key(*member))
            .map_or("bench".to_owned(), |(_, kind)| format!("bench {kind}")),
        command => command.to_owned(),
    }
}

/// Whether the run was there to move bytes: benchmarks (but of a path), the lab and plans are not.
pub fn is_of_bytes(record: &Record) -> bool {
    match record.command.as_str() {
        "bench" => kind(record) == "bench net",
        command => !is_measurement(command),
    }
}

/// Whether its bytes over its time are a rate that says something.
pub fn has_rate(record: &Record) -> bool {
    is_of_bytes(record) && record.bytes > 0 && record.rate > 0.0
}

fn is_measurement(command: &str) -> bool {
    matches!(command, "bench" | "lab" | "plan" | "self-check")
}

/// What happened: `Received 150 MB in 2.08 s: 72.3 MB/s over 16 connections.`
pub fn sentence(record: &Record) -> String {
    if is_measurement(&record.command) {
        return measured(record);
    }
    if let Some(words) = instead_of_rate(record) {
        return format!("{}.", capital(&words));
    }
    if record.outcome == RunOutcome::Failed && record.bytes == 0 {
        return "The run failed and brought nothing.".to_owned();
    }
    let over = record.connections.filter(|count| *count > 0);
    let over = over.map(|count| format!(" over {}", counted(count.into(), "connection"))).unwrap_or_default();
    let ended = match record.outcome {
        RunOutcome::Complete => "",
        RunOutcome::Partial if record.command.starts_with("fleet") => " Not all is done.",
        RunOutcome::Partial if record.command == "bench" => " It was cut short.",
        RunOutcome::Partial if !record.hosts().is_empty() => " Not every host has all of it.",
        RunOutcome::Partial => " Not all is there; the same command goes on from here.",
        RunOutcome::Failed => " The run failed.",
    };
    let (verb, moved) = (capital(verb(record)), bytes(record.bytes));
    format!("{verb} {moved} in {}: {}{over}.{ended}", time(record.seconds), rate(record.rate))
}

/// With a capital letter at its beginning.
pub(crate) fn capital(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}

/// Of a run that moved nothing for anybody.
fn measured(record: &Record) -> String {
    let number = |member: &str, inner: &str| {
        record.extra.get(member).and_then(|member| member.get(inner)?.as_f64()).unwrap_or(0.0)
    };
    let rows = |member: &str, inner: &str| {
        record.extra.get(member).and_then(|member| Some(member.get(inner)?.as_array()?.len())).unwrap_or(0)
            as u64
    };
    match kind(record).as_str() {
        "bench codec" => {
            format!("Measured {} in {}.", counted(rows("codecs", "rows"), "codec"), time(record.seconds))
        }
        "bench cipher" => {
            format!("Measured {} in {}.", counted(rows("ciphers", "rows"), "cipher"), time(record.seconds))
        }
        "bench http" => format!(
            "{} requests in {}: {} a second over {}.",
            count(number("http", "requests")),
            time(record.seconds),
            count(number("http", "requests_rate")),
            counted(number("http", "connections") as u64, "connection")
        ),
        "bench net" => format!(
            "Carried {} in {}: {} ({}).",
            bytes(record.bytes),
            time(record.seconds),
            rate(record.rate),
            crate::net::bits(sane(record.rate))
        ),
        "bench pps" => {
            format!("Sent packets of {} in {}.", counted(rows("pps", "rows"), "kind"), time(record.seconds))
        }
        "bench host --local" => {
            format!("Measured memory, disk, codecs and ciphers in {}.", time(record.seconds))
        }
        "bench host" => {
            format!(
                "Took {} of the host in {}.",
                counted(rows("host", "figures"), "figure"),
                time(record.seconds)
            )
        }
        "lab" => {
            format!("Played {} in {}.", counted(rows("lab", "scenarios"), "scenario"), time(record.seconds))
        }
        "bench net, transactions" => format!(
            "{} transactions in {}: {} a second.",
            count(number("transactions", "count")),
            time(record.seconds),
            count(number("transactions", "rate"))
        ),
        "self-check" => format!(
            "{} {}.",
            counted(rows("self_check", "rows"), "thing"),
            if record.outcome == RunOutcome::Complete {
                "tried; get, cp and why have all they need"
            } else {
                "tried; transfers lack something that they need"
            }
        ),
        "plan" => "A prediction: nothing was moved.".to_owned(),
        _ => format!("Measured for {}.", time(record.seconds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::FileRecord;

    #[test]
    fn figures_of_any_size_stay_short() {
        for value in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e-300, 1e300, 5.0] {
            for text in [rate(value), time(value), percent(value), length(value), count(value)] {
                assert!(text.len() < 24, "{value}: {text}");
            }
        }
        assert_eq!(short("http://host/a/very/long/name.iso", 15), "http://…ame.iso");
        assert_eq!(count(5_120_000.0), "5.12 M");
        for (value, text) in [(0.4, "0.4"), (0.0, "0"), (3.0, "3"), (9.25, "9.25"), (9.999, "10")] {
            assert_eq!(count(value), text);
        }
    }

    #[test]
    fn what_was_done_is_told_by_its_own_verb() {
        let run = |command: &str| Record::new(command, RunOutcome::Complete, 2_000_000, 1.0);
        for (command, begin) in [
            ("get", "Received 2.00 MB"),
            ("put", "Sent 2.00 MB"),
            ("cp", "Copied 2.00 MB"),
            ("why", "Carried 2.00 MB"),
            ("fleet run", "Moved 2.00 MB"),
            ("fleet work", "Moved 2.00 MB"),
        ] {
            assert!(sentence(&run(command)).starts_with(begin), "{}", sentence(&run(command)));
        }
        let asked = |command: &str, own: Value| {
            let mut record = Record { bytes: 0, ..run(command) };
            record.extra.insert(command.to_owned(), own);
            record
        };
        let mut copy = asked("cp", serde_json::json!({ "dry_run": true }));
        copy.extra.insert("would".to_owned(), serde_json::json!({ "copy": 2, "delete": 1 }));
        assert_eq!(
            sentence(&copy),
            "Nothing was copied or deleted (-n): 2 files would be copied, 1 entry deleted."
        );
        let put = asked("put", serde_json::json!({ "dry_run": true, "would_send": 5_000_000 }));
        assert_eq!(sentence(&put), "Nothing was sent (-n): 0 files, 5.00 MB.");
        let mut get = run("get");
        get.files = vec![FileRecord { path: "a".to_owned(), skipped: true, ..FileRecord::default() }];
        assert_eq!(sentence(&get), "Left alone: a exists.");
        let fleet = Record { outcome: RunOutcome::Partial, ..run("fleet run") };
        assert!(sentence(&fleet).ends_with(" Not all is done."));
    }

    #[test]
    fn a_copy_is_titled_by_its_sources_whatever_failed() {
        let (url, error) = ("data/odd".to_owned(), Some("permission denied".to_owned()));
        let failed = FileRecord { url, error, ..FileRecord::default() };
        for (command, member) in [("cp", "cp"), ("plan", "copy")] {
            let mut record = Record::new(command, RunOutcome::Failed, 1, 1.0);
            record.files = vec![failed.clone()];
            assert_eq!(subject(&record), "odd", "nothing else is known");
            let sources = serde_json::json!({ "sources": ["data/"] });
            record.extra.insert(member.to_owned(), sources);
            assert_eq!(subject(&record), "data/");
            record.extra.insert(member.to_owned(), serde_json::json!({ "sources": ["a", "b"] }));
            assert_eq!(subject(&record), "2 sources");
        }
    }
}
