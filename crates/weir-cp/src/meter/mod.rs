//! An end that measures: it holds the lanes and answers questions, one at a time. What it measures: its
//! [`source`], of which a [`listing`] says what a copy would move, its [`target`], and the [`burst`]
//! between the two, which it sends or receives.

mod burst;
mod listing;
mod source;
mod target;

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::Sender as Outbox;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use weir_tree::Name;
use weir_tree::source::Identity;
use weir_tree::walk::Root as WalkRoot;

use crate::control::{Control, Outlet};
use crate::error::CopyError;
use crate::events::Events;
use crate::lane::{Lane, LaneSender};
use crate::list::Names;
use crate::receiver::{Receiver, Wanted};
use crate::roots::{self, Sources};
use crate::secure::Keyring;
use crate::sender::lanes::Lanes;
use crate::wire::driver::{FromDriver, ToDriver};
use crate::wire::measure::{Ask, Bounds, Found};
use crate::wire::message::{Failure, FailureKind, Options, Role, Root};
use burst::Arrivals;
use listing::Listing;

/// How long the end of a session waits for a measurement to tidy up: a write to a disk that takes 4 MB/s.
const TIDY: Duration = Duration::from_secs(2);

/// Threads that take turns on a lane, as a receiver of files has them.
const TURNS: usize = 2;

/// An end that measures.
#[derive(Debug)]
pub struct Meter {
    role: Role,
    keyring: Keyring,
    lanes: Lanes,
    arrivals: Arrivals,
    /// The sources; the target alone, for a receiver.
    paths: Vec<Vec<u8>>,
    /// How they are to be copied.
    options: Options,
    /// The sources that are there, by what they are called at the target once that is known.
    roots: Mutex<Vec<WalkRoot>>,
    /// The target, where it is in a source.
    avoid: OnceLock<Identity>,
    /// What is to be copied of the only one, where a list says that.
    names: Mutex<Option<Names>>,
    /// Where the driver's pieces of the list go.
    pieces: Mutex<Option<Outbox<Vec<Name>>>>,
    listing: Mutex<Option<Listing>>,
    /// Says what a copy would take; for a receiver.
    taker: OnceLock<Arc<Receiver>>,
    control: Arc<Control>,
    events: Events,
    /// A question was asked of the other end, and is not answered yet.
    asked: AtomicBool,
    /// To the driver, where it is this end.
    found: Mutex<Option<Found>>,
    answered: Condvar,
    at_work: Mutex<bool>,
    rested: Condvar,
    over: AtomicBool,
}

impl Meter {
    /// An end that measures these paths for such a copy.
    pub fn new(
        control: Arc<Control>,
        events: Events,
        keyring: Keyring,
        role: Role,
        (paths, options): (Vec<Vec<u8>>, Options),
    ) -> Arc<Meter> {
        Arc::new(Meter {
            role,
            keyring,
            lanes: Lanes::default(),
            arrivals: Arrivals::default(),
            paths,
            options,
            roots: Mutex::default(),
            avoid: OnceLock::new(),
            names: Mutex::default(),
            pieces: Mutex::default(),
            listing: Mutex::default(),
            taker: OnceLock::new(),
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

    /// The names of the list are these; where they come from the driver its pieces go to `pieces`.
    pub(crate) fn take_names(&self, names: Names, pieces: Option<Outbox<Vec<Name>>>) {
        *self.names.lock() = Some(names);
        *self.pieces.lock() = pieces;
    }

    /// The next names of the list.
    pub(crate) fn take_piece(&self, names: Vec<Name>) {
        // One that does not list any more wants none.
        let pieces = self.pieces.lock();
        let _ = pieces.as_ref().map(|pieces| pieces.send(names));
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
    pub(crate) fn add_ssh_lane(&self, id: u32) {
        if self.role == Role::Sender {
            self.lanes.add(LaneSender::over_ssh(id, Arc::clone(&self.control), &self.keyring), None);
        }
    }

    /// A lane is not needed any more; the sender closes it.
    pub fn retire(&self, id: u32) {
        match self.role {
            Role::Sender => drop(self.lanes.remove(id)),
            Role::Receiver => Outlet::new(&self.control).send(&FromDriver::Retire(id)),
        }
    }

    /// A record that came as a frame.
    pub(crate) fn handle_record(&self, frame: &[u8]) -> Result<(), CopyError> {
        if self.role == Role::Sender {
            return Err(self.events.out_of_turn("a record"));
        }
        self.arrivals.add(frame.len() as u64);
        Ok(())
    }

    /// The other end's answer.
    pub(crate) fn told(&self, found: Found) -> Result<(), CopyError> {
        if !self.asked.swap(false, Relaxed) {
            return Err(self.events.out_of_turn("an answer to no question"));
        }
        self.hears(found);
        Ok(())
    }

    /// Begins to answer on a thread of its own; the control connection must go on being read.
    pub(crate) fn begin(self: &Arc<Self>, ask: Ask) -> Result<(), CopyError> {
        if std::mem::replace(&mut *self.at_work.lock(), true) {
            return Err(self.events.out_of_turn("a question before the answer to the last"));
        }
        let meter = Arc::clone(self);
        self.events.spawn("measure", move || {
            let found = meter.answer(ask);
            Outlet::new(&meter.control).send(&ToDriver::Found(Box::new(found)));
        });
        Ok(())
    }

    /// Measures what is asked for.
    pub fn answer(&self, ask: Ask) -> Found {
        *self.at_work.lock() = true;
        let found = self.measure(ask);
        *self.at_work.lock() = false;
        self.rested.notify_all();
        found
    }

    fn measure(&self, ask: Ask) -> Found {
        let not_mine = || Failure::new(FailureKind::Session, "this end does not do that in this session");
        let found = match (ask, self.role) {
            (Ask::Source(bounds), Role::Sender) => {
                self.with_listing(bounds, |listing| source::look(listing, bounds)).map(Found::Source)
            }
            (Ask::Offers(bounds), Role::Sender) => {
                Ok(self.with_listing(bounds, |listing| Found::Offers(listing.offers())))
            }
            (Ask::Take(wants), Role::Sender) => {
                let mut listing = self.listing.lock();
                let fits = listing.as_mut().is_some_and(|listing| listing.take_answer(&wants));
                fits.then_some(Found::Known).ok_or_else(not_mine)
            }
            (Ask::Called(names, avoid), Role::Sender) => {
                self.call(names, avoid).then_some(Found::Known).ok_or_else(not_mine)
            }
            (Ask::Wanted(entries), Role::Receiver) => match self.taker.get() {
                Some(taker) => {
                    Ok(Found::Wanted(entries.into_iter().map(|entry| taker.would_take(entry)).collect()))
                }
                None => Err(not_mine()),
            },
            (Ask::Target(bounds), Role::Receiver) => match &self.paths[..] {
                [path] => target::look(path, bounds, &self.over).map(Found::Target),
                _ => Err(not_mine()),
            },
            (Ask::Roots, Role::Sender) => self.look_at_roots().map(Found::Roots),
            (Ask::Place(roots, same_machine), Role::Receiver) => match &self.paths[..] {
                [path] => self.place(path, roots, same_machine),
                _ => Err(not_mine()),
            },
            (Ask::Send(bounds), Role::Sender) => Ok(Found::Sent(self.send(bounds))),
            (Ask::Received(bytes), Role::Receiver) => Ok(Found::Received(self.arrivals.wait(bytes))),
            _ => Err(not_mine()),
        };
        found.unwrap_or_else(Found::Refused)
    }

    /// The sources, as for a copy: those that are missing cost only themselves.
    fn look_at_roots(&self) -> Result<Vec<Option<Root>>, Failure> {
        let Sources { walks, roots, missing } = roots::look(&self.paths, &self.options)?;
        missing.into_iter().for_each(|problem| self.events.problem(problem));
        *self.roots.lock() = walks;
        Ok(roots)
    }

    /// What the sources are called at the target, and what of them is the target; false where that is not of
    /// these.
    fn call(&self, names: Vec<Name>, avoid: Option<Identity>) -> bool {
        let mut roots = self.roots.lock();
        let fits = names.len() == roots.len();
        roots.iter_mut().zip(names).for_each(|(root, name)| root.name = name);
        fits && avoid.is_none_or(|folder| self.avoid.set(folder).is_ok())
    }

    /// What is to be copied, found once.
    fn with_listing<T>(&self, bounds: Bounds, of: impl FnOnce(&mut Listing) -> T) -> T {
        let mut listing = self.listing.lock();
        let found = listing.get_or_insert_with(|| {
            let roots = self.roots.lock().clone();
            let names = self.names.lock().take();
            let time = bounds.most_time().mul_f64(source::LISTING);
            let tell = |problem| self.events.problem(problem);
            let avoid = self.avoid.get().copied();
            listing::list((roots, names, avoid), &self.options, tell, (time, &self.over))
        });
        of(found)
    }

    /// As a copy decides where its sources go, and refuses to; nothing is made.
    fn place(&self, path: &[u8], roots: Vec<Option<Root>>, same_machine: bool) -> Result<Found, Failure> {
        let options = Options { dry_run: true, ..self.options.clone() };
        let wanted = Wanted { to: path.to_vec(), names: None, same_machine };
        let taker = Receiver::new(Outlet::new(&self.control), self.events.clone(), options, wanted);
        let (names, inside) = taker.would_place(roots).map_err(|error| error.to_failure())?;
        // Another question of the kind changes nothing.
        let _ = self.taker.set(taker);
        Ok(Found::Placed(names, inside))
    }

    /// Asks the other end.
    pub(crate) fn ask(&self, ask: Ask) {
        self.asked.store(true, Relaxed);
        Outlet::new(&self.control).send(&FromDriver::Ask(ask));
    }

    /// An answer for the driver, this end's own or the other's.
    pub(crate) fn hears(&self, found: Found) {
        *self.found.lock() = Some(found);
        self.answered.notify_all();
    }

    /// The answer to the last question, waited for this long.
    pub(crate) fn heard(&self, timeout: Duration) -> Option<Found> {
        let mut found = self.found.lock();
        self.answered.wait_while_for(&mut found, |found| found.is_none(), timeout);
        found.take()
    }

    /// Ends all work, and waits until what it wrote is gone.
    pub fn stop(&self) {
        self.over.store(true, Relaxed);
        self.pieces.lock().take();
        self.lanes.stop();
        self.arrivals.stop();
        self.rested.wait_while_for(&mut self.at_work.lock(), |at_work| *at_work, TIDY);
    }

    /// The sockets of the lanes, at either end.
    pub(crate) fn sockets(&self) -> Vec<Arc<TcpStream>> {
        match self.role {
            Role::Sender => self.lanes.sockets().into_iter().filter_map(|(_, stream)| stream).collect(),
            Role::Receiver => self.arrivals.streams(),
        }
    }
}
