//! What the fields of uploads are called: by Amazon, or by Google, whose XML interface is otherwise the same.
//! <https://cloud.google.com/storage/docs/xml-api/reference-headers>

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use weir_codec::digest::Algorithm;
use weir_http::head::ResponseHead;

use crate::error::StoreError;
use crate::upload::{Part, Sum};

/// Whose words are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Amazon's.
    Amazon,
    /// Google's.
    Google,
}

/// What Google checks parts by, and keeps of objects.
pub(super) static OF_GOOGLE: [Algorithm; 2] = [Algorithm::CRC32C, Algorithm::MD5];

impl Dialect {
    /// `fields`, in Amazon's words, in these.
    pub(super) fn spoken(
        self,
        what: &str,
        fields: Vec<(String, String)>,
    ) -> Result<Vec<(String, String)>, StoreError> {
        match self {
            Dialect::Amazon => Ok(fields),
            Dialect::Google => {
                fields.into_iter().filter_map(|field| of_google(what, field).transpose()).collect()
            }
        }
    }

    /// The scheme of addresses.
    pub(super) fn scheme(self) -> &'static str {
        match self {
            Dialect::Amazon => "s3",
            Dialect::Google => "gs",
        }
    }

    /// The digest of a part as the list of all of them repeats it.
    pub(super) fn repeated(self, part: &Part) -> Option<&Sum> {
        part.sum.as_ref().filter(|_| self == Dialect::Amazon)
    }
}

/// `None`: Google has no word for it, and needs none.
fn of_google(what: &str, (name, value): (String, String)) -> Result<Option<(String, String)>, StoreError> {
    let cannot = |why: &str| StoreError::Usage(format!("cannot {what}: {why}"));
    if let Some(own) = name.strip_prefix("x-amz-meta-") {
        return Ok(Some((format!("x-goog-meta-{own}"), value)));
    }
    let spoken = match name.as_str() {
        "if-none-match" => ("x-goog-if-generation-match", "0".to_owned()),
        "if-match" => ("x-goog-if-generation-match", generation_of(what, &value)?),
        "x-amz-checksum-crc32c" => ("x-goog-hash", format!("crc32c={value}")),
        // Nor does it keep when an object runs out.
        "x-amz-checksum-algorithm" | "x-amz-checksum-type" | "expires" => return Ok(None),
        "x-amz-storage-class" => ("x-goog-storage-class", value),
        // All is encrypted there, with a key of the store's own if no other is named.
        "x-amz-server-side-encryption" => return Ok(None),
        "x-amz-server-side-encryption-aws-kms-key-id" => ("x-goog-encryption-kms-key-name", value),
        "x-amz-tagging" => return Err(cannot("objects of gs:// have no tags; metadata are there")),
        _ => return Ok(Some((name, value))),
    };
    Ok(Some((spoken.0.to_owned(), spoken.1)))
}

/// The generation that the user means by `tag`: Google's conditions are on it.
pub fn generation_of(what: &str, tag: &str) -> Result<String, StoreError> {
    let generation = tag.trim_matches('"');
    match !generation.is_empty() && generation.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Ok(generation.to_owned()),
        false => Err(StoreError::Usage(format!(
            "cannot {what}: gs:// takes the generation of an object as its --if-match, a number"
        ))),
    }
}

/// The digests that Google keeps of all of an object: `x-goog-hash: crc32c=...,md5=...`, in one field or two.
pub(super) fn kept_by_google(head: &ResponseHead) -> Vec<Sum> {
    let fields = head.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("x-goog-hash"));
    let pairs = fields.flat_map(|(_, text)| text.split(','));
    let sums = pairs.filter_map(|pair| {
        let (name, text) = pair.trim().split_once('=')?;
        let algorithm = *OF_GOOGLE.iter().find(|algorithm| algorithm.name() == name)?;
        let value = STANDARD.decode(text).ok().filter(|value| value.len() == algorithm.len())?;
        Some(Sum { algorithm, value })
    });
    sums.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(name: &str, value: &str) -> Result<Vec<(String, String)>, StoreError> {
        Dialect::Google.spoken("put gs://b/k", vec![(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn google_has_words_of_its_own() {
        for (name, value, theirs, said) in [
            ("if-none-match", "*", "x-goog-if-generation-match", "0"),
            ("if-match", "17", "x-goog-if-generation-match", "17"),
            ("x-amz-meta-a", "b", "x-goog-meta-a", "b"),
            ("x-amz-checksum-crc32c", "AAAAAA==", "x-goog-hash", "crc32c=AAAAAA=="),
            ("content-md5", "x", "content-md5", "x"),
        ] {
            assert_eq!(spoken(name, value).unwrap(), [(theirs.to_owned(), said.to_owned())]);
        }
        assert_eq!(spoken("x-amz-checksum-type", "COMPOSITE").unwrap(), []);
        assert_eq!(spoken("expires", "Thu, 01 Jan 2099 00:00:00 GMT").unwrap(), []);
        assert!(spoken("if-match", "\"abc\"").unwrap_err().to_string().contains("generation"));
        assert!(spoken("x-amz-tagging", "a=b").is_err());
        assert_eq!(Dialect::Amazon.spoken("x", vec![("if-match".into(), "e".into())]).unwrap().len(), 1);
    }
}
