//! Several lanes on one file, what the record says of a run, and whether the verdict names the limit that was
//! made.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use support::{MIB, Object, Relay, Sandbox, Server, WEIR, pattern, skip, wait_for};

/// A server of one object.
fn serve(object: Object) -> Server {
    Server::start(move |request, wire| object.serve(request, wire))
}

/// A socket takes an `int`: of 2^32 it would see the lowest bits, and take the smallest buffer there is.
#[test]
fn a_receive_buffer_of_any_size_is_one_that_sockets_take() {
    let server = serve(Object::new(1000));
    let sandbox = Sandbox::new();
    for (asked, taken) in [("64KiB", 65_536), ("4294967296", i32::MAX), ("9223372036854775807", i32::MAX)] {
        let flags = ["-o", "x", "--force", "--recv-buffer", asked, "--evidence", "seen"];
        sandbox.get([&server.url("x")]).args(&flags).run().succeeds();
        let seen: serde_json::Value = serde_json::from_slice(&sandbox.read("seen")).unwrap();
        assert_eq!(seen["facts"]["receive_buffer"], taken, "{asked}");
    }
}

#[test]
fn four_lanes_split_a_file_into_ranges_that_cover_it_once() {
    let size = 16 * MIB;
    // So slow that the last lane comes before the others have brought all.
    let server = serve(Object::new(size).rate(2 << 20));
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out", "-c", "4", "--json"]).run();
    assert_eq!(run.succeeds().json()["files"][0]["connections"], 4);
    assert!(sandbox.read("out") == pattern(size, 1));
    let mut parts: Vec<(u64, Option<u64>)> =
        server.requests_from(0).iter().map(|request| request.range().expect("a range")).collect();
    parts.sort();
    assert!(parts.len() >= 4 && server.connections() >= 4, "{parts:?}");
    assert_eq!(parts[0], (0, None), "the first request is already the download");
    for pair in parts.windows(2) {
        let [(start, end), (next, _)] = [pair[0], pair[1]];
        assert!(start < next, "two requests begin at {start}: {parts:?}");
        assert!(end.is_none_or(|end| end >= next), "a hole before {next}: {parts:?}");
    }
    // A part that was split after it was asked for breaks off: what is then on its way is lost.
    let lost = server.sent() - size as u64;
    assert!(lost < parts.len() as u64 * (MIB as u64), "{lost} bytes sent more than once");
}

/// More large files than are received at once: servers do not wait for ever for those that were asked for and
/// not read. What one cuts off passes for whole where it told no length.
#[test]
fn an_answer_that_waits_for_its_turn_is_asked_for_anew() {
    // The first two take 12 s; what waits meanwhile is more than the client's kernel takes in its stead
    // (tcp_rmem).
    let size = |path: &str| if matches!(path, "/0" | "/1") { 56 * MIB } else { 10 * MIB };
    let server = Server::start(move |request, wire| {
        wire.gives_up_after(Duration::from_secs(9))?;
        wire.raw(b"HTTP/1.0 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n")?;
        wire.body(&pattern(size(request.path()), 1))?;
        wire.close()
    });
    let sandbox = Sandbox::new();
    let urls: Vec<String> = (0..8).map(|number| server.url(&number.to_string())).collect();
    sandbox.get(&urls).args(&["-o", "in/", "--limit-rate", "10M"]).run().succeeds();
    for number in 0..8 {
        let length = size(&format!("/{number}"));
        assert!(sandbox.read(&format!("in/{number}")) == pattern(length, 1), "{number}");
    }
}

#[test]
fn every_range_after_the_first_is_pinned() {
    let server = serve(Object::new(8 * MIB).rate(8 << 20));
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("x"), "-o", "out", "-c", "3"]).run().succeeds();
    for request in &server.requests_from(0)[1..] {
        assert_eq!(request.field("if-range"), Some("\"one\""));
    }
}

#[test]
fn sixteen_lanes_where_each_connection_is_capped() {
    let size = 16 * MIB;
    let server = serve(Object::new(size).rate(2 << 20));
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out", "-c", "16", "--json"]).run();
    let carried = run.succeeds().json()["files"][0]["connections"].as_u64().unwrap();
    assert!(sandbox.read("out") == pattern(size, 1));
    // One connection takes 8 s, sixteen half a second: on a busy machine the last ones may come too late.
    assert!(carried >= 8 && server.connections() >= 8, "{carried} of {} carried", server.connections());
}

#[test]
fn lanes_come_by_themselves_where_each_connection_is_capped() {
    let size = 24 * MIB;
    let server = serve(Object::new(size).rate(4 << 20));
    let sandbox = Sandbox::new();
    // Also below a limit of the user's that one connection does not reach.
    for limit in [&[][..], &["--limit-rate", "100MiB"]] {
        let run = sandbox.get([&server.url("x"), "-o", "out", "--json", "-v"]).args(limit).run();
        let record = run.succeeds().json();
        // Each decision is a line: the time since the start, what, why.
        let told = run.stderr.lines().find(|line| line.contains(" connections instead of 1: "));
        let told = told.unwrap_or_else(|| panic!("no decision is told: {}", run.stderr)).trim_start();
        let at = told.trim_start_matches("INFO ").split_once(" s: ").map(|(at, _)| at.parse::<f64>());
        assert!(at.is_some_and(|at| at.is_ok_and(|at| at > 0.0)), "{told}");
        assert!(told.contains(", trying whether more help"), "{told}");
        assert!(sandbox.read("out") == pattern(size, 1));
        assert!(record["files"][0]["connections"].as_u64().unwrap() >= 2, "{record:#}");
    }
}

/// New lanes make their handshakes while those that are there bring objects: that proves nothing of either.
#[test]
fn lanes_for_small_files_come_by_themselves_over_a_long_path() {
    let sandbox = Sandbox::new();
    let possible = sandbox.weir(WEIR, ["lab", "shell", "--", "true"]).run();
    if !possible.status.success() {
        return skip(&possible.stderr);
    }
    std::fs::create_dir(sandbox.path("files")).unwrap();
    let names: Vec<String> = (0..200).map(|number| number.to_string()).collect();
    for name in &names {
        sandbox.write(format!("files/{name}").as_str(), pattern(3000, 1));
    }
    sandbox.write("names", names.join("\n") + "\n");
    let script = "sed \"s|^|$WEIR_LAB_URL/|\" names >list
        \"$0\" get -i list -o auto/ --json >auto.json && \"$0\" get -i list -o most/ -j 64 --json >most.json";
    let lab = ["lab", "shell", "--delay", "40ms", "--serve", "files", "--", "sh", "-c", script, WEIR];
    sandbox.weir(WEIR, lab).run().succeeds();
    let [auto, most] = ["auto.json", "most.json"]
        .map(|name| serde_json::from_slice::<serde_json::Value>(&sandbox.read(name)).unwrap());
    let seconds = |record: &serde_json::Value| record["seconds"].as_f64().unwrap();
    let lanes = auto["connections"].as_u64().unwrap();
    let (took, least) = (seconds(&auto), seconds(&most));
    assert!(lanes > 12 || took <= 2.5 * least, "{lanes} connections, {took} s instead of {least} s");
}

#[test]
fn a_server_of_one_connection_at_a_time_serves_all() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("files")).unwrap();
    sandbox.write("files/x", pattern(12 * MIB, 1));
    let serving = sandbox.serve("files", &["--at-once", "1", "--limit-rate", "12MiB"]);
    for lanes in [&[][..], &["-c", "4"]] {
        sandbox.get([&serving.url("x"), "-o", "out"]).args(lanes).run().succeeds();
        assert!(sandbox.read("out") == pattern(12 * MIB, 1), "{lanes:?}");
    }
}

#[test]
fn a_server_that_refuses_further_connections_serves_all() {
    let object = Object::new(12 * MIB).rate(8 << 20);
    let at_once = Arc::new(AtomicUsize::new(0));
    let server = Server::start(move |request, wire| {
        if at_once.fetch_add(1, Relaxed) > 0 {
            at_once.fetch_sub(1, Relaxed);
            return wire.answer("503 Service Unavailable", &[], b"one at a time");
        }
        let served = object.serve(request, wire);
        at_once.fetch_sub(1, Relaxed);
        served
    });
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("x"), "-o", "out", "-c", "4"]).run().succeeds();
    assert!(sandbox.read("out") == pattern(12 * MIB, 1));
}

/// The first answer was accepted, though no byte of it has come: what the server says to further connections
/// is no word on it.
#[test]
fn a_server_that_refuses_further_connections_before_it_sends_a_byte() {
    // Three lanes that each ask for a part, without a range and for the whole, and then give up, ask nine
    // times.
    const MORE_THAN_ONCE: usize = 12;
    let object = Object::new(12 * MIB);
    let refused = AtomicUsize::new(0);
    let server = Server::start(move |request, wire| {
        if request.number > 0 {
            refused.fetch_add(1, Relaxed);
            return wire.answer("403 Forbidden", &[], b"the link is good for one connection");
        }
        let answer = object.answer(request);
        wire.head(answer.status, &answer.fields)?;
        wait_for("refusals", || refused.load(Relaxed) >= MORE_THAN_ONCE);
        wire.body(&object.bytes)
    });
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("x"), "-o", "out", "-c", "4"]).run().succeeds();
    assert!(sandbox.read("out") == pattern(12 * MIB, 1));
}

#[test]
fn a_lane_that_stands_still_is_replaced() {
    let size = 12 * MIB;
    let object = Object::new(size).rate(2 << 20);
    let server = Server::start(move |request, wire| match request.number {
        1 => {
            object.serve_up_to(request, wire, 1000)?;
            wire.wait_for_close()
        }
        _ => object.serve(request, wire),
    });
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out", "-c", "2", "-v"]).run();
    run.succeeds().says(&[" s: connection ", "stood still", "replacing it"]);
    assert!(sandbox.read("out") == pattern(size, 1));
}

#[test]
fn the_record_has_all_that_scripts_rely_on() {
    let server = serve(Object::new(3 * MIB));
    let sandbox = Sandbox::new();
    let url = server.url("x");
    let run = sandbox.get([&*url, "-o", "out", "--json", "--checksum", &checksum(3 * MIB)]).run();
    let record = run.succeeds().json();
    assert_eq!(record["schema"], "weir.run/1");
    assert_eq!((&record["command"], &record["outcome"]), (&"get".into(), &"complete".into()));
    assert_eq!(record["bytes"], 3 * MIB);
    let (seconds, rate) = (record["seconds"].as_f64().unwrap(), record["rate"].as_f64().unwrap());
    assert!(seconds > 0.0 && (rate * seconds / (3 * MIB) as f64 - 1.0).abs() < 0.01, "{seconds} {rate}");
    let file = &record["files"][0];
    assert_eq!((&file["url"], &file["path"]), (&url.into(), &"out".into()));
    assert_eq!((&file["bytes"], &file["resumed_from"]), (&(3 * MIB).into(), &0.into()));
    assert!(file["connections"].as_u64().unwrap() >= 1 && file["error"].is_null());
    assert_eq!(file["digest"]["alg"], "sha256");
    let verdict = &record["verdict"];
    assert!(verdict["limit"].is_string() || verdict["limit"].is_null());
    assert!((0.0..=1.0).contains(&verdict["confidence"].as_f64().unwrap()));
    let shares: f64 =
        verdict["shares"].as_object().unwrap().values().map(|share| share.as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 0.01, "the shares of the run's time add up to {shares}");
    for list in ["evidence", "innocent", "missing", "advice"] {
        assert!(verdict[list].is_array(), "{list}: {verdict:#}");
    }
    let samples = record["samples"].as_array().unwrap();
    assert!(!samples.is_empty());
    for sample in samples {
        assert!(sample["t"].is_number() && sample["rate"].is_number(), "{sample}");
    }
}

fn checksum(length: usize) -> String {
    let digest = weir_codec::Algorithm::SHA256.of(&pattern(length, 1));
    format!("sha256:{}", weir_codec::hex::encode(&digest))
}

#[test]
fn the_record_of_a_resumed_run() {
    let object = Object::new(4 * MIB);
    let server = Server::start(move |request, wire| match request.number {
        // It cannot come to its end before the signal is heard.
        0 => {
            object.clone().rate(8 << 20).serve_up_to(request, wire, 3 * MIB)?;
            wire.wait_for_close()
        }
        _ => object.serve(request, wire),
    });
    let sandbox = Sandbox::new();
    let running = sandbox.get([&server.url("x"), "-o", "out", "-c", "1"]).spawn();
    // What the server has sent may be on its way yet.
    wait_for("two MiB of the file", || {
        let mut some = [0_u8; 64];
        let part = std::fs::File::open(sandbox.path("out.part"));
        part.is_ok_and(|part| part.read_exact_at(&mut some, 2 * MIB as u64).is_ok()) && some != [0; 64]
    });
    wait_for("its handler", || running.catches(Signal::INT));
    running.signal(Signal::INT);
    running.wait().exits(130);
    let record = sandbox.get([&server.url("x"), "-o", "out", "--json"]).run().json();
    let resumed = record["files"][0]["resumed_from"].as_u64().unwrap();
    assert!(resumed > MIB as u64);
    assert_eq!(record["resumed"], resumed);
    assert_eq!(record["bytes"].as_u64().unwrap() + resumed, 4 * MIB as u64);
    assert_eq!(record["files"][0]["bytes"], 4 * MIB);
}

#[test]
fn the_record_of_a_failure() {
    let server = Server::start(|_, wire| wire.answer("404 Not Found", &[], b""));
    let record = Sandbox::new().get([&server.url("x"), "--json"]).run().json();
    assert_eq!(record["outcome"], "failed");
    assert_eq!(record["files"][0]["error"], "127.0.0.1 answered 404 Not Found");
}

#[test]
fn quiet_is_silent_on_success_only() {
    let server = Server::start(|request, wire| match request.path() {
        "/x" => wire.answer("200 OK", &[], b"hello"),
        _ => wire.answer("404 Not Found", &[], b""),
    });
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-q"]).run();
    assert_eq!((run.succeeds().stderr.as_str(), run.stdout.len()), ("", 0));
    sandbox.get([&server.url("y"), "-q"]).run().fails(1, &["/y: ", "404 Not Found"]);
}

#[test]
fn the_summary_is_short_and_says_it_once() {
    let server = serve(Object::new(4 * MIB).rate(8 << 20));
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out"]).run();
    run.succeeds().says(&["received 4.19 MB", "limit: ", "-> out"]);
    assert!(run.stderr.lines().count() <= 12, "{}", run.stderr);
    assert!(run.stdout.is_empty());
    let folded = ["-c", "\"$0\" get \"$1\" -v -o again 2>said", WEIR, &server.url("x")];
    sandbox.weir("sh", folded).run().succeeds();
    let said = String::from_utf8(sandbox.read("said")).unwrap();
    let of_verdict = said.split_once("limit: ").unwrap().1;
    assert!(of_verdict.contains("\n    "), "a line that goes on: {said}");
    assert!(of_verdict.lines().all(|line| line.chars().count() <= 100), "{said}");
    let gone = Server::start(|_, wire| wire.answer("404 Not Found", &[], b""));
    let run = sandbox.get([&gone.url("y"), "-o", "out"]).run();
    assert_eq!(run.stderr.matches("answered 404").count(), 1, "once is enough:\n{}", run.stderr);
}

/// Most of the time is this limit's. On a busy machine the start of a run and its end take a part of it, and
/// the verdict may name both.
#[track_caller]
fn is_mostly(record: &serde_json::Value, limit: &str) {
    let verdict = &record["verdict"];
    assert!(verdict["shares"][limit].as_f64().is_some_and(|share| share > 0.5), "{verdict:#}");
}

#[test]
fn our_own_limit_is_named() {
    let server = serve(Object::new(4 * MIB));
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out", "--limit-rate", "2MiB", "--json"]).run();
    let record = run.succeeds().json();
    is_mostly(&record, "rate-limit");
    let seconds = record["seconds"].as_f64().unwrap();
    assert!(seconds >= 1.7, "4 MiB at 2 MiB/s took {seconds} s");
}

#[test]
fn our_own_limit_holds_for_all_lanes_together() {
    let server = serve(Object::new(8 * MIB));
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out", "--limit-rate", "4MiB", "-c", "4", "--json"]).run();
    let seconds = run.succeeds().json()["seconds"].as_f64().unwrap();
    assert!(seconds >= 1.7, "8 MiB at 4 MiB/s took {seconds} s");
}

#[test]
fn a_slow_answer_is_the_applications() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("files")).unwrap();
    for (length, name) in [(100_000, "small"), (2 * MIB, "large")] {
        sandbox.write(&format!("files/{name}"), pattern(length, 1));
    }
    let serving = sandbox.serve("files", &["--delay", "2500ms"]);
    for name in ["small", "large"] {
        is_mostly(&sandbox.get([&serving.url(name), "-o", "out", "--json"]).run().json(), "application");
    }
}

#[test]
fn a_server_that_says_wait_is_a_rate_limit() {
    let server = Server::start(|request, wire| match request.number {
        0 => wire.answer("429 Too Many Requests", &[("Retry-After", "2")], b""),
        _ => wire.answer("200 OK", &[], b"hello"),
    });
    let sandbox = Sandbox::new();
    is_mostly(&sandbox.get([&server.url("x"), "-o", "out", "--json"]).run().json(), "rate-limit");
}

#[test]
fn a_slow_handshake_is_no_round_trip() {
    let server = Server::start_tls(|_, wire| wire.answer("200 OK", &[], b"hello"));
    let relay = Relay::late(Duration::from_millis(1500), server.address());
    let sandbox = Sandbox::new();
    let url = format!("https://{}/x", relay.address);
    let record = sandbox.get([&*url, "-k", "-o", "out", "--json"]).run().succeeds().json();
    is_mostly(&record, "connect");
    let told = record["verdict"]["evidence"].to_string();
    assert!(told.contains("the TLS handshake to the server went unanswered for 1."), "{told}");
}

#[test]
fn pauses_after_resets_are_nobodys_here() {
    let server = Server::start(|request, wire| match request.number {
        0..4 => wire.reset(),
        _ => wire.answer("200 OK", &[], b"hello"),
    });
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out", "--retries", "20", "--json"]).run();
    let record = run.succeeds().json();
    is_mostly(&record, "sender-or-path");
    let told = record["verdict"]["evidence"].to_string();
    assert!(told.contains("broke off, and requests waited"), "{told}");
}

#[test]
fn a_run_that_was_stopped_blames_nobody_for_it() {
    // Eight seconds: it is not over before it is stopped.
    let server = serve(Object::new(4 * MIB).rate(512 << 10));
    let sandbox = Sandbox::new();
    let running = sandbox.get([&server.url("x"), "-o", "out", "-c", "1", "--json"]).spawn();
    server.wait_sent(MIB as u64);
    running.signal(Signal::STOP);
    let stopped = Instant::now();
    wait_for("a long stop", || stopped.elapsed() > Duration::from_secs(4));
    running.signal(Signal::CONT);
    let record = running.wait().succeeds().json();
    let verdict = &record["verdict"];
    let known: f64 =
        verdict["shares"].as_object().unwrap().values().map(|share| share.as_f64().unwrap()).sum();
    let seconds = record["seconds"].as_f64().unwrap();
    assert!(known * seconds < seconds - 3.9, "{verdict:#}");
    assert!(verdict["missing"].to_string().contains("weir itself stood still"), "{verdict:#}");
}
