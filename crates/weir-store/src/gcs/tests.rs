//! Addresses, and a service on loopback that speaks both interfaces.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use weir_codec::digest::Algorithm;
use weir_get::http::authority::Mend;
use weir_get::http::call::AtHand;

use super::*;
use crate::condition::Condition;
use crate::credentials::bearer::Bearer;
use crate::credentials::{Found, Renewing, Temporary};
use crate::listing::{ListAsk, Listed};
use crate::mock::{Asked, Mock, Said, said};
use crate::testing::with_caller;
use crate::upload::plan::SINGLE;
use crate::upload::{Attributes, Finish, Object, Part, Sum, Upload};
use weir_units::instant;

/// Tokens t0, t1, ...: a new one each time.
fn provider() -> GoogleProvider {
    let count = AtomicUsize::new(0);
    Arc::new(Renewing::new(move || {
        let credential = Bearer::new(&format!("geheim{}", count.fetch_add(1, SeqCst))).unwrap();
        let found = Found { credential, identity: "a@b".to_owned(), origin: "a file".to_owned() };
        Ok(Temporary { found, expires: None })
    }))
}

fn store(endpoint: &str) -> GcsStore {
    let settings = GcsSettings {
        endpoint: Url::parse(endpoint).unwrap(),
        provider: Some(provider()),
        payer: Some("payer".to_owned()),
        project: Some("p".to_owned()),
        encryption: Vec::new(),
    };
    GcsStore::new(settings, "b".to_owned())
}

#[test]
fn an_endpoint_may_be_that_of_the_json_interface() {
    for text in ["http://h:1", "http://h:1/", "http://h:1/storage/v1", "http://h:1/storage/v1/"] {
        assert_eq!(endpoint_of(text).unwrap().as_str(), "http://h:1/", "{text}");
    }
    assert_eq!(endpoint_of("h/base/").unwrap().as_str(), "https://h/base");
}

#[test]
fn an_object_has_an_address_whatever_its_key() {
    let store = store(ENDPOINT);
    let at = |key, version| store.object(key, version).unwrap().to_string();
    assert_eq!(at("a//x y#?", None), "https://storage.googleapis.com/b/a//x%20y%23%3F");
    assert_eq!(at("k", Some("17")), "https://storage.googleapis.com/b/k?generation=17");
    assert_eq!(at("a/../k", None), "https://storage.googleapis.com/storage/v1/b/b/o/a%2F..%2Fk?alt=media");
    assert!(store.object("..", None).is_err() && store.object(&"k".repeat(1025), None).is_err());
    let authorizer = store.authorizer();
    for url in ["/b/k", "/storage/v1/b/b/o/k?alt=media", "/storage/v1/b?project=p"] {
        assert!(authorizer.is_for(&Url::parse(&format!("{ENDPOINT}{url}")).unwrap()), "{url}");
    }
    for url in [
        "https://storage.googleapis.com/bb/k",
        "https://example.com/b/k",
        "http://storage.googleapis.com/b/k",
    ] {
        assert!(!authorizer.is_for(&Url::parse(url).unwrap()), "{url}");
    }
}

/// By then another lane has the next token, which has not been refused.
#[test]
fn a_late_refusal_is_of_the_token_that_was_shown() {
    let store = store(ENDPOINT);
    let (authorizer, url) = (store.authorizer(), store.object("k", None).unwrap());
    let (head, _) = weir_http::head::parse_response_to("GET", b"HTTP/1.1 401 X\r\n\r\n").unwrap().unwrap();
    let shows = |token: &str| {
        let fields = authorizer.fields("GET", &url, &[]).unwrap();
        assert!(fields.contains(&("authorization".to_owned(), format!("Bearer {token}"))), "{fields:?}");
    };
    let is_refused = || assert_eq!(authorizer.mends(&url, &head, None).unwrap(), Mend::Again);
    shows("geheim0");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            shows("geheim0");
            is_refused();
            shows("geheim1");
        });
    });
    is_refused();
    shows("geheim1");
}

/// Takes the second token only.
fn service() -> Mock {
    Mock::new(|asked: &Asked| -> Said {
        if asked.field("authorization") != "Bearer geheim1" {
            return said(401, r#"{"error":{"code":401,"message":"Invalid Credentials"}}"#);
        }
        assert_eq!(asked.field("x-goog-user-project"), "payer");
        let (path, query) = asked.target.split_once('?').unwrap_or((&asked.target, ""));
        let fields = |fields: &[(&str, &str)], said: Said| {
            let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Said { fields: fields.collect(), ..said }
        };
        let item = r#"{"name":"a/x","size":"7","updated":"2026-11-26T19:52:25.5Z","md5Hash":"AAECAwQFBgcICQoLDA0ODw==",
                       "crc32c":"AAAAAA==","generation":"17","metadata":{"mtime":"1700000000.5"},"contentType":"text/plain"}"#;
        match (asked.method.as_str(), path) {
            ("GET", "/storage/v1/b/b/o") if query.contains("pageToken=t") => {
                said(200, r#"{"kind":"storage#objects"}"#)
            }
            ("GET", "/storage/v1/b/b/o") if query.contains("prefix=busy") => {
                said(200, r#"{"status":"maintenance"}"#)
            }
            ("GET", "/storage/v1/b/b/o") if query.contains("prefix=silent") => {
                said(200, r#"{"items":[{"name":"silent"}]}"#)
            }
            ("GET", "/storage/v1/b/b/o/silent") => said(200, r#"{"name":"silent"}"#),
            ("GET", "/storage/v1/b") => said(200, r#"{"status":"maintenance"}"#),
            ("GET", "/storage/v1/b/b/o") => {
                said(200, format!(r#"{{"items":[{item}],"prefixes":["a/d/"],"nextPageToken":"t"}}"#))
            }
            ("GET", "/storage/v1/b/b/o/a%2Fx") => said(200, item),
            // It is there by now.
            ("POST", path) if path.ends_with("/to") && query.contains("ifGenerationMatch=0") => said(412, ""),
            ("POST", path) if path.ends_with("/rewriteTo/b/b/o/to") => match query.contains("rewriteToken=r")
            {
                false => said(200, r#"{"done":false,"rewriteToken":"r","totalBytesRewritten":"3"}"#),
                true if query.contains("sourceGeneration=17") => {
                    said(200, r#"{"done":true,"totalBytesRewritten":7}"#)
                }
                true => said(412, ""),
            },
            ("DELETE", "/storage/v1/b/b/o/a%2Fx") => said(204, ""),
            ("DELETE", "/storage/v1/b/b/o/held") => said(403, r#"{"error":{"message":"it is held"}}"#),
            ("POST", "/b/k") if query == "uploads=" => {
                assert_eq!(asked.field("x-goog-meta-own"), "words");
                assert_eq!(asked.field("x-amz-checksum-algorithm"), "");
                said(
                    200,
                    "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>",
                )
            }
            ("PUT", "/b/k") if query.contains("partNumber=1") => {
                assert!(asked.field("x-goog-hash").starts_with("crc32c="));
                fields(&[("ETag", "\"e\"")], said(200, ""))
            }
            ("POST", "/b/k") => {
                assert_eq!(asked.field("x-goog-if-generation-match"), "0");
                assert!(asked.body.contains("<ETag>") && !asked.body.contains("Checksum"), "{}", asked.body);
                said(200, "<CompleteMultipartUploadResult><ETag>\"f\"</ETag></CompleteMultipartUploadResult>")
            }
            ("GET", "/storage/v1/b/b/o/k") => {
                said(200, r#"{"name":"k","size":"1","crc32c":"AAAAAA==","md5Hash":"bad","generation":"18"}"#)
            }
            // All of it in one request, or a session for what is large.
            ("POST", "/upload/storage/v1/b/b/o") if query == "uploadType=multipart&ifGenerationMatch=0" => {
                let body = &asked.body;
                assert!(asked.field("content-type").starts_with("multipart/related; boundary="));
                assert!(body.contains(r#""crc32c":""#) && body.contains(r#""name":"a/../b""#), "{body}");
                assert!(body.contains(r#""metadata":{"own":"words"}"#) && body.contains("\r\n\r\nx\r\n--"));
                assert!(body.contains(r#""contentLanguage":"de""#), "{body}");
                said(200, r#"{"name":"a/../b","size":"1","crc32c":"AAAAAA==","generation":"19"}"#)
            }
            ("POST", "/upload/storage/v1/b/b/o") if query == "uploadType=resumable&ifGenerationMatch=0" => {
                assert_eq!(asked.field("x-upload-content-length"), (SINGLE + 1).to_string());
                let place = "http://name-that-is-known-there:1/upload/storage/v1/b/b/o?upload_id=s";
                fields(&[("Location", place)], said(200, ""))
            }
            ("POST", "/upload/storage/v1/b/b/o") => said(
                412,
                r#"{"error":{"code":412,"message":"a condition","errors":[{"reason":"conditionNotMet"}]}}"#,
            ),
            ("PUT", "/upload/storage/v1/b/b/o") if query == "upload_id=s" => {
                assert_eq!(asked.body.len() as u64, SINGLE + 1);
                said(200, r#"{"name":"large","size":"8388609","generation":"20"}"#)
            }
            _ => said(404, r#"{"error":{"message":"No such object"}}"#),
        }
    })
}

#[test]
fn a_bucket_is_listed_and_its_objects_are_looked_at_copied_and_deleted() {
    let mock = service();
    let store = store(&mock.url);
    with_caller(store.authorizer(), |caller| {
        let page =
            store.page(caller, &ListAsk { prefix: "a/", most: 10, ..ListAsk::default() }, None).unwrap();
        let object = page.objects[0].clone();
        assert_eq!((object.key.as_str(), object.size), ("a/x", 7));
        assert_eq!(object.etag.as_deref(), Some("\"000102030405060708090a0b0c0d0e0f\""));
        assert_eq!((page.prefixes, page.next.as_deref()), (vec!["a/d/".to_owned()], Some("t")));
        let last = store.page(caller, &ListAsk { most: 10, ..ListAsk::default() }, Some("t")).unwrap();
        assert!(last.objects.is_empty() && last.next.is_none());
        let error =
            store.page(caller, &ListAsk { prefix: "z", most: 10, ..ListAsk::default() }, None).unwrap_err();
        assert!(error.to_string().contains("does not begin with the prefix"), "{error}");
        for (prefix, says) in [("busy", "is no list of objects"), ("silent", "how large 'silent' is")] {
            let error =
                store.page(caller, &ListAsk { prefix, most: 10, ..ListAsk::default() }, None).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
        let error = store.buckets(caller).unwrap_err();
        assert!(error.to_string().contains("is no list of buckets"), "{error}");
        let error = store.look(caller, "silent", None, None).unwrap_err();
        assert!(error.to_string().contains("how large 'silent' is"), "{error}");
        let looked = store.look(caller, "a/x", None, None).unwrap().unwrap();
        let time = instant::at(1_700_000_000, 0).unwrap() + Duration::from_millis(500);
        assert_eq!((looked.mtime, looked.headers[0].1.as_str()), (Some(time), "text/plain"));
        assert_eq!(store.look(caller, "none", None, None).unwrap(), None);
        let heard = parking_lot::Mutex::new(Vec::new());
        let place = ("to", &Condition::None);
        store.copy(caller, "b", &object, place, &|bytes| heard.lock().push(bytes)).unwrap();
        assert_eq!(heard.into_inner(), [3, 4], "each step is heard of");
        let error = store.copy(caller, "b", &object, ("to", &Condition::Absent), &|_| ()).unwrap_err();
        assert!(error.is_condition(), "{error}");
        let other = Listed { size: 8, ..object };
        let error = store.copy(caller, "b", &other, place, &|_| ()).unwrap_err();
        assert!(error.to_string().contains("has another object than the list had"), "{error}");
        let failed = store.delete(caller, &["a/x".to_owned(), "held".to_owned(), "gone".to_owned()]).unwrap();
        assert_eq!(failed.len(), 1);
        assert!(failed[0].key == "held" && failed[0].why.contains("asked as a@b of a file"), "{failed:?}");
        assert!(!failed[0].why.contains("geheim"));
    });
}

#[test]
fn an_object_is_uploaded_in_parts() {
    let mock = service();
    let store = store(&mock.url);
    let own = vec![("own".to_owned(), "words".to_owned())];
    let attributes = Attributes { metadata: own, ..Attributes::default() };
    let object = Object { key: "k", attributes: &attributes, condition: &Condition::Absent };
    let uploads = store.uploads();
    assert_eq!(uploads.algorithms()[0], Algorithm::CRC32C);
    with_caller(store.authorizer(), |caller| {
        let id = uploads.begin(caller, &object, Some(Algorithm::CRC32C)).unwrap();
        let upload = Upload { object, id: &id };
        let sum = Sum { algorithm: Algorithm::CRC32C, value: Algorithm::CRC32C.of(b"x") };
        let tag = uploads.part(caller, &upload, 1, Some(&sum), &mut AtHand::new(b"x")).unwrap();
        let parts = [Part { number: 1, tag, sum: Some(sum) }];
        let stored =
            uploads.complete(caller, &upload, &Finish { parts: &parts, size: 1, whole: None }).unwrap();
        assert_eq!(stored.tag.as_deref(), Some("\"f\""));
        let stored = uploads.stored(caller, "k").unwrap().unwrap();
        assert_eq!((stored.version.as_deref(), stored.sums.len()), (Some("18"), 1));
        let matches = Condition::Matches("\"f\"".to_owned());
        let object = Object { condition: &matches, ..object };
        let error = uploads.put(caller, &object, None, &mut AtHand::new(b"x")).unwrap_err();
        assert!(error.to_string().contains("the generation of an object"), "{error}");
    });
}

#[test]
fn an_object_is_uploaded_in_one_request() {
    let mock = service();
    let store = store(&mock.url);
    let own = vec![("own".to_owned(), "words".to_owned())];
    let content_language = Some("de".to_owned());
    let attributes = Attributes { metadata: own, content_language, ..Attributes::default() };
    let object = Object { key: "a/../b", attributes: &attributes, condition: &Condition::Absent };
    let uploads = store.uploads();
    with_caller(store.authorizer(), |caller| {
        let sum = Sum { algorithm: Algorithm::CRC32C, value: Algorithm::CRC32C.of(b"x") };
        let stored = uploads.put(caller, &object, Some(&sum), &mut AtHand::new(b"x")).unwrap();
        assert_eq!((stored.version.as_deref(), stored.size, stored.sums.len()), (Some("19"), Some(1), 1));
        let large = vec![0; SINGLE as usize + 1];
        let stored = uploads.put(caller, &object, None, &mut AtHand::new(&large)).unwrap();
        assert_eq!(stored.version.as_deref(), Some("20"));
        let other = Condition::Matches("17".to_owned());
        let object = Object { condition: &other, ..object };
        let error = uploads.put(caller, &object, None, &mut AtHand::new(b"x")).unwrap_err();
        assert!(error.is_condition() && error.to_string().contains("a condition"), "{error}");
    });
}

#[test]
fn what_is_to_be_asked_for_later_is_named() {
    let fields = || vec![("Retry-After".to_owned(), "7200".to_owned())];
    let mock = Mock::new(move |_: &Asked| Said { fields: fields(), ..said(503, "") });
    let store = store(&mock.url);
    with_caller(store.authorizer(), |caller| {
        let error = store.look(caller, "k", None, None).unwrap_err();
        assert!(error.is_for_later() && error.to_string().contains("cannot look at gs://b/k"), "{error}");
    });
}

/// Either interface says it in its own form.
#[test]
fn a_bucket_whose_readers_pay_says_which_flag_is_missing() {
    const MESSAGE: &str = "Bucket is a requester pays bucket but no user project provided.";
    let mock = Mock::new(|asked: &Asked| match asked.target.starts_with("/storage/") {
        true => said(400, format!(r#"{{"error":{{"code":400,"message":"{MESSAGE}"}}}}"#)),
        false => {
            said(400, format!("<Error><Code>UserProjectMissing</Code><Message>{MESSAGE}</Message></Error>"))
        }
    });
    let store = store(&mock.url);
    let object = Object { key: "k", attributes: &Attributes::default(), condition: &Condition::Absent };
    with_caller(store.authorizer(), |caller| {
        let page = store.page(caller, &ListAsk { most: 10, ..ListAsk::default() }, None);
        let begun = store.uploads().begin(caller, &object, None);
        for error in [page.unwrap_err(), begun.unwrap_err()] {
            assert!(error.to_string().contains("its readers pay: --request-payer"), "{error}");
        }
    });
}
