//! `weir bench http` and the clock: what holds while a server floods, stands still, or is only being warmed
//! up, and who is said to have held the figure, on a machine that has nothing else to do and on a busy one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "bench_http_clock/apart.rs"]
mod apart;
#[path = "bench_http_clock/held.rs"]
mod held;
mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use rustix::process::Signal;
use serde_json::Value;
use support::{BETWEEN_LOOKS, Request, Sandbox, Server, WEIR, Weir, Wire, wait_for};

/// Held for reading by those that keep the processors busy, for writing by what a busy processor would tell
/// wrong.
static MACHINE: RwLock<()> = RwLock::new(());

fn busy() -> RwLockReadGuard<'static, ()> {
    MACHINE.read()
}

fn bench(sandbox: &Sandbox, args: &[&str]) -> Weir {
    sandbox.weir(WEIR, ["bench", "http", "--json", "-t", "1"]).args(args)
}

fn hello(wire: &mut Wire) -> std::io::Result<()> {
    wire.answer("200 OK", &[], b"hello")
}

/// An answer without end, as fast as it goes. In chunks of one byte, which take longer to be taken apart than
/// to be sent: there is always more to be read.
fn flood(wire: &mut Wire) -> std::io::Result<()> {
    wire.head("200 OK", &[("Transfer-Encoding", "chunked")])?;
    let piece = b"1\r\na\r\n".repeat(40_000);
    loop {
        wire.body(&piece)?;
    }
}

/// Floods whoever asks for `flood` first, and answers everybody else.
fn flooding_one() -> Server {
    Server::start(|request: &Request, wire| if request.number == 0 { flood(wire) } else { hello(wire) })
}

#[test]
fn a_flood_ends_with_the_time() {
    let _busy = busy();
    for tls in [false, true] {
        let handler = |_: &Request, wire: &mut Wire| flood(wire);
        let server = if tls { Server::start_tls(handler) } else { Server::start(handler) };
        let sandbox = Sandbox::new();
        let run =
            bench(&sandbox, &["-k", "-c", "3", "-d", "500ms", "--timeout", "1h", &server.url("x")]).run();
        run.fails(1, &["no request to"]);
        let record = run.json();
        assert_eq!((&record["outcome"], &record["http"]["requests"]), (&"failed".into(), &0.into()));
        assert!(record["bytes"].as_u64().unwrap() > 100_000, "{record}");
    }
}

#[test]
fn a_flood_leaves_the_other_connections_their_turns() {
    let _busy = busy();
    let server = flooding_one();
    let sandbox = Sandbox::new();
    let args = ["-c", "3", "-d", "1s", "--timeout", "1h", &server.url("x")];
    let record = bench(&sandbox, &args).run().succeeds().json();
    assert!(record["http"]["requests"].as_u64().unwrap() > 20, "{record}");
}

/// A server on one thread: what it is late with, it is late with for all its connections. How often each has
/// asked.
fn answering_in_turn() -> (SocketAddr, Arc<Mutex<Vec<u64>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let asked: Arc<Mutex<Vec<u64>>> = Arc::default();
    let counts = Arc::clone(&asked);
    std::thread::spawn(move || {
        let mut sockets = Vec::new();
        loop {
            while let Ok((socket, _)) = listener.accept() {
                socket.set_nonblocking(true).unwrap();
                sockets.push(socket);
                counts.lock().push(0);
            }
            for (socket, count) in sockets.iter_mut().zip(counts.lock().iter_mut()) {
                // A request is one piece here.
                if socket.read(&mut [0; 1000]).is_ok_and(|length| length > 0) {
                    let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
                    *count += 1;
                }
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    });
    (address, asked)
}

#[test]
fn a_slow_script_leaves_every_connection_its_turn() {
    let _busy = busy();
    let (address, asked) = answering_in_turn();
    let sandbox = Sandbox::new();
    // A round over all of them takes several times what one may last.
    let slow =
        "function response()\n  local till = os.clock() + 0.001\n  while os.clock() < till do end\nend\n";
    sandbox.write("slow.lua", slow);
    let url = format!("http://{address}/");
    let running =
        bench(&sandbox, &["-c", "40", "-d", "1h", "-s", "slow.lua", "--timeout", "1h", &url]).spawn();
    wait_for("twenty requests of one", || asked.lock().iter().any(|count| *count >= 20));
    let mut asked = asked.lock().clone();
    running.signal(Signal::INT);
    running.wait().exits(130);
    // Some of the first ones only asked whether somebody is there.
    asked.retain(|count| *count > 0);
    let (least, most) = (asked.iter().min().unwrap(), asked.iter().max().unwrap());
    assert!(asked.len() == 40 && least * 2 >= *most, "{asked:?}");
}

#[test]
fn a_flood_times_out_as_silence_does() {
    let _busy = busy();
    let server = flooding_one();
    let sandbox = Sandbox::new();
    let args = ["-c", "1", "-n", "2", "--timeout", "1s", &server.url("x")];
    let record = bench(&sandbox, &args).run().succeeds().json();
    assert_eq!((&record["http"]["errors"]["timeout"], &record["http"]["requests"]), (&1.into(), &1.into()));
}

#[test]
fn a_flood_can_be_interrupted() {
    let _busy = busy();
    let server = Server::start(|_, wire| flood(wire));
    let sandbox = Sandbox::new();
    let running = bench(&sandbox, &["-c", "2", "-d", "1h", "--timeout", "1h", &server.url("x")]).spawn();
    server.wait_sent(10_000_000);
    running.signal(Signal::INT);
    let run = running.wait();
    run.exits(130);
    assert_eq!(run.json()["http"]["requests"], 0);
}

#[test]
fn what_comes_while_it_warms_up_is_not_counted() {
    let _busy = busy();
    // Slow at first, as with cold caches.
    let server = Server::start(|request, wire| {
        if request.number < 2 {
            std::thread::sleep(Duration::from_millis(100));
        }
        hello(wire)
    });
    let sandbox = Sandbox::new();
    let of = |warm_up: &str| {
        let args = ["-c", "2", "-d", "500ms", "--warm-up", warm_up, &server.url("x")];
        bench(&sandbox, &args).run().succeeds().json()
    };
    let cold = of("0");
    assert!(cold["http"]["latency"]["max"].as_f64().unwrap() > 0.09, "{cold}");
    let before = server.requests().len();
    let warm = of("1s");
    let asked = server.requests().len() - before;
    assert!(warm["http"]["requests"].as_u64().unwrap() < asked as u64 * 3 / 4, "{asked} asked: {warm}");
    let seconds = warm["seconds"].as_f64().unwrap();
    // The second of warming up is not in it.
    assert!((0.45..1.0).contains(&seconds), "{warm}");
}

#[test]
fn a_run_that_was_stopped_charges_nobody_for_it() {
    let _busy = busy();
    let server = Server::start(|_, wire| {
        std::thread::sleep(Duration::from_millis(5));
        hello(wire)
    });
    let sandbox = Sandbox::new();
    let begun = Instant::now();
    // The stop is longer than a request may take.
    let args = ["-c", "4", "-d", "1h", "--timeout", "1400ms", &server.url("x")];
    let running = bench(&sandbox, &args).spawn();
    let asked_more = || {
        let before = server.requests().len();
        wait_for("more requests", || server.requests().len() >= before + 40);
    };
    asked_more();
    running.signal(Signal::STOP);
    let stopped = Instant::now();
    wait_for("a long stop", || stopped.elapsed() > Duration::from_millis(1500));
    running.signal(Signal::CONT);
    asked_more();
    running.signal(Signal::INT);
    let run = running.wait();
    let took = begun.elapsed().as_secs_f64();
    run.exits(130);
    let record = run.json();
    let (http, missing) = (&record["http"], record["verdict"]["missing"].to_string());
    assert_eq!((&http["errors"]["timeout"], &http["time"]["failed"]), (&0.into(), &0.0.into()), "{record}");
    assert_ne!(http["held_by"], "stall", "{record}");
    assert!(missing.contains("weir itself stood still for"), "{record}");
    assert!(record["seconds"].as_f64().unwrap() < took - 1.4, "{took} s: {record}");
}

/// How long the server of the next test stands still, and how often.
const FREEZE: f64 = 0.2;
const EVERY: f64 = 2.0;

/// When a server was asked, and when it had answered: seconds.
type Log = Vec<(f64, f64)>;

/// The known answer, from when the server was asked first and when it had answered (seconds): requests that
/// were planned evenly from the first on, each as late as its answer. Sorted.
fn known(log: &[(f64, f64)], rate: f64) -> Vec<f64> {
    // None is asked before its time, so the plan began no later than any of them says.
    let mut asked: Vec<f64> = log.iter().map(|(asked, _)| *asked).collect();
    asked.sort_by(f64::total_cmp);
    let begins = asked.iter().enumerate().map(|(index, at)| at - index as f64 / rate);
    let first = begins.fold(f64::MAX, f64::min);
    let mut answered: Vec<f64> = log.iter().map(|(_, answered)| *answered).collect();
    answered.sort_by(f64::total_cmp);
    let late = |(index, at): (usize, f64)| at - first - index as f64 / rate;
    let mut late: Vec<f64> = answered.into_iter().enumerate().map(late).collect();
    late.sort_by(f64::total_cmp);
    late
}

#[test]
fn a_server_that_stands_still_at_the_end_is_charged_with_all_it_keeps_waiting() {
    let _busy = busy();
    // For the second half of a run, and beyond it.
    let (start, answered) = (OnceLock::new(), Arc::new(AtomicU64::new(0)));
    let server = Server::start({
        let answered = Arc::clone(&answered);
        move |_, wire| {
            if start.get_or_init(Instant::now).elapsed() >= Duration::from_secs(1) {
                return wire.wait_for_close();
            }
            answered.fetch_add(1, Relaxed);
            hello(wire)
        }
    });
    let sandbox = Sandbox::new();
    let args = ["-c", "4", "-d", "2s", "--rate", "100", "--timeout", "1h", &server.url("x")];
    let record = bench(&sandbox, &args).run().succeeds().json();
    let http = &record["http"];
    let at = |name: &str| http["latency"][name].as_f64().unwrap();
    let [requests, unanswered] = ["requests", "unanswered"].map(|name| http[name].as_u64().unwrap());
    let answered = answered.load(Relaxed);
    // Each connection may have been left with one that was on its way.
    assert!((answered.saturating_sub(4)..=answered).contains(&requests), "{answered} answered: {record}");
    // All of the plan, but for what has waited for less than a usual answer takes, and a rounding.
    let all = requests + unanswered;
    let recent = (http["service"]["p50"].as_f64().unwrap() * 100.0) as u64;
    assert!((199_u64.saturating_sub(recent)..=201).contains(&all), "{all} of 200, {recent} recent: {record}");
    assert_eq!(http["latency"]["count"], all, "{record}");
    // What waits is planned evenly, one each 10 ms: of all that took less than a quantile, so many had no
    // answer.
    for (name, quantile) in [("p75", 0.75), ("p90", 0.9), ("p99", 0.99)] {
        let least = (quantile * all as f64 - requests as f64 - 1.0) / 100.0;
        assert!(at(name) >= least, "{name} below {least}: {record}");
    }
    // What a closed loop would have shown has none of them.
    assert_eq!(http["service"]["count"], requests, "{record}");
}

#[test]
fn a_server_that_stands_still_is_charged_with_all_it_kept_waiting() {
    let _alone = MACHINE.write();
    // In the middle of each period, counted from a run's first request, so that what waits is served before
    // the run ends.
    let starts = [OnceLock::new(), OnceLock::new()];
    let logs: Arc<[Mutex<Log>; 2]> = Arc::default();
    let server = Server::start({
        let logs = Arc::clone(&logs);
        move |request, wire| {
            let open = usize::from(request.path() == "/open");
            let start = starts[open].get_or_init(Instant::now);
            let asked = start.elapsed().as_secs_f64();
            let (into, to) = (asked % EVERY, EVERY / 2.0 + FREEZE);
            let frozen = (EVERY / 2.0..to).contains(&into);
            // Long beside what a request costs, short enough that at 99 % a closed loop never sees the
            // freeze.
            std::thread::sleep(Duration::from_secs_f64(if frozen { to - into } else { 0.005 }));
            logs[open].lock().push((asked, start.elapsed().as_secs_f64()));
            hello(wire)
        }
    });
    let sandbox = Sandbox::new();
    let of = |more: &[&str]| bench(&sandbox, &["-c", "4"]).args(more).run().succeeds().json();
    // A whole period, of which it stood still for a part.
    let closed = of(&["-d", "2s", &server.url("closed")]);
    let most = closed["http"]["requests_rate"].as_f64().unwrap() / (1.0 - FREEZE / EVERY);
    // Half of what it can take: whoever comes in the freeze waits, and as many after it.
    let rate = (most / 2.0).round();
    let open = of(&["-d", "4s", "--rate", &rate.to_string(), &server.url("open")]);
    let at = |record: &Value, name: &str| record["http"]["latency"][name].as_f64().unwrap();
    let near = |seen: f64, known: f64| (seen - known).abs() < FREEZE / 8.0 + known / 10.0;
    let late = known(&logs[1].lock(), rate);
    // What a closed loop tells of the same server: what each request took, however many never came to be
    // asked.
    let mut took: Vec<f64> = logs[0].lock().iter().map(|(asked, answered)| answered - asked).collect();
    took.sort_by(f64::total_cmp);
    for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        for (record, known) in [(&open, &late), (&closed, &took)] {
            let (seen, known) = (at(record, name), known[(known.len() as f64 * quantile) as usize]);
            assert!(near(seen, known), "{name}: {seen} instead of {known}: {record}");
        }
    }
    // Each is told as it was, and they are far apart, unless the machine itself stood still and let the
    // closed loop ask less often.
    assert!(at(&open, "p99") > FREEZE / 2.0, "{open}");
}
