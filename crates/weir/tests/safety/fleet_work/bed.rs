//! A server of made-up files, a plan of them in a ledger, and workers that fetch them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_fleet::ledger::{
    FleetSettings, FleetStatus, LedgerPlace, Patience, PlanEnds, PlanLease, PlannedBatch, PlannedLarge,
    SqlLedger,
};
use weir_fleet::object::{FleetObject, pack};

use crate::support::{Dice, Object, Sandbox, Server, WEIR, Weir, pattern};

/// What a worker may take.
pub(super) const MOST_MEMORY: u64 = 96 << 20;

/// `count` sizes from `least` to below `most`.
pub(super) fn sizes(count: usize, least: u64, most: u64) -> Vec<usize> {
    let mut dice = Dice::of(count as u64);
    (0..count).map(|_| dice.roll(least..most) as usize).collect()
}

/// What the server does beside serving.
#[derive(Default)]
struct Habits {
    /// Bytes a second of each connection; 0: as fast as it goes.
    pace: AtomicU64,
    /// Requests for files, and how many of them are waited for before the first is answered.
    asked: AtomicUsize,
    held: AtomicUsize,
    /// The file whose first answer is slow, by its number; `usize::MAX`: none.
    slow: AtomicUsize,
    was_slow: AtomicBool,
    /// Other contents than those planned.
    changed: Mutex<HashMap<usize, u64>>,
    /// Whoever asks without `Authorization` is refused.
    is_private: AtomicBool,
}

/// See the module.
pub(super) struct Bed {
    pub(super) sandbox: Sandbox,
    pub(super) server: Server,
    habits: Arc<Habits>,
    sizes: Vec<usize>,
    lease: Mutex<Option<PlanLease>>,
}

/// A file's name: 20 in a folder.
fn name(number: usize) -> String {
    format!("f{}/{number}.bin", number / 20)
}

fn seed(number: usize, of: u64) -> u64 {
    1 + number as u64 * 7 + of * 1_000_003
}

fn number_of(path: &str) -> Option<usize> {
    path.rsplit('/').next()?.strip_suffix(".bin")?.parse().ok()
}

impl Bed {
    /// Files of these sizes in batches of `batch`, and a plan of them that is whole.
    pub(super) fn new(sizes: &[usize], batch: usize) -> Bed {
        let bed = Bed::unsealed(sizes, batch);
        bed.seal();
        bed
    }

    /// The same, with a plan that is not.
    pub(super) fn unsealed(sizes: &[usize], batch: usize) -> Bed {
        let habits = Arc::new(Habits { slow: AtomicUsize::new(usize::MAX), ..Habits::default() });
        let (of_server, known) = (Arc::clone(&habits), sizes.to_vec());
        let server = Server::start(move |request, wire| {
            if of_server.is_private.load(Relaxed) && request.field("authorization").is_none() {
                return wire.answer("403 Forbidden", &[], b"");
            }
            let number = number_of(request.path());
            let Some((number, size)) = number.and_then(|at| Some((at, *known.get(at)?))) else {
                return wire.answer("404 Not Found", &[], b"");
            };
            let version = of_server.changed.lock().unwrap().get(&number).copied().unwrap_or(0);
            let is_slow = of_server.slow.load(Relaxed) == number && !of_server.was_slow.swap(true, Relaxed);
            of_server.asked.fetch_add(1, Relaxed);
            let is_late = || of_server.asked.load(Relaxed) < of_server.held.load(Relaxed);
            if is_late() {
                crate::support::wait_for("the others have asked, too", || !is_late());
            }
            let pace = if is_slow { 1000 } else { of_server.pace.load(Relaxed) };
            let object = Object {
                bytes: Arc::new(pattern(size, seed(number, version))),
                etag: Some(format!("\"{number}-{version}\"")),
                last_modified: Some("Thu, 01 Jan 2026 00:00:00 GMT".to_owned()),
                rate: (pace > 0).then_some(pace),
                ..Object::new(0)
            };
            // Whoever asks again is sent nothing.
            if version == 0 && request.field("if-none-match") == object.etag.as_deref() {
                let etag = object.etag.as_deref().unwrap_or_default();
                return wire.head("304 Not Modified", &[("ETag", etag)]);
            }
            object.serve(request, wire)
        });
        let sandbox = Sandbox::new();
        let bed = Bed { sandbox, server, habits, sizes: sizes.to_vec(), lease: Mutex::new(None) };
        let lease = bed.plan("plan.db", 0..sizes.len(), batch);
        bed.ledger("plan.db").begin_early(&lease).unwrap();
        *bed.lease.lock().unwrap() = Some(lease);
        bed
    }

    fn ends(&self) -> PlanEnds {
        let target = self.sandbox.path("out").display().to_string();
        PlanEnds { source: self.server.url("d/"), target }
    }

    /// An object of a manifest.
    pub(super) fn object(&self, number: usize) -> FleetObject {
        let name = name(number).into_bytes();
        FleetObject {
            source: name.clone(),
            target: name,
            size: Some(self.sizes[number] as u64),
            etag: Some(format!("\"{number}-0\"")),
            ..FleetObject::default()
        }
    }

    fn plan(&self, ledger: &str, numbers: std::ops::Range<usize>, batch: usize) -> PlanLease {
        let mut plan = self.ledger_to_be(ledger);
        let mut lease = plan.begin(&self.ends(), "a test", 3).unwrap();
        let objects: Vec<FleetObject> = numbers.map(|number| self.object(number)).collect();
        let batches: Vec<PlannedBatch> = objects.chunks(batch).map(planned).collect();
        plan.append(&mut lease, &batches, &[]).unwrap();
        lease
    }

    /// The ledger at an address, or in a file of the sandbox.
    fn place(&self, name: &str) -> LedgerPlace {
        let is_address = name.contains("://");
        if is_address {
            LedgerPlace::parse(name).unwrap()
        } else {
            LedgerPlace::File(self.sandbox.path(name))
        }
    }

    fn ledger_to_be(&self, name: &str) -> SqlLedger {
        self.place(name).open_or_create(patience()).unwrap()
    }

    fn ledger(&self, name: &str) -> SqlLedger {
        self.place(name).open(patience()).unwrap()
    }

    /// The plan is whole.
    pub(super) fn seal(&self) {
        let lease = self.lease.lock().unwrap().take().unwrap();
        self.ledger("plan.db").seal(&lease).unwrap();
    }

    /// All files in another ledger.
    pub(super) fn planned_again(&self, ledger: &str, batch: usize) -> String {
        let lease = self.plan(ledger, 0..self.sizes.len(), batch);
        self.ledger(ledger).seal(&lease).unwrap();
        ledger.to_owned()
    }

    /// A plan of one large object in ranges of so many bytes.
    pub(super) fn in_ranges(size: usize, range: u64) -> Bed {
        let bed = Bed::unsealed(&[size], 1);
        let mut plan = bed.ledger_to_be("ranges.db");
        let mut lease = plan.begin(&bed.ends(), "a test", 3).unwrap();
        let large = PlannedLarge { line: pack([&bed.object(0)]), size: size as u64, range };
        plan.append(&mut lease, &[], &[large]).unwrap();
        plan.seal(&lease).unwrap();
        bed
    }

    /// At so many bytes a second a connection.
    pub(super) fn paced(self, bytes: u64) -> Bed {
        self.habits.pace.store(bytes, Relaxed);
        self
    }

    /// Nothing is answered before so many have asked: who starts late misses nothing.
    pub(super) fn held_until(self, asked: usize) -> Bed {
        self.habits.held.store(asked, Relaxed);
        self
    }

    /// As fast as it goes from now on.
    pub(super) fn rushes(&self) {
        self.habits.pace.store(0, Relaxed);
    }

    /// The first answer with this file takes for ever.
    pub(super) fn slow_once(self, number: usize) -> Bed {
        self.habits.slow.store(number, Relaxed);
        self
    }

    /// Whoever asked first for the file that takes for ever waits for it.
    pub(super) fn hangs(&self) -> bool {
        self.habits.was_slow.load(Relaxed)
    }

    /// This file has another content than the one that was planned.
    pub(super) fn changes(&self, number: usize) {
        self.habits.changed.lock().unwrap().insert(number, 1);
    }

    /// Only who shows credentials is served.
    pub(super) fn is_private(&self) {
        self.habits.is_private.store(true, Relaxed);
    }

    /// A worker on the plan.
    pub(super) fn work(&self, args: &[&str]) -> Weir {
        self.work_on("plan.db", args)
    }

    /// A worker on another one.
    pub(super) fn work_on(&self, ledger: &str, args: &[&str]) -> Weir {
        self.sandbox.weir(WEIR, ["fleet", "work", "--ledger", ledger]).args(args)
    }

    pub(super) fn status(&self) -> FleetStatus {
        self.status_of("plan.db")
    }

    pub(super) fn status_of(&self, ledger: &str) -> FleetStatus {
        self.ledger(ledger).status().unwrap()
    }

    /// The ledger can be written to: nobody was stopped in the middle of a transaction.
    pub(super) fn is_free(&self) -> bool {
        let patience = Patience { longest: Duration::from_secs(1), stop: Arc::default() };
        let ledger = self.place("plan.db").open(patience);
        ledger.is_ok_and(|mut ledger| ledger.set(&|_: &mut FleetSettings| ()).is_ok())
    }

    pub(super) fn set(&self, change: impl Fn(&mut FleetSettings)) {
        self.ledger("plan.db").set(&change).unwrap();
    }

    /// Requests for files so far.
    pub(super) fn fetched(&self) -> usize {
        self.server.requests().len()
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.sizes.iter().map(|size| *size as u64).sum()
    }

    /// Where a file is.
    pub(super) fn path(&self, number: usize) -> std::path::PathBuf {
        self.sandbox.path("out").join(name(number))
    }

    /// The bytes of a file.
    pub(super) fn content(&self, number: usize) -> Vec<u8> {
        pattern(self.sizes[number], seed(number, 0))
    }

    /// The ledger and the folder say that all `count` files are there, whole and alone.
    #[track_caller]
    pub(super) fn is_complete(&self, count: u64) {
        let status = self.status();
        assert!(status.complete && status.failed == 0, "{status:?}");
        assert_eq!(status.moved.objects + status.same.objects, count, "{status:?}");
        self.has_all();
    }

    /// All files are in the folder, and nothing else.
    #[track_caller]
    pub(super) fn has_all(&self) {
        for number in 0..self.sizes.len() {
            let path = self.path(number);
            let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(bytes == self.content(number), "{} has other bytes", path.display());
        }
        let there = crate::support::count(&self.sandbox.path("out"));
        assert_eq!(there, self.sizes.len() as u64, "{:?}", left_over(&self.sandbox.path("out")));
    }
}

/// What is no file of a plan.
fn left_over(out: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for folder in std::fs::read_dir(out).into_iter().flatten().flatten() {
        for entry in std::fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if number_of(&name).is_none() {
                found.push(name);
            }
        }
    }
    found
}

/// Objects as a batch of a plan.
pub(super) fn planned(objects: &[FleetObject]) -> PlannedBatch {
    PlannedBatch {
        objects: objects.len() as u64,
        bytes: objects.iter().filter_map(|object| object.size).sum(),
        lines: pack(objects),
    }
}

/// A plan of these objects in one batch each, from `ends`, in the ledger at `path`.
pub(super) fn plan_at(path: &Path, ends: &PlanEnds, batches: &[&[FleetObject]]) {
    let mut plan = LedgerPlace::File(path.to_owned()).open_or_create(patience()).unwrap();
    let mut lease = plan.begin(ends, "a test", 2).unwrap();
    let batches: Vec<PlannedBatch> = batches.iter().map(|objects| planned(objects)).collect();
    plan.append(&mut lease, &batches, &[]).unwrap();
    plan.seal(&lease).unwrap();
}

/// Where a ledger stands.
pub(super) fn status_at(path: &Path) -> FleetStatus {
    LedgerPlace::File(path.to_owned()).open(patience()).unwrap().status().unwrap()
}

fn patience() -> Patience {
    Patience { longest: Duration::from_secs(30), stop: Arc::default() }
}
