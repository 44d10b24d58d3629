//! `weir fleet run --slurm`: its options.

use clap::Args;

/// Workers as an array of Slurm.
#[derive(Debug, Args)]
#[command(next_help_heading = "Slurm")]
pub struct FleetSlurm {
    /// Submit an array of N workers by sbatch. scancel ends them in order, and a task that Slurm starts again
    /// joins again.
    #[arg(long, value_name = "N", group = "launcher", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub slurm: Option<u32>,
    /// Give this option to sbatch (--sbatch=--partition=long); repeatable.
    #[arg(long, value_name = "OPTION", requires = "slurm", allow_hyphen_values = true)]
    pub sbatch: Vec<String>,
    /// Print the script, and submit nothing.
    #[arg(long, requires = "slurm")]
    pub print: bool,
}
