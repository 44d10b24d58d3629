//! `weir cp` and `weir plan`, against a real sshd and a real rsync.
//!
//! One program of tests: each file is a module, so that what they stand on is compiled and linked once.

#[path = "../support/mod.rs"]
mod support;

mod attributes;
mod basics;
mod changes;
mod disks;
mod files_from;
mod firewall;
mod folds;
mod habits;
mod hosts;
mod kept;
mod kill;
mod links;
mod machines;
mod many;
mod memory;
mod names;
mod parts;
mod places;
mod plan;
mod plan_copy;
mod remote_pair;
mod rsync;
mod selection;
mod strangers;
mod stuck;
mod to_hosts;
mod to_hosts_again;
mod to_hosts_apart;
mod to_hosts_far;
mod to_hosts_get;
mod to_hosts_yard;
