//! The eyes: sockets and `/proc` read into the evidence that `weir-model` judges.
//!
//! One file a source. Each has a pure `parse` of what the kernel printed and a thin `read` around it. What is
//! sampled many times a second keeps its file open and reads it again from the start. Nothing here judges or
//! prints.
//!
//! * [`tcp_info`]: what one TCP socket knows about its connection.
//! * [`thread`]: where one thread's time goes: running, waiting for a processor, asleep in which kernel
//!   function.
//! * [`arguments`]: the words of this process's own command line that others can read.
//! * [`cache`]: which caches a processor says it has.
//! * [`cgroup`]: how long a CPU quota held a process back.
//! * [`clock`]: the time as the user's own clock shows it.
//! * [`cpu`]: how busy each processor is, and how many this process may use.
//! * [`dirty`]: how near the page cache is to the point where writers are paced to the disk.
//! * [`disk`]: which block device holds a path, and what that device did.
//! * [`host`]: what this host lets weir do, a probe each.
//! * [`memory`]: the most memory this process ever held, and how much there is.
//! * [`sock_diag`]: the TCP sockets of this network namespace, anyone's.
//! * [`flow`]: what one of them did over an interval, as sender and as receiver.
//! * [`foreign_lane`]: that as a lane of the model, its times estimated from looks.
//! * [`names`]: the addresses behind a name, asked for on a thread that can be left behind.
//! * [`net_counters`]: how many connections of a network namespace failed or were dropped.
//! * [`nic`]: the interface to a peer, its link's rate, and what was dropped there.
//! * [`own_attempts`]: for how long a lane of our own has been at a step of a handshake.
//! * [`pace`]: when to look, so that no program keeps step with the looks.
//! * [`pipes`]: who has the other end of a pipe.
//! * [`process`]: the threads, children, sockets and files of any process.
//! * [`thread_probe`] and [`waiting`]: what a foreign thread was found doing.
//! * [`udp`] and [`unix_sockets`]: with whom a program's other sockets talk, such as its resolver's.
//! * [`watch`]: the sockets, threads and files of another program, interval by interval.
//! * [`sysctl`]: the kernel settings that bound a receive window.
//! * [`Sampler`] and [`LaneProbe`]: the differences of all these over the intervals of a running transfer.
//!
//! ```
//! use std::path::Path;
//! use weir_observe::{LaneProbe, Sampler, thread};
//!
//! let mut host = Sampler::new(Some(Path::new("/tmp/out.iso")));
//! let mut lane = LaneProbe::new(thread::current_tid());
//! lane.look();
//! let (own_thread, tcp) = lane.interval();
//! assert!(own_thread.value().is_some());
//! assert_eq!(tcp.missing(), Some("no connection at the window's end"));
//! println!("{:?}", host.host_interval().dirty);
//! ```

pub mod arguments;
pub mod cache;
pub mod cgroup;
pub mod clock;
pub mod cpu;
pub mod cpuinfo;
pub mod dirty;
pub mod disk;
mod error;
pub mod flow;
pub mod foreign_lane;
pub mod host;
mod lane_probe;
mod maps;
mod mean;
pub mod memory;
pub mod names;
pub mod net_counters;
mod netlink;
pub mod nic;
pub mod own_attempts;
pub mod pace;
pub mod pipes;
mod proc_file;
pub mod process;
pub mod program;
pub mod snapshot;
pub mod sock_diag;
pub mod stage_clock;
pub mod sysctl;
pub mod tcp_info;
pub mod thread;
pub mod thread_probe;
pub mod udp;
pub mod unix_sockets;
pub mod waiting;
pub mod watch;

pub use error::{Malformed, ObserveError, reading};
pub use lane_probe::LaneProbe;
pub use snapshot::{HostInterval, Sampler};
