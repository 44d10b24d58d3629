//! `weir cp HOST:SRC --to-hosts`: the source is on another host than the one that drives.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;
use crate::to_hosts::{Site, any_process_is_killed, are_chains, blames_nobody, is_one_chain, kill, row};

use std::time::Duration;

use serde_json::Value;
use support::{MIB, pattern, wait_for};

#[test]
fn a_source_on_another_host_goes_from_there() {
    let site = Site::new(&["src", "a", "b", "c"]);
    let size = 9 * MIB + 77;
    site.sandbox.write("hosts/src/data", pattern(size, 1));
    let args = ["--json", "src:data", "--to-hosts", "a,b,c:copy"];
    let record = site.cp(&args).run().succeeds().json();
    assert_eq!((&record["cp"]["from"], &record["cp"]["complete"]), (&"src".into(), &3.into()));
    is_one_chain(&record, &"src".into(), &["a", "b", "c"]);
    for host in ["a", "b", "c"] {
        assert!(site.on(host, "copy") == site.on("src", "data"), "{host}");
        assert_eq!(site.names_on(host), ["copy"], "nothing is left beside it");
        let row = row(&record, host);
        assert_eq!((&row["bytes"], &row["transport"]), (&size.into(), &"tcp".into()));
    }
    assert_eq!(site.names_on("src"), ["data"]);
    let again = site.cp(&args).run().succeeds().json();
    assert_eq!((&again["bytes"], &row(&again, "c")["unchanged"]), (&0.into(), &1.into()));
    for host in ["src", "a", "b", "c"] {
        wait_for("no process is left", || site.peers(host).is_empty());
    }
    let said = site.cp(&["src:data", "--to-hosts", "a,b:said"]).run().succeeds().stderr.clone();
    assert!(said.contains("from src") && !said.contains("from here"), "{said}");
}

#[test]
fn trees_lists_and_several_chains_go_from_another_host() {
    let site = Site::new(&["src", "a", "b", "c", "d"]);
    std::fs::create_dir_all(site.sandbox.path("hosts/src/tree/sub")).unwrap();
    for number in 0..40 {
        site.sandbox.write(&format!("hosts/src/tree/sub/f{number}"), pattern(number * 17_000, number as u64));
    }
    site.sandbox.write("hosts/src/tree/large", pattern(5 * MIB + 5, 7));
    let tree = site.sandbox.path("hosts/src/tree");
    std::os::unix::fs::symlink("large", tree.join("link")).unwrap();
    let args = ["-a", "--json", "--fanout", "2", "src:tree", "--to-hosts", "l: a b; r: c d"];
    let record = site.cp(&args).run().succeeds().json();
    are_chains(&record, &"src".into(), [["a", "b"], ["c", "d"]]);
    for host in ["a", "b", "c", "d"] {
        let copy = site.sandbox.path(format!("hosts/{host}/tree"));
        let diff = std::process::Command::new("diff").arg("-r").args([&tree, &copy]).status().unwrap();
        assert!(diff.success(), "{host}");
    }
    // Only what a list on this machine names; and without the source's own host, where it is already.
    site.sandbox.write("list", "sub/f3\nlarge\n");
    let args = ["-r", "--files-from", "list", "src:tree", "--to-hosts", "a,b:some"];
    site.cp(&args).run().succeeds();
    for host in ["a", "b"] {
        let mut names = site.names_on(host);
        names.retain(|name| name.starts_with("some/") && !name.ends_with('/'));
        assert!(names.iter().any(|name| name == "some/sub/f3"), "{names:?}");
        assert!(!names.iter().any(|name| name == "some/sub/f4"), "{names:?}");
    }
    let own = site.cp(&["--json", "src:tree/large", "--to-hosts", "src,a:tree/"]).run();
    let rows = own.succeeds().json()["cp"]["hosts"].as_array().unwrap().len();
    assert!(rows == 1 && own.stderr.contains("src has it there already"), "{}", own.stderr);
    // A copy beside it is one like any other.
    site.cp(&["-q", "src:tree/large", "--to-hosts", "src,a:beside"]).run().succeeds();
    assert!(site.on("src", "beside") == site.on("a", "beside"));
}

#[test]
fn a_source_that_is_not_there_is_the_one_that_is_named() {
    let site = Site::new(&["src", "a", "b"]);
    let run = site.cp(&["--json", "src:none", "--to-hosts", "a,b"]).run();
    run.fails(1, &["src: cannot read none: no such file"]);
    assert_eq!(run.json()["cp"]["hosts"], Value::Array(Vec::new()));
    let run = site.cp(&["--json", "away:data", "--to-hosts", "a,b"]).run();
    run.fails(1, &["cannot reach away", "No route to host"]);
    for host in ["a", "b"] {
        let row = row(&run.json(), host).clone();
        let words = (row["error"].as_str().unwrap(), row["taken_out"].as_array().unwrap());
        assert!(words.0.contains("cannot reach away") && words.1.is_empty(), "{row}");
    }
}

/// The source's process is killed: it is started again, no host is blamed, and what came is not sent again.
#[test]
fn a_source_that_is_lost_is_asked_again() {
    let site = Site::new(&["src", "a", "b"]);
    let size = 24 * MIB;
    site.sandbox.write("hosts/src/data", pattern(size, 3));
    let running = site.cp(&["--json", "--limit-rate", "2Mi", "src:data", "--to-hosts", "a,b"]).spawn();
    site.await_blocks("b", ".data.weir-part", size);
    site.kill("src");
    let record = running.wait().succeeds().json();
    blames_nobody(&record, &["a", "b"]);
    for host in ["a", "b"] {
        assert!(site.on(host, "data") == site.on("src", "data"), "{host}");
    }
    assert!(row(&record, "a")["resumed"].as_u64().unwrap() > 0, "it goes on: {record}");
}

/// The source is lost for good: what came is kept, and the same command resumes it.
#[test]
fn a_source_that_does_not_come_back() {
    let site = Site::new(&["src", "a", "b"]);
    let size = 24 * MIB;
    site.sandbox.write("hosts/src/data", pattern(size, 6));
    let args = ["--json", "--limit-rate", "2Mi", "src:data", "--to-hosts", "a,b"];
    let running = site.cp(&args).spawn();
    site.await_blocks("b", ".data.weir-part", size);
    let [there, away] = ["hosts/src", "away"].map(|name| site.sandbox.path(name));
    let peers = site.peers("src");
    std::fs::rename(&there, &away).unwrap();
    peers.into_iter().for_each(kill);
    let run = running.wait();
    run.fails(4, &["a: failed: cannot reach src", "No route to host"]);
    std::fs::rename(&away, &there).unwrap();
    let record = site.cp(&args[..1]).args(&args[3..]).run().succeeds().json();
    assert!(row(&record, "a")["resumed"].as_u64().unwrap() > 0, "{record}");
    for host in ["a", "b"] {
        assert!(site.on(host, "data") == site.on("src", "data"), "{host}");
    }
}

/// The source's process is stopped: it says nothing, and that is not the fault of the host that waits.
#[test]
fn a_source_that_is_stopped_is_asked_again() {
    let site = Site::new(&["src", "a", "b"]);
    let size = 24 * MIB;
    site.sandbox.write("hosts/src/data", pattern(size, 4));
    let running = site.cp(&["--json", "--limit-rate", "2Mi", "src:data", "--to-hosts", "a,b"]).spawn();
    site.await_blocks("b", ".data.weir-part", size);
    let stopped = site.stop("src");
    let record = running.wait_for(Duration::from_secs(150)).succeeds().json();
    stopped.into_iter().for_each(kill);
    blames_nobody(&record, &["a", "b"]);
    for host in ["a", "b"] {
        assert!(site.on(host, "data") == site.on("src", "data"), "{host}");
    }
    assert!(row(&record, "a")["sessions"].as_u64().unwrap() > 1, "{record}");
}

/// Any process of any host, the source's too, or the one that drives.
#[test]
fn killed_anywhere_and_resumed_from_another_host() {
    any_process_is_killed(Some("src"));
}
