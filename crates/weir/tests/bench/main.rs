//! `weir bench`, beside the programs that measure the same.
//!
//! One program of tests: each file is a module, so that what they stand on is compiled and linked once.

#[path = "../support/mod.rs"]
mod support;

mod codec;
mod host;
mod http;
mod http2;
mod http_scripts;
mod mem;
mod net;
mod pps;
mod store;
