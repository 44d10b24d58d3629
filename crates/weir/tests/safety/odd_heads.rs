//! Heads and framings as odd servers write them: taken where all readers agree where the body ends, refused
//! where two could disagree, with the line and the field.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io::Write;
use std::time::{Duration, Instant};

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
        // What Apache offers with each answer over plain HTTP, and a field that was written into another.
        "HTTP/1.1 200 OK\r\nUpgrade: h2,h2c\r\nConnection: Upgrade, close\r\nContent-Length: LENGTH\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Disposition: attachment; filename=\"Content-Disposition: attachment; \
         filename=\"f\"\r\n\"\r\nContent-Length: LENGTH\r\n\r\n",
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
fn thousands_of_fields() {
    for (size, count) in [(SIZES[0], 400), (SIZES[1], 400), (SIZES[0], 10_000)] {
        let server = Server::start(move |_, wire| {
            let mut fields: Vec<(String, String)> =
                (0..count).map(|number| (format!("X-{number}"), "value".to_owned())).collect();
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

/// Sizes that were made to one width: with zeros, or with blanks behind them.
#[test]
fn padded_sizes_of_chunks() {
    for pad in
        [|size: usize| format!("{size:08x}"), |size| format!("{size:016X}"), |size| format!("{size:<8x}")]
    {
        let server = Server::start(move |_, wire| {
            wire.head("200 OK", &[("Transfer-Encoding", "chunked")])?;
            for chunk in pattern(SIZES[1], 1).chunks(77_777) {
                wire.raw(format!("{}\r\n", pad(chunk.len())).as_bytes())?;
                wire.body(chunk)?;
                wire.raw(b"\r\n")?;
            }
            wire.raw(format!("{}\r\n\r\n", pad(0)).as_bytes())
        });
        brings(&server, &[], &pattern(SIZES[1], 1));
    }
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
        ("Content-Length: 5Bad", &["line 2: invalid Content-Length '5Bad'"]),
        ("Content-Length: 36893488147419103232", &["line 2: invalid Content-Length '36893488147419103232'"]),
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

/// `text` as gzip.
fn gzip(text: &[u8]) -> Vec<u8> {
    let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    coder.write_all(text).unwrap();
    coder.finish().unwrap()
}

/// A coding of the way ends with the connection (RFC 9112 section 6.3); a length beside it is another
/// reader's end. Both are one where the connection ends behind that many bytes.
#[test]
fn a_length_beside_a_coding_of_the_way_has_to_be_where_the_connection_ends() {
    for size in SIZES {
        let (plain, coded) = (pattern(size, 1), gzip(&pattern(size, 1)));
        let after = |length: usize, more: &'static [u8], closes: bool| {
            let coded = coded.clone();
            Server::start(move |_, wire| {
                let length = length.to_string();
                wire.head("200 OK", &[("Transfer-Encoding", "gzip"), ("Content-Length", &*length)])?;
                wire.body(&coded)?;
                wire.raw(more)?;
                if closes { wire.close() } else { wire.wait_for_close() }
            })
        };
        brings(&after(coded.len(), b"", true), &[], &plain);
        let disagree = "readers disagree about where the body ends";
        refuses(&after(coded.len(), b"more", true), &[], 1, &[disagree]);
        refuses(&after(coded.len() - 1, b"", true), &[], 1, &[disagree]);
        refuses(&after(coded.len() + 1, b"", true), &[], 1, &["closed the connection after"]);
        let start = Instant::now();
        refuses(&after(coded.len(), b"", false), &[], 1, &[disagree]);
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }
}

/// The connection ends behind a line of the head. It may have been cut; who takes that gets an empty file.
#[test]
fn a_head_without_its_empty_line() {
    let head = "HTTP/1.1 200 OK\r\nServer: x\r\nConnection: close\r\n";
    let cut = |head: &'static str, tls: bool| match tls {
        true => Server::start_tls(move |_, wire| wire.raw(head.as_bytes()).and_then(|()| wire.close())),
        false => Server::start(move |_, wire| wire.raw(head.as_bytes()).and_then(|()| wire.close())),
    };
    for tls in [false, true] {
        let args = ["-k"];
        refuses(&cut(head, tls), &args, 1, &["it ended within its head; --accept-unclean-close"]);
        let run = brings(&cut(head, tls), &["-k", "--accept-unclean-close"], b"");
        run.says(&["its head ended without an empty line; --accept-unclean-close took it for whole"]);
    }
    // Within a line, or of a head that says that a body follows.
    for head in [
        "HTTP/1.1 200 OK\r\nServ",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n",
        "HTTP/1.1 100 Continue\r\n",
        "\r\n",
    ] {
        refuses(&cut(head, false), &["--accept-unclean-close"], 1, &["127.0.0.1"]);
    }
}

/// What comes with a redirect that leads nowhere is a page about it, unless the user says otherwise.
#[test]
fn a_redirect_without_a_target() {
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "300 Multiple Choices"] {
        for fields in [&[][..], &[("Location", "")]] {
            let server = Server::start(move |_, wire| wire.answer(status, fields, b"what came"));
            refuses(&server, &[], 1, &["127.0.0.1"]);
            let run = brings(&server, &["--any-type"], b"what came");
            run.says(&[&format!("saved what came with {} and no target", &status[..3])]);
        }
    }
}

/// A success that has no file with it is none, unless the user says otherwise.
#[test]
fn a_success_without_a_file() {
    let no_content = |fields: &'static str| {
        Server::start(move |_, wire| wire.raw(format!("HTTP/1.1 204 No Content\r\n{fields}\r\n").as_bytes()))
    };
    for fields in ["", "Transfer-Encoding: chunked\r\n", "Content-Length: 5\r\n"] {
        refuses(&no_content(fields), &[], 1, &["127.0.0.1 answered 204 No Content"]);
        brings(&no_content(fields), &["--any-type"], b"").says(&["saved what came with 204"]);
    }
    for status in ["202 Accepted", "205 Reset Content"] {
        let server = Server::start(move |_, wire| wire.answer(status, &[], b"wait"));
        refuses(&server, &[], 1, &["127.0.0.1 answered", status]);
        brings(&server, &["--any-type"], b"wait").says(&[&format!("saved what came with {}", &status[..3])]);
    }
}

/// Some servers and proxies write another version's number over a head that is a text. It is read by what all
/// have.
#[test]
fn a_text_with_another_version_s_number() {
    for version in ["HTTP/2", "HTTP/2.0", "HTTP/3", "HTTP/1", "HTTP/1.2", "http/1.1", "Http/1.0"] {
        for size in SIZES {
            for field in [&format!("Content-Length: {size}\r\n"), ""] {
                let head = format!("{version} 200 OK\r\n{field}\r\n");
                let server = Server::start(move |_, wire| {
                    wire.raw(head.as_bytes())?;
                    wire.body(&pattern(size, 1))?;
                    wire.close()
                });
                brings(&server, &[], &pattern(size, 1));
            }
        }
    }
}

/// Targets as servers write them.
#[test]
fn targets_of_redirects() {
    for (location, asked) in [
        ("/caf\u{e9} \u{77f3}", "/caf%C3%A9%20%E7%9F%B3"),
        ("other?a b", "/in/other?a%20b"),
        ("?again=1", "/in/x?again=1"),
        ("../up/x#part", "/up/x"),
        ("//HOST/x", "/x"),
        ("http:///HOST/x", "/x"),
        ("HTTP://HOST//x", "//x"),
        ("  /blanks  ", "/blanks"),
    ] {
        let server = Server::start(move |request, wire| match request.number {
            0 => {
                let host = request.field("host").unwrap_or_default();
                wire.redirect("302 Found", &location.replace("HOST", host))
            }
            _ => wire.answer("200 OK", &[], b"there"),
        });
        let sandbox = Sandbox::new();
        sandbox.get([&server.url("in/x"), "-o", "out"]).run().succeeds();
        assert_eq!(sandbox.read("out"), b"there", "{location}");
        assert_eq!(server.requests()[1].request.target, asked, "{location}");
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
        (b"00000000000000005\r\nhello\r\n0\r\n\r\n", "a chunk size of more than 16 digits"),
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
        ("HTTP/4 200 OK\r\n\r\n", "not an HTTP/1 message"),
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
