//! `weir fleet work`: from a ledger to files and objects at their targets, a record and an exit code.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level;
use url::Url;
use weir_fleet::ledger::{FleetLedger, WorkerIdentity};
use weir_fleet::worker::across::{Across, StoreEnd as StorePrefix};
use weir_fleet::worker::desk::DeskTotals;
use weir_fleet::worker::fetch::{Fetch, FetchSource};
use weir_fleet::worker::local::LocalCopy;
use weir_fleet::worker::send::{Send, SendManner};
use weir_fleet::worker::through::{Through, ThroughSource};
use weir_fleet::worker::{self, Mover, WorkerEnd, WorkerManner, WorkerReport, WorkerSignals};
use weir_get::http::authority::Authorizer;
use weir_get::http::exchange::{Http, Version, Who};
use weir_report::escape::escape;
use weir_report::json as records;
use weir_report::schema::{FileRecord, Record, RunOutcome};
use weir_store::address::StoreUrl;
use weir_store::buckets::Buckets;
use weir_store::environment::End;
use weir_store::settings::StoreFlags;
use weir_store::store::Store;
use weir_store::upload::journal;
use weir_units::{Bytes, counted, human_duration};

use super::ends::{Asking, Planned, PlannedEnd};
use crate::args::{FleetWork, VERSION};
use crate::cmd::asked_store;
use crate::cmd::store_ends::{EndWords, Kinship, StoreEnd, StoreEnds};
use crate::interrupt::{self, INTERRUPTED};
use crate::live::Live;
use crate::page;
use crate::voice::{self, Printed, Usage};

/// The exit code of a worker whose host can move nothing: what it held is as it was, for others.
const TROUBLE: u8 = 4;

/// Works. Returns the exit code.
pub fn run(work: &FleetWork) -> anyhow::Result<u8> {
    voice::start_log(work.voice.quiet, work.voice.verbose);
    let signals = signals()?;
    let mut ledger = super::open(&work.ledger, &signals.stop)?;
    let mut live = Live::new(!work.voice.quiet && std::io::stderr().is_terminal(), 2);
    let worked = carry_out(work, &mut ledger, &signals, &mut live);
    live.clear();
    let (manner, report) = worked?;
    let code = code(&report, ledger.status().map_or(report.totals.failed, |status| status.failed));
    let record = record(&manner, &report, code);
    say(work, &record, &report)?;
    page::keep(&work.voice, &record)?;
    Ok(code)
}

/// Works on what `ledger` has, until the plan is done or `signals` say otherwise.
pub fn carry_out(
    work: &FleetWork,
    ledger: &mut dyn FleetLedger,
    signals: &WorkerSignals,
    live: &mut Live,
) -> anyhow::Result<(WorkerManner, WorkerReport)> {
    let planned = Planned::of(&ledger.ends()?)?;
    let way = Way::open(work, &planned, &signals.stop)?;
    let mover = planned.mover(work, &way)?;
    let manner = manner(work);
    let report = match planned.lacks(&way)? {
        // What it would hold meanwhile others can move.
        Some(why) => WorkerReport {
            end: WorkerEnd::Trouble(why),
            totals: DeskTotals::default(),
            failures: Vec::new(),
            span: Duration::ZERO,
            asked: Duration::ZERO,
        },
        None => worker::run(ledger, &*mover, &manner, signals, live)?,
    };
    Ok((manner, report))
}

/// SIGTERM lets what is held end; SIGINT, and a second SIGTERM, give it back.
pub fn signals() -> anyhow::Result<WorkerSignals> {
    let signals = WorkerSignals { drain: Arc::default(), stop: Arc::default() };
    interrupt::on_signals(&[SIGINT], &signals.stop, || low_level::exit(INTERRUPTED.into()))?;
    let stop = Arc::clone(&signals.stop);
    interrupt::on_signals(&[SIGTERM], &signals.drain, move || stop.store(true, Relaxed))?;
    Ok(signals)
}

fn manner(work: &FleetWork) -> WorkerManner {
    let uname = rustix::system::uname();
    let host = work.name.clone().unwrap_or_else(|| uname.nodename().to_string_lossy().into_owned());
    WorkerManner {
        who: WorkerIdentity { host, pid: std::process::id(), version: VERSION.to_owned() },
        lease: work.worker.lease,
        once: work.once,
        rate: work.worker.limit_rate.0,
        stuck: worker::STUCK,
        drain: worker::DRAIN,
    }
}

impl Planned {
    /// Why this host may do nothing at an end: whoever speaks for requests there has no credentials for one.
    fn lacks(&self, way: &Way) -> anyhow::Result<Option<String>> {
        for (end, side) in [(&self.source, End::Source), (&self.target, End::Target)] {
            let Some(url) = end.store() else { continue };
            let store = way.store(side, url)?;
            let asked = store.object(&format!("{}any", prefix_of(url)), None)?;
            if let Err(error) = store.authorizer().fields("GET", &asked, &[]) {
                return Ok(Some(error.to_string()));
            }
        }
        Ok(None)
    }

    /// Who moves it.
    fn mover<'a>(&self, work: &FleetWork, way: &'a Way) -> anyhow::Result<Box<dyn Mover + 'a>> {
        let lanes = work.worker.lanes;
        let keeps_nothing = self.target.keeps_nothing();
        Ok(match (&self.source, &self.target, &way.stores) {
            (PlannedEnd::Path(from), PlannedEnd::Path(to), _) => {
                let to = made(to, keeps_nothing)?;
                Box::new(LocalCopy::new(from, to, lanes)?)
            }
            (PlannedEnd::Web(base), PlannedEnd::Path(to), _) => {
                let to = made(to, keeps_nothing)?;
                let from = FetchSource::Web(Some(Url::parse(base)?));
                Box::new(Fetch::new(from, to, &way.http, &way.buckets, lanes)?)
            }
            (PlannedEnd::Store(url), PlannedEnd::Path(to), _) => {
                let to = made(to, keeps_nothing)?;
                let from = FetchSource::Store(way.store(End::Source, url)?, prefix_of(url));
                Box::new(Fetch::new(from, to, &way.http, &way.buckets, lanes)?)
            }
            (PlannedEnd::Path(from), PlannedEnd::Store(to), Some(StoreEnds::Target(target))) => {
                Box::new(Send::new(from, below(target, to), &target.http, sending(work)))
            }
            (PlannedEnd::Web(base), PlannedEnd::Store(to), Some(StoreEnds::Target(target))) => {
                let from = ThroughSource::Web(Url::parse(base)?);
                Box::new(Through::new((from, &way.http), (below(target, to), &target.http), sending(work)))
            }
            (
                PlannedEnd::Store(from),
                PlannedEnd::Store(to),
                Some(StoreEnds::Both { source, target, kinship }),
            ) => match kinship {
                Kinship::One => {
                    Box::new(Across::new(below(source, from), below(target, to), &target.http, lanes))
                }
                Kinship::None | Kinship::Estranged => {
                    let from = ThroughSource::Store(below(source, from));
                    let (from, to) = ((from, &source.http), (below(target, to), &target.http));
                    Box::new(Through::new(from, to, sending(work)))
                }
            },
            (_, PlannedEnd::Web(_), _) => {
                let why =
                    "cannot work on this plan: a fleet writes into folders and stores, not to web servers";
                return Err(Usage(why.to_owned()).into());
            }
            (_, PlannedEnd::Store(_), _) => {
                return Err(Usage("neither end is a store".to_owned()).into());
            }
        })
    }
}

/// The prefix that `url` names, at its store.
pub fn below(end: &StoreEnd, url: &StoreUrl) -> StorePrefix {
    let shown = url.with_key("").to_string();
    let store: Arc<dyn Store> = Arc::clone(&end.store);
    StorePrefix { store, bucket: url.bucket.clone(), prefix: prefix_of(url), shown }
}

fn sending(work: &FleetWork) -> SendManner {
    SendManner { lanes: work.worker.lanes, journals: journal::folder(&asked_store::own_variable) }
}

/// What keys begin with: nothing, or with a slash at its end.
fn prefix_of(url: &StoreUrl) -> String {
    let is_open = url.key.is_empty() || url.key.ends_with('/');
    if is_open { url.key.clone() } else { format!("{}/", url.key) }
}

/// The folder, made where it is not there; `None` where nothing is kept.
fn made(folder: &Path, keeps_nothing: bool) -> anyhow::Result<Option<&Path>> {
    if keeps_nothing {
        return Ok(None);
    }
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    Ok(Some(folder))
}

/// The way to the network.
struct Way {
    /// To where objects are fetched from into folders, and to web servers.
    http: Http,
    buckets: Arc<Buckets>,
    /// The target, where it is a store, and with it a source that is one.
    stores: Option<StoreEnds>,
}

impl Way {
    fn open(work: &FleetWork, planned: &Planned, stop: &Arc<AtomicBool>) -> anyhow::Result<Way> {
        let (both, ends, network) = (&work.worker.store, &work.worker.ends, &work.worker.network);
        Asking { store: both, ends, network, stop }.fits(planned)?;
        let (from, to) = (planned.source.store(), planned.target.store());
        let words = EndWords { both, ends, network };
        let stores = to.map(|to| StoreEnds::open(words, from, Some(to), stop)).transpose()?;
        let network = asked_store::network_of_end((ends, End::Source), network, stop)?;
        let (trust, proxies) = (network.trust.clone(), network.proxies.clone().unwrap_or_default());
        let flags = StoreFlags { network, ..ends.flags(End::Source, both)? };
        let buckets = Arc::new(Buckets::new(flags, Box::new(asked_store::own_variable)));
        let http = Http::new(trust, proxies, Version::Auto, Vec::new(), Who::default())
            .authorized_by(vec![Arc::clone(&buckets) as Arc<dyn Authorizer>]);
        Ok(Way { http, buckets, stores })
    }

    /// The bucket of `url`, which is that end.
    fn store(&self, end: End, url: &StoreUrl) -> anyhow::Result<Arc<dyn Store>> {
        let opened = self.stores.as_ref().and_then(|stores| match end {
            End::Source => stores.source(),
            End::Target => stores.target(),
        });
        Ok(match opened {
            Some(opened) => Arc::clone(&opened.store),
            None => self.buckets.store(url)?,
        })
    }
}

/// `given_up`: objects that the fleet tries no more.
fn code(report: &WorkerReport, given_up: u64) -> u8 {
    match &report.end {
        WorkerEnd::Stopped => INTERRUPTED,
        WorkerEnd::Trouble(_) => TROUBLE,
        WorkerEnd::Unplanned => 1,
        WorkerEnd::Complete | WorkerEnd::Nothing | WorkerEnd::Drained => u8::from(given_up > 0),
    }
}

/// How a worker ended, in a word.
pub fn word(end: &WorkerEnd) -> &'static str {
    match end {
        WorkerEnd::Complete => "complete",
        WorkerEnd::Nothing => "nothing",
        WorkerEnd::Unplanned => "unplanned",
        WorkerEnd::Drained => "drained",
        WorkerEnd::Stopped => "stopped",
        WorkerEnd::Trouble(_) => "trouble",
    }
}

/// The record of the run, as `--json` prints it.
fn record(manner: &WorkerManner, report: &WorkerReport, code: u8) -> Record {
    let totals = report.totals;
    let outcome = match (code, &report.end) {
        (0, WorkerEnd::Complete) => RunOutcome::Complete,
        // It left in order, and the plan is not done.
        (0, _) => RunOutcome::Partial,
        _ if totals.moved.0 + totals.same.0 > 0 => RunOutcome::Partial,
        _ => RunOutcome::Failed,
    };
    let mut record = Record::new("fleet work", outcome, totals.moved.1, report.span.as_secs_f64());
    record.peak_memory = weir_observe::memory::peak_rss().ok();
    if let WorkerEnd::Trouble(why) = &report.end {
        record.error = Some(format!("this host can move nothing, and gave its batches back: {why}"));
    }
    let failed = |reason: &String| FileRecord { error: Some(reason.clone()), ..FileRecord::default() };
    record.files = report.failures.iter().map(failed).collect();
    let tally = |(objects, bytes): (u64, u64)| json!({ "objects": objects, "bytes": bytes });
    let own = json!({
        "host": manner.who.host,
        "end": word(&report.end),
        "moved": tally(totals.moved),
        "same": tally(totals.same),
        "failed": totals.failed,
        "retried": totals.retried,
        "ledger_seconds": report.asked.as_secs_f64(),
    });
    record.extra.insert("fleet".to_owned(), own);
    record
}

/// The record on stdout, failures and what was done on stderr.
fn say(work: &FleetWork, record: &Record, report: &WorkerReport) -> anyhow::Result<()> {
    for reason in &report.failures {
        voice::warn(&escape(reason));
    }
    let more = report.totals.failed.saturating_sub(report.failures.len() as u64);
    if more > 0 {
        voice::warn(&format!("{more} more objects failed; weir fleet status names them"));
    }
    if let Some(error) = &record.error {
        voice::warn(&escape(error));
    }
    if work.voice.json {
        records::render(record, &mut std::io::stdout().lock()).printed("the record")?;
    } else if !work.voice.quiet {
        let totals = report.totals;
        let ended = match &report.end {
            WorkerEnd::Complete => "the plan is done",
            WorkerEnd::Nothing => "nothing is free now",
            WorkerEnd::Unplanned => "the plan is not whole, and nobody writes it",
            WorkerEnd::Drained => "the fleet drains",
            WorkerEnd::Stopped => "stopped, the rest was given back",
            WorkerEnd::Trouble(_) => "gave its batches back",
        };
        let retried = match totals.retried {
            0 => String::new(),
            times => format!(", {} tried again later", counted(times, "attempt")),
        };
        writeln!(
            std::io::stderr(),
            "moved {}, {} in {}; {} already there, {} failed{retried}; {ended}",
            counted(totals.moved.0, "object"),
            Bytes(totals.moved.1),
            human_duration(report.span),
            totals.same.0,
            totals.failed
        )?;
    }
    Ok(())
}
