//! A request that is refused for its form is asked for once more with less in it; a refusal of all is an
//! answer.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io;

use support::{MIB, Object, Request, Sandbox, Server, WEIR, Wire, brings, pattern, refuses};

/// Below and above what is stored in one piece.
const SIZES: [usize; 2] = [300_000, 3 * MIB + 5];

/// Statuses with which servers refuse a range of what they serve.
const REFUSALS: [&str; 12] = [
    "400 Bad Request",
    "403 Forbidden",
    "404 Not Found",
    "405 Method Not Allowed",
    "406 Not Acceptable",
    "409 Conflict",
    "412 Precondition Failed",
    "422 Unprocessable Content",
    "500 Internal Server Error",
    "501 Not Implemented",
    "502 Bad Gateway",
    "503 Service Unavailable",
];

/// Answers a range by `refuse`, and the rest with the whole of `size` bytes.
fn without_ranges(
    size: usize,
    refuse: impl Fn(&mut Wire) -> io::Result<()> + Send + Sync + 'static,
) -> Server {
    let object = Object::new(size).whole_only();
    Server::start(move |request, wire| match request.range() {
        Some(_) => refuse(wire),
        None => object.serve(request, wire),
    })
}

#[test]
fn a_status_that_refuses_the_range() {
    for status in REFUSALS {
        for size in SIZES {
            let server = without_ranges(size, move |wire| wire.answer(status, &[], b"no ranges here"));
            let run = brings(&server, &["--retries", "0"], &pattern(size, 1));
            run.says(&["asked for without a range, since 127.0.0.1 answered", status]);
            assert_eq!(server.requests().len(), 2, "{status}");
            assert_eq!(server.connections(), 1, "{status}: the refusal is read, its connection used again");
        }
    }
}

#[test]
fn a_refusal_without_an_end_or_with_a_close() {
    for size in SIZES {
        let server = without_ranges(size, |wire| {
            wire.head("403 Forbidden", &[("Connection", "close")])?;
            wire.close()
        });
        brings(&server, &[], &pattern(size, 1));
        let server = without_ranges(size, |wire| {
            wire.head("403 Forbidden", &[("Content-Length", 1 << 20)])?;
            wire.wait_for_close()
        });
        brings(&server, &["--timeout", "600"], &pattern(size, 1));
    }
}

#[test]
fn a_connection_that_is_closed_on_a_range() {
    for size in SIZES {
        // A path that breaks does so once: the same is asked for again before less is.
        for (retries, requests) in [("5", 3), ("0", 2)] {
            let server = without_ranges(size, |wire| wire.close());
            let run = brings(&server, &["--retries", retries], &pattern(size, 1));
            run.says(&["asked for without a range, since 127.0.0.1 closed the connection"]);
            assert_eq!(server.requests().len(), requests);
            let server = without_ranges(size, |wire| wire.reset());
            brings(&server, &["--retries", retries], &pattern(size, 1));
        }
    }
}

#[test]
fn a_connection_that_broke_once_is_no_refusal() {
    let object = Object::new(3 * MIB);
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| match request.number {
        0 => wire.close(),
        _ => object.serve(request, wire),
    });
    brings(&server, &[], &bytes);
    assert!(server.requests_from(0).iter().all(|request| request.range().is_some()));
}

/// A server that knows no range may answer one with something that is no answer.
#[test]
fn a_range_that_is_answered_by_nonsense() {
    for nonsense in [
        "TP/1.0 200 OK\r\n\r\n",
        "HTTP/1.1 OK\r\n\r\n",
        "HTTP/1.1 206 X\r\nContent-Length: -1\r\n\r\n",
        "PK\x03\x04",
    ] {
        for (retries, requests) in [("5", 3), ("0", 2)] {
            let server =
                without_ranges(SIZES[0], |wire| wire.raw(nonsense.as_bytes()).and_then(|()| wire.close()));
            let run = brings(&server, &["--retries", retries], &pattern(SIZES[0], 1));
            run.says(&["asked for without a range, since 127.0.0.1 sent no readable answer"]);
            assert_eq!(server.requests().len(), requests, "{nonsense:?}");
        }
    }
}

/// Some servers have a limit to what one range may ask for.
#[test]
fn a_range_that_asks_for_too_much() {
    let object = Object::new(SIZES[1]);
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| match request.range() {
        Some((start, end)) if end.is_none_or(|end| end - start > MIB as u64) => {
            wire.answer("403 Forbidden", &[], b"too much")
        }
        _ => object.serve(request, wire),
    });
    brings(&server, &["-c", "4"], &bytes);
}

/// A server that gives a part once, and all of it for each later one, with the status of a part.
#[test]
fn a_later_part_that_is_all_of_it() {
    let object = Object::new(6 * MIB).rate(8 << 20);
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| match request.start() {
        0 => object.serve(request, wire),
        _ => {
            let size = object.bytes.len();
            let range = format!("bytes 0-{}/{size}", size - 1);
            let fields = [("Content-Range", range), ("ETag", "\"one\"".to_owned())];
            wire.head(
                "206 Partial Content",
                &[&fields[..], &[("Content-Length", size.to_string())]].concat(),
            )?;
            wire.body(&object.bytes)
        }
    });
    brings(&server, &["-c", "4", "--retries", "0"], &bytes);
}

/// Content-Range as a request has it, with a colon, or without its unit.
#[test]
fn ranges_written_in_other_ways() {
    for (prefix, dash) in [("bytes=", "-"), ("bytes: ", "-"), ("Bytes  ", "-"), ("", "-"), ("bytes ", " - ")]
    {
        let object = Object::new(4 * MIB);
        let bytes = object.bytes.clone();
        let server = Server::start(move |request, wire| {
            let (start, size) = (request.start() as usize, object.bytes.len());
            let range = format!("{prefix}{start}{dash}{}/{size}", size - 1);
            let length = (size - start).to_string();
            let fields = [("Content-Range", &*range), ("ETag", "\"one\""), ("Content-Length", &length)];
            wire.head("206 Partial Content", &fields)?;
            let end = if request.number == 0 { size / 2 } else { size };
            wire.body(&object.bytes[start..end])?;
            wire.close()
        });
        brings(&server, &[], &bytes);
        assert_eq!(server.requests()[1].request.start(), 2 * MIB as u64, "{prefix:?}: gone on with");
    }
}

#[test]
fn a_refusal_both_ways_is_an_answer_with_the_first_words() {
    for (first, second) in [
        ("404 No Such Part", "404 No Such File"),
        ("403 Not For Ranges", "403 Not For You"),
        ("404 No Such Part", "403 Forbidden"),
        ("400 Bad Range", "400 Bad Anyway"),
    ] {
        let server = Server::start(move |request, wire| match request.range() {
            Some(_) => wire.answer(first, &[], b"first"),
            None => wire.answer(second, &[], b"second"),
        });
        let run = refuses(&server, &[], 1, &[&format!("127.0.0.1 answered {first}")]);
        assert!(!run.stderr.contains(second), "{}", run.stderr);
        // A 400 may speak of any field, so all that can be left out is.
        assert_eq!(server.requests().len(), if first.starts_with("400") { 3 } else { 2 }, "{first}");
    }
}

#[test]
fn a_failure_that_comes_again_is_asked_for_without_a_range_once() {
    let server = Server::start(|_, wire| wire.answer("500 Internal Server Error", &[], b""));
    refuses(&server, &[], 1, &["127.0.0.1 answered 500"]);
    let ranged = server.requests_from(0).iter().map(|request| request.range().is_some()).collect::<Vec<_>>();
    assert_eq!(ranged, [true, true, false], "it may pass: one more attempt, and then a plain request");
}

#[test]
fn a_word_about_login_or_patience_is_no_refusal_of_the_range() {
    for status in ["401 Unauthorized", "407 Proxy Authentication Required", "429 Too Many Requests"] {
        let server = Server::start(move |_, wire| wire.answer(status, &[], b""));
        refuses(&server, &[], 1, &[status]);
        let ranged = server.requests_from(0).iter().all(|request| request.range().is_some());
        assert!(ranged, "{status}");
    }
    let server = Server::start(|_, wire| {
        wire.answer("503 Service Unavailable", &[("Retry-After", "100000")], b"come back")
    });
    Sandbox::new().get([&server.url("x")]).run().fails(4, &["it asks for a wait of"]);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn what_helped_is_kept_for_the_origin() {
    let server = Server::start(|request, wire| match request.range() {
        Some(_) => wire.answer("403 Forbidden", &[], b""),
        None => wire.answer("200 OK", &[], request.path().as_bytes()),
    });
    let urls: Vec<String> = (0..10).map(|number| server.url(&number.to_string())).collect();
    let sandbox = Sandbox::new();
    let run = sandbox.get(&urls).args(&["-j", "1", "--json"]).run();
    assert_eq!(sandbox.read("9"), b"/9");
    assert_eq!(server.requests().len(), 11, "one refusal for all of them");
    let notes = run.succeeds().json()["files"][0]["notes"].clone();
    assert_eq!(
        notes,
        serde_json::json!(["asked for without a range, since 127.0.0.1 answered 403 Forbidden to more"])
    );
}

#[test]
fn an_origin_that_gives_parts_means_its_refusals() {
    let object = Object::new(1000);
    let server = Server::start(move |request, wire| match request.path() {
        "/there" => object.serve(request, wire),
        _ => wire.answer("404 Not Found", &[], b""),
    });
    let sandbox = Sandbox::new();
    let urls = ["there", "a", "b"].map(|name| server.url(name));
    sandbox.get(&urls).args(&["-j", "1"]).run().fails(1, &["404 Not Found"]);
    assert_eq!(server.requests().len(), 3);
}

/// Of a list of names that are not there the first alone is asked for twice; and what is refused otherwise
/// may be refused for its form still.
#[test]
fn an_origin_without_what_a_list_names() {
    for (status, requests) in [("404 Not Found", 6), ("410 Gone", 6), ("403 Forbidden", 10)] {
        let server = Server::start(move |_, wire| wire.answer(status, &[], b""));
        let urls: Vec<String> = (0..5).map(|number| server.url(&number.to_string())).collect();
        Sandbox::new().get(&urls).args(&["-j", "1"]).run().fails(1, &[status]);
        assert_eq!(server.requests().len(), requests, "{status}");
    }
    // A server that hides what it serves whole is still found out.
    let server = Server::start(|request, wire| match (request.path(), request.range()) {
        ("/0", _) => wire.answer("404 Not Found", &[], b""),
        (_, Some(_)) => wire.answer("403 Forbidden", &[], b""),
        (path, None) => wire.answer("200 OK", &[], path.as_bytes()),
    });
    let sandbox = Sandbox::new();
    let urls = ["0", "1"].map(|name| server.url(name));
    sandbox.get(&urls).args(&["-j", "1"]).run().fails(1, &["404 Not Found"]);
    assert_eq!(sandbox.read("1"), b"/1");
}

/// What comes of a resume is asked for with `If-Range`, then without, then whole.
fn resumed(
    refuse: impl Fn(&Request, &mut Wire) -> Option<io::Result<()>> + Send + Sync + 'static,
) -> Vec<Request> {
    let object = Object::new(4 * MIB);
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| {
        if request.number == 0 {
            object.serve_up_to(request, wire, 2 * MIB)?;
            return wire.close();
        }
        refuse(request, wire).unwrap_or_else(|| object.serve(request, wire))
    });
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("x"), "-o", "out", "--retries", "0"]).run().exits(4);
    sandbox.get([&server.url("x"), "-o", "out"]).run().succeeds();
    assert!(sandbox.read("out") == *bytes);
    assert_eq!(sandbox.names(), ["out"]);
    server.requests_from(1)
}

#[test]
fn a_condition_that_is_refused_is_left_out() {
    let requests = resumed(|request, wire| {
        request.field("if-range").map(|_| wire.answer("412 Precondition Failed", &[], b""))
    });
    assert_eq!(requests.len(), 2);
    assert_eq!((requests[1].start(), requests[1].field("if-range")), (2 * MIB as u64, None));
}

#[test]
fn a_resume_that_is_refused_begins_again() {
    let requests = resumed(|request, wire| request.range().map(|_| wire.answer("403 Forbidden", &[], b"")));
    assert_eq!(requests.last().unwrap().range(), None);
}

#[test]
fn a_resume_of_what_is_gone_keeps_what_came() {
    let object = Object::new(4 * MIB);
    let server = Server::start(move |request, wire| match request.number {
        0 => object.serve_up_to(request, wire, 2 * MIB).and_then(|()| wire.close()),
        _ => wire.answer("404 Not Found", &[], b""),
    });
    let sandbox = Sandbox::new();
    for _ in 0..2 {
        let run = sandbox.get([&server.url("x"), "-o", "out", "--retries", "1"]).run();
        run.fails(4, &["127.0.0.1 answered 404 Not Found", "are kept"]);
        assert_eq!(sandbox.names(), ["out.part", "out.weir"]);
    }
}

/// One odd answer to the request for the rest, of one server of several or of a moment.
#[test]
fn a_part_that_is_refused_once_is_asked_for_again() {
    let odd: [(Option<&str>, &str); 4] = [
        (Some("403 Forbidden"), "5"),
        (Some("404 Not Found"), "5"),
        // The last that the user allows.
        (Some("500 Internal Server Error"), "1"),
        // All of it, of the same version.
        (None, "5"),
    ];
    for (status, retries) in odd {
        let object = Object::new(4 * MIB);
        let bytes = object.bytes.clone();
        let server = Server::start(move |request, wire| match (request.number, status) {
            (0, _) => object.serve_up_to(request, wire, 2 * MIB).and_then(|()| wire.close()),
            (1, Some(status)) => wire.answer(status, &[], b"odd"),
            (1, None) => object.clone().whole_only().serve(request, wire),
            _ => object.serve(request, wire),
        });
        let run = brings(&server, &["-c", "1", "--retries", retries], &bytes);
        assert!(!run.stderr.contains("starting again"), "{status:?}: {}", run.stderr);
        let starts = server.requests_from(1).into_iter().filter_map(|request| request.range());
        let starts: Vec<_> = starts.map(|range| range.0).collect();
        assert!(starts.iter().all(|start| *start == 2 * MIB as u64), "{status:?}: a byte twice: {starts:?}");
    }
}

#[test]
fn later_parts_that_are_refused_give_way_to_one_answer() {
    for status in ["403 Forbidden", "404 Not Found", "405 Method Not Allowed"] {
        let object = Object::new(4 * MIB);
        let bytes = object.bytes.clone();
        let server = Server::start(move |request, wire| match (request.number, request.start()) {
            (0, _) => object.serve_up_to(request, wire, 2 * MIB).and_then(|()| wire.close()),
            (_, 0) => object.serve(request, wire),
            _ => wire.answer(status, &[], b""),
        });
        brings(&server, &[], &bytes).says(&["starting again"]);
    }
}

#[test]
fn a_field_that_is_refused_is_left_out_last() {
    for status in
        ["400 Bad Request", "406 Not Acceptable", "415 Unsupported Media Type", "501 Not Implemented"]
    {
        for size in SIZES {
            let object = Object::new(size).whole_only();
            let server = Server::start(move |request, wire| match request.field("accept-encoding") {
                Some(_) => wire.answer(status, &[], b""),
                None => object.serve(request, wire),
            });
            let run = brings(&server, &[], &pattern(size, 1));
            run.says(&["asked for without a range and without Accept-Encoding", status]);
            assert_eq!(server.requests().len(), 3, "{status}");
        }
    }
}

/// The bytes that the request asks for, as a part with this status and the total as `total` says.
fn part(object: &Object, status: &str, total: &str, request: &Request, wire: &mut Wire) -> io::Result<()> {
    let size = object.bytes.len();
    let Some((start, end)) = request.range() else { return object.serve(request, wire) };
    let end = end.map_or(size, |end| end as usize);
    let range = format!("bytes {start}-{}/{total}", end - 1);
    wire.answer(status, &[("Content-Range", &range), ("ETag", "\"one\"")], &object.bytes[start as usize..end])
}

#[test]
fn a_part_with_the_status_of_the_whole_is_a_part() {
    for size in SIZES {
        let object = Object::new(size);
        let served = object.clone();
        let server = Server::start(move |request, wire| match request.number {
            0 => {
                let range = format!("bytes 0-{}/{size}", size - 1);
                let length = size.to_string();
                let fields = [("Content-Range", &*range), ("ETag", "\"one\""), ("Content-Length", &length)];
                wire.head("200 OK", &fields)?;
                wire.body(&served.bytes[..size / 2])?;
                wire.close()
            }
            _ => part(&served, "200 OK", &size.to_string(), request, wire),
        });
        brings(&server, &[], &object.bytes);
        if size > MIB {
            assert_eq!(server.requests()[1].request.start(), size as u64 / 2);
        }
    }
}

#[test]
fn a_part_with_the_status_of_the_whole_that_contradicts_itself_is_none() {
    let object = Object::new(100_000);
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| match request.range() {
        Some(_) => {
            wire.answer("200 OK", &[("Content-Range", "bytes 500-99999/100000")], &object.bytes[500..])
        }
        None => object.serve(request, wire),
    });
    brings(&server, &[], &bytes);
}

#[test]
fn parts_that_do_not_say_the_size_of_the_whole() {
    let object = Object::new(4 * MIB);
    let bytes = object.bytes.clone();
    let served = object.clone();
    let server = Server::start(move |request, wire| match request.number {
        0 => served.serve_up_to(request, wire, 2 * MIB).and_then(|()| wire.close()),
        _ => part(&served, "206 Partial Content", "*", request, wire),
    });
    brings(&server, &[], &bytes);
    assert_eq!(server.requests()[1].request.start(), 2 * MIB as u64, "gone on with, not begun again");
    for size in SIZES {
        let object = Object::new(size);
        let bytes = object.bytes.clone();
        let server =
            Server::start(move |request, wire| part(&object, "206 Partial Content", "*", request, wire));
        brings(&server, &["-c", "3"], &bytes);
    }
}

#[test]
fn a_choice_of_several_is_followed() {
    // What is not known counts as the first of its class (RFC 9110 section 15).
    for status in ["300 Multiple Choices", "306 Unused", "310 Too Many", "399 Another"] {
        let object = Object::new(100_000);
        let bytes = object.bytes.clone();
        let server = Server::start(move |request, wire| match request.path() {
            "/x" => wire.answer(status, &[("Location", "/chosen")], b"<a href=/chosen>"),
            _ => object.serve(request, wire),
        });
        brings(&server, &[], &bytes);
        let server = Server::start(move |_, wire| wire.answer(status, &[], b"choose"));
        refuses(&server, &[], 1, &["127.0.0.1 answered", status]);
    }
    // A proxy that a server names is not to be trusted (section 15.4.6).
    let server = Server::start(|_, wire| wire.answer("305 Use Proxy", &[("Location", "/proxy")], b""));
    refuses(&server, &[], 1, &["127.0.0.1 answered 305"]);
}

/// Nobody named a version that could be the same, and nothing tells no content from a range that was misread.
#[test]
fn a_range_that_is_answered_without_content() {
    for status in ["204 No Content", "205 Reset Content", "304 Not Modified"] {
        for size in SIZES {
            let server = without_ranges(size, move |wire| {
                wire.raw(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes())
            });
            brings(&server, &[], &pattern(size, 1));
        }
        let server = Server::start(move |_, wire| {
            wire.raw(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes())
        });
        refuses(&server, &[], 1, &["127.0.0.1 answered", status]);
    }
}

#[test]
fn a_web_page_that_is_offered_as_a_file_is_one() {
    let fields =
        [("Content-Type", "text/html"), ("Content-Disposition", "attachment; filename=\"data.zip\"")];
    let server = Server::start(move |_, wire| wire.answer("200 OK", &fields, b"PK"));
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("get")]).run().succeeds();
    assert_eq!(sandbox.read("data.zip"), b"PK");
    let inline = [("Content-Type", "text/html"), ("Content-Disposition", "inline; filename=\"data.zip\"")];
    let server = Server::start(move |_, wire| wire.answer("200 OK", &inline, b"<html>"));
    Sandbox::new().get([&server.url("get")]).run().fails(1, &["--any-type"]);
}

#[test]
fn a_body_that_ends_uncleanly_is_kept_or_taken() {
    let size = 3 * MIB;
    let server = Server::start_tls(move |_, wire| {
        wire.head("200 OK", &[("Connection", "close")])?;
        wire.body(&pattern(size, 1))?;
        wire.cut()
    });
    let url = server.url("x");
    let sandbox = Sandbox::new();
    for retries in ["0", "5"] {
        let before = server.requests().len();
        let run = sandbox.get([&*url, "-k", "-o", "out", "--retries", retries]).run();
        run.fails(4, &["without the TLS end mark", "--accept-unclean-close takes it", "are kept"]);
        assert_eq!(sandbox.names(), ["out.part"]);
        assert!(sandbox.read("out.part") == pattern(size, 1));
        let asked = server.requests().len() - before;
        assert_eq!(asked, if retries == "0" { 1 } else { 2 }, "the same end twice is the server's habit");
    }
    let run = sandbox.get([&*url, "-k", "-o", "out", "--accept-unclean-close", "--json"]).run();
    let notes = run.succeeds().json()["files"][0]["notes"].to_string();
    assert!(notes.contains("--accept-unclean-close"), "{notes}");
    assert!(sandbox.read("out") == pattern(size, 1));
    assert_eq!(sandbox.names(), ["out"]);
}

#[test]
fn a_path_that_was_cut_once_is_tried_again() {
    let server = Server::start_tls(|request, wire| {
        let bytes = pattern(3 * MIB, 1);
        wire.head("200 OK", &[("Connection", "close")])?;
        match request.number {
            0 => wire.body(&bytes[..MIB]).and_then(|()| wire.cut()),
            _ => wire.body(&bytes).and_then(|()| wire.close()),
        }
    });
    brings(&server, &["-k"], &pattern(3 * MIB, 1));
}

#[test]
fn a_digest_that_the_server_declares_can_be_ignored() {
    for size in SIZES {
        let declared = format!("sha-256=:{}:", support::base64(&[0; 32]));
        let object = Object::new(size).field("Repr-Digest", &declared);
        let bytes = object.bytes.clone();
        let server = Server::start(move |request, wire| object.serve(request, wire));
        refuses(&server, &[], 3, &["sha256 of out does not match", "; --ignore-digest keeps them"]);
        let sandbox = Sandbox::new();
        let run = sandbox.get([&server.url("x"), "-o", "out", "--ignore-digest", "--json"]).run();
        let notes = run.succeeds().json()["files"][0]["notes"].to_string();
        assert!(notes.contains("sha256 does not match") && notes.contains("--ignore-digest"), "{notes}");
        assert!(sandbox.read("out") == *bytes);
        // The user's own word holds all the same.
        let checksum = format!("sha256:{}", "0".repeat(64));
        let run =
            sandbox.get([&server.url("x"), "--ignore-digest", "--checksum", &checksum, "-o", "y"]).run();
        run.exits(3);
        sandbox.has_nothing_of("y");
    }
}

/// And on the page that is made of the record.
#[test]
fn what_was_overridden_stands_on_the_page() {
    let digest = format!("sha-256=:{}:", support::base64(&[0; 32]));
    let wrong =
        Server::start(move |_, wire| wire.answer("200 OK", &[("Repr-Digest", &*digest)], b"the file"));
    let cut = Server::start_tls(|_, wire| {
        wire.head("200 OK", &[("Connection", "close")])?;
        wire.body(b"the file")?;
        wire.cut()
    });
    let coded = Server::start(|_, wire| wire.answer("200 OK", &[("Content-Encoding", "none")], b"the file"));
    let part = Server::start(|_, wire| wire.answer("206 Partial Content", &[], b"the file"));
    for (server, args, said) in [
        (wrong, &["--ignore-digest"][..], "--ignore-digest kept it"),
        (cut, &["-k", "--accept-unclean-close"], "--accept-unclean-close"),
        (coded, &[], "the unknown Content-Encoding"),
        (part, &["--any-type"], "saved what came with 206"),
    ] {
        let run = brings(&server, &[args, &["--json"]].concat(), b"the file");
        let made = Sandbox::new().weir(WEIR, ["report", "-", "-o", "-"]).input(&*run.stdout).run();
        let page = String::from_utf8_lossy(&made.succeeds().stdout).into_owned();
        assert!(page.contains("note: ") && page.contains(said), "{said}: {page}");
    }
}

/// A proxy in front of a server that starts again answers so for a moment.
#[test]
fn a_status_that_passes_is_no_refusal_of_the_range() {
    for status in ["500 Internal Server Error", "502 Bad Gateway", "504 Gateway Timeout"] {
        let object = Object::new(3 * MIB);
        let bytes = object.bytes.clone();
        let server = Server::start(move |request, wire| match request.number {
            0 => wire.answer(status, &[], b""),
            _ => object.serve(request, wire),
        });
        brings(&server, &[], &bytes);
        assert!(server.requests_from(0).iter().all(|request| request.range().is_some()), "{status}");
    }
}

#[test]
fn a_status_that_passes_takes_no_part_away() {
    let requests =
        resumed(|request, wire| (request.number <= 2).then(|| wire.answer("502 Bad Gateway", &[], b"")));
    assert!(requests.iter().all(|request| request.start() >= 2 * MIB as u64), "{requests:#?}");
}

#[test]
fn a_range_that_always_fails_is_left_out_of_each_file() {
    for size in SIZES {
        let server = without_ranges(size, |wire| wire.answer("500 Internal Server Error", &[], b""));
        let run = brings(&server, &[], &pattern(size, 1));
        run.says(&["asked for without a range, since 127.0.0.1 answered 500"]);
    }
    let server = Server::start(|request, wire| match request.range() {
        Some(_) => wire.answer("500 Internal Server Error", &[], b""),
        None => wire.answer("200 OK", &[], request.path().as_bytes()),
    });
    let urls = ["0", "1"].map(|name| server.url(name));
    let sandbox = Sandbox::new();
    sandbox.get(&urls).args(&["-j", "1"]).run().succeeds();
    for path in ["/0", "/1"] {
        assert_eq!(sandbox.read(&path[1..]), path.as_bytes());
        let requests = server.requests_from(0);
        let own = requests.iter().filter(|request| request.path() == path);
        let ranged: Vec<bool> = own.map(|request| request.range().is_some()).collect();
        assert_eq!(ranged, [true, true, false], "{path}: what may pass says nothing of other files");
    }
}
