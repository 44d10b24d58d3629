//! The pipeline: one stream through openings as wide as each stage's room. Where the stream fills the
//! opening, there it is held.
//!
//! A stage's load is the share of its ceiling in use; the opening is drawn as wide as `1 / load`, on a
//! logarithmic scale, the stream always as wide as an opening at full load.

use super::super::axis::{self, Anchor, LETTER};
use super::super::figure::{Canvas, Figure, Table};
use super::super::limits;
use super::super::markup::Markup;
use super::super::words::{percent, rate, short};
use crate::schema::Record;
use crate::stages::{HELD, Stage, narrowest, stages};

/// A stage's opening, where 1 is as wide as openings are drawn.
fn opening(stage: &Stage) -> f64 {
    // A stage that one did not look into is drawn open and dashed; one at a tenth of its ceiling has all the
    // room.
    let load = stage.narrowness().unwrap_or(0.1).clamp(0.1, 1.0);
    STREAM + (1.0 - STREAM) * -load.log10()
}

/// The stream's width, where 1 is as wide as openings are drawn.
const STREAM: f64 = 0.2;

/// Writes the figure; nothing where nothing was judged.
pub fn render(page: &mut Markup, record: &Record) {
    let Some(verdict) = &record.verdict else { return };
    let stages = stages(&record.loads, verdict);
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
        None if verdict.limit.is_none() => {
            "The stream through each stage's opening; what held it is not known.".to_owned()
        }
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
        let opening = half * opening(stage);
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
        let opening = half * opening(stage);
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

    #[test]
    fn the_fuller_a_stage_the_narrower_its_opening() {
        let stage = |held: f64, load: Option<f64>| Stage {
            name: "Receive",
            limit: "receive-window".to_owned(),
            held,
            load,
            ceiling: None,
            basis: String::new(),
        };
        let openings =
            [stage(0.74, Some(0.8)), stage(0.0, Some(0.3)), stage(0.0, Some(0.05)), stage(0.0, None)];
        let openings = openings.each_ref().map(opening);
        assert!(openings[0] < openings[1] && openings[1] < openings[2], "{openings:?}");
        assert_eq!(openings[2], openings[3]);
    }
}
