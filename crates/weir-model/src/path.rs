//! What a path's round trip and loss allow, by arithmetic alone.
//!
//! Leaves to the rules which of these ceilings was in fact reached.

use std::time::Duration;

use weir_units::{Bytes, Rate};

/// Payload of an Ethernet-sized segment with TCP timestamps: 1500 - 20 - 20 - 12.
pub const SEGMENT: u64 = 1448;

/// What a sender has in flight in the first round trip: ten segments (RFC 6928; Linux TCP_INIT_CWND).
pub const INITIAL_WINDOW: u64 = 10 * SEGMENT;

/// What the kernel takes as the maximum of a socket's buffer (an `int`, net/ipv4/sysctl_net_ipv4.c).
pub const MOST_BUFFER: u64 = i32::MAX as u64;

/// What one connection can have in flight at most: a window ends at 2^30 bytes (RFC 7323, section 2.3), and
/// about half of a buffer is the kernel's own overhead (tcp(7): tcp_adv_win_scale).
pub const MOST_WINDOW: u64 = if MOST_BUFFER / 2 < 1 << 30 { MOST_BUFFER / 2 } else { 1 << 30 };

/// The buffer that lets a connection have `window` bytes in flight, as far as the kernel takes one: about
/// half of it is overhead (tcp(7): tcp_adv_win_scale). A power of two, since a setting is written to be read.
pub(crate) fn buffer_for(window: u64) -> u64 {
    window.saturating_mul(2).checked_next_power_of_two().unwrap_or(u64::MAX).min(MOST_BUFFER)
}

/// Bytes in flight that keep a path of this rate and round trip busy: the buffer a connection needs.
pub fn bdp(rate: Rate, rtt: Duration) -> Bytes {
    Bytes((rate.0 * rtt.as_secs_f64()).max(0.0) as u64)
}

/// The rate of a connection that may have `window` bytes in flight; `None` without a round trip.
pub(crate) fn window_rate(window: Bytes, rtt: Duration) -> Option<Rate> {
    (!rtt.is_zero()).then(|| Rate(window.0 as f64 / rtt.as_secs_f64()))
}

/// Round trips until a window that starts at [`INITIAL_WINDOW`] and doubles each time reaches `window`.
pub(crate) fn slow_start_rounds(window: Bytes) -> u32 {
    let doublings = (window.0 as f64 / INITIAL_WINDOW as f64).log2().ceil();
    if doublings > 0.0 { doublings as u32 } else { 0 }
}

/// Bytes that slow start has carried once a path is full: 1 + 2 + 4 ... initial windows.
pub(crate) fn slow_start_bytes(rate: Rate, rtt: Duration) -> Bytes {
    let rounds = slow_start_rounds(bdp(rate, rtt)).min(40); // 2^40 initial windows are 16 PB: enough
    Bytes(((1u64 << rounds) - 1).saturating_mul(INITIAL_WINDOW))
}

/// The rate at which loss alone holds a loss-driven sender: the larger of Reno and CUBIC, as CUBIC itself
/// takes it (RFC 9438, 4.3 and 5.1; Mathis et al. 1997). `None` without a round trip or without loss. BBR
/// goes far beyond it.
pub fn loss_bound(segment: u64, rtt: Duration, loss: f64) -> Option<Rate> {
    let rtt = rtt.as_secs_f64();
    let known = rtt > 0.0 && loss > 0.0 && loss <= 1.0;
    known.then(|| {
        let reno = 1.22 / loss.sqrt();
        let cubic = 1.054 * (rtt / loss).powf(0.75); // C = 0.4, beta = 0.7
        Rate(reno.max(cubic) * segment as f64 / rtt)
    })
}

/// Whether a queue stands on the path of several connections: the round trips of most are a third above their
/// shortest. Each is told by its round trip now and the shortest that it had.
pub fn queue_stands(round_trips: impl Iterator<Item = (Duration, Duration)>) -> bool {
    let ratios: Vec<f64> =
        round_trips.map(|(now, least)| now.as_secs_f64() / least.as_secs_f64().max(1e-6)).collect();
    ratios.iter().filter(|ratio| **ratio > 1.33).count() * 2 > ratios.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_stands_where_most_round_trips_have_grown() {
        let stands = |now: &[u64]| {
            queue_stands(now.iter().map(|now| (Duration::from_millis(*now), Duration::from_millis(30))))
        };
        assert!(stands(&[41]) && stands(&[41, 60, 30]));
        assert!(!stands(&[]) && !stands(&[39]) && !stands(&[41, 30]));
    }

    const RTT: Duration = Duration::from_millis(20);

    #[test]
    fn the_product_of_100_mbit_and_20_ms_is_250_kb() {
        assert_eq!(bdp(Rate(12.5e6), RTT), Bytes(250_000));
        assert_eq!(window_rate(Bytes(16 << 10), RTT), Some(Rate(819_200.0)));
        assert_eq!(window_rate(Bytes(1), Duration::ZERO), None);
    }

    #[test]
    fn slow_start_doubles() {
        assert_eq!(slow_start_rounds(Bytes(INITIAL_WINDOW)), 0);
        assert_eq!(slow_start_rounds(Bytes(INITIAL_WINDOW * 8)), 3);
        assert_eq!(slow_start_rounds(Bytes(0)), 0);
        assert_eq!(slow_start_bytes(Rate((INITIAL_WINDOW * 8 * 50) as f64), RTT), Bytes(INITIAL_WINDOW * 7));
    }

    #[test]
    fn one_percent_loss_at_40_ms_allows_about_3_5_mbit() {
        let rate = loss_bound(SEGMENT, Duration::from_millis(40), 0.01).unwrap();
        assert!((3.4e6..3.7e6).contains(&rate.bits()), "{rate}");
        assert_eq!(loss_bound(SEGMENT, RTT, 0.0), None);
    }
}
