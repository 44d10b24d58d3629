//! What is the answer to a request?
//!
//! Pure: one function, [`decide`], for HTTP/1.1 and HTTP/2, plain and TLS. It says which bytes are to be sent
//! and leaves the sending to `plain` and `payload`.

use std::ops::Range;
use std::time::SystemTime;

use bytes::Bytes;
use http::StatusCode;
use percent_encoding::{CONTROLS, utf8_percent_encode};
use weir_http::Fields;
use weir_http::precondition::{self, PreconditionOutcome, Version};
use weir_http::range_request::{ByteRange, Requested};
use weir_http::request::Refusal;
use weir_http::request_target::Path;

use crate::content::listing;
use crate::content::{Entry, File, Item};
use crate::listings::Lease;

/// What is asked. A request body is ignored: no method that is served gives it a meaning.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// `None` when the target cannot name anything (see [`weir_http::request_target`]).
    pub(crate) target: Option<Path>,
    pub(crate) fields: Fields,
}

impl Request {
    pub(crate) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Whether there is any point in looking at the content.
    pub(crate) fn is_served(&self) -> bool {
        self.is_head() || self.method == "GET"
    }

    /// Programs name JSON; browsers name HTML, whatever else they accept. Who names both says by weights
    /// which is better (RFC 9110 section 12.4.2).
    pub(crate) fn prefers_json(&self) -> bool {
        let weight = |wanted: &str| {
            let weights = self.fields.members("accept").filter_map(|member| {
                let mut parts = member.split(';').map(str::trim_ascii);
                let is_wanted = parts.next()?.eq_ignore_ascii_case(wanted);
                let said = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
                said.map_or(Some(1.0), |text| text.parse::<f64>().ok()).filter(|_| is_wanted)
            });
            weights.fold(0.0, f64::max)
        };
        weight("application/json") > weight("text/html")
    }
}

/// The media type of a text of the server's own.
const PLAIN: &str = "text/plain; charset=utf-8";

/// A status, its headers and the parts of the body in order.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// Complete but for what concerns one connection (`Connection`, HTTP/1.1 only).
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Empty for HEAD and 304, whatever `Content-Length` says.
    pub(crate) body: Vec<Part>,
    /// What the body takes of the server's memory, for as long as it is sent.
    pub(crate) lease: Option<Lease>,
}

/// A stretch of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Text(Bytes),
    /// Bytes of the file that was asked for.
    File(Range<u64>),
}

impl Part {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Part::Text(text) => text.len() as u64,
            Part::File(range) => range.end - range.start,
        }
    }
}

impl Answer {
    /// Body bytes that will be sent.
    pub(crate) fn body_len(&self) -> u64 {
        self.body.iter().map(Part::len).sum()
    }

    /// A short text that says what the status means.
    pub(crate) fn error(status: StatusCode, now: SystemTime) -> Answer {
        Answer::new(status, now).with_text(PLAIN, format!("{status}\n"))
    }

    /// The same for bytes that are no request, with the reason.
    pub(crate) fn refusal(refusal: Refusal, now: SystemTime) -> Answer {
        let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST);
        Answer::new(status, now).with_text(PLAIN, format!("{status}: {}\n", refusal.why))
    }

    fn new(status: StatusCode, now: SystemTime) -> Answer {
        Answer {
            status,
            headers: vec![("Date", httpdate::fmt_http_date(now))],
            body: Vec::new(),
            lease: None,
        }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.headers.push((name, value.into()));
        self
    }

    fn with_text(self, media_type: &'static str, text: String) -> Answer {
        // A text that grew has up to as much room again, which would be held as long as the text is.
        let text = Bytes::from(text.into_boxed_str().into_boxed_bytes());
        self.with("Content-Type", media_type).with_body(vec![Part::Text(text)])
    }

    fn with_body(mut self, body: Vec<Part>) -> Answer {
        self.body = body;
        let length = self.body_len();
        self.with("Content-Length", length.to_string())
    }
}

/// Decides the answer to a request for an entry, at the time `now`.
pub(crate) fn decide(request: &Request, entry: &Entry, now: SystemTime) -> Answer {
    if !request.is_served() {
        return Answer::error(StatusCode::METHOD_NOT_ALLOWED, now).with("Allow", "GET, HEAD");
    }
    let path = request.target.as_ref().map_or(&b""[..], |target| &target.bytes);
    let mut answer = match entry {
        // The page of a folder, in whose place some get the list.
        Entry::File(file) if request.target.as_ref().is_some_and(|target| target.slash) => {
            answer_file(request, file, now).with("Vary", "Accept")
        }
        Entry::File(file) => answer_file(request, file, now),
        // It was not listed, for want of a turn.
        Entry::Folder => busy(now),
        Entry::Listing(items) => answer_listing(request, path, items, now),
        Entry::Text { media_type, text } => Answer::new(StatusCode::OK, now)
            .with("Cache-Control", "no-store")
            .with_text(media_type, text.clone()),
        Entry::Slashless => {
            let query = request.target.as_ref().and_then(|target| target.query.as_deref());
            Answer::error(StatusCode::MOVED_PERMANENTLY, now).with("Location", with_slash(path, query))
        }
        Entry::Absent => Answer::error(StatusCode::NOT_FOUND, now),
        Entry::Forbidden => Answer::error(StatusCode::FORBIDDEN, now),
        Entry::Failed(err) => answer_failure(err, now),
    };
    if request.is_head() {
        answer.body.clear();
    }
    answer
}

/// Where a directory is that was asked for without its slash.
fn with_slash(path: &[u8], query: Option<&str>) -> String {
    let mut url = listing::directory_url(path);
    if let Some(query) = query {
        url.push('?');
        // As it came, but for what no field may hold.
        url.extend(utf8_percent_encode(query, CONTROLS));
    }
    url
}

fn answer_file(request: &Request, file: &File, now: SystemTime) -> Answer {
    // A date later than `Date` may not be told (RFC 9110, 8.8.2.1). To tell the present one in its place
    // would make each answer another version: the date is left out, and the tag says which version it is.
    let modified = file.modified.filter(|modified| *modified <= now);
    let version = Version { tag: &file.tag, modified };
    match precondition::judge(&request.fields, version) {
        PreconditionOutcome::Failed => return Answer::error(StatusCode::PRECONDITION_FAILED, now),
        PreconditionOutcome::NotModified => return describe(StatusCode::NOT_MODIFIED, version, now),
        PreconditionOutcome::Proceed => {}
    }
    // `If-Range` with a date that proves nothing gets the whole file.
    let proven = Version { modified: modified.filter(|_| file.date_proves), ..version };
    let has = |name| request.fields.header(name).is_some();
    let by_date_alone = has("if-unmodified-since") && !has("if-match") && !has("if-range");
    let requested = match request.is_head() {
        // A range is defined for GET only (14.2).
        true => Requested::Ignore("not GET"),
        // As with `If-Range`. 412 would not do: the client could ask for ever, no later date proves more.
        false if by_date_alone && proven.modified.is_none() => Requested::Ignore("the date proves nothing"),
        false => precondition::requested(&request.fields, proven, file.len, now),
    };
    let partial = || describe(StatusCode::PARTIAL_CONTENT, version, now);
    match requested {
        Requested::Ignore(_) => describe(StatusCode::OK, version, now)
            .with("Content-Type", file.media_type)
            .with_body(vec![Part::File(0..file.len)]),
        Requested::Unsatisfiable => Answer::error(StatusCode::RANGE_NOT_SATISFIABLE, now)
            .with("Content-Range", format!("bytes */{}", file.len)),
        Requested::Single(range) => answer_ranges(partial(), file, &[range]),
        Requested::Multi(ranges) => answer_ranges(partial(), file, &ranges),
    }
}

/// The headers that say which version of the file this is.
fn describe(status: StatusCode, version: Version, now: SystemTime) -> Answer {
    let answer = Answer::new(status, now).with("Accept-Ranges", "bytes").with("ETag", version.tag);
    match version.modified {
        Some(modified) => answer.with("Last-Modified", httpdate::fmt_http_date(modified)),
        None => answer,
    }
}

fn answer_ranges(answer: Answer, file: &File, ranges: &[ByteRange]) -> Answer {
    if let [range] = ranges {
        return answer
            .with("Content-Type", file.media_type)
            .with("Content-Range", content_range(range, file.len))
            .with_body(vec![Part::File(range.first..range.last + 1)]);
    }
    let boundary = boundary(file);
    let mut body = Vec::with_capacity(2 * ranges.len() + 1);
    for range in ranges {
        let head = format!(
            "\r\n--{boundary}\r\nContent-Type: {}\r\nContent-Range: {}\r\n\r\n",
            file.media_type,
            content_range(range, file.len)
        );
        body.extend([Part::Text(head.into()), Part::File(range.first..range.last + 1)]);
    }
    body.push(Part::Text(format!("\r\n--{boundary}--\r\n").into()));
    answer.with("Content-Type", format!("multipart/byteranges; boundary={boundary}")).with_body(body)
}

fn content_range(range: &ByteRange, len: u64) -> String {
    format!("bytes {}-{}/{len}", range.first, range.last)
}

/// Between the parts of a multipart body: at most 70 letters and digits (RFC 2046, 5.1.1).
///
/// It must not occur in the file, which nobody has read; whoever writes a file cannot foresee its inode and
/// the time to the nanosecond, which are in the tag.
fn boundary(file: &File) -> String {
    let hash = file.tag.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3) // FNV-1a
    });
    format!("weir-{hash:016x}")
}

fn answer_listing(request: &Request, path: &[u8], items: &[Item], now: SystemTime) -> Answer {
    let answer = Answer::new(StatusCode::OK, now).with("Vary", "Accept").with("Cache-Control", "no-cache");
    if request.prefers_json() {
        answer.with_text("application/json", listing::json(path, items))
    } else {
        answer.with_text("text/html; charset=utf-8", listing::html(path, items))
    }
}

/// For now there is no room for the answer.
pub(crate) fn busy(now: SystemTime) -> Answer {
    Answer::error(StatusCode::SERVICE_UNAVAILABLE, now).with("Retry-After", "1")
}

/// The client may try again when the server is out of descriptors or memory, when somebody holds a lease on
/// the file (EAGAIN), and when the folder or the file is being replaced (ESTALE); a broken disk will not mend
/// soon.
fn answer_failure(err: &std::io::Error, now: SystemTime) -> Answer {
    match err.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN | libc::ESTALE) => busy(now),
        _ => Answer::error(StatusCode::INTERNAL_SERVER_ERROR, now),
    }
}
