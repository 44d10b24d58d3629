//! One worker: from a job to a record on a lane.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use weir_model::chooser::Plan;
use weir_transfer::stage_clock::{Stage, StageClock};
use weir_tree::Entry;

use super::batch::Told;
use super::queue::Job;
use super::source::{Rest, SourceFile};
use super::{Sender, batch};
use crate::subtrees::{BLOCK, Digest};
use crate::wire::message::{Failure, FailureKind, Problem};
use crate::wire::patch;
use crate::wire::record::{FOOTER, Footer, HOLE, Kind, TAG};

/// Room for a record of one block; a codec's worst case and a batch of small files take a little more.
const SINGLE: usize = BLOCK as usize + FOOTER + TAG;

/// The buffers of a worker: they grow to what its records carry.
struct Buffers {
    raw: Vec<u8>,
    packed: Vec<u8>,
}

impl Sender {
    /// Does what there is to do, as worker `number`.
    pub(super) fn work(&self, number: u32, clock: &StageClock) {
        let mut buffers = Buffers { raw: Vec::with_capacity(SINGLE), packed: Vec::new() };
        loop {
            clock.enter(Stage::Turn);
            if !self.gate.admits(number) {
                return;
            }
            clock.enter(Stage::Idle);
            let mut plan = None;
            let longest = || plan.insert(self.packer.plan()).run;
            let Some(job) = self.queue.claim(longest) else { return };
            match self.prepare(&job, plan, &mut buffers, clock) {
                Ok(plain) => {
                    if !self.send(job, plain, clock) {
                        return;
                    }
                }
                Err(failure) => {
                    if let Job::Run { file, .. } = &job {
                        self.give_up(file, failure);
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
            Job::Run { file, blocks, plain } => {
                file.read(blocks, raw)?;
                clock.enter(Stage::Verify);
                let (digest, root) = file.hash(blocks, raw);
                if let Some(root) = root {
                    self.check(file, &root)?;
                    self.end_well(file, root);
                }
                let offset = file.extent(blocks).start;
                let mut footer = Footer {
                    kind: Kind::Block,
                    codec: 0,
                    raw: raw.len() as u32,
                    file: file.id,
                    offset,
                    digest,
                };
                // Of a file that has holes, or another version at the target, each block goes by itself.
                if file.is_hole(blocks.start) && !plain {
                    footer.codec = HOLE;
                    raw.clear();
                    footer.push_to(raw);
                    return Ok(raw);
                }
                let steps = if *plain { None } else { file.instructions(blocks.start) };
                if let Some(steps) = steps {
                    patch::write(&steps, raw, packed);
                    std::mem::swap(raw, packed);
                    footer.kind = Kind::Patch;
                    footer.raw = raw.len() as u32;
                }
                footer
            }
            Job::Batch(batch) => {
                let whole = self.options.whole_or_nothing;
                batch::fill(batch, (raw, packed), &self.lost, whole, |item, told| match told {
                    Told::Failed(failure) => {
                        batch.failed().push(item.number);
                        self.lose(&item.entry, item.number);
                        self.unread(item.entry.name.clone(), failure)
                    }
                    Told::Longer => self.grew(&item.entry),
                });
                clock.enter(Stage::Verify);
                let digest = *blake3::hash(raw).as_bytes();
                Footer {
                    kind: Kind::Batch,
                    codec: 0,
                    raw: raw.len() as u32,
                    file: batch.id,
                    offset: 0,
                    digest,
                }
            }
        };
        if !job.is_plain() {
            clock.enter(Stage::Compress);
            let plan = plan.unwrap_or_else(|| self.packer.plan());
            if let Some(codec) = self.packer.pack(&plan, raw, packed) {
                footer.codec = codec;
                footer.push_to(packed);
                return Ok(packed);
            }
        }
        footer.push_to(raw);
        Ok(raw)
    }

    /// Whether all of a file may go, now that it was read.
    fn check(&self, file: &SourceFile, root: &Digest) -> Result<(), Failure> {
        match file.check(root, &self.over)? {
            Rest::Same => Ok(()),
            Rest::Longer if self.options.whole_or_nothing => Err(file.changed("grew while it was read")),
            Rest::Longer => {
                self.grew(&file.entry);
                Ok(())
            }
        }
    }

    /// What is there of a file that was written on meanwhile is as long as it was at the start.
    fn grew(&self, entry: &Entry) {
        let words = format!(
            "{} grew while it was copied: its first {} bytes, all that it had at the start, are there",
            entry.name,
            entry.size()
        );
        let failure = Failure::new(FailureKind::Changed, words);
        self.events.problem(Problem { name: entry.name.clone(), failure, harmless: true });
    }

    /// Seals and sends on the next free lane; false when it is over.
    fn send(&self, job: Job, plain: &mut Vec<u8>, clock: &StageClock) -> bool {
        self.pace(plain.len() as u64, clock);
        clock.enter(Stage::Turn);
        let Some(mut lane) = self.lanes.take() else { return false };
        clock.enter(Stage::Encrypt);
        let sequence = lane.next();
        let header = lane.seal(plain);
        self.counts.packed.fetch_add(plain.len() as u64, Relaxed);
        // Known before it is sent, since the answer may come before this thread runs again.
        self.queue.sent(lane.id, sequence, job);
        self.silence.sending(lane.id, header.len() + plain.len());
        clock.enter(Stage::Send);
        match lane.send(&header, plain) {
            Ok(()) => self.lanes.give_back(lane),
            Err(error) => {
                lane.close();
                self.lane_lost(lane.id, &weir_units::plain(&error));
            }
        }
        true
    }

    fn pace(&self, bytes: u64, clock: &StageClock) {
        if let Some(limiter) = &self.limiter {
            clock.enter(Stage::Limited);
            std::thread::sleep(limiter.book(bytes, Instant::now()));
        }
    }
}
