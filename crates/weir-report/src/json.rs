//! A record to JSON and back.

use std::io::{self, Write};

use crate::schema::{Record, SCHEMA};

/// A text that is not a record this weir reads.
#[derive(Debug)]
pub enum ParseError {
    /// Not JSON, or not a record.
    Malformed(serde_json::Error),
    /// A record of another kind or of a later version.
    Unknown {
        /// What it says it is.
        schema: String,
    },
}

/// Writes the record as one line of JSON.
pub fn render(record: &Record, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, record)?;
    out.write_all(b"\n")
}

/// Reads a record of this version or an older one.
pub fn parse(text: &str) -> Result<Record, ParseError> {
    let record: Record = serde_json::from_str(text).map_err(ParseError::Malformed)?;
    if record.schema == SCHEMA { Ok(record) } else { Err(ParseError::Unknown { schema: record.schema }) }
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ParseError::Malformed(_) => write!(f, "not a record of a run"),
            ParseError::Unknown { schema } => {
                write!(f, "record is '{}', this weir reads {SCHEMA}", crate::escape::escape(schema))
            }
        }
    }
}

impl std::error::Error for ParseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ParseError::Malformed(err) => Some(err),
            ParseError::Unknown { .. } => None,
        }
    }
}
