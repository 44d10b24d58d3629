//! Digests that servers announce, and what each of them covers.
//!
//! | field | what it covers | used for the whole file when the status is |
//! | --- | --- | --- |
//! | `Repr-Digest` (RFC 9530 section 3) | the whole representation, also on a 206 | 200, 206 |
//! | `Content-Digest` (RFC 9530 section 2) | the bytes of this message | 200; on a 206 it checks that part |
//! | `Digest` (RFC 3230 section 4.3.2) | the whole instance, also on a 206 | 200, 206 |
//! | `Content-MD5` (RFC 1864; RFC 2616 section 14.15) | the bytes of this message | 200; not used on a 206 |
//! | `x-goog-hash` | the stored object | 200, 206 |
//! | `x-amz-checksum-*` | the stored object, or the part of it that was asked for | 200; 206 with type `FULL_OBJECT` |
//!
//! `Content-MD5` on a 206 is left alone because servers disagree: static ones send that of the whole file, Azure
//! that of the range. The representation is what travels: with `Content-Encoding`, the coded bytes, so a file
//! decoded on the way cannot be checked. weir asks for `identity`.
//!
//! A digest that cannot be used is no error: it is reported with the reason, and the download goes on.

use weir_codec::{Algorithm, Expected};

use crate::fields::Fields;
use crate::grammar::{self, MAX_MEMBERS, MAX_VALUE};

/// A digest that a server announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// The digest.
    pub expected: Expected,
    /// The field that carried it.
    pub field: &'static str,
    /// Whether it is of the whole file, also one that is put together from ranges. If not, it is of the bytes of
    /// this one message.
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
        self.strongest(true)
    }

    /// The strongest digest of the bytes of this message, where it is not that of the whole file.
    pub fn strongest_part(&self) -> Option<&Declared> {
        self.strongest(false)
    }

    fn strongest(&self, whole: bool) -> Option<&Declared> {
        let candidates = self.declared.iter().filter(|declared| declared.covers_whole == whole);
        // `max_by_key` would take the last of equals.
        candidates.rev().max_by_key(|declared| declared.expected.algorithm().strength())
    }
}

/// Reads every digest field of an answer with `status`. Anything but 200 and 206 carries no file, hence no digest.
pub fn declarations(status: u16, fields: &Fields) -> Declarations {
    let mut found = Declarations::default();
    let whole = match status {
        200 => true,
        206 => false,
        _ => return found,
    };
    found.structured("Repr-Digest", fields, true);
    found.structured("Content-Digest", fields, whole);
    found.legacy(fields);
    found.content_md5(fields, whole);
    found.google(fields);
    found.amazon(fields, whole);
    found
}

/// The value of `Repr-Digest` or `Content-Digest` for a digest, if its algorithm is registered (RFC 9530 section 5).
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
                Some(base64) => self.take(field, covers_whole, key, base64),
                None => self
                    .ignore(field, format!("'{}' is not of the form KEY=:BASE64:", grammar::quoted(value))),
            }
        }
    }

    /// RFC 3230 section 4.3.2: `SHA-256=BASE64,MD5=BASE64`.
    fn legacy(&mut self, fields: &Fields) {
        for (key, base64) in self.dictionary("Digest", fields) {
            self.take("Digest", true, key, base64);
        }
    }

    fn content_md5(&mut self, fields: &Fields, whole: bool) {
        const FIELD: &str = "Content-MD5";
        let Some(base64) = fields.header(FIELD) else { return };
        match whole {
            true => self.take(FIELD, true, "md5", base64),
            false => self.ignore(FIELD, "on a 206 it may be that of the part or of the whole".to_owned()),
        }
    }

    /// `crc32c=BASE64,md5=BASE64`, on one line or several.
    fn google(&mut self, fields: &Fields) {
        const FIELD: &str = "x-goog-hash";
        // Stored compressed, sent decompressed: the hash is of bytes that we never see.
        let stored = fields.header("x-goog-stored-content-encoding").unwrap_or("identity");
        let sent = fields.header("content-encoding").unwrap_or("identity");
        if fields.header(FIELD).is_some() && !stored.eq_ignore_ascii_case(sent) {
            let why = format!("it is of the object as stored ({}), not as sent", grammar::quoted(stored));
            return self.ignore(FIELD, why);
        }
        for (key, base64) in self.dictionary(FIELD, fields) {
            self.take(FIELD, true, key, base64);
        }
    }

    /// One field an algorithm. The digest of an object uploaded in parts is one of the parts' digests, told by `-N`.
    fn amazon(&mut self, fields: &Fields, whole: bool) {
        const FIELDS: [(&str, &str); 3] = [
            ("x-amz-checksum-sha256", "sha-256"),
            ("x-amz-checksum-sha1", "sha"),
            ("x-amz-checksum-crc32c", "crc32c"),
        ];
        let kind = fields.header("x-amz-checksum-type").unwrap_or_default();
        let full = kind.eq_ignore_ascii_case("FULL_OBJECT");
        for (field, key) in FIELDS {
            let Some(base64) = fields.header(field) else { continue };
            if kind.eq_ignore_ascii_case("COMPOSITE") || base64.contains('-') {
                self.ignore(field, "it is composed of the digests of the parts".to_owned());
            } else if !whole && !full {
                self.ignore(field, "on a 206 it may be that of the part or of the whole".to_owned());
            } else {
                self.take(field, true, key, base64);
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
                            format!("'{}' is not of the form KEY=VALUE", grammar::quoted(text)),
                        );
                    }
                }
            }
        }
        members
    }

    fn take(&mut self, field: &'static str, covers_whole: bool, key: &str, base64: &str) {
        let Some(algorithm) = Algorithm::from_http_name(key) else {
            return self.ignore(field, format!("unknown algorithm '{}'", grammar::quoted(key)));
        };
        match Expected::from_base64(algorithm, base64) {
            Ok(expected) => {
                // Of one key given twice, the last counts (RFC 9651 section 4.2.2).
                self.declared.retain(|old| (old.field, old.expected.algorithm()) != (field, algorithm));
                self.declared.push(Declared { expected, field, covers_whole });
            }
            Err(error) => self.ignore(field, error.to_string()),
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
            for field in ["Repr-Digest", "Digest", "Content-MD5", "x-goog-hash", "x-amz-checksum-sha1"] {
                read(status, field, &value);
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
