//! An upload of parts that several hosts fill: what they have in common, what each tells of its parts, and
//! how it ends. The engine sends the parts of each ([`super::job::JobShare`]).

use std::ops::Range;

use serde::{Deserialize, Serialize};
use weir_codec::digest::Algorithm;
use weir_codec::hex;

use super::plan::{PART, Plan};
use super::proof::{check_all, refuses_sum};
use super::{Bounds, Finish, Object, Part, Stored, Sum, Upload, Uploads};
use crate::caller::Caller;
use crate::error::StoreError;

/// Bytes of what hosts have in common: the longest name of an upload, and some numbers.
const MOST: usize = 8 << 10;

/// Bytes of what is told of the parts of one host: 10,000 of 300 bytes.
const MOST_PARTS: usize = 4 << 20;

/// What all hosts know of the upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedUpload {
    /// The store's name for it.
    pub id: String,
    /// Bytes of a part; the last one may be shorter.
    pub part: u64,
    /// What parts are checked by.
    pub check: Option<String>,
}

/// A part as a host tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedPart {
    /// From 1 on.
    pub number: u32,
    /// The store's name for what it took.
    pub tag: String,
    /// What its content was sent with: an algorithm, and hexadecimal.
    pub sum: Option<(String, String)>,
    /// Its digest of the kind that the source keeps, hexadecimal.
    pub kept: Option<String>,
}

/// Bytes of a part of an object of `size` bytes, of about as many as are wished for.
pub fn part_size(size: u64, bounds: &Bounds, wish: u64) -> u64 {
    let least = size.div_ceil(u64::from(bounds.parts).max(1)).next_multiple_of(1 << 20);
    wish.max(PART).max(least).max(bounds.least_part).min(bounds.most_part)
}

/// Bytes of a part where an object is cut into ranges of `range` bytes, of which each is of whole parts.
pub fn part_within(range: u64, size: u64, bounds: &Bounds, wish: u64) -> Option<u64> {
    let part = part_size(size, bounds, wish);
    let part = if range.is_multiple_of(part) || range >= size { part } else { range };
    let is_taken = part >= bounds.least_part.min(size) && part <= bounds.most_part;
    (is_taken && part > 0 && size.div_ceil(part) <= u64::from(bounds.parts)).then_some(part)
}

impl SharedUpload {
    /// What [`SharedUpload::text`] wrote.
    pub fn parse(text: &str) -> Option<SharedUpload> {
        let upload: SharedUpload = serde_json::from_str(text).ok().filter(|_| text.len() <= MOST)?;
        (upload.part > 0 && !upload.id.is_empty()).then_some(upload)
    }

    /// In a line.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn algorithm(&self) -> Option<Algorithm> {
        self.check.as_deref()?.parse().ok()
    }

    pub(crate) fn plan(&self) -> Plan {
        Plan::of_part(self.part)
    }

    /// The numbers of the parts that hold `bytes` of an object of `size` bytes; `None`: they are no whole
    /// parts.
    pub fn numbers(&self, bytes: &Range<u64>, size: u64) -> Option<Range<u32>> {
        let is_cut = |at: u64| at.is_multiple_of(self.part) || at == size;
        let number = |at: u64| u32::try_from(at.div_ceil(self.part)).ok()?.checked_add(1);
        let is_inside = bytes.start < bytes.end && bytes.end <= size;
        (is_inside && is_cut(bytes.start) && is_cut(bytes.end)).then_some(())?;
        Some(number(bytes.start)?..number(bytes.end)?)
    }

    /// Begins one, checked by what the store prefers and takes.
    pub fn begin(
        uploads: &dyn Uploads,
        caller: &mut Caller<'_>,
        object: &Object<'_>,
        part: u64,
    ) -> Result<SharedUpload, StoreError> {
        let mut check = uploads.algorithms().first().copied();
        loop {
            match uploads.begin(caller, object, check) {
                Ok(id) => {
                    let check = check.map(|algorithm| algorithm.name().to_owned());
                    return Ok(SharedUpload { id, part, check });
                }
                Err(error) if check.is_some() && refuses_sum(&error) => {
                    let others = uploads.algorithms().iter().skip(1);
                    let weaker = others.copied().find(|one| *one == Algorithm::MD5);
                    check = weaker.filter(|one| check != Some(*one));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes the object of all parts. Done before, by whoever could not say so, it is done.
    pub fn complete(
        &self,
        uploads: &dyn Uploads,
        caller: &mut Caller<'_>,
        object: &Object<'_>,
        parts: &[SharedPart],
        size: u64,
    ) -> Result<Stored, StoreError> {
        let own: Vec<Part> = parts.iter().map(SharedPart::part).collect();
        check_all(&own, self.plan().parts(size), object.key)?;
        let whole = self.whole(parts, size);
        let told = whole.as_ref().filter(|whole| uploads.checks_whole(whole.algorithm));
        let upload = Upload { object: *object, id: &self.id };
        let done = uploads.complete(caller, &upload, &Finish { parts: &own, size, whole: told });
        match done {
            Err(error) if error.is_of_no_upload() || error.is_condition() => {
                let is_left = !error.is_of_no_upload();
                let stored = uploads.stored(caller, object.key)?;
                let stored = stored.filter(|stored| stored.is(size, whole.as_ref(), &own)).ok_or(error)?;
                // Somebody else has stored the same: the parts are of no use.
                if is_left && let Err(error) = self.abort(uploads, caller, object) {
                    tracing::warn!("the upload {} of {} is left: {error}", self.id, object.key);
                }
                Ok(stored)
            }
            done => done,
        }
    }

    /// Takes it away.
    pub fn abort(
        &self,
        uploads: &dyn Uploads,
        caller: &mut Caller<'_>,
        object: &Object<'_>,
    ) -> Result<(), StoreError> {
        match uploads.abort(caller, &Upload { object: *object, id: &self.id }) {
            Err(error) if error.is_of_no_upload() => Ok(()),
            other => other,
        }
    }

    /// The digest of all of it, by those that its parts were sent with.
    pub fn whole(&self, parts: &[SharedPart], size: u64) -> Option<Sum> {
        let algorithm = self.algorithm()?;
        let of = |part: &SharedPart| {
            let (name, value) = part.sum.as_ref()?;
            (name == algorithm.name()).then(|| hex::decode(value).ok()).flatten()
        };
        self.combined(algorithm, parts, size, of)
    }

    /// The digest of all of it, of the kind that its source keeps.
    pub fn kept(&self, algorithm: Algorithm, parts: &[SharedPart], size: u64) -> Option<Sum> {
        self.combined(algorithm, parts, size, |part| hex::decode(part.kept.as_deref()?).ok())
    }

    fn combined(
        &self,
        algorithm: Algorithm,
        parts: &[SharedPart],
        size: u64,
        of: impl Fn(&SharedPart) -> Option<Vec<u8>>,
    ) -> Option<Sum> {
        let plan = self.plan();
        let mut each = parts.iter();
        let first = of(each.next()?)?;
        let value = each.try_fold(first, |sum, part| {
            algorithm.combined(&sum, &of(part)?, plan.range(part.number, size).1)
        })?;
        Some(Sum { algorithm, value })
    }
}

impl SharedPart {
    /// What was sent, and its digest of the source's kind.
    pub fn of(part: &Part, kept: Option<&[u8]>) -> SharedPart {
        let sum = part.sum.as_ref();
        SharedPart {
            number: part.number,
            tag: part.tag.clone(),
            sum: sum.map(|sum| (sum.algorithm.name().to_owned(), hex::encode(&sum.value))),
            kept: kept.map(hex::encode),
        }
    }

    fn part(&self) -> Part {
        let sum = self.sum.as_ref().and_then(|(name, value)| {
            Some(Sum { algorithm: name.parse().ok()?, value: hex::decode(value).ok()? })
        });
        Part { number: self.number, tag: self.tag.clone(), sum }
    }

    /// Those of a host, in a line.
    pub fn text(parts: &[SharedPart]) -> String {
        serde_json::to_string(parts).unwrap_or_default()
    }

    /// What [`SharedPart::text`] wrote.
    pub fn parse(text: &str) -> Option<Vec<SharedPart>> {
        serde_json::from_str(text).ok().filter(|_| text.len() <= MOST_PARTS)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S3: Bounds = Bounds {
        parts: 10_000,
        least_part: 5 << 20,
        most_part: 5 << 30,
        most_single: 5 << 30,
        most: 5 << 40,
    };

    fn upload(part: u64) -> SharedUpload {
        SharedUpload { id: "u".to_owned(), part, check: Some("crc64nvme".to_owned()) }
    }

    proptest! {
        #[test]
        fn ranges_of_whole_parts_hold_all_parts_once(size in (8_u64 << 30)..(5 << 40), wish in 0_u64..(64 << 20)) {
            let part = part_size(size, &S3, wish);
            let range = part * ((1 << 30) / part).max(1);
            prop_assert_eq!(part_within(range, size, &S3, wish), Some(part));
            let (upload, mut next, mut at) = (upload(part), 1, 0);
            while at < size {
                let end = size.min(at + range);
                let numbers = upload.numbers(&(at..end), size).unwrap();
                prop_assert!(numbers.start == next && numbers.end > numbers.start);
                (next, at) = (numbers.end, end);
            }
            prop_assert_eq!(next - 1, upload.plan().parts(size));
            prop_assert!(next - 1 <= S3.parts);
        }

        #[test]
        fn any_words_are_an_upload_or_none(text in ".{0,200}") {
            let _ = SharedUpload::parse(&text);
            let _ = SharedPart::parse(&text);
        }
    }

    #[test]
    fn what_is_told_is_read_back_and_adds_up() {
        let parts = [&b"abc"[..], b"de"].map(|bytes| Algorithm::CRC64NVME.of(bytes));
        let told: Vec<SharedPart> = (1..)
            .zip(&parts)
            .map(|(number, value)| {
                let sum = Some(Sum { algorithm: Algorithm::CRC64NVME, value: value.clone() });
                SharedPart::of(&Part { number, tag: "\"t\"".to_owned(), sum }, Some(value))
            })
            .collect();
        assert_eq!(SharedPart::parse(&SharedPart::text(&told)).as_ref(), Some(&told));
        let upload = upload(3);
        assert_eq!(SharedUpload::parse(&upload.text()).as_ref(), Some(&upload));
        let whole = Sum { algorithm: Algorithm::CRC64NVME, value: Algorithm::CRC64NVME.of(b"abcde") };
        assert_eq!(upload.whole(&told, 5), Some(whole.clone()));
        assert_eq!(upload.kept(Algorithm::CRC64NVME, &told, 5), Some(whole));
        assert_eq!(upload.numbers(&(0..3), 5), Some(1..2));
        assert_eq!(upload.numbers(&(3..5), 5), Some(2..3));
        assert_eq!(
            [upload.numbers(&(0..4), 5), upload.numbers(&(3..6), 5), upload.numbers(&(3..3), 5)],
            [None, None, None]
        );
    }
}
