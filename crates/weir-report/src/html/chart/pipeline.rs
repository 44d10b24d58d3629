//! The pipeline: one stream through openings as wide as each stage's room. Where the stream fills the opening, there it is
//! held.
//!
//! A stage's load is the share of its ceiling in use; the opening is drawn as wide as `1 / load`, on a logarithmic scale, the
//! stream always as wide as an opening at full load.

use super::super::axis::{self, Anchor, LETTER};
use super::super::figure::{Canvas, Figure, Table};
use super::super::limits;
use super::super::markup::Markup;
use super::super::scale::sane;
use super::super::words::{percent, rate, short};
use crate::schema::{LoadRecord, Record, VerdictRecord};

/// Stages in the order in which bytes pass them, each with the limits that it can be.
const STAGES: [(&str, &[&str]); 8] = [
    ("Source", &["application", "rate-limit", "source-disk"]),
    ("Pack", &["compress", "encrypt"]),
    ("Send", &["send-buffer"]),
    ("Path", &["path-bandwidth", "path-loss", "latency", "sender-or-path"]),
    ("Receive", &["receive-window", "reader"]),
    ("Core", &["cpu-core"]),
    ("Unpack", &["decompress", "verify"]),
    ("Store", &["dirty-throttle", "disk"]),
];

/// A share of the run's time below which a limit did not hold the run in any way worth a mark.
const HELD: f64 = 0.1;

/// A stage as it is drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// `Path`.
    pub name: &'static str,
    /// Which of its limits is shown: the one that held longest, else the fullest.
    pub limit: String,
    /// Share of the run's time that its limits held.
    pub held: f64,
    /// The load of what is shown.
    pub load: Option<f64>,
    /// What it would carry.
    pub ceiling: Option<f64>,
    /// What the load is of; or why there is none.
    pub basis: String,
}

/// The stages that a record tells of.
pub fn stages(record: &Record) -> Vec<Stage> {
    let Some(verdict) = &record.verdict else { return Vec::new() };
    if verdict.shares.is_empty() && record.loads.is_empty() {
        return Vec::new();
    }
    STAGES.iter().filter_map(|(name, limits)| stage(name, limits, &record.loads, verdict)).collect()
}

fn stage(
    name: &'static str,
    limits: &[&str],
    loads: &[LoadRecord],
    verdict: &VerdictRecord,
) -> Option<Stage> {
    let share = |limit: &str| verdict.shares.get(limit).map_or(0.0, |share| sane(*share).min(1.0));
    let load = |limit: &str| loads.iter().find(|load| load.limit == limit);
    let held: f64 = limits.iter().map(|limit| share(limit)).sum::<f64>().min(1.0);
    let loaded = |limit: &str| load(limit).map_or(-1.0, |load| sane(load.load).min(1.0));
    let longest =
        limits.iter().filter(|limit| share(limit) > 0.0).max_by(|a, b| share(a).total_cmp(&share(b)));
    let fullest =
        limits.iter().filter(|limit| load(limit).is_some()).max_by(|a, b| loaded(a).total_cmp(&loaded(b)));
    let said = |lines: &[String], limit: &str| {
        lines.iter().find_map(|line| line.strip_prefix(limit)?.strip_prefix(": ").map(str::to_owned))
    };
    let told =
        |limit: &&&str| said(&verdict.innocent, limit).is_some() || said(&verdict.missing, limit).is_some();
    let limit = longest.or(fullest).or_else(|| limits.iter().find(told))?;
    let basis = load(limit).map(|load| load.basis.clone());
    let basis = basis.or_else(|| said(&verdict.innocent, limit)).or_else(|| said(&verdict.missing, limit));
    // A stage between two that were measured, whose limits are only known to be innocent, is no picture's business.
    if held == 0.0 && load(limit).is_none() && matches!(name, "Pack" | "Unpack" | "Send") {
        return None;
    }
    Some(Stage {
        name,
        limit: (*limit).to_owned(),
        held,
        load: load(limit).map(|load| sane(load.load).min(1.0)),
        ceiling: load(limit).and_then(|load| load.ceiling).map(sane).filter(|rate| *rate > 0.0),
        basis: basis.unwrap_or_else(|| "not measured".to_owned()),
    })
}

impl Stage {
    /// How narrow it was: its load, or the share of the time that it held.
    fn narrowness(&self) -> Option<f64> {
        // Who waits for data waits for whatever held them: no stage's own load.
        if self.limit == "sender-or-path" {
            return Some(self.held);
        }
        if self.held >= HELD { Some(self.load.unwrap_or(0.0).max(self.held)) } else { self.load }
    }

    /// The opening, where 1 is as wide as openings are drawn.
    fn opening(&self) -> f64 {
        // A stage that one did not look into is drawn open and dashed; one at a tenth of its ceiling has all the room.
        let load = self.narrowness().unwrap_or(0.1).clamp(0.1, 1.0);
        STREAM + (1.0 - STREAM) * -load.log10()
    }

    fn words(&self) -> String {
        match (self.held >= HELD, self.load) {
            (true, _) => format!("held {}", percent(self.held)),
            (false, Some(load)) if self.limit == "sender-or-path" => format!("awaited {}", percent(load)),
            (false, Some(load)) => format!("{} in use", percent(load)),
            (false, None) => "not measured".to_owned(),
        }
    }
}

/// The stream's width, where 1 is as wide as openings are drawn.
const STREAM: f64 = 0.2;

/// Writes the figure; nothing where nothing was judged.
pub fn render(page: &mut Markup, record: &Record) {
    let stages = stages(record);
    if stages.is_empty() {
        return;
    }
    let narrowest = narrowest(&stages);
    let says = match narrowest.map(|index| &stages[index]) {
        Some(stage) => format!(
            "The stream through each stage's opening; it is held where it fills the opening: {}, {} of the time ({}).",
            stage.name,
            percent(stage.held),
            limits::title(&stage.limit)
        ),
        None => "The stream through each stage's opening: no stage held it for long.".to_owned(),
    };
    let mut table = Table::new(&["stage", "limit", "held", "load", "ceiling", "seen"]);
    for stage in &stages {
        table.row([
            stage.name.to_owned(),
            limits::title(&stage.limit),
            percent(stage.held),
            stage.load.map_or("–".to_owned(), percent),
            stage.ceiling.map_or("–".to_owned(), rate),
            stage.basis.clone(),
        ]);
    }
    let heights = (250.0, 30.0 + 78.0 * stages.len() as f64);
    let figure = Figure { title: "The pipeline", says: &says, heights, table };
    figure.render(page, |page, canvas| match canvas.narrow {
        false => across(page, canvas, &stages, narrowest, record.rate),
        true => down(page, canvas, &stages, narrowest, record.rate),
    });
}

/// The stage that held longest, if one did.
fn narrowest(stages: &[Stage]) -> Option<usize> {
    let held = stages.iter().enumerate().filter(|(_, stage)| stage.held >= HELD);
    held.max_by(|a, b| a.1.held.total_cmp(&b.1.held)).map(|(index, _)| index)
}

fn look_of(stage: &Stage) -> Option<&'static str> {
    (stage.held >= HELD).then(|| limits::look(&stage.limit).fill)
}

/// From left to right, names above, figures below.
fn across(page: &mut Markup, canvas: Canvas, stages: &[Stage], narrowest: Option<usize>, through: f64) {
    let (top, bottom) = (54.0, 154.0);
    let (middle, half) = ((top + bottom) / 2.0, (bottom - top) / 2.0 - 4.0);
    let width = canvas.width / stages.len() as f64;
    axis::rect(page, (0.0, top), (canvas.width, bottom - top), "wall", None);
    let letters = ((width - 8.0) / LETTER) as usize;
    for (index, stage) in stages.iter().enumerate() {
        let left = width * index as f64;
        let opening = half * stage.opening();
        let class = if stage.narrowness().is_some() { "bore" } else { "bore unseen" };
        if let Some(fill) = look_of(stage) {
            axis::rect(page, (left + 1.0, top), (width - 2.0, bottom - top), "area", Some(fill));
        }
        axis::rect(page, (left, middle - opening), (width, 2.0 * opening), class, None);
        let centre = left + width / 2.0;
        axis::text(page, (centre, top - 28.0), Anchor::Middle, "title", stage.name);
        axis::text(
            page,
            (centre, top - 11.0),
            Anchor::Middle,
            "aside",
            &short(&limits::title(&stage.limit), letters),
        );
        let strong = if stage.held >= HELD { "strong" } else { "aside" };
        axis::text(page, (centre, bottom + 22.0), Anchor::Middle, strong, &short(&stage.words(), letters));
        let ceiling = stage.ceiling.map_or("–".to_owned(), |ceiling| format!("≤ {}", rate(ceiling)));
        axis::text(page, (centre, bottom + 42.0), Anchor::Middle, "mark", &ceiling);
        if narrowest == Some(index) {
            axis::rect(page, (left + 2.0, top - 46.0), (width - 4.0, bottom - top + 98.0), "ring", None);
        }
    }
    let stream = half * STREAM;
    axis::rect(page, (0.0, middle - stream), (canvas.width, 2.0 * stream), "stream", None);
    let words = format!("{} went through; ≤ is what a stage would carry alone", rate(through));
    axis::text(page, (canvas.width / 2.0, bottom + 84.0), Anchor::Middle, "mark", &words);
}

/// From above to below, the words on the right.
fn down(page: &mut Markup, canvas: Canvas, stages: &[Stage], narrowest: Option<usize>, through: f64) {
    let (left, right) = (2.0, 102.0);
    let (middle, half) = ((left + right) / 2.0, (right - left) / 2.0 - 4.0);
    let height = 78.0;
    axis::rect(page, (left, 0.0), (right - left, height * stages.len() as f64), "wall", None);
    let letters = ((canvas.width - right - 20.0) / LETTER) as usize;
    for (index, stage) in stages.iter().enumerate() {
        let top = height * index as f64;
        let opening = half * stage.opening();
        let class = if stage.narrowness().is_some() { "bore" } else { "bore unseen" };
        if let Some(fill) = look_of(stage) {
            axis::rect(page, (left, top + 1.0), (right - left, height - 2.0), "area", Some(fill));
        }
        axis::rect(page, (middle - opening, top), (2.0 * opening, height), class, None);
        let at = right + 14.0;
        axis::text(page, (at, top + 22.0), Anchor::Start, "title", stage.name);
        axis::text(
            page,
            (at, top + 39.0),
            Anchor::Start,
            "aside",
            &short(&limits::title(&stage.limit), letters),
        );
        let ceiling = stage.ceiling.map_or(String::new(), |ceiling| format!(", ≤ {}", rate(ceiling)));
        let strong = if stage.held >= HELD { "strong" } else { "aside" };
        axis::text(
            page,
            (at, top + 57.0),
            Anchor::Start,
            strong,
            &short(&format!("{}{ceiling}", stage.words()), letters),
        );
        if narrowest == Some(index) {
            axis::rect(page, (1.5, top + 2.0), (canvas.width - 3.0, height - 4.0), "ring", None);
        }
    }
    let (stream, end) = (half * STREAM, height * stages.len() as f64);
    axis::rect(page, (middle - stream, 0.0), (2.0 * stream, end), "stream", None);
    let words = short(&format!("{} went through", rate(through)), (canvas.width / LETTER) as usize);
    axis::text(page, (left, end + 20.0), Anchor::Start, "mark", &words);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Outcome;

    #[test]
    fn the_stage_that_held_is_the_narrowest() {
        let load = |limit: &str, load: f64, ceiling: Option<f64>| LoadRecord {
            limit: limit.into(),
            load,
            ceiling,
            basis: "b".into(),
        };
        let mut record = Record::new("get", Outcome::Complete, 10, 1.0);
        record.loads = vec![
            load("receive-window", 0.8, Some(1e6)),
            load("cpu-core", 0.05, None),
            load("disk", 0.3, None),
        ];
        record.verdict = Some(VerdictRecord {
            shares: [("receive-window".to_owned(), 0.74), ("latency".to_owned(), 0.26)].into(),
            innocent: vec!["application: first bytes came at once".into()],
            ..VerdictRecord::default()
        });
        let stages = stages(&record);
        let names: Vec<&str> = stages.iter().map(|stage| stage.name).collect();
        assert_eq!(names, ["Source", "Path", "Receive", "Core", "Store"]);
        assert_eq!(narrowest(&stages), Some(2));
        let openings: Vec<f64> = stages.iter().map(Stage::opening).collect();
        assert!(openings[2] < openings[1] && openings[1] < openings[3], "{openings:?}");
        assert_eq!((stages[0].load, stages[0].basis.as_str()), (None, "first bytes came at once"));
        assert_eq!(stages[4].words(), "30 % in use");
    }
}
