//! Objects that change, bodies that are coded, digests that do not match: two versions are never mixed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use support::{MIB, Object, Sandbox, Server, base64, brings, never_brings_another, pattern, refuses};

#[test]
fn a_weak_etag_pins_nothing() {
    let object = Object::new(4 * MIB).etag(Some("W/\"weak\""));
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| {
        if request.number == 0 {
            object.serve_up_to(request, wire, 2 * MIB)?;
            return wire.close();
        }
        object.serve(request, wire)
    });
    brings(&server, &["-c", "4"], &bytes);
    let requests = server.requests_from(0);
    assert!(requests.iter().all(|request| request.field("if-range").is_none()), "{requests:#?}");
    assert!(
        requests.iter().all(|request| request.start() == 0),
        "parts of a weak tag may differ: {requests:#?}"
    );
}

#[test]
fn a_last_modified_pins_as_an_etag_does() {
    const DATE: &str = "Mon, 01 Jun 2020 00:00:00 GMT";
    let object = Object { last_modified: Some(DATE.to_owned()), ..Object::new(3 * MIB).etag(None) };
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| {
        if request.number == 0 {
            object.serve_up_to(request, wire, 2 * MIB)?;
            return wire.close();
        }
        object.serve(request, wire)
    });
    brings(&server, &[], &bytes);
    let second = server.requests()[1].request.clone();
    assert_eq!((second.start(), second.field("if-range")), (2 * MIB as u64, Some(DATE)));
}

/// Serves `object` until a second connection comes, then only its other version.
fn changing(object: Object, honest: bool) -> Server {
    let changed = object.changed();
    let second = AtomicBool::new(false);
    Server::start(move |request, wire| {
        if request.connection > 0 {
            second.store(true, Relaxed);
        }
        if !second.load(Relaxed) {
            return object.serve(request, wire);
        }
        let mut request = request.clone();
        if !honest {
            // A server that does not know If-Range.
            request.fields.retain(|(name, _)| !name.eq_ignore_ascii_case("if-range"));
        }
        changed.serve(&request, wire)
    })
}

#[test]
fn an_etag_that_changes_between_lanes() {
    for honest in [true, false] {
        // So slow that the second connection comes before the first has brought all.
        let object = Object::new(8 * MIB).rate(3 << 20);
        let changed = object.changed();
        let run = brings(&changing(object, honest), &["-c", "2"], &changed.bytes);
        run.says(&["the object changed on 127.0.0.1 during the transfer: ", "starting again"]);
    }
}

/// The same bytes from two servers that take turns, each with an ETag of its own.
fn taking_turns(object: Object) -> Server {
    let other = Object { etag: Some("\"of another inode\"".to_owned()), ..object.clone() };
    Server::start(move |request, wire| {
        if request.connection.is_multiple_of(2) {
            object.serve(request, wire)
        } else {
            other.serve(request, wire)
        }
    })
}

#[test]
fn two_servers_behind_one_name_do_not_undo_what_one_of_them_brings() {
    let object = Object::new(8 * MIB).rate(4 << 20);
    let server = taking_turns(object.clone());
    let run = brings(&server, &["-c", "3"], &object.bytes);
    assert!(!run.stderr.contains("starting again"), "{}", run.stderr);
    let requests = server.requests_from(0);
    assert!(requests.iter().filter(|request| request.start() > 0).count() > 1, "more lanes were tried");
}

#[test]
fn a_part_of_one_of_two_servers_is_gone_on_with() {
    let object = Object::new(4 * MIB);
    let bytes = object.bytes.clone();
    let other = Object { etag: Some("\"of another inode\"".to_owned()), ..object.clone() };
    let server = Server::start(move |request, wire| match request.connection {
        0 => object.serve_up_to(request, wire, 2 * MIB).and_then(|()| wire.close()),
        1 => other.serve(request, wire),
        _ => object.serve(request, wire),
    });
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("x"), "-o", "out", "--retries", "0"]).run().exits(4);
    let run = sandbox.get([&server.url("x"), "-o", "out"]).run();
    run.succeeds();
    assert!(!run.stderr.contains("starting again"), "{}", run.stderr);
    assert!(sandbox.read("out") == *bytes);
    assert_eq!(server.requests()[2].request.start(), 2 * MIB as u64);
}

#[test]
fn a_size_that_changes_between_lanes() {
    // So slow that the second connection comes before the first has brought all.
    let object = Object::new(8 * MIB).rate(3 << 20);
    let longer = Object { bytes: Arc::new(pattern(9 * MIB, 2)), ..object.clone() };
    let bytes = longer.bytes.clone();
    let grown = AtomicBool::new(false);
    let server = Server::start(move |request, wire| {
        grown.fetch_or(request.connection > 0, Relaxed);
        if grown.load(Relaxed) { longer.serve(request, wire) } else { object.serve(request, wire) }
    });
    brings(&server, &["-c", "2"], &bytes).says(&["the object changed on 127.0.0.1", "its size is another"]);
}

#[test]
fn an_object_whose_etag_never_stays() {
    let object = Object::new(4 * MIB).rate(2 << 20);
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| {
        object.clone().etag(Some(&format!("\"{}\"", request.number))).serve(request, wire)
    });
    let run = brings(&server, &["-c", "2"], &bytes);
    run.says(&["the object changed on 127.0.0.1 during the transfer", "starting again"]);
    assert!(server.requests().len() < 20, "the last time over one connection: {}", run.stderr);
}

#[test]
fn a_change_between_two_runs_begins_again() {
    let object = Object::new(4 * MIB);
    let changed = object.changed();
    let bytes = changed.bytes.clone();
    let now = Arc::new(AtomicBool::new(false));
    let flag = now.clone();
    let server = Server::start(move |request, wire| match flag.load(Relaxed) {
        false => object.serve_up_to(request, wire, 2 * MIB).and_then(|()| wire.close()),
        true => changed.serve(request, wire),
    });
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("x"), "-o", "out", "--retries", "0"]).run().exits(4);
    now.store(true, Relaxed);
    let run = sandbox.get([&server.url("x"), "-o", "out"]).run();
    run.succeeds().says(&["out", "changed on the server", "starting again"]);
    assert!(sandbox.read("out") == *bytes);
    assert_eq!(sandbox.names(), ["out"]);
}

#[test]
fn an_object_that_shrank_between_two_runs_begins_again() {
    let object = Object::new(4 * MIB);
    let shorter = Object { bytes: Arc::new(pattern(MIB + 1, 4)), ..object.changed() };
    let bytes = shorter.bytes.clone();
    let now = Arc::new(AtomicBool::new(false));
    let flag = now.clone();
    let server = Server::start(move |request, wire| match flag.load(Relaxed) {
        false => object.serve_up_to(request, wire, 2 * MIB).and_then(|()| wire.close()),
        true if request.start() > 0 => {
            let fields = [("Content-Range", format!("bytes */{}", shorter.bytes.len()))];
            wire.head("416 Range Not Satisfiable", &fields)?;
            wire.close()
        }
        true => shorter.serve(request, wire),
    });
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("x"), "-o", "out", "--retries", "0"]).run().exits(4);
    now.store(true, Relaxed);
    sandbox.get([&server.url("x"), "-o", "out"]).run().succeeds().says(&["starting again"]);
    assert!(sandbox.read("out") == *bytes);
}

#[test]
fn a_later_part_that_is_coded() {
    let object = Object::new(6 * MIB).rate(8 << 20);
    let coded = object.clone().field("Content-Encoding", "gzip");
    let coded = Object { bytes: Arc::new(pattern(6 * MIB, 9)), ..coded };
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| match request.start() {
        0 => object.serve(request, wire),
        _ => coded.serve(request, wire),
    });
    never_brings_another(&server, &["-c", "2"], &bytes);
}

#[test]
fn a_gzip_file_labelled_as_such_is_the_file() {
    let object = Object::new(1000).field("Content-Encoding", "gzip");
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| object.serve(request, wire));
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("x.tar.gz")]).run().succeeds();
    assert!(sandbox.read("x.tar.gz") == *bytes);
}

#[test]
fn a_digest_that_does_not_match() {
    let zeros = "0".repeat(64);
    for length in [1000, 3 * MIB] {
        let object = Object::new(length);
        let server = Server::start(move |request, wire| object.serve(request, wire));
        let checksum = format!("sha256:{zeros}");
        for lanes in ["1", "3"] {
            let args = ["--checksum", &checksum, "-c", lanes];
            refuses(&server, &args, 3, &["sha256 of out does not match: expected 000", "got ", "--checksum"]);
        }
    }
}

#[test]
fn a_digest_the_server_declares_that_does_not_match() {
    let declared = format!("sha-256=:{}:", base64(&[0; 32]));
    for length in [1000, 3 * MIB] {
        let object = Object::new(length).field("Repr-Digest", &declared);
        let server = Server::start(move |request, wire| object.serve(request, wire));
        refuses(&server, &[], 3, &["sha256 of out does not match", "Repr-Digest"]);
    }
}

#[test]
fn a_digest_that_does_not_match_leaves_the_older_file() {
    let server = Server::start(|_, wire| wire.answer("200 OK", &[], b"new"));
    let sandbox = Sandbox::new();
    sandbox.write("out", "old");
    let checksum = format!("sha256:{}", "0".repeat(64));
    sandbox.get([&server.url("x"), "-o", "out", "--checksum", &checksum]).run().exits(3);
    assert_eq!(sandbox.read("out"), b"old");
}
