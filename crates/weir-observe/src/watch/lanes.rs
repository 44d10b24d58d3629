//! The subject's connections as the model takes them: each a lane with the thread that serves it.

use std::time::{Duration, Instant};

use weir_model::evidence::{LaneInterval, Reading, TcpInterval, ThreadInterval};
use weir_model::sender::SenderInterval;

use super::discovery::{Key, Sighting};
use super::threads::{ServedSocket, Threads};
use crate::flow::{FlowInterval, FlowProbe, LastWord};
use crate::foreign_lane::share;
use crate::maps::Map;
use crate::process::Pid;
use crate::sock_diag::{SocketId, TcpSocket, TcpState};

/// One connection.
#[derive(Debug)]
pub struct Lane {
    /// Its number in the evidence.
    pub number: u32,
    key: Key,
    /// Its socket.
    pub id: SocketId,
    inode: u32,
    /// Whose it is, where that is known: of several that hold it, the one that was found at it.
    pub owner: Option<Pid>,
    holders: Vec<Pid>,
    probe: FlowProbe,
    /// The other end, where it is to be seen.
    mate: Option<(SocketId, FlowProbe)>,
    /// The other end's socket and the processes that hold it, where it is the subject's too.
    other_end: Option<(u32, Vec<Pid>)>,
    born: Instant,
    /// When it was last seen, once it is gone.
    ended: Option<Instant>,
    /// The kernel told its last counters.
    told: bool,
    looks: u32,
    connecting: u32,
    requests: u64,
    /// Bytes moved between the last two looks.
    moved: bool,
    /// What it did over the whole run.
    pub total: LaneTotal,
}

/// One connection over the whole run.
#[derive(Debug, Clone, Default)]
pub struct LaneTotal {
    /// Bytes received.
    pub received: u64,
    /// Bytes that the peer acknowledged.
    pub acked: u64,
    /// How long it was watched.
    pub seconds: f64,
    /// The congestion control of this end.
    pub congestion_control: Option<String>,
}

/// What a closed interval holds of one lane.
#[derive(Debug)]
pub(super) struct Closed {
    /// `None` where it moved bytes but was not looked at: at its end.
    pub(super) lane: Option<LaneInterval>,
    pub(super) received: u64,
    pub(super) acked: u64,
}

impl Lane {
    /// `from_start`: the connection began after the watch did.
    pub(super) fn new(number: u32, sighting: &Sighting, from_start: bool, now: Instant) -> Lane {
        let probe = || if from_start { FlowProbe::from_its_start() } else { FlowProbe::new() };
        Lane {
            number,
            key: sighting.key,
            id: sighting.socket.id,
            inode: sighting.socket.inode,
            owner: sighting.owner(),
            holders: sighting.holders.clone(),
            probe: probe(),
            mate: sighting.mate.map(|id| (id, probe())),
            other_end: None,
            born: now,
            ended: None,
            told: false,
            looks: 0,
            connecting: 0,
            requests: 0,
            moved: false,
            total: LaneTotal::default(),
        }
    }

    pub(super) fn key(&self) -> Key {
        self.key
    }

    pub(super) fn inode(&self) -> u32 {
        self.inode
    }

    pub(super) fn born(&self) -> Instant {
        self.born
    }

    /// Its last reading.
    pub(super) fn last(&self) -> Option<&TcpSocket> {
        self.probe.last()
    }

    /// It was not looked at yet, its SYN is out, or bytes of this end are.
    pub(super) fn is_under_way(&self) -> bool {
        let waits = |count: Option<u32>| count.is_some_and(|count| count > 0);
        self.last().is_none_or(|socket| {
            let info = &socket.info;
            socket.state == TcpState::SYN_SENT || waits(info.unacked) || waits(info.notsent_bytes)
        })
    }

    /// How long no data went out or came in, as of the last look.
    pub(super) fn quiet(&self) -> Duration {
        let clocks = self.last().map(|socket| [socket.info.last_data_sent, socket.info.last_data_recv]);
        clocks.into_iter().flatten().flatten().min().unwrap_or_default()
    }

    /// Whose word came last.
    pub(super) fn last_word(&self) -> LastWord {
        self.probe.last_word()
    }

    /// Whether bytes moved between the last two looks.
    pub(super) fn moved(&self) -> bool {
        self.moved
    }

    /// Whether it has ended.
    pub fn is_gone(&self) -> bool {
        self.ended.is_some()
    }

    /// What a scan says anew: the process, and the other end, which may be accepted later.
    pub(super) fn update(&mut self, sighting: &Sighting) {
        if let Some(first) = sighting.owner() {
            self.owner = self.owner.filter(|owner| sighting.holders.contains(owner)).or(Some(first));
            self.holders.clone_from(&sighting.holders);
        }
        if sighting.socket.inode != 0 {
            self.inode = sighting.socket.inode;
        }
        if self.mate.is_none()
            && let Some(id) = sighting.mate
        {
            self.mate = Some((id, FlowProbe::new()));
        }
    }

    /// The other end is the subject's too.
    pub(super) fn is_both_ends(&mut self, other: &Sighting) {
        self.other_end = Some((other.socket.inode, other.holders.clone()));
    }

    /// Its sockets to be read: its own, and with `with_mate` the other end's.
    pub(super) fn sockets(&self, with_mate: bool) -> impl Iterator<Item = (usize, SocketId)> {
        let mate = self.mate.as_ref().filter(|_| with_mate).map(|(id, _)| *id);
        let ids = (!self.is_gone()).then_some([Some(self.id), mate]);
        ids.into_iter().flatten().flatten().map(|id| (self.key.0, id))
    }

    /// Takes in what one of its sockets says; `None` when that is gone.
    pub(super) fn look(&mut self, id: &SocketId, socket: Option<TcpSocket>, now: Instant) {
        match (socket, &mut self.mate) {
            // Its last counters count, but the time from here on is nobody's wait.
            (Some(socket), _) if *id == self.id && socket.is_farewell() => self.end(&socket, now),
            (Some(socket), _) if *id == self.id => {
                self.looks += 1;
                self.moved = self.probe.last().is_none_or(|last| bytes(last) != bytes(&socket));
                self.connecting += u32::from(socket.state == TcpState::SYN_SENT);
                self.probe.look(&socket);
            }
            (None, _) if *id == self.id => self.ended = Some(now),
            (Some(socket), Some((_, probe))) => probe.look(&socket),
            _ => {}
        }
    }

    /// Its last counters, told by the kernel.
    pub(super) fn end(&mut self, socket: &TcpSocket, now: Instant) {
        self.told = true;
        self.probe.end(socket);
        self.ended.get_or_insert(now);
    }

    /// It is this connection, and its last counters did not come yet.
    pub(super) fn awaits_notice(&self, key: Key) -> bool {
        !self.told && self.key == key
    }

    /// Its last counters, after its last interval was closed: bytes received and acknowledged that no
    /// interval has.
    pub(super) fn end_late(&mut self, socket: &TcpSocket, now: Instant) -> (u64, u64) {
        self.end(socket, now);
        let flow = self.probe.interval();
        self.total.received += flow.received;
        self.total.acked += flow.acked;
        (flow.received, flow.acked)
    }

    /// What happened since the interval's start `opened`; nothing where it was neither seen nor moved a byte.
    pub(super) fn close(&mut self, opened: Instant, now: Instant, threads: &Threads) -> Option<Closed> {
        let flow = self.probe.interval();
        if flow.looks == 0 {
            self.total.received += flow.received;
            self.total.acked += flow.acked;
            return self.close_unseen(&flow, opened, now);
        }
        let mate = self.mate.as_mut().map(|(_, probe)| probe.interval());
        let sends = !flow.asking
            && flow.receiver.value().is_none()
            && (flow.sender.value().is_some() || flow.acked > flow.received);
        let lived = self.ended.unwrap_or(now).saturating_duration_since(self.born.max(opened));
        let span = now.saturating_duration_since(opened);
        let looks = std::mem::take(&mut self.looks);
        let connecting = share(std::mem::take(&mut self.connecting), looks);
        // A thread's times are those of the whole interval: of a connection that lived for a part of it, its
        // part.
        let served = ServedSocket { inode: self.inode, receives: !sends, dry: flow.waiting >= 0.5 };
        let (found_at_it, thread) = threads.serving(&self.holders, served);
        self.owner = found_at_it.or(self.owner);
        let thread = part_of(thread, lived, span);
        self.total.received += flow.received;
        self.total.acked += flow.acked;
        self.total.seconds += lived.as_secs_f64();
        if let Some(last) = self.probe.last() {
            self.total.congestion_control =
                last.congestion_control.clone().or(self.total.congestion_control.take());
        }
        let mut lane = if sends { flow.sending(thread) } else { flow.receiving(thread, lived, connecting) };
        // A socket that is seen both ways keeps both views.
        if flow.sender.value().is_some() {
            lane.sender = flow.sender.clone();
        }
        if let Some(mate) = mate {
            // The receiver's view says why the reader does not read only together with the reader's own
            // thread, which is known where the subject is whoever has the sockets: while bytes lie unread, it
            // is that thread which is waited for.
            let both_known = self.owner.is_none() || self.other_end.is_some();
            if sends && both_known && mate.looks > 0 {
                lane.tcp = mate.receiver;
                lane.socket_wait = lived.mul_f64((mate.waiting - mate.awaiting_answer).clamp(0.0, 1.0));
                // Who keeps up has a segment or two unread as well: then the sender has no more to give.
                let more = |seen: &SenderInterval| 2 * u64::from(seen.nothing_unsent) < u64::from(seen.looks);
                let unread =
                    lane.tcp.value().is_some_and(lies_unread) && lane.sender.value().is_some_and(more);
                if let Some((inode, holders)) = self.other_end.as_ref().filter(|_| unread) {
                    let served = ServedSocket { inode: *inode, receives: true, dry: false };
                    lane.thread = part_of(threads.serving(holders, served).1, lived, span);
                }
            } else if !sends && mate.looks > 0 && lane.sender.value().is_none() {
                lane.sender = mate.sender;
            }
        }
        lane.lane = self.number;
        lane.idle = span.saturating_sub(lived);
        lane.connects = u32::from(self.born > opened && self.born <= now);
        if !sends {
            self.count_requests(&flow, &mut lane);
        }
        Some(Closed { lane: Some(lane), received: flow.received, acked: flow.acked })
    }

    /// It ended before the first look of the interval: the object that came to its end is known, and how long
    /// that took at most.
    fn close_unseen(&mut self, flow: &FlowInterval, opened: Instant, now: Instant) -> Option<Closed> {
        let (received, acked) = (flow.received, flow.acked);
        let span = now.saturating_duration_since(opened);
        let lived = self.ended.unwrap_or(opened).saturating_duration_since(opened);
        let mut lane = LaneInterval {
            lane: self.number,
            received,
            idle: span.saturating_sub(lived),
            thread: Reading::Missing("the connection ended before it was looked at".to_owned()),
            tcp: flow.receiver.clone(),
            sender: flow.sender.clone(),
            ..LaneInterval::default()
        };
        self.count_requests(flow, &mut lane);
        let receives = self.total.received >= self.total.acked && lane.objects > 0;
        let lane = receives.then_some(lane);
        (lane.is_some() || received + acked > 0).then_some(Closed { lane, received, acked })
    }

    /// An object is over when the next is asked for, or the connection ends.
    fn count_requests(&mut self, flow: &FlowInterval, lane: &mut LaneInterval) {
        let over = |requests: u64, ended: bool| requests.saturating_sub(u64::from(!ended));
        let before = over(self.requests, false);
        self.requests += flow.requests;
        lane.requests = u32::try_from(flow.requests).unwrap_or(u32::MAX);
        lane.objects = u32::try_from(over(self.requests, self.is_gone()) - before).unwrap_or(u32::MAX);
    }
}

/// Bytes wait for the program that reads them: an eighth of the receive buffer lies unread, of which the
/// kernel gives about half to payload.
fn lies_unread(tcp: &TcpInterval) -> bool {
    let queue = tcp.receive_queue.unwrap_or(0);
    queue > 0 && tcp.receive_buffer.is_some_and(|buffer| queue.saturating_mul(8) >= buffer)
}

/// Payload that moved so far, either way.
fn bytes(socket: &TcpSocket) -> (Option<u64>, Option<u64>) {
    (socket.info.bytes_received, socket.info.bytes_acked)
}

/// Connections that were over between two looks, as one lane: what they moved is known, but of their time
/// only the round trips are, one for the handshake and one for the answer.
#[derive(Debug, Default)]
pub(super) struct ShortLived {
    count: u32,
    round_trips: Duration,
    answered: Duration,
    pub(super) received: u64,
    pub(super) acked: u64,
}

impl ShortLived {
    pub(super) fn add(&mut self, socket: &TcpSocket) {
        let mut probe = FlowProbe::from_its_start();
        probe.end(socket);
        let flow = probe.interval();
        let rtt = socket.info.min_rtt.or(socket.info.rtt).unwrap_or_default();
        self.count += 1;
        self.round_trips += rtt;
        self.answered += if flow.received > 0 { rtt } else { Duration::ZERO };
        self.received += flow.received;
        self.acked += flow.acked;
    }

    /// The lane in an interval of `span`. `thread` is that of all the processes that had them, where these
    /// ran one after another: then it is as if one thread had done all, and it was at work all the time.
    pub(super) fn close(&self, number: u32, span: Duration, thread: Reading<ThreadInterval>) -> Closed {
        let connecting = self.round_trips.min(span / 2);
        let first_byte = self.answered.min(span / 2);
        let work = match &thread {
            Reading::Value(thread) => (connecting + first_byte + thread.cpu + thread.runqueue).min(span),
            Reading::Missing(_) => connecting + first_byte,
        };
        let why = || "the connection was over between two looks".to_owned();
        let lane = LaneInterval {
            lane: number,
            received: self.received.max(self.acked),
            connecting,
            first_byte,
            idle: span.saturating_sub(work),
            requests: self.count,
            objects: self.count,
            connects: self.count,
            thread,
            tcp: Reading::Missing(why()),
            sender: Reading::Missing(why()),
            ..LaneInterval::default()
        };
        Closed { lane: Some(lane), received: self.received, acked: self.acked }
    }
}

/// The times of a thread that a connection which lived so long of an interval has a part in: as much of each
/// as of the interval. Looks count as they are, since they are told as shares.
fn part_of(thread: Reading<ThreadInterval>, lived: Duration, span: Duration) -> Reading<ThreadInterval> {
    let part = lived.as_secs_f64() / span.as_secs_f64();
    match thread {
        Reading::Value(mut thread) if part.is_finite() && part < 1.0 => {
            let times = [&mut thread.cpu, &mut thread.runqueue, &mut thread.throttled];
            for time in times.into_iter().chain(&mut thread.system) {
                *time = time.mul_f64(part);
            }
            Reading::Value(thread)
        }
        other => other,
    }
}

/// Bytes of connections beyond those that are looked at, from one scan to the next.
#[derive(Debug, Default)]
pub(super) struct Others {
    before: Map<Key, (u64, u64)>,
}

impl Others {
    /// Bytes received and acknowledged by these since the last scan, each with its part.
    pub(super) fn scanned<'a>(
        &mut self,
        sightings: impl Iterator<Item = &'a Sighting>,
    ) -> Map<Key, (u64, u64)> {
        let mut now = Map::default();
        let mut moved = Map::default();
        for sighting in sightings {
            let count = (sighting.socket.moved.received, sighting.socket.moved.acked);
            let (received, acked) = self.before.get(&sighting.key).copied().unwrap_or(count);
            moved.insert(sighting.key, (count.0.saturating_sub(received), count.1.saturating_sub(acked)));
            now.insert(sighting.key, count);
        }
        self.before = now;
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sock_diag::QuickSocket;
    use crate::tcp_info::{Moved, TcpInfo};

    #[test]
    fn a_connection_with_bytes_under_way_keeps_its_place() {
        let id = SocketId {
            local: "10.0.0.1:40000".parse().unwrap(),
            remote: "10.0.0.2:80".parse().unwrap(),
            cookie: 1,
            interface: 0,
        };
        let (state, moved) = (TcpState::ESTABLISHED, Moved::default());
        let socket = QuickSocket { id, state, uid: 0, inode: 7, cgroup: None, moved };
        let sighting = Sighting { key: (0, 1), socket, holders: Vec::new(), mate: None };
        let now = Instant::now();
        let after = |info: TcpInfo| {
            let mut lane = Lane::new(0, &sighting, false, now);
            let socket = TcpSocket {
                id,
                state,
                uid: 0,
                inode: 7,
                receive_queue: 0,
                send_queue: 0,
                info,
                memory: None,
                congestion_control: None,
            };
            lane.look(&id, Some(socket), now);
            (lane.is_under_way(), lane.quiet())
        };
        let ms = Duration::from_millis;
        let (sent, came) = (Some(ms(900)), Some(ms(4000)));
        let idle = TcpInfo { last_data_sent: sent, last_data_recv: came, ..TcpInfo::default() };
        assert_eq!(after(idle.clone()), (false, ms(900)));
        assert_eq!(after(TcpInfo { unacked: Some(3), ..idle.clone() }), (true, ms(900)));
        assert_eq!(after(TcpInfo { notsent_bytes: Some(9), ..idle }), (true, ms(900)));
        assert!(Lane::new(0, &sighting, false, now).is_under_way(), "nobody looked yet");
    }

    #[test]
    fn bytes_that_lie_unread_wait_for_their_reader() {
        let of = |queue, buffer| {
            lies_unread(&TcpInterval {
                receive_queue: queue,
                receive_buffer: buffer,
                ..TcpInterval::default()
            })
        };
        assert!(of(Some(50_000), Some(400_000)));
        for (queue, buffer) in
            [(Some(10_000), Some(400_000)), (Some(0), Some(0)), (None, None), (Some(9), None)]
        {
            assert!(!of(queue, buffer), "{queue:?} of {buffer:?}");
        }
    }
}
