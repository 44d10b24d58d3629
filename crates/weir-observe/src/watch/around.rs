//! What stands around the subject's connections: attempts to connect, its resolver, the neighbours of its
//! pipes, and what it does itself while no socket owes anything.
//!
//! Each sample is put under one heading ([`Around`]), so that the headings' counts are shares of the time.
//! What is dear, reading descriptors, is done at each sample only while no connection is busy, and then for a
//! fiftieth of one processor at most.

mod activity;
mod neighbours;
mod state;
mod survey;
mod syncs;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use weir_model::around::{Around, Attempt, FlowName, Listener, Resolver, Rest, Step};

use crate::net_counters::{NetCounters, NetCountersReader};
use crate::process::{self, Pid};
use crate::sock_diag::TcpSocket;
use crate::waiting::Doing;

use super::discovery::Discovery;
use super::lanes::Lane;
use super::threads::Threads;
use activity::{Activity, Kind};
use neighbours::Neighbours;
use state::{ConnectionState, Served};
use survey::{Due, Survey};
use syncs::Syncs;

/// The subject's surroundings.
#[derive(Debug)]
pub(super) struct Surroundings {
    /// It is a command whose start was watched.
    command: bool,
    /// It had a connection.
    has_connected: bool,
    survey: Survey,
    served: Served,
    neighbours: Neighbours,
    syncs: Syncs,
    counters: Option<NetCountersReader>,
    before: Option<NetCounters>,
    /// The last interval ended with them.
    counted: Option<Instant>,
    /// When a listen queue was last counted as full.
    overflowed: Option<Instant>,
    now: Around,
    /// A thread was found waiting at a pipe in this interval.
    piped: bool,
    /// What processes are called, for the names of their connections.
    names: HashMap<Pid, String>,
    /// Who was found at rest, and how often.
    resting: Vec<(String, u32)>,
}

/// A client whose SYN was dropped sends it again after this at most, while it is worth a word: after 1 s four
/// times, then after 2 and 4 s (tcp_syn_linear_timeouts; before Linux 6.5 after 1, 2 and 4 s).
const TRIES_AGAIN: Duration = Duration::from_secs(4);

/// What a sample looks at.
pub(super) struct Sample<'a> {
    pub(super) lanes: &'a [Lane],
    pub(super) threads: &'a Threads,
    pub(super) discovery: &'a mut Discovery,
    pub(super) now: Instant,
}

impl Surroundings {
    /// `command`: it has only just begun, in the network namespace of the caller.
    pub(super) fn new(command: bool) -> Surroundings {
        let mut counters = NetCountersReader::open(Pid(std::process::id())).ok().filter(|_| command);
        let before = counters.as_mut().and_then(|counters| counters.read().ok());
        Surroundings {
            command,
            has_connected: false,
            survey: Survey::new(command),
            served: Served::default(),
            neighbours: Neighbours::default(),
            syncs: Syncs::default(),
            counters,
            before,
            counted: before.map(|_| Instant::now()),
            overflowed: None,
            now: Around::default(),
            piped: false,
            names: HashMap::new(),
            resting: Vec::new(),
        }
    }

    /// Puts this moment under its heading.
    pub(super) fn look(&mut self, sample: Sample<'_>) {
        let Sample { lanes, threads, discovery, now } = sample;
        self.now.samples += 1;
        self.served.refresh(lanes, discovery, now);
        let read = self.survey.read_by(threads);
        let doing = activity::of(threads, &self.survey, true).kind;
        let states: Vec<(&Lane, ConnectionState)> = lanes
            .iter()
            .map(|lane| (lane, self.served.state_with(lane, &read, doing.is_elsewhere())))
            .collect();
        self.now.served |= lanes.iter().any(|lane| self.served.is_served(lane));
        let is = |state: ConnectionState| states.iter().any(|(_, other)| *other == state);
        // One that sleeps by its own will does not wait for the answer to what it last sent.
        let sleeps = doing == Kind::Sleeping;
        let awaited =
            states.iter().find(|(_, state)| *state == ConnectionState::Awaiting).filter(|_| !sleeps);
        let busy = is(ConnectionState::Busy) || awaited.is_some();
        let at_pipe =
            threads.looks().any(|(_, _, look)| matches!(look.doing, Doing::PipeFull | Doing::PipeEmpty));
        self.piped |= at_pipe;
        self.survey.refresh(discovery, lanes, &self.served, Due { busy, at_pipe }, now);
        self.now.local += u32::from(self.survey.has_local_peer());
        self.neighbours.look(&discovery.pids, &self.survey, now);
        self.neighbours.count(threads, &self.survey);
        self.syncs.look(threads);
        self.look_at_queues(discovery, now);
        self.add_attempts(&states, now);
        let waits =
            is(ConnectionState::Connecting) || is(ConnectionState::Tls) || is(ConnectionState::Dropped);
        if let Some((lane, _)) = awaited.filter(|_| is(ConnectionState::Owing)) {
            self.now.chained += 1;
            self.now.chained_to = Some(lane.number);
        }
        if busy {
            self.now.busy += 1;
        } else if is(ConnectionState::Owing) {
            self.now.owing += 1;
        } else if waits {
            self.now.connecting += 1;
        } else if self.add_resolvers(&states, threads) {
            self.now.resolving += 1;
        } else {
            let unclear = is(ConnectionState::Unclear);
            let open = unclear || is(ConnectionState::Resting) || is(ConnectionState::Awaiting);
            self.now.rest.unclear += u32::from(unclear);
            self.rest(open, activity::of(threads, &self.survey, open));
        }
    }

    /// Closes the interval, in which threads of the subject `ran` on a processor or did not.
    pub(super) fn close(
        &mut self,
        (span, ran): (Duration, bool),
        lanes: &[Lane],
        discovery: &mut Discovery,
    ) -> Around {
        let mut around = std::mem::take(&mut self.now);
        around.command = self.command;
        if let Some((who, samples)) = self.resting.drain(..).max_by_key(|(_, samples)| *samples) {
            (around.rest.who, around.rest.who_samples) = (Some(who), samples);
        }
        around.missing = self.survey.missing().map(str::to_owned);
        around.pipes = self.neighbours.interval(std::mem::take(&mut self.piped), span);
        around.syncs = self.syncs.interval(span);
        around.flows = self.flows(lanes);
        self.count(&mut around, Instant::now(), span);
        self.has_connected |= !lanes.is_empty();
        // An attempt that this machine refuses leaves no socket to be seen. Of a program that was started for
        // the watch and has no connection yet, it is what explains why; who does not run makes none.
        let are_taken = self.command && !self.has_connected && ran;
        around.own_failed_attempts = discovery.own_failed(around.failed_attempts, are_taken);
        around
    }

    /// The namespace's own counters. They count for everybody in it, so attempts that failed are told only of
    /// an interval that was not busy. While it is busy they are read once a second.
    fn count(&mut self, around: &mut Around, now: Instant, span: Duration) {
        let age = self.counted.map_or(Duration::MAX, |counted| now.saturating_duration_since(counted));
        if around.busy > 0 && age < Duration::from_secs(1) {
            return;
        }
        let Some(counters) = self.counters.as_mut().and_then(|counters| counters.read().ok()) else { return };
        if let Some(before) = self.before {
            // What others did while it was busy must not be in it.
            if around.busy == 0 && age < span * 2 {
                around.failed_attempts = counters.failed_attempts.saturating_sub(before.failed_attempts);
            }
            around.listen_overflows = counters.listen_overflows.saturating_sub(before.listen_overflows);
        }
        if around.listen_overflows > 0 {
            self.overflowed = Some(now);
        }
        (self.before, self.counted) = (Some(counters), Some(now));
    }

    /// Whether one of the program's own listeners drops clients.
    fn look_at_queues(&mut self, discovery: &mut Discovery, now: Instant) {
        if self.counters.is_none() && !self.command {
            self.counters = self.survey.first().and_then(|pid| NetCountersReader::open(pid).ok());
            self.before = self.counters.as_mut().and_then(|counters| counters.read().ok());
            self.counted = self.before.map(|_| now);
        }
        let since = self.overflowed.map(|overflowed| now.saturating_duration_since(overflowed));
        if since.is_none_or(|since| since > TRIES_AGAIN) {
            return;
        }
        self.served.reread(discovery);
        if let Some(crowded) = self.served.crowded(|inode| self.survey.holds(inode)) {
            self.now.refusing += 1;
            self.now.crowded = Some(crowded);
        }
    }

    /// The names of the connections, where bytes go in on some and out on others.
    fn flows(&mut self, lanes: &[Lane]) -> Vec<FlowName> {
        /// More are not told apart by name.
        const MOST: usize = 16;
        let sends = |lane: &Lane| lane.total.acked > lane.total.received;
        if !lanes.iter().any(sends) || lanes.iter().all(sends) {
            return Vec::new();
        }
        self.names.retain(|pid, _| lanes.iter().any(|lane| lane.owner == Some(*pid)));
        let mut busiest: Vec<&Lane> = lanes.iter().collect();
        busiest.sort_by_key(|lane| std::cmp::Reverse(lane.total.received.max(lane.total.acked)));
        let mut name = |pid: Pid| self.names.entry(pid).or_insert_with(|| process::described(pid)).clone();
        let flow = |lane: &Lane| FlowName {
            lane: lane.number,
            peer: lane.id.remote.to_string(),
            process: lane.owner.map(&mut name),
            sends: sends(lane),
        };
        busiest.into_iter().take(MOST).map(flow).collect()
    }

    fn add_attempts(&mut self, states: &[(&Lane, ConnectionState)], now: Instant) {
        for (lane, state) in states {
            let step = match state {
                ConnectionState::Connecting => Step::Syn,
                ConnectionState::Tls => Step::Tls,
                ConnectionState::Dropped => Step::Accept,
                _ => continue,
            };
            let Some(socket) = lane.last() else { continue };
            let attempt = attempt(lane, socket, step, self.served.listener_of(lane), now);
            match self.now.attempts.iter_mut().find(|other| other.lane == lane.number) {
                Some(other) => {
                    let full = other.listener.filter(|listener| listener.is_full());
                    *other = Attempt { listener: full.or(attempt.listener), ..attempt };
                }
                None => self.now.attempts.push(attempt),
            }
        }
    }

    /// Whether a resolver's answer is awaited now.
    fn add_resolvers(&mut self, states: &[(&Lane, ConnectionState)], threads: &Threads) -> bool {
        let by_tcp = states.iter().filter(|(_, state)| *state == ConnectionState::Resolver);
        let mut addresses: Vec<String> =
            by_tcp.map(|(lane, _)| format!("{} (TCP)", lane.id.remote)).collect();
        addresses.extend(self.survey.resolvers().iter().cloned());
        // A program that computes or sleeps has its answer, or does not care.
        let waits = |kind: Kind| matches!(kind, Kind::Receiving | Kind::Polling | Kind::Lock | Kind::Unknown);
        if addresses.is_empty() || !waits(activity::of(threads, &self.survey, true).kind) {
            return false;
        }
        for address in addresses {
            match self.now.resolvers.iter_mut().find(|other| other.address == address) {
                Some(other) => other.samples += 1,
                None => self.now.resolvers.push(Resolver { address, samples: 1 }),
            }
        }
        true
    }

    fn rest(&mut self, open: bool, activity: Activity) {
        let rest = &mut self.now.rest;
        rest.open += u32::from(open);
        rest.other_sockets += u32::from(self.survey.has_other_sockets());
        rest.listening += u32::from(self.survey.listens());
        *counter(rest, activity.kind) += 1;
        if let Some(who) = activity.who {
            match self.resting.iter_mut().find(|(other, _)| *other == who) {
                Some((_, samples)) => *samples += 1,
                None => self.resting.push((who, 1)),
            }
        }
    }
}

fn counter(rest: &mut Rest, kind: Kind) -> &mut u32 {
    match kind {
        Kind::Receiving => &mut rest.receiving,
        Kind::Polling => &mut rest.polling,
        Kind::Running => &mut rest.running,
        Kind::Disk => &mut rest.disk,
        Kind::Writing => &mut rest.writing,
        Kind::Sleeping => &mut rest.sleeping,
        Kind::Terminal => &mut rest.terminal,
        Kind::Accepting => &mut rest.accepting,
        Kind::Lock => &mut rest.lock,
        Kind::Pipe => &mut rest.pipe,
        Kind::Child => &mut rest.child,
        Kind::Unknown => &mut rest.unknown,
    }
}

fn attempt(lane: &Lane, socket: &TcpSocket, step: Step, listener: Option<Listener>, now: Instant) -> Attempt {
    let info = &socket.info;
    let lived = now.saturating_duration_since(lane.born());
    // What was sent last, and only, is the first message of TLS.
    let age = if step == Step::Tls { info.last_data_sent.unwrap_or(lived) } else { lived };
    Attempt {
        lane: lane.number,
        peer: socket.id.remote.to_string(),
        step,
        age,
        retransmits: info.retransmits.unwrap_or_default().into(),
        rtt: info.min_rtt.or(info.rtt).filter(|_| step != Step::Syn),
        listener,
    }
}
