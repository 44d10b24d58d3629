//! Curves over a size, both axes in equal factors: what a load costs and what is read a second, by the
//! working set. Sizes at which something changes (a cache's end) are marked.

use super::super::axis::{self, Anchor, LETTER};
use super::super::figure::{Canvas, Figure, Frame, Table};
use super::super::markup::Markup;
use super::super::scale::{Log, sane};
use super::super::words::short;
use super::rate::entry;

/// Points of a curve, at most: a record may hold any number.
const MOST: usize = 500;

/// How curves look, in their order: one more than these is not drawn.
const CLASSES: [&str; 4] = ["line", "line second", "line third", "line fourth"];

/// One curve.
#[derive(Debug, Clone)]
pub struct Curve {
    /// What it is of.
    pub name: &'static str,
    /// Sizes in bytes, rising, each with its figure.
    pub points: Vec<(f64, f64)>,
}

/// The picture.
#[derive(Debug, Clone)]
pub struct Curves {
    /// What the horizontal axis is of.
    pub across: &'static str,
    /// What the vertical axis is of.
    pub up: &'static str,
    /// The curves.
    pub curves: Vec<Curve>,
    /// Sizes that are marked, with their names.
    pub marks: Vec<(f64, String)>,
    /// A size as a mark.
    pub size: fn(u64) -> String,
    /// A figure as a mark.
    pub words: fn(f64) -> String,
}

/// Writes the figure; nothing where no curve has two points.
pub fn render(page: &mut Markup, title: &str, says: &str, curves: &Curves, table: Table) {
    let drawn: Vec<(Curve, &'static str)> = (curves.curves.iter().zip(CLASSES))
        .map(|(curve, look)| (Curve { points: points(curve), ..curve.clone() }, look))
        .filter(|(curve, _)| curve.points.len() >= 2)
        .collect();
    let all = || drawn.iter().flat_map(|(curve, _)| &curve.points);
    let Some(across) = range(all().map(|point| point.0)) else { return };
    let Some(up) = range(all().map(|point| point.1)) else { return };
    let figure = Figure { title, says, heights: (360.0, 280.0), table };
    figure.render_with(
        page,
        |page, canvas| draw(page, canvas, curves, &drawn, (across, up)),
        |page| legend(page, &drawn),
    );
}

fn points(curve: &Curve) -> Vec<(f64, f64)> {
    let sound = curve.points.iter().take(MOST).map(|(x, y)| (sane(*x), sane(*y)));
    sound.filter(|(x, y)| *x > 0.0 && *y > 0.0).collect()
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, value| {
        let (low, high) = range.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

fn draw(
    page: &mut Markup,
    canvas: Canvas,
    curves: &Curves,
    drawn: &[(Curve, &'static str)],
    (across, (low, high)): ((f64, f64), (f64, f64)),
) {
    let frame = canvas.frame(80.0, 44.0, 16.0, 44.0);
    let x = Log::new(across, (frame.left, frame.right));
    // Some air, so that no curve lies on the frame.
    let y = Log::new((low / 1.2, high * 1.2), (frame.bottom, frame.top));
    let rows: Vec<(f64, String)> = y
        .steps()
        .into_iter()
        .map(|value| (y.at(value), short(&axis::mark(&(curves.words)(value)), 10)))
        .collect();
    axis::rows(page, frame, &rows);
    let columns: Vec<(f64, String)> =
        fours(across).into_iter().map(|size| (x.at(size as f64), (curves.size)(size))).collect();
    axis::columns(page, frame, canvas.width, &columns, false);
    axis::text(page, (frame.left, 14.0), Anchor::Start, "name", curves.up);
    let middle = (frame.left + frame.right) / 2.0;
    axis::text(page, (middle, frame.bottom + 38.0), Anchor::Middle, "name", curves.across);
    mark(page, frame, curves, across, x);
    for (curve, look) in drawn {
        let line: Vec<(f64, f64)> =
            curve.points.iter().map(|(at, value)| (x.at(*at), y.at(*value))).collect();
        axis::line(page, &line, look);
    }
}

/// A line down at each marked size that lies within, its name above it where there is room.
fn mark(page: &mut Markup, frame: Frame, curves: &Curves, (low, high): (f64, f64), x: Log) {
    let mut free = frame.left;
    for (size, name) in curves.marks.iter().take(8).filter(|(size, _)| (low..=high).contains(size)) {
        let at = x.at(*size);
        axis::line(page, &[(at, frame.top), (at, frame.bottom)], "axis");
        let name = short(name, 12);
        let half = name.chars().count() as f64 * LETTER / 2.0;
        if at - half >= free && at + half <= frame.right + 16.0 {
            free = at + half + LETTER;
            axis::text(page, (at, frame.top - 8.0), Anchor::Middle, "strong", &name);
        }
    }
}

/// Powers of four within: 4 KiB, 16 KiB, 64 KiB.
fn fours((low, high): (f64, f64)) -> Vec<u64> {
    let powers = (0..32).map(|power| 1_u64 << (2 * power));
    powers.filter(|size| (low..=high).contains(&(*size as f64))).collect()
}

fn legend(page: &mut Markup, drawn: &[(Curve, &'static str)]) {
    page.within("ul", &[("class", "legend")], |page| {
        for (curve, look) in drawn {
            entry(page, look, curve.name);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_marked_at_powers_of_four() {
        assert_eq!(fours((4096.0, 300_000.0)), [4096, 16384, 65536, 262_144]);
    }

    fn of(points: Vec<(f64, f64)>) -> Curves {
        Curves {
            across: "size",
            up: "time",
            curves: vec![Curve { name: "one", points }],
            marks: vec![(f64::NAN, "nowhere".to_owned()), (10.0, "here".to_owned())],
            size: |size| size.to_string(),
            words: |value| value.to_string(),
        }
    }

    proptest! {
        #[test]
        fn whatever_a_record_holds_is_drawn_within_or_not_at_all(
            points in proptest::collection::vec((any::<f64>(), any::<f64>()), 0..40),
        ) {
            let mut page = Markup::default();
            render(&mut page, "title", "says", &of(points.clone()), Table::default());
            let sound = points.iter().filter(|(x, y)| sane(*x) > 0.0 && sane(*y) > 0.0).count();
            prop_assert_eq!(page.is_empty(), sound < 2);
            let text = page.into_text();
            prop_assert!(!text.contains("NaN") && !text.contains("inf"));
        }
    }
}
