//! How much of the run's time each limit held: one bar, in the limits' looks.

use super::super::axis::{self, Anchor, LETTER};
use super::super::figure::{Canvas, Figure, Table};
use super::super::limits;
use super::super::markup::Markup;
use super::super::scale::sane;
use super::super::words::percent;
use crate::schema::VerdictRecord;

/// Limits by their shares, largest first; a stranger's record may have any number of them.
pub fn ordered(verdict: &VerdictRecord) -> Vec<(&str, f64)> {
    let held = verdict.held().into_iter().flatten();
    let mut shares: Vec<(&str, f64)> =
        held.map(|(limit, share)| (limit.as_str(), sane(*share).min(1.0))).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares.truncate(20);
    shares
}

/// Writes the figure; nothing where nothing was judged.
pub fn render(page: &mut Markup, verdict: &VerdictRecord) {
    let shares = ordered(verdict);
    if shares.is_empty() {
        return;
    }
    let parts: Vec<String> =
        shares.iter().map(|(limit, share)| format!("{} {}", limits::title(limit), percent(*share))).collect();
    let says = format!("Of the run's time: {}.", parts.join(", "));
    let mut table = Table::new(&["limit", "share", "where", "it means"]);
    for (limit, share) in &shares {
        let look = limits::look(limit);
        table.row([
            limits::title(limit),
            percent(*share),
            look.place.words().to_owned(),
            look.meaning.to_owned(),
        ]);
    }
    let figure = Figure { title: "What held it", says: &says, heights: (64.0, 64.0), table };
    figure.render_with(page, |page, canvas| draw(page, canvas, &shares), |page| key(page, &shares));
}

fn draw(page: &mut Markup, canvas: Canvas, shares: &[(&str, f64)]) {
    let all: f64 = shares.iter().map(|(_, share)| share).sum::<f64>().max(1e-9);
    let mut left = 0.0;
    for (limit, share) in shares {
        let width = share / all * canvas.width;
        axis::rect(
            page,
            (left, 24.0),
            ((width - 2.0).max(width / 2.0), 34.0),
            "area",
            Some(limits::look(limit).fill),
        );
        let words = format!("{} {}", limits::title(limit), percent(*share));
        let figure = percent(*share);
        let fits = |words: &str| words.chars().count() as f64 * LETTER + 6.0 < width;
        if let Some(words) = [words, figure].iter().find(|words| fits(words)) {
            axis::text(page, (left, 16.0), Anchor::Start, "strong", words);
        }
        left += width;
    }
}

/// What each of them means.
fn key(page: &mut Markup, shares: &[(&str, f64)]) {
    page.within("ul", &[("class", "plain")], |page| {
        for (limit, share) in shares {
            page.within("li", &[("class", "key")], |page| {
                limits::swatch(page, limit);
                page.within("div", &[], |page| {
                    page.leaf("strong", &[], &format!("{} {}", limits::title(limit), percent(*share)));
                    page.leaf("small", &[], limits::look(limit).meaning);
                });
            });
        }
    });
}
