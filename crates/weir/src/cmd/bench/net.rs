//! `weir bench net`: the goodput of a path, and what limits it.

mod background;
mod client;
mod iperf3_json;
mod iperf3_text;
mod login;
mod printer;
mod record;
pub mod server;
mod transactions;

use std::io::{self, IsTerminal, Write};

use weir_bench_net::Wiring;
use weir_bench_net::copies::Copies;
use weir_report::net::Units;

use crate::args::{BenchNet, NetFormat, VERSION, host_and_device};
use crate::voice;

/// The version of iperf3 whose flags and JSON weir has: scripts ask for it before they use either.
pub(in crate::cmd) const AS_IPERF3: &str = "3.21";

/// Measures, or is the server of others who do. Returns the exit code.
pub fn run(bench: &BenchNet) -> anyhow::Result<u8> {
    if bench.as_iperf3 {
        voice::speak_as_iperf3();
    }
    if bench.iperf3_version {
        writeln!(io::stdout(), "{}\n{}", iperf3_version(), iperf3_json::system())?;
        return Ok(0);
    }
    let verbose = bench.debug.map_or(0, |level| if level > 1 { 2 } else { 1 }).max(bench.voice.verbose);
    voice::start_log_beside(bench.tui, bench.voice.quiet, verbose);
    let _pid_file = match bench.bounds.daemon && !bench.detached {
        true => return background::detach(bench),
        false => background::prepare(bench)?,
    };
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
    /// weir's lines, as they come.
    Lines,
    /// iperf3's lines, as they come.
    Iperf3Lines,
    /// weir's record at the end.
    Record,
    /// iperf3's JSON at the end.
    Iperf3,
    /// iperf3's JSON as it comes, and at the end too if `whole`.
    Events { whole: bool },
    /// Nothing.
    Quiet,
}

/// A person at a terminal gets weir's lines, whatever else reads them iperf3's, unless it says otherwise.
fn form(bench: &BenchNet) -> Form {
    let asked = bench.format.iter().rev().find_map(|format| match format {
        NetFormat::Iperf3 => Some(Form::Iperf3Lines),
        NetFormat::Weir => Some(Form::Lines),
        NetFormat::Unit(_) => None,
    });
    match bench {
        _ if bench.voice.json => Form::Record,
        _ if bench.json_stream => Form::Events { whole: bench.json_stream_full_output },
        _ if bench.iperf3_json => Form::Iperf3,
        _ if bench.voice.quiet => Form::Quiet,
        // iperf3 has neither.
        _ if bench.tui || bench.transactions.kind().is_some() => Form::Lines,
        _ if asked.is_some() => asked.unwrap_or(Form::Lines),
        _ if bench.as_iperf3 || !io::stdout().is_terminal() => Form::Iperf3Lines,
        _ => Form::Lines,
    }
}

fn units(bench: &BenchNet) -> Units {
    Units(bench.format.iter().rev().find_map(|format| match format {
        NetFormat::Unit(unit) => Some(*unit),
        NetFormat::Iperf3 | NetFormat::Weir => None,
    }))
}

fn style(bench: &BenchNet) -> iperf3_text::Style {
    iperf3_text::Style { units: units(bench), wordy: bench.wordy }
}

/// Whose report it is: weir's, or under the name of iperf3 the version that it stands in for.
fn iperf3_version() -> String {
    if voice::is_iperf3() { format!("iperf {AS_IPERF3} (weir {VERSION})") } else { format!("weir {VERSION}") }
}

fn copies(bench: &BenchNet) -> Copies {
    Copies { sending: !bench.zerocopy, receiving: bench.copy }
}

/// How sockets are made.
fn wiring(bench: &BenchNet) -> Wiring {
    let of_host = bench.client.as_deref().and_then(|host| host_and_device(host).1);
    let of_address = bench.bind.as_ref().and_then(|bound| bound.device.as_deref());
    let device = bench.bind_dev.as_deref().or(of_host).or(of_address);
    Wiring {
        device: device.map(str::to_owned),
        send_timeout: bench.snd_timeout.filter(|millis| *millis > 0).map(millis),
        keep_alive: bench.keep_alive,
    }
}

fn millis(millis: u32) -> std::time::Duration {
    std::time::Duration::from_millis(millis.into())
}
