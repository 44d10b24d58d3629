//! `weir get -r`: one range, the last bytes, several; against scripted servers and real ones, with curl's
//! bytes beside it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io;
use std::process::Command;
use std::sync::Arc;

use support::http_servers::{Apache, Nginx, lighttpd, sandbox_with_www};
use support::{MIB, Request, Run, Sandbox, Server, Wire, brings, pattern, refuses, skip};
use weir_http::range_request::{self, ByteRange, Requested};

const SIZE: usize = 6 * MIB;

/// As RFC 9110 section 14 has it, under a strong tag; but for `most` bytes of a body.
fn serve_up_to(bytes: &[u8], request: &Request, wire: &mut Wire, most: usize) -> io::Result<()> {
    let size = bytes.len();
    let whole = |wire: &mut Wire| wire.answer("200 OK", &[("ETag", "\"one\"")], bytes);
    let Some(value) = request.field("range") else { return whole(wire) };
    match range_request::parse(value, size as u64) {
        Requested::Ignore(_) => whole(wire),
        Requested::Unsatisfiable => {
            let range = format!("bytes */{size}");
            wire.answer("416 Range Not Satisfiable", &[("Content-Range", &range)], b"no")
        }
        Requested::Single(ByteRange { first, last }) => {
            let part = &bytes[first as usize..=last as usize];
            wire.head(
                "206 Partial Content",
                &[
                    ("ETag", "\"one\"".to_owned()),
                    ("Content-Range", format!("bytes {first}-{last}/{size}")),
                    ("Content-Length", part.len().to_string()),
                ],
            )?;
            wire.body(&part[..part.len().min(most)])?;
            if part.len() > most { wire.close() } else { Ok(()) }
        }
        Requested::Multi(ranges) => {
            let parts: Vec<(u64, u64)> = ranges.iter().map(|range| (range.first, range.last)).collect();
            let kind = "multipart/byteranges; boundary=B";
            wire.answer(
                "206 Partial Content",
                &[("ETag", "\"one\""), ("Content-Type", kind)],
                &packed(bytes, &parts),
            )
        }
    }
}

/// The body of these parts.
fn packed(bytes: &[u8], parts: &[(u64, u64)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (first, last) in parts {
        let size = bytes.len();
        body.extend(format!("\r\n--B\r\nContent-Range: bytes {first}-{last}/{size}\r\n\r\n").into_bytes());
        body.extend_from_slice(&bytes[*first as usize..=*last as usize]);
    }
    body.extend_from_slice(b"\r\n--B--\r\n");
    body
}

fn serve(bytes: Vec<u8>) -> Server {
    Server::start(move |request, wire| serve_up_to(&bytes, request, wire, usize::MAX))
}

/// Answers everything so.
fn fixed(status: &'static str, range: &str, body: &[u8]) -> Server {
    let (range, body) = (range.to_owned(), body.to_vec());
    Server::start(move |_, wire| {
        wire.answer(status, &[("Content-Range", &range), ("ETag", "\"one\"")], &body)
    })
}

fn asked(server: &Server) -> Vec<String> {
    server.requests().iter().map(|seen| seen.request.field("range").unwrap_or("all").to_owned()).collect()
}

#[test]
fn the_last_bytes() {
    let bytes = pattern(SIZE, 1);
    let server = serve(bytes.clone());
    let sandbox = Sandbox::new();
    let url = server.url("x");
    for length in [1, 500, 3 * MIB + 1, SIZE, SIZE + 5] {
        let part = &bytes[SIZE.saturating_sub(length)..];
        let range = format!("-{length}");
        for args in [&["-r", &*range][..], &[&format!("--range=bytes={range}")], &["-r", &range, "-c", "3"]] {
            let before = server.requests().len();
            sandbox.get([&*url, "-o", "out"]).args(args).run().succeeds();
            assert!(sandbox.read("out") == part, "{args:?}");
            let asked = &asked(&server)[before..];
            assert_eq!(asked[0], format!("bytes={range}"));
            // The others know where it lies.
            assert!(asked[1..].iter().all(|other| !other.starts_with("bytes=-")), "{asked:?}");
        }
        let run = sandbox.get([&*url, "-o", "-", "-r", &range]).run();
        assert!(run.succeeds().stdout == part, "{range}");
    }
    let digest = weir_codec::hex::encode(&weir_codec::Algorithm::SHA256.of(&bytes[SIZE - 500..]));
    let checksum = format!("sha256:{digest}");
    sandbox.get([&*url, "-o", "out", "-r", "-500", "--checksum", &checksum]).run().succeeds();
    assert_eq!(sandbox.names(), ["out"]);
}

/// Each URL has an end of its own.
#[test]
fn the_last_bytes_of_several() {
    let server = Server::start(|request, wire| {
        let size = request.path()[1..].parse().unwrap();
        serve_up_to(&pattern(size, size as u64), request, wire, usize::MAX)
    });
    let sandbox = Sandbox::new();
    let sizes = [3, 1000, 2 * MIB, 5 * MIB];
    let urls = sizes.map(|size| server.url(&size.to_string()));
    sandbox.get(urls.iter().map(String::as_str).chain(["-r", "-1500000", "-o", "got/"])).run().succeeds();
    for size in sizes {
        let bytes = pattern(size, size as u64);
        let part = &bytes[size.saturating_sub(1_500_000)..];
        assert!(sandbox.read(&format!("got/{size}")) == part, "{size}");
    }
}

/// A later run does not know where the part lies, and asks; over a redirect too.
#[test]
fn the_last_bytes_are_gone_on_with() {
    let bytes = Arc::new(pattern(8 * MIB, 1));
    let server = Server::start({
        let bytes = Arc::clone(&bytes);
        move |request, wire| match request.path() {
            "/moved" => wire.redirect("302 Found", "/x"),
            _ if request.field("range") == Some("bytes=-5000000") => {
                serve_up_to(&bytes, request, wire, 2 * MIB)
            }
            _ => serve_up_to(&bytes, request, wire, usize::MAX),
        }
    });
    let part = &bytes[bytes.len() - 5_000_000..];
    for path in ["x", "moved"] {
        let sandbox = Sandbox::new();
        let args = [&*server.url(path), "-o", "out", "-r", "-5000000", "-c", "1"];
        sandbox.get(args).args(&["--retries", "0"]).run().exits(4);
        let before = server.requests().len();
        sandbox.get(args).run().succeeds().says(&["of an earlier run"]);
        assert!(sandbox.read("out") == part);
        let asked = &asked(&server)[before..];
        let at = bytes.len() - 5_000_000 + 2 * MIB;
        assert_eq!(asked.last().unwrap(), &format!("bytes={at}-8388607"), "{asked:?}");
        // What is of one part is not taken for another.
        sandbox.get([&*server.url(path), "-o", "out", "-r", "-4000000"]).run().succeeds();
        assert!(sandbox.read("out") == part[1_000_000..]);
    }
}

/// The same object under another tag, and larger: what came of the old one is not joined to it.
#[test]
fn the_last_bytes_of_an_object_that_changes() {
    let (old, new) = (pattern(8 * MIB, 1), pattern(9 * MIB, 2));
    let part = new[new.len() - 5_000_000..].to_vec();
    let server = Server::start(move |request, wire| match request.number {
        0 => serve_up_to(&old, request, wire, 2 * MIB),
        _ => {
            let Requested::Single(ByteRange { first, last }) =
                range_request::parse(request.field("range").unwrap(), new.len() as u64)
            else {
                return wire.answer("200 OK", &[("ETag", "\"two\"")], &new);
            };
            if request.field("if-range").is_some_and(|tag| tag != "\"two\"") {
                return wire.answer("200 OK", &[("ETag", "\"two\"")], &new);
            }
            let range = format!("bytes {first}-{last}/{}", new.len());
            let fields = [("ETag", "\"two\""), ("Content-Range", &*range)];
            wire.answer("206 Partial Content", &fields, &new[first as usize..=last as usize])
        }
    });
    let sandbox = Sandbox::new();
    let args = [&*server.url("x"), "-o", "out", "-r", "-5000000", "-c", "1"];
    sandbox.get(args).args(&["--retries", "0"]).run().exits(4);
    sandbox.get(args).run().succeeds();
    assert!(sandbox.read("out") == part);
}

/// Some servers know no length from the end: then it is asked for by its place.
#[test]
fn a_length_from_the_end_that_a_server_does_not_take() {
    let bytes = pattern(2 * MIB, 1);
    let part = bytes[2 * MIB - 5000..].to_vec();
    for how in ["416 of a size", "416", "400", "501", "from the start", "whole"] {
        let bytes = bytes.clone();
        let server = Server::start(move |request, wire| match request.field("range") {
            Some("bytes=-5000") => match how {
                "416 of a size" => {
                    wire.answer("416 Nope", &[("Content-Range", &format!("bytes */{}", 2 * MIB))], b"no")
                }
                "416" => wire.answer("416 Nope", &[], b"no"),
                "400" => wire.answer("400 Bad Request", &[], b"no"),
                "501" => wire.answer("501 Not Implemented", &[], b"no"),
                "from the start" => {
                    let range = format!("bytes 0-5000/{}", 2 * MIB);
                    wire.answer("206 Partial Content", &[("Content-Range", &range)], &bytes[..5001])
                }
                _ => wire.answer("200 OK", &[], &bytes),
            },
            _ => serve_up_to(&bytes, request, wire, usize::MAX),
        });
        let run = brings(&server, &["-r", "-5000"], &part);
        run.says(&["asked for as 2092152-2097151, since the server does not take -5000"]);
    }
}

#[test]
fn an_object_that_is_shorter_or_empty() {
    brings(&serve(b"abc".to_vec()), &["-r", "-5"], b"abc");
    brings(&fixed("206 Partial Content", "bytes 0-2/3", b"abc"), &["-r", "-5"], b"abc");
    let whole = Server::start(|_, wire| wire.answer("200 OK", &[], b"abc"));
    brings(&whole, &["-r", "-5"], b"abc");
    brings(&whole, &["-r", "-3"], b"abc");
    refuses(
        &whole,
        &["-r", "-2"],
        1,
        &["in place of the part that --range names; leave that out to save all"],
    );
    // As `tail -c` has it.
    brings(&serve(Vec::new()), &["-r", "-5"], b"");
    let empty = fixed("416 Range Not Satisfiable", "bytes */0", b"");
    brings(&empty, &["-r", "-5"], b"");
    for range in ["0-", "5-9"] {
        refuses(&empty, &["-r", range], 1, &["127.0.0.1 answered 416", "the object has 0 bytes, and", range]);
    }
}

#[test]
fn what_lies_behind_the_end_is_said() {
    let server = serve(pattern(1000, 1));
    for (range, says) in [
        (
            "1000-",
            "127.0.0.1 answered 416 Range Not Satisfiable: the object has 1000 bytes, and 1000- (--range) begins",
        ),
        ("2000-3000", "the object has 1000 bytes, and 2000-3000"),
        ("1000-,2000-3000", "the object has 1000 bytes, and each of 1000-,2000-3000"),
    ] {
        refuses(&server, &["-r", range], 1, &[says]);
    }
}

/// A `Content-Range` that disagrees with what was asked for is never taken for it.
#[test]
fn parts_that_were_not_asked_for() {
    for (range, answered, length) in [
        ("5-9", "bytes 0-4/100", 5),
        ("5-9", "bytes 5-9/100", 4),
        ("5-9", "bytes 6-9/100", 4),
        ("5-9", "bytes 4-9/100", 6),
        ("5-9", "bytes 5-10/100", 6),
        ("5-9", "bytes */100", 5),
        ("5-9", "nonsense", 5),
        ("5-", "bytes 4-99/100", 96),
        ("-5", "bytes 90-99/100", 10),
        ("-5", "bytes 96-99/100", 4),
        ("-5", "bytes 95-98/100", 4),
        ("-5", "bytes 95-98/*", 4),
        ("-5", "bytes 0-4/100", 5),
        ("-5", "bytes 0-5/100", 6),
        ("-5", "bytes 95-99/100", 4),
        ("-5", "nonsense", 5),
        ("0-4,10-14", "bytes 5-9/100", 5),
        ("0-4,10-14", "bytes 0-15/100", 16),
        ("0-4,10-14", "bytes 0-14/100", 10),
        ("0-4,10-14", "nonsense", 10),
    ] {
        let server = fixed("206 Partial Content", answered, &pattern(length, 1));
        let run = refuses(&server, &["-r", range, "--retries", "0"], 1, &["failed: "]);
        assert!(!run.stderr.contains("panicked"), "{range} {answered}: {}", run.stderr);
    }
    // What it means all the same.
    for (range, answered, length) in [
        ("-5", "bytes 95-99/*", 5),
        ("-5", "bytes=95-99/100", 5),
        ("5-9", "bytes 5-9/*", 5),
        ("10-22", "bytes 10-18/155", 13),
        ("0-4,10-14", "bytes 0-14/*", 15),
    ] {
        brings(
            &fixed("206 Partial Content", answered, &pattern(length, 1)),
            &["-r", range],
            &pattern(length, 1),
        );
    }
}

#[test]
fn several_ranges_come_as_they_are_packed() {
    let bytes = pattern(3 * MIB, 1);
    let server = serve(bytes.clone());
    let sandbox = Sandbox::new();
    let url = server.url("x");
    for (range, parts) in [
        ("0-10,12-15", &[(0, 10), (12, 15)][..]),
        ("12-15, 0-10,-5", &[(12, 15), (0, 10), (3_145_723, 3_145_727)]),
        ("0-1999999,2500000-", &[(0, 1_999_999), (2_500_000, 3_145_727)]),
    ] {
        let body = packed(&bytes, parts);
        for more in [&[][..], &["-c", "4"], &["--force"]] {
            let run = sandbox.get([&*url, "-o", "out", "-r", range]).args(more).run();
            run.succeeds().says(&["saved as several parts with heads of their own (multipart/byteranges)"]);
            assert!(sandbox.read("out") == body, "{range}");
        }
        let run = sandbox.get([&*url, "-o", "-", "-r", range]).run();
        assert!(run.succeeds().stdout == body, "{range}");
    }
    assert_eq!(sandbox.names(), ["out"]);
    assert!(asked(&server).iter().all(|range| range.contains(',')), "{:?}", asked(&server));
    // One that is there, of several.
    sandbox
        .get([&*url, "-o", "out", "-r", "5-9,9999999-"])
        .run()
        .succeeds()
        .says(&["answered with one part"]);
    assert!(sandbox.read("out") == bytes[5..10]);
    // Joined.
    let joined = fixed("206 Partial Content", "bytes 0-15/3781", &pattern(16, 1));
    brings(&joined, &["-r", "0-10,12-15"], &pattern(16, 1))
        .says(&["127.0.0.1 answered with one part, 'bytes 0-15/3781', in place of several"]);
    // All of it is what was asked for, or it is not.
    let whole = Server::start(|_, wire| wire.answer("200 OK", &[], &pattern(10, 1)));
    brings(&whole, &["-r", "0-4,5-"], &pattern(10, 1));
    refuses(
        &whole,
        &["-r", "0-4,6-"],
        1,
        &["in place of the part that --range names; leave that out to save all"],
    );
}

/// A body that breaks off is not gone on with, and not taken for whole where nothing but its last line says
/// that it is.
#[test]
fn several_ranges_are_whole_or_not_there() {
    let kind = ("Content-Type", "multipart/byteranges; boundary=B");
    let body = packed(&pattern(3 * MIB, 1), &[(0, 1_999_999), (2_500_000, 2_999_999)]);
    let cut = |at: usize, is_framed: bool, sound_from: usize| {
        let body = body.clone();
        Server::start(move |request, wire| {
            let length = ("Content-Length", &*body.len().to_string());
            let fields = if is_framed { &[kind, length][..] } else { &[kind, ("Connection", "close")] };
            wire.head("206 Partial Content", fields)?;
            wire.body(if request.number < sound_from { &body[..at] } else { &body })?;
            wire.close()
        })
    };
    for at in [1000, MIB, body.len() - 10] {
        for is_framed in [true, false] {
            refuses(&cut(at, is_framed, usize::MAX), &["-r", "0-1999999,2500000-2999999"], 1, &["127.0.0.1"]);
            brings(&cut(at, is_framed, 1), &["-r", "0-1999999,2500000-2999999"], &body);
        }
    }
    for (body, says) in [
        (packed(&pattern(100, 1), &[(0, 4), (11, 14)]), "a part of 'bytes 11-14/100', asked for 0-4,10-14"),
        (b"no parts at all".to_vec(), "which has parts and a line that ends them"),
        (
            b"--B\r\nContent-Type: a/b\r\n\r\nabc\r\n--B--\r\n".to_vec(),
            "a part without Content-Range; ask for one",
        ),
    ] {
        let server = Server::start(move |_, wire| wire.answer("206 Partial Content", &[kind], &body));
        refuses(&server, &["-r", "0-4,10-14", "--retries", "0"], 1, &[says]);
    }
}

#[test]
fn what_does_not_go_with_a_range_is_said() {
    let server = serve(pattern(1000, 1));
    let sandbox = Sandbox::new();
    let url = server.url("x");
    for (args, says) in [
        (&["-r", "0-4,6-9", "--checksum", "sha256:00"][..], "ask for one range (-r) at a time"),
        (&["-r", "0-4", "-H", "Range:"], "-r 0-4 asks for a range, and -H 'Range:' for none"),
        (&["-H", "Range: bytes=0-4"], "-r 0-4 fetches these bytes"),
        (
            &["-r", "0-4", "-C", "-"],
            "-r 0-4 fetches a part, and -C - goes on with a whole file; leave it out",
        ),
        (&["-r", "0-4", "--continue"], "a part that weir began is gone on with anyway"),
        (&["-r", "0-4", "-N"], "-N compares whole files; leave it out"),
        (&["-r", "-4", "--compressed"], "--compressed changes the bytes that it counts"),
        (&["-r", "-4", "--checksum-from", "sums"], "--checksum ALG:HEX is of the part"),
        (&["-C", "100"], "-r 100- fetches what follows as a file of its own"),
        (&["-r", "-0"], "-0 asks for no bytes"),
        (&["-r", "4"], "expected FIRST-LAST, FIRST- for all from there on, or -N for the last N bytes"),
        (&["-r", "1-2,,3-4"], "expected FIRST-LAST"),
        (&["-r", "9-5"], "expected FIRST-LAST"),
        (&["-r", "99999999999999999999-"], "lies behind the end of any file"),
        (&["-r", "-np"], "wget's -r is not here"),
    ] {
        sandbox.get([&*url, "-o", "out"]).args(args).run().exits(2).says(&[says]);
    }
    assert_eq!(server.requests().len(), 0);
    assert_eq!(sandbox.names(), [""; 0]);
}

/// What curl's tests serve to the flags that they name. Of several answers to one test each is of its own
/// URL.
#[test]
fn as_curls_own_tests_have_it() {
    let of_12 = "HTTP/1.1 206 Partial Content\r\nDate: Mon, 13 Nov 2000 13:41:09 GMT\r\n\
        Last-Modified: Tue, 13 Jun 2000 12:10:00 GMT\r\nETag: \"21025-dc7-39462498\"\r\nAccept-Ranges: bytes\r\n\
        Content-Length: 101\r\nContent-Range: bytes 100-200/3527\r\nConnection: close\r\n\
        Content-Type: text/html\r\n\r\n";
    let text_12 = "..partial data returned from the\nserver as a result of setting an explicit byte range\n\
        in the request\n";
    // Two parts, each with a line end more than it has to have.
    let of_164 = "HTTP/1.1 206 Partial Content swsclose\r\nDate: Sat, 24 Apr 2004 09:24:49 GMT\r\n\
        Last-Modified: Tue, 23 Mar 2004 08:23:14 GMT\r\nETag: \"53814a-ec5-405ff3f2\"\r\nAccept-Ranges: bytes\r\n\
        Content-Length: 187\r\nContent-Type: multipart/byteranges; boundary=408a326132c\r\n\r\n";
    let text_164 = "--408a326132c\r\nContent-type: text/html\r\nContent-range: bytes 0-10/3781\r\n\r\n{html}\n{hea\n\r\n\
        --408a326132c\r\nContent-type: text/html\r\nContent-range: bytes 12-15/3781\r\n\r\n}\n{t\n\r\n\
        --408a326132c--\r\n";
    assert_eq!((text_12.len(), text_164.len()), (101, 187));
    let of_1058 = "HTTP/1.1 206 Partial Content\r\nDate: Thu, 31 Jul 2008 13:41:09 GMT\r\nAccept-Ranges: bytes\r\n\
        Content-Length: 101\r\nContent-Range: bytes 100-200/201\r\nConnection: close\r\nContent-Type: text/html\r\n\r\n";
    let of_1117 = "HTTP/1.1 206 Partial Content\r\nDate: Tue, 09 Sep 2010 14:49:01 GMT\r\nAccept-Ranges: bytes\r\n\
        Content-Range: bytes 10-18/155\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\n";
    for (range, head, body) in [
        ("100-200", of_12, text_12),
        ("0-10,12-15", of_164, text_164),
        ("-101", of_1058, text_12),
        ("10-22", of_1117, "partial body\n"),
    ] {
        let answer = format!("{head}{body}").into_bytes();
        let server = Server::start(move |_, wire| wire.raw(&answer).and_then(|()| wire.close()));
        brings(&server, &["-r", range], body.as_bytes());
        assert_eq!(server.requests()[0].request.field("range"), Some(&*format!("bytes={range}")));
    }
    // 1043: its date has the day of the week wrong.
    let answer = format!(
        "HTTP/1.1 206 Partial Content\r\nDate: Mon, 13 Nov 2007 13:41:09 GMT\r\n\
         Last-Modified: Tue, 13 Jun 2000 12:10:00 GMT\r\nAccept-Ranges: bytes\r\nContent-Length: 60\r\n\
         Content-Range: bytes 40-99/100\r\n\r\n{}",
        "012345678\n".repeat(6)
    );
    let server = Server::start(move |_, wire| wire.raw(answer.as_bytes()));
    let sandbox = Sandbox::new();
    sandbox.write("x", "012345678\n".repeat(4));
    sandbox.get([&server.url("x"), "-C", "-"]).run().succeeds().says(&["without comparing them"]);
    assert_eq!(sandbox.read("x"), "012345678\n".repeat(10).as_bytes());
    // 1117: a range that the first URL does not have costs the second one nothing.
    let server = Server::start(move |request, wire| match request.path() {
        "/want" => wire.answer("416 Requested Range Not Satisfiable", &[], b"This is a long error message"),
        _ => wire.raw(format!("{of_1117}partial body\n").as_bytes()),
    });
    let sandbox = Sandbox::new();
    let run =
        sandbox.get(["-r", "10-22", &server.url("want"), &server.url("wantmore"), "--retries", "0"]).run();
    run.fails(1, &["127.0.0.1 answered 416"]);
    assert_eq!(sandbox.read("wantmore"), b"partial body\n");
    assert_eq!(sandbox.names(), ["wantmore"]);
}

/// curl's bytes, in which the dividing line of several parts has one name.
fn by_curl(url: &str, range: &str) -> Option<Vec<u8>> {
    let curl = Command::new("curl").args(["-sf", "-r", range, url]).output().ok()?;
    curl.status.success().then(|| with_one_boundary(curl.stdout))
}

fn with_one_boundary(bytes: Vec<u8>) -> Vec<u8> {
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let Some(line) = text.trim_start().lines().next().filter(|line| line.starts_with("--")) else {
        return bytes;
    };
    text.replace(line.trim_end(), "--B").into_bytes()
}

fn by_weir(sandbox: &Sandbox, url: &str, range: &str) -> Run {
    sandbox.get([url, "-o", "out", "-r", range, "--retries", "0", "--force"]).run()
}

fn as_curl(name: &str, sandbox: &Sandbox, port: u16) {
    if Command::new("curl").arg("-V").output().is_err() {
        return skip("no curl here");
    }
    let letters: String = (0..300_000).map(|at| char::from(b'a' + (at * 7 % 26) as u8)).collect();
    sandbox.write("www/x", letters.as_bytes());
    sandbox.write("www/empty", "");
    let url = format!("http://127.0.0.1:{port}/x");
    for range in [
        "0-0",
        "100-200",
        "299999-",
        "299990-400000",
        "-1",
        "-500",
        "-300000",
        "-300001",
        "0-10,12-15",
        "5-9,100-200,-5",
        "0-99999,200000-",
        "5-9,400000-",
        "0-,5-9",
    ] {
        let run = by_weir(sandbox, &url, range);
        let theirs = by_curl(&url, range).unwrap_or_else(|| panic!("{name}: curl -r {range} fails"));
        // A server that sends all of it in place of ranges that share bytes: curl saves it, weir says so.
        if theirs == letters.as_bytes() && !matches!(range, "-300000" | "-300001" | "0-,5-9") {
            run.fails(1, &["sent all of it in place of the part that --range names"]);
            continue;
        }
        run.succeeds();
        assert!(with_one_boundary(sandbox.read("out")) == theirs, "{name}: -r {range}: {}", run.stderr);
    }
    for range in ["300000-", "300000-300010,400000-"] {
        let run = by_weir(sandbox, &url, range);
        run.fails(1, &["answered 416"]);
        // The others say nothing of the size.
        assert!(
            name != "nginx" || run.stderr.contains("the object has 300000 bytes"),
            "{name}: {}",
            run.stderr
        );
    }
    let run = by_weir(sandbox, &format!("http://127.0.0.1:{port}/empty"), "-5");
    run.succeeds();
    assert_eq!(sandbox.read("out"), b"", "{name}");
    let sums = weir_codec::hex::encode(&weir_codec::Algorithm::SHA256.of(&letters.as_bytes()[299_500..]));
    sandbox.get([&*url, "-o", "sum", "-r", "-500", "--checksum", &format!("sha256:{sums}")]).run().succeeds();
}

#[test]
fn from_nginx_apache_and_lighttpd() {
    let sandbox = sandbox_with_www();
    match Nginx::start(&sandbox, "") {
        Some(nginx) => as_curl("nginx", &sandbox, nginx.http),
        None => skip("no nginx here"),
    }
    let sandbox = sandbox_with_www();
    match Apache::start(&sandbox, "") {
        Some(apache) => as_curl("apache", &sandbox, apache.http),
        None => skip("no Apache here"),
    }
    let sandbox = sandbox_with_www();
    match lighttpd(&sandbox, "") {
        Some(lighttpd) => as_curl("lighttpd", &sandbox, lighttpd.port),
        None => skip("no lighttpd here"),
    }
}

/// Over HTTP/2, and by weir's own server.
#[test]
fn over_http2_and_from_weir_serve() {
    let sandbox = sandbox_with_www();
    let bytes = pattern(3 * MIB, 1);
    sandbox.write("www/x", &bytes);
    let Some(nginx) = Nginx::start(&sandbox, "") else { return skip("no nginx here") };
    let serving = sandbox.serve("www", &[]);
    let over2 = format!("https://localhost:{}/x", nginx.https);
    for (url, more) in [(over2, &["--http2", "--cacert", "cert.pem"][..]), (serving.url("x"), &[])] {
        for range in ["-2000000", "-5"] {
            let length: usize = range[1..].parse().unwrap();
            sandbox.get([&*url, "-o", "out", "-r", range]).args(more).run().succeeds();
            assert!(sandbox.read("out") == bytes[bytes.len() - length..], "{url} {range}");
        }
        let run = sandbox.get([&*url, "-o", "out", "-r", "0-999,2000-2999"]).args(more).run();
        run.succeeds().says(&["several parts"]);
        let got = sandbox.read("out");
        for part in [&bytes[..1000], &bytes[2000..3000]] {
            assert!(got.windows(1000).any(|window| window == part), "{url}");
        }
    }
}
