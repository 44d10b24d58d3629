//! The raw bytes of a batch: a length, the entries, the contents of its files one after another.

use serde::{Deserialize, Serialize};
use weir_tree::Entry;
use weir_tree::entry::MAX_COMPONENT;

/// A file of at most this many bytes travels in a batch, without an offer and an answer of its own.
pub(crate) const SMALL: u64 = 256 << 10;

/// Entries in a batch, at most.
pub const MAX_MEMBERS: usize = 4096;

/// An entry of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// What it is.
    pub entry: Entry,
    /// A folder whose attributes are to be set, since all in it is there.
    pub last: bool,
    /// With `last`: what is in it, part by part; the part without `more` ends it. What is not among it is to
    /// be removed.
    pub keep: Option<Keep>,
}

/// Names in a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// Their last components.
    pub names: Vec<Vec<u8>>,
    /// Another part follows.
    pub more: bool,
}

/// A batch that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a batch of unknown form")]
pub struct Malformed;

/// Writes a batch into `raw`.
pub fn write(members: &[Member], contents: &[u8], raw: &mut Vec<u8>) {
    raw.clear();
    raw.extend_from_slice(&[0; 4]);
    // Serialising into memory fails only for types without a length, of which there is none.
    *raw = postcard::to_extend(members, std::mem::take(raw)).expect("entries can be serialised");
    let length = (raw.len() - 4) as u32;
    raw[..4].copy_from_slice(&length.to_le_bytes());
    raw.extend_from_slice(contents);
}

/// Parts a batch into entries and contents. The sizes of its files are those of the contents, together and to
/// the byte.
pub fn parse(raw: &[u8]) -> Result<(Vec<Member>, &[u8]), Malformed> {
    let (length, rest) = raw.split_first_chunk::<4>().ok_or(Malformed)?;
    let length = u32::from_le_bytes(*length) as usize;
    let (entries, contents) = rest.split_at_checked(length).ok_or(Malformed)?;
    let (members, left) = postcard::take_from_bytes::<Vec<Member>>(entries).map_err(|_| Malformed)?;
    let mut sizes: u64 = 0;
    for member in &members {
        sizes = sizes.checked_add(member.entry.size()).ok_or(Malformed)?;
        let names = member.keep.iter().flat_map(|keep| &keep.names);
        // Of nothing there would be any number in a few bytes.
        if names.into_iter().any(|name| !(1..=MAX_COMPONENT).contains(&name.len())) {
            return Err(Malformed);
        }
    }
    let sound = left.is_empty() && members.len() <= MAX_MEMBERS && sizes == contents.len() as u64;
    if sound { Ok((members, contents)) } else { Err(Malformed) }
}
