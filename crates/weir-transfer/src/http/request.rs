//! What is asked: one GET, for all of an object or a part of it.

use url::{Position, Url};

use crate::http::proxy::Proxy;

/// The product token servers see.
pub const USER_AGENT: &str = concat!("weir/", env!("CARGO_PKG_VERSION"));

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
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    /// First byte wanted, and the byte after the last (`None`: to the end). `None`: no Range field at all.
    pub range: Option<(u64, Option<u64>)>,
    /// The validator the answer must match to be a part (`If-Range`).
    pub if_range: Option<&'a str>,
    /// The user's own fields; they replace ours of the same name.
    pub headers: &'a [(String, String)],
    /// `Basic ...`.
    pub authorization: Option<&'a str>,
    /// `Accept-Encoding`; `None` leaves it out.
    pub codings: Option<&'static str>,
}

/// Ranges count bytes of the coded body, so a coded one could not be split or resumed.
pub const IDENTITY: &str = "identity";

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
        for (name, value) in self.headers {
            let name = name.to_ascii_lowercase();
            fields.retain(|(own, _)| *own != name);
            fields.push((name, value.clone()));
        }
        if let Some((start, end)) = self.range {
            let end = end.map_or(String::new(), |end| (end - 1).to_string());
            fields.push(("range".into(), format!("bytes={start}-{end}")));
            if let Some(validator) = self.if_range {
                fields.push(("if-range".into(), validator.to_owned()));
            }
        }
        fields
    }

    /// The HTTP/1.1 head; in absolute form when a plain proxy stands between.
    pub fn head(&self, url: &Url, origin: &Origin, proxy: Option<&Proxy>) -> Vec<u8> {
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
        let fields = self.fields();
        let mut head = format!("GET {target} HTTP/1.1\r\n");
        if !fields.iter().any(|(name, _)| name == "host") {
            head.push_str(&format!("Host: {}\r\n", origin.authority()));
        }
        for (name, value) in &fields {
            head.push_str(&format!("{}: {value}\r\n", capitalised(name)));
        }
        if let Some(authorization) =
            proxy.filter(|_| !origin.tls).and_then(|proxy| proxy.authorization.as_ref())
        {
            head.push_str(&format!("Proxy-Authorization: {authorization}\r\n"));
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

/// Of the user's fields, those that may go to an origin they were not given for. Any field can hold a secret
/// (`PRIVATE-TOKEN`), so only those that cannot are kept.
pub fn safe_elsewhere(headers: &[(String, String)]) -> Vec<(String, String)> {
    let harmless = ["accept", "accept-language", "user-agent"];
    headers
        .iter()
        .filter(|(name, _)| harmless.contains(&name.to_ascii_lowercase().as_str()))
        .cloned()
        .collect()
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

    fn ask(headers: &[(String, String)]) -> Ask<'_> {
        let (range, if_range) = (Some((5, Some(10))), Some("\"e\""));
        Ask { range, if_range, headers, authorization: Some("Basic x"), codings: Some(IDENTITY) }
    }

    #[test]
    fn a_head_has_the_path_and_no_user() {
        let url = Url::parse("http://me:secret@h:81/a%20b?q=1#f").unwrap();
        let origin = Origin::of(&url).unwrap();
        let head = String::from_utf8(ask(&[]).head(&url, &origin, None)).unwrap();
        assert!(head.starts_with("GET /a%20b?q=1 HTTP/1.1\r\nHost: h:81\r\n"), "{head}");
        assert!(head.contains("Range: bytes=5-9\r\nIf-Range: \"e\"\r\n"));
        assert!(!head.contains("secret"));
        let proxy = Proxy {
            host: "p".into(),
            port: 1,
            authorization: Some("Basic y".into()),
            named_by: "--proxy".into(),
        };
        let head = String::from_utf8(ask(&[]).head(&url, &origin, Some(&proxy))).unwrap();
        assert!(head.starts_with("GET http://h:81/a%20b?q=1 HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("Proxy-Authorization: Basic y\r\n"));
    }

    #[test]
    fn the_users_fields_replace_ours() {
        let headers = [("User-Agent".to_owned(), "me".to_owned()), ("X-Token".to_owned(), "t".to_owned())];
        let fields = ask(&headers).fields();
        assert_eq!(fields.iter().filter(|(name, _)| name == "user-agent").count(), 1);
        assert_eq!(safe_elsewhere(&headers), headers[..1]);
    }
}
