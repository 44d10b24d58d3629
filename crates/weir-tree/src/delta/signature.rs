//! What the side that has an old version says of it.

use std::fs::File;

use serde::{Deserialize, Serialize};

use super::chunks::{self, Chunk, DIGEST};
use crate::error::Error;
use crate::name::Name;

/// Normal length of chunks in bytes for files up to 1.2 GB; see [`super`] for why.
pub const SMALLEST: u64 = 1 << SMALLEST_BITS;
const SMALLEST_BITS: u32 = 11;

/// Chunks of 256 MiB, for files beyond 100 TB.
const LARGEST_BITS: u32 = 28;

/// Most chunks in a signature: each takes 16 bytes of digest and at most 5 of length, together below 16 MiB.
pub const MAX_CHUNKS: usize = 750_000;

/// Chunks that a file should have at most by the normal length. Their mean is a fifth longer; data whose chunks are
/// much shorter makes the length double.
const AIMED_CHUNKS: u64 = 600_000;

/// What the side that has an old version says of it: the chunks it consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Signature {
    /// log2 of the normal length.
    pub(super) bits: u32,
    pub(super) chunks: Vec<Chunk>,
    size: u64,
}

impl Signature {
    /// Reads all of `file`. `name` is for errors.
    pub fn of(file: &File, name: &Name) -> Result<Signature, Error> {
        let size = file
            .metadata()
            .map_err(|source| Error::Entry { action: "read", name: name.clone(), source })?
            .len();
        let mut bits = bits_for(size);
        loop {
            match Signature::with(file, name, bits)? {
                Some(signature) => return Ok(signature),
                // Chunks much shorter than normal, or a file that grew.
                None if bits < LARGEST_BITS => bits += 1,
                None => return Ok(Signature { bits, chunks: Vec::new(), size: 0 }),
            }
        }
    }

    /// With one normal length; `None` where that makes too many chunks.
    fn with(file: &File, name: &Name, bits: u32) -> Result<Option<Signature>, Error> {
        let mut chunks = Vec::new();
        let mut fits = true;
        let size = chunks::read(file, name, bits, |chunk| {
            fits = chunks.len() < MAX_CHUNKS;
            if fits {
                chunks.push(chunk);
            }
            fits
        })?;
        Ok(fits.then_some(Signature { bits, chunks, size }))
    }

    /// Length of the file it was made of.
    pub fn size(&self) -> u64 {
        self.size
    }
}

/// The least normal length with which a file of this size has no more chunks than aimed at.
fn bits_for(size: u64) -> u32 {
    (SMALLEST_BITS..LARGEST_BITS).find(|bits| size >> bits <= AIMED_CHUNKS).unwrap_or(LARGEST_BITS)
}

/// As it goes over the wire: log2 of the normal length, and (length, digest) of each chunk.
#[derive(Serialize, Deserialize)]
struct Wire(u32, Vec<(u32, [u8; DIGEST])>);

impl From<Signature> for Wire {
    fn from(signature: Signature) -> Wire {
        Wire(signature.bits, signature.chunks.iter().map(|chunk| (chunk.length, chunk.digest)).collect())
    }
}

impl TryFrom<Wire> for Signature {
    type Error = &'static str;

    fn try_from(Wire(bits, wire): Wire) -> Result<Signature, &'static str> {
        if !(SMALLEST_BITS..=LARGEST_BITS).contains(&bits) {
            return Err("a signature with a normal length that is not used");
        }
        if wire.len() > MAX_CHUNKS {
            return Err("a signature of too many chunks");
        }
        let longest = chunks::longest(bits);
        if !wire.iter().all(|(length, _)| (1..=longest).contains(&u64::from(*length))) {
            return Err("a signature with a chunk that is too long or empty");
        }
        let size = wire.iter().map(|(length, _)| u64::from(*length)).sum();
        let chunks = wire.into_iter().map(|(length, digest)| Chunk { length, digest }).collect();
        Ok(Signature { bits, chunks, size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_of_any_file_stays_below_16_mib() {
        assert_eq!(bits_for(0), SMALLEST_BITS);
        assert_eq!(1 << bits_for(1_000_000_000), SMALLEST);
        assert_eq!(1 << bits_for(1_000_000_000_000), 2 << 20);
        assert_eq!(bits_for(u64::MAX), LARGEST_BITS);
        let longest = chunks::longest(LARGEST_BITS) as u32;
        let one = postcard::to_allocvec(&(longest, [0u8; DIGEST])).unwrap();
        assert!(one.len() * MAX_CHUNKS < 16 << 20);
    }
}
