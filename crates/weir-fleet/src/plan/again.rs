//! Going on with a plan that was interrupted: the source is listed again, in whatever order it comes this
//! time, and what the ledger has already is left out. All in files without a name; memory does not grow.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

use weir_get::list::nameless_file;
use weir_get::list::order::key;
use weir_get::list::sort::{Sorted, Sorter};

use super::targets::{key_of, parts, record};
use super::{NAMED, cannot_sort};
use crate::error::FleetError;
use crate::ledger::SqlLedger;
use crate::object::{FleetObject, pack, unpack};

/// The numbers of objects of the listing have this bit: they sort behind those of the ledger, whose numbers
/// stand for their sources ([`source_of`]).
const LISTED: u64 = 1 << 63;

/// What stands for the source of an object that the ledger has: two differ but once in 2^63 times.
fn source_of(object: &FleetObject) -> u64 {
    u64::try_from(key(&object.source) >> 65).unwrap_or_default()
}

/// The objects of a second listing.
pub struct Spill {
    place: String,
    is_early: bool,
    keys: Sorter,
    file: Option<BufWriter<File>>,
    count: u64,
}

impl Spill {
    /// None yet, of the ledger at `place`; `is_early`: its batches are given out meanwhile.
    pub fn new(place: &str, is_early: bool) -> Spill {
        Spill { place: place.to_owned(), is_early, keys: Sorter::default(), file: None, count: 0 }
    }

    /// Learns what the ledger has.
    pub fn holds(&mut self, ledger: &mut SqlLedger) -> Result<(), FleetError> {
        let mut failed = Ok(());
        let keys = &mut self.keys;
        ledger.each_object(&mut |object| {
            if failed.is_ok() {
                failed = keys.push(record(key_of(object), source_of(object)));
            }
        })?;
        failed.map_err(|error| cannot_sort(&error))
    }

    /// One more of the listing.
    pub fn push(&mut self, object: &FleetObject) -> Result<(), FleetError> {
        self.written(object).map_err(|error| cannot_sort(&error))
    }

    fn written(&mut self, object: &FleetObject) -> io::Result<()> {
        self.count += 1;
        self.keys.push(record(key_of(object), LISTED | self.count))?;
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(BufWriter::new(nameless_file()?)),
        };
        let packed = pack([object]);
        file.write_all(&u32::try_from(packed.len()).map_err(io::Error::other)?.to_be_bytes())?;
        file.write_all(&packed)
    }

    /// What of the listing is not in the ledger, in its order.
    pub fn left(self) -> Result<Left, FleetError> {
        let Spill { place, is_early, keys, file, count } = self;
        let found = || {
            let mut keys = keys.sorted()?;
            let (mut known, mut doubled) = (Sorter::default(), Vec::new());
            let mut last = None;
            while let Some(next) = keys.next()? {
                let (key, number) = parts(&next);
                let before = last.replace((key, number)).filter(|(other, _)| *other == key);
                match before.map(|(_, before)| before) {
                    None => {}
                    Some(before) if number & LISTED != 0 => {
                        known.push(record(u128::from(number & !LISTED), before))?;
                    }
                    // It went from one batch into another while the ledger was read.
                    Some(before) if is_early && before == number => {}
                    Some(_) => add(&mut doubled, key),
                }
            }
            let file = file.map(|file| {
                let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
                file.rewind()?;
                Ok::<_, io::Error>(BufReader::new(file))
            });
            Ok((known.sorted()?, doubled, file.transpose()?))
        };
        let (known, doubled, file) = found().map_err(|error: io::Error| cannot_sort(&error))?;
        Ok(Left { place, known, doubled, file, at: 0, count })
    }
}

/// As many as are told.
fn add(doubled: &mut Vec<u128>, key: u128) {
    if doubled.len() < NAMED {
        doubled.push(key);
    }
}

/// See [`Spill::left`].
pub struct Left {
    place: String,
    /// The numbers of those whose targets the ledger has, each with what stands for its source there; or
    /// whose targets others of the listing have, each with the number of one, which stands for no source.
    known: Sorted,
    doubled: Vec<u128>,
    file: Option<BufReader<File>>,
    at: u64,
    count: u64,
}

impl Left {
    /// The next one.
    #[allow(clippy::should_implement_trait, reason = "reading may fail")]
    pub fn next(&mut self) -> Result<Option<FleetObject>, FleetError> {
        while self.at < self.count {
            self.at += 1;
            match self.read()? {
                (object, Some(source)) if source == source_of(&object) => {}
                (object, other) => {
                    // Another object has its target.
                    if other.is_some() {
                        add(&mut self.doubled, key_of(&object));
                    }
                    return Ok(Some(object));
                }
            }
        }
        Ok(None)
    }

    /// The keys of targets that several objects have, as far as that is known yet, and some of them: at first
    /// those of the ledger alone.
    pub fn doubled(&self) -> &[u128] {
        &self.doubled
    }

    /// The object at its place, and what stands for the source of another one that has its target.
    fn read(&mut self) -> Result<(FleetObject, Option<u64>), FleetError> {
        let (known, file, at) = (&mut self.known, &mut self.file, u128::from(self.at));
        let mut read = || {
            let is_known = known.peek().is_some_and(|next| parts(next).0 == at);
            let source = if is_known { known.next()?.map(|next| parts(&next).1) } else { None };
            let file = file.as_mut().ok_or(io::ErrorKind::UnexpectedEof)?;
            let mut length = [0; 4];
            file.read_exact(&mut length)?;
            let mut packed = vec![0; u32::from_be_bytes(length) as usize];
            file.read_exact(&mut packed)?;
            Ok((packed, source))
        };
        let (packed, source) = read().map_err(|error: io::Error| cannot_sort(&error))?;
        let object = unpack(&packed).and_then(|objects| objects.into_iter().next());
        let what = "a line of its listing was not kept".to_owned();
        let object = object.ok_or(FleetError::Damaged { place: self.place.clone(), what })?;
        Ok((object, source))
    }
}
