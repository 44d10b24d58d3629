//! What `weir bench host` adds to a record: figures of a host and the path to it, each with its origin or the
//! reason why not.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use weir_units::{Rate, decimals, in_unit};

use crate::escape::escape;

/// The member `host` of a record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostRecord {
    /// As it was asked for.
    pub target: String,
    /// The address that was measured.
    pub address: String,
    /// The port that was measured.
    pub port: u16,
    /// The figures, in order; each name once.
    pub figures: Vec<FigureRecord>,
    /// Names of the parts that an interrupt left out.
    pub left_out: Vec<String>,
}

/// One figure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FigureRecord {
    /// `rtt-connect-median`.
    pub name: String,
    /// The value; `null` when it could not be taken, or is a text.
    pub value: Option<f64>,
    /// Of the value: `s`, `share` (0 to 1), `bytes`, `bytes/s`, `packets/s`, `count`.
    pub unit: String,
    /// A figure in words: `bbr`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What it was taken from.
    pub origin: String,
    /// Why there is no value.
    pub missing: Option<String>,
}

impl FigureRecord {
    /// A value that was taken.
    pub fn taken(name: &str, value: f64, unit: &str, origin: impl Into<String>) -> FigureRecord {
        FigureRecord {
            name: name.to_owned(),
            value: Some(value).filter(|value| value.is_finite()),
            unit: unit.to_owned(),
            origin: origin.into(),
            ..FigureRecord::default()
        }
    }

    /// A word that was taken.
    pub fn word(name: &str, text: impl Into<String>, origin: impl Into<String>) -> FigureRecord {
        FigureRecord {
            name: name.to_owned(),
            text: Some(text.into()),
            origin: origin.into(),
            ..FigureRecord::default()
        }
    }

    /// One that could not be taken.
    pub fn missing(name: &str, unit: &str, why: impl Into<String>) -> FigureRecord {
        FigureRecord {
            name: name.to_owned(),
            unit: unit.to_owned(),
            missing: Some(why.into()),
            ..FigureRecord::default()
        }
    }
}

/// The list for people.
pub fn render_list(host: &HostRecord, out: &mut dyn Write) -> io::Result<()> {
    let address =
        if host.address.contains(':') { format!("[{}]", host.address) } else { host.address.clone() };
    writeln!(out, "{}, at {} port {}", escape(&host.target), escape(&address), host.port)?;
    for figure in &host.figures {
        let name = figure.name.replace('-', " ");
        match (&figure.missing, &figure.text, figure.value) {
            (Some(why), _, _) => writeln!(out, "{name:<24} {:>12}  not measured: {}", "-", escape(why))?,
            (None, Some(text), _) => {
                writeln!(out, "{name:<24} {:>12}  {}", escape(text), escape(&figure.origin))?
            }
            (None, None, Some(value)) => {
                writeln!(out, "{name:<24} {:>12}  {}", amount(value, &figure.unit), escape(&figure.origin))?;
            }
            (None, None, None) => writeln!(out, "{name:<24} {:>12}  {}", "-", escape(&figure.origin))?,
        }
    }
    if !host.left_out.is_empty() {
        writeln!(out, "interrupted; not measured: {}", host.left_out.join(", "))?;
    }
    Ok(())
}

/// A value with its unit, as people write it.
pub(crate) fn amount(value: f64, unit: &str) -> String {
    match unit {
        "s" => time(value),
        "share" => format!("{:.1} %", value * 100.0),
        "bytes/s" => Rate(value).to_string(),
        "packets/s" => count(value),
        "count" => format!("{value:.0}"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// Three digits in the unit that fits.
pub(crate) fn time(seconds: f64) -> String {
    let (value, unit) = in_unit(seconds);
    let digits = decimals(value);
    format!("{value:.digits$} {unit}")
}

/// Packets a second: `1.23 M`, `412 k`.
pub(crate) fn count(value: f64) -> String {
    let (value, prefix) = match value.abs() {
        size if size >= 999_500.0 => (value / 1e6, " M"),
        size if size >= 999.5 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = if prefix.is_empty() { 0 } else { decimals(value) };
    format!("{value:.digits$}{prefix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_with_units_origins_and_reasons() {
        let record = HostRecord {
            target: "example.org".into(),
            address: "::1".into(),
            port: 443,
            figures: vec![
                FigureRecord::taken("availability", 1.0, "share", "10 of 10 connects were taken"),
                FigureRecord::taken("rtt-connect-median", 0.01234, "s", "10 TCP connects"),
                FigureRecord::word("congestion-control", "bbr", "the connection's socket"),
                FigureRecord::missing("tls-full", "s", "the port does not speak TLS"),
            ],
            left_out: vec!["load".into()],
        };
        let mut out = Vec::new();
        render_list(&record, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }

    #[test]
    fn amounts() {
        assert_eq!(
            (time(0.000_012_3), time(0.5), time(12.0)),
            ("12.3 µs".into(), "500 ms".into(), "12.0 s".into())
        );
        assert_eq!(
            (time(0.000_999_7), time(0.099_97), time(0.999_9)),
            ("1.00 ms".into(), "100 ms".into(), "1.00 s".into())
        );
        assert_eq!(
            (count(1_234_567.0), count(412_300.0), count(12.0)),
            ("1.23 M".into(), "412 k".into(), "12".into())
        );
        assert_eq!(amount(1500.0, "bytes"), "1500 bytes");
        assert_eq!(amount(12.5e6, "bytes/s"), "12.5 MB/s");
    }
}
