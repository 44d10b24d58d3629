//! Figures in words, and what happened in a sentence.

use std::time::Duration;

use weir_units::{Bytes, Rate, counted, human_duration};

use super::scale::sane;
pub use crate::figures::percent;
use crate::schema::{Record, RunOutcome};

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
        Ok(span) if (1.0..9.995).contains(&seconds) => format!("{:.2} s", span.as_secs_f64()),
        Ok(span) if seconds < 1e9 => human_duration(span),
        _ => "more than a lifetime".to_owned(),
    }
}

/// A length in a picture: one decimal, no exponent.
pub fn length(value: f64) -> String {
    let value = if value.is_finite() { value.clamp(-1e5, 1e5) } else { 0.0 };
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// `5.12 M`.
pub fn count(value: f64) -> String {
    let text = Bytes(sane(value).round() as u64).to_string();
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
    if let Some(sources) = record.extra.get("cp").and_then(|cp| cp.get("sources")?.as_array()) {
        let names: Vec<&str> = sources.iter().filter_map(|source| source.as_str()).collect();
        return match names.as_slice() {
            [only] => (*only).to_owned(),
            more => counted(more.len() as u64, "source"),
        };
    }
    let named = [
        ("why", "subject"),
        ("net", "host"),
        ("http", "url"),
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
    ];
    match record.command.as_str() {
        "bench" => kinds
            .iter()
            .find(|(member, _)| record.extra.contains_key(*member))
            .map_or("bench".to_owned(), |(_, kind)| format!("bench {kind}")),
        command => command.to_owned(),
    }
}

/// What happened: `Received 150 MB in 2.08 s: 72.3 MB/s over 16 connections.`
pub fn sentence(record: &Record) -> String {
    let verb = match (record.command.as_str(), record.outcome) {
        ("bench" | "lab" | "plan" | "self-check", _) => return measured(record),
        (_, RunOutcome::Failed) if record.bytes == 0 => {
            return "The run failed and brought nothing.".to_owned();
        }
        ("cp", _) => "Copied",
        ("fleet", _) => "Moved",
        ("why", _) => "Carried",
        _ => "Received",
    };
    let over = record.connections.filter(|count| *count > 0);
    let over = over.map(|count| format!(" over {}", counted(count.into(), "connection"))).unwrap_or_default();
    let ended = match record.outcome {
        RunOutcome::Complete => "",
        RunOutcome::Partial if record.command == "fleet" => " Not all is done.",
        RunOutcome::Partial => " Not all is there; the same command goes on from here.",
        RunOutcome::Failed => " The run failed.",
    };
    format!("{verb} {} in {}: {}{over}.{ended}", bytes(record.bytes), time(record.seconds), rate(record.rate))
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

    #[test]
    fn figures_of_any_size_stay_short() {
        for value in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e-300, 1e300, 5.0] {
            for text in [rate(value), time(value), percent(value), length(value), count(value)] {
                assert!(text.len() < 24, "{value}: {text}");
            }
        }
        assert_eq!(short("http://host/a/very/long/name.iso", 15), "http://…ame.iso");
        assert_eq!(count(5_120_000.0), "5.12 M");
    }
}
