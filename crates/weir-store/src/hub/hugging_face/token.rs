//! The token of the user, from where the hub's own library takes it, and who may hear it.

use std::path::PathBuf;

use url::Url;
use weir_get::GetError;
use weir_get::http::authority::{Authorizer, Mend, is_authorized};
use weir_http::head::ResponseHead;
use weir_units::Bytes;

use crate::credentials::files;
use crate::environment::Environment;
use crate::error::StoreError;

/// A token is a line; the file may hold a comment.
const MAX_TOKEN: Bytes = Bytes(4096);

/// A token, and where it was found.
#[derive(Clone)]
pub struct Token {
    secret: String,
    /// `HF_TOKEN`, or a file.
    pub origin: String,
}

impl Token {
    /// The user's: `HF_TOKEN`, else the file that `hf auth login` writes. `None`: there is none, or the user
    /// does not want it shown (`HF_HUB_DISABLE_IMPLICIT_TOKEN`).
    pub fn find(environment: Environment<'_>) -> Result<Option<Token>, StoreError> {
        if is_on(environment, "HF_HUB_DISABLE_IMPLICIT_TOKEN") {
            return Ok(None);
        }
        for name in ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"] {
            if let Some(secret) = environment(name).filter(|text| !text.trim().is_empty()) {
                return Token::new(secret.trim(), name.to_owned()).map(Some);
            }
        }
        let path = files::named(environment, "HF_TOKEN_PATH");
        let Some(path) = path.or_else(|| Some(home(environment)?.join("token"))) else { return Ok(None) };
        let text = match weir_units::read_text(&path, MAX_TOKEN) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(StoreError::Credentials(format!(
                    "cannot read the token in {}: {}; set HF_TOKEN, or remove the file",
                    path.display(),
                    weir_units::plain(&error)
                )));
            }
        };
        match text.trim() {
            "" => Ok(None),
            secret => Token::new(secret, path.display().to_string()).map(Some),
        }
    }

    fn new(secret: &str, origin: String) -> Result<Token, StoreError> {
        if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(StoreError::Credentials(format!(
                "the token of {origin} has letters that no token has; copy it again from the hub's page of tokens"
            )));
        }
        Ok(Token { secret: secret.to_owned(), origin })
    }
}

/// Whether a variable says yes, as the hub's library reads it.
pub(super) fn is_on(environment: Environment<'_>, name: &str) -> bool {
    let said = environment(name).unwrap_or_default();
    ["1", "on", "yes", "true"].iter().any(|yes| said.eq_ignore_ascii_case(yes))
}

/// Where the hub's library keeps what is its own (`HF_HOME`).
pub fn home(environment: Environment<'_>) -> Option<PathBuf> {
    let own = |name: &str| files::named(environment, name);
    let cache = || own("XDG_CACHE_HOME").or_else(|| Some(files::home(environment)?.join(".cache")));
    own("HF_HOME").or_else(|| Some(cache()?.join("huggingface")))
}

/// Shows the token to the hub, and to nobody whom it redirects to.
pub struct HfAuthorizer {
    endpoint: Url,
    token: Option<Token>,
}

impl HfAuthorizer {
    /// At `endpoint`.
    pub fn new(endpoint: Url, token: Option<Token>) -> HfAuthorizer {
        HfAuthorizer { endpoint, token }
    }
}

impl Authorizer for HfAuthorizer {
    fn is_for(&self, url: &Url) -> bool {
        url.origin() == self.endpoint.origin() && url.path().starts_with(self.endpoint.path())
    }

    fn fields(
        &self,
        _: &str,
        _: &Url,
        given: &[(String, String)],
    ) -> Result<Vec<(String, String)>, GetError> {
        let token = self.token.as_ref().filter(|_| !is_authorized(given));
        Ok(token
            .map(|token| ("authorization".to_owned(), format!("Bearer {}", token.secret)))
            .into_iter()
            .collect())
    }

    fn mends(&self, _: &Url, _: &ResponseHead, _: Option<&str>) -> Result<Mend, GetError> {
        Ok(Mend::No)
    }

    fn explains(&self, url: &Url, head: &ResponseHead, words: Option<&str>) -> Option<String> {
        let asked = Asked::of(&self.endpoint, url)?;
        let page = format!("{}{}", self.endpoint, asked.repo);
        let words = words.unwrap_or_default();
        let code = head.header("x-error-code").unwrap_or_default();
        // Lesser hubs have no codes.
        let is_gated =
            code == "GatedRepo" || code.is_empty() && matches!(head.status, 401 | 403) && says_gated(words);
        let way = match (code, head.status) {
            _ if is_gated => self.gated(&page),
            ("RevisionNotFound", _) => {
                format!("there is no branch, tag or commit '{}' in {}", asked.revision, asked.repo)
            }
            ("EntryNotFound", _) => {
                format!("there is no '{}' in {} at {}", asked.path, asked.repo, asked.revision)
            }
            ("RepoNotFound", _) | ("", 404) => self.missing(&asked.repo),
            (_, 401) => match &self.token {
                Some(token) => format!(
                    "the hub does not take the token of {}; make a new one at {}settings/tokens",
                    token.origin, self.endpoint
                ),
                None => self.missing(&asked.repo),
            },
            (_, 403) => match &self.token {
                Some(token) => format!("the token of {} may not read {}", token.origin, asked.repo),
                None => "it wants a token: set HF_TOKEN, or log in with hf auth login".to_owned(),
            },
            _ => return None,
        };
        // A code that is all there is to repeat says less than the sentence.
        let words = if words == code { "" } else { words };
        Some(if words.is_empty() { way } else { format!("{words}; {way}") })
    }
}

impl HfAuthorizer {
    fn gated(&self, page: &str) -> String {
        match &self.token {
            Some(token) => format!(
                "the account of the token of {} has not accepted its terms, or waits for an answer: accept them at {page}",
                token.origin
            ),
            None => format!(
                "accept its terms at {page}, then show that account's token: set HF_TOKEN, or log in with hf \
                 auth login"
            ),
        }
    }

    /// The hub does not say whether a repository is private or not there.
    fn missing(&self, repo: &str) -> String {
        match &self.token {
            Some(token) => {
                format!("there is no repository {repo}, or the token of {} may not read it", token.origin)
            }
            None => format!(
                "there is no repository {repo}, or it is private: then set HF_TOKEN, or log in with hf auth login"
            ),
        }
    }
}

fn says_gated(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    ["gated", "restricted", "authorized list", "ask for access"].iter().any(|word| words.contains(word))
}

/// What a request to the hub was for.
struct Asked {
    repo: String,
    revision: String,
    path: String,
}

impl Asked {
    /// By the address: `api/models/ORG/REPO/tree/REV/PATH`, `ORG/REPO/resolve/REV/PATH`.
    fn of(endpoint: &Url, url: &Url) -> Option<Asked> {
        let rest = url.path().strip_prefix(endpoint.path())?.trim_start_matches('/');
        let rest = rest.strip_prefix("api/").unwrap_or(rest);
        let rest = rest.strip_prefix("models/").unwrap_or(rest);
        let decoded =
            |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
        let verbs = ["/resolve/", "/tree/", "/revision/"];
        let (repo, behind) = verbs.iter().find_map(|verb| rest.split_once(verb)).unwrap_or((rest, ""));
        let (revision, path) = behind.split_once('/').unwrap_or((behind, ""));
        Some(Asked { repo: decoded(repo), revision: decoded(revision), path: decoded(path) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_where_the_library_finds_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("huggingface")).unwrap();
        std::fs::write(folder.path().join("huggingface/token"), "hf_file\n").unwrap();
        let cache = folder.path().display().to_string();
        let found = |pairs: &[(&str, &str)]| {
            let of =
                |name: &str| pairs.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
            Token::find(&of).map(|token| token.map(|token| token.secret))
        };
        assert_eq!(found(&[]).unwrap(), None);
        assert_eq!(found(&[("XDG_CACHE_HOME", &cache)]).unwrap().as_deref(), Some("hf_file"));
        let both = [("XDG_CACHE_HOME", cache.as_str()), ("HF_TOKEN", " hf_own ")];
        assert_eq!(found(&both).unwrap().as_deref(), Some("hf_own"));
        assert_eq!(found(&[("HF_TOKEN_PATH", "/none/such")]).unwrap(), None);
        for (name, value) in [("HF_HOME", "~/huggingface"), ("HF_TOKEN_PATH", "~/huggingface/token")] {
            let found = found(&[("HOME", &cache), (name, value)]).unwrap();
            assert_eq!(found.as_deref(), Some("hf_file"), "{name}");
        }
        let empty = [("XDG_CACHE_HOME", cache.as_str()), ("HF_TOKEN_PATH", "")];
        assert_eq!(found(&empty).unwrap().as_deref(), Some("hf_file"));
        let error = found(&[("HF_TOKEN", "hf_ä")]).unwrap_err().to_string();
        assert!(error.contains("HF_TOKEN") && !error.contains('ä'), "{error}");
        // Neither of them is shown where the user says so.
        for (said, is_shown) in [("1", false), ("True", false), ("ON", false), ("0", true), ("", true)] {
            let found = found(&[both[0], both[1], ("HF_HUB_DISABLE_IMPLICIT_TOKEN", said)]).unwrap();
            assert_eq!(found.is_some(), is_shown, "{said}");
        }
    }

    #[test]
    fn who_is_offline_asks_nobody() {
        for (said, is_open) in [("1", false), ("yes", false), ("", true), ("no", true)] {
            let of = |name: &str| (name == "HF_HUB_OFFLINE").then(|| said.to_owned());
            let error = super::super::HuggingFace::new(&of, Vec::new()).err();
            assert_eq!(error.is_none(), is_open, "{said}");
            assert!(error.is_none_or(|error| error.to_string().contains("HF_HUB_OFFLINE")));
        }
    }

    #[test]
    fn the_token_is_for_the_hub_alone() {
        let endpoint = Url::parse("http://127.0.0.1:9/hub/").unwrap();
        let authorizer =
            HfAuthorizer::new(endpoint, Some(Token::new("hf_x", "HF_TOKEN".to_owned()).unwrap()));
        for (url, is) in [
            ("http://127.0.0.1:9/hub/o/r", true),
            ("http://127.0.0.1:9/other", false),
            ("http://127.0.0.1:8/hub/o/r", false),
            ("https://127.0.0.1:9/hub/o/r", false),
        ] {
            assert_eq!(authorizer.is_for(&Url::parse(url).unwrap()), is, "{url}");
        }
        let asked = Asked::of(
            &authorizer.endpoint,
            &Url::parse("http://h/hub/datasets/o/r/resolve/a%2Fb/x%20y/z").unwrap(),
        )
        .unwrap();
        assert_eq!((asked.repo.as_str(), asked.revision.as_str()), ("datasets/o/r", "a/b"));
        assert_eq!(asked.path, "x y/z");
    }
}
