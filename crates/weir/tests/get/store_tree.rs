//! `weir cp` with a store on either side: trees there and back, what is left alone, what goes, and what
//! neither can hold; and `weir get` of a prefix.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::process::Signal;
use support::bucket::{Bucket, Fault};
use support::http_servers::{Program, moto};
use support::listed::{ListedBucket, Manner, weir_of};
use support::{MIB, Request, Run, Sandbox, Server, pattern, skip, wait_for};

/// moto lets in whoever has any signature.
const SIGNED: &str = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=600&X-Amz-Signature=of-tests";

/// Makes a bucket at moto.
pub(crate) fn make_bucket(endpoint: &str, name: &str) {
    let url = format!("{endpoint}/{name}?{SIGNED}");
    let output =
        Command::new("curl").args(["-sSf", "-X", "PUT", "-H", "Content-Length: 0", &url]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// moto with a bucket `bucket-of-tests`, and a sandbox.
struct Store {
    _moto: Program,
    endpoint: String,
    sandbox: Sandbox,
}

impl Store {
    fn start() -> Option<Store> {
        let Some(moto) = moto() else {
            skip("no moto: scripts/need test");
            return None;
        };
        let endpoint = format!("http://127.0.0.1:{}", moto.port);
        make_bucket(&endpoint, "bucket-of-tests");
        Some(Store { _moto: moto, endpoint, sandbox: Sandbox::new() })
    }

    fn run(&self, args: &[&str]) -> Run {
        weir_of(&self.sandbox, &self.endpoint, args).run()
    }

    /// The keys that it holds, behind the bucket.
    fn keys(&self) -> Vec<String> {
        let run = self.run(&["ls", "-r", "s3://bucket-of-tests"]);
        run.succeeds();
        let said = said(&run);
        let keys = said.lines().map(|line| line.strip_prefix("s3://bucket-of-tests/").unwrap().to_owned());
        let mut keys: Vec<String> = keys.collect();
        keys.sort();
        keys
    }

    /// Files moved and files that were the same.
    #[track_caller]
    fn copies(&self, args: &[&str]) -> (u64, u64) {
        counts(&self.run(&[&["cp", "--json"], args].concat()))
    }

    fn tree(&self) {
        for (name, bytes) in [
            ("src/zero", &b""[..]),
            ("src/a/b/c/deep", b"deep"),
            ("src/a/sp +%2F\u{e9}", b"odd"),
            ("src/a.b", b"before a/"),
            ("src/large", &pattern(7 * MIB + 1, 3)),
        ] {
            write(&self.sandbox, name, bytes);
        }
        let mut touch = Command::new("touch");
        touch.args(["-d", "2020-01-02 03:04:05.678"]).arg(self.sandbox.path("src/a.b"));
        assert!(touch.status().unwrap().success());
    }

    #[track_caller]
    fn has_same(&self, one: &str, other: &str) {
        let diff =
            Command::new("diff").arg("-r").arg(self.sandbox.path(one)).arg(self.sandbox.path(other)).output();
        let diff = diff.unwrap();
        assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
    }
}

/// What is on its standard output.
fn said(run: &Run) -> String {
    String::from_utf8(run.stdout.clone()).unwrap()
}

/// A file of the sandbox, and the folders that it is in.
fn write(sandbox: &Sandbox, name: &str, bytes: impl AsRef<[u8]>) {
    std::fs::create_dir_all(sandbox.path(name).parent().unwrap()).unwrap();
    sandbox.write(name, bytes);
}

#[track_caller]
fn counts(run: &Run) -> (u64, u64) {
    run.succeeds();
    let record = run.json();
    let (files, unchanged) = (&record["cp"]["files"], &record["cp"]["unchanged"]);
    let unchanged = unchanged.as_u64().unwrap();
    (files.as_u64().unwrap() - unchanged, unchanged)
}

#[test]
fn a_tree_goes_there_and_comes_back_the_same() {
    let Some(store) = Store::start() else { return };
    store.tree();
    assert_eq!(store.copies(&["-r", "src/", "s3://bucket-of-tests/p/"]), (5, 0));
    assert_eq!(store.copies(&["-r", "src/", "s3://bucket-of-tests/p/"]), (0, 5));
    let keys = ["p/a.b", "p/a/b/c/deep", "p/a/sp +%2F\u{e9}", "p/large", "p/zero"];
    assert_eq!(store.keys(), keys);
    assert_eq!(store.copies(&["s3://bucket-of-tests/p/", "back"]), (5, 0));
    store.has_same("src", "back");
    let time = |name: &str| store.sandbox.path(name).metadata().unwrap().modified().unwrap();
    assert_eq!(time("src/a.b"), time("back/a.b"));
    assert_eq!(time("src/large"), time("back/large"));
    assert_eq!(store.copies(&["--update", "s3://bucket-of-tests/p/", "back"]), (0, 5));
    // What has another time is moved again, unless its size or its content decide.
    let file = std::fs::File::options().append(true).open(store.sandbox.path("src/zero")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    for flag in ["--size-only", "--checksum"] {
        assert_eq!(store.copies(&[flag, "src/", "s3://bucket-of-tests/p/"]), (0, 5), "{flag}");
    }
    assert_eq!(store.copies(&["src/", "s3://bucket-of-tests/p/"]), (1, 4));
    // The same size and time, and another content.
    write(&store.sandbox, "src/a.b", b"Before a/");
    let touched = Command::new("touch")
        .arg("-r")
        .arg(store.sandbox.path("back/a.b"))
        .arg(store.sandbox.path("src/a.b"))
        .status();
    assert!(touched.unwrap().success());
    assert_eq!(store.copies(&["src/", "s3://bucket-of-tests/p/"]), (0, 5));
    assert_eq!(store.copies(&["--checksum", "src/", "s3://bucket-of-tests/p/"]), (1, 4));
    // A folder without a slash at its end keeps its name, and so does one of the store.
    assert_eq!(store.copies(&["src", "s3://bucket-of-tests/q"]), (5, 0));
    assert_eq!(store.copies(&["s3://bucket-of-tests/q/src", "again"]), (5, 0));
    store.has_same("src", "again/src");
}

#[test]
fn what_the_source_lacks_goes_and_what_is_excluded_stays() {
    let Some(store) = Store::start() else { return };
    store.tree();
    let to = "s3://bucket-of-tests/p/";
    store.copies(&["src/", to]);
    write(&store.sandbox, "kept.tmp", b"kept");
    for key in ["p/x.tmp", "p/a/x.tmp", "other"] {
        store.copies(&["kept.tmp", &format!("s3://bucket-of-tests/{key}")]);
    }
    std::fs::remove_file(store.sandbox.path("src/large")).unwrap();
    std::fs::remove_dir_all(store.sandbox.path("src/a/b")).unwrap();
    write(&store.sandbox, "src/new", b"new");
    write(&store.sandbox, "src/y.tmp", b"not taken");
    let before = store.keys();
    let args = ["cp", "--delete", "--exclude", "*.tmp", "src/", to];
    let dry = store.run(&[&args[..], &["-n"]].concat());
    dry.succeeds();
    let lines = said(&dry);
    let mut lines: Vec<&str> = lines.lines().collect();
    lines.sort();
    let gone = ["delete s3://bucket-of-tests/p/a/b/c/deep", "delete s3://bucket-of-tests/p/large"];
    assert_eq!(lines, [&["copy s3://bucket-of-tests/p/new"][..], &gone].concat());
    assert_eq!(store.keys(), before);
    store.run(&[&args[..], &["--max-delete", "1"]].concat()).fails(1, &["--max-delete"]);
    store.run(&args).succeeds();
    let keys = ["other", "p/a.b", "p/a/sp +%2F\u{e9}", "p/a/x.tmp", "p/new", "p/x.tmp", "p/zero"];
    assert_eq!(store.keys(), keys);
    // The other way.
    write(&store.sandbox, "here/gone/deep", b"x");
    write(&store.sandbox, "here/keep.tmp", b"x");
    write(&store.sandbox, "here/a.b", b"another");
    let args = ["cp", "--delete", "--exclude", "*.tmp", to, "here"];
    let dry = store.run(&[&args[..], &["-n"]].concat());
    dry.succeeds();
    let dry = said(&dry);
    assert!(dry.contains("delete gone\n") && dry.contains("copy a.b\n"), "{dry}");
    assert_eq!(store.sandbox.read("here/a.b"), b"another");
    store.run(&args).succeeds();
    let mut here = store.sandbox.names();
    here.retain(|name| name.starts_with("here/") && !name.ends_with('/'));
    assert_eq!(here, ["here/a.b", "here/a/sp +%2F\u{e9}", "here/keep.tmp", "here/new", "here/zero"]);
}

/// Which folder it is is known before the first file of it is.
#[test]
fn the_disk_of_a_folder_is_looked_at() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    bucket.hold("p/a", vec![7; 300_000]);
    bucket.hold("p/b", vec![8; 300_000]);
    for args in [["cp", "s3://b/p/", "tree"].as_slice(), &["get", "s3://b/p/", "-o", "got/"]] {
        let args = [args, &["-q", "--evidence", "seen"]].concat();
        weir_of(&sandbox, &bucket.server.url(""), &args).run().succeeds();
        let seen = String::from_utf8(sandbox.read("seen")).unwrap();
        assert!(seen.contains("\"disk\"") && !seen.contains("the output is not a file"), "{args:?}");
    }
}

#[test]
fn a_dry_run_counts_what_it_would_do() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    write(&sandbox, "src/new", b"new");
    write(&sandbox, "src/other", b"other");
    bucket.hold("p/old", b"old".to_vec());
    let run = |args: &[&str]| weir_of(&sandbox, &bucket.server.url(""), args).run();
    for (from, to, copies, says) in [
        ("src/", "s3://b/p/", 2, "2 files would be copied, 1 entry deleted"),
        ("s3://b/p/", "src/", 1, "1 file would be copied, 2 entries deleted"),
    ] {
        let args = ["cp", "-n", "--delete", from, to];
        let dry = run(&args);
        dry.succeeds().says(&["nothing was copied or deleted (-n): ", says]);
        let record = run(&[&args[..], &["--json"]].concat()).succeeds().json();
        assert_eq!(record["would"], serde_json::json!({ "copy": copies, "delete": 3 - copies }));
    }
}

#[test]
fn on_the_way_to_a_target_that_cannot_be_made_no_folder_stays() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    bucket.hold("p/a", b"a".to_vec());
    let to = format!("new/{}", "n".repeat(256));
    let run = weir_of(&sandbox, &bucket.server.url(""), &["cp", "--mkpath", "s3://b/p/", &to]).run();
    run.fails(1, &["name too long"]);
    sandbox.has_nothing_of("new");
}

/// Keys that no file can have go by the same rules, as far as names can have their parts.
#[test]
fn what_is_excluded_stays_under_a_key_that_no_file_can_have() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    write(&sandbox, "src/new", b"new");
    bucket.hold("s/new", b"new".to_vec());
    bucket.hold("s/kept//other", b"x".to_vec());
    let long = format!("kept/{}", "n".repeat(256));
    let kept = ["x.tmp//y", "a//y.tmp", "kept//y", &long];
    let gone = ["a//y", "old"];
    for (from, to) in [("src/", "p/"), ("s3://b/s/", "q/")] {
        for name in kept.iter().chain(&gone) {
            bucket.hold(&format!("{to}{name}"), b"x".to_vec());
        }
        let url = format!("s3://b/{to}");
        let args = ["cp", "--delete", "--exclude", "*.tmp", "--exclude", "kept/", from, &url];
        weir_of(&sandbox, &bucket.server.url(""), &args).run().succeeds();
        let holds = bucket.holds();
        let here = holds.objects.keys().filter_map(|key| key.strip_prefix(to));
        let mut expected = [&["new"][..], &kept].concat();
        expected.sort();
        assert_eq!(here.collect::<Vec<_>>(), expected, "{from}");
    }
}

#[test]
fn one_object_links_and_what_does_not_go_together() {
    let Some(store) = Store::start() else { return };
    write(&store.sandbox, "x.json", b"{}");
    store.copies(&["x.json", "s3://bucket-of-tests/k"]);
    store.copies(&["x.json", "s3://bucket-of-tests/folder/"]);
    assert_eq!(store.keys(), ["folder/x.json", "k"]);
    store.copies(&["s3://bucket-of-tests/k", "named"]);
    write(&store.sandbox, "into/there", b"");
    store.copies(&["s3://bucket-of-tests/folder/x.json", "into"]);
    store.copies(&["s3://bucket-of-tests/*/x.j*", "globbed"]);
    for name in ["named", "into/x.json", "globbed/folder/x.json"] {
        assert_eq!(store.sandbox.read(name), b"{}", "{name}");
    }
    store.run(&["cp", "s3://bucket-of-tests/none", "out"]).fails(1, &["holds nothing of that name"]);
    store.run(&["cp", "s3://bucket-of-tests/k", "host:x"]).fails(2, &["copy to this machine first"]);
    store
        .run(&["cp", "--chmod", "u+x", "x.json", "s3://bucket-of-tests/k"])
        .fails(2, &["a store keeps no modes"]);
    write(&store.sandbox, "tree/file", b"x");
    symlink("file", store.sandbox.path("tree/link")).unwrap();
    let run = store.run(&["cp", "tree/", "s3://bucket-of-tests/t/"]);
    run.fails(1, &["link: cannot be an object: it is a symbolic link; -L copies what it leads to"]);
    assert_eq!(store.copies(&["-L", "tree/", "s3://bucket-of-tests/t/"]), (1, 1));
    // Within the store, by the store.
    assert_eq!(store.copies(&["s3://bucket-of-tests/t/", "s3://bucket-of-tests/u/"]), (2, 0));
    assert_eq!(store.copies(&["s3://bucket-of-tests/t/", "s3://bucket-of-tests/u/"]), (0, 2));
    store.copies(&["x.json", "s3://bucket-of-tests/u/more"]);
    let run = store.run(&["cp", "--delete", "--json", "s3://bucket-of-tests/t/", "s3://bucket-of-tests/u/"]);
    assert_eq!(counts(&run), (0, 2));
    assert_eq!(
        (run.json()["cp"]["deleted"].as_u64(), run.json()["cp"]["server_side"].as_bool()),
        (Some(1), Some(true))
    );
    let run = store.run(&["cp", "s3://bucket-of-tests/t/", "s3://bucket-of-tests/t/in/"]);
    run.fails(2, &["one lies in the other"]);
    assert_eq!(store.keys(), ["folder/x.json", "k", "t/file", "t/link", "u/file", "u/link"]);
}

#[test]
fn the_order_of_a_list_decides_nothing() {
    let names: Vec<String> = (0..2500).map(|number| format!("p/{}/{number}", number % 11)).collect();
    let objects: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), name.as_bytes())).collect();
    let bucket = ListedBucket::start(&objects, Manner::Disordered, 300);
    let sandbox = Sandbox::new();
    let copies = |args: &[&str]| counts(&bucket.weir(&sandbox, &[&["cp", "--json"], args].concat()).run());
    assert_eq!(copies(&["s3://b/p/", "out"]), (2500, 0));
    for name in &names {
        assert_eq!(sandbox.read(&name.replace("p/", "out/")), name.as_bytes());
    }
    assert_eq!(bucket.fetched(), 2500);
    assert_eq!(copies(&["--delete", "s3://b/p/", "out"]), (0, 2500));
    bucket.holds(&objects[..2000]);
    assert_eq!(copies(&["--delete", "s3://b/p/", "out"]), (0, 2000));
    assert_eq!(bucket.fetched(), 2500);
    assert_eq!(support::count(&sandbox.path("out")), 2000);
}

/// Some servers repeat that keys are encoded, and write them as they are.
#[test]
fn keys_are_what_they_are_whether_a_list_encodes_them_or_not() {
    let objects: [(&str, &[u8]); 4] =
        [("p/a+b", b"1"), ("p/c d&<e", b"2"), ("p/f%2Fg", b"3"), ("p/100%", b"4")];
    for manner in [Manner::InOrder, Manner::Unencoded] {
        let bucket = ListedBucket::start(&objects, manner, 2);
        let sandbox = Sandbox::new();
        bucket.weir(&sandbox, &["cp", "s3://b/p/", "out"]).run().succeeds();
        for (key, bytes) in objects {
            assert_eq!(sandbox.read(&key.replace("p/", "out/")), bytes, "{manner:?}");
        }
        let pages = bucket.server.requests();
        let pages = pages.iter().filter(|seen| seen.request.target.contains("list-type=2")).count();
        assert_eq!(pages, 3, "{manner:?}: two pages, and one to know");
    }
}

#[test]
fn a_list_that_breaks_deletes_nothing() {
    let names: Vec<String> = (0..10).map(|number| format!("p/{number}")).collect();
    let objects: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), name.as_bytes())).collect();
    for (manner, says) in [
        (Manner::Cut, "ends in the middle"),
        (Manner::Repeated, "goes round"),
        (Manner::NoToken, "no token"),
        (Manner::SecondDenied, "AccessDenied"),
    ] {
        let bucket = ListedBucket::start(&objects, manner, 3);
        let sandbox = Sandbox::new();
        write(&sandbox, "out/mine", b"mine");
        let run = bucket.weir(&sandbox, &["cp", "--delete", "s3://b/p/", "out"]).run();
        run.fails(1, &[says, "nothing was deleted"]).hides("a-secret-of-tests");
        assert_eq!(sandbox.read("out/mine"), b"mine");
        // What it had said before is here.
        assert_eq!(
            sandbox.path("out/0").exists(),
            !matches!(manner, Manner::Cut | Manner::NoToken),
            "{manner:?}"
        );
    }
}

/// What ends a copy early takes nothing from what is told of it.
#[test]
fn a_late_error_leaves_the_record() {
    let names: Vec<String> = (0..10).map(|number| format!("p/{number}")).collect();
    let objects: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), name.as_bytes())).collect();
    let bucket = ListedBucket::start(&objects, Manner::SecondDenied, 3);
    let sandbox = Sandbox::new();
    let run = bucket.weir(&sandbox, &["cp", "--json", "--delete", "s3://b/p/", "s3://b/q/"]).run();
    run.fails(1, &["AccessDenied", "nothing was deleted"]).hides("a-secret-of-tests");
    let record = run.json();
    assert_eq!((record["outcome"].as_str(), record["cp"]["files"].as_u64()), (Some("failed"), Some(3)));
    assert!(record["error"].as_str().unwrap().contains("AccessDenied"), "{record:#}");
    // What is to be deleted at the end.
    let bucket = Bucket::start();
    let denied = || Fault::Answer("403 Forbidden", "<Error><Code>AccessDenied</Code></Error>".to_owned());
    bucket.hook(move |request| (request.method == "POST" && request.target.contains("delete")).then(denied));
    write(&sandbox, "src/x", b"x");
    for key in ["p/x", "q/old", "r/old"] {
        bucket.hold(key, b"x".to_vec());
    }
    for (from, to) in [("src/", "s3://b/q/"), ("s3://b/p/", "s3://b/r/")] {
        let args = ["cp", "--json", "--delete", from, to];
        let run = weir_of(&sandbox, &bucket.server.url(""), &args).run();
        let record = run.fails(1, &["AccessDenied"]).json();
        assert_eq!(record["cp"]["files"].as_u64(), Some(1), "{record:#}");
        assert!(record["error"].as_str().unwrap().contains("AccessDenied"), "{record:#}");
    }
    assert_eq!((bucket.bytes("q/old"), bucket.bytes("r/old")), (b"x".to_vec(), b"x".to_vec()));
}

/// What `weir get` of a prefix leaves alone counts, and is listed; `--force` leaves nothing.
#[test]
fn a_prefix_that_is_here() {
    let objects: [(&str, &[u8]); 2] = [("p/x", b"one"), ("p/in/y", b"two")];
    let bucket = ListedBucket::start(&objects, Manner::InOrder, 100);
    let sandbox = Sandbox::new();
    let ended = |flags: &[&str]| {
        let args = [&["get", "s3://b/p/", "-o", "out/", "--json"], flags].concat();
        let record = bucket.weir(&sandbox, &args).run().succeeds().json();
        let mut files: Vec<&str> =
            record["files"].as_array().unwrap().iter().map(|file| file["url"].as_str().unwrap()).collect();
        files.sort();
        assert_eq!(files, ["s3://b/p/in/y", "s3://b/p/x"]);
        let counts = ["files", "complete", "unchanged", "skipped"];
        (counts.map(|name| record["counts"][name].as_u64().unwrap()), bucket.fetched())
    };
    assert_eq!(ended(&[]), ([2, 2, 0, 0], 2));
    assert_eq!(ended(&[]), ([2, 0, 2, 0], 2));
    assert_eq!(ended(&["--no-clobber"]), ([2, 0, 0, 2], 2));
    assert_eq!(ended(&["--force"]), ([2, 2, 0, 0], 4));
}

/// A pattern names several objects. In a list with links, no link's server is told who asks stores.
#[test]
fn a_pattern_and_a_list_of_both_kinds() {
    let objects: [(&str, &[u8]); 4] =
        [("p/a.gz", b"a"), ("p/b.gz", b"b"), ("p/c.txt", b"c"), ("p/in/d.gz", b"d")];
    let bucket = ListedBucket::start(&objects, Manner::InOrder, 100);
    let other = Server::start(|_, wire| wire.answer("200 OK", &[], b"of a link"));
    let sandbox = Sandbox::new();
    bucket.weir(&sandbox, &["get", "s3://b/p/*.gz", "-o", "out/"]).run().succeeds();
    assert_eq!(sandbox.names(), ["out/", "out/a.gz", "out/b.gz"]);
    sandbox.write("list", format!("s3://b/p/a.gz\n{}\n", other.url("x")));
    bucket.weir(&sandbox, &["get", "-i", "list", "-o", "in/"]).run().succeeds();
    assert_eq!((sandbox.read("in/a.gz"), sandbox.read("in/x")), (b"a".to_vec(), b"of a link".to_vec()));
    assert!(bucket.server.requests().iter().all(|seen| seen.request.field("authorization").is_some()));
    for seen in other.requests() {
        let of_a_store = |name: &str| name == "authorization" || name.starts_with("x-amz-");
        let fields = &seen.request.fields;
        assert!(!fields.iter().any(|(name, _)| of_a_store(&name.to_ascii_lowercase())), "{fields:?}");
    }
}

/// It moves an object of [`paged`].
fn moves(request: &Request) -> bool {
    request.method == "PUT" || request.method == "GET" && request.path().starts_with("/b/p/")
}

/// Objects of one byte behind `b/p/`, in so many pages of so many; other buckets hold nothing. The second
/// page waits until an object is moved, or `is_moved` says that one was.
fn paged(pages: usize, size: usize, is_moved: AtomicBool) -> Server {
    Server::start(move |request, wire| {
        is_moved.fetch_or(moves(request), Relaxed);
        let path = request.path();
        match request.method.as_str() {
            "PUT" => wire.answer("200 OK", &[], b"<CopyObjectResult><ETag>\"a\"</ETag></CopyObjectResult>"),
            "HEAD" if path.starts_with("/b/p/") => {
                wire.head("200 OK", &[("Content-Length", "1"), ("ETag", "\"a\"")])
            }
            "HEAD" => wire.head("404 Not Found", &[("Content-Length", "0")]),
            _ if path.starts_with("/b/p/") => wire.answer("200 OK", &[("ETag", "\"a\"")], b"x"),
            _ if path.trim_end_matches('/') != "/b" => {
                let none = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
                wire.answer("200 OK", &[], none)
            }
            _ => {
                let mut pairs = request.target.split(['?', '&']);
                let token = pairs.find_map(|pair| pair.strip_prefix("continuation-token=t"));
                let page: usize = token.map_or(0, |page| page.parse().unwrap());
                if page > 0 {
                    wait_for("an object to be moved", || is_moved.load(Relaxed));
                }
                let object = |number| {
                    format!(
                        "<Contents><Key>p/{page}/{number}</Key><Size>1</Size>\
                         <LastModified>2026-11-26T10:00:00.000Z</LastModified><ETag>&quot;a&quot;</ETag></Contents>"
                    )
                };
                let next = page + 1;
                let end = match next < pages {
                    true => format!(
                        "<IsTruncated>true</IsTruncated><NextContinuationToken>t{next}</NextContinuationToken>"
                    ),
                    false => "<IsTruncated>false</IsTruncated>".to_owned(),
                };
                let objects: String = (0..size).map(object).collect();
                let list = format!("<ListBucketResult>{objects}{end}</ListBucketResult>");
                wire.answer("200 OK", &[], list.as_bytes())
            }
        }
    })
}

#[test]
fn objects_are_moved_while_their_list_comes() {
    for args in [
        &["get", "s3://b/p/", "-o", "out/"][..],
        &["cp", "s3://b/p/", "out"],
        &["cp", "s3://b/p/", "s3://c/q/"],
    ] {
        let (server, sandbox) = (paged(3, 20, AtomicBool::new(false)), Sandbox::new());
        weir_of(&sandbox, &server.url(""), args).run().succeeds();
        let requests = server.requests();
        let moved = requests.iter().filter(|seen| moves(&seen.request));
        let moved: BTreeSet<&str> = moved.map(|seen| seen.request.path()).collect();
        assert_eq!(moved.len(), 60, "{args:?}: {moved:?}");
    }
}

/// A hundred thousand objects, of which none is moved: at most eight bytes of a name are kept.
#[test]
fn a_long_list_of_a_store_takes_no_more_memory_than_a_short_one() {
    for to in ["out", "s3://c/q/"] {
        let [short, long] = [4, 100].map(|pages| {
            let (server, sandbox) = (paged(pages, 1000, AtomicBool::new(true)), Sandbox::new());
            std::fs::create_dir(sandbox.path("out")).unwrap();
            let args = ["cp", "--existing", "--delete", "--json", "s3://b/p/", to];
            let record = weir_of(&sandbox, &server.url(""), &args).run().succeeds().json();
            record["peak_memory"].as_u64().unwrap()
        });
        assert!(long < short + (10 << 20) && long < 96 << 20, "{to}: {short} bytes, {long} bytes");
    }
}

/// What a pattern leaves out is at the source all the same: it would go from the target.
#[test]
fn a_pattern_and_delete_are_refused_before_anything_is_asked() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    for key in ["p/a.gz", "p/b.txt", "q/a.gz", "q/b.txt"] {
        bucket.hold(key, key.as_bytes().to_vec());
    }
    write(&sandbox, "out/b.txt", b"mine");
    for target in ["out", "s3://b/q/"] {
        for flag in ["--delete", "--delete-excluded"] {
            let args = ["cp", flag, "s3://b/p/*.gz", target];
            let run = weir_of(&sandbox, &bucket.server.url(""), &args).run();
            run.fails(2, &["--delete would remove all that the pattern does not name"]);
        }
    }
    assert!(bucket.server.requests().is_empty());
    assert_eq!((sandbox.read("out/b.txt"), bucket.bytes("q/b.txt")), (b"mine".to_vec(), b"q/b.txt".to_vec()));
    // With the prefix and rules in its place, what they leave out stays.
    let args = ["cp", "--delete", "--include", "*.gz", "--exclude", "*", "s3://b/p/", "out"];
    weir_of(&sandbox, &bucket.server.url(""), &args).run().succeeds();
    assert_eq!((sandbox.read("out/b.txt"), sandbox.read("out/a.gz")), (b"mine".to_vec(), b"p/a.gz".to_vec()));
}

/// Each object of several sources is the file of its own source, and what two of them have goes once.
#[test]
fn several_sources_are_told_apart() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    for name in ["a/f", "b/f", "b/ob", "x/p/one", "x/p/both", "y/p/two", "y/p/both"] {
        write(&sandbox, name, name);
    }
    let copies = |args: &[&str]| weir_of(&sandbox, &bucket.server.url(""), &[&["cp"], args].concat()).run();
    copies(&["a/", "b/", "s3://b/m/"]).fails(1, &["a/f and b/f would be the same object: a/f is copied"]);
    copies(&["a/f", "b/f", "s3://b/q/"]).fails(1, &["a/f and b/f would be the same object: a/f is copied"]);
    copies(&["x/p", "y/p", "s3://b/r/"]).fails(1, &["x/p/both and y/p/both would be the same object"]);
    for (key, from) in [
        ("m/f", "a/f"),
        ("m/ob", "b/ob"),
        ("q/f", "a/f"),
        ("r/p/one", "x/p/one"),
        ("r/p/two", "y/p/two"),
        ("r/p/both", "x/p/both"),
    ] {
        assert_eq!(bucket.bytes(key), from.as_bytes(), "{key}");
    }
    // Each lacks what the other has.
    for [one, other] in [["x/p", "y/p"], ["a/", "b/"], ["x/p", "a/"]] {
        let run = copies(&["--delete", one, other, "s3://b/r/"]);
        run.fails(2, &["--delete with several sources into one folder"]);
    }
    assert_eq!(bucket.bytes("r/p/two"), b"y/p/two");
    // A limit is one for all of them.
    for key in ["d/a/old", "d/b/old-1", "d/b/old-2"] {
        bucket.hold(key, b"old".to_vec());
    }
    let run = copies(&["--delete", "--max-delete", "1", "a", "b", "s3://b/d/"]);
    run.fails(1, &["more than 1 entries are to be deleted, and --max-delete allows no more"]);
    assert_eq!(bucket.holds().objects.keys().filter(|key| key.contains("/old")).count(), 2);
}

/// A store says nothing while it copies: a short timeout is for what it answers at once.
#[test]
fn a_store_copies_for_longer_than_the_timeout() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    bucket.hold("p/x", b"x".to_vec());
    bucket.hook(|request| {
        request.field("x-amz-copy-source").map(|_| Fault::Late(std::time::Duration::from_millis(1500)))
    });
    let args = ["cp", "--timeout", "1", "s3://b/p/x", "s3://b/q/x"];
    weir_of(&sandbox, &bucket.server.url(""), &args).run().succeeds();
    assert_eq!(bucket.bytes("q/x"), b"x");
    let requests = bucket.server.requests();
    let copies = requests.iter().filter(|seen| seen.request.field("x-amz-copy-source").is_some());
    assert_eq!(copies.count(), 1);
}

/// A pattern that names an object letter by letter is that object; where it names none, the error says how
/// letters are meant.
#[test]
fn a_pattern_that_is_a_key_is_that_key() {
    let objects: [(&str, &[u8]); 3] =
        [("v/b[1].txt", b"letters"), ("v/b1.txt", b"matched"), ("v/a\\b[1]", b"a backslash")];
    let bucket = ListedBucket::start(&objects, Manner::InOrder, 100);
    let sandbox = Sandbox::new();
    write(&sandbox, "out/there", b"");
    let copies = |from: &str, to: &str| bucket.weir(&sandbox, &["cp", from, to]).run();
    for from in ["s3://b/v/b[1].txt", "s3://b/v/b\\[1\\].txt"] {
        copies(from, "out").succeeds();
        assert_eq!(sandbox.read("out/b[1].txt"), b"letters", "{from}");
        assert_eq!(support::count(&sandbox.path("out")), 2, "{from}");
        std::fs::remove_file(sandbox.path("out/b[1].txt")).unwrap();
    }
    copies("s3://b/v/b[1].txt", "s3://b/w/").succeeds();
    assert_eq!(bucket.bytes("w/b[1].txt").as_deref(), Some(&b"letters"[..]));
    copies("s3://b/v/b?.txt", "matched").succeeds();
    assert_eq!(sandbox.read("matched/b1.txt"), b"matched");
    // Its name is taken letter by letter, too.
    let odd = "s3://b/v/a\\b[1]";
    copies(odd, "out").succeeds();
    assert_eq!(sandbox.read("out/a\\b[1]"), b"a backslash");
    copies(odd, "s3://b/w/").succeeds();
    assert_eq!(bucket.bytes("w/a\\b[1]").as_deref(), Some(&b"a backslash"[..]));
    copies(odd, "s3://b/v/").fails(2, &["one lies in the other"]);
    copies("s3://b/v/c[1].txt", "out")
        .fails(1, &["nothing of that name; a \\ before *, ? or [ takes it as it is"]);
}

/// Nobody who copies a tree writes a list: the error of two keys that are in each other's way has another
/// way out.
#[test]
fn a_key_that_another_one_grows_under_says_so() {
    let objects: [(&str, &[u8]); 2] = [("p/x", b"one"), ("p/x.part", b"two")];
    let bucket = ListedBucket::start(&objects, Manner::InOrder, 100);
    let sandbox = Sandbox::new();
    let run = bucket.weir(&sandbox, &["cp", "s3://b/p/", "out"]).run();
    run.fails(1, &["x.part is what ", "while it grows; --exclude leaves one of them out"]).hides("TAB");
}

/// A list may have a key twice.
#[test]
fn a_key_that_is_listed_twice_is_one_object() {
    let one = "<Contents><Key>p/x</Key><Size>3</Size><LastModified>2026-11-26T10:00:00.000Z</LastModified></Contents>";
    let list = format!(
        "<ListBucketResult><KeyCount>2</KeyCount><IsTruncated>false</IsTruncated>{one}{one}</ListBucketResult>"
    );
    let server = Server::start(move |request, wire| match (request.method.as_str(), request.path()) {
        ("GET", "/b/" | "/b") => wire.answer("200 OK", &[], list.as_bytes()),
        ("GET", "/b/p/x") => wire.answer("200 OK", &[("ETag", "\"one\"")], b"new"),
        _ => wire.head("404 Not Found", &[("Content-Length", "0")]),
    });
    let sandbox = Sandbox::new();
    let copies = |args: &[&str]| {
        counts(
            &weir_of(&sandbox, &server.url(""), &[&["cp", "--json", "s3://b/p/", "out"], args].concat())
                .run(),
        )
    };
    assert_eq!(copies(&["-n"]), (1, 0));
    assert_eq!(copies(&[]), (1, 0));
}

/// What a rule spares is asked for one by one where the target may not be listed.
#[test]
fn what_may_not_be_listed_is_not_taken_for_absent() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    write(&sandbox, "src/there", b"mine, and longer");
    write(&sandbox, "src/new", b"new");
    for key in ["p/there", "p/new", "q/there"] {
        bucket.hold(key, key.as_bytes().to_vec());
    }
    let denied = || Fault::Answer("403 Forbidden", "<Error><Code>AccessDenied</Code></Error>".to_owned());
    let is_list = |target: &str| target.contains("list-type") && target.contains("prefix=q");
    bucket.hook(move |request| is_list(&request.target).then(denied));
    let copies = |rule: &str, from: &str| {
        weir_of(&sandbox, &bucket.server.url(""), &["cp", rule, from, "s3://b/q/"]).run()
    };
    for (from, new) in [("src/", &b"new"[..]), ("s3://b/p/", b"p/new")] {
        copies("--ignore-existing", from).succeeds().says(&["each object is asked for by itself"]);
        assert_eq!((bucket.bytes("q/there"), bucket.bytes("q/new")), (b"q/there".to_vec(), new.to_vec()));
        bucket.holds().objects.remove("q/new");
    }
    // Nor may it be looked at: it stays, and that is an error.
    bucket.hook(move |request| (is_list(&request.target) || request.target.contains("q/there")).then(denied));
    let run = copies("--ignore-existing", "src/");
    run.fails(1, &["AccessDenied", "--ignore-existing and --existing need to know what is there"]);
    assert_eq!((bucket.bytes("q/there"), bucket.bytes("q/new")), (b"q/there".to_vec(), b"new".to_vec()));
    bucket.holds().objects.remove("q/new");
    bucket.hook(move |request| is_list(&request.target).then(denied));
    copies("--existing", "src/").succeeds();
    assert_eq!(bucket.bytes("q/there"), b"mine, and longer");
    assert!(!bucket.holds().objects.contains_key("q/new"));
}

#[test]
fn keys_that_no_file_can_have_are_told_and_the_others_come() {
    let long = format!("p/{}", "n".repeat(256));
    let objects: [(&str, &[u8]); 8] = [
        ("p/good", b"good"),
        ("p/a//b", b"x"),
        ("p/../../up", b"x"),
        ("p/./dot", b"x"),
        ("p/folder/", b""),
        ("p/full/", b"content"),
        (&long, b"x"),
        ("p/link/inside", b"x"),
    ];
    let bucket = ListedBucket::start(&objects, Manner::InOrder, 100);
    let sandbox = Sandbox::new();
    write(&sandbox, "elsewhere/kept", b"kept");
    std::fs::create_dir(sandbox.path("out")).unwrap();
    symlink(sandbox.path("elsewhere"), sandbox.path("out/link")).unwrap();
    symlink(sandbox.path("elsewhere/kept"), sandbox.path("out/good")).unwrap();
    let run = bucket.weir(&sandbox, &["cp", "--json", "s3://b/p/", "out"]).run();
    run.fails(
        1,
        &[
            "s3://b/p/a//b: cannot be a file: its key has an empty part",
            "s3://b/p/../../up: cannot be a file: its key has a part '.' or '..'",
            "s3://b/p/full/: cannot be a file: its key ends with a slash, and it has content",
            "longer than the 255 bytes",
            "s3://b/p/link/inside",
        ],
    );
    assert_eq!(sandbox.read("out/good"), b"good");
    assert!(!sandbox.path("out/good").is_symlink() && sandbox.path("out/folder").is_dir());
    assert_eq!(sandbox.read("elsewhere/kept"), b"kept");
    assert!(!sandbox.path("elsewhere/inside").exists() && !sandbox.path("up").exists());
}

#[test]
fn keys_that_no_file_can_have_are_left_out_as_others_are() {
    let long = format!("p/in/{}", "n".repeat(256));
    let objects: [(&str, &[u8]); 5] =
        [("p/good", b"good"), ("p/a//b", b"x"), ("p/c//d.tmp", b"x"), ("p/full/", b"content"), (&long, b"x")];
    let bucket = ListedBucket::start(&objects, Manner::InOrder, 100);
    let sandbox = Sandbox::new();
    let rules = ["a/", "*.tmp", "full/", "in/"].map(|rule| format!("--exclude={rule}"));
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    bucket.weir(&sandbox, &[&["cp", "s3://b/p/", "out"], &rules[..]].concat()).run().succeeds();
    assert_eq!((sandbox.read("out/good"), support::count(&sandbox.path("out"))), (b"good".to_vec(), 1));
}

/// A digest of what is large takes long, at whichever end the file is.
#[test]
fn a_comparison_of_contents_ends_with_a_signal() {
    const SIZE: u64 = 4 << 40;
    let (length, tag) = (SIZE.to_string(), format!("\"{}\"", "0f".repeat(16)));
    let list = format!(
        "<ListBucketResult><KeyCount>1</KeyCount><IsTruncated>false</IsTruncated><Contents><Key>p/large</Key>\
         <Size>{SIZE}</Size><LastModified>2026-11-26T10:00:00.000Z</LastModified><ETag>{tag}</ETag></Contents>\
         </ListBucketResult>"
    );
    let server = Server::start(move |request, wire| match (request.method.as_str(), request.path()) {
        ("HEAD", "/b/p/large") => wire.head("200 OK", &[("Content-Length", &length), ("ETag", &tag)]),
        ("GET", "/b/" | "/b") => wire.answer("200 OK", &[], list.as_bytes()),
        _ => wire.head("404 Not Found", &[("Content-Length", "0")]),
    });
    let sandbox = Sandbox::new();
    write(&sandbox, "big/large", b"");
    let large = sandbox.path("big/large").canonicalize().unwrap();
    // A hole, which takes no room and hours to read.
    if std::fs::File::options().write(true).open(&large).unwrap().set_len(SIZE).is_err() {
        return skip("no file system for so large a file, though it is all hole");
    }
    for (from, to) in [("big/", "s3://b/p/"), ("s3://b/p/", "big")] {
        let running = weir_of(&sandbox, &server.url(""), &["cp", "--checksum", from, to]).spawn();
        let opened = format!("/proc/{}/fd", running.id());
        wait_for("the file to be read", || {
            let mut opened = std::fs::read_dir(&opened).unwrap().flatten();
            opened.any(|one| std::fs::read_link(one.path()).is_ok_and(|path| path == large))
        });
        running.signal(Signal::INT);
        running.wait().exits(130);
    }
}

/// A look for the date alone does without the size, which the list has said.
#[test]
fn a_look_need_not_say_what_the_list_has_said() {
    let list = "<ListBucketResult><KeyCount>1</KeyCount><IsTruncated>false</IsTruncated><Contents><Key>p/x</Key>\
                <Size>3</Size><LastModified>2026-11-26T10:00:00.000Z</LastModified></Contents></ListBucketResult>";
    let fields = [("ETag", "\"one\""), ("Last-Modified", "Thu, 26 Nov 2026 10:00:00 GMT")];
    let server = Server::start(move |request, wire| match (request.method.as_str(), request.path()) {
        ("HEAD", "/b/p/x") => wire.head("200 OK", &fields),
        ("GET", "/b/" | "/b") => wire.answer("200 OK", &[], list.as_bytes()),
        ("GET", "/b/p/x") => wire.answer("200 OK", &fields, b"new"),
        _ => wire.head("404 Not Found", &[("Content-Length", "0")]),
    });
    let sandbox = Sandbox::new();
    write(&sandbox, "out/x", b"old");
    weir_of(&sandbox, &server.url(""), &["cp", "s3://b/p/", "out"]).run().succeeds();
    assert_eq!(sandbox.read("out/x"), b"new");
    assert!(server.requests().iter().any(|seen| seen.request.method == "HEAD"), "it was looked at");
}

/// What cannot be read to its end is not another content: it cannot be sent either.
#[test]
fn a_file_that_cannot_be_compared_is_an_error() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    write(&sandbox, "src/x", b"content");
    bucket.hold("p/x", b"Content".to_vec());
    let path = sandbox.path("src/x");
    bucket.hook(move |request| {
        if request.method == "HEAD" {
            std::fs::File::options().write(true).open(&path).unwrap().set_len(3).unwrap();
        }
        None
    });
    let run = weir_of(&sandbox, &bucket.server.url(""), &["cp", "--checksum", "src/", "s3://b/p/"]).run();
    run.fails(1, &["s3://b/p/x: cannot read ", "src/x: unexpected end of file"]);
    assert_eq!(bucket.bytes("p/x"), b"Content");
}

/// No byte of it passes here, so that nothing is known of its way; nor is anything named.
#[test]
fn what_the_store_copies_itself_is_not_judged() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    bucket.hold("p/x", pattern(MIB, 1));
    // Longer than what is too short to judge.
    bucket.hook(|_| Some(Fault::Late(std::time::Duration::from_millis(200))));
    let args = ["cp", "--json", "s3://b/p/", "s3://b/q/"];
    let record = weir_of(&sandbox, &bucket.server.url(""), &args).run().succeeds().json();
    assert_eq!(record["cp"]["server_side"], true, "{record:#}");
    let verdict = &record["verdict"];
    assert!(verdict["limit"].is_null() && verdict["advice"] == serde_json::json!([]), "{verdict:#}");
    let missing = verdict["missing"].to_string();
    assert!(missing.contains("the store copied the objects itself"), "{missing}");
    let args = ["cp", "s3://b/p/", "s3://b/r/"];
    let run = weir_of(&sandbox, &bucket.server.url(""), &args).run();
    run.succeeds().says(&["limit: not known (the store copied the objects itself"]);
}
