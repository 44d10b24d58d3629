//! What the advice would bring: the rate that was reached beside those that are predicted.

use super::super::figure::Table;
use super::super::markup::Markup;
use super::super::words::rate;
use super::bars::{self, Bar};
use crate::schema::AdviceRecord;

/// Writes the figure; nothing where nothing is predicted.
pub fn render(page: &mut Markup, advice: &[AdviceRecord], reached: f64) {
    let mut bars =
        vec![Bar { name: "as it was".to_owned(), value: reached, words: rate(reached), fill: None }];
    let mut table = Table::new(&["advice", "rate", "times"]);
    table.row(["as it was".to_owned(), rate(reached), "1".to_owned()]);
    for (index, one) in advice.iter().enumerate().take(20) {
        let Some(predicted) = one.predicted_rate else { continue };
        bars.push(Bar {
            name: format!("{}. {}", index + 1, one.action),
            value: predicted,
            words: format!("{}, {}", rate(predicted), times(predicted, reached)),
            fill: None,
        });
        table.row([format!("{}. {}", index + 1, one.action), rate(predicted), times(predicted, reached)]);
    }
    if bars.len() > 1 {
        let says = "The rate of this run, and what each change is predicted to bring, all else equal.";
        bars::render(page, "What it would bring", says, &bars, table);
    }
}

/// `3.2 ×`; below a tenth three significant digits, since `0.0 ×` would mean none at all.
pub fn times(then: f64, now: f64) -> String {
    if !(now > 0.0 && then.is_finite()) {
        return "–".to_owned();
    }
    let ratio = (then / now).clamp(0.0, 9999.0);
    let (mut digits, mut size) = (1, ratio);
    if ratio > 0.0 && ratio < LITTLE {
        digits = 3;
        while size < LITTLE && digits < 9 {
            (size, digits) = (size * 10.0, digits + 1);
        }
    }
    format!("{ratio:.digits$} ×")
}

/// Below this, one decimal would round to `0.0` or say too little.
const LITTLE: f64 = 0.0995;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_part_is_not_nothing() {
        let cases = [(3.2, "3.2 ×"), (1.0, "1.0 ×"), (0.1, "0.1 ×"), (0.0123, "0.0123 ×"), (0.0, "0.0 ×")];
        for (ratio, text) in cases {
            assert_eq!(times(ratio, 1.0), text);
        }
        assert_eq!(times(1.0, 0.0), "–");
    }
}
