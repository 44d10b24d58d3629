//! `weir get` and how a host is reached and asked: `--resolve`, `--connect-to`, `--interface`, `-4`, `-6`,
//! `--unix-socket`, zones, `-H`, `--max-redirs`, and links that are not fetched.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::{Duration, Instant};

use support::names::{Reply, World, where_names};
use support::{MIB, Object, Sandbox, Server, pattern, skip};

const BODY: &[u8] = b"the bytes";

/// Says whom it was asked for and what was sent along.
fn good() -> Server {
    Server::start(|_, wire| wire.answer("200 OK", &[], BODY))
}

fn host_asked(server: &Server) -> Option<String> {
    server.requests().last()?.request.field("host").map(str::to_owned)
}

#[test]
fn addresses_in_place_of_a_name_server_s() {
    let server = good();
    let port = server.address().port();
    let url = format!("http://no.such.test:{port}/x");
    let sandbox = Sandbox::new();
    for given in [
        format!("no.such.test:{port}:127.0.0.1"),
        format!("+NO.such.test:{port}:[::1],127.0.0.1"),
        format!("*:{port}:127.0.0.1"),
    ] {
        let run = sandbox.get([&*url, "-o", "out", "--resolve", &given, "--connect-timeout", "5"]).run();
        run.succeeds();
        assert_eq!(host_asked(&server), Some(format!("no.such.test:{port}")));
        assert_eq!(sandbox.read("out"), BODY);
    }
    // The last word counts.
    let (wrong, right) = (format!("no.such.test:{port}:192.0.2.1"), format!("no.such.test:{port}:127.0.0.1"));
    sandbox.get([&*url, "-o", "out", "--resolve", &wrong, "--resolve", &right]).run().succeeds();
    let back = format!("-no.such.test:{port}");
    let run = sandbox
        .get([&*url, "-o", "out", "--resolve", &right, "--resolve", &back, "--connect-timeout", "1"])
        .run();
    run.fails(1, &["cannot resolve no.such.test"]);
    for bad in ["no.such.test", "h:80:name", "h:x:127.0.0.1", "h:80:"] {
        sandbox.get([&*url, "--resolve", bad]).run().exits(2);
    }
}

#[test]
fn another_host_in_its_place() {
    let server = Server::start_tls(|_, wire| wire.answer("200 OK", &[], BODY));
    let sandbox = Sandbox::new();
    let certificate = sandbox.write("cert.pem", server.certificate());
    let to = format!("localhost:443:127.0.0.1:{}", server.address().port());
    // The name in TLS and in Host stays.
    let run = sandbox
        .get(["https://localhost/x", "-o", "out", "--connect-to", &to, "--cacert"])
        .args(&[certificate.to_str().unwrap()]);
    run.run().succeeds();
    assert_eq!(host_asked(&server).as_deref(), Some("localhost"));
    let plain = good();
    let to = format!("::{}", plain.address());
    sandbox.get(["http://no.such.test/x", "-o", "out", "--connect-to", &to]).run().succeeds();
    assert_eq!(host_asked(&plain).as_deref(), Some("no.such.test"));
    let proxy = plain.url("");
    let refused = sandbox.get(["http://h.test/x", "-o", "out", "--connect-to", &to, "--proxy", &proxy]).run();
    refused.fails(1, &["--connect-to", "the proxy chooses"]);
}

#[test]
fn name_servers_in_place_of_this_host_s() {
    let answer = |name: &str| match name {
        "there.test" => Reply::at(Ipv4Addr::LOCALHOST),
        "large.test" => Reply::Truncated(Some(vec![Ipv4Addr::LOCALHOST.into()])),
        "none.test" => Reply::Addresses(Vec::new()),
        "broken.test" => Reply::Code(2),
        "silent.test" => Reply::Silence,
        _ => Reply::Code(3),
    };
    let (world, at) = World::aside(answer).unwrap();
    let server = good();
    let sandbox = Sandbox::new();
    let at = at.to_string();
    let url = |name: &str| format!("http://{name}:{}/x", server.address().port());
    for (name, flag) in [("there.test", "--dns-servers"), ("large.test", "--async-dns-server")] {
        sandbox.get([&*url(name), "-o", "out", flag, &at]).run().succeeds();
        assert_eq!(sandbox.read("out"), BODY);
    }
    assert_eq!(world.asked("there.test"), 1);
    // Addresses and this host itself are known without a question, and so is what the hosts file has.
    for host in ["127.0.0.1", "localhost"] {
        sandbox.get([&*url(host), "-o", "out", "--dns-servers", &at]).run().succeeds();
    }
    for (name, says) in [
        ("missing.test", "knows no such name; check the name"),
        ("none.test", "knows no address of it; check the name"),
        ("broken.test", "cannot resolve broken.test: "),
        ("silent.test", "cannot resolve silent.test: no answer from the name server"),
    ] {
        let start = Instant::now();
        let args = ["--dns-servers", &at, "--timeout", "2", "--retries", "1", "-o", "none"];
        sandbox.get([&*url(name)]).args(&args).run().fails(1, &[says]);
        // The silent one would be silent for ever.
        assert!(start.elapsed() < Duration::from_secs(15), "{name}: {:?}", start.elapsed());
    }
    // The first that is silent is not waited for to the end where another one is named.
    let (_silent, first) = World::aside(|_| Reply::Silence).unwrap();
    let both = format!("{first},{at}");
    sandbox.get([&*url("there.test"), "-o", "out", "--dns-servers", &both]).run().succeeds();
    for bad in ["", "dns.test", "127.0.0.1:", "127.0.0.1:99999"] {
        sandbox.get([&*url("there.test"), "--dns-servers", bad]).run().fails(2, &["expected addresses"]);
    }
}

#[test]
fn an_interface_or_an_address_to_leave_from() {
    let server = Server::start(|_, wire| wire.answer("200 OK", &[], BODY));
    let sandbox = Sandbox::new();
    let url = server.url("x");
    for from in ["lo", "127.0.0.9", "host!127.0.0.9"] {
        sandbox.get([&*url, "-o", "out", "--interface", from]).run().succeeds();
    }
    sandbox.get([&*url, "-o", "out", "--bind-address", "127.0.0.9"]).run().succeeds();
    for (from, code, says) in [
        ("weir-none", 2, &["cannot use --interface weir-none: there is no such interface here", "lo"][..]),
        ("192.0.2.99", 2, &["no interface of this host has that address"]),
        ("", 2, &["expected an interface"]),
        ("::1", 1, &["it has only IPv4 addresses here, which --interface ::1 leaves out"]),
    ] {
        sandbox.get([&*url, "-o", "out", "--interface", from, "--retries", "1"]).run().fails(code, says);
    }
}

#[test]
fn one_family() {
    let sandbox = Sandbox::new();
    let Some(server) = Server::start_on("[::1]:0", |_, wire| wire.answer("200 OK", &[], BODY)) else {
        return skip("no IPv6 here");
    };
    let url = format!("http://localhost:{}/x", server.address().port());
    for flag in ["-6", "--ipv6", "--inet6-only"] {
        sandbox.get([&*url, "-o", "out", flag]).run().succeeds();
    }
    let run = sandbox.get([&*url, "-o", "out", "-4", "--retries", "0"]).run();
    run.exits(1).says(&["cannot connect to"]);
    let literal = server.url("x");
    sandbox
        .get([&*literal, "-o", "out", "-4"])
        .run()
        .fails(1, &["it has only IPv6 addresses here, which -4 leaves out"]);
    sandbox.get([&*literal, "-4", "-6"]).run().exits(2);
}

/// Answers one request on each connection.
fn answer_on(listener: UnixListener) {
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && socket.read(&mut byte).is_ok_and(|read| read == 1) {
                head.push(byte[0]);
            }
            let body = pattern(3 * MIB, 1);
            let _ = socket.write_all(
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len())
                    .as_bytes(),
            );
            let _ = socket.write_all(&body);
        }
    });
}

#[test]
fn a_socket_of_this_machine() {
    let sandbox = Sandbox::new();
    answer_on(UnixListener::bind(sandbox.path("socket")).unwrap());
    let name = format!("weir-test-{}", std::process::id());
    answer_on(UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap());
    for way in [["--unix-socket", "socket"], ["--abstract-unix-socket", name.as_str()]] {
        // No name is looked up, and no proxy is asked.
        let weir = sandbox.get(["http://no.such.test/x", "-o", "out"]).args(&way);
        weir.env("http_proxy", "http://127.0.0.1:1").run().succeeds();
        assert!(sandbox.read("out") == pattern(3 * MIB, 1), "{way:?}");
    }
    let run = sandbox.get(["http://h/x", "-o", "out", "--unix-socket", "none", "--retries", "0"]).run();
    run.fails(1, &["cannot connect to the socket none"]);
    sandbox.get(["http://h/x", "--unix-socket", "socket", "--proxy", "http://h"]).run().exits(2);
}

/// An address of a link is reached over the interface that its zone names.
#[test]
fn zones_of_link_local_addresses() {
    where_names(
        |_| Reply::at(Ipv4Addr::LOCALHOST),
        |_| {
            let run = |words: &str| {
                let mut words = words.split(' ');
                std::process::Command::new(words.next().unwrap())
                    .args(words)
                    .status()
                    .is_ok_and(|ended| ended.success())
            };
            let made = run("ip link add weir0 type veth peer name weir1")
                && run("ip addr add fe80::77/64 dev weir0 nodad")
                && run("ip addr add fe80::78/64 dev weir1 nodad")
                && run("ip link set weir0 up")
                && run("ip link set weir1 up");
            let server = made.then(|| Server::start_on("[::]:0", |_, wire| wire.answer("200 OK", &[], BODY)));
            let Some(server) = server.flatten() else { return skip("no link-local address can be made") };
            let port = server.address().port();
            let sandbox = Sandbox::new();
            for zone in ["%25weir0", "%weir0"] {
                let url = format!("http://[fe80::77{zone}]:{port}/x");
                sandbox.get([&*url, "-o", "out", "--connect-timeout", "5"]).run().succeeds();
                assert_eq!(host_asked(&server), Some(format!("[fe80::77]:{port}")));
            }
            let nowhere = format!("http://[fe80::77%25weir-none]:{port}/x");
            sandbox.get([&*nowhere, "-o", "out", "--retries", "0"]).run().exits(1);
            let both = [
                format!("http://[fe80::77%25weir0]:{port}/a"),
                format!("http://[fe80::77%25weir1]:{port}/b"),
            ];
            sandbox.get(&both).run().fails(2, &["run weir once for each"]);
        },
    );
}

#[test]
fn fields_are_sent_left_out_or_empty() {
    let server = good();
    let sandbox = Sandbox::new();
    sandbox.write("fields", "X-File: 1\r\nX-File: 2\r\nX-None;\r\n");
    let words = ["-H", "@fields", "-H", "X-Two: a", "-H", "x-two: b", "-H", "Accept:", "-H", "User-Agent;"];
    sandbox.get([&server.url("x"), "-o", "out"]).args(&words).run().succeeds();
    let request = server.requests().last().unwrap().request.clone();
    let values = |name: &str| {
        let own = request.fields.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
        own.map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    assert_eq!(values("x-file"), ["1", "2"]);
    assert_eq!(values("x-two"), ["a", "b"]);
    assert_eq!((values("x-none"), values("user-agent")), (vec![String::new()], vec![String::new()]));
    assert!(values("accept").is_empty() && values("accept-encoding") == ["identity"]);
    // From a pipe, and what cannot be.
    sandbox.get([&server.url("x"), "-o", "out", "-H", "@-"]).input("X-Piped: 1\n").run().succeeds();
    assert_eq!(server.requests().last().unwrap().request.field("x-piped"), Some("1"));
    for (line, says) in [
        ("Host:", "-H 'Host;' sends an empty one"),
        ("Range: bytes=0-9", "weir makes that field itself"),
        ("@none", "cannot read the fields in none"),
        ("nonsense", "expected a field"),
    ] {
        sandbox.get([&server.url("x"), "-H", line]).run().fails(2, &[says]);
    }
}

#[test]
fn without_range_the_whole_is_asked_for() {
    let object = Object::new(3 * MIB);
    let server = Server::start(move |request, wire| object.serve(request, wire));
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("x"), "-o", "out", "-H", "Range:", "-c", "3"]).run().succeeds();
    assert!(sandbox.read("out") == pattern(3 * MIB, 1));
    assert!(server.requests().iter().all(|seen| seen.request.field("range").is_none()));
}

#[test]
fn fields_stay_with_their_host() {
    let far = good();
    let to = far.url("there");
    let near = Server::start(move |_, wire| wire.redirect("302 Found", &to));
    let sandbox = Sandbox::new();
    let words = ["-H", "X-Token: geheim", "-H", "X-Token: geheim2", "-H", "User-Agent: me", "-H", "Accept:"];
    sandbox.get([&near.url("x"), "-o", "out"]).args(&words).run().succeeds();
    let request = far.requests().last().unwrap().request.clone();
    assert_eq!((request.field("x-token"), request.field("user-agent")), (None, Some("me")));
    assert_eq!(request.field("accept"), None);
}

/// `/N` leads to `/N-1`, and `/0` is the file.
fn chain() -> Server {
    Server::start(|request, wire| match request.path()[1..].parse::<u32>() {
        Ok(left @ 1..) => wire.redirect("302 Found", &format!("/{}", left - 1)),
        _ => wire.answer("200 OK", &[], BODY),
    })
}

#[test]
fn redirects_in_a_row() {
    let server = chain();
    let sandbox = Sandbox::new();
    for (steps, args, is_followed) in [
        ("50", &[][..], true),
        ("51", &[], false),
        ("60", &["--max-redirs", "60"], true),
        ("60", &["--max-redirs=-1"], true),
        ("60", &["--max-redirs", "-1"], true),
        ("1", &["--max-redirs", "0"], false),
        ("0", &["--max-redirs", "0"], true),
        ("3", &["--max-redirect", "2"], false),
    ] {
        let run = sandbox.get([&server.url(steps), "-o", "out"]).args(args).run();
        match is_followed {
            true => run.succeeds(),
            false => run.fails(1, &["in a row; --max-redirs N allows"]),
        };
    }
    sandbox.get([&server.url("0"), "--max-redirs", "x"]).run().exits(2);
}

#[test]
fn links_of_other_schemes_are_refused_before_any_name_is_looked_up() {
    where_names(
        |_| Reply::at(Ipv4Addr::LOCALHOST),
        |world| {
            let sandbox = Sandbox::new();
            for (link, says) in [
                (
                    "magnet:?xt=urn:btih:c12fe1c06bba254a9dc9f519b335aa7c1367a88a",
                    "not magnet; a client of that network",
                ),
                ("mailto:somebody@host.test", "not mailto; it names a person"),
                ("urn:isbn:0451450523", "not urn; it names an object"),
                ("data:text/plain;base64,aGk=", "not data; its bytes stand in the link"),
                ("javascript:void(0)", "not javascript; only a browser"),
                ("file:/etc/hosts", "not file; it is on this machine already"),
                ("oss://bucket/key", "not oss; the store's own tool"),
                ("sftp://host.test/x", "not sftp; weir cp"),
                ("ftp://host.test/x", "not ftp; curl speaks it"),
                ("view-source:http://host.test/x", "not view-source"),
            ] {
                sandbox.get([link]).run().fails(2, &["weir speaks http and https", says]);
                sandbox.weir(support::WEIR, [link]).run().fails(2, &[says]);
                sandbox.write("list", format!("{link}\n"));
                sandbox.get(["-i", "list"]).run().says(&[says]);
                let scheme = link.split(':').next().unwrap();
                assert_eq!(world.asked(scheme), 0, "{link}");
            }
            sandbox.get(["//host.test/x"]).run().fails(2, &["it has no scheme; put https: before it"]);
            assert_eq!(world.asked("host.test"), 0);
        },
    );
}
