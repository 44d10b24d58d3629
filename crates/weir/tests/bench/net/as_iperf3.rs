//! What scripts around iperf3 expect of it: its lines, its JSON with its keys in its order, its options. The
//! real iperf3 says what is right.

use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use weir_bench_net::ordered::Json;

use crate::support::net::{NetServer, free_port, has_iperf3, weir_client};
use crate::support::{Run, Sandbox, WEIR, skip, wait_for};

/// weir under iperf3's name.
fn named(sandbox: &Sandbox) -> String {
    let link = sandbox.path("iperf3");
    if !link.exists() {
        std::os::unix::fs::symlink(WEIR, &link).unwrap();
    }
    link.to_str().unwrap().to_owned()
}

fn text(run: &Run) -> String {
    String::from_utf8_lossy(&run.stdout).into_owned()
}

/// iperf3's client, whatever it prints.
fn iperf3(port: u16, args: &[&str]) -> String {
    let port = port.to_string();
    let run = Sandbox::new().weir("iperf3", ["-c", "127.0.0.1", "-p", &port]).args(args).run();
    text(run.succeeds())
}

/// A line without its numbers, units and widths.
fn shape(line: &str) -> String {
    let word = |word: &str| match word {
        "Bytes" | "KBytes" | "MBytes" | "GBytes" => "UNIT".to_owned(),
        word if word.ends_with("bits/sec") => "RATE".to_owned(),
        word if word.parse::<f64>().is_ok() => "#".to_owned(),
        // A share of losses may be 1.2e+02 or 1e-05.
        word => word
            .replace("e+", "")
            .replace("e-", "")
            .replace(|letter: char| letter == '.' || letter.is_ascii_digit(), ""),
    };
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

fn shapes(text: &str) -> std::collections::BTreeSet<String> {
    text.lines().map(shape).collect()
}

/// The same kinds of lines by both clients of the same server, and by both servers of the same client.
#[test]
fn lines_are_iperf3_s_own() {
    if !has_iperf3() {
        return skip("iperf3 is not installed");
    }
    let same = |args: &[&str]| {
        let server = NetServer::iperf3(&[]);
        let theirs = iperf3(server.port, args);
        let of_server = server.wait();
        let server = NetServer::weir(&["-1"]);
        let ours = text(weir_client(server.port, args).succeeds());
        let of_weir = server.wait();
        assert_eq!(shapes(&ours), shapes(&theirs), "{args:?}\n{ours}\n{theirs}");
        // A server's first words were read before.
        let tests = |text: &str| {
            let from = text.find("Accepted").unwrap_or_default();
            let to = text[from..].find("-----").map_or(text.len(), |at| from + at);
            shapes(&text[from..to])
        };
        assert_eq!(tests(&of_weir), tests(&of_server), "{args:?}\n{of_weir}\n{of_server}");
    };
    let same = &same;
    // A second each, so all at once.
    std::thread::scope(|scope| {
        for args in [
            &["-t", "1", "-b", "20M"][..],
            &["-t", "1", "-b", "20M", "-R", "-P", "2"],
            &["-t", "1", "-b", "20M", "--bidir"],
            &["-t", "1", "-b", "5M", "-u", "-l", "1000"],
            &["-t", "1", "-b", "5M", "-u", "-R", "-P", "2", "-l", "1000"],
            &["-t", "1", "-b", "5M", "-u", "--bidir", "-l", "1000", "-f", "m"],
        ] {
            scope.spawn(move || same(args));
        }
    });
}

/// Pipes that stand in a thousand scripts.
#[test]
fn scripts_find_what_they_cut_out() {
    let server = NetServer::weir(&[]);
    let sandbox = Sandbox::new();
    named(&sandbox);
    let port = server.port.to_string();
    let shell = |script: &str| {
        let run = sandbox.weir("sh", ["-c", script]).env("WEIR", WEIR).env("PORT", &port).run();
        text(run.succeeds()).trim().to_owned()
    };
    let number =
        |script: &str| shell(script).parse::<f64>().unwrap_or_else(|_| panic!("{script}: {}", shell(script)));
    for client in ["$WEIR bench net", "./iperf3"] {
        // Of 8 Mbit/s, a good part of a second that a busy machine may lose at the end.
        let near = |value: f64| assert!((3.0..12.0).contains(&value), "{client}: {value}");
        let run = format!("{client} -c 127.0.0.1 -p $PORT -t 1 -b 8M");
        near(number(&format!("{run} | grep receiver | awk '{{print $7}}'")));
        near(number(&format!("{run} -f m | grep sender | tail -1 | awk '{{print $7}}'")));
        near(number(&format!("{run} | awk '/receiver/ {{print $(NF-2)}}'")));
        near(number(&format!("{run} -P 2 -b 4M | grep SUM | grep receiver | awk '{{print $6}}'")));
        assert_eq!(shell(&format!("{run} | tail -1")), "iperf Done.");
        assert_eq!(shell(&format!("{run} -J | tail -1")), "}");
        near(number(&format!("{run} -J | grep bits_per_second | tail -1 | tr -dc '0-9.\\n'")) / 1e6);
        near(
            number(&format!(
                "{run} -u -l 1000 -J | sed -n 's/.*\"bits_per_second\":\\t//p' | tail -1 | tr -d ,"
            )) / 1e6,
        );
    }
    let lost =
        shell("./iperf3 -c 127.0.0.1 -p $PORT -t 1 -b 2M -u -l 500 | awk '/receiver/ {print $11}' | tail -1");
    assert!(lost.contains('/'), "{lost}");
    let piped = shell("./iperf3 --version | head -1 | awk '{print $2}'");
    assert!(piped.starts_with("3."), "{piped}");
}

/// Members of `theirs` that `ours` lacks, or has in another order.
fn disorder(path: &str, theirs: &Json, ours: &Json, found: &mut Vec<String>) {
    match (theirs, ours) {
        (Json::Members(theirs), Json::Members(members)) => {
            let mut names: Vec<&String> = Vec::new();
            // 3.12 says some twice: of several streams, and a rate.
            for (name, _) in theirs {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            let same: Vec<&String> =
                members.iter().map(|(name, _)| name).filter(|name| names.contains(name)).collect();
            if names != same {
                found.push(format!("{path}: {names:?} against {same:?}"));
            }
            for (name, value) in theirs {
                if let Some(other) = ours.get(name) {
                    disorder(&format!("{path}/{name}"), value, other, found);
                }
            }
        }
        (Json::List(theirs), Json::List(ours)) => {
            for (theirs, ours) in theirs.iter().zip(ours) {
                disorder(&format!("{path}/*"), theirs, ours, found);
            }
        }
        _ => {}
    }
}

#[test]
fn keys_stand_in_iperf3_s_order_at_both_ends() {
    if !has_iperf3() {
        return skip("iperf3 is not installed");
    }
    let same = |args: &[&str]| {
        let read =
            |text: &str| Json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
        let server = NetServer::iperf3(&["-J"]);
        let theirs = iperf3(server.port, &[args, &["-J"]].concat());
        let of_server = server.wait();
        // Byte for byte as cJSON prints it, but for how many digits a number has.
        let digits = |text: &str| {
            text.chars()
                .filter(|letter| !letter.is_ascii_digit() && !".e-+".contains(*letter))
                .collect::<String>()
        };
        assert_eq!(digits(&read(&theirs).lines()), digits(theirs.trim_end()));
        let server = NetServer::weir(&["-1", "-J"]);
        let ours = text(weir_client(server.port, &[args, &["-J"]].concat()).succeeds());
        let of_weir = server.wait();
        let mut found = Vec::new();
        disorder("client", &read(&theirs), &read(&ours), &mut found);
        disorder("server", &read(&of_server), &read(&of_weir), &mut found);
        assert!(found.is_empty(), "{args:?}: {found:#?}");
        let top: Vec<String> = match read(&ours) {
            Json::Members(members) => members.into_iter().map(|(name, _)| name).take(3).collect(),
            other => panic!("{other:?}"),
        };
        assert_eq!(top, ["start", "intervals", "end"]);
    };
    let same = &same;
    std::thread::scope(|scope| {
        for args in [
            &["-t", "1", "-b", "20M"][..],
            &["-t", "1", "-b", "20M", "-R", "-P", "2"],
            &["-t", "1", "-b", "20M", "--bidir"],
            &["-t", "1", "-b", "5M", "-u", "-l", "1000", "--title", "x", "--extra-data", "y"],
            &["-t", "1", "-b", "5M", "-u", "-l", "1000", "--bidir"],
        ] {
            scope.spawn(move || same(args));
        }
    });
}

/// What 3.21 has and 3.12 has not.
#[test]
fn members_of_later_versions_are_there() {
    let server = NetServer::weir(&[]);
    let of = |args: &[&str]| weir_client(server.port, &[&["-J"], args].concat()).succeeds().json();
    let tcp = of(&["-n", "1M"]);
    assert!(tcp["start"]["timestamp"]["timemillisecs"].as_u64().unwrap() / 1000 >= 1_700_000_000);
    assert!(tcp["intervals"][0]["streams"][0]["reorder"].is_u64(), "{}", tcp["intervals"]);
    assert!(tcp["end"]["streams"][0]["sender"]["reorder"].is_u64(), "{}", tcp["end"]);
    assert_eq!(
        (&tcp["start"]["test_start"]["gso"], &tcp["start"]["test_start"]["interval"]),
        (&0.into(), &1.into())
    );
    let udp = of(&["-u", "-b", "5M", "-n", "50K"]);
    assert_eq!(
        (&udp["start"]["test_start"]["gso"], &udp["start"]["test_start"]["gro"]),
        (&1.into(), &1.into())
    );
    let alone = of(&["-u", "-b", "5M", "-n", "50K", "--no-gso"]);
    assert_eq!(alone["start"]["test_start"]["gso"], 0);
    // What the public module for Python reads, by the same paths.
    for path in [
        "/start/connected/0/local_host",
        "/start/version",
        "/start/system_info",
        "/start/cookie",
        "/start/timestamp/timesecs",
        "/start/connecting_to/port",
        "/start/tcp_mss_default",
        "/start/test_start/num_streams",
        "/end/sum_sent/retransmits",
        "/end/sum_received/bits_per_second",
        "/end/cpu_utilization_percent/remote_total",
        "/end/streams/0/sender/mean_rtt",
    ] {
        assert!(tcp.pointer(path).is_some_and(|value| !value.is_null()), "{path}");
    }
    for path in
        ["/end/sum/jitter_ms", "/end/sum/lost_percent", "/end/sum/bits_per_second", "/end/sum/packets"]
    {
        assert!(udp.pointer(path).is_some_and(Value::is_number), "{path}");
    }
}

#[test]
fn of_an_option_that_is_repeated_the_last_counts() {
    let server = NetServer::weir(&[]);
    let port = server.port.to_string();
    let args = ["-J", "-t", "9", "-n", "1M", "-t", "1"];
    weir_client(server.port, &args).fails(2, &["only one test end condition (-t, -n, -k)"]);
    let args = [
        "-P", "9", "-n", "3M", "-R", "-n", "1M", "-P", "2", "-R", "-p", "1", "-p", &port, "-S", "3", "-S",
        "0x10", "-6", "-4", "-J",
    ];
    let json = weir_client(server.port, &args).succeeds().json();
    let test = &json["start"]["test_start"];
    let told = ["num_streams", "bytes", "reverse", "tos"].map(|name| test[name].as_u64().unwrap());
    assert_eq!(told, [2, 1 << 20, 1, 16]);
    let by =
        |args: &[&str]| weir_client(server.port, &[&["-J", "-n", "1K"], args].concat()).succeeds().json();
    assert_eq!(by(&["-S", "1", "--dscp", "ef"])["start"]["test_start"]["tos"], 0xb8);
    assert_eq!(by(&["--dscp", "ef", "-S", "020"])["start"]["test_start"]["tos"], 16);
}

/// Each option that says something to the other end is understood there by the other program.
#[test]
fn options_reach_the_other_program() {
    if !has_iperf3() {
        return skip("iperf3 is not installed");
    }
    let all = [
        "-n",
        "200K",
        "-S",
        "0x10",
        "--dont-fragment",
        "--snd-timeout",
        "5000",
        "--pacing-timer",
        "500",
        "--repeating-payload",
        "--forceflush",
        "-A",
        "0",
        "-N",
    ];
    let server = NetServer::iperf3(&["-J"]);
    let more = [
        "--cntl-ka=60/5/3",
        "--skip-rx-copy",
        "--fq-rate",
        "0",
        "-d",
        "-V",
        "--linux-congestion",
        "cubic",
        "-q",
    ];
    weir_client(server.port, &[&all[..], &more].concat()).succeeds();
    let told = server.json();
    assert_eq!(told["start"]["test_start"]["tos"], 16, "{told}");
    let server = NetServer::weir(&["-1", "-J", "--rcv-timeout", "5000", "-A", "0", "--snd-timeout", "5000"]);
    iperf3(server.port, &[&all[..], &["--rcv-timeout", "5000", "-R"]].concat());
    let told = server.json();
    assert_eq!(told["start"]["test_start"]["tos"], 16, "{told}");
    for args in [
        &["-u", "-n", "100K", "-b", "20M", "--gsro"][..],
        &["-m", "-n", "200K"],
        &["-A", "0,0", "-n", "200K"],
    ] {
        let server = NetServer::iperf3(&["-J"]);
        weir_client(server.port, args).succeeds();
        assert!(server.json()["error"].is_null());
        let server = NetServer::weir(&["-1", "--json"]);
        weir_client(server.port, args).succeeds();
        assert_eq!(server.json()["outcome"], "complete");
    }
}

#[test]
fn sockets_are_made_as_options_say() {
    let server = NetServer::weir(&[]);
    let json =
        |args: &[&str]| weir_client(server.port, &[&["-J", "-n", "100K"], args].concat()).succeeds().json();
    for transport in [&[][..], &["-u", "-b", "10M"]] {
        // The second stream's is the next one, which no other test may be handed.
        let (first, _) = std::iter::repeat_with(|| (free_port(), free_port()))
            .find(|(first, second)| first + 1 == *second)
            .unwrap();
        let told = json(&[&["-P", "2", "--cport", &first.to_string()], transport].concat());
        let ports = [0, 1].map(|at| told["start"]["connected"][at]["local_port"].as_u64().unwrap());
        assert_eq!(ports, [first.into(), u64::from(first) + 1]);
    }
    let run = |args: &[&str]| {
        Sandbox::new()
            .weir(WEIR, ["bench", "net", "-p", &server.port.to_string(), "-n", "100K"])
            .args(args)
            .run()
    };
    if std::net::TcpListener::bind("[::1]:0").is_ok() {
        run(&["-c", "::1", "-L", "0x12345"]).succeeds();
        run(&["-c", "::1", "-u", "-b", "10M", "-L", "7"]).succeeds();
    }
    run(&["-c", "127.0.0.1", "-L", "7"]).fails(1, &["flow label 7", "choose IPv6"]);
    run(&["-c", "127.0.0.1", "-A", "1023"]).fails(2, &["-A: cannot run on processor 1023; there are 0"]);
    if rustix::process::geteuid().is_root() {
        run(&["-c", "127.0.0.1", "--bind-dev", "lo"]).succeeds();
        run(&["-c", "127.0.0.1%lo"]).succeeds();
        run(&["-c", "127.0.0.1", "-B", "127.0.0.1%lo"]).succeeds();
    } else {
        skip("binding to an interface needs root");
    }
    run(&["-c", "127.0.0.1", "--bind-dev", "none-such"]).fails(1, &["the interface none-such"]);
}

#[test]
fn a_stream_of_json_comes_event_by_event() {
    let server = NetServer::weir(&["--json-stream", "-1"]);
    let run = weir_client(server.port, &["-t", "1", "-i", "0.5", "-b", "20M", "--json-stream"]);
    let events = |text: &str| -> Vec<(String, Value)> {
        let event = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
        let named = |event: Value| (event["event"].as_str().unwrap().to_owned(), event["data"].clone());
        text.lines().map(event).map(named).collect()
    };
    for text in [text(run.succeeds()), server.wait()] {
        let events = events(&text);
        let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names[0], names[names.len() - 1]), ("start", "end"), "{names:?}");
        assert!(
            names.len() >= 3 && names[1..names.len() - 1].iter().all(|name| *name == "interval"),
            "{names:?}"
        );
        assert!(events[1].1["sum"]["bytes"].as_u64().unwrap() > 0, "{}", events[1].1);
        assert!(events[names.len() - 1].1["sum_received"]["bytes"].as_u64().unwrap() > 0);
    }
    let server = NetServer::weir(&[]);
    let whole = text(
        weir_client(server.port, &["-n", "1K", "--json-stream", "--json-stream-full-output"]).succeeds(),
    );
    let (_, after) = whole.split_once("\n{\n").expect(&whole);
    assert!(serde_json::from_str::<Value>(&format!("{{{after}")).unwrap()["end"].is_object());
    let run =
        Sandbox::new().weir(WEIR, ["bench", "net", "-c", "127.0.0.1", "-p", "1", "--json-stream"]).run();
    let failed = events(&text(run.exits(1)));
    assert!(failed[0].0 == "error" && failed[0].1.as_str().unwrap().contains("refused"), "{failed:?}");
}

#[test]
fn lines_carry_times_and_titles_and_go_into_logs() {
    let server = NetServer::weir(&[]);
    let port = server.port.to_string();
    let run = weir_client(server.port, &["-n", "1K", "--timestamps=%s|", "-T", "far"]);
    let lines = text(run.succeeds());
    for line in lines.lines() {
        let (time, rest) = line.split_once('|').unwrap_or_else(|| panic!("{line}"));
        assert!(time.parse::<u64>().unwrap() > 1_700_000_000 && rest.starts_with("far:  "), "{line}");
    }
    let usual = text(weir_client(server.port, &["-n", "1K", "--timestamps", "-f", "k"]).succeeds());
    assert!(usual.contains(" Kbits/sec") && usual.contains(':'), "{usual}");
    let sandbox = Sandbox::new();
    let weir = |args: &[&str]| {
        sandbox.weir(WEIR, ["bench", "net", "-c", "127.0.0.1", "--logfile", "log"]).args(args).run()
    };
    assert_eq!(text(weir(&["-p", &port, "-n", "1K"]).succeeds()), "");
    weir(&["-p", &port, "-n", "1K"]).succeeds();
    let failed = weir(&["-p", "1"]);
    assert!(failed.exits(1).stderr.is_empty(), "{}", failed.stderr);
    let log = String::from_utf8(sandbox.read("log")).unwrap();
    assert!(log.matches("iperf Done.").count() == 2 && log.contains("cannot connect"), "{log}");
    sandbox
        .weir(WEIR, ["bench", "net", "-c", "h", "--logfile", "no/where"])
        .run()
        .fails(1, &["cannot write no/where"]);
}

#[test]
fn a_server_goes_behind_the_shell_and_leaves_its_number() {
    let sandbox = Sandbox::new();
    let (port, program) = (free_port().to_string(), named(&sandbox));
    for command in [&[WEIR, "bench", "net"][..], &[program.as_str()]] {
        let args = ["-s", "-D", "-p", &port, "-I", "pid", "--logfile", "log"];
        let words = [&command[1..], &args[..]].concat();
        let run = sandbox.weir(command[0], &words).run();
        run.succeeds();
        let pid: i32 = String::from_utf8(sandbox.read("pid")).unwrap().parse().unwrap();
        let pid = Pid::from_raw(pid).unwrap();
        // Its port is taken, and its file is held.
        let second = sandbox.weir(command[0], &words).run();
        second.fails(1, &["holds the number of a process that runs"]);
        sandbox.weir(WEIR, ["bench", "net", "-c", "127.0.0.1", "-p", &port, "-n", "100K"]).run().succeeds();
        kill_process(pid, Signal::TERM).unwrap();
        wait_for("its number to go", || !sandbox.path("pid").exists());
        let log = String::from_utf8(sandbox.read("log")).unwrap();
        assert!(log.contains("Server listening on") && log.contains("receiver"), "{log}");
    }
    sandbox.write("mine", "my words");
    let other = sandbox.weir(WEIR, ["bench", "net", "-s", "-I", "mine"]).run();
    other.fails(1, &["holds something else than a process's number"]);
    // What keeps it from listening is told by whoever started it.
    let taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let run = sandbox.weir(WEIR, ["bench", "net", "-s", "-D", "-p", &port, "-I", "pid"]).run();
    run.fails(1, &["cannot listen on", "another program uses"]);
    assert!(!sandbox.path("pid").exists());
}

#[test]
fn an_idle_server_of_one_test_ends() {
    let port = free_port().to_string();
    let run =
        Sandbox::new().weir(WEIR, ["bench", "net", "-s", "-1", "--idle-timeout", "1", "-p", &port]).run();
    run.succeeds();
}

/// Under its name both ends work with the real one, and its words and exit codes are its own.
#[test]
fn a_link_named_iperf3_is_iperf3() {
    let sandbox = Sandbox::new();
    let program = named(&sandbox);
    let version = text(sandbox.weir(&program, ["-v"]).run().succeeds());
    assert!(version.starts_with("iperf 3.21 (weir ") && version.contains("Linux"), "{version}");
    assert!(text(sandbox.weir(&program, ["-h"]).run().succeeds()).contains("--client"));
    sandbox
        .weir(&program, ["-c", "127.0.0.1", "-p", "1"])
        .run()
        .fails(1, &["iperf3: error - cannot connect"]);
    sandbox
        .weir(&program, ["-c", "h", "-F", "x"])
        .run()
        .fails(1, &["iperf3: parameter error - ", "'weir cp' a whole copy"]);
    for (words, says) in [
        (&["-c", "h", "-t", "x"][..], "'x'"),
        (&["-c", "h", "--no-such-thing"], "--no-such-thing"),
        (&["-c", "h", "-s"], "--client"),
        (&["-c", "h", "-n", "1M", "-k", "5"], "only one test end condition"),
        (&["-c", "h", "-l", "9G"], "-l: expected"),
        (&[], "--client"),
    ] {
        sandbox.weir(&program, words.iter().copied()).run().fails(1, &["iperf3: parameter error - ", says]);
    }
    // Not a word too few, and not one too many, where it has its own name.
    sandbox.weir(WEIR, ["bench", "net", "-c", "h", "-t", "x"]).run().fails(2, &["error: "]);
    let failed = sandbox.weir(&program, ["-c", "127.0.0.1", "-p", "1", "--json"]).run();
    assert!(failed.exits(1).json()["error"].as_str().unwrap().starts_with("error - "));
    let server = NetServer::weir(&[]);
    let args = ["--clie", "127.0.0.1", "-p", &server.port.to_string(), "--json", "-n1M", "-RP2", "--verbose"];
    let json = sandbox.weir(&program, args).run().succeeds().json();
    assert!(json["start"]["version"].as_str().unwrap().starts_with("iperf 3.21 "), "{}", json["start"]);
    if !has_iperf3() {
        return skip("iperf3 is not installed");
    }
    // A server listens to the network, as iperf3's does.
    let port = free_port();
    let mut command = Command::new(&program);
    command.args(["-s", "-1", "-p", &port.to_string()]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let first: Vec<String> = lines.by_ref().take(3).map(Result::unwrap).collect();
    assert_eq!(first[1], format!("Server listening on {port} (test #1)"));
    let ends = std::fs::read_to_string("/proc/net/tcp6").unwrap_or_default();
    assert!(ends.contains(&format!(" {}:{port:04X} ", "0".repeat(32))), "it listens everywhere: {ends}");
    assert!(iperf3(port, &["-n", "1M"]).contains("iperf Done."));
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(rest.iter().any(|line| line.ends_with("receiver")), "{rest:?}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A flood of connections that say nothing is told of, and keeps nobody out who speaks.
#[test]
fn silent_connections_do_not_close_the_door() {
    let mut command = Command::new(WEIR);
    let port = free_port();
    command
        .args(["bench", "net", "-s", "-p", &port.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let at = (Ipv4Addr::LOCALHOST, port);
    wait_for("the server", || TcpStream::connect(at).is_ok());
    let silent: Vec<TcpStream> = (0..600).map(|_| TcpStream::connect(at).unwrap()).collect();
    weir_client(port, &["-n", "100K", "-P", "4"]).succeeds();
    drop(silent);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    child.wait().unwrap();
    assert!(said.contains("full: 512 connections"), "{said}");
}

/// A client that asks for UDP and then says nothing holds up no other, of its own address neither.
#[test]
fn a_silent_udp_client_blocks_no_other() {
    use std::io::Write;
    let server = NetServer::weir(&[]);
    let silent: Vec<TcpStream> = (0..2)
        .map(|_| {
            let mut control = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).unwrap();
            control.write_all(weir_bench_net::cookie::Cookie::random().bytes()).unwrap();
            control.read_exact(&mut [0]).unwrap();
            let parameters = serde_json::json!({ "udp": true, "time": 1, "parallel": 1, "len": 1000 });
            control.write_all(&weir_bench_net::frame::encode(&parameters).unwrap()).unwrap();
            control
        })
        .collect();
    let begun = std::time::Instant::now();
    weir_client(server.port, &["-u", "-b", "10M", "-n", "50K"]).succeeds();
    // Each of the two loses its turn after a second.
    assert!(begun.elapsed() < std::time::Duration::from_secs(8), "{:?}", begun.elapsed());
    if has_iperf3() {
        iperf3(server.port, &["-u", "-b", "10M", "-n", "50K"]);
    }
    drop(silent);
}
