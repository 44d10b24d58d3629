//! A plan: a listing becomes batches in a ledger while it comes, and the plan is sealed at its end.
//!
//! Nothing is kept in memory that grows with the listing, and nothing relies on its order. What cannot be
//! known before its end, whether two objects would become one target, is found by a sort on the disk
//! ([`targets`]); until then a listing that could have such has its batches kept back. A plan that was
//! interrupted is gone on with by listing again ([`again`]): what the ledger has is not added twice.

pub mod again;
pub mod check;
pub mod content;
pub mod cut;
pub mod index;
pub mod list;
pub mod prefix;
pub mod targets;
pub mod tree;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::Serialize;
use weir_store::address::StoreUrl;
use weir_store::settings::shared_bounds;
use weir_store::upload::Bounds;
use weir_store::upload::plan::LARGE as LARGE_PART;
use weir_store::upload::shared::part_size;

use crate::error::FleetError;
use crate::ledger::{PlanEnds, PlanLease, PlanStep, PlannedBatch, PlannedLarge, SqlLedger, Tally};
use crate::object::{FleetObject, MAX_BYTES};
use cut::{Cut, Cutter};
use targets::Targets;

/// Bytes of a batch: 8 s of a path of 1 Gbit/s, so that what a killed worker leaves is little.
const BATCH_BYTES: u64 = 1 << 30;

/// Objects of a batch: a claim and its results take the ledger about a millisecond, and a thousand small
/// objects a second or more.
const BATCH_OBJECTS: u64 = 1000;

/// An object from this size on is a batch by itself, so that few of them do not go to one worker together:
/// 100 ms at 10 Gbit/s, against the millisecond of a batch.
const ALONE: u64 = 128 << 20;

/// Above this an object becomes ranges: what would keep one worker of 1 Gbit/s for more than a minute at the
/// end, while the others have nothing to do.
const LARGE: u64 = 8 << 30;

/// Bytes of a range: as much as a batch.
const RANGE: u64 = 1 << 30;

/// Ranges of an object: S3 takes 10,000 parts (AmazonS3 User Guide, multipart upload limits).
const MAX_RANGES: u64 = 10_000;

/// How often an object is tried: with pauses of 1, 2, 4 and 8 s between, so that a store that restarts is
/// back; `weir fleet retry` begins again.
const ATTEMPTS: u64 = 5;

/// Batches that are added in one transaction, which costs a write to the disk.
const APPENDED: usize = 32;

/// How often a planner that adds nothing tells the ledger that it is there: a listing that is gone on with
/// may take an hour before its first new object.
const HOLDS: Duration = Duration::from_secs(60);

/// How a listing is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRules {
    /// The most bytes of a batch of several objects.
    pub batch_bytes: u64,
    /// The most objects of a batch.
    pub batch_objects: u64,
    /// An object of more bytes becomes ranges; `None`: none does.
    pub large: Option<u64>,
    /// Ranges are parts of an upload into a store, which takes such ones.
    pub parts: Option<PartsRule>,
    /// How often an object is tried.
    pub attempts: u64,
}

/// What parts of an upload are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartsRule {
    /// What the store takes.
    pub bounds: Bounds,
    /// Bytes of a part that the source is best read in.
    pub wish: u64,
    /// A file is known by its size and its time.
    pub is_of_files: bool,
}

impl PartsRule {
    /// Of a plan between these ends; `None`: a large object of it goes by one worker. `copies_itself`: both
    /// are one service.
    fn of(ends: &PlanEnds, copies_itself: bool) -> Option<PartsRule> {
        let target = StoreUrl::parse(&ends.target)?.ok()?;
        let bounds = shared_bounds(target.kind)?;
        let source = StoreUrl::parse(&ends.source).transpose().ok()?;
        // A web server's list names no version.
        let is_of_files = source.is_none() && ends.source.starts_with('/');
        let is_shared = is_of_files || source.is_some() && !copies_itself;
        let wish = if is_of_files { LARGE_PART } else { 0 };
        is_shared.then_some(PartsRule { bounds, wish, is_of_files })
    }

    /// The bytes of a range of an object of `size` bytes, of whole parts; `None`: the store takes no such
    /// object, or it is not known by anything that several workers could hold it to.
    fn range(&self, object: &FleetObject, size: u64) -> Option<u64> {
        let is_known = !self.is_of_files || object.mtime.is_some();
        // What is verified by a digest that parts do not add up to goes by one worker.
        if !is_known || object.digest.is_some() || size > self.bounds.most {
            return None;
        }
        let part = part_size(size, &self.bounds, self.wish);
        Some(part * (RANGE / part).max(1))
    }
}

impl Default for PlanRules {
    fn default() -> PlanRules {
        PlanRules {
            batch_bytes: BATCH_BYTES,
            batch_objects: BATCH_OBJECTS,
            large: Some(LARGE),
            parts: None,
            attempts: ATTEMPTS,
        }
    }
}

/// What a listing gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It is to be moved.
    Object(FleetObject),
    /// It is none that a fleet moves.
    LeftOut(LeftOut),
    /// It cannot be read, or has no name at the target: object and cause.
    Bad(String),
}

/// What a fleet does not move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// Made where its files are.
    Folder,
    /// A symbolic link.
    Link,
    /// A device, a pipe, a socket.
    Special,
}

/// A listing of the source, in any order.
pub trait Listing {
    /// The next; `None` at its end, which is told from a broken one by an error.
    ///
    /// # Errors
    /// [`FleetError::Manifest`] where the listing cannot be gone on with.
    fn next(&mut self) -> Result<Option<Found>, FleetError>;

    /// No two of its objects can have one target: then batches may be moved before its end.
    fn has_own_targets(&self) -> bool;

    /// At its end: why there is no plan of it, where it had nothing that could be an error.
    fn lacks(&self) -> Option<String> {
        None
    }
}

/// What a plan found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PlanReport {
    /// Objects and bytes that this run added.
    pub added: Tally,
    /// Objects that the ledger had from an interrupted run.
    pub before: u64,
    /// Batches and ranges that were added.
    pub batches: u64,
    /// Objects that became ranges.
    pub large: u64,
    /// Objects whose size the listing does not say.
    pub unsized_objects: u64,
    /// Folders, which are made where their files are; empty ones are not.
    pub folders: u64,
    /// Symbolic links, which were left out.
    pub links: u64,
    /// Devices, pipes and sockets, which were left out.
    pub specials: u64,
    /// What cannot be read or named, which was left out on demand: the first ones.
    pub bad: Vec<String>,
    /// How many those are.
    pub bad_count: u64,
}

/// Names of bad or doubled objects that are told.
const NAMED: usize = 10;

impl PlanReport {
    fn leave_out(&mut self, why: String) {
        self.bad_count += 1;
        if self.bad.len() < NAMED {
            self.bad.push(why);
        }
    }
}

/// Who plans what.
pub struct Plan<'a> {
    /// From where to where.
    pub ends: PlanEnds,
    /// Both ends are of one service, which copies by itself.
    pub copies_itself: bool,
    /// The planner, for people.
    pub planner: String,
    /// How it is cut.
    pub rules: PlanRules,
    /// What cannot be read or named is left out instead of refusing the plan.
    pub skip_bad: bool,
    /// Set by a signal.
    pub stop: &'a AtomicBool,
}

impl Plan<'_> {
    /// Writes the plan of `listing` into `ledger`, and seals it.
    ///
    /// # Errors
    /// What the ledger says; [`FleetError::Manifest`] where the listing fails, or objects share a target. The
    /// plan is not sealed then, and the same again goes on with it.
    pub fn write(&self, ledger: &mut SqlLedger, listing: &mut dyn Listing) -> Result<PlanReport, FleetError> {
        // A process that has the number of an earlier one is another planner.
        let planner = format!("{} ({:08x})", self.planner, fastrand::u32(..));
        let mut lease = ledger.begin(&self.ends, &planner, self.rules.attempts)?;
        let written = self.write_under(ledger, &mut lease, listing);
        if written.is_err() {
            // The lease ends by itself where even this fails; what is told is the first failure.
            let _ = ledger.abandon(&lease);
        }
        written
    }

    /// A folder takes what several workers bring, and a store the parts of one upload. Where a store copies
    /// by itself or knows no shared uploads, a large object goes by one worker; `/dev/null` keeps no part.
    fn rules(&self) -> PlanRules {
        let is_folder = !self.ends.target.contains("://") && !self.ends.keeps_nothing();
        let parts = PartsRule::of(&self.ends, self.copies_itself);
        let large = self.rules.large.filter(|_| is_folder || parts.is_some());
        PlanRules { large, parts, ..self.rules.clone() }
    }

    fn write_under(
        &self,
        ledger: &mut SqlLedger,
        lease: &mut PlanLease,
        listing: &mut dyn Listing,
    ) -> Result<PlanReport, FleetError> {
        let held = Instant::now();
        let place = ledger.place().to_owned();
        let mut report = PlanReport { before: lease.objects, ..PlanReport::default() };
        let mut targets = Targets::default();
        if listing.has_own_targets() {
            self.done(ledger.begin_early(lease)?, &place)?;
        }
        let is_new = lease.objects == 0;
        let mut spill = again::Spill::new(&place, listing.has_own_targets());
        if !is_new {
            spill.holds(ledger)?;
        }
        let cutter = Cutter::new(&self.rules());
        let mut writer = Writer { plan: self, ledger, lease, held, cutter, queue: Vec::new() };
        while let Some(found) = listing.next()? {
            writer.goes_on()?;
            let Some(object) = self.judge(found, &mut report)? else { continue };
            if is_new {
                targets.add(&object).map_err(|error| cannot_sort(&error))?;
                writer.push(&object, &mut report)?;
            } else {
                spill.push(&object)?;
            }
        }
        if report.bad_count > 0 && !self.skip_bad {
            return Err(bad(&report));
        }
        self.check_stop()?;
        if let Some(why) = listing.lacks() {
            return Err(FleetError::Manifest(why));
        }
        let mut doubled = Vec::new();
        if !is_new {
            let mut left = spill.left()?;
            if !left.doubled().is_empty() {
                return Err(doubles(writer.ledger, left.doubled())?);
            }
            while let Some(object) = left.next()? {
                writer.goes_on()?;
                targets.add(&object).map_err(|error| cannot_sort(&error))?;
                writer.push(&object, &mut report)?;
            }
            doubled.extend_from_slice(left.doubled());
        }
        writer.end(&mut report)?;
        let Writer { ledger, lease, .. } = writer;
        doubled.extend(targets.doubled(NAMED).map_err(|error| cannot_sort(&error))?);
        if !doubled.is_empty() {
            return Err(doubles(ledger, &doubled)?);
        }
        self.done(ledger.seal(lease)?, &place)?;
        Ok(report)
    }

    /// Counts what was found; returns what is to be moved.
    fn judge(&self, found: Found, report: &mut PlanReport) -> Result<Option<FleetObject>, FleetError> {
        match found {
            Found::Object(object) if object.size.is_some_and(|size| size > MAX_BYTES) => {
                let (name, size) = (object.source_text(), object.size.unwrap_or_default());
                report.leave_out(format!("{name}: {size} bytes are more than any object has"));
            }
            Found::Object(object) => {
                report.unsized_objects += u64::from(object.size.is_none());
                return Ok(Some(object));
            }
            Found::LeftOut(LeftOut::Folder) => report.folders += 1,
            Found::LeftOut(LeftOut::Link) => report.links += 1,
            Found::LeftOut(LeftOut::Special) => report.specials += 1,
            Found::Bad(why) => report.leave_out(why),
        }
        Ok(None)
    }

    fn check_stop(&self) -> Result<(), FleetError> {
        match self.stop.load(Relaxed) {
            true => Err(FleetError::Stopped),
            false => Ok(()),
        }
    }

    fn done(&self, step: PlanStep, place: &str) -> Result<(), FleetError> {
        match step {
            PlanStep::Done => Ok(()),
            PlanStep::Lost => Err(FleetError::Taken {
                place: place.to_owned(),
                why: "is being written by another planner, which took this one for gone".to_owned(),
            }),
        }
    }
}

fn too_many() -> FleetError {
    let why = "the sizes of all objects add up to more than 8 EiB; look for a wrong size among them";
    FleetError::Manifest(why.to_owned())
}

fn bad(report: &PlanReport) -> FleetError {
    let (count, first) = (report.bad_count, report.bad.join("; "));
    let more = if count as usize > report.bad.len() { "; ..." } else { "" };
    FleetError::Manifest(format!(
        "cannot plan {count} of the source: {first}{more}; mend them and run the same command again, or leave \
         them out by --skip-bad"
    ))
}

fn doubles(ledger: &mut SqlLedger, doubled: &[u128]) -> Result<FleetError, FleetError> {
    let mut names = Vec::new();
    ledger.each_object(&mut |object| {
        if doubled.contains(&targets::key_of(object)) && names.len() < 2 * NAMED {
            names.push(format!("{} to {}", object.source_text(), object.target_text()));
        }
    })?;
    names.sort();
    let place = ledger.place();
    Ok(FleetError::Manifest(format!(
        "objects share a target: {}; name each target once, and plan into another ledger than {place}",
        names.join(", ")
    )))
}

pub(crate) fn cannot_sort(error: &std::io::Error) -> FleetError {
    let why = weir_units::plain(error);
    FleetError::Manifest(format!(
        "cannot keep the names of the plan in a temporary file: {why}; TMPDIR names its folder"
    ))
}

/// Cuts, packs and adds.
struct Writer<'p, 'l> {
    plan: &'p Plan<'p>,
    ledger: &'l mut SqlLedger,
    lease: &'l mut PlanLease,
    /// When the ledger last heard that the plan is being written.
    held: Instant,
    cutter: Cutter,
    queue: Vec<Cut>,
}

impl Writer<'_, '_> {
    /// Ends where it was told to; tells the ledger now and then that the plan is still being written.
    fn goes_on(&mut self) -> Result<(), FleetError> {
        self.plan.check_stop()?;
        if self.held.elapsed() >= HOLDS {
            match self.ledger.hold(self.lease) {
                // The lease is longer than that, and what is added is told of an absence that lasts.
                Err(error) if error.is_passing() => {}
                step => self.plan.done(step?, self.ledger.place())?,
            }
            self.held = Instant::now();
        }
        Ok(())
    }

    fn push(&mut self, object: &FleetObject, report: &mut PlanReport) -> Result<(), FleetError> {
        report.added.objects += 1;
        let bytes = report.added.bytes.checked_add(object.size.unwrap_or(0));
        // A database's largest number.
        report.added.bytes = bytes.filter(|bytes| i64::try_from(*bytes).is_ok()).ok_or_else(too_many)?;
        self.cutter.push(object, &mut self.queue);
        if self.queue.len() >= APPENDED { self.append(report) } else { Ok(()) }
    }

    fn end(&mut self, report: &mut PlanReport) -> Result<(), FleetError> {
        self.cutter.end(&mut self.queue);
        self.append(report)
    }

    fn append(&mut self, report: &mut PlanReport) -> Result<(), FleetError> {
        let (mut batches, mut large) = (Vec::new(), Vec::new());
        for cut in self.queue.drain(..) {
            match cut {
                Cut::Batch(batch) => batches.push(batch),
                Cut::Large(one) => large.push(one),
            }
        }
        if batches.is_empty() && large.is_empty() {
            return Ok(());
        }
        report.batches += batches.len() as u64 + large.iter().map(PlannedLarge::parts).sum::<u64>();
        report.large += large.len() as u64;
        self.added(&batches, &large)
    }

    fn added(&mut self, batches: &[PlannedBatch], large: &[PlannedLarge]) -> Result<(), FleetError> {
        let step = self.ledger.append(self.lease, batches, large)?;
        self.held = Instant::now();
        self.plan.done(step, self.ledger.place())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ledger::Patience;
    use crate::ledger::database::{Act, Database, DatabaseError, Now};
    use crate::ledger::sqlite::SqliteDatabase;

    /// A database that does not answer while a test says so.
    struct Leaving {
        database: SqliteDatabase,
        is_away: Arc<AtomicBool>,
    }

    impl Database for Leaving {
        fn transact(&mut self, act: Act<'_>) -> Result<(), DatabaseError> {
            match self.is_away.load(Relaxed) {
                true => Err(DatabaseError::Passing("it is away".to_owned())),
                false => self.database.transact(act),
            }
        }

        fn place(&self) -> &str {
            self.database.place()
        }

        fn has_ledger(&self) -> &'static str {
            self.database.has_ledger()
        }
    }

    #[test]
    fn a_database_that_is_away_for_a_while_ends_no_listing() {
        let folder = tempfile::tempdir().unwrap();
        let is_away = Arc::new(AtomicBool::new(false));
        let database = SqliteDatabase::open(&folder.path().join("l"), true, Now::default()).unwrap();
        let leaving = Leaving { database, is_away: Arc::clone(&is_away) };
        let patience = Patience { longest: Duration::ZERO, stop: Arc::default() };
        let mut ledger = SqlLedger::new(Box::new(leaving), patience);
        let ends = PlanEnds { source: "/from/".to_owned(), target: "/to/".to_owned() };
        let mut lease = ledger.begin(&ends, "a test", ATTEMPTS).unwrap();
        let (stop, rules, planner) = (AtomicBool::new(false), PlanRules::default(), "a test".to_owned());
        let plan = Plan { ends, copies_itself: false, planner, rules, skip_bad: false, stop: &stop };
        let long_ago = Instant::now().checked_sub(HOLDS).unwrap();
        let (cutter, queue) = (Cutter::new(&plan.rules), Vec::new());
        let (ledger, lease) = (&mut ledger, &mut lease);
        let mut writer = Writer { plan: &plan, ledger, lease, held: long_ago, cutter, queue };
        is_away.store(true, Relaxed);
        writer.goes_on().unwrap();
        assert!(writer.held > long_ago, "it is told again in a while");
        assert!(writer.ledger.hold(writer.lease).is_err());
        is_away.store(false, Relaxed);
        assert_eq!(writer.ledger.hold(writer.lease).unwrap(), PlanStep::Done);
    }
}
