//! What is said while a command works: log lines, the live line, and the last word of a failure.

use std::ffi::OsStr;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::error::ErrorKind;
use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use weir_get::http::waiting;
use weir_report::escape::{escape, escape_lines};
use weir_report::fold::Sheet;
use weir_store::StoreError;
use weir_units::plain;

use crate::interrupt::INTERRUPTED;
use crate::repeats::{Levels, Shown};
use crate::stdout;
pub use crate::terminal::colours;
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

/// A command that cannot be run.
#[derive(Debug)]
pub struct CannotRun {
    /// In words.
    pub text: String,
    /// The exit code that shells give it.
    pub code: u8,
}

impl CannotRun {
    /// 127 where there is no such command, 126 for all else.
    pub fn new(program: &OsStr, cause: &std::io::Error) -> CannotRun {
        let (why, code) = match cause.kind() {
            std::io::ErrorKind::NotFound => ("command not found".to_owned(), 127),
            _ => (plain(cause), 126),
        };
        CannotRun { text: format!("cannot run {}: {why}", program.display()), code }
    }
}

impl std::fmt::Display for CannotRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for CannotRun {}

/// Sends log lines to stderr: warnings always, decisions with `-v`, everything with `-vv`.
pub fn start_log(quiet: bool, verbose: u8) {
    start_log_beside(false, quiet, verbose);
}

/// The same beside a live view, where there is one: it shows the lines, and decisions among them whether they
/// were asked for or not. A log that has begun goes on with these levels.
pub fn start_log_beside(view: bool, quiet: bool, verbose: u8) {
    let asked = match (quiet, verbose) {
        (true, _) => LevelFilter::ERROR,
        (_, 0) => LevelFilter::WARN,
        (_, 1) => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    let ours = if view { asked.max(LevelFilter::INFO) } else { asked };
    // What a peer can make a library say is not for the terminal: h2 warns of each PING that it did not send.
    let libraries = match (quiet, verbose) {
        (true, _) | (_, 0 | 1) => LevelFilter::OFF,
        (_, 2) => LevelFilter::WARN,
        _ => LevelFilter::DEBUG,
    };
    let levels = Levels { ours, asked, libraries };
    if let Some(shown) = SHOWN.get() {
        return shown.set(levels);
    }
    let shown = Shown::new(levels);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(Lines { shown: shown.clone() })
        .with_target(false)
        .with_ansi(!view && colours(&std::io::stderr()))
        .without_time();
    // Another log of this process stays.
    if tracing_subscriber::registry().with(lines).with(shown.clone()).try_init().is_ok() {
        let _ = SHOWN.set(shown);
    }
}

/// What the log shows, once it has begun.
static SHOWN: OnceLock<Shown> = OnceLock::new();

/// Tells what was repeated too often to be shown. Nothing is logged after it.
pub fn end_log() {
    if let Some(shown) = SHOWN.get() {
        shown.tell_all();
    }
}

/// Where lines of the log go: to the live view while there is one, else to stderr.
struct Lines {
    /// Its levels say what goes to stderr.
    shown: Shown,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { asked: true }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Line {
        Line { asked: *event.level() <= self.shown.levels().asked || event.target() == waiting::TARGET }
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
            // A log that nobody can read is no reason to end: its formatter would panic.
            let _ = std::io::stderr().write_all(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// How to print on `stream`: colours for people, and as wide as its terminal.
pub fn sheet(stream: &(impl IsTerminal + AsFd)) -> Sheet {
    let size = stream.is_terminal().then(|| rustix::termios::tcgetwinsize(stream).ok()).flatten();
    // 0: a terminal that does not know.
    Sheet::new(colours(stream), size.map(|size| size.ws_col).filter(|columns| *columns > 0))
}

/// Nobody reads what is printed any more, as after `| head`.
#[derive(Debug)]
struct Unread;

impl std::fmt::Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("stdout is closed")
    }
}

/// What a shell gives for a program that a closed pipe has ended: 128 and SIGPIPE.
pub const CLOSED: u8 = 128 + 13;

/// Results of printing.
pub trait Printed<T> {
    /// Says what could not be printed; nothing where nobody reads it any more.
    fn printed(self, what: &str) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> Printed<T> for Result<T, E> {
    fn printed(self, what: &str) -> anyhow::Result<T> {
        self.map_err(|error| {
            let error = error.into();
            let of = |cause: &(dyn std::error::Error + 'static)| {
                let of_json = || cause.downcast_ref::<serde_json::Error>()?.io_error_kind();
                cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind).or_else(of_json)
            };
            match error.chain().filter_map(of).any(|kind| kind == std::io::ErrorKind::BrokenPipe) {
                true if stdout::was_closed() => anyhow::anyhow!("cannot print {what}: stdout is closed"),
                true => error.context(Unread),
                false => error.context(format!("cannot print {what}")),
            }
        })
    }
}

/// What stands before each word of a failure.
static NAME: OnceLock<&str> = OnceLock::new();

/// The same before a word on the command line, under the name of iperf3.
const PARAMETER: &str = "iperf3: parameter error -";

/// From now on failures are told as iperf3 tells them, for scripts that look for that.
pub fn speak_as_iperf3() {
    // Set once; a second call says the same.
    let _ = NAME.set("iperf3: error -");
}

/// What stands before each word of a failure: `weir:`.
pub fn name() -> &'static str {
    NAME.get().copied().unwrap_or("weir:")
}

/// Whether failures are told as iperf3 tells them.
pub fn is_iperf3() -> bool {
    NAME.get().is_some()
}

/// The last word of a command that could not do its work. It may hold words of a peer.
pub fn fatal(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(last_word(error))
}

/// Says it, and returns the exit code.
fn last_word(error: &anyhow::Error) -> u8 {
    if error.is::<Unread>() {
        return CLOSED;
    }
    let name = if error.is::<Usage>() && is_iperf3() { PARAMETER } else { name() };
    let _ = writeln!(std::io::stderr(), "{name} {}", escape_lines(&words(error)));
    code(error)
}

/// Ends the program as clap does, for help and for words that it refuses; under the name of iperf3 as that
/// ends for words of its own. Help that cannot be printed is a failure.
pub fn end_with(error: &clap::Error) -> ! {
    if !error.use_stderr() {
        let what = if error.kind() == ErrorKind::DisplayVersion { "the version" } else { "the help" };
        let printed = error.print().and_then(|()| std::io::stdout().flush()).printed(what);
        std::process::exit(printed.map_or_else(|error| last_word(&error), |()| 0).into());
    }
    if !is_iperf3() {
        error.exit();
    }
    let text = error.to_string();
    // Nobody is left to hear of a failure here.
    let _ = writeln!(
        std::io::stderr(),
        "{PARAMETER} {}",
        text.strip_prefix("error: ").unwrap_or(&text).trim_end()
    );
    std::process::exit(1)
}

/// 2 for bad arguments, 127 and 126 for a command that cannot be run, 130 and 4 where a transfer beneath says
/// so, 1 for all else.
pub fn code(error: &anyhow::Error) -> u8 {
    if let Some(cannot) = error.downcast_ref::<CannotRun>() {
        return cannot.code;
    }
    let of_store = match error.downcast_ref::<StoreError>() {
        Some(StoreError::Usage(_)) => return USAGE,
        Some(StoreError::Http(error)) => Some(error),
        Some(StoreError::Answered { answer, .. }) => Some(&**answer),
        _ => None,
    };
    match of_store.or_else(|| error.downcast_ref::<weir_get::error::GetError>()) {
        // As iperf3 ends for them.
        _ if error.is::<Usage>() && is_iperf3() => 1,
        _ if error.is::<Usage>() => USAGE,
        Some(weir_get::error::GetError::Interrupted) => INTERRUPTED,
        Some(error) if error.is_for_later() => 4,
        _ => 1,
    }
}

/// An error and what caused it, each once, the system's words without their numbers.
pub fn words(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |before, cause| {
        let text = cause.downcast_ref::<std::io::Error>().map(plain).unwrap_or_else(|| cause.to_string());
        match before.as_str() {
            "" => text,
            before if before.contains(&text) => before.to_owned(),
            before => format!("{before}: {text}"),
        }
    })
}

/// A line to the user, beside what the command prints: under the program's name, whoever the words are of.
pub fn warn(text: &str) {
    let _ = writeln!(std::io::stderr(), "weir: {}", escape_lines(text));
}

/// A fact that goes with what the command prints, on a line. It may hold words of a peer.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "note: {}", escape(text));
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn a_cause_is_told_once_and_without_its_number() {
        let refused = || std::io::Error::from_raw_os_error(111);
        let error = Err::<(), _>(refused()).context("cannot connect to far:1").expect_err("an error");
        assert_eq!(words(&error), "cannot connect to far:1: connection refused");
        let twice = Err::<(), _>(refused()).context("no answer: connection refused").expect_err("an error");
        assert_eq!(words(&twice), "no answer: connection refused");
    }
}
