//! Files that people name, read whole: what is named by mistake (a disk, /dev/zero, a pipe that nobody writes
//! to) must neither fill the memory nor be waited for without end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

use crate::Bytes;

/// How long a pipe or a terminal may be silent. A shell's `<(command)` is a pipe too, so it is not refused at
/// once.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// All that `from` gives; an error where that is more than `most`, of which no more than one byte too many is
/// read.
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
    read_up_to(open_file(path)?, most)
}

/// The same as text; an error where it is not UTF-8.
pub fn read_text(path: &Path, most: Bytes) -> io::Result<String> {
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not text (UTF-8)");
    String::from_utf8(read_file(path, most)?).map_err(not_text)
}

/// Opens the file at `path` to be read from front to back, without waiting for a writer; a pipe or a terminal
/// that stays silent for ten seconds is an error of the read. How much there is to read is not bounded.
pub fn open_file(path: &Path) -> io::Result<impl Read + use<>> {
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(Patient { may_wait: !kind.is_file(), file })
}

/// A file that is waited for with a deadline.
struct Patient {
    file: File,
    may_wait: bool,
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // A pipe without a writer would be at its end: it is asked only when it has something to say, if
            // only that.
            if self.may_wait {
                let timeout = Timespec::try_from(IDLE_TIMEOUT).map_err(io::Error::other)?;
                let ready = poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&timeout));
                match ready {
                    Err(rustix::io::Errno::INTR) => continue,
                    Ok(0) => return Err(silent()),
                    ready => ready?,
                };
            }
            match self.file.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.may_wait = true,
                read => return read,
            }
        }
    }
}

fn silent() -> io::Error {
    let why = format!("it is a pipe or device, and gave nothing within {} s", IDLE_TIMEOUT.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, why)
}
