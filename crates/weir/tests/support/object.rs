//! What a good server does with one object: whole, in ranges, with If-Range, at a pace.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::server::{Fields, Request, Wire};

/// `length` bytes in which every place differs from every other; another `seed`, other bytes.
pub(crate) fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// An object and how it is served.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) bytes: Arc<Vec<u8>>,
    /// The whole field, quotes and `W/` included.
    pub(crate) etag: Option<String>,
    pub(crate) last_modified: Option<String>,
    /// Ranges are answered.
    pub(crate) ranges: bool,
    /// Bytes per second on each connection; also keeps the kernel's buffer small, so that what was sent is
    /// near what was received.
    pub(crate) rate: Option<u64>,
    /// Further fields of each answer.
    pub(crate) fields: Fields,
}

/// An answer to be sent.
pub(crate) struct Answer {
    pub(crate) status: &'static str,
    pub(crate) fields: Fields,
    pub(crate) part: Range<usize>,
}

impl Object {
    /// `length` bytes with a strong ETag, in ranges, as fast as it goes.
    pub(crate) fn new(length: usize) -> Object {
        Object {
            bytes: Arc::new(pattern(length, 1)),
            etag: Some("\"one\"".to_owned()),
            last_modified: None,
            ranges: true,
            rate: None,
            fields: Vec::new(),
        }
    }

    /// Another version: other bytes, another ETag.
    pub(crate) fn changed(&self) -> Object {
        let bytes = Arc::new(pattern(self.bytes.len(), 2));
        Object { bytes, etag: Some("\"two\"".to_owned()), ..self.clone() }
    }

    /// With this ETag, or none.
    pub(crate) fn etag(self, etag: Option<&str>) -> Object {
        Object { etag: etag.map(str::to_owned), ..self }
    }

    /// At this many bytes per second on each connection.
    pub(crate) fn rate(self, rate: u64) -> Object {
        Object { rate: Some(rate), ..self }
    }

    /// Without ranges.
    pub(crate) fn whole_only(self) -> Object {
        Object { ranges: false, ..self }
    }

    /// With one more field in each answer.
    pub(crate) fn field(mut self, name: &str, value: &str) -> Object {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// How a good server answers `request`.
    pub(crate) fn answer(&self, request: &Request) -> Answer {
        let size = self.bytes.len();
        let mut fields = self.fields.clone();
        let mut add = |name: &str, value: &str| fields.push((name.to_owned(), value.to_owned()));
        if let Some(etag) = &self.etag {
            add("ETag", etag);
        }
        if let Some(date) = &self.last_modified {
            add("Last-Modified", date);
            add("Date", "Fri, 01 Jan 2021 00:00:00 GMT");
        }
        let same = request.field("if-range").is_none_or(|pinned| {
            let strong = self.etag.as_deref().filter(|etag| !etag.starts_with("W/"));
            strong == Some(pinned) || self.last_modified.as_deref() == Some(pinned)
        });
        let (status, part) = match request.range().filter(|_| self.ranges && same) {
            None => ("200 OK", 0..size),
            Some((start, _)) if start as usize >= size => {
                add("Content-Range", &format!("bytes */{size}"));
                ("416 Range Not Satisfiable", 0..0)
            }
            Some((start, end)) => {
                let part = start as usize..end.map_or(size, |end| (end as usize).min(size));
                add("Content-Range", &format!("bytes {}-{}/{size}", part.start, part.end - 1));
                ("206 Partial Content", part)
            }
        };
        add("Content-Length", &part.len().to_string());
        Answer { status, fields, part }
    }

    /// Answers `request` as a good server does.
    pub(crate) fn serve(&self, request: &Request, wire: &mut Wire) -> io::Result<()> {
        self.serve_up_to(request, wire, usize::MAX)
    }

    /// Answers, but only with the first `bytes` of the body that the head announces.
    pub(crate) fn serve_up_to(&self, request: &Request, wire: &mut Wire, bytes: usize) -> io::Result<()> {
        let answer = self.answer(request);
        wire.pace = self.rate;
        if self.rate.is_some() {
            wire.small_buffer(64 << 10);
        }
        wire.head(answer.status, &answer.fields)?;
        let end = answer.part.start + answer.part.len().min(bytes);
        wire.body(&self.bytes[answer.part.start..end])
    }
}
