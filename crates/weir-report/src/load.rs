//! What `weir bench http` adds to a record: requests, latency and who held the figure; for JSON, for people,
//! and in the formats of other tools.
//!
//! * [`wrk`] and [`ab`]: line by line as those programs print.
//! * [`csv`]: one header and one row, to be appended to a table of runs.
//! * [`hdr`]: the spectrum of latencies, as HdrHistogram's tools plot it.

pub mod ab;
pub mod csv;
pub mod hdr;
pub mod wrk;

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Rate, counted, human_duration};

use crate::escape::escape;
use crate::schema::VerdictRecord;

/// The member `http` of a record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadRecord {
    /// What was asked for.
    pub url: String,
    /// Where the connections went.
    pub address: String,
    /// Connections held open.
    pub connections: u32,
    /// Over HTTP/2: requests under way at a time over each connection. `null` over HTTP/1.1.
    pub streams: Option<u32>,
    /// Loops, each on a thread.
    pub threads: u32,
    /// Whole answers.
    pub requests: u64,
    /// Whole answers a second.
    pub requests_rate: f64,
    /// What failed.
    pub errors: ErrorsRecord,
    /// The same, but for statuses, by reason. Empty in older records.
    pub reasons: Vec<ReasonRecord>,
    /// How many whole answers had each status.
    pub statuses: BTreeMap<String, u64>,
    /// How the first answer that was no HTTP began.
    pub strange: Option<String>,
    /// Why the first connection, or the first TLS session, that did not come about or broke did so.
    pub refusal: Option<String>,
    /// Bytes of requests sent.
    pub sent: u64,
    /// Seconds of the client's processor time for one request.
    pub client_cpu: f64,
    /// Closed loop: from a request's begin to its whole answer, as measured. With `rate_asked`: from the
    /// planned time.
    pub latency: LatencyRecord,
    /// With `rate_asked`: how many of `latency` had no answer when the run ended. They count with what they
    /// had waited by then, so that its figures are the least that they can be.
    pub unanswered: u64,
    /// With `rate_asked`: from the begin, which leaves out the waiting for a free connection. `null`
    /// otherwise.
    pub service: Option<LatencyRecord>,
    /// Seconds to make a connection, TLS included.
    pub connect: Option<LatencyRecord>,
    /// Requests a second that were asked for (`--rate`).
    pub rate_asked: Option<f64>,
    /// Planned requests that found no free connection until the end.
    pub unsent: u64,
    /// Who was waited for: `client`, `script`, `delay`, `processor`, `server-cpu`, `server`,
    /// `server-or-path`, `path`, `nagle`, `stall`, `connecting`, `ports`, `queue`, `connections`, `rate`.
    /// `null`: nobody alone, or it cannot be told.
    pub held_by: Option<String>,
    /// Where the time went.
    pub time: TimeRecord,
    /// Share of the time in which the client's fullest loop ran or wanted to run.
    pub client_busy: f64,
    /// The server's busiest thread, where it could be seen.
    pub server: Option<ServerRecord>,
    /// Requests a second that the server could have taken here at what each costs it: its busiest thread, and
    /// all processors.
    pub capacity: Option<f64>,
    /// A script made the requests.
    pub script: Option<String>,
}

/// What failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorsRecord {
    /// No connection.
    pub connect: u64,
    /// The answer broke off, or was none.
    pub read: u64,
    /// The request could not be sent.
    pub write: u64,
    /// No whole answer in time.
    pub timeout: u64,
    /// Whole answers with a status of 400 and above.
    pub status: u64,
}

/// Requests that came to no whole answer for one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReasonRecord {
    /// Its name, such as `closed-unread`.
    pub reason: String,
    /// In which count of [`ErrorsRecord`] they are: `connect`, `read`, `write`, `timeout`.
    pub kind: String,
    /// How many.
    pub count: u64,
    /// For people, behind the number.
    pub words: String,
}

/// Where the time went. The first eight are shares of all connections' time (over HTTP/2 of all streams'), of
/// which the first seven add up to 1; the others are shares of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimeRecord {
    /// In requests that were answered.
    pub answered: f64,
    /// In requests that failed.
    pub failed: f64,
    /// In requests that were under way at the end.
    pub unfinished: f64,
    /// Making connections.
    pub connecting: f64,
    /// In a script's `delay()`.
    pub delayed: f64,
    /// In pauses after failures.
    pub resting: f64,
    /// With nothing to ask (`--rate`).
    pub idle: f64,
    /// While nothing came for far longer than answers take.
    pub still: f64,
    /// The script's functions, in the loop that they held longest.
    pub script: f64,
    /// In which a loop wanted a processor and had none, of the loop that waited longest.
    pub client_waited: f64,
    /// So did the server's busiest thread, where it could be seen.
    pub server_waited: Option<f64>,
}

/// A distribution of times, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatencyRecord {
    /// How many there are; 0 in older records.
    pub count: u64,
    /// Smallest.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stdev: f64,
    /// Median.
    pub p50: f64,
    /// 75 %.
    pub p75: f64,
    /// 90 %.
    pub p90: f64,
    /// 99 %; the largest of fewer than 100.
    pub p99: f64,
    /// 99.9 %; the largest of fewer than 1000.
    pub p999: f64,
    /// Largest.
    pub max: f64,
}

/// The server's busiest thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerRecord {
    /// Its process.
    pub name: String,
    /// Share of the time in which it ran or wanted to run.
    pub busy: f64,
    /// Seconds of processor time of all its threads for one request.
    pub cpu: f64,
}

/// Writes it for people; `received` are bytes over `seconds`.
pub fn render(
    record: &LoadRecord,
    received: u64,
    seconds: f64,
    verdict: Option<&VerdictRecord>,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(
        out,
        "{}: {} requests in {}: {:.0} requests/s, {} over {}{}",
        escape(&record.url),
        record.requests,
        time(seconds),
        record.requests_rate,
        Rate(if seconds > 0.0 { received as f64 / seconds } else { 0.0 }),
        counted(record.connections.into(), "connection"),
        record.streams.map_or_else(String::new, |streams| format!(
            " of {} (HTTP/2)",
            counted(streams.into(), "stream")
        )),
    )?;
    if record.requests > 0 {
        let from = match (record.rate_asked, record.unanswered) {
            (None, _) => "as measured".to_owned(),
            (Some(_), 0) => "from the planned time".to_owned(),
            (Some(_), count) => {
                format!("from the planned time; at least, since {count} had no answer at the end")
            }
        };
        latency_line("latency", &record.latency, &from, out)?;
    }
    if let Some(service) = record.service.as_ref().filter(|_| record.requests > 0) {
        latency_line("  from the send", service, "what a closed loop would have shown", out)?;
    }
    if let Some(connect) = &record.connect {
        latency_line("connect", connect, "TLS included", out)?;
    }
    if record.requests > 0 {
        writeln!(
            out,
            "client: {} of processor time a request over {}, {} sent",
            micros(record.client_cpu),
            counted(record.threads.into(), "loop"),
            Bytes(record.sent)
        )?;
    }
    if let Some(server) = record.server.as_ref().filter(|_| record.requests > 0) {
        writeln!(
            out,
            "server: {} of processor time a request, {}",
            micros(server.cpu),
            escape(&server.name)
        )?;
    }
    render_errors(record, out)?;
    if let Some(verdict) = verdict {
        render_verdict(record, verdict, out)?;
    }
    Ok(())
}

fn latency_line(name: &str, of: &LatencyRecord, note: &str, out: &mut dyn Write) -> io::Result<()> {
    // A share that not one of them stands for is the largest by another name.
    let tells = |least: u64| of.count == 0 || of.count >= least;
    let usual = [(0, "median", of.p50), (0, "90 %", of.p90)];
    let told = usual.into_iter().chain([(100, "99 %", of.p99), (1000, "99.9 %", of.p999)]);
    let told = told.filter(|(least, ..)| tells(*least));
    let each: Vec<String> = told.map(|(_, share, value)| format!("{share} {}", time(value))).collect();
    writeln!(out, "{name}: {}, most {} ({note})", each.join(", "), time(of.max))
}

fn render_errors(record: &LoadRecord, out: &mut dyn Write) -> io::Result<()> {
    if !record.statuses.is_empty() {
        let each: Vec<String> =
            record.statuses.iter().map(|(status, count)| format!("{count} of {}", escape(status))).collect();
        writeln!(out, "answers by status: {}", each.join(", "))?;
    }
    let said: Vec<String> =
        failures(record).into_iter().map(|(what, count)| format!("{count} {}", escape(&what))).collect();
    if !said.is_empty() {
        writeln!(out, "errors: {}", said.join(", "))?;
    }
    if let Some(strange) = &record.strange {
        writeln!(out, "  the first that was not HTTP began with: {}", escape(strange))?;
    }
    record.refusal.iter().try_for_each(|why| writeln!(out, "  no connection: {}", escape(why)))
}

/// What failed, in words and numbers: by reason where the record has reasons, else by kind.
pub(crate) fn failures(record: &LoadRecord) -> Vec<(String, u64)> {
    let errors = &record.errors;
    let by_kind = [
        ("no connection", errors.connect),
        ("answer broke off", errors.read),
        ("could not be sent", errors.write),
        ("timed out", errors.timeout),
    ];
    let mut found: Vec<(String, u64)> = match record.reasons.as_slice() {
        [] => by_kind.map(|(what, count)| (what.to_owned(), count)).to_vec(),
        reasons => reasons.iter().map(|of| (of.words.clone(), of.count)).collect(),
    };
    found.push(("status 400 or above".to_owned(), errors.status));
    found.push(("planned but never sent".to_owned(), record.unsent));
    found.retain(|(_, count)| *count > 0);
    found
}

fn render_verdict(record: &LoadRecord, verdict: &VerdictRecord, out: &mut dyn Write) -> io::Result<()> {
    let Some(limit) = &verdict.limit else {
        return verdict.missing.iter().try_for_each(|line| writeln!(out, "not judged: {}", escape(line)));
    };
    let who = match record.held_by.as_deref() {
        Some("client") => "weir itself",
        Some("server-cpu") => "the server's processor",
        Some("server") => "the server",
        Some("path") => "the path",
        Some("connections") => "the number of connections",
        Some("rate") => "the asked rate",
        Some("script") => "the script's functions",
        Some("delay") => "the script's delay()",
        Some("processor") => "this busy machine's processors",
        Some("server-or-path") => "the server or the path",
        Some("nagle") => "a delayed acknowledgement",
        Some("stall") => "a standstill",
        Some("connecting") => "making connections",
        Some("ports") => "the lack of local ports",
        Some("queue") => "weir's own queue for a connection",
        _ => "more than one",
    };
    writeln!(out, "limit: {limit}, held by {who} (confidence {:.0} %)", 100.0 * verdict.confidence)?;
    for line in &verdict.evidence {
        writeln!(out, "  {}", escape(line))?;
    }
    for advice in &verdict.advice {
        writeln!(out, "advice: {}", escape(&advice.action))?;
    }
    for line in &verdict.missing {
        writeln!(out, "not seen: {}", escape(line))?;
    }
    Ok(())
}

fn time(seconds: f64) -> String {
    human_duration(std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// What a request costs is a few microseconds: the tenths count.
fn micros(seconds: f64) -> String {
    if seconds < 1e-3 { format!("{:.2} µs", seconds * 1e6) } else { time(seconds) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_the_figure_its_holder_and_the_errors() {
        let record = LoadRecord {
            url: "http://h/".to_owned(),
            connections: 1,
            threads: 1,
            requests: 100,
            requests_rate: 50.0,
            errors: ErrorsRecord { timeout: 2, ..ErrorsRecord::default() },
            held_by: Some("server".to_owned()),
            ..LoadRecord::default()
        };
        let verdict = VerdictRecord {
            limit: Some("application".to_owned()),
            confidence: 0.9,
            evidence: vec!["an answer takes long".to_owned()],
            ..VerdictRecord::default()
        };
        let mut text = Vec::new();
        render(&record, 1000, 2.0, Some(&verdict), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for part in [
            "http://h/: 100 requests in 2.0 s: 50 requests/s, 500 B/s over 1 connection\n",
            "errors: 2 timed out\n",
            "limit: application, held by the server (confidence 90 %)\n  an answer takes long\n",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_percentile_is_told_where_there_is_one_and_a_plan_is_charged_with_what_waits() {
        let of = |count, rate_asked, unanswered| {
            let latency = LatencyRecord { count, max: 2.0, ..LatencyRecord::default() };
            let record = LoadRecord { requests: 5, rate_asked, unanswered, latency, ..LoadRecord::default() };
            let mut text = Vec::new();
            render(&record, 0, 1.0, None, &mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            text.lines().find(|line| line.starts_with("latency: ")).unwrap().to_owned()
        };
        assert_eq!(of(99, None, 0), "latency: median 0 µs, 90 % 0 µs, most 2.0 s (as measured)");
        for (count, p99, p999) in
            [(100, true, false), (999, true, false), (1000, true, true), (0, true, true)]
        {
            let line = of(count, None, 0);
            assert_eq!((line.contains(" 99 % "), line.contains("99.9 %")), (p99, p999), "{count}: {line}");
        }
        assert!(of(9, Some(10.0), 0).ends_with("(from the planned time)"));
        let note = "(from the planned time; at least, since 7 had no answer at the end)";
        assert!(of(9, Some(10.0), 7).ends_with(note), "{}", of(9, Some(10.0), 7));
    }

    #[test]
    fn people_see_reasons_and_statuses() {
        let reason = |reason: &str, words: &str, count| ReasonRecord {
            reason: reason.to_owned(),
            kind: "read".to_owned(),
            count,
            words: words.to_owned(),
        };
        let record = LoadRecord {
            requests: 5,
            errors: ErrorsRecord { read: 7, status: 1, ..ErrorsRecord::default() },
            reasons: vec![reason("not-http", "not HTTP", 4), reason("bad-chunk", "malformed chunk", 3)],
            statuses: BTreeMap::from([("200".to_owned(), 4), ("503".to_owned(), 1)]),
            strange: Some("SSH-2.0\x1b[2J".to_owned()),
            ..LoadRecord::default()
        };
        let mut text = Vec::new();
        render(&record, 0, 1.0, None, &mut text).unwrap();
        let said = String::from_utf8(text).unwrap();
        for part in [
            "answers by status: 4 of 200, 1 of 503\n",
            "errors: 4 not HTTP, 3 malformed chunk, 1 status 400 or above\n",
            "  the first that was not HTTP began with: SSH-2.0",
        ] {
            assert!(said.contains(part), "{said}");
        }
        assert!(!said.contains('\u{1b}'), "{said:?}");
    }
}
