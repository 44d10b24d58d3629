//! The sender's end: a walk that finds entries, a queue of what is to be sent, and workers that each read, digest,
//! compress, encrypt and send one record after another.
//!
//! A worker does all of it on one thread, so that a block is touched while it is in the cache, and waits for a lane only
//! when its record is ready. With more workers than lanes the next blocks are prepared while one is being sent; that is all
//! the queue there is. There is a worker for each lane and one more, however few the processors: a lane whose window is small
//! takes seconds for a record, and holds its worker for as long.

mod batch;
mod congestion;
mod files;
mod gate;
mod health;
mod job;
pub(crate) mod lanes;
mod packer;
mod producer;
mod queue;
mod removal;
mod silence;
mod source;
mod twice;
mod unpacking;
mod worker;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Sender as Outbox;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use weir_model::chooser::LONGEST_RUN;
use weir_model::evidence::Reading;
use weir_model::rule::rate_limit;
use weir_observe::stage_clock::StageClock;
use weir_observe::tcp_info;
use weir_observe::thread::current_tid;
use weir_observe::watch::SAMPLE_INTERVAL;
use weir_tree::walk::Root;
use weir_tree::{Entry, Name};
use weir_units::Rate;
use weir_units::limiter::Limiter;

use crate::control::Outlet;
use crate::counts::Counts;
use crate::error::Error;
use crate::events::{Event, Events};
use crate::hello;
use crate::lane::{Lane, LaneSender};
use crate::list::Names;
use crate::lost::Lost;
use crate::secure::Keyring;
use crate::speeds::Speeds;
use crate::threads;
use crate::tuning;
use crate::watch::{Watch, Worker};
use crate::wire::message::{Failure, Found, Hello, Options, Problem, Role, Totals};
use crate::wire::to_receiver::ToReceiver;
use crate::wire::to_sender::ToSender;

use congestion::Congestion;
use files::Files;
use gate::Gate;
use health::Health;
use job::Job;
use lanes::Lanes;
use packer::Packer;
use queue::Queue;
use silence::Silence;

pub(crate) use producer::walk_of;
pub(crate) use twice::Twice;

/// One for each processor and one that sends: more could only wait. Each holds two blocks and its codec's tables.
const MOST_WORKERS: u32 = 17;

/// One for each lane and one that prepares what goes next, as long as they are no more than this: with zstd's tables of level 19
/// each takes some nine mebibytes, and all that a copy may take is 128.
const MOST_FOR_LANES: u32 = 12;

/// Blocks in all workers' records together, and one that tries, where they carry several: each takes up to 2 MiB of buffers, and a
/// worker then 6 for its codec.
const MOST_MADE: u32 = 16;

/// The same of one record of each lane: the other end has two threads for each, with 5 MiB for four blocks.
const MOST_TAKEN: u32 = 12;

/// Bytes that the socket of a lane over a long path may hold unsent before its worker waits (TCP_NOTSENT_LOWAT): the kernel's own
/// 4 MiB take a slow lane a second when the others have nothing left to send. The worker is woken at half of it, 2 ms at 1 Gbit/s, and
/// needs a third of one to seal its next block.
const UNSENT: u32 = 512 << 10;

/// The sender's end of a session.
#[derive(Debug)]
pub struct Sender {
    receiver: Outlet<ToReceiver>,
    events: Events,
    options: Options,
    keyring: Keyring,
    /// The sources, until it is known what they are to be called.
    roots: Mutex<Vec<Root>>,
    /// What is to be copied of the one source, where a list says that.
    names: Mutex<Option<Names>>,
    /// Where the driver's pieces of the list go.
    pieces: Mutex<Option<Outbox<Vec<Name>>>>,
    /// Sources that are called otherwise where they go: the name there, and the path here.
    renamed: OnceLock<Vec<(Name, PathBuf)>>,
    queue: Queue,
    gate: Gate,
    lanes: Lanes,
    silence: Silence,
    files: Mutex<Files>,
    /// A file that travels in blocks is stored, or given up.
    freed: Condvar,
    limiter: Option<Limiter>,
    packer: Packer,
    counts: Counts,
    lost: Lost,
    /// What came in a batch and is not in its place, so that its source stays.
    unplaced: Lost,
    workers: Mutex<Vec<Arc<Worker>>>,
    /// How many were begun.
    hired: AtomicU32,
    /// Of them, those that were started.
    at_work: AtomicU32,
    /// Bytes of the files that the walk has found, without those that are at the target.
    found: AtomicU64,
    /// Files that it has found.
    found_files: AtomicU64,
    /// All was sent, as far as this end can know, and the other is asked to finish.
    asked: AtomicBool,
    over: AtomicBool,
}

/// What went through a codec at a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodecShare {
    /// The codec's number.
    pub codec: u8,
    /// Its level.
    pub level: i32,
    /// Bytes before.
    pub raw: u64,
    /// Bytes after.
    pub packed: u64,
}

impl Sender {
    /// An end that is to send `roots`, on a machine of which `speeds` are known.
    pub fn new(
        receiver: Outlet<ToReceiver>,
        events: Events,
        options: Options,
        keyring: Keyring,
        (roots, speeds): (Vec<Root>, &Speeds),
    ) -> Arc<Sender> {
        let limiter = options.rate_cap.map(|rate| Limiter::new(Rate(rate as f64)));
        let packer = Packer::new(options.codec, speeds);
        Arc::new(Sender {
            receiver,
            events,
            options,
            keyring,
            roots: Mutex::new(roots),
            names: Mutex::default(),
            pieces: Mutex::default(),
            renamed: OnceLock::new(),
            queue: Queue::new(),
            gate: Gate::default(),
            lanes: Lanes::default(),
            silence: Silence::default(),
            files: Mutex::default(),
            freed: Condvar::new(),
            limiter,
            packer,
            counts: Counts::default(),
            lost: Lost::default(),
            unplaced: Lost::default(),
            workers: Mutex::default(),
            hired: AtomicU32::new(0),
            at_work: AtomicU32::new(0),
            found: AtomicU64::new(0),
            found_files: AtomicU64::new(0),
            asked: AtomicBool::new(false),
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
        // One that does not walk any more wants none.
        let pieces = self.pieces.lock();
        let _ = pieces.as_ref().map(|pieces| pieces.send(names));
    }

    /// Begins to send, under these names: one thread walks, others work.
    fn start(self: &Arc<Self>, names: Vec<Name>) -> Result<(), Error> {
        let mut roots = std::mem::take(&mut *self.roots.lock());
        let listed = self.options.listed;
        if roots.is_empty() || roots.len() != names.len() || listed && roots.len() > 1 {
            return Err(self.events.out_of_turn("where other sources go"));
        }
        let mut renamed = Vec::new();
        for (root, name) in roots.iter_mut().zip(names) {
            if root.name != name {
                renamed.push((name.clone(), root.path.clone()));
            }
            root.name = name;
        }
        // Only ever set here, which happens once.
        let _ = self.renamed.set(renamed);
        let walker = Arc::clone(self);
        self.events.spawn("walk", move || walker.walk(roots));
        self.hire((weir_observe::cpu::available_cpus() + 1).clamp(2, MOST_WORKERS));
        let watcher = Arc::clone(self);
        self.events.spawn("watch", move || watcher.observe());
        let waiter = Arc::clone(self);
        self.events.spawn("settle", move || {
            if waiter.queue.wait_settled() {
                waiter.asked.store(true, Relaxed);
                let failed = waiter.events.has_failed();
                waiter.events.send(Event::ToReceiver(ToReceiver::Finish(waiter.totals(), failed)));
            }
        });
        Ok(())
    }

    /// So many workers at least. Those that the system refuses are done without: the others take their lanes in turn.
    fn hire(self: &Arc<Self>, count: u32) {
        for _ in self.hired.fetch_max(count, Relaxed)..count {
            let end = Arc::clone(self);
            let work = move || {
                let clock = Arc::new(StageClock::new(Instant::now()));
                let worker = Worker { clock: Arc::clone(&clock), tid: current_tid(), lane: None };
                let mut workers = end.workers();
                let number = workers.len() as u32;
                workers.push(Arc::new(worker));
                drop(workers);
                end.work(number, &clock);
            };
            match threads::start("send", work) {
                Ok(()) => drop(self.at_work.fetch_add(1, Relaxed)),
                Err(source) if self.at_work.load(Relaxed) == 0 => {
                    return self.events.send(Event::Failed(Error::Threads { source }));
                }
                Err(why) => tracing::warn!("a worker less than {count}: {}", weir_units::plain(&why)),
            }
        }
    }

    /// What both ends' first words say of how near they are. Small files are packed before the first lane stands, so their codec
    /// has to be told here that the lanes will not leave this machine.
    pub fn know_ends(&self, own: &Hello, theirs: &Hello) {
        if own.boot == theirs.boot {
            self.packer.set_shared();
        }
        if hello::share_network(own, theirs) {
            self.packer.set_near();
        }
    }

    /// A lane stands.
    pub fn add_lane(&self, lane: Lane) {
        let (lane, stream) = lane.into_sender();
        // What the first words cannot say where /proc hides this boot's number.
        if is_local(&stream) {
            self.packer.set_near();
        }
        if tuning::is_long(round_trip(&stream)) {
            // Without it a lane is a little later done than the others.
            let _ = socket2::SockRef::from(&*stream).set_tcp_notsent_lowat(UNSENT);
        }
        self.lanes.add(lane, Some(stream));
    }

    /// The lane inside ssh stands.
    pub fn add_ssh_lane(&self, id: u32) {
        self.lanes.add(LaneSender::over_ssh(id, Arc::clone(self.receiver.control()), &self.keyring), None);
    }

    /// A lane is to take no more records.
    pub fn retire(&self, id: u32) {
        self.lanes.retire(id);
    }

    /// A lane is over. Tells who manages lanes, once.
    pub fn lane_lost(&self, id: u32, why: &str) {
        let stood = self.lanes.remove(id);
        self.silence.forget(id);
        // Each time: a worker that had taken the lane may have noted its record only after it was removed.
        self.queue.lane_lost(id);
        if stood {
            self.events.send(Event::LaneLost(id, why.to_owned()));
        }
    }

    /// A message from the receiver.
    pub fn handle(self: &Arc<Self>, message: ToSender) -> Result<(), Error> {
        match message {
            ToSender::Placed(names) => self.start(names),
            // What this end asked for is in turn, whatever a worker has in hand for a file that was said to be stored too early.
            ToSender::Finished(_) if !self.asked.load(Relaxed) => {
                Err(self.events.out_of_turn("that all is stored before all was sent"))
            }
            ToSender::Finished(totals) => {
                self.events.send(Event::Finished(totals));
                Ok(())
            }
            ToSender::Answer(answers) => {
                let mut settled = Vec::new();
                for (id, answer) in answers {
                    settled.extend(self.answered(id, answer)?);
                }
                self.queue.settle(&settled);
                Ok(())
            }
            ToSender::Signature(id, piece) => self.take_signature(id, &piece),
            ToSender::Landed(lane, through) => {
                self.landed(lane, through);
                Ok(())
            }
            ToSender::Again(lane, sequence, why) => {
                tracing::warn!("a block has to be sent again: {why}");
                self.queue.again(lane, sequence);
                Ok(())
            }
            ToSender::Wanted(id, blocks) => self.wanted_again(id, &blocks),
            ToSender::Unplaced(names) => self.not_placed(&names),
            ToSender::Stored(id, outcome) => {
                self.stored(id, outcome);
                Ok(())
            }
            ToSender::Waits(wait) => {
                self.waited_for(&wait);
                Ok(())
            }
            ToSender::LaneLost(id, why) => {
                self.lane_lost(id, &why);
                Ok(())
            }
        }
    }

    /// Ends all work: threads return as soon as they can.
    pub fn stop(&self) {
        self.over.store(true, Relaxed);
        self.queue.stop();
        self.gate.stop();
        self.lanes.stop();
        self.pieces.lock().take();
        self.freed.notify_all();
    }

    /// What was done so far.
    pub fn totals(&self) -> Totals {
        self.counts.totals()
    }

    /// What the walk has found so far.
    pub fn has_found(&self) -> Found {
        // Asked first: what is counted after that is counted all.
        let all = self.queue.is_exhausted();
        Found { files: self.found_files.load(Relaxed), bytes: self.found.load(Relaxed), all }
    }

    /// What went through which codec: number, level, bytes before and after.
    pub fn codecs(&self) -> Vec<CodecShare> {
        let shares = self.packer.shares().into_iter();
        shares
            .map(|((codec, level), share)| CodecShare { codec, level, raw: share.raw, packed: share.packed })
            .collect()
    }

    /// Looks at lanes and workers; tells the chooser of the link, and whoever runs the end of all.
    fn observe(self: &Arc<Self>) {
        let mut watch = Watch::new(Role::Sender, None);
        let mut packed = 0;
        let mut health = Health::default();
        let mut congestion = Congestion::default();
        let mut shares = BTreeMap::new();
        self.open_gate(0, true);
        while !self.over.load(Relaxed) {
            std::thread::sleep(SAMPLE_INTERVAL);
            let sockets = self.lanes.sockets();
            self.hire((sockets.len() as u32 + 1).min(MOST_FOR_LANES));
            watch.look(&sockets, &self.workers());
            self.look_after_lanes(&mut health, Instant::now());
            let Some(mut closed) = watch.close(&self.counts.bytes, self.options.rate_cap) else { continue };
            if let Reading::Value(stages) = &mut closed.sample.window.sending {
                stages.codecs = self.packer.shrunk_since(&mut shares);
            }
            let now = self.counts.packed.load(Relaxed);
            let span = closed.sample.window.span;
            let handed = (now - std::mem::replace(&mut packed, now)) as f64 / span.as_secs_f64();
            let acked = closed.acked.unwrap_or(handed);
            self.packer.link(span, acked, &closed);
            // Held by a rate that the user set, lanes say nothing of the path.
            if self.options.rate_cap.is_none_or(|cap| !rate_limit::reaches(acked, cap as f64)) {
                congestion.observe(&closed.sample.window, acked, &sockets);
            }
            self.open_gate(sockets.len() as u32, closed.backlog);
            closed.sample.outlook = self.packer.outlook();
            self.events.send(Event::Window(Box::new(closed.sample)));
        }
    }

    /// As many records under way as the chooser looks ahead, and one for each lane besides the one that is made meanwhile. Where
    /// lanes wait for blocks, whatever makes them is not to be held up.
    fn open_gate(&self, lanes: u32, backlog: bool) {
        let hired = self.hired.load(Relaxed);
        let admitted = |longest: u32| {
            let ahead = self.packer.ahead(longest).filter(|_| backlog).map(|ahead| ahead.max(lanes + 1));
            (ahead, ahead.map_or(hired, |ahead| ahead.min(hired)))
        };
        let in_use = self.packer.longest_in_use();
        // Longer records want fewer workers. One of all may be as long as is allowed, though those in use are shorter, to try a codec.
        let fits = |longest: &u32| {
            let usual = in_use.min(*longest);
            usual * admitted(*longest).1 + longest <= MOST_MADE && usual * lanes + longest <= MOST_TAKEN
        };
        let longest = (1..=LONGEST_RUN).rev().find(fits).unwrap_or(1);
        let (ahead, workers) = admitted(longest);
        self.packer.allow(longest);
        self.queue.set_workers(workers);
        self.gate.allow(ahead);
    }

    fn workers(&self) -> parking_lot::MutexGuard<'_, Vec<Arc<Worker>>> {
        self.workers.lock()
    }

    fn landed(&self, lane: u32, through: u64) {
        let landed = self.queue.landed(lane, through);
        for job in &landed {
            let bytes = match job {
                Job::Run { file, blocks, .. } => file.extent(blocks).end - file.extent(blocks).start,
                // It is no record.
                Job::Survey { .. } => 0,
                Job::Batch(batch) => {
                    self.remove_members(batch);
                    let failed = batch.failed();
                    let new = || {
                        let items = batch.items.iter().filter(|item| !item.last);
                        items.filter(|item| !failed.contains(&item.number))
                    };
                    new().for_each(|item| self.count_file(&item.entry));
                    new().map(|item| item.entry.size()).sum()
                }
            };
            self.counts.bytes.fetch_add(bytes, Relaxed);
        }
        // Not before: once all is settled nothing more is told.
        self.queue.settle_jobs(&landed);
    }

    fn count_file(&self, entry: &Entry) {
        let count = if entry.is_file() { &self.counts.files } else { &self.counts.others };
        count.fetch_add(1, Relaxed);
    }

    /// A path that could not be read: by the name that its source has here.
    fn unread(&self, name: Name, mut failure: Failure) {
        let of = |(root, path): &(Name, PathBuf)| {
            let rest = name.as_bytes().strip_prefix(root.as_bytes())?;
            let rest = rest.strip_prefix(b"/").unwrap_or(rest);
            (name.is_within(root)).then(|| twice::below(path, Path::new(OsStr::from_bytes(rest))))
        };
        if let Some(path) = self.renamed.get().and_then(|renamed| renamed.iter().find_map(of)) {
            failure.words += &format!("; its source is {}", path.display());
        }
        self.problem(name, failure);
    }

    /// A path that could not be sent: here and there.
    fn problem(&self, name: Name, failure: Failure) {
        self.events.problem(Problem { name, failure, harmless: false });
    }
}

/// Whether what is sent there never leaves this machine.
fn is_local(stream: &TcpStream) -> bool {
    match (stream.local_addr(), stream.peer_addr()) {
        (Ok(own), Ok(far)) => own.ip().to_canonical() == far.ip().to_canonical(),
        _ => false,
    }
}

/// The shortest that a connection has seen; its handshake's at first.
fn round_trip(stream: &TcpStream) -> Option<Duration> {
    tcp_info::read(stream.as_fd()).ok()?.min_rtt
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Control;
    use crate::secret::Secret;

    fn sender() -> Arc<Sender> {
        let receiver = Outlet::new(&Arc::new(Control::new(std::io::sink())));
        let events = Events::new("the receiver", std::sync::mpsc::channel().0);
        let keyring = Keyring::new(&Secret::draw().unwrap(), None);
        Sender::new(receiver, events, Options::default(), keyring, (Vec::new(), &Speeds::default()))
    }

    #[test]
    fn what_is_packed_before_a_lane_stands_goes_by_the_first_words() {
        let text = "the same line again and again\n".repeat(10_000).into_bytes();
        let own = crate::hello::own("1", Vec::new());
        let another = Hello { boot: "another".to_owned(), ..own.clone() };
        let pack = |theirs: &Hello| {
            let sender = sender();
            sender.know_ends(&own, theirs);
            sender.packer.pack(&sender.packer.plan(), &text, &mut Vec::new())
        };
        assert!(pack(&another).is_some(), "over a link it shrinks");
        assert_eq!(pack(&own), None, "within one machine it goes as it is");
    }
}
