//! Going on with a plan that was interrupted: the source is listed again, in whatever order it comes this
//! time, and what the ledger has already is left out. All in files without a name; memory does not grow.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

use weir_get::list::nameless_file;
use weir_get::list::sort::{Sorted, Sorter};

use super::cannot_sort;
use super::targets::{key_of, parts, record};
use crate::error::FleetError;
use crate::ledger::SqlLedger;
use crate::object::{FleetObject, pack, unpack};

/// The number of a record whose object is in the ledger: it sorts before all of the listing.
const IN_LEDGER: u64 = 0;

/// The objects of a second listing.
pub struct Spill {
    place: String,
    keys: Sorter,
    file: Option<BufWriter<File>>,
    count: u64,
}

impl Spill {
    /// None yet, of the ledger at `place`.
    pub fn new(place: &str) -> Spill {
        Spill { place: place.to_owned(), keys: Sorter::default(), file: None, count: 0 }
    }

    /// Learns what the ledger has.
    pub fn holds(&mut self, ledger: &mut SqlLedger) -> Result<(), FleetError> {
        let mut failed = Ok(());
        let keys = &mut self.keys;
        ledger.each_object(&mut |object| {
            if failed.is_ok() {
                failed = keys.push(record(key_of(object), IN_LEDGER));
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
        self.keys.push(record(key_of(object), self.count))?;
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
        let Spill { place, keys, file, count } = self;
        let found = || {
            let mut keys = keys.sorted()?;
            let mut known = Sorter::default();
            let mut in_ledger = None;
            while let Some(next) = keys.next()? {
                let (key, number) = parts(&next);
                match number {
                    IN_LEDGER => in_ledger = Some(key),
                    number if in_ledger == Some(key) => known.push(record(u128::from(number), 0))?,
                    _ => {}
                }
            }
            let file = file.map(|file| {
                let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
                file.rewind()?;
                Ok::<_, io::Error>(BufReader::new(file))
            });
            Ok((known.sorted()?, file.transpose()?))
        };
        let (known, file) = found().map_err(|error: io::Error| cannot_sort(&error))?;
        Ok(Left { place, known, file, at: 0, count })
    }
}

/// See [`Spill::left`].
pub struct Left {
    place: String,
    /// The numbers of those that the ledger has.
    known: Sorted,
    file: Option<BufReader<File>>,
    at: u64,
    count: u64,
}

impl Left {
    /// The next one.
    #[allow(clippy::should_implement_trait, reason = "reading may fail")]
    pub fn next(&mut self) -> Result<Option<FleetObject>, FleetError> {
        let Some(file) = &mut self.file else { return Ok(None) };
        let known = &mut self.known;
        while self.at < self.count {
            self.at += 1;
            let is_known = known.peek().is_some_and(|next| parts(next).0 == u128::from(self.at));
            let mut next = || {
                if is_known {
                    known.next()?;
                }
                let mut length = [0; 4];
                file.read_exact(&mut length)?;
                let mut packed = vec![0; u32::from_be_bytes(length) as usize];
                file.read_exact(&mut packed)?;
                Ok(packed)
            };
            let packed = next().map_err(|error: io::Error| cannot_sort(&error))?;
            if !is_known {
                let object = unpack(&packed).and_then(|objects| objects.into_iter().next());
                let what = "a line of its listing was not kept".to_owned();
                return object.map(Some).ok_or(FleetError::Damaged { place: self.place.clone(), what });
            }
        }
        Ok(None)
    }
}
