//! From the command line, weir's or ab's, to a run's settings.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use rustls::pki_types::ServerName;
use weir_bench_http::request::Request;
use weir_bench_http::schedule::Arrivals;
use weir_bench_http::settings::{Ask, Http2Settings, ScriptSettings, Settings};
use weir_bench_http::target::Target;
use weir_bench_http::wire::Tls;
use weir_get::http::reach::Interface;
use weir_get::http::trust::{Clients, Trust};
use weir_units::Bytes;

use super::way::{self, Whole};
use crate::args::{AbFlags, BenchHttp, Certificate, Dist, LoadFormat, ReachFlags, parse_field};
use crate::cmd::{asked_store, get_who};
use crate::voice::{self, Usage};

/// Rows that a loop keeps for `--format ab` where no number of requests bounds them: 64 MiB of them.
const ROWS: usize = 1 << 20;

/// A body is kept in memory, once for all requests; more than this is another file.
const LARGEST_BODY: Bytes = Bytes(1_000_000_000);

/// The most requests under way over HTTP/2: each has a task and buffers of a few KiB.
const STREAMS: u64 = 1 << 20;

/// A run, and how it is told.
pub struct Plan {
    pub settings: Settings,
    pub format: LoadFormat,
    /// `--latency`.
    pub percentiles: bool,
    pub quiet: bool,
    /// `--max-errors`.
    pub max_errors: Option<f64>,
    pub ab: Option<AbFlags>,
    /// The bytes that are asked, where they are always the same.
    pub asked: Vec<u8>,
}

/// Puts a run against `url` together; against ab's own, where its flags are given.
pub fn make(bench: &BenchHttp, url: &str, stop: &Arc<AtomicBool>) -> anyhow::Result<Plan> {
    match &bench.ab {
        Some(words) => of_ab(AbFlags::parse(words).map_err(Usage)?, &bench.reach, stop),
        None => of_weir(bench, url, stop),
    }
}

fn of_weir(bench: &BenchHttp, url: &str, stop: &Arc<AtomicBool>) -> anyhow::Result<Plan> {
    let target = parse(url)?;
    let threads = threads(bench)?;
    if bench.timeout.is_zero() {
        return Err(
            Usage("--timeout 0 would let every request fail: expected a time such as 2s".to_owned()).into()
        );
    }
    let identity = get_who::identity(&bench.certificate)?.map(Into::into);
    let trust = Trust { insecure: bench.insecure, identity, ..asked_store::trust(bench.cacert.as_deref()) };
    let reached = way::reach(&target, &bench.reach, bench.proxy.as_deref(), &trust, bench.timeout, stop)?;
    let ask = ask(bench, &target, reached.whole.as_ref())?;
    let asked = match &ask {
        Ask::Same(bytes) => bytes.clone(),
        Ask::Script(_) | Ask::Http2(_) => Vec::new(),
    };
    let format = if bench.voice.json { LoadFormat::Json } else { bench.format };
    // What comes before the measured time; a run that is counted in requests is measured from its first on.
    let warm_up = if bench.requests.is_some() { bench.warm_up } else { bench.warm_up.max(bench.ramp) };
    let settings = Settings {
        tls: tls(&target, &trust, bench.http2)?,
        target,
        addresses: reached.addresses,
        way: reached.way,
        connections: bench.connections,
        threads,
        span: bench.duration.or_else(|| bench.requests.is_none().then_some(Duration::from_secs(10))),
        requests: bench.requests,
        warm_up,
        timeout: bench.timeout,
        rate: bench.rate,
        arrivals: match bench.dist {
            Dist::Fixed => Arrivals::Even,
            Dist::Exp => Arrivals::Independent,
        },
        keep_alive: !bench.no_keep_alive,
        ask,
        rows: if format == LoadFormat::Ab { rows(bench.requests) } else { 0 },
        ramp: bench.ramp,
        shows_answers: false,
        window: None,
    };
    let (percentiles, quiet, max_errors) = (bench.latency, bench.voice.quiet, bench.max_errors);
    Ok(Plan { settings, format, percentiles, quiet, max_errors, ab: None, asked })
}

/// Loops: as many as processors, and no more than connections.
fn threads(bench: &BenchHttp) -> anyhow::Result<u32> {
    let cpus = weir_observe::cpu::available_cpus();
    let threads = bench.threads.unwrap_or(cpus.min(bench.connections));
    if threads > bench.connections {
        return Err(Usage(format!(
            "-t {threads} is above -c {}: a loop needs a connection",
            bench.connections
        ))
        .into());
    }
    Ok(threads)
}

/// What is asked.
fn ask(bench: &BenchHttp, target: &Target, whole: Option<&Whole>) -> anyhow::Result<Ask> {
    let body = bench.body.as_deref().map(body).transpose()?;
    let method = match (&bench.method, &body) {
        (Some(method), _) => method.clone(),
        (None, Some(_)) => "POST".to_owned(),
        (None, None) => "GET".to_owned(),
    };
    let fields =
        bench.headers.iter().map(|field| parse_field(field)).collect::<Result<_, _>>().map_err(Usage)?;
    let mut request = Request { method, fields, body, close: bench.no_keep_alive };
    Ok(match &bench.script {
        _ if whole.is_some() && (bench.script.is_some() || bench.http2) => {
            return Err(Usage(
                "an HTTP proxy wants requests for http:// with whole URLs, which neither a script nor HTTP/2 \
                 writes: ask by https://, or through a socks5h:// proxy"
                    .to_owned(),
            )
            .into());
        }
        Some(path) => Ask::Script(ScriptSettings { path: path.clone(), args: bench.script_args(), request }),
        None if !bench.args.is_empty() => {
            return Err(Usage("words after -- are a script's: give it by -s".to_owned()).into());
        }
        None if bench.http2 => {
            if u64::from(bench.connections) * u64::from(bench.streams) > STREAMS {
                return Err(Usage(format!(
                    "-c {} times --streams {} is above {STREAMS}: use fewer of either",
                    bench.connections, bench.streams
                ))
                .into());
            }
            Ask::Http2(Http2Settings { request, streams: bench.streams })
        }
        None => {
            let authorization = whole.and_then(|whole| whole.authorization.clone());
            request.fields.extend(authorization.map(|value| ("Proxy-Authorization".to_owned(), value)));
            match whole {
                Some(_) => Ask::Same(request.bytes(&as_a_proxy_takes_it(target))),
                None => Ask::Same(request.bytes(target)),
            }
        }
    })
}

/// The target with its whole URL in the place of its path.
fn as_a_proxy_takes_it(target: &Target) -> Target {
    Target { path: format!("http://{}{}", target.authority(), target.path), ..target.clone() }
}

fn of_ab(flags: AbFlags, reach: &ReachFlags, stop: &Arc<AtomicBool>) -> anyhow::Result<Plan> {
    // ab knows a host without a scheme.
    let url = if flags.url.contains("://") { flags.url.clone() } else { format!("http://{}", flags.url) };
    let target = parse(&url)?;
    let body = flags.body.as_deref().map(read).transpose()?;
    let certificate = Certificate { cert: flags.certificate.clone(), key: None, pass_file: None };
    // ab looks at no certificate.
    let identity = get_who::identity(&certificate)?.map(Into::into);
    let trust = Trust { insecure: true, identity, offer: flags.offer.clone(), ..Trust::default() };
    let interface = flags.local.map(|address| Interface { name: None, address: Some(address) });
    let interface = interface.or_else(|| reach.interface.clone());
    let reach = ReachFlags { interface, ..reach.clone() };
    let reached = way::reach(&target, &reach, flags.proxy.as_deref(), &trust, flags.timeout, stop)?;
    if flags.html {
        voice::warn(
            "ab's -w, -x, -y and -z make a table of HTML: here the report is text; weir bench http --report FILE --ab ... writes a page",
        );
    }
    let asked = match reached.whole {
        Some(_) => as_a_proxy_takes_it(&target),
        None => target.clone(),
    };
    let asked = flags.request(&asked.path, &target.authority(), body.as_deref());
    let settings = Settings {
        tls: tls(&target, &trust, false)?,
        target,
        addresses: reached.addresses,
        way: reached.way,
        connections: flags.concurrency,
        threads: 1,
        span: flags.limit,
        requests: Some(flags.requests),
        warm_up: Duration::ZERO,
        timeout: flags.timeout,
        rate: None,
        arrivals: Arrivals::Even,
        keep_alive: flags.keep_alive,
        ask: Ask::Same(asked.clone()),
        rows: rows(Some(flags.requests)),
        ramp: Duration::ZERO,
        shows_answers: flags.verbosity >= 2,
        window: flags.window,
    };
    Ok(Plan {
        settings,
        format: LoadFormat::Ab,
        percentiles: false,
        quiet: false,
        max_errors: None,
        ab: Some(flags),
        asked,
    })
}

fn rows(requests: Option<u64>) -> usize {
    // As many as were asked for, as ab keeps them.
    requests.map_or(ROWS, |requests| usize::try_from(requests).unwrap_or(usize::MAX))
}

fn parse(url: &str) -> anyhow::Result<Target> {
    Ok(Target::parse(url).map_err(|error| Usage(error.to_string()))?)
}

fn body(text: &str) -> anyhow::Result<Vec<u8>> {
    match text.strip_prefix('@') {
        Some(path) => read(Path::new(path)),
        None => Ok(text.as_bytes().to_vec()),
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    weir_units::read_file(path, LARGEST_BODY)
        .with_context(|| format!("cannot read the body {}", path.display()))
}

fn tls(target: &Target, trust: &Trust, http2: bool) -> anyhow::Result<Option<Tls>> {
    if !target.tls {
        return Ok(None);
    }
    let name = ServerName::try_from(target.host.clone())
        .map_err(|_| Usage(format!("'{}' is not a name that a certificate can have", target.host)))?;
    let clients = Clients::new(trust)?;
    Ok(Some(Tls { config: if http2 { clients.http2 } else { clients.http1 }, name }))
}
