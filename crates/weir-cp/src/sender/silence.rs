//! Lanes that swallow what is sent: TCP sees nothing wrong where something between the ends has taken the
//! bytes and does not hand them on. The receiver tells how far a lane has come while it waits for more; here
//! that is compared with what was sent.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::wire::to_sender::Wait;

/// Retransmission timeouts after which four retransmissions in a row must have been lost: they come 1, 3, 7
/// and 15 timeouts after the loss, since each doubles the next (RFC 6298, 5.5). Of paths that lose one in ten
/// that is one silence in 100,000.
const TIMEOUTS: u32 = 15;

/// No path is waited for longer, whatever its timeout has grown to: then TCP may give up too (RFC 1122,
/// 4.2.3.5: R2 of 100 s).
const MOST: Duration = Duration::from_secs(100);

/// A timeout that is not known: the one to begin with (RFC 6298, 2.1).
const UNKNOWN: Duration = Duration::from_secs(1);

/// What was sent on each lane, and where it has stood still.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    lanes: Mutex<HashMap<u32, Lane>>,
}

#[derive(Debug, Default)]
struct Lane {
    /// Bytes of records, those being sent included.
    sent: u64,
    /// Bytes that had come when the receiver first said that it waits for more, and when that was.
    still: Option<(u64, Instant)>,
}

impl Silence {
    /// A record of this many bytes is about to be sent.
    pub(crate) fn sending(&self, lane: u32, bytes: usize) {
        self.lock().entry(lane).or_default().sent += bytes as u64;
    }

    /// The receiver waits. `rto` is this end's retransmission timeout. How long nothing has come of what was
    /// sent, where that is longer than a path that works can take.
    pub(crate) fn waits(&self, wait: &Wait, rto: Option<Duration>, now: Instant) -> Option<Duration> {
        let mut lanes = self.lock();
        let lane = lanes.get_mut(&wait.lane)?;
        if wait.bytes >= lane.sent {
            lane.still = None;
            return None;
        }
        let since = match lane.still {
            Some((bytes, since)) if bytes == wait.bytes => since,
            _ => {
                lane.still = Some((wait.bytes, now));
                now
            }
        };
        // Something between the ends has a timeout of its own on either side.
        let theirs = Duration::from_millis(wait.rto.into());
        let timeout = (rto.unwrap_or(UNKNOWN) + theirs).saturating_mul(TIMEOUTS).min(MOST);
        let still = now - since;
        (still >= timeout).then_some(still)
    }

    /// The lane is over.
    pub(crate) fn forget(&self, lane: u32) {
        self.lock().remove(&lane);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Lane>> {
        self.lanes.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTO: Option<Duration> = Some(Duration::from_millis(200));

    fn wait(bytes: u64) -> Wait {
        Wait { lane: 1, bytes, rto: 200 }
    }

    #[test]
    fn a_lane_is_given_up_after_fifteen_timeouts_of_both_ends() {
        let (silence, start) = (Silence::default(), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        silence.sending(1, 1000);
        assert_eq!(silence.waits(&wait(300), RTO, at(0)), None);
        assert_eq!(silence.waits(&wait(300), RTO, at(5999)), None);
        assert_eq!(silence.waits(&wait(300), RTO, at(6000)), Some(Duration::from_secs(6)));
        // A byte more, and it begins anew.
        assert_eq!(silence.waits(&wait(301), RTO, at(6001)), None);
        assert_eq!(silence.waits(&wait(301), RTO, at(12_000)), None);
        assert_eq!(silence.waits(&wait(301), None, at(12_001)), None, "18 s without a timeout of one's own");
    }

    #[test]
    fn a_lane_on_which_nothing_is_due_rests() {
        let (silence, start) = (Silence::default(), Instant::now());
        silence.sending(1, 1000);
        for hours in 0..3 {
            let now = start + Duration::from_secs(hours * 3600);
            assert_eq!(silence.waits(&wait(1000), RTO, now), None);
        }
        // What is sent after a rest has its own time.
        silence.sending(1, 1);
        let now = start + Duration::from_secs(4 * 3600);
        assert_eq!(silence.waits(&wait(1000), RTO, now), None);
        let long = Wait { rto: u32::MAX, ..wait(1000) };
        assert_eq!(silence.waits(&long, RTO, now + MOST), Some(MOST), "however long its timeout");
        silence.forget(1);
        assert_eq!(silence.waits(&long, RTO, now + 2 * MOST), None);
    }
}
