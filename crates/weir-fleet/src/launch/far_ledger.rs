//! The ledger as a worker sees it that was started by ssh: each question goes over the connection to the one
//! who started it, who has the ledger.

use std::io::{BufReader, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::wire::{self, Answer, Farewell, Question, ToHub, ToWorker, WorkOrder};
use crate::error::FleetError;
use crate::ledger::{
    BatchLease, BatchResults, Claimed, Finished, FleetLedger, Helped, Helper, Patience, PlanEnds, Renewed,
    VerdictSpan, WorkerId, WorkerIdentity, is_to_end,
};
use crate::worker::WorkerSignals;

/// How often a wait for an answer looks for a signal.
const POLL: Duration = Duration::from_millis(50);

/// Between two signs of life. An end is gone after a minute of silence (weir-cp's `IDLE_TIMEOUT`).
pub(super) const ALIVE: Duration = Duration::from_secs(6);

/// How long what is under way may still go on once the connection is lost: as long as after SIGTERM. Its
/// lease ends soon after that, and others have the batch.
const ALONE: Duration = Duration::from_secs(20);

/// A connection's writing end, shared by all who have something to say.
type Outlet<W> = Arc<Mutex<W>>;

/// The worker's end of the connection.
pub struct HubLine<W> {
    out: Outlet<W>,
    answers: Receiver<(u64, Answer)>,
}

/// The ledger at the other end.
pub struct FarLedger<W> {
    line: HubLine<W>,
    patience: Patience,
    number: u64,
}

/// Reads the first message of the one who started this worker.
///
/// # Errors
/// In words.
pub fn order(input: &mut impl Read) -> Result<WorkOrder, String> {
    match wire::read(input) {
        Ok(Some(ToWorker::Begin(order))) => Ok(order),
        Ok(Some(_)) => Err("something was said before what is to be done".to_owned()),
        Ok(None) => Err("whoever started this worker is gone".to_owned()),
        Err(error) => Err(weir_units::plain(&error)),
    }
}

impl<W: Write + Send + 'static> HubLine<W> {
    /// Listens to the connection from here on: what it asks for is set in `signals`, and so is what follows
    /// from its end.
    pub fn open<R>(input: BufReader<R>, output: W, signals: &WorkerSignals) -> std::io::Result<HubLine<W>>
    where
        R: Read + Send + 'static,
    {
        let out = Arc::new(Mutex::new(output));
        let (answer, answers) = channel();
        let (drain, stop) = (Arc::clone(&signals.drain), Arc::clone(&signals.stop));
        let listener = std::thread::Builder::new().name("hub".to_owned());
        listener.spawn(move || listen(input, &answer, &drain, &stop))?;
        let alive = Arc::downgrade(&out);
        std::thread::Builder::new().name("alive".to_owned()).spawn(move || {
            // Until the line is let go, or breaks.
            while let Some(out) = alive.upgrade() {
                if wire::write(&mut *out.lock(), &ToHub::Alive).is_err() {
                    break;
                }
                drop(out);
                std::thread::sleep(ALIVE);
            }
        })?;
        Ok(HubLine { out, answers })
    }

    /// The ledger at its other end.
    pub fn ledger(self, patience: Patience) -> FarLedger<W> {
        FarLedger { line: self, patience, number: 0 }
    }

    /// The last words; whether they went out.
    pub fn farewell(&self, farewell: Farewell) -> bool {
        wire::write(&mut *self.out.lock(), &ToHub::Ended(farewell)).is_ok()
    }
}

fn listen<R: Read>(
    mut input: BufReader<R>,
    answers: &Sender<(u64, Answer)>,
    drain: &AtomicBool,
    stop: &AtomicBool,
) {
    let why = loop {
        match wire::read(&mut input) {
            // Nobody waits for it any more: it goes.
            Ok(Some(ToWorker::Answer(number, answer))) => drop(answers.send((number, answer))),
            Ok(Some(ToWorker::Drain)) => drain.store(true, Relaxed),
            Ok(Some(ToWorker::Stop)) => stop.store(true, Relaxed),
            Ok(Some(ToWorker::Alive)) => {}
            Ok(Some(ToWorker::Begin(_))) => break "it was told to begin twice".to_owned(),
            Ok(None) => break "it was closed".to_owned(),
            Err(error) => break weir_units::plain(&error),
        }
    };
    tracing::warn!(
        "the connection to weir fleet run is lost: {why}; what is under way ends, the rest is for others"
    );
    drain.store(true, Relaxed);
    std::thread::sleep(ALONE);
    stop.store(true, Relaxed);
}

impl<W: Write + Send + 'static> FarLedger<W> {
    /// The connection, for the last words.
    pub fn line(&self) -> &HubLine<W> {
        &self.line
    }

    fn away(&self, since: Instant, why: &str) -> FleetError {
        FleetError::Away { place: wire::PLACE.to_owned(), waited: since.elapsed(), why: why.to_owned() }
    }

    fn ask(&mut self, question: Question) -> Result<Answer, FleetError> {
        let (since, mut told) = (Instant::now(), None);
        self.number += 1;
        let asked = wire::write(&mut *self.line.out.lock(), &ToHub::Ask(self.number, question.clipped()));
        if let Err(error) = asked {
            return match error.kind() {
                std::io::ErrorKind::InvalidData => {
                    Err(FleetError::Unusable { place: wire::PLACE.to_owned(), why: error.to_string() })
                }
                _ => Err(self.away(since, &weir_units::plain(&error))),
            };
        }
        loop {
            match self.line.answers.recv_timeout(POLL) {
                Ok((number, Answer::Failed(error))) if number == self.number => return Err(error),
                Ok((number, answer)) if number == self.number => return Ok(answer),
                Ok((_, late)) => self.give_back(late),
                Err(RecvTimeoutError::Disconnected) => return Err(self.away(since, "the connection is lost")),
                Err(RecvTimeoutError::Timeout) if is_to_end(&self.patience.stop, &mut told) => {
                    return Err(FleetError::Interrupted { place: wire::PLACE.to_owned() });
                }
                Err(RecvTimeoutError::Timeout) if since.elapsed() >= self.patience.longest => {
                    return Err(self.away(since, "no answer came"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// The answer to a question that was given up: a batch that came with it is for others.
    fn give_back(&mut self, late: Answer) {
        let lease = match late {
            Answer::Claimed(Claimed::Batch(claim)) => claim.lease,
            Answer::Helped(Helped::Batch(claim)) => claim.lease,
            _ => return,
        };
        // Where that does not arrive either its lease ends.
        let _ = wire::write(&mut *self.line.out.lock(), &ToHub::Ask(0, Question::Release(lease)));
    }

    fn unexpected<T>(&self) -> Result<T, FleetError> {
        let why = "it answered something else than it was asked".to_owned();
        Err(FleetError::Damaged { place: wire::PLACE.to_owned(), what: why })
    }

    fn done(&mut self, question: Question) -> Result<(), FleetError> {
        match self.ask(question)? {
            Answer::Done => Ok(()),
            _ => self.unexpected(),
        }
    }
}

impl<W: Write + Send + 'static> FleetLedger for FarLedger<W> {
    fn ends(&mut self) -> Result<PlanEnds, FleetError> {
        match self.ask(Question::Ends)? {
            Answer::Ends(ends) => Ok(ends),
            _ => self.unexpected(),
        }
    }

    fn join(&mut self, who: &WorkerIdentity) -> Result<WorkerId, FleetError> {
        match self.ask(Question::Join(who.clone()))? {
            Answer::Joined(worker) => Ok(worker),
            _ => self.unexpected(),
        }
    }

    fn leave(&mut self, worker: WorkerId) -> Result<(), FleetError> {
        self.done(Question::Leave(worker))
    }

    fn claim(&mut self, worker: WorkerId, length: Duration) -> Result<Claimed, FleetError> {
        match self.ask(Question::Claim(worker, length))? {
            Answer::Claimed(claimed) => Ok(claimed),
            _ => self.unexpected(),
        }
    }

    fn renew(
        &mut self,
        lease: BatchLease,
        length: Duration,
        reached: u64,
        bytes: u64,
    ) -> Result<Renewed, FleetError> {
        match self.ask(Question::Renew(lease, length, reached, bytes))? {
            Answer::Renewed(renewed) => Ok(renewed),
            _ => self.unexpected(),
        }
    }

    fn finish(&mut self, lease: BatchLease, results: &BatchResults) -> Result<Finished, FleetError> {
        match self.ask(Question::Finish(lease, results.clone()))? {
            Answer::Finished(finished) => Ok(finished),
            _ => self.unexpected(),
        }
    }

    fn release(&mut self, lease: BatchLease) -> Result<bool, FleetError> {
        match self.ask(Question::Release(lease))? {
            Answer::Released(released) => Ok(released),
            _ => self.unexpected(),
        }
    }

    fn fail(&mut self, lease: BatchLease) -> Result<bool, FleetError> {
        match self.ask(Question::Fail(lease))? {
            Answer::Released(released) => Ok(released),
            _ => self.unexpected(),
        }
    }

    fn help(&mut self, worker: WorkerId, length: Duration, helper: &Helper) -> Result<Helped, FleetError> {
        match self.ask(Question::Help(worker, length, helper.clone()))? {
            Answer::Helped(helped) => Ok(helped),
            _ => self.unexpected(),
        }
    }

    fn share_token(&mut self, large: i64, token: &str) -> Result<String, FleetError> {
        match self.ask(Question::ShareToken(large, token.to_owned()))? {
            Answer::Token(token) => Ok(token),
            _ => self.unexpected(),
        }
    }

    fn tell(&mut self, worker: WorkerId, spans: &[VerdictSpan]) -> Result<(), FleetError> {
        self.done(Question::Tell(worker, spans.to_vec()))
    }
}

/// What a ledger says to a question. A worker that names another one than it joined as is refused.
pub(super) fn answer(
    ledger: &mut dyn FleetLedger,
    question: Question,
    joined: &mut Option<WorkerId>,
) -> Answer {
    let own = |worker: WorkerId| match *joined {
        Some(joined) if joined == worker => Ok(worker),
        _ => Err(FleetError::Unusable {
            place: wire::PLACE.to_owned(),
            why: "a worker asked in another one's name".to_owned(),
        }),
    };
    let answered = match question {
        Question::Ends => ledger.ends().map(Answer::Ends),
        Question::Join(who) => ledger.join(&who).map(|worker| {
            *joined = Some(worker);
            Answer::Joined(worker)
        }),
        Question::Leave(worker) => own(worker).and_then(|worker| ledger.leave(worker)).map(|()| Answer::Done),
        Question::Claim(worker, length) => {
            own(worker).and_then(|worker| ledger.claim(worker, length)).map(Answer::Claimed)
        }
        Question::Renew(lease, length, reached, bytes) => {
            ledger.renew(lease, length, reached, bytes).map(Answer::Renewed)
        }
        Question::Finish(lease, results) => ledger.finish(lease, &results).map(Answer::Finished),
        Question::Release(lease) => ledger.release(lease).map(Answer::Released),
        Question::Fail(lease) => ledger.fail(lease).map(Answer::Released),
        Question::Help(worker, length, helper) => {
            own(worker).and_then(|worker| ledger.help(worker, length, &helper)).map(Answer::Helped)
        }
        Question::ShareToken(large, token) => ledger.share_token(large, &token).map(Answer::Token),
        Question::Tell(worker, spans) => {
            own(worker).and_then(|worker| ledger.tell(worker, &spans)).map(|()| Answer::Done)
        }
    };
    answered.unwrap_or_else(Answer::Failed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::ledger::{BatchClaim, BatchWork, FleetSettings, WaitReason};

    const LENGTH: Duration = Duration::from_secs(30);
    const WORKER: WorkerId = WorkerId(1);

    /// A worker's ledger, and the other end of its connection.
    fn connected(longest: Duration) -> (FarLedger<UnixStream>, UnixStream, WorkerSignals) {
        let (worker, hub) = UnixStream::pair().unwrap();
        let signals = WorkerSignals::default();
        let input = BufReader::new(worker.try_clone().unwrap());
        let line = HubLine::open(input, worker, &signals).unwrap();
        (line.ledger(Patience { longest, stop: Arc::default() }), hub, signals)
    }

    /// The next question.
    fn asked(hub: &mut UnixStream) -> (u64, Question) {
        loop {
            match wire::read(hub).unwrap() {
                Some(ToHub::Ask(number, question)) => return (number, question),
                Some(ToHub::Alive) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_batch_that_came_too_late_is_given_back() {
        let (mut ledger, mut hub, _signals) = connected(Duration::from_millis(20));
        assert!(matches!(ledger.claim(WORKER, LENGTH), Err(FleetError::Away { .. })));
        let (first, _) = asked(&mut hub);
        let lease = BatchLease { batch: 7, fence: 3 };
        let claim = BatchClaim {
            lease,
            work: BatchWork::Objects(Vec::new()),
            given_before: 0,
            is_final: false,
            is_last: false,
            length: LENGTH,
            settings: FleetSettings::default(),
        };
        let late = Answer::Claimed(Claimed::Batch(Box::new(claim)));
        wire::write(&mut hub, &ToWorker::Answer(first, late)).unwrap();
        ledger.patience.longest = LENGTH;
        let asks = std::thread::spawn(move || ledger.claim(WORKER, LENGTH));
        let (second, _) = asked(&mut hub);
        assert_eq!(asked(&mut hub), (0, Question::Release(lease)));
        let wait = Claimed::Wait(WaitReason::Held, LENGTH);
        wire::write(&mut hub, &ToWorker::Answer(second, Answer::Claimed(wait.clone()))).unwrap();
        assert_eq!(asks.join().unwrap().unwrap(), wait);
    }

    #[test]
    fn an_answer_may_come_a_moment_after_a_signal() {
        let (mut ledger, _hub, _signals) = connected(LENGTH);
        ledger.patience.stop.store(true, Relaxed);
        let asked = Instant::now();
        let released = ledger.release(BatchLease { batch: 7, fence: 3 });
        assert!(matches!(released, Err(FleetError::Interrupted { .. })), "{released:?}");
        assert!(asked.elapsed() > 10 * POLL, "{:?}", asked.elapsed());
    }

    #[test]
    fn a_worker_that_nobody_speaks_to_any_more_begins_nothing() {
        let (mut ledger, hub, signals) = connected(LENGTH);
        drop(hub);
        let since = Instant::now();
        while !signals.drain.load(Relaxed) {
            assert!(since.elapsed() < LENGTH, "it does not notice");
            std::thread::yield_now();
        }
        assert!(matches!(ledger.claim(WORKER, LENGTH), Err(FleetError::Away { .. })));
    }

    #[test]
    fn what_is_asked_for_is_heard_while_nothing_is_asked() {
        let (ledger, mut hub, signals) = connected(LENGTH);
        wire::write(&mut hub, &ToWorker::Drain).unwrap();
        wire::write(&mut hub, &ToWorker::Stop).unwrap();
        let since = Instant::now();
        while !(signals.drain.load(Relaxed) && signals.stop.load(Relaxed)) {
            assert!(since.elapsed() < LENGTH, "it does not hear");
            std::thread::yield_now();
        }
        drop(ledger);
    }
}
