//! The asking end: runs of transactions until their mean is sure enough, or as many runs as allowed were
//! made.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use weir_observe::tcp_info::congestion_control;
use weir_observe::thread::thread_cpu_now;
use weir_observe::watch::SAMPLE_INTERVAL;

use super::confidence::{self, Goal};
use super::{Broken, Line};
use crate::asked::{Asked, Kind, Part};
use crate::client::{Options, connect, introduce, open_tcp};
use crate::control::Control;
use crate::error::{NetError, stream_failed};
use crate::frame;
use crate::outcome::Ending;
use crate::parameters::Parameters;
use crate::results::stream_id;
use crate::run::FAREWELL;
use crate::socket;
use crate::state::TestState;

/// The longest transaction that a histogram tells from a longer one, nanoseconds: a minute.
const LONGEST: u64 = 60_000_000_000;

/// How often, and how sure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repeats {
    /// At least so many runs.
    pub least: u32,
    /// At most so many.
    pub most: u32,
    /// What the mean of their rates has to reach; without it `least` runs are made.
    pub goal: Option<Goal>,
}

/// One run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repetition {
    /// Whole transactions.
    pub transactions: u64,
    /// How long it took.
    pub seconds: f64,
    /// The median of its times.
    pub median: Duration,
}

impl Repetition {
    /// Transactions per second.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.transactions as f64 / self.seconds } else { 0.0 }
    }
}

/// What came of it.
#[derive(Debug)]
pub struct TransactionsOutcome {
    /// The server.
    pub peer: SocketAddr,
    /// What was asked for.
    pub asked: Asked,
    /// Connections at once.
    pub streams: u32,
    /// Each run.
    pub repetitions: Vec<Repetition>,
    /// How sure the mean is, where that was asked for: the width of its interval over it.
    pub width: Option<f64>,
    /// What was asked for.
    pub goal: Option<Goal>,
    /// The times of all transactions, nanoseconds.
    pub latency: Histogram<u64>,
    /// This end's part.
    pub part: Part,
    /// The other end's; `None` when it did not come to that.
    pub peer_part: Option<Part>,
    /// Congestion control of this end.
    pub congestion: Option<String>,
    /// How it ended.
    pub ending: Ending,
}

impl TransactionsOutcome {
    /// The mean of the runs' rates, transactions per second.
    pub fn rate(&self) -> f64 {
        let sum: f64 = self.repetitions.iter().map(Repetition::rate).sum();
        sum / self.repetitions.len().max(1) as f64
    }

    /// The goal is reached; `None` without one.
    pub fn is_sure(&self) -> Option<bool> {
        let goal = self.goal?;
        Some(self.width.is_some_and(|width| width <= goal.width))
    }
}

/// Makes the runs. `options.parameters` says how many connections, what is asked for, and the seconds of one
/// run.
pub fn run(
    options: &Options,
    asked: Asked,
    repeats: Repeats,
    tell: &mut dyn FnMut(&Repetition),
    stop: &AtomicBool,
) -> Result<TransactionsOutcome, NetError> {
    let whole = options.parameters.time.saturating_mul(repeats.most);
    let parameters =
        Parameters { transactions: Some(asked), time: whole, no_delay: true, ..options.parameters.clone() };
    let told = Options { parameters, ..options.clone() };
    let (stream, to) = connect(&told, stop)?;
    let mut control =
        Control::new(stream, options.timeout, stop).map_err(|source| NetError::Connect { to, source })?;
    let (cookie, parameters) = introduce(&told, &mut control)?;
    let port = agreed(&mut control, to, asked.kind, options.timeout)?;
    let mut lines = Vec::new();
    if asked.kind == Kind::Exchange {
        control.expect(TestState::CreateStreams, "its word to open the data streams", options.timeout)?;
        for _ in 0..parameters.parallel {
            let mut stream = open_tcp(options, &parameters, to, 0, stop)?;
            let fail = |source| NetError::Connect { to, source };
            std::io::Write::write_all(&mut stream, cookie.bytes()).map_err(fail)?;
            lines.push(Some(Line::new(stream, &asked).map_err(fail)?));
        }
    } else {
        lines.resize_with(parameters.parallel as usize, || None);
    }
    control.expect(TestState::TestStart, "the start of the test", options.timeout)?;
    control.expect(TestState::TestRunning, "the start of the test", options.timeout)?;
    // The rest of the address stays, such as the interface that a link-local one belongs to.
    let mut door = to;
    door.set_port(port.unwrap_or(to.port()));
    let shared = Test { options, asked, parameters: &parameters, to: door, over: AtomicBool::new(false) };
    let congestion = congestion_control(std::os::fd::AsFd::as_fd(control.stream())).ok();
    let mut outcome = TransactionsOutcome {
        peer: to,
        asked,
        streams: parameters.parallel,
        repetitions: Vec::new(),
        width: None,
        goal: repeats.goal,
        latency: histogram(),
        part: Part::default(),
        peer_part: None,
        congestion: parameters.congestion.clone().or(congestion),
        ending: Ending::Complete,
    };
    let begun = Instant::now();
    let ended = shared.repeat(&mut lines, repeats, &mut control, &mut outcome, tell, stop);
    drop(lines);
    // A thread for each connection and one more take no more than the time, on one processor each; and a
    // clock tick or two.
    let most_cpu =
        begun.elapsed().saturating_mul(parameters.parallel.saturating_add(1)) + Duration::from_secs(1);
    let ended = ended.and_then(|()| finish(&mut control, &mut outcome, most_cpu, options.timeout));
    match ended {
        Ok(()) => control.close(),
        Err(NetError::Interrupted) => {
            let _ = control.say(TestState::ClientTerminate);
            outcome.ending = Ending::Interrupted;
        }
        Err(error) => {
            let _ = control.say(TestState::ClientTerminate);
            outcome.ending = Ending::Broken(error.in_full());
        }
    }
    Ok(outcome)
}

/// The server's agreement; of [`Kind::Connect`] the port on which it takes the connections.
fn agreed(
    control: &mut Control<'_>,
    at: SocketAddr,
    kind: Kind,
    timeout: Duration,
) -> Result<Option<u16>, NetError> {
    let expected = "its word that it makes transactions";
    match control.next(expected, timeout)? {
        TestState::Transactions => {}
        // What iperf3 and older weirs go on with.
        TestState::CreateStreams => {
            let _ = control.say(TestState::ClientTerminate);
            return Err(NetError::NoTransactions { at });
        }
        found => return Err(control.unexpected(found, expected)),
    }
    let value = control.hear(frame::PARAMETERS, "how it makes transactions", timeout)?;
    let port = value.get("port").and_then(frame::count).and_then(|port| u16::try_from(port).ok());
    match (kind, port.filter(|port| *port > 0)) {
        (Kind::Connect, None) => Err(NetError::Unexpected {
            peer: at,
            found: "no port".to_owned(),
            expected: "the port for transactions",
        }),
        (_, port) => Ok(port),
    }
}

/// After the runs: what both ends have to tell.
fn finish(
    control: &mut Control<'_>,
    outcome: &mut TransactionsOutcome,
    most_cpu: Duration,
    timeout: Duration,
) -> Result<(), NetError> {
    control.say(TestState::TestEnd)?;
    control.expect(TestState::ExchangeResults, "its word to exchange results", timeout)?;
    control.tell(&outcome.part.to_json())?;
    let value = control.hear(frame::PARAMETERS, "its results", timeout)?;
    let (peer, counted) = (outcome.peer, outcome.part.transactions);
    let part = Part::parse(&value).filter(|part| part.cpu <= most_cpu).ok_or(NetError::NoPart { peer })?;
    control.expect(TestState::DisplayResults, "the end", timeout)?;
    control.say(TestState::IperfDone)?;
    // Each has its answer, so both count the same; but for one that was cut off with the test.
    if part.transactions != counted {
        return Err(NetError::Miscounted { peer, told: part.transactions, counted });
    }
    outcome.peer_part = Some(part);
    Ok(())
}

/// What all runs and threads share.
struct Test<'a> {
    options: &'a Options,
    asked: Asked,
    parameters: &'a Parameters,
    to: SocketAddr,
    /// A run is cut off.
    over: AtomicBool,
}

/// What one thread made in one run.
struct Made {
    latency: Histogram<u64>,
    cpu: Duration,
    ended: Instant,
    failure: Option<NetError>,
}

impl Test<'_> {
    fn repeat(
        &self,
        lines: &mut [Option<Line>],
        repeats: Repeats,
        control: &mut Control<'_>,
        outcome: &mut TransactionsOutcome,
        tell: &mut dyn FnMut(&Repetition),
        stop: &AtomicBool,
    ) -> Result<(), NetError> {
        let most = if repeats.goal.is_some() { repeats.most } else { repeats.least };
        for turn in 1..=most {
            let ended = self.once(lines, control, outcome, stop);
            if let Some(repetition) = outcome.repetitions.last() {
                tell(repetition);
            }
            ended?;
            if let Some(goal) = repeats.goal {
                let rates: Vec<f64> = outcome.repetitions.iter().map(Repetition::rate).collect();
                outcome.width = confidence::width(&rates, goal.level);
                if turn >= repeats.least && outcome.is_sure() == Some(true) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// One run, on a thread for each connection; this one listens to the server meanwhile.
    fn once(
        &self,
        lines: &mut [Option<Line>],
        control: &mut Control<'_>,
        outcome: &mut TransactionsOutcome,
        stop: &AtomicBool,
    ) -> Result<(), NetError> {
        let begun = Instant::now();
        let until = begun + Duration::from_secs(self.options.parameters.time.into());
        let (made, heard) = std::thread::scope(|scope| {
            let threads: Vec<_> = lines
                .iter_mut()
                .enumerate()
                .map(|(index, line)| scope.spawn(move || self.work(stream_id(index), line.as_mut(), until)))
                .collect();
            let mut heard = Ok(());
            while !threads.iter().all(|thread| thread.is_finished()) {
                heard = match control.poll(SAMPLE_INTERVAL) {
                    _ if stop.load(Relaxed) => Err(NetError::Interrupted),
                    Ok(None) => continue,
                    Ok(Some(state)) => Err(control.unexpected(state, "transactions")),
                    Err(error) => Err(error),
                };
                self.over.store(true, Relaxed);
                break;
            }
            let made: Vec<Made> = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
            (made, heard)
        });
        let mut latency = histogram();
        let mut ended = begun;
        let mut failure = None;
        for made in made {
            // Of the same bounds, so nothing is lost.
            let _ = latency.add(&made.latency);
            outcome.part.cpu += made.cpu;
            ended = ended.max(made.ended);
            failure = failure.or(made.failure);
        }
        if !latency.is_empty() {
            outcome.part.transactions += latency.len();
            outcome.repetitions.push(Repetition {
                transactions: latency.len(),
                seconds: (ended - begun).as_secs_f64(),
                median: Duration::from_nanos(latency.value_at_quantile(0.5)),
            });
            let _ = outcome.latency.add(&latency);
        }
        // What the server says explains what failed, also where its connections ended a moment before its
        // word came.
        heard?;
        let Some(failure) = failure else { return Ok(()) };
        Err(match control.poll(FAREWELL) {
            Ok(Some(state)) => control.unexpected(state, "transactions"),
            Ok(None) | Err(NetError::Closed { .. }) => failure,
            Err(error) => error,
        })
    }

    /// Transactions over one connection, or over one after another, until the run's time is over.
    fn work(&self, id: u32, mut line: Option<&mut Line>, until: Instant) -> Made {
        let cpu = thread_cpu_now();
        let begun = Instant::now();
        let mut made = Made { latency: histogram(), cpu: Duration::ZERO, ended: begun, failure: None };
        while made.ended < until && !self.over.load(Relaxed) {
            let done = match line.as_deref_mut() {
                Some(line) => self.exchange(line, false),
                None => self.connect().and_then(|mut line| self.exchange(&mut line, true)),
            };
            match done {
                Ok(()) => {
                    let now = Instant::now();
                    made.latency.saturating_record((now - made.ended).as_nanos() as u64);
                    made.ended = now;
                }
                Err(Broken::Stopped) => break,
                Err(Broken::Closed) => {
                    made.failure = Some(stream_failed(id, std::io::ErrorKind::UnexpectedEof.into()));
                    break;
                }
                Err(Broken::Failed(cause)) => {
                    made.failure = Some(stream_failed(id, cause));
                    break;
                }
            }
        }
        made.cpu = thread_cpu_now().saturating_sub(cpu);
        made
    }

    fn exchange(&self, line: &mut Line, ends: bool) -> Result<(), Broken> {
        let timeout = self.options.timeout;
        let stopped = || self.over.load(Relaxed);
        line.write(self.asked.request, timeout, stopped)?;
        line.read(self.asked.response, timeout, stopped)?;
        // The server closes first: the end that does keeps the connection's ports for a minute, and a client
        // has few.
        if ends { line.read_end(timeout, stopped) } else { Ok(()) }
    }

    fn connect(&self) -> Result<Line, Broken> {
        let Options { timeout, .. } = *self.options;
        let from = self.options.origin(0);
        let stream =
            socket::connect(self.to, from, timeout, Some(self.parameters), &self.over).map_err(|error| {
                match error {
                    NetError::Interrupted => Broken::Stopped,
                    NetError::Connect { source, .. } | NetError::Option { source, .. } => {
                        Broken::Failed(source)
                    }
                    other => Broken::Failed(std::io::Error::other(other.in_full())),
                }
            })?;
        Line::new(stream, &self.asked).map_err(Broken::Failed)
    }
}

/// Nanoseconds, exact to a thousandth.
fn histogram() -> Histogram<u64> {
    // Both bounds and the digits are legal by the crate's own rules (low >= 1, high >= 2 low, digits <= 5).
    Histogram::new_with_bounds(1, LONGEST, 3).unwrap_or_else(|_| unreachable!("legal bounds"))
}
