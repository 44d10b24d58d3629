//! What is said while a command works: log lines, the live line, and the last word of a failure.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use weir_report::escape::escape_lines;

use crate::tui;

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
    start_log_beside(false, quiet, verbose);
}

/// The same beside a live view, where there is one: it shows the lines, and decisions among them whether they were asked for
/// or not.
pub fn start_log_beside(view: bool, quiet: bool, verbose: u8) {
    let asked = match (quiet, verbose) {
        (true, _) => LevelFilter::ERROR,
        (_, 0) => LevelFilter::WARN,
        (_, 1) => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    let level = if view { asked.max(LevelFilter::INFO) } else { asked };
    let libraries = if verbose > 2 { "debug" } else { "warn" };
    let filter = EnvFilter::new(format!(
        "{libraries},weir={level},weir_transfer={level},weir_peer={level},weir_tree={level},weir_serve={level},weir_net={level}"
    ));
    // Set once; a second call in a test is of no interest.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Lines { asked })
        .with_target(false)
        .with_ansi(!view && colours(&std::io::stderr()))
        .without_time()
        .try_init();
}

/// Where lines of the log go: to the live view while there is one, else to stderr.
struct Lines {
    /// What goes to stderr.
    asked: LevelFilter,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { asked: true }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Line {
        Line { asked: *event.level() <= self.asked }
    }
}

/// One line of the log.
struct Line {
    asked: bool,
}

impl Write for Line {
    /// The formatter hands over a line at once.
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        if !tui::take_line(text.trim(), self.asked) && self.asked {
            std::io::stderr().write_all(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
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
