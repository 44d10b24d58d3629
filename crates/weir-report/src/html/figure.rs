//! What every picture comes with: a heading, a sentence that says what is to be seen, one drawing for wide
//! and one for narrow places (letters keep their size), and the same figures as a table for those who want
//! them, or see no pictures.

use super::markup::Markup;
use super::words::length;

/// The size a picture is drawn for; the style sheet shows the one that fits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Canvas {
    /// Units of a pixel, about.
    pub width: f64,
    /// The same.
    pub height: f64,
    /// For a telephone, or a column.
    pub narrow: bool,
}

/// Widths for which pictures are drawn: the page's column less its padding, and what a telephone of 360
/// pixels leaves.
const WIDTHS: (f64, f64) = (1040.0, 320.0);

/// A frame within a canvas.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// Left, top, right, bottom.
    pub left: f64,
    /// See `left`.
    pub top: f64,
    /// See `left`.
    pub right: f64,
    /// See `left`.
    pub bottom: f64,
}

impl Canvas {
    /// What is left inside these margins.
    pub fn frame(&self, left: f64, top: f64, right: f64, bottom: f64) -> Frame {
        Frame { left, top, right: self.width - right, bottom: self.height - bottom }
    }
}

/// Figures of a picture.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Column names; the first column names the row.
    pub head: Vec<String>,
    /// Cells.
    pub rows: Vec<Vec<String>>,
    /// Cells are words, not figures: they begin at the left.
    pub words: bool,
}

impl Table {
    /// An empty one.
    pub fn new(head: &[&str]) -> Table {
        Table { head: head.iter().map(|name| (*name).to_owned()).collect(), ..Table::default() }
    }

    /// An empty one for words.
    pub(crate) fn of_words(head: &[&str]) -> Table {
        Table { words: true, ..Table::new(head) }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// Writes it; wide ones scroll, by keyboard too.
    pub fn render(&self, page: &mut Markup, caption: &str) {
        let scroll = [("class", "scroll"), ("tabindex", "0"), ("role", "group"), ("aria-label", caption)];
        let cell: &[(&'static str, &str)] = if self.words { &[("class", "words")] } else { &[] };
        page.within("div", &scroll, |page| {
            page.within("table", &[], |page| {
                page.leaf("caption", &[], caption);
                page.within("thead", &[], |page| table_head(page, &self.head, cell));
                page.within("tbody", &[], |page| self.rows.iter().for_each(|row| table_row(page, row, cell)));
            });
        });
    }
}

fn table_head(page: &mut Markup, head: &[String], style: &[(&'static str, &str)]) {
    page.within("tr", &[], |page| {
        for name in head {
            match name.as_str() {
                // A corner heads nothing: an empty heading would be read out as one.
                "" => page.leaf("td", style, ""),
                name => page.leaf("th", &[&[("scope", "col")], style].concat(), name),
            }
        }
    });
}

fn table_row(page: &mut Markup, row: &[String], style: &[(&'static str, &str)]) {
    page.within("tr", &[], |page| {
        for (index, cell) in row.iter().enumerate() {
            match index {
                0 => page.leaf("th", &[("scope", "row")], cell),
                _ => page.leaf("td", style, cell),
            }
        }
    });
}

/// A picture with all that belongs to it.
pub struct Figure<'a> {
    /// The heading.
    pub title: &'a str,
    /// What is to be seen, in a sentence or two.
    pub says: &'a str,
    /// Heights of the wide and of the narrow drawing.
    pub heights: (f64, f64),
    /// The same as figures.
    pub table: Table,
}

impl Figure<'_> {
    /// Writes it. `draw` is called for each size.
    pub fn render(&self, page: &mut Markup, draw: impl Fn(&mut Markup, Canvas)) {
        self.render_with(page, draw, |_| ());
    }

    /// The same with something between the picture and its table: a legend.
    pub(crate) fn render_with(
        &self,
        page: &mut Markup,
        draw: impl Fn(&mut Markup, Canvas),
        below: impl FnOnce(&mut Markup),
    ) {
        page.within("figure", &[], |page| {
            page.within("figcaption", &[], |page| {
                page.leaf("h3", &[], self.title);
                page.leaf("p", &[], self.says);
            });
            let (wide, narrow) = self.heights;
            self.drawing(page, Canvas { width: WIDTHS.0, height: wide, narrow: false }, &draw);
            self.drawing(page, Canvas { width: WIDTHS.1, height: narrow, narrow: true }, &draw);
            below(page);
            if !self.table.rows.is_empty() {
                page.within("details", &[], |page| {
                    page.leaf("summary", &[], &format!("Figures: {}", self.title));
                    self.table.render(page, self.title);
                });
            }
        });
    }

    fn drawing(&self, page: &mut Markup, canvas: Canvas, draw: &impl Fn(&mut Markup, Canvas)) {
        let (title, description) = (page.fresh_id(), page.fresh_id());
        let label = format!("{title} {description}");
        let frame = format!("0 0 {} {}", length(canvas.width), length(canvas.height));
        let class = if canvas.narrow { "picture narrow" } else { "picture wide" };
        page.within(
            "svg",
            &[("class", class), ("viewBox", &frame), ("role", "img"), ("aria-labelledby", &label)],
            |page| {
                page.leaf("title", &[("id", &title)], self.title);
                page.leaf("desc", &[("id", &description)], self.says);
                draw(page, canvas);
            },
        );
    }
}
