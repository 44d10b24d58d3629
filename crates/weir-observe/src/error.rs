//! Why a reading could not be taken, in words that name the source.

use std::{fmt, io};

use weir_model::evidence::Reading;
use weir_units::plain;

/// A reading that could not be taken.
#[derive(Debug)]
pub enum ObserveError {
    /// The system refused to hand it over: `cannot read /proc/vmstat: permission denied`.
    Unreadable {
        /// What was to be read, a path or a socket option.
        what: String,
        /// The system's answer.
        cause: io::Error,
    },
    /// It was handed over, but does not hold what this kernel file should: `unexpected /proc/vmstat: no
    /// nr_dirty`.
    Unexpected {
        /// What was read.
        what: String,
        /// What is wrong with it.
        found: Malformed,
    },
    /// There is nothing to read here, and the reason: a path on no disk, a thread that has ended.
    Absent(String),
}

/// Text from the kernel that a parser cannot use, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub String);

impl ObserveError {
    pub(crate) fn unreadable(what: impl Into<String>, cause: impl Into<io::Error>) -> ObserveError {
        ObserveError::Unreadable { what: what.into(), cause: cause.into() }
    }
}

impl fmt::Display for ObserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObserveError::Unreadable { what, cause } => write!(f, "cannot read {what}: {}", plain(cause)),
            ObserveError::Unexpected { what, found } => write!(f, "unexpected {what}: {found}"),
            ObserveError::Absent(why) => f.write_str(why),
        }
    }
}

/// The cause is part of [`ObserveError`]'s own text, so it is not also given as a source: a chain would print
/// it twice.
impl std::error::Error for ObserveError {}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

/// A result as the model takes it: the value, or the reason in words.
pub fn reading<T>(result: Result<T, impl fmt::Display>) -> Reading<T> {
    match result {
        Ok(value) => Reading::Value(value),
        Err(why) => Reading::Missing(why.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_as_one_lower_case_sentence() {
        let denied = ObserveError::unreadable("/proc/vmstat", io::Error::from_raw_os_error(libc::EACCES));
        assert_eq!(denied.to_string(), "cannot read /proc/vmstat: permission denied");
        let broken = ObserveError::unreadable("/dev/sda", io::Error::from_raw_os_error(libc::EIO));
        assert_eq!(broken.to_string(), "cannot read /dev/sda: input/output error");
        let odd =
            ObserveError::Unexpected { what: "/proc/stat".into(), found: Malformed("no cpu line".into()) };
        assert_eq!(reading::<()>(Err(odd)), Reading::Missing("unexpected /proc/stat: no cpu line".into()));
        assert_eq!(reading::<u8>(Ok::<_, ObserveError>(7)), Reading::Value(7));
    }
}
