//! Which proxy, if any, stands between us and a host: `--proxy`, then the environment as curl reads it.

use url::Url;

use crate::error::Error;
use crate::http::credentials;

/// The proxies in force.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
    exempt: Vec<String>,
}

/// An HTTP proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// `Basic ...`, if its URL had a user.
    pub authorization: Option<String>,
    /// Who named it: `--proxy` or a variable of the environment.
    pub named_by: String,
}

impl Proxies {
    /// `explicit` (from `--proxy`; empty for none at all) over `variable`, which reads the environment.
    pub fn new(explicit: Option<&str>, variable: impl Fn(&str) -> Option<String>) -> Result<Proxies, Error> {
        let lookup = |names: &[&str]| {
            let named = |name: &&str| Some(((*name).to_owned(), variable(name)?));
            names.iter().find_map(named).filter(|(_, text)| !text.is_empty())
        };
        let exempt = || {
            let list = lookup(&["no_proxy", "NO_PROXY"]).map(|(_, list)| list).unwrap_or_default();
            list.split([',', ' ']).filter(|item| !item.is_empty()).map(str::to_lowercase).collect()
        };
        if let Some(explicit) = explicit {
            let proxy = if explicit.is_empty() { None } else { Some(parse(explicit, "--proxy")?) };
            return Ok(Proxies { http: proxy.clone(), https: proxy, exempt: exempt() });
        }
        let read = |names: &[&str]| lookup(names).map(|(name, text)| parse(&text, &name)).transpose();
        Ok(Proxies {
            // Only the lower-case form: a CGI program gets HTTP_PROXY from a request's Proxy field (httpoxy).
            http: read(&["http_proxy", "all_proxy", "ALL_PROXY"])?,
            https: read(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])?,
            exempt: exempt(),
        })
    }

    /// The proxy for `url`.
    pub fn for_url(&self, url: &Url) -> Option<&Proxy> {
        let host = url.host_str()?.to_lowercase();
        if self.exempt.iter().any(|item| is_exempt(item, &host, url.port_or_known_default())) {
            return None;
        }
        if url.scheme() == "https" { self.https.as_ref() } else { self.http.as_ref() }
    }
}

fn is_exempt(item: &str, host: &str, port: Option<u16>) -> bool {
    let (name, only_port) = match item.rsplit_once(':') {
        Some((name, digits)) if !name.contains(':') => (name, digits.parse().ok()),
        _ => (item, None),
    };
    let name = name.trim_start_matches('.');
    let bare = host.trim_matches(['[', ']']);
    let named =
        name == "*" || bare == name || bare.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
    named && only_port.is_none_or(|only: u16| Some(only) == port)
}

fn parse(text: &str, named_by: &str) -> Result<Proxy, Error> {
    let refused = |why: &str| Error::Refused(format!("cannot use the proxy that {named_by} gives: {why}"));
    let text = text.trim_matches([' ', '\t']);
    if let Some(found) = weir_units::control(text) {
        return Err(refused(&format!("it holds {found}")));
    }
    let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = Url::parse(&full).map_err(|error| refused(&error.to_string()))?;
    if url.scheme() != "http" {
        return Err(refused(&format!("its scheme is {}; weir speaks to http:// proxies", url.scheme())));
    }
    Ok(Proxy {
        host: url.host_str().ok_or_else(|| refused("it names no host"))?.to_owned(),
        port: url.port().unwrap_or(if text.contains("://") || has_port(text) { 80 } else { 1080 }),
        authorization: credentials::from_url(&url),
        named_by: named_by.to_owned(),
    })
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
        Proxies::new(None, variable).unwrap()
    }

    #[test]
    fn a_port_that_is_written_counts_whatever_it_is() {
        for (text, port) in [
            ("h:80", 80),
            ("h", 1080),
            ("u:p@h", 1080),
            ("u:p@h:80", 80),
            ("[::1]", 1080),
            ("[::1]:80", 80),
            ("h:3128", 3128),
            ("http://h", 80),
        ] {
            assert_eq!(parse(text, "--proxy").unwrap().port, port, "{text}");
        }
        let variable = |name: &str| (name == "no_proxy").then(|| "near.example".to_owned());
        let proxies = Proxies::new(Some("h:80"), variable).unwrap();
        assert_eq!(host_for(&proxies, "http://near.example/"), None, "as curl has it");
        assert!(host_for(&proxies, "http://far.example/").is_some());
    }

    fn host_for(proxies: &Proxies, url: &str) -> Option<String> {
        proxies.for_url(&Url::parse(url).unwrap()).map(|proxy| proxy.host.clone())
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
    fn a_proxy_knows_who_named_it() {
        let both = proxies(&[("https_proxy", "a:1"), ("ALL_PROXY", "b:1")]);
        for (url, named_by) in [("https://h/", "https_proxy"), ("http://h/", "ALL_PROXY")] {
            assert_eq!(both.for_url(&Url::parse(url).unwrap()).unwrap().named_by, named_by);
        }
    }

    #[test]
    fn control_characters_are_refused() {
        for text in ["http://a\tb:1", "a\r:1", "http://a:1\n", "\u{feff}http://a:1", "a\0b"] {
            let refused = Proxies::new(Some(text), |_| None).map(drop).map_err(|error| error.to_string());
            assert!(refused.unwrap_err().contains(" at position "), "{text:?}");
        }
    }

    #[test]
    fn other_schemes_are_refused() {
        assert!(Proxies::new(Some("socks5://h"), |_| None).is_err());
        assert!(
            Proxies::new(Some(""), |_| None).unwrap().for_url(&Url::parse("http://h/").unwrap()).is_none()
        );
    }
}
