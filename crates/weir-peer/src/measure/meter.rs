//! An end that measures: it holds the lanes and answers questions, one at a time.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use weir_tree::Filter;

use super::burst::Arrivals;
use super::{source, target};
use crate::control::Control;
use crate::end::Events;
use crate::error::Error;
use crate::lane::{Lane, LaneSender};
use crate::roots::{self, Sources};
use crate::secure::Keyring;
use crate::sender::lanes::Lanes;
use crate::wire::measure::{Ask, Found, Measure};
use crate::wire::message::{Failure, FailureKind, Message, Options, Role, Root};

/// How long the end of a session waits for a measurement to tidy up: a write to a disk that takes 4 MB/s.
const TIDY: Duration = Duration::from_secs(2);

/// Threads that take turns on a lane, as a receiver of files has them.
const TURNS: usize = 2;

/// An end that measures.
#[derive(Debug)]
pub struct Meter {
    pub(super) role: Role,
    pub(super) keyring: Keyring,
    pub(super) lanes: Lanes,
    pub(super) arrivals: Arrivals,
    /// The sources; the target alone, for a receiver.
    paths: Vec<Vec<u8>>,
    /// What is left out of them.
    filter: Filter,
    control: Arc<Control>,
    events: Events,
    /// A question was asked of the other end, and is not answered yet.
    asked: AtomicBool,
    /// To the driver, where it is this end.
    found: Mutex<Option<Found>>,
    answered: Condvar,
    at_work: Mutex<bool>,
    rested: Condvar,
    pub(super) over: AtomicBool,
}

impl Meter {
    /// An end that measures these paths, without what the filter leaves out.
    pub fn new(
        control: Arc<Control>,
        events: Events,
        keyring: Keyring,
        role: Role,
        (paths, filter): (Vec<Vec<u8>>, Filter),
    ) -> Arc<Meter> {
        Arc::new(Meter {
            role,
            keyring,
            lanes: Lanes::default(),
            arrivals: Arrivals::default(),
            paths,
            filter,
            control,
            events,
            asked: AtomicBool::new(false),
            found: Mutex::default(),
            answered: Condvar::new(),
            at_work: Mutex::default(),
            rested: Condvar::new(),
            over: AtomicBool::new(false),
        })
    }

    /// What it does in a burst.
    pub fn role(&self) -> Role {
        self.role
    }

    /// A lane stands.
    pub fn add_lane(self: &Arc<Self>, lane: Lane) {
        if self.role == Role::Sender {
            let (lane, stream) = lane.into_sender();
            return self.lanes.add(lane, Some(stream));
        }
        let lane = Arc::new(lane.into_receiver());
        self.arrivals.watch(lane.stream());
        self.events.spawn_several("receive", TURNS as u32, || {
            let (meter, lane) = (Arc::clone(self), Arc::clone(&lane));
            move || {
                let mut sealed = Vec::new();
                while let Ok(Some(header)) = lane.read(&mut sealed) {
                    if lane.open(&header, &mut sealed).is_err() {
                        return lane.close();
                    }
                    meter.arrivals.add(sealed.len() as u64);
                }
            }
        });
    }

    /// The lane inside ssh stands.
    pub fn add_ssh_lane(&self, id: u32) {
        if self.role == Role::Sender {
            self.lanes.add(LaneSender::over_ssh(id, Arc::clone(&self.control), &self.keyring), None);
        }
    }

    /// A lane is not needed any more; the sender closes it.
    pub fn retire(&self, id: u32) {
        match self.role {
            Role::Sender => drop(self.lanes.remove(id)),
            Role::Receiver => self.control.send(&Message::Retire(id)),
        }
    }

    /// A record that came as a frame.
    pub fn handle_record(&self, frame: &[u8]) -> Result<(), Error> {
        if self.role == Role::Sender {
            return Err(self.events.out_of_turn("a record"));
        }
        self.arrivals.add(frame.len() as u64);
        Ok(())
    }

    /// What the other end says.
    pub fn handle(self: &Arc<Self>, message: Message) -> Result<(), Error> {
        match message {
            Message::Measure(Measure::Ask(ask)) => self.begin(ask),
            Message::Retire(id) if self.role == Role::Sender => {
                self.lanes.remove(id);
                Ok(())
            }
            Message::Measure(Measure::Found(found)) if self.asked.swap(false, Relaxed) => {
                self.hears(*found);
                Ok(())
            }
            _ => Err(self.events.out_of_turn("what belongs to a copy, while only measuring")),
        }
    }

    /// Begins to answer on a thread of its own; the control connection must go on being read.
    fn begin(self: &Arc<Self>, ask: Ask) -> Result<(), Error> {
        if std::mem::replace(&mut *self.at_work.lock().unwrap_or_else(PoisonError::into_inner), true) {
            return Err(self.events.out_of_turn("a question before the answer to the last"));
        }
        let meter = Arc::clone(self);
        self.events.spawn("measure", move || {
            let found = meter.answer(ask);
            meter.control.send(&Message::Measure(Measure::Found(Box::new(found))));
        });
        Ok(())
    }

    /// Measures what is asked for.
    pub fn answer(&self, ask: Ask) -> Found {
        *self.at_work.lock().unwrap_or_else(PoisonError::into_inner) = true;
        let found = self.measure(ask);
        *self.at_work.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.rested.notify_all();
        found
    }

    fn measure(&self, ask: Ask) -> Found {
        let not_mine = || Failure::new(FailureKind::Session, "this end does not do that in this session");
        let found = match (ask, self.role) {
            (Ask::Source(bounds), Role::Sender) => {
                source::look(&self.paths, &self.filter, bounds, &self.over).map(Found::Source)
            }
            (Ask::Target(bounds), Role::Receiver) => match &self.paths[..] {
                [path] => target::look(path, bounds, &self.over).map(Found::Target),
                _ => Err(not_mine()),
            },
            (Ask::Roots, Role::Sender) => {
                let sources = roots::look(&self.paths).and_then(Sources::complete);
                sources.map(|sources| Found::Roots(sources.roots.into_iter().flatten().collect()))
            }
            (Ask::Place(roots, same_machine), Role::Receiver) => match &self.paths[..] {
                [path] => self.place(path, &roots, same_machine),
                _ => Err(not_mine()),
            },
            (Ask::Send(bounds), Role::Sender) => Ok(Found::Sent(self.send(bounds))),
            (Ask::Received(bytes), Role::Receiver) => Ok(Found::Received(self.arrivals.wait(bytes))),
            _ => Err(not_mine()),
        };
        found.unwrap_or_else(Found::Refused)
    }

    /// As a copy decides where its sources go, and refuses to; nothing is made.
    fn place(&self, path: &[u8], roots: &[Root], same_machine: bool) -> Result<Found, Failure> {
        let options = Options { dry_run: true, ..Options::default() };
        let several = roots.len() > 1;
        roots::place(path, roots, several, same_machine, &options).map(|_| Found::Placed)
    }

    /// Asks the other end.
    pub(super) fn ask(&self, ask: Ask) {
        self.asked.store(true, Relaxed);
        self.control.send(&Message::Measure(Measure::Ask(ask)));
    }

    /// An answer for the driver, this end's own or the other's.
    pub(super) fn hears(&self, found: Found) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        self.answered.notify_all();
    }

    /// The answer to the last question, waited for this long.
    pub(super) fn heard(&self, patience: Duration) -> Option<Found> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.answered.wait_timeout_while(found, patience, |found| found.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }

    /// Ends all work, and waits until what it wrote is gone.
    pub fn stop(&self) {
        self.over.store(true, Relaxed);
        self.lanes.stop();
        self.arrivals.stop();
        let at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.rested.wait_timeout_while(at_work, TIDY, |at_work| *at_work);
    }

    /// The sockets of the lanes, at either end.
    pub(super) fn sockets(&self) -> Vec<Arc<TcpStream>> {
        match self.role {
            Role::Sender => self.lanes.sockets().into_iter().filter_map(|(_, stream)| stream).collect(),
            Role::Receiver => self.arrivals.streams(),
        }
    }
}
