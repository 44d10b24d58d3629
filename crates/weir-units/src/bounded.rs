//! Files that people write, read whole: what is named by mistake (a disk, /dev/zero) must not fill the memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::Bytes;

/// All that `from` gives; an error where that is more than `most`, of which no more than one byte too many is read.
///
/// ```
/// use weir_units::{Bytes, read_up_to};
/// assert_eq!(read_up_to(&b"four"[..], Bytes(4)).unwrap(), b"four");
/// assert_eq!(read_up_to(std::io::repeat(0), Bytes(1000)).unwrap_err().to_string(), "it is larger than 1.00 KB");
/// ```
pub fn read_up_to(from: impl Read, most: Bytes) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most.0.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most.0 {
        true => Err(io::Error::new(io::ErrorKind::InvalidData, format!("it is larger than {most}"))),
        false => Ok(bytes),
    }
}

/// The file at `path`, of at most so many bytes.
pub fn read_file(path: &Path, most: Bytes) -> io::Result<Vec<u8>> {
    read_up_to(File::open(path)?, most)
}

/// The same as text; an error where it is not UTF-8.
pub fn read_text(path: &Path, most: Bytes) -> io::Result<String> {
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not text (UTF-8)");
    String::from_utf8(read_file(path, most)?).map_err(not_text)
}
