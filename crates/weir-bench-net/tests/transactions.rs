//! Transactions with a peer that works, one that is none, and ones that are dead or lie at every state.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{BOUND, SILENCE, Served, read, read_frame, refusing, say, scripted, tell};
use weir_bench_net::NetError;
use weir_bench_net::asked::{Asked, Kind};
use weir_bench_net::client::Options;
use weir_bench_net::cookie::Cookie;
use weir_bench_net::outcome::Ending;
use weir_bench_net::parameters::Parameters;
use weir_bench_net::server::Event;
use weir_bench_net::state::TestState;
use weir_bench_net::transactions::client::{Repeats, TransactionsOutcome, run};
use weir_bench_net::transactions::confidence::Goal;

const BOTH: [Kind; 2] = [Kind::Exchange, Kind::Connect];

fn options(port: u16, parallel: u32) -> Options {
    let parameters = Parameters { time: 1, parallel, ..Parameters::new() };
    Options { parameters, timeout: BOUND, ..Options::to("127.0.0.1", port) }
}

fn ask(options: &Options, asked: Asked, repeats: Repeats) -> Result<TransactionsOutcome, NetError> {
    let begun = Instant::now();
    let result = run(options, asked, repeats, &mut |_| (), &AtomicBool::new(false));
    assert!(begun.elapsed() < BOUND, "took {:?}", begun.elapsed());
    result
}

fn once(port: u16, kind: Kind) -> Result<TransactionsOutcome, NetError> {
    once_within(BOUND, port, kind)
}

/// The same with a server that may be silent for so long.
fn once_within(timeout: Duration, port: u16, kind: Kind) -> Result<TransactionsOutcome, NetError> {
    let asked = Asked { kind, request: 3, response: 5 };
    ask(&Options { timeout, ..options(port, 1) }, asked, Repeats { least: 1, most: 1, goal: None })
}

fn broken(outcome: &TransactionsOutcome) -> &str {
    match &outcome.ending {
        Ending::Broken(why) => why,
        ending => panic!("{ending:?}"),
    }
}

#[test]
fn each_request_has_its_response_whatever_the_sizes() {
    let served = Served::new();
    for kind in BOTH {
        for (request, response, parallel) in [(1, 1, 1), (1, 100_000, 2), (300_000, 7, 2)] {
            let asked = Asked { kind, request, response };
            let repeats = Repeats { least: 1, most: 1, goal: None };
            let outcome = ask(&options(served.port, parallel), asked, repeats).unwrap();
            assert_eq!(outcome.ending, Ending::Complete, "{asked:?}");
            let counted = outcome.part.transactions;
            assert!(counted > 0 && outcome.latency.len() == counted, "{asked:?}: {outcome:?}");
            let theirs = outcome.peer_part.unwrap();
            assert_eq!(theirs.transactions, counted, "{asked:?}");
            assert!(theirs.cpu > Duration::ZERO && outcome.part.cpu > Duration::ZERO, "{outcome:?}");
            match served.events.recv_timeout(BOUND).unwrap() {
                Event::Answered(_, answered) => {
                    assert_eq!((answered.asked, answered.part.transactions), (asked, counted));
                }
                event => panic!("{event:?}"),
            }
        }
    }
    served.works();
}

#[test]
fn runs_are_repeated_until_the_mean_is_sure_or_the_bound_is_reached() {
    let served = Served::new();
    let asked = Asked { kind: Kind::Exchange, request: 1, response: 1 };
    let options = options(served.port, 1);
    // A thousand times the mean: two runs are within it, however the machine's load changes between them.
    let goal = |level, width| Some(Goal { level, width });
    let easy = ask(&options, asked, Repeats { least: 2, most: 5, goal: goal(0.5, 1e3) }).unwrap();
    assert_eq!((easy.repetitions.len(), easy.is_sure()), (2, Some(true)), "{:?}", easy.repetitions);
    // Nothing is as even as a millionth of a per cent.
    let hard = ask(&options, asked, Repeats { least: 2, most: 3, goal: goal(0.999, 1e-8) }).unwrap();
    assert_eq!((hard.repetitions.len(), hard.is_sure()), (3, Some(false)), "{:?}", hard.repetitions);
    assert_eq!(hard.ending, Ending::Complete);
    let sum: u64 = hard.repetitions.iter().map(|run| run.transactions).sum();
    assert_eq!(sum, hard.part.transactions);
}

/// As iperf3 goes on that does not know what was asked for.
#[test]
fn a_server_that_makes_none_is_named_and_told_to_forget_the_test() {
    for kind in BOTH {
        let (port, thread) = scripted(|control, _| {
            say(control, &[TestState::ParamExchange]);
            let parameters = read_frame(control);
            assert_eq!(parameters["tcp"], true, "what iperf3 reads is a test it could make");
            say(control, &[TestState::CreateStreams]);
            assert_eq!(read(control, 1), [TestState::ClientTerminate.byte()]);
        });
        let error = once(port, kind).unwrap_err();
        assert!(matches!(error, NetError::NoTransactions { .. }), "{error}");
        assert!(error.to_string().contains("weir bench net -s"), "{error}");
        thread.join().unwrap();
    }
}

/// Plays a server that agrees, with this frame.
fn agree(control: &mut TcpStream, frame: &Value) {
    say(control, &[TestState::ParamExchange]);
    read_frame(control);
    say(control, &[TestState::Transactions]);
    tell(control, frame);
}

/// Up to the moment in which requests come; returns the connection that they come over.
fn agree_to_exchange(control: &mut TcpStream, listener: &TcpListener) -> TcpStream {
    agree(control, &json!({}));
    say(control, &[TestState::CreateStreams]);
    let (mut data, _) = listener.accept().unwrap();
    data.set_read_timeout(Some(BOUND)).unwrap();
    read(&mut data, Cookie::LENGTH);
    say(control, &[TestState::TestStart, TestState::TestRunning]);
    data
}

#[test]
fn servers_that_are_silent_or_leave_before_the_first_request_are_errors() {
    let ends = |steps: usize, leaves: bool| {
        let (port, thread) = scripted(move |control, listener| {
            let mut data = None;
            if steps > 0 {
                say(control, &[TestState::ParamExchange]);
                read_frame(control);
            }
            if steps > 1 {
                say(control, &[TestState::Transactions]);
            }
            if steps > 2 {
                tell(control, &json!({}));
            }
            if steps > 3 {
                say(control, &[TestState::CreateStreams]);
                data = listener.accept().ok();
            }
            if !leaves {
                // Until the client has given up.
                let _ = std::io::copy(control, &mut std::io::sink());
            }
            drop(data);
        });
        let timeout = if leaves { BOUND } else { SILENCE };
        let error = once_within(timeout, port, Kind::Exchange).unwrap_err();
        let silent = matches!(error, NetError::Silent { .. });
        assert!(silent != leaves, "{steps} {leaves}: {error}");
        thread.join().unwrap();
    };
    let ends = &ends;
    // They wait for silence, so all at once.
    std::thread::scope(|scope| {
        for steps in 0..5 {
            for leaves in [true, false] {
                scope.spawn(move || ends(steps, leaves));
            }
        }
    });
}

#[test]
fn agreements_that_are_none_are_errors() {
    for frame in
        [json!({}), json!({ "port": 0 }), json!({ "port": 70_000 }), json!([7]), json!({ "port": "x" })]
    {
        let (port, thread) = scripted(move |control, _| {
            agree(control, &frame);
            read(control, 1);
        });
        let error = once(port, Kind::Connect).unwrap_err();
        assert!(error.to_string().contains("no port"), "{error}");
        thread.join().unwrap();
    }
    // A port on which nobody listens.
    let (port, thread) = scripted(|control, _| {
        let (_closed, address) = refusing();
        agree(control, &json!({ "port": address.port() }));
        say(control, &[TestState::TestStart, TestState::TestRunning]);
        read(control, 1);
    });
    let outcome = once(port, Kind::Connect).unwrap();
    assert!(broken(&outcome).contains("refused"), "{:?}", outcome.ending);
    thread.join().unwrap();
}

#[test]
fn servers_that_fail_among_the_requests_leave_what_was_counted() {
    type Script = fn(&mut TcpStream, TcpStream);
    const SILENT: &str = "timed out";
    let answer = |data: &mut TcpStream| {
        read(data, 3);
        data.write_all(&[0; 5]).unwrap();
    };
    let cases: [(Script, &str); 5] = [
        (|_, _| (), "failed"),
        // Half a response, then silence.
        (
            |control, mut data| {
                data.write_all(&[0; 2]).unwrap();
                read(control, 1);
            },
            SILENT,
        ),
        (|control, _data| drop((control.write_all(&[77]), read(control, 1))), "unknown state 77"),
        (
            |control, _data| drop((say(control, &[TestState::ServerTerminate]), read(control, 1))),
            "ended the test",
        ),
        (|control, _data| drop((say(control, &[TestState::TestStart]), read(control, 1))), "TestStart"),
    ];
    for (script, word) in cases {
        let (port, thread) = scripted(move |control, listener| {
            let mut data = agree_to_exchange(control, listener);
            answer(&mut data);
            answer(&mut data);
            script(control, data);
        });
        let timeout = if word == SILENT { SILENCE } else { BOUND };
        let outcome = once_within(timeout, port, Kind::Exchange).unwrap();
        // A server that leaves is seen on either connection first.
        let why = broken(&outcome);
        assert!(why.contains(word) || (word == "failed" && why.contains("closed")), "{why}: expected {word}");
        assert!(outcome.part.transactions >= 1, "{outcome:?}");
        thread.join().unwrap();
    }
}

#[test]
fn lies_about_what_was_answered_are_told() {
    type Lie = fn(u64) -> Value;
    let parts: [(Lie, &str); 4] = [
        (|count| json!({ "transactions": count + 1, "cpu_seconds": 1 }), "answers came"),
        (|count| json!({ "transactions": count, "cpu_seconds": -1 }), "cannot be used"),
        (|_| json!({ "cpu_seconds": 1 }), "cannot be used"),
        (|_| json!("nothing"), "cannot be used"),
    ];
    for (part, word) in parts {
        let (port, thread) = scripted(move |control, listener| {
            let mut data = agree_to_exchange(control, listener);
            let mut count = 0;
            let mut request = [0; 3];
            while data.read_exact(&mut request).is_ok() {
                count += 1;
                data.write_all(&[0; 5]).unwrap();
            }
            assert_eq!(read(control, 1), [TestState::TestEnd.byte()]);
            say(control, &[TestState::ExchangeResults]);
            assert_eq!(read_frame(control)["transactions"], count);
            tell(control, &part(count));
            say(control, &[TestState::DisplayResults]);
            read(control, 1);
        });
        let outcome = once(port, Kind::Exchange).unwrap();
        assert!(broken(&outcome).contains(word), "{:?}", outcome.ending);
        assert!(outcome.part.transactions > 0 && outcome.peer_part.is_none(), "{outcome:?}");
        thread.join().unwrap();
    }
}

/// A client that was agreed with; the port of its connections, if they have their own.
fn agreed(served: &Served, kind: &str) -> (TcpStream, Cookie, Option<u16>) {
    let (mut control, cookie) = served.greeted();
    let asked = json!({ "kind": kind, "request": 4, "response": 4 });
    tell(&mut control, &json!({ "tcp": true, "time": 1, "parallel": 1, "weir_transactions": asked }));
    assert_eq!(read(&mut control, 1), [TestState::Transactions.byte()]);
    let port = read_frame(&mut control)["port"].as_u64().map(|port| port as u16);
    (control, cookie, port)
}

fn failed(served: &Served) -> NetError {
    loop {
        if let Event::Failed(_, error) = served.events.recv_timeout(BOUND).unwrap() {
            return error;
        }
    }
}

#[test]
fn a_server_outlives_clients_that_leave_or_lie_at_every_state() {
    let served = Served::new();
    // Gone after the agreement; and silent, its connection never made.
    drop(agreed(&served, "rr"));
    failed(&served);
    let impatient = Served::impatient();
    let silent = agreed(&impatient, "rr");
    assert!(matches!(failed(&impatient), NetError::Streams { .. }));
    drop((silent, impatient));
    for (kind, request) in
        [("rr", &b""[..]), ("rr", b"ab"), ("crr", b""), ("crr", b"ab"), ("crr", b"abcdefgh")]
    {
        for word in [None, Some(TestState::TestStart.byte()), Some(77)] {
            let (mut control, cookie, port) = agreed(&served, kind);
            let mut data = TcpStream::connect(("127.0.0.1", port.unwrap_or(served.port))).unwrap();
            if kind == "rr" {
                assert_eq!(read(&mut control, 1), [TestState::CreateStreams.byte()]);
                data.write_all(cookie.bytes()).unwrap();
            }
            assert_eq!(read(&mut control, 2), [TestState::TestStart.byte(), TestState::TestRunning.byte()]);
            data.write_all(request).unwrap();
            match word {
                // Gone without a word, its connection still open.
                None => drop(control),
                Some(byte) => control.write_all(&[byte]).unwrap(),
            }
            let error = failed(&served);
            assert!(
                matches!(error, NetError::Closed { .. } | NetError::Unexpected { .. }),
                "{kind} {word:?}: {error}"
            );
        }
    }
    // Results that are none.
    let (mut control, _, _) = agreed(&served, "crr");
    assert_eq!(read(&mut control, 2), [TestState::TestStart.byte(), TestState::TestRunning.byte()]);
    say(&mut control, &[TestState::TestEnd]);
    assert_eq!(read(&mut control, 1), [TestState::ExchangeResults.byte()]);
    tell(&mut control, &json!({ "transactions": -5 }));
    assert!(matches!(failed(&served), NetError::NoPart { .. }));
    served.works();
    for kind in BOTH {
        let outcome = once(served.port, kind).unwrap();
        assert_eq!(outcome.ending, Ending::Complete);
    }
}

#[test]
fn a_server_at_all_addresses_answers_clients_of_ipv4() {
    if TcpListener::bind("[::1]:0").is_err() {
        println!("skipped: no IPv6 here");
        return;
    }
    let served = Served::with(|options| options.listen = vec!["[::]:0".parse().unwrap()]);
    for kind in BOTH {
        let outcome = once(served.port, kind).unwrap();
        assert_eq!(outcome.ending, Ending::Complete);
    }
}

#[test]
fn bounds_hold_for_transactions_too() {
    let served = Served::with(|options| options.most_bytes = Some(1000));
    let outcome = once(served.port, Kind::Exchange).unwrap();
    assert!(broken(&outcome).contains("error 101"), "{:?}", outcome.ending);
    // And for a client that would go on asking.
    let mut long = options(served.port, 1);
    long.parameters.time = 60;
    let asked = Asked { kind: Kind::Exchange, request: 3, response: 5 };
    let outcome = ask(&long, asked, Repeats { least: 1, most: 1, goal: None }).unwrap();
    assert!(broken(&outcome).contains("error 101"), "{:?}", outcome.ending);
    let served = Served::with(|options| options.most_time = Some(Duration::from_secs(2)));
    let asked = Asked { kind: Kind::Exchange, request: 1, response: 1 };
    let goal = Some(Goal { level: 0.9, width: 0.1 });
    let error = ask(&options(served.port, 1), asked, Repeats { least: 3, most: 3, goal }).unwrap_err();
    assert!(error.to_string().contains("longer than the server allows"), "{error}");
}
