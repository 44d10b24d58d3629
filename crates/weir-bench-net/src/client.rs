//! The client: asks a server for a test and decides when it is over.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use weir_model::evidence::Evidence;
use weir_model::limit::Limit;
use weir_observe::names::{self, NameError};

use crate::auth::{self, Login, Padding};
use crate::control::{Control, is_pause};
use crate::cookie::Cookie;
use crate::copies::Copies;
use crate::datagram::{HELLO, Head, is_welcome};
use crate::error::NetError;
use crate::frame;
use crate::outcome::{Ending, Interval, Role, Start, TestOutcome};
use crate::parameters::{Direction, Parameters, Transport};
use crate::results::{Results, stream_id};
use crate::run::{Manner, Run, Stopped};
use crate::socket::{self, Origin, Wiring};
use crate::state::TestState;
use crate::stream::Stream;

/// A server that was reached answers within this: it may have to finish with the connection before.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// A hello without an answer is said again after this: iperf3 never does, and its server takes a second one
/// for a datagram of data, so not sooner than any answer takes.
const UDP_AGAIN: Duration = Duration::from_secs(2);

/// The payload that fits an Ethernet frame with IPv4, UDP and room for tunnels, where the path's segment is
/// not known: iperf3's own default.
const DATAGRAM: u32 = 1460;

/// The largest datagram that is chosen unasked: loopback's segments of 64 KB make no sense as packets.
const MOST_DATAGRAM: u32 = 32_768;

/// Which family of addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Family {
    /// Whatever the name has.
    #[default]
    Any,
    /// IPv4 alone.
    V4,
    /// IPv6 alone.
    V6,
}

/// A test as its user wants it.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server's name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// IPv4 or IPv6.
    pub family: Family,
    /// This end's address.
    pub bind: Option<IpAddr>,
    /// What to test.
    pub parameters: Parameters,
    /// The user named the block size, so that it is used for TCP as it is.
    pub own_block: bool,
    /// Between two intervals; zero for none.
    pub interval: Duration,
    /// How long a connection may take.
    pub connect: Duration,
    /// How long the server may be silent where it has to say something.
    pub timeout: Duration,
    /// Which copies are made all the same.
    pub copies: Copies,
    /// Datagrams may be bundled.
    pub bundles: bool,
    /// Who asks, with the server's public key (PEM).
    pub login: Option<(Login, String, Padding)>,
    /// The data connections' own port, the first one's; the others have those after it. `None` for any.
    pub local_port: Option<u16>,
    /// How sockets are made.
    pub wiring: Wiring,
    /// A test that receives data ends when none come for so long.
    pub receive_timeout: Duration,
}

/// iperf3's: a test without data for so long is stuck.
pub const RECEIVE_TIMEOUT: Duration = Duration::from_secs(120);

impl Options {
    /// Ten seconds of TCP to this server.
    pub fn to(host: impl Into<String>, port: u16) -> Options {
        Options {
            host: host.into(),
            port,
            family: Family::Any,
            bind: None,
            parameters: Parameters::new(),
            own_block: false,
            interval: Duration::from_secs(1),
            connect: Duration::from_secs(10),
            timeout: TIMEOUT,
            copies: Copies::default(),
            bundles: true,
            login: None,
            local_port: None,
            wiring: Wiring::default(),
            receive_timeout: RECEIVE_TIMEOUT,
        }
    }

    /// Where a connection comes from that has this port, or any (0).
    pub(crate) fn origin(&self, port: u16) -> Origin<'_> {
        Origin { address: self.bind, port, wiring: &self.wiring }
    }

    /// The own port of the data connection at `index`; 0 for any.
    fn port_of(&self, index: usize) -> u16 {
        let after = u16::try_from(index).unwrap_or(u16::MAX);
        self.local_port.map_or(0, |port| port.saturating_add(after))
    }
}

/// What a test tells while it runs.
pub trait Progress {
    /// All streams are there, and data begin to flow.
    fn started(&mut self, _start: &Start) {}

    /// A stretch is over.
    fn interval(&mut self, _start: &Start, _interval: &Interval) {}

    /// The last interval of `evidence` has just closed, and this held it. `sends` tells which streams' it is:
    /// those that this end sends on, or the others.
    fn judged(&mut self, _sends: bool, _evidence: &Evidence, _limit: Limit) {}
}

/// Tells nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {}

/// Makes the test. An error means that there is nothing to report; what was seen of a test that broke off or
/// was interrupted is in the outcome, whose [`Ending`] says so.
pub fn run(
    options: &Options,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<TestOutcome, NetError> {
    let timeout = options.timeout;
    let (stream, to) = connect(options, stop)?;
    let mut control =
        Control::new(stream, timeout, stop).map_err(|source| NetError::Connect { to, source })?;
    let (cookie, parameters) = introduce(options, &mut control)?;
    let segment = socket::segment(control.stream());
    control.expect(TestState::CreateStreams, "its word to open the data streams", timeout)?;
    let streams = open_streams(options, &parameters, &cookie, to, stop)?;
    control.expect(TestState::TestStart, "the start of the test", timeout)?;
    control.expect(TestState::TestRunning, "the start of the test", timeout)?;
    let start = Start {
        role: Role::Client,
        peer: to,
        host: options.host.clone(),
        parameters,
        cookie,
        at: SystemTime::now(),
        segment,
        streams: streams.iter().map(|stream| stream.connection).collect(),
        buffers: (0, 0),
        copies: options.copies,
        bundles: options.bundles,
        interval: options.interval,
    };
    let manner = Manner {
        copies: options.copies,
        bundles: options.bundles,
        interval: options.interval,
        own_block: options.own_block,
        receive_timeout: options.receive_timeout,
        affinity: None,
    };
    let run = Run::begin(start, streams, manner)?;
    progress.started(&run.start);
    Ok(conduct(run, control, timeout, progress, stop))
}

/// The test itself, its end, and both ends' results.
fn conduct(
    mut run: Run,
    mut control: Control<'_>,
    timeout: Duration,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> TestOutcome {
    let begun = run.start.clone();
    let progress = RefCell::new(progress);
    let mut tell = |interval: &Interval| progress.borrow_mut().interval(&begun, interval);
    let mut seen = Instant::now();
    let stopped = run.flow(&mut control, stop, &mut tell, |run, elapsed| {
        for (sends, evidence, limit) in run.latest(&mut seen) {
            progress.borrow_mut().judged(sends, evidence, limit);
        }
        over(run, elapsed)
    });
    if let Stopped::Done = stopped {
        let results = finish(&mut run, &mut control, timeout, stop, &mut tell);
        run.end(&mut |_| ());
        return match results {
            Ok(results) => {
                control.close();
                run.outcome(Some(&results), Ending::Complete)
            }
            Err(NetError::Interrupted) => run.outcome(None, Ending::Interrupted),
            Err(error) => run.outcome(None, broken(&error)),
        };
    }
    let ending = match stopped {
        Stopped::Interrupted => {
            let _ = control.say(TestState::ClientTerminate);
            Ending::Interrupted
        }
        Stopped::Told(state) => {
            let _ = control.say(TestState::ClientTerminate);
            Ending::Broken(format!("{} sent {state:?} in the middle of the test", control.peer()))
        }
        Stopped::Failed(error) => {
            let _ = control.say(TestState::ClientTerminate);
            broken(&error)
        }
        Stopped::Done => Ending::Complete,
    };
    run.stop_sending();
    run.end(&mut tell);
    run.outcome(None, ending)
}

/// After the data: the end of the test, and the results of both.
fn finish(
    run: &mut Run,
    control: &mut Control<'_>,
    timeout: Duration,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Interval),
) -> Result<Results, NetError> {
    // A server of iperf3 writes its report before its results, and of 128 streams each way.
    let results = timeout * 3;
    run.stop_sending();
    control.say(TestState::TestEnd)?;
    run.drain(stop, tell);
    control.expect(TestState::ExchangeResults, "its word to exchange results", results)?;
    control.tell(&run.results().to_json())?;
    let json = control.hear_in_order(frame::RESULTS, "its results", results)?;
    let peer = control.peer();
    let results = Results::parse_in_order(&json).map_err(|cause| NetError::Results { peer, cause })?;
    control.expect(TestState::DisplayResults, "the end", timeout)?;
    control.say(TestState::IperfDone)?;
    Ok(results)
}

/// Whether time, bytes or blocks are through.
fn over(run: &Run, elapsed: Duration) -> Option<Stopped> {
    let parameters = run.parameters();
    if parameters.budget().is_some() {
        return run.is_through().then_some(Stopped::Done);
    }
    let time = Duration::from_secs((parameters.omit + parameters.time).into());
    (parameters.time > 0 && elapsed >= time).then_some(Stopped::Done)
}

/// The first words: the test's cookie and its parameters.
pub(crate) fn introduce(
    options: &Options,
    control: &mut Control<'_>,
) -> Result<(Cookie, Parameters), NetError> {
    let cookie = Cookie::random();
    control.write(cookie.bytes())?;
    control.expect(TestState::ParamExchange, "its question for the test", options.timeout)?;
    let parameters = settled(options, socket::segment(control.stream()))?;
    control.tell(&parameters.to_json())?;
    Ok((cookie, parameters))
}

pub(crate) fn connect(options: &Options, stop: &AtomicBool) -> Result<(TcpStream, SocketAddr), NetError> {
    let host = &options.host;
    let resolve = |source: NameError| match source {
        NameError::Stopped => NetError::Interrupted,
        source => NetError::Resolve { host: host.clone(), source: source.into() },
    };
    let is_stopped = || stop.load(Relaxed);
    let all = names::resolve(host, options.port, options.connect, &is_stopped).map_err(resolve)?;
    let (family, wanted): (_, fn(&SocketAddr) -> bool) = match options.family {
        Family::Any => ("usable", |_| true),
        Family::V4 => ("IPv4", SocketAddr::is_ipv4),
        Family::V6 => ("IPv6", SocketAddr::is_ipv6),
    };
    let fits = |to: &SocketAddr| wanted(to) && options.bind.is_none_or(|bind| bind.is_ipv4() == to.is_ipv4());
    let mut failed = NetError::NoAddress { host: host.clone(), family };
    // The first that answers: a name may have an address of a family that leads nowhere.
    for to in all.into_iter().filter(fits) {
        match socket::connect(to, options.origin(0), options.connect, None, stop) {
            Ok(stream) => return Ok((stream, to)),
            Err(NetError::Interrupted) => return Err(NetError::Interrupted),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// The parameters as they are sent: with the datagrams' size and who asks.
fn settled(options: &Options, segment: u32) -> Result<Parameters, NetError> {
    let mut parameters = options.parameters.clone();
    if parameters.transport == Transport::Udp && parameters.block == 0 {
        parameters.block = if segment > 0 { segment.min(MOST_DATAGRAM) } else { DATAGRAM };
    }
    parameters.client = Some(concat!("weir ", env!("CARGO_PKG_VERSION")).to_owned());
    if let Some((login, key, padding)) = &options.login {
        parameters.token = Some(auth::token(login, key, *padding, SystemTime::now())?);
    }
    Ok(parameters)
}

/// Opens the data streams one after another, those that this end sends on first.
fn open_streams(
    options: &Options,
    parameters: &Parameters,
    cookie: &Cookie,
    to: SocketAddr,
    stop: &AtomicBool,
) -> Result<Vec<Stream>, NetError> {
    let ways: &[bool] = match parameters.direction {
        Direction::Forward => &[true],
        Direction::Reverse => &[false],
        Direction::Both => &[true, false],
    };
    let all = ways.iter().flat_map(|sends| (0..parameters.parallel).map(move |_| *sends));
    let mut streams = Vec::new();
    for (index, sends) in all.enumerate() {
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(NetError::Interrupted);
        }
        let id = stream_id(index);
        let fail = |source| NetError::Connect { to, source };
        let stream = match parameters.transport {
            Transport::Tcp => {
                let mut stream = open_tcp(options, parameters, to, options.port_of(index), stop)?;
                std::io::Write::write_all(&mut stream, cookie.bytes()).map_err(fail)?;
                Stream::tcp(id, sends, stream)
            }
            Transport::Udp => {
                let ours = (options.port_of(index), sends);
                Stream::udp(id, sends, open_udp(options, parameters, to, ours, stop)?)
            }
        };
        streams.push(stream.map_err(fail)?);
    }
    Ok(streams)
}

/// A server that has to open its port anew for the test's options refuses for a moment.
pub(crate) fn open_tcp(
    options: &Options,
    parameters: &Parameters,
    to: SocketAddr,
    port: u16,
    stop: &AtomicBool,
) -> Result<TcpStream, NetError> {
    let deadline = Instant::now() + Duration::from_secs(1);
    loop {
        match socket::connect(to, options.origin(port), options.connect, Some(parameters), stop) {
            Err(NetError::Connect { source, .. })
                if source.kind() == std::io::ErrorKind::ConnectionRefused && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            done => return done,
        }
    }
}

/// Says hello from this own port until the server answers; data that this end is to receive are an answer
/// too: the server has begun, and its welcome was lost or overtaken.
fn open_udp(
    options: &Options,
    parameters: &Parameters,
    to: SocketAddr,
    (port, sends): (u16, bool),
    stop: &AtomicBool,
) -> Result<UdpSocket, NetError> {
    let socket = socket::connect_udp(to, options.origin(port), parameters)?;
    let fail = |source| NetError::Connect { to, source };
    socket.set_read_timeout(Some(Duration::from_millis(50))).map_err(fail)?;
    let begun = Instant::now();
    let mut said: Option<Instant> = None;
    let mut room = [0; 64];
    while begun.elapsed() < options.timeout {
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(NetError::Interrupted);
        }
        if said.is_none_or(|said| said.elapsed() >= UDP_AGAIN) {
            said = Some(Instant::now());
            match socket.send(&HELLO) {
                Err(cause) if cause.kind() != std::io::ErrorKind::ConnectionRefused => {
                    return Err(fail(cause));
                }
                _ => {}
            }
        }
        match socket.recv(&mut room) {
            Ok(count) if is_welcome(&room[..count]) => return Ok(socket),
            Ok(count) if !sends && count >= Head::length(parameters.wide_counters) => return Ok(socket),
            Ok(_) => {}
            Err(cause) if is_pause(&cause) => {}
            Err(cause) if cause.kind() == std::io::ErrorKind::ConnectionRefused => {
                // No socket there yet, or a firewall that says so: the next hello will tell.
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(cause) => return Err(fail(cause)),
        }
    }
    Err(NetError::NoUdp { to, timeout: options.timeout })
}

fn broken(error: &NetError) -> Ending {
    Ending::Broken(error.in_full())
}
