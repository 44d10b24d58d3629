//! The hours of a day within which a fleet works: `22:00-06:00`, in UTC, by the ledger's clock.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Milliseconds of a day.
const DAY: i64 = 24 * 60 * 60 * 1000;

/// Hours of each day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Minutes since midnight.
    from: u16,
    /// Before `from`: of the day after.
    to: u16,
}

impl Window {
    /// How long until it opens, at this time in milliseconds since 1970; `None`: it is open.
    pub fn opens_in(self, now: i64) -> Option<Duration> {
        let today = now.rem_euclid(DAY);
        let [from, to] = [self.from, self.to].map(|minutes| i64::from(minutes) * 60_000);
        let is_open = match from < to {
            true => (from..to).contains(&today),
            false => today >= from || today < to,
        };
        (!is_open).then(|| Duration::from_millis((from - today).rem_euclid(DAY).unsigned_abs()))
    }
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Window, String> {
        let minutes = |text: &str| {
            let (hours, minutes) = text.trim().split_once(':')?;
            let digits = |text: &str| text.len() <= 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            let both = digits(hours) && digits(minutes);
            let (hours, minutes): (u16, u16) = (hours.parse().ok()?, minutes.parse().ok()?);
            (both && hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
        };
        let both = text.split_once('-').and_then(|(from, to)| Some((minutes(from)?, minutes(to)?)));
        match both {
            Some((from, to)) if from != to => Ok(Window { from, to }),
            _ => Err(format!(
                "invalid window '{}': expected two times of a day in UTC, as in 22:00-06:00",
                weir_units::quoted(text)
            )),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Window { from, to } = self;
        write!(f, "{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, to / 60, to % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_may_go_over_midnight() {
        let opens = |window: &str, hour: i64| {
            let window: Window = window.parse().unwrap();
            window.opens_in(hour * 3_600_000 + 40 * DAY).map(|wait| wait.as_secs() / 3600)
        };
        assert_eq!(
            [21, 22, 0, 5, 6].map(|hour| opens("22:00-06:00", hour)),
            [Some(1), None, None, None, Some(16)]
        );
        assert_eq!([7, 8, 17, 18].map(|hour| opens("8:00-18:00", hour)), [Some(1), None, None, Some(14)]);
        for bad in ["", "8-9", "24:00-1:00", "1:60-2:00", "1:00-1:00", "+1:00-2:00", "1:00"] {
            assert!(bad.parse::<Window>().is_err(), "{bad}");
        }
        assert_eq!("8:05-22:00".parse::<Window>().unwrap().to_string(), "08:05-22:00");
    }
}
