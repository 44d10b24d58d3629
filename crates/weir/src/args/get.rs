//! `weir get`: its options, beside those of [`super::login`], [`super::reach`] and [`super::habits`].

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use weir_get::http::window::Window;
use weir_get::job::Pinned;
use weir_units::numbers::seconds;
use weir_units::{Bytes, Rate};

use super::habits::{self, Habits};
use super::headings::{FAILURES, OPTIONS, OUTPUT, REQUESTS, SPEED, VERIFICATION};
use super::values::{RateLimit, parse_rate_limit};
use super::{HubArgs, Login, ReachFlags, StoreArgs, ToHosts, Voice, parse_lanes, parse_seconds};

const GET_EXAMPLES: &str = "\
Examples:
  weir get https://host/image.iso                     into the current folder
  weir get https://host/image.iso -o disk.img         under another name
  weir get -i urls.txt -o deps/                       a list, one URL (or URL<TAB>NAME) a line
  weir get https://host/x.tar --checksum sha256:9f86...   complete only with this digest
  weir get https://host/x.tar -o - | tar x            into a pipe
  weir get -u me https://host/x.tar                   behind a login; asks for the password
  weir get s3://bucket/data/ -o data/                 all below a prefix; without -o DIR/ into ./
  weir get hf://ORG/REPO -o model/                    a model's files, with their digests
  weir get oci://docker.io/library/alpine:3.22        an image, as an OCI layout
  weir get https://host/x.tar --to-hosts a,b,c:/data/ one host fetches, all have it
The same command resumes an interrupted download (from FILE.part and FILE.weir).";

/// `weir get`.
#[derive(Debug, Args)]
#[command(after_help = GET_EXAMPLES, override_usage = "weir get [OPTIONS] <URL>... | -i <LIST>")]
pub struct Get {
    /// What to fetch: http and https URLs; objects and all below a prefix of stores (s3://BUCKET/KEY, gs://,
    /// az://, PREFIX/); what hubs have (hf://ORG/REPO[@REV][/PATH], oci://REGISTRY/NAME:TAG).
    #[arg(value_name = "URL", required_unless_present = "list")]
    pub urls: Vec<String>,
    /// Save to this file, to this folder (ending in '/'), or to stdout ('-') [default: ./ with the server's
    /// name]. Repeat it to name the file of each URL in turn.
    #[arg(short, long, value_name = "FILE|DIR/|-")]
    pub output: Vec<String>,
    /// Also fetch the URLs in LIST, one URL or URL<TAB>NAME a line, with '#' comments; '-' reads stdin.
    #[arg(short = 'i', long = "input", value_name = "LIST", value_parser = habits::parse_list)]
    pub list: Vec<String>,
    /// Write a line of JSON for each file to FILE as it ends ('-' writes to stdout).
    #[arg(long, value_name = "FILE|-")]
    pub json_files: Option<PathBuf>,
    /// Save each file into folders named after its URL's host and path (wget's --force-directories).
    #[arg(short = 'x', long)]
    pub force_directories: bool,

    /// Use exactly LANES connections per file [default: as many as the verdict says help].
    #[arg(short = 'c', long = "lanes", value_name = "LANES", value_parser = parse_lanes, help_heading = SPEED)]
    pub lanes: Option<u32>,
    /// Fetch N files at once [default: auto].
    #[arg(short = 'j', long = "jobs", value_name = "N|auto", value_parser = parse_jobs, help_heading = SPEED)]
    pub jobs: Option<Jobs>,
    /// Limit the total rate to RATE (such as 10M or 100Mbit), 0 for no limit.
    #[arg(long, value_name = "RATE", default_value = "0", hide_default_value = true, value_parser = parse_rate_limit, help_heading = SPEED)]
    pub limit_rate: RateLimit,
    /// Set the socket's receive buffer (SO_RCVBUF) in BYTES [default: the kernel sizes it].
    #[arg(long, value_name = "BYTES", help_heading = SPEED)]
    pub recv_buffer: Option<Bytes>,

    /// Send this header field with each request, in place of weir's own. 'NAME:' drops a field, 'NAME;' sends
    /// it empty, @FILE reads one a line. Not sent to other hosts after a redirect.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE|@FILE", help_heading = REQUESTS)]
    pub headers: Vec<String>,
    /// Log in with this user and password (default: from the URL or ~/.netrc); weir asks for a missing
    /// password.
    #[arg(short = 'u', long, value_name = "USER:PASSWORD", help_heading = REQUESTS)]
    pub user: Option<String>,
    /// Logins, cookies, certificates.
    #[command(flatten)]
    pub login: Login,
    /// Use this proxy (http, https, socks5, socks5h, socks4, socks4a); an empty value means no proxy.
    #[arg(long, value_name = "URL", help_heading = REQUESTS)]
    pub proxy: Option<String>,
    /// Follow at most N redirects in a row; -1 removes the limit.
    #[arg(long, alias = "max-redirect", value_name = "N", default_value = "50", allow_hyphen_values = true, value_parser = parse_redirects, help_heading = REQUESTS)]
    pub max_redirs: usize,
    /// Follow redirects from https to http, without logins, cookies and header fields (always followed for a
    /// file with --checksum of sha256, sha512 or blake3).
    #[arg(long, help_heading = REQUESTS)]
    pub allow_http_redirect: bool,
    /// How a host is reached.
    #[command(flatten)]
    pub reach: ReachFlags,
    /// Trust only the authorities in this PEM file.
    #[arg(long, value_name = "FILE", help_heading = REQUESTS)]
    pub cacert: Option<PathBuf>,
    /// Accept any certificate.
    #[arg(short = 'k', long, help_heading = REQUESTS)]
    pub insecure: bool,
    /// Speak HTTP/1.1 only.
    #[arg(long = "http1.1", conflicts_with = "http2", help_heading = REQUESTS)]
    pub http1: bool,
    /// Speak HTTP/2 only.
    #[arg(long, help_heading = REQUESTS)]
    pub http2: bool,

    /// Require this digest: sha256, sha512, blake3, sha1, md5, crc64nvme, crc64xz, crc32c or crc32.
    #[arg(long, value_name = "ALG:HEX", help_heading = VERIFICATION)]
    pub checksum: Vec<String>,
    /// Require the digests listed at URL or in a file (such as SHA256SUMS).
    #[arg(long, value_name = "URL", help_heading = VERIFICATION)]
    pub checksum_from: Vec<String>,
    /// Keep a file whose digest differs from the one the server declares; the record says so.
    #[arg(long, help_heading = VERIFICATION)]
    pub ignore_digest: bool,
    /// Save a web page even where the name promises an archive, image or binary, and the body of a redirect
    /// without a target, of status 202, 204 and 205, or of a part (206) that was not asked for.
    #[arg(long, help_heading = VERIFICATION)]
    pub any_type: bool,
    /// Request compressed bodies (gzip, deflate, br, zstd) and decode them, over one connection and without
    /// resume.
    #[arg(long, help_heading = REQUESTS)]
    pub compressed: bool,
    /// Accept an answer that ends with the connection and lacks its end mark: a body of unknown length
    /// without TLS's close_notify, a head without its empty line.
    #[arg(long, help_heading = VERIFICATION)]
    pub accept_unclean_close: bool,

    /// Keep existing files.
    #[arg(long, conflicts_with = "force", help_heading = OPTIONS)]
    pub no_clobber: bool,
    /// Start at byte 0 and overwrite existing files, whatever an earlier run left.
    #[arg(long, help_heading = OPTIONS)]
    pub force: bool,
    /// Fetch only files that differ from the local ones in time, size or ETag; sets the server's time (as
    /// -R).
    #[arg(short = 'N', long, alias = "conditional-get", conflicts_with = "no_clobber", help_heading = OPTIONS)]
    pub timestamping: bool,
    /// Set each file's time to the server's (Last-Modified).
    #[arg(short = 'R', long, help_heading = OPTIONS)]
    pub remote_time: bool,
    /// Wait until the bytes are on disk before the file gets its final name.
    #[arg(long, help_heading = OPTIONS)]
    pub sync: bool,
    /// Keep unfinished files in this folder instead of beside the target.
    #[arg(long, value_name = "DIR", help_heading = OPTIONS)]
    pub temp_dir: Option<PathBuf>,
    /// After a failure try again, up to N times in a row without progress; a silent name server is not asked
    /// again.
    #[arg(long, alias = "retry", value_name = "N", default_value_t = 5, help_heading = FAILURES)]
    pub retries: u32,
    /// Give up on a connection after SECONDS without a byte, or without a complete response head.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = parse_seconds, help_heading = FAILURES)]
    pub timeout: Duration,
    /// Give up on connecting after SECONDS: name lookup, connect and handshakes together [default:
    /// --timeout].
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, help_heading = FAILURES)]
    pub connect_timeout: Option<Duration>,
    /// Drop a connection slower than BYTES a second; 0 allows any rate [default: 10 over --timeout].
    #[arg(short = 'Y', long, value_name = "BYTES", value_parser = parse_speed, help_heading = FAILURES)]
    pub speed_limit: Option<u64>,
    /// Drop it after SECONDS below --speed-limit [default: 30].
    #[arg(short = 'y', long, value_name = "SECONDS", value_parser = parse_seconds, help_heading = FAILURES)]
    pub speed_time: Option<Duration>,
    /// Wait at most SECONDS in a row when a server asks for it (Retry-After); beyond that, exit with code 4
    /// and say when to run again.
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = parse_wait, help_heading = FAILURES)]
    pub max_wait: Duration,

    /// Show a live view on the whole terminal: the pipeline, the rate, connections, files; q ends the run
    /// like Ctrl-C.
    #[arg(long, conflicts_with = "quiet", help_heading = OUTPUT)]
    pub tui: bool,
    /// Fetch only these bytes: FIRST-LAST, FIRST- to the end, -N for the last N. Several ranges, separated by
    /// commas, arrive in one body as the server packs them.
    #[arg(short = 'r', long, value_name = "FIRST-LAST|FIRST-|-N", allow_hyphen_values = true, help_heading = OPTIONS)]
    pub range: Option<Window>,
    /// Options of curl and wget that change nothing here, or that have another name.
    #[command(flatten)]
    pub habits: Habits,
    /// Write the evidence of the verdict, interval by interval, to FILE, for a bug report.
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = OUTPUT)]
    pub evidence: Option<PathBuf>,
    /// Output.
    #[command(flatten)]
    pub voice: Voice,
    /// How object stores are asked.
    #[command(flatten)]
    pub store: StoreArgs,
    /// How hubs are asked.
    #[command(flatten)]
    pub hubs: HubArgs,
    /// To many hosts.
    #[command(flatten)]
    pub to_hosts: ToHosts,
    /// No option: what a program that has weir as a library knows of the one object.
    #[arg(skip)]
    pub pinned: Option<Pinned>,
}

/// `-j`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jobs {
    /// weir decides.
    Auto,
    /// This many.
    Fixed(u32),
}

fn parse_jobs(text: &str) -> Result<Jobs, String> {
    match text {
        "auto" => Ok(Jobs::Auto),
        digits => match digits.parse() {
            Ok(count @ 1..=64) => Ok(Jobs::Fixed(count)),
            _ => Err("expected auto or a number from 1 to 64".to_owned()),
        },
    }
}

/// `20`, `0`, `-1`: as curl has it.
fn parse_redirects(text: &str) -> Result<usize, String> {
    match text.parse::<i64>() {
        Ok(-1) => Ok(usize::MAX),
        Ok(count) if count >= 0 => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
        _ => Err("expected a number, 0 for none, or -1 for any".to_owned()),
    }
}

/// `600`, `0`: seconds, a year at most.
pub(super) fn parse_wait(text: &str) -> Result<Duration, String> {
    match seconds(text, &["", "s"]) {
        Some(seconds) if seconds <= 31_536_000.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected seconds, such as 600, or 0 for no wait at all".to_owned()),
    }
}

/// `1000`, `64k`: bytes a second, as curl has it; a rate (`1Mbit`) too.
fn parse_speed(text: &str) -> Result<u64, String> {
    let rate = || text.parse::<Rate>().ok().map(|rate| rate.0.ceil() as u64);
    let bytes = text.parse::<Bytes>().ok().map(|bytes| bytes.0);
    bytes.or_else(rate).ok_or_else(|| "expected bytes a second, such as 1000 or 64k".to_owned())
}
