//! Sorts more records than memory has room for: batches are sorted and written to a file without a name, and
//! read back merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::nameless_file;

/// Bytes of a record; records are in the order of their bytes.
pub const RECORD: usize = 24;

/// A record.
pub type Record = [u8; RECORD];

/// Records in memory at once: 6 MB, so that ten million records are forty batches.
const BATCH: usize = 1 << 18;

/// Records of a batch read at once while batches are merged: 48 KB of each.
const READ: usize = 2048;

/// Takes records.
#[derive(Debug, Default)]
pub struct Sorter {
    batch: Vec<Record>,
    file: Option<File>,
    /// Where batches are in the file, bytes.
    runs: Vec<Range<u64>>,
}

impl Sorter {
    /// One more record.
    pub fn push(&mut self, record: Record) -> io::Result<()> {
        self.batch.push(record);
        if self.batch.len() >= BATCH { self.spill() } else { Ok(()) }
    }

    /// All records, in order.
    pub fn sorted(mut self) -> io::Result<Sorted> {
        if self.file.is_some() && !self.batch.is_empty() {
            self.spill()?;
            self.batch = Vec::new();
        }
        self.batch.sort_unstable();
        let mut sorted = Sorted { file: self.file, runs: Vec::new(), heads: BinaryHeap::new() };
        if sorted.file.is_none() {
            sorted.runs.push(Run { left: 0..0, records: self.batch.into_iter() });
        }
        sorted.runs.extend(self.runs.into_iter().map(|left| Run { left, records: Vec::new().into_iter() }));
        for index in 0..sorted.runs.len() {
            sorted.refill(index)?;
        }
        Ok(sorted)
    }

    fn spill(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(nameless_file()?),
        };
        self.batch.sort_unstable();
        let start = self.runs.last().map_or(0, |run| run.end);
        let mut out = BufWriter::with_capacity(1 << 16, file);
        self.batch.iter().try_for_each(|record| out.write_all(record))?;
        out.flush()?;
        self.runs.push(start..start + (self.batch.len() * RECORD) as u64);
        self.batch.clear();
        Ok(())
    }
}

/// Records in order.
#[derive(Debug)]
pub struct Sorted {
    file: Option<File>,
    runs: Vec<Run>,
    heads: BinaryHeap<Reverse<(Record, usize)>>,
}

#[derive(Debug)]
struct Run {
    left: Range<u64>,
    records: std::vec::IntoIter<Record>,
}

impl Sorted {
    /// The next record; `None` at the end.
    #[allow(clippy::should_implement_trait, reason = "reading may fail")]
    pub fn next(&mut self) -> io::Result<Option<Record>> {
        let Some(Reverse((record, run))) = self.heads.pop() else { return Ok(None) };
        self.refill(run)?;
        Ok(Some(record))
    }

    /// The next record, which stays.
    pub fn peek(&self) -> Option<&Record> {
        self.heads.peek().map(|Reverse((record, _))| record)
    }

    /// The next record of a run, to be compared with those of the others.
    fn refill(&mut self, index: usize) -> io::Result<()> {
        let run = &mut self.runs[index];
        if run.records.len() == 0
            && !run.left.is_empty()
            && let Some(file) = &self.file
        {
            let length = (run.left.end - run.left.start).min((READ * RECORD) as u64);
            let mut bytes = vec![0; length as usize];
            file.read_exact_at(&mut bytes, run.left.start)?;
            run.left.start += length;
            let (records, _) = bytes.as_chunks::<RECORD>();
            run.records = records.to_vec().into_iter();
        }
        if let Some(record) = run.records.next() {
            self.heads.push(Reverse((record, index)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_in_order_however_many_there_are() {
        for count in [0, 1, 1000, BATCH as u64, 2 * BATCH as u64 + 7] {
            let mut sorter = Sorter::default();
            for number in 0..count {
                let mut record = [0; RECORD];
                // An odd factor: each number once, in another order.
                let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                record[..8].copy_from_slice(&mixed.to_be_bytes());
                record[16..].copy_from_slice(&number.to_be_bytes());
                sorter.push(record).unwrap();
            }
            let mut sorted = sorter.sorted().unwrap();
            let (mut last, mut sum, mut found) = ([0; RECORD], 0_u64, 0);
            while let Some(record) = sorted.next().unwrap() {
                assert!(record >= last);
                last = record;
                sum += u64::from_be_bytes(record[16..].try_into().unwrap());
                found += 1;
            }
            assert_eq!((found, sum), (count, count * count.saturating_sub(1) / 2));
        }
    }
}
