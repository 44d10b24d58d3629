//! `weir get -C -`: what another program left unfinished is gone on with where that can be proven, and never
//! joined to anything else.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use support::http_servers::{Apache, Nginx, sandbox_with_www};
use support::{MIB, Object, Run, Sandbox, Server, pattern, skip};

const SIZE: usize = 5 * MIB;
const EARLY: &str = "Fri, 25 Dec 2020 10:00:00 GMT";
const DAY: Duration = Duration::from_secs(86_400);

/// The time that `EARLY` says.
fn early() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_608_890_400)
}

fn object() -> Object {
    Object { last_modified: Some(EARLY.to_owned()), ..Object::new(SIZE) }
}

fn serve(object: Object) -> Server {
    Server::start(move |request, wire| object.serve(request, wire))
}

/// A sandbox with the first `length` bytes in `x`, last written at `time`.
fn left(bytes: &[u8], time: SystemTime) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("x", bytes);
    std::fs::File::options().write(true).open(sandbox.path("x")).unwrap().set_modified(time).unwrap();
    sandbox
}

fn go_on(sandbox: &Sandbox, server: &Server, args: &[&str]) -> Run {
    // Of a part that another connection takes over, bytes come twice.
    sandbox.get(["-C", "-", &server.url("x"), "-o", "x", "-c", "1"]).args(args).run()
}

/// The file is whole, and less than a few samples came twice.
#[track_caller]
fn goes_on(sandbox: &Sandbox, server: &Server, bytes: &[u8], kept: usize) -> Run {
    let run = go_on(sandbox, server, &[]);
    run.succeeds();
    assert!(sandbox.read("x") == bytes, "a wrong file: {}", run.stderr);
    let sent = server.sent() as usize;
    assert!(sent <= bytes.len() - kept + 3 * (64 << 10), "{sent} bytes were sent: {}", run.stderr);
    assert_eq!(sandbox.names(), ["x"]);
    run
}

/// The file is whole, and none of what was here is in it.
#[track_caller]
fn starts_again(sandbox: &Sandbox, server: &Server, bytes: &[u8], why: &str) {
    let run = go_on(sandbox, server, &[]);
    run.succeeds().says(&["cannot resume after", why, "starting at byte 0"]);
    assert!(sandbox.read("x") == bytes, "a wrong file: {}", run.stderr);
    assert!(server.sent() as usize >= bytes.len(), "{} bytes were sent", server.sent());
    assert_eq!(sandbox.names(), ["x"]);
}

#[test]
fn what_another_program_began() {
    for kept in [1, 1000, 64 << 10, 100_000, 150_000, 3 * MIB, SIZE - 1] {
        let server = serve(object());
        let sandbox = left(&pattern(SIZE, 1)[..kept], early() + DAY);
        let run = goes_on(&sandbox, &server, &pattern(SIZE, 1), kept);
        run.says(&["resuming after its"]);
        if kept <= 3 * (64 << 10) {
            run.says(&["all of which were compared"]);
        } else {
            run.says(&["the object is unchanged since they were written", "taken on trust", "--checksum"]);
        }
    }
}

#[test]
fn by_a_tag_or_by_a_date_alone() {
    for (etag, date, says) in [
        (None, Some(EARLY), "unchanged since"),
        (Some("\"one\""), None, "nothing says when the object was changed"),
    ] {
        let object = Object { last_modified: date.map(str::to_owned), ..Object::new(SIZE).etag(etag) };
        let server = serve(object);
        let sandbox = left(&pattern(SIZE, 1)[..3 * MIB], early() + DAY);
        goes_on(&sandbox, &server, &pattern(SIZE, 1), 3 * MIB).says(&[says]);
        let asked = server.requests();
        let pinned = asked.last().unwrap().request.field("if-range").map(str::to_owned);
        assert_eq!(pinned.as_deref(), etag.or(date));
    }
}

#[test]
fn a_small_file_goes_on_too() {
    let bytes = pattern(200_000, 1);
    let small = Object { bytes: Arc::new(bytes.clone()), ..object() };
    let server = serve(small);
    let sandbox = left(&bytes[..150_000], early() + DAY);
    goes_on(&sandbox, &server, &bytes, 0);
    assert!(
        server
            .requests()
            .iter()
            .all(|seen| seen.request.start() > 0 || seen.request.range().unwrap().1.is_some())
    );
}

#[test]
fn what_is_not_proven_is_not_joined() {
    let bytes = pattern(SIZE, 1);
    let begun = &bytes[..3 * MIB];
    let later = early() + DAY;
    let changed_bytes = |at: usize| {
        let mut other = begun.to_vec();
        other[at] ^= 1;
        other
    };
    for (object, left_here, time, why) in [
        // The object is younger than the last byte here; within one second nothing tells.
        (object(), begun.to_vec(), early() - DAY, "the object was changed at 2020-12-25 10:00:00 UTC"),
        (object(), begun.to_vec(), UNIX_EPOCH - DAY, "written here (1969-12-31 00:00:00 UTC)"),
        (object(), begun.to_vec(), early() + Duration::from_millis(500), "the object was changed at"),
        // Other bytes at its end, at its start, in the middle.
        (object(), changed_bytes(3 * MIB - 1), later, "other bytes from byte"),
        (object(), changed_bytes(0), later, "other bytes from byte 0"),
        (object(), changed_bytes(3 * MIB / 2 + 5), later, "other bytes from byte"),
        (object(), pattern(SIZE + 10, 1), later, "the object has only"),
        // A server of which no part proves what it is of.
        (object().whole_only(), begun.to_vec(), later, "the server gives no parts"),
        (Object { last_modified: None, ..object().etag(None) }, begun.to_vec(), later, "no strong ETag"),
        (
            Object { last_modified: None, ..object().etag(Some("W/\"a\"")) },
            begun.to_vec(),
            later,
            "no strong ETag",
        ),
    ] {
        let server = serve(object);
        starts_again(&left(&left_here, time), &server, &bytes, why);
    }
}

/// The object may be of the size that is here, or of a size that is told the same way when it is rounded.
#[test]
fn why_nothing_is_compared_is_said_as_it_is() {
    let bytes = pattern(SIZE, 1);
    let server = Server::start(|request, wire| match request.range() {
        Some(_) => {
            let all = format!("bytes */{SIZE}");
            wire.answer("416 Range Not Satisfiable", &[("Content-Range", &all)], b"")
        }
        None => wire.answer("200 OK", &[("ETag", "\"one\"")], &pattern(SIZE, 1)),
    });
    starts_again(&left(&bytes, early() + DAY), &server, &bytes, "the server gives no parts");
    let longer = left(&pattern(SIZE + 10, 1), early() + DAY);
    let why = format!("the object has only {SIZE} bytes, and {} are here", SIZE + 10);
    starts_again(&longer, &serve(object()), &bytes, &why);
}

/// A server that knows only where a range begins, and one whose every answer is the rest: curl's test 1043.
/// The rest is joined where a date shows that the object has not changed since.
#[test]
fn parts_that_end_elsewhere() {
    let bytes = pattern(SIZE, 1);
    let server = Server::start(|request, wire| {
        let start = request.start() as usize;
        let range = format!("bytes {start}-{}/{SIZE}", SIZE - 1);
        wire.answer(
            "206 Partial Content",
            &[("ETag", "\"one\""), ("Content-Range", &range)],
            &pattern(SIZE, 1)[start..],
        )
    });
    let sandbox = left(&bytes[..3 * MIB], early() + DAY);
    go_on(&sandbox, &server, &[])
        .succeeds()
        .says(&["resuming after its 3.15 MB", "197 KB of which were compared"]);
    assert!(sandbox.read("x") == bytes);
    assert_eq!(server.requests().last().unwrap().request.start(), 3 * MIB as u64);
    let text = "012345678\n".repeat(10);
    let rest = |date: &'static str| {
        Server::start(move |_, wire| {
            let fields = [("Content-Range", "bytes 40-99/100"), ("Date", "Tue, 13 Nov 2007 13:41:09 GMT")];
            let text = "012345678\n".repeat(6);
            wire.answer(
                "206 Partial Content",
                &[&fields[..], &[("Last-Modified", date)]].concat(),
                text.as_bytes(),
            )
        })
    };
    let server = rest("Tue, 13 Jun 2000 12:10:00 GMT");
    let sandbox = left(&text.as_bytes()[..40], early());
    go_on(&sandbox, &server, &[]).succeeds().says(&[
        "resuming after its 40 B without comparing them",
        "unchanged since they were written",
        "--checksum",
    ]);
    assert_eq!(sandbox.read("x"), text.as_bytes());
    assert_eq!(sandbox.names(), ["x"]);
    // Changed after the bytes here were written, or of a beginning that is another: the server has no whole
    // to give.
    for (kept, time) in [(40, UNIX_EPOCH + DAY), (41, early()), (39, early())] {
        let sandbox = left(&text.as_bytes()[..kept], time);
        go_on(&sandbox, &server, &["--retries", "0"]).exits(1).says(&["cannot resume after"]);
        assert_eq!(sandbox.read("x"), &text.as_bytes()[..kept]);
    }
    let undated = rest("yesterday");
    let sandbox = left(&text.as_bytes()[..40], early());
    go_on(&sandbox, &undated, &["--retries", "0"]).exits(1).says(&["cannot resume after"]);
}

#[test]
fn what_aria2_filled_in_several_places() {
    let server = serve(object());
    let sandbox = left(&pattern(SIZE, 1)[..3 * MIB], early() + DAY);
    sandbox.write("x.aria2", "control");
    let run = go_on(&sandbox, &server, &[]);
    run.succeeds().says(&["x.aria2 says that it was filled in several places at once"]);
    assert!(sandbox.read("x") == pattern(SIZE, 1));
}

#[test]
fn without_the_flag_nothing_of_it_is_used() {
    let server = serve(object());
    let sandbox = left(&pattern(SIZE, 1)[..3 * MIB], early() + DAY);
    sandbox.get([&server.url("x"), "-o", "x"]).run().succeeds();
    assert_eq!(server.sent() as usize, SIZE);
    let sandbox = left(&pattern(SIZE, 1)[..3 * MIB], early() + DAY);
    go_on(&sandbox, &server, &["--force"]).succeeds();
    assert_eq!(server.sent() as usize, 2 * SIZE);
}

#[test]
fn a_whole_file_stays() {
    let server = serve(object());
    let sandbox = left(&pattern(SIZE, 1), early() + DAY);
    go_on(&sandbox, &server, &[]).succeeds().says(&["left alone: x", "taken on trust"]);
    assert!(server.sent() <= 3 * (64 << 10));
    // What lies between the samples is told by a digest.
    let mut other = pattern(SIZE, 1);
    other[MIB] ^= 1;
    let hex = weir_codec::hex::encode(&weir_codec::Algorithm::SHA256.of(&pattern(SIZE, 1)));
    let checksum = format!("sha256:{hex}");
    let sandbox = left(&other, early() + DAY);
    go_on(&sandbox, &server, &["--checksum", &checksum]).succeeds().says(&["not its digest"]);
    assert!(sandbox.read("x") == pattern(SIZE, 1));
}

#[test]
fn a_digest_tells_what_no_sample_showed() {
    let bytes = pattern(SIZE, 1);
    let mut begun = bytes[..3 * MIB].to_vec();
    begun[MIB] ^= 1;
    let hash = support::base64(&weir_codec::Algorithm::SHA256.of(&bytes));
    let server = serve(object().field("Repr-Digest", &format!("sha-256=:{hash}:")));
    let sandbox = left(&begun, early() + DAY);
    let run = go_on(&sandbox, &server, &[]);
    run.succeeds().says(&["resuming after its", "does not match", "starting again"]);
    assert!(sandbox.read("x") == bytes);
    assert_eq!(sandbox.names(), ["x"]);
}

/// The object changes while its rest comes: the whole of the new one is fetched.
#[test]
fn an_object_that_changes_meanwhile() {
    let (old, new) = (object(), object().changed());
    let bytes = Arc::clone(&new.bytes);
    let server = Server::start(move |request, wire| match request.number {
        0..3 => old.serve(request, wire),
        _ => new.serve(request, wire),
    });
    let sandbox = left(&pattern(SIZE, 1)[..3 * MIB], early() + DAY);
    let run = go_on(&sandbox, &server, &[]);
    run.succeeds().says(&["starting again"]);
    assert!(sandbox.read("x") == *bytes, "a wrong file: {}", run.stderr);
}

/// An interrupted one goes on as any other, and what another program left is still there.
#[test]
fn it_can_be_interrupted() {
    let slow = object().rate(2_000_000);
    let server = Server::start(move |request, wire| {
        let part = slow.answer(request).part;
        if part.end < SIZE {
            return slow.serve(request, wire);
        }
        // The last byte does not come before the signal is heard.
        slow.serve_up_to(request, wire, part.len() - 1)?;
        wire.wait_for_close()
    });
    let sandbox = left(&pattern(SIZE, 1)[..3 * MIB], early() + DAY);
    let running = sandbox.get(["-C", "-", &server.url("x"), "-o", "x"]).spawn();
    server.wait_sent(500_000);
    support::wait_for("its handler", || running.catches(rustix::process::Signal::INT));
    running.signal(rustix::process::Signal::INT);
    running.wait().exits(130);
    assert!(sandbox.read("x") == pattern(SIZE, 1)[..3 * MIB]);
    assert_eq!(sandbox.names(), ["x", "x.part", "x.weir"]);
    let fast = Server::start(move |request, wire| object().serve(request, wire));
    drop(server);
    // Another place: begun again. The same place goes on, which other tests hold.
    go_on(&sandbox, &fast, &[]).succeeds();
    assert!(sandbox.read("x") == pattern(SIZE, 1));
}

fn with_a_real_server(sandbox: &Sandbox, port: u16) {
    let bytes = pattern(SIZE, 1);
    sandbox.write("www/x", &bytes);
    let file = std::fs::File::options().write(true).open(sandbox.path("www/x")).unwrap();
    file.set_modified(SystemTime::now() - 2 * DAY).unwrap();
    sandbox.write("x", &bytes[..3 * MIB]);
    let url = format!("http://127.0.0.1:{port}/x");
    let run = sandbox.get(["--continue", &url, "-o", "x", "--json"]).run();
    run.succeeds();
    assert_eq!(run.json()["files"][0]["resumed_from"], 3 * MIB);
    assert!(sandbox.read("x") == bytes);
    sandbox.write("x", &bytes[..3 * MIB]);
    // Changed on the server after the bytes here were written.
    let other = pattern(SIZE, 2);
    sandbox.write("www/x", &other);
    file.set_modified(SystemTime::now() + DAY).unwrap();
    sandbox.get(["--continue", &url, "-o", "x"]).run().succeeds();
    assert!(sandbox.read("x") == other);
}

#[test]
fn from_nginx_and_apache() {
    let sandbox = sandbox_with_www();
    match Nginx::start(&sandbox, "") {
        Some(nginx) => with_a_real_server(&sandbox, nginx.http),
        None => skip("no nginx here"),
    }
    let sandbox = sandbox_with_www();
    match Apache::start(&sandbox, "") {
        Some(apache) => with_a_real_server(&sandbox, apache.http),
        None => skip("no Apache here"),
    }
}
