//! How a client goes down the steps of [`crate::http::ladder`].

use std::time::SystemTime;

use url::Url;
use weir_http::head::ResponseHead;

use super::{Answered, Client, Exchange, Http, origin_of};
use crate::error::GetError;
use crate::http::ladder::{self, Reply, Step};
use crate::http::request::{Ask, Origin};
use crate::object::{self, Part};

impl Client<'_> {
    /// Asks for `url`, and for less of it where that is refused for its form ([`ladder`]).
    pub(super) fn ask_down(&mut self, url: &Url, ask: &Ask<'_>, many: bool) -> Result<Answered, GetError> {
        let (origin, http) = (origin_of(url)?, self.http);
        let (mut first, mut passing) = (None::<Result<ResponseHead, GetError>>, false);
        // Of a window nothing but a range of it helps.
        let is_part = http.manner.window.is_some();
        let least = if is_part { Step::Unconditional } else { Step::Bare };
        let steps = http.ladder.steps(&origin, ask, least);
        for (index, (step, lesser)) in steps.iter().enumerate() {
            let ranged = lesser.range.is_some();
            let next = steps.get(index + 1).map(|(step, _)| *step);
            let may_help = |status| may_help(http, &origin, url, next, status);
            let (head, mut body) = match self.ask_in_window(url, lesser, many) {
                Ok(answer) => answer,
                Err(error @ (GetError::Interrupted | GetError::NamePending(_))) => return Err(error),
                // All of it, since If-Range does not hold: what there is now is asked for.
                Err(GetError::Refused(_) | GetError::Credentials(_) | GetError::WrongPart { .. })
                    if is_part && next.is_some() =>
                {
                    continue;
                }
                Err(error) => {
                    let is_no_answer = matches!(error, GetError::Broken { .. } | GetError::Malformed { .. });
                    // A path that breaks does so once; a server that means it, or cannot do it, each time.
                    if ranged && is_no_answer && may_help(None) && self.is_meant(url) {
                        first.get_or_insert(Err(error));
                        continue;
                    }
                    let refused = self.settle(&origin, url, first, None).unwrap_or(Err(error));
                    return refused.map(|head| Answered { head, body: Exchange::None, ranged, judged: None });
                }
            };
            let judged = judge(&head, url, lesser);
            let may_pass = matches!(&judged, Err(error) if !error.is_permanent());
            match ladder::reply(&judged, lesser) {
                // What comes without a range counts, whatever it is.
                Reply::Odd if next.is_some_and(|step| step < Step::Bare) => {}
                Reply::Refused if may_pass && may_help(Some(head.status)) && !self.is_meant(url) => {
                    return Ok(Answered { head, body, ranged, judged: Some(judged) });
                }
                Reply::Refused if may_help(Some(head.status)) => {
                    passing |= may_pass;
                    first.get_or_insert(Ok(head));
                }
                Reply::Refused => {
                    return match self.settle(&origin, url, first, Some(head.status)) {
                        Some(first) => first.map(|head| Answered { head, body, ranged, judged: None }),
                        None => Ok(Answered { head, body, ranged, judged: Some(judged) }),
                    };
                }
                Reply::Odd | Reply::Taken => {
                    if head.status == 206 && ranged {
                        http.ladder.gives_parts(&origin);
                    }
                    if let Some(refused) = first.filter(|_| head.status < 400) {
                        self.say_step(&origin, url, *step, &refused, passing);
                    }
                    return Ok(Answered { head, body, ranged, judged: Some(judged) });
                }
            }
            self.drain(&mut body);
            self.keep(url, body);
        }
        // The last step has none after it, so it has been decided on.
        Err(GetError::Interrupted)
    }

    /// A connection that was closed without an answer, or with one that is none, and a status of trouble that
    /// may pass mean that the request is refused: when it happens again, or where there is no second attempt.
    fn is_meant(&self, url: &Url) -> bool {
        !self.tries_again || self.http.ladder.failed_again(url)
    }

    /// All steps were refused, the last with this status: the first one's words count.
    fn settle(
        &self,
        origin: &Origin,
        url: &Url,
        first: Option<Result<ResponseHead, GetError>>,
        last: Option<u16>,
    ) -> Option<Result<ResponseHead, GetError>> {
        first.inspect(|first| {
            let status = first.as_ref().ok().map(|head| head.status);
            self.http.ladder.settled(origin, url, status.filter(|first| Some(*first) == last));
        })
    }

    /// A lesser request was answered. `passing`: trouble that may pass led to it.
    fn say_step(
        &mut self,
        origin: &Origin,
        url: &Url,
        step: Step,
        first: &Result<ResponseHead, GetError>,
        passing: bool,
    ) {
        let note = ladder::note(step, &origin.host, first);
        let lasts = self.http.ladder.helped(origin, step, passing);
        let all = if lasts { ", and so for its other files" } else { "" };
        tracing::info!("{}: {note}{all}", object::shown(url));
        self.notes.push(note);
    }
}

/// Whether a lesser request may fare better than one that was answered with this status. Object stores give
/// parts: what one does not have is not there.
fn may_help(http: &Http, origin: &Origin, url: &Url, next: Option<Step>, status: Option<u16>) -> bool {
    let is_told = ladder::is_absence(status) && http.authorizer(url).is_some();
    !is_told && http.ladder.may_help(origin, url, next, status)
}

/// What a head is to `ask`.
fn judge(head: &ResponseHead, url: &Url, ask: &Ask<'_>) -> Result<Part, GetError> {
    if head.status == 412 && ask.is_pinned() {
        let detail = "it has not this ETag any more".to_owned();
        return Err(GetError::Changed { host: object::host_of(url), detail });
    }
    object::judge(head, url, ask.range.map(|range| range.0), SystemTime::now())
}
