//! `weir put`: from arguments to objects at a store or a server, a verdict and an exit code.

mod jobs;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use serde_json::json;
use weir_get::http::exchange::{Http, Manner, Version};
use weir_get::http::proxy::{Proxies, Said};
use weir_get::http::reach::Reach;
use weir_get::http::trust::Trust;
use weir_model::verdict;
use weir_observe::stage_clock::StageClock;
use weir_report::escape::escape;
use weir_report::json as records;
use weir_report::schema::{DigestRecord, FileRecord, Record, RunOutcome};
use weir_store::caller::{Caller, CallerSetup};
use weir_store::condition::Condition;
use weir_store::network::{Network, Stop};
use weir_store::settings::{Settings, StoreFlags};
use weir_store::store::Store;
use weir_store::upload::engine::{self, Target};
use weir_store::upload::finished::Finished;
use weir_store::upload::job::{Job, JobReport, Options, PutOutcome, RunReport};
use weir_store::upload::plain::PlainPut;
use weir_store::upload::{Uploads, journal};
use weir_units::{Bytes, counted};

use self::jobs::{Plan, PutPlace};
use crate::args::{GivenFields, Put};
use crate::cmd::{asked_store, get_who};
use crate::evidence;
use crate::front::{self, Front, Program};
use crate::interrupt::INTERRUPTED;
use crate::voice::{self, Printed, Usage};

/// Sends what `put` names, for the program. Returns the exit code.
pub fn run(put: &Put) -> anyhow::Result<u8> {
    voice::start_log(put.voice.quiet, put.voice.verbose);
    send(put, &mut Program::new(&put.voice, false, ""))
}

/// Sends what `put` names, for whoever stands at the front. Returns the exit code.
pub fn send(put: &Put, front: &mut dyn Front) -> anyhow::Result<u8> {
    evidence::check(put.evidence.as_deref())?;
    let mut plan = jobs::plan(put)?;
    let environment = asked_store::own_variable;
    let interrupted = Stop::default();
    front.early().iter().for_each(|early| interrupted.set(early));
    let filled = Filled::open(put, &plan.place, &environment, &interrupted)?;
    let name = |key: &str| filled.name(key);
    let shown = |key: &str| filled.shown(key);
    let target = Target { uploads: filled.uploads(), name: &name, shown: &shown, source: None };
    if put.dry_run {
        return dry_run(put, &plan, &filled);
    }
    let http = http(put, &filled)?;
    let mut options = options(put, &environment);
    let stop = front.stop()?;
    interrupted.set(&stop);
    let finished = finished(put, &plan, &filled, &options);
    if put.abort {
        finished.iter().for_each(|finished| finished.remove());
        return abort(put, target, &plan, &options, &http, &stop);
    }
    if let Some(finished) = &finished {
        look_at_target(finished, &filled, &options, &http, &stop);
    }
    options.finished.clone_from(&finished);
    let live = front.begin("put", plan.jobs.len());
    let report = engine::run(target, &plan.jobs, &options, &http, &stop, live);
    front.end();
    let saved = get_who::save_cookies(&put.login, &http);
    let code = exit_code(&report, plan.failed.len());
    if let Some(finished) = &finished {
        plan.notes.extend(of_earlier(finished));
        if code == 0 {
            finished.remove();
        }
    }
    let record = record(&plan, &filled, &report, code);
    front::tell(front, &put.voice, &record)?;
    evidence::keep(put.evidence.as_deref(), &report.evidence)?;
    saved?;
    Ok(code)
}

/// What is filled: a bucket, or a server's folder.
enum Filled {
    Store(Arc<dyn Store>, weir_store::address::StoreUrl),
    Plain(PlainPut),
}

impl Filled {
    fn open(
        put: &Put,
        place: &PutPlace,
        environment: weir_store::environment::Environment<'_>,
        stop: &Stop,
    ) -> anyhow::Result<Filled> {
        match place {
            PutPlace::Store(url) => {
                let network = Network { stop: stop.clone(), ..network(put)? };
                let flags = StoreFlags { network, ..put.store.flags()? };
                let settings = Settings { flags, environment };
                Ok(Filled::Store(settings.open(url)?, url.clone()))
            }
            PutPlace::Plain(base) => Ok(Filled::Plain(PlainPut::new(base.clone()))),
        }
    }

    fn uploads(&self) -> &dyn Uploads {
        match self {
            Filled::Store(store, _) => store.uploads(),
            Filled::Plain(plain) => plain,
        }
    }

    /// The address of an object, without what is secret in it.
    fn name(&self, key: &str) -> String {
        match self {
            Filled::Store(store, _) => store.address(key),
            Filled::Plain(plain) => plain
                .url(key)
                .map(|url| weir_get::object::shown(&url))
                .unwrap_or_else(|_| key.escape_debug().to_string()),
        }
    }

    /// What a person calls it: `s3://BUCKET/KEY`.
    fn shown(&self, key: &str) -> String {
        match self {
            Filled::Store(_, url) => url.with_key(key).to_string(),
            Filled::Plain(_) => self.name(key),
        }
    }
}

fn trust(put: &Put) -> Trust {
    Trust { insecure: put.insecure, ..asked_store::trust(put.cacert.as_deref()) }
}

fn proxies(put: &Put, reach: &Reach) -> anyhow::Result<Proxies> {
    let said = Said { proxy: put.proxy.as_deref(), exempt: put.login.noproxy.as_deref() };
    // A socket of this machine is the whole way.
    Ok(match reach.unix {
        Some(_) => Proxies::default(),
        None => Proxies::new(said, asked_store::own_variable)?,
    })
}

/// The way to whoever gives credentials: the user's, but for what is of the servers of files alone.
fn network(put: &Put) -> anyhow::Result<Network> {
    let reach = Reach { unix: None, ..put.reach.reach() };
    Ok(Network {
        trust: trust(put),
        proxies: Some(proxies(put, &reach)?),
        reach,
        timeout: put.timeout,
        connect_timeout: put.connect_timeout.unwrap_or(put.timeout),
        ..Network::default()
    })
}

fn http(put: &Put, filled: &Filled) -> anyhow::Result<Http> {
    let fields = GivenFields::read(&put.headers).map_err(Usage)?;
    let reach = put.reach.reach();
    reach.check().map_err(Usage)?;
    let identity = get_who::identity(&put.login.certificate)?.map(Into::into);
    let trust = Trust { identity, ..trust(put) };
    let proxies = proxies(put, &reach)?;
    let manner = Manner { reach, removed: fields.removed, ..Manner::default() };
    let (first, authorizers) = match filled {
        Filled::Store(store, _) => (None, vec![store.authorizer()]),
        Filled::Plain(plain) => (Some(plain.url("")?), Vec::new()),
    };
    let user = get_who::user(&put.login, put.user.as_deref(), first.as_ref());
    let who = get_who::who(&put.login, user)?;
    let http = Http::new(trust, proxies, Version::Http1, fields.sent, who).in_manner(manner);
    Ok(http.authorized_by(authorizers))
}

fn options(put: &Put, environment: weir_store::environment::Environment<'_>) -> Options {
    let condition = match (&put.if_match, put.if_absent) {
        (Some(tag), _) => Condition::Matches(quoted(tag)),
        (None, true) => Condition::Absent,
        (None, false) => Condition::None,
    };
    Options {
        lanes: put.lanes,
        files_at_once: put.jobs,
        rate_cap: put.limit_rate.0,
        limiter: None,
        timeout: put.timeout,
        connect_timeout: put.connect_timeout.unwrap_or(put.timeout),
        max_wait: put.max_wait,
        retries: put.retries,
        part_size: put.part_size.map(|size| size.0),
        check: put.check(),
        condition,
        journals: journal::folder(environment),
        keeps: true,
        fresh: put.force,
        finished: None,
        clears: "--abort",
    }
}

/// Which files of several an earlier run of the same command has stored.
fn finished(put: &Put, plan: &Plan, filled: &Filled, options: &Options) -> Option<Arc<Finished>> {
    let folder = options.journals.as_deref().filter(|_| plan.jobs.len() > 1)?;
    let absolute = |source: &String| match source.as_str() {
        "-" => "-".into(),
        path => std::fs::canonicalize(path).unwrap_or_else(|_| path.into()),
    };
    let sources: Vec<PathBuf> = put.sources.iter().map(absolute).collect();
    let target = format!("{} {}", filled.name(""), plan.target());
    match Finished::open(folder, (&sources, &target), &plan.jobs, options.fresh) {
        Ok(finished) => Some(Arc::new(finished)),
        // What is sent twice is right.
        Err(error) => {
            tracing::info!("{error}; files that an earlier run has stored are sent again");
            None
        }
    }
}

/// Asks the target for what it has of these.
fn look_at_target(
    finished: &Finished,
    filled: &Filled,
    options: &Options,
    http: &Http,
    stop: &Arc<AtomicBool>,
) {
    let Filled::Store(store, _) = filled else { return };
    let clock = StageClock::new(Instant::now());
    let setup = CallerSetup {
        timeout: options.timeout,
        connect_timeout: options.connect_timeout,
        max_wait: options.max_wait,
        retries: options.retries,
        ..asked_store::caller(http, &clock, stop)
    };
    if let Err(error) = finished.look(store.lists(), &mut Caller::new(setup)) {
        tracing::info!("{error}; each file that an earlier run has stored is asked for by itself");
    }
}

/// What was not sent again.
fn of_earlier(finished: &Finished) -> Option<String> {
    let count = finished.recognised();
    let (s, are) = if count == 1 { ("", "is") } else { ("s", "are") };
    (count > 0).then(|| {
        format!(
            "{count} file{s} that an earlier run stored {are} at the target, and {are} not sent again; --force sends \
             all"
        )
    })
}

/// A validator as fields have it, with its quotes.
fn quoted(tag: &str) -> String {
    match tag.starts_with('"') || tag.starts_with("W/") || tag == "*" {
        true => tag.to_owned(),
        false => format!("\"{tag}\""),
    }
}

/// `-n`: what would be sent, a line a file.
fn dry_run(put: &Put, plan: &Plan, filled: &Filled) -> anyhow::Result<u8> {
    let mut stdout = std::io::stdout().lock();
    for job in plan.jobs.iter().filter(|_| !put.voice.quiet && !put.voice.json) {
        let (source, target) = (jobs::shown(&job.source), filled.shown(&job.key));
        writeln!(stdout, "{} -> {}", escape(&source), escape(&target)).printed("what would be sent")?;
    }
    let bytes: u64 = plan.jobs.iter().filter_map(|job| job.size).sum();
    let code = u8::from(!plan.failed.is_empty());
    if put.voice.json {
        let mut record = Record::new("put", outcome(code, false), 0, 0.0);
        record.files = plan.jobs.iter().map(|job| file(job, filled)).collect();
        record.extra.insert("put".to_owned(), json!({ "dry_run": true, "would_send": bytes }));
        records::render(&record, &mut stdout).printed("the record")?;
    }
    plan.failed.iter().for_each(|(name, error)| voice::warn(&format!("{}: {}", escape(name), escape(error))));
    if !put.voice.quiet {
        let files = counted(plan.jobs.len() as u64, "file");
        let target = plan.target();
        let to = escape(&target);
        eprintln!("nothing was sent (-n): {files}, {} to {to}", Bytes(bytes));
    }
    Ok(code)
}

/// `--abort`.
fn abort(
    put: &Put,
    target: Target<'_>,
    plan: &Plan,
    options: &Options,
    http: &Http,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<u8> {
    let mut removed = 0;
    for job in &plan.jobs {
        removed += engine::abort(target, job, options, http, stop)?;
    }
    if !put.voice.quiet {
        eprintln!("removed {}; nothing was sent", counted(removed as u64, "unfinished upload"));
    }
    Ok(0)
}

fn outcome(code: u8, has_kept: bool) -> RunOutcome {
    match code {
        0 => RunOutcome::Complete,
        _ if has_kept => RunOutcome::Partial,
        _ => RunOutcome::Failed,
    }
}

fn file(job: &Job, filled: &Filled) -> FileRecord {
    FileRecord { url: jobs::shown(&job.source), path: filled.shown(&job.key), ..FileRecord::default() }
}

/// The record of the run, as `--json` prints it.
fn record(plan: &Plan, filled: &Filled, report: &RunReport, code: u8) -> Record {
    let has_kept = report.jobs.iter().any(|job| matches!(job.outcome, PutOutcome::Kept(_)));
    let outcome = outcome(code, has_kept);
    let mut record = Record::new("put", outcome, report.sent, report.elapsed.as_secs_f64());
    if outcome != RunOutcome::Failed || report.sent > 0 {
        record = record.with_verdict(&report.evidence, &verdict::explain(&report.evidence));
    }
    let files = plan.jobs.iter().zip(&report.jobs);
    record.files = files.map(|(job, report)| file_record(file(job, filled), report)).collect();
    record.files.extend(plan.failed.iter().map(|(name, error)| FileRecord {
        url: name.clone(),
        error: Some(error.clone()),
        ..FileRecord::default()
    }));
    if let Some(first) = record.files.first_mut() {
        first.notes.extend(plan.notes.iter().cloned());
    }
    let resumed: u64 = report.jobs.iter().map(|job| job.resumed).sum();
    record.resumed = (resumed > 0).then_some(resumed);
    record.peak_memory = weir_observe::memory::peak_rss().ok();
    record
}

fn file_record(file: FileRecord, report: &JobReport) -> FileRecord {
    let error = match &report.outcome {
        PutOutcome::Stored(_) | PutOutcome::Sent(_) => None,
        PutOutcome::Failed(error) => Some(error.to_string()),
        // It was begun, and nothing of it is there.
        PutOutcome::Kept(error) if report.bytes == 0 && report.connections > 0 => {
            Some(format!("{error}; run the same command again"))
        }
        PutOutcome::Kept(error) if report.bytes == 0 => Some(format!(
            "{error}; what was sent before is at the store: run the same command again to resume"
        )),
        PutOutcome::Kept(error) => Some(format!(
            "{error}; {} are at the store: run the same command again to resume, or with --abort to remove them",
            Bytes(report.bytes)
        )),
    };
    FileRecord {
        bytes: report.bytes,
        resumed_from: report.resumed,
        connections: report.connections,
        digest: report.sum.as_ref().map(|sum| DigestRecord {
            alg: sum.algorithm.name().to_owned(),
            hex: weir_codec::hex::encode(&sum.value),
        }),
        notes: report.notes.clone(),
        error,
        ..file
    }
}

/// 130 interrupted, 1 something failed, 4 something can be resumed or may be sent later, 0 all is stored.
fn exit_code(report: &RunReport, unread: usize) -> u8 {
    let is_for_later =
        |job: &JobReport| matches!(&job.outcome, PutOutcome::Failed(error) if error.is_for_later());
    let is_failed = |job: &JobReport| matches!(job.outcome, PutOutcome::Failed(_)) && !is_for_later(job);
    let is_kept = |job: &JobReport| matches!(job.outcome, PutOutcome::Kept(_)) || is_for_later(job);
    let has_ended = report.jobs.iter().all(|job| matches!(job.outcome, PutOutcome::Stored(_)));
    match () {
        () if report.interrupted && !has_ended => INTERRUPTED,
        () if unread > 0 || report.jobs.iter().any(is_failed) => 1,
        () if report.jobs.iter().any(is_kept) => 4,
        () => 0,
    }
}
