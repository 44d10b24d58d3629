//! What each lane has shown with its last request: a refusal is of that, whatever others show by then.

use std::collections::HashMap;
use std::thread::{self, ThreadId};

use parking_lot::Mutex;

/// By lanes. A lane is a thread, and waits for the answer to one request before it sends another.
pub struct Used<T>(Mutex<HashMap<ThreadId, T>>);

impl<T> Default for Used<T> {
    fn default() -> Used<T> {
        Used(Mutex::default())
    }
}

impl<T: Clone> Used<T> {
    /// This lane shows it now.
    pub fn set(&self, shown: T) {
        self.0.lock().insert(thread::current().id(), shown);
    }

    /// What this lane has shown; `None`: nothing yet.
    pub fn own(&self) -> Option<T> {
        self.0.lock().get(&thread::current().id()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lane_has_its_own() {
        let used = Used::default();
        used.set(1);
        thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(used.own(), None);
                used.set(2);
            });
        });
        assert_eq!(used.own(), Some(1));
    }
}
