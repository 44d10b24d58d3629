//! Making a batch's bytes: the entries, then the contents of its files.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use weir_tree::{Entry, Kind};

use super::queue::{Batch, Item};
use super::source::refresh;
use crate::lost::Lost;
use crate::subtrees::BLOCK;
use crate::wire::batch::{self, Member};
use crate::wire::message::{Failure, FailureKind};

/// How often a file that changes under the reader is read again.
const ATTEMPTS: u32 = 3;

/// Fills `raw` with the batch; `content` is for the contents meanwhile. Entries that cannot be read, and second
/// names of what was `lost`, are told to `failed`.
pub(super) fn fill(
    batch: &Batch,
    raw: &mut Vec<u8>,
    content: &mut Vec<u8>,
    lost: &Lost,
    mut failed: impl FnMut(&Item, Failure),
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
        match allowed.and_then(|()| member(item, content, &mut room)) {
            Ok(entry) => members.push(Member { entry, last: item.last, keep: item.keep.clone() }),
            Err(failure) => {
                content.truncate(start);
                failed(item, failure);
            }
        }
    }
    batch::write(&members, content, raw);
}

/// Reads the item's content, if it has one. Returns the entry as it was when it was read. `room` is what the batch may hold
/// beyond what the sizes of its files say.
fn member(item: &Item, content: &mut Vec<u8>, room: &mut usize) -> Result<Entry, Failure> {
    let mut entry = item.entry.clone();
    let Some(from) = item.source.as_ref().filter(|_| entry.is_file()) else { return Ok(entry) };
    let start = content.len();
    for _ in 0..ATTEMPTS {
        content.truncate(start);
        let size = entry.size();
        // A file that says it is empty may have more: one byte beyond the room tells that it does not fit.
        let most = if size == 0 { *room + 1 } else { size as usize };
        let (file, rests) = from.read_small(&entry, most, content).map_err(|error| {
            let kind = if error.is_gone() { FailureKind::Changed } else { FailureKind::Local };
            Failure::new(kind, error.to_string())
        })?;
        let found = (content.len() - start) as u64;
        if rests && found == size {
            return Ok(entry);
        }
        if rests && is_made_up(&file, size, found) {
            return made_up(entry, found, room);
        }
        refresh(&mut entry, &file).map_err(Failure::local)?;
        // It has grown beyond its place in the batch.
        if entry.size() > size {
            break;
        }
    }
    let words = format!("{} changed while it was read; copy it when it rests", item.entry.name);
    Err(Failure::new(FailureKind::Changed, words))
}

/// Whether a file that rests has another length than it says because its file system makes it up when it is read, as /proc
/// (size 0) and /sys (size 4096) do: such files take no room on any disk.
fn is_made_up(file: &File, size: u64, found: u64) -> bool {
    let blocks = file.metadata().map_or(1, |now| now.blocks());
    blocks == 0 && if size == 0 { found > 0 } else { found < size }
}

/// The entry of such a file: as long as what was read.
fn made_up(mut entry: Entry, found: u64, room: &mut usize) -> Result<Entry, Failure> {
    let beyond = (found as usize).saturating_sub(entry.size() as usize);
    if beyond > *room {
        let words =
            format!("{} says that it is empty and has more than fits; copy what cat makes of it", entry.name);
        return Err(Failure::new(FailureKind::Local, words));
    }
    *room -= beyond;
    entry.kind = Kind::File { size: found, sparse: false };
    Ok(entry)
}
