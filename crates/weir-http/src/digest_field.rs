//! Digests that servers announce, and what each of them covers.
//!
//! Fields that hold a list of algorithms and digests:
//!
//! | field | what it covers | used for the whole file when the status is |
//! | --- | --- | --- |
//! | `Repr-Digest` (RFC 9530 section 3) | the whole representation, also on a 206 | 200, 206 |
//! | `Content-Digest` (RFC 9530 section 2) | the bytes of this message | 200; on a 206 it checks that part |
//! | `Digest` (RFC 3230 section 4.3.2) | the whole instance, also on a 206 | 200, 206 |
//! | `x-goog-hash` | the stored object | 200, 206 |
//!
//! Fields that hold one are the rows of [`SINGLES`], the one place to add another.
//!
//! `Content-MD5` beside a part is left alone because servers disagree: static ones send that of the whole
//! file, Azure that of the range. A 206 that holds all of the object is no part: there both are one. The
//! representation is what travels: with `Content-Encoding`, the coded bytes, so a file decoded on the way
//! cannot be checked. weir asks for `identity`.
//!
//! A digest that cannot be used is no error: it is reported with the reason, and the download goes on.

use weir_codec::{Algorithm, Expected};

use crate::content_range::ContentRange;
use crate::fields::Fields;
use crate::grammar::{self, MAX_MEMBERS, MAX_VALUE};

/// A digest that a server announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// The digest.
    pub expected: Expected,
    /// The field that carried it.
    pub field: &'static str,
    /// Whether it is of the whole file, also one that is put together from ranges. If not, it is of the bytes
    /// of this one message.
    pub covers_whole: bool,
}

/// A digest that was announced but is of no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    /// The field that carried it.
    pub field: &'static str,
    /// Why, for a log: `unknown algorithm 'unixsum'`.
    pub why: String,
}

/// All that one answer announces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Declarations {
    /// Those that can be used, in the order of the fields in the table above.
    pub declared: Vec<Declared>,
    /// Those that cannot.
    pub ignored: Vec<Ignored>,
}

impl Declarations {
    /// The strongest digest of the whole file; of equals, the first.
    pub fn strongest_whole(&self) -> Option<&Declared> {
        let candidates = self.declared.iter().filter(|declared| declared.covers_whole);
        // `max_by_key` would take the last of equals.
        candidates.rev().max_by_key(|declared| declared.expected.algorithm().strength())
    }
}

/// Reads every digest field of an answer with `status`. Anything but 200 and 206 carries no file, hence no
/// digest.
pub fn declarations(status: u16, fields: &Fields) -> Declarations {
    let mut found = Declarations::default();
    let whole = match status {
        200 => true,
        206 => holds_all(fields),
        _ => return found,
    };
    found.structured("Repr-Digest", fields, true);
    found.structured("Content-Digest", fields, whole);
    found.legacy(fields);
    found.google(fields);
    for row in SINGLES {
        found.single(row, fields, whole);
    }
    found
}

/// A 206 that holds all of the object is no part of it: what is of the message is of the object then.
fn holds_all(fields: &Fields) -> bool {
    let range = fields.single("content-range").ok().flatten().and_then(|text| text.parse().ok());
    matches!(range, Some(ContentRange::Bytes { first: 0, last, complete: Some(size) }) if last + 1 == size)
}

/// What a redirect says of the object that it leads to, whoever serves that. Only fields that are defined for
/// this are read: a `Content-MD5` on a redirect is of the redirect's own body.
pub fn linked(fields: &Fields) -> Linked {
    let mut found = Declarations::default();
    for row in SINGLES.iter().filter(|row| row.linked) {
        found.single(row, fields, true);
    }
    let size = fields.single("x-linked-size").ok().flatten().and_then(grammar::parse_offset);
    Linked { digest: found.strongest_whole().cloned(), size }
}

/// What a redirect says of the object behind it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Linked {
    /// Its strongest digest.
    pub digest: Option<Declared>,
    /// Its size in bytes.
    pub size: Option<u64>,
}

/// A field that holds one digest.
struct Single {
    field: &'static str,
    algorithm: Algorithm,
    form: Form,
    covers: Covers,
    /// On a redirect it is of the object that this leads to.
    linked: bool,
}

/// How a digest is written.
enum Form {
    Base64,
    /// Hexadecimal, in quotes or not.
    Hex,
    /// The checksum as a number.
    Decimal,
    /// `ALGORITHM:HEX`, several with blanks between them; those of other algorithms have rows of their own.
    Tagged,
}

/// What a digest is of.
enum Covers {
    /// The bytes of the message.
    Message,
    /// The stored object, whatever part of it this message carries.
    Object,
    /// The stored object, or the part of it that was asked for: which of the two, `x-amz-checksum-type` says.
    Amazon,
}

const fn row(field: &'static str, algorithm: Algorithm, form: Form, covers: Covers) -> Single {
    Single { field, algorithm, form, covers, linked: false }
}

const fn linked_row(field: &'static str, algorithm: Algorithm, form: Form) -> Single {
    Single { field, algorithm, form, covers: Covers::Object, linked: true }
}

/// Every field that holds one digest:
///
/// * RFC 1864, and RFC 2616 section 14.15.
/// * Azure's blobs: the digest of the whole, also beside a part.
/// * Amazon S3 and what speaks as it does.
/// * Artifactory, Maven Central, Nexus: also on the redirect to the store behind them.
/// * Hubs of models: the SHA-256 of a large file, on the redirect to it. What is not 64 digits is of another
///   kind (a git blob's name is no digest of its bytes alone).
/// * Registries of container images (OCI distribution), also on the redirect to a blob.
/// * Backblaze B2; `unverified:` before it: as the uploader said. ownCloud and Nextcloud.
/// * Alibaba's and Tencent's stores.
static SINGLES: &[Single] = &[
    row("Content-MD5", Algorithm::MD5, Form::Base64, Covers::Message),
    row("x-ms-blob-content-md5", Algorithm::MD5, Form::Base64, Covers::Object),
    row("x-amz-checksum-sha256", Algorithm::SHA256, Form::Base64, Covers::Amazon),
    row("x-amz-checksum-sha1", Algorithm::SHA1, Form::Base64, Covers::Amazon),
    row("x-amz-checksum-crc64nvme", Algorithm::CRC64NVME, Form::Base64, Covers::Amazon),
    row("x-amz-checksum-crc32c", Algorithm::CRC32C, Form::Base64, Covers::Amazon),
    row("x-amz-checksum-crc32", Algorithm::CRC32, Form::Base64, Covers::Amazon),
    linked_row("X-Checksum-Sha512", Algorithm::SHA512, Form::Hex),
    linked_row("X-Checksum-Sha256", Algorithm::SHA256, Form::Hex),
    linked_row("X-Checksum-Sha1", Algorithm::SHA1, Form::Hex),
    linked_row("X-Checksum-Md5", Algorithm::MD5, Form::Hex),
    linked_row("X-Linked-Etag", Algorithm::SHA256, Form::Hex),
    linked_row("Docker-Content-Digest", Algorithm::SHA256, Form::Tagged),
    linked_row("Docker-Content-Digest", Algorithm::SHA512, Form::Tagged),
    row("x-bz-content-sha1", Algorithm::SHA1, Form::Hex, Covers::Object),
    row("OC-Checksum", Algorithm::SHA256, Form::Tagged, Covers::Object),
    row("OC-Checksum", Algorithm::SHA1, Form::Tagged, Covers::Object),
    row("OC-Checksum", Algorithm::MD5, Form::Tagged, Covers::Object),
    row("x-oss-hash-crc64ecma", Algorithm::CRC64XZ, Form::Decimal, Covers::Object),
    row("x-cos-hash-crc64ecma", Algorithm::CRC64XZ, Form::Decimal, Covers::Object),
];

impl Form {
    /// The digest in `text`; `None` where there is none of this algorithm.
    fn read(&self, algorithm: Algorithm, text: &str) -> Option<Result<Expected, String>> {
        let read = match self {
            Form::Base64 => Expected::from_base64(algorithm, text),
            Form::Hex => {
                let text = text.strip_prefix("unverified:").unwrap_or(text);
                Expected::from_hex(algorithm, text.trim_matches('"'))
            }
            Form::Decimal => {
                let number = text.parse::<u64>().map_err(|error| error.to_string());
                let expected = number.and_then(|number| {
                    Expected::new(algorithm, number.to_be_bytes().to_vec()).map_err(|error| error.to_string())
                });
                return Some(expected);
            }
            Form::Tagged => {
                let own = |tagged: &&str| {
                    tagged.split_once(':').is_some_and(|(tag, _)| tag.parse() == Ok(algorithm))
                };
                let (_, hex) = text.split([' ', ',']).find(own)?.split_once(':')?;
                Expected::from_hex(algorithm, hex)
            }
        };
        Some(read.map_err(|error| error.to_string()))
    }
}

/// The value of `Repr-Digest` or `Content-Digest` for a digest, if its algorithm is registered (RFC 9530
/// section 5).
pub fn format(expected: &Expected) -> Option<String> {
    Some(format!("{}=:{}:", expected.algorithm().http_name()?, expected.base64()))
}

impl Declarations {
    /// A dictionary of byte sequences (RFC 9651 sections 3.2 and 3.3.5): `sha-256=:BASE64:, md5=:BASE64:`.
    fn structured(&mut self, field: &'static str, fields: &Fields, covers_whole: bool) {
        for (key, value) in self.dictionary(field, fields) {
            // Parameters may follow the value and mean nothing to us.
            let value = grammar::trim(value.split(';').next().unwrap_or_default());
            match value.strip_prefix(':').and_then(|rest| rest.strip_suffix(':')) {
                Some(base64) => self.take_base64(field, covers_whole, key, base64),
                None => self.ignore(
                    field,
                    format!("'{}' is not of the form KEY=:BASE64:", weir_units::quoted(value)),
                ),
            }
        }
    }

    /// RFC 3230 section 4.3.2: `SHA-256=BASE64,MD5=BASE64`.
    fn legacy(&mut self, fields: &Fields) {
        for (key, base64) in self.dictionary("Digest", fields) {
            self.take_base64("Digest", true, key, base64);
        }
    }

    /// `crc32c=BASE64,md5=BASE64`, on one line or several.
    fn google(&mut self, fields: &Fields) {
        const FIELD: &str = "x-goog-hash";
        // Stored compressed, sent decompressed: the hash is of bytes that we never see.
        let stored = fields.header("x-goog-stored-content-encoding").unwrap_or("identity");
        let sent = fields.header("content-encoding").unwrap_or("identity");
        if fields.header(FIELD).is_some() && !stored.eq_ignore_ascii_case(sent) {
            let why = format!("it is of the object as stored ({}), not as sent", weir_units::quoted(stored));
            return self.ignore(FIELD, why);
        }
        for (key, base64) in self.dictionary(FIELD, fields) {
            self.take_base64(FIELD, true, key, base64);
        }
    }

    /// A field of [`SINGLES`]. Two different values contradict each other, and a digest with `-N` after it is
    /// one of the digests of N parts, not of the object.
    fn single(&mut self, row: &Single, fields: &Fields, whole: bool) {
        let text = match fields.single(row.field) {
            Ok(Some(text)) => text,
            Ok(None) => return,
            Err(error) => return self.ignore(row.field, error.to_string()),
        };
        let kind = fields.header("x-amz-checksum-type").unwrap_or_default();
        let is_known_whole = match row.covers {
            Covers::Object => true,
            Covers::Message => whole,
            Covers::Amazon => whole || kind.eq_ignore_ascii_case("FULL_OBJECT"),
        };
        let is_composed = kind.eq_ignore_ascii_case("COMPOSITE") || text.contains('-');
        match row.covers {
            Covers::Amazon if is_composed => {
                self.ignore(row.field, "it is composed of the digests of the parts".to_owned());
            }
            _ if !is_known_whole => {
                self.ignore(row.field, "on a 206 it may be that of the part or of the whole".to_owned());
            }
            _ => {
                if let Some(read) = row.form.read(row.algorithm, text) {
                    self.take(row.field, true, row.algorithm, read);
                }
            }
        }
    }

    /// The `KEY=VALUE` members of a field, the rest reported.
    fn dictionary<'a>(&mut self, field: &'static str, fields: &'a Fields) -> Vec<(&'a str, &'a str)> {
        let mut members = Vec::new();
        for value in fields.headers_all(field) {
            if value.len() > MAX_VALUE {
                self.ignore(field, format!("longer than {MAX_VALUE} bytes"));
                continue;
            }
            for member in grammar::split(value, ',') {
                match grammar::parameter(member) {
                    _ if members.len() >= MAX_MEMBERS => return members,
                    (key, Some(value)) => members.push((key, value)),
                    (text, None) => {
                        self.ignore(
                            field,
                            format!("'{}' is not of the form KEY=VALUE", weir_units::quoted(text)),
                        );
                    }
                }
            }
        }
        members
    }

    fn take_base64(&mut self, field: &'static str, covers_whole: bool, key: &str, base64: &str) {
        let Some(algorithm) = Algorithm::from_http_name(key) else {
            return self.ignore(field, format!("unknown algorithm '{}'", weir_units::quoted(key)));
        };
        let read = Expected::from_base64(algorithm, base64).map_err(|error| error.to_string());
        self.take(field, covers_whole, algorithm, read);
    }

    fn take(
        &mut self,
        field: &'static str,
        covers_whole: bool,
        algorithm: Algorithm,
        read: Result<Expected, String>,
    ) {
        match read {
            Ok(expected) => {
                // Of one key given twice, the last counts (RFC 9651 section 4.2.2).
                self.declared.retain(|old| (old.field, old.expected.algorithm()) != (field, algorithm));
                self.declared.push(Declared { expected, field, covers_whole });
            }
            Err(why) => self.ignore(field, why),
        }
    }

    fn ignore(&mut self, field: &'static str, why: String) {
        if self.ignored.len() < MAX_MEMBERS {
            self.ignored.push(Ignored { field, why });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // Of b"123456789".
    const SHA256: &str = "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=";
    const MD5: &str = "JfnnlDI7RTiF9RgfG2JNCw==";
    const CRC32C: &str = "4waSgw==";

    fn read(status: u16, field: &str, value: &str) -> Declarations {
        declarations(status, &Fields::from([(field, value)]))
    }

    /// (algorithm, covers_whole) of all that can be used, each checked to be right.
    fn used(found: &Declarations) -> Vec<(&'static str, bool)> {
        let check = |declared: &Declared| {
            let algorithm = declared.expected.algorithm();
            assert!(declared.expected.matches(&algorithm.of(b"123456789")));
            (algorithm.name(), declared.covers_whole)
        };
        found.declared.iter().map(check).collect()
    }

    #[test]
    fn structured_fields() {
        let value = format!("md5=:{MD5}:, sha-256=:{SHA256}:;x=1, unixsum=:aGk=:, sha-512=bare, bad");
        let found = read(206, "Repr-Digest", &value);
        assert_eq!(used(&found), [("md5", true), ("sha256", true)]);
        assert_eq!(found.strongest_whole().unwrap().expected.algorithm(), Algorithm::SHA256);
        let why: Vec<&str> = found.ignored.iter().map(|ignored| ignored.why.as_str()).collect();
        assert_eq!(
            why,
            [
                "'bad' is not of the form KEY=VALUE",
                "unknown algorithm 'unixsum'",
                "'bare' is not of the form KEY=:BASE64:"
            ]
        );
    }

    #[test]
    fn what_each_covers() {
        let structured = format!("sha-256=:{SHA256}:");
        let digest = format!("SHA-256={SHA256},Md5={MD5}");
        let goog = format!("crc32c={CRC32C},md5={MD5}");
        for (field, value, full, part) in [
            ("Repr-Digest", structured.as_str(), vec![("sha256", true)], vec![("sha256", true)]),
            ("Content-Digest", &structured, vec![("sha256", true)], vec![("sha256", false)]),
            ("Digest", &digest, vec![("sha256", true), ("md5", true)], vec![("sha256", true), ("md5", true)]),
            ("Content-MD5", MD5, vec![("md5", true)], vec![]),
            (
                "x-goog-hash",
                &goog,
                vec![("crc32c", true), ("md5", true)],
                vec![("crc32c", true), ("md5", true)],
            ),
            ("x-amz-checksum-sha256", SHA256, vec![("sha256", true)], vec![]),
            ("x-amz-checksum-crc32c", CRC32C, vec![("crc32c", true)], vec![]),
        ] {
            assert_eq!(used(&read(200, field, value)), full, "{field} on 200");
            assert_eq!(used(&read(206, field, value)), part, "{field} on 206");
            assert_eq!(read(404, field, value), Declarations::default());
        }
    }

    #[test]
    fn object_stores() {
        let full = Fields::from([("x-amz-checksum-crc32c", CRC32C), ("x-amz-checksum-type", "FULL_OBJECT")]);
        assert_eq!(used(&declarations(206, &full)), [("crc32c", true)]);
        let composite = read(200, "x-amz-checksum-sha256", &format!("{SHA256}-12"));
        assert!(composite.declared.is_empty() && composite.ignored.len() == 1);
        let transcoded = Fields::from([("x-goog-hash", "md5=x"), ("x-goog-stored-content-encoding", "gzip")]);
        assert_eq!(
            declarations(200, &transcoded).ignored[0].why,
            "it is of the object as stored (gzip), not as sent"
        );
        let lines = [format!("crc32c={CRC32C}"), format!("md5={MD5}")];
        let lines = Fields::from([("x-goog-hash", lines[0].as_str()), ("x-goog-hash", &lines[1])]);
        assert_eq!(used(&declarations(200, &lines)).len(), 2);
    }

    /// A field of each store with the digest of b"123456789" as it writes it.
    const STORES: [(&str, &str, &str); 13] = [
        ("x-ms-blob-content-md5", MD5, "md5"),
        ("x-amz-checksum-crc64nvme", "rosUhgp5mIg=", "crc64nvme"),
        ("x-amz-checksum-crc32", "y/Q5Jg==", "crc32"),
        ("X-Checksum-Sha256", "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225", "sha256"),
        ("X-Checksum-Sha1", "F7C3BC1D808E04732ADF679965CCC34CA7AE3441", "sha1"),
        ("X-Checksum-Md5", "25f9e794323b453885f5181f1b624d0b", "md5"),
        ("X-Linked-Etag", "\"15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225\"", "sha256"),
        (
            "Docker-Content-Digest",
            "sha256:15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
            "sha256",
        ),
        ("x-bz-content-sha1", "unverified:f7c3bc1d808e04732adf679965ccc34ca7ae3441", "sha1"),
        ("OC-Checksum", "MD5:25f9e794323b453885f5181f1b624d0b ADLER32:091e01de", "md5"),
        ("x-oss-hash-crc64ecma", "11051210869376104954", "crc64xz"),
        ("x-cos-hash-crc64ecma", "11051210869376104954", "crc64xz"),
        ("x-goog-hash", "crc32c=4waSgw==", "crc32c"),
    ];

    #[test]
    fn a_part_that_is_all_of_it() {
        for (range, is_all) in
            [("bytes 0-8/9", true), ("bytes 0-7/9", false), ("bytes 1-8/9", false), ("bytes 0-8/*", false)]
        {
            for (field, value) in [("Content-MD5", MD5), ("x-amz-checksum-crc32c", CRC32C)] {
                let found = declarations(206, &Fields::from([(field, value), ("Content-Range", range)]));
                assert_eq!(found.strongest_whole().is_some(), is_all, "{field}: {range}");
            }
        }
    }

    #[test]
    fn what_each_store_declares() {
        for (field, value, algorithm) in STORES {
            assert_eq!(used(&read(200, field, value)), [(algorithm, true)], "{field}");
            let stored = !field.starts_with("x-amz-");
            assert_eq!(used(&read(206, field, value)).len(), usize::from(stored), "{field} on 206");
            let twice = Fields::from([(field, value), (field, "x")]);
            let contradicts = declarations(200, &twice);
            assert!(contradicts.declared.is_empty() || field == "x-goog-hash", "{field} twice");
        }
        // Composed of the digests of parts, a git blob's name, no digest at all.
        for (field, value) in [
            ("x-amz-checksum-crc32", "y/Q5Jg==-3"),
            ("x-amz-checksum-crc64nvme", "rosUhgp5mIg=-2"),
            ("X-Linked-Etag", "\"25fd6e1e4f5ea8eb4e9b1e2a0c5e0f2a7a1f6a33\""),
            ("X-Linked-Etag", "W/\"x\""),
            ("x-bz-content-sha1", "none"),
            ("x-oss-hash-crc64ecma", "-1"),
        ] {
            let found = read(200, field, value);
            assert!(found.declared.is_empty() && found.ignored.len() == 1, "{field}: {value}: {found:?}");
        }
    }

    #[test]
    fn what_a_redirect_says_of_its_object() {
        let sha = "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225";
        let hub = Fields::from([("X-Linked-Etag", sha), ("X-Linked-Size", "9"), ("Content-MD5", MD5)]);
        let found = linked(&hub);
        assert_eq!(found.size, Some(9));
        assert_eq!(found.digest.unwrap().expected.algorithm(), Algorithm::SHA256);
        // These are of the redirect's own body.
        for (field, value) in [("Content-MD5", MD5), ("x-amz-checksum-crc32", "y/Q5Jg=="), ("ETag", sha)] {
            assert_eq!(linked(&Fields::from([(field, value)])), Linked::default(), "{field}");
        }
    }

    #[test]
    fn malformed_ones_are_reported() {
        for value in ["sha-256=:aGk=:", "sha-256=:!!!:", "sha-256=", "sha-256"] {
            let found = read(200, "Repr-Digest", value);
            assert!(found.declared.is_empty() && found.ignored.len() == 1, "{value}: {found:?}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(value in "((sha-256|md5|crc32c)=:?[A-Za-z0-9+/=]{0,50}:?[,;]?){0,4}|\\PC*", status in prop_oneof![Just(200u16), Just(206)]) {
            for field in ["Repr-Digest", "Digest", "x-goog-hash"] {
                read(status, field, &value);
            }
            for row in SINGLES {
                read(status, row.field, &value);
                linked(&Fields::from([(row.field, value.as_str()), ("X-Linked-Size", &value)]));
            }
        }

        #[test]
        fn print_parse(bytes: Vec<u8>) {
            for algorithm in Algorithm::all().filter(|algorithm| algorithm.http_name().is_some()) {
                let expected = Expected::new(algorithm, algorithm.of(&bytes)).unwrap();
                let found = read(206, "Repr-Digest", &format(&expected).unwrap());
                prop_assert_eq!(&found.declared[0].expected, &expected);
            }
        }
    }
}
