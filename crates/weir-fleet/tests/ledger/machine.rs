//! A thousand workers that are killed, fall asleep past their leases, lose them, and go on as if nothing had
//! happened, under a clock that jumps: every object gets its name once and is counted once.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use fastrand::Rng;
use rustix::fs::Mode;
use rustix::io::Errno;
use weir_fleet::class::FailureClass;
use weir_fleet::ledger::{
    BatchClaim, BatchLease, BatchResults, BatchWork, Claimed, Finished, FleetLedger, Helped, Helper,
    ObjectFailure, Renewed, SqlLedger, Tally, WaitReason, WatchedBatch, WorkerId,
};
use weir_fleet::object::FleetObject;
use weir_units::atomic_file;

use crate::{LEASE, clock, folder, plan, sqlite, who};

/// What a run is like.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub seed: u64,
    pub workers: usize,
    pub objects: usize,
    pub of_a_batch: usize,
    pub kills: usize,
}

/// What a worker has in its hands.
struct Hand {
    lease: BatchLease,
    objects: Vec<FleetObject>,
    results: BatchResults,
    /// So many of the objects are through.
    at: usize,
    /// Of the next one, which it found nowhere.
    part: Option<Part>,
}

/// A file that is whole, and has not its name yet.
struct Part {
    name: String,
    inode: u64,
}

/// The folder that is filled.
struct Names {
    folder: tempfile::TempDir,
    handle: File,
    parts: u32,
    /// The file that first got the name of each target.
    first: HashMap<Vec<u8>, u64>,
    /// Parts whose name another one had got since the look.
    refused: usize,
}

impl Names {
    fn new() -> Names {
        let folder = folder();
        // Where all that `object` names lies.
        std::fs::create_dir(folder.path().join("folder")).expect("a folder");
        let handle = File::open(folder.path()).expect("a folder");
        Names { folder, handle, parts: 0, first: HashMap::new(), refused: 0 }
    }

    fn file(&self, target: &[u8]) -> Option<u64> {
        let path = self.folder.path().join(std::str::from_utf8(target).expect("a name"));
        path.metadata().ok().map(|file| file.ino())
    }

    fn part(&mut self) -> Part {
        self.parts += 1;
        let name = format!("part{}", self.parts);
        let made = atomic_file::create_new(&self.handle, &*name, Mode::RUSR).expect("a part");
        let inode = File::from(made).metadata().expect("a file").ino();
        Part { name, inode }
    }

    /// Whether it got the name.
    fn give(&mut self, part: &Part, target: &[u8]) -> bool {
        match atomic_file::rename_to_free(&self.handle, &*part.name, target) {
            Ok(()) => {
                let before = self.first.insert(target.to_vec(), part.inode);
                assert_eq!(before, None, "a name was given twice");
                true
            }
            Err(Errno::EXIST) => {
                self.refused += 1;
                false
            }
            Err(error) => panic!("no name: {error}"),
        }
    }

    fn check(&self) {
        for (target, inode) in &self.first {
            assert_eq!(self.file(target), Some(*inode), "a file was replaced");
        }
        let there = std::fs::read_dir(self.folder.path().join("folder")).expect("a folder").count();
        assert_eq!(there, self.first.len());
    }
}

struct Worker {
    id: WorkerId,
    hand: Option<Hand>,
    /// Until then it does nothing, and hears nothing.
    asleep: i64,
    watched: Vec<WatchedBatch>,
}

struct World<'a> {
    ledger: &'a mut SqlLedger,
    clock: Arc<AtomicI64>,
    random: Rng,
    workers: Vec<Worker>,
    joined: u32,
    kills: usize,
    names: Names,
    /// By batch who was given it last.
    holders: HashMap<i64, BatchLease>,
    lost: usize,
    cut: usize,
    ahead: usize,
    back: usize,
    complete: bool,
}

impl World<'_> {
    fn now(&self) -> i64 {
        self.clock.load(Relaxed)
    }

    fn join(&mut self) -> Worker {
        self.joined += 1;
        Worker {
            id: self.ledger.join(&who(self.joined)).expect("a worker"),
            hand: None,
            asleep: 0,
            watched: Vec::new(),
        }
    }

    /// One step of a worker.
    fn step(&mut self, at: usize) {
        if self.workers[at].asleep > self.now() {
            return;
        }
        match self.workers[at].hand.take() {
            None => self.ask(at),
            Some(hand) => self.work(at, hand),
        }
        let dice = self.random.u32(..1000);
        if dice < 50 && self.kills > 0 {
            self.kills -= 1;
            self.workers[at] = self.join();
        } else if dice < 80 {
            self.workers[at].asleep = self.now() + self.random.i64(1000..90_000);
        } else if dice < 85
            && let Some(hand) = self.workers[at].hand.take()
        {
            self.ledger.release(hand.lease).expect("a release");
        }
    }

    fn ask(&mut self, at: usize) {
        let id = self.workers[at].id;
        match self.ledger.claim(id, LEASE).expect("an answer") {
            Claimed::Batch(claim) => self.take(at, *claim),
            Claimed::Wait(WaitReason::Held, _) if self.random.bool() => {
                let watched = std::mem::take(&mut self.workers[at].watched);
                let pace = self.random.bool().then(|| self.random.u64(1..1000));
                let helper = Helper { pace, watched };
                match self.ledger.help(id, LEASE, &helper).expect("an answer") {
                    Helped::Batch(claim) => self.take(at, *claim),
                    Helped::Watch(watched) => self.workers[at].watched = watched,
                }
            }
            Claimed::Wait(..) => {}
            Claimed::Leave => panic!("nobody drains"),
            Claimed::Complete => self.complete = true,
        }
    }

    fn take(&mut self, at: usize, claim: BatchClaim) {
        let BatchWork::Objects(objects) = claim.work else { panic!("no large objects here") };
        assert!(!objects.is_empty(), "a batch of nothing");
        let before = self.holders.insert(claim.lease.batch, claim.lease);
        assert!(before.is_none_or(|before| before.fence < claim.lease.fence), "a fence fell");
        self.workers[at].hand =
            Some(Hand { lease: claim.lease, objects, results: BatchResults::default(), at: 0, part: None });
    }

    fn work(&mut self, at: usize, mut hand: Hand) {
        for _ in 0..self.random.usize(1..=2 * hand.objects.len()) {
            if hand.at < hand.objects.len() {
                self.one(&mut hand);
            }
        }
        if hand.at == hand.objects.len() {
            return self.finish(at, hand);
        }
        if self.random.u32(..3) > 0 {
            let bytes = hand.results.moved.bytes;
            match self.ledger.renew(hand.lease, LEASE, hand.at as u64, bytes).expect("an answer") {
                Renewed::Held { objects, .. } => {
                    self.must_hold(&hand);
                    self.truncate(&mut hand, objects as usize);
                }
                Renewed::Lost => {
                    self.lost += 1;
                    return;
                }
            }
        }
        self.workers[at].hand = Some(hand);
    }

    /// Half of an object: a look and a part, then a rename that replaces nothing. Others may come between,
    /// whoever has the lease by then.
    fn one(&mut self, hand: &mut Hand) {
        let object = &hand.objects[hand.at];
        let is_new = match hand.part.take() {
            Some(part) => Ok(self.names.give(&part, &object.target)),
            None => match self.random.u32(..200) {
                0 => Err(FailureClass::Missing),
                1..=4 => Err(FailureClass::Network),
                5 => Err(FailureClass::Busy),
                _ if self.names.file(&object.target).is_some() => Ok(false),
                _ => {
                    hand.part = Some(self.names.part());
                    return;
                }
            },
        };
        let position = hand.at as u64;
        hand.at += 1;
        hand.results.covered += 1;
        match is_new {
            Ok(is_new) => {
                let tally = if is_new { &mut hand.results.moved } else { &mut hand.results.same };
                tally.objects += 1;
                tally.bytes += object.size.unwrap_or(0);
            }
            Err(class) => {
                let reason = format!("cannot move {}: {class}", object.source_text());
                hand.results.failures.push(ObjectFailure { position, class, reason });
            }
        }
    }

    /// Others took what is behind `left`; what is through already is theirs to tell of.
    fn truncate(&mut self, hand: &mut Hand, left: usize) {
        if left >= hand.objects.len() {
            return;
        }
        self.cut += 1;
        hand.objects.truncate(left);
        if hand.at >= left {
            hand.part = None;
        }
        if hand.at > left {
            // Told anew, as a worker does that looks at its targets again: what it moved is there.
            let failures: Vec<_> =
                hand.results.failures.drain(..).filter(|failure| failure.position < left as u64).collect();
            let there = (left - failures.len()) as u64;
            let same = Tally { objects: there, bytes: there * 10 };
            hand.results = BatchResults { covered: left as u64, same, failures, ..BatchResults::default() };
            hand.at = left;
        }
    }

    fn finish(&mut self, at: usize, mut hand: Hand) {
        match self.ledger.finish(hand.lease, &hand.results).expect("an answer") {
            Finished::Done => self.must_hold(&hand),
            Finished::Lost => {
                self.lost += 1;
                // It may be its own no more, and must then be another's, or given back.
            }
            Finished::Cut(left) => {
                self.must_hold(&hand);
                self.truncate(&mut hand, left as usize);
                self.workers[at].hand = Some(hand);
            }
        }
    }

    fn must_hold(&self, hand: &Hand) {
        assert_eq!(self.holders.get(&hand.lease.batch), Some(&hand.lease), "who lost its lease is heard");
    }

    fn tick(&mut self, steps: usize) {
        // Each worker has its turn about every two seconds, a fifteenth of a lease.
        let count = self.workers.len();
        // The database's clock is set: an hour ahead, a minute back, and once an hour back and ahead again.
        let step = match (steps / count, steps % count, self.random.usize(..60 * count)) {
            (6, 0, _) => -3_600_000,
            (9, 0, _) | (_, _, 0) => 3_600_000,
            (3, 0, _) | (_, _, 1) => -60_000,
            _ => self.random.i64(0..=4000 / count as i64),
        };
        self.ahead += usize::from(step == 3_600_000);
        self.back += usize::from(step < 0);
        self.clock.fetch_add(step, Relaxed);
    }
}

/// What a run had to stand.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stood {
    pub kills: usize,
    pub lost: usize,
    pub cut: usize,
    /// Parts that did not get the name of their target.
    pub refused: usize,
    /// How often the clock was set an hour ahead.
    pub ahead: usize,
    /// And back, a minute or an hour.
    pub back: usize,
}

/// Lets a fleet come to its end, and counts.
pub fn run(ledger: &mut SqlLedger, clock: &Arc<AtomicI64>, setting: Setting) -> Stood {
    let objects = plan(ledger, setting.objects, setting.of_a_batch);
    let mut world = World {
        ledger,
        clock: Arc::clone(clock),
        random: Rng::with_seed(setting.seed),
        workers: Vec::new(),
        joined: 0,
        kills: setting.kills,
        names: Names::new(),
        holders: HashMap::new(),
        lost: 0,
        cut: 0,
        ahead: 0,
        back: 0,
        complete: false,
    };
    for _ in 0..setting.workers {
        let worker = world.join();
        world.workers.push(worker);
    }
    let mut steps = 0;
    while !world.complete {
        world.tick(steps);
        let at = world.random.usize(..world.workers.len());
        world.step(at);
        steps += 1;
        assert!(steps < 3_000_000, "it does not come to its end: {setting:?}");
    }
    // Who still has something in its hands lost it.
    for at in 0..world.workers.len() {
        if let Some(hand) = world.workers[at].hand.take() {
            let answer = world.ledger.renew(hand.lease, LEASE, 0, 0).expect("an answer");
            assert_eq!(answer, Renewed::Lost, "a holder after the end");
        }
    }
    check(&mut world, &objects);
    let World { kills, lost, cut, ahead, back, names, .. } = world;
    Stood { kills: setting.kills - kills, lost, cut, refused: names.refused, ahead, back }
}

fn check(world: &mut World<'_>, objects: &[FleetObject]) {
    let mut counted: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    world.ledger.each_object(&mut |object| *counted.entry(object.source.clone()).or_default() += 1).unwrap();
    assert_eq!(counted.len(), objects.len(), "an object is gone from the ledger");
    assert!(counted.values().all(|count| *count == 1), "an object is in two batches");
    world.names.check();
    let status = world.ledger.status().unwrap();
    let all = objects.len() as u64;
    assert!(status.complete && status.waiting + status.leased == 0);
    assert_eq!(status.planned.objects, all);
    assert_eq!(status.moved.objects + status.same.objects + status.failed, all, "{status:?}");
    let given_up: u64 = status.failures.iter().map(|failures| failures.objects).sum();
    assert_eq!(given_up, status.failed);
    // An object that was given up may be at its target too: by a worker that had lost it.
    let named = world.names.first.len() as u64;
    assert!(named >= all - status.failed && named >= status.moved.objects);
}

fn on_sqlite(setting: Setting) -> Stood {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&Path::new(folder.path()).join("fleet.db"), &clock);
    run(&mut ledger, &clock, setting)
}

#[test]
fn a_thousand_workers_and_a_thousand_kills_move_every_object_once() {
    let setting = Setting { seed: 7, workers: 1000, objects: 30_000, of_a_batch: 12, kills: 1000 };
    let stood = on_sqlite(setting);
    assert!(stood.kills == 1000 && stood.lost > 100 && stood.cut > 0, "{stood:?}");
    assert!(stood.refused > 0 && stood.ahead > 0 && stood.back > 1, "{stood:?}");
}

#[test]
fn so_do_small_fleets_whatever_happens_in_which_order() {
    let mut all = Stood::default();
    for seed in 0..20 {
        let workers = 2 + 3 * seed as usize;
        let stood = on_sqlite(Setting { seed, workers, objects: 700, of_a_batch: 40, kills: 20 });
        all.kills += stood.kills;
        all.lost += stood.lost;
        all.cut += stood.cut;
        all.refused += stood.refused;
        all.ahead += stood.ahead;
        all.back += stood.back;
    }
    assert!(all.kills > 50 && all.lost > 50 && all.cut > 10, "{all:?}");
    assert!(all.refused > 0 && all.ahead > 5 && all.back > 5, "{all:?}");
}
