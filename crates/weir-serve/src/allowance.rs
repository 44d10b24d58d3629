//! How much memory may the bodies of tasks take that wait for slow clients?
//!
//! What was read from a file and not yet written to a socket is leased, piece by piece, and a lease ends when
//! the piece is dropped. Each connection has a little for itself, so that those who stall cannot starve
//! others; more comes from a pot that all share, and is there for those who read fast, since theirs comes
//! back within microseconds.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// A connection's own bytes: two TLS records, so that one is read while the other is written.
const OWN: usize = 32 * 1024;
/// The most one connection holds: above it nothing gets faster, the kernel's own buffer being behind it.
const MOST: usize = 512 * 1024;
/// What all connections share.
const POT: usize = 16 << 20;
/// A lease from the pot is not worth its while below this.
const LEAST: usize = 4 * 1024;

/// What is left for all connections of a server.
#[derive(Debug)]
pub(crate) struct Pot(Mutex<usize>);

/// What one connection may hold.
#[derive(Debug)]
pub(crate) struct Allowance {
    pot: Arc<Pot>,
    held: Mutex<Held>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    from_pot: usize,
}

/// The right to hold so many bytes until this is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    allowance: Arc<Allowance>,
    bytes: usize,
}

impl Pot {
    pub(crate) fn new() -> Pot {
        Pot(Mutex::new(POT))
    }

    fn take(&self, want: usize) -> usize {
        let mut left = self.0.lock();
        let taken = want.min(*left);
        *left -= taken;
        taken
    }

    fn give(&self, bytes: usize) {
        *self.0.lock() += bytes;
    }
}

impl Allowance {
    pub(crate) fn new(pot: Arc<Pot>) -> Allowance {
        Allowance { pot, held: Mutex::default(), freed: Notify::new() }
    }

    /// Waits for at least one of the `want` bytes, which are not zero.
    pub(crate) async fn lease(self: &Arc<Self>, want: usize) -> Lease {
        loop {
            let freed = self.freed.notified();
            if let Some(bytes) = self.try_take(want) {
                return Lease { allowance: self.clone(), bytes };
            }
            freed.await;
        }
    }

    fn try_take(&self, want: usize) -> Option<usize> {
        let mut held = self.held.lock();
        let most = want.min(MOST.saturating_sub(held.bytes));
        let own = OWN.saturating_sub(held.bytes).min(most);
        let from_pot = self.pot.take(most - own);
        let bytes = own + from_pot;
        if bytes < want.min(LEAST) {
            self.pot.give(from_pot);
            return None;
        }
        held.bytes += bytes;
        held.from_pot += from_pot;
        Some(bytes)
    }
}

impl Lease {
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut held = self.allowance.held.lock();
        held.bytes -= self.bytes;
        let needed = held.bytes.saturating_sub(OWN).min(held.from_pot);
        let spare = held.from_pot - needed;
        held.from_pot = needed;
        drop(held);
        self.allowance.pot.give(spare);
        // One at a time, or a hundred streams would wake for one piece; whoever takes it wakes the next when
        // it is gone.
        self.allowance.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn take(allowance: &Arc<Allowance>, want: usize) -> Option<Lease> {
        allowance.try_take(want).map(|bytes| Lease { allowance: allowance.clone(), bytes })
    }

    #[test]
    fn those_who_stall_leave_the_others_their_own() {
        let pot = Arc::new(Pot::new());
        let stalled: Vec<_> = (0..POT / (MOST - OWN) + 2)
            .map(|_| {
                let allowance = Arc::new(Allowance::new(pot.clone()));
                take(&allowance, usize::MAX).unwrap()
            })
            .collect();
        assert_eq!(*pot.0.lock(), 0);
        let honest = Arc::new(Allowance::new(pot.clone()));
        assert_eq!(take(&honest, 64 * 1024).unwrap().len(), OWN);
        drop(stalled);
        assert_eq!(take(&honest, 64 * 1024).unwrap().len(), 64 * 1024);
        assert_eq!(*pot.0.lock(), POT);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_made(steps in proptest::collection::vec((0usize..3, 1usize..600_000, any::<bool>()), 0..200)) {
            let pot = Arc::new(Pot::new());
            let all: Vec<_> = (0..3).map(|_| Arc::new(Allowance::new(pot.clone()))).collect();
            let mut leases: Vec<Lease> = Vec::new();
            for (who, want, drops) in steps {
                if drops && !leases.is_empty() {
                    leases.swap_remove(want % leases.len());
                } else if let Some(lease) = take(&all[who], want) {
                    prop_assert!(lease.len() > 0 && lease.len() <= want);
                    leases.push(lease);
                }
                for allowance in &all {
                    let held = allowance.held.lock();
                    prop_assert!(held.bytes <= MOST && held.bytes - held.from_pot <= OWN);
                }
            }
            leases.clear();
            prop_assert_eq!(*pot.0.lock(), POT);
        }
    }
}
