//! Which requests a server answers at all: the rules that RFC 9112 and RFC 9113 make a server enforce.
//!
//! Two readers of one request must not disagree about whom it is for or where it ends, or one of them can be
//! made to take a body for a request. What breaks a rule is refused, and over HTTP/1 the connection ends with
//! the refusal.

use crate::authority;
use crate::body::{self, Framing};
use crate::fields::Fields;
use crate::head::{self, RequestHead};
use crate::request_target::{self, RequestTarget};

/// Why a request is refused, and with which status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// 400, 431 or 501; a server may have reasons of its own.
    pub status: u16,
    /// In words, for the log and the client. They quote nothing that came.
    pub why: &'static str,
}

const fn bad(why: &'static str) -> Refusal {
    Refusal { status: 400, why }
}

/// What a head that could not be read is answered with.
impl From<&head::HeadError> for Refusal {
    fn from(error: &head::HeadError) -> Refusal {
        match error {
            head::HeadError::TooLarge { .. } => Refusal { status: 431, why: "the head is too large" },
            head::HeadError::TooManyFields { .. } => Refusal { status: 431, why: "too many fields" },
            // RFC 9112, 6.1: a coding that is not understood is not implemented.
            head::HeadError::Framing(body::BodyError::TransferEncoding { .. }) => {
                Refusal { status: 501, why: "unknown transfer coding" }
            }
            head::HeadError::Framing(_) => bad("the length of the body is in doubt"),
            _ => bad("malformed head"),
        }
    }
}

/// Checks a request of HTTP/1 and reads its target.
pub fn check(head: &RequestHead) -> Result<RequestTarget, Refusal> {
    check_framing(head)?;
    check_host(&head.fields, head.minor)?;
    parse_target(&head.method, &head.target)
}

/// Checks a request of HTTP/2, whose `:authority` and `:path` are given, and reads its target (RFC 9113
/// section 8.3.1).
///
/// The framing is the protocol's own. What the fields say of the length must be one number all the same.
pub fn check_http2(
    method: &str,
    authority: Option<&str>,
    path: &str,
    fields: &Fields,
) -> Result<RequestTarget, Refusal> {
    check_length(fields)?;
    let mut hosts = fields.headers_all("host");
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(bad("more than one Host"));
    }
    match (authority, host) {
        (None, None) => return Err(bad("neither :authority nor Host")),
        (Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => {
            return Err(bad(":authority and Host differ"));
        }
        _ => {}
    }
    if authority.into_iter().chain(host).any(|named| !authority::is_valid(named)) {
        return Err(bad("invalid authority"));
    }
    parse_target(method, path)
}

/// A request has no length but by one plain `Content-Length`, or by chunks (RFC 9112 section 6.3).
///
/// A list of equal numbers is allowed to be refused (RFC 9110 section 8.6), and is: no honest client sends
/// it, and whoever stands in front of this server may have read another one of them.
fn check_framing(head: &RequestHead) -> Result<(), Refusal> {
    check_length(&head.fields)?;
    let coded = head.fields.header("transfer-encoding").is_some();
    match head.framing() {
        Err(_) => Err(bad("the length of the body is in doubt")),
        // `identity`: it ends nowhere that both sides know of (RFC 9112, 6.3, rule 4).
        Ok(framing) if coded && framing != Framing::Chunked => Err(bad("unknown transfer coding")),
        Ok(_) => Ok(()),
    }
}

fn check_length(fields: &Fields) -> Result<(), Refusal> {
    let mut lines = fields.headers_all("content-length");
    let repeated = lines.next().is_some_and(|line| line.contains(',')) || lines.next().is_some();
    if repeated || body::content_length(fields).is_err() {
        return Err(bad("invalid Content-Length"));
    }
    Ok(())
}

/// RFC 9112 section 3.2: a request of HTTP/1.1 has one `Host`, and whatever one there is, is valid.
fn check_host(fields: &Fields, minor: u8) -> Result<(), Refusal> {
    let mut hosts = fields.headers_all("host");
    match (hosts.next(), hosts.next()) {
        (_, Some(_)) => Err(bad("more than one Host")),
        (None, None) if minor >= 1 => Err(bad("no Host")),
        (Some(host), None) if !authority::is_valid(host) => Err(bad("invalid Host")),
        _ => Ok(()),
    }
}

/// The forms with their methods: `*` is for OPTIONS and `host:port` for CONNECT alone.
fn parse_target(method: &str, raw: &str) -> Result<RequestTarget, Refusal> {
    match (request_target::parse(raw), method) {
        (Some(RequestTarget::Authority), "CONNECT") => Ok(RequestTarget::Authority),
        (Some(RequestTarget::Server), "OPTIONS") => Ok(RequestTarget::Server),
        (Some(RequestTarget::Path(path)), method) if method != "CONNECT" => Ok(RequestTarget::Path(path)),
        _ => Err(bad("invalid target")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn judge(text: &str) -> Result<RequestTarget, u16> {
        match head::parse_request(text.as_bytes()) {
            Ok(Some((head, _))) => check(&head).map_err(|refusal| refusal.status),
            Ok(None) => panic!("incomplete: {text:?}"),
            Err(error) => Err(Refusal::from(&error).status),
        }
    }

    #[test]
    fn one_valid_host() {
        for (lines, expected) in [
            ("Host: a\r\n", None),
            ("Host: a:80\r\n", None),
            ("host:a\r\n", None),
            ("", Some(400)),
            ("Host:\r\n", Some(400)),
            ("Host: a\r\nHost: a\r\n", Some(400)),
            ("Host: a\r\nhOST: b\r\n", Some(400)),
            ("Host: a b\r\n", Some(400)),
            ("Host: a, b\r\n", Some(400)),
            ("Host: u@a\r\n", Some(400)),
            ("Host: a:99999\r\n", Some(400)),
            ("Host: http://a/\r\n", Some(400)),
        ] {
            assert_eq!(judge(&format!("GET / HTTP/1.1\r\n{lines}\r\n")).err(), expected, "{lines}");
            // In absolute form the target wins, but its Host must be there and valid (RFC 9112, 3.2.2).
            assert_eq!(judge(&format!("GET http://x/ HTTP/1.1\r\n{lines}\r\n")).err(), expected, "{lines}");
        }
        assert!(judge("GET / HTTP/1.0\r\n\r\n").is_ok());
        assert_eq!(judge("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"), Err(400));
    }

    #[test]
    fn one_length() {
        for (lines, expected) in [
            ("Content-Length: 0\r\n", None),
            ("Content-Length: 10\r\n", None),
            ("Transfer-Encoding: chunked\r\n", None),
            ("Content-Length: +0\r\n", Some(400)),
            ("Content-Length: -0\r\n", Some(400)),
            ("Content-Length: 0x0\r\n", Some(400)),
            ("Content-Length: 1e3\r\n", Some(400)),
            ("Content-Length: 0 0\r\n", Some(400)),
            ("Content-Length:\r\n", Some(400)),
            ("Content-Length: 99999999999999999999\r\n", Some(400)),
            ("Content-Length: 0\r\nContent-Length: 0\r\n", Some(400)),
            ("Content-Length: 0, 0\r\n", Some(400)),
            ("Content-Length: 0,\r\n", Some(400)),
            ("Content-Length: 5\r\nContent-Length: 6\r\n", Some(400)),
            ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Some(400)),
            ("Transfer-Encoding: identity\r\n", Some(400)),
            ("Transfer-Encoding: gzip, chunked\r\n", Some(501)),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Some(501)),
            ("Transfer-Encoding: \x0bchunked\r\n", Some(400)),
        ] {
            assert_eq!(
                judge(&format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n")).err(),
                expected,
                "{lines}"
            );
        }
        assert_eq!(judge("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), Err(400));
    }

    #[test]
    fn forms_with_their_methods() {
        for (line, ok) in [
            ("OPTIONS *", true),
            ("GET *", false),
            ("CONNECT a:80", true),
            ("GET a:80", false),
            ("CONNECT /", false),
            ("GET ftp://a/", false),
            ("GET http://u@a/", false),
            ("DELETE /x", true),
        ] {
            assert_eq!(judge(&format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n")).is_ok(), ok, "{line}");
        }
    }

    #[test]
    fn http2_names_its_authority_once() {
        let judge = |authority, fields: Fields| check_http2("GET", authority, "/", &fields).is_ok();
        assert!(judge(Some("a:80"), Fields::new()));
        assert!(judge(None, Fields::from([("host", "a")])));
        assert!(judge(Some("A"), Fields::from([("host", "a")])));
        assert!(!judge(None, Fields::new()));
        assert!(!judge(Some("a"), Fields::from([("host", "b")])));
        assert!(!judge(Some("a"), Fields::from([("host", "a"), ("host", "a")])));
        assert!(!judge(Some("u@a"), Fields::new()) && !judge(Some(""), Fields::new()));
        assert!(!judge(Some("a"), Fields::from([("content-length", "1"), ("content-length", "1")])));
    }

    proptest! {
        #[test]
        fn what_passes_has_one_host(
            lines in proptest::collection::vec("(Host|Content-Length|Transfer-Encoding|X): ?[a-z0-9+,.:@ ]{0,12}\r\n", 0..4),
        ) {
            let text = format!("GET / HTTP/1.1\r\n{}\r\n", lines.concat());
            if judge(&text).is_ok() {
                prop_assert_eq!(lines.iter().filter(|line| line.starts_with("Host")).count(), 1);
            }
        }
    }
}
