//! What becomes of an opened record.

use std::sync::atomic::Ordering::Relaxed;

use weir_codec::codec::Codec;
use weir_observe::thread::thread_cpu_now;
use weir_transfer::stage_clock::{Stage, StageClock};
use weir_tree::Kind;

use super::{Place, Receiver};
use crate::wire::batch::{self, Member};
use crate::wire::message::{Failure, Message};
use crate::wire::record::{self, Footer, Malformed};

/// The buffers of a thread.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    raw: Vec<u8>,
}

impl Receiver {
    /// Does what a record says. What is wrong with one file or entry is told and is no error.
    pub(super) fn store(
        &self,
        lane: u32,
        sequence: u64,
        plain: &[u8],
        buffers: &mut Buffers,
        clock: &StageClock,
    ) -> Result<(), Malformed> {
        let (payload, footer) = Footer::split(plain)?;
        clock.enter(Stage::Decompress);
        let raw = match footer.codec {
            0 => payload,
            id => {
                let unpacked =
                    Codec::by_id(id).ok_or("a codec that does not exist".to_owned()).and_then(|codec| {
                        let done = codec.decompress(payload, footer.raw as usize, &mut buffers.raw);
                        done.map_err(|error| error.to_string())
                    });
                if let Err(why) = unpacked {
                    self.control.send(&Message::Again(lane, sequence, why));
                    return Ok(());
                }
                &buffers.raw[..]
            }
        };
        match footer.kind {
            record::Kind::Hello => Ok(()),
            record::Kind::Block => {
                self.store_block(lane, sequence, &footer, raw, clock);
                Ok(())
            }
            record::Kind::Batch => self.store_batch(lane, sequence, &footer, raw, clock),
            record::Kind::Patch => Err(Malformed::Footer),
        }
    }

    fn store_block(&self, lane: u32, sequence: u64, footer: &Footer, raw: &[u8], clock: &StageClock) {
        // Of a file that has ended: a block that came twice, or of one that was given up.
        let Some(file) = self.files().get(&footer.file).cloned() else { return };
        clock.enter(Stage::Verify);
        if !file.verify(footer.offset, raw, &footer.digest) {
            let why = format!("{}: the block at {} does not have its digest", file.entry.name, footer.offset);
            self.control.send(&Message::Again(lane, sequence, why));
            return;
        }
        clock.enter(Stage::Write);
        let before = thread_cpu_now();
        let progress = file.write(footer.offset, raw, &footer.digest);
        clock.add_write_cpu(thread_cpu_now().saturating_sub(before));
        self.counts.bytes.fetch_add(raw.len() as u64, Relaxed);
        clock.enter(Stage::Other);
        self.advance(footer.file, &file, progress);
    }

    fn store_batch(
        &self,
        lane: u32,
        sequence: u64,
        footer: &Footer,
        raw: &[u8],
        clock: &StageClock,
    ) -> Result<(), Malformed> {
        clock.enter(Stage::Verify);
        if *blake3::hash(raw).as_bytes() != footer.digest {
            self.control.send(&Message::Again(lane, sequence, "a batch does not have its digest".to_owned()));
            return Ok(());
        }
        let place = self.place.get().ok_or(Malformed::Footer)?;
        let (members, mut contents) = batch::parse(raw).map_err(|_| Malformed::Footer)?;
        clock.enter(Stage::Write);
        for member in &members {
            // batch::parse has checked that the sizes add up.
            let (content, rest) = contents.split_at(member.entry.size() as usize);
            contents = rest;
            if let Err(failure) = self.place_member(place, member, content) {
                self.problem(member.entry.name.clone(), failure, false);
            }
        }
        Ok(())
    }

    fn place_member(&self, place: &Place, member: &Member, content: &[u8]) -> Result<(), Failure> {
        let entry = &member.entry;
        place.admits(&entry.name)?;
        let target = &place.target;
        let done = match &entry.kind {
            Kind::Directory if member.last => target.finish_directory(entry),
            Kind::Directory => target.directory(&entry.name),
            Kind::File { .. } => target.small(entry, content),
            Kind::Symlink { .. } => target.symlink(entry),
            Kind::HardLink { to } => {
                place.admits(to)?;
                target.hard_link(entry)
            }
            Kind::Special(special) => {
                return Err(Failure::local(format_args!(
                    "{} is {} and is not written",
                    entry.name,
                    special.words()
                )));
            }
        };
        done.map_err(Failure::local)?;
        if entry.is_file() {
            self.counts.files.fetch_add(1, Relaxed);
            self.counts.bytes.fetch_add(entry.size(), Relaxed);
        } else if !member.last {
            self.counts.others.fetch_add(1, Relaxed);
        }
        Ok(())
    }
}
