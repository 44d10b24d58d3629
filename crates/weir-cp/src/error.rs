//! What can end a session.

use std::io;
use std::path::PathBuf;

use crate::secret::NoRandom;
use crate::wire::message::{Failure, FailureKind};
use crate::wire::{frame, record};

/// A session that cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// No random numbers.
    #[error(transparent)]
    Random(#[from] NoRandom),
    /// No thread.
    #[error("{}", weir_units::threads::words(.source))]
    Threads {
        /// Cause.
        source: io::Error,
    },
    /// ssh could not be started.
    #[error("cannot start {program}: {}{}", weir_units::plain(.source), install(.source))]
    Ssh {
        /// The program.
        program: String,
        /// Cause.
        source: io::Error,
    },
    /// A build for far hosts that is of no use.
    #[error("cannot use {} as --far-binary: {why}", .path.display())]
    FarBinary {
        /// The file.
        path: PathBuf,
        /// Cause, and a way out.
        why: String,
    },
    /// ssh ended before the far weir spoke.
    #[error("cannot reach {host}: {why}")]
    Unreachable {
        /// Whom.
        host: String,
        /// Cause, and a way out.
        why: String,
    },
    /// The far end speaks another protocol.
    #[error(
        "weir on {host} speaks protocol {theirs} (version {version}), this weir speaks {ours}; use the same version on both"
    )]
    Protocol {
        /// Whose.
        host: String,
        /// Its number.
        theirs: u16,
        /// Its version.
        version: String,
        /// This one's.
        ours: u16,
    },
    /// The far end is of another version, where only the same will do.
    #[error(
        "weir on {host} is version {theirs}, this weir is {ours}; install the same there, or leave out --far-program: then this one is copied there"
    )]
    Version {
        /// Whose.
        host: String,
        /// Its version.
        theirs: String,
        /// This one's.
        ours: String,
    },
    /// A frame that cannot be.
    #[error(
        "{host} sent {what}; it is faulty, or not weir, or what a login script there left running prints into its words"
    )]
    Frame {
        /// Who.
        host: String,
        /// What.
        what: frame::Malformed,
    },
    /// A message that does not belong where it came.
    #[error("{host} sent {what} out of turn; it is faulty, or not weir")]
    OutOfTurn {
        /// Who.
        host: String,
        /// What.
        what: &'static str,
    },
    /// The control connection broke.
    #[error("lost the connection to {host}{}", .why.as_deref().map(|why| format!(": {why}")).unwrap_or_default())]
    Lost {
        /// To whom.
        host: String,
        /// Cause, where one is known.
        why: Option<String>,
    },
    /// The far end gave up.
    #[error("{0}")]
    Far(Failure),
    /// Not to be done.
    #[error("{0}")]
    Refused(Failure),
    /// The user.
    #[error("interrupted")]
    Interrupted,
    /// No lane.
    #[error("no data connection to {host}: {why}")]
    NoLane {
        /// To whom.
        host: String,
        /// What was tried.
        why: String,
    },
}

/// What helps where there is no ssh.
fn install(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; install OpenSSH's client, or name another with -S",
        _ => "",
    }
}

/// Why a lane is over.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// Its bytes are not what they should be.
    #[error(transparent)]
    Malformed(#[from] record::Malformed),
    /// Its connection broke.
    #[error("{}", weir_units::plain(.0))]
    Io(#[from] io::Error),
    /// It was ended before its first record came.
    #[error(
        "taken and closed again without a word: strangers crowd the port, or something on the way closes it"
    )]
    LetGo,
    /// Who is there is not who should be.
    #[error("the lane's first record is not of this session")]
    Stranger,
}

impl CopyError {
    /// The same, said of this host where there are several.
    pub(crate) fn of(self, host: &str) -> CopyError {
        match self {
            CopyError::Far(Failure { kind, words }) => {
                CopyError::Far(Failure { kind, words: format!("{host}: {words}") })
            }
            other => other,
        }
    }

    /// Whether it says that this host is at fault: its connection or its words failed, or it ended the
    /// session.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        match self {
            CopyError::Lost { host, .. }
            | CopyError::Unreachable { host, .. }
            | CopyError::Frame { host, .. }
            | CopyError::OutOfTurn { host, .. } => host == name,
            CopyError::Far(Failure { words, .. }) | CopyError::Refused(Failure { words, .. }) => {
                words.strip_prefix(name).is_some_and(|rest| rest.starts_with(": "))
            }
            _ => false,
        }
    }

    /// The failure of files, and not of the session itself, that ended it.
    pub(crate) fn refusal(&self) -> Option<&Failure> {
        match self {
            CopyError::Far(failure) | CopyError::Refused(failure) => {
                Some(failure).filter(|failure| failure.kind != FailureKind::Session)
            }
            _ => None,
        }
    }

    /// What the other end has ended the session for.
    pub(crate) fn aborted(failure: Failure) -> CopyError {
        match failure.kind {
            FailureKind::Interrupted => CopyError::Interrupted,
            _ => CopyError::Far(failure),
        }
    }

    /// As the other end is told.
    pub(crate) fn to_failure(&self) -> Failure {
        match self {
            CopyError::Far(failure) | CopyError::Refused(failure) => failure.clone(),
            CopyError::Interrupted => Failure::new(FailureKind::Interrupted, "interrupted"),
            other => Failure::new(FailureKind::Session, other.to_string()),
        }
    }
}
