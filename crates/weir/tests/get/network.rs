//! The ways of `weir get` through a network: redirects, retries, proxies, credentials, TLS, HTTP/2, IPv6.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use support::{MIB, Object, Relay, Sandbox, Server, base64, pattern, skip};

const BODY: &[u8] = b"the bytes";

/// `weir get URL -o out` brings [`BODY`].
#[track_caller]
fn brings(url: &str, args: &[&str], env: &[(&str, &str)]) -> Sandbox {
    let sandbox = Sandbox::new();
    let get = env
        .iter()
        .fold(sandbox.get([url, "-o", "out"]).args(args), |get, (name, value)| get.env(name, value));
    get.run().succeeds();
    assert_eq!(sandbox.read("out"), BODY);
    sandbox
}

#[test]
fn redirects_relative_and_absolute_and_ten_of_them() {
    let server = Server::start(|request, wire| {
        let left: usize = request.path().rsplit('/').next().unwrap().parse().unwrap();
        let (status, next) = match left {
            0 => return wire.answer("200 OK", &[], BODY),
            left if left % 2 == 1 => ("302 Found", format!("{}", left - 1)),
            left => ("307 Temporary Redirect", format!("../deeper/{}", left - 1)),
        };
        wire.answer(status, &[("Location", &next)], b"gone elsewhere")
    });
    brings(&server.url("deep/10"), &[], &[]);
    assert_eq!(server.requests().len(), 11);
    assert_eq!(server.connections(), 1, "short answers of redirects are read, and the connection used again");
    Sandbox::new().get([&server.url("deep/51"), "-o", "out"]).run().fails(1, &["more than 50 in a row"]);
}

#[test]
fn the_name_comes_from_the_url_that_was_asked_for() {
    let server = Server::start(|request, wire| match request.path() {
        "/data.bin" => wire.redirect("302 Found", "/0a1b2c?signature=1"),
        _ => wire.answer("200 OK", &[], BODY),
    });
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("data.bin")]).run().succeeds();
    assert_eq!(sandbox.names(), ["data.bin"]);
}

#[test]
fn a_link_that_expires_is_resolved_anew() {
    let object = Object::new(6 * MIB).rate(8 << 20);
    let bytes = object.bytes.clone();
    let signed = AtomicUsize::new(0);
    let expired = AtomicUsize::new(0);
    let server = Server::start(move |request, wire| match request.target.split_once("?signature=") {
        None => {
            let signature = signed.fetch_add(1, Relaxed) + 1;
            wire.redirect("302 Found", &format!("/signed?signature={signature}"))
        }
        Some((_, signature)) if signature.parse::<usize>().unwrap() <= expired.load(Relaxed) => {
            wire.answer("403 Forbidden", &[], b"Request has expired")
        }
        Some(("/signed", "1")) => {
            object.serve_up_to(request, wire, 2 * MIB)?;
            expired.store(1, Relaxed);
            wire.close()
        }
        _ => object.serve(request, wire),
    });
    for lanes in [&["-c", "1"][..], &["-c", "3"]] {
        let sandbox = Sandbox::new();
        sandbox.get([&server.url("x"), "-o", "out"]).args(lanes).run().succeeds();
        assert!(sandbox.read("out") == *bytes);
    }
    assert!(server.requests().iter().any(|seen| seen.request.target.ends_with("signature=1")));
    assert!(server.requests().iter().any(|seen| seen.request.target.ends_with("signature=2")));
}

#[test]
fn retry_after_is_honoured() {
    for status in ["503 Service Unavailable", "429 Too Many Requests"] {
        let server = Server::start(move |request, wire| match request.number {
            0 => wire.answer(status, &[("Retry-After", "1")], b"later"),
            _ => wire.answer("200 OK", &[], BODY),
        });
        brings(&server.url("x"), &[], &[]);
        let requests = server.requests_from(0);
        let waited = requests[1].at - requests[0].at;
        assert!(waited >= Duration::from_secs(1), "came back after {waited:?}");
        assert!(waited < Duration::from_secs(10), "came back after {waited:?}");
    }
}

#[test]
fn passing_trouble_is_tried_again_and_lasting_trouble_is_not() {
    // Each is asked for without a range once, but where the status speaks of time; a 501 without more fields
    // too.
    for (status, attempts) in [
        ("500 Internal Server Error", 4),
        ("502 Bad Gateway", 4),
        ("408 Request Timeout", 3),
        ("404 Not Found", 2),
        ("501 Not Implemented", 3),
    ] {
        let server = Server::start(move |_, wire| wire.answer(status, &[], b""));
        Sandbox::new().get([&server.url("x"), "-o", "out", "--retries", "2"]).run().exits(1);
        assert_eq!(server.requests().len(), attempts, "{status}");
    }
}

/// Where a server gives no parts all that came goes with its connection: no attempt brings something new.
#[test]
fn retries_count_where_nothing_can_be_gone_on_with() {
    for (retries, cut, code) in [(1, usize::MAX, 1), (4, 4, 0)] {
        let object = Object::new(2 * MIB).whole_only();
        let bytes = object.bytes.clone();
        let server = Server::start(move |request, wire| {
            if request.number >= cut {
                return object.serve(request, wire);
            }
            object.serve_up_to(request, wire, MIB)?;
            wire.close()
        });
        let sandbox = Sandbox::new();
        let allowed = retries.to_string();
        sandbox.get([&server.url("x"), "-o", "out", "--retries", &allowed]).run().exits(code);
        assert_eq!(server.requests().len(), retries + 1);
        assert_eq!(sandbox.names().len(), usize::from(code == 0));
        assert!(code != 0 || sandbox.read("out") == *bytes);
    }
}

#[test]
fn a_kept_connection_that_the_server_closed_is_replaced() {
    let server = Server::start(|_, wire| {
        wire.answer("200 OK", &[], BODY)?;
        wire.close()
    });
    let sandbox = Sandbox::new();
    let urls: Vec<String> = (0..20).map(|number| server.url(&number.to_string())).collect();
    sandbox.get(&urls).args(&["-j", "1", "-o", "in/", "--retries", "0"]).run().succeeds();
    assert_eq!(sandbox.names().len(), 21);
}

/// A plain proxy: answers requests in absolute form itself, tunnels CONNECT.
fn proxy(status: &'static str, far: Option<std::net::SocketAddr>) -> Server {
    Server::start(move |request, wire| match (request.method.as_str(), far) {
        ("CONNECT", Some(far)) if status == "200 OK" => {
            wire.raw(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
            wire.tunnel(far)
        }
        ("GET", _) if status == "200 OK" && request.target.starts_with("http://") => {
            wire.answer("200 OK", &[], BODY)
        }
        _ => wire.answer(if status == "200 OK" { "400 Bad Request" } else { status }, &[], b""),
    })
}

#[test]
fn a_plain_proxy() {
    let proxy = proxy("200 OK", None);
    let at = proxy.address().to_string();
    let far = "http://far.invalid/x?q=1";
    brings(far, &["--proxy", &format!("http://{at}")], &[]);
    brings(far, &["--proxy", &at], &[]);
    brings(far, &[], &[("http_proxy", &format!("http://{at}/"))]);
    brings(far, &[], &[("http_proxy", &at), ("no_proxy", "near.invalid")]);
    brings(far, &["-u", "me:secret", "--proxy", &format!("http://p:w@{at}")], &[]);
    let requests = proxy.requests_from(0);
    assert!(
        requests.iter().all(|request| request.target == far && request.field("host") == Some("far.invalid"))
    );
    assert!(requests[..4].iter().all(|request| request.field("proxy-authorization").is_none()));
    let expected = format!("Basic {}", base64(b"p:w"));
    assert_eq!(requests[4].field("proxy-authorization"), Some(&*expected));
    let expected = format!("Basic {}", base64(b"me:secret"));
    assert_eq!(requests[4].field("authorization"), Some(&*expected));
}

#[test]
fn a_proxy_that_is_not_to_be_used() {
    let server = Server::start(|_, wire| wire.answer("200 OK", &[], BODY));
    let nowhere = ("http_proxy", "http://127.0.0.1:1");
    let url = server.url("x");
    Sandbox::new().get([&*url, "--retries", "0"]).env(nowhere.0, nowhere.1).run().fails(1, &["127.0.0.1:1"]);
    brings(&url, &[], &[nowhere, ("no_proxy", "127.0.0.1")]);
    brings(&url, &[], &[nowhere, ("no_proxy", "*")]);
    brings(&url, &["--proxy", ""], &[nowhere]);
    brings(&url, &[], &[("HTTP_PROXY", "http://127.0.0.1:1")]);
}

#[test]
fn a_tunnel_through_a_proxy() {
    let far = Server::start_tls(|_, wire| wire.answer("200 OK", &[], BODY));
    let proxy = proxy("200 OK", Some(far.address()));
    let at = proxy.address().to_string();
    let sandbox = Sandbox::new();
    let ca = sandbox.write("ca.pem", far.certificate());
    let trust = ["--cacert", ca.to_str().unwrap()];
    let url = format!("https://localhost:{}/x", far.address().port());
    brings(&url, &trust, &[("https_proxy", &format!("http://p:w@{at}"))]);
    let connect = &proxy.requests()[0].request;
    assert_eq!(connect.target, format!("localhost:{}", far.address().port()));
    assert_eq!(connect.field("proxy-authorization"), Some(&*format!("Basic {}", base64(b"p:w"))));
    assert!(far.requests()[0].request.field("proxy-authorization").is_none());
    brings(&url, &trust, &[("http_proxy", "http://127.0.0.1:1")]);
}

#[test]
fn a_proxy_that_refuses() {
    let proxy = proxy("407 Proxy Authentication Required", None);
    let at = format!("http://{}", proxy.address());
    let sandbox = Sandbox::new();
    let run = sandbox.get(["https://far.invalid/x", "--proxy", &at, "--retries", "0"]).run();
    run.fails(1, &["proxy 127.0.0.1", "far.invalid:443", "407"]);
    let run = sandbox.get(["http://far.invalid/x", "--proxy", &at, "--retries", "0"]).run();
    run.fails(1, &["answered 407"]);
    assert_eq!(sandbox.names(), [""; 0]);
}

#[test]
fn user_and_password() {
    let server = Server::start(|request, wire| match request.field("authorization") {
        Some(given) if given == format!("Basic {}", base64(b"me:se cret")) => {
            wire.answer("200 OK", &[], BODY)
        }
        _ => wire.answer("401 Unauthorized", &[("WWW-Authenticate", "Basic realm=x")], b""),
    });
    let url = server.url("x");
    let in_url = url.replace("http://", "http://me:se%20cret@");
    brings(&in_url, &[], &[]);
    brings(&url, &["-u", "me:se cret"], &[]);
    brings(&url, &["-H", &format!("Authorization: Basic {}", base64(b"me:se cret"))], &[]);
    // Who is named beside the URL was meant, as with curl.
    brings(&url.replace("http://", "http://someone:else@"), &["-u", "me:se cret"], &[]);
    let sandbox = Sandbox::new();
    sandbox.write(
        ".netrc",
        "machine other login a password b\nmachine 127.0.0.1 login me password \"se cret\"\n",
    );
    sandbox.get([&*url, "-o", "out"]).run().succeeds();
    let elsewhere = Sandbox::new();
    let netrc = sandbox.path(".netrc");
    elsewhere.get([&*url, "-o", "out"]).env("NETRC", &netrc).run().succeeds();
    elsewhere.get([&*url, "-o", "none"]).run().fails(1, &["answered 401", "~/.netrc"]);
    assert!(!server.requests()[0].request.target.contains("me"));
}

#[test]
fn own_fields_replace_those_of_weir() {
    let server = Server::start(|_, wire| wire.answer("200 OK", &[], BODY));
    brings(&server.url("x"), &["-H", "User-Agent: other/1", "-H", "X-Mine: a: b"], &[]);
    let request = &server.requests()[0].request;
    let agents = request.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("user-agent")).count();
    assert_eq!(
        (agents, request.field("user-agent"), request.field("x-mine")),
        (1, Some("other/1"), Some("a: b"))
    );
    for bad in ["no colon", "a b: c", ": x", "a: b\r\nX-Evil: 1"] {
        Sandbox::new().get(["http://h/x", "-H", bad]).run().fails(2, &["invalid header"]);
    }
    // It may be a credential, with the colon forgotten.
    let forgotten = ["http://h/x", "-H", "Authorization Bearer geheim"];
    Sandbox::new().get(forgotten).run().fails(2, &["invalid header"]).hides("geheim");
}

#[test]
fn trust() {
    let server = Server::start_tls(|_, wire| wire.answer("200 OK", &[], BODY));
    let sandbox = Sandbox::new();
    let ca = sandbox.write("ca.pem", server.certificate());
    let ca = ca.to_str().unwrap();
    brings(&server.url("x"), &["--cacert", ca], &[]);
    brings(&server.url("x"), &["-k"], &[]);
    brings(&server.url("x"), &[], &[("SSL_CERT_FILE", ca)]);
    sandbox
        .get([&server.url("x"), "--cacert", "nowhere.pem"])
        .run()
        .fails(1, &["nowhere.pem", "no such file"]);
    sandbox.write("empty.pem", "nothing");
    sandbox.get([&server.url("x"), "--cacert", "empty.pem"]).run().fails(1, &["empty.pem", "no certificate"]);
    let by_variable = |value: &str| sandbox.get([&server.url("x")]).env("SSL_CERT_FILE", value).run();
    by_variable("nowhere.pem").fails(1, &["nowhere.pem, which SSL_CERT_FILE names: no such file"]);
    // As if it were not set: nobody whom the system trusts has signed this server's certificate.
    let run = by_variable("");
    run.exits(1);
    assert!(!run.stderr.contains("cannot read certificates"), "{}", run.stderr);
}

#[test]
fn a_large_file_over_tls() {
    let object = Object::new(9 * MIB + 1);
    let bytes = object.bytes.clone();
    let server = Server::start_tls(move |request, wire| object.serve(request, wire));
    for lanes in ["1", "4"] {
        let sandbox = Sandbox::new();
        sandbox.get([&server.url("x"), "-o", "out", "-k", "-c", lanes]).run().succeeds();
        assert!(sandbox.read("out") == *bytes);
    }
}

/// A folder `files/` with `count` files of `length` bytes.
fn folder(count: usize, length: usize) -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("files")).unwrap();
    for number in 0..count {
        sandbox.write(&format!("files/{number}.bin"), pattern(length, number as u64));
    }
    sandbox
}

#[test]
fn http2() {
    let sandbox = folder(30, 20_000);
    sandbox.write("files/large.bin", pattern(6 * MIB, 99));
    let serving = sandbox.serve("files", &["--tls", "--save-cert", "ca.pem"]);
    let urls: Vec<String> = (0..30).map(|number| serving.url(&format!("{number}.bin"))).collect();
    for args in [&["--http2"][..], &["--http1.1"], &[]] {
        let all = [args, &["--cacert", "ca.pem", "-o", "in/"]].concat();
        sandbox.get(&urls).args(&all).run().succeeds();
        for number in 0..30 {
            assert!(sandbox.read(&format!("in/{number}.bin")) == pattern(20_000, number), "{args:?}");
        }
        std::fs::remove_dir_all(sandbox.path("in")).unwrap();
    }
    for args in [&["--http2"][..], &["--http2", "-c", "3"], &[]] {
        let all = [args, &["--cacert", "ca.pem", "-o", "out"]].concat();
        sandbox.get([&serving.url("large.bin")]).args(&all).run().succeeds();
        assert!(sandbox.read("out") == pattern(6 * MIB, 99), "{args:?}");
    }
}

#[test]
fn an_http2_session_that_falls_silent_is_left_for_another() {
    let sandbox = folder(60, 20_000);
    let serving = sandbox.serve("files", &["--tls", "--save-cert", "ca.pem"]);
    let server = serving.url("").replace("https://", "").trim_end_matches('/').parse().unwrap();
    // Enough for the handshake and the first dozen answers.
    let relay = Relay::mute_after(300_000, server);
    let urls: Vec<String> = (0..60).map(|number| format!("https://{}/{number}.bin", relay.address)).collect();
    let run = sandbox
        .get(&urls)
        .args(&["--http2", "--cacert", "ca.pem", "--timeout", "3", "--json", "-o", "in/"])
        .run();
    run.succeeds();
    for number in 0..60 {
        assert!(sandbox.read(&format!("in/{number}.bin")) == pattern(20_000, number), "{number}");
    }
    let connections = relay.connections();
    assert!((2..=4).contains(&connections), "one more is enough for all: {connections}");
}

#[test]
fn http2_where_the_server_has_none() {
    let server = Server::start_tls(|_, wire| wire.answer("200 OK", &[], BODY));
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-k", "--http2", "-o", "out"]).run();
    run.fails(1, &["127.0.0.1 does not speak HTTP/2"]);
    sandbox.has_nothing_of("out");
    let urls: Vec<String> = (0..10).map(|number| server.url(&number.to_string())).collect();
    sandbox.get(&urls).args(&["-k", "-o", "in/"]).run().succeeds();
    assert_eq!(sandbox.names().len(), 11);
}

#[test]
fn ipv6() {
    let Some(server) = Server::start_on("[::1]:0", |_, wire| wire.answer("200 OK", &[], BODY)) else {
        return skip("this machine has no IPv6 loopback");
    };
    let url = server.url("x");
    assert!(url.starts_with("http://[::1]:"));
    brings(&url, &[], &[]);
    assert_eq!(server.requests()[0].request.field("host"), Some(&*server.address().to_string()));
    let named = ("localhost", server.address().port());
    if named.to_socket_addrs().is_ok_and(|mut found| found.any(|address| address.is_ipv6())) {
        brings(&format!("http://localhost:{}/x", named.1), &[], &[]);
    }
}

#[test]
fn a_bare_host_means_http() {
    let server = Server::start(|_, wire| wire.answer("200 OK", &[], BODY));
    brings(&format!("{}/x", server.address()), &[], &[]);
}

#[test]
fn serve_lets_nobody_out_of_its_folder() {
    let sandbox = folder(1, 100);
    sandbox.write("secret.txt", "secret");
    std::os::unix::fs::symlink("../secret.txt", sandbox.path("files/link")).unwrap();
    let serving = sandbox.serve("files", &[]);
    let ask = |target: &str| {
        use std::io::{Read, Write};
        let address = serving.url("").replace("http://", "").trim_end_matches('/').to_owned();
        let mut socket = std::net::TcpStream::connect(address).unwrap();
        write!(socket, "GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask("/").contains("0.bin"), "the index");
    for target in [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/link",
        "//../secret.txt",
        "/a/../../secret.txt",
    ] {
        let answer = ask(target);
        assert!(
            answer.starts_with("HTTP/1.1 4") && !answer.contains("secret\n") && !answer.ends_with("secret"),
            "{target}: {answer}"
        );
    }
    assert_eq!(serving.end(), Some(0));
}

#[test]
fn serve_says_what_is_wrong() {
    let sandbox = Sandbox::new();
    let run = |args: &[&str]| sandbox.weir(support::WEIR, ["serve"]).args(args).run();
    run(&["nowhere"]).fails(1, &["nowhere"]);
    run(&[".", "--listen", "nonsense"]).exits(2);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    run(&[".", "--listen", &address]).fails(1, &[&address, "in use"]);
    run(&[".", "--cert", "nowhere.pem", "--key", "nowhere.key"]).fails(1, &["nowhere"]);
}

#[test]
fn a_served_folder_is_fetched_as_it_is() {
    let sandbox = folder(3, 3 * MIB);
    let serving = sandbox.serve("files", &[]);
    let urls: Arc<[String]> = (0..3).map(|number| serving.url(&format!("{number}.bin"))).collect();
    for lanes in ["1", "4"] {
        sandbox.get(urls.iter()).args(&["-o", "in/", "-c", lanes]).run().succeeds();
        for number in 0..3 {
            assert!(sandbox.read(&format!("in/{number}.bin")) == pattern(3 * MIB, number));
        }
        std::fs::remove_dir_all(sandbox.path("in")).unwrap();
    }
}
