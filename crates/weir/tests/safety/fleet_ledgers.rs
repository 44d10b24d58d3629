//! Ledgers and plans that are not as they should be, as a user meets them: a full disk, two planners, no
//! object, one of 5 TiB, sizes beyond reason, hours that are not come.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Dice, MIB, Run, Running, Sandbox, WEIR, count, pattern, skip, wait_for};

/// `weir fleet` and these words, whose ledger is `l.db`.
fn fleet(sandbox: &Sandbox, words: &[&str]) -> Run {
    sandbox.weir(WEIR, [&["fleet"], words, &["--ledger", "l.db"]].concat()).run()
}

fn status(sandbox: &Sandbox) -> Value {
    fleet(sandbox, &["status", "--json"]).json()
}

fn files(sandbox: &Sandbox, count: usize) {
    std::fs::create_dir(sandbox.path("from")).unwrap();
    for number in 0..count {
        std::fs::write(sandbox.path("from").join(number.to_string()), format!("{number}")).unwrap();
    }
}

/// Runs a script in which `small` is a file system of a MiB; `None` where none can be mounted.
fn in_small(sandbox: &Sandbox, script: &str) -> Option<Run> {
    let script = format!("mkdir small && mount -t tmpfs -o size=1m none small || exit 99\n{script}");
    let args = ["--user", "--map-root-user", "--mount", "sh", "-c", &script, WEIR];
    let run = sandbox.weir("unshare", args).run();
    if run.status.code() == Some(99) || run.stderr.contains("unshare") {
        skip(&format!("no small file system can be mounted here: {}", run.stderr.trim()));
        return None;
    }
    Some(run)
}

#[test]
fn a_plan_whose_ledger_has_no_space_says_so_and_is_gone_on_with() {
    let sandbox = Sandbox::new();
    // Names that do not shrink: three MB of them in the ledger.
    let mut list = File::create(sandbox.path("list")).unwrap();
    let mut dice = Dice::of(1);
    let mut names = String::new();
    for _ in 0..200_000 {
        names.push_str(&format!("{:016x}{:016x}\n", dice.roll(0..u64::MAX), dice.roll(0..u64::MAX)));
    }
    list.write_all(names.as_bytes()).unwrap();
    let script = "\"$0\" fleet plan --list list https://localhost/d/ to --ledger small/l.db; echo $?
        \"$0\" fleet status --ledger small/l.db --json
        mount -o remount,size=64m small
        \"$0\" fleet plan --list list https://localhost/d/ to --ledger small/l.db >&2 || exit 1
        \"$0\" fleet status --ledger small/l.db --json";
    let Some(run) = in_small(&sandbox, script) else { return };
    run.exits(0)
        .says(&["cannot write to the ledger small/l.db: no space left on its device; free space there"]);
    let lines = String::from_utf8_lossy(&run.stdout).into_owned();
    let [code, full, whole] = lines.lines().collect::<Vec<_>>()[..] else { panic!("{lines}") };
    assert_eq!(code, "1");
    let [full, whole] = [full, whole].map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert_eq!((&full["sealed"], &full["complete"]), (&false.into(), &false.into()), "{full}");
    assert_eq!((&whole["sealed"], &whole["planned"]["objects"]), (&true.into(), &200_000.into()), "{whole}");
}

#[test]
fn a_worker_whose_ledger_has_no_space_waits_for_some() {
    let sandbox = Sandbox::new();
    files(&sandbox, 400);
    // A log of SQLite's alone is 4 MB before it is taken into the file.
    let script = "mount -o remount,size=16m small
        \"$0\" fleet plan from/ to --ledger small/l.db >&2 || exit 1
        \"$0\" fleet work --ledger small/l.db --limit-rate 300 2>said &
        worker=$!; trap 'kill -9 $worker 2>/dev/null' EXIT
        until [ \"$(ls to 2>/dev/null | wc -l)\" -gt 5 ]; do sleep 0.02; done
        cat /dev/zero >small/filler 2>/dev/null
        until grep -q 'no space left on its device' said; do kill -0 $worker || exit 3; sleep 0.02; done
        rm small/filler
        \"$0\" fleet set --limit-rate none --ledger small/l.db >&2
        wait $worker || exit 4
        \"$0\" fleet check --ledger small/l.db >&2";
    let Some(run) = in_small(&sandbox, script) else { return };
    let said = String::from_utf8_lossy(&sandbox.read("said")).into_owned();
    assert_eq!(run.status.code(), Some(0), "{}\n{said}", run.stderr);
    assert!(said.contains("what is held goes on") && said.contains("the ledger is there again"), "{said}");
    assert_eq!(count(&sandbox.path("to")), 400);
}

#[test]
fn a_ledger_without_space_beside_it_is_called_full() {
    let sandbox = Sandbox::new();
    files(&sandbox, 3);
    let script = "mount -o remount,size=4m small
        \"$0\" fleet plan from/ to --ledger small/l.db >&2 || exit 1
        cat /dev/zero >small/filler 2>/dev/null
        \"$0\" fleet status --ledger small/l.db; echo $?
        rm small/filler
        \"$0\" fleet status --ledger small/l.db >&2";
    let Some(run) = in_small(&sandbox, script) else { return };
    run.exits(0).says(&["cannot write to the ledger small/l.db: no space left on its device"]);
    assert_eq!(String::from_utf8_lossy(&run.stdout), "1\n");
}

#[test]
fn who_may_not_write_to_a_ledger_may_look_at_it() {
    let sandbox = Sandbox::new();
    files(&sandbox, 3);
    fleet(&sandbox, &["plan", "from/", "to"]).succeeds();
    fleet(&sandbox, &["work"]).succeeds();
    // In a folder that is the user's, and in one that is not.
    for mode in [0o755, 0o555] {
        allow(&sandbox, "l.db", 0o444);
        allow(&sandbox, ".", mode);
        let run = |words: &[&str]| as_nobody(&sandbox, words);
        let looked = [run(&["status"]), run(&["check"]), run(&["export"])];
        let changed = run(&["pause"]);
        allow(&sandbox, ".", 0o755);
        let Some(changed) = changed else { return };
        for run in looked.iter().flatten() {
            run.succeeds();
        }
        changed.fails(1, &["writable for this user"]);
        // Nothing that they left keeps out who may write.
        allow(&sandbox, "l.db", 0o644);
        as_nobody(&sandbox, &["pause"]).unwrap().succeeds();
    }
}

#[test]
fn nothing_to_move_is_a_plan_that_is_done() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("from/empty")).unwrap();
    let planned = fleet(&sandbox, &["plan", "from/", "to"]);
    assert!(
        String::from_utf8_lossy(&planned.succeeds().stdout).contains("planned 0 objects, 0 B, in 0 batches")
    );
    fleet(&sandbox, &["work"]).succeeds().says(&["moved 0 objects", "the plan is done"]);
    fleet(&sandbox, &["check", "--source"]).succeeds();
    assert_eq!(status(&sandbox)["complete"], true);
    fleet(&sandbox, &["export"]).succeeds();
}

#[test]
fn of_two_planners_at_once_one_writes_the_plan() {
    let sandbox = Sandbox::new();
    files(&sandbox, 2000);
    let begin = || sandbox.weir(WEIR, ["fleet", "plan", "from/", "to", "--ledger", "l.db"]).spawn();
    let runs: Vec<Run> = [begin(), begin(), begin()].into_iter().map(Running::wait).collect();
    let wrote = runs.iter().filter(|run| run.status.success()).count();
    assert_eq!(wrote, 1, "{runs:?}");
    for run in runs.iter().filter(|run| !run.status.success()) {
        let [busy, whole] =
            ["is being written by", "holds this plan already, whole"].map(|says| run.stderr.contains(says));
        assert!(run.exits(1).stderr.contains("the ledger l.db") && (busy || whole), "{}", run.stderr);
    }
    assert_eq!(status(&sandbox)["planned"]["objects"], 2000);
    // Another plan has no place in it.
    std::fs::create_dir(sandbox.path("other")).unwrap();
    fleet(&sandbox, &["plan", "other/", "to"]).fails(1, &["holds the plan of", "name another ledger"]);
    fleet(&sandbox, &["plan", "from/", "elsewhere"]).fails(1, &["holds the plan of", "name another ledger"]);
    assert_eq!(status(&sandbox)["planned"]["objects"], 2000);
}

#[test]
fn an_object_of_five_tebibytes_is_planned_and_moved_as_it_is() {
    const SIZE: u64 = 5 << 40;
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("from")).unwrap();
    let sparse = File::create(sandbox.path("from/sparse")).unwrap();
    if let Err(error) = sparse.set_len(SIZE) {
        return skip(&format!("no file of 5 TiB can be here: {error}"));
    }
    let (bytes, at) = (pattern(MIB, 7), 4_u64 << 40);
    sparse.write_all_at(&bytes, at).unwrap();
    std::fs::write(sandbox.path("from/small"), "x").unwrap();
    fleet(&sandbox, &["plan", "from/", "to"]).succeeds();
    assert_eq!(status(&sandbox)["planned"]["bytes"], SIZE + 1);
    let exported = fleet(&sandbox, &["export"]);
    let exported = String::from_utf8_lossy(&exported.stdout).into_owned();
    assert!(exported.contains("\nsparse,sparse,5497558138880,waiting,"), "{exported}");
    fleet(&sandbox, &["work"]).succeeds().says(&["moved 2 objects"]);
    let moved = File::open(sandbox.path("to/sparse")).unwrap();
    let (data, mut found) = (moved.metadata().unwrap(), vec![0; MIB]);
    assert_eq!(data.len(), SIZE);
    assert!(data.blocks() * 512 < 16 * MIB as u64, "its holes are filled: {} blocks", data.blocks());
    moved.read_exact_at(&mut found, at).unwrap();
    assert!(found == bytes);
    fleet(&sandbox, &["check"]).succeeds();
}

#[test]
fn sizes_beyond_reason_are_named() {
    let sandbox = Sandbox::new();
    let plan = |list: &str, more: &[&str]| {
        sandbox.write("list", list);
        let _ = std::fs::remove_file(sandbox.path("l.db"));
        fleet(&sandbox, &[&["plan", "--list", "list", "https://localhost/d/", "to"], more].concat())
    };
    let most = 1_u64 << 60;
    let nine: String = (0..9).map(|number| format!("{number}\t\t{most}\n")).collect();
    plan(&nine, &[]).fails(1, &["add up to more than 8 EiB"]);
    let seven: String = (0..7).map(|number| format!("{number}\t\t{most}\n")).collect();
    plan(&seven, &[]).succeeds();
    assert_eq!(status(&sandbox)["planned"]["bytes"], 7 * most);
    for size in ["1152921504606846977", "18446744073709551615"] {
        let list = format!("a\t\t{size}\nb\t\t1\n");
        // Of a file no size can be named: the way out is one for both.
        plan(&list, &[]).fails(1, &[&format!("a: {size} bytes are more than any object has; mend them")]);
        plan(&list, &["--skip-bad"]).succeeds();
        assert_eq!(status(&sandbox)["planned"]["objects"], 1);
    }
    plan("a\t\t18446744073709551616\n", &[]).fails(1, &["is no number of bytes"]);
}

#[test]
fn who_waits_for_a_ledger_that_is_away_hears_a_signal() {
    let sandbox = Sandbox::new();
    files(&sandbox, 1);
    let words: [&[&str]; 5] =
        [&["status", "--once"], &["work"], &["check"], &["pause"], &["plan", "from/", "to"]];
    for words in words {
        // Nothing listens there.
        let ledger = ["--ledger", "postgres://me@127.0.0.1:1/d?sslmode=disable"];
        let waiting = sandbox.weir(WEIR, [&["fleet"], words, &ledger].concat()).spawn();
        wait_for("a process that hears signals", || waiting.catches(Signal::INT));
        waiting.signal(Signal::INT);
        waiting.wait().fails(130, &["interrupted while waiting for the ledger postgres://me@127.0.0.1:1/d"]);
    }
}

/// A user other than root, whom modes keep out.
const NOBODY: u32 = 65534;

/// `weir fleet` and these words on `l.db`, by a user to whom modes mean something, who has all files here;
/// `None` where that cannot be.
fn as_nobody(sandbox: &Sandbox, words: &[&str]) -> Option<Run> {
    let by = |words: &[&str]| {
        let mut weir = sandbox.weir(WEIR, words);
        if rustix::process::geteuid().is_root() {
            weir.command.uid(NOBODY).gid(NOBODY);
        }
        weir.run()
    };
    if rustix::process::geteuid().is_root() {
        let mut chown = Command::new("chown");
        let all = format!("{NOBODY}:{NOBODY}");
        assert!(chown.args(["-R", &all]).arg(sandbox.path("")).status().unwrap().success());
        if !by(&["--version"]).status.success() {
            skip("root cannot run the binary as another user here");
            return None;
        }
    }
    Some(by(&[&["fleet"], words, &["--ledger", "l.db"]].concat()))
}

fn allow(sandbox: &Sandbox, name: &str, mode: u32) {
    std::fs::set_permissions(sandbox.path(name), PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn what_cannot_be_looked_at_is_not_called_missing() {
    let sandbox = Sandbox::new();
    files(&sandbox, 3);
    std::fs::create_dir(sandbox.path("from/sub")).unwrap();
    sandbox.write("from/sub/x", "x");
    fleet(&sandbox, &["plan", "from/", "out/to"]).succeeds();
    fleet(&sandbox, &["work"]).succeeds();
    for (name, is) in [
        ("out/to/sub", &["3 of 4 are there, 0 are missing", "1 were not found", "sub/x: not found"][..]),
        ("out", &[]),
    ] {
        allow(&sandbox, name, 0);
        let checked = as_nobody(&sandbox, &["check"]);
        allow(&sandbox, name, 0o755);
        let Some(checked) = checked else { return };
        let stdout = String::from_utf8_lossy(&checked.exits(1).stdout).into_owned();
        assert!(is.iter().all(|is| stdout.contains(is)), "{stdout}");
        let said = format!("{stdout}{}", checked.stderr);
        assert!(said.contains("permission denied") && !said.contains(": missing"), "{said}");
    }
    as_nobody(&sandbox, &["check"]).unwrap().succeeds();
}

#[test]
fn a_size_that_was_not_planned_is_not_called_right() {
    let sandbox = Sandbox::new();
    files(&sandbox, 2);
    sandbox.write("list", "0\n1\t\t1\n");
    fleet(&sandbox, &["plan", "--list", "list", "from/", "to"]).succeeds();
    fleet(&sandbox, &["work"]).succeeds();
    sandbox.write("to/0", "");
    let checked = fleet(&sandbox, &["check"]);
    let stdout = String::from_utf8_lossy(&checked.succeeds().stdout).into_owned();
    let says = ["1 have no known size: only their names were compared", "the sizes of 1 are not known"];
    assert!(says.iter().all(|says| stdout.contains(says)), "{stdout}");
    // Its content tells.
    fleet(&sandbox, &["check", "--digests"]).exits(1);
}

#[test]
fn workers_move_within_the_hours_that_are_set_by_the_ledgers_clock() {
    let sandbox = Sandbox::new();
    files(&sandbox, 5);
    fleet(&sandbox, &["plan", "from/", "to"]).succeeds();
    let hour = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 3600 % 24;
    let of = |from: u64, to: u64| format!("{:02}:00-{:02}:00", (hour + from) % 24, (hour + to) % 24);
    // From the hour after the next one on, for one hour.
    fleet(&sandbox, &["set", "--window", &of(2, 3)]).succeeds();
    fleet(&sandbox, &["work", "--once"]).succeeds().says(&["moved 0 objects", "it is outside the hours"]);
    // A worker with patience begins when the window opens: now, over midnight, until an hour before.
    let waiting = sandbox.weir(WEIR, ["fleet", "work", "--ledger", "l.db"]).spawn();
    wait_for("the worker", || status(&sandbox)["workers"].as_array().unwrap().len() == 2);
    assert_eq!(status(&sandbox)["moved"]["objects"], 0);
    fleet(&sandbox, &["set", "--window", &of(0, 23)]).succeeds();
    waiting.wait().succeeds().says(&["moved 5 objects"]);
}
