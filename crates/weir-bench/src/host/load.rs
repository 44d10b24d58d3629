//! How do round trips grow while the path is busy?
//!
//! A queue in front of a bottleneck that is longer than it need be (bufferbloat) is seen only while something
//! fills it. So: round trips at rest, then the same while a [`Load`] runs. Who moves the bytes is the
//! caller's: a download, an upload, a test of throughput.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::host::connect;
use crate::host::echo::Pinger;
use crate::host::summary::Summary;
use crate::wait::pause;
use weir_units::{human_duration, threads};

/// Something that keeps the path busy.
pub trait Load: Sync {
    /// What it is, for the report: `a download of http://host/file over 4 connections`.
    fn name(&self) -> String;

    /// Moves bytes until `stop` is set, and returns how many; the error is the reason in words.
    fn run(&self, stop: &AtomicBool) -> Result<u64, String>;
}

/// How long.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// At rest.
    pub idle: Duration,
    /// Of the load, before round trips count: slow start is over and a queue of half a second has filled.
    pub warm_up: Duration,
    /// Under load.
    pub busy: Duration,
    /// From one round trip to the next.
    pub interval: Duration,
    /// One without an answer for so long is lost.
    pub timeout: Duration,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            idle: Duration::from_secs(1),
            warm_up: Duration::from_millis(500),
            busy: Duration::from_secs(3),
            interval: Duration::from_millis(50),
            timeout: Duration::from_secs(2),
        }
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// At rest.
    pub idle: Summary,
    /// Under load.
    pub busy: Summary,
    /// Round trips under load that never came back.
    pub lost: usize,
    /// Bytes that the load moved, and for how long.
    pub moved: u64,
    /// How long the load ran.
    pub span: Duration,
    /// How round trips were taken.
    pub by: &'static str,
}

/// Takes round trips one by one.
enum Ruler {
    Echo(Pinger, u16),
    Connect(SocketAddr),
}

impl Ruler {
    /// By echoes where they are allowed and answered, else by connects.
    fn choose(address: SocketAddr, plan: &Plan, stop: &AtomicBool) -> Ruler {
        if let Ok(mut pinger) = Pinger::open(address.ip())
            && matches!(pinger.once(0, plan.timeout, stop), Ok(Some(_)))
        {
            return Ruler::Echo(pinger, 0);
        }
        Ruler::Connect(address)
    }

    fn name(&self) -> &'static str {
        match self {
            Ruler::Echo(..) => "ICMP echo",
            Ruler::Connect(_) => "TCP connect",
        }
    }

    fn take(&mut self, timeout: Duration, stop: &AtomicBool) -> Option<Duration> {
        match self {
            Ruler::Echo(pinger, sequence) => {
                *sequence = sequence.wrapping_add(1);
                pinger.once(*sequence, timeout, stop).ok().flatten()
            }
            Ruler::Connect(address) => match connect::attempt(*address, timeout, stop).0 {
                connect::ConnectOutcome::Connected(span)
                | connect::ConnectOutcome::Refused(span)
                | connect::ConnectOutcome::Reset(span) => Some(span),
                _ => None,
            },
        }
    }

    /// Round trips for `span`, and how many were lost; `None` if what they are taken under no longer `holds`.
    fn sample(
        &mut self,
        span: Duration,
        plan: &Plan,
        stop: &AtomicBool,
        holds: &dyn Fn() -> bool,
    ) -> Option<(Vec<Duration>, usize)> {
        let end = Instant::now() + span;
        let (mut taken, mut lost) = (Vec::new(), 0);
        while Instant::now() < end && !stop.load(Relaxed) {
            if !holds() {
                return None;
            }
            let next = Instant::now() + plan.interval;
            match self.take(plan.timeout, stop) {
                Some(round_trip) => taken.push(round_trip),
                None if stop.load(Relaxed) => break,
                None => lost += 1,
            }
            pause(next, stop);
        }
        Some((taken, lost))
    }
}

/// Round trips at rest, then under `load`. The error is the reason in words.
pub fn run(address: SocketAddr, load: &dyn Load, plan: &Plan, stop: &AtomicBool) -> Result<Found, String> {
    let mut ruler = Ruler::choose(address, plan, stop);
    let idle = ruler.sample(plan.idle, plan, stop, &|| true);
    let idle = idle.and_then(|(taken, _)| Summary::of(&taken)).ok_or("no round trip at rest came back")?;
    let enough = AtomicBool::new(false);
    let start = Instant::now();
    let (sampled, moved, span) = std::thread::scope(|scope| {
        let work = || (load.run(&enough), start.elapsed());
        let worker = match threads::start_scoped(scope, "load", work) {
            Ok(worker) => worker,
            Err(error) => return (None, Err(error.to_string()), Duration::ZERO),
        };
        pause(start + plan.warm_up, stop);
        // A load that has ended is none: what is taken after it is at rest.
        let sampled = ruler.sample(plan.busy, plan, stop, &|| !worker.is_finished());
        enough.store(true, Relaxed);
        let (moved, span) = worker.join().unwrap_or((Err("the load broke".to_owned()), Duration::ZERO));
        (sampled, moved, span)
    });
    let moved = moved.map_err(|why| format!("{}: {why}", load.name()))?;
    if stop.load(Relaxed) {
        return Err("interrupted".to_owned());
    }
    let (busy, lost) = sampled.ok_or_else(|| {
        let (ran, needed) = (human_duration(span), human_duration(plan.warm_up + plan.busy));
        format!("{} ended after {ran}: round trips under load take {needed}", load.name())
    })?;
    if moved == 0 {
        return Err(format!("{} moved nothing within {}", load.name(), human_duration(span)));
    }
    let busy = Summary::of(&busy).ok_or("no round trip under load came back")?;
    Ok(Found { idle, busy, lost, moved, span, by: ruler.name() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Moves nothing, for so long at most.
    struct Short(Duration);

    impl Load for Short {
        fn name(&self) -> String {
            "a short one".to_owned()
        }

        fn run(&self, stop: &AtomicBool) -> Result<u64, String> {
            let end = Instant::now() + self.0;
            while Instant::now() < end && !stop.load(Relaxed) {
                std::thread::yield_now();
            }
            Ok(7)
        }
    }

    /// Moves so many bytes, or fails.
    struct Idle(Result<u64, &'static str>);

    impl Load for Idle {
        fn name(&self) -> String {
            "nothing".to_owned()
        }

        fn run(&self, stop: &AtomicBool) -> Result<u64, String> {
            let moved = self.0?;
            while !stop.load(Relaxed) {
                std::thread::yield_now();
            }
            Ok(moved)
        }
    }

    const QUICK: Plan = Plan {
        idle: Duration::from_millis(20),
        warm_up: Duration::from_millis(5),
        busy: Duration::from_millis(20),
        interval: Duration::from_millis(2),
        timeout: Duration::from_secs(5),
    };

    #[test]
    fn both_halves_have_round_trips() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let found =
            run(listener.local_addr().unwrap(), &Idle(Ok(7)), &QUICK, &AtomicBool::new(false)).unwrap();
        assert!(found.idle.count > 0 && found.busy.count > 0 && found.moved == 7 && found.lost == 0);
    }

    #[test]
    fn a_load_that_ends_meanwhile_is_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // Long before its round trips are all taken.
        let plan = Plan { busy: Duration::from_secs(3600), ..QUICK };
        let load = Short(4 * QUICK.warm_up);
        let why = run(listener.local_addr().unwrap(), &load, &plan, &AtomicBool::new(false)).unwrap_err();
        assert!(why.starts_with("a short one ended after "), "{why}");
    }

    #[test]
    fn a_load_that_fails_or_moves_nothing_is_said() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let why = run(address, &Idle(Err("404")), &QUICK, &AtomicBool::new(false)).unwrap_err();
        assert_eq!(why, "nothing: 404");
        let why = run(address, &Idle(Ok(0)), &QUICK, &AtomicBool::new(false)).unwrap_err();
        assert!(why.starts_with("nothing moved nothing within "), "{why}");
    }
}
