//! How many entries may be removed in all (`--max-delete`).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Target;

/// The limit, where there is one, and what was removed so far.
#[derive(Debug, Default)]
pub(super) struct Limit {
    most: OnceLock<u64>,
    taken: AtomicU64,
}

impl Target {
    /// No more than so many entries are removed from now on, in a dry run told.
    pub fn limit_removals(&self, most: u64) {
        let _ = self.shared.limit.most.set(most);
    }
}

impl Limit {
    /// Whether one more may go. To be given back where it did not.
    pub(super) fn take(&self) -> bool {
        let Some(most) = self.most.get() else { return true };
        let next = |taken| (taken < *most).then_some(taken + 1);
        self.taken.fetch_update(Relaxed, Relaxed, next).is_ok()
    }

    /// One that was taken is still there.
    pub(super) fn give_back(&self) {
        if self.is_set() {
            self.taken.fetch_sub(1, Relaxed);
        }
    }

    /// There is one.
    pub(super) fn is_set(&self) -> bool {
        self.most.get().is_some()
    }
}
