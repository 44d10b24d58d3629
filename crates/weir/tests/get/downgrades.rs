//! Redirects from https to http: followed where a digest proves the bytes or the user says so, and then
//! without anything that is the user's.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use support::{MIB, Object, Run, Sandbox, Server};
use weir_codec::{Algorithm, hex};

/// Over https, leads to `path` of `plain` with a user and a cookie.
fn leading_to(plain: &Server, path: &str) -> Server {
    let target = plain.url(path).replace("http://", "http://bob:geheim@");
    Server::start_tls(move |_, wire| {
        let fields = [("Location", &*target), ("Set-Cookie", "id=geheim; Path=/")];
        wire.answer("302 Found", &fields, b"")
    })
}

fn get(sandbox: &Sandbox, secure: &Server, args: &[&str]) -> Run {
    sandbox.write("ca.pem", secure.certificate());
    sandbox.get([&secure.url("x"), "--cacert", "ca.pem"]).args(args).run()
}

fn digest(algorithm: Algorithm, name: &str, bytes: &[u8]) -> String {
    format!("{name}:{}", hex::encode(&algorithm.of(bytes)))
}

fn sha256(bytes: &[u8]) -> String {
    digest(Algorithm::SHA256, "sha256", bytes)
}

#[test]
fn nothing_of_the_user_goes_along() {
    // So slow that all lanes come before the first has brought all.
    let object = Object::new(6 * MIB).rate(2 << 20);
    let bytes = object.bytes.clone();
    let plain = Server::start(move |request, wire| object.serve(request, wire));
    let secure = leading_to(&plain, "y");
    let checksum = sha256(&bytes);
    for leave in [&["--allow-http-redirect"][..], &["--checksum", &checksum]] {
        let sandbox = Sandbox::new();
        sandbox.write(".netrc", "machine 127.0.0.1 login ann password geheim\n");
        let own = ["-u", "me:geheim", "-H", "X-Token: geheim", "-b", "a=geheim", "--location-trusted"];
        let args = [leave, &own, &["-o", "out", "-c", "3", "--json"]].concat();
        let before = plain.requests().len();
        let run = get(&sandbox, &secure, &args);
        let notes = run.succeeds().json()["files"][0]["notes"].to_string();
        assert!(notes.contains("followed a redirect from https to http://127.0.0.1"), "{notes}");
        run.hides("geheim");
        assert!(sandbox.read("out") == *bytes);
        let asked = plain.requests_from(before);
        assert!(asked.len() >= 3, "{asked:#?}");
        for request in asked {
            let sent = ["authorization", "cookie", "x-token"].map(|name| request.field(name).is_some());
            assert_eq!(sent, [false; 3], "{request:#?}");
        }
    }
    let home = secure.requests_from(0);
    assert!(home.iter().all(|request| request.field("x-token").is_some()), "{home:#?}");
}

#[test]
fn it_is_refused_by_name_where_nothing_proves_the_bytes() {
    let plain = Server::start(|_, wire| wire.answer("200 OK", &[], b"bytes"));
    let secure = leading_to(&plain, "y?part=7&X-Amz-Signature=geheim");
    let sandbox = Sandbox::new();
    let [md5, sum] = [digest(Algorithm::MD5, "md5", b"bytes"), sha256(b"bytes")];
    let leads = "cannot follow the redirect from 127.0.0.1: it leads from https to http://127.0.0.1:";
    let way_out = "; --allow-http-redirect follows it, as --checksum sha256:HEX does for a file";
    // What goes out in order has gone before its digest is known.
    for args in [&["-o", "out"][..], &["-o", "out", "--checksum", &md5], &["-o", "-", "--checksum", &sum]] {
        let run = get(&sandbox, &secure, args);
        run.fails(1, &[leads, "/y?part=7&", way_out]).hides("geheim");
    }
    let run = get(&sandbox, &secure, &["-o", "out", "--checksum", &sum, "--proto", "=https"]);
    run.fails(1, &[leads]).hides("--allow-http-redirect");
    get(&sandbox, &secure, &["--allow-http-redirect", "--proto", "=https"])
        .fails(2, &["--proto leaves http out"]);
    get(&sandbox, &secure, &["--proto-redir", "=http,https"]).fails(2, &["--allow-http-redirect"]);
    assert_eq!(plain.requests().len(), 0);
    assert_eq!(sandbox.names(), ["ca.pem"]);
}

#[test]
fn bytes_that_do_not_have_the_digest_get_no_name() {
    let plain = Server::start(|_, wire| wire.answer("200 OK", &[], b"anybody's"));
    let secure = leading_to(&plain, "y");
    let sandbox = Sandbox::new();
    let run = get(&sandbox, &secure, &["-o", "out", "--checksum", &sha256(b"bytes")]);
    run.fails(3, &["sha256 of out does not match"]);
    assert_eq!(sandbox.names(), ["ca.pem"]);
}
