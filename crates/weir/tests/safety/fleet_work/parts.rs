//! One large object by several workers into a store: parts of one upload, which becomes one object, once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rustix::process::Signal;
use weir_fleet::ledger::{LedgerPlace, Patience, PlanEnds, PlannedLarge};
use weir_fleet::object::{FleetObject, pack};

use super::bed::status_at;
use crate::support::bucket::{Bucket, Fault};
use crate::support::google::Google;
use crate::support::{MIB, Request, Sandbox, Server, WEIR, Weir, pattern, wait_for};

/// Bytes of the object, and of a range of it.
const SIZE: usize = 40 * MIB;
const RANGE: u64 = 16 << 20;

/// Where the object comes from.
enum From {
    Folder,
    Google(Server),
}

/// A plan of one large object into a bucket, in ranges.
struct Stage {
    bucket: Bucket,
    sandbox: Sandbox,
    from: From,
}

impl Stage {
    fn new(from: From) -> Stage {
        let stage = Stage { bucket: Bucket::start(), sandbox: Sandbox::new(), from };
        std::fs::create_dir_all(stage.sandbox.path("from")).unwrap();
        stage.sandbox.write("from/k", pattern(SIZE, SIZE as u64));
        stage.plan("a.db");
        stage
    }

    fn both() -> [Stage; 2] {
        [Stage::new(From::Folder), Stage::new(From::Google(Google::with(&[("p/k", SIZE)]).start()))]
    }

    fn plan(&self, ledger: &str) {
        let source = match &self.from {
            From::Folder => format!("{}/", self.sandbox.path("from").display()),
            From::Google(_) => "gs://src/p/".to_owned(),
        };
        let place = LedgerPlace::File(self.sandbox.path(ledger));
        let patience = Patience { longest: Duration::from_secs(30), stop: Arc::default() };
        let mut plan = place.open_or_create(patience).unwrap();
        let ends = PlanEnds { source, target: "s3://dst/q/".to_owned() };
        let mut lease = plan.begin(&ends, "a test", 2).unwrap();
        let name = b"k".to_vec();
        let object = FleetObject {
            source: name.clone(),
            target: name,
            size: Some(SIZE as u64),
            ..FleetObject::default()
        };
        let large = PlannedLarge { line: pack([&object]), size: SIZE as u64, range: RANGE };
        plan.append(&mut lease, &[], &[large]).unwrap();
        plan.seal(&lease).unwrap();
    }

    fn weir(&self, args: &[&str]) -> Weir {
        let google = match &self.from {
            From::Folder => "http://127.0.0.1:1".to_owned(),
            From::Google(server) => server.url(""),
        };
        (self.sandbox.weir(WEIR, args))
            .env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
            .env("AWS_SECRET_ACCESS_KEY", "a-secret-of-tests")
            .env("AWS_ENDPOINT_URL", self.bucket.server.url("").trim_end_matches('/'))
            .env("AWS_REGION", "us-east-1")
            .env("STORAGE_EMULATOR_HOST", google)
    }

    fn work(&self, ledger: &str) -> Weir {
        self.weir(&["fleet", "work", "--ledger", ledger, "--lease", "2s", "-c", "1"])
    }

    /// Each part takes a while, until the flag is down.
    fn slow(&self) -> Arc<AtomicBool> {
        let slow = Arc::new(AtomicBool::new(true));
        let is_slow = Arc::clone(&slow);
        self.bucket
            .hook(move |request| (is_part(request) && is_slow.load(Relaxed)).then_some(Fault::Slow(2 << 20)));
        slow
    }

    fn begun(&self) -> usize {
        let is_begin = |request: &Request| request.method == "POST" && request.target.contains("?uploads");
        self.bucket.server.requests().iter().filter(|seen| is_begin(&seen.request)).count()
    }

    #[track_caller]
    fn is_complete(&self) {
        assert!(self.bucket.bytes("q/k") == pattern(SIZE, SIZE as u64));
        assert!(self.bucket.holds().uploads.is_empty(), "an upload is left");
        let status = status_at(&self.sandbox.path("a.db"));
        assert!(status.complete && status.failed == 0, "{status:?}");
        assert_eq!(status.moved.objects + status.same.objects, 1, "{status:?}");
    }
}

fn is_part(request: &Request) -> bool {
    request.method == "PUT" && request.target.contains("partNumber=")
}

fn is_completion(request: &Request) -> bool {
    request.method == "POST" && request.target.contains("uploadId=")
}

#[test]
fn three_workers_send_parts_of_one_object_into_one_upload() {
    for stage in Stage::both() {
        let slow = stage.slow();
        let workers: Vec<_> = (0..3).map(|_| stage.work("a.db").spawn()).collect();
        wait_for("a part of each", || {
            let status = status_at(&stage.sandbox.path("a.db"));
            status.workers.iter().filter(|worker| worker.leased > 0).count() == 3
        });
        slow.store(false, Relaxed);
        for worker in workers {
            worker.wait().succeeds().hides("a-secret-of-tests");
        }
        stage.is_complete();
        let requests = stage.bucket.server.requests();
        let numbers: Vec<&str> = requests
            .iter()
            .filter(|seen| is_part(&seen.request))
            .filter_map(|seen| seen.request.target.split("partNumber=").nth(1)?.split('&').next())
            .collect();
        let different: BTreeSet<&&str> = numbers.iter().collect();
        let parts = if matches!(stage.from, From::Folder) { 3 } else { 5 };
        assert_eq!(different.len(), parts, "{numbers:?}");
        assert_eq!(requests.iter().filter(|seen| is_completion(&seen.request)).count(), 1);
        let by: Vec<u64> =
            status_at(&stage.sandbox.path("a.db")).workers.iter().map(|worker| worker.moved.bytes).collect();
        assert!(by.iter().filter(|bytes| **bytes > 0).count() >= 2, "{by:?}");
        // Another plan finds it there: no upload is begun, and no part sent.
        let (begun, sent) = (stage.begun(), requests.len());
        stage.plan("b.db");
        stage.work("b.db").run().succeeds();
        assert_eq!(stage.begun(), begun);
        let again = stage.bucket.server.requests_from(sent);
        assert!(!again.iter().any(is_part), "a part was sent again");
        let status = status_at(&stage.sandbox.path("b.db"));
        assert!(status.complete && (status.same.objects, status.failed) == (1, 0), "{status:?}");
    }
}

#[test]
fn workers_that_are_killed_between_parts_leave_one_object_and_no_upload() {
    for stage in Stage::both() {
        let slow = stage.slow();
        for kills in 1..=2 {
            let worker = stage.work("a.db").spawn();
            let parts =
                || stage.bucket.holds().uploads.values().map(|upload| upload.parts.len()).sum::<usize>();
            wait_for("a part", || parts() >= kills);
            worker.signal(Signal::KILL);
            assert_eq!(worker.wait().status.code(), None);
        }
        slow.store(false, Relaxed);
        let others: Vec<_> = (0..2).map(|_| stage.work("a.db").spawn()).collect();
        for worker in others {
            worker.wait().succeeds();
        }
        stage.is_complete();
        assert_eq!(stage.begun(), 1, "one upload serves all");
    }
}

#[test]
fn an_answer_to_the_completion_that_is_lost_costs_nothing() {
    for stage in Stage::both() {
        let lost = AtomicUsize::new(0);
        stage.bucket.hook(move |request| {
            (is_completion(request) && lost.fetch_add(1, Relaxed) == 0).then_some(Fault::LoseAnswer)
        });
        stage.work("a.db").run().succeeds();
        stage.is_complete();
    }
}

/// What is given up is taken away, and tried again from its first byte.
#[test]
fn an_object_that_is_given_up_leaves_no_upload() {
    for stage in Stage::both() {
        let refuses = Arc::new(AtomicBool::new(true));
        let does = Arc::clone(&refuses);
        stage.bucket.hook(move |request| {
            let xml = "<Error><Code>InvalidArgument</Code><Message>no part 2</Message></Error>".to_owned();
            let is_second = is_part(request) && request.target.contains("partNumber=2&");
            (is_second && does.load(Relaxed)).then_some(Fault::Answer("400 Bad Request", xml))
        });
        stage.work("a.db").run().fails(1, &["no part 2"]);
        assert!(stage.bucket.holds().uploads.is_empty() && stage.bucket.holds().objects.is_empty());
        let status = status_at(&stage.sandbox.path("a.db"));
        assert!(status.complete && status.failed == 1, "{status:?}");
        refuses.store(false, Relaxed);
        stage.weir(&["fleet", "retry", "--ledger", "a.db"]).run().succeeds();
        stage.work("a.db").run().succeeds();
        stage.is_complete();
    }
}

#[test]
fn an_upload_that_somebody_takes_away_is_said_and_begun_again() {
    let stage = Stage::new(From::Folder);
    let slow = stage.slow();
    let worker = stage.work("a.db").spawn();
    wait_for("a part", || stage.bucket.holds().uploads.values().any(|upload| !upload.parts.is_empty()));
    stage.bucket.holds().uploads.clear();
    slow.store(false, Relaxed);
    worker
        .wait()
        .fails(1, &["is at the store no more, and its parts with it", "weir fleet retry begins again"]);
    stage.weir(&["fleet", "retry", "--ledger", "a.db"]).run().succeeds();
    stage.work("a.db").run().succeeds();
    stage.is_complete();
}

#[test]
fn what_has_the_key_is_kept() {
    for stage in Stage::both() {
        stage.bucket.hold("q/k", pattern(SIZE, 7));
        stage
            .work("a.db")
            .run()
            .fails(1, &["s3://dst/q/k exists and is not known to be what the source has; it is kept"]);
        assert!(stage.bucket.bytes("q/k") == pattern(SIZE, 7));
        assert_eq!(stage.begun(), 0);
        assert_eq!(&*status_at(&stage.sandbox.path("a.db")).failures[0].class, "name");
    }
    // It comes while parts are sent: the completion is refused, and the upload taken away.
    let stage = Stage::new(From::Folder);
    let slow = stage.slow();
    let worker = stage.work("a.db").spawn();
    wait_for("a part", || stage.bucket.holds().uploads.values().any(|upload| !upload.parts.is_empty()));
    stage.bucket.hold("q/k", b"another".to_vec());
    slow.store(false, Relaxed);
    worker.wait().fails(1, &["it is kept"]);
    assert!(stage.bucket.bytes("q/k") == b"another" && stage.bucket.holds().uploads.is_empty());
}
