//! How the new version comes from the old one.

use std::fs::File;

use serde::{Deserialize, Serialize};

use super::chunks::{Chunk, Cutter, Reader};
use super::signature::{Reads, Signature};
use crate::error::TreeError;
use crate::name::Name;

/// Most pieces in a recipe; what would need more is sent. About 10 bytes each on the wire.
const MAX_PIECES: usize = 1 << 20;

/// How the new version comes from the old one and literal bytes: pieces that cover it from its first byte to
/// its last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Piece>", into = "Vec<Piece>")]
pub struct Recipe {
    pieces: Vec<Piece>,
    size: u64,
    literal: u64,
}

/// A piece without its place, which follows from those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Piece {
    Copy { from: u64, length: u64 },
    Literal { length: u64 },
}

/// A piece of the new version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// `length` bytes at `from` in the old version.
    Copy {
        /// Place in the new version.
        at: u64,
        /// Place in the old version.
        from: u64,
        /// How many bytes.
        length: u64,
    },
    /// `length` bytes that have to be sent.
    Literal {
        /// Place in the new version.
        at: u64,
        /// How many bytes.
        length: u64,
    },
}

/// Reads all of `file`, the new version, and says which pieces the old one holds. `name` is for errors.
pub fn missing(file: &File, name: &Name, old: &Signature, reads: Reads<'_>) -> Result<Recipe, TreeError> {
    let mut reader = Reader::new(file, name, u64::MAX);
    let mut cutter = Cutter::new(old.bits);
    let mut recipe = Recipe::default();
    let mut index = None;
    let mut at = 0;
    // The old chunk after the last one that was found, and where it begins: nearly always the one that comes
    // next.
    let mut next = Some((0, 0));
    loop {
        // 1. Its digest is looked for without looking for a cut: where nothing changed this is all there is
        //    to do.
        if let Some((number, from)) = next
            && let Some(chunk) = old.chunks.get(number)
            && recipe.has_room()
            && reader.digest(at, chunk.length, old.seed)? == Some(chunk.digest)
        {
            let length = chunk.length.into();
            recipe.push(Piece::Copy { from, length });
            at += length;
            reads(length);
            next = Some((number + 1, from + length));
            continue;
        }
        // 2. Where something did, this version is cut by its own content, until a chunk is one of the old
        //    ones.
        let Some(chunk) = reader.cut(at, &mut cutter, old.seed)? else { return Ok(recipe) };
        let length = u64::from(chunk.length);
        let index = index.get_or_insert_with(|| Index::new(&old.chunks));
        let found = index.find(&chunk).filter(|_| recipe.has_room());
        recipe.push(match found {
            Some((_, from)) => Piece::Copy { from, length },
            None => Piece::Literal { length },
        });
        next = found.map(|(number, from)| (number + 1, from + length));
        at += length;
        reads(length);
    }
}

/// The old chunks by their digests: 16 bytes a chunk beside the signature.
struct Index<'a> {
    chunks: &'a [Chunk],
    starts: Vec<u64>,
    /// The first bytes of each chunk's digest and its number, in order.
    order: Vec<(u32, u32)>,
}

impl<'a> Index<'a> {
    fn new(chunks: &'a [Chunk]) -> Index<'a> {
        let mut end = 0;
        let start = |chunk: &Chunk| {
            let start = end;
            end += u64::from(chunk.length);
            start
        };
        let starts = chunks.iter().map(start).collect();
        let numbered = chunks.iter().zip(0..);
        let mut order: Vec<(u32, u32)> = numbered.map(|(chunk, number)| (prefix(chunk), number)).collect();
        order.sort_unstable();
        Index { chunks, starts, order }
    }

    /// The number of the first such chunk, and where it begins.
    fn find(&self, wanted: &Chunk) -> Option<(usize, u64)> {
        let prefix = prefix(wanted);
        let place = self.order.partition_point(|(other, _)| *other < prefix);
        // Different chunks share four bytes by accident hardly ever; many that do were made to cost time.
        let alike = self.order[place..].iter().take_while(|(other, _)| *other == prefix).take(64);
        let mut numbers = alike.map(|(_, number)| *number as usize);
        let number = numbers.find(|number| self.chunks[*number] == *wanted)?;
        Some((number, self.starts[number]))
    }
}

fn prefix(chunk: &Chunk) -> u32 {
    let [a, b, c, d, ..] = chunk.digest;
    u32::from_le_bytes([a, b, c, d])
}

impl Recipe {
    /// A copy more, and what may follow it, do not make it too long.
    fn has_room(&self) -> bool {
        self.pieces.len() < MAX_PIECES - 1
    }

    /// Adds a piece, to the last one where it goes on with it.
    fn push(&mut self, piece: Piece) {
        self.size += piece.length();
        match (self.pieces.last_mut(), piece) {
            (Some(Piece::Copy { from, length }), Piece::Copy { from: more_from, length: more })
                if *from + *length == more_from =>
            {
                *length += more;
            }
            (Some(Piece::Literal { length }), Piece::Literal { length: more }) => *length += more,
            _ => self.pieces.push(piece),
        }
        if let Piece::Literal { length } = piece {
            self.literal += length;
        }
    }

    /// The pieces in order, from the first byte to the last without a gap.
    pub fn ops(&self) -> impl Iterator<Item = Op> {
        let mut end = 0;
        self.pieces.iter().map(move |piece| {
            let at = end;
            end += piece.length();
            match *piece {
                Piece::Copy { from, length } => Op::Copy { at, from, length },
                Piece::Literal { length } => Op::Literal { at, length },
            }
        })
    }

    /// Length of the new version.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that have to be sent.
    pub fn literal(&self) -> u64 {
        self.literal
    }

    /// Does it stay within an old version of this size? To be asked of a foreign recipe before anything is
    /// written.
    pub fn fits(&self, old_size: u64) -> bool {
        self.pieces.iter().all(|piece| match piece {
            Piece::Copy { from, length } => from.checked_add(*length).is_some_and(|end| end <= old_size),
            Piece::Literal { .. } => true,
        })
    }
}

impl Piece {
    fn length(&self) -> u64 {
        match self {
            Piece::Copy { length, .. } | Piece::Literal { length } => *length,
        }
    }
}

impl From<Recipe> for Vec<Piece> {
    fn from(recipe: Recipe) -> Vec<Piece> {
        recipe.pieces
    }
}

impl TryFrom<Vec<Piece>> for Recipe {
    type Error = &'static str;

    fn try_from(pieces: Vec<Piece>) -> Result<Recipe, &'static str> {
        if pieces.len() > MAX_PIECES {
            return Err("a recipe of too many pieces");
        }
        let (mut size, mut literal) = (0u64, 0);
        for piece in &pieces {
            // Offsets in files are signed (off_t); below that nothing overflows.
            let sum = size.checked_add(piece.length()).filter(|sum| i64::try_from(*sum).is_ok());
            size = sum.ok_or("a recipe for a file that is too large")?;
            match piece {
                _ if piece.length() == 0 => return Err("a recipe with an empty piece"),
                Piece::Literal { length } => literal += length,
                Piece::Copy { .. } => {}
            }
        }
        Ok(Recipe { pieces, size, literal })
    }
}
