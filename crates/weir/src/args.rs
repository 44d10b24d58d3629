//! The command line: one source for parsing, help, man pages and completions.

mod ab;
mod bench;
mod bench_disk;
mod bench_host;
mod bench_http;
mod bench_mem;
mod bench_net;
mod bench_pps;
mod copy;
mod fields;
mod first_steps;
mod foreign;
mod habits;
mod iperf3;
mod lab;
mod login;
mod plan;
mod reach;
mod report;
mod rsync;
mod selection;
mod self_check;
mod ssh;
mod what;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use weir_transfer::http::window::Window;
use weir_units::numbers::seconds;
use weir_units::{Bytes, Rate};

use crate::schemes;

pub use ab::AbFlags;
pub use bench::{Bench, BenchCipher, BenchCodec, BenchCommand, Generated};
pub use bench_disk::BenchDisk;
pub use bench_host::{BenchHost, Part};
pub use bench_http::{BenchHttp, Dist, LoadFormat, parse_field};
pub use bench_mem::BenchMem;
pub use bench_net::{BenchNet, NetFormat, NetLogin, Test, host_and_device};
pub use bench_pps::{BenchPps, Method, Via};
pub use copy::{Cp, How};
pub use fields::GivenFields;
pub use foreign::{answer, drop_guesses};
pub use habits::Habits;
pub use iperf3::is_meant as is_iperf3;
pub use lab::{Lab, LabCommand, LabFidelity, LabGuard, LabRun, LabShell, LabShow};
pub use login::{Certificate, Login};
pub use plan::{By, Plan};
pub use reach::ReachFlags;
pub use report::Report;
pub use selection::{Given, Patterns};
pub use self_check::SelfCheck;
pub use ssh::Ssh;
pub use what::What;

/// Version and commit, as `weir --version` shows them.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("WEIR_COMMIT"), ")");

/// `weir URL ...` means `weir get URL ...`: no command's name holds a scheme. Links that are not fetched are
/// answered as such. Under the name of iperf3 weir takes its words.
pub fn with_command(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let arguments: Vec<OsString> = arguments.collect();
    if arguments.first().is_some_and(|program| iperf3::is_meant(program)) {
        return iperf3::words(&arguments);
    }
    let mut arguments = invoked_as(arguments);
    let is_url = |first: &OsString| first.to_str().is_some_and(schemes::is_link);
    let first = arguments.iter().skip(1).take_while(|word| *word == "--no-config").count() + 1;
    if arguments.get(first).is_some_and(is_url) {
        arguments.insert(first, "get".into());
    }
    if arguments.get(first).is_some_and(|word| word == "cp" || word == "plan") {
        let of_copy = arguments.split_off(first);
        arguments.extend(rsync::words(of_copy));
    }
    arguments
}

/// The name of another program that weir is called by, as a link, stands for the command that takes its
/// flags.
fn invoked_as(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let name = arguments.first().and_then(|path| std::path::Path::new(path).file_name()?.to_str());
    let asks_version =
        |flags: &[&str]| arguments.len() == 2 && flags.iter().any(|flag| arguments[1] == *flag);
    let words: &[&str] = match name {
        Some("wrk") if asks_version(&["-v", "--version"]) => return vec!["weir".into(), "--version".into()],
        Some("ab") if asks_version(&["-V"]) => return vec!["weir".into(), "--version".into()],
        Some("wrk") => &["bench", "http", "--format", "wrk"],
        Some("ab") if arguments.len() > 1 => &["bench", "http", "--ab"],
        Some("ab") => &["bench", "http"],
        _ => return arguments,
    };
    arguments.splice(1..1, words.iter().map(OsString::from));
    arguments
}

/// Moves bulk data as fast as the path allows, and names the stage that limits it.
#[derive(Debug, Parser)]
#[command(name = "weir", version = VERSION, after_help = first_steps::WEIR, max_term_width = 110)]
pub struct Cli {
    /// Read no configuration file (~/.config/weir/config.toml).
    #[arg(long, global = true)]
    no_config: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Download, one file or thousands, in parallel where it helps, resumable, verified.
    Get(Box<Get>),
    /// Copy files and folders between hosts, started over ssh, over connections of its own, encrypted and verified.
    Cp(Box<Cp>),
    /// Run the remote end of cp, which cp starts itself.
    #[command(hide = true)]
    Peer {
        /// Only check this program's digest.
        #[arg(long, hide = true, value_name = "DIGEST")]
        is: Option<String>,
    },
    /// Serve the files below a folder over HTTP or HTTPS.
    Serve(Serve),
    /// Show the main job on this machine: a slow path explained and fixed, a fast file, a capped server, a
    /// slow disk, many files, a resumed download.
    Demo(Demo),
    /// Explain another program's transfer while it runs: what limits it, and what to change.
    Why(Why),
    /// Predict a transfer: which codec, transport, buffers and connections for this path and data, and what would limit it.
    Plan(Box<Plan>),
    /// Emulate a slow path on this machine, without touching its network.
    Lab(Lab),
    /// Draw records (the output of --json) as one page with pictures, or compare two.
    Report(Report),
    /// Measure one stage alone: codecs, ciphers, the network, HTTP servers, a host and its path.
    Bench(Bench),
    /// Check what this host allows, what each missing feature costs, and how to get it.
    SelfCheck(SelfCheck),
    /// Print shell completions.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the man pages into a folder.
    Man {
        /// The folder.
        folder: PathBuf,
    },
}

impl Command {
    /// How a command that has a record speaks.
    pub fn voice(&self) -> Option<&Voice> {
        match self {
            Command::Get(get) => Some(&get.voice),
            Command::Cp(cp) => Some(&cp.voice),
            Command::Why(why) => Some(&why.voice),
            Command::Plan(plan) => Some(&plan.voice),
            Command::Lab(Lab { command: LabCommand::Run(run) }) => Some(&run.voice),
            Command::Bench(bench) => Some(bench.command.voice()),
            Command::SelfCheck(check) => Some(&check.voice),
            Command::Peer { .. } | Command::Serve(_) | Command::Demo(_) | Command::Lab(_) => None,
            Command::Report(_) | Command::Completions { .. } | Command::Man { .. } => None,
        }
    }
}

const GET_EXAMPLES: &str = "\
Examples:
  weir get https://host/image.iso                     into the current folder
  weir get https://host/image.iso -o disk.img         under another name
  weir get -i urls.txt -o deps/                       a list, one URL (or URL<TAB>NAME) a line
  weir get https://host/x.tar --checksum sha256:9f86...   complete only with this digest
  weir get https://host/x.tar -o - | tar x            into a pipe
  weir get -u me https://host/x.tar                   behind a login; asks for the password
The same command resumes an interrupted download (from FILE.part and FILE.weir).";

/// `weir get`.
#[derive(Debug, Args)]
#[command(after_help = GET_EXAMPLES, args_override_self = true)]
pub struct Get {
    /// The http or https URLs to fetch.
    #[arg(value_name = "URL", required_unless_present = "list")]
    pub urls: Vec<String>,
    /// Save to this file, to this folder (ending in '/'), or to stdout ('-') [default: ./ with the server's
    /// name]. Repeat it to name the file of each URL in turn.
    #[arg(short, long, value_name = "FILE|DIR/|-")]
    pub output: Vec<String>,
    /// Also fetch the URLs in LIST, one URL or URL<TAB>NAME a line, with '#' comments; '-' reads stdin.
    #[arg(short = 'i', long = "input", value_name = "LIST", value_parser = habits::parse_list)]
    pub list: Option<String>,
    /// Save each file into folders named after its URL's host and path (wget's --force-directories).
    #[arg(short = 'x', long)]
    pub force_directories: bool,

    /// Use exactly LANES connections per file [default: as many as the verdict says help].
    #[arg(short = 'c', long = "lanes", value_name = "LANES", value_parser = parse_lanes)]
    pub lanes: Option<u32>,
    /// Fetch N files at once [default: auto].
    #[arg(short = 'j', long = "jobs", value_name = "N|auto", value_parser = parse_jobs)]
    pub jobs: Option<Jobs>,
    /// Limit the total rate to RATE (such as 10M or 100Mbit).
    #[arg(long, value_name = "RATE")]
    pub limit_rate: Option<Rate>,
    /// Set the socket's receive buffer (SO_RCVBUF) in BYTES [default: the kernel sizes it].
    #[arg(long, value_name = "BYTES")]
    pub recv_buffer: Option<Bytes>,

    /// Send this header field with each request, in place of weir's own. 'NAME:' drops a field, 'NAME;' sends
    /// it empty, @FILE reads one a line. Not sent to other hosts after a redirect.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE|@FILE")]
    pub headers: Vec<String>,
    /// Log in with this user and password (default: from the URL or ~/.netrc); weir asks for a missing
    /// password.
    #[arg(short = 'u', long, value_name = "USER:PASSWORD")]
    pub user: Option<String>,
    /// Logins, cookies, certificates.
    #[command(flatten)]
    pub login: Login,
    /// Use this proxy (http, https, socks5, socks5h, socks4, socks4a); an empty value means no proxy.
    #[arg(long, value_name = "URL")]
    pub proxy: Option<String>,
    /// Follow at most N redirects in a row; -1 removes the limit.
    #[arg(long, alias = "max-redirect", value_name = "N", default_value = "50", allow_hyphen_values = true, value_parser = parse_redirects)]
    pub max_redirs: usize,
    /// How a host is reached.
    #[command(flatten)]
    pub reach: ReachFlags,
    /// Trust only the authorities in this PEM file.
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// Accept any certificate.
    #[arg(short = 'k', long)]
    pub insecure: bool,
    /// Speak HTTP/1.1 only.
    #[arg(long = "http1.1", conflicts_with = "http2")]
    pub http1: bool,
    /// Speak HTTP/2 only.
    #[arg(long)]
    pub http2: bool,

    /// Require this digest: sha256, sha512, blake3, sha1, md5, crc64nvme, crc64xz, crc32c or crc32.
    #[arg(long, value_name = "ALG:HEX")]
    pub checksum: Vec<String>,
    /// Require the digests listed at URL or in a file (such as SHA256SUMS).
    #[arg(long, value_name = "URL")]
    pub checksum_from: Option<String>,
    /// Keep a file whose digest differs from the one the server declares; the record says so.
    #[arg(long)]
    pub ignore_digest: bool,
    /// Save a web page even where the name promises an archive, image or binary, and the body of a redirect
    /// without a target, of status 202, 204 and 205, or of a part (206) that was not asked for.
    #[arg(long)]
    pub any_type: bool,
    /// Request compressed bodies (gzip, deflate, br, zstd) and decode them, over one connection and without
    /// resume.
    #[arg(long)]
    pub compressed: bool,
    /// Accept an answer that ends with the connection and lacks its end mark: a body of unknown length
    /// without TLS's close_notify, a head without its empty line.
    #[arg(long)]
    pub accept_unclean_close: bool,

    /// Keep existing files.
    #[arg(long, conflicts_with = "force")]
    pub no_clobber: bool,
    /// Start at byte 0 and overwrite existing files, whatever an earlier run left.
    #[arg(long)]
    pub force: bool,
    /// Fetch only files that differ from the local ones in time, size or ETag; sets the server's time (as
    /// -R).
    #[arg(short = 'N', long, alias = "conditional-get", conflicts_with = "no_clobber")]
    pub timestamping: bool,
    /// Set each file's time to the server's (Last-Modified).
    #[arg(short = 'R', long)]
    pub remote_time: bool,
    /// Wait until the bytes are on disk before the file gets its final name.
    #[arg(long)]
    pub sync: bool,
    /// Keep unfinished files in this folder instead of beside the target.
    #[arg(long, value_name = "DIR")]
    pub temp_dir: Option<PathBuf>,
    /// Give up after N attempts in a row without progress; a silent name server is not retried.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub retries: u32,
    /// Give up on a connection after SECONDS without a byte, or without a complete response head.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = parse_seconds)]
    pub timeout: Duration,
    /// Give up on connecting after SECONDS: name lookup, connect and handshakes together [default:
    /// --timeout].
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub connect_timeout: Option<Duration>,
    /// Drop a connection slower than BYTES a second; 0 allows any rate [default: 10 over --timeout].
    #[arg(short = 'Y', long, value_name = "BYTES", value_parser = parse_speed)]
    pub speed_limit: Option<u64>,
    /// Drop it after SECONDS below --speed-limit [default: 30].
    #[arg(short = 'y', long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub speed_time: Option<Duration>,
    /// Wait at most SECONDS in a row when a server asks for it (Retry-After); beyond that, exit with code 4
    /// and say when to run again.
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = parse_wait)]
    pub max_wait: Duration,

    /// Show a live view on the whole terminal: the pipeline, the rate, connections, files; q ends the run
    /// like Ctrl-C.
    #[arg(long, conflicts_with = "quiet")]
    pub tui: bool,
    /// Fetch only these bytes: FIRST-LAST, FIRST- to the end, -N for the last N. Several ranges, separated by
    /// commas, arrive in one body as the server packs them.
    #[arg(short = 'r', long, value_name = "FIRST-LAST|FIRST-|-N", allow_hyphen_values = true)]
    pub range: Option<Window>,
    /// Options of curl and wget that change nothing here, or that have another name.
    #[command(flatten)]
    pub habits: Habits,
    /// Write the evidence of the verdict, interval by interval, to FILE, for a bug report.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub evidence: Option<PathBuf>,
    /// Output.
    #[command(flatten)]
    pub voice: Voice,
}

/// How much is said.
#[derive(Debug, Args)]
pub struct Voice {
    /// Print one JSON record to stdout.
    #[arg(long)]
    pub json: bool,
    /// Print nothing unless it fails.
    #[arg(short, long)]
    pub quiet: bool,
    /// Print decisions and their reasons; repeat for more.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Write the run as a page with pictures to FILE, as weir report does from a record.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// `-j`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jobs {
    /// weir decides.
    Auto,
    /// This many.
    Fixed(u32),
}

const SERVE_EXAMPLES: &str = "\
Examples:
  weir serve .                                         http://127.0.0.1:8000/, this machine only
  weir serve images --listen 0.0.0.0:8080              to the network
  weir serve . --tls                                   https with a certificate made on the spot
  weir serve . --limit-rate 8M --delay 200ms           a slow server, to see what weir get says of it";

/// `weir serve`.
#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub struct Serve {
    /// The folder to serve; files outside it are never served.
    #[arg(value_name = "DIR")]
    pub root: PathBuf,
    /// Listen here; port 0 picks a free port.
    #[arg(short, long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8000", value_parser = parse_listen)]
    pub listen: Vec<SocketAddr>,
    /// Serve HTTPS, with a fresh self-signed certificate or with --cert and --key.
    #[arg(long)]
    pub tls: bool,
    /// Use this certificate chain (PEM).
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Use this private key (PEM).
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Write the certificate of --tls to FILE, for clients' --cacert.
    #[arg(long, value_name = "FILE", requires = "tls")]
    pub save_cert: Option<PathBuf>,
    /// Limit each connection to RATE (such as 8M).
    #[arg(long, value_name = "RATE")]
    pub limit_rate: Option<Rate>,
    /// Delay the first byte of each response by TIME (such as 200ms).
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub delay: Option<Duration>,
    /// Set the sockets' send buffer (SO_SNDBUF) in BYTES.
    #[arg(long, value_name = "BYTES")]
    pub send_buffer: Option<Bytes>,
    /// Serve at most N connections at a time; the others wait.
    #[arg(long, value_name = "N")]
    pub at_once: Option<usize>,
    /// Hold at most N connections; a new one closes the longest idle one [default: by open files, up to
    /// 4096].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: Option<u32>,
    /// Also answer 'weir bench net', on port 5201 of this machine alone or on ADDR:PORT.
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, require_equals = true, value_parser = parse_listen)]
    pub bench: Option<Option<SocketAddr>>,
    /// Set how much is printed.
    #[command(flatten)]
    pub voice: Voice,
}

const WHY_EXAMPLES: &str = "\
Examples:
  weir why -- wget https://host/image.iso             run it, judge it, pass its exit code on
  weir why --pid 4711 --for 10s                       a running process and its children
  weir why --port 5432 --watch                        everyone's connections with this port, live
  weir why --json -- curl -o x https://host/x         the record on stdout, what curl prints on stderr
  weir why --pcap slow.pcap --port 443                a capture (pcap, pcapng, gzip), made at either end
  tcpdump -s 96 -w - tcp | weir why --pcap -          what tcpdump sees, until it ends
Sockets need no privilege; threads and files of another user need that user or root.";

/// `weir why`.
#[derive(Debug, Args)]
#[command(after_help = WHY_EXAMPLES)]
pub struct Why {
    /// Watch this process and its children.
    #[arg(long, value_name = "PID", value_parser = parse_pid, conflicts_with = "command")]
    pub pid: Option<u32>,
    /// Watch connections with this port at either end.
    #[arg(long, value_name = "PORT", value_parser = parse_port)]
    pub port: Option<u16>,
    /// Watch connections with this host.
    #[arg(long, value_name = "HOST")]
    pub peer: Option<String>,
    /// Judge the TCP connections in this capture instead of live ones; '-' reads stdin.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pid", "command", "watch", "tui"])]
    pub pcap: Option<PathBuf>,
    /// Run this command and watch it.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,

    /// Watch for TIME [default: 10s; a command: until it ends; a capture: all of it].
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    pub span: Option<Duration>,
    /// Print the limit of each second while it runs; q or Ctrl-C ends it.
    #[arg(long)]
    pub watch: bool,
    /// Show a live view on the whole terminal; a command's own output is printed at its end.
    #[arg(long, conflicts_with_all = ["quiet", "watch"])]
    pub tui: bool,
    /// Write the evidence of the verdict, interval by interval, to FILE, for a bug report.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub evidence: Option<PathBuf>,
    /// Output.
    #[command(flatten)]
    pub voice: Voice,
}

/// `weir demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// Play only these scenes.
    #[arg(value_enum)]
    pub scenes: Vec<Scene>,
}

/// A scene of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scene {
    /// A send buffer too small for an emulated path of 100 Mbit/s and 20 ms: verdict, fix, gain.
    SlowPath,
    /// One large file, and the same by curl if it is there.
    Large,
    /// A server that caps each connection.
    Capped,
    /// A disk that is the limit.
    Disk,
    /// 1000 small files.
    Small,
    /// An interrupted download that resumes.
    Resume,
}

fn parse_lanes(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count @ 1..=64) => Ok(count),
        _ => Err("expected a number of connections from 1 to 64 \
                  (to continue a download no flag is needed: give the same command again; curl's -c FILE is --save-cookies FILE)"
            .to_owned()),
    }
}

fn parse_pid(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(number @ 1..) => Ok(number),
        _ => Err("expected the number of a process; pgrep -n NAME finds it".to_owned()),
    }
}

fn parse_port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(port @ 1..) => Ok(port),
        _ => Err("expected a port from 1 to 65535".to_owned()),
    }
}

/// `127.0.0.1:8000`, `[::1]:8000`, `localhost:8000`; `8000` and `:8000` on this machine alone.
fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").or(text.strip_prefix(':')).unwrap_or(text);
    match (port.parse::<u16>(), text.parse()) {
        (Ok(port), _) => Ok(SocketAddr::from(([127, 0, 0, 1], port))),
        (_, Ok(address)) => Ok(address),
        _ => Err("expected ADDRESS:PORT, such as 127.0.0.1:8000, or 0.0.0.0:8000 for the network".to_owned()),
    }
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

/// `30`, `2.5`: seconds.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    match seconds(text, &["", "s"]) {
        Some(seconds) if (0.001..=86400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected seconds, such as 30 or 2.5".to_owned()),
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
fn parse_wait(text: &str) -> Result<Duration, String> {
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

/// `200ms`, `2s`, `2`.
fn parse_time(text: &str) -> Result<Duration, String> {
    match text.ends_with("ms") {
        true => match seconds(text, &["ms"]) {
            Some(seconds) if seconds <= 86_400.0 => Ok(Duration::from_secs_f64(seconds)),
            _ => Err("expected a time, such as 200ms or 2s".to_owned()),
        },
        false => parse_seconds(text),
    }
}

/// A time that is sensible; `expected` says which are.
fn time_within(text: &str, sensible: RangeInclusive<Duration>, expected: &str) -> Result<Duration, String> {
    let time = parse_time(text)?;
    if sensible.contains(&time) { Ok(time) } else { Err(expected.to_owned()) }
}

/// A size that is sensible, in bytes.
pub(crate) fn size_within(
    text: &str,
    sensible: RangeInclusive<u64>,
    expected: &str,
) -> Result<Bytes, String> {
    let size = text.parse::<Bytes>().map_err(|error| error.to_string())?;
    if sensible.contains(&size.0) { Ok(size) } else { Err(expected.to_owned()) }
}

/// `80ms`, `0.1s`: what is as often milliseconds as seconds to people says which.
fn parse_span(text: &str) -> Result<Duration, String> {
    match text.ends_with('s') {
        true => parse_time(text),
        false => Err("expected a time with its unit, such as 80ms or 0.2s".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn lines_that_fingers_know_are_understood() {
        for line in [
            "cp -avz a h:",
            "cp -avzh a h:",
            "cp -rp a h:b",
            "cp -rC a h:b",
            "cp -az --partial --progress --delete a/ h:b/",
            "cp -e ssh -az --bwlimit=1000 a/ h:b/",
            "plan -avzh --partial --progress --delete -e ssh a/ h:b/",
        ] {
            let words = std::iter::once("weir").chain(line.split(' ')).map(Into::into);
            assert!(Cli::try_parse_from(with_command(words)).is_ok(), "{line}");
        }
        for (line, says) in
            [("why --pid curl", "pgrep"), ("why --port x", "65535"), ("plan --link 1Gbit --rtt 80", "80ms")]
        {
            let words = std::iter::once("weir").chain(line.split(' '));
            let said = Cli::try_parse_from(words).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(said.contains(says), "{line}: {said}");
        }
    }

    #[test]
    fn a_port_alone_is_on_this_machine() {
        for text in ["8000", ":8000", "localhost:8000", "127.0.0.1:8000"] {
            assert_eq!(parse_listen(text).unwrap().to_string(), "127.0.0.1:8000", "{text}");
        }
        assert_eq!(parse_listen("[::]:80").unwrap().to_string(), "[::]:80");
        for text in ["", "x", "1.2.3.4", "80000", "host:80"] {
            assert!(parse_listen(text).is_err(), "{text}");
        }
    }

    #[test]
    fn habits_of_curl_and_wget_are_understood() {
        let get = |arguments: &[&str]| {
            let words = ["weir", "http://h/x"].iter().chain(arguments).map(Into::into);
            match Cli::try_parse_from(with_command(words)).unwrap().command {
                Command::Get(get) => get.with_habits(),
                other => panic!("{other:?}"),
            }
        };
        assert!(get(&["-fsSL", "-C", "-"]).unwrap().voice.quiet);
        assert_eq!(get(&["-P", "a/b/"]).unwrap().output, ["a/b/"]);
        assert_eq!(get(&["-A", "me"]).unwrap().headers, ["User-Agent: me"]);
        assert!(get(&["-O"]).unwrap_err().contains("-o FILE"));
        assert!(get(&["-x"]).unwrap().force_directories);
        for other in [&["-x", "16"][..], &["-x", "http://proxy:3128"], &["-x", "proxy:3128"]] {
            assert!(get(other).unwrap_err().contains("--proxy URL"), "{other:?}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
