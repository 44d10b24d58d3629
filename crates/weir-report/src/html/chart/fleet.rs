//! A fleet over time: each host a row in the look of what held it, and how many objects were done.

use weir_model::fleet::{NO_WORK, NOT_JUDGED};

use super::super::axis::{self, Anchor, LETTER};
use super::super::figure::{Canvas, Figure, Table};
use super::super::limits;
use super::super::markup::Markup;
use super::super::scale::{Linear, sane};
use super::super::words::{count, percent, rate, short};
use super::rate::entry;
use crate::escape::escape;
use crate::figures::percent_done;
use crate::fleet_history::{FleetHistoryRecord, FleetHostRecord, FleetProgressStep, FleetSpan};

/// Hosts that are drawn, at most: a screen and a half of rows.
const HOSTS: usize = 60;

/// Spans of a host that are drawn: a column of eight pixels each.
const SPANS: usize = 120;

/// The same for a telephone.
const FEW_SPANS: usize = 40;

/// Heights: of a row, of the axis below.
const ROW: f64 = 18.0;
const FOOT: f64 = 34.0;

/// Writes the rows of hosts; nothing where no worker told anything.
pub fn hosts(page: &mut Markup, history: &FleetHistoryRecord) {
    let shown: Vec<&FleetHostRecord> =
        history.hosts.iter().filter(|host| !host.spans.is_empty()).take(HOSTS).collect();
    if shown.is_empty() || sane(history.seconds) <= 0.0 {
        return;
    }
    let all = history.hosts.len() as u64 + history.hosts_left_out;
    let more = all - shown.len() as u64;
    let others = if more > 0 { format!(" {more} more hosts are not drawn.") } else { String::new() };
    let says = format!(
        "Each row is a host, each colour what held it most of that time; where it is empty the host had no work. \
         Hosts that differ from the others come first.{others}"
    );
    let height = ROW * shown.len() as f64 + FOOT;
    let figure =
        Figure { title: "Hosts over time", says: &says, heights: (height, height), table: Table::default() };
    figure.render_with(
        page,
        |page, canvas| draw_hosts(page, canvas, &shown, sane(history.seconds)),
        |page| legend(page, &shown),
    );
}

fn draw_hosts(page: &mut Markup, canvas: Canvas, hosts: &[&FleetHostRecord], seconds: f64) {
    let left = if canvas.narrow { 84.0 } else { 190.0 };
    let frame = canvas.frame(left, 0.0, 12.0, FOOT);
    let x = Linear::new((0.0, seconds), (frame.left, frame.right));
    // Bold letters are a fifth wider.
    let letters = ((left - 10.0) / (1.2 * LETTER)) as usize;
    for (row, host) in hosts.iter().enumerate() {
        let top = ROW * row as f64;
        let class = if host.differs.is_some() { "strong" } else { "mark" };
        axis::text(page, (left - 8.0, top + 13.0), Anchor::End, class, &short(&escape(&host.host), letters));
        let most = if canvas.narrow { FEW_SPANS } else { SPANS };
        for span in joined(&host.spans, most) {
            if span.limit == NO_WORK {
                continue;
            }
            let (from, to) = (x.at(span.from), x.at(span.to));
            let (class, fill) = match span.limit.as_str() {
                NOT_JUDGED => ("heat h2", None),
                limit => ("area", Some(limits::look(limit).fill)),
            };
            // A hair between rows, none between neighbours in time.
            axis::rect(page, (from, top + 1.0), ((to - from).max(0.5), ROW - 2.0), class, fill);
        }
    }
    times(page, canvas, x, frame, seconds);
}

/// The axis of time, in the unit that suits.
fn times(page: &mut Markup, canvas: Canvas, x: Linear, frame: super::super::figure::Frame, seconds: f64) {
    let (unit, word) = match seconds {
        seconds if seconds > 4.0 * 86400.0 => (86400.0, "d"),
        seconds if seconds > 4.0 * 3600.0 => (3600.0, "h"),
        seconds if seconds > 600.0 => (60.0, "min"),
        _ => (1.0, "s"),
    };
    let scale = Linear::new((0.0, seconds / unit), (frame.left, frame.right));
    let marks: Vec<(f64, String)> = scale
        .ticks(if canvas.narrow { 4 } else { 10 })
        .into_iter()
        .map(|at| (x.at(at * unit), format!("{} {word}", axis::seconds(at))))
        .collect();
    axis::columns(page, frame, canvas.width, &marks, false);
}

/// Neighbours under one limit are one span; of more than `most` the smallest parts of the picture go: time is
/// cut in equal parts, each by what held longest in it.
fn joined(spans: &[FleetSpan], most: usize) -> Vec<FleetSpan> {
    let mut spans: Vec<&FleetSpan> = spans.iter().take(10_000).collect();
    spans.sort_by(|a, b| sane(a.from).total_cmp(&sane(b.from)));
    let chunk = spans.len().div_ceil(most.max(1)).max(1);
    let mut out: Vec<FleetSpan> = Vec::new();
    for group in spans.chunks(chunk) {
        let length = |span: &&&FleetSpan| sane(span.to) - sane(span.from);
        let Some(longest) = group.iter().max_by(|a, b| length(a).total_cmp(&length(b))) else { continue };
        let to = group.iter().map(|span| sane(span.to)).fold(0.0, f64::max);
        let from = group.first().map_or(0.0, |span| sane(span.from));
        match out.last_mut() {
            Some(last) if last.limit == longest.limit && from - last.to < (to - from) / 2.0 => last.to = to,
            _ => out.push(FleetSpan { from, to, ..(**longest).clone() }),
        }
    }
    out
}

fn legend(page: &mut Markup, hosts: &[&FleetHostRecord]) {
    let mut limits: Vec<&str> = Vec::new();
    for span in hosts.iter().flat_map(|host| &host.spans).take(100_000) {
        // More kinds than the vocabulary has come from a stranger's ledger.
        if span.limit != NO_WORK && !limits.contains(&&*span.limit) && limits.len() < 24 {
            limits.push(&span.limit);
        }
    }
    page.within("ul", &[("class", "legend")], |page| {
        for limit in limits {
            if limit == NOT_JUDGED {
                page.leaf("li", &[], "pale: at work, not judged");
                continue;
            }
            page.within("li", &[], |page| {
                limits::swatch(page, limit);
                page.leaf("span", &[], &short(&limits::title(limit), 40));
            });
        }
    });
}

/// Writes how many objects were done when.
pub fn progress(page: &mut Markup, history: &FleetHistoryRecord) {
    let steps: Vec<&FleetProgressStep> = history.progress.iter().take(500).collect();
    let (Some(last), true) = (steps.last(), history.planned > 0) else { return };
    if steps.len() < 2 {
        return;
    }
    let failed = if last.failed > 0 { format!(", {} were given up", last.failed) } else { String::new() };
    let says = format!(
        "{} of {} objects were done ({} %){failed}.",
        count(last.objects as f64),
        count(history.planned as f64),
        percent_done(last.objects, history.planned)
    );
    let mut table = Table::new(&["time", "objects done", "bytes", "given up"]);
    let every = steps.len().div_ceil(60);
    for step in steps.iter().step_by(every) {
        table.row([
            super::super::words::time(step.t),
            step.objects.to_string(),
            super::super::words::bytes(step.bytes),
            step.failed.to_string(),
        ]);
    }
    let figure = Figure { title: "Progress", says: &says, heights: (240.0, 200.0), table };
    figure.render_with(
        page,
        |page, canvas| draw_progress(page, canvas, &steps, history),
        |page| {
            page.within("ul", &[("class", "legend")], |page| {
                entry(page, "line", "objects done");
                if last.failed > 0 {
                    entry(page, "line second", "given up");
                }
            });
        },
    );
}

fn draw_progress(
    page: &mut Markup,
    canvas: Canvas,
    steps: &[&FleetProgressStep],
    history: &FleetHistoryRecord,
) {
    let frame = canvas.frame(80.0, 16.0, 12.0, FOOT);
    let end = sane(history.seconds).max(steps.last().map_or(0.0, |step| sane(step.t)));
    let x = Linear::new((0.0, end), (frame.left, frame.right));
    let y = Linear::new((0.0, history.planned as f64), (frame.bottom, frame.top));
    let marks: Vec<(f64, String)> =
        y.ticks(4).into_iter().map(|value| (y.at(value), axis::mark(&count(value)))).collect();
    axis::rows(page, frame, &marks);
    let of = |value: &dyn Fn(&FleetProgressStep) -> u64| -> Vec<(f64, f64)> {
        steps.iter().map(|step| (x.at(step.t), y.at(value(step) as f64))).collect()
    };
    if steps.last().is_some_and(|step| step.failed > 0) {
        axis::line(page, &of(&|step| step.failed), "line second");
    }
    axis::line(page, &of(&|step| step.objects), "line");
    times(page, canvas, x, frame, end);
}

/// All hosts as figures.
pub fn table(history: &FleetHistoryRecord, most: usize) -> Table {
    let mut table =
        Table::new(&["host", "workers", "objects", "bytes", "rate at work", "held most by", "differs"]);
    for host in history.hosts.iter().take(most) {
        let held = match host.limit.as_str() {
            "" => "–".to_owned(),
            limit => format!("{} {}", short(&limits::title(limit), 30), percent(host.share)),
        };
        table.row([
            short(&host.host, 60),
            host.workers.to_string(),
            host.objects.to_string(),
            super::super::words::bytes(host.bytes),
            rate(host.rate),
            held,
            short(host.differs.as_deref().unwrap_or(""), 80),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_under_one_limit_are_one_and_many_are_few() {
        let span = |at: u32, limit: &str| FleetSpan {
            from: f64::from(at),
            to: f64::from(at + 1),
            limit: limit.to_owned(),
            ..FleetSpan::default()
        };
        let few = joined(&[span(1, "disk"), span(0, "disk"), span(2, "latency"), span(9, "latency")], 10);
        let told: Vec<_> = few.iter().map(|span| (span.from, span.to, &*span.limit)).collect();
        assert_eq!(told, [(0.0, 2.0, "disk"), (2.0, 3.0, "latency"), (9.0, 10.0, "latency")]);
        let many: Vec<_> =
            (0..5000).map(|at| span(at, if at % 2 == 0 { "disk" } else { "latency" })).collect();
        assert!(joined(&many, 120).len() <= 120);
        assert!(joined(&[FleetSpan { from: f64::NAN, to: f64::INFINITY, ..span(0, "x") }], 5).len() == 1);
    }
}
