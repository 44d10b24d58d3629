//! Files of this host that may take minutes to be read: whoever reads one hears of its bytes as they come, so
//! that it can say that something moves, and ends the reading when it is told to.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use weir_get::sink::folder::Target;
use weir_get::sink::naming;

/// Hears of the next bytes. False: no more is to be read.
pub(crate) type Hears<'a> = dyn FnMut(&[u8]) -> bool + 'a;

/// Why a file that is held against another one was not read to its end.
#[derive(Debug)]
pub(crate) enum Unread {
    /// It was not to be.
    Ended,
    /// The file itself cannot be read, or has become shorter.
    Own(io::Error),
    /// The one that it is held against cannot.
    Other(io::Error),
}

/// A file, read from its start wherever others read and write it.
struct HeardFile<'a, 'h> {
    file: &'a File,
    at: u64,
    hears: &'a mut Hears<'h>,
    is_ended: bool,
    has_failed: bool,
}

impl<'a, 'h> HeardFile<'a, 'h> {
    fn new(file: &'a File, hears: &'a mut Hears<'h>) -> HeardFile<'a, 'h> {
        HeardFile { file, at: 0, hears, is_ended: false, has_failed: false }
    }

    fn unread(&self, error: io::Error) -> Unread {
        match (self.is_ended, self.has_failed) {
            (true, _) => Unread::Ended,
            (false, true) => Unread::Own(error),
            (false, false) => Unread::Other(error),
        }
    }
}

impl Read for HeardFile<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(into, self.at);
        // Whoever compares asks for no byte behind the end that the file had.
        self.has_failed = !matches!(read, Ok(1..));
        let length = read?;
        self.at += length as u64;
        if (self.hears)(&into[..length]) {
            return Ok(length);
        }
        self.is_ended = true;
        // Not `Interrupted`, after which it would be read again.
        Err(io::Error::other("it was told to end"))
    }
}

/// Whether `target` is a file of these `size` bytes of `file`.
pub(crate) fn has_content(
    target: &Target,
    file: &File,
    size: u64,
    hears: &mut Hears<'_>,
) -> Result<bool, Unread> {
    let mut own = HeardFile::new(file, hears);
    naming::has_content(target, &mut own, size).map_err(|error| own.unread(error))
}

/// Whether `there` begins with these `size` bytes of `file`.
pub(crate) fn is_same(file: &File, there: &File, size: u64, hears: &mut Hears<'_>) -> Result<bool, Unread> {
    let mut own = HeardFile::new(file, hears);
    let mut unheard = |_: &[u8]| true;
    naming::is_same(&mut own, &mut HeardFile::new(there, &mut unheard), size)
        .map_err(|error| own.unread(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_heard_of_and_can_be_ended() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        for path in [&one, &other] {
            std::fs::write(path, vec![7; 3 << 20]).unwrap();
        }
        let (file, there, target) =
            (File::open(&one).unwrap(), File::open(&other).unwrap(), Target::open(&other).unwrap());
        let size = 3 << 20;
        let mut heard = 0;
        let mut hears = |bytes: &[u8]| {
            heard += bytes.len() as u64;
            true
        };
        assert!(has_content(&target, &file, size, &mut hears).unwrap());
        assert!(is_same(&file, &there, size, &mut hears).unwrap());
        assert_eq!(heard, 2 * size, "each of its bytes, each time");
        let mut calls = 0;
        let mut ends = |_: &[u8]| {
            calls += 1;
            calls % 2 == 1
        };
        assert!(matches!(has_content(&target, &file, size, &mut ends), Err(Unread::Ended)));
        assert!(matches!(is_same(&file, &there, size, &mut ends), Err(Unread::Ended)));
        assert_eq!(calls, 4, "and no byte after that");
        std::fs::write(&one, "short").unwrap();
        assert!(matches!(is_same(&file, &there, size, &mut |_: &[u8]| true), Err(Unread::Own(_))));
    }
}
