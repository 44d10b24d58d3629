//! From one prefix to another of the same store, which copies the objects itself.
//!
//! What has the key is looked at before: an equal stays and counts as done, another object stays and the
//! source fails. Two workers that copy one object at the same time copy the same version of it.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use weir_get::GetError;
use weir_get::http::exchange::Http;
use weir_get::job::{Observer, Pinned};
use weir_store::StoreError;
use weir_store::caller::{Caller, CallerSetup};
use weir_store::listing::{Listed, Looked};
use weir_store::store::Store;
use weir_store::tree::content;

use super::crew::{self, Crew};
use super::desk::{FleetTask, TaskEnd, TaskShare};
use super::hand::Hand;
use super::why::class_of_store;
use super::{Mover, MoverRun};
use crate::class::FailureClass;

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

/// A mover between two prefixes.
pub struct Across<'a> {
    from: StoreEnd,
    to: StoreEnd,
    http: &'a Http,
    hands: usize,
    copied: AtomicU64,
}

impl<'a> Across<'a> {
    /// So many copies at once.
    pub fn new(from: StoreEnd, to: StoreEnd, http: &'a Http, hands: Option<u32>) -> Across<'a> {
        let hands = hands.map_or(HANDS, |hands| hands as usize);
        Across { from, to, http, hands, copied: AtomicU64::new(0) }
    }

    fn one(&self, caller: &mut Caller<'_>, task: &FleetTask) -> Result<TaskEnd, Box<AcrossError>> {
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
        let looked = self.from.store.lists().look(caller, &key, None).map_err(of_source)?;
        let Some(looked) = looked else {
            return Ok(TaskEnd::Failed(
                FailureClass::Missing,
                format!("{}{key} is not there", self.from.shown),
            ));
        };
        let pinned = Pinned { size: object.size, etag: object.etag.clone(), modified: None };
        if let Some(detail) = pinned.differs(Some(looked.listed.size), looked.listed.etag.as_deref(), None) {
            let reason = format!("{}{key}: {detail}; make a new plan for it", self.from.shown);
            return Ok(TaskEnd::Failed(FailureClass::Changed, reason));
        }
        let size = looked.listed.size;
        if let Some(there) = self.to.store.lists().look(caller, &to, None).map_err(of_target)? {
            if is_equal(&looked, &there) {
                return Ok(TaskEnd::Same(size));
            }
            let reason = format!(
                "{}{to} exists and is not what the source has; it is kept: move it away, or choose another target",
                self.to.shown
            );
            return Ok(TaskEnd::Failed(FailureClass::Name, reason));
        }
        let from = Listed { key, ..looked.listed };
        self.to.store.copies().copy(caller, &self.from.bucket, &from, &to).map_err(of_target)?;
        self.copied.fetch_add(size, Relaxed);
        Ok(TaskEnd::Moved(size))
    }
}

/// Both have one content, by what the store says of them.
fn is_equal(one: &Looked, other: &Looked) -> bool {
    let is_tagged = one.listed.etag.is_some() && one.listed.etag == other.listed.etag;
    let digests = (content::digest_of(one), content::digest_of(other));
    let is_digest = matches!(&digests, (Some(one), Some(other)) if one == other);
    one.listed.size == other.listed.size && (is_tagged || is_digest)
}

impl Mover for Across<'_> {
    fn at_once(&self) -> usize {
        2 * self.hands
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
                retries: RETRIES,
            });
            Box::new(move |task: &FleetTask| match self.one(&mut caller, task) {
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
