//! Measures one stage alone: how fast could it be, were the others not there?
//!
//! * [`corpus`]: the bytes that are measured on: a user's files, evenly over them, or generated ones.
//! * [`repeat`]: when a measurement has been repeated often enough, and what its passes say together.
//! * [`codec_table`]: ratio and speed of codecs, level by level, and which one wins on which link.
//! * [`glance`]: the same in a fraction of a second, for a prediction.
//! * [`cipher_table`]: speed of ciphers by record size.
//! * [`ssh`]: what ssh's own ciphers reach through a real sshd.
//!
//! Nothing here prints or decides what a figure is good for: that is the report's and the model's.
//!
//! ```
//! use std::time::Duration;
//! use weir_measure::corpus::{Corpus, Kind};
//! use weir_measure::{codec_table, repeat::Limits};
//!
//! let corpus = Corpus::generate(Kind::Text, 1 << 20);
//! let limits = Limits::within(Duration::from_millis(20));
//! let row = codec_table::measure("lz4".parse()?, &corpus, 1, &limits)?;
//! assert!(row.ratio < 0.8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod cipher_table;
pub mod codec_table;
pub mod corpus;
mod error;
pub mod glance;
mod look;
pub mod repeat;
pub mod ssh;
