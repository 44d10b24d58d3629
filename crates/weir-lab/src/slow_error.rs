//! What a slow host could not be made of, and why: because this machine or its user does not allow it, or
//! because something went wrong.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::error::is_denial;

/// A part of a slow host that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("{attempt}")]
pub struct SlowError {
    attempt: String,
    #[source]
    cause: Option<io::Error>,
    is_refusal: bool,
}

impl SlowError {
    /// What this machine or its user does not allow, in words that say everything.
    pub(crate) fn refused(attempt: impl Into<String>) -> SlowError {
        SlowError { attempt: attempt.into(), cause: None, is_refusal: true }
    }

    /// What went wrong, and what the system said to it where it said something.
    pub(crate) fn failed(attempt: impl Into<String>, cause: Option<io::Error>) -> SlowError {
        SlowError { attempt: attempt.into(), cause, is_refusal: false }
    }

    /// What was attempted, and what the system said to it, which tells a refusal from a failure.
    pub(crate) fn caused(attempt: impl Into<String>, cause: impl Into<io::Error>) -> SlowError {
        let cause = cause.into();
        SlowError { attempt: attempt.into(), is_refusal: is_denial(&cause), cause: Some(cause) }
    }

    /// The same of something that fails only where it is not allowed.
    pub(crate) fn into_refusal(self) -> SlowError {
        SlowError { is_refusal: true, ..self }
    }

    /// Whether this machine or its user does not allow it, rather than something having gone wrong.
    pub fn is_refusal(&self) -> bool {
        self.is_refusal
    }
}

/// Writes one of the kernel's settings.
pub(crate) fn set(path: &Path, text: &str) -> Result<(), SlowError> {
    write_setting(path, text)
        .map_err(|cause| SlowError::caused(format!("cannot write {}", path.display()), cause))
}

/// The same, with the system's own answer. Nothing is made where there is no such setting: below some mounts
/// it would be a file that nothing reads.
pub(crate) fn write_setting(path: &Path, text: &str) -> io::Result<()> {
    File::options().write(true).open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_allowed_is_told_from_what_went_wrong() {
        let said = |number| SlowError::caused("cannot", io::Error::from_raw_os_error(number)).is_refusal();
        assert!([libc::EPERM, libc::EACCES, libc::EROFS, libc::ENOENT, libc::ENODEV].into_iter().all(said));
        assert!(![libc::ENOSPC, libc::EIO, libc::EINVAL, libc::EEXIST, libc::EMFILE].into_iter().any(said));
    }

    #[test]
    fn a_setting_that_is_not_there_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("io.max");
        assert!(set(&path, "1").unwrap_err().is_refusal());
        assert!(!path.exists());
        std::fs::write(&path, "").unwrap();
        set(&path, "1").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1");
    }
}
