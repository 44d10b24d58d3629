//! Sampling a transfer again and again, and making intervals of evidence of what was seen. [`Cadence`] and
//! [`EndedInterval`] serve every watch; [`Watch`] is the engine of `weir why`, which looks at the sockets,
//! threads and files of a program that is not weir.
//!
//! Whose sockets they are [`Discovery`] finds out. Nothing here judges:
//! that is the model's, and what a caller does with the evidence is its own.

mod around;
mod cadence;
mod discovery;
mod lanes;
mod link;
mod newcomers;
mod notes;
mod outputs;
mod owners;
mod proof;
mod sockets;
mod tables;
mod threads;
mod totals;

pub use cadence::{Cadence, EndedInterval, INTERVAL, SAMPLE_INTERVAL};
pub use discovery::{Discovery, Subject, Worker};
pub use lanes::{Lane, LaneTotal};
pub use notes::Notes;
pub use sockets::Watch;
pub use threads::{ThreadTotal, Threads};
pub use totals::{Totals, Unproven};
