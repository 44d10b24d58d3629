//! When did nothing move on a connection, though something was owed, and what ended that?
//!
//! A stall is what TAPO calls one (Zhou et al., "Demystifying and mitigating TCP stalls at the server side",
//! CoNEXT 2015): longer than min(2 smoothed round trips, retransmission timeout). The kernel's own clocks
//! tell how long nothing has moved (`tcpi_last_data_sent`, `tcpi_last_data_recv`, `tcpi_last_ack_recv`, in
//! steps of its tick), so that a late look errs by little.

use std::time::Duration;

use weir_model::waits::{Ended, Stall, Waits};

use super::{Counters, LastWord, Sending};
use crate::sock_diag::TcpSocket;
use crate::tcp_info::TcpInfo;

/// Two looks of 20 ms: a shorter stall cannot be told from what a look missed.
const SHORTEST: Duration = Duration::from_millis(40);

/// What Nagle's algorithm holds back is held for this long at least: below it are pacing's and the driver's
/// pauses of a few milliseconds, and two steps of a kernel's clock of 4 ms. A delayed acknowledgement takes
/// 40 ms.
const HELD: Duration = Duration::from_millis(8);

/// The states of a handshake (include/net/tcp_states.h).
const SYN_SENT: u8 = 2;
const SYN_RECV: u8 = 3;

/// `TCPI_OPT_WSCALE`.
const SCALES: u8 = 4;

/// Looks for what a connection waits for.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    waits: Waits,
    last: Option<Look>,
    /// What this end had sent when the peer last spoke.
    sent_at_word: u64,
    /// The first word was this end's: it asks. `None`: not seen.
    asks: Option<bool>,
}

/// One look, as far as the next is compared with it.
#[derive(Debug, Clone, Copy)]
struct Look {
    /// Since anything moved.
    quiet: Duration,
    stalled: bool,
    /// Something was in flight or unsent.
    owed: bool,
    received: u64,
    came_segments: u32,
    acked: u64,
    /// Sent for the first time.
    fresh: u64,
    timeouts: u64,
    retransmissions: u64,
    cwnd: u32,
    /// The connection had rested for longer than its retransmission timeout.
    rested: bool,
    word: LastWord,
}

impl Look {
    fn of(socket: &TcpSocket, sending: &Sending, word: LastWord) -> Look {
        let info = &socket.info;
        let clocks = [info.last_data_sent, info.last_data_recv, info.last_ack_recv];
        let quiet = clocks.into_iter().flatten().min().unwrap_or_default();
        let owed = sending.outstanding > 0 || sending.unsent > 0;
        let awaits = word == LastWord::Own && socket.receive_queue == 0;
        let sent = info.bytes_sent.or(info.bytes_acked).unwrap_or_default();
        Look {
            quiet,
            stalled: (owed || awaits) && quiet >= threshold(info),
            owed,
            received: info.bytes_received.unwrap_or_default(),
            came_segments: info.data_segs_in.unwrap_or_default(),
            acked: info.bytes_acked.unwrap_or_default(),
            fresh: sent.saturating_sub(info.bytes_retrans.unwrap_or_default()),
            // Before Linux 6.7 the timers in a row, which count from nothing again after each answer.
            timeouts: info.total_rto.map_or_else(|| info.retransmits.unwrap_or_default().into(), u64::from),
            retransmissions: info.total_retrans.unwrap_or_default().into(),
            cwnd: info.snd_cwnd.unwrap_or_default(),
            rested: !owed && info.rto.is_some_and(|rto| info.last_data_sent.is_some_and(|sent| sent > rto)),
            word,
        }
    }

    /// All had arrived and the peer's word was awaited, and this end went on. Where a word came as well, it
    /// came after what was sent if it is the only one and the last.
    fn went_on(&self, before: &Look) -> bool {
        let silent = self.received == before.received;
        let one_word =
            self.came_segments.wrapping_sub(before.came_segments) == 1 && self.word != LastWord::Own;
        !before.owed && self.fresh > before.fresh && (silent || one_word)
    }

    /// What has ended a stall that was seen before.
    fn ended_by(&self, before: &Look) -> Option<Ended> {
        let came = self.received > before.received;
        if self.timeouts > before.timeouts {
            Some(Ended::Timeout)
        } else if self.retransmissions > before.retransmissions {
            Some(Ended::Retransmission)
        } else if self.went_on(before) {
            Some(Ended::Itself)
        } else if came {
            Some(Ended::Peer)
        } else if self.acked > before.acked {
            Some(Ended::Acknowledged)
        } else if self.fresh > before.fresh {
            Some(Ended::Itself)
        } else {
            None
        }
    }
}

/// How long nothing may move before it is a stall.
fn threshold(info: &TcpInfo) -> Duration {
    let rto = info.rto.unwrap_or(Duration::from_millis(200));
    let trips = info.rtt.map_or(rto, |rtt| 2 * rtt);
    trips.min(rto).max(SHORTEST)
}

impl Pauses {
    /// `word`: whose came last.
    pub(super) fn look(&mut self, socket: &TcpSocket, word: LastWord) {
        let info = &socket.info;
        // Before the handshake's end nothing is owed, and the clocks of data show the age of the machine.
        if matches!(info.state, Some(SYN_SENT | SYN_RECV)) {
            self.waits.looks += 1;
            return;
        }
        let sending = Sending::of(socket);
        let now = Look::of(socket, &sending, word);
        let waits = &mut self.waits;
        waits.looks += 1;
        waits.small_held += u32::from(held_small(socket, &sending));
        if held_small(socket, &sending) {
            waits.small_held_longest = waits.small_held_longest.max(info.last_data_sent.unwrap_or_default());
        }
        waits.backoff = waits.backoff.max(info.backoff.unwrap_or_default().into());
        let (least, most) = waits.segment;
        let segment = sending.segment;
        waits.segment = (if least == 0 { segment } else { least.min(segment) }, most.max(segment));
        let beyond = socket.memory.is_some_and(|memory| memory.receive_allocated > 0);
        waits.hole += u32::from(beyond && socket.receive_queue == 0);
        waits.in_flight_most = waits.in_flight_most.max(sending.in_flight);
        waits.stalled += u32::from(now.stalled);
        let gap = info.rtt.map_or(HELD, |rtt| (rtt / 4).max(HELD));
        waits.silent += u32::from(now.quiet >= gap);
        if let Some(before) = self.last {
            let smaller = u64::from(now.cwnd) * 5 < u64::from(before.cwnd) * 4;
            let lost = now.retransmissions > before.retransmissions;
            waits.restarts += u32::from(before.rested && smaller && !lost);
        }
        self.compare(&now);
    }

    /// The peer spoke first: it asks, and this end answers.
    pub(super) fn answers(&self) -> bool {
        self.asks == Some(false)
    }

    /// The last counters of a connection that is over: they end a stall, and are no look.
    pub(super) fn end(&mut self, socket: &TcpSocket, word: LastWord) {
        if self.last.is_some() {
            self.compare(&Look::of(socket, &Sending::of(socket), word));
        }
    }

    fn compare(&mut self, now: &Look) {
        if let Some(before) = self.last
            && let Some(ended) = before.stalled.then(|| now.ended_by(&before)).flatten()
        {
            let asks = self.asks == Some(true);
            let asked = if asks { before.fresh.saturating_sub(self.sent_at_word) } else { 0 };
            self.waits.stalls.push(Stall { lasted: before.quiet, ended, asked });
        }
        match (now.received, now.fresh) {
            (0, 0) => {}
            (0, _) => self.asks = self.asks.or(Some(true)),
            (_, 0) => self.asks = self.asks.or(Some(false)),
            (_, _) => {}
        }
        if self.last.is_none_or(|before| now.received > before.received) {
            self.sent_at_word = if now.received == 0 { 0 } else { now.fresh };
        }
        self.last = Some(*now);
    }

    /// The interval that ends here: `passed` in it, `ever` since the connection began.
    pub(super) fn interval(&mut self, passed: &Counters, ever: &Counters, last: &TcpInfo) -> Waits {
        let mut waits = std::mem::take(&mut self.waits);
        waits.sent = passed.sent;
        waits.sent_segments = passed.segments_out.into();
        waits.came = passed.received;
        waits.came_segments = passed.segments_in.into();
        waits.retransmitted = passed.retransmitted.unwrap_or_default();
        waits.retransmitted_segments = passed.retransmitted_segments.into();
        waits.timeouts = passed.timeouts.into();
        waits.timeout = passed.timeout;
        waits.acked_ever = ever.acked;
        waits.delivered_ever = last.delivered.unwrap_or_default().into();
        waits.scaled = scaled(last);
        waits
    }
}

/// Whether both ends scale their windows; known once the handshake is over.
pub(super) fn scaled(info: &TcpInfo) -> Option<bool> {
    // SYN_SENT and SYN_RECV have agreed on nothing yet.
    let agreed = info.state.is_some_and(|state| !matches!(state, 0 | 2 | 3));
    info.options.filter(|_| agreed).map(|options| options & SCALES != 0)
}

/// Less than a segment lies unsent behind something in flight, with room for it in both windows, for some
/// time.
fn held_small(socket: &TcpSocket, sending: &Sending) -> bool {
    let info = &socket.info;
    let small = sending.unsent > 0 && sending.unsent < sending.segment && sending.outstanding > 0;
    let cwnd = info.snd_cwnd.is_some_and(|cwnd| sending.packets.saturating_add(1) < cwnd);
    let window = info.snd_wnd.is_none_or(|window| sending.outstanding + sending.unsent <= u64::from(window));
    let orderly = matches!(info.ca_state, None | Some(0 | 1)) && info.retransmits.unwrap_or_default() == 0;
    small && cwnd && window && orderly && info.last_data_sent.is_some_and(|sent| sent >= HELD)
}

#[cfg(test)]
mod tests {
    use super::super::LastWordProbe;
    use super::*;
    use crate::sock_diag::{SocketId, SocketMemory, TcpState};

    const MS: Duration = Duration::from_millis(1);

    /// A connection over 20 ms that has sent and received some, with all of it acknowledged.
    fn at_rest() -> TcpSocket {
        let any = "127.0.0.1:1".parse().unwrap();
        let info = TcpInfo {
            state: Some(1),
            ca_state: Some(0),
            options: Some(7),
            rto: Some(220 * MS),
            rtt: Some(20 * MS),
            snd_mss: Some(1448),
            snd_cwnd: Some(10),
            snd_wnd: Some(64_000),
            unacked: Some(0),
            notsent_bytes: Some(0),
            bytes_sent: Some(1000),
            bytes_acked: Some(1000),
            bytes_received: Some(100),
            bytes_retrans: Some(0),
            total_rto: Some(0),
            total_retrans: Some(0),
            last_data_sent: Some(4 * MS),
            last_data_recv: Some(4 * MS),
            last_ack_recv: Some(4 * MS),
            ..TcpInfo::default()
        };
        TcpSocket {
            id: SocketId { local: any, remote: any, cookie: 1, interface: 0 },
            state: TcpState::ESTABLISHED,
            uid: 0,
            inode: 1,
            receive_queue: 0,
            send_queue: 0,
            info,
            memory: Some(SocketMemory::default()),
            congestion_control: None,
        }
    }

    /// The same with a segment in flight, and nothing moved for so long.
    fn in_flight(quiet: Duration) -> TcpSocket {
        let mut socket = at_rest();
        socket.send_queue = 200;
        let info = &mut socket.info;
        (info.unacked, info.bytes_sent) = (Some(1), Some(1200));
        (info.last_data_sent, info.last_data_recv, info.last_ack_recv) =
            (Some(quiet), Some(quiet + MS), Some(quiet + MS));
        socket
    }

    fn over(looks: &[TcpSocket]) -> Waits {
        let (mut pauses, mut words) = (Pauses::default(), LastWordProbe::default());
        for socket in looks {
            let word = words.look(&socket.info, pauses.answers());
            pauses.look(socket, word);
        }
        let last = &looks.last().unwrap().info;
        let now = Counters::of(last);
        pauses.interval(&now.since(&Counters::of(&looks[0].info)), &now, last)
    }

    #[test]
    fn a_stall_is_known_by_what_ends_it() {
        let mut fired = in_flight(4 * MS);
        (fired.info.total_rto, fired.info.total_retrans) = (Some(1), Some(1));
        let mut acknowledged = at_rest();
        (acknowledged.info.bytes_sent, acknowledged.info.bytes_acked) = (Some(1200), Some(1200));
        let mut answered = acknowledged.clone();
        answered.info.bytes_received = Some(200);
        for (end, ended) in
            [(fired, Ended::Timeout), (acknowledged, Ended::Acknowledged), (answered, Ended::Peer)]
        {
            let waits = over(&[in_flight(20 * MS), in_flight(200 * MS), end]);
            assert_eq!(waits.stalls, [Stall { lasted: 200 * MS, ended, asked: 0 }]);
            assert_eq!(waits.stalled, 1, "20 ms are no stall over a round trip of 20 ms");
        }
    }

    #[test]
    fn a_kernel_that_counts_segments_alone_tells_what_was_sent_again() {
        let (mut before, mut after) = (at_rest(), at_rest());
        for socket in [&mut before, &mut after] {
            (socket.info.bytes_retrans, socket.info.bytes_sent) = (None, None);
        }
        (after.info.total_retrans, after.info.bytes_acked) = (Some(3), Some(50_000));
        let waits = over(&[before, after]);
        assert_eq!((waits.retransmitted, waits.retransmitted_segments), (3 * 1448, 3));
    }

    #[test]
    fn who_goes_on_without_an_answer_ends_its_stall_itself() {
        // All was acknowledged and nothing has come since.
        let mut waits_for_a_word = at_rest();
        let info = &mut waits_for_a_word.info;
        (info.last_data_sent, info.last_data_recv, info.last_ack_recv) =
            (Some(980 * MS), Some(1000 * MS), Some(980 * MS));
        let mut goes_on = at_rest();
        goes_on.info.bytes_sent = Some(3000);
        let waits = over(&[waits_for_a_word, goes_on]);
        assert_eq!(waits.stalls, [Stall { lasted: 980 * MS, ended: Ended::Itself, asked: 0 }]);
    }

    /// A request of 200 bytes that nobody has answered, all of it acknowledged.
    fn unanswered() -> TcpSocket {
        let mut socket = at_rest();
        let info = &mut socket.info;
        (info.bytes_sent, info.bytes_acked, info.bytes_received) = (Some(200), Some(201), Some(0));
        (info.last_data_sent, info.last_data_recv, info.last_ack_recv) =
            (Some(980 * MS), Some(9000 * MS), Some(980 * MS));
        socket
    }

    #[test]
    fn a_body_sent_without_a_word_is_told_with_the_question_before_it() {
        let mut body = unanswered();
        let info = &mut body.info;
        (info.bytes_sent, info.bytes_acked, info.last_data_sent) =
            (Some(100_200), Some(100_201), Some(4 * MS));
        let itself = Stall { lasted: 980 * MS, ended: Ended::Itself, asked: 200 };
        assert_eq!(over(&[unanswered(), body.clone()]).stalls, [itself], "acknowledgements are for the body");
        // The answer to it has come before the next look.
        let info = &mut body.info;
        (info.bytes_received, info.data_segs_in, info.last_data_recv) =
            (Some(40), Some(1), Some(Duration::ZERO));
        assert_eq!(over(&[unanswered(), body.clone()]).stalls, [itself]);
        // A word that let it go on, and an answer.
        (body.info.bytes_received, body.info.data_segs_in) = (Some(65), Some(2));
        assert_eq!(over(&[unanswered(), body]).stalls[0].ended, Ended::Peer);
    }

    #[test]
    fn an_answer_ends_a_stall_though_the_next_question_goes_out_at_once() {
        // Over a path below a tick, so that both show the same time.
        let look = |came: u64, went: u64, segments: u32, quiet: Duration| {
            let mut socket = at_rest();
            let info = &mut socket.info;
            (info.min_rtt, info.rtt) = (Some(MS / 20), Some(MS / 10));
            (info.bytes_received, info.data_segs_in) = (Some(came), Some(segments));
            (info.bytes_sent, info.bytes_acked) = (Some(went), Some(went));
            (info.last_data_sent, info.last_data_recv, info.last_ack_recv) =
                (Some(quiet), Some(quiet), Some(quiet));
            socket
        };
        let waits =
            over(&[look(1000, 100, 1, 4 * MS), look(1000, 190, 1, 196 * MS), look(1213, 280, 2, 4 * MS)]);
        assert_eq!(waits.stalls, [Stall { lasted: 196 * MS, ended: Ended::Peer, asked: 0 }]);
    }

    #[test]
    fn the_end_of_a_connection_ends_its_stall() {
        let mut body = unanswered();
        (body.info.bytes_sent, body.info.bytes_acked) = (Some(100_200), Some(100_201));
        let mut pauses = Pauses::default();
        pauses.look(&unanswered(), LastWord::Own);
        pauses.end(&body, LastWord::Own);
        let now = Counters::of(&body.info);
        assert_eq!(pauses.interval(&now, &now, &body.info).stalls.len(), 1);
    }

    #[test]
    fn a_handshake_is_no_stall() {
        let mut syn = in_flight(9000 * MS);
        syn.info.state = Some(SYN_SENT);
        let mut fired = at_rest();
        (fired.info.total_rto, fired.info.total_retrans) = (Some(1), Some(1));
        assert_eq!(over(&[syn.clone(), syn, fired]).stalls, []);
    }

    #[test]
    fn a_connection_at_rest_owes_nothing_and_does_not_stall() {
        let mut rests = at_rest();
        let info = &mut rests.info;
        // The last came from the peer.
        (info.last_data_sent, info.last_data_recv, info.last_ack_recv) =
            (Some(900 * MS), Some(800 * MS), Some(800 * MS));
        assert_eq!(over(&[rests.clone(), rests, at_rest()]).stalls, []);
    }

    #[test]
    fn a_rest_below_a_segment_is_held_only_where_windows_have_room() {
        let mut held = in_flight(24 * MS);
        (held.info.notsent_bytes, held.send_queue) = (Some(300), 500);
        let waits = over(&[held.clone()]);
        assert_eq!((waits.small_held, waits.small_held_longest), (1, 24 * MS));
        for innocent in [
            |info: &mut TcpInfo| info.snd_cwnd = Some(1),
            |info: &mut TcpInfo| info.snd_wnd = Some(400),
            |info: &mut TcpInfo| info.ca_state = Some(4),
            |info: &mut TcpInfo| info.last_data_sent = Some(4 * MS),
            |info: &mut TcpInfo| info.notsent_bytes = Some(0),
        ] {
            let mut socket = held.clone();
            innocent(&mut socket.info);
            assert_eq!(over(&[socket]).small_held, 0);
        }
    }

    #[test]
    fn a_window_that_is_not_scaled_ends_at_16_bits() {
        let mut info = at_rest().info;
        assert_eq!((scaled(&info), super::super::offered(&info, 725_000)), (Some(true), 725_000));
        info.options = Some(3);
        assert_eq!((scaled(&info), super::super::offered(&info, 725_000)), (Some(false), 65_535));
        info.state = Some(2);
        assert_eq!(scaled(&info), None, "nothing is agreed on yet");
    }
}
