//! Does anything outside the directory, or any name inside it, reach a client in a way it should not?
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use support::{Client, serve, serve_dir, wait_for};
use weir_serve::{Config, Content, Handle};

/// outer/{secret, root/{inside, sub/file, link -> sub/file, out -> ../secret, dirout -> .., abs -> /etc}}
fn tree() -> (tempfile::TempDir, Handle) {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("root");
    fs::create_dir_all(root.join("sub")).unwrap();
    fs::write(outer.path().join("secret"), "secret").unwrap();
    fs::write(root.join("inside"), "inside").unwrap();
    fs::write(root.join("sub/file"), "file").unwrap();
    symlink("sub/file", root.join("link")).unwrap();
    symlink("../secret", root.join("out")).unwrap();
    symlink("..", root.join("dirout")).unwrap();
    symlink("/etc", root.join("abs")).unwrap();
    let server = serve_dir(&root);
    (outer, server)
}

#[test]
fn no_path_leads_out() {
    let (_outer, server) = tree();
    let mut client = Client::new(&server);
    let overlong = format!("/{}", "a/".repeat(5000));
    let long_name = format!("/{}", "a".repeat(300));
    for target in [
        "/../secret",
        "/../../../../etc/passwd",
        "/%2e%2e/secret",
        "/%2E%2E%2fsecret",
        "/sub/%2e%2e/%2e%2e/secret",
        "/sub/../../secret",
        "/..%2f..%2fetc/passwd",
        "/..%5c..%5csecret",
        "/..\\secret",
        "/%252e%252e/secret",
        "//etc/passwd",
        "///../secret",
        "/./../secret",
        "/out",
        "/dirout/secret",
        "/dirout/",
        "/dirout",
        "/abs/passwd",
        "/inside/../../secret",
        "/inside/",
        "/inside%00.txt",
        "/%00",
        "/%c0%ae%c0%ae/secret",
        "/proc/self/root/etc/passwd",
        "http://test/../secret",
        &overlong,
        &long_name,
    ] {
        let reply = client.get(target, &[]);
        assert_eq!(reply.status, 404, "{target}");
        assert!(!reply.text().contains("secret"), "{target}");
    }
    // The same connection still serves what it may.
    for (target, body) in
        [("/inside", "inside"), ("/link", "file"), ("//sub/./file?x=/../", "file"), ("/%69nside", "inside")]
    {
        assert_eq!(client.get(target, &[]).text(), body, "{target}");
    }
}

#[test]
fn only_files_and_directories_are_served() {
    let root = tempfile::tempdir().unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.path().join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.path().join("socket")).unwrap();
    let server = serve_dir(root.path());
    let mut client = Client::new(&server);
    assert_eq!(client.get("/fifo", &[]).status, 404);
    assert_eq!(client.get("/socket", &[]).status, 404);
    assert!(!client.get("/", &[]).text().contains("fifo"));
}

#[test]
fn a_directory_is_redirected_to_its_slash_on_this_host() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("evil.example")).unwrap();
    fs::create_dir(root.path().join("a b")).unwrap();
    let server = serve_dir(root.path());
    let mut client = Client::new(&server);
    for (target, location) in [
        ("//evil.example", "/evil.example/"),
        ("/a%20b", "/a%20b/"),
        ("/a%20b%2F", "/a%20b/"),
        ("/a%20b?x=%2e&y#z", "/a%20b/?x=%2e&y"),
        ("/%2F", "/"),
    ] {
        let reply = client.get(target, &[]);
        assert_eq!((reply.status, reply.field("Location")), (301, Some(location)));
        assert_eq!(client.get(location, &[]).status, 200);
    }
}

#[test]
fn an_index_page_takes_the_place_of_the_listing() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("site")).unwrap();
    fs::write(root.path().join("site/index.html"), "<p>home</p>").unwrap();
    let server = serve_dir(root.path());
    let reply = Client::new(&server).get("/site/", &[]);
    assert_eq!((reply.status, reply.text()), (200, "<p>home</p>"));
    assert_eq!(reply.field("Content-Type"), Some("text/html"), "how it is encoded it says itself");
}

#[test]
fn an_index_page_that_cannot_be_opened_does_not_show_the_listing() {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("root");
    fs::write(outer.path().join("secret"), "secret").unwrap();
    for (folder, status) in [("out", 404), ("loop", 404), ("folder", 200), ("dangling", 200)] {
        fs::create_dir_all(root.join(folder)).unwrap();
        let index = root.join(folder).join("index.html");
        match folder {
            "out" => symlink("../../secret", index).unwrap(),
            "loop" => symlink("index.html", index).unwrap(),
            "folder" => fs::create_dir(index).unwrap(),
            _ => symlink("nowhere", index).unwrap(),
        }
        fs::write(root.join(folder).join("private"), "").unwrap();
        let reply = Client::new(&serve_dir(&root)).get(&format!("/{folder}/"), &[]);
        assert_eq!((reply.status, reply.text().contains("private")), (status, status == 200), "{folder}");
    }
}

#[test]
fn absolute_links_lead_where_they_say_within_the_folder() {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("root");
    fs::create_dir_all(root.join("sub")).unwrap();
    fs::write(root.join("sub/file"), "file").unwrap();
    fs::write(outer.path().join("secret"), "secret").unwrap();
    symlink(root.join("sub"), root.join("latest")).unwrap();
    symlink(outer.path().join("secret"), root.join("out")).unwrap();
    for (follow_links, shown, status) in [(false, "latest/ sub/", 404), (true, "latest/ sub/ out", 200)] {
        let server = serve(Config { follow_links, ..Config::new(Content::Dir(root.clone())) });
        let mut client = Client::new(&server);
        assert_eq!(client.get("/latest/file", &[]).text(), "file");
        assert_eq!(client.get("/out", &[]).status, status, "{follow_links}");
        let listing = client.get("/", &["Accept: application/json"]);
        let listing: serde_json::Value = serde_json::from_slice(&listing.body).unwrap();
        let entries = listing["entries"].as_array().unwrap().iter();
        let names: Vec<_> = entries.map(|entry| entry["href"].as_str().unwrap()).collect();
        assert_eq!(names.join(" "), shown);
    }
}

#[test]
fn a_folder_that_may_not_be_listed_serves_its_files() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("known"), "known").unwrap();
    fs::set_permissions(root.path(), PermissionsExt::from_mode(0o311)).unwrap();
    let server = serve_dir(root.path());
    let mut client = Client::new(&server);
    assert_eq!(client.get("/known", &[]).text(), "known");
    // Root reads every folder.
    let status = if fs::read_dir(root.path()).is_ok() { 200 } else { 403 };
    assert_eq!(client.get("/", &[]).status, status);
    fs::set_permissions(root.path(), PermissionsExt::from_mode(0o700)).unwrap();
}

#[test]
fn names_are_escaped_in_the_listing() {
    let root = tempfile::tempdir().unwrap();
    let name = "<img src=x onerror=alert(1)>\"&'\n%41";
    fs::write(root.path().join(name), "trap").unwrap();
    let server = serve_dir(root.path());
    let mut client = Client::new(&server);
    let page = client.get("/", &["Accept: text/html,*/*"]);
    assert_eq!(page.field("Content-Type"), Some("text/html; charset=utf-8"));
    assert!(!page.text().contains("<img"));
    assert!(page.text().contains("&lt;img src=x onerror=alert(1)&gt;&quot;&amp;&#39;"));

    let list = client.get("/", &["Accept: application/json"]);
    assert_eq!(list.field("Content-Type"), Some("application/json"));
    let list: serde_json::Value = serde_json::from_slice(&list.body).unwrap();
    assert_eq!(list["entries"][0]["name"], name);
    // The link in the listing leads to the file.
    let href = list["entries"][0]["href"].as_str().unwrap();
    assert_eq!(client.get(&format!("/{href}"), &[]).text(), "trap");
}

#[test]
fn what_weir_keeps_beside_a_growing_file_is_nobodys() {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, mode| {
        fs::write(root.path().join(name), name).unwrap();
        fs::set_permissions(root.path().join(name), PermissionsExt::from_mode(mode)).unwrap();
    };
    // As weir makes them, and as they are where a file system keeps no modes.
    let private = ["x.part", "x.weir", "x.weir~", "y.PART", "z.1a2b.part"];
    private.iter().for_each(|name| write(name, 0o600));
    let pair = ["v.part", "v.weir", ".x.weir-part"];
    pair.iter().for_each(|name| write(name, 0o644));
    // Somebody's own.
    let own = ["a.part", "b.weir", "c.weir~", "x", "part", "x.parts", ".part", "e.0001.part"];
    own.iter().for_each(|name| write(name, 0o644));
    fs::create_dir(root.path().join("d.part")).unwrap();
    fs::write(root.path().join("d.part/y"), "y").unwrap();
    let server = serve_dir(root.path());
    let mut client = Client::new(&server);
    let odd = ["x%2eweir", "x.part?y", "./x.weir"];
    for target in private.iter().chain(&pair).chain(&odd) {
        for method in ["GET", "HEAD"] {
            assert_eq!(client.ask(method, &format!("/{target}"), &[]).status, 404, "{method} {target}");
        }
        assert_eq!(client.get(&format!("/{target}"), &["Range: bytes=0-0"]).status, 404, "{target}");
    }
    for target in own.iter().chain(&["d.part/y"]) {
        assert_eq!(client.get(&format!("/{target}"), &[]).status, 200, "{target}");
    }
    assert_eq!(client.get("/d.part", &[]).field("Location"), Some("/d.part/"));
    let listing: serde_json::Value =
        serde_json::from_str(client.get("/", &["Accept: application/json"]).text()).unwrap();
    let names: Vec<_> = listing["entries"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
    let shown = ["d.part", ".part", "a.part", "b.weir", "c.weir~", "e.0001.part", "part", "x", "x.parts"];
    assert_eq!(names, shown);
    assert!(!client.get("/", &[]).text().contains("x.weir"));
}

/// Asks for a lease on a file, or gives it back; whether the file system has such.
fn lease(file: &fs::File, kind: libc::c_int) -> bool {
    const F_SETSIG: libc::c_int = 10; // asm-generic/fcntl.h
    // SAFETY: fcntl(2) with these commands takes and gives plain numbers. SIGURG, which is ignored unless
    // somebody asks for it, tells that another wants to open the file.
    unsafe {
        libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) == 0
            && libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) == 0
    }
}

#[test]
fn a_file_that_somebody_leases_is_busy() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("leased"), "leased").unwrap();
    let file = fs::File::options().read(true).write(true).open(root.path().join("leased")).unwrap();
    if !lease(&file, libc::F_WRLCK) {
        return println!("skipped: the file system for temporary files has no leases");
    }
    let server = serve_dir(root.path());
    let mut client = Client::new(&server);
    let reply = client.get("/leased", &[]);
    assert_eq!((reply.status, reply.field("Retry-After")), (503, Some("1")));
    // A thread waits with whoever asks, so it does not wait for long.
    wait_for("a refusal within a second", || {
        let asked = Instant::now();
        let reply = Client::new(&server).get("/leased", &[]);
        reply.status == 503 && asked.elapsed() < Duration::from_secs(1)
    });
    assert!(lease(&file, libc::F_UNLCK));
    assert_eq!(client.get("/leased", &[]).text(), "leased");
}

#[test]
fn a_folder_that_is_made_anew_is_served_again() {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("root");
    let make = |text: &str| {
        fs::create_dir(&root).unwrap();
        fs::write(root.join("version"), text).unwrap();
    };
    make("one");
    let server = serve_dir(&root);
    let mut client = Client::new(&server);
    assert_eq!(client.get("/version", &[]).text(), "one");
    fs::remove_dir_all(&root).unwrap();
    for target in ["/version", "/"] {
        let reply = client.get(target, &[]);
        assert_eq!((reply.status, reply.field("Retry-After")), (503, Some("1")), "{target}");
    }
    make("two");
    assert_eq!(client.get("/version", &[]).text(), "two");
    assert!(client.get("/", &[]).text().contains("version"));
    assert_eq!(client.get("/none", &[]).status, 404);
}

/// Removes a served folder, makes something else of its name, and sees that it is served only when told.
fn serves_when_told(make_other: impl Fn(&Path) -> bool) {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("root");
    fs::create_dir(&root).unwrap();
    let server = serve_dir(&root);
    fs::remove_dir(&root).unwrap();
    if !make_other(&root) {
        return println!("skipped: only root gives folders away");
    }
    fs::write(root.join("version"), "other").unwrap();
    let mut client = Client::new(&server);
    for target in ["/version", "/"] {
        let reply = client.get(target, &[]);
        assert_eq!((reply.status, reply.field("Retry-After")), (503, Some("1")), "{target}");
    }
    server.reload().unwrap();
    assert_eq!(client.get("/version", &[]).text(), "other");
}

#[test]
fn a_link_in_place_of_a_removed_folder_is_followed_when_told() {
    serves_when_told(|root| {
        let elsewhere = root.with_file_name("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        symlink(elsewhere, root).unwrap();
        true
    });
}

#[test]
fn a_folder_that_another_user_made_is_served_when_told() {
    serves_when_told(|root| {
        fs::create_dir(root).unwrap();
        chown(root, Some(12_345), None).is_ok()
    });
}

#[test]
fn a_link_that_leads_elsewhere_now_is_followed_when_told() {
    let outer = tempfile::tempdir().unwrap();
    for name in ["one", "two"] {
        fs::create_dir(outer.path().join(name)).unwrap();
        fs::write(outer.path().join(name).join("version"), name).unwrap();
    }
    let current = outer.path().join("current");
    symlink("one", &current).unwrap();
    let server = serve_dir(&current);
    let mut client = Client::new(&server);
    fs::remove_file(&current).unwrap();
    symlink("two", &current).unwrap();
    assert_eq!(client.get("/version", &[]).text(), "one");
    assert!(!server.reload().unwrap(), "there is no certificate");
    assert_eq!(client.get("/version", &[]).text(), "two");
    fs::remove_file(&current).unwrap();
    let error = server.reload().unwrap_err().to_string();
    assert!(error.contains("current"), "{error}");
    assert_eq!(client.get("/version", &[]).text(), "two", "what it had is kept");
}
