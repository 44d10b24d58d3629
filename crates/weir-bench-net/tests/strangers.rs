//! Peers that are busy, dead, half-open or lie, at every state of the protocol: each ends in an error in
//! bounded time, and a server goes on serving.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::json;
use support::{
    BOUND, SILENCE, Served, ended, options, read, read_frame, say, scripted, take_data, tell, test,
    up_to_data,
};
use weir_bench_net::NetError;
use weir_bench_net::client::{self, Options, Silent};
use weir_bench_net::cookie::Cookie;
use weir_bench_net::outcome::Ending;
use weir_bench_net::parameters::{Direction, Parameters, Transport};
use weir_bench_net::results::{Output, Results, StreamResults};
use weir_bench_net::server::Event;
use weir_bench_net::state::TestState;

fn words(error: &NetError) -> String {
    error.to_string()
}

#[test]
fn a_busy_server_is_told_from_a_dead_one() {
    let (port, thread) = scripted(|control, _| say(control, &[TestState::AccessDenied]));
    let error = test(&options(port)).unwrap_err();
    assert!(matches!(error, NetError::Denied(_)), "{error}");
    thread.join().unwrap();
    let (port, thread) = scripted(|_, _| ());
    let error = test(&options(port)).unwrap_err();
    // Closed, or reset where it had not read all.
    assert!(matches!(error, NetError::Closed { .. } | NetError::Control { .. }), "{error}");
    thread.join().unwrap();
}

#[test]
fn a_silent_server_is_given_up() {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let (port, thread) = scripted(move |_, _| {
        let _ = ended.recv();
    });
    let error = test(&Options { timeout: SILENCE, ..options(port) }).unwrap_err();
    assert!(matches!(error, NetError::Silent { .. }), "{error}");
    assert!(words(&error).contains("expected its question"), "{error}");
    drop(end);
    thread.join().unwrap();
}

#[test]
fn early_ends_at_every_state_are_errors() {
    for steps in 0..5 {
        let (port, thread) = scripted(move |control, listener| {
            if steps > 0 {
                say(control, &[TestState::ParamExchange]);
                read_frame(control);
            }
            if steps > 1 {
                say(control, &[TestState::CreateStreams]);
                let _data = listener.accept().unwrap();
                if steps > 2 {
                    say(control, &[TestState::TestStart]);
                }
                if steps > 3 {
                    say(control, &[TestState::TestRunning]);
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
        (vec![TestState::TestEnd.byte()], "TestEnd"),
        (vec![77], "unknown state 77"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "unknown state 72"),
        (vec![TestState::ServerTerminate.byte()], "ended the test"),
        ([&[TestState::ServerError.byte()][..], &[0, 0, 0, 142, 0, 0, 0, 13]].concat(), "not authorised"),
        // iperf3 3.12 refuses a login by one number and closes.
        ([&[TestState::ServerError.byte()][..], &[0, 0, 0, 142]].concat(), "needs --use-pkcs1-padding"),
        (vec![TestState::ServerError.byte(), 1], "number of its error"),
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
    const SILENT: &str = "was silent";
    let good = |id| Results {
        streams: vec![StreamResults { id, bytes: 200_000, end: Some(0.1), ..StreamResults::default() }],
        ..Results::default()
    };
    let frames = [
        ([0xff; 4].to_vec(), Some("announced")),
        ([&[0, 0, 0, 3][..], b"{\"a"].concat(), Some("malformed JSON")),
        (weir_bench_net::frame::encode(&json!([1, 2])).unwrap(), Some("streams")),
        (weir_bench_net::frame::encode(&json!({ "streams": 7 })).unwrap(), Some("streams")),
        // Of which no more comes.
        (vec![0, 0, 1, 0, b'{'], Some(SILENT)),
        (weir_bench_net::frame::encode(&good(9).to_json()).unwrap(), None),
        (weir_bench_net::frame::encode(&good(1).to_json()).unwrap(), None),
    ];
    for (frame, word) in frames {
        let (port, thread) = scripted(move |control, listener| {
            let data = up_to_data(control, listener);
            take_data(control, data);
            say(control, &[TestState::ExchangeResults]);
            read_frame(control);
            let _ = control.write_all(&frame);
            say(control, &[TestState::DisplayResults]);
            read(control, 1);
        });
        let timeout = if word == Some(SILENT) { SILENCE } else { BOUND };
        let outcome = test(&Options { timeout, ..options(port) }).unwrap();
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

/// Numbers that no test has make no figure of this end infinite: a time that cannot be gives way to this
/// end's own.
#[test]
fn hostile_numbers_in_the_results_make_no_infinite_figure() {
    let results = |name: &str, value: &str| {
        let text = Results {
            streams: vec![StreamResults {
                id: 1,
                bytes: 200_000,
                end: Some(0.5),
                ..StreamResults::default()
            }],
            ..Results::default()
        };
        let (mut value, mut json) = (serde_json::from_str(value).unwrap(), text.to_json());
        if name.starts_with("cpu") {
            std::mem::swap(&mut json[name], &mut value);
        } else {
            std::mem::swap(&mut json["streams"][0][name], &mut value);
        }
        weir_bench_net::frame::encode(&json).unwrap()
    };
    for (name, value) in [
        ("end_time", "1e308"),
        ("end_time", "-1e308"),
        ("end_time", "1e-308"),
        ("end_time", "0"),
        ("end_time", "\"1\""),
        ("start_time", "-1e308"),
        ("start_time", "1e308"),
        ("bytes", "9007199254740992"),
        ("bytes", "1e18"),
        ("retransmits", "1e18"),
        ("jitter", "1e308"),
        ("packets", "9e15"),
        ("cpu_util_total", "1e308"),
    ] {
        let frame = results(name, value);
        let (port, thread) = scripted(move |control, listener| {
            let data = up_to_data(control, listener);
            take_data(control, data);
            say(control, &[TestState::ExchangeResults]);
            read_frame(control);
            let _ = control.write_all(&frame);
            say(control, &[TestState::DisplayResults]);
            read(control, 1);
        });
        let outcome = test(&options(port)).unwrap();
        for sum in [outcome.sum(true, |stream| stream.sent), outcome.sum(true, |stream| stream.received)] {
            let Some(sum) = sum else { continue };
            let rate = sum.bytes as f64 * 8.0 / sum.seconds;
            assert!(
                sum.seconds > 0.0 && sum.seconds < 200_000.0 && rate.is_finite(),
                "{name} {value}: {sum:?}"
            );
        }
        let cpu = outcome.remote_cpu.unwrap_or_default();
        assert!(cpu.total.is_finite() && cpu.total < 1e6, "{name} {value}: {cpu:?}");
        thread.join().unwrap();
    }
}

#[test]
fn a_test_without_data_ends() {
    let (port, thread) = scripted(|control, listener| {
        let data = up_to_data(control, listener);
        read(control, 1);
        drop(data);
    });
    let parameters = Parameters { time: 30, direction: Direction::Reverse, ..Parameters::new() };
    let receive_timeout = Duration::from_millis(200);
    let outcome = test(&Options { parameters, receive_timeout, ..options(port) }).unwrap();
    assert!(
        matches!(&outcome.ending, Ending::Broken(why) if why.contains("no data came")),
        "{:?}",
        outcome.ending
    );
    thread.join().unwrap();
    let served = Served::with(|options| options.receive_timeout = Duration::from_millis(200));
    let (mut control, cookie) = served.greeted();
    tell(&mut control, &json!({ "tcp": true, "time": 30, "parallel": 1 }));
    assert_eq!(read(&mut control, 1), [TestState::CreateStreams.byte()]);
    let mut data = served.connect();
    data.write_all(cookie.bytes()).unwrap();
    assert_eq!(read(&mut control, 2), [TestState::TestStart.byte(), TestState::TestRunning.byte()]);
    // iperf3's own number for it: IENOMSG.
    assert_eq!(
        read(&mut control, 5),
        [&[TestState::ServerError.byte()][..], &144_i32.to_be_bytes()].concat()
    );
}

#[test]
fn a_repeating_payload_is_iperf2_s_digits() {
    let (port, thread) = scripted(|control, listener| {
        let mut data = up_to_data(control, listener);
        let begun = read(&mut data, 25);
        take_data(control, data);
        assert_eq!(begun, b"0123456789012345678901234");
    });
    let parameters = Parameters { bytes: 200_000, time: 0, repeating: true, ..Parameters::new() };
    let _ = test(&Options { parameters, ..options(port) });
    thread.join().unwrap();
}

#[test]
fn a_server_that_gives_up_in_the_middle_leaves_the_figures() {
    let (port, thread) = scripted(|control, listener| {
        let mut data = up_to_data(control, listener);
        read(&mut data, 100_000);
        say(control, &[TestState::ServerTerminate]);
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
        say(control, &[TestState::ParamExchange]);
        read_frame(control);
        say(control, &[TestState::CreateStreams]);
        read(control, 1);
    });
    let parameters = Parameters { transport: Transport::Udp, block: 0, time: 1, ..Parameters::new() };
    let error = test(&Options { parameters, timeout: SILENCE, ..options(port) }).unwrap_err();
    assert!(matches!(error, NetError::NoUdp { .. }), "{error}");
    assert!(words(&error).contains("firewall"), "{error}");
    thread.join().unwrap();
}

/// Leads a test to its stream: a socket at the server's port, and the client whose hello came to it.
fn greeted(control: &mut TcpStream, listener: &TcpListener) -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind(listener.local_addr().unwrap()).unwrap();
    socket.set_read_timeout(Some(BOUND)).unwrap();
    say(control, &[TestState::ParamExchange]);
    read_frame(control);
    say(control, &[TestState::CreateStreams]);
    let (_, client) = socket.recv_from(&mut [0; 64]).unwrap();
    (socket, client)
}

#[test]
fn datagrams_of_which_none_came_are_lost() {
    let (port, thread) = scripted(|control, listener| {
        let (socket, client) = greeted(control, listener);
        socket.send_to(b"6789", client).unwrap();
        say(control, &[TestState::TestStart, TestState::TestRunning]);
        assert_eq!(read(control, 1), [TestState::TestEnd.byte()]);
        say(control, &[TestState::ExchangeResults]);
        read_frame(control);
        let stream = StreamResults { id: 1, end: Some(0.1), ..StreamResults::default() };
        tell(control, &Results { streams: vec![stream], ..Results::default() }.to_json());
        say(control, &[TestState::DisplayResults]);
        read(control, 1);
    });
    let parameters =
        Parameters { transport: Transport::Udp, block: 1000, bytes: 50_000, time: 0, ..Parameters::new() };
    let outcome = test(&Options { parameters, ..options(port) }).unwrap();
    assert_eq!(outcome.ending, Ending::Complete);
    let received = outcome.sum(true, |stream| stream.received).unwrap().udp.unwrap();
    assert_eq!((received.packets, received.lost), (50, 50));
    thread.join().unwrap();
}

#[test]
fn data_stand_for_a_welcome_that_was_lost() {
    let (port, thread) = scripted(|control, listener| {
        let (socket, client) = greeted(control, listener);
        // Its first datagram, and no welcome before it.
        let mut datagram = [0; 1000];
        datagram[11] = 1;
        socket.send_to(&datagram, client).unwrap();
        say(control, &[TestState::TestStart, TestState::TestRunning, TestState::ServerTerminate]);
        read(control, 1);
    });
    let (transport, direction) = (Transport::Udp, Direction::Reverse);
    let parameters = Parameters { transport, direction, block: 1000, time: 30, ..Parameters::new() };
    let outcome = test(&Options { parameters, ..options(port) }).unwrap();
    assert!(matches!(&outcome.ending, Ending::Broken(why) if why.contains("ended the test")));
    thread.join().unwrap();
}

/// The server hears it on the socket that is this stream's already, while it waits for the next one.
#[test]
fn a_hello_that_is_said_again_is_answered_again() {
    let served = Served::new();
    let (mut control, _) = served.greeted();
    tell(&mut control, &json!({ "udp": true, "time": 1, "parallel": 2, "len": 1000 }));
    assert_eq!(read(&mut control, 1), [TestState::CreateStreams.byte()]);
    let client = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(BOUND)).unwrap();
        socket.connect(("127.0.0.1", served.port)).unwrap();
        socket
    };
    let first = client();
    for _ in 0..2 {
        first.send(b"9876").unwrap();
        assert_eq!(first.recv(&mut [0; 64]).unwrap(), 4);
    }
    let second = client();
    second.send(b"9876").unwrap();
    assert_eq!(second.recv(&mut [0; 64]).unwrap(), 4);
    assert_eq!(read(&mut control, 2), [TestState::TestStart.byte(), TestState::TestRunning.byte()]);
}

#[test]
fn a_server_without_bounds_takes_the_longest_test() {
    let served = Served::with(|options| (options.most_time, options.most_bytes) = (None, None));
    let (mut control, _) = served.greeted();
    tell(&mut control, &json!({ "tcp": true, "time": 86_400, "parallel": 1 }));
    assert_eq!(read(&mut control, 1), [TestState::CreateStreams.byte()]);
}

/// Nobody answers at a listener whose queue is full, so that a connect waits.
#[test]
fn a_connect_that_waits_hears_the_user() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let at = socket.local_addr().unwrap().as_socket().unwrap();
    // What the queue takes, and one more that is not.
    let mut waiting = Vec::new();
    while let Ok(stream) = std::net::TcpStream::connect_timeout(&at, SILENCE) {
        waiting.push(stream);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let options = Options { connect: BOUND, ..options(at.port()) };
    let thread =
        std::thread::spawn(move || client::run(&options, &mut Silent, &told).map(|_| ()).unwrap_err());
    let begun = Instant::now();
    stop.store(true, Relaxed);
    assert!(matches!(thread.join().unwrap(), NetError::Interrupted));
    assert!(begun.elapsed() < BOUND / 2, "{:?}", begun.elapsed());
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
    let impatient = Served::impatient();
    for parameters in [
        json!({ "tcp": true, "time": 1, "parallel": 1, "len": 1000 }),
        json!({ "udp": true, "time": 1, "parallel": 2, "len": 1000 }),
    ] {
        let (mut control, _) = impatient.greeted();
        tell(&mut control, &parameters);
        assert_eq!(read(&mut control, 1), [TestState::CreateStreams.byte()]);
        // Silent, its streams never made: given up within the server's timeout.
        assert!(matches!(ended(&impatient), Event::Failed(_, NetError::Streams { .. })));
    }
    let (mut control, cookie) = served.greeted();
    tell(&mut control, &json!({ "tcp": true, "time": 1, "parallel": 1 }));
    assert_eq!(read(&mut control, 1), [TestState::CreateStreams.byte()]);
    let mut data = served.connect();
    data.write_all(cookie.bytes()).unwrap();
    assert_eq!(read(&mut control, 2), [TestState::TestStart.byte(), TestState::TestRunning.byte()]);
    drop(control);
    match ended(&served) {
        Event::Ended(_, outcome) => assert!(matches!(outcome.ending, Ending::Broken(_))),
        event => panic!("{event:?}"),
    }
    served.works();
}

/// Each refusal carries iperf3's own number for it, and the system's where there is one.
#[test]
fn parameters_that_cannot_be_are_refused() {
    let served = Served::with(|options| {
        options.most_bytes = Some(1_000_000);
        options.most_rate = Some(1_000_000);
    });
    let of = |value: serde_json::Value| weir_bench_net::frame::encode(&value).unwrap();
    for (frame, code, errno) in [
        (vec![0xff; 4], 114, 0),
        (vec![0, 0, 0x20, 0x01], 114, 0),
        ([&[0, 0, 0, 4][..], b"nope"].concat(), 114, 0),
        (of(json!([1])), 114, 0),
        (of(json!({ "tcp": true, "parallel": 500 })), 6, 0),
        (of(json!({ "tcp": true, "len": 1 << 21 })), 7, 0),
        (of(json!({ "udp": true, "len": 8 })), 20, 0),
        (of(json!({ "sctp": true })), 18, 0),
        (of(json!({ "tcp": true, "time": 100_000 })), 5, 0),
        (of(json!({ "tcp": true, "time": 1_000 })), 5, 0),
        (of(json!({ "tcp": true, "time": 1, "bandwidth": 2_000_000 })), 27, 0),
        (of(json!({ "tcp": true, "num": 2_000_000 })), 101, 27),
        (of(json!({ "tcp": true, "time": 1, "congestion": "none-such" })), 134, 2),
        (of(json!({ "tcp": true, "weir_transactions": { "kind": "rr", "request": 1 << 30 } })), 114, 0),
    ] {
        let (mut control, cookie) = served.greeted();
        control.write_all(&frame).unwrap();
        let mut answer = read(&mut control, 1);
        if answer == [TestState::CreateStreams.byte()] {
            // What only shows on a socket.
            let mut data = served.connect();
            data.write_all(cookie.bytes()).unwrap();
            answer = read(&mut control, 1);
        }
        let numbers: [i32; 2] = [code, errno];
        assert_eq!(answer, [TestState::ServerError.byte()], "{numbers:?}");
        assert_eq!(read(&mut control, 8), numbers.map(i32::to_be_bytes).concat(), "{numbers:?}");
    }
    served.works();
}

#[test]
fn a_client_that_is_faster_than_allowed_is_told_and_ended() {
    let served = Served::with(|options| options.most_rate = Some(10_000_000));
    for direction in [Direction::Forward, Direction::Reverse] {
        let parameters = Parameters { time: 30, direction, ..Parameters::new() };
        let outcome = test(&Options { parameters, ..options(served.port) }).unwrap();
        let told = |why: &str| why.contains("error 27") && why.contains("above the server's limit");
        assert!(matches!(&outcome.ending, Ending::Broken(why) if told(why)), "{:?}", outcome.ending);
        match ended(&served) {
            Event::Ended(_, outcome) => {
                let told = |why: &str| why.contains("bit/s over") && why.contains("more than 10000000");
                assert!(matches!(&outcome.ending, Ending::Broken(why) if told(why)), "{:?}", outcome.ending);
            }
            event => panic!("{event:?}"),
        }
    }
}

/// A byte now and then is not reading: the time for all of a frame is bounded.
#[test]
fn a_client_that_reads_byte_by_byte_holds_nobody() {
    let served = Served::with(|options| {
        options.report = Box::new(|_| Output::Text("x".repeat(4 << 20)));
        // With what a report of this size may take beside it, far below the bound.
        options.timeout = Duration::from_secs(2);
    });
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    // Little room, so that the server's report does not fit what the kernel takes of it.
    socket.set_recv_buffer_size(4096).unwrap();
    let at = std::net::SocketAddr::from(([127, 0, 0, 1], served.port));
    socket.connect(&at.into()).unwrap();
    let mut control = std::net::TcpStream::from(socket);
    let cookie = Cookie::random();
    control.write_all(cookie.bytes()).unwrap();
    assert_eq!(read(&mut control, 1), [TestState::ParamExchange.byte()]);
    tell(&mut control, &json!({ "tcp": true, "num": 1, "parallel": 1, "get_server_output": 1 }));
    assert_eq!(read(&mut control, 1), [TestState::CreateStreams.byte()]);
    let mut data = served.connect();
    data.write_all(cookie.bytes()).unwrap();
    assert_eq!(read(&mut control, 2), [TestState::TestStart.byte(), TestState::TestRunning.byte()]);
    data.write_all(b"x").unwrap();
    drop(data);
    say(&mut control, &[TestState::TestEnd]);
    assert_eq!(read(&mut control, 1), [TestState::ExchangeResults.byte()]);
    tell(&mut control, &Results { streams: vec![StreamResults::default()], ..Results::default() }.to_json());
    let begun = Instant::now();
    let event = loop {
        match served.events.recv_timeout(Duration::from_millis(10)) {
            Ok(Event::Ended(_, outcome)) => break outcome.ending,
            _ => assert_eq!(read(&mut control, 1).len(), 1),
        }
        assert!(begun.elapsed() < BOUND, "still held");
    };
    assert!(matches!(&event, Ending::Broken(why) if why.contains("did not read")), "{event:?}");
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
        let mut words = weir_bench_net::frame::encode(&parameters).unwrap();
        words.push(TestState::TestEnd.byte());
        words.extend(weir_bench_net::frame::encode(&results).unwrap());
        words.push(TestState::IperfDone.byte());
        mutate(&mut words, &mut dice);
        let (mut control, cookie) = served.greeted();
        let mut data = served.connect();
        data.write_all(cookie.bytes()).unwrap();
        let _ = control.write_all(&words);
        let _ = control.shutdown(std::net::Shutdown::Write);
        let _ = std::io::copy(&mut control, &mut std::io::sink());
        // A server's words likewise.
        let mut words = vec![TestState::ParamExchange.byte(), TestState::CreateStreams.byte()];
        words.extend([
            TestState::TestStart.byte(),
            TestState::TestRunning.byte(),
            TestState::ExchangeResults.byte(),
        ]);
        words.extend(weir_bench_net::frame::encode(&results).unwrap());
        words.push(TestState::DisplayResults.byte());
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
            // Something is left, to be changed again.
            _ if words.len() > 1 => drop(words.remove(at)),
            _ => {}
        }
    }
}
