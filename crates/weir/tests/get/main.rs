//! `weir get`, as those who download use it: names, lists, logins, proxies, checks, lanes.
//!
//! One program of tests: each file is a module, so that what they stand on is compiled and linked once.

#[path = "../support/mod.rs"]
mod support;

mod adopt;
mod basics;
mod beside;
mod checks;
mod codings;
mod deadlines;
mod downgrades;
mod fresh;
mod habits;
mod http2_fallback;
mod http2_only;
mod hubs;
mod hubs_git;
mod hubs_images;
mod kept;
mod lanes;
mod lists;
mod login;
mod login_servers;
mod ls;
mod moto;
mod names;
mod network;
mod peers;
mod proxies;
mod put;
mod put_again;
mod put_evil;
mod put_moto;
mod ranges;
mod reach;
mod self_check;
mod serve;
mod silence;
mod store_rounds;
mod store_tree;
mod stores;
mod stores_across;
mod stores_azure;
mod stores_bad;
mod stores_links;
mod stores_plan;
mod stores_secrets;
mod stores_simpler;
mod stores_sums;
mod stores_two;
mod stores_ways;
mod streams;
mod tls;
mod unnamed;
mod words;
