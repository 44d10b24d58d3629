//! An object that lanes share: which answers belong to it, what the end of one means, and what a failure
//! costs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_units::Bytes;

use super::{Action, Download, Moment, Phase, VERSION_TRIES};
use crate::error::GetError;
use crate::http::waiting::LONG;
use crate::ledger::{LaneId, Ledger};
use crate::object::{Object, Part};
use crate::version::Version;

/// Parts smaller than this never are: a request and the heads of its answer, some hundred bytes, are to be
/// little beside it.
pub const LEAST_PART: u64 = 32 << 10;

/// Answers in a row that were cut this small are the server's manner. Of one that is slow to read its disk
/// the first parts may be short.
const CRUMBS: u32 = 8;

/// An object that lanes share.
#[derive(Debug, Clone)]
pub struct Bulk {
    /// What each further answer must prove to be of.
    version: Arc<Version>,
    /// Announced size.
    size: Option<u64>,
    /// Its bytes go to a part file; else out in order, and cannot be had back.
    pub(super) to_file: bool,
    /// Parts can be asked for on further connections, as far as known.
    ranged: bool,
    /// Parts were given, under a strong validator, of a known size; or under none, where the user's digest of
    /// the whole tells in the end.
    pinned: bool,
    /// Until the pause after the last failure that counted is over, further ones tell nothing new.
    paused_to: Option<Instant>,
    /// Bytes done at the last failure.
    at_failure: u64,
    /// Answers in a row that brought less than was asked for, and too little to be worth a request.
    crumbs: u32,
    refusals: Refusals,
}

/// Answers in a row, without a byte between them, that refuse the rest of what came in parts. Several servers
/// may stand behind one name, and one may be odd for a moment.
#[derive(Debug, Clone, Default)]
struct Refusals {
    count: u32,
    /// Bytes done at the last one.
    done: u64,
    /// Until the pause after the last one that counted is over, further ones tell nothing new.
    paused_to: Option<Instant>,
}

impl Bulk {
    /// An object of this version and size, `done` bytes of which an earlier run left. `ranged`: parts can be
    /// asked for.
    pub fn new(version: Arc<Version>, size: Option<u64>, ranged: bool, to_file: bool, done: u64) -> Bulk {
        Bulk {
            version,
            size,
            to_file,
            ranged,
            pinned: ranged && size.is_some(),
            paused_to: None,
            at_failure: done,
            crumbs: 0,
            refusals: Refusals::default(),
        }
    }

    /// An answer whose bytes may not be put beside those that are here: it is not certainly of the same
    /// version.
    fn refuse_another(&self, object: &Object, host: &str) -> Result<(), GetError> {
        self.refuse_another_size(object, host)?;
        if self.is_on_trust() && self.version.may_be(&object.version) {
            return Ok(());
        }
        self.version.refuse_another(&object.version, host)
    }

    /// Only the digest of the whole shows whether further parts are of the same version.
    fn is_on_trust(&self) -> bool {
        self.pinned && self.version.if_range().is_none()
    }

    /// An answer that is no word of a new version ([`Object::refuse_silence`]).
    fn refuse_silence(&self, object: &Object, host: &str) -> Result<(), GetError> {
        object.refuse_silence(&self.version, self.size, host)
    }

    /// An object that is not of the size for which room was made.
    fn refuse_another_size(&self, object: &Object, host: &str) -> Result<(), GetError> {
        match self.size {
            Some(size) if !object.fits(size) => {
                Err(GetError::Changed { host: host.to_owned(), detail: "its size is another".to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// An attempt that `began` then has failed. Returns how many failures in a row count, this one with them,
    /// and how long to pause. What began before the pause after the last one was over does not count: of a
    /// dozen connections that break at one moment, and are refused while their server starts again, each
    /// would else use up a retry within a quarter of a second.
    fn count_failure(
        &mut self,
        failures: &mut u32,
        began: Instant,
        error: &GetError,
        moment: &Moment,
    ) -> (u32, Duration) {
        if self.paused_to.is_some_and(|end| began < end) {
            let known = (*failures).max(1);
            return (known, moment.pause(known, error));
        }
        *failures += 1;
        let pause = moment.pause(*failures, error);
        self.paused_to = Some(moment.time + pause);
        (*failures, pause)
    }

    /// The rest was refused once more. Returns how long to pause before it is asked for again; `None`: it is
    /// the server's manner, or nothing is here to which the rest could be put.
    fn pause_after_refusal(&mut self, error: &GetError, at: &Standing, moment: &Moment) -> Option<Duration> {
        let (seen, is_pinned) = (&mut self.refusals, self.pinned);
        if at.done > std::mem::replace(&mut seen.done, at.done) {
            seen.count = 0;
        }
        let counts = seen.paused_to.is_none_or(|end| at.began >= end);
        seen.count += u32::from(counts);
        if at.done == 0 || !is_pinned || seen.count >= VERSION_TRIES {
            return None;
        }
        let pause = moment.pause(seen.count, error);
        if counts {
            seen.paused_to = Some(moment.time + pause);
        }
        Some(pause)
    }

    /// An answer of `bytes` has ended before what was asked for did, or not (`is_short`). Returns whether
    /// that was one crumb too many: the server cuts all parts so small that a plain request is better. Told
    /// once.
    fn is_in_crumbs(&mut self, bytes: u64, is_short: bool) -> bool {
        self.crumbs = if is_short && bytes < LEAST_PART { self.crumbs.saturating_add(1) } else { 0 };
        self.crumbs == CRUMBS
    }

    /// A part is refused of an object whose first ones came. A link that has expired, or a file that is gone,
    /// is no such refusal; a plain request tells which it is.
    fn may_refuse_parts(&self, error: &GetError, at: &Standing) -> bool {
        let GetError::Status { status, .. } = error else { return false };
        let is_word_on_parts = !error.is_overload() && !matches!(status, 401 | 407);
        is_word_on_parts && at.others == 0 && self.ranged && self.to_file
    }
}

/// How the lanes of an object stand at an event.
#[derive(Debug, Clone, Copy)]
pub struct Standing {
    /// When the attempt that failed began.
    pub began: Instant,
    /// Bytes of the object that are here.
    pub done: u64,
    /// Other lanes whose answer was accepted, whether a byte of it has come or not.
    pub others: usize,
    /// Those of them that have had a byte of it.
    pub bringing: usize,
    /// A later run could fetch the rest.
    pub is_resumable: bool,
}

/// What a lane does with an answer to its request for a part.
#[derive(Debug)]
pub enum Carry {
    /// Carries it: it holds bytes up to here (`None`: to the object's end).
    Part(Option<u64>),
    /// Carries it from byte 0, if it is a file and of the right size ([`Download::on_whole`]).
    Whole(Object),
    /// Nothing: the server gives no parts on further connections, and the lane that is at work brings all.
    NoParts,
    /// Asks the URL itself again where the object is now: the link has expired.
    Resolve,
}

/// What a URL gives now.
#[derive(Debug)]
pub enum BulkSeen {
    /// The version that is here.
    Same,
    /// The same, by the bytes that the lane is to fetch: it holds them up to here.
    Sent(Option<u64>),
    /// Another that could be saved in its place, or one that cannot be told from another.
    Another,
    /// Nothing that could.
    Unfit,
    /// No answer, or one that tells nothing of the version.
    Failed(GetError),
}

/// How an answer came to its end.
#[derive(Debug, Clone, Copy)]
pub struct Carried {
    /// It said that it holds bytes up to here.
    pub holds_to: Option<u64>,
    /// Bytes that were taken of it.
    pub brought: u64,
    /// It was asked for as a part.
    pub ranged: bool,
}

impl Download {
    /// Lanes carry the object from here on.
    pub(crate) fn on_bulk(&mut self, bulk: Bulk) {
        if self.phase == Phase::Asking {
            // What comes in parts is not lost with its connection.
            if bulk.ranged {
                self.lost = 0;
            }
            (self.phase, self.failures, self.looks) = (Phase::Bulk, self.lost, 0);
            self.bulk = Some(Box::new(bulk));
        }
    }

    /// Its version can be proven, or its digest, so parts of further answers may be put beside those that are
    /// here.
    pub(crate) fn is_pinned(&self) -> bool {
        self.bulk.as_ref().is_some_and(|bulk| bulk.pinned)
    }

    /// Its version can be proven, in a later run too.
    pub(crate) fn is_resumable(&self) -> bool {
        self.bulk.as_ref().is_some_and(|bulk| bulk.pinned && !bulk.is_on_trust())
    }

    /// Parts can be asked for on further connections, as far as known.
    pub(crate) fn is_ranged(&self) -> bool {
        self.bulk.as_ref().is_some_and(|bulk| bulk.ranged)
    }

    /// Whether a lane may join so many `others`: to take bytes that belong to none of them, or some that do
    /// (`split`).
    pub(crate) fn takes_lane(&self, others: usize, split: bool) -> bool {
        !self.is_over() && (self.is_ranged() || !split && others == 0)
    }

    /// A lane is to fetch the bytes from `start` on, beside `others` that carry. Returns whether as a part.
    pub(crate) fn on_claim(&self, start: u64, others: usize, host: &str) -> Result<bool, GetError> {
        if !self.is_ranged() && start > 0 {
            if others > 0 {
                // That there are no parts was learned just now: the lane that is at work brings all.
                return Err(GetError::Dropped);
            }
            return Err(GetError::NoParts { host: host.to_owned() });
        }
        Ok(self.is_ranged())
    }

    /// An answer to a lane's request, for a part or (not `ranged`) for all of it. `moved`: not from the job's
    /// own URL.
    pub fn on_part(
        &mut self,
        judged: Result<Part, GetError>,
        ranged: bool,
        moved: bool,
        host: &str,
    ) -> Result<Carry, GetError> {
        if let (Ok(Part::Whole(object)), false) = (&judged, ranged) {
            self.refuse_silence(object, host)?;
        }
        let is_over = self.is_over();
        let bulk = self.bulk.as_mut().filter(|_| !is_over).ok_or(GetError::Dropped)?;
        match judged {
            Ok(Part::Asked(object)) => {
                bulk.refuse_another(&object, host)?;
                self.on_trust |= bulk.is_on_trust();
                Ok(Carry::Part(object.holds_to))
            }
            Ok(Part::Whole(object)) if !ranged => {
                if bulk.pinned {
                    bulk.refuse_another(&object, host)?;
                }
                Ok(Carry::Whole(object))
            }
            // 200 to a range: another object (If-Range failed), or a server that gives parts only sometimes.
            Ok(Part::Whole(object)) => {
                bulk.refuse_another(&object, host)?;
                bulk.ranged = false;
                Ok(Carry::NoParts)
            }
            Ok(Part::Empty | Part::Beyond(_)) => {
                Err(GetError::Changed { host: host.to_owned(), detail: "it is shorter now".to_owned() })
            }
            Err(GetError::Status { status: 401 | 403 | 404 | 410, .. }) if moved => Ok(Carry::Resolve),
            Err(error) => Err(error),
        }
    }

    /// The whole object of [`Carry::Whole`], as it is after decoding.
    pub(crate) fn on_whole(&self, object: &Object, host: &str) -> Result<(), GetError> {
        self.bulk.as_ref().ok_or(GetError::Dropped)?.refuse_another_size(object, host)
    }

    /// The answer that `lane` carried is read to its end.
    pub(crate) fn on_end(
        &mut self,
        ledger: &mut Ledger,
        lane: LaneId,
        carried: Carried,
        host: &str,
    ) -> Result<(), GetError> {
        let Carried { holds_to, brought, ranged } = carried;
        let host = || host.to_owned();
        let at = ledger.claim(lane).filter(|claim| !claim.is_empty()).map(|claim| claim.start);
        if let (Some(at), Some(end)) = (at, holds_to)
            && at < end
        {
            let expected = format!("the bytes up to {}", Bytes(end));
            return Err(GetError::Truncated { host: host(), got: Bytes(at), expected });
        }
        if ledger.size().is_none() {
            let end = ledger.claim(lane).map_or(0, |claim| claim.start);
            if end == 0 && ranged {
                return Err(GetError::EmptyRange { host: host() });
            }
            if !ledger.ends_at(end) {
                let detail = format!("its answer ended at byte {end}, before bytes that are already here");
                return Err(GetError::WrongPart { host: host(), detail });
            }
        }
        match self.bulk.as_mut().is_some_and(|bulk| bulk.is_in_crumbs(brought, at.is_some())) {
            true => Err(GetError::Crumbs { host: host(), bytes: Bytes(brought) }),
            false => Ok(()),
        }
    }

    /// What the URL gives now, from an answer to a question for all of it as a range, or (`is_rest`) for the
    /// bytes that the lane is to fetch. `is_unfit`: it is no file.
    pub fn seen(
        &self,
        judged: &Result<Part, GetError>,
        is_rest: bool,
        is_unfit: bool,
        host: &str,
    ) -> BulkSeen {
        let is_same = |object: &Object| {
            self.bulk.as_ref().is_some_and(|bulk| bulk.refuse_another(object, host).is_ok())
        };
        let silence =
            |object: &Object| self.bulk.as_ref().and_then(|bulk| bulk.refuse_silence(object, host).err());
        match judged {
            _ if is_unfit => BulkSeen::Unfit,
            Ok(Part::Asked(object)) if is_same(object) && is_rest => BulkSeen::Sent(object.holds_to),
            Ok(Part::Asked(object)) if is_same(object) => BulkSeen::Same,
            Ok(Part::Asked(object) | Part::Whole(object)) => {
                silence(object).map_or(BulkSeen::Another, BulkSeen::Failed)
            }
            _ => BulkSeen::Unfit,
        }
    }

    /// Whether an answer to a plain request brings the whole object, for which what is here may go.
    pub(crate) fn brings_all(&self, judged: &Result<Part, GetError>, host: &str) -> bool {
        let Ok(Part::Whole(object)) = judged else { return false };
        self.bulk.as_ref().is_some_and(|bulk| bulk.refuse_silence(object, host).is_ok())
    }

    /// What was seen after [`Action::Look`]. It is asked for again where that is another version: of several
    /// servers behind one name each may have an ETag of its own (Apache's was made of the inode), and the
    /// next connection may come to that of this transfer. Of the odd answers one is enough: it is no new
    /// version, and what is here may still be right.
    pub(crate) fn on_look(
        &mut self,
        error: GetError,
        seen: BulkSeen,
        at: &Standing,
        moment: &Moment,
    ) -> Action {
        if self.phase != Phase::Doubted {
            return Action::Leave;
        }
        if matches!(seen, BulkSeen::Another) {
            self.looks += 1;
            if self.looks < VERSION_TRIES {
                return Action::Look(error);
            }
        }
        (self.phase, self.looks) = (Phase::Bulk, 0);
        match seen {
            BulkSeen::Another => self.begin_anew(error, false, moment),
            BulkSeen::Sent(holds_to) => Action::Carry(holds_to),
            BulkSeen::Same => self.failed(error, false, at, moment),
            BulkSeen::Unfit => self.failed(error, true, at, moment),
            BulkSeen::Failed(GetError::Interrupted) => Action::Leave,
            BulkSeen::Failed(failure) => {
                let is_permanent = failure.is_permanent();
                self.failed(failure, is_permanent, at, moment)
            }
        }
    }

    /// Whether a plain request brings the whole object, after [`Action::AskPlainly`].
    pub(crate) fn on_plain(
        &mut self,
        error: GetError,
        is_whole: bool,
        at: &Standing,
        moment: &Moment,
    ) -> Action {
        if self.is_over() || self.bulk.is_none() {
            return Action::Leave;
        }
        match error {
            error @ GetError::Status { .. } if is_whole => self.refused(error, at, moment),
            error if is_whole => self.begin_anew(error, true, moment),
            // They are what there is.
            GetError::Crumbs { .. } => Action::Leave,
            error if error.is_permanent() => self.failed(error, true, at, moment),
            error => self.give_up(error),
        }
    }

    /// A lane's attempt at a part failed.
    pub(super) fn part_failed(&mut self, error: GetError, at: &Standing, moment: &Moment) -> Action {
        let Some(bulk) = &self.bulk else { return Action::Leave };
        match error {
            GetError::Dropped | GetError::Interrupted => Action::Leave,
            GetError::NoParts { .. } if bulk.to_file => self.refused(error, at, moment),
            GetError::EmptyRange { .. } if bulk.to_file => self.begin_anew(error, true, moment),
            // Nothing has been passed on, and the next request of a transfer without parts is a plain one.
            GetError::EmptyRange { .. } => Action::Leave,
            GetError::Crumbs { .. } if bulk.to_file => Action::AskPlainly(error),
            GetError::Crumbs { .. } => Action::Leave,
            // An answer to a plain request: nothing is here that it could be put beside.
            GetError::Unproven { is_silent: true, .. } if !bulk.pinned => {
                self.failed(error, false, at, moment)
            }
            GetError::Changed { .. } | GetError::Unproven { .. } => self.doubt(error, moment),
            GetError::Unclean { got, .. } => self.unclean(error, got.0, moment),
            error if error.is_permanent() && bulk.may_refuse_parts(&error, at) => Action::AskPlainly(error),
            error => {
                let is_permanent = error.is_permanent();
                self.failed(error, is_permanent, at, moment)
            }
        }
    }

    /// The rest was refused, and a plain request brings all of it: what is here goes for that only where the
    /// rest is refused again and again.
    fn refused(&mut self, error: GetError, at: &Standing, moment: &Moment) -> Action {
        let pause = self.bulk.as_mut().and_then(|bulk| {
            let pause = bulk.pause_after_refusal(&error, at, moment)?;
            bulk.ranged = true;
            Some(pause)
        });
        match pause {
            Some(pause) => self.back_off(error, at, pause),
            None => self.begin_anew(error, true, moment),
        }
    }

    /// The next part after a pause.
    fn back_off(&mut self, error: GetError, at: &Standing, pause: Duration) -> Action {
        self.waits_for(&error, pause);
        let others = at.others > 0;
        let stays = others || !error.is_overload() && pause < LONG;
        Action::BackOff { error, pause, stays, others }
    }

    /// An answer is of another version, or may be. One lane asks what the URL gives now.
    fn doubt(&mut self, error: GetError, moment: &Moment) -> Action {
        if self.phase == Phase::Doubted {
            return Action::Rest { pause: moment.pause(1, &error), refused: None };
        }
        if !self.is_pinned() {
            return self.begin_anew(error, false, moment);
        }
        (self.phase, self.looks) = (Phase::Doubted, 0);
        Action::Look(error)
    }

    /// The body ended uncleanly after `got` bytes. A path that was cut is cut elsewhere the next time, a
    /// server that never ends its sessions in order ends them at the same byte.
    fn unclean(&mut self, error: GetError, got: u64, moment: &Moment) -> Action {
        let is_meant = self.unclean.replace(got) == Some(got);
        match is_meant || moment.rules.retries == 0 {
            true => self.give_up(error),
            false => self.begin_anew(error, false, moment),
        }
    }

    /// A failure that counts: once more, as far as retries go.
    fn failed(&mut self, error: GetError, is_permanent: bool, at: &Standing, moment: &Moment) -> Action {
        let Some(bulk) = &mut self.bulk else { return Action::Leave };
        let others = at.others > 0;
        if is_permanent && others && error.is_remote() {
            // What the server says to one connection too many is no word on the one that brings the bytes.
            return Action::Rest { pause: moment.pause(1, &error), refused: Some(error) };
        }
        if is_permanent {
            return self.give_up(error);
        }
        bulk.ranged |= at.is_resumable;
        // A drip is no progress: else a few bytes an attempt would keep a run for days.
        let enough = match error {
            GetError::Stalled { is_slow: true, .. } => moment.rules.drip.max(1),
            _ => 1,
        };
        let before = std::mem::replace(&mut bulk.at_failure, at.done);
        if at.done >= before.saturating_add(enough) {
            (self.failures, self.waited) = (self.lost, Duration::ZERO);
        }
        if !others && !error.is_permanent() && error.asks_beyond(moment.rules.max_wait, self.waited) {
            return self.come_back(error);
        }
        let (failures, pause) = bulk.count_failure(&mut self.failures, at.began, &error, moment);
        let keeps = bulk.ranged || bulk.to_file;
        // An answer without a byte may end as this one did: retries would go on for as long as there is one.
        if failures > moment.rules.retries && at.bringing == 0 || !keeps && at.done > 0 {
            return self.exhausted(error, at, moment);
        }
        if !bulk.ranged && at.done > 0 {
            self.lost = failures;
            return self.requeue(error, pause);
        }
        self.back_off(error, at, pause)
    }

    /// No retry is left, or nothing that it could go on with.
    fn exhausted(&mut self, error: GetError, at: &Standing, moment: &Moment) -> Action {
        match (&error, &self.bulk) {
            // The whole is there, but its parts are never what was asked for, or never prove what they are
            // of: the same would happen to a later run.
            (GetError::Unproven { is_silent: false, .. } | GetError::WrongPart { .. }, Some(bulk))
                if bulk.to_file =>
            {
                self.begin_anew(error, true, moment)
            }
            (_, Some(bulk)) if bulk.may_refuse_parts(&error, at) => Action::AskPlainly(error),
            _ => self.give_up(error),
        }
    }
}
