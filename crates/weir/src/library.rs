//! weir's commands for a program that has it as a library: the same as of the command line, from the same
//! words, by the same code. What would be printed comes back; signals, stdout, stderr, the terminal and the
//! configuration file are left to the program.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;
use rustix::process::Signal;
use weir_get::job::{ClosedInterval, Observer, Progress};
use weir_report::escape::escape_lines;
use weir_report::html::{self, Run};
use weir_report::json;
use weir_report::schema::Record;

pub use crate::cmd::get_describe::Described;

use crate::args::{Command, Get, Put, Voice, Why, with_command};
use crate::front::{self, Front, HandedOn};
use crate::voice::{self, Usage};
use crate::{cmd, config, page, prompt};

/// The version, without the commit.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How far a transfer is, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Seconds since the start.
    pub elapsed: f64,
    /// Bytes here, those of an earlier run included.
    pub bytes: u64,
    /// Of how many, if all sizes are known.
    pub total: Option<u64>,
    /// Bytes per second over the last second.
    pub rate: f64,
    /// Connections at work.
    pub connections: u32,
    /// Files finished, and of how many, as far as is known.
    pub files: (usize, usize),
    /// The name of what limits it now.
    pub limit: Option<&'static str>,
}

/// A command under way: what its caller and the thread that [`run`]s it share.
#[derive(Debug, Default)]
pub struct Handle {
    stop: Arc<AtomicBool>,
    look: Mutex<Option<Look>>,
    grows_at: Mutex<Option<PathBuf>>,
}

impl Handle {
    /// Ends the command as a first Ctrl-C does: what can be resumed is kept.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// How far it is, if that is news since the last call.
    pub fn news(&self) -> Option<Look> {
        self.look.lock().take()
    }

    /// Where the file will be that is being fetched, once another process may follow it.
    pub(crate) fn grows_at(&self) -> Option<PathBuf> {
        self.grows_at.lock().clone()
    }
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit code that the program would end with.
    pub code: u8,
    /// What `--json` would print, if it would.
    pub record: Option<String>,
    /// What would be said on stderr of a failure, without the program's name: a line for each file.
    pub error: Option<String>,
}

/// Runs a command in this thread: `get`, `put` or `why` and its words, as a command line has them. A `get` of
/// an object that was `described` before brings no other version of it.
pub fn run(words: &[OsString], described: Option<&Described>, handle: &Handle) -> Ended {
    prompt::never_ask();
    let mut own = Own { handle, record: None };
    let result = parse(words).and_then(|command| match command {
        Command::Get(mut get) => {
            get.pinned = described.map(Described::pinned);
            cmd::get::fetch(&get, &mut own)
        }
        Command::Put(put) => cmd::put::send(&put, &mut own),
        Command::Why(why) => cmd::why::look(&why, false, &mut own),
        _ => Err(Usage("only get, put and why are there for other programs".to_owned()).into()),
    });
    let ended = match result {
        Ok(code) => Ended { code, record: None, error: None },
        Err(error) => failed(&error),
    };
    let told = || own.record.as_ref().map(front::failures).filter(|said| !said.is_empty());
    let error = ended.error.or_else(|| Some(told()?.join("\n"))).filter(|_| ended.code != 0);
    Ended { error, record: own.record.as_ref().and_then(render), ..ended }
}

/// What the server of the one object that a `get` names says of it, without fetching it; `None` where there
/// is no such object.
///
/// # Errors
///
/// The words, the network, the server's refusal: as the command would end for them.
pub fn describe(words: &[OsString], handle: &Handle) -> Result<Option<Described>, Ended> {
    prompt::never_ask();
    let mut own = Own { handle, record: None };
    let result = parse(words).and_then(|command| match command {
        Command::Get(get) => cmd::get_describe::describe(&get, &mut own),
        _ => Err(Usage("only what get fetches can be looked at".to_owned()).into()),
    });
    result.map_err(|error| failed(&error))
}

/// How a command ends that could not begin.
fn failed(error: &anyhow::Error) -> Ended {
    Ended { code: voice::code(error), record: None, error: Some(escape_lines(&voice::words(error))) }
}

/// The line that `--json` prints.
fn render(record: &Record) -> Option<String> {
    let mut line = Vec::new();
    json::render(record, &mut line).ok()?;
    String::from_utf8(line).ok()
}

/// The page of `weir report` of a record.
///
/// # Errors
///
/// The text is no record that this weir reads.
pub fn page(record: &str) -> Result<String, String> {
    let record = json::parse(record).map_err(|error| error.to_string())?;
    let name = format!("weir {}", record.command);
    Ok(html::render(&[Run { name, record, notes: Vec::new() }]))
}

/// Sends the log to stderr from now on: warnings, with 1 decisions as well, with 2 everything.
pub fn log_to_stderr(verbose: u8) {
    voice::start_log(false, verbose);
}

fn parse(words: &[OsString]) -> anyhow::Result<Command> {
    let words = with_command(std::iter::once("weir".into()).chain(words.iter().cloned()));
    let command = config::command_alone(&words)?.command;
    let mut command = command.with_habits().map_err(Usage)?;
    match &mut command {
        Command::Get(get) => of_get(get)?,
        Command::Put(put) => of_put(put)?,
        Command::Why(why) => of_why(why)?,
        _ => {}
    }
    if let Some(voice) = command.voice() {
        page::check(voice)?;
    }
    Ok(command)
}

/// Notes that are for a person alone are not printed.
fn be_quiet(voice: &mut Voice) {
    voice.quiet = true;
    voice.json = false;
}

fn of_get(get: &mut Get) -> Result<(), Usage> {
    let stream = |name: &str| matches!(name, "-" | "/dev/stdout" | "/dev/stdin");
    let wants = [
        (get.to_hosts.to_hosts.is_some(), "--to-hosts wants ssh and the terminal"),
        (get.tui, "--tui wants the terminal"),
        (get.output.iter().any(|output| stream(output)), "-o - wants stdout"),
        (get.json_files.as_ref().is_some_and(|path| path.as_os_str() == "-"), "--json-files - wants stdout"),
        (get.list.iter().any(|list| stream(list)), "-i - wants stdin"),
        (get.headers.iter().any(|field| field == "@-"), "-H @- wants stdin"),
        (get.login.load_cookies.iter().any(|path| path.as_os_str() == "-"), "--load-cookies - wants stdin"),
    ];
    be_quiet(&mut get.voice);
    refuse(&wants)
}

fn of_put(put: &mut Put) -> Result<(), Usage> {
    be_quiet(&mut put.voice);
    let wants = [
        (put.headers.iter().any(|field| field == "@-"), "-H @- wants stdin"),
        (put.login.load_cookies.iter().any(|path| path.as_os_str() == "-"), "--load-cookies - wants stdin"),
        (put.sources.iter().any(|source| source == "-"), "the source - wants stdin"),
        (put.dry_run, "-n prints what would be sent, and there is no record of it here: it wants stdout"),
        (put.abort, "--abort has no record and wants stderr"),
    ];
    refuse(&wants)
}

fn of_why(why: &mut Why) -> Result<(), Usage> {
    // As with --json: what a watched command prints goes to stderr.
    why.voice.json = true;
    let wants = [
        (why.tui, "--tui wants the terminal"),
        (why.watch, "--watch wants stdout"),
        (why.pcap.as_ref().is_some_and(|path| path.as_os_str() == "-"), "--pcap - wants stdin"),
    ];
    refuse(&wants)
}

/// The streams of the process are the caller's.
fn refuse(wants: &[(bool, &str)]) -> Result<(), Usage> {
    match wants.iter().find(|(is_given, _)| *is_given) {
        Some((_, what)) => Err(Usage(format!(
            "{what}, which belongs to the program that called; name a file, or run the command weir"
        ))),
        None => Ok(()),
    }
}

/// The front of a library: nothing is printed, and no signal is listened to.
struct Own<'a> {
    handle: &'a Handle,
    record: Option<Record>,
}

impl Front for Own<'_> {
    fn early(&self) -> Option<Arc<AtomicBool>> {
        Some(Arc::clone(&self.handle.stop))
    }

    fn stop(&mut self) -> anyhow::Result<Arc<AtomicBool>> {
        Ok(Arc::clone(&self.handle.stop))
    }

    fn handed_on(&mut self) -> anyhow::Result<HandedOn> {
        let stop = Arc::clone(&self.handle.stop);
        Ok(Box::new(move || stop.swap(false, Relaxed).then_some(Signal::INT).into_iter().collect()))
    }

    fn begin(&mut self, _: &str, _: usize) -> &mut dyn Observer {
        self
    }

    fn end(&mut self) {}

    fn tell(&mut self, record: &Record, _: &mut dyn FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
        self.record = Some(record.clone());
        Ok(())
    }
}

impl Observer for Own<'_> {
    fn interval(&mut self, seen: &ClosedInterval<'_>) {
        let mut grows_at = self.handle.grows_at.lock();
        if grows_at.is_none() {
            *grows_at = (seen.under_way)().into_iter().find_map(|file| file.grows_at);
        }
    }

    fn progress(&mut self, now: &Progress) {
        *self.handle.look.lock() = Some(Look {
            elapsed: now.elapsed.as_secs_f64(),
            bytes: now.bytes,
            // Before any size is known that is the sum of none.
            total: now.total.filter(|total| *total > 0),
            rate: now.rate.0,
            connections: now.lanes,
            files: now.files,
            limit: now.limit.map(|limit| limit.name()),
        });
    }
}
