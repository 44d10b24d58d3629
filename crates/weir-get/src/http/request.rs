//! What is asked: one GET, for all of an object or a part of it.

use url::{Position, Url};
use weir_http::range_request;

use crate::http::authority::Authorizer;
use crate::http::proxy::Proxy;

/// The product token servers see.
pub(crate) const USER_AGENT: &str = concat!("weir/", env!("CARGO_PKG_VERSION"));

/// Scheme, host and port: what credentials and connections belong to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    /// https.
    pub tls: bool,
    /// The host as the URL writes it, IPv6 in brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Origin {
    /// The origin of an http or https URL.
    pub fn of(url: &Url) -> Option<Origin> {
        let tls = match url.scheme() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        Some(Origin { tls, host: url.host_str()?.to_owned(), port: url.port_or_known_default()? })
    }

    /// The `Host` field's value.
    pub fn authority(&self) -> String {
        match (self.tls, self.port) {
            (false, 80) | (true, 443) => self.host.clone(),
            (_, port) => format!("{}:{port}", self.host),
        }
    }
}

/// A GET, before it is known which connection carries it.
#[derive(Clone)]
pub struct Ask<'a> {
    /// First byte wanted, and the byte after the last (`None`: to the end). `None`: no Range field at all.
    pub range: Option<(u64, Option<u64>)>,
    /// What stands in Range in place of that, behind `bytes=`.
    pub set: Option<&'a str>,
    /// The validator the answer must match to be a part (`If-Range`).
    pub if_range: Option<&'a str>,
    /// That validator is sent as `If-Match` instead: another version is refused by 412, and not sent whole.
    pub pins: bool,
    /// The user's own fields; they replace ours of the same name.
    pub headers: &'a [(String, String)],
    /// `Basic ...`, `Digest ...`.
    pub authorization: Option<&'a str>,
    /// The cookies for this URL.
    pub cookies: Option<&'a str>,
    /// Names of fields that are not sent (`-H 'NAME:'`), in lower case.
    pub removed: &'a [String],
    /// What of the object is here already: it is sent only if it is another one now.
    pub unless: Option<&'a Unless>,
    /// `Accept-Encoding`; `None` leaves it out.
    pub codings: Option<&'static str>,
    /// Who has the last word on the fields of a request for this URL.
    pub sealed_by: Option<(&'a dyn Authorizer, &'a Url)>,
}

/// What is known of a complete file that is here, in the form in which a server is asked whether it is still
/// the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unless {
    /// Its entity tag (`If-None-Match`).
    pub tag: Option<String>,
    /// Its time (`If-Modified-Since`).
    pub modified: Option<String>,
}

/// Ranges count bytes of the coded body, so a coded one could not be split or resumed.
pub(crate) const IDENTITY: &str = "identity";

impl Ask<'_> {
    /// All fields in order, for HTTP/1.1 and HTTP/2 alike, without `Host`.
    pub fn fields(&self) -> Vec<(String, String)> {
        let mut fields: Vec<(String, String)> =
            vec![("user-agent".into(), USER_AGENT.into()), ("accept".into(), "*/*".into())];
        if let Some(codings) = self.codings {
            fields.push(("accept-encoding".into(), codings.to_owned()));
        }
        if let Some(authorization) = self.authorization {
            fields.push(("authorization".into(), authorization.to_owned()));
        }
        let is_given = |own: &str| self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(own));
        fields.retain(|(own, _)| !is_given(own) && !self.removed.iter().any(|name| name == own));
        // Two of one name are both sent.
        let given = self.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
        fields.extend(given);
        if let Some(unless) = self.unless {
            let mut add = |name: &str, value: &Option<String>| {
                fields.extend(value.iter().map(|value| (name.to_owned(), value.clone())));
            };
            add("if-none-match", &unless.tag);
            add("if-modified-since", &unless.modified);
        }
        if let Some(cookies) = self.cookies {
            add_cookies(&mut fields, cookies);
        }
        let of_range = self.range.map(|(start, end)| range_request::format(start, end.map(|end| end - 1)));
        if let Some(range) = self.set.map(|set| format!("bytes={set}")).or(of_range) {
            fields.push(("range".into(), range));
            if let Some(validator) = self.if_range {
                let name = if self.is_pinned() { "if-match" } else { "if-range" };
                fields.push((name.into(), validator.to_owned()));
            }
        }
        if let Some((authorizer, url)) = self.sealed_by {
            authorizer.seals("GET", url, &mut fields);
        }
        fields
    }

    /// Whether it asks for one version and for no other. A time is no match.
    pub(crate) fn is_pinned(&self) -> bool {
        self.pins && self.range.is_some() && self.if_range.is_some_and(|validator| validator.starts_with('"'))
    }

    /// See [`head_of`].
    pub fn head(&self, url: &Url, origin: &Origin, proxy: Option<(&Proxy, Option<&str>)>) -> Vec<u8> {
        head_of("GET", url, origin, proxy, &self.fields())
    }
}

/// The HTTP/1.1 head of a request with these fields; in absolute form for a proxy that takes requests whole,
/// with what it wants to know of us.
pub(crate) fn head_of(
    method: &str,
    url: &Url,
    origin: &Origin,
    proxy: Option<(&Proxy, Option<&str>)>,
    fields: &[(String, String)],
) -> Vec<u8> {
    let proxy = proxy.filter(|(proxy, _)| proxy.takes_requests());
    let target = match proxy {
        Some(_) if !origin.tls => &url[Position::BeforeScheme..Position::AfterQuery],
        _ => &url[Position::BeforePath..Position::AfterQuery],
    };
    let target = match url.username().is_empty() && url.password().is_none() {
        true => target.to_owned(),
        false => {
            let bare = super::credentials::without(url);
            match proxy {
                Some(_) if !origin.tls => bare[..Position::AfterQuery].to_owned(),
                _ => bare[Position::BeforePath..Position::AfterQuery].to_owned(),
            }
        }
    };
    let mut head = format!("{method} {target} HTTP/1.1\r\n");
    if !fields.iter().any(|(name, _)| name == "host") {
        head.push_str(&format!("Host: {}\r\n", origin.authority()));
    }
    for (name, value) in fields {
        head.push_str(&format!("{}: {value}\r\n", capitalised(name)));
    }
    if let Some(authorization) = proxy.filter(|_| !origin.tls).and_then(|(_, authorization)| authorization) {
        head.push_str(&format!("Proxy-Authorization: {authorization}\r\n"));
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// One field has them all (RFC 6265 section 5.4); what the user wrote stands first, but for names that the
/// jar has anew.
pub(crate) fn add_cookies(fields: &mut Vec<(String, String)>, cookies: &str) {
    let name_of = |pair: &str| pair.split('=').next().unwrap_or_default().trim().to_owned();
    let newer: Vec<String> = cookies.split(';').map(name_of).collect();
    let own = fields.iter().filter(|(name, _)| name == "cookie");
    let own = own.flat_map(|(_, value)| value.split(';')).map(str::trim);
    let kept: Vec<&str> = own.filter(|pair| !pair.is_empty() && !newer.contains(&name_of(pair))).collect();
    let all = kept.into_iter().chain([cookies]).collect::<Vec<_>>().join("; ");
    fields.retain(|(name, _)| name != "cookie");
    fields.push(("cookie".into(), all));
}

/// Of the user's fields, those that may go to an origin they were not given for. Any field can hold a secret
/// (`PRIVATE-TOKEN`), so only those that cannot are kept.
pub fn safe_elsewhere(headers: &[(String, String)]) -> Vec<(String, String)> {
    headers.iter().filter(|(name, _)| is_harmless(name)).cloned().collect()
}

/// A field that holds no secret.
pub(crate) fn is_harmless(name: &str) -> bool {
    ["accept", "accept-language", "user-agent"].contains(&name.to_ascii_lowercase().as_str())
}

/// `user-agent` as `User-Agent`: some old servers compare by the letter.
fn capitalised(name: &str) -> String {
    let mut upper = true;
    name.chars()
        .map(|letter| {
            let letter = if upper { letter.to_ascii_uppercase() } else { letter };
            upper = letter == '-';
            letter
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::proxy::Kind;

    fn ask(headers: &[(String, String)]) -> Ask<'_> {
        Ask {
            range: Some((5, Some(10))),
            set: None,
            if_range: Some("\"e\""),
            pins: false,
            headers,
            authorization: Some("Basic x"),
            cookies: Some("a=1; b=2"),
            removed: &[],
            unless: None,
            codings: Some(IDENTITY),
            sealed_by: None,
        }
    }

    #[test]
    fn a_head_has_the_path_and_no_user() {
        let url = Url::parse("http://me:secret@h:81/a%20b?q=1#f").unwrap();
        let origin = Origin::of(&url).unwrap();
        let head = String::from_utf8(ask(&[]).head(&url, &origin, None)).unwrap();
        assert!(head.starts_with("GET /a%20b?q=1 HTTP/1.1\r\nHost: h:81\r\n"), "{head}");
        assert!(head.contains("Range: bytes=5-9\r\nIf-Range: \"e\"\r\n"));
        assert!(!head.contains("secret"));
        let (kind, named_by) = (Kind::Http, "--proxy".to_owned());
        let proxy = Proxy { kind, host: "p".into(), port: 1, login: None, named_by };
        let head = ask(&[]).head(&url, &origin, Some((&proxy, Some("Basic y"))));
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("GET http://h:81/a%20b?q=1 HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("Proxy-Authorization: Basic y\r\n"));
        let socks = Proxy { kind: Kind::Socks5 { far_names: true }, ..proxy };
        let head = String::from_utf8(ask(&[]).head(&url, &origin, Some((&socks, None)))).unwrap();
        assert!(head.starts_with("GET /a%20b?q=1 HTTP/1.1\r\n"), "{head}");
    }

    #[test]
    fn cookies_are_one_field() {
        let headers = [("Cookie".to_owned(), "b=old; c=3;".to_owned())];
        let fields = ask(&headers).fields();
        let cookies: Vec<_> = fields.iter().filter(|(name, _)| name == "cookie").collect();
        assert_eq!(cookies, [&("cookie".to_owned(), "c=3; a=1; b=2".to_owned())]);
    }

    #[test]
    fn the_users_fields_replace_ours() {
        let headers = [("User-Agent".to_owned(), "me".to_owned()), ("X-Token".to_owned(), "t".to_owned())];
        let fields = ask(&headers).fields();
        assert_eq!(fields.iter().filter(|(name, _)| name == "user-agent").count(), 1);
        assert_eq!(safe_elsewhere(&headers), headers[..1]);
    }

    #[test]
    fn two_of_one_name_are_both_sent_and_removed_ones_are_not() {
        let twice = ["a=1", "b=2"].map(|value| ("Cookie".to_owned(), value.to_owned()));
        let removed = ["accept".to_owned(), "authorization".to_owned()];
        let unless = Unless { tag: Some("\"t\"".to_owned()), modified: Some("then".to_owned()) };
        // With cookies of weir's own they would become one field (RFC 6265 section 5.4).
        let fields = Ask { removed: &removed, unless: Some(&unless), cookies: None, ..ask(&twice) }.fields();
        let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        let all = [
            "user-agent",
            "accept-encoding",
            "cookie",
            "cookie",
            "if-none-match",
            "if-modified-since",
            "range",
            "if-range",
        ];
        assert_eq!(names, all);
    }
}
