//! `weir bench mem`.

use clap::Args;
use weir_units::Bytes;

use super::Voice;

const EXAMPLES: &str = "\
Examples:
  weir bench mem                     caches and memory of this machine, in about half a minute
  weir bench mem --quick             the level table alone, in a few seconds
  weir bench mem --up-to 128MiB      with smaller working sets, where memory is scarce
  weir bench mem --json              as a record: mem.levels has name, size, latency_ns, throughput
Sizes are found in the curves; what the system says stands beside them. Latency: each load waits for the one before, from
random lines. Rates: one thread, in order, with the processor's widest loads and stores.";

/// `weir bench mem`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchMem {
    /// The levels only, measured once, without the mountain's strides.
    #[arg(long)]
    pub quick: bool,
    /// The largest working set; never more than half of the free memory [default: 512MiB, with --quick
    /// 256MiB].
    #[arg(long, value_name = "BYTES", value_parser = parse_most)]
    pub up_to: Option<Bytes>,
    /// Numbers of threads, such as 1,2,8 [default: from one to a thread a processor].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Vec<u16>,
    /// Output.
    #[command(flatten)]
    pub voice: Voice,
}

/// From what holds some caches to what no cache does.
fn parse_most(text: &str) -> Result<Bytes, String> {
    super::size_within(text, (1 << 20)..=(64 << 30), "expected a size from 1MiB to 64GiB")
}
