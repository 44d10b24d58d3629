//! What is sent: a file, read where each part lies, or a stream, of which each part is held until the store
//! has it.
//!
//! A part of a file is read twice, once for its digest and once to be sent: the second time it is in memory
//! already, and no lane needs a buffer of a part's size.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use weir_codec::digest::{Algorithm, Digest};
use weir_get::GetError;
use weir_get::http::call::Content;
use weir_get::http::connection::Dial;
use weir_observe::stage_clock::{Stage, StageClock};
use weir_units::limiter::Limiter;

use super::Sum;
use crate::error::StoreError;

/// Read at once for a digest: stays in a core's cache.
const PIECE: usize = 256 << 10;

/// The largest part of a stream that is held in memory; larger ones are held in a file without a name.
pub const HELD: u64 = 16 << 20;

/// Which file it is, and in which state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    device: u64,
    inode: u64,
    /// Bytes.
    pub size: u64,
    modified: (i64, i64),
}

impl Identity {
    /// Of an object of another store, which a validator tells from others.
    pub fn of_size(size: u64) -> Identity {
        Identity { size, ..Identity::default() }
    }

    /// Of an open file.
    pub fn of(file: &File) -> io::Result<Identity> {
        let data = file.metadata()?;
        Ok(Identity {
            device: data.dev(),
            inode: data.ino(),
            size: data.size(),
            modified: (data.mtime(), data.mtime_nsec()),
        })
    }
}

/// A file that must not change while it is sent.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    shown: String,
    identity: Identity,
}

impl FileSource {
    /// Opens `path`, which has to be a file.
    pub fn open(path: &Path) -> Result<FileSource, StoreError> {
        let shown = path.display().to_string();
        // A pipe without a writer is opened at once, and refused below: otherwise this waits, and hears no
        // signal. On a file the flag changes nothing.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let opened = File::options().read(true).custom_flags(flags).open(path);
        let file = opened.map_err(|error| cannot_read(&shown, &error))?;
        let is_file = file.metadata().is_ok_and(|data| data.is_file());
        if !is_file {
            return Err(StoreError::Source(format!("cannot send {shown}: it is no file")));
        }
        let identity = Identity::of(&file).map_err(|error| cannot_read(&shown, &error))?;
        // The parts of several lanes are no one stream, but each is.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Sequential);
        Ok(FileSource { file, shown, identity })
    }

    /// As it was when it was opened.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// An error if it is not as it was when it was opened.
    pub fn check(&self) -> Result<(), StoreError> {
        match Identity::of(&self.file) {
            Ok(now) if now == self.identity => Ok(()),
            Ok(_) => Err(StoreError::Changed(self.shown.clone())),
            Err(error) => Err(cannot_read(&self.shown, &error)),
        }
    }
}

fn cannot_read(shown: &str, error: &io::Error) -> StoreError {
    StoreError::Source(format!("cannot read {shown}: {}", weir_units::plain(error)))
}

/// Where a part's bytes are.
#[derive(Debug)]
enum PiecePlace<'a> {
    File(&'a File),
    Memory(&'a [u8]),
}

/// How a lane sends.
#[derive(Clone, Copy)]
pub struct Sending<'a> {
    /// Where its time goes.
    pub clock: &'a StageClock,
    /// `--limit-rate`.
    pub limiter: Option<&'a Limiter>,
    /// How long it may sleep, and who stops it.
    pub dial: &'a Dial<'a>,
    /// Hears of each piece that goes out, and that it has to go out again (negative).
    pub moved: &'a dyn Fn(i64),
}

/// A [`Cut`], as the content of a request.
pub struct Piece<'a> {
    place: PiecePlace<'a>,
    start: u64,
    length: u64,
    shown: &'a str,
    sent: u64,
    sending: Sending<'a>,
}

/// What of a source goes into one request.
#[derive(Debug, Clone, Copy)]
pub enum Cut<'a> {
    /// Of a file: from where on, and how much.
    File(&'a FileSource, u64, u64),
    /// What is held of a stream.
    Held(&'a Held),
}

impl<'a> Cut<'a> {
    /// Bytes.
    pub fn length(&self) -> u64 {
        match self {
            Cut::File(_, _, length) => *length,
            Cut::Held(held) => held.length,
        }
    }

    /// An error if it is not what it was at first.
    pub fn check(&self) -> Result<(), StoreError> {
        match self {
            Cut::File(source, ..) => source.check(),
            Cut::Held(_) => Ok(()),
        }
    }

    /// It, as the content of a request.
    pub fn piece<'b>(&self, sending: Sending<'b>) -> Piece<'b>
    where
        'a: 'b,
    {
        let (place, start, shown) = match *self {
            Cut::File(source, start, _) => (PiecePlace::File(&source.file), start, source.shown.as_str()),
            Cut::Held(Held { spilled: Some(file), .. }) => (PiecePlace::File(file), 0, STDIN),
            Cut::Held(held) => (PiecePlace::Memory(&held.bytes), 0, STDIN),
        };
        Piece { place, start, length: self.length(), shown, sent: 0, sending }
    }
}

/// What the stream is called.
const STDIN: &str = "standard input";

impl Piece<'_> {
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> Result<usize, GetError> {
        let wanted = buffer.len().min(usize::try_from(self.length - at).unwrap_or(usize::MAX));
        match self.place {
            PiecePlace::Memory(bytes) => {
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                buffer[..wanted].copy_from_slice(&bytes[at..at + wanted]);
                Ok(wanted)
            }
            PiecePlace::File(file) => loop {
                match file.read_at(&mut buffer[..wanted], self.start + at) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(GetError::Refused(cannot_read(self.shown, &error).to_string())),
                    Ok(length) => return Ok(length),
                }
            },
        }
    }

    /// The digest of all of it.
    pub fn sum(&self, algorithm: Algorithm) -> Result<Sum, StoreError> {
        let mut digest = algorithm.start();
        let mut buffer = vec![0; PIECE.min(usize::try_from(self.length).unwrap_or(PIECE))];
        let mut at = 0;
        while at < self.length {
            if self.sending.dial.is_stopped() {
                return Err(GetError::Interrupted.into());
            }
            self.sending.clock.enter(Stage::Read);
            let length = self.read_at(at, &mut buffer)?;
            if length == 0 {
                return Err(StoreError::Changed(self.shown.to_owned()));
            }
            self.sending.clock.enter(Stage::Verify);
            digest.update(&buffer[..length]);
            at += length as u64;
        }
        self.sending.clock.enter(Stage::Other);
        Ok(Sum { algorithm, value: digest.finish() })
    }
}

impl Content for Piece<'_> {
    fn length(&self) -> u64 {
        self.length
    }

    fn rewind(&mut self) -> Result<(), GetError> {
        (self.sending.moved)(-i64::try_from(self.sent).unwrap_or(i64::MAX));
        self.sent = 0;
        Ok(())
    }

    fn next(&mut self, buffer: &mut [u8]) -> Result<usize, GetError> {
        let most = self.sending.limiter.map_or(buffer.len(), |limiter| limiter.piece(buffer.len()));
        let length = self.read_at(self.sent, &mut buffer[..most])?;
        let (clock, dial) = (self.sending.clock, self.sending.dial);
        let sleep = |span| {
            clock.enter(Stage::Limited);
            dial.sleep(span);
            clock.enter(Stage::Read);
            !dial.is_stopped()
        };
        if self.sending.limiter.is_some_and(|limiter| !limiter.hold(length as u64, sleep)) {
            return Err(GetError::Interrupted);
        }
        self.sent += length as u64;
        (self.sending.moved)(i64::try_from(length).unwrap_or(i64::MAX));
        Ok(length)
    }
}

/// A part of a stream.
#[derive(Debug, Default)]
pub struct Held {
    bytes: Vec<u8>,
    spilled: Option<File>,
    /// Bytes.
    pub length: u64,
    /// The stream has ended with it.
    pub is_last: bool,
}

impl Held {
    /// The next `length` bytes of `stream`, or what is left of it. A signal is heard while it brings nothing.
    pub fn read(
        stream: &mut Stream,
        length: u64,
        clock: &StageClock,
        dial: &Dial<'_>,
    ) -> Result<Held, StoreError> {
        let mut held = Held::default();
        if length > HELD {
            held.spilled = Some(unnamed_file().map_err(|error| cannot_hold(&error))?);
        }
        let mut buffer = match &held.spilled {
            Some(_) => vec![0; PIECE],
            None => Vec::new(),
        };
        clock.enter(stream.stage());
        while held.length < length {
            let left = usize::try_from(length - held.length).unwrap_or(usize::MAX);
            let into = match &held.spilled {
                Some(_) => &mut buffer[..left.min(PIECE)],
                None => {
                    let at = held.bytes.len();
                    held.bytes.resize(at + left.min(PIECE), 0);
                    &mut held.bytes[at..]
                }
            };
            let room = into.len();
            let got = stream.read(into, dial)?;
            match &mut held.spilled {
                Some(file) => {
                    file.write_all(&buffer[..got]).map_err(|error| cannot_hold(&error))?;
                }
                None => held.bytes.truncate(held.bytes.len() - (room - got)),
            }
            held.length += got as u64;
            if got == 0 {
                held.is_last = true;
                break;
            }
        }
        clock.enter(Stage::Other);
        Ok(held)
    }
}

impl Held {
    /// `length` bytes that `fetch` brings, in pieces of at most `piece`: it is told where one begins, and how
    /// long it is.
    pub(super) fn fetched(
        length: u64,
        piece: u64,
        mut fetch: impl FnMut(u64, u64) -> Result<Vec<u8>, StoreError>,
    ) -> Result<Held, StoreError> {
        let mut held = Held { length, ..Held::default() };
        if length > HELD {
            held.spilled = Some(unnamed_file().map_err(|error| cannot_hold(&error))?);
        }
        let mut at = 0;
        while at < length {
            let bytes = fetch(at, piece.min(length - at))?;
            at += bytes.len() as u64;
            match &mut held.spilled {
                Some(file) => file.write_all(&bytes).map_err(|error| cannot_hold(&error))?,
                None if held.bytes.is_empty() => held.bytes = bytes,
                None => held.bytes.extend_from_slice(&bytes),
            }
        }
        Ok(held)
    }

    /// Its digest.
    pub(super) fn digest(&self, algorithm: Algorithm) -> Result<Vec<u8>, StoreError> {
        let mut digest = algorithm.start();
        self.feed(&mut *digest)?;
        Ok(digest.finish())
    }

    /// Has `digest` take its bytes.
    pub(super) fn feed(&self, digest: &mut dyn Digest) -> Result<(), StoreError> {
        let Some(file) = &self.spilled else {
            digest.update(&self.bytes);
            return Ok(());
        };
        let (mut buffer, mut at) = (vec![0; PIECE], 0);
        while at < self.length {
            let got = file.read_at(&mut buffer, at).map_err(|error| cannot_hold(&error))?;
            if got == 0 {
                return Err(cannot_hold(&io::ErrorKind::UnexpectedEof.into()));
            }
            digest.update(&buffer[..got]);
            at += got as u64;
        }
        Ok(())
    }
}

fn cannot_hold(error: &io::Error) -> StoreError {
    StoreError::Source(format!(
        "cannot hold a part in {}: {}; free space, or name another folder (TMPDIR)",
        std::env::temp_dir().display(),
        weir_units::plain(error)
    ))
}

/// A file in `$TMPDIR` that nobody sees and that ends with this process.
pub(crate) fn unnamed_file() -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(open(std::env::temp_dir(), flags, Mode::RUSR | Mode::WUSR).map(File::from)?)
}

/// A stream whose reads end when the run does.
#[derive(Debug)]
pub struct Stream(File);

impl Stream {
    /// This process's standard input.
    pub fn stdin() -> io::Result<Stream> {
        Ok(Stream(File::from(io::stdin().as_fd().try_clone_to_owned()?)))
    }

    /// What a lane does while it waits for it: of a file that stands for standard input its disk is waited
    /// for, else the program that writes it.
    pub fn stage(&self) -> Stage {
        let is_file = self.0.metadata().is_ok_and(|data| data.is_file());
        if is_file { Stage::Read } else { Stage::Input }
    }

    fn read(&mut self, into: &mut [u8], dial: &Dial<'_>) -> Result<usize, StoreError> {
        /// Between two looks whether it is still wanted.
        const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        loop {
            if dial.is_stopped() {
                return Err(GetError::Interrupted.into());
            }
            let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
            match poll(&mut polled, Some(&POLL_INTERVAL)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                _ => {}
            }
            match rustix::io::read(&self.0, &mut *into) {
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(error) => return Err(cannot_read(STDIN, &error.into())),
                Ok(length) => return Ok(length),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    #[test]
    fn a_stream_is_held_in_pieces_in_memory_and_in_a_file() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number >> 3) as u8).collect();
        file.write_all(&bytes).unwrap();
        rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)).unwrap();
        let mut stream = Stream(file);
        let (clock, stop) = (StageClock::new(Instant::now()), AtomicBool::new(false));
        let dial = Dial::new(Duration::from_secs(1), [&stop, &stop]);
        let sending = Sending { clock: &clock, limiter: None, dial: &dial, moved: &|_| {} };
        let first = Held::read(&mut stream, 1_000_001, &clock, &dial).unwrap();
        let rest = Held::read(&mut stream, HELD + 1, &clock, &dial).unwrap();
        assert_eq!((first.length, first.is_last, first.spilled.is_some()), (1_000_001, false, false));
        assert_eq!((rest.length, rest.is_last, rest.spilled.is_some()), (1_999_999, true, true));
        for (held, expected) in [(&first, &bytes[..1_000_001]), (&rest, &bytes[1_000_001..])] {
            let mut piece = Cut::Held(held).piece(sending);
            assert_eq!(piece.sum(Algorithm::MD5).unwrap().value, Algorithm::MD5.of(expected));
            for _ in 0..2 {
                let (mut got, mut buffer) = (Vec::new(), vec![0; 70_000]);
                while got.len() < expected.len() {
                    let length = piece.next(&mut buffer).unwrap();
                    got.extend_from_slice(&buffer[..length]);
                }
                assert!(got == expected);
                piece.rewind().unwrap();
            }
        }
    }

    #[test]
    fn a_file_that_grows_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, "abc").unwrap();
        let source = FileSource::open(&path).unwrap();
        source.check().unwrap();
        std::fs::write(&path, "abcd").unwrap();
        assert!(matches!(source.check(), Err(StoreError::Changed(_))));
        assert!(FileSource::open(folder.path()).is_err());
    }
}
