//! What is sent: the bytes of a request that is always the same, and how many requests a text holds.

use crate::target::Target;

/// What a request is built from.
#[derive(Debug, Clone)]
pub struct Request {
    /// `GET`.
    pub method: String,
    /// Fields in their order; one called Host replaces the URL's.
    pub fields: Vec<(String, String)>,
    /// The body, with its Content-Length.
    pub body: Option<Vec<u8>>,
    /// Ask the server to end the connection after its answer.
    pub close: bool,
}

impl Default for Request {
    fn default() -> Request {
        Request { method: "GET".to_owned(), fields: Vec::new(), body: None, close: false }
    }
}

impl Request {
    /// Whether a field of this name was given.
    pub fn names(&self, name: &str) -> bool {
        self.fields.iter().any(|(own, _)| own.eq_ignore_ascii_case(name))
    }

    /// The request as HTTP/1.1 has it.
    pub fn bytes(&self, target: &Target) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, target.path);
        if !self.names("host") {
            text.push_str(&format!("Host: {}\r\n", target.authority()));
        }
        for (name, value) in &self.fields {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = self.body.as_ref().filter(|_| !self.names("content-length")) {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        if self.close && !self.names("connection") {
            text.push_str("Connection: close\r\n");
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }
}

/// A text that is no sequence of whole requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRequest {
    /// What is wrong.
    pub what: &'static str,
    /// Line of the text, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
}

/// How many requests a text holds, one after another: the depth of a pipeline.
pub fn count(text: &[u8]) -> Result<usize, NoRequest> {
    let mut found = 0;
    walk(text, |_| found += 1)?;
    Ok(found)
}

/// Notes of the first `depth` requests of a text, in their order, whether each is a HEAD, whose answer has no
/// body whatever it says (RFC 9110 section 9.3.2).
pub(crate) fn note_heads(text: &[u8], depth: usize, heads: &mut Vec<bool>) {
    heads.clear();
    if depth == 1 {
        // The usual one needs no parser.
        heads.push(text.starts_with(b"HEAD "));
    } else {
        // A text that is none from somewhere on says nothing of what is there.
        let _ = walk(text, |is_head| heads.push(is_head));
    }
    heads.resize(depth, false);
}

/// Hands over of each request of a text whether it is a HEAD.
fn walk(text: &[u8], mut each: impl FnMut(bool)) -> Result<(), NoRequest> {
    let mut at = 0;
    let mut found = 0;
    while at < text.len() || found == 0 {
        let wrong = |what, offset: usize| {
            let seen = &text[..offset.min(text.len())];
            let line = 1 + seen.iter().filter(|byte| **byte == b'\n').count();
            let column = 1 + seen.iter().rev().take_while(|byte| **byte != b'\n').count();
            NoRequest { what, line, column }
        };
        let mut fields = [httparse::EMPTY_HEADER; 128];
        let mut request = httparse::Request::new(&mut fields);
        let head = match request.parse(&text[at..]) {
            Ok(httparse::Status::Complete(head)) => head,
            Ok(httparse::Status::Partial) => return Err(wrong("incomplete request", text.len())),
            Err(_) => return Err(wrong("malformed request", at)),
        };
        let field = |name: &str| {
            request
                .headers
                .iter()
                .find(|field| field.name.eq_ignore_ascii_case(name))
                .map(|field| field.value)
        };
        let body = &text[at + head..];
        let length = if field("transfer-encoding").is_some() {
            chunked_length(body).ok_or_else(|| wrong("malformed chunked body", at + head))?
        } else if let Some(value) = field("content-length") {
            let digits = str::from_utf8(value).ok().and_then(|text| text.trim().parse::<usize>().ok());
            digits.ok_or_else(|| wrong("invalid Content-Length", at))?
        } else {
            0
        };
        if length > body.len() {
            return Err(wrong("incomplete request", text.len()));
        }
        each(request.method == Some("HEAD"));
        at += head + length;
        found += 1;
    }
    Ok(())
}

fn chunked_length(body: &[u8]) -> Option<usize> {
    let mut decoder = weir_http::ChunkedDecoder::new();
    let mut at = 0;
    while !decoder.is_done() {
        let step = decoder.decode(&body[at..]).ok()?;
        if step.consumed == 0 {
            return None;
        }
        at += step.consumed;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_what_was_asked_for() {
        let target = Target::parse("http://h:81/p?q").unwrap();
        let plain = Request::default().bytes(&target);
        assert_eq!(String::from_utf8(plain).unwrap(), "GET /p?q HTTP/1.1\r\nHost: h:81\r\n\r\n");
        let post = Request {
            method: "POST".to_owned(),
            fields: vec![("host".to_owned(), "other".to_owned())],
            body: Some(b"abc".to_vec()),
            close: true,
        };
        assert_eq!(
            String::from_utf8(post.bytes(&target)).unwrap(),
            "POST /p?q HTTP/1.1\r\nhost: other\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"
        );
    }

    #[test]
    fn requests_are_counted_through_their_bodies() {
        let get = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".as_slice();
        let post = b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nGET ".as_slice();
        let chunked =
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".as_slice();
        assert_eq!(count(get), Ok(1));
        assert_eq!(count(&[get, post, chunked, get].concat()), Ok(4));
        assert_eq!(count(b"").unwrap_err().what, "incomplete request");
        let cut = count(b"GET / HTTP/1.1\r\nHost: h\r\n").unwrap_err();
        assert_eq!((cut.what, cut.line, cut.column), ("incomplete request", 3, 1));
        assert_eq!(count(&post[..post.len() - 1]).unwrap_err().what, "incomplete request");
        assert_eq!(count(b"nonsense\r\n\r\n").unwrap_err().line, 1);
    }

    #[test]
    fn heads_are_noted_in_their_order() {
        let head = b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n".as_slice();
        // Its body looks like one.
        let post = b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nHEAD ".as_slice();
        let of = |text: &[u8], depth: usize| {
            let mut heads = vec![true; 7];
            note_heads(text, depth, &mut heads);
            heads
        };
        assert_eq!((of(head, 1), of(post, 1)), (vec![true], vec![false]));
        assert_eq!(of(&[post, head, post].concat(), 3), [false, true, false]);
        // Fewer than there were in the first text, and one that is none.
        assert_eq!(of(&[head, b"nonsense\r\n\r\n"].concat(), 3), [true, false, false]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(
            text in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
            depth in 1_usize..5,
        ) {
            let _ = count(&text);
            let mut heads = Vec::new();
            note_heads(&text, depth, &mut heads);
            proptest::prop_assert_eq!(heads.len(), depth);
        }
    }
}
