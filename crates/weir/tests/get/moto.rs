//! `weir get` from moto, which plays Amazon S3: signed links, checksums in every form that S3 keeps, words of
//! its errors.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::process::Command;

use support::http_servers::{Program, moto};
use support::{MIB, Sandbox, base64, pattern, skip};
use weir_codec::Algorithm;

/// S3 sends the checksums that it keeps to those who ask.
const ASKS: [&str; 2] = ["-H", "x-amz-checksum-mode: ENABLED"];

/// A store with a bucket, and a sandbox to fetch into. `None` where there is no moto.
struct Store {
    moto: Program,
    sandbox: Sandbox,
}

impl Store {
    fn start() -> Option<Store> {
        let Some(moto) = moto() else {
            skip("no moto: scripts/need test");
            return None;
        };
        let store = Store { moto, sandbox: Sandbox::new() };
        store.asks("PUT", "", "", &[], b"");
        Some(store)
    }

    /// The signed link to `key`; moto lets in whoever has any signature.
    fn link(&self, key: &str, query: &str) -> String {
        let signed = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=600&X-Amz-Signature=geheim";
        format!("http://127.0.0.1:{}/bucket-of-tests/{key}?{query}{signed}", self.moto.port)
    }

    /// Another client's request with this body; returns head and body of what it brings.
    #[track_caller]
    fn asks(&self, method: &str, key: &str, query: &str, fields: &[&str], body: &[u8]) -> String {
        let path = self.sandbox.write("body", body);
        let mut curl = Command::new("curl");
        curl.args(["-sSi", "-m", "60", "-X", method, "--data-binary"]).arg(format!("@{}", path.display()));
        for field in [&["Content-Type: application/octet-stream", "Expect:"], fields].concat() {
            curl.args(["-H", field]);
        }
        let output = curl.arg(self.link(key, query)).output().unwrap();
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(answer.starts_with("HTTP/1.1 200"), "{method} {key}: {answer}");
        answer
    }

    /// Keeps `bytes` as `key`, with the checksum that the client says they have.
    fn keeps(&self, key: &str, bytes: &[u8], algorithm: &str, checksum: &[u8]) {
        let of = format!("x-amz-sdk-checksum-algorithm: {algorithm}");
        let says = format!("x-amz-checksum-{}: {}", algorithm.to_lowercase(), base64(checksum));
        self.asks("PUT", key, "", &[&of, &says], bytes);
    }

    /// An upload in parts with checksums of the kind `of`.
    fn keeps_in_parts(&self, key: &str, parts: &[&[u8]], of: &[&str]) {
        let between = |text: &str, from: &str, to: &str| {
            text.split_once(from).and_then(|(_, rest)| rest.split_once(to)).unwrap().0.to_owned()
        };
        let id = between(&self.asks("POST", key, "uploads&", of, b""), "<UploadId>", "<");
        let mut list = String::new();
        for (number, part) in (1..).zip(parts) {
            let query = format!("partNumber={number}&uploadId={id}&");
            let tag = between(&self.asks("PUT", key, &query, of, part), "ETag: \"", "\"");
            list += &format!("<Part><PartNumber>{number}</PartNumber><ETag>\"{tag}\"</ETag></Part>");
        }
        let list = format!("<CompleteMultipartUpload>{list}</CompleteMultipartUpload>");
        self.asks(
            "POST",
            key,
            &format!("uploadId={id}&"),
            &["Content-Type: application/xml"],
            list.as_bytes(),
        );
    }

    #[track_caller]
    fn brings(&self, key: &str, args: &[&str], bytes: &[u8]) -> support::Run {
        let run = self.sandbox.get([&self.link(key, ""), "-o", "out", "--force", "-vv"]).args(args).run();
        run.succeeds().hides("geheim");
        assert!(self.sandbox.read("out") == bytes, "{key}");
        std::fs::remove_file(self.sandbox.path("out")).unwrap();
        run
    }
}

#[test]
fn checksums_of_every_kind() {
    let Some(store) = Store::start() else { return };
    for (name, algorithm) in [
        ("CRC32", Algorithm::CRC32),
        ("CRC32C", Algorithm::CRC32C),
        ("CRC64NVME", Algorithm::CRC64NVME),
        ("SHA1", Algorithm::SHA1),
        ("SHA256", Algorithm::SHA256),
    ] {
        for (length, lanes) in [(1000, "1"), (3 * MIB, "3")] {
            let bytes = pattern(length, 1);
            let (right, wrong) = (algorithm.of(&bytes), algorithm.of(&pattern(length, 2)));
            let field = format!("x-amz-checksum-{}", name.to_lowercase());
            let lanes = ["-c", lanes];
            store.keeps(&format!("right-{name}"), &bytes, name, &right);
            store.brings(&format!("right-{name}"), &[&ASKS[..], &lanes].concat(), &bytes);
            let key = format!("wrong-{name}");
            store.keeps(&key, &bytes, name, &wrong);
            let run = store.sandbox.get([&store.link(&key, ""), "-o", "out"]).args(&ASKS).args(&lanes).run();
            run.fails(3, &["does not match", "the server's", &field, "--ignore-digest"]).hides("geheim");
            store.sandbox.has_nothing_of("out");
            let run =
                store.brings(&key, &[&ASKS[..], &lanes, &["--ignore-digest", "--json"]].concat(), &bytes);
            let record = run.json();
            let notes = record["files"][0]["notes"].as_array().unwrap();
            assert!(notes.iter().any(|note| note.as_str().unwrap().contains(&field)), "{notes:?}");
            // Nobody asked for it.
            store.brings(&key, &[], &bytes);
        }
    }
}

#[test]
fn checksums_of_parts_are_none_of_the_object() {
    let Some(store) = Store::start() else { return };
    // S3 takes no part below 5 MiB but the last.
    let bytes = pattern(5 * MIB + 1000, 1);
    let parts = [&bytes[..5 * MIB], &bytes[5 * MIB..]];
    store.keeps_in_parts(
        "composed",
        &parts,
        &["x-amz-checksum-algorithm: SHA256", "x-amz-checksum-type: COMPOSITE"],
    );
    store
        .brings("composed", &ASKS, &bytes)
        .says(&["x-amz-checksum-sha256 is not used: it is composed of the digests of the parts"]);
}

#[test]
fn words_of_its_errors() {
    let Some(store) = Store::start() else { return };
    store.asks("PUT", "private", "", &[], &pattern(1000, 1));
    let bucket = store.link("", "").split_once("/bucket").unwrap().0.to_owned();
    for (url, args, says) in [
        (store.link("none", ""), &[][..], "404 NOT FOUND (NoSuchKey: The specified key does not exist)"),
        (store.link("private", "versionId=none&"), &[], "(NoSuchVersion: "),
        (format!("{bucket}/no-such-bucket/x"), &[], "(NoSuchBucket: The specified bucket does not exist)"),
        (store.link("private", ""), &["-r", "5000-"], "416 Range Not Satisfiable (InvalidRange: "),
        (format!("{bucket}/bucket-of-tests/private"), &[], "403 FORBIDDEN; the link may have expired"),
    ] {
        let run = store.sandbox.get([&url, "-o", "out"]).args(args).run();
        run.fails(1, &[says]).hides("geheim");
        store.sandbox.has_nothing_of("out");
    }
}

#[test]
fn a_renewed_link_goes_on() {
    let Some(store) = Store::start() else { return };
    let bytes = pattern(4 * MIB, 1);
    store.asks("PUT", "x", "", &[], &bytes);
    store.sandbox.begin_and_interrupt(&store.link("x", "X-Amz-Date=1&"), &[]);
    let run = store.sandbox.get([&store.link("x", "X-Amz-Date=2&"), "-o", "out", "--json"]).run();
    assert!(run.succeeds().json()["files"][0]["resumed_from"].as_u64().unwrap() > 0);
    assert!(store.sandbox.read("out") == bytes);
}
