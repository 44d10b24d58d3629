//! How some bytes of an object are asked for ([`crate::http::window`]).

use url::Url;
use weir_http::head::ResponseHead;

use super::{Client, Exchange};
use crate::error::GetError;
use crate::http::parts::CheckedParts;
use crate::http::request::Ask;
use crate::http::window::tail::{self, Found};
use crate::http::window::{Kind, Span, Window, boundary_of};

impl Client<'_> {
    /// Asks for `url`; of a window of it, if that is all that is wished, and as if that were all.
    pub(super) fn ask_in_window(
        &mut self,
        url: &Url,
        ask: &Ask<'_>,
        many: bool,
    ) -> Result<(ResponseHead, Exchange), GetError> {
        let http = self.http;
        let Some(window) = &http.manner.window else { return self.ask(url, ask, many) };
        let opens = ask.range.is_none_or(|range| range == (0, None));
        match window.kind() {
            Kind::Span(span) => self.ask_in_span(*span, opens, url, ask, many),
            Kind::Tail(length) if opens => self.ask_for_tail(window, *length, url, ask, many),
            Kind::Tail(length) => match http.tails.of(url) {
                Some(span) => self.ask_in_span(span, opens, url, ask, many),
                None => self.find_tail(*length, url, ask, many),
            },
            Kind::Several(several) => {
                let (mut head, body) = self.ask(url, &window.outer(ask), many)?;
                let boundary = boundary_of(&head).filter(|_| head.header("content-range").is_none());
                let note = several.inner(&mut head, url)?;
                let body = match boundary.filter(|_| note.is_some()) {
                    Some(boundary) => CheckedParts::within(body, &boundary, several, url),
                    None => body,
                };
                self.notes.extend(note);
                Ok((head, body))
            }
        }
    }

    fn ask_in_span(
        &mut self,
        span: Span,
        opens: bool,
        url: &Url,
        ask: &Ask<'_>,
        many: bool,
    ) -> Result<(ResponseHead, Exchange), GetError> {
        let (mut head, body) = self.ask(url, &span.outer(ask), many)?;
        let note = span.inner(&mut head, opens, url)?;
        self.notes.extend(note);
        Ok((head, body))
    }

    /// All of a tail is asked for by its length, and by its place where the server does not take that.
    fn ask_for_tail(
        &mut self,
        window: &Window,
        length: u64,
        url: &Url,
        ask: &Ask<'_>,
        many: bool,
    ) -> Result<(ResponseHead, Exchange), GetError> {
        let (mut head, mut body) = self.ask(url, &window.outer(ask), many)?;
        let size = match tail::find(length, &head, url)? {
            Found::Here(span) => {
                self.http.tails.keep(url, span);
                span.inner(&mut head, false, url)?;
                return Ok((head, body));
            }
            Found::Other => return Ok((head, body)),
            Found::Misread(size) => size,
        };
        self.drain(&mut body);
        self.keep(url, body);
        let size = match size {
            Some(size) => Some(size),
            None => {
                let (first, body) = self.first_byte(url, ask, many)?;
                self.keep(url, body);
                tail::size_named(&first, url)
            }
        };
        let Some(size) = size else {
            // What it said first counts.
            let refused = tail::refuse(length, &head, url);
            return if head.status >= 400 { Ok((head, Exchange::None)) } else { Err(refused) };
        };
        let span = tail::span_of(length, size);
        self.http.tails.keep(url, span);
        let answer = self.ask_in_span(span, true, url, ask, many)?;
        self.notes.push(format!("asked for as {span}, since the server does not take {window}"));
        Ok(answer)
    }

    /// A part of a tail of which no answer has said yet where it lies: that is asked first.
    fn find_tail(
        &mut self,
        length: u64,
        url: &Url,
        ask: &Ask<'_>,
        many: bool,
    ) -> Result<(ResponseHead, Exchange), GetError> {
        let (head, body) = self.first_byte(url, ask, many)?;
        let Some(size) = tail::size_named(&head, url) else {
            // A redirect, a login, an error: it leads where any other answer would.
            return match head.status {
                206 => Err(tail::refuse(length, &head, url)),
                _ => Ok((head, body)),
            };
        };
        self.keep(url, body);
        let span = tail::span_of(length, size);
        self.http.tails.keep(url, span);
        self.ask_in_span(span, false, url, ask, many)
    }

    /// The answer with the first byte, which is the shortest that says how large the object is; it has been
    /// read.
    fn first_byte(
        &mut self,
        url: &Url,
        ask: &Ask<'_>,
        many: bool,
    ) -> Result<(ResponseHead, Exchange), GetError> {
        let first = Ask { range: Some((0, Some(1))), if_range: None, ..ask.clone() };
        let (head, mut body) = self.ask(url, &first, many)?;
        if head.status == 206 {
            self.drain(&mut body);
        }
        Ok((head, body))
    }
}
