//! A share of packets, written `0.1%` or `0.001`.

use std::fmt;
use std::str::FromStr;

/// From 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
pub struct Share(pub f64);

/// Text that is no share.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid share '{0}': expected a part of one, such as 0.1% or 0.001")]
pub struct ShareError(String);

impl Share {
    /// No packet.
    pub const NONE: Share = Share(0.0);
    /// Every packet.
    pub const ALL: Share = Share(1.0);
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Share, ShareError> {
        let (digits, unit) = match text.strip_suffix('%') {
            Some(digits) => (digits, 0.01),
            None => (text, 1.0),
        };
        match digits.trim_end().parse::<f64>() {
            Ok(number) if (0.0..=1.0).contains(&(number * unit)) => Ok(Share(number * unit)),
            _ => Err(ShareError(text.to_owned())),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Six digits, without the noise of binary fractions: 0.1 % is 0.1, not 0.10000000000000001.
        let percent = format!("{:.6}", self.0 * 100.0);
        write!(f, "{}%", percent.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_and_parts_are_the_same() {
        assert_eq!("0.1%".parse::<Share>().unwrap().to_string(), "0.1%");
        assert_eq!("0.001".parse::<Share>().unwrap().to_string(), "0.1%");
        assert_eq!("100%".parse::<Share>(), Ok(Share::ALL));
        assert_eq!("0".parse::<Share>(), Ok(Share::NONE));
    }

    #[test]
    fn what_is_no_share_is_refused() {
        for text in ["", "%", "-1%", "101%", "1.5", "NaN", "inf", "1 in 5"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }
}
