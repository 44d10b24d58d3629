//! From a run's outcome to the figures of each report.

use std::time::Duration;

use url::Url;
use weir_bench_http::answer::fields;
use weir_bench_http::reason;
use weir_bench_http::run::LoadOutcome;
use weir_bench_http::script::Spectrum;
use weir_bench_http::settings::Ask;
use weir_bench_http::target::Target;
use weir_get::http::tls;
use weir_get::object;
use weir_model::load::{LoadEvidence, LoadVerdict, LoopUse};
use weir_report::load::ab::{AbReport, AbRow, Failed};
use weir_report::load::hdr::{Foot, Step};
use weir_report::load::wrk::{Figures, WrkReport};
use weir_report::load::{ErrorsRecord, LatencyRecord, LoadRecord, ReasonRecord, ServerRecord, TimeRecord};
use weir_report::schema::{self, Record, Sample, VerdictRecord};
use weir_units::plain;

use super::plan::Plan;

type Histogram = hdrhistogram::Histogram<u64>;

/// A URL as it may be shown: as it was given, unless its query holds a signature or the like.
pub fn shown(url: &str) -> String {
    match Url::parse(url) {
        Ok(parsed) => {
            let bare = object::shown(&parsed);
            let secret = parsed.as_str().split('#').next() != Some(bare.as_str());
            if secret { bare } else { url.to_owned() }
        }
        // No URL of the standard, but one that is asked for: what follows the path is nobody's to see.
        Err(_) => url.split('?').next().unwrap_or_default().to_owned(),
    }
}

/// The member `http`.
pub fn member(plan: &Plan, outcome: &LoadOutcome, judged: &LoadVerdict) -> LoadRecord {
    let (tally, settings, evidence) = (&outcome.tally, &plan.settings, &outcome.evidence);
    let requests = tally.requests.max(1) as f64;
    let busiest = evidence.loops.iter().map(|one| one.thread.busy()).fold(0.0, f64::max);
    LoadRecord {
        url: shown(&settings.target.url),
        address: outcome.address.to_string(),
        connections: settings.connections,
        streams: matches!(settings.ask, Ask::Http2(_)).then(|| settings.streams()),
        threads: settings.threads,
        requests: tally.requests,
        requests_rate: tally.requests as f64 / outcome.span.as_secs_f64().max(1e-9),
        errors: ErrorsRecord {
            connect: tally.errors.connect,
            read: tally.errors.read,
            write: tally.errors.write,
            timeout: tally.errors.timeout,
            status: tally.errors.status,
        },
        reasons: reasons(outcome),
        statuses: tally.by_status().map(|(status, count)| (status.to_string(), count)).collect(),
        strange: tally.strange.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
        refusal: tally.refusal.as_ref().map(|why| {
            let of_tls = tls::explain(&settings.target.authority(), why);
            of_tls.map_or_else(|| plain(why), |error| error.to_string())
        }),
        sent: tally.sent,
        client_cpu: outcome.cpu.as_secs_f64() / requests,
        latency: latency(&tally.latency),
        unanswered: tally.unanswered,
        service: tally.service.as_ref().map(latency),
        connect: (!tally.connect.is_empty()).then(|| latency(&tally.connect)),
        rate_asked: settings.rate,
        unsent: tally.unsent,
        held_by: judged.holder.map(|holder| holder.name().to_owned()),
        time: time(evidence),
        client_busy: busiest,
        server: evidence.server.value().map(|server| ServerRecord {
            name: server.name.clone(),
            busy: server.busiest.busy(),
            cpu: server.total.as_secs_f64() / requests,
        }),
        capacity: judged.capacity,
        script: match &settings.ask {
            Ask::Script(script) => Some(script.path.display().to_string()),
            Ask::Same(_) | Ask::Http2(_) => None,
        },
    }
}

/// What failed, by reason.
fn reasons(outcome: &LoadOutcome) -> Vec<ReasonRecord> {
    let row = |(row, count): (&reason::Row, u64)| ReasonRecord {
        reason: row.name.to_owned(),
        kind: row.kind.name().to_owned(),
        count,
        words: row.words.to_owned(),
    };
    outcome.tally.reasons.counted().map(row).collect()
}

/// What there is to say where nothing was answered, unless an interrupt came before.
pub fn no_answer(plan: &Plan, outcome: &LoadOutcome) -> Option<String> {
    let is_silent = outcome.tally.requests == 0 && !outcome.interrupted;
    is_silent.then(|| format!("no request to {} was answered", shown(&plan.settings.target.url)))
}

/// What there is to say where more failed than `--max-errors` allows.
pub fn too_many_errors(plan: &Plan, outcome: &LoadOutcome) -> Option<String> {
    let (most, tally) = (plan.max_errors?, &outcome.tally);
    let share = tally.error_share();
    if share <= most {
        return None;
    }
    let mut of: Vec<String> =
        tally.reasons.counted().map(|(row, count)| format!("{count} {}", row.words)).collect();
    let refused = tally.by_status().filter(|(status, _)| *status > 399);
    of.extend(refused.map(|(status, count)| format!("{count} status {status}")));
    let (failed, asked) = tally.failed_of_asked();
    Some(format!(
        "{failed} of {asked} requests to {} failed, {}, and --max-errors allows {}: {}",
        shown(&plan.settings.target.url),
        percent(share),
        percent(most),
        of.join(", ")
    ))
}

/// What there is to say where `--max-errors` would not hold if it counted the planned requests that were
/// never sent.
pub fn left_out(plan: &Plan, outcome: &LoadOutcome) -> Option<String> {
    let (most, tally) = (plan.max_errors?, &outcome.tally);
    let share = tally.error_share_of_plan();
    (tally.unsent > 0 && share > most).then(|| {
        format!(
            "{} planned requests were never sent; --max-errors leaves them out: with them {} failed",
            tally.unsent,
            percent(share)
        )
    })
}

/// With two digits, since a share of one in a thousand is one that people ask for.
fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// The whole record.
pub fn record(plan: &Plan, member: &LoadRecord, outcome: &LoadOutcome, judged: &LoadVerdict) -> Record {
    let failed = outcome.failed.as_ref().map(ToString::to_string);
    let error = failed.or_else(|| no_answer(plan, outcome)).or_else(|| too_many_errors(plan, outcome));
    let kind = match (error.is_some(), outcome.interrupted) {
        (true, _) => schema::RunOutcome::Failed,
        (false, true) => schema::RunOutcome::Partial,
        (false, false) => schema::RunOutcome::Complete,
    };
    let mut record = Record::new("bench", kind, outcome.tally.received, outcome.span.as_secs_f64());
    record.connections = Some(member.connections);
    record.error = error;
    record.verdict = Some(VerdictRecord::from(&judged.verdict));
    let limit = record.verdict.as_ref().and_then(|verdict| verdict.limit.clone());
    let samples = outcome.tally.byte_samples.iter().enumerate().map(|(index, bytes)| Sample {
        t: index as f64 / 10.0,
        rate: *bytes as f64 * 10.0,
        limit: limit.clone(),
        ..Sample::default()
    });
    record.samples = samples.take(schema::SAMPLES).collect();
    if let Ok(value) = serde_json::to_value(member) {
        record.extra.insert("http".to_owned(), value);
    }
    record
}

/// The record of a target that there was no load on.
pub fn failed(url: &str, error: &anyhow::Error) -> Record {
    let mut record = Record::new("bench", schema::RunOutcome::Failed, 0, 0.0);
    record.error = Some(format!("{error:#}"));
    let member = LoadRecord { url: shown(url), ..LoadRecord::default() };
    if let Ok(value) = serde_json::to_value(&member) {
        record.extra.insert("http".to_owned(), value);
    }
    record
}

/// Where the time went, in shares.
fn time(evidence: &LoadEvidence) -> TimeRecord {
    let time = &evidence.time;
    let fullest = |of: fn(&LoopUse) -> f64| evidence.loops.iter().map(of).fold(0.0, f64::max);
    TimeRecord {
        answered: time.share(time.answered),
        failed: time.share(time.failed),
        unfinished: time.share(time.unfinished),
        connecting: time.share(time.connecting),
        delayed: time.share(time.delayed),
        resting: time.share(time.resting),
        idle: time.share(time.idle),
        still: time.share(time.still),
        script: fullest(LoopUse::in_script),
        client_waited: fullest(|one| one.thread.waiting()),
        server_waited: evidence.server.value().map(|server| server.busiest.waiting()),
    }
}

fn latency(of: &Histogram) -> LatencyRecord {
    let at = |quantile: f64| of.value_at_quantile(quantile) as f64 / 1e9;
    LatencyRecord {
        count: of.len(),
        min: of.min() as f64 / 1e9,
        mean: of.mean() / 1e9,
        stdev: of.stdev() / 1e9,
        p50: at(0.5),
        p75: at(0.75),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: of.max() as f64 / 1e9,
    }
}

/// wrk's lines before the run.
pub fn wrk_head(plan: &Plan) -> WrkReport {
    let settings = &plan.settings;
    WrkReport {
        url: shown(&settings.target.url),
        asked: settings.span.map(|span| span.as_secs()),
        threads: settings.threads,
        connections: settings.connections,
        ..WrkReport::default()
    }
}

/// wrk's whole report.
pub fn wrk(plan: &Plan, outcome: &LoadOutcome) -> WrkReport {
    let (tally, errors) = (&outcome.tally, &outcome.tally.errors);
    let line = |of: &Spectrum| Figures {
        mean: of.mean(),
        stdev: of.stdev(),
        max: of.max() as f64,
        within: of.within_stdev(),
    };
    WrkReport {
        latency: line(&outcome.latency),
        rates: line(&outcome.rates),
        percentiles: plan
            .percentiles
            .then(|| [50.0, 75.0, 90.0, 99.0].map(|percent| outcome.latency.percentile(percent))),
        requests: tally.requests,
        bytes: tally.received,
        runtime: u64::try_from(outcome.span.as_micros()).unwrap_or(u64::MAX),
        errors: [errors.connect, errors.read, errors.write, errors.timeout],
        refused: errors.status,
        ..wrk_head(plan)
    }
}

/// ab's report.
pub fn ab(plan: &Plan, outcome: &LoadOutcome) -> AbReport {
    let (settings, tally, errors) = (&plan.settings, &outcome.tally, &outcome.tally.errors);
    let flags = plan.ab.clone().unwrap_or_default();
    let sends_body = match &plan.ab {
        Some(flags) => flags.body.is_some(),
        None => false,
    };
    AbReport {
        software: software(&tally.first_head),
        host: settings.target.host.clone(),
        port: settings.target.effective_port(),
        path: shown_path(&settings.target),
        length: if flags.any_length { None } else { Some(tally.lengths.first.unwrap_or(0)) },
        concurrency: settings.connections,
        taken: outcome.span,
        done: tally.requests,
        failed: Failed {
            connect: errors.connect,
            receive: errors.read + errors.timeout,
            length: if flags.any_length { 0 } else { tally.lengths.other },
            exceptions: 0,
        },
        write_errors: errors.write,
        not_2xx: tally.lengths.not_2xx,
        kept: settings.keep_alive.then_some(tally.lengths.kept),
        received: tally.received,
        sent: sends_body.then_some(tally.sent),
        bodies: tally.lengths.bodies,
        rows: rows(outcome),
        timed: tally.timed_answers(),
        plain: flags.plain,
        no_percentiles: flags.no_percentiles,
    }
}

/// Path and query as they may be shown.
fn shown_path(target: &Target) -> String {
    let url = shown(&target.url);
    if url == target.url {
        return target.path.clone();
    }
    // What is shown is a URL of this target, with another query.
    Target::parse(&url).map_or_else(|_| "/".to_owned(), |shown| shown.path)
}

/// Each request's times as ab has them.
pub fn rows(outcome: &LoadOutcome) -> Vec<AbRow> {
    let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    let row = |row: &weir_bench_http::tally::Row| AbRow {
        start: micros(outcome.started + row.start),
        connect: micros(row.connect),
        total: micros(row.total),
        wait: micros(row.wait),
    };
    outcome.tally.rows.iter().map(row).collect()
}

/// The field Server of a head.
fn software(head: &[u8]) -> String {
    let fields = fields(head);
    let server = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("server"));
    server.map_or_else(String::new, |(_, value)| {
        weir_report::escape::escape(&String::from_utf8_lossy(value)).to_string()
    })
}

/// The spectrum: every step of the histogram that has requests.
pub fn spectrum(outcome: &LoadOutcome) -> (Vec<Step>, Foot) {
    let of = &outcome.tally.latency;
    let total = of.len().max(1);
    let mut seen = 0;
    let mut steps = Vec::new();
    for step in of.iter_recorded() {
        seen += step.count_at_value();
        steps.push(Step {
            value: step.value_iterated_to() as f64 / 1e6,
            share: seen as f64 / total as f64,
            count: seen,
        });
    }
    let millis = |nanos: f64| nanos / 1e6;
    let foot = Foot {
        mean: millis(of.mean()),
        stdev: millis(of.stdev()),
        max: millis(of.max() as f64),
        count: of.len(),
        buckets: (u64::from(of.buckets()), 2048),
    };
    (steps, foot)
}
