//! The good ways of `weir get`: names and places, lists, many files, digests.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use support::{MIB, Object, Sandbox, Server, base64, pattern};
use weir_codec::Algorithm;

/// Answers `/N` with N bytes of pattern, and all else with 404.
fn serve_lengths() -> Server {
    Server::start(|request, wire| match request.path()[1..].split('.').next().unwrap().parse() {
        Ok(length) => {
            let tag = format!("\"{length}\"");
            Object::new(length).etag(Some(&tag)).serve(request, wire)
        }
        Err(_) => wire.answer("404 Not Found", &[], b"no such length"),
    })
}

#[test]
fn to_a_file() {
    let server = serve_lengths();
    let sandbox = Sandbox::new();
    for length in [1, 65_536, MIB - 1, MIB, MIB + 1, 5 * MIB] {
        sandbox.get([&server.url(&length.to_string()), "-o", "out"]).run().succeeds();
        assert!(sandbox.read("out") == pattern(length, 1), "{length}");
        assert_eq!(sandbox.names(), ["out"]);
    }
}

#[test]
fn only_some_bytes_of_it() {
    let object =
        Object::new(6 * MIB).field("Repr-Digest", "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:");
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| object.serve(request, wire));
    let sandbox = Sandbox::new();
    let url = server.url("x");
    let size = bytes.len();
    for (range, part) in [
        ("100-200", 100..201),
        ("0-0", 0..1),
        ("6291455-", size - 1..size),
        ("5000000-99999999", 5_000_000..size),
        ("1000000-5999999", 1_000_000..6_000_000),
        ("0-", 0..size),
    ] {
        let before = server.requests().len();
        for args in [&["-r", range][..], &["--range", range, "-c", "3"]] {
            sandbox.get([&*url, "-o", "out"]).args(args).run().succeeds();
            assert!(sandbox.read("out") == bytes[part.clone()], "{range}");
        }
        let run = sandbox.get([&*url, "-o", "-", "-r", range]).run();
        assert!(run.succeeds().stdout == bytes[part.clone()], "{range}");
        for request in server.requests_from(before) {
            let start = request.start() as usize;
            assert!(part.contains(&start), "{range}: asked for byte {start}");
        }
    }
    assert_eq!(sandbox.names(), ["out"]);
    sandbox.get([&*url, "-o", "none", "-r", "6291456-"]).run().fails(1, &["127.0.0.1 answered 416"]);
}

#[test]
fn only_some_bytes_are_gone_on_with_as_such() {
    let object = Object::new(8 * MIB);
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| match request.number {
        0 => object.serve_up_to(request, wire, 2 * MIB).and_then(|()| wire.close()),
        _ => object.serve(request, wire),
    });
    let sandbox = Sandbox::new();
    let url = server.url("x");
    sandbox.get([&*url, "-o", "out", "-r", "1000-5000999", "--retries", "0"]).run().exits(4);
    sandbox.get([&*url, "-o", "out", "-r", "1000-5000999"]).run().succeeds();
    assert!(sandbox.read("out") == bytes[1000..5_001_000]);
    assert_eq!(server.requests()[1].request.start(), 1000 + 2 * MIB as u64);
    // What came of one part is none of another.
    let server = Server::start({
        let object = Object::new(8 * MIB);
        move |request, wire| match request.number {
            0 => object.serve_up_to(request, wire, 2 * MIB).and_then(|()| wire.close()),
            _ => object.serve(request, wire),
        }
    });
    let url = server.url("x");
    sandbox.get([&*url, "-o", "other", "-r", "1000-5000999", "--retries", "0"]).run().exits(4);
    sandbox.get([&*url, "-o", "other", "-r", "2000-5001999"]).run().succeeds();
    assert!(sandbox.read("other") == bytes[2000..5_002_000]);
    // A server without ranges sends too much, unless all of it is what was asked for.
    let whole = Object::new(1000).whole_only();
    let server = Server::start(move |request, wire| whole.serve(request, wire));
    let url = server.url("x");
    sandbox
        .get([&*url, "-o", "none", "-r", "5-9"])
        .run()
        .fails(1, &["in place of the part that --range names"]);
    sandbox.get([&*url, "-o", "all", "-r", "0-1999"]).run().succeeds();
    assert!(sandbox.read("all") == bytes[..1000]);
}

#[test]
fn into_a_folder_that_is_made() {
    let server = serve_lengths();
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("1000.bin?v=1#top"), "-o", "new/deep/"]).run().succeeds();
    assert_eq!(sandbox.names(), ["new/", "new/deep/", "new/deep/1000.bin"]);
}

#[test]
fn under_the_urls_name_or_the_servers() {
    let object = Object::new(2 * MIB);
    let named = object.clone().field("Content-Disposition", "attachment; filename=\"named.bin\"");
    let server = Server::start(move |request, wire| match request.path() {
        "/plain.bin" => object.serve(request, wire),
        _ => named.serve(request, wire),
    });
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("plain.bin")]).run().succeeds();
    sandbox.get([&server.url("download")]).run().succeeds();
    assert_eq!(sandbox.names(), ["named.bin", "plain.bin"]);
}

#[test]
fn a_resume_under_the_servers_name() {
    let object = Object::new(4 * MIB).field("Content-Disposition", "attachment; filename=\"named.bin\"");
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| match request.number {
        // It cannot come to its end before the signal is heard.
        0 => {
            object.clone().rate(8 << 20).serve_up_to(request, wire, 3 * MIB)?;
            wire.wait_for_close()
        }
        _ => object.serve(request, wire),
    });
    let sandbox = Sandbox::new();
    let running = sandbox.get([&server.url("download")]).spawn();
    server.wait_sent(3 * MIB as u64);
    running.signal(rustix::process::Signal::INT);
    running.wait().exits(130);
    assert_eq!(sandbox.names(), ["named.bin.part", "named.bin.weir"]);
    sandbox.get([&server.url("download")]).run().succeeds();
    assert!(sandbox.read("named.bin") == *bytes);
    assert_eq!(sandbox.names(), ["named.bin"]);
    assert!(server.requests().last().unwrap().request.start() > MIB as u64);
}

#[test]
fn to_stdout_in_order() {
    // So slow that all lanes come before the first has brought all.
    let object = Object::new(30 * MIB).rate(12 << 20);
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| object.serve(request, wire));
    let sandbox = Sandbox::new();
    for lanes in [&["-c", "4"][..], &["-c", "1"], &[]] {
        let run = sandbox.get([&server.url("x"), "-o", "-"]).args(lanes).run();
        assert!(run.succeeds().stdout == *bytes, "{lanes:?}");
        assert_eq!(sandbox.names(), [""; 0]);
    }
    assert!(server.connections() > 3, "several lanes were at work");
}

#[test]
fn a_small_file_to_stdout() {
    let server = serve_lengths();
    for length in [0, 10, 100_000] {
        let run = Sandbox::new().get([&server.url(&length.to_string()), "-o", "-"]).run();
        assert!(run.succeeds().stdout == pattern(length, 1), "{length}");
    }
}

#[test]
fn a_list_with_names() {
    let server = serve_lengths();
    let sandbox = Sandbox::new();
    let list =
        format!("# two files\n{}\n\n{}\tsub/two.bin\r\n", server.url("1000.bin"), server.url("2000.bin"),);
    sandbox.write("list", &list);
    sandbox.get(["-i", "list", "-o", "in/"]).run().succeeds();
    assert_eq!(sandbox.names(), ["in/", "in/1000.bin", "in/sub/", "in/sub/two.bin", "list"]);
    assert_eq!(sandbox.read("in/sub/two.bin").len(), 2000);
    let sandbox = Sandbox::new();
    sandbox.get(["-i", "-", &server.url("3000.bin")]).input(list).run().succeeds();
    assert_eq!(sandbox.names(), ["1000.bin", "3000.bin", "sub/", "sub/two.bin"]);
}

#[test]
fn an_empty_list_and_one_that_is_not_there() {
    let sandbox = Sandbox::new();
    sandbox.get(["-i", "nowhere"]).run().fails(1, &["nowhere", "o such file"]);
    sandbox.get(["-i", "-"]).run().fails(2, &["the list -", "names no url"]);
    sandbox.get(["-o", "out"]).run().exits(2);
}

#[test]
fn many_small_files_over_few_connections() {
    let server = serve_lengths();
    let sandbox = Sandbox::new();
    let list: String =
        (1..=300).map(|length| format!("{}\n", server.url(&format!("{length}.bin")))).collect();
    sandbox.write("list", list);
    let run = sandbox.get(["-i", "list", "-o", "in/"]).run();
    run.succeeds().says(&["300 files"]);
    for length in 1..=300 {
        assert!(sandbox.read(&format!("in/{length}.bin")) == pattern(length, 1), "{length}");
    }
    assert_eq!(sandbox.names().len(), 302);
    assert_eq!(server.requests().len(), 300, "one request a file");
    assert!(server.connections() <= 33, "{} connections for 300 files", server.connections());
}

#[test]
fn jobs_and_lanes_bound_the_connections() {
    let server = serve_lengths();
    let list: String = (1..=40).map(|length| format!("{}\n", server.url(&format!("{length}.bin")))).collect();
    let sandbox = Sandbox::new();
    sandbox.get(["-i", "-", "-o", "in/", "-j", "3"]).input(list).run().succeeds();
    assert!(server.connections() <= 3, "{} connections under -j 3", server.connections());
}

#[test]
fn large_and_small_files_together() {
    let server = serve_lengths();
    let lengths = [10, 5 * MIB, 20, 3 * MIB + 1, 30, 2 * MIB, 0];
    let urls: Vec<String> = lengths.iter().map(|length| server.url(&format!("{length}.dat"))).collect();
    for args in [&["-o", "in/"][..], &["-o", "in/", "-j", "4"], &["-o", "in/", "-j", "2", "-c", "2"]] {
        let sandbox = Sandbox::new();
        sandbox.get(&urls).args(args).run().succeeds();
        for length in lengths {
            assert!(
                sandbox.read(&format!("in/{length}.dat")) == pattern(length, 1),
                "{length} with {args:?}"
            );
        }
        assert_eq!(sandbox.names().len(), lengths.len() + 1);
    }
}

#[test]
fn one_failure_among_many() {
    let server = serve_lengths();
    let sandbox = Sandbox::new();
    let urls = ["10.bin", "missing.bin", "20.bin"].map(|name| server.url(name));
    let run = sandbox.get(&urls).run();
    run.fails(1, &["missing.bin", "127.0.0.1 answered 404 Not Found", "2 of 3 files"]);
    assert_eq!(sandbox.names(), ["10.bin", "20.bin"]);
    let record = sandbox.get(&urls).args(&["--json"]).run().json();
    let errors: Vec<bool> =
        record["files"].as_array().unwrap().iter().map(|file| !file["error"].is_null()).collect();
    assert_eq!(errors, [false, true, false]);
}

#[test]
fn two_urls_for_one_name() {
    let server = serve_lengths();
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("10.bin"), &server.url("20.bin"), "-o", "out"]).run();
    run.fails(2, &["-o out is one file, 2 urls were given"]);
    assert_eq!(sandbox.names(), [""; 0]);
    sandbox.get([&server.url("10.bin"), &server.url("10.bin?v=2")]).run().succeeds();
    assert_eq!(sandbox.names(), ["10.bin", "10.bin.1"]);
}

#[test]
fn two_urls_that_the_server_gives_one_name() {
    for length in [1000, 2 * MIB] {
        let object = Object::new(length).field("Content-Disposition", "attachment; filename=\"same.bin\"");
        let other = object.changed();
        let (one, two) = (object.bytes.clone(), other.bytes.clone());
        let server = Server::start(move |request, wire| match request.path() {
            "/a" => object.serve(request, wire),
            _ => other.serve(request, wire),
        });
        let sandbox = Sandbox::new();
        let run = sandbox.get([&server.url("a"), &server.url("b"), "-j", "2"]).run();
        let kept: Vec<_> = sandbox.names().iter().map(|name| sandbox.read(name)).collect();
        // Either both are kept, or the loss is said; never silence, never a mixture.
        assert!(kept.iter().all(|file| *file == *one || *file == *two));
        assert!(kept.len() == 2 || run.status.code() != Some(0), "{} of two, and no word", kept.len());
    }
}

#[test]
fn no_clobber_and_clobber() {
    let server = serve_lengths();
    let sandbox = Sandbox::new();
    sandbox.write("10.bin", "mine");
    sandbox.get([&server.url("10.bin"), "--no-clobber"]).run().succeeds();
    assert_eq!(sandbox.read("10.bin"), b"mine");
    assert_eq!(server.requests().len(), 0);
    sandbox.get([&server.url("10.bin"), "--no-clobber", "--force"]).run().exits(2);
    let hex = |bytes: &[u8]| format!("sha256:{}", weir_codec::hex::encode(&Algorithm::SHA256.of(bytes)));
    sandbox.get([&server.url("10.bin"), "--no-clobber", "--checksum", &hex(b"mine")]).run().succeeds();
    let run = sandbox.get([&server.url("10.bin"), "--no-clobber", "--checksum", &hex(b"other")]).run();
    run.fails(
        3,
        &[
            "sha256 of ./10.bin does not match",
            "already exists and is kept; drop --no-clobber to overwrite it",
        ],
    );
    assert_eq!(sandbox.read("10.bin"), b"mine");
    assert_eq!(server.requests().len(), 0);
    sandbox.get([&server.url("10.bin")]).run().succeeds();
    assert!(sandbox.read("10.bin") == pattern(10, 1));
}

#[test]
fn every_digest_that_weir_knows() {
    let server = serve_lengths();
    for algorithm in Algorithm::all() {
        for (length, lanes) in [(1000, "1"), (3 * MIB, "1"), (3 * MIB, "3")] {
            let hex = weir_codec::hex::encode(&algorithm.of(&pattern(length, 1)));
            let sandbox = Sandbox::new();
            let checksum = format!("{}:{hex}", algorithm.name());
            let url = server.url(&length.to_string());
            let run = sandbox.get([&*url, "-o", "out", "--checksum", &checksum, "-c", lanes, "--json"]).run();
            let digest = run.succeeds().json()["files"][0]["digest"].clone();
            assert_eq!(digest, serde_json::json!({ "alg": algorithm.name(), "hex": hex }));
        }
    }
}

#[test]
fn digests_that_are_none() {
    let sandbox = Sandbox::new();
    for bad in ["sha256", "sha256:", "sha256:xyz", "sha256:00", "sha3:00", ":00"] {
        sandbox.get(["http://127.0.0.1:1/x", "--checksum", bad]).run().fails(2, &["digest"]);
    }
}

#[test]
fn a_digest_of_stdout() {
    let server = serve_lengths();
    let length = 3 * MIB;
    let good = weir_codec::hex::encode(&Algorithm::SHA256.of(&pattern(length, 1)));
    for (hex, code) in [(good, 0), ("0".repeat(64), 3)] {
        let checksum = format!("sha256:{hex}");
        let args = ["-o", "-", "-c", "2", "--checksum", &checksum];
        Sandbox::new().get([&server.url(&length.to_string())]).args(&args).run().exits(code);
    }
}

/// `name`'s line in a SHA256SUMS file.
fn sum_line(name: &str, length: usize) -> String {
    format!("{}  {name}\n", weir_codec::hex::encode(&Algorithm::SHA256.of(&pattern(length, 1))))
}

#[test]
fn checksums_from_a_list() {
    let sums =
        [sum_line("1000.bin", 1000), sum_line("2097152.bin", 2 * MIB), sum_line("20.bin", 21)].concat();
    let files = serve_lengths();
    let lists = Server::start(move |_, wire| {
        wire.answer("200 OK", &[("Content-Type", "text/plain")], sums.as_bytes())
    });
    let sandbox = Sandbox::new();
    let from = ["--checksum-from", &lists.url("SHA256SUMS")];
    sandbox.get([&files.url("1000.bin"), &files.url("2097152.bin")]).args(&from).run().succeeds();
    assert_eq!(sandbox.names(), ["1000.bin", "2097152.bin"]);
    sandbox.get([&files.url("20.bin")]).args(&from).run().fails(3, &["sha256 of", "20.bin does not match"]);
    assert_eq!(sandbox.names(), ["1000.bin", "2097152.bin"]);
    let missing = sandbox.get([&files.url("30.bin")]).args(&from).run();
    missing.exits(missing.status.code().unwrap()).says(&["cannot verify 30.bin"]);
    assert_ne!(missing.status.code(), Some(0));
    assert_eq!(sandbox.names(), ["1000.bin", "2097152.bin"], "what cannot be verified is not kept");
}

/// A server that gives a part of what it is asked for at a time must not make a list shorter than it is.
#[test]
fn checksums_from_a_list_that_would_come_in_parts() {
    let sums = [sum_line("20.bin", 21), sum_line("1000.bin", 1000)].concat();
    let files = serve_lengths();
    let lists = Server::start(move |request, wire| {
        let first = sums.find('\n').unwrap();
        let range = format!("bytes 0-{first}/{}", sums.len());
        match request.range() {
            Some(_) => {
                let fields = [("Content-Range", &*range), ("ETag", "\"e\"")];
                wire.answer("206 Partial Content", &fields, &sums.as_bytes()[..=first])
            }
            None => wire.answer("200 OK", &[], sums.as_bytes()),
        }
    });
    let sandbox = Sandbox::new();
    sandbox.get([&files.url("1000.bin"), "--checksum-from", &lists.url("SHA256SUMS")]).run().succeeds();
    assert_eq!(sandbox.names(), ["1000.bin"]);
}

#[test]
fn checksums_from_a_list_that_is_not_there() {
    let files = serve_lengths();
    let sandbox = Sandbox::new();
    let run = sandbox.get([&files.url("1000.bin"), "--checksum-from", &files.url("SHA256SUMS")]).run();
    assert_ne!(run.status.code(), Some(0));
    run.says(&["cannot fetch the checksums", "127.0.0.1 answered 404"]);
    assert_eq!(sandbox.names(), [""; 0]);
}

#[test]
fn digests_that_the_server_declares() {
    for length in [1000, 3 * MIB] {
        let bytes = pattern(length, 1);
        let of = |algorithm: Algorithm| base64(&algorithm.of(&bytes));
        for (name, value, ranges) in [
            ("Repr-Digest", format!("sha-256=:{}:", of(Algorithm::SHA256)), true),
            ("Repr-Digest", format!("sha-512=:{}:, unknown=:AAAA:", of(Algorithm::SHA512)), true),
            ("Digest", format!("SHA-256={}", of(Algorithm::SHA256)), true),
            ("x-goog-hash", format!("crc32c={},md5={}", of(Algorithm::CRC32C), of(Algorithm::MD5)), true),
            ("Content-MD5", of(Algorithm::MD5), false),
            ("x-amz-checksum-sha256", of(Algorithm::SHA256), false),
        ] {
            let object = Object { ranges, ..Object::new(length).field(name, &value) };
            let server = Server::start(move |request, wire| object.serve(request, wire));
            let sandbox = Sandbox::new();
            let run = sandbox.get([&server.url("x"), "-o", "out", "--json", "-c", "2"]).run();
            let digest = run.succeeds().json()["files"][0]["digest"].clone();
            assert!(digest.is_object(), "{name}: {value} was not used: {digest}");
        }
    }
}
