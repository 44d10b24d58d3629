//! Numbers that people write with a unit: what `1.5M`, `10k`, `200ms` or `2m` mean where weir follows another
//! program. The grammar is here, once; who asks says which units it takes, what is sensible, and what to
//! write instead.
//!
//! Sizes and rates in weir's own way are [`Bytes`](crate::Bytes) and [`Rate`](crate::Rate); rsync's have two
//! more rules and stand beside its flags.

/// Digits, perhaps with a fraction, and at most one of `letters` in either case, each of which stands for one
/// more power of `step`: `scaled("1.5M", "kmg", 1000.0)` is 1.5 million.
///
/// ```
/// use weir_units::numbers::scaled;
/// assert_eq!(scaled("1.5M", "kmg", 1000.0), Some(1_500_000.0));
/// assert_eq!(scaled("4k", "kmg", 1024.0), Some(4096.0));
/// assert_eq!(scaled("4T", "kmg", 1024.0), None);
/// ```
pub fn scaled(text: &str, letters: &str, step: f64) -> Option<f64> {
    let last = text.chars().next_back()?;
    let found = letters.chars().zip(1..).find(|(letter, _)| last.eq_ignore_ascii_case(letter));
    let (digits, power) = found.map_or((text, 0), |(_, power)| (&text[..text.len() - 1], power));
    plain(digits).map(|number| number * step.powi(power))
}

/// A time in seconds: digits, perhaps with a fraction, and one of `units` (`us`, `ms`, `s`, `m`, `h`; an
/// empty one where a bare number is seconds).
///
/// ```
/// use weir_units::numbers::seconds;
/// assert_eq!(seconds("2.5", &["", "s"]), Some(2.5));
/// assert_eq!(seconds("200ms", &["ms", "s"]), Some(0.2));
/// assert_eq!(seconds("200", &["ms", "s"]), None);
/// ```
pub fn seconds(text: &str, units: &[&str]) -> Option<f64> {
    let end = text.find(|char: char| char.is_ascii_alphabetic()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let factor = match unit {
        _ if !units.contains(&unit) => return None,
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    plain(digits.trim_end()).map(|number| number * factor)
}

/// A number as people write one: no sign, no exponent, no word for the infinite.
fn plain(digits: &str) -> Option<f64> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    digits.parse().ok().filter(|number: &f64| is_plain && number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_number_is_none() {
        for text in ["", "k", "-1", "+1", "1e9", "nan", "inf", "1x", "10 k", "ä", "1kk", "1..2", "k1"] {
            assert_eq!(scaled(text, "kmgtp", 1000.0), None, "{text}");
        }
        for text in ["", "s", "-1s", "1e3s", "infs", "nan", "5m", "5 years", "5sms", "1 2s"] {
            assert_eq!(seconds(text, &["", "us", "ms", "s"]), None, "{text}");
        }
    }

    #[test]
    fn units_are_those_that_are_asked_for() {
        let all = ["", "us", "ms", "s", "m", "h"];
        let found = ["7", "7us", "7ms", "7s", "7m", "7h", "7 ms"].map(|text| seconds(text, &all).unwrap());
        assert_eq!(found, [7.0, 7.0 * 1e-6, 7.0 * 1e-3, 7.0, 420.0, 25_200.0, 7.0 * 1e-3]);
        assert_eq!(scaled("3P", "kmgtp", 1000.0), Some(3e15));
    }

    proptest! {
        #[test]
        fn any_text_is_a_number_or_none(text in ".{0,12}") {
            let _ = scaled(&text, "kmgtp", 1024.0);
            let _ = seconds(&text, &["", "us", "ms", "s", "m", "h"]);
        }
    }
}
