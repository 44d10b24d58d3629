//! From another store and from web servers into a store: each object comes through the worker, once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::bed::{plan_at, status_at};
use crate::support::bucket::{Bucket, Fault};
use crate::support::google::Google;
use crate::support::{MIB, Object, Request, Sandbox, Server, WEIR, Weir, pattern, wait_for};
use weir_codec::{Algorithm, hex};
use weir_fleet::ledger::PlanEnds;
use weir_fleet::object::FleetObject;

/// weir with both stores.
fn weir(sandbox: &Sandbox, google: &str, amazon: &str, args: &[&str]) -> Weir {
    (sandbox.weir(WEIR, args))
        .env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", "a-secret-of-tests")
        .env("AWS_ENDPOINT_URL", amazon.trim_end_matches('/'))
        .env("AWS_REGION", "us-east-1")
        .env("STORAGE_EMULATOR_HOST", google)
}

const SIZES: [(&str, usize); 5] =
    [("p/none", 0), ("p/one", 1), ("p/a b", 1000), ("p/two", 8 * MIB + 1), ("p/in/large", 18 * MIB)];

fn puts(bucket: &Bucket) -> usize {
    bucket.server.requests().iter().filter(|seen| seen.request.method == "PUT").count()
}

#[test]
fn one_store_fills_another_by_two_workers_and_nothing_is_done_twice() {
    let google = Google::with(&SIZES).start();
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    let run = |args: &[&str]| weir(&sandbox, &google.url(""), &bucket.server.url(""), args);
    let ends = ["gs://src/p/", "s3://dst/q/"];
    run(&["fleet", "plan", ends[0], ends[1], "--ledger", "a.db"]).run().succeeds();
    let workers: Vec<_> = (0..2).map(|_| run(&["fleet", "work", "--ledger", "a.db"]).spawn()).collect();
    for worker in workers {
        worker.wait().succeeds().hides("a-secret-of-tests");
    }
    for (key, length) in SIZES {
        let there = key.replace("p/", "q/").replace(' ', "%20");
        assert!(bucket.bytes(&there) == pattern(length, length as u64), "{key}");
        let fields = bucket.holds().objects[&there].fields.clone();
        let owner = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-amz-meta-owner"));
        assert_eq!(owner.map(|(_, value)| value.as_str()), Some("me"), "{key}");
    }
    assert!(bucket.holds().uploads.is_empty());
    let status = status_at(&sandbox.path("a.db"));
    assert!(status.complete && status.moved.objects + status.same.objects == 5, "{status:?}");
    // Another plan, to which nobody said that they are there: not one is stored again.
    let sent = puts(&bucket);
    run(&["fleet", "plan", ends[0], ends[1], "--ledger", "b.db"]).run().succeeds();
    run(&["fleet", "work", "--ledger", "b.db"]).run().succeeds().says(&["5 already there"]);
    assert_eq!(puts(&bucket), sent);
    // What is there and is another is kept.
    bucket.hold("q/one", b"2".to_vec());
    run(&["fleet", "plan", ends[0], ends[1], "--ledger", "c.db"]).run().succeeds();
    let worked = run(&["fleet", "work", "--ledger", "c.db"]).run();
    worked.fails(1, &["s3://dst/q/one exists and is not what the source has; it is kept", "4 already there"]);
    assert_eq!(bucket.bytes("q/one"), b"2");
    assert_eq!(&*status_at(&sandbox.path("c.db")).failures[0].class, "name");
}

/// An upload of parts, whose tag is none of its content, at a store that keeps no digest: the version that
/// was written down beside it says what it is, and the source is not read.
#[test]
fn what_no_digest_tells_is_known_by_the_version_that_was_written_down() {
    let google = Google::with(&[("p/large", 18 * MIB)]).start();
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    let run = |args: &[&str]| weir(&sandbox, &google.url(""), &bucket.server.url(""), args);
    let plan = |ledger: &str| {
        run(&["fleet", "plan", "gs://src/p/", "s3://dst/q/", "--ledger", ledger]).run().succeeds();
        run(&["fleet", "work", "--ledger", ledger]).run()
    };
    plan("a.db").succeeds().says(&["moved 1 object"]);
    bucket.holds().keeps_no_sums = true;
    let fetched = google.sent();
    plan("b.db").succeeds().says(&["1 already there"]);
    assert!(google.sent() - fetched < MIB as u64, "it was not fetched again");
    // Without it nothing proves that it is the same, and it stays.
    bucket.holds().objects.get_mut("q/large").unwrap().fields.clear();
    plan("c.db").fails(1, &["s3://dst/q/large exists and is not what the source has; it is kept"]);
}

/// What a plan names, and what the server of it has.
struct Web {
    server: Server,
    objects: Arc<Vec<(String, Object)>>,
}

impl Web {
    fn start(objects: Vec<(&str, Object)>) -> Web {
        let objects: Vec<(String, Object)> =
            objects.into_iter().map(|(name, object)| (name.to_owned(), object)).collect();
        let objects = Arc::new(objects);
        let known = Arc::clone(&objects);
        let server = Server::start(move |request: &Request, wire| {
            let name = request.path().trim_start_matches("/d/");
            if let Some(name) = name.strip_prefix("led-") {
                return wire.head(
                    "302 Found",
                    &[("Location", format!("/d/{name}")), ("Content-Length", "0".to_owned())],
                );
            }
            let Some((_, object)) = known.iter().find(|(own, _)| own == name) else {
                return wire.answer("404 Not Found", &[], b"");
            };
            if request.method == "HEAD" {
                let answer = object.answer(request);
                // Some make their answers up.
                let mut said = |length: &str| wire.head(answer.status, &[("Content-Length", length)]);
                return match name {
                    "nothing-to-head" | "nothing-to-head-whole" => said("0"),
                    "much-to-head" => said("104857600"),
                    _ => wire.head(answer.status, &answer.fields),
                };
            }
            object.serve(request, wire)
        });
        Web { server, objects }
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        let (_, object) = self.objects.iter().find(|(own, _)| own == name).unwrap();
        object.bytes.to_vec()
    }

    fn object(&self, name: &str, target: &str) -> FleetObject {
        FleetObject { source: name.into(), target: target.into(), ..FleetObject::default() }
    }

    fn ends(&self) -> PlanEnds {
        PlanEnds { source: self.server.url("d/"), target: "s3://dst/q/".to_owned() }
    }
}

#[test]
fn a_web_server_fills_a_store_and_what_it_has_is_verified() {
    let web = Web::start(vec![
        ("none", Object::new(0)),
        ("small.txt", Object::new(1000)),
        ("large", Object::new(20 * MIB)),
        ("whole", Object::new(MIB).whole_only()),
        (
            "untagged",
            Object {
                last_modified: Some("Wed, 01 Jan 2020 00:00:00 GMT".to_owned()),
                ..Object::new(9 * MIB).etag(None)
            },
        ),
        ("unprovable", Object::new(9 * MIB).etag(None)),
        ("huge", Object::new(9 * MIB).whole_only()),
        ("nothing-to-head", Object::new(2000)),
        ("nothing-to-head-whole", Object::new(3000).whole_only()),
        ("much-to-head", Object::new(4000)),
    ]);
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    let digest = |name: &str| format!("sha256:{}", hex::encode(&Algorithm::SHA256.of(&web.bytes(name))));
    let sums = |name: &str, target: &str, digest: String| FleetObject {
        digest: Some(digest),
        ..web.object(name, target)
    };
    let wrong = format!("sha256:{}", "ab".repeat(32));
    let all = [
        web.object("none", "none"),
        sums("small.txt", "small.txt", digest("small.txt")),
        sums("large", "large", digest("large")),
        sums("led-large", "led", digest("large")),
        web.object("whole", "whole"),
        web.object("untagged", "untagged"),
        sums("large", "wrong", wrong.clone()),
        sums("small.txt", "wrong.txt", wrong),
        web.object("unprovable", "unprovable"),
        web.object("huge", "huge"),
        web.object("absent", "absent"),
        web.object("nothing-to-head", "nothing-to-head"),
        web.object("nothing-to-head-whole", "nothing-to-head-whole"),
        web.object("much-to-head", "much-to-head"),
        FleetObject { size: Some(999), ..web.object("small.txt", "other.txt") },
    ];
    plan_at(&sandbox.path("a.db"), &web.ends(), &[&all]);
    let worked =
        weir(&sandbox, "http://127.0.0.1:1", &bucket.server.url(""), &["fleet", "work", "--ledger", "a.db"])
            .run();
    let says = [
        "sha256 of",
        "does not match",
        "d/huge in parts: its server does not serve ranges",
        "d/absent is not there",
        "it has 1000 bytes, not 999; make a new plan for it",
        "has no ETag, so nothing says that two parts are of one version",
        "to GET is of an object of 4000 bytes, and to HEAD of 104857600 bytes",
    ];
    worked.fails(1, &says);
    for (key, name) in [
        ("none", "none"),
        ("small.txt", "small.txt"),
        ("large", "large"),
        ("led", "large"),
        ("whole", "whole"),
        ("untagged", "untagged"),
        ("nothing-to-head", "nothing-to-head"),
        ("nothing-to-head-whole", "nothing-to-head-whole"),
    ] {
        assert!(bucket.bytes(&format!("q/{key}")) == web.bytes(name), "{key}");
    }
    let holds = bucket.holds();
    assert_eq!((holds.objects.len(), holds.uploads.len()), (8, 0), "nothing else, and no unfinished upload");
    let kind = |key: &str| {
        let fields = &holds.objects[key].fields;
        fields
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("content-type"))
            .map(|(_, value)| value.clone())
    };
    assert_eq!(kind("q/small.txt").as_deref(), Some("text/plain"));
    drop(holds);
    let status = status_at(&sandbox.path("a.db"));
    let mut classes: Vec<(String, u64)> =
        status.failures.iter().map(|row| (row.class.to_string(), row.objects)).collect();
    classes.sort();
    let of = |class: &str| classes.iter().find(|(own, _)| own == class).map(|(_, count)| *count);
    assert_eq!(
        (of("digest"), of("missing"), of("changed"), of("invalid")),
        (Some(2), Some(1), Some(1), Some(1)),
        "{classes:?}"
    );
    assert_eq!((status.moved.objects, status.failed), (8, 7), "{status:?}");
}

#[test]
fn from_amazon_to_google_and_a_source_that_changes_becomes_no_object() {
    let object = Object::new(20 * MIB);
    let bytes = Arc::clone(&object.bytes);
    let (asked, changes) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
    let is_other = Arc::clone(&changes);
    let amazon = Server::start(move |request, wire| {
        let object = match is_other.load(Relaxed) && asked.fetch_add(1, Relaxed) > 1 {
            true => object.changed(),
            false => object.clone(),
        };
        match request.method.as_str() {
            _ if request.path() != "/src/p/k" => {
                wire.answer("404 Not Found", &[], b"<Error><Code>NoSuchKey</Code></Error>")
            }
            "HEAD" => {
                let answer = object.answer(request);
                wire.head(answer.status, &answer.fields)
            }
            _ => object.serve(request, wire),
        }
    });
    let (google, sandbox) = (Bucket::start(), Sandbox::new());
    google.hook(|request| {
        let is_there = request.path().starts_with("/storage/v1/");
        is_there.then(|| Fault::Answer("404 Not Found", "{}".to_owned()))
    });
    let objects = [FleetObject {
        source: b"k".to_vec(),
        target: b"k".to_vec(),
        size: Some(bytes.len() as u64),
        etag: Some("\"one\"".to_owned()),
        ..FleetObject::default()
    }];
    let ends = PlanEnds { source: "s3://src/p/".to_owned(), target: "gs://dst/q/".to_owned() };
    plan_at(&sandbox.path("a.db"), &ends, &[&objects]);
    let run = |args: &[&str]| weir(&sandbox, &google.server.url(""), &amazon.url(""), args).run();
    run(&["fleet", "work", "--ledger", "a.db"]).succeeds().says(&["moved 1 object"]);
    assert!(google.bytes("q/k") == *bytes && google.holds().uploads.is_empty());
    google.holds().objects.clear();
    changes.store(true, Relaxed);
    plan_at(&sandbox.path("b.db"), &ends, &[&objects]);
    let worked = run(&["fleet", "work", "--ledger", "b.db"]);
    worked.fails(1, &["s3://src/p/k changed while it was sent; make a new plan for it"]);
    assert!(google.holds().objects.is_empty() && google.holds().uploads.is_empty());
    assert_eq!(&*status_at(&sandbox.path("b.db")).failures[0].class, "changed");
    // One service's address is not two's.
    let two = run(&["fleet", "work", "--ledger", "b.db", "--endpoint", "http://127.0.0.1:1"]);
    two.fails(2, &["--endpoint names one service, and s3:// and gs:// are two"]);
}

/// Two services of one kind, which have a bucket and keys of the same names: each is asked at its address, by
/// its credentials, whoever plans, works and checks.
#[test]
fn each_of_two_services_is_asked_in_its_own_way() {
    let profiles = ["--source-profile", "old", "--target-profile", "new"];
    let variables =
        [("WEIR_SOURCE_AWS_PROFILE", "old"), ("AWS_PROFILE", "new"), ("WEIR_TARGET_AWS_REGION", "us-east-2")];
    for (args, variables) in [(&profiles[..], &[][..]), (&[], &variables)] {
        let (old, new, sandbox) = (Bucket::start(), Bucket::start(), Sandbox::new());
        std::fs::create_dir(sandbox.path(".aws")).unwrap();
        let named = [("old", &old), ("new", &new)];
        let config = named.map(|(name, at)| {
            format!("[profile {name}]\nendpoint_url = {}\nregion = us-east-1\n", at.server.url(""))
        });
        let keys = named.map(|(name, _)| {
            format!("[{name}]\naws_access_key_id = {name}key\naws_secret_access_key = a-secret-of-tests\n")
        });
        sandbox.write(".aws/config", config.concat());
        sandbox.write(".aws/credentials", keys.concat());
        for (key, size) in SIZES {
            old.hold(&key.replace(' ', "%20"), pattern(size, size as u64));
        }
        let run = |what: &[&str]| {
            let weir = sandbox.weir(WEIR, [&["fleet"], what, &["--ledger", "a.db"], args].concat());
            variables.iter().fold(weir, |weir, (name, value)| weir.env(name, value)).run()
        };
        run(&["plan", "s3://b/p/", "s3://b/p/"]).succeeds();
        run(&["work"]).succeeds().says(&["moved 5 objects"]).hides("a-secret-of-tests");
        run(&["check", "--source"]).succeeds().hides("a-secret-of-tests");
        for (key, size) in SIZES {
            assert!(new.bytes(&key.replace(' ', "%20")) == pattern(size, size as u64), "{key}");
        }
        for (name, at) in named {
            let requests = at.server.requests();
            let asker = format!("Credential={name}key/");
            let is_its = requests
                .iter()
                .all(|seen| seen.request.field("authorization").is_some_and(|said| said.contains(&asker)));
            assert!(!requests.is_empty() && is_its, "{args:?}: {name}");
        }
        let filled = old.server.requests();
        assert!(filled.iter().all(|seen| matches!(seen.request.method.as_str(), "GET" | "HEAD")), "{args:?}");
        // What is said of an end that is no store is said in vain.
        let work = sandbox.weir(WEIR, ["fleet", "plan", ".aws/", "s3://b/x/", "--ledger", "b.db"]);
        work.args(&["--source-endpoint", "http://127.0.0.1:1"])
            .run()
            .fails(2, &["--source-endpoint is for a store"]);
    }
}

/// What is large is cut into parts where two services are named, and goes to one worker where one copies.
#[test]
fn large_objects_between_two_services_of_one_kind_are_cut() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    bucket.hook(|request| {
        let object = "<Key>p/large</Key><Size>20000000000</Size><ETag>\"e-3\"</ETag>\
                      <LastModified>2026-11-26T10:00:00.000Z</LastModified>";
        let list = format!("<ListBucketResult><Contents>{object}</Contents></ListBucketResult>");
        request.target.contains("list-type=2").then_some(Fault::Answer("200 OK", list))
    });
    let plan = |ledger: &str, args: &[&str]| {
        let words = ["fleet", "plan", "s3://b/p/", "s3://c/q/", "--ledger", ledger];
        let url = bucket.server.url("");
        weir(&sandbox, &url, &url, &[&words, args].concat()).run()
    };
    plan("one.db", &[]).succeeds().hides("in ranges");
    let cut = plan("two.db", &["--target-endpoint", "http://127.0.0.1:1"]);
    let told = String::from_utf8_lossy(&cut.succeeds().stdout).into_owned();
    assert!(told.contains("1 of them in ranges"), "{told}");
    // A worker that takes them for one says what it lacks.
    let worked = weir(
        &sandbox,
        &bucket.server.url(""),
        &bucket.server.url(""),
        &["fleet", "work", "--ledger", "two.db"],
    );
    worked.run().fails(1, &["cannot copy 'large'", "--source- and --target- flags"]);
}

/// A worker that is killed while it sends parts: whoever gets the batch then stores the object once, and of
/// the upload nothing is left.
#[test]
fn a_worker_killed_in_the_middle_of_an_upload_leaves_one_object_and_no_upload() {
    for is_same_host in [true, false] {
        let google = Google::with(&[("p/large", 40 * MIB), ("p/small", 1000)]).start();
        let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
        let slow = Arc::new(AtomicBool::new(true));
        let is_slow = Arc::clone(&slow);
        bucket.hook(move |request| {
            let is_late_part =
                request.target.contains("partNumber=") && !request.target.contains("partNumber=1&");
            (is_late_part && is_slow.load(Relaxed)).then_some(Fault::Slow(64 << 10))
        });
        let run = |args: &[&str], host: &str| {
            weir(&sandbox, &google.url(""), &bucket.server.url(""), args)
                .env("XDG_STATE_HOME", sandbox.path(host).display().to_string())
        };
        run(&["fleet", "plan", "gs://src/p/", "s3://dst/q/", "--ledger", "a.db"], "one").run().succeeds();
        let work = ["fleet", "work", "--ledger", "a.db", "--lease", "2s"];
        let worker = run(&work, "one").spawn();
        wait_for("a part of an upload", || {
            bucket.holds().uploads.values().any(|upload| !upload.parts.is_empty())
        });
        worker.signal(Signal::KILL);
        assert_eq!(worker.wait().status.code(), None);
        slow.store(false, Relaxed);
        let other = if is_same_host { "one" } else { "two" };
        let worked = run(&work, other).run();
        worked.succeeds();
        for (key, size) in [("q/large", 40 * MIB), ("q/small", 1000)] {
            assert!(bucket.bytes(key) == pattern(size, size as u64), "{key}");
        }
        let left = bucket.holds().uploads.len();
        // Whose upload it is only the host of its worker knows; another one names it.
        assert_eq!(left, usize::from(!is_same_host), "{}", worked.stderr);
        if !is_same_host {
            worked.says(&["s3://dst/q/large: unfinished uploads of this object are at the store"]);
        }
        let status = status_at(&sandbox.path("a.db"));
        assert!(status.complete && status.moved.objects + status.same.objects == 2, "{status:?}");
    }
}

/// A worker that is told to end gives back what it has begun, and takes its uploads away: those that lanes
/// are at work on, and those that were begun beside them.
#[test]
fn a_worker_that_is_interrupted_leaves_nothing_at_the_store() {
    // A worker begins with half of a batch, and with 64 MiB.
    let keys = ["1", "2", "3", "4", "5", "6"];
    let google = Google::with(&["p/1", "p/2", "p/3", "p/4", "p/5", "p/6"].map(|key| (key, 20 * MIB))).start();
    let object = |key: &&str| FleetObject {
        source: (*key).into(),
        target: (*key).into(),
        size: Some(20 * MIB as u64),
        ..FleetObject::default()
    };
    let objects: Vec<FleetObject> = keys.iter().map(object).collect();
    for source in ["gs://src/p/", "files/"] {
        let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
        std::fs::create_dir(sandbox.path("files")).unwrap();
        for key in keys {
            sandbox.write(&format!("files/{key}"), pattern(20 * MIB, 20 * MIB as u64));
        }
        // First parts are there at once. Then four lanes are at work on the others of some uploads, and
        // mostly nobody on the rest.
        let is_late = |target: &str| target.contains("partNumber=") && !target.contains("partNumber=1&");
        bucket.hook(move |request| is_late(&request.target).then_some(Fault::Slow(64 << 10)));
        let run = |args: &[&str]| weir(&sandbox, &google.url(""), &bucket.server.url(""), args);
        let folder = || sandbox.path(source).display().to_string();
        let source = if source.contains("://") { source.to_owned() } else { folder() };
        let ends = PlanEnds { source, target: "s3://dst/q/".to_owned() };
        plan_at(&sandbox.path("a.db"), &ends, &[&objects]);
        // Four, whatever a trial with fewer would say of so slow a store.
        let worker = run(&["fleet", "work", "--ledger", "a.db", "-c", "4"]).spawn();
        bucket.server.wait("four parts", |_, requests| {
            requests.iter().filter(|seen| is_late(&seen.request.target)).count() >= 4
        });
        // Which are of two uploads at least: of more where lanes began side by side.
        assert!(bucket.holds().uploads.len() >= 2);
        worker.signal(Signal::INT);
        worker.wait().fails(130, &["the rest was given back"]);
        assert!(bucket.holds().uploads.is_empty() && bucket.holds().objects.is_empty(), "{ends:?}");
        let status = status_at(&sandbox.path("a.db"));
        assert_eq!((status.leased, status.moved.objects, status.failed), (0, 0, 0), "{status:?}");
        bucket.heals();
        run(&["fleet", "work", "--ledger", "a.db"]).run().succeeds();
        for key in keys {
            assert!(bucket.bytes(&format!("q/{key}")) == pattern(20 * MIB, 20 * MIB as u64), "{key}");
        }
    }
}

/// An upload whose beginning was not answered has an id that nobody knows.
#[test]
fn an_upload_that_is_interrupted_while_it_begins_is_taken_away() {
    let (google, bucket, sandbox) = (Google::with(&[]).start(), Bucket::start(), Sandbox::new());
    std::fs::create_dir(sandbox.path("files")).unwrap();
    sandbox.write("files/1", pattern(20 * MIB, 1));
    let is_over = Arc::new(AtomicBool::new(false));
    let held = Arc::clone(&is_over);
    bucket.hook(move |request| {
        let is_beginning = request.method == "POST" && request.target.contains("uploads=");
        is_beginning.then(|| Fault::Held(Arc::clone(&held)))
    });
    let run = |args: &[&str]| weir(&sandbox, &google.url(""), &bucket.server.url(""), args);
    run(&["fleet", "plan", "files/", "s3://dst/q/", "--ledger", "a.db"]).run().succeeds();
    let worker = run(&["fleet", "work", "--ledger", "a.db"]).spawn();
    wait_for("an upload", || !bucket.holds().uploads.is_empty());
    worker.signal(Signal::INT);
    worker.wait().fails(130, &["the rest was given back"]);
    assert!(bucket.holds().uploads.is_empty());
    is_over.store(true, Relaxed);
}

/// Which side a worker waits for, as it tells the ledger: looks until `is_enough` of its last word and of how
/// many spans have been told.
fn held_by(google: Google, pace: Option<u64>, is_enough: impl Fn(&str, u64) -> bool) -> String {
    let google = google.start();
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    if let Some(pace) = pace {
        bucket.hook(move |request| (request.method == "PUT").then_some(Fault::Slow(pace)));
    }
    let run = |args: &[&str]| weir(&sandbox, &google.url(""), &bucket.server.url(""), args);
    run(&["fleet", "plan", "gs://src/p/", "s3://dst/q/", "--ledger", "a.db"]).run().succeeds();
    let worker = run(&["fleet", "work", "--ledger", "a.db"]).spawn();
    let status =
        || -> Value { run(&["fleet", "status", "--ledger", "a.db", "--once", "--json"]).run().json() };
    let mut limit = String::new();
    wait_for("a word of the worker", || {
        std::thread::sleep(Duration::from_millis(200));
        let told = status();
        limit = told["hosts"][0]["limit"].as_str().unwrap_or_default().to_owned();
        is_enough(&limit, told["verdict"]["hosts"][0]["intervals"].as_u64().unwrap_or(0))
    });
    worker.signal(Signal::INT);
    drop(worker.wait());
    limit
}

#[test]
fn the_side_that_is_slow_is_told_to_the_ledger() {
    let source = || Google::with(&[("p/a", 4 * MIB), ("p/b", 4 * MIB)]);
    // Its first words may be of its own start.
    let slow = Google { rate: Some(64 << 10), ..source() };
    assert_eq!(held_by(slow, None, |limit, _| limit == "upstream"), "upstream");
    let is_late = |limit: &str, spans: u64| spans >= 6 && !matches!(limit, "" | "no-work");
    assert_ne!(held_by(source(), Some(64 << 10), is_late), "upstream");
}
