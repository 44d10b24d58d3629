//! What did one connection do between two looks at it, as the sender and as the receiver of its data?
//!
//! Whoever watches hands each reading of the socket to [`FlowProbe::look`] about every 20 ms and closes an
//! interval every 100 to 250 ms. Counters are differences from the last look of the interval before; levels
//! are means over the looks.

mod last_word;
mod pauses;

use std::time::Duration;

use weir_model::evidence::{Reading, TcpInterval};
use weir_model::sender::SenderInterval;
use weir_model::waits::Waits;

use crate::mean::Mean;
use crate::sock_diag::TcpSocket;
use crate::tcp_info::TcpInfo;
pub(crate) use last_word::LastWord;
use last_word::LastWordProbe;
use pauses::Pauses;

/// Watches one connection.
#[derive(Debug, Default)]
pub struct FlowProbe {
    /// The counters at the last look of the interval before.
    before: Option<Counters>,
    last: Option<TcpSocket>,
    sums: Sums,
    pauses: Pauses,
    words: LastWordProbe,
    /// It is known which way the data flow: it sends them.
    sends: bool,
}

/// One connection over one interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlowInterval {
    /// Bytes received in order, read by the application or not.
    pub received: u64,
    /// Bytes that the peer's kernel acknowledged.
    pub acked: u64,
    /// Bytes sent, retransmissions included.
    pub sent: u64,
    /// As the receiver of the data sees it.
    pub receiver: Reading<TcpInterval>,
    /// As the sender of the data sees it.
    pub sender: Reading<SenderInterval>,
    /// What it waited for.
    pub waits: Reading<Waits>,
    /// Share of the looks at which the receive queue was empty.
    pub waiting: f64,
    /// Share of the looks at which the last word was this end's, and nothing lay unread: on the receiving
    /// end, an answer is awaited.
    pub awaiting_answer: f64,
    /// On the receiving end its requests: segments with data that went out, but no more than one for each
    /// segment that came and one before the first, since a request may be written in parts.
    pub requests: u64,
    /// Nothing came in so far, and no more than a request went out: which way the data will flow is not to be
    /// seen yet, but most often they are the answer.
    pub asking: bool,
    /// How often the socket was looked at.
    pub looks: u32,
}

/// No more than this is a request: a head with its cookies (servers take heads of 8 KiB at most, half of that
/// is rare). The first flight of an upload is more, ten segments.
const REQUEST: u64 = 4 << 10;

/// Below this an interval's bytes do not tell which way the data flow: 64 KiB are more than requests and
/// answers to them.
const WORTH_SPEAKING: u64 = 64 << 10;

/// One way carries less than this part of the other: requests beside a download, or answers beside an upload.
const SMALL_PART: u64 = 10;

impl FlowProbe {
    /// For a connection that was there before: what it did before the first look does not count.
    pub fn new() -> FlowProbe {
        FlowProbe::default()
    }

    /// For a connection that began after the watch did: all it did counts, in its first interval.
    pub fn from_its_start() -> FlowProbe {
        FlowProbe { before: Some(Counters::default()), ..FlowProbe::default() }
    }

    /// Takes in one reading of the socket.
    pub fn look(&mut self, socket: &TcpSocket) {
        let word = self.words.look(&socket.info, self.pauses.answers());
        self.take(socket, word, word);
    }

    /// As [`FlowProbe::look`], of a lane of our own that sends, whose clock tells whether it `awaits` an
    /// answer. The kernel's clocks of data stand still within a tick, and on a short path an answer and the
    /// request after it are in the same one: which came last, they do not say there.
    pub fn look_at_sender(&mut self, socket: &TcpSocket, awaits: bool) {
        self.sends = true;
        let word = self.words.look(&socket.info, self.pauses.answers());
        self.take(socket, if awaits { LastWord::Own } else { LastWord::Peer }, word);
    }

    /// `told`: whose word came last, as far as is known; `seen`: as the socket alone shows it.
    fn take(&mut self, socket: &TcpSocket, told: LastWord, seen: LastWord) {
        self.before.get_or_insert_with(|| Counters::of(&socket.info));
        self.sums.add(socket, told);
        self.pauses.look(socket, seen);
        self.last = Some(socket.clone());
    }

    /// Whose word came last, as of the last look.
    pub(crate) fn last_word(&self) -> LastWord {
        self.words.word()
    }

    /// Takes in the counters that the socket had at its end, which stand for no look: it was no connection
    /// any more.
    pub fn end(&mut self, socket: &TcpSocket) {
        self.before.get_or_insert_with(|| Counters::of(&socket.info));
        let word = self.words.look(&socket.info, self.pauses.answers());
        self.pauses.end(socket, word);
        self.last = Some(socket.clone());
        self.sums.ended = true;
    }

    /// The last reading.
    pub fn last(&self) -> Option<&TcpSocket> {
        self.last.as_ref()
    }

    /// What happened since the last call. Without a look since, both views are missing.
    pub fn interval(&mut self) -> FlowInterval {
        let sums = std::mem::take(&mut self.sums);
        let missing = || "the socket was not seen in this interval".to_owned();
        let unseen = FlowInterval {
            receiver: Reading::Missing(missing()),
            sender: Reading::Missing(missing()),
            waits: Reading::Missing(missing()),
            ..FlowInterval::default()
        };
        let Some(last) = self.last.as_ref().filter(|_| sums.looks > 0 || sums.ended) else { return unseen };
        let now = Counters::of(&last.info);
        let before = self.before.replace(now).unwrap_or(now);
        let passed = now.since(&before);
        // Who is asked waits for the next question, which is no answer, and asks for nothing.
        let answers = self.pauses.answers();
        let requests = if answers { 0 } else { now.requests().saturating_sub(before.requests()).into() };
        if sums.looks == 0 {
            // It ended between two looks: its bytes count, its levels are not known.
            let (received, acked, sent) = (passed.received, passed.acked, passed.sent);
            return FlowInterval { received, acked, sent, requests, ..unseen };
        }
        // What the interval shows if it is enough, else what the connection has shown so far.
        let told = if passed.sent.saturating_add(passed.received) >= WORTH_SPEAKING { passed } else { now };
        let share = |count: u32| f64::from(count) / f64::from(sums.looks);
        let asking = now.received == 0 && now.sent <= REQUEST;
        FlowInterval {
            received: passed.received,
            acked: passed.acked,
            sent: passed.sent,
            receiver: if told.received == 0 || told.received < told.sent / SMALL_PART {
                Reading::Missing("this end only sends".to_owned())
            } else {
                Reading::Value(sums.receiver(last, &passed))
            },
            sender: if self.sends {
                Reading::Value(sums.sender(last, &passed))
            } else if asking {
                Reading::Missing("this end has only asked so far".to_owned())
            } else if told.sent == 0 || told.sent < told.received / SMALL_PART {
                Reading::Missing("this end only receives".to_owned())
            } else {
                Reading::Value(sums.sender(last, &passed))
            },
            waits: Reading::Value(self.pauses.interval(&passed, &now, &last.info)),
            waiting: share(sums.empty),
            awaiting_answer: if answers { 0.0 } else { share(sums.asked_last) },
            requests,
            asking,
            looks: sums.looks,
        }
    }
}

/// The counters whose differences an interval reports.
#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    received: u64,
    acked: u64,
    sent: u64,
    /// Bytes; `None` before Linux 4.19.
    retransmitted: Option<u64>,
    busy: Duration,
    receive_window_limited: Duration,
    send_buffer_limited: Duration,
    timeout: Duration,
    duplicates: u32,
    reordered: u32,
    marked: u32,
    segments_in: u32,
    segments_out: u32,
    out_of_order: u32,
    timeouts: u16,
    retransmitted_segments: u32,
    segment: u32,
}

impl Counters {
    fn of(info: &TcpInfo) -> Counters {
        let acked = info.bytes_acked.unwrap_or_default();
        Counters {
            received: info.bytes_received.unwrap_or_default(),
            acked,
            // Before Linux 4.19 what was acknowledged stands for what was sent.
            sent: info.bytes_sent.unwrap_or(acked),
            retransmitted: info.bytes_retrans,
            busy: info.busy_time.unwrap_or_default(),
            receive_window_limited: info.rwnd_limited.unwrap_or_default(),
            send_buffer_limited: info.sndbuf_limited.unwrap_or_default(),
            timeout: info.total_rto_time.unwrap_or_default(),
            duplicates: info.dsack_dups.unwrap_or_default(),
            reordered: info.reord_seen.unwrap_or_default(),
            marked: info.delivered_ce.unwrap_or_default(),
            segments_in: info.data_segs_in.unwrap_or_default(),
            segments_out: info.data_segs_out.unwrap_or_default(),
            out_of_order: info.rcv_ooopack.unwrap_or_default(),
            timeouts: info.total_rto.unwrap_or_default(),
            retransmitted_segments: info.total_retrans.unwrap_or_default(),
            segment: info.snd_mss.unwrap_or_default(),
        }
    }

    /// Since the connection began: see [`FlowInterval::requests`].
    fn requests(&self) -> u32 {
        self.segments_out.min(self.segments_in.saturating_add(1))
    }

    /// Counters of 16 and 32 bits wrap.
    fn since(&self, before: &Counters) -> Counters {
        let again = self.retransmitted_segments.wrapping_sub(before.retransmitted_segments);
        // A kernel that does not count bytes counts segments.
        let bytes = match self.retransmitted {
            Some(now) => now.saturating_sub(before.retransmitted.unwrap_or_default()),
            None => u64::from(again) * u64::from(self.segment),
        };
        Counters {
            received: self.received.saturating_sub(before.received),
            acked: self.acked.saturating_sub(before.acked),
            sent: self.sent.saturating_sub(before.sent),
            retransmitted: Some(bytes),
            busy: self.busy.saturating_sub(before.busy),
            receive_window_limited: self.receive_window_limited.saturating_sub(before.receive_window_limited),
            send_buffer_limited: self.send_buffer_limited.saturating_sub(before.send_buffer_limited),
            timeout: self.timeout.saturating_sub(before.timeout),
            duplicates: self.duplicates.wrapping_sub(before.duplicates),
            reordered: self.reordered.wrapping_sub(before.reordered),
            marked: self.marked.wrapping_sub(before.marked),
            segments_in: self.segments_in.wrapping_sub(before.segments_in),
            segments_out: self.segments_out.wrapping_sub(before.segments_out),
            out_of_order: self.out_of_order.wrapping_sub(before.out_of_order),
            timeouts: self.timeouts.wrapping_sub(before.timeouts),
            retransmitted_segments: again,
            segment: self.segment,
        }
    }
}

/// What one look says of the sending side, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Sending {
    segment: u64,
    /// Sent and not acknowledged: what fills the peer's window.
    outstanding: u64,
    /// Thought to be on the path: what fills the congestion window.
    in_flight: u64,
    /// The same in segments.
    packets: u32,
    unsent: u64,
}

/// Sequence numbers have 32 bits (RFC 9293, section 3.4). What claims more is no socket's state, and must not
/// overflow what is reckoned with it.
const MOST_OUTSTANDING: u64 = u32::MAX as u64;

impl Sending {
    fn of(socket: &TcpSocket) -> Sending {
        let info = &socket.info;
        let segment = u64::from(info.snd_mss.unwrap_or_default());
        let unacked = info.unacked.unwrap_or_default();
        let unsent = u64::from(info.notsent_bytes.unwrap_or_default());
        // In bytes exactly, but the two numbers are not of one instant; in segments at most, since segments
        // may be short: a hundred bytes over loopback count as one of 64 KB.
        let queued = info.notsent_bytes.map(|_| u64::from(socket.send_queue).saturating_sub(unsent));
        let outstanding =
            (u64::from(unacked) * segment).min(queued.unwrap_or(MOST_OUTSTANDING)).min(MOST_OUTSTANDING);
        let gone = info.sacked.unwrap_or_default().saturating_add(info.lost.unwrap_or_default());
        let packets = unacked.saturating_sub(gone).saturating_add(info.retrans.unwrap_or_default());
        let in_flight = (outstanding * u64::from(packets) / u64::from(unacked.max(1))).min(MOST_OUTSTANDING);
        Sending { segment, outstanding, in_flight, packets, unsent }
    }

    /// Nine tenths of the peer's window are out, or so much that two more segments do not fit: a sender that
    /// defers until a full burst fits stops there. The latter only from half of the window on, since a
    /// segment may be as large as that (tcp_bound_to_half_wnd).
    fn fills_window(&self, window: u64) -> bool {
        let wants = self.outstanding > 0 || self.unsent > 0;
        let no_room =
            window.saturating_sub(self.outstanding) < 2 * self.segment && 2 * self.outstanding >= window;
        wants && (10 * self.outstanding >= 9 * window || no_room)
    }
}

/// What the looks of one interval add up to.
#[derive(Debug, Clone, Default)]
struct Sums {
    ended: bool,
    looks: u32,
    empty: u32,
    asked_last: u32,
    owing: u32,
    awaiting: u32,
    app_limited: u32,
    nothing_unsent: u32,
    nothing_in_flight: u32,
    window_filled: u32,
    cwnd_filled: u32,
    buffer_filled: u32,
    recovering: u32,
    receive_queue: Mean,
    in_flight: Mean,
    unsent: Mean,
    queued: Mean,
    send_buffer: Mean,
    window: Mean,
    window_ends: Option<(u64, u64)>,
    cwnd: Mean,
    rtt: Mean,
    free_rate: Mean,
    any_rate: Mean,
    pacing: Mean,
}

impl Sums {
    fn add(&mut self, socket: &TcpSocket, word: LastWord) {
        let info = &socket.info;
        let sending = Sending::of(socket);
        self.looks += 1;
        self.empty += u32::from(socket.receive_queue == 0);
        self.receive_queue.add(u64::from(socket.receive_queue));
        self.asked_last += u32::from(word == LastWord::Own && socket.receive_queue == 0);
        self.add_gauges(info, &sending);

        let app_limited = info.delivery_rate_app_limited.unwrap_or_default();
        self.app_limited += u32::from(app_limited);
        let nothing_unsent = sending.unsent < sending.segment.max(1);
        self.nothing_unsent += u32::from(nothing_unsent);
        let rests = nothing_unsent && sending.outstanding == 0;
        self.nothing_in_flight += u32::from(rests);
        // Before the peer's first word it is its turn.
        let is_silent = info.bytes_received == Some(0);
        self.owing += u32::from(rests && word == LastWord::Peer && !is_silent);
        self.awaiting += u32::from(rests && (word == LastWord::Own || is_silent));
        self.recovering += u32::from(matches!(info.ca_state, Some(2..=4)));
        if let Some(window) = info.snd_wnd.map(u64::from) {
            self.window.add(window);
            let (least, most) = self.window_ends.unwrap_or((window, window));
            self.window_ends = Some((least.min(window), most.max(window)));
            self.window_filled += u32::from(sending.fills_window(window));
        }
        if let Some(cwnd) = info.snd_cwnd {
            self.cwnd.add(u64::from(cwnd) * sending.segment);
            let no_room = sending.packets > 0 && cwnd.saturating_sub(sending.packets) < 2;
            self.cwnd_filled += u32::from(no_room);
        }
        if let Some(memory) = socket.memory {
            self.queued.add(memory.send_queued.into());
            self.send_buffer.add(memory.send_buffer.into());
            // A writer that found the buffer full sleeps until a third of it is free (sk_stream_is_writeable:
            // free >= queued / 2), so a queue above two thirds is a buffer that holds its writer or is about
            // to.
            let filled = 3 * u64::from(memory.send_queued) >= 2 * u64::from(memory.send_buffer);
            self.buffer_filled += u32::from(filled && memory.send_queued > 0);
        }
        if let Some(rate) = info.delivery_rate.map(|rate| rate.0 as u64).filter(|rate| *rate > 0) {
            self.any_rate.add(rate);
            if !app_limited {
                self.free_rate.add(rate);
            }
        }
    }

    fn add_gauges(&mut self, info: &TcpInfo, sending: &Sending) {
        self.in_flight.add(sending.in_flight);
        self.unsent.add(sending.unsent);
        if let Some(rtt) = info.rtt {
            self.rtt.add(rtt.as_micros() as u64);
        }
        if let Some(rate) = info.pacing_rate {
            self.pacing.add(rate.0 as u64);
        }
    }

    fn receiver(&self, last: &TcpSocket, passed: &Counters) -> TcpInterval {
        let info = &last.info;
        TcpInterval {
            receiver_rtt: info.rcv_rtt,
            min_rtt: info.min_rtt,
            receive_window: info.rcv_wnd.map(|window| offered(info, window)),
            window_clamp: info.rcv_ssthresh.map(|clamp| offered(info, clamp)),
            receive_queue: self.receive_queue.value(),
            receive_buffer: last.memory.map(|memory| memory.receive_buffer.into()),
            out_of_order: passed.out_of_order.into(),
            segments: passed.segments_in.into(),
            resent: None,
            congestion_control: last.congestion_control.clone(),
        }
    }

    fn sender(&self, last: &TcpSocket, passed: &Counters) -> SenderInterval {
        let info = &last.info;
        let segment = u64::from(info.snd_mss.unwrap_or_default());
        let rate = |mean: Mean| mean.value().map(|rate| rate as f64);
        SenderInterval {
            acked: passed.acked,
            busy: passed.busy,
            receive_window_limited: passed.receive_window_limited,
            send_buffer_limited: passed.send_buffer_limited,
            timeout: passed.timeout,
            looks: self.looks,
            app_limited: self.app_limited,
            nothing_unsent: self.nothing_unsent,
            nothing_in_flight: self.nothing_in_flight,
            window_filled: self.window_filled,
            cwnd_filled: self.cwnd_filled,
            buffer_filled: self.buffer_filled,
            recovering: self.recovering,
            owing: self.owing,
            awaiting: self.awaiting,
            asked: passed.segments_in.into(),
            in_flight: self.in_flight.value().unwrap_or_default(),
            unsent: self.unsent.value().unwrap_or_default(),
            queued: self.queued.value(),
            send_buffer: self.send_buffer.value(),
            peer_window: self
                .window_ends
                .zip(self.window.value())
                .map(|((least, most), mean)| (least, mean, most)),
            cwnd: self.cwnd.value().unwrap_or_default(),
            // TCP_INFINITE_SSTHRESH.
            ssthresh: info
                .snd_ssthresh
                .filter(|segments| *segments < 0x7fff_ffff)
                .map(|it| u64::from(it) * segment),
            segment,
            rtt: self.rtt.value().map(Duration::from_micros),
            min_rtt: info.min_rtt,
            delivery_rate: rate(self.free_rate).or(rate(self.any_rate)),
            pacing_rate: rate(self.pacing),
            max_pacing_rate: info.max_pacing_rate.map(|rate| rate.0),
            sent: passed.sent,
            retransmitted: passed.retransmitted.unwrap_or_default(),
            duplicates: passed.duplicates.into(),
            reordered: passed.reordered.into(),
            marked: passed.marked.into(),
            congestion_control: last.congestion_control.clone(),
        }
    }
}

/// What of a window can be offered: a field of 16 bits without scaling (RFC 7323), whatever the kernel would
/// give.
fn offered(info: &TcpInfo, window: u32) -> u64 {
    let most = if pauses::scaled(info) == Some(false) { u32::from(u16::MAX) } else { u32::MAX };
    window.min(most).into()
}
