//! Answers that are not the part, the size, the version or the form that was asked for: never mixed in, never a wrong file.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use support::{MIB, Object, Run, Sandbox, Server, handler, pattern};

/// `weir get URL -o out` must end with `bytes` in `out` and nothing beside it.
fn brings(server: &Server, args: &[&str], bytes: &[u8]) -> Run {
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out"]).args(args).run();
    run.succeeds();
    assert!(sandbox.read("out") == bytes, "wrong bytes: {} of {}", sandbox.read("out").len(), bytes.len());
    assert_eq!(sandbox.names(), ["out"]);
    run
}

/// `weir get URL -o out` must fail, say `texts` and leave nothing.
fn refuses(server: &Server, args: &[&str], code: i32, texts: &[&str]) -> Run {
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out", "--retries", "1"]).args(args).run();
    run.fails(code, texts);
    assert_eq!(sandbox.names(), [""; 0]);
    run
}

/// `weir get URL -o out` may fail or bring `bytes`, but never anything else.
fn never_brings_another(server: &Server, args: &[&str], bytes: &[u8]) -> Run {
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out", "--retries", "1"]).args(args).run();
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    match run.status.code() {
        Some(0) => assert!(sandbox.read("out") == bytes, "a wrong file of {} bytes", sandbox.read("out").len()),
        Some(1 | 4) => assert!(!sandbox.path("out").exists()),
        other => panic!("exit code {other:?}: {}", run.stderr),
    }
    run
}

#[test]
fn an_empty_file() {
    brings(&Server::start(|_, wire| wire.answer("200 OK", &[], b"")), &[], b"");
    let unsatisfied = [("Content-Range", "bytes */0")];
    let server = Server::start(move |_, wire| wire.answer("416 Range Not Satisfiable", &unsatisfied, b""));
    brings(&server, &[], b"");
    let server = Server::start(|_, wire| {
        wire.head("200 OK", &[("Transfer-Encoding", "chunked")])?;
        wire.raw(b"0\r\n\r\n")
    });
    brings(&server, &[], b"");
    let server = Server::start(|_, wire| {
        wire.head("200 OK", &[("Connection", "close")])?;
        wire.close()
    });
    brings(&server, &[], b"");
}

#[test]
fn an_empty_file_over_an_older_one() {
    let sandbox = Sandbox::new();
    sandbox.write("out", "old");
    let server = Server::start(|_, wire| wire.answer("200 OK", &[], b""));
    sandbox.get([&server.url("x"), "-o", "out"]).run().succeeds();
    assert_eq!(sandbox.read("out"), b"");
}

#[test]
fn an_unknown_length_until_the_close() {
    for length in [1000, 3 * MIB + 5] {
        let bytes = pattern(length, 1);
        let server = Server::start(move |_, wire| {
            wire.head("200 OK", &[("Connection", "close")])?;
            wire.body(&pattern(length, 1))?;
            wire.close()
        });
        brings(&server, &[], &bytes);
        brings(&server, &["-c", "4"], &bytes);
        let run = Sandbox::new().get([&server.url("x"), "-o", "-"]).run();
        assert!(run.succeeds().stdout == bytes);
    }
}

#[test]
fn an_unknown_length_in_chunks() {
    let bytes = pattern(2 * MIB, 1);
    let server = Server::start(|_, wire| {
        wire.head("200 OK", &[("Transfer-Encoding", "chunked")])?;
        for chunk in pattern(2 * MIB, 1).chunks(77_777) {
            wire.raw(format!("{:x};name=value\r\n", chunk.len()).as_bytes())?;
            wire.body(chunk)?;
            wire.raw(b"\r\n")?;
        }
        wire.raw(b"0\r\nX-Trailer: yes\r\n\r\n")
    });
    brings(&server, &[], &bytes);
}

#[test]
fn an_unknown_length_that_breaks_off_begins_again() {
    let server = Server::start(|request, wire| {
        wire.head("200 OK", &[("Transfer-Encoding", "chunked")])?;
        let bytes = pattern(2 * MIB, 1);
        let sent = if request.number == 0 { MIB } else { bytes.len() };
        wire.raw(format!("{:x}\r\n", bytes.len()).as_bytes())?;
        wire.body(&bytes[..sent])?;
        if request.number == 0 {
            return wire.close();
        }
        wire.raw(b"\r\n0\r\n\r\n")
    });
    brings(&server, &[], &pattern(2 * MIB, 1));
}

#[test]
fn a_body_longer_than_its_length() {
    for length in [1000, 2 * MIB] {
        let server = Server::start(move |_, wire| {
            wire.head("200 OK", &[("Content-Length", length)])?;
            wire.body(&pattern(length + 5000, 1))
        });
        brings(&server, &[], &pattern(length, 1));
    }
}

#[test]
fn a_body_shorter_than_its_length() {
    for length in [1000, 2 * MIB] {
        let server = Server::start(move |_, wire| {
            wire.head("200 OK", &[("Content-Length", length)])?;
            wire.body(&pattern(length / 2, 1))?;
            wire.close()
        });
        refuses(&server, &[], 1, &["127.0.0.1 closed the connection after"]);
    }
}

/// A 206 whose Content-Range speaks of `first..=last` of `complete`, with `body` of the object's bytes from `first` on.
fn part_of(
    object: Object,
    part: impl Fn(u64, usize) -> (String, usize) + Send + Sync + 'static,
) -> Server {
    Server::start(move |request, wire| {
        let start = request.start() as usize;
        let size = object.bytes.len();
        if start >= size {
            return wire.answer("416 Range Not Satisfiable", &[("Content-Range", &format!("bytes */{size}"))], b"");
        }
        let (range, length) = part(start as u64, size);
        let fields = [("Content-Range", range.as_str()), ("ETag", "\"one\"")];
        wire.answer("206 Partial Content", &fields, &object.bytes[start..size.min(start + length)])
    })
}

#[test]
fn parts_shorter_than_asked() {
    for size in [100_000, 5 * MIB] {
        let object = Object::new(size);
        let step = size / 5;
        let server = part_of(object.clone(), move |start, size| {
            let length = step.min(size - start as usize);
            (format!("bytes {start}-{}/{size}", start as usize + length - 1), length)
        });
        never_brings_another(&server, &[], &object.bytes);
        brings(&server, &[], &object.bytes);
    }
}

#[test]
fn a_content_length_that_is_not_that_of_the_content_range() {
    for size in [100_000, 3 * MIB] {
        let object = Object::new(size);
        let shorter = part_of(object.clone(), |start, size| {
            (format!("bytes {start}-{}/{size}", size - 1), (size - start as usize) / 2)
        });
        never_brings_another(&shorter, &[], &object.bytes);
        let longer = Object { bytes: Arc::new(pattern(size + 500, 1)), ..object.clone() };
        let server = part_of(longer, move |start, _| (format!("bytes {start}-{}/{size}", size - 1), size + 500));
        never_brings_another(&server, &[], &pattern(size, 1));
    }
}

#[test]
fn a_part_of_an_object_without_a_total() {
    for size in [100_000, 3 * MIB] {
        let object = Object::new(size);
        let server = part_of(object.clone(), |start, size| {
            let length = (size / 2).min(size - start as usize);
            (format!("bytes {start}-{}/*", start as usize + length - 1), length)
        });
        never_brings_another(&server, &[], &object.bytes);
        never_brings_another(&server, &["-c", "4"], &object.bytes);
    }
}

#[test]
fn a_part_that_starts_elsewhere() {
    let object = Object::new(3 * MIB);
    let server = Server::start(move |_, wire| {
        let range = format!("bytes 100-{}/{}", object.bytes.len() - 1, object.bytes.len());
        wire.answer("206 Partial Content", &[("Content-Range", &range)], &object.bytes[100..])
    });
    refuses(&server, &[], 1, &["127.0.0.1 sent the wrong part: "]);
}

#[test]
fn a_part_without_or_with_a_malformed_content_range() {
    for field in ["", "bytes", "bytes 0-5", "bytes 5-0/10", "octets 0-9/10", "bytes 0-99999999999999999999/10", "bytes */10"] {
        let server = Server::start(move |_, wire| {
            let fields = if field.is_empty() { vec![] } else { vec![("Content-Range", field)] };
            wire.answer("206 Partial Content", &fields, b"0123456789")
        });
        refuses(&server, &[], 1, &["127.0.0.1 sent the wrong part: "]);
    }
}

#[test]
fn later_parts_that_start_elsewhere() {
    let object = Object::new(8 * MIB).rate(8 << 20);
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| {
        if request.start() == 0 {
            return object.serve(request, wire);
        }
        // What a cache that knows only one range would send.
        let range = format!("bytes 0-999999/{}", object.bytes.len());
        wire.answer("206 Partial Content", &[("Content-Range", &range), ("ETag", "\"one\"")], &object.bytes[..1_000_000])
    });
    brings(&server, &["-c", "3"], &bytes);
}

#[test]
fn status_416_to_everything() {
    let fields = [("Content-Range", "bytes */100")];
    let server = Server::start(move |_, wire| wire.answer("416 Range Not Satisfiable", &fields, b"no such range"));
    refuses(&server, &[], 1, &["127.0.0.1 answered 416"]);
}

#[test]
fn status_416_to_ranges_only() {
    let server = Server::start(|request, wire| match request.range() {
        Some(_) => wire.answer("416 Range Not Satisfiable", &[], b""),
        None => wire.answer("200 OK", &[], &pattern(2 * MIB, 1)),
    });
    brings(&server, &[], &pattern(2 * MIB, 1));
}

#[test]
fn a_part_to_a_plain_request() {
    let server = Server::start(|request, wire| match request.range() {
        Some(_) => wire.answer("416 Range Not Satisfiable", &[], b""),
        None => wire.answer("206 Partial Content", &[("Content-Range", "bytes 0-4/10")], b"01234"),
    });
    refuses(&server, &[], 1, &["127.0.0.1 sent the wrong part: a part (206), though the whole was asked for"]);
}

const MULTIPART: &str = "multipart/byteranges; boundary=xyz";

fn multipart(wire: &mut support::Wire, size: usize) -> std::io::Result<()> {
    let body = format!("--xyz\r\nContent-Range: bytes 0-4/{size}\r\n\r\n01234\r\n--xyz--\r\n");
    wire.answer("206 Partial Content", &[("Content-Type", MULTIPART)], body.as_bytes())
}

#[test]
fn several_parts_in_one_answer() {
    let server = Server::start(|request, wire| match request.range() {
        Some(_) => multipart(wire, 10),
        None => wire.answer("200 OK", &[], b"0123456789"),
    });
    brings(&server, &[], b"0123456789");
    let server = Server::start(|_, wire| multipart(wire, 10));
    refuses(&server, &[], 1, &["127.0.0.1 sent the wrong part: "]);
}

#[test]
fn several_parts_in_a_later_answer() {
    let object = Object::new(6 * MIB).rate(8 << 20);
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| match request.start() {
        0 => object.serve(request, wire),
        _ => multipart(wire, object.bytes.len()),
    });
    brings(&server, &["-c", "2"], &bytes);
}

#[test]
fn a_server_without_ranges() {
    let object = Object::new(4 * MIB).whole_only();
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| object.serve(request, wire));
    brings(&server, &["-c", "4"], &bytes);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_server_that_gives_ranges_only_once() {
    let object = Object::new(6 * MIB).rate(8 << 20);
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| match request.number {
        0 => object.serve(request, wire),
        _ => object.clone().whole_only().serve(request, wire),
    });
    brings(&server, &["-c", "4"], &bytes);
}

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
    assert!(requests.iter().all(|request| request.start() == 0), "parts of a weak tag may differ: {requests:#?}");
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
        let object = Object::new(8 * MIB).rate(8 << 20);
        let changed = object.changed();
        let run = brings(&changing(object, honest), &["-c", "2"], &changed.bytes);
        run.says(&["the object changed on 127.0.0.1 during the transfer: ", "starting again"]);
    }
}

#[test]
fn a_size_that_changes_between_lanes() {
    let object = Object::new(8 * MIB).rate(8 << 20);
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
fn an_object_that_never_stops_changing() {
    let server = Server::start(|request, wire| {
        let object = Object::new(4 * MIB).etag(Some(&format!("\"{}\"", request.number))).rate(4 << 20);
        object.serve(request, wire)
    });
    let run = refuses(&server, &["-c", "2"], 1, &["the object changed on 127.0.0.1 during the transfer"]);
    assert!(server.requests().len() < 20, "it gives up: {}", run.stderr);
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
fn a_coded_body_though_identity_was_asked() {
    for length in [1000, 2 * MIB] {
        let object = Object::new(length).field("Content-Encoding", "gzip");
        let server = Server::start(move |request, wire| {
            assert_eq!(request.field("accept-encoding"), Some("identity"));
            object.serve(request, wire)
        });
        refuses(&server, &[], 1, &["127.0.0.1 sent a body coded with gzip though identity was asked for"]);
    }
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
    let declared = format!("sha-256=:{}:", support::base64(&[0; 32]));
    for length in [1000, 3 * MIB] {
        let object = Object::new(length).field("Repr-Digest", &declared);
        let server = Server::start(move |request, wire| object.serve(request, wire));
        refuses(&server, &[], 3, &["sha256 of out does not match", "Repr-Digest"]);
    }
}

#[test]
fn a_digest_that_does_not_match_leaves_the_older_file() {
    let server = Server::start(handler(|_, wire| wire.answer("200 OK", &[], b"new")));
    let sandbox = Sandbox::new();
    sandbox.write("out", "old");
    let checksum = format!("sha256:{}", "0".repeat(64));
    sandbox.get([&server.url("x"), "-o", "out", "--checksum", &checksum]).run().exits(3);
    assert_eq!(sandbox.read("out"), b"old");
}
