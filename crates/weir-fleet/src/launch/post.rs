//! One worker on another host: started by ssh as the far end of a copy is, asked for what is to be done, and
//! answered out of the ledger until it says farewell.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_cp::CopyError;
use weir_cp::hand_over::{self, Purpose};
use weir_cp::overheard::Hears;
use weir_cp::ssh::{Far, Host};

use super::far_ledger::ALIVE;
use super::hub::HubLedger;
use super::wire::{self, Farewell, ToHub, ToWorker, WorkOrder};
use crate::worker::WorkerSignals;

/// Between two looks at signals.
const TICK: Duration = Duration::from_millis(50);

/// How long a worker that was asked to leave in order may take: the 20 s that it gives itself, and as long
/// again for a slow path and a busy ledger.
const DRAINS: Duration = Duration::from_secs(40);

/// And one that was asked to give back what it holds.
const STOPS: Duration = Duration::from_secs(5);

/// The plan is done: a worker hears of it when it asks the next time, 5 s later at most, and one that does
/// not come to its end by itself is not waited for.
const FINISHES: Duration = Duration::from_secs(20);

/// How a worker's life ended.
#[derive(Debug)]
pub(super) enum Fate {
    /// In order.
    Left(Farewell),
    /// Its host was not reached, or it was killed.
    Lost(String),
    /// The same would happen each time.
    NeverWorks(String),
}

/// Whom a worker speaks with.
pub(super) struct Line<'a> {
    pub(super) ledger: &'a HubLedger,
    pub(super) signals: &'a WorkerSignals,
    /// Nobody has anything to do any more.
    pub(super) over: &'a AtomicBool,
    /// Ends the connection.
    pub(super) cut: &'a AtomicBool,
}

/// Starts a worker, and tells it what is to be done.
pub(super) fn start(
    host: &Host,
    version: &str,
    order: WorkOrder,
    cut: &Arc<AtomicBool>,
    hears: Hears,
) -> Result<Far, Fate> {
    let mut far =
        hand_over::start(host, version, Purpose::Fleet, cut, hears).map_err(|error| match error {
            CopyError::Version { .. } | CopyError::Protocol { .. } => Fate::NeverWorks(error.to_string()),
            error => Fate::Lost(error.to_string()),
        })?;
    let told = match &mut far.input {
        Some(input) => wire::write(input, &ToWorker::Begin(order)),
        None => Err(std::io::ErrorKind::BrokenPipe.into()),
    };
    match told {
        Ok(()) => Ok(far),
        Err(error) => Err(Fate::Lost(format!("its connection broke: {}", weir_units::plain(&error)))),
    }
}

/// Answers it until it ends.
pub(super) fn serve(mut far: Far, line: &Line<'_>) -> Fate {
    let (Some(input), Some(mut output)) = (far.input.take(), far.output.take()) else {
        return Fate::Lost("its connection is closed".to_owned());
    };
    let (out, ended) = (Mutex::new(input), AtomicBool::new(false));
    let heard = std::thread::scope(|scope| {
        let teller = std::thread::Builder::new().name("teller".to_owned()).stack_size(256 << 10);
        if let Err(error) = teller.spawn_scoped(scope, || tell(&out, line, &ended)) {
            let why = format!("cannot start a thread: {}; raise ulimit -u", weir_units::plain(&error));
            return Err(why);
        }
        let mut joined = None;
        let heard = loop {
            match wire::read(&mut output) {
                Ok(Some(ToHub::Ask(number, question))) => {
                    let answer = line.ledger.answer(question, &mut joined);
                    if let Err(error) = reply(&out, number, answer) {
                        break Err(format!("its connection broke: {}", weir_units::plain(&error)));
                    }
                }
                Ok(Some(ToHub::Ended(farewell))) => break Ok(farewell),
                Ok(Some(ToHub::Alive)) => {}
                Ok(None) => break Err("its worker was killed, or its connection closed".to_owned()),
                Err(error) => break Err(format!("its connection is lost: {}", weir_units::plain(&error))),
            }
        };
        ended.store(true, Relaxed);
        heard
    });
    drop(out);
    match heard {
        Ok(farewell) => Fate::Left(farewell),
        Err(why) => {
            Fate::Lost(far.last_words().map_or(why.clone(), |words| format!("{why}; it said: {words}")))
        }
    }
}

/// Answers a question; one whose answer is too large is told so.
fn reply(out: &Mutex<impl Write>, number: u64, answer: wire::Answer) -> std::io::Result<()> {
    let whole = ToWorker::Answer(number, answer);
    let frame = wire::to_frame(&whole).or_else(|error| {
        let (place, why) = (wire::PLACE.to_owned(), error.to_string());
        let failed = wire::Answer::Failed(crate::FleetError::Unusable { place, why });
        wire::to_frame(&ToWorker::Answer(number, failed))
    })?;
    let mut out = out.lock();
    out.write_all(&frame)?;
    out.flush()
}

/// Tells a worker what signals ask for, and that somebody is there.
fn tell(out: &Mutex<impl Write>, line: &Line<'_>, ended: &AtomicBool) {
    let (mut said, mut finishing) = (Instant::now(), None::<Instant>);
    let (mut draining, mut stopping) = (None::<Instant>, None::<Instant>);
    // A connection that breaks is noticed by whoever reads from it.
    let say = |message: &ToWorker| drop(wire::write(&mut *out.lock(), message));
    while !ended.load(Relaxed) {
        if line.signals.stop.load(Relaxed) && stopping.is_none() {
            stopping = Some(Instant::now());
            say(&ToWorker::Stop);
        }
        if line.signals.drain.load(Relaxed) && draining.is_none() {
            draining = Some(Instant::now());
            say(&ToWorker::Drain);
        }
        let is_late = |since: Option<Instant>, most| since.is_some_and(|since| since.elapsed() >= most);
        if line.over.load(Relaxed) {
            finishing.get_or_insert_with(Instant::now);
        }
        if is_late(stopping, STOPS) || is_late(draining, DRAINS) || is_late(finishing, FINISHES) {
            line.cut.store(true, Relaxed);
        }
        if said.elapsed() >= ALIVE {
            said = Instant::now();
            say(&ToWorker::Alive);
        }
        std::thread::sleep(TICK);
    }
}
