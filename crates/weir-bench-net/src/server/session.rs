//! One test, as the server holds it.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime};

use socket2::SockRef;

use super::{Event, Shared, answers, hellos};
use crate::control::Control;
use crate::cookie::Cookie;
use crate::copies::Copies;
use crate::datagram::{WELCOME, is_hello};
use crate::error::{Limit, NetError};
use crate::frame;
use crate::meter::Meter;
use crate::outcome::{Ending, Interval, Role, Start, TestOutcome};
use crate::parameters::{Direction, Parameters, Transport};
use crate::results::{Results, stream_id};
use crate::run::{Manner, Run, Stopped};
use crate::socket;
use crate::state::TestState;
use crate::stream::{Carrier, Stream};
use crate::transactions::Answered;

/// A client that does not end its test so long after its time is gone: iperf3's own grace.
pub(super) const GRACE: Duration = Duration::from_secs(40);

/// A test that was held.
pub(super) enum Held {
    Streams(Box<TestOutcome>),
    Transactions(Box<Answered>),
}

/// Makes one test with the client behind this connection.
pub(super) fn hold(
    shared: &Shared,
    stream: TcpStream,
    cookie: Cookie,
    number: u64,
    stop: &AtomicBool,
) -> Result<Held, NetError> {
    let lost = |source| NetError::Control { peer: SocketAddr::from(([0, 0, 0, 0], 0)), source };
    let local = stream.local_addr().map_err(lost)?;
    shared.options.wiring.set_control(&SockRef::from(&stream))?;
    let mut control = Control::new(stream, shared.options.timeout, stop).map_err(lost)?;
    let prepared = agree(shared, &mut control).and_then(|parameters| match parameters.transactions {
        Some(asked) => answers::hold(shared, &mut control, &parameters, asked, cookie, local, stop)
            .map(|answered| Prepared::Answered(Box::new(answered))),
        None => open(shared, &mut control, &parameters, cookie, (number, local), stop)
            .map(|streams| Prepared::Streams(Box::new(parameters), streams)),
    });
    let (parameters, streams) = match prepared {
        Ok(Prepared::Streams(parameters, streams)) => (*parameters, streams),
        Ok(Prepared::Answered(answered)) => return Ok(Held::Transactions(answered)),
        Err(error) => {
            turn_away(control, &error);
            return Err(error);
        }
    };
    let copies = copies(shared.options.copies, &parameters);
    let affinity = parameters.server_affinity;
    let start = Start {
        role: Role::Server,
        peer: control.peer(),
        host: String::new(),
        parameters,
        cookie,
        at: SystemTime::now(),
        segment: socket::segment(control.stream()),
        streams: streams.iter().map(|stream| stream.connection).collect(),
        buffers: (0, 0),
        copies,
        bundles: shared.options.bundles,
        interval: shared.options.interval,
    };
    control.say(TestState::TestStart)?;
    control.say(TestState::TestRunning)?;
    let manner = Manner {
        copies,
        bundles: shared.options.bundles,
        interval: shared.options.interval,
        own_block: false,
        receive_timeout: shared.options.receive_timeout,
        affinity,
    };
    let run = Run::begin(start, streams, manner)?;
    (shared.tell)(Event::Started(number, Box::new(run.start.clone())));
    Ok(Held::Streams(Box::new(conduct(shared, run, control, number, stop))))
}

/// Copies that are made: a client may have one more left out, which is no more work for this end.
fn copies(own: Copies, asked: &Parameters) -> Copies {
    Copies { sending: own.sending && !asked.zerocopy, receiving: own.receiving && !asked.skip_rx_copy }
}

/// How far a test has come before its streams flow.
enum Prepared {
    Streams(Box<Parameters>, Vec<Stream>),
    Answered(Box<Answered>),
}

/// Parameters, and who asks.
fn agree(shared: &Shared, control: &mut Control<'_>) -> Result<Parameters, NetError> {
    let peer = control.peer();
    control.say(TestState::ParamExchange)?;
    let value = control.hear(frame::PARAMETERS, "its parameters", shared.options.timeout)?;
    let mut parameters = Parameters::parse(&value).map_err(|cause| NetError::Refused { peer, cause })?;
    if let Some(guard) = &shared.options.guard {
        guard.admit(parameters.token.as_deref(), SystemTime::now())?;
    }
    // Not kept beyond the question who asks.
    parameters.token = None;
    check_bounds(shared, &parameters, peer)?;
    if parameters.transport == Transport::Udp && parameters.block == 0 {
        parameters.block = socket::segment(control.stream()).clamp(16, 1460);
    }
    Ok(parameters)
}

fn open(
    shared: &Shared,
    control: &mut Control<'_>,
    parameters: &Parameters,
    cookie: Cookie,
    test: (u64, SocketAddr),
    stop: &AtomicBool,
) -> Result<Vec<Stream>, NetError> {
    match parameters.transport {
        Transport::Tcp => tcp_streams(shared, control, parameters, cookie, stop),
        Transport::Udp => udp_streams(shared, control, parameters, test, stop),
    }
}

fn check_bounds(shared: &Shared, parameters: &Parameters, peer: SocketAddr) -> Result<(), NetError> {
    let options = &shared.options;
    let bound = |limit, bound: String| Err(NetError::Bound { peer, limit, bound });
    let time = Duration::from_secs((parameters.time + parameters.omit).into());
    if let Some(most) = options.most_time.filter(|most| time > *most) {
        let most = most.as_secs();
        return bound(Limit::Time, format!("a test of {} s, more than {most} s", time.as_secs()));
    }
    if let (Some(bytes), Some(most)) = (parameters.budget(), options.most_bytes)
        && bytes > most
    {
        return bound(Limit::Bytes, format!("a test of {bytes} bytes, more than {most}"));
    }
    let ways = if parameters.direction == Direction::Both { 2 } else { 1 };
    let rate = parameters.rate.saturating_mul(u64::from(parameters.parallel) * ways);
    match options.most_rate {
        Some(most) if rate > most => bound(Limit::Rate, format!("{rate} bit/s in all, more than {most}")),
        _ => Ok(()),
    }
}

/// Tells the client why there is no test, and lets it read that before the connection is gone.
fn turn_away(mut control: Control<'_>, error: &NetError) {
    refuse(&mut control, error);
    if !matches!(error, NetError::Closed { .. } | NetError::Control { .. }) {
        control.close();
    }
}

/// Tells the client why, in iperf3's way.
fn refuse(control: &mut Control<'_>, error: &NetError) {
    // A client that is gone cannot be told.
    let _ = match (error, error.number()) {
        (NetError::Interrupted, _) => control.say(TestState::ServerTerminate),
        (_, Some((code, errno))) => {
            let word = [TestState::ServerError.byte()];
            control.write(&[&word[..], &code.to_be_bytes(), &errno.to_be_bytes()].concat())
        }
        (_, None) => control.say(TestState::ServerTerminate),
    };
}

/// Whether this end sends on the stream at `index`: of a test both ways the client's come first.
fn sends(parameters: &Parameters, index: usize) -> bool {
    match parameters.direction {
        Direction::Forward => false,
        Direction::Reverse => true,
        Direction::Both => index >= parameters.parallel as usize,
    }
}

fn wanted(parameters: &Parameters) -> usize {
    let ways = if parameters.direction == Direction::Both { 2 } else { 1 };
    parameters.parallel as usize * ways
}

/// The data connections in the order in which they were accepted.
pub(super) fn connections(
    shared: &Shared,
    control: &mut Control<'_>,
    parameters: &Parameters,
    cookie: Cookie,
    stop: &AtomicBool,
) -> Result<Vec<TcpStream>, NetError> {
    let peer = control.peer();
    let want = wanted(parameters);
    let (sender, arriving) = channel();
    shared.waiting().insert(cookie, sender);
    let deadline = Instant::now() + shared.options.timeout;
    let mut came = Vec::new();
    let result = control.say(TestState::CreateStreams).and_then(|()| {
        while came.len() < want {
            if stop.load(Relaxed) {
                return Err(NetError::Interrupted);
            }
            match arriving.recv_timeout(Duration::from_millis(50)) {
                Ok(one) => came.push(one),
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {
                    // A client that is gone will open no more streams.
                    if let Some(state) = control.poll(Duration::ZERO)? {
                        return Err(control.unexpected(state, "its data streams"));
                    }
                }
                Err(_) => {
                    return Err(NetError::Streams {
                        peer,
                        have: came.len(),
                        want,
                        timeout: shared.options.timeout,
                    });
                }
            }
        }
        Ok(())
    });
    shared.waiting().remove(&cookie);
    result?;
    came.sort_by_key(|(order, _)| *order);
    Ok(came.into_iter().map(|(_, stream)| stream).collect())
}

fn tcp_streams(
    shared: &Shared,
    control: &mut Control<'_>,
    parameters: &Parameters,
    cookie: Cookie,
    stop: &AtomicBool,
) -> Result<Vec<Stream>, NetError> {
    let peer = control.peer();
    let mut streams = Vec::new();
    for (index, stream) in connections(shared, control, parameters, cookie, stop)?.into_iter().enumerate() {
        socket::set_options(SockRef::from(&stream), parameters)?;
        let made = Stream::tcp(stream_id(index), sends(parameters, index), stream);
        streams.push(made.map_err(|source| NetError::Control { peer, source })?);
    }
    Ok(streams)
}

/// The data sockets: each is connected to whoever of this client said hello, and the next one opened before
/// the answer.
fn udp_streams(
    shared: &Shared,
    control: &mut Control<'_>,
    parameters: &Parameters,
    (number, local): (u64, SocketAddr),
    stop: &AtomicBool,
) -> Result<Vec<Stream>, NetError> {
    let (peer, want) = (control.peer(), wanted(parameters));
    let lost = |source| NetError::Listen { at: local, source };
    let open = || socket::bind_udp(local, &shared.options.wiring);
    let place = shared.hellos.wait(local, peer.ip(), number, open)?;
    let alive = |control: &mut Control<'_>| match (stop.load(Relaxed), control.poll(Duration::ZERO)?) {
        (true, _) => Err(NetError::Interrupted),
        // A client that is gone will open no more streams.
        (_, Some(state)) => Err(control.unexpected(state, "its data streams")),
        (_, None) => Ok(()),
    };
    // Each one before it is through, or has lost its turn.
    while !place.turn().0 {
        alive(control)?;
        std::thread::sleep(Duration::from_millis(5));
    }
    control.say(TestState::CreateStreams)?;
    let begun = Instant::now();
    let mut heard = begun;
    let mut streams = Vec::new();
    while streams.len() < want {
        let Some(socket) = place.next(open)? else {
            alive(control)?;
            streams.iter().try_for_each(welcome_again).map_err(lost)?;
            let timeout = shared.options.timeout;
            let turn = if place.turn().1 { hellos::TURN.min(timeout) } else { timeout };
            if heard.elapsed() >= turn || begun.elapsed() >= timeout {
                let timeout = if begun.elapsed() >= timeout { timeout } else { turn };
                return Err(NetError::Streams { peer, have: streams.len(), want, timeout });
            }
            continue;
        };
        heard = Instant::now();
        socket::set_udp_options(&socket, parameters)?;
        socket.send(&WELCOME).map_err(lost)?;
        let index = streams.len();
        streams.push(Stream::udp(stream_id(index), sends(parameters, index), socket).map_err(lost)?);
    }
    Ok(streams)
}

/// A client whose welcome was lost says hello again, to the socket that has been its own since.
fn welcome_again(stream: &Stream) -> io::Result<()> {
    let Carrier::Udp(socket) = &*stream.carrier else { return Ok(()) };
    let mut room = [0; 64];
    socket.set_nonblocking(true)?;
    if let Ok(count) = socket.recv(&mut room)
        && is_hello(&room[..count])
    {
        // One that is lost again is asked for again.
        let _ = socket.send(&WELCOME);
    }
    socket.set_nonblocking(false)
}

/// The test itself, its end, and both ends' results.
fn conduct(
    shared: &Shared,
    mut run: Run,
    mut control: Control<'_>,
    number: u64,
    stop: &AtomicBool,
) -> TestOutcome {
    let begun = run.start.clone();
    let mut tell = |interval: &Interval| {
        (shared.tell)(Event::Interval(number, Box::new(begun.clone()), Box::new(interval.clone())));
    };
    let most_time = shared.options.most_time;
    let most_bytes = shared.options.most_bytes;
    let peer = run.start.peer;
    let mut meter =
        shared.options.most_rate.map(|most| Meter::new(most, one_write(&run), shared.options.rate_span));
    let stopped = run.flow(&mut control, stop, &mut tell, |run, elapsed| {
        let over = over_bounds(run, elapsed, most_time, most_bytes);
        let mut too_fast = || meter.as_mut()?.exceeded(elapsed, run.carried());
        over.or_else(|| too_fast().map(|bound| NetError::Bound { peer, limit: Limit::Rate, bound }))
            .map(Stopped::Failed)
    });
    let ending = match stopped {
        Stopped::Told(TestState::TestEnd) => {
            let results = finish(shared, &mut run, &mut control, stop, &mut tell);
            run.end(&mut |_| ());
            return match results {
                Ok(results) => run.outcome(Some(&results), Ending::Complete),
                Err(NetError::Interrupted) => run.outcome(None, Ending::Interrupted),
                Err(error) => run.outcome(None, Ending::Broken(error.in_full())),
            };
        }
        Stopped::Told(state) => {
            Ending::Broken(control.unexpected(state, "data, or the end of the test").in_full())
        }
        Stopped::Interrupted => Ending::Interrupted,
        Stopped::Failed(error) => {
            refuse(&mut control, &error);
            run.stop_sending();
            // A data connection that is reset under it would be all that a client of iperf3 tells of.
            control.hear_out();
            run.end(&mut tell);
            return run.outcome(None, Ending::Broken(error.in_full()));
        }
        Stopped::Done => Ending::Complete,
    };
    let _ = control.say(TestState::ServerTerminate);
    run.stop_sending();
    run.end(&mut tell);
    run.outcome(None, ending)
}

/// After the data: what is still on its way, and the results of both.
fn finish(
    shared: &Shared,
    run: &mut Run,
    control: &mut Control<'_>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Interval),
) -> Result<Results, NetError> {
    run.stop_sending();
    run.drain(stop, tell);
    control.say(TestState::ExchangeResults)?;
    let value = control.hear(frame::RESULTS_OF_CLIENT, "its results", shared.options.timeout)?;
    let peer = control.peer();
    let theirs = Results::parse(&value).map_err(|cause| NetError::Results { peer, cause })?;
    let mut results = run.results();
    if run.parameters().server_output {
        results.output = Some((shared.options.report)(&run.so_far(&theirs)));
    }
    let mut told = results.to_text();
    // A client that reads no more than weir does gets the figures at least.
    if told.len() > frame::RESULTS {
        results.output = None;
        told = results.to_text();
    }
    control.tell_text(&told)?;
    control.say(TestState::DisplayResults)?;
    // All is said: a client that closes without its farewell has lost nothing.
    let _ = control.next("its farewell", shared.options.timeout);
    Ok(theirs)
}

/// Bytes that the streams of a test may move at once without being faster than they say.
fn one_write(run: &Run) -> u64 {
    let parameters = run.parameters();
    let blocks = u64::from(parameters.burst.max(1)) * run.streams.len() as u64;
    blocks * u64::from(parameters.block)
}

fn over_bounds(
    run: &Run,
    elapsed: Duration,
    most_time: Option<Duration>,
    most_bytes: Option<u64>,
) -> Option<NetError> {
    let parameters = run.parameters();
    let peer = run.start.peer;
    let planned = Duration::from_secs((parameters.time + parameters.omit).into());
    if parameters.time > 0 && parameters.budget().is_none() && elapsed > planned + GRACE {
        let bound = format!("its client did not end it {} s after its time", GRACE.as_secs());
        return Some(NetError::Bound { peer, limit: Limit::Time, bound });
    }
    if let Some(most) = most_time.filter(|most| elapsed > *most + GRACE) {
        let bound = format!("{} s are over", most.as_secs());
        return Some(NetError::Bound { peer, limit: Limit::Time, bound });
    }
    match most_bytes {
        Some(most) if run.carried() > most => {
            let bound = format!("{most} bytes are through");
            Some(NetError::Bound { peer, limit: Limit::Bytes, bound })
        }
        _ => None,
    }
}
