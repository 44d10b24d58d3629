//! Whether what is stored is what was sent, and what stores say where it is not.

use weir_codec::digest::Algorithm;
use weir_codec::hex;

use super::{Part, Stored, Sum};
use crate::error::StoreError;

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

impl Stored {
    /// It is what the user's `--if-match` means: by its tag, or by its version, which is what conditions of
    /// Google's are on. Of an object whose store tells neither, that store has the word.
    pub(super) fn is_named(&self, tag: &str) -> bool {
        let is = |own: &Option<String>| own.as_deref().is_some_and(|own| bare(own) == bare(tag));
        tag == "*" || self.tag.is_none() || is(&self.tag) || is(&self.version)
    }

    /// It is what was sent: as long, and with the same digest, or with the tag that parts make.
    pub(super) fn is(&self, size: u64, whole: Option<&Sum>, parts: &[Part]) -> bool {
        let tag = self.tag.as_deref().map(bare);
        let by_sum = |sum: &Sum| {
            let md5 = sum.algorithm == Algorithm::MD5 && tag == Some(hex::encode(&sum.value).as_str());
            md5 || self.sums.contains(sum)
        };
        let by_parts = || tag.is_some() && tag == tag_of(parts).as_deref();
        self.size == Some(size) && (whole.is_some_and(by_sum) || by_parts())
    }
}

fn bare(tag: &str) -> &str {
    tag.trim_matches('"')
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
