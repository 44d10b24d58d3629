//! Some bytes of an object in place of all of it (`--range`).
//!
//! **One range** whose place is known is moved on its way out, and what an answer says of itself on its way
//! in: all that lies between knows an object of these bytes alone, which lanes share and a later run goes on
//! with like any other.
//! **The last bytes** (`-N`) are such a range as soon as an answer says how large the object is.
//! **Several** come in one body, packed by the server, over one connection and whole or not at all.
//!
//! How they are asked for is in [`super::exchange`]; this is pure.

mod several;
pub mod tail;
#[cfg(test)]
mod tests;

use std::str::FromStr;

use url::Url;
use weir_http::content_range::ContentRange;
use weir_http::head::ResponseHead;
use weir_http::range_request::RangeSpec;
use weir_units::Bytes;

pub use several::{Several, boundary_of};

use crate::error::GetError;
use crate::http::request::Ask;
use crate::object;

/// The most ranges in one request: with more, Apache sends the whole object (its `MaxRanges`), and so do
/// others.
const MOST_RANGES: usize = 200;

/// Which bytes of each object are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// As it stands in `Range`, behind `bytes=`.
    text: String,
    kind: Kind,
}

/// How a window is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// One range from a known byte on.
    Span(Span),
    /// This many bytes at the end.
    Tail(u64),
    /// Several ranges.
    Several(Several),
}

/// The bytes from `first` to `last`, which is included; `None`: to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    first: u64,
    last: Option<u64>,
}

impl Window {
    /// What names it behind a URL, so that parts of several windows are not taken for one another. No server
    /// sees it.
    pub fn fragment(&self) -> String {
        format!("{FRAGMENT}{self}")
    }

    /// How it is asked for.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Several ranges, which come in one body.
    pub fn is_several(&self) -> bool {
        matches!(self.kind, Kind::Several(_))
    }

    /// `ask`, which is for all of the window, as it is asked of the whole: in the user's words.
    pub fn outer<'a>(&'a self, ask: &Ask<'a>) -> Ask<'a> {
        Ask { set: Some(&self.text), ..ask.clone() }
    }
}

impl Span {
    /// `ask`, which is for bytes of the span, as it is asked of the whole.
    pub fn outer<'a>(&self, ask: &Ask<'a>) -> Ask<'a> {
        let (start, end) = ask.range.unwrap_or((0, None));
        let moved = |at: u64| at.saturating_add(self.first);
        let ends = [end.map(moved), self.last.map(|last| last + 1)];
        Ask { range: Some((moved(start), ends.into_iter().flatten().min())), ..ask.clone() }
    }

    /// Makes of the head of such an answer from `url` what it says of the span; `opens`: all of that was
    /// asked for. Returns what is to be said of it.
    pub fn inner(&self, head: &mut ResponseHead, opens: bool, url: &Url) -> Result<Option<String>, GetError> {
        if head.status == 416 {
            return refuse_beyond(head, url, |size| self.first >= size, &self.to_string()).map(|()| None);
        }
        if !carries_bytes(head.status) {
            return Ok(None);
        }
        let wrong = |detail: String| wrong_part(url, detail);
        let Some((first, last, complete)) = named_range(head, url)? else {
            return match head.status == 206 || self.is_all_of(head) {
                true => Ok(None),
                false => Err(whole_instead(url)),
            };
        };
        if opens && self.is_miscounted(head, (first, last, complete)) {
            let range = head.header("content-range").unwrap_or_default();
            let note = format!(
                "{} sent the {} that were asked for, and calls them '{}'",
                object::host_of(url),
                Bytes(head.announced().unwrap_or_default()),
                object::printable(range)
            );
            make_whole(head);
            return Ok(Some(note));
        }
        if first < self.first || self.last.is_some_and(|own| last > own) {
            return Err(wrong(format!("the bytes {first} to {last}, asked for {self}")));
        }
        let complete = match (complete, self.last) {
            (Some(size), own) => Some(own.map_or(size, |own| size.min(own + 1)) - self.first),
            (None, Some(own)) if last == own => Some(own + 1 - self.first),
            (None, _) => None,
        };
        let complete = complete.map_or_else(|| "*".to_owned(), |size| size.to_string());
        let moved = format!("bytes {}-{}/{complete}", first - self.first, last - self.first);
        head.fields.remove("content-range");
        head.fields.push("content-range", &moved).map_err(|error| wrong(error.to_string()))?;
        Ok(None)
    }

    /// The answer begins where it was asked to, and has exactly as many bytes as were asked for; only where
    /// they end is counted wrong in its `Content-Range`. What the length frames is what was meant.
    fn is_miscounted(&self, head: &ResponseHead, (first, last, complete): (u64, u64, Option<u64>)) -> bool {
        let (Some(length), Some(own)) = (head.announced(), self.last) else { return false };
        first == self.first
            && last != own
            && length == own - self.first + 1
            && complete.is_none_or(|size| size > own)
    }

    /// An answer with the whole object has no more bytes than the span.
    fn is_all_of(&self, head: &ResponseHead) -> bool {
        let is_within = |last: u64| head.announced().is_some_and(|length| length <= last + 1);
        self.first == 0 && self.last.is_none_or(is_within)
    }
}

/// 416 that means what it says: nothing of the window is there. Else its word of the whole is taken away,
/// since what follows knows the window alone.
fn refuse_beyond(
    head: &mut ResponseHead,
    url: &Url,
    is_beyond: impl Fn(u64) -> bool,
    what: &str,
) -> Result<(), GetError> {
    match size_in(head).filter(|size| is_beyond(*size)) {
        Some(size) => Err(GetError::Refused(format!(
            "{} answered 416 {}: the object has {size} bytes, and {what} (--range) begins behind them",
            object::host_of(url),
            object::printable(&head.reason)
        ))),
        None => {
            head.fields.remove("content-range");
            Ok(())
        }
    }
}

/// The size that a 416 names.
pub(super) fn size_in(head: &ResponseHead) -> Option<u64> {
    head.fields.single("content-range").ok()??.parse::<ContentRange>().ok()?.complete()
}

/// The range that the head names; one that cannot be read is an error.
fn named_range(head: &ResponseHead, url: &Url) -> Result<Option<(u64, u64, Option<u64>)>, GetError> {
    let field = head.fields.single("content-range").map_err(|error| wrong_part(url, error.to_string()))?;
    let range = field.map(str::parse::<ContentRange>).transpose();
    Ok(match range.map_err(|error| wrong_part(url, error.to_string()))? {
        Some(ContentRange::Bytes { first, last, complete }) => Some((first, last, complete)),
        Some(ContentRange::Unsatisfied { .. }) | None => None,
    })
}

/// An answer with bytes of the object.
fn carries_bytes(status: u16) -> bool {
    (200..300).contains(&status) && !object::has_no_file(status)
}

/// What was asked for is here, and is an object of its own: over one connection, whole or not at all.
fn make_whole(head: &mut ResponseHead) {
    head.status = 200;
    head.fields.remove("content-range");
}

fn whole_instead(url: &Url) -> GetError {
    GetError::Refused(format!(
        "{} sent all of it in place of the part that --range names; leave that out to save all",
        object::host_of(url)
    ))
}

fn wrong_part(url: &Url, detail: String) -> GetError {
    GetError::WrongPart { host: object::host_of(url), detail }
}

/// How a URL's fragment begins that names a window.
const FRAGMENT: &str = "bytes=";

/// The window that the URL of a job names.
pub fn named(url: &Url) -> Option<&str> {
    url.fragment().filter(|fragment| fragment.starts_with(FRAGMENT))
}

impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", RangeSpec::From { first: self.first, last: self.last })
    }
}

fn written(specs: &[RangeSpec]) -> String {
    specs.iter().map(RangeSpec::to_string).collect::<Vec<_>>().join(",")
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Window, String> {
        let expected = "expected FIRST-LAST, FIRST- for all from there on, or -N for the last N bytes, such as 0-499; \
                        several are parted by commas (wget's -r is not here: several URLs, or a list by -i)";
        // As the field has it too.
        let set = text.strip_prefix("bytes=").unwrap_or(text);
        let specs = set.split(',').map(|spec| spec.trim_matches([' ', '\t']).parse::<RangeSpec>());
        let specs = specs.collect::<Result<Vec<RangeSpec>, _>>().map_err(|_| expected.to_owned())?;
        // Files end at 2^63 - 1.
        let is_offset = |at: u64| at < i64::MAX as u64;
        for spec in &specs {
            match *spec {
                RangeSpec::Suffix(0) => return Err("-0 asks for no bytes; -N asks for the last N".to_owned()),
                RangeSpec::From { first, last } if is_offset(first) && last.is_none_or(is_offset) => {}
                RangeSpec::Suffix(length) if is_offset(length) => {}
                _ => return Err(format!("{spec} lies behind the end of any file; {expected}")),
            }
        }
        if specs.len() > MOST_RANGES {
            let count = specs.len();
            return Err(format!(
                "{count} ranges are more than servers take; ask for {MOST_RANGES} at a time"
            ));
        }
        let text = written(&specs);
        let kind = match specs[..] {
            [RangeSpec::From { first, last }] => Kind::Span(Span { first, last }),
            [RangeSpec::Suffix(length)] => Kind::Tail(length),
            _ => Kind::Several(Several(specs)),
        };
        Ok(Window { text, kind })
    }
}
