//! What an end sees of its own streams while it tests: a look every 20 ms, an interval of evidence every 100
//! ms for the judge, and the figures of each interval.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use weir_model::evidence::{Evidence, Facts, Interval, LaneInterval, Reading, ThreadInterval};
use weir_model::limit::Limit;
use weir_model::rule::Context;
use weir_model::verdict::judge_interval;
use weir_observe::flow::{FlowInterval, FlowProbe};
use weir_observe::process::Pid;
use weir_observe::sock_diag::{SockDiag, SocketId, TcpSocket};
use weir_observe::thread_probe::ThreadProbe;
use weir_observe::watch::{Cadence, INTERVAL, SAMPLE_INTERVAL};
use weir_observe::{Sampler, cpu, sysctl};

use crate::arrivals::Arrivals;
use crate::orders::Counts;
use crate::outcome::{StreamInterval, TcpFigures, UdpFigures};
use crate::parameters::{Parameters, Transport};
use crate::stream::{Carrier, Stream};

/// With more streams than this each is looked at in turn: a look at one costs about 10 us.
const AT_ONCE: usize = 16;

/// Intervals kept, by joining neighbours: four minutes at full grain.
const MOST_INTERVALS: usize = 2400;

/// Intervals of one stream kept, about 1 KiB each.
const MOST_LANE_INTERVALS: usize = 16_000;

/// Why the path of datagrams is not judged.
const UDP: &str = "UDP tells nothing of its path";

/// Watches one end.
pub(crate) struct Watch {
    eyes: Vec<Eye>,
    ways: [Way; 2],
    next: usize,
    diag: Option<SockDiag>,
    host: Sampler,
    cadence: Cadence,
}

/// What was seen of the streams that go one way.
struct Way {
    sends: bool,
    used: bool,
    evidence: Evidence,
    /// Seconds under each limit since the last interval.
    held: BTreeMap<Limit, f64>,
    /// What held the last interval.
    limit: Option<Limit>,
}

/// Looks at one stream.
struct Eye {
    id: u32,
    sends: bool,
    udp: bool,
    socket: Option<SocketId>,
    probe: FlowProbe,
    thread: Option<ThreadProbe>,
    counts: Arc<Counts>,
    /// At the last interval's end.
    bytes: u64,
    asleep: Duration,
    /// At the last interval's end.
    told: ReportedCounters,
    seen: StreamSummary,
}

/// The counters at an interval's end.
#[derive(Default)]
struct ReportedCounters {
    bytes: u64,
    packets: u64,
    retransmits: u64,
    arrivals: Arrivals,
}

/// A stream over the whole test.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamSummary {
    rtt: Option<(Duration, Duration, Duration)>,
    looks: u32,
    pub(crate) most_cwnd: u64,
    pub(crate) most_window: u64,
    pub(crate) congestion: Option<String>,
    pub(crate) path_mtu: Option<u32>,
    pub(crate) segment: Option<u32>,
    /// Times the path was seen to reorder.
    pub(crate) reordered: u64,
    /// Segments sent again since the connection began.
    pub(crate) retransmits: Option<u64>,
}

impl StreamSummary {
    /// Smallest, mean and largest round trip.
    pub(crate) fn rtt(&self) -> Option<(Duration, Duration, Duration)> {
        let (least, sum, most) = self.rtt?;
        Some((least, sum / self.looks.max(1), most))
    }

    fn take(&mut self, socket: &TcpSocket, sends: bool) {
        let info = &socket.info;
        if let Some(rtt) = round_trip(socket, sends) {
            let (least, sum, most) = self.rtt.unwrap_or((rtt, Duration::ZERO, rtt));
            self.rtt = Some((least.min(rtt), sum + rtt, most.max(rtt)));
            self.looks += 1;
        }
        if sends {
            self.most_cwnd = self.most_cwnd.max(congestion_window(socket));
            self.most_window = self.most_window.max(info.snd_wnd.unwrap_or_default().into());
        }
        self.congestion.clone_from(&socket.congestion_control);
        self.path_mtu = info.pmtu.or(self.path_mtu);
        self.segment = info.snd_mss.or(self.segment);
        self.reordered = info.reord_seen.unwrap_or_default().into();
        self.retransmits = info.total_retrans.map(u64::from).or(self.retransmits);
    }
}

impl Watch {
    /// Of these streams, whose test begins now.
    pub(crate) fn new(streams: &[Stream], parameters: &Parameters) -> Watch {
        let way = |sends: bool| Way {
            sends,
            used: streams.iter().any(|stream| stream.connection.sends == sends),
            evidence: Evidence { facts: facts(streams, parameters, sends), ..Evidence::default() },
            held: BTreeMap::new(),
            limit: None,
        };
        Watch {
            eyes: streams.iter().map(Eye::of).collect(),
            ways: [way(true), way(false)],
            next: 0,
            diag: SockDiag::open().ok(),
            host: Sampler::new(None),
            // Each stream is looked at twice in an interval.
            cadence: Cadence::new(
                Instant::now(),
                INTERVAL.max(2 * SAMPLE_INTERVAL * streams.len().div_ceil(AT_ONCE) as u32),
            ),
        }
    }

    /// Looks at the streams, and closes an interval when it is due.
    pub(crate) fn look(&mut self) {
        let count = self.eyes.len();
        for step in 0..count.min(AT_ONCE) {
            let at = (self.next + step) % count;
            self.eyes[at].look(self.diag.as_mut());
        }
        self.next = (self.next + AT_ONCE) % count.max(1);
        if self.cadence.is_due(Instant::now()) {
            self.close();
        }
    }

    /// The figures since the last interval, and what held either way most of it: sending, receiving.
    pub(crate) fn interval(&mut self) -> (Vec<StreamInterval>, [Option<Limit>; 2]) {
        let streams = self.eyes.iter_mut().map(Eye::interval).collect();
        let limits = self.ways.each_mut().map(|way| {
            let held = std::mem::take(&mut way.held);
            held.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(limit, _)| limit)
        });
        (streams, limits)
    }

    /// What counts begins now: what was seen before is dropped.
    pub(crate) fn forget(&mut self) {
        self.close();
        for way in &mut self.ways {
            way.evidence.intervals.clear();
            way.held.clear();
        }
        for eye in &mut self.eyes {
            eye.seen = StreamSummary::default();
        }
        self.cadence.begin_anew();
    }

    /// Looks once more at each stream.
    pub(crate) fn finish(&mut self) {
        for eye in &mut self.eyes {
            eye.look(self.diag.as_mut());
        }
        // A sliver has too few looks to be judged.
        if self.cadence.is_half_due(Instant::now()) {
            self.close();
        }
    }

    pub(crate) fn seen(&self, id: u32) -> Option<&StreamSummary> {
        self.eyes.iter().find(|eye| eye.id == id).map(|eye| &eye.seen)
    }

    /// All evidence: of the sending streams, of the receiving ones.
    pub(crate) fn into_evidence(self) -> [Option<Evidence>; 2] {
        self.ways.map(|way| way.used.then_some(way.evidence))
    }

    /// The same so far.
    pub(crate) fn evidence(&self) -> [Option<Evidence>; 2] {
        self.ways.each_ref().map(|way| way.used.then(|| way.evidence.clone()))
    }

    /// What was seen so far each way that is used, and what held its last interval; `true` for the streams
    /// that send.
    pub(crate) fn latest(&self) -> impl Iterator<Item = (bool, &Evidence, Limit)> {
        let used = self.ways.iter().filter(|way| way.used);
        used.filter_map(|way| Some((way.sends, &way.evidence, way.limit?)))
    }

    /// When the last interval closed.
    pub(crate) fn closed(&self) -> Instant {
        self.cadence.opened()
    }

    fn close(&mut self) {
        let interval = self.cadence.close(Instant::now());
        let span = interval.span;
        let host = self.host.host_interval();
        let lanes: Vec<(bool, LaneInterval)> =
            self.eyes.iter_mut().map(|eye| (eye.sends, eye.close(span))).collect();
        for way in self.ways.iter_mut().filter(|way| way.used) {
            let of_way = lanes.iter().filter(|(sends, _)| *sends == way.sends);
            let lanes: Vec<LaneInterval> = of_way.map(|(_, lane)| lane.clone()).collect();
            let nothing = || "nothing is written".to_owned();
            let interval = Interval {
                dirty: Reading::Missing(nothing()),
                disk: Reading::Missing(nothing()),
                ..interval.evidence(host.clone(), lanes)
            };
            let verdict = judge_interval(&interval, &Context::live(&way.evidence));
            way.limit = Some(verdict.limit);
            if !verdict.is_unseen() {
                *way.held.entry(verdict.limit).or_default() += span.as_secs_f64();
            }
            let most = MOST_INTERVALS.min(MOST_LANE_INTERVALS / interval.lanes.len().max(1));
            way.evidence.push(interval, most);
        }
    }
}

impl Eye {
    fn of(stream: &Stream) -> Eye {
        let connection = &stream.connection;
        let socket = match &*stream.carrier {
            Carrier::Tcp(stream) => SocketId::of(stream),
            Carrier::Udp(_) => None,
        };
        Eye {
            id: connection.id,
            sends: connection.sends,
            udp: stream.is_udp(),
            socket,
            probe: FlowProbe::new(),
            thread: None,
            counts: Arc::clone(&stream.counts),
            bytes: 0,
            asleep: Duration::ZERO,
            told: ReportedCounters::default(),
            seen: StreamSummary::default(),
        }
    }

    fn look(&mut self, diag: Option<&mut SockDiag>) {
        if self.thread.is_none()
            && let Some(tid) = self.counts.tid()
        {
            let name = format!("weir's {} thread", if self.sends { "sending" } else { "receiving" });
            self.thread = ThreadProbe::open(Pid(std::process::id()), tid.0, name).ok();
        }
        if let Some(thread) = &mut self.thread {
            thread.look();
        }
        if let (Some(diag), Some(socket)) = (diag, &self.socket)
            && let Ok(Some(socket)) = diag.one(socket)
        {
            self.probe.look(&socket);
            self.seen.take(&socket, self.sends);
        }
    }

    fn close(&mut self, span: Duration) -> LaneInterval {
        let bytes = self.counts.bytes.load(Relaxed);
        let moved = bytes.saturating_sub(std::mem::replace(&mut self.bytes, bytes));
        let asleep = self.counts.asleep();
        let limited = asleep.saturating_sub(std::mem::replace(&mut self.asleep, asleep)).min(span);
        let thread = match &mut self.thread {
            Some(thread) => thread.interval(Duration::ZERO),
            None => Reading::Missing("the stream's thread was not seen".to_owned()),
        };
        let flow = if self.udp {
            let none = || UDP.to_owned();
            FlowInterval {
                receiver: Reading::Missing(none()),
                sender: Reading::Missing(none()),
                ..FlowInterval::default()
            }
        } else {
            self.probe.interval()
        };
        if self.sends {
            let sent = if self.udp { moved } else { flow.acked };
            return LaneInterval {
                lane: self.id,
                received: sent,
                limited,
                thread,
                // Of UDP neither end's kernel tells anything.
                tcp: if self.udp {
                    flow.receiver
                } else {
                    Reading::Missing("the receiving end is the other's".to_owned())
                },
                sender: flow.sender,
                ..LaneInterval::default()
            };
        }
        // Whatever it did not run, nor wait for a processor, it waited for data: its work has no other stage.
        let times = thread.value().map(|thread: &ThreadInterval| (thread.cpu, thread.runqueue));
        let (cpu, runqueue) = times.unwrap_or_default();
        LaneInterval {
            lane: self.id,
            received: moved,
            socket_wait: span.saturating_sub(cpu).saturating_sub(runqueue),
            receive_cpu: cpu.min(span),
            thread,
            tcp: flow.receiver,
            sender: Reading::Missing("the sending end is the other's".to_owned()),
            ..LaneInterval::default()
        }
    }

    fn interval(&mut self) -> StreamInterval {
        let bytes = self.counts.bytes.load(Relaxed);
        let packets = self.counts.packets.load(Relaxed);
        let arrivals = *self.counts.arrivals();
        let retransmits = self.seen.retransmits.unwrap_or(self.told.retransmits);
        let before =
            std::mem::replace(&mut self.told, ReportedCounters { bytes, packets, retransmits, arrivals });
        let tcp = self.probe.last().map(|socket| TcpFigures {
            retransmits: retransmits.saturating_sub(before.retransmits),
            cwnd: congestion_window(socket),
            peer_window: socket.info.snd_wnd.map(u64::from),
            rtt: round_trip(socket, self.sends),
            rtt_deviation: socket.info.rttvar,
            min_rtt: socket.info.min_rtt,
            path_mtu: socket.info.pmtu,
            reordered: socket.info.reord_seen.unwrap_or_default().into(),
        });
        let passed = arrivals.since(&before.arrivals);
        let udp = self.udp.then(|| UdpFigures {
            packets: if self.sends { packets - before.packets } else { passed.highest },
            lost: passed.lost,
            out_of_order: passed.out_of_order,
            jitter: passed.jitter,
        });
        StreamInterval {
            id: self.id,
            sends: self.sends,
            bytes: bytes.saturating_sub(before.bytes),
            tcp: tcp.filter(|_| !self.udp),
            udp,
        }
    }
}

/// A sender's smoothed round trip; a receiver's own estimate, since it sends nothing that would be
/// acknowledged.
fn round_trip(socket: &TcpSocket, sends: bool) -> Option<Duration> {
    if sends { socket.info.rtt } else { socket.info.rcv_rtt.or(socket.info.rtt) }
}

fn congestion_window(socket: &TcpSocket) -> u64 {
    let info = &socket.info;
    u64::from(info.snd_cwnd.unwrap_or_default()) * u64::from(info.snd_mss.unwrap_or_default())
}

/// What holds for the streams that this end sends on, or for the others.
fn facts(streams: &[Stream], parameters: &Parameters, sends: bool) -> Facts {
    let local = |stream: &Stream| {
        let remote = stream.connection.remote.ip().to_canonical();
        remote.is_loopback() || remote == stream.connection.local.ip().to_canonical()
    };
    let of_way = streams.iter().filter(|stream| stream.connection.sends == sends).count();
    let rate = parameters.rate as f64 / 8.0 * of_way as f64;
    Facts {
        rate_cap: (rate > 0.0).then_some(rate),
        receive_buffer: parameters.window.map(u64::from),
        tcp_rmem_max: sysctl::tcp_rmem().ok().map(|rmem| rmem.max),
        wmem_max: sysctl::wmem_max().ok(),
        tcp_wmem_max: sysctl::tcp_wmem_max().ok(),
        cpus: cpu::available_cpus(),
        peer_is_local: streams.iter().any(local),
        to_stdout: true,
        scope: Some("weir".to_owned()),
        unseen: (parameters.transport == Transport::Udp).then(|| UDP.to_owned()),
        takes_in: !sends,
        ..Facts::default()
    }
}
