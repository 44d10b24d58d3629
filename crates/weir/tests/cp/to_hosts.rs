//! `weir cp --to-hosts`: one source to many hosts, each of which is a folder here and a process of its own,
//! behind a program in ssh's place. Hosts are killed, full, or not there at all: all others have every byte,
//! and each is told of by its name.
//!
//! 5 random kills by default; `WEIR_SOAK=400` for 100, `WEIR_SEED=N` for a run again.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Dice, MIB, Sandbox, WEIR, Weir, pattern, wait_for};
use weir_lab::leftovers::Folder;
use weir_lab::slow_disk::{SlowDisk, SlowDiskConfig};
use weir_units::{Bytes, Rate};

/// What runs in ssh's place: a host is a folder, which is its home, and one that has no folder cannot be
/// reached.
const SSH: &str = r#"#!/bin/sh
while [ "$1" != -- ]; do [ "$1" = -V ] && exit 0; shift; done
home=$HOSTS/$2
cd "$home" 2>/dev/null || { echo "ssh: connect to host $2: No route to host" >&2; exit 255; }
shift 2
HOME=$home XDG_CACHE_HOME=$HOSTS/../cache exec sh -c "$*"
"#;

/// Hosts and the machine that has the source.
pub(crate) struct Site {
    pub(crate) sandbox: Sandbox,
}

impl Site {
    pub(crate) fn new(hosts: &[&str]) -> Site {
        let sandbox = Sandbox::new();
        let ssh = sandbox.write("ssh", SSH);
        std::fs::set_permissions(ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
        for host in hosts {
            std::fs::create_dir_all(sandbox.path("hosts").join(host)).unwrap();
        }
        Site { sandbox }
    }

    pub(crate) fn cp(&self, args: &[&str]) -> Weir {
        let ssh = self.sandbox.path("ssh").display().to_string();
        // The program itself, not a copy in each cache.
        let cp = self.sandbox.weir(WEIR, ["cp", "-S", &ssh, "--far-program", WEIR]);
        cp.env("HOSTS", self.sandbox.path("hosts")).args(args)
    }

    pub(crate) fn on(&self, host: &str, name: &str) -> Vec<u8> {
        self.sandbox.read(&format!("hosts/{host}/{name}"))
    }

    /// What is in a host's folder, names alone.
    pub(crate) fn names_on(&self, host: &str) -> Vec<String> {
        let below = format!("hosts/{host}/");
        let names = self.sandbox.names().into_iter();
        names
            .filter_map(|name| name.strip_prefix(&below).map(str::to_owned))
            .filter(|name| !name.is_empty())
            .collect()
    }

    /// The processes of a host.
    pub(crate) fn peers(&self, host: &str) -> Vec<Pid> {
        let home = self.sandbox.path("hosts").join(host).canonicalize().unwrap();
        let is_peer = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let at = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            line.ends_with(b"\0peer\0") && at == home
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(is_peer).filter_map(Pid::from_raw).collect()
    }

    pub(crate) fn kill(&self, host: &str) {
        self.peers(host).into_iter().for_each(kill);
    }

    /// Stops the processes of a host, which hold what they hold. Returns them.
    pub(crate) fn stop(&self, host: &str) -> Vec<Pid> {
        let peers = self.peers(host);
        for peer in &peers {
            let _ = kill_process(*peer, Signal::STOP);
        }
        peers
    }

    /// Bytes of the file's journal on a host tell that blocks came.
    pub(crate) fn await_blocks(&self, host: &str, part: &str, size: usize) {
        let part = self.sandbox.path(format!("hosts/{host}/{part}"));
        wait_for(&format!("blocks on {host}"), || {
            part.metadata().is_ok_and(|part| part.len() >= size.next_multiple_of(MIB) as u64 + 128 + 96)
        });
    }
}

/// Ends a process, which may have ended by itself.
pub(crate) fn kill(process: Pid) {
    let _ = kill_process(process, Signal::KILL);
}

/// The rows of a record, each by its host.
pub(crate) fn row<'a>(record: &'a Value, host: &str) -> &'a Value {
    let rows = record["cp"]["hosts"].as_array().unwrap();
    rows.iter().find(|row| row["host"] == host).unwrap()
}

/// The hosts are one chain from `first` on: nobody sends to two. Who comes after whom is the machine's to
/// decide where all hosts are one: whoever starts late is put behind the last.
#[track_caller]
pub(crate) fn is_one_chain(record: &Value, first: &Value, hosts: &[&str]) {
    let mut senders: Vec<&Value> = hosts.iter().map(|host| &row(record, host)["from"]).collect();
    assert!(senders.contains(&first), "{record}");
    senders.sort_by_key(|sender| sender.to_string());
    senders.dedup();
    assert_eq!(senders.len(), hosts.len(), "{record}");
}

/// The hosts of each pair have it from `first` or from each other, never from the other pair, and at least
/// one pair is a chain. Not always both: on a busy machine a host may come up seconds late, and has it from
/// `first` too if its mate is complete by then.
#[track_caller]
pub(crate) fn are_chains(record: &Value, first: &Value, pairs: [[&str; 2]; 2]) {
    let from = |host: &str| &row(record, host)["from"];
    for [one, other] in pairs {
        assert!(from(one) == first || from(one) == other, "{one}: {record}");
        assert!(from(other) == first || from(other) == one, "{other}: {record}");
    }
    let passes_on = |[one, other]: [&str; 2]| from(one) == other || from(other) == one;
    assert!(pairs.into_iter().any(passes_on), "{record}");
}

/// No host was taken out, except for a rate far below its feeder's: a busy machine may do that to any host.
/// If a host is blamed for the silence of another, the reason is "took nothing" or "stopped answering".
#[track_caller]
pub(crate) fn blames_nobody(record: &Value, hosts: &[&str]) {
    for host in hosts {
        let taken_out = row(record, host)["taken_out"].as_array().unwrap();
        let is_slow = |why: &str| why.contains(" took ") && why.contains(" where ");
        assert!(taken_out.iter().all(|why| why.as_str().is_some_and(is_slow)), "{host}: {record}");
    }
}

/// A pipe is read once, and every session that begins here has all of it: that of each chain, and of a host
/// that came late.
#[test]
fn names_that_come_through_a_pipe_reach_every_host() {
    let site = Site::new(&["a", "b"]);
    std::fs::create_dir(site.sandbox.path("tree")).unwrap();
    let names: Vec<String> = (0..200).map(|number| format!("f{number}")).collect();
    for name in &names {
        site.sandbox.write(&format!("tree/{name}"), name);
    }
    site.sandbox.write("tree/other", "is not named");
    site.sandbox.write("names", names.join("\n"));
    let piped = |args: &[&str]| {
        let mut cp = site.cp(&["--json", "tree", "--to-hosts", "a,b:in/"]).args(args);
        cp.command.stdin(std::fs::File::open(site.sandbox.path("names")).unwrap());
        cp.run()
    };
    for args in [&["--files-from", "-", "--fanout", "2"][..], &["--files-from", "/dev/stdin"]] {
        let record = piped(args).succeeds().json();
        assert_eq!(record["cp"]["complete"], 2, "{record}");
        for host in ["a", "b"] {
            let there = site.names_on(host).into_iter().filter(|name| name.starts_with("in/f")).count();
            assert_eq!(there, names.len(), "{args:?}, {host}");
            std::fs::remove_dir_all(site.sandbox.path(format!("hosts/{host}/in"))).unwrap();
        }
    }
    let both = site.cp(&["--files-from", "-", "tree", "--to-hosts", "-:in/"]).run();
    both.fails(2, &["--to-hosts and --files-from cannot both be read from standard input"]);
}

/// Until all hosts have all, the same command goes on, on those that have it too; after that it is another
/// copy.
#[test]
fn hosts_that_had_all_are_gone_on_with_as_well() {
    let site = Site::new(&["a", "b"]);
    std::fs::create_dir(site.sandbox.path("tree")).unwrap();
    site.sandbox.write("tree/x", pattern(MIB, 1));
    let args = ["--json", "tree", "--to-hosts", "a,b,c:copy"];
    let first = site.cp(&args).run().fails(1, &["c"]).json();
    assert_eq!(first["cp"]["complete"], 2, "{first}");
    std::fs::create_dir(site.sandbox.path("hosts/c")).unwrap();
    let second = site.cp(&args).run().succeeds().json();
    assert_eq!(row(&second, "a")["unchanged"], 1, "{second}");
    for host in ["a", "b", "c"] {
        assert_eq!(site.names_on(host), ["copy/", "copy/x"], "{host}");
    }
    // As cp does it: the folder is there by now.
    site.cp(&args).run().succeeds();
    assert_eq!(site.names_on("b"), ["copy/", "copy/tree/", "copy/tree/x", "copy/x"]);
}

/// What the source could not give no host has, and none is called complete.
#[test]
fn a_host_that_lacks_what_did_not_come_to_it_is_not_complete() {
    let site = Site::new(&["a", "b"]);
    site.sandbox.write("data", pattern(MIB, 1));
    let run = site.cp(&["data", "none", "--to-hosts", "a,b:in/"]).run();
    let said = run.fails(1, &["a: incomplete after", "b: incomplete after"]);
    assert!(!said.stderr.contains("complete and verified"), "{}", said.stderr);
}

/// A host has other files of the source's sizes and times. It cannot know that, and says so; no other host
/// has them from there.
#[test]
fn what_only_looks_the_same_goes_to_no_other_host() {
    let site = Site::new(&["a", "b"]);
    let names = ["set/small", "set/large"];
    for folder in ["set", "hosts/a/set"] {
        std::fs::create_dir(site.sandbox.path(folder)).unwrap();
    }
    for (name, size) in names.into_iter().zip([1000, 2 * MIB]) {
        let source = site.sandbox.write(name, pattern(size, 1));
        let other = site.sandbox.write(&format!("hosts/a/{name}"), pattern(size, 2));
        let other = std::fs::File::options().write(true).open(other).unwrap();
        other.set_modified(source.metadata().unwrap().modified().unwrap()).unwrap();
    }
    let record = site.cp(&["--json", "set", "--to-hosts", "a,b"]).run().succeeds().json();
    let of = |host: &str, member: &str| row(&record, host)[member].clone();
    assert_eq!((of("a", "unchanged"), of("a", "verified")), (2.into(), false.into()), "{record}");
    assert_eq!((of("b", "unchanged"), of("b", "verified")), (0.into(), true.into()), "{record}");
    for name in names {
        assert!(site.on("b", name) == site.sandbox.read(name), "{name}");
    }
    let again = site.cp(&["set", "--to-hosts", "a,b"]).run();
    again.succeeds().says(&["a: complete (2 files by size and time)"]);
    let compared = site.cp(&["--checksum", "set", "--to-hosts", "a,b"]).run();
    compared.succeeds().says(&["a: complete and verified", "b: complete and verified"]);
    for name in names {
        assert!(site.on("a", name) == site.sandbox.read(name), "{name}");
    }
}

/// Of the source once, of each host with its name.
#[test]
fn what_is_worth_a_word_is_said_and_in_the_record() {
    let site = Site::new(&["a", "b"]);
    std::fs::create_dir(site.sandbox.path("tree")).unwrap();
    site.sandbox.pipe("tree/p");
    let source = site.sandbox.write("tree/x", "text");
    let source = std::fs::File::options().write(true).open(source).unwrap();
    source.set_modified(std::time::UNIX_EPOCH).unwrap();
    let run = |args: &[&str]| {
        for host in ["a", "b"] {
            std::fs::create_dir_all(site.sandbox.path(format!("hosts/{host}/tree"))).unwrap();
            site.sandbox.write(&format!("hosts/{host}/tree/x"), "newer");
        }
        site.cp(&[args, &["tree", "--to-hosts", "a,b"]].concat()).run()
    };
    let are_all = |mut notes: Vec<&str>| {
        notes.sort_unstable();
        let newer = "1 newer file at the target was overwritten";
        let due = [format!("a: {newer}"), format!("b: {newer}"), "tree/p is a named pipe".to_owned()];
        let begins = |(note, due): (&&str, &String)| note.starts_with(due.as_str());
        assert!(notes.len() == due.len() && notes.iter().zip(&due).all(begins), "{notes:?}");
    };
    let said = run(&[]);
    are_all(said.succeeds().stderr.lines().filter_map(|line| line.strip_prefix("note: ")).collect());
    let record = run(&["--json"]).succeeds().json();
    are_all(record["cp"]["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect());
}

/// The driver stands still for as long as a host may be silent: no host is taken out for what was not read.
#[test]
fn a_driver_that_is_stopped_and_goes_on_blames_nobody() {
    let site = Site::new(&["a", "b", "c"]);
    let size = 24 * MIB;
    site.sandbox.write("data", pattern(size, 1));
    let running = site.cp(&["--json", "--limit-rate", "6Mi", "data", "--to-hosts", "a,b,c:copy"]).spawn();
    site.await_blocks("c", ".copy.weir-part", size);
    running.signal(Signal::STOP);
    // Longer than a host may say nothing; not a wait for something.
    std::thread::sleep(Duration::from_secs(4));
    running.signal(Signal::CONT);
    let record = running.wait().succeeds().json();
    blames_nobody(&record, &["a", "b", "c"]);
    for host in ["a", "b", "c"] {
        assert!(site.on(host, "copy") == site.sandbox.read("data"), "{host}");
    }
}

#[test]
fn each_host_has_it_from_the_one_before() {
    let site = Site::new(&["a", "b", "c", "d"]);
    site.sandbox.write("data", pattern(9 * MIB + 77, 1));
    let record = site.cp(&["--json", "data", "--to-hosts", "a,b,c,d:copy"]).run().succeeds().json();
    assert_eq!((&record["outcome"], &record["cp"]["complete"]), (&"complete".into(), &4.into()));
    is_one_chain(&record, &Value::Null, &["a", "b", "c", "d"]);
    for host in ["a", "b", "c", "d"] {
        assert!(site.on(host, "copy") == site.sandbox.read("data"), "{host}");
        assert_eq!(site.names_on(host), ["copy"], "nothing is left beside it");
        let row = row(&record, host);
        assert_eq!((&row["verified"], &row["transport"]), (&true.into(), &"tcp".into()), "{row}");
        assert_eq!(row["bytes"], 9 * MIB + 77);
    }
    let again = site.cp(&["--json", "data", "--to-hosts", "a,b,c,d:copy"]).run().succeeds().json();
    assert_eq!((&again["bytes"], &row(&again, "d")["unchanged"]), (&0.into(), &1.into()));
    for host in ["a", "b", "c", "d"] {
        wait_for("no process is left", || site.peers(host).is_empty());
    }
}

/// Each compares what it has, and gets what differs from the one before it once that has all.
#[test]
fn hosts_with_an_older_version_get_what_differs() {
    let site = Site::new(&["a", "b", "c"]);
    let mut data = pattern(24 * MIB, 1);
    for host in ["a", "b", "c"] {
        site.sandbox.write(&format!("hosts/{host}/data"), &data);
    }
    data[12 * MIB..12 * MIB + 100].fill(7);
    site.sandbox.write("data", &data);
    let run = site.cp(&["--json", "data", "--to-hosts", "a,b,c:data"]).run();
    let record = run.succeeds().json();
    is_one_chain(&record, &Value::Null, &["a", "b", "c"]);
    blames_nobody(&record, &["a", "b", "c"]);
    for host in ["a", "b", "c"] {
        assert!(site.on(host, "data") == data, "{host}");
        let row = row(&record, host);
        assert_eq!((&row["outcome"], &row["verified"]), (&"complete".into(), &true.into()), "{row}");
    }
}

#[test]
fn what_comes_goes_on_while_it_comes() {
    let site = Site::new(&["a", "b", "c"]);
    let size = 24 * MIB;
    site.sandbox.write("data", pattern(size, 2));
    // Twelve seconds: on a busy machine the last host may start some seconds after the first.
    let running = site.cp(&["--json", "--limit-rate", "2Mi", "data", "--to-hosts", "a,b,c"]).spawn();
    site.await_blocks("c", ".data.weir-part", size);
    assert!(!site.sandbox.path("hosts/a/data").exists(), "the first has not all when the last has some");
    let record = running.wait().succeeds().json();
    for host in ["a", "b", "c"] {
        assert!(site.on(host, "data") == site.sandbox.read("data"), "{host}");
        // Each has a verdict of its own.
        assert!(row(&record, host)["limit"].is_string(), "{record}");
    }
    // The rate limit keeps the first hop behind for most of its time, on a busy machine a later one too.
    let held = &record["cp"]["held_by"];
    let to = row(&record, held["to"].as_str().unwrap());
    assert!(to["from"] == held["from"] && to["behind"].as_f64().unwrap() > 0.5, "{record}");
}

#[test]
fn trees_go_as_they_are_and_are_updated() {
    let site = Site::new(&["a", "b", "c"]);
    let tree = site.sandbox.path("tree");
    std::fs::create_dir_all(tree.join("sub/deep")).unwrap();
    std::fs::create_dir(tree.join("closed")).unwrap();
    for number in 0..120 {
        site.sandbox.write(&format!("tree/sub/f{number}"), pattern(number * 1700, number as u64));
    }
    site.sandbox.write("tree/large", pattern(6 * MIB + 5, 7));
    site.sandbox.write("tree/middle", pattern(MIB, 8));
    site.sandbox.write("tree/closed/x", "x");
    let holes = std::fs::File::create(tree.join("holes")).unwrap();
    holes.set_len(9 * MIB as u64).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&holes, b"end", 8 * MIB as u64).unwrap();
    std::os::unix::fs::symlink("large", tree.join("link")).unwrap();
    std::fs::hard_link(tree.join("large"), tree.join("second")).unwrap();
    std::fs::set_permissions(tree.join("closed"), std::fs::Permissions::from_mode(0o500)).unwrap();
    let same = |host: &str, to: &str| {
        let copy = site.sandbox.path(format!("hosts/{host}/{to}"));
        let diff =
            std::process::Command::new("diff").args(["-r", "--no-dereference"]).args([&tree, &copy]).output();
        assert!(diff.as_ref().unwrap().status.success(), "{host}: {diff:?}");
        let [link, second, closed] =
            ["link", "second", "closed"].map(|name| copy.join(name).symlink_metadata().unwrap());
        assert!(link.is_symlink() && second.nlink() == 2 && closed.mode() & 0o777 == 0o500, "{host}");
        let times = |root: &std::path::Path| root.join("sub").metadata().unwrap().mtime();
        assert_eq!(times(&tree), times(&copy), "{host}");
    };
    let record = site.cp(&["-a", "--json", "tree", "--to-hosts", "r1: a b; r2: c"]).run().succeeds().json();
    ["a", "b", "c"].iter().for_each(|host| same(host, "tree"));
    // From one of the other group: who is the last of it the machine decides.
    let of_c = row(&record, "c");
    assert!(of_c["from"] == "a" || of_c["from"] == "b", "{of_c}");
    assert_eq!(of_c["group"], "r2");
    assert_eq!(row(&record, "c")["files"], row(&record, "a")["files"]);
    // One host has other things; what differs goes to each, and what is no more goes from each.
    site.sandbox.write("tree/sub/f7", "another");
    std::fs::remove_file(tree.join("sub/f8")).unwrap();
    let mut large = site.sandbox.read("tree/large");
    large[3 * MIB] ^= 1;
    std::fs::write(tree.join("large"), large).unwrap();
    site.sandbox.write("hosts/b/tree/sub/extra", "extra");
    std::fs::remove_file(site.sandbox.path("hosts/c/tree/middle")).unwrap();
    let args = ["-a", "--json", "--delete", "tree", "--to-hosts", "a,b,c"];
    let record = site.cp(&args).run().succeeds().json();
    ["a", "b", "c"].iter().for_each(|host| same(host, "tree"));
    assert!(record["bytes"].as_u64().unwrap() < 30 * MIB as u64, "{record}");
    // Into a folder that is not called as the source is.
    let content = ["-a", "-q", "tree/", "--to-hosts", "a,b,c:other"];
    site.cp(&content).run().succeeds();
    ["a", "b", "c"].iter().for_each(|host| same(host, "other"));
}

#[test]
fn a_host_that_is_lost_keeps_no_other_from_it_and_comes_back() {
    for victim in ["a", "b", "d"] {
        let site = Site::new(&["a", "b", "c", "d"]);
        let size = 24 * MIB;
        site.sandbox.write("data", pattern(size, 3));
        // Twelve seconds: on a busy machine the last host may start some seconds after the first.
        let args = ["--json", "--limit-rate", "2Mi", "data", "--to-hosts", "a,b,c,d"];
        let running = site.cp(&args).spawn();
        site.await_blocks(victim, ".data.weir-part", size);
        site.kill(victim);
        let record = running.wait().succeeds().json();
        for host in ["a", "b", "c", "d"] {
            assert!(site.on(host, "data") == site.sandbox.read("data"), "{victim}, {host}");
            assert_eq!(site.names_on(host), ["data"], "{victim}, {host}");
            let lost = row(&record, host)["taken_out"].as_array().unwrap();
            // A machine that is busy may slow another; none but the victim is lost.
            let is_slow = |why: &Value| why.as_str().is_some_and(|why| why.contains(" took "));
            let is_right = if host == victim { !lost.is_empty() } else { lost.iter().all(is_slow) };
            assert!(is_right, "{victim}, {host}: {lost:?}");
        }
        assert!(row(&record, victim)["resumed"].as_u64().unwrap() > 0, "it goes on: {record}");
    }
}

/// Its processes are there still and keep the lock of its part: they are ended, and it resumes.
#[test]
fn a_host_that_is_stopped_comes_back_without_its_old_processes() {
    let site = Site::new(&["a", "b", "c"]);
    let size = 24 * MIB;
    site.sandbox.write("data", pattern(size, 9));
    let args = ["--json", "--limit-rate", "2Mi", "data", "--to-hosts", "a,b,c"];
    let running = site.cp(&args).spawn();
    site.await_blocks("b", ".data.weir-part", size);
    let stopped = site.stop("b");
    let record = running.wait_for(Duration::from_secs(150)).succeeds().json();
    for host in ["a", "b", "c"] {
        assert!(site.on(host, "data") == site.sandbox.read("data"), "{host}");
    }
    let b = row(&record, "b");
    assert!(!b["taken_out"].as_array().unwrap().is_empty() && b["resumed"].as_u64().unwrap() > 0, "{b}");
    let is_there = |peer: &Pid| site.peers("b").contains(peer);
    wait_for("the stopped processes are gone", || !stopped.iter().any(is_there));
}

/// It ends as a copy to it alone would: nothing is there that could be resumed.
#[test]
fn a_host_that_is_not_there_is_named() {
    let site = Site::new(&["a", "c"]);
    site.sandbox.write("data", pattern(5 * MIB, 4));
    let run = site.cp(&["--json", "data", "--to-hosts", "a,away,c"]).run();
    run.fails(1, &["away: failed: cannot reach away: ssh could not connect or log in", "No route to host"]);
    let record = run.json();
    assert_eq!((&record["outcome"], &record["cp"]["failed"]), (&"partial".into(), &1.into()));
    for host in ["a", "c"] {
        assert!(site.on(host, "data") == site.sandbox.read("data"), "{host}");
        assert_eq!(row(&record, host)["outcome"], "complete");
    }
    is_one_chain(&record, &Value::Null, &["a", "c"]);
    assert_eq!(row(&record, "away")["outcome"], "failed");
    assert_eq!(record["files"], Value::Array(Vec::new()), "a host is no file");
    // Attempts at a host to which nothing came are no time of the copy.
    let done = ["a", "c"].map(|host| row(&record, host)["seconds"].as_f64().unwrap());
    assert!(record["seconds"].as_f64().unwrap() <= done[0].max(done[1]), "{record}");
    let none = site.cp(&["data", "--to-hosts", "away,off"]).run();
    none.fails(1, &["away: failed: cannot reach away", "off: failed: cannot reach off"]);
    site.cp(&["data", "away:"]).run().fails(1, &["cannot reach away"]);
}

#[test]
fn a_summary_counts_hosts_and_tells_a_failure_once() {
    let site = Site::new(&["a", "b"]);
    site.sandbox.write("data", pattern(MIB, 4));
    let run = site.cp(&["data", "--to-hosts", "a,away"]).run();
    run.fails(1, &["to 1 of 2 hosts, 1.05 MB in", "away: failed: cannot reach away"]);
    assert_eq!(run.stderr.matches("cannot reach away").count(), 1, "{}", run.stderr);
    assert!(!run.stderr.contains("to resume"), "{}", run.stderr);
    site.cp(&["data", "--to-hosts", "a,b"]).run().succeeds().says(&["to 2 hosts, 1.05 MB in"]);
    let again = site.cp(&["data", "--to-hosts", "a,b"]).run();
    again.succeeds().says(&["left alone: all 2 hosts have it"]);
    // By the rate limit, for most of its time.
    site.sandbox.write("large", pattern(12 * MIB, 5));
    let limited = site.cp(&["--limit-rate", "8Mi", "large", "--to-hosts", "a,b"]).run();
    limited.succeeds().says(&["the chain was held between"]);
}

/// Its own verdict is that of a copy to it alone; those behind it have all from the one before it.
#[test]
fn a_full_host_is_named_and_those_behind_it_have_all() {
    if !rustix::process::geteuid().is_root() {
        return support::skip("only root mounts a small file system");
    }
    for full in ["a", "b"] {
        let site = Site::new(&["a", "b", "c"]);
        site.sandbox.write("data", pattern(24 * MIB, 5));
        let ssh = site.sandbox.path("ssh").display().to_string();
        let script = format!("mount -t tmpfs -o size=8m small hosts/{full} && exec \"$@\"");
        let words = ["-m", "sh", "-c", &script, "sh", WEIR, "cp", "-S", &ssh, "--far-program", WEIR];
        let cp = site.sandbox.weir("unshare", words).env("HOSTS", site.sandbox.path("hosts"));
        let run = cp.args(&["--json", "data", "--to-hosts", "a,b,c"]).run();
        run.fails(1, &[&format!("{full}: "), "no space left on device"]);
        let record = run.json();
        assert_eq!(row(&record, full)["outcome"], "partial", "{record}");
        let files = record["files"].as_array().unwrap().iter().filter(|file| file["path"] == full);
        let why: Vec<&str> = files.filter_map(|file| file["error"].as_str()).collect();
        assert!(!why.is_empty(), "{record}");
        for host in ["a", "b", "c"].into_iter().filter(|host| *host != full) {
            let is_named = |why: &&str| why.starts_with(&format!("{host}: "));
            assert!(!why.iter().any(is_named), "it is {full} that is full: {why:?}");
            assert!(site.on(host, "data") == site.sandbox.read("data"), "{host}");
            assert_eq!(row(&record, host)["outcome"], "complete", "{record}");
        }
    }
}

/// A block of it takes longer than a host may stand still.
#[test]
fn a_slow_disk_of_the_source_is_no_hosts_fault() {
    let config = SlowDiskConfig { rate: Rate(1e9), dirty: None, size: Bytes(64 << 20) };
    let made = Folder::new().map_err(|error| error.to_string()).and_then(|folder| {
        let disk = SlowDisk::make(&folder, "disk", &config).map_err(|error| error.to_string());
        disk.map(|disk| (disk, folder))
    });
    let (disk, _folder) = match made {
        Ok(made) => made,
        Err(why) => return support::skip(&why),
    };
    let site = Site::new(&["a", "b"]);
    let source = disk.path().join("data");
    std::fs::write(&source, pattern(3 * MIB, 1)).unwrap();
    let file = std::fs::File::open(&source).unwrap();
    file.sync_all().unwrap();
    // Out of memory, so that it is read from the disk.
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    disk.limit_reads(Rate(0.3e6)).unwrap();
    let mut cp = site.cp(&["--json", &source.display().to_string(), "--to-hosts", "a,b:data"]);
    disk.join(&mut cp.command).unwrap();
    let record = cp.run().succeeds().json();
    assert_eq!(record["verdict"]["limit"], "source-disk", "{record}");
    for host in ["a", "b"] {
        assert_eq!(row(&record, host)["taken_out"], Value::Array(Vec::new()), "{record}");
        assert!(site.on(host, "data").len() == 3 * MIB, "{host}");
    }
}

#[test]
fn chains_of_their_own_begin_here() {
    let site = Site::new(&["a", "b", "c", "d"]);
    site.sandbox.write("data", pattern(3 * MIB, 6));
    site.sandbox.write("hosts.txt", "left: a b   # one rack\nright: c,d\n");
    let args = ["--json", "--fanout", "2", "data", "--to-hosts", "hosts.txt:in/", "--mkpath"];
    let record = site.cp(&args).run().succeeds().json();
    are_chains(&record, &Value::Null, [["a", "b"], ["c", "d"]]);
    for host in ["a", "b", "c", "d"] {
        assert!(site.on(host, "in/data") == site.sandbox.read("data"), "{host}");
    }
    let stdin = site.cp(&["--json", "data", "--to-hosts", "-:again"]).input("a\nb\n").run().succeeds().json();
    assert_eq!(stdin["cp"]["complete"], 2);
    assert!(site.on("b", "again") == site.sandbox.read("data"));
}

#[test]
fn what_does_not_go_with_many_hosts_is_refused() {
    let site = Site::new(&["a"]);
    site.sandbox.write("data", "text");
    for (args, words) in [
        (&["data", "--to-hosts", "a", "-n"][..], "--dry-run does not go with --to-hosts"),
        (&["data", "--to-hosts", "a", "--remove-source-files"], "remove them once all hosts have them"),
        (&["b:data", "data", "--to-hosts", "a"], "sources are on different hosts"),
        (&["a:x/data", "--to-hosts", "a:x/"], "a has it there already, and --to-hosts names no other host"),
        (&["data", "--to-hosts", "none/such"], "there is no file none/such"),
        (&["data", "--to-hosts", ""], "no host is named"),
        (&["data", "--to-hosts", "a,-oProxyCommand=x"], "invalid host '-oProxyCommand=x'"),
        (&["data", "--to-hosts", "a:x,b:y"], "'b:y': one PATH is for all hosts"),
        (&["data", "x", "--fanout", "2"], "--to-hosts"),
    ] {
        site.cp(args).run().fails(2, &[words]);
    }
    assert_eq!(site.names_on("a"), [""; 0]);
    site.cp(&["none", "--to-hosts", "a"]).run().fails(1, &["cannot read none: no such file"]);
    // What may be meant otherwise is said.
    site.sandbox.write("22", "text");
    site.cp(&["-P", "22", "none", "--to-hosts", "a"]).run().fails(1, &["but '22' also exists here"]);
}

/// Any process of any host, or the one that drives: the same command again sends what is missing.
#[test]
fn killed_anywhere_and_resumed() {
    any_process_is_killed(None);
}

/// What hosts kept of an earlier run is of another version than the source is now, which has its size and
/// time: no host mixes the two, also where only those behind the first have some of it.
#[test]
fn parts_of_another_version_of_the_source_are_sent_anew() {
    for first_has_some in [true, false] {
        let site = Site::new(&["a", "b", "c"]);
        let size = 24 * MIB;
        site.sandbox.write("large", pattern(size, 1));
        let source = std::fs::File::open(site.sandbox.path("large")).unwrap();
        let time = source.metadata().unwrap().modified().unwrap();
        let slowly = ["--json", "--limit-rate", "8Mi", "large", "--to-hosts", "a,b,c"];
        let running = site.cp(&slowly).spawn();
        site.await_blocks("c", ".large.weir-part", size);
        running.signal(Signal::KILL);
        ["a", "b", "c"].iter().for_each(|host| site.kill(host));
        running.wait();
        if !first_has_some {
            std::fs::remove_file(site.sandbox.path("hosts/a/.large.weir-part")).unwrap();
        }
        site.sandbox.write("large", pattern(size, 2));
        let source = std::fs::File::options().write(true).open(site.sandbox.path("large")).unwrap();
        source.set_modified(time).unwrap();
        let copied = site.cp(&["--json", "large", "--to-hosts", "a,b,c"]).run();
        copied.succeeds();
        for host in ["a", "b", "c"] {
            assert!(site.on(host, "large") == pattern(size, 2), "{host} {first_has_some}: {}", copied.stderr);
        }
    }
}

/// Kills any process of any host, the source's too where that is one, or the one that drives; then the same
/// command again.
pub(crate) fn any_process_is_killed(source: Option<&str>) {
    let (mut dice, runs) = Dice::for_runs();
    let targets = ["a", "b", "c"];
    let hosts: Vec<&str> = source.into_iter().chain(targets).collect();
    let (home, from) =
        source.map_or_else(Default::default, |host| (format!("hosts/{host}/"), format!("{host}:")));
    let size = 16 * MIB;
    let (mut run, mut kills) = (0, 0);
    // One that had ended before it was struck does not count.
    while kills < runs / 4 {
        assert!(run < runs, "{kills} of {run} were killed");
        let site = Site::new(&hosts);
        std::fs::create_dir(site.sandbox.path(format!("{home}tree"))).unwrap();
        site.sandbox.write(&format!("{home}tree/large"), pattern(size, run));
        for number in 0..40 {
            let small = pattern(number * 9000, number as u64);
            site.sandbox.write(&format!("{home}tree/f{number}"), small);
        }
        let tree = format!("{from}tree");
        let args = ["--json", "--limit-rate", "24Mi", &tree, "--to-hosts", "a,b,c:copy"];
        let running = site.cp(&args).spawn();
        site.await_blocks(targets[dice.roll(0..3) as usize], "copy/.large.weir-part", size);
        // Not a wait for something: a random moment is the point.
        std::thread::sleep(Duration::from_millis(dice.roll(0..400)));
        let victim = dice.roll(0..hosts.len() as u64 + 1) as usize;
        let context = format!("run {run}, victim {victim}");
        let struck = hosts.get(victim).map(|host| {
            let peers = site.peers(host);
            let one = peers.get(dice.roll(0..peers.len().max(1) as u64) as usize);
            one.is_some_and(|peer| kill_process(*peer, Signal::KILL).is_ok())
        });
        if struck.is_none() {
            running.signal(Signal::KILL);
        }
        let first = running.wait();
        kills += u64::from(struck.unwrap_or_else(|| first.status.code().is_none()));
        run += 1;
        assert!(!first.stderr.contains("panicked"), "{context}: {}", first.stderr);
        if victim < hosts.len() {
            first.succeeds();
        }
        site.cp(&args).run().succeeds();
        let sent = |name: &str| site.sandbox.read(&format!("{home}tree/{name}"));
        for host in targets {
            assert!(site.on(host, "copy/large") == sent("large"), "{context}, {host}");
            for number in 0..40 {
                let name = format!("f{number}");
                assert!(site.on(host, &format!("copy/{name}")) == sent(&name), "{context}, {host}, {name}");
            }
            assert!(!site.names_on(host).iter().any(|name| name.contains("weir-part")), "{context}, {host}");
        }
    }
}
