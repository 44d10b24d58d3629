//! Which parts of a file another version of it already holds, found by content-defined chunks.

use std::fs::File;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::name::Name;

/// What the side that has an old version says of it: the chunks it consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {}

/// How the new version comes from the old one and literal bytes: pieces that cover it from its first byte to its last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {}

/// A piece of the new version, at `at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// `len` bytes at `from` in the old version.
    Copy {
        /// Place in the new version.
        at: u64,
        /// Place in the old version.
        from: u64,
        /// Length.
        len: u64,
    },
    /// `len` bytes that have to be sent.
    Literal {
        /// Place in the new version.
        at: u64,
        /// Length.
        len: u64,
    },
}

impl Signature {
    /// Reads all of `file`.
    pub fn of(file: &File, name: &Name) -> Result<Signature, Error> {
        let _ = (file, name);
        unimplemented!()
    }

    /// Length of the file it was made of.
    pub fn size(&self) -> u64 {
        unimplemented!()
    }
}

/// Reads all of `file`, the new version, and says which pieces the old one holds.
pub fn missing(file: &File, name: &Name, old: &Signature) -> Result<Recipe, Error> {
    let _ = (file, name, old);
    unimplemented!()
}

impl Recipe {
    /// The pieces in order.
    pub fn ops(&self) -> impl Iterator<Item = Op> {
        std::iter::empty()
    }

    /// Length of the new version.
    pub fn size(&self) -> u64 {
        unimplemented!()
    }

    /// Bytes that have to be sent.
    pub fn literal(&self) -> u64 {
        unimplemented!()
    }

    /// Does it stay within an old version of this size? To be asked of a foreign recipe before anything is written.
    pub fn fits(&self, old_size: u64) -> bool {
        let _ = old_size;
        unimplemented!()
    }
}
