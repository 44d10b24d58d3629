//! `weir bench net`: the goodput of a path, and what limits it.

mod client;
mod iperf3_json;
mod login;
mod record;
pub mod server;
mod transactions;

use weir_net::outcome::Copies;
use weir_report::net::Units;

use crate::args::BenchNet;
use crate::voice;

/// Measures, or is the server of others who do. Returns the exit code.
pub fn run(bench: &BenchNet) -> anyhow::Result<u8> {
    voice::start_log_beside(bench.tui, bench.voice.quiet, bench.voice.verbose);
    match &bench.client {
        Some(host) => client::run(bench, host),
        None if bench.voice.report.is_some() => {
            Err(voice::Usage("a server has no page: --report belongs to the client's end".to_owned()).into())
        }
        None => server::run(bench),
    }
}

/// What is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Lines for people, as they come.
    Lines,
    /// weir's record at the end.
    Record,
    /// iperf3's JSON at the end.
    Iperf3,
    /// Nothing.
    Quiet,
}

fn form(bench: &BenchNet) -> Form {
    match bench {
        _ if bench.voice.json => Form::Record,
        _ if bench.iperf3_json => Form::Iperf3,
        _ if bench.voice.quiet => Form::Quiet,
        _ => Form::Lines,
    }
}

fn units(bench: &BenchNet) -> Units {
    Units(bench.format)
}

fn copies(bench: &BenchNet) -> Copies {
    Copies { sending: !bench.zerocopy, receiving: bench.copy }
}
