//! What stood around a watched program's connections over one interval: attempts to connect, resolvers waited
//! on, the neighbours of its pipes, its other connections, and what it did itself while no socket owed
//! anything.
//!
//! Each sample of an interval falls under exactly one of [`Around::busy`], [`Around::owing`],
//! [`Around::connecting`], [`Around::resolving`] and [`Around::rest`], so that their shares are shares of its
//! time. No judgement here.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::reading::{Reading, seconds};
use crate::thread::{ThreadInterval, join_thread};
use crate::words::percent;

/// The surroundings of one interval. `samples` of zero: nobody watched them, and nothing below means anything
/// but `attempts`, which the clocks of weir's own lanes tell as well.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Around {
    /// How often they were sampled.
    pub samples: u32,
    /// The interval is part of a command's life, which was watched from its start: its time counts whatever
    /// it did.
    pub command: bool,
    /// Samples at which a connection moved bytes, had some unread or under way, or waited for an answer.
    pub busy: u32,
    /// Of these, samples at which the program owed one peer an answer while it waited for another's.
    pub chained: u32,
    /// The lane whose answer it waited for then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chained_to: Option<u32>,
    /// Samples at which a local socket led to another process of this machine: whether it waited for that one
    /// does not show. Records from before it was told have none.
    #[serde(skip_serializing_if = "is_zero")]
    pub local: u32,
    /// Samples at which all connections rested and the last word on one was the peer's request: the program
    /// owes an answer.
    pub owing: u32,
    /// Samples at which no connection was busy, and an attempt to connect was not answered.
    pub connecting: u32,
    /// Samples at which no connection was busy or attempted, and a resolver had not answered.
    pub resolving: u32,
    /// Samples at which no socket owed or was owed anything, by what the program did.
    pub rest: Rest,
    /// Samples at which the queue of one of the program's own listeners was full, within the time in which
    /// clients that were dropped try again.
    pub refusing: u32,
    /// That listener.
    pub crowded: Option<Crowded>,
    /// A connection came to a listener of this machine: whether its client had to wait for it does not show
    /// here.
    pub served: bool,
    /// Attempts to connect that were not answered at some sample.
    pub attempts: Vec<Attempt>,
    /// Resolvers whose answer was awaited at some sample.
    pub resolvers: Vec<Resolver>,
    /// Attempts to connect that failed in this network namespace, whoever made them (`AttemptFails` of
    /// /proc/net/snmp).
    pub failed_attempts: u64,
    /// The program's own, as far as they are known: its socket was seen, or nobody else is in the namespace.
    pub own_failed_attempts: u64,
    /// Connections refused in this namespace since a listener's queue was full (`ListenOverflows` of
    /// /proc/net/netstat).
    pub listen_overflows: u64,
    /// The processes at the other ends of the program's pipes.
    pub pipes: Vec<Neighbour>,
    /// Samples at which a thread waited for a file to be on its disk.
    pub syncs: Option<Sync>,
    /// Of the threads that serve no connection, the one that was found most often in a write to a file:
    /// whoever receives may hand on what comes. `None` where none was, and in records that did not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<ThreadInterval>,
    /// Samples at which a process that has none of the connections waited for a disk where this user may not
    /// read in which call: it may be the one that writes.
    #[serde(skip_serializing_if = "is_zero")]
    pub writes_unseen: u32,
    /// The program's connections by name, where it has some in both directions.
    pub flows: Vec<FlowName>,
    /// What could not be seen of all this.
    pub missing: Option<String>,
}

/// Samples at which no socket owed or was owed anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rest {
    /// Of all of them, those with a connection open.
    pub open: u32,
    /// Those with a socket open that is not judged, of UDP or of this machine alone: an answer may be awaited
    /// there.
    pub other_sockets: u32,
    /// Those with a socket open at which it listens for clients. Records from before it was told have none.
    #[serde(skip_serializing_if = "is_zero")]
    pub listening: u32,
    /// A thread ran or was ready to run.
    pub running: u32,
    /// Asleep by its own will.
    pub sleeping: u32,
    /// In wait for a child that is not watched.
    pub child: u32,
    /// Reading from a terminal.
    pub terminal: u32,
    /// Reading a file.
    pub disk: u32,
    /// Writing a file, or waiting for it to be on its disk.
    pub writing: u32,
    /// Waiting for a pipe.
    pub pipe: u32,
    /// All threads waited for one another, or for the lock of a file.
    pub lock: u32,
    /// In poll, select or epoll: for a timer, or for any of several descriptors.
    pub polling: u32,
    /// Waiting for a client to connect.
    pub accepting: u32,
    /// In a read from a socket on which nothing was asked: for what the peer sends by itself.
    pub receiving: u32,
    /// Not to be seen.
    pub unknown: u32,
    /// Of all of them, those at which it could not be told whose word came last on a client's connection: an
    /// answer may be owed there.
    pub unclear: u32,
    /// The thread that was found so most often: `python3 (pid 4711)`.
    pub who: Option<String>,
    /// How often it was.
    pub who_samples: u32,
}

/// One attempt to connect.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attempt {
    /// The lane of this connection.
    pub lane: u32,
    /// The peer: `10.0.0.9:443`.
    pub peer: String,
    /// What is not answered.
    pub step: Step,
    /// Since it began, at the interval's end.
    #[serde(with = "seconds")]
    pub age: Duration,
    /// How often the step was sent again so far.
    pub retransmits: u32,
    /// The round trip, where an earlier step has measured it.
    #[serde(with = "seconds::optional")]
    pub rtt: Option<Duration>,
    /// The peer's listener, where it is on this machine.
    pub listener: Option<Listener>,
}

/// A step of a handshake.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// TCP's: a SYN.
    #[default]
    Syn,
    /// TCP's, of which the peer's kernel dropped the end: this side is connected, and its first bytes are
    /// never acknowledged.
    Accept,
    /// TLS's: the first bytes that were sent to a port of TLS.
    Tls,
}

/// A listening socket of this machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Listener {
    /// Connections that wait to be accepted (`idiag_rqueue`): the most seen.
    pub queued: u32,
    /// How many may (`idiag_wqueue`): the program's backlog, cut to net.core.somaxconn. The kernel lets in
    /// one more.
    pub backlog: u32,
}

impl Listener {
    /// Whether the kernel drops what comes now (sk_acceptq_is_full).
    pub fn is_full(self) -> bool {
        self.queued > self.backlog
    }
}

/// A listener of the program whose queue was full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Crowded {
    /// The port at which it listens.
    pub port: u16,
    /// Its queue.
    pub listener: Listener,
}

/// A name server, or the service of this machine that asks one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Resolver {
    /// `10.0.0.53:53 (UDP)`, or the path of a local socket.
    pub address: String,
    /// Samples at which its answer was awaited.
    pub samples: u32,
}

/// The process at the other end of a pipe; without a thread where it was not found, as of a named pipe or of
/// a local socket.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Neighbour {
    /// It reads what the program writes; else it writes what the program reads.
    pub reads: bool,
    /// Its busiest thread.
    pub thread: Reading<ThreadInterval>,
    /// It is watched as a part of the program itself.
    pub inside: bool,
    /// Samples at which the program was found waiting at that pipe; `None` in records that did not tell its
    /// pipes apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_at: Option<u32>,
}

/// A thread that serves no connection and was found in writes to files, with its shares of all samples.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer<'a> {
    pub(crate) thread: &'a ThreadInterval,
    /// In any write to a file.
    pub(crate) writing: f64,
    /// Of that, asleep in the page cache's throttle.
    pub(crate) throttled: f64,
}

/// Waits for a file to be on its disk: fsync and its kin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sync {
    /// Samples at which a thread was found so.
    pub samples: u32,
    /// Whose thread: `postgres (pid 4711)`.
    pub who: String,
    /// The file, where that is known.
    pub path: Option<String>,
    /// Its device, where that is known.
    pub device: Option<String>,
    /// The share of the interval in which the device had a request in flight, 0 to 1.
    pub busy: Option<f64>,
}

/// A connection's name, for words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowName {
    /// Its lane.
    pub lane: u32,
    /// The peer: `10.0.0.9:443`.
    pub peer: String,
    /// Whose it is: `nginx (pid 4711)`.
    pub process: Option<String>,
    /// The program sends on it more than it receives.
    pub sends: bool,
}

impl Around {
    /// Nothing was sampled, and nothing need be written down.
    pub fn is_empty(&self) -> bool {
        *self == Around::default()
    }

    /// Samples as a share of all, 0 to 1.
    pub(crate) fn share(&self, samples: u32) -> f64 {
        if self.samples == 0 { 0.0 } else { (f64::from(samples) / f64::from(self.samples)).min(1.0) }
    }

    /// The neighbour that it waits for at its pipes, and that one's busiest thread: of those that read from
    /// it, or of those that write to it; `None` where that is not known.
    ///
    /// All ends count at which it was found waiting at least half as often as at any: a pipeline waits at all
    /// of its pipes, and a thread may idle at one whose other end another thread of the program holds. Of
    /// these it is one whose process is known, and of several the one that waits for no further process.
    /// Where it was found waiting at none (a poll does not say for which), it is the only neighbour there is.
    pub(crate) fn at_pipe(&self, reads: bool) -> Option<(&Neighbour, &ThreadInterval)> {
        let ends = || self.pipes.iter().filter(move |end| end.reads == reads);
        let most = ends().filter_map(|end| end.waited_at).max().unwrap_or(0);
        if most == 0 {
            let mut all = ends();
            let only = all.next().filter(|_| all.next().is_none());
            return only.and_then(Neighbour::known);
        }
        let often = |end: &&Neighbour| end.waited_at.is_some_and(|times| times.saturating_mul(2) >= most);
        let known = ends().filter(often).filter_map(Neighbour::known);
        known.max_by_key(|(end, thread)| (end.waits_on() < 0.5, end.waited_at, thread.cpu))
    }

    /// The thread beside those of the connections that was found in writes to files.
    pub(crate) fn writes_beside(&self) -> Option<Writer<'_>> {
        let thread = self.writer.as_ref()?;
        let (writing, throttled) = (self.share(thread.in_writes()), self.share(thread.in_dirty_throttle));
        Some(Writer { thread, writing, throttled })
    }

    /// The same of one that was in writes four fifths of the time or more: they hold it. Below that it has
    /// time left to take more, so that it may be the data that are late.
    pub(crate) fn held_writer(&self) -> Option<Writer<'_>> {
        self.writes_beside().filter(|writer| writer.writing >= 0.8)
    }

    /// Whether it tells of time that counts though no byte moved.
    pub(crate) fn counts(&self) -> bool {
        self.command || self.connecting > 0 || self.resolving > 0 || self.refusing > 0
    }

    /// It was on its way to a connection, or failed to come to one.
    pub(crate) fn tries(&self) -> bool {
        self.connecting > 0
            || self.resolving > 0
            || self.failed_attempts > 0
            || self.own_failed_attempts > 0
            || !self.attempts.is_empty()
    }

    /// Takes the interval that follows into this one. `spans`: the length of each.
    pub(crate) fn join(&mut self, next: &Around, spans: (Duration, Duration)) {
        let add = |sum: &mut u32, next: u32| *sum = sum.saturating_add(next);
        self.rest.join(&next.rest);
        add(&mut self.samples, next.samples);
        self.command |= next.command;
        for (sum, next) in [
            (&mut self.busy, next.busy),
            (&mut self.chained, next.chained),
            (&mut self.local, next.local),
            (&mut self.owing, next.owing),
            (&mut self.connecting, next.connecting),
            (&mut self.resolving, next.resolving),
            (&mut self.refusing, next.refusing),
            (&mut self.writes_unseen, next.writes_unseen),
        ] {
            add(sum, next);
        }
        self.crowded = self.crowded.or(next.crowded);
        self.served |= next.served;
        self.chained_to = next.chained_to.or(self.chained_to);
        self.failed_attempts = self.failed_attempts.saturating_add(next.failed_attempts);
        self.own_failed_attempts = self.own_failed_attempts.saturating_add(next.own_failed_attempts);
        self.listen_overflows = self.listen_overflows.saturating_add(next.listen_overflows);
        let same_resolver = |a: &Resolver, b: &Resolver| a.address == b.address;
        let add_resolver = |a: &mut Resolver, b: &Resolver| add(&mut a.samples, b.samples);
        join_lists(&mut self.attempts, &next.attempts, |a, b| a.lane == b.lane, Attempt::join);
        join_lists(&mut self.resolvers, &next.resolvers, same_resolver, add_resolver);
        join_lists(&mut self.pipes, &next.pipes, Neighbour::is_same, Neighbour::join);
        join_lists(&mut self.flows, &next.flows, |a, b| a.lane == b.lane, |_, _| {});
        match (&mut self.syncs, &next.syncs) {
            (Some(sum), Some(next)) => sum.join(next, spans),
            (sum @ None, Some(_)) => sum.clone_from(&next.syncs),
            (_, None) => {}
        }
        match (&mut self.writer, &next.writer) {
            (Some(sum), Some(next)) if sum.name == next.name => join_thread(sum, next),
            (Some(sum), Some(next)) if sum.in_writes() >= next.in_writes() => {}
            (_, None) => {}
            (sum, Some(_)) => sum.clone_from(&next.writer),
        }
        if self.missing.is_none() {
            self.missing.clone_from(&next.missing);
        }
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// More of a kind would not be read, and joined intervals must not grow without end.
const MOST: usize = 64;

fn join_lists<T: Clone>(
    sum: &mut Vec<T>,
    next: &[T],
    same: impl Fn(&T, &T) -> bool,
    join: impl Fn(&mut T, &T),
) {
    for new in next {
        match sum.iter().position(|old| same(old, new)) {
            Some(at) => join(&mut sum[at], new),
            None if sum.len() < MOST => sum.push(new.clone()),
            None => {}
        }
    }
}

impl Rest {
    /// Samples at rest.
    pub fn samples(&self) -> u32 {
        let kinds = [self.running, self.sleeping, self.child, self.terminal, self.disk, self.pipe, self.lock];
        let others = [self.writing, self.polling, self.accepting, self.receiving, self.unknown];
        kinds.into_iter().chain(others).fold(0, u32::saturating_add)
    }

    fn join(&mut self, next: &Rest) {
        for (sum, next) in [
            (&mut self.open, next.open),
            (&mut self.other_sockets, next.other_sockets),
            (&mut self.listening, next.listening),
            (&mut self.running, next.running),
            (&mut self.sleeping, next.sleeping),
            (&mut self.child, next.child),
            (&mut self.terminal, next.terminal),
            (&mut self.disk, next.disk),
            (&mut self.writing, next.writing),
            (&mut self.pipe, next.pipe),
            (&mut self.lock, next.lock),
            (&mut self.polling, next.polling),
            (&mut self.accepting, next.accepting),
            (&mut self.receiving, next.receiving),
            (&mut self.unknown, next.unknown),
            (&mut self.unclear, next.unclear),
        ] {
            *sum = sum.saturating_add(next);
        }
        // A process that became another program goes by its new name.
        let pid = |who: &Option<String>| Some(who.as_deref()?.rsplit_once("(pid ")?.1.to_owned());
        if self.who.is_none() || (next.who.is_some() && pid(&self.who) == pid(&next.who)) {
            self.who.clone_from(&next.who);
            self.who_samples = self.who_samples.saturating_add(next.who_samples);
        } else if next.who_samples > self.who_samples {
            (self.who, self.who_samples) = (next.who.clone(), next.who_samples);
        }
    }
}

impl Attempt {
    fn join(&mut self, next: &Attempt) {
        self.step = next.step;
        self.age = self.age.max(next.age);
        self.retransmits = self.retransmits.max(next.retransmits);
        self.rtt = next.rtt.or(self.rtt);
        self.listener = match (self.listener, next.listener) {
            (Some(one), Some(other)) if one.is_full() || one.queued >= other.queued => Some(one),
            (one, other) => other.or(one),
        };
    }
}

impl Neighbour {
    fn is_same(&self, other: &Neighbour) -> bool {
        let name = |neighbour: &Neighbour| neighbour.thread.value().and_then(|thread| thread.name.clone());
        self.reads == other.reads && name(self) == name(other)
    }

    /// It and its thread, where its process was found.
    fn known(&self) -> Option<(&Neighbour, &ThreadInterval)> {
        Some((self, self.thread.value()?))
    }

    /// The time for which it was itself found waiting for the next process of the chain, 0 to 1.
    pub(crate) fn waits_on(&self) -> f64 {
        self.thread.value().map_or(0.0, |thread| {
            thread.share(if self.reads { thread.found.pipe_full } else { thread.found.pipe_empty })
        })
    }

    fn join(&mut self, next: &Neighbour) {
        self.waited_at = match (self.waited_at, next.waited_at) {
            (Some(here), Some(there)) => Some(here.saturating_add(there)),
            (here, there) => here.or(there),
        };
        match (&mut self.thread, &next.thread) {
            (Reading::Value(sum), Reading::Value(next)) => join_thread(sum, next),
            (sum @ Reading::Missing(_), Reading::Value(_)) => sum.clone_from(&next.thread),
            (_, Reading::Missing(_)) => {}
        }
    }
}

impl Sync {
    /// `postgres (pid 4711) waited for the sync of /var/lib/x on sda, which was busy 90 % of the time, in 95
    /// % of samples`.
    pub(crate) fn in_words(&self, share: f64) -> String {
        let path = self.path.as_deref().map(|path| format!(" of {path}")).unwrap_or_default();
        let device = match (&self.device, self.busy) {
            (Some(device), Some(busy)) => {
                format!(" on {device}, which was busy {} of the time,", percent(busy))
            }
            (Some(device), None) => format!(" on {device}"),
            (None, _) => String::new(),
        };
        format!("{} waited for the sync{path}{device} in {} of samples", self.who, percent(share))
    }

    fn join(&mut self, next: &Sync, (before, after): (Duration, Duration)) {
        if next.samples > self.samples {
            self.who.clone_from(&next.who);
            self.path.clone_from(&next.path);
            self.device.clone_from(&next.device);
        }
        self.samples = self.samples.saturating_add(next.samples);
        self.busy = match (self.busy, next.busy) {
            (Some(a), Some(b)) => {
                let (before, after) = (before.as_secs_f64(), after.as_secs_f64());
                let whole = before + after;
                Some(if whole > 0.0 { (a * before + b * after) / whole } else { b })
            }
            (a, b) => b.or(a),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(rest: Rest) -> Around {
        Around { samples: rest.samples(), rest, ..Around::default() }
    }

    #[test]
    fn joined_samples_stay_shares_of_the_time() {
        let mut sum = interval(Rest { sleeping: 4, who: Some("a".to_owned()), ..Rest::default() });
        let next = Around { samples: 6, resolving: 6, writes_unseen: 1, ..Around::default() };
        sum.join(&next, (Duration::from_millis(80), Duration::from_millis(120)));
        assert_eq!((sum.samples, sum.rest.samples(), sum.resolving), (10, 4, 6));
        assert_eq!(sum.share(sum.writes_unseen), 0.1);
        assert_eq!((sum.share(sum.resolving), sum.rest.who.as_deref()), (0.6, Some("a")));
        let named = |who: &str| interval(Rest { sleeping: 1, who: Some(who.to_owned()), ..Rest::default() });
        let mut sum = named("bash (pid 7)");
        sum.join(&named("python3 (pid 7)"), (Duration::ZERO, Duration::ZERO));
        assert_eq!(sum.rest.who.as_deref(), Some("python3 (pid 7)"));
        // Of two others the one that was found more often.
        let often = Rest { who_samples: 9, ..named("sleep (pid 8)").rest };
        sum.join(&interval(often), (Duration::ZERO, Duration::ZERO));
        sum.join(&named("sh (pid 9)"), (Duration::ZERO, Duration::ZERO));
        assert_eq!(sum.rest.who.as_deref(), Some("sleep (pid 8)"));
    }

    #[test]
    fn a_queue_seen_full_stays_full_and_lists_stay_bounded() {
        let attempt = |lane, queued| Attempt {
            lane,
            age: Duration::from_secs(1),
            listener: Some(Listener { queued, backlog: 1 }),
            ..Attempt::default()
        };
        let mut sum = Around { attempts: vec![attempt(1, 2)], ..Around::default() };
        let spans = (Duration::ZERO, Duration::ZERO);
        sum.join(&Around { attempts: vec![attempt(1, 0)], ..Around::default() }, spans);
        assert!(sum.attempts[0].listener.is_some_and(Listener::is_full));
        let many = (2..1000).map(|lane| attempt(lane, 0)).collect();
        sum.join(&Around { attempts: many, ..Around::default() }, spans);
        assert_eq!(sum.attempts.len(), MOST);
    }

    #[test]
    fn of_several_writers_the_one_that_is_held_most_is_told_of() {
        let writes = |name: &str, in_dirty_throttle| {
            let name = Some(name.to_owned());
            let thread = ThreadInterval { name, looks: 5, in_dirty_throttle, ..ThreadInterval::default() };
            Around { samples: 5, writer: Some(thread), ..Around::default() }
        };
        let spans = (Duration::ZERO, Duration::ZERO);
        let told = |around: &Around| around.held_writer().map(|writer| writer.thread.name.clone());
        let mut sum = writes("rsync (pid 7)", 5);
        sum.join(&writes("rsync (pid 7)", 4), spans);
        assert_eq!(told(&sum), Some(Some("rsync (pid 7)".to_owned())));
        sum.join(&writes("log (pid 8)", 1), spans);
        assert_eq!(told(&sum), None, "9 of 15");
        sum.join(&Around { samples: 5, ..Around::default() }, spans);
        assert_eq!(sum.writes_beside().map(|writer| writer.writing), Some(9.0 / 20.0));
        sum = writes("log (pid 8)", 1);
        sum.join(&writes("rsync (pid 7)", 5), spans);
        assert_eq!(sum.writer.and_then(|writer| writer.name).as_deref(), Some("rsync (pid 7)"));
    }

    #[test]
    fn of_several_pipes_the_one_that_was_waited_at_counts() {
        let end = |name: Option<&str>, cpu, waited_at| {
            let thread = name.map_or_else(Reading::default, |name| {
                let cpu = Duration::from_millis(cpu);
                Reading::Value(ThreadInterval { name: Some(name.to_owned()), cpu, ..Default::default() })
            });
            Neighbour { reads: true, thread, inside: false, waited_at }
        };
        let who = |pipes: Vec<Neighbour>| {
            let around = Around { pipes, ..Around::default() };
            around.at_pipe(true).and_then(|(_, thread)| thread.name.clone())
        };
        let (busy, idle) = (|waited| end(Some("busy"), 90, waited), |waited| end(Some("idle"), 1, waited));
        assert_eq!(who(vec![busy(Some(0)), idle(Some(4))]).as_deref(), Some("idle"));
        assert_eq!(who(vec![busy(Some(0)), end(None, 0, Some(4))]), None, "it waited for whom nobody knows");
        assert_eq!(who(vec![idle(Some(4)), end(None, 0, Some(5))]).as_deref(), Some("idle"));
        let link = |waited_at| {
            let mut link = end(Some("link"), 2, Some(waited_at));
            if let Reading::Value(thread) = &mut link.thread {
                (thread.looks, thread.found.pipe_full) = (5, 5);
            }
            link
        };
        assert_eq!(who(vec![link(5), idle(Some(4))]).as_deref(), Some("idle"), "the link waits for it");
        assert_eq!(who(vec![link(9), idle(Some(4))]).as_deref(), Some("link"), "it is no part of that chain");
        assert_eq!(who(vec![busy(None)]).as_deref(), Some("busy"), "an older record's only one");
        assert_eq!(who(vec![busy(None), idle(None)]), None, "it may be either");
        assert_eq!(who(vec![end(None, 0, None)]), None, "its process was not found");
        assert_eq!(who(Vec::new()), None);
        let mut sum = Around { pipes: vec![idle(Some(4))], ..Around::default() };
        let next = Around { pipes: vec![idle(Some(1))], ..Around::default() };
        sum.join(&next, (Duration::ZERO, Duration::ZERO));
        assert_eq!(sum.pipes[0].waited_at, Some(5));
    }

    #[test]
    fn what_was_not_watched_is_not_written_and_old_evidence_loads() {
        let text = serde_json::to_string(&crate::evidence::Interval::default()).unwrap();
        assert!(!text.contains("around"), "{text}");
        assert!(serde_json::from_str::<crate::evidence::Interval>("{}").unwrap().around.is_empty());
        assert_eq!(serde_json::from_str::<Around>("{}").unwrap(), Around::default());
    }
}
