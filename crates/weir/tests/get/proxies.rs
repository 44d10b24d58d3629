//! Ways through proxies: SOCKS in its versions, https:// proxies, logins that they want, variables that
//! cannot be used.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use support::socks::Socks;
use support::{MIB, Object, Request, Sandbox, Server, Wire, base64, pattern};

const BODY: &[u8] = b"the bytes";

fn body(_: &Request, wire: &mut Wire) -> io::Result<()> {
    wire.answer("200 OK", &[], BODY)
}

/// `weir get` of `url` through what `args` and `env` name brings [`BODY`].
#[track_caller]
fn brings(url: &str, args: &[&str], env: &[(&str, &str)]) {
    let sandbox = Sandbox::new();
    let get = env.iter().fold(sandbox.get([url, "-o", "out"]), |get, (name, value)| get.env(name, value));
    get.args(args).run().succeeds();
    assert_eq!(sandbox.read("out"), BODY);
}

#[test]
fn socks_with_names_near_and_far() {
    let far = Server::start(body);
    let port = far.address().port();
    for (scheme, host, asked) in [
        ("socks5h", "far.invalid", format!("5 far.invalid:{port}")),
        ("socks", "far.invalid", format!("5 far.invalid:{port}")),
        ("socks4a", "far.invalid", format!("4 far.invalid:{port}")),
        ("socks5", "127.0.0.1", format!("5 127.0.0.1:{port}")),
        ("socks5h", "127.0.0.1", format!("5 127.0.0.1:{port}")),
        ("socks4", "127.0.0.1", format!("4 127.0.0.1:{port}")),
        // The proxy is not asked to look up what is looked up here.
        ("socks4", "localhost", format!("4 127.0.0.1:{port}")),
    ] {
        let proxy = Socks::start(far.address(), None, 0);
        let at = format!("{scheme}://{}", proxy.address);
        let url = format!("http://{host}:{port}/x");
        brings(&url, &["--proxy", &at], &[]);
        brings(&url, &[], &[("all_proxy", &at)]);
        brings(&url, &[], &[("http_proxy", &at), ("ALL_PROXY", "http://127.0.0.1:1")]);
        assert_eq!(proxy.asked(), [&*asked, &asked, &asked], "{scheme} {host}");
        assert!(far.requests_from(0).iter().all(|request| request.target == "/x"), "a tunnel, no whole URLs");
    }
}

#[test]
fn socks_carries_tls_and_lanes() {
    // So slow that all lanes come before the first has brought all.
    let object = Object::new(5 * MIB).rate(2 << 20);
    let bytes = object.bytes.clone();
    let far = Server::start_tls(move |request, wire| object.serve(request, wire));
    let proxy = Socks::start(far.address(), Some("me:geheim"), 0);
    let sandbox = Sandbox::new();
    sandbox.write("ca.pem", far.certificate());
    let at = format!("socks5h://me:geheim@{}", proxy.address);
    let url = format!("https://localhost:{}/x", far.address().port());
    let args = ["--proxy", &at, "--cacert", "ca.pem", "-c", "3", "-o", "out", "-vv"];
    sandbox.get([&url]).args(&args).run().succeeds().hides("geheim");
    assert!(sandbox.read("out") == *bytes);
    assert!(proxy.asked().len() >= 3);
}

#[test]
fn a_socks_proxy_that_refuses_says_why() {
    let nowhere = "127.0.0.1:1".parse().unwrap();
    for (scheme, login, code, says) in [
        ("socks5h", None, 2, "its rules do not allow that"),
        ("socks5h", None, 4, "cannot reach that host"),
        ("socks5h", None, 5, "refused the connection"),
        ("socks5h", None, 99, "code 99"),
        ("socks5h", Some("a:b"), 0, "it requires a login"),
        ("socks5h://me:geheim@", Some("a:b"), 0, "did not accept the user and password"),
        ("socks4a", None, 1, "it cannot connect"),
    ] {
        let proxy = Socks::start(nowhere, login, code);
        let at = match scheme.contains("://") {
            true => format!("{scheme}{}", proxy.address),
            false => format!("{scheme}://{}", proxy.address),
        };
        let sandbox = Sandbox::new();
        let run = sandbox.get(["http://far.invalid/x", "--retries", "0"]).env("all_proxy", &at).run();
        let address = proxy.address.to_string();
        run.fails(1, &[&address, "all_proxy", "far.invalid:80", says]).hides("geheim");
    }
    // An http proxy is none of SOCKS.
    let http = Server::start(|_, wire| wire.answer("400 Bad Request", &[], b""));
    let at = format!("socks5://{}", http.address());
    let run =
        Sandbox::new().get(["http://127.0.0.1/x", "--proxy", &at, "--retries", "0", "--timeout", "1"]).run();
    run.exits(1);
}

#[test]
fn a_variable_that_cannot_be_used_stops_only_those_that_need_it() {
    let server = Server::start(body);
    let url = server.url("x");
    let odd = ("all_proxy", "quic://me:geheim@127.0.0.1:1");
    brings(&url, &[], &[odd, ("no_proxy", "127.0.0.0/8")]);
    brings(&url, &["--noproxy", "*"], &[odd]);
    brings(&url, &["--noproxy", "127.0.0.1"], &[odd, ("no_proxy", "other")]);
    brings(&url, &["--proxy", ""], &[odd]);
    brings(&url, &["--no-proxy"], &[odd]);
    let run = Sandbox::new().get([&url]).env(odd.0, odd.1).run();
    run.fails(1, &["all_proxy", "quic", "--noproxy '*'"]).hides("geheim");
    let run = Sandbox::new().get([&*url, "--proxy", "quic://h"]).run();
    run.fails(1, &["--proxy", "quic"]);
}

#[test]
fn an_https_proxy_is_sent_whole_urls_inside_tls() {
    let proxy = Server::start_tls(|request, wire| match request.target.as_str() {
        "http://far.invalid/x" => wire.answer("200 OK", &[], BODY),
        _ => wire.answer("400 Bad Request", &[], b""),
    });
    let sandbox = Sandbox::new();
    let ca = sandbox.write("ca.pem", proxy.certificate());
    let at = format!("https://me:geheim@{}", proxy.address());
    brings("http://far.invalid/x", &["--proxy", &at, "--cacert", ca.to_str().unwrap()], &[]);
    brings("http://far.invalid/x", &["-k"], &[("http_proxy", &at)]);
    let expected = format!("Basic {}", base64(b"me:geheim"));
    assert_eq!(proxy.requests_from(0)[0].field("proxy-authorization"), Some(&*expected));
    let run = sandbox.get(["http://far.invalid/x"]).env("http_proxy", &at).run();
    run.fails(1, &["tls with the proxy 127.0.0.1 that http_proxy names failed", "--cacert"]).hides("geheim");
}

#[test]
fn http2_inside_the_session_of_an_https_proxy() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("www")).unwrap();
    let bytes = pattern(3 * MIB, 1);
    for number in 0..20 {
        sandbox.write(format!("www/{number}").as_str(), &bytes[..number * 1000]);
    }
    sandbox.write("www/large", &bytes);
    let far = sandbox.serve("www", &["--tls"]);
    let to = far.address();
    let proxy = Server::start_tls(move |request, wire| match request.method.as_str() {
        "CONNECT" => {
            wire.head("200 Connection established", &[] as &[(&str, &str)])?;
            wire.tunnel_within(to)
        }
        _ => wire.answer("200 OK", &[], BODY),
    });
    let at = proxy.url("");
    let url = |name: &str| format!("https://{to}/{name}");
    let mut urls: Vec<String> = (0..20).map(|number| url(&number.to_string())).collect();
    urls.push(url("large"));
    let run = sandbox.get(&urls).args(&["-k", "--http2", "--proxy", &at, "-o", "in/"]).run();
    run.succeeds();
    for number in 0..20 {
        assert_eq!(sandbox.read(&format!("in/{number}")), bytes[..number * 1000]);
    }
    assert!(sandbox.read("in/large") == bytes);
    assert_eq!(proxy.connections(), 1, "one session for all of them");
    // Without TLS of its own the server is spoken to by the proxy, as that likes.
    let run = sandbox.get(["http://far.invalid/x", "-k", "--http2", "--proxy", &at]).run();
    run.fails(1, &["cannot speak HTTP/2 with http://far.invalid", "leave out --http2"]);
    // A proxy that goes away is heard of.
    let gone = Server::start_tls(move |_, wire| {
        wire.head("200 Connection established", &[] as &[(&str, &str)])?;
        wire.close()
    });
    let args = ["-k", "--http2", "--retries", "0", "--proxy", &gone.url("")];
    sandbox.get([url("0")]).args(&args).args(&["-o", "out"]).run().exits(1);
}

/// A proxy that wants a Digest; `close`s with its refusal.
fn digest_proxy(far: std::net::SocketAddr, close: bool) -> Server {
    Server::start(move |request, wire| match request.field("proxy-authorization") {
        Some(given) if given.starts_with("Digest ") => {
            assert!(
                given.contains(&format!(
                    "uri=\"{}\"",
                    if request.method == "CONNECT" { &request.target } else { "/x" }
                )),
                "{given}"
            );
            match request.method.as_str() {
                "CONNECT" => {
                    wire.raw(b"HTTP/1.1 200 OK\r\n\r\n")?;
                    wire.tunnel(far)
                }
                _ => wire.answer("200 OK", &[], BODY),
            }
        }
        _ => {
            let challenge = "Digest realm=\"p\", nonce=\"n\", qop=\"auth\"";
            wire.answer("407 Proxy Authentication Required", &[("Proxy-Authenticate", challenge)], b"")?;
            if close { wire.close() } else { Ok(()) }
        }
    })
}

#[test]
fn a_proxy_that_wants_a_digest() {
    let far = Server::start_tls(body);
    let sandbox = Sandbox::new();
    let ca = sandbox.write("ca.pem", far.certificate());
    let ca = ca.to_str().unwrap();
    let secure = format!("https://localhost:{}/x", far.address().port());
    for close in [false, true] {
        let proxy = digest_proxy(far.address(), close);
        let at = format!("http://me:geheim@{}", proxy.address());
        brings("http://far.invalid/x", &["--proxy", &at], &[]);
        brings(&secure, &["--proxy", &at, "--cacert", ca], &[]);
        assert_eq!(proxy.requests().len(), 4, "close={close}");
    }
    let refusing = Server::start(|_, wire| {
        let challenge = [("Proxy-Authenticate", "Digest realm=\"p\", nonce=\"n\", qop=\"auth\"")];
        wire.answer("407 Proxy Authentication Required", &challenge, b"")
    });
    let at = format!("http://me:geheim@{}", refusing.address());
    for url in [&*secure, "http://far.invalid/x"] {
        let run = sandbox.get([url, "--proxy", &at]).run();
        run.fails(1, &["407"]).hides("geheim");
    }
    assert_eq!(refusing.requests().len(), 4, "a password that is refused is not sent again");
}

#[test]
fn a_proxy_that_wants_what_weir_does_not_know() {
    let proxy = Server::start(|_, wire| {
        wire.answer("407 Proxy Authentication Required", &[("Proxy-Authenticate", "NTLM")], b"")
    });
    let at = proxy.address().to_string();
    for url in ["http://far.invalid/x", "https://far.invalid/x"] {
        Sandbox::new().get([url, "--proxy", &at]).run().fails(1, &["407", "--proxy-ntlm"]);
    }
}

#[test]
fn a_variable_that_is_no_text_is_not_passed_over() {
    let server = Server::start(body);
    let sandbox = Sandbox::new();
    let get = || sandbox.get([&server.url("x"), "-o", "out"]);
    let run = get().env("http_proxy", OsStr::from_bytes(b"http://\xff")).run();
    run.fails(1, &["http_proxy is not UTF-8", "cannot use the proxy that http_proxy gives"]);
    assert!(server.requests().is_empty(), "it went past the proxy");
    // Of a list the rest holds.
    let exempt = OsStr::from_bytes(b"\xff,127.0.0.1");
    get().env("http_proxy", "http://127.0.0.1:1").env("no_proxy", exempt).run().succeeds();
    assert_eq!(sandbox.read("out"), BODY);
}
