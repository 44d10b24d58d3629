//! A worker: claims batches of a ledger and moves them by weir's engines until the plan is done.
//!
//! Two threads talk over a [`desk`]: the [`clerk`] with the ledger, and the mover with the engine, which is
//! one run over all batches, so that connections and the number of lanes outlive each. A run is ended and
//! begun anew only where a batch was lost while it moved.
//!
//! | from | to | mover | engine |
//! | --- | --- | --- | --- |
//! | a web server, a store | a folder | [`fetch`] | `weir-get` |
//! | a folder | a store | [`send`] | the uploads of `weir-store` |
//! | a store | the same store | [`across`] | the store's own copies |
//! | another store, a web server | a store | [`through`] | the uploads of `weir-store`, part by part |
//! | a folder | a folder | [`local`] | `copy_file_range(2)` |
//!
//! A large object may be several workers' at once: ranges of one file ([`pieces`]), or parts of one upload
//! ([`parts`]).
//!
//! That an object is at its target once is made there: a part is verified and gets its name by a rename that
//! replaces nothing (a store: by a PUT under the condition that nothing is there). The ledger hears of it
//! after that. Whoever does the same object a second time finds it there.

pub mod across;
mod clerk;
mod crew;
pub mod desk;
pub mod fetch;
mod hand;
mod leftovers;
pub mod local;
mod parts;
mod pieces;
pub mod send;
pub mod shares;
mod target;
#[cfg(test)]
mod tests;
pub mod through;
mod why;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use weir_get::job::Observer;
use weir_units::Rate;
use weir_units::limiter::Limiter;

use self::clerk::{Clerk, ClerkManner, ClerkSetup, TICK};
pub use self::clerk::{DRAIN, STUCK, WorkerEnd, WorkerSignals};
use self::desk::{Desk, DeskTotals};
use self::shares::{LimitShares, Watcher};
use crate::error::FleetError;
use crate::ledger::{FleetLedger, WorkerIdentity};

/// Moves what the desk gives.
pub trait Mover: Sync {
    /// Objects that it has begun at once, at most.
    fn at_once(&self) -> usize;

    /// Those that move one of them at a time each: they are given as many, however large.
    fn hands(&self) -> usize {
        1
    }

    /// Until there is nothing more, or `run.stop` is set: then all that was begun is given back.
    fn run(&self, run: &MoverRun<'_>, observer: &mut dyn Observer);

    /// The worker has ended and holds nothing any more: tidies up.
    fn leave(&self, _desk: &Desk) {}
}

/// One run of a mover.
pub struct MoverRun<'a> {
    /// What is to be moved.
    pub desk: &'a Desk,
    /// What held it: for movers whose engine has no eyes of its own.
    pub shares: &'a LimitShares,
    /// Bytes a second at most, which may change meanwhile.
    pub limiter: &'a Arc<Limiter>,
    /// Ends it.
    pub stop: &'a Arc<AtomicBool>,
}

/// How a worker works.
#[derive(Debug, Clone)]
pub struct WorkerManner {
    /// Who it is.
    pub who: WorkerIdentity,
    /// How long a batch is held without a word of this worker.
    pub lease: Duration,
    /// Leave when there is nothing to do now, and do not wait for what others hold.
    pub once: bool,
    /// Bytes a second at most, whatever the fleet allows.
    pub rate: Option<Rate>,
    /// Gives up what it holds after so long without a byte and an object ([`STUCK`]).
    pub stuck: Duration,
    /// Ends what it holds within so long when it is told to drain ([`DRAIN`]).
    pub drain: Duration,
}

/// What a worker did.
#[derive(Debug, Clone)]
pub struct WorkerReport {
    /// Why it ended.
    pub end: WorkerEnd,
    /// What it moved.
    pub totals: DeskTotals,
    /// Some of what was given up, in words.
    pub failures: Vec<String>,
    /// From joining to leaving.
    pub span: Duration,
    /// Of that, spent in questions to the ledger, beside which bytes moved.
    pub asked: Duration,
}

/// Works. `observer` sees what the engine sees.
///
/// # Errors
/// What the ledger says where it cannot be used, is newer than this weir, or was away for an hour. What is
/// held then is given to others when its lease ends.
pub fn run(
    ledger: &mut dyn FleetLedger,
    mover: &dyn Mover,
    manner: &WorkerManner,
    signals: &WorkerSignals,
    observer: &mut dyn Observer,
) -> Result<WorkerReport, FleetError> {
    let began = Instant::now();
    let worker = ledger.join(&manner.who)?;
    let (desk, shares) = (Desk::new(mover.at_once(), mover.hands()), LimitShares::new(began));
    let limiter = Arc::new(Limiter::open(manner.rate));
    let clerk = Clerk::new(ClerkSetup {
        ledger,
        worker,
        desk: &desk,
        shares: &shares,
        limiter: &limiter,
        own_rate: manner.rate,
        signals,
        manner: ClerkManner { length: manner.lease, once: manner.once, stuck: manner.stuck },
    });
    let (end, asked) = std::thread::scope(|scope| {
        let (_works, over) = channel();
        let ends = std::thread::Builder::new().name("drain".to_owned());
        let ends = ends.spawn_scoped(scope, move || end_drain(signals, manner.drain, &over));
        let works = std::thread::Builder::new().name("clerk".to_owned());
        let Ok(clerk) = ends.and_then(|_| works.spawn_scoped(scope, || clerk.run())) else {
            let why = "cannot start a thread; free memory, or raise ulimit -u".to_owned();
            return (Err(FleetError::Manifest(why)), Duration::ZERO);
        };
        while !desk.is_over() {
            let stop = desk.begin_run();
            let run = MoverRun { desk: &desk, shares: &shares, limiter: &limiter, stop: &stop };
            mover.run(&run, &mut Watcher { desk: &desk, shares: &shares, looks_on: &mut *observer });
        }
        clerk.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    mover.leave(&desk);
    let (totals, failures) = (desk.totals(), desk.failures());
    Ok(WorkerReport { end: end?, totals, failures, span: began.elapsed(), asked })
}

/// Makes a worker that drains give back what it holds once its time is over, even where the clerk still waits
/// for an answer of the ledger.
fn end_drain(signals: &WorkerSignals, longest: Duration, over: &Receiver<()>) {
    let mut since = None;
    while over.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        if !signals.drain.load(Relaxed) {
            continue;
        }
        if since.get_or_insert_with(Instant::now).elapsed() >= longest {
            signals.stop.store(true, Relaxed);
            return;
        }
    }
}
