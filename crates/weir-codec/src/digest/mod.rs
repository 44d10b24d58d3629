//! Digests: which there are, what they are called, and what someone expects one to be.
//!
//! [`ALL`] is the one table. The help text, `--checksum`, the checksum headers of HTTP, SHA256SUMS files and
//! the conformance test walk it, so a new digest is one new file beside this one and one line here.

mod blake3;
mod crc32;
mod crc32c;
mod crc64;
mod expected;
mod md5;
mod parts;
mod sha1;
mod sha256;
mod sha512;

use std::fmt;
use std::str::FromStr;

pub use expected::{Expected, ExpectedDigestError};
pub use parts::OfParts;

/// Every digest weir knows; the first of each [`Strength`] is the one to prefer.
pub static ALL: &[Row] = &[
    sha256::ROW,
    sha512::ROW,
    blake3::ROW,
    sha1::ROW,
    md5::ROW,
    crc64::NVME,
    crc64::XZ,
    crc32c::ROW,
    crc32::ROW,
];

/// A digest being computed. Feeding the same bytes in any division gives the same result.
pub trait Digest: Send {
    /// Takes the next bytes. Allocates nothing.
    fn update(&mut self, bytes: &[u8]);
    /// The digest of all bytes taken, [`Algorithm::len`] bytes long; checksums are big-endian.
    fn finish(self: Box<Self>) -> Vec<u8>;
}

/// What a digest that matches proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strength {
    /// Finds accidents of a few bits; anyone can make a file that matches.
    Checksum,
    /// Finds every accident, but collisions can be made on purpose.
    Accident,
    /// Nobody is known to be able to make another file that matches.
    Collision,
}

/// One line of [`ALL`].
#[derive(Debug)]
pub struct Row {
    /// The name weir prints, in lower case.
    pub name: &'static str,
    /// Other names that are understood, in lower case.
    pub aliases: &'static [&'static str],
    /// The key in the `Repr-Digest` and `Digest` fields, from the registry of RFC 9530, if it has one.
    pub http_name: Option<&'static str>,
    /// Length of the result in bytes.
    pub len: usize,
    /// What a match proves.
    pub strength: Strength,
    /// Starts a computation.
    pub start: fn() -> Box<dyn Digest>,
    /// The digest of two pieces from those of each and the second's length, where that can be told.
    pub combine: Option<Combine>,
    /// Published results, as (input, hexadecimal), with those of the empty input and of `123456789` among
    /// them.
    pub known: &'static [(&'static str, &'static str)],
}

/// See [`Row::combine`]; `None` for what is no digest of this kind.
pub type Combine = fn(first: &[u8], second: &[u8], length: u64) -> Option<Vec<u8>>;

/// A digest of [`ALL`], by reference: small, copied freely, equal when the name is equal.
#[derive(Clone, Copy)]
pub struct Algorithm(&'static Row);

impl Algorithm {
    /// SHA-256 (FIPS 180-4).
    pub const SHA256: Algorithm = Algorithm(&sha256::ROW);
    /// SHA-512 (FIPS 180-4).
    pub const SHA512: Algorithm = Algorithm(&sha512::ROW);
    /// BLAKE3 with 256 bits.
    pub const BLAKE3: Algorithm = Algorithm(&blake3::ROW);
    /// SHA-1, for servers and lists that still publish it.
    pub const SHA1: Algorithm = Algorithm(&sha1::ROW);
    /// MD5, for servers and lists that still publish it.
    pub const MD5: Algorithm = Algorithm(&md5::ROW);
    /// CRC-32C (Castagnoli), what object stores publish.
    pub const CRC32C: Algorithm = Algorithm(&crc32c::ROW);
    /// CRC-32 (ISO-HDLC), the one of zip.
    pub const CRC32: Algorithm = Algorithm(&crc32::ROW);
    /// CRC-64/NVME, Amazon's default.
    pub const CRC64NVME: Algorithm = Algorithm(&crc64::NVME);
    /// CRC-64/XZ, also called ECMA.
    pub const CRC64XZ: Algorithm = Algorithm(&crc64::XZ);

    /// Every algorithm, in the order of [`ALL`].
    pub fn all() -> impl Iterator<Item = Algorithm> {
        ALL.iter().map(Algorithm)
    }

    /// The algorithm with this key in RFC 9530's registry. The legacy `Digest` field wrote keys in either
    /// case.
    pub fn from_http_name(key: &str) -> Option<Algorithm> {
        Self::all().find(|algorithm| algorithm.http_name().is_some_and(|name| name.eq_ignore_ascii_case(key)))
    }

    /// The name weir prints: `sha256`.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// The key in `Repr-Digest`: `sha-256`.
    pub fn http_name(self) -> Option<&'static str> {
        self.0.http_name
    }

    /// Length of the digest in bytes.
    #[expect(clippy::len_without_is_empty, reason = "no digest is empty")]
    pub fn len(self) -> usize {
        self.0.len
    }

    /// What a match proves.
    pub fn strength(self) -> Strength {
        self.0.strength
    }

    /// Starts a computation.
    pub fn start(self) -> Box<dyn Digest> {
        (self.0.start)()
    }

    /// The digest of two pieces one after the other, from their digests and the length of the second in
    /// bytes; `None` where this kind cannot tell.
    pub fn combined(self, first: &[u8], second: &[u8], length: u64) -> Option<Vec<u8>> {
        self.0.combine.and_then(|combine| combine(first, second, length))
    }

    /// The digest of bytes already in memory.
    pub fn of(self, bytes: &[u8]) -> Vec<u8> {
        let mut digest = self.start();
        digest.update(bytes);
        digest.finish()
    }
}

impl PartialEq for Algorithm {
    fn eq(&self, other: &Algorithm) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Algorithm {}

impl std::hash::Hash for Algorithm {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = ExpectedDigestError;

    /// Understands the name and its aliases in either case: `sha256`, `SHA-256`.
    fn from_str(text: &str) -> Result<Algorithm, ExpectedDigestError> {
        let names = |row: &Row, text: &str| {
            row.name.eq_ignore_ascii_case(text)
                || row.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(text))
        };
        Self::all()
            .find(|algorithm| names(algorithm.0, text))
            .ok_or_else(|| ExpectedDigestError::UnknownAlgorithm { name: weir_units::quoted(text) })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::hex;

    #[test]
    fn known_answers() {
        for algorithm in Algorithm::all() {
            let inputs: Vec<&str> = algorithm.0.known.iter().map(|(input, _)| *input).collect();
            assert!(
                inputs.contains(&"") && inputs.contains(&"123456789"),
                "{algorithm}: vectors are missing"
            );
            for (input, digest) in algorithm.0.known {
                assert_eq!(hex::encode(&algorithm.of(input.as_bytes())), *digest, "{algorithm} of {input:?}");
            }
        }
    }

    #[test]
    fn table_is_sound() {
        let mut seen = HashSet::new();
        for algorithm in Algorithm::all() {
            let row = algorithm.0;
            for name in row.aliases.iter().chain([&row.name]) {
                assert!(seen.insert(*name), "{name} is there twice");
                assert_eq!(*name, name.to_lowercase());
                assert_eq!(name.to_uppercase().parse::<Algorithm>().unwrap(), algorithm);
            }
            assert_eq!(algorithm.of(b"").len(), algorithm.len());
            if let Some(name) = algorithm.http_name() {
                assert_eq!(Algorithm::from_http_name(&name.to_uppercase()), Some(algorithm));
            }
        }
    }

    #[test]
    fn chunk_borders_do_not_matter() {
        // Around the block sizes 64 and 128 of the SHA family and the chunk size 1024 of BLAKE3.
        let bytes: Vec<u8> = (0..4099u32).map(|i| ((i * 31) >> 3) as u8).collect();
        for algorithm in Algorithm::all() {
            let whole = algorithm.of(&bytes);
            for step in [1, 63, 64, 65, 127, 128, 129, 1023, 1024, 1025, 4098] {
                let mut digest = algorithm.start();
                digest.update(b"");
                bytes.chunks(step).for_each(|chunk| digest.update(chunk));
                digest.update(b"");
                assert_eq!(digest.finish(), whole, "{algorithm} in steps of {step}");
            }
        }
    }

    #[test]
    fn unknown_name_lists_the_known_ones() {
        assert_eq!(
            "sha3".parse::<Algorithm>().unwrap_err().to_string(),
            "unknown digest algorithm 'sha3': expected one of sha256, sha512, blake3, sha1, md5, crc64nvme, crc64xz, crc32c, crc32"
        );
    }

    proptest! {
        #[test]
        fn any_division_gives_the_same(bytes in proptest::collection::vec(any::<u8>(), 0..3000), cut: proptest::sample::Index) {
            let cut = cut.index(bytes.len() + 1);
            for algorithm in Algorithm::all() {
                let mut digest = algorithm.start();
                digest.update(&bytes[..cut]);
                digest.update(&bytes[cut..]);
                let whole = algorithm.of(&bytes);
                prop_assert_eq!(digest.finish(), whole.clone());
                let (first, second) = bytes.split_at(cut);
                let length = second.len() as u64;
                let combined =
                    algorithm.combined(&algorithm.of(first), &algorithm.of(second), length);
                prop_assert!(combined.is_none_or(|combined| combined == whole), "{} of two pieces", algorithm);
            }
        }
    }
}
