//! What `weir bench net --rr` and `--crr` add to a record, for JSON and for people.
//!
//! ```text
//! 41234 transactions/s (request/response, 1 and 1 bytes, 1 connection)
//! 99 % sure within 1.9 % of it to either side, after 4 runs; asked for 2.5 %
//! latency: 50 % 23 µs · 90 % 26 µs · 99 % 41 µs · 99.9 % 89 µs · longest 1.2 ms
//! processor time of each: 6.1 µs here, 5.9 µs there; the other 12 µs it was on its way, or somebody was being woken
//! ```

use std::io::{self, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_units::{counted, human_duration};

use crate::escape::escape;

/// The member `transactions` of a record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TransactionsRecord {
    /// `rr` (over one connection) or `crr` (a connection each).
    pub kind: String,
    /// `client` or `server`.
    pub role: String,
    /// The other end.
    pub peer: String,
    /// Bytes.
    pub request: u32,
    /// Bytes.
    pub response: u32,
    /// Connections at once.
    pub streams: u32,
    /// Whole ones, of all runs.
    pub count: u64,
    /// The mean of the runs, per second.
    pub rate: f64,
    /// Each run; of a server none.
    pub runs: Vec<RunRecord>,
    /// How sure the mean is, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<ConfidenceRecord>,
    /// Of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyRecord>,
    /// Seconds of processor time of one, in the threads that made or answered them.
    pub cpu: Option<f64>,
    /// The same of the other end; `null` when it did not tell.
    pub peer_cpu: Option<f64>,
    /// Congestion control of this end.
    pub congestion_control: Option<String>,
}

/// One run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunRecord {
    /// Whole transactions.
    pub count: u64,
    /// Seconds.
    pub seconds: f64,
    /// Per second.
    pub rate: f64,
    /// Seconds.
    pub median: f64,
}

/// Student's interval of the runs' mean.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfidenceRecord {
    /// As asked for, 0 to 1.
    pub level: f64,
    /// The interval's width over the mean, as asked for.
    pub asked: f64,
    /// As it came out; `null` of fewer than two runs.
    pub width: Option<f64>,
    /// It came out so narrow.
    pub met: bool,
}

/// Seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatencyRecord {
    /// The smallest.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// Half were faster.
    pub p50: f64,
    /// Nine tenths.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p999: f64,
    /// The largest.
    pub max: f64,
}

/// One run's line.
pub fn render_run(number: usize, run: &RunRecord, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "[run {number:>2}] {:>6.2} s   {:>9.0} transactions/s   median {}",
        run.seconds,
        run.rate,
        time(run.median)
    )
}

/// What came of it.
pub fn render(record: &TransactionsRecord, out: &mut dyn Write) -> io::Result<()> {
    let what = if record.kind == "crr" { "connect/request/response" } else { "request/response" };
    let TransactionsRecord { rate, request, response, streams, .. } = record;
    let connections = counted((*streams).into(), "connection");
    writeln!(out, "{rate:.0} transactions/s ({what}, {request} and {response} bytes, {connections})")?;
    if let Some(confidence) = &record.confidence {
        render_confidence(confidence, record.runs.len(), out)?;
    }
    if let Some(latency) = &record.latency {
        let LatencyRecord { p50, p90, p99, p999, max, .. } = *latency;
        let figures = [("50 %", p50), ("90 %", p90), ("99 %", p99), ("99.9 %", p999), ("longest", max)];
        let figures: Vec<String> =
            figures.iter().map(|(name, seconds)| format!("{name} {}", time(*seconds))).collect();
        writeln!(out, "latency: {}", figures.join(" · "))?;
    }
    render_processors(record, out)?;
    if let Some(name) = &record.congestion_control {
        writeln!(out, "congestion control {} here", escape(name))?;
    }
    Ok(())
}

fn render_confidence(confidence: &ConfidenceRecord, runs: usize, out: &mut dyn Write) -> io::Result<()> {
    let half = |width: f64| format!("{:.1} %", width * 50.0);
    let asked = half(confidence.asked);
    let level = confidence.level * 100.0;
    match confidence.width {
        None => writeln!(out, "no confidence: one run is not enough; asked for {asked}"),
        Some(width) => {
            let sure = if confidence.met { "" } else { "not confident enough: " };
            let more = if confidence.met { "" } else { "; allow more runs (--repeats), or longer ones (-t)" };
            let width = half(width);
            writeln!(
                out,
                "{sure}confidence {level} % within {width} to either side, after {runs} runs; asked for {asked}{more}"
            )
        }
    }
}

/// What a transaction's time went into, as far as this is known.
fn render_processors(record: &TransactionsRecord, out: &mut dyn Write) -> io::Result<()> {
    let Some(cpu) = record.cpu else { return Ok(()) };
    let there = record.peer_cpu.map_or_else(String::new, |cpu| format!(", {} there", time(cpu)));
    let mean = record.latency.as_ref().map(|latency| latency.mean);
    let rest = mean.zip(record.peer_cpu).map(|(mean, peer)| mean - cpu - peer).filter(|rest| *rest > 0.0);
    let rest = rest.map_or_else(String::new, |rest| {
        format!("; the other {} went to the path, or to waking a process", time(rest))
    });
    writeln!(out, "processor time of each: {} here{there}{rest}", time(cpu))
}

fn time(seconds: f64) -> String {
    Duration::try_from_secs_f64(seconds).map_or_else(|_| "-".to_owned(), human_duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(record: &TransactionsRecord) -> String {
        let mut out = Vec::new();
        render(record, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_mean_that_is_not_sure_says_so_and_what_to_do() {
        let confidence = ConfidenceRecord { level: 0.99, asked: 0.05, width: Some(0.08), met: false };
        let runs = vec![RunRecord::default(); 3];
        let record = TransactionsRecord {
            kind: "rr".to_owned(),
            rate: 41_234.4,
            request: 1,
            response: 200,
            streams: 1,
            runs,
            confidence: Some(confidence.clone()),
            latency: Some(LatencyRecord { mean: 24e-6, p50: 23e-6, ..LatencyRecord::default() }),
            cpu: Some(6e-6),
            peer_cpu: Some(5e-6),
            ..TransactionsRecord::default()
        };
        let said = text(&record);
        assert!(
            said.starts_with("41234 transactions/s (request/response, 1 and 200 bytes, 1 connection)\n"),
            "{said}"
        );
        assert!(
            said.contains("not confident enough: confidence 99 % within 4.0 % to either side, after 3 runs; asked for 2.5 %; allow"),
            "{said}"
        );
        assert!(said.contains("6 µs here, 5 µs there; the other 13 µs"), "{said}");
        let met = ConfidenceRecord { width: Some(0.04), met: true, ..confidence };
        let said = text(&TransactionsRecord { confidence: Some(met), ..record });
        assert!(said.contains("\nconfidence 99 % within 2.0 % to either side"), "{said}");
    }
}
