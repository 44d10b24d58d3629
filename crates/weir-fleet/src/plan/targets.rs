//! Which targets are named twice, of any number of objects: their keys are sorted on the disk.

use std::io;

use weir_get::list::order::key;
use weir_get::list::sort::{RECORD, Record, Sorter};

use crate::object::FleetObject;

/// What stands for a target.
pub fn key_of(object: &FleetObject) -> u128 {
    key(&object.target)
}

/// A key and a number, which sort by the key.
pub(super) fn record(key: u128, number: u64) -> Record {
    let mut record = [0; RECORD];
    record[..16].copy_from_slice(&key.to_be_bytes());
    record[16..].copy_from_slice(&number.to_be_bytes());
    record
}

/// The two of a record.
pub(super) fn parts(record: &Record) -> (u128, u64) {
    let (mut key, mut number) = ([0; 16], [0; 8]);
    key.copy_from_slice(&record[..16]);
    number.copy_from_slice(&record[16..]);
    (u128::from_be_bytes(key), u64::from_be_bytes(number))
}

/// The targets of a plan.
#[derive(Default)]
pub struct Targets(Sorter);

impl Targets {
    /// One more.
    pub fn add(&mut self, object: &FleetObject) -> io::Result<()> {
        self.0.push(record(key_of(object), 0))
    }

    /// The keys that were there more than once, `most` of them at most.
    pub fn doubled(self, most: usize) -> io::Result<Vec<u128>> {
        let mut sorted = self.0.sorted()?;
        let (mut last, mut doubled) = (None, Vec::new());
        while let Some(record) = sorted.next()? {
            let (key, _) = parts(&record);
            if last.replace(key) == Some(key) && doubled.last() != Some(&key) {
                doubled.push(key);
                if doubled.len() == most {
                    break;
                }
            }
        }
        Ok(doubled)
    }
}
