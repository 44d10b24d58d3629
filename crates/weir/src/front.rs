//! Who a command works for: the program `weir`, with its signals, its terminal and its stdout, or a program
//! that has weir as a library ([`crate::library`]), which keeps its own.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use rustix::process::Signal;
use weir_get::job::Observer;
use weir_report::escape::escape;
use weir_report::schema::{FileRecord, Record};
use weir_report::{json, terminal};

use crate::args::Voice;
use crate::caught::Caught;
use crate::live::Live;
use crate::page;
use crate::tui::{self, Screen};
use crate::voice::{self, Printed};

/// Says which came since it was asked last.
pub type HandedOn = Box<dyn FnMut() -> Vec<Signal>>;

/// The stop signal, the observer and the destination of the record of a command.
pub trait Front {
    /// What is heard before [`Front::stop`] is called; nothing, where a signal ends the program until then.
    fn early(&self) -> Option<Arc<AtomicBool>>;

    /// The stop flag; from now on the command cleans up before it ends.
    fn stop(&mut self) -> anyhow::Result<Arc<AtomicBool>>;

    /// The signals that a command which is run and watched shall hear too.
    fn handed_on(&mut self) -> anyhow::Result<HandedOn>;

    /// Bytes begin to move, of `files` files under this title. Returns who hears of them.
    fn begin(&mut self, title: &str, files: usize) -> &mut dyn Observer;

    /// No more bytes move.
    fn end(&mut self);

    /// The record of the run; `say` tells it to people, on stdout as JSON where that was asked for.
    fn tell(&mut self, record: &Record, say: &mut dyn FnMut() -> anyhow::Result<()>) -> anyhow::Result<()>;
}

/// The program.
pub struct Program {
    live: Live,
    quiet: bool,
    view: bool,
    keys: &'static str,
}

impl Program {
    /// As `voice` has it; with a `view` on the whole terminal, where `keys` do what is said there.
    pub fn new(voice: &Voice, view: bool, keys: &'static str) -> Program {
        Program { live: Live::new(false, 0), quiet: voice.quiet, view, keys }
    }
}

impl Front for Program {
    fn early(&self) -> Option<Arc<AtomicBool>> {
        None
    }

    fn stop(&mut self) -> anyhow::Result<Arc<AtomicBool>> {
        tui::stop_beside(self.view)
    }

    fn handed_on(&mut self) -> anyhow::Result<HandedOn> {
        let mut caught = Caught::new().context("cannot listen to signals")?;
        Ok(Box::new(move || caught.take()))
    }

    fn begin(&mut self, title: &str, files: usize) -> &mut dyn Observer {
        self.live = Live::new(!self.quiet && std::io::stderr().is_terminal(), files);
        if self.view {
            self.live.on(Screen::open(title, self.keys));
        }
        &mut self.live
    }

    fn end(&mut self) {
        self.live.clear();
    }

    fn tell(&mut self, _: &Record, say: &mut dyn FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
        say()
    }
}

/// The record on stdout and failures on stderr, or the summary, which has them too.
pub fn say(voice: &Voice, record: &Record) -> anyhow::Result<()> {
    if voice.quiet || voice.json {
        failures(record).iter().for_each(|text| voice::warn(text));
    }
    if voice.json {
        json::render(record, &mut std::io::stdout().lock()).printed("the record")?;
    } else if !voice.quiet {
        let render = if voice.verbose > 0 { terminal::render_summary } else { terminal::render_brief };
        // A summary that cannot be written, to a full disk for example, is no failure of the run.
        let _ = render(record, voice::sheet(&std::io::stderr()), &mut std::io::stderr().lock());
    }
    Ok(())
}

/// One text for each failure: the files that the record names, and those that it only counts.
pub fn failures(record: &Record) -> Vec<String> {
    let of_file =
        |file: &FileRecord| Some(format!("{}: {}", escape(&file.url), escape(file.error.as_ref()?)));
    let mut said: Vec<String> = record.files.iter().filter_map(of_file).collect();
    let named = said.len() as u64;
    said.extend(record.error.iter().map(|error| escape(error).into_owned()));
    let not_begun = record.counts.as_ref().map_or(0, |counts| counts.not_begun);
    let failed = record.failed() - named;
    if failed > 0 {
        said.push(format!("{failed} more files failed"));
    }
    if not_begun > 0 {
        said.push(format!("{not_begun} more files were not begun; the same command fetches them"));
    }
    said
}

/// Tells of a transfer that is over: to whoever it was for, and to the page that was asked for.
pub fn tell(front: &mut dyn Front, voice: &Voice, record: &Record) -> anyhow::Result<()> {
    front.tell(record, &mut || say(voice, record))?;
    page::keep(voice, record)
}
