//! Which of the subject's processes have only just begun, and are to be asked often what they open?
//!
//! A command's connection may live for a millisecond, and once it is over nothing tells whose it was. So a
//! new process is asked for its sockets every millisecond or so, and all of the subject's for a while after
//! one was missed.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::process::Pid;

/// A process is new for so long: most commands have opened what they came for by then.
const YOUNG: Duration = Duration::from_secs(1);

/// For so long after a connection was missed every process is asked.
const RESTLESS: Duration = Duration::from_secs(1);

/// Between two peeks at least: a connection over loopback lives about as long.
const SHORTEST_NAP: Duration = Duration::from_millis(1);

/// A peek is followed by so many times its own length of rest: a tenth of a processor at most.
const REST: u32 = 9;

/// Processes asked in one peek, a few system calls each.
const AT_ONCE: usize = 32;

/// A socket is looked for so often among the connected ones: it is none before its connect, and may never be.
const TRIES: u8 = 8;

/// The newest processes of the subject.
#[derive(Debug, Default)]
pub(super) struct Newcomers {
    from_the_start: bool,
    /// Some were listed.
    begun: bool,
    known: HashSet<Pid>,
    young: Vec<(Pid, Instant)>,
    /// Sockets that were opened and are not known to be connected, and how often they are looked for yet.
    awaited: HashMap<u32, u8>,
    missed: Option<Instant>,
    /// What the last peek took of a processor.
    pub(super) cost: Duration,
}

impl Newcomers {
    /// Of a subject whose first process is new itself.
    pub(super) fn from_the_start() -> Newcomers {
        Newcomers { from_the_start: true, ..Newcomers::default() }
    }

    /// These are the subject's processes now.
    pub(super) fn list(&mut self, pids: &[Pid], now: Instant) {
        let first = !self.begun && !self.from_the_start;
        self.begun |= !pids.is_empty();
        for pid in pids {
            if self.known.insert(*pid) && !first {
                self.young.push((*pid, now));
            }
        }
        // A number that has ended may be another process's later.
        if self.known.len() > pids.len() {
            let listed: HashSet<Pid> = pids.iter().copied().collect();
            self.known.retain(|pid| listed.contains(pid));
        }
        self.young.retain(|(_, born)| now.saturating_duration_since(*born) < YOUNG);
    }

    /// A connection that may have been the subject's was over before it was seen.
    pub(super) fn missed(&mut self, now: Instant) {
        self.missed = Some(now);
    }

    fn is_restless(&self, now: Instant) -> bool {
        self.missed.is_some_and(|missed| now.saturating_duration_since(missed) < RESTLESS)
    }

    /// Who is asked for new children.
    pub(super) fn asked(&self, pids: &[Pid]) -> Vec<Pid> {
        pids.iter().take(AT_ONCE).copied().collect()
    }

    /// Who is asked for sockets.
    pub(super) fn opening(&self, pids: &[Pid], now: Instant) -> Vec<Pid> {
        match self.is_restless(now) {
            true => pids.iter().rev().take(AT_ONCE).copied().collect(),
            false => self.young.iter().rev().take(AT_ONCE).map(|(pid, _)| *pid).collect(),
        }
    }

    /// This socket is to be looked for.
    pub(super) fn await_socket(&mut self, inode: u32) {
        self.awaited.insert(inode, TRIES);
    }

    /// It is known now.
    pub(super) fn found(&mut self, inode: u32) {
        self.awaited.remove(&inode);
    }

    pub(super) fn awaits(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Those awaited were looked for.
    pub(super) fn asked_once(&mut self) {
        self.awaited.retain(|_, tries| {
            *tries -= 1;
            *tries > 0
        });
    }

    /// Until the next peek; `None` where none is needed.
    pub(super) fn nap(&self, now: Instant) -> Option<Duration> {
        let young = self.young.iter().any(|(_, born)| now.saturating_duration_since(*born) < YOUNG);
        (young || self.is_restless(now)).then(|| SHORTEST_NAP.max(self.cost * REST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn only_who_began_since_is_new() {
        let now = Instant::now();
        let mut newcomers = Newcomers::default();
        newcomers.list(&[Pid(1), Pid(2)], now);
        assert_eq!((newcomers.nap(now), newcomers.opening(&[Pid(1), Pid(2)], now)), (None, vec![]));
        newcomers.list(&[Pid(1), Pid(2), Pid(3)], now);
        assert_eq!(newcomers.opening(&[Pid(1), Pid(2), Pid(3)], now), [Pid(3)]);
        assert!(newcomers.nap(now).is_some());
        assert_eq!(newcomers.nap(now + YOUNG), None);
        let mut started = Newcomers::from_the_start();
        started.list(&[Pid(1)], now);
        assert_eq!(started.opening(&[Pid(1)], now), [Pid(1)]);
    }

    #[test]
    fn a_number_that_is_used_again_is_new_again() {
        let now = Instant::now();
        let mut newcomers = Newcomers::default();
        newcomers.list(&[Pid(1), Pid(2)], now);
        newcomers.list(&[], now);
        newcomers.list(&[Pid(2)], now + YOUNG);
        assert_eq!(newcomers.opening(&[Pid(2)], now + YOUNG), [Pid(2)]);
    }

    #[test]
    fn peeks_take_a_tenth_of_a_processor_at_most() {
        let now = Instant::now();
        let mut newcomers = Newcomers::from_the_start();
        newcomers.list(&[Pid(1)], now);
        assert_eq!(newcomers.nap(now), Some(MILLISECOND));
        newcomers.cost = 2 * MILLISECOND;
        assert_eq!(newcomers.nap(now), Some(18 * MILLISECOND));
    }

    #[test]
    fn one_that_was_missed_makes_every_process_new_for_a_while() {
        let now = Instant::now();
        let mut newcomers = Newcomers::default();
        newcomers.list(&[Pid(1)], now);
        newcomers.missed(now);
        assert_eq!(newcomers.opening(&[Pid(1)], now), [Pid(1)]);
        assert!(newcomers.nap(now).is_some());
        assert_eq!(newcomers.nap(now + RESTLESS), None);
    }

    #[test]
    fn what_is_never_connected_is_looked_for_a_few_times() {
        let mut newcomers = Newcomers::default();
        newcomers.await_socket(7);
        for _ in 0..TRIES {
            assert!(newcomers.awaits());
            newcomers.asked_once();
        }
        assert!(!newcomers.awaits());
    }
}
