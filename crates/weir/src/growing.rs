//! What a `weir get` of this machine writes, as `weir cp` sends it on while it grows.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use weir_cp::growth::{self, GrowingFile};
use weir_get::growing;

/// What is fetched.
#[derive(Debug)]
struct Fetched(growing::GrowingFile);

/// Finds the part of the file at `path`, or the file itself where it `is_whole`.
///
/// # Errors
/// What the system says.
pub fn find(path: &Path, is_whole: bool) -> io::Result<Option<Box<dyn GrowingFile>>> {
    let found = growing::GrowingFile::open(path, is_whole)?;
    Ok(found.map(|file| Box::new(Fetched(file)) as Box<dyn GrowingFile>))
}

impl GrowingFile for Fetched {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn file(&self) -> &File {
        self.0.file()
    }

    fn modified(&self) -> Option<SystemTime> {
        self.0.modified()
    }

    fn mode(&self) -> u32 {
        self.0.mode()
    }

    fn look(&self) -> io::Result<growth::Growth> {
        Ok(match self.0.look()? {
            growing::Growth::Has(there) => growth::Growth::Has(there.iter().collect()),
            growing::Growth::Named => growth::Growth::Named,
            growing::Growth::Gone => growth::Growth::Gone,
        })
    }
}
