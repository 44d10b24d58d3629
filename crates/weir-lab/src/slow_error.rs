//! What a slow host could not be made of, and why.

use std::io;
use std::path::Path;

/// Something this machine does not allow or does not have.
#[derive(Debug, thiserror::Error)]
#[error("{attempt}")]
pub struct SlowError {
    attempt: String,
    #[source]
    cause: Option<io::Error>,
}

impl SlowError {
    /// A refusal that says everything in its own words.
    pub fn new(attempt: impl Into<String>) -> SlowError {
        SlowError { attempt: attempt.into(), cause: None }
    }

    /// What was attempted, and what the system said to it.
    pub(crate) fn caused(attempt: impl Into<String>, cause: impl Into<io::Error>) -> SlowError {
        SlowError { attempt: attempt.into(), cause: Some(cause.into()) }
    }
}

/// Writes one of the kernel's settings.
pub(crate) fn set(path: &Path, text: &str) -> Result<(), SlowError> {
    std::fs::write(path, text)
        .map_err(|cause| SlowError::caused(format!("cannot write {}", path.display()), cause))
}
