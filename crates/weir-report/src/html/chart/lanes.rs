//! When each connection worked: a line of time for each.

use super::super::axis::{self, Anchor};
use super::super::figure::{Canvas, Figure, Table};
use super::super::markup::Markup;
use super::super::scale::{Linear, sane};
use super::super::words::{bytes, time};
use crate::schema::{LaneRecord, Record};
use weir_units::counted;

/// Lanes that are drawn, and stretches of each, at most.
const MOST: (usize, usize) = (64, 500);

/// Writes the figure; nothing where one connection did all.
pub fn render(page: &mut Markup, record: &Record) {
    let lanes: Vec<&LaneRecord> = record.lanes.iter().take(MOST.0).collect();
    if lanes.len() < 2 {
        return;
    }
    let end = lanes
        .iter()
        .flat_map(|lane| &lane.stretches)
        .map(|stretch| sane(stretch.to))
        .fold(sane(record.seconds), f64::max);
    let most = lanes.iter().map(|lane| lane.bytes).max().unwrap_or(0);
    let least = lanes.iter().map(|lane| lane.bytes).min().unwrap_or(0);
    let says = format!(
        "{}, when each was at work and what it carried: {} to {}.",
        counted(lanes.len() as u64, "connection"),
        bytes(least),
        bytes(most)
    );
    let mut table = Table::new(&["connection", "carried", "at work", "from", "to"]);
    for lane in &lanes {
        let worked: f64 = lane.stretches.iter().map(|stretch| sane(stretch.to - stretch.from)).sum();
        table.row([
            format!("{}", lane.lane),
            bytes(lane.bytes),
            time(worked),
            lane.stretches.first().map_or("–".to_owned(), |stretch| time(stretch.from)),
            lane.stretches.last().map_or("–".to_owned(), |stretch| time(stretch.to)),
        ]);
    }
    let height = 40.0 + ROW * lanes.len() as f64;
    let figure = Figure { title: "Connections", says: &says, heights: (height, height), table };
    figure.render(page, |page, canvas| draw(page, canvas, &lanes, end));
}

/// The height of a lane.
const ROW: f64 = 18.0;

fn draw(page: &mut Markup, canvas: Canvas, lanes: &[&LaneRecord], end: f64) {
    let frame = canvas.frame(34.0, 6.0, 74.0, 28.0);
    let x = Linear::new((0.0, end), (frame.left, frame.right));
    for (index, lane) in lanes.iter().enumerate() {
        let top = frame.top + ROW * index as f64;
        axis::text(page, (frame.left - 8.0, top + 13.0), Anchor::End, "mark", &short_number(lane.lane));
        axis::rect(page, (frame.left, top + 3.0), (frame.right - frame.left, ROW - 6.0), "bar track", None);
        for stretch in lane.stretches.iter().take(MOST.1) {
            let (left, right) = (x.at(stretch.from), x.at(stretch.to));
            axis::rect(page, (left, top + 3.0), ((right - left).max(1.0), ROW - 6.0), "bar", None);
        }
        axis::text(page, (frame.right + 8.0, top + 13.0), Anchor::Start, "mark", &bytes(lane.bytes));
    }
    let marks: Vec<(f64, String)> = (x.ticks(if canvas.narrow { 3 } else { 8 }).into_iter())
        .map(|at| (x.at(at), format!("{} s", axis::seconds(at))))
        .collect();
    axis::columns(page, frame, canvas.width, &marks, false);
}

/// A lane's number in three letters: a foreign record may have any.
fn short_number(lane: u32) -> String {
    if lane < 1000 { lane.to_string() } else { "…".to_owned() }
}
