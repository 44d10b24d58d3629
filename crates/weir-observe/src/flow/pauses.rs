//! When did nothing move on a connection, though something was owed, and what ended that?
//!
//! A stall is what TAPO calls one (Zhou et al., "Demystifying and mitigating TCP stalls at the server side", CoNEXT 2015): longer
//! than min(2 smoothed round trips, retransmission timeout). The kernel's own clocks tell how long nothing has moved
//! (`tcpi_last_data_sent`, `tcpi_last_data_recv`, `tcpi_last_ack_recv`, in steps of its tick), so that a late look errs by little.

use std::time::Duration;

use weir_model::waits::{Ended, Stall, Waits};

use super::{Counters, Sending, asked_last};
use crate::sock_diag::TcpSocket;
use crate::tcp_info::TcpInfo;

/// Two looks of 20 ms: a shorter stall cannot be told from what a look missed.
const SHORTEST: Duration = Duration::from_millis(40);

/// What Nagle's algorithm holds back is held for this long at least: below it are pacing's and the driver's pauses of a few
/// milliseconds, and two steps of a kernel's clock of 4 ms. A delayed acknowledgement takes 40 ms.
const HELD: Duration = Duration::from_millis(8);

/// `TCPI_OPT_WSCALE`.
const SCALES: u8 = 4;

/// Looks for what a connection waits for.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    waits: Waits,
    last: Option<Look>,
}

/// One look, as far as the next is compared with it.
#[derive(Debug, Clone, Copy)]
struct Look {
    /// Since anything moved.
    quiet: Duration,
    stalled: bool,
    received: u64,
    acked: u64,
    /// Sent for the first time.
    fresh: u64,
    timeouts: u64,
    retransmissions: u64,
    cwnd: u32,
    /// The connection had rested for longer than its retransmission timeout.
    rested: bool,
}

impl Look {
    fn of(socket: &TcpSocket, sending: &Sending) -> Look {
        let info = &socket.info;
        let clocks = [info.last_data_sent, info.last_data_recv, info.last_ack_recv];
        let quiet = clocks.into_iter().flatten().min().unwrap_or_default();
        let owed = sending.outstanding > 0 || sending.unsent > 0;
        let owes = asked_last(info) && socket.receive_queue == 0;
        let sent = info.bytes_sent.or(info.bytes_acked).unwrap_or_default();
        Look {
            quiet,
            stalled: (owed || owes) && quiet >= threshold(info),
            received: info.bytes_received.unwrap_or_default(),
            acked: info.bytes_acked.unwrap_or_default(),
            fresh: sent.saturating_sub(info.bytes_retrans.unwrap_or_default()),
            // Before Linux 6.7 the timers in a row, which count from nothing again after each answer.
            timeouts: info.total_rto.map_or_else(|| info.retransmits.unwrap_or_default().into(), u64::from),
            retransmissions: info.total_retrans.unwrap_or_default().into(),
            cwnd: info.snd_cwnd.unwrap_or_default(),
            rested: !owed && info.rto.is_some_and(|rto| info.last_data_sent.is_some_and(|sent| sent > rto)),
        }
    }

    /// What has ended a stall that was seen before.
    fn ended_by(&self, before: &Look) -> Option<Ended> {
        let came = self.received > before.received;
        if self.timeouts > before.timeouts {
            Some(Ended::Timeout)
        } else if self.retransmissions > before.retransmissions {
            Some(Ended::Retransmission)
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
    pub(super) fn look(&mut self, socket: &TcpSocket) {
        let info = &socket.info;
        let sending = Sending::of(socket);
        let now = Look::of(socket, &sending);
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
        if let Some(before) = &self.last {
            if let Some(ended) = before.stalled.then(|| now.ended_by(before)).flatten() {
                waits.stalls.push(Stall { lasted: before.quiet, ended });
            }
            let smaller = u64::from(now.cwnd) * 5 < u64::from(before.cwnd) * 4;
            let lost = now.retransmissions > before.retransmissions;
            waits.restarts += u32::from(before.rested && smaller && !lost);
        }
        self.last = Some(now);
    }

    /// The window that ends here: `passed` in it, `ever` since the connection began.
    pub(super) fn window(&mut self, passed: &Counters, ever: &Counters, last: &TcpInfo) -> Waits {
        let mut waits = std::mem::take(&mut self.waits);
        waits.sent = passed.sent;
        waits.sent_segments = passed.segments_out.into();
        waits.came = passed.received;
        waits.came_segments = passed.segments_in.into();
        waits.retransmitted = passed.retransmitted;
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

/// Less than a segment lies unsent behind something in flight, with room for it in both windows, for some time.
fn held_small(socket: &TcpSocket, sending: &Sending) -> bool {
    let info = &socket.info;
    let small = sending.unsent > 0 && sending.unsent < sending.segment && sending.outstanding > 0;
    let cwnd = info.snd_cwnd.is_some_and(|cwnd| sending.packets.saturating_add(1) < cwnd);
    let window = info.snd_wnd.is_none_or(|window| sending.outstanding + sending.unsent <= u64::from(window));
    let orderly = matches!(info.ca_state, None | Some(0 | 1)) && info.retransmits.unwrap_or_default() == 0;
    small && cwnd && window && orderly && info.last_data_sent.is_some_and(|sent| sent >= HELD)
}
