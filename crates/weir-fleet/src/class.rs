//! Why an object could not be moved, as far as it decides whether another attempt is worth while.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The class of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FailureClass {
    /// The source has no such object.
    Missing,
    /// The source is no longer what the manifest pinned.
    Changed,
    /// A digest differs from the one that it must have.
    Digest,
    /// The target cannot hold such a name, or something else has it.
    Name,
    /// The request or the object is none that can be served, whoever asks.
    Invalid,
    /// This host may not: it may lack credentials that others have.
    Denied,
    /// The target has no space left.
    Space,
    /// The path to the source or the target broke, or was silent for too long.
    Network,
    /// The other side asks for patience (429, 503).
    Busy,
    /// The other side failed (5xx).
    Server,
    /// A file or a disk of the worker's host failed.
    Local,
    /// Workers that held it were never heard of again, each time.
    Poisoned,
    /// Anything else.
    Other,
}

impl FailureClass {
    /// All of them, as a table has them.
    pub const ALL: [FailureClass; 13] = [
        FailureClass::Missing,
        FailureClass::Changed,
        FailureClass::Digest,
        FailureClass::Name,
        FailureClass::Invalid,
        FailureClass::Denied,
        FailureClass::Space,
        FailureClass::Network,
        FailureClass::Busy,
        FailureClass::Server,
        FailureClass::Local,
        FailureClass::Poisoned,
        FailureClass::Other,
    ];

    /// As the ledger's tables call it.
    pub fn name(self) -> &'static str {
        match self {
            FailureClass::Missing => "missing",
            FailureClass::Changed => "changed",
            FailureClass::Digest => "digest",
            FailureClass::Name => "name",
            FailureClass::Invalid => "invalid",
            FailureClass::Denied => "denied",
            FailureClass::Space => "space",
            FailureClass::Network => "network",
            FailureClass::Busy => "busy",
            FailureClass::Server => "server",
            FailureClass::Local => "local",
            FailureClass::Poisoned => "poisoned",
            FailureClass::Other => "other",
        }
    }

    /// By its name.
    pub fn parse(name: &str) -> Option<FailureClass> {
        FailureClass::ALL.into_iter().find(|class| class.name() == name)
    }

    /// Another attempt, by any host, would end the same.
    pub fn is_permanent(self) -> bool {
        matches!(
            self,
            FailureClass::Missing
                | FailureClass::Changed
                | FailureClass::Digest
                | FailureClass::Name
                | FailureClass::Invalid
                | FailureClass::Poisoned
        )
    }

    /// Another host may succeed where this one did not.
    pub fn is_of_the_host(self) -> bool {
        matches!(self, FailureClass::Denied | FailureClass::Local | FailureClass::Network)
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
