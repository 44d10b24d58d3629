//! BLAKE3 with its default 256 bits, a tree hash: the fastest strong digest on one core.
//!
//! Not in RFC 9530's registry, so no server announces it in a header; `b3sum` files do.

use super::{Digest, Row, Strength};

pub(super) const ROW: Row = Row {
    name: "blake3",
    aliases: &["b3", "blake-3"],
    http_name: None,
    len: 32,
    strength: Strength::Collision,
    start: || Box::new(Blake3State(::blake3::Hasher::new())),
    combine: None,
    known: &[
        ("", "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
        ("123456789", "b7d65b48420d1033cb2595293263b6f72eabee20d55e699d0df1973b3c9deed1"),
        ("abc", "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"),
    ],
};

struct Blake3State(::blake3::Hasher);

impl Digest for Blake3State {
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.0.finalize().as_bytes().to_vec()
    }
}
