//! A bucket that can be read and listed, in every order and with every fault that a list can have.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use weir_codec::Algorithm;

use super::server::{Request, Server, Wire};
use super::{Sandbox, Weir};

/// How a list is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// By ListObjectsV2, in order.
    InOrder,
    /// Backwards, and each page's keys turned round.
    Disordered,
    /// Each page ends in its middle.
    Cut,
    /// The second page's token is the first one's.
    Repeated,
    /// There is more, and no token.
    NoToken,
    /// As [`Manner::InOrder`], after two refusals.
    SlowDown,
    /// Version 1 is answered, whatever was asked for.
    V1,
    /// What asks for version 2 is refused.
    RefusesV2,
    /// The second page is refused for good.
    SecondDenied,
}

/// See the module.
pub(crate) struct ListedBucket {
    pub(crate) server: Server,
    objects: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

impl ListedBucket {
    /// With these objects, in pages of `page`.
    pub(crate) fn start(objects: &[(&str, &[u8])], manner: Manner, page: usize) -> ListedBucket {
        let objects: BTreeMap<String, Vec<u8>> =
            objects.iter().map(|(key, bytes)| ((*key).to_owned(), bytes.to_vec())).collect();
        let objects = Arc::new(Mutex::new(objects));
        let (held, refusals) = (Arc::clone(&objects), AtomicUsize::new(2));
        let server = Server::start(move |request, wire| {
            let length = request.field("content-length").map_or(0, |text| text.parse().expect("a length"));
            wire.receive(length)?;
            let slows = manner == Manner::SlowDown
                && refusals.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
            match slows {
                true => refuse(wire, "503 Slow Down", "SlowDown"),
                false => answer(&held.lock().expect("objects"), manner, page, request, wire),
            }
        });
        ListedBucket { server, objects }
    }

    /// What it holds from now on.
    pub(crate) fn holds(&self, objects: &[(&str, &[u8])]) {
        let objects = objects.iter().map(|(key, bytes)| ((*key).to_owned(), bytes.to_vec())).collect();
        *self.objects.lock().expect("objects") = objects;
    }

    /// Objects that were fetched so far.
    pub(crate) fn fetched(&self) -> usize {
        let is_one = |target: &str| target.starts_with("/b/") && !target.starts_with("/b/?");
        let requests = self.server.requests();
        requests.iter().filter(|one| one.request.method == "GET" && is_one(&one.request.target)).count()
    }

    /// weir, to be run in the sandbox, with this for its store: the bucket is `b`.
    pub(crate) fn weir(&self, sandbox: &Sandbox, args: &[&str]) -> Weir {
        weir_of(sandbox, &self.server.url(""), args)
    }
}

/// weir with the store at `endpoint`.
pub(crate) fn weir_of(sandbox: &Sandbox, endpoint: &str, args: &[&str]) -> Weir {
    (sandbox.weir(super::WEIR, args))
        .env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", "a-secret-of-tests")
        .env("AWS_ENDPOINT_URL", endpoint.trim_end_matches('/'))
        .env("AWS_REGION", "us-east-1")
}

type Objects = BTreeMap<String, Vec<u8>>;

fn answer(
    objects: &Objects,
    manner: Manner,
    page: usize,
    request: &Request,
    wire: &mut Wire,
) -> io::Result<()> {
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let key = decoded(path.strip_prefix("/b/").unwrap_or_default());
    if request.method == "GET" && key.is_empty() {
        return list(objects, manner, page, query, wire);
    }
    let Some(bytes) = objects.get(&key) else { return refuse(wire, "404 Not Found", "NoSuchKey") };
    let tag = tag_of(bytes);
    let modified = "Thu, 26 Nov 2026 10:00:00 GMT";
    if request.method == "HEAD" {
        let length = bytes.len().to_string();
        let fields = [("Content-Length", length.as_str()), ("ETag", &tag), ("Last-Modified", modified)];
        return wire.head("200 OK", &fields);
    }
    wire.answer("200 OK", &[("ETag", &tag), ("Last-Modified", modified)], bytes)
}

fn refuse(wire: &mut Wire, status: &str, code: &str) -> io::Result<()> {
    let body = format!("<Error><Code>{code}</Code><Message>said by a test</Message></Error>");
    wire.answer(status, &[("Content-Type", "application/xml")], body.as_bytes())
}

pub(super) fn list(
    objects: &Objects,
    manner: Manner,
    page: usize,
    query: &str,
    wire: &mut Wire,
) -> io::Result<()> {
    let value = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(own, _)| *own == name).map(|(_, value)| decoded(value))
    };
    let is_v2 = value("list-type").is_some();
    if manner == Manner::RefusesV2 && is_v2 {
        return refuse(wire, "501 Not Implemented", "NotImplemented");
    }
    let (prefix, delimiter) = (value("prefix").unwrap_or_default(), value("delimiter"));
    let mut lines: Vec<(String, Option<&Vec<u8>>)> = Vec::new();
    for (key, bytes) in objects.iter().filter(|(key, _)| key.starts_with(&prefix)) {
        let folder = delimiter.as_ref().and_then(|delimiter| key[prefix.len()..].find(delimiter.as_str()));
        match folder.map(|at| key[..=prefix.len() + at].to_owned()) {
            Some(folder) if lines.last().is_some_and(|(last, _)| *last == folder) => {}
            Some(folder) => lines.push((folder, None)),
            None => lines.push((key.clone(), Some(bytes))),
        }
    }
    if manner == Manner::Disordered {
        lines.reverse();
    }
    let is_v1 = matches!(manner, Manner::V1 | Manner::RefusesV2);
    let first = match is_v1 {
        true => value("marker").map_or(0, |marker| lines.partition_point(|(key, _)| *key <= marker)),
        false => value("continuation-token")
            .map_or(0, |token| token.trim_start_matches('t').parse().expect("a token")),
    };
    if manner == Manner::SecondDenied && first > 0 {
        return refuse(wire, "403 Forbidden", "AccessDenied");
    }
    let mut some = lines[first.min(lines.len())..].iter().take(page).collect::<Vec<_>>();
    let is_truncated = first + some.len() < lines.len();
    if manner == Manner::Disordered && some.len() > 2 {
        some.swap(0, 1);
    }
    let mut body = "<?xml version=\"1.0\"?><ListBucketResult><EncodingType>url</EncodingType>".to_owned();
    for (key, bytes) in some {
        let key = encoded(key);
        body += &match bytes {
            None => format!("<CommonPrefixes><Prefix>{key}</Prefix></CommonPrefixes>"),
            Some(bytes) => format!(
                "<Contents><Key>{key}</Key><Size>{}</Size><LastModified>2026-11-26T10:00:00.000Z</LastModified>\
                 <ETag>{}</ETag><StorageClass>STANDARD</StorageClass></Contents>",
                bytes.len(),
                tag_of(bytes)
            ),
        };
    }
    body += &format!("<IsTruncated>{is_truncated}</IsTruncated>");
    let next = if manner == Manner::Repeated { page.min(1) } else { first + page };
    match (is_v1, is_truncated && manner != Manner::NoToken) {
        (true, _) => body += "<Marker></Marker>",
        (false, true) => {
            body += &format!("<KeyCount>1</KeyCount><NextContinuationToken>t{next}</NextContinuationToken>")
        }
        (false, false) => body += "<KeyCount>1</KeyCount>",
    }
    body += "</ListBucketResult>";
    if manner == Manner::Cut {
        body.truncate(body.len() / 2);
    }
    wire.answer("200 OK", &[("Content-Type", "application/xml")], body.as_bytes())
}

/// The tag of an object that came in one piece.
fn tag_of(bytes: &[u8]) -> String {
    let digest = Algorithm::MD5.of(bytes);
    format!("\"{}\"", digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                out.push(u8::from_str_radix(&text[at + 1..at + 3], 16).expect("two digits"));
                at += 3;
            }
            byte => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(out).expect("UTF-8")
}

fn encoded(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'/' => char::from(byte).to_string(),
        b' ' => "+".to_owned(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(letter).collect()
}
