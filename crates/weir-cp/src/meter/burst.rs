//! A burst: records of noise as fast as the lanes take them, sealed and opened as a copy's are, and counted.
//!
//! The rate is the receiver's, and that of the second half alone: slow start is over then, and what socket
//! buffers swallowed at once does not count. Records are as long as the path carries in a hundredth of a
//! second, so that a slow one is measured finely and a fast one is not measured by its system calls.

use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use weir_model::survey::{Received, Sent};
use weir_observe::tcp_info::{self, TcpInfo};
use weir_observe::thread::process_cpu_now;

use super::Meter;
use crate::subtrees::BLOCK;
use crate::wire::measure::Bounds;
use crate::wire::record::{FOOTER, Footer, Kind};

/// The shortest record: eleven segments, below which headers and system calls would be what is measured.
const SHORTEST: usize = 16 << 10;

/// What a record should last on the path.
const RECORD: f64 = 0.01;

/// Arrivals kept: at 1 MiB each more than the caps allow, at 16 KiB as many as ten seconds bring.
const MOST: usize = 1 << 16;

/// How long the last bytes of a burst may stay away: a queue of a second, and a retransmission timeout.
const DRAIN: Duration = Duration::from_secs(3);

impl Meter {
    /// Sends until time or bytes are over.
    pub(super) fn send(&self, bounds: Bounds) -> Sent {
        let sockets = self.sockets();
        let before: Vec<Option<TcpInfo>> = sockets.iter().map(info).collect();
        let (cpu, start) = (process_cpu_now(), Instant::now());
        let sent = AtomicU64::new(0);
        let until = start + bounds.most_time();
        std::thread::scope(|scope| {
            for _ in 0..weir_observe::cpu::available_cpus().clamp(1, 16) {
                let work = || self.work(&sent, bounds.most_bytes(), start, until);
                // Where the system gives no more threads those that there are send; at the least this one.
                if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            self.work(&sent, bounds.most_bytes(), start, until);
        });
        let bytes = sent.load(Relaxed);
        let spent = process_cpu_now().saturating_sub(cpu);
        let mut found = Sent { bytes, cost: spent.as_secs_f64() / bytes.max(1) as f64, ..Sent::default() };
        let after: Vec<Option<TcpInfo>> = sockets.iter().map(info).collect();
        let lanes = before.iter().zip(&after);
        add_lanes(&mut found, lanes.filter_map(|(before, after)| before.as_ref().zip(after.as_ref())));
        found
    }

    fn work(&self, sent: &AtomicU64, most: u64, start: Instant, until: Instant) {
        let mut noise = vec![0; BLOCK as usize];
        // Without random numbers a session could not have begun; zeros would do as well, since they are
        // sealed.
        let _ = aws_lc_rs::rand::fill(&mut noise);
        let mut plain = Vec::with_capacity(noise.len() + 2 * FOOTER);
        while Instant::now() < until && !self.over.load(Relaxed) {
            let length = record_length(self.moved(sent), start.elapsed());
            if sent.fetch_add(length as u64, Relaxed) + length as u64 > most {
                sent.fetch_sub(length as u64, Relaxed);
                return;
            }
            plain.clear();
            plain.extend_from_slice(&noise[..length - FOOTER]);
            Footer {
                kind: Kind::Block,
                codec: 0,
                raw: (length - FOOTER) as u32,
                file: 0,
                offset: 0,
                digest: [0; 32],
            }
            .push_to(&mut plain);
            let Some(mut lane) = self.lanes.take() else { return };
            let header = lane.seal(&mut plain);
            let done = lane.send(&header, &plain);
            self.lanes.give_back(lane);
            if done.is_err() {
                return;
            }
        }
    }

    /// Bytes that have left for good: acknowledged where that can be read, else handed over.
    fn moved(&self, sent: &AtomicU64) -> u64 {
        let sockets = self.sockets();
        let acked = sockets.iter().filter_map(|socket| info(socket)?.bytes_acked).sum();
        if sockets.is_empty() { sent.load(Relaxed) } else { acked }
    }
}

/// As long as the path so far carries in [`RECORD`].
fn record_length(moved: u64, elapsed: Duration) -> usize {
    let rate = moved as f64 / elapsed.as_secs_f64().max(1e-3);
    ((rate * RECORD) as usize).clamp(SHORTEST, BLOCK as usize)
}

fn info(socket: &Arc<TcpStream>) -> Option<TcpInfo> {
    tcp_info::read(socket.as_fd()).ok()
}

/// What the kernel knows of the lanes over the burst.
fn add_lanes<'a>(found: &mut Sent, lanes: impl Iterator<Item = (&'a TcpInfo, &'a TcpInfo)>) {
    let span = |before: Option<Duration>, after: Option<Duration>| {
        after.unwrap_or_default().saturating_sub(before.unwrap_or_default()).as_secs_f64()
    };
    let count = |before: Option<u64>, after: Option<u64>| {
        after.unwrap_or_default().saturating_sub(before.unwrap_or_default()) as f64
    };
    let (mut busy, mut window, mut buffer, mut sent, mut again) = (0.0, 0.0, 0.0, 0.0, 0.0);
    let mut loaded = Vec::new();
    for (before, after) in lanes {
        busy += span(before.busy_time, after.busy_time);
        window += span(before.rwnd_limited, after.rwnd_limited);
        buffer += span(before.sndbuf_limited, after.sndbuf_limited);
        sent += count(before.bytes_sent, after.bytes_sent);
        again += count(before.bytes_retrans, after.bytes_retrans);
        found.rtt = found.rtt.into_iter().chain(after.min_rtt).min();
        found.window = found.window.max(after.snd_wnd.map(u64::from));
        loaded.extend(after.rtt);
    }
    let share = |part: f64, of: f64| if of > 0.0 { (part / of).clamp(0.0, 1.0) } else { 0.0 };
    found.window_limited = share(window, busy);
    found.buffer_limited = share(buffer, busy);
    found.again = share(again, sent);
    if let Some(lanes) = u32::try_from(loaded.len()).ok().filter(|lanes| *lanes > 0) {
        found.loaded_rtt = Some(loaded.iter().sum::<Duration>() / lanes);
    }
}

/// What came, and when.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    log: Mutex<Log>,
    came: Condvar,
    streams: Mutex<Vec<Arc<TcpStream>>>,
}

#[derive(Debug, Default)]
struct Log {
    /// Of the burst that is under way: instants, and bytes in all by then.
    records: Vec<(Instant, u64)>,
    bytes: u64,
    /// This process's time when it began.
    cpu: Duration,
    over: bool,
}

impl Arrivals {
    /// A lane's socket.
    pub(super) fn watch(&self, stream: &Arc<TcpStream>) {
        self.streams.lock().push(Arc::clone(stream));
    }

    /// The sockets.
    pub(super) fn streams(&self) -> Vec<Arc<TcpStream>> {
        self.streams.lock().clone()
    }

    /// So many bytes came.
    pub(super) fn add(&self, bytes: u64) {
        let mut log = self.log.lock();
        if log.records.is_empty() {
            log.cpu = process_cpu_now();
        }
        log.bytes += bytes;
        let so_far = log.bytes;
        if log.records.len() < MOST {
            log.records.push((Instant::now(), so_far));
        }
        self.came.notify_all();
    }

    /// Waits until so many bytes of the burst are there, and says what it was. The next burst begins anew.
    pub(super) fn wait(&self, bytes: u64) -> Received {
        let mut log = self.log.lock();
        self.came.wait_while_for(&mut log, |log| log.bytes < bytes && !log.over, DRAIN);
        let spent = process_cpu_now().saturating_sub(log.cpu);
        let log = std::mem::take(&mut *log);
        Received {
            bytes: log.bytes,
            rate: steady_rate(&log.records),
            cost: spent.as_secs_f64() / log.bytes.max(1) as f64,
        }
    }

    /// Nobody waits any more.
    pub(super) fn stop(&self) {
        self.log.lock().over = true;
        self.came.notify_all();
        for stream in self.streams() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Bytes per second from the middle of the time on; zero where too little came to say. At the end all has
/// come. At the middle, on a path that loses, bytes may wait behind a hole, and would be counted with those
/// that come after it: of the instants of the third quarter the one counts at which most had come for its
/// time. The middle itself is one of them: on a host whose processors are taken away nothing may come for a
/// quarter of the time.
fn steady_rate(records: &[(Instant, u64)]) -> f64 {
    let (Some((first, _)), Some((last, all))) = (records.first(), records.last()) else { return 0.0 };
    let half = (*last - *first) / 2;
    let middle = *first + half;
    let by_middle =
        records.iter().take_while(|(at, _)| *at <= middle).last().map(|(_, so_far)| (middle, *so_far));
    let third = records.iter().copied().filter(|(at, _)| *at >= middle && *at <= middle + half / 2);
    let from = by_middle.into_iter().chain(third);
    let rates = from.map(|(at, before)| (all - before) as f64 / (*last - at).as_secs_f64());
    let least = rates.filter(|rate| rate.is_finite()).fold(f64::INFINITY, f64::min);
    if least.is_finite() { least } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_second_half() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        // A megabyte at once, then 100 KB every 100 ms.
        let records: Vec<_> = (0..=10).map(|n| (at(n * 100), 1_000_000 + n * 100_000)).collect();
        assert!((steady_rate(&records) - 1e6).abs() < 1.0);
        assert_eq!((steady_rate(&[]), steady_rate(&records[..1])), (0.0, 0.0));
    }

    #[test]
    fn what_waited_behind_a_hole_came_before() {
        let start = Instant::now();
        // 100 KB every 100 ms, but what came from 0.9 s on stands behind a hole until 1.2 s.
        let seen = |n: u64| if (9..12).contains(&n) { 900_000 } else { n * 100_000 };
        let records: Vec<_> = (0..=20).map(|n| (start + Duration::from_millis(n * 100), seen(n))).collect();
        assert!((steady_rate(&records) / 1e6 - 1.0).abs() < 0.01, "{}", steady_rate(&records));
    }

    #[test]
    fn a_pause_in_the_middle_hides_no_rate() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        // Nothing comes between 0.1 s and 0.9 s; of two megabytes the second came after the middle.
        let records = [(at(0), 500_000), (at(100), 1_000_000), (at(900), 1_500_000), (at(1000), 2_000_000)];
        assert!((steady_rate(&records) / 2e6 - 1.0).abs() < 0.01, "{}", steady_rate(&records));
    }

    #[test]
    fn records_are_as_long_as_a_hundredth_of_a_second() {
        assert_eq!(record_length(1_250_000, Duration::from_secs(1)), SHORTEST);
        assert_eq!(record_length(10_000_000, Duration::from_secs(1)), 100_000);
        assert_eq!(record_length(u64::MAX, Duration::ZERO), BLOCK as usize);
    }

    #[test]
    fn a_burst_that_never_comes_is_not_waited_for_once_it_is_over() {
        let arrivals = Arrivals::default();
        arrivals.stop();
        assert_eq!(arrivals.wait(1).rate, 0.0);
    }
}
