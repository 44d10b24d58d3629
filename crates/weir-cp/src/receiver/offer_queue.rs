//! Where offers wait for the threads that answer them, so that looking at many files, or reading a large one
//! for its signature, holds up nothing else that the sender says.
//!
//! Two kinds of threads: those that look wait for nothing but this machine's files; those that compare wait
//! until the sender may have another signature, that is, until files are finished. Were they the same, the
//! word that ends a file could stand behind offers that wait for that end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver as Mailbox, SyncSender, sync_channel};

use parking_lot::{Condvar, Mutex, MutexGuard};
use weir_tree::Entry;

use crate::wire::to_receiver::Offered;

/// Messages of offers that wait: a sender that offers faster than it gets answers is made to wait on its
/// connection.
const WAITING: usize = 8;

/// Bytes of signatures that the sender may hold for files that are not finished: one of the largest, many of
/// small files.
const SIGNATURES: u64 = 16 << 20;

/// Bytes of entries that may wait to be compared: those that an honest sender has under way.
const TO_COMPARE: usize = 16 << 20;

/// Offers on their way to whoever answers them.
#[derive(Debug, Default)]
pub(super) struct OfferQueue {
    hand_in: Mutex<Option<SyncSender<Vec<Offered>>>>,
    to_compare: Mutex<ToCompare>,
    compares: Condvar,
    /// Held while a signature is told: the sender puts together one at a time.
    telling: Mutex<()>,
    budget: Arc<Budget>,
}

/// A file that is to be compared with what is in its place.
#[derive(Debug)]
pub(super) struct Comparison {
    /// The offer's number.
    pub(super) id: u64,
    /// What it is to be.
    pub(super) entry: Entry,
    /// What is there.
    pub(super) old: Entry,
}

#[derive(Debug, Default)]
struct ToCompare {
    waiting: VecDeque<Box<Comparison>>,
    weight: usize,
    over: bool,
}

/// What of [`SIGNATURES`] is taken.
#[derive(Debug, Default)]
struct Budget {
    state: Mutex<Taken>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: u64,
    over: bool,
}

/// The right to have a signature of so many bytes at the sender.
#[derive(Debug)]
pub(super) struct Permit {
    bytes: u64,
    budget: Arc<Budget>,
}

impl OfferQueue {
    /// Opens it: what is handed in from now on comes out of the mailbox.
    pub(super) fn open(&self) -> Mailbox<Vec<Offered>> {
        let (hand_in, mailbox) = sync_channel(WAITING);
        *self.hand_in.lock() = Some(hand_in);
        mailbox
    }

    /// Hands offers in; waits while too many do. False where the queue is closed.
    pub(super) fn hand_in(&self, offers: Vec<Offered>) -> bool {
        let hand_in = self.hand_in.lock().clone();
        hand_in.is_some_and(|hand_in| hand_in.send(offers).is_ok())
    }

    /// Puts a file aside to be compared; gives it back where too many wait.
    pub(super) fn put_aside(&self, comparison: Box<Comparison>) -> Result<(), Box<Comparison>> {
        let mut to_compare = self.to_compare.lock();
        if to_compare.weight + comparison.weight() > TO_COMPARE {
            return Err(comparison);
        }
        to_compare.weight += comparison.weight();
        to_compare.waiting.push_back(comparison);
        self.compares.notify_one();
        Ok(())
    }

    /// Waits for a file to compare; `None` where the queue is closed.
    pub(super) fn next_to_compare(&self) -> Option<Box<Comparison>> {
        let mut to_compare = self.to_compare.lock();
        loop {
            if to_compare.over {
                return None;
            }
            if let Some(next) = to_compare.waiting.pop_front() {
                to_compare.weight -= next.weight();
                return Some(next);
            }
            self.compares.wait(&mut to_compare);
        }
    }

    /// Nobody wants an answer any more.
    pub(super) fn close(&self) {
        self.hand_in.lock().take();
        self.to_compare.lock().over = true;
        self.compares.notify_all();
        self.budget.state.lock().over = true;
        self.budget.freed.notify_all();
    }

    /// Waits until the sender may hold a signature of so many bytes more; `None` where the queue is closed.
    pub(super) fn permit(&self, bytes: u64) -> Option<Permit> {
        let mut taken = self.budget.state.lock();
        while !taken.over && taken.bytes > 0 && taken.bytes + bytes > SIGNATURES {
            self.budget.freed.wait(&mut taken);
        }
        if taken.over {
            return None;
        }
        taken.bytes += bytes;
        Some(Permit { bytes, budget: Arc::clone(&self.budget) })
    }

    /// Waits for the turn to tell a signature.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.telling.lock()
    }
}

impl Comparison {
    /// Bytes that it takes, about.
    fn weight(&self) -> usize {
        let xattrs: usize =
            self.entry.xattrs.iter().map(|xattr| xattr.name().len() + xattr.value().len()).sum();
        size_of::<Comparison>() + 2 * self.entry.name.as_bytes().len() + xattrs
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.budget.state.lock().bytes -= self.bytes;
        self.budget.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_tree::Kind;
    use weir_tree::entry::Time;

    #[test]
    fn what_waits_to_be_compared_is_bounded() {
        let queue = OfferQueue::default();
        let comparison = |id| {
            let kind = Kind::File { size: 1 << 20, sparse: false };
            let (name, mtime) = ("a".parse().unwrap(), Time::new(0, 0).unwrap());
            let entry = Entry { name, kind, mode: 0o644, mtime, uid: 0, gid: 0, xattrs: Vec::new() };
            Box::new(Comparison { id, old: entry.clone(), entry })
        };
        let held = (0..).find(|id| queue.put_aside(comparison(*id)).is_err()).unwrap();
        assert!(
            (16_384..1 << 20).contains(&held),
            "all that a sender has under way, and no more than memory: {held}"
        );
        assert_eq!(queue.next_to_compare().map(|next| next.id), Some(0));
        assert!(queue.put_aside(comparison(held)).is_ok(), "there is room again");
        queue.close();
        assert!(queue.next_to_compare().is_none());
    }

    #[test]
    fn signatures_stay_within_their_budget_and_one_always_fits() {
        let queue = Arc::new(OfferQueue::default());
        let large = queue.permit(2 * SIGNATURES).expect("the first is let in whatever its size");
        let other = Arc::clone(&queue);
        let waiting = std::thread::spawn(move || other.permit(1).map(|permit| permit.bytes));
        assert_eq!(queue.budget.state.lock().bytes, 2 * SIGNATURES);
        drop(large);
        assert_eq!(waiting.join().expect("it was let in"), Some(1));
        assert_eq!(queue.budget.state.lock().bytes, 0);
        let _small = queue.permit(SIGNATURES).expect("there is room");
        let other = Arc::clone(&queue);
        let waiting = std::thread::spawn(move || other.permit(1).is_none());
        queue.close();
        assert!(waiting.join().expect("it was told"), "a closed desk lets nobody wait");
        assert!(!queue.hand_in(Vec::new()));
    }
}
