//! URLs that name no file: what they bring is called index.html, and takes no existing file's place unasked.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use support::{MIB, Object, Sandbox, Server};

const BODY: &[u8] = b"theirs";

fn serve() -> Server {
    Server::start(|_, wire| wire.answer("200 OK", &[], BODY))
}

#[test]
fn an_existing_file_stays() {
    let (server, sandbox) = (serve(), Sandbox::new());
    sandbox.write("index.html", "mine");
    let says = "the URL names no file, and 'index.html' already exists; pass -o 'index.html' or --force";
    for path in ["", "a/", "a/?q=1"] {
        sandbox.get([&server.url(path)]).run().fails(1, &[says]);
    }
    sandbox.get([&server.url(""), "--no-clobber"]).run().succeeds();
    assert_eq!(sandbox.read("index.html"), b"mine");
    assert_eq!(sandbox.names(), ["index.html"]);
    std::fs::create_dir(sandbox.path("in")).unwrap();
    sandbox.write("in/index.html", "mine");
    let says = "'in/index.html' already exists; pass -o 'in/index.html' or --force";
    sandbox.get([&server.url(""), "-o", "in/"]).run().fails(1, &[says]);
    assert_eq!(sandbox.read("in/index.html"), b"mine");
}

#[test]
fn it_gives_way_where_the_user_says_so() {
    let (server, sandbox) = (serve(), Sandbox::new());
    for (path, args) in
        [("", &["--force"][..]), ("", &["-o", "index.html"]), ("", &["-N"]), ("index.html", &[])]
    {
        sandbox.write("index.html", "mine");
        sandbox.get([&server.url(path)]).args(args).run().succeeds();
        assert_eq!(sandbox.read("index.html"), BODY, "{path} {args:?}");
    }
    assert_eq!(sandbox.names(), ["index.html"]);
}

/// What was to replace a file goes on to do so.
#[test]
fn a_part_goes_on() {
    let object = Object::new(4 * MIB);
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| match request.number {
        0 => object.serve_up_to(request, wire, 2 * MIB).and_then(|()| wire.close()),
        _ => object.serve(request, wire),
    });
    let sandbox = Sandbox::new();
    sandbox.write("index.html", "mine");
    sandbox.get([&server.url(""), "--force", "--retries", "0"]).run().exits(4);
    assert_eq!(sandbox.read("index.html"), b"mine");
    sandbox.get([&server.url("")]).run().succeeds();
    assert!(sandbox.read("index.html") == *bytes);
    assert_eq!(sandbox.names(), ["index.html"]);
}

#[test]
fn two_of_a_list_get_a_name_each() {
    let (server, sandbox) = (serve(), Sandbox::new());
    sandbox.write("list", format!("{}\n{}\n", server.url("a/"), server.url("b/")));
    sandbox.get(["-i", "list", "-o", "in/", "-j", "1"]).run().succeeds();
    assert_eq!(sandbox.names(), ["in/", "in/index.html", "in/index.html.1", "list"]);
}
