//! The lab on machines that do not allow it all: ordinary users, no /dev/net/tun, no namespaces. What is
//! missing is said with the way out, and what still works goes on.
//!
//! Root makes each such machine out of its own: a mount namespace with another /dev/net, a user namespace
//! with no rights, and from there becomes nobody.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use support::{QUICK, Run, Sandbox, WEIR, Weir, skip};

/// /dev/net as a private folder with a TUN device of its own, for everybody.
const TUN_FOR_ALL: &str = "mount -t tmpfs tmpfs /dev/net && mknod -m 666 /dev/net/tun c 10 200";

/// The same, for root.
const TUN_FOR_ROOT: &str = "mount -t tmpfs tmpfs /dev/net && mknod -m 600 /dev/net/tun c 10 200";

const NO_TUN: &str = "mount -t tmpfs tmpfs /dev/net";

/// Becomes a user without any right, in a folder of its own.
const AS_NOBODY: &str = "exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all";

/// `weir ARGS` on a machine that `setup` makes out of this one, started by `prefix`.
fn weir_on(sandbox: &Sandbox, setup: &str, prefix: &str, args: &[&str]) -> Weir {
    on(sandbox, setup, &format!("{prefix} ./weir \"$@\"")).args(args)
}

/// A shell command on such a machine, where `./weir` is the binary under test.
fn on(sandbox: &Sandbox, setup: &str, command: &str) -> Weir {
    // Where nobody can enter and execute.
    fs::set_permissions(sandbox.path("."), Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(sandbox.path("tmp")).unwrap();
    fs::set_permissions(sandbox.path("tmp"), Permissions::from_mode(0o777)).unwrap();
    sandbox.write("weir", "");
    let script = format!("mount --bind {WEIR} weir && {setup} && {command}");
    sandbox
        .weir("unshare", ["--mount", "--propagation", "private", "sh", "-c", &script, "sh"])
        .env("TMPDIR", sandbox.path("tmp"))
}

/// Whether such machines can be made here, and have a lab when nothing is taken away.
fn possible() -> bool {
    let sandbox = Sandbox::new();
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/net/tun").exists() {
        skip("only root can make a machine with other rights, of one that has /dev/net/tun");
        return false;
    }
    let run = weir_on(&sandbox, TUN_FOR_ALL, "exec", &["lab", "shell", "--", "true"]).run();
    if !run.status.success() {
        skip(&run.stderr);
    }
    run.status.success()
}

fn stdout(run: &Run) -> String {
    String::from_utf8_lossy(&run.stdout).into_owned()
}

/// Says no in one line.
fn refuses(run: &Run, texts: &[&str]) {
    run.fails(1, texts);
    assert_eq!(run.stderr.trim().lines().count(), 1, "{}", run.stderr);
}

#[test]
fn an_ordinary_user_gets_a_shell_on_a_slow_path() {
    if !possible() {
        return;
    }
    let sandbox = Sandbox::new();
    let script = "id -u && curl -sS -o /dev/null -w '%{size_download} %{time_connect}' $WEIR_LAB_URL/1M";
    let args = ["lab", "shell", "--delay", "10ms", "--", "sh", "-c", script];
    let run = weir_on(&sandbox, TUN_FOR_ALL, AS_NOBODY, &args).run();
    if run.stderr.contains("cannot make a user namespace") {
        return skip(&run.stderr);
    }
    run.succeeds();
    let text = stdout(&run);
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words[..2], ["65534", "1000000"], "{words:?}");
    assert!(words[2].parse::<f64>().unwrap() >= 0.020, "{words:?}");
}

#[test]
fn an_ordinary_user_runs_what_can_be_run() {
    if !possible() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.write("quick.toml", QUICK);
    sandbox.write("disk.toml", format!("{QUICK}\n[near.disk]\nrate = \"1MB/s\"\n"));
    sandbox.write("core.toml", format!("{QUICK}\n[near.core]\nquota = \"50%\"\n"));
    let files = ["lab", "run", "quick.toml", "disk.toml", "core.toml"];
    let run = weir_on(&sandbox, TUN_FOR_ALL, AS_NOBODY, &files).run();
    let text = stdout(&run);
    if text.contains("cannot make a user namespace") || run.stderr.contains("cannot make a user namespace") {
        return skip(&text);
    }
    // Where the machine is busy the one that runs may be late, and says so.
    let is_late = text.contains("late on each round trip");
    assert!(run.status.success() || is_late, "{text}\n{}", run.stderr);
    for words in [
        if is_late { "skipped: disk, core" } else { "1 of 3 as expected; skipped: disk, core" },
        "a slow disk can only be made by root",
        "a quota of processor time can only be set by root",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(fs::read_dir(sandbox.path("tmp")).unwrap().count(), 0);
}

#[test]
fn a_device_that_is_closed_or_missing_is_said() {
    if !possible() {
        return;
    }
    let sandbox = Sandbox::new();
    let args = ["lab", "shell", "--", "true"];
    let closed = weir_on(&sandbox, TUN_FOR_ROOT, AS_NOBODY, &args).run();
    if closed.stderr.contains("cannot make a user namespace") {
        return skip(&closed.stderr);
    }
    refuses(&closed, &["cannot open /dev/net/tun: permission denied", "or run as root"]);
    let missing = weir_on(&sandbox, NO_TUN, "exec", &args).run();
    refuses(&missing, &["cannot open /dev/net/tun: no such file", "modprobe tun"]);
    sandbox.write("quick.toml", QUICK);
    let run = weir_on(&sandbox, NO_TUN, "exec", &["lab", "run", "quick.toml"]).run();
    run.exits(1);
    assert!(
        stdout(&run).contains("skipped: quick") && stdout(&run).contains("modprobe tun"),
        "{}",
        stdout(&run)
    );
    // What needs no path still works.
    weir_on(&sandbox, NO_TUN, "exec", &["lab", "show", "b1", "--tc"]).run().succeeds();
}

/// In a user namespace whose limits are `limits`, without the rights that come with it where `rights` says
/// so.
fn without(sandbox: &Sandbox, limits: &str, rights: &str) -> Run {
    let nested = format!("{limits}; exec {rights} ./weir lab shell -- true");
    on(sandbox, TUN_FOR_ALL, &format!("exec unshare --user --map-root-user sh -c '{nested}'")).run()
}

#[test]
fn namespaces_that_are_used_up_or_forbidden_are_said() {
    if !possible() {
        return;
    }
    let sandbox = Sandbox::new();
    let allowed = without(&sandbox, ":", "");
    if !allowed.status.success() {
        return skip(&allowed.stderr);
    }
    let network = without(&sandbox, "echo 0 >/proc/sys/user/max_net_namespaces", "");
    refuses(
        &network,
        &["cannot make a network namespace: no space left", "sysctl -w user.max_net_namespaces"],
    );
    let powerless = "setpriv --inh-caps=-all --bounding-set=-all";
    let user = without(&sandbox, "echo 0 >/proc/sys/user/max_user_namespaces", powerless);
    refuses(&user, &["cannot make a user namespace: no space left", "sysctl -w user.max_user_namespaces"]);
}
