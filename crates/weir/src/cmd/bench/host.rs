//! `weir bench host`: the network figures of a host and the path to it, each with its origin or the reason
//! why not.

mod carrier;
mod figures;
mod http_load;
mod names;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Context;
use weir_bench::host::connect::{self, Tries};
use weir_bench::host::echo::{self, Echoes};
use weir_bench::host::target::{self, Resolved, Target};
use weir_bench::host::throughput::{self, Direction, Throughput, Transport};
use weir_bench::host::{concurrent, load, mtu, tls};
use weir_get::http::trust::{Clients, Trust};
use weir_report::host::{self as report, FigureRecord, HostRecord};
use weir_report::schema::Record;

use super::{Progress, outcome_of, tell};
use crate::args::{BenchHost, Part};
use crate::cmd::asked_store;
use crate::interrupt::INTERRUPTED;
use crate::voice;
use carrier::Carrier;
use http_load::HttpLoad;

/// The ports that are tried where none is given: what a host open to the world most likely serves.
const USUAL_PORTS: [u16; 3] = [443, 80, 22];

/// Of each run of throughput: slow start is over after a few round trips, and four runs are still only some
/// seconds.
const THROUGHPUT: Duration = Duration::from_secs(2);

/// Measures and reports. Returns the exit code.
pub fn run(bench: &BenchHost, target: &Target) -> anyhow::Result<u8> {
    voice::start_log(bench.voice.quiet, bench.voice.verbose);
    let start = Instant::now();
    let load = bench.load.as_deref().map(|url| HttpLoad::new(url, trust(bench))).transpose()?;
    let progress = Progress::new(&bench.voice)?;
    let Some(mut subject) = Subject::find((bench, target), load, &progress.stop)? else {
        return Ok(INTERRUPTED);
    };
    let mut member = HostRecord {
        target: target.to_string(),
        address: subject.address.ip().to_string(),
        port: subject.address.port(),
        figures: vec![figures::resolution(&subject.resolved)],
        left_out: Vec::new(),
    };
    let parts = chosen(&bench.only);
    for (index, part) in parts.iter().enumerate() {
        if progress.next(&part.name(), index, parts.len()) {
            member.figures.extend(subject.measure(*part, &progress.stop));
        } else {
            member.left_out.push(part.name());
        }
    }
    let interrupted = progress.stop.load(Relaxed);
    drop(progress);
    let code = match (interrupted, subject.answered()) {
        (true, _) => INTERRUPTED,
        (false, true) => 0,
        (false, false) => 1,
    };
    print(bench, &member, code, start.elapsed())?;
    Ok(code)
}

/// Without repetitions and in the order in which they build on one another.
fn chosen(only: &[Part]) -> Vec<Part> {
    Part::ALL.into_iter().filter(|part| only.is_empty() || only.contains(part)).collect()
}

fn trust(bench: &BenchHost) -> Trust {
    Trust { insecure: bench.insecure, ..asked_store::trust(bench.cacert.as_deref()) }
}

/// The host, and what earlier parts found that later ones use.
struct Subject<'a> {
    bench: &'a BenchHost,
    target: &'a Target,
    load: Option<HttpLoad>,
    resolved: Resolved,
    address: SocketAddr,
    tries: Option<Tries>,
    echoes: Option<Result<Echoes, String>>,
}

impl<'a> Subject<'a> {
    /// Resolves the name and chooses the port; `None` after an interrupt.
    fn find(
        (bench, wanted): (&'a BenchHost, &'a Target),
        load: Option<HttpLoad>,
        stop: &AtomicBool,
    ) -> anyhow::Result<Option<Subject<'a>>> {
        let resolved = match target::resolve(&wanted.host, stop) {
            Err(target::ResolveError::Interrupted) => return Ok(None),
            resolved => resolved?,
        };
        let fits = |address: &&std::net::IpAddr| match (bench.ipv4, bench.ipv6) {
            (true, _) => address.is_ipv4(),
            (_, true) => address.is_ipv6(),
            _ => true,
        };
        let address = resolved.addresses.iter().find(fits).with_context(|| {
            let family = if bench.ipv4 { "IPv4" } else { "IPv6" };
            format!("{} has no {family} address", wanted.host)
        })?;
        let port = wanted.port.unwrap_or_else(|| {
            let open = |port: &u16| {
                let (outcome, _) = connect::attempt(target::at(*address, *port), bench.timeout, stop);
                matches!(outcome, connect::ConnectOutcome::Connected(_))
            };
            USUAL_PORTS.into_iter().find(open).unwrap_or(USUAL_PORTS[0])
        });
        let address = target::at(*address, port);
        Ok(Some(Subject { bench, target: wanted, load, resolved, address, tries: None, echoes: None }))
    }

    /// All figures of a part, each with a value or a reason.
    fn measure(&mut self, part: Part, stop: &AtomicBool) -> Vec<FigureRecord> {
        names::complete(part, self.take(part, stop))
    }

    fn take(&mut self, part: Part, stop: &AtomicBool) -> Vec<FigureRecord> {
        match part {
            Part::Availability => figures::availability(self.tries(stop)),
            Part::Rtt => {
                let mut taken = figures::connect_times(self.tries(stop));
                taken.extend(figures::echo_times(self.echoes(stop)));
                taken
            }
            Part::Loss => figures::loss(self.echoes(stop)),
            Part::Mtu => self.mtu(stop),
            Part::Tls => figures::tls(&self.tls(stop)),
            Part::Connections => {
                let plan = concurrent::Plan {
                    most: self.bench.connections.into(),
                    timeout: self.bench.timeout,
                    ..concurrent::Plan::default()
                };
                figures::connections(&concurrent::run(self.address, &plan, stop), &plan)
            }
            Part::Load => figures::load(&self.under_load(stop)),
            Part::Throughput => self.throughput(&Carrier::default(), stop),
            Part::Pps => super::pps::short_run(self.address.ip(), self.bench.timeout, stop),
        }
    }

    fn tries(&mut self, stop: &AtomicBool) -> &Tries {
        let plan = connect::Plan {
            count: self.bench.tries.into(),
            timeout: self.bench.timeout,
            ..connect::Plan::default()
        };
        self.tries.get_or_insert_with(|| connect::run(self.address, &plan, stop))
    }

    fn echoes(&mut self, stop: &AtomicBool) -> &Result<Echoes, String> {
        let plan =
            echo::Plan { count: self.bench.echoes, timeout: self.bench.timeout, ..echo::Plan::default() };
        self.echoes.get_or_insert_with(|| echo::run(self.address.ip(), &plan, stop))
    }

    fn mtu(&mut self, stop: &AtomicBool) -> Vec<FigureRecord> {
        let rtt = self.tries(stop).round_trips().into_iter().min().unwrap_or(self.bench.timeout);
        let echoes = mtu::run(self.address.ip(), rtt, stop);
        let datagrams = mtu::run_udp(self.address.ip(), rtt, stop);
        figures::mtu(&echoes, &datagrams, self.tries(stop))
    }

    /// With the user's trust; where the certificate is not trusted, with anyone's, and that is said. `-k`
    /// accepts a certificate, and does not make it a trusted one: whether it is one is asked without it.
    fn tls(&self, stop: &AtomicBool) -> Result<(tls::Found, Option<String>), String> {
        let plan = tls::Plan { timeout: self.bench.timeout, ..tls::Plan::default() };
        let run = |trust: &Trust| -> Result<tls::Found, tls::TlsError> {
            let clients = Clients::new(trust).map_err(|error| tls::TlsError::Untrusted(error.to_string()))?;
            tls::run(self.address, &self.target.host, &clients.http1, &plan, stop)
        };
        let believing = Trust { insecure: false, ..trust(self.bench) };
        match run(&believing) {
            Ok(found) => Ok((found, None)),
            Err(tls::TlsError::Untrusted(why)) if self.bench.cacert.is_none() || self.bench.insecure => {
                let found = run(&Trust { insecure: true, ..Trust::default() });
                found.map(|found| (found, Some(why))).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Under the load that was named or, without one, the one that a server of throughput there can put on
    /// it.
    fn under_load(&self, stop: &AtomicBool) -> Result<(load::Found, String), String> {
        let server = target::at(self.address.ip(), throughput::PORT);
        let stream = carrier::Stream { server, interrupted: stop };
        let load: &dyn load::Load = match &self.load {
            Some(load) => load,
            None => match throughput::why_not(server, self.bench.timeout, stop) {
                None => &stream,
                Some(why) => {
                    return Err(format!("no load to put on it: --load URL names one, and {why}"));
                }
            },
        };
        let plan = load::Plan { timeout: self.bench.timeout, ..load::Plan::default() };
        let found = load::run(self.address, load, &plan, stop)?;
        Ok((found, load.name()))
    }

    /// Both transports both ways by `client`, where somebody answers it.
    fn throughput(&self, client: &dyn Throughput, stop: &AtomicBool) -> Vec<FigureRecord> {
        let server = target::at(self.address.ip(), throughput::PORT);
        if let Some(why) = throughput::why_not(server, self.bench.timeout, stop) {
            return figures::no_throughput(&why);
        }
        let run = |(transport, direction)| {
            let carried = client.measure(server, transport, direction, THROUGHPUT, stop);
            figures::throughput(transport, direction, &carried)
        };
        let ways = [Transport::Tcp, Transport::Udp]
            .map(|transport| [Direction::Up, Direction::Down].map(|direction| (transport, direction)));
        ways.into_iter().flatten().flat_map(run).collect()
    }

    /// Whether the host gave any sign of life, as far as it was asked for one.
    fn answered(&self) -> bool {
        let connects = self.tries.as_ref().map(Tries::answered);
        let echoes =
            self.echoes.as_ref().and_then(|echoes| echoes.as_ref().ok()).map(|echoes| echoes.received > 0);
        match (connects, echoes) {
            (None, None) => true,
            (connects, echoes) => connects.unwrap_or(false) || echoes.unwrap_or(false),
        }
    }
}

fn print(bench: &BenchHost, member: &HostRecord, code: u8, span: Duration) -> anyhow::Result<()> {
    let mut record = Record::new("bench", outcome_of(code), 0, span.as_secs_f64());
    record.extra.insert("host".to_owned(), serde_json::to_value(member)?);
    tell(&bench.voice, &record, "the figures", |out| report::render_list(member, out))
}
