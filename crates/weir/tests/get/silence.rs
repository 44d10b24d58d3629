//! Answers that say nothing of their version: a part whose version is known stays, and they get no name.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use support::{MIB, Object, Sandbox, Server, Weir, Wire};

/// So much comes before the first answer breaks off.
const CUT: usize = 2 * MIB;

/// More requests than any test makes.
const ALL: usize = usize::MAX;

/// What a server sends in place of the object.
type Other = fn(&mut Wire) -> io::Result<()>;

/// What comes from a proxy whose servers are gone for a while.
const TROUBLE: [Other; 3] = [
    |wire| wire.answer("200 OK", &[], b""),
    |wire| wire.answer("200 OK", &[("Content-Type", "application/json")], WORDS),
    |wire| {
        wire.head("200 OK", &[("Transfer-Encoding", "chunked")])?;
        wire.raw(b"15\r\n{\"error\":\"try again\"}\r\n0\r\n\r\n")
    },
];

const WORDS: &[u8] = b"{\"error\":\"try again\"}";

/// A server whose first answer breaks off, and which is in trouble afterwards.
struct Troubled {
    server: Server,
    /// Requests from this number on get the object.
    mended: Arc<AtomicUsize>,
    object: Object,
    sandbox: Sandbox,
}

impl Troubled {
    fn new(other: Other, mended: usize) -> Troubled {
        Troubled::of(Object::new(4 * MIB), CUT, other, mended)
    }

    /// The same with another object, of which `cut` bytes come first.
    fn of(object: Object, cut: usize, other: Other, mended: usize) -> Troubled {
        let mended = Arc::new(AtomicUsize::new(mended));
        let (served, until) = (object.clone(), Arc::clone(&mended));
        let server = Server::start(move |request, wire| match request.number {
            0 => served.serve_up_to(request, wire, cut).and_then(|()| wire.close()),
            number if number < until.load(Relaxed) => other(wire),
            _ => served.serve(request, wire),
        });
        Troubled { server, mended, object, sandbox: Sandbox::new() }
    }

    /// The same, and a run before has left a part.
    #[track_caller]
    fn with_a_part(other: Other, mended: usize) -> Troubled {
        let troubled = Troubled::new(other, 0);
        troubled.get(&["--retries", "0"]).run().exits(4);
        troubled.keeps_its_part();
        troubled.mended.store(mended, Relaxed);
        troubled
    }

    fn get(&self, args: &[&str]) -> Weir {
        self.sandbox.get([&self.server.url("x"), "-o", "out", "-c", "1"]).args(args)
    }

    #[track_caller]
    fn keeps_its_part(&self) {
        assert_eq!(self.sandbox.names(), ["out.part", "out.weir"]);
        assert_eq!(self.sandbox.journalled("out"), CUT as u64);
    }

    /// The same command brings the rest of the part.
    #[track_caller]
    fn goes_on(&self) {
        let run = self.get(&[]).run();
        run.succeeds();
        assert!(!run.stderr.contains("starting again"), "{}", run.stderr);
        assert!(self.sandbox.read("out") == *self.object.bytes);
        assert_eq!(self.sandbox.names(), ["out"]);
        assert_eq!(self.server.requests().last().unwrap().request.start(), CUT as u64);
    }
}

const KEPT: &[&str] = &[
    "cannot tell whether the object on 127.0.0.1 changed: its answer has ",
    ", and no ETag or Last-Modified; --force starts at byte 0",
    "are kept, run the same command again to resume",
];

#[test]
fn a_later_run_keeps_its_part() {
    for other in TROUBLE {
        let troubled = Troubled::with_a_part(other, ALL);
        for _ in 0..2 {
            troubled.get(&["--retries", "0"]).run().fails(4, KEPT);
            troubled.keeps_its_part();
        }
        troubled.mended.store(0, Relaxed);
        troubled.goes_on();
    }
}

#[test]
fn the_same_run_keeps_its_part() {
    for other in TROUBLE {
        let troubled = Troubled::new(other, ALL);
        troubled.get(&["--retries", "1"]).run().fails(4, KEPT);
        troubled.keeps_its_part();
        troubled.mended.store(0, Relaxed);
        troubled.goes_on();
    }
}

/// Where nothing is kept of an object the run knows all the same what it was: small ones, those of a server
/// that gives no parts, and those of one that names no versions.
#[test]
fn the_same_run_knows_what_the_object_was() {
    let large = || Object::new(3 * MIB).whole_only();
    for (object, cut, other) in [
        (Object::new(100_000), 50_000, TROUBLE[0]),
        (Object::new(100_000), 50_000, TROUBLE[2]),
        (Object::new(100_000).etag(None), 50_000, TROUBLE[1]),
        (large(), MIB, TROUBLE[1]),
        (large(), 0, TROUBLE[1]),
        (large().etag(None), MIB, TROUBLE[2]),
    ] {
        let troubled = Troubled::of(object, cut, other, ALL);
        troubled.get(&["--retries", "1"]).run().fails(1, &[KEPT[0]]);
        assert_eq!(troubled.sandbox.names(), [""; 0]);
    }
    for (object, cut) in [(Object::new(100_000), 50_000), (large(), MIB), (large().etag(None), MIB)] {
        let troubled = Troubled::of(object, cut, TROUBLE[1], 2);
        troubled.get(&[]).run().succeeds();
        assert!(troubled.sandbox.read("out") == *troubled.object.bytes);
        assert_eq!(troubled.sandbox.names(), ["out"]);
    }
}

/// Nor does a stream end with it, of which nothing has gone out yet.
#[test]
fn a_stream_waits_until_the_object_comes() {
    let troubled = Troubled::of(Object::new(3 * MIB).whole_only(), 0, TROUBLE[1], 2);
    let run = troubled.sandbox.get([&troubled.server.url("x"), "-o", "-", "-c", "1"]).run();
    assert!(run.succeeds().stdout == *troubled.object.bytes);
}

#[test]
fn trouble_that_passes_is_waited_for() {
    for other in TROUBLE {
        Troubled::new(other, 5).goes_on();
        Troubled::with_a_part(other, 5).goes_on();
    }
}

#[test]
fn force_begins_anew() {
    let troubled = Troubled::with_a_part(TROUBLE[1], ALL);
    troubled.get(&["--force"]).run().succeeds();
    assert_eq!(troubled.sandbox.read("out"), WORDS);
    assert_eq!(troubled.sandbox.names(), ["out"]);
}

/// A part is given up for what has a version of its own, once that is whole and has its digest.
#[test]
fn a_small_new_version_takes_the_place_of_a_part_when_it_is_proven() {
    const NEW: Other = |wire| wire.answer("200 OK", &[("ETag", "\"two\"")], b"new");
    const CUT_OFF: Other = |wire| {
        wire.head("200 OK", &[("ETag", "\"two\""), ("Content-Length", "1000")])?;
        wire.body(b"half of it")?;
        wire.close()
    };
    let troubled = Troubled::with_a_part(NEW, ALL);
    troubled.get(&[]).run().succeeds().says(&["starting again"]);
    assert_eq!(troubled.sandbox.read("out"), b"new");
    assert_eq!(troubled.sandbox.names(), ["out"]);
    let zeros = format!("sha256:{}", "0".repeat(64));
    for (other, args, code, says) in [
        (CUT_OFF, &["--retries", "0"][..], 4, "127.0.0.1 closed the connection after"),
        (NEW, &["--checksum", &zeros], 3, "sha256 of out does not match"),
    ] {
        let troubled = Troubled::with_a_part(other, ALL);
        troubled.get(args).run().fails(code, &[says]);
        troubled.keeps_its_part();
        troubled.mended.store(0, Relaxed);
        troubled.goes_on();
    }
}
