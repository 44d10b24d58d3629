//! Measures one stage alone: how fast could it be, were the others not there?
//!
//! * [`corpus`]: the bytes that codecs are measured on: a user's files, evenly over them, or generated ones.
//! * [`repeat`]: when a measurement has been repeated often enough, and what its passes say together.
//! * [`codec`]: ratio and speed of codecs, level by level, and which one wins on which link.
//! * [`quick`]: the same in a fraction of a second, for a prediction.
//! * [`cipher`]: speed of ciphers by record size; [`ssh`]: what ssh's own ciphers reach through a real sshd.
//! * [`mem`]: latency and throughput of memory by working set, and the caches that show in them.
//! * [`disk`]: what a disk takes and gives, and when the page cache stops hiding it.
//! * [`host`]: a path and the host at its end: round trips, MTU, connections, handshakes, latency under load.
//! * [`pps`]: packets per second between two ends of weir.
//!
//! Nothing here prints or decides what a figure is good for: that is the report's and the model's. Memory,
//! disks and sockets are measured with instructions and system calls that need `unsafe`; the modules that
//! `cp` and `plan` use forbid it.
//!
//! ```
//! use std::time::Duration;
//! use weir_bench::corpus::{Corpus, Kind};
//! use weir_bench::mem::{self, Plan};
//! use weir_bench::{codec, repeat::Limits};
//!
//! let corpus = Corpus::generate(Kind::Text, 1 << 20);
//! let limits = Limits::within(Duration::from_millis(20));
//! let row = codec::measure("lz4".parse()?, &corpus, 1, &limits, &|| true)?;
//! assert!(row.is_some_and(|row| row.ratio < 0.8));
//!
//! let plan = Plan { most: 1 << 20, threads: vec![1], ..Plan::quick() };
//! let outcome = mem::run(&plan, &mut |_, _, _| true)?;
//! assert!(!outcome.levels.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[forbid(unsafe_code)]
pub mod cipher;
#[forbid(unsafe_code)]
pub mod codec;
#[forbid(unsafe_code)]
pub mod corpus;
pub mod disk;
#[forbid(unsafe_code)]
mod error;
pub mod host;
pub mod mem;
#[forbid(unsafe_code)]
mod one_pass;
mod option;
pub mod pps;
#[forbid(unsafe_code)]
pub mod quick;
#[forbid(unsafe_code)]
pub mod repeat;
#[forbid(unsafe_code)]
pub mod ssh;
mod wait;
