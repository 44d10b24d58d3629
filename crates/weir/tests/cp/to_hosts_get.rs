//! `weir get URL --to-hosts`: one host fetches from the server, and all have it, under the same name.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;
use crate::to_hosts::{Site, is_one_chain, row};

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use rustix::process::Signal;
use serde_json::Value;
use support::{Answer, MIB, Object, Request, Server, WEIR, Weir, Wire, wait_for};
use weir_codec::digest::Algorithm;
use weir_codec::hex;

/// When the object was changed last.
const DATE: &str = "Fri, 01 Jan 2021 00:00:00 GMT";

fn served(length: usize) -> (Object, Server) {
    let object = Object { last_modified: Some(DATE.to_owned()), ..Object::new(length) };
    let serves = object.clone();
    (object, Server::start(move |request, wire| serves.serve(request, wire)))
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(&Algorithm::SHA256.of(bytes))
}

impl Site {
    /// A `get` whose hosts are folders here.
    fn get(&self, args: &[&str]) -> Weir {
        let ssh = self.sandbox.path("ssh").display().to_string();
        let get = self.sandbox.weir(WEIR, ["get", "--rsh", &ssh, "--far-program", WEIR]);
        get.env("HOSTS", self.sandbox.path("hosts")).args(args)
    }
}

#[test]
fn one_host_fetches_and_all_have_it() {
    let site = Site::new(&["a", "b", "c"]);
    let size = 7 * MIB + 77;
    let (object, server) = served(size);
    let digest = format!("sha256:{}", sha256(&object.bytes));
    let args = ["--json", "--checksum", &digest, &server.url("model.bin"), "--to-hosts", "a,b,c:data/"];
    let record = site.get(&args).run().succeeds().json();
    assert_eq!((&record["command"], &record["outcome"]), (&"get".into(), &"complete".into()), "{record}");
    assert_eq!((&record["fetch"]["host"], &record["cp"]["complete"]), (&"a".into(), &3.into()), "{record}");
    assert_eq!(record["fetch"]["record"]["files"][0]["digest"]["hex"], digest["sha256:".len()..], "{record}");
    is_one_chain(&record, &Value::Null, &["a", "b", "c"]);
    for host in ["a", "b", "c"] {
        assert!(site.on(host, "data/model.bin") == *object.bytes, "{host}");
        assert_eq!(site.names_on(host), ["data/", "data/model.bin"], "{host}");
        let row = row(&record, host);
        assert_eq!((&row["bytes"], &row["verified"]), (&size.into(), &true.into()), "{row}");
    }
    // A part may be asked for again on a busy machine; two hosts would fetch twice as much.
    assert!((size as u64..size as u64 * 2).contains(&server.sent()), "once: {} bytes", server.sent());
    // What all have is neither fetched nor sent again.
    let again = site.get(&args).run().succeeds().json();
    assert_eq!((&again["bytes"], &row(&again, "a")["unchanged"]), (&0.into(), &1.into()), "{again}");
    for host in ["a", "b", "c"] {
        wait_for("no process is left", || site.peers(host).is_empty());
    }
    // Into the home folders, and under another name.
    let url = server.url("model.bin");
    let said = site.get(&[&url, "--to-hosts", "a,b"]).run().succeeds().stderr.clone();
    assert!(said.contains("a: fetched after") && said.contains("b: complete and verified"), "{said}");
    site.get(&["-q", &url, "-o", "m", "--to-hosts", "a,b:data"]).run().succeeds();
    site.get(&["-q", &url, "--to-hosts", "a,b:data/n"]).run().succeeds();
    for name in ["model.bin", "data/m", "data/n"] {
        assert!(site.on("b", name) == *object.bytes, "{name}");
    }
}

/// Another version of the same size and time: hosts that have the one before get it as well.
#[test]
fn a_version_that_only_its_tag_tells_reaches_every_host() {
    let site = Site::new(&["a", "b", "c"]);
    let object = Object { last_modified: Some(DATE.to_owned()), ..Object::new(5 * MIB) };
    let (first, second) = (object.clone(), object.changed());
    let is_second = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let serves = Arc::clone(&is_second);
    let server = Server::start(move |request, wire| match serves.load(Relaxed) {
        false => first.serve(request, wire),
        true => second.serve(request, wire),
    });
    let args = ["--json", &server.url("model.bin"), "--to-hosts", "a,b,c:data/"];
    site.get(&args).run().succeeds();
    is_second.store(true, Relaxed);
    site.get(&args).run().succeeds();
    for host in ["a", "b", "c"] {
        assert!(site.on(host, "data/model.bin") == *object.changed().bytes, "{host}");
    }
}

/// A secret goes inside ssh: no command line has it, and the server gets it.
#[test]
fn fields_and_logins_are_on_no_command_line() {
    let site = Site::new(&["a", "b"]);
    let object = Object::new(MIB).rate(2 * MIB as u64);
    let serves = object.clone();
    let server = Server::start(move |request, wire| match request.field("authorization") {
        Some("Bearer deep-secret") => serves.serve(request, wire),
        _ => wire.answer("401 Unauthorized", &[], b""),
    });
    let url = server.url("x");
    let fields = site.sandbox.write("fields", "Authorization: Bearer deep-secret\n");
    let from = format!("@{}", fields.display());
    let running = site.get(&["--json", "-H", &from, &url, "--to-hosts", "a,b"]).spawn();
    server.wait_sent(1000);
    for host in ["a", "b"] {
        for peer in site.peers(host) {
            let path = format!("/proc/{}/cmdline", peer.as_raw_nonzero());
            let line = std::fs::read(path).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&line).contains("deep-secret"), "{host}");
        }
    }
    let run = running.wait();
    assert!(!run.succeeds().json().to_string().contains("deep-secret"));
    assert!(site.on("b", "x") == *object.bytes);
}

/// A server that has sent so many bytes in all and waits; then it goes on, or has another version.
struct Held {
    object: Object,
    most: u64,
    sent: AtomicU64,
    then: OnceLock<Option<Object>>,
}

impl Held {
    fn start(most: u64) -> (Arc<Held>, Server) {
        let object = Object { last_modified: Some(DATE.to_owned()), ..Object::new(4 * most as usize / 3) };
        let held = Arc::new(Held { object, most, sent: AtomicU64::new(0), then: OnceLock::new() });
        let serves = Arc::clone(&held);
        (held, Server::start(move |request, wire| serves.serve(request, wire)))
    }

    fn serve(&self, request: &Request, wire: &mut Wire) -> io::Result<()> {
        if let Some(Some(other)) = self.then.get() {
            return other.serve(request, wire);
        }
        let Answer { status, fields, part } = self.object.answer(request);
        wire.head(status, &fields)?;
        for piece in self.object.bytes[part].chunks(64 << 10) {
            if self.sent.fetch_add(piece.len() as u64, Relaxed) > self.most {
                wait_for("it may go on", || self.then.get().is_some());
            }
            if let Some(Some(_)) = self.then.get() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            wire.body(piece)?;
        }
        Ok(())
    }
}

#[test]
fn the_chain_begins_while_the_file_is_fetched() {
    let site = Site::new(&["a", "b", "c"]);
    let (held, server) = Held::start(18 * MIB as u64);
    let size = held.object.bytes.len();
    let running = site.get(&["--json", &server.url("x"), "--to-hosts", "a,b,c"]).spawn();
    site.await_blocks("c", ".x.weir-part", size);
    for host in ["a", "b", "c"] {
        assert!(!site.names_on(host).contains(&"x".to_owned()), "{host} has it before it is all there");
    }
    held.then.set(None).unwrap();
    let record = running.wait().succeeds().json();
    for host in ["a", "b", "c"] {
        assert!(site.on(host, "x") == *held.object.bytes, "{host}");
        assert_eq!(site.names_on(host), ["x"], "{host}");
    }
    // What it had before the end is known from its part. On a busy machine the chain that follows the fetch
    // brings the last of it, or finds that all is there: the row is of that one, and its bytes say nothing
    // here.
    let of_c = row(&record, "c");
    assert!(of_c["from"] == "a" || of_c["from"] == "b", "{of_c}");
    assert_eq!(of_c["outcome"], "complete", "{of_c}");
    // Some of it twice, where connections stood still.
    assert!(server.sent() < size as u64 * 2, "by one host: {}", server.sent());
    let again = site.get(&["--json", &server.url("x"), "--to-hosts", "a,b,c"]).run().succeeds().json();
    assert_eq!((&again["bytes"], &row(&again, "c")["unchanged"]), (&0.into(), &1.into()), "{again}");
}

/// Its size and its time are those of before.
#[test]
fn another_version_in_the_middle_is_what_all_have() {
    let site = Site::new(&["a", "b", "c"]);
    let (held, server) = Held::start(18 * MIB as u64);
    let (size, other) = (held.object.bytes.len(), held.object.changed());
    let running = site.get(&["--json", &server.url("x"), "--to-hosts", "a,b,c"]).spawn();
    site.await_blocks("c", ".x.weir-part", size);
    held.then.set(Some(other.clone())).unwrap();
    running.wait().succeeds();
    for host in ["a", "b", "c"] {
        assert!(site.on(host, "x") == *other.bytes, "{host}");
        assert_eq!(site.names_on(host), ["x"], "{host}");
    }
}

/// What came before a kill is of another version than what is fetched then, of the same size and time.
#[test]
fn parts_of_another_version_are_sent_anew() {
    let site = Site::new(&["a", "b", "c"]);
    let (held, server) = Held::start(18 * MIB as u64);
    let (size, other) = (held.object.bytes.len(), held.object.changed());
    let args = ["--json", &server.url("x"), "--to-hosts", "a,b,c"];
    let running = site.get(&args).spawn();
    site.await_blocks("c", ".x.weir-part", size);
    running.signal(Signal::KILL);
    ["a", "b", "c"].iter().for_each(|host| site.kill(host));
    running.wait();
    held.then.set(Some(other.clone())).unwrap();
    site.get(&args).run().succeeds();
    for host in ["a", "b", "c"] {
        assert!(site.on(host, "x") == *other.bytes, "{host}");
    }
}

/// The digest that was asked for is another: no host has the file, nor what came of it.
#[test]
fn what_is_not_as_it_should_be_is_nowhere() {
    let site = Site::new(&["a", "b", "c"]);
    let (held, server) = Held::start(18 * MIB as u64);
    let wrong = format!("sha256:{}", "0".repeat(64));
    let running = site.get(&["--checksum", &wrong, &server.url("x"), "--to-hosts", "a,b,c"]).spawn();
    site.await_blocks("c", ".x.weir-part", held.object.bytes.len());
    held.then.set(None).unwrap();
    running.wait().fails(3, &["a: could not fetch", "sha256"]);
    for host in ["a", "b", "c"] {
        assert_eq!(site.names_on(host), [""; 0], "{host}");
    }
}

#[test]
fn what_is_wrong_at_the_server_is_said_once() {
    let site = Site::new(&["a", "b", "c", "d"]);
    let server = Server::start(|_, wire| wire.answer("404 Not Found", &[], b"no"));
    let run = site.get(&["--json", &server.url("none"), "--to-hosts", "a,b,c,d"]).run();
    run.fails(1, &["a: could not fetch", "404"]);
    let record = run.json();
    assert_eq!((&record["outcome"], &record["fetch"]["host"]), (&"failed".into(), &Value::Null), "{record}");
    assert_eq!(record["fetch"]["attempts"].as_array().unwrap().len(), 2, "two are told the same: {record}");
    let (_, server) = served(MIB);
    let wrong = format!("sha256:{}", "0".repeat(64));
    let run = site.get(&["--checksum", &wrong, &server.url("x"), "--to-hosts", "a,b"]).run();
    run.fails(3, &["a: could not fetch", "sha256"]);
    for host in ["a", "b"] {
        assert!(!site.names_on(host).contains(&"x".to_owned()), "{host}");
    }
}

#[test]
fn another_host_fetches_where_the_first_cannot() {
    let site = Site::new(&["b", "c"]);
    let (object, server) = served(3 * MIB);
    let run = site.get(&["--json", &server.url("x"), "--to-hosts", "away,b,c"]).run();
    run.fails(1, &["away: could not fetch: cannot reach away", "No route to host"]);
    let record = run.json();
    assert_eq!((&record["fetch"]["host"], &record["cp"]["complete"]), (&"b".into(), &2.into()), "{record}");
    assert_eq!(row(&record, "away")["outcome"], "failed");
    for host in ["b", "c"] {
        assert!(site.on(host, "x") == *object.bytes, "{host}");
    }
    site.get(&[&server.url("x"), "--to-hosts", "away,off"]).run().fails(1, &["off: could not fetch"]);
}

/// The host is killed while it fetches: the next one fetches, and it has all from there.
#[test]
fn a_host_that_is_lost_while_it_fetches() {
    let site = Site::new(&["a", "b", "c"]);
    let (held, server) = Held::start(6 * MIB as u64);
    let running = site.get(&["--json", &server.url("x"), "--to-hosts", "a,b,c"]).spawn();
    server.wait_sent(MIB as u64);
    site.kill("a");
    held.then.set(None).unwrap();
    let record = running.wait().succeeds().json();
    assert_eq!((&record["fetch"]["host"], &record["cp"]["complete"]), (&"b".into(), &3.into()), "{record}");
    assert_eq!(record["fetch"]["attempts"][0]["host"], "a");
    for host in ["a", "b", "c"] {
        assert!(site.on(host, "x") == *held.object.bytes, "{host}");
    }
}

/// The one that drives is killed, or interrupted: the same command goes on with what the host has.
#[test]
fn the_same_command_resumes_the_fetch() {
    for signal in [Signal::KILL, Signal::INT] {
        let site = Site::new(&["a", "b"]);
        let (held, server) = Held::start(18 * MIB as u64);
        let url = server.url("x");
        let running = site.get(&["--json", &url, "--to-hosts", "a,b"]).spawn();
        // The fetching host passes on what its journal has, and the next run resumes that.
        site.await_blocks("b", ".x.weir-part", held.object.bytes.len());
        running.signal(signal);
        let first = running.wait();
        if signal == Signal::INT {
            first.fails(130, &["interrupted"]);
        }
        wait_for("the fetching host has noticed", || site.peers("a").is_empty());
        assert!(site.names_on("a").iter().any(|name| name.ends_with(".part")), "{:?}", site.names_on("a"));
        held.then.set(None).unwrap();
        let record = site.get(&["--json", &url, "--to-hosts", "a,b"]).run().succeeds().json();
        let resumed = record["fetch"]["record"]["files"][0]["resumed_from"].as_u64().unwrap();
        assert!(resumed > 0, "{record}");
        for host in ["a", "b"] {
            assert!(site.on(host, "x") == *held.object.bytes, "{host}");
            assert_eq!(site.names_on(host), ["x"], "{host}");
        }
    }
}

#[test]
fn what_does_not_go_with_many_hosts_is_refused() {
    let site = Site::new(&["a"]);
    let url = "http://127.0.0.1:1/x";
    for (args, words) in [
        (&[url, "http://127.0.0.1:1/y", "--to-hosts", "a"][..], "it fetches one URL"),
        (&["hf://org/repo", "--to-hosts", "a"], "is more than one file"),
        (&["s3://bucket/data/", "--to-hosts", "a"], "is more than one file"),
        (&[url, "-o", "sub/x", "--to-hosts", "a"], "-o names the file alone"),
        (&[url, "-r", "0-9", "--to-hosts", "a"], "-r does not go with --to-hosts"),
        (&[url, "--cacert", "x", "--to-hosts", "a"], "--cacert does not go with --to-hosts"),
        (&[url, "--to-hosts", "none/such"], "there is no file none/such"),
        (&[url, "--rsh", "ssh"], "--to-hosts"),
    ] {
        // Without the flags that name a stand-in, one of which is refused here.
        site.sandbox.weir(WEIR, ["get"]).args(args).run().fails(2, &[words]);
    }
}
