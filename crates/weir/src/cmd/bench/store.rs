//! `weir bench store`: what a store gives, and what holds it.

use std::time::Instant;

use weir_report::escape::escape;
use weir_report::object_store::{
    self as report, StoreHeldRecord, StoreLoadRecord, StoreRecord, StoreTimesRecord,
};
use weir_report::schema::Record;
use weir_store::address::StoreUrl;
use weir_store::measure::{self, Load, Measured, Plan, Setup, Timed, judgement};

use super::{Progress, outcome_of, tell};
use crate::args::BenchStore;
use crate::cmd::asked_store::StoreWay;
use crate::interrupt::INTERRUPTED;
use crate::voice::{self, Usage};

/// Measures and reports. Returns the exit code.
pub fn run(bench: &BenchStore) -> anyhow::Result<u8> {
    voice::start_log(bench.voice.quiet, bench.voice.verbose);
    let url = match StoreUrl::parse(&bench.url) {
        Some(url) => url.map_err(|error| Usage(error.to_string()))?,
        None => {
            let text = escape(&bench.url);
            return Err(
                Usage(format!("cannot measure '{text}': expected a bucket, as in s3://BUCKET/")).into()
            );
        }
    };
    let plan = if bench.quick { Plan::quick() } else { Plan::usual() };
    let span = bench.span.unwrap_or(plan.span);
    let mut connections = match bench.connections.is_empty() {
        true => plan.connections.clone(),
        false => bench.connections.clone(),
    };
    // What more of them bring is what is judged.
    connections.sort_unstable();
    connections.dedup();
    let plan = Plan { span, connections, ..plan };
    let start = Instant::now();
    let progress = Progress::new(&bench.voice)?;
    let way = StoreWay::of(&bench.network, &progress.stop)?;
    let store = way.open(&bench.store, &url)?;
    let http = way.http(&[&store]);
    let prefix = match url.key.is_empty() || url.key.ends_with('/') {
        true => url.key.clone(),
        false => format!("{}/", url.key),
    };
    let setup = Setup {
        store: &*store,
        prefix: &prefix,
        http: &http,
        stop: &progress.stop,
        max_wait: bench.max_wait,
        plan: &plan,
    };
    let measured = measure::run(&setup, &mut |what, index, count| progress.next(what, index, count));
    progress.clear();
    let measured = measured.map_err(|failed| {
        failed.left.iter().for_each(|left| voice::warn(left));
        failed.cause
    })?;
    let code = if measured.interrupted { INTERRUPTED } else { 0 };
    let member = member(&url, &measured);
    let mut record = Record::new("bench", outcome_of(code), 0, start.elapsed().as_secs_f64());
    record.extra.insert("store".to_owned(), serde_json::to_value(&member)?);
    let sheet = voice::sheet(&std::io::stdout());
    tell(&bench.voice, &record, "the figures", |out| report::render(&member, sheet, out))?;
    Ok(code)
}

fn member(url: &StoreUrl, measured: &Measured) -> StoreRecord {
    let cpus = std::thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64);
    let held = judgement::held(measured, cpus).into_iter().map(|held| StoreHeldRecord {
        figure: held.figure.to_owned(),
        limit: held.limit.map(|limit| limit.name().to_owned()),
        why: held.why,
    });
    let mut missing = measured.missing.clone();
    if measured.interrupted {
        missing.push("interrupted: what is not here was not measured".to_owned());
    }
    StoreRecord {
        url: url.to_string(),
        latency: measured.timed.iter().map(times).collect(),
        throughput: measured.throughput.iter().map(load).collect(),
        requests: measured.requests.iter().map(load).collect(),
        held: held.collect(),
        missing,
    }
}

fn times(timed: &Timed) -> StoreTimesRecord {
    let seconds = &timed.seconds;
    StoreTimesRecord {
        operation: timed.operation.name().to_owned(),
        bytes: timed.bytes,
        shortest: seconds.first().copied().unwrap_or_default(),
        median: seconds.get(seconds.len() / 2).copied().unwrap_or_default(),
        longest: seconds.last().copied().unwrap_or_default(),
        count: seconds.len(),
    }
}

fn load(load: &Load) -> StoreLoadRecord {
    StoreLoadRecord {
        connections: load.connections,
        requests: load.answered as f64 / load.seconds,
        rate: load.bytes as f64 / load.seconds,
        throttled: load.throttled,
        failed: load.failed,
        cpus: load.cpu / load.seconds,
    }
}
