//! `weir get --lfs`: pointers of git-lfs, and the server that says where their objects are.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::sync::Arc;

use serde_json::{Value, json};
use support::{Object, Sandbox, Server, base64, pattern};
use weir_codec::Algorithm;
use weir_codec::hex;

/// The field of an action, which is for its address alone.
const ACTION: &str = "RemoteAuth geheim-der-aktion";

fn oid(bytes: &[u8]) -> String {
    hex::encode(&Algorithm::SHA256.of(bytes))
}

fn pointer(bytes: &[u8]) -> String {
    format!("version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n", oid(bytes), bytes.len())
}

/// Where the objects are: each link works for a while, which is over for the first one. Whoever asks shows
/// the action's field.
fn store(objects: Vec<Vec<u8>>, expired: &'static str) -> Arc<Server> {
    Arc::new(Server::start(move |request, wire| {
        assert_eq!(request.field("authorization"), Some(ACTION), "{}", request.target);
        if !expired.is_empty() && request.target.contains(expired) {
            return wire.answer("403 Forbidden", &[], b"expired");
        }
        let id = request.path().rsplit('/').next().unwrap();
        let bytes = objects.iter().find(|bytes| oid(bytes) == id).unwrap();
        Object { bytes: Arc::new(bytes.clone()), ..Object::new(0) }.serve(request, wire)
    }))
}

/// The batch API at `/org/repo.git`, for the user `me`.
fn server(store: &Arc<Server>, known: Vec<String>) -> Server {
    let store = Arc::clone(store);
    Server::start(move |request, wire| {
        let body: Value = serde_json::from_slice(&wire.read_body(request)?).unwrap();
        if request.path() != "/org/repo.git/info/lfs/objects/batch" {
            return wire.answer("404 Not Found", &[], b"{\"message\": \"Not found\"}");
        }
        assert_eq!((request.method.as_str(), &body["operation"]), ("POST", &json!("download")));
        let shown = format!("Basic {}", base64(b"me:geheimes-wort"));
        if request.field("authorization") != Some(shown.as_str()) {
            return wire.answer("401 Unauthorized", &[], b"{\"message\": \"Credentials needed\"}");
        }
        let objects = body["objects"].as_array().unwrap().iter().map(|object| {
            let id = object["oid"].as_str().unwrap();
            if !known.iter().any(|known| known == id) {
                return json!({"oid": id, "size": 1, "error": {"code": 404, "message": "Object does not exist"}});
            }
            let href = store.url(&format!("{id}?X-Amz-Signature=geheim{}", request.number));
            let action = json!({"href": href, "header": {"Authorization": ACTION}, "expires_in": 60});
            json!({"oid": id, "size": object["size"], "actions": {"download": action}})
        });
        let body = json!({"transfer": "basic", "objects": objects.collect::<Vec<Value>>()});
        wire.answer(
            "200 OK",
            &[("Content-Type", "application/vnd.git-lfs+json")],
            body.to_string().as_bytes(),
        )
    })
}

#[test]
fn an_object_takes_its_pointer_s_place() {
    let objects = vec![pattern(300_000, 1), pattern(1000, 2)];
    let store = store(objects.clone(), "");
    let server = server(&store, objects.iter().map(|bytes| oid(bytes)).collect());
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("sub")).unwrap();
    let write = || {
        sandbox.write("a.bin", pointer(&objects[0]));
        sandbox.write("sub/b.bin", pointer(&objects[1]));
    };
    write();
    let repo = server.url("org/repo");
    let args = ["--lfs", &repo, "a.bin", "sub/b.bin"];
    let run = sandbox.get(args).run();
    run.fails(1, &["401", "Credentials needed", "-u USER:TOKEN"]);
    assert_eq!(sandbox.read("a.bin"), pointer(&objects[0]).as_bytes());
    let user = ["-u", "me:geheimes-wort", "-vv"];
    sandbox.get(args).args(&user).run().succeeds().hides("geheim");
    assert!(sandbox.read("a.bin") == objects[0] && sandbox.read("sub/b.bin") == objects[1]);
    // Nothing is a pointer any more: the same command leaves all as it is, but has nothing for elsewhere.
    let asked = store.requests().len();
    let run = sandbox.get(args).args(&user).run();
    run.succeeds().says(&["left alone", "a.bin: it is no git-lfs pointer", "b.bin: it is no"]);
    let run = sandbox.get(args).args(&user).args(&["-o", "out/"]).run();
    run.fails(2, &["it is no git-lfs pointer; it may be the object already"]);
    // Nor is a digest taken as read.
    let digest = format!("sha256:{}", "0".repeat(64));
    let run = sandbox.get(["--lfs", &repo, "a.bin", "--checksum", &digest]).args(&user).run();
    run.fails(2, &["it is no git-lfs pointer"]);
    assert_eq!(store.requests().len(), asked);
    // After an interruption one is a pointer, and the other is not.
    sandbox.write("sub/b.bin", pointer(&objects[1]));
    let record = sandbox.get(args).args(&user).args(&["--json"]).run().succeeds().json();
    assert!(sandbox.read("a.bin") == objects[0] && sandbox.read("sub/b.bin") == objects[1]);
    let files = record["files"].as_array().unwrap();
    let skipped: Vec<bool> = files.iter().map(|file| file["skipped"] == true).collect();
    assert_eq!((skipped, store.requests().len()), (vec![true, false], asked + 1), "{files:?}");
    write();
    sandbox.get(args).args(&user).args(&["-o", "out/"]).run().succeeds();
    assert!(sandbox.read("out/a.bin") == objects[0] && sandbox.read("out/b.bin") == objects[1]);
    assert_eq!(sandbox.read("a.bin"), pointer(&objects[0]).as_bytes());
}

#[test]
fn a_list_of_pointers_whose_names_hold_blanks() {
    let object = pattern(5000, 1);
    let store = store(vec![object.clone()], "");
    let server = server(&store, vec![oid(&object)]);
    let sandbox = Sandbox::new();
    let repo = server.url("org/repo");
    for name in ["c d.bin", "e #1.bin"] {
        sandbox.write(name, pointer(&object));
    }
    sandbox.write("list", "# two\nc d.bin\ne #1.bin\t# the other\n");
    sandbox.get(["--lfs", &repo, "-i", "list", "-u", "me:geheimes-wort"]).run().succeeds();
    assert!(sandbox.read("c d.bin") == object && sandbox.read("e #1.bin") == object);
}

#[test]
fn an_action_that_has_expired_is_asked_for_anew() {
    let object = pattern(5000, 1);
    // The first request of the server is for the first link.
    let store = store(vec![object.clone()], "geheim0");
    let server = server(&store, vec![oid(&object)]);
    let sandbox = Sandbox::new();
    sandbox.write("a.bin", pointer(&object));
    let repo = server.url("org/repo.git");
    sandbox.get(["--lfs", &repo, "a.bin", "-u", "me:geheimes-wort"]).run().succeeds();
    assert!(sandbox.read("a.bin") == object);
    assert_eq!(server.requests().len(), 2);
}

/// An action without credentials, on the API's own server, gets the login, unless the server says that it
/// needs none. If it is refused, another one is asked for only once.
#[test]
fn an_action_without_fields_is_asked_for_by_the_login() {
    let object = pattern(5000, 1);
    for is_authenticated in [false, true] {
        let kept = object.clone();
        let server = Server::start(move |request, wire| {
            if request.path().ends_with("/objects/batch") {
                wire.read_body(request)?;
                let href = format!("http://{}/data/{}", request.field("host").unwrap(), oid(&kept));
                let answered = json!({"oid": oid(&kept), "size": kept.len(), "authenticated": is_authenticated,
                    "actions": {"download": {"href": href}}});
                let body = json!({"objects": [answered]}).to_string();
                return wire.answer("200 OK", &[], body.as_bytes());
            }
            let login = format!("Basic {}", base64(b"me:geheimes-wort"));
            if request.field("authorization") != Some(login.as_str()) {
                return wire.answer("401 Unauthorized", &[], b"no");
            }
            Object { bytes: Arc::new(kept.clone()), ..Object::new(0) }.serve(request, wire)
        });
        let sandbox = Sandbox::new();
        sandbox.write("a.bin", pointer(&object));
        let repo = server.url("org/repo.git");
        let run = sandbox.get(["--lfs", &repo, "a.bin", "-u", "me:geheimes-wort"]).run();
        assert_eq!(run.hides("geheim").status.success(), !is_authenticated, "{run:?}");
        assert_eq!(sandbox.read("a.bin") == object, !is_authenticated);
        let asked = server.requests();
        let batches = asked.iter().filter(|seen| seen.request.path().ends_with("/objects/batch")).count();
        assert!(batches <= 2, "{batches}");
    }
}

#[test]
fn what_a_server_lacks_or_forges_is_told() {
    let (object, other) = (pattern(5000, 1), pattern(5000, 2));
    let store = Arc::new(Server::start(move |request, wire| {
        Object::new(5000).etag(None).changed().serve(request, wire)
    }));
    let server = server(&store, vec![oid(&object)]);
    let sandbox = Sandbox::new();
    let repo = server.url("org/repo");
    for (name, bytes, code, says) in
        [("missing", &other[1..], 1, "has 404 for"), ("forged", &object[..], 3, "does not match")]
    {
        sandbox.write(name, pointer(bytes));
        sandbox.get(["--lfs", &repo, name, "-u", "me:geheimes-wort"]).run().fails(code, &[says]);
        assert_eq!(sandbox.read(name), pointer(bytes).as_bytes());
    }
    let elsewhere = server.url("org/none");
    sandbox.get(["--lfs", &elsewhere, "forged", "-u", "me:x"]).run().fails(1, &["git-lfs is not used there"]);
    sandbox.get(["--lfs", "nonsense", "forged"]).run().fails(2, &["cannot use --lfs 'nonsense'"]);
    sandbox.get(["--lfs", &repo, "none"]).run().fails(2, &["cannot fetch the object of none"]);
}

#[test]
fn a_pointer_that_came_in_place_of_a_file_is_called_one() {
    let text = pointer(&pattern(5000, 1));
    let server = Server::start(move |_, wire| wire.answer("200 OK", &[], text.as_bytes()));
    let sandbox = Sandbox::new();
    let run = sandbox.get([server.url("raw/a.bin")]).run();
    run.succeeds()
        .says(&["it is a git-lfs pointer to a file of 5.00 KB", "weir get --lfs REPOSITORY-URL a.bin"]);
    assert!(sandbox.read("a.bin").starts_with(b"version https://git-lfs"));
}
