//! What each lane showed with its last request. A refusal is about that, not about what other lanes have
//! shown since.

use std::collections::HashMap;
use std::thread::{self, ThreadId};

use parking_lot::Mutex;

/// One value per lane. A lane is a thread that waits for each answer before it sends the next request.
pub struct Used<T>(Mutex<HashMap<ThreadId, T>>);

impl<T> Default for Used<T> {
    fn default() -> Used<T> {
        Used(Mutex::default())
    }
}

impl<T: Clone> Used<T> {
    /// This lane is about to show it.
    pub fn set(&self, shown: T) {
        self.0.lock().insert(thread::current().id(), shown);
    }

    /// What this lane showed last, if anything.
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
