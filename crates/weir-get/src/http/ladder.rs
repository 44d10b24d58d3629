//! The simpler request: what is refused for its form is asked for once more with less in it.
//!
//! Some servers refuse a range of what they serve whole, or a field that every other one passes over. The
//! steps, each taken once for a URL:
//!
//! 1. HTTP/2, where weir itself chose it, gives way to HTTP/1.1 ([`super::exchange`]).
//! 2. `Range` without `If-Range`. Answers prove by themselves of which version they are.
//! 3. No `Range`: over one connection, and not to be resumed.
//! 4. Nothing that can be left out, where the status speaks of the request's fields: what curl sends by
//!    itself.
//!
//! A close, and a status of trouble that may pass, count as a refusal when they come again for the URL.
//!
//! A step that is taken is said and kept for the origin, so that its other files need no refusal to begin
//! with, unless parts have come from there or the status may pass. A refusal of all steps is an answer: the
//! first one's words count, and the URL is asked for in one way from then on.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use parking_lot::{Mutex, MutexGuard};
use url::Url;
use weir_http::head::ResponseHead;

use crate::error::GetError;
use crate::http::make_room;
use crate::http::request::{Ask, Origin};
use crate::object::{self, Object, Part};

/// How much is asked for, from all to least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Step {
    /// As it was wished.
    #[default]
    Full,
    /// Without `If-Range`.
    Unconditional,
    /// Without `Range`.
    Whole,
    /// Without what can be left out.
    Bare,
}

impl Step {
    /// `ask` with no more in it than this step allows; `None` where that is the step before.
    pub fn of<'a>(self, ask: &Ask<'a>) -> Option<Ask<'a>> {
        let whole = Ask { range: None, if_range: None, ..ask.clone() };
        match self {
            Step::Full => Some(ask.clone()),
            Step::Unconditional => ask.if_range.map(|_| Ask { if_range: None, ..ask.clone() }),
            Step::Whole => ask.range.map(|_| whole),
            Step::Bare => ask.codings.map(|_| Ask { codings: None, ..whole }),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Step::Full => "as usual",
            Step::Unconditional => "without If-Range",
            Step::Whole => "without a range",
            Step::Bare => "without a range and without Accept-Encoding",
        }
    }
}

/// What an answer's head says of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// It is an answer.
    Taken,
    /// A part that may be a misread range: what comes without one counts.
    Odd,
    /// It is refused, perhaps for its form.
    Refused,
}

/// What this run has learnt of servers.
#[derive(Debug, Default)]
pub struct Ladder(Mutex<Learnt>);

#[derive(Debug, Default)]
struct Learnt {
    origins: HashMap<Origin, Known>,
    /// URLs that were refused at every step.
    settled: HashSet<u64>,
    /// URLs that failed in a way that may pass.
    failed: HashSet<u64>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Known {
    gives_parts: bool,
    /// How often a step helped after trouble that may pass.
    passing: u8,
    /// What it does not have it lacks at every step.
    means_absence: bool,
    first: Step,
}

impl Learnt {
    fn of(&mut self, origin: &Origin) -> &mut Known {
        make_room(&mut self.origins);
        self.origins.entry(origin.clone()).or_default()
    }
}

impl Ladder {
    /// The requests for `ask`, the fullest first; down to `least`, that is.
    pub fn steps<'a>(&self, origin: &Origin, ask: &Ask<'a>, least: Step) -> Vec<(Step, Ask<'a>)> {
        let first = self.learnt().origins.get(origin).map_or(Step::Full, |known| known.first.min(least));
        let all = [Step::Full, Step::Unconditional, Step::Whole, Step::Bare];
        let mut steps: Vec<(Step, Ask<'a>)> =
            all.into_iter().filter_map(|step| Some((step, step.of(ask)?))).collect();
        // Of steps that come to the same for this request the first is it.
        let needed = first.of(ask).map_or(Step::Full, |_| first);
        steps.retain(|(step, _)| (needed..=least).contains(step));
        steps
    }

    /// Whether it may help to ask for `url` at `origin` by step `next`, after a refusal with this status or a
    /// close.
    pub fn may_help(&self, origin: &Origin, url: &Url, next: Option<Step>, status: Option<u16>) -> bool {
        let learnt = self.learnt();
        let known = learnt.origins.get(origin).copied().unwrap_or_default();
        let gives_parts = known.gives_parts;
        if known.means_absence && is_absence(status) {
            return false;
        }
        let is_new = !learnt.settled.contains(&key(url));
        is_new
            && match next {
                None => false,
                // What these say of a range may be meant for its condition.
                Some(Step::Unconditional) if gives_parts => matches!(status, Some(400 | 412 | 501)),
                Some(_) if gives_parts => false,
                // The status may speak of any field.
                Some(Step::Bare) => matches!(status, Some(400 | 406 | 415 | 501)),
                Some(_) => true,
            }
    }

    /// `url` failed in a way that may pass; whether that is the second time.
    pub(crate) fn failed_again(&self, url: &Url) -> bool {
        let mut learnt = self.learnt();
        make_room(&mut learnt.failed);
        !learnt.failed.insert(key(url))
    }

    /// `origin` has sent a part that was asked for.
    pub(crate) fn gives_parts(&self, origin: &Origin) {
        self.learnt().of(origin).gives_parts = true;
    }

    /// A step helped at `origin`; `passing`: after trouble that may pass, which is the server's manner only
    /// the third time. Returns whether its other requests begin with that step.
    pub fn helped(&self, origin: &Origin, step: Step, passing: bool) -> bool {
        let mut learnt = self.learnt();
        let known = learnt.of(origin);
        known.passing = known.passing.saturating_add(u8::from(passing));
        let is_manner = !passing || known.passing > 2;
        let lasts = is_manner && (!known.gives_parts || step == Step::Unconditional);
        if lasts {
            known.first = known.first.max(step);
        }
        lasts
    }

    /// No step helped with `url`, which was refused with this status first. What is not there at one step and
    /// at none below is what an origin means by that status: of a list of such names each is asked for once.
    pub fn settled(&self, origin: &Origin, url: &Url, status: Option<u16>) {
        let mut learnt = self.learnt();
        learnt.of(origin).means_absence |= is_absence(status);
        make_room(&mut learnt.settled);
        learnt.settled.insert(key(url));
    }

    fn learnt(&self) -> MutexGuard<'_, Learnt> {
        self.0.lock()
    }
}

/// The status says that nothing is there.
pub fn is_absence(status: Option<u16>) -> bool {
    matches!(status, Some(404 | 410))
}

/// A list of a million URLs that all fail is kept in 16 MB.
fn key(url: &Url) -> u64 {
    let mut hasher = DefaultHasher::new();
    url.as_str().hash(&mut hasher);
    hasher.finish()
}

/// What an answer to `ask` says of the request, as [`crate::object::judge`] `judged` its head.
pub fn reply(judged: &Result<Part, GetError>, ask: &Ask<'_>) -> Reply {
    match judged {
        Err(GetError::Status { status, retry_after: None, .. }) if is_of_its_form(*status) => Reply::Refused,
        // The answer to the question whether it is another.
        Err(GetError::Status { status: 304, .. }) if ask.unless.is_some() => Reply::Taken,
        judged if ask.range == Some((0, None)) && is_misread(judged) => Reply::Odd,
        _ => Reply::Taken,
    }
}

/// A word of what was left out, and why: `first` is the head that refused it, or what came in place of one.
pub fn note(step: Step, host: &str, first: &Result<ResponseHead, GetError>) -> String {
    let why = match first {
        Ok(head) => format!("answered {} {}", head.status, object::printable(&head.reason)),
        Err(GetError::Malformed { .. }) => "sent no readable answer".to_owned(),
        Err(_) => "closed the connection".to_owned(),
    };
    format!("asked for {}, since {host} {} to more", step.words(), why.trim_end())
}

/// Whether a lesser request for the same may fare better than one that was answered with `status`. Not where
/// the user has to log in, or where the server asks for timeout.
fn is_of_its_form(status: u16) -> bool {
    matches!(status, 400..600) && !matches!(status, 401 | 407 | 408 | 416 | 425 | 429)
}

/// What some servers answer to a range of an object that they serve. Empty and cut answers are among them,
/// since nothing tells an empty object from a range that was misread.
fn is_misread(judged: &Result<Part, GetError>) -> bool {
    match judged {
        Ok(Part::Whole(object)) => object.size == Some(0),
        // The rest could not be asked for: nothing would tell whether it is of the same version.
        Ok(Part::Asked(Object { ranged, holds_to, size, .. })) => !ranged && holds_to != size,
        Ok(Part::Empty | Part::Beyond(_)) | Err(GetError::WrongPart { .. }) => true,
        // No content, as of an object without bytes; no change, to who named no version.
        Err(GetError::Status { status: 204 | 205 | 304, .. }) => true,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask() -> Ask<'static> {
        Ask {
            range: Some((5, None)),
            set: None,
            if_range: Some("\"e\""),
            pins: false,
            headers: &[],
            authorization: None,
            cookies: None,
            removed: &[],
            unless: None,
            codings: Some("identity"),
            sealed_by: None,
        }
    }

    fn steps(ladder: &Ladder, ask: &Ask<'_>) -> Vec<Step> {
        let origin = Origin::of(&Url::parse("http://h/x").unwrap()).unwrap();
        ladder.steps(&origin, ask, Step::Bare).into_iter().map(|(step, _)| step).collect()
    }

    #[test]
    fn each_step_leaves_out_more() {
        let ladder = Ladder::default();
        assert_eq!(steps(&ladder, &ask()), [Step::Full, Step::Unconditional, Step::Whole, Step::Bare]);
        assert_eq!(steps(&ladder, &Ask { if_range: None, ..ask() }), [Step::Full, Step::Whole, Step::Bare]);
        let plain = Ask { range: None, if_range: None, ..ask() };
        assert_eq!(steps(&ladder, &plain), [Step::Full, Step::Bare]);
        let origin = Origin::of(&Url::parse("http://h/x").unwrap()).unwrap();
        assert_eq!(ladder.steps(&origin, &ask(), Step::Unconditional).len(), 2);
        let whole = Step::Whole.of(&ask()).unwrap();
        assert_eq!((whole.range, whole.if_range, whole.codings), (None, None, Some("identity")));
    }

    #[test]
    fn what_helped_is_kept_for_the_origin_unless_it_gives_parts() {
        let url = Url::parse("http://h/x").unwrap();
        let origin = Origin::of(&url).unwrap();
        let ladder = Ladder::default();
        assert!(ladder.helped(&origin, Step::Whole, false));
        assert_eq!(steps(&ladder, &ask()), [Step::Whole, Step::Bare]);
        assert_eq!(steps(&ladder, &Ask { range: None, if_range: None, ..ask() }), [Step::Full, Step::Bare]);
        let ladder = Ladder::default();
        ladder.gives_parts(&origin);
        assert!(!ladder.helped(&origin, Step::Whole, false));
        assert!(!ladder.may_help(&origin, &url, Some(Step::Whole), Some(404)));
        assert_eq!(steps(&ladder, &ask()).len(), 4);
        // A condition that is refused is no word about parts.
        assert!(ladder.may_help(&origin, &url, Some(Step::Unconditional), Some(412)));
        assert!(ladder.helped(&origin, Step::Unconditional, false));
        assert_eq!(steps(&ladder, &ask()), [Step::Unconditional, Step::Whole, Step::Bare]);
    }

    #[test]
    fn what_is_settled_is_not_asked_for_twice() {
        let url = Url::parse("http://h/x").unwrap();
        let origin = Origin::of(&url).unwrap();
        let ladder = Ladder::default();
        assert!(ladder.may_help(&origin, &url, Some(Step::Whole), Some(404)));
        assert!(!ladder.may_help(&origin, &url, Some(Step::Bare), Some(404)));
        assert!(ladder.may_help(&origin, &url, Some(Step::Bare), Some(406)));
        ladder.settled(&origin, &url, Some(403));
        assert!(!ladder.may_help(&origin, &url, Some(Step::Whole), Some(404)));
        // Of others a refusal may still be of its form, until one was none.
        let other = Url::parse("http://h/y").unwrap();
        assert!(ladder.may_help(&origin, &other, Some(Step::Whole), Some(404)));
        ladder.settled(&origin, &url, Some(404));
        assert!(!ladder.may_help(&origin, &other, Some(Step::Whole), Some(404)));
        assert!(ladder.may_help(&origin, &other, Some(Step::Whole), Some(403)));
        assert!(!ladder.failed_again(&url) && ladder.failed_again(&url));
    }
}
