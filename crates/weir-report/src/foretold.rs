//! A forecast compared with the result, in words that say which of the two was greater.

use crate::figures::sane;

/// `8 % slower than predicted`, of rates.
pub fn of_rate(predicted: f64, reached: f64) -> String {
    beside(sane(reached), sane(predicted), ["faster", "slower"])
}

/// `80 % longer than predicted`, of times.
pub fn of_time(predicted: f64, took: f64) -> String {
    beside(sane(took), sane(predicted), ["longer", "shorter"])
}

fn beside(came: f64, predicted: f64, [more, less]: [&str; 2]) -> String {
    let percent = (100.0 * (came / predicted.max(1e-9) - 1.0)).min(1e4).round();
    if percent == 0.0 {
        return "as predicted".to_owned();
    }
    let word = if percent > 0.0 { more } else { less };
    format!("{} % {word} than predicted", percent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_more_is_said_by_a_word() {
        assert_eq!(of_rate(11.9e6, 11.0e6), "8 % slower than predicted");
        assert_eq!(of_rate(17.7e6, 18.2e6), "3 % faster than predicted");
        assert_eq!(of_rate(1e6, 1.001e6), "as predicted");
        assert_eq!(of_time(0.0422, 0.0759), "80 % longer than predicted");
        assert_eq!(of_time(2.0, 1.0), "50 % shorter than predicted");
        assert_eq!(of_rate(0.0, f64::NAN), "100 % slower than predicted");
    }
}
