//! Which proxy, if any, stands between us and a host: `--proxy`, then the environment as curl reads it.

use std::net::IpAddr;

use url::{Host, Url};
use weir_http::netrc::Login;

use crate::error::GetError;
use crate::http::credentials;

/// The proxies in force.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    http: Option<Named>,
    https: Option<Named>,
    exempt: Vec<Exempt>,
}

/// A proxy, or why it cannot be used. Whoever meets no URL for it is not troubled by that.
type Named = Result<Proxy, String>;

/// A proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// What it speaks.
    pub kind: Kind,
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The user of its URL.
    pub login: Option<Login>,
    /// Who named it: `--proxy` or a variable of the environment.
    pub named_by: String,
}

/// What a proxy speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// HTTP: whole URLs for http, CONNECT for https.
    Http,
    /// The same inside TLS.
    Https,
    /// SOCKS 4; with `far_names` (4a) the proxy looks names up.
    Socks4 {
        /// See there.
        far_names: bool,
    },
    /// SOCKS 5; with `far_names` (socks5h) the proxy looks names up.
    Socks5 {
        /// See there.
        far_names: bool,
    },
}

/// The schemes of proxies. `socks` is what desktops write into `all_proxy`, and means the newest.
const SCHEMES: [(&str, Kind, u16); 7] = [
    ("http", Kind::Http, 80),
    ("https", Kind::Https, 443),
    ("socks", Kind::Socks5 { far_names: true }, 1080),
    ("socks4", Kind::Socks4 { far_names: false }, 1080),
    ("socks4a", Kind::Socks4 { far_names: true }, 1080),
    ("socks5", Kind::Socks5 { far_names: false }, 1080),
    ("socks5h", Kind::Socks5 { far_names: true }, 1080),
];

impl Proxy {
    /// It is sent requests for http URLs whole, rather than connecting to their host.
    pub fn takes_requests(&self) -> bool {
        matches!(self.kind, Kind::Http | Kind::Https)
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// What the user said of proxies.
#[derive(Debug, Clone, Copy, Default)]
pub struct Said<'a> {
    /// `--proxy`; empty for none at all.
    pub proxy: Option<&'a str>,
    /// `--noproxy`, in place of the environment's list.
    pub exempt: Option<&'a str>,
}

impl Proxies {
    /// What was said over `variable`, which reads the environment.
    pub fn new(said: Said<'_>, variable: impl Fn(&str) -> Option<String>) -> Result<Proxies, GetError> {
        let lookup = |names: &[&str]| {
            let named = |name: &&str| Some(((*name).to_owned(), variable(name)?));
            names.iter().find_map(named).filter(|(_, text)| !text.is_empty())
        };
        let list = match said.exempt {
            Some(list) => list.to_owned(),
            None => lookup(&["no_proxy", "NO_PROXY"]).map(|(_, list)| list).unwrap_or_default(),
        };
        let exempt =
            list.split([',', ' ', '\t']).filter(|item| !item.is_empty()).map(Exempt::parse).collect();
        if let Some(explicit) = said.proxy {
            let proxy = if explicit.is_empty() { None } else { Some(parse(explicit, "--proxy")) };
            // What was written for this run is said at once.
            if let Some(Err(why)) = &proxy {
                return Err(GetError::Refused(why.clone()));
            }
            return Ok(Proxies { http: proxy.clone(), https: proxy, exempt });
        }
        let read = |names: &[&str]| lookup(names).map(|(name, text)| parse(&text, &name));
        Ok(Proxies {
            // Only the lower-case form: a CGI program gets HTTP_PROXY from a request's Proxy field (httpoxy).
            http: read(&["http_proxy", "all_proxy", "ALL_PROXY"]),
            https: read(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            exempt,
        })
    }

    /// The proxy for `url`; an error where the one that is named for it cannot be used.
    pub(crate) fn for_url(&self, url: &Url) -> Result<Option<&Proxy>, GetError> {
        let Some(host) = url.host() else { return Ok(None) };
        if self.exempt.iter().any(|item| item.covers(&host, url.port_or_known_default())) {
            return Ok(None);
        }
        match if url.scheme() == "https" { &self.https } else { &self.http } {
            None => Ok(None),
            Some(Ok(proxy)) => Ok(Some(proxy)),
            Some(Err(why)) => Err(GetError::Refused(why.clone())),
        }
    }
}

/// A member of `no_proxy`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Exempt {
    what: Hosts,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    All,
    /// These addresses: the first `bits` of them are those of `network`.
    Block {
        network: IpAddr,
        bits: u32,
    },
    /// This name and those below it.
    Name(String),
}

impl Exempt {
    fn parse(item: &str) -> Exempt {
        let item = item.to_lowercase();
        // `[::1]:80`, `[fe80::]/10`, `::1`, `10.0.0.0/8`, `host:80`: only a colon behind a bracket, or one
        // alone, parts a port.
        let colon = match item.rsplit_once(':') {
            Some((name, _)) if name.contains(':') && !name.ends_with(']') => None,
            other => other,
        };
        let (name, port) = match colon.map(|(name, digits)| (name, digits.parse().ok())) {
            Some((name, Some(port))) => (name, Some(port)),
            _ => (item.as_str(), None),
        };
        if name == "*" {
            return Exempt { what: Hosts::All, port };
        }
        let (address, bits) =
            name.split_once('/').map_or((name, None), |(address, bits)| (address, Some(bits)));
        let parsed = address.trim_matches(['[', ']']).parse::<IpAddr>().ok();
        let whole = |address: &IpAddr| if address.is_ipv4() { 32 } else { 128 };
        let block = parsed.and_then(|network| match bits.map(str::parse::<u32>) {
            None => Some((network, whole(&network))),
            Some(Ok(bits)) if bits <= whole(&network) => Some((network, bits)),
            Some(_) => None,
        });
        let what = match block {
            Some((network, bits)) => Hosts::Block { network, bits },
            None => Hosts::Name(name.trim_start_matches("*.").trim_matches('.').to_owned()),
        };
        Exempt { what, port }
    }

    fn covers(&self, host: &Host<&str>, port: Option<u16>) -> bool {
        let covered = match (&self.what, host) {
            (Hosts::All, _) => true,
            (Hosts::Block { network, bits }, Host::Ipv4(address)) => {
                within(*network, *bits, (*address).into())
            }
            (Hosts::Block { network, bits }, Host::Ipv6(address)) => {
                within(*network, *bits, (*address).into())
            }
            (Hosts::Name(name), Host::Domain(host)) => {
                let host = host.trim_end_matches('.').to_lowercase();
                host.strip_suffix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }
            _ => false,
        };
        covered && self.port.is_none_or(|only| Some(only) == port)
    }
}

fn within(network: IpAddr, bits: u32, address: IpAddr) -> bool {
    let (network, address, width) = match (network, address.to_canonical()) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            (u128::from(u32::from(network)), u128::from(u32::from(address)), 32)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => (u128::from(network), u128::from(address), 128),
        _ => return false,
    };
    (network ^ address).checked_shr(width - bits).unwrap_or(0) == 0
}

fn parse(text: &str, named_by: &str) -> Named {
    let way_out = match named_by {
        "--proxy" => "",
        _ => "; unset it, name the host in no_proxy, or --noproxy '*' goes without any proxy",
    };
    let refused = |why: String| format!("cannot use the proxy that {named_by} gives: {why}{way_out}");
    let text = text.trim_matches([' ', '\t']);
    if let Some(found) = weir_units::control(text) {
        return Err(refused(format!("it holds {found}")));
    }
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let scheme = scheme.to_ascii_lowercase();
    let known = SCHEMES.iter().find(|(name, ..)| *name == scheme || scheme.is_empty());
    let Some((_, kind, usual)) = known else {
        return Err(refused(format!(
            "its scheme is {}; weir speaks to http, https, socks4, socks4a, socks5 and socks5h proxies",
            printable(&scheme)
        )));
    };
    // What begins a path ends the host: the rest of a password would be none.
    let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    if rest[authority..].contains('@') {
        let why = "in a user or password / is written %2F, ? %3F, # %23 and @ %40";
        return Err(refused(why.to_owned()));
    }
    // Read as http, whose parser takes hosts and users apart by the rules that all of them share.
    let url = Url::parse(&format!("http://{rest}")).map_err(|error| refused(error.to_string()))?;
    Ok(Proxy {
        kind: *kind,
        host: url.host_str().ok_or_else(|| refused("it names no host".to_owned()))?.to_owned(),
        port: match url.port() {
            Some(port) => port,
            None if has_port(rest) => 80,
            // curl's port for a proxy without scheme and port.
            None if scheme.is_empty() => 1080,
            None => *usual,
        },
        login: credentials::from_url(&url),
        named_by: named_by.to_owned(),
    })
}

fn printable(scheme: &str) -> String {
    scheme.chars().take(20).collect()
}

/// Whether a port is written after the host: 80 is none to [`Url`], being its scheme's own.
fn has_port(text: &str) -> bool {
    let authority = text.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    host.rsplit(']').next().is_some_and(|rest| rest.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(pairs: &'static [(&'static str, &'static str)]) -> Proxies {
        let variable = |name: &str| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned());
        Proxies::new(Said::default(), variable).unwrap()
    }

    #[test]
    fn a_port_that_is_written_counts_whatever_it_is() {
        for (text, kind, port) in [
            ("h:80", Kind::Http, 80),
            ("h", Kind::Http, 1080),
            ("u:p@h", Kind::Http, 1080),
            ("u:p@h:80", Kind::Http, 80),
            ("[::1]", Kind::Http, 1080),
            ("[::1]:80", Kind::Http, 80),
            ("h:3128", Kind::Http, 3128),
            ("http://h", Kind::Http, 80),
            ("HTTPS://h", Kind::Https, 443),
            ("https://h:80", Kind::Https, 80),
            ("socks5://u:p@h", Kind::Socks5 { far_names: false }, 1080),
            ("socks5h://h:9050/", Kind::Socks5 { far_names: true }, 9050),
            ("socks://h", Kind::Socks5 { far_names: true }, 1080),
            ("socks4a://h", Kind::Socks4 { far_names: true }, 1080),
        ] {
            let proxy = parse(text, "--proxy").unwrap();
            assert_eq!((proxy.kind, proxy.port), (kind, port), "{text}");
        }
        for raw in ["http://u:p#x@h:1", "u:1?x@h", "u:12/3@h:1"] {
            let said = parse(raw, "--proxy").unwrap_err();
            assert!(said.contains("# %23"), "{said}");
        }
        let variable = |name: &str| (name == "no_proxy").then(|| "near.example".to_owned());
        let said = Said { proxy: Some("h:80"), exempt: None };
        let proxies = Proxies::new(said, variable).unwrap();
        assert_eq!(host_for(&proxies, "http://near.example/"), None, "as curl has it");
        assert!(host_for(&proxies, "http://far.example/").is_some());
        let proxies = Proxies::new(Said { exempt: Some("far.example"), ..said }, variable).unwrap();
        assert!(host_for(&proxies, "http://near.example/").is_some());
        assert_eq!(host_for(&proxies, "http://far.example/"), None);
    }

    fn host_for(proxies: &Proxies, url: &str) -> Option<String> {
        proxies.for_url(&Url::parse(url).unwrap()).unwrap().map(|proxy| proxy.host.clone())
    }

    #[test]
    fn the_environment_is_read_as_curl_reads_it() {
        let both = proxies(&[
            ("http_proxy", "http://u:p@a:3128"),
            ("HTTPS_PROXY", "b:8080"),
            ("no_proxy", "x.org,.y.org,z:81"),
        ]);
        assert_eq!(host_for(&both, "http://h/"), Some("a".into()));
        assert_eq!(host_for(&both, "https://h/"), Some("b".into()));
        for exempt in ["http://x.org/", "http://www.x.org/", "http://a.y.org/", "http://z:81/"] {
            assert_eq!(host_for(&both, exempt), None, "{exempt}");
        }
        assert_eq!(host_for(&both, "http://notx.org/"), Some("a".into()));
        assert_eq!(host_for(&both, "http://z:82/"), Some("a".into()));
        assert_eq!(host_for(&proxies(&[("HTTP_PROXY", "http://evil")]), "http://h/"), None);
    }

    #[test]
    fn hosts_that_need_no_proxy() {
        for (list, url, is_exempt) in [
            ("10.0.0.0/8", "http://10.1.2.3/", true),
            ("10.0.0.0/8", "http://11.1.2.3/", false),
            ("10.0.0.0/8", "http://ten.example/", false),
            ("192.168.1.7/32", "http://192.168.1.7:8080/", true),
            ("192.168.1.7/31", "http://192.168.1.8/", false),
            ("0.0.0.0/0", "http://8.8.8.8/", true),
            ("::1", "http://[::1]:81/", true),
            ("[::1]", "http://[::1]/", true),
            ("[::1]:81", "http://[::1]:81/", true),
            ("[::1]:81", "http://[::1]:82/", false),
            ("fd00::/8", "http://[fd12::1]/", true),
            ("[fd00::]/8", "http://[fd12::1]/", true),
            ("fd00::/8", "http://[fe80::1]/", false),
            ("::/0", "http://127.0.0.1/", false),
            ("127.0.0.1", "http://127.0.0.1:8000/", true),
            ("127.0.0.1:8000", "http://127.0.0.1:8000/", true),
            ("127.0.0.1:8001", "http://127.0.0.1:8000/", false),
            ("127.0.0.0/33", "http://127.0.0.1/", false),
            ("10.0.0.1", "http://10.0.0.10/", false),
            ("a.example, 10.0.0.0/8", "http://10.0.0.1/", true),
            ("*.a.example", "http://b.a.example/", true),
            (".a.example", "http://a.example/", true),
            ("A.Example", "http://a.example./", true),
            ("a.example.", "http://a.example/", true),
            ("b.example", "http://ab.example/", false),
            ("*", "http://[::1]/", true),
            ("*:81", "http://h:82/", false),
        ] {
            let said = Said { proxy: Some("p:1"), exempt: Some(list) };
            let proxies = Proxies::new(said, |_| None).unwrap();
            assert_eq!(host_for(&proxies, url).is_none(), is_exempt, "{list} {url}");
        }
    }

    #[test]
    fn a_proxy_knows_who_named_it() {
        let both = proxies(&[("https_proxy", "a:1"), ("ALL_PROXY", "b:1")]);
        for (url, named_by) in [("https://h/", "https_proxy"), ("http://h/", "ALL_PROXY")] {
            let proxy = both.for_url(&Url::parse(url).unwrap()).unwrap();
            assert_eq!(proxy.unwrap().named_by, named_by);
        }
    }

    #[test]
    fn control_characters_are_refused() {
        for text in ["http://a\tb:1", "a\r:1", "http://a:1\n", "\u{feff}http://a:1", "a\0b"] {
            let said = Said { proxy: Some(text), exempt: None };
            let refused = Proxies::new(said, |_| None).map(drop).map_err(|error| error.to_string());
            assert!(refused.unwrap_err().contains(" at position "), "{text:?}");
        }
    }

    #[test]
    fn a_proxy_that_cannot_be_used_troubles_those_that_need_it() {
        let said = |text| Said { proxy: Some(text), exempt: None };
        assert!(Proxies::new(said("quic://h"), |_| None).is_err());
        let none = Proxies::new(said(""), |_| None).unwrap();
        assert_eq!(host_for(&none, "http://h/"), None);
        let unusable =
            proxies(&[("all_proxy", "quic://u:geheim@h"), ("no_proxy", "near"), ("https_proxy", "b:1")]);
        assert_eq!(host_for(&unusable, "http://near/"), None);
        assert_eq!(host_for(&unusable, "https://far/"), Some("b".into()));
        let error = unusable.for_url(&Url::parse("http://far/").unwrap()).unwrap_err().to_string();
        for word in ["all_proxy", "quic", "no_proxy", "--noproxy '*'"] {
            assert!(error.contains(word), "{error}");
        }
        assert!(!error.contains("geheim"), "{error}");
    }
}
