//! Codecs: which there are, what they are called, and blocks of bytes in and out of them.
//!
//! [`ALL`] is the one table. `--codec` and its help, the codec bench, the numbers on the wire and the
//! conformance test walk it, so another codec is one file beside this one and one line here.
//!
//! A codec works on whole blocks: there is no state between two calls, so blocks may be packed on any core
//! and arrive in any order. Contexts (hash tables, entropy tables) belong to the thread and are kept from
//! call to call; with buffers that are reused, a call allocates nothing, but for what brotli and lz4's high
//! levels do inside.
//!
//! Decoders take bytes from anyone. They give exactly the length that was announced or an error, write
//! nowhere else, and the memory they work in is bounded by a constant. They do not prove that the bytes are
//! the ones that were packed: a flipped bit may decode to other bytes of the same length. Whoever needs that
//! compares digests.

mod brotli;
mod bytewise;
mod fastlz;
mod lz4;
mod lzf;
mod lzo;
mod matching;
mod none;
mod quicklz;
mod setting;
mod snappy;
mod zlib;
mod zstd;

use std::fmt;
use std::str::FromStr;

pub use setting::Setting;

/// Every codec weir knows, lightest first within what is common.
pub static ALL: &[Row] = &[
    none::ROW,
    lz4::ROW,
    zstd::ROW,
    zlib::ROW,
    snappy::ROW,
    lzo::ROW,
    lzf::ROW,
    quicklz::ROW,
    fastlz::ROW,
    brotli::ROW,
];

/// The longest block that is packed or unpacked, 16 MiB: a peer that announces more is refused before
/// anything is allocated. What one record carries is 1 MiB, or up to four blocks of that.
pub const LONGEST: usize = 16 << 20;

/// One line of [`ALL`].
#[derive(Debug)]
pub struct Row {
    /// The name, in lower case.
    pub name: &'static str,
    /// The number on the wire. It is never given to another codec, not even when this one goes.
    pub id: u8,
    /// The levels, from quickest to strongest; none where the codec has only one way.
    pub levels: &'static [i32],
    /// The level where nobody chose one; 0 where there are none.
    pub default_level: i32,
    /// What it is and when it pays, in a line.
    pub about: &'static str,
    /// Packs a block that is not empty: appends to the empty vector.
    compress: Pack,
    /// Unpacks into a slice of the announced length, which is not 0; says how much of it was filled.
    decompress: Unpack,
}

type Pack = fn(level: i32, input: &[u8], out: &mut Vec<u8>) -> Result<(), Refused>;
type Unpack = fn(input: &[u8], out: &mut [u8]) -> Result<usize, Refused>;

/// The codec below did not do it. Its own words are dropped: they name internals, and the cause is always the
/// input.
#[derive(Debug)]
struct Refused;

/// Why a block did not go through a codec, or text named none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// No row has this name.
    #[error("unknown codec '{name}': expected one of {}", names())]
    UnknownName {
        /// What was asked for, shortened.
        name: String,
    },
    /// The codec has no such level.
    #[error("{codec} has no level {level}: expected {}", levels(*codec))]
    Level {
        /// The codec.
        codec: Codec,
        /// What was asked for.
        level: i32,
    },
    /// The block is longer than [`LONGEST`].
    #[error("block of {len} bytes is too long: expected at most {LONGEST}")]
    TooLong {
        /// Its length, or the length that it claims to have.
        len: usize,
    },
    /// The encoder gave up.
    #[error("cannot compress {len} bytes with {codec}")]
    Encoder {
        /// The codec.
        codec: Codec,
        /// Length of the block.
        len: usize,
    },
    /// The bytes are not what this codec writes, or decode to another length.
    #[error("corrupt {codec} block: it does not decode to {len} bytes")]
    Corrupt {
        /// The codec.
        codec: Codec,
        /// The announced length.
        len: usize,
    },
}

/// A codec of [`ALL`], by reference: small, copied freely, equal when the number is equal.
#[derive(Clone, Copy)]
pub struct Codec(&'static Row);

impl Codec {
    /// Bytes as they are.
    pub const NONE: Codec = Codec(&none::ROW);
    /// LZ4 blocks.
    pub const LZ4: Codec = Codec(&lz4::ROW);
    /// Zstandard frames.
    pub const ZSTD: Codec = Codec(&zstd::ROW);

    /// Every codec, in the order of [`ALL`].
    pub fn all() -> impl Iterator<Item = Codec> {
        ALL.iter().map(Codec)
    }

    /// The codec with this name, in either case.
    pub fn by_name(name: &str) -> Option<Codec> {
        Self::all().find(|codec| codec.name().eq_ignore_ascii_case(name))
    }

    /// The codec with this number on the wire.
    pub fn by_id(id: u8) -> Option<Codec> {
        Self::all().find(|codec| codec.id() == id)
    }

    /// The name: `zstd`.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// The number on the wire.
    pub fn id(self) -> u8 {
        self.0.id
    }

    /// What it is, in a line.
    pub fn about(self) -> &'static str {
        self.0.about
    }

    /// The levels, from quickest to strongest; empty when there is nothing to choose.
    pub fn levels(self) -> &'static [i32] {
        self.0.levels
    }

    /// The level where nobody chose one; 0 when there is nothing to choose.
    pub fn default_level(self) -> i32 {
        self.0.default_level
    }

    /// Whether [`compress`](Self::compress) takes this level.
    pub fn has_level(self, level: i32) -> bool {
        level == self.default_level() || self.levels().contains(&level)
    }

    /// Packs a block: clears `out` and fills it, reusing its allocation. An empty block packs to nothing. The
    /// result may be longer than the input; whoever sends it compares, and sends such a block as it is.
    pub fn compress(self, level: i32, input: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.clear();
        if input.len() > LONGEST {
            return Err(CodecError::TooLong { len: input.len() });
        }
        if !self.has_level(level) {
            return Err(CodecError::Level { codec: self, level });
        }
        if input.is_empty() {
            return Ok(());
        }
        (self.0.compress)(level, input, out).map_err(|Refused| {
            out.clear();
            CodecError::Encoder { codec: self, len: input.len() }
        })
    }

    /// Unpacks a block of exactly `len` bytes into `out`, reusing its allocation. `out` is empty after an
    /// error.
    pub fn decompress(self, input: &[u8], len: usize, out: &mut Vec<u8>) -> Result<(), CodecError> {
        if len > LONGEST {
            out.clear();
            return Err(CodecError::TooLong { len });
        }
        // Not cleared before: bytes from the last call are overwritten, so a buffer of the same length needs
        // no zeros.
        out.resize(len, 0);
        let filled = match len {
            0 => input.is_empty().then_some(0).ok_or(Refused),
            _ => (self.0.decompress)(input, out),
        };
        match filled {
            Ok(filled) if filled == len => Ok(()),
            _ => {
                out.clear();
                Err(CodecError::Corrupt { codec: self, len })
            }
        }
    }
}

/// For encoders that write into a slice: room for `bound` bytes, of which the result is kept.
fn write_into(
    out: &mut Vec<u8>,
    bound: usize,
    write: impl FnOnce(&mut [u8]) -> Result<usize, Refused>,
) -> Result<(), Refused> {
    out.resize(bound, 0);
    let written = write(out)?;
    out.truncate(written);
    Ok(())
}

fn names() -> String {
    ALL.iter().map(|row| row.name).collect::<Vec<_>>().join(", ")
}

/// `-7 to -1, 1 to 22`.
fn levels(codec: Codec) -> String {
    let mut runs: Vec<(i32, i32)> = Vec::new();
    for &level in codec.levels() {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == level => *last = level,
            _ => runs.push((level, level)),
        }
    }
    let text = |(first, last): &(i32, i32)| match first == last {
        true => first.to_string(),
        false => format!("{first} to {last}"),
    };
    match runs[..] {
        [] => "none".to_owned(),
        _ => runs.iter().map(text).collect::<Vec<_>>().join(", "),
    }
}

impl PartialEq for Codec {
    fn eq(&self, other: &Codec) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Codec {}

impl std::hash::Hash for Codec {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Codec {
    type Err = CodecError;

    /// Understands the name in either case.
    fn from_str(text: &str) -> Result<Codec, CodecError> {
        Self::by_name(text).ok_or_else(|| CodecError::UnknownName { name: text.chars().take(40).collect() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn table_is_sound() {
        let (mut names, mut ids) = (HashSet::new(), HashSet::new());
        for codec in Codec::all() {
            assert!(names.insert(codec.name()) && ids.insert(codec.id()), "{codec} is there twice");
            assert_eq!(codec.name(), codec.name().to_lowercase());
            assert_eq!(codec.name().to_uppercase().parse::<Codec>().unwrap(), codec);
            assert_eq!(Codec::by_id(codec.id()), Some(codec));
            assert!(codec.levels().is_sorted(), "{codec}: levels from quickest to strongest");
            assert_eq!(codec.levels().is_empty(), codec.default_level() == 0, "{codec}");
            assert!(codec.levels().is_empty() || codec.levels().contains(&codec.default_level()), "{codec}");
            for setting in Setting::every(codec) {
                assert_eq!(setting.to_string().parse::<Setting>().unwrap(), setting);
            }
        }
    }

    #[test]
    fn numbers_on_the_wire_stay() {
        let agreed = ["none", "lz4", "zstd", "zlib", "snappy", "lzo", "lzf", "quicklz", "fastlz", "brotli"];
        for (id, name) in (0..).zip(agreed) {
            assert_eq!(Codec::by_id(id).map(Codec::name), Some(name));
        }
    }

    #[test]
    fn words_for_what_is_unknown() {
        let words = |text: &str| text.parse::<Setting>().unwrap_err().to_string();
        assert!(words("rar").starts_with("unknown codec 'rar': expected one of none, lz4, zstd, "));
        assert_eq!(words("brotli-12"), "brotli has no level 12: expected 0 to 11");
        assert_eq!(words("quicklz-2"), "quicklz has no level 2: expected 1, 3");
        assert_eq!(words("zstd-0"), "zstd has no level 0: expected -7 to -1, 1 to 22");
        assert_eq!(words("none-1"), "none has no level 1: expected none");
    }
}
