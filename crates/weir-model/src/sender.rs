//! What the sending end of a connection knows about it, over one interval.
//!
//! The sender sees what no receiver can: its congestion window, its unsent bytes, its retransmissions, and
//! the kernel's chronographs (tcp_get_info_chrono_stats in net/ipv4/tcp.c). Counters are differences over the
//! interval; gauges are means over its looks (20 to 50 ms apart); "looks at which" counts are out of
//! [`SenderInterval::looks`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::reading::seconds;

/// The sender's view of one TCP connection.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SenderInterval {
    /// Bytes that the peer's kernel acknowledged (`tcpi_bytes_acked`).
    pub acked: u64,
    /// With data queued or in flight: `tcpi_busy_time`, which contains the two that follow. In steps of a
    /// clock tick.
    #[serde(with = "seconds")]
    pub busy: Duration,
    /// Held back by the peer's window (`tcpi_rwnd_limited`). Pacing hides it: BBR showed 18 to 42 % where
    /// CUBIC showed 100 %.
    #[serde(with = "seconds")]
    pub receive_window_limited: Duration,
    /// Held back by this end's buffer (`tcpi_sndbuf_limited`); under-counts.
    #[serde(with = "seconds")]
    pub send_buffer_limited: Duration,
    /// In retransmission timeouts (`tcpi_total_rto_time`).
    #[serde(with = "seconds")]
    pub timeout: Duration,
    /// How often the socket was looked at.
    pub looks: u32,
    /// Looks at which the latest rate sample was application-limited (`tcpi_delivery_rate_app_limited`).
    pub app_limited: u32,
    /// Looks at which no byte waited to be sent for the first time (`tcpi_notsent_bytes` below a segment).
    pub nothing_unsent: u32,
    /// Looks at which nothing was in flight either: the connection rested.
    pub nothing_in_flight: u32,
    /// Looks at which in flight was 90 % of the peer's window or more.
    pub window_filled: u32,
    /// Looks at which the congestion window had no room for two more segments.
    pub cwnd_filled: u32,
    /// Looks at which the send queue (sk_wmem_queued) had reached the send buffer, within a segment's true
    /// size.
    pub buffer_filled: u32,
    /// Looks in fast recovery, after a congestion mark, or after a timeout (`tcpi_ca_state` of 2, 3, 4).
    pub recovering: u32,
    /// Looks at which the connection rested and the last data had come from the peer (`tcpi_last_data_recv`
    /// below `tcpi_last_data_sent`): the application owes an answer.
    pub owing: u32,
    /// Looks at which the connection rested and the last data had gone to the peer: it is the peer's turn to
    /// ask.
    pub awaiting: u32,
    /// Data segments that the peer sent (`tcpi_data_segs_in`): its requests, one segment or more each.
    pub asked: u64,
    /// Bytes in flight: (unacked - sacked - lost + retrans) x segment.
    pub in_flight: u64,
    /// Bytes written by the application and not sent yet (`tcpi_notsent_bytes`).
    pub unsent: u64,
    /// The queue of the socket as the kernel accounts for it (sk_wmem_queued), overhead included; `None`
    /// where the kernel did not say.
    pub queued: Option<u64>,
    /// The send buffer (sk_sndbuf), counted likewise.
    pub send_buffer: Option<u64>,
    /// The peer's window (`tcpi_snd_wnd`; kernel 5.4): smallest, mean, largest of the looks.
    pub peer_window: Option<(u64, u64, u64)>,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Slow-start threshold in bytes; `None` before the first loss.
    pub ssthresh: Option<u64>,
    /// Segment payload, bytes.
    pub segment: u64,
    /// Smoothed round trip, mean of the looks.
    #[serde(with = "seconds::optional")]
    pub rtt: Option<Duration>,
    /// Smallest round trip of late (`tcpi_min_rtt`).
    #[serde(with = "seconds::optional")]
    pub min_rtt: Option<Duration>,
    /// Rate of the acknowledgements, bytes per second, mean of the looks that were not application-limited;
    /// else of all.
    pub delivery_rate: Option<f64>,
    /// Rate to which sending is paced, mean of the looks.
    pub pacing_rate: Option<f64>,
    /// A pacing rate that someone set (`tcpi_max_pacing_rate`, SO_MAX_PACING_RATE), bytes per second; `None`
    /// for no limit.
    pub max_pacing_rate: Option<f64>,
    /// Payload bytes sent, retransmissions included.
    pub sent: u64,
    /// Payload bytes retransmitted.
    pub retransmitted: u64,
    /// Retransmissions that the peer reported as not needed (`tcpi_dsack_dups`), segments.
    pub duplicates: u64,
    /// Times the path was seen to reorder (`tcpi_reord_seen`).
    pub reordered: u64,
    /// Congestion marks (`tcpi_delivered_ce`), segments.
    pub marked: u64,
    /// The congestion control in use: `cubic`, `bbr`.
    pub congestion_control: Option<String>,
}

/// BBR of any version: it goes by a model of the path rather than by loss.
pub fn is_bbr(name: &str) -> bool {
    name.starts_with("bbr")
}

impl SenderInterval {
    /// Bytes retransmitted that the peer reported as not needed: a segment each at most, since a probe may be
    /// smaller.
    pub(crate) fn needless(&self) -> u64 {
        self.duplicates.saturating_mul(self.segment).min(self.retransmitted)
    }

    /// Bytes retransmitted without such a report, which comes a round trip later and so may be the next
    /// interval's.
    pub(crate) fn lost(&self) -> u64 {
        self.retransmitted.saturating_sub(self.needless())
    }

    /// Takes the interval that follows into this one: counters add up, gauges are weighted by their looks.
    pub fn join(&mut self, next: &SenderInterval) {
        let earlier = std::mem::take(self);
        let looks = (earlier.looks, next.looks);
        let count = u32::saturating_add;
        let bytes = u64::saturating_add;
        *self = SenderInterval {
            acked: bytes(earlier.acked, next.acked),
            busy: earlier.busy.saturating_add(next.busy),
            receive_window_limited: earlier
                .receive_window_limited
                .saturating_add(next.receive_window_limited),
            send_buffer_limited: earlier.send_buffer_limited.saturating_add(next.send_buffer_limited),
            timeout: earlier.timeout.saturating_add(next.timeout),
            looks: count(earlier.looks, next.looks),
            app_limited: count(earlier.app_limited, next.app_limited),
            nothing_unsent: count(earlier.nothing_unsent, next.nothing_unsent),
            nothing_in_flight: count(earlier.nothing_in_flight, next.nothing_in_flight),
            window_filled: count(earlier.window_filled, next.window_filled),
            cwnd_filled: count(earlier.cwnd_filled, next.cwnd_filled),
            buffer_filled: count(earlier.buffer_filled, next.buffer_filled),
            recovering: count(earlier.recovering, next.recovering),
            owing: count(earlier.owing, next.owing),
            awaiting: count(earlier.awaiting, next.awaiting),
            asked: bytes(earlier.asked, next.asked),
            in_flight: level(earlier.in_flight, next.in_flight, looks),
            unsent: level(earlier.unsent, next.unsent, looks),
            queued: either(earlier.queued, next.queued, |a, b| level(a, b, looks)),
            send_buffer: next.send_buffer.or(earlier.send_buffer),
            peer_window: either(earlier.peer_window, next.peer_window, |a, b| {
                (a.0.min(b.0), level(a.1, b.1, looks), a.2.max(b.2))
            }),
            cwnd: level(earlier.cwnd, next.cwnd, looks),
            ssthresh: next.ssthresh.or(earlier.ssthresh),
            segment: next.segment.max(earlier.segment),
            rtt: either(earlier.rtt, next.rtt, |a, b| {
                let mean = mean(a.as_secs_f64(), b.as_secs_f64(), looks);
                Duration::try_from_secs_f64(mean).unwrap_or(b)
            }),
            min_rtt: earlier.min_rtt.into_iter().chain(next.min_rtt).min(),
            delivery_rate: either(earlier.delivery_rate, next.delivery_rate, |a, b| mean(a, b, looks)),
            pacing_rate: either(earlier.pacing_rate, next.pacing_rate, |a, b| mean(a, b, looks)),
            max_pacing_rate: next.max_pacing_rate.or(earlier.max_pacing_rate),
            sent: bytes(earlier.sent, next.sent),
            retransmitted: bytes(earlier.retransmitted, next.retransmitted),
            duplicates: bytes(earlier.duplicates, next.duplicates),
            reordered: bytes(earlier.reordered, next.reordered),
            marked: bytes(earlier.marked, next.marked),
            congestion_control: next.congestion_control.clone().or(earlier.congestion_control),
        };
    }
}

/// Two gauges as one, each as heavy as its looks; 128 bits since bytes times looks may pass 64.
fn level(a: u64, b: u64, looks: (u32, u32)) -> u64 {
    let (before, after) = (u128::from(looks.0), u128::from(looks.1));
    if before + after == 0 {
        return b;
    }
    ((u128::from(a) * before + u128::from(b) * after) / (before + after)) as u64
}

fn mean(a: f64, b: f64, looks: (u32, u32)) -> f64 {
    let (before, after) = (f64::from(looks.0), f64::from(looks.1));
    if before + after > 0.0 { (a * before + b * after) / (before + after) } else { b }
}

/// Both joined, or the one that is there.
fn either<T>(a: Option<T>, b: Option<T>, both: impl FnOnce(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(both(a, b)),
        (a, b) => a.or(b),
    }
}
