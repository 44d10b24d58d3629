//! A bucket `src` of Google's that can be read and listed, as its two interfaces give it.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use weir_codec::Algorithm;

use super::server::{Request, Server, Wire};
use super::{Object, base64, pattern};

/// A bucket `src` of Google's that can be read.
#[derive(Default)]
pub(crate) struct Google {
    pub(crate) objects: BTreeMap<String, Object>,
    /// What its list and its looks say of all of an object, in place of the truth.
    pub(crate) crc32c: Option<String>,
    /// After so many requests for bytes each object is another one.
    pub(crate) changes_after: Option<usize>,
    /// Bytes a second.
    pub(crate) rate: Option<u64>,
    /// The objects are kept in gzip, and decompressed for whoever does not take it.
    pub(crate) is_gzip: bool,
}

impl Google {
    /// With these objects of so many bytes.
    pub(crate) fn with(objects: &[(&str, usize)]) -> Google {
        let objects = objects.iter().map(|(key, length)| {
            let mut object = Object::new(*length);
            object.bytes = Arc::new(pattern(*length, *length as u64));
            ((*key).to_owned(), object)
        });
        Google { objects: objects.collect(), ..Google::default() }
    }

    fn item(&self, key: &str) -> Option<String> {
        let object = self.objects.get(key)?;
        let crc32c = self.crc32c.clone().unwrap_or_else(|| base64(&Algorithm::CRC32C.of(&object.bytes)));
        let mut item = serde_json::json!({
            "name": key, "size": object.bytes.len().to_string(), "updated": "2026-11-26T10:00:00.0Z",
            "crc32c": crc32c, "generation": "17", "contentType": "text/x-of-tests",
            "metadata": {"owner": "me", "mtime": "1700000000.5"},
        });
        if self.is_gzip {
            item["contentEncoding"] = "gzip".into();
        }
        Some(item.to_string())
    }

    /// Answers a request.
    pub(crate) fn serve(&self, fetched: &AtomicUsize, request: &Request, wire: &mut Wire) -> io::Result<()> {
        let path = request.path().to_owned();
        if path == "/storage/v1/b/src/o" {
            let (_, prefix) = request.target.split_once("prefix=").unwrap_or_default();
            let prefix = prefix.split('&').next().unwrap_or_default().replace("%2F", "/");
            let keys = self.objects.keys().filter(|key| key.starts_with(&prefix));
            let items: Vec<String> = keys.filter_map(|key| self.item(key)).collect();
            return wire.answer("200 OK", &[], format!("{{\"items\":[{}]}}", items.join(",")).as_bytes());
        }
        let key = |text: &str| text.replace("%2F", "/").replace("%20", " ");
        if let Some(rest) = path.strip_prefix("/storage/v1/b/src/o/") {
            return match self.item(&key(rest)) {
                Some(item) => wire.answer("200 OK", &[], item.as_bytes()),
                None => wire.answer("404 Not Found", &[], b"{}"),
            };
        }
        let Some(object) = path.strip_prefix("/src/").and_then(|rest| self.objects.get(&key(rest))) else {
            return wire.answer("404 Not Found", &[], b"<Error><Code>NoSuchKey</Code></Error>");
        };
        if self.is_gzip && request.field("accept-encoding").is_none_or(|codings| !codings.contains("gzip")) {
            return wire.answer("200 OK", &[("x-goog-stored-content-encoding", "gzip")], b"decompressed");
        }
        let count = fetched.fetch_add(1, Relaxed);
        let object = match self.changes_after {
            Some(after) if count >= after => object.changed(),
            _ => object.clone(),
        };
        let object = if let Some(rate) = self.rate { object.rate(rate) } else { object };
        object.serve(request, wire)
    }

    /// On a port of its own.
    pub(crate) fn start(self) -> Server {
        let fetched = AtomicUsize::new(0);
        Server::start(move |request, wire| self.serve(&fetched, request, wire))
    }
}
