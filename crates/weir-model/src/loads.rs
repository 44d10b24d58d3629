//! How near each stage of a run was to its ceiling, and where that ceiling lies.
//!
//! A load is the share of a stage's capacity that the run used, 0 to 1: of a stage that works or rests, the
//! share of the time in which it worked (or in which the others waited for it); of a buffer, how full it was
//! kept. By the utilisation law a stage that is busy for a share `u` of the time at a rate `x` carries `x /
//! u` when it is busy all the time, so that is its ceiling, where `u` is large enough to be divided by. The
//! verdict says which stage held the run; this says how much room the others had.
//!
//! ```
//! use std::time::Duration;
//! use weir_model::evidence::{Evidence, LaneInterval, Interval};
//! use weir_model::limit::Limit;
//! use weir_model::loads::loads;
//!
//! let second = Duration::from_secs(1);
//! let writing = LaneInterval { write: Duration::from_millis(500), ..LaneInterval::default() };
//! let (received, written) = (10_000_000, 10_000_000);
//! let interval = Interval { span: second, received, written, lanes: vec![writing], ..Interval::default() };
//! let loads = loads(&Evidence { intervals: vec![interval], ..Evidence::default() });
//! let store = loads.iter().find(|load| load.limit == Limit::DirtyThrottle).expect("it wrote");
//! assert_eq!((store.load, store.ceiling), (0.5, Some(20e6)));
//! ```

use std::time::Duration;

use crate::evidence::{Evidence, Facts, Interval, LaneInterval};
use crate::limit::Limit;
use crate::merge::merged;
use crate::rule::spent::spent;
use crate::stages::Stages;
use crate::words::percent;

/// One stage over the whole run. It is named by the limit that it would be.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// The stage.
    pub limit: Limit,
    /// Share of its capacity in use, 0 to 1.
    pub load: f64,
    /// Payload that it would carry alone, bytes per second; `None` where it was too idle to tell, or has
    /// none.
    pub ceiling: Option<f64>,
    /// What the load is the share of, in words.
    pub basis: String,
}

/// Below this share of the time a ceiling would be the clock's error multiplied.
const TELLING: f64 = 0.05;

/// A device's own ceiling: with other writers, and merging of requests, only a busy one shows it.
const BUSY: f64 = 0.5;

/// Every stage that was measured, in the order in which bytes pass them.
pub fn loads(evidence: &Evidence) -> Vec<Load> {
    let whole = merged(&evidence.intervals);
    if whole.span.is_zero() {
        return Vec::new();
    }
    let mut list = List { rate: whole.received as f64 / whole.span.as_secs_f64(), loads: Vec::new() };
    if let Some(stages) = whole.sending.value() {
        list.sending(stages, whole.span);
    }
    list.senders(&whole);
    list.receivers(&whole, &evidence.facts);
    if let Some(stages) = whole.receiving.value() {
        list.receiving(stages, whole.span);
    }
    list.stores(&whole, &evidence.facts);
    list.loads
}

/// The list as it grows; of a stage that several readings tell of the fullest counts.
struct List {
    rate: f64,
    loads: Vec<Load>,
}

impl List {
    fn add(&mut self, limit: Limit, load: f64, ceiling: Option<f64>, basis: String) {
        let load = if load.is_finite() { load.clamp(0.0, 1.0) } else { return };
        let ceiling = ceiling.filter(|rate| rate.is_finite() && *rate > 0.0);
        match self.loads.iter_mut().find(|other| other.limit == limit) {
            Some(other) if other.load >= load => {}
            Some(other) => *other = Load { limit, load, ceiling, basis },
            None => self.loads.push(Load { limit, load, ceiling, basis }),
        }
    }

    /// A stage whose load is a share of time.
    fn timed(&mut self, limit: Limit, share: f64, basis: &str) {
        let ceiling = (share >= TELLING).then(|| self.rate / share.min(1.0));
        self.add(limit, share, ceiling, format!("{basis} {} of the time", percent(share)));
    }

    /// A buffer: its content turns over once a round trip, so the rate grows with what it may hold.
    fn filled(&mut self, limit: Limit, share: f64, basis: &str) {
        let ceiling = (share >= TELLING).then(|| self.rate / share.min(1.0));
        self.add(limit, share, ceiling, format!("{basis} {}", percent(share)));
    }

    /// The sending end of a copy.
    fn sending(&mut self, stages: &Stages, span: Duration) {
        let share = |time| of_threads(stages, time, span);
        self.timed(Limit::SourceDisk, share(stages.read), "the sender's threads read for");
        self.timed(Limit::Compress, share(stages.compress), "the sender's threads compressed for");
        self.timed(Limit::Encrypt, share(stages.encrypt), "the sender's threads encrypted for");
        self.timed(Limit::Verify, share(stages.verify), "the sender's threads hashed for");
        self.timed(Limit::RateLimit, share(stages.limited), "the sender slept for a limit it was given");
    }

    /// The receiving end of a copy.
    fn receiving(&mut self, stages: &Stages, span: Duration) {
        let share = |time| of_threads(stages, time, span);
        self.timed(Limit::Encrypt, share(stages.encrypt), "the receiver's threads decrypted for");
        self.timed(Limit::Decompress, share(stages.decompress), "the receiver's threads decompressed for");
        self.timed(Limit::Verify, share(stages.verify), "the receiver's threads hashed for");
        self.timed(Limit::DirtyThrottle, share(stages.write), "the receiver's threads wrote for");
    }

    /// Connections whose sender was watched.
    fn senders(&mut self, whole: &Interval) {
        // Of several connections those that carry: one that is kept open beside them rests all the time.
        let most = whole.lanes.iter().map(|lane| lane.received).max().unwrap_or_default();
        let carrying = whole.lanes.iter().filter(|lane| lane.received >= most / 2);
        for sender in carrying.filter_map(|lane| lane.sender.value()) {
            let looks = f64::from(sender.looks.max(1));
            let share = |count: u32| f64::from(count) / looks;
            self.timed(Limit::Application, share(sender.nothing_in_flight), "the connection rested");
            let buffer = sender.queued.zip(sender.send_buffer).filter(|(_, buffer)| *buffer > 0);
            if let Some((queued, buffer)) = buffer {
                self.filled(
                    Limit::SendBuffer,
                    queued as f64 / buffer as f64,
                    "the send buffer was filled to",
                );
            }
            self.timed(Limit::PathLoss, share(sender.recovering), "the connection recovered from loss for");
            if let Some((_, mean, _)) = sender.peer_window.filter(|(_, mean, _)| *mean > 0) {
                let share = sender.in_flight as f64 / mean as f64;
                self.filled(Limit::ReceiveWindow, share, "data in flight filled the receiver's window to");
            }
        }
    }

    /// Connections whose receiver was watched, and the threads that serve them.
    fn receivers(&mut self, whole: &Interval, facts: &Facts) {
        let spent = spent(whole);
        if whole.lanes.iter().any(|lane| lane.tcp.value().is_some()) && spent.lanes > 0 {
            self.timed(Limit::Application, spent.first_byte, "first bytes were waited for");
            self.timed(Limit::Latency, spent.connecting, "connections were being made");
            // Whoever held them: no ceiling of a stage's own.
            let waited = format!(
                "data that had not arrived were waited for {} of the time",
                percent(spent.socket_wait)
            );
            self.add(Limit::SenderOrPath, spent.socket_wait, None, waited);
        }
        if let Some(cap) = facts.rate_cap.filter(|cap| *cap > 0.0) {
            self.add(Limit::RateLimit, self.rate / cap, Some(cap), "of the rate that was allowed".to_owned());
        } else if spent.limited > 0.0 || !whole.server_backoff.is_zero() {
            let share = whole.server_backoff.as_secs_f64() / whole.span.as_secs_f64();
            self.timed(Limit::RateLimit, spent.limited.max(share), "connections paused to keep the limit");
        }
        if let Some(link) = facts.link_rate.filter(|link| *link > 0.0) {
            self.add(Limit::PathBandwidth, self.rate / link, Some(link), "of the line rate".to_owned());
        }
        for (lane, active) in working(whole) {
            self.interval(lane, active);
            if let Some(thread) = lane.thread.value() {
                let share = thread.cpu.as_secs_f64() / active;
                self.timed(Limit::CpuCore, share, "the busiest thread ran");
            }
        }
        if facts.to_stdout && spent.lanes > 0 {
            self.timed(Limit::Reader, spent.output_wait, "the reader of the output was waited for");
        }
        let verifying = whole.verify_busy.as_secs_f64() / whole.span.as_secs_f64();
        if verifying > 0.0 {
            self.timed(Limit::Verify, verifying, "the digest's thread ran");
        }
    }

    fn interval(&mut self, lane: &LaneInterval, active: f64) {
        let Some(tcp) = lane.tcp.value() else { return };
        let rtt = tcp.receiver_rtt.into_iter().chain(tcp.shortest_rtt()).max();
        let (Some(rtt), Some(window)) = (rtt, tcp.receive_window.or(tcp.window_clamp)) else { return };
        if window > 0 && !rtt.is_zero() {
            let share = lane.received as f64 / active * rtt.as_secs_f64() / window as f64;
            self.filled(Limit::ReceiveWindow, share, "rate x round trip filled the receive window to");
        }
    }

    /// Where the bytes end.
    fn stores(&mut self, whole: &Interval, facts: &Facts) {
        let spent = spent(whole);
        if whole.written > 0 && spent.lanes > 0 {
            self.timed(Limit::DirtyThrottle, spent.write_blocked, "blocked in write");
        }
        if let Some(disk) = whole.disk.value() {
            let ceiling = disk.written as f64 / whole.span.as_secs_f64() / disk.busy;
            let ceiling = (disk.busy >= BUSY && disk.written > 0).then_some(ceiling);
            let name = facts.disk.as_deref().unwrap_or("the device");
            self.add(Limit::Disk, disk.busy, ceiling, format!("{name} was busy {}", percent(disk.busy)));
        }
    }
}

/// A stage's share of what the threads of an end could have done.
fn of_threads(stages: &Stages, time: Duration, span: Duration) -> f64 {
    time.as_secs_f64() / (span.as_secs_f64() * f64::from(stages.threads.max(1)))
}

/// Lanes with the seconds in which they had work.
fn working(whole: &Interval) -> impl Iterator<Item = (&LaneInterval, f64)> {
    whole.lanes.iter().filter_map(|lane| {
        let active = whole.span.saturating_sub(lane.idle).as_secs_f64();
        (active > 0.01 * whole.span.as_secs_f64()).then_some((lane, active))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{DiskInterval, Reading, TcpInterval, ThreadInterval};

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// 8 MB/s for two seconds over 20 ms with a window of 200 KB, on a core that is half busy.
    fn evidence() -> Evidence {
        let lane = LaneInterval {
            received: 8_000_000,
            socket_wait: ms(400),
            tcp: Reading::Value(TcpInterval {
                min_rtt: Some(ms(20)),
                receive_window: Some(200_000),
                ..TcpInterval::default()
            }),
            thread: Reading::Value(ThreadInterval { cpu: ms(500), ..ThreadInterval::default() }),
            ..LaneInterval::default()
        };
        let interval = |at: f64| Interval {
            at,
            span: ms(1000),
            received: 8_000_000,
            written: 8_000_000,
            lanes: vec![lane.clone()],
            disk: Reading::Value(DiskInterval { written: 4_000_000, read: 0, busy: 0.8 }),
            ..Interval::default()
        };
        Evidence { intervals: vec![interval(0.0), interval(1.0)], ..Evidence::default() }
    }

    #[test]
    fn each_stage_has_its_load_and_the_ceiling_that_follows() {
        let loads = loads(&evidence());
        let of = |limit: Limit| loads.iter().find(|load| load.limit == limit).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6 * b;
        let window = of(Limit::ReceiveWindow);
        assert!(near(window.load, 0.8) && near(window.ceiling.unwrap(), 10e6), "{window:?}");
        assert!(near(of(Limit::CpuCore).ceiling.unwrap(), 16e6));
        assert!(near(of(Limit::SenderOrPath).load, 0.4));
        assert!(near(of(Limit::Disk).ceiling.unwrap(), 5e6));
        assert_eq!(of(Limit::DirtyThrottle).ceiling, None, "never blocked: no ceiling seen");
        assert_eq!(of(Limit::DirtyThrottle).basis, "blocked in write 0 % of the time");
    }

    #[test]
    fn a_cap_and_a_line_rate_are_ceilings_themselves() {
        let mut evidence = evidence();
        evidence.facts.rate_cap = Some(8e6);
        evidence.facts.link_rate = Some(12.5e6);
        let loads = loads(&evidence);
        let of = |limit: Limit| {
            loads.iter().find(|load| load.limit == limit).map(|load| (load.load, load.ceiling))
        };
        assert_eq!(of(Limit::RateLimit), Some((1.0, Some(8e6))));
        assert_eq!(of(Limit::PathBandwidth), Some((0.64, Some(12.5e6))));
    }

    #[test]
    fn nothing_seen_loads_nothing() {
        assert_eq!(loads(&Evidence::default()), []);
    }
}
