//! A chart of payload rate against link speed, which shows where each codec wins: text for a terminal, or
//! SVG.
//!
//! Both axes are logarithmic: a codec is a slope (the link is the limit) that ends in a level (the codec is),
//! and what wins at each link is the outline of them all.

use std::fmt::Write as _;
use std::io::{self, Write};

use weir_model::pipeline::{Path, predict};
use weir_units::Rate;

use crate::codecs::{CodecRow, CodecsRecord, RegionRecord};
use crate::escape::escape;

/// Links from 1 Mbit/s to 100 Gbit/s, as powers of ten of bytes per second: what people have.
const LINKS: (f64, f64) = (5.1, 10.1);

/// Columns for each power of ten: five of them fit into 80 with the axis.
const COLUMNS: f64 = 13.0;

/// Lines for each power of ten; a character is about twice as high as wide, so a slope of 1 looks like a
/// little more.
const LINES: f64 = 4.0;

/// Regions narrower than this, as a power of ten, are between two codecs that are equal for all that matters.
const NARROW: f64 = 0.02;

/// Payload rate of a codec on a link, bytes per second.
fn payload(row: &CodecRow, link: f64) -> f64 {
    predict(&row.figure(), &Path::of(Rate(link))).rate.0
}

/// A region that the chart shows: its codec's row, and its borders as powers of ten within the chart.
struct Shown<'a> {
    region: &'a RegionRecord,
    row: &'a CodecRow,
    from: f64,
    to: f64,
}

fn shown(codecs: &CodecsRecord) -> Vec<Shown<'_>> {
    let mut shown = Vec::new();
    for region in &codecs.regions {
        let same = |row: &&CodecRow| row.codec == region.codec && row.threads == region.threads;
        let Some(row) = codecs.rows.iter().find(same) else { continue };
        let from = region.from.log10().max(LINKS.0);
        let to = region.to.map_or(LINKS.1, f64::log10).min(LINKS.1);
        if to - from > NARROW {
            shown.push(Shown { region, row, from, to });
        }
    }
    shown
}

/// The lowest and highest power of ten on the y axis.
fn rates(shown: &[Shown<'_>]) -> (f64, f64) {
    let ends = shown
        .iter()
        .flat_map(|one| [one.from, one.to].map(|link| payload(one.row, 10_f64.powf(link)).log10()));
    let (low, high) = ends.fold((f64::MAX, f64::MIN), |(low, high), rate| (low.min(rate), high.max(rate)));
    ((low - 0.01).floor(), (high + 0.01).ceil())
}

/// For a terminal: at each link a letter for the codec that wins, and below what the letters mean.
pub fn render(codecs: &CodecsRecord, out: &mut dyn Write) -> io::Result<()> {
    let shown = shown(codecs);
    if shown.is_empty() {
        return Ok(());
    }
    let (low, high) = rates(&shown);
    let width = ((LINKS.1 - LINKS.0) * COLUMNS) as usize;
    let height = ((high - low) * LINES) as usize;
    // For each column the line and the letter of its winner.
    let cells: Vec<Option<(usize, u8)>> = (0..width)
        .map(|column| {
            let link = LINKS.0 + (column as f64 + 0.5) / COLUMNS;
            let index = shown.iter().position(|one| (one.from..one.to).contains(&link))?;
            let rate = payload(shown[index].row, 10_f64.powf(link)).log10();
            let line = ((high - rate) * LINES).round().clamp(0.0, height as f64);
            Some((line as usize, letter(index)))
        })
        .collect();
    writeln!(out, "payload rate")?;
    for line in 0..=height {
        let here = |cell: &Option<(usize, u8)>| match cell {
            Some((at, letter)) if *at == line => char::from(*letter),
            _ => ' ',
        };
        let text: String = cells.iter().map(here).collect();
        let label =
            if line % LINES as usize == 0 { power(high - line as f64 / LINES) } else { String::new() };
        writeln!(out, "{label:>9} |{}", text.trim_end())?;
    }
    writeln!(out, "{:>9} +{}", "", "-".repeat(width))?;
    writeln!(out, "{:>9}  {} link", "", links_axis(width))?;
    for (index, one) in shown.iter().enumerate() {
        let codec = format!("{}{}", one.region.codec, threads(one.region));
        writeln!(out, "{:>9}  {codec:<12} {}", char::from(letter(index)), stretch(one.region))?;
    }
    Ok(())
}

fn letter(index: usize) -> u8 {
    b'a' + (index % 26) as u8
}

fn threads(region: &RegionRecord) -> String {
    if region.threads > 1 { format!(" x{}", region.threads) } else { String::new() }
}

/// `1 MB/s`, `100 MB/s`.
fn power(exponent: f64) -> String {
    let rate = 10_f64.powf(exponent.round());
    let (value, unit) = match rate {
        ..1e3 => (rate, "B/s"),
        ..1e6 => (rate / 1e3, "KB/s"),
        ..1e9 => (rate / 1e6, "MB/s"),
        ..1e12 => (rate / 1e9, "GB/s"),
        _ => (rate / 1e12, "TB/s"),
    };
    format!("{value:.0} {unit}")
}

fn links_axis(width: usize) -> String {
    let mut axis = String::new();
    for exponent in LINKS.0.ceil() as i32..=LINKS.1.floor() as i32 {
        let label = power(f64::from(exponent));
        let column = ((f64::from(exponent) - LINKS.0) * COLUMNS) as usize;
        let start = column.saturating_sub(label.len() / 2);
        if start + label.len() <= width + 4 {
            let _ = write!(axis, "{:pad$}{label}", "", pad = start.saturating_sub(axis.len()));
        }
    }
    axis
}

/// `below 3.10 MB/s`, `3.10 MB/s to 120 MB/s`, `from 120 MB/s`.
fn stretch(region: &RegionRecord) -> String {
    match (region.from > 0.0, region.to) {
        (false, None) => "on any link".to_owned(),
        (false, Some(to)) => format!("below {}", Rate(to)),
        (true, None) => format!("from {}", Rate(region.from)),
        (true, Some(to)) => format!("{} to {}", Rate(region.from), Rate(to)),
    }
}

/// The picture's size, and the frame of its axes as left, top, right, bottom, in pixels.
const SIZE: (f64, f64) = (860.0, 520.0);
const FRAME: (f64, f64, f64, f64) = (80.0, 50.0, 660.0, 470.0);

/// Colours that people with any colour vision tell apart (Okabe and Ito, 2008), without the black.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999933"];

/// As a picture that needs nothing else: every codec as a thin line, the winners thick and named.
pub fn render_svg(codecs: &CodecsRecord, out: &mut dyn Write) -> io::Result<()> {
    let shown = shown(codecs);
    let plane = Plane { rates: if shown.is_empty() { (5.0, 10.0) } else { rates(&shown) } };
    let (width, height) = SIZE;
    let font = "font-family=\"sans-serif\" font-size=\"12\"";
    writeln!(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" {font}>")?;
    writeln!(out, "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>")?;
    let title = format!("payload rate by link speed: {}", markup(&codecs.data));
    writeln!(out, "<text x=\"{}\" y=\"28\" font-size=\"15\">{title}</text>", FRAME.0)?;
    render_axes(&plane, out)?;
    for row in &codecs.rows {
        let (points, name) = (plane.line(row, LINKS.0, LINKS.1), markup(&row.codec));
        let line = "<polyline fill=\"none\" stroke=\"#bbb\"";
        writeln!(out, "{line} points=\"{points}\"><title>{name}</title></polyline>")?;
    }
    for (index, one) in shown.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let points = plane.line(one.row, one.from, one.to);
        let line = format!("<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"4\"");
        writeln!(out, "{line} points=\"{points}\"/>")?;
        // Two lines of text for each winner, right of the frame.
        let (x, y) = (FRAME.2 + 16.0, FRAME.1 + 16.0 + index as f64 * 34.0);
        let codec = format!("{}{}", markup(&one.region.codec), threads(one.region));
        writeln!(out, "<text x=\"{x}\" y=\"{y}\" fill=\"{colour}\" font-weight=\"bold\">{codec}</text>")?;
        writeln!(out, "<text x=\"{x}\" y=\"{}\">{}</text>", y + 15.0, stretch(one.region))?;
    }
    writeln!(out, "</svg>")
}

/// Where powers of ten lie in the picture.
struct Plane {
    rates: (f64, f64),
}

impl Plane {
    fn x(&self, link: f64) -> f64 {
        FRAME.0 + (link - LINKS.0) / (LINKS.1 - LINKS.0) * (FRAME.2 - FRAME.0)
    }

    fn y(&self, rate: f64) -> f64 {
        let (low, high) = self.rates;
        FRAME.3 - (rate.clamp(low, high) - low) / (high - low) * (FRAME.3 - FRAME.1)
    }

    /// A codec's line between two links. Its corner lies where the link is no longer the limit; 64 points
    /// come near it.
    fn line(&self, row: &CodecRow, from: f64, to: f64) -> String {
        let point = |step: u32| {
            let link = from + (to - from) * f64::from(step) / 64.0;
            format!("{:.1},{:.1}", self.x(link), self.y(payload(row, 10_f64.powf(link)).log10()))
        };
        (0..=64).map(point).collect::<Vec<_>>().join(" ")
    }
}

fn render_axes(plane: &Plane, out: &mut dyn Write) -> io::Result<()> {
    let (left, top, right, bottom) = FRAME;
    for exponent in plane.rates.0 as i32..=plane.rates.1 as i32 {
        let (y, label) = (plane.y(f64::from(exponent)), power(f64::from(exponent)));
        writeln!(out, "<path d=\"M{left} {y:.1}H{right}\" stroke=\"#ddd\"/>")?;
        writeln!(out, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", left - 6.0, y + 4.0)?;
    }
    for exponent in LINKS.0.ceil() as i32..=LINKS.1.floor() as i32 {
        let (x, label) = (plane.x(f64::from(exponent)), power(f64::from(exponent)));
        writeln!(out, "<path d=\"M{x:.1} {top}V{bottom}\" stroke=\"#ddd\"/>")?;
        writeln!(out, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>", bottom + 18.0)?;
    }
    let middle = (left + right) / 2.0;
    writeln!(out, "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">link</text>", bottom + 38.0)
}

/// Text that others chose, safe between tags.
fn markup(text: &str) -> String {
    escape(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::SpeedRecord;

    /// The published figures for plain text.
    fn record() -> CodecsRecord {
        let row = |codec: &str, ratio: f64, compress: f64| CodecRow {
            codec: codec.into(),
            threads: 1,
            ratio,
            compress: SpeedRecord { rate: compress * 1e6, ..SpeedRecord::default() },
            decompress: SpeedRecord { rate: 1e9, ..SpeedRecord::default() },
            bytes: 1,
        };
        let region = |codec: &str, from: f64, to: Option<f64>| RegionRecord {
            codec: codec.into(),
            threads: 1,
            from,
            to,
        };
        CodecsRecord {
            data: "<text> & more".into(),
            rows: vec![row("zlib", 0.358, 9.6), row("quicklz", 0.549, 183.4), row("none", 1.0, 5000.0)],
            regions: vec![
                region("zlib", 0.0, Some(5.3e6)),
                region("quicklz", 5.3e6, Some(183e6)),
                region("none", 183e6, None),
            ],
            ..CodecsRecord::default()
        }
    }

    #[test]
    fn the_outline_rises_and_each_winner_has_its_stretch() {
        let mut out = Vec::new();
        render(&record(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let column =
            |letter: char| text.lines().filter_map(|line| line.split_once('|')?.1.find(letter)).min();
        let (a, b, c) = (column('a'), column('b'), column('c'));
        assert!(a.is_some() && a < b && b < c, "{text}");
        assert!(text.contains("a  zlib         below 5.30 MB/s\n"), "{text}");
        assert!(text.contains("b  quicklz      5.30 MB/s to 183 MB/s\n"), "{text}");
        assert!(text.contains("c  none         from 183 MB/s\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 85), "{text}");
    }

    #[test]
    fn without_figures_there_is_no_chart() {
        let mut out = Vec::new();
        render(&CodecsRecord::default(), &mut out).unwrap();
        assert!(out.is_empty());
        render_svg(&CodecsRecord::default(), &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().ends_with("</svg>\n"));
    }

    #[test]
    fn the_picture_is_well_formed() {
        let mut out = Vec::new();
        render_svg(&record(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("&lt;text&gt; &amp; more"));
        assert_eq!(text.matches("<polyline").count(), 6);
        assert_eq!(text.matches("stroke-width=\"4\"").count(), 3);
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}
