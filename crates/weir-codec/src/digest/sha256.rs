//! SHA-256 (FIPS 180-4), the digest most publishers give.
//!
//! aws-lc-rs uses the SHA extensions of the processor where there are any.

use aws_lc_rs::digest::{Context, SHA256};

use super::{Digest, Row, Strength};

pub(super) const ROW: Row = Row {
    name: "sha256",
    aliases: &["sha-256", "sha2-256"],
    http_name: Some("sha-256"),
    len: 32,
    strength: Strength::Collision,
    start: || Box::new(Sha256State(Context::new(&SHA256))),
    combine: None,
    known: &[
        ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("123456789", "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"),
        ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    ],
};

struct Sha256State(Context);

impl Digest for Sha256State {
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.0.finish().as_ref().to_vec()
    }
}
