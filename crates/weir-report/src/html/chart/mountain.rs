//! A field of figures as a surface seen from above its front edge: rows go back, columns across, and the
//! larger the figure the higher it lies (equal factors are equal heights) and the stronger its colour.

use super::super::axis::{self, Anchor, LETTER};
use super::super::figure::{Canvas, Figure, Table};
use super::super::markup::Markup;
use super::super::scale::{Log, sane};
use super::super::words::short;
use super::heat::{Field, Shades};

/// Rows and columns, at most.
const MOST: (usize, usize) = (48, 24);

/// Of the width inside the margins the front edge takes so much; the rest is the way back.
const FRONT: f64 = 0.74;

/// Of the height inside the margins the heights take so much; the rest is the way back.
const HEIGHT: f64 = 0.62;

/// Writes the figure; nothing where no four neighbours have a figure.
pub fn render(page: &mut Markup, title: &str, says: &str, field: &Field, along: &str) {
    let Some(shades) = Shades::of(field) else { return };
    if quads(field).next().is_none() {
        return;
    }
    let figure = Figure { title, says, heights: (520.0, 300.0), table: Table::default() };
    figure.render(page, |page, canvas| draw(page, View::of(canvas, field, &shades), field, &shades, along));
}

/// From a place in the field and a figure to a place in the picture.
#[derive(Clone, Copy)]
struct View {
    canvas: Canvas,
    left: f64,
    right: f64,
    bottom: f64,
    columns: f64,
    rows: f64,
    /// How far up a figure lies.
    height: Log,
    back: (f64, f64),
}

impl View {
    fn of(canvas: Canvas, field: &Field, shades: &Shades) -> View {
        let (left, right) = if canvas.narrow { (72.0, 14.0) } else { (84.0, 84.0) };
        let (top, bottom) = (26.0, canvas.height - 44.0);
        let wide = canvas.width - left - right;
        let tall = bottom - top;
        View {
            canvas,
            left,
            right: left + wide * FRONT,
            bottom,
            columns: (field.columns.len().min(MOST.1).max(2) - 1) as f64,
            rows: (field.rows.len().min(MOST.0).max(2) - 1) as f64,
            height: Log::new((shades.low() / 1.3, shades.high()), (0.0, tall * HEIGHT)),
            back: (wide * (1.0 - FRONT), tall * (1.0 - HEIGHT)),
        }
    }

    /// The first row is the farthest: small working sets are the peaks, and would hide what lies behind.
    fn floor(&self, (row, column): (usize, usize)) -> (f64, f64) {
        let depth = 1.0 - row as f64 / self.rows;
        let across = column as f64 / self.columns;
        let x = self.left + across * (self.right - self.left) + depth * self.back.0;
        (x, self.bottom - depth * self.back.1)
    }

    fn at(&self, place: (usize, usize), value: f64) -> (f64, f64) {
        let (x, y) = self.floor(place);
        (x, y - self.height.at(value))
    }
}

/// The four corners of each patch with their figures, from the back to the front.
fn quads(field: &Field) -> impl Iterator<Item = [((usize, usize), f64); 4]> {
    let rows = field.rows.len().min(MOST.0);
    let columns = field.columns.len().min(MOST.1);
    let value = |row: usize, column: usize| -> Option<((usize, usize), f64)> {
        let value = sane((*field.rows.get(row)?.1.get(column)?)?);
        (value > 0.0).then_some(((row, column), value))
    };
    (1..rows).flat_map(move |row| {
        (1..columns).filter_map(move |column| {
            let (up, left) = (row - 1, column - 1);
            Some([value(up, left)?, value(up, column)?, value(row, column)?, value(row, left)?])
        })
    })
}

fn draw(page: &mut Markup, view: View, field: &Field, shades: &Shades, along: &str) {
    scale(page, view, field, shades);
    for corners in quads(field) {
        let patch = corners.map(|(place, value)| view.at(place, value));
        let mean = corners.iter().map(|(_, value)| value.ln()).sum::<f64>() / 4.0;
        // What lies behind must not show through the colour.
        axis::surface(page, &patch, "facet", None);
        axis::surface(page, &patch, shades.shade(mean.exp()), None);
    }
    names(page, view, field, along);
}

/// The heights: a line across the back wall for each, and its figure at the front, where no peak hides it.
fn scale(page: &mut Markup, view: View, field: &Field, shades: &Shades) {
    let last = view.columns as usize;
    let (from, to) = (view.floor((0, 0)), view.floor((0, last)));
    let front = view.floor((view.rows as usize, 0));
    axis::line(page, &[(front.0, front.1 - view.height.at(shades.high())), front, from, to], "axis");
    for value in view.height.steps() {
        let up = view.height.at(value);
        axis::line(page, &[(from.0, from.1 - up), (to.0, to.1 - up)], "grid");
        let words = short(&axis::mark(&(field.words)(value)), 10);
        axis::text(page, (front.0 - 8.0, front.1 - up + 4.0), Anchor::End, "mark", &words);
    }
}

/// Columns along the front edge, rows along the right one, those left out that would touch the one before.
fn names(page: &mut Markup, view: View, field: &Field, along: &str) {
    let (front, last) = (view.rows as usize, view.columns as usize);
    let mut free = 0.0;
    for (column, name) in field.columns.iter().take(MOST.1).enumerate() {
        let (x, y) = view.floor((front, column));
        let name = short(name, 8);
        let half = name.chars().count() as f64 * LETTER / 2.0;
        if x - half >= free {
            free = x + half + 3.0;
            axis::text(page, (x, y + 18.0), Anchor::Middle, "mark", &name);
        }
    }
    let middle = (view.left + view.right) / 2.0;
    axis::text(page, (middle, view.bottom + 38.0), Anchor::Middle, "name", field.across);
    if view.canvas.narrow {
        return;
    }
    let mut free = view.canvas.height;
    for (row, (name, _)) in field.rows.iter().take(MOST.0).enumerate().rev() {
        let (x, y) = view.floor((row, last));
        if y <= free {
            free = y - 15.0;
            axis::text(page, (x + 8.0, y + 4.0), Anchor::Start, "mark", &short(name, 9));
        }
    }
    let (x, y) = view.floor((front, last));
    axis::text(page, (x + 8.0, y + 38.0), Anchor::Start, "name", along);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn field(rows: Vec<Vec<Option<f64>>>) -> Field {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        Field {
            across: "stride",
            columns: (0..columns).map(|column| column.to_string()).collect(),
            rows: rows.into_iter().map(|row| ("4 KiB".to_owned(), row)).collect(),
            brief: |value| value.to_string(),
            words: |value| value.to_string(),
        }
    }

    #[test]
    fn patches_go_from_the_back_to_the_front_and_none_has_a_hole() {
        let field = field(vec![
            vec![Some(9.0), Some(8.0), None],
            vec![Some(7.0), Some(6.0), Some(5.0)],
            vec![Some(4.0), Some(3.0), Some(2.0)],
        ]);
        let first: Vec<(usize, usize)> = quads(&field).map(|corners| corners[0].0).collect();
        assert_eq!(first, [(0, 0), (1, 0), (1, 1)]);
        let canvas = Canvas { width: 1040.0, height: 520.0, narrow: false };
        let view = View::of(canvas, &field, &Shades::of(&field).unwrap());
        let (back, front) = (view.at((0, 0), 5.0), view.at((2, 0), 5.0));
        assert!(back.1 < front.1 && back.0 > front.0, "what is farther lies higher and to the right");
        assert!(view.at((2, 0), 9.0).1 < front.1, "more is higher");
    }

    proptest! {
        #[test]
        fn every_corner_lies_within_the_picture(
            rows in proptest::collection::vec(
                proptest::collection::vec(proptest::option::of(any::<f64>()), 0..30), 0..60),
        ) {
            let field = field(rows);
            let Some(shades) = Shades::of(&field) else { return Ok(()) };
            for (width, height, narrow) in [(1040.0, 520.0, false), (320.0, 300.0, true)] {
                let view = View::of(Canvas { width, height, narrow }, &field, &shades);
                for (place, value) in quads(&field).flatten() {
                    let (x, y) = view.at(place, value);
                    prop_assert!((0.0..=width).contains(&x) && (0.0..=height).contains(&y), "{x} {y}");
                }
            }
            let mut page = Markup::default();
            render(&mut page, "title", "says", &field, "working set");
            let text = page.into_text();
            prop_assert!(!text.contains("NaN") && !text.contains("inf"));
        }
    }
}
