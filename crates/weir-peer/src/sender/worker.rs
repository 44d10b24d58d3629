//! One worker: from a job to a record on a lane.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use weir_transfer::stage_clock::{Stage, StageClock};

use super::queue::Job;
use super::{Sender, batch};
use crate::subtrees::digest_of;
use crate::wire::message::Failure;
use crate::wire::patch;
use crate::wire::record::{FOOTER, Footer, HOLE, Kind, TAG};

/// The buffers of a worker: they grow to a block each, once.
struct Buffers {
    raw: Vec<u8>,
    packed: Vec<u8>,
}

impl Sender {
    pub(super) fn work(&self, clock: &StageClock) {
        let room = crate::subtrees::BLOCK as usize + FOOTER + TAG;
        let mut buffers = Buffers { raw: Vec::with_capacity(room), packed: Vec::new() };
        loop {
            clock.enter(Stage::Turn);
            let Some(_inside) = self.gate.enter() else { return };
            clock.enter(Stage::Idle);
            let Some(job) = self.queue.claim() else { return };
            match self.prepare(&job, &mut buffers, clock) {
                Ok(plain) => {
                    if !self.send(job, plain, clock) {
                        return;
                    }
                }
                Err(failure) => {
                    if let Job::Block { file, .. } = &job {
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
        buffers: &'a mut Buffers,
        clock: &StageClock,
    ) -> Result<&'a mut Vec<u8>, Failure> {
        let Buffers { raw, packed } = buffers;
        clock.enter(Stage::Read);
        let mut footer = match job {
            Job::Block { file, index, plain } => {
                file.read(*index, raw)?;
                clock.enter(Stage::Verify);
                let digest = digest_of(raw, *index, file.entry.size());
                if let Some(root) = file.hashed(*index, digest) {
                    file.check()?;
                    self.end_well(file, root);
                }
                let offset = file.extent(*index).start;
                let mut footer = Footer {
                    kind: Kind::Block,
                    codec: 0,
                    raw: raw.len() as u32,
                    file: file.id,
                    offset,
                    digest,
                };
                if file.is_hole(*index) && !plain {
                    footer.codec = HOLE;
                    raw.clear();
                    footer.push_to(raw);
                    return Ok(raw);
                }
                if let Some(steps) = Some(()).filter(|()| !plain).and_then(|()| file.instructions(*index)) {
                    patch::write(&steps, raw, packed);
                    std::mem::swap(raw, packed);
                    footer.kind = Kind::Patch;
                    footer.raw = raw.len() as u32;
                }
                footer
            }
            Job::Batch(batch) => {
                batch::fill(batch, raw, packed, &self.lost, |item, failure| {
                    batch.failed().push(item.number);
                    self.lose(&item.entry, item.number);
                    self.unread(item.entry.name.clone(), failure)
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
            if let Some(codec) = self.packer.pack(raw, packed) {
                footer.codec = codec;
                footer.push_to(packed);
                return Ok(packed);
            }
        }
        footer.push_to(raw);
        Ok(raw)
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
