//! Cookies (RFC 6265): what servers set during a run, and what the user gave from a file or by name.
//!
//! One jar for all lanes and all files of a run. Stricter than the RFC where its successor is (draft
//! ietf-httpbis-rfc6265bis): `Secure` cookies come from https and go to https alone, the prefixes `__Host-`
//! and `__Secure-` mean what they say, and no cookie is for a whole public suffix (`co.uk`).

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use cookie_store::{Cookie, CookieDomain, CookieExpiration, CookieStore, RawCookie};
use parking_lot::{Mutex, MutexGuard};
use url::Url;
use weir_http::fields::Fields;

/// A cookie's name, value and path together, bytes: RFC 6265 section 6.1 asks for 4096, and nobody takes
/// more.
const MAX_COOKIE: usize = 4096;

/// Cookies that one answer may set, as curl has it.
const MAX_SET: usize = 50;

/// Cookies that are kept: RFC 6265 section 6.1.
const MAX_KEPT: usize = 3000;

/// The longest `Cookie` field. Servers take heads of 8 KiB (Apache's `LimitRequestFieldSize`).
const MAX_FIELD: usize = 8000;

/// Seconds that a cookie of a file is good for at most: a hundred years are as good as any, and the calendar
/// has them.
const MAX_LEFT: u64 = 100 * 366 * 86_400;

/// The first line of a file in Netscape's format; curl and wget look for it.
const FIRST_LINE: &str = "# Netscape HTTP Cookie File\n";

/// The cookies of a run.
#[derive(Debug, Default)]
pub struct Jar {
    store: Mutex<CookieStore>,
    /// `--cookie NAME=VALUE`: for the origin that the user named alone.
    given: Vec<(String, String)>,
}

/// What became of a cookie file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Cookies that are in the jar now.
    pub kept: usize,
    /// Those whose time is over.
    pub expired: usize,
    /// Lines that are no cookie, counted from 1. Their text may be a secret.
    pub odd: Vec<usize>,
}

impl Jar {
    /// Adds cookies as a `Cookie` field has them: `a=1; b=2`. Returns false where there is none in it.
    pub fn give(&mut self, pairs: &str) -> bool {
        let before = self.given.len();
        let pairs = pairs.split(';').map(str::trim).filter_map(|pair| pair.split_once('='));
        let pairs = pairs.filter(|(name, value)| !name.is_empty() && is_clean(name) && is_clean(value));
        self.given.extend(pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())));
        self.given.len() > before
    }

    /// The `Cookie` field of a request to `url`; what was given by name goes along where `at_home`.
    pub fn field(&self, url: &Url, at_home: bool) -> Option<String> {
        let store = self.lock();
        // `Secure` means TLS, though it be this machine alone.
        let may = |cookie: &&Cookie<'_>| url.scheme() == "https" || cookie.secure() != Some(true);
        let mut found: Vec<&Cookie<'_>> = store.matches(url).into_iter().filter(may).collect();
        // RFC 6265 section 5.4: longer paths first.
        found.sort_by(|a, b| b.path.len().cmp(&a.path.len()).then_with(|| a.name().cmp(b.name())));
        let newer = |name: &str| found.iter().any(|cookie| cookie.name() == name);
        let mut field = String::new();
        let given = self.given.iter().filter(|_| at_home).filter(|(name, _)| !newer(name));
        let given = given.map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in given.chain(found.iter().map(|cookie| cookie.name_value())) {
            if field.len() + name.len() + value.len() < MAX_FIELD {
                let between = if field.is_empty() { "" } else { "; " };
                let _ = write!(field, "{between}{name}={value}");
            }
        }
        Some(field).filter(|field| !field.is_empty())
    }

    /// Keeps what an answer from `url` sets.
    pub fn take(&self, url: &Url, fields: &Fields) {
        for line in fields.headers_all("set-cookie").take(MAX_SET) {
            self.set(url, line);
        }
    }

    /// One `Set-Cookie` value; what breaks a rule is left out.
    fn set(&self, url: &Url, line: &str) {
        let Ok(mut cookie) = RawCookie::parse(line.to_owned()) else { return };
        let texts = [cookie.name(), cookie.value(), cookie.path().unwrap_or_default()];
        if texts.iter().map(|text| text.len()).sum::<usize>() > MAX_COOKIE || !texts.into_iter().all(is_clean)
        {
            return;
        }
        let is_https = url.scheme() == "https";
        let is_secure = cookie.secure() == Some(true);
        let is_host_only = cookie.domain().is_none_or(str::is_empty);
        let prefix = |prefix: &str| {
            cookie.name().get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        };
        let breaks_prefix = prefix("__Secure-") && !is_secure
            || prefix("__Host-") && !(is_secure && is_host_only && cookie.path() == Some("/"));
        if breaks_prefix || is_secure && !is_https {
            return;
        }
        if let Some(domain) =
            cookie.domain().map(|domain| domain.trim_start_matches('.').to_ascii_lowercase())
            && is_public_suffix(&domain)
        {
            // RFC 6265 section 5.3, step 5.
            match url.host_str() {
                Some(host) if host == domain => cookie.unset_domain(),
                _ => return,
            }
        }
        let mut store = self.lock();
        let shadows = |old: &Cookie<'_>| {
            old.name() == cookie.name() && old.secure() == Some(true) && old.domain.matches(url)
        };
        if !is_https && store.iter_unexpired().any(shadows) {
            return;
        }
        if store.iter_unexpired().count() < MAX_KEPT {
            // Its errors are rules that the cookie breaks: another host's domain, a time that is over.
            let _ = store.insert_raw(&cookie, url);
        }
    }

    /// Adds the cookies of a file in Netscape's format, as browsers export it, curl writes and wget reads it.
    pub fn load(&self, text: &str, now: SystemTime) -> Loaded {
        let mut loaded = Loaded::default();
        let mut store = self.lock();
        for (number, line) in weir_units::lines(text) {
            let line = line.trim_end_matches(['\r', '\n']);
            let (line, http_only) = match line.strip_prefix("#HttpOnly_") {
                Some(rest) => (rest, true),
                None => (line, false),
            };
            if line.trim().is_empty() || line.starts_with('#') && !http_only {
                continue;
            }
            match entry(line, http_only, now) {
                Some(Entry::Kept(raw, url, left)) if loaded.kept < MAX_KEPT => {
                    let kept = Cookie::try_from_raw_cookie(&raw, &url).and_then(|mut cookie| {
                        if let Some(left) = left {
                            cookie.expires = CookieExpiration::from(left);
                        }
                        store.insert(cookie.into_owned(), &url)
                    });
                    match kept {
                        Ok(_) => loaded.kept += 1,
                        Err(_) => loaded.odd.push(number),
                    }
                }
                Some(Entry::Expired) => loaded.expired += 1,
                _ => loaded.odd.push(number),
            }
        }
        loaded
    }

    /// All that is kept, in Netscape's format; those of the session with the time 0, as curl writes them.
    pub fn netscape(&self) -> String {
        let store = self.lock();
        let mut lines: Vec<String> = store.iter_unexpired().filter_map(line).collect();
        lines.sort();
        format!("{FIRST_LINE}{}", lines.concat())
    }

    fn lock(&self) -> MutexGuard<'_, CookieStore> {
        self.store.lock()
    }
}

enum Entry {
    /// A cookie, a URL that could have set it, and the seconds that it is good for, if not the session.
    Kept(Box<RawCookie<'static>>, Url, Option<u64>),
    Expired,
}

/// `domain, its subdomains too, path, secure, expires, name, value`, parted by TABs; an empty value may be
/// left out.
fn entry(line: &str, http_only: bool, now: SystemTime) -> Option<Entry> {
    let fields: Vec<&str> = line.split('\t').collect();
    let (&[domain, subdomains, path, secure, expires, name], value) =
        (fields.get(..6)?.try_into().ok()?, fields.get(6));
    let value = value.copied().unwrap_or_default();
    let domain = domain.trim().trim_start_matches('.');
    let flag = |text: &str| match text.trim().to_ascii_uppercase().as_str() {
        "TRUE" => Some(true),
        "FALSE" => Some(false),
        _ => None,
    };
    let (subdomains, secure) = (flag(subdomains)?, flag(secure)?);
    // Some exporters write fractions of a second, or -1 for the end of the session.
    let expires: f64 = expires.trim().parse().ok()?;
    let is_short = name.len() + value.len() <= MAX_COOKIE && fields.len() <= 7;
    if name.is_empty()
        || domain.is_empty()
        || !is_short
        || ![domain, path, name, value].into_iter().all(is_clean)
    {
        return None;
    }
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let span = Duration::try_from_secs_f64(expires.max(0.0)).unwrap_or(Duration::MAX);
    if expires > 0.0 && span <= now {
        return Some(Entry::Expired);
    }
    let path = if path.starts_with('/') { path } else { "/" };
    let host = if domain.contains(':') {
        format!("[{}]", domain.trim_matches(['[', ']']))
    } else {
        domain.to_owned()
    };
    let url = Url::parse(&format!("https://{host}/")).ok()?;
    let mut cookie = RawCookie::new(name.to_owned(), value.to_owned());
    cookie.set_path(path.to_owned());
    cookie.set_secure(secure);
    cookie.set_http_only(http_only);
    if subdomains && matches!(url.host(), Some(url::Host::Domain(_))) {
        cookie.set_domain(domain.to_owned());
    }
    let mut left = None;
    if expires > 0.0 {
        left = Some((span - now).as_secs().clamp(1, MAX_LEFT));
    }
    Some(Entry::Kept(Box::new(cookie), url, left))
}

/// A cookie as a line of a file.
fn line(cookie: &Cookie<'_>) -> Option<String> {
    let (domain, subdomains) = match &cookie.domain {
        CookieDomain::HostOnly(host) => (host.clone(), "FALSE"),
        CookieDomain::Suffix(suffix) => (format!(".{suffix}"), "TRUE"),
        CookieDomain::NotPresent | CookieDomain::Empty => return None,
    };
    let prefix = if cookie.http_only() == Some(true) { "#HttpOnly_" } else { "" };
    let secure = if cookie.secure() == Some(true) { "TRUE" } else { "FALSE" };
    let expires = match &cookie.expires {
        CookieExpiration::AtUtc(time) => time.unix_timestamp().max(1),
        CookieExpiration::SessionEnd => 0,
    };
    let path: &str = &cookie.path;
    let (name, value) = cookie.name_value();
    let columns = [&format!("{prefix}{domain}"), subdomains, path, secure, &expires.to_string(), name, value];
    // A TAB within would make other columns of them.
    let is_plain = columns.iter().all(|column| !column.contains(['\t', '\n', '\r']));
    is_plain.then(|| format!("{}\n", columns.join("\t")))
}

/// No control characters: they would end the field, or the line of a file.
fn is_clean(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

/// A domain under which anybody can have a name.
fn is_public_suffix(domain: &str) -> bool {
    let is_address = domain.parse::<std::net::IpAddr>().is_ok();
    !is_address && psl::suffix_str(domain) == Some(domain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn jar(set: &[(&str, &str)]) -> Jar {
        let jar = Jar::default();
        for (at, line) in set {
            let mut fields = Fields::new();
            fields.push("Set-Cookie", line).unwrap();
            jar.take(&url(at), &fields);
        }
        jar
    }

    fn sent(jar: &Jar, at: &str) -> String {
        jar.field(&url(at), true).unwrap_or_default()
    }

    #[test]
    fn each_rule_of_the_rfc() {
        for (set_at, line, asked, expected) in [
            ("http://a.example/x", "n=v", "http://a.example/", "n=v"),
            ("http://a.example/x", "n=v", "http://a.example:81/", "n=v"),
            ("http://a.example/x", "n=v", "http://b.example/", ""),
            ("http://a.example/x", "n=v", "http://s.a.example/", ""),
            ("http://s.a.example/", "n=v; Domain=a.example", "http://a.example/", "n=v"),
            ("http://s.a.example/", "n=v; Domain=.a.example", "http://t.a.example/", "n=v"),
            ("http://s.a.example/", "n=v; Domain=b.example", "http://b.example/", ""),
            ("http://a.example/", "n=v; Domain=s.a.example", "http://s.a.example/", ""),
            // Nobody speaks for a public suffix, but a host that is one may keep its own.
            ("http://a.co.uk/", "n=v; Domain=co.uk", "http://b.co.uk/", ""),
            ("http://a.com/", "n=v; Domain=com", "http://b.com/", ""),
            ("http://a.github.io/", "n=v; Domain=github.io", "http://b.github.io/", ""),
            ("http://localhost/", "n=v; Domain=localhost", "http://localhost/", "n=v"),
            ("http://127.0.0.1/", "n=v; Domain=127.0.0.1", "http://127.0.0.1:81/", "n=v"),
            ("http://127.0.0.1/", "n=v", "http://127.0.0.2/", ""),
            ("http://[::1]/", "n=v", "http://[::1]/", "n=v"),
            ("http://a.example/x/y", "n=v", "http://a.example/z", ""),
            ("http://a.example/x/y", "n=v", "http://a.example/x/z", "n=v"),
            ("http://a.example/x/y", "n=v; Path=/", "http://a.example/z", "n=v"),
            ("http://a.example/", "n=v; Path=/x", "http://a.example/xy", ""),
            ("http://a.example/", "n=v; Path=/x", "http://a.example/x/y", "n=v"),
            ("https://a.example/", "n=v; Secure", "https://a.example/", "n=v"),
            ("https://a.example/", "n=v; Secure", "http://a.example/", ""),
            ("https://localhost/", "n=v; Secure", "http://localhost/", ""),
            ("http://a.example/", "n=v; Secure", "https://a.example/", ""),
            ("http://a.example/", "n=v; HttpOnly; SameSite=Strict", "http://a.example/", "n=v"),
            ("http://a.example/", "n=v; Max-Age=0", "http://a.example/", ""),
            ("http://a.example/", "n=v; Max-Age=-1", "http://a.example/", ""),
            ("http://a.example/", "n=v; Max-Age=100", "http://a.example/", "n=v"),
            ("http://a.example/", "n=v; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "http://a.example/", ""),
            ("http://a.example/", "n=v; Expires=Thu, 01-Jan-2099 00:00:00 GMT", "http://a.example/", "n=v"),
            (
                "http://a.example/",
                "n=v; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=9",
                "http://a.example/",
                "n=v",
            ),
            ("http://a.example/", "n=v; Expires=soon", "http://a.example/", "n=v"),
            ("http://a.example/", "n=\"a b\"", "http://a.example/", "n=\"a b\""),
            ("http://a.example/", "n=a=b", "http://a.example/", "n=a=b"),
            ("http://a.example/", "n=", "http://a.example/", "n="),
            ("http://a.example/", "=v", "http://a.example/", ""),
            ("https://a.example/", "__Secure-n=v", "https://a.example/", ""),
            ("https://a.example/", "__Secure-n=v; Secure", "https://a.example/", "__Secure-n=v"),
            ("https://a.example/", "__Host-n=v; Secure", "https://a.example/", ""),
            ("https://a.example/", "__Host-n=v; Secure; Path=/", "https://a.example/", "__Host-n=v"),
            ("https://a.example/", "__Host-n=v; Secure; Path=/; Domain=a.example", "https://a.example/", ""),
        ] {
            assert_eq!(sent(&jar(&[(set_at, line)]), asked), expected, "{set_at} {line} {asked}");
        }
    }

    #[test]
    fn cookies_are_replaced_removed_and_ordered() {
        let at = "http://a.example/x/y";
        assert_eq!(sent(&jar(&[(at, "n=1; Path=/"), (at, "n=2; Path=/")]), at), "n=2");
        assert_eq!(sent(&jar(&[(at, "n=1; Path=/"), (at, "n=; Path=/; Max-Age=0")]), at), "");
        assert_eq!(sent(&jar(&[(at, "n=1; Path=/"), (at, "n=2"), (at, "m=3")]), at), "m=3; n=2; n=1");
        // Nobody on the path may replace what came by TLS.
        let secure = ("https://a.example/x/y", "n=1; Secure; Path=/");
        assert_eq!(sent(&jar(&[secure, (at, "n=2; Path=/")]), "https://a.example/x"), "n=1");
    }

    #[test]
    fn what_the_user_gave_is_for_home_until_the_server_renews_it() {
        let mut jar = jar(&[("http://a.example/", "b=new; Path=/")]);
        assert!(jar.give("a=1; b=2;c=3"));
        assert!(!jar.give("nothing") && !jar.give(""));
        assert_eq!(sent(&jar, "http://a.example/"), "a=1; c=3; b=new");
        assert_eq!(jar.field(&url("http://b.example/"), false), None);
    }

    #[test]
    fn files_of_browsers_curl_and_wget_are_read() {
        let text = "# Netscape HTTP Cookie File\n# a remark\n\n\
                    .a.example\tTRUE\t/\tFALSE\t0\tsession\ts\n\
                    a.example\tFALSE\t/x\tFALSE\t4102444800\tpathed\tp\r\n\
                    #HttpOnly_a.example\tFALSE\t/\tTRUE\t4102444800.5\tsecure\tv\n\
                    a.example\tFALSE\t/\tFALSE\t1\told\to\n\
                    a.example\tFALSE\t/\tFALSE\t-1\tempty\n\
                    127.0.0.1\tTRUE\t/\tFALSE\t0\taddress\ta\n\
                    ::1\tFALSE\t/\tFALSE\t0\tsix\t6\n\
                    a.example FALSE / FALSE 0 spaces x\n\
                    a.example\tMAYBE\t/\tFALSE\t0\tn\tv\n";
        let jar = Jar::default();
        let loaded = jar.load(text, SystemTime::now());
        assert_eq!(loaded, Loaded { kept: 6, expired: 1, odd: vec![11, 12] });
        assert_eq!(sent(&jar, "http://a.example/x"), "pathed=p; empty=; session=s");
        assert_eq!(sent(&jar, "https://a.example/"), "empty=; secure=v; session=s");
        assert_eq!(sent(&jar, "http://sub.a.example/"), "session=s");
        assert_eq!(sent(&jar, "http://127.0.0.1:81/"), "address=a");
        assert_eq!(sent(&jar, "http://[::1]/"), "six=6");
    }

    #[test]
    fn a_file_comes_back_as_it_went() {
        let first = jar(&[
            ("https://s.a.example/", "a=1; Domain=a.example; Secure; HttpOnly; Max-Age=1000"),
            ("http://s.a.example/x/", "b=2"),
            ("http://[::1]/", "c=3; Path=/"),
        ]);
        let text = first.netscape();
        assert!(text.starts_with(FIRST_LINE), "{text}");
        assert!(text.contains("#HttpOnly_.a.example\tTRUE\t/\tTRUE\t"), "{text}");
        assert!(text.contains("s.a.example\tFALSE\t/x\tFALSE\t0\tb\t2\n"), "{text}");
        let second = Jar::default();
        assert_eq!(second.load(&text, SystemTime::now()).kept, 3, "{text}");
        let strip = |text: String| {
            text.lines().map(|line| line.rsplit('\t').next().map(str::to_owned)).collect::<Vec<_>>()
        };
        assert_eq!(strip(second.netscape()), strip(text));
    }

    proptest! {
        #[test]
        fn foreign_bytes_never_break_a_field(line in "[a-z_=; \"\\PC]{0,40}", file in "([a-z.:]{0,5}[\t ]|TRUE\t|FALSE\t|/|[0-9-]{1,3}\t|\n|\\PC){0,30}") {
            let jar = Jar::default();
            let at = url("https://a.example/x");
            jar.set(&at, &line);
            jar.load(&file, SystemTime::now());
            if let Some(field) = jar.field(&at, true) {
                prop_assert!(is_clean(&field) && field.len() <= MAX_FIELD + MAX_COOKIE);
            }
            jar.load(&jar.netscape(), SystemTime::now());
        }
    }
}
