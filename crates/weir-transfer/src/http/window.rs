//! Some bytes of an object in place of all of it (`--range`).
//!
//! What is asked for is moved on its way out, and what an answer says of itself on its way in: all that lies between
//! knows an object of these bytes alone, which lanes share and a later run goes on with like any other.

use std::str::FromStr;

use url::Url;
use weir_http::content_range::ContentRange;
use weir_http::head::ResponseHead;

use crate::error::Error;
use crate::http::request::Ask;

/// The bytes from `first` to `last`, which is included; `None`: to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    first: u64,
    last: Option<u64>,
}

impl Window {
    /// What names it behind a URL, so that parts of several windows are not taken for one another. No server sees it.
    pub fn fragment(&self) -> String {
        format!("{FRAGMENT}{self}")
    }

    /// `ask`, which is for bytes of the window, as it is asked of the whole.
    pub fn outer<'a>(&self, ask: &Ask<'a>) -> Ask<'a> {
        let (start, end) = ask.range.unwrap_or((0, None));
        let moved = |at: u64| at.saturating_add(self.first);
        let ends = [end.map(moved), self.last.map(|last| last + 1)];
        Ask { range: Some((moved(start), ends.into_iter().flatten().min())), ..ask.clone() }
    }

    /// Makes of the head of such an answer from `url` what it says of the window.
    pub fn inner(&self, head: &mut ResponseHead, url: &Url) -> Result<(), Error> {
        if head.status == 416 {
            // It speaks of the size of the whole.
            head.fields.remove("content-range");
        }
        if !(200..300).contains(&head.status) {
            return Ok(());
        }
        let host = || url.host_str().unwrap_or_default().to_owned();
        let wrong = |detail: String| Error::WrongPart { host: host(), detail };
        let field = head.fields.single("content-range").map_err(|error| wrong(error.to_string()))?;
        let range = field.map(str::parse::<ContentRange>).transpose();
        let Some(ContentRange::Bytes { first, last, complete }) =
            range.map_err(|error| wrong(error.to_string()))?
        else {
            return match head.status == 206 || self.is_all_of(head) {
                true => Ok(()),
                false => Err(Error::Refused(format!(
                    "{} sent all of it in place of the part that --range names; leave that out to save all",
                    host()
                ))),
            };
        };
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
        head.fields.push("content-range", &moved).map_err(|error| wrong(error.to_string()))
    }

    /// An answer with the whole object has no more bytes than the window.
    fn is_all_of(&self, head: &ResponseHead) -> bool {
        let is_within = |last: u64| head.announced().is_some_and(|length| length <= last + 1);
        self.first == 0 && self.last.is_none_or(is_within)
    }
}

/// How a URL's fragment begins that names a window.
const FRAGMENT: &str = "bytes=";

/// The window that the URL of a job names.
pub fn named(url: &Url) -> Option<&str> {
    url.fragment().filter(|fragment| fragment.starts_with(FRAGMENT))
}

impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-", self.first)?;
        self.last.map_or(Ok(()), |last| write!(f, "{last}"))
    }
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Window, String> {
        let expected = "expected FIRST-LAST, or FIRST- for all from there on, such as 0-499: one range of bytes \
                        (wget's -r is not here: several URLs, or a list by -i)";
        let (first, last) = text.split_once('-').ok_or(expected)?;
        // Files end at 2^63 - 1.
        let offset = |text: &str| {
            let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u64>().ok().filter(|offset| is_digits && *offset < i64::MAX as u64)
        };
        let first = offset(first).ok_or(expected)?;
        let last = match last {
            "" => None,
            digits => Some(offset(digits).filter(|last| *last >= first).ok_or(expected)?),
        };
        Ok(Window { first, last })
    }
}

#[cfg(test)]
mod tests {
    use weir_http::Fields;

    use super::*;

    fn window(text: &str) -> Window {
        text.parse().unwrap()
    }

    #[test]
    fn forms() {
        assert_eq!(window("5-9"), Window { first: 5, last: Some(9) });
        assert_eq!(window("5-").fragment(), "bytes=5-");
        for bad in
            ["", "-", "-5", "5", "9-5", "a-b", "1-2,4-5", "+1-2", "0-9223372036854775807", "http://h/x"]
        {
            assert!(bad.parse::<Window>().is_err(), "{bad}");
        }
    }

    #[test]
    fn requests_are_moved_and_end_with_the_window() {
        let ask = |range| Ask {
            range,
            if_range: None,
            headers: &[],
            authorization: None,
            cookies: None,
            removed: &[],
            unless: None,
            codings: None,
        };
        for (text, range, outer) in [
            ("100-200", None, (100, Some(201))),
            ("100-200", Some((0, None)), (100, Some(201))),
            ("100-200", Some((10, Some(20))), (110, Some(120))),
            ("100-200", Some((10, Some(500))), (110, Some(201))),
            ("100-", Some((10, None)), (110, None)),
        ] {
            assert_eq!(window(text).outer(&ask(range)).range, Some(outer), "{text} {range:?}");
        }
    }

    #[test]
    fn answers_are_of_the_window() {
        let url = Url::parse("http://h/x").unwrap();
        let inner = |text: &str, status: u16, field: Option<&str>, length: u64| {
            let mut fields = Fields::new();
            fields.push("Content-Length", &length.to_string()).unwrap();
            if let Some(field) = field {
                fields.push("Content-Range", field).unwrap();
            }
            let mut head = ResponseHead { status, minor: 1, reason: String::new(), fields };
            let done = window(text).inner(&mut head, &url);
            done.map(|()| head.header("content-range").map(str::to_owned)).map_err(|error| error.to_string())
        };
        for (text, field, moved) in [
            ("100-200", "bytes 100-200/3527", "bytes 0-100/101"),
            ("100-200", "bytes 150-160/3527", "bytes 50-60/101"),
            ("100-200", "bytes 100-149/150", "bytes 0-49/50"),
            ("100-200", "bytes 100-200/*", "bytes 0-100/101"),
            ("100-200", "bytes 100-150/*", "bytes 0-50/*"),
            ("100-", "bytes 100-199/200", "bytes 0-99/100"),
        ] {
            assert_eq!(inner(text, 206, Some(field), 1), Ok(Some(moved.to_owned())), "{text} {field}");
        }
        for field in ["bytes 99-200/3527", "bytes 100-201/3527", "bytes 0-9/10", "bytes odd"] {
            assert!(inner("100-200", 206, Some(field), 1).unwrap_err().contains("the wrong part"), "{field}");
        }
        assert!(inner("100-200", 200, None, 3527).unwrap_err().contains("leave that out"));
        assert!(inner("0-99", 200, None, 101).is_err());
        assert_eq!(inner("0-99", 200, None, 100), Ok(None));
        assert_eq!(inner("0-", 200, None, 100), Ok(None));
        assert_eq!(inner("100-200", 416, Some("bytes */0"), 0), Ok(None));
        assert_eq!(inner("100-200", 404, None, 10), Ok(None));
    }
}
