//! A body of several parts, handed on as it comes, and refused where it is not what was asked for.

use url::Url;
use weir_http::multipart::Parts;
use weir_units::Bytes;

use crate::error::GetError;
use crate::http::connection::Dial;
use crate::http::exchange::Exchange;
use crate::http::window::Several;
use crate::object;
use weir_observe::stage_clock::StageClock;

/// A body and what is read of it.
pub struct CheckedParts {
    host: String,
    body: Exchange,
    parts: Parts,
    asked: Several,
    got: u64,
}

impl CheckedParts {
    /// `body`, an answer from `url` to a request for the ranges `asked`, whose parts are divided by
    /// `boundary`.
    pub fn within(body: Exchange, boundary: &str, asked: &Several, url: &Url) -> Exchange {
        let host = object::host_of(url);
        let (parts, asked) = (Parts::new(boundary), asked.clone());
        Exchange::Parts(Box::new(CheckedParts { host, body, parts, asked, got: 0 }))
    }

    /// As [`Exchange::fill`].
    pub fn fill(&mut self, enough: usize, clock: &StageClock, dial: &Dial<'_>) -> Result<usize, GetError> {
        let got = self.body.fill(enough, clock, dial)?;
        self.got += got as u64;
        let mut foreign = None;
        for piece in self.body.pieces() {
            let read = self.parts.read(piece, |range| {
                if !self.asked.has(range) {
                    foreign = Some(range);
                }
            });
            read.map_err(|error| GetError::Malformed {
                host: self.host.clone(),
                detail: format!("{error}; ask for one range at a time"),
            })?;
        }
        if let Some(range) = foreign {
            let detail = format!("a part of '{range}', asked for {}", self.asked);
            return Err(GetError::WrongPart { host: self.host.clone(), detail });
        }
        if self.body.is_end() && !self.parts.is_whole() {
            let expected = "parts and a line that ends them".to_owned();
            return Err(GetError::Truncated { host: self.host.clone(), got: Bytes(self.got), expected });
        }
        Ok(got)
    }

    /// The body itself.
    pub fn body(&self) -> &Exchange {
        &self.body
    }

    /// The same, for its connection.
    pub fn into_body(self) -> Exchange {
        self.body
    }
}
