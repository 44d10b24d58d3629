//! What can go wrong between weir and a store, and what helps.

use weir_get::GetError;

use crate::environment::End;

/// What stores call a fault of their own, which may have come after what was asked was done.
const FAULTS: [&str; 5] =
    ["InternalError", "internalError", "backendError", "OperationTimedOut", "RequestTimeout"];

/// A failed request, or one that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The way to the store, or an answer whose status says it.
    #[error(transparent)]
    Http(#[from] GetError),
    /// The store says no, by a code of its own.
    #[error("cannot {what}: {}{hint}", told(code, message))]
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
    /// The store says no, and no more than that.
    #[error("cannot {what}: {answer}")]
    Answered {
        /// What was asked, with its object.
        what: String,
        /// The answer.
        answer: Box<GetError>,
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

    /// The condition that the request was sent with does not hold.
    pub fn is_condition(&self) -> bool {
        // Amazon and Google's XML; Azure; Google's JSON.
        const CODES: [&str; 5] = [
            "PreconditionFailed",
            "ConditionNotMet",
            "TargetConditionNotMet",
            "BlobAlreadyExists",
            "conditionNotMet",
        ];
        self.is_one_of(&CODES, &[412])
    }

    /// The upload of parts that the request is for is there no more.
    pub fn is_of_no_upload(&self) -> bool {
        // Azure has no uploads: blocks are gone when another blob has taken the name meanwhile.
        self.is_one_of(&["NoSuchUpload", "InvalidBlockList"], &[])
    }

    /// Whoever asks may not do that.
    pub fn is_denied(&self) -> bool {
        const CODES: [&str; 5] = [
            "AccessDenied",
            "AllAccessDisabled",
            "forbidden",
            "AuthorizationFailure",
            "AuthorizationPermissionMismatch",
        ];
        self.is_one_of(&CODES, &[403])
    }

    /// The store does not know such requests: not every one that speaks as another does has all of them.
    pub fn is_unknown_request(&self) -> bool {
        self.is_one_of(&["NotImplemented", "MethodNotAllowed"], &[405, 501])
    }

    /// The store does not do that, or not for whoever asks: where there is another way, that is gone.
    pub fn is_withheld(&self) -> bool {
        self.is_unknown_request() || self.is_denied()
    }

    /// The store may have refused the form of the request: a parameter that it does not know.
    pub fn is_of_its_form(&self) -> bool {
        self.is_one_of(
            &["NotImplemented", "MethodNotAllowed", "InvalidArgument", "InvalidRequest", "UnsupportedHeader"],
            &[400, 405, 501],
        )
    }

    /// The same with what helps, where the store gave a code.
    #[must_use]
    pub fn with_hint(self, help: &str) -> StoreError {
        match self {
            StoreError::Refused { what, code, message, hint } if hint.is_empty() => {
                StoreError::Refused { what, code, message, hint: format!("; {help}") }
            }
            other => other,
        }
    }

    /// The store has answered: what was asked is not done. Of a fault on the way to it, or within it, nobody
    /// knows.
    pub fn is_answer(&self) -> bool {
        match self {
            StoreError::Refused { code, .. } => !FAULTS.contains(&code.as_str()),
            _ => matches!(self.status(), Some(300..=499 | 501)),
        }
    }

    /// The same, of one end of a copy, where a person would not know which is meant. What says it by itself
    /// (a file that has changed, a digest) stays as it is.
    #[must_use]
    pub fn at(self, end: End) -> StoreError {
        let end = end.name();
        let said = |what: String| if what.ends_with(end) { what } else { format!("{what} at the {end}") };
        match self {
            StoreError::Refused { what, code, message, hint } => {
                StoreError::Refused { what: said(what), code, message, hint }
            }
            StoreError::Answered { what, answer } => StoreError::Answered { what: said(what), answer },
            StoreError::Answer { what, why } => StoreError::Answer { what: said(what), why },
            StoreError::Credentials(why) => StoreError::Credentials(format!("{why} (for the {end})")),
            StoreError::Usage(why) => StoreError::Usage(format!("{why} (for the {end})")),
            StoreError::Http(answer)
                if !answer.is_verification() && !matches!(answer, GetError::Interrupted) =>
            {
                StoreError::Answered { what: format!("ask the {end}"), answer: Box::new(answer) }
            }
            other => other,
        }
    }

    /// The store asks to come back later: the same command may succeed then.
    pub fn is_for_later(&self) -> bool {
        match self {
            StoreError::Http(answer) => answer.is_for_later(),
            StoreError::Answered { answer, .. } => answer.is_for_later(),
            _ => false,
        }
    }

    /// If the store asks to come back later, the same error saying that `what` could not be done.
    pub(crate) fn of_later(self, what: &str) -> StoreError {
        match self {
            StoreError::Http(answer) if answer.is_for_later() => {
                StoreError::Answered { what: what.to_owned(), answer: Box::new(answer) }
            }
            other => other,
        }
    }

    /// The answer, or the fault on the way to it, without what was asked; itself, if there is none.
    pub fn into_answer(self) -> Result<GetError, StoreError> {
        match self {
            StoreError::Http(answer) => Ok(answer),
            StoreError::Answered { answer, .. } => Ok(*answer),
            other => Err(other),
        }
    }

    fn is_one_of(&self, codes: &[&str], statuses: &[u16]) -> bool {
        match self {
            StoreError::Refused { code, .. } => codes.contains(&code.as_str()),
            _ => self.status().is_some_and(|status| statuses.contains(&status)),
        }
    }

    /// The status of an answer without a code.
    fn status(&self) -> Option<u16> {
        let answer = match self {
            StoreError::Http(answer) => answer,
            StoreError::Answered { answer, .. } => &**answer,
            _ => return None,
        };
        let answer = match answer {
            GetError::ComeBack { cause, .. } => &**cause,
            other => other,
        };
        match answer {
            GetError::Status { status, .. } => Some(*status),
            _ => None,
        }
    }
}

/// Code and message; some stores have the code in the place of a message.
fn told(code: &str, message: &str) -> String {
    if message.is_empty() || message == code { code.to_owned() } else { format!("{code}: {message}") }
}

/// A foreign key on one line, and no longer than one.
pub fn shown(key: &str) -> String {
    key.chars().flat_map(char::escape_debug).take(200).collect()
}
