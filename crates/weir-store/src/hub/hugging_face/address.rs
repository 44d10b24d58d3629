//! What names something in a repository of the Hugging Face Hub: `hf://ORG/REPO[@REV][/PATH]`, before it
//! `datasets/` or `spaces/`.

use std::fmt;

/// The revision that is meant where none is named.
const MAIN: &str = "main";

/// The longest name of an organization or a repository, letters; the hub takes 96.
const MOST_NAME: usize = 96;

/// What a repository holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RepoKind {
    /// A model.
    Model,
    /// A dataset.
    Dataset,
    /// A space.
    Space,
}

impl RepoKind {
    const ALL: [RepoKind; 3] = [RepoKind::Model, RepoKind::Dataset, RepoKind::Space];

    /// `models`, as the API has it and the hub's cache.
    pub fn plural(self) -> &'static str {
        match self {
            RepoKind::Model => "models",
            RepoKind::Dataset => "datasets",
            RepoKind::Space => "spaces",
        }
    }

    /// What stands before the name in the addresses of pages and files.
    pub fn prefix(self) -> &'static str {
        match self {
            RepoKind::Model => "",
            RepoKind::Dataset => "datasets/",
            RepoKind::Space => "spaces/",
        }
    }
}

/// A repository.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Repo {
    /// What it holds.
    pub kind: RepoKind,
    /// `ORG/REPO`, or `REPO` of those without an organization.
    pub id: String,
}

impl fmt::Display for Repo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind.prefix(), self.id)
    }
}

/// Something in a repository.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HfUrl {
    /// The repository.
    pub repo: Repo,
    /// A branch, a tag, a commit, `refs/pr/N`.
    pub revision: String,
    /// A file, a folder or a pattern; empty: all of it. As it stands: nothing in it is decoded.
    pub path: String,
}

/// Why a text names nothing at a hub.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read '{text}': {why}")]
pub struct BadHubUrl {
    /// The text, on one line.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
}

impl BadHubUrl {
    /// Of `text`, which is shown: it holds no login.
    pub(in crate::hub) fn new(text: &str, why: impl Into<String>) -> BadHubUrl {
        BadHubUrl { text: weir_units::quoted(text), why: why.into() }
    }
}

impl HfUrl {
    /// What `text` names; `None` where it has not the scheme.
    pub fn parse(text: &str) -> Option<Result<HfUrl, BadHubUrl>> {
        let (scheme, rest) =
            text.split_once("://").filter(|(scheme, _)| scheme.eq_ignore_ascii_case("hf"))?;
        let holds_login = |text: &str| text.split('/').next().unwrap_or_default().contains(':');
        Some(match rest.rsplit_once('@') {
            // No name holds a colon: it parts a user from a password, which may hold a slash.
            Some((login, name)) if holds_login(login) => {
                let shown = format!("{scheme}://{name}");
                Err(BadHubUrl::new(&shown, "a login does not belong here; set HF_TOKEN"))
            }
            _ => HfUrl::read(rest).map_err(|why| BadHubUrl::new(text, why)),
        })
    }

    fn read(text: &str) -> Result<HfUrl, String> {
        if let Some(found) = weir_units::control(text) {
            return Err(format!("it holds {found}"));
        }
        let prefixed = RepoKind::ALL.into_iter().find_map(|kind| {
            let rest = text.strip_prefix(kind.plural())?.strip_prefix('/')?;
            Some((kind, rest))
        });
        let (kind, rest) = prefixed.unwrap_or((RepoKind::Model, text));
        let (first, behind) = rest.split_once('/').unwrap_or((rest, ""));
        // A revision ends the name: `gpt2@main/config.json` has no organization.
        let (name, rest) = match first.contains('@') || behind.is_empty() {
            true => (None, rest),
            false => (Some(first), behind),
        };
        let end = rest.find(['/', '@']).unwrap_or(rest.len());
        let (repo, rest) = rest.split_at(end);
        if repo.is_empty() && name.is_none() {
            return Err("expected a repository behind '//', as in hf://ORG/REPO".to_owned());
        }
        name.into_iter().chain([repo]).try_for_each(check_name)?;
        if let Some(name) = name.filter(|name| RepoKind::ALL.iter().any(|kind| kind.plural() == *name)) {
            return Err(format!("'{name}' is no organization; expected hf://[datasets/|spaces/]ORG/REPO"));
        }
        let (revision, path) = match rest.strip_prefix('@') {
            Some(rest) => revision_of(rest),
            None => (MAIN.to_owned(), rest.strip_prefix('/').unwrap_or_default()),
        };
        if revision.is_empty() {
            return Err("no revision stands behind '@'".to_owned());
        }
        // It becomes a path in the cache.
        if weir_tree::Name::new(revision.as_bytes()).is_err() || weir_units::control(&revision).is_some() {
            return Err(format!("'{}' is no revision", weir_units::quoted(&revision)));
        }
        let id = name.map_or_else(|| repo.to_owned(), |name| format!("{name}/{repo}"));
        Ok(HfUrl { repo: Repo { kind, id }, revision, path: path.to_owned() })
    }

    /// The last part of the repository's name.
    pub fn folder(&self) -> &str {
        self.repo.id.rsplit('/').next().unwrap_or_default()
    }
}

impl fmt::Display for HfUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.path.is_empty() { "" } else { "/" };
        let revision = match is_whole(&self.revision) {
            true => self.revision.replace('%', "%25"),
            false => self.revision.replace('%', "%25").replace('/', "%2F"),
        };
        write!(f, "hf://{}@{revision}{slash}{}", self.repo, self.path)
    }
}

/// The revision at the start of `text`, and the path behind it. Slashes belong to it in `refs/pr/N` and
/// `refs/convert/NAME`, or where they are written `%2F`.
fn revision_of(text: &str) -> (String, &str) {
    let slashes = if text.starts_with("refs/pr/") || text.starts_with("refs/convert/") { 2 } else { 0 };
    let end = text.match_indices('/').nth(slashes).map_or(text.len(), |(at, _)| at);
    let (revision, path) = text.split_at(end);
    let revision = percent_encoding::percent_decode_str(revision).decode_utf8_lossy().into_owned();
    (revision, path.strip_prefix('/').unwrap_or_default())
}

/// Whether its slashes need not be told from those of a path.
fn is_whole(revision: &str) -> bool {
    let (read, rest) = revision_of(revision);
    rest.is_empty() && !read.contains('%') && read == revision
}

fn check_name(name: &str) -> Result<(), String> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_name = !name.is_empty() && name.len() <= MOST_NAME && name.chars().all(is_legal);
    match is_name && !matches!(name, "." | "..") {
        true => Ok(()),
        false => Err(format!("'{name}' is no name of a repository; expected hf://ORG/REPO[@REV][/PATH]")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_its_revision_and_a_path() {
        for (text, repo, revision, path) in [
            ("hf://gpt2", "gpt2", "main", ""),
            ("hf://gpt2@v1/config.json", "gpt2", "v1", "config.json"),
            ("HF://o/r", "o/r", "main", ""),
            ("hf://o/r/", "o/r", "main", ""),
            ("hf://o/r/a/b?c#d", "o/r", "main", "a/b?c#d"),
            ("hf://o/r@v1.0/a@b", "o/r", "v1.0", "a@b"),
            ("hf://datasets/o/r@refs/pr/3/x", "datasets/o/r", "refs/pr/3", "x"),
            ("hf://datasets/o/r@refs/convert/parquet", "datasets/o/r", "refs/convert/parquet", ""),
            ("hf://spaces/o/r@a%2Fb/x", "spaces/o/r", "a/b", "x"),
            ("hf://models/o/r/x/", "o/r", "main", "x/"),
        ] {
            let url = HfUrl::parse(text).unwrap().unwrap();
            let found = (url.repo.to_string(), url.revision.as_str(), url.path.as_str());
            assert_eq!(found, (repo.to_owned(), revision, path), "{text}");
            assert_eq!(HfUrl::parse(&url.to_string()).unwrap().unwrap(), url, "{url}");
        }
        assert_eq!(HfUrl::parse("https://o/r"), None);
    }

    #[test]
    fn what_is_no_repository_is_refused() {
        for text in [
            "hf://",
            "hf:///r",
            "hf://o/r@",
            "hf://o r/x",
            "hf://../r",
            "hf://o/..",
            "hf://a\nb/c",
            "hf://o/r@..%2Fx",
            "hf://models/datasets/r",
            "hf://me:secret@o/r",
            "hf://me:se@cret@gpt2",
            "hf://me:se/cret@o/r",
        ] {
            let error = HfUrl::parse(text).unwrap().unwrap_err().to_string();
            assert!(!error.contains("cret") && !error.contains("me:"), "{text:?}: {error}");
        }
    }
}
