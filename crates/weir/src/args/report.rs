//! `weir report`.

use std::path::PathBuf;

use clap::Args;

const REPORT_EXAMPLES: &str = "\
Examples:
  weir get --json URL > run.json; weir report run.json      writes run.html beside it
  weir report before.json after.json -o compared.html       two runs side by side
  weir report here.json there.json -o both.html             both ends of one transfer: where they differ, and who can know
  weir why --json --pid 4711 | weir report - -o why.html
  weir report plan.db -o fleet.html                         a fleet's ledger: hosts over time, progress, failures
  weir report postgres://fleet@db/fleet -o fleet.html       the same of a database
A file may hold several records. If a transfer was continued, its last whole record counts.
The page needs nothing but itself: no network, no script. Exit codes: 0 written, 1 a record or the page failed, 2 usage, 130 interrupted.";

/// `weir report`.
#[derive(Debug, Args)]
#[command(after_help = REPORT_EXAMPLES)]
pub struct Report {
    /// The records, files that --json printed, or ledgers of fleets; '-' reads a record from stdin.
    #[arg(value_name = "RECORD", required = true)]
    pub records: Vec<PathBuf>,
    /// Write the page to FILE, into a folder, or to stdout ('-') [default: RECORD's name with .html, beside
    /// it].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print nothing unless it fails.
    #[arg(short, long)]
    pub quiet: bool,
}
