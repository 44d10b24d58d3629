//! The descriptors of the subject's processes, each table read once for all who ask.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ObserveError;
use crate::maps::Set;
use crate::process::{self, Descriptors, Pid};
use crate::thread::thread_cpu_now;

/// Reading a table is dear from here on: it has some thousand descriptors.
pub(super) const DEAR: Duration = Duration::from_millis(5);

/// Of a dear table every descriptor is followed again after so many times what that takes, a thousandth of a
/// processor: until then one that leads to a socket which the last dump still found is taken to lead there.
const WHOLE: u32 = 1000;

/// Tables by process.
#[derive(Debug, Default)]
pub(super) struct Tables {
    of: HashMap<Pid, Table>,
    /// Inodes of the sockets that the last dump found.
    alive: Set<u32>,
}

#[derive(Debug)]
struct Table {
    found: Arc<Descriptors>,
    read: Instant,
    /// When every descriptor was followed, and what that took of a processor.
    whole: Instant,
    whole_cost: Duration,
    /// What the last reading took.
    cost: Duration,
}

impl Tables {
    /// That of a process as of `since` or later.
    pub(super) fn read(&mut self, pid: Pid, since: Instant) -> Result<Arc<Descriptors>, ObserveError> {
        let known = self.of.get(&pid);
        if let Some(table) = known.filter(|table| table.read >= since) {
            return Ok(table.found.clone());
        }
        let read = Instant::now();
        let start = thread_cpu_now();
        let trusted = known.filter(|table| {
            table.whole_cost >= DEAR && read.saturating_duration_since(table.whole) < table.whole_cost * WHOLE
        });
        let found = match trusted {
            Some(table) => table.found.reread(pid, |inode| self.alive.contains(&inode)),
            None => process::descriptors(pid),
        };
        let found = match found {
            Ok(found) => Arc::new(found),
            Err(error) => {
                self.of.remove(&pid);
                return Err(error);
            }
        };
        let cost = thread_cpu_now().saturating_sub(start);
        let (whole, whole_cost) = trusted.map_or((read, cost), |table| (table.whole, table.whole_cost));
        self.of.insert(pid, Table { found: found.clone(), read, whole, whole_cost, cost });
        Ok(found)
    }

    /// That of a process as last read.
    pub(super) fn get(&self, pid: Pid) -> Option<&Descriptors> {
        self.of.get(&pid).map(|table| table.found.as_ref())
    }

    /// All of them, as last read.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Pid, &Descriptors)> {
        self.of.iter().map(|(pid, table)| (*pid, table.found.as_ref()))
    }

    /// What reading all of them once more would take of a processor.
    pub(super) fn cost(&self) -> Duration {
        self.of.values().map(|table| table.cost).sum()
    }

    /// Forgets all others.
    pub(super) fn retain(&mut self, keep: impl Fn(Pid) -> bool) {
        self.of.retain(|pid, _| keep(*pid));
    }

    /// A new dump begins: what the last one found counts no more.
    pub(super) fn begin_dump(&mut self) {
        self.alive.clear();
    }

    /// The dump found these sockets.
    pub(super) fn found(&mut self, inodes: impl Iterator<Item = u32>) {
        // Only for them is anything taken at its word.
        if self.of.values().any(|table| table.whole_cost >= DEAR) {
            self.alive.extend(inodes.filter(|inode| *inode != 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_once_for_all_who_ask() {
        let own = Pid(std::process::id());
        let mut tables = Tables::default();
        let before = Instant::now();
        let first = tables.read(own, before).unwrap();
        assert!(Arc::ptr_eq(&first, &tables.read(own, before).unwrap()), "not older than asked");
        assert!(!Arc::ptr_eq(&first, &tables.read(own, Instant::now()).unwrap()));
        assert_eq!(tables.iter().count(), 1);
        tables.retain(|pid| pid != own);
        assert!(tables.get(own).is_none());
    }

    #[test]
    fn a_process_that_has_ended_has_no_table() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid(child.id());
        let mut tables = Tables::default();
        assert!(tables.read(pid, Instant::now()).is_ok());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(tables.read(pid, Instant::now()).is_err());
        assert!(tables.get(pid).is_none());
    }
}
