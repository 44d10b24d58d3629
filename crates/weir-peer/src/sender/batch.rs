//! Making a batch's bytes: the entries, then the contents of its files.

use weir_tree::Entry;

use super::queue::{Batch, Item};
use super::source::refresh;
use crate::wire::batch::{self, Member};
use crate::wire::message::{Failure, FailureKind};

/// How often a file that changes under the reader is read again.
const ATTEMPTS: u32 = 3;

/// Fills `raw` with the batch; `content` is for the contents meanwhile. Entries that cannot be read are told to `failed`.
pub(super) fn fill(
    batch: &Batch,
    raw: &mut Vec<u8>,
    content: &mut Vec<u8>,
    mut failed: impl FnMut(&Item, Failure),
) {
    content.clear();
    let mut members = Vec::with_capacity(batch.items.len());
    for item in &batch.items {
        let start = content.len();
        match member(item, content) {
            Ok(entry) => members.push(Member { entry, last: item.last, keep: item.keep.clone() }),
            Err(failure) => {
                content.truncate(start);
                failed(item, failure);
            }
        }
    }
    batch::write(&members, content, raw);
}

/// Reads the item's content, if it has one. Returns the entry as it was when it was read.
fn member(item: &Item, content: &mut Vec<u8>) -> Result<Entry, Failure> {
    let mut entry = item.entry.clone();
    let Some(from) = item.source.as_ref().filter(|_| entry.is_file()) else { return Ok(entry) };
    let start = content.len();
    for _ in 0..ATTEMPTS {
        content.truncate(start);
        let (file, unchanged) = from.read_small(&entry, content).map_err(|error| {
            let kind = if error.is_gone() { FailureKind::Changed } else { FailureKind::Local };
            Failure::new(kind, error.to_string())
        })?;
        if unchanged {
            return Ok(entry);
        }
        let size = entry.size();
        refresh(&mut entry, &file).map_err(Failure::local)?;
        // It has grown beyond its place in the batch.
        if entry.size() > size {
            break;
        }
    }
    let words = format!("{} changed while it was read; copy it when it rests", item.entry.name);
    Err(Failure::new(FailureKind::Changed, words))
}
