//! Faults that other fleets are known for, and that are not tested elsewhere; `docs/scale.md` lists all six.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use weir_fleet::ledger::database::Now;
use weir_fleet::ledger::sqlite::SqliteDatabase;
use weir_fleet::ledger::{FleetLedger, Patience, SqlLedger};

use super::bed::MOST_MEMORY;
use crate::support::http_servers::{Nginx, sandbox_with_www};
use crate::support::listed::{ListedBucket, Manner, weir_of};
use crate::support::{Run, Running, Sandbox, Server, TIMEOUT, WEIR, Weir, skip, wait_for};

/// Objects of one byte for the test of memory: `WEIR_SOAK=100` moves ten million.
fn objects() -> u64 {
    let soak = std::env::var("WEIR_SOAK").ok().map(|text| text.parse::<u64>().expect("a number"));
    soak.map_or(20_000, |soak| soak * 100_000)
}

/// `weir fleet` and these words, on one ledger.
fn fleet(sandbox: &Sandbox, words: &[&str]) -> Weir {
    sandbox.weir(WEIR, [&["fleet"], words, &["--ledger", "l.db"]].concat())
}

#[track_caller]
fn prints(run: &Run, texts: &[&str]) {
    let stdout = String::from_utf8_lossy(&run.succeeds().stdout).into_owned();
    assert!(texts.iter().all(|text| stdout.contains(text)), "{texts:?} in {stdout}");
}

/// juicefs#7489: prefixes were dropped without a word where a listing is not in the order of its keys.
#[test]
fn a_listing_in_no_order_is_planned_and_moved_whole() {
    let keys: Vec<String> = (0..2500).map(|number| format!("p/{}/{number}.bin", number % 7)).collect();
    let objects: Vec<(&str, &[u8])> = keys.iter().map(|key| (&**key, key.as_bytes())).collect();
    let bucket = ListedBucket::start(&objects, Manner::Disordered, 100);
    let sandbox = Sandbox::new();
    let fleet = |words: &[&str]| {
        let words = [&["fleet"], words, &["--ledger", "l.db"]].concat();
        weir_of(&sandbox, &bucket.server.url(""), &words).run()
    };
    prints(&fleet(&["plan", "s3://b/p/", "out"]), &["planned 2500 objects"]);
    fleet(&["work"]).succeeds().says(&["moved 2500 objects"]);
    prints(&fleet(&["check", "--source"]), &["target: 2500 of 2500 are there", "all is done, and there"]);
    for key in &keys {
        let path = sandbox.path("out").join(&key[2..]);
        assert_eq!(std::fs::read(path).unwrap(), key.as_bytes(), "{key}");
    }
}

/// Objects of [`long_list`].
const LISTED: usize = 83_000;

/// A bucket of so many objects whose list does not come beyond its 80th page while it is held.
fn long_list(held: Arc<AtomicBool>) -> Server {
    Server::start(move |request, wire| {
        let pages =
            request.target.split(['?', '&']).find_map(|pair| pair.strip_prefix("continuation-token=t"));
        let page: usize = pages.map_or(0, |page| page.parse().expect("a token"));
        let until = Instant::now() + TIMEOUT;
        while page >= 80 && held.load(Relaxed) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        let contents = |number: usize| {
            format!(
                "<Contents><Key>p/{page}/{number}</Key><Size>1</Size>\
                 <LastModified>2026-11-26T10:00:00.000Z</LastModified><ETag>&quot;a&quot;</ETag></Contents>"
            )
        };
        let body = format!(
            "<ListBucketResult>{}<IsTruncated>{}</IsTruncated><KeyCount>1000</KeyCount>\
             <NextContinuationToken>t{}</NextContinuationToken></ListBucketResult>",
            (0..1000).map(contents).collect::<String>(),
            page + 1 < LISTED / 1000,
            page + 1
        );
        wire.answer("200 OK", &[("Content-Type", "application/xml")], body.as_bytes())
    })
}

/// The ledger in the sandbox, whose planner is gone and its lease with it.
fn without_its_planner(sandbox: &Sandbox) -> SqlLedger {
    let later = Arc::new(AtomicI64::new(i64::MAX / 2));
    let database = SqliteDatabase::open(&sandbox.path("l.db"), false, Now::Given(Arc::clone(&later)));
    let patience = Patience { longest: Duration::from_secs(30), stop: Arc::default() };
    let mut ledger = SqlLedger::new(Box::new(database.unwrap()), patience);
    let ends = ledger.ends().unwrap();
    let lease = ledger.begin(&ends, "a test", 5).unwrap();
    later.store(0, Relaxed);
    ledger.abandon(&lease).unwrap();
    ledger
}

/// fpsync#81: a run that was cut off at 26 % called itself complete. The same command makes the plan whole.
#[test]
fn a_plan_whose_planner_was_killed_is_never_complete_and_is_gone_on_with() {
    let (sandbox, held) = (Sandbox::new(), Arc::new(AtomicBool::new(true)));
    let server = long_list(Arc::clone(&held));
    let words = ["fleet", "plan", "s3://b/p/", "/dev/null", "--ledger", "l.db"];
    let planner = weir_of(&sandbox, &server.url(""), &words).spawn();
    let status = || fleet(&sandbox, &["status", "--json"]).run();
    let planned = || {
        let run = status();
        let is_there = run.status.success();
        is_there && run.json()["planned"]["objects"].as_u64().is_some_and(|objects| objects > 0)
    };
    wait_for("its first batches", planned);
    planner.signal(Signal::KILL);
    assert!(planner.wait().status.code().is_none(), "it was killed");
    held.store(false, Relaxed);
    let status = status();
    let status = status.succeeds().json();
    assert_eq!((&status["complete"], &status["sealed"]), (&false.into(), &false.into()), "{status}");
    let check = fleet(&sandbox, &["check"]).run();
    let said = String::from_utf8_lossy(&check.exits(1).stdout).into_owned();
    assert!(said.contains("the fleet is not at its end"), "{said}");
    let mut ledger = without_its_planner(&sandbox);
    prints(&weir_of(&sandbox, &server.url(""), &words).run(), &["of an interrupted plan"]);
    let (mut count, mut names) = (0, HashSet::new());
    let mut each = |source: &[u8]| {
        count += 1;
        names.insert(source.to_owned());
    };
    ledger.each_object(&mut |object| each(&object.source)).unwrap();
    assert_eq!((count, names.len()), (LISTED, LISTED), "each object once");
}

/// juicefs#5769: memory without bound. And nothing is kept in `/dev/null`, but all is counted.
#[test]
fn eight_workers_of_any_number_of_objects_stay_small_and_count_what_they_do_not_keep() {
    let sandbox = sandbox_with_www();
    let directives = "keepalive_requests 1000000000; location /d/ { return 200 x; } \
                      location = /count { stub_status; }";
    let Some(nginx) = Nginx::start(&sandbox, directives) else { return skip("no nginx: scripts/need test") };
    let (url, objects) = (format!("http://127.0.0.1:{}/d/", nginx.http), objects());
    let lines: String = (0..objects).map(|number| format!("{}/{number}\t\t1\n", number / 1000)).collect();
    sandbox.write("names", lines);
    let plan = fleet(&sandbox, &["plan", "--list", "names", &url, "/dev/null"]).run();
    prints(&plan, &[&format!("planned {objects} objects"), "nothing is kept in /dev/null"]);
    let workers: Vec<_> = (0..8).map(|_| fleet(&sandbox, &["work", "--json", "-c", "8"]).spawn()).collect();
    let mut moved = 0;
    for run in workers.into_iter().map(Running::wait) {
        let record = run.succeeds().json();
        moved += record["fleet"]["moved"]["objects"].as_u64().unwrap();
        let memory = record["peak_memory"].as_u64().unwrap();
        assert!(memory < MOST_MEMORY, "{memory} bytes of memory");
    }
    let status = fleet(&sandbox, &["status", "--json"]).run().succeeds().json();
    assert_eq!((&status["complete"], &status["moved"]["objects"]), (&true.into(), &objects.into()));
    let answer = std::process::Command::new("curl")
        .args(["-sSf", &format!("http://127.0.0.1:{}/count", nginx.http)])
        .output()
        .unwrap();
    let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
    let requests = answer.lines().nth(2).and_then(|line| line.split_whitespace().nth(2)).unwrap();
    // Without the question itself. Two that bring one object at the same time both do, and one of them may
    // be told in the middle of it that the other has it.
    let answered = requests.parse::<u64>().unwrap() - 1;
    println!("{objects} objects, {moved} moved by workers, {answered} requests");
    assert!(objects <= moved && moved <= answered, "{objects}, {moved}, {answered}");
    prints(&fleet(&sandbox, &["check"]).run(), &["nothing is kept in /dev/null", "all is done"]);
}

#[test]
fn files_that_are_read_to_dev_null_are_counted_and_none_is_written() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("from")).unwrap();
    for (name, size) in [("a", 3), ("b", 3_000_000), ("c", 0)] {
        std::fs::write(sandbox.path("from").join(name), vec![7; size]).unwrap();
    }
    prints(&fleet(&sandbox, &["plan", "from/", "/dev/null"]).run(), &["planned 3 objects"]);
    std::fs::write(sandbox.path("from/a"), "changed").unwrap();
    let run = fleet(&sandbox, &["work"]).run();
    run.fails(1, &["moved 2 objects", "it is not the file of the manifest any more"]);
    assert!(sandbox.names().iter().all(|name| name.starts_with("from/") || name.starts_with("l.db")));
    fleet(&sandbox, &["plan", "/dev/null", "out"]).run().fails(2, &["it keeps nothing"]);
}
