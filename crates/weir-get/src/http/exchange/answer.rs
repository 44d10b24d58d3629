//! An answer: its head, its body whichever version carries it, and what it means to a request.

use std::time::SystemTime;

use url::Url;
use weir_http::digest_field::Linked;
use weir_http::head::ResponseHead;

use crate::error::GetError;
use crate::http::connection::{Connection, Dial};
use crate::http::decoded::Decoded;
use crate::http::h2_session::H2Stream;
use crate::http::logins::{self, Asker};
use crate::http::parts::CheckedParts;
use crate::object::{self, Part};
use weir_observe::stage_clock::StageClock;

/// One answer's body, whichever version carries it.
pub enum Exchange {
    /// HTTP/1.1; the connection can be used again after the body's end.
    Http1(Box<Connection>),
    /// HTTP/2.
    Http2(Box<H2Stream>),
    /// Another one, decoded.
    Decoded(Box<Decoded>),
    /// Another one of several parts, checked as it comes.
    Parts(Box<CheckedParts>),
    /// Nothing: the answer's body was let go.
    None,
}

/// The head of an answer, where it came from in the end, and its body.
pub struct Answer {
    /// Status and fields.
    pub head: ResponseHead,
    /// The URL after redirects.
    pub url: Url,
    /// The body.
    pub body: Exchange,
    /// The request named a user.
    pub authorized: bool,
    /// There is a user for it, whom the schemes that the user allows did not let it name.
    pub withheld: bool,
    /// It came from the origin that the user named.
    pub at_home: bool,
    /// It came over http where the user named https: nobody is asked as the user there.
    pub(crate) is_exposed: bool,
    /// The server asked for a client certificate, and none was shown.
    pub lacks_certificate: bool,
    /// What an error says of itself.
    pub said: Option<String>,
    /// Those words say what helps as well.
    pub(crate) explained: bool,
    /// What the redirects on the way said of the object.
    pub linked: Linked,
    /// The request that it answers was for a range. One for a part may have been refused, and asked for
    /// without.
    pub ranged: bool,
    /// What its head means to the request: judged once, when it came.
    pub(crate) judged: Option<Result<Part, GetError>>,
    /// The bytes are all of the object, and not a window of it.
    pub(crate) of_all: bool,
    /// What was left out of the request to get it, and why.
    pub notes: Vec<String>,
}

/// An answer to one request, before it is known whether it leads elsewhere.
pub(super) struct Answered {
    pub(super) head: ResponseHead,
    pub(super) body: Exchange,
    pub(super) ranged: bool,
    /// What the head means to the request, where that was asked on the way.
    pub(super) judged: Option<Result<Part, GetError>>,
}

impl Answer {
    /// What it means to the request that brought it: for the bytes from `start`, `None` if for the whole. See
    /// [`object::judge`].
    pub fn judge(&mut self, start: Option<u64>) -> Result<Part, GetError> {
        let start = start.filter(|_| self.ranged);
        let judged = self.judged.take();
        let judged = judged.unwrap_or_else(|| object::judge(&self.head, &self.url, start, SystemTime::now()));
        let judged = judged.map(|part| match self.of_all {
            true => part.linked_by(&self.linked),
            false => part.undeclared(),
        });
        judged.map_err(|error| {
            let error = if self.authorized { error.in_spite_of_credentials() } else { error };
            let error = match self.way_in() {
                Some(hint) => error.with_hint(hint),
                None => error,
            };
            error.with_words(self.said.as_deref())
        })
    }

    /// What a server that refuses wants to see of us, where that is known.
    fn way_in(&self) -> Option<&'static str> {
        match self.head.status {
            _ if self.explained => Some(""),
            400 | 403 | 495 | 496 if self.lacks_certificate => {
                Some("; it asked for a client certificate: --cert FILE and --key FILE show one")
            }
            401 if self.withheld && logins::offers_only_basic(&self.head.fields) => {
                Some("; it takes Basic alone, which sends the password; leave out --digest")
            }
            401 => logins::unmet(Asker::Server, &self.head.fields)
                .or((!self.authorized && !self.at_home).then_some(
                "; the redirect led there: give its login by a line for this host in ~/.netrc (-u is for the \
                     first host alone)",
            )),
            407 => logins::unmet(Asker::Proxy, &self.head.fields),
            _ => None,
        }
    }
}

impl Exchange {
    /// See [`Connection::fill`].
    pub fn fill(&mut self, enough: usize, clock: &StageClock, dial: &Dial<'_>) -> Result<usize, GetError> {
        match self {
            Exchange::Http1(connection) => connection.fill(enough, clock, dial),
            Exchange::Http2(stream) => stream.fill(enough, clock, dial),
            Exchange::Decoded(decoded) => decoded.fill(enough, clock, dial),
            Exchange::Parts(parts) => parts.fill(enough, clock, dial),
            Exchange::None => Ok(0),
        }
    }

    /// The bytes of the last fill, in order.
    pub fn pieces(&self) -> Box<dyn Iterator<Item = &[u8]> + '_> {
        match self {
            Exchange::Http1(connection) => Box::new(connection.pieces()),
            Exchange::Http2(stream) => Box::new(stream.pieces()),
            Exchange::Decoded(decoded) => Box::new(std::iter::once(decoded.piece())),
            Exchange::Parts(parts) => parts.body().pieces(),
            Exchange::None => Box::new(std::iter::empty()),
        }
    }

    /// The body has been read to its end.
    pub fn is_end(&self) -> bool {
        match self {
            Exchange::Http1(connection) => connection.is_end(),
            Exchange::Http2(stream) => stream.is_end(),
            Exchange::Decoded(decoded) => decoded.is_end(),
            Exchange::Parts(parts) => parts.body().is_end(),
            Exchange::None => true,
        }
    }

    /// How many bytes came over the wire for the last fill, of `filled` bytes.
    pub(crate) fn on_the_wire(&mut self, filled: u64) -> u64 {
        match self {
            Exchange::Decoded(decoded) => decoded.take_fed(),
            Exchange::Http1(_) | Exchange::Http2(_) | Exchange::Parts(_) | Exchange::None => filled,
        }
    }

    /// Bytes still to come, if announced.
    pub fn left(&self) -> Option<u64> {
        match self {
            Exchange::Http1(connection) => connection.left(),
            Exchange::Http2(stream) => stream.left(),
            Exchange::Decoded(_) => None,
            Exchange::Parts(parts) => parts.body().left(),
            Exchange::None => Some(0),
        }
    }

    /// The `Content-Encoding` that is undone on the way.
    pub(crate) fn decoded_from(&self) -> Option<&str> {
        match self {
            Exchange::Decoded(decoded) => decoded.coding(),
            Exchange::Http1(_) | Exchange::Http2(_) | Exchange::Parts(_) | Exchange::None => None,
        }
    }

    /// What is to be said of an end that was taken all the same, without its mark.
    pub(crate) fn unclean(&self) -> Option<&'static str> {
        match self {
            Exchange::Http1(connection) => connection.unclean(),
            Exchange::Decoded(decoded) => decoded.coded().unclean(),
            Exchange::Parts(parts) => parts.body().unclean(),
            Exchange::Http2(_) | Exchange::None => None,
        }
    }
}
