//! What a run reads and writes beside its downloads (a list, a page, cookies) and the downloads are never one
//! file.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use support::{Sandbox, Server};

/// Answers each path with itself; what ends with `named` is called named.html.
fn echo() -> Server {
    Server::start(|request, wire| {
        let disposition = [("Content-Disposition", "attachment; filename=named.html")];
        let fields = if request.path().ends_with("named") { &disposition[..] } else { &[] };
        wire.answer("200 OK", fields, request.path().as_bytes())
    })
}

#[test]
fn two_options_that_name_one_file_are_refused() {
    let (server, sandbox) = (echo(), Sandbox::new());
    let (x, y) = (server.url("x"), server.url("y"));
    for option in ["--report", "--evidence", "--save-cookies", "--json-files"] {
        for name in ["a", "./a"] {
            let run = sandbox.get([&*x, "-o", "a", option, name]).run();
            run.fails(2, &[&format!("{option} and -o both name a; give each a file of its own")]);
        }
    }
    for (args, says) in [
        (&["-o", "a", "-o", "./a", &*x, &*y][..], "-o names ./a twice"),
        (&["--report", "r", "--evidence", "r", &x], "--report and --evidence both name r"),
    ] {
        sandbox.get(args).run().fails(2, &[says]);
    }
    sandbox.write("list", format!("{x}\n"));
    sandbox.get(["-i", "list", "--report", "list"]).run().fails(2, &["-i and --report both name list"]);
    assert!(server.requests().is_empty(), "nothing was asked for");
    assert_eq!(sandbox.names(), ["list"]);
    // A device takes all of them.
    let null = "/dev/null";
    sandbox.get([&*x, "-o", null, "--report", null, "--evidence", null]).run().succeeds();
}

#[test]
fn a_download_takes_the_name_of_none() {
    let (server, sandbox) = (echo(), Sandbox::new());
    let list = format!("{}\n{}\n", server.url("list"), server.url("y"));
    sandbox.write("list", &list);
    let run = sandbox.get(["-i", "list", "-j", "1"]).run();
    run.fails(1, &["list is already taken by -i; choose another name"]);
    assert_eq!(sandbox.read("list"), list.as_bytes());
    assert_eq!(sandbox.read("y"), b"/y");
    // One that a server chose gets a number.
    sandbox.get([&*server.url("named"), "--report", "./named.html"]).run().succeeds();
    assert_eq!(sandbox.read("named.html.1"), b"/named");
    assert!(!sandbox.read("named.html").starts_with(b"/"), "named.html holds a download");
}

/// Whether the URL has the name, a list's or -o, and what a file is called while it grows: it is said before
/// anything is written.
#[test]
fn what_is_here_outlives_a_name_that_is_given_twice() {
    let (server, sandbox) = (echo(), Sandbox::new());
    let (x, y) = (server.url("x"), server.url("y"));
    for name in ["x", "y.part", "in/x", "z.weir"] {
        std::fs::create_dir_all(sandbox.path(name).parent().unwrap()).unwrap();
        sandbox.write(name, "old");
    }
    sandbox.write("list", format!("{y}\n{x}\n"));
    for option in ["--report", "--evidence", "--save-cookies", "--json-files"] {
        for (args, name, says) in [
            (&[&*x][..], "x", format!("{option} and {x} both name x; give each a file of its own")),
            (&[&y], "./y.part", format!("{option} and {y} both name y.part")),
            (&[&y, &x, "-o", "in/"], "in/x", format!("{option} and {x} both name in/x")),
            (&[&y, &x, "-o", "y", "-o", "in/"], "in/x", format!("{option} and {x} both name in/x")),
            (&["-i", "list"], "x", format!("{option} and {x} both name x")),
            (&[&x, "-o", "z"], "z.weir", format!("{option} and -o both name ")),
        ] {
            sandbox.get(args).args(&[option, name]).run().fails(2, &[&says]);
        }
    }
    assert!(server.requests().is_empty(), "nothing was asked for");
    for name in ["x", "y.part", "in/x", "z.weir"] {
        assert_eq!(sandbox.read(name), b"old", "{name}");
    }
    sandbox.get([&*x, "-o", "new", "--evidence", "-"]).run().fails(2, &["--evidence needs a file"]);
    assert!(!sandbox.path("-").exists() && !sandbox.path("new").exists());
}
