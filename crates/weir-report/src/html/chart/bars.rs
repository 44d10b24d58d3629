//! Bars with their figures beside them: what things of one kind reached.

use super::super::axis::{self, Anchor, LETTER};
use super::super::figure::{Canvas, Figure, Table};
use super::super::markup::Markup;
use super::super::scale::{Linear, sane};
use super::super::words::short;

/// Bars of a figure, at most.
const MOST: usize = 60;

/// One bar.
#[derive(Debug, Clone, Default)]
pub struct Bar {
    /// What it is of.
    pub name: String,
    /// Its length.
    pub value: f64,
    /// The value in words.
    pub words: String,
    /// The look: a pattern, else the plain one.
    pub fill: Option<&'static str>,
}

/// Writes the figure; nothing without bars.
pub fn render(page: &mut Markup, title: &str, says: &str, bars: &[Bar], table: Table) {
    let bars = &bars[..bars.len().min(MOST)];
    if bars.is_empty() {
        return;
    }
    let heights = (8.0 + ROW.0 * bars.len() as f64, ROW.1 * bars.len() as f64);
    let figure = Figure { title, says, heights, table };
    figure.render(page, |page, canvas| draw(page, canvas, bars));
}

/// Heights of a bar with its words: beside it, or above and below.
const ROW: (f64, f64) = (28.0, 62.0);

fn draw(page: &mut Markup, canvas: Canvas, bars: &[Bar]) {
    let most = bars.iter().map(|bar| sane(bar.value)).fold(0.0, f64::max);
    let (left, right) = if canvas.narrow { (0.0, 0.0) } else { (330.0, 230.0) };
    let x = Linear::new((0.0, most.max(1e-9)), (left, canvas.width - right));
    let letters = |width: f64| (width / LETTER) as usize;
    for (index, bar) in bars.iter().enumerate() {
        let width = (x.at(bar.value) - left).max(1.0);
        // The class of plain bars would win over a pattern.
        let class = if bar.fill.is_some() { "area" } else { "bar" };
        if canvas.narrow {
            let top = ROW.1 * index as f64;
            let all = letters(canvas.width);
            axis::text(page, (0.0, top + 16.0), Anchor::Start, "aside", &short(&bar.name, all));
            axis::rect(page, (0.0, top + 22.0), (width, 14.0), class, bar.fill);
            axis::text(page, (0.0, top + 51.0), Anchor::Start, "strong", &short(&bar.words, all));
        } else {
            let middle = ROW.0 * index as f64 + 18.0;
            let name = short(&bar.name, letters(left - 12.0));
            axis::text(page, (left - 12.0, middle), Anchor::End, "aside", &name);
            axis::rect(page, (left, middle - 11.0), (width, 14.0), class, bar.fill);
            let words = short(&bar.words, letters(right - 10.0));
            axis::text(page, (left + width + 8.0, middle), Anchor::Start, "strong", &words);
        }
    }
}
