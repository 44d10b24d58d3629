//! One thread's loop over HTTP/2: its share of the connections, each with several requests under way at a
//! time.
//!
//! The protocol is the `h2` crate's, on a runtime of the thread's own. A request costs more than over
//! HTTP/1.1 (docs/bench-http.md says how to measure it): frames, flow control and header tables are work, and
//! here simplicity comes before speed. Plan, meter, tally and everything that is made of them are those of
//! the HTTP/1.1 loop.
//!
//! * [`question`]: what is asked, in HTTP/2's terms.
//! * [`session`]: one connection, made again when it has ended.
//! * [`exchange`]: one request and its answer.
//! * [`pacer`]: when each request of an open loop goes out.

mod exchange;
mod pacer;
pub(crate) mod question;
mod session;

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};
use weir_model::load::PlaceTime;

use crate::error::LoadError;
use crate::event_loop::{LoopReport, PathSeen, Shared};
use crate::meter::{Left, Meter};
use crate::target::Address;
use pacer::Pacer;
use question::Question;
use session::Session;

/// Sockets whose round trip is asked for at the end; each costs a second descriptor.
const PATHS: usize = 4;

/// The requests that are under way.
#[derive(Debug, Default)]
struct Asking {
    count: Cell<usize>,
    /// When each was sent, added up.
    sent: Cell<u64>,
}

impl Asking {
    fn begin(&self, sent: u64) {
        self.count.set(self.count.get() + 1);
        self.sent.set(self.sent.get().wrapping_add(sent));
    }

    fn end(&self, sent: u64) {
        self.count.set(self.count.get() - 1);
        self.sent.set(self.sent.get().wrapping_sub(sent));
    }

    /// Since when one of them has been under way on average; none where nothing is.
    fn since(&self) -> Option<u64> {
        self.sent.get().checked_div(self.count.get() as u64)
    }
}

/// What all tasks of a loop share. They run on one thread: no borrow outlasts an `await`.
struct Hub {
    shared: Arc<Shared>,
    /// Which loop it is.
    index: usize,
    address: Address,
    question: Question,
    meter: RefCell<Meter>,
    pacer: Option<Pacer>,
    /// Streams that may still ask.
    active: Cell<usize>,
    asking: Asking,
    /// When the request of each stream should have been asked that has no answer yet; only with a plan.
    planned: RefCell<Vec<Option<u64>>>,
    /// Something happened that may end the run.
    changed: Notify,
    failed: RefCell<Option<LoadError>>,
}

/// Runs until the time is over, the requests are all made, or someone says stop.
pub(crate) fn run(
    shared: &Arc<Shared>,
    index: usize,
    connections: usize,
    address: Address,
    question: Question,
) -> LoopReport {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(cause) => return LoopReport::failed(LoadError::system("make a runtime", cause)),
    };
    // What AsyncFd needs to know when it is made.
    let _entered = runtime.enter();
    let begun = shared.now();
    let pacer = match shared.schedule(index, begun, 1).map(Pacer::new).transpose() {
        Ok(pacer) => pacer,
        Err(cause) => return LoopReport::failed(LoadError::system("make a timer", cause)),
    };
    let streams = question.streams as usize;
    let hub = Rc::new(Hub {
        meter: RefCell::new(shared.meter()),
        shared: Arc::clone(shared),
        index,
        address,
        question,
        planned: RefCell::new(if pacer.is_some() { vec![None; connections * streams] } else { Vec::new() }),
        pacer,
        active: Cell::new(connections * streams),
        asking: Asking::default(),
        changed: Notify::new(),
        failed: RefCell::new(None),
    });
    let sessions: Vec<Rc<Session>> =
        (0..connections).map(|number| Rc::new(Session::new(number < PATHS))).collect();
    let tasks = LocalSet::new();
    let paths = tasks.block_on(&runtime, async {
        for (number, session) in sessions.iter().enumerate() {
            for stream in 0..streams {
                let place = number * streams + stream;
                spawn_local(ask_on(Rc::clone(&hub), Rc::clone(session), (number, place)));
            }
        }
        if hub.pacer.is_some() {
            let hub = Rc::clone(&hub);
            spawn_local(async move {
                if let Some(pacer) = &hub.pacer {
                    pacer.run(&hub.shared).await;
                }
            });
        }
        hub.watch(begun).await;
        sessions.iter().filter_map(|session| session.path()).collect()
    });
    // With the tasks go their connections, all but the first ones, of whose sockets there are copies.
    drop(tasks);
    hub.report(paths, sessions.iter().filter_map(|session| session.take_socket()).collect())
}

/// One request after another, from the connection's turn of the ramp on. `place`: the stream's among all.
async fn ask_on(hub: Rc<Hub>, session: Rc<Session>, (number, place): (usize, usize)) {
    let turn = hub.shared.turn(hub.index, number);
    if turn > 0 {
        tokio::time::sleep(Duration::from_nanos(turn)).await;
    }
    while !hub.is_over() && hub.shared.grant(1) {
        let free = hub.now();
        let planned = match &hub.pacer {
            Some(pacer) => Some(pacer.next(&hub.shared).await),
            None => None,
        };
        hub.spend(|time| &mut time.idle, free);
        hub.owes(place, planned);
        exchange::ask(&hub, &session, planned).await;
        hub.owes(place, None);
    }
    hub.active.set(hub.active.get() - 1);
    hub.changed.notify_one();
}

impl Hub {
    fn now(&self) -> u64 {
        self.shared.now()
    }

    /// A stream spent the time since then on this.
    fn spend(&self, on: fn(&mut PlaceTime) -> &mut Duration, since: u64) {
        self.meter.borrow_mut().spend(on, since, self.now());
    }

    /// The stream at `place` owes the answer to a request that was planned for then, or to none.
    fn owes(&self, place: usize, planned: Option<u64>) {
        if let Some(owed) = self.planned.borrow_mut().get_mut(place) {
            *owed = planned;
        }
    }

    fn timeout(&self) -> Duration {
        self.shared.settings.timeout
    }

    /// What comes of `work` before the time-out by the run's clock: the runtime's goes on while this process
    /// stands still.
    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let timeout = u64::try_from(self.timeout().as_nanos()).unwrap_or(u64::MAX);
        let end = self.now().saturating_add(timeout);
        let mut work = pin!(work);
        loop {
            let left = Duration::from_nanos(end.saturating_sub(self.now()));
            match tokio::time::timeout(left, work.as_mut()).await {
                Ok(done) => return Some(done),
                Err(_) if self.now() >= end => return None,
                Err(_) => {}
            }
        }
    }

    fn is_over(&self) -> bool {
        self.now() >= self.meter.borrow().to
            || self.active.get() == 0
            || self.failed.borrow().is_some()
            || self.shared.stop.load(Relaxed)
    }

    /// Ends the run: nothing could be asked.
    fn give_up(&self, error: LoadError) {
        self.failed.borrow_mut().get_or_insert(error);
        self.changed.notify_one();
    }

    /// Looks around ten times a second until it is over. `begun`: when the plan did.
    async fn watch(&self, begun: u64) {
        if self.shared.from == 0 {
            self.meter.borrow_mut().begin(begun);
        }
        while !self.is_over() {
            let now = self.now();
            let until = {
                let mut meter = self.meter.borrow_mut();
                if now >= meter.next_tick() {
                    meter.tick(now);
                    meter.sample(now);
                    self.shared.tell(self.index, &meter.tally);
                    meter.listen(now, self.asking.count.get());
                }
                meter.next_tick().min(meter.to).saturating_sub(now)
            };
            let _ = tokio::time::timeout(Duration::from_nanos(until), self.changed.notified()).await;
        }
    }

    /// Hands over what was measured; the tasks that are left count into nothing.
    fn report(&self, paths: Vec<PathSeen>, open: Vec<OwnedFd>) -> LoopReport {
        let now = self.now();
        let mut meter = self.meter.replace(self.shared.meter());
        if let Some(since) = self.asking.since() {
            for _ in 0..self.asking.count.get() {
                meter.spend(|time| &mut time.unfinished, since, now);
            }
        }
        let end = now.min(meter.to);
        let pacer = self.pacer.as_ref().filter(|_| !self.shared.all_granted());
        let unsent = pacer.map_or(0, |pacer| pacer.behind(end));
        let planned = self.planned.borrow();
        let asked = planned.iter().flatten().map(|planned| (*planned, 1));
        match pacer {
            Some(pacer) => meter.unanswered(end, asked.chain(pacer.owed(end, unsent))),
            None => meter.unanswered(end, asked),
        }
        let left = Left { under_way: self.asking.count.get() as u64, unsent };
        let failed = self.failed.take();
        LoopReport { measured: meter.end(now, left), paths, script: None, failed, open }
    }
}
