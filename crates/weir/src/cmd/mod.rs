//! The commands, one short file each.

pub mod bench;
pub mod chosen;
pub mod cp;
pub mod demo;
pub mod forecast;
pub mod get;
pub mod get_hubs;
pub mod get_jobs;
pub mod get_who;
pub mod lab;
pub mod manual;
pub mod peer;
pub mod plan;
pub mod report;
pub mod route;
pub mod self_check;
pub mod serve;
pub mod typed;
pub mod version;
pub mod why;
pub mod why_pcap;
