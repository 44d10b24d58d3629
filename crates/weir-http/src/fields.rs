//! Header fields: names without regard to case, values as text, in the order in which they came.

use crate::grammar;

/// A line that is not `Name: value`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// No colon.
    #[error("invalid header '{line}': expected 'Name: value'")]
    NoColon {
        /// What was given.
        line: String,
    },
    /// The name is no token (RFC 9110 section 5.1).
    #[error("invalid header name '{name}': expected letters, digits and -, without spaces")]
    Name {
        /// What was given.
        name: String,
    },
    /// A line break or another control character, which would start a header of its own.
    #[error("invalid value of header {name}: it holds a control character; remove line breaks from it")]
    Value {
        /// Whose value it is.
        name: String,
    },
}

/// A field that may come once came with several values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{name} comes twice with different values")]
pub struct Contradiction {
    /// The field's name in lower case.
    pub name: &'static str,
}

/// The fields of one message.
///
/// A value that is valid UTF-8 is taken as such; any other is read as ISO-8859-1 (RFC 9110 section 5.5), so
/// that no byte is lost. Surrounding whitespace is removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// No fields yet.
    pub fn new() -> Fields {
        Fields::default()
    }

    /// The first value of `name`.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers_all(name).next()
    }

    /// The value of a field that a message may carry once. Lines that repeat it word for word are one; an
    /// error where they differ, since every reader may then believe another.
    pub fn single(&self, name: &'static str) -> Result<Option<&str>, Contradiction> {
        let mut values = self.headers_all(name);
        let first = values.next();
        match values.all(|value| Some(value) == first) {
            true => Ok(first),
            false => Err(Contradiction { name }),
        }
    }

    /// Every value of `name`, in order.
    pub fn headers_all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The members of a comma-separated field over all its lines (RFC 9110 section 5.6.1), at most 64 of
    /// them.
    pub fn members<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.headers_all(name)
            .filter(|value| value.len() <= grammar::MAX_VALUE)
            .flat_map(|value| grammar::split(value, ','))
            .take(grammar::MAX_MEMBERS)
    }

    /// Every field as (name, value), in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a field after the others, refusing what would not survive on the wire.
    pub fn push(&mut self, name: &str, value: &str) -> Result<(), FieldsError> {
        if !grammar::is_token(name) {
            return Err(FieldsError::Name { name: weir_units::quoted(name) });
        }
        if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
            return Err(FieldsError::Value { name: weir_units::quoted(name) });
        }
        self.0.push((name.to_owned(), grammar::trim(value).to_owned()));
        Ok(())
    }

    /// Removes every field called `name`.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(found, _)| !found.eq_ignore_ascii_case(name));
    }

    /// Adds a field written as people write it after `-H`: `Name: value`.
    pub fn push_line(&mut self, line: &str) -> Result<(), FieldsError> {
        let (name, value) =
            line.split_once(':').ok_or_else(|| FieldsError::NoColon { line: weir_units::quoted(line) })?;
        self.push(grammar::trim(name), value)
    }

    /// Takes over what httparse has found.
    pub(crate) fn from_parsed(parsed: &[httparse::Header<'_>]) -> Fields {
        Fields::from_checked(parsed.iter().map(|header| (header.name, header.value)))
    }

    /// Takes over what a parser of messages has found: names that are tokens, values without control
    /// characters.
    pub fn from_checked<'a>(parsed: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Fields {
        let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
            Ok(text) => grammar::trim(text).to_owned(),
            Err(_) => grammar::trim(&latin1(bytes)).to_owned(),
        };
        Fields(parsed.into_iter().map(|(name, value)| (name.to_owned(), text(value))).collect())
    }

    /// Writes `Name: value\r\n` for each field.
    pub(crate) fn write(&self, out: &mut String) {
        for (name, value) in self.iter() {
            out.extend([name, ": ", value, "\r\n"]);
        }
    }
}

/// Bytes as ISO-8859-1, where each byte is the character of the same number.
pub(crate) fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Fields {
    fn from(fields: [(&str, &str); N]) -> Fields {
        Fields(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_have_no_case_and_lists_join() {
        let fields = Fields::from([("Accept", "a, b"), ("X", "1"), ("ACCEPT", "c")]);
        assert_eq!(fields.header("accept"), Some("a, b"));
        assert_eq!(fields.members("Accept").collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(fields.header("y"), None);
    }

    #[test]
    fn refuses_what_would_break_the_message() {
        let mut fields = Fields::new();
        fields.push_line("X-Token:  abc ").unwrap();
        assert_eq!(fields.header("x-token"), Some("abc"));
        assert!(matches!(fields.push("A B", "1"), Err(FieldsError::Name { .. })));
        assert!(matches!(fields.push("A", "1\r\nHost: evil"), Err(FieldsError::Value { .. })));
        assert_eq!(
            fields.push_line("nonsense").unwrap_err().to_string(),
            "invalid header 'nonsense': expected 'Name: value'"
        );
    }

    proptest! {
        #[test]
        fn what_push_accepts_stays_one_line(name: String, value: String) {
            let mut fields = Fields::new();
            if fields.push(&name, &value).is_ok() {
                let mut line = String::new();
                fields.write(&mut line);
                prop_assert_eq!(line.matches(['\r', '\n']).count(), 2);
            }
        }
    }
}
