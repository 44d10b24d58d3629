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

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// An address that refuses: its socket is bound and does not listen, so that nobody else gets it meanwhile.
fn refusing() -> (OwnedFd, SocketAddr) {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let address: SocketAddr = getsockname(&socket).expect("its address").try_into().expect("one of IP");
    (socket, address)
}
