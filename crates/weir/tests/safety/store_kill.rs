//! SIGKILL at any moment of a transfer with a store, one object or a tree, there or back: the same command
//! completes it, what is there is right, and nothing else is left, neither here nor at the store.
//!
//! 20 runs of each by default; `WEIR_SOAK=200` for more, `WEIR_SEED=N` for a run again.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use rustix::process::Signal;
use support::bucket::{Bucket, Fault};
use support::listed::weir_of;
use support::{Dice, MIB, Request, Sandbox, Weir, pattern};

/// What of a body goes by in a second until nothing is killed any more: a part of 5 MiB takes a fifth of one.
const UP: u64 = 25 << 20;

/// What of an answer does: an object lasts for a few writes of its journal.
const DOWN: u64 = 4 << 20;

/// A store that is slow until it is told otherwise, and a sandbox.
struct Stage {
    bucket: Bucket,
    sandbox: Sandbox,
    fast: Arc<AtomicBool>,
}

impl Stage {
    fn set() -> Stage {
        let (bucket, fast) = (Bucket::start(), Arc::new(AtomicBool::new(true)));
        let flag = Arc::clone(&fast);
        bucket.hook(move |request| (!flag.load(Relaxed)).then(|| slow(request)).flatten());
        Stage { bucket, sandbox: Sandbox::new(), fast }
    }

    fn weir(&self, args: &[&str]) -> Weir {
        weir_of(&self.sandbox, &self.bucket.server.url(""), args)
    }

    /// Runs it, kills it after some of its requests and some milliseconds, and does so once more sometimes.
    /// How often it was killed before its end.
    fn kills(&self, dice: &mut Dice, args: &[&str], (most_requests, most_pause): (u64, u64)) -> u32 {
        let mut killed = 0;
        self.fast.store(false, Relaxed);
        for _ in 0..dice.roll(1..3) {
            let (requests, pause) = (dice.roll(1..most_requests) as usize, dice.roll(0..most_pause));
            let seen = self.bucket.server.requests().len();
            let running = self.weir(args).spawn();
            support::wait_for("requests, or the end", || {
                self.bucket.server.requests().len() >= seen + requests || has_ended(running.id())
            });
            std::thread::sleep(Duration::from_millis(pause));
            running.signal(Signal::KILL);
            killed += u32::from(running.wait().status.code().is_none());
            // What it had sent is seen to before anything is counted.
            self.bucket.server.rests();
        }
        self.fast.store(true, Relaxed);
        killed
    }

    /// Nothing is left but what was asked for.
    #[track_caller]
    fn is_clean(&self, context: &str) {
        let holds = self.bucket.holds();
        let left: Vec<_> = holds.uploads.iter().map(|(id, upload)| (id, upload.parts.len())).collect();
        assert!(left.is_empty(), "{context}: uploads {left:?}");
        let names = self.sandbox.names();
        let ends = [".part", ".weir", ".upload", ".run"];
        let odd: Vec<&String> =
            names.iter().filter(|name| ends.iter().any(|end| name.ends_with(end))).collect();
        assert!(odd.is_empty(), "{context}: {odd:?}");
    }

    /// A tree of small files, and a large one.
    fn grow(&self, root: &str, dice: &mut Dice) {
        for number in 0..60 {
            let path = self.sandbox.path(format!("{root}/{}/{number}", number % 7));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, pattern(dice.roll(0..5000) as usize, dice.roll(1..1000))).unwrap();
        }
        let large = dice.roll(8 * MIB as u64 + 1..10 * MIB as u64) as usize;
        self.sandbox.write(&format!("{root}/large"), pattern(large, large as u64));
    }

    fn keys(&self) -> BTreeSet<String> {
        self.bucket.holds().objects.keys().cloned().collect()
    }
}

fn slow(request: &Request) -> Option<Fault> {
    let length = request.field("content-length").map_or(0, |text| text.parse::<u64>().unwrap());
    Some(match request.method.as_str() {
        "PUT" if length > MIB as u64 => Fault::Slow(UP),
        "GET" if request.target.ends_with("large") => Fault::Slow(DOWN),
        _ => Fault::Late(Duration::from_millis(5)),
    })
}

/// A process that is over and not waited for.
fn has_ended(id: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    status.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with('Z'))
}

#[track_caller]
fn same_trees(one: &Path, other: &Path, context: &str) {
    let diff = Command::new("diff").arg("-r").args([one, other]).output().unwrap();
    assert!(diff.status.success(), "{context}: {}", String::from_utf8_lossy(&diff.stdout));
}

/// Enough of the runs proved something.
#[track_caller]
fn tell(what: &str, killed: u32, runs: u64) {
    println!("{what}: {killed} kills in {runs} runs");
    assert!(u64::from(killed) * 2 >= runs, "too few were killed before their end");
}

#[test]
fn an_object_that_is_put() {
    let (mut dice, runs) = Dice::for_runs();
    let (mut killed, mut resumed) = (0, 0);
    for run in 0..runs {
        let stage = Stage::set();
        let bytes = pattern(dice.roll(12 * MIB as u64..24 * MIB as u64) as usize, run);
        stage.sandbox.write("large", &bytes);
        let lanes = [&["-c", "1"][..], &["-c", "2"], &[]][(run % 3) as usize];
        let args = [&["put", "large", "s3://b/large", "--json", "--part-size", "5MiB"][..], lanes].concat();
        // Beyond what one part takes, so that some are whole by then over any number of lanes.
        killed += stage.kills(&mut dice, &args, (7, 250));
        let record = stage.weir(&args).run().succeeds().json();
        resumed += u32::from(record["resumed"].as_u64().unwrap_or(0) > 0);
        assert!(stage.bucket.bytes("large") == bytes, "run {run}");
        stage.is_clean(&format!("run {run}"));
    }
    println!("{resumed} resumed");
    tell("put", killed, runs);
    assert!(resumed > 0, "none was resumed");
}

#[test]
fn an_object_that_is_fetched() {
    let (mut dice, runs) = Dice::for_runs();
    let (mut killed, mut resumed) = (0, 0);
    for run in 0..runs {
        let stage = Stage::set();
        let bytes = pattern(dice.roll(6 * MIB as u64..12 * MIB as u64) as usize, run);
        stage.bucket.hold("large", bytes.clone());
        let lanes = [&["-c", "1"][..], &["-c", "4"], &[]][(run % 3) as usize];
        let args = [&["get", "s3://b/large", "-o", "out", "--json"][..], lanes].concat();
        killed += stage.kills(&mut dice, &args, (3, 600));
        let record = stage.weir(&args).run().succeeds().json();
        resumed += u32::from(record["files"][0]["resumed_from"].as_u64().unwrap_or(0) > 0);
        assert!(stage.sandbox.read("out") == bytes, "run {run}");
        stage.is_clean(&format!("run {run}"));
    }
    println!("{resumed} resumed");
    tell("get", killed, runs);
    assert!(resumed > 0, "none was resumed");
}

/// Small files that `weir put` sends at once, 16, of each kill that there may be: of what was on its way it
/// has no word.
const ON_THEIR_WAY: usize = 32;

/// By both commands that fill a prefix. Neither sends anything again of which it had the store's answer;
/// `weir cp` nothing that is there.
#[test]
fn a_tree_that_is_sent() {
    let (mut dice, runs) = Dice::for_runs();
    let mut killed = 0;
    for run in 0..runs {
        let stage = Stage::set();
        stage.grow("tree", &mut dice);
        let is_copy = run % 2 == 0;
        let args: &[&str] = match is_copy {
            true => &["cp", "-r", "tree/", "s3://b/t/", "-q"],
            false => &["put", "tree/", "s3://b/t/", "-q"],
        };
        killed += stage.kills(&mut dice, args, (60, 60));
        let was_cut_off = stage.sandbox.names().iter().any(|name| name.ends_with(".run"));
        let (there, seen) = (stage.keys(), stage.bucket.server.requests().len());
        stage.weir(args).run().succeeds();
        let is_again = |request: &Request| {
            request.method == "PUT" && there.contains(request.path().trim_start_matches("/b/"))
        };
        let again = stage.bucket.server.requests_from(seen).iter().filter(|seen| is_again(seen)).count();
        let most = match () {
            () if is_copy => 0,
            // It had ended before it was killed: put sends what it is told to.
            () if !was_cut_off => usize::MAX,
            () => ON_THEIR_WAY,
        };
        assert!(again <= most, "run {run}: {again} of {} are sent again", there.len());
        stage.is_clean(&format!("run {run}"));
        assert_eq!(stage.keys().len(), 61, "run {run}");
        stage.weir(&["cp", "-r", "s3://b/t/", "back", "-q"]).run().succeeds();
        same_trees(&stage.sandbox.path("tree"), &stage.sandbox.path("back"), &format!("run {run}"));
    }
    tell("a tree there", killed, runs);
}

/// From one store to another: two that are told apart by their addresses alone.
#[test]
fn an_object_that_is_copied() {
    let (mut dice, runs) = Dice::for_runs();
    // A third of the others': its ends are those that they have.
    let runs = runs.div_ceil(3);
    let (mut killed, mut resumed) = (0, 0);
    for run in 0..runs {
        let (stage, source) = (Stage::set(), Bucket::start());
        let bytes = pattern(dice.roll(17 * MIB as u64..30 * MIB as u64) as usize, run);
        source.hold("large", bytes.clone());
        let lanes = [&["-c", "1"][..], &["-c", "2"], &[]][(run % 3) as usize];
        let from = source.server.url("");
        let ends = ["--source-endpoint", from.trim_end_matches('/'), "--json"];
        let args = [&["cp", "s3://b/large", "s3://b/large"][..], &ends, lanes].concat();
        killed += stage.kills(&mut dice, &args, (8, 300));
        let record = stage.weir(&args).run().succeeds().json();
        resumed += u32::from(record["resumed"].as_u64().unwrap_or(0) > 0);
        assert!(stage.bucket.bytes("large") == bytes, "run {run}");
        stage.is_clean(&format!("run {run}"));
    }
    println!("{resumed} resumed");
    tell("a copy between stores", killed, runs);
}

#[test]
fn a_tree_that_is_fetched() {
    let (mut dice, runs) = Dice::for_runs();
    let mut killed = 0;
    for run in 0..runs {
        let stage = Stage::set();
        stage.grow("tree", &mut dice);
        for name in stage.sandbox.names().iter().filter(|name| !name.ends_with('/')) {
            stage.bucket.hold(&name.replacen("tree/", "t/", 1), stage.sandbox.read(name));
        }
        let args: &[&str] = match run % 2 == 0 {
            true => &["cp", "-r", "s3://b/t/", "back", "-q"],
            false => &["get", "s3://b/t/", "-o", "back/", "-q", "-N"],
        };
        killed += stage.kills(&mut dice, args, (60, 60));
        stage.weir(args).run().succeeds();
        stage.is_clean(&format!("run {run}"));
        same_trees(&stage.sandbox.path("tree"), &stage.sandbox.path("back"), &format!("run {run}"));
    }
    tell("a tree back", killed, runs);
}
