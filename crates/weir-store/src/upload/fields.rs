//! What of another store's object a target keeps beside its bytes, and how: each store has fields of its own,
//! and takes less in them than another gives.
//!
//! * A name of metadata has the letters of a field's name; at Azure those of an identifier of C#, which
//!   begins with no digit. Any other becomes `_`; of two names that are one then, the first counts.
//! * A value is ASCII. Any other becomes encoded words (RFC 2047) at S3, as Amazon itself gives it back, and
//!   is percent-encoded at Azure, with `%`. Google takes any text.
//! * Fields with a name of their own are left out where the target does not take them as they are.
//! * Control characters pass nowhere: in metadata they become blanks.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use weir_units::counted;

use super::Attributes;
use crate::error::StoreError;

/// Of a value: what is not ASCII is encoded in any case.
const VALUE: &AsciiSet = &CONTROLS.add(b'%');

/// Bytes of an encoded word before they are encoded: it has 75 letters at most, 12 of them around those of
/// base64 (RFC 2047 section 2).
const WORD: usize = 45;

/// Changes that a note names.
const NAMED: usize = 8;

/// Whose fields they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// Those of S3.
    Amazon,
    /// Those of Google, by either interface.
    Google,
    /// Those of Azure.
    Azure,
}

impl FieldKind {
    /// Why objects there have no tags; `None`: they have.
    pub fn no_tags(self) -> Option<&'static str> {
        (self == FieldKind::Google).then_some("objects of gs:// have none")
    }
}

/// What of one object is not kept as its source has it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Why tags are not.
    pub tags: Option<String>,
    /// What becomes of other attributes, one by one.
    pub fields: Vec<String>,
}

/// What of a run's objects is not kept as their source has it, for a word at its end.
#[derive(Debug, Default)]
pub struct Unkept(Mutex<UnkeptState>);

#[derive(Debug, Default)]
struct UnkeptState {
    tags: u64,
    /// Of the first.
    why: Option<String>,
    fields: u64,
    changes: BTreeSet<String>,
    /// There are others.
    is_cut: bool,
}

impl Unkept {
    /// Counts those of one more object.
    pub fn count(&self, losses: Losses) {
        let mut state = self.0.lock();
        state.tags += u64::from(losses.tags.is_some());
        state.why = state.why.take().or(losses.tags);
        state.fields += u64::from(!losses.fields.is_empty());
        for change in losses.fields {
            if state.changes.len() < NAMED {
                state.changes.insert(change);
            } else {
                state.is_cut |= !state.changes.contains(&change);
            }
        }
    }

    /// What there is to say of them.
    pub fn notes(&self) -> Vec<String> {
        let state = self.0.lock();
        let why = state.why.as_deref().unwrap_or_default();
        let tags = format!("tags of {} are not kept: {why}", counted(state.tags, "object"));
        let changes: Vec<&str> = state.changes.iter().map(String::as_str).collect();
        let others = if state.is_cut { ", and others" } else { "" };
        let fields = format!(
            "attributes of {} are not kept as they are: {}{others}",
            counted(state.fields, "object"),
            changes.join(", ")
        );
        let all = [(state.tags, tags), (state.fields, fields)];
        all.into_iter().filter(|(count, _)| *count > 0).map(|(_, note)| note).collect()
    }
}

/// `from`, of an object of another store, as fields of `kind` hold them; and what is not kept so.
pub fn fitted(kind: FieldKind, mut from: Attributes) -> (Attributes, Losses) {
    let (metadata, tags) = (std::mem::take(&mut from.metadata), std::mem::take(&mut from.tags));
    let mut losses = Losses::default();
    let mut single = |name: &str, value: Option<String>| -> Option<String> {
        let value = value?;
        if holds(kind, name, &value) {
            return Some(value);
        }
        losses.fields.push(format!("{name} is left out"));
        None
    };
    let mut to = Attributes {
        content_type: single("Content-Type", from.content_type),
        content_encoding: single("Content-Encoding", from.content_encoding),
        content_disposition: single("Content-Disposition", from.content_disposition),
        content_language: single("Content-Language", from.content_language),
        cache_control: single("Cache-Control", from.cache_control),
        expires: single("Expires", from.expires),
        ..from
    };
    for (name, value) in metadata {
        let own = name_of(kind, &name);
        let shown = name.escape_debug();
        if own.is_empty() || to.metadata.iter().any(|(known, _)| *known == own) {
            losses.fields.push(format!("the metadata '{shown}' is left out"));
            continue;
        }
        let held = value_of(kind, &value);
        if own != name {
            losses.fields.push(format!("the metadata '{shown}' is called '{own}'"));
        }
        if held != value {
            losses.fields.push(format!("the value of the metadata '{shown}' is written otherwise"));
        }
        to.metadata.push((own, held));
    }
    let count = tags.len();
    to.tags = tags.into_iter().filter(|tag| takes_tag(kind, tag)).collect();
    if to.tags.len() < count {
        let others = "az:// takes ASCII letters, digits, blanks and +-./:=_ in them, and others are left out";
        losses.tags = Some(kind.no_tags().unwrap_or(others).to_owned());
    }
    (to, losses)
}

/// Whether the field `name` takes `value`.
fn holds(kind: FieldKind, name: &str, value: &str) -> bool {
    match (kind, name) {
        _ if value.contains(char::is_control) => false,
        (FieldKind::Google | FieldKind::Azure, "Expires") => false,
        // It is signed, and so are all of Azure's: what is signed is ASCII.
        (FieldKind::Amazon, "Content-Type") | (FieldKind::Azure, _) => value.is_ascii(),
        (FieldKind::Amazon | FieldKind::Google, _) => true,
    }
}

/// Empty where nothing of it can stay.
fn name_of(kind: FieldKind, name: &str) -> String {
    let takes = |letter: char| match kind {
        FieldKind::Azure => letter.is_ascii_alphanumeric() || letter == '_',
        // RFC 9110 section 5.6.2.
        FieldKind::Amazon | FieldKind::Google => {
            letter.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(letter)
        }
    };
    let own: String = name.chars().map(|letter| if takes(letter) { letter } else { '_' }).collect();
    match kind == FieldKind::Azure && own.starts_with(|first: char| first.is_ascii_digit()) {
        true => format!("_{own}"),
        false => own,
    }
}

fn value_of(kind: FieldKind, value: &str) -> String {
    let plain = value.replace(char::is_control, " ");
    // A field has no blanks at its ends.
    let bare = plain.trim_matches(' ');
    match kind {
        FieldKind::Google => plain,
        FieldKind::Amazon | FieldKind::Azure if bare.is_ascii() => bare.to_owned(),
        FieldKind::Amazon => encoded_words(bare),
        FieldKind::Azure => utf8_percent_encode(bare, VALUE).to_string(),
    }
}

/// As many encoded words as it takes; blanks between them count for nothing.
fn encoded_words(text: &str) -> String {
    let (mut words, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let most = rest.len().min(WORD);
        let end = (1..=most).rev().find(|end| rest.is_char_boundary(*end)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        words.push(format!("=?UTF-8?B?{}?=", STANDARD.encode(word)));
        rest = after;
    }
    words.join(" ")
}

/// What Azure takes: <https://learn.microsoft.com/rest/api/storageservices/set-blob-tags>
fn takes_tag(kind: FieldKind, (name, value): &(String, String)) -> bool {
    let is_plain =
        |text: &str| text.chars().all(|letter| letter.is_ascii_alphanumeric() || " +-./:=_".contains(letter));
    match kind {
        FieldKind::Amazon => true,
        FieldKind::Google => false,
        FieldKind::Azure => !name.is_empty() && is_plain(name) && is_plain(value),
    }
}

/// `fields` of a request for `what`: a control character among them would end one early, and begin another.
pub fn checked(what: &str, fields: Vec<(String, String)>) -> Result<Vec<(String, String)>, StoreError> {
    let is_broken = |text: &str| text.contains(|letter: char| letter.is_control() && letter != '\t');
    match fields.iter().find(|(name, value)| is_broken(name) || is_broken(value)) {
        None => Ok(fields),
        Some((name, _)) => Err(StoreError::Usage(format!(
            "cannot {what}: {} has control characters, which no field holds",
            name.escape_debug()
        ))),
    }
}

/// Whether a target has refused tags of another store's objects, which it takes without.
#[derive(Debug, Default)]
pub struct TagRefusal(AtomicBool);

impl TagRefusal {
    /// Has `send` send an object with its tags, or without them where they are another store's and the target
    /// refuses them: writing tags is a right of its own, and not every store knows them.
    pub fn sends<T>(
        &self,
        attributes: &Attributes,
        send: &mut dyn FnMut(&Attributes) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if !attributes.tags_may_go || attributes.tags.is_empty() {
            return send(attributes);
        }
        let without = || Attributes { tags: Vec::new(), ..attributes.clone() };
        if self.0.load(Relaxed) {
            return send(&without());
        }
        match send(attributes) {
            Err(error) if refuses_tags(&error) => {
                let sent = send(&without())?;
                if !self.0.swap(true, Relaxed) {
                    tracing::warn!("{error}; tags are not kept from now on");
                }
                Ok(sent)
            }
            other => other,
        }
    }
}

fn refuses_tags(error: &StoreError) -> bool {
    // Azure: of accounts with a hierarchy.
    const NOT_YET: &str = "FeatureNotYetSupportedForHierarchicalNamespaceAccounts";
    error.is_withheld() || error.code() == Some(NOT_YET)
}

#[cfg(test)]
mod tests {
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    use super::*;

    const KINDS: [FieldKind; 3] = [FieldKind::Amazon, FieldKind::Google, FieldKind::Azure];

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    /// One piece of metadata as `kind` holds it.
    fn one(kind: FieldKind, name: &str, value: &str) -> ((String, String), Losses) {
        let from = Attributes { metadata: vec![pair(name, value)], ..Attributes::default() };
        let (mut to, losses) = fitted(kind, from);
        (to.metadata.remove(0), losses)
    }

    /// Control characters included.
    fn text() -> impl Strategy<Value = String> {
        prop::collection::vec(any::<char>(), 0..60).prop_map(|letters| letters.into_iter().collect())
    }

    #[test]
    fn what_all_hold_stays_as_it_is() {
        let from = Attributes {
            content_type: Some("text/plain".to_owned()),
            content_language: Some("de".to_owned()),
            metadata: vec![pair("mtime", "1700000000.5"), pair("a_b", "x y")],
            ..Attributes::default()
        };
        for kind in KINDS {
            assert_eq!(fitted(kind, from.clone()), (from.clone(), Losses::default()), "{kind:?}");
        }
    }

    #[test]
    fn each_store_has_its_own_letters() {
        let (held, losses) = one(FieldKind::Azure, "last-modified", "then");
        assert_eq!(held, pair("last_modified", "then"));
        assert_eq!(losses.fields, ["the metadata 'last-modified' is called 'last_modified'"]);
        assert_eq!(one(FieldKind::Azure, "7z", "x").0, pair("_7z", "x"));
        assert_eq!(one(FieldKind::Amazon, "a b\u{e4}", "x").0, pair("a_b_", "x"));
        let name = "M\u{fc}ller 5%";
        assert_eq!(one(FieldKind::Amazon, "a", name).0.1, "=?UTF-8?B?TcO8bGxlciA1JQ==?=");
        assert_eq!(one(FieldKind::Azure, "a", name).0.1, "M%C3%BCller 5%25");
        assert_eq!(one(FieldKind::Google, "a", name), (pair("a", name), Losses::default()));
        assert_eq!(one(FieldKind::Azure, "a", "5%").0.1, "5%");
        for kind in KINDS {
            assert_eq!(one(kind, "a", "x\r\ny: z").0.1, "x  y: z", "{kind:?}");
        }
    }

    #[test]
    fn what_has_no_place_is_left_out_and_told() {
        let from = || Attributes {
            content_type: Some("text/\u{e4}".to_owned()),
            cache_control: Some("x\r\ny: z".to_owned()),
            expires: Some("Thu, 01 Jan 2099 00:00:00 GMT".to_owned()),
            metadata: vec![pair("a-b", "1"), pair("a_b", "2"), pair("", "3")],
            tags: vec![pair("a", "b"), pair("c", "d@e")],
            ..Attributes::default()
        };
        let (to, losses) = fitted(FieldKind::Azure, from());
        assert_eq!((to.content_type, to.cache_control, to.expires), (None, None, None));
        assert_eq!((to.metadata, to.tags), (vec![pair("a_b", "1")], vec![pair("a", "b")]));
        assert_eq!(losses.fields.len(), 6, "{losses:?}");
        assert!(losses.tags.as_ref().unwrap().contains("az:// takes"), "{losses:?}");
        let (to, google) = fitted(FieldKind::Google, from());
        assert!(to.tags.is_empty() && google.tags.as_ref().unwrap().contains("gs://"), "{google:?}");
        let (to, amazon) = fitted(FieldKind::Amazon, from());
        assert!(to.tags.len() == 2 && to.expires.is_some() && amazon.tags.is_none(), "{amazon:?}");
        let unkept = Unkept::default();
        assert!(unkept.notes().is_empty());
        unkept.count(losses);
        unkept.count(google);
        unkept.count(Losses { tags: None, fields: (0..9).map(|number| number.to_string()).collect() });
        let [tags, fields]: [String; 2] = unkept.notes().try_into().unwrap();
        assert!(tags.starts_with("tags of 2 objects are not kept: az:// takes"), "{tags}");
        assert!(fields.starts_with("attributes of 3 objects are not kept as they are: "), "{fields}");
        assert!(fields.ends_with(", and others"), "{fields}");
    }

    #[test]
    fn a_field_that_would_begin_another_is_refused() {
        let fields = vec![pair("x-amz-meta-a", "b c\t\u{e4}")];
        assert_eq!(checked("put x", fields.clone()).unwrap(), fields);
        for (name, value) in [("x-amz-meta-a", "b\r\nc: d"), ("x-amz-meta-a\nb", "c"), ("a", "\0")] {
            let error = checked("put x", vec![pair(name, value)]).unwrap_err().to_string();
            assert!(error.starts_with("cannot put x: ") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn tags_that_are_refused_go_where_they_are_not_the_users() {
        let denied = || StoreError::Refused {
            what: "put k".to_owned(),
            code: "AccessDenied".to_owned(),
            message: String::new(),
            hint: String::new(),
        };
        let refusal = TagRefusal::default();
        let asked = Mutex::new(Vec::new());
        let mut send = |attributes: &Attributes| {
            asked.lock().push(attributes.tags.len());
            if attributes.tags.is_empty() { Ok(()) } else { Err(denied()) }
        };
        let own = Attributes { tags: vec![pair("a", "b")], ..Attributes::default() };
        assert!(refusal.sends(&own, &mut send).is_err());
        let taken = Attributes { tags_may_go: true, ..own };
        refusal.sends(&taken, &mut send).unwrap();
        refusal.sends(&taken, &mut send).unwrap();
        assert_eq!(*asked.lock(), [1, 1, 0, 0]);
    }

    proptest! {
        #[test]
        fn no_other_letter_passes(name in text(), value in text()) {
            for kind in KINDS {
                let from = Attributes {
                    content_type: Some(value.clone()),
                    content_disposition: Some(value.clone()),
                    content_language: Some(value.clone()),
                    expires: Some(value.clone()),
                    metadata: vec![(name.clone(), value.clone())],
                    tags: vec![(name.clone(), value.clone())],
                    ..Attributes::default()
                };
                let (to, _) = fitted(kind, from);
                let is_field = |text: &str| !text.contains(char::is_control);
                let is_ascii = |text: &str| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
                for single in [&to.content_type, &to.content_disposition, &to.content_language, &to.expires] {
                    let single = single.as_deref().unwrap_or_default();
                    prop_assert!(is_field(single) && (kind != FieldKind::Azure || is_ascii(single)));
                }
                for (name, held) in &to.metadata {
                    let is_name = match kind {
                        FieldKind::Azure => name.bytes().enumerate().all(|(at, byte)| {
                            byte == b'_' || byte.is_ascii_alphabetic() || at > 0 && byte.is_ascii_digit()
                        }),
                        _ => http::HeaderName::from_bytes(format!("x-{name}").as_bytes()).is_ok(),
                    };
                    prop_assert!(is_name && !name.is_empty(), "{kind:?} {name:?}");
                    prop_assert!(is_field(held) && (kind == FieldKind::Google || is_ascii(held)), "{held:?}");
                    let mut words = held.split(' ').filter(|word| word.starts_with("=?UTF-8?B?"));
                    prop_assert!(words.all(|word| word.len() <= 75) || value.is_ascii(), "{held}");
                    if kind == FieldKind::Azure && !value.is_ascii() && is_field(&value) {
                        let back = percent_decode_str(held).decode_utf8().unwrap().into_owned();
                        prop_assert_eq!(back, value.trim_matches(' '));
                    }
                }
            }
        }
    }
}
