//! Values as people write them in a scenario: each is checked where it is read, so that an error has its
//! line.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};
use weir_units::numbers::seconds;

/// Longer one-way delays are typing errors: the round trip to the Moon takes 2.6 s.
const LONGEST_DELAY: f64 = 10.0;

/// The congestion controls of Linux (net/ipv4/tcp_*.c).
const CONGESTION_CONTROLS: [&str; 16] = [
    "reno",
    "cubic",
    "bbr",
    "bic",
    "cdg",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "scalable",
    "vegas",
    "veno",
    "westwood",
];

/// Anything that is written as text and parsed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Text<T>(pub T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text<T>, D::Error> {
        String::deserialize(deserializer)?.parse().map(Text).map_err(D::Error::custom)
    }
}

/// `20ms`, `1.5s`, `500us`: not negative, 10 s at most.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        match seconds(text, &["us", "ms", "s"]) {
            Some(seconds) if seconds > LONGEST_DELAY => Err(format!("a time of {text}: at most 10 s")),
            Some(seconds) => Ok(Span(Duration::from_secs_f64(seconds))),
            None => Err(format!("invalid time '{text}': expected digits and us, ms or s, such as 20ms")),
        }
    }
}

/// One that Linux has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CongestionControl(pub String);

impl FromStr for CongestionControl {
    type Err = String;

    fn from_str(text: &str) -> Result<CongestionControl, String> {
        if CONGESTION_CONTROLS.contains(&text) {
            Ok(CongestionControl(text.to_owned()))
        } else {
            Err(format!(
                "unknown congestion control '{text}': expected one of {}",
                CONGESTION_CONTROLS.join(", ")
            ))
        }
    }
}

/// `256KiB` or `100 packets`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueText(pub crate::path::QueueLimit);

impl FromStr for QueueText {
    type Err = String;

    fn from_str(text: &str) -> Result<QueueText, String> {
        use crate::path::QueueLimit;
        if let Some(count) = text.strip_suffix("packets") {
            return match count.trim_end().parse() {
                Ok(count) if count > 0 => Ok(QueueText(QueueLimit::Packets(count))),
                _ => Err(format!("invalid queue '{text}': expected such as 256KiB or 100 packets")),
            };
        }
        match text.parse::<weir_units::Bytes>() {
            Ok(bytes) if bytes.0 > 0 => Ok(QueueText(QueueLimit::Bytes(bytes))),
            _ => Err(format!("invalid queue '{text}': expected such as 256KiB or 100 packets")),
        }
    }
}
