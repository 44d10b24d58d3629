//! How a `/proc` or `/sys` file is read again and again without opening it again.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::error::{Malformed, ObserveError};

/// A kernel file kept open, with the buffer that it is read into.
#[derive(Debug)]
pub(crate) struct ProcFile {
    file: File,
    path: String,
    buffer: Vec<u8>,
}

impl ProcFile {
    pub(crate) fn open(path: impl Into<String>) -> Result<ProcFile, ObserveError> {
        let path = path.into();
        match File::open(&path) {
            Ok(file) => Ok(ProcFile { file, path, buffer: Vec::new() }),
            Err(cause) => Err(ObserveError::unreadable(path, cause)),
        }
    }

    /// What the file says now, through `parse`.
    pub(crate) fn read<T>(
        &mut self,
        parse: impl FnOnce(&str) -> Result<T, Malformed>,
    ) -> Result<T, ObserveError> {
        let length = self.fill().map_err(|cause| ObserveError::unreadable(self.path.as_str(), cause))?;
        // A process may give itself a name that is not UTF-8, and /proc/self/status prints it.
        parse(&String::from_utf8_lossy(&self.buffer[..length]))
            .map_err(|found| ObserveError::Unexpected { what: self.path.clone(), found })
    }

    /// Reads from the start to the end of file: a seq_file hands over at most its own buffer (often one page)
    /// a call (fs/seq_file.c, seq_read_iter), and offset 0 makes it print anew.
    fn fill(&mut self) -> io::Result<usize> {
        let mut length = 0;
        loop {
            if self.buffer.len() - length < 4096 {
                self.buffer.resize(self.buffer.len() + 8192, 0);
            }
            match self.file.read_at(&mut self.buffer[length..], length as u64) {
                Ok(0) => return Ok(length),
                Ok(n) => length += n,
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(err) => return Err(err),
            }
        }
    }
}

/// For what is read once in a run.
pub(crate) fn read_once<T>(
    path: &str,
    parse: impl FnOnce(&str) -> Result<T, Malformed>,
) -> Result<T, ObserveError> {
    ProcFile::open(path)?.read(parse)
}

/// One unsigned number; `name` says which when it is not one.
pub(crate) fn number(name: &str, text: Option<&str>) -> Result<u64, Malformed> {
    let Some(text) = text else { return Err(Malformed(format!("no {name}"))) };
    text.trim().parse().map_err(|_| Malformed(format!("{name} is '{}', not a number", text.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_longer_than_the_buffer_is_read_whole_and_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("long");
        std::fs::write(&path, "a".repeat(50_000)).unwrap();
        let mut file = ProcFile::open(path.to_str().unwrap()).unwrap();
        assert_eq!(file.read(|text| Ok(text.len())).unwrap(), 50_000);
        std::fs::write(&path, "b").unwrap();
        assert_eq!(file.read(|text| Ok(text.to_owned())).unwrap(), "b");
    }

    #[test]
    fn failures_name_the_file() {
        let err = ProcFile::open("/proc/no-such-file").unwrap_err();
        assert_eq!(err.to_string(), "cannot read /proc/no-such-file: no such file or directory");
        let err = read_once("/proc/uptime", |text| number("uptime", text.split('.').nth(9))).unwrap_err();
        assert_eq!(err.to_string(), "unexpected /proc/uptime: no uptime");
    }

    #[test]
    fn numbers_say_what_was_there_instead() {
        assert_eq!(number("quota", Some(" 42\n")), Ok(42));
        assert_eq!(number("quota", Some("max")), Err(Malformed("quota is 'max', not a number".into())));
    }
}
