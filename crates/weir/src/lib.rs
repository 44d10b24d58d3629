//! weir: moves bulk data and names the stage that limits it. The program is [`main`]; for other programs,
//! such as the Python module, [`library`] runs the same commands.

mod args;
mod base_folder;
mod cache;
mod calibration;
mod caught;
mod cmd;
mod config;
mod evidence;
mod far_get;
mod front;
mod growing;
mod interrupt;
pub mod library;
mod live;
mod output;
mod page;
mod prompt;
mod repeats;
mod schemes;
mod secrets;
pub mod stdout;
mod terminal;
mod tui;
mod voice;

use std::process::ExitCode;

use args::{Cli, Command};

/// The program `weir`. Exit codes are listed in `weir --help`.
pub fn main() -> ExitCode {
    if std::env::args_os().next().is_some_and(|program| args::is_iperf3(&program)) {
        voice::speak_as_iperf3();
    }
    let result = interrupt::begin()
        .and_then(|()| config::command_line(args::with_command(std::env::args_os())))
        .and_then(run);
    voice::end_log();
    let code = result.as_ref().map_or_else(voice::code, |code| *code);
    if code == 1 && is_nowhere() {
        voice::warn("the folder that this ran in was deleted: names that do not begin with / lead nowhere");
    }
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => voice::fatal(&error),
    }
}

/// The folder that relative names are of is gone (getcwd(3)).
fn is_nowhere() -> bool {
    std::env::current_dir().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

fn run(cli: Cli) -> anyhow::Result<u8> {
    secrets::hide(&cli.command);
    if let Some(voice) = cli.command.voice() {
        page::check(voice)?;
    }
    match cli.command.with_habits().map_err(voice::Usage)? {
        Command::Get(get) if get.to_hosts.to_hosts.is_some() => cmd::get_hosts::run(&get),
        Command::Get(get) => cmd::get::run(&get),
        Command::Cp(cp) if cp.to_hosts.is_some() => cmd::cp_hosts::run(&cp),
        Command::Cp(cp) if cmd::cp_store::is_meant(&cp) => cmd::cp_store::run(&cp),
        Command::Put(put) => cmd::put::run(&put),
        Command::Cp(cp) => cmd::cp::run(&cp),
        Command::Fleet(fleet) => cmd::fleet::run(&fleet),
        Command::Ls(ls) => cmd::ls::run(&ls),
        Command::Peer { is } => cmd::peer::run(is.as_deref(), far_get::run),
        Command::Serve(serve) => cmd::serve::run(&serve),
        Command::Demo(demo) => cmd::demo::run(&demo),
        Command::Why(why) => cmd::why::run(&why),
        Command::Plan(plan) => cmd::plan::run(&plan),
        Command::Lab(lab) => cmd::lab::run(&lab),
        Command::Report(report) => cmd::report::run(&report),
        Command::Bench(bench) => cmd::bench::run(&bench),
        Command::SelfCheck(check) => cmd::self_check::run(&check),
        Command::Version(version) => cmd::version::run(&version),
        Command::Completions { shell } => cmd::manual::completions(shell),
        Command::Man { folder } => cmd::manual::pages(&folder),
    }
}
