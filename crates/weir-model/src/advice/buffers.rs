//! Advice on the kernel's own buffers: autotuning is left alone, but where its maximum ends below what the
//! path has in flight, one connection cannot fill it.

use std::time::Duration;

use weir_units::Rate;

use super::Advice;
use crate::evidence::{Evidence, Interval};
use crate::merge::merged;
use crate::rule::Context;
use crate::rule::spent::min_rtt;
use crate::survey::{Narrow, Setting, narrow};
use crate::words::bytes;

/// Intervals that a rate is taken over: a second, more than the longest swing of a queue.
const WINDOWS: usize = 10;

/// What lets a receive buffer grow to `size`, where autotuning now ends at `most`: a line only where that is
/// known to be less, since it would take from all other sockets otherwise.
pub(super) fn receive_setting(size: u64, most: Option<u64>) -> String {
    match most {
        Some(most) if most < size => receive_sysctl(size),
        _ => format!("raise the third number of net.ipv4.tcp_rmem to {size}"),
    }
}

/// Of a receive buffer that autotuning, which ends at `most`, would let grow further than is needed.
pub(super) fn held_by_another(most: u64) -> Advice {
    let most = bytes(most as f64);
    Advice::new(
        format!(
            "find what keeps the receive window small (a middlebox that removes window scaling, memory that is short): \
             net.ipv4.tcp_rmem does not, it ends at {most}"
        ),
        None,
    )
}

/// The line that lets a receive buffer grow so far.
fn receive_sysctl(size: u64) -> String {
    format!("sysctl -w net.ipv4.tcp_rmem=\"4096 131072 {size}\"")
}

/// The line that lets a send buffer grow so far.
fn send_sysctl(size: u64) -> String {
    format!("sysctl -w net.ipv4.tcp_wmem=\"4096 16384 {size}\"")
}

/// What to allow at which end of a copy; nothing for other transfers, whose far end tells none of its
/// settings.
pub(crate) fn advise(evidence: &Evidence) -> Vec<Advice> {
    let copy = evidence.intervals.iter().any(|interval| !interval.receiving.is_missing());
    let whole = merged(&evidence.intervals);
    let of_sender = whole.lanes.iter().filter_map(|lane| lane.sender.value()?.min_rtt).min();
    let of_receiver = || Duration::try_from_secs_f64(min_rtt(&whole, &Context::alone(evidence))?).ok();
    let rtt = of_sender.or_else(of_receiver).filter(|rtt| copy && !rtt.is_zero());
    let Some(rtt) = rtt else { return Vec::new() };
    let most = evidence.intervals.chunks(WINDOWS).map(on_the_wire).fold(0.0, f64::max);
    let facts = &evidence.facts;
    let narrow = narrow(Rate(most), rtt, facts.tcp_rmem_max, facts.tcp_wmem_max);
    narrow.iter().filter(|narrow| narrow.needed.0 > narrow.allowed.0).map(to_advice).collect()
}

/// Bytes per second that lanes carried, as their sender knows it.
fn on_the_wire(intervals: &[Interval]) -> f64 {
    let seconds: f64 = intervals.iter().map(|interval| interval.span.as_secs_f64()).sum();
    let lanes = intervals.iter().flat_map(|interval| &interval.lanes);
    // In floating point: whatever a far end tells must not overflow.
    let acked: f64 = lanes.filter_map(|lane| lane.sender.value()).map(|seen| seen.acked as f64).sum();
    if seconds > 0.0 { acked / seconds } else { 0.0 }
}

fn to_advice(narrow: &Narrow) -> Advice {
    let (end, line) = match narrow.setting {
        Setting::Receive => ("the receiver", receive_sysctl(narrow.needed.0)),
        Setting::Send => ("the sender", send_sysctl(narrow.needed.0)),
    };
    let Narrow { product, allowed, now, then, .. } = narrow;
    Advice::new(
        format!(
            "at {end} allow larger buffers: {line} (it ends at {allowed}, and the full path has {product} in flight); one \
             connection would carry {then} of the wire instead of {now}"
        ),
        None,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{LaneInterval, Reading};
    use crate::sender::SenderInterval;
    use crate::stages::Stages;

    fn copy(rmem: u64) -> Evidence {
        let lane = |lane| LaneInterval {
            lane,
            sender: Reading::Value(SenderInterval {
                acked: 5_000_000,
                min_rtt: Some(Duration::from_millis(100)),
                ..SenderInterval::default()
            }),
            ..LaneInterval::default()
        };
        let interval = Interval {
            span: Duration::from_millis(100),
            received: 10_000_000,
            lanes: vec![lane(1), lane(2)],
            receiving: Reading::Value(Stages::default()),
            ..Interval::default()
        };
        let mut evidence = Evidence { intervals: vec![interval; 20], ..Evidence::default() };
        evidence.facts.tcp_rmem_max = Some(rmem);
        evidence.facts.tcp_wmem_max = Some(64 << 20);
        evidence
    }

    #[test]
    fn a_maximum_below_the_product_is_told_with_its_end_and_its_gain() {
        let advice = advise(&copy(6 << 20));
        assert_eq!(advice.len(), 1, "{advice:?}");
        // 100 MB/s over 100 ms are 10 MB, so a buffer of 20 MB or more.
        for said in ["at the receiver", "net.ipv4.tcp_rmem=\"4096 131072 33554432\"", "100 MB/s", "31.5 MB/s"]
        {
            assert!(advice[0].action.contains(said), "no {said} in {}", advice[0].action);
        }
        assert_eq!(advise(&copy(64 << 20)), []);
    }

    #[test]
    fn other_transfers_get_none() {
        let mut download = copy(6 << 20);
        download.intervals.iter_mut().for_each(|interval| interval.receiving = Reading::default());
        assert_eq!(advise(&download), []);
    }
}
