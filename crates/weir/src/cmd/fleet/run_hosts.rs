//! `weir fleet run --hosts`: workers by ssh, what happens to them in words, a record and an exit code.

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use weir_fleet::launch::crew::{self, CrewEvent, CrewManner, CrewMember};
use weir_fleet::launch::hosts::{self, FleetHost};
use weir_fleet::launch::hub::HubLedger;
use weir_fleet::ledger::postgres::DatabaseUrl;
use weir_fleet::ledger::{FleetStatus, LedgerPlace, Patience, Tally};
use weir_fleet::worker::{WorkerEnd, WorkerSignals};
use weir_report::escape::escape;
use weir_report::json as records;
use weir_report::schema::{FileRecord, Record, RunOutcome};
use weir_units::{Bytes, Rate, counted, human_duration};

use crate::args::{FleetRun, VERSION};
use crate::cmd::host_list;
use crate::interrupt::{self, INTERRUPTED};
use crate::live::Live;
use crate::page;
use crate::voice::{self, Printed, Usage};

/// The exit code where the workers have ended and the plan has not.
const NOT_DONE: u8 = 4;

/// How long a question of a worker waits for a database that does not answer. The workers wait longer for the
/// answer than that.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two looks at where the plan stands.
const LOOKS: Duration = Duration::from_secs(1);

/// What a run is about.
struct Run<'a> {
    run: &'a FleetRun,
    hosts: Vec<FleetHost>,
    ledger: HubLedger,
    signals: WorkerSignals,
    /// Where the plan stood at first.
    before: FleetStatus,
}

/// Starts workers on `hosts` and looks after them. Returns the exit code.
pub fn run(run: &FleetRun, hosts: &str) -> anyhow::Result<u8> {
    let hosts = named(hosts)?;
    let from_hosts = match run.on.ledger_from_hosts {
        true => Some(for_other_hosts(&run.ledger)?),
        false => None,
    };
    let signals = signals()?;
    let place = LedgerPlace::parse(&run.ledger).map_err(Usage)?;
    let patience = Patience { longest: PATIENCE, stop: Arc::clone(&signals.stop) };
    // The first time as long as any command.
    let before = super::open(&run.ledger, &signals.stop)?.status()?;
    let ledger = HubLedger::new(place.open(patience)?);
    let began = Instant::now();
    let this = Run { run, hosts, ledger, signals, before };
    let members = if this.before.complete || this.before.settings.draining {
        Vec::new()
    } else {
        this.work(from_hosts)
    };
    let after = this.after(place)?;
    let code = this.code(&after);
    let record = this.record(&after, &members, began.elapsed(), code);
    this.say(&record, &after, &members)?;
    page::keep(&run.voice, &record)?;
    Ok(code)
}

/// The first signal lets what is held end; the second gives it back.
fn signals() -> anyhow::Result<WorkerSignals> {
    let signals = WorkerSignals { drain: Arc::default(), stop: Arc::default() };
    let stop = Arc::clone(&signals.stop);
    interrupt::on_signals(&[SIGINT, SIGTERM], &signals.drain, move || stop.store(true, Relaxed))?;
    Ok(signals)
}

/// The hosts that `--hosts` names: in a file, on stdin, or there.
fn named(text: &str) -> anyhow::Result<Vec<FleetHost>> {
    let is_file = |text: &str| !text.contains(',') && (text.contains('/') || Path::new(text).is_file());
    let parsed = match text {
        list if list == "-" || is_file(list) && !list.starts_with("ssh://") => {
            let (text, shown) = host_list::read(list)?;
            hosts::parse_file(&text, shown)
        }
        words => hosts::parse_words(words),
    };
    let (hosts, again) = parsed.map_err(|why| Usage(format!("cannot use --hosts: {why}")))?;
    for host in again {
        let words = "is named twice and counts once; --workers-per-host starts more there";
        voice::warn(&escape(&format!("{host} {words}")));
    }
    Ok(hosts)
}

/// The database as workers reach it by themselves.
fn for_other_hosts(ledger: &str) -> anyhow::Result<DatabaseUrl> {
    match LedgerPlace::parse(ledger).map_err(Usage)? {
        LedgerPlace::Database(url) => Ok(url.for_other_hosts().map_err(Usage)?),
        LedgerPlace::File(path) => Err(Usage(format!(
            "cannot use --ledger-from-hosts: {} is a file of this host; leave it out, and workers ask it through \
             this host",
            path.display()
        ))
        .into()),
    }
}

impl Run<'_> {
    fn work(&self, ledger: Option<DatabaseUrl>) -> Vec<CrewMember> {
        let FleetRun { on, worker, voice, .. } = self.run;
        let host = on.ssh.host(None);
        let manner = CrewManner {
            ssh: host.ssh,
            program: host.program,
            builds: host.builds,
            silence: host.silence,
            version: VERSION.to_owned(),
            workers: on.workers_per_host,
            words: worker.words(),
            ledger,
        };
        let is_shown = !voice.quiet && std::io::stderr().is_terminal();
        let live = std::cell::RefCell::new(Live::new(is_shown, 2));
        let mut told = HashMap::new();
        let (mut looked, mut before) = (Instant::now(), (Instant::now(), self.before.moved.bytes));
        let mut tell = |host: &str, event: CrewEvent| {
            live.borrow_mut().clear();
            tell(host, &event, &mut told);
        };
        let mut tick = |working: usize| {
            if !is_shown || looked.elapsed() < LOOKS {
                return;
            }
            looked = Instant::now();
            // A busy ledger has better to do.
            if let Some(Ok(status)) = self.ledger.try_use(|ledger| ledger.status()) {
                let rate = Rate::of(status.moved.bytes.saturating_sub(before.1), before.0.elapsed());
                before = (Instant::now(), status.moved.bytes);
                live.borrow_mut().say(&line(&status, rate, working));
            }
        };
        let members = crew::run(&self.hosts, &self.ledger, &manner, &self.signals, &mut tell, &mut tick);
        live.borrow_mut().clear();
        members
    }

    /// Where the plan stands at the end. Whoever was told twice to end does not wait for a database.
    fn after(&self, place: LedgerPlace) -> anyhow::Result<FleetStatus> {
        if self.signals.stop.load(Relaxed) {
            let patience = Patience { longest: Duration::ZERO, stop: Arc::default() };
            return Ok(place
                .open(patience)
                .and_then(|mut ledger| ledger.status())
                .unwrap_or(self.before.clone()));
        }
        Ok(self.ledger.alone(|ledger| ledger.status())?)
    }

    fn code(&self, after: &FleetStatus) -> u8 {
        match after.complete {
            true => u8::from(after.failed > 0),
            false if self.signals.drain.load(Relaxed) => INTERRUPTED,
            false => NOT_DONE,
        }
    }

    fn record(&self, after: &FleetStatus, members: &[CrewMember], span: Duration, code: u8) -> Record {
        let bytes = after.moved.bytes.saturating_sub(self.before.moved.bytes);
        let outcome = match code {
            0 => RunOutcome::Complete,
            _ if after.moved.objects + after.same.objects > 0 => RunOutcome::Partial,
            _ => RunOutcome::Failed,
        };
        let mut record = Record::new("fleet run", outcome, bytes, span.as_secs_f64());
        record.peak_memory = weir_observe::memory::peak_rss().ok();
        if code == NOT_DONE {
            record.error = Some(why_not_done(after));
        }
        let of_host = |member: &CrewMember| {
            let text = |why: &String| FileRecord { error: Some(why.clone()), ..FileRecord::default() };
            member.farewell.iter().flat_map(|farewell| farewell.failures.iter().map(text)).collect::<Vec<_>>()
        };
        record.files = members.iter().flat_map(of_host).take(1000).collect();
        let workers: Vec<_> = members.iter().map(worker_json).collect();
        let tally = |tally: Tally| json!({ "objects": tally.objects, "bytes": tally.bytes });
        let own = json!({
            "complete": after.complete,
            "planned": tally(after.planned),
            "moved": tally(after.moved),
            "same": tally(after.same),
            "failed": after.failed,
            "workers": workers,
        });
        record.extra.insert("fleet".to_owned(), own);
        record
    }

    /// The record on stdout; on stderr who could not work, and where the plan stands.
    fn say(&self, record: &Record, after: &FleetStatus, members: &[CrewMember]) -> anyhow::Result<()> {
        let mut idle: Vec<String> = Vec::new();
        for member in members {
            let said =
                member.failure.as_ref().map(|why| format!("{} did not work at the end: {why}", member.host));
            idle.extend(said.filter(|said| !idle.contains(said)));
        }
        idle.iter().for_each(|said| voice::warn(&escape(said)));
        if let Some(error) = &record.error {
            voice::warn(&escape(error));
        }
        if self.run.voice.json {
            return records::render(record, &mut std::io::stdout().lock()).printed("the record");
        }
        if !self.run.voice.quiet {
            let moved = Tally {
                objects: after.moved.objects.saturating_sub(self.before.moved.objects),
                bytes: record.bytes,
            };
            let state = match (after.complete, after.failed) {
                (true, 0) => "the plan is done".to_owned(),
                (true, failed) => {
                    format!("the plan is done, and {failed} were given up; weir fleet status says why")
                }
                (false, _) => "the plan is not done".to_owned(),
            };
            let (objects, bytes) = (counted(moved.objects, "object"), Bytes(moved.bytes));
            let (span, there) = (human_duration(Duration::from_secs_f64(record.seconds)), after.same.objects);
            writeln!(
                std::io::stderr(),
                "moved {objects}, {bytes} in {span}; {there} already there; {state}"
            )?;
        }
        Ok(())
    }
}

fn why_not_done(after: &FleetStatus) -> String {
    match (after.settings.draining, after.sealed) {
        (true, _) => "the fleet drains, and no worker is started; weir fleet resume gives out batches again",
        (_, false) => "no worker is left, and the plan is not whole; run weir fleet plan again",
        _ => "no worker is left, and the plan is not done; run the same again where hosts can work",
    }
    .to_owned()
}

fn worker_json(member: &CrewMember) -> serde_json::Value {
    let tally = |tally: Tally| json!({ "objects": tally.objects, "bytes": tally.bytes });
    let farewell = member.farewell.as_ref();
    json!({
        "host": member.host,
        "starts": member.starts,
        "end": farewell.map(|farewell| farewell.end.as_ref().map_or("unable", super::work::word)),
        "moved": farewell.map(|farewell| tally(farewell.moved)),
        "same": farewell.map(|farewell| tally(farewell.same)),
        "failed": farewell.map(|farewell| farewell.failed),
        "error": member.failure,
    })
}

/// Says what happens to a worker. Of a host that fails in the same way again the first time is enough.
fn tell(host: &str, event: &CrewEvent, told: &mut HashMap<String, String>) {
    match event {
        CrewEvent::Began => {
            told.remove(host);
            tracing::info!("{host}: a worker began");
        }
        CrewEvent::Said(line) => {
            let line = line.strip_prefix("weir: ").unwrap_or(line).trim_start();
            match line.strip_prefix("WARN ") {
                Some(words) => tracing::warn!("{host}: {}", escape(words.trim_start())),
                None => tracing::info!("{host}: {}", escape(line)),
            }
        }
        CrewEvent::Failed(why, again) => {
            let again = again.map_or_else(
                || "it is left out".to_owned(),
                |pause| format!("tried again in {}", human_duration(pause)),
            );
            if told.insert(host.to_owned(), why.clone()).as_ref() == Some(why) {
                tracing::info!("{host}: {}; {again}", escape(why));
            } else {
                voice::warn(&escape(&format!("{host}: {why}; {again}")));
            }
        }
        CrewEvent::Ended(farewell) => {
            farewell.failures.iter().for_each(|why| tracing::info!("{host}: {}", escape(why)));
            if let Ok(end @ (WorkerEnd::Stopped | WorkerEnd::Drained)) = &farewell.end {
                tracing::info!("{host}: a worker left: {}", super::work::word(end));
            }
        }
    }
}

/// The line of a terminal.
fn line(status: &FleetStatus, rate: Rate, working: usize) -> String {
    let done = status.moved.objects + status.same.objects + status.failed;
    let planned = if status.sealed { status.planned.objects.to_string() } else { "?".to_owned() };
    format!("{done} of {planned} objects  {}  {rate}  {working} workers", Bytes(status.moved.bytes))
}
