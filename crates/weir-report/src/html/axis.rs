//! Axes, and the few shapes that every chart is made of.

use super::figure::Frame;
use super::markup::Markup;
use super::words::length;
use crate::figures::trimmed;

/// The width of a letter of 12 pixels, on the wide side: DejaVu Sans has 7.3, most fonts less.
pub(crate) const LETTER: f64 = 7.3;

/// Where a text stands to its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// It is centred there.
    Middle,
    /// It ends there.
    End,
}

/// A text of a class.
pub fn text(page: &mut Markup, (x, y): (f64, f64), anchor: Anchor, class: &str, words: &str) {
    let anchor = match anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    page.leaf(
        "text",
        &[("x", &length(x)), ("y", &length(y)), ("text-anchor", anchor), ("class", class)],
        words,
    );
}

/// A rectangle.
pub(crate) fn rect(
    page: &mut Markup,
    (x, y): (f64, f64),
    (width, height): (f64, f64),
    class: &str,
    fill: Option<&str>,
) {
    let (x, y, width, height) = (length(x), length(y), length(width.max(0.0)), length(height.max(0.0)));
    let shape = [("x", &*x), ("y", &*y), ("width", &*width), ("height", &*height), ("class", class)];
    match fill {
        Some(fill) => page.empty("rect", &[&shape[..], &[("fill", fill)]].concat()),
        None => page.empty("rect", &shape),
    }
}

/// A line through points.
pub fn line(page: &mut Markup, points: &[(f64, f64)], class: &str) {
    page.empty("polyline", &[("points", &joined(points)), ("class", class)]);
}

/// A surface with these corners.
pub(crate) fn surface(page: &mut Markup, points: &[(f64, f64)], class: &str, fill: Option<&str>) {
    let points = joined(points);
    let shape = [("points", &*points), ("class", class)];
    match fill {
        Some(fill) => page.empty("polygon", &[&shape[..], &[("fill", fill)]].concat()),
        None => page.empty("polygon", &shape),
    }
}

/// A dot.
pub fn dot(page: &mut Markup, (x, y): (f64, f64), radius: f64, class: &str) {
    page.empty("circle", &[("cx", &length(x)), ("cy", &length(y)), ("r", &length(radius)), ("class", class)]);
}

fn joined(points: &[(f64, f64)]) -> String {
    let pairs: Vec<String> = points.iter().map(|(x, y)| format!("{},{}", length(*x), length(*y))).collect();
    pairs.join(" ")
}

/// The vertical axis: a line across and a label left of the frame for each mark.
pub fn rows(page: &mut Markup, frame: Frame, marks: &[(f64, String)]) {
    for (y, label) in marks {
        line(page, &[(frame.left, *y), (frame.right, *y)], "grid");
        text(page, (frame.left - 8.0, y + 4.0), Anchor::End, "mark", label);
    }
}

/// The horizontal axis: labels below the frame, those left out that would touch the one before or leave the
/// picture.
pub fn columns(page: &mut Markup, frame: Frame, width: f64, marks: &[(f64, String)], grid: bool) {
    line(page, &[(frame.left, frame.bottom), (frame.right, frame.bottom)], "axis");
    let mut free = 0.0;
    for (x, label) in marks {
        if grid {
            line(page, &[(*x, frame.top), (*x, frame.bottom)], "grid");
        }
        let half = label.chars().count() as f64 * LETTER / 2.0;
        if x - half < free || x + half > width {
            continue;
        }
        free = x + half + LETTER;
        text(page, (*x, frame.bottom + 18.0), Anchor::Middle, "mark", label);
    }
}

/// What an axis is of: at its upper end.
pub fn name(page: &mut Markup, frame: Frame, words: &str) {
    text(page, (frame.left, frame.top - 10.0), Anchor::Start, "name", words);
}

/// A round figure with its unit as a mark, without decimals that say nothing: `10 MB/s`.
pub fn mark(words: &str) -> String {
    words.replace(".00 ", " ").replace(".0 ", " ")
}

/// Seconds as a mark: `2`, `0.5`.
pub fn seconds(value: f64) -> String {
    trimmed(&format!("{value:.3}")).to_owned()
}

/// Texts for places in one column that are at least `apart` from each other, moved as little as that takes,
/// within a range.
pub fn spread(places: &mut [f64], apart: f64, (low, high): (f64, f64)) {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|a, b| places[*a].total_cmp(&places[*b]));
    let mut free = low;
    for index in &order {
        places[*index] = places[*index].max(free);
        free = places[*index] + apart;
    }
    let mut free = high;
    for index in order.iter().rev() {
        places[*index] = places[*index].min(free);
        free = places[*index] - apart;
    }
}
