//! What must never happen to a file of `weir get`: bad servers, disks, names and words, strangers in the
//! folder, another version, an end at any moment.
//!
//! One program of tests: each file is a module, so that what they stand on is compiled and linked once.

#[path = "../support/mod.rs"]
mod support;

mod bad_disk;
mod bad_files;
mod bad_names;
mod bad_parts;
mod bad_server;
mod bad_versions;
mod bad_words;
#[allow(dead_code, clippy::unwrap_used, reason = "the ledger's own tests ask more of it")]
#[path = "../../../weir-fleet/tests/ledger/cluster.rs"]
mod cluster;
mod endings;
mod few_threads;
mod fleet_index;
mod fleet_ledgers;
mod fleet_plan;
mod fleet_queue;
mod fleet_run;
mod fleet_work;
mod histories;
mod kill;
mod log_floods;
mod odd_heads;
mod real_versions;
mod replacing;
mod same_version;
mod shared_folder;
mod simpler_request;
mod store_kill;
