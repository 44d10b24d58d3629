//! `weir self-check`: what does this host let weir do, and what does each missing thing cost?

mod probes;

use std::io::{IsTerminal, Write};
use std::time::Instant;

use weir_report::json;
use weir_report::schema::{Record, RunOutcome};
use weir_report::self_check::{SelfCheckRecord, render};

use crate::args::SelfCheck;
use crate::live::Live;
use crate::voice::Printed;
use crate::{page, voice};

/// Probes and tells. Returns the exit code: 1 when get, cp or why lack something that they need.
pub fn run(check: &SelfCheck) -> anyhow::Result<u8> {
    if let Some(ability) = check.probe {
        return probes::answer(ability);
    }
    voice::start_log(check.voice.quiet, check.voice.verbose);
    let started = Instant::now();
    let mut live = Live::new(!check.voice.quiet && std::io::stderr().is_terminal(), 0);
    live.say(&format!("probing, for {} s at most", check.timeout.as_secs_f64()));
    let found = probes::run(check.timeout);
    live.clear();
    let user = rustix::process::geteuid().as_raw();
    let told = SelfCheckRecord::new(system(), user, &found);
    let outcome = if told.stopped.is_empty() { RunOutcome::Complete } else { RunOutcome::Failed };
    let mut record = Record::new("self-check", outcome, 0, started.elapsed().as_secs_f64());
    record.extra.insert("self_check".to_owned(), serde_json::to_value(&told)?);
    let mut stdout = std::io::stdout().lock();
    if check.voice.json {
        json::render(&record, &mut stdout).printed("the record")?;
    } else if !check.voice.quiet {
        let lines = |out: &mut dyn std::io::Write| render(&told, check.voice.verbose > 0, out);
        voice::sheet(&std::io::stdout()).print(&mut stdout, lines).printed("what was found")?;
    }
    stdout.flush().printed("what was found")?;
    page::keep(&check.voice, &record)?;
    Ok(u8::from(!told.stopped.is_empty()))
}

/// `Linux 6.18.44 x86_64`.
fn system() -> String {
    let name = rustix::system::uname();
    [name.sysname(), name.release(), name.machine()].map(|word| word.to_string_lossy()).join(" ")
}
