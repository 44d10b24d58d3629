//! Records as one page that needs nothing but itself: no script, no network, no font, no file beside it.
//!
//! * [`page`]: the whole page; [`compare`]: what several runs have beside each other; [`verdict`]: what held
//!   a run, why, and what to change; [`members`]: what single commands add, one row each.
//! * [`chart`]: the pictures, one file a kind; [`time_sequence`]: a connection of a capture; [`figure`]: what
//!   every picture comes with; [`axis`], [`scale`]: their parts.
//! * [`limits`]: how a limit looks; [`style`]: the style sheet, and the policy that allows nothing else;
//!   [`words`]: figures in words.
//! * [`markup`]: the one way text gets into a page.
//!
//! ```
//! use weir_report::html::{Run, render};
//! use weir_report::schema::{RunOutcome, Record};
//! let record = Record::new("get", RunOutcome::Complete, 2_150_000_000, 1.08);
//! let page = render(&[Run { name: "<run>".to_owned(), record, notes: Vec::new() }]);
//! assert!(page.starts_with("<!doctype html>"));
//! assert!(page.contains("Received 2.15 GB in 1.08 s: 1.99 GB/s."));
//! assert!(!page.contains("<run>"));
//! ```

mod axis;
mod chart;
mod compare;
mod figure;
mod lab;
pub(crate) mod limits;
mod markup;
mod members;
mod page;
pub(crate) mod scale;
mod style;
mod time_sequence;
mod verdict;
pub mod words;

use crate::schema::Record;

pub use page::{GENERATOR, render};

/// One run on a page.
#[derive(Debug, Clone)]
pub struct Run {
    /// Where its record came from, for people: `record.json`.
    pub name: String,
    /// The record.
    pub record: Record,
    /// What is worth knowing about how it was read.
    pub notes: Vec<String>,
}
