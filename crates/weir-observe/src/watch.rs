//! What does a program that is not weir do with its connections? The engine of `weir why`: it samples
//! sockets, threads and files again and again, and makes intervals of evidence of what it saw.
//!
//! Whose sockets they are [`Scout`] finds out; [`Watch`] holds the cadence and closes the intervals. Nothing
//! here judges: that is the model's, and what a caller does with the evidence is its own.

mod around;
mod lanes;
mod link;
mod notes;
mod outputs;
mod scout;
mod sockets;
mod threads;

pub use lanes::{Lane, LaneTotal};
pub use notes::Notes;
pub use scout::{Scout, Subject};
pub use sockets::{Totals, Watch};
pub use threads::{ThreadTotal, Threads};
