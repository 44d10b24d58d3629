//! What can be asked of a path and the host at its end: round trips, MTU, connections, handshakes, latency
//! under load.
//!
//! Each probe sends little, in bounded time, and ends early when its `stop` is set. A result comes with what
//! it was taken from; a missing one comes with the reason. Nothing here prints or judges.
//!
//! * [`target`]: a host and a port as people write them, and the addresses behind them.
//! * [`connect`]: does the host take connections, and how soon?
//! * [`echo`]: ICMP echo where this user may send it: round trips and loss.
//! * [`summary`]: what many round trips say together.
//! * [`mtu`]: the largest packet that gets through.
//! * [`tls`]: what a TLS handshake costs, in time and on this end's processor.
//! * [`concurrent`]: how many connections the host takes at a time.
//! * [`load`]: how round trips grow while the path is busy.
//! * [`throughput`]: how much it carries; a seam for those who can measure that.
//!
//! ```
//! use std::net::TcpListener;
//! use std::sync::atomic::AtomicBool;
//! use weir_bench::host::connect::{self, Plan};
//!
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let plan = Plan { count: 3, ..Plan::default() };
//! let tries = connect::run(listener.local_addr()?, &plan, &AtomicBool::new(false));
//! assert_eq!(tries.connected(), 3);
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod concurrent;
pub mod connect;
pub mod echo;
pub mod load;
pub mod mtu;
pub mod summary;
pub mod target;
pub mod throughput;
pub mod tls;
