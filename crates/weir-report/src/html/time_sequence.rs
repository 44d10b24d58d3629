//! A connection of a capture over time: bytes sent and acknowledged with the edge of the receiver's window
//! (the graph that tcptrace made known), and below it bytes in flight against that window. Stalls are shaded,
//! retransmissions marked.

use super::axis::{self, Anchor};
use super::chart::rate::entry;
use super::figure::{Canvas, Figure, Frame, Table};
use super::markup::Markup;
use super::scale::{Linear, sane, top};
use super::words::{bytes, count, percent, short, time};
use crate::capture::{CaptureRecord, CapturedFlow, SequenceRecord, StallRecord, ended_by};
use weir_units::counted;

/// Connections that are drawn, points of each, and stalls of each, at most: a record may hold any number.
const MOST: (usize, usize, usize) = (4, 1000, 50);

/// Rows of a table.
const ROWS: usize = 100;

/// Writes what a capture has to show.
pub fn render(page: &mut Markup, capture: &CaptureRecord) {
    let drawn = capture.flows.iter().filter(|flow| !flow.sequence.is_empty());
    drawn.take(MOST.0).for_each(|flow| graph(page, flow));
    stalls(page, &capture.flows);
    let words = format!(
        "{} ({}): {} packets, {} TCP segments judged.",
        short(&capture.file, 200),
        short(&capture.format, 20),
        count(capture.packets as f64),
        count(capture.segments as f64)
    );
    page.leaf("p", &[("class", "notice")], &words);
}

/// The points of a connection, each column as long as the shortest that must be there.
struct Points<'a> {
    of: &'a SequenceRecord,
    length: usize,
    windowed: bool,
}

impl<'a> Points<'a> {
    fn of(of: &'a SequenceRecord) -> Points<'a> {
        let length = [of.sent.len(), of.acked.len(), of.in_flight.len()];
        let length = length.into_iter().fold(of.t.len().min(MOST.1), usize::min);
        Points { of, length, windowed: of.window.len() >= length && length > 0 }
    }

    fn each(&self) -> std::ops::Range<usize> {
        0..self.length
    }

    /// Where the receiver's window ends, in bytes from the first.
    fn edge(&self, index: usize) -> Option<u64> {
        let window = self.of.window.get(index).filter(|_| self.windowed)?;
        Some(self.of.acked[index].saturating_add(*window))
    }

    fn again(&self) -> impl Iterator<Item = usize> {
        self.each().filter(|index| self.of.again.get(*index).is_some_and(|bytes| *bytes > 0))
    }
}

fn graph(page: &mut Markup, flow: &CapturedFlow) {
    let points = Points::of(&flow.sequence);
    if points.length < 2 {
        return;
    }
    let share = flow.retransmitted as f64 / flow.bytes.max(1) as f64;
    let says = format!(
        "{} from {} to {}, captured at the {}; {} sent again{}. Above bytes over time, below what was in flight.",
        bytes(flow.bytes),
        short(&flow.from, 60),
        short(&flow.to, 60),
        match flow.vantage.as_str() {
            "middle" => "path between them",
            "sender" | "receiver" => &flow.vantage,
            _ => "place that is not known",
        },
        percent(share),
        flow.round_trip.map(|rtt| format!(", round trip {}", time(sane(rtt)))).unwrap_or_default(),
    );
    let title = format!("Time and sequence: {}", short(&flow.from, 60));
    let figure = Figure { title: &title, says: &says, heights: (460.0, 420.0), table: table(&points) };
    figure.render_with(
        page,
        |page, canvas| draw(page, canvas, &points, &flow.stalls),
        |page| legend(page, &points),
    );
}

fn draw(page: &mut Markup, canvas: Canvas, points: &Points<'_>, stalls: &[StallRecord]) {
    let whole = canvas.frame(80.0, 26.0, 12.0, 28.0);
    let middle = whole.top + 0.6 * (whole.bottom - whole.top);
    let upper = Frame { bottom: middle - 12.0, ..whole };
    let lower = Frame { top: middle + 18.0, ..whole };
    let t = |index: usize| sane(points.of.t[index]);
    let ends =
        points.each().fold((f64::MAX, 0.0_f64), |(low, high), index| (low.min(t(index)), high.max(t(index))));
    let x = Linear::new(ends, (whole.left, whole.right));
    for stall in stalls.iter().take(MOST.2) {
        let (left, right) = (x.at(stall.from), x.at(stall.to));
        let size = ((right - left).max(1.0), whole.bottom - whole.top);
        axis::rect(page, (left, whole.top), size, "bar track", None);
    }
    let sent: Vec<u64> = points.of.sent.iter().take(points.length).copied().collect();
    let edges = points.each().filter_map(|index| points.edge(index));
    // A window far above what was ever used would press the rest into a corner.
    let most = top(sent.iter().map(|bytes| *bytes as f64));
    let edge_top = top(edges.map(|edge| edge as f64)).min(1.5 * most).max(most);
    let y = Linear::new((0.0, edge_top), (upper.bottom, upper.top));
    panel(page, upper, &y, "bytes so far");
    let path = |of: &dyn Fn(usize) -> Option<f64>, y: &Linear| -> Vec<(f64, f64)> {
        points.each().filter_map(|index| Some((x.at(t(index)), y.at(of(index)?)))).collect()
    };
    axis::line(page, &path(&|index| points.edge(index).map(|edge| edge as f64), &y), "line second");
    axis::line(page, &path(&|index| Some(points.of.acked[index] as f64), &y), "line faint");
    axis::line(page, &path(&|index| Some(sent[index] as f64), &y), "line");
    for index in points.again().take(500) {
        axis::dot(page, (x.at(t(index)), y.at(sent[index] as f64)), 3.0, "dot");
    }
    let flying = points.each().map(|index| points.of.in_flight[index] as f64);
    let most = top(flying);
    let window_top = top(points.of.window.iter().take(points.length).map(|bytes| *bytes as f64));
    let z = Linear::new(
        (0.0, if points.windowed { window_top.min(3.0 * most).max(most) } else { most }),
        (lower.bottom, lower.top),
    );
    panel(page, lower, &z, "in flight");
    if points.windowed {
        axis::line(
            page,
            &path(&|index| points.of.window.get(index).map(|bytes| *bytes as f64), &z),
            "line second",
        );
    }
    axis::line(page, &path(&|index| Some(points.of.in_flight[index] as f64), &z), "line");
    let marks: Vec<(f64, String)> = (x.ticks(if canvas.narrow { 4 } else { 10 }).into_iter())
        .map(|at| (x.at(at), format!("{} s", axis::seconds(at))))
        .collect();
    axis::columns(page, lower, canvas.width, &marks, false);
}

fn panel(page: &mut Markup, frame: Frame, scale: &Linear, name: &str) {
    let marks: Vec<(f64, String)> =
        scale.ticks(3).into_iter().map(|value| (scale.at(value), bytes(value as u64))).collect();
    axis::rows(page, frame, &marks);
    axis::text(page, (frame.left + 4.0, frame.top - 4.0), Anchor::Start, "name", name);
}

fn legend(page: &mut Markup, points: &Points<'_>) {
    let mut entries = vec![("line", "sent, in flight"), ("line faint", "acknowledged")];
    if points.windowed {
        entries.push(("line second", "the receiver's window"));
    }
    page.within("ul", &[("class", "legend")], |page| {
        for (class, words) in entries {
            entry(page, class, words);
        }
        if points.again().next().is_some() {
            page.leaf("li", &[], "dots: sent again");
        }
        page.leaf("li", &[], "shaded: stalls");
    });
}

fn table(points: &Points<'_>) -> Table {
    let mut table = Table::new(&["time", "sent", "acknowledged", "in flight", "window", "sent again"]);
    let step = points.length.div_ceil(ROWS).max(1);
    for index in points.each().step_by(step) {
        let of = points.of;
        table.row([
            time(sane(of.t[index])),
            bytes(of.sent[index]),
            bytes(of.acked[index]),
            bytes(of.in_flight[index]),
            of.window.get(index).map_or("–".to_owned(), |window| bytes(*window)),
            of.again.get(index).map_or("–".to_owned(), |again| bytes(*again)),
        ]);
    }
    table
}

/// The stalls of all connections as a table.
fn stalls(page: &mut Markup, flows: &[CapturedFlow]) {
    let mut table = Table::new(&["connection", "stall", "from", "to", "ended by"]);
    let stalls = flows.iter().flat_map(|flow| flow.stalls.iter().map(move |stall| (flow, stall)));
    let mut all = 0_u64;
    for (flow, stall) in stalls {
        all += 1;
        if table.rows.len() < ROWS {
            table.row([
                short(&flow.from, 60),
                time(sane(stall.to - stall.from)),
                time(sane(stall.from)),
                time(sane(stall.to)),
                ended_by(&stall.cause).to_owned(),
            ]);
        }
    }
    if all == 0 {
        return;
    }
    page.within("details", &[], |page| {
        page.leaf("summary", &[], &format!("Stalls: the {} longest", counted(all, "stall")));
        table.render(page, "Stalls");
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::{Run, render as page};
    use crate::schema::{Record, RunOutcome};

    fn drawn(sequence: SequenceRecord) -> String {
        let stalls = vec![StallRecord { from: 0.2, to: 0.4, cause: "window".to_owned() }];
        let flow = CapturedFlow {
            from: "<b>:80".to_owned(),
            vantage: "sender".to_owned(),
            bytes: 3000,
            sequence,
            stalls,
            ..CapturedFlow::default()
        };
        let capture =
            CaptureRecord { file: "a.pcap".to_owned(), flows: vec![flow], ..CaptureRecord::default() };
        let mut record = Record::new("why", RunOutcome::Complete, 3000, 1.0);
        record.extra.insert("capture".to_owned(), serde_json::to_value(capture).unwrap());
        page(&[Run { name: "run".to_owned(), record, notes: Vec::new() }])
    }

    #[test]
    fn it_shows_bytes_flight_window_and_stalls() {
        let sequence = SequenceRecord {
            t: vec![0.0, 0.5, 1.0],
            sent: vec![1000, 2000, 3000],
            acked: vec![0, 1000, 3000],
            in_flight: vec![1000, 1000, 0],
            window: vec![2000, 2000, 2000],
            again: vec![0, 100, 0],
        };
        let text = drawn(sequence);
        assert!(text.contains("Time and sequence: &lt;b&gt;:80"), "{text}");
        assert!(
            text.contains("the receiver's window opening")
                || text.contains("the receiver&#39;s window opening")
        );
        assert!(text.contains("dots: sent again"));
        assert!(!text.contains("<b>"));
    }

    #[test]
    fn columns_of_unequal_length_and_strange_numbers_are_drawn_as_far_as_they_go() {
        let strange = SequenceRecord {
            t: vec![-1.0, f64::MAX, 0.0, 3.0],
            sent: vec![u64::MAX; 3],
            acked: vec![u64::MAX; 9],
            in_flight: vec![0; 4],
            window: vec![u64::MAX; 3],
            again: Vec::new(),
        };
        assert!(drawn(strange).contains("Time and sequence"));
        let short = SequenceRecord { t: vec![0.0; 9], sent: vec![1], ..SequenceRecord::default() };
        assert!(!drawn(short).contains("Time and sequence"));
    }
}
