//! Peers that follow a script, and a weir server in this process.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use weir_bench_net::NetError;
use weir_bench_net::client::{self, Options, Silent};
use weir_bench_net::cookie::Cookie;
use weir_bench_net::copies::Copies;
use weir_bench_net::outcome::{Ending, TestOutcome};
use weir_bench_net::parameters::Parameters;
use weir_bench_net::results::Output;
use weir_bench_net::server::{self, Event, Server};
use weir_bench_net::state::TestState;

/// How long a silent peer is waited for where its silence is what is tested: long enough for each word before
/// it to come on a busy machine.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);

/// Nothing here may take longer. Elsewhere the ends under test wait for so long: who is slow is not silent.
pub(crate) const BOUND: Duration = Duration::from_secs(20);

pub(crate) fn options(port: u16) -> Options {
    let parameters = Parameters { bytes: 200_000, time: 0, ..Parameters::new() };
    Options { parameters, timeout: BOUND, ..Options::to("127.0.0.1", port) }
}

pub(crate) fn test(options: &Options) -> Result<TestOutcome, NetError> {
    let begun = Instant::now();
    let result = client::run(options, &mut Silent, &AtomicBool::new(false));
    assert!(begun.elapsed() < BOUND, "took {:?}", begun.elapsed());
    result
}

/// A server that follows `script` on its first connection, and keeps the others open until it is through.
pub(crate) fn scripted(
    script: impl FnOnce(&mut TcpStream, &TcpListener) + Send + 'static,
) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let (mut control, _) = listener.accept().unwrap();
        control.set_read_timeout(Some(BOUND)).unwrap();
        read(&mut control, Cookie::LENGTH);
        script(&mut control, &listener);
    });
    (port, thread)
}

/// An address that refuses: its socket is bound and does not listen, so that nobody else gets it meanwhile.
pub(crate) fn refusing() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

pub(crate) fn read(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    let _ = stream.read_exact(&mut bytes);
    bytes
}

pub(crate) fn read_frame(stream: &mut TcpStream) -> serde_json::Value {
    let head = read(stream, 4);
    let length = u32::from_be_bytes(head.try_into().unwrap()) as usize;
    serde_json::from_slice(&read(stream, length)).unwrap_or_default()
}

pub(crate) fn say(stream: &mut TcpStream, states: &[TestState]) {
    let bytes: Vec<u8> = states.iter().map(|state| state.byte()).collect();
    let _ = stream.write_all(&bytes);
}

pub(crate) fn tell(stream: &mut TcpStream, value: &serde_json::Value) {
    let _ = stream.write_all(&weir_bench_net::frame::encode(value).unwrap());
}

/// Plays a server up to the moment in which data flow; returns the data connection.
pub(crate) fn up_to_data(control: &mut TcpStream, listener: &TcpListener) -> TcpStream {
    say(control, &[TestState::ParamExchange]);
    read_frame(control);
    say(control, &[TestState::CreateStreams]);
    let (mut data, _) = listener.accept().unwrap();
    read(&mut data, Cookie::LENGTH);
    say(control, &[TestState::TestStart, TestState::TestRunning]);
    data
}

/// Takes all data of a client until it says that the test is over.
pub(crate) fn take_data(control: &mut TcpStream, data: TcpStream) {
    let mut data = data;
    let eater = std::thread::spawn(move || drop(std::io::copy(&mut data, &mut std::io::sink())));
    assert_eq!(read(control, 1), [TestState::TestEnd.byte()]);
    eater.join().unwrap();
}

/// A weir server in this process.
pub(crate) struct Served {
    pub(crate) port: u16,
    stop: Arc<AtomicBool>,
    pub(crate) events: Receiver<Event>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub(crate) fn new() -> Served {
        Served::with(|_| ())
    }

    /// One that soon gives up a client which says nothing.
    pub(crate) fn impatient() -> Served {
        Served::with(|options| options.timeout = SILENCE)
    }

    /// With other bounds than usual.
    pub(crate) fn with(change: impl FnOnce(&mut server::Options)) -> Served {
        let (sender, events) = channel();
        let mut options = server::Options {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            one_off: false,
            most_clients: 4,
            most_time: Some(Duration::from_secs(60)),
            most_bytes: None,
            most_rate: None,
            rate_span: server::RATE_SPAN,
            timeout: BOUND,
            receive_timeout: BOUND,
            idle: None,
            wiring: weir_bench_net::Wiring::default(),
            interval: Duration::ZERO,
            copies: Copies::default(),
            bundles: true,
            guard: None,
            report: Box::new(|_| Output::Text(String::new())),
        };
        change(&mut options);
        let sender = Mutex::new(sender);
        let tell = move |event| drop(sender.lock().unwrap().send(event));
        let server = Server::bind(options, Box::new(tell)).unwrap();
        let port = server.addresses()[0].port();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || server.run(&flag).unwrap());
        Served { port, stop, events, thread: Some(thread) }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        stream
    }

    /// A control connection that was asked for its parameters, and its cookie. A test that has just ended may
    /// still count.
    pub(crate) fn greeted(&self) -> (TcpStream, Cookie) {
        loop {
            let mut stream = self.connect();
            let cookie = Cookie::random();
            stream.write_all(cookie.bytes()).unwrap();
            match TestState::parse(read(&mut stream, 1)[0]).unwrap() {
                TestState::ParamExchange => return (stream, cookie),
                state => assert_eq!(state, TestState::AccessDenied),
            }
        }
    }

    /// It still serves.
    pub(crate) fn works(&self) {
        loop {
            match test(&options(self.port)) {
                Ok(outcome) => {
                    assert_eq!(outcome.ending, Ending::Complete);
                    assert_eq!(outcome.sum(true, |stream| stream.received).unwrap().bytes, 200_000);
                    return;
                }
                Err(error) => assert!(matches!(error, NetError::Denied(_)), "{error}"),
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// The next end of a test that came as far as its parameters.
pub(crate) fn ended(served: &Served) -> Event {
    loop {
        match served.events.recv_timeout(BOUND).unwrap() {
            Event::Failed(_, NetError::Closed { .. } | NetError::Control { .. }) => {}
            event @ (Event::Failed(..) | Event::Ended(..)) => return event,
            _ => {}
        }
    }
}
