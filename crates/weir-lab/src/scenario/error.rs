//! What is wrong with a scenario file: its name, the line, the field.

use std::io;
use std::ops::Range;

/// Why a file is no scenario.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// It cannot be read.
    #[error("cannot read {file}")]
    Unreadable {
        /// As it was given.
        file: String,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// No scenario of that name comes with weir.
    #[error("no scenario is called '{name}'; weir lab list names them, and a path to a file works too")]
    Unknown {
        /// As it was given.
        name: String,
    },
    /// It says something that no scenario can say.
    #[error("{file}: line {line}: {field}: {why}")]
    Wrong {
        /// As it was given.
        file: String,
        /// Counted from 1.
        line: usize,
        /// Which field or table.
        field: String,
        /// What is wrong with it.
        why: String,
    },
}

/// A file and its text, to find the line of an error in.
pub(super) struct SourceText<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl SourceText<'_> {
    /// An error of the parser.
    pub(super) fn of(&self, error: &toml::de::Error) -> ScenarioError {
        let why = error.message().lines().collect::<Vec<_>>().join(", ");
        match error.span() {
            Some(span) => self.at(&span, &why),
            None => self.field("scenario", why),
        }
    }

    /// An error in the value at `span`.
    pub(super) fn at(&self, span: &Range<usize>, why: &str) -> ScenarioError {
        let start = span.start.min(self.text.len());
        let before = self.text.get(..start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let words = self.text.lines().nth(line - 1).unwrap_or_default();
        let column = before.rsplit('\n').next().unwrap_or_default().len();
        self.wrong(line, field_of(words, column), why.to_owned())
    }

    /// An error of a table or field known by its full name, such as `path.down`: on the line that begins it,
    /// or its nearest parent.
    pub(super) fn field(&self, name: &str, why: String) -> ScenarioError {
        let mut wanted = name;
        loop {
            let header = format!("[{wanted}");
            let key = wanted.rsplit('.').next().unwrap_or(wanted);
            let found = self.text.lines().position(|line| {
                let line = line.trim_start();
                line.trim_start_matches('[').starts_with(wanted) && line.starts_with('[')
                    || line.starts_with(&header)
                    || line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
            });
            match (found, wanted.rsplit_once('.')) {
                (Some(index), _) => return self.wrong(index + 1, name.to_owned(), why),
                (None, Some((parent, _))) => wanted = parent,
                (None, None) => return self.wrong(1, name.to_owned(), why),
            }
        }
    }

    fn wrong(&self, line: usize, field: String, why: String) -> ScenarioError {
        ScenarioError::Wrong { file: self.file.to_owned(), line, field, why }
    }
}

/// The key that the value at `column` belongs to: the last one before it, also within an inline table.
fn field_of(line: &str, column: usize) -> String {
    // At the key itself (an unknown one) or at the table's header, what begins there is the name.
    let before = line.get(..column).unwrap_or(line);
    let key = match before.rsplit_once('=') {
        Some((key, value)) if !value.contains([',', '{']) => key.rsplit(['{', ',']).next().unwrap_or(key),
        _ => {
            let rest = line.get(column..).unwrap_or_default();
            rest.split(['=', ']']).next().unwrap_or(rest)
        }
    };
    key.trim().trim_matches(['[', ']', '"', ' ']).to_owned()
}
