//! `weir get`: from arguments to files, a verdict and an exit code.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use weir_get::engine;
use weir_get::error::GetError;
use weir_get::http::exchange::{Http, Manner, Version, Who};
use weir_get::http::proxy::{Proxies, Said};
use weir_get::http::speed::SpeedLimit;
use weir_get::http::trust::Trust;
use weir_get::job::{FileReport, Job, JobOutcome, Options, Output, RunReport};
use weir_get::object;
use weir_get::sink::folder::Folder;
use weir_http::netrc::Login;
use weir_model::evidence::Evidence;
use weir_model::verdict;
use weir_report::schema::{DigestRecord, FileRecord, Record, RunOutcome as RecordOutcome};
use weir_report::{json, terminal};

use crate::args::{Get, GivenFields, Jobs};
use crate::calibration;
use crate::cmd::get_hubs::{self, Asking, Fetching, Hubs, Resolved};
use crate::cmd::get_jobs::{self, Bad};
use crate::cmd::get_who;
use crate::evidence;
use crate::interrupt::INTERRUPTED;
use crate::live::Live;
use crate::page;
use crate::tui::{self, Screen};
use crate::voice::{self, Usage};

/// Fetches what `get` names. Returns the exit code.
pub fn run(get: &Get) -> anyhow::Result<u8> {
    voice::start_log_beside(get.tui, get.voice.quiet, get.voice.verbose);
    let view = tui::is_possible(get.tui && !get.output.iter().any(|output| output == "-"));
    evidence::check(get.evidence.as_deref())?;
    if let Some(temp) = &get.temp_dir {
        let cannot = || format!("cannot use --temp-dir {}", temp.display());
        Folder::open(temp).with_context(cannot)?;
    }
    let options = options(get);
    // Before anybody listens to signals: a list may be a pipe that nobody writes to.
    let (wanted, mut bad) = get_jobs::wanted(get)?;
    get.habits.check_schemes(wanted.iter().map(get_jobs::Wanted::url)).map_err(Usage)?;
    let user = get_who::user(get, wanted.first().map(get_jobs::Wanted::url));
    let (http, plain, fields) = http(get, user.clone())?;
    let http = http.in_zones(get_jobs::zones(get, &wanted)?);
    let stop = tui::stop_beside(view)?;
    let asking = Asking { way: get_hubs::way(plain, &options, &stop), user, fields };
    let hubs = Hubs::open(get, &wanted, asking)?;
    let http = http.authorized_by(hubs.authorizers());
    let Resolved { wanted, bad: unknown, groups } = hubs.resolve(get, wanted, &http)?;
    bad.extend(unknown);
    let jobs = get_jobs::resolve(get, &wanted, &http, &options, &stop)?;
    let fetching = get_hubs::leave_here(get, jobs, &wanted, groups, &stop)?;
    let jobs = &fetching.jobs;
    let mut live = Live::new(!get.voice.quiet && std::io::stderr().is_terminal(), jobs.len());
    if view {
        live.on(Screen::open(&title(jobs), KEYS));
    }
    let mut report = match jobs.is_empty() {
        true => nothing(&stop),
        false => engine::run(jobs, &options, &http, &stop, &mut live),
    };
    live.clear();
    get_hubs::note_pointers(&mut report);
    let finished = fetching.finish(&report);
    let saved = get_who::save_cookies(get, &http);
    calibration::set_disk_alone(&mut report.evidence.facts);
    let code = exit_code(&report, bad.iter().map(|bad| bad.code).max().unwrap_or(0));
    let said = finished.as_ref().map(Vec::clone).unwrap_or_default();
    let record = record(&fetching, &report, bad, (code, said));
    say(get, &record)?;
    page::keep(&get.voice, &record)?;
    evidence::keep(get.evidence.as_deref(), &report.evidence)?;
    saved?;
    finished?;
    Ok(code)
}

/// Of a run that has nothing to fetch.
fn nothing(stop: &AtomicBool) -> RunReport {
    RunReport {
        files: Vec::new(),
        received: 0,
        elapsed: Duration::ZERO,
        evidence: Evidence::default(),
        interrupted: stop.load(Relaxed),
    }
}

/// What keys do in the live view.
const KEYS: &str = "q ends it, what came is kept";

/// What the live view calls it.
fn title(jobs: &[Job]) -> String {
    match jobs {
        [only] => format!("get {}", object::shown(&only.url)),
        many => format!("get {} files", many.len()),
    }
}

/// Fields of requests.
type Fields = Vec<(String, String)>;

/// The network as the user, the same as nobody, and the user's own fields.
fn http(get: &Get, user: Option<Login>) -> anyhow::Result<(Http, Http, Fields)> {
    let fields = GivenFields::read(&get.headers).map_err(Usage)?;
    if let Some(window) = get.range.as_ref().filter(|_| fields.removed.iter().any(|name| name == "range")) {
        let why = format!("-r {window} asks for a range, and -H 'Range:' for none; leave one of them out");
        return Err(Usage(why).into());
    }
    let reach = get.reach.reach();
    reach.check().map_err(Usage)?;
    let authorities = get.cacert.clone().or_else(|| std::env::var_os("SSL_CERT_FILE").map(Into::into));
    let identity = get_who::identity(&get.login.certificate)?.map(Into::into);
    let trust = Trust { authorities, insecure: get.insecure, identity, ..Trust::default() };
    let said = Said { proxy: get.proxy.as_deref(), exempt: get.login.noproxy.as_deref() };
    // A socket of this machine is the whole way.
    let proxies = match reach.unix {
        Some(_) => Proxies::default(),
        None => Proxies::new(said, |name| std::env::var(name).ok())?,
    };
    let version = match (get.http1, get.http2) {
        (true, _) => Version::Http1,
        (_, true) => Version::Http2,
        _ => Version::Auto,
    };
    let manner = Manner {
        reach,
        removed: fields.removed,
        max_redirects: get.max_redirs,
        window: get.range.clone(),
        any_answer: get.any_type,
    };
    let who = get_who::who(get, user)?;
    let whole = Manner { window: None, ..manner.clone() };
    let plain =
        Http::new(trust.clone(), proxies.clone(), version, Vec::new(), Who::default()).in_manner(whole);
    let http = Http::new(trust, proxies, version, fields.sent.clone(), who).in_manner(manner);
    Ok((http.compressed(get.compressed), plain, fields.sent))
}

fn options(get: &Get) -> Options {
    Options {
        lanes: get.lanes,
        files_at_once: match get.jobs {
            Some(Jobs::Fixed(count)) => Some(count),
            _ => None,
        },
        rate_cap: get.limit_rate,
        timeout: get.timeout,
        connect_timeout: get.connect_timeout.unwrap_or(get.timeout),
        speed: speed(get),
        max_wait: get.max_wait,
        retries: get.retries,
        receive_buffer: get.recv_buffer.map(|bytes| usize::try_from(bytes.0).unwrap_or(usize::MAX)),
        any_type: get.any_type,
        ignore_digest: get.ignore_digest,
        accept_unclean: get.accept_unclean_close,
        no_clobber: get.no_clobber,
        fresh: get.force,
        newer: get.timestamping,
        remote_time: get.remote_time,
        go_on: get.habits.resume || get.habits.continue_at.is_some(),
        sync: get.sync,
        temp_dir: get.temp_dir.clone(),
    }
}

/// As curl has it: of the two options each has its default beside the other.
fn speed(get: &Get) -> SpeedLimit {
    match (get.speed_limit, get.speed_time) {
        (None, None) => SpeedLimit::usual(get.timeout),
        (limit, time) => SpeedLimit {
            bytes: limit.unwrap_or(1),
            span: time.unwrap_or(Duration::from_secs(30)),
            chosen: true,
        },
    }
}

/// The record of the run, as `--json` prints it. Lines of a list that name nothing come behind the files.
fn record(fetching: &Fetching, report: &RunReport, bad: Vec<Bad>, (code, said): (u8, Vec<String>)) -> Record {
    let outcome = match code {
        0 => RecordOutcome::Complete,
        _ if report.files.iter().any(|file| matches!(file.outcome, JobOutcome::Partial(_))) => {
            RecordOutcome::Partial
        }
        _ => RecordOutcome::Failed,
    };
    let mut record = Record::new("get", outcome, report.received, report.elapsed.as_secs_f64());
    // What held back a run that brought nothing is its error, not a stage.
    if outcome != RecordOutcome::Failed || report.received > 0 {
        record = record.with_verdict(&report.evidence, &verdict::explain(&report.evidence));
    }
    let jobs = fetching.jobs.iter().zip(&report.files);
    record.files = jobs.map(|(job, file)| file_record(job, file)).collect();
    record.files.extend(fetching.here.iter().cloned());
    if let Some(first) = record.files.first_mut() {
        first.notes.splice(0..0, said);
    }
    let lines = bad.into_iter();
    record.files.extend(lines.map(|Bad { place, error, .. }| FileRecord {
        url: place,
        error: Some(error),
        ..FileRecord::default()
    }));
    let resumed: u64 = report.files.iter().map(|file| file.resumed_from).sum();
    record.resumed = (resumed > 0).then_some(resumed);
    record.peak_memory = weir_observe::memory::peak_rss().ok();
    record
}

fn file_record(job: &Job, file: &FileReport) -> FileRecord {
    let path = match (&file.path, &job.output) {
        (Some(path), _) => path.display().to_string(),
        (None, Output::Stdout) => "-".to_owned(),
        _ => String::new(),
    };
    FileRecord {
        url: file.url.clone(),
        path,
        bytes: file.bytes,
        resumed_from: file.resumed_from,
        connections: file.connections,
        digest: (file.digest.as_ref())
            .map(|digest| DigestRecord { alg: digest.algorithm().name().to_owned(), hex: digest.hex() }),
        skipped: matches!(file.outcome, JobOutcome::Skipped),
        unchanged: matches!(file.outcome, JobOutcome::Unchanged),
        notes: file.notes.clone(),
        error: match &file.outcome {
            JobOutcome::Complete | JobOutcome::Skipped | JobOutcome::Unchanged => None,
            JobOutcome::Failed(error) => Some(error.to_string()),
            // A disk's error says itself what is kept.
            JobOutcome::Partial(error @ GetError::Local { .. }) => Some(error.to_string()),
            JobOutcome::Partial(error @ GetError::Unclean { .. }) => Some(format!(
                "{error}; {} are kept; the same command starts again",
                weir_units::Bytes(file.bytes)
            )),
            JobOutcome::Partial(error) if file.bytes == 0 => Some(error.to_string()),
            JobOutcome::Partial(error) => {
                let kept = weir_units::Bytes(file.bytes);
                let way = match error {
                    // The same command would bring the same answer.
                    GetError::Status { status: 400 | 401 | 403 | 410, .. } if object::is_signed(&job.url) => {
                        "a renewed link with the same name (-o) resumes"
                    }
                    _ => "run the same command again to resume",
                };
                Some(format!("{error}; {kept} are kept, {way}"))
            }
        },
    }
}

/// The record on stdout and failures on stderr, or the summary, which has them too.
fn say(get: &Get, record: &Record) -> anyhow::Result<()> {
    let mut stderr = std::io::stderr().lock();
    if get.voice.quiet || get.voice.json {
        for file in &record.files {
            if let Some(error) = &file.error {
                let (url, error) =
                    (weir_report::escape::escape(&file.url), weir_report::escape::escape(error));
                voice::warn(&format!("{url}: {error}"));
            }
        }
    }
    if get.voice.json {
        // What was moved is told, or it is said that it could not be: whoever reads no more has a transfer to answer for.
        json::render(record, &mut std::io::stdout().lock()).context("cannot print the record")?;
    } else if !get.voice.quiet {
        let render = if get.voice.verbose > 0 { terminal::render_summary } else { terminal::render_brief };
        render(record, voice::sheet(&std::io::stderr()), &mut stderr)?;
    }
    Ok(())
}

/// 130 interrupted, 3 a digest did not match, 1 something failed or a line of the list was bad, 4 something can be
/// resumed, 0 all is here.
fn exit_code(report: &RunReport, of_lines: u8) -> u8 {
    let mut code = of_lines;
    for file in &report.files {
        let own = match &file.outcome {
            JobOutcome::Complete | JobOutcome::Skipped | JobOutcome::Unchanged => 0,
            _ if report.interrupted => INTERRUPTED,
            JobOutcome::Failed(error) if error.is_verification() => 3,
            JobOutcome::Failed(_) => 1,
            JobOutcome::Partial(_) => 4,
        };
        let rank = |code: u8| [0, 4, 1, 3, INTERRUPTED].iter().position(|known| *known == code);
        if rank(own) > rank(code) {
            code = own;
        }
    }
    code
}
