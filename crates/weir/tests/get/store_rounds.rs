//! weir and real servers of stores: what one puts the other gives back, whatever its size, and what weir has
//! written other programs read, and the other way round.
//!
//! `WEIR_STORES=all` (`make stores-check`) has every server, every size, and s5cmd and rclone beside weir.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::Signal;
use support::stores::{BUCKET, PlayedStore, StoreServer, all_are_wanted, played};
use support::{Dice, MIB, Sandbox, pattern, wait_for};

/// From 1970 to the time of all files: 2017.
const YEARS: Duration = Duration::from_millis(1_500_000_000_123);

/// weir has done it.
#[track_caller]
fn done(store: &PlayedStore, sandbox: &Sandbox, args: &[&str]) -> support::Run {
    let run = store.weir(sandbox, args).spawn().wait_for(Duration::from_secs(600));
    run.succeeds()
        .hides("a-secret-of-tests")
        .hides("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq");
    run
}

/// Both files have these many bytes, and the same.
#[track_caller]
fn same(sandbox: &Sandbox, one: &str, other: &str) {
    let cmp = Command::new("cmp").args([sandbox.path(one), sandbox.path(other)]).output().unwrap();
    assert!(cmp.status.success(), "{}", String::from_utf8_lossy(&cmp.stdout));
}

/// Both trees have the same files; a store has no empty folders.
#[track_caller]
fn same_trees(sandbox: &Sandbox, one: &str, other: &str) {
    let diff =
        Command::new("diff").arg("-r").args([sandbox.path(one), sandbox.path(other)]).output().unwrap();
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
}

#[test]
fn objects_of_every_size() {
    let mut sizes = vec![0, 1, 5 * MIB - 1, 5 * MIB, 5 * MIB + 1, 8 * MIB + 1];
    sizes.extend(all_are_wanted().then_some(200 * MIB));
    for store in played() {
        let sandbox = Sandbox::new();
        for size in &sizes {
            let began = Instant::now();
            sandbox.write("x", pattern(*size, 1));
            let key = format!("sizes/{size}{}", odd(&store));
            let url = store.url(&key);
            done(&store, &sandbox, &["put", "x", &url, "--part-size", "5MiB"]);
            done(&store, &sandbox, &["get", &url, "-o", "back", "--force"]);
            same(&sandbox, "x", "back");
            let listed = done(&store, &sandbox, &["ls", "--json", &url]).json();
            assert_eq!((listed["size"].as_u64(), listed["key"].as_str()), (Some(*size as u64), Some(&*key)));
            println!("  {size} bytes there and back: {:.2?}", began.elapsed());
            // rclone's pieces of larger ones are more than Google's emulator understands.
            let is_for_peers = store.server != StoreServer::GcpEmulator || *size <= 16 * MIB;
            if all_are_wanted() && is_for_peers {
                peers_agree(&store, &sandbox, &key);
            }
        }
        assert_ne!(store.has_uploads(&sandbox), Some(true));
        // What is there no more, and what never was.
        store.weir(&sandbox, &["get", &store.url("none"), "-o", "none"]).run().fails(1, &["none", "404"]);
        sandbox.has_nothing_of("none");
    }
}

/// Letters of a key that have to be encoded. The links that Google's emulator gives are not, so that rclone
/// does not find what they lead to.
fn odd(store: &PlayedStore) -> &'static str {
    match store.server {
        StoreServer::GcpEmulator if all_are_wanted() => "",
        _ => " +%2F\u{e9}&",
    }
}

/// Others read `x` at `key`, and weir what others have written.
fn peers_agree(store: &PlayedStore, sandbox: &Sandbox, key: &str) {
    let (x, back) = (sandbox.path("x"), sandbox.path("peer"));
    let (x, back) = (x.to_str().unwrap(), back.to_str().unwrap());
    let far = |key: &str| format!("peer:{BUCKET}/{key}");
    store.rclone(&["copyto", &far(key), back]);
    same(sandbox, "x", "peer");
    store.rclone(&["copyto", x, &far("of rclone")]);
    done(store, sandbox, &["get", &store.url("of rclone"), "-o", "back", "--force"]);
    same(sandbox, "x", "back");
    if store.is_s3() {
        std::fs::remove_file(back).unwrap();
        store.s5cmd(&["cp", "--raw", &store.url(key), back]);
        same(sandbox, "x", "peer");
        store.s5cmd(&["cp", x, &store.url("of-s5cmd")]);
        done(store, sandbox, &["get", &store.url("of-s5cmd"), "-o", "back", "--force"]);
        same(sandbox, "x", "back");
    }
}

/// A tree of `files` small files, and some odd ones.
fn grow(store: &PlayedStore, sandbox: &Sandbox, root: &str, files: usize) {
    let write = |name: &str, bytes: &[u8]| {
        let path = sandbox.path(root).join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        // Some keep no time of an object of parts, and their own in whole seconds.
        File::options()
            .append(true)
            .open(path)
            .unwrap()
            .set_modified(SystemTime::UNIX_EPOCH + YEARS)
            .unwrap();
    };
    let name = format!("a/odd{}", odd(store));
    for (name, size) in [("zero", 0), ("a/one", 1), (&name as &str, 10), ("a.b", 20), ("large", 11 * MIB)] {
        write(name, &pattern(size, 7));
    }
    for number in 0..files {
        write(&format!("many/{}/{number}", number % 17), &pattern(number % 3000, number as u64));
    }
}

#[test]
fn trees_go_there_and_come_back() {
    for store in played() {
        let (sandbox, began) = (Sandbox::new(), Instant::now());
        grow(&store, &sandbox, "tree", 100);
        let to = store.url("tree/");
        let files = 105;
        let counts = |args: &[&str]| {
            let record = done(&store, &sandbox, &[&["cp", "--json"], args].concat()).json();
            let unchanged = record["cp"]["unchanged"].as_u64().unwrap();
            (record["cp"]["files"].as_u64().unwrap() - unchanged, unchanged)
        };
        assert_eq!(counts(&["-r", "tree/", &to]), (files, 0));
        assert_eq!(counts(&["-r", "tree/", &to]), (0, files));
        assert_eq!(counts(&["-r", &to, "back"]), (files, 0));
        same_trees(&sandbox, "tree", "back");
        assert_eq!(counts(&["-r", &to, "back"]), (0, files));
        // Within the store, by the store.
        assert_eq!(counts(&["-r", &to, &store.url("copy/")]), (files, 0));
        assert_eq!(counts(&["-r", "--delete", &store.url("copy/"), "copy"]), (files, 0));
        same_trees(&sandbox, "tree", "copy");
        std::fs::remove_dir_all(sandbox.path("tree/many/3")).unwrap();
        assert_eq!(counts(&["-r", "--delete", "tree/", &to]), (0, files - 6));
        assert_eq!(counts(&["-r", "--delete", &to, "back"]), (0, files - 6));
        same_trees(&sandbox, "tree", "back");
        assert_ne!(store.has_uploads(&sandbox), Some(true));
        if all_are_wanted() {
            trees_of_peers(&store, &sandbox);
        }
        println!("  trees: {:.1?}", began.elapsed());
    }
}

fn trees_of_peers(store: &PlayedStore, sandbox: &Sandbox) {
    let at = |name: &str| sandbox.path(name).to_str().unwrap().to_owned();
    let far = |key: &str| format!("peer:{BUCKET}/{key}");
    store.rclone(&["copy", &far("tree"), &at("of-rclone")]);
    same_trees(sandbox, "tree", "of-rclone");
    store.rclone(&["copy", &at("tree"), &far("rclone")]);
    done(store, sandbox, &["cp", "-r", &store.url("rclone/"), "from-rclone"]);
    same_trees(sandbox, "tree", "from-rclone");
    // Its times are known: nothing has changed.
    let again = done(store, sandbox, &["cp", "-r", "--json", "tree/", &store.url("rclone/")]).json();
    assert_eq!(again["cp"]["files"], again["cp"]["unchanged"], "{again:#}");
    if store.is_s3() {
        store.s5cmd(&["cp", &format!("{}*", store.url("tree/")), &format!("{}/", at("of-s5cmd"))]);
        same_trees(sandbox, "tree", "of-s5cmd");
        store.s5cmd(&["cp", &format!("{}/", at("tree")), &store.url("s5cmd/")]);
        done(store, sandbox, &["cp", "-r", &store.url("s5cmd/"), "from-s5cmd"]);
        same_trees(sandbox, "tree", "from-s5cmd");
    }
}

#[test]
fn conditions_hold_or_are_said() {
    for store in played() {
        let sandbox = Sandbox::new();
        for size in [10, 9 * MIB] {
            let (key, url) = (format!("k{size}"), store.url(&format!("k{size}")));
            sandbox.write("x", pattern(size, 1));
            let put = |args: &[&str]| store.weir(&sandbox, &[&["put", "x", &url], args].concat()).run();
            put(&["--if-match", "\"17\""]).fails(1, &[&key, "--if-match"]);
            put(&["--if-absent"]).succeeds();
            put(&["--if-absent"]).fails(1, &[&url, "it exists already (--if-absent)"]);
            put(&["--if-match", "17"]).fails(1, &[&url, "has not the tag \"17\" (--if-match)"]);
            // Google's conditions are on generations.
            let (what, versions) = match store.server {
                StoreServer::GcpEmulator => ("version", &["--versions"][..]),
                _ => ("etag", &[][..]),
            };
            let there = done(&store, &sandbox, &[&["ls", "--json", &url], versions].concat()).json();
            // s3s-fs has none in its lists.
            if let Some(tag) = there[what].as_str() {
                put(&["--if-match", tag]).succeeds();
            }
            assert_ne!(store.has_uploads(&sandbox), Some(true));
            // What has not changed is not fetched again.
            let get = || done(&store, &sandbox, &["get", &url, "-o", "back", "-N", "--json"]).json();
            get();
            let again = get();
            // These have no tags to ask by.
            let is_known = !matches!(store.server, StoreServer::GcpEmulator | StoreServer::S3sFs);
            assert!(again["files"][0]["unchanged"] == true || !is_known, "{again:#}");
            same(&sandbox, "x", "back");
        }
    }
}

/// The object changes between two parts of it: what there is of the old one is dropped, and said.
#[test]
fn an_object_that_changes_meanwhile_is_not_mixed() {
    for store in played() {
        let sandbox = Sandbox::new();
        let url = store.url("changing");
        sandbox.write("x", pattern(12 * MIB, 1));
        done(&store, &sandbox, &["put", "x", &url]);
        let slow = ["get", &url, "-o", "out", "--limit-rate", "4M"];
        let running = store.weir(&sandbox, &slow).spawn();
        wait_for("a part", || std::fs::metadata(sandbox.path("out.part")).is_ok_and(|data| data.len() > 0));
        sandbox.write("x", pattern(12 * MIB, 2));
        done(&store, &sandbox, &["put", "x", &url]);
        running.signal(Signal::INT);
        // On a busy machine it may have ended before.
        let ended = running.wait();
        assert!(matches!(ended.status.code(), Some(0 | 130)), "{}", ended.stderr);
        let is_begun = ended.status.code() == Some(130) && sandbox.path("out.weir").exists();
        let run = store.weir(&sandbox, &["get", &url, "-o", "out", "-v"]).run();
        if store.server == StoreServer::Moto && is_begun {
            run.succeeds().says(&["it has not this ETag any more; starting again"]);
        } else if !run.status.success() {
            done(&store, &sandbox, &["get", &url, "-o", "out", "--force"]);
        }
        same(&sandbox, "x", "out");
    }
}

#[test]
fn ten_thousand_keys() {
    if !all_are_wanted() {
        return;
    }
    // Google's emulator writes a list of all of them with each.
    for store in played().filter(|store| store.server != StoreServer::GcpEmulator) {
        let sandbox = Sandbox::new();
        grow(&store, &sandbox, "tree", 10_000);
        let began = Instant::now();
        let took = |what: &str, began: Instant| println!("  {what}: {:.1?}", began.elapsed());
        done(&store, &sandbox, &["cp", "-r", "tree/", &store.url("many/")]);
        took("10,005 files there", began);
        let began = Instant::now();
        let keys = done(&store, &sandbox, &["ls", "-r", &store.url("many/")]);
        assert_eq!(String::from_utf8_lossy(&keys.stdout).lines().count(), 10_005);
        took("listed", began);
        let began = Instant::now();
        done(&store, &sandbox, &["cp", "-r", &store.url("many/"), "back"]);
        took("back", began);
        same_trees(&sandbox, "tree", "back");
        let began = Instant::now();
        let again = done(&store, &sandbox, &["cp", "-r", "--json", "tree/", &store.url("many/")]).json();
        assert_eq!(again["cp"]["unchanged"].as_u64(), Some(10_005), "{again:#}");
        took("again", began);
    }
}

/// Those that hold no object in memory; sparse at the source, so that a few blocks are read.
#[test]
fn five_gigabytes() {
    if !all_are_wanted() {
        return;
    }
    for server in [StoreServer::S3sFs, StoreServer::Azurite, StoreServer::Gofakes3] {
        let Some(store) = PlayedStore::start(server) else { continue };
        let (sandbox, began) = (Sandbox::new(), Instant::now());
        let file = File::create(sandbox.path("x")).unwrap();
        file.set_len(5 << 30).unwrap();
        for place in [0, 1 << 30, (5 << 30) - 1000] {
            file.write_at(&pattern(1000, place), place).unwrap();
        }
        done(&store, &sandbox, &["put", "x", &store.url("five")]);
        println!("  5 GiB there: {:.1?}", began.elapsed());
        let began = Instant::now();
        done(&store, &sandbox, &["get", &store.url("five"), "-o", "back"]);
        println!("  5 GiB back: {:.1?}", began.elapsed());
        same(&sandbox, "x", "back");
        assert_ne!(store.has_uploads(&sandbox), Some(true));
    }
}

/// Killed at any moment on every server, one object and a tree, there and back: right after the next run.
#[test]
fn killed_on_every_server() {
    if !all_are_wanted() {
        return;
    }
    let (mut dice, runs) = Dice::for_runs();
    for store in played() {
        let sandbox = Sandbox::new();
        sandbox.write("x", pattern(24 * MIB, 5));
        grow(&store, &sandbox, "tree", 200);
        let (one, tree) = (store.url("one"), store.url("tree/"));
        done(&store, &sandbox, &["put", "x", &store.url("whole")]);
        done(&store, &sandbox, &["cp", "-r", "tree/", &store.url("held/")]);
        let (whole, held) = (store.url("whole"), store.url("held/"));
        let works: [&[&str]; 4] = [
            &["put", "x", &one, "--part-size", "5MiB", "--limit-rate", "60M"],
            &["get", &whole, "-o", "back", "--limit-rate", "60M"],
            &["cp", "-r", "tree/", &tree, "--bwlimit", "40M"],
            &["cp", "-r", &held, "trees", "--bwlimit", "40M"],
        ];
        let mut killed = 0;
        for run in 0..runs {
            for args in works {
                let running = store.weir(&sandbox, args).spawn();
                std::thread::sleep(Duration::from_millis(dice.roll(5..500)));
                running.signal(Signal::KILL);
                killed += u32::from(running.wait().status.code().is_none());
            }
            for args in works {
                done(&store, &sandbox, args);
            }
            done(&store, &sandbox, &["get", &one, "-o", "stored", "--force", "-q"]);
            done(&store, &sandbox, &["cp", "-r", &tree, "stored-tree"]);
            same(&sandbox, "x", "back");
            same(&sandbox, "x", "stored");
            same_trees(&sandbox, "tree", "trees");
            same_trees(&sandbox, "tree", "stored-tree");
            assert_ne!(store.has_uploads(&sandbox), Some(true), "run {run}");
            let names = sandbox.names();
            let odd =
                names.iter().find(|name| [".part", ".weir", ".upload"].iter().any(|end| name.ends_with(end)));
            assert_eq!(odd, None, "run {run}");
            // Another content at the same places next time.
            sandbox.write("x", pattern(24 * MIB, 100 + run));
            grow(&store, &sandbox, "tree", 200 + run as usize % 7);
            std::fs::remove_file(sandbox.path("back")).unwrap();
            std::fs::remove_dir_all(sandbox.path("trees")).unwrap();
            std::fs::remove_dir_all(sandbox.path("stored-tree")).unwrap();
            done(&store, &sandbox, &["put", "x", &whole, "-q"]);
            done(&store, &sandbox, &["cp", "-r", "--checksum", "tree/", &held, "-q"]);
        }
        println!("  {killed} of {} killed", runs * 4);
    }
}
