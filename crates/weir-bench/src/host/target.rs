//! A host and a port as people write them, and the addresses behind them.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_observe::names::{self, NameError};

/// The longest name that DNS carries, in text (RFC 1035 section 2.3.4).
const LONGEST: usize = 253;

/// `host`, `host:443`, `10.0.0.2:22`, `::1`, `[::1]:443`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// A name or an address, without brackets.
    pub host: String,
    /// The port, if one was given.
    pub port: Option<u16>,
}

/// A text that names no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid host '{0}': expected HOST or HOST:PORT, such as example.org:443, 10.0.0.2 or [::1]:22")]
pub struct ParseError(String);

impl FromStr for Target {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Target, ParseError> {
        let wrong = || ParseError(text.to_owned());
        // An IPv6 address without brackets has colons of its own.
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Ok(Target { host: address.to_string(), port: None });
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or_else(wrong)?;
                host.parse::<Ipv6Addr>().map_err(|_| wrong())?;
                match after {
                    "" => (host, None),
                    _ => (host, Some(after.strip_prefix(':').ok_or_else(wrong)?)),
                }
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = match port.map(str::parse::<u16>) {
            None => None,
            Some(Ok(port @ 1..)) => Some(port),
            Some(_) => return Err(wrong()),
        };
        let of_a_name = |letter: char| letter.is_alphanumeric() || "-._:".contains(letter);
        if host.is_empty() || host.len() > LONGEST || !host.chars().all(of_a_name) {
            return Err(wrong());
        }
        Ok(Target { host: host.to_owned(), port })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.port, self.host.contains(':')) {
            (None, _) => f.write_str(&self.host),
            (Some(port), true) => write!(f, "[{}]:{port}", self.host),
            (Some(port), false) => write!(f, "{}:{port}", self.host),
        }
    }
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// In the resolver's order.
    pub addresses: Vec<IpAddr>,
    /// How long the resolver took, its cache included; `None` where an address was given and nobody asked.
    pub span: Option<Duration>,
}

/// A name that stands for nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The resolver said no.
    #[error("cannot resolve {host}: {cause}")]
    Failed {
        /// The name.
        host: String,
        /// The resolver's words.
        cause: String,
    },
    /// Nobody waits for it any more.
    #[error("interrupted")]
    Interrupted,
}

/// Asks the system's resolver, until `stop` is set.
pub fn resolve(host: &str, stop: &AtomicBool) -> Result<Resolved, ResolveError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(Resolved { addresses: vec![address], span: None });
    }
    let start = Instant::now();
    let found =
        names::resolve(host, 0, names::TIMEOUT, &|| stop.load(Relaxed)).map_err(|error| match error {
            NameError::Stopped => ResolveError::Interrupted,
            error => {
                ResolveError::Failed { host: host.to_owned(), cause: format!("{error}{}", error.way_out()) }
            }
        })?;
    let mut addresses: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
    addresses.dedup();
    Ok(Resolved { addresses, span: Some(start.elapsed()) })
}

/// With its port.
pub fn at(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address, port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_people_write_them() {
        let parse = |text: &str| text.parse::<Target>().map(|target| (target.host, target.port));
        assert_eq!(parse("example.org"), Ok(("example.org".into(), None)));
        assert_eq!(parse("example.org:443"), Ok(("example.org".into(), Some(443))));
        assert_eq!(parse("10.0.0.2:22"), Ok(("10.0.0.2".into(), Some(22))));
        assert_eq!(parse("::1"), Ok(("::1".into(), None)));
        assert_eq!(parse("[::1]:80"), Ok(("::1".into(), Some(80))));
        assert_eq!(parse("[::1]"), Ok(("::1".into(), None)));
        for text in
            ["", ":80", "h:", "h:0", "h:99999", "h:x", "[::1", "[::1]80", "[h]:1", "a b", "h/x", "http://h"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!("h".repeat(300).parse::<Target>().is_err());
    }

    #[test]
    fn an_address_needs_no_resolver() {
        let found = resolve("127.0.0.1", &AtomicBool::new(false)).unwrap();
        assert_eq!(found, Resolved { addresses: vec![[127, 0, 0, 1].into()], span: None });
    }

    proptest! {
        #[test]
        fn any_text_is_a_target_or_an_error(text in ".{0,40}") {
            if let Ok(target) = text.parse::<Target>() {
                prop_assert_eq!(target.to_string().parse::<Target>().unwrap(), target);
            }
        }
    }
}
