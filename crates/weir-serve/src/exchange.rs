//! How does HTTP/1.1 go between bytes and an answer? The same over a plain socket and over TLS.

use weir_http::head::{self, MAX_HEAD};
use weir_http::request::{self, Refusal};
use weir_http::{Framing, RequestHead, RequestTarget};

use crate::answer::{Answer, Request};

/// Empty lines before a request, which some old clients sent after a body (RFC 9112, 2.2). Each is read again
/// with each packet.
const MAX_EMPTY_LINES: usize = 4;
/// Heads are a few hundred bytes; the buffer grows for those that are not.
const FIRST_BUFFER: usize = 4 * 1024;

/// What happens to the connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    KeepAlive,
    /// Close, once the client has the answer (`linger`).
    Close,
}

/// What becomes of a client that takes too long to ask.
pub(crate) const LATE: Refusal = Refusal { status: 408, why: "the head took too long" };

/// A request taken off the front of what was received.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) request: Request,
    pub(crate) after: After,
}

/// Bytes received and not yet answered, which may be several requests.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    filled: usize,
    /// What was filled when the head was last found incomplete.
    parsed: usize,
}

impl Inbox {
    /// Whether nothing of the next request has come.
    pub(crate) fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Room for more, at least a byte of it: a head never fills the inbox without being refused.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.filled == self.bytes.len() {
            self.bytes.resize((self.filled * 2).clamp(FIRST_BUFFER, MAX_HEAD), 0);
        }
        &mut self.bytes[self.filled..]
    }

    /// So many bytes have come into the room.
    pub(crate) fn fill(&mut self, count: usize) {
        self.filled += count;
    }

    /// Takes the first request; `None` when it is not complete.
    pub(crate) fn take(&mut self) -> Option<Result<Asked, Refusal>> {
        let received = &self.bytes[..self.filled];
        let new = &received[self.parsed..];
        // A head ends with a line; without a new one there is no point in reading it again, or a client that
        // sends it byte by byte would have it read thousands of times. Other protocols give themselves away
        // at once.
        if new.is_empty() || (self.parsed > 0 && self.filled < MAX_HEAD && !new.contains(&b'\n')) {
            return None;
        }
        if received.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count() > 2 * MAX_EMPTY_LINES {
            return Some(Err(Refusal { status: 400, why: "empty lines" }));
        }
        match head::parse_request(received) {
            Ok(None) => {
                self.parsed = self.filled;
                None
            }
            Ok(Some((head, consumed))) => {
                self.consume(consumed);
                Some(request::check(&head).map(|target| Asked::new(head, target)))
            }
            Err(error) => Some(Err(Refusal::from(&error))),
        }
    }

    fn consume(&mut self, count: usize) {
        self.bytes.copy_within(count..self.filled, 0);
        self.filled -= count;
        self.parsed = 0;
        // A client may stay for a minute without a word: what it holds then is little.
        if self.filled == 0 && self.bytes.len() > FIRST_BUFFER {
            self.bytes = Vec::new();
        }
    }
}

impl Asked {
    fn new(head: RequestHead, target: RequestTarget) -> Asked {
        let after = match head.framing() {
            Ok(Framing::None | Framing::Length(0)) if head.keeps_connection() => After::KeepAlive,
            // A body is not read, so it must not be taken for the next request.
            _ => After::Close,
        };
        let target = match target {
            RequestTarget::Path(path) => path,
            RequestTarget::Server | RequestTarget::Authority => None,
        };
        Asked { request: Request { method: head.method, target, fields: head.fields }, after }
    }
}

/// The head of an answer as it goes on the wire.
pub(crate) fn write_head(answer: &Answer, after: After, head: &mut Vec<u8>) {
    head.clear();
    head.extend_from_slice(b"HTTP/1.1 ");
    head.extend_from_slice(answer.status.as_str().as_bytes());
    head.push(b' ');
    head.extend_from_slice(answer.status.canonical_reason().unwrap_or_default().as_bytes());
    head.extend_from_slice(b"\r\n");
    // An HTTP/1.0 client must be told that the connection stays; to others it is no news.
    let connection = if after == After::KeepAlive { "keep-alive" } else { "close" };
    let fields = answer.headers.iter().map(|(name, value)| (*name, value.as_str()));
    for (name, value) in fields.chain([("Connection", connection)]) {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(inbox: &mut Inbox, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = inbox.room();
            let count = room.len().min(rest.len());
            room[..count].copy_from_slice(&rest[..count]);
            inbox.fill(count);
            rest = &rest[count..];
        }
    }

    #[test]
    fn requests_come_in_any_pieces() {
        let text = b"\r\nGET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.0\r\n\r\n";
        for size in [1, 2, 3, 7, text.len()] {
            let mut inbox = Inbox::default();
            let mut found = Vec::new();
            for piece in text.chunks(size) {
                receive(&mut inbox, piece);
                while let Some(asked) = inbox.take() {
                    let asked = asked.unwrap();
                    found.push((asked.request.target.unwrap().bytes, asked.after));
                }
            }
            assert_eq!(found, [(b"a".to_vec(), After::KeepAlive), (b"b".to_vec(), After::Close)], "{size}");
            assert!(inbox.is_empty());
        }
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let refused = |bytes: &[u8]| {
            let mut inbox = Inbox::default();
            receive(&mut inbox, bytes);
            inbox.take().and_then(Result::err).map(|refusal| refusal.status)
        };
        assert_eq!(refused(&vec![b'x'; MAX_HEAD]), Some(431));
        assert_eq!(refused(&[b'\n'; 100]), Some(400));
        assert_eq!(refused(b"\x16\x03\x01"), Some(400));
        assert_eq!(refused(b"GET / HTT"), None);
    }
}
