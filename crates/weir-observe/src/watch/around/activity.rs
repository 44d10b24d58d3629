//! What do the subject's threads wait for, taken together?
//!
//! Of many threads most wait for work. What the program as a whole does is what the first of these kinds says
//! that any thread was found at: a thread in a read from a socket waits for a peer, whatever the others do. A
//! process that only waits for a child which is watched too says nothing.

use std::collections::HashSet;

use crate::process::Pid;
use crate::thread_probe::ThreadLook;
use crate::waiting::Doing;
use crate::watch::threads::Threads;

use super::survey::Survey;

/// What a program does, in the order in which one kind says more than another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// In a read from a socket, or a write to one.
    Receiving,
    /// On a processor or ready to run.
    Running,
    /// Reading a file.
    Disk,
    /// Writing a file.
    Writing,
    /// Asleep by its own will.
    Sleeping,
    /// Reading from a terminal.
    Terminal,
    /// Waiting for a client.
    Accepting,
    /// In poll, select or epoll.
    Polling,
    /// Waiting for another thread, or for the lock of a file.
    Lock,
    /// Waiting for a pipe.
    Pipe,
    /// Waiting for a child that is not watched.
    Child,
    /// Not to be seen, or nothing that is known.
    Unknown,
}

impl Kind {
    /// It waits for no socket: its threads sleep, or wait for something else.
    pub(super) fn is_elsewhere(self) -> bool {
        matches!(
            self,
            Kind::Disk
                | Kind::Writing
                | Kind::Sleeping
                | Kind::Terminal
                | Kind::Lock
                | Kind::Pipe
                | Kind::Child
        )
    }
}

/// What the program does, and which of its threads.
#[derive(Debug)]
pub(super) struct Activity {
    pub(super) kind: Kind,
    pub(super) who: Option<String>,
}

/// The whole program's, as of the last sample. `open`: a connection is, so that a poll may wait for it.
pub(super) fn of(threads: &Threads, survey: &Survey, open: bool) -> Activity {
    let unknown = Activity { kind: Kind::Unknown, who: None };
    if survey.missing().is_some() {
        return unknown;
    }
    let all: Vec<(Pid, &str, Kind)> = threads
        .looks()
        .map(|(pid, name, look)| (pid, name, kind(look, survey.leads(pid, look.descriptor))))
        .collect();
    let processes: HashSet<Pid> = all.iter().map(|(pid, ..)| *pid).collect();
    let only_waits = |kind: Kind| kind == Kind::Child && processes.len() > 1;
    let first = all.iter().filter(|(.., kind)| !only_waits(*kind)).min_by_key(|(.., kind)| rank(*kind, open));
    first.map_or(unknown, |(_, name, kind)| Activity { kind: *kind, who: Some((*name).to_owned()) })
}

/// While a connection is open a thread in a poll may wait for it, whatever else sleeps.
fn rank(kind: Kind, open: bool) -> (u8, Kind) {
    let first = match kind {
        Kind::Receiving => 0,
        Kind::Running | Kind::Disk | Kind::Writing => 1,
        Kind::Polling if open => 2,
        _ => 3,
    };
    (first, kind)
}

/// Where a descriptor leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leads {
    Socket,
    Listener,
    Terminal,
    Pipe,
    Elsewhere,
}

fn kind(look: ThreadLook, leads: Leads) -> Kind {
    let waits_for_child = matches!(look.call, Some(libc::SYS_wait4 | libc::SYS_waitid));
    // Of what fcntl does only F_SETLKW and its kin sleep.
    let waits_for_lock = matches!(look.call, Some(libc::SYS_flock | libc::SYS_fcntl));
    match (look.doing, leads) {
        (Doing::Running, _) => Kind::Running,
        (Doing::Elsewhere, _) if waits_for_child => Kind::Child,
        (Doing::Elsewhere, _) if waits_for_lock => Kind::Lock,
        (Doing::Receiving | Doing::PipeEmpty | Doing::PipeFull | Doing::Elsewhere, Leads::Terminal) => {
            Kind::Terminal
        }
        (Doing::Polling, Leads::Listener) => Kind::Accepting,
        (Doing::Receiving | Doing::Sending, _) => Kind::Receiving,
        (Doing::PipeEmpty | Doing::PipeFull, Leads::Socket) => Kind::Receiving,
        (Doing::PipeEmpty | Doing::PipeFull, _) => Kind::Pipe,
        (Doing::Polling | Doing::AwaitingKernel, _) => Kind::Polling,
        (Doing::ReadingDisk | Doing::PagingIn, _) => Kind::Disk,
        (Doing::WritingDisk | Doing::DirtyThrottle, _) => Kind::Writing,
        (Doing::Sleeping, _) => Kind::Sleeping,
        (Doing::WaitingForThread, _) => Kind::Lock,
        (Doing::Elsewhere, _) => Kind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_sleep_means_what_its_descriptor_says() {
        let look = |doing, call| ThreadLook { doing, descriptor: Some(0), call };
        assert_eq!(kind(look(Doing::Receiving, None), Leads::Terminal), Kind::Terminal);
        assert_eq!(kind(look(Doing::Receiving, None), Leads::Socket), Kind::Receiving);
        assert_eq!(kind(look(Doing::PipeEmpty, None), Leads::Socket), Kind::Receiving, "a local socket");
        assert_eq!(kind(look(Doing::PipeEmpty, None), Leads::Pipe), Kind::Pipe);
        assert_eq!(kind(look(Doing::Polling, None), Leads::Listener), Kind::Accepting);
        assert_eq!(kind(look(Doing::Elsewhere, Some(libc::SYS_wait4)), Leads::Elsewhere), Kind::Child);
        assert_eq!(kind(look(Doing::Elsewhere, Some(libc::SYS_flock)), Leads::Elsewhere), Kind::Lock);
        assert_eq!(kind(look(Doing::Elsewhere, Some(libc::SYS_fcntl)), Leads::Elsewhere), Kind::Lock);
        assert_eq!(kind(look(Doing::Elsewhere, None), Leads::Elsewhere), Kind::Unknown);
    }

    #[test]
    fn a_poll_beside_an_open_connection_says_more_than_a_sleep() {
        assert!(rank(Kind::Polling, true) < rank(Kind::Sleeping, true));
        assert!(rank(Kind::Sleeping, false) < rank(Kind::Polling, false));
        assert!(rank(Kind::Receiving, false) < rank(Kind::Running, false));
        assert!(rank(Kind::Running, true) < rank(Kind::Polling, true));
    }
}
