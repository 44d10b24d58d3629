//! What can go wrong in the lab, and the way out.

use std::io;

use weir_units::plain;

/// Why the lab could not do something.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A system call failed.
    #[error("{attempt}")]
    System {
        /// What was attempted, on what: `cannot open /dev/net/tun`.
        attempt: String,
        /// What the system says.
        source: io::Error,
    },
    /// A system call failed for a reason that the user can do something about.
    #[error("{attempt}: {}; {way_out}", plain(cause))]
    Refused {
        /// What was attempted, on what.
        attempt: String,
        /// What the system says.
        cause: io::Error,
        /// What would allow it.
        way_out: &'static str,
    },
    /// A path with impossible values.
    #[error("invalid path: {0}")]
    Path(String),
    /// A trace of delivery opportunities with an error.
    #[error("invalid trace: line {line}: {why}")]
    Trace {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A value that cannot be set in a namespace.
    #[error("cannot set {name} to '{value}': {}; {way_out}", plain(cause))]
    Sysctl {
        /// Its name, with dots.
        name: String,
        /// The value wanted.
        value: String,
        /// What the system says.
        cause: io::Error,
        /// What would allow it, or what works anyway.
        way_out: String,
    },
}

impl LabError {
    /// For `map_err`: what was attempted, as "cannot ...".
    pub(crate) fn system<E: Into<io::Error>>(attempt: impl Into<String>) -> impl FnOnce(E) -> LabError {
        let attempt = attempt.into();
        move |source| LabError::System { attempt, source: source.into() }
    }
}
