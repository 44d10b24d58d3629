//! The rate over time, its surface in the look of what held it.

use super::super::axis::{self, Anchor, LETTER};
use super::super::figure::{Canvas, Figure, Table};
use super::super::limits;
use super::super::markup::Markup;
use super::super::scale::{Linear, sane, top};
use super::super::words::{percent, rate, time};
use crate::schema::{Record, Sample};

/// Stretches that a picture shows, at most: two pixels each.
const STEPS: usize = 500;

/// Rows of its table, at most.
const ROWS: usize = 100;

/// One stretch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// Seconds.
    pub from: f64,
    /// Seconds.
    pub to: f64,
    /// Bytes per second.
    pub rate: f64,
    /// What held it.
    pub limit: Option<String>,
    /// Bytes per second that the device took.
    pub disk: Option<f64>,
    /// Connections.
    pub connections: Option<u32>,
}

/// The steps of a record, at most so many. There are none if bytes were moved but the samples show none: the
/// run was over before the first reading. If the verdict names no limit, neither do the steps.
pub fn of(record: &Record, most: usize) -> Vec<Step> {
    if record.bytes > 0 && record.samples.iter().all(|sample| sane(sample.rate) <= 0.0) {
        return Vec::new();
    }
    let verdict = record.verdict.as_ref();
    // The last sample's rate lasts until the run was no longer watched. The run itself may be longer, by what
    // came before or after the data.
    let last = record.samples.iter().map(|sample| sane(sample.t)).fold(0.0, f64::max);
    let watched = verdict.and_then(|verdict| verdict.phases.last()).map(|phase| sane(phase.to));
    let end = watched.filter(|end| *end > last && *end < record.seconds).unwrap_or(record.seconds);
    let mut steps = steps(&record.samples, end, most);
    if verdict.is_some_and(|verdict| verdict.limit.is_none()) {
        steps.iter_mut().for_each(|step| step.limit = None);
    }
    steps
}

/// The steps of samples up to the end, in order, at most so many: neighbours are joined.
fn steps(samples: &[Sample], seconds: f64, most: usize) -> Vec<Step> {
    let mut samples: Vec<&Sample> = samples.iter().collect();
    samples.sort_by(|a, b| sane(a.t).total_cmp(&sane(b.t)));
    let ends = samples.iter().skip(1).map(|sample| sane(sample.t)).chain([sane(seconds)]);
    let each = samples.iter().zip(ends).map(|(sample, to)| Step {
        from: sane(sample.t),
        to: to.max(sane(sample.t)),
        rate: sane(sample.rate),
        limit: sample.limit.clone(),
        disk: sample.disk_rate.map(sane),
        connections: sample.connections,
    });
    let mut each: Vec<Step> = each.collect();
    // The last interval ends when the run does: of a few milliseconds the rate is chance, and would set the
    // scale.
    if let [.., before, last] = each.as_slice()
        && last.to - last.from < 0.25 * (before.to - before.from)
    {
        let both = Step { limit: before.limit.clone(), ..joined(&[before.clone(), last.clone()]) };
        each.truncate(each.len() - 2);
        each.push(both);
    }
    join(&each, most)
}

/// At most so many steps: neighbours are joined.
pub fn join(steps: &[Step], most: usize) -> Vec<Step> {
    let size = steps.len().div_ceil(most.max(1)).max(1);
    steps.chunks(size).map(joined).collect()
}

fn joined(steps: &[Step]) -> Step {
    let longest = steps.iter().max_by(|a, b| (a.to - a.from).total_cmp(&(b.to - b.from)));
    let span = |step: &Step| step.to - step.from;
    Step {
        from: steps.first().map_or(0.0, |step| step.from),
        to: steps.last().map_or(0.0, |step| step.to),
        rate: mean(steps.iter().map(|step| (step.rate, span(step)))).unwrap_or_default(),
        limit: longest.and_then(|step| step.limit.clone()),
        // Of the steps whose reading was taken: a missing one is not 0.
        disk: mean(steps.iter().filter_map(|step| Some((step.disk?, span(step))))),
        connections: steps.iter().filter_map(|step| step.connections).max(),
    }
}

/// The mean of values, each by its span; nothing of nothing.
fn mean(values: impl Iterator<Item = (f64, f64)> + Clone) -> Option<f64> {
    let span: f64 = values.clone().map(|(_, span)| span).sum();
    match span > 0.0 {
        true => Some(values.map(|(value, own)| value * own).sum::<f64>() / span),
        false => values.map(|(value, _)| value).next(),
    }
}

/// The mean rate of steps, each by its span, and the time that they end at.
pub(crate) fn mean_of(steps: &[Step]) -> (f64, f64) {
    let all = joined(steps);
    (all.rate, all.to)
}

/// Writes the figure; nothing where there is no time to show.
pub fn render(page: &mut Markup, record: &Record) {
    let steps = of(record, STEPS);
    // The run's own rate and time, as at the top of the page. Of many hosts only one was watched, so they are
    // not those of the samples.
    let mean = if record.hosts().is_empty() { (record.rate, sane(record.seconds)) } else { mean_of(&steps) };
    render_steps(page, &steps, "Rate over time", mean);
}

/// The same of steps from elsewhere, with their mean rate and the time that it is the mean of.
pub(crate) fn render_steps(page: &mut Markup, steps: &[Step], title: &str, (mean, over): (f64, f64)) {
    if steps.last().is_none_or(|step| step.to <= 0.0) {
        return;
    }
    let most = steps.iter().map(|step| step.rate).fold(0.0, f64::max);
    let limits = in_order(steps);
    let held: Vec<String> =
        limits.iter().map(|(limit, share)| format!("{} {}", limits::title(limit), percent(*share))).collect();
    let held = if held.is_empty() { String::new() } else { format!(" Held by {}.", held.join(", ")) };
    let says = format!("{} on average over {}, {} at the most.{held}", rate(mean), time(over), rate(most));
    let with_disk = steps.iter().any(|step| step.disk.is_some_and(|disk| disk > 0.0));
    let figure = Figure { title, says: &says, heights: (300.0, 230.0), table: table(steps) };
    figure.render_with(
        page,
        |page, canvas| draw(page, canvas, steps, with_disk),
        |page| legend(page, &limits, with_disk),
    );
}

/// Limits by their time, and their share of it.
fn in_order(steps: &[Step]) -> Vec<(String, f64)> {
    let all: f64 = steps.iter().map(|step| step.to - step.from).sum();
    let mut limits: Vec<(String, f64)> = Vec::new();
    for step in steps {
        let Some(limit) = &step.limit else { continue };
        let share = if all > 0.0 { (step.to - step.from) / all } else { 0.0 };
        match limits.iter_mut().find(|(name, _)| name == limit) {
            Some((_, sum)) => *sum += share,
            None => limits.push((limit.clone(), share)),
        }
    }
    limits.sort_by(|a, b| b.1.total_cmp(&a.1));
    // More kinds than the vocabulary has come from a stranger's record.
    limits.truncate(20);
    limits
}

fn draw(page: &mut Markup, canvas: Canvas, steps: &[Step], with_disk: bool) {
    let end = steps.last().map_or(1.0, |step| step.to);
    let frame = canvas.frame(80.0, 26.0, 12.0, 28.0);
    let x = Linear::new((0.0, end), (frame.left, frame.right));
    let rates = steps.iter().map(|step| step.rate.max(step.disk.unwrap_or(0.0)));
    let y = Linear::new((0.0, top(rates)), (frame.bottom, frame.top));
    let marks: Vec<(f64, String)> = y.ticks(4).into_iter().map(|value| (y.at(value), rate(value))).collect();
    axis::rows(page, frame, &marks);
    for run in runs(steps) {
        let look = limits::look(run[0].limit.as_deref().unwrap_or_default());
        let mut corners = vec![(x.at(run[0].from), frame.bottom)];
        corners.extend(
            run.iter()
                .flat_map(|step| [(x.at(step.from), y.at(step.rate)), (x.at(step.to), y.at(step.rate))]),
        );
        let last = x.at(run[run.len() - 1].to);
        corners.push((last, frame.bottom));
        axis::surface(page, &corners, "area", Some(look.fill));
        let words = limits::title(run[0].limit.as_deref().unwrap_or("not judged"));
        if last - corners[0].0 > words.chars().count() as f64 * LETTER + 6.0 {
            axis::text(
                page,
                ((corners[0].0 + last) / 2.0, frame.top - 10.0),
                Anchor::Middle,
                "strong",
                &words,
            );
        }
    }
    let outline: Vec<(f64, f64)> = steps
        .iter()
        .flat_map(|step| [(x.at(step.from), y.at(step.rate)), (x.at(step.to), y.at(step.rate))])
        .collect();
    axis::line(page, &outline, "line");
    if with_disk {
        disk_lines(page, steps, (x, y));
    }
    let marks: Vec<(f64, String)> = x
        .ticks(if canvas.narrow { 4 } else { 10 })
        .into_iter()
        .map(|at| (x.at(at), format!("{} s", axis::seconds(at))))
        .collect();
    axis::columns(page, frame, canvas.width, &marks, false);
}

/// What the device took: a line for each stretch in which that was read, and none in between.
fn disk_lines(page: &mut Markup, steps: &[Step], (x, y): (Linear, Linear)) {
    for stretch in steps.chunk_by(|a, b| a.disk.is_some() == b.disk.is_some()) {
        let disk: Vec<(f64, f64)> = (stretch.iter())
            .filter_map(|step| Some((step, y.at(step.disk?))))
            .flat_map(|(step, y)| [(x.at(step.from), y), (x.at(step.to), y)])
            .collect();
        if !disk.is_empty() {
            axis::line(page, &disk, "line under");
            axis::line(page, &disk, "line second");
        }
    }
}

/// Neighbours under the same limit.
fn runs(steps: &[Step]) -> impl Iterator<Item = &[Step]> {
    steps.chunk_by(|a, b| a.limit == b.limit)
}

fn legend(page: &mut Markup, limits: &[(String, f64)], with_disk: bool) {
    page.within("ul", &[("class", "legend")], |page| {
        for (limit, share) in limits {
            page.within("li", &[], |page| {
                limits::swatch(page, limit);
                page.leaf("span", &[], &format!("{} {}", limits::title(limit), percent(*share)));
            });
        }
        if with_disk {
            entry(page, "line second", "the device took (all its writers)");
        }
    });
}

/// A line of a legend: how a line looks, and what it is of.
pub fn entry(page: &mut Markup, class: &str, words: &str) {
    page.within("li", &[], |page| {
        stroke(page, class);
        page.leaf("span", &[], words);
    });
}

fn stroke(page: &mut Markup, class: &str) {
    let frame = [
        ("viewBox", "0 0 28 16"),
        ("width", "28"),
        ("height", "16"),
        ("class", "swatch"),
        ("aria-hidden", "true"),
    ];
    page.within("svg", &frame, |page| axis::line(page, &[(0.0, 8.0), (28.0, 8.0)], class));
}

fn table(steps: &[Step]) -> Table {
    let steps = join(steps, ROWS);
    let with_connections = steps.iter().any(|step| step.connections.is_some());
    let with_disk = steps.iter().any(|step| step.disk.is_some());
    let mut head = vec!["from", "to", "rate", "held by"];
    head.extend(with_connections.then_some("connections"));
    head.extend(with_disk.then_some("device took"));
    let mut table = Table::new(&head);
    for step in &steps {
        let mut row = vec![
            time(step.from),
            time(step.to),
            rate(step.rate),
            step.limit.as_deref().map_or("–".to_owned(), limits::title),
        ];
        row.extend(
            with_connections.then(|| step.connections.map_or("–".to_owned(), |count| count.to_string())),
        );
        row.extend(with_disk.then(|| step.disk.map_or("–".to_owned(), rate)));
        table.rows.push(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_steps_keep_bytes_and_time() {
        let sample = |t: f64, rate: f64, limit: &str| Sample {
            t,
            rate,
            limit: Some(limit.into()),
            ..Sample::default()
        };
        let samples = [sample(3.0, 20.0, "disk"), sample(0.0, 10.0, "latency"), sample(1.0, 40.0, "disk")];
        let all = steps(&samples, 4.0, 10);
        assert_eq!(
            all.iter().map(|step| (step.from, step.to, step.rate)).collect::<Vec<_>>(),
            [(0.0, 1.0, 10.0), (1.0, 3.0, 40.0), (3.0, 4.0, 20.0)]
        );
        let one = &join(&all, 1)[0];
        assert_eq!((one.from, one.to, one.rate, one.limit.as_deref()), (0.0, 4.0, 27.5, Some("disk")));
        assert_eq!(
            steps(&samples, f64::INFINITY, 10).len(),
            2,
            "a last step of no length joins the one before"
        );
    }

    /// The area drawn is the bytes moved: no rate is drawn for the time of logins or of comparing files.
    #[test]
    fn a_picture_has_the_bytes_of_its_run() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gallery/records");
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut records: Vec<String> = paths.map(|path| std::fs::read_to_string(path).unwrap()).collect();
        let to_a_host_far_away = serde_json::json!({
            "schema": "weir.run/1", "command": "cp", "outcome": "partial", "bytes": 20_000_000, "seconds": 3.61,
            "samples": [{ "t": 0.0, "rate": 17.0e6 }, { "t": 1.0, "rate": 12.93e6 }],
            "verdict": { "limit": "path-bandwidth", "phases": [{ "from": 0.0, "to": 1.232, "limit": "path-bandwidth" }] },
        });
        records.push(to_a_host_far_away.to_string());
        let mut drawn = 0;
        for text in records {
            let record = crate::json::parse(&text).unwrap();
            let steps = of(&record, STEPS);
            if steps.is_empty() {
                continue;
            }
            drawn += 1;
            let bytes: f64 = steps.iter().map(|step| step.rate * (step.to - step.from)).sum();
            let share = bytes / record.bytes as f64;
            assert!((0.9..1.1).contains(&share), "{}: {share}", record.command);
        }
        assert!(drawn > 5, "{drawn}");
    }

    #[test]
    fn a_disk_that_was_not_read_is_no_disk_at_rest() {
        let disks = [Some(8.0), Some(4.0), None, None, Some(2.0)];
        let samples: Vec<Sample> = (disks.iter().enumerate())
            .map(|(at, disk)| Sample { t: at as f64, rate: 9.0, disk_rate: *disk, ..Sample::default() })
            .collect();
        let all = steps(&samples, 5.0, 10);
        assert_eq!(all.iter().map(|step| step.disk).collect::<Vec<_>>(), disks);
        assert_eq!(join(&all, 2)[0].disk, Some(6.0), "two of the three were read");
        assert_eq!(join(&all[2..4], 1)[0].disk, None);
        let mut page = Markup::default();
        render_steps(&mut page, &all, "t", (9.0, 5.0));
        let text = page.into_text();
        let lines: Vec<usize> = (text.match_indices("<polyline points=\""))
            .map(|(at, begin)| &text[at + begin.len()..])
            .filter_map(|rest| rest.split_once("\" class=\"line second\""))
            .map(|(points, _)| points)
            .filter(|points| !points.contains('"'))
            .map(|points| points.split(' ').count())
            .collect();
        // In the wide and the narrow picture a line of two steps and one of a step, and the legend's stroke.
        assert_eq!(lines, [4, 2, 4, 2, 2]);
    }
}
