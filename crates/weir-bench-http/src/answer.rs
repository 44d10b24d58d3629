//! Where an answer ends, told from the bytes as they come, without allocating.
//!
//! A server under load says the same head again and again: a head that is byte for byte the last one is not
//! parsed a second time. That comparison costs 10 ns where parsing ten fields costs 300. So this is not
//! `weir_http::head`, which makes owned fields of a head for who reads them; what it forgives of a head is
//! what curl and wrk forgive.

use weir_http::ChunkedDecoder;

use crate::malformed::MAX_FIELDS;
pub use crate::malformed::{MAX_HEAD, Malformed};
use crate::reason::Reason;

/// The most content that is kept of an answer for a script; what is beyond is counted, not kept.
const MAX_KEPT: usize = 64 << 20;

/// An answer that has come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Complete {
    /// The status code.
    pub status: u16,
    /// The connection may carry another request.
    pub keep_alive: bool,
    /// Bytes of the head.
    pub head: u64,
    /// Bytes of the body's content.
    pub body: u64,
}

/// What a head says of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    status: u16,
    keep_alive: bool,
    framing: Framing,
    length: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// The head that was parsed last, by any connection of a loop.
#[derive(Debug, Default)]
pub struct LastHead {
    bytes: Vec<u8>,
    head: Option<Head>,
}

impl LastHead {
    /// The bytes of the last head that was parsed.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The head at the front of `bytes`; `None` while it is not whole.
    fn read(&mut self, bytes: &[u8]) -> Result<Option<Head>, Malformed> {
        if let Some(head) = self.head.filter(|_| bytes.starts_with(&self.bytes)) {
            return Ok(Some(head));
        }
        let head = parse(bytes)?;
        if let Some(head) = head {
            self.bytes.clear();
            self.bytes.extend_from_slice(&bytes[..head.length]);
            self.head = Some(head);
        }
        Ok(head)
    }
}

/// Takes fields folded over several lines, and spaces before the colon: old servers send both.
fn parser() -> httparse::ParserConfig {
    let mut parser = httparse::ParserConfig::default();
    parser.allow_obsolete_multiline_headers_in_responses(true);
    parser.allow_spaces_after_header_name_in_responses(true);
    parser
}

/// The words of a list, `chunked, close`.
fn words(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// A length in digits; `parse` alone would take a sign.
fn content_length(digits: &[u8]) -> Result<u64, Malformed> {
    let digits =
        str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or(Malformed::Framing)
}

fn parse(bytes: &[u8]) -> Result<Option<Head>, Malformed> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut answer = httparse::Response::new(&mut fields);
    let length = match parser().parse_response(&mut answer, bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() > MAX_HEAD => return Err(Malformed::HeadTooLong),
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Malformed::TooManyFields),
        Err(_) => return foreign(bytes).map_or(Ok(None), Err),
    };
    let (Some(status), Some(minor)) = (answer.code, answer.version) else { return Err(Malformed::Head) };
    let mut keep_alive = minor >= 1;
    let mut framing = Framing::UntilClose;
    for field in answer.headers.iter() {
        if field.name.eq_ignore_ascii_case("content-length") {
            // A proxy may have joined two of them into one list (RFC 9110 section 8.6).
            for word in words(field.value) {
                let length = content_length(word)?;
                match framing {
                    Framing::Length(other) if other != length => return Err(Malformed::Framing),
                    // Chunks go before a length (RFC 9112 section 6.1).
                    Framing::Chunked => {}
                    _ => framing = Framing::Length(length),
                }
            }
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            // `identity` was a coding that changes nothing (RFC 2616 section 3.6).
            for word in words(field.value).filter(|word| !word.eq_ignore_ascii_case(b"identity")) {
                if !word.eq_ignore_ascii_case(b"chunked") || framing == Framing::Chunked {
                    return Err(Malformed::Framing);
                }
                framing = Framing::Chunked;
            }
        } else if field.name.eq_ignore_ascii_case("connection") {
            for word in words(field.value) {
                if word.eq_ignore_ascii_case(b"close") {
                    keep_alive = false;
                } else if word.eq_ignore_ascii_case(b"keep-alive") && minor == 0 {
                    keep_alive = true;
                }
            }
        }
    }
    Ok(Some(Head { status, keep_alive, framing, length }))
}

/// Names and values of a head that was found whole before, as they came; none of what is no head.
pub fn fields(head: &[u8]) -> Vec<(&str, &[u8])> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut answer = httparse::Response::new(&mut fields);
    match parser().parse_response(&mut answer, head) {
        Ok(_) => answer.headers.iter().map(|field| (field.name, field.value)).collect(),
        Err(_) => Vec::new(),
    }
}

/// What bytes that are no head of HTTP/1 are; `None` while that cannot be told, so that it is the same
/// however they are cut.
fn foreign(bytes: &[u8]) -> Option<Malformed> {
    /// What a byte at a place has to be; `None`: anything.
    type Wanted = Option<fn(u8) -> bool>;
    /// A client's first words (RFC 9113 section 3.4).
    const PREFACE: &[u8] = b"PRI * HTTP/2";
    let fits =
        |of: &[Wanted]| bytes.iter().zip(of).all(|(byte, wanted)| wanted.is_none_or(|wanted| wanted(*byte)));
    let zero: Wanted = Some(|byte| byte == 0);
    // A frame of type SETTINGS (4) on stream 0, which is what a server begins with: its length, type, flags
    // and stream.
    let settings: [Wanted; 9] = [zero, None, None, Some(|byte| byte == 4), None, zero, zero, zero, zero];
    // A record with an alert (21) or a handshake (22) of any version (RFC 8446 section 5.1).
    let record: [Wanted; 3] =
        [Some(|byte| byte == 21 || byte == 22), Some(|byte| byte == 3), Some(|byte| byte <= 4)];
    let told = |is: bool, length: usize, what: Malformed| match is {
        true if bytes.len() < length => Some(None),
        true => Some(Some(what)),
        false => None,
    };
    let is_preface = bytes.starts_with(PREFACE) || PREFACE.starts_with(bytes);
    told(fits(&settings), settings.len(), Malformed::Http2)
        .or_else(|| told(fits(&record), record.len(), Malformed::Tls))
        .or_else(|| told(is_preface, PREFACE.len(), Malformed::Http2))
        .unwrap_or(Some(Malformed::Head))
}

/// The bytes of an answer, where someone wants to see them.
#[derive(Debug, Default)]
pub struct Kept {
    /// Status line and fields, with the blank line.
    pub head: Vec<u8>,
    /// The content.
    pub body: Vec<u8>,
}

/// An answer in the course of coming.
#[derive(Debug, Default)]
pub struct Answer {
    state: AnswerState,
    /// The front of a head that came in pieces.
    partial: Vec<u8>,
    status: u16,
    keep_alive: bool,
    head: u64,
    body: u64,
}

#[derive(Debug, Default)]
enum AnswerState {
    #[default]
    Head,
    Length(u64),
    Chunked(ChunkedDecoder),
    UntilClose,
}

impl Answer {
    /// No byte of it has come.
    pub fn is_fresh(&self) -> bool {
        matches!(self.state, AnswerState::Head) && self.partial.is_empty() && self.head == 0
    }

    /// What is missing of it where the connection has ended in order.
    pub(crate) fn missing(&self) -> Reason {
        match self.state {
            AnswerState::Head if self.is_fresh() => Reason::ClosedUnanswered,
            AnswerState::Head => Reason::CutHead,
            AnswerState::Length(_) | AnswerState::Chunked(_) | AnswerState::UntilClose => Reason::ShortBody,
        }
    }

    /// The front of a head that came in pieces.
    pub(crate) fn front(&self) -> &[u8] {
        &self.partial
    }

    /// Takes bytes from the front of `bytes`: how many, and whether the answer ended with them. An answer to
    /// HEAD (`bodyless`) has no body whatever it says.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        last: &mut LastHead,
        bodyless: bool,
        mut kept: Option<&mut Kept>,
    ) -> Result<(usize, Option<Complete>), Malformed> {
        let mut at = 0;
        if matches!(self.state, AnswerState::Head) {
            let Some(used) = self.feed_head(bytes, last, bodyless, kept.as_deref_mut())? else {
                return Ok((bytes.len(), None));
            };
            at = used;
        }
        loop {
            match &mut self.state {
                // An interim answer (1xx): the real one follows.
                AnswerState::Head if at < bytes.len() => {
                    let Some(used) = self.feed_head(&bytes[at..], last, bodyless, kept.as_deref_mut())?
                    else {
                        return Ok((bytes.len(), None));
                    };
                    at += used;
                }
                AnswerState::Head => return Ok((at, None)),
                AnswerState::Length(left) => {
                    let take = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len() - at);
                    *left -= take as u64;
                    let done = *left == 0;
                    self.keep(&bytes[at..at + take], kept);
                    return Ok((at + take, done.then(|| self.finish())));
                }
                AnswerState::Chunked(decoder) => {
                    if at == bytes.len() {
                        return Ok((at, None));
                    }
                    let step = decoder.decode(&bytes[at..]).map_err(|_| Malformed::Chunks)?;
                    let (from, done) = (at, step.done);
                    at += step.consumed;
                    self.keep(&bytes[from + step.data.start..from + step.data.end], kept.as_deref_mut());
                    if done {
                        return Ok((at, Some(self.finish())));
                    }
                    if step.consumed == 0 {
                        return Err(Malformed::Chunks);
                    }
                }
                AnswerState::UntilClose => {
                    self.keep(&bytes[at..], kept);
                    return Ok((bytes.len(), None));
                }
            }
        }
    }

    /// The connection has ended: the answer, if that is how its end is told.
    pub fn end(&mut self) -> Option<Complete> {
        matches!(self.state, AnswerState::UntilClose).then(|| {
            self.keep_alive = false;
            self.finish()
        })
    }

    /// Bytes used of `bytes`, or `None` while the head is not whole.
    fn feed_head(
        &mut self,
        bytes: &[u8],
        last: &mut LastHead,
        bodyless: bool,
        kept: Option<&mut Kept>,
    ) -> Result<Option<usize>, Malformed> {
        let before = self.partial.len();
        let head = if before == 0 {
            last.read(bytes)?
        } else {
            self.partial.extend_from_slice(&bytes[..bytes.len().min(MAX_HEAD + 1)]);
            last.read(&self.partial)?
        };
        let Some(head) = head else {
            if before == 0 {
                self.partial.extend_from_slice(bytes);
            }
            return if self.partial.len() > MAX_HEAD { Err(Malformed::HeadTooLong) } else { Ok(None) };
        };
        if let Some(kept) = kept {
            kept.head.clear();
            kept.head.extend_from_slice(&if before == 0 { bytes } else { &self.partial }[..head.length]);
        }
        self.partial.clear();
        self.head += head.length as u64;
        if !(100..200).contains(&head.status) || head.status == 101 {
            (self.status, self.keep_alive) = (head.status, head.keep_alive);
            self.state = match head.framing {
                _ if bodyless || matches!(head.status, 101 | 204 | 304) => AnswerState::Length(0),
                Framing::Length(length) => AnswerState::Length(length),
                Framing::Chunked => AnswerState::Chunked(ChunkedDecoder::new()),
                Framing::UntilClose => AnswerState::UntilClose,
            };
        }
        Ok(Some(head.length - before))
    }

    fn keep(&mut self, content: &[u8], kept: Option<&mut Kept>) {
        self.body += content.len() as u64;
        if let Some(kept) = kept {
            let room = MAX_KEPT.saturating_sub(kept.body.len());
            kept.body.extend_from_slice(&content[..content.len().min(room)]);
        }
    }

    fn finish(&mut self) -> Complete {
        let complete =
            Complete { status: self.status, keep_alive: self.keep_alive, head: self.head, body: self.body };
        (self.state, self.head, self.body) = (AnswerState::Head, 0, 0);
        complete
    }

    /// Forgets what came: the connection is a new one.
    pub fn reset(&mut self) {
        self.partial.clear();
        (self.state, self.head, self.body) = (AnswerState::Head, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds `bytes` in pieces of `piece`; the answers, and the content of all of them.
    fn fed(bytes: &[u8], piece: usize, bodyless: bool) -> Result<(Vec<Complete>, Vec<u8>), Malformed> {
        let (mut answer, mut last, mut kept) = (Answer::default(), LastHead::default(), Kept::default());
        let mut found = Vec::new();
        for piece in bytes.chunks(piece) {
            let mut at = 0;
            while at < piece.len() {
                let (used, complete) = answer.feed(&piece[at..], &mut last, bodyless, Some(&mut kept))?;
                assert!(used > 0);
                at += used;
                found.extend(complete);
            }
        }
        found.extend(answer.end());
        Ok((found, kept.body))
    }

    const LENGTH: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nweir";
    const CHUNKED: &[u8] =
        b"HTTP/1.1 404 No\r\ntransfer-encoding: Chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n";
    const EMPTY: &[u8] = b"HTTP/1.1 204 Empty\r\n\r\n";
    const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
    const OLD: &[u8] = b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n";
    const UNTIL_CLOSE: &[u8] = b"HTTP/1.1 200 OK\r\n\r\nall of it";

    #[test]
    fn ends_are_found_in_pieces_of_any_size() {
        let all = [LENGTH, LENGTH, CHUNKED, EMPTY, INTERIM, OLD, UNTIL_CLOSE].concat();
        for piece in 1..all.len() {
            let (found, content) = fed(&all, piece, false).unwrap();
            let seen: Vec<(u16, bool, u64)> =
                found.iter().map(|one| (one.status, one.keep_alive, one.body)).collect();
            assert_eq!(
                seen,
                [
                    (200, true, 4),
                    (200, true, 4),
                    (404, false, 4),
                    (204, true, 0),
                    (200, true, 1),
                    (200, true, 0),
                    (200, false, 9)
                ]
            );
            assert_eq!(content, b"weirweirabcdxall of it");
        }
    }

    #[test]
    fn an_answer_to_head_has_no_body() {
        let head = &LENGTH[..LENGTH.len() - 4];
        assert_eq!(fed(&[head, head].concat(), 7, true).unwrap().0.len(), 2);
    }

    #[test]
    fn what_is_no_http_is_called_what_it_is() {
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(MAX_FIELDS + 1));
        for (bytes, wrong) in [
            (&b"SSH-2.0-OpenSSH\r\n"[..], Malformed::Head),
            (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03", Malformed::Http2),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Malformed::Http2),
            (b"\x15\x03\x01\x00\x02\x02\x46", Malformed::Tls),
            (many.as_bytes(), Malformed::TooManyFields),
        ] {
            for piece in [1, 2, 5, bytes.len()] {
                assert_eq!(fed(bytes, piece, false).unwrap_err(), wrong, "in pieces of {piece}");
            }
        }
    }

    #[test]
    fn a_connection_that_ended_tells_what_is_missing() {
        for (bytes, reason) in [
            (&b""[..], Reason::ClosedUnanswered),
            (b"HTTP/1.1 200 O", Reason::CutHead),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwe", Reason::ShortBody),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", Reason::ShortBody),
        ] {
            let mut answer = Answer::default();
            answer.feed(bytes, &mut LastHead::default(), false, None).unwrap();
            assert_eq!(answer.missing(), reason);
        }
    }

    #[test]
    fn a_cut_answer_is_not_complete() {
        for bytes in [LENGTH, CHUNKED] {
            for cut in 1..bytes.len() {
                assert!(fed(&bytes[..cut], 64, false).unwrap().0.is_empty(), "{cut}");
            }
        }
    }

    #[test]
    fn what_cannot_be_told_is_refused() {
        for bytes in [
            "garbage garbage\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +4\r\n\r\nweir",
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 4, 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 4,\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot hex\r\n",
        ] {
            assert!(fed(bytes.as_bytes(), 1000, false).is_err(), "{bytes}");
        }
        let endless = [b"HTTP/1.1 200 OK\r\nX: ".as_slice(), &vec![b'a'; 2 * MAX_HEAD]].concat();
        assert_eq!(fed(&endless, 4096, false), Err(Malformed::HeadTooLong));
        assert_eq!(fed(&endless, endless.len(), false), Err(Malformed::HeadTooLong));
    }

    #[test]
    fn what_others_take_is_taken() {
        for (head, body) in [
            ("Content-Length: 4\r\nTransfer-Encoding: identity", "weir"),
            ("Transfer-Encoding: identity\r\nContent-Length: 4, 4", "weir"),
            ("X: a\r\n b\r\nContent-Length:\r\n 4", "weir"),
            ("Content-Length : 4", "weir"),
            // A length that the chunks do not have.
            ("Content-Length: 9\r\nTransfer-Encoding: chunked", "4\r\nweir\r\n0\r\n\r\n"),
            ("Transfer-Encoding: chunked\r\nContent-Length: 9", "4\r\nweir\r\n0\r\n\r\n"),
        ] {
            let bytes = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}");
            for piece in [1, 7, bytes.len()] {
                let (found, content) = fed(bytes.as_bytes(), piece, false).unwrap();
                assert_eq!((found.len(), &content[..]), (1, &b"weir"[..]), "{head}, in pieces of {piece}");
            }
        }
        let head = b"HTTP/1.1 200 OK\r\nServer : a\r\n b\r\n\r\n";
        assert_eq!(fields(head), [("Server", &b"a\r\n b"[..])]);
    }

    #[test]
    fn a_head_that_only_begins_as_the_last_one_is_parsed() {
        let longer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX: y\r\n\r\nweir";
        assert_eq!(fed(&[LENGTH, longer, LENGTH].concat(), 999, false).unwrap().0.len(), 3);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, piece in 1_usize..50) {
            let _ = fed(&bytes, piece, false);
            let _ = fed(&[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", bytes.as_slice()].concat(), piece, false);
        }
    }
}
