//! Errors that name their cause and the way out, so that nobody looks in the wrong place.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use support::net::refusing;
use support::{Run, Sandbox, Server};

/// `weir get` of what `server` answers with `status`, given `args`.
fn answered(status: &'static str, args: &[&str]) -> Run {
    let server = Server::start(move |_, wire| wire.answer(status, &[], b""));
    Sandbox::new().get([&server.url("x"), "-o", "out", "--retries", "0"]).args(args).run()
}

#[test]
fn a_proxy_that_is_not_there_is_told_from_the_server() {
    let (_held, at) = refusing();
    let at = at.to_string();
    let sandbox = Sandbox::new();
    let get = || sandbox.get(["http://far.invalid/x", "--retries", "0"]);
    let run = get().env("http_proxy", &at).run();
    run.fails(1, &[&format!("cannot connect to the proxy {at} that http_proxy names: connection refused")]);
    let run = get().args(&["--proxy", &at]).run();
    run.fails(1, &[&format!("the proxy {at} that --proxy names")]);
    let run = get().env("ALL_PROXY", "proxy.invalid:1").run();
    run.fails(1, &["cannot resolve the proxy proxy.invalid that ALL_PROXY names"]);
    let run = get().env("all_proxy", "ftp://h").run();
    run.fails(1, &["cannot use the proxy that all_proxy gives"]);
    let run = get().args(&["--proxy", &format!("socks5h://{at}")]).run();
    run.fails(1, &[&format!("the proxy {at} that --proxy names")]);
}

#[test]
fn who_is_not_known_hears_how_to_say_it() {
    let run = answered("401 Unauthorized", &[]);
    run.fails(1, &["-u USER:PASSWORD", "~/.netrc"]);
    let run = answered("401 Unauthorized", &["-u", "me:wrong"]);
    run.fails(1, &["it did not accept the user and password given"]).hides("wrong");
}

#[test]
fn plain_http_on_a_port_that_may_speak_tls() {
    answered("400 Bad Request", &[]).fails(1, &["if this port speaks TLS, say https://"]);
}

#[test]
fn a_server_without_time_for_us_is_what_limits() {
    let server = Server::start(|_, wire| wire.answer("503 Service Unavailable", &[], b""));
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out", "--retries", "2", "-v"]).run();
    run.fails(1, &["answered 503 Service Unavailable", "trying again in"]);
    assert!(!run.stderr.contains("no connection was active"), "{}", run.stderr);
}

#[test]
fn a_certificate_of_its_own_making() {
    let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let server = Server::start_with(params, |_, wire| wire.answer("200 OK", &[], b"hello"));
    let run = Sandbox::new().get([&server.url("x")]).run();
    run.fails(1, &["its certificate is ", "--cacert FILE", "-k"]);
    assert!(!run.stderr.contains("Other"), "{}", run.stderr);
}
