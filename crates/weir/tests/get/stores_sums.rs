//! What a store keeps of an object is held against what came: of all bytes, and of the digests of its parts.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use support::listed::weir_of;
use support::{MIB, Object, Request, Run, Sandbox, Server, Wire, base64, pattern, wait_for};
use weir_codec::{Algorithm, hex};

/// An object as a store keeps it: its bytes, the parts it came in, what is said of it.
#[derive(Clone)]
struct Kept {
    object: Object,
    parts: Vec<usize>,
    /// Whoever asks gets the size of a part.
    tells: bool,
    /// Whoever asks gets the list of parts.
    lists: bool,
}

impl Kept {
    fn new(parts: &[usize]) -> Kept {
        let bytes = pattern(parts.iter().sum(), 1);
        let tag = tag_of(&bytes, parts);
        let object = Object { bytes: Arc::new(bytes), ..Object::new(0) }.etag(Some(&tag));
        Kept { object, parts: parts.to_vec(), tells: true, lists: true }
    }

    /// With the digest of the parts' digests, in S3's field.
    fn composed(mut self, algorithm: Algorithm) -> Kept {
        let each: Vec<u8> =
            self.cut(&self.object.bytes).into_iter().flat_map(|part| algorithm.of(part)).collect();
        let value = format!("{}-{}", base64(&algorithm.of(&each)), self.parts.len());
        let field = format!("x-amz-checksum-{}", algorithm.name());
        self.object = self.object.field(&field, &value).field("x-amz-checksum-type", "COMPOSITE");
        self
    }

    fn cut<'a>(&self, bytes: &'a [u8]) -> Vec<&'a [u8]> {
        let mut rest = bytes;
        let mut parts = Vec::new();
        for size in &self.parts {
            let (part, left) = rest.split_at(*size);
            parts.push(part);
            rest = left;
        }
        parts
    }

    /// A byte is another one, and all that is said is of the old ones.
    fn damaged(mut self) -> Kept {
        let mut bytes = self.object.bytes.to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        self.object.bytes = Arc::new(bytes);
        self
    }

    fn serve(&self, request: &Request, wire: &mut Wire) -> io::Result<()> {
        let query: BTreeMap<&str, &str> = request
            .target
            .split_once('?')
            .map(|(_, query)| {
                query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect()
            })
            .unwrap_or_default();
        if query.contains_key("attributes") {
            return match self.lists {
                true => wire.answer("200 OK", &[], self.list(request).as_bytes()),
                false => wire.answer("403 Forbidden", &[], b"<Error><Code>AccessDenied</Code></Error>"),
            };
        }
        let part = query.get("partNumber").and_then(|text| text.parse::<usize>().ok());
        match (request.method.as_str(), part) {
            ("HEAD", Some(number)) if self.tells => {
                let length = self.parts[number - 1].to_string();
                let count = self.parts.len().to_string();
                wire.head(
                    "206 Partial Content",
                    &[("Content-Length", length), ("x-amz-mp-parts-count", count)],
                )
            }
            ("HEAD", _) => {
                let length = self.object.bytes.len().to_string();
                let tag = self.object.etag.clone().unwrap_or_default();
                wire.head("200 OK", &[("Content-Length", length), ("ETag", tag)])
            }
            _ => self.object.serve(request, wire),
        }
    }

    /// A page of GetObjectAttributes, of two parts.
    fn list(&self, request: &Request) -> String {
        let after: usize = request.field("x-amz-part-number-marker").unwrap_or("0").parse().unwrap();
        let parts = self.parts.iter().enumerate().skip(after).take(2);
        let parts = parts.map(|(index, size)| {
            format!("<Part><PartNumber>{}</PartNumber><Size>{size}</Size></Part>", index + 1)
        });
        let parts: String = parts.collect();
        format!(
            "<GetObjectAttributesResponse><ObjectParts>{parts}</ObjectParts></GetObjectAttributesResponse>"
        )
    }
}

/// The ETag of what came in these parts.
fn tag_of(bytes: &[u8], parts: &[usize]) -> String {
    if let [_] = parts {
        return format!("\"{}\"", hex::encode(&Algorithm::MD5.of(bytes)));
    }
    let (mut rest, mut each) = (bytes, Vec::new());
    for size in parts {
        let (part, left) = rest.split_at(*size);
        each.extend(Algorithm::MD5.of(part));
        rest = left;
    }
    format!("\"{}-{}\"", hex::encode(&Algorithm::MD5.of(&each)), parts.len())
}

/// `weir get` of it, to a file and to a pipe, by one lane and by several, and `weir cp`.
fn runs(kept: &Kept, mut check: impl FnMut(&Run, Option<Vec<u8>>)) {
    let kept = kept.clone();
    let server = Server::start(move |request, wire| kept.serve(request, wire));
    for args in [
        &["get", "s3://b/k", "-o", "out", "-c", "1", "-v"][..],
        &["get", "s3://b/k", "-o", "out", "-c", "3", "-v"],
        &["get", "s3://b/k", "-o", "-"],
        &["cp", "s3://b/k", "out"],
    ] {
        let sandbox = Sandbox::new();
        let run = weir_of(&sandbox, &server.url(""), args).run();
        let file = std::fs::read(sandbox.path("out")).ok();
        let is_pipe = args.contains(&"-");
        check(&run, if is_pipe { Some(run.stdout.clone()) } else { file });
    }
}

#[track_caller]
fn is_verified(kept: &Kept, named: &str) {
    let bytes = Arc::clone(&kept.object.bytes);
    runs(kept, |run, file| {
        run.succeeds();
        assert!(!run.stderr.contains("not verified"), "{}", run.stderr);
        assert!(file.as_deref() == Some(&bytes[..]));
    });
    runs(&kept.clone().damaged(), |run, file| {
        run.fails(3, &["does not match", named]);
        // What went into a pipe cannot be taken back.
        assert!(run.shown.contains("\"-o\" \"-\"") || file.is_none());
    });
}

#[track_caller]
fn is_not_verified(kept: &Kept, why: &str) {
    for kept in [kept.clone(), kept.clone().damaged()] {
        let bytes = Arc::clone(&kept.object.bytes);
        runs(&kept, |run, file| {
            run.succeeds().says(&["not verified by the", why]);
            assert!(file.as_deref() == Some(&bytes[..]));
        });
    }
}

const EQUAL: [usize; 3] = [5 * MIB, 5 * MIB, 1000];
const UNEQUAL: [usize; 3] = [5 * MIB + 7, 6 * MIB, 1000];

#[test]
fn an_etag_of_parts() {
    is_verified(&Kept::new(&EQUAL), "the server's ETag of 3 parts");
    is_verified(&Kept::new(&[5 * MIB, 77]), "of 2 parts");
    is_verified(&Kept { tells: false, ..Kept::new(&[3000]) }, "the server's ETag");
    let untold = Kept { tells: false, ..Kept::new(&EQUAL) };
    is_not_verified(&untold, "the store does not tell the sizes of its parts");
    is_not_verified(&Kept::new(&UNEQUAL), "its 3 parts are of different sizes");
}

#[test]
fn composite_checksums() {
    for algorithm in [Algorithm::CRC32, Algorithm::CRC32C, Algorithm::SHA1, Algorithm::SHA256] {
        let field = format!("the server's x-amz-checksum-{} of 3 parts", algorithm.name());
        is_verified(&Kept::new(&UNEQUAL).composed(algorithm), &field);
    }
    let unlisted = Kept { lists: false, ..Kept::new(&EQUAL).composed(Algorithm::CRC32C) };
    is_verified(&unlisted, "x-amz-checksum-crc32c of 3 parts");
    let unlisted = Kept { lists: false, ..Kept::new(&UNEQUAL).composed(Algorithm::CRC32C) };
    is_not_verified(&unlisted, "its 3 parts are of different sizes");
}

#[test]
fn one_digest_of_all_bytes() {
    let bytes = pattern(3 * MIB, 1);
    for algorithm in [Algorithm::CRC64NVME, Algorithm::CRC32C, Algorithm::SHA256] {
        // The tag is of parts, as after an upload in parts with the checksum of the whole.
        let mut kept = Kept::new(&[2 * MIB, MIB]);
        let field = format!("x-amz-checksum-{}", algorithm.name());
        kept.object = kept
            .object
            .field(&field, &base64(&algorithm.of(&bytes)))
            .field("x-amz-checksum-type", "FULL_OBJECT");
        is_verified(&kept, &field);
    }
    is_verified(&Kept::new(&[3 * MIB]), "the server's ETag");
}

/// What is in the form of a digest and is none convicts nobody.
#[test]
fn tags_that_are_no_digests() {
    for (name, value) in [
        ("x-amz-server-side-encryption", "aws:kms"),
        ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
    ] {
        for parts in [&EQUAL[..], &[2 * MIB]] {
            let mut kept = Kept::new(parts).damaged();
            kept.object = kept.object.field(name, value);
            runs(&kept, |run, file| {
                run.succeeds();
                assert!(file.is_some());
            });
        }
    }
    // The way out, where a store has tags of its own in this form.
    let kept = Kept::new(&EQUAL).damaged();
    let bytes = Arc::clone(&kept.object.bytes);
    let server = Server::start(move |request, wire| kept.serve(request, wire));
    let sandbox = Sandbox::new();
    let run =
        weir_of(&sandbox, &server.url(""), &["get", "s3://b/k", "-o", "out", "--ignore-digest", "-v"]).run();
    run.succeeds().says(&["--ignore-digest kept it"]);
    assert!(sandbox.read("out") == *bytes);
    let run = weir_of(&sandbox, &server.url(""), &["cp", "--ignore-digest", "s3://b/k", "copied"]).run();
    run.succeeds().says(&["--ignore-digest kept it"]);
    assert!(sandbox.read("copied") == *bytes);
    // Nobody who asks a plain server hears of any of it.
    let kept = Kept::new(&EQUAL).damaged();
    let server = Server::start(move |request, wire| kept.serve(request, wire));
    sandbox.get([&server.url("b/k"), "-o", "plain"]).run().succeeds();
    assert!(server.requests().iter().all(|seen| !seen.request.target.contains("partNumber")));
}

/// What goes on after a kill is held against all of it.
#[test]
fn a_resumed_object() {
    for is_damaged in [false, true] {
        let mut kept = Kept::new(&EQUAL);
        if is_damaged {
            kept = kept.damaged();
        }
        let bytes = Arc::clone(&kept.object.bytes);
        let was_asked = AtomicBool::new(false);
        let server = Server::start(move |request, wire| {
            let is_first = request.method == "GET" && !was_asked.swap(true, Relaxed);
            if !is_first {
                return kept.serve(request, wire);
            }
            // It does not come to its end before the kill.
            kept.object.serve_up_to(request, wire, 4 * MIB)?;
            wire.wait_for_close()
        });
        let sandbox = Sandbox::new();
        let args = ["get", "s3://b/k", "-o", "out", "-c", "1"];
        let running = weir_of(&sandbox, &server.url(""), &args).spawn();
        wait_for("a journal", || sandbox.journalled("out") > 2 * MIB as u64);
        running.signal(rustix::process::Signal::KILL);
        running.wait();
        let before = server.requests().len();
        let run = weir_of(&sandbox, &server.url(""), &args).run();
        assert!(server.requests_from(before).iter().any(|request| request.start() > 0), "it went on");
        match is_damaged {
            true => drop(run.fails(3, &["the server's ETag of 3 parts"])),
            false => {
                run.succeeds();
                assert!(sandbox.read("out") == *bytes);
            }
        }
    }
}
