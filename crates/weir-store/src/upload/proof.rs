//! Whether what is stored is what was sent, and what stores say where it is not.

use weir_codec::digest::Algorithm;
use weir_codec::hex;

use super::{Part, Stored, Sum};
use crate::error::{StoreError, shown};

/// What was sent is not what arrived, by the digest that it was sent with.
pub(super) fn is_damage(error: &StoreError) -> bool {
    let code = error.code().unwrap_or_default();
    let codes = ["BadDigest", "XAmzContentChecksumMismatch", "Md5Mismatch", "Crc64Mismatch"];
    // Google's JSON has one code for all that is wrong with a request.
    let by_words = || {
        matches!(error, StoreError::Refused { code, message, .. }
        if code == "invalid" && message.contains("doesn't match calculated"))
    };
    codes.contains(&code) || by_words()
}

/// The store does not take digests of this kind. Each says it in its own way: what they have in common is
/// the field's name; or it says of some field that it does not know it, or no word but the status. Where it
/// means something else the request is refused without digests, too.
pub(super) fn refuses_sum(error: &StoreError) -> bool {
    let StoreError::Refused { code, message, .. } = error else { return error.is_unknown_request() };
    let codes =
        ["InvalidArgument", "InvalidRequest", "NotImplemented", "XNotImplemented", "MalformedPOSTRequest"];
    let message = message.to_ascii_lowercase();
    let is_of_a_field = code.ends_with("NotImplemented") && message.contains("header");
    codes.contains(&code.as_str()) && (message.contains("checksum") || is_of_a_field)
}

/// An object is made of all of its parts, from the first on, or not at all: digests of those that are there
/// say nothing of one that is not.
pub(super) fn check_all(parts: &[Part], count: u32, key: &str) -> Result<(), StoreError> {
    match parts.iter().map(|part| part.number).eq(1..=count) {
        true => Ok(()),
        false => Err(StoreError::Source(format!(
            "cannot make {} of its parts: not all {count} of them are at the store",
            shown(key)
        ))),
    }
}

impl Stored {
    /// It is what the user's `--if-match` means: by its tag, or by its version, which is what conditions of
    /// Google's are on. Of an object whose store tells neither, that store has the word.
    pub(super) fn is_named(&self, tag: &str) -> bool {
        let is = |own: &Option<String>| own.as_deref().is_some_and(|own| same_tag(own, tag));
        tag == "*" || self.tag.is_none() || is(&self.tag) || is(&self.version)
    }

    /// It is what was sent: as long, and with the same digest, or with the tag that parts make.
    pub(super) fn is(&self, size: u64, whole: Option<&Sum>, parts: &[Part]) -> bool {
        let has_tag = |tag: &str| self.tag.as_deref().is_some_and(|own| same_tag(own, tag));
        let by_sum = |sum: &Sum| {
            let is_md5 = sum.algorithm == Algorithm::MD5;
            is_md5 && has_tag(&hex::encode(&sum.value)) || self.sums.contains(sum)
        };
        let by_parts = || tag_of(parts).is_some_and(|tag| has_tag(&tag));
        self.size == Some(size) && (whole.is_some_and(by_sum) || by_parts())
    }
}

fn bare(tag: &str) -> &str {
    tag.trim_matches('"')
}

/// One tag: a list and another answer may differ in its quotes, and in the letters of a digest.
pub(super) fn same_tag(one: &str, other: &str) -> bool {
    let (one, other) = (bare(one), bare(other));
    one == other || is_digest(one) && one.eq_ignore_ascii_case(other)
}

/// An MD5 in hexadecimal digits; behind one of parts is their number.
fn is_digest(tag: &str) -> bool {
    let (digest, parts) = tag.split_once('-').unwrap_or((tag, "1"));
    let is_md5 = digest.len() == 32 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_md5 && !parts.is_empty() && parts.bytes().all(|byte| byte.is_ascii_digit())
}

/// The tag that S3 and its kin give an object of these parts: the MD5 of theirs, and their number. `None`
/// where theirs are no MD5, as where the store encrypts.
fn tag_of(parts: &[Part]) -> Option<String> {
    let mut all = Vec::with_capacity(16 * parts.len());
    for part in parts {
        all.extend(hex::decode(bare(&part.tag)).ok().filter(|bytes| bytes.len() == 16)?);
    }
    (!parts.is_empty()).then(|| format!("{}-{}", hex::encode(&Algorithm::MD5.of(&all)), parts.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_one_in_quotes_or_without_and_a_digest_in_either_case() {
        let digest = "0f".repeat(16);
        let (large, parts) = (digest.to_uppercase(), format!("{digest}-12"));
        for (one, other, is_same) in [
            ("\"a\"", "a", true),
            ("a", "b", false),
            ("\"aB\"", "ab", false),
            (&digest, &format!("\"{large}\""), true),
            (&parts, &format!("{large}-12"), true),
            (&parts, &format!("{large}-13"), false),
            (&parts, &digest, false),
            (&format!("{digest}-x"), &format!("{digest}-X"), false),
        ] {
            assert_eq!(same_tag(one, other), is_same, "{one} {other}");
            assert_eq!(same_tag(other, one), is_same, "{other} {one}");
        }
    }

    #[test]
    fn an_object_is_made_of_all_its_parts() {
        let parts = |numbers: &[u32]| -> Vec<Part> {
            numbers.iter().map(|number| Part { number: *number, tag: String::new(), sum: None }).collect()
        };
        for (numbers, count, is_all) in [
            (&[1, 2, 3][..], 3, true),
            (&[1, 3], 3, false),
            (&[1, 2], 3, false),
            (&[2, 3], 2, false),
            (&[1, 2, 4], 3, false),
            (&[1, 2, 3], 2, false),
        ] {
            assert_eq!(check_all(&parts(numbers), count, "k").is_ok(), is_all, "{numbers:?} of {count}");
        }
    }

    /// Some stores write digests in capital letters.
    #[test]
    fn what_was_sent_is_known_by_its_tag() {
        let sum = Sum { algorithm: Algorithm::MD5, value: Algorithm::MD5.of(b"content") };
        let tag = hex::encode(&sum.value);
        let of_tag =
            |tag: String| Stored { tag: Some(tag.to_uppercase()), size: Some(7), ..Stored::default() };
        assert!(of_tag(format!("\"{tag}\"")).is(7, Some(&sum), &[]));
        assert!(!of_tag(tag.clone()).is(8, Some(&sum), &[]));
        let parts = [Part { number: 1, tag, sum: None }];
        let whole = hex::encode(&Algorithm::MD5.of(&sum.value));
        assert!(of_tag(format!("{whole}-1")).is(7, None, &parts));
        assert!(!of_tag(format!("{whole}-2")).is(7, None, &parts));
    }
}
