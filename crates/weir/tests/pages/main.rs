//! What people look at: reports, the live view, the guide, the configuration.
//!
//! One program of tests: each file is a module, so that what they stand on is compiled and linked once.

#[path = "../support/mod.rs"]
mod support;

mod calibration;
mod config;
mod fleet;
mod guide;
mod kept;
mod messages;
mod report;
mod report_pages;
mod tui;
