//! Are files answered as RFC 9110 wants: whole, in ranges, under conditions?
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;
use std::time::{Duration, SystemTime};

use support::{CHANGES, Client, LARGE, large, serve, serve_dir, wait_for};
use weir_serve::{Config, Content};

/// A file of `0123456789` that was last changed at a round time long ago.
fn digits() -> (tempfile::TempDir, weir_serve::Handle) {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("digits.txt");
    fs::write(&file, "0123456789").unwrap();
    fs::write(root.path().join("empty"), "").unwrap();
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
    let server = serve_dir(root.path());
    (root, server)
}

const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

#[test]
fn a_whole_file_comes_with_its_validators() {
    let (_root, server) = digits();
    let reply = Client::new(&server).get("/digits.txt", &[]);
    assert_eq!((reply.status, reply.text()), (200, "0123456789"));
    assert_eq!(reply.field("Content-Type"), Some("text/plain; charset=utf-8"));
    assert_eq!(reply.field("Last-Modified"), Some(MODIFIED));
    assert_eq!(reply.field("Accept-Ranges"), Some("bytes"));
    assert!(reply.field("ETag").unwrap().starts_with('"'));
    assert!(reply.field("Date").unwrap().ends_with("GMT"));
}

#[test]
fn head_promises_what_get_would_send() {
    let (_root, server) = digits();
    let mut client = Client::new(&server);
    let head = client.ask("HEAD", "/digits.txt", &["Range: bytes=0-1"]);
    assert_eq!((head.status, head.field("Content-Length")), (200, Some("10")));
    // Nothing followed the head, or this answer would not parse.
    assert_eq!(client.get("/digits.txt", &[]).text(), "0123456789");
}

#[test]
fn one_range_is_a_206() {
    let (_root, server) = digits();
    let mut client = Client::new(&server);
    for (range, content_range, body) in [
        ("bytes=2-5", "bytes 2-5/10", "2345"),
        ("bytes=7-", "bytes 7-9/10", "789"),
        ("bytes=-1", "bytes 9-9/10", "9"),
        ("bytes=0-999", "bytes 0-9/10", "0123456789"),
        ("bytes=-999999999999999999999999", "bytes 0-9/10", "0123456789"),
        ("bytes=8-999999999999999999999999", "bytes 8-9/10", "89"),
        ("bytes=,,2-3,", "bytes 2-3/10", "23"),
        ("bytes=99-,-0,4-4", "bytes 4-4/10", "4"),
    ] {
        let reply = client.get("/digits.txt", &[&format!("Range: {range}")]);
        assert_eq!((reply.status, reply.text()), (206, body), "{range}");
        assert_eq!(reply.field("Content-Range"), Some(content_range));
    }
}

#[test]
fn several_ranges_are_multipart() {
    let (_root, server) = digits();
    let reply = Client::new(&server).get("/digits.txt", &["Range: bytes=0-1,-2"]);
    assert_eq!(reply.status, 206);
    let boundary =
        reply.field("Content-Type").unwrap().strip_prefix("multipart/byteranges; boundary=").unwrap();
    let part = |range: &str, body: &str| {
        format!(
            "\r\n--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes {range}/10\r\n\r\n{body}"
        )
    };
    assert_eq!(reply.text(), part("0-1", "01") + &part("8-9", "89") + &format!("\r\n--{boundary}--\r\n"));
}

#[test]
fn too_many_or_malformed_ranges_get_the_whole_file() {
    let (_root, server) = digits();
    let mut client = Client::new(&server);
    let many = format!("Range: bytes={}", ["0-0"; 17].join(","));
    // A small request must not make a server send much (CVE-2011-3192).
    let often = format!("Range: bytes={}", ["0-"; 16].join(","));
    let crossed = "Range: bytes=0-4,4-9";
    let suffixes = "Range: bytes=-1,-2";
    let commas = format!("Range: bytes=0-0{}", ",".repeat(9000));
    for line in [
        &many,
        &often,
        crossed,
        suffixes,
        &commas,
        "Range: bytes=5-2",
        "Range: chars=0-1",
        "Range: bytes=0-0,9-8",
        "Range: bytes=",
        "Range: bytes=,",
        "Range: bytes=+0-1",
        "Range: bytes=0x0-1",
        "Range: bytes=0-0-0",
        "Range: bytes=--1",
        "Range: bytes=0-0;x",
    ] {
        let reply = client.get("/digits.txt", &[line]);
        assert_eq!((reply.status, reply.text()), (200, "0123456789"), "{line}");
    }
    assert_eq!(client.get("/digits.txt", &["Range: bytes=0-1", "Range: bytes=2-3"]).status, 200);
}

#[test]
fn a_range_beyond_the_end_is_a_416() {
    let (_root, server) = digits();
    let mut client = Client::new(&server);
    for (path, size) in [("/digits.txt", 10), ("/empty", 0)] {
        for range in ["10-", "-0", "10-11,12-13", "99999999999999999999999999-"] {
            let reply = client.get(path, &[&format!("Range: bytes={range}")]);
            assert_eq!(reply.status, 416, "{range}");
            assert_eq!(reply.field("Content-Range"), Some(format!("bytes */{size}").as_str()));
        }
    }
}

#[test]
fn an_empty_file_has_an_empty_body() {
    let (_root, server) = digits();
    let mut client = Client::new(&server);
    for _ in 0..2 {
        let reply = client.get("/empty", &[]);
        assert_eq!((reply.status, reply.field("Content-Length"), reply.body.len()), (200, Some("0"), 0));
    }
}

#[test]
fn if_range_wants_this_version() {
    let (_root, server) = digits();
    let mut client = Client::new(&server);
    let tag = client.get("/digits.txt", &[]).field("ETag").unwrap().to_owned();
    for (validator, status) in [
        (tag.as_str(), 206),
        (&format!("W/{tag}"), 200),
        ("\"other\"", 200),
        // Somebody set this date, which other bytes may have had as well.
        (MODIFIED, 200),
        ("Sun, 06 Nov 1994 08:49:38 GMT", 200),
        ("nonsense", 200),
    ] {
        let reply = client.get("/digits.txt", &["Range: bytes=2-5", &format!("If-Range: {validator}")]);
        assert_eq!(reply.status, status, "{validator}");
    }
    // The date proves no more in another field, and a tag does.
    let until = format!("If-Unmodified-Since: {MODIFIED}");
    let reply = client.get("/digits.txt", &["Range: bytes=2-5", &until]);
    assert_eq!((reply.status, reply.text()), (200, "0123456789"));
    let reply = client.get("/digits.txt", &["Range: bytes=2-5", &until, &format!("If-Match: {tag}")]);
    assert_eq!(reply.status, 206);
    let reply = client.get("/digits.txt", &["Range: bytes=2-5", &until, &format!("If-Range: {tag}")]);
    assert_eq!(reply.status, 206);
}

#[test]
fn if_range_takes_a_date_that_nobody_set() {
    let server = serve(Config::new(Content::Generated(vec![("data.bin".into(), 10)])));
    let mut client = Client::new(&server);
    let date = client.get("/data.bin", &[]).field("Last-Modified").unwrap().to_owned();
    let reply = client.get("/data.bin", &["Range: bytes=2-5", &format!("If-Range: {date}")]);
    assert_eq!(reply.status, 206);
    let reply = client.get("/data.bin", &["Range: bytes=2-5", &format!("If-Unmodified-Since: {date}")]);
    assert_eq!(reply.status, 206);
}

#[test]
fn conditions_spare_or_refuse_the_body() {
    let (_root, server) = digits();
    let mut client = Client::new(&server);
    let tag = client.get("/digits.txt", &[]).field("ETag").unwrap().to_owned();
    for (line, status) in [
        (format!("If-None-Match: {tag}"), 304),
        (format!("If-None-Match: W/{tag}, \"x\""), 304),
        ("If-None-Match: \"x\"".into(), 200),
        (format!("If-Modified-Since: {MODIFIED}"), 304),
        (format!("If-Match: {tag}"), 200),
        ("If-Match: \"x\"".into(), 412),
        ("If-Unmodified-Since: Sat, 05 Nov 1994 08:49:37 GMT".into(), 412),
    ] {
        let reply = client.get("/digits.txt", &[&line]);
        assert_eq!(reply.status, status, "{line}");
        assert_eq!(reply.body.is_empty(), status == 304, "{line}");
    }
}

#[test]
fn a_file_from_the_future_comes_in_parts() {
    let (root, server) = digits();
    let file = fs::File::options().write(true).open(root.path().join("digits.txt")).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(86_400)).unwrap();
    let mut client = Client::new(&server);
    let whole = client.get("/digits.txt", &[]);
    assert_eq!((whole.status, whole.field("Last-Modified")), (200, None), "no date that moves");
    let tag = whole.field("ETag").unwrap();
    let part = client.get("/digits.txt", &["Range: bytes=2-5", &format!("If-Range: {tag}")]);
    assert_eq!((part.status, part.text(), part.field("ETag")), (206, "2345", Some(tag)));
    assert_eq!(part.field("Last-Modified"), None);
    assert_eq!(client.get("/digits.txt", &[&format!("If-None-Match: {tag}")]).status, 304);
}

#[test]
fn a_changed_file_has_another_tag() {
    let (root, server) = digits();
    let mut client = Client::new(&server);
    let before = client.get("/digits.txt", &[]).field("ETag").unwrap().to_owned();
    fs::write(root.path().join("digits.txt"), "abcdefghij").unwrap();
    let reply = client.get("/digits.txt", &["Range: bytes=0-1", &format!("If-Range: {before}")]);
    assert_eq!((reply.status, reply.text()), (200, "abcdefghij"));
}

#[test]
fn a_file_that_shrinks_ends_the_connection_and_is_not_padded() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("big");
    // Far more than the socket buffers hold, so that the server is still sending when the file is cut.
    fs::File::create(&path).unwrap().set_len(1 << 30).unwrap();
    let server = serve_dir(root.path());
    let mut client = Client::new(&server);
    client.send("GET /big HTTP/1.1\r\nHost: test\r\n\r\n");
    wait_for("an answer", || server.stats().bytes_sent > 0 || server.stats().requests > 0);
    fs::File::options().write(true).open(&path).unwrap().set_len(1).unwrap();
    assert!(client.read_rest().len() < 1 << 30);
}

/// A client for which the server has begun to send [`large`], and cannot come to the end while nobody reads.
fn begin_large(server: &weir_serve::Handle) -> Client {
    let mut client = Client::narrow(server);
    client.send("GET /large HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    assert_eq!(client.read_reply(false).status, 200);
    client
}

#[test]
fn what_arrives_whole_is_of_one_version() {
    for (what, change, is_whole) in CHANGES {
        let (_root, path, config) = large();
        let server = serve(config);
        let mut client = begin_large(&server);
        change(&path);
        assert_eq!(client.read_rest().len() as u64 == LARGE, is_whole, "{what}");
    }
}

#[test]
fn only_what_was_written_lately_may_grow() {
    let (now, day) = (SystemTime::now(), Duration::from_secs(86_400));
    for (modified, is_whole) in [(now - 2 * day, false), (now + day, true)] {
        let (_root, path, config) = large();
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(modified).unwrap();
        let server = serve(config);
        let mut client = begin_large(&server);
        file.set_len(LARGE + 1).unwrap();
        assert_eq!(client.read_rest().len() as u64 == LARGE, is_whole, "{modified:?}");
    }
}

#[test]
fn a_file_that_hides_its_size_is_not_taken_for_an_empty_one() {
    let server = serve_dir(std::path::Path::new("/proc/sys/kernel"));
    let mut client = Client::new(&server);
    assert_eq!(client.get("/ostype", &[]).status, 500);
    assert_eq!(client.ask("HEAD", "/ostype", &[]).status, 500);
}
