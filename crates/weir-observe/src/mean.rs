//! The mean of a level over the looks of an interval.

/// Sums up and divides at the end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mean {
    sum: u64,
    count: u64,
}

impl Mean {
    pub(crate) fn add(&mut self, value: u64) {
        self.sum = self.sum.saturating_add(value);
        self.count += 1;
    }

    /// `None` without a value.
    pub(crate) fn value(self) -> Option<u64> {
        self.sum.checked_div(self.count)
    }
}
