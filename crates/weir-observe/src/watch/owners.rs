//! Which processes hold a socket?
//!
//! A socket that a process hands on to its children has several holders, of which any may be at work at it or
//! none. The owner is the one that was found first: processes are read parents first.

use crate::maps::{Map, Set};
use crate::process::Pid;

/// Holders of sockets, by inode.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// All that hold a socket, its owner first; empty: nobody who may be looked into does.
    of: Map<u32, Vec<Pid>>,
    /// While all processes are read anew: the sockets that were met.
    met: Option<Set<u32>>,
}

impl Owners {
    /// Whether it was asked before who holds it.
    pub(super) fn knows(&self, inode: u32) -> bool {
        self.of.contains_key(&inode)
    }

    /// Whether a process is known to hold it, or held it before that ended.
    pub(super) fn is_held(&self, inode: u32) -> bool {
        self.of.get(&inode).is_some_and(|holders| !holders.is_empty())
    }

    /// All that do, the owner first.
    pub(super) fn holders(&self, inode: u32) -> Vec<Pid> {
        self.of.get(&inode).cloned().unwrap_or_default()
    }

    /// A process was found to hold it; `true` where nobody was known to. One that a child inherits stays its
    /// parent's.
    pub(super) fn open(&mut self, inode: u32, pid: Pid) -> bool {
        let holders = self.of.entry(inode).or_default();
        let is_new = holders.is_empty();
        if is_new {
            holders.push(pid);
        }
        is_new
    }

    /// It was asked who holds it, and nobody was found.
    pub(super) fn set_asked(&mut self, inode: u32) {
        self.of.entry(inode).or_default();
    }

    /// All processes are read anew: one that is not found to hold a socket holds it no more. The owners of
    /// processes that have ended meanwhile stay known; what was nobody's may find its owner.
    pub(super) fn begin(&mut self) {
        self.of.retain(|_, holders| {
            holders.truncate(1);
            !holders.is_empty()
        });
        self.met = Some(Set::default());
    }

    /// All were read.
    pub(super) fn end(&mut self) {
        self.met = None;
    }

    /// A process holds these.
    pub(super) fn add(&mut self, pid: Pid, inodes: impl Iterator<Item = u32>) {
        for inode in inodes {
            let holders = self.of.entry(inode).or_default();
            if self.met.as_mut().is_some_and(|met| met.insert(inode)) {
                holders.clear();
            }
            if !holders.contains(&pid) {
                holders.push(pid);
            }
        }
    }

    /// Forgets all others.
    pub(super) fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        self.of.retain(|inode, _| keep(*inode));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: Pid = Pid(7);
    const CHILD: Pid = Pid(8);

    fn read(owners: &mut Owners, all: &[(Pid, u32)]) {
        owners.begin();
        all.iter().for_each(|(pid, inode)| owners.add(*pid, [*inode].into_iter()));
        owners.end();
    }

    #[test]
    fn an_inherited_socket_has_two_holders_until_one_closes_it() {
        let mut owners = Owners::default();
        read(&mut owners, &[(PARENT, 1), (PARENT, 2), (CHILD, 1), (CHILD, 1)]);
        assert_eq!((owners.holders(1), owners.holders(2)), (vec![PARENT, CHILD], vec![PARENT]));
        // A second name of it in the same process is no second holder.
        read(&mut owners, &[(PARENT, 1), (PARENT, 1)]);
        assert_eq!(owners.holders(1), [PARENT]);
        read(&mut owners, &[(CHILD, 1)]);
        assert_eq!(owners.holders(1), [CHILD], "as of a server that forks and leaves it to its child");
        read(&mut owners, &[]);
        assert_eq!(owners.holders(1), [CHILD], "who has ended");
    }

    #[test]
    fn a_process_that_is_read_between_takes_no_socket_from_its_parent() {
        let mut owners = Owners::default();
        assert!(owners.open(1, PARENT) && !owners.open(1, CHILD));
        owners.add(CHILD, [1, 2].into_iter());
        assert_eq!((owners.holders(1), owners.holders(2)), (vec![PARENT, CHILD], vec![CHILD]));
        owners.set_asked(3);
        assert!(owners.knows(3) && !owners.is_held(3) && owners.is_held(2));
        owners.retain(|inode| inode != 3);
        assert!(!owners.knows(3));
    }
}
