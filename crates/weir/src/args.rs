//! The command line: one source for parsing, help, man pages and completions.

mod ab;
mod bench;
mod bench_disk;
mod bench_host;
mod bench_http;
mod bench_mem;
mod bench_net;
mod bench_pps;
mod bench_store;
mod copy;
mod fields;
mod first_steps;
mod fleet;
mod fleet_hosts;
mod fleet_kubernetes;
mod fleet_look;
mod fleet_plan;
mod fleet_run;
mod fleet_slurm;
mod fleet_steer;
mod fleet_work;
mod fleet_worker;
mod foreign;
mod foreign_commands;
mod get;
mod get_conflicts;
mod habits;
mod headings;
mod hub;
mod iperf3;
mod lab;
mod login;
mod ls;
mod plan;
mod put;
mod reach;
mod report;
mod rsync;
mod selection;
mod self_check;
mod ssh;
mod store;
mod store_ends;
mod to_hosts;
mod values;
mod what;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use weir_units::Bytes;

use self::headings::OUTPUT;
use crate::schemes;

pub use ab::AbFlags;
pub use bench::{Bench, BenchCipher, BenchCodec, BenchCommand, Generated};
pub use bench_disk::BenchDisk;
pub use bench_host::{BenchHost, Part};
pub use bench_http::{BenchHttp, Dist, LoadFormat, parse_field};
pub use bench_mem::BenchMem;
pub use bench_net::{BenchNet, NetFormat, NetLogin, Test, host_and_device};
pub use bench_pps::{BenchPps, Method, Via};
pub use bench_store::BenchStore;
pub use copy::{Cp, How};
pub use fields::GivenFields;
pub use fleet::{Fleet, FleetCommand};
pub use fleet_hosts::FleetHosts;
pub use fleet_kubernetes::FleetKubernetes;
pub use fleet_look::{ExportFormat, FleetCheck, FleetExport, FleetStatusArgs};
pub use fleet_plan::FleetPlan;
pub use fleet_run::{FleetLauncher, FleetRun};
pub use fleet_slurm::FleetSlurm;
pub use fleet_steer::{FleetRetry, FleetSet, FleetSteer};
pub use fleet_work::FleetWork;
pub use fleet_worker::WorkerArgs;
pub use foreign::{answer, instead, meant, mend};
pub use foreign_commands::{answer as answer_command, mend as mend_command};
pub use get::{Get, Jobs};
pub use get_conflicts::{MAKES_FOLDERS, is_stdout};
pub use hub::HubArgs;
pub use iperf3::is_meant as is_iperf3;
pub use lab::{Lab, LabCommand, LabFidelity, LabGuard, LabRun, LabShell, LabShow};
pub use login::{Certificate, Login};
pub use ls::Ls;
pub use plan::{By, Plan};
pub use put::Put;
pub use reach::ReachFlags;
pub use report::Report;
pub use selection::{Given, Patterns};
pub use self_check::SelfCheck;
pub use ssh::{Ssh, Words};
pub use store::{StoreArgs, StoreNetworkArgs};
pub use store_ends::StoreEndArgs;
pub use to_hosts::ToHosts;
pub(crate) use values::size_within;
use values::{
    RateLimit, parse_lanes, parse_listen, parse_pause, parse_pid, parse_port, parse_rate_limit,
    parse_seconds, parse_span, parse_time, parse_tls_name, time_within,
};
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
    if is_version_in_json(&arguments) {
        arguments = ["weir", "version", "--json"].map(OsString::from).to_vec();
    }
    let is_url =
        |first: &OsString| first.to_str().is_some_and(|text| schemes::is_link(text) || has_port(text));
    let first = arguments.iter().skip(1).take_while(|word| *word == "--no-config").count() + 1;
    if arguments.get(first).is_some_and(is_url) {
        arguments.insert(first, "get".into());
    }
    if arguments.get(first).is_some_and(|word| word == "get") {
        let of_get = arguments.split_off(first);
        arguments.extend(habits::words(of_get));
    }
    if arguments.get(first).is_some_and(|word| word == "cp" || word == "plan") {
        let of_copy = arguments.split_off(first);
        arguments.extend(rsync::words(of_copy));
    }
    arguments
}

/// `HOST:PORT` or `HOST:PORT/PATH`, which no command is called.
fn has_port(text: &str) -> bool {
    let authority = text.split(['/', '?', '#']).next().unwrap_or_default();
    authority
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && !host.starts_with('-') && port.parse::<u16>().is_ok())
}

/// `weir --version --json`, in either order.
fn is_version_in_json(arguments: &[OsString]) -> bool {
    let has = |flags: &[&str]| arguments.iter().skip(1).any(|word| flags.iter().any(|flag| word == flag));
    arguments.len() == 3 && has(&["--version", "-V"]) && has(&["--json"])
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
// An alias or a script gives a flag, and the command line gives it again: the last one counts.
#[command(args_override_self = true)]
pub struct Cli {
    /// Read no configuration file (~/.config/weir/config).
    #[arg(long, global = true, display_order = 1000)]
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
    /// Upload files, folders or a stream to an object store or by plain PUT, in parts where it helps,
    /// resumable, verified.
    Put(Box<Put>),
    /// Copy files and folders between hosts, started over ssh, over connections of its own, encrypted and
    /// verified.
    Cp(Box<Cp>),
    /// Move objects with many workers and hosts, each exactly once, from a plan in a ledger.
    Fleet(Fleet),
    /// List what an object store holds: buckets, folders, objects, versions.
    Ls(Box<Ls>),
    /// Run the remote end of cp, or a worker of fleet run, which these start themselves.
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
    /// Predict a transfer: which codec, transport, buffers and connections for this path and data, and what
    /// would limit it.
    Plan(Box<Plan>),
    /// Emulate a slow path on this machine, without touching its network.
    Lab(Lab),
    /// Draw records (the output of --json) as one page with pictures, or compare two.
    Report(Report),
    /// Measure one stage alone: codecs, ciphers, the network, HTTP servers, a host and its path.
    Bench(Bench),
    /// Check what this host allows, what each missing feature costs, and how to get it.
    SelfCheck(SelfCheck),
    /// Print the version; with --json also features, protocols and formats.
    Version(Version),
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
    /// The same with the flags of other programs turned into weir's own; says what cannot be understood.
    pub fn with_habits(self) -> Result<Command, String> {
        Ok(match self {
            Command::Get(get) => Command::Get(Box::new(get.with_habits()?)),
            Command::Cp(mut cp) => {
                cp.what.archive = cp.always.archive(cp.what.archive)?;
                Command::Cp(cp)
            }
            Command::Plan(mut plan) => {
                plan.what.archive = plan.of_copies.always.archive(plan.what.archive)?;
                Command::Plan(plan)
            }
            other => other,
        })
    }

    /// Why its flags cannot be meant together, where clap takes them all.
    pub fn contradicts(&self) -> Option<String> {
        match self {
            Command::Get(get) => get.contradicts(),
            _ => None,
        }
    }

    /// How a command that has a record speaks.
    pub fn voice(&self) -> Option<&Voice> {
        match self {
            Command::Get(get) => Some(&get.voice),
            Command::Put(put) => Some(&put.voice),
            Command::Cp(cp) => Some(&cp.voice),
            Command::Why(why) => Some(&why.voice),
            Command::Plan(plan) => Some(&plan.voice),
            Command::Lab(Lab { command: LabCommand::Run(run) }) => Some(&run.voice),
            Command::Bench(bench) => Some(bench.command.voice()),
            Command::SelfCheck(check) => Some(&check.voice),
            Command::Fleet(Fleet { command: FleetCommand::Work(work) }) => Some(&work.voice),
            Command::Fleet(Fleet { command: FleetCommand::Run(run) }) => Some(&run.voice),
            Command::Ls(_)
            | Command::Fleet(_)
            | Command::Peer { .. }
            | Command::Serve(_)
            | Command::Demo(_)
            | Command::Lab(_) => None,
            Command::Report(_) | Command::Version(_) => None,
            Command::Completions { .. } | Command::Man { .. } => None,
        }
    }
}

/// `weir version`.
#[derive(Debug, Args)]
pub struct Version {
    /// Print one JSON object: features, codecs, ciphers, digests, protocol numbers, formats, target.
    #[arg(long)]
    pub json: bool,
}

/// How much is said.
#[derive(Debug, Args)]
#[command(next_help_heading = OUTPUT)]
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
    /// The folder to serve; files outside it are never served without --follow-links.
    #[arg(value_name = "DIR")]
    pub root: PathBuf,
    /// Listen here; port 0 picks a free port.
    #[arg(short, long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8000", value_parser = parse_listen)]
    pub listen: Vec<SocketAddr>,
    /// Follow symbolic links that lead out of the folder.
    #[arg(long)]
    pub follow_links: bool,
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
    #[arg(long, value_name = "FILE", requires = "tls", conflicts_with = "cert")]
    pub save_cert: Option<PathBuf>,
    /// Make the certificate of --tls for NAME too, a host name or an address; repeatable.
    #[arg(long, value_name = "NAME", requires = "tls", conflicts_with = "cert", value_parser = parse_tls_name)]
    pub tls_name: Vec<String>,
    /// Limit each connection to RATE (such as 8M), 0 for no limit.
    #[arg(long, value_name = "RATE", default_value = "0", hide_default_value = true, value_parser = parse_rate_limit)]
    pub limit_rate: RateLimit,
    /// Delay the first byte of each response by TIME (such as 200ms).
    #[arg(long, value_name = "TIME", value_parser = parse_pause)]
    pub delay: Option<Duration>,
    /// Set the sockets' send buffer (SO_SNDBUF) in BYTES.
    #[arg(long, value_name = "BYTES")]
    pub send_buffer: Option<Bytes>,
    /// Serve at most N connections at a time; the others wait.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub at_once: Option<u32>,
    /// Hold at most N connections; a new one closes the longest idle one [default: by open files, up to
    /// 4096].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: Option<u32>,
    /// Let answers under way take TIME once told to end.
    // Small files end in that time, and docker stop, which waits for 10 s, does not cut them. Who downloads
    // for longer goes on from another run.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_pause)]
    pub drain: Duration,
    /// Also answer 'weir bench net', on port 5201 of this machine alone or on ADDR:PORT.
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, require_equals = true, value_parser = parse_listen)]
    pub bench: Option<Option<SocketAddr>>,
    /// Print nothing unless it fails.
    // Not `Voice`: a server has no run to make a record or a page of.
    #[arg(short, long, help_heading = OUTPUT)]
    pub quiet: bool,
    /// Print decisions and their reasons; repeat for more.
    #[arg(short, long, action = clap::ArgAction::Count, help_heading = OUTPUT)]
    pub verbose: u8,
}

const WHY_EXAMPLES: &str = "\
Examples:
  weir why -- wget https://host/image.iso             run it, judge it, pass its exit code on
  weir why --pid 4711 --for 10s                       a running process and its children
  weir why --port 5432 --watch                        everyone's connections with this port, live
  weir why --json -- curl -o x https://host/x         the record on stdout, what curl prints on stderr
  weir why --pcap slow.pcap --port 443                a capture (pcap, pcapng, gzip), made at either end
  tcpdump -s 128 -w - tcp | weir why --pcap -         what tcpdump sees, until it ends
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
        for (given, sent) in [
            (&["-A", "me"][..], &[("User-Agent", "me")][..]),
            (&["-A", "me", "-H", "user-agent: you"], &[("user-agent", "you")]),
            (&["-A", "me", "-H", "User-Agent:"], &[]),
        ] {
            let fields = get(given).unwrap().fields().unwrap().sent;
            let fields: Vec<(&str, &str)> = fields.iter().map(|(name, text)| (&**name, &**text)).collect();
            assert_eq!(fields, sent, "{given:?}");
        }
        assert!(get(&["-O"]).unwrap_err().contains("-o FILE"));
        assert!(get(&["-x"]).unwrap().force_directories);
        for other in [&["-x", "16"][..], &["-x", "http://proxy:3128"], &["-x", "proxy:3128"]] {
            assert!(get(other).unwrap_err().contains("--proxy URL"), "{other:?}");
        }
    }

    #[test]
    fn advice_can_name_as_many_connections_as_are_taken_and_no_more() {
        use weir_model::evidence::Command as Moves;

        for (line, moves) in [
            ("get http://h/x -c", Moves::Get),
            ("get http://h/x -j", Moves::Get),
            ("put a s3://b/x -c", Moves::Get),
            ("put a s3://b/x -j", Moves::Get),
            ("cp a s3://b/x -c", Moves::StoreCopy),
            ("cp a h:b -c", Moves::HostCopy),
        ] {
            let takes = |count: u32| {
                let count = count.to_string();
                let words = std::iter::once("weir").chain(line.split(' ')).chain([count.as_str()]);
                Cli::try_parse_from(words).is_ok()
            };
            let most = moves.most_lanes();
            assert!(takes(most) && !takes(most + 1), "{line} {most}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
