//! Is what the ledger says true? Its objects against a listing of the source and one of the target, by name
//! and size, in memory that does not grow: both sides are sorted on the disk and read side by side.

use std::collections::HashMap;
use std::io;

use serde::Serialize;
use weir_get::list::order::key;
use weir_get::list::sort::Sorter;

use super::targets::{parts, record};
use super::{Found, Listing, cannot_sort};
use crate::error::FleetError;
use crate::ledger::{ObjectRow, SqlLedger};
use crate::object::FleetObject;

/// Names of each kind that are kept for telling.
const NAMED: usize = 1000;

/// Reasons that are kept of what in the listing could not be read: there may be one for each folder.
const REASONS: usize = 10;

/// A size that is not known; no object is as large.
const UNKNOWN: u64 = u64::MAX;

/// Instead of a size: it is planned, and need not be there yet.
const UNEXPECTED: u64 = u64::MAX - 1;

/// By which name of an object the two sides are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The listing is of the source.
    Source,
    /// Of the target; then only what the ledger says is done must be there.
    Target,
}

impl Side {
    fn name(self, object: &FleetObject) -> &[u8] {
        match self {
            Side::Source => &object.source,
            Side::Target => &object.target,
        }
    }

    /// The size that an object must have, or why none is held to.
    fn code(self, object: &FleetObject, row: &ObjectRow) -> u64 {
        let is_expected = self == Side::Source || row.state == "done";
        if is_expected { object.size.unwrap_or(UNKNOWN) } else { UNEXPECTED }
    }
}

/// How an object differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// The ledger has it, the listing has not.
    Missing,
    /// Its size is another one.
    Size,
    /// It is not in the listing, of which some could not be read.
    Unknown,
}

/// What a comparison found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// Objects that the ledger expects there.
    pub expected: u64,
    /// Those of the same name and size, as far as that is known.
    pub agree: u64,
    /// Of these, those without a known size on one side: their names alone were compared.
    pub unsized_objects: u64,
    /// Those that are not there.
    pub missing: u64,
    /// Those of another size.
    pub sizes: u64,
    /// Those that may be in what could not be read.
    pub unknown: u64,
    /// What of the listing could not be read.
    pub unread: u64,
    /// The first reasons for that.
    pub reasons: Vec<String>,
    /// What the listing has and the plan has not; nothing is wrong with that.
    pub others: u64,
    /// The first of those that differ, by name.
    pub differ: Vec<(String, Difference)>,
}

impl Compared {
    /// Nothing is missing or of another size, and all was found that had to be.
    pub fn is_right(&self) -> bool {
        self.differing() == 0
    }

    /// Those that are not as they must be, or not known to be.
    pub fn differing(&self) -> u64 {
        self.missing + self.sizes + self.unknown
    }

    fn cannot_read(&mut self, why: String) {
        self.unread += 1;
        if self.reasons.len() < REASONS {
            self.reasons.push(why);
        }
    }
}

/// Compares the ledger with a listing of one side.
///
/// # Errors
/// What the ledger and the listing say.
pub fn compare(
    ledger: &mut SqlLedger,
    listing: &mut dyn Listing,
    side: Side,
) -> Result<Compared, FleetError> {
    let (mut planned, mut there) = (Sorter::default(), Sorter::default());
    ledger.each_row(&mut |object, row| {
        let code = side.code(object, row);
        planned.push(record(key(&side.name(object)), code)).map_err(|error| cannot_sort(&error))
    })?;
    let mut compared = Compared::default();
    while let Some(found) = listing.next()? {
        match found {
            Found::Object(object) => {
                let size = object.size.unwrap_or(UNKNOWN);
                there.push(record(key(&side.name(&object)), size)).map_err(|error| cannot_sort(&error))?;
            }
            Found::Bad(why) => compared.cannot_read(why),
            Found::LeftOut(_) => {}
        }
    }
    let differ = side_by_side(planned, there, &mut compared).map_err(|error| cannot_sort(&error))?;
    if !differ.is_empty() {
        ledger.each_row(&mut |object, row| {
            let of_object = (key(&side.name(object)), side.code(object, row));
            if let Some(difference) = differ.get(&of_object).filter(|_| compared.differ.len() < NAMED) {
                let name = String::from_utf8_lossy(side.name(object)).into_owned();
                compared.differ.push((name, *difference));
            }
            Ok::<(), FleetError>(())
        })?;
        compared.differ.sort_by(|a, b| a.0.cmp(&b.0));
    }
    Ok(compared)
}

/// Reads both in the order of their keys. Returns the keys of the first that differ, with the sizes that they
/// must have. Several objects may be of one key: one source can be brought to two targets.
fn side_by_side(
    planned: Sorter,
    there: Sorter,
    compared: &mut Compared,
) -> io::Result<HashMap<(u128, u64), Difference>> {
    let (mut planned, mut there) = (planned.sorted()?, there.sorted()?);
    let mut differ = HashMap::new();
    // What the listing has of the last planned key.
    let mut last: Option<(u128, Option<u64>)> = None;
    while let Some((key, code)) = planned.next()?.as_ref().map(parts) {
        while there.peek().is_some_and(|next| parts(next).0 < key) {
            there.next()?;
            compared.others += 1;
        }
        let size = match last {
            Some((of, size)) if of == key => size,
            _ => {
                let is_there = there.peek().is_some_and(|next| parts(next).0 == key);
                let found = if is_there { there.next()? } else { None };
                found.as_ref().map(parts).map(|(_, size)| size)
            }
        };
        last = Some((key, size));
        if code == UNEXPECTED {
            continue;
        }
        compared.expected += 1;
        let difference = match size {
            None if compared.unread > 0 => Some(Difference::Unknown),
            None => Some(Difference::Missing),
            Some(size) if size != UNKNOWN && code != UNKNOWN && size != code => Some(Difference::Size),
            Some(_) => None,
        };
        match difference {
            None => {
                compared.agree += 1;
                compared.unsized_objects += u64::from(size == Some(UNKNOWN) || code == UNKNOWN);
            }
            Some(Difference::Unknown) => compared.unknown += 1,
            Some(Difference::Missing) => compared.missing += 1,
            Some(Difference::Size) => compared.sizes += 1,
        }
        if let Some(difference) = difference.filter(|_| differ.len() < NAMED) {
            differ.insert((key, code), difference);
        }
    }
    while there.next()?.is_some() {
        compared.others += 1;
    }
    Ok(differ)
}
