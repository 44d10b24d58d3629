//! Downloads behind a login: cookies, netrc, Digest, each for its own host, over redirects, lanes and
//! resumption.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use rustix::process::Signal;
use support::{MIB, Object, Request, Sandbox, Server, Wire, base64, wait_for};

const BODY: &[u8] = b"the bytes";

/// The value of one cookie in a request.
fn cookie<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    let pairs = request.field("cookie")?.split("; ").filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(own, _)| *own == name).map(|(_, value)| value)
}

fn basic(pair: &str) -> String {
    format!("Basic {}", base64(pair.as_bytes()))
}

/// A file on one host whose logins are another's (NASA Earthdata's pattern): without a cookie the way leads
/// there, where a login is wanted, and back with a code for which there is a cookie.
struct Earthdata {
    data: Server,
    users: Server,
    bytes: Arc<Vec<u8>>,
}

impl Earthdata {
    fn start(object: Object) -> Earthdata {
        let bytes = Arc::clone(&object.bytes);
        Earthdata::with(bytes, move |request, wire| object.serve(request, wire))
    }

    /// Whoever has logged in is answered by `serve`.
    fn with(
        bytes: Arc<Vec<u8>>,
        serve: impl Fn(&Request, &mut Wire) -> io::Result<()> + Send + Sync + 'static,
    ) -> Earthdata {
        let users = Server::start(|request, wire| match request.field("authorization") {
            Some(given) if given == basic("ann:geheim") => {
                let (_, back) = request.target.split_once("?back=").unwrap();
                wire.answer(
                    "302 Found",
                    &[("Location", &format!("{back}?code=7")), ("Set-Cookie", "users=1; Path=/")],
                    b"",
                )
            }
            _ => wire.answer("401 Unauthorized", &[("WWW-Authenticate", "Basic realm=\"users\"")], b""),
        });
        let login = format!("http://localhost:{}/oauth", users.address().port());
        let own: Arc<OnceLock<String>> = Arc::default();
        let back = Arc::clone(&own);
        let data = Server::start(move |request, wire| match (request.path(), cookie(request, "session")) {
            ("/back", _) if request.target.ends_with("code=7") => wire.answer(
                "302 Found",
                &[("Location", "/x"), ("Set-Cookie", "session=token; Path=/; HttpOnly")],
                b"",
            ),
            (_, Some("token")) => serve(request, wire),
            _ => wire.redirect("302 Found", &format!("{login}?back={}/back", back.get().unwrap())),
        });
        own.set(format!("http://{}", data.address())).unwrap();
        Earthdata { data, users, bytes }
    }
}

#[test]
fn another_hosts_login_by_redirect_and_back_with_a_cookie() {
    let there = Earthdata::start(Object::new(6 * MIB).rate(8 << 20));
    let sandbox = Sandbox::new();
    sandbox.write(".netrc", "machine localhost login ann password geheim\n");
    for lanes in ["1", "3"] {
        let run = sandbox.get([&there.data.url("x"), "-o", "out", "-c", lanes, "-vv", "--json"]).run();
        run.succeeds().hides("geheim").hides("token");
        assert!(sandbox.read("out") == *there.bytes);
    }
    let requests = there.data.requests_from(0);
    assert!(
        requests.iter().all(|request| request.field("authorization").is_none()),
        "the login is the other host's"
    );
    assert!(there.users.requests_from(0).iter().all(|request| cookie(request, "session").is_none()));
}

#[test]
fn a_login_of_another_host_is_resumed_and_saved() {
    let object = Object::new(6 * MIB).rate(4 << 20);
    let is_over = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_over);
    let there = Earthdata::with(Arc::clone(&object.bytes), move |request, wire| {
        if flag.load(Relaxed) {
            return object.serve(request, wire);
        }
        // No answer comes to its end before the signal is heard.
        object.serve_up_to(request, wire, object.answer(request).part.len() * 5 / 8)?;
        wire.wait_for_close()
    });
    let sandbox = Sandbox::new();
    sandbox.write(".netrc", "machine localhost login ann password geheim\n");
    let url = there.data.url("x");
    let args = ["--load-cookies", "jar", "--save-cookies", "jar", "-o", "out"];
    let running = sandbox.get([&url]).args(&args).spawn();
    there.data.wait_sent(2 * MIB as u64);
    wait_for("its handler", || running.catches(Signal::INT));
    running.signal(Signal::INT);
    running.wait().exits(130);
    is_over.store(true, Relaxed);
    let jar = String::from_utf8(sandbox.read("jar")).unwrap();
    assert!(jar.starts_with("# Netscape HTTP Cookie File\n"), "{jar}");
    assert!(jar.contains("#HttpOnly_127.0.0.1\tFALSE\t/\tFALSE\t0\tsession\ttoken\n"), "{jar}");
    assert!(jar.contains("localhost\tFALSE\t/\tFALSE\t0\tusers\t1\n"), "{jar}");
    let mode = std::fs::metadata(sandbox.path("jar")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // With the cookie no login is needed any more.
    std::fs::remove_file(sandbox.path(".netrc")).unwrap();
    let before = there.users.requests().len();
    let run = sandbox.get([&url]).args(&args).args(&["--json"]).run();
    run.succeeds();
    assert!(run.json()["files"][0]["resumed_from"].as_u64().unwrap() > 0);
    assert!(sandbox.read("out") == *there.bytes);
    assert_eq!(there.users.requests().len(), before);
}

#[test]
fn a_user_given_beside_the_url_is_meant_and_not_the_one_in_it() {
    let server = Server::start(|request, wire| match request.field("authorization") {
        Some(given) if given == basic("ann:geheim") => wire.answer("200 OK", &[], BODY),
        _ => wire.answer("401 Unauthorized", &[("WWW-Authenticate", "Basic realm=\"x\"")], b""),
    });
    let url = server.url("x").replace("http://", "http://bob:falsch@");
    let sandbox = Sandbox::new();
    let run = sandbox.get([&*url, "-u", "ann:geheim", "-o", "out", "-vv"]).run();
    run.succeeds().hides("geheim").hides("falsch");
    assert_eq!(sandbox.read("out"), BODY);
}

#[test]
fn without_a_login_for_the_other_host_it_is_named() {
    let there = Earthdata::start(Object::new(1000));
    let sandbox = Sandbox::new();
    for (netrc, args) in [
        ("", &["-u", "ann:geheim"][..]),
        // Where a redirect leads is somebody else's choice: `default` is not for it.
        ("default login ann password geheim\n", &[]),
    ] {
        sandbox.write(".netrc", netrc);
        let run = sandbox.get([&there.data.url("x"), "-o", "out"]).args(args).run();
        run.fails(1, &["localhost answered 401", "~/.netrc"]).hides("geheim");
    }
    assert!(there.users.requests_from(0).iter().all(|request| request.field("authorization").is_none()));
    // It is sent everywhere only where the user says so.
    sandbox.write(".netrc", "");
    let trusting = ["-u", "ann:geheim", "--location-trusted", "-o", "out"];
    sandbox.get([&there.data.url("x")]).args(&trusting).run().succeeds();
}

#[test]
fn a_redirect_s_own_user_is_taken() {
    let far = Server::start(|request, wire| match request.field("authorization") {
        Some(given) if given == basic("bob:p w") => wire.answer("200 OK", &[], BODY),
        _ => wire.answer("401 Unauthorized", &[], b""),
    });
    let target = format!("http://bob:p%20w@localhost:{}/x", far.address().port());
    let near = Server::start(move |_, wire| wire.redirect("302 Found", &target));
    let sandbox = Sandbox::new();
    sandbox.get([&near.url("x"), "-o", "out", "-u", "me:secret"]).run().succeeds();
    assert_eq!(sandbox.read("out"), BODY);
}

/// Sets a cookie at the first request and wants it from then on.
fn wants_its_cookie(request: &Request, wire: &mut Wire) -> io::Result<()> {
    match cookie(request, "id") {
        Some("7") => wire.answer("200 OK", &[], BODY),
        _ => wire.answer(
            "302 Found",
            &[("Location", request.target.as_str()), ("Set-Cookie", "id=7; Path=/")],
            b"",
        ),
    }
}

#[test]
fn cookies_hold_for_all_files_of_a_run() {
    let server = Server::start(wants_its_cookie);
    let sandbox = Sandbox::new();
    let urls: Vec<String> = (0..20).map(|number| server.url(&number.to_string())).collect();
    sandbox.get(&urls).args(&["-j", "1", "-o", "in/"]).run().succeeds();
    assert_eq!(server.requests().len(), 21, "one redirect for all");
    assert_eq!(sandbox.names().len(), 21);
}

#[test]
fn cookies_given_by_name_go_home_alone() {
    let far = Server::start(|_, wire| wire.answer("200 OK", &[], BODY));
    let target = format!("http://localhost:{}/x", far.address().port());
    let near = Server::start(move |request, wire| match request.path() {
        "/far" => wire.redirect("302 Found", &target),
        _ => wire.answer("200 OK", &[], BODY),
    });
    let sandbox = Sandbox::new();
    let args = ["-b", "a=1; b=2", "--cookie", "c=geheim", "-H", "Cookie: d=4", "-o", "out", "-vv", "--json"];
    sandbox.get([&near.url("far")]).args(&args).run().succeeds().hides("geheim");
    sandbox.get([&near.url("x")]).args(&args).run().succeeds().hides("geheim");
    for request in near.requests_from(0) {
        assert_eq!(request.field("cookie"), Some("d=4; a=1; b=2; c=geheim"));
    }
    assert_eq!(far.requests_from(0)[0].field("cookie"), None);
    sandbox.get([&near.url("far"), "--location-trusted"]).args(&args).run().succeeds();
    assert_eq!(far.requests_from(0)[1].field("cookie"), Some("d=4; a=1; b=2; c=geheim"));
}

#[test]
fn cookies_from_files() {
    let server = Server::start(|_, wire| wire.answer("200 OK", &[], BODY));
    let sandbox = Sandbox::new();
    sandbox.write(
        "cookies.txt",
        "# Netscape HTTP Cookie File\n127.0.0.1\tFALSE\t/\tFALSE\t0\ta\t1\r\n\
         #HttpOnly_127.0.0.1\tFALSE\t/\tFALSE\t4102444800\tb\t2\n\
         127.0.0.1\tFALSE\t/\tTRUE\t0\tsecure\tgeheim\n127.0.0.1\tFALSE\t/sub\tFALSE\t0\tpath\tgeheim\n\
         127.0.0.1\tFALSE\t/\tFALSE\t1\told\tgeheim\nexample.org\tTRUE\t/\tFALSE\t0\tother\tgeheim\n",
    );
    for flag in ["-b", "--load-cookies"] {
        let run = sandbox.get([&server.url("x"), flag, "cookies.txt", "-o", "out", "-vv"]).run();
        run.succeeds().hides("geheim");
    }
    for request in server.requests_from(0) {
        assert_eq!(request.field("cookie"), Some("a=1; b=2"));
    }
    let url = server.url("x");
    for (text, says) in [
        ("127.0.0.1 FALSE / FALSE 0 a geheim\n", "seven columns"),
        ("[{\"name\": \"a\", \"value\": \"geheim\"}]\n", "JSON"),
        ("\u{1}\u{2}geheim\n", "seven columns"),
    ] {
        sandbox.write("odd.txt", text);
        let run = sandbox.get([&*url, "-b", "odd.txt"]).run();
        run.fails(1, &["cannot read cookies from odd.txt", says]).hides("geheim");
    }
    sandbox.write("mixed.txt", "nonsense\n127.0.0.1\tFALSE\t/\tFALSE\t0\ta\t1\n");
    sandbox
        .get([&*url, "-b", "mixed.txt", "-o", "out"])
        .run()
        .succeeds()
        .says(&["mixed.txt: no cookie in line 1"]);
    sandbox.get([&*url, "-b", "nowhere.txt"]).run().fails(1, &["nowhere.txt", "no such file"]);
    sandbox.get([&*url, "-b", "", "-o", "out"]).run().succeeds();
    let last = server.requests_from(0).pop().unwrap();
    assert_eq!(last.field("cookie"), None);
    let from_stdin = sandbox
        .get([&*url, "--load-cookies", "-", "-o", "out"])
        .input("127.0.0.1\tFALSE\t/\tFALSE\t0\ts\t9\n");
    from_stdin.run().succeeds();
    assert_eq!(server.requests_from(0).pop().unwrap().field("cookie"), Some("s=9"));
}

#[test]
fn saved_cookies_replace_what_is_there_and_devices_stay() {
    let server = Server::start(wants_its_cookie);
    let sandbox = Sandbox::new();
    let old = sandbox.write("real", "old");
    std::fs::set_permissions(&old, PermissionsExt::from_mode(0o644)).unwrap();
    std::os::unix::fs::symlink("real", sandbox.path("jar")).unwrap();
    let url = server.url("x");
    sandbox.get([&*url, "--save-cookies", "jar", "-o", "out"]).run().succeeds();
    assert!(sandbox.path("jar").is_symlink(), "a link of one's own is followed");
    assert!(String::from_utf8(sandbox.read("real")).unwrap().contains("\tid\t7\n"));
    assert_eq!(std::fs::metadata(&old).unwrap().permissions().mode() & 0o777, 0o600);
    sandbox.get([&*url, "--save-cookies", "/dev/null", "-o", "out"]).run().succeeds();
    sandbox.get([&*url, "--save-cookies", "no/such/jar", "-o", "none"]).run().fails(1, &["no/such/jar"]);
    sandbox.get([&*url, "--save-cookies", "-", "-o", "none"]).run().exits(2);
    sandbox.has_nothing_of("none");
    // Who failed may have logged in all the same.
    let failing = Server::start(|_, wire| wire.answer("404 Not Found", &[("Set-Cookie", "s=1")], b""));
    sandbox.get([&failing.url("x"), "--cookie-jar", "second"]).run().exits(1);
    assert!(String::from_utf8(sandbox.read("second")).unwrap().contains("\ts\t1\n"));
}

/// What a request says in its `Authorization: Digest`.
fn digest<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    let fields = request.field("authorization")?.strip_prefix("Digest ")?;
    let found = fields.split(", ").filter_map(|pair| pair.split_once('=')).find(|(own, _)| *own == name)?;
    Some(found.1.trim_matches('"'))
}

/// A server that wants a Digest by its newest nonce, which serves `uses` times.
fn digest_server(object: Object, uses: usize, says_stale: bool) -> Server {
    let asked = AtomicUsize::new(0);
    let nonces = AtomicUsize::new(0);
    Server::start(move |request, wire| {
        let newest = format!("n{}", nonces.load(Relaxed));
        let given = digest(request, "nonce");
        if given == Some(&newest) && asked.fetch_add(1, Relaxed) < uses {
            return object.serve(request, wire);
        }
        let nonce = nonces.fetch_add(1, Relaxed) + 1;
        asked.store(0, Relaxed);
        let stale = if given.is_some() && says_stale { ", stale=true" } else { "" };
        let challenge = format!(
            "Digest realm=\"r\", nonce=\"n{nonce}\", qop=\"auth\", algorithm=SHA-256, opaque=\"o\"{stale}"
        );
        let fields = [("WWW-Authenticate", "Basic realm=\"r\""), ("WWW-Authenticate", &*challenge)];
        wire.answer("401 Unauthorized", &fields, b"who are you?")
    })
}

#[test]
fn lanes_count_the_uses_of_one_nonce() {
    // So slow that all lanes come before the first has brought all.
    let object = Object::new(6 * MIB).rate(2 << 20);
    let bytes = object.bytes.clone();
    let server = digest_server(object, usize::MAX, true);
    let sandbox = Sandbox::new();
    let args = ["-u", "me:geheim", "--digest", "-o", "out", "-c", "3", "-vv"];
    sandbox.get([&server.url("x?q=1")]).args(&args).run().succeeds().hides("geheim");
    assert!(sandbox.read("out") == *bytes);
    let requests = server.requests_from(0);
    assert_eq!(requests[0].field("authorization"), None, "the password is never sent, nor its name at once");
    assert_eq!(requests[0].connection, requests[1].connection, "the answer goes over the same connection");
    let mut counts: Vec<&str> = requests[1..].iter().map(|request| digest(request, "nc").unwrap()).collect();
    counts.sort_unstable();
    let expected: Vec<String> = (1..=counts.len()).map(|count| format!("{count:08x}")).collect();
    assert_eq!(counts, expected);
    assert!(counts.len() >= 3);
    for request in &requests[1..] {
        assert_eq!(digest(request, "uri"), Some("/x?q=1"));
        assert_eq!((digest(request, "username"), digest(request, "opaque")), (Some("me"), Some("o")));
        assert_eq!(digest(request, "response").map(str::len), Some(64));
    }
}

#[test]
fn nonces_that_run_out_are_replaced() {
    for says_stale in [true, false] {
        let server = digest_server(Object::new(1000), 3, says_stale);
        let sandbox = Sandbox::new();
        let urls: Vec<String> = (0..12).map(|number| server.url(&number.to_string())).collect();
        let run = sandbox.get(&urls).args(&["-u", "me:geheim", "-j", "1", "-o", "in/"]).run();
        run.succeeds();
        assert_eq!(sandbox.names().len(), 13, "stale={says_stale}");
    }
}

#[test]
fn a_digest_that_is_refused_is_not_repeated() {
    let challenge = [("WWW-Authenticate", "Digest realm=\"r\", nonce=\"n\", qop=\"auth\"")];
    let server = Server::start(move |_, wire| wire.answer("401 Unauthorized", &challenge, b""));
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-u", "me:geheim", "--digest"]).run();
    run.fails(1, &["answered 401", "did not accept"]).hides("geheim");
    assert_eq!(server.requests().len(), 2);
    let run = sandbox.get([&server.url("x"), "-u", "me:geheim", "--basic"]).run();
    run.fails(1, &["answered 401"]);
    assert_eq!(server.requests_from(2)[0].field("authorization"), Some(&*basic("me:geheim")));
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn a_server_of_basic_alone_never_sees_a_password_with_digest() {
    let server = Server::start(|_, wire| {
        wire.answer("401 Unauthorized", &[("WWW-Authenticate", "Basic realm=x")], b"")
    });
    let run = Sandbox::new().get([&server.url("x"), "-u", "me:geheim", "--digest"]).run();
    run.fails(1, &["answered 401", "leave out --digest"]).hides("geheim");
    let requests = server.requests_from(0);
    assert_eq!((requests.len(), requests[0].field("authorization")), (1, None));
}

#[test]
fn any_login_is_sent_only_when_asked_for() {
    let server = Server::start(|request, wire| match request.field("authorization") {
        Some(given) if given == basic("me:geheim") => wire.answer("200 OK", &[], BODY),
        _ => wire.answer("401 Unauthorized", &[("WWW-Authenticate", "Negotiate, Basic realm=x")], b""),
    });
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("x"), "-u", "me:geheim", "--anyauth", "-o", "out"]).run().succeeds();
    let requests = server.requests_from(0);
    assert_eq!((requests.len(), requests[0].field("authorization")), (2, None));
    let open = Server::start(|_, wire| wire.answer("200 OK", &[], BODY));
    sandbox.get([&open.url("x"), "-u", "me:geheim", "--anyauth", "-o", "out"]).run().succeeds();
    assert_eq!(open.requests_from(0)[0].field("authorization"), None);
}

#[test]
fn schemes_that_are_not_known_have_a_way_out() {
    for (challenge, says) in [
        ("Negotiate", "curl --negotiate"),
        ("Bearer realm=\"registry\"", "-H 'Authorization: Bearer TOKEN'"),
        ("Digest realm=\"r\", nonce=\"n\", algorithm=SHA-3", "algorithm"),
        ("Basic realm=\"r\"", "-u USER:PASSWORD"),
    ] {
        let server = Server::start(move |_, wire| {
            wire.answer("401 Unauthorized", &[("WWW-Authenticate", challenge)], b"")
        });
        Sandbox::new().get([&server.url("x")]).run().fails(1, &["answered 401", says]);
    }
}

#[test]
fn netrc_files_are_chosen() {
    let server = Server::start(|request, wire| match request.field("authorization") {
        Some(given) if given == basic("ann:1") => wire.answer("200 OK", &[], BODY),
        Some(_) => wire.answer("403 Forbidden", &[], b""),
        None => wire.answer("401 Unauthorized", &[], b""),
    });
    let sandbox = Sandbox::new();
    sandbox.write(".netrc", "machine 127.0.0.1 login bob password 2\n");
    sandbox
        .write("other", "machine 127.0.0.1 login bob password 2\nmachine 127.0.0.1 login ann password 1\n");
    sandbox.write("ann", "machine 127.0.0.1 login ann password 1\n");
    let url = server.url("x");
    sandbox.get([&*url, "--netrc-file", "ann", "-o", "out"]).run().succeeds();
    sandbox.get([&*url, "--no-netrc"]).run().fails(1, &["answered 401"]);
    sandbox.get([&*url]).run().fails(1, &["answered 403"]);
    sandbox.get([&*url, "--netrc-file", "nowhere"]).run().fails(1, &["nowhere"]);
    // The user is named, the password is in the file.
    sandbox.get([&*url, "--netrc-file", "other", "-u", "ann", "-o", "out"]).run().succeeds();
    let named = url.replace("http://", "http://ann@");
    sandbox.get([&*named, "--netrc-file", "other", "-o", "out"]).run().succeeds();
}

#[test]
fn command_lines_of_curl_and_wget_are_understood() {
    let there = Earthdata::start(Object::new(1000));
    let sandbox = Sandbox::new();
    sandbox.write(".netrc", "machine localhost login ann password geheim\n");
    for args in [
        &["-b", "jar", "--cookie-jar", "jar", "-L", "--netrc"][..],
        &[
            "--load-cookies",
            "jar",
            "--save-cookies",
            "jar",
            "--auth-no-challenge=on",
            "--keep-session-cookies",
        ],
        &["--auth-no-challenge", "--no-proxy"],
    ] {
        sandbox.get([&there.data.url("x"), "-o", "out"]).args(args).run().succeeds();
    }
    sandbox.get([&there.data.url("x"), "-c", "jar"]).run().fails(2, &["--save-cookies FILE"]);
}

/// Others on this machine read the command line.
#[test]
fn secrets_are_taken_from_the_command_line() {
    let server = Server::start(|_, wire| wire.wait_for_close());
    let sandbox = Sandbox::new();
    let running = sandbox
        .get([&server.url("x"), "-b", "a=geheim", "--cookie=b=geheim", "--proxy", "", "-u", "me:geheim"])
        .spawn();
    server.wait("the request", |_, requests| !requests.is_empty());
    let line = std::fs::read(format!("/proc/{}/cmdline", running.id())).unwrap();
    let line = String::from_utf8_lossy(&line).into_owned();
    assert!(!line.contains("geheim") && line.contains("--cookie="), "{line}");
}
