//! `weir bench store`.

use std::time::Duration;

use clap::Args;

use super::get::parse_wait;
use super::headings::STORES;
use super::{StoreArgs, StoreNetworkArgs, Voice, parse_seconds};

const EXAMPLES: &str = "\
Examples:
  weir bench store s3://bucket/               requests by size, throughput and requests a second, half a minute
  weir bench store s3://bucket/tmp/ --quick   roughly, in a few seconds, below tmp/
  weir bench store s3://b/ --connections 1,8  with so many connections alone
  weir bench store s3://b/ --endpoint http://127.0.0.1:9000 --json
It stores three objects (8.2 MiB) below a prefix of its own, weir-bench-..., and deletes them at the end, after an
interrupt too. A store that puts requests off (503 SlowDown, 429) is asked no more of that kind.";

/// `weir bench store`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchStore {
    /// The bucket, or a prefix in it.
    #[arg(value_name = "URL")]
    pub url: String,
    /// Measure less, in a shorter time.
    #[arg(long)]
    pub quick: bool,
    /// Try these numbers of connections [default: 1,2,4,8,16,32,64].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=256))]
    pub connections: Vec<u32>,
    /// Load the store for SECONDS with each number of connections [default: 2].
    #[arg(long = "for", value_name = "SECONDS", value_parser = parse_seconds)]
    pub span: Option<Duration>,
    /// How object stores are asked.
    #[command(flatten)]
    pub store: StoreArgs,
    /// The way to them.
    #[command(flatten)]
    pub network: StoreNetworkArgs,
    /// Wait at most SECONDS in a row when a store asks for it.
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = parse_wait, help_heading = STORES)]
    pub max_wait: Duration,
    /// Output.
    #[command(flatten)]
    pub voice: Voice,
}
