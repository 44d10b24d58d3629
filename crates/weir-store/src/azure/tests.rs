//! Addresses, signatures, and uploads against a service on loopback.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use weir_codec::digest::Algorithm;
use weir_get::http::authority::Mend;

use super::*;
use crate::condition::Condition;
use crate::credentials::azure::Azure;
use crate::listing::Listed;
use crate::mock::{Asked, Mock, Said, said};
use crate::network::Network;
use crate::testing::with_caller;
use crate::upload::{Attributes, Finish, Object, Part, Sum, Upload};

const KEY: &str = "Z2VoZWltZ2VoZWltZ2VoZWlt";

fn store(endpoint: Option<&str>, variables: &[(&str, &str)]) -> AzureStore {
    let environment =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
    let azure = Azure::read(&environment).unwrap();
    let provider = azure.provider("acc", &Network::default()).unwrap();
    let sas = azure.sas("acc");
    let endpoint = AzureSettings::endpoint_of("acc", endpoint).unwrap();
    let settings = AzureSettings {
        account: "acc".to_owned(),
        endpoint,
        provider: Some(provider),
        sas,
        encryption: Vec::new(),
    };
    AzureStore::new(settings, "c".to_owned())
}

#[test]
fn a_blob_has_one_address() {
    let by_key = [("AZURE_STORAGE_KEY", KEY)];
    let at = |endpoint, key, version| store(endpoint, &by_key).object(key, version).unwrap().to_string();
    assert_eq!(at(None, "a//x y", None), "https://acc.blob.core.windows.net/c/a//x%20y");
    assert_eq!(at(Some("http://127.0.0.1:10000"), "k/", None), "http://127.0.0.1:10000/acc/c/k/");
    assert_eq!(at(Some("http://127.0.0.1:1/acc"), "k", Some("v")), "http://127.0.0.1:1/acc/c/k?versionid=v");
    assert_eq!(at(Some("http://h.example"), "k", None), "http://h.example/c/k");
    let sas = store(None, &[("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=geheim%3D")]);
    let url = sas.object("k", None).unwrap();
    assert_eq!(url.query(), Some("sv=1&sig=geheim%3D"));
    assert_eq!(sas.named(&url), Some(("k".to_owned(), None)));
    assert!(!weir_get::object::shown(&url).contains("geheim"));
    assert!(AzureSettings::endpoint_of("a/b", None).is_err());
}

/// The string that Microsoft's documentation has signed, for a GET of a range, made here by hand.
#[test]
fn a_signature_covers_what_a_lane_adds() {
    let store = store(None, &[("AZURE_STORAGE_KEY", KEY)]);
    let url = store.object("a/x y", Some("v1")).unwrap();
    let given = [("range", "bytes=5-9"), ("if-match", "\"0x8D\"")];
    let given = given.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let fields = store.authorizer.signed("GET", &url, given).unwrap();
    let one = |name: &str| fields.iter().find(|(known, _)| known == name).unwrap().1.clone();
    let text = format!(
        "GET\n\n\n\n\n\n{}\n\n\"0x8D\"\n\n\nbytes=5-9\nx-ms-version:{}\n/acc/c/a/x%20y\nversionid:v1",
        one("date"),
        one("x-ms-version")
    );
    let key = hmac::Key::new(hmac::HMAC_SHA256, &STANDARD.decode(KEY).unwrap());
    let signature = STANDARD.encode(hmac::sign(&key, text.as_bytes()));
    assert_eq!(one("authorization"), format!("SharedKey acc:{signature}"));
    // Signed once: a field that a caller had signed before is not sent beside it.
    let again = store.authorizer.signed("GET", &url, fields.clone()).unwrap();
    assert_eq!(again.iter().filter(|(name, _)| name == "authorization").count(), 1);
}

/// A service that keeps the blocks of one blob.
fn service() -> Mock {
    let blocks: parking_lot::Mutex<Vec<(String, usize)>> = parking_lot::Mutex::default();
    Mock::new(move |asked: &Asked| -> Said {
        assert!(asked.field("authorization").starts_with("SharedKey acc:"), "{asked:?}");
        let query = asked.target.split_once('?').map_or("", |(_, query)| query);
        let of = |name: &str| {
            let pairs = url::form_urlencoded::parse(query.as_bytes());
            pairs.into_owned().find(|(known, _)| known == name).map(|(_, text)| text).unwrap_or_default()
        };
        let mut blocks = blocks.lock();
        match (asked.method.as_str(), of("comp").as_str()) {
            ("PUT", "block") => {
                assert!(!asked.field("content-md5").is_empty());
                blocks.push((of("blockid"), asked.body.len()));
                said(201, "")
            }
            ("GET", "blocklist") => {
                let list = blocks
                    .iter()
                    .map(|(name, size)| format!("<Block><Name>{name}</Name><Size>{size}</Size></Block>"));
                let list: String = list.collect();
                said(
                    200,
                    format!(
                        "<BlockList><CommittedBlocks/><UncommittedBlocks>{list}</UncommittedBlocks></BlockList>"
                    ),
                )
            }
            ("PUT", "blocklist") => {
                assert_eq!(asked.field("if-none-match"), "*");
                assert_eq!(asked.field("x-ms-blob-content-type"), "text/plain");
                let whole =
                    blocks.iter().all(|(name, _)| asked.body.contains(&format!("<Latest>{name}</Latest>")));
                let fields = vec![("ETag".to_owned(), "\"0x9\"".to_owned())];
                Said { fields, ..said(if whole { 201 } else { 400 }, "") }
            }
            ("PUT", _) => {
                assert_eq!(asked.field("x-ms-blob-type"), "BlockBlob");
                Said {
                    fields: vec![("x-ms-error-code".to_owned(), "BlobAlreadyExists".to_owned())],
                    ..said(409, "<Error><Code>BlobAlreadyExists</Code><Message>There</Message></Error>")
                }
            }
            _ => said(404, ""),
        }
    })
}

#[test]
fn an_upload_of_blocks_comes_together() {
    let mock = service();
    let store = store(Some(&mock.url), &[("AZURE_STORAGE_KEY", KEY)]);
    let attributes = Attributes { content_type: Some("text/plain".to_owned()), ..Attributes::default() };
    let object = Object { key: "k", attributes: &attributes, condition: &Condition::Absent };
    with_caller(store.authorizer(), |caller| {
        let id = store.begin(caller, &object, Some(Algorithm::MD5)).unwrap();
        let upload = Upload { object, id: &id };
        let mut parts = Vec::new();
        for number in [2, 1] {
            let content = b"content";
            let sum = Sum { algorithm: Algorithm::MD5, value: Algorithm::MD5.of(content) };
            let mut body = weir_get::http::call::AtHand::new(content);
            let tag = store.part(caller, &upload, number, Some(&sum), &mut body).unwrap();
            parts.push(Part { number, tag, sum: Some(sum) });
        }
        parts.sort_by_key(|part| part.number);
        let there = store.parts(caller, &upload).unwrap().unwrap();
        assert_eq!(there.iter().map(|part| (part.number, part.size)).collect::<Vec<_>>(), [(1, 7), (2, 7)]);
        assert_eq!(store.pending(caller, "k").unwrap()[0].id, id);
        let stored =
            store.complete(caller, &upload, &Finish { parts: &parts, size: 14, whole: None }).unwrap();
        assert_eq!((stored.tag.as_deref(), stored.size), (Some("\"0x9\""), Some(14)));
        let error =
            store.put(caller, &object, None, &mut weir_get::http::call::AtHand::new(b"x")).unwrap_err();
        assert!(error.to_string().contains("BlobAlreadyExists"), "{error}");
        assert!(!error.to_string().contains(KEY));
        assert_eq!(store.stored(caller, "k").unwrap(), None);
    });
}

/// Tags, which nobody may write who is not given that right beside the one to store blobs.
#[test]
fn tags_are_read_and_go_where_they_are_refused() {
    let mock = Mock::new(|asked: &Asked| -> Said {
        match asked.method.as_str() {
            "GET" if asked.target.ends_with("?comp=tags") => said(
                200,
                "<?xml version=\"1.0\"?><Tags><TagSet><Tag><Key>a b</Key><Value>1</Value></Tag>\
                 <Tag><Key>c</Key><Value></Value></Tag></TagSet></Tags>",
            ),
            "PUT" if asked.field("x-ms-tags").is_empty() => said(201, ""),
            "PUT" => {
                let code = "AuthorizationPermissionMismatch";
                said(403, format!("<Error><Code>{code}</Code><Message>no</Message></Error>"))
            }
            _ => Said { fields: vec![("x-ms-tag-count".to_owned(), "2".to_owned())], ..said(200, "") },
        }
    });
    let store = store(Some(&mock.url), &[("AZURE_STORAGE_KEY", KEY)]);
    with_caller(store.authorizer(), |caller| {
        assert!(store.look(caller, "k", None, None).unwrap().unwrap().has_tags());
        let tags = store.tags_of(caller, "k", None).unwrap();
        assert_eq!(tags, [("a b", "1"), ("c", "")].map(|(name, value)| (name.to_owned(), value.to_owned())));
        let mut attributes = Attributes { tags, tags_may_go: true, ..Attributes::default() };
        for may_go in [true, false] {
            attributes.tags_may_go = may_go;
            let object = Object { key: "k", attributes: &attributes, condition: &Condition::None };
            let mut content = weir_get::http::call::AtHand::new(b"content");
            assert_eq!(store.put(caller, &object, None, &mut content).is_ok(), may_go);
        }
    });
    let puts: Vec<Asked> = mock.asked().into_iter().filter(|asked| asked.method == "PUT").collect();
    assert_eq!(puts.len(), 3);
    assert!(puts.iter().all(|put| put.body == "content"), "{puts:?}");
    assert_eq!(puts[0].field("x-ms-tags"), "a%20b=1&c=");
}

/// A folder has a head as an empty blob has one, and is none.
#[test]
fn a_folder_is_no_blob() {
    let mock = Mock::new(|asked: &Asked| -> Said {
        let field = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let fields = match asked.target.as_str() {
            "/acc/c/hierarchy" => field("x-ms-resource-type", "directory"),
            "/acc/c/file" => field("x-ms-resource-type", "file"),
            // Of an account without a hierarchy: a blob of no bytes that programs take for a folder.
            _ => field("x-ms-meta-hdi_isfolder", "true"),
        };
        Said { fields, ..said(200, "") }
    });
    let store = store(Some(&mock.url), &[("AZURE_STORAGE_KEY", KEY)]);
    with_caller(store.authorizer(), |caller| {
        for (key, is_blob) in [("hierarchy", false), ("file", true), ("marker", true)] {
            assert_eq!(store.look(caller, key, None, None).unwrap().is_some(), is_blob, "{key}");
        }
    });
}

/// Without a word on its state only 201 is a success, and a word on another copy is none.
#[test]
fn a_copy_that_was_pending_ends_by_a_word_alone() {
    let silent = "does not say what became of the copy";
    for (status, first, (then, id), says) in [
        (201, None, (None, "1"), ""),
        (202, Some("pending"), (Some("success"), "1"), ""),
        (202, None, (Some("success"), "1"), ""),
        (202, None, (None, "1"), silent),
        (202, Some("pending"), (None, "1"), silent),
        (202, Some("pending"), (Some("success"), "2"), "is of another copy"),
    ] {
        let mock = Mock::new(move |asked: &Asked| -> Said {
            let is_first = asked.method == "PUT";
            assert_eq!(asked.field("if-none-match"), if is_first { "*" } else { "" });
            let (status, word, id) = if is_first { (status, first, "1") } else { (200, then, id) };
            let text = |name: &str, text: &str| (name.to_owned(), text.to_owned());
            let mut fields = vec![text("x-ms-copy-id", id), text("x-ms-copy-progress", "5/7")];
            fields.extend(word.map(|word| text("x-ms-copy-status", word)));
            Said { fields, ..said(status, "") }
        });
        let store = store(Some(&mock.url), &[("AZURE_STORAGE_KEY", KEY)]);
        let from = Listed { key: "from".to_owned(), ..Listed::default() };
        with_caller(store.authorizer(), |caller| {
            let heard = parking_lot::Mutex::new(0_u64);
            let place = ("to", &Condition::Absent);
            let copied = store.copy(caller, "c", &from, place, &|bytes| *heard.lock() += bytes);
            match says {
                "" => {
                    copied.unwrap();
                    assert_eq!(heard.into_inner(), if status == 201 { 0 } else { 5 });
                }
                says => assert!(copied.unwrap_err().to_string().contains(says)),
            }
        });
    }
}

#[test]
fn what_is_refused_says_who_asked() {
    let store = store(None, &[("AZURE_STORAGE_KEY", KEY)]);
    let url = store.object("k", None).unwrap();
    store.authorizer.signed("GET", &url, Vec::new()).unwrap();
    let text = b"HTTP/1.1 403 X\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n";
    let (head, _) = weir_http::head::parse_response_to("GET", text).unwrap().unwrap();
    let said = store.authorizer.explains(&url, &head, Some("AuthenticationFailed: no")).unwrap();
    assert!(
        said.contains("asked as the key of the account acc of the environment (AZURE_STORAGE_KEY)"),
        "{said}"
    );
    assert!(said.contains("ahead of the store's; set it"), "{said}");
    assert_eq!(store.authorizer.mends(&url, &head, None).unwrap(), Mend::No);
}

#[test]
fn what_is_to_be_asked_for_later_is_named() {
    let fields = || vec![("Retry-After".to_owned(), "7200".to_owned())];
    let mock = Mock::new(move |_: &Asked| Said { fields: fields(), ..said(503, "") });
    let store = store(Some(&mock.url), &[("AZURE_STORAGE_KEY", KEY)]);
    with_caller(store.authorizer(), |caller| {
        let error = store.look(caller, "k", None, None).unwrap_err();
        assert!(error.is_for_later() && error.to_string().contains("cannot look at az://"), "{error}");
        let error = store.stored(caller, "k").unwrap_err();
        assert!(error.is_for_later() && error.to_string().contains("cannot ask for az://"), "{error}");
    });
}
