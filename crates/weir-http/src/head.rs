//! Message heads out of a byte buffer (RFC 9112 sections 2 to 5), and requests into one.
//!
//! A head is refused when two readers could disagree about where its body ends: that is how responses are
//! smuggled (RFC 9112 section 11.2), and for a downloader how one file's bytes end up in another.

use crate::body::{self, Framing};
use crate::field_lines::{self, Line, Odd};
use crate::fields::{self, Fields};
use crate::grammar;

/// The largest head in bytes; servers commonly stop at 8 to 16 KiB, signed redirects need a few more.
pub const MAX_HEAD: usize = 64 * 1024;

/// The largest head of a response in bytes: what curl takes, which is far more than any server has a reason
/// to send.
pub const MAX_RESPONSE_HEAD: usize = 300 * 1024;

/// The most fields in the head of a request; browsers send about 20.
pub const MAX_FIELDS: usize = 128;

/// The most fields in the head of a response: as many as fit [`MAX_RESPONSE_HEAD`] where a line has 30 bytes,
/// as usual. Large sites send about 40, odd ones some thousands; the bytes alone would allow 76,000, each of
/// which costs 50 in memory.
pub(crate) const MAX_RESPONSE_FIELDS: usize = MAX_RESPONSE_HEAD / 30;

/// A head that cannot be used. None of these gets better by asking the same server again at once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// Not HTTP at all: another protocol, or TLS where plain text was expected.
    #[error("not an HTTP/1 message, it starts with '{start}': check the scheme and the port")]
    NotHttp {
        /// The first bytes, made printable.
        start: String,
    },
    /// HTTP, but broken.
    #[error("malformed HTTP head starting with '{start}'")]
    Malformed {
        /// The first bytes, made printable.
        start: String,
        /// What httparse found.
        #[source]
        source: httparse::Error,
    },
    /// No end of the head within [`MAX_HEAD`] or [`MAX_RESPONSE_HEAD`].
    #[error("HTTP head is larger than {most} bytes")]
    TooLarge {
        /// The bound.
        most: usize,
    },
    /// More than [`MAX_FIELDS`] or [`MAX_RESPONSE_FIELDS`].
    #[error("HTTP head has more than {most} fields")]
    TooManyFields {
        /// The bound.
        most: usize,
    },
    /// A response that is HTTP, but broken.
    #[error("malformed HTTP head: line {line}: {what}: '{text}'")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
        /// Its beginning, made printable.
        text: String,
    },
    /// A line that some readers take for a framing field and others do not.
    #[error(
        "malformed HTTP head: line {line} may or may not be {field}: {how}; readers disagree about where the body ends"
    )]
    Odd {
        /// Counted from 1.
        line: usize,
        /// The field.
        field: &'static str,
        /// How it is odd.
        how: &'static str,
    },
    /// The length of a response's body cannot be told with certainty.
    #[error("{lines}: {source}")]
    ResponseFraming {
        /// The lines that speak of it: `lines 2 and 3`.
        lines: String,
        /// What is wrong.
        source: body::BodyError,
    },
    /// The length of a request's body cannot be told with certainty.
    #[error(transparent)]
    Framing(#[from] body::BodyError),
    /// A request to be sent that could not be read back.
    #[error("invalid request {what} '{text}'")]
    Unsendable {
        /// `method` or `target`.
        what: &'static str,
        /// What was given.
        text: String,
    },
    /// A field to be sent that could not be read back.
    #[error(transparent)]
    Field(#[from] fields::FieldsError),
}

/// The head of a response (RFC 9112 section 4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status code, 100 to 999.
    pub status: u16,
    /// 0 for HTTP/1.0, 1 for HTTP/1.1; by what it is read, where it says another version.
    pub minor: u8,
    /// The reason phrase; often empty, never to be relied on.
    pub reason: String,
    /// The header fields.
    pub fields: Fields,
}

/// The head of a request (RFC 9112 section 3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHead {
    /// The method, with the case it came in.
    pub method: String,
    /// The request target, not decoded: `/a%20b?c`.
    pub target: String,
    /// 0 for HTTP/1.0, 1 for HTTP/1.1.
    pub minor: u8,
    /// The header fields.
    pub fields: Fields,
}

/// Reads the head of a response to a GET from the front of `buffer`: the head and its length in bytes, or
/// `None` if more is needed.
///
/// Each call starts again at the front, so call it once a read, not once a byte. A 1xx head comes out like
/// any other ([`ResponseHead::is_interim`]): drop its bytes and call again.
pub fn parse_response(buffer: &[u8]) -> Result<Option<(ResponseHead, usize)>, HeadError> {
    parse_response_to("GET", buffer)
}

/// The same for a request with another method, on which it depends whether there is a body.
pub fn parse_response_to(method: &str, buffer: &[u8]) -> Result<Option<(ResponseHead, usize)>, HeadError> {
    let window = buffer.get(..MAX_RESPONSE_HEAD).unwrap_or(buffer);
    // Empty lines in front are forgiven, as they are to clients (RFC 9112 section 2.2).
    let front = window.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let message = &window[front..];
    if !is_http_so_far(message) {
        return Err(HeadError::NotHttp { start: start(window) });
    }
    let Some(end) = end_of_head(message) else { return partial(window, MAX_RESPONSE_HEAD) };
    let block = &message[..end];
    let first = field_lines::lines(block).next().unwrap_or_default();
    let (status, minor, reason) = status_line(first, window)?;
    let rest = block.iter().position(|byte| *byte == b'\n').map_or(&[][..], |at| &block[at + 1..]);
    let lines = field_lines::read(rest, 2).map_err(|Odd { number, field, how }| HeadError::Odd {
        line: number,
        field: title(field),
        how,
    })?;
    if lines.len() > MAX_RESPONSE_FIELDS {
        return Err(HeadError::TooManyFields { most: MAX_RESPONSE_FIELDS });
    }
    let fields = Fields::from_checked(lines.iter().map(|line| (line.name, &*line.value)));
    let head = ResponseHead { status, minor, reason, fields };
    head.framing(method).map_err(|source| HeadError::ResponseFraming { lines: named(&lines), source })?;
    Ok(Some((head, front + end)))
}

/// Whether `message` is, or may become, one whose head is text. That is HTTP/1, and what calls itself 2 or 3
/// here: some servers and proxies write the number of another connection of theirs.
fn is_http_so_far(message: &[u8]) -> bool {
    let wanted = b"HTTP/";
    let length = message.len().min(wanted.len());
    let is_at = |at: usize, is: fn(u8) -> bool| message.get(at).is_none_or(|byte| is(*byte));
    message[..length].eq_ignore_ascii_case(&wanted[..length])
        && is_at(wanted.len(), |byte| matches!(byte, b'1'..=b'3'))
        && is_at(wanted.len() + 1, |byte| matches!(byte, b'.' | b' '))
}

/// The minor version of HTTP/1 by which the answer is read, and what stands behind the version in its line.
///
/// A later one of HTTP/1 is read as 1.1 (RFC 9110 section 2.5). What calls itself 2 or 3 has a text for a
/// head, so all that is sure is what all versions have: it is read as 1.0, of which a connection carries one
/// answer.
fn version(line: &[u8]) -> Option<(u8, &[u8])> {
    let (name, number) = line.split_at_checked(b"HTTP/".len())?;
    match number {
        // The name has one form (RFC 9112 section 2.3), and every reader knows it in the others too.
        _ if !name.eq_ignore_ascii_case(b"HTTP/") => None,
        [b'1', b'.', b'1'..=b'9', rest @ ..] => Some((1, rest)),
        [b'1'..=b'3', b'.', b'0'..=b'9', rest @ ..] | [b'1'..=b'3', rest @ ..] => Some((0, rest)),
        _ => None,
    }
}

/// Behind the empty line that ends the head.
fn end_of_head(message: &[u8]) -> Option<usize> {
    let mut line = 0;
    for (at, _) in message.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
        if matches!(&message[line..at], [] | [b'\r']) {
            return Some(at + 1);
        }
        line = at + 1;
    }
    None
}

/// `HTTP/1.1 200 OK`: status, minor version, reason (RFC 9112 section 4).
fn status_line(line: &[u8], window: &[u8]) -> Result<(u16, u8, String), HeadError> {
    let odd = |what| HeadError::Line { line: 1, what, text: start(window) };
    let (minor, rest) = version(line).ok_or(HeadError::NotHttp { start: start(window) })?;
    // More than one blank is forgiven.
    let blanks = rest.iter().take_while(|byte| **byte == b' ').count();
    let (digits, reason) = rest[blanks..].split_at_checked(3).ok_or(odd("no status"))?;
    let status =
        digits.iter().all(u8::is_ascii_digit).then(|| std::str::from_utf8(digits).ok()?.parse().ok());
    let status: u16 = status.flatten().filter(|status| *status >= 100).ok_or(odd("no status"))?;
    if blanks == 0 || !matches!(reason.first(), None | Some(b' ' | b'\t')) {
        return Err(odd("no status"));
    }
    Ok((status, minor, String::from_utf8_lossy(reason).trim().to_owned()))
}

/// `lines 2 and 5`: those that say where the body ends.
fn named(lines: &[Line<'_>]) -> String {
    let numbers: Vec<String> =
        lines.iter().filter(|line| line.is_framing()).map(|line| line.number.to_string()).collect();
    match &numbers[..] {
        [one] => format!("line {one}"),
        [others @ .., last] => format!("lines {} and {last}", others.join(", ")),
        [] => "its head".to_owned(),
    }
}

/// The field's name as it is usually written.
fn title(field: &'static str) -> &'static str {
    if field == "content-length" { "Content-Length" } else { "Transfer-Encoding" }
}

/// Reads a request head from the front of `buffer`, as a server does; like [`parse_response`].
pub fn parse_request(buffer: &[u8]) -> Result<Option<(RequestHead, usize)>, HeadError> {
    let window = window(buffer);
    let mut headers = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut parsed = httparse::Request::new(&mut headers);
    let end = match parsed.parse(window) {
        Ok(httparse::Status::Complete(end)) => end,
        Ok(httparse::Status::Partial) => return partial(window, MAX_HEAD),
        Err(source) => return Err(malformed(window, source)),
    };
    let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(HeadError::NotHttp { start: start(window) });
    };
    let fields = Fields::from_parsed(parsed.headers);
    let head = RequestHead { method: method.to_owned(), target: target.to_owned(), minor, fields };
    body::request_framing(&head.fields, head.minor)?;
    Ok(Some((head, end)))
}

impl ResponseHead {
    /// The first value of field `name`.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.fields.header(name)
    }

    /// Every value of field `name`, in order.
    pub fn headers_all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.fields.headers_all(name)
    }

    /// Whether the real response is still to come (1xx; RFC 9110 section 15.2). 101 ends HTTP on this
    /// connection instead; it cannot come unless the request had `Upgrade`.
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }

    /// Where the body ends, given the method of the request.
    pub fn framing(&self, method: &str) -> Result<Framing, body::BodyError> {
        body::response_framing(method, self.status, &self.fields)
    }

    /// The length of the body of an answer to a GET, where its head announces one.
    pub fn announced(&self) -> Option<u64> {
        match self.framing("GET") {
            Ok(Framing::Length(length)) => Some(length),
            _ => None,
        }
    }

    /// How the body that the framing holds is decoded, the last coding first (`Transfer-Encoding: gzip,
    /// chunked`).
    pub fn transfer_codings(&self) -> Vec<weir_codec::content::Coding> {
        body::transfer_codings(&self.fields)
    }

    /// Whether the connection can carry another request once the body is read (RFC 9112 section 9.3). A body
    /// that ends with the connection ([`Framing::UntilClose`]) rules it out all the same, and so does a
    /// framing that another reader may have read otherwise (section 6.3).
    pub fn keeps_connection(&self) -> bool {
        let is_coded = self.header("transfer-encoding").is_some();
        let is_long = self.header("content-length").is_some();
        // A 204 has no body and says nothing of one (RFC 9110 section 8.6): one that does may be followed by
        // it.
        let is_doubtful = is_coded && (self.minor == 0 || is_long || self.status == 204)
            || self.status == 204 && is_long && self.header("content-length") != Some("0");
        !is_doubtful && keeps_connection(&self.fields, self.minor)
    }
}

impl RequestHead {
    /// A request of HTTP/1.1 without fields. The caller adds `Host` first (RFC 9110 section 7.2).
    pub fn new(method: &str, target: &str) -> RequestHead {
        RequestHead { method: method.to_owned(), target: target.to_owned(), minor: 1, fields: Fields::new() }
    }

    /// The first value of field `name`.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.fields.header(name)
    }

    /// Every value of field `name`, in order.
    pub fn headers_all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.fields.headers_all(name)
    }

    /// Where the body ends.
    pub fn framing(&self) -> Result<Framing, body::BodyError> {
        body::request_framing(&self.fields, self.minor)
    }

    /// Whether the client wants to send another request on this connection.
    pub fn keeps_connection(&self) -> bool {
        keeps_connection(&self.fields, self.minor)
    }

    /// The head as it goes on the wire. A method or target that would break the request line is refused.
    pub fn encode(&self) -> Result<Vec<u8>, HeadError> {
        if !grammar::is_token(&self.method) {
            return Err(HeadError::Unsendable { what: "method", text: weir_units::quoted(&self.method) });
        }
        if self.target.is_empty() || !self.target.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(HeadError::Unsendable { what: "target", text: weir_units::quoted(&self.target) });
        }
        let mut out = format!("{} {} HTTP/1.{}\r\n", self.method, self.target, self.minor.min(1));
        self.fields.write(&mut out);
        out.push_str("\r\n");
        Ok(out.into_bytes())
    }
}

fn keeps_connection(fields: &Fields, minor: u8) -> bool {
    let says = |option: &str| fields.members("connection").any(|member| member.eq_ignore_ascii_case(option));
    !says("close") && (minor >= 1 || says("keep-alive"))
}

fn window(buffer: &[u8]) -> &[u8] {
    buffer.get(..MAX_HEAD).unwrap_or(buffer)
}

fn partial<T>(window: &[u8], most: usize) -> Result<Option<T>, HeadError> {
    if window.len() >= most { Err(HeadError::TooLarge { most }) } else { Ok(None) }
}

fn malformed(window: &[u8], source: httparse::Error) -> HeadError {
    match source {
        httparse::Error::TooManyHeaders => HeadError::TooManyFields { most: MAX_FIELDS },
        httparse::Error::Version => HeadError::NotHttp { start: start(window) },
        source => HeadError::Malformed { start: start(window), source },
    }
}

/// The first line or 40 bytes of it, made printable.
fn start(window: &[u8]) -> String {
    let line =
        window.split(|byte| matches!(byte, b'\r' | b'\n')).find(|line| !line.is_empty()).unwrap_or_default();
    line.get(..40).unwrap_or(line).escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn response(text: &str) -> Result<Option<(ResponseHead, usize)>, HeadError> {
        parse_response(text.as_bytes())
    }

    #[test]
    fn reads_a_response() {
        let text = "HTTP/1.1 200 OK\r\nServer:  x \r\nset-cookie: a\r\nSet-Cookie: b\r\n\r\nbody";
        let (head, end) = response(text).unwrap().unwrap();
        assert_eq!((head.status, head.minor, head.reason.as_str()), (200, 1, "OK"));
        assert_eq!(head.header("SERVER"), Some("x"));
        assert_eq!(head.headers_all("Set-Cookie").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(&text[end..], "body");
        assert!(head.keeps_connection() && !head.is_interim());
        for cut in 0..end {
            assert_eq!(response(&text[..cut]), Ok(None), "cut at {cut}");
        }
    }

    #[test]
    fn interim_responses_are_told_apart() {
        let text = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200\r\n\r\n";
        let (hints, end) = response(text).unwrap().unwrap();
        assert!(hints.is_interim());
        let (head, _) = response(&text[end..]).unwrap().unwrap();
        assert_eq!((head.status, head.reason.as_str()), (200, ""));
    }

    #[test]
    fn values_keep_every_byte() {
        let (head, _) =
            parse_response(b"HTTP/1.1 200 OK\r\nA: caf\xe9\r\nB: caf\xc3\xa9\r\n\r\n").unwrap().unwrap();
        assert_eq!((head.header("a"), head.header("b")), (Some("café"), Some("café")));
    }

    #[test]
    fn connection_reuse() {
        let keeps = |text: &str| response(text).unwrap().unwrap().0.keeps_connection();
        assert!(!keeps("HTTP/1.0 200 OK\r\n\r\n"));
        assert!(keeps("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n\r\n"));
        assert!(!keeps("HTTP/1.1 200 OK\r\nConnection: x, CLOSE\r\n\r\n"));
    }

    #[test]
    fn caps() {
        let long = |most: usize| format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(most));
        assert_eq!(response(&long(MAX_RESPONSE_HEAD)), Err(HeadError::TooLarge { most: MAX_RESPONSE_HEAD }));
        assert_eq!(response(&long(MAX_RESPONSE_HEAD - 100)), Ok(None));
        let request = format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(MAX_HEAD));
        assert_eq!(parse_request(request.as_bytes()), Err(HeadError::TooLarge { most: MAX_HEAD }));
        let many = |n: usize| format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(n));
        assert!(response(&many(MAX_RESPONSE_FIELDS)).unwrap().is_some());
        assert_eq!(
            response(&many(MAX_RESPONSE_FIELDS + 1)),
            Err(HeadError::TooManyFields { most: MAX_RESPONSE_FIELDS })
        );
        let request = |n: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(n));
        assert!(parse_request(request(MAX_FIELDS).as_bytes()).unwrap().is_some());
        assert_eq!(
            parse_request(request(MAX_FIELDS + 1).as_bytes()),
            Err(HeadError::TooManyFields { most: MAX_FIELDS })
        );
        // A large buffer with body bytes behind a small head is no large head.
        assert!(
            response(&format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(MAX_RESPONSE_HEAD))).unwrap().is_some()
        );
    }

    #[test]
    fn another_protocol_is_named() {
        assert_eq!(
            response("SSH-2.0-OpenSSH_9.6\r\n").unwrap_err().to_string(),
            "not an HTTP/1 message, it starts with 'SSH-2.0-OpenSSH_9.6': check the scheme and the port"
        );
        assert!(matches!(parse_response(b"\x15\x03\x01\0\x02"), Err(HeadError::NotHttp { .. })));
        for odd in
            ["HTTP/1.1 099 X", "HTTP/1.1 abc", "HTTP/1.1 200OK", "HTTP/1.1200 OK", "HTTP/1.1", "HTTP/1.1 20"]
        {
            assert!(
                matches!(response(&format!("{odd}\r\n\r\n")), Err(HeadError::Line { line: 1, .. })),
                "{odd}"
            );
        }
        for other in ["HTTP/4 200 OK", "HTTP/20 200 OK", "HTTP/ 200", "HTTP/0.9 200", "ICY 200 OK"] {
            assert!(matches!(response(other), Err(HeadError::NotHttp { .. })), "{other}");
        }
        assert_eq!(response("\r\n\nHTTP/1.1  200\n\n").unwrap().unwrap().1, 18);
    }

    /// A text is read as one, whatever number its sender writes.
    #[test]
    fn other_versions_are_read_as_these() {
        for (line, minor) in [
            ("HTTP/1.2 200 OK", 1),
            ("HTTP/1.9 200", 1),
            ("HTTP/1 200 OK", 0),
            ("HTTP/2 200 OK", 0),
            ("HTTP/2.0 200", 0),
            ("HTTP/3 200 OK", 0),
            ("http/1.1 200 OK", 1),
            ("Http/1.0 200", 0),
        ] {
            let text = format!("{line}\r\nContent-Length: 5\r\n\r\n");
            let (head, end) = response(&text).unwrap().unwrap();
            assert_eq!((head.status, head.minor, end), (200, minor, text.len()), "{line}");
            assert_eq!(head.keeps_connection(), minor == 1, "{line}");
            for cut in 0..end {
                assert_eq!(response(&text[..cut]), Ok(None), "{line}, cut at {cut}");
            }
        }
        for odd in ["HTTP/2 ", "HTTP/2.0.1 200", "HTTP/2 2000", "HTTP/1.10 200"] {
            assert!(matches!(response(&format!("{odd}\r\n\r\n")), Err(HeadError::Line { .. })), "{odd}");
        }
    }

    #[test]
    fn a_204_that_speaks_of_a_body_is_the_last_on_its_connection() {
        let keeps = |field: &str| {
            response(&format!("HTTP/1.1 204 No Content\r\n{field}\r\n"))
                .unwrap()
                .unwrap()
                .0
                .keeps_connection()
        };
        assert!(keeps("") && keeps("Content-Length: 0\r\n"));
        assert!(!keeps("Transfer-Encoding: chunked\r\n") && !keeps("Content-Length: 5\r\n"));
    }

    #[test]
    fn ambiguous_lengths_are_refused() {
        let head = |fields: &str| response(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
        for fields in [
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: 5, 6\r\n",
            "Content-Length: 5\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 5\r\n 6\r\n",
            "Transfer-Encoding: chunked\r\n gzip\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: 5 6\r\n",
            "Content-Length: \r\n",
            "Content-Length: 99999999999999999999\r\n",
        ] {
            assert!(matches!(head(fields), Err(HeadError::ResponseFraming { .. })), "{fields}");
        }
        for fields in ["Content-Length : 5\r\n", "A: b\rContent-Length: 5\r\n", "Content-Length: 5\0\r\n"] {
            assert!(matches!(head(fields), Err(HeadError::Odd { line: 2, .. })), "{fields}");
        }
        assert_eq!(
            head("A: b\r\nContent-Length: 5\r\nB: c\r\nContent-Length: 6\r\n").unwrap_err().to_string(),
            "lines 3 and 5: Content-Length is given twice, as 5 and as 6: the message cannot be trusted"
        );
        assert!(head("Content-Length: 5\r\nContent-Length: 5\r\n").is_ok());
        assert!(matches!(
            parse_request(b"GET / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Err(HeadError::Framing(_))
        ));
    }

    #[test]
    fn what_no_reader_disagrees_about_is_taken() {
        let head = |fields: &str| response(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n")).unwrap().unwrap().0;
        let both = head("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n");
        assert_eq!((both.framing("GET"), both.keeps_connection()), (Ok(Framing::Chunked), false));
        assert_eq!(both.announced(), None);
        let identity = head("Transfer-Encoding: identity\r\nContent-Length: 5\r\n");
        assert_eq!(identity.framing("GET"), Ok(Framing::Length(5)));
        assert_eq!(head("Content-Length:\r\n 5\r\n").announced(), Some(5));
        assert_eq!(head("X: a\r\n b\r\nY: c\r\n").header("x"), Some("a b"));
        assert_eq!(head("X-A : b\r\nodd\r\nY: \x01\r\n").fields.len(), 1);
        // A tunnel has no body, whatever it says of one.
        let tunnel = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n";
        assert!(parse_response(tunnel).is_err());
        let (head, _) = parse_response_to("CONNECT", tunnel).unwrap().unwrap();
        assert_eq!(head.framing("CONNECT"), Ok(Framing::None));
    }

    #[test]
    fn request_round_trip_and_refusals() {
        let mut head = RequestHead::new("GET", "/a%20b?c");
        head.fields.push("Host", "example.org").unwrap();
        let bytes = head.encode().unwrap();
        assert_eq!(bytes, b"GET /a%20b?c HTTP/1.1\r\nHost: example.org\r\n\r\n");
        assert_eq!(parse_request(&bytes).unwrap(), Some((head, bytes.len())));
        for (method, target) in [("GET", "/a b"), ("GET", ""), ("GET", "/\r\nX: y"), ("G T", "/"), ("", "/")]
        {
            assert!(RequestHead::new(method, target).encode().is_err(), "{method} {target}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>) {
            let _ = parse_response(&bytes);
            let _ = parse_request(&bytes);
        }

        #[test]
        fn never_panics_on_near_misses(status in 0u16..1000, fields in "([A-Za-z-]{0,20}:[ -~\u{e9}]{0,40}\r?\n){0,5}") {
            if let Ok(Some((head, end))) = response(&format!("HTTP/1.1 {status:03} X\r\n{fields}\r\n")) {
                prop_assert!(end <= MAX_RESPONSE_HEAD);
                let _ = head.framing("GET");
            }
        }

        #[test]
        fn request_print_parse(
            target in "/[!-~]{0,40}",
            fields in proptest::collection::vec(("X-[A-Za-z0-9]{1,10}", "([!-~]([ -~]{0,20}[!-~])?)?"), 0..10),
        ) {
            let mut head = RequestHead::new("GET", &target);
            for (name, value) in &fields {
                head.fields.push(name, value).unwrap();
            }
            let bytes = head.encode().unwrap();
            prop_assert_eq!(parse_request(&bytes).unwrap(), Some((head, bytes.len())));
        }
    }
}
