//! `weir get hf://`: from a hub that lists a repository page by page, redirects large files to links that are
//! signed anew each time, and is told nothing that is not for it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::ffi::OsStr;
use std::fs::Permissions;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustix::process::Signal;
use serde_json::{Value, json};
use support::{MIB, Object, Request, Sandbox, Server, Weir, Wire, pattern, skip, wait_for};
use weir_codec::Algorithm;
use weir_codec::hex;

/// What the branch `main` is at.
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// The user's token. Nobody but the hub may see it.
const TOKEN: &str = "hf_geheimnis";

/// What is in a repository.
#[derive(Clone)]
struct Kept {
    path: String,
    bytes: Vec<u8>,
    is_large: bool,
    /// What the list says that it is called.
    listed: String,
}

impl Kept {
    fn id(&self) -> String {
        match self.is_large {
            true => hex::encode(&Algorithm::SHA256.of(&self.bytes)),
            // git hash-object.
            false => {
                let head = format!("blob {}\0", self.bytes.len());
                hex::encode(&Algorithm::SHA1.of(&[head.as_bytes(), &self.bytes].concat()))
            }
        }
    }

    fn entry(&self) -> Value {
        let mut entry =
            json!({"type": "file", "oid": self.id(), "size": self.bytes.len(), "path": self.listed});
        if self.is_large {
            entry["oid"] = "a".repeat(40).into();
            entry["lfs"] = json!({"oid": self.id(), "size": self.bytes.len(), "pointerSize": 130});
        }
        entry
    }
}

fn small(path: &str, text: &str) -> Kept {
    Kept { path: path.to_owned(), bytes: text.into(), is_large: false, listed: path.to_owned() }
}

fn large(path: &str, length: usize) -> Kept {
    let bytes = pattern(length, length as u64);
    Kept { path: path.to_owned(), bytes, is_large: true, listed: path.to_owned() }
}

/// The hub, and where the bytes of large files are.
struct Hub {
    server: Server,
    store: Arc<Server>,
}

/// The files of a page of the list.
const PAGE: usize = 2;

impl Hub {
    /// With the repository `org/model` at [`COMMIT`].
    fn start(files: Vec<Kept>) -> Hub {
        let stored = files.clone();
        let store = Arc::new(Server::start(move |request, wire| {
            assert!(request.target.contains("Signature="), "{}", request.target);
            let id = request.path().rsplit('/').next().unwrap();
            let kept = stored.iter().find(|kept| kept.id() == id).unwrap();
            let object = Object { bytes: Arc::new(kept.bytes.clone()), ..Object::new(0) };
            object.serve(request, wire)
        }));
        Hub::with_store(files, store)
    }

    fn with_store(files: Vec<Kept>, store: Arc<Server>) -> Hub {
        let at = Arc::clone(&store);
        let server = Server::start(move |request, wire| answer(&files, &at, request, wire));
        Hub { server, store }
    }

    fn get(&self, sandbox: &Sandbox, args: &[&str]) -> Weir {
        sandbox.get(args).env("HF_ENDPOINT", self.server.url("")).env("HF_TOKEN", TOKEN)
    }

    /// Whoever asked the hub showed the token, and nobody did elsewhere.
    #[track_caller]
    fn kept_the_token(&self) {
        let shown = format!("Bearer {TOKEN}");
        for seen in self.server.requests() {
            assert_eq!(seen.request.field("authorization"), Some(shown.as_str()), "{}", seen.request.target);
        }
        for seen in self.store.requests() {
            let told = format!("{:?}{}", seen.request.fields, seen.request.target);
            assert!(!told.contains(TOKEN), "{told}");
        }
    }
}

/// What is asked of a data set or of a space, as of the model: they are answered in the same way.
fn of_a_model(path: &str) -> String {
    let path = path.replacen("/datasets/org/data/", "/models/org/model/", 1);
    let path = path.replacen("/spaces/org/app/", "/models/org/model/", 1);
    path.strip_prefix("/models").map_or(path.clone(), str::to_owned)
}

/// Answers as the hub does.
fn answer(files: &[Kept], store: &Server, request: &Request, wire: &mut Wire) -> io::Result<()> {
    let path = of_a_model(request.path());
    let said = |wire: &mut Wire, body: Value| {
        wire.answer("200 OK", &[("Content-Type", "application/json")], body.to_string().as_bytes())
    };
    let missing = |wire: &mut Wire, code: &str, message: &str| {
        let fields = [("X-Error-Code", code), ("X-Error-Message", message)];
        wire.answer("404 Not Found", &fields, b"")
    };
    if path == "/api/models/org/model/revision/main" {
        return said(wire, json!({"id": "org/model", "sha": COMMIT}));
    }
    if path.starts_with("/api/") && !path.starts_with("/api/models/org/model/") {
        return missing(wire, "RepoNotFound", "Repository not found");
    }
    if path.starts_with("/api/models/org/model/revision/") {
        return missing(wire, "RevisionNotFound", "Invalid rev id: v9");
    }
    if let Some(folder) = path.strip_prefix(&format!("/api/models/org/model/tree/{COMMIT}")) {
        let within = format!("{}/", folder.trim_matches('/'));
        let is_within = |kept: &&Kept| within == "/" || kept.path.starts_with(&within);
        let entries: Vec<Value> = files.iter().filter(is_within).map(Kept::entry).collect();
        if entries.is_empty() {
            return missing(wire, "EntryNotFound", "no such folder");
        }
        let page = request.target.rsplit_once("cursor=").map_or(0, |(_, page)| page.parse().unwrap());
        let pages: Vec<&[Value]> = entries.chunks(PAGE).collect();
        let next = format!("<{}?recursive=true&cursor={}>; rel=\"next\"", request.path(), page + 1);
        let more = (page + 1 < pages.len()).then_some(("Link", next.as_str()));
        let body = json!(pages[page]).to_string();
        return wire.answer("200 OK", &more.into_iter().collect::<Vec<_>>(), body.as_bytes());
    }
    let kept = path.strip_prefix("/org/model/resolve/").and_then(|rest| {
        let (revision, path) = rest.split_once('/')?;
        let kept = files.iter().find(|kept| kept.path == path)?;
        matches!(revision, "main" | COMMIT).then_some(kept)
    });
    let Some(kept) = kept else { return missing(wire, "EntryNotFound", "Entry not found") };
    let (id, size) = (kept.id(), kept.bytes.len().to_string());
    if kept.is_large {
        // Each link is signed anew.
        let link = store.url(&format!("blob/{id}?X-Amz-Date=1&X-Amz-Signature=geheim{}", request.number));
        let tag = format!("\"{id}\"");
        let fields = [
            ("Location", link.as_str()),
            ("X-Linked-Etag", &tag),
            ("X-Linked-Size", &size),
            ("X-Repo-Commit", COMMIT),
        ];
        return wire.answer("302 Found", &fields, b"");
    }
    let object = Object { bytes: Arc::new(kept.bytes.clone()), ..Object::new(0) };
    let object = object.etag(Some(&format!("\"{id}\""))).field("X-Repo-Commit", COMMIT);
    match request.method.as_str() {
        "HEAD" => {
            let answer = object.answer(request);
            wire.head(answer.status, &answer.fields)
        }
        _ => object.serve(request, wire),
    }
}

fn model() -> Vec<Kept> {
    vec![
        small("config.json", "{\"a\": 1}"),
        large("model-00001.safetensors", 300_000),
        small("onnx/config.json", "{}"),
        large("onnx/model.onnx", 5000),
        small("README.md", "read me"),
    ]
}

#[test]
fn a_repository_comes_by_its_commit() {
    let hub = Hub::start(model());
    let sandbox = Sandbox::new();
    let run = hub.get(&sandbox, &["hf://org/model", "-vv"]).run();
    run.succeeds().hides(TOKEN).hides("geheim").says(&[COMMIT]);
    for kept in model() {
        assert!(sandbox.read(&format!("model/{}", kept.path)) == kept.bytes, "{}", kept.path);
    }
    assert_eq!(sandbox.names().len(), 7, "{:?}", sandbox.names());
    hub.kept_the_token();
    let asked = |server: &Server| -> Vec<String> {
        server.requests().iter().map(|seen| seen.request.target.clone()).collect()
    };
    let files: Vec<String> =
        asked(&hub.server).into_iter().filter(|target| target.contains("/resolve/")).collect();
    assert!(files.len() >= 5 && files.iter().all(|target| target.contains(COMMIT)), "{files:?}");
    // The same command once more asks for no file: what is here is what the list says.
    let before = hub.server.requests().len();
    let run = hub.get(&sandbox, &["hf://org/model", "--json"]).run();
    let record = run.succeeds().hides(TOKEN).hides("geheim").json();
    let targets = &asked(&hub.server)[before..];
    assert!(targets.iter().all(|target| target.starts_with("/api/")), "{targets:?}");
    let files = record["files"].as_array().unwrap();
    assert!(files.len() == 5 && files.iter().all(|file| file["unchanged"] == true), "{files:?}");
    // One that is not, is fetched; the others stay.
    sandbox.write("model/onnx/model.onnx", vec![0; 5000]);
    hub.get(&sandbox, &["hf://org/model"]).run().succeeds();
    assert!(sandbox.read("model/onnx/model.onnx") == pattern(5000, 5000));
    assert_eq!(hub.store.requests().len(), 3);
}

#[test]
fn data_sets_and_spaces() {
    for (kind, repo, folder) in [("datasets", "org/data", "data"), ("spaces", "org/app", "app")] {
        let (hub, sandbox) = (Hub::start(model()), Sandbox::new());
        let url = format!("hf://{kind}/{repo}");
        hub.get(&sandbox, &[&url]).run().succeeds();
        for kept in model() {
            assert!(sandbox.read(&format!("{folder}/{}", kept.path)) == kept.bytes, "{}", kept.path);
        }
        let weir = hub.get(&sandbox, &[&url, "--hf-cache"]).env("HF_HUB_CACHE", sandbox.path("cache"));
        weir.run().succeeds();
        let cached = format!("cache/{kind}--{}/snapshots/{COMMIT}/config.json", repo.replace('/', "--"));
        assert_eq!(sandbox.read(&cached), b"{\"a\": 1}");
        let places = [format!("/api/{kind}/{repo}/"), format!("/{kind}/{repo}/resolve/")];
        for seen in hub.server.requests() {
            let target = &seen.request.target;
            assert!(places.iter().any(|place| target.starts_with(place)), "{target}");
        }
        hub.kept_the_token();
    }
}

#[test]
fn files_folders_and_patterns_of_it() {
    let hub = Hub::start(model());
    for (url, args, names) in [
        ("hf://org/model/config.json", &[][..], &["config.json"][..]),
        ("hf://org/model/onnx/model.onnx", &["-o", "x.onnx"], &["x.onnx"]),
        (
            "hf://org/model/onnx",
            &["-o", "to"],
            &["to/", "to/onnx/", "to/onnx/config.json", "to/onnx/model.onnx"],
        ),
        (
            "hf://org/model@main/onnx/",
            &[],
            &["model/", "model/onnx/", "model/onnx/config.json", "model/onnx/model.onnx"],
        ),
        ("hf://org/model/*.json", &["-o", "to/"], &["to/", "to/config.json"]),
        (
            "hf://org/model/**.json",
            &["-o", "to/"],
            &["to/", "to/config.json", "to/onnx/", "to/onnx/config.json"],
        ),
        ("hf://org/model/onnx/*.onnx", &["-o", "to/"], &["to/", "to/onnx/", "to/onnx/model.onnx"]),
    ] {
        let sandbox = Sandbox::new();
        hub.get(&sandbox, &[&[url], args].concat()).run().succeeds();
        assert_eq!(sandbox.names(), names, "{url} {args:?}");
    }
    let sandbox = Sandbox::new();
    let list = "# a model\nhf://org/model/config.json\tconf/one.json\nhf://org/model/onnx\tmine\n";
    hub.get(&sandbox, &["-i", "-", "-o", "in/"]).input(list).run().succeeds();
    for name in ["in/conf/one.json", "in/mine/onnx/config.json", "in/mine/onnx/model.onnx"] {
        assert!(sandbox.path(name).is_file(), "{name}: {:?}", sandbox.names());
    }
    hub.kept_the_token();
}

#[test]
fn a_list_names_hubs_beside_links() {
    let hub = Hub::start(model());
    let plain = Server::start(|_, wire| wire.answer("200 OK", &[], b"plain"));
    let sandbox = Sandbox::new();
    let (first, last) = (plain.url("a.txt"), plain.url("b.txt"));
    let wanted = "hf://org/model/onnx";
    sandbox.write("list", format!("{first}\n{wanted}\nhf://org/none\nhf://\n{wanted}\n{last}\n"));
    let args = ["-i", "list", "-o", "in/", "--json"];
    for is_second in [false, true] {
        let run = hub.get(&sandbox, &args).run();
        let record = run.fails(1, &["no repository org/none", "list, line 4", "is named twice"]).json();
        let files = record["files"].as_array().unwrap();
        assert_eq!(files.len(), 6, "{files:?}");
        let errors = files.iter().filter(|file| file["error"].is_string()).count();
        let unchanged = files.iter().filter(|file| file["unchanged"] == true).count();
        assert_eq!((errors, unchanged), (2, if is_second { 2 } else { 0 }), "{files:?}");
        // What is said of a repository stands beside its first file.
        let noted = files.iter().find(|file| file["notes"].to_string().contains(COMMIT)).unwrap();
        assert!(noted["url"].to_string().contains("/onnx/"), "{noted}");
        let counts = &record["counts"];
        assert_eq!((&counts["files"], &counts["bad_lines"]), (&json!(4), &json!(2)), "{counts}");
    }
    assert_eq!(sandbox.read("in/a.txt"), b"plain");
    assert_eq!(sandbox.read("in/b.txt"), b"plain");
    assert!(sandbox.read("in/model/onnx/model.onnx") == pattern(5000, 5000));
    assert!(sandbox.path("in/model/onnx/config.json").is_file());
}

#[test]
fn a_killed_run_goes_on_behind_another_link() {
    const SIZE: usize = 12 * MIB;
    const MOST: usize = SIZE * 3 / 4;
    let files = vec![large("weights.bin", SIZE)];
    let object = Object { bytes: Arc::new(files[0].bytes.clone()), ..Object::new(0) };
    let store = Server::start(move |request, wire| match request.number {
        // It does not come to its end before the kill.
        0 => {
            object.serve_up_to(request, wire, MOST)?;
            wire.wait_for_close()
        }
        _ => object.serve(request, wire),
    });
    let hub = Hub::with_store(files, Arc::new(store));
    let sandbox = Sandbox::new();
    let running = hub.get(&sandbox, &["hf://org/model", "-c", "1"]).spawn();
    hub.store.wait_sent(MOST as u64);
    wait_for("a journal", || sandbox.journalled("model/weights.bin") > SIZE as u64 / 3);
    running.signal(Signal::KILL);
    drop(running);
    let before = hub.store.sent();
    let run = hub.get(&sandbox, &["hf://org/model", "-c", "1", "--json"]).run();
    let record = run.succeeds().json();
    assert!(sandbox.read("model/weights.bin") == pattern(SIZE, SIZE as u64));
    let resumed = record["files"][0]["resumed_from"].as_u64().unwrap();
    let again = hub.store.sent() - before;
    assert!(resumed > SIZE as u64 / 3 && again <= SIZE as u64 - resumed, "from {resumed}, {again} again");
    let links: Vec<String> = hub.store.requests().iter().map(|seen| seen.request.target.clone()).collect();
    assert!(links.len() == 2 && links[0] != links[1], "{links:?}");
    assert_eq!(sandbox.names(), ["model/", "model/weights.bin"]);
}

#[test]
fn what_the_hub_refuses_is_told_with_the_way_in() {
    let refusing = |status: &'static str, code: &'static str, words: &'static str| {
        Server::start(move |request, wire| {
            let fields = [("X-Error-Code", code), ("X-Error-Message", words)];
            let fields = if code.is_empty() { &fields[1..] } else { &fields[..] };
            let body = if request.method == "HEAD" { "" } else { words };
            wire.answer(status, fields, body.as_bytes())
        })
    };
    let gated = "Access to model org/model is restricted and you are not in the authorized list";
    for (status, code, words, token, says) in [
        (
            "403 Forbidden",
            "GatedRepo",
            gated,
            Some(TOKEN),
            &["403", gated, "accept them at", "/org/model", "HF_TOKEN"][..],
        ),
        (
            "401 Unauthorized",
            "GatedRepo",
            gated,
            None,
            &["401", gated, "accept its terms at", "/org/model", "set HF_TOKEN"],
        ),
        ("403 Forbidden", "", gated, Some(TOKEN), &["403", gated, "accept them at"]),
        (
            "404 Not Found",
            "RepoNotFound",
            "Repository not found",
            Some(TOKEN),
            &["404", "no repository org/model", "may not read it"],
        ),
        ("401 Unauthorized", "RepoNotFound", "Repository not found", None, &["private", "set HF_TOKEN"]),
        (
            "401 Unauthorized",
            "",
            "Invalid credentials in Authorization header",
            Some(TOKEN),
            &["does not take the token of HF_TOKEN", "settings/tokens"],
        ),
        ("403 Forbidden", "", "no", Some(TOKEN), &["the token of HF_TOKEN may not read org/model"]),
    ] {
        let server = refusing(status, code, words);
        for url in ["hf://org/model", "hf://org/model/config.json"] {
            let sandbox = Sandbox::new();
            let mut weir = sandbox.get([url, "-vv"]).env("HF_ENDPOINT", server.url(""));
            if let Some(token) = token {
                weir = weir.env("HF_TOKEN", token);
            }
            weir.run().fails(1, says).hides(TOKEN);
            assert!(sandbox.names().is_empty(), "{:?}", sandbox.names());
        }
    }
    // A login in the hub's address is in none of these words.
    let server = refusing("401 Unauthorized", "", "no");
    let endpoint = server.url("").replacen("://", "://me:geheim@", 1);
    let sandbox = Sandbox::new();
    let weir = sandbox.get(["hf://org/model", "-vv"]).env("HF_ENDPOINT", endpoint);
    weir.env("HF_TOKEN", TOKEN).run().fails(1, &["settings/tokens"]).hides("geheim");
    let hub = Hub::start(model());
    let sandbox = Sandbox::new();
    for (url, says) in [
        ("hf://org/model@v9", "there is no branch, tag or commit 'v9' in org/model"),
        ("hf://org/model/none", "there is no 'none' in org/model"),
        ("hf://org/model/*.gguf", "no file of org/model at main matches '*.gguf'"),
    ] {
        hub.get(&sandbox, &[url]).run().fails(1, &[says]);
    }
    hub.get(&sandbox, &["hf://org"]).run().fails(1, &["no repository org"]);
    for bad in ["hf://", "hf://org/..", "hf:org/model"] {
        hub.get(&sandbox, &[bad]).run().fails(2, &["hf://ORG/REPO"]);
    }
    for endpoint in ["nonsense", "ftp://me:geheim@host"] {
        let run = sandbox.get(["hf://org/model"]).env("HF_ENDPOINT", endpoint).run();
        run.fails(2, &["HF_ENDPOINT"]).hides("geheim");
    }
    assert!(sandbox.names().is_empty());
}

#[test]
fn other_bytes_than_listed_are_refused() {
    let files = vec![large("weights.bin", 10_000)];
    let store = Arc::new(Server::start(|_, wire| wire.answer("200 OK", &[], &pattern(10_000, 7))));
    let hub = Hub::with_store(files, store);
    let sandbox = Sandbox::new();
    let run = hub.get(&sandbox, &["hf://org/model"]).run();
    run.fails(3, &["sha256", "does not match", "--ignore-digest"]);
    assert_eq!(sandbox.names(), ["model/"]);
    hub.get(&sandbox, &["hf://org/model", "--ignore-digest"]).run().succeeds();
    assert!(sandbox.read("model/weights.bin") == pattern(10_000, 7));
}

/// Small files too: by git's id, or at least by size. None gets into the cache.
#[test]
fn other_small_files_than_listed_are_refused() {
    let mismatch = ["sha1", "does not match", "--ignore-digest"];
    let has_other = ["has another file than its list says: it has 13 bytes, not 8", "--ignore-digest"];
    for (page, has_id, code, says) in [
        (&b"{\"b\": 2}"[..], true, 3, &mismatch[..]),
        // Of another size nothing is fetched that could be held against the id.
        (b"<html></html>", true, 1, &has_other),
        (b"<html></html>", false, 1, &has_other),
    ] {
        let store = Arc::new(Server::start(|_, wire| wire.answer("404 Not Found", &[], b"")));
        let files = [small("config.json", "{\"a\": 1}")];
        let server = Server::start(move |request, wire| match request.path() {
            path if path.contains("/resolve/") => wire.answer("200 OK", &[], page),
            path if path.contains("/tree/") && !has_id => {
                let entry = json!([{"type": "file", "path": "config.json", "size": 8}]);
                wire.answer("200 OK", &[], entry.to_string().as_bytes())
            }
            _ => answer(&files, &store, request, wire),
        });
        let sandbox = Sandbox::new();
        let get = |args: &[&str]| {
            let weir = sandbox.get(args).env("HF_ENDPOINT", server.url("")).env("HF_TOKEN", TOKEN);
            weir.env("HF_HUB_CACHE", sandbox.path("cache")).run()
        };
        get(&["hf://org/model"]).fails(code, says);
        assert!(!sandbox.path("model/config.json").exists());
        if has_id {
            get(&["hf://org/model", "--hf-cache"]).fails(code, says);
            assert!(!sandbox.path("cache/models--org--model/snapshots").exists());
        }
        get(&["hf://org/model", "--ignore-digest"]).succeeds();
        assert_eq!(sandbox.read("model/config.json"), page);
    }
}

/// The list has the size of the file; a coded body has another size.
#[test]
fn a_coded_length_is_not_held_against_the_list() {
    let store = Arc::new(Server::start(|_, wire| wire.answer("404 Not Found", &[], b"")));
    let files = [small("config.json", "{\"a\": 1}")];
    let server = Server::start(move |request, wire| match request.path() {
        path if path.contains("/resolve/") => {
            wire.answer("200 OK", &[("Content-Encoding", "gzip")], b"thirteen byte")
        }
        path if path.contains("/tree/") => {
            let entry = json!([{"type": "file", "path": "config.json", "size": 8}]);
            wire.answer("200 OK", &[], entry.to_string().as_bytes())
        }
        _ => answer(&files, &store, request, wire),
    });
    let sandbox = Sandbox::new();
    let weir = sandbox.get(["hf://org/model"]).env("HF_ENDPOINT", server.url("")).env("HF_TOKEN", TOKEN);
    weir.run().succeeds().says(&["saved as it came, coded with gzip"]);
    assert_eq!(sandbox.read("model/config.json"), b"thirteen byte");
}

#[test]
fn names_that_leave_the_folder_end_the_run() {
    for name in ["../x", "/tmp/x", "a/../../x", "a//b", "a/", "", "a\u{1b}[2J", "./x"] {
        let mut files = model();
        files[4].listed = name.to_owned();
        let hub = Hub::start(files);
        let sandbox = Sandbox::new();
        hub.get(&sandbox, &["hf://org/model"]).run().fails(1, &["nothing was fetched"]);
        assert!(sandbox.names().is_empty(), "{name:?}: {:?}", sandbox.names());
    }
}

#[test]
fn a_page_that_is_elsewhere_hears_no_secret() {
    let foreign = Server::start(|_, wire| wire.answer("200 OK", &[], b"[]"));
    let next = format!("<{}>; rel=\"next\"", foreign.url("page?cursor=2"));
    let list = json!([small("config.json", "{}").entry()]).to_string();
    let server = Server::start(move |request, wire| match request.path() {
        path if path.contains("/revision/") => {
            wire.answer("200 OK", &[], json!({"sha": COMMIT}).to_string().as_bytes())
        }
        path if path.contains("/tree/") => wire.answer("200 OK", &[("Link", &next)], list.as_bytes()),
        _ => wire.answer("200 OK", &[], b"{}"),
    });
    let sandbox = Sandbox::new();
    let args = ["hf://org/model", "-H", "X-Own: geheim", "-vv"];
    let run = sandbox.get(args).env("HF_ENDPOINT", server.url("")).env("HF_TOKEN", TOKEN).run();
    run.succeeds().hides(TOKEN).hides("geheim");
    assert_eq!(sandbox.read("model/config.json"), b"{}");
    for seen in server.requests() {
        assert_eq!(seen.request.field("x-own"), Some("geheim"), "{}", seen.request.target);
    }
    let seen = foreign.requests();
    assert_eq!(seen.len(), 1);
    assert!(seen[0].request.field("x-own").is_none() && seen[0].request.field("authorization").is_none());
}

#[test]
fn pages_without_end_are_left() {
    let server = Server::start(|request, wire| {
        if request.path().contains("/revision/") {
            return wire.answer("200 OK", &[], json!({"sha": COMMIT}).to_string().as_bytes());
        }
        let fields = [("Link", "</api/models/org/model/tree/x?cursor=1>; rel=\"next\"")];
        wire.answer("200 OK", &fields, b"[]")
    });
    let sandbox = Sandbox::new();
    let run = sandbox.get(["hf://org/model"]).env("HF_ENDPOINT", server.url("")).run();
    run.fails(1, &["pages without end"]);
    assert!(server.requests().len() < 5);
    for body in ["{}", "[{\"type\": \"file\"}]", "nonsense"] {
        let server = Server::start(move |_, wire| wire.answer("200 OK", &[], body.as_bytes()));
        let run = sandbox.get(["hf://org/model"]).env("HF_ENDPOINT", server.url("")).run();
        run.fails(1, &["is not what was asked for"]);
    }
}

#[test]
fn the_python_library_finds_what_is_in_its_cache() {
    let mut files = model();
    // Two paths with one content are one blob.
    files.push(small("onnx/again.json", "{\"a\": 1}"));
    let hub = Hub::start(files.clone());
    let sandbox = Sandbox::new();
    let cache = sandbox.path("cache");
    let weir = |args: &[&str]| hub.get(&sandbox, args).env("HF_HUB_CACHE", &cache);
    let run = weir(&["hf://org/model", "--hf-cache"]).run();
    run.succeeds().says(&["the snapshot is", COMMIT]);
    let repo = "cache/models--org--model";
    assert_eq!(sandbox.read(&format!("{repo}/refs/main")), COMMIT.as_bytes());
    for kept in &files {
        let path = sandbox.path(format!("{repo}/snapshots/{COMMIT}/{}", kept.path));
        assert!(std::fs::read(&path).unwrap() == kept.bytes, "{}", kept.path);
        assert!(
            path.is_symlink() && path.canonicalize().unwrap().ends_with(Path::new("blobs").join(kept.id()))
        );
    }
    let store = hub.store.requests().len();
    weir(&["hf://org/model", "--hf-cache"]).run().succeeds();
    assert_eq!(hub.store.requests().len(), store);
    // What is kept, and is not what the hub has, is in no snapshot.
    let other = sandbox.path("other");
    let blob = sandbox.path("other/models--org--model/blobs").join(files[0].id());
    std::fs::create_dir_all(blob.parent().unwrap()).unwrap();
    std::fs::write(&blob, "broken").unwrap();
    let run = weir(&["hf://org/model", "--hf-cache", "--no-clobber"]).env("HF_HUB_CACHE", &other).run();
    run.fails(3, &["sha1", "does not match", "drop --no-clobber to overwrite it"]);
    let args = ["hf://org/model", "--hf-cache", "--no-clobber", "--ignore-digest"];
    weir(&args).env("HF_HUB_CACHE", &other).run().succeeds().says(&["the cache gets no snapshot"]);
    assert_eq!(std::fs::read(&blob).unwrap(), b"broken");
    assert!(!sandbox.path("other/models--org--model/snapshots").exists());
    weir(&["hf://org/model", "--hf-cache"]).env("HF_HUB_CACHE", &other).run().succeeds();
    weir(&["hf://org/model", "--hf-cache", "--no-clobber"]).env("HF_HUB_CACHE", &other).run().succeeds();
    assert!(sandbox.path(format!("other/models--org--model/snapshots/{COMMIT}/config.json")).exists());
    weir(&["hf://org/model", "--hf-cache", "-o", "x/"]).run().exits(2);
    let elsewhere = OsStr::from_bytes(b"/tmp/caf\xe9");
    let run = hub.get(&sandbox, &["hf://org/model", "--hf-cache"]).env("XDG_CACHE_HOME", elsewhere).run();
    run.fails(1, &["give -o a folder in place of --hf-cache"]);
    weir(&["http://127.0.0.1:9/x", "--hf-cache"]).run().fails(2, &["--hf-cache takes hf:// alone"]);
    let library =
        std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/weir-test/huggingface_hub"));
    let Some(library) = library.filter(|library| library.exists()) else {
        return skip("no huggingface_hub: scripts/need test");
    };
    let before = hub.server.requests().len();
    let script = "import sys\nfrom huggingface_hub import snapshot_download, hf_hub_download\n\
                  print(snapshot_download('org/model', local_files_only=True))\n\
                  print(hf_hub_download('org/model', 'onnx/model.onnx', local_files_only=True))\n";
    let output = Command::new("python3")
        .args(["-c", script])
        .env("PYTHONPATH", library)
        .env("HF_ENDPOINT", hub.server.url(""))
        .env("HF_HUB_CACHE", &cache)
        .env("HF_HOME", sandbox.path("home"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let snapshot = sandbox.path(format!("{repo}/snapshots/{COMMIT}"));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines, [snapshot.to_str().unwrap(), snapshot.join("onnx/model.onnx").to_str().unwrap()]);
    // Whatever else it asks for, it is no file and no list of files.
    let asked = hub.server.requests_from(before);
    assert!(asked.iter().all(|request| !request.target.contains("org/model")), "{asked:?}");
}

/// Whoever asks for a model, an image or an object is told when to come back, as for a file.
#[test]
fn a_hub_that_asks_for_too_long_a_wait_is_left_until_then() {
    let busy = |wait: &'static str| {
        Server::start(move |_, wire| wire.answer("429 Too Many Requests", &[("Retry-After", wait)], b""))
    };
    let server = busy("7200");
    let sandbox = Sandbox::new();
    let oid = "a".repeat(64);
    let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize 1\n");
    sandbox.write("x.bin", pointer);
    let (image, repo) = (format!("oci://{}/a:v1", server.address()), server.url("r.git"));
    for args in [&["hf://org/model"][..], &[image.as_str()], &["--lfs", repo.as_str(), "x.bin"]] {
        let before = server.requests().len();
        let weir = sandbox.get(args).env("HF_ENDPOINT", server.url("")).env("TZ", "UTC");
        let says = [
            ": cannot ",
            "asks for a wait of 2 h 00 min",
            "--max-wait allows 10 min 00 s",
            "again after 20",
            " UTC",
        ];
        weir.run().fails(4, &says);
        assert_eq!(server.requests().len(), before + 1, "{args:?}");
    }
    // What the user allows is for all waits in a row.
    let server = busy("1");
    let image = format!("oci://{}/a:v1", server.address());
    let run = sandbox.get([&*image, "--max-wait", "1"]).run();
    run.fails(4, &["asks for a wait of 1.0 s, --max-wait allows 1.0 s, of which 1.0 s are used up"]);
    assert_eq!(server.requests().len(), 2);
    // One within the limit is said, and hears a signal.
    let server = busy("300");
    let mut get = sandbox.get([format!("oci://{}/a:v1", server.address()), "-q".to_owned()]);
    get.command.stderr(std::fs::File::create(sandbox.path("said")).unwrap());
    let running = get.spawn();
    let said = || String::from_utf8_lossy(&sandbox.read("said")).into_owned();
    wait_for("a word", || said().contains("asks for a wait of 5 min 00 s"));
    running.signal(Signal::INT);
    running.wait().exits(130);
}

/// For whom permissions hold.
const NOBODY: u32 = 65534;

/// Gives `folder` and all folders in it this mode.
fn set_modes(folder: &Path, mode: u32) {
    std::fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            set_modes(&entry.path(), mode);
        }
    }
    std::fs::set_permissions(folder, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_complete_cache_that_may_only_be_read_is_left_as_it_is() {
    let hub = Hub::start(model());
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("tmp")).unwrap();
    let (cache, temp) = (sandbox.path("cache"), sandbox.path("tmp"));
    let weir = || {
        let weir = hub.get(&sandbox, &["hf://org/model", "--hf-cache"]);
        weir.env("HF_HUB_CACHE", &cache).env("TMPDIR", &temp)
    };
    weir().run().succeeds();
    let mut second = weir();
    if rustix::process::geteuid().is_root() {
        for name in [".", "tmp"] {
            chown(sandbox.path(name), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let mut version = sandbox.weir(support::WEIR, ["--version"]).command;
        if !version.uid(NOBODY).gid(NOBODY).status().is_ok_and(|status| status.success()) {
            return skip("root cannot run the binary as another user here");
        }
        second.command.uid(NOBODY).gid(NOBODY);
    }
    set_modes(&cache, 0o555);
    let run = second.run();
    set_modes(&cache, 0o755);
    run.succeeds().says(&["the snapshot is", COMMIT]);
    assert_eq!(std::fs::read_dir(&temp).unwrap().count(), 0);
}
