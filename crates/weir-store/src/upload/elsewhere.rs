//! An object of another store or of a web server as what is sent: each part is fetched by requests of its
//! own, of one version, and held until the target has taken it. Nothing of it is left on this machine.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use url::Url;
use weir_codec::digest::{Algorithm, Digest};
use weir_codec::hex;
use weir_get::GetError;
use weir_get::error::Fate;
use weir_get::http::call::{AtHand, Call, Reply};
use weir_http::content_range::ContentRange;
use weir_http::head::ResponseHead;
use weir_http::validator::Validators;

use super::fields::Unkept;
use super::journal::KeptPart;
use super::plan::{PART, Plan};
use super::source::Held;
use super::{Bounds, Part, Sum};
use crate::caller::{Caller, refusal};
use crate::environment::End;
use crate::error::StoreError;

/// What one request fetches: as much as an answer may hold in memory.
pub const PIECE: u64 = PART;

/// What is said beside a refusal may be as long as this, however little was asked for.
const SHORT: usize = 64 << 10;

/// How soon a lane that waits for its turn hears a signal.
const POLL: Duration = Duration::from_millis(100);

/// How long both sides of a copy took, all lanes together, how many are at work on which now, and what one
/// has that the other does not keep.
#[derive(Debug, Default)]
pub struct Sides {
    source: AtomicU64,
    target: AtomicU64,
    fetching: AtomicU32,
    sending: AtomicU32,
    unkept: Unkept,
}

/// Time of one side, which ends with this.
pub(super) struct OneSide<'a> {
    spent: &'a AtomicU64,
    at_work: &'a AtomicU32,
    began: Instant,
}

impl Drop for OneSide<'_> {
    fn drop(&mut self) {
        let span = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.spent.fetch_add(span, Relaxed);
        self.at_work.fetch_sub(1, Relaxed);
    }
}

impl Sides {
    /// So long was fetched, and so long sent.
    pub fn spent(&self) -> (Duration, Duration) {
        let of = |side: &AtomicU64| Duration::from_nanos(side.load(Relaxed));
        (of(&self.source), of(&self.target))
    }

    /// So many lanes fetch now, and so many send.
    pub fn at_work(&self) -> (u32, u32) {
        (self.fetching.load(Relaxed), self.sending.load(Relaxed))
    }

    /// What of the source's objects the target does not keep as it is.
    pub fn unkept(&self) -> &Unkept {
        &self.unkept
    }

    fn fetches(&self) -> OneSide<'_> {
        Sides::begin(&self.source, &self.fetching)
    }

    /// From now on a lane sends.
    pub(super) fn sends(&self) -> OneSide<'_> {
        Sides::begin(&self.target, &self.sending)
    }

    fn begin<'a>(spent: &'a AtomicU64, at_work: &'a AtomicU32) -> OneSide<'a> {
        at_work.fetch_add(1, Relaxed);
        OneSide { spent, at_work, began: Instant::now() }
    }
}

/// See the module.
pub struct Elsewhere {
    /// Its address.
    pub url: Url,
    /// Whoever has it honours `If-Match` on a GET.
    pub pins: bool,
    /// `gs://BUCKET/KEY`.
    pub shown: String,
    /// Its address without what is secret in it, and its version if one is meant: what a journal knows it by.
    pub name: String,
    /// Bytes, as it was listed.
    pub size: u64,
    /// The version that is meant, as far as it is known before: a tag that is not weak, or a date that is
    /// strong.
    pub version: Option<String>,
    /// The coding that its store keeps it in, which is what is asked for: Google decompresses for whoever
    /// does not take gzip, and then neither size nor digest is the object's.
    pub coding: Option<String>,
    /// The digest that all of it must have.
    pub kept: Option<Sum>,
    /// Who says so: `its store's`.
    pub origin: &'static str,
    /// Where the time goes.
    pub sides: Arc<Sides>,
    /// What is known of it while it is fetched.
    pub fetched: Fetched,
}

/// What is known of an object while it is fetched.
#[derive(Default)]
pub struct Fetched {
    /// What all answers must be of.
    pin: Mutex<Option<String>>,
    /// Digests of parts, of a kind that adds up.
    sums: Mutex<BTreeMap<u32, (Vec<u8>, u64)>>,
    in_turn: Mutex<InTurn>,
    turns: Condvar,
}

/// A digest of a kind that does not add up: of the parts one after another, whoever fetches them.
#[derive(Default)]
struct InTurn {
    digest: Option<Box<dyn Digest>>,
    /// The part that is next.
    next: u32,
    /// One could not be fetched: the next does not come.
    is_broken: bool,
    /// Those before are others' to fetch.
    is_share: bool,
}

/// Lets those go that wait for a part which does not come.
struct MayBreak<'a>(&'a Fetched, bool);

impl Drop for MayBreak<'_> {
    fn drop(&mut self) {
        if self.1 {
            self.0.in_turn.lock().is_broken = true;
            self.0.turns.notify_all();
        }
    }
}

impl fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elsewhere")
            .field("shown", &self.shown)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// What says that two answers are of one version (RFC 9110 section 8.8): a tag that is not weak, or a date
/// that is strong.
pub fn version_of(head: &ResponseHead) -> Option<String> {
    let tag = head.header("etag").filter(|tag| !tag.starts_with("W/")).map(str::to_owned);
    tag.or_else(|| Validators::from_fields(&head.fields).strong().map(str::to_owned))
}

impl Elsewhere {
    /// How it is cut: into parts that several lanes can hold in memory, unless the target takes none so
    /// small.
    pub(super) fn plan(&self, bounds: &Bounds) -> Result<Plan, StoreError> {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20) << 20;
        let least = mib(self.size.div_ceil(u64::from(bounds.parts))).max(bounds.least_part);
        Plan::of_size(self.size, bounds, Some(PART.max(least).min(bounds.most_part)))
    }

    /// It begins, perhaps for the second time; `is_share`: with some of its parts alone.
    pub(super) fn begin(&self, is_share: bool) {
        *self.fetched.pin.lock() = self.version.clone();
        self.fetched.sums.lock().clear();
        let digest = self.kept.as_ref().map(|kept| kept.algorithm).filter(|one| !adds_up(*one));
        let digest = digest.filter(|_| !is_share).map(Algorithm::start);
        *self.fetched.in_turn.lock() = InTurn { digest, next: 1, is_broken: false, is_share };
    }

    /// The part `number`, `length` bytes from `start` on; `None`: another one could not be had, and its lane
    /// says why. Parts are taken in their order.
    pub(super) fn fetch(
        &self,
        caller: &mut Caller<'_>,
        number: u32,
        (start, length): (u64, u64),
    ) -> Result<Option<Held>, StoreError> {
        let mut breaks = MayBreak(&self.fetched, true);
        let side = self.sides.fetches();
        if length == 0 {
            self.is_empty(caller)?;
        }
        let held = Held::fetched(length, PIECE, |at, length| self.piece(caller, start + at, length))?;
        drop(side);
        let is_whole = match &self.kept {
            Some(kept) if adds_up(kept.algorithm) => {
                let sum = held.digest(kept.algorithm)?;
                self.fetched.sums.lock().insert(number, (sum, length));
                true
            }
            Some(_) => self.digest_in_turn(caller, number, &held)?,
            None => true,
        };
        breaks.1 = false;
        Ok(is_whole.then_some(held))
    }

    /// Takes a part into the digest of all when those before it are in; false: one of them does not come.
    fn digest_in_turn(&self, caller: &Caller<'_>, number: u32, held: &Held) -> Result<bool, StoreError> {
        let mut turn = self.fetched.in_turn.lock();
        // The lanes before this one have deadlines.
        while turn.next != number && !turn.is_share {
            if caller.is_stopped() {
                return Err(GetError::Interrupted.into());
            }
            if turn.is_broken {
                return Ok(false);
            }
            self.fetched.turns.wait_for(&mut turn, POLL);
        }
        if let Some(digest) = &mut turn.digest {
            held.feed(&mut **digest)?;
        }
        turn.next += 1;
        self.fetched.turns.notify_all();
        Ok(true)
    }

    /// The digest of all of the version that is meant, fetched once more. `hears` of every piece.
    pub fn digest(
        &self,
        caller: &mut Caller<'_>,
        algorithm: Algorithm,
        hears: &dyn Fn(),
    ) -> Result<Vec<u8>, StoreError> {
        *self.fetched.pin.lock() = self.version.clone();
        let mut digest = algorithm.start();
        let mut at = 0;
        while at < self.size {
            let piece = self.piece(caller, at, PIECE.min(self.size - at))?;
            digest.update(&piece);
            at += piece.len() as u64;
            hears();
        }
        Ok(digest.finish())
    }

    /// The version that answers have to be of, as far as it is known.
    pub(super) fn pin(&self) -> Option<String> {
        self.fetched.pin.lock().clone()
    }

    /// Its store still has what `pin` names. From then on nothing else is taken.
    pub(super) fn is_still(&self, caller: &mut Caller<'_>, pin: &str) -> Result<bool, StoreError> {
        *self.fetched.pin.lock() = Some(pin.to_owned());
        match self.piece(caller, 0, 1.min(self.size)) {
            Ok(_) => Ok(true),
            Err(StoreError::Changed(_)) => {
                self.fetched.pin.lock().clone_from(&self.version);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// The digest of a part that was fetched, as a journal writes it.
    pub(super) fn sum_of(&self, number: u32) -> Option<String> {
        self.fetched.sums.lock().get(&number).map(|(sum, _)| hex::encode(sum))
    }

    /// The parts of `there` that are known by the digest that its store keeps, which is what the journal
    /// `said`; the others have to be fetched again, since all together are held against it.
    pub(super) fn known(&self, there: Vec<Part>, said: &[KeptPart], plan: Plan) -> Vec<Part> {
        let Some(kept) = &self.kept else { return there };
        if !adds_up(kept.algorithm) {
            // It is computed from the first part on.
            return Vec::new();
        }
        let of_part = |number: u32| {
            let text = said.iter().find(|part| part.number == number)?.kept.as_deref()?;
            hex::decode(text).ok().filter(|sum| sum.len() == kept.algorithm.len())
        };
        let mut sums = self.fetched.sums.lock();
        let mut is_known = |part: &Part| {
            let sum = of_part(part.number);
            let length = plan.range(part.number, self.size).1;
            sum.map(|sum| sums.insert(part.number, (sum, length))).is_some()
        };
        there.into_iter().filter(|part| is_known(part)).collect()
    }

    fn piece(&self, caller: &mut Caller<'_>, start: u64, length: u64) -> Result<Vec<u8>, StoreError> {
        let pin = self.pin();
        let (reply, call) = self.ask(caller, pin.as_deref(), (start, length))?;
        match reply.head.status {
            200 | 206 => {}
            404 | 412 | 416 if pin.is_some() || reply.head.status != 404 => return Err(self.changed()),
            _ => return Err(refusal(&format!("fetch {}", self.shown), &call, &reply).at(End::Source)),
        }
        self.is_it(&reply, (start, length), pin)?;
        Ok(reply.body)
    }

    /// Asks for `length` bytes from `start` on, one at least, of the version `pin` where its store honours
    /// that.
    fn ask(
        &self,
        caller: &mut Caller<'_>,
        pin: Option<&str>,
        (start, length): (u64, u64),
    ) -> Result<(Reply, Call<'static>), StoreError> {
        let mut fields = vec![("range".to_owned(), format!("bytes={start}-{}", start + length - 1))];
        fields.extend(self.coding.iter().map(|coding| ("accept-encoding".to_owned(), coding.clone())));
        fields.extend(pin.filter(|_| self.pins).map(|tag| ("if-match".to_owned(), tag.to_owned())));
        let most = usize::try_from(length).unwrap_or(usize::MAX).max(SHORT);
        let call = Call { method: "GET", url: self.url.clone(), fields, most, asks_first: false };
        let reply = caller.ask(&call, &mut AtHand::default());
        Ok((reply.map_err(|error| self.of_source(error).at(End::Source))?, call))
    }

    /// It has no byte, whatever was said of it before: an answer to `HEAD` without a length, or with a wrong
    /// one, would become an empty object.
    fn is_empty(&self, caller: &mut Caller<'_>) -> Result<(), StoreError> {
        let (reply, call) = self.ask(caller, self.pin().as_deref(), (0, 1))?;
        let range = reply.head.header("content-range").and_then(|text| text.parse().ok());
        let is_empty = match reply.head.status {
            416 => !matches!(range, Some(ContentRange::Unsatisfied { complete }) if complete > 0),
            200 | 204 => reply.body.is_empty(),
            206 | 404 | 412 => false,
            _ => return Err(refusal(&format!("fetch {}", self.shown), &call, &reply).at(End::Source)),
        };
        if is_empty { Ok(()) } else { Err(self.changed()) }
    }

    /// A fault on the way to it: which of the two ends it is of is told.
    fn of_source(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::Http(error) if !matches!(error, GetError::Interrupted) => {
                StoreError::Answered { what: format!("fetch {}", self.shown), answer: Box::new(error) }
            }
            other => other,
        }
    }

    /// The answer holds these bytes of the version that was begun with.
    fn is_it(
        &self,
        reply: &Reply,
        (start, length): (u64, u64),
        pin: Option<String>,
    ) -> Result<(), StoreError> {
        let range = reply.head.header("content-range").and_then(|text| text.parse().ok());
        let is_range = match range {
            Some(ContentRange::Bytes { first, last, complete }) => {
                first == start && last + 1 == start + length && complete.is_none_or(|size| size == self.size)
            }
            // All of it, to who asked for all.
            _ => reply.head.status == 200 && start == 0 && length == self.size,
        };
        if !is_range || reply.body.len() as u64 != length {
            return Err(self.changed());
        }
        let unproven = |why: &str| {
            Err(StoreError::Answer { what: format!("fetch {}", self.shown), why: why.to_owned() })
        };
        match (pin, version_of(&reply.head)) {
            (Some(pin), Some(version)) if pin != version => Err(self.changed()),
            (None, None) if length < self.size => {
                unproven("has no ETag, so nothing says that two parts are of one version")
            }
            // A store that honours the condition has given its word.
            (Some(_), None) if !self.pins => {
                unproven("has no ETag any more, so nothing says that it is of the same version")
            }
            (None, version) => {
                *self.fetched.pin.lock() = version;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Digests of the parts that were fetched, of the kind that is kept, by their numbers.
    pub fn sums(&self) -> BTreeMap<u32, Vec<u8>> {
        self.fetched.sums.lock().iter().map(|(number, (sum, _))| (*number, sum.clone())).collect()
    }

    fn changed(&self) -> StoreError {
        StoreError::Changed(self.shown.clone())
    }

    /// All parts together have the digest that is known. `Ok(false)`: none is.
    pub(super) fn is_whole(&self) -> Result<bool, StoreError> {
        let Some(kept) = &self.kept else { return Ok(false) };
        let found = match adds_up(kept.algorithm) {
            true => {
                let sums = self.fetched.sums.lock();
                let mut parts = sums.values();
                let first = parts.next().map(|(first, _)| first.clone());
                first.and_then(|first| {
                    parts.try_fold(first, |sum, (part, length)| kept.algorithm.combined(&sum, part, *length))
                })
            }
            false => self.fetched.in_turn.lock().digest.take().map(|digest| digest.finish()),
        };
        let Some(found) = found else { return Ok(false) };
        if found == kept.value {
            return Ok(true);
        }
        Err(StoreError::Http(GetError::Digest {
            name: self.shown.clone(),
            algorithm: kept.algorithm.name(),
            expected: hex::encode(&kept.value),
            found: hex::encode(&found),
            origin: self.origin.to_owned(),
            fate: Fate::Discarded,
        }))
    }
}

/// The digest of two pieces is known by those of each.
fn adds_up(algorithm: Algorithm) -> bool {
    let none = algorithm.of(b"");
    algorithm.combined(&none, &none, 0).is_some()
}
