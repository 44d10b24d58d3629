//! Objects that come through here on their way into a store: what has to be known of one before, and the
//! upload that it becomes.

use std::sync::Arc;

use url::Url;
use weir_codec::digest::Expected;
use weir_get::GetError;
use weir_get::http::call::{AtHand, Call, Reply};
use weir_http::content_range::ContentRange;
use weir_http::digest_field::declarations;

use super::content;
use crate::caller::{Caller, refusal};
use crate::error::StoreError;
use crate::listing::{Looked, mtime_text};
use crate::store::Store;
use crate::upload::elsewhere::{Elsewhere, Fetched, PIECE, Sides, version_of};
use crate::upload::fields::{FieldKind, Losses, fitted};
use crate::upload::{Attributes, Sum, kinds};

/// What a web server says beside an object that is looked at: an error's page.
const SHORT: usize = 64 << 10;

/// Who says what digest an object of a store must have.
pub const KEEPER: &str = "its store's";

/// What comes through here, and what is to be kept with it.
pub struct Through {
    /// What is fetched.
    pub source: Elsewhere,
    /// What its source says of it.
    pub attributes: Attributes,
    /// What its source calls the version that is meant, where it has a name that no other has.
    pub named: Option<String>,
}

impl Through {
    /// An object of `store`, as a look at it has found it; `version` where one is meant that is not the last.
    /// Its attributes are the source's, without its tags ([`Through::fitted`]).
    pub fn of_store(
        store: &dyn Store,
        shown: String,
        looked: Looked,
        version: Option<&str>,
        sides: &Arc<Sides>,
    ) -> Result<Through, StoreError> {
        let kept = content::digest_of(&looked).map(|(algorithm, value)| Sum { algorithm, value });
        let meant = version.map_or_else(String::new, |version| format!(" {version}"));
        let name = format!("{}{meant}", store.address(&looked.listed.key));
        let own = looked.listed.version.as_ref().filter(|_| store.pins_versions());
        let version = version.or(own.map(|version| version.id.as_str()));
        let tag = looked.listed.etag.clone().filter(|tag| own.is_none() && !tag.starts_with("W/"));
        let named = version.map(str::to_owned).or(tag.clone());
        let url = store.object(&looked.listed.key, version)?;
        let (size, attributes) = (looked.listed.size, attributes_of(looked));
        let source = Elsewhere {
            pins: store.authorizer().pins(&url),
            url,
            shown,
            name,
            size,
            version: tag,
            coding: attributes.content_encoding.clone(),
            kept,
            origin: KEEPER,
            sides: Arc::clone(sides),
            fetched: Fetched::default(),
        };
        Ok(Through { source, attributes, named })
    }

    /// The same as [`Through::of_store`], with its tags, and with attributes such as fields of the target's
    /// `kind` hold; what is not kept so is counted at `sides`.
    pub fn fitted(
        caller: &mut Caller<'_>,
        (store, kind): (&dyn Store, FieldKind),
        shown: String,
        looked: Looked,
        version: Option<&str>,
        sides: &Arc<Sides>,
    ) -> Result<Through, StoreError> {
        let (tags, untold) = tags_of(caller, (store, kind), &looked, version)?;
        let through = Through::of_store(store, shown, looked, version, sides)?;
        let own = Attributes { tags, tags_may_go: true, ..through.attributes };
        let (attributes, losses) = fitted(kind, own);
        sides.unkept().count(Losses { tags: untold.or(losses.tags), ..losses });
        Ok(Through { source: through.source, attributes, named: through.named })
    }

    /// The object of a web server at `url`, which is to be called `key`; `None` where there is none.
    pub fn of_web(
        caller: &mut Caller<'_>,
        url: Url,
        key: &str,
        sides: &Arc<Sides>,
    ) -> Result<Option<(Through, WebFacts)>, StoreError> {
        let shown = weir_get::object::shown(&url);
        let Some((reply, size)) = look(caller, &url, &shown)? else { return Ok(None) };
        let head = &reply.head;
        let found = declarations(head.status, &head.fields);
        let declared = found.strongest_whole();
        let field = |name: &str| head.header(name).map(str::to_owned);
        let modified = field("last-modified").and_then(|text| httpdate::parse_http_date(&text).ok());
        let attributes = Attributes {
            content_type: field("content-type").or_else(|| kinds::of(key).map(str::to_owned)),
            content_encoding: field("content-encoding").filter(|coding| coding != "identity"),
            content_disposition: field("content-disposition"),
            metadata: modified.map(|time| ("mtime".to_owned(), mtime_text(time))).into_iter().collect(),
            ..Attributes::default()
        };
        let facts = WebFacts { etag: field("etag"), modified };
        let source = Elsewhere {
            url,
            pins: false,
            name: shown.clone(),
            shown,
            size,
            version: version_of(head),
            coding: None,
            kept: declared.map(|declared| sum_of(&declared.expected)),
            origin: declared.map_or("", |declared| declared.field),
            sides: Arc::clone(sides),
            fetched: Fetched::default(),
        };
        let named = source.version.clone();
        Ok(Some((Through { source, attributes, named }, facts)))
    }

    /// All of it must have this digest, whatever its source says.
    pub fn must_have(&mut self, expected: &Expected, origin: &'static str) {
        self.source.kept = Some(sum_of(expected));
        self.source.origin = origin;
    }
}

/// What a web server says of an object beside its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebFacts {
    /// Its entity tag, with its quotes.
    pub etag: Option<String>,
    /// When it was last changed.
    pub modified: Option<std::time::SystemTime>,
}

fn sum_of(expected: &Expected) -> Sum {
    Sum { algorithm: expected.algorithm(), value: expected.bytes().to_vec() }
}

/// Head and size of what is at `url`; `None`: nothing is. Of a large one the server must serve parts: they
/// are what is held here.
fn look(caller: &mut Caller<'_>, url: &Url, shown: &str) -> Result<Option<(Reply, u64)>, StoreError> {
    let what = format!("look at {shown}");
    let call = |method, range: &[(&str, &str)]| {
        let fields = range.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        Call { method, url: url.clone(), fields, most: SHORT, asks_first: false }
    };
    let of_source = |error| match error {
        StoreError::Http(error) if !matches!(error, GetError::Interrupted) => {
            StoreError::Answered { what: what.clone(), answer: Box::new(error) }
        }
        other => other,
    };
    let head = call("HEAD", &[]);
    let reply = caller.ask(&head, &mut AtHand::default()).map_err(of_source)?;
    let told = match reply.head.status {
        200 => reply.head.announced(),
        404 | 410 => return Ok(None),
        // Not every server knows HEAD: what it says to a GET counts.
        400 | 403 | 405 | 501 => None,
        _ => return Err(refusal(&what, &head, &reply)),
    };
    // Nothing at all is what is said of any file by servers that make their answers up as they go.
    let told = told.filter(|size| *size > 0);
    if let Some(size) = told.filter(|size| *size <= PIECE) {
        return Ok(Some((reply, size)));
    }
    let of_head = reply.head.status == 200;
    let get = call("GET", &[("range", "bytes=0-0")]);
    let no_parts = || {
        StoreError::Http(GetError::Refused(format!(
            "cannot fetch {shown} in parts: its server does not serve ranges; plan it into a folder, and from there \
             into the store"
        )))
    };
    let part = match caller.ask(&get, &mut AtHand::default()) {
        Err(StoreError::Http(GetError::Malformed { .. })) => return Err(no_parts()),
        other => other.map_err(of_source)?,
    };
    let range = part.head.header("content-range").and_then(|text| text.parse().ok());
    let (size, is_all) = match (part.head.status, range) {
        (206, Some(ContentRange::Bytes { complete: Some(size), .. })) => (size, false),
        (206, _) => return Err(no_parts()),
        // It is so short that all of it came.
        (200, _) => (part.body.len() as u64, true),
        // Nothing is in it, of which no part can be had.
        (416, Some(ContentRange::Unsatisfied { complete })) => (complete, false),
        (416, _) => (0, false),
        (404 | 410, _) => return Ok(None),
        _ => return Err(refusal(&what, &get, &part)),
    };
    let is_other = told.is_some_and(|told| told != size) || part.head.status == 416 && size > 0;
    if is_other {
        let told = told.map_or("nothing".to_owned(), |told| format!("{told} bytes"));
        let why = format!("to GET is of an object of {size} bytes, and to HEAD of {told}");
        return Err(StoreError::Answer { what, why });
    }
    Ok(Some((if of_head && !is_all { reply } else { part }, size)))
}

/// Tags, and why there are none of an object that has some.
type Tags = (Vec<(String, String)>, Option<String>);

/// The tags of an object that was looked at, where the target keeps any.
fn tags_of(
    caller: &mut Caller<'_>,
    (store, kind): (&dyn Store, FieldKind),
    looked: &Looked,
    version: Option<&str>,
) -> Result<Tags, StoreError> {
    match kind.no_tags() {
        _ if !looked.has_tags() => Ok((Vec::new(), None)),
        Some(why) => Ok((Vec::new(), Some(why.to_owned()))),
        None => match store.lists().tags_of(caller, &looked.listed.key, version) {
            Ok(tags) => Ok((tags, None)),
            // Reading them is a right of its own.
            Err(error) if error.is_withheld() => Ok((Vec::new(), Some(error.to_string()))),
            Err(error) => Err(error),
        },
    }
}

/// What a store says of an object that another can keep.
fn attributes_of(looked: Looked) -> Attributes {
    let Looked { headers, metadata, .. } = looked;
    let of = |name: &str| headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
    Attributes {
        content_type: of("content-type"),
        content_encoding: of("content-encoding"),
        content_disposition: of("content-disposition"),
        content_language: of("content-language"),
        cache_control: of("cache-control"),
        expires: of("expires"),
        metadata,
        ..Attributes::default()
    }
}
