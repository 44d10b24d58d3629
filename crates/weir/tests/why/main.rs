//! `weir why` on real programs, and the lab that makes slow paths for it.
//!
//! One program of tests: each file is a module, so that what they stand on is compiled and linked once.

#[path = "../support/mod.rs"]
mod support;

mod around;
mod basics;
mod lab;
mod lab_shell;
mod lab_user;
mod pcap;
mod signals;
