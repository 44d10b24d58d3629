//! Content codings of HTTP (RFC 9110 section 8.4.1), decoded as the bytes come and in pieces as large as the
//! caller's buffer: a body that unpacks to a thousand times its size costs no more memory than any other.
//!
//! ```
//! use weir_codec::content::{Coding, Decoder, Pull};
//! let gzip = [31, 139, 8, 0, 0, 0, 0, 0, 0, 3, 203, 72, 205, 201, 201, 7, 0, 134, 166, 16, 54, 5, 0, 0, 0];
//! let mut decoder = Decoder::new(&[Coding::Gzip]);
//! let mut room = [0; 100];
//! assert_eq!(decoder.pull(&mut room).unwrap(), Pull::Needs);
//! decoder.push(&gzip);
//! assert_eq!(decoder.pull(&mut room).unwrap(), Pull::Bytes(5));
//! decoder.end();
//! assert_eq!(decoder.pull(&mut room).unwrap(), Pull::Done);
//! assert_eq!(&room[..5], b"hello");
//! ```

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use brotli::enc::StandardAlloc;
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use flate2::bufread::{DeflateDecoder, GzDecoder, ZlibDecoder};
use parking_lot::Mutex;
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// What a decoder takes of the one before it at a time.
const STEP: usize = 16 << 10;

/// The largest window of a zstd frame that is decoded, as a power of two: 8 MiB, which RFC 9659 allows a
/// sender.
const ZSTD_WINDOW: u32 = 23;

/// A coding that can be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// RFC 1952.
    Gzip,
    /// RFC 1950, or RFC 1951 alone, as some servers have it.
    Deflate,
    /// RFC 7932.
    Brotli,
    /// RFC 8878.
    Zstd,
}

impl Coding {
    /// The coding that HTTP calls `name`, in lower case.
    pub fn from_http_name(name: &str) -> Option<Coding> {
        match name {
            "gzip" | "x-gzip" => Some(Coding::Gzip),
            "deflate" => Some(Coding::Deflate),
            "br" => Some(Coding::Brotli),
            "zstd" => Some(Coding::Zstd),
            _ => None,
        }
    }
}

/// What [`Decoder::pull`] brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pull {
    /// So many bytes, at the front of the caller's buffer.
    Bytes(usize),
    /// Nothing until more is pushed.
    Needs,
    /// The end of the decoded bytes.
    Done,
}

/// A body's way back to what it was.
pub struct Decoder {
    feed: Arc<Mutex<Fed>>,
    /// All but the last, which read from one another.
    before: Vec<Stage>,
    /// What these had behind the end of the one after them, bytes.
    surplus: usize,
    last: Box<dyn Read + Send>,
}

/// What was pushed and not yet taken.
#[derive(Debug, Default)]
struct Fed {
    bytes: Vec<u8>,
    at: usize,
    any: bool,
    ended: bool,
}

impl Decoder {
    /// Undoes `codings` in this order: the one applied last comes first.
    pub fn new(codings: &[Coding]) -> Decoder {
        let feed = Arc::<Mutex<Fed>>::default();
        let mut last: Box<dyn Read + Send> = Box::new(Feed(Arc::clone(&feed)));
        let mut before = Vec::new();
        for (index, coding) in codings.iter().enumerate() {
            if index > 0 {
                let stage = Stage(Arc::new(Mutex::new(last)));
                before.push(stage.clone());
                last = Box::new(stage);
            }
            let from = BufReader::with_capacity(STEP, last);
            last = match coding {
                Coding::Gzip => Box::new(Gzip::new(from)),
                Coding::Deflate => Box::new(Deflate::Unknown(Some((from, Vec::new())))),
                Coding::Brotli => Box::new(Brotli::new(from)),
                Coding::Zstd => Box::new(Zstd::new(from)),
            };
        }
        Decoder { feed, before, surplus: 0, last }
    }

    /// More of the coded body.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut fed = self.fed();
        if fed.at == fed.bytes.len() {
            fed.bytes.clear();
            fed.at = 0;
        }
        fed.any |= !bytes.is_empty();
        fed.bytes.extend_from_slice(bytes);
    }

    /// There is no more of it.
    pub fn end(&mut self) {
        self.fed().ended = true;
    }

    /// Fills the front of `into`. An error is of a body that is malformed, or that ended too early
    /// ([`io::ErrorKind::UnexpectedEof`]); nothing can be pulled after it.
    pub fn pull(&mut self, into: &mut [u8]) -> io::Result<Pull> {
        // An empty body is an empty file, whatever it is said to be coded with.
        if self.fed().ended && !self.fed().any {
            return Ok(Pull::Done);
        }
        loop {
            let read = match self.last.read(into) {
                Ok(0) if !into.is_empty() => self.ends(),
                read => read,
            };
            return match read {
                Ok(0) => Ok(Pull::Done),
                Ok(length) => Ok(Pull::Bytes(length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Pull::Needs),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
        }
    }

    /// The last coding is at its end. The others have to come to theirs, where they say whether all was
    /// right: a checksum of the outer one stands behind the end of the inner one.
    fn ends(&mut self) -> io::Result<usize> {
        let mut rest = [0; 512];
        for stage in self.before.iter_mut().rev() {
            loop {
                match stage.read(&mut rest)? {
                    0 => break,
                    length => self.surplus += length,
                }
                if self.surplus > STEP {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "more bytes behind its end"));
                }
            }
        }
        Ok(0)
    }

    fn fed(&self) -> parking_lot::MutexGuard<'_, Fed> {
        self.feed.lock()
    }
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").finish_non_exhaustive()
    }
}

/// A decoder that another one reads from.
#[derive(Clone)]
struct Stage(Arc<Mutex<Box<dyn Read + Send>>>);

impl Read for Stage {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.lock().read(into)
    }
}

/// The front of the chain: blocks where nothing is there yet, as a socket would.
struct Feed(Arc<Mutex<Fed>>);

impl Read for Feed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut fed = self.0.lock();
        let length = into.len().min(fed.bytes.len() - fed.at);
        if length == 0 && !fed.ended && !into.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        into[..length].copy_from_slice(&fed.bytes[fed.at..fed.at + length]);
        fed.at += length;
        Ok(length)
    }
}

/// What a decoder reads from.
type Source = BufReader<Box<dyn Read + Send>>;

/// Gzip, member after member (RFC 1952 section 2.2). Zeros behind the last one are padding, as gzip(1) has
/// it.
struct Gzip {
    member: Option<GzDecoder<Source>>,
    /// What comes behind a member.
    behind: Option<Source>,
    is_padded: bool,
}

impl Gzip {
    fn new(from: Source) -> Gzip {
        Gzip { member: Some(GzDecoder::new(from)), behind: None, is_padded: false }
    }
}

impl Read for Gzip {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(member) = &mut self.member {
                match member.read(into)? {
                    0 => self.behind = self.member.take().map(GzDecoder::into_inner),
                    length => return Ok(length),
                }
            }
            let Some(behind) = &mut self.behind else { return Ok(0) };
            let next = behind.fill_buf()?;
            match next.first() {
                None => return Ok(0),
                Some(0) => {
                    let zeros = next.iter().take_while(|byte| **byte == 0).count();
                    behind.consume(zeros);
                    self.is_padded = true;
                }
                Some(_) if self.is_padded => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "more bytes behind its padding"));
                }
                Some(_) => self.member = self.behind.take().map(GzDecoder::new),
            }
        }
    }
}

/// `deflate` means the zlib format, and some servers send the bare one: the first two bytes tell (RFC 1950
/// section 2.2).
enum Deflate {
    Unknown(Option<(Source, Vec<u8>)>),
    Zlib(ZlibDecoder<io::Chain<io::Cursor<Vec<u8>>, Source>>),
    Bare(DeflateDecoder<io::Chain<io::Cursor<Vec<u8>>, Source>>),
}

impl Read for Deflate {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Deflate::Unknown(held) = self {
            let Some((from, front)) = held else { return Err(io::ErrorKind::UnexpectedEof.into()) };
            while front.len() < 2 {
                let mut byte = [0];
                match from.read(&mut byte)? {
                    0 => break,
                    _ => front.push(byte[0]),
                }
            }
            let is_zlib = matches!(front[..], [cmf, flags]
                if cmf & 15 == 8 && (u16::from(cmf) << 8 | u16::from(flags)).is_multiple_of(31));
            let Some((from, front)) = held.take() else { return Err(io::ErrorKind::UnexpectedEof.into()) };
            let whole = io::Cursor::new(front).chain(from);
            *self = match is_zlib {
                true => Deflate::Zlib(ZlibDecoder::new(whole)),
                false => Deflate::Bare(DeflateDecoder::new(whole)),
            };
        }
        match self {
            Deflate::Zlib(decoder) => decoder.read(into),
            Deflate::Bare(decoder) => decoder.read(into),
            Deflate::Unknown(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Brotli, whose window is 16 MiB at most (the "large window" extension is refused).
struct Brotli {
    from: Source,
    state: Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>,
    done: bool,
}

impl Brotli {
    fn new(from: Source) -> Brotli {
        let alloc = StandardAlloc::default;
        Brotli { from, state: Box::new(BrotliState::new_strict(alloc(), alloc(), alloc())), done: false }
    }
}

impl Read for Brotli {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut made = 0;
        while !self.done && made == 0 && !into.is_empty() {
            let input = self.from.fill_buf()?;
            let is_end = input.is_empty();
            let (mut left, mut read, mut room, mut total) = (input.len(), 0, into.len(), 0);
            let result = BrotliDecompressStream(
                &mut left,
                &mut read,
                input,
                &mut room,
                &mut made,
                into,
                &mut total,
                &mut self.state,
            );
            self.from.consume(read);
            match result {
                BrotliResult::ResultSuccess => self.done = true,
                BrotliResult::NeedsMoreOutput => {}
                BrotliResult::NeedsMoreInput if is_end && made == 0 => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                BrotliResult::NeedsMoreInput => {}
                BrotliResult::ResultFailure => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "corrupt brotli stream"));
                }
            }
        }
        Ok(made)
    }
}

/// Frames of zstd, one after another.
struct Zstd {
    from: Source,
    context: DCtx<'static>,
    /// Between two frames, where the body may end.
    is_between: bool,
}

impl Zstd {
    fn new(from: Source) -> Zstd {
        let mut context = DCtx::create();
        // Refused only for windows that this library does not know.
        let _ = context.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW));
        Zstd { from, context, is_between: true }
    }
}

impl Read for Zstd {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let input = self.from.fill_buf()?;
            let is_end = input.is_empty();
            if is_end && self.is_between || into.is_empty() {
                return Ok(0);
            }
            let mut given = InBuffer::around(input);
            let mut taken = OutBuffer::around(&mut *into);
            let hint = self.context.decompress_stream(&mut taken, &mut given).map_err(|code| {
                io::Error::new(io::ErrorKind::InvalidData, zstd_safe::get_error_name(code))
            })?;
            let (read, made) = (given.pos(), taken.pos());
            self.from.consume(read);
            self.is_between = hint == 0;
            if made > 0 {
                return Ok(made);
            }
            if is_end && hint != 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use proptest::prelude::*;

    use super::*;
    use crate::codec::Codec;

    #[test]
    fn members_follow_one_another_and_zeros_behind_the_last_are_padding() {
        let two = [coded(Coding::Gzip, b"he"), coded(Coding::Gzip, b"llo")].concat();
        for (behind, is_taken) in [(&b""[..], true), (&[0; 40], true), (&[0, 0, 7], false), (b"x", false)] {
            let mut decoder = Decoder::new(&[Coding::Gzip]);
            let mut coded = [&two[..], behind].concat().into_iter();
            let (mut found, mut room) = (Vec::new(), [0; 100]);
            let ended = loop {
                match decoder.pull(&mut room) {
                    Ok(Pull::Bytes(length)) => found.extend_from_slice(&room[..length]),
                    // Byte by byte: the end of a member tells nothing of what is to come.
                    Ok(Pull::Needs) => match coded.next() {
                        Some(byte) => decoder.push(&[byte]),
                        None => decoder.end(),
                    },
                    other => break other,
                }
            };
            assert_eq!(found, b"hello");
            assert_eq!(ended.is_ok_and(|end| end == Pull::Done), is_taken, "{behind:?}");
        }
    }

    fn coded(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let block = |name: &str, out: &mut Vec<u8>| {
            let codec = Codec::by_name(name).unwrap();
            codec.compress(codec.default_level(), bytes, out).unwrap();
        };
        match coding {
            Coding::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(&mut out, Compression::fast());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap();
            }
            Coding::Deflate => {
                let mut encoder = flate2::write::ZlibEncoder::new(&mut out, Compression::fast());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap();
            }
            Coding::Brotli => block("brotli", &mut out),
            Coding::Zstd => block("zstd", &mut out),
        }
        out
    }

    /// Decodes pieces of `piece` bytes with room for `room`.
    fn decoded(codings: &[Coding], bytes: &[u8], piece: usize, room: usize) -> io::Result<Vec<u8>> {
        let (mut decoder, mut out, mut room) = (Decoder::new(codings), Vec::new(), vec![0; room]);
        let mut pieces = bytes.chunks(piece);
        loop {
            match decoder.pull(&mut room)? {
                Pull::Bytes(length) => out.extend_from_slice(&room[..length]),
                Pull::Done => return Ok(out),
                Pull::Needs => match pieces.next() {
                    Some(piece) => decoder.push(piece),
                    None => decoder.end(),
                },
            }
        }
    }

    const ALL: [Coding; 4] = [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd];

    #[test]
    fn two_members_two_codings_and_the_bare_form() {
        let twice = [coded(Coding::Gzip, b"one"), coded(Coding::Gzip, b"two")].concat();
        assert_eq!(decoded(&[Coding::Gzip], &twice, 1, 10).unwrap(), b"onetwo");
        let frames = [coded(Coding::Zstd, b"one"), coded(Coding::Zstd, b"two")].concat();
        assert_eq!(decoded(&[Coding::Zstd], &frames, 1, 10).unwrap(), b"onetwo");
        let both = coded(Coding::Brotli, &coded(Coding::Gzip, b"both"));
        assert_eq!(decoded(&[Coding::Brotli, Coding::Gzip], &both, 2, 10).unwrap(), b"both");
        let mut bare = flate2::write::DeflateEncoder::new(Vec::new(), Compression::fast());
        bare.write_all(b"bare").unwrap();
        assert_eq!(decoded(&[Coding::Deflate], &bare.finish().unwrap(), 1, 10).unwrap(), b"bare");
    }

    #[test]
    fn a_cut_body_is_no_end_and_an_empty_one_is_empty() {
        for coding in ALL {
            let whole = coded(coding, &[7; 5000]);
            assert_eq!(decoded(&[coding], b"", 1, 10).unwrap(), b"", "{coding:?}");
            for cut in [1, whole.len() / 2, whole.len() - 1] {
                assert!(decoded(&[coding], &whole[..cut], 100, 100).is_err(), "{coding:?} cut at {cut}");
            }
        }
    }

    /// A checksum stands behind the end of what is coded within.
    #[test]
    fn what_is_wrong_behind_the_inner_end_is_found_however_the_body_is_cut() {
        for inner in ALL {
            let codings = [Coding::Gzip, inner];
            let whole = coded(Coding::Gzip, &coded(inner, b"the file"));
            let mut wrong = whole.clone();
            wrong[whole.len() - 8] ^= 1;
            let mut longer = coded(inner, b"the file");
            longer.resize(longer.len() + 2 * STEP, 7);
            let longer = coded(Coding::Gzip, &longer);
            for piece in 1..=whole.len() {
                assert_eq!(decoded(&codings, &whole, piece, 100).unwrap(), b"the file", "{inner:?}");
                for odd in [&wrong[..], &whole[..whole.len() - 1], &whole[..whole.len() - 8], &longer] {
                    assert!(decoded(&codings, odd, piece, 100).is_err(), "{inner:?} in pieces of {piece}");
                }
            }
        }
        // As a fuzzer found it: an error of the outer one behind the end of the inner one.
        let found = [
            18, 38, 18, 18, 18, 5, 18, 237, 255, 156, 255, 112, 42, 0, 1, 42, 113, 33, 136, 0, 0, 6, 42, 18,
            1, 18, 18, 237, 18, 138, 18, 112, 138, 33, 197, 219, 255, 187, 15, 0, 255, 42, 0, 1, 84,
        ];
        for piece in 1..=found.len() {
            assert!(decoded(&[Coding::Deflate; 2], &found, piece, 100).is_err(), "{piece}");
        }
    }

    #[test]
    fn a_bomb_comes_in_small_pieces() {
        let zeros = vec![0; crate::codec::LONGEST];
        for coding in ALL {
            let bomb = coded(coding, &zeros);
            let (mut decoder, mut room, mut total) = (Decoder::new(&[coding]), vec![0; 64 << 10], 0);
            decoder.push(&bomb);
            decoder.end();
            while let Pull::Bytes(length) = decoder.pull(&mut room).unwrap() {
                total += length;
            }
            assert_eq!(total, zeros.len(), "{coding:?}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>, piece in 1usize..20) {
            for coding in ALL {
                let _ = decoded(&[coding], &bytes, piece, 32);
            }
        }

        #[test]
        fn what_is_coded_comes_back(bytes: Vec<u8>, piece in 1usize..50, room in 1usize..50) {
            for coding in ALL {
                prop_assert_eq!(&decoded(&[coding], &coded(coding, &bytes), piece, room).unwrap(), &bytes);
            }
        }
    }
}
