//! Heads and framings as odd servers write them: taken where all readers agree where the body ends, refused where two
//! could disagree, with the line and the field.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use support::{MIB, Sandbox, Server, brings, pattern, refuses};

/// Below and above what is stored in one piece.
const SIZES: [usize; 2] = [5_000, 3 * MIB + 5];

/// Answers everything with `head`, in which `LENGTH` is the body's, and the body.
fn raw(head: &'static str, size: usize) -> Server {
    Server::start(move |_, wire| {
        wire.raw(head.replace("LENGTH", &size.to_string()).as_bytes())?;
        wire.body(&pattern(size, 1))?;
        wire.close()
    })
}

#[test]
fn what_no_reader_needs_may_be_odd() {
    for head in [
        // RFC 9112 section 5.2: a user agent reads a fold as spaces.
        "HTTP/1.1 200 OK\r\nX-A: one\r\n two\r\n\tthree\r\nContent-Length: LENGTH\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length:\r\n LENGTH\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain;\r\n charset=utf-8\r\nContent-Length: LENGTH\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX-A : b\r\nContent-Length: LENGTH\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX-A\t: b\r\nContent-Length: LENGTH\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon at all\r\nContent-Length: LENGTH\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX-A: \x01\x02\x7f\r\nContent-Length: LENGTH\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX-A: a\0b\r\nContent-Length: LENGTH\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX(A): b\r\nContent-Length: LENGTH\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: no name\r\nContent-Length: LENGTH\r\n\r\n",
        "HTTP/1.1 200 OK\r\n first\r\nContent-Length: LENGTH\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: LENGTH\n\n",
        "\r\n\r\nHTTP/1.1  200\r\nContent-Length: LENGTH\r\n\r\n",
        "HTTP/1.1 200 caf\u{e9} \u{1}\r\nContent-Length: LENGTH\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: LENGTH\r\nContent-Length: LENGTH\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: LENGTH, LENGTH\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: LENGTH\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n",
        "HTTP/1.0 200 OK\r\n\r\n",
    ] {
        for size in SIZES {
            println!("{}, {size}", head.escape_debug());
            brings(&raw(head, size), &[], &pattern(size, 1));
        }
    }
}

#[test]
fn a_large_head() {
    let server =
        Server::start(|_, wire| wire.answer("200 OK", &[("X-Long", &"x".repeat(200_000))], b"behind it"));
    brings(&server, &[], b"behind it");
}

/// Statuses of success that few servers send; their body is what was asked for.
#[test]
fn other_answers_of_success() {
    for status in ["201 Created", "203 Non-Authoritative Information", "226 IM Used", "299 Fine"] {
        let server = Server::start(move |_, wire| wire.answer(status, &[], b"the file"));
        brings(&server, &[], b"the file");
    }
}

#[test]
fn four_hundred_fields() {
    for size in SIZES {
        let server = Server::start(move |_, wire| {
            let mut fields: Vec<(String, String)> =
                (0..400).map(|number| (format!("X-{number}"), "value".to_owned())).collect();
            fields.push(("Content-Length".to_owned(), size.to_string()));
            wire.head("200 OK", &fields)?;
            wire.body(&pattern(size, 1))
        });
        brings(&server, &[], &pattern(size, 1));
    }
}

#[test]
fn a_line_of_an_old_server_may_have_an_extension() {
    let server = Server::start(|_, wire| {
        wire.raw(b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n3\nthe\n5;a=b\n file\n0\n\n")
    });
    brings(&server, &[], b"the file");
}

/// A server whose body comes in chunks with these line ends, behind `head`.
fn chunked(head: &'static str, end: &'static str, size: usize) -> Server {
    Server::start(move |_, wire| {
        wire.raw(head.as_bytes())?;
        for chunk in pattern(size, 1).chunks(77_777) {
            wire.raw(format!("{:x}{end}", chunk.len()).as_bytes())?;
            wire.body(chunk)?;
            wire.raw(end.as_bytes())?;
        }
        wire.raw(format!("0{end}X-Trailer: yes{end}not a field{end}{end}").as_bytes())
    })
}

#[test]
fn chunks_however_they_are_announced() {
    for head in [
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity, Chunked\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 99999999\r\n\r\n",
    ] {
        for (size, end) in [(SIZES[0], "\r\n"), (SIZES[1], "\r\n"), (SIZES[0], "\n"), (SIZES[1], "\n")] {
            println!("{}, {size}, {end:?}", head.escape_debug());
            brings(&chunked(head, end, size), &[], &pattern(size, 1));
        }
    }
}

/// RFC 9112 sections 6.1 and 6.3: what two readers may read in two ways is not followed by another answer.
#[test]
fn a_doubtful_framing_ends_its_connection() {
    for (head, connections) in [
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 1),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 3),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n", 3),
    ] {
        let server = chunked(head, "\r\n", 1000);
        let urls = ["a", "b", "c"].map(|name| server.url(name));
        Sandbox::new().get(&urls).args(&["-j", "1"]).run().succeeds();
        assert_eq!(server.connections(), connections, "{}", head.escape_debug());
    }
}

#[test]
fn what_two_readers_read_in_two_ways_is_refused() {
    for (head, says) in [
        (
            "Content-Length: 5\r\nContent-Length: 6",
            &["lines 2 and 3: Content-Length is given twice, as 5 and as 6"][..],
        ),
        ("Content-Length: 5, 6", &["line 2: Content-Length is given twice, as 5 and as 6"]),
        ("X: y\r\nContent-Length: 5\r\n 6", &["line 3: invalid Content-Length '5 6'"]),
        ("Content-Length: +5", &["line 2: invalid Content-Length '+5'"]),
        ("Content-Length: -5", &["line 2: invalid Content-Length"]),
        ("Content-Length: 0x5", &["line 2: invalid Content-Length"]),
        ("Content-Length: 5 5", &["line 2: invalid Content-Length"]),
        ("Content-Length: ", &["line 2: invalid Content-Length"]),
        ("Content-Length : 5", &["line 2 may or may not be Content-Length: a blank stands before its colon"]),
        (
            "Transfer-Encoding : chunked\r\nContent-Length: 5",
            &["line 2 may or may not be Transfer-Encoding: a blank stands before its colon"],
        ),
        ("Content-Length: 5\x01", &["line 2 may or may not be Content-Length: it holds a control character"]),
        ("Transfer-Encoding: \x0bchunked", &["line 2 may or may not be Transfer-Encoding"]),
        (
            "X: y\rContent-Length: 5",
            &["line 2 may or may not be Content-Length: it holds a control character"],
        ),
        (" Content-Length: 5", &["line 2 may or may not be Content-Length"]),
        ("Content-Length 5", &["line 2 may or may not be Content-Length: it has no colon"]),
        (
            "Content-Length: 5\r\nContent-Length: 6\r\nTransfer-Encoding: chunked",
            &["lines 2, 3 and 4: Content-Length is given twice"],
        ),
        ("Transfer-Encoding: chunked, gzip", &["line 2: unsupported Transfer-Encoding 'chunked, gzip'"]),
        (
            "Transfer-Encoding: compress, chunked",
            &["line 2: unsupported Transfer-Encoding 'compress, chunked'"],
        ),
        (
            "Transfer-Encoding: gzip\r\nContent-Length: 5",
            &["lines 2 and 3: both Content-Length and Transfer-Encoding are given"],
        ),
        ("Transfer-Encoding: chunked\r\n gzip", &["line 2: unsupported Transfer-Encoding 'chunked gzip'"]),
        ("Transfer-Encoding: xchunked", &["line 2: unsupported Transfer-Encoding 'xchunked'"]),
    ] {
        let server = Server::start(move |_, wire| {
            wire.raw(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n").as_bytes())?;
            wire.raw(b"hello!")?;
            wire.close()
        });
        println!("{}", head.escape_debug());
        refuses(&server, &[], 1, &["127.0.0.1 sent a malformed answer: "]).says(says);
    }
}

#[test]
fn chunks_that_two_readers_read_in_two_ways_are_refused() {
    for (body, says) in [
        // One reader ends the line at LF, the other reads on to CRLF.
        (&b"5;a\nhello\r\n0\r\n\r\n"[..], "CRLF after a chunk extension"),
        (b"5\r\nhello\n5;a\nhello\r\n0\r\n\r\n", "CRLF after a chunk extension"),
        (b"5\rhello\r\n0\r\n\r\n", "LF after a chunk size"),
        (b"5 5\r\nhello\r\n0\r\n\r\n", "the end of a chunk size"),
        (b"+5\r\nhello\r\n0\r\n\r\n", "a chunk size"),
        (b"0x5\r\nhello\r\n0\r\n\r\n", "a chunk size"),
        (b"5\r\nhello0\r\n\r\n", "CRLF after a chunk"),
        (b"00000000000000005\r\nhello\r\n0\r\n\r\n", "a chunk size of 2^63 bytes or more"),
    ] {
        let server = Server::start(move |_, wire| {
            wire.head("200 OK", &[("Transfer-Encoding", "chunked")])?;
            wire.raw(body)?;
            wire.close()
        });
        refuses(&server, &[], 1, &["127.0.0.1 sent a malformed answer: ", says]);
    }
}

#[test]
fn what_is_no_head_is_named_by_its_line() {
    for (head, says) in [
        ("HTTP/1.1 abc\r\n\r\n", "line 1: no status: 'HTTP/1.1 abc'"),
        ("HTTP/1.1 200OK\r\n\r\n", "line 1: no status"),
        ("HTTP/1.1 20\r\n\r\n", "line 1: no status"),
        ("HTTP/3 200 OK\r\n\r\n", "not an HTTP/1 message"),
        ("<html>\r\n", "not an HTTP/1 message, it starts with '<html>'"),
    ] {
        let server = Server::start(move |_, wire| wire.raw(head.as_bytes()).and_then(|()| wire.close()));
        refuses(&server, &[], 1, &["127.0.0.1 sent a malformed answer: ", says]);
    }
}

/// RFC 9110 section 9.3.6: a tunnel has no body, whatever a proxy says of one.
#[test]
fn a_tunnel_has_no_body() {
    for lines in [
        "Content-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
    ] {
        let origin = Server::start_tls(|_, wire| wire.answer("200 OK", &[], b"through"));
        let to = origin.address();
        let proxy = Server::start(move |_, wire| {
            wire.raw(format!("HTTP/1.1 200 Connection established\r\n{lines}\r\n").as_bytes())?;
            wire.tunnel(to)
        });
        brings(&origin, &["-k", "--proxy", &proxy.url("")], b"through");
        assert_eq!(proxy.requests()[0].request.method, "CONNECT");
    }
}
