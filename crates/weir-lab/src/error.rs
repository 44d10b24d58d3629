//! What can go wrong in the lab, and the way out.

use std::io;

use rustix::io::Errno;
use weir_units::plain;

/// What a namespace's sockets use where nothing else is asked for.
pub(crate) const CONGESTION_CONTROL: &str = "net.ipv4.tcp_congestion_control";

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
    /// Whether this machine or its user does not allow it, rather than something having gone wrong.
    pub fn is_refusal(&self) -> bool {
        match self {
            LabError::Refused { .. } => true,
            // Not every kernel has every congestion control. Of another name that is not there the file that
            // asks for it is wrong.
            LabError::Sysctl { name, cause, .. } => {
                is_denial(cause) && (cause.kind() != io::ErrorKind::NotFound || name == CONGESTION_CONTROL)
            }
            LabError::System { .. } | LabError::Path(_) | LabError::Trace { .. } => false,
        }
    }

    /// For `map_err`: what was attempted, as "cannot ...".
    pub(crate) fn system<E: Into<io::Error>>(attempt: impl Into<String>) -> impl FnOnce(E) -> LabError {
        let attempt = attempt.into();
        move |source| LabError::System { attempt, source: source.into() }
    }
}

/// Whether the system says that it does not allow something or has no such thing, rather than that it tried
/// and failed.
pub(crate) fn is_denial(cause: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(cause),
        Some(
            Errno::PERM
                | Errno::ACCESS
                | Errno::ROFS
                | Errno::NOENT
                | Errno::NODEV
                | Errno::NXIO
                | Errno::NOSYS
                | Errno::OPNOTSUPP
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sysctl_of_a_wrong_name_or_value_is_no_refusal() {
        let is_refusal = |name: &str, cause: Errno| {
            let (name, value, way_out) = (name.to_owned(), String::new(), String::new());
            LabError::Sysctl { name, value, cause: cause.into(), way_out }.is_refusal()
        };
        assert!(is_refusal(CONGESTION_CONTROL, Errno::PERM) && is_refusal(CONGESTION_CONTROL, Errno::NOENT));
        assert!(is_refusal("net.ipv4.tcp_rmem", Errno::ROFS));
        assert!(!is_refusal("net.ipv4.tcp_rmme", Errno::NOENT));
        assert!(!is_refusal("net.ipv4.tcp_rmem", Errno::INVAL));
    }
}
