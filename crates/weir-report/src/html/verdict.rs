//! What held a run, why that is so, who is innocent, and what to change.

use super::chart::{gains, shares};
use super::limits;
use super::markup::Markup;
use super::page::section;
use super::words::rate;
use crate::schema::{AdviceRecord, VerdictRecord};

/// Lines of a list, at most: a record may hold any number.
const MOST: usize = 100;

/// Writes all of it.
pub fn render(page: &mut Markup, verdict: &VerdictRecord, reached: f64, level: &'static str) {
    section(page, level, "Why", |page| {
        shares::render(page, verdict);
        page.within("div", &[("class", "columns")], |page| {
            list(page, "The evidence", &verdict.evidence);
            list(page, "Ruled out", &verdict.innocent);
            list(page, "Not visible from here", &verdict.not_visible);
            list(page, "Not seen", &verdict.missing);
        });
    });
    section(page, level, "What to change", |page| advice(page, &verdict.advice, reached));
}

fn list(page: &mut Markup, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    page.within("div", &[("class", "card")], |page| {
        page.leaf("h3", &[], title);
        page.within("ul", &[("class", "plain")], |page| {
            for line in lines.iter().take(MOST) {
                page.within("li", &[], |page| one_line(page, line));
            }
            if lines.len() > MOST {
                page.leaf("li", &[], &format!("{} more", lines.len() - MOST));
            }
        });
    });
}

/// `disk: numbers` has its limit in strong letters.
fn one_line(page: &mut Markup, line: &str) {
    match line.split_once(": ") {
        Some((limit, numbers)) if limits::look(limit).class != "l-unknown" => {
            page.leaf("strong", &[], &limits::title(limit));
            page.leaf("small", &[], numbers);
        }
        _ => page.text(line),
    }
}

fn advice(page: &mut Markup, advice: &[AdviceRecord], reached: f64) {
    if advice.is_empty() {
        return;
    }
    page.within("div", &[("class", "card")], |page| {
        page.within("ol", &[("class", "plain advice")], |page| {
            for one in advice.iter().take(MOST) {
                page.within("li", &[], |page| {
                    page.within("div", &[], |page| {
                        page.text(&one.action);
                        if let Some(predicted) = one.predicted_rate {
                            page.text(" ");
                            let words = format!(
                                "would bring about {} ({})",
                                rate(predicted),
                                gains::times(predicted, reached)
                            );
                            page.leaf("span", &[("class", "gain")], &words);
                        }
                    });
                });
            }
        });
    });
    gains::render(page, advice, reached);
}
