//! `weir bench pps`: packets per second to another weir, or on this machine alone; what was lost, and what
//! limited it.

mod rows;
mod serving;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::Context;
use weir_bench::host::target;
use weir_bench::pps::PORT;
use weir_bench::pps::client::{self, Client, Opening, Trial};
use weir_bench::pps::frame::{Size, frame_of};
use weir_bench::pps::search::Search;
use weir_bench::pps::server::{Bounds, Server};
use weir_bench::pps::{PpsError, sender};
use weir_report::escape::escape;
use weir_report::host::FigureRecord;
use weir_report::json;
use weir_report::packets::{self, PacketsRecord, PacketsRow, TrialRecord, ZeroLossRecord};
use weir_report::schema::Record;

use super::{Progress, outcome_of};
use crate::args::{BenchPps, Method, Via};
use crate::interrupt::INTERRUPTED;
use crate::page;
use crate::voice::{self, Printed, Usage};

/// To connect to the far end.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Measures, or serves those who do. Returns the exit code.
pub fn run(bench: &BenchPps) -> anyhow::Result<u8> {
    voice::start_log(bench.voice.quiet, bench.voice.verbose);
    if bench.server && bench.voice.report.is_some() {
        return Err(Usage("a server has no page: --report belongs to the client's end".to_owned()).into());
    }
    if bench.server {
        return serving::run(bench);
    }
    let progress = Progress::new(&bench.voice)?;
    let Some(target) = &bench.target else {
        return on_this_machine(|server| measure(bench, "this machine, over loopback", server, &progress));
    };
    let resolved = match target::resolve(&target.host, &progress.stop) {
        Err(target::ResolveError::Interrupted) => return Ok(INTERRUPTED),
        resolved => resolved?,
    };
    let address = resolved.addresses.first().context("no address")?;
    let server = target::at(*address, target.port.unwrap_or(PORT));
    measure(bench, &target.to_string(), server, &progress)
}

/// With a server on a thread of this process, for as long as `work` takes.
fn on_this_machine<T>(work: impl FnOnce(SocketAddr) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let server = Server::bind((Ipv4Addr::LOCALHOST, 0).into(), Bounds::default())?;
    let address = server.address().context("cannot tell the port")?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serve = || server.run(false, &over, &|_| {});
        Builder::new().spawn_scoped(scope, serve).context("cannot start a thread for the receiving end")?;
        let done = work(address);
        over.store(true, Relaxed);
        done
    })
}

fn measure(bench: &BenchPps, peer: &str, server: SocketAddr, progress: &Progress) -> anyhow::Result<u8> {
    let start = Instant::now();
    let sizes = sizes(bench, server.is_ipv6())?;
    let mut member = PacketsRecord {
        peer: peer.to_owned(),
        threads: bench.threads.into(),
        asked: bench.rate,
        rows: Vec::new(),
    };
    let methods = methods(bench)?;
    let count = sizes.len() * methods.len();
    let mut failed = None;
    let mut client = None;
    'all: for payload in &sizes {
        for method in &methods {
            let frame = frame_of(*payload, server.is_ipv6());
            let what = format!("frames of {frame} bytes, {}", method.name());
            if !progress.next(&what, member.rows.len(), count) {
                break 'all;
            }
            let subject = Subject { bench, server, payload: *payload, method: *method };
            match subject.row(&mut client, &progress.stop) {
                Ok(row) => member.rows.push(row),
                Err(PpsError::Interrupted) => break 'all,
                Err(error) => {
                    failed = Some(error);
                    break 'all;
                }
            }
        }
    }
    let interrupted = progress.stop.load(Relaxed);
    let code = match (interrupted, &failed) {
        (true, _) => INTERRUPTED,
        (false, Some(_)) => 1,
        (false, None) => 0,
    };
    progress.clear();
    match failed {
        // Nothing to print: the error alone.
        Some(error) if member.rows.is_empty() && !interrupted && !bench.voice.json => {
            return Err(spoken(&error));
        }
        failed => print(bench, &member, code, failed.as_ref(), start.elapsed())?,
    }
    Ok(code)
}

fn sizes(bench: &BenchPps, v6: bool) -> Result<Vec<usize>, Usage> {
    let asked: Vec<Size> = match bench.payload.is_empty() {
        true => bench.size.iter().map(|size| Size::Frame((*size).into())).collect(),
        false => bench.payload.iter().map(|size| Size::Payload((*size).into())).collect(),
    };
    let payloads: Result<Vec<_>, _> = asked.into_iter().map(|size| size.payload(v6)).collect();
    payloads.map_err(|error| Usage(error.to_string()))
}

/// The rows of each size.
fn methods(bench: &BenchPps) -> Result<Vec<Method>, Usage> {
    match (bench.via, bench.method.as_slice()) {
        (Via::Udp, []) => Ok(vec![Method::Plain, Method::Gso]),
        (Via::Udp, asked) => Ok(asked.to_vec()),
        (Via::Packet, [] | [Method::Plain]) => Ok(vec![Method::Packet]),
        (Via::Packet, _) => Err(Usage(
            "--method gso needs UDP sockets: through packet sockets (--via packet) each packet is on its own"
                .to_owned(),
        )),
    }
}

/// One row of the table.
struct Subject<'a> {
    bench: &'a BenchPps,
    server: SocketAddr,
    payload: usize,
    method: Method,
}

impl Subject<'_> {
    fn row(&self, kept: &mut Option<Client>, stop: &AtomicBool) -> Result<PacketsRow, PpsError> {
        let joined = self.method == Method::Gso;
        let mut row = PacketsRow {
            method: self.method.name().to_owned(),
            frame: frame_of(self.payload, self.server.is_ipv6()),
            payload: self.payload,
            ..PacketsRow::default()
        };
        if joined && let Err(why) = sender::can_join(self.payload) {
            row.missing = Some(why);
            return Ok(row);
        }
        let opening = Opening {
            threads: self.bench.threads.into(),
            via: match self.method {
                Method::Plain => client::Via::Plain,
                Method::Gso => client::Via::Joined,
                Method::Packet => client::Via::Frames,
            },
            buffer: u32::try_from(self.bench.receive_buffer.0).unwrap_or(u32::MAX),
            timeout: TIMEOUT,
        };
        let mut client = match kept.take() {
            Some(client) => client.reopen(&opening, stop)?,
            None => Client::open(self.server, &opening, stop)?,
        };
        let trial = Trial { payload: self.payload, rate: self.bench.rate, span: self.bench.span };
        let outcome = client.trial(&trial, stop)?;
        if stop.load(Relaxed) {
            return Err(PpsError::Interrupted);
        }
        rows::fill(&mut row, &outcome, &trial, &client, self.server.ip().is_loopback(), self.method);
        if self.bench.zero_loss {
            row.zero_loss = Some(self.search(&mut client, outcome.sent_rate(), stop)?);
        }
        *kept = Some(client);
        Ok(row)
    }

    fn search(&self, client: &mut Client, start: f64, stop: &AtomicBool) -> Result<ZeroLossRecord, PpsError> {
        let tolerance = self.bench.tolerance.0;
        let mut search = Search::new(self.bench.rate.unwrap_or(start), self.bench.resolution.0);
        let mut trials = Vec::new();
        while let Some(rate) = search.next() {
            let trial = Trial { payload: self.payload, rate: Some(rate), span: self.bench.trial };
            let outcome = client.trial(&trial, stop)?;
            if stop.load(Relaxed) {
                return Err(PpsError::Interrupted);
            }
            let passed = outcome.sent > 0 && outcome.loss() <= tolerance;
            search.book(rate, outcome.sent_rate(), passed);
            trials.push(TrialRecord {
                asked: rate,
                sent_rate: outcome.sent_rate(),
                loss: outcome.loss(),
                passed,
            });
        }
        Ok(ZeroLossRecord {
            rate: search.found(),
            trial: self.bench.trial.as_secs_f64(),
            tolerance,
            resolution: self.bench.resolution.0,
            trials,
        })
    }
}

fn print(
    bench: &BenchPps,
    member: &PacketsRecord,
    code: u8,
    failed: Option<&PpsError>,
    span: Duration,
) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let payload: u64 = member.rows.iter().map(|row| row.received * row.payload as u64).sum();
    let mut record = Record::new("bench", outcome_of(code), payload, span.as_secs_f64());
    record.error = failed.map(ToString::to_string);
    let best = member.rows.iter().max_by(|a, b| a.received_rate.total_cmp(&b.received_rate));
    record.verdict = best.and_then(|row| row.verdict.clone());
    record.extra.insert("pps".to_owned(), serde_json::to_value(member)?);
    let printed = if bench.voice.json {
        json::render(&record, &mut out)
    } else if bench.voice.quiet || member.rows.is_empty() {
        Ok(())
    } else {
        packets::render_table(member, &mut out)
    };
    printed.printed("the table")?;
    if let Some(error) = failed {
        voice::fatal(&spoken(error));
    }
    page::keep(&bench.voice, &record)
}

/// For a terminal: a refusal is in the far end's words.
fn spoken(error: &PpsError) -> anyhow::Error {
    anyhow::Error::msg(escape(&error.to_string()).into_owned())
}

/// For `weir bench host`: half a second of the smallest packets, where a weir counts them.
pub fn short_run(host: IpAddr, timeout: Duration, stop: &AtomicBool) -> Vec<FigureRecord> {
    let run = || -> Result<Vec<FigureRecord>, PpsError> {
        let size = if host.is_ipv6() { 84 } else { 64 };
        let payload = Size::Frame(size).payload(host.is_ipv6())?;
        let opening = Opening { threads: 1, via: client::Via::Plain, buffer: 8 << 20, timeout };
        let mut client = Client::open(target::at(host, PORT), &opening, stop)?;
        let trial = Trial { payload, rate: None, span: Duration::from_millis(500) };
        let outcome = client.trial(&trial, stop)?;
        let origin = format!(
            "received of frames of {size} bytes from one thread, without segmentation, {:.1} % lost",
            outcome.loss() * 100.0
        );
        Ok(vec![FigureRecord::taken("packets-per-second", outcome.received_rate(), "packets/s", origin)])
    };
    run().unwrap_or_else(|error| {
        vec![FigureRecord::missing("packets-per-second", "packets/s", error.to_string())]
    })
}
