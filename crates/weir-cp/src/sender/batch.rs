//! Making a batch's bytes: the entries, then the contents of its files.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

use weir_tree::{Entry, Kind, TreeError};

use super::job::{Batch, Item};
use super::source::{Rest, refresh};
use crate::failed_names::FailedNames;
use crate::subtrees::BLOCK;
use crate::wire::batch::{self, Member};
use crate::wire::message::{Failure, FailureKind};

/// How often a file that changes under the reader is read again.
const ATTEMPTS: u32 = 3;

/// What is worth a word about an entry.
#[derive(Debug)]
pub(super) enum ReportedEntry {
    /// It cannot be read, or is a second name of what was lost.
    Failed(Failure),
    /// It is gone since the walk saw it in a listing.
    Vanished(Failure),
    /// It was written on behind its end meanwhile, and is there as long as it was.
    Longer,
}

impl From<Failure> for ReportedEntry {
    fn from(failure: Failure) -> ReportedEntry {
        ReportedEntry::Failed(failure)
    }
}

/// Fills `raw` with the batch; `content` is for the contents meanwhile. A file that only became longer is
/// taken as long as it was, unless it is to be `whole`.
pub(super) fn fill(
    batch: &Batch,
    (raw, content): (&mut Vec<u8>, &mut Vec<u8>),
    lost: &FailedNames,
    whole: bool,
    mut tell: impl FnMut(&Item, ReportedEntry),
) {
    content.clear();
    let mut room = (BLOCK as usize).saturating_sub(batch.size);
    let mut members = Vec::with_capacity(batch.items.len());
    for item in &batch.items {
        let start = content.len();
        let allowed = match &item.entry.kind {
            Kind::HardLink { to } => lost.check(&item.entry.name, to, item.number),
            _ => Ok(()),
        };
        match allowed.map_err(ReportedEntry::from).and_then(|()| member(item, content, &mut room, whole)) {
            Ok((_, _)) if item.due.is_some_and(|due| *blake3::hash(&content[start..]).as_bytes() != due) => {
                let words = format!("{} is not what came here; copy it again", item.entry.name);
                content.truncate(start);
                tell(item, ReportedEntry::Failed(Failure::new(FailureKind::Verification, words)));
            }
            Ok((entry, rest)) => {
                if rest == Rest::Longer {
                    tell(item, ReportedEntry::Longer);
                }
                members.push(Member { entry, last: item.last, keep: item.keep.clone() });
            }
            Err(told) => {
                content.truncate(start);
                tell(item, told);
            }
        }
    }
    batch::write(&members, content, raw);
}

/// Reads the item's content, if it has one. Returns the entry as it was when it was read. `room` is what the
/// batch may hold beyond what the sizes of its files say.
fn member(
    item: &Item,
    content: &mut Vec<u8>,
    room: &mut usize,
    whole: bool,
) -> Result<(Entry, Rest), ReportedEntry> {
    let mut entry = item.entry.clone();
    let Some(from) = item.source.as_ref().filter(|_| entry.is_file()) else { return Ok((entry, Rest::Same)) };
    let start = content.len();
    for _ in 0..ATTEMPTS {
        content.truncate(start);
        let size = entry.size();
        // A file that says it is empty may have more: one byte beyond the room tells that it does not fit.
        let most = if size == 0 { *room + 1 } else { size as usize };
        let (file, rests) = from.read_small(&entry, most, content).map_err(|error| match error {
            TreeError::Vanished { .. } => ReportedEntry::Vanished(Failure::of_source(&error)),
            error => ReportedEntry::Failed(Failure::of_source(&error)),
        })?;
        let found = (content.len() - start) as u64;
        if rests && found == size {
            return Ok((entry, Rest::Same));
        }
        if rests && is_made_up(&file, size, found) {
            return Ok((made_up(entry, found, room)?, Rest::Same));
        }
        if !whole && found == size && is_only_longer(&file, &content[start..]) {
            return Ok((entry, Rest::Longer));
        }
        refresh(&mut entry, &file).map_err(Failure::local)?;
        // It has grown beyond its place in the batch.
        if entry.size() > size {
            break;
        }
    }
    let words = format!("{} changed while it was read; copy it when it rests", item.entry.name);
    Err(Failure::new(FailureKind::Changed, words).into())
}

/// Whether a file begins with what was read of it, and has more by now: then it was only written behind that.
fn is_only_longer(file: &File, read: &[u8]) -> bool {
    let mut again = vec![0; read.len()];
    file.metadata().is_ok_and(|now| now.size() > read.len() as u64)
        && file.read_exact_at(&mut again, 0).is_ok()
        && again == read
}

/// Whether a file that rests has another length than it says because its file system makes it up when it is
/// read, as /proc (size 0) and /sys (size 4096) do: such files take no room on any disk.
fn is_made_up(file: &File, size: u64, found: u64) -> bool {
    let blocks = file.metadata().map_or(1, |now| now.blocks());
    blocks == 0 && if size == 0 { found > 0 } else { found < size }
}

/// The entry of such a file: as long as what was read.
fn made_up(mut entry: Entry, found: u64, room: &mut usize) -> Result<Entry, Failure> {
    let beyond = (found as usize).saturating_sub(entry.size() as usize);
    if beyond > *room {
        let words = format!("{} reports a size of 0 and is too large; copy the output of cat", entry.name);
        return Err(Failure::new(FailureKind::Local, words));
    }
    *room -= beyond;
    entry.kind = Kind::File { size: found, sparse: false };
    Ok(entry)
}
