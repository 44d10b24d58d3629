//! A field of figures by two things at once, the larger the stronger its colour: rates by working set and
//! stride. Shades are equal factors; where there is room the figure stands in its cell.

use super::super::axis::{self, Anchor, LETTER};
use super::super::figure::{Canvas, Figure, Table};
use super::super::markup::Markup;
use super::super::scale::sane;
use super::super::words::short;

/// Rows and columns, at most.
const MOST: (usize, usize) = (48, 24);

/// The shades' classes, faint to strong. The strongest still lets a figure be read on it.
const SHADES: [&str; 8] =
    ["heat h0", "heat h1", "heat h2", "heat h3", "heat h4", "heat h5", "heat h6", "heat h7"];

/// The field.
#[derive(Debug, Clone)]
pub struct Field {
    /// What the columns are of.
    pub across: &'static str,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Names of the rows, and a figure for each column, where there is one.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
    /// A figure in as few letters as it takes.
    pub brief: fn(f64) -> String,
    /// The same with its unit.
    pub words: fn(f64) -> String,
}

/// Writes the figure; nothing without figures.
pub fn render(page: &mut Markup, title: &str, says: &str, field: &Field, table: Table) {
    let Some(shades) = Shades::of(field) else { return };
    let rows = field.rows.len().min(MOST.0) as f64;
    let height = |row: f64| HEAD + row * rows + FOOT;
    let figure = Figure { title, says, heights: (height(ROW.0), height(ROW.1)), table };
    figure.render(page, |page, canvas| draw(page, canvas, field, &shades));
}

/// Above the cells: what the columns are of, and their names. Below: the shades.
const HEAD: f64 = 46.0;
const FOOT: f64 = 44.0;

/// Heights of a row, wide and narrow.
const ROW: (f64, f64) = (24.0, 18.0);

/// From the smallest figure to the largest.
pub(super) struct Shades {
    low: f64,
    high: f64,
}

impl Shades {
    /// `None` where there is no figure.
    pub(super) fn of(field: &Field) -> Option<Shades> {
        let all = field.rows.iter().flat_map(|row| row.1.iter().flatten()).copied().map(sane);
        let (low, high) = all
            .filter(|value| *value > 0.0)
            .fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        (high > 0.0).then_some(Shades { low, high })
    }

    /// The smallest figure.
    pub(super) fn low(&self) -> f64 {
        self.low
    }

    /// The largest.
    pub(super) fn high(&self) -> f64 {
        self.high
    }

    /// The class of its shade.
    pub(super) fn shade(&self, value: f64) -> &'static str {
        let span = (self.high / self.low).ln();
        let share = if span > 1e-9 { (value / self.low).ln() / span } else { 1.0 };
        let index = (share.clamp(0.0, 1.0) * SHADES.len() as f64) as usize;
        SHADES[index.min(SHADES.len() - 1)]
    }
}

fn draw(page: &mut Markup, canvas: Canvas, field: &Field, shades: &Shades) {
    let left = if canvas.narrow { 66.0 } else { 92.0 };
    let row = if canvas.narrow { ROW.1 } else { ROW.0 };
    let columns = field.columns.len().clamp(1, MOST.1);
    let cell = (canvas.width - left) / columns as f64;
    axis::text(page, (left, 14.0), Anchor::Start, "name", field.across);
    for (index, name) in field.columns.iter().take(columns).enumerate() {
        let middle = left + (index as f64 + 0.5) * cell;
        axis::text(
            page,
            (middle, HEAD - 8.0),
            Anchor::Middle,
            "mark",
            &short(name, (cell / LETTER) as usize),
        );
    }
    for (at, (name, values)) in field.rows.iter().take(MOST.0).enumerate() {
        let top = HEAD + at as f64 * row;
        let line = top + row / 2.0 + 4.0;
        let name = short(name, ((left - 8.0) / LETTER) as usize);
        axis::text(page, (left - 8.0, line), Anchor::End, "mark", &name);
        for (index, value) in values.iter().take(columns).enumerate() {
            let Some(value) = value.map(sane).filter(|value| *value > 0.0) else { continue };
            let x = left + index as f64 * cell;
            // A hair between the cells.
            axis::rect(page, (x, top), (cell - 1.0, row - 1.0), shades.shade(value), None);
            let words = (field.brief)(value);
            if !canvas.narrow && words.chars().count() as f64 * LETTER < cell - 4.0 {
                axis::text(page, (x + cell / 2.0, line), Anchor::Middle, "small", &words);
            }
        }
    }
    legend(page, canvas, left, field, shades);
}

/// The shades, and what the faintest and the strongest stand for.
fn legend(page: &mut Markup, canvas: Canvas, left: f64, field: &Field, shades: &Shades) {
    let top = canvas.height - FOOT + 12.0;
    let cell = if canvas.narrow { 12.0 } else { 28.0 };
    let low = short(&(field.words)(shades.low), 12);
    let from = left.max(low.chars().count() as f64 * LETTER + 8.0);
    axis::text(page, (from - 8.0, top + 15.0), Anchor::End, "mark", &low);
    for (index, shade) in SHADES.iter().enumerate() {
        axis::rect(page, (from + index as f64 * cell, top), (cell - 1.0, 20.0), shade, None);
    }
    let end = from + SHADES.len() as f64 * cell + 8.0;
    axis::text(page, (end, top + 15.0), Anchor::Start, "mark", &short(&(field.words)(shades.high), 12));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_are_equal_factors_and_no_figure_has_none() {
        let shades = Shades { low: 1.0, high: 256.0 };
        let of = [0.5, 1.0, 2.1, 16.1, 255.0, 256.0, 1e18].map(|value| shades.shade(value));
        assert_eq!(of, [SHADES[0], SHADES[0], SHADES[1], SHADES[4], SHADES[7], SHADES[7], SHADES[7]]);
        assert_eq!(Shades { low: 3.0, high: 3.0 }.shade(3.0), SHADES[7]);
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let field = Field {
            across: "stride",
            columns: vec!["1".to_owned(); 3],
            rows: vec![("4 KiB".to_owned(), vec![None, Some(0.0), Some(f64::NAN)])],
            brief: |_| String::new(),
            words: |_| String::new(),
        };
        let mut page = Markup::default();
        render(&mut page, "title", "says", &field, Table::default());
        assert!(page.is_empty());
    }
}
