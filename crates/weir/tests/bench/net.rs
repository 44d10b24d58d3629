//! `weir bench net` with the real iperf3 and with itself: both roles, all ways, and both ends' sums.
//!
//! `make soak-net` repeats the whole list WEIR_SOAK times; without it a part is run once.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod as_iperf3;

use crate::support;

use rustix::process::Signal;
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::{Value, json};
use support::net::{NetServer, has_iperf3, iperf3_client, weir_client};
use support::{Sandbox, WEIR, skip, wait_for};
use weir_model::limit::Limit;

/// What is tested with what: transport, streams, way, and further options.
fn list() -> Vec<Vec<&'static str>> {
    let soak = std::env::var("WEIR_SOAK").is_ok();
    let streams: &[&str] = if soak { &["1", "2", "32", "100"] } else { &["1", "3"] };
    let mut list = Vec::new();
    for transport in [&["-n", "2M"][..], &["-u", "-b", "80M", "-n", "100K", "-l", "1000"]] {
        for way in [&[][..], &["-R"], &["--bidir"]] {
            for count in streams {
                list.push([transport, way, &["-P", count]].concat());
            }
        }
    }
    list.push(vec!["-n", "2M", "-P", "32"]);
    // Through before each stream has had its turn.
    list.push(vec!["-u", "-b", "80M", "-n", "10K", "-l", "1000", "-R", "-P", "12"]);
    // Time, omitted time and a rate: a second each.
    if soak {
        for way in ["-R", "--bidir"] {
            list.push(vec!["-t", "1", "-O", "1", "-b", "50M", "-P", "2", way]);
        }
        list.push(vec!["-u", "-t", "1", "-O", "1", "-b", "5M", "-R"]);
    }
    list.push(vec!["-t", "1", "-O", "1", "-b", "50M", "-i", "0.5"]);
    list.push(vec!["-u", "-t", "1", "-O", "1", "-b", "5M", "--bidir"]);
    list
}

fn repeats() -> usize {
    std::env::var("WEIR_SOAK").ok().and_then(|count| count.parse().ok()).unwrap_or(1)
}

/// Every sum of iperf3's JSON, whatever its name: bytes sent and received of each way.
fn iperf3_sums(json: &Value) -> Vec<u64> {
    let names = ["sum_sent", "sum_received", "sum_sent_bidir_reverse", "sum_received_bidir_reverse"];
    let mut sums: Vec<u64> = names.iter().filter_map(|name| json["end"][name]["bytes"].as_u64()).collect();
    sums.sort_unstable();
    sums
}

/// The same of weir's record.
fn weir_sums(record: &Value) -> Vec<u64> {
    let names = ["sent", "received", "back_sent", "back_received"];
    let mut sums: Vec<u64> = names.iter().filter_map(|name| record["net"][name]["bytes"].as_u64()).collect();
    sums.sort_unstable();
    sums
}

/// Datagrams and losses of all streams.
fn iperf3_datagrams(json: &Value) -> (u64, u64) {
    let streams = json["end"]["streams"].as_array().unwrap().iter().map(|stream| &stream["udp"]);
    streams.fold((0, 0), |(packets, lost), udp| {
        (packets + udp["packets"].as_u64().unwrap(), lost + udp["lost_packets"].as_u64().unwrap_or(0))
    })
}

/// Sent, received and lost ones, of both ways.
fn weir_datagrams(record: &Value) -> [u64; 3] {
    let of = |name: &str, member: &str| record["net"][name]["datagrams"][member].as_u64().unwrap_or(0);
    [
        of("sent", "packets") + of("back_sent", "packets"),
        of("received", "packets") + of("back_received", "packets"),
        of("received", "lost") + of("back_received", "lost"),
    ]
}

/// Both ends tell the same of a test.
fn agree(args: &[&str], record: &Value, iperf3: &Value) {
    assert_eq!(record["outcome"], "complete", "{args:?}: {record}");
    if args.contains(&"-u") {
        let ([sent, received, lost], theirs) = (weir_datagrams(record), iperf3_datagrams(iperf3));
        // 3.12 lists those of both ways, of some as their sender counts: the last ones may come after the
        // receiver's end.
        let between = (received.min(sent)..=sent.max(received)).contains(&theirs.0);
        assert!(between && lost == theirs.1, "{args:?}: {}\n{}", record["net"], iperf3["end"]);
    } else {
        // A server of 3.12 tells only what it counted itself.
        let (ours, theirs) = (weir_sums(record), iperf3_sums(iperf3));
        let told = theirs.iter().filter(|sum| **sum > 0);
        let known = told.clone().all(|sum| ours.contains(sum)) && told.count() > 0;
        assert!(known, "{args:?}: {ours:?} against {theirs:?}\n{}\n{}", record["net"], iperf3["end"]);
    }
}

#[test]
fn a_client_of_weir_and_a_server_of_iperf3_agree() {
    if !has_iperf3() {
        return skip("iperf3 is not installed");
    }
    for _ in 0..repeats() {
        for args in list() {
            let server = NetServer::iperf3(&["-J"]);
            let run = weir_client(server.port, &[&args[..], &["--json"]].concat());
            agree(&args, &run.succeeds().json(), &server.json());
        }
    }
}

#[test]
fn a_client_of_iperf3_and_a_server_of_weir_agree() {
    if !has_iperf3() {
        return skip("iperf3 is not installed");
    }
    for _ in 0..repeats() {
        for args in list() {
            let server = NetServer::weir(&["-1", "--json"]);
            let theirs = iperf3_client(server.port, &args);
            let record = server.json();
            agree(&args, &record, &theirs);
            // What iperf3 sent, weir has taken in to the last byte.
            if !args.contains(&"-R") && !args.contains(&"-u") && !args.contains(&"-O") {
                assert_eq!(record["net"]["sent"]["bytes"], record["net"]["received"]["bytes"], "{args:?}");
            }
        }
    }
}

#[test]
fn two_weirs_move_exactly_what_was_asked_for() {
    for way in [&[][..], &["-R"], &["--bidir"]] {
        for count in ["1", "4"] {
            let server = NetServer::weir(&["-1", "--json"]);
            let args = [&["-n", "3000000", "-P", count, "--json"][..], way].concat();
            let client = weir_client(server.port, &args).succeeds().json();
            let server = server.json();
            for record in [&client, &server] {
                let net = &record["net"];
                let both = way == ["--bidir"];
                let reverse_alone = way == ["-R"];
                assert_eq!(net["sent"]["bytes"], net["received"]["bytes"], "{args:?}: {net}");
                // Those of one way, as bytes and rate are.
                assert_eq!(record["connections"].to_string(), count, "{args:?}");
                if both {
                    assert_eq!(net["back_sent"]["bytes"], net["back_received"]["bytes"], "{args:?}: {net}");
                }
                if !both {
                    assert_eq!(net["sent"]["bytes"], 3_000_000, "{args:?} {reverse_alone}: {net}");
                }
            }
        }
    }
}

/// The looks at a test are 20 ms apart, and these are through in half of that; on a busy machine not each
/// time.
#[test]
fn a_count_of_bytes_ends_with_the_last_of_them() {
    let server = NetServer::weir(&[]);
    for args in [&["-u", "-b", "100M"][..], &[], &["-R"]] {
        let args = [&["-n", "100K", "--json"][..], args].concat();
        wait_for("both ends' times", || {
            let record = weir_client(server.port, &args).succeeds().json();
            let seconds = |end: &str| record["net"][end]["seconds"].as_f64().unwrap();
            (1e-6..0.02).contains(&seconds("sent")) && (1e-6..0.02).contains(&seconds("received"))
        });
    }
}

#[test]
fn what_is_omitted_does_not_count() {
    let server = NetServer::weir(&[]);
    for way in [&[][..], &["-R"]] {
        let args = [&["-n", "300K", "-l", "10K", "-O", "2", "-b", "20M", "--json"][..], way].concat();
        let record = weir_client(server.port, &args).succeeds().json();
        let net = &record["net"];
        let bytes = |end: &str| net[end]["bytes"].as_u64().unwrap();
        // Each end leaves out its own first two seconds, of 5 MB, so what both count differs by what flows
        // between the two: on a busy machine for a good part of a second.
        assert!(bytes("sent").max(bytes("received")) < 3_500_000, "{args:?}: {net}");
        assert!(bytes("sent").max(bytes("received")) >= 300 << 10, "{args:?}: {net}");
        let intervals = net["intervals"].as_array().unwrap();
        assert!(intervals.iter().any(|one| one["omitted"] == true), "{net}");
        assert!(intervals.last().unwrap()["omitted"].is_null(), "{net}");
    }
}

#[test]
fn every_line_has_its_figures_and_its_limit() {
    let server = NetServer::weir(&[]);
    let run = weir_client(server.port, &["-t", "1", "-b", "80M", "-i", "0.5", "--format", "weir"]);
    run.succeeds();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    for word in
        ["goodput", "min rtt", "cwnd", "retr", "limit", "sent", "received", "congestion control", "path MTU"]
    {
        assert!(text.contains(word), "no {word}:\n{text}");
    }
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("[  1 >]")).collect();
    assert!(lines.len() >= 2, "{text}");
    // Where the host takes processors, they held it for a part of the time.
    let named = |line: &&str| line.split_whitespace().last().is_some_and(|name| Limit::parse(name).is_some());
    assert!(lines.iter().all(named), "{text}");
    let told = |line: &str| line.starts_with("limit: ") && line.contains("rate-limit");
    assert!(text.lines().any(told), "{text}");
    assert!(!text.contains("left out here"), "{text}");
    assert!(text.contains("left out there: the copy from the kernel into the program (MSG_TRUNC"), "{text}");
    let run = weir_client(server.port, &["-n", "1M", "-R", "--format", "weir"]);
    let text = String::from_utf8_lossy(&run.succeeds().stdout).into_owned();
    assert!(text.contains("left out here: the copy from the kernel into the program"), "{text}");
    let run = weir_client(server.port, &["-n", "1M", "-Z", "--format", "weir"]);
    let text = String::from_utf8_lossy(&run.succeeds().stdout).into_owned();
    assert!(text.contains("left out here: the copy from the program into the kernel (sendfile)"), "{text}");
}

#[test]
fn an_end_rules_out_nothing_that_it_does_not_see() {
    let server = NetServer::weir(&[]);
    let hidden: &[&[&str]] = &[
        &["application", "latency", "reader", "verify", "path-loss", "path-bandwidth", "send-buffer"],
        &["receive-window", "path-loss", "path-bandwidth"],
        &["receive-window", "path-loss", "path-bandwidth"],
    ];
    let ways: [&[&str]; 3] = [&["-R"], &["-u"], &["-u", "-R"]];
    for (args, hidden) in ways.into_iter().zip(hidden) {
        let args = [args, &["-t", "1", "-b", "20M", "--json"]].concat();
        let record = weir_client(server.port, &args).succeeds().json();
        let verdict = &record["verdict"];
        // Where the host takes processors, they held it for a part of the time.
        assert!(verdict["shares"]["rate-limit"].is_number(), "{args:?}: {verdict}");
        for line in verdict["innocent"].as_array().unwrap() {
            let (limit, _) = line.as_str().unwrap().split_once(": ").unwrap();
            assert!(!hidden.contains(&limit), "{args:?}: {verdict}");
        }
        assert!(!verdict["missing"].to_string().contains("inside weir"), "{args:?}: {verdict}");
    }
}

#[test]
fn a_record_names_the_limit_and_keeps_the_intervals() {
    let server = NetServer::weir(&[]);
    let args = ["-t", "1", "-R", "-P", "2", "-i", "0.5", "--copy", "--json"];
    let record = weir_client(server.port, &args).succeeds().json();
    assert_eq!(record["schema"], "weir.run/1");
    assert_eq!(record["command"], "bench");
    let net = &record["net"];
    assert_eq!((&net["direction"], &net["streams"]), (&json!("reverse"), &json!(2)));
    assert_eq!((&net["copied_sending"], &net["copied_receiving"]), (&json!(true), &json!(true)));
    assert_eq!((&net["peer_copied_sending"], &net["peer_copied_receiving"]), (&json!(true), &json!(false)));
    // Two streams and their sum, twice.
    assert!(net["intervals"].as_array().unwrap().len() >= 6, "{net}");
    assert!(record["verdict"]["limit"].is_string(), "{}", record["verdict"]);
    assert!(record["samples"].as_array().unwrap().len() >= 5);
}

/// Every key of 3.12's JSON is in weir's, at the same place. What only one of two streams or a certain kernel
/// shows is left out by comparing like with like: the same test by both clients.
#[test]
fn scripts_that_read_iperf3_s_json_find_its_keys() {
    if !has_iperf3() {
        return skip("iperf3 is not installed");
    }
    let server = NetServer::weir(&[]);
    let same_keys = &|args: &[&str]| {
        let theirs = iperf3_client(server.port, args);
        let run = weir_client(server.port, &[args, &["-J"]].concat());
        let ours = run.succeeds().json();
        let mut missing = Vec::new();
        compare("", &theirs, &ours, &mut missing);
        assert!(missing.is_empty(), "{args:?}: {missing:?}\n{ours:#}");
    };
    // A second each, so all at once.
    std::thread::scope(|scope| {
        for args in [
            &["-t", "1"][..],
            &["-t", "1", "-R", "-P", "2"],
            &["-t", "1", "--bidir"],
            &["-t", "1", "-u"],
            &["-t", "1", "-u", "-R"],
        ] {
            scope.spawn(move || same_keys(args));
        }
    });
}

/// Paths of `theirs` that `ours` lacks or has as another type.
fn compare(path: &str, theirs: &Value, ours: &Value, missing: &mut Vec<String>) {
    let same = std::mem::discriminant(theirs) == std::mem::discriminant(ours);
    if !same {
        missing.push(format!("{path}: {theirs} against {ours}"));
        return;
    }
    match theirs {
        Value::Object(members) => {
            for (name, value) in members {
                compare(&format!("{path}/{name}"), value, &ours[name], missing);
            }
        }
        Value::Array(items) => {
            if let (Some(theirs), ours) = (items.first(), &ours[0]) {
                compare(&format!("{path}/0"), theirs, ours, missing);
            }
        }
        _ => {}
    }
}

#[test]
fn the_server_s_report_comes_with_the_results() {
    let server = NetServer::weir(&[]);
    let args = ["-n", "100K", "--get-server-output"];
    let run = weir_client(server.port, &[&args[..], &["--format", "weir"]].concat());
    run.succeeds();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let (_, report) = text.split_once("the server's report:").expect(&text);
    assert!(report.contains("received"), "{text}");
    if !has_iperf3() {
        return skip("iperf3 is not installed");
    }
    let json = iperf3_client(server.port, &args);
    assert!(json["server_output_text"].as_str().unwrap().contains("receiver\n"), "{json}");
    let theirs = NetServer::iperf3(&[]);
    let record = weir_client(theirs.port, &[&args[..], &["--json"]].concat()).succeeds().json();
    assert!(record["net"]["server_output"].as_str().unwrap().contains("receiver"), "{record}");
}

#[test]
fn several_clients_are_served_at_once_and_one_too_many_is_told() {
    let server = NetServer::weir(&["--max-clients", "3"]);
    let port = server.port.to_string();
    // All three at once, and for so long that none is through before the fourth one comes, on a busy machine
    // either.
    let client = |_| {
        let args = [
            "bench",
            "net",
            "-c",
            "127.0.0.1",
            "-p",
            &port,
            "-b",
            "8M",
            "-t",
            "15",
            "-i",
            "0.1",
            "--format",
            "weir",
        ];
        let mut command = std::process::Command::new(WEIR);
        let mut child = command.args(args).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        (child, lines)
    };
    let mut running: Vec<_> = (0..3).map(client).collect();
    for (_, lines) in &mut running {
        lines.find(|line| line.as_ref().unwrap().starts_with("[  1 >]")).unwrap().unwrap();
    }
    weir_client(server.port, &["-n", "1", "-q"]).fails(1, &["refuses", "busy"]);
    for (mut child, lines) in running {
        let lines: Vec<String> = lines.map(Result::unwrap).collect();
        assert!(lines.iter().any(|line| line.contains("received")), "{lines:?}");
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
    // The server hears of a client's end some time after it.
    wait_for("a place", || weir_client(server.port, &["-n", "1", "-q"]).status.success());
}

#[test]
fn bounds_of_a_server_are_kept_and_told() {
    let server = NetServer::weir(&["--max-time", "5", "--max-bytes", "1MB", "--max-bitrate", "10M"]);
    for (args, words) in [
        (&["-t", "6"][..], "error 5 (the test is longer than the server allows)"),
        (&["-n", "2M"], "error 101 (it cannot make the test): File too large"),
        (&["-t", "1", "-b", "20M"], "error 27 (the total rate is above the server's limit)"),
        (&["-t", "4"], "error 101 (it cannot make the test): File too large"),
        (&["-n", "500K", "-C", "none-such"], "congestion control none-such"),
    ] {
        weir_client(server.port, args).fails(1, &[words]);
    }
    weir_client(server.port, &["-n", "500K"]).succeeds();
    if !has_iperf3() {
        return skip("iperf3 is not installed");
    }
    for (args, words) in [
        (&["-t", "6"][..], "test duration too long"),
        (&["-t", "1", "-b", "20M"], "total required bandwidth is larger than server limit"),
        (&["-n", "2M"], "test initialization failed: File too large"),
    ] {
        let error = iperf3_fails(server.port, args);
        assert!(error.contains(words), "{args:?}: {error}");
    }
}

/// What iperf3 says of a test that fails.
fn iperf3_fails(port: u16, args: &[&str]) -> String {
    let port = port.to_string();
    let run = Sandbox::new().weir("iperf3", ["-c", "127.0.0.1", "-p", &port, "-J"]).args(args).run();
    run.json()["error"].as_str().unwrap_or_default().to_owned()
}

/// A client that names no rate has one all the same.
#[test]
fn a_rate_that_no_client_stated_is_bounded_too() {
    let server = NetServer::weir(&["--max-bitrate", "10M"]);
    for way in [&[][..], &["-R"], &["--bidir"]] {
        let args = [&["-t", "30", "-i", "0"], way].concat();
        weir_client(server.port, &args).fails(1, &["error 27 (the total rate is above the server's limit)"]);
    }
    weir_client(server.port, &["-t", "2", "-b", "10M"]).succeeds();
    if !has_iperf3() {
        return skip("iperf3 is not installed");
    }
    let error = iperf3_fails(server.port, &["-t", "30"]);
    assert!(error.contains("total required bandwidth is larger than server limit"), "{error}");
    iperf3_client(server.port, &["-t", "2", "-b", "10M"]);
}

#[test]
fn two_weirs_make_transactions_until_their_rate_is_sure() {
    let server = NetServer::weir(&[]);
    for kind in ["--rr", "--crr"] {
        let args =
            [kind, "-t", "1", "--ci", "50,100", "--repeats", "2,5", "--sizes", "10,1K", "-P", "2", "--json"];
        let record = weir_client(server.port, &args).succeeds().json();
        assert_eq!((&record["command"], &record["outcome"]), (&json!("bench"), &json!("complete")));
        let member = &record["transactions"];
        assert_eq!((&member["request"], &member["response"]), (&json!(10), &json!(1024)));
        assert!(member["count"].as_u64().unwrap() > 0, "{member}");
        assert!(
            member["cpu"].as_f64().unwrap() > 0.0 && member["peer_cpu"].as_f64().unwrap() > 0.0,
            "{member}"
        );
        let (latency, times) = (&member["latency"], ["min", "p50", "p90", "p99", "p999", "max"]);
        let times: Vec<f64> = times.iter().map(|name| latency[name].as_f64().unwrap()).collect();
        assert!(times.is_sorted() && times[0] > 0.0, "{latency}");
        assert_eq!(member["confidence"]["met"], true, "{member}");
    }
    let run = weir_client(server.port, &["--rr", "-t", "1", "--ci", "99.9,0.1", "--repeats", "2,2"]);
    let text = String::from_utf8_lossy(&run.succeeds().stdout).into_owned();
    for word in [
        "[run  2]",
        "transactions/s (request/response, 1 and 1 bytes",
        "not confident enough",
        "99 %",
        "there",
    ] {
        assert!(text.contains(word), "no {word}:\n{text}");
    }
}

/// iperf3's server cannot, and says so by going on; its clients see nothing of all this.
#[test]
fn transactions_with_iperf3_are_refused_with_the_way_out() {
    if !has_iperf3() {
        return skip("iperf3 is not installed");
    }
    for kind in ["--rr", "--crr"] {
        let server = NetServer::iperf3(&["-J"]);
        let run = weir_client(server.port, &[kind]);
        run.fails(1, &["makes no request/response tests", "run 'weir bench net -s' there"]);
        assert_eq!(server.json()["error"], "the client has terminated");
    }
}

#[test]
fn a_file_server_answers_measurements_too_where_that_is_wanted() {
    let sandbox = Sandbox::new();
    sandbox.write("file", "content");
    let mut command = std::process::Command::new(WEIR);
    command.args(["serve", ".", "--listen", ":0", "--bench=:0"]).current_dir(sandbox.path("."));
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut line = || lines.next().unwrap().unwrap();
    let (files, bench) = (line(), line());
    let url = files.split_whitespace().last().unwrap();
    assert!(bench.starts_with("answering weir bench net and iperf3 at 127.0.0.1:"), "{bench}");
    let port: u16 = bench.rsplit(':').next().unwrap().parse().unwrap();
    weir_client(port, &["-n", "1M"]).succeeds();
    weir_client(port, &["--rr", "-t", "1", "-q"]).succeeds();
    sandbox.weir(WEIR, ["get", "-q", &format!("{url}file"), "-o", "got"]).run().succeeds();
    if has_iperf3() {
        iperf3_client(port, &["-n", "1M"]);
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn words_of_others_do_not_move_the_cursor() {
    let sandbox = Sandbox::new();
    let run = sandbox.weir(WEIR, ["bench", "net", "-c", "no\u{1b}[2Jname.invalid"]).run();
    run.fails(1, &["cannot resolve no\\u{1b}[2Jname.invalid"]);
    // A server's report, as JSON: what JSON itself leaves as it is.
    let server = NetServer::weir(&["-J"]);
    let args = ["-n", "1K", "--get-server-output", "--title", "a\u{9b}2Jb", "--format", "weir"];
    let run = weir_client(server.port, &args);
    let text = String::from_utf8_lossy(&run.succeeds().stdout).into_owned();
    let (_, report) = text.split_once("the server's report:").expect(&text);
    assert!(report.contains("a\\u{9b}2Jb") && !report.contains('\u{9b}'), "{report}");
}

#[test]
fn who_has_no_password_is_not_let_in() {
    let sandbox = Sandbox::new();
    let key = aws_lc_rs::rsa::PrivateDecryptingKey::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap();
    let pem = |kind: &str, der: &[u8]| {
        format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", folded(&support::base64(der)))
    };
    use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
    let private: Pkcs8V1Der<'_> = key.as_der().unwrap();
    let public: PublicKeyX509Der<'_> = key.public_key().as_der().unwrap();
    let private = sandbox.write("private.pem", pem("PRIVATE KEY", private.as_ref()));
    let public = sandbox.write("public.pem", pem("PUBLIC KEY", public.as_ref()));
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, b"{ann}secret");
    let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let users = sandbox.write("users", format!("ann,{hex}\n"));
    let (private, public, users) =
        (private.to_str().unwrap(), public.to_str().unwrap(), users.to_str().unwrap());
    let guard = ["--rsa-private-key-path", private, "--authorized-users-path", users];
    let who = ["-n", "100K", "--username", "ann", "--rsa-public-key-path", public];
    let client = |port: u16, password: &str, args: &[&str]| {
        let port = port.to_string();
        let weir = sandbox.weir(WEIR, ["bench", "net", "-c", "127.0.0.1", "-p", &port]).args(args);
        weir.env("IPERF3_PASSWORD", password).run()
    };
    for padding in [&[][..], &["--use-pkcs1-padding"]] {
        let server = NetServer::weir(&[&guard[..], padding].concat());
        let with = |args: &[&'static str]| [args, padding].concat();
        let who = [&who[..], &with(&[])].concat();
        client(server.port, "secret", &who).succeeds();
        client(server.port, "Secret", &who).fails(1, &["not authorised"]).hides("Secret");
        weir_client(server.port, &["-n", "1K"]).fails(1, &["not authorised"]);
    }
    // Whoever is not let in is not the one test.
    let server = NetServer::weir(&[&guard[..], &["-1"]].concat());
    client(server.port, "Secret", &who).fails(1, &["not authorised"]);
    // It may still be seeing the first one off.
    wait_for("the one test", || client(server.port, "secret", &who).status.success());
    assert_eq!(server.code(), Some(0));
    if !has_iperf3() {
        return skip("iperf3 is not installed");
    }
    // 3.12 pads as those before 3.17 do.
    let server = NetServer::iperf3(&guard);
    client(server.port, "secret", &[&who[..], &["--use-pkcs1-padding"]].concat()).succeeds();
    drop(server);
    let server = NetServer::weir(&[&guard[..], &["--use-pkcs1-padding"]].concat());
    let port = server.port.to_string();
    let theirs = sandbox.weir("iperf3", ["-c", "127.0.0.1", "-p", &port]).args(&who);
    theirs.env("IPERF3_PASSWORD", "secret").run().succeeds();
}

#[test]
fn an_interrupt_at_the_password_leaves_the_terminal_as_it_was() {
    let sandbox = Sandbox::new();
    let key = sandbox.write("public.pem", "not looked at before the password is there");
    let (_near, terminal) = support::terminal();
    let shows =
        |terminal: &std::os::fd::OwnedFd| tcgetattr(terminal).unwrap().local_modes.contains(LocalModes::ECHO);
    assert!(shows(&terminal));
    let who = ["--username", "ann", "--rsa-public-key-path", key.to_str().unwrap()];
    let mut weir = sandbox.weir(WEIR, ["bench", "net", "-c", "127.0.0.1", "-p", "9"]).args(&who);
    weir.command.stdin(terminal.try_clone().unwrap()).env_remove("IPERF3_PASSWORD");
    let running = weir.spawn();
    wait_for("the question", || !shows(&terminal));
    wait_for("a handler", || running.catches(Signal::INT));
    running.signal(Signal::INT);
    running.wait().exits(130);
    assert!(shows(&terminal));
}

/// PEM has lines of 64 letters.
fn folded(text: &str) -> String {
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    lines.join("\n")
}

#[test]
fn an_interrupt_leaves_a_report_and_code_130() {
    let server = NetServer::weir(&["-1", "--json"]);
    let port = server.port.to_string();
    let sandbox = Sandbox::new();
    let args = [
        "bench",
        "net",
        "-c",
        "127.0.0.1",
        "-p",
        &port,
        "-t",
        "60",
        "-b",
        "80M",
        "-i",
        "0.1",
        "--format=weir",
    ];
    let mut command = std::process::Command::new(WEIR);
    command.args(args).current_dir(sandbox.path(".")).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    // Once enough has flowed to be judged.
    let shown =
        |line: &Result<String, _>| line.as_ref().is_ok_and(|line: &String| line.starts_with("[  1 >]"));
    assert_eq!(lines.by_ref().filter(shown).take(4).count(), 4);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::INT).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // Where the host takes processors, they held it for a part of the time.
    let told = |line: &String| line.starts_with("limit: ") && line.contains("rate-limit");
    assert!(rest.iter().any(told), "{rest:?}");
    // Nobody told what was received, and no measurement resumes.
    let begins = |word: &str| rest.iter().any(|line| line.starts_with(word));
    assert!(begins("sent") && !begins("received") && !begins("incomplete"), "{rest:?}");
    // The other end is told, and reports what it has.
    let record = server.json();
    assert_eq!(record["outcome"], "failed", "{record}");
    assert!(record["net"]["received"]["bytes"].as_u64().unwrap() > 0, "{record}");
}

#[test]
fn a_server_that_is_interrupted_ends_its_tests() {
    let server = NetServer::weir(&[]);
    let port = server.port.to_string();
    let args = [
        "bench",
        "net",
        "-c",
        "127.0.0.1",
        "-p",
        &port,
        "-t",
        "60",
        "-b",
        "80M",
        "-i",
        "0.1",
        "--format=weir",
    ];
    let mut command = std::process::Command::new(WEIR);
    command.args(args).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    lines.find(|line| line.as_ref().unwrap().starts_with("[  1 >]")).unwrap().unwrap();
    server.signal(Signal::TERM);
    assert_eq!(server.code(), Some(0));
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    // What was sent is told all the same.
    assert!(rest.iter().any(|line| line.starts_with("sent")), "{rest:?}");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    assert!(said.contains("ended the test"), "{said}");
}

#[test]
fn options_reach_the_sockets() {
    let server = NetServer::weir(&[]);
    let args = ["-n", "1M", "-C", "cubic", "-M", "1000", "-w", "64K", "-N", "-S", "16", "--json"];
    let record = weir_client(server.port, &args).succeeds().json();
    let net = &record["net"];
    assert_eq!(
        (&net["congestion_control"], &net["peer_congestion_control"]),
        (&json!("cubic"), &json!("cubic"))
    );
    // Less twelve bytes of timestamps.
    assert_eq!(net["segment"], 988, "{net}");
    weir_client(server.port, &["-n", "1M", "-C", "none-such"]).fails(1, &["congestion control none-such"]);
}

#[test]
fn large_datagrams_and_wide_counters_arrive() {
    let server = NetServer::weir(&[]);
    for args in [
        // Slow enough that one is read before the next comes: few of these fit a socket's buffer.
        &["-b", "20M", "-l", "65507", "-n", "300K"][..],
        &["-b", "100M", "-l", "16", "-n", "16K", "--udp-counters-64bit"],
        &["-b", "100M", "-l", "64", "-n", "64K", "--no-gso"],
        &["-b", "100M", "-l", "1200", "-k", "50"],
    ] {
        let args = [&["-u", "--json"][..], args].concat();
        let record = weir_client(server.port, &args).succeeds().json();
        let (sent, received) = (&record["net"]["sent"], &record["net"]["received"]);
        assert_eq!(sent["datagrams"]["packets"], received["datagrams"]["packets"], "{args:?}: {record}");
        // A busy machine's receiver may come too late for some; then it says how many.
        let lost = received["datagrams"]["lost"].as_u64().unwrap() * record["net"]["block"].as_u64().unwrap();
        assert_eq!(
            sent["bytes"].as_u64().unwrap(),
            received["bytes"].as_u64().unwrap() + lost,
            "{args:?}: {record}"
        );
    }
}

#[test]
fn wrong_use_is_code_2_and_says_why() {
    let sandbox = Sandbox::new();
    for (args, word) in [
        (&[][..], "--server"),
        (&["-s", "-c", "x"], "cannot be used with"),
        (&["-c", "x", "-R", "--bidir"], "cannot be used with"),
        (&["-c", "x", "-P", "129"], "129"),
        (&["-c", "x", "-t", "1", "-n", "1M"], "only one test end condition"),
        (&["-s", "-R"], "cannot be used with"),
        (&["-c", "x", "-l", "2M"], "-l"),
        (&["-c", "x", "-u", "-l", "4"], "-l"),
        (&["-c", "x", "-b", "fast"], "bits per second"),
        (&["-c", "x", "--username", "ann"], "--rsa-public-key-path"),
        (&["-c", "x", "-J", "--json"], "cannot be used with"),
        (&["-c", "x", "-S", "0x100"], "from 0 to 255"),
        (&["-c", "x", "--dscp", "af44"], "such as ef"),
        (&["-c", "x", "-L", "0"], "0xfffff"),
        (&["-c", "x", "--cntl-ka=10/10/3"], "above the product"),
        (&["-c", "x", "--rcv-timeout", "99"], "99"),
        (&["-c", "x", "-D"], "cannot be used with"),
        (&["-c", "x", "-f", "q"], "iperf3 or weir"),
        (&["-c", "x", "--json-stream-full-output"], "--json-stream"),
        (&["-s", "--cport", "7"], "cannot be used with"),
        (&["-c", "x", "--ci", "99,5"], "--rr"),
        (&["-c", "x", "--rr", "--crr"], "cannot be used with"),
        (&["-c", "x", "--rr", "-u"], "cannot be used with"),
        (&["-c", "x", "--rr", "-J"], "cannot be used with"),
        (&["-s", "--rr"], "cannot be used with"),
        (&["-c", "x", "--rr", "-t", "0"], "at least a second"),
        (&["-c", "x", "--rr", "--sizes", "0,1"], "such as 1,1"),
        (&["-c", "x", "--rr", "--ci", "99"], "such as 99,5"),
    ] {
        sandbox.weir(WEIR, ["bench", "net"]).args(args).run().fails(2, &[word]);
    }
}

#[test]
fn who_is_not_there_is_told() {
    let sandbox = Sandbox::new();
    let port = support::net::free_port().to_string();
    let run = |args: &[&str]| sandbox.weir(WEIR, ["bench", "net"]).args(args).run();
    run(&["-c", "127.0.0.1", "-p", &port]).fails(1, &["cannot connect to 127.0.0.1", "refused"]);
    run(&["-c", "no-such-name.invalid"]).fails(1, &["cannot resolve no-such-name.invalid"]);
    let port_too = ["cannot resolve localhost:5201: ", "-c HOST -p PORT"];
    run(&["-c", "localhost:5201"]).fails(1, &port_too);
    run(&["-c", "127.0.0.1", "-6"]).fails(1, &["no IPv6 address"]);
    let run = run(&["-c", "127.0.0.1", "-p", &port, "-J"]);
    assert!(run.exits(1).json()["error"].as_str().unwrap().contains("refused"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let server = sandbox.weir(WEIR, ["bench", "net", "-s", "-p", &port]).run();
    server.fails(1, &["cannot listen on 127.0.0.1", "another program uses", "-p"]);
}
