//! What an end has done so far, counted by all of its threads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::wire::message::Totals;

/// The counters behind [`Totals`].
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) files: AtomicU64,
    pub(crate) unchanged: AtomicU64,
    pub(crate) others: AtomicU64,
    /// A receiver's alone.
    pub(crate) deleted: AtomicU64,
    /// At a receiver those that are in their place.
    pub(crate) bytes: AtomicU64,
    pub(crate) kept: AtomicU64,
    /// As they go over lanes.
    pub(crate) packed: AtomicU64,
    /// A receiver's alone.
    pub(crate) unkept: AtomicU64,
    /// By this end.
    pub(crate) compared: AtomicU64,
    /// By the receiver, as a sender hears of it.
    pub(crate) compared_there: AtomicU64,
}

impl Counts {
    pub(crate) fn totals(&self) -> Totals {
        Totals {
            files: self.files.load(Relaxed),
            unchanged: self.unchanged.load(Relaxed),
            others: self.others.load(Relaxed),
            deleted: self.deleted.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            kept: self.kept.load(Relaxed),
            packed: self.packed.load(Relaxed),
            unkept: self.unkept.load(Relaxed),
            compared: self.compared.load(Relaxed).saturating_add(self.compared_there.load(Relaxed)),
        }
    }

    /// So many bytes were moved. Files with holes may sum to more than any number holds.
    pub(crate) fn moves(&self, bytes: u64) {
        raise(&self.bytes, bytes);
    }

    /// So many bytes are there of an earlier run.
    pub(crate) fn keeps(&self, bytes: u64) {
        raise(&self.kept, bytes);
    }

    /// So many bytes of what an earlier run left come again after all; some may have been counted so before.
    pub(crate) fn unkeep(&self, bytes: u64) {
        lower(&self.kept, bytes);
    }

    /// So many bytes were read to compare them. How many there were before.
    pub(crate) fn reads(&self, bytes: u64) -> u64 {
        self.compared.fetch_add(bytes, Relaxed)
    }
}

/// Adds to a sum of sizes, which with holes may be more than a number holds.
pub(crate) fn raise(count: &AtomicU64, by: u64) {
    let _ = count.fetch_update(Relaxed, Relaxed, |now| Some(now.saturating_add(by)));
}

/// Takes off what was added.
pub(crate) fn lower(count: &AtomicU64, by: u64) {
    let _ = count.fetch_update(Relaxed, Relaxed, |now| Some(now.saturating_sub(by)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_bytes_than_a_number_holds_are_as_many_as_it_holds() {
        let counts = Counts::default();
        for size in [9 << 60, 9 << 60] {
            counts.keeps(size);
            counts.moves(size);
        }
        let totals = counts.totals();
        assert_eq!((totals.bytes, totals.kept, totals.there()), (u64::MAX, u64::MAX, u64::MAX));
    }
}
