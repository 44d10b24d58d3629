//! `weir bench net`: iperf3's flags, and a few of weir's own.

mod values;

use std::ffi::CString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use weir_net::KeepAlive;
use weir_net::transactions::Kind;
use weir_net::transactions::confidence::Goal;
use weir_units::Bytes;

use super::Voice;
use values::{
    parse_address, parse_affinity, parse_bind, parse_bits, parse_bytes_or_none, parse_ci, parse_dscp,
    parse_flow_label, parse_format, parse_interval, parse_keep_alive, parse_limit, parse_micros, parse_omit,
    parse_repeats, parse_segment, parse_sizes, parse_test_seconds, parse_timestamps, parse_tos,
};

pub use values::{Affinity, Bits, Bound, NetFormat, Place, RateLimit, host_and_device};

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
    /// IPv6 only.
    #[arg(short = '6', long = "version6", overrides_with = "v4")]
    pub v6: bool,
    /// Seconds between two lines; 0 for none [default: 1].
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    pub interval: Duration,
    /// Print iperf3's own JSON, for scripts that read it.
    #[arg(short = 'J', long = "iperf3-json", conflicts_with = "json")]
    pub iperf3_json: bool,
    /// Print iperf3's JSON as it comes, an event a line.
    #[arg(long, conflicts_with = "json")]
    pub json_stream: bool,
    /// Print the whole JSON after that too.
    #[arg(long, requires = "json_stream")]
    pub json_stream_full_output: bool,
    /// Print rates in this unit: k, m, g, t for bits, K, M, G, T for bytes per second; or print iperf3's
    /// lines or weir's (iperf3, weir) instead of weir's on a terminal and iperf3's elsewhere. Both may be
    /// given.
    #[arg(short, long, value_name = "UNIT|iperf3|weir", value_parser = parse_format)]
    pub format: Vec<NetFormat>,
    /// Say more in iperf3's lines: versions, cookie, segment, processor time, congestion control.
    #[arg(short = 'V')]
    pub wordy: bool,
    /// Begin each of iperf3's lines with the time, in strftime's FORMAT [default: '%c '].
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "%c ",
        hide_default_value = true, value_parser = parse_timestamps)]
    pub timestamps: Option<CString>,
    /// Copy what arrives into this program's memory, as most programs must; by default the kernel drops it (TCP).
    #[arg(long, overrides_with = "skip_rx_copy")]
    pub copy: bool,
    /// Leave that copy out at the other end too, if it is iperf3's.
    #[arg(long, overrides_with = "copy", conflicts_with = "server")]
    pub skip_rx_copy: bool,
    /// Send pages that the kernel has (sendfile) instead of copying them out of this program's memory (TCP).
    #[arg(short = 'Z', long)]
    pub zerocopy: bool,
    /// Send and take datagrams one by one, without segmentation offload.
    #[arg(long = "no-gso")]
    pub no_gso: bool,
    /// Bundle datagrams at the other end too, if it is iperf3's.
    #[arg(long, conflicts_with_all = ["server", "no_gso"])]
    pub gsro: bool,
    /// Fill the terminal with a live view of the client's end; the lines of the intervals are printed when that is over.
    #[arg(long, conflicts_with_all = ["quiet", "server"])]
    pub tui: bool,
    /// End a test when no data came for so many milliseconds (of a client: that receives) [default: 120000].
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(100..=86_400_000))]
    pub rcv_timeout: Option<u32>,
    /// End a connection whose data were not acknowledged for so many milliseconds (TCP_USER_TIMEOUT); 0
    /// leaves it to the system.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(0..=86_400_000))]
    pub snd_timeout: Option<u32>,
    /// Probe the idle control connection (seconds before the first probe, seconds between two, unanswered
    /// ones that end it).
    #[arg(long = "cntl-ka", value_name = "IDLE/INTERVAL/COUNT", num_args = 0..=1, require_equals = true,
        default_missing_value = "", value_parser = parse_keep_alive)]
    pub keep_alive: Option<KeepAlive>,
    /// Multipath TCP; a server takes it anyway.
    #[arg(short = 'm', long)]
    pub mptcp: bool,
    /// Run on this processor; of a client the second is for the server's streams.
    #[arg(short = 'A', long, value_name = "N[,M]", value_parser = parse_affinity)]
    pub affinity: Option<Affinity>,
    /// Append what is printed, errors too, to FILE.
    #[arg(long, value_name = "FILE")]
    pub logfile: Option<PathBuf>,
    /// Write the process's number into FILE for as long as it runs.
    #[arg(short = 'I', long, value_name = "FILE")]
    pub pidfile: Option<PathBuf>,
    /// Log what the protocol does; LEVEL 1 says less.
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
    /// UDP instead of TCP.
    #[arg(short, long, conflicts_with = "server")]
    pub udp: bool,
    /// Bits per second and stream, as RATE or RATE/BURST; 0 for no limit [default: 1M for UDP, none for TCP].
    #[arg(short, long = "bitrate", visible_alias = "bandwidth", value_name = "RATE", value_parser = parse_bits, conflicts_with = "server")]
    pub bitrate: Option<Bits>,
    /// Let the kernel pace each stream at so many bits per second.
    #[arg(long, value_name = "RATE", value_parser = parse_bits, conflicts_with = "server")]
    pub fq_rate: Option<Bits>,
    /// Seconds that count [default: 10]; 0 without end.
    #[arg(short, long, value_name = "SECONDS", value_parser = parse_test_seconds, conflicts_with = "server")]
    pub time: Option<u32>,
    /// Send so many bytes instead; 0 for no such limit.
    #[arg(short = 'n', long, value_name = "BYTES", value_parser = parse_bytes_or_none, conflicts_with = "server")]
    pub bytes: Option<u64>,
    /// Send so many blocks instead; 0 for no such limit.
    #[arg(short = 'k', long, value_name = "BLOCKS", value_parser = parse_bytes_or_none, conflicts_with = "server")]
    pub blockcount: Option<u64>,
    /// Leave out the first seconds.
    #[arg(short = 'O', long, value_name = "SECONDS", default_value = "0", value_parser = parse_omit)]
    pub omit: u32,
    /// Streams each way.
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub parallel: u32,
    /// The server sends.
    #[arg(short = 'R', long, conflicts_with_all = ["bidir", "server"])]
    pub reverse: bool,
    /// Both send.
    #[arg(long, conflicts_with = "server")]
    pub bidir: bool,
    /// Bytes of one write or datagram [default: weir's own for TCP; for UDP what one packet takes].
    #[arg(short, long, value_name = "BYTES", value_parser = parse_bytes_or_none, conflicts_with = "server")]
    pub length: Option<u64>,
    /// Socket buffers of both ends.
    #[arg(short, long, value_name = "BYTES", value_parser = parse_bytes_or_none, conflicts_with = "server")]
    pub window: Option<u64>,
    /// Segment size to ask for.
    #[arg(short = 'M', long = "set-mss", value_name = "BYTES", value_parser = parse_segment, conflicts_with = "server")]
    pub segment: Option<u32>,
    /// TCP_NODELAY.
    #[arg(short = 'N', long, conflicts_with = "server")]
    pub no_delay: bool,
    /// Congestion control of both ends: cubic, bbr.
    #[arg(
        short = 'C',
        long,
        visible_alias = "linux-congestion",
        value_name = "NAME",
        conflicts_with = "server"
    )]
    pub congestion: Option<String>,
    /// IP type of service, 0 to 255, also as 0x10 or 020.
    #[arg(short = 'S', long, value_name = "N", value_parser = parse_tos, overrides_with = "dscp", conflicts_with = "server")]
    pub tos: Option<u8>,
    /// The same by its class: 0 to 63, or a name such as ef, af41, cs6.
    #[arg(long, value_name = "CLASS", value_parser = parse_dscp, overrides_with = "tos", conflicts_with = "server")]
    pub dscp: Option<u8>,
    /// IPv6 flow label, 1 to 0xfffff, of the client's connections.
    #[arg(short = 'L', long = "flowlabel", value_name = "N", value_parser = parse_flow_label, conflicts_with = "server")]
    pub flow_label: Option<u32>,
    /// Never fragment datagrams of IPv4 on their way.
    #[arg(long, conflicts_with = "server")]
    pub dont_fragment: bool,
    /// Send digits again and again instead of random bytes.
    #[arg(long, conflicts_with = "server")]
    pub repeating_payload: bool,
    /// The own port of the first data connection; the others have those after it.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), conflicts_with = "server")]
    pub cport: Option<u16>,
    /// Microseconds between two looks at the rate, of servers that go by a timer; weir sends when it is due.
    #[arg(long, value_name = "MICROS", value_parser = parse_micros, conflicts_with = "server")]
    pub pacing_timer: Option<u32>,
    /// Deprecated in iperf3; accepted for compatibility, as --fq-rate 0.
    #[arg(long, hide = true, overrides_with = "fq_rate", conflicts_with = "server")]
    pub no_fq_socket_pacing: bool,
    /// Before each line.
    #[arg(short = 'T', long, value_name = "TEXT", conflicts_with = "server")]
    pub title: Option<String>,
    /// Into iperf3's JSON.
    #[arg(long, value_name = "TEXT", conflicts_with = "server")]
    pub extra_data: Option<String>,
    /// Print the server's report too.
    #[arg(long, conflicts_with = "server")]
    pub get_server_output: bool,
    /// Count datagrams in 64 bits.
    #[arg(long = "udp-counters-64bit", conflicts_with = "server")]
    pub wide_counters: bool,
    /// How long a connection may take, milliseconds.
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
    /// A request and its response, again and again: transactions per second, latency, processor time at both ends.
    #[arg(long)]
    pub rr: bool,
    /// A connection, a request and its response, again and again; the server takes them on a port of their own.
    #[arg(long)]
    pub crr: bool,
    /// Bytes of a request and of a response.
    #[arg(long, value_name = "REQUEST,RESPONSE", default_value = "1,1", value_parser = parse_sizes, requires = "transactions")]
    pub sizes: Sizes,
    /// Repeat until the mean is so sure: 99,5 is a 99 % confidence in an interval 5 % of it wide.
    #[arg(long, value_name = "LEVEL,WIDTH", value_parser = parse_ci, requires = "transactions")]
    pub ci: Option<Goal>,
    /// Runs, at least and at most [default: 3,30 with --ci, else one]; each of -t seconds [default: 1 with several].
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
    /// Listen here, or on ADDRESS:PORT; 0.0.0.0 and :: are the network.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address, conflicts_with_all = ["client", "bind"])]
    pub listen: Vec<Place>,
    /// Serve in the background, once it listens.
    #[arg(short = 'D', long, conflicts_with = "client")]
    pub daemon: bool,
    /// With -1: end without a client after so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400), conflicts_with = "client")]
    pub idle_timeout: Option<u32>,
    /// End after one test.
    #[arg(short = '1', long, conflicts_with = "client")]
    pub one_off: bool,
    /// Tests at once.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1000), conflicts_with = "client")]
    pub max_clients: u16,
    /// Seconds of one test, at most.
    #[arg(long, visible_alias = "server-max-duration", value_name = "SECONDS", value_parser = parse_test_seconds, default_value = "3600", conflicts_with = "client")]
    pub max_time: u32,
    /// Bytes of one test, at most [default: 10 TB].
    #[arg(long, value_name = "BYTES", default_value = "10TB", conflicts_with = "client")]
    pub max_bytes: Bytes,
    /// Bits per second that one test may ask for, or move on average over SECONDS [default: 5].
    #[arg(long, visible_alias = "server-bitrate-limit", value_name = "RATE[/SECONDS]", value_parser = parse_limit, conflicts_with = "client")]
    pub max_bitrate: Option<RateLimit>,
}

/// iperf3's authentication.
#[derive(Debug, Args)]
#[command(next_help_heading = "Who asks")]
pub struct NetLogin {
    /// The client's user; the password comes from IPERF3_PASSWORD or is asked for.
    #[arg(long, value_name = "USER", requires = "public_key", conflicts_with = "server")]
    pub username: Option<String>,
    /// The server's public key, PEM.
    #[arg(
        long = "rsa-public-key-path",
        value_name = "FILE",
        requires = "username",
        conflicts_with = "server"
    )]
    pub public_key: Option<PathBuf>,
    /// The server's private key, PEM without a passphrase.
    #[arg(long = "rsa-private-key-path", value_name = "FILE", requires = "users", conflicts_with = "client")]
    pub private_key: Option<PathBuf>,
    /// Lines of user,sha256 of "{user}password".
    #[arg(
        long = "authorized-users-path",
        value_name = "FILE",
        requires = "private_key",
        conflicts_with = "client"
    )]
    pub users: Option<PathBuf>,
    /// The padding of iperf3 before 3.17.
    #[arg(long = "use-pkcs1-padding")]
    pub pkcs1: bool,
    /// Seconds that a client's clock may be off.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, conflicts_with = "client")]
    pub time_skew_threshold: u32,
}
