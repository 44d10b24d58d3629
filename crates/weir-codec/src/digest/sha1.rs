//! SHA-1 (FIPS 180-4), broken since 2017: it finds accidents, not attackers.
//!
//! Registered for HTTP as `sha`, deprecated (RFC 9530 section 7.2).

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

use super::{Digest, Row, Strength};

pub(super) const ROW: Row = Row {
    name: "sha1",
    aliases: &["sha-1", "sha"],
    http_name: Some("sha"),
    len: 20,
    strength: Strength::Accident,
    start: || Box::new(Sha1State(Context::new(&SHA1_FOR_LEGACY_USE_ONLY))),
    combine: None,
    known: &[
        ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ("123456789", "f7c3bc1d808e04732adf679965ccc34ca7ae3441"),
        ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
    ],
};

struct Sha1State(Context);

impl Digest for Sha1State {
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.0.finish().as_ref().to_vec()
    }
}
