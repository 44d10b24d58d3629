//! How long a number of bytes takes: opening, slow start, then the law's rate, and the disk once memory is
//! full.

use std::time::Duration;

use weir_units::{Bytes, Rate};

use super::{Figure, Path, Prediction, predict};
use crate::limit::Limit;
use crate::path::{INITIAL_WINDOW, bdp, slow_start_bytes, slow_start_rounds};

/// Longer than this is never: 30 000 years.
const NEVER: f64 = 1e12;

/// A whole transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Whole {
    /// From the first packet to the last byte in the target's memory or on its disk, whichever the path asks
    /// for.
    pub time: Duration,
    /// Of that, before the first byte of payload leaves: handshakes.
    pub opening: Duration,
    /// Payload over that time.
    pub rate: Rate,
    /// What held it for most of the time: `latency` where round trips did.
    pub limit: Limit,
}

impl Path {
    /// `bytes` of this data over this path.
    pub fn whole(&self, figure: &Figure, bytes: Bytes) -> Whole {
        let without_disk = Path { disk: None, ..self.clone() };
        let free = predict(figure, &without_disk);
        let paced = predict(figure, self);
        let (at_memory, at_disk) = self.split(bytes, &free, &paced);

        let opening = self.rtt.map_or(0.0, |rtt| rtt.as_secs_f64() * f64::from(self.transport.round_trips));
        let (ramp, ramped) = self.ramp(&free, bytes.0 as f64 * figure.ratio);
        let ramped = ramped / figure.ratio;
        let first = opening + ramp + (at_memory - ramped).max(0.0) / free.rate.0;
        let second = (at_disk - (ramped - at_memory).max(0.0)).max(0.0) / paced.rate.0;
        let seconds = (first + second).min(NEVER);

        let limit = if opening + ramp > seconds / 2.0 {
            Limit::Latency
        } else if second > seconds / 2.0 {
            paced.limit
        } else {
            free.limit
        };
        let time = Duration::from_secs_f64(seconds);
        let opening = Duration::from_secs_f64(opening.min(seconds));
        Whole {
            time,
            opening,
            rate: Rate(if seconds > 0.0 { bytes.0 as f64 / seconds } else { free.rate.0 }),
            limit,
        }
    }

    /// Payload that memory takes at the path's rate, and what is left for the disk's. While the disk drains,
    /// memory takes more than its own size: it fills at the difference of the two rates.
    fn split(&self, bytes: Bytes, free: &Prediction, paced: &Prediction) -> (f64, f64) {
        let bytes = bytes.0 as f64;
        if paced.rate.0 >= free.rate.0 {
            return (bytes, 0.0);
        }
        let memory = self.memory.0 as f64 * free.rate.0 / (free.rate.0 - paced.rate.0);
        (memory.min(bytes), (bytes - memory).max(0.0))
    }

    /// Seconds of slow start and the wire bytes that go meanwhile: all of them where they end before the path
    /// is full.
    fn ramp(&self, steady: &Prediction, wire: f64) -> (f64, f64) {
        let Some(rtt) = self.rtt else { return (0.0, 0.0) };
        let connections = f64::from(self.transport.connections);
        let one = Rate(steady.wire.0 / connections);
        let carried = slow_start_bytes(one, rtt).0 as f64 * connections;
        if wire > carried {
            return (rtt.as_secs_f64() * f64::from(slow_start_rounds(bdp(one, rtt))), carried);
        }
        // After n round trips, 2^n - 1 initial windows are there.
        let rounds = (wire / connections / INITIAL_WINDOW as f64 + 1.0).log2().ceil();
        (rtt.as_secs_f64() * rounds, wire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: fn() -> Figure = Figure::none;

    fn path(mbit: f64, rtt: u64) -> Path {
        Path { rtt: Some(Duration::from_millis(rtt)), ..Path::of(Rate(mbit * 125e3)) }
    }

    #[track_caller]
    fn near(seen: Duration, seconds: f64, within: f64) {
        let off = seen.as_secs_f64() / seconds - 1.0;
        assert!(off.abs() <= within, "{seen:?} instead of {seconds} s");
    }

    #[test]
    fn buffers_of_the_published_query() {
        let small = Path { send_buffer: Some(Bytes(16 << 10)), ..path(100.0, 20) };
        let whole = small.whole(&NONE(), Bytes(22_000_000));
        near(whole.time, 26.9, 0.02);
        assert_eq!(whole.limit, Limit::SendBuffer);
        let raised = Path { send_buffer: Some(Bytes(1 << 20)), ..path(100.0, 20) };
        let whole = raised.whole(&NONE(), Bytes(22_000_000));
        near(whole.time, 1.9, 0.06);
        assert_eq!(whole.limit, Limit::PathBandwidth);
    }

    #[test]
    fn a_window_of_three_segments_holds_small_answers_too() {
        let tiny = Path { window: Some(Bytes(3456)), ..path(1000.0, 40) };
        near(tiny.whole(&NONE(), Bytes(376_000)).time, 4.4, 0.05);
        assert_eq!(predict(&NONE(), &tiny).limit, Limit::ReceiveWindow);
        assert!((predict(&NONE(), &tiny).rate.0 - 86_400.0).abs() < 1.0);
    }

    #[test]
    fn memory_hides_the_disk_until_it_is_full() {
        let disk = Path { disk: Some(Rate(100e6)), memory: Bytes(600_000_000), ..Path::of(Rate(300e6)) };
        // Fills at 200 MB/s for 3 s, in which 900 MB came; the rest at the disk's rate.
        near(disk.whole(&NONE(), Bytes(900_000_000)).time, 3.0, 1e-6);
        near(disk.whole(&NONE(), Bytes(1_900_000_000)).time, 13.0, 1e-6);
        assert_eq!(disk.whole(&NONE(), Bytes(1_900_000_000)).limit, Limit::Disk);
        assert_eq!(disk.whole(&NONE(), Bytes(800_000_000)).limit, Limit::PathBandwidth);
    }

    #[test]
    fn a_small_file_far_away_is_held_by_round_trips() {
        let whole = path(1000.0, 100).whole(&NONE(), Bytes(10_000));
        assert_eq!(whole.limit, Limit::Latency);
        near(whole.time, 0.2, 0.01);
        assert_eq!(path(1000.0, 100).whole(&NONE(), Bytes(0)).rate, Rate(0.0));
    }
}
