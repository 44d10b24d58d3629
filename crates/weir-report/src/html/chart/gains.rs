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

/// `3.2 x`.
pub fn times(then: f64, now: f64) -> String {
    if now > 0.0 && then.is_finite() {
        format!("{:.1} ×", (then / now).clamp(0.0, 9999.0))
    } else {
        "–".to_owned()
    }
}
