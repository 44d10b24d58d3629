//! The rate of payload over the speed of the link, for each codec: a slope while the link is the limit, a
//! level where the codec is. What is best at each link is drawn strong.

use weir_model::pipeline::{Path, predict};
use weir_units::Rate;

use super::super::axis::{self, Anchor};
use super::super::figure::{Canvas, Figure, Frame, Table};
use super::super::markup::Markup;
use super::super::scale::{Log, sane};
use super::super::words::{percent, rate, short};
use crate::codecs::{CodecRow, CodecsRecord, RegionRecord};

/// 1 Mbit/s to 100 Gbit/s.
const LINKS: (f64, f64) = (1.25e5, 1.25e10);

/// Codecs that are drawn, at most.
const MOST: usize = 40;

/// Writes the figure and the table of codecs.
pub fn render(page: &mut Markup, codecs: &CodecsRecord) {
    let rows: Vec<&CodecRow> = codecs.rows.iter().filter(|row| row.ratio > 0.0).take(MOST).collect();
    if rows.is_empty() {
        return;
    }
    let wins: Vec<String> = codecs
        .regions
        .iter()
        .take(12)
        .map(|region| format!("{} {}", name(&region.codec, region.threads), stretch(region)))
        .collect();
    let wins = if wins.is_empty() { String::new() } else { format!(" Best: {}.", wins.join("; ")) };
    let says = format!("Payload that each codec carries over a link of each speed.{wins}");
    let mut table = Table::new(&["codec", "ratio", "compress", "decompress"]);
    for row in &rows {
        let speed =
            |speed: crate::codecs::SpeedRecord| format!("{} ± {}", rate(speed.rate), percent(speed.spread));
        table.row([
            name(&row.codec, row.threads),
            format!("{:.3}", sane(row.ratio)),
            speed(row.compress),
            speed(row.decompress),
        ]);
    }
    let figure = Figure { title: "Which codec on which link", says: &says, heights: (440.0, 380.0), table };
    figure.render_with(
        page,
        |page, canvas| draw(page, canvas, &rows, &codecs.regions),
        |page| legend(page, &shown(&rows, &codecs.regions)),
    );
}

/// `zstd-3 x2`.
fn name(codec: &str, threads: usize) -> String {
    let codec = short(codec, 18);
    if threads > 1 { format!("{codec} x{threads}") } else { codec }
}

fn stretch(region: &RegionRecord) -> String {
    match (region.from > 0.0, region.to) {
        (false, None) => "on any link".to_owned(),
        (false, Some(to)) => format!("below {}", rate(to)),
        (true, None) => format!("from {}", rate(region.from)),
        (true, Some(to)) => format!("from {} to {}", rate(region.from), rate(to)),
    }
}

fn payload(row: &CodecRow, link: f64) -> f64 {
    sane(predict(&row.figure(), &Path::of(Rate(link))).rate.0)
}

/// The line's points; the corner lies where the codec takes over, 60 steps come near it.
fn points(row: &CodecRow, (from, to): (f64, f64), x: Log, y: Log) -> Vec<(f64, f64)> {
    let step = |index: i32| {
        let link = from * (to / from).powf(f64::from(index) / 60.0);
        (x.at(link), y.at(payload(row, link)))
    };
    (0..=60).map(step).collect()
}

fn draw(page: &mut Markup, canvas: Canvas, rows: &[&CodecRow], regions: &[RegionRecord]) {
    let frame = canvas.frame(76.0, 26.0, if canvas.narrow { 12.0 } else { 130.0 }, 44.0);
    let x = Log::new(LINKS, (frame.left, frame.right));
    let (low, high) =
        (payload(rows[0], LINKS.0), rows.iter().map(|row| payload(row, LINKS.1)).fold(0.0, f64::max));
    let y = Log::new((low.max(1.0) / 1.5, high * 1.5), (frame.bottom, frame.top));
    let marks = |log: Log| {
        log.ticks()
            .into_iter()
            .map(move |value| (log.at(value), axis::mark(&rate(value))))
            .collect::<Vec<_>>()
    };
    axis::rows(page, frame, &marks(y));
    axis::columns(page, frame, canvas.width, &marks(x), true);
    axis::name(page, frame, "payload");
    axis::text(page, ((frame.left + frame.right) / 2.0, frame.bottom + 38.0), Anchor::Middle, "name", "link");
    for row in rows {
        axis::line(page, &points(row, LINKS, x, y), "line faint");
    }
    let shown = shown(rows, regions);
    for (row, from, to) in &shown {
        axis::line(page, &points(row, (*from, *to), x, y), "line best");
    }
    label(page, canvas, frame, &shown, x, y);
}

/// Stretches of the best, each with its row; those that nobody could see are left out.
fn shown<'a>(rows: &[&'a CodecRow], regions: &[RegionRecord]) -> Vec<(&'a CodecRow, f64, f64)> {
    let of = |region: &RegionRecord| {
        let row = rows.iter().find(|row| row.codec == region.codec && row.threads == region.threads)?;
        let from = sane(region.from).max(LINKS.0);
        let to = region.to.map_or(LINKS.1, sane).min(LINKS.1);
        (to > from * 1.05).then_some((*row, from, to))
    };
    regions.iter().filter_map(of).take(12).collect()
}

/// The best, from slow links to fast ones.
fn legend(page: &mut Markup, shown: &[(&CodecRow, f64, f64)]) {
    page.within("ol", &[("class", "legend counted")], |page| {
        for (row, from, to) in shown {
            let words = format!("{}, {} to {}", name(&row.codec, row.threads), rate(*from), rate(*to));
            page.leaf("li", &[], &words);
        }
    });
}

/// A dot on each stretch; its codec's name beside it where there is room, else its number in the legend.
fn label(page: &mut Markup, canvas: Canvas, frame: Frame, shown: &[(&CodecRow, f64, f64)], x: Log, y: Log) {
    let mut places: Vec<f64> =
        shown.iter().map(|(row, from, to)| y.at(payload(row, (from * to).sqrt())) + 4.0).collect();
    axis::spread(&mut places, 17.0, (frame.top + 4.0, frame.bottom));
    let mut before = f64::MIN;
    for (index, ((row, from, to), place)) in shown.iter().zip(&places).enumerate() {
        let link = (from * to).sqrt();
        let at = (x.at(link), y.at(payload(row, link)));
        axis::dot(page, at, 5.0, "dot");
        if canvas.narrow {
            // Numbers of narrow stretches would lie on each other; the legend has them all.
            if at.0 - before < 20.0 {
                continue;
            }
            before = at.0;
            axis::text(page, (at.0 - 4.0, at.1 - 9.0), Anchor::End, "strong", &format!("{}", index + 1));
        } else {
            axis::line(page, &[at, (frame.right + 6.0, place - 4.0)], "grid");
            axis::text(
                page,
                (frame.right + 10.0, *place),
                Anchor::Start,
                "strong",
                &name(&row.codec, row.threads),
            );
        }
    }
}
