//! A distribution of times: how long the best, the usual and the worst took. Both axes are logarithmic;
//! across go the nines.

use super::super::axis::{self, Anchor};
use super::super::figure::{Canvas, Figure, Table};
use super::super::markup::Markup;
use super::super::scale::{Log, sane};
use super::super::words::time;
use crate::load::LatencyRecord;

/// One line of the picture.
pub struct Spectrum<'a> {
    /// What was timed.
    pub name: &'a str,
    /// Its times.
    pub of: &'a LatencyRecord,
}

/// Shares of requests that were faster, as the picture goes: the last is the slowest of all.
const SHARES: [(f64, &str); 6] =
    [(0.5, "50 %"), (0.75, "75 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (0.9999, "all")];

/// The lines' classes, and no more lines than classes.
const CLASSES: [&str; 3] = ["line", "line second", "line third"];

fn values(of: &LatencyRecord) -> [f64; 6] {
    [of.p50, of.p75, of.p90, of.p99, of.p999, of.max]
}

/// Writes the figure; nothing without times.
pub fn render(page: &mut Markup, spectra: &[Spectrum<'_>]) {
    let spectra = &spectra[..spectra.len().min(CLASSES.len())];
    let Some(first) = spectra.first().filter(|first| first.of.max > 0.0) else { return };
    let says = format!(
        "Half of the {} took at most {}, 99 in 100 at most {}, the slowest {}.",
        first.name,
        time(first.of.p50),
        time(first.of.p99),
        time(first.of.max)
    );
    let mut table =
        Table::new(&["", "smallest", "mean", "50 %", "75 %", "90 %", "99 %", "99.9 %", "largest"]);
    for one in spectra {
        let mut row = vec![one.name.to_owned(), time(one.of.min), time(one.of.mean)];
        row.extend(values(one.of).map(time));
        table.rows.push(row);
    }
    let figure = Figure { title: "Latency", says: &says, heights: (300.0, 240.0), table };
    figure.render_with(page, |page, canvas| draw(page, canvas, spectra), |page| legend(page, spectra));
}

fn draw(page: &mut Markup, canvas: Canvas, spectra: &[Spectrum<'_>]) {
    let frame = canvas.frame(66.0, 26.0, 16.0, 30.0);
    let all = || spectra.iter().flat_map(|one| values(one.of)).map(sane).filter(|value| *value > 0.0);
    let (low, high) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
    let y = Log::new((low / 1.3, high * 1.3), (frame.bottom, frame.top));
    // A share's distance from all: each nine takes as much room as the one before.
    let x = Log::new((1.0, 5000.0), (frame.left + 12.0, frame.right - 12.0));
    let at = |share: f64| x.at(0.5 / (1.0 - share));
    let mut ticks = y.ticks();
    if ticks.len() < 2 {
        ticks = vec![low, (low * high).sqrt(), high];
        ticks.dedup_by(|a, b| (y.at(*a) - y.at(*b)).abs() < 16.0);
    }
    let marks: Vec<(f64, String)> = ticks.into_iter().map(|value| (y.at(value), time(value))).collect();
    axis::rows(page, frame, &marks);
    let marks: Vec<(f64, String)> =
        SHARES.iter().map(|(share, words)| (at(*share), (*words).to_owned())).collect();
    axis::columns(page, frame, canvas.width, &marks, true);
    axis::name(page, frame, "at most this long took a share of:");
    for (one, class) in spectra.iter().zip(CLASSES) {
        let points: Vec<(f64, f64)> =
            SHARES.iter().zip(values(one.of)).map(|((share, _), value)| (at(*share), y.at(value))).collect();
        axis::line(page, &points, class);
        points.iter().for_each(|point| axis::dot(page, *point, 4.0, "dot"));
    }
    if let Some(first) = spectra.first().filter(|_| !canvas.narrow) {
        for (index, ((share, _), value)) in SHARES.iter().zip(values(first.of)).enumerate() {
            let (x, y) = (at(*share), y.at(value) - 9.0);
            match index {
                0 => axis::text(page, (x + 8.0, y), Anchor::Start, "strong", &time(value)),
                // Too near to both neighbours.
                1 => {}
                _ => axis::text(page, (x - 8.0, y), Anchor::End, "strong", &time(value)),
            }
        }
    }
}

fn legend(page: &mut Markup, spectra: &[Spectrum<'_>]) {
    page.within("ul", &[("class", "legend")], |page| {
        for (one, class) in spectra.iter().zip(CLASSES) {
            super::rate::entry(page, class, one.name);
        }
    });
}
