//! What happens next, and to whom.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Microseconds since the beginning.
pub type Micros = u64;

/// What happens to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// It starts.
    Join,
    /// It asks for a batch.
    Claim,
    /// It tells the ledger that it holds its batch.
    Renew,
    /// The last object of its batch is through.
    End,
    /// It tells the ledger what became of one.
    Finish,
    /// It is killed.
    Kill,
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// When.
    pub at: Micros,
    /// Of two at the same time the one that was made first comes first.
    number: u64,
    /// To which worker.
    pub worker: usize,
    /// Which life of it: a killed worker hears nothing of what it would have done.
    pub life: u32,
    /// What.
    pub what: What,
}

/// Those that are to come.
#[derive(Default)]
pub struct Events {
    heap: BinaryHeap<Reverse<Event>>,
    made: u64,
}

impl Events {
    pub fn add(&mut self, at: Micros, worker: usize, life: u32, what: What) {
        self.made += 1;
        self.heap.push(Reverse(Event { at, number: self.made, worker, life, what }));
    }

    pub fn next(&mut self) -> Option<Event> {
        self.heap.pop().map(|Reverse(event)| event)
    }
}
