//! What turns bytes into other bytes or into a digest of them: one file an algorithm, one table that
//! everything walks.
//!
//! Pure: bytes and text in, bytes and text out; no file, no socket, no clock.
//!
//! * [`codec`]: the table of codecs, blocks in and out of them.
//! * [`content`]: HTTP's content codings, decoded as they come.
//! * [`cipher`]: the table of ciphers, records sealed and opened in place.
//! * [`digest`]: the table of digests, their names, and `ALGORITHM:HEX` as people write it.
//! * [`hex`]: hexadecimal text.
//!
//! ```
//! use weir_codec::Expected;
//! let expected: Expected = "md5:25f9e794323b453885f5181f1b624d0b".parse().unwrap();
//! let mut digest = expected.algorithm().start();
//! digest.update(b"12345");
//! digest.update(b"6789");
//! assert!(expected.matches(&digest.finish()));
//! ```
#![forbid(unsafe_code)]

pub mod cipher;
pub mod codec;
pub mod content;
pub mod digest;
pub mod hex;

pub use cipher::Cipher;
pub use codec::Codec;
pub use digest::{Algorithm, Digest, Expected, ExpectedDigestError, Strength};
