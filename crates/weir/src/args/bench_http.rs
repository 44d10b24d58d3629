//! `weir bench http`: wrk's flags where they mean the same, and what wrk has not.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use weir_units::numbers::{scaled, seconds};

use super::{Certificate, ReachFlags, Voice};

const EXAMPLES: &str = "\
Examples:
  weir bench http http://127.0.0.1:8080/                        10 connections for 10 s, and what limited the figure
  weir bench http -t 2 -c 100 -d 30s -s post.lua URL -- a b     wrk's flags and scripts, unchanged
  weir bench http --rate 5000 -c 64 -d 30s URL                  5000 requests a second, latency from the planned time
  weir bench http --http2 --streams 8 -c 4 URL                  HTTP/2, 8 requests at a time over each of 4 connections
  weir bench http --format wrk --latency URL                    the report as wrk prints it
  weir bench http --ab -n 10000 -c 100 -k http://host/          ab's flags, requests and report
  weir bench http -i urls.txt --max-errors 1% --json            a record for each URL; exit code 1 above 1 %
  weir bench http --resolve h:443:10.0.0.7 https://h/           one machine of those that are called h
Closed loop (without --rate) the latency is what was measured, never \"corrected\": while a server stands still nobody asks
it, so its worst moments count little. --rate asks on time and counts from the planned time.
Exit code: 0 when requests were answered, 1 when none was or when more than --max-errors failed, 130 when
interrupted (the report is of what came until then). Called by the name wrk or ab, weir takes that program's flags
and prints its report.";

/// `weir bench http`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub struct BenchHttp {
    /// The http or https URLs to load, one after another, with a report each.
    #[arg(value_name = "URL", required_unless_present_any = ["ab", "list"])]
    pub url: Option<String>,
    /// Further URLs; with --script its args[1] and on, as wrk has it.
    #[arg(value_name = "URL", hide = true)]
    pub more: Vec<String>,
    /// Also load the URLs in LIST, one a line, with '#' comments; '-' reads stdin.
    #[arg(short = 'i', long = "input", value_name = "LIST", conflicts_with = "ab")]
    pub list: Option<String>,
    /// Hold N connections open.
    #[arg(short, long, value_name = "N", default_value = "10", value_parser = parse_count)]
    pub connections: u32,
    /// Run N loops, each on one thread [default: one per processor, at most one per connection].
    #[arg(short, long, value_name = "N", value_parser = parse_count)]
    pub threads: Option<u32>,
    /// Measure for TIME: 30, 30s, 2m, 1h [default: 10s, or until -n is reached].
    #[arg(short, long, value_name = "TIME", value_parser = parse_span)]
    pub duration: Option<Duration>,
    /// Make N requests in all.
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_requests, conflicts_with = "warm_up")]
    pub requests: Option<u64>,
    /// Send RATE requests a second in all, evenly; latency counts from the planned time.
    #[arg(short = 'R', long, value_name = "RATE", value_parser = parse_rate)]
    pub rate: Option<f64>,
    /// Spread the requests of --rate evenly (fixed), or with random gaps as independent users (exp).
    #[arg(short = 'D', long, value_enum, value_name = "HOW", default_value = "fixed")]
    pub dist: Dist,
    /// Open the connections, or raise --rate, evenly over TIME before measuring (with -n, all is measured).
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_span)]
    pub ramp: Duration,
    /// Load for TIME before measuring.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_span)]
    pub warm_up: Duration,
    /// Count a request as failed after TIME without a complete answer.
    #[arg(short = 'T', long, value_name = "TIME", default_value = "2s", value_parser = parse_span)]
    pub timeout: Duration,
    /// Exit with code 1 if more than this SHARE of requests failed, status 400 and above included: 1%, 0.01,
    /// 0.
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub max_errors: Option<f64>,

    /// Send this header field, as in "Name: value".
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    pub headers: Vec<String>,
    /// Use this method [default: GET, or POST with a body].
    #[arg(short, long, value_name = "METHOD", value_parser = parse_method)]
    pub method: Option<String>,
    /// Send this body, or @FILE.
    #[arg(short, long, value_name = "TEXT|@FILE")]
    pub body: Option<String>,
    /// Open a connection for each request.
    #[arg(long)]
    pub no_keep_alive: bool,
    /// Use HTTP/2: by ALPN over TLS, else with prior knowledge.
    #[arg(long, conflicts_with_all = ["script", "no_keep_alive", "ab"])]
    pub http2: bool,
    /// Keep N requests in flight on each connection (--http2).
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_count, requires = "http2")]
    pub streams: u32,
    /// How the host is reached; the URL says what to ask.
    #[command(flatten)]
    pub reach: ReachFlags,
    /// Use this proxy (http, socks5, socks5h, socks4, socks4a); proxies of the environment are ignored.
    #[arg(short = 'x', long, value_name = "URL", conflicts_with = "ab")]
    pub proxy: Option<String>,
    /// The client certificate.
    #[command(flatten)]
    pub certificate: Certificate,
    /// Accept any certificate.
    #[arg(short = 'k', long)]
    pub insecure: bool,
    /// Trust only these authorities (PEM) [env: SSL_CERT_FILE].
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,

    /// Run this Lua script with wrk's interface.
    #[arg(short, long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Print the report in this form.
    #[arg(long, value_enum, value_name = "FORM", default_value = "weir", conflicts_with = "json")]
    pub format: LoadFormat,
    /// Print percentiles too (--format wrk).
    #[arg(short = 'L', long)]
    pub latency: bool,
    /// Read the following words as ab's flags.
    #[arg(long, value_name = "ARGS", num_args = 1.., allow_hyphen_values = true)]
    pub ab: Option<Vec<String>>,
    /// Output.
    #[command(flatten)]
    pub voice: Voice,
    /// For the script: args[1] and on.
    #[arg(last = true, value_name = "ARGS")]
    pub args: Vec<String>,
}

impl BenchHttp {
    /// What the script is given, with and without a `--` before it.
    pub fn script_args(&self) -> Vec<String> {
        self.more.iter().chain(&self.args).cloned().collect()
    }
}

/// `--dist`, as wrk2 calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Dist {
    /// Evenly.
    Fixed,
    /// With exponential gaps: a Poisson process.
    Exp,
}

/// `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LoadFormat {
    /// weir's own, with what limited the figure.
    Weir,
    /// As wrk prints it.
    Wrk,
    /// As ab prints it.
    Ab,
    /// The record, as --json.
    Json,
    /// A header and a row.
    Csv,
    /// The spectrum of latencies for HdrHistogram's plotters.
    Hdr,
}

/// `100`, `1k`: as wrk counts.
fn parse_count(text: &str) -> Result<u32, String> {
    match parse_requests(text).map(u32::try_from) {
        Ok(Ok(count @ 1..=1_000_000)) => Ok(count),
        _ => Err("expected a number from 1 to 1M, such as 100 or 1k".to_owned()),
    }
}

fn parse_requests(text: &str) -> Result<u64, String> {
    let wrong = || "expected a number above 0, such as 10000, 10k or 1M".to_owned();
    // Above 2^53 no number is exact, and no run is as long.
    let sensible = |count: &f64| count.fract() == 0.0 && (1.0..9e15).contains(count);
    scaled(text, "kmg", 1000.0).filter(sensible).map(|count| count as u64).ok_or_else(wrong)
}

/// `10`, `10s`, `500ms`, and wrk's `2m`, `1h`.
fn parse_span(text: &str) -> Result<Duration, String> {
    match seconds(text, &["", "ms", "s", "m", "h"]) {
        Some(seconds) if seconds <= 86_400.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected a time up to a day, such as 500ms, 10s, 2m or 1h".to_owned()),
    }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = scaled(text, "kmg", 1000.0).filter(|rate| (0.001..=1e9).contains(rate));
    rate.ok_or_else(|| "expected requests a second, such as 5000 or 5k".to_owned())
}

/// `1%`, `0.01`.
fn parse_share(text: &str) -> Result<f64, String> {
    let (digits, factor) = text.strip_suffix('%').map_or((text, 1.0), |digits| (digits, 0.01));
    match digits.trim().parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&(share * factor)) => Ok(share * factor),
        _ => Err("expected a share from 0 to 1, such as 0.01 or 1%".to_owned()),
    }
}

/// A field that cannot become two, nor end the head. What is wrong is told without the text, which may be a
/// credential.
pub fn parse_field(text: &str) -> Result<(String, String), String> {
    let wrong = || "invalid header (-H): expected a field such as \"Accept: text/html\"".to_owned();
    let (name, value) = text.split_once(':').ok_or_else(wrong)?;
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() || !name.bytes().all(token) || value.contains(['\r', '\n', '\0']) {
        return Err(wrong());
    }
    Ok((name.to_owned(), value.to_owned()))
}

fn parse_method(text: &str) -> Result<String, String> {
    match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-') {
        true => Ok(text.to_owned()),
        false => Err("expected a method, such as PUT".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_wrks() {
        assert_eq!((parse_count("1k"), parse_requests("2M")), (Ok(1000), Ok(2_000_000)));
        assert!(parse_count("0").is_err() && parse_count("2M").is_err() && parse_requests("-1").is_err());
        let times = ["10", "10s", "2m", "1h", "250ms"].map(|text| parse_span(text).unwrap().as_millis());
        assert_eq!(times, [10_000, 10_000, 120_000, 3_600_000, 250]);
        assert!(parse_span("x").is_err() && parse_span("-1s").is_err() && parse_span("NaN").is_err());
        assert_eq!(parse_rate("2.5k"), Ok(2500.0));
        assert!(parse_rate("0").is_err() && parse_rate("inf").is_err());
        assert_eq!((parse_share("1%"), parse_share("0.5"), parse_share("0")), (Ok(0.01), Ok(0.5), Ok(0.0)));
        assert!(["2", "-1", "101%", "NaN", "%"].iter().all(|text| parse_share(text).is_err()));
    }

    #[test]
    fn fields_stay_one_field() {
        assert_eq!(parse_field("A: b:c"), Ok(("A".to_owned(), "b:c".to_owned())));
        for text in ["A", ": b", "A b: c", "A: b\r\nC: d"] {
            assert!(parse_field(text).is_err(), "{text:?}");
        }
    }
}
