//! The goodput of a path: iperf3's protocol, both ends, and what limits the figure.
//!
//! * [`client`]: asks a server for a test. [`server`]: makes tests, several at once, within bounds.
//! * [`parameters`], [`results`], [`cookie`], [`state`], [`frame`], [`datagram`]: the words of the protocol
//!   (esnet/iperf; its peers are 3.9 and later). Pure.
//! * [`ordered`]: JSON whose members keep their order.
//! * [`arrivals`]: a receiver's ledger of datagrams. [`auth`]: who asks.
//! * [`transactions`]: requests and responses, between two weirs alone; [`asked`]: its words.
//! * [`outcome`]: what a test was and what came of it, with evidence for the judge.
//!
//! Data flow on one thread a stream, in blocking calls of large pieces. The thread that talks to the peer
//! also looks at the sockets (TCP_INFO by INET_DIAG) and threads, and asks the judge. Nothing here prints.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use weir_bench_net::client::{self, Options, Silent};
//! use weir_units::Rate;
//!
//! let outcome = client::run(&Options::to("host.example", 5201), &mut Silent, &AtomicBool::new(false))?;
//! let received = outcome.sum(true, |stream| stream.received).unwrap_or_default();
//! println!("{}", Rate(received.bytes as f64 / received.seconds));
//! # Ok::<(), weir_bench_net::NetError>(())
//! ```
pub mod arrivals;
pub mod asked;
pub mod auth;
pub mod client;
mod code;
mod control;
pub mod cookie;
pub mod copies;
pub mod datagram;
mod error;
pub mod frame;
mod meter;
pub mod ordered;
mod orders;
pub mod outcome;
mod pace;
pub mod parameters;
pub mod refused;
pub mod results;
mod run;
pub mod server;
mod socket;
pub mod state;
mod stream;
mod sys;
mod tcp;
pub mod transactions;
mod udp;
mod watch;

pub use error::{Limit, NetError};
pub use socket::{KeepAlive, Wiring};
