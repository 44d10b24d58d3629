//! A plan of what a web server lists: every file of real servers once, with what names may hold, and nothing
//! of what a hostile one makes up.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

use crate::support::http_servers::{Apache, Nginx, lighttpd, sandbox_with_www};
use crate::support::net::free_port;
use crate::support::{Run, Sandbox, Server, WEIR, skip};

/// Names that a page has to write otherwise than they are, below `www`.
const NAMES: [&str; 7] = [
    "plain.bin",
    "a b&c <d>.txt",
    "50% \"quoted\" 'x'#?;=+~.txt",
    "sub/größe 漢字.iso",
    "sub/deep/er/%41.bin",
    "sub.d/C=N;O=D",
    "dots../x...",
];

/// The files, each of so many bytes as its name has, and a folder with nothing in it.
fn files(sandbox: &Sandbox) {
    for name in NAMES {
        let path = sandbox.path("www").join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, "x".repeat(name.len())).expect("a file");
    }
    std::fs::create_dir(sandbox.path("www/nothing")).expect("a folder");
}

fn fleet(sandbox: &Sandbox, words: &[&str]) -> Run {
    sandbox.weir(WEIR, [&["fleet"], words].concat()).run()
}

/// Plans all below `url`, moves it, and compares.
#[track_caller]
fn is_moved_whole(sandbox: &Sandbox, of: &str, url: &str) {
    println!("{of}");
    let (ledger, to) = (format!("{of}.db"), format!("to-{of}"));
    let planned = fleet(sandbox, &["plan", url, &to, "--ledger", &ledger, "--json"]);
    let planned = planned.succeeds().json();
    assert_eq!(planned["added"]["objects"], NAMES.len(), "{planned}");
    fleet(sandbox, &["work", "--ledger", &ledger]).succeeds();
    for name in NAMES {
        let there = std::fs::read(sandbox.path(&to).join(name)).unwrap_or_default();
        assert_eq!(there.len(), name.len(), "{of}: {name}");
    }
    assert_eq!(crate::support::count(&sandbox.path(&to)), NAMES.len() as u64, "{of}");
    fleet(sandbox, &["check", "--ledger", &ledger, "--source"]).succeeds();
}

/// Ends with the test.
struct Python(Child);

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_file_that_a_server_lists_is_planned_once_and_moved() {
    let sandbox = sandbox_with_www();
    files(&sandbox);
    let weir = sandbox.serve("www", &[]);
    is_moved_whole(&sandbox, "weir", &weir.url(""));
    let port = free_port();
    let server = ["-m", "http.server", "--bind", "127.0.0.1", &port.to_string()];
    let python =
        Command::new("python3").args(server).current_dir(sandbox.path("www")).stderr(Stdio::null()).spawn();
    match python.map(Python) {
        Ok(_python) => {
            let listens = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
            crate::support::wait_for("Python's server", listens);
            is_moved_whole(&sandbox, "python", &format!("http://127.0.0.1:{port}/"));
        }
        Err(_) => skip("no python3"),
    }
    let json = "location / { autoindex on; autoindex_format json; }";
    for (of, directives) in [("nginx", "autoindex on;"), ("nginx-json", json)] {
        match Nginx::start(&sandbox, directives) {
            Some(nginx) => is_moved_whole(&sandbox, of, &format!("http://127.0.0.1:{}/", nginx.http)),
            None => skip("no nginx"),
        }
    }
    let fancy = "Options +Indexes\nIndexOptions FancyIndexing HTMLTable NameWidth=*";
    match Apache::with(&sandbox, &["autoindex"], fancy) {
        Some(apache) => is_moved_whole(&sandbox, "apache", &format!("http://127.0.0.1:{}/", apache.http)),
        None => skip("no Apache"),
    }
    match lighttpd(&sandbox, "dir-listing.activate = \"enable\"") {
        Some(lighttpd) => {
            is_moved_whole(&sandbox, "lighttpd", &format!("http://127.0.0.1:{}/", lighttpd.port))
        }
        None => skip("no lighttpd"),
    }
}

/// A server that answers these paths with these pages.
fn pages(pages: &[(&str, &str)]) -> Server {
    let pages: BTreeMap<String, String> =
        pages.iter().map(|(path, page)| ((*path).to_owned(), (*page).to_owned())).collect();
    Server::start(move |request, wire| {
        let path = request.target.clone();
        match pages.get(&path) {
            Some(page) if page.starts_with("http") || page.starts_with('/') => {
                wire.answer("302 Found", &[("Location", page)], b"")
            }
            Some(page) => wire.answer("200 OK", &[("Content-Type", "text/html")], page.as_bytes()),
            None if path.contains("/loop/") => {
                let page = "<title>Index of</title><a href=\"loop/\">loop</a>";
                wire.answer("200 OK", &[("Content-Type", "text/html")], page.as_bytes())
            }
            None => wire.answer("404 Not Found", &[], b""),
        }
    })
}

#[test]
fn nothing_leads_out_of_the_folder_and_what_cannot_be_listed_is_told() {
    let sandbox = Sandbox::new();
    let index = "<title>Index of /d/</title>";
    let server = pages(&[
        (
            "/d/",
            &format!(
                "{index}<a href=\"../\">up</a><a href=\"/etc/passwd\">e</a><a href=\"http://other.example/d/x\">o</a>\
                 <a href=\"//other.example/d/x\">o</a><a href=\"?C=N;O=D\">Name</a><a href=\"#top\">t</a>\
                 <a href=\"javascript:alert(1)\">j</a><a href=\"./\">self</a><a href=\"%2e%2e/up.bin\">u</a>\
                 <a href=\"one\">1</a><a href=\"./one\">again</a><a href=\"/d/t%77o\">2</a>\
                 <link rel=\"next\" href=\"?page=2\">"
            ),
        ),
        ("/d/?page=2", &format!("{index}<a href=three>3</a><a rel=next href=\"?page=2\">next</a>")),
        (
            "/bad/",
            &format!(
                "{index}<a href=\"a%2Fb\">x</a><a href=\"sub/deep\">d</a><a href=\"f?page=3\">q</a><a href=\"ok\">k</a>"
            ),
        ),
        ("/lost/", &format!("{index}<a href=\"gone/\">g</a><a href=\"ok\">k</a>")),
        ("/site/", "<title>Welcome</title><a href=\"one.html\">1</a>"),
        ("/away/", "http://other.example/d/"),
        ("/slash/", "/slash/"),
        ("/deep/", &format!("{index}<a href=\"loop/\">l</a>")),
    ]);
    let plan = |path: &str, ledger: &str, more: &[&str]| {
        let url = server.url(path);
        fleet(&sandbox, &[&["plan", &url, "to", "--ledger", ledger], more].concat())
    };
    let prints = |run: &Run, words: &str| {
        let stdout = String::from_utf8_lossy(&run.succeeds().stdout).into_owned();
        assert!(stdout.contains(words), "no '{words}' in {stdout}");
    };
    prints(&plan("d/", "d.db", &[]), "planned 3 objects");
    let csv = fleet(&sandbox, &["export", "--ledger", "d.db"]);
    let csv = String::from_utf8_lossy(&csv.stdout).into_owned();
    let mut names: Vec<&str> = csv.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
    names.sort_unstable();
    assert_eq!(names, ["one", "three", "two"], "{csv}");
    let bad = plan("bad/", "bad.db", &[]);
    bad.fails(
        1,
        &["cannot plan 3 of the source", "'sub/deep' leads to nothing that is in this folder", "--skip-bad"],
    );
    prints(&plan("bad/", "skipped.db", &["--skip-bad"]), "planned 1 object");
    plan("lost/", "lost.db", &[]).fails(1, &["/lost/gone/", "404"]);
    plan("site/", "site.db", &[]).fails(1, &["no list of files that weir knows", "--list FILE"]);
    plan("away/", "away.db", &[]).fails(1, &["leads to http://other.example/d/", "plan that address"]);
    plan("slash/", "slash.db", &[]).fails(1, &["from one address to another without end"]);
    plan("deep/", "deep.db", &[]).fails(1, &["more than 100 deep"]);
    plan("none/", "none.db", &[]).fails(1, &["404"]);
    plan("d/?x=1", "query.db", &[]).fails(2, &["without a query"]);
    // Each of the server's pages was asked for, and nothing else.
    assert!(
        server.requests().iter().all(|request| !request.request.target.contains("passwd")),
        "it was led out"
    );
    assert!(sandbox.names().iter().all(|name| name != "up.bin"));
}
