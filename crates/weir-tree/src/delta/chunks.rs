//! Cuts that the content decides: FastCDC.
//!
//! W. Xia et al., "FastCDC: a Fast and Efficient Content-Defined Chunking Approach for Data Deduplication",
//! USENIX ATC 2016: a gear hash (one shift and one addition a byte, so that a byte's influence is gone after
//! 64 of them), no cut below a smallest length, and normalised chunking: cuts are made rare before the normal
//! length and frequent after it, so that lengths lie close around it. Both sides of a copy must cut alike:
//! the table and the masks are part of the protocol.

use std::fs::File;
use std::os::unix::fs::FileExt;

use twox_hash::XxHash3_128;

use super::holes::Holes;
use crate::error::TreeError;
use crate::name::Name;

/// Bytes of a digest: XXH3's 128 bits, under a seed that is drawn for each signature. Chunks that are alike
/// by accident come with a probability of 2^-88 in two files of 2^20. Chunks that someone made alike cost no
/// more than time: what is built out of them does not have its block's BLAKE3 value, and is sent as it is.
/// BLAKE3 reads 1 GB/s in pieces as short as these, XXH3 more than 8.
pub(super) const DIGEST: usize = 16;

/// Bytes read at a time, and a chunk that is cut in one piece at most.
const PIECE: usize = 1 << 20;

/// Longest chunk in normal lengths. After the normal length a cut comes with probability 2 / normal at each
/// byte, so that one in e^14 chunks of random data gets here.
const LONGEST: u64 = 8;

/// By how many bits the masks before and after the normal length differ from its log2. The paper prefers 2,
/// for lengths that vary less; but the rarer the cuts are before the normal length, the longer it takes two
/// versions to fall into step after a change: 2.1 chunks with 2 bits, 1.5 with 1.
const NORMALISATION: u32 = 1;

/// 256 random numbers, one a byte value: the first outputs of SplitMix64 (Steele et al., "Fast Splittable
/// Pseudorandom Number Generators", OOPSLA 2014) from seed 0.
static GEAR: [u64; 256] = gear();

const fn gear() -> [u64; 256] {
    let mut table = [0; 256];
    let (mut state, mut index) = (0u64, 0);
    while index < 256 {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        table[index] = word ^ (word >> 31);
        index += 1;
    }
    table
}

/// A chunk of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    pub length: u32,
    pub digest: [u8; DIGEST],
}

/// Finds the cuts in bytes that come in pieces of any size.
#[derive(Debug)]
pub(super) struct Cutter {
    shortest: u64,
    normal: u64,
    longest: u64,
    /// Masks for cuts before and after the normal length.
    rare: u64,
    frequent: u64,
    /// Of the chunk under way.
    length: u64,
    hash: u64,
}

/// Longest chunk for a normal length of `1 << bits`.
pub(super) fn longest(bits: u32) -> u64 {
    LONGEST << bits
}

impl Cutter {
    /// For a normal length of `1 << bits`.
    pub fn new(bits: u32) -> Cutter {
        // The high bits of a gear hash depend on the most bytes.
        let high = |bits: u32| !0u64 << (64 - bits);
        let (shortest, normal) = (1 << (bits - 2), 1 << bits);
        let (rare, frequent) = (high(bits + NORMALISATION), high(bits - NORMALISATION));
        Cutter { shortest, normal, longest: longest(bits), rare, frequent, length: 0, hash: 0 }
    }

    /// Takes bytes up to a cut: how many belong to this chunk, and whether it ends there.
    fn take(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut used = 0;
        for (end, mask) in
            [(self.shortest, None), (self.normal, Some(self.rare)), (self.longest, Some(self.frequent))]
        {
            let span = end.saturating_sub(self.length).min((bytes.len() - used) as u64) as usize;
            let found = mask.and_then(|mask| self.scan(&bytes[used..used + span], mask));
            used += found.unwrap_or(span);
            self.length += found.unwrap_or(span) as u64;
            if found.is_some() {
                return (used, true);
            }
        }
        (used, self.length == self.longest)
    }

    fn scan(&mut self, bytes: &[u8], mask: u64) -> Option<usize> {
        let mut hash = self.hash;
        let mut roll = |byte: u8| {
            hash = (hash << 1).wrapping_add(GEAR[usize::from(byte)]);
            hash & mask == 0
        };
        // Eight bytes between two looks at the end: the loop is bound by the instructions it issues.
        let (eights, rest) = bytes.as_chunks::<8>();
        for (index, eight) in eights.iter().enumerate() {
            for (within, byte) in eight.iter().enumerate() {
                if roll(*byte) {
                    return Some(index * 8 + within + 1);
                }
            }
        }
        for (index, byte) in rest.iter().enumerate() {
            if roll(*byte) {
                return Some(eights.len() * 8 + index + 1);
            }
        }
        self.hash = hash;
        None
    }

    fn restart(&mut self) {
        self.length = 0;
        self.hash = 0;
    }
}

/// Part of a file, to be read forwards and again from a place that was read before.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    file: &'a File,
    name: &'a Name,
    /// Where the part ends.
    end: u64,
    buffer: Vec<u8>,
    /// Of the buffer: its place in the file, and its bytes.
    start: u64,
    filled: usize,
    holes: Holes<'a>,
}

impl<'a> Reader<'a> {
    /// Reads up to `end`. `name` is for errors.
    pub fn new(file: &'a File, name: &'a Name, end: u64) -> Reader<'a> {
        let holes = Holes::new(file);
        Reader { file, name, end, buffer: vec![0; 2 * PIECE], start: 0, filled: 0, holes }
    }

    /// The bytes at `at`: `wanted`, or 1 MiB where that is less; fewer only at the end.
    fn bytes(&mut self, at: u64, wanted: u64) -> Result<&[u8], TreeError> {
        let wanted = wanted.min(PIECE as u64).min(self.end.saturating_sub(at)) as usize;
        let is_there = self.start <= at && at + wanted as u64 <= self.start + self.filled as u64;
        if !is_there {
            self.fill(at, wanted)?;
        }
        let from = (at - self.start) as usize;
        Ok(&self.buffer[from..self.filled.min(from + wanted)])
    }

    fn fill(&mut self, at: u64, wanted: usize) -> Result<(), TreeError> {
        (self.start, self.filled) = (at, 0);
        while self.filled < wanted {
            match self.file.read_at(&mut self.buffer[self.filled..], at + self.filled as u64) {
                Ok(0) => break,
                Ok(more) => self.filled += more,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(TreeError::Entry { action: "read", name: self.name.clone(), source });
                }
            }
        }
        Ok(())
    }

    /// The chunk that begins at `at`; `None` at the end.
    pub fn cut(&mut self, at: u64, cutter: &mut Cutter, seed: u64) -> Result<Option<Chunk>, TreeError> {
        let longest = cutter.longest;
        let fits = at.checked_add(longest).is_some_and(|end| end <= self.end);
        if !(fits && self.holes.have(at, longest)) {
            return self.cut_by_content(at, cutter, seed);
        }
        if let Some(chunk) = self.holes.chunk(longest, seed) {
            return Ok(Some(chunk));
        }
        let chunk = self.cut_by_content(at, cutter, seed)?;
        chunk.into_iter().for_each(|chunk| self.holes.learn_chunk(longest, seed, chunk));
        Ok(chunk)
    }

    fn cut_by_content(
        &mut self,
        at: u64,
        cutter: &mut Cutter,
        seed: u64,
    ) -> Result<Option<Chunk>, TreeError> {
        cutter.restart();
        loop {
            let (begun, longest) = (cutter.length, cutter.longest);
            let bytes = self.bytes(at + begun, longest - begun)?;
            let is_last = bytes.is_empty();
            let (used, cut) = cutter.take(bytes);
            if begun == 0 && cut {
                let digest = digest(seed, &bytes[..used]);
                return Ok(Some(Chunk { length: used as u32, digest }));
            }
            if cut || is_last {
                let length = cutter.length as u32;
                let digest = self.digest(at, length, seed)?;
                return Ok(digest.filter(|_| length > 0).map(|digest| Chunk { length, digest }));
            }
        }
    }

    /// The digest of so many bytes at `at`; `None` where there are fewer.
    pub fn digest(&mut self, at: u64, length: u32, seed: u64) -> Result<Option<[u8; DIGEST]>, TreeError> {
        if !self.holes.have(at, length.into()) {
            return self.digest_by_content(at, length, seed);
        }
        if let Some(digest) = self.holes.digest(length, seed) {
            return Ok(Some(digest));
        }
        let digest = self.digest_by_content(at, length, seed)?;
        digest.into_iter().for_each(|digest| self.holes.learn_digest(length, seed, digest));
        Ok(digest)
    }

    fn digest_by_content(
        &mut self,
        at: u64,
        length: u32,
        seed: u64,
    ) -> Result<Option<[u8; DIGEST]>, TreeError> {
        let end = at + u64::from(length);
        let bytes = self.bytes(at, length.into())?;
        if bytes.len() as u64 == u64::from(length) {
            return Ok(Some(digest(seed, bytes)));
        }
        let mut hasher = XxHash3_128::with_seed(seed);
        let mut at = at;
        while at < end {
            let bytes = self.bytes(at, end - at)?;
            if bytes.is_empty() {
                return Ok(None);
            }
            hasher.write(bytes);
            at += bytes.len() as u64;
        }
        Ok(Some(hasher.finish_128().to_le_bytes()))
    }
}

fn digest(seed: u64, bytes: &[u8]) -> [u8; DIGEST] {
    XxHash3_128::oneshot_with_seed(seed, bytes).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts(bits: u32, bytes: &[u8], piece: usize) -> Vec<u64> {
        let mut cutter = Cutter::new(bits);
        let mut lengths = Vec::new();
        for mut piece in bytes.chunks(piece) {
            while !piece.is_empty() {
                let (used, cut) = cutter.take(piece);
                piece = &piece[used..];
                if cut {
                    lengths.push(cutter.length);
                    cutter.restart();
                }
            }
        }
        lengths
    }

    #[test]
    fn lengths_lie_around_the_normal_one_however_the_bytes_come() {
        let mut random = fastrand::Rng::with_seed(1);
        let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(8 << 20).collect();
        let lengths = cuts(12, &bytes, bytes.len());
        let mean = lengths.iter().sum::<u64>() / lengths.len() as u64;
        assert!((4096..5500).contains(&mean), "{mean}");
        assert!(lengths.iter().all(|length| (1024..=8 * 4096).contains(length)));
        for piece in [1, 63, 1000, 65536] {
            assert_eq!(cuts(12, &bytes, piece), lengths, "in pieces of {piece}");
        }
    }

    #[test]
    fn the_table_is_the_protocols() {
        // SplitMix64's published first output for seed 0.
        assert_eq!(GEAR[0], 0xe220_a839_7b1d_cdaf);
        let sum = GEAR.iter().fold(0u64, |sum, word| sum.rotate_left(1) ^ word);
        assert_eq!(sum, 13_677_615_894_126_629_790);
    }
}
