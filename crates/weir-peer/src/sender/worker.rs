//! One worker: from a job to a record on a lane.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use weir_model::chooser::Plan;
use weir_observe::stage_clock::{Stage, StageClock};
use weir_tree::Entry;
use weir_tree::source::is_zero;

use super::batch::Told;
use super::job::{Batch, Form, Job};
use super::source::{Rest, SourceFile};
use super::{Sender, batch};
use crate::subtrees::{BLOCK, Digest};
use crate::wire::message::{Failure, FailureKind, Problem};
use crate::wire::patch;
use crate::wire::record::{FOOTER, Footer, Kind, TAG};

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
            if let Job::Survey { file, runs } = job {
                clock.enter(Stage::Read);
                let survey = file.survey(runs);
                self.queue.surveyed(&file, survey);
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
        if let Some(root) = root {
            self.check(file, &root)?;
            self.end_well(file, root);
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
            && let Some(steps) = file.instructions(blocks.start)
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
        Footer { kind: Kind::Batch, codec: 0, raw: raw.len() as u32, file: batch.id, offset: 0, digest }
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
            "{} grew during the copy: its first {} bytes, its length at the start, were copied",
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
