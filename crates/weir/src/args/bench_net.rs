//! `weir bench net`: iperf3's flags, and a few of weir's own.

mod values;

use std::ffi::CString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use weir_bench_net::KeepAlive;
use weir_bench_net::asked::Kind;
use weir_bench_net::transactions::confidence::Goal;
use weir_units::Bytes;

use super::Voice;
use values::{
    parse_address, parse_affinity, parse_bind, parse_bits, parse_bytes_or_none, parse_ci, parse_dscp,
    parse_flow_label, parse_format, parse_interval, parse_keep_alive, parse_limit, parse_micros, parse_omit,
    parse_repeats, parse_segment, parse_sizes, parse_test_seconds, parse_timestamps, parse_tos,
};

pub use values::{AddressAndPort, Affinity, Bits, Bound, NetFormat, RateLimit, host_and_device};

const BENCH_NET_EXAMPLES: &str = "\
Examples:
  weir bench net -s                                   a server, for this machine alone
  weir bench net -s --listen 0.0.0.0                  the same for the network
  weir bench net -c host.example                      ten seconds of TCP to it, and what limits it
  weir bench net -c host.example -R -P 4 -t 30        from it, over four streams
  weir bench net -c host.example -u -b 100M -l 1200   UDP at 100 Mbit/s: loss, order, jitter
  weir bench net -c host.example -J | jq .end         iperf3's own JSON
  weir bench net -c host.example --rr --ci 99,5       requests and responses with another weir, until their rate is sure
  weir bench net -c host.example | grep receiver      where no terminal reads it, iperf3's own lines
Both ends speak iperf3's protocol: the other may be iperf3 3.9 or later. Numbers are as there: -b in bits per second with K, M, G
of 1000; -n, -l, -w in bytes with K, M, G of 1024 (or 10MB, 4MiB, 100Mbit as elsewhere in weir). Of an option that is given twice
the last one counts. A link to weir named iperf3 is iperf3, flag for flag.";

/// `weir bench net`.
#[derive(Debug, Args)]
#[command(after_help = BENCH_NET_EXAMPLES, args_override_self = true, infer_long_args = true)]
#[command(group(ArgGroup::new("role").required(true).args(["server", "client", "iperf3_version"])))]
pub struct BenchNet {
    /// Be the server: on 127.0.0.1 and ::1 unless --listen or -B says otherwise.
    #[arg(short, long)]
    pub server: bool,
    /// Be the client of this server, through the interface DEVICE if it is named.
    #[arg(short, long, value_name = "HOST[%DEVICE]")]
    pub client: Option<String>,
    /// The server's port.
    #[arg(short, long, value_name = "PORT", default_value_t = 5201)]
    pub port: u16,
    /// This end's address; of a server the one to listen on.
    #[arg(short = 'B', long, value_name = "ADDRESS[%DEVICE]", value_parser = parse_bind)]
    pub bind: Option<Bound>,
    /// Use this interface alone (SO_BINDTODEVICE).
    #[arg(long, value_name = "DEVICE")]
    pub bind_dev: Option<String>,
    /// IPv4 only.
    #[arg(short = '4', long = "version4", overrides_with = "v6")]
    pub v4: bool,
    /// Use IPv6 only.
    #[arg(short = '6', long = "version6", overrides_with = "v4")]
    pub v6: bool,
    /// Print a line every SECONDS; 0 prints none.
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    pub interval: Duration,
    /// Print iperf3's JSON.
    #[arg(short = 'J', long = "iperf3-json", conflicts_with = "json")]
    pub iperf3_json: bool,
    /// Print iperf3's JSON as a stream, one event a line.
    #[arg(long, conflicts_with = "json")]
    pub json_stream: bool,
    /// Also print the complete JSON at the end.
    #[arg(long, requires = "json_stream")]
    pub json_stream_full_output: bool,
    /// Print rates in this unit (k, m, g, t for bits, K, M, G, T for bytes per second), or the lines of
    /// iperf3 or weir [default: weir's on a terminal, iperf3's elsewhere]. Both may be given.
    #[arg(short, long, value_name = "UNIT|iperf3|weir", value_parser = parse_format)]
    pub format: Vec<NetFormat>,
    /// Add versions, cookie, segment size, processor time and congestion control to iperf3's lines.
    #[arg(short = 'V')]
    pub wordy: bool,
    /// Begin each of iperf3's lines with the time, in strftime's FORMAT [default: '%c '].
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "%c ",
        hide_default_value = true, value_parser = parse_timestamps)]
    pub timestamps: Option<CString>,
    /// Copy what arrives into this program's memory, as most programs must; by default the kernel drops it
    /// (TCP).
    #[arg(long, overrides_with = "skip_rx_copy")]
    pub copy: bool,
    /// Skip that copy at the other end too, if that is iperf3.
    #[arg(long, overrides_with = "copy", conflicts_with = "server")]
    pub skip_rx_copy: bool,
    /// Send pages of the kernel (sendfile) instead of copying from this program's memory (TCP).
    #[arg(short = 'Z', long)]
    pub zerocopy: bool,
    /// Send and take datagrams one by one, without segmentation offload.
    #[arg(long = "no-gso")]
    pub no_gso: bool,
    /// Bundle datagrams at the other end too, if that is iperf3.
    #[arg(long, conflicts_with_all = ["server", "no_gso"])]
    pub gsro: bool,
    /// Show a live view of the client on the whole terminal; the interval lines are printed at its end.
    #[arg(long, conflicts_with_all = ["quiet", "server"])]
    pub tui: bool,
    /// End a test after MS milliseconds without data (a client: only if it receives) [default: 120000].
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(100..=86_400_000))]
    pub rcv_timeout: Option<u32>,
    /// End a connection after MS milliseconds without an acknowledgement (TCP_USER_TIMEOUT); 0 uses the
    /// system's default.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(0..=86_400_000))]
    pub snd_timeout: Option<u32>,
    /// Probe the idle control connection: seconds before the first probe, seconds between probes, unanswered
    /// probes that end it.
    #[arg(long = "cntl-ka", value_name = "IDLE/INTERVAL/COUNT", num_args = 0..=1, require_equals = true,
        default_missing_value = "", value_parser = parse_keep_alive)]
    pub keep_alive: Option<KeepAlive>,
    /// Use Multipath TCP; a server accepts it anyway.
    #[arg(short = 'm', long)]
    pub mptcp: bool,
    /// Run on processor N; a client's M is for the server's streams.
    #[arg(short = 'A', long, value_name = "N[,M]", value_parser = parse_affinity)]
    pub affinity: Option<Affinity>,
    /// Append all output, errors included, to FILE.
    #[arg(long, value_name = "FILE")]
    pub logfile: Option<PathBuf>,
    /// Write the process id to FILE while it runs.
    #[arg(short = 'I', long, value_name = "FILE")]
    pub pidfile: Option<PathBuf>,
    /// Log the protocol; LEVEL 1 logs less.
    #[arg(short = 'd', long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "4")]
    pub debug: Option<u8>,
    /// Always on; accepted for compatibility.
    #[arg(long)]
    pub forceflush: bool,
    /// What a link named iperf3 adds.
    #[arg(long, hide = true)]
    pub as_iperf3: bool,
    /// Likewise for its -v.
    #[arg(long, hide = true)]
    pub iperf3_version: bool,
    /// What -D starts.
    #[arg(long, hide = true, conflicts_with = "client")]
    pub detached: bool,
    /// The test.
    #[command(flatten)]
    pub test: Test,
    /// Requests and responses.
    #[command(flatten)]
    pub transactions: Transactions,
    /// The server's bounds.
    #[command(flatten)]
    pub bounds: Bounds,
    /// Who asks.
    #[command(flatten)]
    pub login: NetLogin,
    /// Output.
    #[command(flatten)]
    pub voice: Voice,
}

/// What a client asks for.
#[derive(Debug, Args)]
#[command(next_help_heading = "Client")]
pub struct Test {
    /// Use UDP instead of TCP.
    #[arg(short, long, conflicts_with = "server")]
    pub udp: bool,
    /// Limit each stream to RATE bits per second, or RATE/BURST; 0 removes the limit [default: 1M for UDP,
    /// none for TCP].
    #[arg(short, long = "bitrate", visible_alias = "bandwidth", value_name = "RATE", value_parser = parse_bits, conflicts_with = "server")]
    pub bitrate: Option<Bits>,
    /// Let the kernel pace each stream at RATE bits per second.
    #[arg(long, value_name = "RATE", value_parser = parse_bits, conflicts_with = "server")]
    pub fq_rate: Option<Bits>,
    /// Measure for SECONDS [default: 10]; 0 runs until interrupted.
    #[arg(short, long, value_name = "SECONDS", value_parser = parse_test_seconds, conflicts_with = "server")]
    pub time: Option<u32>,
    /// Send this many bytes instead; 0 removes the limit.
    #[arg(short = 'n', long, value_name = "BYTES", value_parser = parse_bytes_or_none, conflicts_with = "server")]
    pub bytes: Option<u64>,
    /// Send this many blocks instead; 0 removes the limit.
    #[arg(short = 'k', long, value_name = "BLOCKS", value_parser = parse_bytes_or_none, conflicts_with = "server")]
    pub blockcount: Option<u64>,
    /// Omit the first SECONDS from the result.
    #[arg(short = 'O', long, value_name = "SECONDS", default_value = "0", value_parser = parse_omit)]
    pub omit: u32,
    /// Run N streams each way.
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub parallel: u32,
    /// Let the server send.
    #[arg(short = 'R', long, conflicts_with_all = ["bidir", "server"])]
    pub reverse: bool,
    /// Let both ends send.
    #[arg(long, conflicts_with = "server")]
    pub bidir: bool,
    /// Write or send BYTES at a time [default: weir's own for TCP; one packet for UDP].
    #[arg(short, long, value_name = "BYTES", value_parser = parse_bytes_or_none, conflicts_with = "server")]
    pub length: Option<u64>,
    /// Set the socket buffers of both ends in BYTES.
    #[arg(short, long, value_name = "BYTES", value_parser = parse_bytes_or_none, conflicts_with = "server")]
    pub window: Option<u64>,
    /// Ask for this TCP segment size in BYTES.
    #[arg(short = 'M', long = "set-mss", value_name = "BYTES", value_parser = parse_segment, conflicts_with = "server")]
    pub segment: Option<u32>,
    /// Set TCP_NODELAY.
    #[arg(short = 'N', long, conflicts_with = "server")]
    pub no_delay: bool,
    /// Use this congestion control at both ends: cubic, bbr.
    #[arg(
        short = 'C',
        long,
        visible_alias = "linux-congestion",
        value_name = "NAME",
        conflicts_with = "server"
    )]
    pub congestion: Option<String>,
    /// Set the IP type of service, 0 to 255, also as 0x10 or 020.
    #[arg(short = 'S', long, value_name = "N", value_parser = parse_tos, overrides_with = "dscp", conflicts_with = "server")]
    pub tos: Option<u8>,
    /// Set the DSCP class: 0 to 63, or a name such as ef, af41, cs6.
    #[arg(long, value_name = "CLASS", value_parser = parse_dscp, overrides_with = "tos", conflicts_with = "server")]
    pub dscp: Option<u8>,
    /// Set the IPv6 flow label of the client's connections, 1 to 0xfffff.
    #[arg(short = 'L', long = "flowlabel", value_name = "N", value_parser = parse_flow_label, conflicts_with = "server")]
    pub flow_label: Option<u32>,
    /// Forbid fragmentation of IPv4 datagrams.
    #[arg(long, conflicts_with = "server")]
    pub dont_fragment: bool,
    /// Send digits again and again instead of random bytes.
    #[arg(long, conflicts_with = "server")]
    pub repeating_payload: bool,
    /// Use this local port for the first data connection, and the next ones for the others.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), conflicts_with = "server")]
    pub cport: Option<u16>,
    /// Set the pacing timer of servers that use one, in microseconds; weir itself needs none.
    #[arg(long, value_name = "MICROS", value_parser = parse_micros, conflicts_with = "server")]
    pub pacing_timer: Option<u32>,
    /// Deprecated in iperf3; accepted for compatibility, as --fq-rate 0.
    #[arg(long, hide = true, overrides_with = "fq_rate", conflicts_with = "server")]
    pub no_fq_socket_pacing: bool,
    /// Begin each line with TEXT.
    #[arg(short = 'T', long, value_name = "TEXT", conflicts_with = "server")]
    pub title: Option<String>,
    /// Add TEXT to iperf3's JSON.
    #[arg(long, value_name = "TEXT", conflicts_with = "server")]
    pub extra_data: Option<String>,
    /// Also print the server's report.
    #[arg(long, conflicts_with = "server")]
    pub get_server_output: bool,
    /// Use 64-bit datagram counters.
    #[arg(long = "udp-counters-64bit", conflicts_with = "server")]
    pub wide_counters: bool,
    /// Give up on connecting after MS milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 10_000, conflicts_with = "server")]
    pub connect_timeout: u64,
}

/// What only two weirs do.
#[derive(Debug, Args)]
#[command(next_help_heading = "Requests and responses, between two weirs")]
#[command(group(ArgGroup::new("transactions").args(["rr", "crr"])
    .conflicts_with_all(["server", "udp", "reverse", "bidir", "bytes", "blockcount", "omit", "bitrate", "length",
        "iperf3_json", "zerocopy", "copy", "get_server_output"])))]
pub struct Transactions {
    /// Measure requests and responses in turn: transactions per second, latency, processor time at both ends.
    #[arg(long)]
    pub rr: bool,
    /// Measure the same with a new connection for each request, on a separate port of the server.
    #[arg(long)]
    pub crr: bool,
    /// Set the size of a request and of a response in bytes.
    #[arg(long, value_name = "REQUEST,RESPONSE", default_value = "1,1", value_parser = parse_sizes, requires = "transactions")]
    pub sizes: Sizes,
    /// Repeat until the mean has this confidence: 99,5 means 99 % within an interval 5 % wide.
    #[arg(long, value_name = "LEVEL,WIDTH", value_parser = parse_ci, requires = "transactions")]
    pub ci: Option<Goal>,
    /// Make at least and at most this many runs [default: 3,30 with --ci, else one], each of -t seconds
    /// [default: 1 with several].
    #[arg(long, value_name = "LEAST,MOST", value_parser = parse_repeats, requires = "transactions")]
    pub repeats: Option<Repeated>,
}

/// Bytes of a request and of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// From the client.
    pub request: u32,
    /// From the server.
    pub response: u32,
}

/// How often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeated {
    /// At least.
    pub least: u32,
    /// At most.
    pub most: u32,
}

impl Transactions {
    /// What is asked for; `None` for streams.
    pub fn kind(&self) -> Option<Kind> {
        match (self.rr, self.crr) {
            (true, _) => Some(Kind::Exchange),
            (_, true) => Some(Kind::Connect),
            _ => None,
        }
    }

    /// There may be several runs.
    pub fn repeats(&self) -> bool {
        self.ci.is_some() || self.repeats.is_some_and(|repeats| repeats.most > 1)
    }
}

/// What a server allows.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub struct Bounds {
    /// Listen on ADDRESS or ADDRESS:PORT; 0.0.0.0 and :: open it to the network [default: this machine only].
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address, conflicts_with_all = ["client", "bind"])]
    pub listen: Vec<AddressAndPort>,
    /// Go into the background once it listens.
    #[arg(short = 'D', long, conflicts_with = "client")]
    pub daemon: bool,
    /// With -1: end after SECONDS without a client.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400), conflicts_with = "client")]
    pub idle_timeout: Option<u32>,
    /// End after one test.
    #[arg(short = '1', long, conflicts_with = "client")]
    pub one_off: bool,
    /// Serve at most N tests at once.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1000), conflicts_with = "client")]
    pub max_clients: u16,
    /// Limit one test to SECONDS; 0 removes the limit [default: 3600].
    #[arg(long, visible_alias = "server-max-duration", value_name = "SECONDS", value_parser = parse_test_seconds, conflicts_with = "client")]
    pub max_time: Option<u32>,
    /// Limit one test to BYTES; 0 removes the limit [default: 10TB].
    #[arg(long, value_name = "BYTES", conflicts_with = "client")]
    pub max_bytes: Option<Bytes>,
    /// Limit the bits per second that one test may ask for, or move on average over SECONDS [default: 5].
    #[arg(long, visible_alias = "server-bitrate-limit", value_name = "RATE[/SECONDS]", value_parser = parse_limit, conflicts_with = "client")]
    pub max_bitrate: Option<RateLimit>,
}

/// iperf3's authentication.
#[derive(Debug, Args)]
#[command(next_help_heading = "Who asks")]
pub struct NetLogin {
    /// Log in as this user; the password comes from IPERF3_PASSWORD or a prompt.
    #[arg(long, value_name = "USER", requires = "public_key", conflicts_with = "server")]
    pub username: Option<String>,
    /// Read the server's public key from FILE (PEM).
    #[arg(
        long = "rsa-public-key-path",
        value_name = "FILE",
        requires = "username",
        conflicts_with = "server"
    )]
    pub public_key: Option<PathBuf>,
    /// Read the server's private key from FILE (PEM without a passphrase).
    #[arg(long = "rsa-private-key-path", value_name = "FILE", requires = "users", conflicts_with = "client")]
    pub private_key: Option<PathBuf>,
    /// Read the users from FILE: lines of user,sha256 of "{user}password".
    #[arg(
        long = "authorized-users-path",
        value_name = "FILE",
        requires = "private_key",
        conflicts_with = "client"
    )]
    pub users: Option<PathBuf>,
    /// Use the padding of iperf3 before 3.17.
    #[arg(long = "use-pkcs1-padding")]
    pub pkcs1: bool,
    /// Accept a client's clock that is off by up to SECONDS.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, conflicts_with = "client")]
    pub time_skew_threshold: u32,
}
