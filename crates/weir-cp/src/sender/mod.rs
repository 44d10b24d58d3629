//! The sender's end: a walk that finds entries, a queue of what is to be sent, and workers that each read,
//! digest, compress, encrypt and send one record after another.
//!
//! A worker does all of it on one thread, so that a block is touched while it is in the cache, and waits for
//! a lane only when its record is ready. With more workers than lanes the next blocks are prepared while one
//! is being sent; that is all the queue there is. There is a worker for each lane and one more, however few
//! the processors: a lane whose window is small takes seconds for a record, and holds its worker for as long.

mod batch;
mod congestion;
mod follow;
mod gate;
mod job;
mod keeper;
pub(crate) mod lanes;
mod offers;
mod packer;
mod queue;
mod removal;
mod shared;
mod silence;
mod source;
mod twice;
mod unpacking;
mod walk;
mod workers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Sender as Outbox;
use std::time::Instant;

use parking_lot::Mutex;
use weir_model::evidence::Reading;
use weir_model::rule::rate_limit;
use weir_observe::watch::SAMPLE_INTERVAL;
use weir_tree::Name;
use weir_tree::walk::Root;

use crate::control::Outlet;
use crate::error::CopyError;
use crate::events::{Event, Events};
use crate::feed::Feed;
use crate::hello;
use crate::lane::Lane;
use crate::list::Names;
use crate::secure::Keyring;
use crate::speeds::Speeds;
use crate::vouched::Vouched;
use crate::watch::Watch;
use crate::wire::message::{Found, Hello, Options, Role, Totals};
use crate::wire::to_receiver::ToReceiver;
use crate::wire::to_sender::ToSender;

use congestion::Congestion;
use follow::Follower;
use job::Job;
use keeper::{Health, LaneKeeper};
use offers::Offers;
use packer::Packer;
use removal::Removal;
use shared::Shared;
use walk::Walker;
use workers::Workers;

pub(crate) use twice::Twice;
pub(crate) use walk::walk_of;

/// One for each processor and one that sends: more could only wait. Each holds two blocks and its codec's
/// tables.
const MOST_WORKERS: u32 = 17;

/// One for each lane and one that prepares what goes next, as long as they are no more than this: with zstd's
/// tables of level 19 each takes some nine mebibytes, and all that a copy may take is 128.
const MOST_FOR_LANES: u32 = 12;

/// The sender's end of a session: its parts, and what it hears.
#[derive(Debug)]
pub struct Sender {
    shared: Arc<Shared>,
    sources: Mutex<Sources>,
    offers: Arc<Offers>,
    removal: Arc<Removal>,
    lanes: Arc<LaneKeeper>,
    workers: Arc<Workers>,
}

/// What is to be walked, until it is known what it is to be called.
#[derive(Debug)]
struct Sources {
    roots: Vec<Root>,
    /// What is to be copied of the only one, where a list says that.
    names: Option<Names>,
    /// Where the driver's pieces of the list go.
    pieces: Option<Outbox<Vec<Name>>>,
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
        let packer = Packer::new(options.codec, speeds);
        let shared = Arc::new(Shared::new(receiver, events, options, packer));
        let removal = Arc::new(Removal::new(&shared));
        let offers = Arc::new(Offers::new(&shared, &removal));
        let lanes = Arc::new(LaneKeeper::new(&shared, keyring));
        let workers = Arc::new(Workers::new(&shared, &offers, &lanes));
        let sources = Mutex::new(Sources { roots, names: None, pieces: None });
        Arc::new(Sender { shared, sources, offers, removal, lanes, workers })
    }

    /// Digests of what is sent are noted there.
    pub(crate) fn vouch(&self, vouched: &Arc<Vouched>) {
        // Only ever set once, before it is known where all goes.
        let _ = self.shared.vouched.set(Arc::clone(vouched));
        self.pass_on();
    }

    /// What is sent goes on to other hosts while it comes.
    pub(crate) fn pass_on(&self) {
        self.shared.passed_on.store(true, Relaxed);
    }

    /// What is to be sent is what comes to this host: there is nothing to walk.
    pub(crate) fn follow(&self, feed: &Arc<Feed>) {
        // Only ever set once, before it is known where all goes.
        let _ = self.shared.feed.set(Arc::clone(feed));
        self.pass_on();
    }

    /// The names of the list are these; where they come from the driver its pieces go to `pieces`.
    pub(crate) fn take_names(&self, names: Names, pieces: Option<Outbox<Vec<Name>>>) {
        let mut sources = self.sources.lock();
        (sources.names, sources.pieces) = (Some(names), pieces);
    }

    /// The next names of the list.
    pub(crate) fn take_piece(&self, names: Vec<Name>) {
        // One that does not walk any more wants none.
        let sources = self.sources.lock();
        let _ = sources.pieces.as_ref().map(|pieces| pieces.send(names));
    }

    /// Begins to send, under these names: one thread walks, others work.
    fn start(self: &Arc<Self>, names: Vec<Name>) -> Result<(), CopyError> {
        if let Some(feed) = self.shared.feed.get() {
            let (shared, offers) = (Arc::clone(&self.shared), Arc::clone(&self.offers));
            let follower = Follower { shared, offers, feed: Arc::clone(feed) };
            self.shared.events.spawn("follow", move || follower.follow(&names));
            return self.begin_work();
        }
        let _ = self.shared.placed.set(names.clone());
        let (mut roots, list) = {
            let mut sources = self.sources.lock();
            (std::mem::take(&mut sources.roots), sources.names.take())
        };
        let listed = self.shared.options.listed;
        if roots.is_empty() || roots.len() != names.len() || listed && roots.len() > 1 {
            return Err(self.shared.events.out_of_turn("where other sources go"));
        }
        let mut renamed = Vec::new();
        for (root, name) in roots.iter_mut().zip(names) {
            if root.name != name {
                renamed.push((name.clone(), root.path.clone()));
            }
            root.name = name;
        }
        // Only ever set here, which happens once.
        let _ = self.shared.renamed.set(renamed);
        let walker = Walker {
            shared: Arc::clone(&self.shared),
            offers: Arc::clone(&self.offers),
            removal: Arc::clone(&self.removal),
        };
        self.shared.events.spawn("walk", move || walker.walk(roots, list));
        self.begin_work()
    }

    /// Those who send what is found.
    fn begin_work(self: &Arc<Self>) -> Result<(), CopyError> {
        self.workers.spawn_workers((weir_observe::cpu::available_cpus() + 1).clamp(2, MOST_WORKERS));
        let watcher = Arc::clone(self);
        self.shared.events.spawn("watch", move || watcher.observe());
        let (rereader, mailbox) = (Arc::clone(self), self.shared.reread.open());
        self.shared.events.spawn("reread", move || {
            while let Ok(file) = mailbox.recv() {
                rereader.workers.reread(&file);
            }
        });
        let waiter = Arc::clone(&self.shared);
        self.shared.events.spawn("settle", move || {
            if waiter.queue.wait_settled() {
                waiter.asked.store(true, Relaxed);
                let failed = waiter.events.has_failed() || waiter.failed_before.load(Relaxed);
                waiter.events.send(Event::ToReceiver(ToReceiver::Finish(waiter.counts.totals(), failed)));
            }
        });
        Ok(())
    }

    /// What both ends' first words say of how near they are. Small files are packed before the first lane
    /// stands, so their codec has to be told here that the lanes will not leave this machine.
    pub(crate) fn know_ends(&self, own: &Hello, theirs: &Hello) {
        if own.boot == theirs.boot {
            self.shared.packer.set_shared();
        }
        if hello::share_network(own, theirs) {
            self.shared.packer.set_near();
        }
    }

    /// A lane stands.
    pub fn add_lane(&self, lane: Lane) {
        self.lanes.add(lane);
    }

    /// The lane inside ssh stands.
    pub(crate) fn add_ssh_lane(&self, id: u32) {
        self.lanes.add_ssh(id);
    }

    /// A lane is to take no more records.
    pub fn retire(&self, id: u32) {
        self.lanes.retire(id);
    }

    /// A message from the receiver.
    pub fn handle(self: &Arc<Self>, message: ToSender) -> Result<(), CopyError> {
        match message {
            ToSender::Placed(names) => self.start(names),
            ToSender::Avoid(folder) => {
                let is_early = self.shared.placed.get().is_none();
                match is_early && self.shared.avoid.set(folder).is_ok() {
                    true => Ok(()),
                    false => Err(self.shared.events.out_of_turn("its target twice, or too late")),
                }
            }
            // What this end asked for is in turn, whatever a worker has in hand for a file that was said to
            // be stored too early.
            ToSender::Finished(_) if !self.shared.asked.load(Relaxed) => {
                Err(self.shared.events.out_of_turn("that all is stored before all was sent"))
            }
            ToSender::Finished(totals) => {
                self.shared.events.send(Event::Finished(totals));
                Ok(())
            }
            ToSender::Answer(answers) => self.offers.answers(answers),
            ToSender::Signature(id, piece) => self.offers.take_signature(id, &piece),
            ToSender::Ack(lane, through) => {
                self.acked(lane, through);
                Ok(())
            }
            ToSender::Again(lane, sequence, why) => {
                tracing::warn!("a block has to be sent again: {why}");
                self.shared.queue.again(lane, sequence);
                Ok(())
            }
            ToSender::Wanted(id, blocks) => self.offers.wanted_again(id, &blocks),
            ToSender::Unplaced(names) => self.removal.not_placed(&names),
            ToSender::Reads(bytes) => {
                self.shared.counts.compared_there.store(bytes, Relaxed);
                Ok(())
            }
            ToSender::Stored(id, outcome) => {
                self.offers.stored(id, outcome);
                Ok(())
            }
            ToSender::Waits(wait) => {
                self.lanes.waited_for(&wait);
                Ok(())
            }
            ToSender::LaneLost(id, why) => {
                self.lanes.lost(id, &why);
                Ok(())
            }
        }
    }

    /// Ends all work: threads return as soon as they can.
    pub fn stop(&self) {
        self.shared.over.store(true, Relaxed);
        self.shared.queue.stop();
        self.shared.reread.close();
        self.workers.stop();
        self.lanes.stop();
        self.sources.lock().pieces.take();
        self.offers.stop();
    }

    /// Nothing more is sent.
    pub(crate) fn is_over(&self) -> bool {
        self.shared.is_over()
    }

    /// What was done so far.
    pub fn totals(&self) -> Totals {
        self.shared.counts.totals()
    }

    /// What the walk has found so far; of a source that grows what is there of it, and nothing of a file that
    /// goes once all of it is here.
    pub(crate) fn has_found(&self) -> Found {
        // Asked first: what is counted after that is counted all.
        let all = self.shared.queue.is_exhausted();
        let source = self.shared.feed.get().filter(|feed| feed.is_source());
        let outstanding = source.map_or(0, |feed| feed.outstanding());
        let held_back = self.offers.held_back(source.is_some());
        Found {
            files: self.shared.found_files.load(Relaxed),
            bytes: self
                .shared
                .found_bytes
                .load(Relaxed)
                .saturating_sub(outstanding)
                .saturating_sub(held_back),
            all,
        }
    }

    /// What went through which codec: number, level, bytes before and after.
    pub fn codecs(&self) -> Vec<CodecShare> {
        let shares = self.shared.packer.shares().into_iter();
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
        self.workers.open_gate(0, true);
        while !self.shared.is_over() {
            std::thread::sleep(SAMPLE_INTERVAL);
            let sockets = self.lanes.sockets();
            self.workers.spawn_workers((sockets.len() as u32 + 1).min(MOST_FOR_LANES));
            watch.look(&sockets, &self.workers.workers());
            self.lanes.look_after(&mut health, Instant::now());
            let Some(mut closed) = watch.close(&self.shared.counts.bytes, self.shared.options.rate_cap)
            else {
                continue;
            };
            if let Reading::Value(stages) = &mut closed.sample.interval.sending {
                stages.codecs = self.shared.packer.shrunk_since(&mut shares);
            }
            let now = self.shared.counts.packed.load(Relaxed);
            let span = closed.sample.interval.span;
            let handed = (now - std::mem::replace(&mut packed, now)) as f64 / span.as_secs_f64();
            let acked = closed.acked.unwrap_or(handed);
            self.shared.packer.link(span, acked, &closed);
            // Held by a rate that the user set, lanes say nothing of the path.
            if self.shared.options.rate_cap.is_none_or(|cap| !rate_limit::reaches(acked, cap as f64)) {
                congestion.observe(&closed.sample.interval, acked, &sockets);
            }
            self.workers.open_gate(sockets.len() as u32, closed.backlog);
            closed.sample.outlook = self.shared.packer.outlook();
            self.shared.events.send(Event::Window(Box::new(closed.sample)));
        }
    }

    fn acked(&self, lane: u32, through: u64) {
        let acked = self.shared.queue.acked(lane, through);
        for job in &acked {
            let bytes = match job {
                Job::Run { file, blocks, .. } => file.extent(blocks).end - file.extent(blocks).start,
                // It is no record.
                Job::Survey { .. } => 0,
                Job::Batch(batch) => {
                    self.removal.remove_members(batch);
                    let failed = batch.failed();
                    let new = || {
                        let items = batch.items.iter().filter(|item| !item.last);
                        items.filter(|item| !failed.contains(&item.number))
                    };
                    new().for_each(|item| self.shared.count_file(&item.entry));
                    new().map(|item| item.entry.size()).sum()
                }
            };
            self.shared.counts.moves(bytes);
        }
        // Not before: once all is settled nothing more is told.
        self.shared.queue.settle_jobs(&acked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Control;
    use crate::secret::Secret;
    use crate::wire::message::{Failure, FailureKind};
    use crate::wire::to_sender::Answer;

    pub(super) fn sender() -> Arc<Sender> {
        let receiver = Outlet::new(&Arc::new(Control::new(std::io::sink())));
        let events = Events::new("the receiver", std::sync::mpsc::channel().0);
        let keyring = Keyring::new(&Secret::draw().unwrap(), None);
        Sender::new(receiver, events, Options::default(), keyring, (Vec::new(), &Speeds::default()))
    }

    /// The file `x` of a folder, of that size when it was seen.
    pub(super) fn waiting(folder: &std::path::Path, size: u64) -> offers::Waiting {
        let target = weir_tree::Target::open(folder, Default::default()).unwrap();
        let name: Name = "x".parse().unwrap();
        let mtime = weir_tree::entry::Time::new(0, 0).unwrap();
        let kind = weir_tree::Kind::File { size, sparse: false };
        let source = target.source_of(&name, None).unwrap();
        let entry = weir_tree::Entry { name, kind, mode: 0o644, mtime, uid: 0, gid: 0, xattrs: Vec::new() };
        offers::Waiting { number: 0, entry, source, attempt: 1, growing: None, due: None }
    }

    /// A file that grows here and was offered: until its answer has been acted on, and not only until that
    /// has come, whoever follows it has to wait for it.
    #[test]
    fn a_file_whose_answer_is_acted_on_is_followed_still() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x"), "content").unwrap();
        let offers = &sender().offers;
        let offer = || offers.expect(waiting(folder.path(), 7));
        let (first, second) = (offer(), offer());
        let state = |id| offers.under_way(id).map(drop);
        assert_eq!((state(first), state(second), state(7)), (Err(true), Err(true), Err(false)));
        let taken = offers.take_offered(first);
        assert!(taken.is_some());
        assert_eq!(state(first), Err(true), "between its answer and its place among those under way");
        // The next one is acted on only after it.
        offers.take_offered(second);
        assert_eq!((state(first), state(second)), (Err(false), Err(true)));
    }

    /// One that grew while it was read: what is found is what it is now, and not less than nothing once the
    /// other end turns out to have it.
    #[test]
    fn a_file_that_is_offered_again_is_found_with_its_new_size() {
        let (before, now) = (1 << 20, 3 << 20);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x"), vec![1; before]).unwrap();
        let sender = sender();
        sender.shared.found_bytes.store(before as u64, Relaxed);
        sender.offers.count_place();
        let first = sender.offers.expect(waiting(folder.path(), before as u64));
        sender.offers.answers(vec![(first, Answer::All)]).unwrap();
        std::fs::write(folder.path().join("x"), vec![2; now]).unwrap();
        let changed = Failure::new(FailureKind::Changed, "x changed".to_owned());
        sender.offers.stored(first, Err(changed));
        assert_eq!(sender.has_found().bytes, now as u64);
        sender.offers.answers(vec![(first + 1, Answer::Nothing)]).unwrap();
        assert_eq!(sender.has_found().bytes, 0);
    }

    #[test]
    fn what_is_packed_before_a_lane_stands_goes_by_the_first_words() {
        let text = "the same line again and again\n".repeat(10_000).into_bytes();
        let own = crate::hello::own("1", Vec::new());
        let another = Hello { boot: "another".to_owned(), ..own.clone() };
        let pack = |theirs: &Hello| {
            let sender = sender();
            sender.know_ends(&own, theirs);
            sender.shared.packer.pack(&sender.shared.packer.plan(), &text, &mut Vec::new())
        };
        assert!(pack(&another).is_some(), "over a link it shrinks");
        assert_eq!(pack(&own), None, "within one machine it goes as it is");
    }
}
