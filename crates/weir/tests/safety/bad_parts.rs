//! Answers that are not the part or the size that was asked for: never mixed in, never a wrong file.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::sync::Arc;

use support::{MIB, Object, Sandbox, Server, Wire, brings, never_brings_another, pattern, refuses};

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

/// A 206 whose Content-Range speaks of `first..=last` of `complete`, with `body` of the object's bytes from
/// `first` on.
fn part_of(object: Object, part: impl Fn(u64, usize) -> (String, usize) + Send + Sync + 'static) -> Server {
    Server::start(move |request, wire| {
        let start = request.start() as usize;
        let size = object.bytes.len();
        if start >= size {
            return wire.answer(
                "416 Range Not Satisfiable",
                &[("Content-Range", &format!("bytes */{size}"))],
                b"",
            );
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

/// Parts of a few bytes, however much is asked for, are not worth a request each where the whole can be had.
#[test]
fn parts_that_are_crumbs() {
    for size in [100_000, 3 * MIB] {
        let object = Object::new(size);
        let served = object.clone();
        let crumbling = Server::start(move |request, wire| match request.range() {
            Some((start, _)) => {
                let start = start as usize;
                let range = format!("bytes {start}-{start}/{size}");
                let fields = [("Content-Range", &*range), ("ETag", "\"one\"")];
                wire.answer("206 Partial Content", &fields, &served.bytes[start..=start])
            }
            None => served.serve(request, wire),
        });
        let run = brings(&crumbling, &[], &object.bytes);
        run.says(&["sends parts of 1 B, however much is asked for"]);
        assert!(crumbling.requests().len() < 20, "{} requests", crumbling.requests().len());
    }
    // Where there is nothing else, crumbs are taken.
    let object = Object::new(300);
    let server = part_of(object.clone(), |start, size| (format!("bytes {start}-{start}/{size}"), 1));
    brings(&server, &[], &object.bytes);
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
        let server =
            part_of(longer, move |start, _| (format!("bytes {start}-{}/{size}", size - 1), size + 500));
        never_brings_another(&server, &[], &pattern(size, 1));
    }
}

#[test]
fn parts_without_a_byte() {
    let object = Object::new(3 * MIB);
    let server = part_of(object.clone(), |start, size| {
        (format!("bytes {start}-{}/{size}", size - 1), if start == 0 { 2 * MIB } else { 0 })
    });
    never_brings_another(&server, &[], &object.bytes);
    assert!(server.requests().len() < 20, "{} requests that brought nothing", server.requests().len());
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
    for field in [
        "",
        "bytes",
        "bytes 0-5",
        "bytes 5-0/10",
        "octets 0-9/10",
        "bytes 0-99999999999999999999/10",
        "bytes */10",
    ] {
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
        wire.answer(
            "206 Partial Content",
            &[("Content-Range", &range), ("ETag", "\"one\"")],
            &object.bytes[..1_000_000],
        )
    });
    brings(&server, &["-c", "3"], &bytes);
}

#[test]
fn status_416_to_everything() {
    let fields = [("Content-Range", "bytes */100")];
    let server =
        Server::start(move |_, wire| wire.answer("416 Range Not Satisfiable", &fields, b"no such range"));
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
    refuses(
        &server,
        &[],
        1,
        &["127.0.0.1 sent the wrong part: a part (206), though the whole was asked for; --any-type"],
    );
    let run = brings(&server, &["--any-type", "--json"], b"01234");
    let said = "saved what came with 206, a part, as if it were all";
    assert_eq!(run.json()["files"][0]["notes"], serde_json::json!([said]));
    // Some servers call all that they send a part, and do not say of what.
    for field in [&[][..], &[("Content-Range", "bytes 0-5/5")], &[("Content-Range", "bytes 0-4/0")]] {
        let server = Server::start(move |_, wire| wire.answer("206 Partial Content", field, b"01234"));
        refuses(&server, &[], 1, &["--any-type"]);
        brings(&server, &["--any-type"], b"01234").says(&[said]);
    }
}

const MULTIPART: &str = "multipart/byteranges; boundary=xyz";

fn multipart(wire: &mut Wire, size: usize) -> std::io::Result<()> {
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
fn another_object_to_a_second_try_without_ranges() {
    let [short, long] = [4, 6].map(|size| Object::new(size * MIB).whole_only().etag(None));
    let bytes = long.bytes.clone();
    let server = Server::start(move |request, wire| match request.number {
        0 => {
            short.serve_up_to(request, wire, 0)?;
            wire.close()
        }
        _ => long.serve(request, wire),
    });
    brings(&server, &[], &bytes);
}

/// It may be all that somebody has of that object.
#[test]
fn an_unfinished_file_of_another_url_is_put_aside() {
    for size in [1000, 3 * MIB] {
        let begun = Object::new(4 * MIB);
        let other = Object { bytes: Arc::new(pattern(size, 2)), ..begun.changed() };
        let (begun_bytes, other_bytes) = (begun.bytes.clone(), other.bytes.clone());
        let server = Server::start(move |request, wire| match (request.number, request.path()) {
            (0, _) => begun.serve_up_to(request, wire, 2 * MIB).and_then(|()| wire.close()),
            (_, "/other") => other.serve(request, wire),
            _ => begun.serve(request, wire),
        });
        let sandbox = Sandbox::new();
        let get = |path: &str| sandbox.get([&server.url(path), "-o", "out"]);
        get("begun").args(&["--retries", "0"]).run().exits(4);
        get("other").run().succeeds().says(&["2.10 MB that came from another url", "out.part.aside-1"]);
        assert!(sandbox.read("out") == *other_bytes);
        assert_eq!(sandbox.names(), ["out", "out.part.aside-1", "out.weir.aside-1"]);
        // Under its names again it is gone on with.
        for name in ["out.part", "out.weir"] {
            std::fs::rename(sandbox.path(format!("{name}.aside-1")), sandbox.path(name)).unwrap();
        }
        get("begun").run().succeeds();
        assert!(sandbox.read("out") == *begun_bytes);
        assert_eq!(server.requests().last().unwrap().request.start(), 2 * MIB as u64);
        assert_eq!(sandbox.names(), ["out"]);
    }
}

#[test]
fn what_force_gives_up_is_not_put_aside() {
    let object = Object::new(4 * MIB);
    let server = Server::start(move |request, wire| match request.number {
        0 => object.serve_up_to(request, wire, 2 * MIB).and_then(|()| wire.close()),
        _ => object.serve(request, wire),
    });
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("begun"), "-o", "out", "--retries", "0"]).run().exits(4);
    sandbox.get([&server.url("other"), "-o", "out", "--force"]).run().succeeds();
    assert_eq!(sandbox.names(), ["out"]);
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
