//! What the side that has an old version says of it.

use std::fs::File;
use std::ops::Range;
use std::thread;

use serde::{Deserialize, Serialize};

use super::chunks::{self, Chunk, Cutter, DIGEST, Reader};
use crate::error::TreeError;
use crate::name::Name;

/// Normal length of chunks in bytes for files up to 1.2 GB; see [`super`] for why.
pub const SMALLEST: u64 = 1 << SMALLEST_BITS;
const SMALLEST_BITS: u32 = 11;

/// Chunks of 256 MiB, for files beyond 100 TB.
const LARGEST_BITS: u32 = 28;

/// Most chunks in a signature: each takes 16 bytes of digest and at most 5 of length, together below 16 MiB.
pub const MAX_CHUNKS: usize = 750_000;

/// Chunks that a file should have at most by the normal length. Their mean is a fifth longer; data whose
/// chunks are much shorter makes the length double.
const AIMED_CHUNKS: u64 = 600_000;

/// Threads that read one file, and the least that each gets: a thread is worth starting for some milliseconds
/// of work.
const THREADS: u64 = 4;
const SHARE: u64 = 8 << 20;

/// Bytes of a chunk on the wire at most: its length, its digest.
const WIRE: u64 = 5 + DIGEST as u64;

/// What the side that has an old version says of it: the chunks it consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Signature {
    /// log2 of the normal length.
    pub(super) bits: u32,
    /// Of the digests.
    pub(super) seed: u64,
    pub(super) chunks: Vec<Chunk>,
    size: u64,
}

impl Signature {
    /// Reads all of `file`, each part by a thread of its own. `name` is for errors.
    pub fn of(file: &File, name: &Name, reads: Reads<'_>) -> Result<Signature, TreeError> {
        let size = file
            .metadata()
            .map_err(|source| TreeError::Entry { action: "read", name: name.clone(), source })?
            .len();
        let seed = fastrand::u64(..);
        let mut bits = bits_for(size);
        loop {
            let chunks = read((file, name, reads), size, (bits, seed))?;
            if chunks.len() <= MAX_CHUNKS {
                let size = chunks.iter().map(|chunk| u64::from(chunk.length)).sum();
                return Ok(Signature { bits, seed, chunks, size });
            }
            if bits == LARGEST_BITS {
                return Ok(Signature { bits, seed, chunks: Vec::new(), size: 0 });
            }
            // Chunks much shorter than normal.
            bits += 1;
        }
    }

    /// Bytes on the wire, about, of the signature of a file of this size.
    pub fn expected_len(size: u64) -> u64 {
        (size >> bits_for(size)) * WIRE
    }

    /// Length of the file it was made of.
    pub fn size(&self) -> u64 {
        self.size
    }
}

/// Hears of bytes as they are read, from several threads.
pub type Reads<'a> = &'a (dyn Fn(u64) + Sync);

type Of<'a> = (&'a File, &'a Name, Reads<'a>);

/// The least normal length with which a file of this size has no more chunks than aimed at.
fn bits_for(size: u64) -> u32 {
    (SMALLEST_BITS..LARGEST_BITS).find(|bits| size >> bits <= AIMED_CHUNKS).unwrap_or(LARGEST_BITS)
}

/// The chunks of all parts, in order; more than [`MAX_CHUNKS`] where there are too many. A cut is made where
/// a part ends: the other side follows the lengths that it is told, and cuts by itself only what has changed.
fn read(of: Of<'_>, size: u64, (bits, seed): (u32, u64)) -> Result<Vec<Chunk>, TreeError> {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let parts = (size / SHARE).clamp(1, cores.min(THREADS));
    let share = size.div_ceil(parts);
    let most = MAX_CHUNKS / parts as usize;
    let part = |number: u64| number * share..size.min((number + 1) * share);
    let read = |number| read_part(of, part(number), (bits, seed, most));
    thread::scope(|scope| {
        // A part for which the system gives no thread is read here, in its turn.
        let start =
            |number| thread::Builder::new().spawn_scoped(scope, move || read(number)).map_err(|_| number);
        let others: Vec<_> = (1..parts).map(start).collect();
        let mut chunks = read(0)?;
        for other in others {
            let more = match other {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(number) => read(number),
            };
            chunks.extend(more?);
        }
        Ok(chunks)
    })
}

/// The chunks of a part; after more than `most` enough is known.
fn read_part(
    (file, name, reads): Of<'_>,
    part: Range<u64>,
    (bits, seed, most): (u32, u64, usize),
) -> Result<Vec<Chunk>, TreeError> {
    let mut reader = Reader::new(file, name, part.end);
    let mut cutter = Cutter::new(bits);
    let mut chunks = Vec::new();
    let mut at = part.start;
    while let Some(chunk) = reader.cut(at, &mut cutter, seed)? {
        at += u64::from(chunk.length);
        reads(chunk.length.into());
        chunks.push(chunk);
        if chunks.len() > most {
            chunks.resize(MAX_CHUNKS + 1, chunk);
            break;
        }
    }
    Ok(chunks)
}

/// As it goes over the wire: log2 of the normal length, the seed, and (length, digest) of each chunk.
#[derive(Serialize, Deserialize)]
struct Wire(u32, u64, Vec<(u32, [u8; DIGEST])>);

impl From<Signature> for Wire {
    fn from(signature: Signature) -> Wire {
        let chunks = signature.chunks.iter().map(|chunk| (chunk.length, chunk.digest)).collect();
        Wire(signature.bits, signature.seed, chunks)
    }
}

impl TryFrom<Wire> for Signature {
    type Error = &'static str;

    fn try_from(Wire(bits, seed, wire): Wire) -> Result<Signature, &'static str> {
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
        Ok(Signature { bits, seed, chunks, size })
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
