//! Every field that announces a digest, each with the same foreign value; and what people write after
//! `--checksum`.

use weir_http::{Fields, checksums::Checksums, digest_field};

const NAMES: [&str; 16] = [
    "Repr-Digest",
    "Content-Digest",
    "Digest",
    "Content-MD5",
    "x-goog-hash",
    "x-amz-checksum-sha256",
    "x-amz-checksum-crc32c",
    "x-amz-checksum-crc32",
    "x-amz-checksum-crc64nvme",
    "x-ms-blob-content-md5",
    "X-Checksum-Sha256",
    "X-Linked-Etag",
    "Docker-Content-Digest",
    "x-bz-content-sha1",
    "OC-Checksum",
    "x-oss-hash-crc64ecma",
];

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let value = String::from_utf8_lossy(bytes);
    let value = &*value;
    let mut understood = false;
    let mut fields = Fields::new();
    for name in NAMES {
        let _ = fields.push(name, value);
    }
    for status in [200, 206] {
        for declared in digest_field::declarations(status, &fields).declared {
            assert_eq!(declared.expected.bytes().len(), declared.expected.algorithm().len());
            understood = true;
        }
    }
    digest_field::linked(&fields);
    if let Ok(expected) = value.parse::<weir_codec::Expected>() {
        assert_eq!(expected.to_string().parse(), Ok(expected));
    }
    if let Ok(list) = Checksums::parse(value.as_bytes(), None) {
        let _ = list.find("name");
        understood = true;
    }
    understood
}
