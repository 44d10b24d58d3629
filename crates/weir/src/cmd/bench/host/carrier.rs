//! How much the path carries, by a client of iperf3's protocol: the host answers where iperf3 or `weir bench
//! net` serves there.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use weir_bench::host::load::Load;
use weir_bench::host::throughput::{Carried, Direction, Throughput, Transport};
use weir_bench_net::client::{self, Options, Silent};
use weir_bench_net::outcome::{Ending, StreamOutcome, Sum, TestOutcome};
use weir_bench_net::parameters::{Direction as Way, Transport as Over};
use weir_units::Rate;

/// The share of TCP's rate that datagrams are sent at: a link takes that beside their headers without a loss
/// of its own.
const OF_TCP: f64 = 0.9;

/// One stream at a time.
#[derive(Debug, Default)]
pub struct Carrier {
    /// What TCP reached, up and down: datagrams have no rate of their own.
    tcp: Mutex<[Option<Rate>; 2]>,
}

impl Throughput for Carrier {
    fn measure(
        &self,
        server: SocketAddr,
        transport: Transport,
        direction: Direction,
        span: Duration,
        stop: &AtomicBool,
    ) -> Result<Carried, String> {
        let mut options = Options::to(server.ip().to_string(), server.port());
        options.interval = Duration::ZERO;
        let parameters = &mut options.parameters;
        // The protocol counts whole seconds.
        parameters.time = (span.as_secs() as u32).max(1);
        parameters.direction = match direction {
            Direction::Up => Way::Forward,
            Direction::Down => Way::Reverse,
        };
        let mut asked = None;
        if transport == Transport::Udp {
            let tcp = self.reached()[direction as usize];
            let rate = tcp.ok_or("TCP reached nothing, so no rate for datagrams is known")?.0 * OF_TCP;
            asked = Some(Rate(rate));
            (parameters.transport, parameters.block, parameters.rate) = (Over::Udp, 0, (8.0 * rate) as u64);
            parameters.wide_counters = true;
        }
        let seconds = parameters.time;
        let outcome = client::run(&options, &mut Silent, stop).map_err(|error| error.in_full())?;
        let carried = figures(&outcome, direction, transport)?;
        if transport == Transport::Tcp {
            self.reached()[direction as usize] = Some(carried.rate);
        }
        let by = format!("one stream for {seconds} s by iperf3's protocol, at its receiver");
        let origin =
            asked.map_or(by.clone(), |rate| format!("{by}, sent at {rate}: nine tenths of TCP's rate"));
        Ok(Carried { origin, ..carried })
    }
}

/// One stream from such a server, as a load on the path.
pub struct Stream<'a> {
    /// Where it listens.
    pub server: SocketAddr,
    /// The protocol ends a test with words of both ends, so a load that is no longer wanted ends by its own
    /// time, and only the user's interrupt ends it before.
    pub interrupted: &'a AtomicBool,
}

/// The least whole seconds that hold the load's warm-up and the round trips under it.
const LOAD: Duration = Duration::from_secs(4);

impl Load for Stream<'_> {
    fn name(&self) -> String {
        format!("one TCP stream from the iperf3 or weir server on port {}", self.server.port())
    }

    fn run(&self, _: &AtomicBool) -> Result<u64, String> {
        let carrier = Carrier::default();
        let carried =
            carrier.measure(self.server, Transport::Tcp, Direction::Down, LOAD, self.interrupted)?;
        Ok((carried.rate.0 * LOAD.as_secs_f64()) as u64)
    }
}

impl Carrier {
    fn reached(&self) -> parking_lot::MutexGuard<'_, [Option<Rate>; 2]> {
        self.tcp.lock()
    }
}

fn figures(outcome: &TestOutcome, direction: Direction, transport: Transport) -> Result<Carried, String> {
    match &outcome.ending {
        Ending::Complete => {}
        Ending::Interrupted => return Err("interrupted".to_owned()),
        Ending::Broken(why) => return Err(why.clone()),
    }
    let sum = |pick: fn(&StreamOutcome) -> Option<Sum>| outcome.sum(direction == Direction::Up, pick);
    let received = sum(|stream| stream.received).ok_or("its receiver did not report what arrived")?;
    let again = match transport {
        Transport::Udp => received.udp.map(|udp| udp.lost as f64 / (udp.packets as f64).max(1.0)),
        Transport::Tcp => sum(|stream| stream.sent).and_then(|sent| {
            let segment = outcome.path.1.unwrap_or(outcome.start.segment);
            let segments = sent.bytes as f64 / f64::from(segment.max(1));
            Some(sent.retransmits? as f64 / segments.max(1.0))
        }),
    };
    let rate = Rate(received.bytes as f64 / received.seconds.max(f64::MIN_POSITIVE));
    Ok(Carried { rate, again, origin: String::new() })
}
