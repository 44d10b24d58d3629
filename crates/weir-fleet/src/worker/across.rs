//! From one prefix to another of the same store, which copies the objects itself.
//!
//! What has the key is looked at before, and the store is told to copy only where nothing has it: an equal
//! stays and counts as done, another object stays and the source fails. Where what the store says of the two
//! cannot be compared, it is their bytes that tell. What the manifest names a digest of is held against it
//! before. Two workers that copy one object at the same time copy the same version of it.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use weir_codec::digest::Algorithm;
use weir_get::GetError;
use weir_get::http::connection::MAX_WAIT;
use weir_get::http::exchange::Http;
use weir_get::job::{Observer, Pinned};
use weir_store::StoreError;
use weir_store::caller::{Caller, CallerSetup};
use weir_store::condition::Condition;
use weir_store::listing::{Listed, Looked};
use weir_store::store::Store;
use weir_store::tree::content;
use weir_store::tree::through::Through as Passing;
use weir_store::upload::elsewhere::Sides;

use super::crew::{self, Crew};
use super::desk::{Desk, FleetTask, TaskEnd, TaskShare};
use super::fetch::expectation;
use super::hand::Hand;
use super::why::class_of_store;
use super::{Mover, MoverRun};
use crate::class::FailureClass;
use crate::object::FleetObject;

/// Copies at once: a store takes 20 ms or more for each, so they are 800 a second.
const HANDS: usize = 16;

/// A copy of 5 GiB takes a store a minute, in which it says nothing.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Attempts. The ledger gives an object out again, later and to another host.
const RETRIES: u32 = 3;

/// What failed, and with which object.
type AcrossError = (String, StoreError);

/// A prefix of a bucket.
pub struct StoreEnd {
    /// The bucket.
    pub store: Arc<dyn Store>,
    /// Its name.
    pub bucket: String,
    /// What keys begin with.
    pub prefix: String,
    /// `s3://BUCKET/`.
    pub shown: String,
}

impl StoreEnd {
    /// The digest of an object of it, as a look has found it: the store's, where it keeps one of that kind,
    /// or else that of the bytes, of which `hears` is told as they come.
    ///
    /// # Errors
    /// What the store says.
    pub fn digest(
        &self,
        caller: &mut Caller<'_>,
        looked: &Looked,
        algorithm: Algorithm,
        hears: &dyn Fn(),
    ) -> Result<Vec<u8>, StoreError> {
        if let Some((kept, value)) = content::digest_of(looked)
            && kept == algorithm
        {
            return Ok(value);
        }
        let shown = format!("{}{}", self.shown, looked.listed.key);
        let passing = Passing::of_store(&*self.store, shown, looked.clone(), None, &Arc::<Sides>::default())?;
        passing.source.digest(caller, algorithm, hears)
    }
}

/// Who hears that an object goes on.
#[derive(Clone, Copy)]
struct Heard<'a> {
    hand: &'a Hand,
    desk: &'a Desk,
}

impl Heard<'_> {
    /// The store has copied so much more.
    fn carries(self, bytes: u64) {
        self.hand.carries(bytes);
        self.desk.stir();
    }
}

/// A mover between two prefixes.
pub struct Across<'a> {
    from: StoreEnd,
    to: StoreEnd,
    http: &'a Http,
    hands: usize,
    copied: AtomicU64,
    /// The store copies, and not with a condition: the look before is all that it is asked by.
    is_unconditional: AtomicBool,
}

impl<'a> Across<'a> {
    /// So many copies at once.
    pub fn new(from: StoreEnd, to: StoreEnd, http: &'a Http, hands: Option<u32>) -> Across<'a> {
        let hands = hands.map_or(HANDS, |hands| hands as usize);
        Across { from, to, http, hands, copied: AtomicU64::new(0), is_unconditional: AtomicBool::new(false) }
    }

    fn one(
        &self,
        caller: &mut Caller<'_>,
        task: &FleetTask,
        heard: Heard<'_>,
    ) -> Result<TaskEnd, Box<AcrossError>> {
        let object = &*task.object;
        let of_name = |bytes: &[u8]| String::from_utf8(bytes.to_vec());
        let invalid = |why: &str| {
            let reason = format!("cannot copy '{}': {why}", object.source_text());
            Ok(TaskEnd::Failed(FailureClass::Invalid, reason))
        };
        let TaskShare::Whole = task.share else {
            return invalid(
                "it is planned in parts, as between two services, and this worker takes both ends for one: give it \
                 the --source- and --target- flags, or variables, that the plan was made with",
            );
        };
        let (Ok(source), Ok(target)) = (of_name(&object.source), of_name(&object.target)) else {
            return invalid("its key is no UTF-8");
        };
        let (key, to) = (format!("{}{source}", self.from.prefix), format!("{}{target}", self.to.prefix));
        let of_source = |error| Box::new((format!("{}{key}", self.from.shown), error));
        let of_target = |error| Box::new((format!("{}{to}", self.to.shown), error));
        let looked = self.from.store.lists().look(caller, &key, None, object.size).map_err(of_source)?;
        let Some(looked) = looked else {
            return Ok(TaskEnd::Failed(
                FailureClass::Missing,
                format!("{}{key} is not there", self.from.shown),
            ));
        };
        let looked = Looked { listed: Listed { key: key.clone(), ..looked.listed }, ..looked };
        let pinned = Pinned { size: object.size, etag: object.etag.clone(), modified: None, is_exact: false };
        if let Some(detail) = pinned.differs(Some(looked.listed.size), looked.listed.etag.as_deref(), None) {
            let reason = format!("{}{key}: {detail}; make a new plan for it", self.from.shown);
            return Ok(TaskEnd::Failed(FailureClass::Changed, reason));
        }
        let taken = self.taken(caller, &looked, &to, heard).map_err(of_target)?;
        if !matches!(taken, Some(TaskEnd::Failed(..)))
            && let Some(other) = self.is_other(caller, &looked, object, heard).map_err(of_source)?
        {
            return Ok(other);
        }
        if let Some(end) = taken {
            return Ok(end);
        }
        heard.hand.waits();
        let end = match self.copy(caller, &looked, &to, heard) {
            // Somebody has taken the key since the look, or this copy did, and its answer was lost.
            Err(error) if error.is_condition() => {
                self.taken(caller, &looked, &to, heard).and_then(|end| end.ok_or(error))
            }
            other => other,
        };
        end.map_err(of_target)
    }

    /// How an object ends whose key something has at the target; `None`: nothing has it.
    fn taken(
        &self,
        caller: &mut Caller<'_>,
        looked: &Looked,
        to: &str,
        heard: Heard<'_>,
    ) -> Result<Option<TaskEnd>, StoreError> {
        let Some(there) = self.to.store.lists().look(caller, to, None, None)? else { return Ok(None) };
        if self.is_equal(caller, (looked, &there), heard)? {
            return Ok(Some(TaskEnd::Same(looked.listed.size)));
        }
        let reason = format!(
            "{}{to} exists and is not what the source has; it is kept: move it away, or choose another target",
            self.to.shown
        );
        Ok(Some(TaskEnd::Failed(FailureClass::Name, reason)))
    }

    /// Has the store copy where nothing has the key. Not every store knows such a condition: then the key is
    /// looked at once more, since a long copy may have been refused at its end.
    fn copy(
        &self,
        caller: &mut Caller<'_>,
        looked: &Looked,
        to: &str,
        heard: Heard<'_>,
    ) -> Result<TaskEnd, StoreError> {
        let copy = |caller: &mut Caller<'_>, condition: &Condition| {
            let carries = |bytes| heard.carries(bytes);
            self.to.store.copies().copy(caller, &self.from.bucket, &looked.listed, (to, condition), &carries)
        };
        let refused = match self.is_unconditional.load(Relaxed) {
            true => None,
            false => match copy(caller, &Condition::Absent) {
                Err(error) if error.is_of_its_form() => Some(error),
                other => return other.map(|()| self.has_copied(looked)),
            },
        };
        if let Some(error) = &refused {
            tracing::info!("{error}; again without a condition");
            if let Some(end) = self.taken(caller, looked, to, heard)? {
                return Ok(end);
            }
        }
        copy(caller, &Condition::None)?;
        // A 400 without the store's code may be another's on the way.
        if refused
            .is_some_and(|error| error.is_unknown_request() || matches!(error, StoreError::Refused { .. }))
        {
            self.is_unconditional.store(true, Relaxed);
        }
        Ok(self.has_copied(looked))
    }

    fn has_copied(&self, looked: &Looked) -> TaskEnd {
        self.copied.fetch_add(looked.listed.size, Relaxed);
        TaskEnd::Moved(looked.listed.size)
    }

    /// The source and what has the key at the target have one content. The tag of an object of parts is no
    /// digest, and a copy of it has another: it is read then.
    fn is_equal(
        &self,
        caller: &mut Caller<'_>,
        (source, there): (&Looked, &Looked),
        heard: Heard<'_>,
    ) -> Result<bool, StoreError> {
        if source.listed.size != there.listed.size {
            return Ok(false);
        }
        if source.listed.etag.is_some() && source.listed.etag == there.listed.etag {
            return Ok(true);
        }
        let kept = content::digest_of(there).or_else(|| content::digest_of(source));
        let algorithm = kept.map_or(Algorithm::SHA256, |(algorithm, _)| algorithm);
        let stirs = || heard.desk.stir();
        let own = self.from.digest(caller, source, algorithm, &stirs)?;
        Ok(own == self.to.digest(caller, there, algorithm, &stirs)?)
    }

    /// How an object ends whose source has not the digest that the manifest names.
    fn is_other(
        &self,
        caller: &mut Caller<'_>,
        looked: &Looked,
        object: &FleetObject,
        heard: Heard<'_>,
    ) -> Result<Option<TaskEnd>, StoreError> {
        let Some(digest) = &object.digest else { return Ok(None) };
        let expected = match expectation(digest) {
            Ok(expectation) => expectation.expected,
            Err(end) => return Ok(Some(end)),
        };
        let found = self.from.digest(caller, looked, expected.algorithm(), &|| heard.desk.stir())?;
        if expected.matches(&found) {
            return Ok(None);
        }
        let (name, hex) = (expected.algorithm().name(), expected.hex());
        let shown = format!("{}{}", self.from.shown, looked.listed.key);
        let reason = format!("{name} of {shown} is not {hex}, which the manifest says; nothing is copied");
        Ok(Some(TaskEnd::Failed(FailureClass::Digest, reason)))
    }
}

impl Mover for Across<'_> {
    fn at_once(&self) -> usize {
        2 * self.hands
    }

    fn hands(&self) -> usize {
        self.hands
    }

    fn run(&self, run: &MoverRun<'_>, observer: &mut dyn Observer) {
        let hands = Hand::crew(self.hands);
        let hear = |hand| move |socket: Option<&Arc<TcpStream>>| Hand::set_socket(hand, socket);
        let heard: Vec<_> = hands.iter().map(hear).collect();
        let make = |number: usize| -> Box<crew::OneTask<'_>> {
            let mut caller = Caller::new(CallerSetup {
                http: self.http,
                clock: &hands[number].clock,
                on_socket: &heard[number],
                stop: run.stop,
                timeout: TIMEOUT,
                connect_timeout: TIMEOUT,
                max_wait: MAX_WAIT,
                retries: RETRIES,
            });
            let heard = Heard { hand: &hands[number], desk: run.desk };
            Box::new(move |task: &FleetTask| match self.one(&mut caller, task, heard) {
                Ok(end) => Some(end),
                Err(failed) => {
                    let (shown, error) = *failed;
                    let is_ended = matches!(error, StoreError::Http(GetError::Interrupted));
                    let failed = TaskEnd::Failed(class_of_store(&error), format!("{shown}: {error}"));
                    (!is_ended || !run.stop.load(Relaxed)).then_some(failed)
                }
            })
        };
        let crew = Crew { hands: &hands, make: &make, moved: &self.copied, target: None };
        crew::work(run, &crew, observer);
    }
}
