//! `weir lab list`, `show` and `run`: scenarios are data, what is wrong with them is said, and nothing stays
//! behind.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use support::{QUICK, Run, Running, Sandbox, TIMEOUT, WEIR, Weir, skip};

/// One that writes for a minute to a slow disk.
const LONG: &str = r#"
title = "a long one"
published = "nothing"
law = "60 MB / 1 MB/s"

[path]
rate = "100Mbit"

[near.disk]
rate = "1MB/s"
dirty = "4MiB"

[workload.get]
bytes = "60M"
"#;

/// `weir lab ARGS` whose temporary files lie in the sandbox.
fn lab(sandbox: &Sandbox, args: &[&str]) -> Weir {
    fs::create_dir_all(sandbox.path("tmp")).unwrap();
    sandbox.weir(WEIR, ["lab"]).args(args).env("TMPDIR", sandbox.path("tmp"))
}

fn stdout(run: &Run) -> String {
    String::from_utf8_lossy(&run.stdout).into_owned()
}

/// The files in `scenarios/`, by name.
fn shipped() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> =
        files.map(|file| file.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn every_file_is_listed_and_can_be_shown() {
    let sandbox = Sandbox::new();
    let run = lab(&sandbox, &["list"]).run();
    run.succeeds();
    let listed = stdout(&run);
    let mut names: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    names.sort_unstable();
    assert_eq!(names, shipped());
    for name in names {
        let shown = lab(&sandbox, &["show", name]).run();
        shown.succeeds();
        for word in ["published  ", "law        ", "path       ", "work       "] {
            assert!(stdout(&shown).contains(word), "{name}: no '{word}' in {}", stdout(&shown));
        }
    }
}

#[test]
fn show_prints_tc_commands_and_the_file() {
    let sandbox = Sandbox::new();
    let run = lab(&sandbox, &["show", "b1", "--tc"]).run();
    run.succeeds();
    let commands = stdout(&run);
    assert!(commands.contains("tc qdisc") && commands.contains("netem delay 10"), "{commands}");
    let run = lab(&sandbox, &["show", "B1", "--file"]).run();
    run.succeeds();
    assert!(stdout(&run).contains("send-buffer = \"16KiB\""), "{}", stdout(&run));
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_line_and_field() {
    let cases = [
        ("rate = \"20Mbit\"", "rate = \"0Mbit\"", &["line 7: rate:", "invalid rate '0Mbit'"][..]),
        ("rate = \"20Mbit\"", "rate = \"-5Mbit\"", &["line 7: rate:", "invalid rate"]),
        ("delay = \"5ms\"", "delay = \"11s\"", &["line 8: delay:", "at most 10 s"]),
        ("delay = \"5ms\"", "delay = \"-1ms\"", &["line 8: delay:", "invalid time '-1ms'"]),
        ("delay = \"5ms\"", "delay = 5", &["line 8: delay:", "expected a string"]),
        ("delay = \"5ms\"", "delays = \"5ms\"", &["line 8: delays:", "unknown field"]),
        ("delay = \"5ms\"", "loss = \"150%\"", &["line 8: loss:", "invalid share '150%'"]),
        ("bytes = \"300K\"", "bytes = \"0\"", &["line 11: bytes:", "at least 1"]),
        ("bytes = \"300K\"", "", &["bytes"]),
        ("within = 0.6", "within = 1.5", &["line 16: within:", "between 0 and 1"]),
        ("within = 0.6", "within = -0.1", &["line 16: within:", "between 0 and 1"]),
        ("is = \"0.2s\"", "is = \"soon\"", &["line 15: is:", "invalid time 'soon'"]),
        ("is = \"0.2s\"", "is = -3", &["line 15: is:", "cannot be negative"]),
        ("of = \"seconds\"", "of = \"hours\"", &["line 14: of:", "unknown variant"]),
        ("[workload.socket]", "[workload.ftp]", &["line 10: ftp:", "unknown variant"]),
        (
            "[path]",
            "[far]\ncongestion-control = \"quick\"\n\n[path]",
            &["line 7: congestion-control:", "unknown congestion control 'quick'"],
        ),
        ("[path]", "[limit]\nsender = \"bad-luck\"\n\n[path]", &["line 7: sender:", "name of a limit"]),
        ("title = \"a short one\"", "title = ", &["line 2:"]),
    ];
    for (right, wrong, says) in cases {
        let sandbox = Sandbox::new();
        assert!(QUICK.contains(right), "{right}");
        sandbox.write("bad.toml", QUICK.replacen(right, wrong, 1));
        let run = lab(&sandbox, &["run", "./bad.toml"]).run();
        run.fails(2, &["bad.toml"]).says(says);
    }
}

#[test]
fn a_change_that_cannot_be_is_refused_before_anything_runs() {
    let sandbox = Sandbox::new();
    let then = "\n[then]\nwhat = \"x\"\nadvice-by = \"sender\"\nwithin = 0.1\n\n[then.change.path]\ndelay = \"1h\"\n";
    sandbox.write("bad.toml", format!("{QUICK}{then}"));
    lab(&sandbox, &["run", "bad.toml"]).run().fails(2, &["bad.toml", "then.change", "invalid time '1h'"]);
}

#[test]
fn what_is_not_there_is_said() {
    let sandbox = Sandbox::new();
    lab(&sandbox, &["run", "b99"]).run().fails(2, &["no scenario is called 'b99'", "weir lab list"]);
    lab(&sandbox, &["show", "./none.toml"]).run().fails(2, &["./none.toml", "no such file"]);
}

/// Whether this machine let the run happen.
fn ran(run: &Run) -> bool {
    let text = stdout(run) + &run.stderr;
    let refused = text.contains("skipped") || text.contains("cannot make a network namespace");
    if refused || text.contains("cannot make a user namespace") {
        skip(&text);
        return false;
    }
    true
}

/// On a machine that is busy the emulator may be late, and says so instead.
#[track_caller]
fn is_as_expected_or_late(run: &Run) {
    let text = stdout(run);
    let is_late = text.contains("late on each round trip") && run.status.code() == Some(1);
    let is_right = text.contains("1 of 1 as expected") && run.status.success();
    assert!(is_right || is_late, "{text}\n{}", run.stderr);
}

#[test]
fn a_scenario_runs_and_its_figure_decides() {
    let sandbox = Sandbox::new();
    sandbox.write("quick.toml", QUICK);
    let run = lab(&sandbox, &["run", "quick.toml"]).run();
    if !ran(&run) {
        return;
    }
    is_as_expected_or_late(&run);
    sandbox.write("wrong.toml", QUICK.replace("is = \"0.2s\"", "is = \"9s\"").replace("0.6", "0.1"));
    let run = lab(&sandbox, &["run", "wrong.toml", "--json"]).run();
    run.exits(1);
    let record = run.json();
    assert_eq!(record["command"], "lab");
    let scenario = &record["lab"]["scenarios"][0];
    // On a machine that is busy the emulator may be late, and says so instead.
    let outcome = scenario["outcome"].as_str().unwrap();
    assert!(["wrong", "late"].contains(&outcome), "{scenario}");
    assert_eq!(scenario["run"]["figures"][0]["ok"], false, "{scenario}");
    assert_eq!(scenario["run"]["bytes"], 300_000, "{scenario}");
    assert_eq!(sandbox.names(), ["quick.toml", "tmp/", "wrong.toml"]);
}

/// A download of two files, of which one is not there.
const HALF: &str = r#"
title = "one of two is missing"
published = "nothing"
law = "404 is no file"

[path]
rate = "20Mbit"
delay = "1ms"

[workload.get]
bytes = "100K"
args = ["http://10.200.0.2:8000/none.bin"]
"#;

#[test]
fn what_goes_wrong_is_no_success_and_no_skip() {
    let sandbox = Sandbox::new();
    sandbox.write("quick.toml", QUICK);
    if !ran(&lab(&sandbox, &["run", "./quick.toml"]).run()) {
        return;
    }
    sandbox.write("half.toml", HALF);
    let code = "[[figure]]\nof = \"exit-code\"\nis = 1\nwithin = 0.0\n";
    sandbox.write("meant.toml", format!("{HALF}\n{code}"));
    let typo = "[near.sysctl]\n\"net.ipv4.tcp_rmme\" = \"4096 8192 16384\"\n";
    sandbox.write("typo.toml", format!("{QUICK}\n{typo}"));
    let run = lab(&sandbox, &["run", "./half.toml", "./meant.toml", "./typo.toml", "--json"]).run();
    run.exits(1);
    let record = run.json();
    let [half, meant, typo] = [0_usize, 1, 2].map(|number| &record["lab"]["scenarios"][number]);
    assert_eq!(half["outcome"], "failed", "{half}");
    assert_eq!(typo["outcome"], "failed", "{typo}");
    assert!(half["why"].as_str().unwrap().contains("figure of exit-code"), "{half}");
    assert!(typo["why"].as_str().unwrap().contains("cannot set net.ipv4.tcp_rmme"), "{typo}");
    // It left some bytes, and its code is what was to come out.
    assert_eq!(meant["run"]["bytes"], 100_000, "{meant}");
    assert_eq!(meant["run"]["figures"][0]["ok"], true, "{meant}");
}

/// Waits until the first scenario of a run that keeps its evidence in `seen` has ended.
fn first_has_run(sandbox: &Sandbox) {
    wait("the first scenario", || sandbox.path("seen/quick.sender.json").exists());
}

#[test]
fn what_ran_before_an_interrupt_is_told() {
    let sandbox = Sandbox::new();
    sandbox.write("quick.toml", QUICK);
    // Two minutes.
    sandbox.write("long.toml", QUICK.replace("300K", "300M"));
    if !ran(&lab(&sandbox, &["run", "./quick.toml"]).run()) {
        return;
    }
    let args = ["run", "./quick.toml", "./long.toml", "--json", "--evidence", "seen"];
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let running = lab(&sandbox, &args).spawn();
        first_has_run(&sandbox);
        running.signal(signal);
        let run = running.wait();
        run.exits(130);
        let record = run.json();
        assert_eq!(record["outcome"], "partial", "{signal:?}: {record}");
        let scenarios = record["lab"]["scenarios"].as_array().unwrap();
        let names: Vec<_> = scenarios.iter().map(|scenario| scenario["name"].as_str()).collect();
        assert_eq!(names, [Some("quick")], "{signal:?}: {record}");
        fs::remove_dir_all(sandbox.path("seen")).unwrap();
    }
    assert_eq!(fs::read_dir(sandbox.path("tmp")).unwrap().count(), 0);
}

/// As with nohup(1).
#[test]
fn who_ignores_hang_ups_goes_on() {
    let sandbox = Sandbox::new();
    sandbox.write("quick.toml", QUICK);
    sandbox.write("other.toml", QUICK);
    fs::create_dir(sandbox.path("tmp")).unwrap();
    let script = "trap '' HUP; exec \"$@\"";
    let run = ["run", "./quick.toml", "./other.toml", "--json", "--evidence", "seen"];
    let ignoring = sandbox.weir("sh", ["-c", script, "sh", WEIR, "lab"]).args(&run);
    if !ran(&lab(&sandbox, &["run", "./quick.toml"]).run()) {
        return;
    }
    let running = ignoring.env("TMPDIR", sandbox.path("tmp")).spawn();
    first_has_run(&sandbox);
    running.signal(Signal::HUP);
    let run = running.wait();
    let record = run.json();
    assert_eq!(record["lab"]["scenarios"].as_array().unwrap().len(), 2, "{record}");
    assert_ne!(run.status.code(), Some(130));
}

#[test]
fn evidence_that_cannot_be_kept_is_said_before_anything_runs() {
    let sandbox = Sandbox::new();
    sandbox.write("quick.toml", QUICK);
    if !ran(&lab(&sandbox, &["run", "./quick.toml"]).run()) {
        return;
    }
    let run = lab(&sandbox, &["run", "./quick.toml", "--evidence", "quick.toml/seen"]).run();
    run.fails(1, &["cannot make quick.toml/seen"]);
    assert_eq!(stdout(&run), "");
}

/// A copy over a path of 200 Mbit/s that text at 0.39 fills in a second.
const COPY: &str = r#"
title = "a short copy"
published = "nothing"
law = "link / ratio"

[path]
rate = "200Mbit"
delay = "1ms"

[workload.cp]
bytes = "20M"
args = ["--codec", "zstd:1"]

[[figure]]
of = "rate"
is = "50MB/s"
within = 0.8
"#;

#[test]
fn a_copy_to_a_real_sshd_is_judged_by_weir_and_by_weir_why() {
    let sandbox = Sandbox::new();
    sandbox.write("copy.toml", COPY);
    let gzip = COPY.replace("workload.cp", "workload.gzip").replace("args = [\"--codec\", \"zstd:1\"]", "");
    sandbox.write("gzip.toml", gzip.replace("50MB/s", "30MB/s"));
    let run = lab(&sandbox, &["run", "./copy.toml", "./gzip.toml", "--json"]).run();
    if !ran(&run) {
        return;
    }
    let record = run.json();
    for scenario in record["lab"]["scenarios"].as_array().unwrap() {
        assert_eq!(scenario["run"]["bytes"], 20_000_000, "{scenario}");
        assert!(scenario["run"]["verdicts"]["weir"]["shares"].is_object(), "weir's own verdict: {scenario}");
    }
    assert_eq!(fs::read_dir(sandbox.path("tmp")).unwrap().count(), 0);
    assert!(!processes(&sandbox));
}

/// Waits for a condition of the machine that nobody signals.
fn wait(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn mounts(sandbox: &Sandbox) -> bool {
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    table.contains(&*fs::canonicalize(sandbox.path("tmp")).unwrap().to_string_lossy())
}

fn loop_devices(sandbox: &Sandbox) -> bool {
    let folder = fs::canonicalize(sandbox.path("tmp")).unwrap();
    let files =
        fs::read_dir("/sys/block").unwrap().flatten().map(|entry| entry.path().join("loop/backing_file"));
    files
        .filter_map(|file| fs::read_to_string(file).ok())
        .any(|file| Path::new(file.trim()).starts_with(&folder))
}

/// Processes that have a path of the sandbox among their arguments.
fn processes(sandbox: &Sandbox) -> bool {
    let folder = sandbox.path("tmp").to_string_lossy().into_owned();
    let entries = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("cmdline"));
    entries
        .filter_map(|file| fs::read(file).ok())
        .any(|text| String::from_utf8_lossy(&text).contains(&folder))
}

/// Starts the long run and waits until its download writes to its disk; `None` where this machine does not
/// allow it.
fn long_run(sandbox: &Sandbox) -> Option<Running> {
    if !rustix::process::geteuid().is_root() {
        skip("only root can make a slow disk");
        return None;
    }
    let quick = lab(sandbox, &["run", &sandbox.write("quick.toml", QUICK).to_string_lossy()]).run();
    let disk = sandbox.write("disk.toml", LONG.replace("60M", "100K"));
    if !ran(&quick) || !ran(&lab(sandbox, &["run", &disk.to_string_lossy()]).run()) {
        return None;
    }
    let long = sandbox.write("long.toml", LONG);
    let running = lab(sandbox, &["run", &long.to_string_lossy()]).spawn();
    wait("the download", || {
        let folders = fs::read_dir(sandbox.path("tmp")).unwrap().flatten();
        let outputs = folders.map(|folder| folder.path().join("slow-disk/out"));
        outputs.into_iter().any(|output| fs::read_dir(output).is_ok_and(|files| files.count() > 0))
    });
    assert!(mounts(sandbox) && loop_devices(sandbox));
    Some(running)
}

#[test]
fn nothing_stays_behind_when_a_run_is_interrupted_or_killed() {
    let sandbox = Sandbox::new();
    for signal in [Signal::INT, Signal::HUP] {
        let Some(running) = long_run(&sandbox) else { return };
        running.signal(signal);
        running.wait().exits(130);
        assert!(!mounts(&sandbox) && !loop_devices(&sandbox) && !processes(&sandbox), "{signal:?}");
        assert_eq!(fs::read_dir(sandbox.path("tmp")).unwrap().count(), 0, "{signal:?}");
    }

    let Some(running) = long_run(&sandbox) else { return };
    running.signal(Signal::KILL);
    let run = running.wait();
    assert_eq!(run.status.code(), None, "killed");
    assert!(mounts(&sandbox), "a killed run can undo nothing");
    wait("the killed run's children", || !processes(&sandbox));
    let quick = sandbox.path("quick.toml").display().to_string();
    is_as_expected_or_late(&lab(&sandbox, &["run", &quick]).run());
    assert!(!mounts(&sandbox) && !loop_devices(&sandbox));
    assert_eq!(fs::read_dir(sandbox.path("tmp")).unwrap().count(), 0);
}

#[test]
fn a_users_own_folders_of_such_names_stay() {
    let sandbox = Sandbox::new();
    sandbox.write("quick.toml", QUICK);
    let own = ["weir-lab-results", "weir-lab-2026-07"].map(|name| sandbox.path("tmp").join(name));
    for folder in &own {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("kept"), "").unwrap();
    }
    if !ran(&lab(&sandbox, &["run", "./quick.toml"]).run()) {
        return;
    }
    assert!(own.iter().all(|folder| folder.join("kept").exists()), "{:?}", sandbox.names());
    assert_eq!(fs::read_dir(sandbox.path("tmp")).unwrap().count(), own.len());
}
