//! This host's own ceilings: memory and disk, each measured alone.
//!
//! * [`mem`]: latency and throughput by working set, and the caches that show in them.
//! * [`disk`]: what a disk takes and gives, and when the page cache stops hiding it.
//!
//! Nothing here prints or decides what a figure is good for: that is the report's and the model's. It is a crate apart
//! from `weir-measure`, because memory and disks are measured with instructions and system calls that need `unsafe`.
//!
//! ```
//! use weir_host::mem::{self, Plan};
//!
//! let plan = Plan { most: 1 << 20, threads: vec![1], ..Plan::quick() };
//! let outcome = mem::run(&plan, &mut |_, _, _| true)?;
//! assert!(!outcome.levels.is_empty());
//! # Ok::<(), mem::Error>(())
//! ```

pub mod disk;
pub mod mem;
