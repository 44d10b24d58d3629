//! `weir bench mem`: what its record holds, how it ends, and what it says of hosts that hide things.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use rustix::process::Signal;
use serde_json::Value;
use support::{Run, Sandbox, WEIR, Weir, skip, wait_for};

/// `weir bench mem --quick ARGS`, on little memory.
fn mem(sandbox: &Sandbox, args: &[&str]) -> Weir {
    sandbox.weir(WEIR, ["bench", "mem", "--quick", "--up-to", "4MiB"]).args(args)
}

fn stdout(run: &Run) -> String {
    String::from_utf8_lossy(&run.stdout).into_owned()
}

fn missing(record: &Value) -> String {
    record["mem"]["missing"].to_string()
}

#[test]
fn the_record_has_levels_that_rise() {
    let sandbox = Sandbox::new();
    let record = mem(&sandbox, &["--json", "--threads", "1,2"]).run().succeeds().json();
    assert_eq!((&record["schema"], &record["command"]), (&"weir.run/1".into(), &"bench".into()));
    let levels = record["mem"]["levels"].as_array().unwrap();
    assert!(!levels.is_empty());
    let figure =
        |level: &Value, name: &str| level[name].as_f64().unwrap_or_else(|| panic!("{name} of {level}"));
    for level in levels {
        assert!(figure(level, "size") > 0.0 && figure(level, "throughput") > 0.0, "{level}");
        assert!(figure(level, "latency_ns") > 0.0, "{level}");
    }
    assert_eq!(levels[levels.len() - 1]["name"], "memory");
    assert!(levels.windows(2).all(|two| figure(&two[0], "latency_ns") < figure(&two[1], "latency_ns")));
    assert_eq!(record["mem"]["most"], 4 << 20);
    assert_eq!(record["mem"]["threads"][1]["threads"], 2);
    assert!(figure(&record["mem"]["overhead"], "clock_ns") > 0.0);
    for curve in ["latency", "latency_small_pages", "rates", "mountain"] {
        assert!(record["mem"][curve].as_array().unwrap().len() >= 10, "{curve}");
    }
}

#[test]
fn people_get_a_table_and_the_quiet_nothing() {
    let sandbox = Sandbox::new();
    let text = stdout(mem(&sandbox, &[]).run().succeeds());
    for word in ["processor", "system says", "L1", "memory", "ns", "GB/s"] {
        assert!(text.contains(word), "no '{word}':\n{text}");
    }
    assert!(stdout(mem(&sandbox, &["-q"]).run().succeeds()).is_empty());
}

#[test]
fn a_page_has_the_levels_and_the_mountain() {
    let sandbox = Sandbox::new();
    mem(&sandbox, &["-q", "--report", "mem.html"]).run().succeeds();
    let page = std::fs::read_to_string(sandbox.path("mem.html")).unwrap();
    let mountain = ["The memory mountain", "facet", "Reads by working set and stride", "heat h7"];
    let curves = ["Latency by working set", "Throughput by working set", "in pages of 4 KiB"];
    for fact in ["Caches and memory", "system says", "L1"].iter().chain(&mountain).chain(&curves) {
        assert!(page.contains(fact), "no '{fact}'");
    }
    // The ends of caches that were found are marked in both pictures of curves.
    let marks = page.matches("class=\"strong\">L1<").count();
    assert!(marks >= 2, "{marks} marks");
}

#[test]
fn an_interrupt_ends_it_with_what_there_is() {
    let sandbox = Sandbox::new();
    // Rounds enough that it cannot have ended before the signal comes: its line of progress is not shown
    // here, so the signal waits for the memory that it maps.
    let running = sandbox.weir(WEIR, ["bench", "mem", "--up-to", "256MiB", "--json"]).spawn();
    wait_for("its memory", || running.resident() > 200 << 20);
    running.signal(Signal::INT);
    let record = running.wait().exits(130).json();
    assert_eq!(record["outcome"], "partial");
    assert!(missing(&record).contains("interrupted"), "{record}");
}

#[test]
fn too_little_memory_is_said() {
    let sandbox = Sandbox::new();
    let script = format!("ulimit -v 300000; exec {WEIR} bench mem --up-to 512MiB");
    let run = sandbox.weir("sh", ["-c", &script]).run();
    run.fails(1, &["cannot map", "cannot allocate memory", "ask for less (--up-to)"]);
}

/// Runs `script` with a file system of its own for each of `hidden`, which hides what is there.
fn without(sandbox: &Sandbox, hidden: &[&str], script: &str) -> Option<Run> {
    if !rustix::process::geteuid().is_root() {
        skip("only root can hide /sys and /proc");
        return None;
    }
    let hide: String = hidden.iter().map(|path| format!("mount -t tmpfs none {path} && ")).collect();
    let script = format!("{hide}exec {script}");
    Some(sandbox.weir("unshare", ["-m", "sh", "-c", &script]).run())
}

#[test]
fn a_host_that_names_no_caches() {
    let sandbox = Sandbox::new();
    let script = format!("{WEIR} bench mem --quick --up-to 2MiB --json");
    let Some(run) = without(&sandbox, &["/sys"], &script) else { return };
    let record = run.succeeds().json();
    assert!(missing(&record).contains("the system names no caches"), "{record}");
    assert!(!record["mem"]["levels"].as_array().unwrap().is_empty());
}

#[test]
fn a_host_that_tells_nothing() {
    let sandbox = Sandbox::new();
    let script = format!("{WEIR} bench mem --quick --up-to 2MiB --json");
    let Some(run) = without(&sandbox, &["/sys", "/proc"], &script) else { return };
    let record = run.succeeds().json();
    assert!(missing(&record).contains("/proc/self/smaps does not say"), "{record}");
    assert!(record["mem"]["huge_pages"].is_null());
    let levels = record["mem"]["levels"].as_array().unwrap();
    assert!(levels[levels.len() - 1]["size"].is_null(), "{record}");
}

#[test]
fn bad_words() {
    let sandbox = Sandbox::new();
    let cases: &[(&[&str], &[&str])] = &[
        (&["--up-to", "1k"], &["1MiB to 64GiB"]),
        (&["--up-to", "lots"], &["invalid size 'lots'"]),
        (&["--threads", "0"], &["--threads"]),
        (&["--threads", ""], &["--threads"]),
        (&["--for", "1s"], &["--for"]),
        (&["DIR"], &["DIR"]),
    ];
    for (args, says) in cases {
        sandbox.weir(WEIR, ["bench", "mem"]).args(args).run().fails(2, says);
    }
}
