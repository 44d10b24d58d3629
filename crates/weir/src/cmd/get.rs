//! `weir get`: from arguments to files, a verdict and an exit code.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use weir_get::engine::{self, Task};
use weir_get::http::authority::Authorizer;
use weir_get::http::exchange::{Downgrade, Http, Manner, Version, Who};
use weir_get::http::proxy::{Proxies, Said};
use weir_get::http::reach::Reach;
use weir_get::http::speed::SpeedLimit;
use weir_get::http::trust::Trust;
use weir_get::job::{Options, RunReport};
use weir_get::list::order::Order;
use weir_get::sink::Existing;
use weir_get::sink::folder::Folder;
use weir_http::netrc::Login;
use weir_model::path::MOST_BUFFER;
use weir_model::verdict;
use weir_report::schema::{Record, RunOutcome as RecordOutcome};
use weir_store::address::StoreUrl;
use weir_store::buckets::Buckets;
use weir_store::network::{Network, Stop};

use crate::args::{Get, Jobs};
use crate::calibration;
use crate::cmd::asked_store;
use crate::cmd::get_beside;
use crate::cmd::get_each::EachFile;
use crate::cmd::get_hubs::{self, Asking, Endings, Hubs};
use crate::cmd::get_list::{self, Asked};
use crate::cmd::get_prefix::{self, Prefix};
use crate::cmd::get_results::{Gains, Gathered};
use crate::cmd::get_sums::Sums;
use crate::cmd::get_who;
use crate::cmd::stores;
use crate::evidence;
use crate::front::{self, Front, Program};
use crate::page;
use crate::tui;
use crate::voice::{self, Usage};

/// Fetches what `get` names, for the program. Returns the exit code.
pub fn run(get: &Get) -> anyhow::Result<u8> {
    voice::start_log_beside(get.tui, get.voice.quiet, get.voice.verbose);
    let view = tui::is_possible(get.tui && !get.output.iter().any(|output| output == "-"));
    fetch(get, &mut Program::new(&get.voice, view, KEYS))
}

/// Fetches what `get` names, for whoever stands at the front. Returns the exit code.
pub fn fetch(get: &Get, front: &mut dyn Front) -> anyhow::Result<u8> {
    let mut reserved = get_beside::reserved(get)?;
    evidence::check(get.evidence.as_deref())?;
    if let Some(temp) = &get.temp_dir {
        let cannot = || format!("cannot use --temp-dir {}", temp.display());
        Folder::open(temp).with_context(cannot)?;
    }
    if get.habits.create_dirs {
        make_folders(&get.output)?;
    }
    if get.compressed && get.resumes() {
        tracing::warn!(
            "--compressed decodes a file from its start: one that another program left unfinished is not gone on with"
        );
    }
    let options = options(get);
    if let Some(url) = get_prefix::meant(get)?
        && let Some(code) = run_prefix(get, &url, &reserved, front)?
    {
        return Ok(code);
    }
    // Before anybody listens to signals: a list may be a pipe that nobody writes to.
    let network = network(get, front)?;
    let interrupted = network.stop.clone();
    let buckets = stores::buckets(&get.store, network)?;
    let asked = Asked::read(get, Arc::clone(&buckets), &reserved)?;
    let user = get_who::user(&get.login, get.user.as_deref(), asked.first());
    let (http, plain, fields) = http(get, user.clone())?;
    let http = http.in_zones(asked.zones());
    let stop = front.stop()?;
    interrupted.set(&stop);
    let asking = Asking { way: get_hubs::way(plain, &options, &stop), user, fields };
    let hubs = Hubs::open(get, &asked, asking)?;
    let mut authorizers = hubs.authorizers();
    authorizers.push(Arc::clone(&buckets) as Arc<dyn Authorizer>);
    let http = http.authorized_by(authorizers);
    let (asked, groups) = asked.look_up(get, &hubs, &http)?;
    let places = asked.places(get)?;
    let sums = Sums::read(get, asked.count(), asked.first(), &http, &options, &stop)?;
    let title = title(&asked, &buckets);
    let count = asked.files();
    let endings = Arc::new(Endings::new(groups, asked.found()));
    let gone = asked.unknown();
    let (mut source, journal) = asked.source(get, places, sums, Arc::clone(&endings))?;
    reserved.extend(journal.as_ref().and_then(|journal| get_list::reserved(get, journal)));
    let each = get.json_files.as_deref().map(|path| EachFile::open(path, &stop)).transpose()?;
    let gathered = Gathered::new(each, journal, buckets, Arc::clone(&endings)).in_turns(source.turns());
    gone.into_iter().for_each(|bad| gathered.unknown(bad));
    let task = Task { source: &mut source, results: &gathered, reserved };
    let mut report = engine::run(task, &options, &http, &stop, front.begin(&title, count));
    front.end();
    let saved = get_who::save_cookies(&get.login, &http);
    calibration::set_disk_alone(&mut report.evidence.facts);
    let finished = endings.finish(&stop);
    let gains = gathered.end(&report, finished.as_deref().unwrap_or_default())?;
    let code = tell(get, !get.list.is_empty(), &report, gains, front)?;
    saved?;
    finished?;
    Ok(code)
}

/// The folders on the way to what `-o` names (curl's `--create-dirs`).
fn make_folders(outputs: &[String]) -> anyhow::Result<()> {
    let folders =
        outputs.iter().filter(|output| *output != "-").filter_map(|output| Path::new(output).parent());
    for folder in folders.filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    Ok(())
}

/// Tells of the run, and keeps what was asked for. Returns the exit code.
fn tell(
    get: &Get,
    is_list: bool,
    report: &RunReport,
    gains: Gains,
    front: &mut dyn Front,
) -> anyhow::Result<u8> {
    let code = gains.code;
    let record = record(is_list, report, gains);
    // Whoever closed stdout has what it wanted, as behind `| head`.
    match code {
        voice::CLOSED => page::keep(&get.voice, &record)?,
        _ => front::tell(front, &get.voice, &record)?,
    }
    evidence::keep(get.evidence.as_deref(), &report.evidence)?;
    Ok(code)
}

/// Fetches all that `url` names. `None`: it names one object, letter by letter.
fn run_prefix(
    get: &Get,
    url: &StoreUrl,
    reserved: &[(PathBuf, &'static str)],
    front: &mut dyn Front,
) -> anyhow::Result<Option<u8>> {
    let network = network(get, front)?;
    let interrupted = network.stop.clone();
    let buckets = stores::buckets(&get.store, network)?;
    let (http, ..) = http(get, None)?;
    let http = http.authorized_by(vec![Arc::clone(&buckets) as Arc<dyn Authorizer>]);
    let prefix = Prefix::new(get, &buckets, url);
    if prefix.is_an_object(&http, interrupted.flag())? {
        return Ok(None);
    }
    prefix.check_output(get)?;
    let stop = front.stop()?;
    interrupted.set(&stop);
    // What is here with the size and the time of its object is known again by them.
    let options = Options { remote_time: true, any_type: true, ..options(get) };
    let each = get.json_files.as_deref().map(|path| EachFile::open(path, &stop)).transpose()?;
    let title = format!("get {url}");
    let gathered = Gathered::new(each, None, Arc::clone(&buckets), Arc::new(Endings::new(Vec::new(), &[])));
    let (mut report, found) = prefix.each((&http, &gathered), &stop, |jobs| {
        let task = Task { source: jobs, results: &gathered, reserved: reserved.to_vec() };
        engine::run(task, &options, &http, &stop, front.begin(&title, 2))
    })?;
    front.end();
    if !found && report.broken.is_none() && !report.interrupted {
        anyhow::bail!("cannot fetch {url}: the bucket holds nothing of that name");
    }
    calibration::set_disk_alone(&mut report.evidence.facts);
    let gains = gathered.end(&report, &[])?;
    tell(get, true, &report, gains, front).map(Some)
}

/// What keys do in the live view.
const KEYS: &str = "q ends it, what came is kept";

/// What the live view calls it.
fn title(asked: &Asked<Order>, buckets: &Buckets) -> String {
    match (asked.first(), asked.files()) {
        (Some(only), 1) => format!("get {}", stores::shown(only, buckets)),
        (_, many) => format!("get {many} files"),
    }
}

fn trust(get: &Get) -> Trust {
    Trust { insecure: get.insecure, ..asked_store::trust(get.cacert.as_deref()) }
}

fn proxies(get: &Get, reach: &Reach) -> anyhow::Result<Proxies> {
    let said = Said { proxy: get.proxy.as_deref(), exempt: get.login.noproxy.as_deref() };
    // A socket of this machine is the whole way.
    Ok(match reach.unix {
        Some(_) => Proxies::default(),
        None => Proxies::new(said, asked_store::own_variable)?,
    })
}

/// The way to whoever gives credentials: the user's, but for what is of the servers of files alone (a client
/// certificate, fields, a login, a socket).
pub(super) fn network(get: &Get, front: &dyn Front) -> anyhow::Result<Network> {
    let stop = Stop::default();
    front.early().iter().for_each(|early| stop.set(early));
    let reach = Reach { unix: None, ..get.reach.reach() };
    Ok(Network {
        trust: trust(get),
        proxies: Some(proxies(get, &reach)?),
        reach,
        timeout: get.timeout,
        connect_timeout: get.connect_timeout.unwrap_or(get.timeout),
        stop,
    })
}

/// Fields of requests.
pub(super) type Fields = Vec<(String, String)>;

/// The network as the user, the same as nobody, and the user's own fields.
pub(super) fn http(get: &Get, user: Option<Login>) -> anyhow::Result<(Http, Http, Fields)> {
    let fields = get.fields().map_err(Usage)?;
    if let Some(window) = get.range.as_ref().filter(|_| fields.removed.iter().any(|name| name == "range")) {
        let why = format!("-r {window} asks for a range, and -H 'Range:' for none; leave one of them out");
        return Err(Usage(why).into());
    }
    let reach = get.reach.reach();
    reach.check().map_err(Usage)?;
    let identity = get_who::identity(&get.login.certificate)?.map(Into::into);
    let trust = Trust { identity, ..trust(get) };
    let proxies = proxies(get, &reach)?;
    let version = match (get.http1, get.http2) {
        (true, _) => Version::Http1,
        (_, true) => Version::Http2,
        _ => Version::Auto,
    };
    let manner = Manner {
        reach,
        removed: fields.removed,
        max_redirects: get.max_redirs,
        downgrade: downgrade(get),
        window: get.range.clone(),
        any_answer: get.any_type,
    };
    let who = get_who::who(&get.login, user)?;
    let whole = Manner { window: None, ..manner.clone() };
    let plain =
        Http::new(trust.clone(), proxies.clone(), version, Vec::new(), Who::default()).in_manner(whole);
    let http = Http::new(trust, proxies, version, fields.sent.clone(), who).in_manner(manner);
    Ok((http.compressed(get.compressed), plain, fields.sent))
}

/// What becomes of a redirect from https to http.
fn downgrade(get: &Get) -> Downgrade {
    match (get.habits.allows_http(), get.allow_http_redirect) {
        (false, _) => Downgrade::Refused,
        (true, true) => Downgrade::Followed,
        (true, false) => Downgrade::IfProven,
    }
}

fn options(get: &Get) -> Options {
    Options {
        lanes: get.lanes,
        files_at_once: match get.jobs {
            Some(Jobs::Fixed(count)) => Some(count),
            _ => None,
        },
        rate_cap: get.limit_rate.0,
        limiter: None,
        timeout: get.timeout,
        connect_timeout: get.connect_timeout.unwrap_or(get.timeout),
        speed: speed(get),
        max_wait: get.max_wait,
        retries: get.retries,
        receive_buffer: get.recv_buffer.map(|bytes| bytes.0.min(MOST_BUFFER) as usize),
        any_type: get.any_type,
        ignore_digest: get.ignore_digest,
        accept_unclean: get.accept_unclean_close,
        fresh: get.force,
        newer: get.timestamping,
        remote_time: get.remote_time,
        go_on: get.resumes(),
        sync: get.sync,
        existing: if get.no_clobber { Existing::Stays } else { Existing::Replaced },
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
fn record(is_list: bool, report: &RunReport, gains: Gains) -> Record {
    let Gains { files, is_short, counts, resumed, code } = gains;
    let outcome = match code {
        0 => RecordOutcome::Complete,
        _ if counts.partial > 0 || counts.not_begun > 0 && counts.complete > 0 => RecordOutcome::Partial,
        _ => RecordOutcome::Failed,
    };
    let mut record = Record::new("get", outcome, report.received, report.elapsed.as_secs_f64());
    // What held back a run that brought nothing is its error, not a stage.
    if outcome != RecordOutcome::Failed || report.received > 0 {
        record = record.with_verdict(&report.evidence, &verdict::explain(&report.evidence));
    }
    record.files = files;
    record.counts = (is_list || is_short).then_some(counts);
    record.error = report.broken.as_ref().map(ToString::to_string);
    record.resumed = (resumed > 0).then_some(resumed);
    record.peak_memory = weir_observe::memory::peak_rss().ok();
    record
}
