//! `weir self-check`.

use std::time::Duration;

use clap::Args;
use weir_model::ability::Ability;

use super::{Voice, parse_seconds};

const EXAMPLES: &str = "\
Examples:
  weir self-check                                      what works here, what is missing, what that costs, and the way out
  sudo weir self-check                                 the same for root, who may more
  weir self-check -v                                   also what each thing is for
  weir self-check -q && weir get URL                   only if all that get, cp and why need is here
  weir self-check --json                               one record: state, reading, origin, costs and way out of each row
It changes nothing, sends nothing and leaves nothing behind.
Exit code: 0 when get, cp and why have all they need (other rows may be limited or missing), 1 when something of it is missing.";

/// `weir self-check`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SelfCheck {
    /// Report a probe as missing if it has not answered after SECONDS.
    #[arg(long, value_name = "SECONDS", default_value = "0.8", value_parser = parse_seconds)]
    pub timeout: Duration,
    /// Run this probe alone, in this process: what the command starts for those that want one of their own.
    #[arg(long, value_name = "NAME", hide = true)]
    pub probe: Option<Ability>,
    /// Output.
    #[command(flatten)]
    pub voice: Voice,
}
