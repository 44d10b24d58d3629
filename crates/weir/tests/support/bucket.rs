//! A bucket of a store that speaks as S3 does, in memory, and that can misbehave: what it is asked passes a
//! hook first. It checks what it is sent by the digests that come with it.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use weir_codec::Algorithm;

use super::listed::{Manner, decoded, list};
use super::server::{Fields, Request, Server, Wire};
use super::{Object, Sandbox, Weir, base64};

/// Objects of a page of a list: fewer than a tree of tests has.
const PAGE: usize = 50;

/// What a hook does to a request.
pub(crate) enum Fault {
    /// It is answered so, and nothing else happens.
    Answer(&'static str, String),
    /// The connection breaks after so many bytes of its body.
    CutAfter(usize),
    /// It is done, and the answer has no ETag.
    NoTag,
    /// Nothing happens until who asked has gone.
    Hang,
    /// It is done, and the connection breaks before the answer.
    LoseAnswer,
    /// A byte of its body, or of the object that is given, arrives as another one.
    Damage,
    /// Its body is taken, or given, at so many bytes a second.
    Slow(u64),
    /// Its body is taken at so many bytes a second of all requests together; the next are due then.
    Shared(Arc<Mutex<Instant>>, u64),
    /// Its answer takes this long.
    Late(Duration),
    /// It is done, and the answer waits until this is set.
    Held(Arc<AtomicBool>),
}

/// Answers what a server is asked.
pub(crate) type Handler = Box<dyn Fn(&Request, &mut Wire) -> io::Result<()> + Send + Sync>;

type Hook = dyn FnMut(&Request) -> Option<Fault> + Send;

/// An object.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stored {
    pub(crate) bytes: Arc<Vec<u8>>,
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
    /// What comes is taken as it comes: no digest of it takes time.
    pub(crate) trusts: bool,
    /// It tells no digest of what it holds.
    pub(crate) keeps_no_sums: bool,
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
        Bucket::start_by(|handler| Server::start(handler))
    }

    /// An empty one behind a server that `start` makes.
    pub(crate) fn start_by(start: impl FnOnce(Handler) -> Server) -> Bucket {
        let holds = Arc::new(Mutex::new(Holds::default()));
        let shared = Arc::clone(&holds);
        let server = start(Box::new(move |request, wire| serve(&shared, request, wire)));
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

    /// Has it hold these bytes under `key`, as if they had come in one request.
    pub(crate) fn hold(&self, key: &str, bytes: Vec<u8>) {
        let tag = tag_of(&bytes);
        let stored = Stored { bytes: Arc::new(bytes), tag, fields: Fields::new() };
        self.holds().objects.insert(key.to_owned(), stored);
    }

    /// The bytes of an object.
    #[track_caller]
    pub(crate) fn bytes(&self, key: &str) -> Vec<u8> {
        let holds = self.holds();
        let there: Vec<&String> = holds.objects.keys().collect();
        holds.objects.get(key).unwrap_or_else(|| panic!("no {key}; there: {there:?}")).bytes.to_vec()
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
        Some(Fault::Hang) => {
            wire.wait_for_close()?;
            return super::over();
        }
        Some(Fault::Slow(pace)) => wire.pace = Some(pace),
        Some(Fault::Shared(ref due, pace)) => wire.shared = Some((Arc::clone(due), pace)),
        _ => {}
    }
    let mut body = wire.receive(length)?;
    (wire.pace, wire.shared) = (None, None);
    if !matches!(fault, Some(Fault::Answer(..)))
        && let Some(done) = gives(holds, request, wire, &fault)
    {
        return done;
    }
    if let (Some(Fault::Damage), Some(byte)) = (&fault, body.first_mut()) {
        *byte ^= 1;
    }
    let (status, fields, text) = match fault {
        Some(Fault::Answer(status, text)) => (status, Vec::new(), text),
        ref other => {
            let done = holds.lock().expect("an unpoisoned bucket").does(request, body);
            match other {
                Some(Fault::LoseAnswer) => return wire.reset(),
                Some(Fault::Late(span)) => std::thread::sleep(*span),
                Some(Fault::Held(go_on)) => super::wait_for("the test", || go_on.load(Relaxed)),
                _ => {}
            }
            let (status, mut fields, text) = done;
            if matches!(other, Some(Fault::NoTag)) {
                fields.retain(|(name, _)| name != "ETag");
            }
            (status, fields, text)
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

/// Answers with an object, or a list of them; `None`: something else is asked for.
fn gives(
    holds: &Mutex<Holds>,
    request: &Request,
    wire: &mut Wire,
    fault: &Option<Fault>,
) -> Option<io::Result<()>> {
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let is_other = query.split('&').any(|pair| pair.starts_with("upload") || pair.starts_with("tagging"));
    if request.method != "GET" || is_other {
        return None;
    }
    if let Some(Fault::Late(span)) = fault {
        std::thread::sleep(*span);
    }
    let key = path.trim_start_matches('/').split_once('/').map_or("", |(_, key)| key);
    if key.is_empty() {
        let objects = holds.lock().expect("an unpoisoned bucket").objects.clone();
        let objects =
            objects.into_iter().map(|(key, stored)| (decoded(&key), stored.bytes.to_vec())).collect();
        return Some(list(&objects, Manner::InOrder, PAGE, query, wire));
    }
    let stored = holds.lock().expect("an unpoisoned bucket").objects.get(key).cloned()?;
    let rate = match fault {
        Some(Fault::Slow(pace)) => Some(*pace),
        _ => None,
    };
    let fields = own_fields(&stored.fields);
    let bytes = match fault {
        Some(Fault::Damage) => damaged(&stored.bytes, request.start()),
        _ => stored.bytes,
    };
    let object = Object { bytes, etag: Some(stored.tag), rate, fields, ..Object::new(0) };
    Some(object.serve(request, wire))
}

/// The same with another byte there.
fn damaged(bytes: &[u8], at: u64) -> Arc<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    if let Some(byte) = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at)) {
        *byte ^= 1;
    }
    Arc::new(bytes)
}

/// What its user wrote down with an object.
fn own_fields(fields: &Fields) -> Fields {
    let own = |(name, _): &&(String, String)| {
        let name = name.to_ascii_lowercase();
        name.starts_with("x-amz-meta-") || matches!(name.as_str(), "content-language" | "expires")
    };
    fields.iter().filter(own).cloned().collect()
}

/// The tags that an object came with.
fn tags_of(fields: &Fields) -> Vec<(String, String)> {
    let all = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-amz-tagging"));
    let pairs = all.into_iter().flat_map(|(_, pairs)| pairs.split('&'));
    let pairs = pairs.filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
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
        if !self.trusts && !is_whole(request, &body) {
            return error("400 Bad Request", "BadDigest");
        }
        let of = |name: &str| query.get(name).cloned();
        match (request.method.as_str(), of("uploadId")) {
            ("POST", None) if query.contains_key("uploads") => self.begin(key, request),
            ("GET", None) if query.contains_key("uploads") => {
                self.list_uploads(&of("prefix").map_or_else(String::new, |text| decoded(&text)))
            }
            ("GET", None) if query.contains_key("tagging") => self.tagging(&key),
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
            ("POST", None) if query.contains_key("delete") => self.delete(&String::from_utf8_lossy(&body)),
            ("PUT", None) if request.field("x-amz-copy-source").is_some() => self.copy(key, request),
            ("PUT", None) => self.put(key, request, body),
            ("HEAD", None) => match self.objects.get(&key) {
                Some(stored) => {
                    let mut fields = vec![
                        field("ETag", &stored.tag),
                        field("Content-Length", stored.bytes.len().to_string()),
                    ];
                    if !self.keeps_no_sums {
                        let sum = base64(&Algorithm::CRC64NVME.of(&stored.bytes));
                        fields.push(field("x-amz-checksum-crc64nvme", sum));
                    }
                    fields.extend(own_fields(&stored.fields));
                    let tags = tags_of(&stored.fields).len();
                    fields.extend((tags > 0).then(|| field("x-amz-tagging-count", tags.to_string())));
                    ("200 OK", fields, String::new())
                }
                None => ("404 Not Found", Vec::new(), String::new()),
            },
            _ => error("501 Not Implemented", "NotImplemented"),
        }
    }

    fn tag(&self, bytes: &[u8]) -> String {
        if self.trusts { format!("\"{:032x}-1\"", bytes.len()) } else { tag_of(bytes) }
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
        let tag = self.tag(&bytes);
        let fields = request.fields.clone();
        self.objects.insert(key, Stored { bytes: Arc::new(bytes), tag: tag.clone(), fields });
        ("200 OK", vec![field("ETag", tag)], String::new())
    }

    fn tagging(&self, key: &str) -> Done {
        let Some(stored) = self.objects.get(key) else { return error("404 Not Found", "NoSuchKey") };
        let tags: String = tags_of(&stored.fields)
            .into_iter()
            .map(|(name, value)| format!("<Tag><Key>{name}</Key><Value>{value}</Value></Tag>"))
            .collect();
        ("200 OK", Vec::new(), format!("<Tagging><TagSet>{tags}</TagSet></Tagging>"))
    }

    /// What a list names.
    fn delete(&mut self, list: &str) -> Done {
        for key in list.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next()) {
            self.objects.retain(|own, _| decoded(own) != key);
        }
        ("200 OK", Vec::new(), "<DeleteResult></DeleteResult>".to_owned())
    }

    /// What is at `x-amz-copy-source`, `BUCKET/KEY`, under another key.
    fn copy(&mut self, key: String, request: &Request) -> Done {
        let source = request.field("x-amz-copy-source").unwrap_or_default().trim_start_matches('/');
        let from = source.split_once('/').map_or("", |(_, key)| key);
        if self.refuses(&key, request) {
            return error("412 Precondition Failed", "PreconditionFailed");
        }
        let Some(stored) = self.objects.get(from).cloned() else {
            return error("404 Not Found", "NoSuchKey");
        };
        let text = format!("<CopyObjectResult><ETag>{}</ETag></CopyObjectResult>", stored.tag);
        self.objects.insert(key, stored);
        ("200 OK", Vec::new(), text)
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
        let tag = self.tag(&bytes);
        let Some(upload) = self.uploads.get_mut(id) else { return error("404 Not Found", "NoSuchUpload") };
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
            if !self.trusts {
                tags.extend(Algorithm::MD5.of(part));
            }
            bytes.extend_from_slice(part);
            last = number;
        }
        if !self.trusts && !is_whole(request, &bytes) && request.field("x-amz-checksum-crc64nvme").is_some() {
            return error("400 Bad Request", "BadDigest");
        }
        let tag = format!("\"{}-{}\"", weir_codec::hex::encode(&Algorithm::MD5.of(&tags)), asked.len());
        self.uploads.remove(id);
        let bytes = Arc::new(bytes);
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
