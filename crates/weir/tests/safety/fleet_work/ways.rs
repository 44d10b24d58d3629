//! The other ways: from a folder into a store, from a store into itself, from a folder into a folder.

use std::path::Path;

use super::bed::{plan_at, status_at};
use crate::support::bucket::Bucket;
use crate::support::http_servers::moto;
use crate::support::listed::weir_of;
use crate::support::{MIB, Sandbox, WEIR, pattern, skip};
use weir_fleet::ledger::PlanEnds;
use weir_fleet::object::FleetObject;

/// Files in the folder `from`, and the objects of them.
fn tree(sandbox: &Sandbox, sizes: &[usize]) -> Vec<FleetObject> {
    std::fs::create_dir_all(sandbox.path("from/sub")).unwrap();
    let object = |(number, size): (usize, &usize)| {
        let name = if number % 2 == 0 { format!("sub/{number}.txt") } else { format!("{number}.bin") };
        std::fs::write(sandbox.path("from").join(&name), pattern(*size, 1 + number as u64)).unwrap();
        let name = name.into_bytes();
        FleetObject { source: name.clone(), target: name, size: Some(*size as u64), ..FleetObject::default() }
    };
    sizes.iter().enumerate().map(object).collect()
}

fn ends(source: &Path, target: &str) -> PlanEnds {
    PlanEnds { source: source.display().to_string(), target: target.to_owned() }
}

#[test]
fn a_folder_is_sent_to_a_store_once_and_nothing_there_is_replaced() {
    let (sandbox, bucket) = (Sandbox::new(), Bucket::start());
    let objects = tree(&sandbox, &[1000, 2000, 30_000, 20_000_000, 5]);
    plan_at(
        &sandbox.path("a.db"),
        &ends(&sandbox.path("from"), "s3://b/p/"),
        &[&objects[..2], &objects[2..]],
    );
    plan_at(&sandbox.path("b.db"), &ends(&sandbox.path("from"), "s3://b/p/"), &[&objects]);
    let endpoint = bucket.server.url("");
    let work = |ledger: &str| weir_of(&sandbox, &endpoint, &["fleet", "work", "--ledger", ledger]);
    work("a.db").run().succeeds().says(&["moved 5 objects"]);
    for object in &objects {
        let name = String::from_utf8(object.source.clone()).unwrap();
        let own = std::fs::read(sandbox.path("from").join(&name)).unwrap();
        assert!(bucket.bytes(&format!("p/{name}")) == own, "{name}");
    }
    // Another worker, to whom nobody said that they are there.
    work("b.db").run().succeeds().says(&["5 already there"]);
    // A digest of the manifest that is not the file's.
    let digest = Some(format!("sha256:{}", "ab".repeat(32)));
    let wrong = FleetObject { target: b"wrong".to_vec(), digest, ..objects[0].clone() };
    plan_at(&sandbox.path("d.db"), &ends(&sandbox.path("from"), "s3://b/p/"), &[&[wrong]]);
    work("d.db").run().fails(1, &["sha256 of", "which the manifest says; nothing is sent"]);
    assert!(!bucket.holds().objects.contains_key("p/wrong"));
    // A file that became another one, and an object that did.
    let changed = String::from_utf8(objects[0].source.clone()).unwrap();
    bucket.holds().objects.get_mut(&format!("p/{changed}")).unwrap().bytes = b"other".to_vec().into();
    std::fs::write(sandbox.path("from/1.bin"), "shorter").unwrap();
    plan_at(&sandbox.path("c.db"), &ends(&sandbox.path("from"), "s3://b/p/"), &[&objects]);
    let run = work("c.db").run();
    run.fails(1, &["is not the file of the manifest any more", "it is kept"]);
    assert_eq!(bucket.bytes(&format!("p/{changed}")), b"other");
    let status = status_at(&sandbox.path("c.db"));
    assert_eq!((status.same.objects, status.failed), (3, 2), "{status:?}");
}

#[test]
fn a_folder_is_copied_into_a_folder_by_four_workers() {
    let sandbox = Sandbox::new();
    let objects = tree(&sandbox, &[10; 400]);
    let target = sandbox.path("to").display().to_string();
    let batches: Vec<&[FleetObject]> = objects.chunks(20).collect();
    plan_at(&sandbox.path("a.db"), &ends(&sandbox.path("from"), &target), &batches);
    let work = || sandbox.weir(WEIR, ["fleet", "work", "--ledger", "a.db"]);
    let workers: Vec<_> = (0..4).map(|_| work().spawn()).collect();
    for worker in workers {
        worker.wait().succeeds();
    }
    let status = status_at(&sandbox.path("a.db"));
    assert!(status.complete && status.moved.objects + status.same.objects == 400, "{status:?}");
    for object in &objects {
        let name = std::str::from_utf8(&object.source).unwrap();
        let (one, other) = (sandbox.path("from").join(name), sandbox.path("to").join(name));
        assert!(std::fs::read(one).unwrap() == std::fs::read(other).unwrap(), "{name}");
    }
    assert_eq!(crate::support::count(&sandbox.path("to")), 400);
}

#[test]
fn an_idle_worker_leaves_a_large_file_to_whoever_copies_it() {
    let sandbox = Sandbox::new();
    // Eight seconds of it, and two of the other one: that worker has nothing to do for six. With one hand
    // each, since more would take both files at once.
    let objects = tree(&sandbox, &[12 * MIB, 3 * MIB]);
    let target = sandbox.path("to").display().to_string();
    let batches: Vec<&[FleetObject]> = objects.chunks(1).collect();
    plan_at(&sandbox.path("a.db"), &ends(&sandbox.path("from"), &target), &batches);
    let words = ["fleet", "work", "--ledger", "a.db", "--limit-rate", "1500k", "-c", "1"];
    let work = || sandbox.weir(WEIR, words);
    let workers: Vec<_> = (0..2).map(|_| work().spawn()).collect();
    for worker in workers {
        worker.wait().succeeds();
    }
    let status = status_at(&sandbox.path("a.db"));
    let by: Vec<u64> = status.workers.iter().map(|worker| worker.moved.objects).collect();
    assert!(status.complete && by == [1, 1], "{status:?}");
}

#[test]
fn a_worker_that_leaves_before_the_plan_is_done_has_not_completed_it() {
    let sandbox = Sandbox::new();
    let objects = tree(&sandbox, &[10; 2]);
    let target = sandbox.path("to").display().to_string();
    plan_at(&sandbox.path("a.db"), &ends(&sandbox.path("from"), &target), &[&objects]);
    let fleet =
        |words: &[&str]| sandbox.weir(WEIR, [&["fleet"], words, &["--ledger", "a.db"]].concat()).run();
    let ended = || {
        let record = fleet(&["work", "--once", "--json"]).succeeds().json();
        [&record["outcome"], &record["fleet"]["end"]].map(|word| word.as_str().unwrap().to_owned())
    };
    fleet(&["pause"]).succeeds();
    assert_eq!(ended(), ["partial", "nothing"]);
    fleet(&["resume"]).succeeds();
    assert_eq!(ended(), ["complete", "complete"]);
}

/// moto lets in whoever has any signature.
const SIGNED: &str = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=600&X-Amz-Signature=of-tests";

#[test]
fn a_store_copies_its_objects_itself_and_replaces_none() {
    let Some(moto) = moto() else { return skip("no moto: scripts/need test") };
    let endpoint = format!("http://127.0.0.1:{}", moto.port);
    let sandbox = Sandbox::new();
    let url = format!("{endpoint}/bucket-of-tests?{SIGNED}");
    let made = std::process::Command::new("curl")
        .args(["-sSf", "-X", "PUT", "-H", "Content-Length: 0", &url])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let objects = tree(&sandbox, &[10, 20_000, 300, 5, 7]);
    let weir = |args: &[&str]| weir_of(&sandbox, &endpoint, args);
    let list = |prefix: &str| {
        let run = weir(&["ls", "-r", &format!("s3://bucket-of-tests/{prefix}/")]).run();
        String::from_utf8(run.succeeds().stdout.clone()).unwrap().lines().count()
    };
    weir(&["cp", "from/", "s3://bucket-of-tests/a/"]).run().succeeds();
    let ends = PlanEnds {
        source: "s3://bucket-of-tests/a/".to_owned(),
        target: "s3://bucket-of-tests/z/".to_owned(),
    };
    let work = |ledger: &str| weir(&["fleet", "work", "--ledger", ledger]);
    for (ledger, says) in [("a.db", "moved 5 objects"), ("b.db", "5 already there")] {
        plan_at(&sandbox.path(ledger), &ends, &[&objects[..2], &objects[2..]]);
        work(ledger).run().succeeds().says(&[says]);
        assert_eq!(list("z"), 5);
    }
    // Another content at a target, and a source that is not what was planned.
    sandbox.write("other", "other");
    weir(&["put", "other", "s3://bucket-of-tests/z/1.bin"]).run().succeeds();
    let mut changed = objects.clone();
    changed[2].etag = Some("\"another\"".to_owned());
    plan_at(&sandbox.path("c.db"), &ends, &[&changed]);
    work("c.db").run().fails(1, &["z/1.bin exists and is not what the source has", "its ETag is another"]);
    let status = status_at(&sandbox.path("c.db"));
    assert_eq!((status.same.objects, status.failed), (3, 2), "{status:?}");
}
