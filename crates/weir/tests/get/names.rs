//! `weir get` and the names of hosts: a name server that is silent, slow, wrong or down takes no more time
//! than it is given, and nobody else's.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use support::names::{Reply, where_names};
use support::{MIB, Object, Running, Sandbox, Server, skip, wait_for};

const BODY: &[u8] = b"the bytes";

/// Within so long a signal is heard, on a machine that has other work to do as well: what it cuts short would
/// last for half a minute.
const HEARD: Duration = Duration::from_secs(5);

/// Within so long a lookup is over: the resolver's own wait is five seconds.
const BEFORE_RESOLVER: Duration = Duration::from_millis(4500);

fn good() -> Server {
    Server::start(|_, wire| wire.answer("200 OK", &[], BODY))
}

/// `good.test` is the loopback, other names are answered by `other`.
fn beside_good(other: Reply) -> impl Fn(&str) -> Reply + Send + Sync + 'static {
    move |name| match name {
        "good.test" => Reply::at(Ipv4Addr::LOCALHOST),
        _ => other.clone(),
    }
}

/// Ends it by SIGINT, which must be heard at once.
#[track_caller]
fn is_heard(running: Running) {
    let start = Instant::now();
    running.signal(Signal::INT);
    running.wait().exits(130);
    assert!(start.elapsed() < HEARD, "heard after {:?}", start.elapsed());
}

#[test]
fn a_silent_name_server_takes_the_time_allowed_and_no_more() {
    where_names(
        |_| Reply::Silence,
        |world| {
            let sandbox = Sandbox::new();
            let start = Instant::now();
            let limits = ["--timeout", "2", "--retries", "1"];
            let run = sandbox.get(["http://dead.test/x"]).args(&limits).run();
            assert!(start.elapsed() < BEFORE_RESOLVER, "{:?}", start.elapsed());
            run.fails(
                1,
                &["cannot resolve dead.test: no answer from the name server in 2 s", "/etc/resolv.conf"],
            );
            assert!(world.asked("dead.test") >= 1);
            // What stands in front of the host does not change that, nor who asks.
            let short = ["--connect-timeout", "1", "--retries", "1"];
            let silent = |args: &[&str], names: &str| {
                let start = Instant::now();
                let run = sandbox.get(args).args(&short).run();
                assert!(start.elapsed() < BEFORE_RESOLVER, "{args:?}: {:?}", start.elapsed());
                run.fails(1, &[&format!("cannot resolve {names}"), "no answer from the name server in 1 s"]);
            };
            silent(
                &["http://127.0.0.1/x", "--proxy", "http://proxy.test:80"],
                "the proxy proxy.test that --proxy names",
            );
            silent(
                &["https://127.0.0.1/x", "--proxy", "proxy.test:80"],
                "the proxy proxy.test that --proxy names",
            );
            silent(&["http://127.0.0.1/x", "--checksum-from", "http://sums.test/SHA256SUMS"], "sums.test");
            silent(&["https://dead.test/x", "--http2"], "dead.test");
            let elsewhere = Server::start(|_, wire| wire.redirect("302 Found", "http://dead.test/y"));
            silent(&[&elsewhere.url("x")], "dead.test");
            assert!(elsewhere.requests().len() <= 2, "once, and once more when the name is given up");
        },
    );
}

#[test]
fn a_signal_is_heard_while_a_name_is_looked_up() {
    where_names(
        |_| Reply::Silence,
        |world| {
            let sandbox = Sandbox::new();
            let elsewhere = Server::start(|_, wire| wire.redirect("302 Found", "http://there.test/y"));
            for (name, args) in [
                ("dead.test", &["http://dead.test/x"][..]),
                ("proxy.test", &["http://h/x", "--proxy", "http://proxy.test:80"]),
                ("sums.test", &["http://127.0.0.1/x", "--checksum-from", "http://sums.test/SHA256SUMS"]),
                ("there.test", &[&elsewhere.url("x")]),
            ] {
                let running = sandbox.get(args).spawn();
                wait_for("a question", || world.asked(name) > 0);
                is_heard(running);
            }
        },
    );
}

#[test]
fn a_dead_name_holds_up_no_other_host() {
    where_names(beside_good(Reply::Silence), |world| {
        let server = good();
        let port = server.address().port();
        for (files, lanes) in [(20, &[][..]), (20, &["-j", "1"]), (3, &[]), (20, &["-c", "1"])] {
            let sandbox = Sandbox::new();
            let mut list: String =
                (0..40).map(|number| format!("http://dead{number}.test/dead{number}\n")).collect();
            if files < 8 {
                list = "http://dead0.test/dead0\n".to_owned();
            }
            list.extend((0..files).map(|number| format!("http://good.test:{port}/good{number}\n")));
            sandbox.write("list", list);
            let start = Instant::now();
            let running = sandbox.get(["-i", "list", "-o", "in/"]).args(lanes).spawn();
            let came = || sandbox.names().iter().filter(|name| name.starts_with("in/good")).count();
            wait_for("the good files", || came() == files);
            assert!(start.elapsed() < Duration::from_secs(10), "{lanes:?}: {:?}", start.elapsed());
            assert!(world.asked("dead0.test") > 0, "the name was asked for");
            is_heard(running);
        }
    });
}

#[test]
fn many_lanes_make_one_lookup() {
    where_names(beside_good(Reply::Code(3)), |world| {
        let server = good();
        let urls: Vec<String> =
            (0..200).map(|number| format!("http://good.test:{}/{number}", server.address().port())).collect();
        let sandbox = Sandbox::new();
        sandbox.get(&urls).args(&["-o", "in/", "-j", "32"]).run().succeeds();
        assert_eq!(world.asked("good.test"), 1);
        let urls: Vec<String> = (0..200).map(|number| format!("http://nowhere.test/{number}")).collect();
        let run = sandbox.get(&urls).args(&["-o", "none/", "-j", "32"]).run();
        run.fails(1, &["cannot resolve nowhere.test: ", "; check the name"]);
        assert_eq!(world.asked("nowhere.test"), 1, "a name that does not exist is not asked for again");
    });
}

#[test]
fn passing_failures_are_tried_again() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let answer = |name: &str| match name {
        // Both families of the first two lookups; a resolver asks several times in one.
        "later.test" if ASKED.fetch_add(1, Relaxed) < 8 => Reply::Code(2),
        "later.test" => Reply::at(Ipv4Addr::LOCALHOST),
        _ => Reply::Code(2),
    };
    where_names(answer, |world| {
        let server = good();
        let port = server.address().port();
        let sandbox = Sandbox::new();
        sandbox.get([format!("http://later.test:{port}/x")]).run().succeeds();
        let before = world.asked("never.test");
        let run = sandbox.get(["http://never.test/y", "--retries", "2"]).run();
        run.fails(
            1,
            &["cannot resolve never.test: temporary failure in name resolution", "/etc/resolv.conf"],
        );
        assert!(world.asked("never.test") - before >= 3, "each attempt asks");
    });
}

#[test]
fn answers_of_every_kind() {
    let answer = |name: &str| match name {
        "six.test" => Reply::at(Ipv6Addr::LOCALHOST),
        "slow.test" => Reply::After(Duration::from_secs(1), Box::new(Reply::at(Ipv4Addr::LOCALHOST))),
        "large.test" => Reply::Truncated(Some(vec![Ipv4Addr::LOCALHOST.into()])),
        "cut.test" => Reply::Truncated(None),
        "none.test" => Reply::Addresses(Vec::new()),
        "refused.test" => Reply::Code(5),
        "garbage.test" => Reply::Garbage,
        "both.test" => Reply::Addresses(vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()]),
        _ => Reply::Code(3),
    };
    where_names(answer, |world| {
        let server = good();
        let sandbox = Sandbox::new();
        let brings = |name: &str, port: u16| {
            sandbox.get([&format!("http://{name}:{port}/x"), "-o", name]).run().succeeds();
            assert_eq!(sandbox.read(name), BODY, "{name}");
        };
        let port = server.address().port();
        for name in ["slow.test", "large.test", "both.test", "a.localhost", "LOCALHOST"] {
            brings(name, port);
        }
        assert_eq!(world.asked("a.localhost"), 0, "RFC 6761: nobody is asked for it");
        match Server::start_on("[::1]:0", |_, wire| wire.answer("200 OK", &[], BODY)) {
            Some(six) => {
                brings("six.test", six.address().port());
                brings("b.localhost", six.address().port());
            }
            None => skip("this machine has no IPv6 loopback"),
        }
        for (name, says) in [
            ("none.test", "; check the name"),
            ("refused.test", "cannot resolve refused.test: "),
            ("cut.test", "cannot resolve cut.test: "),
            ("garbage.test", "no answer from the name server in 2 s"),
        ] {
            let start = Instant::now();
            let limits = ["--timeout", "2", "--retries", "1"];
            sandbox.get([&format!("http://{name}/x")]).args(&limits).run().fails(1, &[says]);
            assert!(start.elapsed() < BEFORE_RESOLVER, "{name}: {:?}", start.elapsed());
        }
    });
}

#[test]
fn a_host_that_moves_is_found_again() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    // Both families of the first lookup are answered with a host on which nobody listens.
    let answer = |_: &str| match ASKED.fetch_add(1, Relaxed) {
        0 | 1 => Reply::at(Ipv4Addr::new(127, 0, 0, 9)),
        _ => Reply::at(Ipv4Addr::LOCALHOST),
    };
    where_names(answer, |world| {
        let server = good();
        let sandbox = Sandbox::new();
        sandbox.get([format!("http://moves.test:{}/x", server.address().port())]).run().succeeds();
        assert_eq!(world.asked("moves.test"), 2);
    });
}

#[test]
fn what_is_kept_waits_for_the_name_server() {
    static IS_DOWN: AtomicBool = AtomicBool::new(false);
    let answer = |_: &str| match IS_DOWN.load(Relaxed) {
        true => Reply::Silence,
        false => Reply::at(Ipv4Addr::LOCALHOST),
    };
    where_names(answer, |_| {
        let object = Object::new(3 * MIB);
        let bytes = object.bytes.clone();
        let server = Server::start(move |request, wire| match request.number {
            0 => {
                object.serve_up_to(request, wire, 2 * MIB)?;
                wire.close()
            }
            _ => object.serve(request, wire),
        });
        let sandbox = Sandbox::new();
        let url = format!("http://name.test:{}/x", server.address().port());
        let command = || sandbox.get([&*url, "-o", "out", "--timeout", "3", "--retries", "0"]).run();
        command().fails(4, &["kept, run the same command again to resume"]);
        IS_DOWN.store(true, Relaxed);
        command().fails(
            4,
            &["no answer from the name server in 3 s", "kept, run the same command again to resume"],
        );
        IS_DOWN.store(false, Relaxed);
        command().succeeds();
        assert!(sandbox.read("out") == *bytes);
        assert_eq!(server.requests()[1].request.start(), 2 * MIB as u64);
    });
}

#[test]
fn other_commands_wait_for_names_no_longer() {
    where_names(
        |_| Reply::Silence,
        |world| {
            let sandbox = Sandbox::new();
            let running = sandbox.weir(support::WEIR, ["bench", "net", "-c", "dead.test", "-t", "1"]).spawn();
            wait_for("a question", || world.asked("dead.test") > 0);
            let start = Instant::now();
            running.signal(Signal::INT);
            let run = running.wait();
            assert!(start.elapsed() < HEARD, "{:?}: {}", start.elapsed(), run.stderr);
        },
    );
}
