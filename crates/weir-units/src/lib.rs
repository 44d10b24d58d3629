//! What people write and read in all of weir: bytes and rates, the system's word for a failure, files of a
//! bounded size, lists; and what many crates need once: [`stats`], [`backoff`], [`pacer`] and [`limiter`],
//! [`numbers`] with units, and of the system [`atomic_file`], [`boot`], [`nofile`], [`program`]
//! and [`threads`].
//!
//! Answers: what does `100Mbit` mean, and how is 1 953 125 000 bytes a second printed? Decimal prefixes (k,
//! M, G, T) are powers of 1000, `Ki`, `Mi`, `Gi`, `Ti` powers of 1024; `bit` divides by 8. Everything inside
//! weir and in JSON is bytes, seconds and bytes per second.
//!
//! ```
//! use weir_units::{Bytes, Rate};
//! assert_eq!("64KiB".parse::<Bytes>().unwrap(), Bytes(65536));
//! assert_eq!("100Mbit".parse::<Rate>().unwrap(), Rate(12_500_000.0));
//! assert_eq!(Rate(12_500_000.0).to_string(), "12.5 MB/s");
//! ```
#![deny(unsafe_code)]

pub mod atomic_file;
pub mod backoff;
pub mod boot;
pub mod limiter;
pub mod nofile;
pub mod numbers;
pub mod pacer;
pub mod program;
pub mod stats;
pub mod threads;

mod bounded;
mod cause;
mod counted;
mod foreign;
pub mod instant;
mod lines;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use bounded::{open_file, read_file, read_text, read_up_to};
pub use cause::{plain, unreached, unresolved};
pub use counted::counted;
pub use foreign::{push_html, quoted};
pub use lines::{CodingError, control, lines, list_bytes, list_text};

/// A number of bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// Bytes per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(pub f64);

/// Text that is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {kind} '{text}': expected {expected}")]
pub struct ParseError {
    kind: &'static str,
    text: String,
    expected: &'static str,
}

impl Rate {
    /// The rate that moves `bytes` in `span`; zero for an empty span.
    pub fn of(bytes: u64, span: Duration) -> Rate {
        let seconds = span.as_secs_f64();
        Rate(if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 })
    }

    /// Bits per second.
    pub fn bits(self) -> f64 {
        self.0 * 8.0
    }

    /// How long `bytes` take at this rate; `None` when the rate is not positive.
    pub fn time_for(self, bytes: u64) -> Option<Duration> {
        let seconds = bytes as f64 / self.0;
        (self.0 > 0.0 && seconds.is_finite() && seconds < 1e15).then(|| Duration::from_secs_f64(seconds))
    }
}

/// `1.95 GB`: three significant digits, decimal prefixes, as disks and links are sold.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(f, self.0 as f64, &["B", "KB", "MB", "GB", "TB", "PB"])
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(f, self.0, &["B/s", "KB/s", "MB/s", "GB/s", "TB/s", "PB/s"])
    }
}

fn scaled(f: &mut fmt::Formatter<'_>, value: f64, names: &[&str]) -> fmt::Result {
    let mut value = value;
    let mut name = 0;
    // 999.5 would print as 1000 with three digits, so it moves on to the next prefix.
    while value.abs() >= 999.5 && name + 1 < names.len() {
        value /= 1000.0;
        name += 1;
    }
    let digits = if name == 0 { 0 } else { decimals(value) };
    f.pad(&format!("{value:.digits$} {}", names[name]))
}

/// Decimals that make three digits of a value below a thousand, as it is printed: 99.95 would print as 100.0.
pub fn decimals(value: f64) -> usize {
    match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    }
}

impl FromStr for Bytes {
    type Err = ParseError;

    /// `4096`, `64k`, `64KiB`, `1.5G`.
    fn from_str(text: &str) -> Result<Bytes, ParseError> {
        let expected = "digits followed by k, M, G or Ki, Mi, Gi, such as 250M or 64KiB";
        let error = || ParseError { kind: "size", text: text.to_owned(), expected };
        let (value, unit) = number_and_unit(text).ok_or_else(error)?;
        let unit = unit.strip_suffix('B').or_else(|| unit.strip_suffix('b')).unwrap_or(unit);
        let bytes = value * prefix(unit).ok_or_else(error)?;
        if bytes < u64::MAX as f64 { Ok(Bytes(bytes.round() as u64)) } else { Err(error()) }
    }
}

impl FromStr for Rate {
    type Err = ParseError;

    /// `250M`, `100MB/s`, `64KiB/s`, `100Mbit`, `1Gbit/s`.
    fn from_str(text: &str) -> Result<Rate, ParseError> {
        let expected = "digits followed by k, M or G, such as 250M, 100MB/s or 100Mbit";
        let error = || ParseError { kind: "rate", text: text.to_owned(), expected };
        let (value, unit) = number_and_unit(text).ok_or_else(error)?;
        let unit = unit.strip_suffix("/s").or_else(|| unit.strip_suffix("ps")).unwrap_or(unit);
        let (unit, per_byte) = match unit.strip_suffix("bit") {
            Some(unit) => (unit, 8.0),
            None => (unit.strip_suffix('B').unwrap_or(unit), 1.0),
        };
        let rate = value * prefix(unit).ok_or_else(error)? / per_byte;
        if rate > 0.0 && rate.is_finite() { Ok(Rate(rate)) } else { Err(error()) }
    }
}

fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let value: f64 = text[..end].parse().ok()?;
    Some((value, text[end..].trim_start()))
}

fn prefix(unit: &str) -> Option<f64> {
    Some(match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        "g" | "G" => 1e9,
        "t" | "T" => 1e12,
        "ki" | "Ki" => 1024.0,
        "mi" | "Mi" => 1024.0 * 1024.0,
        "gi" | "Gi" => 1024.0 * 1024.0 * 1024.0,
        "ti" | "Ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    })
}

/// `640 µs`, `12.5 ms`, `3.2 s`, `4 min 05 s`: a span as people say it.
pub fn human_duration(span: Duration) -> String {
    let seconds = span.as_secs_f64();
    if seconds < 119.95 {
        let (value, unit) = in_unit(seconds);
        let digits = match unit {
            "µs" => 0,
            "ms" => decimals(value).min(1),
            _ => 1,
        };
        format!("{value:.digits$} {unit}")
    } else if seconds < 7200.0 {
        format!("{} min {:02} s", seconds as u64 / 60, seconds as u64 % 60)
    } else {
        format!("{} h {:02} min", seconds as u64 / 3600, seconds as u64 / 60 % 60)
    }
}

/// A time below some minutes in the unit that fits it, and that unit: 999.5 of one would print as 1000.
pub fn in_unit(seconds: f64) -> (f64, &'static str) {
    match seconds.abs() {
        size if size < 999.5e-6 => (seconds * 1e6, "µs"),
        size if size < 0.9995 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_take_decimal_and_binary_prefixes() {
        for (text, bytes) in [
            ("0", 0),
            ("1k", 1000),
            ("1KiB", 1024),
            ("1.5M", 1_500_000),
            ("2Gi", 2 << 30),
            ("7 MB", 7_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "k", "1x", "-1", "1..2", "99999999999999999999G", "1Mbit"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn rates_take_bits_and_bytes() {
        for (text, rate) in
            [("100Mbit", 12.5e6), ("1Gbit/s", 125e6), ("8M", 8e6), ("62MB/s", 62e6), ("64KiB/s", 65536.0)]
        {
            assert_eq!(text.parse(), Ok(Rate(rate)), "{text}");
        }
        for text in ["0", "10x", "fast", "M", "1/s/s"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        assert_eq!(
            "10x".parse::<Rate>().unwrap_err().to_string(),
            "invalid rate '10x': expected digits followed by k, M or G, such as 250M, 100MB/s or 100Mbit"
        );
    }

    #[test]
    fn three_digits_are_shown() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 KB"),
            (12_345, "12.3 KB"),
            (999_600, "1.00 MB"),
            (2 << 30, "2.15 GB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn a_span_moves_on_to_the_next_unit_where_its_digits_do() {
        for (nanos, text) in [
            (640_000, "640 µs"),
            (999_400, "999 µs"),
            (999_600, "1.0 ms"),
            (12_500_000, "12.5 ms"),
            (99_900_000, "99.9 ms"),
            (99_960_000, "100 ms"),
            (999_400_000, "999 ms"),
            (999_960_000, "1.0 s"),
            (3_200_000_000, "3.2 s"),
            (119_900_000_000, "119.9 s"),
            (119_960_000_000, "1 min 59 s"),
            (245_000_000_000, "4 min 05 s"),
        ] {
            assert_eq!(human_duration(Duration::from_nanos(nanos)), text);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_value_or_an_error(text in ".{0,24}") {
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<Rate>();
        }

        #[test]
        fn plain_digits_are_bytes(n in 0u64..(1 << 50)) {
            prop_assert_eq!(n.to_string().parse::<Bytes>().unwrap(), Bytes(n));
        }
    }
}
