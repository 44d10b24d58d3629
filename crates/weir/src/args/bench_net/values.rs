//! Values of `weir bench net`'s flags: iperf3's ways to write them, and weir's own.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use weir_bench_net::KeepAlive;
use weir_bench_net::asked::MOST_SIZE;
use weir_bench_net::parameters::{MOST_AFFINITY, MOST_FLOW_LABEL, MOST_OMIT, MOST_TIME};
use weir_bench_net::transactions::confidence::{Goal, LEVELS};
use weir_units::numbers::{scaled, seconds};
use weir_units::{Bytes, Rate};

use super::{Repeated, Sizes};

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
pub struct AddressAndPort {
    /// The address.
    pub address: IpAddr,
    /// The port, where it is named.
    pub port: Option<u16>,
}

pub(super) fn parse_address(text: &str) -> Result<AddressAndPort, String> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse() {
        return Ok(AddressAndPort { address, port: None });
    }
    match text.parse::<SocketAddr>() {
        Ok(at) => Ok(AddressAndPort { address: at.ip(), port: Some(at.port()) }),
        Err(_) => Err("expected an address, such as 0.0.0.0 or [::]:5201".to_owned()),
    }
}

/// iperf3's `10G` is bits; `100Mbit` and `10MB/s` are weir's.
pub(super) fn parse_bits(text: &str) -> Result<Bits, String> {
    let (rate, burst) = match text.split_once('/') {
        Some((rate, burst)) if burst.parse::<u32>().is_ok() => (rate, burst.parse().unwrap_or_default()),
        _ => (text, 0),
    };
    if burst > 1000 {
        return Err("expected a burst of at most 1000 blocks".to_owned());
    }
    let wrong = || "expected bits per second, such as 100M, 1G or 100M/20".to_owned();
    let bits = match scaled(rate, PREFIXES, 1000.0) {
        Some(bits) => bits,
        None => rate.parse::<Rate>().map_err(|_| wrong())?.bits(),
    };
    // Beyond a petabit no number means anything.
    if bits <= 1e15 { Ok(Bits { rate: bits as u64, burst }) } else { Err(wrong()) }
}

/// iperf3's `4K` is 4096; `4KB` and `4KiB` are weir's.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || "expected a number, such as 64K, 1G or 10MB".to_owned();
    let bytes = match scaled(text, PREFIXES, 1024.0) {
        Some(bytes) => bytes as u64,
        None => text.parse::<Bytes>().map_err(|_| wrong())?.0,
    };
    if (1..1 << 62).contains(&bytes) { Ok(bytes) } else { Err(wrong()) }
}

/// The same, or 0 for what is usual.
pub(super) fn parse_bytes_or_none(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { parse_bytes(text) }
}

/// A segment of TCP, or 0 for the usual one.
pub(super) fn parse_segment(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(segment) if segment == 0 || (88..=32_767).contains(&segment) => Ok(segment),
        _ => Err("expected 88 to 32767 bytes".to_owned()),
    }
}

/// iperf3's prefixes.
const PREFIXES: &str = "kmgt";

/// `1,1`, `200,16K`.
pub(super) fn parse_sizes(text: &str) -> Result<Sizes, String> {
    let size = |text: &str| {
        let size = u32::try_from(parse_bytes(text).ok()?).ok()?;
        (1..=MOST_SIZE).contains(&size).then_some(size)
    };
    let both = text.split_once(',').and_then(|(request, response)| Some((size(request)?, size(response)?)));
    let (request, response) = both.ok_or("expected two sizes of 1 byte to 1M, such as 1,1 or 200,16K")?;
    Ok(Sizes { request, response })
}

/// netperf's `-I`: `99,5`.
pub(super) fn parse_ci(text: &str) -> Result<Goal, String> {
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
pub(super) fn parse_repeats(text: &str) -> Result<Repeated, String> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| (1..=1000).contains(number));
    let (least, most) = text.split_once(',').unwrap_or((text, text));
    let both = number(least).zip(number(most)).filter(|(least, most)| least <= most);
    let (least, most) = both.ok_or("expected two numbers of 1 to 1000, such as 3,30, the smaller first")?;
    Ok(Repeated { least, most })
}

pub(super) fn whole_seconds(text: &str, most: u32) -> Result<u32, String> {
    match text.strip_suffix('s').unwrap_or(text).parse() {
        Ok(seconds) if seconds <= most => Ok(seconds),
        _ => Err(format!("expected whole seconds, at most {most}")),
    }
}

pub(super) fn parse_test_seconds(text: &str) -> Result<u32, String> {
    whole_seconds(text, MOST_TIME)
}

pub(super) fn parse_omit(text: &str) -> Result<u32, String> {
    whole_seconds(text, MOST_OMIT)
}

/// iperf3 takes 0 and 0.1 to 60.
pub(super) fn parse_interval(text: &str) -> Result<Duration, String> {
    match seconds(text, &["", "s"]) {
        Some(seconds) if seconds == 0.0 || (0.1..=3600.0).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err("expected 0, or seconds from 0.1 to 3600".to_owned()),
    }
}

/// `-f`: iperf3's unit, or whose lines are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetFormat {
    /// Rates in this unit.
    Unit(char),
    /// Lines as iperf3 prints them.
    Iperf3,
    /// weir's own lines.
    Weir,
}

pub(super) fn parse_format(text: &str) -> Result<NetFormat, String> {
    match (text, text.chars().next()) {
        ("iperf3", _) => Ok(NetFormat::Iperf3),
        ("weir", _) => Ok(NetFormat::Weir),
        (_, Some(unit)) if text.len() == 1 && "kmgtKMGT".contains(unit) => Ok(NetFormat::Unit(unit)),
        _ => Err("expected one of k, m, g, t, K, M, G, T, or iperf3 or weir for whose lines".to_owned()),
    }
}

/// `-B ADDRESS` or `-B ADDRESS%DEVICE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// The address.
    pub address: IpAddr,
    /// The interface, where one is named.
    pub device: Option<String>,
}

pub(super) fn parse_bind(text: &str) -> Result<Bound, String> {
    let wrong = || "expected an address, such as 10.0.0.1 or 10.0.0.1%eth0".to_owned();
    let (address, device) = match text.split_once('%') {
        Some((_, "")) => return Err(wrong()),
        Some((address, device)) => (address, Some(device.to_owned())),
        None => (text, None),
    };
    Ok(Bound { address: address.parse().map_err(|_| wrong())?, device })
}

/// A host and the interface to it, of `HOST%DEVICE`. A link-local address of IPv6 needs its interface to be
/// an address.
pub fn host_and_device(text: &str) -> (&str, Option<&str>) {
    match text.split_once('%') {
        Some((host, device)) if !device.is_empty() => {
            let link_local = host.parse().is_ok_and(|v6: std::net::Ipv6Addr| v6.is_unicast_link_local());
            if link_local { (text, None) } else { (host, Some(device)) }
        }
        _ => (text, None),
    }
}

/// As C reads numbers: decimal, `0x..`, and octal behind a `0`.
fn c_number(text: &str) -> Option<u32> {
    let (digits, base) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => match text.strip_prefix('0').filter(|digits| !digits.is_empty()) {
            Some(digits) => (digits, 8),
            None => (text, 10),
        },
    };
    let plain = digits.chars().all(|digit| digit.is_ascii_hexdigit());
    u32::from_str_radix(digits, base).ok().filter(|_| plain)
}

pub(super) fn parse_tos(text: &str) -> Result<u8, String> {
    let wrong = "expected a number from 0 to 255, such as 16, 0x10 or 020";
    c_number(text).and_then(|number| u8::try_from(number).ok()).ok_or_else(|| wrong.to_owned())
}

/// Classes by name, as type of service: RFC 2474 (cs), 2597 (af), 3246 (ef), 5865 (va) and 1349 (the last
/// three).
const CLASSES: [(&str, u8); 25] = [
    ("af11", 0x28),
    ("af12", 0x30),
    ("af13", 0x38),
    ("af21", 0x48),
    ("af22", 0x50),
    ("af23", 0x58),
    ("af31", 0x68),
    ("af32", 0x70),
    ("af33", 0x78),
    ("af41", 0x88),
    ("af42", 0x90),
    ("af43", 0x98),
    ("cs0", 0x00),
    ("cs1", 0x20),
    ("cs2", 0x40),
    ("cs3", 0x60),
    ("cs4", 0x80),
    ("cs5", 0xa0),
    ("cs6", 0xc0),
    ("cs7", 0xe0),
    ("ef", 0xb8),
    ("va", 0xb0),
    ("lowdelay", 0x10),
    ("throughput", 0x08),
    ("reliability", 0x04),
];

/// `--dscp`, as the type of service that it stands for.
pub(super) fn parse_dscp(text: &str) -> Result<u8, String> {
    if let Some((_, service)) = CLASSES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
        return Ok(*service);
    }
    match c_number(text).and_then(|number| u8::try_from(number).ok()) {
        Some(number @ 0..=63) => Ok(number << 2),
        _ => Err("expected a number from 0 to 63, or a class such as ef, af41 or cs6".to_owned()),
    }
}

pub(super) fn parse_flow_label(text: &str) -> Result<u32, String> {
    match c_number(text) {
        Some(label) if (1..=MOST_FLOW_LABEL).contains(&label) => Ok(label),
        _ => Err("expected a number from 1 to 0xfffff".to_owned()),
    }
}

/// Processors, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Affinity {
    /// Of this end.
    pub own: u32,
    /// Of the server's streams, where a client names it.
    pub server: Option<u32>,
}

/// `-A N` or `-A N,M`.
pub(super) fn parse_affinity(text: &str) -> Result<Affinity, String> {
    let number = |text: &str| c_number(text).filter(|number| *number <= MOST_AFFINITY);
    let (own, server) = match text.split_once(',') {
        Some((own, server)) => (own, Some(server)),
        None => (text, None),
    };
    let wrong = || format!("expected a processor's number, at most {MOST_AFFINITY}, or two: 0,1");
    let server = server.map(|server| number(server).ok_or_else(wrong)).transpose()?;
    Ok(Affinity { own: number(own).ok_or_else(wrong)?, server })
}

/// `--cntl-ka=IDLE/INTERVAL/COUNT`, each of which may be left out.
pub(super) fn parse_keep_alive(text: &str) -> Result<KeepAlive, String> {
    let wrong = || "expected seconds/seconds/count, such as 60/10/3; each may be left out".to_owned();
    let mut parts = text.split('/').map(|part| match part {
        "" => Ok(None),
        // The kernel's own bounds (MAX_TCP_KEEPIDLE, MAX_TCP_KEEPINTVL); of the count they are 127.
        part => {
            part.parse().ok().filter(|number| (1..=32_767_u32).contains(number)).map(Some).ok_or_else(wrong)
        }
    });
    let mut part = || parts.next().unwrap_or(Ok(None));
    let (idle, interval, count) = (part()?, part()?, part()?);
    if text.split('/').count() > 3 || count.is_some_and(|count| count > 127) {
        return Err(wrong());
    }
    if let (Some(idle), Some(interval), Some(count)) = (idle, interval, count)
        && idle <= interval * count
    {
        return Err("the first number must be above the product of the others".to_owned());
    }
    let seconds = |number: Option<u32>| number.map(|number| Duration::from_secs(number.into()));
    Ok(KeepAlive { idle: seconds(idle), interval: seconds(interval), count })
}

/// `--server-bitrate-limit RATE/SECONDS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Bits per second.
    pub rate: u64,
    /// The average is taken over so long; `None` for the usual time.
    pub span: Option<Duration>,
}

pub(super) fn parse_limit(text: &str) -> Result<RateLimit, String> {
    let (rate, span) = match text.split_once('/') {
        Some((rate, seconds)) if seconds.parse::<f64>().is_ok() => (rate, Some(parse_interval(seconds)?)),
        _ => (text, None),
    };
    if span.is_some_and(|span| span > Duration::from_secs(60)) {
        return Err("expected an average over at most 60 seconds".to_owned());
    }
    Ok(RateLimit { rate: parse_bits(rate)?.rate, span: span.filter(|span| !span.is_zero()) })
}

/// Microseconds, with iperf3's prefixes.
pub(super) fn parse_micros(text: &str) -> Result<u32, String> {
    let wrong = || "expected microseconds, such as 1000".to_owned();
    scaled(text, PREFIXES, 1024.0)
        .filter(|micros| *micros <= f64::from(i32::MAX))
        .map(|micros| micros as u32)
        .ok_or_else(wrong)
}

/// A format of strftime(3), as C takes it.
pub(super) fn parse_timestamps(text: &str) -> Result<std::ffi::CString, String> {
    std::ffi::CString::new(text).map_err(|_| "a NUL is in it".to_owned())
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
    fn numbers_are_read_as_c_reads_them() {
        for (text, number) in [("0", 0), ("16", 16), ("0x10", 16), ("0X1f", 31), ("020", 16), ("255", 255)] {
            assert_eq!(parse_tos(text).map(u32::from), Ok(number), "{text}");
        }
        for text in ["", "256", "0x", "09", "-1", "+5", "x", "0x100"] {
            assert!(parse_tos(text).is_err(), "{text}");
        }
        for (text, service) in [("ef", 0xb8), ("AF41", 0x88), ("46", 0xb8), ("0x2e", 0xb8), ("cs0", 0)] {
            assert_eq!(parse_dscp(text), Ok(service), "{text}");
        }
        assert!(parse_dscp("64").is_err() && parse_dscp("af44").is_err());
        assert_eq!((parse_flow_label("0xfffff"), parse_flow_label("7")), (Ok(0xf_ffff), Ok(7)));
        assert!(parse_flow_label("0").is_err() && parse_flow_label("0x100000").is_err());
    }

    #[test]
    fn values_of_several_parts_have_bounds() {
        assert_eq!(parse_affinity("3"), Ok(Affinity { own: 3, server: None }));
        assert_eq!(parse_affinity("0,1"), Ok(Affinity { own: 0, server: Some(1) }));
        assert!(parse_affinity("1025").is_err() && parse_affinity("0,").is_err());
        let seconds = |number| Some(Duration::from_secs(number));
        assert_eq!(parse_keep_alive(""), Ok(KeepAlive::default()));
        let kept = KeepAlive { idle: seconds(60), interval: seconds(10), count: Some(3) };
        assert_eq!(parse_keep_alive("60/10/3"), Ok(kept));
        assert_eq!(parse_keep_alive("/10"), Ok(KeepAlive { interval: seconds(10), ..KeepAlive::default() }));
        for text in ["30/10/3", "x", "1/2/3/4", "0", "99999"] {
            assert!(parse_keep_alive(text).is_err(), "{text}");
        }
        assert_eq!(parse_limit("10M"), Ok(RateLimit { rate: 10_000_000, span: None }));
        let over = Some(Duration::from_millis(2500));
        assert_eq!(parse_limit("1G/2.5"), Ok(RateLimit { rate: 1_000_000_000, span: over }));
        assert_eq!(parse_limit("10MB/s"), Ok(RateLimit { rate: 80_000_000, span: None }));
        assert!(parse_limit("1G/61").is_err());
        let bound = parse_bind("10.0.0.1%eth0").unwrap();
        assert_eq!((bound.address, bound.device.as_deref()), (IpAddr::from([10, 0, 0, 1]), Some("eth0")));
        assert!(parse_bind("host").is_err() && parse_bind("10.0.0.1%").is_err());
        assert_eq!(host_and_device("far%eth1"), ("far", Some("eth1")));
        assert_eq!(host_and_device("fe80::1%eth1"), ("fe80::1%eth1", None));
        assert_eq!(host_and_device("2001:db8::1%eth1"), ("2001:db8::1", Some("eth1")));
    }

    #[test]
    fn places_have_a_port_or_not() {
        assert_eq!(parse_address("::").unwrap().port, None);
        assert_eq!(parse_address("[::1]:7").unwrap().port, Some(7));
        assert_eq!(parse_address("0.0.0.0:7").unwrap().port, Some(7));
        assert!(parse_address("host").is_err());
    }
}
