//! What is said while a command works: log lines, the live line, and the last word of a failure.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use tracing_subscriber::EnvFilter;
use weir_report::escape::escape_lines;

/// The exit code of bad arguments, as clap's.
pub const USAGE: u8 = 2;

/// Bad arguments that only show after parsing: exit code 2.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Sends log lines to stderr: warnings always, decisions with `-v`, everything with `-vv`.
pub fn start_log(quiet: bool, verbose: u8) {
    let level = match (quiet, verbose) {
        (true, _) => "error",
        (_, 0) => "warn",
        (_, 1) => "info",
        _ => "debug",
    };
    let libraries = if verbose > 2 { "debug" } else { "warn" };
    let filter = EnvFilter::new(format!(
        "{libraries},weir={level},weir_transfer={level},weir_peer={level},weir_tree={level},weir_serve={level},weir_net={level}"
    ));
    // Set once; a second call in a test is of no interest.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(colours(&std::io::stderr()))
        .without_time()
        .try_init();
}

/// Colour only for people who did not say no.
pub fn colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The last word of a command that could not do its work. It may hold words of a peer.
pub fn fatal(error: &anyhow::Error) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "weir: {}", escape_lines(&format!("{error:#}")));
    ExitCode::from(if error.is::<Usage>() { USAGE } else { 1 })
}

/// What the user should know before the command begins, and its log with it.
pub fn warn(text: &str) {
    let _ = writeln!(std::io::stderr(), "weir: {}", escape_lines(text));
}

/// SIGINT and SIGTERM set `stop`; a second one ends the program at once.
pub fn on_interrupt(stop: &std::sync::Arc<std::sync::atomic::AtomicBool>) -> anyhow::Result<()> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, std::sync::Arc::clone(stop))?;
        signal_hook::flag::register(signal, std::sync::Arc::clone(stop))?;
    }
    Ok(())
}
