//! A bucket of a store that speaks as S3 does, in memory, and that can misbehave: what it is asked passes a
//! hook first. It checks what it is sent by the digests that come with it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use weir_codec::Algorithm;

use super::server::{Fields, Request, Server, Wire};
use super::{Object, Sandbox, Weir, base64};

/// What a hook does to a request.
pub(crate) enum Fault {
    /// It is answered so, and nothing else happens.
    Answer(&'static str, String),
    /// The connection breaks after so many bytes of its body.
    CutAfter(usize),
    /// It is done, and the connection breaks before the answer.
    LoseAnswer,
    /// A byte of its body arrives as another one.
    Damage,
    /// Its body is taken at so many bytes a second.
    Slow(u64),
    /// Its answer takes this long.
    Late(Duration),
}

type Hook = dyn FnMut(&Request) -> Option<Fault> + Send;

/// An object.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stored {
    pub(crate) bytes: Vec<u8>,
    pub(crate) tag: String,
    pub(crate) fields: Fields,
}

/// An upload that has not ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Upload {
    pub(crate) key: String,
    pub(crate) parts: BTreeMap<u32, (Vec<u8>, String)>,
    pub(crate) fields: Fields,
}

/// What the bucket holds.
#[derive(Default)]
pub(crate) struct Holds {
    pub(crate) objects: BTreeMap<String, Stored>,
    pub(crate) uploads: BTreeMap<String, Upload>,
    next: u32,
    hook: Option<Box<Hook>>,
}

/// See the module.
pub(crate) struct Bucket {
    pub(crate) server: Server,
    holds: Arc<Mutex<Holds>>,
}

impl Bucket {
    /// An empty one.
    pub(crate) fn start() -> Bucket {
        let holds = Arc::new(Mutex::new(Holds::default()));
        let shared = Arc::clone(&holds);
        let server = Server::start(move |request, wire| serve(&shared, request, wire));
        Bucket { server, holds }
    }

    /// Asked of each request from now on, before anything else.
    pub(crate) fn hook(&self, hook: impl FnMut(&Request) -> Option<Fault> + Send + 'static) {
        self.holds().hook = Some(Box::new(hook));
    }

    /// No hook any more.
    pub(crate) fn heals(&self) {
        self.holds().hook = None;
    }

    /// What it holds now.
    pub(crate) fn holds(&self) -> MutexGuard<'_, Holds> {
        self.holds.lock().expect("an unpoisoned bucket")
    }

    /// The bytes of an object.
    #[track_caller]
    pub(crate) fn bytes(&self, key: &str) -> Vec<u8> {
        let holds = self.holds();
        let there: Vec<&String> = holds.objects.keys().collect();
        holds.objects.get(key).unwrap_or_else(|| panic!("no {key}; there: {there:?}")).bytes.clone()
    }

    /// `weir put`, to be run in the sandbox, with credentials for it.
    pub(crate) fn put(&self, sandbox: &Sandbox, args: &[&str]) -> Weir {
        put(sandbox, &self.server.url(""), args)
    }
}

/// `weir put` to the store at `endpoint`.
pub(crate) fn put(sandbox: &Sandbox, endpoint: &str, args: &[&str]) -> Weir {
    (sandbox.weir(super::WEIR, ["put"]).args(args))
        .env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", "a-secret-of-tests")
        .env("AWS_ENDPOINT_URL", endpoint.trim_end_matches('/'))
        .env("AWS_REGION", "us-east-1")
}

fn serve(holds: &Mutex<Holds>, request: &Request, wire: &mut Wire) -> io::Result<()> {
    let length = request.field("content-length").map_or(0, |text| text.parse().expect("a length"));
    let fault = {
        let mut holds = holds.lock().expect("an unpoisoned bucket");
        holds.hook.as_mut().and_then(|hook| hook(request))
    };
    match fault {
        Some(Fault::CutAfter(bytes)) => {
            wire.receive(bytes.min(length))?;
            return wire.reset();
        }
        Some(Fault::Slow(pace)) => wire.pace = Some(pace),
        _ => {}
    }
    let mut body = wire.receive(length)?;
    wire.pace = None;
    if let (Some(Fault::Damage), Some(byte)) = (&fault, body.first_mut()) {
        *byte ^= 1;
    }
    if let (None, Some(stored)) = (&fault, holds.lock().expect("an unpoisoned bucket").fetched(request)) {
        let object = Object { bytes: Arc::new(stored.bytes), ..Object::new(0) };
        return object.etag(Some(&stored.tag)).serve(request, wire);
    }
    let (status, fields, text) = match fault {
        Some(Fault::Answer(status, text)) => (status, Vec::new(), text),
        ref other => {
            let done = holds.lock().expect("an unpoisoned bucket").does(request, body);
            match other {
                Some(Fault::LoseAnswer) => return wire.reset(),
                Some(Fault::Late(span)) => std::thread::sleep(*span),
                _ => {}
            }
            done
        }
    };
    let mut fields: Vec<(&str, String)> =
        fields.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    if !fields.iter().any(|(name, _)| *name == "Content-Length") {
        fields.push(("Content-Length", text.len().to_string()));
    }
    wire.head(status, &fields)?;
    if request.method == "HEAD" { Ok(()) } else { wire.body(text.as_bytes()) }
}

type Done = (&'static str, Fields, String);

fn error(status: &'static str, code: &str) -> Done {
    (
        status,
        Vec::new(),
        format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>of tests</Message></Error>"),
    )
}

fn field(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

fn tag_of(bytes: &[u8]) -> String {
    format!("\"{}\"", weir_codec::hex::encode(&Algorithm::MD5.of(bytes)))
}

impl Holds {
    fn does(&mut self, request: &Request, body: Vec<u8>) -> Done {
        let path = request.path().trim_start_matches('/');
        let key = path.split_once('/').map_or("", |(_, key)| key).to_owned();
        let query: BTreeMap<String, String> =
            request.target.split_once('?').map_or_else(BTreeMap::new, |(_, query)| {
                let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
                pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
            });
        if !is_whole(request, &body) {
            return error("400 Bad Request", "BadDigest");
        }
        let of = |name: &str| query.get(name).cloned();
        match (request.method.as_str(), of("uploadId")) {
            ("POST", None) if query.contains_key("uploads") => self.begin(key, request),
            ("GET", None) if query.contains_key("uploads") => {
                self.list_uploads(&of("prefix").unwrap_or_default())
            }
            ("PUT", Some(id)) => {
                self.part(&id, of("partNumber").and_then(|text| text.parse().ok()).unwrap_or(0), body)
            }
            ("GET", Some(id)) => {
                self.list_parts(&id, of("part-number-marker").and_then(|text| text.parse().ok()).unwrap_or(0))
            }
            ("DELETE", Some(id)) => match self.uploads.remove(&id) {
                Some(_) => ("204 No Content", Vec::new(), String::new()),
                None => error("404 Not Found", "NoSuchUpload"),
            },
            ("POST", Some(id)) => self.complete(&id, request, &String::from_utf8_lossy(&body)),
            ("PUT", None) => self.put(key, request, body),
            ("HEAD", None) => match self.objects.get(&key) {
                Some(stored) => {
                    let mut fields = vec![
                        field("ETag", &stored.tag),
                        field("Content-Length", stored.bytes.len().to_string()),
                    ];
                    let sum = base64(&Algorithm::CRC64NVME.of(&stored.bytes));
                    fields.push(field("x-amz-checksum-crc64nvme", sum));
                    ("200 OK", fields, String::new())
                }
                None => ("404 Not Found", Vec::new(), String::new()),
            },
            ("GET", None) if query.contains_key("list-type") => self.list(&of("prefix").unwrap_or_default()),
            _ => error("501 Not Implemented", "NotImplemented"),
        }
    }

    /// All of it, in one page; keys and prefix as URLs have them.
    fn list(&self, prefix: &str) -> Done {
        let prefix = prefix.replace("%2F", "/");
        let entries = self.objects.iter().filter(|(key, _)| key.starts_with(&prefix)).map(|(key, stored)| {
            format!(
                "<Contents><Key>{key}</Key><Size>{}</Size><LastModified>2026-11-26T12:00:00.000Z</LastModified>\
                 <ETag>{}</ETag></Contents>",
                stored.bytes.len(),
                stored.tag.replace('"', "&quot;")
            )
        });
        let entries: String = entries.collect();
        let text = format!(
            "<ListBucketResult><EncodingType>url</EncodingType><KeyCount>1</KeyCount>\
             <IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
        );
        ("200 OK", Vec::new(), text)
    }

    /// The object that is asked for.
    fn fetched(&self, request: &Request) -> Option<Stored> {
        let is_one = request.method == "GET" && !request.target.contains('?');
        let key = request.path().trim_start_matches('/').split_once('/').map(|(_, key)| key)?;
        self.objects.get(key).filter(|_| is_one).cloned()
    }

    fn refuses(&self, key: &str, request: &Request) -> bool {
        let there = self.objects.get(key);
        let absent = request.field("if-none-match").is_some_and(|_| there.is_some());
        let other = request.field("if-match").is_some_and(|tag| there.is_none_or(|there| there.tag != tag));
        absent || other
    }

    fn put(&mut self, key: String, request: &Request, bytes: Vec<u8>) -> Done {
        if self.refuses(&key, request) {
            return error("412 Precondition Failed", "PreconditionFailed");
        }
        let tag = tag_of(&bytes);
        let fields = request.fields.clone();
        self.objects.insert(key, Stored { bytes, tag: tag.clone(), fields });
        ("200 OK", vec![field("ETag", tag)], String::new())
    }

    fn begin(&mut self, key: String, request: &Request) -> Done {
        self.next += 1;
        let id = format!("upload-{}", self.next);
        let text = format!(
            "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
        );
        self.uploads.insert(id, Upload { key, fields: request.fields.clone(), ..Upload::default() });
        ("200 OK", Vec::new(), text)
    }

    fn part(&mut self, id: &str, number: u32, bytes: Vec<u8>) -> Done {
        let Some(upload) = self.uploads.get_mut(id) else { return error("404 Not Found", "NoSuchUpload") };
        let tag = tag_of(&bytes);
        upload.parts.insert(number, (bytes, tag.clone()));
        ("200 OK", vec![field("ETag", tag)], String::new())
    }

    /// In pages of three, out of order.
    fn list_parts(&self, id: &str, after: u32) -> Done {
        let Some(upload) = self.uploads.get(id) else { return error("404 Not Found", "NoSuchUpload") };
        let all: Vec<_> = upload.parts.iter().filter(|(number, _)| **number > after).collect();
        let page: String = all
            .iter()
            .take(3)
            .rev()
            .map(|(number, (bytes, tag))| {
                let size = bytes.len();
                let tag = tag.replace('"', "&quot;");
                format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag><Size>{size}</Size></Part>")
            })
            .collect();
        let more = all.len() > 3;
        (
            "200 OK",
            Vec::new(),
            format!("<ListPartsResult><IsTruncated>{more}</IsTruncated>{page}</ListPartsResult>"),
        )
    }

    fn list_uploads(&self, prefix: &str) -> Done {
        let all: String = self.uploads.iter().filter(|(_, upload)| upload.key.starts_with(prefix)).map(|(id, upload)| {
            let key = &upload.key;
            format!("<Upload><Key>{key}</Key><UploadId>{id}</UploadId><Initiated>2026-01-01T00:00:00Z</Initiated></Upload>")
        }).collect();
        (
            "200 OK",
            Vec::new(),
            format!(
                "<ListMultipartUploadsResult><EncodingType>url</EncodingType>{all}</ListMultipartUploadsResult>"
            ),
        )
    }

    fn complete(&mut self, id: &str, request: &Request, list: &str) -> Done {
        let Some(upload) = self.uploads.get(id).cloned() else {
            return error("404 Not Found", "NoSuchUpload");
        };
        if self.refuses(&upload.key, request) {
            return error("412 Precondition Failed", "PreconditionFailed");
        }
        let (mut bytes, mut tags, mut last) = (Vec::new(), Vec::new(), 0);
        let asked: Vec<&str> = list.split("<Part>").skip(1).collect();
        for (index, part) in asked.iter().enumerate() {
            let between = |from: &str, to: &str| {
                part.split_once(from).and_then(|(_, rest)| rest.split_once(to)).map(|(text, _)| text)
            };
            let number: u32 =
                between("<PartNumber>", "<").and_then(|text| text.parse().ok()).expect("a number");
            let tag = between("<ETag>", "</ETag>").expect("a tag").replace("&quot;", "\"");
            let there = upload.parts.get(&number).filter(|(_, own)| *own == tag && number > last);
            let Some((part, _)) = there else { return error("400 Bad Request", "InvalidPart") };
            if index + 1 < asked.len() && part.len() < 5 << 20 {
                return error("400 Bad Request", "EntityTooSmall");
            }
            tags.extend(Algorithm::MD5.of(part));
            bytes.extend_from_slice(part);
            last = number;
        }
        if !is_whole(request, &bytes) && request.field("x-amz-checksum-crc64nvme").is_some() {
            return error("400 Bad Request", "BadDigest");
        }
        let tag = format!("\"{}-{}\"", weir_codec::hex::encode(&Algorithm::MD5.of(&tags)), asked.len());
        self.uploads.remove(id);
        self.objects.insert(upload.key, Stored { bytes, tag: tag.clone(), fields: upload.fields });
        let tag = tag.replace('"', "&quot;");
        (
            "200 OK",
            Vec::new(),
            format!("<CompleteMultipartUploadResult><ETag>{tag}</ETag></CompleteMultipartUploadResult>"),
        )
    }
}

/// The digests of a request are those of its body. That of a completion is of the object.
fn is_whole(request: &Request, body: &[u8]) -> bool {
    let is_completion = request.method == "POST" && body.starts_with(b"<CompleteMultipartUpload");
    let matches = |name: &str, algorithm: Algorithm| {
        request.field(name).is_none_or(|said| said == base64(&algorithm.of(body)))
    };
    is_completion
        || matches("x-amz-checksum-crc64nvme", Algorithm::CRC64NVME) && matches("content-md5", Algorithm::MD5)
}
