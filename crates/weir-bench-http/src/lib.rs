//! HTTP load: how many requests a server answers, how fast, and who held the figure.
//!
//! * [`target`]: a URL's parts, and the addresses behind them.
//! * [`settings`]: what a run is asked to do; [`request`]: the bytes that are sent.
//! * [`run`]: from the settings to the outcome. Each thread has a loop of its own (epoll, one write and one
//!   read a request) over its share of the connections; over HTTP/2 the loop is a runtime's, with the `h2`
//!   crate.
//! * [`observer`]: who watches a run from outside.
//! * [`answer`]: where an answer ends, without allocating.
//! * [`reason`]: why a request came to no whole answer.
//! * [`schedule`]: when each request is due in an open loop.
//! * [`tally`]: what was counted, latency in histograms; closed-loop latency is what was measured, never
//!   "corrected".
//! * [`spent`]: where the connections' time went.
//! * [`script`]: scripts of wrk's Lua interface.
//! * [`way`]: connections that others make: through proxies.
//!
//! What held the figure is `weir_model::load`'s to say, from [`run::LoadOutcome::evidence`]. Nothing here
//! prints, but scripts may.
//!
//! ```no_run
//! use std::sync::{Arc, atomic::AtomicBool};
//! use std::time::Duration;
//! use weir_bench_http::{request::Request, run, settings::{Ask, Settings}, target::Target};
//!
//! let target = Target::parse("http://127.0.0.1:8080/")?;
//! let settings = Settings {
//!     ask: Ask::Same(Request::default().bytes(&target)),
//!     target,
//!     addresses: Vec::new(),
//!     way: None,
//!     tls: None,
//!     connections: 10,
//!     threads: 2,
//!     span: Some(Duration::from_secs(10)),
//!     requests: None,
//!     warm_up: Duration::ZERO,
//!     timeout: Duration::from_secs(2),
//!     rate: None,
//!     arrivals: Default::default(),
//!     keep_alive: true,
//!     rows: 0,
//!     ramp: Duration::ZERO,
//!     shows_answers: false,
//!     window: None,
//! };
//! let outcome = run::run(settings, &Arc::new(AtomicBool::new(false)), Arc::new(()))?;
//! println!("{} requests", outcome.tally.requests);
//! # Ok::<(), weir_bench_http::LoadError>(())
//! ```
#![deny(unsafe_code)]

pub mod answer;
mod clock;
mod connection;
mod error;
mod event_loop;
mod gathering;
mod http2;
mod malformed;
mod meter;
pub mod observer;
pub mod reason;
pub mod request;
pub mod run;
pub mod schedule;
pub mod script;
mod server;
pub mod settings;
pub mod spent;
pub mod tally;
pub mod target;
pub mod way;
pub mod wire;

pub use error::LoadError;
