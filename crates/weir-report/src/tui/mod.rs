//! The live view: what a transfer does while it runs, on the whole of a terminal.
//!
//! * [`Snapshot`] is what is drawn, [`draw`] draws it: the same snapshot on the same number of columns and
//!   rows gives the same picture. Any size is enough, down to one cell; the smaller it is, the more of the
//!   less needed parts are left out.
//! * [`state`] makes snapshots of what a running transfer tells.
//!
//! The terminal itself, its keys and its modes are the binary's. Nothing is told by colour alone: the stage
//! that holds the transfer has a mark and is named in words.

pub mod fleet;

mod fit;
mod pane;
mod parts;
pub mod state;

use std::time::Duration;

use ratatui_core::buffer::Buffer;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::terminal::Frame;
use weir_model::limit::Limit;

use crate::html::limits::{PipelinePlace, look};
use crate::progress::Progress;
use crate::stages::Stage;
use pane::Pane;

/// A transfer at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// What it is: `get image.iso`.
    pub title: String,
    /// What ends it, and what then becomes of what came: `q ends it, what came is kept`.
    pub keys: String,
    /// Since the start.
    pub elapsed: Duration,
    /// How far it is.
    pub progress: Progress,
    /// What held it of late, longest first, with the share of that time.
    pub shares: Vec<(String, f64)>,
    /// The numbers that say so, and what to change.
    pub reasons: Vec<String>,
    /// The pipeline, in the order in which bytes pass it.
    pub stages: Vec<Stage>,
    /// The rate over time, oldest first.
    pub history: Vec<Beat>,
    /// Connections.
    pub lanes: Vec<Lane>,
    /// Files under way.
    pub files: Vec<File>,
    /// What was decided, oldest first.
    pub log: Vec<String>,
}

/// A stretch of the rate's history.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Beat {
    /// Bytes per second.
    pub rate: f64,
    /// What held most of it.
    pub limit: Option<Limit>,
}

/// One connection.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lane {
    /// `lane 3`, or its two ends.
    pub name: String,
    /// Bytes per second of late.
    pub rate: f64,
    /// What it does: `awaits data 80 %`.
    pub deed: String,
}

/// A file under way.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Bytes that are there.
    pub done: u64,
    /// Of how many, if that is known.
    pub total: Option<u64>,
}

/// What a terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Colours.
    pub colour: bool,
    /// Blocks and arrows; without them ASCII alone.
    pub blocks: bool,
}

/// What a terminal shows while something runs: what is told of it, and how that is drawn.
pub trait Scene: Send + 'static {
    /// What is told between two pictures.
    type News: Default + Send + 'static;

    /// Takes in what was told, and the lines of the log, `elapsed` after the start.
    fn hear(&mut self, news: Self::News, log: Vec<String>, elapsed: Duration);

    /// Draws it over all of the frame.
    fn draw(&self, frame: &mut Frame<'_>, look: Look);
}

impl Scene for state::LiveState {
    type News = state::News;

    fn hear(&mut self, mut news: state::News, log: Vec<String>, elapsed: Duration) {
        log.into_iter().for_each(|line| news.log(line));
        self.take(news, elapsed);
    }

    fn draw(&self, frame: &mut Frame<'_>, look: Look) {
        draw(frame, self.snapshot(), look);
    }
}

/// Draws a snapshot over all of the frame.
pub fn draw(frame: &mut Frame<'_>, snapshot: &Snapshot, look: Look) {
    let area = frame.area();
    let buffer = frame.buffer_mut();
    for (part, area) in fit::fit(area, snapshot) {
        parts::draw(part, &mut Pane::new(buffer, area), snapshot, look);
    }
    look.spell(buffer);
}

impl Look {
    /// Where the terminal has ASCII alone: names may hold letters that it has not.
    fn spell(self, buffer: &mut Buffer) {
        if !self.blocks {
            for cell in buffer.content.iter_mut().filter(|cell| !cell.symbol().is_ascii()) {
                cell.set_char('?');
            }
        }
    }

    /// A limit's colour: that of its place on the pipeline, as on a run's page.
    fn limit(self, name: &str) -> Style {
        let colour = match look(name).place {
            PipelinePlace::Source => Color::Yellow,
            PipelinePlace::Sender => Color::Magenta,
            PipelinePlace::Path => Color::LightBlue,
            PipelinePlace::Receiver => Color::Cyan,
            PipelinePlace::Core => Color::LightRed,
            PipelinePlace::Store => Color::Green,
            PipelinePlace::Unknown => Color::Reset,
        };
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    /// Titles.
    fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// What is less needed.
    fn aside(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }
}
