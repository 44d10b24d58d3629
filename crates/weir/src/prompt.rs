//! Passwords that a person types: asked on the terminal, not shown there, on no command line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// A longer one was not typed.
const MAX: usize = 4096;

/// Nothing is asked in this process: its terminal is another program's.
static SILENT: AtomicBool = AtomicBool::new(false);

/// From now on nothing is asked.
pub fn never_ask() {
    SILENT.store(true, Relaxed);
}

/// Asks for `what`; `None` where nobody sits at a terminal.
pub fn password(what: &str) -> Option<String> {
    // What a script runs has errors that nobody reads; it must not wait for an answer.
    if SILENT.load(Relaxed) || !io::stderr().is_terminal() {
        return None;
    }
    ask(what).ok()
}

fn ask(what: &str) -> io::Result<String> {
    let terminal = File::options().read(true).write(true).open("/dev/tty")?;
    let _quiet = Quiet::on(&terminal)?;
    write!(&terminal, "{what}: ")?;
    let mut line = String::new();
    let mut reader = BufReader::new(&terminal);
    io::Read::take(&mut reader, MAX as u64).read_line(&mut line)?;
    writeln!(&terminal)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// A terminal that shows nothing of what is typed, until this is dropped.
struct Quiet<'a> {
    terminal: &'a File,
    before: Termios,
}

impl Quiet<'_> {
    fn on(terminal: &File) -> io::Result<Quiet<'_>> {
        let before = tcgetattr(terminal)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(terminal, OptionalActions::Flush, &silent)?;
        Ok(Quiet { terminal, before })
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}
