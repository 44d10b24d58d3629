//! Lists as people write them: names that are equal, lines that are there twice, remarks, one bad line among good ones.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use support::{Sandbox, Server, base64};

/// Answers each path with itself.
fn echo() -> Server {
    Server::start(|request, wire| wire.answer("200 OK", &[], request.target.as_bytes()))
}

#[test]
fn a_line_that_is_there_twice_is_fetched_once() {
    let server = echo();
    let sandbox = Sandbox::new();
    let (a, b) = (server.url("a"), server.url("b"));
    sandbox.write("list", format!("{a}\n{b}\n{a}\n{a}#part\n{b}\tsecond\n{b}\tsecond\n"));
    let run = sandbox.get(["-i", "list", "-o", "in/", &a]).run();
    run.succeeds().says(&["/a is named twice; it is fetched once"]);
    assert_eq!(sandbox.names(), ["in/", "in/a", "in/b", "in/second", "list"]);
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn equal_names_get_a_number() {
    let server = echo();
    let sandbox = Sandbox::new();
    let urls = ["1/x.bin", "2/x.bin", "3/x.bin", "4/x.bin.1"].map(|path| server.url(path));
    for _ in 0..2 {
        // The same in each run.
        sandbox.get(&urls).run().succeeds();
        assert_eq!(sandbox.names(), ["x.bin", "x.bin.1", "x.bin.1.1", "x.bin.2"]);
        assert_eq!(sandbox.read("x.bin"), b"/1/x.bin");
        assert_eq!(sandbox.read("x.bin.1"), b"/2/x.bin");
        assert_eq!(sandbox.read("x.bin.2"), b"/3/x.bin");
        assert_eq!(sandbox.read("x.bin.1.1"), b"/4/x.bin.1");
    }
    let list = format!("{}\tsame\n{}\tsame\n", urls[0], urls[1]);
    sandbox.get(["-i", "-", "-o", "in/"]).input(list).run().succeeds();
    assert_eq!(sandbox.read("in/same.1"), b"/2/x.bin");
}

#[test]
fn names_that_the_server_gives_count_too() {
    let server = Server::start(|request, wire| {
        let fields = [("Content-Disposition", "attachment; filename=\"same.bin\"")];
        wire.answer("200 OK", &fields, request.target.as_bytes())
    });
    let sandbox = Sandbox::new();
    // By their URLs they would be called alike as well.
    let urls = ["get?1", "get?2", "other?3"].map(|path| server.url(path));
    sandbox.get(&urls).args(&["-j", "1"]).run().succeeds();
    assert_eq!(sandbox.names(), ["same.bin", "same.bin.1", "same.bin.2"]);
    let mut bodies: Vec<_> = sandbox.names().iter().map(|name| sandbox.read(name)).collect();
    bodies.sort();
    assert_eq!(bodies, [b"/get?1".to_vec(), b"/get?2".to_vec(), b"/other?3".to_vec()]);
}

#[test]
fn equal_names_get_their_folders() {
    let (server, other) = (echo(), echo());
    let sandbox = Sandbox::new();
    let urls =
        [server.url("1/x"), server.url("2/x"), server.url("2/..%2f..%2fx"), other.url("1/x"), server.url("")];
    sandbox.get(&urls).args(&["-x", "-o", "in/"]).run().succeeds();
    let (here, there) = (server.address(), other.address());
    let mut names = vec!["in/".to_owned()];
    for folder in [format!("in/{here}/"), format!("in/{there}/")] {
        names.push(folder.clone());
        names.push(format!("{folder}1/"));
        names.push(format!("{folder}1/x"));
    }
    for name in ["2/", "2/x", "2/x.1", "index.html"] {
        names.push(format!("in/{here}/{name}"));
    }
    names.sort();
    assert_eq!(sandbox.names(), names);
    sandbox.get([&*urls[0], "-x", "-o", "file"]).run().fails(2, &["-x makes folders"]);
    sandbox.get([&*urls[0], "-x", "-o", "-"]).run().fails(2, &["-x makes folders"]);
}

#[test]
fn one_bad_line_costs_that_line() {
    let server = echo();
    let sandbox = Sandbox::new();
    let lines = [
        server.url("a").into_bytes(),
        b"ftp://h/x".to_vec(),
        b"http://h/a name".to_vec(),
        b"  out=x".to_vec(),
        b"http://h/\xff\xfe".to_vec(),
        format!("{}\t../out", server.url("b")).into_bytes(),
        b"http://h/\x01".to_vec(),
        server.url("c").into_bytes(),
    ];
    sandbox.write("list", lines.join(&b'\n'));
    let run = sandbox.get(["-i", "list", "-o", "in/"]).run();
    run.fails(
        1,
        &["list, line 2: ", "weir speaks http and https", "list, line 3: ", "a TAB", "list, line 4: "],
    );
    assert_eq!(sandbox.names(), ["in/", "in/a", "in/c", "list"]);
    let record = sandbox.get(["-i", "list", "-o", "in/", "--json"]).run().json();
    let files = record["files"].as_array().unwrap();
    let failed: Vec<_> = files
        .iter()
        .filter(|file| !file["error"].is_null())
        .filter_map(|file| file["url"].as_str())
        .collect();
    let expected: Vec<String> = (2..=7).map(|number| format!("list, line {number}")).collect();
    assert_eq!(failed, expected);
    assert_eq!(record["outcome"], "failed");
    // Where no line is good there is nothing to do.
    sandbox.write("list", lines[1..7].join(&b'\n'));
    sandbox.get(["-i", "list", "-o", "in/"]).run().fails(2, &["list, line 1: "]);
}

#[test]
fn remarks_behind_a_url() {
    let server = echo();
    let sandbox = Sandbox::new();
    let url = |name: &str| server.url(name);
    sandbox.write(
        "list",
        format!(
            "{} # one\n{}\t# two\n  # three\n{}\tTrack #3\n{}#part\n",
            url("a"),
            url("b"),
            url("c"),
            url("d")
        ),
    );
    sandbox.get(["-i", "list", "-o", "in/"]).run().succeeds();
    assert_eq!(sandbox.names(), ["in/", "in/Track #3", "in/a", "in/b", "in/d", "list"]);
}

/// An editor's mark in front costs nothing, a line in another coding costs that line, of all files that people write.
#[test]
fn a_mark_in_front_and_a_line_in_another_coding() {
    let server = echo();
    let sandbox = Sandbox::new();
    let list = format!("\u{feff}{}\n{}\n", server.url("a"), server.url("b"));
    let with_odd = |text: &str, odd: &[u8]| [text.as_bytes(), odd].concat();
    sandbox.write("list", with_odd(&list, format!("{}\n", server.url("caf")).as_bytes()));
    sandbox.get(["-i", "list", "-o", "in/"]).run().succeeds();
    sandbox.write("list", with_odd(&list, b"http://h/caf\xe9\n"));
    sandbox.get(["-i", "list", "-o", "in/"]).run().fails(1, &["list, line 3: it is not UTF-8 text"]);
    assert_eq!(sandbox.names(), ["in/", "in/a", "in/b", "in/caf", "list"]);
    let entry = "\u{feff}machine 127.0.0.1 login me password geheim\n";
    let netrc = sandbox.write("netrc", with_odd(entry, b"machine other login caf\xe9 password x\n"));
    sandbox.get([&server.url("a"), "--netrc-file", netrc.to_str().unwrap()]).run().succeeds();
    let asked = server.requests().last().unwrap().request.clone();
    assert_eq!(asked.field("authorization"), Some(&*format!("Basic {}", base64(b"me:geheim"))));
    let cookies = "\u{feff}# Netscape HTTP Cookie File\n127.0.0.1\tFALSE\t/\tFALSE\t0\tid\t7\n";
    sandbox.write("cookies", with_odd(cookies, b"127.0.0.1\tFALSE\t/\tFALSE\t0\todd\tcaf\xe9\n"));
    let run = sandbox.get([&server.url("a"), "--load-cookies", "cookies"]).run();
    run.succeeds().says(&["cookies: no cookie in line 3"]);
    assert_eq!(server.requests().last().unwrap().request.field("cookie"), Some("id=7"));
}

/// Entries as people and other programs write them.
#[test]
fn entries_of_netrc_that_are_not_of_the_book() {
    let server = echo();
    let sandbox = Sandbox::new();
    for other in [
        "macdef test\n\tbin\n\tcd default\n\tcd login\n\tput login.bin\n\n",
        "machine api.test\n  login me\n  password x\n  method interactive\n",
        "machine only.test\n  login me\n",
        "machine token.test password x\n",
    ] {
        let netrc = sandbox.write("netrc", format!("{other}machine 127.0.0.1 login me password a#\"b\n"));
        sandbox.get([&server.url("a"), "--netrc-file", netrc.to_str().unwrap()]).run().succeeds();
        let asked = server.requests().last().unwrap().request.clone();
        assert_eq!(asked.field("authorization"), Some(&*format!("Basic {}", base64(b"me:a#\"b"))), "{other}");
    }
}

#[test]
fn one_odd_entry_of_netrc_costs_that_entry() {
    let server = echo();
    let sandbox = Sandbox::new();
    for odd in
        ["machine other login me password one two\n", "machine other password \"open\n", "login early\n"]
    {
        let netrc = sandbox.write("netrc", format!("{odd}machine 127.0.0.1 login me password geheim\n"));
        let run = sandbox.get([&server.url("a")]).env("NETRC", netrc.to_str().unwrap()).run();
        run.succeeds().says(&["an entry of ", "/netrc is passed over: netrc line 1"]).hides("geheim");
        let asked = server.requests().last().unwrap().request.clone();
        assert_eq!(asked.field("authorization"), Some(&*format!("Basic {}", base64(b"me:geheim"))), "{odd}");
    }
}
