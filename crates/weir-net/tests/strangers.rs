//! Peers that are busy, dead, half-open or lie, at every state of the protocol: each ends in an error in bounded time, and a
//! server goes on serving.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::json;
use weir_net::Error;
use weir_net::client::{self, Options, Silent};
use weir_net::cookie::Cookie;
use weir_net::outcome::{Copies, Ending, Outcome};
use weir_net::parameters::{Parameters, Transport};
use weir_net::results::{Output, Results, StreamResults};
use weir_net::server::{self, Event, Server};
use weir_net::state::State;

/// How long the ends under test wait for a silent peer.
const PATIENCE: Duration = Duration::from_millis(300);

/// Nothing here may take longer.
const BOUND: Duration = Duration::from_secs(20);

fn options(port: u16) -> Options {
    let parameters = Parameters { bytes: 200_000, time: 0, ..Parameters::new() };
    Options { parameters, patience: PATIENCE, ..Options::to("127.0.0.1", port) }
}

fn test(options: &Options) -> Result<Outcome, Error> {
    let begun = Instant::now();
    let result = client::run(options, &mut Silent, &AtomicBool::new(false));
    assert!(begun.elapsed() < BOUND, "took {:?}", begun.elapsed());
    result
}

/// A server that follows `script` on its first connection, and keeps the others open until it is through.
fn scripted(script: impl FnOnce(&mut TcpStream, &TcpListener) + Send + 'static) -> (u16, JoinHandle<()>) {
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

fn read(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    let _ = stream.read_exact(&mut bytes);
    bytes
}

fn read_frame(stream: &mut TcpStream) -> serde_json::Value {
    let head = read(stream, 4);
    let length = u32::from_be_bytes(head.try_into().unwrap()) as usize;
    serde_json::from_slice(&read(stream, length)).unwrap_or_default()
}

fn say(stream: &mut TcpStream, states: &[State]) {
    let bytes: Vec<u8> = states.iter().map(|state| state.byte()).collect();
    let _ = stream.write_all(&bytes);
}

fn tell(stream: &mut TcpStream, value: &serde_json::Value) {
    let _ = stream.write_all(&weir_net::frame::encode(value).unwrap());
}

/// Plays a server up to the moment in which data flow; returns the data connection.
fn up_to_data(control: &mut TcpStream, listener: &TcpListener) -> TcpStream {
    say(control, &[State::ParamExchange]);
    read_frame(control);
    say(control, &[State::CreateStreams]);
    let (mut data, _) = listener.accept().unwrap();
    read(&mut data, Cookie::LENGTH);
    say(control, &[State::TestStart, State::TestRunning]);
    data
}

/// Takes all data of a client until it says that the test is over.
fn take_data(control: &mut TcpStream, data: TcpStream) {
    let mut data = data;
    let eater = std::thread::spawn(move || drop(std::io::copy(&mut data, &mut std::io::sink())));
    assert_eq!(read(control, 1), [State::TestEnd.byte()]);
    eater.join().unwrap();
}

fn words(error: &Error) -> String {
    error.to_string()
}

#[test]
fn a_busy_server_is_told_from_a_dead_one() {
    let (port, thread) = scripted(|control, _| say(control, &[State::AccessDenied]));
    let error = test(&options(port)).unwrap_err();
    assert!(matches!(error, Error::Denied(_)), "{error}");
    thread.join().unwrap();
    let (port, thread) = scripted(|_, _| ());
    let error = test(&options(port)).unwrap_err();
    // Closed, or reset where it had not read all.
    assert!(matches!(error, Error::Closed { .. } | Error::Control { .. }), "{error}");
    thread.join().unwrap();
}

#[test]
fn a_silent_server_is_given_up() {
    let (end, ended) = channel::<()>();
    let (port, thread) = scripted(move |_, _| {
        let _ = ended.recv();
    });
    let error = test(&options(port)).unwrap_err();
    assert!(matches!(error, Error::Silent { .. }), "{error}");
    assert!(words(&error).contains("expected its question"), "{error}");
    drop(end);
    thread.join().unwrap();
}

#[test]
fn early_ends_at_every_state_are_errors() {
    for steps in 0..5 {
        let (port, thread) = scripted(move |control, listener| {
            if steps > 0 {
                say(control, &[State::ParamExchange]);
                read_frame(control);
            }
            if steps > 1 {
                say(control, &[State::CreateStreams]);
                let _data = listener.accept().unwrap();
                if steps > 2 {
                    say(control, &[State::TestStart]);
                }
                if steps > 3 {
                    say(control, &[State::TestRunning]);
                }
            }
        });
        let parameters = Parameters { time: 30, ..Parameters::new() };
        match test(&Options { parameters, ..options(port) }) {
            Err(_) => {}
            Ok(outcome) => {
                assert!(matches!(outcome.ending, Ending::Broken(_)), "{steps}: {:?}", outcome.ending)
            }
        }
        thread.join().unwrap();
    }
}

#[test]
fn wrong_words_are_named() {
    for (bytes, word) in [
        (vec![State::TestEnd.byte()], "TestEnd"),
        (vec![77], "unknown state 77"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "unknown state 72"),
        (vec![State::ServerTerminate.byte()], "ended the test"),
        ([&[State::ServerError.byte()][..], &[0, 0, 0, 142, 0, 0, 0, 13]].concat(), "not authorised"),
        (vec![State::ServerError.byte(), 1], "number of its error"),
    ] {
        let (port, thread) = scripted(move |control, _| {
            let _ = control.write_all(&bytes);
            let _ = control.shutdown(std::net::Shutdown::Write);
            read(control, 1);
        });
        let error = test(&options(port)).unwrap_err();
        assert!(words(&error).contains(word), "{error}");
        thread.join().unwrap();
    }
}

/// After the data: results that are too long, no JSON, of wrong types, of unknown streams.
#[test]
fn lies_in_the_results_are_told_and_the_own_figures_kept() {
    let good = |id| Results {
        streams: vec![StreamResults { id, bytes: 200_000, end: Some(0.1), ..StreamResults::default() }],
        ..Results::default()
    };
    let frames = [
        ([0xff; 4].to_vec(), Some("announced")),
        ([&[0, 0, 0, 3][..], b"{\"a"].concat(), Some("no JSON")),
        (weir_net::frame::encode(&json!([1, 2])).unwrap(), Some("streams")),
        (weir_net::frame::encode(&json!({ "streams": 7 })).unwrap(), Some("streams")),
        (vec![0, 0, 1, 0, b'{'], Some("")),
        (weir_net::frame::encode(&good(9).to_json()).unwrap(), None),
        (weir_net::frame::encode(&good(1).to_json()).unwrap(), None),
    ];
    for (frame, word) in frames {
        let (port, thread) = scripted(move |control, listener| {
            let data = up_to_data(control, listener);
            take_data(control, data);
            say(control, &[State::ExchangeResults]);
            read_frame(control);
            let _ = control.write_all(&frame);
            say(control, &[State::DisplayResults]);
            read(control, 1);
        });
        let outcome = test(&options(port)).unwrap();
        let sent = outcome.sum(true, |stream| stream.sent).unwrap();
        assert_eq!(sent.bytes, 200_000, "what this end counted stays");
        match (&outcome.ending, word) {
            (Ending::Broken(why), Some(word)) => assert!(why.contains(word), "{why}"),
            (Ending::Complete, None) => {}
            (ending, _) => panic!("{ending:?}, expected {word:?}"),
        }
        thread.join().unwrap();
    }
}

#[test]
fn a_server_that_gives_up_in_the_middle_leaves_the_figures() {
    let (port, thread) = scripted(|control, listener| {
        let mut data = up_to_data(control, listener);
        read(&mut data, 100_000);
        say(control, &[State::ServerTerminate]);
        read(control, 1);
    });
    let parameters = Parameters { time: 30, ..Parameters::new() };
    let outcome = test(&Options { parameters, ..options(port) }).unwrap();
    assert!(matches!(&outcome.ending, Ending::Broken(why) if why.contains("ended the test")));
    assert!(outcome.sum(true, |stream| stream.sent).unwrap().bytes > 0);
    thread.join().unwrap();
}

#[test]
fn udp_that_nobody_answers_is_told() {
    let (port, thread) = scripted(|control, _| {
        say(control, &[State::ParamExchange]);
        read_frame(control);
        say(control, &[State::CreateStreams]);
        read(control, 1);
    });
    let parameters = Parameters { transport: Transport::Udp, block: 0, time: 1, ..Parameters::new() };
    let error = test(&Options { parameters, ..options(port) }).unwrap_err();
    assert!(matches!(error, Error::NoUdp { .. }), "{error}");
    assert!(words(&error).contains("firewall"), "{error}");
    thread.join().unwrap();
}

/// A weir server in this process.
struct Served {
    port: u16,
    stop: Arc<AtomicBool>,
    events: Receiver<Event>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn new() -> Served {
        let (sender, events) = channel();
        let options = server::Options {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            one_off: false,
            most_clients: 4,
            most_time: Duration::from_secs(60),
            most_bytes: None,
            most_rate: None,
            patience: PATIENCE,
            interval: Duration::ZERO,
            copies: Copies::default(),
            bundles: true,
            guard: None,
            report: Box::new(|_| Output::Text(String::new())),
        };
        let sender = Mutex::new(sender);
        let tell = move |event| drop(sender.lock().unwrap().send(event));
        let server = Server::bind(options, Box::new(tell)).unwrap();
        let port = server.addresses()[0].port();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || server.run(&flag).unwrap());
        Served { port, stop, events, thread: Some(thread) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        stream
    }

    /// A control connection that was asked for its parameters, and its cookie. A test that has just ended may still count.
    fn greeted(&self) -> (TcpStream, Cookie) {
        loop {
            let mut stream = self.connect();
            let cookie = Cookie::random();
            stream.write_all(cookie.bytes()).unwrap();
            match State::parse(read(&mut stream, 1)[0]).unwrap() {
                State::ParamExchange => return (stream, cookie),
                state => assert_eq!(state, State::AccessDenied),
            }
        }
    }

    /// It still serves.
    fn works(&self) {
        loop {
            match test(&Options { patience: BOUND, ..options(self.port) }) {
                Ok(outcome) => {
                    assert_eq!(outcome.ending, Ending::Complete);
                    assert_eq!(outcome.sum(true, |stream| stream.received).unwrap().bytes, 200_000);
                    return;
                }
                Err(error) => assert!(matches!(error, Error::Denied(_)), "{error}"),
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

#[test]
fn a_server_outlives_clients_that_leave_at_every_state() {
    let served = Served::new();
    drop(served.connect());
    let mut half = served.connect();
    half.write_all(b"half a cookie").unwrap();
    drop(half);
    let mut other = served.connect();
    other.write_all(b"GET / HTTP/1.1\r\nHost: somewhere.example\r\n\r\n").unwrap();
    assert!(read(&mut other, 1) == [0], "nothing is answered to what is no cookie");
    drop(served.greeted());
    for parameters in [
        json!({ "tcp": true, "time": 1, "parallel": 1, "len": 1000 }),
        json!({ "udp": true, "time": 1, "parallel": 2, "len": 1000 }),
    ] {
        let (mut control, _) = served.greeted();
        tell(&mut control, &parameters);
        assert_eq!(read(&mut control, 1), [State::CreateStreams.byte()]);
        // Silent, its streams never made: given up within the server's patience.
        assert!(matches!(ended(&served), Event::Failed(_, Error::Streams { .. })));
    }
    let (mut control, cookie) = served.greeted();
    tell(&mut control, &json!({ "tcp": true, "time": 1, "parallel": 1 }));
    assert_eq!(read(&mut control, 1), [State::CreateStreams.byte()]);
    let mut data = served.connect();
    data.write_all(cookie.bytes()).unwrap();
    assert_eq!(read(&mut control, 2), [State::TestStart.byte(), State::TestRunning.byte()]);
    drop(control);
    match ended(&served) {
        Event::Ended(_, outcome) => assert!(matches!(outcome.ending, Ending::Broken(_))),
        event => panic!("{event:?}"),
    }
    served.works();
}

/// The next end of a test that came as far as its parameters.
fn ended(served: &Served) -> Event {
    loop {
        match served.events.recv_timeout(BOUND).unwrap() {
            Event::Failed(_, Error::Closed { .. } | Error::Control { .. }) => {}
            event @ (Event::Failed(..) | Event::Ended(..)) => return event,
            _ => {}
        }
    }
}

#[test]
fn parameters_that_cannot_be_are_refused() {
    let served = Served::new();
    for frame in [
        vec![0xff; 4],
        vec![0, 0, 0x20, 0x01],
        [&[0, 0, 0, 4][..], b"nope"].concat(),
        weir_net::frame::encode(&json!({ "tcp": true, "parallel": 500 })).unwrap(),
        weir_net::frame::encode(&json!({ "sctp": true })).unwrap(),
        weir_net::frame::encode(&json!({ "tcp": true, "time": 1_000 })).unwrap(),
        weir_net::frame::encode(&json!({ "tcp": true, "time": 1, "congestion": "none-such" })).unwrap(),
    ] {
        let (mut control, cookie) = served.greeted();
        control.write_all(&frame).unwrap();
        let mut answer = read(&mut control, 1);
        if answer == [State::CreateStreams.byte()] {
            // What only shows on a socket.
            let mut data = served.connect();
            data.write_all(cookie.bytes()).unwrap();
            answer = read(&mut control, 1);
        }
        let refusals = [State::AccessDenied.byte(), State::ServerError.byte()];
        assert!(refusals.contains(&answer[0]), "{frame:?}: {answer:?}");
    }
    served.works();
}

/// Control connections with bytes changed at random, on both ends: no panic, no hang, and the server goes on.
#[test]
fn mutated_words_leave_both_ends_standing() {
    let rounds = std::env::var("WEIR_SOAK").ok().and_then(|count| count.parse().ok()).unwrap_or(60);
    let mut dice = fastrand::Rng::with_seed(5201);
    let served = Served::new();
    let parameters = Parameters { time: 1, ..Parameters::new() }.to_json();
    let results = Results { streams: vec![StreamResults::default()], ..Results::default() }.to_json();
    for _ in 0..rounds {
        // A client's words, one after another without waiting.
        let mut words = weir_net::frame::encode(&parameters).unwrap();
        words.push(State::TestEnd.byte());
        words.extend(weir_net::frame::encode(&results).unwrap());
        words.push(State::IperfDone.byte());
        mutate(&mut words, &mut dice);
        let (mut control, cookie) = served.greeted();
        let mut data = served.connect();
        data.write_all(cookie.bytes()).unwrap();
        let _ = control.write_all(&words);
        let _ = control.shutdown(std::net::Shutdown::Write);
        let _ = std::io::copy(&mut control, &mut std::io::sink());
        // A server's words likewise.
        let mut words = vec![State::ParamExchange.byte(), State::CreateStreams.byte()];
        words.extend([State::TestStart.byte(), State::TestRunning.byte(), State::ExchangeResults.byte()]);
        words.extend(weir_net::frame::encode(&results).unwrap());
        words.push(State::DisplayResults.byte());
        mutate(&mut words, &mut dice);
        let (port, thread) = scripted(move |control, listener| {
            let _ = control.write_all(&words);
            let _ = control.shutdown(std::net::Shutdown::Write);
            listener.set_nonblocking(true).unwrap();
            let _ = std::io::copy(control, &mut std::io::sink());
        });
        let _ = test(&options(port));
        thread.join().unwrap();
    }
    served.works();
}

fn mutate(words: &mut Vec<u8>, dice: &mut fastrand::Rng) {
    for _ in 0..dice.usize(1..4) {
        let at = dice.usize(..words.len());
        match dice.u8(..4) {
            0 => words[at] = dice.u8(..),
            1 => words.truncate(at.max(1)),
            2 => words.insert(at, dice.u8(..)),
            _ => drop(words.remove(at)),
        }
    }
}
