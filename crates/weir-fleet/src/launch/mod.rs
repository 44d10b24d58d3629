//! Workers are started on other hosts, and looked after until the plan is done.
//!
//! | launcher | what it does | where |
//! | --- | --- | --- |
//! | `--hosts` | starts workers by ssh, as `weir cp` starts its far end, and restarts them | [`crew`] |
//! | `--slurm` | submits an array, whose tasks Slurm starts and starts again | [`slurm`] |
//! | `--kubernetes` | prints or applies the manifest of an indexed Job | [`kubernetes`] |
//!
//! By ssh a worker needs nothing but port 22: it asks the ledger over the connection that it was started by
//! ([`wire`], [`far_ledger`]), and the one who started it answers out of a file or a database that only this
//! host reaches ([`hub`]). [`far_command`] runs one command on a host over the same kind of connection.

pub mod crew;
pub mod far_command;
pub mod far_ledger;
pub mod hosts;
pub mod hub;
pub mod kubernetes;
mod post;
mod said;
pub mod slurm;
pub mod wire;
