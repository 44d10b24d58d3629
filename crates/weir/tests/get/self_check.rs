//! `weir self-check` on machines that allow much and little: root's, an ordinary user's, a sandbox without
//! TUN and /sys, and some on which hardly anything works. What it says is compared with what the same user
//! finds by other means.
//!
//! Root makes each such machine out of its own, by mount and network namespaces.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use support::{Run, Sandbox, WEIR, Weir, skip};

/// The record, with time for machines that are busy.
const CHECK: &str = "self-check --json --timeout 30";

const TUN_FOR_ALL: &str = "mount -t tmpfs tmpfs /dev/net && mknod -m 666 /dev/net/tun c 10 200";
const TUN_FOR_ROOT: &str = "mount -t tmpfs tmpfs /dev/net && mknod -m 600 /dev/net/tun c 10 200";
const NO_TUN: &str = "mount -t tmpfs tmpfs /dev/net";
const NO_SYS: &str = "mount -t tmpfs tmpfs /sys";
const AS_NOBODY: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all";

/// Only root makes machines, and only of one that has a TUN device.
fn is_root() -> bool {
    let able = rustix::process::geteuid().is_root() && Path::new("/dev/net/tun").exists();
    if !able {
        skip("only root can make a machine with other rights, of one that has /dev/net/tun");
    }
    able
}

/// A shell script in a mount and network namespace of its own, where `./weir` is the binary under test and
/// `tmp` a folder for all.
fn on(sandbox: &Sandbox, script: &str) -> Run {
    fs::set_permissions(sandbox.path("."), Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(sandbox.path("tmp")).unwrap();
    fs::set_permissions(sandbox.path("tmp"), Permissions::from_mode(0o777)).unwrap();
    sandbox.write("weir", "");
    let script = format!("mount --bind {WEIR} weir && {script}");
    let made = ["--mount", "--net", "--propagation", "private", "sh", "-c", &script];
    sandbox.weir("unshare", made).run()
}

fn check(sandbox: &Sandbox) -> Weir {
    sandbox.weir(WEIR, CHECK.split(' '))
}

#[track_caller]
fn row<'a>(record: &'a Value, name: &str) -> &'a Value {
    let rows = record["self_check"]["rows"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}: {record}"))
}

/// Its state must be this, and its words must hold all of `words`.
#[track_caller]
fn is(record: &Value, name: &str, state: &str, words: &[&str]) {
    let row = row(record, name);
    assert_eq!(row["state"], state, "{row}");
    for word in words {
        assert!(row.to_string().contains(word), "'{word}' in {row}");
    }
}

/// What holds on every machine.
#[track_caller]
fn adds_up(record: &Value) {
    assert_eq!((&record["schema"], &record["command"]), (&"weir.run/1".into(), &"self-check".into()));
    let rows = record["self_check"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 21, "{record}");
    for row in rows {
        let is_empty = |member: &str| row[member].as_str().is_none_or(str::is_empty);
        assert!(!is_empty("reading") && !is_empty("origin") && !is_empty("about"), "{row}");
        let costs = !row["costs"].as_array().unwrap().is_empty();
        assert_eq!(costs, !row["way_out"].is_null(), "each loss has a way out: {row}");
        assert!(!(costs && row["state"] == "ok"), "{row}");
        assert!(!row["reading"].as_str().unwrap().contains("no answer"), "{row}");
    }
    let stopped = !record["self_check"]["stopped"].as_array().unwrap().is_empty();
    assert_eq!(record["outcome"], if stopped { "failed" } else { "complete" });
}

/// What capsh would call `cap_net_raw` and so on, of this process.
fn may(capability: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    u64::from_str_radix(mask, 16).unwrap() >> capability & 1 == 1
}

/// Interfaces of this network namespace, and processes that run this binary.
fn traces() -> (String, usize) {
    let interfaces = fs::read_to_string("/proc/net/dev").unwrap();
    let names: Vec<&str> = interfaces.lines().filter_map(|line| line.split(':').next()).collect();
    let checks = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        fs::read(entry.path().join("cmdline")).is_ok_and(|line| {
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains("--probe\0namespaces") || line.contains("--probe\0tun")
        })
    });
    (names.join(","), checks.count())
}

#[test]
fn root_is_told_what_root_may_do_and_nothing_stays() {
    if !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let before = traces().0;
    let run = check(&sandbox).run();
    let record = run.succeeds().json();
    adds_up(&record);
    assert_eq!(traces().0, before);
    assert_eq!(sandbox.names(), Vec::<String>::new());
    assert_eq!(record["self_check"]["user"], 0);
    for name in ["tcp-info", "socket-diag", "own-processes", "ssh", "folder"] {
        is(&record, name, "ok", &[]);
    }
    let lab = sandbox.weir(WEIR, ["lab", "shell", "--", "true"]).run().status.success();
    let (namespaces, tun) = if lab { ("ok", "ok") } else { ("missing", "missing") };
    is(&record, "namespaces", namespaces, &[]);
    is(&record, "tun", tun, &["TUNSETIFF"]);
    is(&record, "packet-sockets", if may(13) { "ok" } else { "missing" }, &["AF_PACKET"]);
    is(&record, "foreign-processes", if may(19) { "ok" } else { "limited" }, &["/proc/"]);
    let sysfs = fs::read_to_string("/proc/mounts").unwrap().contains(" /sys sysfs ");
    is(&record, "sys", if sysfs { "ok" } else { "missing" }, &[]);
    let default = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    assert!(row(&record, "congestion-controls")["reading"].as_str().unwrap().starts_with(default.trim()));
}

#[test]
fn an_ordinary_user_is_told_what_is_for_root() {
    if !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let run = on(&sandbox, &format!("{TUN_FOR_ROOT} && exec {AS_NOBODY} ./weir {CHECK}"));
    let record = run.succeeds().json();
    adds_up(&record);
    assert_eq!(record["self_check"]["user"], 65534);
    for name in ["tcp-info", "socket-diag", "own-processes"] {
        is(&record, name, "ok", &[]);
    }
    is(
        &record,
        "foreign-processes",
        "limited",
        &["process", "shows stat and task", "not wchan, syscall, io and fd", "sudo weir why"],
    );
    is(&record, "packet-sockets", "missing", &["operation not permitted", "--via udp"]);
    is(&record, "echo-sockets", "missing", &["ping_group_range is '1 0'", "rtt-echo"]);
    is(&record, "folder", "limited", &["permission denied", "-o DIR/"]);
    if row(&record, "control-groups")["state"] != "missing" {
        is(&record, "control-groups", "limited", &["this user may make none", "sudo weir lab"]);
    }
    // Whatever the kernel says of user namespaces, the device is root's.
    is(&record, "tun", "missing", &["weir lab cannot emulate a path"]);

    let script = "cd tmp && ../weir lab shell -- true; echo $? >&2; exec ../weir";
    let run = on(&sandbox, &format!("{TUN_FOR_ALL} && exec {AS_NOBODY} sh -c '{script} {CHECK}'"));
    let record = run.succeeds().json();
    let (namespaces, tun) = match run.stderr.trim() == "0" {
        true => ("limited", "ok"),
        false => ("missing", "missing"),
    };
    is(&record, "namespaces", namespaces, &[]);
    is(&record, "tun", tun, &[]);
    is(&record, "folder", "ok", &["files without a name"]);
    assert_eq!(fs::read_dir(sandbox.path("tmp")).unwrap().count(), 0);
}

#[test]
fn in_a_sandbox_without_tun_and_sys_transfers_have_all_they_need() {
    if !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let lacks = |record: &Value| {
        adds_up(record);
        is(record, "sys", "missing", &["mount -t sysfs"]);
        is(record, "control-groups", "missing", &["processor quota"]);
        is(record, "cpu-frequency", "missing", &["/sys/"]);
        is(record, "writeback", "limited", &["the machine's limit is", "no writeback limits of device"]);
        is(record, "tun", "missing", &["/dev/net/tun", "modprobe tun"]);
        for name in ["tcp-info", "socket-diag", "own-processes", "ssh"] {
            is(record, name, "ok", &[]);
        }
        assert!(row(record, "clock")["reading"].as_str().unwrap().starts_with("a source that is not told, "));
        assert_eq!(record["self_check"]["stopped"].as_array().unwrap().len(), 0);
    };
    let machine = format!("{NO_SYS} && {NO_TUN}");
    lacks(&on(&sandbox, &format!("{machine} && exec ./weir {CHECK}")).succeeds().json());

    // As an ordinary user who may make user namespaces, and in one of them whose own rules forbid more.
    let no_more = format!(
        "{machine} && echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all ./weir {CHECK}"
    );
    let run = on(
        &sandbox,
        &format!("exec {AS_NOBODY} unshare --user --map-root-user --mount --net sh -c '{no_more}'"),
    );
    if run.stdout.is_empty() {
        return skip(&run.stderr);
    }
    let record = run.succeeds().json();
    for name in ["sys", "control-groups", "tun", "packet-sockets"] {
        is(&record, name, "missing", &[]);
    }
    is(&record, "namespaces", "missing", &["user.max_user_namespaces", "weir lab cannot emulate a path"]);
}

#[test]
fn what_a_command_cannot_do_without_is_an_exit_code() {
    let sandbox = Sandbox::new();
    let run = check(&sandbox).env("PATH", "/nonexistent").run();
    let record = run.exits(1).json();
    adds_up(&record);
    is(&record, "ssh", "missing", &["weir cp reaches no other host"]);
    assert_eq!(record["self_check"]["stopped"], serde_json::json!(["cp"]));

    let run = sandbox.weir(WEIR, ["self-check", "--timeout", "30"]).env("PATH", "").run();
    let text = String::from_utf8_lossy(&run.exits(1).stdout).into_owned();
    assert!(text.ends_with("\nweir cp cannot do without what is missing here: ssh\n"), "{text}");
    let run = sandbox.weir(WEIR, ["self-check", "-q", "--timeout", "30"]).env("PATH", "").run();
    assert!(run.exits(1).stdout.is_empty() && run.stderr.is_empty(), "{}", run.stderr);
    sandbox.weir(WEIR, ["self-check", "--probe", "tea"]).run().fails(2, &["no ability is called 'tea'"]);
}

#[test]
fn with_hardly_any_descriptors_it_still_answers() {
    let sandbox = Sandbox::new();
    let run = sandbox.weir("sh", ["-c", &format!("ulimit -n 9 && exec {WEIR} {CHECK}")]).run();
    let record = run.exits(1).json();
    adds_up(&record);
    is(&record, "descriptors", "missing", &["at most 9 at once"]);
}

#[test]
fn without_proc_it_still_answers() {
    if !is_root() {
        return;
    }
    let run = on(&Sandbox::new(), &format!("mount -t tmpfs tmpfs /proc && exec ./weir {CHECK}"));
    let record = run.exits(1).json();
    adds_up(&record);
    is(&record, "own-processes", "missing", &["mount -t proc"]);
    is(&record, "foreign-processes", "missing", &["there is no /proc"]);
    is(&record, "writeback", "missing", &["/proc/vmstat"]);
}

#[test]
fn a_probe_that_waits_for_ever_is_left_behind() {
    if !is_root() {
        return;
    }
    if !Path::new("/proc/pressure/cpu").exists() {
        return skip("there is no /proc/pressure to put something in its place");
    }
    // Whoever opens a FIFO waits for a writer.
    let script = "mkfifo tmp/fifo && mount --bind tmp/fifo /proc/pressure/cpu && exec ./weir self-check --json --timeout 0.2";
    let record = on(&Sandbox::new(), script).json();
    is(&record, "pressure", "missing", &["no answer within 0.2 s"]);
}
