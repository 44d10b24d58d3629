//! Which kernel settings bound a receive window, and which congestion control does this machine send with?

use crate::error::{Malformed, ObserveError};
use crate::proc_file::{number, read_once};

/// `net.ipv4.tcp_rmem`: what autotuning may make of a TCP receive buffer, bytes. Holds for IPv6 too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpRmem {
    /// Kept even under memory pressure.
    pub min: u64,
    /// At the start of a connection.
    pub default: u64,
    /// Autotuning stops here. The window stays below it: part of the buffer pays for the kernel's overhead.
    pub max: u64,
}

/// Three numbers between blanks.
pub fn parse(text: &str) -> Result<TcpRmem, Malformed> {
    let mut words = text.split_ascii_whitespace();
    Ok(TcpRmem {
        min: number("minimum", words.next())?,
        default: number("default", words.next())?,
        max: number("maximum", words.next())?,
    })
}

/// `net.ipv4.tcp_rmem` of this network namespace.
pub fn tcp_rmem() -> Result<TcpRmem, ObserveError> {
    read_once("/proc/sys/net/ipv4/tcp_rmem", parse)
}

/// `net.core.rmem_max`: the most that SO_RCVBUF may ask for, bytes. Autotuning is not bound by it. The kernel
/// doubles what it grants. Older kernels hide it inside a network namespace, which reads as an error.
pub fn rmem_max() -> Result<u64, ObserveError> {
    read_once("/proc/sys/net/core/rmem_max", |text| number("limit", Some(text)))
}

/// `net.ipv4.tcp_wmem`, third number: where autotuning of a TCP send buffer ends, bytes.
pub fn tcp_wmem_max() -> Result<u64, ObserveError> {
    read_once("/proc/sys/net/ipv4/tcp_wmem", parse).map(|wmem| wmem.max)
}

/// `net.core.wmem_max`: the most that SO_SNDBUF may ask for, bytes; the kernel doubles what it grants.
pub fn wmem_max() -> Result<u64, ObserveError> {
    read_once("/proc/sys/net/core/wmem_max", |text| number("limit", Some(text)))
}

/// `net.ipv4.tcp_congestion_control`: what this machine's new connections send with. Says nothing of the
/// peer.
pub fn congestion_control() -> Result<String, ObserveError> {
    read_once("/proc/sys/net/ipv4/tcp_congestion_control", parse_name)
}

/// `net.ipv4.tcp_available_congestion_control`: what this kernel has loaded, as `reno bbr cubic`.
pub fn available_congestion_controls() -> Result<String, ObserveError> {
    read_once("/proc/sys/net/ipv4/tcp_available_congestion_control", |text| Ok(text.trim().to_owned()))
}

/// One word.
pub(crate) fn parse_name(text: &str) -> Result<String, Malformed> {
    match text.trim() {
        "" => Err(Malformed("no name".to_owned())),
        name => Ok(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_and_truncated_rmem() {
        let rmem = TcpRmem { min: 4096, default: 131_072, max: 33_554_432 };
        assert_eq!(parse("4096\t131072\t33554432\n"), Ok(rmem));
        assert_eq!(parse("4096\t131072\n"), Err(Malformed("no maximum".into())));
        assert!(parse("4096 131072 lots").is_err());
        assert_eq!(parse_name("bbr\n"), Ok("bbr".to_owned()));
        assert!(parse_name("\n").is_err());
    }

    #[test]
    fn this_machine_has_settings() {
        let rmem = tcp_rmem().unwrap();
        assert!(rmem.min <= rmem.max);
        assert!(!congestion_control().unwrap().is_empty());
    }
}
