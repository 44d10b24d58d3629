//! `weir fleet set`, `pause`, `resume`, `drain` and `retry`: their options.

use clap::Args;

use super::values::parse_rate_limit;

const SET_EXAMPLES: &str = "\
Examples:
  weir fleet set --ledger plan.db --workers 4              four workers have batches, the others wait
  weir fleet set --ledger plan.db --limit-rate 50M         50 MB/s of each host
  weir fleet set --ledger plan.db --window 22:00-06:00     batches are given out within these hours alone, in UTC
  weir fleet set --ledger plan.db --workers all --limit-rate none --window none
Workers learn of it within a third of their lease.";

/// The ledger of a command that has no other option.
#[derive(Debug, Args)]
pub struct FleetSteer {
    /// The ledger: a file, or postgres://USER@HOST/DATABASE.
    #[arg(long, value_name = "FILE|URL", required = true)]
    pub ledger: String,
}

/// `weir fleet set`.
#[derive(Debug, Args)]
#[command(after_help = SET_EXAMPLES)]
pub struct FleetSet {
    /// The ledger: a file, or postgres://USER@HOST/DATABASE.
    #[arg(long, value_name = "FILE|URL", required = true)]
    pub ledger: String,
    /// Give batches to N workers at a time, or to all.
    #[arg(long, value_name = "N|all", value_parser = parse_workers, required_unless_present_any = ["limit_rate", "window"])]
    pub workers: Option<Setting<u32>>,
    /// Hold each host to this many bytes per second (50M), or to none.
    #[arg(long, value_name = "RATE|none", value_parser = parse_rate)]
    pub limit_rate: Option<Setting<u64>>,
    /// Give batches out from HH:MM to HH:MM alone, in UTC, or at all times (none).
    #[arg(long, value_name = "HH:MM-HH:MM|none", value_parser = parse_window)]
    pub window: Option<Setting<String>>,
}

/// `weir fleet retry`.
#[derive(Debug, Args)]
pub struct FleetRetry {
    /// The ledger: a file, or postgres://USER@HOST/DATABASE.
    #[arg(long, value_name = "FILE|URL", required = true)]
    pub ledger: String,
    /// Try again what failed by this class alone (network, denied, ...); repeatable.
    #[arg(long = "class", value_name = "CLASS")]
    pub classes: Vec<String>,
}

/// A value, or none from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T>(pub Option<T>);

fn parse_workers(text: &str) -> Result<Setting<u32>, String> {
    match text {
        "all" => Ok(Setting(None)),
        text => {
            let number = text.parse().ok().filter(|number| *number > 0);
            let why = || format!("invalid number '{}': expected 1 or more, or all", weir_units::quoted(text));
            number.map(|number| Setting(Some(number))).ok_or_else(why)
        }
    }
}

fn parse_rate(text: &str) -> Result<Setting<u64>, String> {
    match text {
        "none" => Ok(Setting(None)),
        text => Ok(Setting(parse_rate_limit(text)?.0.map(|rate| rate.0 as u64))),
    }
}

fn parse_window(text: &str) -> Result<Setting<String>, String> {
    match text {
        "none" => Ok(Setting(None)),
        text => Ok(Setting(Some(text.parse::<weir_fleet::ledger::window::Window>()?.to_string()))),
    }
}
