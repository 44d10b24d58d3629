//! How a client goes down the steps of [`crate::http::ladder`].

use std::sync::PoisonError;

use url::Url;
use weir_http::head::ResponseHead;

use super::{Client, Exchange, Known, Told, origin_of};
use crate::error::Error;
use crate::http::ladder::{self, Reply, Step};
use crate::http::request::{Ask, Origin};
use crate::object;

impl Client<'_> {
    /// Asks for `url`, and for less of it where that is refused for its form ([`ladder`]).
    pub(super) fn ask_down(&mut self, url: &Url, ask: &Ask<'_>, many: bool) -> Result<Told, Error> {
        let origin = origin_of(url)?;
        let mut first: Option<Result<ResponseHead, Error>> = None;
        let http = self.http;
        let steps = http.ladder.steps(&origin, ask);
        for (index, (step, lesser)) in steps.iter().enumerate() {
            let ranged = lesser.range.is_some();
            let next = steps.get(index + 1).map(|(step, _)| *step);
            let may_help = |status| http.ladder.may_help(&origin, url, next, status);
            let (head, mut body) = match self.ask(url, lesser, many) {
                Ok(answer) => answer,
                Err(error @ (Error::Interrupted | Error::NamePending(_))) => return Err(error),
                Err(error) => {
                    let is_close = matches!(error, Error::Broken { .. }) && ranged;
                    // A path that breaks does so once; a server that means it, each time.
                    if is_close && may_help(None) && self.is_meant(url) {
                        first.get_or_insert(Err(error));
                        continue;
                    }
                    let refused = self.settle(url, first).unwrap_or(Err(error));
                    return refused.map(|head| Told { head, body: Exchange::None, ranged });
                }
            };
            match ladder::reply(&head, url, lesser.range) {
                // What comes without a range counts, whatever it is.
                Reply::Odd if next.is_some_and(|step| step < Step::Bare) => {}
                Reply::Refused if may_help(Some(head.status)) => {
                    first.get_or_insert(Ok(head));
                }
                Reply::Refused => {
                    let refused = self.settle(url, first).unwrap_or(Ok(head));
                    return refused.map(|head| Told { head, body, ranged });
                }
                Reply::Odd | Reply::Taken => {
                    if head.status == 206 && ranged {
                        self.http.ladder.gives_parts(&origin);
                    }
                    if let Some(refused) = first.filter(|_| head.status < 400) {
                        self.say_step(&origin, url, *step, refused.as_ref().ok());
                    }
                    return Ok(Told { head, body, ranged });
                }
            }
            self.drain(&mut body);
            self.keep(url, body);
        }
        // The last step has none after it, so it has been decided on.
        Err(Error::Interrupted)
    }

    /// A connection that was closed without an answer means that the request is refused: when it happens again, or
    /// where there is no second attempt.
    fn is_meant(&self, url: &Url) -> bool {
        !self.tries_again || self.http.ladder.closed_again(url)
    }

    /// All steps were refused: the first one's words count.
    fn settle(
        &self,
        url: &Url,
        first: Option<Result<ResponseHead, Error>>,
    ) -> Option<Result<ResponseHead, Error>> {
        first.inspect(|_| self.http.ladder.settled(url))
    }

    /// A lesser request was answered.
    fn say_step(&mut self, origin: &Origin, url: &Url, step: Step, first: Option<&ResponseHead>) {
        let note = ladder::note(step, &origin.host, first);
        let lasts = self.http.ladder.helped(origin, step);
        let all = if lasts { ", and so for its other files" } else { "" };
        tracing::info!("{}: {note}{all}", object::shown(url));
        self.notes.push(note);
    }

    /// HTTP/2 failed for a request that goes on over HTTP/1.1, and so do all others of its origin, unless its session
    /// has carried some.
    pub(super) fn leave_http2(&mut self, origin: &Origin, error: &Error) {
        let known = self.http.known(origin);
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let carries = match &*known {
            Known::Session(session, _) => session.carries() && !matches!(error, Error::OnlyHttp1 { .. }),
            _ => false,
        };
        let note = format!("HTTP/1.1 in place of HTTP/2: {error:#}");
        tracing::info!("{}: {note}", origin.host);
        if !carries {
            *known = Known::No;
        }
        self.notes.push(note);
    }
}
