//! The text of a list, line by line and as often as it is needed, whatever its size.
//!
//! A short list is kept in memory: what becomes of its file meanwhile does not matter. A long one is read in
//! its place, twice, and [`Lines::digest`] tells whether it changed. The bytes of a pipe go into a file
//! without a name.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::OFlags;
use weir_codec::digest::{Algorithm, Digest};
use weir_units::Bytes;

use super::nameless_file;

/// A list of this size (40,000 URLs) is kept in memory.
const SHORT: u64 = 4 << 20;

/// What a pipe may give: three hundred million URLs.
const MAX_PIPED: Bytes = Bytes(32 << 30);

/// A line of more bytes names no URL that a server takes: most refuse more than 8 KiB.
pub const MAX_LINE: usize = 64 << 10;

/// Read at a time.
const PIECE: usize = 64 << 10;

/// A list's text.
#[derive(Debug)]
pub struct Text(TextPlace);

#[derive(Debug)]
enum TextPlace {
    Memory(Vec<u8>),
    File(File),
}

/// A line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// From 1.
    pub number: usize,
    /// Without its end; the first [`MAX_LINE`] bytes of one that is too long.
    pub bytes: &'a [u8],
    /// It is longer than that.
    pub is_too_long: bool,
}

impl Text {
    /// The text at `path`. One that comes out of a pipe must begin within ten seconds, and go on.
    pub fn open(path: &Path) -> io::Result<Text> {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        if path.metadata()?.is_file() {
            let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
            let there = file.metadata()?;
            if there.is_file() && there.len() > SHORT {
                return Ok(Text(TextPlace::File(file)));
            }
        }
        Text::read(weir_units::open_file(path)?)
    }

    /// The text that `from` gives, to its end.
    pub fn read(mut from: impl Read) -> io::Result<Text> {
        let mut bytes = Vec::new();
        from.by_ref().take(SHORT + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 <= SHORT {
            return Ok(Text(TextPlace::Memory(bytes)));
        }
        // A disk or /dev/zero, named by mistake.
        if bytes.contains(&0) || !bytes.iter().take(MAX_LINE).any(|byte| matches!(byte, b'\n' | b'\r')) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it holds no lines of text"));
        }
        let mut file = nameless_file()?;
        file.write_all(&bytes)?;
        drop(bytes);
        let left = MAX_PIPED.0 - SHORT;
        if io::copy(&mut from.take(left), &mut file)? == left {
            let why = format!("it is larger than {MAX_PIPED}; save it to a file and name that");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(Text(TextPlace::File(file)))
    }

    /// Its lines, from the first.
    pub fn lines(self: &Arc<Text>) -> Lines {
        Lines {
            text: Arc::clone(self),
            at: 0,
            piece: Vec::new(),
            used: 0,
            line: Vec::new(),
            number: 0,
            after_return: false,
            digest: Algorithm::SHA256.start(),
        }
    }

    fn read_at(&self, piece: &mut Vec<u8>, at: u64) -> io::Result<()> {
        piece.clear();
        match &self.0 {
            TextPlace::Memory(bytes) => {
                let from = usize::try_from(at).map_or(bytes.len(), |at| at.min(bytes.len()));
                piece.extend_from_slice(&bytes[from..bytes.len().min(from + PIECE)]);
            }
            TextPlace::File(file) => {
                piece.resize(PIECE, 0);
                let got = loop {
                    match file.read_at(piece, at) {
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        other => break other?,
                    }
                };
                piece.truncate(got);
            }
        }
        Ok(())
    }
}

/// The lines of a text, one after the other. LF, CRLF and CR end a line, as in [`weir_units::lines`].
pub struct Lines {
    text: Arc<Text>,
    at: u64,
    piece: Vec<u8>,
    used: usize,
    line: Vec<u8>,
    number: usize,
    /// The last line ended with a CR: a LF behind it belongs to that end.
    after_return: bool,
    digest: Box<dyn Digest>,
}

impl Lines {
    /// The next line; `None` at the end. An error too where the text is in another coding than UTF-8.
    #[allow(clippy::should_implement_trait, reason = "a line is borrowed from what reads it")]
    pub fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let (mut length, mut is_there) = (0, false);
        loop {
            if self.used == self.piece.len() && !self.fill()? {
                break;
            }
            if std::mem::take(&mut self.after_return) && self.piece[self.used] == b'\n' {
                self.used += 1;
                continue;
            }
            is_there = true;
            let rest = &self.piece[self.used..];
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let own = &rest[..end.unwrap_or(rest.len())];
            length += own.len();
            self.line.extend_from_slice(&own[..own.len().min(MAX_LINE - self.line.len())]);
            self.used += own.len();
            if end.is_some() {
                self.after_return = self.piece[self.used] == b'\r';
                self.used += 1;
                break;
            }
        }
        self.number += usize::from(is_there);
        let is_too_long = length > MAX_LINE;
        Ok(is_there.then_some(Line { number: self.number, bytes: &self.line, is_too_long }))
    }

    /// SHA-256 of what was read: of the whole text once [`Lines::next`] has said that there is no more.
    pub fn digest(self) -> Vec<u8> {
        self.digest.finish()
    }

    /// Reads on. False: there is no more.
    fn fill(&mut self) -> io::Result<bool> {
        self.text.read_at(&mut self.piece, self.at)?;
        self.digest.update(&self.piece);
        self.used = 0;
        if self.at == 0 {
            let marked = weir_units::list_bytes(&self.piece);
            let bare = marked.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            self.used = self.piece.len() - bare.len();
        }
        self.at += self.piece.len() as u64;
        Ok(self.used < self.piece.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(text: &[u8]) -> Vec<(usize, String)> {
        let text = Arc::new(Text::read(text).unwrap());
        let (mut lines, mut found) = (text.lines(), Vec::new());
        while let Some(line) = lines.next().unwrap() {
            found.push((line.number, String::from_utf8_lossy(line.bytes).into_owned()));
        }
        found
    }

    /// But for an empty line behind the last end, which means nothing.
    #[test]
    fn lines_are_those_of_a_whole_text() {
        for text in ["", "a", "a\nb\r\nc\rd\r\r\ne", "\n\n", "a\r", "\r\n\r\na\n", "\u{feff}a\nb"] {
            let mut whole: Vec<_> = weir_units::lines(text.strip_prefix('\u{feff}').unwrap_or(text))
                .map(|(number, line)| (number, line.to_owned()))
                .collect();
            if whole.last().is_some_and(|(_, line)| line.is_empty()) {
                whole.pop();
            }
            assert_eq!(lines_of(text.as_bytes()), whole, "{text:?}");
        }
        let error = Arc::new(Text::read(&b"\xff\xfeh\0"[..]).unwrap()).lines().next().unwrap_err();
        assert!(error.to_string().contains("UTF-16"), "{error}");
    }

    #[test]
    fn a_long_text_is_read_where_it_is_and_a_pipe_s_from_a_file() {
        let text: String = (0..400_000).map(|number| format!("http://host/{number}\r\n")).collect();
        assert!(text.len() as u64 > SHORT);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        std::fs::write(&path, &text).unwrap();
        let mut digests = Vec::new();
        for text in [Text::open(&path).unwrap(), Text::read(text.as_bytes()).unwrap()] {
            assert!(matches!(text.0, TextPlace::File(_)));
            let mut lines = Arc::new(text).lines();
            for number in 0..400_000 {
                let line = lines.next().unwrap().unwrap();
                assert_eq!(line.number, number + 1);
                assert_eq!(line.bytes, format!("http://host/{number}").as_bytes());
            }
            assert!(lines.next().unwrap().is_none());
            digests.push(lines.digest());
        }
        assert_eq!(digests[0], Algorithm::SHA256.of(text.as_bytes()));
        assert_eq!(digests[0], digests[1]);
    }

    #[test]
    fn what_is_no_list_fills_no_disk() {
        let error = Text::read(io::repeat(0)).unwrap_err();
        assert_eq!(error.to_string(), "it holds no lines of text");
        assert!(Text::read(io::repeat(b'a')).is_err());
        let long = [vec![b'a'; MAX_LINE + 1], b"\nb".to_vec()].concat();
        let mut lines = Arc::new(Text::read(&long[..]).unwrap()).lines();
        assert!(lines.next().unwrap().unwrap().is_too_long);
        assert_eq!(lines.next().unwrap().unwrap().bytes, b"b");
    }
}
