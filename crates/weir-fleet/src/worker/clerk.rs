//! The thread between the desk and the ledger: claims batches, holds them while bytes move, and hands in what
//! became of them. It alone talks with the ledger, so a mover never waits for a database.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_units::Rate;
use weir_units::backoff::doubled;
use weir_units::human_duration;
use weir_units::limiter::Limiter;

use super::desk::{Desk, DeskTotals};
use super::shares::LimitShares;
use crate::error::FleetError;
use crate::ledger::{
    BatchLease, Claimed, Finished, FleetLedger, Helped, Helper, Renewed, WaitReason, WatchedBatch, WorkerId,
};

/// Between two looks at signals, where nothing else wakes the clerk.
pub(super) const TICK: Duration = Duration::from_millis(50);

/// Between batches that are claimed for hands without work: workers that a launcher starts over ssh come
/// about a second apart.
const SPREAD: Duration = Duration::from_secs(1);

/// Leases are renewed this often in their length at least, so that one lost answer or two cost none.
const RENEWALS: u32 = 3;

/// And as often as this, since what is told with it decides which objects can still be given to others; less
/// often where the ledger is busy: renewals take a twentieth of the time at most.
const TOLD: Duration = Duration::from_secs(1);

/// The first time so soon: after half a second others may be given what is not known to be begun.
const FIRST_TOLD: Duration = Duration::from_millis(300);

const RENEWING: u32 = 20;

/// No byte and no object for so long: twice what the engines allow a silent server. Whatever holds the worker
/// then, its batches are better with others.
pub const STUCK: Duration = Duration::from_secs(120);

/// What may end in order after SIGTERM: Slurm and Kubernetes send SIGKILL after thirty seconds.
pub const DRAIN: Duration = Duration::from_secs(20);

/// Pauses while the ledger is away, each twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A ledger that is away longer does not come back by itself. What is done is at its targets, and the next
/// worker finds it there.
const MOST_AWAY: Duration = Duration::from_secs(3600);

/// The pace is that of the last seconds: half of it is new after so long. Of less time than that none is
/// known: a few small objects tell of their waits.
const PACE: Duration = Duration::from_secs(1);

/// How a worker ended.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum WorkerEnd {
    /// All batches of the plan are done.
    Complete,
    /// There is nothing for it now (`--once`).
    Nothing,
    /// The plan is not whole, and nobody writes it (`--once`).
    Unplanned,
    /// The fleet drains.
    Drained,
    /// A signal; what it held was given back.
    Stopped,
    /// This host can move nothing, and why; what it held was given back.
    Trouble(String),
}

/// What a user wants of a worker that works.
#[derive(Debug, Default)]
pub struct WorkerSignals {
    /// End what is held, and leave.
    pub drain: std::sync::Arc<AtomicBool>,
    /// Give back what is held, and leave.
    pub stop: std::sync::Arc<AtomicBool>,
}

/// Whether a worker goes on.
enum Step {
    On,
    End(WorkerEnd),
}

/// How a clerk does its work.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClerkManner {
    /// Of a lease.
    pub(super) length: Duration,
    /// Leave when there is nothing now.
    pub(super) once: bool,
    /// See [`STUCK`].
    pub(super) stuck: Duration,
}

/// The clerk.
pub(super) struct Clerk<'a> {
    ledger: &'a mut dyn FleetLedger,
    worker: WorkerId,
    desk: &'a Desk,
    shares: &'a LimitShares,
    limiter: &'a Limiter,
    own_rate: Option<Rate>,
    /// The rate that the fleet allowed it last.
    rate: Option<u64>,
    signals: &'a WorkerSignals,
    manner: ClerkManner,
    renewing: Duration,
    next_claim: Instant,
    leaves: Option<WorkerEnd>,
    /// Why there was no batch, as it was said last.
    waits: Option<WaitReason>,
    away: Option<(Instant, u32)>,
    pace: (Instant, DeskTotals, f64, f64),
    /// Bytes a second that moved of late, without those that were there, and for how long any did.
    carrying: (f64, Duration),
    /// Batches of others, while there is nothing to do here.
    watched: Vec<WatchedBatch>,
    /// Time spent in calls of the ledger.
    asked: Duration,
}

/// What the clerk shares with its worker.
pub(super) struct ClerkSetup<'a> {
    pub(super) ledger: &'a mut dyn FleetLedger,
    pub(super) worker: WorkerId,
    pub(super) desk: &'a Desk,
    pub(super) shares: &'a LimitShares,
    /// What its mover keeps to.
    pub(super) limiter: &'a Limiter,
    /// Bytes a second at most, whatever the fleet allows.
    pub(super) own_rate: Option<Rate>,
    pub(super) signals: &'a WorkerSignals,
    pub(super) manner: ClerkManner,
}

impl<'a> Clerk<'a> {
    pub(super) fn new(setup: ClerkSetup<'a>) -> Clerk<'a> {
        let now = Instant::now();
        let ClerkSetup { ledger, worker, desk, shares, limiter, own_rate, signals, manner } = setup;
        Clerk {
            ledger,
            worker,
            desk,
            shares,
            limiter,
            own_rate,
            rate: None,
            signals,
            manner,
            renewing: Duration::ZERO,
            next_claim: now,
            leaves: None,
            waits: None,
            away: None,
            pace: (now, DeskTotals::default(), 0.0, 0.0),
            carrying: (0.0, Duration::ZERO),
            watched: Vec::new(),
            asked: Duration::ZERO,
        }
    }

    /// Until the worker ends. Returns how, and the time that was spent asking the ledger.
    pub(super) fn run(mut self) -> (Result<WorkerEnd, FleetError>, Duration) {
        let ended = loop {
            self.learn_pace();
            match self.step() {
                Ok(Step::On) => {
                    if self.away.take().is_some() {
                        tracing::warn!("the ledger is there again");
                    }
                    self.desk.await_news(TICK);
                }
                Ok(Step::End(end)) => break Ok(end),
                Err(error) if error.is_interrupted() && self.is_stopped() => break Ok(WorkerEnd::Stopped),
                Err(error) if error.is_passing() => match self.back_off(error) {
                    Ok(()) => {}
                    Err(error) => break Err(error),
                },
                Err(error) => break Err(error),
            }
        };
        let told = self.end(&ended);
        let ended = match ended.and_then(|end| told.map(|()| end)) {
            // Who was told to leave has left, whether or not the ledger heard of it.
            Err(error) if self.is_told() && (error.is_passing() || error.is_interrupted()) => {
                tracing::warn!("{error}; what was held is free when its lease ends");
                Ok(WorkerEnd::Stopped)
            }
            ended => ended,
        };
        (ended, self.asked)
    }

    /// Hands in what is complete, gives back the rest, and leaves.
    fn end(&mut self, ended: &Result<WorkerEnd, FleetError>) -> Result<(), FleetError> {
        // Before the run ends: with a batch on the desk another one would begin.
        let handed_in = if ended.is_ok() { self.hand_in() } else { Ok(()) };
        self.desk.close();
        self.desk.end_run();
        let (held, failed) = (self.desk.leases(), self.desk.failed());
        for lease in &held {
            self.desk.hand_back(*lease);
        }
        if ended.is_err() {
            // It would fail once more, and leases end by themselves.
            return Ok(());
        }
        handed_in?;
        for lease in held {
            let is_failed = failed.contains(&lease);
            if !self.ask(|ledger| if is_failed { ledger.fail(lease) } else { ledger.release(lease) })? {
                self.desk.lose(lease);
            }
        }
        let spans = self.shares.take(Instant::now(), true);
        let worker = self.worker;
        if !spans.is_empty() {
            self.ask(|ledger| ledger.tell(worker, &spans))?;
        }
        self.ask(|ledger| ledger.leave(worker))
    }

    fn step(&mut self) -> Result<Step, FleetError> {
        if self.is_stopped() {
            return Ok(Step::End(WorkerEnd::Stopped));
        }
        if let Some(why) = self.desk.trouble() {
            return Ok(Step::End(WorkerEnd::Trouble(why)));
        }
        self.share()?;
        self.hand_in()?;
        self.renew()?;
        self.tell()?;
        if self.signals.drain.load(Relaxed) {
            return Ok(if self.desk.is_idle() { Step::End(WorkerEnd::Stopped) } else { Step::On });
        }
        if let Some(end) = &self.leaves {
            return Ok(if self.desk.is_idle() { Step::End(end.clone()) } else { Step::On });
        }
        if self.desk.wants_more() && Instant::now() >= self.next_claim {
            self.claim()?;
        }
        Ok(Step::On)
    }

    fn is_stopped(&self) -> bool {
        self.signals.stop.load(Relaxed)
    }

    /// Told to leave, with nothing left to move first. Nobody waits for a ledger that is away then: leases
    /// end by themselves.
    fn is_told(&self) -> bool {
        self.is_stopped() || self.signals.drain.load(Relaxed) && self.desk.is_through()
    }

    /// Asks what workers on large objects have in common.
    fn share(&mut self) -> Result<(), FleetError> {
        while let Some((large, token)) = self.desk.to_share() {
            let shared = self.ask(|ledger| ledger.share_token(large, &token))?;
            self.desk.shares((large, token), shared);
        }
        Ok(())
    }

    /// Tells the ledger what became of complete batches.
    fn hand_in(&mut self) -> Result<(), FleetError> {
        while let Some((lease, results)) = self.desk.complete() {
            match self.ask(|ledger| ledger.finish(lease, &results))? {
                Finished::Done => {
                    self.desk.forget(lease);
                }
                Finished::Lost => self.lose(lease),
                Finished::Cut(objects) => self.desk.cut(lease, objects),
            }
            // What others held up may be free now.
            self.next_claim = Instant::now();
        }
        Ok(())
    }

    /// Another worker has the batch.
    fn lose(&mut self, lease: BatchLease) {
        tracing::info!("batch {} is another worker's now", lease.batch);
        if self.desk.lose(lease) {
            self.desk.end_run();
        }
    }

    /// Holds what is held, if anything moves.
    fn renew(&mut self) -> Result<(), FleetError> {
        // What waits for its rate does not hang.
        if !self.limiter.wait(Instant::now()).is_zero() {
            self.desk.stir();
        }
        if self.desk.still_for() >= self.manner.stuck {
            return self.give_up();
        }
        let length = self.manner.length;
        let between = TOLD.max(self.renewing * RENEWING).min(length / RENEWALS);
        let due = self.desk.due(FIRST_TOLD.min(between), between);
        let (began, count) = (Instant::now(), due.len() as u32);
        for held in due {
            let renewed = self.ask(|ledger| ledger.renew(held.lease, length, held.reached, held.bytes))?;
            match renewed {
                Renewed::Held { objects, settings } => {
                    self.desk.cut(held.lease, objects);
                    self.take_rate(settings.rate);
                }
                Renewed::Lost => self.lose(held.lease),
            }
        }
        if count > 0 {
            // Of all that is held: each is told of as often.
            let held = u32::try_from(self.desk.leases().len()).unwrap_or(1).max(1);
            self.renewing = began.elapsed() / count * held;
        }
        Ok(())
    }

    /// Gives back what hangs, which was an attempt at it. The run goes on with other batches: to end it would
    /// be to wait for what hangs, of whose end nobody asks any more.
    fn give_up(&mut self) -> Result<(), FleetError> {
        let why = format!("nothing of it moved for {}", human_duration(self.manner.stuck));
        let given_up = self.desk.give_up(&why);
        // All of them before the ledger is asked, which may not answer: a lease ends by itself.
        for lease in &given_up {
            self.desk.lose(*lease);
        }
        for lease in given_up {
            tracing::warn!("batch {} was given back: {why}", lease.batch);
            self.ask(|ledger| ledger.fail(lease))?;
        }
        Ok(())
    }

    fn tell(&mut self) -> Result<(), FleetError> {
        let spans = self.shares.take(Instant::now(), false);
        if spans.is_empty() {
            return Ok(());
        }
        let worker = self.worker;
        let told = self.ask(|ledger| ledger.tell(worker, &spans));
        if told.is_err() {
            self.shares.give_back(spans);
        }
        told
    }

    fn claim(&mut self) -> Result<(), FleetError> {
        let (worker, length, asked) = (self.worker, self.manner.length, Instant::now());
        match self.ask(|ledger| ledger.claim(worker, length))? {
            Claimed::Batch(claim) => {
                // Claimed early, for idle hands: workers that start a moment later get their first batch
                // before another of ours.
                if !self.desk.is_short() {
                    self.next_claim = asked + SPREAD;
                }
                self.watched.clear();
                self.waits = None;
                self.take_rate(claim.settings.rate);
                self.desk.add(*claim, asked);
            }
            Claimed::Leave => self.leaves = Some(WorkerEnd::Drained),
            Claimed::Complete if self.desk.is_idle() => self.leaves = Some(WorkerEnd::Complete),
            Claimed::Complete => self.next_claim = Instant::now() + TICK,
            Claimed::Wait(_, pause) if !self.desk.is_idle() => {
                self.next_claim = Instant::now() + pause.clamp(TICK, LONGEST_PAUSE);
            }
            Claimed::Wait(reason, pause) => self.wait(reason, pause)?,
        }
        Ok(())
    }

    /// There is no batch for a worker that holds none.
    fn wait(&mut self, reason: WaitReason, pause: Duration) -> Result<(), FleetError> {
        if self.waits.replace(reason) != Some(reason)
            && let Some(why) = why(reason)
        {
            tracing::warn!("{why}");
        }
        if reason == WaitReason::Held {
            let asked = Instant::now();
            let (worker, length) = (self.worker, self.manner.length);
            let (carrying, span) = self.carrying;
            let pace = (span >= PACE).then_some(carrying as u64);
            let helper = Helper { pace, watched: std::mem::take(&mut self.watched) };
            match self.ask(|ledger| ledger.help(worker, length, &helper))? {
                Helped::Batch(claim) => {
                    self.take_rate(claim.settings.rate);
                    self.desk.add(*claim, asked);
                    return Ok(());
                }
                Helped::Watch(watched) => self.watched = watched,
            }
        }
        if self.manner.once {
            let is_unplanned = reason == WaitReason::Abandoned;
            self.leaves = Some(if is_unplanned { WorkerEnd::Unplanned } else { WorkerEnd::Nothing });
        }
        self.next_claim = Instant::now() + pause.clamp(TICK, LONGEST_PAUSE);
        Ok(())
    }

    /// What the fleet allows from now on, also for what moves already.
    fn take_rate(&mut self, rate: Option<u64>) {
        if rate == self.rate {
            return;
        }
        self.rate = rate;
        let of_fleet = rate.map(|rate| Rate(rate as f64));
        let shown = of_fleet.map_or("as it comes".to_owned(), |rate| rate.to_string());
        tracing::info!("this worker's part of its host's rate is {shown} now");
        self.limiter.set(slower(self.own_rate, of_fleet), Instant::now());
    }

    /// The ledger did not answer: what is held goes on meanwhile.
    fn back_off(&mut self, error: FleetError) -> Result<(), FleetError> {
        let (since, times) = *self.away.get_or_insert_with(|| {
            tracing::warn!("{error}; what is held goes on");
            (Instant::now(), 0)
        });
        self.desk.lift_limits();
        if since.elapsed() >= MOST_AWAY {
            return Err(error);
        }
        self.away = Some((since, times.saturating_add(1)));
        let until = Instant::now() + doubled(FIRST_PAUSE, times, LONGEST_PAUSE);
        while Instant::now() < until && !self.is_told() {
            self.desk.await_news(TICK);
        }
        if self.is_told() { Err(error) } else { Ok(()) }
    }

    fn learn_pace(&mut self) {
        let (at, before, bytes, objects) = self.pace;
        let span = at.elapsed();
        if span < TICK || self.desk.is_idle() {
            return;
        }
        let now = self.desk.totals();
        let of = |totals: &DeskTotals| {
            let bytes = totals.moved.1 + totals.same.1 + totals.under_way;
            (bytes as f64, (totals.moved.0 + totals.same.0 + totals.failed + totals.retried) as f64)
        };
        let ((bytes_now, objects_now), (bytes_before, objects_before)) = (of(&now), of(&before));
        let seconds = span.as_secs_f64();
        let kept = 0.5_f64.powf(seconds / PACE.as_secs_f64());
        let blend = |old: f64, new: f64| old * kept + (new.max(0.0) / seconds) * (1.0 - kept);
        let bytes = blend(bytes, bytes_now - bytes_before);
        let objects = blend(objects, objects_now - objects_before);
        let carried =
            |totals: &DeskTotals| (totals.moved.1 + totals.under_way).saturating_sub(totals.compared) as f64;
        let fresh = carried(&now) - carried(&before);
        // What was there says nothing of how fast bytes would come.
        if fresh > 0.0 || (now.same, now.compared) == (before.same, before.compared) {
            self.carrying.0 = blend(self.carrying.0, fresh);
        }
        if fresh > 0.0 {
            self.carrying.1 += span;
        }
        self.pace = (Instant::now(), now, bytes, objects);
        self.desk.set_pace(bytes, objects);
    }

    fn ask<T>(&mut self, question: impl FnOnce(&mut dyn FleetLedger) -> T) -> T {
        let began = Instant::now();
        let answer = question(self.ledger);
        self.asked += began.elapsed();
        answer
    }
}

/// What somebody has to do before there is work again; `None`: it comes by itself.
fn why(reason: WaitReason) -> Option<&'static str> {
    match reason {
        WaitReason::Abandoned => Some(
            "the plan is not whole and nobody writes it: run the same weir fleet plan again, or plan into \
             another ledger",
        ),
        WaitReason::Paused => Some("the fleet is paused; weir fleet resume gives out batches again"),
        WaitReason::Window => Some("it is outside the hours that weir fleet set --window allows"),
        WaitReason::Workers | WaitReason::Held | WaitReason::Planning => None,
    }
}

fn slower(own: Option<Rate>, of_fleet: Option<Rate>) -> Option<Rate> {
    match (own, of_fleet) {
        (Some(Rate(own)), Some(Rate(of_fleet))) => Some(Rate(own.min(of_fleet))),
        (own, of_fleet) => own.or(of_fleet),
    }
}
