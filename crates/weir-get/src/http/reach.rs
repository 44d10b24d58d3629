//! What the user says of the way to a host: other addresses for it, another host in its place, one family of
//! addresses, an interface, a socket of this machine, the zone of a link-local address.
//!
//! Addresses alone change: a host keeps its name in `Host`, in TLS and in what is shown.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

/// The user's words on the way.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    /// `--resolve`, the last word on a host first.
    pub given: Vec<Given>,
    /// `--connect-to`: the first that fits counts.
    pub instead: Vec<Instead>,
    /// `--interface`.
    pub interface: Option<Interface>,
    /// `-4`, `-6`.
    pub family: Option<Family>,
    /// `--dns-servers`.
    pub servers: Vec<SocketAddr>,
    /// `--unix-socket`.
    pub unix: Option<UnixPlace>,
    /// The zones of link-local addresses, by the host as a URL writes it.
    pub zones: HashMap<String, String>,
}

/// `HOST:PORT:ADDRESS,...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// In lower case; `*` is every host.
    host: String,
    port: u16,
    /// `None`: as if nothing had been said (`-HOST:PORT`).
    addresses: Option<Vec<IpAddr>>,
}

/// `HOST1:PORT1:HOST2:PORT2`; what is empty is any, or stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instead {
    from: (Option<String>, Option<u16>),
    to: (Option<String>, Option<u16>),
}

/// Where connections leave from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// A network interface.
    pub name: Option<String>,
    /// An address of this host.
    pub address: Option<IpAddr>,
}

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `-4`.
    V4,
    /// `-6`.
    V6,
}

/// A socket of this machine in place of the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnixPlace(PathBuf);

impl Reach {
    /// The addresses that the user gave for `host:port`; `None` where a resolver is asked.
    pub fn addresses(&self, host: &str, port: u16) -> Option<Vec<SocketAddr>> {
        let host = host.trim_end_matches('.');
        let is_of = |given: &&Given| given.port == port && (given.host.eq_ignore_ascii_case(host));
        let any = |given: &&Given| given.port == port && given.host == "*";
        let found = self.given.iter().rev().find(is_of).or_else(|| self.given.iter().rev().find(any))?;
        let addresses = found.addresses.as_ref()?;
        Some(addresses.iter().map(|address| SocketAddr::new(*address, 0)).collect())
    }

    /// The host and the port that connections for `host:port` go to.
    pub fn place_of(&self, host: &str, port: u16) -> (String, u16) {
        let fits = |one: &&Instead| {
            one.from.0.as_ref().is_none_or(|own| own.eq_ignore_ascii_case(host))
                && one.from.1.is_none_or(|own| own == port)
        };
        match self.instead.iter().find(fits) {
            Some(one) => (one.to.0.clone().unwrap_or_else(|| host.to_owned()), one.to.1.unwrap_or(port)),
            None => (host.to_owned(), port),
        }
    }

    /// `host` as a resolver takes it, with its zone.
    pub(crate) fn zoned(&self, host: &str) -> Option<String> {
        let zone = self.zones.get(host)?;
        Some(format!("{}%{zone}", host.trim_matches(['[', ']'])))
    }

    /// Those of `found` that may be used, or why none may.
    pub fn usable(&self, host: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, String> {
        let bound = self.interface.as_ref().and_then(|interface| interface.address);
        let may = |address: &SocketAddr| {
            self.family.is_none_or(|family| (family == Family::V6) == address.is_ipv6())
                && bound.is_none_or(|bound| bound.is_ipv6() == address.is_ipv6())
        };
        let (usable, others): (Vec<_>, Vec<_>) = found.into_iter().partition(may);
        if !usable.is_empty() || others.is_empty() {
            return Ok(usable);
        }
        let has = if others[0].is_ipv6() { "IPv6" } else { "IPv4" };
        let flag = match (self.family, bound) {
            (Some(Family::V4), _) => "-4".to_owned(),
            (Some(Family::V6), _) => "-6".to_owned(),
            (None, bound) => format!("--interface {}", bound.map_or_else(String::new, |a| a.to_string())),
        };
        Err(format!("cannot connect to {host}: it has only {has} addresses here, which {flag} leaves out"))
    }

    /// Binds `socket` to what connections leave from.
    pub fn bind(&self, socket: &Socket) -> io::Result<()> {
        let Some(interface) = &self.interface else { return Ok(()) };
        if let Some(name) = &interface.name {
            socket.bind_device(Some(name.as_bytes()))?;
        }
        match interface.address {
            Some(address) => socket.bind(&SocketAddr::new(address, 0).into()),
            None => Ok(()),
        }
    }

    /// Why no connection can leave as the user says, found before any is tried.
    pub fn check(&self) -> Result<(), String> {
        let Some(interface) = &self.interface else { return Ok(()) };
        let domain = match interface.address {
            Some(IpAddr::V6(_)) => Domain::IPV6,
            _ => Domain::IPV4,
        };
        let tried = Socket::new(domain, Type::DGRAM, None).and_then(|socket| self.bind(&socket));
        tried.map_err(|error| interface.refused(&error))
    }
}

impl Interface {
    fn refused(&self, error: &io::Error) -> String {
        let shown =
            (self.name.clone()).or(self.address.map(|address| address.to_string())).unwrap_or_default();
        let why = match error.raw_os_error() {
            Some(libc::ENODEV) => format!("there is no such interface here ({})", names_here()),
            Some(libc::EADDRNOTAVAIL) => "no interface of this host has that address".to_owned(),
            Some(libc::EPERM) => {
                "this kernel lets only root bind to one; give its address instead".to_owned()
            }
            _ => weir_units::plain(error),
        };
        format!("cannot use --interface {shown}: {why}")
    }
}

/// The interfaces of this network namespace (proc_net(5)).
fn names_here() -> String {
    let table = std::fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let names: Vec<&str> =
        table.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim())).take(16).collect();
    format!("there are {}", names.join(", "))
}

impl UnixPlace {
    /// The socket file at `path`.
    pub fn path(path: &Path) -> UnixPlace {
        UnixPlace(path.to_owned())
    }

    /// The socket called `name` in the abstract namespace (unix(7)).
    pub fn abstract_name(name: &OsStr) -> UnixPlace {
        let bytes = [&b"\0"[..], name.as_bytes()].concat();
        UnixPlace(PathBuf::from(OsStr::from_bytes(&bytes)))
    }

    /// Its address.
    pub fn address(&self) -> io::Result<SockAddr> {
        SockAddr::unix(&self.0)
    }

    /// As it is shown.
    pub fn shown(&self) -> String {
        self.0.display().to_string().replace('\0', "@")
    }
}

impl std::str::FromStr for Given {
    type Err = String;

    fn from_str(text: &str) -> Result<Given, String> {
        const FORM: &str =
            "expected HOST:PORT:ADDRESS[,ADDRESS], such as h:443:192.0.2.1; -HOST:PORT takes one back";
        let (rest, is_taken_back) = match text.strip_prefix('-') {
            Some(rest) => (rest, true),
            // curl's + lets an entry run out, as a resolver's answer does; none of a run lives as long.
            None => (text.strip_prefix('+').unwrap_or(text), false),
        };
        let (host, rest) = host_of(rest).ok_or(FORM)?;
        let (port, addresses) = rest.split_once(':').map_or((rest, None), |(port, rest)| (port, Some(rest)));
        let port = parse_port(port).ok_or(FORM)?;
        if is_taken_back || host.is_empty() {
            let none = is_taken_back && addresses.is_none() && !host.is_empty();
            return if none { Ok(Given { host, port, addresses: None }) } else { Err(FORM.to_owned()) };
        }
        let one = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().ok();
        let addresses: Option<Vec<IpAddr>> = addresses.ok_or(FORM)?.split(',').map(one).collect();
        let addresses =
            addresses.ok_or("what follows HOST:PORT: are addresses, such as 192.0.2.1 or 2001:db8::1")?;
        Ok(Given { host, port, addresses: Some(addresses) })
    }
}

impl std::str::FromStr for Instead {
    type Err = String;

    fn from_str(text: &str) -> Result<Instead, String> {
        const FORM: &str =
            "expected HOST1:PORT1:HOST2:PORT2, any of them may be empty, such as h:443:127.0.0.1:8443";
        let optional = |text: &str| match text {
            "" => Some(None),
            text => parse_port(text).map(Some),
        };
        let (from, rest) = host_of(text).ok_or(FORM)?;
        let (from_port, rest) = rest.split_once(':').ok_or(FORM)?;
        let (to, to_port) = host_of(rest).ok_or(FORM)?;
        let ports = optional(from_port).zip(optional(to_port)).ok_or(FORM)?;
        let host = |text: String| Some(text).filter(|text| !text.is_empty());
        Ok(Instead { from: (host(from), ports.0), to: (host(to), ports.1) })
    }
}

impl std::str::FromStr for Interface {
    type Err = String;

    /// An address or a name; curl's `if!NAME`, `host!ADDRESS`, `ifhost!NAME!ADDRESS`.
    fn from_str(text: &str) -> Result<Interface, String> {
        let named = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty() && name.len() < 16);
        let address = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().ok();
        let read = if let Some(name) = text.strip_prefix("if!") {
            named(name).map(|name| Interface { name: Some(name), address: None })
        } else if let Some(text) = text.strip_prefix("host!") {
            address(text).map(|address| Interface { name: None, address: Some(address) })
        } else if let Some(both) = text.strip_prefix("ifhost!") {
            let both = both.split_once('!').and_then(|(name, host)| named(name).zip(address(host)));
            both.map(|(name, address)| Interface { name: Some(name), address: Some(address) })
        } else {
            match address(text) {
                Some(address) => Some(Interface { name: None, address: Some(address) }),
                None => named(text).map(|name| Interface { name: Some(name), address: None }),
            }
        };
        read.ok_or_else(|| "expected an interface, such as eth0, or an address of this host".to_owned())
    }
}

/// The host before the next colon, an IPv6 address in brackets, and what follows the colon.
fn host_of(text: &str) -> Option<(String, &str)> {
    let (host, rest) = match text.starts_with('[') {
        true => {
            let end = text.find(']')? + 1;
            let address = text[1..end - 1].parse::<Ipv6Addr>().ok()?;
            (format!("[{address}]"), text[end..].strip_prefix(':')?)
        }
        false => {
            let (host, rest) = text.split_once(':')?;
            (host.to_ascii_lowercase(), rest)
        }
    };
    Some((as_a_url_writes_it(host), rest))
}

/// A name of other letters has a form of ASCII ones.
fn as_a_url_writes_it(host: String) -> String {
    let host = host.strip_suffix('.').map(str::to_owned).unwrap_or(host);
    if host.is_ascii() {
        return host;
    }
    url::Host::parse(&host).map_or(host, |host| host.to_string())
}

fn parse_port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(given: &[&str], instead: &[&str]) -> Reach {
        Reach {
            given: given.iter().map(|text| text.parse().unwrap()).collect(),
            instead: instead.iter().map(|text| text.parse().unwrap()).collect(),
            ..Reach::default()
        }
    }

    #[test]
    fn addresses_that_are_given() {
        let reach = reach(
            &[
                "a.test:80:192.0.2.1",
                "*:443:[2001:db8::1],192.0.2.2",
                "+A.test:80:192.0.2.3",
                "b.test:443:192.0.2.4",
                "-b.test:443",
            ],
            &[],
        );
        let found = |host: &str, port| {
            reach
                .addresses(host, port)
                .map(|found| found.iter().map(|one| one.ip().to_string()).collect::<Vec<_>>())
        };
        assert_eq!(found("a.test", 80), Some(vec!["192.0.2.3".to_owned()]), "the last word counts");
        assert_eq!(found("a.test.", 80), found("a.test", 80));
        assert_eq!(found("x.test", 443), Some(vec!["2001:db8::1".to_owned(), "192.0.2.2".to_owned()]));
        assert_eq!(found("b.test", 443), None, "taken back, for * as well");
        assert_eq!(found("a.test", 81), None);
        for bad in [
            "",
            "a",
            "a:80",
            "a:x:192.0.2.1",
            "a:80:b",
            "a:0:192.0.2.1",
            ":80:192.0.2.1",
            "-a:80:1.2.3.4",
            "[::1:80:::1",
        ] {
            assert!(bad.parse::<Given>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_host_in_another_s_place() {
        let reach = reach(&[], &["a.test:443:b.test:8443", "[::1]:80::81", ":82:[::1]:", "c.test::d.test:"]);
        for (host, port, to) in [
            ("a.test", 443, "b.test:8443"),
            ("A.TEST", 443, "b.test:8443"),
            ("a.test", 80, "a.test:80"),
            ("[::1]", 80, "[::1]:81"),
            ("x.test", 82, "[::1]:82"),
            ("c.test", 5, "d.test:5"),
        ] {
            let (own, own_port) = reach.place_of(host, port);
            assert_eq!(format!("{own}:{own_port}"), to, "{host}:{port}");
        }
        for bad in ["", "a:1", "a:1:b", "a:x:b:1", "a:1:b:x", "a:1:b:99999"] {
            assert!(bad.parse::<Instead>().is_err(), "{bad}");
        }
    }

    #[test]
    fn one_family_or_none() {
        let found: Vec<SocketAddr> = ["[::1]:0", "127.0.0.1:0"].map(|text| text.parse().unwrap()).to_vec();
        for (family, left) in [(Family::V4, 1), (Family::V6, 0)] {
            let reach = Reach { family: Some(family), ..Reach::default() };
            assert_eq!(reach.usable("h", found.clone()).unwrap(), [found[left]]);
            let said = reach.usable("h", vec![found[1 - left]]).unwrap_err();
            assert!(said.contains(if left == 1 { "only IPv6" } else { "only IPv4" }), "{said}");
        }
        let interface = Some("127.0.0.2".parse().unwrap());
        let reach = Reach { interface, ..Reach::default() };
        assert_eq!(reach.usable("h", found.clone()).unwrap(), [found[1]]);
    }

    #[test]
    fn interfaces_are_names_or_addresses() {
        let read = |text: &str| text.parse::<Interface>().unwrap();
        assert_eq!(read("eth0"), read("if!eth0"));
        assert_eq!(read("::1"), read("host!::1"));
        assert_eq!(read("ifhost!eth0!10.0.0.1").address, Some("10.0.0.1".parse().unwrap()));
        let missing = Reach { interface: Some(read("weir-none")), ..Reach::default() };
        let said = missing.check().unwrap_err();
        assert!(said.contains("no such interface") && said.contains("lo"), "{said}");
        let foreign = Reach { interface: Some(read("192.0.2.77")), ..Reach::default() };
        assert!(foreign.check().unwrap_err().contains("no interface of this host"));
        assert!("".parse::<Interface>().is_err() && "host!x".parse::<Interface>().is_err());
    }
}
