//! The workers: each takes one job after another from the queue to a record on a lane.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use weir_model::chooser::{LONGEST_RUN, Plan};
use weir_observe::stage_clock::{Stage, StageClock};
use weir_observe::thread::current_tid;
use weir_tree::Entry;
use weir_tree::source::is_zero;
use weir_units::Rate;
use weir_units::limiter::Limiter;

use super::batch::{self, ReportedEntry};
use super::gate::Gate;
use super::job::{Batch, Form, Job};
use super::keeper::LaneKeeper;
use super::offers::Offers;
use super::shared::Shared;
use super::source::{Rest, SourceFile};
use crate::error::CopyError;
use crate::events::Event;
use crate::feed::PackedBlock;
use crate::subtrees::{BLOCK, Digest};
use crate::threads;
use crate::watch::Worker;
use crate::wire::message::{Failure, FailureKind, Problem};
use crate::wire::patch;
use crate::wire::record::{FOOTER, Footer, Kind, TAG};

/// Room for a record of one block; a codec's worst case and a batch of small files take a little more.
const SINGLE: usize = BLOCK as usize + FOOTER + TAG;

/// Blocks in all workers' records together, and one that tries, where they carry several: each takes up to 2
/// MiB of buffers, and a worker then 6 for its codec.
const MOST_MADE: u32 = 16;

/// The same of one record of each lane: the other end has two threads for each, with 5 MiB for four blocks.
const MOST_TAKEN: u32 = 12;

/// The buffers of a worker: they grow to what its records carry.
struct Buffers {
    raw: Vec<u8>,
    packed: Vec<u8>,
}

/// Those who work, and how many of them may.
#[derive(Debug)]
pub(super) struct Workers {
    shared: Arc<Shared>,
    offers: Arc<Offers>,
    lanes: Arc<LaneKeeper>,
    limiter: Option<Limiter>,
    gate: Gate,
    workers: Mutex<Vec<Arc<Worker>>>,
    /// How many were begun.
    hired: AtomicU32,
    /// Of them, those that were started.
    at_work: AtomicU32,
}

impl Workers {
    pub(super) fn new(shared: &Arc<Shared>, offers: &Arc<Offers>, lanes: &Arc<LaneKeeper>) -> Workers {
        Workers {
            shared: Arc::clone(shared),
            offers: Arc::clone(offers),
            lanes: Arc::clone(lanes),
            limiter: shared.options.rate_cap.map(|rate| Limiter::new(Rate(rate as f64))),
            gate: Gate::default(),
            workers: Mutex::default(),
            hired: AtomicU32::new(0),
            at_work: AtomicU32::new(0),
        }
    }

    /// So many workers at least. Those that the system refuses are done without: the others take their lanes
    /// in turn.
    pub(super) fn spawn_workers(self: &Arc<Self>, count: u32) {
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
                    return self.shared.events.send(Event::Failed(CopyError::Threads { source }));
                }
                Err(why) => tracing::warn!("a worker less than {count}: {}", weir_units::plain(&why)),
            }
        }
    }

    /// As many records under way as the chooser looks ahead, and one for each lane besides the one that is
    /// made meanwhile. Where lanes wait for blocks, whatever makes them is not to be held up.
    pub(super) fn open_gate(&self, lanes: u32, backlog: bool) {
        let hired = self.hired.load(Relaxed);
        let admitted = |longest: u32| {
            let ahead =
                self.shared.packer.ahead(longest).filter(|_| backlog).map(|ahead| ahead.max(lanes + 1));
            (ahead, ahead.map_or(hired, |ahead| ahead.min(hired)))
        };
        let in_use = self.shared.packer.longest_in_use();
        // Longer records want fewer workers. One of all may be as long as is allowed, though those in use are
        // shorter, to try a codec.
        let fits = |longest: &u32| {
            let usual = in_use.min(*longest);
            usual * admitted(*longest).1 + longest <= MOST_MADE && usual * lanes + longest <= MOST_TAKEN
        };
        let longest = (1..=LONGEST_RUN).rev().find(fits).unwrap_or(1);
        let (ahead, workers) = admitted(longest);
        self.shared.packer.allow(longest);
        self.shared.queue.set_workers(workers);
        self.gate.allow(ahead);
    }

    /// Those that are at work.
    pub(super) fn workers(&self) -> MutexGuard<'_, Vec<Arc<Worker>>> {
        self.workers.lock()
    }

    /// All work ends.
    pub(super) fn stop(&self) {
        self.gate.stop();
    }

    /// Does what there is to do, as worker `number`.
    fn work(&self, number: u32, clock: &StageClock) {
        let mut buffers = Buffers { raw: Vec::with_capacity(SINGLE), packed: Vec::new() };
        loop {
            clock.enter(Stage::Turn);
            if !self.gate.admits(number) {
                return;
            }
            clock.enter(Stage::Idle);
            let mut plan = None;
            let most = self.shared.longest_run();
            let longest = || plan.insert(self.shared.packer.plan()).run.min(most);
            let Some(job) = self.shared.queue.claim(longest) else { return };
            if let Job::Survey { file, runs } = job {
                clock.enter(Stage::Read);
                let survey = file.survey(runs);
                self.shared.queue.surveyed(&file, survey);
                continue;
            }
            match self.prepare(&job, plan, &mut buffers, clock) {
                Ok(plain) => {
                    if !self.send(job, plain, clock) {
                        return;
                    }
                }
                Err(failure) => {
                    if let Some(file) = job.file() {
                        self.offers.give_up(file, failure);
                    }
                }
            }
        }
    }

    /// Reads, digests and compresses; returns the buffer that holds the record's plaintext.
    fn prepare<'a>(
        &self,
        job: &Job,
        plan: Option<Plan>,
        buffers: &'a mut Buffers,
        clock: &StageClock,
    ) -> Result<&'a mut Vec<u8>, Failure> {
        let Buffers { raw, packed } = buffers;
        let several = matches!(job, Job::Run { blocks, .. } if blocks.end - blocks.start > 1);
        if !several && raw.capacity() > 2 * SINGLE {
            // After a record that carried several, as one is now and then to try a codec.
            *raw = Vec::with_capacity(SINGLE);
            *packed = Vec::new();
        }
        clock.enter(Stage::Read);
        let mut footer = match job {
            Job::Run { file, blocks, form } => self.take_blocks(file, blocks, *form, (raw, packed), clock)?,
            Job::Batch(batch) => self.take_batch(batch, (raw, packed), clock),
            // It has nothing that could be sent.
            Job::Survey { file, .. } => return Err(file.changed("was not looked at")),
        };
        if footer.kind == Kind::Hole {
            footer.push_to(raw);
            return Ok(raw);
        }
        if !job.is_plain() {
            if let Some(came) = self.packed_before(job, &footer) {
                packed.clear();
                packed.extend_from_slice(&came.bytes);
                self.shared.packer.passed_on(came.codec, raw.len(), packed.len());
                footer.codec = came.codec;
                footer.push_to(packed);
                return Ok(packed);
            }
            clock.enter(Stage::Compress);
            let plan = plan.unwrap_or_else(|| self.shared.packer.plan());
            if let Some(codec) = self.shared.packer.pack(&plan, raw, packed) {
                footer.codec = codec;
                footer.push_to(packed);
                return Ok(packed);
            }
        }
        footer.push_to(raw);
        Ok(raw)
    }

    /// How the block of a record came to this host, where it goes on as it is: what was read of it just now
    /// has the digest with which that was verified.
    fn packed_before(&self, job: &Job, footer: &Footer) -> Option<Arc<PackedBlock>> {
        let Job::Run { blocks, .. } = job else { return None };
        let is_one = footer.kind == Kind::Block && blocks.end - blocks.start == 1;
        self.shared.feed.get().filter(|_| is_one)?.packed(&footer.digest)
    }

    /// Reads and digests blocks; what their record is about is in the first buffer then.
    fn take_blocks(
        &self,
        file: &Arc<SourceFile>,
        blocks: &Range<u64>,
        form: Form,
        (raw, packed): (&mut Vec<u8>, &mut Vec<u8>),
        clock: &StageClock,
    ) -> Result<Footer, Failure> {
        let (mut digest, root) = if form == Form::Hole {
            raw.clear();
            ([0; 32], file.hash_hole(blocks))
        } else {
            file.read(blocks, raw)?;
            clock.enter(Stage::Verify);
            file.hash(blocks, raw)
        };
        if root.is_some() && file.growing().is_some() {
            self.offers.conclude(file);
        } else {
            self.end(file, root)?;
        }
        let mut kind = Kind::Block;
        let mut length = raw.len() as u32;
        // A file system that cannot tell its holes has zeros in their place.
        if form == Form::Hole || form == Form::Packed && file.has_holes() && is_zero(raw) {
            raw.clear();
            kind = Kind::Hole;
            digest = [0; 32];
            length = (blocks.end - blocks.start) as u32;
        } else if form == Form::Packed
            && let Some(steps) = file.instructions(blocks.start, &|bytes| _ = self.shared.counts.reads(bytes))
        {
            patch::write(&steps, raw, packed);
            std::mem::swap(raw, packed);
            kind = Kind::Patch;
            length = raw.len() as u32;
        }
        let offset = file.extent(blocks).start;
        Ok(Footer { kind, codec: 0, raw: length, file: file.id, offset, digest })
    }

    /// Reads and digests what is in a batch.
    fn take_batch(
        &self,
        batch: &Batch,
        (raw, packed): (&mut Vec<u8>, &mut Vec<u8>),
        clock: &StageClock,
    ) -> Footer {
        let whole = self.shared.options.whole_or_nothing;
        batch::fill(batch, (raw, packed), &self.shared.failed_names, whole, |item, told| match told {
            ReportedEntry::Failed(failure) => {
                self.shared.cannot_pass_on(&failure);
                batch.failed().push(item.number);
                self.shared.lose(&item.entry, item.number);
                self.shared.unread(item.entry.name.clone(), failure)
            }
            ReportedEntry::Vanished(failure) => {
                batch.failed().push(item.number);
                self.shared.lose(&item.entry, item.number);
                self.shared.vanished(item.entry.name.clone(), failure);
            }
            ReportedEntry::Longer => self.grew(&item.entry),
        });
        clock.enter(Stage::Verify);
        let digest = *blake3::hash(raw).as_bytes();
        Footer { kind: Kind::Batch, codec: 0, raw: raw.len() as u32, file: batch.id, offset: 0, digest }
    }

    /// Reads what the other end kept of a file ([`Shared::reread`]).
    pub(super) fn reread(&self, file: &Arc<SourceFile>) {
        let reads = |bytes| _ = self.shared.counts.reads(bytes);
        let ended = file.reread(&self.shared.over, &reads).and_then(|root| self.end(file, root));
        if let Err(failure) = ended {
            self.offers.give_up(file, failure);
        }
    }

    /// Ends a file of which all was read, if it is still what was offered.
    fn end(&self, file: &Arc<SourceFile>, root: Option<Digest>) -> Result<(), Failure> {
        let Some(root) = root else { return Ok(()) };
        self.check(file, &root)?;
        self.offers.end_well(file, root);
        Ok(())
    }

    /// Whether all of a file may go, now that it was read.
    fn check(&self, file: &SourceFile, root: &Digest) -> Result<(), Failure> {
        match file.check(root, &self.shared.over)? {
            Rest::Same => Ok(()),
            Rest::Longer if self.shared.options.whole_or_nothing => {
                Err(file.changed("grew while it was read"))
            }
            Rest::Longer => {
                self.grew(&file.entry);
                Ok(())
            }
        }
    }

    /// What is there of a file that was written on meanwhile is as long as it was at the start.
    fn grew(&self, entry: &Entry) {
        let words = format!(
            "{} grew during the copy: its first {} bytes, its length at the start, were copied",
            entry.name,
            entry.size()
        );
        let failure = Failure::new(FailureKind::Changed, words);
        self.shared.events.problem(Problem { name: entry.name.clone(), failure, harmless: true });
    }

    /// Seals and sends on the next free lane; false when it is over.
    fn send(&self, job: Job, plain: &mut Vec<u8>, clock: &StageClock) -> bool {
        if !self.pace(plain.len() as u64, clock) {
            return false;
        }
        clock.enter(Stage::Turn);
        let Some(mut lane) = self.lanes.take() else { return false };
        clock.enter(Stage::Encrypt);
        let sequence = lane.next();
        let header = lane.seal(plain);
        self.shared.counts.packed.fetch_add(plain.len() as u64, Relaxed);
        // Known before it is sent, since the answer may come before this thread runs again.
        self.shared.queue.sent(lane.id, sequence, job);
        clock.enter(Stage::Send);
        self.lanes.send(lane, &header, plain);
        true
    }

    /// Waits until so many bytes may go; false when all work ends first.
    fn pace(&self, bytes: u64, clock: &StageClock) -> bool {
        let Some(limiter) = &self.limiter else { return true };
        clock.enter(Stage::Limited);
        limiter.hold(bytes, |span| {
            std::thread::sleep(span);
            !self.shared.is_over()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{sender, waiting};
    use super::*;
    use crate::feed::Feed;
    use crate::subtrees::digest_of;

    /// One of which it is not known any more how it came is compressed here.
    #[test]
    fn a_block_that_came_compressed_goes_on_as_it_came() {
        let (folder, size) = (tempfile::tempdir().unwrap(), 3 * BLOCK);
        let mut text = "the same line again and again\n".repeat(size as usize / 30 + 1).into_bytes();
        text.truncate(size as usize);
        std::fs::write(folder.path().join("x"), &text).unwrap();
        let (sender, feed) = (sender(), Arc::new(Feed::default()));
        sender.follow(&feed);
        let file = Arc::new(SourceFile::new(1, waiting(folder.path(), size), None));
        let digest = digest_of(&text[..BLOCK as usize], 0, size);
        feed.keep_packed(PackedBlock { digest, codec: 3, bytes: b"as it came".to_vec() });
        let sent = |block: u64| {
            let job = Job::Run { file: Arc::clone(&file), blocks: block..block + 1, form: Form::Packed };
            let mut buffers = Buffers { raw: Vec::new(), packed: Vec::new() };
            let clock = StageClock::new(Instant::now());
            let record = sender.workers.prepare(&job, None, &mut buffers, &clock).unwrap();
            let (payload, footer) = Footer::split(record).unwrap();
            (payload.to_vec(), footer.codec)
        };
        assert_eq!(sent(0), (b"as it came".to_vec(), 3));
        let (here, codec) = sent(1);
        assert!(codec != 0 && !here.is_empty() && here.len() < text.len() / 6, "{codec}");
        let shares = sender.shared.packer.shares();
        assert_eq!(shares.get(&(3, 0)).map(|share| share.packed), Some(10), "{shares:?}");
    }
}
