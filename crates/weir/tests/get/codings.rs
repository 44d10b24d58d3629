//! Content codings: what is none changes nothing, what was not asked for is saved as it came with a word
//! about it, and `--compressed` asks and decodes. Coded bytes are never put together with others.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use support::{MIB, Object, Sandbox, Server, brings, pattern, refuses};
use weir_codec::Codec;

/// Below and above what is stored in one piece.
const SIZES: [usize; 2] = [300_000, 3 * MIB + 5];

/// `bytes` in the coding that HTTP calls `name`; `bare` is deflate without zlib's frame.
fn coded(name: &str, bytes: &[u8]) -> Vec<u8> {
    let block = |name: &str| {
        let (codec, mut out) = (Codec::by_name(name).unwrap(), Vec::new());
        codec.compress(codec.default_level(), bytes, &mut out).unwrap();
        out
    };
    let level = Compression::fast();
    match name {
        "br" => block("brotli"),
        "zstd" => block("zstd"),
        "deflate" => {
            let mut encoder = ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        "bare" => {
            let mut encoder = DeflateEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        _ => {
            let mut encoder = GzEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
    }
}

/// What compresses.
fn text(size: usize) -> Vec<u8> {
    pattern(size, 1).iter().map(|byte| b"0123456789abcdef"[usize::from(byte & 15)]).collect()
}

#[test]
fn a_word_that_is_no_coding_is_passed_over() {
    for word in
        ["none", "aws-chunked", "binary", "UTF-8", "zip", "base64", "application/octet-stream", "8bit", ""]
    {
        for size in SIZES {
            let object = Object::new(size).field("Content-Encoding", word);
            let bytes = object.bytes.clone();
            let server = Server::start(move |request, wire| object.serve(request, wire));
            let run = brings(&server, &["-c", "2"], &bytes);
            if !word.is_empty() {
                run.says(&[&format!(
                    "the unknown Content-Encoding '{}' was ignored",
                    word.to_ascii_lowercase()
                )]);
            }
            assert!(server.requests()[0].request.range().is_some(), "parts are asked for as of any other");
        }
    }
}

#[test]
fn a_coding_that_was_not_asked_for_is_saved_with_a_word() {
    for name in ["gzip", "br", "zstd", "deflate", "compress", "xz", "gzip, br"] {
        for size in SIZES {
            let object = Object::new(size).field("Content-Encoding", name);
            let bytes = object.bytes.clone();
            let server = Server::start(move |request, wire| {
                assert_eq!(request.field("accept-encoding"), Some("identity"));
                object.serve(request, wire)
            });
            let sandbox = Sandbox::new();
            let run = sandbox.get([&server.url("x"), "-o", "out", "-c", "3", "--json"]).run();
            let notes = run.succeeds().json()["files"][0]["notes"].clone();
            let note = format!("saved as it came, coded with {name}; --compressed decodes it");
            assert_eq!(notes, serde_json::json!([note]));
            assert!(sandbox.read("out") == *bytes);
        }
    }
}

#[test]
fn a_name_with_the_ending_of_its_coding_needs_no_word() {
    for (name, coding) in [("x.tar.gz", "gzip"), ("x.svgz", "x-gzip"), ("x.br", "br"), ("x.tar.zst", "zstd")]
    {
        let object = Object::new(1000).field("Content-Encoding", coding);
        let bytes = object.bytes.clone();
        let server = Server::start(move |request, wire| object.serve(request, wire));
        let sandbox = Sandbox::new();
        let run = sandbox.get([&server.url(name), "--json"]).run();
        assert!(run.succeeds().json()["files"][0]["notes"].is_null());
        assert!(sandbox.read(name) == *bytes);
    }
}

/// A configuration file may hold both.
#[test]
fn what_is_decoded_is_not_gone_on_with() {
    let plain = text(1000);
    let body = coded("gzip", &plain);
    let server = Server::start(move |request, wire| {
        assert_eq!(request.range(), None);
        wire.answer("200 OK", &[("Content-Encoding", "gzip")], &body)
    });
    let sandbox = Sandbox::new();
    sandbox.write("x", &plain[..100]);
    let run = sandbox.get([&server.url("x"), "-o", "x", "-C", "-", "--compressed"]).run();
    run.succeeds().says(&["--compressed decodes a file from its start"]);
    assert!(sandbox.read("x") == plain, "{}", run.stderr);
}

#[test]
fn compressed_asks_and_decodes() {
    for (name, label) in [
        ("gzip", "gzip"),
        ("gzip", "x-gzip"),
        ("deflate", "deflate"),
        ("bare", "deflate"),
        ("br", "br"),
        ("zstd", "zstd"),
    ] {
        for size in SIZES {
            let plain = text(size);
            let object = Object {
                bytes: coded(name, &plain).into(),
                ..Object::new(0).field("Content-Encoding", label)
            };
            let server = Server::start(move |request, wire| {
                assert_eq!(request.field("accept-encoding"), Some("gzip, deflate, br, zstd"));
                assert_eq!(request.range(), None, "ranges would be of the coded bytes");
                object.serve(request, wire)
            });
            println!("{name} as {label}, {size}");
            let run = brings(&server, &["--compressed", "-c", "4"], &plain);
            run.says(&[&format!("decoded from {label}")]);
            assert_eq!(server.requests().len(), 1);
            let run = Sandbox::new().get([&server.url("x"), "--compressed", "-o", "-"]).run();
            assert!(run.succeeds().stdout == plain);
        }
    }
}

/// A server that packs all that it sends to those who take that, archives too.
#[test]
fn an_archive_is_not_packed_once_more() {
    for size in SIZES {
        let plain = pattern(size, 1);
        let (sent, packed) = (plain.clone(), coded("gzip", &plain));
        let server = Server::start(move |request, wire| {
            let name = ("Content-Disposition", "attachment; filename=x.tar.gz");
            match request.field("accept-encoding").is_some_and(|codings| codings.contains("gzip")) {
                true => wire.answer("200 OK", &[name, ("Content-Encoding", "gzip")], &packed),
                false => wire.answer("200 OK", &[name], &sent),
            }
        });
        // That the other one is an archive shows only in the answer.
        for (path, requests) in [("x.tar.gz", 1), ("download", 2)] {
            let (sandbox, before) = (Sandbox::new(), server.requests().len());
            sandbox.get([&server.url(path), "--compressed"]).run().succeeds();
            assert!(sandbox.read("x.tar.gz") == plain, "{path}");
            assert_eq!(sandbox.names(), ["x.tar.gz"]);
            assert_eq!(server.requests().len() - before, requests, "{path}");
        }
        let run = Sandbox::new().get([&server.url("x.svgz"), "--compressed", "-o", "-"]).run();
        assert!(run.succeeds().stdout == plain);
        let sandbox = Sandbox::new();
        sandbox.get([&server.url("x"), "--compressed", "-o", "x.crate"]).run().succeeds();
        assert!(sandbox.read("x.crate") == plain);
        // Packed once by the server, it is unpacked once.
        sandbox.get([&server.url("x.tar.gz"), "--compressed", "-o", "out"]).run().succeeds();
        assert!(sandbox.read("out") == plain);
    }
}

#[test]
fn a_coding_of_the_way_is_undone() {
    for size in SIZES {
        let plain = text(size);
        for (label, name) in [("gzip, chunked", "gzip"), ("br, chunked", "br"), ("deflate, chunked", "bare")]
        {
            let body = coded(name, &plain);
            let server = Server::start(move |_, wire| {
                wire.head("200 OK", &[("Transfer-Encoding", label)])?;
                for chunk in body.chunks(50_000) {
                    wire.raw(format!("{:x}\r\n", chunk.len()).as_bytes())?;
                    wire.body(chunk)?;
                    wire.raw(b"\r\n")?;
                }
                wire.raw(b"0\r\n\r\n")
            });
            brings(&server, &[], &plain);
        }
        let body = coded("gzip", &plain);
        let server = Server::start(move |_, wire| {
            wire.head("200 OK", &[("Transfer-Encoding", "gzip")])?;
            wire.body(&body)?;
            wire.close()
        });
        brings(&server, &[], &plain);
    }
}

/// A label that the body does not bear out, as on archives that are served twice packed and never were.
#[test]
fn a_label_that_is_wrong() {
    let object = Object::new(SIZES[0]).field("Content-Encoding", "x-gzip");
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| object.serve(request, wire));
    brings(&server, &[], &bytes).says(&["saved as it came, coded with x-gzip"]);
    let way_out = "its coded body cannot be decoded: invalid gzip header; without --compressed it is saved";
    let run = refuses(&server, &["--compressed"], 1, &[way_out]);
    assert!(!run.stderr.contains("decoded from"), "{}", run.stderr);
    // Padding is none of its bytes.
    let padded = [coded("gzip", &text(100_000)), vec![0; 40]].concat();
    let server =
        Server::start(move |_, wire| wire.answer("200 OK", &[("Content-Encoding", "gzip")], &padded));
    brings(&server, &["--compressed"], &text(100_000)).says(&["decoded from gzip"]);
    // `identity` is none.
    let (plain, body) = (text(100_000), coded("gzip", &text(100_000)));
    for label in ["gzip, identity", "identity, gzip", "GZIP ,"] {
        let body = body.clone();
        let server =
            Server::start(move |_, wire| wire.answer("200 OK", &[("Content-Encoding", label)], &body));
        brings(&server, &["--compressed"], &plain);
    }
}

#[test]
fn two_codings_and_a_word_that_is_none() {
    let plain = text(100_000);
    let body = coded("br", &coded("gzip", &plain));
    let server = Server::start(move |_, wire| {
        wire.answer("200 OK", &[("Content-Encoding", "gzip, none"), ("Content-Encoding", "br")], &body)
    });
    brings(&server, &["--compressed"], &plain);
}

#[test]
fn compressed_takes_what_is_not_coded_and_what_it_cannot_decode() {
    for size in SIZES {
        let object = Object::new(size);
        let server = Server::start(move |request, wire| object.serve(request, wire));
        brings(&server, &["--compressed"], &pattern(size, 1));
        let object = Object::new(size).field("Content-Encoding", "xz");
        let server = Server::start(move |request, wire| object.serve(request, wire));
        brings(&server, &["--compressed"], &pattern(size, 1))
            .says(&["coded with xz, which weir does not decode"]);
    }
    let server = Server::start(|_, wire| wire.answer("200 OK", &[("Content-Encoding", "gzip")], b""));
    brings(&server, &["--compressed"], b"");
}

#[test]
fn a_coded_body_that_is_cut_or_broken_is_no_file() {
    for name in ["gzip", "deflate", "br", "zstd"] {
        let whole = coded(name, &text(400_000));
        let mut broken = whole.clone();
        let middle = broken.len() / 2;
        broken[middle..middle + 64].fill(0xff);
        let end = whole[..whole.len() - 9].to_vec();
        // What a broken body unpacks to can be told from the file only where there is a checksum.
        for body in if matches!(name, "gzip" | "deflate") { vec![end, broken] } else { vec![end] } {
            let server =
                Server::start(move |_, wire| wire.answer("200 OK", &[("Content-Encoding", name)], &body));
            refuses(&server, &["--compressed"], 1, &["127.0.0.1"]);
        }
        let cut = coded(name, &text(400_000));
        let server = Server::start(move |_, wire| {
            wire.answer("200 OK", &[("Content-Encoding", name)], &cut[..cut.len() / 2])
        });
        let cause = "127.0.0.1 closed the connection after";
        refuses(&server, &["--compressed"], 1, &[cause, "a coded body without its end"]);
        // The answer itself is cut.
        let cut = coded(name, &text(400_000));
        let server = Server::start(move |_, wire| {
            let length = cut.len().to_string();
            wire.head("200 OK", &[("Content-Encoding", name), ("Content-Length", &length)])?;
            wire.body(&cut[..cut.len() / 2])?;
            wire.close()
        });
        refuses(&server, &["--compressed"], 1, &[cause]);
    }
}

/// What comes over the wire is limited, however much it unpacks to: here a thousandth.
#[test]
fn a_rate_is_that_of_the_coded_bytes() {
    let body = coded("gzip", &vec![0; 16 * MIB]);
    assert!(body.len() < MIB / 4);
    let server = Server::start(move |_, wire| wire.answer("200 OK", &[("Content-Encoding", "gzip")], &body));
    let began = std::time::Instant::now();
    brings(&server, &["--compressed", "--limit-rate", "200k"], &vec![0; 16 * MIB]);
    // A second or so, and by the bytes that they unpack to more than a minute.
    assert!(began.elapsed().as_secs() < 40, "{:?}", began.elapsed());
}

/// What came as it is, and what would come coded, are not of one kind.
#[test]
fn a_part_of_the_plain_file_is_not_gone_on_with_in_coded_bytes() {
    let plain = text(4 * MIB);
    let packed = coded("gzip", &plain);
    let object = Object { bytes: plain.clone().into(), ..Object::new(0) };
    let server = Server::start(move |request, wire| match request.field("accept-encoding") {
        // The same tag for both, as careless servers have it.
        Some("identity") if request.number == 0 => {
            object.serve_up_to(request, wire, 2 * MIB).and_then(|()| wire.close())
        }
        Some("identity") => object.serve(request, wire),
        _ => {
            let fields = [("Content-Encoding", "gzip"), ("ETag", "\"one\"")];
            wire.answer("200 OK", &fields, &packed)
        }
    });
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("x"), "-o", "out", "--retries", "0"]).run().exits(4);
    sandbox.get([&server.url("x"), "-o", "out", "--compressed"]).run().succeeds();
    assert!(sandbox.read("out") == plain);
    assert_eq!(sandbox.names(), ["out"]);
}

#[test]
fn a_resume_that_comes_coded_begins_again() {
    let object = Object::new(4 * MIB);
    let bytes = object.bytes.clone();
    let labelled =
        Object { bytes: pattern(4 * MIB, 7).into(), ..object.clone().field("Content-Encoding", "gzip") };
    let server = Server::start(move |request, wire| match (request.number, request.start()) {
        (0, _) => object.serve_up_to(request, wire, 2 * MIB).and_then(|()| wire.close()),
        (_, 0) => object.serve(request, wire),
        _ => labelled.serve(request, wire),
    });
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("x"), "-o", "out", "--retries", "0"]).run().exits(4);
    let run = sandbox.get([&server.url("x"), "-o", "out"]).run();
    run.succeeds().says(&["its Content-Encoding is another", "starting again"]);
    assert!(sandbox.read("out") == *bytes);
}

#[test]
fn a_small_answer_that_unpacks_to_much_takes_little_memory() {
    let zeros = vec![0; 200 << 20];
    let bomb = coded("gzip", &zeros);
    let server = Server::start(move |_, wire| wire.answer("200 OK", &[("Content-Encoding", "gzip")], &bomb));
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "--compressed", "-o", "out", "--json"]).run();
    let memory = run.succeeds().json()["peak_memory"].as_u64().unwrap();
    assert_eq!(std::fs::metadata(sandbox.path("out")).unwrap().len(), zeros.len() as u64);
    assert!(memory < 64 << 20, "{memory} bytes");
}
