//! Workers are started on other hosts, and looked after until the plan is done: a file for each way to start
//! them.

pub mod hosts;
pub mod kubernetes;
mod said;
pub mod slurm;
