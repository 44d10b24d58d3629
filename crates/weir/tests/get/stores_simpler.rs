//! What a store refuses for its form is asked for in a simpler one; where there is none, the error names what
//! to leave out.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use support::bucket::{Bucket, Fault, Upload};
use support::listed::weir_of;
use support::{MIB, Request, Run, Sandbox, pattern};

fn refusal(status: &'static str, code: &str, message: &str) -> Fault {
    let body = match code {
        "" => String::new(),
        code => format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>"),
    };
    Fault::Answer(status, body)
}

struct Stage {
    bucket: Bucket,
    sandbox: Sandbox,
}

impl Stage {
    fn set(hook: impl FnMut(&Request) -> Option<Fault> + Send + 'static) -> Stage {
        let stage = Stage { bucket: Bucket::start(), sandbox: Sandbox::new() };
        stage.bucket.hook(hook);
        stage
    }

    fn run(&self, args: &[&str]) -> Run {
        weir_of(&self.sandbox, &self.bucket.server.url(""), args).run()
    }
}

#[test]
fn lists_in_the_form_that_a_store_knows() {
    type Refuses = fn(&str) -> bool;
    let v2: Refuses = |target| target.contains("list-type=2");
    let encoding: Refuses = |target| target.contains("encoding-type") && target.contains("prefix");
    let both: Refuses = |target| target.contains("list-type=2") || target.contains("encoding-type");
    let words = ("400 Bad Request", "InvalidArgument");
    for (refuses, (status, code), lists) in [
        (v2, words, 2),
        (v2, ("501 Not Implemented", ""), 2),
        (v2, ("405 Method Not Allowed", "MethodNotAllowed"), 2),
        (encoding, words, 3),
        (encoding, ("400 Bad Request", ""), 3),
        (both, ("501 Not Implemented", "NotImplemented"), 4),
    ] {
        let stage = Stage::set(move |request| {
            let is_list = request.method == "GET" && request.path() == "/b/";
            (is_list && refuses(&request.target)).then(|| refusal(status, code, "no such parameter"))
        });
        let keys = ["p/a%20b", "p/c%2541", "p/d%2Be"];
        keys.iter().for_each(|key| stage.bucket.hold(key, key.as_bytes().to_vec()));
        let run = stage.run(&["cp", "s3://b/p/", "here", "-q"]);
        run.succeeds();
        for (name, key) in [("a b", keys[0]), ("c%41", keys[1]), ("d+e", keys[2])] {
            assert_eq!(stage.sandbox.read(&format!("here/{name}")), key.as_bytes(), "{status} {code}");
        }
        let listed = stage.bucket.server.requests();
        let listed = listed.iter().filter(|seen| seen.request.path() == "/b/").count();
        // Whether keys are encoded is asked once more where it matters.
        assert!((lists..=lists + 1).contains(&listed), "{status} {code}: {listed}");
        assert_eq!(
            stage.run(&["ls", "s3://b/p/"]).succeeds().stdout.iter().filter(|b| **b == b'\n').count(),
            3
        );
    }
    // One that knows no lists says so in its own words.
    let stage = Stage::set(|request| {
        (request.path() == "/b/").then(|| refusal("501 Not Implemented", "NotImplemented", "no lists here"))
    });
    stage.run(&["ls", "s3://b/"]).fails(1, &["cannot list s3://b/: NotImplemented: no lists here"]);
}

/// It does not say that it has no request for many of them.
#[test]
fn objects_are_deleted_one_by_one_where_a_store_knows_no_other_way() {
    for (status, code) in [
        ("400 Bad Request", "InvalidArgument"),
        ("400 Bad Request", "InvalidRequest"),
        ("400 Bad Request", ""),
        ("501 Not Implemented", "NotImplemented"),
    ] {
        for is_denied in [false, true] {
            let stage = Stage::set(move |request| match request.method.as_str() {
                "POST" if request.target.contains("delete") => Some(refusal(status, code, "no such request")),
                "DELETE" if is_denied => Some(refusal("403 Forbidden", "AccessDenied", "not yours")),
                "DELETE" => Some(Fault::Answer("204 No Content", String::new())),
                _ => None,
            });
            ["p/x", "q/x", "q/old"].iter().for_each(|key| stage.bucket.hold(key, b"x".to_vec()));
            let run = stage.run(&["cp", "--delete", "s3://b/p/", "s3://b/q/"]);
            match is_denied {
                true => run.fails(1, &["s3://b/q/old", "AccessDenied"]),
                false => run.succeeds(),
            };
            let asked = stage.bucket.server.requests();
            let deleted = asked.iter().filter(|seen| seen.request.method == "DELETE");
            let deleted: Vec<&str> = deleted.map(|seen| seen.request.path()).collect();
            assert_eq!(deleted, ["/b/q/old"], "{status} {code}");
        }
    }
}

/// A list of uploads that says that its keys are encoded may have them as they are.
#[test]
fn unfinished_uploads_are_found_whether_a_list_encodes_their_key_or_not() {
    for written in ["a+b", "a%2Bb"] {
        let stage = Stage::set(move |request| {
            let is_list = request.method == "GET" && request.target.contains("uploads");
            let is_second = ["key-marker=a%2Bb", "upload-id-marker=one"];
            let is_second = is_second.iter().all(|marker| request.target.contains(marker));
            let (id, more) = match is_second {
                true => ("two", String::new()),
                false => (
                    "one",
                    format!(
                        "<IsTruncated>true</IsTruncated><NextKeyMarker>{written}</NextKeyMarker>\
                         <NextUploadIdMarker>one</NextUploadIdMarker>"
                    ),
                ),
            };
            let list = format!(
                "<ListMultipartUploadsResult><EncodingType>url</EncodingType>{more}<Upload><Key>{written}</Key>\
                 <UploadId>{id}</UploadId><Initiated>2026-01-01T00:00:00Z</Initiated></Upload>\
                 </ListMultipartUploadsResult>"
            );
            is_list.then_some(Fault::Answer("200 OK", list))
        });
        for id in ["one", "two"] {
            stage.bucket.holds().uploads.insert(id.to_owned(), Upload::default());
        }
        stage.sandbox.write("x", "content");
        let run = stage.run(&["put", "x", "s3://b/a+b", "--abort"]);
        run.succeeds().says(&["removed 2 unfinished uploads"]);
        assert!(stage.bucket.holds().uploads.is_empty(), "{written}");
    }
}

/// Its objects are moved without the digests that it might keep.
#[test]
fn a_store_that_refuses_to_be_asked_for_digests() {
    let stage = Stage::set(|request| {
        request.field("x-amz-checksum-mode").map(|_| {
            let words = "Unsupported header 'x-amz-checksum-mode' received for this API call.";
            refusal("400 Bad Request", "InvalidArgument", words)
        })
    });
    let bytes = pattern(3 * MIB, 1);
    stage.bucket.hold("k", bytes.clone());
    stage.run(&["get", "s3://b/k", "-o", "one", "-q"]).succeeds();
    stage.run(&["cp", "s3://b/k", "two", "-q"]).succeeds();
    assert!(stage.sandbox.read("one") == bytes && stage.sandbox.read("two") == bytes);
    stage.run(&["put", "one", "s3://b/other", "-q"]).succeeds();
    stage.run(&["cp", "one", "s3://b/other", "-q"]).succeeds();
    assert!(stage.bucket.bytes("other") == bytes);
}

/// It does not say which field it does not know.
#[test]
fn a_store_that_knows_no_digests_and_has_no_words() {
    for (code, message) in
        [("", ""), ("NotImplemented", "A header you provided implies functionality that is not implemented.")]
    {
        for size in [1000, 9 * MIB] {
            let stage = Stage::set(move |request| {
                let of_digest = |name: &str| name.to_lowercase().starts_with("x-amz-checksum-");
                let has = request.method != "GET" && request.method != "HEAD";
                let has = has && request.fields.iter().any(|(name, _)| of_digest(name));
                has.then(|| refusal("501 Not Implemented", code, message))
            });
            let bytes = pattern(size, 1);
            stage.sandbox.write("x", &bytes);
            stage.run(&["put", "x", "s3://b/k", "-q"]).succeeds();
            assert!(stage.bucket.bytes("k") == bytes && stage.bucket.holds().uploads.is_empty());
        }
    }
}

#[test]
fn parts_whose_answer_has_no_tag() {
    let bytes = pattern(12 * MIB, 1);
    let stage = Stage::set(|request| request.target.contains("partNumber=").then_some(Fault::NoTag));
    stage.sandbox.write("x", &bytes);
    stage.run(&["put", "x", "s3://b/k", "-q"]).succeeds();
    assert!(stage.bucket.bytes("k") == bytes && stage.bucket.holds().uploads.is_empty());
    // One that does not list them either: the error leads on.
    let stage = Stage::set(|request| match request.method.as_str() {
        "GET" if request.target.contains("uploadId=") => {
            Some(refusal("501 Not Implemented", "NotImplemented", "no"))
        }
        _ => request.target.contains("partNumber=").then_some(Fault::NoTag),
    });
    stage.sandbox.write("x", &bytes);
    let run = stage.run(&["put", "x", "s3://b/k"]);
    run.says(&["has no ETag", "--part-size"]);
    assert!(!run.status.success());
    stage.run(&["put", "x", "s3://b/k", "--part-size", "16MiB", "-q"]).succeeds();
    assert!(stage.bucket.bytes("k") == bytes);
}

/// Nothing is stored without what the user wants with it, and the flag that stands for it is named.
#[test]
fn what_a_store_does_not_know_is_named() {
    for (flag, field) in [
        (&["--if-absent"][..], "if-none-match"),
        (&["--tag", "a=b"], "x-amz-tagging"),
        (&["--storage-class", "COLD"], "x-amz-storage-class"),
        (&["--sse", "AES256"], "x-amz-server-side-encryption"),
    ] {
        for size in [1000, 9 * MIB] {
            let stage = Stage::set(move |request| {
                let words = "A header you provided implies functionality that is not implemented.";
                request.field(field).map(|_| refusal("501 Not Implemented", "NotImplemented", words))
            });
            stage.sandbox.write("x", pattern(size, 1));
            let run = stage.run(&[&["put", "x", "s3://b/k"], flag].concat());
            run.says(&["NotImplemented", &format!("it may not know {}: leave out", flag[0])]);
            assert!(!run.status.success() && stage.bucket.holds().objects.is_empty(), "{flag:?}");
            stage.run(&["put", "x", "s3://b/k", "-q"]).succeeds();
            assert_eq!(stage.bucket.bytes("k").len(), size);
        }
    }
}
