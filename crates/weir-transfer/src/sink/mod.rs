//! Where bytes end up: a part file that becomes the file, a small file in one piece, or stdout in order.

pub mod part_file;
pub mod read_ahead;
pub mod small_file;
pub mod stdout;

pub use part_file::PartFile;
pub use stdout::Stdout;

use crate::error::Error;

/// The sink of one bulk object.
#[derive(Debug)]
pub enum Sink {
    /// Random places in a `.part` file.
    Part(PartFile),
    /// In order, through a bounded window.
    Stdout(Stdout),
}

impl Sink {
    /// Puts `pieces` at `offset`.
    pub fn write_at(&self, offset: u64, pieces: &mut [std::io::IoSlice<'_>]) -> Result<(), Error> {
        match self {
            Sink::Part(part) => part.write_at(offset, pieces),
            Sink::Stdout(stdout) => stdout.write_at(offset, pieces),
        }
    }

    /// The part file, if it is one.
    pub fn part(&self) -> Option<&PartFile> {
        match self {
            Sink::Part(part) => Some(part),
            Sink::Stdout(_) => None,
        }
    }
}
