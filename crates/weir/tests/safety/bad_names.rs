//! Names that want out of the folder, secrets that want out of the house: neither gets there.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use rustix::process::Signal;
use support::{Fields, MIB, Object, Run, Sandbox, Server};

const BODY: &[u8] = b"the bytes";

/// A server that answers everything with [`BODY`] and this Content-Disposition.
fn disposing(value: &str) -> Server {
    let value = value.to_owned();
    Server::start(move |_, wire| wire.answer("200 OK", &[("Content-Disposition", &value)], BODY))
}

/// Fetches `path` into the folder `deep/in/`; returns the one name that is there.
fn saved_as(server: &Server, path: &str) -> String {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("deep/in")).unwrap();
    sandbox.get([&server.url(path), "-o", "deep/in/"]).run().succeeds();
    let mut names = sandbox.names();
    assert_eq!(names.len(), 3, "one file in the folder and none elsewhere: {names:?}");
    let name = names.remove(2);
    let name = name.strip_prefix("deep/in/").unwrap_or_else(|| panic!("{name} is outside"));
    assert_eq!(sandbox.read(&format!("deep/in/{name}")), BODY);
    name.to_owned()
}

#[test]
fn hostile_names_in_content_disposition() {
    for (value, name) in [
        ("attachment; filename=\"plain.txt\"", "plain.txt"),
        ("attachment; filename=\"/etc/passwd\"", "passwd"),
        ("attachment; filename=\"../../up.txt\"", "up.txt"),
        ("attachment; filename=\"..\\\\..\\\\up.txt\"", "up.txt"),
        ("attachment; filename=\"..\"", "from-url.bin"),
        ("attachment; filename=\"/\"", "from-url.bin"),
        ("attachment; filename=\"\"", "from-url.bin"),
        ("attachment; filename=\".bashrc\"", "_bashrc"),
        ("attachment; filename*=UTF-8''..%2f..%2fup.txt", "up.txt"),
        ("attachment; filename*=UTF-8''a%00b%0a%1b%5b2Jc.txt", "ab[2Jc.txt"),
        ("attachment; filename*=UTF-8''cod%E2%80%AEgpj.exe", "codgpj.exe"),
        ("attachment; filename*=UTF-8''gr%C3%B6%C3%9Fe.txt", "größe.txt"),
        ("nonsense; \"\" = ; ;;", "from-url.bin"),
        // As servers write them: blanks without quotes, a semicolon at the end and within, either order.
        ("attachment; filename=my 1st image.jpg", "my 1st image.jpg"),
        ("attachment; filename=\"a.bin\";", "a.bin"),
        ("attachment; filename=\"foo;bar.bin\"; size=3", "foo;bar.bin"),
        (
            "attachment;filename*=utf-8''f%5FJava8%2064%E4%BD%8D%2Eexe;filename=\"f_Java8.exe\"",
            "f_Java8 64位.exe",
        ),
        ("attachment; filename=x; filename*=UTF-8''John's%20Resume(1).pdf", "John's Resume(1).pdf"),
    ] {
        assert_eq!(saved_as(&disposing(value), "from-url.bin"), name, "{value}");
    }
}

#[test]
fn a_file_that_is_here_does_not_give_way_to_a_name_that_the_server_chose() {
    let server = disposing("attachment; filename=\"notes.txt\"");
    let sandbox = Sandbox::new();
    sandbox.write("notes.txt", "mine");
    let run = sandbox.get([&server.url("latest")]).run();
    run.fails(
        1,
        &["127.0.0.1 names latest 'notes.txt', which already exists; pass -o 'notes.txt' or --force to overwrite it"],
    );
    assert_eq!(sandbox.read("notes.txt"), b"mine");
    assert_eq!(sandbox.names(), ["notes.txt"]);
    // Nor where a download of that name was cut off once.
    sandbox.write("notes.txt.weir", "{}");
    sandbox.get([&server.url("latest")]).run().fails(1, &["which already exists"]);
    std::fs::remove_file(sandbox.path("notes.txt.weir")).unwrap();
    sandbox.get([&server.url("latest"), "--force"]).run().succeeds();
    assert_eq!(sandbox.read("notes.txt"), BODY);
    sandbox.write("notes.txt", "mine");
    sandbox.get([&server.url("latest"), "--no-clobber"]).run().succeeds();
    assert_eq!(sandbox.read("notes.txt"), b"mine");
    sandbox.get([&server.url("latest"), "-o", "notes.txt"]).run().succeeds();
    assert_eq!(sandbox.read("notes.txt"), BODY);
    // By its own name the URL's file is replaced, as ever.
    sandbox.get([&server.url("notes.txt")]).run().succeeds();
}

/// The number is weir's own, not the server's.
#[test]
fn a_numbered_name_that_is_here_is_said_to_be_numbered() {
    let server = Server::start(|request, wire| {
        let value = if request.path() == "/x" { "attachment; filename=srv.bin" } else { "attachment" };
        wire.answer("200 OK", &[("Content-Disposition", value)], BODY)
    });
    let sandbox = Sandbox::new();
    let run = || sandbox.get([&server.url("x"), &server.url("srv.bin"), "-j", "1"]).run();
    run().succeeds();
    assert_eq!(sandbox.names(), ["srv.bin", "srv.bin.1"]);
    let says = "'srv.bin' is another file's of this run, and 'srv.bin.1' already exists; pass -o 'srv.bin.1'";
    run().fails(1, &["127.0.0.1 names x 'srv.bin', which already exists", says]);
}

#[test]
fn a_name_of_300_bytes_is_cut_before_its_ending() {
    let value = format!("attachment; filename=\"{}.tar.gz\"", "x".repeat(300));
    let name = saved_as(&disposing(&value), "x");
    assert!(name.len() <= 255 && name.len() > 200 && name.ends_with("x.tar.gz"), "{name}");
    let server = Server::start(|_, wire| wire.answer("200 OK", &[], BODY));
    let name = saved_as(&server, &format!("{}.tar.gz", "y".repeat(300)));
    assert!(name.len() <= 255 && name.len() > 200 && name.ends_with("y.tar.gz"), "{name}");
}

/// The user's own name is not cut: what lies beside the file has a shorter one.
#[test]
fn a_file_of_the_longest_name_is_resumed_and_replaced() {
    let object = Object::new(3 * MIB);
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| match (request.path(), request.number) {
        ("/small", _) => wire.answer("200 OK", &[], BODY),
        (_, 0) => {
            object.serve_up_to(request, wire, 2 * MIB)?;
            wire.close()
        }
        _ => object.serve(request, wire),
    });
    let sandbox = Sandbox::new();
    let name = "n".repeat(255);
    let run = |path| sandbox.get([&server.url(path), "-o", &name, "--retries", "0", "--json"]).run();
    run("x").exits(4);
    assert_eq!(sandbox.names().len(), 2, "{:?}", sandbox.names());
    let resumed = run("x").succeeds().json()["files"][0]["resumed_from"].as_u64();
    assert!(resumed.is_some_and(|bytes| bytes >= MIB as u64), "{resumed:?}");
    assert!(sandbox.read(&name) == *bytes);
    for _ in 0..2 {
        run("small").succeeds();
        assert_eq!(sandbox.read(&name), BODY);
    }
    assert_eq!(sandbox.names(), std::slice::from_ref(&name));
}

#[test]
fn a_nul_or_a_bare_control_character_in_a_field() {
    for value in ["attachment; filename=\"a\0b\"", "attachment; filename=\"a\x1b[2Jb\""] {
        let server = disposing(value);
        let sandbox = Sandbox::new();
        let run = sandbox.get([&server.url("x"), "--retries", "0"]).run();
        assert!(!run.stderr.contains(['\0', '\x1b']), "{:?}", run.stderr);
        match run.status.code() {
            Some(0) => assert_eq!(sandbox.names().len(), 1),
            code => assert_eq!((code, sandbox.names().len()), (Some(1), 0), "{}", run.stderr),
        }
        for name in sandbox.names() {
            assert!(!name.contains(char::is_control), "{name:?}");
        }
    }
}

#[test]
fn hostile_names_in_urls() {
    let server = Server::start(|_, wire| wire.answer("200 OK", &[], BODY));
    for (path, name) in [
        ("a/b.txt", "b.txt"),
        ("", "index.html"),
        ("a/", "index.html"),
        ("..%2f..%2fup.txt", "up.txt"),
        ("%2e%2e%2fup.txt", "up.txt"),
        ("a%2f%2e%2e", "index.html"),
        ("..%5cup.txt", "up.txt"),
        ("a%00b.txt", "ab.txt"),
        ("a%0d%0a%1bb.txt", "ab.txt"),
        ("x.txt?name=../../y", "x.txt"),
        ("-rf", "-rf"),
    ] {
        assert_eq!(saved_as(&server, path), name, "{path}");
    }
}

#[test]
fn hostile_names_in_a_list() {
    let server = Server::start(|_, wire| wire.answer("200 OK", &[], BODY));
    for name in ["../up", "/tmp/weir-absolute", "a/../../up", "..", "a\u{1b}b"] {
        let sandbox = Sandbox::new();
        std::fs::create_dir(sandbox.path("in")).unwrap();
        sandbox.write("list", format!("{}\t{name}\n", server.url("x")));
        let run = sandbox.get(["-i", "list", "-o", "in/"]).run();
        run.fails(2, &["list, line 1", "would not stay in the folder"]);
        assert_eq!(sandbox.names(), ["in/", "list"]);
    }
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn a_symlink_in_the_way_is_replaced_not_followed() {
    let server = Server::start(|_, wire| wire.answer("200 OK", &[], BODY));
    let sandbox = Sandbox::new();
    sandbox.write("precious", "mine");
    std::fs::create_dir(sandbox.path("in")).unwrap();
    std::os::unix::fs::symlink("../precious", sandbox.path("in/x")).unwrap();
    sandbox.get([&server.url("x"), "-o", "in/"]).run().succeeds();
    assert_eq!(sandbox.read("precious"), b"mine");
    assert_eq!(sandbox.read("in/x"), BODY);
}

#[test]
fn text_of_the_server_does_not_reach_the_terminal_as_it_is() {
    let server =
        Server::start(|_, wire| wire.raw(b"HTTP/1.1 404 \x1b[2JGone\x07\r\nContent-Length: 0\r\n\r\n"));
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x")]).run();
    run.exits(1);
    assert!(!run.stderr.contains(['\x1b', '\x07']), "{:?}", run.stderr);
}

/// Fetches through a redirect from one origin to another; returns what the second was told, field by field.
fn told_elsewhere(args: &[&str], netrc: Option<&str>, user: &str) -> (Fields, Fields) {
    let other = Server::start(|_, wire| wire.answer("200 OK", &[], BODY));
    let target = other.url("y");
    let home = Server::start(move |_, wire| wire.redirect("302 Found", &target));
    let sandbox = Sandbox::new();
    let mut url = home.url("x");
    if !user.is_empty() {
        url = url.replace("http://", &format!("http://{user}@"));
    }
    if let Some(netrc) = netrc {
        sandbox.write(".netrc", netrc);
    }
    sandbox.get([&*url, "-o", "out", "-vv"]).args(args).run().succeeds().hides("secret");
    let fields = |server: &Server| server.requests()[0].request.fields.clone();
    (fields(&home), fields(&other))
}

fn has(fields: &Fields, name: &str) -> bool {
    fields.iter().any(|(own, _)| own.eq_ignore_ascii_case(name))
}

#[test]
fn credentials_stay_with_their_origin() {
    for (args, netrc, user) in [
        (&[][..], None, "me:secret"),
        (&["-u", "me:secret"], None, ""),
        (&[], Some("machine 127.0.0.1 login me password secret"), ""),
        (&["-H", "Authorization: Bearer secret"], None, ""),
    ] {
        let (home, elsewhere) = told_elsewhere(args, netrc, user);
        assert!(has(&home, "authorization"), "{args:?} {home:?}");
        assert!(!has(&elsewhere, "authorization"), "{args:?} {elsewhere:?}");
        assert!(!format!("{elsewhere:?}").contains("secret"));
    }
}

#[test]
fn own_fields_stay_with_their_origin() {
    let args = ["-H", "X-Token: secret", "-H", "Cookie: id=secret", "-H", "Accept-Language: eo"];
    let (home, elsewhere) = told_elsewhere(&args, None, "");
    for name in ["x-token", "cookie"] {
        assert!(has(&home, name) && !has(&elsewhere, name), "{name}: {elsewhere:?}");
    }
    assert!(has(&elsewhere, "accept-language"), "what can be no secret goes along: {elsewhere:?}");
}

#[test]
fn credentials_do_not_come_with_the_lanes_either() {
    // So slow that all lanes come before the first has brought all.
    let object = Object::new(6 * MIB).rate(2 << 20);
    let other = Server::start(move |request, wire| object.serve(request, wire));
    let target = other.url("y");
    let home = Server::start(move |_, wire| wire.redirect("302 Found", &target));
    let sandbox = Sandbox::new();
    let url = home.url("x").replace("http://", "http://me:secret@");
    let args = ["-o", "out", "-c", "3", "-H", "X-Token: secret", "-u", "me:secret"];
    sandbox.get([&*url]).args(&args).run().succeeds();
    assert!(other.requests().len() >= 3);
    for request in other.requests_from(0) {
        assert!(!has(&request.fields, "authorization") && !has(&request.fields, "x-token"), "{request:#?}");
    }
}

#[test]
fn secrets_are_not_said_when_it_fails() {
    let server = Server::start(|_, wire| wire.answer("403 Forbidden", &[], b""));
    let sandbox = Sandbox::new();
    let url =
        server.url("x?X-Amz-Signature=secret&token=secret&part=7").replace("http://", "http://me:secret@");
    for args in [&["-vvv"][..], &["--json", "-v"], &["-q"]] {
        let run = sandbox.get([&*url, "-H", "X-Token: secret", "-H", "Cookie: secret"]).args(args).run();
        run.fails(1, &["127.0.0.1 answered 403", "part=7"]).hides("secret");
        // Nor as base64 of me:secret.
        run.hides("bWU6c2VjcmV0");
    }
    sandbox.get(["http://me:secret@[::1"]).run().exits(2).hides("secret");
    sandbox.get(["http://me:secret@no-such-host.invalid/", "--retries", "0"]).run().exits(1).hides("secret");
    sandbox.get(["ftp://me:secret@h/x"]).run().exits(2).hides("secret");
    sandbox.get(["http://h/x", "-H", "secret"]).run().exits(2);
    let proxy = ["--proxy", "http://me:secret@127.0.0.1:1", "--retries", "0", "-vv"];
    sandbox.get(["http://h/x"]).args(&proxy).run().exits(1).hides("secret");
    sandbox.get(["http://h/x", "--proxy", "socks5://me:secret@h"]).run().exits(1).hides("secret");
    sandbox.write("list", "http://h/ok\nhttp://me:secret@[::1\n");
    sandbox.get(["-i", "list"]).run().exits(1).hides("secret");
    let from = ["--checksum-from", &server.url("SUMS?token=secret").replace("http://", "http://me:secret@")];
    sandbox.get([&*server.url("x")]).args(&from).run().exits(1).hides("secret");
}

#[test]
fn two_urls_with_secrets_and_one_name() {
    let sandbox = Sandbox::new();
    let run: Run = sandbox.get(["http://me:secret@h/x", "http://me:secret@h2/x", "-v"]).run();
    run.fails(1, &["http://h2/x is saved as ./x.1, since another has its name"]).hides("secret");
}

#[test]
fn a_file_called_as_the_part_of_another() {
    let server = Server::start(|request, wire| {
        let field = format!("attachment; filename=\"{}\"", request.path().trim_matches('/'));
        wire.answer("200 OK", &[("Content-Disposition", &field)], BODY)
    });
    for other in ["x.part", "x.weir"] {
        let sandbox = Sandbox::new();
        sandbox.write("list", format!("{}\tx\n{}\t{other}\n", server.url("a"), server.url("b")));
        let run = sandbox.get(["-i", "list", "-o", "in/"]).run();
        run.fails(
            1,
            &[&format!("in/{other} is what in/x is called while it grows; name one of them in a list")],
        );
        assert_eq!(std::fs::read_dir(sandbox.path("in")).unwrap().count(), 1, "the one that came first");
    }
}

#[test]
fn secrets_are_not_in_the_journal() {
    let object = Object::new(8 * MIB).rate(8 << 20);
    let server = Server::start(move |request, wire| {
        // No answer comes to its end before the signal is heard.
        let most = object.answer(request).part.len() * 5 / 8;
        object.serve_up_to(request, wire, most)?;
        wire.wait_for_close()
    });
    let sandbox = Sandbox::new();
    let url = server.url("x?part=7").replace("http://", "http://me:secret@");
    let running = sandbox.get([&*url, "-o", "out", "-H", "X-Token: secret", "-vv", "--json"]).spawn();
    server.wait_sent(4 * MIB as u64);
    running.signal(Signal::TERM);
    running.wait().exits(130).hides("secret");
    let journal = String::from_utf8(sandbox.read("out.weir")).unwrap();
    assert!(journal.contains("part=7") && !journal.contains("secret"), "{journal}");
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(sandbox.path("out.weir")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "a query can hold a token: for the owner alone");
}
