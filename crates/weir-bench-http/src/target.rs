//! Whom to ask: a URL's parts as they were written, and the addresses behind them.
//!
//! Nothing is normalised: what is measured is the request that was asked for, and wrk's scripts see the same
//! parts.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use weir_observe::names;

use crate::error::LoadError;

/// A URL of http or https.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// As it was given.
    pub url: String,
    /// `https`.
    pub tls: bool,
    /// Without brackets.
    pub host: String,
    /// As it was given.
    pub port: Option<u16>,
    /// Path and query, at least `/`.
    pub path: String,
}

impl Target {
    /// Takes a URL apart.
    pub fn parse(url: &str) -> Result<Target, LoadError> {
        let wrong = |why| LoadError::Url { url: bare(url), why };
        let (tls, rest) = match url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            _ => return Err(wrong("expected http:// or https://")),
        };
        if rest.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(wrong("blanks and control characters have to be escaped (%20)"));
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(wrong("a user and password do not belong into a URL; send them as a field (-H)"));
        }
        let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, tail)) => {
                (host, Some(tail.strip_prefix(':').ok_or_else(|| wrong("expected [ADDRESS]:PORT"))?))
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        if host.is_empty() {
            return Err(wrong("there is no host in it"));
        }
        let port = match port.map(str::parse) {
            Some(Ok(0) | Err(_)) => return Err(wrong("expected a port from 1 to 65535")),
            Some(Ok(port)) => Some(port),
            None => None,
        };
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Target { url: url.to_owned(), tls, host: host.to_owned(), port, path })
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// The port that is meant.
    pub fn effective_port(&self) -> u16 {
        self.port.unwrap_or(if self.tls { 443 } else { 80 })
    }

    /// The value of the field Host: brackets around an IPv6 address, the port if one was given.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match self.port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }

    /// Every address of the host.
    pub fn resolve(&self) -> Result<Vec<Address>, LoadError> {
        lookup(&self.host, self.effective_port()).map_err(|cause| LoadError::Resolve {
            host: format!("{}:{}", self.host, self.effective_port()),
            cause,
        })
    }
}

/// What of a text that is no URL may be shown: neither a user nor a query, which may hold secrets. Errors end
/// up in logs.
fn bare(url: &str) -> String {
    let front = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = front.split_once("://").map_or(("", front), |(scheme, rest)| (scheme, rest));
    let rest = match rest.split_once('/').unwrap_or((rest, "")).0.rsplit_once('@') {
        Some((user, _)) => &rest[user.len() + 1..],
        None => rest,
    };
    if scheme.is_empty() { rest.to_owned() } else { format!("{scheme}://{rest}") }
}

/// Every address of a host, in the resolver's order.
pub fn lookup(host: &str, port: u16) -> io::Result<Vec<Address>> {
    let found = names::resolve(host, port, names::TIMEOUT, &|| false)?;
    Ok(found.into_iter().map(Address::Tcp).collect())
}

/// Where connections go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Over TCP.
    Tcp(SocketAddr),
    /// Over a Unix socket; a name of the abstract namespace begins with a zero byte (unix(7)).
    Unix(PathBuf),
}

impl Address {
    /// Makes a connection and drops it: says whether anybody is there.
    pub(crate) fn try_connect(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Address::Tcp(address) => TcpStream::connect_timeout(address, timeout).map(drop),
            Address::Unix(path) => try_unix(path, timeout),
        }
    }
}

/// As [`Address::try_connect`]. Where the listener's queue is full a connect waits for as long as a send may
/// (unix_stream_connect in net/unix/af_unix.c), which is without end unless that is said.
fn try_unix(path: &Path, timeout: Duration) -> io::Result<()> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
    match rustix::net::connect(&socket, &unix_address(path)?) {
        Err(Errno::AGAIN) => {
            let why = "its queue of connections stayed full; look whether its server still accepts any";
            Err(io::Error::new(io::ErrorKind::WouldBlock, why))
        }
        done => Ok(done?),
    }
}

/// The address of a Unix socket, of one of the abstract namespace too.
pub(crate) fn unix_address(path: &Path) -> Result<SocketAddrUnix, Errno> {
    match path.as_os_str().as_bytes().strip_prefix(b"\0") {
        Some(name) => SocketAddrUnix::new_abstract_name(name),
        None => SocketAddrUnix::new(path),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display().to_string().replace('\0', "@")),
        }
    }
}

/// The first address that accepts a connection.
pub(crate) fn first_reachable(
    target: &Target,
    addresses: &[Address],
    timeout: Duration,
) -> Result<Address, LoadError> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match address.try_connect(timeout) {
            Ok(()) => return Ok(address.clone()),
            Err(cause) => last = cause,
        }
    }
    let authority = target.authority();
    let at = addresses.last().map(ToString::to_string).filter(|address| *address != authority);
    let at = at.map(|address| format!(" ({address})")).unwrap_or_default();
    Err(LoadError::Connect { target: format!("{authority}{at}"), cause: last })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Target {
        Target::parse(url).unwrap()
    }

    #[test]
    fn parts_stay_as_they_were_written() {
        let target = parse("http://127.0.0.1:80/a/../b?q=1#part");
        assert_eq!(
            (target.host.as_str(), target.port, target.path.as_str()),
            ("127.0.0.1", Some(80), "/a/../b?q=1")
        );
        assert_eq!(target.authority(), "127.0.0.1:80");
        assert_eq!(parse("HTTPS://host").path, "/");
        assert_eq!(parse("https://host").effective_port(), 443);
        assert_eq!(parse("http://host?q").path, "/?q");
        let v6 = parse("http://[::1]:8080/x");
        assert_eq!((v6.host.as_str(), v6.authority().as_str()), ("::1", "[::1]:8080"));
        assert_eq!(parse("http://[::1]/x").authority(), "[::1]");
    }

    #[test]
    fn what_is_no_url_is_said() {
        for (url, why) in [
            ("host/x", "expected http://"),
            ("ftp://host/", "expected http://"),
            ("http:///x", "no host"),
            ("http://:80/x", "no host"),
            ("http://h:0/", "a port from 1"),
            ("http://h:70000/", "a port from 1"),
            ("http://[::1]80/", "[ADDRESS]:PORT"),
            ("http://a:b@h/", "-H"),
            ("http://h/a b", "escaped"),
            ("ftp://us:geheim@h/x@y?token=geheim", "'ftp://h/x@y'"),
            ("http://h/a b?sig=geheim", "'http://h/a b'"),
            ("us:geheim@h", "'h'"),
        ] {
            let said = Target::parse(url).unwrap_err().to_string();
            assert!(said.contains(why) && !said.contains("geheim"), "{said}");
        }
    }
}
