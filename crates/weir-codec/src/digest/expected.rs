//! What a digest is expected to be, as people write it (`sha256:2cf2…`) and as HTTP does (base64).

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_PAD_INDIFFERENT as BASE64;
use weir_units::quoted;

use super::Algorithm;
use crate::hex;

/// Text that is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpectedDigestError {
    /// No colon between the name and the digits.
    #[error(
        "invalid digest '{text}': expected ALGORITHM:HEX, such as sha256:9f86d0…; algorithms: {}",
        names()
    )]
    Form {
        /// What was given.
        text: String,
    },
    /// A name that no row of the table has.
    #[error("unknown digest algorithm '{name}': expected one of {}", names())]
    UnknownAlgorithm {
        /// What was given.
        name: String,
    },
    /// The digest belongs to another algorithm or was cut short.
    #[error("invalid {algorithm} digest '{text}': expected {} bytes ({} hexadecimal digits), found {found}", algorithm.len(), algorithm.len() * 2)]
    Length {
        /// The algorithm named.
        algorithm: Algorithm,
        /// What was given.
        text: String,
        /// How much that is, as it was written: digits, or bytes.
        found: String,
    },
    /// Not hexadecimal.
    #[error("invalid {algorithm} digest '{text}'")]
    Hex {
        /// The algorithm named.
        algorithm: Algorithm,
        /// What was given.
        text: String,
        /// Which digit.
        #[source]
        source: hex::HexError,
    },
    /// Not base64 (RFC 4648 section 4).
    #[error("invalid {algorithm} digest '{text}'")]
    Base64 {
        /// The algorithm named.
        algorithm: Algorithm,
        /// What was given.
        text: String,
        /// Which symbol.
        #[source]
        source: base64::DecodeError,
    },
}

/// No digest is as long: what has more bytes is not written out whole to be quoted.
const QUOTED_BYTES: usize = 80;

/// A digest that some bytes must have.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Expected {
    algorithm: Algorithm,
    bytes: Vec<u8>,
}

impl Expected {
    /// From raw bytes; their number must be the algorithm's.
    pub fn new(algorithm: Algorithm, bytes: Vec<u8>) -> Result<Expected, ExpectedDigestError> {
        if bytes.len() != algorithm.len() {
            let text = quoted(&hex::encode(bytes.get(..QUOTED_BYTES).unwrap_or(&bytes)));
            return Err(ExpectedDigestError::Length { algorithm, text, found: bytes_of(bytes.len()) });
        }
        Ok(Expected { algorithm, bytes })
    }

    /// From hexadecimal digits of either case.
    pub fn from_hex(algorithm: Algorithm, text: &str) -> Result<Expected, ExpectedDigestError> {
        // Before decoding, so that a long text costs nothing.
        if text.len() != algorithm.len() * 2 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(ExpectedDigestError::Length {
                algorithm,
                text: quoted(text),
                found: format!("{} digits", text.len()),
            });
        }
        let bytes = hex::decode(text).map_err(|source| ExpectedDigestError::Hex {
            algorithm,
            text: quoted(text),
            source,
        })?;
        Expected::new(algorithm, bytes)
    }

    /// From base64, with or without its padding.
    pub fn from_base64(algorithm: Algorithm, text: &str) -> Result<Expected, ExpectedDigestError> {
        let fits = algorithm.len().div_ceil(3) * 4;
        if text.len() > fits {
            return Err(ExpectedDigestError::Length {
                algorithm,
                text: quoted(text),
                found: bytes_of(text.len() / 4 * 3),
            });
        }
        let bytes = BASE64.decode(text).map_err(|source| ExpectedDigestError::Base64 {
            algorithm,
            text: quoted(text),
            source,
        })?;
        match bytes.len() == algorithm.len() {
            true => Ok(Expected { algorithm, bytes }),
            false => Err(ExpectedDigestError::Length {
                algorithm,
                text: quoted(text),
                found: bytes_of(bytes.len()),
            }),
        }
    }

    /// Which digest it is.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The digest itself.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The digest in lower-case hexadecimal.
    pub fn hex(&self) -> String {
        hex::encode(&self.bytes)
    }

    /// The digest in base64 with padding, as `Repr-Digest` carries it between colons.
    pub fn base64(&self) -> String {
        BASE64.encode(&self.bytes)
    }

    /// Whether `digest`, a result of [`super::Digest::finish`], is the expected one.
    pub fn matches(&self, digest: &[u8]) -> bool {
        self.bytes == digest
    }
}

impl FromStr for Expected {
    type Err = ExpectedDigestError;

    /// Reads `ALGORITHM:HEX` or `ALGORITHM=HEX` (aria2's), the algorithm and the digits in either case;
    /// `ALGORITHM:BASE64`, as object stores write it, and `ALGORITHM-BASE64` (Subresource Integrity).
    fn from_str(text: &str) -> Result<Expected, ExpectedDigestError> {
        // Base64 ends in that sign too.
        let by_sign = || text.split_once('=').filter(|(name, _)| name.trim().parse::<Algorithm>().is_ok());
        let (name, digits) = match text.split_once(':').or_else(by_sign) {
            Some(parts) => parts,
            None => return integrity(text).ok_or_else(|| ExpectedDigestError::Form { text: quoted(text) }),
        };
        let (algorithm, digits) = (name.trim().parse()?, digits.trim());
        // What is hexadecimal in its length is never base64 of that algorithm.
        Expected::from_hex(algorithm, digits)
            .or_else(|error| Expected::from_base64(algorithm, digits).map_err(|_| error))
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm, self.hex())
    }
}

impl fmt::Debug for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expected({self})")
    }
}

/// `sha256-BASE64`.
fn integrity(text: &str) -> Option<Expected> {
    let (name, base64) = text.trim().split_once('-')?;
    Expected::from_base64(name.parse().ok()?, base64).ok()
}

fn bytes_of(count: usize) -> String {
    format!("{count} bytes")
}

fn names() -> String {
    Algorithm::all().map(Algorithm::name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_people_write() {
        let digest = "25f9e794323b453885f5181f1b624d0b";
        for text in [
            format!("md5:{digest}"),
            format!("md5={digest}"),
            format!("MD5:{}", digest.to_uppercase()),
            format!(" md5 : {digest} "),
        ] {
            let expected: Expected = text.parse().unwrap();
            assert_eq!(expected.to_string(), format!("md5:{digest}"));
            assert!(expected.matches(&Algorithm::MD5.of(b"123456789")));
        }
        for text in ["md5:JfnnlDI7RTiF9RgfG2JNCw==", "md5-JfnnlDI7RTiF9RgfG2JNCw==", "crc64nvme:rosUhgp5mIg="]
        {
            let expected: Expected = text.parse().unwrap();
            assert!(expected.matches(&expected.algorithm().of(b"123456789")), "{text}");
        }
        for bad in ["md5-", "md5-0011", "md5=", "sha-256", "md5:4waSgw==", "x=0011"] {
            assert!(bad.parse::<Expected>().is_err(), "{bad}");
        }
    }

    #[test]
    fn errors_quote_and_help() {
        let error = |text: &str| text.parse::<Expected>().unwrap_err();
        assert_eq!(
            error("deadbeef").to_string(),
            "invalid digest 'deadbeef': expected ALGORITHM:HEX, such as sha256:9f86d0…; algorithms: sha256, sha512, \
             blake3, sha1, md5, crc64nvme, crc64xz, crc32c, crc32"
        );
        assert_eq!(
            error("md5:0011").to_string(),
            "invalid md5 digest '0011': expected 16 bytes (32 hexadecimal digits), found 4 digits"
        );
        let one_short = error(&format!("md5:{}", "0".repeat(31))).to_string();
        assert!(one_short.ends_with("(32 hexadecimal digits), found 31 digits"), "{one_short}");
        let not_hex = error("crc32c:0011zz33");
        assert_eq!(not_hex.to_string(), "invalid crc32c digest '0011zz33'");
        assert!(not_hex.source().is_some());
        assert!(error(&format!("x\x1b[2J{}", "y".repeat(5000))).to_string().len() < 300);
    }

    #[test]
    fn base64_with_and_without_padding() {
        let plain = Expected::from_base64(Algorithm::CRC32C, "4waSgw").unwrap();
        assert_eq!(plain.hex(), "e3069283");
        assert_eq!(Expected::from_base64(Algorithm::CRC32C, "4waSgw==").unwrap(), plain);
        assert_eq!(plain.base64(), "4waSgw==");
        assert!(Expected::from_base64(Algorithm::CRC32C, "4waSgw==AAAA").is_err());
        assert!(Expected::from_base64(Algorithm::SHA256, "4waSgw==").is_err());
        assert!(Expected::from_base64(Algorithm::CRC32C, "4wa$gw==").is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text: String) {
            let _ = text.parse::<Expected>();
            let _ = Expected::from_base64(Algorithm::SHA1, &text);
            let _ = Expected::from_hex(Algorithm::SHA1, &text);
        }

        #[test]
        fn print_parse_round_trip(index: proptest::sample::Index, bytes: [u8; 64]) {
            let algorithm = Algorithm(index.get(super::super::ALL));
            let expected = Expected::new(algorithm, bytes[..algorithm.len()].to_vec()).unwrap();
            prop_assert_eq!(&expected.to_string().parse::<Expected>().unwrap(), &expected);
            prop_assert_eq!(&Expected::from_base64(algorithm, &expected.base64()).unwrap(), &expected);
        }
    }
}
