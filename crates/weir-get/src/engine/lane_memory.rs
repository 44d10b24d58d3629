//! The watch's memory of one lane: what its counters and clocks said last, so that the next interval holds
//! the difference.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_model::around::Attempt;
use weir_model::evidence::{LaneInterval, Reading, ThreadInterval};
use weir_observe::LaneProbe;
use weir_observe::own_attempts::OwnAttempts;
use weir_observe::thread::Tid;

use crate::lane::LaneState;
use weir_observe::stage_clock::{Stage, StageTimes};

/// The watch's memory of one lane.
pub(super) struct LaneMemory {
    pub(super) state: Arc<LaneState>,
    probe: Option<LaneProbe>,
    socket: u32,
    times: StageTimes,
    received: u64,
    written: u64,
    objects: u32,
    requests: u32,
    connects: u32,
    pub(super) moved: Instant,
    /// Processor time of all intervals so far.
    cpu: Duration,
    attempts: OwnAttempts,
    /// Of the last interval: where its time went, bytes written.
    pub(super) spent: StageTimes,
    pub(super) wrote: u64,
    /// Bytes received in an interval, each interval counting half as much as the one after it.
    pub(super) pace: u64,
    /// The lane had ended when its last interval was taken.
    last: bool,
}

impl LaneMemory {
    pub(super) fn new(state: Arc<LaneState>) -> LaneMemory {
        LaneMemory {
            state,
            probe: None,
            socket: 0,
            times: StageTimes::default(),
            received: 0,
            written: 0,
            objects: 0,
            requests: 0,
            connects: 0,
            moved: Instant::now(),
            cpu: Duration::ZERO,
            attempts: OwnAttempts::default(),
            spent: StageTimes::default(),
            wrote: 0,
            pace: 0,
            last: false,
        }
    }

    pub(super) fn look(&mut self) {
        self.attempts.look(self.state.id, &self.state.clock);
        let tid = self.state.tid.load(Relaxed);
        if self.probe.is_none() && tid != 0 {
            self.probe = Some(LaneProbe::new(Tid(tid)));
        }
        let Some(probe) = &mut self.probe else { return };
        let (socket, version) = {
            let shared = self.state.socket.lock();
            if shared.1 == self.socket { (None, self.socket) } else { (shared.0.clone(), shared.1) }
        };
        if version != self.socket {
            self.socket = version;
            probe.set_socket(socket.and_then(|socket| socket.try_clone().ok()).map(OwnedFd::from));
        }
        probe.look();
    }

    /// Whether the peer's address is one of ours, once there is a connection.
    pub(super) fn peer_is_local(&self) -> Option<bool> {
        let shared = self.state.socket.lock();
        let socket = shared.0.as_ref()?;
        let (peer, own) = (socket.peer_addr().ok()?.ip(), socket.local_addr().ok()?.ip());
        Some(peer.is_loopback() || peer == own)
    }

    pub(super) fn interval(&mut self, now: Instant, start: Instant) -> LaneInterval {
        let state = &self.state;
        self.last = state.ended.load(Acquire);
        let times = state.clock.read();
        let spent = times.since(&self.times);
        self.times = times;
        let count = |now: u32, before: &mut u32| now - std::mem::replace(before, now);
        let objects = count(state.objects.load(Relaxed), &mut self.objects);
        let requests = count(state.requests.load(Relaxed), &mut self.requests);
        let connects = count(state.connects.load(Relaxed), &mut self.connects);
        let received = state.received.load(Relaxed);
        let written = state.written.load(Relaxed);
        self.wrote = written - std::mem::replace(&mut self.written, written);
        let got = received - std::mem::replace(&mut self.received, received);
        self.pace = (self.pace + got) / 2;
        if got > 0 || !state.bulk.load(Relaxed) {
            self.moved = now;
        }
        self.spent = spent;
        let (mut thread, tcp) = match &mut self.probe {
            Some(probe) => probe.interval(),
            None => (Reading::default(), Reading::default()),
        };
        if self.last {
            // The kernel has forgotten an ended thread; it left its own account.
            let total = Duration::from_nanos(state.cpu_at_end.load(Relaxed));
            let cpu = total.saturating_sub(self.cpu);
            thread = Reading::Value(ThreadInterval { cpu, ..ThreadInterval::default() });
        }
        self.cpu += thread.value().map_or(Duration::ZERO, |thread| thread.cpu);
        // The CPU time of a fill holds its decryption, which has a stage of its own.
        let decrypt = spent.wall(Stage::Decrypt);
        let receive_cpu = spent.receive_cpu.saturating_sub(decrypt).min(spent.wall(Stage::Receive));
        LaneInterval {
            lane: state.id,
            received: got,
            connecting: spent.connecting(),
            resolving: Some(spent.wall(Stage::Resolving)),
            first_byte: spent.wall(Stage::FirstByte),
            socket_wait: spent.wall(Stage::Receive).saturating_sub(receive_cpu),
            receive_cpu,
            decrypt,
            write: spent.wall(Stage::Write),
            write_cpu: spent.write_cpu.min(spent.wall(Stage::Write)),
            limited: spent.wall(Stage::Limited),
            output_wait: spent.wall(Stage::Output),
            // A lane that did not live for all of the interval was idle for the rest.
            idle: spent.wall(Stage::Idle) + (now - start).saturating_sub(spent.total()),
            requests,
            objects,
            connects,
            thread,
            tcp,
            sender: Reading::Missing("the sending end is the server's".to_owned()),
            ..LaneInterval::default()
        }
    }

    /// Its longest attempt to connect since the last call.
    pub(super) fn attempt(&mut self) -> Option<Attempt> {
        self.attempts.interval()
    }

    /// Its last interval has been taken.
    pub(super) fn is_over(&self) -> bool {
        self.last
    }
}
