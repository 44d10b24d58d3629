//! Files with credentials: where they are, and what can be wrong with them without a word of what they hold.

use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use weir_units::{Bytes, plain, read_text};

use crate::environment::Environment;
use crate::error::StoreError;

/// The largest file that is read. Hosts with a thousand profiles have half a megabyte.
const MOST: Bytes = Bytes(4 << 20);

/// The user's own folder.
pub fn home(environment: Environment<'_>) -> Option<PathBuf> {
    environment("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

/// `text` as a path, `~/` as the user's folder.
pub fn path(text: &str, environment: Environment<'_>) -> PathBuf {
    match (text.strip_prefix("~/"), home(environment)) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(text),
    }
}

/// The path in the variable `name`, if it is set.
pub fn named(environment: Environment<'_>, name: &str) -> Option<PathBuf> {
    environment(name).filter(|text| !text.is_empty()).map(|text| path(&text, environment))
}

/// `path` for a person: `~/.aws/config`.
pub fn shown(path: &Path, environment: Environment<'_>) -> String {
    match home(environment).and_then(|home| path.strip_prefix(home).ok().map(Path::to_owned)) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

/// What stands in the file at `path`; `None`: there is none.
pub fn text_if_any(path: &Path) -> Result<Option<String>, io::Error> {
    match read_text(path, MOST) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The same of a file that somebody has named.
pub fn text(path: &Path) -> Result<String, StoreError> {
    read_text(path, MOST).map_err(|error| cannot_read(path, plain(&error)))
}

/// JSON from a file, without a word of its content in an error.
pub fn json<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, StoreError> {
    read_json(text.as_bytes()).map_err(|why| cannot_read(path, why))
}

/// JSON with secrets; an error says where it goes wrong, and how, without what stands there.
pub fn read_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| {
        let what = match error.classify() {
            serde_json::error::Category::Eof => "ends too early",
            serde_json::error::Category::Data => "lacks a member, or has one of another kind, before",
            _ => "is no JSON",
        };
        format!("it {what} (line {}, column {})", error.line(), error.column())
    })
}

/// `cannot read FILE: CAUSE`.
pub fn cannot_read(path: &Path, cause: String) -> StoreError {
    StoreError::Credentials(format!("cannot read {}: {cause}", path.display()))
}
