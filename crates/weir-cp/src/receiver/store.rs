//! What becomes of an opened record.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

use rustix::process::geteuid;
use weir_codec::codec::Codec;
use weir_observe::stage_clock::{Stage, StageClock};
use weir_observe::thread::thread_cpu_now;
use weir_tree::destination::KeepSet;
use weir_tree::entry::Special;
use weir_tree::{Entry, Kind, Name};

use super::{CopyDestination, Receiver};
use crate::subtrees::BLOCK;
use crate::wire::batch::{self, Keep, Member};
use crate::wire::message::{Failure, FailureKind};
use crate::wire::record::{self, Footer, Malformed};
use crate::wire::to_sender::ToSender;

/// The buffers of a thread.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    raw: Vec<u8>,
    built: Vec<u8>,
}

/// Why something was not put.
#[derive(Debug)]
struct Unplaced {
    failure: Failure,
    /// Something of another kind is in its place, or on the way there.
    of_another_kind: bool,
    /// A folder that it is, or would be in, cannot be made or reached.
    on_the_way: bool,
}

impl From<Failure> for Unplaced {
    fn from(failure: Failure) -> Unplaced {
        Unplaced { failure, of_another_kind: false, on_the_way: false }
    }
}

/// Names in one message: with 4 KiB each, the longest, it fits.
const MAX_UNPLACED: usize = 512;

/// Names of folders that are told part by part, in all: 8 bytes each, and more than a folder of any file
/// system is of use with.
const MAX_KEPT: usize = 1 << 24;

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
                    self.sender.send(&ToSender::Again(lane, sequence, why));
                    return Ok(());
                }
                &buffers.raw[..]
            }
        };
        match footer.kind {
            record::Kind::Hello => Ok(()),
            record::Kind::Block => {
                let packed = (footer.codec != 0).then_some(payload);
                self.store_blocks(lane, sequence, &footer, (raw, packed), clock);
                Ok(())
            }
            record::Kind::Hole => {
                self.store_hole(lane, sequence, &footer, clock);
                Ok(())
            }
            record::Kind::Batch => self.store_batch(lane, sequence, &footer, raw, clock),
            record::Kind::Patch => {
                self.store_patch(lane, sequence, &footer, raw, &mut buffers.built, clock);
                Ok(())
            }
        }
    }

    /// `packed`: how `raw` came, if it was compressed.
    fn store_blocks(
        &self,
        lane: u32,
        sequence: u64,
        footer: &Footer,
        (raw, packed): (&[u8], Option<&[u8]>),
        clock: &StageClock,
    ) {
        // Of a file that has ended: a block that came twice, or of one that was given up.
        let Some(file) = self.files().get(&footer.file).cloned() else { return };
        clock.enter(Stage::Verify);
        let Some(values) = file.verify(footer.offset, raw, &footer.digest) else {
            let why = format!("{}: the block at {} does not have its digest", file.entry.name, footer.offset);
            self.sender.send(&ToSender::Again(lane, sequence, why));
            return;
        };
        if let (Some(packed), [_]) = (packed, &values[..]) {
            file.pass_packed(footer, packed);
        }
        let offsets = (footer.offset..).step_by(BLOCK as usize);
        for ((block, value), offset) in raw.chunks(BLOCK as usize).zip(&values).zip(offsets) {
            clock.enter(Stage::Write);
            let before = thread_cpu_now();
            let progress = file.write(offset, block, value);
            clock.add_write_cpu(thread_cpu_now().saturating_sub(before));
            if let Ok((_, true)) = progress {
                self.counts.moves(block.len() as u64);
            }
            clock.enter(Stage::Other);
            let failed = progress.is_err();
            self.advance(footer.file, &file, progress.map(|(progress, _)| progress));
            if failed {
                return;
            }
        }
    }

    fn store_hole(&self, lane: u32, sequence: u64, footer: &Footer, clock: &StageClock) {
        let Some(file) = self.files().get(&footer.file).cloned() else { return };
        let Some(run) = file.hole(footer.offset, footer.raw) else {
            let why = format!("{} can have no hole at {}", file.entry.name, footer.offset);
            self.sender.send(&ToSender::Again(lane, sequence, why));
            return;
        };
        clock.enter(Stage::Write);
        let progress = file.write_hole(&run);
        if let Ok((_, bytes)) = &progress {
            self.counts.moves(*bytes);
        }
        clock.enter(Stage::Other);
        self.advance(footer.file, &file, progress.map(|(progress, _)| progress));
    }

    fn store_patch(
        &self,
        lane: u32,
        sequence: u64,
        footer: &Footer,
        raw: &[u8],
        built: &mut Vec<u8>,
        clock: &StageClock,
    ) {
        let Some(file) = self.files().get(&footer.file).cloned() else { return };
        match file.build(raw, built) {
            Ok(()) => self.store_blocks(lane, sequence, footer, (built, None), clock),
            Err(why) => {
                self.sender.send(&ToSender::Again(lane, sequence, format!("{}: {why}", file.entry.name)))
            }
        }
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
            self.sender.send(&ToSender::Again(lane, sequence, "a batch does not have its digest".to_owned()));
            return Ok(());
        }
        let place = self.place.get().ok_or(Malformed::Footer)?;
        let (mut members, mut contents) = batch::parse(raw).map_err(|_| Malformed::Footer)?;
        let Some(_turn) = self.batches.turn(footer.file)? else { return Ok(()) };
        clock.enter(Stage::Write);
        // Who passes them on tells of the source's owners.
        let owners: Vec<_> = members.iter().map(|member| (member.entry.uid, member.entry.gid)).collect();
        members.iter_mut().for_each(|member| self.give(&mut member.entry));
        let mut unplaced = Vec::new();
        for (member, owner) in members.iter().zip(owners) {
            // batch::parse has checked that the sizes add up.
            let (content, rest) = contents.split_at(member.entry.size() as usize);
            contents = rest;
            let (entry, last) = (&member.entry, member.last);
            match self.place_member(place, member, content) {
                Ok(true) => self.passing.placed(member, owner, content),
                Ok(false) => {
                    self.passing.not_placed(entry);
                    unplaced.push(&entry.name);
                }
                Err(Unplaced { failure, on_the_way, .. }) => {
                    self.passing.lacks(&failure);
                    unplaced.push(&entry.name);
                    self.failed_names.note(&entry.name, 0);
                    if !(on_the_way && self.is_barred(place, entry, last, &failure)) {
                        self.problem(entry.name.clone(), failure, false);
                    }
                }
            }
        }
        self.say_unplaced(place, &members, unplaced);
        Ok(())
    }

    /// What of a batch is not in its place, or not on its disk: a sender that removes what has arrived hears
    /// it first.
    fn say_unplaced<'a>(&self, place: &CopyDestination, members: &'a [Member], mut unplaced: Vec<&'a Name>) {
        if !self.options.selection.remove_source_files || self.options.dry_run {
            return;
        }
        let all = members.iter().map(|member| &member.entry).filter(|entry| !entry.is_directory());
        let mut all: Vec<&Name> = all.map(|entry| &entry.name).collect();
        let lacking: HashSet<&Name> = unplaced.iter().copied().collect();
        let placed = all.iter().copied().filter(|name| !lacking.contains(name));
        if let Err(error) = place.target.make_names_durable(placed) {
            self.problem(Name::root(), Failure::local(error), false);
            unplaced.append(&mut all);
        }
        for piece in unplaced.chunks(MAX_UNPLACED) {
            self.sender.send(&ToSender::Unplaced(piece.iter().copied().cloned().collect()));
        }
    }

    /// Whether it is there now; not what is left as it is, or is told as a problem here.
    fn place_member(
        &self,
        place: &CopyDestination,
        member: &Member,
        content: &[u8],
    ) -> Result<bool, Unplaced> {
        let entry = &member.entry;
        place.admits(&entry.name)?;
        if self.barred.holds(entry, member.last) || self.leaves(place, entry) {
            return Ok(false);
        }
        let will_go = self.options.dry_run && self.would_make_way(place, entry, !member.last)?;
        if self.options.dry_run && !will_go && self.would_be_barred(place, entry, member.last) {
            return Ok(false);
        }
        if !will_go
            && let Some(keep) = &member.keep
            && let Err(failure) = self.remove_others(place, &entry.name, keep)
        {
            // The folder gets its own attributes all the same.
            self.problem(entry.name.clone(), failure, false);
        }
        // A folder's own word is its first: its time is another after something was put into it.
        let change = if member.last { None } else { self.change_of(place, entry) };
        if self.options.dry_run {
            self.tell_copy(entry, change);
            return Ok(false);
        }
        if member.keep.as_ref().is_some_and(|keep| keep.more) {
            return Ok(true);
        }
        place.begin_folder(&self.options.command);
        if let Some(failure) = self.passed_over(entry) {
            // What the user has named has failed; in a folder it is passed over.
            let harmless = !place.roots.contains(&entry.name);
            self.problem(entry.name.clone(), failure, harmless);
            return Ok(false);
        }
        let replaces_newer = self.replaces_newer(place, entry);
        match self.put(place, member, content) {
            Err(Unplaced { of_another_kind: true, .. }) if self.options.delete => {
                self.make_way(place, entry)?;
                self.put(place, member, content)?;
            }
            other => other?,
        }
        self.count_newer(replaces_newer);
        self.tell_copy(entry, change);
        if entry.is_file() {
            self.counts.files.fetch_add(1, Relaxed);
            self.counts.moves(entry.size());
        } else if !member.last {
            self.counts.others.fetch_add(1, Relaxed);
        }
        Ok(true)
    }

    /// Why a node that was asked for by `-a` is none for this user to make.
    fn passed_over(&self, entry: &Entry) -> Option<Failure> {
        let Kind::Special(special) = entry.kind else { return None };
        let asked = self.options.asks_for(special) && !geteuid().is_root();
        let way_out = match special {
            Special::Fifo if self.options.specials => return None,
            Special::Fifo => "-a makes it where root receives, --specials for others too",
            _ => "only root makes it",
        };
        let words = format_args!("{} is {} and is not copied: {way_out}", entry.name, special.words());
        asked.then(|| Failure::local(words))
    }

    fn put(&self, place: &CopyDestination, member: &Member, content: &[u8]) -> Result<(), Unplaced> {
        let (target, entry) = (&place.target, &member.entry);
        let done = match &entry.kind {
            Kind::Directory if member.last => target.finish_directory(entry),
            Kind::Directory => target.begin_directory(entry),
            Kind::File { .. } => target.small(entry, content),
            Kind::Symlink { .. } => target.symlink(entry),
            Kind::HardLink { to } => {
                place.admits(to)?;
                self.failed_names.check(&entry.name, to, u64::MAX)?;
                if self.left.has(to) {
                    let words = format_args!(
                        "{} is a second name of {to}, which is left as it is at the target; copy it by itself",
                        entry.name
                    );
                    return Err(Failure::local(words).into());
                }
                target.link_or_copy(entry, self.options.update && !self.options.checksum)
            }
            Kind::Special(special) if self.options.asks_for(*special) => target.special(entry),
            Kind::Special(special) => {
                let words = format_args!("{} is {} and is not written", entry.name, special.words());
                return Err(Failure::local(words).into());
            }
        };
        done.map_err(|error| Unplaced {
            of_another_kind: error.is_barred(),
            on_the_way: error.is_on_the_way(),
            failure: self.disk.failure(error),
        })
    }

    /// Removes what bars the entry's place, being of another kind, where `--delete` was given.
    pub(super) fn make_way(&self, place: &CopyDestination, entry: &Entry) -> Result<(), Failure> {
        if self.obstacle(place, entry)?.is_none() {
            return Ok(());
        }
        // What one thread sees there another may be about to take away, and to put something in its place.
        let _turn = self.clearing.lock();
        match self.obstacle(place, entry)? {
            Some(obstacle) => self.remove_other(place, &obstacle).map_err(Failure::local),
            None => Ok(()),
        }
    }

    /// What `--delete` takes away for the entry: beneath a folder that is copied, for only there the source
    /// tells what is to be.
    pub(super) fn obstacle(&self, place: &CopyDestination, entry: &Entry) -> Result<Option<Name>, Failure> {
        if !self.options.delete || place.goes_on || self.disk.is_known() {
            return Ok(None);
        }
        let obstacle = place.target.obstacle(entry, &self.options.filter).map_err(Failure::local)?;
        Ok(obstacle
            .filter(|obstacle| place.roots.iter().any(|root| obstacle.is_within(root) && obstacle != root)))
    }

    /// Whether something of another kind is in the entry's place or on the way to it, which is told under its
    /// own name.
    pub(super) fn would_make_way(
        &self,
        place: &CopyDestination,
        entry: &Entry,
        tell: bool,
    ) -> Result<bool, Failure> {
        let obstacle = self.obstacle(place, entry)?;
        if let Some(obstacle) = obstacle.as_ref().filter(|obstacle| tell && **obstacle == entry.name) {
            self.remove_other(place, obstacle).map_err(Failure::local)?;
        }
        Ok(obstacle.is_some())
    }

    /// Removes what the source does not have in this folder, once all that it has is told.
    fn remove_others(&self, place: &CopyDestination, folder: &Name, keep: &Keep) -> Result<(), Failure> {
        // Only ever asked for by the user: a sender that deletes unasked is refused.
        if !self.options.delete {
            return Err(Failure::new(
                FailureKind::Session,
                "the other end wants to delete, which was not asked for",
            ));
        }
        if place.goes_on {
            return Ok(());
        }
        if self.disk.is_known() {
            if !self.said_kept.swap(true, Relaxed) {
                let words = format_args!(
                    "nothing was deleted from {folder} on, since the disk failed to take all that came"
                );
                self.problem(folder.clone(), Failure::local(words), true);
            }
            return Ok(());
        }
        let mut keeps = self.keeps.lock();
        let names: usize = keeps.values().flatten().map(KeepSet::len).sum();
        let mut told = Ok(());
        if names + keeps.len() + keep.names.len() > MAX_KEPT {
            let words = "the other end names more files of folders than can be: it lies, or is broken";
            told = Err(Failure::new(FailureKind::Session, words));
            // Whatever comes of this folder is not all of it any more.
            keeps.insert(folder.clone(), None);
        } else if let Some(keep_set) = keeps.entry(folder.clone()).or_insert_with(|| Some(KeepSet::default()))
        {
            keep_set.extend(keep.names.iter().map(Vec::as_slice));
        }
        if keep.more {
            return told;
        }
        let Some(mut keep_set) = keeps.remove(folder).flatten() else { return told };
        drop(keeps);
        let mut each = |extras: Vec<Name>| {
            for extra in extras {
                if place.spared.as_ref().is_some_and(|spared| spared.is_within(&extra)) {
                    continue;
                }
                // One that cannot be removed keeps no other.
                if let Err(error) = self.remove_other(place, &extra) {
                    self.problem(extra, Failure::local(error), false);
                }
            }
            Ok(())
        };
        let done = place.target.extras(folder, &mut keep_set, &self.options.filter, &mut each);
        done.map_err(Failure::local)
    }

    /// Removes what the source does not have, or tells that it would.
    fn remove_other(&self, place: &CopyDestination, extra: &Name) -> Result<(), weir_tree::TreeError> {
        let filter = &self.options.filter;
        if self.options.dry_run {
            let told = place.target.would_remove(extra.clone(), filter, |name| {
                let is_directory = place.target.has_directory(&name);
                self.tell_removal(name, is_directory);
                self.counts.deleted.fetch_add(1, Relaxed);
            })?;
            self.at_limit.fetch_add((!told).into(), Relaxed);
            return Ok(());
        }
        let is_directory = self.options.selection.itemize && place.target.has_directory(extra);
        let removed = place.target.remove(extra, filter)?;
        if removed.entries > 0 && !removed.stays {
            self.tell_removal(extra.clone(), is_directory);
        }
        self.counts.deleted.fetch_add(removed.entries, Relaxed);
        self.at_limit.fetch_add(removed.at_limit.into(), Relaxed);
        if removed.stays {
            let words = format_args!("{extra} stays: something in it is excluded, and so protected");
            self.problem(extra.clone(), Failure::local(words), true);
        }
        Ok(())
    }
}
