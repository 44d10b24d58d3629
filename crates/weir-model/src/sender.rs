//! What the sending end of a connection knows about it, over one window.
//!
//! The sender sees what no receiver can: its congestion window, its unsent bytes, its retransmissions, and the kernel's
//! chronographs (tcp_get_info_chrono_stats in net/ipv4/tcp.c). Counters are differences over the window; gauges are
//! means over its looks (20 to 50 ms apart); "looks at which" counts are out of [`SenderWindow::looks`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::evidence::seconds;

/// The sender's view of one TCP connection.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SenderWindow {
    /// Bytes that the peer's kernel acknowledged (`tcpi_bytes_acked`).
    pub acked: u64,
    /// With data queued or in flight: `tcpi_busy_time`, which contains the two that follow. In steps of a clock tick.
    #[serde(with = "seconds")]
    pub busy: Duration,
    /// Held back by the peer's window (`tcpi_rwnd_limited`). Pacing hides it: BBR showed 18 to 42 % where CUBIC showed 100 %.
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
    /// Looks at which the send queue (sk_wmem_queued) had reached the send buffer, within a segment's true size.
    pub buffer_filled: u32,
    /// Looks in fast recovery, after a congestion mark, or after a timeout (`tcpi_ca_state` of 2, 3, 4).
    pub recovering: u32,
    /// Bytes in flight: (unacked - sacked - lost + retrans) x segment.
    pub in_flight: u64,
    /// Bytes written by the application and not sent yet (`tcpi_notsent_bytes`).
    pub unsent: u64,
    /// The queue of the socket as the kernel accounts for it (sk_wmem_queued), overhead included; `None` where the
    /// kernel did not say.
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
    /// Rate of the acknowledgements, bytes per second, mean of the looks that were not application-limited; else of all.
    pub delivery_rate: Option<f64>,
    /// Rate to which sending is paced, mean of the looks.
    pub pacing_rate: Option<f64>,
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
