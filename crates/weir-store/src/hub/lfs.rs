//! git-lfs: a pointer that stands in a repository for a large file, and the batch API that says where the
//! file is (docs/spec.md, docs/api/batch.md of git-lfs).
//!
//! An action's fields are for its own address; when that has expired, the server is asked for another one.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json as json_of;
use url::Url;
use weir_codec::digest::{Algorithm, Expected};
use weir_get::GetError;
use weir_get::http::authority::{Authorizer, Mend, is_authorized};
use weir_get::http::call::{AtHand, Call};
use weir_get::object::is_signed;
use weir_http::head::ResponseHead;
use weir_http::netrc::Login;
use weir_tree::Name;

use super::HubFile;
use super::asking::{Way, json};
use super::tokens::basic_of;
use crate::caller::{Caller, refusal};
use crate::credentials::Used;
use crate::error::StoreError;
use crate::refusal::as_get_error;

/// The most bytes of a pointer (docs/spec.md: "must be less than 1024 bytes").
pub const MAX_POINTER: u64 = 1024;

/// How it begins.
const FIRST: &str = "version https://git-lfs.github.com/spec/v1";

/// The type of the batch API's bodies.
const KIND: &str = "application/vnd.git-lfs+json";

/// The objects of one request: what git-lfs itself asks for at once.
const AT_ONCE: usize = 100;

/// The most bytes of an answer: an object with its action and its fields takes under 8 KiB.
const MOST: usize = AT_ONCE * (16 << 10);

/// What a pointer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer {
    /// SHA-256 of the file.
    pub digest: Expected,
    /// Its bytes.
    pub size: u64,
}

impl Pointer {
    /// The pointer that these bytes are; `None` of anything else.
    pub fn parse(bytes: &[u8]) -> Option<Pointer> {
        if bytes.len() as u64 > MAX_POINTER {
            return None;
        }
        let mut lines = std::str::from_utf8(bytes).ok()?.lines();
        lines.next().filter(|line| *line == FIRST)?;
        let pairs: HashMap<&str, &str> = lines.filter_map(|line| line.split_once(' ')).collect();
        let oid = pairs.get("oid")?.strip_prefix("sha256:")?;
        let digest = Expected::from_hex(Algorithm::SHA256, oid).ok()?;
        Some(Pointer { digest, size: pairs.get("size")?.parse().ok()? })
    }
}

/// A repository whose large files git-lfs keeps.
pub struct LfsServer {
    authorizer: Arc<LfsAuthorizer>,
}

/// The batch API's answer.
#[derive(Deserialize)]
struct Batch {
    #[serde(default)]
    transfer: String,
    #[serde(default)]
    objects: Vec<Answered>,
}

#[derive(Deserialize)]
struct Answered {
    oid: String,
    /// Its action needs no login beside its fields.
    #[serde(default)]
    authenticated: bool,
    actions: Option<Actions>,
    error: Option<Failed>,
}

#[derive(Deserialize)]
struct Actions {
    download: Option<Action>,
}

#[derive(Clone, Deserialize)]
struct Action {
    href: String,
    #[serde(default)]
    header: HashMap<String, String>,
}

#[derive(Deserialize)]
struct Failed {
    code: i64,
    #[serde(default)]
    message: String,
}

/// An object and how it is fetched now.
struct Known {
    pointer: Pointer,
    fields: Vec<(String, String)>,
}

impl LfsServer {
    /// That of the repository `repo` (`https://HOST/ORG/REPO.git`).
    pub fn new(repo: &Url, login: Option<Login>, way: Way) -> Result<LfsServer, StoreError> {
        let mut base = repo.clone();
        let no_login = base.set_username("").and_then(|()| base.set_password(None));
        if no_login.is_err() || !matches!(repo.scheme(), "http" | "https") {
            return Err(StoreError::Usage(format!(
                "cannot ask {repo} for objects of git-lfs: expected the repository's http or https address"
            )));
        }
        let path = repo.path().trim_end_matches('/');
        let dot_git = if path.ends_with(".git") { "" } else { ".git" };
        base.set_query(None);
        base.set_fragment(None);
        base.set_path(&format!("{path}{dot_git}/info/lfs"));
        let authorizer = LfsAuthorizer { base, login, way, known: Mutex::default(), used: Used::default() };
        Ok(LfsServer { authorizer: Arc::new(authorizer) })
    }

    /// Who speaks for requests to it, and to where its objects are.
    pub fn authorizer(&self) -> Arc<dyn Authorizer> {
        Arc::clone(&self.authorizer) as Arc<dyn Authorizer>
    }

    /// Where the objects of these pointers are, each by its name, in their order; an error is one object's.
    pub fn list(
        &self,
        caller: &mut Caller<'_>,
        pointers: &[(Name, Pointer)],
    ) -> Result<Vec<Result<HubFile, StoreError>>, StoreError> {
        let mut files = Vec::with_capacity(pointers.len());
        for some in pointers.chunks(AT_ONCE) {
            let asked: Vec<&Pointer> = some.iter().map(|(_, pointer)| pointer).collect();
            let found = self.authorizer.batch(caller, &asked)?;
            files.extend(some.iter().zip(found).map(|((name, pointer), url)| {
                Ok(HubFile {
                    url: url?,
                    name: name.clone(),
                    size: Some(pointer.size),
                    digest: Some(pointer.digest.clone()),
                    id: pointer.digest.hex(),
                })
            }));
        }
        Ok(files)
    }
}

/// Shows the login to the API, and each object's own fields to where that is.
struct LfsAuthorizer {
    base: Url,
    login: Option<Login>,
    way: Way,
    known: Mutex<HashMap<Url, Known>>,
    /// The action's fields that each lane sent last.
    used: Used<Vec<(String, String)>>,
}

impl LfsAuthorizer {
    /// The addresses of these objects, in their order.
    fn batch(
        &self,
        caller: &mut Caller<'_>,
        asked: &[&Pointer],
    ) -> Result<Vec<Result<Url, StoreError>>, StoreError> {
        let host = self.base.host_str().unwrap_or_default();
        let what = format!("ask {host} for objects of git-lfs");
        let cannot = |why: String| StoreError::Answer { what: what.clone(), why };
        let objects: Vec<_> =
            asked.iter().map(|one| json_of!({"oid": one.digest.hex(), "size": one.size})).collect();
        let body = json_of!({
            "operation": "download", "transfers": ["basic"], "hash_algo": "sha256", "objects": objects,
        });
        let body = body.to_string();
        let mut url = self.base.clone();
        url.set_path(&format!("{}/objects/batch", self.base.path()));
        let mut fields =
            vec![("accept".to_owned(), KIND.to_owned()), ("content-type".to_owned(), KIND.to_owned())];
        fields.extend(self.login.iter().map(|login| ("authorization".to_owned(), basic_of(login))));
        let call = Call { method: "POST", url, fields, most: MOST, asks_first: false };
        let reply = caller.ask_to(&what, &call, &mut AtHand::new(body.as_bytes()))?;
        if !(200..300).contains(&reply.head.status) {
            return Err(refusal(&what, &call, &reply));
        }
        let batch: Batch = json(&what, &reply.body)?;
        if !matches!(batch.transfer.as_str(), "" | "basic") {
            return Err(cannot(format!(
                "offers the transfer '{}' alone",
                weir_units::quoted(&batch.transfer)
            )));
        }
        Ok(asked.iter().map(|pointer| self.address(&batch, pointer).map_err(&cannot)).collect())
    }

    fn address(&self, batch: &Batch, pointer: &Pointer) -> Result<Url, String> {
        let oid = pointer.digest.hex();
        let answered = batch.objects.iter().find(|object| object.oid.eq_ignore_ascii_case(&oid));
        let answered = answered.ok_or_else(|| format!("leaves out {oid}"))?;
        if let Some(Failed { code, message }) = &answered.error {
            return Err(format!("has {code} for {oid} ({})", weir_units::quoted(message)));
        }
        let action = answered.actions.as_ref().and_then(|actions| actions.download.as_ref());
        let action = action.ok_or_else(|| format!("says of {oid} no place"))?;
        let url = self.base.join(&action.href).ok();
        let is_safe = |url: &Url| url.scheme() == "https" || url.scheme() == self.base.scheme();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && is_safe(url));
        let url = url.ok_or_else(|| format!("names no address of the web for {oid}"))?;
        let legal = |text: &String| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let is_own = |name: &str| matches!(name, "host" | "range" | "content-length" | "transfer-encoding");
        let fields = action.header.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
        let fields = fields.filter(|(name, value)| legal(name) && legal(value) && !is_own(name));
        let mut fields: Vec<(String, String)> = fields.collect();
        // An action without credentials gets the login if it is on the API's own server.
        let has_own = is_authorized(&fields) || is_signed(&url);
        let wants_login = !answered.authenticated && !has_own && url.origin() == self.base.origin();
        let login = self.login.as_ref().filter(|_| wants_login);
        fields.extend(login.map(|login| ("authorization".to_owned(), basic_of(login))));
        let known = Known { pointer: pointer.clone(), fields };
        self.known.lock().insert(url.clone(), known);
        Ok(url)
    }

    fn known_of(&self, url: &Url) -> Option<(Pointer, Vec<(String, String)>)> {
        self.known.lock().get(url).map(|known| (known.pointer.clone(), known.fields.clone()))
    }
}

impl Authorizer for LfsAuthorizer {
    fn is_for(&self, url: &Url) -> bool {
        url.as_str().starts_with(self.base.as_str()) || self.known.lock().contains_key(url)
    }

    fn fields(
        &self,
        _: &str,
        url: &Url,
        given: &[(String, String)],
    ) -> Result<Vec<(String, String)>, GetError> {
        let fields = self.known_of(url).map(|(_, fields)| fields).unwrap_or_default();
        self.used.set(fields.clone());
        let has = |name: &str| given.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        Ok(fields.into_iter().filter(|(name, _)| !has(name)).collect())
    }

    /// An expired action: another one is asked for. If that is the same, it would be refused again.
    fn mends(&self, url: &Url, head: &ResponseHead, _: Option<&str>) -> Result<Mend, GetError> {
        let known = self.known_of(url).filter(|_| matches!(head.status, 401 | 403 | 404 | 410));
        let Some((pointer, fields)) = known else { return Ok(Mend::No) };
        let used = self.used.own().unwrap_or_default();
        // Another lane has asked meanwhile.
        if used != fields {
            return Ok(Mend::Again);
        }
        let asked = self.way.ask(&self.way.http, |caller| self.batch(caller, &[&pointer]));
        match asked.and_then(|found| found.into_iter().next().transpose()) {
            Ok(Some(next)) if next == *url => {
                let is_new = self.known_of(url).is_some_and(|(_, fields)| fields != used);
                Ok(if is_new { Mend::Again } else { Mend::No })
            }
            Ok(Some(next)) => Ok(Mend::At(Box::new(next))),
            Ok(None) => Ok(Mend::No),
            Err(error) => Err(as_get_error(error)),
        }
    }

    fn explains(&self, url: &Url, head: &ResponseHead, words: Option<&str>) -> Option<String> {
        let is_api = url.as_str().starts_with(self.base.as_str());
        let way = match (head.status, &self.login) {
            (401 | 403, Some(login)) if is_api => {
                format!("it does not let {} fetch objects; check -u or the line in ~/.netrc", login.login)
            }
            (401 | 403, None) if is_api => {
                "give -u USER:TOKEN, or a line for this host in ~/.netrc".to_owned()
            }
            (404, _) if is_api => "there is no such repository, or git-lfs is not used there".to_owned(),
            _ => return None,
        };
        Some(words.map_or(way.clone(), |words| format!("{words}; {way}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_what_the_specification_says() {
        let oid = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";
        let text = format!("{FIRST}\noid sha256:{oid}\nsize 12345\n");
        let pointer = Pointer::parse(text.as_bytes()).unwrap();
        assert_eq!((pointer.digest.hex().as_str(), pointer.size), (oid, 12345));
        let crlf = text.replace('\n', "\r\n");
        assert_eq!(Pointer::parse(crlf.as_bytes()), Some(pointer));
        for bad in [
            text.replace("v1", "v2"),
            text.replace("sha256", "sha1"),
            text.replace("size 12345\n", ""),
            text.replace("size 12345", "size -1"),
            text.clone() + &"x".repeat(1024),
            format!("\n{text}"),
        ] {
            assert_eq!(Pointer::parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(Pointer::parse(b""), None);
    }
}
