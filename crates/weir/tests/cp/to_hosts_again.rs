//! `weir cp --to-hosts` to hosts that have some of it already, or come up late: what is called verified, and
//! who passes it on.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;
use crate::to_hosts::{Site, blames_nobody, row};

use std::path::Path;
use std::time::SystemTime;

use support::{MIB, pattern, wait_for};

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}

/// Puts `bytes` on a host under the name, size and time of a file of the source.
fn looks_the_same(site: &Site, host: &str, name: &str, bytes: &[u8]) {
    let there = site.sandbox.write(&format!("hosts/{host}/{name}"), bytes);
    let there = std::fs::File::options().write(true).open(there).unwrap();
    there.set_modified(modified(&site.sandbox.path(name)).unwrap()).unwrap();
}

/// The host starts once there is a file `go`.
fn starts_once_told(site: &Site, host: &str) {
    let ssh = String::from_utf8(site.sandbox.read("ssh")).unwrap();
    let waits =
        format!("while [ \"$2\" = {host} ] && [ ! -e \"$HOSTS/../go\" ]; do sleep 0.02; done\nshift 2\n");
    assert!(ssh.contains("\nshift 2\n"), "{ssh}");
    site.sandbox.write("ssh", ssh.replace("\nshift 2\n", &format!("\n{waits}")));
}

/// Refused at first and up later: it has all as the others do.
#[test]
fn a_host_that_comes_up_late_has_it_too() {
    let site = Site::new(&["a", "b", "c"]);
    let ssh = String::from_utf8(site.sandbox.read("ssh")).unwrap();
    let refuses = "if [ \"$2\" = b ] && mkdir \"$HOSTS/../refused\" 2>/dev/null; then\n\
                   echo 'ssh: connect to host b: Connection refused' >&2; exit 255\nfi\nshift 2\n";
    site.sandbox.write("ssh", ssh.replace("\nshift 2\n", &format!("\n{refuses}")));
    site.sandbox.write("data", pattern(3 * MIB, 1));
    let record = site.cp(&["--json", "data", "--to-hosts", "a,b,c"]).run().succeeds().json();
    assert!(site.sandbox.path("refused").exists());
    for host in ["a", "b", "c"] {
        assert!(site.on(host, "data") == site.sandbox.read("data"), "{host}");
        assert_eq!(row(&record, host)["outcome"], "complete", "{record}");
    }
}

/// One host has it by size and time alone and cannot pass it on: no more can the others, which are not all
/// asked.
#[test]
fn a_new_host_does_not_ask_each_host_that_has_it_unread() {
    let old = ["a", "b", "c", "d", "e", "f"];
    let site = Site::new(&[&old[..], &["new"]].concat());
    std::fs::create_dir(site.sandbox.path("set")).unwrap();
    site.sandbox.write("set/x", pattern(1000, 1));
    for host in old {
        std::fs::create_dir(site.sandbox.path(format!("hosts/{host}/set"))).unwrap();
        looks_the_same(&site, host, "set/x", &pattern(1000, 1));
    }
    let run = site.cp(&["--json", "set", "--to-hosts", "a,b,c,d,e,f,new"]).run();
    let record = run.succeeds().json();
    assert!(site.on("new", "set/x") == site.sandbox.read("set/x"));
    assert!(row(&record, "new")["sessions"].as_u64().unwrap() < 5, "{record}");
}

/// A host that cannot pass on what it has by size and time goes on receiving the rest.
#[test]
fn a_host_with_an_unread_file_is_not_taken_out_for_it() {
    let site = Site::new(&["a", "b"]);
    starts_once_told(&site, "b");
    for folder in ["set", "hosts/a/set"] {
        std::fs::create_dir(site.sandbox.path(folder)).unwrap();
    }
    site.sandbox.write("set/small", pattern(1000, 1));
    looks_the_same(&site, "a", "set/small", &pattern(1000, 1));
    let size = 5 * MIB;
    site.sandbox.write("set/large", pattern(size, 2));
    let running = site.cp(&["--json", "--limit-rate", "4Mi", "set", "--to-hosts", "a,b"]).spawn();
    site.await_blocks("a", "set/.large.weir-part", size);
    site.sandbox.write("go", "");
    let record = running.wait().succeeds().json();
    blames_nobody(&record, &["a"]);
    for name in ["set/small", "set/large"] {
        assert!(site.on("b", name) == site.sandbox.read(name), "{name}");
    }
}

/// With `--checksum` a host passes on what it has, as long as that is what it compared.
#[test]
fn what_is_another_since_it_was_compared_is_not_passed_on() {
    let site = Site::new(&["a", "b"]);
    starts_once_told(&site, "b");
    for folder in ["set", "hosts/a/set"] {
        std::fs::create_dir(site.sandbox.path(folder)).unwrap();
    }
    site.sandbox.write("set/large", pattern(2 * MIB, 1));
    looks_the_same(&site, "a", "set/large", &pattern(2 * MIB, 1));
    let folder = std::fs::File::open(site.sandbox.path("set")).unwrap();
    folder.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let running = site.cp(&["--json", "--checksum", "-a", "set", "--to-hosts", "a,b"]).spawn();
    let has_all = || modified(&site.sandbox.path("hosts/a/set")) == Some(SystemTime::UNIX_EPOCH);
    wait_for("the first host", has_all);
    looks_the_same(&site, "a", "set/large", &pattern(2 * MIB, 2));
    site.sandbox.write("go", "");
    let record = running.wait().succeeds().json();
    assert!(site.on("b", "set/large") == site.sandbox.read("set/large"), "{record}");
    assert_eq!(row(&record, "b")["verified"], true, "{record}");
}
