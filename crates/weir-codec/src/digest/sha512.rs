//! SHA-512 (FIPS 180-4).
//!
//! Faster than SHA-256 where the processor has no SHA extensions, slower where it has.

use aws_lc_rs::digest::{Context, SHA512};

use super::{Digest, Row, Strength};

pub(super) const ROW: Row = Row {
    name: "sha512",
    aliases: &["sha-512", "sha2-512"],
    http_name: Some("sha-512"),
    len: 64,
    strength: Strength::Collision,
    start: || Box::new(Sha512State(Context::new(&SHA512))),
    combine: None,
    known: &[
        (
            "",
            "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
        ),
        (
            "123456789",
            "d9e6762dd1c8eaf6d61b3c6192fc408d4d6d5f1176d0c29169bc24e71c3f274ad27fcd5811b313d681f7e55ec02d73d499c95455b6b5bb503acf574fba8ffe85",
        ),
        (
            "abc",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
    ],
};

struct Sha512State(Context);

impl Digest for Sha512State {
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.0.finish().as_ref().to_vec()
    }
}
