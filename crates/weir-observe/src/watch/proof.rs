//! What proves that a socket is the subject's, beside a descriptor of its? The place that it was made in,
//! where only the subject is in that place: a control group, a network namespace, a user, a port that is
//! listened at.
//!
//! Going to the same server proves nothing: others go there, too. Nor does a place in which others may be
//! hidden: in a container, or where `/proc` shows a user only its own processes. A proof holds as of the
//! moment at which the processes were listed; it can be wrong where another process was in that place before
//! or since.

use std::collections::HashSet;

use super::discovery::Key;
use crate::cgroup;
use crate::process::{self, Pid};
use crate::sock_diag::QuickSocket;

/// Of so many processes the control groups are asked: a tree shares one or a few.
const SOME: usize = 16;

/// The places that are the subject's alone.
#[derive(Debug, Default)]
pub(super) struct Proof {
    /// Control groups of version 2.
    groups: HashSet<u64>,
    /// Network namespaces, by their place in the discovery's list.
    networks: HashSet<usize>,
    users: HashSet<u32>,
    /// Ports, in a network namespace each.
    ports: HashSet<(usize, u16)>,
}

impl Proof {
    /// Looks anew at who is where. `tree` are the subject's processes, `hidden` those of them that may not be
    /// looked into, and `networks` the names of its network namespaces.
    pub(super) fn learn<'a>(
        &mut self,
        tree: &[Pid],
        hidden: &HashSet<Pid>,
        networks: impl Iterator<Item = (usize, &'a str)>,
    ) {
        let own = Pid(std::process::id());
        // Of weir's own sockets none is a connection.
        let is_known = |pid: Pid| pid == own || tree.contains(&pid);
        let alone = |(number, processes): &(u64, Vec<Pid>)| {
            (!processes.is_empty() && processes.iter().all(|pid| is_known(*pid))).then_some(*number)
        };
        self.groups = tree
            .iter()
            .take(SOME)
            .filter_map(|pid| cgroup::unified(*pid))
            .filter_map(|it| alone(&it))
            .collect();
        self.networks =
            networks.filter(|(_, name)| process::lives_alone(name, is_known)).map(|(at, _)| at).collect();
        self.users = hidden.iter().filter_map(|pid| process::owner(*pid).ok()).collect();
        if !process::sees_all() {
            self.users.clear();
        } else if !self.users.is_empty() {
            for pid in process::all().into_iter().filter(|pid| !is_known(*pid)) {
                if let Ok(user) = process::owner(pid) {
                    self.users.remove(&user);
                }
            }
        }
    }

    /// Whether the subject is alone in that network namespace.
    pub(super) fn has_network(&self, net: usize) -> bool {
        self.networks.contains(&net)
    }

    /// The subject alone listens at these ports of the network namespace.
    pub(super) fn set_ports(&mut self, net: usize, ports: impl Iterator<Item = u16>) {
        self.ports.retain(|(of, _)| *of != net);
        self.ports.extend(ports.map(|port| (net, port)));
    }

    /// Whether the subject alone listens there: who connects there talks to it.
    pub(super) fn listens(&self, net: usize, port: u16) -> bool {
        self.ports.contains(&(net, port))
    }

    /// Whether a socket that is there is the subject's.
    pub(super) fn of(&self, net: usize, socket: &QuickSocket) -> bool {
        socket.cgroup.is_some_and(|group| self.groups.contains(&group))
            // A socket that no process holds has no owner any more, and reads as root's.
            || (socket.inode != 0 && self.users.contains(&socket.uid))
            || self.of_ended((net, socket.id.cookie), socket.id.local.port())
    }

    /// Whether one that has ended was: of it only its addresses are told.
    pub(super) fn of_ended(&self, (net, _): Key, port: u16) -> bool {
        self.networks.contains(&net) || self.listens(net, port)
    }

    /// Whether the connections of a process that may not be looked into can be told from others'.
    pub(super) fn tells(&self, pid: Pid) -> bool {
        process::owner(pid).is_ok_and(|user| self.users.contains(&user))
            || cgroup::unified(pid).is_some_and(|(group, _)| self.groups.contains(&group))
            || !self.networks.is_empty()
    }
}
