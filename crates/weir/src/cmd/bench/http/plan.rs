//! From the command line, weir's or ab's, to a run's settings.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rustls::pki_types::ServerName;
use weir_load::request::Request;
use weir_load::settings::{Ask, Http2Settings, ScriptSettings, Settings};
use weir_load::target::{Address, Target};
use weir_load::wire::Tls;
use weir_transfer::http::trust::{Clients, Trust};
use weir_units::Bytes;

use crate::args::{AbFlags, BenchHttp, LoadFormat, parse_field};
use crate::voice::Usage;

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
    pub ab: Option<AbFlags>,
}

/// Puts it together.
pub fn make(bench: &BenchHttp) -> anyhow::Result<Plan> {
    match &bench.ab {
        Some(words) => of_ab(AbFlags::parse(words).map_err(Usage)?),
        None => of_weir(bench),
    }
}

fn of_weir(bench: &BenchHttp) -> anyhow::Result<Plan> {
    let target = parse(bench.url.as_deref().unwrap_or_default())?;
    let body = bench.body.as_deref().map(body).transpose()?;
    let method = match (&bench.method, &body) {
        (Some(method), _) => method.clone(),
        (None, Some(_)) => "POST".to_owned(),
        (None, None) => "GET".to_owned(),
    };
    let fields =
        bench.headers.iter().map(|field| parse_field(field)).collect::<Result<_, _>>().map_err(Usage)?;
    let request = Request { method, fields, body, close: bench.no_keep_alive };
    let bodyless = request.method == "HEAD";
    let ask = match &bench.script {
        Some(path) => Ask::Script(ScriptSettings { path: path.clone(), args: bench.args.clone(), request }),
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
        None => Ask::Same(request.bytes(&target)),
    };
    let cpus = weir_observe::cpu::available_cpus();
    let threads = bench.threads.unwrap_or(cpus.min(bench.connections));
    if threads > bench.connections {
        return Err(Usage(format!(
            "-t {threads} is above -c {}: a loop needs a connection",
            bench.connections
        ))
        .into());
    }
    if bench.timeout.is_zero() {
        return Err(
            Usage("--timeout 0 would let every request fail: expected a time such as 2s".to_owned()).into()
        );
    }
    let authorities = bench.cacert.clone().or_else(|| std::env::var_os("SSL_CERT_FILE").map(Into::into));
    let format = if bench.voice.json { LoadFormat::Json } else { bench.format };
    let settings = Settings {
        tls: tls(&target, &Trust { authorities, insecure: bench.insecure, ..Trust::default() }, bench.http2)?,
        target,
        address: bench.unix_socket.clone().map(Address::Unix),
        connections: bench.connections,
        threads,
        span: bench.duration.or_else(|| bench.requests.is_none().then_some(Duration::from_secs(10))),
        requests: bench.requests,
        warm_up: bench.warm_up,
        timeout: bench.timeout,
        rate: bench.rate,
        keep_alive: !bench.no_keep_alive,
        ask,
        bodyless,
        rows: if format == LoadFormat::Ab { rows(bench.requests) } else { 0 },
    };
    Ok(Plan { settings, format, percentiles: bench.latency, quiet: bench.voice.quiet, ab: None })
}

fn of_ab(flags: AbFlags) -> anyhow::Result<Plan> {
    // ab knows a host without a scheme.
    let url = if flags.url.contains("://") { flags.url.clone() } else { format!("http://{}", flags.url) };
    let target = parse(&url)?;
    let body = flags.body.as_deref().map(read).transpose()?;
    let request = flags.request(&target.path, &target.authority(), body.as_deref());
    let settings = Settings {
        // ab looks at no certificate.
        tls: tls(&target, &Trust { insecure: true, ..Trust::default() }, false)?,
        target,
        address: None,
        connections: flags.concurrency,
        threads: 1,
        span: flags.limit,
        requests: Some(flags.requests),
        warm_up: Duration::ZERO,
        timeout: flags.timeout,
        rate: None,
        keep_alive: flags.keep_alive,
        ask: Ask::Same(request),
        bodyless: flags.method.as_deref() == Some("HEAD"),
        rows: rows(Some(flags.requests)),
    };
    let quiet = false;
    Ok(Plan { settings, format: LoadFormat::Ab, percentiles: false, quiet, ab: Some(flags) })
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
