//! `weir bench net`: iperf3's flags, and a few of weir's own.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use weir_net::transactions::confidence::{Goal, LEVELS};
use weir_net::transactions::{Kind, MOST_SIZE};
use weir_units::{Bytes, Rate};

use super::Voice;

const BENCH_NET_EXAMPLES: &str = "\
Examples:
  weir bench net -s                                   a server, for this machine alone
  weir bench net -s --listen 0.0.0.0                  the same for the network
  weir bench net -c host.example                      ten seconds of TCP to it, and what limits it
  weir bench net -c host.example -R -P 4 -t 30        from it, over four streams
  weir bench net -c host.example -u -b 100M -l 1200   UDP at 100 Mbit/s: loss, order, jitter
  weir bench net -c host.example -J | jq .end         iperf3's own JSON
  weir bench net -c host.example --rr --ci 99,5       requests and responses with another weir, until their rate is sure
Both ends speak iperf3's protocol: the other may be iperf3 3.9 or later. Numbers are as there: -b in bits per second with K, M, G
of 1000; -n, -l, -w in bytes with K, M, G of 1024 (or 10MB, 4MiB, 100Mbit as elsewhere in weir).";

/// `weir bench net`.
#[derive(Debug, Args)]
#[command(after_help = BENCH_NET_EXAMPLES)]
#[command(group(ArgGroup::new("role").required(true).args(["server", "client"])))]
pub struct BenchNet {
    /// Be the server: on 127.0.0.1 and ::1 unless --listen or -B says otherwise.
    #[arg(short, long)]
    pub server: bool,
    /// Be the client of this server.
    #[arg(short, long, value_name = "HOST")]
    pub client: Option<String>,
    /// The server's port.
    #[arg(short, long, value_name = "PORT", default_value_t = 5201)]
    pub port: u16,
    /// This end's address; of a server the one to listen on.
    #[arg(short = 'B', long, value_name = "ADDRESS")]
    pub bind: Option<IpAddr>,
    /// IPv4 only.
    #[arg(short = '4', long = "version4", conflicts_with = "v6")]
    pub v4: bool,
    /// IPv6 only.
    #[arg(short = '6', long = "version6")]
    pub v6: bool,
    /// Seconds between two lines; 0 for none [default: 1].
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    pub interval: Duration,
    /// Print iperf3's own JSON, for scripts that read it.
    #[arg(short = 'J', long = "iperf3-json", conflicts_with = "json")]
    pub iperf3_json: bool,
    /// Print rates in this unit: k, m, g, t for bits, K, M, G, T for bytes per second.
    #[arg(short, long, value_name = "UNIT", value_parser = parse_format)]
    pub format: Option<char>,
    /// Copy what arrives into this program's memory, as most programs must; by default the kernel drops it (TCP).
    #[arg(long)]
    pub copy: bool,
    /// Send pages that the kernel has (sendfile) instead of copying them out of this program's memory (TCP).
    #[arg(short = 'Z', long)]
    pub zerocopy: bool,
    /// Send and take datagrams one by one, without segmentation offload.
    #[arg(long = "no-gso")]
    pub no_gso: bool,
    /// Fill the terminal with a live view of the client's end; the lines of the intervals are printed when that is over.
    #[arg(long, conflicts_with_all = ["quiet", "server"])]
    pub tui: bool,
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
    /// Send so many bytes instead.
    #[arg(short = 'n', long, value_name = "BYTES", value_parser = parse_bytes, conflicts_with_all = ["time", "blockcount", "server"])]
    pub bytes: Option<u64>,
    /// Send so many blocks instead.
    #[arg(short = 'k', long, value_name = "BLOCKS", value_parser = parse_bytes, conflicts_with_all = ["time", "server"])]
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
    #[arg(short, long, value_name = "BYTES", value_parser = parse_bytes, conflicts_with = "server")]
    pub length: Option<u64>,
    /// Socket buffers of both ends.
    #[arg(short, long, value_name = "BYTES", value_parser = parse_bytes, conflicts_with = "server")]
    pub window: Option<u64>,
    /// Segment size to ask for.
    #[arg(short = 'M', long = "set-mss", value_name = "BYTES", value_parser = clap::value_parser!(u32).range(88..=32767), conflicts_with = "server")]
    pub segment: Option<u32>,
    /// TCP_NODELAY.
    #[arg(short = 'N', long, conflicts_with = "server")]
    pub no_delay: bool,
    /// Congestion control of both ends: cubic, bbr.
    #[arg(short = 'C', long, value_name = "NAME", conflicts_with = "server")]
    pub congestion: Option<String>,
    /// IP type of service, 0 to 255.
    #[arg(short = 'S', long, value_name = "N", default_value_t = 0, conflicts_with = "server")]
    pub tos: u8,
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
    /// Bits per second that one test may ask for.
    #[arg(long, visible_alias = "server-bitrate-limit", value_name = "RATE", value_parser = parse_bits, conflicts_with = "client")]
    pub max_bitrate: Option<Bits>,
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

/// `RATE` or `RATE/BURST`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits {
    /// Bits per second.
    pub rate: u64,
    /// Blocks at once; 0 for one.
    pub burst: u32,
}

/// `ADDRESS` or `ADDRESS:PORT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The address.
    pub address: IpAddr,
    /// The port, where it is named.
    pub port: Option<u16>,
}

fn parse_address(text: &str) -> Result<Place, String> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse() {
        return Ok(Place { address, port: None });
    }
    match text.parse::<SocketAddr>() {
        Ok(at) => Ok(Place { address: at.ip(), port: Some(at.port()) }),
        Err(_) => Err("expected an address, such as 0.0.0.0 or [::]:5201".to_owned()),
    }
}

/// iperf3's `10G` is bits; `100Mbit` and `10MB/s` are weir's.
fn parse_bits(text: &str) -> Result<Bits, String> {
    let (rate, burst) = match text.split_once('/') {
        Some((rate, burst)) if burst.parse::<u32>().is_ok() => (rate, burst.parse().unwrap_or_default()),
        _ => (text, 0),
    };
    if burst > 1000 {
        return Err("expected a burst of at most 1000 blocks".to_owned());
    }
    let wrong = || "expected bits per second, such as 100M, 1G or 100M/20".to_owned();
    let bits = match prefixed(rate, 1000.0) {
        Some(bits) => bits,
        None => rate.parse::<Rate>().map_err(|_| wrong())?.bits(),
    };
    // Beyond a petabit no number means anything.
    if bits <= 1e15 { Ok(Bits { rate: bits as u64, burst }) } else { Err(wrong()) }
}

/// iperf3's `4K` is 4096; `4KB` and `4KiB` are weir's.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || "expected a number, such as 64K, 1G or 10MB".to_owned();
    let bytes = match prefixed(text, 1024.0) {
        Some(bytes) => bytes as u64,
        None => text.parse::<Bytes>().map_err(|_| wrong())?.0,
    };
    if (1..1 << 62).contains(&bytes) { Ok(bytes) } else { Err(wrong()) }
}

/// Digits with at most one letter.
fn prefixed(text: &str, step: f64) -> Option<f64> {
    let (digits, power) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (&text[..at], 1),
        (at, 'm' | 'M') => (&text[..at], 2),
        (at, 'g' | 'G') => (&text[..at], 3),
        (at, 't' | 'T') => (&text[..at], 4),
        _ => (text, 0),
    };
    let plain = digits.chars().all(|digit| digit.is_ascii_digit() || digit == '.');
    let value: f64 = digits.parse().ok().filter(|_| plain)?;
    Some(value * step.powi(power))
}

/// `1,1`, `200,16K`.
fn parse_sizes(text: &str) -> Result<Sizes, String> {
    let size = |text: &str| {
        let size = u32::try_from(parse_bytes(text).ok()?).ok()?;
        (1..=MOST_SIZE).contains(&size).then_some(size)
    };
    let both = text.split_once(',').and_then(|(request, response)| Some((size(request)?, size(response)?)));
    let (request, response) = both.ok_or("expected two sizes of 1 byte to 1M, such as 1,1 or 200,16K")?;
    Ok(Sizes { request, response })
}

/// netperf's `-I`: `99,5`.
fn parse_ci(text: &str) -> Result<Goal, String> {
    let percent = |text: &str| text.parse::<f64>().ok();
    let both = text.split_once(',').and_then(|(level, width)| Some((percent(level)?, percent(width)?)));
    let (least, most) = LEVELS;
    let fits = |(level, width): &(f64, f64)| (least..=most).contains(level) && (0.1..=100.0).contains(width);
    let (level, width) = both
        .filter(fits)
        .ok_or("expected a confidence of 50 to 99.9 and a width of 0.1 to 100, in per cent, such as 99,5")?;
    Ok(Goal { level: level / 100.0, width: width / 100.0 })
}

/// `3,30`; `5` is five.
fn parse_repeats(text: &str) -> Result<Repeated, String> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| (1..=1000).contains(number));
    let (least, most) = text.split_once(',').unwrap_or((text, text));
    let both = number(least).zip(number(most)).filter(|(least, most)| least <= most);
    let (least, most) = both.ok_or("expected two numbers of 1 to 1000, such as 3,30, the smaller first")?;
    Ok(Repeated { least, most })
}

fn whole_seconds(text: &str, most: u32) -> Result<u32, String> {
    match text.strip_suffix('s').unwrap_or(text).parse() {
        Ok(seconds) if seconds <= most => Ok(seconds),
        _ => Err(format!("expected whole seconds, at most {most}")),
    }
}

fn parse_test_seconds(text: &str) -> Result<u32, String> {
    whole_seconds(text, weir_net::parameters::MOST_TIME)
}

fn parse_omit(text: &str) -> Result<u32, String> {
    whole_seconds(text, weir_net::parameters::MOST_OMIT)
}

/// iperf3 takes 0 and 0.1 to 60.
fn parse_interval(text: &str) -> Result<Duration, String> {
    match text.strip_suffix('s').unwrap_or(text).parse::<f64>() {
        Ok(seconds) if seconds == 0.0 || (0.1..=3600.0).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err("expected 0, or seconds from 0.1 to 3600".to_owned()),
    }
}

fn parse_format(text: &str) -> Result<char, String> {
    match text.chars().next() {
        Some(unit) if text.len() == 1 && "kmgtKMGT".contains(unit) => Ok(unit),
        _ => Err("expected one of k, m, g, t, K, M, G, T".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_bits_as_in_iperf3_unless_they_say_otherwise() {
        for (text, rate, burst) in [
            ("1G", 1_000_000_000, 0),
            ("100m", 100_000_000, 0),
            ("0", 0, 0),
            ("1.5K", 1500, 0),
            ("100M/20", 100_000_000, 20),
            ("100Mbit", 100_000_000, 0),
            ("10MB/s", 80_000_000, 0),
        ] {
            assert_eq!(parse_bits(text), Ok(Bits { rate, burst }), "{text}");
        }
        for text in ["", "x", "-1", "1e99", "1G/2000", "nan", "inf", "1GG"] {
            assert!(parse_bits(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_powers_of_1024_as_in_iperf3_unless_they_say_otherwise() {
        for (text, bytes) in [("64K", 65_536), ("1g", 1 << 30), ("4KB", 4000), ("4KiB", 4096), ("1460", 1460)]
        {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "0", "-5", "10x", "1e400", "99999999T"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_goals_and_repeats_have_bounds() {
        assert_eq!(parse_sizes("1,16K"), Ok(Sizes { request: 1, response: 16_384 }));
        assert_eq!(parse_ci("99,5"), Ok(Goal { level: 0.99, width: 0.05 }));
        assert!(parse_ci("99.9,0.1").is_ok());
        assert_eq!(parse_repeats("3,30"), Ok(Repeated { least: 3, most: 30 }));
        assert_eq!(parse_repeats("5"), Ok(Repeated { least: 5, most: 5 }));
        for text in ["", "1", "0,1", "1,2M", "-1,1", "1,1,1"] {
            assert!(parse_sizes(text).is_err(), "{text}");
        }
        for text in ["99", "100,5", "49,5", "99,0", "99,nan", "nan,5", "99,101", "inf,5"] {
            assert!(parse_ci(text).is_err(), "{text}");
        }
        for text in ["", "0", "30,3", "1,1001", "x"] {
            assert!(parse_repeats(text).is_err(), "{text}");
        }
    }

    #[test]
    fn places_have_a_port_or_not() {
        assert_eq!(parse_address("::").unwrap().port, None);
        assert_eq!(parse_address("[::1]:7").unwrap().port, Some(7));
        assert_eq!(parse_address("0.0.0.0:7").unwrap().port, Some(7));
        assert!(parse_address("host").is_err());
    }
}
