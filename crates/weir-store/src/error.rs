//! What can go wrong between weir and a store, and what helps.

use weir_get::GetError;

/// A failed request, or one that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The way to the store, or an answer whose status says it.
    #[error(transparent)]
    Http(#[from] GetError),
    /// The store says no, by a code of its own.
    #[error("cannot {what}: {code}: {message}{hint}")]
    Refused {
        /// What was asked, with its object.
        what: String,
        /// `NoSuchUpload`.
        code: String,
        /// The store's words.
        message: String,
        /// What helps, behind `; `; empty where nothing is known.
        hint: String,
    },
    /// An answer that is not what was asked for.
    #[error("cannot {what}: the store's answer {why}")]
    Answer {
        /// What was asked, with its object.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// A key that cannot be asked for.
    #[error("cannot ask for the key '{}': {why}", shown(key))]
    Key {
        /// The key.
        key: String,
        /// Why.
        why: &'static str,
    },
    /// No credentials, or such as do not do.
    #[error("{0}")]
    Credentials(String),
    /// Something on this machine.
    #[error("{0}")]
    Local(String),
    /// Nothing of that name is there.
    #[error("{0}")]
    Absent(String),
    /// A file that cannot be sent.
    #[error("{0}")]
    Source(String),
    /// A file that is not what it was when its upload began.
    #[error("{0} changed while it was sent; run the same command again")]
    Changed(String),
    /// What the user said does not go together, or is missing.
    #[error("{0}")]
    Usage(String),
}

impl StoreError {
    /// The code of the store, where it gave one.
    pub fn code(&self) -> Option<&str> {
        match self {
            StoreError::Refused { code, .. } => Some(code),
            _ => None,
        }
    }
}

/// A foreign key on one line, and no longer than one.
pub fn shown(key: &str) -> String {
    key.chars().flat_map(char::escape_debug).take(200).collect()
}
