//! Where a listing is cut: by objects and by bytes, and finer where there is little, so that all workers have
//! some.

use super::{ALONE, MAX_RANGES, PlanRules, RANGE};
use crate::ledger::{PlannedBatch, PlannedLarge};
use crate::object::{FleetObject, pack, pack_lines};

/// Batches that a small listing is cut into: eight workers get eight each, and the last one of them is an
/// eighth of a worker's time late at most.
const SPREAD: u64 = 64;

/// Objects that are looked at before the first cut: as many as are cut finer. 64,000 lines are some 10 MB.
const LOOKED_AT: usize = 64_000;

/// Less than this is not worth a batch of its own: 10 ms at 10 Gbit/s.
const FEW_BYTES: u64 = 16 << 20;

/// What a cut makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// Objects.
    Batch(PlannedBatch),
    /// One that becomes ranges.
    Large(PlannedLarge),
}

/// Takes objects, and gives batches.
pub struct Cutter {
    rules: PlanRules,
    /// Objects that are looked at, until there are too many of them.
    first: Option<Vec<(u64, Vec<u8>)>>,
    /// Lines of the batch that is being filled.
    lines: Vec<u8>,
    objects: u64,
    bytes: u64,
}

impl Cutter {
    /// By these rules.
    pub fn new(rules: &PlanRules) -> Cutter {
        let first = Some(Vec::new());
        Cutter { rules: rules.clone(), first, lines: Vec::new(), objects: 0, bytes: 0 }
    }

    /// One more. What is cut goes behind `cut`.
    pub fn push(&mut self, object: &FleetObject, cut: &mut Vec<Cut>) {
        let size = object.size.unwrap_or(0);
        if self.rules.large.is_some_and(|large| size > large)
            && let Some(range) = self.range(object, size)
        {
            cut.push(Cut::Large(PlannedLarge { line: pack([object]), size, range }));
            return;
        }
        if size >= ALONE.min(self.rules.batch_bytes) {
            cut.push(Cut::Batch(PlannedBatch { objects: 1, bytes: size, lines: pack([object]) }));
            return;
        }
        let mut line = Vec::new();
        object.push_line(&mut line);
        match &mut self.first {
            Some(first) => {
                first.push((size, line));
                if first.len() >= LOOKED_AT {
                    self.cut_first(cut, false);
                }
            }
            None => self.add(size, &line, cut),
        }
    }

    /// The bytes of a range of a large object; `None`: it stays whole.
    fn range(&self, object: &FleetObject, size: u64) -> Option<u64> {
        // Without a strong tag nothing proves that pieces which several hosts fetch are of one version.
        let is_pinned = object.etag.as_deref().is_some_and(|etag| !etag.starts_with("W/"));
        match &self.rules.parts {
            Some(parts) if is_pinned || parts.is_of_files => parts.range(object, size),
            None if is_pinned => Some(RANGE.max(size.div_ceil(MAX_RANGES).next_multiple_of(1 << 20))),
            _ => None,
        }
    }

    /// There are no more.
    pub fn end(&mut self, cut: &mut Vec<Cut>) {
        self.cut_first(cut, true);
        self.close(cut);
    }

    /// Cuts what was looked at; finer where it is `all`.
    fn cut_first(&mut self, cut: &mut Vec<Cut>, all: bool) {
        let Some(first) = self.first.take() else { return };
        let rules = self.rules.clone();
        if all {
            let bytes: u64 = first.iter().map(|(size, _)| size).sum();
            let objects = (first.len() as u64).div_ceil(SPREAD);
            // Whichever comes first cuts: where bytes are few their number does not.
            let bytes = bytes.div_ceil(SPREAD).max(FEW_BYTES);
            self.rules.batch_objects = rules.batch_objects.min(objects).max(1);
            self.rules.batch_bytes = rules.batch_bytes.min(bytes);
        }
        for (size, line) in first {
            self.add(size, &line, cut);
        }
        self.rules = rules;
    }

    fn add(&mut self, size: u64, line: &[u8], cut: &mut Vec<Cut>) {
        let is_full = self.objects >= self.rules.batch_objects || self.bytes + size > self.rules.batch_bytes;
        if self.objects > 0 && is_full {
            self.close(cut);
        }
        self.lines.extend_from_slice(line);
        self.objects += 1;
        self.bytes += size;
    }

    fn close(&mut self, cut: &mut Vec<Cut>) {
        if self.objects > 0 {
            let lines = pack_lines(&self.lines);
            cut.push(Cut::Batch(PlannedBatch { objects: self.objects, bytes: self.bytes, lines }));
        }
        self.lines.clear();
        (self.objects, self.bytes) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::unpack;

    fn cut(sizes: impl IntoIterator<Item = u64>) -> Vec<Cut> {
        let mut cutter = Cutter::new(&PlanRules::default());
        let mut all = Vec::new();
        for (number, size) in sizes.into_iter().enumerate() {
            let source = format!("k{number}").into_bytes();
            let etag = Some("\"a\"".to_owned());
            let object = FleetObject {
                target: source.clone(),
                source,
                size: Some(size),
                etag,
                ..FleetObject::default()
            };
            cutter.push(&object, &mut all);
        }
        cutter.end(&mut all);
        all
    }

    fn counts(cut: &[Cut]) -> Vec<u64> {
        let count = |cut: &Cut| match cut {
            Cut::Batch(batch) => {
                assert_eq!(unpack(&batch.lines).map(|objects| objects.len() as u64), Some(batch.objects));
                batch.objects
            }
            Cut::Large(large) => large.size.div_ceil(large.range),
        };
        cut.iter().map(count).collect()
    }

    #[test]
    fn nothing_gives_no_batch() {
        assert_eq!(cut([]), []);
    }

    #[test]
    fn many_objects_are_cut_by_their_number() {
        let counts = counts(&cut(vec![1; 1_000_000]));
        assert_eq!(counts, vec![1000; 1000]);
    }

    #[test]
    fn few_objects_are_spread() {
        assert_eq!(counts(&cut(vec![1; 640])), vec![10; 64]);
        assert_eq!(counts(&cut(vec![1; 3])), vec![1; 3]);
        // Sixteen files of 200 MB are sixteen batches.
        assert_eq!(counts(&cut(vec![200_000_000; 16])), vec![1; 16]);
        // So are sixteen of 40 MB.
        assert_eq!(counts(&cut(vec![40_000_000; 16])), vec![1; 16]);
    }

    #[test]
    fn bytes_cut_too() {
        let cut = cut(vec![100 << 20; 100_000]);
        assert_eq!(counts(&cut)[..100], vec![10; 100]);
    }

    #[test]
    fn the_largest_object_of_a_store_becomes_ranges_that_it_takes() {
        let five_tib = 5 << 40;
        assert_eq!(counts(&cut([five_tib])), [5120]);
        // 50 TiB: ranges of more than a GiB, of which there are 10,000 at most.
        let counts = counts(&cut([50 << 40, 8 << 30, (8 << 30) + 1]));
        assert!(counts[0] <= 10_000, "{counts:?}");
        assert_eq!(counts[1..], [1, 9]);
    }

    #[test]
    fn what_has_no_strong_tag_stays_whole() {
        for etag in [None, Some("W/\"a\"".to_owned())] {
            let object = FleetObject { size: Some(5 << 40), etag, ..FleetObject::default() };
            let (mut cutter, mut all) = (Cutter::new(&PlanRules::default()), Vec::new());
            cutter.push(&object, &mut all);
            assert!(matches!(&all[..], [Cut::Batch(batch)] if batch.objects == 1));
        }
    }
}
