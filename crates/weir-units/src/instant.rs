//! Instants as stores and files of credentials write them (`2009-10-12T17:50:30.000Z`, RFC 3339).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The instant that `text` names; its zone is `Z`, an offset (`+01:00`, `-0500`), or `UTC` as in caches of
/// Amazon's tools.
pub fn parse(text: &str) -> Option<SystemTime> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let zone_at = time.find(|c: char| !(c.is_ascii_digit() || matches!(c, ':' | '.')))?;
    let (time, zone) = time.split_at(zone_at);
    let east = east_of_greenwich(zone)?;
    let number = |text: &str, most: i64| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| is_number && *number <= most)
    };
    let mut parts = date.splitn(3, '-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let days = days(number(year, 9999)?, number(month, 12)?, number(day, 31)?)?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = time.splitn(3, ':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    // 60 is a leap second.
    let seconds = number(hour, 23)? * 3600 + number(minute, 59)? * 60 + number(second, 60)?;
    let nanoseconds = match fraction {
        "" => 0,
        digits => number(&format!("{:0<9.9}", digits), 999_999_999)?,
    };
    at(days * 86_400 + seconds - east, u32::try_from(nanoseconds).ok()?)
}

/// Seconds.
fn east_of_greenwich(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z" | "UTC") {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let digits = zone.strip_prefix(['+', '-'])?.replace(':', "");
    if digits.len() != 4 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes): (i64, i64) = (digits[..2].parse().ok()?, digits[2..].parse().ok()?);
    Some(sign * (hours * 3600 + minutes * 60))
}

/// `2009-10-12T17:50:30Z`.
pub fn formatted(time: SystemTime) -> String {
    format!("{}Z", shown(time).replace(' ', "T"))
}

/// That many seconds and nanoseconds after 1970, or before.
pub fn at(seconds: i64, nanoseconds: u32) -> Option<SystemTime> {
    let span = Duration::from_secs(seconds.unsigned_abs());
    let second = if seconds < 0 { UNIX_EPOCH.checked_sub(span) } else { UNIX_EPOCH.checked_add(span) };
    second?.checked_add(Duration::from_nanos(u64::from(nanoseconds)))
}

/// Seconds and nanoseconds after 1970.
pub fn since_epoch(time: SystemTime) -> (i64, u32) {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (after.as_secs().cast_signed(), after.subsec_nanos()),
        Err(before) => {
            let span = before.duration();
            match span.subsec_nanos() {
                0 => (-span.as_secs().cast_signed(), 0),
                rest => (-span.as_secs().cast_signed() - 1, 1_000_000_000 - rest),
            }
        }
    }
}

/// `2009-10-12 17:50:30`.
pub fn shown(time: SystemTime) -> String {
    let (seconds, _) = since_epoch(time);
    let (year, month, day) = date(seconds.div_euclid(86_400));
    let rest = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// The time of a file as metadata have it: seconds since 1970 with a fraction, as rclone writes it and reads
/// it.
pub fn mtime_text(time: SystemTime) -> String {
    let (seconds, nanoseconds) = since_epoch(time);
    match (seconds, nanoseconds) {
        (_, 0) => seconds.to_string(),
        // -1 s and 0.25 s are -0.75 s.
        (..0, _) => {
            let sign = if seconds == -1 { "-" } else { "" };
            let text = format!("{sign}{}.{:09}", seconds + 1, 1_000_000_000 - nanoseconds);
            text.trim_end_matches('0').to_owned()
        }
        _ => format!("{seconds}.{nanoseconds:09}").trim_end_matches('0').to_owned(),
    }
}

/// Reads what [`mtime_text`] and rclone write (and s3fs, without a fraction).
pub fn mtime(text: &str) -> Option<SystemTime> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole.strip_prefix('-').unwrap_or(whole)) || !is_digits(fraction) {
        return None;
    }
    let seconds: i64 = whole.parse().ok()?;
    let nanoseconds: u32 = format!("{fraction:0<9.9}").parse().ok()?;
    match (whole.starts_with('-'), nanoseconds) {
        (true, 1..) => at(seconds.checked_sub(1)?, 1_000_000_000 - nanoseconds),
        _ => at(seconds, nanoseconds),
    }
}

/// Days from 1970 to a date of the Gregorian calendar (Howard Hinnant, days_from_civil).
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if month < 1 || day < 1 {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// The date of a day after 1970 (civil_from_days).
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_and_shown() {
        for (text, seconds, nanoseconds, said) in [
            ("1970-01-01T00:00:00Z", 0, 0, "1970-01-01 00:00:00"),
            ("2009-10-12T17:50:30.000Z", 1_255_369_830, 0, "2009-10-12 17:50:30"),
            ("2024-02-29t23:59:59.5+00:00", 1_709_251_199, 500_000_000, "2024-02-29 23:59:59"),
            ("1969-12-31T23:59:59.123456789123Z", -1, 123_456_789, "1969-12-31 23:59:59"),
            ("9999-12-31T23:59:60Z", 253_402_300_800, 0, "10000-01-01 00:00:00"),
        ] {
            let time = parse(text).unwrap();
            assert_eq!(since_epoch(time), (seconds, nanoseconds), "{text}");
            assert_eq!(at(seconds, nanoseconds), Some(time));
            assert_eq!(shown(time), said);
        }
        let noon = parse("2026-11-26T12:00:00Z").unwrap();
        for text in ["2026-11-26T12:00:00UTC", "2026-11-26T13:30:00+01:30", "2026-11-26 07:00:00.0-0500"] {
            assert_eq!(parse(text), Some(noon), "{text}");
        }
        assert_eq!(formatted(noon), "2026-11-26T12:00:00Z");
        for bad in [
            "",
            "2009-10-12",
            "2009-13-12T00:00:00Z",
            "2009-00-12T00:00:00Z",
            "2009-10-12T24:00:00Z",
            "x-y-zT1:2:3Z",
            "2026-11-26T12:00:00",
            "2026-11-26T12:00:00+1",
            "2026-11-26T12:00:00\u{e9}",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_in_metadata() {
        for (text, seconds, nanoseconds) in [
            ("1700000000", 1_700_000_000, 0),
            ("1700000000.123456789", 1_700_000_000, 123_456_789),
            ("1700000000.5", 1_700_000_000, 500_000_000),
            ("-0.75", -1, 250_000_000),
            ("-2.5", -3, 500_000_000),
            ("0", 0, 0),
        ] {
            let time = at(seconds, nanoseconds).unwrap();
            assert_eq!(mtime(text), Some(time), "{text}");
            assert_eq!(mtime_text(time), text);
        }
        for bad in ["", "x", "1.x", "-", ".5", "1e9", "99999999999999999999"] {
            assert_eq!(mtime(bad), None, "{bad}");
        }
    }
}
