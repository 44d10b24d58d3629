//! The objects of a manifest, and how a batch of them lies in one row of the ledger.
//!
//! A row holds zstd of lines, one an object: its size, its time, its entity tag, its digest, its source and
//! its target, with a TAB between them. What is not known is empty, and so is a target that is called as its
//! source is. A control character or a backslash in a field is written `\xHH`. So `zstd -dc` and `cut` read
//! what SQL gives. Ten million names that look alike take some 40 MB.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Bytes of the lines of a batch: 1000 objects, each with two names of 64 KiB and what else is known.
const MAX_LINES: usize = 192 << 20;

/// Bytes of one object, and of all objects of a batch: more than any file system or store takes as one, and
/// so little that sums of some batches are no problem of any integer.
pub const MAX_BYTES: u64 = 1 << 60;

/// zstd's level 3: the list of objects is read and written once, and levels above cost more time than the
/// space is worth.
const LEVEL: i32 = 3;

/// Fields of a line.
const FIELDS: usize = 6;

/// An object that is to be moved. Names are bytes: those of files need not be UTF-8.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetObject {
    /// Below the root of the manifest: a key behind the prefix, a path below the folder. A whole URL where
    /// the root is a list.
    pub source: Vec<u8>,
    /// Below the root of the target.
    pub target: Vec<u8>,
    /// Bytes; `None` where the list does not say.
    pub size: Option<u64>,
    /// When it was last changed, in nanoseconds since 1970.
    pub mtime: Option<i64>,
    /// Its entity tag, with its quotes.
    pub etag: Option<String>,
    /// What it must have, as `ALGORITHM:HEX`.
    pub digest: Option<String>,
}

impl FleetObject {
    /// The source, for people.
    pub fn source_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.source)
    }

    /// The target, for people.
    pub fn target_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.target)
    }

    /// Appends its line.
    pub fn push_line(&self, into: &mut Vec<u8>) {
        let number = |number: Option<i128>| number.map(|number| number.to_string()).unwrap_or_default();
        into.extend(number(self.size.map(i128::from)).as_bytes());
        into.push(b'\t');
        into.extend(number(self.mtime.map(i128::from)).as_bytes());
        for text in [&self.etag, &self.digest] {
            into.push(b'\t');
            push_escaped(into, text.as_deref().unwrap_or_default().as_bytes());
        }
        into.push(b'\t');
        push_escaped(into, &self.source);
        into.push(b'\t');
        if self.target != self.source {
            push_escaped(into, &self.target);
        }
        into.push(b'\n');
    }

    /// What a line says, which is without its end.
    fn parse(line: &[u8]) -> Option<FleetObject> {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b'\t').collect();
        let [size, mtime, etag, digest, source, target]: [&[u8]; FIELDS] = fields.try_into().ok()?;
        let text = |field: &[u8]| {
            if field.is_empty() { Some(None) } else { String::from_utf8(unescaped(field)?).ok().map(Some) }
        };
        let source = unescaped(source)?;
        Some(FleetObject {
            target: if target.is_empty() { source.clone() } else { unescaped(target)? },
            source,
            size: number(size)?,
            mtime: number(mtime)?,
            etag: text(etag)?,
            digest: text(digest)?,
        })
    }
}

fn number<N: std::str::FromStr>(field: &[u8]) -> Option<Option<N>> {
    if field.is_empty() { Some(None) } else { std::str::from_utf8(field).ok()?.parse().ok().map(Some) }
}

fn push_escaped(into: &mut Vec<u8>, field: &[u8]) {
    for byte in field {
        match byte {
            0..=0x1f | 0x7f | b'\\' => into.extend(format!("\\x{byte:02x}").as_bytes()),
            byte => into.push(*byte),
        }
    }
}

fn unescaped(field: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte == b'\\' {
            let digits = std::str::from_utf8(rest.strip_prefix(b"x")?.get(..2)?).ok()?;
            plain.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[3..];
        } else {
            plain.push(*byte);
        }
    }
    Some(plain)
}

/// As a row of the ledger holds them.
pub fn pack<'a>(objects: impl IntoIterator<Item = &'a FleetObject>) -> Vec<u8> {
    let mut lines = Vec::new();
    objects.into_iter().for_each(|object| object.push_line(&mut lines));
    pack_lines(&lines)
}

/// The same for lines of [`FleetObject::push_line`].
pub fn pack_lines(lines: &[u8]) -> Vec<u8> {
    let mut packed = vec![0; zstd_safe::compress_bound(lines.len())];
    // It fails where the room is too small, and it is what the bound asks for.
    let length = zstd_safe::compress(&mut packed[..], lines, LEVEL).unwrap_or_default();
    packed.truncate(length);
    packed
}

/// What a row holds; `None` where it is nothing that [`pack`] wrote of at most [`MAX_BYTES`].
pub fn unpack(packed: &[u8]) -> Option<Vec<FleetObject>> {
    let announced = zstd_safe::get_frame_content_size(packed).ok()??;
    let size = usize::try_from(announced).ok().filter(|size| *size <= MAX_LINES)?;
    let mut lines = vec![0; size];
    let got = zstd_safe::decompress(&mut lines[..], packed).ok()?;
    let lines = lines.get(..got).filter(|_| got == size)?;
    let lines = match lines {
        [] => return Some(Vec::new()),
        lines => lines.strip_suffix(b"\n")?,
    };
    let objects: Vec<FleetObject> =
        lines.split(|byte| *byte == b'\n').map(FleetObject::parse).collect::<Option<_>>()?;
    let bytes = objects.iter().try_fold(0_u64, |sum, object| sum.checked_add(object.size.unwrap_or(0)));
    bytes.filter(|bytes| *bytes <= MAX_BYTES).map(|_| objects)
}

/// A part of a large object, which is a batch by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRange {
    /// Which large object, among those of the ledger.
    pub large: i64,
    /// The number of this part, from 0, in the order of the bytes.
    pub part: u64,
    /// Which bytes.
    pub range: Range<u64>,
    /// What workers share of the object: see [`crate::ledger::FleetLedger::share_token`].
    pub token: Option<String>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn object() -> impl Strategy<Value = FleetObject> {
        let name = || proptest::collection::vec(any::<u8>(), 1..40);
        let text = || proptest::option::of("[^\\x00]{1,12}");
        // A row has twenty of them at most, and all of it no more bytes than there may be.
        let size = proptest::option::of(0..=MAX_BYTES / 20);
        (name(), name(), any::<bool>(), size, any::<Option<i64>>(), text(), text()).prop_map(
            |(source, target, same, size, mtime, etag, digest)| FleetObject {
                target: if same { source.clone() } else { target },
                source,
                size,
                mtime,
                etag,
                digest,
            },
        )
    }

    proptest! {
        #[test]
        fn a_row_gives_back_what_went_in(objects in proptest::collection::vec(object(), 0..20)) {
            prop_assert_eq!(unpack(&pack(&objects)), Some(objects));
        }

        #[test]
        fn any_bytes_are_objects_or_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = unpack(&bytes);
            let _ = unpack(&pack_lines(&bytes));
        }
    }

    #[test]
    fn a_row_that_announces_too_much_is_none() {
        let mut packed = pack_lines(&[b'x'; 300]);
        assert!(zstd_safe::get_frame_content_size(&packed).is_ok_and(|size| size == Some(300)));
        packed.truncate(packed.len() - 1);
        assert_eq!(unpack(&packed), None);
        // A frame of 2^40 bytes, by its header alone (RFC 8878, 3.1.1).
        assert_eq!(unpack(&[0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 1, 0, 0]), None);
    }
}
