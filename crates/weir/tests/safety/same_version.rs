//! Parts are put together only under the same strong validator (RFC 9110 section 15.3.7.3): silence, a
//! contradiction and the same tag from another place are no agreement.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use support::{MIB, Object, Request, Sandbox, Server, Wire, base64, brings, pattern, wait_for};
use weir_get::journal::Journal;

/// Fields of one answer.
type Lines = &'static [(&'static str, &'static str)];

const ONE: (&str, &str) = ("ETag", "\"one\"");
const TWO: (&str, &str) = ("ETag", "\"two\"");
const WEAK: (&str, &str) = ("ETag", "W/\"one\"");
const EARLY: (&str, &str) = ("Last-Modified", "Mon, 01 Jun 2020 00:00:00 GMT");
const LATER: (&str, &str) = ("Last-Modified", "Tue, 02 Jun 2020 00:00:00 GMT");
const DATE: (&str, &str) = ("Date", "Fri, 01 Jan 2021 00:00:00 GMT");

/// The validators of the first answer, and those of every later one, which is of other bytes.
const PAIRS: &[(Lines, Lines)] = &[
    (&[ONE], &[]),
    (&[ONE], &[EARLY, DATE]),
    (&[ONE], &[WEAK]),
    (&[ONE], &[TWO]),
    (&[ONE], &[ONE, TWO]),
    (&[ONE], &[TWO, ONE]),
    (&[ONE, EARLY, DATE], &[]),
    (&[ONE, EARLY, DATE], &[LATER, DATE]),
    (&[ONE, EARLY, DATE], &[EARLY, DATE]),
    (&[ONE, EARLY, DATE], &[ONE, LATER, DATE]),
    (&[EARLY, DATE], &[]),
    (&[EARLY, DATE], &[ONE]),
    (&[EARLY, DATE], &[ONE, EARLY, DATE]),
    (&[EARLY, DATE], &[LATER, DATE]),
    (&[EARLY, DATE], &[EARLY]),
    (&[EARLY, DATE], &[EARLY, LATER, DATE]),
    (&[ONE, TWO], &[ONE, TWO]),
    (&[ONE, TWO, EARLY, DATE], &[ONE, EARLY, DATE]),
    (&[WEAK], &[WEAK]),
    (&[EARLY], &[EARLY]),
    (&[], &[]),
];

/// Answers with the bytes that the request asks for and these validators, whatever `If-Range` says; `whole`:
/// with 200. Only `up_to` bytes are sent.
fn answer(
    bytes: &[u8],
    lines: &[(&str, &str)],
    whole: bool,
    up_to: usize,
    request: &Request,
    wire: &mut Wire,
) -> io::Result<()> {
    let size = bytes.len();
    let (start, end) = request.range().filter(|_| !whole).unwrap_or((0, None));
    let (start, end) = (start as usize, end.map_or(size, |end| (end as usize).min(size)));
    let mut fields: Vec<(&str, String)> =
        lines.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    fields.push(("Content-Length", (end - start).to_string()));
    let status = match request.range().filter(|_| !whole) {
        Some(_) => {
            fields.push(("Content-Range", format!("bytes {start}-{}/{size}", end - 1)));
            "206 Partial Content"
        }
        None => "200 OK",
    };
    wire.head(status, &fields)?;
    wire.body(&bytes[start..end.min(start.saturating_add(up_to))])
}

/// The first answer is of one version and is cut in the middle; every later one is of another.
fn changing((first, later): (Lines, Lines), whole: bool, size: usize) -> (Server, Vec<u8>, Vec<u8>) {
    let [old, new] = [1, 2].map(|seed| pattern(size, seed));
    let (old_bytes, new_bytes) = (old.clone(), new.clone());
    let server = Server::start(move |request, wire| {
        if request.number > 0 {
            return answer(&new_bytes, later, false, usize::MAX, request, wire);
        }
        answer(&old_bytes, first, whole, size / 2, request, wire)?;
        wire.close()
    });
    (server, old, new)
}

#[test]
fn another_version_within_a_run_is_never_mixed_in() {
    for (index, &pair) in PAIRS.iter().enumerate() {
        for whole in [false, true] {
            let size = [600_000, 4 * MIB][index % 2];
            for lanes in [&[][..], &["-c", "4"]] {
                println!("{pair:?}, whole {whole}, {lanes:?}");
                let (server, _, new) = changing(pair, whole, size);
                brings(&server, lanes, &new);
                assert!(server.requests().len() < 40, "{} requests", server.requests().len());
            }
        }
    }
}

#[test]
fn another_version_in_a_later_run_is_never_mixed_in() {
    for &pair in PAIRS {
        println!("{pair:?}");
        let (server, _, new) = changing(pair, false, 4 * MIB);
        let sandbox = Sandbox::new();
        let get = || sandbox.get([&server.url("x"), "-o", "out", "--retries", "0"]);
        let first = get().run();
        assert!(!first.status.success() || sandbox.read("out") == new, "a mixed file: {}", first.stderr);
        get().run().succeeds();
        assert!(sandbox.read("out") == new, "a mixed file");
        assert_eq!(sandbox.names(), ["out"]);
    }
}

#[test]
fn another_version_is_never_passed_on_behind_the_first() {
    for &pair in PAIRS {
        println!("{pair:?}");
        let (server, old, _) = changing(pair, false, 4 * MIB);
        let run = Sandbox::new().get([&server.url("x"), "-o", "-", "--retries", "1"]).run();
        assert!(!run.status.success(), "half of one version cannot be all: {}", run.stderr);
        assert!(old.starts_with(&run.stdout), "{} bytes of another version", run.stdout.len());
    }
}

#[test]
fn the_same_tag_with_or_without_its_date_is_enough() {
    for (first, later) in [
        (&[ONE][..], &[ONE][..]),
        (&[ONE, EARLY, DATE], &[ONE]),
        (&[ONE], &[ONE, EARLY, DATE]),
        (&[ONE], &[ONE, ONE]),
        (&[EARLY, DATE], &[EARLY, DATE]),
    ] {
        let bytes = pattern(4 * MIB, 1);
        let served = bytes.clone();
        let server = Server::start(move |request, wire| match request.number {
            0 => answer(&served, first, false, 2 * MIB, request, wire).and_then(|()| wire.close()),
            _ => answer(&served, later, false, usize::MAX, request, wire),
        });
        brings(&server, &[], &bytes);
        assert_eq!(server.requests()[1].request.start(), 2 * MIB as u64, "{first:?}, {later:?}");
    }
}

/// A journal beside `part`, by which all `size` bytes of the version `"one"` of `url` are in that: as a run
/// leaves it that is killed before its last step.
pub(crate) fn vouch_for_all(part: &Path, url: &str, size: u64) {
    fs::set_permissions(part, PermissionsExt::from_mode(0o600)).unwrap();
    let journal = Journal {
        url: url.to_owned(),
        etag: Some("\"one\"".to_owned()),
        last_modified: None,
        place: url.to_owned(),
        coding: None,
        size,
        boot: String::new(),
        written: vec![(0, size)],
        durable: vec![(0, size)],
    };
    journal.store(&part.with_extension("weir"), false).unwrap();
}

#[test]
fn a_whole_part_gets_its_name_if_the_server_still_has_its_version() {
    let object = Object::new(3 * MIB);
    let digest = format!("sha-256=:{}:", base64(&[0; 32]));
    for (served, code) in
        [(object.clone(), 0), (object.changed(), 0), (object.clone().field("Repr-Digest", &digest), 3)]
    {
        let is_changed = served.etag != object.etag;
        let bytes = served.bytes.clone();
        let server = Server::start(move |request, wire| served.serve(request, wire));
        let sandbox = Sandbox::new();
        vouch_for_all(&sandbox.write("out.part", &*object.bytes), &server.url("x"), 3 * MIB as u64);
        let run = sandbox.get([&server.url("x"), "-o", "out"]).run();
        run.exits(code);
        let requests = server.requests_from(0);
        assert_eq!(requests[0].start(), 3 * MIB as u64 - 1, "its last byte shows of what it is");
        match code {
            0 => {
                assert!(sandbox.read("out") == *bytes);
                assert_eq!(sandbox.names(), ["out"]);
                assert_eq!(requests.len() == 1, !is_changed, "{} requests", requests.len());
            }
            _ => {
                run.says(&["sha256 of out does not match", "Repr-Digest"]);
                assert_eq!(sandbox.names(), [""; 0]);
            }
        }
    }
}

/// One server without validators behind a name whose others have them must not end a download.
#[test]
fn parts_that_never_prove_their_version_give_way_to_one_answer() {
    let bytes = pattern(4 * MIB, 1);
    let served = bytes.clone();
    let server = Server::start(move |request, wire| match (request.number, request.start()) {
        (0, _) => answer(&served, &[ONE], false, 2 * MIB, request, wire).and_then(|()| wire.close()),
        (_, 0) => answer(&served, &[ONE], false, usize::MAX, request, wire),
        _ => answer(&served, &[], false, usize::MAX, request, wire),
    });
    brings(&server, &["--retries", "1"], &bytes).says(&["cannot tell whether the object on"]);
}

#[test]
fn a_contradictory_content_range_is_not_believed() {
    for second in ["bytes 0-99/4194304", "bytes 0-4194303/5000000", "bytes */4194304"] {
        let bytes = pattern(4 * MIB, 1);
        let served = bytes.clone();
        let server = Server::start(move |request, wire| {
            let lines = [ONE, ("Content-Range", second)];
            answer(
                &served,
                if request.range().is_some() { &lines } else { &lines[..1] },
                false,
                usize::MAX,
                request,
                wire,
            )
        });
        brings(&server, &["-c", "3"], &bytes);
    }
}

/// A name whose redirect leads to one place first and to another later, each with an object of its own under
/// one tag.
fn leading_elsewhere(places: [String; 2]) -> Server {
    let asked = AtomicUsize::new(0);
    Server::start(move |_, wire| wire.redirect("302 Found", &places[asked.fetch_add(1, Relaxed).min(1)]))
}

/// Serves the first half of `bytes` once, and then refuses, as an expired link does.
fn once(bytes: Vec<u8>) -> Server {
    Server::start(move |request, wire| match request.number {
        0 => answer(&bytes, &[ONE], false, 2 * MIB, request, wire).and_then(|()| wire.close()),
        _ => wire.answer("403 Forbidden", &[], b"expired"),
    })
}

#[test]
fn the_same_tag_from_another_host_is_another_object() {
    for runs in [1, 2] {
        let [old, new] = [1, 2].map(|seed| pattern(4 * MIB, seed));
        let served = new.clone();
        let first = once(old);
        let second =
            Server::start(move |request, wire| answer(&served, &[ONE], false, usize::MAX, request, wire));
        gets_the_second(runs, &leading_elsewhere([first.url("x"), second.url("x")]), &new);
    }
}

#[test]
fn the_same_tag_from_another_path_is_another_object() {
    for runs in [1, 2] {
        let [old, new] = [1, 2].map(|seed| pattern(4 * MIB, seed));
        let served = new.clone();
        let server = Server::start(move |request, wire| match request.path() {
            "/1" if request.number == 0 => {
                answer(&old, &[ONE], false, 2 * MIB, request, wire).and_then(|()| wire.close())
            }
            "/1" => wire.answer("403 Forbidden", &[], b"expired"),
            _ => answer(&served, &[ONE], false, usize::MAX, request, wire),
        });
        gets_the_second(runs, &leading_elsewhere([server.url("1"), server.url("2")]), &new);
    }
}

/// In one run or in two: what is at the second place, whole.
#[track_caller]
fn gets_the_second(runs: usize, home: &Server, bytes: &[u8]) {
    let sandbox = Sandbox::new();
    let get = || sandbox.get([&home.url("x"), "-o", "out"]);
    if runs == 2 {
        get().args(&["--retries", "0"]).run();
    }
    get().run().succeeds();
    assert!(sandbox.read("out") == bytes, "{runs} runs: a mixed file");
}

/// The simplest request leads on within the run, however many lanes there are.
#[test]
fn parts_that_are_never_the_right_ones_give_way_to_one_answer() {
    for lanes in ["1", "4"] {
        let bytes = pattern(4 * MIB, 1);
        let served = bytes.clone();
        let server = Server::start(move |request, wire| match (request.number, request.range()) {
            (0, _) => answer(&served, &[ONE], false, 2 * MIB, request, wire).and_then(|()| wire.close()),
            (_, Some((start, _))) if start > 0 => answer(
                &served,
                &[ONE, ("Content-Range", "bytes 0-99/4194304")],
                false,
                usize::MAX,
                request,
                wire,
            ),
            (_, Some(_)) => answer(&served, &[ONE], false, MIB, request, wire).and_then(|()| wire.close()),
            (_, None) => answer(&served, &[ONE], false, usize::MAX, request, wire),
        });
        brings(&server, &["-c", lanes, "--retries", "2"], &bytes);
    }
}

#[test]
fn a_416_with_a_word_of_an_error_is_no_empty_file() {
    let fields = [("Content-Range", "bytes */0")];
    let server = Server::start(move |_, wire| wire.answer("416 Range Not Satisfiable", &fields, b"err"));
    let sandbox = Sandbox::new();
    sandbox.write("out", "precious");
    sandbox.get([&server.url("x"), "-o", "out"]).run().fails(1, &["127.0.0.1 answered 416"]);
    assert_eq!(sandbox.read("out"), b"precious");
}

/// How an empty answer may look.
type Empty = fn(&mut Wire) -> io::Result<()>;

#[test]
fn an_empty_answer_to_a_range_is_asked_for_without_one() {
    let empties: [Empty; 4] = [
        |wire| wire.answer("200 OK", &[], b""),
        |wire| {
            wire.head("200 OK", &[("Transfer-Encoding", "chunked")])?;
            wire.raw(b"0\r\n\r\n")
        },
        |wire| {
            wire.head("200 OK", &[("Connection", "close")])?;
            wire.close()
        },
        |wire| wire.answer("416 Range Not Satisfiable", &[("Content-Range", "bytes */0")], b""),
    ];
    for (index, empty) in empties.into_iter().enumerate() {
        for size in [0, 1000, 3 * MIB] {
            let bytes = pattern(size, 1);
            let served = Arc::new(bytes.clone());
            let server = Server::start(move |request, wire| match request.range() {
                Some(_) => empty(wire),
                None => wire.answer("200 OK", &[], &served),
            });
            println!("empty answer {index}, {size} bytes");
            brings(&server, &[], &bytes);
            let run = Sandbox::new().get([&server.url("x"), "-o", "-"]).run();
            assert!(run.succeeds().stdout == bytes);
        }
    }
}

#[test]
fn a_part_that_is_short_and_proves_nothing_is_asked_for_whole() {
    for size in [100_000, 3 * MIB] {
        let object = Object::new(size);
        let bytes = object.bytes.clone();
        let server = Server::start(move |request, wire| match request.range() {
            Some(_) => {
                let range = format!("bytes 0-999/{}", object.bytes.len());
                wire.answer("206 Partial Content", &[("Content-Range", &range)], &object.bytes[..1000])
            }
            None => wire.answer("200 OK", &[], &object.bytes),
        });
        brings(&server, &["-c", "4"], &bytes);
        assert_eq!(server.requests().len(), 2);
    }
}

/// Two servers behind one name answer by turns, each with a version of its own: the answer that shows the
/// right one brings the rest, and the next request would not.
#[test]
fn versions_that_take_turns_are_told_apart() {
    for heeds_if_range in [true, false] {
        let versions = [Object::new(4 * MIB), Object::new(4 * MIB).changed()];
        let bytes = versions.each_ref().map(|object| Arc::clone(&object.bytes));
        let server = Server::start(move |request, wire| {
            let object = &versions[request.number % 2];
            if request.number == 0 {
                object.serve_up_to(request, wire, 2 * MIB)?;
                return wire.close();
            }
            let tag = object.etag.as_deref().unwrap();
            match heeds_if_range {
                true => object.serve(request, wire),
                false => answer(&object.bytes, &[("ETag", tag)], false, usize::MAX, request, wire),
            }
        });
        let run = brings(&server, &["-c", "1", "--retries", "1"], &bytes[0]);
        assert!(!run.stderr.contains("starting again"), "{}", run.stderr);
        let starts: Vec<u64> = server.requests_from(0).iter().map(Request::start).collect();
        assert_eq!(starts, [0, 2 * MIB as u64, 2 * MIB as u64]);
        // With several lanes it is chance whose turn it is for each: a file that comes is one of the two.
        let sandbox = Sandbox::new();
        sandbox.get([&server.url("x"), "-o", "out", "-c", "4"]).run();
        let found = sandbox.path("out").exists().then(|| sandbox.read("out"));
        assert!(found.is_none_or(|found| bytes.iter().any(|one| **one == found)), "a mixed file");
    }
}

/// A 206 may leave out the date that its If-Range names: a question without one shows that it is still the
/// same version, and the lane that is at work brings all of it.
#[test]
fn a_date_that_a_part_leaves_out_is_asked_for_by_itself() {
    let bytes = pattern(4 * MIB, 1);
    let (served, plain) = (bytes.clone(), AtomicUsize::new(0));
    let server = Server::start(move |request, wire| {
        let is_plain = request.field("if-range").is_none();
        let lines: &[_] = if is_plain { &[EARLY, DATE] } else { &[DATE] };
        if request.number > 0 {
            plain.fetch_add(usize::from(is_plain), Relaxed);
            return answer(&served, lines, false, usize::MAX, request, wire);
        }
        answer(&served, lines, false, 2 * MIB, request, wire)?;
        wait_for("a question without If-Range", || plain.load(Relaxed) > 0);
        wire.body(&served[2 * MIB..])
    });
    let run = brings(&server, &["-c", "4"], &bytes);
    assert!(!run.stderr.contains("starting again"), "{}", run.stderr);
    assert!(server.requests_from(0).iter().any(|request| request.field("if-range").is_some()));
}

/// What `cp -p` does to a file of the server's: other bytes in it, of its size and date.
#[test]
fn a_file_rewritten_under_its_date_is_another_version() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("www")).unwrap();
    let path = sandbox.write("www/x", pattern(4 * MIB, 1));
    let server = sandbox.serve("www", &[]);
    sandbox.begin_and_interrupt(&server.url("x"), &[]);
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let other = pattern(4 * MIB, 2);
    fs::write(&path, &other).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    sandbox.get([&server.url("x"), "-o", "out"]).run().succeeds();
    assert!(sandbox.read("out") == other, "a mixed file");
}

/// A name that leads to one mirror after the other: what the part is of is still where that came from.
#[test]
fn a_resume_goes_back_to_the_mirror_of_its_part() {
    let object = Object::new(4 * MIB);
    let bytes = object.bytes.clone();
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |request, wire| match request.path() {
        "/x" => wire.redirect("302 Found", &format!("/mirror{}/x", asked.fetch_add(1, Relaxed))),
        _ if request.number == 1 => object.serve_up_to(request, wire, 2 * MIB).and_then(|()| wire.close()),
        _ => object.serve(request, wire),
    });
    let sandbox = Sandbox::new();
    let get = || sandbox.get([&server.url("x"), "-o", "out", "-c", "1"]);
    get().args(&["--retries", "0"]).run().exits(4);
    let before = server.requests().len();
    let run = get().run();
    run.succeeds();
    assert!(sandbox.read("out") == *bytes);
    assert!(!run.stderr.contains("starting again"), "{}", run.stderr);
    let requests = server.requests_from(before);
    let at_first = requests.iter().filter(|one| one.path() == "/mirror0/x");
    let starts: Vec<u64> = at_first.map(Request::start).collect();
    assert_eq!(starts, [2 * MIB as u64], "one request for the rest");
}
