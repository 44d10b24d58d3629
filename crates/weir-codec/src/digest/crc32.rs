//! CRC-32 (ISO-HDLC; the one of zip, gzip and Ethernet), which Amazon publishes as `x-amz-checksum-crc32`.
//!
//! What a match is worth: see [`super::crc32c`]. The result is big-endian, as HTTP carries it.

use super::{Digest, Row, Strength};

pub(super) const ROW: Row = Row {
    name: "crc32",
    aliases: &["crc-32"],
    http_name: None,
    len: 4,
    strength: Strength::Checksum,
    start: || Box::new(Crc32State(::crc32fast::Hasher::new())),
    combine: Some(combined),
    known: &[("", "00000000"), ("123456789", "cbf43926"), ("a", "e8b7be43")],
};

fn combined(first: &[u8], second: &[u8], length: u64) -> Option<Vec<u8>> {
    let of = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_be_bytes);
    // Only the second's length counts.
    let mut all = ::crc32fast::Hasher::new_with_initial_len(of(first)?, 0);
    all.combine(&::crc32fast::Hasher::new_with_initial_len(of(second)?, length));
    Some(all.finalize().to_be_bytes().to_vec())
}

struct Crc32State(::crc32fast::Hasher);

impl Digest for Crc32State {
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.0.finalize().to_be_bytes().to_vec()
    }
}
