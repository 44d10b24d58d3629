//! The one place that renders: a run's record as JSON, as a summary for people, as one live line.
//!
//! * [`schema`]: what a record is, and how a verdict and its intervals become part of one.
//! * [`json`]: a record to JSON and back.
//! * [`terminal`]: the summary after a run, about sixteen rows. [`fold`]: how wide these are.
//! * [`progress`]: the line while it runs. Pure text: who prints it, and when, is the caller's.
//! * [`tui`]: the live view that fills a terminal. Pure drawing too. [`stages`]: the pipeline that it and the
//!   pages draw.
//! * [`plan`]: what `weir plan` predicts.
//! * [`survey`]: what was measured for a copy that is planned. [`foretold`]: a forecast beside what came.
//! * [`why`]: connections and threads of another program's transfer. [`capture`]: what a capture adds.
//! * [`net`]: the goodput of a path. [`transactions`]: requests and responses over it.
//! * [`codecs`], [`ciphers`]: tables of what was measured; [`chart`]: where each codec wins.
//! * [`load`]: HTTP load, also as wrk and ab print it.
//! * [`host`]: figures of a host and the path to it; [`packets`]: packets per second.
//! * [`html`]: records as one page that needs nothing but itself; [`records`]: records from foreign bytes.
//! * [`memory`]: caches and memory; [`storage`]: disks and the page cache.
//! * [`calibration`]: what was measured of this host once, and what others go by of it.
//! * [`self_check`]: what this host lets weir do, and what each missing thing costs.
//! * [`fleet`]: where a fleet stands, for people and for Prometheus.
//! * [`fleet_history`]: what its ledger holds, for a page.
//! * [`escape`]: text that others chose (URLs, file names), made safe for a terminal.
//!
//! ```
//! use weir_report::schema::{RunOutcome, Record};
//! let record = Record::new("get", RunOutcome::Complete, 2_150_000_000, 1.08);
//! let mut text = Vec::new();
//! weir_report::terminal::render_summary(&record, weir_report::fold::Sheet::default(), &mut text)?;
//! assert_eq!(String::from_utf8_lossy(&text), "received 2.15 GB in 1.08 s: 1.99 GB/s\n");
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod calibration;
pub mod capture;
pub mod chart;
pub mod ciphers;
pub mod codecs;
pub mod escape;
mod figures;
pub mod fleet;
pub mod fleet_history;
pub mod fold;
pub mod foretold;
pub mod host;
pub mod html;
pub mod join;
pub mod json;
pub mod load;
pub mod memory;
pub mod net;
pub mod object_store;
pub mod packets;
pub mod plan;
pub mod progress;
pub mod records;
pub mod schema;
pub mod self_check;
pub mod stages;
pub mod storage;
pub mod survey;
pub mod terminal;
pub mod transactions;
pub mod tui;
pub mod why;
