//! Do segments of full size never pass: a link with a smaller MTU, and nothing that tells the sender?
//!
//! Convicts when all of these hold over five seconds each way:
//! 1. segments of full size (90 % of the segment's payload) were retransmitted, two at least;
//! 2. the retransmission timer fired twice or has doubled twice;
//! 3. no full segment was ever acknowledged: what this connection delivered is less than half of a segment on
//!    average, or less than one in all, and something smaller did pass (the handshake and what the peer
//!    asked). Or the kernel found a smaller size by probing (net.ipv4.tcp_mtu_probing), and what it then sent
//!    passed.
//!
//! Acquits: no timers, small retransmissions, or full segments that passed before.
//!
//! Can be wrong: a path that broke altogether right after its first small segments.

use super::flow::{Flow, by_flow};
use crate::evidence::Interval;
use crate::rule::waits;
use crate::rule::{Context, Judgement};
use crate::waits::Waits;
use crate::words::bytes;
use weir_units::counted;

/// Seconds looked at on each side: three timers from 0.2 s on, doubling.
const AROUND: f64 = 5.0;

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    by_flow(interval, context, |flow| match holds(flow) {
        Ok(text) => Judgement::convict(0.95, text),
        Err(why) => Judgement::acquit(why),
    })
}

/// The numbers of a black hole for full segments; or why there is none.
pub(crate) fn holds(flow: &Flow<'_>) -> Result<String, String> {
    let around = waits::around(flow.lane, flow.interval, flow.context, AROUND);
    black_hole(&around.ok_or("what was retransmitted is not known")?.0)
}

fn black_hole(waits: &Waits) -> Result<String, String> {
    let again = waits.retransmitted_segments;
    let size = waits.retransmitted / again.max(1);
    let (least, most) = waits.segment;
    let numbers = format!("{} of {} retransmitted", counted(again, "segment"), bytes(size as f64));
    let timers = waits.timeouts >= 2 || waits.backoff >= 2;
    if again < 2 || !timers || most == 0 {
        return Err(numbers);
    }
    let shrank = (least as f64) < 0.95 * most as f64;
    let full = size as f64 >= 0.9 * if shrank { least } else { most } as f64;
    let passed = waits.acked_ever / waits.delivered_ever.max(1);
    let none_passed = waits.acked_ever < most || passed < most / 2;
    let timers = counted(waits.timeouts.max(u64::from(waits.backoff)), "retransmission timer");
    if full && shrank {
        Ok(format!(
            "{numbers} after {timers} until the kernel tried segments of {} in place of {}",
            bytes(least as f64),
            bytes(most as f64)
        ))
    } else if full && none_passed {
        Ok(format!(
            "{numbers} after {timers} and none acknowledged, though smaller ones pass: {} in {}",
            bytes(waits.acked_ever as f64),
            counted(waits.delivered_ever, "segment")
        ))
    } else {
        Err(format!("{numbers}, but segments of {} passed", bytes(passed as f64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hole() -> Waits {
        Waits {
            looks: 50,
            retransmitted: 3 * 1448,
            retransmitted_segments: 3,
            timeouts: 3,
            backoff: 3,
            segment: (1448, 1448),
            acked_ever: 300,
            delivered_ever: 2,
            ..Waits::default()
        }
    }

    #[test]
    fn full_segments_that_never_pass_are_a_black_hole() {
        assert!(black_hole(&hole()).is_ok());
    }

    #[test]
    fn a_path_that_carried_full_segments_before_is_none() {
        assert!(black_hole(&Waits { acked_ever: 1_448_000, delivered_ever: 1000, ..hole() }).is_err());
        assert!(black_hole(&Waits { retransmitted: 3 * 100, ..hole() }).is_err(), "small ones were lost");
        assert!(black_hole(&Waits { timeouts: 1, backoff: 1, ..hole() }).is_err(), "one timer is a loss");
    }

    #[test]
    fn what_the_kernel_found_by_probing_says_the_same() {
        let found = Waits { segment: (1012, 1448), acked_ever: 5_000_000, delivered_ever: 5000, ..hole() };
        assert!(black_hole(&found).is_ok());
    }
}
