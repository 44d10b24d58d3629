//! What `weir get` is told: lists as every editor writes them, URLs that would not be one, and words that
//! nobody else shall read.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use rustix::process::Signal;
use support::{Running, Sandbox, Server, wait_for};

/// Answers each path with itself.
fn echo() -> Server {
    Server::start(|request, wire| wire.answer("200 OK", &[], request.path().as_bytes()))
}

#[test]
fn every_end_of_a_line_is_one() {
    let server = echo();
    for (end, mark) in
        [("\n", ""), ("\r\n", ""), ("\r", ""), ("\n", "\u{feff}"), ("\r\n", "\u{feff}"), (" \t\r\n", "")]
    {
        let lines = [
            "# a list".to_owned(),
            server.url("a"),
            format!("{}\tsub/named", server.url("b")),
            String::new(),
            server.url("c"),
        ];
        let list = format!("{mark}{}", lines.map(|line| line + end).concat());
        for from in ["list", "-"] {
            let sandbox = Sandbox::new();
            sandbox.write("list", &list);
            sandbox.get(["-i", from, "-o", "in/"]).input(list.clone()).run().succeeds();
            assert_eq!(sandbox.read("in/a"), b"/a", "{list:?}");
            assert_eq!(sandbox.read("in/sub/named"), b"/b", "{list:?}");
            assert_eq!(sandbox.read("in/c"), b"/c", "{list:?}");
        }
    }
    assert!(server.requests().iter().all(|seen| ["/a", "/b", "/c"].contains(&seen.request.path())));
}

#[test]
fn a_list_that_cannot_be_read_says_why_and_where() {
    let server = echo();
    let url = server.url("a");
    let utf16 = |bytes: fn(u16) -> [u8; 2]| {
        "\u{feff}http://h/x\n".encode_utf16().flat_map(bytes).collect::<Vec<u8>>()
    };
    for (list, code, says) in [
        (utf16(u16::to_le_bytes), 1, &["cannot read the list list", "UTF-16", "UTF-8"][..]),
        (utf16(u16::to_be_bytes), 1, &["cannot read the list list", "UTF-16"]),
        (format!("{url}\nhttp://h/\0x\n").into(), 1, &["list, line 2", "a NUL byte at position 10"]),
        (format!("{url}\r\nhttp://h/x\u{b}y").into(), 1, &["list, line 2", "U+000B at position 11"]),
        (format!("{url}\rhttp://h/x\u{2028}http://h/y").into(), 1, &["list, line 2", "U+2028"]),
        ([url.as_bytes(), b"\nhttp://h/\xff"].concat(), 1, &["list, line 2", "it is not UTF-8 text"]),
        (format!("{url}\tname\u{7f}").into(), 2, &["list, line 1", "would not stay in the folder"]),
    ] {
        let sandbox = Sandbox::new();
        sandbox.write("list", &list);
        sandbox.get(["-i", "list", "-o", "in/"]).run().fails(code, says);
        // One bad line costs that line; a list that is not understood at all costs all.
        assert_eq!(sandbox.path("in/a").exists(), says[0] == "list, line 2");
    }
}

#[test]
fn control_characters_make_no_url() {
    let server = echo();
    let sandbox = Sandbox::new();
    let url = server.url("a");
    for (bad, says) in [
        (format!("{url}\tb"), "a TAB at position"),
        (format!("{url}\r\n{url}"), "a carriage return at position"),
        (format!("{url}\n"), "a line feed at position"),
        (format!("\u{feff}{url}"), "U+FEFF at position 1"),
        (format!("{url}\u{9b}"), "U+009B at position"),
    ] {
        sandbox.get([&bad]).run().fails(2, &["invalid url", says]);
        sandbox.get([&url, "--checksum-from", &bad]).run().fails(2, &["invalid url", says]);
        let run = sandbox.get([&url, "--proxy", &bad]).run();
        run.fails(1, &["cannot use the proxy that --proxy gives: it holds", says]);
        sandbox.get([&url]).env("http_proxy", &bad).run().fails(1, &["that http_proxy gives: it holds"]);
    }
    assert!(server.requests().is_empty());
    // A password is not repeated.
    sandbox.get(["http://me:geheim@h/\tx"]).run().fails(2, &["a TAB at position"]).hides("geheim");
}

/// curl would fetch several files.
#[test]
fn patterns_in_a_url_are_the_shell_s() {
    let server = Server::start(|request, wire| match request.path().contains("bad") {
        true => wire.answer("400 Bad Request", &[], b""),
        false => wire.answer("404 Not Found", &[], b""),
    });
    let sandbox = Sandbox::new();
    let hint = "weir expands no {a,b} or [1-3]: the shell does";
    for path in ["{a,b}.bin", "f[1-3]", "bad/[01-10].bin"] {
        sandbox.get([&server.url(path)]).run().fails(1, &[hint]);
    }
    for path in ["a.bin", "{a}", "a-[b]", "a,b"] {
        let run = sandbox.get([&server.url(path)]).run();
        assert!(!run.exits(1).stderr.contains(hint), "{path}: {}", run.stderr);
    }
}

#[test]
fn a_redirect_with_a_control_character_or_two_targets_leads_nowhere() {
    for (location, says) in
        [("/a\tb", "its target holds a TAB at position 3"), ("/a\u{85}b", "U+0085 at position 3")]
    {
        let server = Server::start(move |_, wire| wire.redirect("302 Found", location));
        let run = Sandbox::new().get([&server.url("x"), "-o", "out"]).run();
        run.fails(1, &["cannot follow the redirect from 127.0.0.1", says]);
        assert_eq!(server.requests().len(), 1);
    }
    let two =
        Server::start(|_, wire| wire.answer("302 Found", &[("Location", "/a"), ("Location", "/b")], b""));
    Sandbox::new().get([&two.url("x"), "-o", "out"]).run().fails(1, &["it names two targets"]);
    assert_eq!(two.requests().len(), 1);
}

#[test]
fn lists_of_checksums_have_every_end_of_a_line_too() {
    let server = echo();
    let digest = weir_codec::hex::encode(&weir_codec::Algorithm::SHA256.of(b"/a"));
    let other = "0".repeat(64);
    let sandbox = Sandbox::new();
    for end in ["\n", "\r\n", "\r", "\0"] {
        sandbox.write("SUMS", format!("\u{feff}{digest}  a{end}{other}  b{end}"));
        let get = |name: &str| {
            sandbox.get([&server.url(name), "-o", "out", "--checksum-from", "SUMS", "--force"]).run()
        };
        get("a").succeeds();
        get("b").fails(3, &["does not match"]);
    }
    sandbox.write("SUMS", b"\xff\xfea\0");
    sandbox.get([&server.url("a"), "--checksum-from", "SUMS"]).run().fails(1, &["UTF-16"]);
}

/// What everybody can read of a running command.
fn words(running: &Running) -> String {
    let words = std::fs::read(format!("/proc/{}/cmdline", running.id())).unwrap();
    String::from_utf8_lossy(&words).replace('\0', " ")
}

#[test]
fn secrets_leave_the_command_line() {
    let server = Server::start(|_, wire| wire.wait_for_close());
    let at = server.address().to_string();
    let url = format!("http://anna:geheim1@{at}/x?q=a@b");
    let proxy = format!("http://paul:geheim3@{at}");
    let sandbox = Sandbox::new();
    for (args, stays) in [
        (&[&*url, "-u", "me:geheim2"][..], &["http://", &at, "/x?q=a@b", "-u"][..]),
        (&["-ksfume:geheim2", &url, "--proxy", &proxy], &["-ksfu", "--proxy"]),
        (&[&url, "--user=me:geheim2", &format!("--proxy={proxy}")], &["--user=", "--proxy=http://"]),
        (
            &["-kfu", "me:geheim2", &url, "-H", "Authorization: Bearer geheim4", "-HX-Token:geheim5"],
            &["Authorization: ", "X-Token:"],
        ),
        (
            &[&format!("geheim1:geheim2@{at}/y"), "-H", "User-Agent: me", "--header=Cookie: a=geheim"],
            &["/y", "User-Agent: me", "Cookie: "],
        ),
        (&[&url, "--checksum-from", &format!("http://u:geheim6@{at}/SUMS")], &["--checksum-from", "/SUMS"]),
    ] {
        let running = sandbox.get(args).args(&["-o", "out"]).spawn();
        // Whoever looks before weir has read its own words sees them; by the time it catches signals they are
        // gone.
        wait_for("its handler", || running.catches(Signal::INT));
        let seen = words(&running);
        assert!(!seen.contains("geheim"), "{args:?}: {seen}");
        for text in stays {
            assert!(seen.contains(text), "{args:?}: '{text}' in {seen}");
        }
        assert!(seen.contains("*******"), "{seen}");
        running.signal(Signal::INT);
        running.wait().exits(130);
    }
    // Other commands, and commands of others.
    let running = sandbox
        .weir(support::WEIR, ["why", "--", "sh", "-c", "sleep 5", "x", "http://anna:geheim7@h/"])
        .spawn();
    wait_for("its handler", || running.catches(Signal::INT));
    assert!(!words(&running).contains("geheim"), "{}", words(&running));
    drop(running);
    // They are overwritten, not forgotten.
    let running = sandbox.get([url.replace("/x", "/last"), "-o".to_owned(), "out".to_owned()]).spawn();
    let is_last = |seen: &std::sync::Arc<support::LoggedRequest>| seen.request.path() == "/last";
    server.wait("the last request", |_, requests| requests.iter().any(is_last));
    let requests = server.requests();
    let asked =
        requests.iter().find(|seen| is_last(seen)).and_then(|seen| seen.request.field("authorization"));
    assert_eq!(asked, Some(&*format!("Basic {}", support::base64(b"anna:geheim1"))));
    running.signal(Signal::INT);
    running.wait().exits(130);
    sandbox.weir(support::WEIR, ["get", "--help"]).run().succeeds();
}
