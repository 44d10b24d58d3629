//! Values that several commands take: connections, ports, addresses, times and sizes.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use weir_units::numbers::seconds;
use weir_units::{Bytes, Rate};

pub(super) fn parse_lanes(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count @ 1..=64) => Ok(count),
        _ => Err("expected a number of connections from 1 to 64 \
                  (to continue a download no flag is needed: give the same command again; curl's -c FILE is --save-cookies FILE)"
            .to_owned()),
    }
}

pub(super) fn parse_pid(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(number @ 1..) => Ok(number),
        _ => Err("expected the number of a process; pgrep -n NAME finds it".to_owned()),
    }
}

pub(super) fn parse_port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(port @ 1..) => Ok(port),
        _ => Err("expected a port from 1 to 65535".to_owned()),
    }
}

/// `127.0.0.1:8000`, `[::1]:8000`, `localhost:8000`; `8000` and `:8000` on this machine alone.
pub(super) fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").or(text.strip_prefix(':')).unwrap_or(text);
    match (port.parse::<u16>(), text.parse()) {
        (Ok(port), _) => Ok(SocketAddr::from(([127, 0, 0, 1], port))),
        (_, Ok(address)) => Ok(address),
        _ => Err("expected ADDRESS:PORT, such as 127.0.0.1:8000, or 0.0.0.0:8000 for the network".to_owned()),
    }
}

/// The highest rate allowed; none is no limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit(pub Option<Rate>);

impl RateLimit {
    /// This many bytes a second; 0 is no limit.
    pub(super) fn of(rate: f64) -> Result<RateLimit, String> {
        match rate {
            0.0 => Ok(RateLimit(None)),
            1.0.. => Ok(RateLimit(Some(Rate(rate)))),
            _ => Err("expected 1 B/s or more, or 0 for no limit".to_owned()),
        }
    }
}

/// `250M`, `100Mbit`; `0` for no limit.
pub(super) fn parse_rate_limit(text: &str) -> Result<RateLimit, String> {
    // A rate of a link is never 0.
    if text.parse::<f64>() == Ok(0.0) {
        return RateLimit::of(0.0);
    }
    RateLimit::of(text.parse::<Rate>().map_err(|error| error.to_string())?.0)
}

/// `30`, `2.5`: seconds.
pub(super) fn parse_seconds(text: &str) -> Result<Duration, String> {
    match seconds(text, &["", "s"]) {
        Some(seconds) if (0.001..=86400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected seconds, such as 30 or 2.5".to_owned()),
    }
}

/// `200ms`, `2s`, `2`.
pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    match text.ends_with("ms") {
        true => match seconds(text, &["ms"]) {
            Some(seconds) if seconds <= 86_400.0 => Ok(Duration::from_secs_f64(seconds)),
            _ => Err("expected a time, such as 200ms or 2s".to_owned()),
        },
        false => parse_seconds(text),
    }
}

/// A time, or 0, in any unit or none, for none at all.
pub(super) fn parse_pause(text: &str) -> Result<Duration, String> {
    match seconds(text, &["", "s", "ms"]) {
        Some(0.0) => Ok(Duration::ZERO),
        _ => parse_time(text),
    }
}

/// A name that a certificate may have: an address, or letters of host names.
pub(super) fn parse_tls_name(text: &str) -> Result<String, String> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._*:".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_letter) {
        true => Ok(text.to_owned()),
        false => Err("expected a host name or an address, such as files.example or 192.0.2.7".to_owned()),
    }
}

/// A time that is sensible; `expected` says which are.
pub(super) fn time_within(
    text: &str,
    sensible: RangeInclusive<Duration>,
    expected: &str,
) -> Result<Duration, String> {
    let time = parse_time(text)?;
    if sensible.contains(&time) { Ok(time) } else { Err(expected.to_owned()) }
}

/// A size that is sensible, in bytes.
pub(crate) fn size_within(
    text: &str,
    sensible: RangeInclusive<u64>,
    expected: &str,
) -> Result<Bytes, String> {
    let size = text.parse::<Bytes>().map_err(|error| error.to_string())?;
    if sensible.contains(&size.0) { Ok(size) } else { Err(expected.to_owned()) }
}

/// `80ms`, `0.1s`: what is as often milliseconds as seconds to people says which.
pub(super) fn parse_span(text: &str) -> Result<Duration, String> {
    match text.ends_with('s') {
        true => parse_time(text),
        false => Err("expected a time with its unit, such as 80ms or 0.2s".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_pause_is_0_in_any_unit() {
        for (text, pause) in [("0", 0), ("0s", 0), ("0ms", 0), ("0.0", 0), ("200ms", 200), ("2", 2000)] {
            assert_eq!(parse_pause(text), Ok(Duration::from_millis(pause)), "{text}");
        }
        assert!(parse_pause("").is_err() && parse_pause("-1").is_err());
    }

    #[test]
    fn no_limit_is_0_and_less_than_a_byte_a_second_is_none() {
        for (text, limit) in
            [("0", None), ("0.0", None), ("1", Some(1.0)), ("8bit", Some(1.0)), ("10M", Some(1e7))]
        {
            assert_eq!(parse_rate_limit(text), Ok(RateLimit(limit.map(Rate))), "{text}");
        }
        for text in ["0.5", "1bit", "-1", "", "x", "inf", "NaN", "1e6"] {
            assert!(parse_rate_limit(text).is_err(), "{text}");
        }
    }
}
