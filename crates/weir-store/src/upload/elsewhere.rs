//! An object of another store as what is sent: each part is fetched by requests of its own, of one version,
//! and held until the target has taken it. Nothing of it is left on this machine.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use url::Url;
use weir_codec::hex;
use weir_get::GetError;
use weir_get::error::Fate;
use weir_get::http::call::{AtHand, Call, Reply};
use weir_http::content_range::ContentRange;

use super::journal::KeptPart;
use super::plan::{PART, Plan};
use super::source::Held;
use super::{Bounds, Part, Sum};
use crate::caller::{Caller, refusal};
use crate::environment::End;
use crate::error::StoreError;

/// What one request fetches: as much as an answer may hold in memory.
const PIECE: u64 = PART;

/// How long both sides of a copy took, all lanes together.
#[derive(Debug, Default)]
pub struct Sides {
    source: AtomicU64,
    target: AtomicU64,
}

impl Sides {
    /// So long was fetched, and so long sent.
    pub fn spent(&self) -> (Duration, Duration) {
        let of = |side: &AtomicU64| Duration::from_nanos(side.load(Relaxed));
        (of(&self.source), of(&self.target))
    }

    fn add(side: &AtomicU64, since: Instant) {
        side.fetch_add(u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Time since then went to the target.
    pub(super) fn sent(&self, since: Instant) {
        Sides::add(&self.target, since);
    }
}

/// See the module.
pub struct Elsewhere {
    /// Its address.
    pub url: Url,
    /// Its store honours `If-Match` on a GET.
    pub pins: bool,
    /// `gs://BUCKET/KEY`.
    pub shown: String,
    /// Its address without what is secret in it, and its version if one is meant: what a journal knows it by.
    pub name: String,
    /// Bytes, as it was listed.
    pub size: u64,
    /// The digest that its store keeps of all of it.
    pub kept: Option<Sum>,
    /// Where the time goes.
    pub sides: Arc<Sides>,
    /// What all answers must be of.
    pub pin: Mutex<Option<String>>,
    /// Digests of parts, of the kind that is kept.
    pub sums: Mutex<BTreeMap<u32, (Vec<u8>, u64)>>,
}

impl fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elsewhere")
            .field("shown", &self.shown)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl Elsewhere {
    /// How it is cut: into parts that several lanes can hold in memory, unless the target takes none so
    /// small.
    pub(super) fn plan(&self, bounds: &Bounds) -> Result<Plan, StoreError> {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20) << 20;
        let least = mib(self.size.div_ceil(u64::from(bounds.parts))).max(bounds.least_part);
        Plan::of_size(self.size, bounds, Some(PART.max(least).min(bounds.most_part)))
    }

    /// The part `number`, `length` bytes from `start` on.
    pub(super) fn fetch(
        &self,
        caller: &mut Caller<'_>,
        number: u32,
        (start, length): (u64, u64),
    ) -> Result<Held, StoreError> {
        let began = Instant::now();
        let fetched = Held::fetched(length, PIECE, |at, length| self.piece(caller, start + at, length));
        Sides::add(&self.sides.source, began);
        let held = fetched?;
        if let Some(kept) = &self.kept {
            let sum = held.digest(kept.algorithm)?;
            self.sums.lock().insert(number, (sum, length));
        }
        Ok(held)
    }

    /// Its store still has what `pin` names. From then on nothing else is taken.
    pub(super) fn is_still(&self, caller: &mut Caller<'_>, pin: &str) -> Result<bool, StoreError> {
        *self.pin.lock() = Some(pin.to_owned());
        match self.piece(caller, 0, 1.min(self.size)) {
            Ok(_) => Ok(true),
            Err(StoreError::Changed(_)) => {
                *self.pin.lock() = None;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// The digest of a part that was fetched, as a journal writes it.
    pub(super) fn sum_of(&self, number: u32) -> Option<String> {
        self.sums.lock().get(&number).map(|(sum, _)| hex::encode(sum))
    }

    /// The parts of `there` that are known by the digest that its store keeps, which is what the journal
    /// `said`; the others have to be fetched again, since all together are held against it.
    pub(super) fn known(&self, there: Vec<Part>, said: &[KeptPart], plan: Plan) -> Vec<Part> {
        let Some(kept) = &self.kept else { return there };
        let of_part = |number: u32| {
            let text = said.iter().find(|part| part.number == number)?.kept.as_deref()?;
            hex::decode(text).ok().filter(|sum| sum.len() == kept.algorithm.len())
        };
        let mut sums = self.sums.lock();
        let mut is_known = |part: &Part| {
            let sum = of_part(part.number);
            let length = plan.range(part.number, self.size).1;
            sum.map(|sum| sums.insert(part.number, (sum, length))).is_some()
        };
        there.into_iter().filter(|part| is_known(part)).collect()
    }

    fn piece(&self, caller: &mut Caller<'_>, start: u64, length: u64) -> Result<Vec<u8>, StoreError> {
        let pin = self.pin.lock().clone();
        let mut fields = vec![("range".to_owned(), format!("bytes={start}-{}", start + length - 1))];
        fields.extend(pin.iter().filter(|_| self.pins).map(|tag| ("if-match".to_owned(), tag.clone())));
        let most = usize::try_from(length).unwrap_or(usize::MAX);
        let call = Call { method: "GET", url: self.url.clone(), fields, most, asks_first: false };
        let reply = caller.ask(&call, &mut AtHand::default()).map_err(|error| error.at(End::Source))?;
        match reply.head.status {
            200 | 206 => {}
            404 | 412 | 416 if pin.is_some() || reply.head.status != 404 => return Err(self.changed()),
            _ => return Err(refusal(&format!("fetch {}", self.shown), &call, &reply).at(End::Source)),
        }
        self.is_it(&reply, (start, length), pin)?;
        Ok(reply.body)
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
        let tag = reply.head.header("etag").filter(|tag| !tag.starts_with("W/")).map(str::to_owned);
        match (pin, tag) {
            (Some(pin), Some(tag)) if pin != tag => Err(self.changed()),
            (None, None) if length < self.size => Err(StoreError::Answer {
                what: format!("fetch {}", self.shown),
                why: "has no ETag, so nothing says that two parts are of one version".to_owned(),
            }),
            (None, tag) => {
                *self.pin.lock() = tag;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn changed(&self) -> StoreError {
        StoreError::Changed(self.shown.clone())
    }

    /// All parts together have the digest that the store keeps. `Ok(false)`: that cannot be told from parts.
    pub(super) fn is_whole(&self) -> Result<bool, StoreError> {
        let Some(kept) = &self.kept else { return Ok(false) };
        let sums = self.sums.lock();
        let mut parts = sums.values();
        let Some((first, _)) = parts.next() else { return Ok(false) };
        let combined =
            |sum: Vec<u8>, (part, length): &(Vec<u8>, u64)| kept.algorithm.combined(&sum, part, *length);
        let Some(found) = parts.try_fold(first.clone(), combined) else { return Ok(false) };
        if found == kept.value {
            return Ok(true);
        }
        Err(StoreError::Http(GetError::Digest {
            name: self.shown.clone(),
            algorithm: kept.algorithm.name(),
            expected: hex::encode(&kept.value),
            found: hex::encode(&found),
            origin: "its store's".to_owned(),
            fate: Fate::Discarded,
        }))
    }
}
