//! Why a filter rule is none.

/// A pattern that cannot match anything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid pattern '{pattern}': {why}")]
pub struct BadPattern {
    pub(crate) pattern: String,
    pub(crate) why: &'static str,
}

/// A rule that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRule {
    /// Its pattern.
    #[error(transparent)]
    Pattern(#[from] BadPattern),
    /// What is before its pattern.
    #[error("invalid filter rule '{rule}': {why}")]
    Rule {
        /// As it was written.
        rule: String,
        /// What is wrong with it.
        why: String,
    },
    /// The file that it names.
    #[error("cannot read the rules in {path}: {why}")]
    File {
        /// As it was written.
        path: String,
        /// Cause.
        why: String,
    },
    /// A rule in a file.
    #[error("{path}: {error}")]
    Within {
        /// The file.
        path: String,
        /// What is wrong in it.
        error: Box<BadRule>,
    },
    /// More than a message holds.
    #[error("more than 16384 filter rules, or 512 KiB of their patterns; name folders rather than files")]
    TooMany,
}
