//! What an answer says of the object behind it: its size, its validator, which bytes these are.

use url::Url;
use weir_codec::digest::Algorithm;
use weir_codec::hex;
use weir_http::Fields;
use weir_http::content_range::ContentRange;
use weir_http::digest_field::{Declared, Linked};
use weir_http::head::ResponseHead;
use weir_http::signed_link::{self, Kind};

use crate::error::{self, GetError};
use crate::http::credentials;
use crate::http::window;
use crate::version::Version;

/// An object as one answer shows it.
#[derive(Debug, Clone)]
pub struct Object {
    /// Its size, where announced.
    pub size: Option<u64>,
    /// By what further answers are known to be of the same object.
    pub version: Version,
    /// This answer holds the object's bytes up to here; `None`: to its end.
    pub holds_to: Option<u64>,
    /// The server answers parts, so lanes can share it and a resume can skip.
    pub ranged: bool,
    /// The strongest digest the server declares of the whole object.
    pub declared: Option<Declared>,
}

impl Object {
    /// An object without bytes, as a 416 shows it.
    pub fn empty() -> Object {
        Object { size: Some(0), holds_to: None, version: Version::default(), ranged: false, declared: None }
    }

    /// Whether it may be one of `size` bytes: it says so, or is a part that lies within and says nothing of
    /// the whole (`Content-Range: bytes 5-9/*`).
    pub fn fits(&self, size: u64) -> bool {
        match self.size {
            Some(own) => own == size,
            None => self.holds_to.is_some_and(|end| end <= size),
        }
    }

    /// Refuses to take this for a new version of an object that had the validators of `kept` and, where that
    /// is known, this `size`. A server in trouble answers 200 with nothing, or with a few words, and no
    /// validator: of another size that proves no change. One of the same size may come from a server that
    /// names no versions any more, and where it never named any an object may have grown.
    pub(crate) fn refuse_silence(
        &self,
        kept: &Version,
        size: Option<u64>,
        host: &str,
    ) -> Result<(), GetError> {
        let may_have_grown = |size: u64| kept.is_silent() && self.size.is_some_and(|own| own > size);
        let may_be = match size {
            Some(size) => self.fits(size) || may_have_grown(size),
            None => kept.is_silent(),
        };
        if may_be || !self.version.is_silent() {
            return Ok(());
        }
        let detail = match (size, self.size) {
            (None, _) => "its answer has no ETag or Last-Modified, as it had before",
            (Some(_), Some(_)) => "its answer has another size, and no ETag or Last-Modified",
            (Some(_), None) => "its answer has no size, and no ETag or Last-Modified",
        };
        Err(GetError::Unproven { host: host.to_owned(), detail, is_silent: true })
    }
}

/// What an answer to `Range: bytes=START-` holds.
#[derive(Debug)]
pub enum Part {
    /// The bytes from START on.
    Asked(Object),
    /// The whole object from byte 0, whatever was asked.
    Whole(Object),
    /// The object is empty.
    Empty,
    /// There is no such part; the object has this size, if that was said.
    Beyond(Option<u64>),
}

impl Part {
    /// With what redirects on the way said of the object, where that is the stronger digest and speaks of an
    /// object of this size.
    pub(crate) fn linked_by(mut self, linked: &Linked) -> Part {
        if let (Part::Asked(object) | Part::Whole(object), Some(digest)) = (&mut self, &linked.digest) {
            let strength = |one: &Declared| one.expected.algorithm().strength();
            let is_stronger = object.declared.as_ref().is_none_or(|own| strength(own) < strength(digest));
            let is_its_size = linked.size.is_none_or(|size| object.size.is_none_or(|own| own == size));
            if is_stronger && is_its_size {
                object.declared = Some(digest.clone());
            } else if !is_its_size {
                tracing::debug!("{} is not used: it is of an object of another size", digest.field);
            }
        }
        self
    }

    /// Without a digest that is of more bytes than these.
    pub(crate) fn undeclared(mut self) -> Part {
        if let Part::Asked(object) | Part::Whole(object) = &mut self {
            object.declared = None;
        }
        self
    }
}

/// The host that a URL names, for what is said of it.
pub fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}

/// Judges the head of an answer to a request for the bytes from `asked` on, or for all of it without a range.
pub fn judge(
    head: &ResponseHead,
    url: &Url,
    asked: Option<u64>,
    now: std::time::SystemTime,
) -> Result<Part, GetError> {
    let wrong = |detail: &str| GetError::WrongPart { host: host_of(url), detail: detail.to_owned() };
    match as_known(head.status) {
        206 | 200 | 203 if asked.is_none() && is_all_of_it(head) => Ok(Part::Whole(whole(head, url))),
        206 if asked.is_none() => {
            Err(wrong("a part (206), though the whole was asked for; --any-type saves it as if it were all"))
        }
        200 | 203 if !names_a_part(head, asked) => Ok(Part::Whole(whole(head, url))),
        200 | 203 if asked.is_none() => Err(wrong(
            "a part by its Content-Range, though the whole was asked for; --any-type saves it as if it \
                 were all",
        )),
        // With 200 too, where all else agrees: some servers know no 206.
        206 | 200 | 203 => judge_part(head, url, asked.unwrap_or(0)),
        416 => {
            let field = head.fields.single("content-range").ok().flatten();
            let size = field.and_then(|field| field.parse::<ContentRange>().ok());
            match size.and_then(|range| range.complete()) {
                Some(0) if asked.unwrap_or(0) == 0 => Ok(Part::Empty),
                size => Ok(Part::Beyond(size)),
            }
        }
        status => Err(GetError::Status {
            host: host_of(url),
            status,
            reason: printable(&head.reason),
            retry_after: weir_http::retry_after::wait(&head.fields, now),
            hint: error::hint(status, url),
        }),
    }
}

/// Judges the head of an answer that names a part, where the bytes from `start` on were asked for.
fn judge_part(head: &ResponseHead, url: &Url, start: u64) -> Result<Part, GetError> {
    let wrong = |detail: String| GetError::WrongPart { host: host_of(url), detail };
    let kind = head.header("content-type").unwrap_or_default();
    if kind.to_ascii_lowercase().starts_with("multipart/byteranges") {
        return Err(wrong("several parts in one (multipart/byteranges), one was asked for".to_owned()));
    }
    let field = head.fields.single("content-range").map_err(|error| wrong(error.to_string()))?;
    let field = field.ok_or_else(|| wrong("206 without Content-Range".to_owned()))?;
    let range: ContentRange = field.parse().map_err(|error| wrong(format!("{error}")))?;
    match range {
        // The rest could be asked for, and nothing would tell when there is none.
        ContentRange::Bytes { complete: None, .. } if start == 0 => {
            Err(wrong(format!("a part without the size of the whole (Content-Range: {field})")))
        }
        ContentRange::Bytes { first, last, complete } if first == start => {
            let length = head.announced();
            if length.is_some_and(|length| length != last - first + 1) {
                let length = length.unwrap_or_default();
                return Err(wrong(format!("{length} bytes, for which its Content-Range says '{field}'")));
            }
            let seen = describe(head, url);
            // Without a strong validator nothing says that two parts are of one version.
            let ranged = seen.version.if_range().is_some();
            Ok(Part::Asked(Object { size: complete, ranged, holds_to: Some(last + 1), ..seen }))
        }
        // All of it, whatever was asked for: by another status that would be 200.
        ContentRange::Bytes { first: 0, last, complete: Some(size) }
            if size == last + 1 && head.announced().is_none_or(|length| length == size) =>
        {
            Ok(Part::Whole(Object { size: Some(size), ..whole(head, url) }))
        }
        ContentRange::Bytes { first, .. } => {
            Err(wrong(format!("it starts at byte {first}, asked for from byte {start}")))
        }
        ContentRange::Unsatisfied { .. } => Err(wrong(format!("206 with Content-Range '{field}'"))),
    }
}

/// The object of an answer that holds all of it.
fn whole(head: &ResponseHead, url: &Url) -> Object {
    Object { size: head.announced(), ranged: false, ..describe(head, url) }
}

/// 200 for other answers that carry what was asked for (RFC 9110 section 15: an unknown status counts as the
/// first of its class).
fn as_known(status: u16) -> u16 {
    if matches!(status, 201 | 207..300) { 200 } else { status }
}

/// A success without a file: 202 is a word about a wait, 204 and 205 have no content.
pub(crate) fn has_no_file(status: u16) -> bool {
    matches!(status, 202 | 204 | 205)
}

/// The range that the head names, if it is a well-formed one.
fn named_range(head: &ResponseHead) -> Option<(u64, u64, Option<u64>)> {
    match head.fields.single("content-range").ok()??.parse() {
        Ok(ContentRange::Bytes { first, last, complete }) => Some((first, last, complete)),
        _ => None,
    }
}

/// The head names the range that was asked for, or one that is less than the object, or that may be.
fn names_a_part(head: &ResponseHead, asked: Option<u64>) -> bool {
    named_range(head).is_some_and(|(first, last, complete)| {
        asked == Some(first) || first > 0 || complete != Some(last + 1)
    })
}

/// The head of an answer to a plain request names a range that is all of the object, or, with 200, may be.
fn is_all_of_it(head: &ResponseHead) -> bool {
    let Some((0, last, complete)) = named_range(head) else { return false };
    let is_whole = complete.map_or(head.status != 206, |size| size == last + 1);
    is_whole && head.announced().is_none_or(|length| length == last + 1)
}

fn describe(head: &ResponseHead, url: &Url) -> Object {
    let declarations = weir_http::digest_field::declarations(head.status, &head.fields);
    for ignored in &declarations.ignored {
        tracing::debug!("{} is not used: {}", ignored.field, ignored.why);
    }
    Object {
        size: None,
        holds_to: None,
        version: Version::of(&head.fields, url),
        ranged: false,
        declared: declarations.strongest_whole().cloned(),
    }
}

/// The body has a coding of which its `name` tells: it is the file itself, or the file packed once more.
pub(crate) fn is_coded_as_named(fields: &Fields, name: &str) -> bool {
    weir_http::encoding::content_coding(fields).is_some() && foreign_coding(fields, name).is_none()
}

/// The coding of a body that is not the file itself.
pub(crate) fn foreign_coding(fields: &Fields, name: &str) -> Option<String> {
    let coding = weir_http::encoding::content_coding(fields)?;
    (!weir_http::encoding::coded_body_is_the_file(name, &coding)).then_some(coding)
}

/// The URL's last path segment as a plain file name; `index.html` where there is none.
pub fn name_from_url(url: &Url) -> String {
    weir_http::filename::from_url(url.as_str()).unwrap_or_else(|| "index.html".to_owned())
}

/// The URL as it may be shown: no user, no password, no signature in its query.
pub fn shown(url: &Url) -> String {
    with_query(url, |kind, value| match kind {
        Kind::Plain => Some(value.to_owned()),
        Kind::Signature | Kind::Secret => Some("REDACTED".to_owned()),
    })
}

/// What names the object in a URL, for a journal: without user and password, without what signs it, since a
/// renewed link is signed anew, and with the digest of what may be a secret and a name in one.
pub fn identity(url: &Url) -> String {
    let id = with_query(url, |kind, value| match kind {
        Kind::Plain => Some(value.to_owned()),
        Kind::Signature => None,
        // Half of it tells two values apart as well.
        Kind::Secret => {
            Some(format!("sha256-{}", &hex::encode(&Algorithm::SHA256.of(value.as_bytes()))[..32]))
        }
    });
    match window::named(url) {
        Some(window) => format!("{id}#{window}"),
        None => id,
    }
}

/// Whether the link is signed, and so may run out and be renewed.
pub fn is_signed(url: &Url) -> bool {
    signed_kinds(url).contains(&Kind::Signature)
}

/// The identity of a URL that a journal holds, which an older weir wrote as it was asked for.
pub(crate) fn identity_of_text(text: &str) -> String {
    let is_one = |url: &Url| signed_kinds(url).iter().all(|kind| *kind != Kind::Secret);
    Url::parse(text).ok().filter(is_one).map_or_else(|| text.to_owned(), |url| identity(&url))
}

/// The values of a query that are secrets, as they stand and decoded.
pub(crate) fn secret_values(url: &Url) -> Vec<String> {
    let kinds = signed_kinds(url);
    let decoded = url.query_pairs().map(|(_, value)| value.into_owned());
    let raw = url.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let raw = raw.map(|pair| pair.split_once('=').map_or("", |pair| pair.1));
    let secret = |(value, kind): (String, &Kind)| (*kind != Kind::Plain).then_some(value);
    decoded
        .zip(&kinds)
        .filter_map(secret)
        .chain(raw.map(str::to_owned).zip(&kinds).filter_map(secret))
        .collect()
}

fn signed_kinds(url: &Url) -> Vec<Kind> {
    let names: Vec<String> = url.query_pairs().map(|(name, _)| name.into_owned()).collect();
    signed_link::kinds(names.iter().map(String::as_str))
}

/// The URL without its user, and with what `keep` makes of each value of its query.
fn with_query(url: &Url, keep: impl Fn(Kind, &str) -> Option<String>) -> String {
    let mut bare = credentials::without(url);
    let kinds = signed_kinds(url);
    if kinds.iter().all(|kind| *kind == Kind::Plain) {
        return bare.to_string();
    }
    let pairs: Vec<(String, String)> = (url.query_pairs().zip(kinds))
        .filter_map(|((name, value), kind)| Some((name.into_owned(), keep(kind, &value)?)))
        .collect();
    if pairs.is_empty() {
        bare.set_query(None);
    } else {
        bare.query_pairs_mut().clear().extend_pairs(pairs);
    }
    bare.to_string()
}

/// Foreign text on one line without control characters.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_last_segment() {
        for (url, name) in [
            ("http://h/a/b.tar.gz?x=1", "b.tar.gz"),
            ("http://h/a%20b", "a b"),
            ("http://h/", "index.html"),
            ("http://h/..%2f..%2fetc%2fpasswd", "passwd"),
        ] {
            assert_eq!(name_from_url(&Url::parse(url).unwrap()), name, "{url}");
        }
    }

    /// What an answer with these lines is to a request for the bytes from `asked`.
    fn judged(status: u16, lines: &[&str], asked: Option<u64>) -> Result<Part, GetError> {
        let mut fields = Fields::new();
        lines.iter().for_each(|line| fields.push_line(line).unwrap());
        let head = ResponseHead { status, minor: 1, reason: String::new(), fields };
        judge(&head, &Url::parse("http://h/x").unwrap(), asked, std::time::SystemTime::UNIX_EPOCH)
    }

    #[test]
    fn a_200_with_a_range_is_a_part_if_all_else_agrees() {
        for status in [200, 203, 206] {
            let part =
                judged(status, &["ETag: \"e\"", "Content-Range: bytes 5-9/20", "Content-Length: 5"], Some(5));
            assert!(matches!(
                part,
                Ok(Part::Asked(Object { size: Some(20), holds_to: Some(10), ranged: true, .. }))
            ));
            for lines in [
                &["Content-Range: bytes 5-9/20", "Content-Length: 6"][..],
                &["Content-Range: bytes 6-9/20", "Content-Length: 4"],
            ] {
                assert!(
                    matches!(judged(status, lines, Some(5)), Err(GetError::WrongPart { .. })),
                    "{lines:?}"
                );
            }
            assert!(matches!(
                judged(status, &["Content-Range: bytes 0-4/20"], None),
                Err(GetError::WrongPart { .. })
            ));
            let all = judged(status, &["Content-Range: bytes 0-4/5", "Content-Length: 5"], None);
            assert!(matches!(all, Ok(Part::Whole(Object { size: Some(5), .. }))));
        }
        for lines in [&["Content-Range: nonsense", "Content-Length: 5"][..], &["Content-Range: bytes 0-4/5"]]
        {
            assert!(matches!(judged(200, lines, Some(7)), Ok(Part::Whole(_))), "{lines:?}");
        }
    }

    #[test]
    fn all_of_it_is_the_whole_whatever_was_asked() {
        let lines = ["ETag: \"e\"", "Content-Range: bytes 0-19/20", "Content-Length: 20"];
        let whole = judged(206, &lines, Some(5));
        assert!(matches!(whole, Ok(Part::Whole(Object { size: Some(20), ranged: false, .. }))));
        let lines = ["ETag: \"e\"", "Content-Range: bytes 0-9/20", "Content-Length: 10"];
        assert!(matches!(judged(206, &lines, Some(5)), Err(GetError::WrongPart { .. })));
        let lines = ["ETag: \"e\"", "Content-Range: bytes 0-19/20", "Content-Length: 15"];
        assert!(matches!(judged(206, &lines, Some(5)), Err(GetError::WrongPart { .. })));
    }

    #[test]
    fn a_part_without_the_size_of_the_whole_goes_on_and_does_not_begin() {
        let lines = ["ETag: \"e\"", "Content-Range: bytes 5-9/*"];
        let Ok(Part::Asked(part)) = judged(206, &lines, Some(5)) else { panic!("no part") };
        assert!(part.fits(10) && part.fits(11) && !part.fits(9));
        assert!(matches!(
            judged(206, &["Content-Range: bytes 0-9/*"], Some(0)),
            Err(GetError::WrongPart { .. })
        ));
    }

    #[test]
    fn secrets_are_not_shown() {
        let url = Url::parse("https://u:p@h/x?X-Amz-Signature=abc&part=1#f").unwrap();
        assert_eq!(shown(&url), "https://h/x?X-Amz-Signature=REDACTED&part=1");
    }

    #[test]
    fn a_renewed_link_is_the_same_one() {
        let id = |query: &str| identity(&Url::parse(&format!("https://u:p@h/x?{query}")).unwrap());
        assert_eq!(id("X-Amz-Signature=abc&X-Amz-Date=1"), "https://h/x");
        assert_eq!(id("sig=a&se=1&versionId=3"), id("versionId=3&sig=b&se=2"));
        assert_ne!(id("sig=a&versionId=3"), id("sig=a&versionId=4"));
        // So does the window of it that is asked for.
        assert_eq!(identity_of_text(&id("sig=a#bytes=0-9")), "https://h/x#bytes=0-9");
        // What may name the object counts, and is not stored in clear.
        assert_ne!(id("key=geheim1"), id("key=geheim2"));
        assert!(!id("key=geheim1").contains("geheim"));
        // A journal holds it as it is, or as an older weir wrote it.
        for query in ["key=geheim1", "sig=a&se=1&v=2", "v=2"] {
            assert_eq!(identity_of_text(&id(query)), id(query), "{query}");
        }
        assert_eq!(identity_of_text("https://h/x?sig=a&se=1&v=2"), id("sig=b&se=2&v=2"));
    }
}
