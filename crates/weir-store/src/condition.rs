//! What must be at a key for an object to be stored or copied there.

/// When an object may be stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Condition {
    /// Whatever is there.
    #[default]
    None,
    /// If nothing is there (`If-None-Match: *`).
    Absent,
    /// If this is there (`If-Match`), a validator.
    Matches(String),
}

impl Condition {
    /// The field that makes a request one of this condition (RFC 9110, 13.1), as S3 and Azure take it too.
    pub(crate) fn field(&self) -> Option<(String, String)> {
        match self {
            Condition::None => None,
            Condition::Absent => Some(("if-none-match".to_owned(), "*".to_owned())),
            Condition::Matches(tag) => Some(("if-match".to_owned(), tag.clone())),
        }
    }
}
