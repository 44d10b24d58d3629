//! The report of wrk 4.1, line by line, so that scripts that read it go on reading.
//!
//! One figure is another: wrk "corrects" the latencies of its closed loop by values that nobody measured;
//! here stands what was measured.

use std::io::{self, Write};

/// What the report is made of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WrkReport {
    /// As it was given.
    pub url: String,
    /// Whole seconds asked for; `None` where a number of requests ended the run.
    pub asked: Option<u64>,
    /// Loops.
    pub threads: u32,
    /// Connections.
    pub connections: u32,
    /// Microseconds.
    pub latency: Figures,
    /// Requests a second of each loop in each tenth of a second.
    pub rates: Figures,
    /// 50, 75, 90 and 99 %, microseconds; with `--latency`.
    pub percentiles: Option<[u64; 4]>,
    /// Whole answers.
    pub requests: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Microseconds.
    pub runtime: u64,
    /// connect, read, write, timeout.
    pub errors: [u64; 4],
    /// Answers with a status above 399.
    pub refused: u64,
}

/// A line of the table.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figures {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stdev: f64,
    /// Largest.
    pub max: f64,
    /// Percent of the values within one standard deviation of the mean.
    pub within: f64,
}

/// The lines that wrk prints before it begins.
pub fn render_head(report: &WrkReport, out: &mut dyn Write) -> io::Result<()> {
    match report.asked {
        Some(seconds) => writeln!(out, "Running {} test @ {}", whole_seconds(seconds as f64), report.url)?,
        None => writeln!(out, "Running test @ {}", report.url)?,
    }
    writeln!(out, "  {} threads and {} connections", report.threads, report.connections)
}

/// The lines after the run.
pub fn render(report: &WrkReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  Thread Stats{:>6}{:>11}{:>8}{:>12}", "Avg", "Stdev", "Max", "+/- Stdev")?;
    stats("Latency", &report.latency, micros, out)?;
    stats("Req/Sec", &report.rates, metric, out)?;
    if let Some(values) = report.percentiles {
        writeln!(out, "  Latency Distribution")?;
        for (percent, value) in [50, 75, 90, 99].iter().zip(values) {
            writeln!(out, "{percent:>7}%{}", column(&micros(value as f64), 10))?;
        }
    }
    let (runtime, bytes) = (report.runtime as f64, report.bytes as f64);
    writeln!(out, "  {} requests in {}, {}B read", report.requests, micros(runtime), binary(bytes))?;
    if report.errors.iter().any(|count| *count > 0) {
        let [connect, read, write, timeout] = report.errors;
        writeln!(out, "  Socket errors: connect {connect}, read {read}, write {write}, timeout {timeout}")?;
    }
    if report.refused > 0 {
        writeln!(out, "  Non-2xx or 3xx responses: {}", report.refused)?;
    }
    let seconds = (runtime / 1e6).max(1e-6);
    writeln!(out, "Requests/sec: {:>9.2}", report.requests as f64 / seconds)?;
    writeln!(out, "Transfer/sec: {:>10}B", binary(bytes / seconds))
}

fn stats(name: &str, of: &Figures, unit: fn(f64) -> String, out: &mut dyn Write) -> io::Result<()> {
    let columns = [column(&unit(of.mean), 8), column(&unit(of.stdev), 10), column(&unit(of.max), 9)].concat();
    writeln!(out, "    {name:<10}{columns}{:>8.2}%", of.within)
}

/// Right-aligned so that digits stand under digits: two places are the unit's, which has none, one or two
/// letters.
fn column(text: &str, width: usize) -> String {
    let letters = text.chars().rev().take(2).filter(|letter| letter.is_ascii_alphabetic()).count();
    let padding = 2 - letters;
    let width = width - padding;
    let cut: String = text.chars().take(width).collect();
    format!("{cut:>width$}{:padding$}", "")
}

/// `635.91us`, `12.92ms`, `1.02s`, `1.50m`.
fn micros(value: f64) -> String {
    if value >= 1_000_000.0 {
        scaled(value / 1_000_000.0, 60.0, "s", &["m"], 2)
    } else {
        scaled(value, 1000.0, "us", &["ms"], 2)
    }
}

fn whole_seconds(value: f64) -> String {
    scaled(value, 60.0, "s", &["m"], 0)
}

fn metric(value: f64) -> String {
    scaled(value, 1000.0, "", &["k", "M", "G", "T"], 2)
}

fn binary(value: f64) -> String {
    scaled(value, 1024.0, "", &["K", "M", "G", "T"], 2)
}

/// The next unit begins at 0.85 of it.
fn scaled(mut value: f64, scale: f64, base: &'static str, units: &[&'static str], digits: usize) -> String {
    let mut unit = base;
    for next in units {
        if value < scale * 0.85 {
            break;
        }
        value /= scale;
        unit = next;
    }
    format!("{value:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_change_where_wrks_do() {
        let seen = [849.0, 851.0, 999_999.0, 1_000_000.0, 50_000_000.0, 51_000_000.0, 7.2e9].map(micros);
        assert_eq!(seen, ["849.00us", "0.85ms", "1000.00ms", "1.00s", "50.00s", "0.85m", "120.00m"]);
        assert_eq!([10.0, 50.0, 51.0, 60.0, 7200.0].map(whole_seconds), ["10s", "50s", "1m", "1m", "120m"]);
        assert_eq!([0.0, 870.0, 871.0, 92.75 * 1048576.0].map(binary), ["0.00", "870.00", "0.85K", "92.75M"]);
        assert_eq!([849.0, 27_420.0].map(metric), ["849.00", "27.42k"]);
    }

    /// A report that wrk 4.1 printed, from the figures in it.
    #[test]
    fn the_report_is_that_of_wrk() {
        let report = WrkReport {
            url: "http://127.0.0.1:8377/".to_owned(),
            asked: Some(2),
            threads: 2,
            connections: 4,
            latency: Figures { mean: 90.84, stdev: 256.51, max: 5810.0, within: 98.96 },
            rates: Figures { mean: 27_420.0, stdev: 5070.0, max: 33_930.0, within: 71.43 },
            percentiles: Some([66, 81, 99, 396]),
            requests: 114_424,
            bytes: 97_255_000,
            runtime: 2_100_000,
            errors: [0, 1, 0, 2],
            refused: 3,
        };
        let mut text = Vec::new();
        render_head(&report, &mut text).unwrap();
        render(&report, &mut text).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "Running 2s test @ http://127.0.0.1:8377/\n  2 threads and 4 connections\n\
             \x20 Thread Stats   Avg      Stdev     Max   +/- Stdev\n\
             \x20   Latency    90.84us  256.51us   5.81ms   98.96%\n\
             \x20   Req/Sec    27.42k     5.07k   33.93k    71.43%\n\
             \x20 Latency Distribution\n\
             \x20    50%   66.00us\n     75%   81.00us\n     90%   99.00us\n     99%  396.00us\n\
             \x20 114424 requests in 2.10s, 92.75MB read\n\
             \x20 Socket errors: connect 0, read 1, write 0, timeout 2\n\
             \x20 Non-2xx or 3xx responses: 3\n\
             Requests/sec:  54487.62\nTransfer/sec:     44.17MB\n"
        );
    }
}
