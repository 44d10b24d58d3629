//! What a worker says and does where objects, targets or its own host are not as they should be.

use std::collections::HashSet;
use std::os::unix::fs::symlink;
use std::sync::Mutex;

use super::bed::{Bed, plan_at, status_at};
use crate::support::bucket::{Bucket, Fault};
use crate::support::listed::{ListedBucket, Manner, weir_of};
use crate::support::{MIB, Sandbox, Server, WEIR, pattern, skip};
use weir_fleet::ledger::PlanEnds;
use weir_fleet::object::FleetObject;

#[test]
fn what_changed_or_is_gone_fails_by_its_class_and_the_rest_is_moved() {
    let bed = Bed::new(&[1000, 2000, 3000, 200_000], 2);
    bed.changes(1);
    bed.changes(3);
    let run = bed.work(&[]).run();
    run.fails(1, &["is not the one of the manifest: its ETag is another; make a new plan", "2 failed"]);
    let status = bed.status();
    assert!(status.complete && status.moved.objects == 2 && status.failed == 2, "{status:?}");
    assert_eq!((status.failures.len(), &*status.failures[0].class), (1, "changed"));
    assert!(bed.path(0).exists() && !bed.path(1).exists() && !bed.path(3).exists());
}

#[test]
fn an_answer_without_a_size_has_the_one_of_the_plan() {
    // What is read whole, what lanes carry, and both of more bytes than were planned: carried to where all of
    // a block is written, and to where it is not.
    let (small, large, longer) = (5000, 3 * MIB, [10, 3 * MIB + 1000, 4 * MIB]);
    let cut = Mutex::new(HashSet::new());
    let server = Server::start(move |request, wire| {
        let size: usize = request.path().trim_start_matches("/d/").parse().unwrap();
        let is_longer = longer.contains(&size);
        let bytes = pattern(size + usize::from(is_longer), 1);
        let is_cut = !is_longer && cut.lock().unwrap().insert(size);
        wire.head("200 OK", &[("ETag", "\"a\"")])?;
        wire.body(&bytes[..if is_cut { size / 2 } else { bytes.len() }])?;
        wire.close()
    });
    let object = |size: usize| {
        let name = size.to_string().into_bytes();
        FleetObject { source: name.clone(), target: name, size: Some(size as u64), ..FleetObject::default() }
    };
    let objects: Vec<FleetObject> = [small, large].into_iter().chain(longer).map(object).collect();
    let sandbox = Sandbox::new();
    let ends = PlanEnds { source: server.url("d/"), target: sandbox.path("out").display().to_string() };
    plan_at(&sandbox.path("a.db"), &ends, &[&objects]);
    let run = sandbox.weir(WEIR, ["fleet", "work", "--ledger", "a.db"]).run();
    run.fails(1, &["sent more than 10 bytes", "3 failed"]);
    run.says(&["it has more than 3146728 bytes", "it has more than 4194304 bytes"]);
    let status = status_at(&sandbox.path("a.db"));
    assert_eq!((status.moved.objects, status.failed), (2, 3), "{status:?}");
    for size in [small, large] {
        assert!(sandbox.read(&format!("out/{size}")) == pattern(size, 1), "{size}");
    }
    for size in longer {
        let path = format!("/d/{size}");
        let asked = server.requests_from(0).iter().filter(|request| request.path() == path).count();
        assert_eq!((asked, sandbox.path(format!("out/{size}")).exists()), (1, false), "{size}");
    }
}

#[test]
fn a_target_that_exists_and_differs_is_kept() {
    let bed = Bed::new(&[1000, 2000, 300_000, 400_000, 10], 5);
    std::fs::create_dir_all(bed.path(0).parent().unwrap()).unwrap();
    let foreign = vec![7; 1000];
    std::fs::write(bed.path(0), &foreign).unwrap();
    std::fs::write(bed.path(2), vec![7; 300_000]).unwrap();
    std::fs::write(bed.path(3), "short").unwrap();
    symlink("/etc/hostname", bed.path(4)).unwrap();
    // Brought by another program: the same is the same.
    std::fs::write(bed.path(1), bed.content(1)).unwrap();
    let run = bed.work(&[]).run();
    run.fails(1, &["exists and is not what the source has; it is kept", "4 failed"]);
    let status = bed.status();
    assert_eq!((status.failed, &*status.failures[0].class), (4, "name"), "{status:?}");
    assert_eq!(status.moved.objects + status.same.objects, 1);
    assert!(std::fs::read(bed.path(0)).unwrap() == foreign && bed.path(4).is_symlink());
    assert_eq!(std::fs::read(bed.path(3)).unwrap(), b"short");
    assert_eq!(crate::support::count(&bed.sandbox.path("out")), 5, "nothing is left beside them");
}

#[test]
fn a_host_without_credentials_leaves_with_words_and_the_others_go_on() {
    let keys: Vec<String> = (0..40).map(|number| format!("p/{number}.bin")).collect();
    let objects: Vec<(&str, &[u8])> = keys.iter().map(|key| (&**key, key.as_bytes())).collect();
    let bucket = ListedBucket::start(&objects, Manner::InOrder, 1000);
    let bed = Bed::new(&[1], 1);
    let object = |key: &String| {
        let name = key.as_bytes()[2..].to_vec();
        FleetObject {
            source: name.clone(),
            target: name,
            size: Some(key.len() as u64),
            ..FleetObject::default()
        }
    };
    let all: Vec<FleetObject> = keys.iter().map(object).collect();
    let sandbox = &bed.sandbox;
    let target = sandbox.path("mine").display().to_string();
    let ends = PlanEnds { source: "s3://b/p/".to_owned(), target };
    let (one, other) = all.split_at(20);
    plan_at(&sandbox.path("stores.db"), &ends, &[one, other]);
    bed.is_private();
    let mut more: Vec<FleetObject> = Vec::new();
    more.resize(30, bed.object(0));
    let private =
        PlanEnds { source: bed.server.url("d/"), target: sandbox.path("private").display().to_string() };
    plan_at(&sandbox.path("private.db"), &private, &[&more]);
    let run = bed.work_on("private.db", &[]).run();
    run.fails(4, &["this host can move nothing, and gave its batches back: ", "403"]);
    let status = status_at(&sandbox.path("private.db"));
    assert_eq!((status.waiting, status.failed, status.leased), (1, 0, 0), "{status:?}");
    let args = ["fleet", "work", "--ledger", "stores.db"];
    weir_of(sandbox, &bucket.server.url(""), &args).run().succeeds().says(&["moved 40 objects"]);
    assert_eq!(crate::support::count(&sandbox.path("mine")), 40);
}

/// What Amazon says of an object in an archive.
const AT_REST: &str =
    "<Error><Code>InvalidObjectState</Code><Message>The operation is not valid</Message></Error>";

#[test]
fn what_lies_in_an_archive_fails_by_itself_and_the_rest_is_moved() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    for number in 0..20 {
        bucket.hold(&format!("p/cold{number}"), vec![7; 1000]);
        bucket.hold(&format!("p/warm{number}"), vec![7; 1000]);
    }
    bucket.hook(|request| {
        let is_cold = request.method == "GET" && request.path().contains("/cold");
        is_cold.then(|| Fault::Answer("403 Forbidden", AT_REST.to_owned()))
    });
    let run = |args: &[&str]| weir_of(&sandbox, &bucket.server.url(""), args).run();
    run(&["fleet", "plan", "s3://b/p/", "out", "--ledger", "a.db"]).succeeds();
    run(&["fleet", "work", "--ledger", "a.db"]).fails(1, &["moved 20 objects", "20 failed"]);
    let status = status_at(&sandbox.path("a.db"));
    assert!(status.complete && status.moved.objects == 20, "{status:?}");
    assert_eq!((status.failures.len(), &*status.failures[0].class), (1, "invalid"), "{status:?}");
}

#[test]
fn a_full_disk_stops_the_worker_and_fails_no_object() {
    let bed = Bed::new(&vec![200_000; 40], 40);
    const SCRIPT: &str = "mkdir out && mount -t tmpfs -o size=1m none out || exit 99
        \"$0\" fleet work --ledger plan.db";
    let args = ["--user", "--map-root-user", "--mount", "sh", "-c", SCRIPT, WEIR];
    let run = bed.sandbox.weir("unshare", args).run();
    if run.status.code() == Some(99) || run.stderr.contains("unshare") {
        return skip(&format!("no small file system can be mounted here: {}", run.stderr.trim()));
    }
    run.fails(4, &["no space left on device", "gave its batches back"]);
    let status = bed.status();
    assert_eq!((status.failed, status.waiting, status.leased), (0, 1, 0), "{status:?}");
    std::fs::remove_dir_all(bed.sandbox.path("out")).unwrap();
    bed.work(&[]).run().succeeds();
    bed.is_complete(40);
}

#[test]
fn what_is_no_ledger_and_what_no_fleet_does_is_said() {
    let sandbox = Sandbox::new();
    let work = |ledger: &str| sandbox.weir(WEIR, ["fleet", "work", "--ledger", ledger]).run();
    work("none.db").fails(1, &["no ledger is there; make one with weir fleet plan"]);
    sandbox
        .write("text.db", "this is no database, and long enough to be looked at as if it were one of them");
    work("text.db").fails(1, &["text.db", "not a ledger of weir"]);
    let object = FleetObject { source: b"x".to_vec(), target: b"x".to_vec(), ..FleetObject::default() };
    for (source, target, says) in [
        ("/tmp", "https://h/d/", "not to web servers"),
        ("s3://b/p/", "https://h/d/", "a fleet writes into folders and stores, not to web servers"),
    ] {
        let name = format!("{}.db", says.len());
        let ends = PlanEnds { source: source.to_owned(), target: target.to_owned() };
        let path = sandbox.path(&name);
        let _ = std::fs::remove_file(&path);
        plan_at(&path, &ends, &[std::slice::from_ref(&object)]);
        work(&name).fails(2, &[says]);
    }
}
