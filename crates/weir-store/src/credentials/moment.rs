//! When credentials run out, as services and files write it: RFC 3339, and its looser relatives.

use std::time::{Duration, SystemTime};

/// `2026-11-26T19:52:25Z`; also with a fraction, with an offset (`+01:00`, `+0100`), and with `UTC` for `Z`.
pub fn parse(text: &str) -> Option<SystemTime> {
    let text = text.trim();
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let zone_at = rest.find(|c: char| !(c.is_ascii_digit() || matches!(c, ':' | '.')))?;
    let (time, zone) = rest.split_at(zone_at);
    let days = days_of(&numbers::<3>(date, '-')?)?;
    let [hour, minute, second] = numbers::<3>(time.split('.').next()?, ':')?;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = days * 86_400 + i64::from(hour * 3600 + minute * 60 + second) - offset(zone)?;
    let since = Duration::from_secs(u64::try_from(seconds).ok()?);
    SystemTime::UNIX_EPOCH.checked_add(since)
}

/// `time` as `2026-11-26T19:52:25Z`.
pub fn format(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, second) = (since / 86_400, since % 86_400);
    // Days since 0000-03-01, so that a leap day ends its year (Howard Hinnant, civil_from_days).
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Seconds east of Greenwich.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z" | "UTC" | "GMT") {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let digits: String = zone.strip_prefix(['+', '-'])?.chars().filter(|c| *c != ':').collect();
    if digits.len() != 4 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes): (i64, i64) = (digits[..2].parse().ok()?, digits[2..].parse().ok()?);
    Some(sign * (hours * 3600 + minutes * 60))
}

fn numbers<const N: usize>(text: &str, between: char) -> Option<[u32; N]> {
    let of = |part: &str| part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok())?;
    let parts: Vec<u32> = text.split(between).map(of).collect::<Option<_>>()?;
    parts.try_into().ok()
}

/// Days since 1970-01-01 in the civil calendar (Howard Hinnant, days_from_civil).
fn days_of(&[year, month, day]: &[u32; 3]) -> Option<i64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = i64::from(year) - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * i64::from((month + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_in_all_its_forms() {
        let at = |text| parse(text).map(|at| at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs());
        assert_eq!(at("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(at("2000-03-01T00:00:00Z"), Some(951_868_800));
        assert_eq!(at("2026-11-26T19:52:25Z"), Some(1_795_722_745));
        for text in [
            "2026-11-26T19:52:25.123Z",
            "2026-11-26T19:52:25UTC",
            "2026-11-26T20:52:25+01:00",
            "2026-11-26 14:52:25-0500",
        ] {
            assert_eq!(at(text), Some(1_795_722_745), "{text}");
        }
        for days in (0..40_000).step_by(17) {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(days * 86_400 + 3_723);
            assert_eq!(parse(&format(time)), Some(time));
        }
        assert_eq!(
            format(SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_722_745)),
            "2026-11-26T19:52:25Z"
        );
        for text in
            ["", "2026-11-26", "2026-13-01T00:00:00Z", "2026-11-26T19:52:25", "é-é-éT1:1:1Z", "T", "+T:"]
        {
            assert_eq!(at(text), None, "{text}");
        }
    }
}
