//! MD5 (RFC 1321), broken since 2004: it finds accidents, not attackers.
//!
//! Object stores and older mirrors publish nothing else.

use ::md5::{Digest as _, Md5};

use super::{Digest, Row, Strength};

pub(super) const ROW: Row = Row {
    name: "md5",
    aliases: &["md-5"],
    http_name: Some("md5"),
    len: 16,
    strength: Strength::Accident,
    start: || Box::new(Md5State(Md5::new())),
    combine: None,
    known: &[
        ("", "d41d8cd98f00b204e9800998ecf8427e"),
        ("123456789", "25f9e794323b453885f5181f1b624d0b"),
        ("abc", "900150983cd24fb0d6963f7d28e17f72"),
    ],
};

struct Md5State(Md5);

impl Digest for Md5State {
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.0.finalize().to_vec()
    }
}
