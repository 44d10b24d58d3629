//! A body that was coded for the journey, handed on as what it was before (`--compressed`).

use weir_codec::content::{Coding, Decoder, Pull};
use weir_units::Bytes;

use crate::error::GetError;
use crate::http::connection::Dial;
use crate::http::exchange::Exchange;
use weir_observe::stage_clock::StageClock;

/// What is decoded before it is handed on.
const ROOM: usize = 256 << 10;

/// What is asked of the socket at once: little beside what it may unpack to.
const PIECE: usize = 64 << 10;

/// Bytes behind the end of the coded ones that are passed over; some servers pad.
const MOST_BEHIND: u64 = 64 << 10;

/// A coded body and its decoder.
pub struct Decoded {
    host: String,
    /// The `Content-Encoding` that the user wants undone; `None`: it is coded for the journey alone.
    coding: Option<String>,
    coded: Exchange,
    decoder: Decoder,
    room: Vec<u8>,
    filled: usize,
    got: u64,
    /// Bytes that have come over the wire since the last [`Decoded::take_fed`].
    fed: u64,
    is_end: bool,
}

impl Decoded {
    /// The body of `coded` without `codings`, the last applied first.
    pub fn new(host: &str, coded: Exchange, codings: &[Coding]) -> Decoded {
        let (decoder, room) = (Decoder::new(codings), vec![0; ROOM]);
        let host = host.to_owned();
        Decoded { host, coding: None, coded, decoder, room, filled: 0, got: 0, fed: 0, is_end: false }
    }

    /// The same of an object that its server has `coding`, which can be saved as it comes as well.
    pub(crate) fn of_content(self, coding: String) -> Decoded {
        Decoded { coding: Some(coding), ..self }
    }

    /// The `Content-Encoding` that is undone.
    pub(crate) fn coding(&self) -> Option<&str> {
        self.coding.as_deref()
    }

    /// As [`Exchange::fill`].
    pub fn fill(&mut self, enough: usize, clock: &StageClock, dial: &Dial<'_>) -> Result<usize, GetError> {
        self.filled = 0;
        let most = enough.min(self.room.len());
        while self.filled < most && !self.is_end {
            match self.decoder.pull(&mut self.room[self.filled..most]) {
                Ok(Pull::Bytes(length)) => self.filled += length,
                Ok(Pull::Done) => self.end(clock, dial)?,
                // Hand on what is there rather than wait for more.
                Ok(Pull::Needs) if self.filled > 0 => break,
                Ok(Pull::Needs) => self.feed(clock, dial)?,
                Err(error) => return Err(self.failed(&error)),
            }
        }
        self.got += self.filled as u64;
        Ok(self.filled)
    }

    /// The bytes of the last fill.
    pub fn piece(&self) -> &[u8] {
        &self.room[..self.filled]
    }

    /// The body has been read to its end.
    pub fn is_end(&self) -> bool {
        self.is_end
    }

    /// The coded body, for its connection.
    pub(crate) fn into_coded(self) -> Exchange {
        self.coded
    }

    /// The body under it.
    pub fn coded(&self) -> &Exchange {
        &self.coded
    }

    /// Bytes that have come over the wire since the last call.
    pub(crate) fn take_fed(&mut self) -> u64 {
        std::mem::take(&mut self.fed)
    }

    /// More of the coded body: so many bytes.
    fn more(&mut self, clock: &StageClock, dial: &Dial<'_>) -> Result<u64, GetError> {
        let got = self.coded.fill(PIECE, clock, dial)? as u64;
        self.fed += self.coded.on_the_wire(got);
        Ok(got)
    }

    fn feed(&mut self, clock: &StageClock, dial: &Dial<'_>) -> Result<(), GetError> {
        if self.coded.is_end() || self.more(clock, dial)? == 0 {
            self.decoder.end();
        } else {
            for piece in self.coded.pieces() {
                self.decoder.push(piece);
            }
        }
        Ok(())
    }

    /// The decoder is through. The answer may not be, and one that is cut short is no whole one.
    fn end(&mut self, clock: &StageClock, dial: &Dial<'_>) -> Result<(), GetError> {
        let mut behind = 0;
        while !self.coded.is_end() {
            let got = self.more(clock, dial)?;
            behind += got;
            if got == 0 {
                break;
            }
            if behind > MOST_BEHIND {
                let detail = format!("more than {} behind the end of its coded body", Bytes(MOST_BEHIND));
                return Err(GetError::Malformed { host: self.host.clone(), detail });
            }
        }
        self.is_end = true;
        Ok(())
    }

    fn failed(&self, error: &std::io::Error) -> GetError {
        let host = self.host.clone();
        if error.kind() == std::io::ErrorKind::UnexpectedEof {
            let expected = "a coded body without its end".to_owned();
            return GetError::Truncated { host, got: Bytes(self.got + self.filled as u64), expected };
        }
        let way_out = match &self.coding {
            Some(_) => "; without --compressed it is saved as it comes",
            None => "",
        };
        GetError::Malformed { host, detail: format!("its coded body cannot be decoded: {error}{way_out}") }
    }
}
