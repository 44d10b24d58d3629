//! What a lane carries: records, and the footer of what is in them. Pure; keys and sockets are elsewhere.

use crate::subtrees::{BLOCK, Digest};

/// Bytes of a record's header: length and sequence.
pub const HEADER: usize = 12;

/// Bytes of the tag that ends a sealed record.
pub(crate) const TAG: usize = 16;

/// Bytes of the footer that ends a record's plaintext.
pub(crate) const FOOTER: usize = 64;

/// The most blocks of a file that one record carries.
pub const LONGEST_RUN: u64 = weir_model::chooser::LONGEST_RUN as u64;

/// The largest plaintext: so many blocks, room for a codec's worst case (which is not sent, since raw is
/// smaller), and the footer.
pub const MAX_PLAIN: usize = (LONGEST_RUN * BLOCK) as usize + 4096;

/// What a connector writes first, in the clear, before the lane's number and its cookie.
pub(crate) const GREETING: [u8; 12] = *b"weir-lane-2\0";

/// Bytes of all of that.
pub(crate) const GREETED: usize = 32;

/// A record's header: the additional data of its tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of ciphertext, without the tag.
    pub length: usize,
    /// Its place in the lane, from 0.
    pub sequence: u64,
}

/// What a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Who speaks on this lane.
    Hello = 0,
    /// Bytes of a file: a block, or several in a row.
    Block = 1,
    /// Many entries.
    Batch = 2,
    /// Bytes of a file, built out of what the target has.
    Patch = 3,
    /// Blocks of a file in a row that hold nothing but zeros: any number of them, and no payload.
    Hole = 4,
}

/// The end of a record's plaintext: what the payload before it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footer {
    /// What it is about.
    pub kind: Kind,
    /// How the payload is compressed: a codec's number, 0 for none.
    pub codec: u8,
    /// Its length before compression; of a hole how many blocks it has.
    pub raw: u32,
    /// The number of the offer, or of the batch.
    pub file: u64,
    /// Where in the file.
    pub offset: u64,
    /// Of the raw bytes, of the block built, or of the values of several blocks; of a hole zeros.
    pub digest: Digest,
}

/// A lane's bytes that are not what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Out of bounds.
    #[error("a record of {0} bytes")]
    Length(u64),
    /// The tag does not match: changed on the way, or another key.
    #[error("a record that was changed on its way")]
    Tag,
    /// Repeated, reordered or missing.
    #[error("record {found} where {expected} was due")]
    Sequence {
        /// The one that came.
        found: u64,
        /// The one due.
        expected: u64,
    },
    /// A footer that means nothing.
    #[error("a record of unknown form")]
    Footer,
    /// Not a lane's first bytes.
    #[error("a connection that is no lane")]
    Greeting,
}

impl Header {
    /// The bytes.
    pub fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&(self.length as u32).to_le_bytes());
        bytes[4..].copy_from_slice(&self.sequence.to_le_bytes());
        bytes
    }

    /// From bytes, with the bounds of its length checked.
    pub fn parse(bytes: &[u8; HEADER]) -> Result<Header, Malformed> {
        let [a, b, c, d, sequence @ ..] = *bytes;
        let length = u32::from_le_bytes([a, b, c, d]);
        if !(FOOTER..=MAX_PLAIN).contains(&(length as usize)) {
            return Err(Malformed::Length(length.into()));
        }
        Ok(Header { length: length as usize, sequence: u64::from_le_bytes(sequence) })
    }
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        let all = [Kind::Hello, Kind::Block, Kind::Batch, Kind::Patch, Kind::Hole];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }
}

impl Footer {
    /// Appends it to the payload in `plain`.
    pub fn push_to(&self, plain: &mut Vec<u8>) {
        plain.extend_from_slice(&[self.kind as u8, self.codec, 0, 0]);
        plain.extend_from_slice(&self.raw.to_le_bytes());
        plain.extend_from_slice(&self.file.to_le_bytes());
        plain.extend_from_slice(&self.offset.to_le_bytes());
        plain.extend_from_slice(&self.digest);
        plain.extend_from_slice(&[0; 8]);
    }

    /// Parts a record's plaintext into payload and footer. Checks that what it says can be.
    pub fn split(plain: &[u8]) -> Result<(&[u8], Footer), Malformed> {
        let (payload, bytes) = plain.split_last_chunk::<FOOTER>().ok_or(Malformed::Footer)?;
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let mut digest = [0; 32];
        digest.copy_from_slice(&bytes[24..56]);
        let footer = Footer {
            kind: Kind::of(bytes[0]).ok_or(Malformed::Footer)?,
            codec: bytes[1],
            raw: (word(0) >> 32) as u32,
            file: word(8),
            offset: word(16),
            digest,
        };
        let blank = bytes[2..4] == [0, 0] && bytes[56..] == [0; 8];
        if !blank || !footer.is_sound(payload.len()) {
            return Err(Malformed::Footer);
        }
        Ok((payload, footer))
    }

    fn is_sound(&self, payload: usize) -> bool {
        let placed = || self.offset.is_multiple_of(BLOCK) && self.offset < 1 << 63;
        let most = match self.kind {
            Kind::Hole => {
                let nothing = payload == 0 && self.codec == 0 && self.digest == [0; 32];
                return nothing && self.raw > 0 && placed();
            }
            Kind::Block => LONGEST_RUN * BLOCK,
            _ => BLOCK,
        };
        let fits = u64::from(self.raw) <= most && payload <= self.raw as usize;
        let whole = self.codec != 0 || payload == self.raw as usize;
        let placed = match self.kind {
            Kind::Hello => payload == 0 && self.offset == 0,
            Kind::Batch => self.offset == 0,
            Kind::Block | Kind::Patch | Kind::Hole => placed(),
        };
        fits && whole && placed
    }
}

/// A connector's first bytes.
pub fn greeting(lane: u32, cookie: &[u8; 16]) -> [u8; GREETED] {
    let mut bytes = [0; GREETED];
    bytes[..12].copy_from_slice(&GREETING);
    bytes[12..16].copy_from_slice(&lane.to_le_bytes());
    bytes[16..].copy_from_slice(cookie);
    bytes
}

/// The lane's number and the cookie in a connector's first bytes.
pub fn parse_greeting(bytes: &[u8; GREETED]) -> Result<(u32, [u8; 16]), Malformed> {
    let (mut lane, mut cookie) = ([0; 4], [0; 16]);
    lane.copy_from_slice(&bytes[12..16]);
    cookie.copy_from_slice(&bytes[16..]);
    let known = bytes.starts_with(&GREETING);
    known.then(|| (u32::from_le_bytes(lane), cookie)).ok_or(Malformed::Greeting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_footer_is_read_as_it_was_written(
            kind in 1u8..4, codec in 0u8..10, length in 0usize..100, more in 0u32..100,
            file in any::<u64>(), block in 0u64..1 << 40, digest in any::<[u8; 32]>(),
        ) {
            let kind = Kind::of(kind).unwrap();
            let raw = length as u32 + if codec == 0 { 0 } else { more };
            let offset = if kind == Kind::Batch { 0 } else { block * BLOCK };
            let footer = Footer { kind, codec, raw, file, offset, digest };
            let mut plain = vec![7; length];
            footer.push_to(&mut plain);
            prop_assert_eq!(Footer::split(&plain), Ok((&vec![7; length][..], footer)));
        }

        #[test]
        fn a_hole_has_blocks_and_nothing_else(raw in 0u32.., block in 0u64..1 << 43, extra in 0usize..2, codec in 0u8..2) {
            let footer = Footer { kind: Kind::Hole, codec, raw, file: 1, offset: block * BLOCK, digest: [0; 32] };
            let mut plain = vec![7; extra];
            footer.push_to(&mut plain);
            prop_assert_eq!(Footer::split(&plain).is_ok(), raw > 0 && extra == 0 && codec == 0);
        }

        #[test]
        fn any_bytes_are_a_record_or_an_error(plain in prop::collection::vec(any::<u8>(), 0..200), header in any::<[u8; 12]>()) {
            if let Ok((payload, footer)) = Footer::split(&plain) {
                let most = match footer.kind {
                    Kind::Block => LONGEST_RUN * BLOCK,
                    Kind::Hole => u64::MAX,
                    _ => BLOCK,
                };
                prop_assert!(u64::from(footer.raw) <= most && payload.len() <= footer.raw as usize);
            }
            if let Ok(read) = Header::parse(&header) {
                prop_assert!(read.length <= MAX_PLAIN && read.to_bytes() == header);
            }
        }
    }
}
