//! The Hugging Face Hub, and what speaks as it does: which files a repository has at a commit.
//!
//! A revision is resolved to its commit first, and everything is fetched by the commit: a push in mid-flight
//! changes nothing. Large files have a SHA-256 (git-lfs's); of small ones the hub knows the id of git's blob.

mod address;
mod token;

use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;
use url::Url;
use weir_codec::digest::{Algorithm, Expected};
use weir_get::http::authority::Authorizer;
use weir_get::http::call::{AtHand, Reply};
use weir_get::http::credentials::without;
use weir_http::fields::Fields;
use weir_tree::{Filter, Name};

pub use address::{BadHubUrl, HfUrl, Repo, RepoKind};
use token::is_on;
pub use token::{HfAuthorizer, Token, home};

use super::asking::{call, get, got, json, leads_to};
use super::here::is_object_id;
use super::{Ending, HubFile, Listing};
use crate::caller::{Caller, refusal};
use crate::environment::Environment;
use crate::error::{StoreError, shown};
use crate::key;

/// The hub's own address.
const ENDPOINT: &str = "https://huggingface.co";

/// The most files of a repository that are listed; the hub's largest have a few 100,000.
const MAX_FILES: usize = 1_000_000;

/// The most pages of a list: one of 1,000 files each would be the most files.
const MAX_PAGES: usize = 10_000;

/// Redirects of a file's address within the hub: repositories are renamed.
const MAX_MOVES: usize = 5;

/// The hub as the user and the environment name it.
pub struct HuggingFace {
    endpoint: Url,
    /// The user's own fields (`-H`).
    fields: Vec<(String, String)>,
    authorizer: Arc<HfAuthorizer>,
}

/// What the tree API says of an entry.
#[derive(Debug, Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    oid: String,
    size: Option<u64>,
    lfs: Option<Large>,
}

/// A file that git-lfs keeps.
#[derive(Debug, Deserialize)]
struct Large {
    #[serde(default)]
    oid: String,
    size: Option<u64>,
}

/// What the revision API says.
#[derive(Debug, Deserialize)]
struct Revision {
    sha: Option<String>,
}

impl HuggingFace {
    /// By `HF_ENDPOINT`, with the user's token.
    ///
    /// # Errors
    /// A variable or a token that makes no sense, and `HF_HUB_OFFLINE`.
    pub fn new(
        environment: Environment<'_>,
        fields: Vec<(String, String)>,
    ) -> Result<HuggingFace, StoreError> {
        if is_on(environment, "HF_HUB_OFFLINE") {
            return Err(StoreError::Usage(
                "cannot ask the hub: HF_HUB_OFFLINE says that nobody is to; unset it".to_owned(),
            ));
        }
        let endpoint = endpoint(environment)?;
        let token = Token::find(environment)?;
        let authorizer = Arc::new(HfAuthorizer::new(endpoint.clone(), token));
        Ok(HuggingFace { endpoint, fields, authorizer })
    }

    /// Who speaks for requests to the hub.
    pub fn authorizer(&self) -> Arc<dyn Authorizer> {
        Arc::clone(&self.authorizer) as Arc<dyn Authorizer>
    }

    /// What is asked for `wanted`, before anything is known of it.
    pub fn first(environment: Environment<'_>, wanted: &HfUrl) -> Result<Url, StoreError> {
        api(&endpoint(environment)?, wanted, "tree", &wanted.revision, &wanted.path)
    }

    /// The files that `wanted` names, at the commit that its revision is now.
    pub fn list(&self, caller: &mut Caller<'_>, wanted: &HfUrl) -> Result<Listing, StoreError> {
        let is_pattern = wanted.path.contains(['*', '?', '[']);
        let is_folder = wanted.path.is_empty() || wanted.path.ends_with('/');
        if !is_pattern
            && !is_folder
            && let Some(listing) = self.one(caller, wanted)?
        {
            return Ok(listing);
        }
        let commit = self.commit(caller, wanted)?;
        let fixed = match is_pattern {
            // Up to the last slash before a wildcard nothing is a pattern.
            true => {
                let wild = wanted.path.find(['*', '?', '[']).unwrap_or_default();
                wanted.path[..wild].rsplit_once('/').map_or("", |(folder, _)| folder)
            }
            false => wanted.path.trim_end_matches('/'),
        };
        let (entries, seen) = self.tree(caller, wanted, &commit, fixed)?;
        let pin = match is_object_id(&commit) {
            true => commit,
            false => self.pin(caller, wanted, seen, entries.first())?.unwrap_or(commit),
        };
        let filter = is_pattern.then(|| pattern(&wanted.path)).transpose()?;
        let mut files = Vec::new();
        for entry in entries {
            let file = self.file(wanted, &pin, entry)?;
            if filter.as_ref().is_none_or(|filter| filter.takes(&file.name, false)) {
                files.push(file);
            }
        }
        if files.is_empty() {
            let what = if is_pattern { "matches" } else { "is" };
            return Err(StoreError::Usage(format!(
                "cannot fetch {wanted}: no file of {} at {} {what} '{}'",
                wanted.repo, wanted.revision, wanted.path
            )));
        }
        let folder = wanted.folder().to_owned();
        Ok(Listing { files, is_tree: true, folder, pin, ending: Ending::None })
    }

    /// The file that `wanted` names; `None` where that is none: a folder, perhaps.
    fn one(&self, caller: &mut Caller<'_>, wanted: &HfUrl) -> Result<Option<Listing>, StoreError> {
        let url = self.resolve(&wanted.repo, &wanted.revision, &wanted.path)?;
        let (url, reply) = self.head(caller, wanted, url)?;
        let is_entry = reply.head.header("x-error-code").is_none_or(|code| code == "EntryNotFound");
        match reply.head.status {
            200..400 => {}
            // Who does not know HEAD, and what is no file, is asked for the list.
            404 if is_entry => return Ok(None),
            405 | 501 => return Ok(None),
            _ => return Err(refusal(&format!("fetch {wanted}"), &call("HEAD", url, &[]), &reply)),
        }
        let fields = &reply.head.fields;
        let tag = fields.header("x-linked-etag").or(fields.header("etag")).unwrap_or_default();
        let tag = tag.trim_start_matches("W/").trim_matches('"').to_owned();
        let is_direct = reply.head.status < 300;
        let length = fields.header("x-linked-size").or(fields.header("content-length").filter(|_| is_direct));
        let size = length.and_then(|text| text.parse().ok());
        let commit = fields.header("x-repo-commit").filter(|commit| is_object_id(commit));
        let pin = commit.unwrap_or(&wanted.revision).to_owned();
        let entry = Entry {
            kind: "file".to_owned(),
            path: wanted.path.clone(),
            lfs: (tag.len() == 64).then(|| Large { oid: tag.clone(), size }),
            // An answer without a commit may come from any server, whose tag is not git's id.
            oid: if commit.is_some() { tag } else { String::new() },
            size,
        };
        let file = self.file(wanted, &pin, entry)?;
        let folder = wanted.folder().to_owned();
        Ok(Some(Listing { files: vec![file], is_tree: false, folder, pin, ending: Ending::None }))
    }

    /// The answer to a HEAD of a file's address; a redirect within the hub is followed, one to where the
    /// bytes are is the answer.
    fn head(
        &self,
        caller: &mut Caller<'_>,
        wanted: &HfUrl,
        mut url: Url,
    ) -> Result<(Url, Reply), StoreError> {
        let what = format!("fetch {wanted}");
        for _ in 0..=MAX_MOVES {
            let call = call("HEAD", url.clone(), &self.fields);
            let reply = caller.ask_to(&what, &call, &mut AtHand::default())?;
            let next = leads_to(&url, &reply).and_then(Result::ok);
            let is_moved = reply.head.header("x-repo-commit").is_none();
            match next.filter(|next| is_moved && next.origin() == url.origin()) {
                Some(next) => url = next,
                None => return Ok((url, reply)),
            }
        }
        let why = format!("leads on more than {MAX_MOVES} times");
        Err(StoreError::Answer { what, why })
    }

    /// The commit of the revision; the revision itself of a hub that does not say.
    fn commit(&self, caller: &mut Caller<'_>, wanted: &HfUrl) -> Result<String, StoreError> {
        if wanted.revision.len() == 40 && is_object_id(&wanted.revision) {
            return Ok(wanted.revision.clone());
        }
        let what = format!("look up {} of {}", wanted.revision, wanted.repo);
        let mut url = self.api(wanted, "revision", &wanted.revision, "")?;
        url.set_query(Some("expand=sha"));
        let (url, reply) = get(caller, &what, url, &self.fields)?;
        match reply.head.status {
            200..300 => {
                let found: Revision = json(&what, &reply.body)?;
                Ok(found.sha.filter(|sha| is_object_id(sha)).unwrap_or_else(|| wanted.revision.clone()))
            }
            // A lesser hub has no such address, and no code for it.
            400 | 404 | 405 | 501 if reply.head.header("x-error-code").is_none() => {
                Ok(wanted.revision.clone())
            }
            _ => Err(refusal(&what, &call("GET", url, &[]), &reply)),
        }
    }

    /// The commit as the tree's answer names it, or that of one of its files.
    fn pin(
        &self,
        caller: &mut Caller<'_>,
        wanted: &HfUrl,
        seen: Option<String>,
        first: Option<&Entry>,
    ) -> Result<Option<String>, StoreError> {
        let named = |reply: &Reply| {
            reply.head.header("x-repo-commit").filter(|commit| is_object_id(commit)).map(str::to_owned)
        };
        match (seen, first) {
            (Some(seen), _) => Ok(Some(seen)),
            (None, Some(first)) => {
                let url = self.resolve(&wanted.repo, &wanted.revision, &first.path)?;
                Ok(named(&self.head(caller, wanted, url)?.1))
            }
            (None, None) => Ok(None),
        }
    }

    /// The files below `folder`, page by page, and the commit where the answer names it.
    fn tree(
        &self,
        caller: &mut Caller<'_>,
        wanted: &HfUrl,
        commit: &str,
        folder: &str,
    ) -> Result<(Vec<Entry>, Option<String>), StoreError> {
        let what = format!("list {wanted}");
        let cannot = |why: String| StoreError::Answer { what: what.clone(), why };
        let mut next = self.api(wanted, "tree", commit, folder)?;
        next.set_query(Some("recursive=true"));
        let (mut entries, mut seen, mut pin) = (Vec::new(), HashSet::new(), None);
        loop {
            if !seen.insert(next.clone()) || seen.len() > MAX_PAGES {
                return Err(cannot(format!("has pages without end; its list came back to {}", next.path())));
            }
            // A mirror may lead on to the hub itself, which hears nothing that is for the mirror.
            let is_own = next.origin() == self.endpoint.origin();
            let (url, reply) = got(caller, &what, next, if is_own { &self.fields } else { &[] })?;
            entries.extend(entries_in(&what, &reply.body)?);
            if entries.len() > MAX_FILES {
                return Err(cannot(format!("has more than {MAX_FILES} files; name a folder of it")));
            }
            let named = reply.head.header("x-repo-commit").filter(|commit| is_object_id(commit));
            pin = pin.or(named.map(str::to_owned));
            match next_page(&url, &reply.head.fields).map_err(cannot)? {
                Some(page) => next = page,
                None => return Ok((entries, pin)),
            }
        }
    }

    /// The files of `wanted` that a page of its list has, at `commit`.
    pub fn files_in(&self, wanted: &HfUrl, commit: &str, page: &[u8]) -> Result<Vec<HubFile>, StoreError> {
        let entries = entries_in(&format!("list {wanted}"), page)?;
        entries.into_iter().map(|entry| self.file(wanted, commit, entry)).collect()
    }

    fn file(&self, wanted: &HfUrl, commit: &str, entry: Entry) -> Result<HubFile, StoreError> {
        let refused = |why: String| StoreError::Answer {
            what: format!("fetch {wanted}"),
            why: format!("names the file '{}': {why}; nothing was fetched", shown(&entry.path)),
        };
        let name = Name::new(entry.path.as_bytes()).map_err(|error| refused(error.to_string()))?;
        if name.is_root() || weir_units::control(&entry.path).is_some() {
            return Err(refused("no file has such a name".to_owned()));
        }
        let url = self.resolve(&wanted.repo, commit, &entry.path)?;
        let digest = match entry.lfs.as_ref().map(|large| large.oid.trim_start_matches("sha256:")) {
            Some(oid) => {
                Some(Expected::from_hex(Algorithm::SHA256, oid).map_err(|error| refused(error.to_string()))?)
            }
            None => None,
        };
        let size = entry.lfs.as_ref().and_then(|large| large.size).or(entry.size);
        let id = digest.as_ref().map_or(entry.oid, Expected::hex);
        Ok(HubFile { url, name, size, digest, id })
    }

    fn api(&self, wanted: &HfUrl, verb: &str, revision: &str, path: &str) -> Result<Url, StoreError> {
        api(&self.endpoint, wanted, verb, revision, path)
    }

    fn resolve(&self, repo: &Repo, revision: &str, path: &str) -> Result<Url, StoreError> {
        let path = format!("{repo}/resolve/{}/{}", key::in_query(revision), key::in_path(path)?);
        address(&self.endpoint, &path)
    }
}

/// The files that a page of a list has.
fn entries_in(what: &str, page: &[u8]) -> Result<Vec<Entry>, StoreError> {
    let entries: Vec<Entry> = json(what, page)?;
    Ok(entries.into_iter().filter(|entry| entry.kind == "file").collect())
}

/// The hub that is asked (`HF_ENDPOINT`), with a slash at its end. A login in it is left out: the hub knows
/// tokens, and what is said names the address.
fn endpoint(environment: Environment<'_>) -> Result<Url, StoreError> {
    let named = environment("HF_ENDPOINT").filter(|text| !text.is_empty());
    let text = named.as_deref().unwrap_or(ENDPOINT);
    let url = Url::parse(&format!("{}/", text.trim_end_matches('/')));
    let is_one = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    url.ok().filter(is_one).map(|url| without(&url)).ok_or_else(|| {
        StoreError::Usage(format!(
            "cannot use HF_ENDPOINT '{}': expected a URL, as in {ENDPOINT}",
            weir_units::quoted(text.rsplit('@').next().unwrap_or_default())
        ))
    })
}

fn api(endpoint: &Url, wanted: &HfUrl, verb: &str, revision: &str, path: &str) -> Result<Url, StoreError> {
    let (kind, id) = (wanted.repo.kind.plural(), &wanted.repo.id);
    let path = key::in_path(path.trim_end_matches('/'))?;
    let slash = if path.is_empty() { "" } else { "/" };
    address(endpoint, &format!("api/{kind}/{id}/{verb}/{}{slash}{path}", key::in_query(revision)))
}

fn address(endpoint: &Url, path: &str) -> Result<Url, StoreError> {
    let text = format!("{endpoint}{path}");
    Url::parse(&text).map_err(|error| StoreError::Usage(format!("cannot ask {text}: {error}")))
}

/// What takes the files that the pattern `path` names, and what is in the folders that it names.
fn pattern(path: &str) -> Result<Filter, StoreError> {
    let cannot = |error| StoreError::Usage(format!("cannot read the pattern '{}': {error}", shown(path)));
    let mut filter = Filter::new(false);
    let path = path.trim_end_matches('/');
    for pattern in [format!("/{path}"), format!("/{path}/***")] {
        filter.include(pattern.as_bytes()).map_err(cannot)?;
    }
    filter.exclude(b"*").map_err(cannot)?;
    Ok(filter)
}

/// The next page of a list (RFC 8288): the target of the `Link` whose relation is `next`. One that cannot be
/// read is an error: the list is longer than what is here.
fn next_page(url: &Url, fields: &Fields) -> Result<Option<Url>, String> {
    for link in fields.headers_all("link").flat_map(links_in) {
        let read = link.trim().strip_prefix('<').and_then(|rest| rest.split_once('>'));
        let (target, parameters) = read.map_or((None, link), |(target, rest)| (Some(target), rest));
        let is_next = |(name, value): (&str, &str)| {
            let mut relations = value.trim().trim_matches('"').split_ascii_whitespace();
            name.trim().eq_ignore_ascii_case("rel") && relations.any(|one| one.eq_ignore_ascii_case("next"))
        };
        if !parameters.split(';').filter_map(|one| one.split_once('=')).any(is_next) {
            continue;
        }
        return match target.map(|target| url.join(target)) {
            Some(Ok(next)) if next.scheme() == url.scheme() || next.scheme() == "https" => Ok(Some(next)),
            _ => Err("leads to a next page that is no address of the web".to_owned()),
        };
    }
    Ok(None)
}

/// The links of a field. A comma in a target or in quotes is part of a link.
fn links_in(value: &str) -> Vec<&str> {
    let (mut is_target, mut is_quoted) = (false, false);
    let ends = |letter: char| {
        match letter {
            '<' if !is_quoted => is_target = true,
            '>' if !is_quoted => is_target = false,
            '"' if !is_target => is_quoted = !is_quoted,
            _ => {}
        }
        letter == ',' && !is_target && !is_quoted
    };
    value.split(ends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_the_link_that_says_so() {
        let url = Url::parse("https://h/api?x=1").unwrap();
        let next = |value: &str| {
            let mut fields = Fields::default();
            fields.push("link", value).unwrap();
            next_page(&url, &fields)
        };
        let found = next("<https://h/api?x=1&cursor=a%3D>; rel=\"next\"").unwrap().unwrap();
        assert_eq!(found.as_str(), "https://h/api?x=1&cursor=a%3D");
        let found = next("</api?c=1>; rel=\"prev\", </api?c=3>; rel=next").unwrap().unwrap();
        assert_eq!(found.as_str(), "https://h/api?c=3");
        assert_eq!(next("<https://h/>; rel=\"last\"").unwrap(), None);
        // A comma ends a link only between two of them.
        let found = next("</api?at=a,b>; rel=\"prev\"; title=\"x, y\", </api?at=c,d>; rel=\"Next last\"");
        assert_eq!(found.unwrap().unwrap().as_str(), "https://h/api?at=c,d");
        assert!(next("<https://h/api?at=a; rel=\"next\"").is_err());
        assert!(next("https://h/api?at=a; rel=next").is_err());
        assert!(next("<http://h/>; rel=\"next\"").is_err());
    }
}
