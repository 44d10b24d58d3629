//! How the new version comes from the old one.

use std::fs::File;

use serde::{Deserialize, Serialize};

use super::chunks::{self, Chunk};
use super::signature::Signature;
use crate::error::Error;
use crate::name::Name;

/// Most pieces in a recipe; what would need more is sent. About 10 bytes each on the wire.
const MAX_PIECES: usize = 1 << 20;

/// How the new version comes from the old one and literal bytes: pieces that cover it from its first byte to its last.
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
pub fn missing(file: &File, name: &Name, old: &Signature) -> Result<Recipe, Error> {
    let index = Index::new(&old.chunks);
    let mut recipe = Recipe::default();
    // The old chunk after the last one that was found: nearly always the one that comes next.
    let mut next = 0;
    chunks::read(file, name, old.bits, |chunk| {
        let found = index.find(&chunk, next).filter(|_| recipe.pieces.len() < MAX_PIECES - 1);
        let length = u64::from(chunk.length);
        recipe.push(match found {
            Some(found) => {
                next = found + 1;
                Piece::Copy { from: index.starts[found], length }
            }
            None => Piece::Literal { length },
        });
        true
    })?;
    Ok(recipe)
}

/// The old chunks by their digests: 12 bytes a chunk beside the signature.
struct Index<'a> {
    chunks: &'a [Chunk],
    starts: Vec<u64>,
    /// Numbers of chunks in the order of their digests.
    order: Vec<u32>,
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
        let mut order: Vec<u32> = (0..chunks.len() as u32).collect();
        order.sort_unstable_by_key(|number| chunks[*number as usize].digest);
        Index { chunks, starts, order }
    }

    fn find(&self, wanted: &Chunk, next: usize) -> Option<usize> {
        if self.chunks.get(next) == Some(wanted) {
            return Some(next);
        }
        let place = self.order.partition_point(|number| self.chunks[*number as usize].digest < wanted.digest);
        let number = *self.order.get(place)? as usize;
        (self.chunks[number] == *wanted).then_some(number)
    }
}

impl Recipe {
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

    /// Does it stay within an old version of this size? To be asked of a foreign recipe before anything is written.
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
