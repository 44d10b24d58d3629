//! The receiver's end: threads that each take a record from a lane, open, decompress, verify and write it.
//!
//! Two threads take turns on a lane: while one opens and writes its record the other reads the next.

mod acks;
mod answer;
mod barred;
mod batches;
mod begin;
mod disk_failure;
mod incoming;
mod itemize;
pub mod journal;
mod offer_queue;
mod passing;
mod recheck;
mod store;
mod waits;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver as Mailbox, SyncSender, sync_channel};
use std::sync::{Arc, Once, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use weir_observe::stage_clock::{Stage, StageClock};
use weir_observe::thread::{current_tid, thread_cpu_now};
use weir_observe::watch::SAMPLE_INTERVAL;
use weir_tree::destination::{AttributeLoss, KeepSet, LostAttribute};
use weir_tree::source::Identity;
use weir_tree::{Entry, Name, Target};

use crate::control::Outlet;
use crate::counts::Counts;
use crate::error::{CopyError, LaneError};
use crate::events::{Event, Events};
use crate::failed_names::FailedNames;
use crate::feed::{self, Feed, FeedOutcome};
use crate::handed_in::HandedIn;
use crate::lane::{Lane, LaneReceiver};
use crate::roots;
use crate::subtrees::Digest;
use crate::threads;
use crate::watch::{Watch, Worker};
use crate::wire::message::{Failure, FailureKind, Found, Options, Problem, Role, Root, Totals};
use crate::wire::owners::Given;
use crate::wire::record::{HEADER, Header, Malformed};
use crate::wire::to_receiver::ToReceiver;
use crate::wire::to_sender::ToSender;
use acks::Acks;
use barred::Barred;
use batches::Batches;
use disk_failure::DiskFailure;
use incoming::{Incoming, Progress};
use offer_queue::OfferQueue;
use passing::Passing;
use recheck::Unread;
use waits::Waits;

/// Threads that take turns on a lane.
const TURNS: usize = 2;

/// Lanes at a time, each with the buffers of its threads: twice what `--lanes` and the tuner go to, since
/// those that broke may not be known here yet when others take their places.
const MOST_LANES: usize = 32;

/// Between two syncs of the files under way: what a power cut may cost.
const SYNC: Duration = Duration::from_secs(10);

/// Acknowledgements are told no more often. Each wakes this end, two ssh programs on either side and the
/// sender, some 200 us of processors altogether: at 50 a second one hundredth of one. Nothing waits for them
/// but the end of the copy and what has to come after all before it: blocks that are sent again are read
/// again.
const TELL: Duration = Duration::from_millis(20);

/// The receiver's end of a session.
#[derive(Debug)]
pub struct Receiver {
    sender: Outlet<ToSender>,
    events: Events,
    options: Options,
    wanted: Wanted,
    /// Whom entries are given to, where owners are kept by name.
    given: OnceLock<Given>,
    place: OnceLock<CopyDestination>,
    files: Mutex<HashMap<u64, Arc<Incoming>>>,
    lanes: Mutex<HashMap<u32, Arc<LaneReceiver>>>,
    ssh: Mutex<Option<SyncSender<Vec<u8>>>>,
    acks: Acks,
    offers: OfferQueue,
    recheck: HandedIn<Unread>,
    counts: Counts,
    batches: Batches,
    failed_names: FailedNames,
    disk: DiskFailure,
    /// That nothing is removed any more has been said.
    said_kept: AtomicBool,
    /// Names that are left as they are at the target.
    left: FailedNames,
    barred: Barred,
    /// Entries that stay since no more may be removed.
    at_limit: AtomicU64,
    /// Files that were newer than what took their place.
    newer: AtomicU64,
    /// What the sender's walk has found, as it told it last.
    found: Mutex<Found>,
    workers: Mutex<Vec<Arc<Worker>>>,
    /// Folders of whose content only a part has been told; none of it where that was more than is remembered.
    keeps: Mutex<HashMap<Name, Option<KeepSet>>>,
    /// Held by who removes what is in the way of an entry.
    clearing: Mutex<()>,
    /// Where what comes is told for those who pass it on.
    passing: Passing,
    over: AtomicBool,
}

/// What this end is to receive, before the sources are known.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The target as it was written.
    pub to: Vec<u8>,
    /// What the sources are called, where this end knows: the other end's word on it does not count then.
    pub names: Option<Vec<Name>>,
    /// Both ends share their files.
    pub same_machine: bool,
}

/// Where it all goes.
#[derive(Debug)]
struct CopyDestination {
    target: Arc<Target>,
    /// What the sources are called there: nothing else may come.
    roots: Vec<Name>,
    /// The folder that this copy makes under a new name, or goes on with.
    begun: Option<Name>,
    made: Once,
    /// Earlier copies, whose files may be linked to.
    before: Vec<Target>,
    /// A folder of backups in the target, which is not deleted.
    spared: Option<Name>,
    /// It goes on with it: what else is in it by now may be anybody's.
    goes_on: bool,
    /// The target, where it is in a source: the walk is not to go into it.
    inside: Option<Identity>,
}

impl Receiver {
    /// An end that is to receive `wanted`.
    pub fn new(sender: Outlet<ToSender>, events: Events, options: Options, wanted: Wanted) -> Arc<Receiver> {
        Arc::new(Receiver {
            sender,
            events,
            options,
            wanted,
            given: OnceLock::new(),
            place: OnceLock::new(),
            files: Mutex::default(),
            lanes: Mutex::default(),
            ssh: Mutex::default(),
            acks: Acks::default(),
            offers: OfferQueue::default(),
            recheck: HandedIn::default(),
            counts: Counts::default(),
            batches: Batches::default(),
            failed_names: FailedNames::default(),
            disk: DiskFailure::default(),
            said_kept: AtomicBool::new(false),
            left: FailedNames::default(),
            barred: Barred::default(),
            at_limit: AtomicU64::new(0),
            newer: AtomicU64::new(0),
            found: Mutex::default(),
            workers: Mutex::default(),
            keeps: Mutex::default(),
            clearing: Mutex::default(),
            passing: Passing::default(),
            over: AtomicBool::new(false),
        })
    }

    /// What comes is told there, for those who pass it on: before anything comes.
    pub(crate) fn pass_on(&self, feed: &Arc<Feed>) {
        self.passing.begin(feed);
    }

    /// Finds the sources' place and begins to receive them.
    fn start(self: &Arc<Self>, roots: Vec<Option<Root>>) -> Result<(), CopyError> {
        let (place, names) = self.find_place(roots)?;
        if let Some(feed) = self.passing.feed() {
            feed.begin(&place.target, names.clone());
        }
        let inside = place.inside;
        if self.place.set(place).is_err() {
            return Err(self.events.out_of_turn("its sources twice"));
        }
        self.begin_to_answer();
        inside.iter().for_each(|folder| self.sender.send(&ToSender::Avoid(*folder)));
        self.sender.send(&ToSender::Placed(names));
        let teller = Arc::clone(self);
        self.events.spawn("tell", move || {
            while let Some(news) = teller.acks.wait() {
                for (lane, through) in news {
                    teller.sender.send(&ToSender::Ack(lane, through));
                }
                std::thread::sleep(TELL);
            }
        });
        let watcher = Arc::clone(self);
        self.events.spawn("watch", move || watcher.observe());
        let syncer = Arc::downgrade(self);
        self.events.spawn("sync", move || {
            loop {
                std::thread::sleep(SYNC);
                let Some(end) = syncer.upgrade() else { return };
                let files: Vec<_> = end.files().values().cloned().collect();
                files.iter().for_each(|file| file.sync());
            }
        });
        Ok(())
    }

    /// A lane stands.
    pub fn add_lane(self: &Arc<Self>, lane: Lane) {
        let lane = Arc::new(lane.into_receiver());
        {
            let mut lanes = self.lanes();
            if lanes.len() >= MOST_LANES {
                tracing::debug!("lane {}: there are {MOST_LANES}", lane.id);
                return lane.close();
            }
            lanes.insert(lane.id, Arc::clone(&lane));
        }
        for turn in 0..TURNS {
            let (end, taken) = (Arc::clone(self), Arc::clone(&lane));
            let started = threads::start("receive", move || match end.receive(&taken) {
                Ok(()) => drop(end.lanes().remove(&taken.id)),
                Err(error) => end.lane_lost(taken.id, &error.to_string()),
            });
            // One thread alone takes a lane too; without any the lane is none.
            if let (Err(why), 0) = (started, turn) {
                return self.lane_lost(lane.id, &threads::words(&why));
            }
        }
    }

    /// The lane inside ssh stands.
    pub(crate) fn add_ssh_lane(self: &Arc<Self>, id: u32) {
        let (sender, mailbox) = sync_channel(TURNS);
        *self.ssh.lock() = Some(sender);
        // With the number that the next record has to have.
        let mailbox = Arc::new(Mutex::new((mailbox, 0)));
        self.events.spawn_several("receive", TURNS as u32, || {
            let (end, mailbox) = (Arc::clone(self), Arc::clone(&mailbox));
            move || end.receive_over_ssh(id, &mailbox)
        });
    }

    /// A record that came as a frame. Waits while the threads are busy.
    pub(crate) fn handle_record(&self, frame: Vec<u8>) -> Result<(), CopyError> {
        let ssh = self.ssh.lock().clone();
        match ssh {
            Some(ssh) => ssh.send(frame).map_err(|_| self.events.out_of_turn("a record after the end")),
            None => Err(self.events.out_of_turn("a record before its lane")),
        }
    }

    /// A lane is over. Tells the sender and who manages lanes, once.
    pub(crate) fn lane_lost(&self, id: u32, why: &str) {
        let lane = self.lanes().remove(&id);
        if let Some(lane) = lane {
            lane.close();
            self.sender.send(&ToSender::LaneLost(id, why.to_owned()));
            self.events.send(Event::LaneLost(id, why.to_owned()));
        }
    }

    /// A message from the sender.
    pub fn handle(self: &Arc<Self>, message: ToReceiver) -> Result<(), CopyError> {
        match message {
            ToReceiver::Owners(owners) => self.know_owners(owners),
            ToReceiver::Roots(roots) => self.start(roots),
            ToReceiver::Offer(offers) => {
                if self.place.get().is_none() {
                    return Err(self.events.out_of_turn("an offer before its place"));
                }
                // Once the queue is closed nobody waits for an answer.
                self.offers.hand_in(offers);
                Ok(())
            }
            ToReceiver::End(id, outcome) => {
                self.ended(id, outcome);
                Ok(())
            }
            ToReceiver::LaneLost(id, why) => {
                self.lane_lost(id, &why);
                Ok(())
            }
            ToReceiver::Finish(_, failed) => {
                if let Some(feed) = self.passing.feed() {
                    feed.finish(failed);
                }
                self.say_missing();
                self.say_barred();
                self.say_limit();
                self.say_newer();
                self.say_words();
                // What failed may be mended, and the same command given again.
                if let Some(place) = self.place.get()
                    && !(failed || self.events.has_failed() || self.options.dry_run)
                {
                    place.end_folder(self.passing.feed());
                }
                let totals = self.totals();
                self.events.send(Event::ToSender(ToSender::Finished(totals)));
                self.events.send(Event::Finished(totals));
                Ok(())
            }
        }
    }

    /// Ends all work: threads return as soon as they can. Parts stay.
    pub fn stop(&self) {
        self.over.store(true, Relaxed);
        self.acks.stop();
        self.offers.close();
        self.recheck.close();
        self.ssh.lock().take();
        for lane in std::mem::take(&mut *self.lanes()).into_values() {
            lane.close();
        }
        for file in std::mem::take(&mut *self.files()).into_values() {
            if let Some(place) = self.place.get() {
                file.give_up(&place.target, false);
            }
        }
    }

    /// What the sender has found so far.
    pub fn found(&self) -> Found {
        *self.found.lock()
    }

    /// The sender tells what it has found.
    pub(crate) fn told(&self, found: Found) {
        *self.found.lock() = found;
    }

    /// What was done so far.
    pub fn totals(&self) -> Totals {
        self.counts.totals()
    }

    /// Takes records from a lane until it ends.
    fn receive(&self, lane: &LaneReceiver) -> Result<(), LaneError> {
        let clock = self.clock(lane.id);
        let mut buffers = store::Buffers::default();
        let mut sealed = Vec::new();
        loop {
            clock.enter(Stage::Receive);
            let before = thread_cpu_now();
            let Some(header) = lane.read(&mut sealed)? else { return Ok(()) };
            clock.add_receive_cpu(thread_cpu_now().saturating_sub(before));
            clock.enter(Stage::Decrypt);
            let plain = lane.open(&header, &mut sealed)?;
            self.counts.packed.fetch_add(plain.len() as u64, Relaxed);
            self.store(lane.id, header.sequence, plain, &mut buffers, &clock)?;
            self.acks.done(lane.id, header.sequence, 1);
        }
    }

    fn receive_over_ssh(&self, id: u32, mailbox: &Mutex<(Mailbox<Vec<u8>>, u64)>) {
        let clock = self.clock(id);
        let mut buffers = store::Buffers::default();
        loop {
            clock.enter(Stage::Receive);
            let (frame, due) = {
                let mut inside = mailbox.lock();
                let Ok(frame) = inside.0.recv() else { return };
                inside.1 += 1;
                (frame, inside.1 - 1)
            };
            let stored = parse_frame(&frame).and_then(|(header, plain)| {
                if header.sequence != due {
                    return Err(Malformed::Footer);
                }
                self.counts.packed.fetch_add(plain.len() as u64, Relaxed);
                self.store(id, header.sequence, plain, &mut buffers, &clock)?;
                Ok(header.sequence)
            });
            match stored {
                Ok(sequence) => self.acks.done(id, sequence, 0),
                Err(_) => {
                    let error = self.events.out_of_turn("a record of unknown form");
                    return self.events.send(Event::Failed(error));
                }
            }
        }
    }

    fn ended(&self, id: u64, outcome: Result<Digest, Failure>) {
        let Some(file) = self.files().get(&id).cloned() else { return };
        match outcome {
            Ok(digest) => {
                let progress = file.expect(digest);
                self.advance(id, &file, progress);
            }
            Err(failure) => {
                self.files().remove(&id);
                self.passing.ended(&file, FeedOutcome::Gone);
                if let Some(place) = self.place.get() {
                    // What came of a file that is another now is worth nothing; of one that cannot be read it
                    // may be.
                    let is_another = failure.kind == FailureKind::Changed;
                    if is_another {
                        self.counts.unkeep(file.left);
                    }
                    file.give_up(&place.target, is_another);
                }
            }
        }
    }

    /// All of it is here: now what bars its place goes, and not before.
    fn finish(&self, file: &Incoming) -> Result<bool, Failure> {
        let mut replaces_newer = false;
        if let Some(place) = self.place.get() {
            self.make_way(place, &file.entry)?;
            replaces_newer = self.replaces_newer(place, &file.entry);
        }
        let is_named = file.finish()?;
        self.count_newer(is_named && replaces_newer);
        Ok(is_named)
    }

    /// What the sender is going to remove has to be on the disk here, name and all, before it hears that it
    /// is there.
    fn make_durable(&self, entry: &Entry) -> Result<(), Failure> {
        match self.place.get() {
            Some(place) if self.options.selection.remove_source_files => {
                place.target.make_durable(&entry.name).map_err(|error| self.disk.failure(error))
            }
            _ => Ok(()),
        }
    }

    /// Acts on what a block or the sender's digest changed.
    fn advance(&self, id: u64, file: &Arc<Incoming>, progress: Result<Progress, Failure>) {
        let stored = match progress {
            Ok(Progress::More) => return,
            Ok(Progress::Complete(digest)) => match self.finish(file) {
                Ok(true) => self.make_durable(&file.entry).map(|()| digest),
                Ok(false) => return,
                Err(failure) => Err(failure),
            },
            Err(failure) => Err(failure),
        };
        if self.files().remove(&id).is_none() {
            return; // another thread has told it
        }
        match &stored {
            Ok(digest) => {
                self.passing.ended(file, FeedOutcome::Stored(*digest));
                self.counts.files.fetch_add(1, Relaxed);
                self.tell_copy(&file.entry, file.change.clone());
            }
            Err(failure) => {
                let is_another = failure.kind == FailureKind::Changed;
                self.passing.lacks(failure);
                self.passing.ended(file, FeedOutcome::Gone);
                if let Some(place) = self.place.get() {
                    let worthless =
                        is_another || failure.kind == FailureKind::Verification || file.is_spoiled();
                    if is_another {
                        self.counts.unkeep(file.left);
                    }
                    file.give_up(&place.target, worthless);
                }
            }
        }
        self.sender.send(&ToSender::Stored(id, stored));
    }

    /// What was begun and never ended, which an honest sender does not leave.
    fn say_missing(&self) {
        let files: Vec<_> = self.files().values().cloned().collect();
        for file in files {
            let words =
                format!("{} was not sent to its end: the other end lies, or is broken", file.entry.name);
            self.problem(file.entry.name.clone(), Failure::new(FailureKind::Session, words), false);
        }
    }

    /// What could not be kept, at the end. Of what `-a` or a map of owners asks for it is a failure, as in
    /// rsync; times and modes that go along without having been asked for are a note, and so are hard links,
    /// of which everything is there but that they are one file.
    fn say_words(&self) {
        let Some(place) = self.place.get() else { return };
        for (name, words) in place.target.put_aside() {
            self.problem(name, Failure::new(FailureKind::Local, words), true);
        }
        for word in place.target.words() {
            let words = not_kept(&word);
            let is_asked = match word.attribute {
                LostAttribute::HardLinks => false,
                // Owners are only ever set where that was asked for.
                LostAttribute::Owner => true,
                _ => self.options.archive,
            };
            if is_asked {
                self.counts.unkept.fetch_add(word.count, Relaxed);
            }
            self.problem(word.first, Failure::new(FailureKind::Local, words), !is_asked);
        }
    }

    /// That more would have been removed than may be.
    fn say_limit(&self) {
        let (left, most) = (self.at_limit.load(Relaxed), self.options.selection.max_delete);
        if let Some(most) = most.filter(|_| left > 0) {
            let words = format!(
                "{most} removed, the most that --max-delete lets go: {left} more that the source does not have stay; give a \
                 higher number"
            );
            self.problem(Name::root(), Failure::new(FailureKind::Local, words), false);
        }
    }

    fn problem(&self, name: Name, failure: Failure, harmless: bool) {
        self.events.problem(Problem { name, failure, harmless });
    }

    /// The clock of the calling thread, which takes records of this lane.
    fn clock(&self, lane: u32) -> Arc<StageClock> {
        let clock = Arc::new(StageClock::new(Instant::now()));
        let worker = Worker { clock: Arc::clone(&clock), tid: current_tid(), lane: Some(lane) };
        self.workers().push(Arc::new(worker));
        clock
    }

    fn observe(&self) {
        let output = roots::expand(&self.wanted.to);
        let mut watch = Watch::new(Role::Receiver, Some(&output));
        let mut waits = Waits::default();
        while !self.over.load(Relaxed) {
            std::thread::sleep(SAMPLE_INTERVAL);
            let sockets: Vec<_> =
                self.lanes().values().map(|lane| (lane.id, Some(Arc::clone(lane.stream())))).collect();
            watch.look(&sockets, &self.workers());
            for wait in waits.look(Instant::now(), self.lanes().values()) {
                self.sender.send(&ToSender::Waits(wait));
            }
            if let Some(closed) = watch.close(&self.counts.bytes, None) {
                self.events.send(Event::Window(Box::new(closed.sample)));
            }
        }
    }

    fn workers(&self) -> MutexGuard<'_, Vec<Arc<Worker>>> {
        self.workers.lock()
    }

    fn files(&self) -> MutexGuard<'_, HashMap<u64, Arc<Incoming>>> {
        self.files.lock()
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<u32, Arc<LaneReceiver>>> {
        self.lanes.lock()
    }
}

impl CopyDestination {
    /// Makes the folder that this copy begins, before anything is put into it: of a source that cannot be
    /// read none is to stay.
    fn begin_folder(&self, command: &Digest) {
        if let Some(name) = &self.begun {
            // What it cannot make cannot be put either, and that is told.
            self.made.call_once(|| drop(self.target.begin_folder(name, command)));
        }
    }

    /// All is there: the next copy to this name goes into the folder. On one of many hosts that is so once
    /// all of them have all.
    fn end_folder(&self, feed: Option<&Arc<Feed>>) {
        match (&self.begun, feed) {
            (Some(name), Some(feed)) => feed.keep_mark(&self.target, name),
            (Some(name), None) => feed::end_mark(&self.target, name),
            (None, _) => {}
        }
    }

    /// Whether something of that name was asked for.
    fn admits(&self, name: &Name) -> Result<(), Failure> {
        if self.roots.iter().any(|root| name.is_within(root)) {
            return Ok(());
        }
        let words = format!("{name} was not asked for: the other end lies, or is broken");
        Err(Failure::new(FailureKind::Session, words))
    }
}

/// What could not be kept, in words.
fn not_kept(loss: &AttributeLoss) -> String {
    let more = if loss.count > 1 { format!(" and {} more", loss.count - 1) } else { String::new() };
    let (first, cause) = (&loss.first, std::io::Error::from_raw_os_error(loss.errno));
    let why = match (loss.attribute, cause.kind()) {
        // chown(2) says so of a number that the namespace does not map.
        (LostAttribute::Owner, std::io::ErrorKind::InvalidInput) => {
            "its number is none in this user namespace (/proc/self/uid_map); -rlpt in place of -a leaves owners out"
                .to_owned()
        }
        _ => weir_units::plain(&cause),
    };
    let what = match loss.attribute {
        LostAttribute::Xattrs => "extended attributes or ACL",
        LostAttribute::Owner => "owner or group",
        LostAttribute::Mode => "mode",
        LostAttribute::Times => "times",
        LostAttribute::HardLinks => return format!("{first}{more} copied instead of hard-linked: {why}"),
    };
    format!("{what} not kept for {first}{more}: {why}")
}

fn parse_frame(frame: &[u8]) -> Result<(Header, &[u8]), Malformed> {
    let (header, plain) = frame.split_first_chunk::<HEADER>().ok_or(Malformed::Footer)?;
    let header = Header::parse(header)?;
    if header.length == plain.len() {
        Ok((header, plain))
    } else {
        Err(Malformed::Length(plain.len() as u64))
    }
}
