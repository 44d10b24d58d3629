//! The judge: evidence in, verdict out.
//!
//! Pure: no file, no socket, no clock. The same evidence always gives the same words.
//!
//! * [`limit`]: the vocabulary of what can limit a transfer.
//! * [`evidence`]: what was seen, interval by interval, each reading with its value or the reason it is
//!   missing.
//! * [`around`]: what stood around the connections of a watched program.
//! * [`sender`]: what the sending end of a connection knows.
//! * [`merge`]: several intervals seen as one, for the words of a verdict and to keep long runs small.
//! * [`path`]: bandwidth-delay product, slow start, what loss allows.
//! * [`pipeline`]: the min law: what a codec brings over a path, and which stage says so.
//! * [`plan`]: that law for every codec, transport and link, and what connections need.
//! * [`survey`]: what was measured of both ends and the path before a copy, and what the law needs of it.
//! * [`forecast`]: what a copy will reach, from its first moments.
//! * [`chooser`]: which codec the next block gets, from what the run itself shows.
//! * [`tuner`]: how many lanes, from the judge's word and the goodput.
//! * [`congestion`]: by which congestion control a sender's lanes go. [`decision`]: what these three decide,
//!   and why.
//! * [`rule`]: one file a limit; the table [`rule::RULES`] is walked in order for each interval.
//! * [`verdict`]: intervals judged, added up to shares over the run; [`worth`]: how often such verdicts are
//!   right.
//! * [`moved`]: whether there was a transfer at all.
//! * [`load`]: what held a load test: client, server, path, or the number of connections.
//! * [`loads`]: how near each stage was to its ceiling.
//! * [`packets`]: what limited packets per second.
//! * [`fleet`]: what holds many hosts together, from what each of them told.
//! * [`ability`]: what a host lets weir do, and which commands cannot work without it.
//! * [`sight`]: from where a limit can be seen at all; [`ends`]: what two ends of one transfer say together.
//! * [`advice`]: what to change, and the rate that would bring.
//!
//! ```
//! use std::time::Duration;
//! use weir_model::evidence::{Evidence, LaneInterval, Interval};
//! use weir_model::limit::Limit;
//! use weir_model::verdict::explain;
//!
//! let second = Duration::from_secs(1);
//! let waiting = LaneInterval { output_wait: Duration::from_millis(900), ..LaneInterval::default() };
//! let interval = Interval { span: second, received: 5_000_000, lanes: vec![waiting], ..Interval::default()
//! }; let verdict = explain(&Evidence { intervals: vec![interval], ..Evidence::default() });
//! assert_eq!(verdict.shares[&Limit::Reader], 1.0);
//! ```
#![forbid(unsafe_code)]

pub mod ability;
pub mod advice;
mod alone;
pub mod around;
mod candidates;
pub mod chooser;
pub mod congestion;
pub mod decision;
pub mod ends;
pub mod evidence;
pub mod fleet;
pub mod forecast;
mod knee;
pub mod limit;
pub mod load;
pub mod loads;
pub mod merge;
pub mod moved;
pub mod packets;
pub mod path;
pub mod pipeline;
pub mod plan;
mod reading;
pub mod rule;
pub mod sender;
pub mod sight;
pub mod stages;
pub mod survey;
mod thread;
pub mod tuner;
mod vantage;
pub mod verdict;
pub mod waits;
mod words;
pub mod worth;
