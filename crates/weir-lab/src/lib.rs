//! The lab: slow paths and slow hosts with a known cause, on this machine alone.
//!
//! A [`Bed`](bed::Bed) is two network namespaces joined by an emulated [`Path`](path::Path). The emulation
//! itself is
//! [`link`]: pure, it takes the time and packets as arguments, so that its laws are tested without a clock.
//!
//! ```no_run
//! use std::time::Duration;
//! use weir_lab::{bed::Bed, path::{Direction, Path}};
//! use weir_units::Rate;
//!
//! let slow = Direction { rate: Some(Rate(5e6)), delay: Duration::from_millis(20), ..Direction::default() };
//! let bed = Bed::new(&Path { down: slow, ..Path::default() })?;
//! let (client, server) = (bed.near(), bed.far_address());
//! client.run(|| std::net::TcpStream::connect((server, 80)))?.ok();
//! # Ok::<(), weir_lab::LabError>(())
//! ```

pub mod ability;
pub mod bed;
pub mod clock;
pub mod congestion;
pub mod error;
pub mod link;
pub mod netns;
pub mod path;
pub mod privilege;
pub mod trace;
pub mod tun;

pub use error::LabError;

pub mod cgroup;
pub mod child;
mod folder;
pub mod leftovers;
pub mod run;
pub mod scenario;
pub mod slow_core;
pub mod slow_disk;
mod slow_error;
pub mod sshd;
mod workload;

pub use slow_error::SlowError;
