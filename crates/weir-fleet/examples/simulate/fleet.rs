//! Thousands of workers on one ledger, in no time: each does what a worker's clerk and mover do, when they
//! would do it.
//!
//! Real are the ledger and its statements, its leases, fences, splits and attempts. Simulated are the time
//! that it takes to answer (one question after another, so many a second), the pace of each worker, and what
//! befalls them. A line of a simulated batch stands for many objects, since the ledger does not look at them.
//!
//! `--together N`: a simulated batch stands for N of them, one after another in the same hands. What is asked
//! for it takes the ledger as long as N questions do, in one piece, and renewals are told of less often and
//! take as much longer. So it is as busy as it would be, and each answer later than it would be; whoever is
//! killed loses more.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_fleet::class::FailureClass;
use weir_fleet::ledger::database::Now;
use weir_fleet::ledger::sqlite::SqliteDatabase;
use weir_fleet::ledger::{
    BatchClaim, BatchLease, BatchResults, BatchWork, Claimed, Finished, FleetLedger, Helped, Helper,
    ObjectFailure, Patience, PlannedBatch, Renewed, SqlLedger, Tally, WaitReason, WatchedBatch, WorkerId,
    WorkerIdentity,
};
use weir_fleet::object::{FleetObject, pack};

use super::events::{Event, Events, Micros, What};
use super::{Flags, Folder, LEASE, plan};

/// A time of day in 2026, milliseconds.
const START: i64 = 1_780_000_000_000;

/// Lines of a batch: as fine as tails are split.
const LINES: u64 = 8;

const SECOND: Micros = 1_000_000;

/// When a worker's clerk does what (`worker/clerk.rs`, `worker/desk.rs`): it claims so long before the end of
/// what it holds, tells of a batch so soon, and then this often at most and at least.
const AHEAD: Micros = 400_000;
const FIRST_TOLD: Micros = 300_000;
const TOLD: Micros = SECOND;
const RARELY_TOLD: Micros = 10 * SECOND;
/// So often where many batches are simulated as one: a sixth of a lease.
const THINNED: Micros = 5 * SECOND;
/// Renewals take a twentieth of the time.
const RENEWING: Micros = 20;
const TICK: Micros = 50_000;
/// Pauses while the ledger is away.
const FIRST_PAUSE: Micros = 250_000;
const LONGEST_PAUSE: Micros = 10 * SECOND;

/// Whoever restarts workers takes so long.
const RESTART: Micros = 60 * SECOND;

/// What is simulated.
struct Setting {
    workers: usize,
    objects: u64,
    /// Of a batch.
    of_a_batch: u64,
    /// Batches that are simulated as one.
    together: u64,
    /// Objects a second of a worker.
    pace: f64,
    /// Questions a second that the ledger answers.
    answers: f64,
    /// Of the workers, how many of 100 are ten times slower.
    slow: f64,
    /// Kills of a worker in an hour.
    kills: f64,
    /// Of a million objects, how many fail in passing.
    failures: f64,
    /// The database stops at this second, for so many.
    stop: (f64, f64),
    seed: u64,
}

impl Setting {
    fn of(flags: &Flags) -> Result<Setting, Box<dyn Error>> {
        Ok(Setting {
            workers: flags.number("workers", 1000)?,
            objects: flags.number("objects", 10_000_000)?,
            of_a_batch: flags.number("of-a-batch", 1000)?,
            together: flags.number("together", 1_u64)?.max(1),
            pace: flags.number("pace", 1000.0)?,
            answers: flags.number("answers", 4500.0)?,
            slow: flags.number("slow", 1.0)?,
            kills: flags.number("kills", 1.0)?,
            failures: flags.number("failures", 10.0)?,
            stop: (flags.number("stop-at", f64::INFINITY)?, flags.number("stop-for", 60.0)?),
            seed: flags.number("seed", 1)?,
        })
    }

    /// Objects that a line stands for.
    fn scale(&self) -> f64 {
        (self.of_a_batch * self.together) as f64 / LINES as f64
    }

    /// When a batch is told of again, where it would be after `natural`; and for how many times that stands.
    fn thinned(&self, natural: Micros) -> (Micros, f64) {
        let most = if self.together > 1 { THINNED } else { TOLD };
        let between = natural.max(most);
        (between, between as f64 / natural as f64)
    }
}

/// A batch that a worker has.
struct Hand {
    lease: BatchLease,
    lines: u64,
    began: Micros,
    end: Micros,
}

#[derive(Default)]
struct Worker {
    id: Option<WorkerId>,
    life: u32,
    pace: f64,
    /// What its mover moves, and what it will move after that.
    hand: Option<Hand>,
    next: Option<Hand>,
    /// Batches of which the ledger is to be told.
    ended: Vec<Hand>,
    /// Its clerk has no other question before.
    clerk: Micros,
    /// Since when its mover has nothing to do.
    idle_since: Option<Micros>,
    idle: Micros,
    /// Questions without an answer, one after another.
    unheard: u32,
    /// For how many renewals the next one stands.
    stands_for: f64,
    /// When it tells of what is in hand next.
    tells: Micros,
    /// It asks for a batch already.
    is_asking: bool,
    /// Batches of others that it watches while idle.
    watched: Vec<WatchedBatch>,
    is_over: bool,
}

#[derive(Default)]
struct Figures {
    questions: f64,
    longest: Micros,
    end: Micros,
    kills: u64,
    lost: u64,
    helped: u64,
}

struct World {
    setting: Setting,
    ledger: SqlLedger,
    clock: Arc<AtomicI64>,
    random: fastrand::Rng,
    events: Events,
    workers: Vec<Worker>,
    /// The ledger has answered all before.
    free: Micros,
    figures: Figures,
}

/// Simulates, and prints a line.
pub fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let setting = Setting::of(flags)?;
    let began = Instant::now();
    let memory = Some("/dev/shm").filter(|path| Path::new(path).is_dir());
    let folder = Folder::new(flags.text("folder").or(memory))?;
    let clock = Arc::new(AtomicI64::new(START));
    let now = Now::Given(Arc::clone(&clock));
    let database = SqliteDatabase::open(&folder.0.join("fleet.db"), true, now)?;
    let patience = Patience { longest: Duration::from_secs(60), stop: Arc::default() };
    let mut ledger = SqlLedger::new(Box::new(database), patience);
    let batches = setting.objects.div_ceil(setting.of_a_batch * setting.together);
    plan(&mut ledger, batches, &batch(&setting))?;
    let mut world = World::new(setting, ledger, clock);
    while let Some(event) = world.events.next() {
        world.step(event)?;
    }
    world.print(batches, began.elapsed())
}

fn batch(setting: &Setting) -> PlannedBatch {
    let size = setting.scale() as u64;
    let object = |number: u64| {
        let source = number.to_string().into_bytes();
        FleetObject { target: source.clone(), source, size: Some(size), ..FleetObject::default() }
    };
    let objects: Vec<FleetObject> = (0..LINES).map(object).collect();
    PlannedBatch { objects: LINES, bytes: LINES * size, lines: pack(&objects) }
}

fn micros(seconds: f64) -> Micros {
    (seconds * SECOND as f64) as Micros
}

impl World {
    fn new(setting: Setting, ledger: SqlLedger, clock: Arc<AtomicI64>) -> World {
        let mut random = fastrand::Rng::with_seed(setting.seed);
        let mut events = Events::default();
        let mut workers = Vec::new();
        for number in 0..setting.workers {
            let is_slow = random.f64() * 100.0 < setting.slow;
            let pace = setting.pace * (0.9 + random.f64() * 0.2) * if is_slow { 0.1 } else { 1.0 };
            workers.push(Worker { pace, ..Worker::default() });
            // They start within ten seconds.
            events.add(random.u64(0..10 * SECOND), number, 0, What::Join);
        }
        World { setting, ledger, clock, random, events, workers, free: 0, figures: Figures::default() }
    }

    fn step(&mut self, event: Event) -> Result<(), Box<dyn Error>> {
        let Event { at, worker, life, what, .. } = event;
        let own = &self.workers[worker];
        if own.life != life || own.is_over {
            return Ok(());
        }
        let is_of_clerk = !matches!(what, What::End | What::Kill);
        if is_of_clerk && own.clerk > at {
            self.events.add(own.clerk, worker, life, what);
            return Ok(());
        }
        match what {
            What::Join => self.join(at, worker),
            What::Claim => self.claim(at, worker),
            What::Renew => self.renew(at, worker),
            What::End => {
                self.end(at, worker);
                Ok(())
            }
            What::Finish => self.finish(at, worker),
            What::Kill => {
                self.kill(at, worker);
                Ok(())
            }
        }
    }

    /// Asks the ledger, which takes as long for it as for so many questions. `None`: it is away, and the
    /// worker asks again later.
    fn ask<T>(
        &mut self,
        (at, count): (Micros, f64),
        worker: usize,
        what: What,
        question: impl FnOnce(&mut SqlLedger) -> Result<T, weir_fleet::FleetError>,
    ) -> Result<Option<(T, Micros)>, Box<dyn Error>> {
        let begins = at.max(self.free);
        let (stops, span) = (self.setting.stop.0, self.setting.stop.1);
        let seconds = begins as f64 / SECOND as f64;
        let own = &mut self.workers[worker];
        if seconds >= stops && seconds < stops + span {
            let pause = (FIRST_PAUSE << own.unheard.min(10)).min(LONGEST_PAUSE);
            own.unheard += 1;
            let pause = (pause as f64 * (0.5 + self.random.f64() / 2.0)) as Micros;
            own.clerk = at + pause;
            self.events.add(own.clerk, worker, own.life, what);
            return Ok(None);
        }
        self.clock.store(START + (begins / 1000) as i64, Relaxed);
        let answer = question(&mut self.ledger)?;
        self.free = begins + micros(count / self.setting.answers);
        let own = &mut self.workers[worker];
        (own.unheard, own.clerk) = (0, self.free);
        self.figures.questions += count;
        self.figures.longest = self.figures.longest.max(self.free - at);
        Ok(Some((answer, self.free)))
    }

    /// So many questions more of a worker, at once. Returns when they are answered.
    fn more(&mut self, worker: usize, count: f64) -> Micros {
        self.free += micros(count / self.setting.answers);
        self.figures.questions += count;
        self.workers[worker].clerk = self.free;
        self.free
    }

    fn join(&mut self, at: Micros, worker: usize) -> Result<(), Box<dyn Error>> {
        let who = WorkerIdentity {
            host: format!("host{}", worker / 8),
            pid: worker as u32,
            version: "1".to_owned(),
        };
        let Some((id, done)) = self.ask((at, 1.0), worker, What::Join, |ledger| ledger.join(&who))? else {
            return Ok(());
        };
        let own = &mut self.workers[worker];
        own.id = Some(id);
        own.idle_since = Some(at);
        own.is_asking = true;
        self.events.add(done, worker, own.life, What::Claim);
        if self.setting.kills > 0.0 {
            // As long as chance has it: the gaps of what happens so often an hour.
            let gap = -(1.0 - self.random.f64()).ln() * 3600.0 / self.setting.kills;
            self.events.add(at + micros(gap), worker, own.life, What::Kill);
        }
        Ok(())
    }

    fn claim(&mut self, at: Micros, worker: usize) -> Result<(), Box<dyn Error>> {
        let Some(id) = self.workers[worker].id else { return Ok(()) };
        let asked = self.ask((at, 1.0), worker, What::Claim, |ledger| ledger.claim(id, LEASE))?;
        let Some((claimed, done)) = asked else { return Ok(()) };
        let done = match &claimed {
            // Of the others that it stands for each would be claimed too.
            Claimed::Batch(_) => self.more(worker, self.setting.together as f64 - 1.0),
            _ => done,
        };
        match claimed {
            Claimed::Batch(claim) => self.take(done, worker, &claim),
            Claimed::Wait(WaitReason::Held, pause) => return self.help(done, worker, id, pause),
            Claimed::Wait(_, pause) => self.ask_again(done, worker, pause),
            Claimed::Leave | Claimed::Complete => {
                let own = &mut self.workers[worker];
                own.is_asking = false;
                if own.hand.is_none() && own.ended.is_empty() {
                    own.is_over = true;
                } else {
                    self.ask_again(done, worker, Duration::from_millis(50));
                }
            }
        }
        Ok(())
    }

    fn ask_again(&mut self, at: Micros, worker: usize, pause: Duration) {
        let own = &mut self.workers[worker];
        own.is_asking = true;
        let pause = Micros::try_from(pause.as_micros()).unwrap_or(LONGEST_PAUSE).clamp(TICK, LONGEST_PAUSE);
        self.events.add(at + pause, worker, own.life, What::Claim);
    }

    /// Others hold all there is: an idle worker takes from the slowest.
    fn help(
        &mut self,
        at: Micros,
        worker: usize,
        id: WorkerId,
        pause: Duration,
    ) -> Result<(), Box<dyn Error>> {
        let own = &self.workers[worker];
        if own.hand.is_none() && own.ended.is_empty() {
            let helper = Helper { pace: Some(own.pace as u64), watched: own.watched.clone() };
            let asked = self.ask((at, 1.0), worker, What::Claim, |ledger| ledger.help(id, LEASE, &helper))?;
            let Some((helped, done)) = asked else { return Ok(()) };
            match helped {
                Helped::Batch(claim) => {
                    self.figures.helped += 1;
                    self.take(done, worker, &claim);
                    return Ok(());
                }
                Helped::Watch(watched) => self.workers[worker].watched = watched,
            }
        }
        self.ask_again(at, worker, pause);
        Ok(())
    }

    /// A batch is this worker's: it is moved now, or after the one in hand.
    fn take(&mut self, at: Micros, worker: usize, claim: &BatchClaim) {
        let lines = match &claim.work {
            BatchWork::Objects(objects) => objects.len() as u64,
            _ => 0,
        };
        let hand = Hand { lease: claim.lease, lines, began: at, end: at };
        let own = &mut self.workers[worker];
        own.is_asking = false;
        own.watched.clear();
        if own.hand.is_some() {
            own.next = Some(hand);
        } else {
            self.begin(at, worker, hand);
        }
    }

    fn begin(&mut self, at: Micros, worker: usize, mut hand: Hand) {
        let scale = self.setting.scale();
        let own = &mut self.workers[worker];
        if let Some(since) = own.idle_since.take() {
            own.idle += at.saturating_sub(since);
        }
        own.tells = at.max(hand.began + FIRST_TOLD);
        own.stands_for = 1.0;
        self.events.add(own.tells, worker, own.life, What::Renew);
        hand.began = hand.began.max(at);
        hand.end = hand.began + micros(hand.lines as f64 * scale / own.pace);
        self.events.add(hand.end, worker, own.life, What::End);
        if !own.is_asking && own.next.is_none() {
            own.is_asking = true;
            let ahead = hand.end.saturating_sub(AHEAD).max(at);
            self.events.add(ahead, worker, own.life, What::Claim);
        }
        own.hand = Some(hand);
    }

    fn renew(&mut self, at: Micros, worker: usize) -> Result<(), Box<dyn Error>> {
        let scale = self.setting.scale();
        let own = &self.workers[worker];
        // Of a batch that is in hand no more nothing is told.
        let Some(hand) = own.hand.as_ref().filter(|_| own.tells <= at) else { return Ok(()) };
        let (lease, lines, count) = (hand.lease, hand.lines, own.stands_for.max(1.0));
        let moved = at.saturating_sub(hand.began) as f64 / SECOND as f64 * own.pace;
        // Begun is what will be before the next time, twice.
        let again = if self.setting.together > 1 { THINNED } else { TOLD };
        let soon = moved + own.pace * 2.0 * (again / SECOND) as f64;
        let reached = ((soon / scale).ceil() as u64).min(lines);
        let asked = self.ask((at, count), worker, What::Renew, |ledger| {
            ledger.renew(lease, LEASE, reached, moved as u64)
        })?;
        let Some((renewed, done)) = asked else { return Ok(()) };
        let alone = (done - at).saturating_sub(micros((count - 1.0) / self.setting.answers));
        let (between, stands_for) = self.setting.thinned(TOLD.max(alone * RENEWING).min(RARELY_TOLD));
        let own = &mut self.workers[worker];
        match renewed {
            Renewed::Held { objects, .. } => {
                own.stands_for = stands_for;
                own.tells = done + between;
                self.events.add(own.tells, worker, own.life, What::Renew);
                self.cut(done, worker, lease, objects);
            }
            Renewed::Lost => {
                self.figures.lost += 1;
                self.workers[worker].hand = None;
                self.go_on(done, worker);
            }
        }
        Ok(())
    }

    /// Others took the lines behind `lines`.
    fn cut(&mut self, at: Micros, worker: usize, lease: BatchLease, lines: u64) {
        let scale = self.setting.scale();
        let own = &mut self.workers[worker];
        let pace = own.pace;
        let Some(hand) = own.hand.as_mut().filter(|hand| hand.lease == lease && lines < hand.lines) else {
            return;
        };
        hand.lines = lines;
        hand.end = at.max(hand.began + micros(lines as f64 * scale / pace));
        self.events.add(hand.end, worker, own.life, What::End);
    }

    /// All of the batch in hand is through.
    fn end(&mut self, at: Micros, worker: usize) {
        let own = &mut self.workers[worker];
        // It was cut, and its end is another one.
        let Some(hand) = own.hand.take_if(|hand| hand.end == at) else { return };
        own.ended.push(hand);
        self.events.add(at, worker, own.life, What::Finish);
        self.go_on(at, worker);
    }

    /// The mover takes what was claimed ahead, or waits.
    fn go_on(&mut self, at: Micros, worker: usize) {
        let own = &mut self.workers[worker];
        own.idle_since = Some(at);
        match own.next.take() {
            Some(next) => {
                let begins = at.max(next.began);
                self.begin(begins, worker, next);
            }
            None if !own.is_asking => {
                own.is_asking = true;
                self.events.add(at, worker, own.life, What::Claim);
            }
            None => {}
        }
    }

    fn finish(&mut self, at: Micros, worker: usize) -> Result<(), Box<dyn Error>> {
        let Some(hand) = self.workers[worker].ended.pop() else { return Ok(()) };
        let results = self.results(hand.lines);
        let lease = hand.lease;
        let count = self.setting.together as f64;
        let asked = self.ask((at, count), worker, What::Finish, |ledger| ledger.finish(lease, &results))?;
        let Some((finished, done)) = asked else {
            self.workers[worker].ended.push(hand);
            return Ok(());
        };
        match finished {
            Finished::Done => self.figures.end = self.figures.end.max(done),
            Finished::Lost => self.figures.lost += 1,
            Finished::Cut(lines) => {
                let own = &mut self.workers[worker];
                own.ended.push(Hand { lines, ..hand });
                self.events.add(done, worker, own.life, What::Finish);
            }
        }
        Ok(())
    }

    fn results(&mut self, lines: u64) -> BatchResults {
        let chance = self.setting.failures / 1e6 * self.setting.scale();
        let mut results = BatchResults { covered: lines, ..BatchResults::default() };
        for position in 0..lines {
            if self.random.f64() < chance {
                let (class, reason) = (FailureClass::Network, "timed out".to_owned());
                results.failures.push(ObjectFailure { position, class, reason });
            } else {
                let size = self.setting.scale() as u64;
                results.moved =
                    Tally { objects: results.moved.objects + 1, bytes: results.moved.bytes + size };
            }
        }
        results
    }

    fn kill(&mut self, at: Micros, worker: usize) {
        self.figures.kills += 1;
        let own = &mut self.workers[worker];
        let idle = own.idle + own.idle_since.map_or(0, |since| at.saturating_sub(since));
        *own = Worker { life: own.life + 1, pace: own.pace, idle, ..Worker::default() };
        self.events.add(at + RESTART, worker, own.life, What::Join);
    }

    fn print(mut self, batches: u64, real: Duration) -> Result<(), Box<dyn Error>> {
        let status = self.ledger.status()?;
        let done = status.moved.objects + status.same.objects + status.failed;
        if !status.complete || done != batches * LINES {
            return Err(format!("it did not come to its end: {status:?}").into());
        }
        let Figures { questions, longest, end, kills, lost, helped } = self.figures;
        let seconds = end as f64 / SECOND as f64;
        let paces: f64 = self.workers.iter().map(|worker| worker.pace).sum();
        let ideal = self.setting.objects as f64 / paces;
        let Setting { workers, objects, answers, together, .. } = self.setting;
        let batches = batches * together;
        println!(
            "| workers | objects | batches | at best | took | of the best | questions/s | ledger busy | longest \
             answer | kills | leases lost | tails taken | simulated in |"
        );
        println!("|{}", " ---: |".repeat(13));
        println!(
            "| {workers} | {objects} | {batches} | {ideal:.0} s | {seconds:.0} s | {:.0} % | {:.0} | {:.0} % | \
             {:.2} s | {kills} | {lost} | {helped} | {:.0} s |",
            ideal / seconds * 100.0,
            questions / seconds,
            questions / answers / seconds * 100.0,
            longest as f64 / SECOND as f64,
            real.as_secs_f64()
        );
        Ok(())
    }
}
