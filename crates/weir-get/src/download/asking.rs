//! From a job to its object: what is tried in which order, and what the first answers mean.

use std::time::Duration;

use weir_units::Bytes;

use super::{Action, Download, Moment, Phase, VERSION_TRIES};
use crate::error::GetError;
use crate::object::{Object, Part};
use crate::version::Version;

/// Objects up to this size are read whole and written in one piece.
pub(crate) const SMALL: u64 = 1 << 20;

/// Larger objects than this leave a shared HTTP/2 connection for one of their own.
const HTTP2_MAX: u64 = 4 << 20;

/// Between two looks whether another weir still writes the file.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// How a job is to be opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wishes {
    /// Begin at byte 0 whatever an earlier run left.
    pub fresh: bool,
    /// Fetch only what is not the same here already (`-N`).
    pub newer: bool,
    /// Go on with what another program left (`-C -`).
    pub go_on: bool,
    /// Parts may be asked for.
    pub in_parts: bool,
    /// Bodies are decoded on the way.
    pub decodes: bool,
    /// For memory. A list that comes in parts would be taken for whole.
    pub to_memory: bool,
    /// Another weir that writes the file brings the same.
    pub shares: bool,
}

/// What is still to be tried.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asking {
    /// See what lies at the target.
    checks: bool,
    /// Look for the part of an earlier run.
    seeks: bool,
    /// What an earlier run left may be gone on with.
    uses_part: bool,
    /// So may what another program left.
    adopts: bool,
    /// The existing file is worth a question.
    compares: bool,
    ranged: bool,
    /// Another weir that writes the file brings the same.
    shares: bool,
}

/// What the lane does next to open a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// See whether what lies at the target may be overwritten.
    Check,
    /// Look for the part of an earlier run, and resume it.
    Resume,
    /// See whether what another program left is a beginning of the object, and resume it.
    Adopt,
    /// Ask for the object.
    Ask {
        /// From byte 0 on, so that the answer shows whether parts are given.
        ranged: bool,
        /// Only for another one than the existing file, where there is one.
        only_if_changed: bool,
    },
}

/// Where the bytes of a job go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// Memory.
    Memory,
    /// A file.
    File,
    /// Out in order.
    Stream,
}

/// How an object is taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Its answer is read whole.
    Whole,
    /// Lanes carry it.
    Bulk,
}

/// What an answer to a request for the rest of a part means.
#[derive(Debug)]
pub enum Rest {
    /// The rest.
    Sent(Object),
    /// Ask once more on a new connection: another server behind the name may have the version that is here.
    AskAgain,
    /// It cannot be gone on with, for this reason; the object is asked for from byte 0.
    Lost(String),
}

impl Download {
    /// A lane takes the job up.
    pub(crate) fn on_begin(&mut self, wishes: Wishes) {
        if self.phase != Phase::Waiting {
            return;
        }
        // What is decoded on the way cannot be gone on with, and neither can parts of it be asked for.
        let is_first = self.restarts == 0 && self.lost == 0;
        let may_use_what_is_here = !wishes.fresh && is_first;
        let in_parts = wishes.in_parts && !wishes.decodes;
        self.phase = Phase::Asking;
        self.looks = 0;
        self.asking = Asking {
            checks: true,
            seeks: true,
            uses_part: may_use_what_is_here && in_parts,
            adopts: wishes.go_on,
            compares: may_use_what_is_here && wishes.newer,
            ranged: !wishes.to_memory && in_parts && !self.plain,
            shares: wishes.shares,
        };
    }

    /// Another weir was at the file, and may have brought it.
    pub(crate) fn was_lent(&self) -> bool {
        !self.lent.is_zero()
    }

    /// What is to be done next to open it. What was done is not named again, so that this comes to its end.
    pub fn step(&mut self, is_target_known: bool) -> Step {
        let asking = &mut self.asking;
        if is_target_known && std::mem::take(&mut asking.checks) {
            return Step::Check;
        }
        if is_target_known && asking.uses_part {
            if std::mem::take(&mut asking.seeks) {
                return Step::Resume;
            }
            if asking.ranged && std::mem::take(&mut asking.adopts) {
                return Step::Adopt;
            }
        }
        Step::Ask { ranged: asking.ranged, only_if_changed: asking.compares }
    }

    /// Another program's beginning is of no use, and a part that an earlier run left stays as it is.
    pub(crate) fn on_not_adopted(&mut self, has_part: bool) {
        self.asking.uses_part = !has_part;
    }

    /// Another program's beginning is now a part of ours, whose bytes are taken on trust.
    pub(crate) fn on_adopted(&mut self) {
        self.on_trust = true;
    }

    /// The existing file is not whole, or cannot be told from another: the object is asked for in any case.
    pub(crate) fn on_not_the_same(&mut self) {
        self.asking.compares = false;
    }

    /// Whether an existing file is worth comparing with the object.
    pub fn compares(&self) -> bool {
        self.asking.compares
    }

    /// Only the answer named the target, which was checked. Returns whether to go on first with the part that
    /// an earlier run left of it, where one `has_part`.
    pub(crate) fn on_named(&mut self, has_part: impl FnOnce() -> bool) -> bool {
        (self.asking.checks, self.asking.seeks) = (false, true);
        self.asking.uses_part && has_part()
    }

    /// The first answer of a fresh object, whose body has so many bytes `left`: the object, or why there is
    /// none. `refusal` is the error for a 416.
    pub(crate) fn on_answer(
        &mut self,
        judged: Result<Part, GetError>,
        left: Option<u64>,
        refusal: impl FnOnce() -> GetError,
    ) -> Result<Object, GetError> {
        match judged? {
            Part::Asked(object) | Part::Whole(object) => Ok(object),
            // An empty object shown by a 416: believed where that brings no word of an error with it.
            Part::Empty if left == Some(0) => Ok(Object::empty()),
            Part::Empty | Part::Beyond(_) => Err(refusal()),
        }
    }

    /// An answer to a request for the rest of a part of `size` bytes in all, of this `version`.
    pub(crate) fn on_rest(
        &mut self,
        judged: Result<Part, GetError>,
        size: u64,
        version: &Version,
        host: &str,
    ) -> Result<Rest, GetError> {
        if let Ok(Part::Asked(object) | Part::Whole(object)) = &judged
            && let Err(error) = object.refuse_silence(version, Some(size), host)
        {
            // The part stays, and a retry asks for its rest again.
            self.looks += 1;
            return if self.looks < VERSION_TRIES { Ok(Rest::AskAgain) } else { Err(error) };
        }
        let why = match judged {
            Ok(Part::Asked(object)) if !object.fits(size) => "the object's size changed".to_owned(),
            Ok(Part::Asked(object)) => match version.refuse_another(&object.version, host) {
                Ok(()) => return Ok(Rest::Sent(object)),
                Err(error) => error.to_string(),
            },
            Ok(_) => "the object changed on the server, or it gives no parts any more".to_owned(),
            Err(error @ (GetError::WrongPart { .. } | GetError::Changed { .. })) => error.to_string(),
            Err(error) => return Err(error),
        };
        self.looks += 1;
        if self.looks < VERSION_TRIES {
            return Ok(Rest::AskAgain);
        }
        (self.looks, self.asking.uses_part) = (0, false);
        Ok(Rest::Lost(why))
    }

    /// An answer brings the object, which may be coded. One that says nothing of its version is no new
    /// version of what this run has seen of it before.
    pub(crate) fn on_seen(&mut self, object: &Object, host: &str) -> Result<(), GetError> {
        self.refuse_silence(object, host)?;
        if self.seen.is_none() || !object.version.is_silent() {
            self.seen = Some(Box::new((object.version.clone(), object.size)));
        }
        Ok(())
    }

    /// Whether further parts of `object` may be put beside the one that came, although no validator proves
    /// that they are of one version: where a digest of the whole `is_given`, until that has failed once.
    pub(crate) fn may_trust_parts(&self, object: &Object, is_given: bool) -> bool {
        is_given && self.restarts == 0 && object.holds_to.is_some()
    }

    /// See [`Object::refuse_silence`].
    pub(super) fn refuse_silence(&self, object: &Object, host: &str) -> Result<(), GetError> {
        let Some((version, size)) = self.seen.as_deref() else { return Ok(()) };
        object.refuse_silence(version, *size, host)
    }

    /// The object comes over a connection that others share, and is large enough for one of its own.
    pub(crate) fn wants_own_connection(&self, object: &Object, to: Destination) -> bool {
        let large = object.size.is_none_or(|size| size > HTTP2_MAX);
        large && object.ranged && to != Destination::Memory
    }

    /// The answer on that connection. Nothing of the first one is kept, so this may be of another version.
    pub(crate) fn on_own_connection(
        &mut self,
        judged: Result<Part, GetError>,
        host: &str,
    ) -> Result<Object, GetError> {
        match judged? {
            Part::Asked(own) | Part::Whole(own) => Ok(own),
            Part::Empty | Part::Beyond(_) => {
                let detail = "it is no longer there over HTTP/1.1; --http2 stays with HTTP/2".to_owned();
                Err(GetError::Changed { host: host.to_owned(), detail })
            }
        }
    }

    /// The object was accepted: how it is taken in.
    pub(crate) fn on_accepted(&mut self, object: &Object, to: Destination) -> Taken {
        let whole = object.holds_to.is_none_or(|end| Some(end) == object.size);
        let small = whole && object.size.is_some_and(|size| size <= SMALL);
        match to {
            Destination::File if !small => Taken::Bulk,
            Destination::Stream => Taken::Bulk,
            Destination::Memory | Destination::File => {
                self.advance(Phase::Asking, Phase::Small);
                Taken::Whole
            }
        }
    }

    /// The body of a small object is read to its end, of `got` bytes; `size` were announced.
    pub(crate) fn on_body(&mut self, got: u64, size: Option<u64>, host: &str) -> Result<(), GetError> {
        match size {
            Some(size) if got != size => {
                let expected = Bytes(size).to_string();
                Err(GetError::Truncated { host: host.to_owned(), got: Bytes(got), expected })
            }
            _ => {
                self.advance(Phase::Small, Phase::Verifying);
                Ok(())
            }
        }
    }

    /// Its last answer broke off: some servers break each so many answers of a connection.
    pub(crate) fn wants_new_connection(&self) -> bool {
        self.is_cut
    }

    /// Opening failed.
    pub(super) fn question_failed(&mut self, error: GetError, moment: &Moment) -> Action {
        self.is_cut = matches!(error, GetError::Truncated { .. } | GetError::Broken { .. });
        if matches!(error, GetError::Interrupted | GetError::Dropped) && !moment.is_stopping {
            self.phase = Phase::Waiting;
            return Action::AskAgain;
        }
        if let GetError::NamePending(name) = error {
            self.phase = Phase::Waiting;
            return Action::AwaitName(name);
        }
        let is_at_another = self.asking.shares && matches!(error, GetError::Locked { .. });
        if is_at_another && self.lent < moment.rules.max_wait {
            let pause = BETWEEN_LOOKS.mul_f64(0.5 + moment.chance);
            self.lent += pause;
            self.phase = Phase::Waiting;
            return Action::AskLater { error, pause };
        }
        let is_permanent = error.is_permanent();
        if !is_permanent && error.asks_beyond(moment.rules.max_wait, self.waited) {
            return self.come_back(error);
        }
        self.failures += 1;
        if is_permanent || self.failures > moment.rules.retries {
            return self.give_up(error);
        }
        let pause = moment.pause(self.failures, &error);
        self.waits_for(&error, pause);
        self.phase = Phase::Waiting;
        Action::AskLater { error, pause }
    }
}
