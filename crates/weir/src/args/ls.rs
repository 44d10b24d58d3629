//! `weir ls`: its arguments.

use std::time::Duration;

use clap::{ArgAction, Args};

use super::get::parse_wait;
use super::{StoreArgs, StoreNetworkArgs};

const EXAMPLES: &str = "\
Examples:
  weir ls s3://                                       your buckets
  weir ls s3://bucket/data/                           what is in a folder, folders with a / at their end
  weir ls -lhr s3://bucket/data/ --summarize          everything below it, with sizes, times and a total
  weir ls 's3://bucket/logs/2026-*.gz'                what matches; * stops at a /, ** does not, \\ takes the next letter as it is
  weir ls -r s3://bucket/data/ | weir get -i - -o .   all of it into the current folder
  weir ls -r --json s3://bucket/ | jq .size           a JSON object a line, keys exactly as they are
Lines come as the store gives them, page by page, in its order. Control characters in keys are written as \\n or \\u{1b};
--json has them as they are. Nothing is deleted by weir but by weir cp --delete: there is no weir rm.";

/// `weir ls`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct Ls {
    /// Buckets, prefixes or patterns to list (s3://, s3://BUCKET, s3://BUCKET/PREFIX, s3://BUCKET/**.gz).
    #[arg(value_name = "URL", required = true)]
    pub urls: Vec<String>,
    /// Also print the size, the time (UTC) and the storage class of each object.
    #[arg(short, long)]
    pub long: bool,
    /// List everything below, not the folder alone.
    #[arg(short, long, visible_short_alias = 'R')]
    pub recursive: bool,
    /// With -l or --summarize, print sizes as 1.5 MB instead of in bytes.
    #[arg(short = 'h', long = "human-readable")]
    pub human: bool,
    /// Print one JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// List all versions of each object, and the marks of deleted ones.
    #[arg(long)]
    pub versions: bool,
    /// Print at the end how many objects and bytes were listed.
    #[arg(long)]
    pub summarize: bool,

    /// How object stores are asked.
    #[command(flatten)]
    pub store: StoreArgs,
    /// The way to them.
    #[command(flatten)]
    pub network: StoreNetworkArgs,
    /// Wait at most SECONDS in a row when a store asks for it.
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = parse_wait)]
    pub max_wait: Duration,
    /// Print decisions and their reasons; repeat for more.
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
    /// Print help.
    #[arg(long, action = ArgAction::Help)]
    pub help: Option<bool>,
}
