//! The time in which data flow, and what is made of it: the same at both ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use socket2::SockRef;
use weir_model::evidence::Evidence;
use weir_model::limit::Limit;

use weir_observe::watch::SAMPLE_INTERVAL;

use crate::control::Control;
use crate::copies::Copies;
use crate::error::{NetError, stream_failed};
use crate::orders::{Orders, Phase, fill};
use crate::outcome::{Ending, Interval, Role, Start, StreamOutcome, Sum, TestOutcome, UdpFigures};
use crate::parameters::{BLOCK, Parameters, Transport};
use crate::results::{CpuUse, Omitted, Results, StreamResults};
use crate::state::TestState;
use crate::stream::{Carrier, Stream};
use crate::sys::process_times;
use crate::watch::Watch;
use crate::{arrivals::Arrivals, socket, tcp};

/// A receiver takes in what is on its way for so long after the sender's end. A peer that is a weir too
/// closes when it has sent all, which on a slow path with deep buffers takes seconds; of others silence is
/// waited for.
const DRAIN: Duration = Duration::from_secs(10);

/// Between the end of a data stream and the word that the test is over, on another connection: a
/// retransmission timeout.
pub(crate) const FAREWELL: Duration = Duration::from_secs(1);

/// Intervals that are kept for the report: a day of minutes, an hour of tenths of seconds would be more.
const MOST_INTERVALS: usize = 40_000;

/// How many times one end's time of a test may be the other's.
const MOST_APART: f64 = 100.0;

/// Numbers of one interval and stream that are kept, in all.
const MOST_FIGURES: usize = 400_000;

/// How this end makes a test, besides what both agree on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) copies: Copies,
    pub(crate) bundles: bool,
    /// Between two intervals; zero for none.
    pub(crate) interval: Duration,
    /// The user named a size of block; else weir's own is used for TCP.
    pub(crate) own_block: bool,
    /// A test that receives data ends when none come for so long.
    pub(crate) receive_timeout: Duration,
    /// The processor that the streams' threads are bound to.
    pub(crate) affinity: Option<u32>,
}

/// A test in which data flow.
pub(crate) struct Run {
    pub(crate) start: Start,
    pub(crate) streams: Vec<Stream>,
    pub(crate) orders: Arc<Orders>,
    watch: Watch,
    interval: Duration,
    intervals: Vec<Interval>,
    began: Instant,
    /// When what counts began, from `began`.
    counted: Duration,
    omitting: bool,
    /// The start of the interval that is open, from `began`.
    opened: Duration,
    /// At the end of what is omitted.
    baselines: Vec<Baseline>,
    /// When the sending was over, from `began`.
    ended: Option<Duration>,
    times: (Duration, Duration),
    /// Since when a peer's end of a stream was seen.
    closed: Option<Instant>,
    /// What had been received when that last grew, and when.
    received: (u64, Instant),
    receive_timeout: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
struct Baseline {
    bytes: u64,
    packets: u64,
    retransmits: u64,
    arrivals: Arrivals,
}

/// Bytes of one write. A client that names no size sends iperf3's own: then the choice is this end's. Of a
/// stream with a rate it is what goes in 5 ms, so that it flows instead of coming in gushes; a segment at
/// least.
fn block(parameters: &Parameters, named: bool) -> u32 {
    if parameters.transport == Transport::Udp || named || parameters.block != BLOCK {
        return parameters.block;
    }
    match parameters.rate {
        0 => tcp::BLOCK,
        bits => (bits / 8 / 200).clamp(1448, BLOCK.into()) as u32,
    }
}

/// Bytes after which this end stops sending by itself. The client ends the test when it has counted all, so a
/// server that sends must go on where what the client counts may be less: datagrams are lost, and each end
/// leaves out seconds of its own.
fn budget(start: &Start) -> Option<u64> {
    let parameters = &start.parameters;
    let exact = parameters.transport == Transport::Tcp && parameters.omit == 0;
    parameters.budget().filter(|_| start.role == Role::Client || exact)
}

/// A block of what is sent over TCP, where something is.
fn payload(block: u32, repeating: bool, streams: &[Stream]) -> Vec<u8> {
    let sends = streams.iter().any(|stream| stream.connection.sends && !stream.is_udp());
    let mut bytes = vec![0; if sends { block as usize } else { 0 }];
    fill(&mut bytes, repeating);
    bytes
}

/// Counts as lost what the sender of a whole test sent after the last datagram that came: by the datagrams
/// alone a receiver cannot know of it.
fn count_the_tail(sent: &Sum, received: &mut Sum) {
    let (Some(sent), Some(received)) = (&sent.udp, &mut received.udp) else { return };
    let unseen = sent.packets.saturating_sub(received.packets);
    received.packets += unseen;
    received.lost = received.lost.saturating_add(unseen);
}

/// Why the data stopped.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// Time, bytes or blocks are through.
    Done,
    /// The other end said so.
    Told(TestState),
    /// The user said so.
    Interrupted,
    /// Something failed.
    Failed(NetError),
}

impl Run {
    /// Data flow from now on.
    pub(crate) fn begin(mut start: Start, mut streams: Vec<Stream>, manner: Manner) -> Result<Run, NetError> {
        let began = Instant::now();
        let parameters = &start.parameters;
        let block = block(parameters, manner.own_block);
        let orders = Arc::new(Orders {
            block,
            rate: parameters.rate,
            burst: parameters.burst,
            budget: budget(&start).map(AtomicU64::new),
            wide: parameters.wide_counters,
            omitting: AtomicBool::new(parameters.omit > 0),
            payload: payload(block, parameters.repeating, &streams),
            repeating: parameters.repeating,
            affinity: manner.affinity,
            bundles: manner.bundles,
            // Servers close before they exchange results; clients of iperf3 only after that.
            peer_closes: start.role == Role::Client || parameters.client_is_weir(),
            ..Orders::new(began, manner.copies)
        });
        let watch = Watch::new(&streams, parameters);
        start.streams = streams.iter().map(|stream| stream.connection).collect();
        if let Some(stream) = streams.first() {
            start.buffers = match &*stream.carrier {
                Carrier::Tcp(stream) => socket::buffers(SockRef::from(stream)),
                Carrier::Udp(stream) => socket::buffers(SockRef::from(stream)),
            };
        }
        let failed = |id| move |source| stream_failed(id, source);
        for stream in &mut streams {
            // Those that have started must not go on without anybody who would end them.
            stream
                .start(&orders)
                .map_err(failed(stream.connection.id))
                .inspect_err(|_| orders.enter(Phase::Over))?;
        }
        Ok(Run {
            omitting: start.parameters.omit > 0,
            start,
            orders,
            watch,
            interval: manner.interval,
            intervals: Vec::new(),
            began,
            counted: Duration::ZERO,
            opened: Duration::ZERO,
            baselines: vec![Baseline::default(); streams.len()],
            ended: None,
            times: process_times(),
            closed: None,
            received: (0, began),
            receive_timeout: manner.receive_timeout,
            streams,
        })
    }

    pub(crate) fn parameters(&self) -> &Parameters {
        &self.start.parameters
    }

    /// Payload so far, of the streams that this end sends on or of the others, without what is omitted.
    pub(crate) fn moved(&self, sends: bool) -> u64 {
        let of_way = self.streams.iter().zip(&self.baselines).filter(|(s, _)| s.connection.sends == sends);
        of_way.map(|(s, base)| s.counts.bytes.load(Relaxed).saturating_sub(base.bytes)).sum()
    }

    /// Whether the bytes or blocks that end the test are through: senders end by themselves when that budget
    /// is spent, of a receiver it is counted. What is omitted is not part of it.
    pub(crate) fn is_through(&self) -> bool {
        let Some(budget) = self.parameters().budget().filter(|_| !self.omitting) else { return false };
        let mut senders = self.streams.iter().filter(|stream| stream.connection.sends).peekable();
        if senders.peek().is_none() {
            return self.moved(false) >= budget;
        }
        senders.all(|stream| stream.counts.has_ended())
    }

    /// All payload so far, what is omitted too.
    pub(crate) fn carried(&self) -> u64 {
        self.streams.iter().map(|stream| stream.counts.bytes.load(Relaxed)).sum()
    }

    /// What each way was like when the last interval closed, if that was after `seen`, which is then set.
    pub(crate) fn latest(&self, seen: &mut Instant) -> impl Iterator<Item = (bool, &Evidence, Limit)> {
        let is_new = self.watch.closed() > *seen;
        *seen = self.watch.closed();
        self.watch.latest().filter(move |_| is_new)
    }

    /// Lets data flow until something ends it. `over` is asked at each look.
    pub(crate) fn flow(
        &mut self,
        control: &mut Control<'_>,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(&Interval),
        mut over: impl FnMut(&Run, Duration) -> Option<Stopped>,
    ) -> Stopped {
        loop {
            match control.poll(SAMPLE_INTERVAL) {
                Ok(None) => {}
                Ok(Some(state)) => return Stopped::Told(state),
                Err(error) => return Stopped::Failed(error),
            }
            if stop.load(Relaxed) {
                return Stopped::Interrupted;
            }
            self.watch.look();
            self.mark(tell);
            if let Some(failure) = self.failure() {
                return match control.poll(FAREWELL) {
                    Ok(Some(state)) => Stopped::Told(state),
                    Ok(None) | Err(NetError::Closed { .. }) => Stopped::Failed(failure),
                    Err(error) => Stopped::Failed(error),
                };
            }
            if let Some(stopped) = over(self, self.began.elapsed()) {
                return stopped;
            }
            if let Some(silent) = self.stands_still() {
                return Stopped::Failed(NetError::NoData { peer: control.peer(), silent });
            }
        }
    }

    /// How long nothing was received, if that is longer than allowed.
    fn stands_still(&mut self) -> Option<Duration> {
        let receiving = self.streams.iter().filter(|stream| !stream.connection.sends);
        let bytes: Vec<u64> = receiving.map(|stream| stream.counts.bytes.load(Relaxed)).collect();
        let (received, now): (u64, _) = (bytes.iter().sum(), Instant::now());
        if received > self.received.0 {
            self.received = (received, now);
        }
        let silent = now - self.received.1;
        (!bytes.is_empty() && silent > self.receive_timeout).then_some(self.receive_timeout)
    }

    /// Nothing more is sent. Blocked calls return within a glance.
    pub(crate) fn stop_sending(&mut self) {
        // The budget's last byte ended the test, some time before a look saw it.
        let is_through = self.is_through();
        self.orders.enter(Phase::Draining);
        let told = self.began.elapsed();
        // While the threads are still there to be looked at.
        self.watch.finish();
        self.streams.iter_mut().filter(|stream| stream.connection.sends).for_each(Stream::join);
        let sends = self.streams.iter().any(|stream| stream.connection.sends);
        let own = self.streams.iter().filter(|stream| stream.connection.sends == sends);
        let last = own.map(|stream| stream.counts.last()).max().unwrap_or_default();
        self.ended = Some(match (is_through, sends) {
            (true, _) => last,
            // A write that was under way counts, with its time.
            (false, true) => told.max(last),
            (false, false) => told,
        });
    }

    /// Says so to the peer, takes in what is on its way, and ends the last interval.
    pub(crate) fn drain(&mut self, stop: &AtomicBool, tell: &mut dyn FnMut(&Interval)) {
        self.streams.iter().for_each(Stream::finish);
        let deadline = Instant::now() + DRAIN;
        let receives = |stream: &Stream| !stream.connection.sends && !stream.counts.has_ended();
        while self.streams.iter().any(receives) && Instant::now() < deadline && !stop.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.end(tell);
    }

    /// Ends all threads, and the last interval.
    pub(crate) fn end(&mut self, tell: &mut dyn FnMut(&Interval)) {
        self.orders.enter(Phase::Over);
        if self.ended.is_none() {
            self.ended = Some(self.began.elapsed());
        }
        self.streams.iter_mut().for_each(Stream::join);
        let ended = self.ended.unwrap_or_default();
        // What was still on its way counts here, with its time.
        let receiving = self.streams.iter().filter(|stream| !stream.connection.sends);
        let ended = receiving.map(|stream| stream.counts.last()).fold(ended, Duration::max);
        // A sliver at the end belongs to what is before it only if there is something.
        if ended > self.opened + 2 * SAMPLE_INTERVAL || self.intervals.is_empty() {
            self.close_interval(ended, tell);
        }
    }

    /// This end's results for the other.
    pub(crate) fn results(&self) -> Results {
        let sends = self.streams.iter().any(|stream| stream.connection.sends);
        let tcp = self.parameters().transport == Transport::Tcp;
        Results {
            cpu: self.cpu(),
            counts_retransmits: sends.then_some(tcp),
            congestion: self.congestion(),
            copies: Some(self.start.copies),
            output: None,
            streams: (0..self.streams.len()).map(|at| self.stream_results(at)).collect(),
        }
    }

    /// What came of it, with the other end's results where they came.
    pub(crate) fn outcome(self, remote: Option<&Results>, ending: Ending) -> TestOutcome {
        let so_far = TestOutcome { ending, ..self.tell(remote) };
        let [sending, receiving] = self.watch.into_evidence();
        TestOutcome { intervals: self.intervals, sending, receiving, ..so_far }
    }

    /// The same, while the other end waits for it: for a report that the other end asked for.
    pub(crate) fn so_far(&self, remote: &Results) -> TestOutcome {
        let [sending, receiving] = self.watch.evidence();
        TestOutcome { intervals: self.intervals.clone(), sending, receiving, ..self.tell(Some(remote)) }
    }

    /// All but what is large.
    fn tell(&self, remote: Option<&Results>) -> TestOutcome {
        let seconds = self.ended.unwrap_or_default().saturating_sub(self.counted).as_secs_f64();
        let streams = (0..self.streams.len()).map(|at| self.stream_outcome(at, remote)).collect();
        let first = self.streams.first().and_then(|stream| self.watch.seen(stream.connection.id));
        let path = first.map_or((None, None), |seen| (seen.path_mtu, seen.segment));
        let congestion = (self.congestion(), remote.and_then(|remote| remote.congestion.clone()));
        TestOutcome {
            start: self.start.clone(),
            ending: Ending::Complete,
            intervals: Vec::new(),
            streams,
            seconds,
            cpu: self.cpu(),
            remote_cpu: remote.map(|remote| remote.cpu),
            congestion,
            remote_copies: remote.and_then(|remote| remote.copies),
            path,
            server_output: remote.and_then(|remote| remote.output.clone()),
            sending: None,
            receiving: None,
        }
    }

    /// Ends intervals and the omitted time when they are due.
    fn mark(&mut self, tell: &mut dyn FnMut(&Interval)) {
        let now = self.began.elapsed();
        let omit = Duration::from_secs(self.parameters().omit.into());
        if self.omitting && now >= omit {
            if now > self.opened {
                self.close_interval(now, tell);
            }
            self.omitting = false;
            self.orders.omitting.store(false, Relaxed);
            self.counted = now;
            self.opened = now;
            self.baselines = (0..self.streams.len()).map(|at| self.count(at)).collect();
            self.watch.forget();
        } else if self.interval > Duration::ZERO && now >= self.opened + self.interval {
            self.close_interval(now, tell);
        }
    }

    fn close_interval(&mut self, now: Duration, tell: &mut dyn FnMut(&Interval)) {
        let (streams, [sending_limit, receiving_limit]) = self.watch.interval();
        let from = self.opened.saturating_sub(self.counted).as_secs_f64();
        let to = now.saturating_sub(self.counted).as_secs_f64();
        let interval = Interval { from, to, omitted: self.omitting, streams, sending_limit, receiving_limit };
        self.opened = now;
        tell(&interval);
        if self.intervals.len() < MOST_INTERVALS.min(MOST_FIGURES / self.streams.len().max(1)) {
            self.intervals.push(interval);
        }
    }

    fn failure(&mut self) -> Option<NetError> {
        let failed = |stream: &Stream| Some(stream_failed(stream.connection.id, stream.counts.failure()?));
        if let Some(error) = self.streams.iter().find_map(failed) {
            return Some(error);
        }
        // A peer that closes a data connection in the middle of a test ends it; at its end the word for that
        // may come later.
        let closed = |stream: &&Stream| !stream.connection.sends && stream.counts.has_ended();
        let id = self.streams.iter().find(closed)?.connection.id;
        let since = *self.closed.get_or_insert_with(Instant::now);
        (since.elapsed() > FAREWELL).then(|| stream_failed(id, io::ErrorKind::UnexpectedEof.into()))
    }

    fn cpu(&self) -> CpuUse {
        let (user, system) = process_times();
        let wall = self.began.elapsed().as_secs_f64().max(1e-6);
        let percent = |now: Duration, then: Duration| 100.0 * (now.saturating_sub(then)).as_secs_f64() / wall;
        let (user, system) = (percent(user, self.times.0), percent(system, self.times.1));
        CpuUse { total: user + system, user, system }
    }

    fn congestion(&self) -> Option<String> {
        let seen = self.streams.iter().find_map(|stream| self.watch.seen(stream.connection.id));
        seen.and_then(|seen| seen.congestion.clone()).or_else(|| match &*self.streams.first()?.carrier {
            Carrier::Tcp(stream) => {
                weir_observe::tcp_info::congestion_control(std::os::fd::AsFd::as_fd(stream)).ok()
            }
            Carrier::Udp(_) => None,
        })
    }

    /// All that the stream has counted since it began.
    fn count(&self, at: usize) -> Baseline {
        let stream = &self.streams[at];
        let seen = self.watch.seen(stream.connection.id);
        Baseline {
            bytes: stream.counts.bytes.load(Relaxed),
            packets: stream.counts.packets.load(Relaxed),
            retransmits: seen.and_then(|seen| seen.retransmits).unwrap_or_default(),
            arrivals: *stream.counts.arrivals(),
        }
    }

    fn own_sum(&self, at: usize) -> Sum {
        let stream = &self.streams[at];
        let (now, base) = (self.count(at), self.baselines[at]);
        let passed = now.arrivals.since(&base.arrivals);
        // A sender's time is the test's; a receiver's ends with the last byte that it took in, if that came
        // later.
        let ended = self.ended.unwrap_or_else(|| self.began.elapsed());
        let end = if stream.connection.sends { ended } else { ended.max(stream.counts.last()) };
        let tcp = !stream.is_udp();
        Sum {
            bytes: now.bytes.saturating_sub(base.bytes),
            seconds: end.saturating_sub(self.counted).as_secs_f64(),
            retransmits: (tcp && stream.connection.sends)
                .then(|| now.retransmits.saturating_sub(base.retransmits)),
            udp: (!tcp).then(|| UdpFigures {
                packets: if stream.connection.sends { now.packets - base.packets } else { passed.highest },
                lost: passed.lost,
                out_of_order: passed.out_of_order,
                jitter: passed.jitter,
            }),
        }
    }

    /// The time that the other end counted; this end's own where it told none that can be: both count the
    /// same test.
    fn seconds_of(&self, theirs: &StreamResults) -> f64 {
        let own =
            self.ended.unwrap_or_else(|| self.began.elapsed()).saturating_sub(self.counted).as_secs_f64();
        // What is on its way takes time to come, and short tests are over at one end before the other has
        // begun.
        let likely = own / MOST_APART..=own * MOST_APART + 60.0;
        let told = theirs.end.map(|end| end - theirs.start.unwrap_or_default());
        told.filter(|seconds| *seconds > 0.0 && likely.contains(seconds)).unwrap_or(own)
    }

    fn stream_results(&self, at: usize) -> StreamResults {
        let (sum, base) = (self.own_sum(at), self.baselines[at]);
        let sends = self.streams[at].connection.sends;
        let udp = sum.udp.unwrap_or_default();
        // iperf3 takes the omitted off by itself.
        let before = Omitted {
            errors: base.arrivals.lost,
            packets: if sends { base.packets } else { base.arrivals.highest },
        };
        StreamResults {
            id: self.streams[at].connection.id,
            bytes: sum.bytes,
            retransmits: sum.retransmits,
            jitter: udp.jitter,
            errors: udp.lost + before.errors,
            packets: udp.packets + before.packets,
            omitted: Some(before),
            start: Some(0.0),
            end: Some(sum.seconds),
        }
    }

    /// Whether all that `remote` did not see of a stream was lost. iperf3 takes in nothing after its client's
    /// word, so some was still on its way; where nothing came at all it was lost, unless other streams made
    /// up the bytes that end the test before this one's socket was read.
    fn drains(&self, remote: &Results, received: &Sum) -> bool {
        let sent = self.streams.iter().filter(|stream| stream.connection.sends);
        let mut theirs = sent.filter_map(|stream| remote.stream(stream.connection.id));
        let nothing = received.udp.is_none_or(|udp| udp.packets == 0);
        let by_bytes = self.parameters().budget().is_some();
        remote.copies.is_some() || nothing && (!by_bytes || theirs.all(|stream| stream.bytes == 0))
    }

    fn stream_outcome(&self, at: usize, remote: Option<&Results>) -> StreamOutcome {
        let stream = &self.streams[at];
        let own = Some(self.own_sum(at));
        let theirs = remote.and_then(|remote| remote.stream(stream.connection.id)).map(|theirs| {
            let (packets, lost) = match (theirs.omitted, self.parameters().omit) {
                (None, 1..) => {
                    let before = stream.connection.sends.then_some(self.baselines[at].packets);
                    theirs.datagrams_by_bytes(self.parameters().block, before)
                }
                (omitted, _) => theirs.datagrams_without(omitted.unwrap_or_default()),
            };
            Sum {
                bytes: theirs.bytes,
                seconds: self.seconds_of(theirs),
                retransmits: theirs.retransmits,
                udp: stream.is_udp().then_some(UdpFigures {
                    packets,
                    lost,
                    out_of_order: 0,
                    jitter: theirs.jitter,
                }),
            }
        });
        let (sent, mut received) = if stream.connection.sends { (own, theirs) } else { (theirs, own) };
        if let (0, Some(sent), Some(received)) = (self.parameters().omit, &sent, &mut received)
            && (!stream.connection.sends || remote.is_some_and(|remote| self.drains(remote, received)))
        {
            count_the_tail(sent, received);
        }
        let seen = self.watch.seen(stream.connection.id).cloned().unwrap_or_default();
        StreamOutcome {
            connection: stream.connection,
            sent,
            received,
            rtt: seen.rtt(),
            most_cwnd: seen.most_cwnd,
            most_window: seen.most_window,
            reordered: seen.reordered,
        }
    }
}
