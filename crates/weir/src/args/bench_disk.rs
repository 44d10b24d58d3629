//! `weir bench disk`.

use std::path::PathBuf;

use clap::Args;
use weir_units::Bytes;

use super::Voice;

const EXAMPLES: &str = "\
Examples:
  weir bench disk /data                  what memory takes, what the disk takes and gives, some twenty seconds
  weir bench disk . --quick              roughly, in a few seconds
  weir bench disk /data --size 20GB      past the point where writes are paced, where that is far
  weir bench disk /data --json           as a record: its member disk
A file without a name is written in DIR and read back; it is gone when weir ends, however it ends. At least an eighth of the free
space, or 1 GiB, is left alone.";

/// `weir bench disk`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchDisk {
    /// The folder on the disk to measure.
    #[arg(value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
    /// Write at most SIZE at a time [default: 1GiB, with --quick 256MiB].
    #[arg(long, value_name = "SIZE", value_parser = parse_most)]
    pub size: Option<Bytes>,
    /// Measure less, in a shorter time.
    #[arg(long)]
    pub quick: bool,
    /// Output.
    #[command(flatten)]
    pub voice: Voice,
}

fn parse_most(text: &str) -> Result<Bytes, String> {
    super::size_within(text, (16 << 20)..=(1 << 44), "expected a size from 16MiB to 16TiB")
}
