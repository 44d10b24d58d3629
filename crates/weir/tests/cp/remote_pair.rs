//! `weir cp one:x two:y` against a real sshd: between two far hosts, directly, through here, and inside both
//! ssh connections.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use rustix::process::Signal;
use support::{MIB, Sandbox, Sshd, pattern, wait_for};

fn on(host: &str, sandbox: &Sandbox, name: &str) -> String {
    format!("{host}:{}", sandbox.path(name).display())
}

fn same(sandbox: &Sandbox, one: &str, other: &str) {
    let (one, other) = (sandbox.read(one), sandbox.read(other));
    assert!(one == other, "{} bytes, not the {} that were sent", other.len(), one.len());
}

#[test]
fn a_file_goes_from_one_host_to_the_other_however_the_lanes_are_made() {
    let Some(sshd) = Sshd::start() else { return };
    for (how, transport) in [
        (&[][..], "tcp"),
        (&["-3"], "relay"),
        (&["-3", "--plain", "-c", "3"], "relay"),
        (&["-3", "--transport", "tcp"], "relay"),
        (&["--transport", "ssh"], "ssh"),
        (&["-c", "4"], "tcp"),
    ] {
        let sandbox = Sandbox::new();
        sandbox.write("a", pattern(9 * MIB + 77, 1));
        let (from, to) = (on("one", &sandbox, "a"), on("two", &sandbox, "b"));
        let run = sshd.cp(&sandbox, how).args(&["--json", &from, &to]).run();
        let record = run.succeeds().json();
        same(&sandbox, "a", "b");
        assert_eq!(sandbox.names(), ["a", "b"], "nothing is left beside them");
        assert_eq!(record["outcome"], "complete");
        assert_eq!(record["bytes"], 9 * MIB + 77);
        assert_eq!(record["cp"]["files"], 1);
        assert_eq!(record["cp"]["from"], "one");
        assert_eq!(record["cp"]["host"], "two");
        assert_eq!(record["cp"]["transport"], transport, "{how:?}");
    }
}

#[test]
fn what_both_ends_saw_is_judged_here() {
    let Some(sshd) = Sshd::start() else { return };
    for how in ["-c2", "-3"] {
        let sandbox = Sandbox::new();
        sandbox.write("a", pattern(12 * MIB, 1));
        let (from, to) = (on("one", &sandbox, "a"), on("two", &sandbox, "b"));
        let run = sshd.copies(&sandbox, &["--json", "--limit-rate", "3Mi", how, &from, &to]);
        // The share alone: beside two sshds on a busy machine another limit may hold for a while as well.
        let record = run.succeeds().json();
        let verdict = &record["verdict"];
        let share = verdict["shares"]["rate-limit"].as_f64().unwrap_or(0.0);
        assert!(share > 0.5, "a limit that only the sender knows: {verdict:#}");
    }
}

#[test]
fn a_tree_goes_as_it_would_from_here() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("tree/sub/deep")).unwrap();
    for index in 0..200 {
        sandbox.write(&format!("tree/sub/f{index}"), pattern(index * 40, index as u64));
    }
    sandbox.write("tree/large", pattern(3 * MIB, 5));
    let (from, to) = (on("one", &sandbox, "tree/"), on("two", &sandbox, "copy"));
    let record = sshd.copies(&sandbox, &["--json", &from, &to]).succeeds().json();
    assert_eq!(record["cp"]["files"], 201);
    same(&sandbox, "tree/large", "copy/large");
    same(&sandbox, "tree/sub/f199", "copy/sub/f199");
    sandbox.write("tree/sub/f7", "another");
    sandbox.write("copy/extra", "extra");
    let dry = sshd.copies(&sandbox, &["-q", "-u", "-n", "--delete", &from, &to]);
    let mut lines: Vec<&str> = std::str::from_utf8(&dry.succeeds().stdout).unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["copy sub/f7", "delete extra"]);
    let record = sshd.copies(&sandbox, &["--json", "-u", "--delete", &from, &to]).succeeds().json();
    assert_eq!(record["cp"]["unchanged"], 200);
    same(&sandbox, "tree/sub/f7", "copy/sub/f7");
    assert!(!sandbox.path("copy/extra").exists());
}

#[test]
fn an_interrupted_copy_goes_on() {
    let Some(sshd) = Sshd::start() else { return };
    for how in [&[][..], &["-3"], &["--transport", "ssh"]] {
        let sandbox = Sandbox::new();
        sandbox.write("a", pattern(24 * MIB, 1));
        let (from, to) = (on("one", &sandbox, "a"), on("two", &sandbox, "b"));
        let running = sshd.cp(&sandbox, how).args(&["-q", "--limit-rate", "6Mi", &from, &to]).spawn();
        let part = sandbox.path(".b.weir-part");
        // Space is reserved at once; what was written shows as the journal behind it grows.
        wait_for("a part that grows", || {
            part.metadata().is_ok_and(|part| part.len() >= 24 * MIB as u64 + 512)
        });
        running.signal(Signal::INT);
        running.wait().exits(130);
        let record = sshd.cp(&sandbox, how).args(&["--json", &from, &to]).run().succeeds().json();
        same(&sandbox, "a", "b");
        assert!(record["resumed"].as_u64().unwrap_or(0) >= MIB as u64, "{record}");
        assert_eq!(sandbox.names(), ["a", "b"]);
    }
}

#[test]
fn errors_say_which_host() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a", "text");
    let on = |host: &str, name: &str| on(host, &sandbox, name);
    let refuses = |args: &[&str], code: i32, texts: &[&str]| {
        sshd.copies(&sandbox, args).fails(code, texts);
    };
    refuses(&[&on("one", "none"), &on("two", "b")], 1, &["one: cannot read", "no such file"]);
    refuses(&[&on("one", "a"), &on("two", "none/b")], 1, &["two: cannot open", "no such file"]);
    refuses(&[&on("one", "a"), &on("two", "a")], 1, &["two: ", "source and target are the same"]);
    refuses(&[&on("one", "a"), "nowhere.invalid:b"], 1, &["cannot reach nowhere.invalid"]);
    refuses(&["nowhere.invalid:b", &on("two", "a")], 1, &["cannot reach nowhere.invalid"]);
    refuses(&[&on("one", "a"), &on("far", "a"), &on("two", "b")], 2, &["different hosts"]);
    std::fs::create_dir(sandbox.path("tree")).unwrap();
    std::fs::create_dir_all(sandbox.path("copy/a")).unwrap();
    sandbox.write("tree/b", "text");
    // One file cannot be put there; the others go on. Of a small one the receiver says so itself, of a larger
    // one the sender, which is told at its end, or before its first block.
    for size in [4, 300_000, 5 * MIB] {
        sandbox.write("tree/a", pattern(size, 1));
        refuses(&[&on("one", "tree/"), &on("two", "copy")], 1, &["two: cannot put a file at a"]);
        same(&sandbox, "tree/b", "copy/b");
    }
}

/// The one who drives sees what the sender has found, though neither walk nor files are here.
#[test]
fn a_list_from_here_says_what_goes_between_them() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("tree/sub")).unwrap();
    for name in ["tree/a", "tree/b", "tree/sub/c", "tree/sub/d"] {
        sandbox.write(name, name);
    }
    let (from, to) = (on("one", &sandbox, "tree"), on("two", &sandbox, "copy"));
    let run = sshd.cp(&sandbox, &["-q", "--files-from", "-", &from, &to]).input("a\nsub/d\nnone\n").run();
    run.fails(1, &["one: ", "none", "no such file"]);
    let there: Vec<String> = sandbox.names().into_iter().filter(|name| name.starts_with("copy")).collect();
    assert_eq!(there, ["copy/", "copy/a", "copy/sub/", "copy/sub/d"]);
}

/// Two hosts, each on a wire of its own to the one in the middle, which forwards nothing between them; then
/// what is to be run in the middle.
const APART: &str = r#"
set -e
PATH=$PATH:/usr/sbin:/sbin
trap 'kill $ends 2>/dev/null' EXIT
ip link set lo up
for n in 1 2; do
    unshare -n sleep 600 &
    end=$!
    ends="$ends $end"
    while [ "$(readlink /proc/$end/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do :; done
    ip link add wire$n type veth peer name wire netns $end
    ip addr add 10.91.$n.1/24 dev wire$n
    ip link set wire$n up
    nsenter -t $end -n ip link set lo up
    nsenter -t $end -n ip addr add 10.91.$n.2/24 dev wire
    nsenter -t $end -n ip link set wire up
    nsenter -t $end -n "$SSHD" -D -e -f "$CONFIG" &
    ends="$ends $!"
    until (exec 3<>/dev/tcp/10.91.$n.2/2222) 2>/dev/null; do kill -0 $!; done
done
"$@"
"#;

#[test]
fn where_neither_reaches_the_other_the_data_go_through_here() {
    let Some(sshd) = Sshd::start() else { return };
    if !rustix::process::geteuid().is_root() {
        return support::skip("only root makes networks");
    }
    let read = |name: &str| std::fs::read_to_string(sshd.path(name)).unwrap();
    let here = |name: &str| sshd.path(name).display().to_string();
    let lines = |text: String, without: &[&str]| -> String {
        let kept = text.lines().filter(|line| !without.iter().any(|word| line.trim().starts_with(word)));
        kept.map(|line| format!("{line}\n")).collect()
    };
    let config = lines(read("sshd_config"), &["Port", "ListenAddress"]) + "Port 2222\n";
    std::fs::write(sshd.path("apart_sshd"), config).unwrap();
    let both = lines(read("ssh_config"), &["Host", "Port"]);
    let client: String = [("one", 1), ("two", 2)]
        .map(|(name, wire)| format!("Host {name}\n HostName 10.91.{wire}.2\n Port 2222\n{both}"))
        .concat();
    std::fs::write(sshd.path("apart_ssh"), client).unwrap();
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(5 * MIB, 1));
    for (how, transport) in [("tcp", "relay"), ("ssh", "ssh")] {
        let (from, to) = (on("one", &sandbox, "a"), on("two", &sandbox, transport));
        let cp = [support::WEIR, "cp", "-F", &here("apart_ssh"), "--json", "--transport", how, &from, &to];
        let run = sandbox.weir("unshare", ["-n", "bash", "-c", APART, "bash"]).args(&cp);
        let run = run.env("SSHD", Sshd::program()).env("CONFIG", sshd.path("apart_sshd")).run();
        let record = run.succeeds().json();
        same(&sandbox, "a", transport);
        assert_eq!(record["cp"]["transport"], transport);
        let tried: Vec<&str> =
            record["cp"]["tried"].as_array().unwrap().iter().filter_map(|why| why.as_str()).collect();
        if how == "tcp" {
            assert!(tried[0].starts_with("from one to two: 10.91.2.2:"), "{tried:?}");
            assert!(tried[1].starts_with("from two to one: 10.91.1.2:"), "{tried:?}");
        }
    }
}
