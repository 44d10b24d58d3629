//! `weir bench`: one stage measured alone.

mod cipher;
mod codec;
mod disk;
mod host;
mod http;
mod local;
mod mem;
pub mod net;
mod pps;
mod store;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use weir_bench::repeat::Speed;
use weir_report::codecs::SpeedRecord;
use weir_report::schema::{Record, RunOutcome};
use weir_report::{json, progress};

use crate::args::{Bench, BenchCommand, Voice};
use crate::interrupt::{self, INTERRUPTED};
use crate::live;
use crate::page;
use crate::terminal::can_move;
use crate::voice::Printed;

/// What the record says of a run that ends with this exit code.
fn outcome_of(code: u8) -> RunOutcome {
    match code {
        0 => RunOutcome::Complete,
        INTERRUPTED => RunOutcome::Partial,
        _ => RunOutcome::Failed,
    }
}

/// Data came out of a codec or cipher as other data.
const WRONG_DATA: u8 = 3;

/// Measures what was asked for. Returns the exit code.
pub fn run(bench: &Bench) -> anyhow::Result<u8> {
    match &bench.command {
        BenchCommand::Codec(codec) => codec::run(codec),
        BenchCommand::Cipher(cipher) => cipher::run(cipher),
        BenchCommand::Net(net) => net::run(net),
        BenchCommand::Http(http) => http::run(http),
        BenchCommand::Host(host) => match &host.target {
            Some(target) => host::run(host, target),
            None => local::run(host),
        },
        BenchCommand::Mem(mem) => mem::run(mem),
        BenchCommand::Disk(disk) => disk::run(disk),
        BenchCommand::Pps(pps) => pps::run(pps),
        BenchCommand::Store(store) => store::run(store),
    }
}

/// The live line of a bench, for a terminal alone, and whether to go on.
struct Progress {
    shown: bool,
    stop: Arc<AtomicBool>,
    start: Instant,
}

impl Progress {
    fn new(voice: &Voice) -> anyhow::Result<Progress> {
        let stop = interrupt::stop()?;
        Ok(Progress { shown: !voice.quiet && can_move(&std::io::stderr()), stop, start: Instant::now() })
    }

    /// Says what comes next; false after an interrupt.
    fn next(&self, what: &str, index: usize, count: usize) -> bool {
        if self.shown {
            let line = progress::steps(&format!("measuring {what}"), index, count, self.start.elapsed());
            let _ = write!(std::io::stderr(), "\r\x1b[K{}", live::cut(&line));
        }
        self.goes_on()
    }

    /// False after an interrupt.
    fn goes_on(&self) -> bool {
        !self.stop.load(Relaxed)
    }

    /// Takes the line away, before something else is printed.
    fn clear(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Prints the record (`--json`), or for people what `lines` writes, and keeps the page that was asked for.
/// `what` is printed, for an error.
fn tell(
    voice: &Voice,
    record: &Record,
    what: &'static str,
    lines: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let printed = match (voice.json, voice.quiet) {
        (true, _) => json::render(record, &mut out),
        (false, true) => Ok(()),
        (false, false) => lines(&mut out),
    };
    printed.printed(what)?;
    page::keep(voice, record)
}

fn speed(speed: Speed) -> SpeedRecord {
    SpeedRecord { rate: speed.rate.0, spread: speed.spread, passes: speed.passes }
}
